/*
   The stream that PETSc works on at this moment, its order with the legacy stream, and whether a stream has done its work
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

/* That the stream still works must not be what the next cudaGetLastError() returns */
static inline PetscErrorCode IDRSStreamIdle_CUDA(cudaStream_t stream, PetscBool *idle)
{
  const cudaError_t error = cudaStreamQuery(stream);

  PetscFunctionBegin;
  *idle = error == cudaErrorNotReady ? PETSC_FALSE : PETSC_TRUE;
  if (*idle) PetscCallCUDA(error);
  else (void)cudaGetLastError();
  PetscFunctionReturn(PETSC_SUCCESS);
}
