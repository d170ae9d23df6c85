/*
   The loop of KSPIDRS, and what it tells the rest of PETSc. Policy is here: history, monitors, convergence test, restarts and
   reliable updates; what a step consists of is in idrscycle.c, and what the norms of b - A x decide in idrstrust.c.

     KSPIDRSIterate_Private()     residual of the guess; until there is a reason:
       r meets the tolerance        b - A x
       a failure                    restart
       an update is due             r = anchor - A z
       r has been replaced          f = P^H r, or the start again
       run                          steps, until one of these holds
*/
#include "idrsimpl.h"

/*
   KSPIDRSConcludeReport_Private - The end of a report: history, monitors, and whether it was that of the last iteration, or of one
   whose norm has grown too much
*/
PetscErrorCode KSPIDRSConcludeReport_Private(KSP ksp)
{
  KSP_IDRS          *idrs  = (KSP_IDRS *)ksp->data;
  KSPIDRSTrust      *trust = &idrs->col->trust;
  const PetscInt     its   = ksp->its;
  KSPConvergedReason reason;
  PetscInt64         length;

  PetscFunctionBegin;
  if (!ksp->reason && its >= ksp->max_it) ksp->reason = KSP_DIVERGED_ITS;
  reason      = ksp->reason;
  ksp->reason = KSP_CONVERGED_ITERATING; /* with a reason KSPBuildSolution() in a monitor would take vec_sol to be complete */
  length      = (PetscInt64)ksp->res_hist_len;
  PetscCall(KSPLogResidualHistory(ksp, ksp->rnorm));
  trust->logged = (PetscBool)(length < (PetscInt64)ksp->res_hist_len);
  PetscCall(KSPMonitor(ksp, its, ksp->rnorm));
  ksp->reason = reason;
  if (!ksp->reason && idrs->col->rec.residual == KSPIDRS_RECURRED && !IDRSQueueOnDevice(idrs->col->work) &&
      trust->rnorm > KSPIDRSGrowthLimit(idrs, idrs->d ? ksp->rnorm : trust->anchornorm)) {
    PetscCall(PetscInfo(ksp, "Breakdown at iteration %" PetscInt_FMT ": ||r|| has grown to %g\n", its, (double)trust->rnorm));
    idrs->col->rec.halt = KSPIDRS_GROWTH;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSReport_Private - Reports an iteration: convergence test, history, monitors. With KSPConvergedDefault() a norm that meets
   the tolerance is to be verified first: the recurrence halts, and the report is concluded then
*/
static PetscErrorCode KSPIDRSReport_Private(KSP ksp, PetscInt its, PetscReal rnorm)
{
  KSP_IDRS     *idrs  = (KSP_IDRS *)ksp->data;
  KSPIDRSTrust *trust = &idrs->col->trust;

  PetscFunctionBegin;
  trust->rnorm = rnorm;
  trust->peak  = PetscMax(trust->peak, rnorm);
  if (its) PetscCall(KSPIDRSSmoothNorm_Private(ksp, &rnorm));
  PetscCall(PetscObjectSAWsTakeAccess((PetscObject)ksp));
  ksp->its   = its;
  ksp->rnorm = ksp->normtype == KSP_NORM_NONE ? 0.0 : rnorm;
  PetscCall(PetscObjectSAWsGrantAccess((PetscObject)ksp));
  trust->logged = PETSC_FALSE;
  KSPCheckNorm(ksp, rnorm);
  PetscCall((*ksp->converged)(ksp, its, ksp->rnorm, &ksp->reason, ksp->cnvP));
  if (its && idrs->exact && ksp->converged == KSPConvergedDefault &&
      (ksp->reason == KSP_CONVERGED_RTOL || ksp->reason == KSP_CONVERGED_ATOL)) {
    ksp->reason         = KSP_CONVERGED_ITERATING;
    idrs->col->rec.halt = KSPIDRS_UNVERIFIED;
  } else PetscCall(KSPIDRSConcludeReport_Private(ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Whether the recurrence of the right-hand side that the KSP is at goes on as it is */
static PetscBool KSPIDRSGoesOn(KSP ksp)
{
  return (PetscBool)(!ksp->reason && !((const KSP_IDRS *)ksp->data)->col->rec.halt);
}

/* The outcome of a projection: whether its sums are numbers, and the norm of the iteration before it */
static PetscErrorCode KSPIDRSReportOutcome_Private(KSP ksp, const IDRSOutcome *outcome)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  if (outcome->verdict == IDRS_NOT_FINITE) KSPCheckNorm(ksp, (PetscReal)INFINITY);
  if (outcome->step.unreported) {
    if (outcome->verdict != IDRS_GOES_ON) idrs->col->rec.unreported = PETSC_FALSE;
    PetscCall(KSPIDRSReport_Private(ksp, ksp->its + 1, outcome->rnorm));
  } else if (outcome->step.start) KSPIDRSSetStartNorm(idrs, outcome->rnorm);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Collects and reports until no more projections than these are in flight, unless the solve ends; *stopped, which may be NULL,
   tells whether the device has stopped in one of them
*/
static PetscErrorCode KSPIDRSCollectUpTo_Private(KSP ksp, PetscInt inflight, PetscBool *stopped)
{
  KSP_IDRS   *idrs = (KSP_IDRS *)ksp->data;
  IDRSOutcome outcome;

  PetscFunctionBegin;
  while (KSPIDRSGoesOn(ksp) && IDRSQueueInFlight(idrs->col->work) > inflight) {
    PetscCall(KSPIDRSCollect_Private(ksp, &outcome));
    if (stopped) *stopped = outcome.stopped;
    PetscCall(KSPIDRSReportOutcome_Private(ksp, &outcome));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Reports the present iteration at once for those columns of the front whose norm is not to come later. It first collects the
   projections in flight, and leaves out where the device has stopped in one of them. With KSP_NORM_NONE no reduction is made for
   norms that nothing but the next step would need.
*/
static PetscErrorCode KSPIDRSReportNow_Private(KSP ksp, const KSPIDRSFront *front, const KSPIDRSNorm norm[], PetscReal rnorm[])
{
  KSP_IDRS       *idrs  = (KSP_IDRS *)ksp->data;
  const PetscBool off   = (PetscBool)(ksp->normtype == KSP_NORM_NONE && idrs->lagged && !idrs->d);
  IDRSGroup       ended = {.count = 0}, computed = {.count = 0};
  PetscInt        place[IDRS_MAX_WIDTH];
  PetscReal       norms[IDRS_MAX_WIDTH];
  PetscBool       reports[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < front->count; i++) {
    KSPIDRSColumn *col     = front->column[i];
    PetscBool      stopped = PETSC_FALSE;

    reports[i] = PETSC_FALSE;
    if (norm[i] == KSPIDRS_NORM_LATER) continue;
    PetscCall(KSPIDRSSelect_Private(ksp, col));
    PetscCall(KSPIDRSCollectUpTo_Private(ksp, 0, &stopped));
    ended.work[ended.count++] = col->work;
    reports[i]                = (PetscBool)(KSPIDRSGoesOn(ksp) && !stopped);
    if (!reports[i] || norm[i] != KSPIDRS_NORM_NOW) continue;
    rnorm[i] = col->trust.rnorm;
    if (off) continue;
    place[computed.count]           = i;
    computed.work[computed.count++] = col->work;
  }
  PetscCall(IDRSQueueEnd(&ended));
  if (computed.count) PetscCall(IDRSNorm(&computed, norms));
  for (PetscInt j = 0; j < computed.count; j++) rnorm[place[j]] = norms[j] / front->column[place[j]]->scale;
  for (PetscInt i = 0; i < front->count; i++) {
    if (!reports[i]) continue;
    PetscCall(KSPIDRSSelect_Private(ksp, front->column[i]));
    idrs->col->rec.unreported = PETSC_FALSE;
    PetscCall(KSPIDRSReport_Private(ksp, idrs->col->rec.its, rnorm[i]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSStepTogether_Private - One step of the recurrence as in docs/algorithm.md, or the rest of the step in which a device has
   stopped. The columns of the front make it together; those that have come to an end, or are to be decided about, leave the front

     step k                                                     omega step, k = s
     U_k = omega B^{-1}(r - G(:,k:s) c) + U(:,k:s) c            p = B^{-1}r
     G_k = A U_k                                                t = A p
     d = P^H G_k, G_k^H G_k, r^H r                              P^H t, t^H t, P^H r, t^H r, r^H r
     ||r||: the iteration before is reported
     alpha, M_k, beta_k, f                                      omega, f
     G_k -= G(:,0:k) alpha, U_k -= U(:,0:k) alpha, r -= beta_k G_k    z += omega p + U beta, r -= omega t
*/
static PetscErrorCode KSPIDRSStepTogether_Private(KSP ksp, KSPIDRSFront *front)
{
  KSP_IDRS   *idrs = (KSP_IDRS *)ksp->data;
  KSPIDRSNorm norm[IDRS_MAX_WIDTH];
  PetscReal   rnorm[IDRS_MAX_WIDTH];
  PetscInt    k = front->column[0]->rec.k, left = 0;

  PetscFunctionBegin;
  if (front->column[0]->rec.stage != KSPIDRS_PROJECTED) {
    PetscCall(KSPIDRSDirection_Private(ksp, front));
    PetscCall(KSPIDRSMatvec_Private(ksp, front));
    PetscCall(KSPIDRSLaunch_Private(ksp, front));
  }
  for (PetscInt i = 0; i < front->count; i++) {
    KSPIDRSColumn *col = front->column[i];

    PetscCall(KSPIDRSSelect_Private(ksp, col));
    PetscCall(KSPIDRSCollectUpTo_Private(ksp, IDRSQueueOnDevice(col->work) ? idrs->depth : 0, NULL));
    /* a device may have stopped in an earlier step: the others do not wait for it to be finished */
    if (KSPIDRSGoesOn(ksp) && col->rec.stage == KSPIDRS_PROJECTED && (front->count == 1 || col->rec.k == k))
      front->column[left++] = col;
  }
  front->count = left;
  if (!left) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSFinish_Private(ksp, front, norm, rnorm));
  PetscCall(KSPIDRSReportNow_Private(ksp, front, norm, rnorm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A step of it */
static PetscErrorCode KSPIDRSStep_Private(KSP ksp)
{
  KSPIDRSFront front = KSPIDRSAlone(ksp);

  PetscFunctionBegin;
  PetscCall(KSPIDRSStepTogether_Private(ksp, &front));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Whether a cycle has ended so that r is to be computed from z again */
static PetscBool KSPIDRSAtUpdate(const KSP_IDRS *idrs)
{
  const KSPIDRSRecurrence *rec = &idrs->col->rec;

  return (PetscBool)(rec->k == 0 && rec->stage == KSPIDRS_NOTHING && rec->residual == KSPIDRS_RECURRED &&
                     KSPIDRSUpdateDue(idrs, idrs->col->trust.rnorm));
}

/* Runs: "steps", one after another */
static PetscErrorCode KSPIDRSRuns_Steps(KSP ksp, const char *why[])
{
  PetscFunctionBegin;
  *why = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPIDRSRun_Steps(KSP ksp)
{
  const KSP_IDRS *idrs = (const KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  do PetscCall(KSPIDRSStep_Private(ksp));
  while (KSPIDRSGoesOn(ksp) && idrs->col->rec.residual == KSPIDRS_RECURRED && !KSPIDRSAtUpdate(idrs));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   An r that has replaced the one of the recurrence, after its projection f = P^H r, from which a cycle begins. Reports the
   iteration whose norm it is
*/
static PetscErrorCode KSPIDRSTakeReplaced_Private(KSP ksp, IDRSOutcome *outcome, PetscBool updated)
{
  KSP_IDRS          *idrs     = (KSP_IDRS *)ksp->data;
  KSPIDRSRecurrence *rec      = &idrs->col->rec;
  KSPIDRSTrust      *trust    = &idrs->col->trust;
  const PetscReal    promised = trust->rnorm;
  PetscReal          rr;

  PetscFunctionBegin;
  if (outcome->verdict == IDRS_NOT_FINITE) KSPCheckNorm(ksp, (PetscReal)INFINITY);
  PetscCall(IDRSQueueContinue(idrs->col->work, &outcome->step, idrs->set.cosine, &rr, &outcome->verdict));
  rec->k        = 0;
  rec->again    = PETSC_FALSE;
  rec->residual = KSPIDRS_RECURRED;
  KSPIDRSSetReplacedNorm(trust, outcome->rnorm);
  if (rec->unreported) {
    rec->unreported = PETSC_FALSE;
    PetscCall(KSPIDRSReport_Private(ksp, rec->its, outcome->rnorm));
  }
  if (KSPIDRSGoesOn(ksp) && updated && outcome->rnorm > IDRS_UPDATE_CONFIRMS * promised)
    PetscCall(KSPIDRSProgress_Private(ksp, outcome->rnorm, IDRS_STAGNATION_UPDATE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   What a kernel has done, as if the host had done it: norms, and reliable updates between them. The kernel ends where something
   else is to be decided
*/
static PetscErrorCode KSPIDRSReportWhole_Private(KSP ksp, const IDRSStep *first, const IDRSWholeReport *report)
{
  KSP_IDRS   *idrs   = (KSP_IDRS *)ksp->data;
  PetscInt    update = 0;
  IDRSOutcome passed = {
    .step = {.start = first->start, .unreported = first->unreported}
  };

  PetscFunctionBegin;
  for (PetscInt i = 0; i <= report->count && KSPIDRSGoesOn(ksp); i++) {
    if (update < report->updates && report->update[update].after == i)
      KSPIDRSSetReplacedNorm(&idrs->col->trust, report->update[update++].rnorm / idrs->col->scale);
    if (i == report->count) break;
    passed.rnorm = report->norms[i] / idrs->col->scale;
    PetscCall(KSPIDRSReportOutcome_Private(ksp, &passed));
    passed.step.unreported = PETSC_TRUE;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Runs: "whole", many steps in one kernel */
static PetscErrorCode KSPIDRSRuns_Whole(KSP ksp, const char *why[])
{
  KSP_IDRS    *idrs = (KSP_IDRS *)ksp->data;
  IDRSWorkInfo info;

  PetscFunctionBegin;
  PetscCall(IDRSWorkGetInfo(idrs->col->work, &info));
  *why = NULL;
  if (!info.device) *why = "the vector operations do not run on a GPU";
  else if (idrs->lockstep) *why = idrs->lockstep;
  else if (info.size > 1) *why = "there are several processes";
  else if (idrs->between) *why = idrs->between;
  else PetscCall(IDRSQueueWholeRuns(idrs->col->work, (PetscBool)(idrs->set.run == KSP_IDRS_RUN_AUTO), why));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Steps and reliable updates in one kernel, the norms of their iterations, and the step in which the host continues; those that no
   kernel can begin with, one by one
*/
static PetscErrorCode KSPIDRSRun_Whole(KSP ksp)
{
  const KSP_IDRS    *idrs  = (const KSP_IDRS *)ksp->data;
  const KSPIDRSFront alone = KSPIDRSAlone(ksp);
  IDRSWholeReport    report;
  IDRSOutcome        outcome;

  PetscFunctionBegin;
  do {
    PetscBool updated = PETSC_FALSE;

    if (KSPIDRSCanBeWhole(ksp)) {
      const IDRSStep first = {.start = idrs->col->rec.start, .unreported = idrs->col->rec.unreported};

      if (!KSPIDRSBeginsWhole(&idrs->col->rec)) PetscCall(KSPIDRSDirection_Private(ksp, &alone));
      PetscCall(KSPIDRSWhole_Private(ksp, &report, &outcome));
      PetscCall(KSPIDRSReportWhole_Private(ksp, &first, &report));
      updated = (PetscBool)(outcome.step.k == IDRS_RESIDUAL);
      if (KSPIDRSGoesOn(ksp) && updated) PetscCall(KSPIDRSTakeReplaced_Private(ksp, &outcome, PETSC_TRUE));
      else if (KSPIDRSGoesOn(ksp)) PetscCall(KSPIDRSReportOutcome_Private(ksp, &outcome));
    }
    if (KSPIDRSGoesOn(ksp) && !updated) PetscCall(KSPIDRSStep_Private(ksp));
  } while (KSPIDRSGoesOn(ksp) && idrs->col->rec.residual == KSPIDRS_RECURRED && !KSPIDRSAtUpdate(idrs));
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

/* Whether this is a monitor of PETSc that looks at the norm only */
static PetscBool KSPIDRSMonitorsNorm(PetscErrorCode (*monitor)(KSP, PetscInt, PetscReal, void *))
{
  typedef PetscErrorCode (*Monitor)(KSP, PetscInt, PetscReal, void *);

  return monitor == (Monitor)KSPMonitorResidual || monitor == (Monitor)IDRSMonitorShort ||
             monitor == (Monitor)KSPMonitorResidualDrawLG
         ? PETSC_TRUE
         : PETSC_FALSE;
}

/* KSPIDRSMonitorsNorms - Whether no monitor may ask for the solution */
PetscBool KSPIDRSMonitorsNorms(KSP ksp)
{
  for (PetscInt i = 0; i < ksp->numbermonitors; i++) {
    if (!KSPIDRSMonitorsNorm(ksp->monitor[i])) return PETSC_FALSE;
  }
  return PETSC_TRUE;
}

/*
   KSPIDRSSetRun_Private - Chooses what runs the recurrence in this solve, and how many steps the host launches before it waits for
   a device: none where something may ask for the solution of every iteration, or a matvec takes much longer than the host waits
*/
PetscErrorCode KSPIDRSSetRun_Private(KSP ksp)
{
  KSP_IDRS    *idrs = (KSP_IDRS *)ksp->data;
  PetscBool    streams;
  IDRSWorkInfo info;
  Mat          A;

  PetscFunctionBegin;
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &streams, MATSEQAIJSTREAM, MATMPIAIJSTREAM, ""));
  PetscCall(IDRSWorkGetInfo(idrs->col->work, &info));
  idrs->lagged   = (PetscBool)(info.size > 1 || info.device);
  idrs->lockstep = NULL;
  idrs->depth    = 0;
  if (info.device) {
    if (!KSPIDRSMonitorsNorms(ksp)) idrs->lockstep = "a monitor may ask for the solution";
    if (idrs->d) idrs->lockstep = "residual smoothing";
    if (streams) idrs->lockstep = "a matvec in vain would take a pass over the operator, which is streamed";
    if (ksp->converged != KSPConvergedDefault && ksp->converged != KSPConvergedSkip)
      idrs->lockstep = "a convergence test of the user may ask for the solution";
    if (info.throughhost) idrs->lockstep = info.throughhost;
    if (idrs->lockstep) PetscCall(PetscInfo(ksp, "The host waits for the device in every matvec: %s\n", idrs->lockstep));
    else idrs->depth = info.depth;
  }
  idrs->run       = idrs->active > 1 ? &KSPIDRSRun_Stepwise : NULL;
  idrs->slowerrun = idrs->active > 1 ? "many right-hand sides are solved at the same time" : NULL;
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

/* What holds between two runs, and what the parts of a step rely on */
static PetscErrorCode KSPIDRSAssertState_Private(KSP ksp)
{
  const KSP_IDRS          *idrs     = (const KSP_IDRS *)ksp->data;
  const KSPIDRSRecurrence *rec      = &idrs->col->rec;
  const PetscBool          recurred = (PetscBool)(rec->residual == KSPIDRS_RECURRED), omega = (PetscBool)(rec->k == idrs->set.s);

  PetscFunctionBegin;
  PetscAssert(rec->k >= 0 && rec->k <= idrs->set.s, PETSC_COMM_SELF, PETSC_ERR_PLIB, "Step %" PetscInt_FMT, rec->k);
  PetscAssert(rec->columns == (recurred ? rec->k : 0), PETSC_COMM_SELF, PETSC_ERR_PLIB,
              "%" PetscInt_FMT " columns in step %" PetscInt_FMT, rec->columns, rec->k);
  PetscAssert(!rec->projectedr || (rec->start && omega), PETSC_COMM_SELF, PETSC_ERR_PLIB,
              "r has been projected outside of the omega step that ends the start");
  PetscAssert(!rec->again || omega, PETSC_COMM_SELF, PETSC_ERR_PLIB, "A step other than an omega step is to be done again");
  PetscAssert(rec->stage != KSPIDRS_PROJECTED || !rec->halt || recurred, PETSC_COMM_SELF, PETSC_ERR_PLIB,
              "A failure of an r that has been replaced");
  PetscAssert(!IDRSQueueOnDevice(idrs->col->work) || (recurred && !rec->halt), PETSC_COMM_SELF, PETSC_ERR_PLIB,
              "The scalars are on the device while the host decides");
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSBegin_Private - From the right-hand side and the guess of each column to its first residual, which is reported */
PetscErrorCode KSPIDRSBegin_Private(KSP ksp, const KSPIDRSFront *front)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  Vec            r[IDRS_MAX_WIDTH], anchor[IDRS_MAX_WIDTH];
  PCFailedReason failed;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < front->count; i++) {
    r[i]      = front->column[i]->r;
    anchor[i] = front->column[i]->anchor;
  }
  /* The set-up of a preconditioner may have failed on some of the processes: all learn of it by the first norm */
  PetscCall(PCGetFailedReason(ksp->pc, &failed));
  PetscCall(KSPIDRSTrueResidual_Private(ksp, front, ksp->guess_zero, r, anchor));
  for (PetscInt i = 0; i < front->count; i++) {
    IDRSVecFlag(r[i], failed);
    PetscCall(KSPIDRSSelect_Private(ksp, front->column[i]));
    ksp->reason = KSP_CONVERGED_ITERATING;
    PetscCall(KSPIDRSSmoothBegin_Private(ksp));
  }
  PetscCall(KSPIDRSBeginRecurrence_Private(ksp, front));
  for (PetscInt i = 0; i < front->count; i++) {
    PetscCall(KSPIDRSSelect_Private(ksp, front->column[i]));
    PetscCall(KSPIDRSReport_Private(ksp, 0, idrs->col->trust.rnorm));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Columns for which something is made together */
static void KSPIDRSFrontAdd(KSPIDRSFront *front, KSPIDRSColumn *col)
{
  front->column[front->count++] = col;
}

/*
   What is to be decided first between two runs: the verification of columns whose r meets the tolerance, restarts after failures,
   reliable updates that are due
*/
static PetscErrorCode KSPIDRSDecideResiduals_Private(KSP ksp, const KSPIDRSFront *front)
{
  KSP_IDRS    *idrs       = (KSP_IDRS *)ksp->data;
  KSPIDRSFront unverified = {.count = 0}, due = {.count = 0};

  PetscFunctionBegin;
  for (PetscInt i = 0; i < front->count; i++) {
    KSPIDRSColumn *col = front->column[i];

    PetscCall(KSPIDRSSelect_Private(ksp, col));
    PetscCall(KSPIDRSAssertState_Private(ksp));
    if (col->rec.halt == KSPIDRS_UNVERIFIED) KSPIDRSFrontAdd(&unverified, col);
    else if (col->rec.halt) PetscCall(KSPIDRSRestart_Private(ksp));
    else if (KSPIDRSAtUpdate(idrs)) KSPIDRSFrontAdd(&due, col);
  }
  if (unverified.count) PetscCall(KSPIDRSVerify_Private(ksp, &unverified));
  for (PetscInt i = 0; i < unverified.count; i++) {
    PetscCall(KSPIDRSSelect_Private(ksp, unverified.column[i]));
    PetscCall(KSPIDRSConcludeReport_Private(ksp));
  }
  if (due.count) PetscCall(KSPIDRSReliableUpdate_Private(ksp, &due));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   What is to be decided between two runs, for all columns of the front, which have no reason yet: after it each has one, or its
   recurrence goes on, or something else is to be decided
*/
static PetscErrorCode KSPIDRSDecide_Private(KSP ksp, const KSPIDRSFront *front)
{
  KSPIDRSFront begin = {.count = 0}, replaced = {.count = 0};

  PetscFunctionBegin;
  PetscCall(KSPIDRSDecideResiduals_Private(ksp, front));
  for (PetscInt i = 0; i < front->count; i++) {
    KSPIDRSColumn *col = front->column[i];

    PetscCall(KSPIDRSSelect_Private(ksp, col));
    if (!KSPIDRSGoesOn(ksp) || col->rec.residual == KSPIDRS_RECURRED) continue;
    if (col->rec.start) KSPIDRSFrontAdd(&begin, col);
    else if (col->rec.stage == KSPIDRS_NOTHING) KSPIDRSFrontAdd(&replaced, col); /* else a step is to be finished first */
  }
  if (begin.count) PetscCall(KSPIDRSBeginRecurrence_Private(ksp, &begin));
  if (replaced.count) PetscCall(KSPIDRSProject_Private(ksp, &replaced));
  for (PetscInt i = 0; i < replaced.count; i++) {
    KSPIDRSColumn *col = replaced.column[i];
    IDRSOutcome    outcome;

    PetscCall(KSPIDRSSelect_Private(ksp, col));
    PetscCall(IDRSQueueCollect(col->work, &outcome));
    outcome.rnorm /= col->scale;
    PetscCall(KSPIDRSTakeReplaced_Private(ksp, &outcome, (PetscBool)(col->rec.residual == KSPIDRS_RELIABLE_UPDATE)));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSEnd_Private - From the last iteration of each column to its solution */
PetscErrorCode KSPIDRSEnd_Private(KSP ksp, const KSPIDRSFront *front)
{
  KSP_IDRS       *idrs  = (KSP_IDRS *)ksp->data;
  const IDRSGroup group = KSPIDRSGetGroup(front);
  KSPIDRSFront    known = {.count = 0}, owed = {.count = 0};

  PetscFunctionBegin;
  PetscCall(IDRSQueueEnd(&group));
  for (PetscInt i = 0; i < front->count; i++) {
    PetscCall(KSPIDRSSelect_Private(ksp, front->column[i]));
    /* after a breakdown it is the norm of b - A x */
    if (idrs->col->trust.logged && ksp->res_hist_len > 0) ksp->res_hist[ksp->res_hist_len - 1] = ksp->rnorm;
    /* A recurrence with a NaN has no iterate: the last one that has been tied to its residual is handed back */
    if (ksp->reason == KSP_DIVERGED_NANORINF) continue;
    KSPIDRSFrontAdd(&known, idrs->col);
    if (!idrs->col->rec.added) KSPIDRSFrontAdd(&owed, idrs->col);
  }
  PetscCall(KSPIDRSAddIterate_Private(ksp, &owed));
  for (PetscInt i = 0; i < known.count; i++) {
    PetscCall(KSPIDRSSelect_Private(ksp, known.column[i]));
    PetscCall(KSPIDRSSmoothTake_Private(ksp));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSIterate_Private - One right-hand side, from the first residual to the solution */
PetscErrorCode KSPIDRSIterate_Private(KSP ksp)
{
  const KSP_IDRS    *idrs  = (const KSP_IDRS *)ksp->data;
  const KSPIDRSFront alone = KSPIDRSAlone(ksp);

  PetscFunctionBegin;
  PetscCall(KSPIDRSBegin_Private(ksp, &alone));
  while (!ksp->reason) {
    PetscCall(KSPIDRSDecide_Private(ksp, &alone));
    if (KSPIDRSGoesOn(ksp)) PetscCall((*idrs->run->run)(ksp));
  }
  PetscCall(KSPIDRSEnd_Private(ksp, &alone));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSReachCycle_Private - Brings all columns of the front to the begin of a cycle, but for those whose ksp->reason is set.
   Where a device has stopped in the midst of a cycle, it is ended by this right-hand side alone
*/
PetscErrorCode KSPIDRSReachCycle_Private(KSP ksp, const KSPIDRSFront *front)
{
  KSPIDRSFront left = *front;

  PetscFunctionBegin;
  while (left.count) {
    const KSPIDRSFront before = left;

    left.count = 0;
    PetscCall(KSPIDRSDecide_Private(ksp, &before));
    for (PetscInt i = 0; i < before.count; i++) {
      KSPIDRSColumn           *col = before.column[i];
      const KSPIDRSRecurrence *rec = &col->rec;

      PetscCall(KSPIDRSSelect_Private(ksp, col));
      if (KSPIDRSGoesOn(ksp)) {
        if (rec->k == 0 && rec->stage != KSPIDRS_PROJECTED && rec->residual == KSPIDRS_RECURRED) continue;
        PetscCall(KSPIDRSStep_Private(ksp));
      }
      if (!ksp->reason) KSPIDRSFrontAdd(&left, col);
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSCycle_Private - One cycle of several right-hand sides; one about which something is to be decided leaves the front, and
   the others go on
*/
PetscErrorCode KSPIDRSCycle_Private(KSP ksp, KSPIDRSFront *front)
{
  PetscFunctionBegin;
  do {
    PetscInt left = 0;

    PetscCall(KSPIDRSStepTogether_Private(ksp, front));
    for (PetscInt i = 0; i < front->count; i++) {
      KSPIDRSColumn           *col = front->column[i];
      const KSPIDRSRecurrence *rec = &col->rec;

      PetscCall(KSPIDRSSelect_Private(ksp, col));
      if (KSPIDRSGoesOn(ksp) && rec->residual == KSPIDRS_RECURRED && rec->k > 0 && rec->stage != KSPIDRS_PROJECTED)
        front->column[left++] = col;
    }
    front->count = left;
  } while (front->count);
  PetscFunctionReturn(PETSC_SUCCESS);
}
