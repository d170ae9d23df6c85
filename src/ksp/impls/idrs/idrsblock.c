/*
   Block IDR(s): one recurrence for the right-hand sides that KSPMatSolve() solves at the same time. Its vectors are blocks of m
   columns, which are the vectors of the slots, and its coefficients are m x m matrices.

     Q S = B - A X, m columns     m is the rank, r_j = R S_j belongs to right-hand side j, and R = Q: see idrsblockbasis.c
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
#include "idrsblock.h"

/* Number of steps without a smaller residual after which single recurrences are tried */
#define IDRS_BLOCK_MAX_STAGNATION 100

/*
   Sets the norms of a step, and returns PETSC_TRUE if all are finite. Else the recurrence ends. In a step k > 0 the result is the
   iterate before the last update, whose beta is not in Z yet; at the beginning of a cycle it is the iterate of the last reliable
   update
*/
static PetscBool KSPIDRSBlockSetNorms(KSPIDRSBlockRun *run)
{
  const IDRSBlockNorms *norms = &run->block.norms;
  KSPIDRSColumns       *cols  = &run->cols;
  PetscBool             valid = (PetscBool)!PetscIsInfOrNanReal(norms->rnorm);

  for (PetscInt j = 0; j < cols->count; j++) valid = (PetscBool)(valid && !PetscIsInfOrNanReal(norms->norms[j]));
  if (!norms->finite || !valid) run->why = IDRS_BLOCK_BROKEN;
  if (!valid && run->at.k) run->at.columns = run->at.k - 1;
  else {
    for (PetscInt j = 0; j < cols->count; j++) cols->column[j]->trust.rnorm = valid ? norms->norms[j] : (PetscReal)INFINITY;
  }
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
  return (PetscBool)(col->rec.status != KSPIDRS_COMPLETE && (col->rep.reason || col->rec.status == KSPIDRS_UNVERIFIED));
}

/* Sets the norms of this step, and reports them for right-hand sides that are not done, unless this iteration has been reported */
static PetscErrorCode KSPIDRSBlockReport_Private(KSP ksp, KSPIDRSBlockRun *run, KSPIDRSBlockEnding *ending)
{
  const IDRSBlockBounds *bounds = &run->block.bounds;
  const PetscInt         its    = run->at.its;
  PetscInt               left = 0, count = 0;

  PetscFunctionBegin;
  *ending = KSPIDRS_BLOCK_NONE_ENDS;
  if (!KSPIDRSBlockSetNorms(run)) PetscFunctionReturn(PETSC_SUCCESS);
  for (PetscInt j = 0; j < run->cols.count; j++) {
    KSPIDRSColumn *col = run->cols.column[j];

    if (col->rec.status == KSPIDRS_COMPLETE) continue;
    if (its > col->rep.its) PetscCall(KSPIDRSReport_Private(ksp, col, its, col->trust.rnorm));
    if (col->rep.reason == KSP_DIVERGED_DTOL) {
      run->why        = IDRS_BLOCK_GROWN;
      col->rep.reason = KSP_CONVERGED_ITERATING;
    }
    left++;
    count += KSPIDRSBlockIsEnding(col) ? 1 : 0;
  }
  if (count) *ending = count == left ? KSPIDRS_BLOCK_ALL_END : KSPIDRS_BLOCK_SOME_END;
  if (run->stagnation >= IDRS_BLOCK_MAX_STAGNATION) run->why = "it has found no smaller residual for a long time";
  if (!IDRSIsWithin(run->trust.rnorm, bounds->norm.low, bounds->norm.high)) run->why = IDRS_BLOCK_GROWN;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes b - A x of a column that is ending, and compares its norm with the tolerances. If the norm meets them, the column is
   done; else its reason is cleared. z, a column of Z, is kept
*/
static PetscErrorCode KSPIDRSBlockVerify_Private(KSP ksp, KSPIDRSColumn *col)
{
  const KSPIDRSColumns one = KSPIDRSOneColumn(col);
  PetscReal            rnorm;

  PetscFunctionBegin;
  if (col->rec.status == KSPIDRS_UNVERIFIED) {
    PetscCall(KSPIDRSMatMultSolution_Private(ksp, col, col->v)); /* t = A x */
    PetscCall(VecAYPX(col->t, -1.0, col->rep.rhs));              /* t = b - t */
    if (ksp->pc_side == PC_LEFT) PetscCall(KSPIDRSPCApply_Private(ksp, col->t, col->v));
    else PetscCall(VecCopy(col->t, col->v));
    PetscCall(KSPIDRSNorms_Private(ksp, &one, &col->v, &rnorm));
    PetscCall(KSPIDRSVerifyNorm_Private(ksp, col, rnorm));
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
  PetscCall(KSPIDRSUpdateProduct_Private(ksp, &run->vecs.owners));  /* T = A Z */
  PetscCall(KSPIDRSBlockAddSolutions_Private(run, marked));         /* x_j += Z S_j */
  PetscCall(KSPIDRSUpdateResidual_Private(ksp, &run->vecs.owners)); /* R = anchor - T, Z = 0 */
  PetscCall(KSPIDRSBlockAnchor_Private(ksp, run));                  /* f = P^H R */
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
    PetscCall(KSPIDRSBlockVerify_Private(ksp, cols->column[j]));
    if (cols->column[j]->rec.status != KSPIDRS_COMPLETE) *missed = PETSC_TRUE;
  }
  if (!*missed) PetscFunctionReturn(PETSC_SUCCESS);
  /* also if the norm has halved: single recurrences then need fewer matvecs */
  run->trust.replacements.failures += IDRS_STAGNATION_VERIFY;
  if (run->block.bounds.fall > 0.0 && run->trust.replacements.failures < IDRS_MAX_STAGNATIONS) {
    if (run->at.k < run->block.algebra.s && !run->why) PetscCall(KSPIDRSBlockFinishColumn_Private(run));
    PetscCall(KSPIDRSBlockUpdate_Private(ksp, run, others));
  } else {
    PetscCall(KSPIDRSBlockAddSolutions_Private(run, others));
    for (PetscInt i = 0; i < run->vecs.owners.count; i++) PetscCall(IDRSVecZero(run->vecs.Z[i].vec));
    run->why = "r meets the tolerances, but b - A x does not";
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Concludes the reports of right-hand sides that are verified later, because the others continue */
static PetscErrorCode KSPIDRSBlockConcludeReports_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  PetscFunctionBegin;
  for (PetscInt j = 0; j < cols->count; j++) {
    if (cols->column[j]->rec.status != KSPIDRS_UNVERIFIED) continue;
    cols->column[j]->rec.status = KSPIDRS_RECURS;
    PetscCall(KSPIDRSConcludeReport_Private(ksp, cols->column[j]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Makes one step; *ends is set once all right-hand sides are done, or continue with single recurrences. Right-hand sides end at the
   beginning of a cycle, or in any step if all of them end
*/
static PetscErrorCode KSPIDRSBlockStep_Private(KSP ksp, KSPIDRSBlockRun *run, PetscBool *ends)
{
  KSPIDRSBlockEnding ending;
  PetscBool          missed = PETSC_FALSE, due;

  PetscFunctionBegin;
  PetscCall(KSPIDRSBlockMatvec_Private(ksp, run));          /* G_k = A U_k, or T = A P */
  PetscCall(KSPIDRSBlockProject_Private(run));              /* P^H G_k, R^H R, and ||r_j|| */
  PetscCall(KSPIDRSBlockReport_Private(ksp, run, &ending)); /* convergence test, history, monitors */
  if (ending == KSPIDRS_BLOCK_ALL_END || (ending && (!run->at.k || run->why)))
    PetscCall(KSPIDRSBlockEndColumns_Private(ksp, run, &missed));
  else PetscCall(KSPIDRSBlockConcludeReports_Private(ksp, &run->cols));
  *ends = (PetscBool)(run->why || (ending == KSPIDRS_BLOCK_ALL_END && !missed));
  if (*ends || missed) PetscFunctionReturn(PETSC_SUCCESS);
  /* alpha, M_k, beta_k, f, or omega, f; then vectors */
  PetscCall(KSPIDRSBlockFinish_Private(run, &due));
  if (due) PetscCall(KSPIDRSBlockUpdate_Private(ksp, run, NULL));
  *ends = (PetscBool)(run->why != NULL);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* *finite is set unless Z has overflowed, as it does if A is singular and Z grows in its null space while R does not */
static PetscErrorCode KSPIDRSBlockIsFinite_Private(KSP ksp, const KSPIDRSBlockRun *run, PetscBool *finite)
{
  Vec       Z[IDRS_MAX_WIDTH];
  PetscReal norms[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < run->vecs.owners.count; i++) Z[i] = run->vecs.Z[i].vec;
  PetscCall(KSPIDRSNorms_Private(ksp, &run->vecs.owners, Z, norms));
  *finite = PETSC_TRUE;
  for (PetscInt i = 0; i < run->vecs.owners.count; i++) {
    if (PetscIsInfOrNanReal(norms[i])) *finite = PETSC_FALSE;
  }
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
  Vec            r[IDRS_MAX_WIDTH], anchor[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  PetscCall(KSPIDRSBlockAddUpdate_Private(run));
  if (run->why) PetscCall(KSPIDRSBlockIsFinite_Private(ksp, run, &finite));
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

/* Iterates until all right-hand sides are done, or continue with single recurrences */
static PetscErrorCode KSPIDRSBlockIterate_Private(KSP ksp, KSPIDRSBlockRun *run, KSPIDRSBlockCounts *counts)
{
  PetscBool ends = PETSC_FALSE;

  PetscFunctionBegin;
  counts->columns += run->cols.count;
  counts->rank += run->vecs.owners.count;
  while (!ends) PetscCall(KSPIDRSBlockStep_Private(ksp, run, &ends));
  PetscCall(KSPIDRSBlockEnd_Private(ksp, run, counts));
  if (run->why) PetscCall(PetscInfo(ksp, "Block recurrence left after %" PetscInt_FMT " iterations: %s\n", run->at.its, run->why));
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
  if (!ierr && run.vecs.owners.count) ierr = KSPIDRSBlockIterate_Private(ksp, &run, &idrs->blocks);
  PetscCall(PetscFree6(run.vecs.G, run.block.algebra.M, run.program.sum, run.program.x, run.program.C, run.block.results));
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}
