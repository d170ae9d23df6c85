/*
   Products with several columns on a device: the arrays of the columns, and functions and kernel parts that the back ends share
*/
#pragma once

#include <petscidrs/private/idrsproduct.h>
#include "../../sys/kernels/csr.h"
#include "../../sys/kernels/launch.cuh"
#include "../../sys/kernels/rowsum.cuh"

typedef struct {
  const PetscScalar *x[IDRS_MAX_WIDTH];
  PetscScalar       *y[IDRS_MAX_WIDTH];
} IDRSColumnArrays;

/* One product */
typedef struct {
  PetscInt         k;
  IDRSColumnArrays arrays;
  cudaStream_t     stream;
  int              multiprocessors;
} IDRSColumnsLaunch;

PETSC_INTERN PetscErrorCode IDRSColumnsBegin_CUDA(IDRSProduct, PetscInt, Vec[], Vec[], IDRSColumnsLaunch *);
PETSC_INTERN PetscErrorCode IDRSColumnsEnd_CUDA(IDRSProduct, Vec[], Vec[], IDRSColumnsLaunch *);
PETSC_INTERN PetscErrorCode IDRSColumnsMalloc_CUDA(size_t, size_t *, PetscScalar **);

/* A thread keeps its sums, and the entries of X that it has loaded, in registers */
template <int K>
struct IDRSColumnsShape {
  static constexpr int bytes  = K * (int)sizeof(PetscScalar);
  static constexpr int atonce = bytes > 64 ? 1 : (bytes > 32 ? 2 : (bytes > 16 ? 4 : 8)); /* entries of A that are loaded at once */
  static constexpr int blocks = bytes > 128 ? 1 : (bytes > 64 ? 2 : 3);                   /* resident blocks, at least */
};

/* Calls launch with the number of columns of a kernel as a type: k or slightly more */
template <typename L>
static void IDRSDispatchColumns(PetscInt k, L &&launch)
{
  if (k <= 1) launch(IDRSInt<1>());
  else if (k <= 2) launch(IDRSInt<2>());
  else if (k <= 3) launch(IDRSInt<3>());
  else if (k <= 4) launch(IDRSInt<4>());
  else if (k <= 6) launch(IDRSInt<6>());
  else if (k <= 8) launch(IDRSInt<8>());
  else if (k <= 12) launch(IDRSInt<12>());
  else launch(IDRSInt<IDRS_MAX_WIDTH>());
}

/*
   Copies the arrays to shared memory, so that different threads can use different ones. Called by all threads before the first use
*/
static __device__ __forceinline__ const IDRSColumnArrays &IDRSShareArrays(const IDRSColumnArrays &arrays)
{
  __shared__ IDRSColumnArrays shared;

  if (threadIdx.x == 0) shared = arrays;
  __syncthreads();
  return shared;
}

/* sums += the part of this lane of (A X)_row, as IDRSRowPart() adds it up for one column */
template <int ATONCE, int K>
static __device__ __forceinline__ void IDRSRowParts(const IDRSCSR &A, const IDRSColumnArrays &arrays, IDRSIndex row, int lane,
                                                    int lanes, PetscScalar sums[K])
{
  const IDRSIndex begin = A.i[row], end = A.i[row + 1];

  for (IDRSIndex p = begin + lane; p < end; p += ATONCE * lanes) {
    PetscInt    column[ATONCE];
    PetscScalar value[ATONCE], entry[ATONCE][K];

#pragma unroll
    for (int l = 0; l < ATONCE; l++) {
      const IDRSIndex q = p + l * lanes;

      column[l] = q < end ? A.j[q] : -1;
      value[l]  = q < end ? IDRSLoadConstant(A.a + q) : (PetscScalar)0.0;
    }
#pragma unroll
    for (int l = 0; l < ATONCE; l++) {
#pragma unroll
      for (int c = 0; c < K; c++) entry[l][c] = column[l] >= 0 ? IDRSLoadConstant(arrays.x[c] + column[l]) : (PetscScalar)0.0;
    }
#pragma unroll
    for (int l = 0; l < ATONCE; l++) {
      if (column[l] < 0) continue;
#pragma unroll
      for (int c = 0; c < K; c++) sums[c] += value[l] * entry[l][c];
    }
  }
}

template <int K>
static __device__ __forceinline__ void IDRSClearSums(PetscScalar sums[K])
{
#pragma unroll
  for (int c = 0; c < K; c++) sums[c] = 0.0;
}

template <int K>
static __device__ __forceinline__ void IDRSStoreSums(const IDRSColumnArrays &arrays, size_t row, const PetscScalar sums[K])
{
#pragma unroll
  for (int c = 0; c < K; c++) arrays.y[c][row] = sums[c];
}
