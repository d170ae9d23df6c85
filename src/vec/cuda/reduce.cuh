/*
   Sums over a grid in a fixed order: each block leaves its own in memory, and the block that finishes last adds them up.
   The same numbers run after run on the same device, as no floating-point atomics are used. No PETSc call.
*/
#pragma once

#include "pack.cuh"

#define IDRS_WARPS (IDRS_THREADS / 32)

static __device__ __forceinline__ PetscReal IDRSShuffleDown(PetscReal x, int offset)
{
  return __shfl_down_sync(0xffffffffu, x, offset);
}

#if PetscDefined(USE_COMPLEX)
static __device__ __forceinline__ PetscScalar IDRSShuffleDown(PetscScalar x, int offset)
{
  return PetscScalar(IDRSShuffleDown(x.real(), offset), IDRSShuffleDown(x.imag(), offset));
}
#endif

template <typename T>
static __device__ __forceinline__ T IDRSWarpSum(T x)
{
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += IDRSShuffleDown(x, offset);
  return x;
}

/*
   Sums count values over the block; partials[i * gridDim.x + blockIdx.x] gets that of values[i]. shared has room for
   IDRS_WARPS * count values.
*/
template <int count, typename T>
static __device__ __forceinline__ void IDRSBlockSum(T values[count], T *shared, T *partials)
{
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

#pragma unroll
  for (int i = 0; i < count; i++) {
    const T sum = IDRSWarpSum(values[i]);

    if (lane == 0) shared[i * IDRS_WARPS + warp] = sum;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += IDRS_THREADS) {
    T sum = shared[i * IDRS_WARPS];

    for (int w = 1; w < IDRS_WARPS; w++) sum += shared[i * IDRS_WARPS + w];
    partials[(size_t)i * gridDim.x + blockIdx.x] = sum;
  }
}

/* True in the block that finishes last, after which it sees what all others have written; ticket returns to 0 */
static __device__ __forceinline__ bool IDRSLastBlock(unsigned int *ticket)
{
  __shared__ bool last;

  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  return last;
}

/* Sum of blocks partial sums by one warp, in a fixed order; valid in lane 0 */
template <typename T>
static __device__ __forceinline__ T IDRSPartialSum(const T *partials, unsigned int blocks)
{
  T sum = 0.0;

  for (unsigned int b = threadIdx.x % 32; b < blocks; b += 32) sum += partials[b];
  return IDRSWarpSum(sum);
}
