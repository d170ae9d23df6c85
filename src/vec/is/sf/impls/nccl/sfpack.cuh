/*
   Pack and unpack of the entries of a message, on the device and, if the array is there, on the host. No PETSc call.

   b items of a message, contiguous, bs scalars each x the array; item i of the message is item index[i] of x
*/
#pragma once

#include <petscsys.h>

#define SF_THREADS 256

/* Scalar i of b_j = x_index(j) */
static __host__ __device__ __forceinline__ void SFPack(size_t i, size_t bs, const PetscInt *index, const PetscScalar *x,
                                                       PetscScalar *b)
{
  b[i] = x[index[i / bs] * bs + i % bs];
}

/*
   Scalar i of x_place(t) = the last, or += the sum, of the b_j with index(j) = place(t). These are in item[first[t]], ...,
   item[first[t+1]-1], in the order of the message, and are added in this order, so results have the same bits each time.
*/
static __host__ __device__ __forceinline__ void SFUnpack(size_t i, size_t bs, const PetscInt *place, const PetscInt *first,
                                                         const PetscInt *item, bool add, const PetscScalar *b, PetscScalar *x)
{
  const size_t t = i / bs, l = i % bs;
  PetscScalar *to = x + place[t] * bs + l, sum = *to;

  if (!add) *to = b[item[first[t + 1] - 1] * bs + l];
  else {
    for (PetscInt j = first[t]; j < first[t + 1]; j++) sum += b[item[j] * bs + l];
    *to = sum;
  }
}

static __global__ void __launch_bounds__(SF_THREADS)
  SFPackKernel(size_t n, size_t bs, const PetscInt *index, const PetscScalar *x, PetscScalar *b)
{
  for (size_t i = blockIdx.x * (size_t)SF_THREADS + threadIdx.x; i < n * bs; i += (size_t)gridDim.x * SF_THREADS)
    SFPack(i, bs, index, x, b);
}

static __global__ void __launch_bounds__(SF_THREADS)
  SFUnpackKernel(size_t places, size_t bs, const PetscInt *place, const PetscInt *first, const PetscInt *item, bool add,
                 const PetscScalar *b, PetscScalar *x)
{
  for (size_t i = blockIdx.x * (size_t)SF_THREADS + threadIdx.x; i < places * bs; i += (size_t)gridDim.x * SF_THREADS)
    SFUnpack(i, bs, place, first, item, add, b, x);
}
