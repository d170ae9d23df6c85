/*
   Host memory that is registered for copies to and from the device, and these copies. Only the whole pages inside of a range are
   registered, because pages at its ends may contain other data
*/
#include <petscidrs/private/idrscompat.h>
#include "device.h"
#include <unistd.h>

/* IDRSPin_CUDA - Registers host memory. Memory that was registered elsewhere stays as it is. An error names the option `instead` */
PetscErrorCode IDRSPin_CUDA(IDRSPinned *set, const void *memory, size_t bytes, const char instead[])
{
  const size_t    page   = (size_t)sysconf(_SC_PAGESIZE);
  IDRSPinnedRange pinned = {(const char *)memory, (const char *)(((size_t)memory + page - 1) / page * page),
                            (const char *)(((size_t)memory + bytes) / page * page)};
  cudaError_t     error;

  PetscFunctionBegin;
  if (pinned.end <= pinned.begin) PetscFunctionReturn(PETSC_SUCCESS);
  error = cudaHostRegister((void *)pinned.begin, (size_t)(pinned.end - pinned.begin), cudaHostRegisterDefault);
  if (error != cudaSuccess) (void)cudaGetLastError();
  if (error == cudaErrorHostMemoryAlreadyRegistered) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCheck(
    error == cudaSuccess, PETSC_COMM_SELF, PETSC_ERR_SYS,
    "%g bytes of the host's memory cannot be registered (%s): raise the limit of locked memory (ulimit -l), or use %s, which "
    "is several times slower",
    (double)(pinned.end - pinned.begin), cudaGetErrorString(error), instead);
  for (int i = 0; i < IDRS_MAX_PINNED; i++) {
    if (set->range[i].memory) continue;
    set->range[i] = pinned;
    break;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSUnpin_CUDA - Ends the registration of this memory, or of all memory of the set if it is NULL */
PetscErrorCode IDRSUnpin_CUDA(IDRSPinned *set, const void *memory)
{
  PetscFunctionBegin;
  for (int i = 0; i < IDRS_MAX_PINNED; i++) {
    const IDRSPinnedRange pinned = set->range[i];

    if (!pinned.memory || (memory && pinned.memory != (const char *)memory)) continue;
    set->range[i].memory = NULL;
    PetscCallCUDA(cudaHostUnregister((void *)pinned.begin));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSPinnedCopy_CUDA - Copies between host and device. A copy must not cross the border between registered memory and other */
PetscErrorCode IDRSPinnedCopy_CUDA(const IDRSPinned *set, void *device, void *host, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream)
{
  char *begin = (char *)host, *const end = begin + bytes, *place = (char *)device;

  PetscFunctionBegin;
  while (begin < end) {
    const char *stop = end;
    size_t      part;

    for (int i = 0; i < IDRS_MAX_PINNED; i++) {
      const IDRSPinnedRange *pinned = &set->range[i];

      if (!pinned->memory) continue;
      if (begin < pinned->begin && stop > pinned->begin) stop = pinned->begin;
      else if (begin >= pinned->begin && begin < pinned->end && stop > pinned->end) stop = pinned->end;
    }
    part = (size_t)(stop - begin);
    if (kind == cudaMemcpyHostToDevice) PetscCallCUDA(cudaMemcpyAsync(place, begin, part, kind, stream));
    else PetscCallCUDA(cudaMemcpyAsync(begin, place, part, kind, stream));
    place += part;
    begin += part;
  }
  if (kind == cudaMemcpyHostToDevice) PetscCall(PetscLogCpuToGpu((PetscLogDouble)bytes));
  else PetscCall(PetscLogGpuToCpu((PetscLogDouble)bytes));
  PetscFunctionReturn(PETSC_SUCCESS);
}
