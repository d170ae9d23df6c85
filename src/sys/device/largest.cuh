/*
   The largest of many numbers. The bits of doubles that are not negative have the order of the numbers. No PETSc call.
*/
#pragma once

#include "target.cuh"

/* By a warp: *largest = max(*largest, the numbers of all lanes), as bits */
static __device__ __forceinline__ void IDRSKeepLargest(unsigned long long mine, unsigned long long *largest)
{
#pragma unroll
  for (int offset = IDRS_WARP / 2; offset > 0; offset /= 2) mine = max(mine, __shfl_xor_sync(IDRS_ALL_LANES, mine, offset));
  if (threadIdx.x % IDRS_WARP == 0) atomicMax(largest, mine);
}
