/*
   The persistent kernel for systems that fit in the shared memory of all multiprocessors. The bases, r and u of its rows, and if
   they fit also t and the matrix, are in the shared memory of a block from the first step to the last. At the end they are copied
   to global memory, where the host continues. A block has neighbouring rows, so that it needs few entries of u of other blocks, and
   each block has its own multiprocessor. It copies each entry that it needs to its shared memory once before the product, and the
   columns of the matrix are places there. A matrix in global memory has the same order.

   Blocks are in clusters, and the sums of a step are computed in three stages. Sum i belongs to rank i mod size in each cluster:

     of a block           by its warps; then stored in the shared memory of the rank that sum i belongs to
     of a cluster         by a warp of that rank, in a fixed order of the ranks; then stored for all clusters, in one mailbox for
                          each cluster in global memory
     of all               by the first warp of each block, from the mailbox of its cluster, in a fixed order of the clusters

   Meanwhile the first warp prepares the algebra.

   Blocks exchange messages. persistent.cuh explains why no message is overwritten before it is read, for u, and for sums that go
   from each block to all others. Here sums go through the rank that they belong to:

     to a rank            Sums of steps j and j+1 have two places. A block stores its sums of step j+2 over those of step j after
                          it has the sums of all clusters of step j+1. The sums of step j+1 include the part of that rank, which
                          stores it only after it has forwarded its reads of step j and passed a barrier.
     to a mailbox         A rank posts its sums of step j+2 over those of step j after all blocks of its cluster have stored theirs
                          of step j+2, which each does after it has the sums of all clusters of step j+1. These include the parts
                          of the blocks that read this mailbox, which they store after they have read it in step j.

   The thread that reads an entry of u from another block also stores it in shared memory, and a barrier separates this store from
   the product. So the sums of a block depend on all entries of u that it has read.

   A block reads only its own mailboxes. All stores and loads of a message are relaxed, of the same words, and ordered by data
   dependences, so no fence is needed. No block ends before all blocks of its cluster have finished, because they might still store
   to its shared memory.

   A message of a block to itself takes the same path. The racecheck tool of compute-sanitizer understands barriers, but not
   messages: it reports these stores of PostSums() and the loads that wait for them as hazards.
*/
#include "persistentlayout.h"
#include "../../sys/device/cluster.cuh"

#define IDRS_CLUSTERED_WARPS (IDRS_CLUSTERED_THREADS / IDRS_WARP)

/* Lanes that add one sum over the blocks of a cluster */
#define IDRS_CLUSTER_LANES 4

/* Entries of other blocks that a thread loads at the same time */
#define IDRS_SHARED_ATONCE 6

/* Rows of a matrix whose columns are places in shared memory: see IDRSClustered */
typedef struct {
  const PetscScalar *a;
  const uint16_t    *j;
  const uint32_t    *slice;
} IDRSSharedMatrix;

/* The u of a step in shared memory: own rows, then the entries of other blocks, which are read before the product */
struct IDRSSharedEntries {
  IDRSBlockMessage *entries; /* of all rows, in global memory */
  PetscScalar      *own;
  uint32_t          first, n; /* own rows */
  const uint32_t   *others;   /* row numbers of the entries of other blocks */
  uint32_t          count;
  uint32_t          number;
  IDRSWaitPolls    *wait;
  uint32_t          row[IDRS_SHARED_ATONCE]; /* of the first entries that this thread loads, see Rows() */

  /* Sets the row numbers of entries begin, begin + blockDim.x, ... of other blocks; the last entry if there are no more */
  __device__ __forceinline__ void Rows(uint32_t begin, uint32_t rows[IDRS_SHARED_ATONCE]) const
  {
#pragma unroll
    for (int l = 0; l < IDRS_SHARED_ATONCE; l++) rows[l] = count ? __ldg(others + min(begin + l * blockDim.x, count - 1)) : 0;
  }

  __device__ __forceinline__ void operator()(size_t i, const IDRSPack<1> &u) const
  {
    own[i] = u.v[0];
    IDRSPostScalar(entries + (first + i) * IDRS_PARTS, u.v[0], number);
  }
};

/*
   Returns the entry of A u in row + lane, where row is the first of 32 rows. All loads are issued at the same time, because none
   depends on a test: entries after the end are loaded, and multiplied by zero; after the last row there is padding. One warp
*/
static __device__ __forceinline__ PetscScalar IDRSSharedRowSum(const IDRSSharedMatrix &A, const PetscScalar *u, uint32_t row)
{
  const uint32_t end    = A.slice[row / IDRS_WARP + 1];
  PetscScalar    sum[2] = {0.0, 0.0};

#pragma unroll 1
  for (uint32_t p = A.slice[row / IDRS_WARP] + threadIdx.x % IDRS_WARP; p < end; p += IDRS_PERSISTENT_ATONCE * IDRS_WARP) {
    PetscScalar value[IDRS_PERSISTENT_ATONCE], entry[IDRS_PERSISTENT_ATONCE];
    uint32_t    place[IDRS_PERSISTENT_ATONCE];

#pragma unroll
    for (int l = 0; l < IDRS_PERSISTENT_ATONCE; l++) {
      place[l] = A.j[p + l * IDRS_WARP];
      value[l] = A.a[p + l * IDRS_WARP];
    }
#pragma unroll
    for (int l = 0; l < IDRS_PERSISTENT_ATONCE; l++) entry[l] = u[place[l]];
#pragma unroll
    for (int l = 0; l < IDRS_PERSISTENT_ATONCE; l++)
      sum[l % 2] += (p + l * IDRS_WARP < end ? value[l] : (PetscScalar)0.0) * entry[l];
  }
  return sum[0] + sum[1];
}

/*
   Waits until own entries and those of other blocks are in shared memory. All loads are issued before the first value is tested. A
   lane without a further entry loads the last one
*/
static __device__ __forceinline__ void IDRSReadOthers(const IDRSSharedEntries &u)
{
  uint32_t row[IDRS_SHARED_ATONCE];

#pragma unroll
  for (int l = 0; l < IDRS_SHARED_ATONCE; l++) row[l] = u.row[l];
  for (uint32_t begin = threadIdx.x; begin - threadIdx.x % IDRS_WARP < u.count; begin += IDRS_SHARED_ATONCE * blockDim.x) {
    IDRSBlockMessage message[IDRS_SHARED_ATONCE * IDRS_PARTS];
    uint32_t         missing;

    if (begin != threadIdx.x) u.Rows(begin, row);
    do {
      missing = 0;
#pragma unroll
      for (int l = 0; l < IDRS_SHARED_ATONCE * IDRS_PARTS; l++)
        message[l] = IDRSLoadRelaxed(u.entries + (size_t)row[l / IDRS_PARTS] * IDRS_PARTS + l % IDRS_PARTS);
#pragma unroll
      for (int l = 0; l < IDRS_SHARED_ATONCE * IDRS_PARTS; l++) missing |= IDRSMessageLacks(message[l], u.number);
    } while (!IDRSWarpAll(!missing) && !u.wait->Ends());
#pragma unroll
    for (int l = 0; l < IDRS_SHARED_ATONCE; l++) {
      if (begin + l * blockDim.x < u.count) u.own[u.n + begin + l * blockDim.x] = IDRSMessagesScalar(message + l * IDRS_PARTS);
    }
  }
  __syncthreads();
}

/* Messages for the sums that belong to a rank, from all ranks, in one step */
template <int S>
static constexpr int IDRSClusterMessages = IDRSRealSums<S, true, true> + IDRS_CLUSTER_BLOCKS;

/* Memory of a block for its own sums and for those of its cluster */
template <int S>
struct IDRSClusteredSums {
  IDRSBlockMessage messages[2][IDRSClusterMessages<S>]; /* from the blocks of the cluster, for even and odd steps */
  PetscReal        warps[IDRS_CLUSTERED_WARPS][IDRSRealSums<S, true, true>]; /* zero for warps without rows */
};

/* Blocks whose rows are in shared memory */
template <int SMAX>
struct IDRSClusteredBlocks {
  typedef IDRSBlockRows    Rows;
  static constexpr bool    poly = false;
  IDRSSharedMatrix         A;
  IDRSSharedEntries        u;
  IDRSCluster              cluster;
  IDRSClusteredSums<SMAX> *shared;
  /* of all clusters, for even and odd steps; with an array and a variable index, the members would be in local memory */
  IDRSBlockMessage *even, *odd;

  __device__ __forceinline__ PetscScalar Product(size_t i) const
  {
    return IDRSSharedRowSum(A, u.own, (uint32_t)i - threadIdx.x % IDRS_WARP);
  }

  __device__ __forceinline__ void Synchronize() const { IDRSReadOthers(u); }

  /* Stores the sums of this block in the ranks that they belong to. Called by all threads. Returns true if a wait has timed out */
  template <int S, bool Y>
  __device__ __forceinline__ bool PostSums(const IDRSDots<S, Y, true> &block)
  {
    constexpr int     dots = IDRSDots<S, Y, true>::count, count = IDRSRealSums<S, Y, true>;
    IDRSBlockMessage *slots = shared->messages[u.number % 2];
    PetscReal         values[count];

#pragma unroll
    for (int i = 0; i < dots; i++) {
      values[i * IDRS_PARTS] = PetscRealPart(block.dot[i]);
      if (IDRS_PARTS > 1) values[i * IDRS_PARTS + IDRS_PARTS - 1] = PetscImaginaryPart(block.dot[i]);
    }
#pragma unroll
    for (int i = dots * IDRS_PARTS; i < count; i++) values[i] = block.square[i - dots * IDRS_PARTS];
    IDRSWarpSums<count>(values, [&](int i, PetscReal sum) { shared->warps[threadIdx.x / IDRS_WARP][i] = sum; });
    if (__syncthreads_or(!u.wait->left)) return true; /* no sums are posted if a part is missing */
    for (unsigned int i = threadIdx.x; i < count; i += blockDim.x) {
      PetscReal sum[4] = {0.0, 0.0, 0.0, 0.0}; /* all other threads wait: four short chains of additions */

#pragma unroll
      for (int w = 0; w < IDRS_CLUSTERED_WARPS; w++) sum[w % 4] += shared->warps[w][i];
      IDRSStoreCluster(slots + (i & ~(cluster.size - 1)) + cluster.rank, i & (cluster.size - 1),
                       IDRSMakeMessage((sum[0] + sum[1]) + (sum[2] + sum[3]), u.number));
    }
    return false;
  }

  /*
     Adds the sums of the cluster that belong to this rank, with several lanes per sum, and posts them for all clusters. Called by a
     warp. No sum is posted if a part is missing
  */
  __device__ __forceinline__ void AddInCluster(unsigned int count, const IDRSBlockMessage *slots, IDRSBlockMessage *boxes)
  {
    constexpr int      atonce = IDRS_WARP / IDRS_CLUSTER_LANES, ranks = IDRS_CLUSTER_BLOCKS / IDRS_CLUSTER_LANES;
    const unsigned int lane = threadIdx.x % IDRS_CLUSTER_LANES;

    for (unsigned int begin = cluster.rank; begin < count; begin += atonce * cluster.size) {
      const unsigned int i     = begin + threadIdx.x % IDRS_WARP / IDRS_CLUSTER_LANES * cluster.size;
      const bool         mine  = i < count;
      const size_t       apart = IDRS_CLUSTER_LANES * cluster.count * count;
      IDRSBlockMessage  *box   = boxes + (lane * cluster.count + cluster.index) * count + i;
      IDRSBlockMessage   message[ranks];
      PetscReal          sum = 0.0;
      uint32_t           missing;

      do {
        missing = 0;
#pragma unroll
        for (int l = 0; l < ranks; l++)
          message[l] = IDRSLoadCluster(slots + (mine ? i & ~(cluster.size - 1) : 0) +
                                       ((lane + l * IDRS_CLUSTER_LANES) & (cluster.size - 1)));
#pragma unroll
        for (int l = 0; l < ranks; l++) missing |= IDRSMessageLacks(message[l], u.number);
      } while (!IDRSWarpAll(!mine || !missing) && !u.wait->Ends());
#pragma unroll
      for (int l = 0; l < ranks; l++) sum += l * IDRS_CLUSTER_LANES < cluster.size ? IDRSMessageValue(message[l]) : (PetscReal)0.0;
#pragma unroll
      for (int offset = IDRS_CLUSTER_LANES / 2; offset > 0; offset /= 2) sum += IDRSShuffleXor(sum, offset);
      if (!u.wait->left) return;
#pragma unroll 1
      for (unsigned int to = lane; mine && to < cluster.count; to += IDRS_CLUSTER_LANES, box += apart)
        IDRSPostMessage(box, sum, u.number);
    }
  }

  /*
     Adds the sums of all blocks in the first warp, with one lane per sum, while the second one adds those of its cluster. Called by
     all threads
  */
  template <int S, typename Meanwhile>
  __device__ __forceinline__ bool AddSums(bool y, const IDRSShadow<S> &P, PetscScalar *sums, const Meanwhile &meanwhile)
  {
    const int         count = y ? IDRSRealSums<S, true, true> : IDRSRealSums<S, false, true>;
    IDRSBlockMessage *boxes = u.number % 2 ? odd : even;

    if (threadIdx.x / IDRS_WARP == (blockDim.x > IDRS_WARP ? 1 : 0)) AddInCluster(count, shared->messages[u.number % 2], boxes);
    if (threadIdx.x >= IDRS_WARP) return false;
    meanwhile();
    boxes += cluster.index * cluster.count * count;
#pragma unroll 1
    for (int begin = 0; begin < count; begin += IDRS_WARP) {
      const int i     = min(begin + (int)threadIdx.x, count - 1);
      const int place = y ? IDRSSumPlace<S, true, true>(P, i) : IDRSSumPlace<S, false, true>(P, i);
      PetscReal total = 0.0;

      for (unsigned int first = 0; first < cluster.count; first += IDRS_LOADS_AT_ONCE) {
        IDRSBlockMessage message[IDRS_LOADS_AT_ONCE];
        PetscReal        sum[IDRS_LOADS_AT_ONCE];
        uint32_t         missing;

        do {
          missing = 0;
#pragma unroll
          for (int l = 0; l < IDRS_LOADS_AT_ONCE; l++)
            message[l] = IDRSLoadRelaxed(boxes + min(first + l, cluster.count - 1) * count + i);
#pragma unroll
          for (int l = 0; l < IDRS_LOADS_AT_ONCE; l++) missing |= IDRSMessageLacks(message[l], u.number);
        } while (!IDRSWarpAll(!missing) && !u.wait->Ends());
#pragma unroll
        for (int l = 0; l < IDRS_LOADS_AT_ONCE; l++)
          sum[l] = first + l < cluster.count ? IDRSMessageValue(message[l]) : (PetscReal)0.0;
#pragma unroll
        for (int half = IDRS_LOADS_AT_ONCE / 2; half > 0; half /= 2) {
#pragma unroll
          for (int l = 0; l < half; l++) sum[l] += sum[l + half];
        }
        total += sum[0];
      }
      total *= y ? IDRSSumScale<S, true>(i) : IDRSSumScale<S, false>(i);
      if (begin + (int)threadIdx.x < count && place >= 0) ((PetscReal *)sums)[place] = total;
    }
    IDRS_SYNC_WARP();
    return !u.wait->left;
  }
};

/* Copies between shared and global memory, by all threads of a block */
template <typename T>
static __device__ __forceinline__ void IDRSCopyEntries(T *to, const T *from, size_t n)
{
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
}

/* The order of the arrays in shared memory is that of IDRSClusteredBytes() */
template <int S>
static __global__ void __launch_bounds__(IDRS_CLUSTERED_THREADS, 1)
  IDRSClusteredKernel(const __grid_constant__ IDRSPersistentSteps given, const __grid_constant__ IDRSShadow<S> shadow,
                      const __grid_constant__ IDRSClustered clustered, const __grid_constant__ IDRSClusteredMemory global)
{
  extern __shared__ __align__(16) PetscScalar memory[];
  __shared__ IDRSClusteredSums<S> sums;
  const size_t rows = IDRSKeep((unsigned int)clustered.rows), first = min((size_t)blockIdx.x * rows, given.bases.n),
               n = IDRSKeep((unsigned int)min(rows, given.bases.n - first)), slices = (rows + IDRS_WARP - 1) / IDRS_WARP;
  const int           s      = (int)IDRSKeep((unsigned int)given.bases.s);
  const uint32_t     *others = clustered.firstother + blockIdx.x;
  PetscScalar        *G = memory, *U = G + s * rows, *r = U + s * rows, *own = r + rows, *free = own + rows + clustered.others;
  IDRSWaitPolls       wait  = {given.polls};
  IDRSPersistentSteps steps = given;
  IDRSShadow<S>       P     = shadow;
  PetscScalar        *a     = global.a + blockIdx.x * clustered.slots;
  uint16_t           *j     = global.j + blockIdx.x * clustered.slots;
  uint32_t           *slice;
  IDRSStep            step;

  steps.bases = {G, U, rows, n, s};
  steps.r     = r;
  steps.t += first;
  steps.z += first;
  steps.v += first;
  if (given.x) {
    steps.x += first;
    steps.anchor += first;
  }
  P.rstart += first;
  for (int k = 0; k < s; k++) {
    IDRSCopyEntries(G + k * rows, given.bases.G + k * given.bases.ld + first, n);
    IDRSCopyEntries(U + k * rows, given.bases.U + k * given.bases.ld + first, n);
  }
  IDRSCopyEntries(r, given.r + first, n);
  if (given.diagonal) {
    IDRSCopyEntries(free, given.diagonal + first, n);
    steps.diagonal = free;
    free += rows;
  }
  if (clustered.matrix) {
    steps.t = free;
    a       = free + rows;
    free    = a + clustered.slots;
  }
  slice = (uint32_t *)free;
  if (clustered.matrix) j = (uint16_t *)(slice + slices + 1);
  for (int i = threadIdx.x; i < IDRSClusterMessages<S>; i += blockDim.x) sums.messages[0][i] = sums.messages[1][i] = {0, 0};
  for (int i = threadIdx.x; i < IDRS_CLUSTERED_WARPS * IDRSRealSums<S, true, true>; i += blockDim.x) (&sums.warps[0][0])[i] = 0.0;
  IDRSCopyEntries(slice, clustered.slice + blockIdx.x * (slices + 1), slices + 1);
  for (size_t k = threadIdx.x; k < clustered.slots; k += blockDim.x) {
    a[k] = 0.0;
    j[k] = 0;
  }
  __syncthreads();
  for (IDRSMatIndex q = given.A.i[first] + threadIdx.x; q < given.A.i[first + n]; q += blockDim.x) {
    const uint32_t place = clustered.places[q];

    a[place >> 16] = given.A.a[q];
    j[place >> 16] = (uint16_t)place;
  }
  {
    const IDRSSharedMatrix  A       = {a, j, slice};
    const IDRSSharedEntries operand = {
      given.entries,         own,  (uint32_t)first, (uint32_t)n, clustered.rowsofothers + others[0], others[1] - others[0],
      given.partials.launch, &wait};
    IDRSClusteredBlocks<S> blocks = {A, operand, IDRSGetCluster(), &sums, given.partials.messages, given.partials.second};

    blocks.u.Rows(threadIdx.x, blocks.u.row);
    IDRSClusterBarrier();
    step = IDRSPersistentRun<S>(steps, P, blocks);
  }
  for (int k = 0; k < s; k++) {
    IDRSCopyEntries(given.bases.G + k * given.bases.ld + first, G + k * rows, n);
    IDRSCopyEntries(given.bases.U + k * given.bases.ld + first, U + k * rows, n);
  }
  IDRSCopyEntries(given.r + first, r, n);
  if (clustered.matrix && step.k == s) IDRSCopyEntries(given.t + first, steps.t, n);
  IDRSClusterBarrier();
}

/*
   IDRSClusteredGetClusters_CUDA - Returns the number of clusters of this size that can be resident, which is 0 if the GPU has no
   clusters, and the shared memory of a block in bytes
*/
PetscErrorCode IDRSClusteredGetClusters_CUDA(IDRSWorkspace work, unsigned int size, PetscInt *clusters, size_t *shared)
{
  int most = 0;

  PetscFunctionBegin;
  PetscCall(IDRSDispatchPersistent(work, [&](auto S, auto) {
    return IDRSGetClusters(IDRSClusteredKernel<S>, size, IDRS_CLUSTERED_THREADS, &most, shared);
  }));
  *clusters = PetscMin(most, IDRS_WARP); /* limited by the number of mailboxes */
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSClusteredLaunch_CUDA(IDRSWorkspace work, const IDRSClustered *clustered, const IDRSClusteredMemory *global,
                                        const IDRSPersistentSteps *steps, cudaStream_t stream)
{
  PetscFunctionBegin;
  PetscCall(IDRSDispatchPersistent(work, [&](auto S, auto shadow) {
    cudaLaunchAttribute      attributes[2];
    const cudaLaunchConfig_t config = IDRSClusterConfig(clustered->clusters, clustered->size, clustered->threads, clustered->bytes,
                                                        stream, attributes);

    return cudaLaunchKernelEx(&config, IDRSClusteredKernel<S>, *steps, shadow, *clustered, *global);
  }));
  PetscFunctionReturn(PETSC_SUCCESS);
}
