/*
   The device of this process: its memory, arrays of vectors and processes that share it; PETSc's current stream and its order with
   the legacy stream; and the timeout of -petscidrs_nccl_timeout, for the host, which waits for sums and messages of other
   processes, and for threads that wait inside kernels
*/
#pragma once

#include <petscdevice_cuda.h>
#include <petscvec.h>

/* The access of a kernel to the array of a vector */
typedef enum {
  IDRS_NOTHING,
  IDRS_READ,
  IDRS_WRITE,
  IDRS_CHANGE
} IDRSAccess;

PETSC_INTERN PetscErrorCode IDRSGetFreeMemory_CUDA(PetscLogDouble *);
PETSC_INTERN PetscErrorCode IDRSDeviceGetSharers(MPI_Comm, PetscMPIInt *, PetscLogDouble *);
PETSC_INTERN PetscErrorCode IDRSDeviceShared(MPI_Comm, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSMalloc_CUDA(size_t, void *, const char *[]);
PETSC_INTERN PetscErrorCode IDRSGrow_CUDA(size_t, size_t *, PetscScalar **);
PETSC_INTERN PetscErrorCode IDRSGetArray_CUDA(Vec, PetscErrorCode (*)(Vec, PetscScalar **, PetscMemType *), PetscScalar **);
PETSC_INTERN PetscErrorCode IDRSGetArrayRead_CUDA(Vec, const PetscScalar **);
PETSC_INTERN PetscErrorCode IDRSFindArray_CUDA(Vec, IDRSAccess, PetscScalar **);
PETSC_INTERN PetscErrorCode IDRSTransfer_CUDA(void *, void *, size_t, cudaMemcpyKind, cudaStream_t);
PETSC_INTERN PetscErrorCode IDRSStreamJoin_CUDA(void);
PETSC_INTERN PetscReal      IDRSGetTimeout(void);
PETSC_INTERN unsigned int   IDRSGetPolls(void);
PETSC_INTERN PetscErrorCode IDRSCheckTimeout(int *, const char[]);

static inline PetscErrorCode IDRSFindArrayRead_CUDA(Vec x, const PetscScalar **array)
{
  return IDRSFindArray_CUDA(x, IDRS_READ, (PetscScalar **)array);
}

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

/*
   Called repeatedly while the host waits for the device, which may wait for other processes. MPI need not deliver a message of this
   process while this process makes no call of MPI, although the send has ended, and another process may wait for the message
*/
static inline PetscErrorCode IDRSProgressMPI(MPI_Comm comm)
{
  int found;

  PetscFunctionBegin;
  PetscCallMPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found, MPI_STATUS_IGNORE));
  PetscFunctionReturn(PETSC_SUCCESS);
}
