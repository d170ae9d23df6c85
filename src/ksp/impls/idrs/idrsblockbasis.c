/*
   Operations of several right-hand sides outside the recurrence: a basis of their residuals, by Cholesky factorization of Gram
   matrices with pivoting. The rank is the number of its columns

     Q S = B - A X       m columns;  R = Q at first
     r_j = R S_j         for right-hand side j, in each step
     x_j += Z S_j        once the solution of right-hand side j is complete, and at reliable updates
*/
#include "idrsblock.h"

/* Single recurrences have another shadow space. They would stagnate if they continued with a part of this shadow space */
#define IDRS_BLOCK_SEED (UINT64_C(1) << 62)

/* A remainder of a residual below this part of its tolerance needs no column of Q: the residual meets the tolerance without it */
#define IDRS_BLOCK_NEGLIGIBLE 0.1

/* A remainder of a residual below this part of its norm is rounding error */
#define IDRS_BLOCK_ROUNDING (1e3 * PETSC_MACHINE_EPSILON)

/* A remainder below this part of the norm waits for the next Gram matrix, because rounding errors of this one are as large */
#define IDRS_BLOCK_DEFLATION 1e-2

/* The basis of `count` residuals */
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

/* Sets the blocks: vectors of the slots that have a column of the basis */
static PetscErrorCode KSPIDRSBlockSetVecs_Private(PetscInt s, KSPIDRSBlockVecs *vecs)
{
  const PetscInt m = vecs->owners.count;

  PetscFunctionBegin;
  vecs->U = vecs->G + s * m;
  vecs->Z = vecs->U + s * m;
  vecs->V = vecs->Z + m;
  vecs->T = vecs->V + m;
  vecs->R = vecs->T + m;
  for (PetscInt i = 0; i < m; i++) {
    const KSPIDRSColumn *col     = vecs->owners.column[i];
    const Vec            other[] = {col->z, col->v, col->t, col->r};

    for (PetscInt l = 0; l < 2 * s + 4; l++)
      PetscCall(
        IDRSBlockVecSet(col->work, l < s ? col->G[l] : (l < 2 * s ? col->U[l - s] : other[l - 2 * s]), &vecs->G[l * m + i]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSBlockCreate_Private - Computes the basis of the residuals, and sets up the recurrence unless all residuals vanish. The
   largest combine ends a cycle, and the omega step has the most sums
*/
PetscErrorCode KSPIDRSBlockCreate_Private(KSP ksp, const KSPIDRSColumns *cols, KSPIDRSBlockRun *run)
{
  const KSP_IDRS      *idrs    = (const KSP_IDRS *)ksp->data;
  KSPIDRSBlockProgram *program = &run->program;
  const PetscInt       s       = idrs->set.s;
  KSPIDRSBlockBasis    basis   = {.rank = 0};
  PetscInt             m;

  PetscFunctionBegin;
  run->cols = *cols;
  run->work = idrs->slot[0].work;
  PetscCall(KSPIDRSBlockBasis_Private(ksp, run, &basis));
  m = run->vecs.owners.count = basis.rank;
  if (!m) { /* with KSP_NORM_NONE also for zero right-hand sides */
    PetscCall(PetscInfo(ksp, "No block recurrence: the squares of all residual norms vanish or overflow\n"));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  for (PetscInt i = 0; i < m; i++) run->vecs.owners.column[i] = cols->column[basis.pivot[i]];
  program->ld = (s * (s - 1) / 2 + 4 * s + 4) * m;
  PetscCall(PetscMalloc6((2 * s + 4) * m, &run->vecs.G, IDRS_BLOCK_STORAGE(s, m), &run->block.algebra.M, s + 3, &program->sum,
                         program->ld, &program->x, program->ld * m, &program->C, IDRSBlockSumCount(s, m, s), &run->block.results));
  IDRSBlockScalarsSetPointers(&run->block.algebra, s, m, run->block.algebra.M);
  IDRSBlockScalarsReset(&run->block.algebra);
  for (PetscInt j = 0; j < cols->count; j++)
    PetscCall(PetscArraycpy(run->block.algebra.S + j * m, basis.S + j * IDRS_MAX_WIDTH, m));
  PetscCall(KSPIDRSBlockSetVecs_Private(s, &run->vecs));
  run->pc           = KSPIDRSIsPreconditioned(idrs) ? KSPIDRS_BLOCK_PC_SEPARATE
                                                    : (idrs->diagonal ? KSPIDRS_BLOCK_PC_DIAGONAL : KSPIDRS_BLOCK_PC_NONE);
  run->vecs.P       = run->pc == KSPIDRS_BLOCK_PC_NONE ? run->vecs.R : run->vecs.V;
  run->block.bounds = (IDRSBlockBounds){
    .count = cols->count,
    .norm  = {.low = -1.0, .cosine = idrs->set.cosine},
    .fall  = run->vecs.owners.column[0]->anchor ? idrs->set.updatetol : 0.0
  };
  run->smallest = PETSC_MAX_REAL;
  PetscCall(IDRSWorkSetSeed(run->work, IDRS_BLOCK_SEED + KSPIDRSGetSeed(idrs)));
  for (PetscInt i = 0; i < m; i++) PetscCall(KSPIDRSAnchor_Private(run->vecs.owners.column[i]));
  PetscCall(KSPIDRSBlockAnchor_Private(ksp, run));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSBlockAnchor_Private - Begins a cycle with an R that is the anchor, the residual of Z = 0: f = P^H R, and the norms */
PetscErrorCode KSPIDRSBlockAnchor_Private(KSP ksp, KSPIDRSBlockRun *run)
{
  const PetscInt      m = run->block.algebra.m, q = run->block.algebra.q;
  const IDRSBlockDots dots   = {.rows = q, .nw = m, .nx = m, .w = run->vecs.R, .x = run->vecs.R};
  PetscReal           square = 0.0;

  PetscFunctionBegin;
  PetscCall(IDRSBlockProject(run->work, 1, &dots, run->block.results)); /* P^H R, R^H R */
  PetscCall(PetscArraycpy(run->block.algebra.f, run->block.results, q * m));
  for (PetscInt i = 0; i < m; i++) square += PetscRealPart(run->block.results[q * m + i + i * m]);
  KSPIDRSSetReplacedNorm(&run->trust, PetscSqrtReal(square));
  for (PetscInt j = 0; j < run->cols.count; j++)
    KSPIDRSSetReplacedNorm(&run->cols.column[j]->trust, run->cols.column[j]->trust.rnorm);
  run->block.bounds.anchornorm = run->trust.anchornorm;
  run->block.bounds.norm.high  = KSPIDRSGrowthLimit((const KSP_IDRS *)ksp->data, run->trust.anchornorm);
  run->at.k = run->at.columns = 0;
  run->at.directed            = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSBlockAddSolutions_Private - Computes x_j += Z S_j for the marked right-hand sides, or with NULL for all right-hand
   sides that are not done. Z must be complete
*/
PetscErrorCode KSPIDRSBlockAddSolutions_Private(KSPIDRSBlockRun *run, const PetscBool marked[])
{
  const PetscInt m = run->block.algebra.m;
  IDRSBlockVec   x[IDRS_MAX_WIDTH];
  PetscScalar    S[IDRS_MAX_WIDTH * IDRS_MAX_WIDTH];
  IDRSBlockAxpy  sum = {.nx = m, .x = run->vecs.Z, .y = x, .C = S, .ld = m, .add = PETSC_TRUE};

  PetscFunctionBegin;
  for (PetscInt j = 0; j < run->cols.count; j++) {
    const KSPIDRSColumn *col = run->cols.column[j];

    if (marked ? !marked[j] : col->rec.status == KSPIDRS_COMPLETE) continue;
    PetscCall(IDRSBlockVecSet(col->work, col->rep.sol, &x[sum.ny]));
    PetscCall(PetscArraycpy(S + sum.ny++ * m, run->block.algebra.S + j * m, m));
  }
  if (sum.ny) PetscCall(IDRSBlockCombine(run->work, 1, &sum)); /* x_j += Z S_j */
  PetscFunctionReturn(PETSC_SUCCESS);
}
