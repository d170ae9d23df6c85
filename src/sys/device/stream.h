/*
   PETSc's current stream, its order with the legacy stream, and a query of completion
*/
#pragma once

#include <petscdevice_cuda.h>

PETSC_INTERN PetscErrorCode IDRSStreamJoin_CUDA(void);

static inline PetscErrorCode IDRSStream_CUDA(cudaStream_t *stream)
{
  PetscDeviceContext dctx;
  void              *handle;

  PetscFunctionBegin;
  *stream = NULL;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceContextGetStreamHandle(dctx, &handle));
  *stream = *(cudaStream_t *)handle;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Returns PETSC_TRUE if the stream has completed its work. Clears cudaErrorNotReady, which the next cudaGetLastError() would return
*/
static inline PetscErrorCode IDRSStreamIdle_CUDA(cudaStream_t stream, PetscBool *idle)
{
  const cudaError_t error = cudaStreamQuery(stream);

  PetscFunctionBegin;
  *idle = error == cudaErrorNotReady ? PETSC_FALSE : PETSC_TRUE;
  if (*idle) PetscCallCUDA(error);
  else (void)cudaGetLastError();
  PetscFunctionReturn(PETSC_SUCCESS);
}
