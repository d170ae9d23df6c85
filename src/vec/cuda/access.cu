/*
   The arrays that the kernels of a work read, and the host's wait for what they write.

   Synchronization. All kernels are on PETSc's stream. Where a kernel is launched early, it waits for the others itself: see
   launch.cuh. What is written for the host, sums or a result, is followed by the number of its projection, with a fence between the
   two; the host polls that number, and reads after an acquiring fence. Numbers only grow, and no more than IDRS_MAX_IN_FLIGHT
   results are outstanding.
*/
#include <atomic>
#include "idrscudaimpl.cuh"
#include "../../sys/device/timeout.h"
#include "../../sys/nccl/idrsnccl.h"

/* The diagonal of B^{-1} for a pass that applies it, or NULL */
PetscErrorCode IDRSGetDiagonal_CUDA(IDRSWork work, bool applies, const PetscScalar **array)
{
  PetscFunctionBegin;
  *array = NULL;
  if (applies && work->diagonal) PetscCall(IDRSGetArrayRead_CUDA(work->diagonal, array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSRestoreDiagonal_CUDA(IDRSWork work, const PetscScalar **array)
{
  PetscFunctionBegin;
  if (*array) PetscCall(VecRestoreArrayReadAndMemType(work->diagonal, array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A column is read through its panel; one that somebody has written on the host is copied up first */
PetscErrorCode IDRSColumnRead_CUDA(Vec column)
{
  const PetscScalar *array;

  PetscFunctionBegin;
  if (column->offloadmask == PETSC_OFFLOAD_CPU) {
    PetscCall(IDRSGetArrayRead_CUDA(column, &array));
    PetscCall(VecRestoreArrayReadAndMemType(column, &array));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSColumnsRead_CUDA(IDRSWork work)
{
  PetscFunctionBegin;
  for (PetscInt j = 0; j < work->s; j++) {
    PetscCall(IDRSColumnRead_CUDA(work->G[j]));
    PetscCall(IDRSColumnRead_CUDA(work->U[j]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSCheckOthers_CUDA - Called while the host has waited so long for what may depend on other processes: an error once they are
   not to be waited for any more
*/
PetscErrorCode IDRSCheckOthers_CUDA(IDRSWork work, PetscLogDouble seconds)
{
  IDRS_CUDA *cuda = (IDRS_CUDA *)work->data;

  PetscFunctionBegin;
  if (work->queue == &IDRSQueue_Peer) PetscCall(IDRSPeersCheck(work->comm, seconds));
  else if (work->queue == &IDRSQueue_NCCL && seconds > IDRSGetTimeout()) {
    /* sums may be behind messages of a preconditioner, and NCCL cannot end before these */
    PetscCall(IDRSPeersFinish(work->comm, &cuda->channel, PETSC_TRUE));
  }
  PetscCall(IDRSNCCLCheck(work->comm, seconds));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSWaitNumber_CUDA - Waits for a projection: for its number, which comes after its sums or its result, as the end of a kernel is
   known much later
*/
PetscErrorCode IDRSWaitNumber_CUDA(IDRSWork work, const uint64_t *arrived, uint64_t sequence)
{
  PetscLogDouble began = 0;
  PetscBool      idle;
  cudaStream_t   stream;

  PetscFunctionBegin;
  for (unsigned int polls = 1; *(const volatile uint64_t *)arrived < sequence; polls++) {
    if (polls % 65536 == 0) { /* a kernel that failed sends nothing */
      if (began == 0) began = MPI_Wtime();
      PetscCall(IDRSCheckOthers_CUDA(work, MPI_Wtime() - began));
      PetscCall(IDRSStream_CUDA(&stream));
      PetscCall(IDRSStreamIdle_CUDA(stream, &idle));
      PetscCheck(!idle || *(const volatile uint64_t *)arrived >= sequence, PETSC_COMM_SELF, PETSC_ERR_GPU,
                 "A projection of KSPIDRS ended without its sums");
    }
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSWait_CUDA(IDRSWork work, uint64_t sequence)
{
  PetscFunctionBegin;
  PetscCall(IDRSWaitNumber_CUDA(work, ((const IDRS_CUDA *)work->data)->arrived, sequence));
  PetscFunctionReturn(PETSC_SUCCESS);
}
