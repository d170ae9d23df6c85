/*
   The queue of block recurrences on the host. The solver does the algebra of idrsblockscalars.h
*/
#include <petscidrs/private/idrsworkimpl.h>
#include <petscidrs/private/idrscompat.h>

static PetscErrorCode IDRSQueueLaunch_BlockHost(const IDRSGroup *group, const IDRSStep steps[], const IDRSBounds bounds[])
{
  const IDRSWork   work  = group->work[0];
  const IDRSBlock *block = work->block;

  PetscFunctionBegin;
  PetscCall((*work->passes->blockproject)(work, block->tasks, block->dots, block->results));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSQueueReduce_BlockHost(const IDRSGroup *group, const IDRSStep steps[])
{
  const IDRSBlock *block = group->work[0]->block;

  PetscFunctionBegin;
  PetscCall(IDRSSum(group->work[0]->comm, IDRSBlockSumCount(block->algebra.s, block->algebra.m, steps->k), block->results));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSQueueCollect_BlockHost(IDRSWork work, const IDRSStep *step, PetscReal *rnorm, PetscBool *stopped)
{
  IDRSBlock *block = work->block;

  PetscFunctionBegin;
  IDRSBlockScalarsNorms(&block->algebra, (int)step->k, (int)block->bounds.count, block->results, &block->norms); /* ||r_j|| */
  *rnorm   = block->norms.rnorm;
  *stopped = PETSC_TRUE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

const IDRSQueueOps IDRSQueue_BlockHost = {
  .name    = "host",
  .depth   = 0,
  .runs    = IDRSQueueRuns_Host,
  .halo    = IDRSQueueNoHalo,
  .begin   = IDRSQueueStay_Host,
  .launch  = IDRSQueueLaunch_BlockHost,
  .reduce  = IDRSQueueReduce_BlockHost,
  .collect = IDRSQueueCollect_BlockHost,
  .end     = IDRSQueueStay_Host,
};

/*
   IDRSWorkSetBlock - Gives a work a block recurrence, or, with NULL, its own recurrence again, and discards projections in flight

   Input Parameters:
+  work  - the work
-  block - the block recurrence, or NULL

   Output Parameter:
.  depth - the depth of its queue, 0 on the host; not accessed without a block
*/
PetscErrorCode IDRSWorkSetBlock(IDRSWork work, IDRSBlock *block, PetscInt *depth)
{
  const char *why;

  PetscFunctionBegin;
  work->block    = block;
  work->ondevice = PETSC_FALSE;
  work->inflight = 0;
  if (!block) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall((*work->passes->blockqueue->runs)(IDRSGroupOfOne(work), PETSC_TRUE, &why));
  *depth = why ? 0 : work->passes->blockqueue->depth;
  PetscFunctionReturn(PETSC_SUCCESS);
}
