#include "stream.h"
#include <petscidrs/private/idrscompat.h>

/* Makes later work on `stream` wait for earlier work on `other` */
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

   MATAIJCUSPARSE uses PETSc's default stream of the time when the matrix was created, which is the legacy stream if no
   PetscDeviceContext was set up by then. Only a stream that does not synchronize with the legacy stream
   (-root_device_context_stream_type nonblocking) needs this call.
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
