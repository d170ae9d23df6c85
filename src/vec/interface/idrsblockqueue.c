/*
   The queue of block IDR(s) as the solver calls it: from the launch of a projection to what follows from its sums on a device. What
   it computes is stated in idrsops.h and idrsblockscalars.h
*/
#include <petscidrs/private/idrsworkimpl.h>
#include <petscidrs/private/idrscompat.h>

/* IDRSBlockQueueRuns - Whether a device can do the algebra of a block recurrence */
PetscBool IDRSBlockQueueRuns(IDRSWork work)
{
  return (PetscBool)(work->passes->blockqueue && work->size == 1);
}

/* IDRSBlockQueueBegin - Gives the numbers of a recurrence to the device, with the largest norm since the last reliable update */
PetscErrorCode IDRSBlockQueueBegin(IDRSWork work, const IDRSBlockScalars *scalars, PetscReal peak)
{
  PetscFunctionBegin;
  PetscCall((*work->passes->blockqueue->begin)(work, scalars, peak));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSBlockQueueLaunch - The projection of a step, and what follows from its sums, but for the combines */
PetscErrorCode IDRSBlockQueueLaunch(IDRSWork work, const IDRSBlockStep *step)
{
  PetscInt nsums;

  PetscFunctionBegin;
  PetscCall(IDRSBlockProjectBegin(work, step->tasks, step->dots, &nsums));
  PetscCall((*work->passes->blockqueue->launch)(work, step));
  PetscCall(IDRSPassEnd(work, IDRS_PROJECT));
  work->reductions++;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSBlockQueueCombine - One of the combines of the last step that has been launched */
PetscErrorCode IDRSBlockQueueCombine(IDRSWork work, const IDRSBlockStep *step, IDRSBlockCombines which)
{
  PetscFunctionBegin;
  PetscCall(IDRSBlockCombineBegin(work, step->count[which], step->sums[which]));
  PetscCall((*work->passes->blockqueue->combine)(work, step, which));
  PetscCall(IDRSPassEnd(work, IDRS_COMBINE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSBlockQueueCollect - Waits for the oldest one of so many steps in flight */
PetscErrorCode IDRSBlockQueueCollect(IDRSWork work, PetscInt inflight, IDRSBlockNorms *norms)
{
  PetscFunctionBegin;
  PetscCall((*work->passes->blockqueue->collect)(work, inflight, norms));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSBlockQueueEnd - After the device has stopped: the numbers, and so many sums of the step in which it has done so, come to the
   host
*/
PetscErrorCode IDRSBlockQueueEnd(IDRSWork work, const IDRSBlockScalars *scalars, PetscInt count, PetscScalar sums[])
{
  PetscFunctionBegin;
  PetscCall((*work->passes->blockqueue->end)(work, scalars, count, sums));
  PetscFunctionReturn(PETSC_SUCCESS);
}
