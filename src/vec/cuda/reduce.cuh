/*
   Sums over a grid in a fixed order: each block leaves its own in memory, and the block that finishes last adds them up.
   The same numbers run after run on the same device, as no floating-point atomics are used. No PETSc call.
*/
#pragma once

#include "rows.cuh"

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

/* Sum over the lanes of a warp, or over each part of it of so many lanes; valid in the first of them */
template <int lanes, typename T>
static __device__ __forceinline__ T IDRSWarpSum(T x)
{
#pragma unroll
  for (int offset = lanes / 2; offset > 0; offset /= 2) x += IDRSShuffleDown(x, offset);
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
    const T sum = IDRSWarpSum<32>(values[i]);

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

/* Lanes that add up the partial sums of one value, and how many values a block can so add up at once */
#define IDRS_LANES_A_SUM  16
#define IDRS_SUMS_AT_ONCE (IDRS_THREADS / IDRS_LANES_A_SUM)

/* Sum of blocks partial sums, scalars or else reals, by IDRS_LANES_A_SUM lanes, in a fixed order; valid in the first of them. All lanes of the warp take part */
static __device__ __forceinline__ PetscScalar IDRSPartialSum(const PetscScalar *scalars, const PetscReal *reals, unsigned int blocks)
{
  PetscScalar sum = 0.0;

  for (unsigned int b = threadIdx.x % IDRS_LANES_A_SUM; b < blocks; b += IDRS_LANES_A_SUM) sum += scalars ? scalars[b] : (PetscScalar)reals[b];
  return IDRSWarpSum<IDRS_LANES_A_SUM>(sum);
}
