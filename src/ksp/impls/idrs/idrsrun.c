/*
   The loop of KSPIDRS: history, monitors, convergence test, restarts and reliable updates. The parts of a step are in
   idrscycle.c, and decisions by norms of b - A x in idrstrust.c
*/
#include "idrsimpl.h"

/* KSPIDRSConcludeReport_Private - Ends a report: history, monitors, the limit of iterations, and the limit of the growth of r */
PetscErrorCode KSPIDRSConcludeReport_Private(KSP ksp, KSPIDRSColumn *col)
{
  const KSP_IDRS     *idrs  = (const KSP_IDRS *)ksp->data;
  const KSPIDRSTrust *trust = &col->trust;
  KSPIDRSReported    *rep   = &col->rep;

  PetscFunctionBegin;
  if (!rep->reason && rep->its >= ksp->max_it) rep->reason = KSP_DIVERGED_ITS;
  PetscCall(KSPIDRSMonitor_Private(ksp, col));
  if (!rep->reason && col->rec.residual == KSPIDRS_RECURRED && !IDRSQueueOnDevice(col->work) &&
      !IDRSIsWithin(trust->rnorm, -1.0, KSPIDRSGrowthLimit(idrs, idrs->d ? rep->rnorm : trust->anchornorm))) {
    PetscCall(PetscInfo(ksp, "Breakdown at iteration %" PetscInt_FMT ": ||r|| has grown to %g\n", rep->its, (double)trust->rnorm));
    col->rec.suspended = KSPIDRS_GROWTH;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Calls the convergence test for this iteration of a column; an infinite norm or NaN is a reason */
static PetscErrorCode KSPIDRSTestIteration_Private(KSP ksp, KSPIDRSColumn *col, PetscInt its, PetscReal rnorm)
{
  PetscFunctionBegin;
  col->rep.its   = its;
  col->rep.rnorm = ksp->normtype == KSP_NORM_NONE ? 0.0 : rnorm;
  PetscCall(KSPIDRSTestNorm_Private(ksp, col, rnorm));
  if (!PetscIsInfOrNanReal(rnorm)) PetscCall(KSPIDRSTest_Private(ksp, col, col->rep.rnorm)); /* may reset an earlier reason */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns PETSC_TRUE if the reason of a column counts only if b - A x meets the tolerance, too */
static PetscBool KSPIDRSNeedsVerification(KSP ksp, const KSPIDRSColumn *col)
{
  return (PetscBool)(((const KSP_IDRS *)ksp->data)->exact && ksp->converged == KSPConvergedDefault &&
                     (col->rep.reason == KSP_CONVERGED_RTOL || col->rep.reason == KSP_CONVERGED_ATOL));
}

/*
   KSPIDRSReport_Private - Reports an iteration. If its norm must be verified first, the recurrence is suspended, and the report is
   concluded later
*/
PetscErrorCode KSPIDRSReport_Private(KSP ksp, KSPIDRSColumn *col, PetscInt its, PetscReal rnorm)
{
  KSPIDRSTrust *trust = &col->trust;

  PetscFunctionBegin;
  trust->rnorm  = rnorm;
  trust->peak   = PetscMax(trust->peak, rnorm);
  trust->logged = PETSC_FALSE;
  (void)IDRSProgressHalves(&trust->progress, rnorm);
  if (((KSP_IDRS *)ksp->data)->set.recycle != KSP_IDRS_RECYCLE_NEVER) KSPIDRSGuardReport(col, its, rnorm);
  if (its) PetscCall(KSPIDRSSmoothNorm_Private(ksp, col, &rnorm));
  PetscCall(KSPIDRSTestIteration_Private(ksp, col, its, rnorm));
  if (PetscIsInfOrNanReal(rnorm)) PetscFunctionReturn(PETSC_SUCCESS);
  if (its && KSPIDRSNeedsVerification(ksp, col)) {
    col->rep.reason    = KSP_CONVERGED_ITERATING;
    col->rec.suspended = KSPIDRS_UNVERIFIED;
  } else PetscCall(KSPIDRSConcludeReport_Private(ksp, col));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns PETSC_TRUE if the recurrence can make another step */
static PetscBool KSPIDRSContinues(const KSPIDRSColumn *col)
{
  return (PetscBool)(!col->rep.reason && !col->rec.suspended);
}

/* Checks the sums of a projection, and reports the norm of the previous iteration */
static PetscErrorCode KSPIDRSReportOutcome_Private(KSP ksp, KSPIDRSColumn *col, const IDRSOutcome *outcome)
{
  const PetscBool whole = (PetscBool)(((KSP_IDRS *)ksp->data)->run->kind == KSP_IDRS_RUN_WHOLE);

  PetscFunctionBegin;
  if (outcome->verdict == IDRS_NOT_FINITE) {
    /* The matrices of the persistent kernel do not become infinite after many steps: x has overflowed before its first check */
    if (whole && col->rep.its >= IDRS_FIRST_CHECK(PETSC_FALSE)) {
      col->rec.suspended = KSPIDRS_RUNAWAY;
      col->trust.rnorm   = PETSC_MAX_REAL; /* the iterate of the last reliable update is better */
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
   Collects and reports projections until at most `inflight` are in flight, or the recurrence is suspended. *stopped, which may
   be NULL, is set if the device has stopped
*/
static PetscErrorCode KSPIDRSCollectUpTo_Private(KSP ksp, KSPIDRSColumn *col, PetscInt inflight, PetscBool *stopped)
{
  IDRSOutcome outcome;

  PetscFunctionBegin;
  while (KSPIDRSContinues(col) && IDRSQueueInFlight(col->work) > inflight) {
    PetscCall(KSPIDRSCollect_Private(col, &outcome));
    if (stopped) *stopped = outcome.stopped;
    PetscCall(KSPIDRSReportOutcome_Private(ksp, col, &outcome));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Reports the present iteration for all columns whose norm is not part of the next reduction, after all projections in flight. With
   KSP_NORM_NONE no reduction is made for norms that only the next step would need
*/
static PetscErrorCode KSPIDRSReportNow_Private(KSP ksp, const KSPIDRSColumns *cols, const KSPIDRSNorm norm[], PetscReal rnorm[])
{
  KSP_IDRS       *idrs  = (KSP_IDRS *)ksp->data;
  const PetscBool off   = (PetscBool)(ksp->normtype == KSP_NORM_NONE && idrs->lagged && !idrs->d);
  IDRSGroup       ended = {.count = 0}, computed = {.count = 0};
  PetscInt        position[IDRS_MAX_WIDTH];
  PetscReal       norms[IDRS_MAX_WIDTH];
  PetscBool       reports[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn *col     = cols->column[i];
    PetscBool      stopped = PETSC_FALSE;

    reports[i] = PETSC_FALSE;
    if (norm[i] == KSPIDRS_NORM_LATER) continue;
    PetscCall(KSPIDRSCollectUpTo_Private(ksp, col, 0, &stopped));
    ended.work[ended.count++] = col->work;
    reports[i]                = (PetscBool)(KSPIDRSContinues(col) && !stopped);
    if (!reports[i] || norm[i] != KSPIDRS_NORM_NOW) continue;
    rnorm[i] = col->trust.rnorm;
    if (off) continue;
    position[computed.count]        = i;
    computed.work[computed.count++] = col->work;
  }
  PetscCall(IDRSQueueEnd(&ended));
  if (computed.count) PetscCall(IDRSNorm(&computed, norms));
  for (PetscInt j = 0; j < computed.count; j++) rnorm[position[j]] = norms[j] / cols->column[position[j]]->scale;
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn *col = cols->column[i];

    if (!reports[i]) continue;
    col->rec.step.unreported = PETSC_FALSE;
    PetscCall(KSPIDRSReport_Private(ksp, col, col->rec.its, rnorm[i]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSStepColumns_Private - Makes one step of the recurrence (docs/algorithm.md) for all columns, or the rest of the step in
   which a device has stopped. Columns that have ended or are suspended are removed

     step k                                                           omega step, k = s
     U_k = omega B^{-1}(r - G(:,k:s) c) + U(:,k:s) c                  p = B^{-1}r
     G_k = A U_k                                                      t = A p
     d = P^H G_k, G_k^H G_k, r^H r                                    P^H t, t^H t, P^H r, t^H r, r^H r
     alpha, M_k, beta_k, f                                            omega, f
     G_k -= G(:,0:k) alpha, U_k -= U(:,0:k) alpha, r -= beta_k G_k    z += omega p + U beta, r -= omega t
*/
static PetscErrorCode KSPIDRSStepColumns_Private(KSP ksp, KSPIDRSColumns *cols)
{
  KSP_IDRS   *idrs = (KSP_IDRS *)ksp->data;
  KSPIDRSNorm norm[IDRS_MAX_WIDTH];
  PetscReal   rnorm[IDRS_MAX_WIDTH];
  PetscInt    k = cols->column[0]->rec.step.k, left = 0;

  PetscFunctionBegin;
  if (cols->column[0]->rec.stage != KSPIDRS_PROJECTED) {
    PetscCall(KSPIDRSDirection_Private(ksp, cols)); /* U_k = omega B^{-1}(r - G(:,k:s) c) + U(:,k:s) c */
    PetscCall(KSPIDRSMatvec_Private(ksp, cols));    /* G_k = A U_k */
    PetscCall(KSPIDRSLaunch_Private(ksp, cols));    /* d = P^H G_k, G_k^H G_k, r^H r */
  }
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn *col = cols->column[i];

    /* ||r|| of the iteration before is reported */
    PetscCall(KSPIDRSCollectUpTo_Private(ksp, col, IDRSQueueOnDevice(col->work) ? idrs->depth : 0, NULL));
    /* a device may have stopped in an earlier step, which is finished later */
    if (KSPIDRSContinues(col) && col->rec.stage == KSPIDRS_PROJECTED && (cols->count == 1 || col->rec.step.k == k))
      cols->column[left++] = col;
  }
  cols->count = left;
  if (!left) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSFinish_Private(ksp, cols, norm, rnorm));    /* alpha, M_k, beta_k, f;  G_k, U_k, r */
  PetscCall(KSPIDRSReportNow_Private(ksp, cols, norm, rnorm)); /* ||r|| that is not part of the next reduction */
  for (PetscInt i = 0; i < cols->count; i++) {
    const KSPIDRSRecurrence *rec = &cols->column[i]->rec;

    if (rec->given && rec->step.k == idrs->set.s && KSPIDRSContinues(cols->column[i]))
      PetscCall(KSPIDRSRecycleEndStart_Private(ksp, cols->column[i])); /* r -= G c, M c = f */
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes a step of one column */
static PetscErrorCode KSPIDRSStep_Private(KSP ksp, KSPIDRSColumn *col)
{
  KSPIDRSColumns cols = KSPIDRSOneColumn(col);

  PetscFunctionBegin;
  PetscCall(KSPIDRSStepColumns_Private(ksp, &cols));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns PETSC_TRUE if a cycle has ended and a reliable update is due */
static PetscBool KSPIDRSAtUpdate(const KSP_IDRS *idrs, const KSPIDRSColumn *col)
{
  const KSPIDRSRecurrence *rec = &col->rec;

  return (PetscBool)(rec->step.k == 0 && rec->stage == KSPIDRS_NOTHING && rec->residual == KSPIDRS_RECURRED &&
                     KSPIDRSUpdateDue(idrs, col, col->trust.rnorm));
}

/* Returns PETSC_TRUE if a cycle has ended and the guard of recycling must decide */
static PetscBool KSPIDRSAtGuard(const KSPIDRSColumn *col)
{
  const KSPIDRSRecurrence *rec = &col->rec;

  return (PetscBool)(rec->step.k == 0 && rec->stage == KSPIDRS_NOTHING && rec->residual == KSPIDRS_RECURRED && !rec->suspended &&
                     KSPIDRSGuardDue(col, rec->its));
}

/* Returns PETSC_TRUE if a run makes another step: r has not been replaced, and no update or decision is due */
static PetscBool KSPIDRSRunContinues(KSP ksp, const KSPIDRSColumn *col)
{
  return (PetscBool)(KSPIDRSContinues(col) && col->rec.residual == KSPIDRS_RECURRED &&
                     !KSPIDRSAtUpdate((const KSP_IDRS *)ksp->data, col) && !KSPIDRSAtGuard(col) && col->rec.its < col->trust.check);
}

/* Finishes the replacement of r after its projection f = P^H r, and reports the norm of its iteration. A cycle begins */
static PetscErrorCode KSPIDRSFinishReplacement_Private(KSP ksp, KSPIDRSColumn *col, IDRSOutcome *outcome, PetscBool updated)
{
  KSP_IDRS          *idrs     = (KSP_IDRS *)ksp->data;
  KSPIDRSRecurrence *rec      = &col->rec;
  KSPIDRSTrust      *trust    = &col->trust;
  const PetscReal    promised = trust->rnorm;
  PetscReal          rr;

  PetscFunctionBegin;
  if (outcome->verdict == IDRS_NOT_FINITE) {
    PetscCall(KSPIDRSTestNorm_Private(ksp, col, (PetscReal)INFINITY));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  /* f; KSPIDRSCombine_Private() computes c of the first direction */
  PetscCall(IDRSQueueContinue(col->work, &outcome->step, idrs->set.cosine, &rr, &outcome->verdict));
  rec->step.k   = 0;
  rec->omega    = KSPIDRS_OMEGA_NEW;
  rec->residual = KSPIDRS_RECURRED;
  KSPIDRSSetReplacedNorm(trust, outcome->rnorm);
  if (rec->step.unreported) {
    rec->step.unreported = PETSC_FALSE;
    PetscCall(KSPIDRSReport_Private(ksp, col, rec->its, outcome->rnorm));
  }
  if (KSPIDRSContinues(col) && updated && outcome->rnorm > IDRS_UPDATE_CONFIRMS * promised)
    PetscCall(KSPIDRSCheckStagnation_Private(ksp, col, outcome->rnorm, IDRS_STAGNATION_UPDATE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Reports the norms and reliable updates of a kernel as if the host had made the steps */
static PetscErrorCode KSPIDRSReportWhole_Private(KSP ksp, KSPIDRSColumn *col, const IDRSStep *first, const IDRSWholeReport *report)
{
  PetscInt    update = 0;
  IDRSOutcome passed = {
    .step = {.start = first->start, .unreported = first->unreported}
  };

  PetscFunctionBegin;
  for (PetscInt i = 0; i <= report->count && KSPIDRSContinues(col); i++) {
    if (update < report->updates && report->update[update].after == i)
      KSPIDRSSetReplacedNorm(&col->trust, report->update[update++].rnorm / col->scale);
    if (i == report->count) break;
    passed.rnorm = report->norms[i] / col->scale;
    PetscCall(KSPIDRSReportOutcome_Private(ksp, col, &passed));
    passed.step.unreported = PETSC_TRUE;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Run "steps" */
static PetscErrorCode KSPIDRSRuns_Steps(KSP ksp, const char *why[])
{
  PetscFunctionBegin;
  *why = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Run "steps": makes a cycle of all columns. A suspended column is removed, and the others continue */
static PetscErrorCode KSPIDRSRun_Steps(KSP ksp, KSPIDRSColumns *cols)
{
  PetscFunctionBegin;
  do {
    PetscInt left = 0;

    PetscCall(KSPIDRSStepColumns_Private(ksp, cols));
    for (PetscInt i = 0; i < cols->count; i++) {
      KSPIDRSColumn           *col = cols->column[i];
      const KSPIDRSRecurrence *rec = &col->rec;

      if (KSPIDRSContinues(col) && rec->residual == KSPIDRS_RECURRED && rec->step.k > 0 && rec->stage != KSPIDRS_PROJECTED)
        cols->column[left++] = col;
    }
    cols->count = left;
  } while (cols->count);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Run "whole": many steps in the persistent kernel */
static PetscErrorCode KSPIDRSRuns_Whole(KSP ksp, const char *why[])
{
  KSP_IDRS    *idrs = (KSP_IDRS *)ksp->data;
  PetscInt     solves;
  IDRSWorkInfo info;

  PetscFunctionBegin;
  PetscCall(IDRSWorkGetInfo(idrs->slot[0].work, &info));
  *why = NULL;
  if (!info.device) *why = "the vector operations do not run on a GPU";
  else if (idrs->lockstep) *why = idrs->lockstep;
  else if (info.size > 1) *why = "there are several processes";
  else if (idrs->separatepc) *why = idrs->separatepc;
  else if (idrs->active > 1 && idrs->set.block) *why = "the right-hand sides have a block recurrence";
  else PetscCall(IDRSQueueWholeRuns(idrs->slot[0].work, (PetscBool)(idrs->set.run == KSP_IDRS_RUN_AUTO), why));
  if (*why || idrs->active == 1) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSQueueWholeFits(idrs->slot[0].work, idrs->active, &solves));
  if (solves < idrs->active) *why = "the systems of two right-hand sides do not fit on the GPU at the same time";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Reports the results of a kernel. *updated is set if it has replaced r */
static PetscErrorCode KSPIDRSConcludeWhole_Private(KSP ksp, KSPIDRSColumn *col, IDRSWholeTask *task, PetscBool *updated)
{
  const IDRSStep first = {.start = col->rec.step.start, .unreported = col->rec.step.unreported};

  PetscFunctionBegin;
  KSPIDRSTakeWhole(ksp, col, task);
  *updated = (PetscBool)(task->outcome.step.k == IDRS_RESIDUAL);
  PetscCall(KSPIDRSReportWhole_Private(ksp, col, &first, &task->report));
  if (!KSPIDRSContinues(col)) PetscFunctionReturn(PETSC_SUCCESS);
  if (*updated) PetscCall(KSPIDRSFinishReplacement_Private(ksp, col, &task->outcome, PETSC_TRUE));
  else PetscCall(KSPIDRSReportOutcome_Private(ksp, col, &task->outcome));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Runs a kernel for each column at the same time, and then finishes the steps in which the kernels stopped, or makes steps that no
   kernel can make, until no column continues
*/
static PetscErrorCode KSPIDRSRun_Whole(KSP ksp, KSPIDRSColumns *cols)
{
  KSP_IDRS     *idrs = (KSP_IDRS *)ksp->data;
  IDRSWholeTask tasks[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  do {
    PetscBool updated[IDRS_MAX_WIDTH] = {PETSC_FALSE};
    PetscInt  place[IDRS_MAX_WIDTH], count = 0, left = 0;

    for (PetscInt i = 0; i < cols->count; i++) {
      KSPIDRSColumn       *col = cols->column[i];
      const KSPIDRSColumns one = KSPIDRSOneColumn(col);

      if (!KSPIDRSCanBeWhole(ksp, col)) continue;
      if (!KSPIDRSBeginsWhole(&col->rec)) PetscCall(KSPIDRSDirection_Private(ksp, &one));
      place[count]   = i;
      tasks[count++] = KSPIDRSGetWholeTask(ksp, col);
    }
    if (count) PetscCall(IDRSQueueWhole(idrs->slot[0].work, idrs->active, count, tasks));
    for (PetscInt j = 0; j < count; j++)
      PetscCall(KSPIDRSConcludeWhole_Private(ksp, cols->column[place[j]], &tasks[j], &updated[place[j]]));
    for (PetscInt i = 0; i < cols->count; i++) {
      KSPIDRSColumn *col = cols->column[i];

      if (KSPIDRSContinues(col) && !updated[i]) PetscCall(KSPIDRSStep_Private(ksp, col));
      if (KSPIDRSRunContinues(ksp, col)) cols->column[left++] = col;
    }
    cols->count = left;
  } while (cols->count);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static const KSPIDRSRunOps KSPIDRSRun_Stepwise = {
  .kind = KSP_IDRS_RUN_STEPS,
  .runs = KSPIDRSRuns_Steps,
  .run  = KSPIDRSRun_Steps,
};

static const KSPIDRSRunOps KSPIDRSRun_AtOnce = {
  .kind = KSP_IDRS_RUN_WHOLE,
  .runs = KSPIDRSRuns_Whole,
  .run  = KSPIDRSRun_Whole,
};

/* Back ends, the fastest first; the last one runs every solve */
static const KSPIDRSRunOps *const KSPIDRSRunList[] = {&KSPIDRSRun_AtOnce, &KSPIDRSRun_Stepwise};

const char *const KSPIDRSRuns[] = {"auto", "steps", "whole", "KSPIDRSRun", "KSP_IDRS_RUN_", NULL};

/* KSPIDRSMonitorsNorms - Returns PETSC_TRUE if all monitors are PETSc's monitors of the norm, which do not need the solution */
PetscBool KSPIDRSMonitorsNorms(KSP ksp)
{
  typedef PetscErrorCode (*Monitor)(KSP, PetscInt, PetscReal, void *);

  for (PetscInt i = 0; i < ksp->numbermonitors; i++) {
    const Monitor monitor = (Monitor)ksp->monitor[i];

    if (monitor != (Monitor)KSPMonitorResidual && monitor != (Monitor)IDRSMonitorShort &&
        monitor != (Monitor)KSPMonitorResidualDrawLG)
      return PETSC_FALSE;
  }
  return PETSC_TRUE;
}

/*
   KSPIDRSChooseRun_Private - Chooses the back end of the iterations, and the number of steps that the host launches before it waits
   for a device: 0 if a monitor or test may need the solution of every iteration, or if a matvec takes much longer than the wait
*/
PetscErrorCode KSPIDRSChooseRun_Private(KSP ksp)
{
  KSP_IDRS    *idrs = (KSP_IDRS *)ksp->data;
  PetscBool    streams;
  IDRSWorkInfo info;
  Mat          A;

  PetscFunctionBegin;
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &streams, MATSEQAIJSTREAM, MATMPIAIJSTREAM, ""));
  PetscCall(IDRSWorkGetInfo(idrs->slot[0].work, &info));
  idrs->lagged   = (PetscBool)(info.size > 1 || info.device);
  idrs->lockstep = NULL;
  idrs->depth    = 0;
  if (info.device) {
    if (!KSPIDRSMonitorsNorms(ksp)) idrs->lockstep = "a monitor may ask for the solution";
    if (idrs->d) idrs->lockstep = "residual smoothing";
    if (streams) idrs->lockstep = "an unused matvec would need a pass over the streamed operator";
    if (ksp->converged != KSPConvergedDefault && ksp->converged != KSPConvergedSkip)
      idrs->lockstep = "a convergence test of the user may ask for the solution";
    if (info.throughhost) idrs->lockstep = info.throughhost;
    if (idrs->lockstep) PetscCall(PetscInfo(ksp, "The host waits for the device in every matvec: %s\n", idrs->lockstep));
    else idrs->depth = info.depth;
  }
  idrs->run       = NULL;
  idrs->slowerrun = NULL;
  for (size_t i = 0; !idrs->run; i++) {
    const char *why;

    if (idrs->set.run != KSP_IDRS_RUN_AUTO && idrs->set.run != KSPIDRSRunList[i]->kind) continue;
    PetscCall((*KSPIDRSRunList[i]->runs)(ksp, &why));
    PetscCheck(!why || idrs->set.run == KSP_IDRS_RUN_AUTO, PetscObjectComm((PetscObject)ksp), PETSC_ERR_SUP,
               "-ksp_idrs_run %s cannot be used here: %s", KSPIDRSRuns[idrs->set.run], why);
    if (!why) idrs->run = KSPIDRSRunList[i];
    else idrs->slowerrun = why;
  }
  if (idrs->run->kind == KSP_IDRS_RUN_WHOLE) idrs->depth = 0; /* the host finishes a step between two kernels */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Asserts the invariants between two runs, on which the parts of a step rely */
static PetscErrorCode KSPIDRSAssertState_Private(const KSPIDRSColumn *col)
{
  const KSPIDRSRecurrence *rec = &col->rec;
  const PetscBool recurred = (PetscBool)(rec->residual == KSPIDRS_RECURRED), omega = (PetscBool)(rec->step.k == col->scalars->s);

  PetscFunctionBegin;
  PetscAssert(rec->step.k >= 0 && rec->step.k <= col->scalars->s, PETSC_COMM_SELF, PETSC_ERR_PLIB, "Step %" PetscInt_FMT,
              rec->step.k);
  PetscAssert(rec->columns == (recurred ? rec->step.k : 0), PETSC_COMM_SELF, PETSC_ERR_PLIB,
              "%" PetscInt_FMT " columns in step %" PetscInt_FMT, rec->columns, rec->step.k);
  PetscAssert(rec->omega == KSPIDRS_OMEGA_NEW || omega, PETSC_COMM_SELF, PETSC_ERR_PLIB,
              "Something of an omega step in step %" PetscInt_FMT, rec->step.k);
  PetscAssert(rec->omega != KSPIDRS_OMEGA_PROJECTED || rec->step.start, PETSC_COMM_SELF, PETSC_ERR_PLIB,
              "r has been projected after the start");
  PetscAssert(rec->stage != KSPIDRS_PROJECTED || !rec->suspended || recurred, PETSC_COMM_SELF, PETSC_ERR_PLIB,
              "A failure of an r that has been replaced");
  PetscAssert(!IDRSQueueOnDevice(col->work) || (recurred && !rec->suspended), PETSC_COMM_SELF, PETSC_ERR_PLIB,
              "The scalars are on the device while the host decides");
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSBegin_Private - Computes and reports the first residual of each column */
PetscErrorCode KSPIDRSBegin_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  Vec            r[IDRS_MAX_WIDTH], anchor[IDRS_MAX_WIDTH];
  PCFailedReason failed;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    r[i]      = cols->column[i]->r;
    anchor[i] = cols->column[i]->anchor;
  }
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

static void KSPIDRSColumnsAdd(KSPIDRSColumns *cols, KSPIDRSColumn *col)
{
  cols->column[cols->count++] = col;
}

/* Checks an iterate that is due, after all projections in flight */
static PetscErrorCode KSPIDRSCheckIfDue_Private(KSP ksp, KSPIDRSColumn *col)
{
  PetscFunctionBegin;
  if (col->rec.its < col->trust.check || col->rec.stage == KSPIDRS_PROJECTED) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSCollectUpTo_Private(ksp, col, 0, NULL));
  PetscCall(IDRSQueueEnd(IDRSGroupOfOne(col->work)));
  if (KSPIDRSContinues(col)) PetscCall(KSPIDRSCheckIterate_Private(ksp, col));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Checks iterates, verifies columns whose r meets the tolerance, restarts columns after failures, and makes reliable updates that
   are due
*/
static PetscErrorCode KSPIDRSDecideResiduals_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  KSP_IDRS      *idrs       = (KSP_IDRS *)ksp->data;
  KSPIDRSColumns unverified = {.count = 0}, due = {.count = 0};

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn *col = cols->column[i];

    if (KSPIDRSContinues(col)) PetscCall(KSPIDRSCheckIfDue_Private(ksp, col));
    if (col->rep.reason) continue;
    PetscCall(KSPIDRSAssertState_Private(col));
    if (KSPIDRSAtGuard(col)) PetscCall(KSPIDRSGuardDecide_Private(ksp, col));
    if (col->rec.suspended == KSPIDRS_UNVERIFIED) KSPIDRSColumnsAdd(&unverified, col);
    else if (col->rec.suspended) PetscCall(KSPIDRSRestart_Private(ksp, col));
    else if (KSPIDRSAtUpdate(idrs, col)) KSPIDRSColumnsAdd(&due, col);
  }
  if (unverified.count) PetscCall(KSPIDRSVerify_Private(ksp, &unverified)); /* b - A x */
  for (PetscInt i = 0; i < unverified.count; i++) PetscCall(KSPIDRSConcludeReport_Private(ksp, unverified.column[i]));
  if (due.count) PetscCall(KSPIDRSReliableUpdate_Private(ksp, &due)); /* r = anchor - A z */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Decides about columns without a reason. Each then has a reason, or its recurrence continues, or another decision is needed */
static PetscErrorCode KSPIDRSDecide_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  KSPIDRSColumns begin = {.count = 0}, replaced = {.count = 0};

  PetscFunctionBegin;
  PetscCall(KSPIDRSDecideResiduals_Private(ksp, cols));
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn *col = cols->column[i];

    if (!KSPIDRSContinues(col) || col->rec.residual == KSPIDRS_RECURRED) continue;
    if (col->rec.step.start) KSPIDRSColumnsAdd(&begin, col);
    else if (col->rec.stage == KSPIDRS_NOTHING) KSPIDRSColumnsAdd(&replaced, col); /* else a step must be finished first */
  }
  if (begin.count) PetscCall(KSPIDRSBeginRecurrence_Private(ksp, &begin));
  if (replaced.count) PetscCall(KSPIDRSProject_Private(ksp, &replaced)); /* f = P^H r */
  for (PetscInt i = 0; i < replaced.count; i++) {
    KSPIDRSColumn *col = replaced.column[i];
    IDRSOutcome    outcome;

    PetscCall(IDRSQueueCollect(col->work, &outcome));
    outcome.rnorm /= col->scale;
    PetscCall(KSPIDRSFinishReplacement_Private(ksp, col, &outcome, (PetscBool)(col->rec.residual == KSPIDRS_RELIABLE_UPDATE)));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSEnd_Private - Completes the solution of each column after its last iteration */
PetscErrorCode KSPIDRSEnd_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  const IDRSGroup group  = KSPIDRSGetGroup(cols);
  KSPIDRSColumns  finite = {.count = 0}, unadded = {.count = 0};
  PetscBool       ondevice[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) ondevice[i] = IDRSQueueOnDevice(cols->column[i]->work);
  PetscCall(IDRSQueueEnd(&group));
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn   *col = cols->column[i];
    KSPIDRSReported *rep = &col->rep;

    PetscCall(KSPIDRSRecycleEnd_Private(ksp, col, ondevice[i]));
    /* the norm of b - A x after a breakdown */
    if (col->trust.logged && rep->historylen > 0) rep->history[rep->historylen - 1] = rep->rnorm;
    /* After a NaN the solution is the iterate of the last reliable update or verification */
    if (rep->reason == KSP_DIVERGED_NANORINF) continue;
    if (!col->rec.added && rep->reason < 0 && ksp->normtype != KSP_NORM_NONE) {
      PetscBool isfinite;

      PetscCall(KSPIDRSIsIterateFinite_Private(ksp, col, &isfinite));
      if (!isfinite) {
        rep->rnorm = col->trust.anchornorm; /* the solution is that iterate here, too */
        continue;
      }
    }
    KSPIDRSColumnsAdd(&finite, col);
    if (!col->rec.added) KSPIDRSColumnsAdd(&unadded, col);
  }
  PetscCall(KSPIDRSAddIterate_Private(ksp, &unadded)); /* sol += z + U beta */
  /* sol += sigma d */
  for (PetscInt i = 0; i < finite.count; i++) PetscCall(KSPIDRSSmoothAddToSolution_Private(ksp, finite.column[i]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSIterate_Private - Solves for the right-hand side of the KSP */
PetscErrorCode KSPIDRSIterate_Private(KSP ksp)
{
  KSP_IDRS            *idrs = (KSP_IDRS *)ksp->data;
  KSPIDRSColumn       *col  = &idrs->slot[0];
  const KSPIDRSColumns one  = KSPIDRSOneColumn(col);

  PetscFunctionBegin;
  idrs->current = col;
  col->rep      = KSPIDRSGetReported(ksp);
  PetscCall(KSPIDRSBegin_Private(ksp, &one));
  while (!col->rep.reason) {
    KSPIDRSColumns left = one;

    PetscCall(KSPIDRSDecide_Private(ksp, &one));
    if (KSPIDRSContinues(col)) PetscCall((*idrs->run->run)(ksp, &left));
  }
  PetscCall(KSPIDRSEnd_Private(ksp, &one));
  KSPIDRSSetReported(ksp, &col->rep);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSPrepareCycle_Private - Brings all columns that have no reason to the beginning of a cycle. If a device has stopped in a
   cycle of a column, the column finishes this cycle separately
*/
PetscErrorCode KSPIDRSPrepareCycle_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  KSPIDRSColumns left = *cols;

  PetscFunctionBegin;
  while (left.count) {
    const KSPIDRSColumns before = left;

    left.count = 0;
    PetscCall(KSPIDRSDecide_Private(ksp, &before));
    for (PetscInt i = 0; i < before.count; i++) {
      KSPIDRSColumn           *col = before.column[i];
      const KSPIDRSRecurrence *rec = &col->rec;

      if (KSPIDRSContinues(col)) {
        if (rec->step.k == 0 && rec->stage != KSPIDRS_PROJECTED && rec->residual == KSPIDRS_RECURRED) continue;
        PetscCall(KSPIDRSStep_Private(ksp, col));
      }
      if (!col->rep.reason) KSPIDRSColumnsAdd(&left, col);
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
