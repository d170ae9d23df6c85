/*
   Asynchronous copies from global to shared memory by a warp: bulk copies of sm_90, each with its own mbarrier. On older devices
   the lanes copy synchronously. No PETSc call.
*/
#pragma once

#include "target.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  #define IDRS_BULK_COPIES 1
#endif

static __device__ __forceinline__ uint32_t IDRSSharedAddress(const void *p)
{
  return (uint32_t)__cvta_generic_to_shared(p);
}

/* Called by one lane for each barrier, before its first use. The warp must synchronize after the last call */
static __device__ __forceinline__ void IDRSBulkInit(uint64_t *barrier)
{
#if defined(IDRS_BULK_COPIES)
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(IDRSSharedAddress(barrier)));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

/* Returns the L2 cache policy of the copies: data that are read once, in a pass larger than the cache, are evicted first */
static __device__ __forceinline__ uint64_t IDRSBulkPolicy(bool once)
{
  uint64_t policy = 0;

#if defined(IDRS_BULK_COPIES)
  if (once) asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  else asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}

/* Called by all lanes. Addresses and the number of bytes must be multiples of 16 */
static __device__ __forceinline__ void IDRSBulkBegin(void *to, const void *from, uint32_t bytes, uint64_t *barrier, uint64_t policy)
{
#if defined(IDRS_BULK_COPIES)
  if (threadIdx.x % IDRS_WARP == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(IDRSSharedAddress(barrier)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
                   IDRSSharedAddress(to)),
                 "l"(from), "r"(bytes), "r"(IDRSSharedAddress(barrier)), "l"(policy)
                 : "memory");
  }
#else
  for (uint32_t i = threadIdx.x % IDRS_WARP; i < bytes / sizeof(uint4); i += IDRS_WARP) ((uint4 *)to)[i] = ((const uint4 *)from)[i];
#endif
}

/* Called by all lanes. parity is 0 for the first copy on a barrier, 1 for the second, 0 for the third, and so on */
static __device__ __forceinline__ void IDRSBulkAwait(uint64_t *barrier, uint32_t parity)
{
#if defined(IDRS_BULK_COPIES)
  uint32_t done;

  do {
    asm volatile("{\n\t"
                 ".reg .pred p;\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t"
                 "}"
                 : "=r"(done)
                 : "r"(IDRSSharedAddress(barrier)), "r"(parity)
                 : "memory");
  } while (!done);
#else
  __syncwarp();
#endif
}
