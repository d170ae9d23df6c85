/*
   KSPMatSolve(). `width` right-hand sides at a time have slots, each with its own recurrence. Their step k has one product and one
   reduction:

     until all right-hand sides are done
       completed right-hand sides release their slots to the next ones
       verification, restarts and reliable updates, with one product for all columns that need them
       a cycle; suspended columns leave the cycle and wait for the others

   With settings that need the iterate of each right-hand side, KSPSolve() solves for one right-hand side after another
*/
#include "idrsimpl.h"
#include <petscidrs/private/idrssettings.h>
#include <petsc/private/matimpl.h>
#include <petsc/private/pcimpl.h>

/* Returns the reason why KSPSolve() must solve for one right-hand side after another, or NULL */
static PetscErrorCode KSPIDRSWhySequential_Private(KSP ksp, PetscInt count, const char *why[])
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  PetscBool differences, poly;
  Mat       A;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMFFD, &differences));
  PetscCall(PetscObjectTypeCompare((PetscObject)ksp->pc, PCPOLY, &poly)); /* its functions are for KSPRICHARDSON only */
  if (count == 1) *why = "there is only one";
  else if (idrs->set.width == 1) *why = "-ksp_idrs_width 1";
  else if (idrs->set.smoothing) *why = "residual smoothing";
  else if (ksp->converged != KSPConvergedDefault && ksp->converged != KSPConvergedSkip)
    *why = "a convergence test of the user may ask for the solution";
  else if (!KSPIDRSMonitorsNorms(ksp)) *why = "a monitor may ask for the solution";
  else if (ksp->guess || ksp->guess_knoll) *why = "an initial guess is computed for each";
  else if (differences) *why = "the operator is of type " MATMFFD;
  else if (ksp->presolve || ksp->postsolve || (!poly && (ksp->pc->ops->presolve || ksp->pc->ops->postsolve)))
    *why = "something is to be done before and after each solve";
  else if (IDRSHasDiagonalScale(ksp)) *why = "the system is scaled for each solve";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks the row layout of B or X on all processes, which KSPMatSolve() does not check */
static PetscErrorCode KSPIDRSCheckDense_Private(KSP ksp, Mat dense, const char name[])
{
  PetscLayout ours, theirs;
  PetscBool   same;
  Mat         A;

  PetscFunctionBegin;
  PetscCheck(dense->preallocated, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ORDER,
             "KSPMatSolve(): %s is not set up: Matrix not preallocated, call MatSetUp()", name);
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(MatGetLayouts(A, &ours, NULL));
  PetscCall(MatGetLayouts(dense, &theirs, NULL));
  PetscCall(PetscLayoutCompare(ours, theirs, &same)); /* the same answer on all processes */
  PetscCheck(same, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_SIZ,
             "KSPMatSolve(): %s has %" PetscInt_FMT " local rows of %" PetscInt_FMT ", the operator has %" PetscInt_FMT
             " of %" PetscInt_FMT,
             name, theirs->n, theirs->N, ours->n, ours->N);
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode KSPIDRSResetResults_Private(KSP ksp)
{
  KSPIDRSResults *results = &((KSP_IDRS *)ksp->data)->results;

  PetscFunctionBegin;
  PetscCall(PetscFree3(results->reasons, results->its, results->norms));
  results->count = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSConclude_Private - Sets the worst reason, and the largest number of iterations and norm, in the KSP */
PetscErrorCode KSPIDRSConclude_Private(KSP ksp)
{
  KSP_IDRS             *idrs    = (KSP_IDRS *)ksp->data;
  const KSPIDRSResults *results = &idrs->results;
  PetscInt              worst   = 0, level;

  PetscFunctionBegin;
  ksp->its    = 0;
  ksp->rnorm  = 0.0;
  ksp->reason = KSP_CONVERGED_ATOL; /* without right-hand sides */
  for (PetscInt j = 0; j < results->count; j++) {
    if (results->reasons[j] < results->reasons[worst]) worst = j;
    ksp->its   = PetscMax(ksp->its, results->its[j]);
    ksp->rnorm = results->norms[j] > ksp->rnorm || PetscIsInfOrNanReal(results->norms[j]) ? results->norms[j] : ksp->rnorm;
  }
  if (results->count) ksp->reason = results->reasons[worst];
  idrs->results.latest = PETSC_TRUE;
  PetscCall(IDRSGetNestLevel(ksp, &level));
  /* as KSPSolve() does; KSPMatSolve() checks only the last batch, and before 3.26 none */
  PetscCheck(!ksp->errorifnotconverged || ksp->reason >= 0 || (ksp->reason == KSP_DIVERGED_ITS && level > 0),
             PetscObjectComm((PetscObject)ksp), PETSC_ERR_NOT_CONVERGED,
             "KSPMatSolve() has not converged: right-hand side %" PetscInt_FMT ", reason %s", worst,
             KSPConvergedReasons[ksp->reason]);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves for one right-hand side after another by KSPSolve(). Columns are restored after an error, too */
static PetscErrorCode KSPIDRSSolveEach_Private(KSP ksp, PetscBool transpose, Mat B, Mat X)
{
  const KSPIDRSResults *results = &((KSP_IDRS *)ksp->data)->results;
  PCFailedReason        failed;

  PetscFunctionBegin;
  PetscCall(PCSetUp(ksp->pc)); /* before 3.26 KSPSetUp() may postpone this to the first solve */
  PetscCall(PCGetFailedReason(ksp->pc, &failed));
  for (PetscInt j = 0; j < results->count; j++) {
    const PetscBool zero = ksp->guess_zero;
    PetscErrorCode  ierr, restored = PETSC_SUCCESS;
    Vec             b, x;

    PetscCall(PCSetFailedReason(ksp->pc, failed)); /* reset: a failure for an earlier column must not count for this one */
    PetscCall(MatDenseGetColumnVecRead(B, j, &b));
    ierr = zero ? MatDenseGetColumnVecWrite(X, j, &x) : MatDenseGetColumnVec(X, j, &x);
    if (!ierr) {
      ierr     = transpose ? KSPSolveTranspose(ksp, b, x) : KSPSolve(ksp, b, x);
      restored = zero ? MatDenseRestoreColumnVecWrite(X, j, &x) : MatDenseRestoreColumnVec(X, j, &x);
    }
    PetscCall(MatDenseRestoreColumnVecRead(B, j, &b));
    PetscCall(ierr);
    PetscCall(restored);
    results->reasons[j] = ksp->reason;
    results->its[j]     = ksp->its;
    results->norms[j]   = ksp->rnorm;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSSolveSequentially_Private - Solves for one right-hand side after another, without the final output of KSPMatSolve() */
PetscErrorCode KSPIDRSSolveSequentially_Private(KSP ksp, PetscBool transpose, Mat B, Mat X)
{
  PetscBool *const views[] = {&ksp->view,    &ksp->viewRate, &ksp->viewMat,     &ksp->viewPMat,
                              &ksp->viewRhs, &ksp->viewSol,  &ksp->viewFinalRes};
  PetscBool        kept[PETSC_STATIC_ARRAY_LENGTH(views)];
  const PetscInt   reasonviews = ksp->numberreasonviews;
  IDRSReasonViewer reason;
  PetscErrorCode   ierr;

  PetscFunctionBegin;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(views); i++) {
    kept[i]   = *views[i];
    *views[i] = PETSC_FALSE;
  }
  PetscCall(IDRSHideReason(ksp, &reason));
  ksp->numberreasonviews = 0;
  ierr                   = KSPIDRSSolveEach_Private(ksp, transpose, B, X);
  ksp->numberreasonviews = reasonviews;
  PetscCall(IDRSShowReason(ksp, reason));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(views); i++) *views[i] = kept[i];
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Creates a vector of a slot for a column of B or X: on the array of the column if it has the type of the work vectors, else a copy
*/
static PetscErrorCode KSPIDRSColumnVec_Private(KSP ksp, Vec column, Vec *v, PetscBool *copied)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  PetscCall(IDRSVecOnArray(idrs->slot[0].r, column, v));
  *copied = *v ? PETSC_FALSE : PETSC_TRUE;
  if (*copied) {
    PetscCall(VecDuplicate(idrs->slot[0].r, v));
    PetscCall(IDRSVecCopy(column, *v));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Assigns a slot to a right-hand side, from which the null space of the transposed operator is removed if it is attached */
static PetscErrorCode KSPIDRSAssignSlot_Private(KSP ksp, KSPIDRSDense *dense, KSPIDRSColumn *col, PetscInt index)
{
  KSPIDRSReported *rep = &col->rep;
  PetscErrorCode   ierr;
  PetscBool        copied;
  MatNullSpace     space;
  Vec              column, projected;
  Mat              A;

  PetscFunctionBegin;
  *rep = (KSPIDRSReported){.reason = KSP_CONVERGED_ITERATING}; /* its members are freed after an error */
  PetscCall(MatDenseGetColumnVecRead(dense->B, index, &column));
  ierr = KSPIDRSColumnVec_Private(ksp, column, &rep->rhs, &copied);
  PetscCall(MatDenseRestoreColumnVecRead(dense->B, index, &column));
  PetscCall(ierr);
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  if (ksp->transpose_solve) PetscCall(MatGetNullSpace(A, &space));
  else PetscCall(MatGetTransposeNullSpace(A, &space));
  if (space) {
    PetscCall(VecDuplicate(rep->rhs, &projected));
    PetscCall(VecCopy(rep->rhs, projected));
    PetscCall(VecDestroy(&rep->rhs));
    rep->rhs = projected;
    PetscCall(MatNullSpaceRemove(space, projected));
  }
  PetscCall(MatDenseGetColumnVec(dense->X, index, &column));
  ierr = KSPIDRSColumnVec_Private(ksp, column, &rep->sol, &col->copied);
  PetscCall(MatDenseRestoreColumnVec(dense->X, index, &column));
  PetscCall(ierr);
  if (dense->outer.history) {
    const PetscInt64 most = PetscMin(dense->outer.historymax, (PetscInt64)ksp->max_it + 1);

    PetscCall(PetscMalloc1(most, &rep->history));
    rep->historymax = most;
  }
  KSPIDRSResetColumn(col);
  col->index = index;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSEmptySlot_Private - Empties a slot, and clears members of the KSP that may refer to its column */
PetscErrorCode KSPIDRSEmptySlot_Private(KSP ksp, KSPIDRSColumn *col)
{
  const KSPIDRSReported none = {0};

  PetscFunctionBegin;
  KSPIDRSSetReported(ksp, &none);
  PetscCall(PetscFree(col->rep.history));
  PetscCall(VecDestroy(&col->rep.rhs));
  PetscCall(VecDestroy(&col->rep.sol));
  col->rep   = none;
  col->index = -1;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Stores the results of a completed right-hand side, and empties its slot */
static PetscErrorCode KSPIDRSReleaseSlot_Private(KSP ksp, KSPIDRSDense *dense, KSPIDRSColumn *col)
{
  const KSPIDRSResults  *results = &((KSP_IDRS *)ksp->data)->results;
  const KSPIDRSReported *rep     = &col->rep;
  const PetscInt         index   = col->index;
  PetscErrorCode         ierr    = PETSC_SUCCESS;
  Vec                    column;

  PetscFunctionBegin;
  results->reasons[index] = rep->reason;
  results->its[index]     = rep->its;
  results->norms[index]   = rep->rnorm;
  dense->total += rep->its;
  if (rep->history) {
    dense->lengths[index] = rep->historylen;
    PetscCall(PetscMalloc1(dense->lengths[index], &dense->histories[index]));
    PetscCall(PetscArraycpy(dense->histories[index], rep->history, dense->lengths[index]));
  }
  PetscCall(MatDenseGetColumnVecWrite(dense->X, index, &column)); /* also increases the state of X */
  if (col->copied) ierr = IDRSVecCopy(rep->sol, column);
  PetscCall(MatDenseRestoreColumnVecWrite(dense->X, index, &column));
  PetscCall(ierr);
  PetscCall(KSPIDRSEmptySlot_Private(ksp, col));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSBegin_Private - Computes and reports the first residuals, r = b - A x. Data of the last solve may replace the start */
PetscErrorCode KSPIDRSBegin_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  Vec            r[IDRS_MAX_WIDTH], anchor[IDRS_MAX_WIDTH];
  PCFailedReason failed;

  PetscFunctionBegin;
  KSPIDRSGetVecs(cols, r, r);
  KSPIDRSGetVecs(cols, anchor, anchor);
  /* The set-up of a preconditioner may have failed on some processes: an infinite first norm stops all processes */
  PetscCall(PCGetFailedReason(ksp->pc, &failed));
  PetscCall(KSPIDRSTrueResidual_Private(ksp, cols, ksp->guess_zero, r, anchor)); /* r = b - A x */
  for (PetscInt i = 0; i < cols->count; i++) {
    IDRSVecFlag(r[i], failed);
    cols->column[i]->rep.reason = KSP_CONVERGED_ITERATING;
    PetscCall(KSPIDRSSmoothBegin_Private(ksp));
  }
  PetscCall(KSPIDRSRecycleChoose_Private(ksp, cols));
  PetscCall(KSPIDRSBeginRecurrence_Private(ksp, cols));
  for (PetscInt i = 0; i < cols->count; i++)
    PetscCall(KSPIDRSReport_Private(ksp, cols->column[i], 0, cols->column[i]->trust.rnorm));
  PetscCall(KSPIDRSRecycleBegin_Private(ksp, cols));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSEnd_Private - Completes the solution of each column after its last iteration */
PetscErrorCode KSPIDRSEnd_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  const IDRSGroup group  = KSPIDRSGetGroup(cols);
  KSPIDRSColumns  finite = {.count = 0}, unadded = {.count = 0};
  PetscBool       ondevice[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) ondevice[i] = cols->column[i]->work->ondevice;
  PetscCall(IDRSQueueEnd(&group));
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn   *col = cols->column[i];
    KSPIDRSReported *rep = &col->rep;

    PetscCall(KSPIDRSRecycleEnd_Private(ksp, col, ondevice[i]));
    /* the norm of b - A x after a breakdown */
    if (col->trust.logged && rep->historylen > 0) rep->history[rep->historylen - 1] = rep->rnorm;
    /* After a NaN the solution is the iterate of the last reliable update or verification */
    if (rep->reason == KSP_DIVERGED_NANORINF) continue;
    if (col->rec.status != KSPIDRS_COMPLETE && rep->reason < 0 && ksp->normtype != KSP_NORM_NONE) {
      const KSPIDRSColumns one = KSPIDRSOneColumn(col);
      PetscReal            norm;

      PetscCall(IDRSVecZero(col->v));
      PetscCall(IDRSAddIterate(IDRSGroupOfOne(col->work), &col->rec.columns, &col->v)); /* v = z + U(:,0:columns) beta */
      PetscCall(KSPIDRSNorms_Private(ksp, &one, &col->v, &norm));
      if (PetscIsInfOrNanReal(norm / col->scale)) {
        rep->rnorm = col->trust.anchornorm; /* the solution is that iterate here, too */
        continue;
      }
    }
    KSPIDRSColumnsAdd(&finite, col);
    if (col->rec.status != KSPIDRS_COMPLETE) KSPIDRSColumnsAdd(&unadded, col);
  }
  PetscCall(KSPIDRSAddIterate_Private(ksp, &unadded)); /* sol += z + U beta */
  /* sol += sigma d */
  for (PetscInt i = 0; i < finite.count; i++) PetscCall(KSPIDRSSmoothAddToSolution_Private(ksp, finite.column[i]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSRefillSlots_Private - Releases the slots of completed right-hand sides, assigns the next ones, and computes their first
   residuals or makes their block recurrence. *cols are all columns in slots
*/
PetscErrorCode KSPIDRSRefillSlots_Private(KSP ksp, KSPIDRSDense *dense, KSPIDRSColumns *cols)
{
  KSP_IDRS      *idrs  = (KSP_IDRS *)ksp->data;
  const PetscInt count = idrs->results.count;
  KSPIDRSColumns done = {.count = 0}, entered = {.count = 0}, block = {.count = 0};
  PetscBool      admits = PETSC_TRUE;

  PetscFunctionBegin;
  cols->count = 0;
  for (PetscInt i = 0; i < idrs->active; i++) {
    if (idrs->slot[i].index >= 0 && idrs->slot[i].rep.reason) KSPIDRSColumnsAdd(&done, &idrs->slot[i]);
  }
  if (done.count) PetscCall(KSPIDRSEnd_Private(ksp, &done));
  for (PetscInt i = 0; i < done.count; i++) PetscCall(KSPIDRSReleaseSlot_Private(ksp, dense, done.column[i]));
  for (PetscInt i = 0; idrs->set.block && i < idrs->active; i++)
    if (idrs->slot[i].index >= 0) admits = PETSC_FALSE; /* a block recurrence needs all slots at once */
  for (PetscInt i = 0; i < idrs->active; i++) {
    KSPIDRSColumn *col = &idrs->slot[i];

    if (col->index < 0 && dense->next < count && admits) {
      PetscCall(KSPIDRSAssignSlot_Private(ksp, dense, col, dense->next++));
      KSPIDRSColumnsAdd(&entered, col);
    }
    if (col->index >= 0) KSPIDRSColumnsAdd(cols, col);
  }
  if (!entered.count) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PCSetFailedReason(ksp->pc, dense->failed)); /* reset: a failure for another column must not count for these */
  PetscCall(KSPIDRSBegin_Private(ksp, &entered));
  for (PetscInt i = 0; idrs->set.block && i < entered.count; i++)
    if (!entered.column[i]->rep.reason) KSPIDRSColumnsAdd(&block, entered.column[i]);
  PetscCall(KSPIDRSBlockSolve_Private(ksp, &block));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSMatSolveBegin_Private - Checks B, X and the settings, and decides whether right-hand sides are solved one after another */
PetscErrorCode KSPIDRSMatSolveBegin_Private(KSP ksp, Mat B, Mat X)
{
  KSP_IDRS      *idrs   = (KSP_IDRS *)ksp->data;
  const MPI_Comm comm   = PetscObjectComm((PetscObject)ksp);
  const char    *prefix = IDRSPrefix(ksp);
  const PetscInt s = idrs->set.s, width = idrs->set.width;
  PetscInt       count;

  PetscFunctionBegin;
  PetscCall(KSPIDRSCheckDense_Private(ksp, B, "the block of right-hand sides"));
  PetscCall(KSPIDRSCheckDense_Private(ksp, X, "the block of solutions"));
  PetscCall(MatGetSize(B, NULL, &count));
  if (idrs->set.block) {
    PetscCheck(
      width > 1, comm, PETSC_ERR_ARG_WRONGSTATE,
      "-%sksp_idrs_block needs right-hand sides that are solved for at the same time, with -%sksp_idrs_width %" PetscInt_FMT
      " they are not",
      prefix, prefix, width);
    PetscCheck(!idrs->set.smoothing, comm, PETSC_ERR_ARG_WRONGSTATE,
               "-%sksp_idrs_block does not support -%sksp_idrs_smoothing true; remove one of the two", prefix, prefix);
    PetscCheck(!idrs->set.P, comm, PETSC_ERR_ARG_WRONGSTATE,
               "-%sksp_idrs_block does not support the %" PetscInt_FMT " explicit shadow vectors of KSPIDRSSetShadowVecs()", prefix,
               s);
    PetscCheck(idrs->set.run != KSP_IDRS_RUN_PERSISTENT, comm, PETSC_ERR_ARG_WRONGSTATE,
               "-%sksp_idrs_block does not support -%sksp_idrs_run persistent; remove one of the two", prefix, prefix);
    PetscCheck(s * width <= IDRS_MAX_S, comm, PETSC_ERR_ARG_OUTOFRANGE,
               "-%sksp_idrs_block has at most %d shadow vectors, -%sksp_idrs_s %" PetscInt_FMT
               " with -%sksp_idrs_width %" PetscInt_FMT " asks for %" PetscInt_FMT,
               prefix, IDRS_MAX_S, prefix, s, prefix, width, s * width);
  }
  PetscCall(KSPIDRSResetResults_Private(ksp));
  PetscCall(PetscCalloc3(count, &idrs->results.reasons, count, &idrs->results.its, count, &idrs->results.norms));
  idrs->results.count = count;
  PetscCall(PetscMemzero(&idrs->blocks, sizeof(idrs->blocks)));
  PetscCall(KSPIDRSWhySequential_Private(ksp, count, &idrs->sequential));
  PetscFunctionReturn(PETSC_SUCCESS);
}
