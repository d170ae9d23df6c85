/*
   The maximum of many numbers. The bits of nonnegative doubles are in the order of the numbers. No PETSc call.
*/
#pragma once

#include "target.cuh"

/* Called by a warp. Computes *largest = max(*largest, numbers of all lanes), as bits */
static __device__ __forceinline__ void IDRSKeepLargest(unsigned long long mine, unsigned long long *largest)
{
#pragma unroll
  for (int offset = IDRS_WARP / 2; offset > 0; offset /= 2) mine = max(mine, __shfl_xor_sync(IDRS_ALL_LANES, mine, offset));
  if (threadIdx.x % IDRS_WARP == 0) atomicMax(largest, mine);
}
