/*
   A column of the hashed shadow space, stored: see idrsshadow.h
*/
#include "idrscudaimpl.cuh"

static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSHashedKernel(uint64_t key, uint64_t rstart, PetscInt column, size_t n, PetscScalar *v)
{
  const uint32_t multiplier = IDRSShadowMultiplier((uint32_t)(column / 2));

  for (size_t i = IDRSFirstRow<1>(); i < n; i += IDRSRowStride<1>())
    v[i] = (PetscReal)IDRSShadowColumnInteger(IDRSShadowRowState(key, rstart + i), multiplier, column % 2) *
           (PetscReal)IDRS_SHADOW_UNIT;
}

PetscErrorCode IDRSVecSetHashed_CUDA(Vec v, uint64_t key, PetscInt column)
{
  PetscInt     begin, end;
  PetscScalar *array;
  cudaStream_t stream;

  PetscFunctionBegin;
  PetscCall(VecGetOwnershipRange(v, &begin, &end));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSGetArray_CUDA(v, VecGetArrayWriteAndMemType, &array));
  if (begin < end)
    IDRSHashedKernel<<<(unsigned int)PetscMin((end - begin + IDRS_THREADS - 1) / IDRS_THREADS, 65535), IDRS_THREADS, 0, stream>>>(
      key, (uint64_t)begin, column, (size_t)(end - begin), array);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(VecRestoreArrayWriteAndMemType(v, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}
