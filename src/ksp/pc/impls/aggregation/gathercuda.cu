/*
   The right-hand side of level 0, if its rows are on several processes, and each of them makes all visits of the small levels: the
   kernel of cyclecuda.cu sends the entries of its process to the others, as a halo with all rows, see halo.cuh.
*/
#include <petscidrs/private/idrsmemory.h>
#include "aggregatescuda.cuh"
#include "gathercuda.cuh"

/* AggregationGatherCreate_CUDA - Creates it for vectors like b, or sets the reason why it cannot run. Collective */
PetscErrorCode AggregationGatherCreate_CUDA(Vec b, AggregationGather *newgather, const char *why[])
{
  const MPI_Comm    outer = PetscObjectComm((PetscObject)b);
  AggregationGather gather;
  MPI_Comm          comm;
  PetscSF           scatter;
  PetscLayout       layout;
  PetscInt          N, first, end, others = 0, least, *rows;

  PetscFunctionBegin;
  *newgather = NULL;
  PetscCall(VecGetSize(b, &N));
  PetscCall(VecGetOwnershipRange(b, &first, &end));
  least = end - first;
  IDRSCallAllreduce(MPI_IN_PLACE, &least, 1, MPIU_INT, MPI_MIN, outer);
  if (!least) *why = "a process has no rows, so the others would not wait for it";
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscCommDuplicate(outer, &comm, NULL));
  PetscCall(IDRSPeersConnect(comm, PETSC_TRUE, NULL, why));
  if (!*why) {
    PetscCall(PetscNew(&gather));
    gather->first = first;
    gather->n     = end - first;
    PetscCall(PetscMalloc1(N, &rows));
    for (PetscInt row = 0; row < N; row++) {
      if (row < first || row >= end) rows[others++] = row;
    }
    PetscCall(VecGetLayout(b, &layout));
    PetscCall(PetscSFCreate(comm, &scatter));
    PetscCall(PetscSFSetGraphLayout(scatter, layout, others, rows, PETSC_COPY_VALUES, rows));
    PetscCall(PetscSFSetUp(scatter));
    PetscCall(IDRSHaloCreate(comm, scatter, N, 1, &gather->halo));
    PetscCall(PetscSFDestroy(&scatter));
    PetscCall(PetscFree(rows));
    if (gather->halo) *newgather = gather;
    else {
      *why = "a GPU has not enough memory, or the communicator has no more shares";
      PetscCall(PetscFree(gather));
    }
  }
  PetscCall(PetscCommDestroy(&comm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* AggregationGatherNext_CUDA - Begins an exchange. Without several processes the kernel sends nothing */
PetscErrorCode AggregationGatherNext_CUDA(AggregationGather gather, PetscInt N, CycleExchange *exchange)
{
  PetscFunctionBegin;
  *exchange = {{}, {}, 0, (int)N};
  if (!gather) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSHaloNext(gather->halo, &exchange->sends));
  exchange->others = IDRSHaloGetGhosts(gather->halo);
  exchange->first  = (int)gather->first;
  exchange->n      = (int)gather->n;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* AggregationGatherIsValid_CUDA - Returns false after an exchange of these processes has failed */
PetscBool AggregationGatherIsValid_CUDA(AggregationGather gather)
{
  return IDRSHaloIsValid(gather->halo);
}

PetscErrorCode AggregationGatherDestroy_CUDA(AggregationGather *gather)
{
  PetscFunctionBegin;
  if (*gather) PetscCall(IDRSHaloDestroy(&(*gather)->halo));
  PetscCall(PetscFree(*gather));
  PetscFunctionReturn(PETSC_SUCCESS);
}
