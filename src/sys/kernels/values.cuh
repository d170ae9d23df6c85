/*
   The values of a copy of a matrix: scalars, or numbers in half or single precision, which are pairs in complex builds. No PETSc
   call.
*/
#pragma once

#include <petscsys.h>
#include <cuda_fp16.h>

template <typename T, int N>
struct alignas(N * sizeof(T)) IDRSTuple {
  T v[N];
};

template <typename T>
struct alignas(PetscDefined(USE_COMPLEX) ? 2 * sizeof(T) : sizeof(T)) IDRSNarrow {
  T re;
#if PetscDefined(USE_COMPLEX)
  T im;
#endif
};

static __device__ __forceinline__ PetscScalar IDRSWiden(PetscScalar x)
{
  return x;
}

template <typename T>
static __device__ __forceinline__ PetscScalar IDRSWiden(const IDRSNarrow<T> &x)
{
#if PetscDefined(USE_COMPLEX)
  return PetscScalar((PetscReal)(float)x.re, (PetscReal)(float)x.im);
#else
  return (PetscScalar)(float)x.re;
#endif
}

static __device__ __forceinline__ void IDRSNarrowValue(PetscScalar x, PetscScalar *y)
{
  *y = x;
}

template <typename T>
static __device__ __forceinline__ void IDRSNarrowValue(PetscScalar x, IDRSNarrow<T> *y)
{
  y->re = (T)(float)PetscRealPart(x);
#if PetscDefined(USE_COMPLEX)
  y->im = (T)(float)PetscImaginaryPart(x);
#endif
}
