/*
   Block IDR(s): one recurrence for the right-hand sides that KSPMatSolve() solves at the same time. Its vectors are blocks of m
   columns, which are the vectors of the slots, and its coefficients are m x m matrices.

     Q S = B - A X, m columns     by Cholesky of Gram matrices, with pivoting: m is the rank, r_j = R S_j belongs to right-hand side
                                  j, and R = Q
     step k of a cycle, k < s                                          omega step
       M(k:s,k:s) c = f(k:s),  T from f(k:s)                             P = B^{-1}R
       U_k = omega B^{-1}(R T - G(:,k:s) c T) + U(:,k:s) c T             T = A P
       G_k = A U_k                                                       P^H T, P^H R, <T,T>, <T,R>, <R,R>      one reduction
       P^H G_k, R^H R                          one reduction
       alpha, M_k, beta_k, f                                             omega, f = P^H R - omega P^H T
       G_k -= G(:,0:k) alpha                                             U_k -= U(:,0:k) alpha of step k, k = 1 ... s - 1
       R -= G_k beta_k                                                   Z += omega P + U beta,  R -= omega T

   T makes the columns of R T nearly orthogonal. In exact arithmetic it changes nothing. Without it the recurrence loses its
   digits when columns of R become nearly parallel, as they do if some converge first.

   The solution of right-hand side j is x_j + (Z + U beta) S_j, and ||r_j|| follows from R^H R. Verification, reliable updates
   and the limit of growth are as for one right-hand side. After a breakdown, too much growth, or IDRS_BLOCK_MAX_STAGNATION steps
   without a smaller residual, the remaining right-hand sides continue with single recurrences.
*/
#include "idrsblock.h"

#define IDRS_BLOCK_MAX_STAGNATION 100
#define IDRS_BLOCK_MISSES         3 /* verifications that may fail */

/* Another shadow space than that of single recurrences, which would stagnate if they continued with a part of this one */
#define IDRS_BLOCK_SEED (UINT64_C(1) << 62)

/*
   Columns of a basis from the Gram matrix W of all columns, by Cholesky with pivoting: each time the column of which most is left.
   Those of which less is left than this part of their norms wait for the Gram matrix of the next round, as rounding errors of this
   one are as large. Rows of S, and C, with which R C has the new columns of Q, and the others without their parts in these
*/
#define IDRS_BLOCK_DEFLATION 1e-2

/*
   Adds columns to the basis from the Gram matrix W of all columns, by Cholesky with pivoting, and sets their rows of S. R C has
   the new columns of Q, and the other columns without their components in these. Columns whose remainder is below
   IDRS_BLOCK_DEFLATION of their norms wait for the next Gram matrix, because rounding errors of this one are as large
*/
static void KSPIDRSBlockPivots(KSPIDRSBlockRun *block, const PetscReal size[], const PetscReal small[], PetscBool taken[],
                               PetscScalar W[], PetscScalar C[])
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

      if (taken[j] || !(left > small[j] && left > IDRS_BLOCK_DEFLATION * begin[j] && left / size[j] > most)) continue;
      most  = left / size[j];
      pivot = j;
      root  = left;
    }
    if (pivot < 0) return;
    for (PetscInt i = 0; i < count; i++) C[i + pivot * count] /= root; /* the column of Q */
    for (PetscInt j = 0; j < count; j++) {
      S[j * IDRS_MAX_WIDTH] = j == pivot ? root : 0.0;
      if (taken[j] || j == pivot) continue;
      S[j * IDRS_MAX_WIDTH] = W[pivot + j * count] / root; /* S_ij = q_i^H r_j */
      for (PetscInt i = 0; i < count; i++) {
        C[i + j * count] -= C[i + pivot * count] * S[j * IDRS_MAX_WIDTH]; /* r_j -= q_i S_ij */
        /* the Gram matrix of the remainders */
        if (!taken[i] && i != pivot) W[i + j * count] -= PetscConj(W[pivot + i * count] / root) * S[j * IDRS_MAX_WIDTH];
      }
    }
    taken[pivot]                                = PETSC_TRUE;
    block->owners.column[block->owners.count++] = block->column[pivot];
  }
}

/* Computes R = Q S in place, until the remainder of each column is below a tenth of its tolerance, or rounding error */
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
    const PetscReal ttol = ksp->converged == KSPConvergedDefault && ksp->normtype != KSP_NORM_NONE ? block->column[j]->rep.ttol
                                                                                                   : 0.0;

    PetscCall(IDRSBlockVecSet(idrs->slot[0].work, block->column[j]->r, &r[j]));
    small[j] = 0.1 * ttol;
  }
  while (block->owners.count < count) {
    const IDRSBlockDots dots   = {.nw = count, .nx = count, .w = r, .x = r};
    const PetscInt      before = block->owners.count;
    PetscScalar         C[IDRS_MAX_WIDTH * IDRS_MAX_WIDTH];
    const IDRSBlockAxpy sum = {.nx = count, .ny = count, .x = r, .y = r, .C = C, .ld = count};

    PetscCall(IDRSBlockProject(idrs->slot[0].work, 1, &dots, block->sums)); /* W = R^H R */
    for (PetscInt j = 0; !before && j < count; j++) {
      size[j] = block->norms[j] = PetscSqrtReal(PetscRealPart(block->sums[j + j * count]));
      small[j]                  = PetscMax(small[j], 1e3 * PETSC_MACHINE_EPSILON * size[j]);
    }
    KSPIDRSBlockPivots(block, size, small, taken, block->sums, C);
    if (block->owners.count == before) break;
    PetscCall(IDRSBlockCombine(idrs->slot[0].work, 1, &sum)); /* R = R C */
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the blocks: vectors of the slots that have a column of the basis */
static PetscErrorCode KSPIDRSBlockVectors_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  const PetscInt m = block->owners.count, s = idrs->set.s;

  PetscFunctionBegin;
  PetscCall(PetscMalloc1((2 * s + 4) * m, &block->vecs));
  block->G = block->vecs;
  block->U = block->G + s * m;
  block->Z = block->U + s * m;
  block->V = block->Z + m;
  block->T = block->V + m;
  block->R = block->T + m;
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

/* Sets R, which is the anchor, as the residual of Z = 0; f = P^H R, with which a cycle begins */
static PetscErrorCode KSPIDRSBlockAnchor_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  KSP_IDRS           *idrs = (KSP_IDRS *)ksp->data;
  const PetscInt      m = block->owners.count, q = block->algebra.q;
  const IDRSBlockDots dots   = {.rows = q, .nw = m, .nx = m, .w = block->R, .x = block->R};
  PetscReal           square = 0.0;

  PetscFunctionBegin;
  PetscCall(IDRSBlockProject(idrs->slot[0].work, 1, &dots, block->sums)); /* P^H R, R^H R */
  PetscCall(PetscArraycpy(block->algebra.f, block->sums, q * m));
  for (PetscInt i = 0; i < m; i++) square += PetscRealPart(block->sums[q * m + i + i * m]);
  block->rnorm = block->anchornorm = block->peak = PetscSqrtReal(square);
  for (PetscInt j = 0; j < block->count; j++) block->anchors[j] = block->norms[j];
  block->at.k = block->at.columns = 0;
  block->at.directed              = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes x_j += Z S_j for the marked right-hand sides; Z must be complete */
static PetscErrorCode KSPIDRSBlockAddSolutions_Private(KSP ksp, KSPIDRSBlockRun *block, const PetscBool marked[])
{
  KSP_IDRS     *idrs = (KSP_IDRS *)ksp->data;
  IDRSBlockAxpy sum;
  IDRSBlockVec  x[IDRS_MAX_WIDTH];
  PetscScalar   S[IDRS_MAX_WIDTH * IDRS_MAX_WIDTH];
  PetscInt      ny = 0;

  PetscFunctionBegin;
  for (PetscInt j = 0; j < block->count; j++) {
    if (!marked[j]) continue;
    PetscCall(IDRSBlockVecSet(block->column[j]->work, block->column[j]->rep.sol, &x[ny]));
    PetscCall(PetscArraycpy(S + ny * IDRS_MAX_WIDTH, block->S + j * IDRS_MAX_WIDTH, IDRS_MAX_WIDTH));
    ny++;
  }
  if (!ny) PetscFunctionReturn(PETSC_SUCCESS);
  sum = (IDRSBlockAxpy){
    .nx  = block->owners.count,
    .ny  = ny,
    .x   = block->Z,
    .y   = x,
    .C   = S,
    .ld  = IDRS_MAX_WIDTH,
    .add = PETSC_TRUE,
  };
  PetscCall(IDRSBlockCombine(idrs->slot[0].work, 1, &sum)); /* x_j += Z S_j */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes a reliable update, and adds it to the solutions of the marked right-hand sides */
static PetscErrorCode KSPIDRSBlockUpdate_Private(KSP ksp, KSPIDRSBlockRun *block, const PetscBool marked[])
{
  PetscFunctionBegin;
  PetscCall(KSPIDRSUpdateProduct_Private(ksp, &block->owners));    /* T = A Z */
  PetscCall(KSPIDRSBlockAddSolutions_Private(ksp, block, marked)); /* x_j += Z S_j */
  PetscCall(KSPIDRSUpdateResidual_Private(ksp, &block->owners));   /* R = anchor - T, Z = 0 */
  PetscCall(KSPIDRSBlockAnchor_Private(ksp, block));               /* f = P^H R */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Takes the norms from the sums of a step. If one is not finite, the recurrence ends with the norms of its last iterate */
static void KSPIDRSBlockSetNorms(KSPIDRSBlockRun *block, const IDRSBlockNorms *norms)
{
  PetscBool valid = (PetscBool)!PetscIsInfOrNanReal(norms->rnorm);

  for (PetscInt j = 0; j < block->count; j++) valid = (PetscBool)(valid && !PetscIsInfOrNanReal(norms->norms[j]));
  if (!norms->finite || !valid) block->why = "the block recurrence has broken down";
  if (!valid) {
    /* of a step k > 0 the iterate before the last update is there, as its beta is not in Z yet */
    block->zinvalid = block->at.k ? PETSC_FALSE : PETSC_TRUE;
    if (block->at.k) block->at.columns = block->at.k - 1;
    return;
  }
  for (PetscInt j = 0; j < block->count; j++) block->norms[j] = norms->norms[j];
  block->rnorm = norms->rnorm;
  block->peak  = PetscMax(block->peak, block->rnorm);
  if (block->rnorm < block->best) {
    block->best       = block->rnorm;
    block->stagnation = 0;
  } else block->stagnation++;
}

/* Results of a report: right-hand sides that are not done, and how many of these have a reason to end */
typedef struct {
  PetscBool ended[IDRS_MAX_WIDTH];
  PetscInt  left, ending; /* right-hand sides that are not done, and how many have a reason */
} KSPIDRSBlockReport;

/* Takes the norms of a step, and reports them for right-hand sides that are not done, unless this iteration has been reported */
static PetscErrorCode KSPIDRSBlockReport_Private(KSP ksp, KSPIDRSBlockRun *block, const IDRSBlockNorms *norms, PetscInt its,
                                                 KSPIDRSBlockReport *report)
{
  PetscFunctionBegin;
  KSPIDRSBlockSetNorms(block, norms);
  if (its <= block->reported || block->zinvalid || (block->why && block->at.columns < block->at.k))
    PetscFunctionReturn(PETSC_SUCCESS);
  report->left = report->ending = 0;
  block->reported               = its;
  for (PetscInt j = 0; j < block->count; j++) {
    KSPIDRSColumn      *col    = block->column[j];
    KSPConvergedReason *reason = &col->rep.reason;

    report->ended[j] = PETSC_FALSE;
    if (block->done[j]) continue;
    col->trust.rnorm = block->norms[j];
    PetscCall(KSPIDRSTestIteration_Private(ksp, col, its, block->norms[j]));
    PetscCall(KSPIDRSConcludeReport_Private(ksp, col));
    if (*reason == KSP_DIVERGED_DTOL) {
      block->why = "its residuals have grown too far";
      *reason    = KSP_CONVERGED_ITERATING;
    }
    if (*reason) report->ended[j] = PETSC_TRUE;
    report->left++;
    report->ending += report->ended[j] ? 1 : 0;
  }
  if (block->stagnation >= IDRS_BLOCK_MAX_STAGNATION) block->why = "it has found no smaller residual for a long time";
  if (block->rnorm > KSPIDRSGrowthLimit((KSP_IDRS *)ksp->data, block->anchornorm)) block->why = "its residuals have grown too far";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes v = b - A x of a right-hand side, or B^{-1}(b - A x), and its norm; z, a column of Z, is kept */
static PetscErrorCode KSPIDRSBlockTrueNorm_Private(KSP ksp, KSPIDRSColumn *col, PetscReal *rnorm)
{
  const KSPIDRSColumns one = KSPIDRSOneColumn(col);

  PetscFunctionBegin;
  PetscCall(KSPIDRSMatMultSolution_Private(ksp, col, col->v)); /* t = A x */
  PetscCall(VecAYPX(col->t, -1.0, col->rep.rhs));              /* t = b - t */
  if (ksp->pc_side == PC_LEFT) PetscCall(KSPIDRSPCApply_Private(ksp, col->t, col->v));
  else PetscCall(VecCopy(col->t, col->v));
  PetscCall(KSPIDRSNorms_Private(ksp, &one, &col->v, rnorm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* *met is set unless b - A x of a right-hand side misses the tolerance */
static PetscErrorCode KSPIDRSBlockVerify_Private(KSP ksp, KSPIDRSColumn *col, PetscBool *met)
{
  KSPIDRSReported *rep = &col->rep;

  PetscFunctionBegin;
  *met = PETSC_TRUE;
  if (!KSPIDRSNeedsVerification(ksp, col)) PetscFunctionReturn(PETSC_SUCCESS);
  ((KSP_IDRS *)ksp->data)->counts.verifications++;
  PetscCall(KSPIDRSBlockTrueNorm_Private(ksp, col, &rep->rnorm));
  rep->reason = KSP_CONVERGED_ITERATING;
  PetscCall(KSPIDRSTest_Private(ksp, col, rep->rnorm));
  *met = (PetscBool)(rep->reason > 0);
  if (!*met) rep->reason = KSP_CONVERGED_ITERATING;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Completes the solutions of right-hand sides that have a reason to end. If one misses its tolerance, R is recomputed and a
   cycle begins; v and t are overwritten
*/
static PetscErrorCode KSPIDRSBlockEndColumns_Private(KSP ksp, KSPIDRSBlockRun *block, const PetscBool ended[], PetscBool *again)
{
  PetscBool others[IDRS_MAX_WIDTH];
  PetscInt  left = 0, missed = 0;

  PetscFunctionBegin;
  *again = PETSC_FALSE;
  PetscCall(KSPIDRSBlockAddUpdate_Private(ksp, block)); /* Z += U beta */
  PetscCall(KSPIDRSBlockAddSolutions_Private(ksp, block, ended));
  for (PetscInt j = 0; j < block->count; j++) {
    others[j] = (PetscBool)(!block->done[j] && !ended[j]);
    if (ended[j]) {
      PetscCall(KSPIDRSBlockVerify_Private(ksp, block->column[j], &block->done[j]));
      if (!block->done[j]) {
        PetscCall(PetscInfo(ksp, "Right-hand side %" PetscInt_FMT ": ||b - A x|| = %g does not meet the tolerance as r does\n",
                            block->column[j]->index, (double)block->column[j]->rep.rnorm));
        missed++;
      }
    }
    left += block->done[j] ? 0 : 1;
  }
  if (!missed) {
    if (left) block->zinvalid = PETSC_FALSE;
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  *again = PETSC_TRUE;
  if (block->owners.column[0]->anchor && ++block->misses < IDRS_BLOCK_MISSES) {
    if (block->at.k < block->algebra.s && !block->why) PetscCall(KSPIDRSBlockFinishColumn_Private(ksp, block));
    PetscCall(KSPIDRSBlockUpdate_Private(ksp, block, others));
  } else {
    PetscCall(KSPIDRSBlockAddSolutions_Private(ksp, block, others));
    for (PetscInt i = 0; i < block->owners.count; i++) PetscCall(VecSet(block->Z[i].vec, 0.0));
    block->why = "b - A x misses tolerances that r meets";
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the bounds within which a device continues */
static IDRSBlockBounds KSPIDRSBlockGetBounds(KSP ksp, const KSPIDRSBlockRun *block)
{
  const KSP_IDRS *idrs   = (const KSP_IDRS *)ksp->data;
  const PetscInt  its    = block->at.its;
  const PetscBool tested = KSPIDRSTestsNorm(ksp, its);
  IDRSBlockBounds bounds = {.count = block->count, .cosine = idrs->set.cosine, .anchornorm = block->anchornorm};

  for (PetscInt j = 0; j < block->count; j++)
    bounds.low[j] = block->done[j] ? PETSC_MAX_REAL : (tested ? block->column[j]->rep.ttol : -1.0);
  bounds.high = KSPIDRSGrowthLimit(idrs, block->anchornorm);
  bounds.fall = block->owners.column[0]->anchor ? idrs->set.updatetol : 0.0;
  bounds.stop = (PetscBool)(block->stopnext || its >= ksp->max_it);
  return bounds;
}

/*
   Launches the projection of this step on a device, and reports the norms of the step before. *stopped is set if the host must
   finish this step. If the host must decide about a step that the device has not stopped in, the device stops in the next step
*/
static PetscErrorCode KSPIDRSBlockProjectAsync_Private(KSP ksp, KSPIDRSBlockRun *block, KSPIDRSBlockReport *report,
                                                       PetscBool *stopped)
{
  const IDRSBlockBounds bounds = KSPIDRSBlockGetBounds(ksp, block);

  PetscFunctionBegin;
  PetscCall(KSPIDRSBlockLaunch_Private(ksp, block, &bounds));
  *stopped = PETSC_FALSE;
  while (!*stopped && block->inflight > (bounds.stop ? 0 : 1)) {
    IDRSBlockNorms norms;
    PetscInt       its;

    PetscCall(KSPIDRSBlockCollect_Private(ksp, block, &norms, &its));
    PetscCall(KSPIDRSBlockReport_Private(ksp, block, &norms, its, report));
    *stopped        = norms.stopped;
    block->stopnext = (PetscBool)(!*stopped && (report->ending == report->left || block->why));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes one step; *ends is set once all right-hand sides are done, or continue with single recurrences */
static PetscErrorCode KSPIDRSBlockStep_Private(KSP ksp, KSPIDRSBlockRun *block, PetscBool *ends)
{
  KSPIDRSBlockReport report = {.left = block->count};
  PetscBool          again = PETSC_FALSE, decides = PETSC_TRUE, due;

  PetscFunctionBegin;
  PetscCall(KSPIDRSBlockMatvec_Private(ksp, block)); /* G_k = A U_k, or T = A P */
  if (block->async) PetscCall(KSPIDRSBlockProjectAsync_Private(ksp, block, &report, &decides));
  else {
    IDRSBlockNorms norms = {.peak = block->peak};

    PetscCall(KSPIDRSBlockProject_Private(ksp, block));                                     /* P^H G_k, R^H R */
    IDRSBlockScalarsNorms(&block->algebra, block->at.k, block->count, block->sums, &norms); /* ||r_j|| */
    PetscCall(KSPIDRSBlockReport_Private(ksp, block, &norms, block->at.its, &report));
  }
  if (decides) {
    if (report.ending && (report.ending == report.left || !block->at.k || block->why)) {
      PetscCall(KSPIDRSBlockEndColumns_Private(ksp, block, report.ended, &again));
      *ends = (PetscBool)(report.ending == report.left && !again);
    }
    if (block->why) *ends = PETSC_TRUE;
    if (*ends || again) PetscFunctionReturn(PETSC_SUCCESS);
  }
  /* alpha, M_k, beta_k, f, or omega, f; then vectors */
  PetscCall(KSPIDRSBlockFinish_Private(ksp, block, &due));
  if (block->why) *ends = PETSC_TRUE;
  if (due) {
    PetscBool marked[IDRS_MAX_WIDTH];

    for (PetscInt j = 0; j < block->count; j++) marked[j] = block->done[j] ? PETSC_FALSE : PETSC_TRUE;
    PetscCall(KSPIDRSBlockUpdate_Private(ksp, block, marked));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Starts single recurrences for right-hand sides that are not done, from the present iterate or the iterate of the last reliable
   update, whichever has the smaller residual
*/
static PetscErrorCode KSPIDRSBlockEnd_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  KSPIDRSColumns rest = {.count = 0};
  PetscBool      marked[IDRS_MAX_WIDTH];
  Vec            r[IDRS_MAX_WIDTH], anchor[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  if (!block->zinvalid) PetscCall(KSPIDRSBlockAddUpdate_Private(ksp, block));
  for (PetscInt j = 0; j < block->count; j++)
    marked[j] = (PetscBool)(!block->done[j] && !block->zinvalid && block->norms[j] <= block->anchors[j]);
  PetscCall(KSPIDRSBlockAddSolutions_Private(ksp, block, marked));
  for (PetscInt j = 0; j < block->count; j++) {
    KSPIDRSColumn *col = block->column[j];

    if (block->done[j]) {
      PetscCall(VecSet(col->z, 0.0)); /* KSPIDRSEnd_Private() adds it to the solution */
      continue;
    }
    col->rep.reason           = KSP_CONVERGED_ITERATING;
    col->rec.its              = col->rep.its;
    r[rest.count]             = col->r;
    anchor[rest.count]        = col->anchor;
    rest.column[rest.count++] = col;
  }
  if (!rest.count) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSTrueResidual_Private(ksp, &rest, PETSC_FALSE, r, anchor)); /* r_j = b_j - A x_j */
  PetscCall(KSPIDRSBeginRecurrence_Private(ksp, &rest));
  idrs->blocks.single += rest.count;
  idrs->blocks.why = block->why;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Allocates operands and coefficients of the largest combine, which ends a cycle, and the sums of the omega step */
static PetscErrorCode KSPIDRSBlockCreate_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  const PetscInt s = ((KSP_IDRS *)ksp->data)->set.s, most = block->count;

  PetscFunctionBegin;
  block->ld = (s * (s - 1) / 2 + 4 * s + 4) * most;
  PetscCall(PetscMalloc6(s + 3, &block->chain[IDRS_BLOCK_FINISH], block->ld, &block->x, block->ld, &block->rows, block->ld * most,
                         &block->C, IDRSBlockSumCount(s, most, s), &block->sums, most * IDRS_MAX_WIDTH, &block->S));
  block->chain[IDRS_BLOCK_PRECONDITIONED] = block->chain[IDRS_BLOCK_FINISH] + s + 2;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Iterates until all right-hand sides are done, or continue with single recurrences */
static PetscErrorCode KSPIDRSBlockIterate_Private(KSP ksp, KSPIDRSBlockRun *block)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  const uint64_t seed = IDRS_BLOCK_SEED + (uint64_t)idrs->set.seed + ((uint64_t)idrs->nesting << 32);
  PetscBool      ends = PETSC_FALSE;

  PetscFunctionBegin;
  PetscCall(KSPIDRSBlockBasis_Private(ksp, block));
  if (!block->owners.count) { /* with KSP_NORM_NONE also for zero right-hand sides */
    PetscCall(PetscInfo(ksp, "No block recurrence: the squares of all residual norms vanish or overflow\n"));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(KSPIDRSBlockVectors_Private(ksp, block));
  PetscCall(PetscMalloc1(IDRS_BLOCK_STORAGE(idrs->set.s, block->owners.count), &block->storage));
  IDRSBlockScalarsSetPointers(&block->algebra, idrs->set.s, block->owners.count, block->storage);
  IDRSBlockScalarsReset(&block->algebra);
  for (PetscInt j = 0; j < block->count; j++)
    PetscCall(PetscArraycpy(block->algebra.S + j * block->owners.count, block->S + j * IDRS_MAX_WIDTH, block->owners.count));
  block->async = (PetscBool)(idrs->depth && IDRSBlockQueueRuns(idrs->slot[0].work));
  PetscCall(IDRSWorkSetSeed(idrs->slot[0].work, seed));
  for (PetscInt i = 0; i < block->owners.count; i++) {
    if (block->owners.column[i]->anchor) PetscCall(VecCopy(block->R[i].vec, block->owners.column[i]->anchor));
  }
  PetscCall(KSPIDRSBlockAnchor_Private(ksp, block));
  block->best = PETSC_MAX_REAL;
  idrs->blocks.columns += block->count;
  idrs->blocks.rank += block->owners.count;
  idrs->blocks.async = block->async;
  while (!ends) PetscCall(KSPIDRSBlockStep_Private(ksp, block, &ends));
  PetscCall(KSPIDRSBlockEnd_Private(ksp, block));
  if (block->why)
    PetscCall(PetscInfo(ksp, "Block recurrence left after %" PetscInt_FMT " iterations: %s\n", block->at.its, block->why));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSBlockSolve_Private - Solves for several right-hand sides, whose first residuals have been reported, by one block
   recurrence. Each then has a reason, or is at the begin of a single recurrence
*/
PetscErrorCode KSPIDRSBlockSolve_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  KSP_IDRS       *idrs  = (KSP_IDRS *)ksp->data;
  KSPIDRSBlockRun block = {.count = 0};
  const char     *why   = NULL;
  PetscErrorCode  ierr;
  PetscInt        N;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    block.column[block.count++] = cols->column[i];
    if (cols->column[i]->scale != 1.0) why = "the square of the norm of a right-hand side is beyond the range of PetscReal";
  }
  if (block.count < 2) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecGetSize(idrs->slot[0].r, &N));
  if (idrs->set.s * block.count >= N) why = "the system has fewer unknowns than a block has shadow vectors";
  if (why) {
    idrs->blocks.why = why;
    idrs->blocks.single += block.count;
    PetscCall(PetscInfo(ksp, "No block recurrence: %s\n", idrs->blocks.why));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(KSPIDRSBlockCreate_Private(ksp, &block));
  ierr = KSPIDRSBlockIterate_Private(ksp, &block);
  PetscCall(PetscFree(block.storage));
  PetscCall(PetscFree(block.vecs));
  PetscCall(PetscFree6(block.chain[IDRS_BLOCK_FINISH], block.x, block.rows, block.C, block.sums, block.S));
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}
