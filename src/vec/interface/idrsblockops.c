/*
   The operations of block IDR(s) as the solver calls them: logging, the back end, and the one reduction. What they compute is
   stated in idrsops.h
*/
#include <petscidrs/private/idrsworkimpl.h>
#include <petscidrs/private/idrscompat.h>

/* IDRSBlockVecSet - A column of blocks that stays where it is as long as it is used as one */
PetscErrorCode IDRSBlockVecSet(IDRSWork work, Vec vec, IDRSBlockVec *column)
{
  PetscFunctionBegin;
  column->vec = vec;
  PetscCall((*work->passes->blockarray)(vec, &column->array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSBlockCombineBegin - Checks sums, and begins the pass that makes them with what they move and take */
PetscErrorCode IDRSBlockCombineBegin(IDRSWork work, PetscInt count, const IDRSBlockAxpy sums[])
{
  PetscInt vectors = 0, flops = 0;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++)
    PetscCheck(sums[i].ny <= IDRS_MAX_WIDTH, work->comm, PETSC_ERR_ARG_OUTOFRANGE,
               "A block of %" PetscInt_FMT " columns, at most %d", sums[i].ny, IDRS_MAX_WIDTH);
  PetscCall(IDRSPassBegin(work, IDRS_COMBINE));
  for (PetscInt i = 0; i < count; i++) {
    const IDRSBlockAxpy *sum      = &sums[i];
    const PetscInt       diagonal = work->diagonal && sum->scaled ? 1 : 0;

    vectors += sum->nx + (sum->add ? 2 : 1) * sum->ny + diagonal;
    flops += (2 * sum->nx + diagonal) * sum->ny;
  }
  PetscCall(IDRSPassCount(work, IDRS_COMBINE, vectors, flops));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSBlockCombine - Block DAXPY, for one sum after another: a sum finds what those before it have written. Back ends make all of
   them on some rows before they go on to the next rows, so that a vector that several sums have is in a cache. It is counted once
   for each of these
*/
PetscErrorCode IDRSBlockCombine(IDRSWork work, PetscInt count, const IDRSBlockAxpy sums[])
{
  PetscFunctionBegin;
  PetscCall(IDRSBlockCombineBegin(work, count, sums));
  PetscCall((*work->passes->blockcombine)(work, count, sums));
  PetscCall(IDRSPassEnd(work, IDRS_COMBINE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSBlockEachTask - The sums of one task after another, for back ends that have nothing to gain from many */
PetscErrorCode IDRSBlockEachTask(IDRSWork work, PetscInt count, const IDRSBlockDots tasks[],
                                 PetscErrorCode (*project)(IDRSWork, const IDRSBlockDots *, PetscScalar[]), PetscScalar sums[])
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) {
    PetscCall((*project)(work, &tasks[i], sums));
    sums += IDRSBlockDotsCount(&tasks[i]);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSBlockProjectBegin - Checks tasks, and begins the pass that takes them with what they move and take. Returns the number of
   sums, too
*/
PetscErrorCode IDRSBlockProjectBegin(IDRSWork work, PetscInt count, const IDRSBlockDots tasks[], PetscInt *nsums)
{
  PetscInt vectors = 0;

  PetscFunctionBegin;
  *nsums = 0;
  PetscCheck(work->hashed, work->comm, PETSC_ERR_PLIB, "Blocks have hashed shadow vectors only");
  for (PetscInt i = 0; i < count; i++)
    PetscCheck(tasks[i].nw <= 2 * IDRS_MAX_WIDTH && tasks[i].nx <= 2 * IDRS_MAX_WIDTH, work->comm, PETSC_ERR_ARG_OUTOFRANGE,
               "Blocks of %" PetscInt_FMT " and %" PetscInt_FMT " columns, at most %d", tasks[i].nw, tasks[i].nx,
               2 * IDRS_MAX_WIDTH);
  PetscCall(IDRSPassBegin(work, IDRS_PROJECT));
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
+  work  - the work, which gives the seed of the shadow space
.  count - the number of tasks
-  tasks - what is to be multiplied

   Output Parameter:
.  sums - P^H X, then W^H X, of one task after another
*/
PetscErrorCode IDRSBlockProject(IDRSWork work, PetscInt count, const IDRSBlockDots tasks[], PetscScalar sums[])
{
  PetscInt nsums;

  PetscFunctionBegin;
  PetscCall(IDRSBlockProjectBegin(work, count, tasks, &nsums));
  PetscCall((*work->passes->blockproject)(work, count, tasks, sums));
  PetscCall(IDRSPassEnd(work, IDRS_PROJECT));
  PetscCall(IDRSSum(work->comm, nsums, sums));
  work->reductions++;
  PetscFunctionReturn(PETSC_SUCCESS);
}
