#include "stream.h"
#include <petscidrs/private/idrscompat.h>

/* Work on one of these streams from now on waits for what is on the other */
static PetscErrorCode IDRSStreamWait_CUDA(cudaStream_t stream, cudaStream_t other)
{
  cudaEvent_t event;

  PetscFunctionBegin;
  PetscCallCUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  PetscCallCUDA(cudaEventRecord(event, other));
  PetscCallCUDA(cudaStreamWaitEvent(stream, event, 0));
  PetscCallCUDA(cudaEventDestroy(event));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSStreamJoin_CUDA - Puts the work on PETSc's stream and on the legacy stream of CUDA in the order of the host's calls

   MATAIJCUSPARSE takes the stream that is PETSc's default when the matrix is made, which is the legacy stream if no PetscDeviceContext has been set up by
   then. Only a stream that does not wait for that one by itself (with -root_device_context_stream_type nonblocking) needs this.
*/
PetscErrorCode IDRSStreamJoin_CUDA(void)
{
  cudaStream_t stream;
  unsigned int flags;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  if (!stream) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCallCUDA(cudaStreamGetFlags(stream, &flags));
  if (!(flags & cudaStreamNonBlocking)) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStreamWait_CUDA(stream, cudaStreamLegacy));
  PetscCall(IDRSStreamWait_CUDA(cudaStreamLegacy, stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSDeviceShared - Whether another process has the device of this one, somewhere: the answer is the same on all */
PetscErrorCode IDRSDeviceShared(MPI_Comm comm, PetscBool *shared)
{
  cudaDeviceProp properties;
  cudaUUID_t    *all;
  PetscMPIInt    rank, size, equal = 0;
  int            device;

  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_rank(comm, &rank));
  PetscCallMPI(MPI_Comm_size(comm, &size));
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaGetDeviceProperties(&properties, device));
  PetscCall(PetscMalloc1(size, &all));
  PetscCallMPI(MPI_Allgather(&properties.uuid, (PetscMPIInt)sizeof(*all), MPI_BYTE, all, (PetscMPIInt)sizeof(*all), MPI_BYTE, comm));
  for (PetscMPIInt i = 0; i < size; i++) {
    PetscBool same;

    PetscCall(PetscMemcmp(&all[i], &properties.uuid, sizeof(*all), &same));
    if (same && i != rank) equal = 1;
  }
  PetscCall(PetscFree(all));
  IDRSCallAllreduce(MPI_IN_PLACE, &equal, 1, MPI_INT, MPI_MAX, comm);
  *shared = equal ? PETSC_TRUE : PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}
