/*
   The operations of block IDR(s) as the solver calls them: logging, the back end, and the reduction. idrsops.h states what they
   compute
*/
#include <petscidrs/private/idrsworkimpl.h>
#include <petscidrs/private/idrscompat.h>

/* IDRSBlockVecSet - Sets a column of blocks, whose array must not move while the column is used */
PetscErrorCode IDRSBlockVecSet(IDRSWork work, Vec vec, IDRSBlockVec *column)
{
  PetscFunctionBegin;
  column->vec   = vec;
  column->array = NULL;
  if (work->passes->device) PetscCall((*work->passes->blockarray)(vec, &column->array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSBlockCombine - Block DAXPY, for a sequence of sums: each sum uses the results of the sums before it. The CUDA back end
   computes all sums on some rows before it continues with the next rows, so that vectors of several sums stay in a cache. The
   traffic of such a vector is counted once per sum
*/
PetscErrorCode IDRSBlockCombine(IDRSWork work, PetscInt count, const IDRSBlockAxpy sums[])
{
  PetscInt vectors = 0, flops = 0;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++)
    PetscCheck(sums[i].ny <= IDRS_MAX_WIDTH, work->comm, PETSC_ERR_ARG_OUTOFRANGE, "%" PetscInt_FMT " columns exceed the limit %d",
               sums[i].ny, IDRS_MAX_WIDTH);
  PetscCall(IDRSPassBegin(work, IDRS_COMBINE));
  for (PetscInt i = 0; i < count; i++) {
    const IDRSBlockAxpy *sum      = &sums[i];
    const PetscInt       diagonal = work->diagonal && sum->scaled ? 1 : 0;

    vectors += sum->nx + (sum->add ? 2 : 1) * sum->ny + diagonal;
    flops += (2 * sum->nx + diagonal) * sum->ny;
  }
  PetscCall(IDRSPassCount(work, IDRS_COMBINE, vectors, flops));
  PetscCall((*work->passes->blockcombine)(work, count, sums));
  PetscCall(IDRSPassEnd(work, IDRS_COMBINE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks tasks, and counts the traffic and flops of their pass. Returns the number of sums */
static PetscErrorCode IDRSBlockProjectCount(IDRSWork work, PetscInt count, const IDRSBlockDots tasks[], PetscInt *nsums)
{
  PetscInt vectors = 0;

  PetscFunctionBegin;
  *nsums = 0;
  PetscCheck(work->hashed, work->comm, PETSC_ERR_PLIB, "Block IDR(s) does not support explicit shadow vectors");
  for (PetscInt i = 0; i < count; i++)
    PetscCheck(tasks[i].nw <= 2 * IDRS_MAX_WIDTH && tasks[i].nx <= 2 * IDRS_MAX_WIDTH, work->comm, PETSC_ERR_ARG_OUTOFRANGE,
               "%" PetscInt_FMT " or %" PetscInt_FMT " columns exceed the limit %d", tasks[i].nw, tasks[i].nx, 2 * IDRS_MAX_WIDTH);
  for (PetscInt i = 0; i < count; i++) {
    *nsums += IDRSBlockDotsCount(&tasks[i]);
    vectors += tasks[i].nx + (IDRSBlockDotsHermitian(&tasks[i]) ? 0 : tasks[i].nw);
  }
  PetscCall(IDRSPassCount(work, IDRS_PROJECT, vectors, 2 * *nsums));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSBlockProject - Block DOT, many tasks in one reduction over all processes

   Input Parameters:
+  work  - the work, with the seed of the shadow space
.  count - the number of tasks
-  tasks - the tasks

   Output Parameter:
.  sums - P^H X, then W^H X, for one task after another
*/
PetscErrorCode IDRSBlockProject(IDRSWork work, PetscInt count, const IDRSBlockDots tasks[], PetscScalar sums[])
{
  PetscInt nsums;

  PetscFunctionBegin;
  PetscCall(IDRSPassBegin(work, IDRS_PROJECT));
  PetscCall(IDRSBlockProjectCount(work, count, tasks, &nsums));
  PetscCall((*work->passes->blockproject)(work, count, tasks, sums));
  PetscCall(IDRSPassEnd(work, IDRS_PROJECT));
  PetscCall(IDRSSum(work->comm, nsums, sums));
  work->reductions++;
  PetscFunctionReturn(PETSC_SUCCESS);
}
