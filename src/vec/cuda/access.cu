/*
   The columns of bases that kernels read, and the waits of the host for results of kernels.

   Synchronization. All kernels are on PETSc's stream. A kernel that is launched early waits for the kernels before it, see
   launch.cuh. A kernel writes sums or a result for the host, then executes a fence, and then writes the number of the projection.
   The host polls this number, and reads the results after an acquire fence. Numbers only increase, and at most IDRS_MAX_IN_FLIGHT
   results are outstanding.
*/
#include <atomic>
#include "idrscudaimpl.cuh"
#include "../../sys/nccl/idrsnccl.h"

/* Kernels read a column through its basis. If the host has written the column, it is copied to the device first */
PetscErrorCode IDRSColumnRead_CUDA(Vec column)
{
  const PetscScalar *array;

  PetscFunctionBegin;
  if (column->offloadmask == PETSC_OFFLOAD_CPU) PetscCall(IDRSFindArrayRead_CUDA(column, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSColumnsRead_CUDA(IDRSWorkspace work)
{
  PetscFunctionBegin;
  for (PetscInt j = 0; j < work->s; j++) {
    PetscCall(IDRSColumnRead_CUDA(work->G[j]));
    PetscCall(IDRSColumnRead_CUDA(work->U[j]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSCheckOthers_CUDA - Called while the host waits for results that may depend on other processes, with the seconds so far;
   reports an error after the timeout, or if a process has failed
*/
PetscErrorCode IDRSCheckOthers_CUDA(IDRSWorkspace work, PetscLogDouble seconds)
{
  IDRS_CUDA *cuda = (IDRS_CUDA *)work->data;

  PetscFunctionBegin;
  if (work->size > 1) PetscCall(IDRSProgressMPI(work->comm));
  if (work->queue == &IDRSQueue_Peer) PetscCall(IDRSPeersCheck(work->comm, seconds));
  else if (work->queue == &IDRSQueue_NCCL && seconds > IDRSGetTimeout()) {
    /* sums may be queued after messages of a preconditioner, and NCCL cannot end before these */
    PetscCall(IDRSPeersFinish(work->comm, &cuda->channel, PETSC_TRUE));
  }
  PetscCall(IDRSNCCLCheck(work->comm, seconds));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSWait_CUDA - Waits for the number of a projection, which is written after its sums or its result. The end of the kernel
   would be visible much later
*/
PetscErrorCode IDRSWait_CUDA(IDRSWorkspace work, const uint64_t *arrived, uint64_t sequence)
{
  PetscLogDouble began = 0;
  PetscBool      idle;
  cudaStream_t   stream;

  PetscFunctionBegin;
  for (unsigned int polls = 1; *(const volatile uint64_t *)arrived < sequence; polls++) {
    if (polls % 65536 == 0) { /* if a kernel has failed, the number never arrives */
      if (began == 0) began = MPI_Wtime();
      PetscCall(IDRSCheckOthers_CUDA(work, MPI_Wtime() - began));
      PetscCall(IDRSStream_CUDA(&stream));
      PetscCall(IDRSStreamIdle_CUDA(stream, &idle));
      PetscCheck(!idle || *(const volatile uint64_t *)arrived >= sequence, PETSC_COMM_SELF, PETSC_ERR_GPU,
                 "A projection kernel of KSPIDRS failed: its sums did not arrive");
    }
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  PetscFunctionReturn(PETSC_SUCCESS);
}
