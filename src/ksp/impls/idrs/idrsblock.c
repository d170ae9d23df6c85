/*
   Block IDR(s): one recurrence for the right-hand sides that KSPMatSolve() solves at the same time, which search in the space of all of them. Vectors of the recurrence of one right-hand side
   are blocks of m columns, and coefficients m x m matrices; the columns of the blocks are the vectors of the slots.

     Q S = B - A X, m columns     by Cholesky of Gram matrices, with pivoting: m is the rank, and r_j = R S_j belongs to right-hand side j; R = Q
     step k of a cycle, k < s                                          omega step
       M(k:s,k:s) c = f(k:s),  T from f(k:s)                             P = B^{-1}R
       U_k = omega B^{-1}(R T - G(:,k:s) c T) + U(:,k:s) c T             T = A P
       G_k = A U_k                                                       P^H T, P^H R, <T,T>, <T,R>, <R,R>      one reduction
       P^H G_k, R^H R                          one reduction
       ||r_j||: the iteration before is reported                         ||r_j||, likewise
       alpha, M_k, beta_k, f                                             omega, f = P^H R - omega P^H T
       G_k -= G(:,0:k) alpha                                             U_k -= U(:,0:k) alpha of step k, k = 1 ... s - 1
       R -= G_k beta_k                                                   Z += omega P + U beta,  R -= omega T

   T makes the columns of R T as good as orthogonal. On paper it changes nothing; without it the recurrence loses its digits where columns of R come near to each other, as they do when some converge first.

   The solution of right-hand side j is x_j + (Z + U beta) S_j. Norms ||r_j|| follow from R^H R. Where those of all that are not done meet their tolerances, or at the begin of a cycle those of
   some, their b_j - A x_j decides, as for one right-hand side. So do reliable updates, R = anchor - A Z. Where the recurrence breaks down, grows too far, or finds no smaller residual for
   IDRS_BLOCK_PATIENCE steps, each right-hand side that is not done goes on by itself from where it is.
*/
#include "idrsimpl.h"
#include <petscidrs/private/idrsblockscalars.h>

#define IDRS_BLOCK_PATIENCE 100
#define IDRS_BLOCK_MISSES   3 /* verifications that may fail */

/* Works of blocks have a shadow space of their own, as a recurrence that goes on from their residuals with a part of it would not move */
#define IDRS_BLOCK_SEED (UINT64_C(1) << 62)

typedef struct {
  PetscInt         count; /* right-hand sides */
  KSPIDRSColumn   *column[IDRS_MAX_WIDTH];
  PetscBool        done[IDRS_MAX_WIDTH];
  PetscReal        norms[IDRS_MAX_WIDTH];   /* of r_j, at the last report */
  PetscReal        anchors[IDRS_MAX_WIDTH]; /* at the last reliable update */
  PetscScalar     *S;                       /* m x count, of leading dimension IDRS_MAX_WIDTH */
  KSPIDRSFront     owners;                  /* the m slots whose vectors are the columns of blocks */
  IDRSBlockScalars algebra;
  PetscScalar     *storage;                      /* of its matrices */
  IDRSBlockVec    *vecs, *G, *U, *R, *Z, *V, *T; /* G and U: columns of step k from k m on */
  IDRSBlockAxpy   *chain;                        /* sums that are made together */
  IDRSBlockVec    *x;                            /* their operands and coefficients */
  PetscScalar     *C, *sums;
  PetscInt         ld;
  PetscInt         k, columns;                    /* step, and columns of U whose beta is not in Z yet */
  PetscInt         filled;                        /* columns of G and U that have been made; the others are zero */
  PetscInt         its, reported;                 /* iterations that have been made, and reported */
  PetscReal        rnorm, best, peak, anchornorm; /* Frobenius norms of R */
  PetscInt         waited;                        /* steps since the smallest one */
  PetscInt         misses;
  PetscBool        directed; /* what the direction of step k begins with has been made already */
  PetscBool        lost;     /* Z is not to be used */
  const char      *why;      /* the right-hand sides that are not done go on by themselves, or NULL */
} KSPIDRSBlockRun;

/* A sum that is built term by term, with its operands and coefficients behind those of the sum before it, if there is one that is made together with it */
static IDRSBlockAxpy KSPIDRSBlockAxpy(const KSPIDRSBlockRun *block, const IDRSBlockAxpy *before, PetscInt ny, const IDRSBlockVec *y)
{
  const PetscInt first = before ? (PetscInt)(before->x - block->x) + before->nx : 0;

  return (IDRSBlockAxpy){.ny = ny, .x = block->x + first, .y = y, .C = block->C + first, .ld = block->ld};
}

/* Adds factor X C to a sum, for so many columns of X */
static void KSPIDRSBlockTerm(KSPIDRSBlockRun *block, IDRSBlockAxpy *sum, PetscInt columns, const IDRSBlockVec *X, PetscScalar factor, const PetscScalar *C, PetscInt ldc)
{
  const PetscInt first = (PetscInt)(sum->x - block->x) + sum->nx;

  for (PetscInt i = 0; i < columns; i++) {
    block->x[first + i] = X[i];
    for (PetscInt j = 0; j < sum->ny; j++) block->C[first + i + j * block->ld] = factor * C[i + j * ldc];
  }
  sum->nx += columns;
}

/* The vectors of a block as PETSc takes them */
static void KSPIDRSBlockList(PetscInt count, const IDRSBlockVec *X, Vec list[])
{
  for (PetscInt i = 0; i < count; i++) list[i] = X[i].vec;
}

/*
   Columns of a basis from the Gram matrix W of all columns, by Cholesky with pivoting: each time the column of which most is left. Those of which less is left than this part of their norms wait for
   the Gram matrix of the next round, as rounding errors of this one are as large. Rows of S, and C, with which R C has the new columns of Q, and the others without their parts in these
*/
#define IDRS_BLOCK_LEFT 1e-2

static void KSPIDRSBlockPivots(KSPIDRSBlockRun *block, const PetscReal size[], const PetscReal small[], PetscBool taken[], PetscScalar W[], PetscScalar C[])
{
  const PetscInt count = block->count;
  PetscReal      begin[IDRS_MAX_WIDTH];

  for (PetscInt j = 0; j < count; j++) {
    begin[j] = PetscSqrtReal(PetscMax(PetscRealPart(W[j + j * count]), 0.0));
    for (PetscInt i = 0; i < count; i++) C[i + j * count] = i == j ? 1.0 : 0.0;
  }
  for (;;) {
    PetscScalar *S     = block->S + block->owners.count;
    PetscInt     pivot = -1;
    PetscReal    most = 0.0, root = 0.0;

    for (PetscInt j = 0; j < count; j++) {
      const PetscReal left = PetscSqrtReal(PetscMax(PetscRealPart(W[j + j * count]), 0.0));

      if (taken[j] || !(left > small[j] && left > IDRS_BLOCK_LEFT * begin[j] && left / size[j] > most)) continue;
      most  = left / size[j];
      pivot = j;
      root  = left;
    }
    if (pivot < 0) return;
    for (PetscInt i = 0; i < count; i++) C[i + pivot * count] /= root;
    for (PetscInt j = 0; j < count; j++) {
      S[j * IDRS_MAX_WIDTH] = j == pivot ? root : 0.0;
      if (taken[j] || j == pivot) continue;
      S[j * IDRS_MAX_WIDTH] = W[pivot + j * count] / root;
      for (PetscInt i = 0; i < count; i++) {
        C[i + j * count] -= C[i + pivot * count] * S[j * IDRS_MAX_WIDTH];
        if (!taken[i] && i != pivot) W[i + j * count] -= PetscConj(W[pivot + i * count] / root) * S[j * IDRS_MAX_WIDTH];
      }
    }
    taken[pivot]                                = PETSC_TRUE;
    block->owners.column[block->owners.count++] = block->column[pivot];
  }
}

/* R = Q S in place, until no more is left of any column than its tolerance or rounding allow to neglect */
static PetscErrorCode KSPIDRSBlockBasis_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  KSP_IDRS      *idrs  = (KSP_IDRS *)ksp->data;
  const PetscInt count = block->count;
  IDRSBlockVec   r[IDRS_MAX_WIDTH];
  PetscReal      size[IDRS_MAX_WIDTH], small[IDRS_MAX_WIDTH];
  PetscBool      taken[IDRS_MAX_WIDTH] = {PETSC_FALSE};

  PetscFunctionBegin;
  block->owners.count = 0;
  for (PetscInt j = 0; j < count; j++) {
    const PetscReal ttol = ksp->converged == KSPConvergedDefault && ksp->normtype != KSP_NORM_NONE ? (idrs->col == block->column[j] ? ksp->ttol : block->column[j]->ofksp.ttol) : 0.0;

    PetscCall(IDRSBlockVecSet(idrs->slot[0].work, block->column[j]->r, &r[j]));
    small[j] = 0.1 * ttol;
  }
  while (block->owners.count < count) {
    const IDRSBlockDots dots   = {.nw = count, .nx = count, .w = r, .x = r};
    const PetscInt      before = block->owners.count;
    IDRSBlockAxpy       sum    = KSPIDRSBlockAxpy(block, NULL, count, r);
    PetscScalar         C[IDRS_MAX_WIDTH * IDRS_MAX_WIDTH];

    PetscCall(IDRSBlockProject(idrs->slot[0].work, 1, &dots, PETSC_FALSE, block->sums));
    for (PetscInt j = 0; !before && j < count; j++) {
      size[j] = block->norms[j] = PetscSqrtReal(PetscRealPart(block->sums[j + j * count]));
      small[j]                  = PetscMax(small[j], 1e3 * PETSC_MACHINE_EPSILON * size[j]);
    }
    KSPIDRSBlockPivots(block, size, small, taken, block->sums, C);
    if (block->owners.count == before) break;
    KSPIDRSBlockTerm(block, &sum, count, r, 1.0, C, count);
    PetscCall(IDRSBlockCombine(idrs->slot[0].work, 1, &sum));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The blocks: vectors of the slots that have a column of the basis */
static PetscErrorCode KSPIDRSBlockVectors_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  const PetscInt m = block->owners.count, s = idrs->set.s;

  PetscFunctionBegin;
  PetscCall(PetscMalloc1((2 * s + 4) * m, &block->vecs));
  block->G = block->vecs;
  block->U = block->G + s * m;
  block->R = block->U + s * m;
  block->Z = block->R + m;
  block->V = block->Z + m;
  block->T = block->V + m;
  for (PetscInt i = 0; i < m; i++) {
    const KSPIDRSColumn *col = block->owners.column[i];

    for (PetscInt k = 0; k < s; k++) {
      PetscCall(IDRSBlockVecSet(col->work, col->G[k], &block->G[k * m + i]));
      PetscCall(IDRSBlockVecSet(col->work, col->U[k], &block->U[k * m + i]));
    }
    PetscCall(IDRSBlockVecSet(col->work, col->r, &block->R[i]));
    PetscCall(IDRSBlockVecSet(col->work, col->z, &block->Z[i]));
    PetscCall(IDRSBlockVecSet(col->work, col->v, &block->V[i]));
    PetscCall(IDRSBlockVecSet(col->work, col->t, &block->T[i]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* R, which is the anchor, and Z = 0 belong together from now on; f = P^H R, from which a cycle begins */
static PetscErrorCode KSPIDRSBlockAnchor_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  KSP_IDRS           *idrs = (KSP_IDRS *)ksp->data;
  const PetscInt      m = block->owners.count, q = block->algebra.q;
  const IDRSBlockDots dots   = {.rows = q, .nw = m, .nx = m, .w = block->R, .x = block->R};
  PetscReal           square = 0.0;

  PetscFunctionBegin;
  PetscCall(IDRSBlockProject(idrs->slot[0].work, 1, &dots, PETSC_FALSE, block->sums));
  PetscCall(PetscArraycpy(block->algebra.f, block->sums, q * m));
  for (PetscInt i = 0; i < m; i++) square += PetscRealPart(block->sums[q * m + i + i * m]);
  block->rnorm = block->anchornorm = block->peak = PetscSqrtReal(square);
  for (PetscInt j = 0; j < block->count; j++) block->anchors[j] = block->norms[j];
  block->k = block->columns = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* P of the omega step, which is R where nothing is applied to it */
static const IDRSBlockVec *KSPIDRSBlockP(const KSP_IDRS *idrs, const KSPIDRSBlockRun *block)
{
  return idrs->preconditioned || idrs->diagonal ? block->V : block->R;
}

/* The sums U_k -= U(:,0:k) alpha, 0 < k < columns, which nothing needs before Z: at the end of a cycle each column of U is read once for all of them. Returns how many there are */
static PetscInt KSPIDRSBlockTermsU(KSPIDRSBlockRun *block, PetscInt columns, IDRSBlockAxpy sums[])
{
  const PetscInt m = block->algebra.m, q = block->algebra.q;

  for (PetscInt k = 1; k < columns; k++) {
    sums[k - 1]     = KSPIDRSBlockAxpy(block, k > 1 ? &sums[k - 2] : NULL, m, block->U + k * m);
    sums[k - 1].add = PETSC_TRUE;
    KSPIDRSBlockTerm(block, &sums[k - 1], k * m, block->U, -1.0, block->algebra.alpha + k * m * q, q);
  }
  return PetscMax(columns - 1, 0);
}

/* Z += U(:,0:columns) beta */
static PetscErrorCode KSPIDRSBlockAddUpdate_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  KSP_IDRS      *idrs  = (KSP_IDRS *)ksp->data;
  const PetscInt m     = block->owners.count;
  const PetscInt count = KSPIDRSBlockTermsU(block, block->columns, block->chain);
  IDRSBlockAxpy *sum   = block->chain + count;

  PetscFunctionBegin;
  if (!block->columns) PetscFunctionReturn(PETSC_SUCCESS);
  *sum     = KSPIDRSBlockAxpy(block, count ? sum - 1 : NULL, m, block->Z);
  sum->add = PETSC_TRUE;
  KSPIDRSBlockTerm(block, sum, block->columns * m, block->U, 1.0, block->algebra.beta, block->algebra.q);
  PetscCall(IDRSBlockCombine(idrs->slot[0].work, count + 1, block->chain));
  block->columns = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* x_j += Z S_j, for the right-hand sides that are marked; all of Z must be there */
static PetscErrorCode KSPIDRSBlockAddSolutions_Private(KSP ksp, KSPIDRSBlockRun *block, const PetscBool marked[])
{
  KSP_IDRS     *idrs = (KSP_IDRS *)ksp->data;
  IDRSBlockAxpy sum  = KSPIDRSBlockAxpy(block, NULL, 0, NULL);
  IDRSBlockVec  x[IDRS_MAX_WIDTH];
  PetscScalar   S[IDRS_MAX_WIDTH * IDRS_MAX_WIDTH];
  PetscInt      ny = 0;

  PetscFunctionBegin;
  for (PetscInt j = 0; j < block->count; j++) {
    if (!marked[j]) continue;
    PetscCall(KSPIDRSSelect_Private(ksp, block->column[j]));
    PetscCall(IDRSBlockVecSet(block->column[j]->work, ksp->vec_sol, &x[ny]));
    PetscCall(PetscArraycpy(S + ny * IDRS_MAX_WIDTH, block->S + j * IDRS_MAX_WIDTH, IDRS_MAX_WIDTH));
    ny++;
  }
  if (!ny) PetscFunctionReturn(PETSC_SUCCESS);
  sum.ny  = ny;
  sum.y   = x;
  sum.add = PETSC_TRUE;
  KSPIDRSBlockTerm(block, &sum, block->owners.count, block->Z, 1.0, S, IDRS_MAX_WIDTH);
  PetscCall(IDRSBlockCombine(idrs->slot[0].work, 1, &sum));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* x_j += Z S_j for those that are marked,  R = anchor - A Z,  anchor = R,  Z = 0 */
static PetscErrorCode KSPIDRSBlockUpdate_Private(KSP ksp, KSPIDRSBlockRun *block, const PetscBool marked[])
{
  const IDRSGroup group = KSPIDRSGetGroup(&block->owners);
  const PetscInt  m     = block->owners.count;
  Vec             z[IDRS_MAX_WIDTH], t[IDRS_MAX_WIDTH], v[IDRS_MAX_WIDTH], r[IDRS_MAX_WIDTH], anchor[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  KSPIDRSBlockList(m, block->Z, z);
  KSPIDRSBlockList(m, block->T, t);
  KSPIDRSBlockList(m, block->V, v);
  KSPIDRSBlockList(m, block->R, r);
  for (PetscInt i = 0; i < m; i++) anchor[i] = block->owners.column[i]->anchor;
  PetscCall(KSPIDRSMatMultColumns_Private(ksp, &block->owners, z, t, v));
  PetscCall(KSPIDRSBlockAddSolutions_Private(ksp, block, marked));
  PetscCall(IDRSResidual(&group, anchor, t, r, anchor));
  PetscCall(KSPIDRSBlockAnchor_Private(ksp, block));
  ((KSP_IDRS *)ksp->data)->counts.updates += m;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The sum that makes the direction of step k, or, with a preconditioner, what that is applied to */
static PetscErrorCode KSPIDRSBlockDirectionSum_Private(KSP ksp, KSPIDRSBlockRun *block, const IDRSBlockAxpy *before, IDRSBlockAxpy *sum)
{
  const KSP_IDRS   *idrs    = (KSP_IDRS *)ksp->data;
  IDRSBlockScalars *algebra = &block->algebra;
  const PetscInt    k = block->k, m = algebra->m, q = algebra->q, columns = PetscMax(block->filled - k, 0) * m; /* of G(:,k:s) and U(:,k:s) */
  const PetscScalar factor = idrs->preconditioned ? (PetscScalar)1.0 : *algebra->omega;

  PetscFunctionBegin;
  IDRSBlockScalarsDirection(algebra, k);
  *sum = KSPIDRSBlockAxpy(block, before, m, idrs->preconditioned ? block->V : block->U + k * m);
  if (!idrs->preconditioned && !idrs->diagonal) KSPIDRSBlockTerm(block, sum, columns, block->U + k * m, 1.0, algebra->c + k * m, q); /* first, as it is in the cache at the end of a cycle */
  KSPIDRSBlockTerm(block, sum, m, block->R, factor, algebra->T, m);
  KSPIDRSBlockTerm(block, sum, columns, block->G + k * m, -factor, algebra->c + k * m, q);
  if (!idrs->preconditioned && idrs->diagonal) {
    sum->scaled = sum->nx;
    KSPIDRSBlockTerm(block, sum, columns, block->U + k * m, 1.0, algebra->c + k * m, q);
  }
  block->directed = PETSC_TRUE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* U_k, or P, and where it is */
static PetscErrorCode KSPIDRSBlockOperand_Private(KSP ksp, KSPIDRSBlockRun *block, const IDRSBlockVec **operand)
{
  KSP_IDRS         *idrs    = (KSP_IDRS *)ksp->data;
  IDRSBlockScalars *algebra = &block->algebra;
  const PetscInt    k = block->k, m = algebra->m, columns = PetscMax(block->filled - k, 0) * m;
  IDRSBlockAxpy     sum;
  Vec               x[IDRS_MAX_WIDTH], y[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  if (k == algebra->s) {
    *operand = KSPIDRSBlockP(idrs, block);
    if (idrs->preconditioned) {
      KSPIDRSBlockList(m, block->R, x);
      KSPIDRSBlockList(m, block->V, y);
      PetscCall(KSPIDRSPCApplyColumns_Private(ksp, m, x, y));
    }
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  *operand = block->U + k * m;
  if (!block->directed) {
    PetscCall(KSPIDRSBlockDirectionSum_Private(ksp, block, NULL, &sum));
    PetscCall(IDRSBlockCombine(idrs->slot[0].work, 1, &sum));
  }
  block->directed = PETSC_FALSE;
  if (idrs->preconditioned) {
    KSPIDRSBlockList(m, block->V, x);
    KSPIDRSBlockList(m, block->T, y);
    PetscCall(KSPIDRSPCApplyColumns_Private(ksp, m, x, y));
    sum = KSPIDRSBlockAxpy(block, NULL, m, *operand);
    KSPIDRSBlockTerm(block, &sum, m, block->T, *algebra->omega, algebra->identity, m);
    KSPIDRSBlockTerm(block, &sum, columns, block->U + k * m, 1.0, algebra->c + k * m, algebra->q);
    PetscCall(IDRSBlockCombine(idrs->slot[0].work, 1, &sum));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* G_k = A U_k, or T = A P */
static PetscErrorCode KSPIDRSBlockMatvec_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  const PetscInt      k = block->k, m = block->algebra.m;
  const IDRSBlockVec *operand;
  Vec                 x[IDRS_MAX_WIDTH], y[IDRS_MAX_WIDTH], w[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  PetscCall(KSPIDRSBlockOperand_Private(ksp, block, &operand));
  KSPIDRSBlockList(m, operand, x);
  KSPIDRSBlockList(m, k == block->algebra.s ? block->T : block->G + k * m, y);
  KSPIDRSBlockList(m, block->V, w);
  PetscCall(KSPIDRSMatMultColumns_Private(ksp, &block->owners, x, y, w));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The sums of the step, and where R^H R is in them, with its leading dimension */
static PetscErrorCode KSPIDRSBlockProject_Private(KSP ksp, KSPIDRSBlockRun *block, const PetscScalar *gram[], PetscInt *ld)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  const PetscInt k = block->k, m = block->algebra.m, q = block->algebra.q;
  IDRSBlockVec   both[2 * IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  if (k < block->algebra.s) {
    const IDRSBlockDots tasks[] = {
      {.rows = q, .nx = m, .x = block->G + k * m},
      {.nw = m, .nx = m, .w = block->R, .x = block->R}
    };

    PetscCall(IDRSBlockProject(idrs->slot[0].work, 2, tasks, PETSC_FALSE, block->sums));
    *gram = block->sums + q * m;
    *ld   = m;
  } else {
    const IDRSBlockDots task = {.rows = q, .nw = 2 * m, .nx = 2 * m, .w = both, .x = both};

    PetscCall(PetscArraycpy(both, block->T, m));
    PetscCall(PetscArraycpy(both + m, block->R, m));
    PetscCall(IDRSBlockProject(idrs->slot[0].work, 1, &task, PETSC_FALSE, block->sums));
    *gram = block->sums + q * 2 * m + m * 2 * m + m;
    *ld   = 2 * m;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* ||r_j||^2 = S_j^H (R^H R) S_j, and the norm of Frobenius. The recurrence cannot go on where a sum is not finite: then the norms stay those of the last iterate that there is */
static void KSPIDRSBlockNorms(KSPIDRSBlockRun *block, const PetscScalar gram[], PetscInt ld)
{
  const PetscInt m = block->owners.count, nsums = block->algebra.q * (block->k == block->algebra.s ? 2 * m : m);
  PetscScalar    all = 0.0;
  PetscReal      norms[IDRS_MAX_WIDTH], frobenius = 0.0;

  for (PetscInt i = 0; i < m; i++) frobenius += PetscRealPart(gram[i + i * ld]);
  for (PetscInt j = 0; j < block->count; j++) {
    const PetscScalar *S      = block->S + j * IDRS_MAX_WIDTH;
    PetscReal          square = 0.0;

    for (PetscInt l = 0; l < m; l++) {
      PetscScalar row = 0.0;

      for (PetscInt i = 0; i < m; i++) row += PetscConj(S[i]) * gram[i + l * ld];
      square += PetscRealPart(row * S[l]);
    }
    norms[j] = PetscSqrtReal(PetscMax(square, 0.0));
    frobenius += PetscIsInfOrNanReal(square) ? square : 0.0;
  }
  if (PetscIsInfOrNanReal(frobenius)) {
    /* of a step k > 0 the iterate before the last update is there, as its beta is not in Z yet */
    block->why  = "the block recurrence has broken down";
    block->lost = block->k ? PETSC_FALSE : PETSC_TRUE;
    if (block->k) block->columns = block->k - 1;
    return;
  }
  for (PetscInt i = 0; i < nsums; i++) all += block->sums[i];
  if (PetscIsInfOrNanScalar(all)) block->why = "the block recurrence has broken down";
  for (PetscInt j = 0; j < block->count; j++) block->norms[j] = norms[j];
  block->rnorm = PetscSqrtReal(frobenius);
  block->peak  = PetscMax(block->peak, block->rnorm);
  if (block->rnorm < block->best) {
    block->best   = block->rnorm;
    block->waited = 0;
  } else block->waited++;
}

/* Reports the iteration of a right-hand side, which the KSP turns to */
static PetscErrorCode KSPIDRSBlockReport_Private(KSP ksp, KSPIDRSColumn *col, PetscInt its, PetscReal rnorm)
{
  PetscFunctionBegin;
  PetscCall(KSPIDRSSelect_Private(ksp, col));
  col->trust.rnorm = rnorm;
  ksp->its         = its;
  ksp->rnorm       = ksp->normtype == KSP_NORM_NONE ? 0.0 : rnorm;
  PetscCall((*ksp->converged)(ksp, its, ksp->rnorm, &ksp->reason, ksp->cnvP));
  PetscCall(KSPIDRSConcludeReport_Private(ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Reports the iteration of all that are not done: counts them, and those that have a reason to end */
static PetscErrorCode KSPIDRSBlockReportAll_Private(KSP ksp, KSPIDRSBlockRun *block, PetscBool ended[], PetscInt *left, PetscInt *ending)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  *left = *ending = 0;
  block->reported = block->its;
  for (PetscInt j = 0; j < block->count; j++) {
    ended[j] = PETSC_FALSE;
    if (block->done[j]) continue;
    PetscCall(KSPIDRSBlockReport_Private(ksp, block->column[j], block->its, block->norms[j]));
    if (ksp->reason == KSP_DIVERGED_DTOL) {
      block->why  = "its residuals have grown too far";
      ksp->reason = KSP_CONVERGED_ITERATING;
    }
    if (ksp->reason) ended[j] = PETSC_TRUE;
    *left += 1;
    *ending += ended[j] ? 1 : 0;
  }
  if (block->waited >= IDRS_BLOCK_PATIENCE) block->why = "it has found no smaller residual for a long time";
  if (block->rnorm > KSPIDRSGrowthLimit(idrs, block->anchornorm)) block->why = "its residuals have grown too far";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* v = b - A x of the right-hand side that the KSP is at, or B^{-1}(b - A x), and its norm; z, which is a column of Z, stays as it is */
static PetscErrorCode KSPIDRSBlockTrueNorm_Private(KSP ksp, PetscReal *rnorm)
{
  KSP_IDRS          *idrs  = (KSP_IDRS *)ksp->data;
  const KSPIDRSFront alone = KSPIDRSAlone(ksp);
  Vec                t = idrs->col->t, v = idrs->col->v;

  PetscFunctionBegin;
  PetscCall(IDRSStreamJoin(idrs->col->work));
  PetscCall(IDRSProductApply(idrs->product, ksp->vec_sol, t));
  PetscCall(IDRSStreamJoin(idrs->col->work));
  idrs->counts.matvecs++;
  PetscCall(VecAYPX(t, -1.0, ksp->vec_rhs));
  if (ksp->pc_side == PC_LEFT) PetscCall(KSPIDRSPCApply_Private(ksp, t, v));
  else PetscCall(VecCopy(t, v));
  PetscCall(KSPIDRSNorms_Private(ksp, &alone, &v, rnorm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Whether b - A x meets the tolerance of the right-hand side that the KSP is at */
static PetscErrorCode KSPIDRSBlockVerify_Private(KSP ksp, PetscBool *met)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  PetscReal rnorm;

  PetscFunctionBegin;
  *met = PETSC_TRUE;
  if (!idrs->exact || ksp->converged != KSPConvergedDefault || (ksp->reason != KSP_CONVERGED_RTOL && ksp->reason != KSP_CONVERGED_ATOL)) PetscFunctionReturn(PETSC_SUCCESS);
  idrs->counts.verifications++;
  PetscCall(KSPIDRSBlockTrueNorm_Private(ksp, &rnorm));
  ksp->rnorm  = rnorm;
  ksp->reason = KSP_CONVERGED_ITERATING;
  PetscCall(KSPConvergedDefault(ksp, ksp->its, rnorm, &ksp->reason, ksp->cnvP));
  *met = (PetscBool)(ksp->reason > 0);
  if (!*met) ksp->reason = KSP_CONVERGED_ITERATING;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Step k < s, which has overwritten U_k, ends with beta = 0: G = A U and M = P^H G hold again for the next cycle. Columns of U before it have no sums to wait for */
static PetscErrorCode KSPIDRSBlockFinishColumn_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  IDRSBlockScalars    *algebra = &block->algebra;
  const PetscInt       k = block->k, m = algebra->m, q = algebra->q;
  const PetscScalar   *alpha  = algebra->alpha + k * m * q;
  const IDRSBlockVec  *both[] = {block->G, block->U};

  PetscFunctionBegin;
  if (!IDRSBlockScalarsColumn(algebra, k, block->sums)) {
    block->why = "the block recurrence has broken down";
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  block->filled = PetscMax(block->filled, k + 1);
  if (!k) PetscFunctionReturn(PETSC_SUCCESS);
  for (PetscInt i = 0; i < 2; i++) {
    block->chain[i]     = KSPIDRSBlockAxpy(block, i ? &block->chain[0] : NULL, m, both[i] + k * m);
    block->chain[i].add = PETSC_TRUE;
    KSPIDRSBlockTerm(block, &block->chain[i], k * m, both[i], -1.0, alpha, q);
  }
  PetscCall(IDRSBlockCombine(((KSP_IDRS *)ksp->data)->slot[0].work, 2, block->chain));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Those that have a reason to end get their solutions. Where one misses its tolerance, R is computed afresh, a cycle begins, and v and t have gone */
static PetscErrorCode KSPIDRSBlockSettle_Private(KSP ksp, KSPIDRSBlockRun *block, const PetscBool ended[], PetscBool *again)
{
  PetscBool others[IDRS_MAX_WIDTH];
  PetscInt  left = 0, missed = 0;

  PetscFunctionBegin;
  *again = PETSC_FALSE;
  PetscCall(KSPIDRSBlockAddUpdate_Private(ksp, block));
  PetscCall(KSPIDRSBlockAddSolutions_Private(ksp, block, ended));
  for (PetscInt j = 0; j < block->count; j++) {
    others[j] = (PetscBool)(!block->done[j] && !ended[j]);
    if (ended[j]) {
      PetscCall(KSPIDRSSelect_Private(ksp, block->column[j]));
      PetscCall(KSPIDRSBlockVerify_Private(ksp, &block->done[j]));
      if (!block->done[j]) {
        PetscCall(PetscInfo(ksp, "Right-hand side %" PetscInt_FMT ": the block recurrence meets the tolerance, and b - A x, whose norm is %g, does not\n", block->column[j]->index, (double)ksp->rnorm));
        missed++;
      }
    }
    left += block->done[j] ? 0 : 1;
  }
  if (!missed) {
    if (left) block->lost = PETSC_FALSE;
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  *again = PETSC_TRUE;
  if (block->owners.column[0]->anchor && ++block->misses < IDRS_BLOCK_MISSES) {
    if (block->k < block->algebra.s && !block->why) PetscCall(KSPIDRSBlockFinishColumn_Private(ksp, block));
    PetscCall(KSPIDRSBlockUpdate_Private(ksp, block, others));
  } else {
    PetscCall(KSPIDRSBlockAddSolutions_Private(ksp, block, others));
    for (PetscInt i = 0; i < block->owners.count; i++) PetscCall(VecSet(block->Z[i].vec, 0.0));
    block->why = "b - A x misses tolerances that it meets";
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Whether R is to be computed afresh, where a cycle ends */
static PetscBool KSPIDRSBlockUpdateDue(const KSP_IDRS *idrs, const KSPIDRSBlockRun *block)
{
  return (PetscBool)(block->owners.column[0]->anchor && IDRSUpdateIsDue(block->rnorm, idrs->set.updatetol, block->peak, block->anchornorm));
}

/* What follows from the sums of the omega step: R, U, Z, and, where R stays, the direction of the next step, which has U and R in common with them */
static PetscErrorCode KSPIDRSBlockFinishOmega_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  KSP_IDRS           *idrs    = (KSP_IDRS *)ksp->data;
  IDRSBlockScalars   *algebra = &block->algebra;
  const PetscInt      m = algebra->m, q = algebra->q;
  const IDRSBlockVec *P   = KSPIDRSBlockP(idrs, block);
  IDRSBlockAxpy      *sum = block->chain + KSPIDRSBlockTermsU(block, algebra->s, block->chain);

  PetscFunctionBegin;
  IDRSBlockScalarsOmega(algebra, idrs->set.cosine, block->sums, &block->rnorm);
  *sum     = KSPIDRSBlockAxpy(block, sum > block->chain ? sum - 1 : NULL, m, block->Z);
  sum->add = PETSC_TRUE;
  KSPIDRSBlockTerm(block, sum, m, P, *algebra->omega, algebra->identity, m);
  KSPIDRSBlockTerm(block, sum, q, block->U, 1.0, algebra->beta, q);
  sum++;
  *sum     = KSPIDRSBlockAxpy(block, sum - 1, m, block->R);
  sum->add = PETSC_TRUE;
  KSPIDRSBlockTerm(block, sum, m, block->T, -*algebra->omega, algebra->identity, m);
  sum++;
  block->k = block->columns = 0;
  if (!KSPIDRSBlockUpdateDue(idrs, block)) {
    PetscCall(KSPIDRSBlockDirectionSum_Private(ksp, block, sum - 1, sum));
    sum++;
  }
  PetscCall(IDRSBlockCombine(idrs->slot[0].work, (PetscInt)(sum - block->chain), block->chain));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* What follows from the sums of step k < s: G_k and R, and P in the step before omega where a diagonal makes it */
static PetscErrorCode KSPIDRSBlockFinish_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  KSP_IDRS         *idrs    = (KSP_IDRS *)ksp->data;
  IDRSBlockScalars *algebra = &block->algebra;
  const PetscInt    k = block->k, m = algebra->m, q = algebra->q;
  IDRSBlockAxpy    *sum = block->chain;

  PetscFunctionBegin;
  if (k == algebra->s) {
    block->its++;
    PetscCall(KSPIDRSBlockFinishOmega_Private(ksp, block));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (!IDRSBlockScalarsColumn(algebra, k, block->sums)) { /* on all processes, which have the same sums: the iterate before this step remains */
    block->why = "the block recurrence has broken down";
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  block->its++;
  if (k) {
    *sum     = KSPIDRSBlockAxpy(block, NULL, m, block->G + k * m);
    sum->add = PETSC_TRUE;
    KSPIDRSBlockTerm(block, sum, k * m, block->G, -1.0, algebra->alpha + k * m * q, q);
    sum++;
  }
  *sum     = KSPIDRSBlockAxpy(block, k ? sum - 1 : NULL, m, block->R);
  sum->add = PETSC_TRUE;
  KSPIDRSBlockTerm(block, sum, m, block->G + k * m, -1.0, algebra->beta + k * m, q);
  sum++;
  if (k == algebra->s - 1 && idrs->diagonal && !idrs->preconditioned) {
    *sum = KSPIDRSBlockAxpy(block, sum - 1, m, block->V);
    KSPIDRSBlockTerm(block, sum, m, block->R, 1.0, algebra->identity, m);
    sum->scaled = sum->nx;
    sum++;
  }
  PetscCall(IDRSBlockCombine(idrs->slot[0].work, (PetscInt)(sum - block->chain), block->chain));
  block->columns = ++block->k;
  block->filled  = PetscMax(block->filled, block->k);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* One step; *ends once all right-hand sides are done, or go on by themselves */
static PetscErrorCode KSPIDRSBlockStep_Private(KSP ksp, KSPIDRSBlockRun *block, PetscBool *ends)
{
  PetscBool          again = PETSC_FALSE, ended[IDRS_MAX_WIDTH];
  PetscInt           ld = 0, left = block->count, ending = 0;
  const PetscScalar *gram = NULL;

  PetscFunctionBegin;
  PetscCall(KSPIDRSBlockMatvec_Private(ksp, block));
  PetscCall(KSPIDRSBlockProject_Private(ksp, block, &gram, &ld));
  KSPIDRSBlockNorms(block, gram, ld);
  if (block->its > block->reported && !block->lost && !(block->why && block->columns < block->k)) PetscCall(KSPIDRSBlockReportAll_Private(ksp, block, ended, &left, &ending));
  if (ending && (ending == left || !block->k || block->why)) {
    PetscCall(KSPIDRSBlockSettle_Private(ksp, block, ended, &again));
    *ends = (PetscBool)(ending == left && !again);
  }
  if (block->why) *ends = PETSC_TRUE;
  if (*ends || again) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSBlockFinish_Private(ksp, block));
  if (block->why) *ends = PETSC_TRUE;
  else if (!block->k && !block->directed) { /* R is to be computed afresh */ PetscBool marked[IDRS_MAX_WIDTH];

    for (PetscInt j = 0; j < block->count; j++) marked[j] = block->done[j] ? PETSC_FALSE : PETSC_TRUE;
    PetscCall(KSPIDRSBlockUpdate_Private(ksp, block, marked));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Right-hand sides that are not done begin a recurrence of their own: from the present iterate, or from that of the last reliable update where its residual is smaller */
static PetscErrorCode KSPIDRSBlockPart_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  KSP_IDRS    *idrs  = (KSP_IDRS *)ksp->data;
  KSPIDRSFront alone = {.count = 0};
  PetscBool    marked[IDRS_MAX_WIDTH];
  Vec          r[IDRS_MAX_WIDTH], anchor[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  if (!block->lost) PetscCall(KSPIDRSBlockAddUpdate_Private(ksp, block));
  for (PetscInt j = 0; j < block->count; j++) marked[j] = (PetscBool)(!block->done[j] && !block->lost && block->norms[j] <= block->anchors[j]);
  PetscCall(KSPIDRSBlockAddSolutions_Private(ksp, block, marked));
  for (PetscInt j = 0; j < block->count; j++) {
    KSPIDRSColumn *col = block->column[j];

    PetscCall(KSPIDRSSelect_Private(ksp, col));
    if (block->done[j]) {
      PetscCall(VecSet(col->z, 0.0)); /* the end of a solve adds it to the solution */
      continue;
    }
    ksp->reason                 = KSP_CONVERGED_ITERATING;
    col->rec.its                = ksp->its;
    r[alone.count]              = col->r;
    anchor[alone.count]         = col->anchor;
    alone.column[alone.count++] = col;
  }
  if (!alone.count) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSTrueResidual_Private(ksp, &alone, PETSC_FALSE, r, anchor));
  PetscCall(KSPIDRSBeginRecurrence_Private(ksp, &alone));
  idrs->blocks.alone += alone.count;
  idrs->blocks.why = block->why;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Memory for right-hand sides whose basis has not been made yet: operands and coefficients of the largest combine, which ends a cycle, and the sums of the omega step */
static PetscErrorCode KSPIDRSBlockCreate_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  const PetscInt s = ((KSP_IDRS *)ksp->data)->set.s, most = block->count;

  PetscFunctionBegin;
  block->ld = (s * (s - 1) / 2 + 3 * s + 3) * most;
  PetscCall(PetscMalloc5(s + 2, &block->chain, block->ld, &block->x, block->ld * most, &block->C, 2 * s * most * most + 4 * most * most, &block->sums, most * IDRS_MAX_WIDTH, &block->S));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Until all right-hand sides are done, or go on by themselves */
static PetscErrorCode KSPIDRSBlockIterate_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  const uint64_t seed = IDRS_BLOCK_SEED + (uint64_t)idrs->set.seed + ((uint64_t)idrs->nesting << 32);
  PetscBool      ends = PETSC_FALSE;

  PetscFunctionBegin;
  PetscCall(KSPIDRSBlockBasis_Private(ksp, block));
  if (!block->owners.count) { /* without a norm zero has not been seen to be solved for */
    PetscCall(PetscInfo(ksp, "No block recurrence: the squares of all residual norms vanish or overflow. Right-hand sides that are left go on without one\n"));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(KSPIDRSBlockVectors_Private(ksp, block));
  PetscCall(PetscMalloc1(IDRS_BLOCK_STORAGE(idrs->set.s, block->owners.count), &block->storage));
  IDRSBlockScalarsSetPointers(&block->algebra, idrs->set.s, block->owners.count, block->storage);
  IDRSBlockScalarsReset(&block->algebra);
  PetscCall(IDRSWorkSetSeed(idrs->slot[0].work, seed));
  for (PetscInt i = 0; i < block->owners.count; i++) {
    if (block->owners.column[i]->anchor) PetscCall(VecCopy(block->R[i].vec, block->owners.column[i]->anchor));
  }
  PetscCall(KSPIDRSBlockAnchor_Private(ksp, block));
  block->best = PETSC_MAX_REAL;
  idrs->blocks.columns += block->count;
  idrs->blocks.rank += block->owners.count;
  while (!ends) PetscCall(KSPIDRSBlockStep_Private(ksp, block, &ends));
  PetscCall(KSPIDRSBlockPart_Private(ksp, block));
  if (block->why) PetscCall(PetscInfo(ksp, "Block recurrence left after %" PetscInt_FMT " iterations: %s\n", block->its, block->why));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSBlockSolve_Private - Solves for the right-hand sides of a front, whose first residuals have been reported, by one block recurrence. Afterwards each has a reason, or is at the begin
   of a recurrence of its own
*/
PetscErrorCode KSPIDRSBlockSolve_Private(KSP ksp, const KSPIDRSFront *front)
{
  KSP_IDRS       *idrs  = (KSP_IDRS *)ksp->data;
  KSPIDRSBlockRun block = {.count = 0};
  PetscErrorCode  ierr;
  PetscInt        N;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < front->count; i++) block.column[block.count++] = front->column[i];
  if (block.count < 2) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecGetSize(idrs->col->r, &N));
  if (idrs->set.s * block.count >= N) {
    idrs->blocks.why = "the system has fewer unknowns than a block has shadow vectors";
    idrs->blocks.alone += block.count;
    PetscCall(PetscInfo(ksp, "No block recurrence: %s\n", idrs->blocks.why));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(KSPIDRSBlockCreate_Private(ksp, &block));
  ierr = KSPIDRSBlockIterate_Private(ksp, &block);
  PetscCall(PetscFree(block.storage));
  PetscCall(PetscFree(block.vecs));
  PetscCall(PetscFree5(block.chain, block.x, block.C, block.sums, block.S));
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}
