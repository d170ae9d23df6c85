/*
   Many steps in one kernel, for systems that fit into the shared memory of all multiprocessors: the panels, r, t, the matrix and u of its rows are in the shared memory of a block from the
   first step to the last, and go back to global memory at the end, where the host continues. A block has neighbouring rows, so that it needs little of the u of others, and a
   multiprocessor for itself.

   Blocks are in clusters, and the sums of a step are made in three parts. Sum i is that of rank i mod size in each cluster:

     of a block           by its warps; then to the rank that has sum i, into its shared memory
     of a cluster         by that rank, in the order of the ranks; then to all clusters, into a mailbox for each in global memory
     of all               by each block, from the mailbox of its cluster, in the order of the clusters

   What goes from block to block is in messages, and why none is overwritten before it is read is argued in whole.cuh for u, and for sums that go from each block to all. Here they go through
   the rank that has them:

     to a rank            Those of steps j and j+1 are in two places. A block writes those of step j+2 over those of step j once it has the sums of all clusters of step j+1. Each of them
                          contains what that rank itself has left for step j+1, and it left that after it had passed on all that it read of step j, and met its threads.
     to a mailbox         A rank posts sums of step j+2 over those of step j once its cluster has left those of step j+2, which each block does after it has the sums of all clusters of
                          step j+1. Each of them contains what the blocks that read this mailbox have left for step j+1, after they had read it in step j.

   A block reads its own mailboxes only, and every store and load is of the same words, relaxed, in the order that data depends on: no fence is needed. No block ends before all of its
   cluster have come to the end, as they might still write to it.

   What a block leaves to itself goes the same way. compute-sanitizer's racecheck knows barriers and no messages: it names these stores of Leave() with the loads of Pass(), and nothing else.
*/
/* Threads of a block at most; a thread has several rows then. With more of them a thread has not the registers that it needs */
#define IDRS_THREADS 384
#include "onchip.h"
#include "../../sys/device/cluster.cuh"

/* Rows of a block that are not too few for one more cluster */
#define IDRS_ONCHIP_ROWS 128

/* Lanes that add up a sum over the clusters */
#define IDRS_CLUSTER_LANES 8

/* Rows of a matrix: in the shared memory of the block, or in global memory */
typedef struct {
  const IDRSMatIndex *i, *j;
  const PetscScalar  *a;
  size_t              n;
} IDRSOwnCSR;

static __device__ __forceinline__ PetscScalar IDRSMatrixValue(const IDRSOwnCSR &A, IDRSIndex q)
{
  return A.a[q];
}

/* The u of a step: in shared memory for the rows of this block, and on its way to those of others */
struct IDRSOwnEntries {
  IDRSBlockMessage    *entries; /* of all rows */
  PetscScalar         *own;
  IDRSIndex            first, n; /* own rows */
  uint32_t             number;
  IDRSBoundedPatience *patience;

  __device__ __forceinline__ void operator()(size_t i, const IDRSPack<1> &u) const
  {
    own[i] = u.v[0];
    IDRSPostScalar(entries + (first + i) * IDRS_PARTS, u.v[0], number);
  }
};

/* The lanes of a warp go on together, as in whole.cu */
static __device__ __forceinline__ bool IDRSGoesOn(const IDRSOwnEntries &, bool left)
{
  return !IDRSWarpAll(!left);
}

/*
   By a warp. All entries of other blocks are on their way before one is looked at: so each is loaded, wanted or not, as there are too few predicates for loads that are not made, and a
   mask says which of them count. What is not wanted is loaded from an entry of this block, as one entry that all blocks load would be asked for one time after another
*/
template <int ATONCE>
static __device__ __forceinline__ void IDRSGather(const IDRSOwnEntries &u, const PetscInt column[ATONCE], PetscScalar entry[ATONCE])
{
  IDRSBlockMessage message[ATONCE * IDRS_PARTS];
  uint32_t         from[ATONCE], others[ATONCE], missing;

#pragma unroll
  for (int l = 0; l < ATONCE; l++) {
    others[l] = column[l] < 0 || (IDRSIndex)column[l] - u.first < u.n ? 0 : 0xffffffffu;
    from[l]   = others[l] ? (uint32_t)column[l] : (uint32_t)u.first;
  }
  do {
    missing = 0;
#pragma unroll
    for (int l = 0; l < ATONCE * IDRS_PARTS; l++) message[l] = IDRSLoadRelaxed(u.entries + (from[l / IDRS_PARTS] * IDRS_PARTS + l % IDRS_PARTS));
#pragma unroll
    for (int l = 0; l < ATONCE * IDRS_PARTS; l++) missing |= others[l / IDRS_PARTS] & IDRSMessageLacks(message[l], u.number);
  } while (!IDRSWarpAll(!missing || u.patience->Ends()));
#pragma unroll
  for (int l = 0; l < ATONCE; l++) {
    entry[l] = column[l] < 0 || others[l] ? (PetscScalar)0.0 : u.own[(IDRSIndex)column[l] - u.first];
    if (others[l]) entry[l] = IDRSMessagesScalar(message + l * IDRS_PARTS);
  }
}

/* Messages for the sums that a rank has, from all ranks, in one step */
template <int S>
static constexpr int IDRSClusterMessages = IDRSRealSums<S, true, true> + IDRS_CLUSTER_BLOCKS;

/* Memory of a block for the sums of its step and of its cluster */
template <int S>
struct IDRSOnChipSums {
  IDRSBlockMessage messages[2][IDRSClusterMessages<S>]; /* from the blocks of the cluster, for odd and even steps */
  PetscReal        warps[IDRSRealSums<S, true, true> * IDRS_WARPS];
  int              places[2][IDRSRealSums<S, true, true>]; /* of the sums, without a y and with it */
};

/* Blocks whose rows are in shared memory */
template <int SMAX>
struct IDRSOnChipBlocks {
  typedef IDRSBlockRows Rows;
  IDRSOwnCSR            A;
  IDRSOwnEntries        u;
  IDRSCluster           cluster;
  IDRSOnChipSums<SMAX> *shared;
  IDRSBlockMessage     *mailboxes, *second; /* of all clusters, for even steps and for odd ones */

  /* By all threads: the sums of this block, to the ranks that have them. Returns whether a message has not come */
  template <int S, bool Y>
  __device__ __forceinline__ bool Leave(const IDRSDots<S, Y, true> &block, IDRSBlockMessage *slots)
  {
    constexpr int dots = IDRSDots<S, Y, true>::count, count = IDRSRealSums<S, Y, true>;
    const int     warps = blockDim.x / IDRS_WARP;
    PetscReal     values[count];
    bool          lost;

#pragma unroll
    for (int i = 0; i < dots; i++) {
      values[i * IDRS_PARTS] = PetscRealPart(block.dot[i]);
      if (IDRS_PARTS > 1) values[i * IDRS_PARTS + IDRS_PARTS - 1] = PetscImaginaryPart(block.dot[i]);
    }
#pragma unroll
    for (int i = dots * IDRS_PARTS; i < count; i++) values[i] = block.square[i - dots * IDRS_PARTS];
    IDRSWarpSumsShared<count>(values, shared->warps);
    lost = __syncthreads_or(!u.patience->left);
    for (unsigned int i = threadIdx.x; i < count; i += blockDim.x) IDRSStoreCluster(slots + (i & ~(cluster.size - 1)) + cluster.rank, i & (cluster.size - 1), IDRSMakeMessage(IDRSWarpsTotal(shared->warps, (int)i, warps), u.number));
    return lost;
  }

  /* By a warp, half of it for a sum: the sums of the cluster that this rank has, to all clusters */
  template <int count>
  __device__ __forceinline__ void Pass(const IDRSBlockMessage *slots, IDRSBlockMessage *boxes)
  {
    const unsigned int lane = threadIdx.x % (IDRS_WARP / 2), half = threadIdx.x / (IDRS_WARP / 2);

    for (unsigned int begin = cluster.rank; begin < count; begin += 2 * cluster.size) {
      const unsigned int i    = begin + half * cluster.size;
      const bool         mine = i < count && lane < cluster.size;
      IDRSBlockMessage   message;
      PetscReal          sum;

      do message = IDRSLoadCluster(slots + (mine ? (i & ~(cluster.size - 1)) + lane : 0));
      while (!IDRSWarpAll(!mine || IDRSMessageHasCome(message, u.number) || u.patience->Ends()));
      sum = mine ? IDRSMessageValue(message) : (PetscReal)0.0;
#pragma unroll
      for (int offset = IDRS_WARP / 4; offset > 0; offset /= 2) sum += IDRSShuffleXor(sum, offset);
      for (unsigned int to = lane; i < count && to < cluster.count; to += IDRS_WARP / 2) IDRSPostMessage(boxes + (to * count + i) * cluster.count + cluster.index, sum, u.number);
    }
  }

  /* By a warp: the sums of all clusters, from the mailbox of this one, 4 sums at a time */
  template <int S, bool Y, bool HASHED>
  __device__ __forceinline__ void Take(const IDRSBlockMessage *boxes, PetscScalar *sums)
  {
    constexpr int           count = IDRSRealSums<S, Y, true>, together = IDRS_WARP / IDRS_CLUSTER_LANES, rounds = (count + together - 1) / together;
    const unsigned int      lane = threadIdx.x % IDRS_CLUSTER_LANES, first = threadIdx.x / IDRS_CLUSTER_LANES;
    const IDRSBlockMessage *mine = boxes + (cluster.index * count + first) * cluster.count + lane;
    int                     place[rounds];
    PetscReal               total[rounds];

#pragma unroll
    for (int k = 0; k < rounds; k++) {
      total[k] = 0.0;
      place[k] = lane == 0 && k * together + first < count ? shared->places[Y][k * together + first] : -1;
    }
    for (unsigned int begin = 0; begin < cluster.count; begin += IDRS_CLUSTER_LANES) {
      const bool       there = begin + lane < cluster.count;
      IDRSBlockMessage message[rounds];
      uint32_t         missing;

      do {
        missing = 0;
#pragma unroll
        for (int k = 0; k < rounds; k++) message[k] = IDRSLoadRelaxed(there && k * together + first < count ? mine + k * together * cluster.count + begin : mine - lane);
#pragma unroll
        for (int k = 0; k < rounds; k++) missing |= there && k * together + first < count ? IDRSMessageLacks(message[k], u.number) : 0;
      } while (!IDRSWarpAll(!missing || u.patience->Ends()));
#pragma unroll
      for (int k = 0; k < rounds; k++) total[k] += there ? IDRSMessageValue(message[k]) : (PetscReal)0.0;
    }
#pragma unroll
    for (int offset = IDRS_CLUSTER_LANES / 2; offset > 0; offset /= 2) {
#pragma unroll
      for (int k = 0; k < rounds; k++) total[k] += IDRSShuffleXor(total[k], offset);
    }
#pragma unroll
    for (int k = 0; k < rounds; k++) {
      if (place[k] >= 0) ((PetscReal *)sums)[place[k]] = total[k] * IDRSSumScale<S, Y, HASHED>(k * together + (int)first);
    }
  }

  template <int S, bool Y, bool HASHED>
  __device__ __forceinline__ bool Sums(const IDRSDots<S, Y, true> &dots, const IDRSShadow<S> &, PetscScalar *sums)
  {
    IDRSBlockMessage *slots = shared->messages[u.number % 2], *boxes = u.number % 2 ? second : mailboxes;
    const bool        lost = Leave<S, Y>(dots, slots);

    if (threadIdx.x >= IDRS_WARP) return lost;
    Pass<IDRSRealSums<S, Y, true>>(slots, boxes);
    Take<S, Y, HASHED>(boxes, sums);
    IDRS_SYNC_WARP();
    return lost || !IDRSWarpAll(u.patience->left);
  }

  /* Own entries of u are there for all threads of the block */
  __device__ __forceinline__ void Meet() const { __syncthreads(); }
};

/* Copies between shared and global memory, by all threads of a block */
template <typename T>
static __device__ __forceinline__ void IDRSCopyEntries(T *to, const T *from, size_t n)
{
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
}

template <int S, bool HASHED>
static __global__ void __launch_bounds__(IDRS_THREADS, 1) IDRSOnChipKernel(const __grid_constant__ IDRSWholeSteps given, const __grid_constant__ IDRSShadow<S> shadow, const __grid_constant__ IDRSOnChip onchip)
{
  extern __shared__ __align__(16) PetscScalar chip[];
  __shared__ IDRSOnChipSums<S> sums;
  const size_t                 rows = onchip.rows, first = min((size_t)blockIdx.x * rows, given.panels.n), n = min(rows, given.panels.n - first);
  const int                    s        = given.panels.s;
  IDRSBoundedPatience          patience = {IDRS_WHOLE_POLLS};
  IDRSWholeSteps               steps    = given;
  IDRSShadow<S>                P        = shadow;
  PetscScalar                 *free     = chip + (2 * s + 3) * rows;
  IDRSOwnCSR                   A        = {given.A.i + first, given.A.j, given.A.a, n};
  IDRSStep                     step;

  steps.panels = {chip, chip + s * rows, rows, n, s};
  steps.r      = chip + 2 * s * rows;
  steps.t      = steps.r + rows;
  steps.z += first;
  steps.v += first;
  if (given.x) {
    steps.x += first;
    steps.anchor += first;
  }
  for (int j = 0; j < s; j++) {
    IDRSCopyEntries(steps.panels.G + j * rows, given.panels.G + j * given.panels.ld + first, n);
    IDRSCopyEntries(steps.panels.U + j * rows, given.panels.U + j * given.panels.ld + first, n);
  }
  IDRSCopyEntries(steps.r, given.r + first, n);
  if (given.diagonal) {
    IDRSCopyEntries(free, given.diagonal + first, n);
    steps.diagonal = free;
    free += rows;
  }
  if (onchip.nonzeros) {
    const IDRSMatIndex begin = given.A.i[first];
    const size_t       count = given.A.i[first + n] - begin;
    IDRSMatIndex      *j = (IDRSMatIndex *)(free + onchip.nonzeros), *i = j + onchip.nonzeros;

    IDRSCopyEntries(free, given.A.a + begin, count);
    IDRSCopyEntries(j, given.A.j + begin, count);
    for (size_t k = threadIdx.x; k <= n; k += blockDim.x) i[k] = given.A.i[first + k] - begin;
    A = {i, j, free, n};
  }
  P.rstart += first;
  if (!HASHED) {
#pragma unroll
    for (int j = 0; j < S; j++) P.a[j] += first;
  }
  for (int i = threadIdx.x; i < IDRSClusterMessages<S>; i += blockDim.x) sums.messages[0][i] = sums.messages[1][i] = {0, 0};
  for (int i = threadIdx.x; i < IDRSRealSums<S, true, true>; i += blockDim.x) {
    sums.places[0][i] = i < IDRSRealSums<S, false, true> ? IDRSSumPlace<S, false, true>(P, i) : -1;
    sums.places[1][i] = IDRSSumPlace<S, true, true>(P, i);
  }
  IDRSClusterMeet();
  {
    IDRSOnChipBlocks<S> blocks = {
      A, {given.entries, steps.t + rows, (IDRSIndex)first, (IDRSIndex)n, given.partials.launch, &patience},
       IDRSGetCluster(), &sums, given.partials.messages, given.partials.second
    };

    step = IDRSWholeRun<S, HASHED>(steps, P, blocks);
  }
  for (int j = 0; j < s; j++) {
    IDRSCopyEntries(given.panels.G + j * given.panels.ld + first, steps.panels.G + j * rows, n);
    IDRSCopyEntries(given.panels.U + j * given.panels.ld + first, steps.panels.U + j * rows, n);
  }
  IDRSCopyEntries(given.r + first, steps.r, n);
  if (step.k == s) IDRSCopyEntries(given.t + first, steps.t, n);
  IDRSClusterMeet();
}

/* Nonzeros of the rows of a block at most, where each has so many rows */
static size_t IDRSGetMostNonzeros(size_t n, const PetscInt *i, size_t rows)
{
  size_t most = 0;

  for (size_t begin = 0; begin < n; begin += rows) most = PetscMax(most, (size_t)(i[PetscMin(n, begin + rows)] - i[begin]));
  return most;
}

/* As many clusters of such a size as the device holds of a kernel, whose blocks have a multiprocessor each; *shared: bytes of shared memory that the kernel leaves to a block */
template <typename... Parameters>
static cudaError_t IDRSGetClusters(void (*kernel)(Parameters...), unsigned int size, int *clusters, size_t *shared)
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
  config          = IDRSClusterConfig(1, size, IDRS_THREADS, *shared, NULL, launch);
  config.numAttrs = 1;
  if (error == cudaSuccess && cudaOccupancyMaxActiveClusters(clusters, kernel, &config) != cudaSuccess) { /* a size that the device does not have */
    (void)cudaGetLastError();
    *clusters = 0;
  }
  return error;
}

/* Bytes of shared memory for such blocks */
static size_t IDRSOnChipBytes(PetscInt s, bool diagonal, size_t rows, size_t nonzeros)
{
  size_t bytes = (2 * (size_t)s + (diagonal ? 4 : 3)) * rows * sizeof(PetscScalar);

  if (nonzeros) bytes += nonzeros * (sizeof(PetscScalar) + sizeof(IDRSMatIndex)) + (rows + 1) * sizeof(IDRSMatIndex);
  return bytes;
}

/*
   IDRSOnChipSetUp_CUDA - How the system lies in shared memory: with the matrix if that fits, in clusters that are as large as can be, and in as few of them as leave each thread
   a row. There are fewer multiprocessors for larger clusters
*/
PetscErrorCode IDRSOnChipSetUp_CUDA(IDRSWork work, const PetscInt *i, IDRSOnChip *onchip)
{
  const size_t n = (size_t)work->n;
  bool         can;

  PetscFunctionBegin;
  *onchip = {};
  PetscCallCUDA(IDRSCanLaunchEarly((const void *)IDRSOnChipKernel<1, true>, &can)); /* the same devices */
  if (!can) PetscFunctionReturn(PETSC_SUCCESS);
  for (int matrix = 1; matrix >= 0 && !onchip->clusters; matrix--) {
    for (unsigned int size = IDRS_CLUSTER_BLOCKS; size >= 4 && !onchip->clusters; size /= 2) {
      int    clusters;
      size_t shared, rows, nonzeros;

      PetscCall(IDRSDispatchWhole(work, [&](auto S, auto hashed, auto) { return IDRSGetClusters(IDRSOnChipKernel<S, hashed>, size, &clusters, &shared); }));
      if (!clusters) continue;
      clusters = PetscMin(clusters, IDRS_WARP); /* mailboxes that there is room for */
      clusters = (int)PetscMax(PetscMin((size_t)clusters, (n + size * IDRS_ONCHIP_ROWS - 1) / (size * IDRS_ONCHIP_ROWS)), (size_t)1);
      rows     = PetscMax((n + clusters * size - 1) / (clusters * size), (size_t)1);
      nonzeros = matrix ? IDRSGetMostNonzeros(n, i, rows) : 0;
      if (IDRSOnChipBytes(work->s, work->diagonal, rows, nonzeros) > shared) continue;
      *onchip       = {(unsigned int)clusters, size, (unsigned int)PetscMin((rows + IDRS_WARP - 1) / IDRS_WARP * IDRS_WARP, (size_t)IDRS_THREADS), rows, nonzeros, 0};
      onchip->bytes = PetscMax(IDRSOnChipBytes(work->s, work->diagonal, rows, nonzeros), shared / 2 + 1); /* no two blocks on a multiprocessor */
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSOnChipLaunch_CUDA(IDRSWork work, const IDRSOnChip *onchip, const IDRSWholeSteps *steps, cudaStream_t stream)
{
  PetscFunctionBegin;
  PetscCall(IDRSDispatchWhole(work, [&](auto S, auto hashed, auto shadow) {
    cudaLaunchAttribute      attributes[2];
    const cudaLaunchConfig_t config = IDRSClusterConfig(onchip->clusters, onchip->size, onchip->threads, onchip->bytes, stream, attributes);

    return cudaLaunchKernelEx(&config, IDRSOnChipKernel<S, hashed>, *steps, shadow, *onchip);
  }));
  PetscFunctionReturn(PETSC_SUCCESS);
}
