/*
   Reports of iterations: norms, history, monitors and convergence tests. Each right-hand side has its own iteration number, norm,
   reason and history. PETSc's functions use members of the KSP, so the members of the column are copied to the KSP while these
   functions run
*/
#include "idrsimpl.h"

/* KSPIDRSGetReported - Returns the members of the KSP */
KSPIDRSReported KSPIDRSGetReported(KSP ksp)
{
  return (KSPIDRSReported){.rhs        = ksp->vec_rhs,
                           .sol        = ksp->vec_sol,
                           .its        = ksp->its,
                           .rnorm      = ksp->rnorm,
                           .rnorm0     = ksp->rnorm0,
                           .ttol       = ksp->ttol,
                           .reason     = ksp->reason,
                           .history    = ksp->res_hist,
                           .historymax = (PetscInt64)ksp->res_hist_max,
                           .historylen = (PetscInt64)ksp->res_hist_len};
}

/* KSPIDRSSetReported - Sets the members of the KSP */
void KSPIDRSSetReported(KSP ksp, const KSPIDRSReported *rep)
{
  ksp->vec_rhs      = rep->rhs;
  ksp->vec_sol      = rep->sol;
  ksp->its          = rep->its;
  ksp->rnorm        = rep->rnorm;
  ksp->rnorm0       = rep->rnorm0;
  ksp->ttol         = rep->ttol;
  ksp->reason       = rep->reason;
  ksp->res_hist     = rep->history;
  ksp->res_hist_max = rep->historymax;
  ksp->res_hist_len = rep->historylen;
}

/* Copies the members of the column to the KSP, until KSPIDRSGetMembers() */
static PetscErrorCode KSPIDRSSetMembers_Private(KSP ksp, KSPIDRSColumn *col)
{
  PetscFunctionBegin;
  PetscCall(PetscObjectSAWsTakeAccess((PetscObject)ksp));
  KSPIDRSSetReported(ksp, &col->rep);
  PetscCall(PetscObjectSAWsGrantAccess((PetscObject)ksp));
  ((KSP_IDRS *)ksp->data)->current = col;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Gets the members of the column from the KSP, which has no reason before the end of the solve, as an error may come before it */
static void KSPIDRSGetMembers(KSP ksp, KSPIDRSColumn *col)
{
  col->rep    = KSPIDRSGetReported(ksp);
  ksp->reason = KSP_CONVERGED_ITERATING;
}

/* KSPIDRSTest_Private - Calls the convergence test of the KSP for the iteration of the column; the test may set a reason */
PetscErrorCode KSPIDRSTest_Private(KSP ksp, KSPIDRSColumn *col, PetscReal rnorm)
{
  PetscFunctionBegin;
  PetscCall(KSPIDRSSetMembers_Private(ksp, col));
  PetscCall((*ksp->converged)(ksp, ksp->its, rnorm, &ksp->reason, ksp->cnvP));
  KSPIDRSGetMembers(ksp, col);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PETSc's macro returns if the norm is not finite */
static PetscErrorCode KSPIDRSCheckNorm_Private(KSP ksp, PetscReal rnorm)
{
  PetscFunctionBegin;
  KSPCheckNorm(ksp, rnorm);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSTestNorm_Private - Sets a reason if the norm is infinite or NaN */
PetscErrorCode KSPIDRSTestNorm_Private(KSP ksp, KSPIDRSColumn *col, PetscReal rnorm)
{
  PetscFunctionBegin;
  if (!PetscIsInfOrNanReal(rnorm)) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSSetMembers_Private(ksp, col));
  PetscCall(KSPIDRSCheckNorm_Private(ksp, rnorm));
  KSPIDRSGetMembers(ksp, col);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSMonitor_Private - Adds the norm of the iteration to the history, and calls the monitors */
PetscErrorCode KSPIDRSMonitor_Private(KSP ksp, KSPIDRSColumn *col)
{
  const KSPConvergedReason reason = col->rep.reason;
  const PetscInt64         length = col->rep.historylen;

  PetscFunctionBegin;
  col->rep.reason = KSP_CONVERGED_ITERATING; /* with a reason KSPBuildSolution() in a monitor would return vec_sol */
  PetscCall(KSPIDRSSetMembers_Private(ksp, col));
  PetscCall(KSPLogResidualHistory(ksp, ksp->rnorm));
  col->trust.logged = (PetscBool)(length < (PetscInt64)ksp->res_hist_len);
  PetscCall(KSPMonitor(ksp, ksp->its, ksp->rnorm));
  KSPIDRSGetMembers(ksp, col);
  col->rep.reason = reason;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSConcludeReport_Private - Ends a report: history, monitors, the limit of iterations, and the limit of the growth of r */
PetscErrorCode KSPIDRSConcludeReport_Private(KSP ksp, KSPIDRSColumn *col)
{
  const KSP_IDRS     *idrs  = (const KSP_IDRS *)ksp->data;
  const KSPIDRSTrust *trust = &col->trust;
  KSPIDRSReported    *rep   = &col->rep;

  PetscFunctionBegin;
  if (!rep->reason && rep->its >= ksp->max_it) rep->reason = KSP_DIVERGED_ITS;
  PetscCall(KSPIDRSMonitor_Private(ksp, col));
  if (!rep->reason && col->rec.status == KSPIDRS_RECURS && !col->work->ondevice &&
      !IDRSIsWithin(trust->rnorm, -1.0, KSPIDRSGrowthLimit(idrs, idrs->d ? rep->rnorm : trust->anchornorm))) {
    PetscCall(PetscInfo(ksp, "Breakdown at iteration %" PetscInt_FMT ": ||r|| has grown to %g\n", rep->its, (double)trust->rnorm));
    col->rec.status = KSPIDRS_GROWTH;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Records the norm of an iteration for the safeguard of recycling */
static void KSPIDRSSafeguardReport(KSPIDRSColumn *col, PetscInt its, PetscReal rnorm)
{
  KSPIDRSSafeguard *safeguard = &col->safeguard;
  PetscReal         level;

  if (!its) safeguard->first = rnorm;
  if (safeguard->test && its > safeguard->window) safeguard->least = PetscMin(safeguard->least, rnorm);
  if (!(rnorm > 0.0) || !(safeguard->first > 0.0)) return;
  level = PetscMax(4.0 * PetscLog2Real(safeguard->first / rnorm), 0.0);
  safeguard->above[(PetscInt)PetscMin(level, (PetscReal)(KSPIDRS_SAFEGUARD_LEVELS - 1))] = its;
}

/*
   Computes the tolerance of PETSc's default test again if the squares in its ||b||, from the left ||B^-1 b||, overflow, so that any
   guess would meet it, or underflow, so that the test takes ||b - A x|| instead
*/
static PetscErrorCode KSPIDRSCheckTolerance_Private(KSP ksp, KSPIDRSColumn *col)
{
  KSPIDRSReported              *rep = &col->rep;
  const KSPIDRSColumns          one = KSPIDRSOneColumn(col);
  const KSPConvergedDefaultCtx *ctx = (const KSPConvergedDefaultCtx *)ksp->cnvP;
  PetscReal                     norm;

  PetscFunctionBegin;
  /* with KSP_CONVERGED_ITS the test has computed no tolerance */
  if (ksp->guess_zero || ksp->converged != KSPConvergedDefault || ctx->initialrtol || ksp->normtype == KSP_NORM_NONE ||
      rep->reason == KSP_CONVERGED_ITS ||
      (rep->rnorm0 >= IDRS_SMALLEST_NORM && rep->rnorm0 <= IDRS_LARGEST_NORM && rep->rnorm0 != rep->rnorm))
    PetscFunctionReturn(PETSC_SUCCESS);
  if (ksp->normtype == KSP_NORM_PRECONDITIONED) PetscCall(KSP_PCApply(ksp, rep->rhs, col->t));
  else PetscCall(IDRSVecCopy(rep->rhs, col->t));
  PetscCall(IDRSVecForgetNorm(col->t)); /* which was copied with the vector */
  PetscCall(KSPIDRSNorms_Private(ksp, &one, &col->t, &norm));
  if (norm == 0.0) PetscFunctionReturn(PETSC_SUCCESS);
  rep->rnorm0 = ctx->mininitialrtol ? PetscMin(norm, rep->rnorm) : norm;
  rep->ttol   = PetscMax(ksp->rtol * rep->rnorm0, ksp->abstol);
  if ((rep->reason == KSP_CONVERGED_RTOL || rep->reason == KSP_CONVERGED_ATOL) && rep->rnorm > rep->ttol)
    rep->reason = KSP_CONVERGED_ITERATING;
  PetscCall(KSPIDRSTestNorm_Private(ksp, col, norm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSReport_Private - Reports an iteration. If its norm must be verified first, the recurrence is suspended, and the report is
   concluded later
*/
PetscErrorCode KSPIDRSReport_Private(KSP ksp, KSPIDRSColumn *col, PetscInt its, PetscReal rnorm)
{
  const KSP_IDRS  *idrs  = (const KSP_IDRS *)ksp->data;
  KSPIDRSTrust    *trust = &col->trust;
  KSPIDRSReported *rep   = &col->rep;

  PetscFunctionBegin;
  trust->rnorm  = rnorm;
  trust->peak   = PetscMax(trust->peak, rnorm);
  trust->logged = PETSC_FALSE;
  (void)IDRSProgressHalves(&trust->progress, rnorm);
  if (idrs->set.recycle != KSP_IDRS_RECYCLE_NEVER) KSPIDRSSafeguardReport(col, its, rnorm);
  if (its) PetscCall(KSPIDRSSmoothNorm_Private(ksp, col, &rnorm));
  rep->its   = its;
  rep->rnorm = ksp->normtype == KSP_NORM_NONE ? 0.0 : rnorm;
  PetscCall(KSPIDRSTestNorm_Private(ksp, col, rnorm)); /* an infinite norm or NaN is a reason */
  if (PetscIsInfOrNanReal(rnorm)) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSTest_Private(ksp, col, rep->rnorm)); /* may reset an earlier reason */
  if (!its) PetscCall(KSPIDRSCheckTolerance_Private(ksp, col));
  if (its && idrs->exact && ksp->converged == KSPConvergedDefault &&
      (rep->reason == KSP_CONVERGED_RTOL || rep->reason == KSP_CONVERGED_ATOL)) {
    rep->reason     = KSP_CONVERGED_ITERATING; /* b - A x must meet the tolerance, too */
    col->rec.status = KSPIDRS_UNCHECKED;
  } else PetscCall(KSPIDRSConcludeReport_Private(ksp, col));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSReportOutcome_Private - Checks the sums of a projection, and reports the norm of the previous iteration */
PetscErrorCode KSPIDRSReportOutcome_Private(KSP ksp, KSPIDRSColumn *col, const IDRSOutcome *outcome)
{
  PetscFunctionBegin;
  if (outcome->verdict == IDRS_NOT_FINITE) {
    /* The matrices of a persistent kernel do not become infinite after many steps: x has overflowed before its first check */
    if (((KSP_IDRS *)ksp->data)->persistent && col->rep.its >= IDRS_FIRST_CHECK(PETSC_FALSE)) {
      col->rec.status  = KSPIDRS_RUNAWAY;
      col->trust.rnorm = PETSC_MAX_REAL; /* the iterate of the last reliable update is better */
    } else PetscCall(KSPIDRSTestNorm_Private(ksp, col, (PetscReal)INFINITY));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (outcome->step.unreported) {
    if (outcome->verdict != IDRS_CONTINUES) col->rec.step.unreported = PETSC_FALSE;
    PetscCall(KSPIDRSReport_Private(ksp, col, col->rep.its + 1, outcome->rnorm));
  } else if (outcome->step.start) KSPIDRSSetStartNorm(&col->trust, outcome->rnorm);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSCollectUpTo_Private - Collects and reports projections until at most `inflight` are in flight, or the recurrence is
   suspended. If the device stopped in one, *stopped, which may be NULL, is set, and the recurrence returns to that step. An omega
   step is repeated, because its t has been overwritten
*/
PetscErrorCode KSPIDRSCollectUpTo_Private(KSP ksp, KSPIDRSColumn *col, PetscInt inflight, PetscBool *stopped)
{
  KSPIDRSRecurrence *rec = &col->rec;
  IDRSOutcome        outcome;

  PetscFunctionBegin;
  while (KSPIDRSIsIterating(col) && col->work->inflight > inflight) {
    PetscCall(IDRSQueueCollect(col->work, &outcome));
    outcome.rnorm /= col->scale;
    if (outcome.stopped) {
      rec->step    = outcome.step;
      rec->columns = outcome.step.k;
      rec->its     = col->rep.its + (outcome.step.unreported ? 1 : 0);
      rec->stage   = outcome.step.k == col->scalars->s ? KSPIDRS_HAVE_R : KSPIDRS_PROJECTED; /* the sums are on the host */
    }
    if (stopped) *stopped = outcome.stopped;
    PetscCall(KSPIDRSReportOutcome_Private(ksp, col, &outcome));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSCollect_Private - Collects and reports what the host waits for before it finishes step k. Columns remain if they continue
   with this step. A device may have stopped in an earlier step, which becomes k if there is only one column, and is finished later
   if there are others
*/
PetscErrorCode KSPIDRSCollect_Private(KSP ksp, PetscInt *k, KSPIDRSColumns *cols)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  PetscInt  left = 0;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn *col = cols->column[i];

    PetscCall(KSPIDRSCollectUpTo_Private(ksp, col, col->work->ondevice ? idrs->depth : 0, NULL));
    if (KSPIDRSIsIterating(col) && col->rec.stage == KSPIDRS_PROJECTED && (cols->count == 1 || col->rec.step.k == *k))
      cols->column[left++] = col;
  }
  cols->count = left;
  if (left) *k = cols->column[0]->rec.step.k;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSReportNow_Private - Reports the present iteration for columns whose norm is not part of the next reduction, after all
   projections in flight. With KSP_NORM_NONE no reduction is made for norms that only the next step would need
*/
PetscErrorCode KSPIDRSReportNow_Private(KSP ksp, const KSPIDRSPass *pass)
{
  KSP_IDRS       *idrs  = (KSP_IDRS *)ksp->data;
  const PetscBool off   = (PetscBool)(ksp->normtype == KSP_NORM_NONE && idrs->lagged && !idrs->d);
  IDRSGroup       ended = {.count = 0}, computed = {.count = 0};
  PetscReal       rnorm[IDRS_MAX_WIDTH], norms[IDRS_MAX_WIDTH];
  PetscBool       reports[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < pass->group.count; i++) {
    KSPIDRSColumn *col     = pass->column[i];
    PetscBool      stopped = PETSC_FALSE;

    reports[i] = PETSC_FALSE;
    if (pass->norm[i] == KSPIDRS_NORM_LATER) continue;
    PetscCall(KSPIDRSCollectUpTo_Private(ksp, col, 0, &stopped));
    ended.work[ended.count++] = col->work;
    reports[i]                = (PetscBool)(KSPIDRSIsIterating(col) && !stopped);
    rnorm[i] = pass->norm[i] == KSPIDRS_NORM_FROM_SUMS ? PetscSqrtReal(pass->rr[i]) / col->scale : col->trust.rnorm;
    if (reports[i] && pass->norm[i] == KSPIDRS_NORM_NOW && !off) computed.work[computed.count++] = col->work;
  }
  PetscCall(IDRSQueueEnd(&ended));
  if (computed.count) PetscCall(IDRSNorm(&computed, norms));
  for (PetscInt i = 0, j = 0; i < pass->group.count; i++) {
    KSPIDRSColumn *col = pass->column[i];

    if (!reports[i]) continue;
    if (pass->norm[i] == KSPIDRS_NORM_NOW && !off) rnorm[i] = norms[j++] / col->scale;
    col->rec.step.unreported = PETSC_FALSE;
    PetscCall(KSPIDRSReport_Private(ksp, col, col->rec.its, rnorm[i]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
