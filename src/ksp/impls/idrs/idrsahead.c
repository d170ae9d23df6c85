/*
   The host ahead of the device: where the scalars of the recurrence live on a GPU, the host launches step after step without
   waiting for what comes of them. It reads the norms IDRS_AHEAD products later, always the same number of them, and reports
   them then; the solution of that iteration is not at hand any more.

   The device compares the norms with the tolerances itself, and stops where the host is to decide: at a norm that meets one
   of them, a number that is none, a breakdown. Whatever has been launched beyond that point does nothing, except for products and
   preconditioners, whose results are not used: columns of G become A U once more, those not yet in use too, and t is lost. The host goes back to that
   point, ends that step as without a device, and runs ahead again.
*/
#include "idrsimpl.h"

/* Is this a monitor of PETSc's that looks at the norm only? */
static PetscBool KSPIDRSMonitorsNorm_Private(PetscErrorCode (*monitor)(KSP, PetscInt, PetscReal, void *))
{
  typedef PetscErrorCode (*Monitor)(KSP, PetscInt, PetscReal, void *);

  return monitor == (Monitor)KSPMonitorResidual || monitor == (Monitor)KSPMonitorResidualDrawLG ? PETSC_TRUE : PETSC_FALSE;
}

/* May the host run ahead in this solve? Not where something may ask for the solution of every iteration. In lockstep reductions are MPI's */
PetscErrorCode KSPIDRSSetAhead_Private(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  IDRSWork  work = idrs->work;

  PetscFunctionBegin;
  PetscCall(IDRSFetch(work)); /* a solve that ended with an error has left them there */
  idrs->lockstep = NULL;
  idrs->ahead    = PETSC_FALSE;
  if (!work->backend->send) PetscFunctionReturn(PETSC_SUCCESS);
  for (PetscInt i = 0; i < ksp->numbermonitors; i++) {
    if (!KSPIDRSMonitorsNorm_Private(ksp->monitor[i])) idrs->lockstep = "a monitor may ask for the solution";
  }
  if (idrs->d) idrs->lockstep = "residual smoothing";
  if (ksp->converged != KSPConvergedDefault && ksp->converged != KSPConvergedSkip) idrs->lockstep = "a convergence test of the user's may ask for the solution";
  if (work->throughhost) idrs->lockstep = work->throughhost;
  idrs->ahead = idrs->lockstep ? PETSC_FALSE : PETSC_TRUE;
  if (idrs->lockstep) PetscCall(PetscInfo(ksp, "The host waits for the device in every product%s: %s\n", KSPIDRSLockstepSums(idrs), idrs->lockstep));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The first result that is outstanding: a report, or the way back to where the device has stopped. An omega step is done again then, if need be, as t is lost */
static PetscErrorCode KSPIDRSCollect_Private(KSP ksp, PetscBool *stopped)
{
  KSP_IDRS          *idrs  = (KSP_IDRS *)ksp->data;
  const KSPIDRSPlace place = idrs->places[idrs->oldest];
  PetscReal          rnorm;

  PetscFunctionBegin;
  idrs->oldest = (idrs->oldest + 1) % (IDRS_AHEAD + 1);
  PetscCall(IDRSCollect(idrs->work, &rnorm, stopped));
  if (*stopped) {
    PetscCall(IDRSFetch(idrs->work));
    idrs->k          = place.k;
    idrs->columns    = place.k;
    idrs->start      = place.start;
    idrs->pending    = place.pending;
    idrs->its        = ksp->its + (place.pending ? 1 : 0);
    idrs->prepared   = IDRS_COMBINE_NONE;
    idrs->projected  = (PetscBool)(place.k < idrs->s);
    idrs->projectedr = (PetscBool)(place.start && place.k == idrs->s);
    if (!idrs->projected) PetscCall(KSPIDRSReportSums_Private(ksp));
  } else if (place.pending) PetscCall(KSPIDRSReport_Private(ksp, ksp->its + 1, rnorm));
  else KSPIDRSSetStartNorm(idrs, rnorm);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSProjectAhead_Private - Launches the projection of this step, and collects what is due. Norms at which the convergence
   test may end the solve, or the recurrence has gone astray, are left to the host.
*/
PetscErrorCode KSPIDRSProjectAhead_Private(KSP ksp, Vec x, Vec y)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  IDRSWork  work = idrs->work;
  PetscBool stopped;
  IDRSNext  next = {.k = idrs->k, .start = idrs->start, .pending = idrs->pending, .low = -1.0, .high = KSPIDRSFarthest(idrs, idrs->anchornorm), .cosine = idrs->cosine};

  PetscFunctionBegin;
  if (!work->ahead) PetscCall(IDRSSend(work));
  if (ksp->normtype != KSP_NORM_NONE && ksp->converged == KSPConvergedDefault && idrs->its > ksp->chknorm && idrs->its >= IDRSMinimumIterations(ksp)) {
    next.low  = ksp->ttol;
    next.high = PetscMin(next.high, ksp->divtol * ksp->rnorm0);
  }
  idrs->places[(idrs->oldest + work->outstanding) % (IDRS_AHEAD + 1)] = (KSPIDRSPlace){.k = idrs->k, .start = idrs->start, .pending = idrs->pending};
  PetscCall(IDRSProject(work, x, y, idrs->r, &next));
  while (!ksp->reason && work->ahead && work->outstanding > IDRS_AHEAD) PetscCall(KSPIDRSCollect_Private(ksp, &stopped));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSCatchUp_Private - Collects all results, and takes the numbers back to the host; the recurrence is where the device
   had stopped, if it had
*/
PetscErrorCode KSPIDRSCatchUp_Private(KSP ksp, PetscBool *stopped)
{
  IDRSWork work = ((KSP_IDRS *)ksp->data)->work;

  PetscFunctionBegin;
  *stopped = PETSC_FALSE;
  while (!ksp->reason && work->ahead && work->outstanding) PetscCall(KSPIDRSCollect_Private(ksp, stopped));
  PetscCall(IDRSFetch(work));
  PetscFunctionReturn(PETSC_SUCCESS);
}
