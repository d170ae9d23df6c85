/*
   The queue of block IDR(s) as the solver calls it: the launch of a projection, the algebra and the combines on a device. idrsops.h
   and idrsblockscalars.h state what it computes
*/
#include <petscidrs/private/idrsworkimpl.h>
#include <petscidrs/private/idrscompat.h>

/* IDRSBlockQueueRuns - Returns PETSC_TRUE if a device can do the algebra of a block recurrence */
PetscBool IDRSBlockQueueRuns(IDRSWork work)
{
  return (PetscBool)(work->passes->blockqueue && work->size == 1);
}

/* IDRSBlockQueueBegin - Copies the numbers of a recurrence to the device, with the largest norm since the last reliable update */
PetscErrorCode IDRSBlockQueueBegin(IDRSWork work, const IDRSBlockScalars *scalars, PetscReal peak)
{
  PetscFunctionBegin;
  PetscCall((*work->passes->blockqueue->begin)(work, scalars, peak));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSBlockQueueLaunch - Launches the projection of a step and its algebra, without the combines */
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

/* IDRSBlockQueueCombine - Launches one of the combines of the last step that was launched */
PetscErrorCode IDRSBlockQueueCombine(IDRSWork work, const IDRSBlockStep *step, IDRSBlockCombines which)
{
  PetscFunctionBegin;
  PetscCall(IDRSBlockCombineBegin(work, step->count[which], step->sums[which]));
  PetscCall((*work->passes->blockqueue->combine)(work, step, which));
  PetscCall(IDRSPassEnd(work, IDRS_COMBINE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSBlockQueueCollect - Waits for the oldest of `inflight` steps */
PetscErrorCode IDRSBlockQueueCollect(IDRSWork work, PetscInt inflight, IDRSBlockNorms *norms)
{
  PetscFunctionBegin;
  PetscCall((*work->passes->blockqueue->collect)(work, inflight, norms));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSBlockQueueEnd - Copies the numbers to the host after the device has stopped, and `count` sums of the step in which it stopped
*/
PetscErrorCode IDRSBlockQueueEnd(IDRSWork work, const IDRSBlockScalars *scalars, PetscInt count, PetscScalar sums[])
{
  PetscFunctionBegin;
  PetscCall((*work->passes->blockqueue->end)(work, scalars, count, sums));
  PetscFunctionReturn(PETSC_SUCCESS);
}
