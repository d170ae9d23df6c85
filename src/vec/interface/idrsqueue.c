/*
   The queue: the launch of a projection, the reduction, and the algebra. Devices have their own queues. This file has the queue of
   the host: one reduction over processes, and the algebra of idrsscalars.h.

   With bounds:    launch -> sums -> reduction -> algebra, on the device -> ||r|| and whether it has stopped -> collect
   Without bounds: launch -> sums -> reduction; collect; continue -> algebra, on the host
*/
#include <petsc/private/vecimpl.h>
#include <petsc/private/matimpl.h>
#include <petscidrs/private/idrsops.h>
#include <petscidrs/private/idrscompat.h>

static PetscErrorCode IDRSQueueLaunch_Host(const IDRSGroup *group, const IDRSStep steps[])
{
  uint32_t        taken = 0;
  IDRSGroup       same;
  const IDRSStep *step;

  PetscFunctionBegin;
  while (IDRSGroupNext(group, steps, PETSC_TRUE, &taken, &same, &step)) PetscCall((*same.work[0]->passes->project)(&same, step));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the sums of all works in one reduction */
static PetscErrorCode IDRSQueueReduce_Host(const IDRSGroup *group, const IDRSStep steps[])
{
  IDRSWorkspace first = group->work[0];
  PetscInt      place[IDRS_MAX_WIDTH + 1];
  PetscScalar  *all;

  PetscFunctionBegin;
  if (group->count == 1) {
    const PetscInt count = IDRS_SUMS(first->s, IDRSStepHasY(steps, first->s));
    PetscScalar   *sums  = first->scalars.sums;

    /* x^H x, x^H y, y^H y of IDRSDeferDots() are part of this reduction. There is room for them after the sums */
    if (first->deferred) PetscCall(PetscArraycpy(sums + count, first->dots, IDRS_DOTS));
    PetscCall(IDRSSum(first->comm, count + (first->deferred ? IDRS_DOTS : 0), sums));
    if (first->deferred) PetscCall(PetscArraycpy(first->dots, sums + count, IDRS_DOTS));
    first->deferred = PETSC_FALSE;
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (first->size == 1) PetscFunctionReturn(PETSC_SUCCESS);
  /* concatenates the sums of all works */
  place[0] = 0;
  for (PetscInt i = 0; i < group->count; i++) {
    PetscCheck(!group->work[i]->deferred, first->comm, PETSC_ERR_PLIB, "Deferred inner products support only one right-hand side");
    place[i + 1] = place[i] + IDRS_SUMS(first->s, IDRSStepHasY(&steps[i], first->s));
  }
  PetscCall(PetscMalloc1(place[group->count], &all));
  for (PetscInt i = 0; i < group->count; i++)
    PetscCall(PetscArraycpy(all + place[i], group->work[i]->scalars.sums, place[i + 1] - place[i]));
  PetscCall(IDRSSum(first->comm, place[group->count], all));
  for (PetscInt i = 0; i < group->count; i++)
    PetscCall(PetscArraycpy(group->work[i]->scalars.sums, all + place[i], place[i + 1] - place[i]));
  PetscCall(PetscFree(all));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Prepares works for projections: the scalars are copied to the memory of the queue, unless it is NULL */
static PetscErrorCode IDRSQueuePrepare_Private(const IDRSGroup *group, const IDRSStep steps[], const IDRSQueueOps *queue)
{
  IDRSGroup begin = {.count = 0};

  PetscFunctionBegin;
  for (PetscInt i = 0; i < group->count; i++) {
    IDRSWorkspace work = group->work[i];

    PetscCheck(work->inflight < IDRS_MAX_IN_FLIGHT, work->comm, PETSC_ERR_PLIB, "Too many projections in flight");
    PetscCheck(queue || !work->ondevice, work->comm, PETSC_ERR_ORDER,
               "A projection needs bounds while the scalars are on the device");
    PetscCheck(!steps[i].matvec || work->product, work->comm, PETSC_ERR_ORDER, "The work has no product");
    if (queue && !work->ondevice) begin.work[begin.count++] = work;
  }
  if (begin.count) PetscCall((*queue->begin)(&begin));
  for (PetscInt i = 0; i < begin.count; i++) begin.work[i]->ondevice = PETSC_TRUE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSQueueLaunch - Launches the projections of a group, one for each work. With bounds, one for each work, a device also does the
   algebra
*/
PetscErrorCode IDRSQueueLaunch(const IDRSGroup *group, const IDRSStep steps[], const IDRSBounds bounds[])
{
  IDRSWorkspace       first = group->work[0];
  const IDRSQueueOps *queue = bounds ? first->queue : NULL;

  PetscFunctionBegin;
  PetscCall(IDRSQueuePrepare_Private(group, steps, queue));
  PetscCall(IDRSPassBegin(first, IDRS_PROJECT));
  for (PetscInt i = 0; i < group->count; i++) {
    const PetscBool y = IDRSStepHasY(&steps[i], first->s);

    PetscCall(IDRSPassCount(group->work[i], IDRS_PROJECT, (steps[i].matvec ? 0 : 1) + (y ? 1 : 0),
                            y ? 4 * first->s + 6 : 2 * first->s + 2));
  }
  if (queue) PetscCall((*queue->launch)(group, steps, bounds));
  else PetscCall(IDRSQueueLaunch_Host(group, steps));
  for (PetscInt i = 0; i < group->count; i++) {
    IDRSWorkspace work = group->work[i];

    /* results come in the order of the launches */
    work->steps[(work->oldest + work->inflight++) % IDRS_MAX_IN_FLIGHT] = steps[i];
  }
  PetscCall(IDRSPassEnd(first, IDRS_PROJECT));
  if (!queue) PetscCall(IDRSQueueReduce_Host(group, steps));
  first->reductions++;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the outcome of a step whose sums are on the host */
static void IDRSQueueSetOutcome(IDRSWorkspace work, IDRSOutcome *outcome)
{
  const IDRSScalars *scalars = &work->scalars;

  outcome->verdict = IDRSScalarsAreFinite(scalars, IDRSStepHasY(&outcome->step, scalars->s), outcome->step.unreported)
                     ? IDRS_UNDECIDED
                     : IDRS_NOT_FINITE;
  outcome->rnorm   = PetscSqrtReal(PetscRealPart(scalars->sums[IDRSStepNormSum(scalars, &outcome->step)]));
}

/*
   IDRSQueueCollect - Waits for the oldest projection in flight. If the device has stopped in it, or if the queue is on the host,
   the scalars and the sums are now on the host, and no projection is in flight
*/
PetscErrorCode IDRSQueueCollect(IDRSWorkspace work, IDRSOutcome *outcome)
{
  PetscBool stopped = PETSC_TRUE;

  PetscFunctionBegin;
  PetscCheck(work->inflight > 0, work->comm, PETSC_ERR_ORDER, "No projection is in flight");
  outcome->step    = work->steps[work->oldest];
  outcome->stopped = work->ondevice;
  outcome->verdict = IDRS_CONTINUES;
  if (work->ondevice) PetscCall((*work->queue->collect)(work, &outcome->step, &outcome->rnorm, &stopped));
  /* the oldest result has been collected */
  work->oldest = (work->oldest + 1) % IDRS_MAX_IN_FLIGHT;
  work->inflight--;
  if (!stopped) {
    outcome->stopped = PETSC_FALSE;
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(IDRSQueueEnd(IDRSGroupOfOne(work)));
  IDRSQueueSetOutcome(work, outcome);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSQueuePersistentRuns - Sets the string to NULL, or to the reason why the device cannot run many steps at once, or should not
   if the choice is automatic
*/
PetscErrorCode IDRSQueuePersistentRuns(IDRSWorkspace work, PetscBool automatic, const char *why[])
{
  PetscFunctionBegin;
  *why = NULL;
  if (!work->queue || !work->queue->persistent) *why = "the scalars are not on one GPU";
  else if (!work->product) *why = "MatMult() computes the matvecs";
  else PetscCall((*work->queue->persistent->runs)(work, automatic, why));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSQueuePersistentFits - Returns how many of `asked` solves with workspaces like this one can run concurrently on the device, if
   IDRSQueuePersistent() runs their steps and IDRSQueuePersistentRuns() has found no reason against it
*/
PetscErrorCode IDRSQueuePersistentFits(IDRSWorkspace work, PetscInt asked, PetscInt *solves)
{
  PetscFunctionBegin;
  PetscCall((*work->queue->persistent->fits)(work, asked, solves));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSQueuePersistent - Runs steps on the device for each task, from its first step, whose direction has been computed, until the
   host must continue, and reliable updates x += z, r = anchor - A z, anchor = r, z = 0. All tasks run concurrently

   Input Parameters:
+  first - the work that IDRSQueuePersistentFits() was called with; for one solve its work
.  asked - number of concurrent solves, at most as many as fit
.  count - the number of tasks, at most `asked`
-  tasks - the tasks; an x that is not in the memory of the device becomes NULL, and the device stops before an update
*/
PetscErrorCode IDRSQueuePersistent(IDRSWorkspace first, PetscInt asked, PetscInt count, IDRSPersistentTask tasks[])
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) {
    IDRSPersistentTask *task = &tasks[i];
    IDRSMemory          place;

    PetscCheck(!task->work->ondevice && task->work->queue && task->work->queue->persistent && task->work->product, task->work->comm,
               PETSC_ERR_ORDER, "The device does not support many steps in one kernel here");
    task->outcome.stopped = PETSC_TRUE;
    if (!task->x) continue;
    PetscCall(IDRSVecWhere(task->x, &place));
    if (place == IDRS_MEMORY_HOST) task->x = NULL;
  }
  PetscCall(IDRSPassBegin(first, IDRS_PERSISTENT));
  PetscCall((*first->queue->persistent->run)(first, asked, count, tasks));
  PetscCall(IDRSPassEnd(first, IDRS_PERSISTENT));
  for (PetscInt i = 0; i < count; i++) {
    IDRSWorkspace  work    = tasks[i].work;
    const PetscInt matvecs = tasks[i].report.matvecs;

    PetscCall(IDRSLogCalls(MAT_Mult, matvecs)); /* their time is part of event IDRSPersistent */
    work->product->matvecs += matvecs;
    work->reductions += (PetscLogDouble)matvecs;
    PetscCall(PetscLogGpuFlops(work->product->flops * (PetscLogDouble)matvecs));
    IDRSQueueSetOutcome(work, &tasks[i].outcome);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSQueueContinue - Does the algebra of a step on the host, or f = P^H r for IDRS_RESIDUAL; *rr is ||r||^2 after an omega step,
   or a step of the start
*/
PetscErrorCode IDRSQueueContinue(IDRSWorkspace work, const IDRSStep *step, PetscReal cosine, PetscReal *rr, IDRSVerdict *verdict)
{
  PetscFunctionBegin;
  *rr      = 0.0;
  *verdict = IDRS_CONTINUES;
  /* f = P^H r */
  if (step->k == IDRS_RESIDUAL) IDRSScalarsSetResidual(&work->scalars);
  /* alpha, M_k, beta_k, f, c; or omega */
  else *verdict = IDRSScalarsContinue(&work->scalars, step->k, step->start, cosine, rr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSQueueEnd - Copies the scalars of the works to the host; the results of projections in flight are discarded */
PetscErrorCode IDRSQueueEnd(const IDRSGroup *group)
{
  IDRSGroup there = {.count = 0};

  PetscFunctionBegin;
  for (PetscInt i = 0; i < group->count; i++) {
    if (group->work[i]->ondevice) there.work[there.count++] = group->work[i];
  }
  if (there.count) PetscCall((*there.work[0]->queue->end)(&there));
  for (PetscInt i = 0; i < group->count; i++) {
    group->work[i]->ondevice = PETSC_FALSE;
    group->work[i]->inflight = 0;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSDeferDots - Computes inner products of x and y over the rows of this process, which the next reduction adds: IDRSGetDots() */
PetscErrorCode IDRSDeferDots(IDRSWorkspace work, Vec x, Vec y)
{
  PetscFunctionBegin;
  PetscCall(IDRSVecMDotLocal(x, 1, &x, work->dots + IDRS_DOT_XX));
  PetscCall(IDRSVecMDotLocal(y, 2, (Vec[]){x, y}, work->dots + IDRS_DOT_XY)); /* x^H y, y^H y */
  work->deferred = (PetscBool)(work->size > 1);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the inner products, which it reduces if no reduction has followed IDRSDeferDots() */
PetscErrorCode IDRSGetDots(IDRSWorkspace work, const PetscScalar *dots[])
{
  PetscFunctionBegin;
  if (work->deferred) {
    PetscCall(IDRSSum(work->comm, IDRS_DOTS, work->dots));
    work->deferred = PETSC_FALSE;
    work->reductions++;
  }
  *dots = work->dots;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSNorm - Computes ||r|| of each work after an update or advance, if the solver cannot wait for the next projection */
PetscErrorCode IDRSNorm(const IDRSGroup *group, PetscReal norms[])
{
  const IDRSWorkspace first = group->work[0];
  Vec                 r[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < group->count; i++) r[i] = group->work[i]->r;
  PetscCall(IDRSNorms(group, r, norms));
  if (first->size > 1) first->reductions++;
  PetscFunctionReturn(PETSC_SUCCESS);
}
