/*
   The queue: from the launch of a projection to what follows from its sums. Devices have queues of their own. The queue of the host is here: the one
   reduction over processes, and the algebra of idrsscalars.h.

   With bounds:     launch -> sums -> reduction -> algebra, on the device -> ||r|| and whether it has stopped -> collect
   Without bounds:  launch -> sums of this process;   collect -> reduction;   continue -> algebra, on the host
*/
#include <petsc/private/vecimpl.h>
#include <petsc/private/matimpl.h>
#include <petscidrs/private/idrsworkimpl.h>
#include <petscidrs/private/idrscompat.h>

PetscInt IDRSQueueInFlight(IDRSWork work)
{
  return work->inflight;
}

/* Whether the scalars are on the device */
PetscBool IDRSQueueOnDevice(IDRSWork work)
{
  return work->ondevice;
}

/* The queue of the host runs everywhere */
static PetscErrorCode IDRSQueueRuns_Host(IDRSWork work, PetscBool automatic, const char *why[])
{
  PetscFunctionBegin;
  *why = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSQueueNoHalo - For queues that do no more for the product than its scatter does */
PetscErrorCode IDRSQueueNoHalo(IDRSWork work, PetscBool *halo)
{
  PetscFunctionBegin;
  *halo = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The scalars are where the algebra is done, so begin and end have nothing to move */
static PetscErrorCode IDRSQueueStay_Host(IDRSWork work)
{
  PetscFunctionBegin;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSQueueLaunch_Host(IDRSWork work, const IDRSStep *step, Vec x, Vec y, const IDRSBounds *bounds)
{
  PetscFunctionBegin;
  work->scalars.sums[IDRS_SUM_RR(work->s)] = work->rr;
  PetscCall((*work->passes->project)(work, step, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSQueueCollect_Host(IDRSWork work, const IDRSStep *step, PetscReal *rnorm, PetscBool *stopped)
{
  PetscFunctionBegin;
  if (!work->passes->composed) PetscCall(IDRSReduce(work, IDRS_SUMS(work->s, IDRSStepHasY(&work->scalars, step)), work->scalars.sums));
  *rnorm   = 0.0;
  *stopped = PETSC_TRUE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

const IDRSQueueOps IDRSQueue_Host = {
  .name    = "host",
  .depth   = 0,
  .runs    = IDRSQueueRuns_Host,
  .halo    = IDRSQueueNoHalo,
  .begin   = IDRSQueueStay_Host,
  .launch  = IDRSQueueLaunch_Host,
  .collect = IDRSQueueCollect_Host,
  .end     = IDRSQueueStay_Host,
};

/* IDRSQueueLaunch - Launches the projection of a step. With bounds a device also does the algebra */
PetscErrorCode IDRSQueueLaunch(IDRSWork work, const IDRSStep *step, const IDRSBounds *bounds)
{
  const IDRSQueueOps *queue = bounds ? work->queue : &IDRSQueue_Host;
  const PetscInt      s     = work->s;
  Vec                 x, y;

  PetscFunctionBegin;
  PetscCheck(work->inflight < IDRS_MAX_IN_FLIGHT, work->comm, PETSC_ERR_PLIB, "No room for the result of another projection");
  PetscCheck(bounds || !work->ondevice, work->comm, PETSC_ERR_ORDER, "A projection needs bounds while the scalars are on the device");
  PetscCheck(!step->matvec || work->product, work->comm, PETSC_ERR_ORDER, "No product has been given to compute A u");
  if (queue != &IDRSQueue_Host && !work->ondevice) {
    PetscCall((*queue->begin)(work));
    work->ondevice = PETSC_TRUE;
  }
  IDRSStepVecs(work, step, &x, &y);
  PetscCall(IDRSPassBegin(work, IDRS_PROJECT));
  PetscCall((*queue->launch)(work, step, x, y, bounds));
  PetscCall(IDRSPassEnd(work, IDRS_PROJECT, (step->matvec ? 0 : 1) + (y ? 1 : 0), y ? 4 * s + 6 : 2 * s + 2));
  work->reductions++;
  work->steps[(work->oldest + work->inflight++) % IDRS_MAX_IN_FLIGHT] = *step;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The outcome of a step whose sums are on the host */
static void IDRSQueueContinues(IDRSWork work, IDRSOutcome *outcome)
{
  const IDRSScalars *scalars = &work->scalars;

  outcome->verdict = IDRSScalarsAreFinite(scalars, IDRSStepHasY(scalars, &outcome->step), outcome->step.unreported) ? IDRS_CONTINUE : IDRS_NOT_FINITE;
  outcome->rnorm   = PetscSqrtReal(PetscRealPart(scalars->sums[IDRSStepNormSum(scalars, &outcome->step)]));
}

/*
   IDRSQueueCollect - Waits for the oldest projection in flight. Where a device has stopped there, or the host has the queue, the scalars and the sums
   are on the host now, and nothing is in flight any more
*/
PetscErrorCode IDRSQueueCollect(IDRSWork work, IDRSOutcome *outcome)
{
  const IDRSQueueOps *queue = work->ondevice ? work->queue : &IDRSQueue_Host;
  PetscBool           stopped;

  PetscFunctionBegin;
  PetscCheck(work->inflight > 0, work->comm, PETSC_ERR_ORDER, "No projection is in flight");
  outcome->step    = work->steps[work->oldest];
  outcome->stopped = work->ondevice;
  outcome->verdict = IDRS_GOES_ON;
  PetscCall((*queue->collect)(work, &outcome->step, &outcome->rnorm, &stopped));
  work->oldest = (work->oldest + 1) % IDRS_MAX_IN_FLIGHT;
  work->inflight--;
  if (!stopped) {
    outcome->stopped = PETSC_FALSE;
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(IDRSQueueEnd(work));
  IDRSQueueContinues(work, outcome);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSQueueWholeRuns - Sets the string to NULL, or to the reason why the device cannot make many steps at once */
PetscErrorCode IDRSQueueWholeRuns(IDRSWork work, const char *why[])
{
  PetscFunctionBegin;
  *why = NULL;
  if (!work->queue->whole) *why = "the scalars are not on one GPU";
  else if (!work->product) *why = "MatMult() computes the matvecs";
  else PetscCall((*work->queue->wholeruns)(work, work->product, why));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSQueueWhole - Makes steps on the device, from this one, whose direction is there, until the host is to continue

   Input Parameters:
+  work   - the work, whose scalars are on the host
.  step   - the first step
-  limits - until when the device may go on

   Output Parameters:
+  completed - steps that the device has completed
.  norms     - norm of r at the begin of each of them, until the next call
-  outcome   - the step in which the host continues
*/
PetscErrorCode IDRSQueueWhole(IDRSWork work, const IDRSStep *step, const IDRSLimits *limits, PetscInt *completed, const PetscReal *norms[], IDRSOutcome *outcome)
{
  PetscFunctionBegin;
  PetscCheck(!work->ondevice && work->queue->whole && work->product, work->comm, PETSC_ERR_ORDER, "The device cannot make many steps at once here");
  outcome->step    = *step;
  outcome->stopped = PETSC_TRUE;
  PetscCall(IDRSPassBegin(work, IDRS_WHOLE));
  PetscCall((*work->queue->whole)(work, limits, &outcome->step, completed, norms));
  PetscCall(IDRSPassEnd(work, IDRS_WHOLE, 0, 0));
  for (PetscInt i = 0; i <= *completed; i++) { /* so that the log counts them */
    PetscCall(PetscLogEventBegin(MAT_Mult, work->product->A, 0, 0, 0));
    PetscCall(PetscLogEventEnd(MAT_Mult, work->product->A, 0, 0, 0));
  }
  work->product->matvecs += *completed + 1;
  work->reductions += (PetscLogDouble)*completed + 1;
  PetscCall(PetscLogGpuFlops(work->product->flops * ((PetscLogDouble)*completed + 1)));
  IDRSQueueContinues(work, outcome);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSQueueContinue - Does the algebra of a step on the host, or f = P^H r for IDRS_RESIDUAL; *rr is ||r||^2 after an omega step, or a step of the start */
PetscErrorCode IDRSQueueContinue(IDRSWork work, const IDRSStep *step, PetscReal cosine, PetscReal *rr, IDRSVerdict *verdict)
{
  PetscFunctionBegin;
  *rr      = 0.0;
  *verdict = IDRS_GOES_ON;
  if (step->k == IDRS_RESIDUAL) PetscCall(PetscArraycpy(work->scalars.f, work->scalars.sums + IDRS_SUM_PX(work->s), work->s));
  else if (!IDRSScalarsContinue(&work->scalars, step->k, step->start, cosine, rr)) *verdict = step->k < work->s ? IDRS_PIVOT : IDRS_NO_OMEGA;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSQueueEnd - Returns the scalars to the host; the results of projections in flight are dropped */
PetscErrorCode IDRSQueueEnd(IDRSWork work)
{
  PetscFunctionBegin;
  if (work->ondevice) PetscCall((*work->queue->end)(work));
  work->ondevice = PETSC_FALSE;
  work->inflight = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSReduce - Sums over all processes, in place. The array has room for the deferred dots behind them */
PetscErrorCode IDRSReduce(IDRSWork work, PetscInt count, PetscScalar sums[])
{
  PetscMPIInt length;

  PetscFunctionBegin;
  PetscCall(PetscMPIIntCast(count + (work->deferred ? IDRS_DOTS : 0), &length));
  if (work->deferred) PetscCall(PetscArraycpy(sums + count, work->dots, IDRS_DOTS));
  PetscCall(PetscLogEventBegin(IDRS_Reduce, 0, 0, 0, 0));
  IDRSCallAllreduce(MPI_IN_PLACE, sums, length, MPIU_SCALAR, MPIU_SUM, work->comm);
  PetscCall(PetscLogEventEnd(IDRS_Reduce, 0, 0, 0, 0));
  if (work->deferred) PetscCall(PetscArraycpy(work->dots, sums + count, IDRS_DOTS));
  work->deferred = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSDeferDots - Inner products of x and y, which nothing needs before the next reduction: IDRSGetDots() */
PetscErrorCode IDRSDeferDots(IDRSWork work, Vec x, Vec y)
{
  Vec          both[2] = {x, y};
  PetscScalar *dots    = work->dots;

  PetscFunctionBegin;
  if (work->passes->composed || work->size == 1) {
    PetscCall(VecMDot(y, 2, both, dots + IDRS_DOT_XY));
    PetscCall(VecDot(x, x, dots + IDRS_DOT_XX));
    if (work->size > 1) work->reductions += 2;
  } else {
    PetscUseTypeMethod(x, dot_local, x, dots + IDRS_DOT_XX);
    PetscUseTypeMethod(y, dot_local, x, dots + IDRS_DOT_XY);
    PetscUseTypeMethod(y, dot_local, y, dots + IDRS_DOT_YY);
    work->deferred = PETSC_TRUE;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSGetDots(IDRSWork work, const PetscScalar *dots[])
{
  PetscFunctionBegin;
  PetscCheck(!work->deferred, work->comm, PETSC_ERR_ORDER, "The deferred inner products have not been reduced");
  *dots = work->dots;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSNorm - ||r|| by itself, after an update or advance: where it cannot wait for the next projection */
PetscErrorCode IDRSNorm(IDRSWork work, PetscReal *norm)
{
  PetscFunctionBegin;
  if (work->passes->composed || (work->passes->device && work->size == 1)) PetscCall(VecNorm(work->r, NORM_2, norm));
  else {
    PetscScalar rr[1 + IDRS_DOTS] = {work->rr};

    if (work->passes->device) {
      PetscReal local;

      PetscUseTypeMethod(work->r, norm_local, NORM_2, &local);
      rr[0] = PetscSqr(local);
    }
    if (work->size > 1) PetscCall(IDRSReduce(work, 1, rr));
    *norm = PetscSqrtReal(PetscRealPart(rr[0]));
  }
  if (work->size > 1) work->reductions++;
  PetscFunctionReturn(PETSC_SUCCESS);
}
