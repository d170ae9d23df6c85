/*
   Launches whose blocks are all resident at once, so they may wait for each other: cooperative ones, and thread block clusters,
   whose blocks write into each other's shared memory: compute capability 9.0 and later. No PETSc call.
*/
#pragma once

#include "target.cuh"

template <typename... Parameters>
static inline cudaError_t IDRSLaunchCooperative(void (*kernel)(Parameters...), unsigned int blocks, unsigned int threads,
                                                cudaStream_t stream, const Parameters &...arguments)
{
  cudaLaunchConfig_t  config    = {};
  cudaLaunchAttribute attribute = {};

  attribute.id              = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  config.gridDim            = blocks;
  config.blockDim           = threads;
  config.stream             = stream;
  config.attrs              = &attribute;
  config.numAttrs           = 1;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

/* Largest number of blocks in a cluster; every such device supports 8 */
#define IDRS_CLUSTER_BLOCKS 16

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  #define IDRS_CLUSTER_CODE(...) asm volatile(__VA_ARGS__)
#else
  #define IDRS_CLUSTER_CODE(...) (void)0
#endif

/* The position of a block */
typedef struct {
  unsigned int rank, size, index, count; /* rank in its cluster of `size` blocks, a power of 2; index among `count` clusters */
} IDRSCluster;

static __device__ __forceinline__ IDRSCluster IDRSGetCluster()
{
  IDRSCluster cluster = {0, 1, blockIdx.x, gridDim.x};

  IDRS_CLUSTER_CODE("mov.u32 %0, %%cluster_ctarank;" : "=r"(cluster.rank));
  IDRS_CLUSTER_CODE("mov.u32 %0, %%cluster_nctarank;" : "=r"(cluster.size));
  IDRS_CLUSTER_CODE("mov.u32 %0, %%clusterid.x;" : "=r"(cluster.index));
  IDRS_CLUSTER_CODE("mov.u32 %0, %%nclusterid.x;" : "=r"(cluster.count));
  return cluster;
}

/* Synchronizes all threads of a cluster, and makes their earlier writes to shared memory visible */
static __device__ __forceinline__ void IDRSClusterBarrier()
{
  IDRS_CLUSTER_CODE("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" :: : "memory");
}

/* The same, if each block has written to its own shared memory only. No write to global memory is awaited, which is faster */
static __device__ __forceinline__ void IDRSClusterBarrierOwn()
{
#if CUDART_VERSION >= 12080
  IDRS_CLUSTER_CODE("fence.release.sync_restrict::shared::cta.cluster;\n\t"
                    "barrier.cluster.arrive.relaxed.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" :: : "memory");
#else
  IDRSClusterBarrier();
#endif
}

/*
   Stores two 64-bit words, each in one access, in the shared memory of block `rank` of the cluster, at the offset of *to in this
   block
*/
static __device__ __forceinline__ void IDRSStoreCluster(ulonglong2 *to, unsigned int rank, ulonglong2 words)
{
  unsigned int place = (unsigned int)__cvta_generic_to_shared(to);

  IDRS_CLUSTER_CODE("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(place) : "r"(rank));
  IDRS_CLUSTER_CODE("st.relaxed.cluster.shared::cluster.v2.u64 [%0], {%1, %2};" ::"r"(place), "l"(words.x),
                    "l"(words.y) : "memory");
}

/* Loads a value that another block has stored in this block, without an order between accesses */
static __device__ __forceinline__ ulonglong2 IDRSLoadCluster(const ulonglong2 *from)
{
  ulonglong2 words = {0, 0};

  IDRS_CLUSTER_CODE("ld.relaxed.cluster.shared::cta.v2.u64 {%0, %1}, [%2];" : "=l"(words.x),
                    "=l"(words.y) : "r"((unsigned int)__cvta_generic_to_shared(from)) : "memory");
  return words;
}

/* Returns the configuration of a launch in clusters. All blocks are resident at once, so they may wait for each other */
static inline cudaLaunchConfig_t IDRSClusterConfig(unsigned int clusters, unsigned int size, unsigned int threads, size_t shared,
                                                   cudaStream_t stream, cudaLaunchAttribute attributes[2])
{
  cudaLaunchConfig_t config = {};

  attributes[0].id               = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = size;
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1].id                                                = cudaLaunchAttributeCooperative;
  attributes[1].val.cooperative                                   = 1;
  config.gridDim                                                  = clusters * size;
  config.blockDim                                                 = threads;
  config.dynamicSmemBytes                                         = shared;
  config.stream                                                   = stream;
  config.attrs                                                    = attributes;
  config.numAttrs                                                 = 2;
  return config;
}

/*
   Returns the number of clusters of this size that are resident at once, if each block has all dynamic shared memory of a
   multiprocessor, which is *shared bytes. Both are 0 if the device has no clusters of this size
*/
template <typename... Parameters>
static cudaError_t IDRSGetClusters(void (*kernel)(Parameters...), unsigned int size, unsigned int threads, int *clusters,
                                   size_t *shared)
{
  cudaFuncAttributes  attributes;
  cudaLaunchAttribute launch[2];
  cudaLaunchConfig_t  config;
  int                 device, most = 0;
  bool                can;
  cudaError_t         error = IDRSCanLaunchEarly((const void *)kernel, &can); /* on the same devices as clusters */

  *clusters = 0;
  *shared   = 0;
  if (error != cudaSuccess || !can) return error;
  error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, kernel);
  if (error == cudaSuccess) *shared = (size_t)most - attributes.sharedSizeBytes;
  if (error == cudaSuccess) error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)*shared);
  if (error == cudaSuccess) error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  config          = IDRSClusterConfig(1, size, threads, *shared, NULL, launch);
  config.numAttrs = 1;
  /* the device does not support this size */
  if (error == cudaSuccess && cudaOccupancyMaxActiveClusters(clusters, kernel, &config) != cudaSuccess) {
    (void)cudaGetLastError();
    *clusters = 0;
  }
  if (!*clusters) *shared = 0;
  return error;
}
