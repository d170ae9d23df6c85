/*
   Blocks in clusters, which write into each other's shared memory: devices of compute capability 9.0 and later. No PETSc call.
*/
#pragma once

#include "target.cuh"

/* Largest number of blocks in a cluster, beyond the 8 that every such device has */
#define IDRS_CLUSTER_BLOCKS 16

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  #define IDRS_CLUSTER_CODE(...) asm volatile(__VA_ARGS__)
#else
  #define IDRS_CLUSTER_CODE(...) (void)0
#endif

/* The place of a block */
typedef struct {
  unsigned int rank, size, index, count; /* in its cluster, of so many blocks, a power of 2; of which of the clusters */
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

/* All threads of all blocks of a cluster meet, and see what has been written to shared memory before */
static __device__ __forceinline__ void IDRSClusterBarrier()
{
  IDRS_CLUSTER_CODE("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" :: : "memory");
}

/*
   Two words of 64 bits, each in one access, into the shared memory of a block of the cluster, at the place that *to is at in this
   one
*/
static __device__ __forceinline__ void IDRSStoreCluster(ulonglong2 *to, unsigned int rank, ulonglong2 words)
{
  unsigned int place = (unsigned int)__cvta_generic_to_shared(to);

  IDRS_CLUSTER_CODE("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(place) : "r"(rank));
  IDRS_CLUSTER_CODE("st.relaxed.cluster.shared::cluster.v2.u64 [%0], {%1, %2};" ::"r"(place), "l"(words.x),
                    "l"(words.y) : "memory");
}

/* Loads a value that another block has stored here, without an order between accesses */
static __device__ __forceinline__ ulonglong2 IDRSLoadCluster(const ulonglong2 *from)
{
  ulonglong2 words = {0, 0};

  IDRS_CLUSTER_CODE("ld.relaxed.cluster.shared::cta.v2.u64 {%0, %1}, [%2];" : "=l"(words.x),
                    "=l"(words.y) : "r"((unsigned int)__cvta_generic_to_shared(from)) : "memory");
  return words;
}

/* The same from the shared memory of a block of the cluster, from the place that *from is at in this one */
static __device__ __forceinline__ ulonglong2 IDRSLoadRank(const ulonglong2 *from, unsigned int rank)
{
  unsigned int place = (unsigned int)__cvta_generic_to_shared(from);
  ulonglong2   words = {0, 0};

  IDRS_CLUSTER_CODE("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(place) : "r"(rank));
  IDRS_CLUSTER_CODE("ld.relaxed.cluster.shared::cluster.v2.u64 {%0, %1}, [%2];" : "=l"(words.x),
                    "=l"(words.y) : "r"(place) : "memory");
  return words;
}

/* A launch of blocks in clusters, all of them resident at once, so that they may wait for each other */
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
   As many clusters of such a size as the device holds of a kernel, whose blocks have a multiprocessor each; *shared: bytes of
   shared memory that the kernel leaves to a block
*/
template <typename... Parameters>
static cudaError_t IDRSGetClusters(void (*kernel)(Parameters...), unsigned int size, unsigned int threads, int *clusters,
                                   size_t *shared)
{
  cudaFuncAttributes  attributes;
  cudaLaunchAttribute launch[2];
  cudaLaunchConfig_t  config;
  int                 device, most = 0;
  cudaError_t         error = cudaGetDevice(&device);

  *clusters = 0;
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, kernel);
  if (error == cudaSuccess) *shared = (size_t)most - attributes.sharedSizeBytes;
  if (error == cudaSuccess) error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)*shared);
  if (error == cudaSuccess) error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  config          = IDRSClusterConfig(1, size, threads, *shared, NULL, launch);
  config.numAttrs = 1;
  /* a size that the device does not have */
  if (error == cudaSuccess && cudaOccupancyMaxActiveClusters(clusters, kernel, &config) != cudaSuccess) {
    (void)cudaGetLastError();
    *clusters = 0;
  }
  return error;
}
