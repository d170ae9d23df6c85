/*
   Block IDR(s): one recurrence for the right-hand sides that KSPMatSolve() solves at the same time. Its vectors are blocks of m
   columns, which are the vectors of the slots, and its coefficients are m x m matrices.

     Q S = B - A X, m columns     m is the rank, R = Q at first, r_j = R S_j belongs to right-hand side j
     step k of a cycle, k < s                                          omega step
       M(k:s,k:s) c = f(k:s) T,  T from f(k:s)                           P = B^{-1}R
       U_k = omega B^{-1}(R T - G(:,k:s) c) + U(:,k:s) c                 T = A P
       G_k = A U_k                                                       P^H T, P^H R, <T,T>, <T,R>, <R,R>      one reduction
       P^H G_k, R^H R                          one reduction
       alpha, M_k, beta_k, f                                             omega, f = P^H R - omega P^H T
       G_k -= G(:,0:k) alpha                                             U_k -= U(:,0:k) alpha of step k, k = 1 ... s - 1
       R -= G_k beta_k                                                   Z += omega P + U beta,  R -= omega T

   T makes the columns of R T nearly orthogonal. In exact arithmetic it changes nothing. Without it the recurrence loses its
   digits when columns of R become nearly parallel, as they do if some converge first.

   The solution of right-hand side j is x_j + (Z + U beta) S_j, and ||r_j|| follows from R^H R. Reports and verification are the
   same as in single recurrences. Reliable updates and the limit of growth use the same functions, with the Frobenius norm of R.
   After a breakdown, too much growth, or IDRS_BLOCK_MAX_STAGNATION steps without a smaller residual, the remaining right-hand sides
   continue with single recurrences.
*/
#include "idrsimpl.h"

/* Number of steps without a smaller residual after which single recurrences are tried */
#define IDRS_BLOCK_MAX_STAGNATION 100

/* Single recurrences have another shadow space. They would stagnate if they continued with a part of this shadow space */
#define IDRS_BLOCK_SEED (UINT64_C(1) << 62)

/* A remainder of a residual below this part of its tolerance needs no column of Q: the residual meets the tolerance without it */
#define IDRS_BLOCK_NEGLIGIBLE 0.1

/* A remainder of a residual below this part of its norm is rounding error */
#define IDRS_BLOCK_ROUNDING (1e3 * PETSC_MACHINE_EPSILON)

/* A remainder below this part of the norm waits for the next Gram matrix, because rounding errors of this one are as large */
#define IDRS_BLOCK_DEFLATION 1e-2

/* Reasons to end */
#define IDRS_BLOCK_BROKEN "the block recurrence has broken down"
#define IDRS_BLOCK_GROWN  "its residuals have grown too far"

/*
   A block recurrence. Columns in `cols` have the norms of their r. The sums of a step are listed with their coefficients, and block
   combine computes them together, so that the back end reads common vectors once
*/
typedef struct {
  KSPIDRSColumns   cols;               /* right-hand sides */
  KSPIDRSColumns   owners;             /* the m slots whose vectors are the columns of the blocks */
  IDRSWorkspace    work;               /* of the first slot, for the operations on blocks */
  PetscBool        separate, diagonal; /* the preconditioner is applied between V and U_k, or by block combine */
  IDRSBlockVec    *G, *U;              /* the columns of step k begin at k m */
  IDRSBlockVec    *Z, *V, *T, *R, *P;  /* R follows T; P, of the omega step, is V or R */
  IDRSBlockScalars algebra;
  IDRSBlockBounds  bounds;
  IDRSBlockNorms   norms;   /* of this step */
  PetscScalar     *results; /* the sums of the last projection */

  PetscInt       sums, operands; /* the sums that block combine will compute, and the operands of all of them */
  IDRSBlockAxpy *sum;
  IDRSBlockVec  *x;
  PetscScalar   *C; /* the coefficients, of leading dimension ld */
  PetscInt       ld;

  PetscInt      k, columns; /* step, and columns of U whose beta has not been added to Z */
  PetscInt      filled;     /* columns of G and U that are not zero */
  PetscInt      its;        /* completed iterations */
  PetscBool     directed;   /* the first sum of the direction has been computed */
  KSPIDRSTrust  trust;      /* Frobenius norms of R, and failed verifications */
  PetscReal     smallest;   /* Frobenius norm of R so far, */
  PetscInt      stagnation; /* and the steps since then */
  KSPIDRSReason why;        /* why remaining right-hand sides continue with single recurrences, or NULL */
} KSPIDRSBlockRun;

/* Begins a sum Y = ..., or Y += ..., without terms */
static IDRSBlockAxpy *KSPIDRSBlockAddSum(KSPIDRSBlockRun *run, const IDRSBlockVec *Y, PetscBool add)
{
  run->sum[run->sums] = (IDRSBlockAxpy){
    .ny = run->algebra.m, .x = run->x + run->operands, .y = Y, .C = run->C + run->operands, .ld = run->ld, .add = add};
  return &run->sum[run->sums++];
}

/* Adds the term factor X C to the last sum */
static void KSPIDRSBlockAddTerm(KSPIDRSBlockRun *run, PetscScalar factor, PetscInt columns, const IDRSBlockVec *X,
                                const PetscScalar *C, PetscInt ldc)
{
  for (PetscInt i = 0; i < columns; i++) {
    run->x[run->operands] = X[i];
    for (PetscInt j = 0; j < run->algebra.m; j++) run->C[run->operands + j * run->ld] = factor * C[i + j * ldc];
    run->operands++;
  }
  run->sum[run->sums - 1].nx += columns;
}

/* Adds the term factor X(:,k:s) c, where X is G or U, of columns that are not zero */
static void KSPIDRSBlockAddProduct(KSPIDRSBlockRun *run, PetscScalar factor, const IDRSBlockVec *X)
{
  const PetscInt k = run->k, m = run->algebra.m;

  KSPIDRSBlockAddTerm(run, factor, PetscMax(run->filled - k, 0) * m, X + k * m, run->algebra.c + k * m, run->algebra.q);
}

/* Adds the sum X_k -= X(:,0:k) alpha, where X is G or U */
static void KSPIDRSBlockAddAlpha(KSPIDRSBlockRun *run, const IDRSBlockVec *X, PetscInt k)
{
  const PetscInt m = run->algebra.m, q = run->algebra.q;

  KSPIDRSBlockAddSum(run, X + k * m, PETSC_TRUE);
  KSPIDRSBlockAddTerm(run, -1.0, k * m, X, run->algebra.alpha + k * m * q, q);
}

/*
   Adds the sums U_k -= U(:,0:k) alpha, 0 < k < columns, and Z += U(:,0:columns) beta, in the omega step also omega P. U is read
   once for all of them
*/
static void KSPIDRSBlockAddIterate(KSPIDRSBlockRun *run, PetscInt columns, PetscBool omega)
{
  const IDRSBlockScalars *algebra = &run->algebra;
  const PetscInt          m       = algebra->m;

  for (PetscInt k = 1; k < columns; k++) KSPIDRSBlockAddAlpha(run, run->U, k);
  KSPIDRSBlockAddSum(run, run->Z, PETSC_TRUE);
  if (omega) KSPIDRSBlockAddTerm(run, *algebra->omega, m, run->P, algebra->identity, m);
  KSPIDRSBlockAddTerm(run, 1.0, columns * m, run->U, algebra->beta, algebra->q);
}

/* Adds the sum U_k = omega D (R T - G c) + U(:,k:s) c, or, with a preconditioner, V = R T - G c */
static void KSPIDRSBlockAddDirection(KSPIDRSBlockRun *run)
{
  const PetscInt    m     = run->algebra.m;
  const PetscScalar omega = run->separate ? (PetscScalar)1.0 : *run->algebra.omega;
  IDRSBlockAxpy    *sum   = KSPIDRSBlockAddSum(run, run->separate ? run->V : run->U + run->k * m, PETSC_FALSE);

  /* first, as it is in the cache at the end of a cycle */
  if (!run->separate && !run->diagonal) KSPIDRSBlockAddProduct(run, 1.0, run->U);
  KSPIDRSBlockAddTerm(run, omega, m, run->R, run->algebra.T, m);
  KSPIDRSBlockAddProduct(run, -omega, run->G);
  if (!run->diagonal) return;
  sum->scaled = sum->nx; /* times D */
  KSPIDRSBlockAddProduct(run, 1.0, run->U);
}

/* Computes all sums, and removes them */
static PetscErrorCode KSPIDRSBlockCombine_Private(KSPIDRSBlockRun *run)
{
  PetscFunctionBegin;
  PetscCall(IDRSBlockCombine(run->work, run->sums, run->sum));
  run->sums = run->operands = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Adds the update of the present cycle to Z */
static PetscErrorCode KSPIDRSBlockAddUpdate_Private(KSPIDRSBlockRun *run)
{
  PetscFunctionBegin;
  if (!run->columns) PetscFunctionReturn(PETSC_SUCCESS);
  KSPIDRSBlockAddIterate(run, run->columns, PETSC_FALSE); /* Z += U(:,0:columns) beta */
  PetscCall(KSPIDRSBlockCombine_Private(run));
  run->columns = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes U_k, unless the step before has done so, and G_k = A U_k; or P = B^{-1}R and T = A P */
static PetscErrorCode KSPIDRSBlockMatvec_Private(KSP ksp, KSPIDRSBlockRun *run)
{
  const PetscInt      k = run->k, m = run->algebra.m, first = k * m;
  const PetscBool     omega = (PetscBool)(k == run->algebra.s);
  const IDRSBlockVec *U = omega ? run->P : run->U + first, *G = omega ? run->T : run->G + first;
  Vec                 x[IDRS_MAX_WIDTH], y[IDRS_MAX_WIDTH], v[IDRS_MAX_WIDTH], r[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < m; i++) {
    x[i] = U[i].vec;
    y[i] = G[i].vec;
    v[i] = run->V[i].vec;
    r[i] = run->R[i].vec;
  }
  if (!omega && !run->directed) {
    IDRSBlockScalarsDirection(&run->algebra, (int)k); /* T, c */
    KSPIDRSBlockAddDirection(run);
    PetscCall(KSPIDRSBlockCombine_Private(run));
  }
  if (run->separate && omega) PetscCall(KSPIDRSPCApplyColumns_Private(ksp, m, r, v)); /* P = B^{-1}R */
  else if (run->separate) {
    PetscCall(KSPIDRSPCApplyColumns_Private(ksp, m, v, y)); /* G_k = B^{-1}V */
    KSPIDRSBlockAddSum(run, U, PETSC_FALSE);                /* U_k = omega G_k + U(:,k:s) c */
    KSPIDRSBlockAddTerm(run, *run->algebra.omega, m, G, run->algebra.identity, m);
    KSPIDRSBlockAddProduct(run, 1.0, run->U);
    PetscCall(KSPIDRSBlockCombine_Private(run));
  }
  PetscCall(KSPIDRSMatMultColumns_Private(ksp, &run->owners, x, y, v)); /* G_k = A U_k, or T = A P */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the sums of the step, and ||r_j|| */
static PetscErrorCode KSPIDRSBlockProject_Private(KSPIDRSBlockRun *run)
{
  const PetscInt k = run->k, m = run->algebra.m, q = run->algebra.q;
  /* P^H (T,R), (T,R)^H (T,R) */
  const IDRSBlockDots omega = {.rows = q, .nw = 2 * m, .nx = 2 * m, .w = run->T, .x = run->T};
  /* P^H G_k; R^H R */
  const IDRSBlockDots tasks[] = {
    {.rows = q, .nx = m, .x = run->G + k * m},
    {.nw = m, .nx = m, .w = run->R, .x = run->R}
  };

  PetscFunctionBegin;
  if (k == run->algebra.s) PetscCall(IDRSBlockProject(run->work, 1, &omega, run->results));
  else PetscCall(IDRSBlockProject(run->work, 2, tasks, run->results));
  IDRSBlockScalarsNorms(&run->algebra, (int)k, (int)run->bounds.count, run->results, &run->norms);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Finishes the step, and begins the next one. *due is set if a reliable update is due now. After a breakdown, which all processes
   find in the same sums, the iterate before this step remains
*/
static PetscErrorCode KSPIDRSBlockFinish_Private(KSPIDRSBlockRun *run, PetscBool *due)
{
  const IDRSBlockScalars *algebra = &run->algebra;
  KSPIDRSTrust           *trust   = &run->trust;
  const PetscInt          k = run->k, m = algebra->m, s = algebra->s;

  PetscFunctionBegin;
  *due = PETSC_FALSE;
  if (IDRSBlockScalarsContinue(algebra, (int)k, run->bounds.norm.cosine, run->results, &trust->rnorm) != IDRS_CONTINUES) {
    run->why = IDRS_BLOCK_BROKEN;
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  *due = (PetscBool)(k == s && IDRSUpdateIsDue(trust->rnorm, run->bounds.fall, trust->peak, trust->anchornorm));
  if (k < s) {
    if (k) KSPIDRSBlockAddAlpha(run, run->G, k); /* G_k -= G(:,0:k) alpha */
    KSPIDRSBlockAddSum(run, run->R, PETSC_TRUE); /* R -= G_k beta_k */
    KSPIDRSBlockAddTerm(run, -1.0, m, run->G + k * m, algebra->beta + k * m, algebra->q);
    if (k == s - 1 && run->diagonal) {
      IDRSBlockAxpy *sum = KSPIDRSBlockAddSum(run, run->P, PETSC_FALSE); /* P = D R, for the omega step */

      KSPIDRSBlockAddTerm(run, 1.0, m, run->R, algebra->identity, m);
      sum->scaled = sum->nx;
    }
  } else {
    KSPIDRSBlockAddIterate(run, s, PETSC_TRUE);  /* Z += omega P + U beta */
    KSPIDRSBlockAddSum(run, run->R, PETSC_TRUE); /* R -= omega T */
    KSPIDRSBlockAddTerm(run, -*algebra->omega, m, run->T, algebra->identity, m);
  }
  run->its++;
  run->k = run->columns = IDRSNextK(k, s);
  run->filled           = PetscMax(run->filled, run->k);
  run->directed         = (PetscBool)(!*due && run->k < s);
  if (run->directed) {
    IDRSBlockScalarsDirect(algebra, (int)k); /* T, c */
    KSPIDRSBlockAddDirection(run);
  }
  PetscCall(KSPIDRSBlockCombine_Private(run));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A basis of `count` residuals, B - A X = Q S, by Cholesky factorization of Gram matrices with pivoting */
typedef struct {
  PetscInt    count, rank;
  PetscReal   size[IDRS_MAX_WIDTH], small[IDRS_MAX_WIDTH]; /* norms of residuals, and of remainders that are neglected */
  PetscBool   taken[IDRS_MAX_WIDTH];
  PetscInt    pivot[IDRS_MAX_WIDTH]; /* the residual whose vector a column of Q has */
  PetscScalar S[IDRS_MAX_WIDTH * IDRS_MAX_WIDTH];
} KSPIDRSBlockBasis;

/*
   Adds columns to the basis from the Gram matrix W of all columns, and sets their rows of S. Each time the column with the largest
   remainder is added. R C has the new columns of Q, and the other columns without their components in these
*/
static void KSPIDRSBlockPivots(KSPIDRSBlockBasis *basis, PetscScalar W[], PetscScalar C[])
{
  const PetscInt count = basis->count;
  PetscReal      begin[IDRS_MAX_WIDTH];

  for (PetscInt j = 0; j < count; j++) {
    begin[j] = PetscSqrtReal(PetscMax(PetscRealPart(W[j + j * count]), 0.0));
    for (PetscInt i = 0; i < count; i++) C[i + j * count] = i == j ? 1.0 : 0.0;
  }
  for (;;) {
    PetscScalar *S     = basis->S + basis->rank;
    PetscInt     pivot = -1;
    PetscReal    most = 0.0, root = 0.0;

    for (PetscInt j = 0; j < count; j++) {
      const PetscReal left = PetscSqrtReal(PetscMax(PetscRealPart(W[j + j * count]), 0.0));

      if (basis->taken[j] || !(left > basis->small[j] && left > IDRS_BLOCK_DEFLATION * begin[j] && left / basis->size[j] > most))
        continue;
      most  = left / basis->size[j];
      pivot = j;
      root  = left;
    }
    if (pivot < 0) return;
    for (PetscInt i = 0; i < count; i++) C[i + pivot * count] /= root; /* the column of Q */
    for (PetscInt j = 0; j < count; j++) {
      S[j * IDRS_MAX_WIDTH] = j == pivot ? root : 0.0;
      if (basis->taken[j] || j == pivot) continue;
      S[j * IDRS_MAX_WIDTH] = W[pivot + j * count] / root; /* S_ij = q_i^H r_j */
      for (PetscInt i = 0; i < count; i++) {
        C[i + j * count] -= C[i + pivot * count] * S[j * IDRS_MAX_WIDTH]; /* r_j -= q_i S_ij */
        /* the Gram matrix of the remainders */
        if (!basis->taken[i] && i != pivot) W[i + j * count] -= PetscConj(W[pivot + i * count] / root) * S[j * IDRS_MAX_WIDTH];
      }
    }
    basis->taken[pivot]         = PETSC_TRUE;
    basis->pivot[basis->rank++] = pivot;
  }
}

/* Computes R = Q S in place, until all remainders are neglected, and the norms of the residuals */
static PetscErrorCode KSPIDRSBlockBasis_Private(KSP ksp, KSPIDRSBlockRun *run, KSPIDRSBlockBasis *basis)
{
  const PetscBool tested = (PetscBool)(ksp->converged == KSPConvergedDefault && ksp->normtype != KSP_NORM_NONE);
  const PetscInt  count  = run->cols.count;
  IDRSBlockVec    r[IDRS_MAX_WIDTH];
  PetscScalar     W[IDRS_MAX_WIDTH * IDRS_MAX_WIDTH], C[IDRS_MAX_WIDTH * IDRS_MAX_WIDTH];
  PetscInt        before;

  PetscFunctionBegin;
  basis->count = count;
  for (PetscInt j = 0; j < count; j++) PetscCall(IDRSBlockVecSet(run->work, run->cols.column[j]->r, &r[j]));
  do {
    const IDRSBlockDots dots = {.nw = count, .nx = count, .w = r, .x = r};
    const IDRSBlockAxpy sum  = {.nx = count, .ny = count, .x = r, .y = r, .C = C, .ld = count};

    PetscCall(IDRSBlockProject(run->work, 1, &dots, W)); /* W = R^H R */
    before = basis->rank;
    for (PetscInt j = 0; !before && j < count; j++) {
      KSPIDRSColumn *col = run->cols.column[j];

      basis->size[j] = col->trust.rnorm = PetscSqrtReal(PetscRealPart(W[j + j * count]));
      basis->small[j] = PetscMax(tested ? IDRS_BLOCK_NEGLIGIBLE * col->rep.ttol : 0.0, IDRS_BLOCK_ROUNDING * basis->size[j]);
    }
    KSPIDRSBlockPivots(basis, W, C);
    if (basis->rank > before) PetscCall(IDRSBlockCombine(run->work, 1, &sum)); /* R = R C */
  } while (basis->rank > before && basis->rank < count);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Begins a cycle with an R that is the anchor, the residual of Z = 0: f = P^H R, and the norms */
static PetscErrorCode KSPIDRSBlockAnchor_Private(KSP ksp, KSPIDRSBlockRun *run)
{
  const PetscInt      m = run->algebra.m, q = run->algebra.q;
  const IDRSBlockDots dots   = {.rows = q, .nw = m, .nx = m, .w = run->R, .x = run->R};
  PetscReal           square = 0.0;

  PetscFunctionBegin;
  PetscCall(IDRSBlockProject(run->work, 1, &dots, run->results)); /* P^H R, R^H R */
  PetscCall(PetscArraycpy(run->algebra.f, run->results, q * m));
  for (PetscInt i = 0; i < m; i++) square += PetscRealPart(run->results[q * m + i + i * m]);
  KSPIDRSSetReplacedNorm(&run->trust, PetscSqrtReal(square));
  for (PetscInt j = 0; j < run->cols.count; j++)
    KSPIDRSSetReplacedNorm(&run->cols.column[j]->trust, run->cols.column[j]->trust.rnorm);
  run->bounds.anchornorm = run->trust.anchornorm;
  run->bounds.norm.high  = KSPIDRSGrowthLimit((const KSP_IDRS *)ksp->data, run->trust.anchornorm);
  run->k = run->columns = 0;
  run->directed         = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes the basis of the residuals, and sets up the recurrence unless all residuals vanish. The largest combine ends a cycle,
   and the omega step has the most sums
*/
static PetscErrorCode KSPIDRSBlockCreate_Private(KSP ksp, const KSPIDRSColumns *cols, KSPIDRSBlockRun *run)
{
  const KSP_IDRS   *idrs  = (const KSP_IDRS *)ksp->data;
  const PetscInt    s     = idrs->set.s;
  KSPIDRSBlockBasis basis = {.rank = 0};
  PetscInt          m;

  PetscFunctionBegin;
  run->cols = *cols;
  run->work = idrs->slot[0].work;
  PetscCall(KSPIDRSBlockBasis_Private(ksp, run, &basis));
  m = run->owners.count = basis.rank;
  if (!m) { /* with KSP_NORM_NONE also for zero right-hand sides */
    PetscCall(PetscInfo(ksp, "No block recurrence: the squares of all residual norms vanish or overflow\n"));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  run->ld = (s * (s - 1) / 2 + 4 * s + 4) * m;
  PetscCall(PetscMalloc6((2 * s + 4) * m, &run->G, IDRS_BLOCK_STORAGE(s, m), &run->algebra.M, s + 3, &run->sum, run->ld, &run->x,
                         run->ld * m, &run->C, IDRSBlockSumCount(s, m, s), &run->results));
  IDRSBlockScalarsSetPointers(&run->algebra, s, m, run->algebra.M);
  IDRSBlockScalarsReset(&run->algebra);
  for (PetscInt j = 0; j < cols->count; j++) PetscCall(PetscArraycpy(run->algebra.S + j * m, basis.S + j * IDRS_MAX_WIDTH, m));
  for (PetscInt i = 0; i < m; i++) { /* the vectors of the slots that have a column of the basis */
    KSPIDRSColumn *col     = cols->column[basis.pivot[i]];
    const Vec      other[] = {col->z, col->v, col->t, col->r};

    run->owners.column[i] = col;
    for (PetscInt l = 0; l < 2 * s + 4; l++)
      PetscCall(IDRSBlockVecSet(col->work, l < s ? col->G[l] : (l < 2 * s ? col->U[l - s] : other[l - 2 * s]), &run->G[l * m + i]));
    PetscCall(KSPIDRSAnchor_Private(col));
  }
  run->U        = run->G + s * m;
  run->Z        = run->U + s * m;
  run->V        = run->Z + m;
  run->T        = run->V + m;
  run->R        = run->T + m;
  run->separate = KSPIDRSIsPreconditioned(idrs);
  run->diagonal = (PetscBool)(!run->separate && idrs->diagonal);
  run->P        = run->separate || run->diagonal ? run->V : run->R;
  run->bounds   = (IDRSBlockBounds){
      .count = cols->count,
      .norm  = {.low = -1.0, .cosine = idrs->set.cosine},
      .fall  = run->owners.column[0]->anchor ? idrs->set.updatetol : 0.0
  };
  run->smallest = PETSC_MAX_REAL;
  PetscCall(IDRSWorkspaceSetSeed(run->work, IDRS_BLOCK_SEED + KSPIDRSGetSeed(idrs)));
  PetscCall(KSPIDRSBlockAnchor_Private(ksp, run));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes x_j += Z S_j for the marked right-hand sides, or with NULL for all right-hand
   sides that are not done. Z must be complete
*/
static PetscErrorCode KSPIDRSBlockAddSolutions_Private(KSPIDRSBlockRun *run, const PetscBool marked[])
{
  const PetscInt m = run->algebra.m;
  IDRSBlockVec   x[IDRS_MAX_WIDTH];
  PetscScalar    S[IDRS_MAX_WIDTH * IDRS_MAX_WIDTH];
  IDRSBlockAxpy  sum = {.nx = m, .x = run->Z, .y = x, .C = S, .ld = m, .add = PETSC_TRUE};

  PetscFunctionBegin;
  for (PetscInt j = 0; j < run->cols.count; j++) {
    const KSPIDRSColumn *col = run->cols.column[j];

    if (marked ? !marked[j] : col->rec.status == KSPIDRS_COMPLETE) continue;
    PetscCall(IDRSBlockVecSet(col->work, col->rep.sol, &x[sum.ny]));
    PetscCall(PetscArraycpy(S + sum.ny++ * m, run->algebra.S + j * m, m));
  }
  if (sum.ny) PetscCall(IDRSBlockCombine(run->work, 1, &sum)); /* x_j += Z S_j */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Sets the norms of a step, and returns PETSC_TRUE if all are finite. Else the recurrence ends. In a step k > 0 the result is the
   iterate before the last update, whose beta is not in Z yet; at the beginning of a cycle it is the iterate of the last reliable
   update
*/
static PetscBool KSPIDRSBlockSetNorms(KSPIDRSBlockRun *run)
{
  const IDRSBlockNorms *norms = &run->norms;
  PetscBool             valid = (PetscBool)!PetscIsInfOrNanReal(norms->rnorm);

  for (PetscInt j = 0; j < run->cols.count; j++) valid = (PetscBool)(valid && !PetscIsInfOrNanReal(norms->norms[j]));
  if (!norms->finite || !valid) run->why = IDRS_BLOCK_BROKEN;
  if (!valid && run->k) {
    run->columns = run->k - 1;
    return PETSC_FALSE;
  }
  for (PetscInt j = 0; j < run->cols.count; j++) run->cols.column[j]->trust.rnorm = valid ? norms->norms[j] : (PetscReal)INFINITY;
  if (!valid) return PETSC_FALSE;
  run->trust.rnorm = norms->rnorm;
  run->trust.peak  = PetscMax(run->trust.peak, norms->rnorm);
  run->stagnation  = norms->rnorm < run->smallest ? 0 : run->stagnation + 1;
  run->smallest    = PetscMin(run->smallest, norms->rnorm);
  return PETSC_TRUE;
}

/* Returns PETSC_TRUE if the last norm of a column is a reason to end, and its solution is not complete yet */
static PetscBool KSPIDRSBlockIsEnding(const KSPIDRSColumn *col)
{
  return (PetscBool)(col->rec.status != KSPIDRS_COMPLETE && (col->rep.reason || col->rec.status == KSPIDRS_UNCHECKED));
}

/*
   Sets the norms of this step, and reports them for right-hand sides that are not done, unless this iteration has been reported.
   *some and *all are set if these have a reason to end
*/
static PetscErrorCode KSPIDRSBlockReport_Private(KSP ksp, KSPIDRSBlockRun *run, PetscBool *some, PetscBool *all)
{
  PetscInt left = 0, count = 0;

  PetscFunctionBegin;
  *some = *all = PETSC_FALSE;
  if (!KSPIDRSBlockSetNorms(run)) PetscFunctionReturn(PETSC_SUCCESS);
  for (PetscInt j = 0; j < run->cols.count; j++) {
    KSPIDRSColumn *col = run->cols.column[j];

    if (col->rec.status == KSPIDRS_COMPLETE) continue;
    if (run->its > col->rep.its) PetscCall(KSPIDRSReport_Private(ksp, col, run->its, col->trust.rnorm));
    if (col->rep.reason == KSP_DIVERGED_DTOL) {
      run->why        = IDRS_BLOCK_GROWN;
      col->rep.reason = KSP_CONVERGED_ITERATING;
    }
    left++;
    count += KSPIDRSBlockIsEnding(col) ? 1 : 0;
  }
  *some = (PetscBool)(count > 0);
  *all  = (PetscBool)(*some && count == left);
  if (run->stagnation >= IDRS_BLOCK_MAX_STAGNATION) run->why = "it has found no smaller residual for a long time";
  if (!IDRSIsWithin(run->trust.rnorm, run->bounds.norm.low, run->bounds.norm.high)) run->why = IDRS_BLOCK_GROWN;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes b - A x of a column that is ending, and compares its norm with the tolerances. If the norm meets them, the column is
   done; else its reason is cleared. z, a column of Z, is kept
*/
static PetscErrorCode KSPIDRSBlockCheckTrueResidual_Private(KSP ksp, KSPIDRSColumn *col)
{
  const KSPIDRSColumns one = KSPIDRSOneColumn(col);
  PetscReal            rnorm;

  PetscFunctionBegin;
  if (col->rec.status == KSPIDRS_UNCHECKED) {
    PetscCall(KSPIDRSMatMultSolution_Private(ksp, col, col->v)); /* t = A x */
    PetscCall(VecAYPX(col->t, -1.0, col->rep.rhs));              /* t = b - t */
    if (ksp->pc_side == PC_LEFT) PetscCall(KSPIDRSPCApply_Private(ksp, col->t, col->v));
    else PetscCall(VecCopy(col->t, col->v));
    PetscCall(KSPIDRSNorms_Private(ksp, &one, &col->v, &rnorm));
    PetscCall(KSPIDRSCheckTrueNorm_Private(ksp, col, rnorm));
    if (col->rep.reason < 0) col->rep.reason = KSP_CONVERGED_ITERATING; /* a single recurrence may do better */
    PetscCall(KSPIDRSConcludeReport_Private(ksp, col));
  }
  col->rec.status = col->rep.reason ? KSPIDRS_COMPLETE : KSPIDRS_RECURS;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes a reliable update, and adds it to the solutions of the marked right-hand sides, or, with NULL, of all that are not done */
static PetscErrorCode KSPIDRSBlockUpdate_Private(KSP ksp, KSPIDRSBlockRun *run, const PetscBool marked[])
{
  PetscFunctionBegin;
  PetscCall(KSPIDRSUpdateProduct_Private(ksp, &run->owners));  /* T = A Z */
  PetscCall(KSPIDRSBlockAddSolutions_Private(run, marked));    /* x_j += Z S_j */
  PetscCall(KSPIDRSUpdateResidual_Private(ksp, &run->owners)); /* R = anchor - T, Z = 0 */
  PetscCall(KSPIDRSBlockAnchor_Private(ksp, run));             /* f = P^H R */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Completes the solutions of right-hand sides that have a reason to end. If one does not meet its tolerance, R is recomputed and a
   cycle begins, or, after too many failures, the recurrence ends. v and t are overwritten
*/
static PetscErrorCode KSPIDRSBlockEndColumns_Private(KSP ksp, KSPIDRSBlockRun *run, PetscBool *missed)
{
  KSPIDRSColumns *cols = &run->cols;
  PetscBool       ending[IDRS_MAX_WIDTH], others[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt j = 0; j < cols->count; j++) {
    ending[j] = KSPIDRSBlockIsEnding(cols->column[j]);
    others[j] = (PetscBool)(cols->column[j]->rec.status != KSPIDRS_COMPLETE && !ending[j]);
  }
  PetscCall(KSPIDRSBlockAddUpdate_Private(run)); /* Z += U beta */
  PetscCall(KSPIDRSBlockAddSolutions_Private(run, ending));
  *missed = PETSC_FALSE;
  for (PetscInt j = 0; j < cols->count; j++) {
    if (!ending[j]) continue;
    PetscCall(KSPIDRSBlockCheckTrueResidual_Private(ksp, cols->column[j]));
    if (cols->column[j]->rec.status != KSPIDRS_COMPLETE) *missed = PETSC_TRUE;
  }
  if (!*missed) PetscFunctionReturn(PETSC_SUCCESS);
  /* also if the norm has halved: single recurrences then need fewer matvecs */
  run->trust.replacements.failures += IDRS_STAGNATION_CHECK;
  if (run->bounds.fall > 0.0 && run->trust.replacements.failures < IDRS_MAX_STAGNATIONS) {
    const PetscInt k = run->k;

    /* step k < s is finished with beta = 0, because U_k has been overwritten: G = A U and M = P^H G hold again */
    if (k < run->algebra.s && !run->why) {
      if (IDRSBlockScalarsColumn(&run->algebra, (int)k, run->results)) {
        run->filled = PetscMax(run->filled, k + 1);
        if (k) {
          KSPIDRSBlockAddAlpha(run, run->G, k); /* G_k -= G(:,0:k) alpha */
          KSPIDRSBlockAddAlpha(run, run->U, k); /* U_k -= U(:,0:k) alpha */
          PetscCall(KSPIDRSBlockCombine_Private(run));
        }
      } else run->why = IDRS_BLOCK_BROKEN;
    }
    PetscCall(KSPIDRSBlockUpdate_Private(ksp, run, others));
  } else {
    PetscCall(KSPIDRSBlockAddSolutions_Private(run, others));
    for (PetscInt i = 0; i < run->owners.count; i++) PetscCall(IDRSVecZero(run->Z[i].vec));
    run->why = "r meets the tolerances, but b - A x does not";
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Makes one step; *ends is set once all right-hand sides are done, or continue with single recurrences. Right-hand sides end at the
   beginning of a cycle, or in any step if all of them end
*/
static PetscErrorCode KSPIDRSBlockStep_Private(KSP ksp, KSPIDRSBlockRun *run, PetscBool *ends)
{
  PetscBool some, all, due, missed = PETSC_FALSE;

  PetscFunctionBegin;
  PetscCall(KSPIDRSBlockMatvec_Private(ksp, run));              /* G_k = A U_k, or T = A P */
  PetscCall(KSPIDRSBlockProject_Private(run));                  /* P^H G_k, R^H R, and ||r_j|| */
  PetscCall(KSPIDRSBlockReport_Private(ksp, run, &some, &all)); /* convergence test, history, monitors */
  if (all || (some && (!run->k || run->why))) PetscCall(KSPIDRSBlockEndColumns_Private(ksp, run, &missed));
  else {
    for (PetscInt j = 0; j < run->cols.count; j++) {
      KSPIDRSColumn *col = run->cols.column[j];

      if (col->rec.status != KSPIDRS_UNCHECKED) continue;
      col->rec.status = KSPIDRS_RECURS; /* it is verified later, because others continue */
      PetscCall(KSPIDRSConcludeReport_Private(ksp, col));
    }
  }
  *ends = (PetscBool)(run->why || (all && !missed));
  if (*ends || missed) PetscFunctionReturn(PETSC_SUCCESS);
  /* alpha, M_k, beta_k, f, or omega, f; then vectors */
  PetscCall(KSPIDRSBlockFinish_Private(run, &due));
  if (due) PetscCall(KSPIDRSBlockUpdate_Private(ksp, run, NULL));
  *ends = (PetscBool)(run->why != NULL);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Starts single recurrences for right-hand sides that are not done, and counts them. They start from the present iterate or the
   iterate of the last reliable update: from the iterate with the smaller residual
*/
static PetscErrorCode KSPIDRSBlockEnd_Private(KSP ksp, KSPIDRSBlockRun *run, KSPIDRSBlockCounts *counts)
{
  KSPIDRSColumns rest   = {.count = 0};
  PetscBool      finite = PETSC_TRUE, marked[IDRS_MAX_WIDTH];
  Vec            r[IDRS_MAX_WIDTH], anchor[IDRS_MAX_WIDTH], Z[IDRS_MAX_WIDTH];
  PetscReal      norms[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  PetscCall(KSPIDRSBlockAddUpdate_Private(run));
  if (run->why) { /* if A is singular, Z may have grown in its null space until it overflowed, while R has not */
    for (PetscInt i = 0; i < run->owners.count; i++) Z[i] = run->Z[i].vec;
    PetscCall(KSPIDRSNorms_Private(ksp, &run->owners, Z, norms));
    for (PetscInt i = 0; i < run->owners.count; i++) finite = (PetscBool)(finite && !PetscIsInfOrNanReal(norms[i]));
  }
  for (PetscInt j = 0; j < run->cols.count; j++) {
    KSPIDRSColumn *col = run->cols.column[j];

    marked[j] = (PetscBool)(finite && col->rec.status != KSPIDRS_COMPLETE && col->trust.rnorm <= col->trust.anchornorm);
    if (col->rec.status == KSPIDRS_COMPLETE) continue;
    col->rep.reason           = KSP_CONVERGED_ITERATING;
    col->rec.its              = col->rep.its;
    r[rest.count]             = col->r;
    anchor[rest.count]        = col->anchor;
    rest.column[rest.count++] = col;
  }
  PetscCall(KSPIDRSBlockAddSolutions_Private(run, marked));
  if (!rest.count) PetscFunctionReturn(PETSC_SUCCESS);
  counts->single += rest.count;
  counts->why = run->why;
  PetscCall(KSPIDRSTrueResidual_Private(ksp, &rest, PETSC_FALSE, r, anchor)); /* r_j = b_j - A x_j */
  PetscCall(KSPIDRSBeginRecurrence_Private(ksp, &rest));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSBlockSolve_Private - Solves for several right-hand sides, whose first residuals have been reported, by one block
   recurrence. Each then has a reason, or is at the beginning of a single recurrence
*/
PetscErrorCode KSPIDRSBlockSolve_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  KSP_IDRS       *idrs = (KSP_IDRS *)ksp->data;
  KSPIDRSBlockRun run  = {.why = NULL};
  PetscBool       ends = PETSC_FALSE;
  PetscErrorCode  ierr;
  PetscInt        N;

  PetscFunctionBegin;
  if (cols->count < 2) PetscFunctionReturn(PETSC_SUCCESS);
  for (PetscInt i = 0; i < cols->count; i++) {
    if (cols->column[i]->scale != 1.0) run.why = "the square of the norm of a right-hand side is beyond the range of PetscReal";
  }
  PetscCall(VecGetSize(cols->column[0]->r, &N));
  if (idrs->set.s * cols->count >= N) run.why = "the system has fewer unknowns than a block has shadow vectors";
  if (run.why) {
    idrs->blocks.why = run.why;
    idrs->blocks.single += cols->count;
    PetscCall(PetscInfo(ksp, "No block recurrence: %s\n", run.why));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  ierr = KSPIDRSBlockCreate_Private(ksp, cols, &run);
  if (!ierr && run.owners.count) {
    idrs->blocks.columns += cols->count;
    idrs->blocks.rank += run.owners.count;
    while (!ierr && !ends) ierr = KSPIDRSBlockStep_Private(ksp, &run, &ends);
    if (!ierr) ierr = KSPIDRSBlockEnd_Private(ksp, &run, &idrs->blocks);
  }
  PetscCall(PetscFree6(run.G, run.algebra.M, run.sum, run.x, run.C, run.results));
  PetscCall(ierr);
  if (run.why && run.owners.count)
    PetscCall(PetscInfo(ksp, "Block recurrence left after %" PetscInt_FMT " iterations: %s\n", run.its, run.why));
  PetscFunctionReturn(PETSC_SUCCESS);
}
