/*
   Many steps in one kernel, for systems that fit in the shared memory of all multiprocessors. The panels, r, t, the matrix, and u
   of its rows are in the shared memory of a block from the first step to the last. At the end they are copied to global memory,
   where the host continues. A block has neighbouring rows, so that it needs few entries of u of other blocks, and each block has
   its own multiprocessor. It copies each entry that it needs to its shared memory once before the product, and the columns of the
   matrix are places there. If the matrix does not fit in shared memory, the matrix and t are in global memory, in the same order;
   and U also, if it does not fit.

   If a block needs u of few rows of other blocks, it has these rows as a halo: G, U, r, z and t of the halo rows follow those of
   its own rows, and the block computes the passes for them with the same numbers, and the same bits, as the block that owns them.
   So u of the halo is complete after the passes, without a wait. Only the entry of the product must come from the owner: as a
   message, which other blocks read during the reduction of the sums.

   Blocks are in clusters, and the sums of a step are computed in three stages. Sum i belongs to rank i mod size in each cluster:

     of a block           by its warps; then stored in the shared memory of the rank that sum i belongs to
     of a cluster         by a warp of that rank, in a fixed order of the ranks; then stored for all clusters, in one mailbox for
                          each cluster in global memory
     of all               by the first warp of each block, from the mailbox of its cluster, in a fixed order of the clusters

   Meanwhile the first warp prepares the algebra. If there is only one cluster, no sum is stored in global memory: a block stores
   its sums in all other blocks, which add them. u is not in global memory either: a block without a halo reads the entries in the
   shared memory of other blocks.

   Blocks exchange messages. whole.cuh explains why no message is overwritten before it is read, for u, and for sums that go from
   each block to all others. Here sums go through the rank that they belong to:

     to a rank            Sums of steps j and j+1 have two places. A block stores its sums of step j+2 over those of step j after
                          it has the sums of all clusters of step j+1. The sums of step j+1 include the part of that rank, which
                          stores it only after it has forwarded its reads of step j and passed a barrier.
     to a mailbox         A rank posts its sums of step j+2 over those of step j after all blocks of its cluster have stored theirs
                          of step j+2, which each does after it has the sums of all clusters of step j+1. These include the parts
                          of the blocks that read this mailbox, which they store after they have read it in step j.

   The thread that reads an entry of u from another block also stores it in shared memory, and a barrier separates this store from
   the product. So the sums of a block depend on all entries of u that it has read.

     entries of a product   Entries of steps j and j+1 are in two places, because no block waits for their readers before it has the
                            sums of step j. A block overwrites its entries of step j by those of step j+2 after it has the sums of
                            all blocks of step j+1. A block posts these sums only after it has read all entries that it needs of
                            step j and passed a barrier, because the passes of step j are in between.

   A block reads only its own mailboxes. All stores and loads of a message are relaxed, of the same words, and ordered by data
   dependences, so no fence is needed. No block ends before all blocks of its cluster have finished, because they might still store
   to its shared memory.

   A message of a block to itself takes the same path. The racecheck tool of compute-sanitizer understands barriers, but not
   messages: it reports these stores of PostSums() and the loads that wait for them as hazards.
*/
#include "wholecluster.h"
#include "../../sys/device/cluster.cuh"

/* Most threads of a block, which may have several rows each. With more threads there are too few registers per thread */
#define IDRS_CLUSTERED_THREADS 384
#define IDRS_CLUSTERED_WARPS   (IDRS_CLUSTERED_THREADS / IDRS_WARP)

/* Fewest blocks of a cluster */
#define IDRS_CLUSTER_LEAST 4

/* Rows per block that justify one more cluster, or a larger one */
#define IDRS_RESIDENT_ROWS 128

/*
   Most own and halo rows of a block: three per thread. With more of them the passes take longer than the exchange of u that the
   halo replaces
*/
#define IDRS_HALO_ROWS (3 * IDRS_CLUSTERED_THREADS)

/* Lanes that add one sum over the blocks of a cluster */
#define IDRS_CLUSTER_LANES 4

/*
   Limits if the matrix is in global memory: most rows of a block, because with more rows separate launches are as fast; most shadow
   vectors of a solve that also has a panel in global memory; and fewest concurrent solves, because with fewer of them other methods
   are faster
*/
#define IDRS_GLOBAL_ROWS   (9 * IDRS_CLUSTERED_THREADS)
#define IDRS_GLOBAL_S      8
#define IDRS_GLOBAL_SOLVES 4

/* Entries of other blocks that a thread loads at the same time */
#define IDRS_SHARED_ATONCE 6

/* First thread that reads halo rows. Meanwhile the first warp prepares the algebra, and the second one forwards sums */
#define IDRS_HALO_FIRST (2 * IDRS_WARP)

/*
   Rows of a matrix whose columns are places in shared memory; the matrix is also in shared memory if it fits. The first entries of
   32 neighbouring rows are a slice: entries with the same number are adjacent, so that lanes have no bank conflicts in shared
   memory, and coalesced loads from global memory; shorter rows are padded with zeros. The remaining entries of long rows follow row
   by row
*/
typedef struct {
  const PetscScalar *a;
  const uint16_t    *j;
  const uint32_t    *slice;  /* begins of slices, and the end of the last one */
  const uint32_t    *rest;   /* begins of the remaining entries of rows, and the end of the last one */
  bool               isrest; /* false if no row is so long */
  uint32_t           n;
} IDRSSharedMatrix;

/*
   The u of a step in shared memory: rows of this block, then the entries of other blocks that it needs, which are read before the
   product
*/
struct IDRSSharedEntries {
  IDRSBlockMessage *entries; /* of all rows, in global memory */
  PetscScalar      *own;
  IDRSIndex         first, n; /* own rows */
  uint32_t          number;
  IDRSWaitPolls    *wait;
  const PetscInt   *others; /* their row numbers */
  IDRSIndex         count;
  IDRSIndex         rows; /* per block, except for the last blocks */
  /* with one cluster: messages of own rows in shared memory, which other blocks read; else NULL */
  IDRSBlockMessage *incluster;
  uint32_t          rank; /* of this block in the cluster */
  /* first entries that this thread loads: row numbers, or with incluster the rank in the upper and the row in the lower half */
  uint32_t from[IDRS_SHARED_ATONCE];

  __device__ __forceinline__ void operator()(size_t i, const IDRSPack<1> &u) const
  {
    own[i] = u.v[0];
    if (!incluster) IDRSPostScalar(entries + (first + i) * IDRS_PARTS, u.v[0], number);
    else {
#pragma unroll
      for (int k = 0; k < IDRS_PARTS; k++)
        IDRSStoreCluster(incluster + i * IDRS_PARTS + k, rank,
                         IDRSMakeMessage(k ? PetscImaginaryPart(u.v[0]) : PetscRealPart(u.v[0]), number));
    }
  }
};

/* Sets the places from which a thread loads the entries at begin, begin + blockDim.x, ...; the last place if there are no more */
static __device__ __forceinline__ void IDRSSetFrom(const IDRSSharedEntries &u, IDRSIndex begin, uint32_t from[IDRS_SHARED_ATONCE])
{
#pragma unroll
  for (int l = 0; l < IDRS_SHARED_ATONCE; l++) {
    const IDRSIndex row = u.count ? (IDRSIndex)__ldg(u.others + min(begin + l * blockDim.x, u.count - 1)) : 0;

    from[l] = (uint32_t)(u.incluster ? row / u.rows << 16 | row % u.rows : row);
  }
}

/*
   Adds entries p, p + stride, ... before end. All loads are issued at the same time, because none depends on a test: entries after
   the end are loaded, and multiplied by zero; after the last row there is padding
*/
static __device__ __forceinline__ PetscScalar IDRSSharedSum(const IDRSSharedMatrix &A, const IDRSSharedEntries &u, uint32_t begin,
                                                            uint32_t end)
{
  PetscScalar sum[2] = {0.0, 0.0};

#pragma unroll 1
  for (uint32_t p = begin; p < end; p += IDRS_WHOLE_ATONCE * IDRS_WARP) {
    PetscScalar value[IDRS_WHOLE_ATONCE], entry[IDRS_WHOLE_ATONCE];
    uint32_t    place[IDRS_WHOLE_ATONCE];

#pragma unroll
    for (int l = 0; l < IDRS_WHOLE_ATONCE; l++) {
      place[l] = A.j[p + l * IDRS_WARP];
      value[l] = A.a[p + l * IDRS_WARP];
    }
#pragma unroll
    for (int l = 0; l < IDRS_WHOLE_ATONCE; l++) entry[l] = u.own[place[l]];
#pragma unroll
    for (int l = 0; l < IDRS_WHOLE_ATONCE; l++) sum[l % 2] += (p + l * IDRS_WARP < end ? value[l] : (PetscScalar)0.0) * entry[l];
  }
  return sum[0] + sum[1];
}

/* Returns the entry of A u in row + lane, where row is the first of 32 rows, as in rowsum.cuh. One warp */
template <int ATONCE, typename Entries>
static __device__ __forceinline__ PetscScalar IDRSRowSumShared(const IDRSSharedMatrix &A, const Entries &u, IDRSIndex row, int)
{
  const uint32_t lane = threadIdx.x % IDRS_WARP, slice = (uint32_t)row / IDRS_WARP;
  PetscScalar    mine = IDRSSharedSum(A, u, A.slice[slice] + lane, A.slice[slice + 1]);

  if (__builtin_expect(A.isrest, 0)) {
    const bool     there = row + lane < A.n;
    const uint32_t begin = there ? A.rest[row + lane] : 0, stop = there ? A.rest[row + lane + 1] : 0;

#pragma unroll 1
    for (unsigned int left = IDRSWarpBallot(begin < stop); left; left &= left - 1) {
      const int   from = __ffs(left) - 1;
      PetscScalar sum  = IDRSWarpSum<IDRS_WARP>(IDRSSharedSum(A, u, IDRSShuffle(begin, from) + lane, IDRSShuffle(stop, from)));

      sum = IDRSShuffle(sum, 0);
      if ((int)lane == from) mine += sum;
    }
  }
  return mine;
}

/*
   Reads entries begin, begin + stride, ... of other blocks by load(entry, part). All loads are issued before the first value is
   tested. A lane without a further entry loads the last one
*/
template <int ATONCE, typename Load>
static __device__ __forceinline__ void IDRSReadEntries(const IDRSSharedEntries &u, PetscScalar *to, IDRSIndex begin,
                                                       IDRSIndex stride, const Load &load)
{
  IDRSBlockMessage message[ATONCE * IDRS_PARTS];
  uint32_t         missing;

  do {
    missing = 0;
#pragma unroll
    for (int l = 0; l < ATONCE * IDRS_PARTS; l++) message[l] = load(l / IDRS_PARTS, l % IDRS_PARTS);
#pragma unroll
    for (int l = 0; l < ATONCE * IDRS_PARTS; l++) missing |= IDRSMessageLacks(message[l], u.number);
  } while (!IDRSWarpAll(!missing) && !u.wait->Ends());
#pragma unroll
  for (int l = 0; l < ATONCE; l++) {
    if (begin + l * stride < u.count) to[begin + l * stride] = IDRSMessagesScalar(message + l * IDRS_PARTS);
  }
}

/* Waits until own entries and those of other blocks are in shared memory */
static __device__ __forceinline__ void IDRSMeetEntries(const IDRSSharedEntries &u)
{
  uint32_t from[IDRS_SHARED_ATONCE];

#pragma unroll
  for (int l = 0; l < IDRS_SHARED_ATONCE; l++) from[l] = u.from[l];
  for (IDRSIndex begin = threadIdx.x; begin - threadIdx.x % IDRS_WARP < u.count; begin += IDRS_SHARED_ATONCE * blockDim.x) {
    if (begin != threadIdx.x) IDRSSetFrom(u, begin, from);
    if (u.incluster)
      IDRSReadEntries<IDRS_SHARED_ATONCE>(u, u.own + u.n, begin, blockDim.x, [&](int l, int part) {
        return IDRSLoadRank(u.incluster + (from[l] & 0xffff) * IDRS_PARTS + part, from[l] >> 16);
      });
    else
      IDRSReadEntries<IDRS_SHARED_ATONCE>(u, u.own + u.n, begin, blockDim.x, [&](int l, int part) {
        return IDRSLoadRelaxed(u.entries + (size_t)from[l] * IDRS_PARTS + part);
      });
  }
  __syncthreads();
}

/* Entries of other blocks that a thread loads at the same time, outside of the critical path */
#define IDRS_HALO_ATONCE 2

/*
   The same for a block with a halo. The block has u of the halo rows, and reads their entries of the product while it waits for
   sums. Even and odd steps have separate places
*/
struct IDRSHaloEntries : IDRSSharedEntries {
  size_t messages; /* per place */

  __device__ __forceinline__ void operator()(size_t i, const IDRSPack<1> &u) const { own[i] = u.v[0]; }

  __device__ __forceinline__ IDRSBlockMessage *Place() const { return entries + (number % 2 ? messages : 0); }
};

/* Makes own entries visible to all threads of the block */
static __device__ __forceinline__ void IDRSMeetEntries(const IDRSHaloEntries &)
{
  __syncthreads();
}

/* Reads x of the halo rows. Called by all warps except the first two */
static __device__ __forceinline__ void IDRSReadHalo(const IDRSHaloEntries &u, PetscScalar *x)
{
  const IDRSIndex         stride = blockDim.x - IDRS_HALO_FIRST;
  const IDRSBlockMessage *place  = u.Place();

  for (IDRSIndex begin = threadIdx.x - IDRS_HALO_FIRST; begin - threadIdx.x % IDRS_WARP < u.count;
       begin += IDRS_HALO_ATONCE * stride) {
    IDRSIndex from[IDRS_HALO_ATONCE];

#pragma unroll
    for (int l = 0; l < IDRS_HALO_ATONCE; l++) from[l] = (IDRSIndex)__ldg(u.others + min(begin + l * stride, u.count - 1));
    IDRSReadEntries<IDRS_HALO_ATONCE>(u, x + u.n, begin, stride, [&](int l, int part) {
      return IDRSLoadRelaxed(place + (size_t)from[l] * IDRS_PARTS + part);
    });
  }
}

/* Messages for the sums that belong to a rank, from all ranks, in one step */
template <int S>
static constexpr int IDRSClusterMessages = IDRSRealSums<S, true, true> + IDRS_CLUSTER_BLOCKS;

/* Messages for the sums of a block with one cluster, for even and odd steps */
template <int S>
static constexpr unsigned int IDRSInClusterSums = 2 * IDRSRealSums<S, true, true>;

/* Sums that IDRSWarpTotals() computes at the same time; the sums of a warp are padded to a multiple */
#define IDRS_TOTALS 8

template <int S>
static constexpr int IDRSWarpRoom = (IDRSRealSums<S, true, true> + IDRS_TOTALS - 1) / IDRS_TOTALS * IDRS_TOTALS;

/* Memory of a block for its own sums and for those of its cluster */
template <int S>
struct IDRSClusteredSums {
  IDRSBlockMessage messages[2][IDRSClusterMessages<S>]; /* from the blocks of the cluster, for even and odd steps */
  PetscReal        warps[IDRS_CLUSTERED_WARPS][IDRSWarpRoom<S>];
  int              places[2][IDRSRealSums<S, true, true>]; /* of the sums, without a y and with it */
};

/*
   Sums values over the lanes of a warp, with fewer instructions than IDRSWarpSums(), which matters if only one warp works. In
   double precision the tensor core adds: in a product of ones and values each column is the sum over 4 lanes. Two columns are
   added; then the lanes of column i have a fourth of value i, and a second product adds the fourths
*/
template <int count>
static __device__ __forceinline__ void IDRSWarpTotals(PetscReal values[count], PetscReal *to)
{
  if constexpr (std::is_same<PetscReal, double>::value) {
#pragma unroll
    for (int begin = 0; begin < count; begin += IDRS_TOTALS) {
      double part[IDRS_TOTALS] = {}, total[2] = {0.0, 0.0};

#pragma unroll
      for (int i = 0; i < IDRS_TOTALS && begin + i < count; i++) {
        double columns[2] = {0.0, 0.0};

        IDRSMatrixMultiplyAddSmall(columns, 1.0, values[begin + i]);
        part[i] = columns[0] + columns[1];
      }
#pragma unroll
      for (int half = IDRS_TOTALS / 2; half > 0; half /= 2) {
#pragma unroll
        for (int i = 0; i < half; i++) part[i] = threadIdx.x & (4 * half) ? part[i + half] : part[i];
      }
      IDRSMatrixMultiplyAddSmall(total, 1.0, part[0]);
      if (threadIdx.x % IDRS_WARP < 4) {
        to[begin + 2 * (threadIdx.x % IDRS_WARP)]     = total[0];
        to[begin + 2 * (threadIdx.x % IDRS_WARP) + 1] = total[1];
      }
    }
  } else IDRSWarpSums<count>(values, [&](int i, PetscReal sum) { to[i] = sum; });
}

/* Returns a sum over the warps of a block; entries of unused warps are zero, so that one test is enough */
template <int room>
static __device__ __forceinline__ PetscReal IDRSWarpsTree(const PetscReal (*warp)[room], int i, int warps)
{
  PetscReal sum[4];

#pragma unroll
  for (int w = 0; w < 4; w++) sum[w] = warp[w][i];
  if (warps > 4) {
#pragma unroll
    for (int w = 4; w < IDRS_CLUSTERED_WARPS; w++) sum[w % 4] += warp[w][i];
  }
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Blocks whose rows are in shared memory */
template <int SMAX, typename Matrix, typename Entries>
struct IDRSClusteredBlocks {
  typedef IDRSBlockRows    Rows;
  static constexpr bool    poly = false, halo = std::is_same<Entries, IDRSHaloEntries>::value;
  Matrix                   A;
  Entries                  u;
  IDRSCluster              cluster;
  IDRSClusteredSums<SMAX> *shared;
  IDRSBlockMessage        *mailboxes, *second; /* of all clusters, for even and odd steps */
  /* with one cluster: sums of all its blocks, in shared memory, for even and odd steps; else NULL */
  IDRSBlockMessage *all;

  /* Returns the place for the sums of a step */
  template <int S>
  __device__ __forceinline__ IDRSBlockMessage *Slots() const
  {
    return all ? all + (u.number % 2 ? IDRSRealSums<S, true, true> * cluster.size : 0) : shared->messages[u.number % 2];
  }

  /*
     Stores the sums of this block in the ranks that they belong to, or with one cluster in all ranks. Called by all threads.
     Returns true if a wait has timed out
  */
  template <int S, bool Y>
  __device__ __forceinline__ bool PostSums(const IDRSDots<S, Y, true> &block)
  {
    IDRSBlockMessage *slots = Slots<S>();
    constexpr int     dots = IDRSDots<S, Y, true>::count, count = IDRSRealSums<S, Y, true>;
    /* the other warps have no rows */
    const int warps = (int)min((unsigned int)(A.n + IDRS_WARP - 1), blockDim.x) / IDRS_WARP, mine = threadIdx.x / IDRS_WARP;
    PetscReal values[count];

#pragma unroll
    for (int i = 0; i < dots; i++) {
      values[i * IDRS_PARTS] = PetscRealPart(block.dot[i]);
      if (IDRS_PARTS > 1) values[i * IDRS_PARTS + IDRS_PARTS - 1] = PetscImaginaryPart(block.dot[i]);
    }
#pragma unroll
    for (int i = dots * IDRS_PARTS; i < count; i++) values[i] = block.square[i - dots * IDRS_PARTS];
    if (mine < warps) IDRSWarpTotals<count>(values, shared->warps[mine]);
    if (__syncthreads_or(!u.wait->left)) return true; /* no sums are posted if a part is missing */
    if (all) {
      for (unsigned int k = threadIdx.x; k < count * cluster.size; k += blockDim.x) {
        const unsigned int i = k >> (__ffs(cluster.size) - 1);

        IDRSStoreCluster(slots + i * cluster.size + cluster.rank, k & (cluster.size - 1),
                         IDRSMakeMessage(IDRSWarpsTree(shared->warps, (int)i, warps), u.number));
      }
      return false;
    }
    for (unsigned int i = threadIdx.x; i < count; i += blockDim.x)
      IDRSStoreCluster(slots + (i & ~(cluster.size - 1)) + cluster.rank, i & (cluster.size - 1),
                       IDRSMakeMessage(IDRSWarpsTree(shared->warps, (int)i, warps), u.number));
    return false;
  }

  /*
     Adds the sums of the cluster that belong to this rank, with several lanes per sum, and posts them for all clusters. Called by a
     warp. No sum is posted if a part is missing
  */
  __device__ __forceinline__ void Pass(unsigned int count, const IDRSBlockMessage *slots, IDRSBlockMessage *boxes)
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

  /* Adds `messages` messages for each sum, which load(sum, number) loads, with one lane per sum. Called by a warp */
  template <int S, typename Load>
  __device__ __forceinline__ void ReadSums(bool y, int count, unsigned int messages, PetscScalar *sums, const Load &load)
  {
#pragma unroll 1
    for (int begin = 0; begin < count; begin += IDRS_WARP) {
      const int i     = min(begin + (int)(threadIdx.x % IDRS_WARP), count - 1),
                place = begin + (int)(threadIdx.x % IDRS_WARP) < count ? shared->places[y][i] : -1;
      PetscReal total = 0.0;

      for (unsigned int first = 0; first < messages; first += IDRS_LOADS_AT_ONCE) {
        IDRSBlockMessage message[IDRS_LOADS_AT_ONCE];
        PetscReal        sum[IDRS_LOADS_AT_ONCE];
        uint32_t         missing;

        do {
          missing = 0;
#pragma unroll
          for (int l = 0; l < IDRS_LOADS_AT_ONCE; l++) message[l] = load(i, min(first + l, messages - 1));
#pragma unroll
          for (int l = 0; l < IDRS_LOADS_AT_ONCE; l++) missing |= IDRSMessageLacks(message[l], u.number);
        } while (!IDRSWarpAll(!missing) && !u.wait->Ends());
#pragma unroll
        for (int l = 0; l < IDRS_LOADS_AT_ONCE; l++) sum[l] = first + l < messages ? IDRSMessageValue(message[l]) : (PetscReal)0.0;
#pragma unroll
        for (int half = IDRS_LOADS_AT_ONCE / 2; half > 0; half /= 2) {
#pragma unroll
          for (int l = 0; l < half; l++) sum[l] += sum[l + half];
        }
        total += sum[0];
      }
      if (place >= 0) ((PetscReal *)sums)[place] = total * (y ? IDRSSumScale<S, true, true>(i) : IDRSSumScale<S, false, true>(i));
    }
  }

  /* Adds the sums of all blocks in the first warp. Called by all threads */
  template <int S, typename Meanwhile>
  __device__ __forceinline__ bool AddSums(bool y, const IDRSShadow<S> &, PetscScalar *x, PetscScalar *sums,
                                          const Meanwhile &meanwhile)
  {
    const unsigned int count = y ? IDRSRealSums<S, true, true> : IDRSRealSums<S, false, true>;
    IDRSBlockMessage  *slots = Slots<S>(), *boxes = u.number % 2 ? second : mailboxes;

    if (!all && threadIdx.x / IDRS_WARP == (blockDim.x > IDRS_WARP ? 1 : 0)) Pass(count, slots, boxes);
    if constexpr (halo) {
      if (threadIdx.x >= IDRS_HALO_FIRST) IDRSReadHalo(u, x);
    }
    if (threadIdx.x >= IDRS_WARP) return false;
    meanwhile();
    boxes += cluster.index * cluster.count * count;
    if (all)
      ReadSums<S>(y, (int)count, cluster.size, sums,
                  [&](int i, unsigned int rank) { return IDRSLoadCluster(slots + i * cluster.size + rank); });
    else
      ReadSums<S>(y, (int)count, cluster.count, sums,
                  [&](int i, unsigned int from) { return IDRSLoadRelaxed(boxes + from * count + i); });
    IDRS_SYNC_WARP();
    return !u.wait->left;
  }

  __device__ __forceinline__ void Publish(size_t i, PetscScalar x) const
  {
    if constexpr (halo) IDRSPostScalar(u.Place() + (u.first + i) * IDRS_PARTS, x, u.number);
  }

  __device__ __forceinline__ void Synchronize() const { IDRSMeetEntries(u); }
};

/* Copies between shared and global memory, by all threads of a block */
template <typename T>
static __device__ __forceinline__ void IDRSCopyEntries(T *to, const T *from, size_t n)
{
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
}

/* Copies rows of a block: own rows, then halo rows */
template <typename T>
static __device__ __forceinline__ void IDRSCopyRows(T *to, const T *from, size_t first, size_t n, const PetscInt *others,
                                                    size_t count)
{
  IDRSCopyEntries(to, from + first, n);
  for (size_t i = threadIdx.x; i < count; i += blockDim.x) to[n + i] = from[others[i]];
}

template <int S, int LAYOUT>
static __global__ void __launch_bounds__(IDRS_CLUSTERED_THREADS, 1)
  IDRSClusteredKernel(const __grid_constant__ IDRSWholeSteps given, const __grid_constant__ IDRSShadow<S> shadow,
                      const __grid_constant__ IDRSClustered clustered, const __grid_constant__ IDRSClusteredMemory global)
{
  extern __shared__ __align__(16) PetscScalar memory[];
  __shared__ IDRSClusteredSums<S> sums;
  const size_t rows = IDRSKeep((unsigned int)clustered.rows), first = min((size_t)blockIdx.x * rows, given.panels.n),
               n          = IDRSKeep((unsigned int)min(rows, given.panels.n - first));
  const PetscInt *others  = clustered.rowsofothers + clustered.firstother[blockIdx.x];
  const size_t    count   = (size_t)(clustered.firstother[blockIdx.x + 1] - clustered.firstother[blockIdx.x]),
               more       = LAYOUT == IDRS_ROWS_SHARED ? count : 0;
  const size_t   ld       = LAYOUT == IDRS_ROWS_SHARED ? IDRSKeep((unsigned int)(rows + clustered.others)) : rows;
  const int      s        = (int)IDRSKeep((unsigned int)given.panels.s);
  IDRSWaitPolls  wait     = {given.polls};
  IDRSWholeSteps steps    = given;
  IDRSShadow<S>  P        = shadow;
  constexpr bool isshared = LAYOUT >= IDRS_MATRIX_SHARED; /* the matrix */
  PetscScalar   *r = memory + (LAYOUT == IDRS_PANEL_GLOBAL ? s : 2 * s) * ld, *own = r + (isshared ? 2 : 1) * ld,
              *free         = own + rows + clustered.others;
  const size_t       slices = (rows + IDRS_WARP - 1) / IDRS_WARP;
  const IDRSMatIndex begin = given.A.i[first], end = given.A.i[first + n];
  IDRSSharedEntries  operand = {given.entries, own,    (IDRSIndex)first, (IDRSIndex)n,   given.partials.launch,
                                &wait,         others, (IDRSIndex)count, (IDRSIndex)rows};
  IDRSBlockMessage  *all     = NULL;
  PetscScalar       *a;
  uint32_t          *slice, *rest;
  uint16_t          *j;
  IDRSStep           step;
  const auto         run = [&](auto A, auto u) {
    IDRSClusteredBlocks<S, decltype(A), decltype(u)> blocks = {
      A, u, IDRSGetCluster(), &sums, given.partials.messages, given.partials.second, all};

    IDRSClusterBarrier();
    return IDRSWholeRun<S>(steps, P, blocks);
  };

  steps.panels = {memory, LAYOUT == IDRS_PANEL_GLOBAL ? global.U + blockIdx.x * s * rows : memory + s * ld, ld, n + more, s};
  steps.r      = r;
  steps.t      = isshared ? r + ld : given.t + first;
  steps.z += first;
  steps.v += first;
  if (given.x) {
    steps.x += first;
    steps.anchor += first;
  }
  for (int j = 0; j < s; j++) {
    IDRSCopyRows(steps.panels.G + j * ld, (const PetscScalar *)given.panels.G + j * given.panels.ld, first, n, others, more);
    IDRSCopyRows(steps.panels.U + j * ld, (const PetscScalar *)given.panels.U + j * given.panels.ld, first, n, others, more);
  }
  IDRSCopyRows(steps.r, (const PetscScalar *)given.r, first, n, others, more);
  if (given.diagonal) {
    IDRSCopyRows(free, given.diagonal, first, n, others, more);
    steps.diagonal = free;
    free += ld;
  }
  if (LAYOUT == IDRS_ROWS_SHARED) {
    steps.z = free;
    free += ld;
    IDRSCopyRows(steps.z, (const PetscScalar *)given.z, first, n, others, more);
    if (given.diagonal) {
      steps.v = free;
      free += ld;
      IDRSCopyRows(steps.v, (const PetscScalar *)given.v, first, n, others, more);
    }
  }
  P.rstart += first;
  for (int i = threadIdx.x; i < IDRSClusterMessages<S>; i += blockDim.x) sums.messages[0][i] = sums.messages[1][i] = {0, 0};
  for (int i = threadIdx.x; i < IDRS_CLUSTERED_WARPS * IDRSWarpRoom<S>; i += blockDim.x)
    sums.warps[i / IDRSWarpRoom<S>][i % IDRSWarpRoom<S>] = 0.0;
  for (int i = threadIdx.x; i < IDRSRealSums<S, true, true>; i += blockDim.x) {
    sums.places[0][i] = i < IDRSRealSums<S, false, true> ? IDRSSumPlace<S, false, true>(P, i) : -1;
    sums.places[1][i] = IDRSSumPlace<S, true, true>(P, i);
  }
  slice = (uint32_t *)(isshared ? free + clustered.slots : free);
  rest  = slice + slices + 1;
  a     = isshared ? free : global.a + blockIdx.x * clustered.slots;
  j     = isshared ? (uint16_t *)(clustered.rest ? rest + rows + 1 : rest) : global.j + blockIdx.x * clustered.slots;
  if (clustered.clusters == 1) {
    all = (IDRSBlockMessage *)memory + clustered.messages;
    if (LAYOUT != IDRS_ROWS_SHARED) operand.incluster = all + IDRSInClusterSums<S> * clustered.size;
    operand.rank = blockIdx.x;
    for (unsigned int k = threadIdx.x;
         k < IDRSInClusterSums<S> * clustered.size + (LAYOUT != IDRS_ROWS_SHARED ? rows * IDRS_PARTS : 0); k += blockDim.x)
      all[k] = {0, 0};
  }
  if (LAYOUT != IDRS_ROWS_SHARED) IDRSSetFrom(operand, threadIdx.x, operand.from);
  IDRSCopyEntries(slice, clustered.slice + blockIdx.x * (slices + 1), slices + 1);
  if (clustered.rest) IDRSCopyEntries(rest, clustered.rest + blockIdx.x * (rows + 1), rows + 1);
  for (size_t k = threadIdx.x; k < clustered.slots; k += blockDim.x) {
    a[k] = 0.0;
    j[k] = 0;
  }
  __syncthreads();
  for (IDRSMatIndex q = begin + threadIdx.x; q < end; q += blockDim.x) {
    const uint32_t place = clustered.places[q];

    a[place >> 16] = given.A.a[q];
    j[place >> 16] = (uint16_t)place;
  }
  if constexpr (LAYOUT == IDRS_ROWS_SHARED)
    step = run(IDRSSharedMatrix{a, j, slice, rest, clustered.rest != NULL, (uint32_t)n},
               IDRSHaloEntries{operand, given.panels.n * IDRS_PARTS});
  else step = run(IDRSSharedMatrix{a, j, slice, rest, clustered.rest != NULL, (uint32_t)n}, operand);
  for (int j = 0; j < s; j++) {
    IDRSCopyEntries(given.panels.G + j * given.panels.ld + first, steps.panels.G + j * ld, n);
    IDRSCopyEntries(given.panels.U + j * given.panels.ld + first, steps.panels.U + j * ld, n);
  }
  IDRSCopyEntries(given.r + first, steps.r, n);
  if (isshared && step.k == s) IDRSCopyEntries(given.t + first, steps.t, n);
  if (LAYOUT == IDRS_ROWS_SHARED) {
    IDRSCopyEntries(given.z + first, steps.z, n);
    if (given.diagonal) IDRSCopyEntries(given.v + first, steps.v, n);
  }
  IDRSClusterBarrier();
}

/* Returns the bytes of shared memory per block */
static size_t IDRSClusteredBytes(PetscInt s, bool diagonal, const IDRSClustered *clustered, size_t slots, size_t others, bool rest)
{
  /* with own entries of u */
  const bool   halo = clustered->layout == IDRS_ROWS_SHARED, matrix = clustered->layout >= IDRS_MATRIX_SHARED;
  const size_t rows = clustered->rows, panels = clustered->layout == IDRS_PANEL_GLOBAL ? 1 : 2,
               vectors = panels * (size_t)s + (matrix ? 3 : 2) + (diagonal ? 1 : 0);
  size_t bytes         = (vectors * rows + others) * sizeof(PetscScalar);

  if (halo) bytes = (vectors + (diagonal ? 2 : 1)) * (rows + others) * sizeof(PetscScalar);
  if (matrix) bytes += slots * (sizeof(PetscScalar) + sizeof(uint16_t));
  return bytes + ((rows + IDRS_WARP - 1) / IDRS_WARP + 1 + (rest ? rows + 1 : 0)) * sizeof(uint32_t);
}

/* The matrix as blocks store it, on the host */
typedef struct {
  PetscInt *first, *rows; /* rows of other blocks that each block needs, in ascending order */
  PetscInt *place;        /* of each row; -1 between two blocks */
  /* for each nonzero its slot, and the place of its entry of u; a block that fits has at most 65536 of each */
  uint32_t *places;
  uint32_t *slice, *rest; /* as in IDRSSharedMatrix, one block after another */
  size_t    others, slots;
  bool      isrest;
} IDRSSharedPlan;

static PetscErrorCode IDRSSharedPlanCreate(PetscInt n, const PetscInt *i, PetscInt blocks, PetscInt rows, IDRSSharedPlan *plan)
{
  PetscFunctionBegin;
  PetscCall(PetscMalloc6(blocks + 1, &plan->first, i[n], &plan->rows, n, &plan->place, i[n], &plan->places,
                         blocks * ((rows + IDRS_WARP - 1) / IDRS_WARP + 1), &plan->slice, blocks * (rows + 1), &plan->rest));
  for (PetscInt row = 0; row < n; row++) plan->place[row] = -1;
  plan->others = plan->slots = 0;
  plan->isrest               = false;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSSharedPlanDestroy(IDRSSharedPlan *plan)
{
  PetscFunctionBegin;
  PetscCall(PetscFree6(plan->first, plan->rows, plan->place, plan->places, plan->slice, plan->rest));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Finds the rows of other blocks that rows begin to end - 1 need, in ascending order, and for each nonzero the place of its entry
   of u. In a band of rows it is faster to look at all of them than to sort
*/
static PetscErrorCode IDRSSharedPlanColumns(const PetscInt *i, const PetscInt *j, PetscInt begin, PetscInt end, PetscInt *mine,
                                            PetscInt *count, IDRSSharedPlan *plan)
{
  PetscInt *const place  = plan->place;
  uint32_t *const places = plan->places;
  PetscInt        number = 0, least = begin, most = end;

  PetscFunctionBegin;
  for (PetscInt q = i[begin]; q < i[end]; q++) {
    const PetscInt column = j[q];

    if ((column >= begin && column < end) || place[column] >= 0) continue;
    place[column]  = 0;
    mine[number++] = column;
    least          = PetscMin(least, column);
    most           = PetscMax(most, column + 1);
  }
  if (number && (most - least) / number < 16) {
    number = 0;
    for (PetscInt column = least; column < most; column++) {
      if (place[column] >= 0) mine[number++] = column;
    }
  } else PetscCall(PetscSortInt(number, mine));
  for (PetscInt k = 0; k < number; k++) place[mine[k]] = end - begin + k;
  for (PetscInt q = i[begin]; q < i[end]; q++) {
    const PetscInt column = j[q];

    places[q] = (uint32_t)(column >= begin && column < end ? column - begin : place[column]) & 0xffffu;
  }
  for (PetscInt k = 0; k < number; k++) place[mine[k]] = -1;
  *count = number;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Assigns slots to the nonzeros; the first `own` entries of a row are in slices. Returns the number of slots */
static size_t IDRSSharedPlanSlots(const PetscInt *i, PetscInt begin, PetscInt end, PetscInt rows, PetscInt own, uint32_t *slice,
                                  uint32_t *rest, IDRSSharedPlan *plan)
{
  uint32_t *const places = plan->places;
  PetscInt        slots = 0, number = 0;

  for (PetscInt first = begin; first < begin + rows; first += IDRS_WARP) {
    PetscInt width = 0;

    slice[number++] = (uint32_t)slots;
    for (PetscInt row = first; row < PetscMin(end, first + IDRS_WARP); row++) {
      const PetscInt q = i[row], length = PetscMin(i[row + 1] - q, own);

      width = PetscMax(width, length);
      for (PetscInt l = 0; l < length; l++) places[q + l] |= (uint32_t)(slots + l * IDRS_WARP + row - first) << 16;
    }
    slots += width * IDRS_WARP;
  }
  slice[number] = (uint32_t)slots;
  for (PetscInt row = begin; row < begin + rows; row++) {
    rest[row - begin] = (uint32_t)slots;
    for (PetscInt q = row < end ? i[row] + own : 0; row < end && q < i[row + 1]; q++) places[q] |= (uint32_t)slots++ << 16;
    if (rest[row - begin] < (uint32_t)slots) plan->isrest = true;
  }
  rest[rows] = (uint32_t)slots;
  return (size_t)slots;
}

static PetscErrorCode IDRSSharedPlanFind(PetscInt n, const PetscInt *i, const PetscInt *j, PetscInt blocks, PetscInt rows,
                                         PetscInt own, IDRSSharedPlan *plan)
{
  const PetscInt slices = (rows + IDRS_WARP - 1) / IDRS_WARP;
  PetscInt       total  = 0;

  PetscFunctionBegin;
  for (PetscInt block = 0; block < blocks; block++) {
    const PetscInt begin = PetscMin(n, block * rows), end = PetscMin(n, begin + rows);
    PetscInt       count;

    plan->first[block] = total;
    PetscCall(IDRSSharedPlanColumns(i, j, begin, end, plan->rows + total, &count, plan));
    total += count;
    plan->others = PetscMax(plan->others, (size_t)count);
    plan->slots  = PetscMax(plan->slots, IDRSSharedPlanSlots(i, begin, end, rows, own, plan->slice + block * (slices + 1),
                                                             plan->rest + block * (rows + 1), plan));
  }
  plan->first[blocks] = total;
  plan->slots += (IDRS_WHOLE_ATONCE - 1) * IDRS_WARP + 1; /* padding, which lanes load but do not use */
  PetscFunctionReturn(PETSC_SUCCESS);
}

template <typename T>
static PetscErrorCode IDRSClusteredUpload(size_t count, const T *data, cudaStream_t stream, T **copy)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, PetscMax(count, (size_t)1), copy));
  PetscCallCUDA(cudaMemcpyAsync(*copy, data, count * sizeof(T), cudaMemcpyHostToDevice, stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSClusteredDestroy_CUDA(IDRSClustered *clustered)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, clustered->firstother));
  PetscCall(PetscDeviceFree(dctx, clustered->rowsofothers));
  PetscCall(PetscDeviceFree(dctx, clustered->places));
  PetscCall(PetscDeviceFree(dctx, clustered->slice));
  PetscCall(PetscDeviceFree(dctx, clustered->rest));
  *clustered = {};
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies the matrix of all blocks to the device */
static PetscErrorCode IDRSClusteredUploadPlan(const PetscInt *i, PetscInt n, const IDRSSharedPlan *plan, IDRSClustered *clustered)
{
  const size_t blocks = (size_t)clustered->clusters * clustered->size;
  cudaStream_t stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSClusteredUpload(blocks + 1, plan->first, stream, &clustered->firstother));
  PetscCall(IDRSClusteredUpload((size_t)plan->first[blocks], plan->rows, stream, &clustered->rowsofothers));
  PetscCall(IDRSClusteredUpload((size_t)i[n], plan->places, stream, &clustered->places));
  PetscCall(
    IDRSClusteredUpload(blocks * ((clustered->rows + IDRS_WARP - 1) / IDRS_WARP + 1), plan->slice, stream, &clustered->slice));
  if (plan->isrest) PetscCall(IDRSClusteredUpload(blocks * (clustered->rows + 1), plan->rest, stream, &clustered->rest));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Calls launch with the kernel for this layout */
template <int S, typename L>
static cudaError_t IDRSClusteredDispatch(IDRSClusteredLayout layout, L &&launch)
{
  if (layout == IDRS_ROWS_SHARED) return launch(IDRSClusteredKernel<S, IDRS_ROWS_SHARED>);
  if (layout == IDRS_MATRIX_SHARED) return launch(IDRSClusteredKernel<S, IDRS_MATRIX_SHARED>);
  if constexpr (S <= IDRS_GLOBAL_S) {
    if (layout == IDRS_PANEL_GLOBAL) return launch(IDRSClusteredKernel<S, IDRS_PANEL_GLOBAL>);
  }
  return launch(IDRSClusteredKernel<S, IDRS_MATRIX_GLOBAL>);
}

/*
   Returns the number of clusters of the kernel that can be resident, and the shared memory of a block in bytes; *sums: messages for
   its sums in shared memory, if there is one cluster
*/
static PetscErrorCode IDRSClusteredGetClusters(IDRSWork work, const IDRSClustered *clustered, int *clusters, size_t *shared,
                                               size_t *sums)
{
  PetscFunctionBegin;
  PetscCall(IDRSDispatchWhole(work, [&](auto S, auto) {
    *sums = IDRSInClusterSums<S> * clustered->size;
    return IDRSClusteredDispatch<S>(clustered->layout, [&](auto kernel) {
      return IDRSGetClusters(kernel, clustered->size, IDRS_CLUSTERED_THREADS, clusters, shared);
    });
  }));
  *clusters = PetscMin(*clusters, IDRS_WARP); /* limited by the number of mailboxes */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the sizes for each block, and *fits to true if this many solves fit */
static PetscErrorCode IDRSClusteredFits(IDRSWork work, const IDRSSharedPlan *plan, PetscInt solves, IDRSClustered *clustered,
                                        bool *fits)
{
  const bool   halo    = clustered->layout == IDRS_ROWS_SHARED;
  const size_t vectors = clustered->rows + (halo ? plan->others : 0), least = halo ? IDRS_HALO_FIRST + IDRS_WARP : IDRS_WARP;
  size_t       shared, sums, bytes;
  int          most;

  PetscFunctionBegin;
  PetscCall(IDRSClusteredGetClusters(work, clustered, &most, &shared, &sums));
  bytes               = IDRSClusteredBytes(work->s, work->diagonal, clustered, plan->slots, plan->others, plan->isrest);
  clustered->messages = (bytes + sizeof(IDRSBlockMessage) - 1) / sizeof(IDRSBlockMessage);
  if (clustered->clusters == 1)
    bytes = (clustered->messages + sums + (halo ? 0 : clustered->rows * IDRS_PARTS)) * sizeof(IDRSBlockMessage);
  clustered->threads = (unsigned int)PetscMin(PetscMax((vectors + IDRS_WARP - 1) / IDRS_WARP * IDRS_WARP, least),
                                              (size_t)IDRS_CLUSTERED_THREADS);
  clustered->slots   = plan->slots;
  clustered->others  = plan->others;
  clustered->bytes   = PetscMax(bytes, shared / 2 + 1); /* at most one block per multiprocessor */
  *fits              = bytes <= shared && (PetscInt)clustered->clusters * solves <= most && plan->slots <= (size_t)UINT16_MAX + 1;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns true if a system with this layout may fit, from the needs of the block in the middle, before all blocks are counted */
static PetscErrorCode IDRSClusteredCanFit(IDRSWork work, const PetscInt *i, const PetscInt *j, const IDRSClustered *clustered,
                                          size_t shared, IDRSSharedPlan *plan, bool *can)
{
  const size_t   blocks = (size_t)clustered->clusters * clustered->size;
  const PetscInt begin  = PetscMin(work->n, (PetscInt)(blocks / 2 * clustered->rows)),
                 end    = PetscMin(work->n, begin + (PetscInt)clustered->rows);
  PetscInt count;

  PetscFunctionBegin;
  PetscCall(IDRSSharedPlanColumns(i, j, begin, end, plan->rows, &count, plan));
  *can = IDRSClusteredBytes(work->s, work->diagonal, clustered, (size_t)i[work->n] / blocks, (size_t)count, false) <= shared;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Places the system in clusters of this size, if this many solves fit on the device concurrently. If the layout has the matrix in
   shared memory, tries it first with the halo rows, if these are not too many
*/
static PetscErrorCode IDRSClusteredTry(IDRSWork work, const PetscInt *i, const PetscInt *j, PetscInt own, PetscInt solves,
                                       IDRSClusteredLayout layout, unsigned int size, IDRSClustered *clustered)
{
  const size_t   n     = (size_t)work->n;
  IDRSClustered  tried = {};
  IDRSSharedPlan plan  = {};
  size_t         shared, sums;
  int            most;
  bool           can = false, fits = false;
  PetscErrorCode ierr;

  PetscFunctionBegin;
  tried.size   = size;
  tried.layout = layout;
  PetscCall(IDRSClusteredGetClusters(work, &tried, &most, &shared, &sums));
  most /= (int)solves;
  if (!most) PetscFunctionReturn(PETSC_SUCCESS);
  tried.clusters = (unsigned int)PetscMax(PetscMin((size_t)most, (n + size * IDRS_RESIDENT_ROWS - 1) / (size * IDRS_RESIDENT_ROWS)),
                                          (size_t)1);
  tried.rows     = PetscMax((n + tried.clusters * size - 1) / (tried.clusters * size), (size_t)1);
  if (layout < IDRS_MATRIX_SHARED && tried.rows > IDRS_GLOBAL_ROWS) PetscFunctionReturn(PETSC_SUCCESS);
  /* a lower bound */
  if (IDRSClusteredBytes(work->s, work->diagonal, &tried, (size_t)i[n] / (tried.clusters * size), 0, false) > shared)
    PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSSharedPlanCreate(work->n, i, (PetscInt)(tried.clusters * size), (PetscInt)tried.rows, &plan));
  ierr = IDRSClusteredCanFit(work, i, j, &tried, shared, &plan, &can);
  if (!ierr && can) {
    ierr = IDRSSharedPlanFind(work->n, i, j, (PetscInt)(tried.clusters * size), (PetscInt)tried.rows, own, &plan);
    if (!ierr && layout == IDRS_MATRIX_SHARED && tried.rows + plan.others <= IDRS_HALO_ROWS) {
      tried.layout = IDRS_ROWS_SHARED;
      ierr         = IDRSClusteredFits(work, &plan, solves, &tried, &fits);
    }
    if (!ierr && !fits) {
      tried.layout = layout;
      ierr         = IDRSClusteredFits(work, &plan, solves, &tried, &fits);
    }
  }
  if (!ierr && fits) {
    *clustered = tried;
    ierr       = IDRSClusteredUploadPlan(i, work->n, &plan, clustered);
  }
  PetscCall(IDRSSharedPlanDestroy(&plan)); /* also after an error */
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSClusteredSetUp_CUDA - Decides how the system is placed in shared memory, so that this many solves can run concurrently

   If the matrix fits, it is in shared memory, in clusters as large as possible, and in as few of them as give each thread a row. A
   single cluster is as small as gives each thread one row. With larger clusters the GPU can use fewer multiprocessors. So if the
   matrix is in global memory, which all clusters read, clusters are smaller. A panel is in global memory only if nothing else fits,
   and only for a single solve
*/
PetscErrorCode IDRSClusteredSetUp_CUDA(IDRSWork work, const PetscInt *i, const PetscInt *j, PetscInt own, PetscInt solves,
                                       IDRSClustered *clustered)
{
  IDRSClusteredLayout least = solves == 1 && work->s <= IDRS_GLOBAL_S ? IDRS_PANEL_GLOBAL : IDRS_MATRIX_GLOBAL;
  unsigned int        size  = IDRS_CLUSTER_LEAST;
  bool                can;

  PetscFunctionBegin;
  if (solves > 1 && solves < IDRS_GLOBAL_SOLVES) least = IDRS_MATRIX_SHARED;
  PetscCall(IDRSClusteredDestroy_CUDA(clustered));
  PetscCallCUDA(IDRSCanLaunchEarly((const void *)IDRSClusteredKernel<1, IDRS_MATRIX_SHARED>, &can)); /* as for clusters */
  if (!can) PetscFunctionReturn(PETSC_SUCCESS);
  while (size < IDRS_CLUSTER_BLOCKS && (size_t)work->n > size * IDRS_RESIDENT_ROWS) size *= 2;
  for (; size <= IDRS_CLUSTER_BLOCKS && !clustered->clusters; size *= 2)
    PetscCall(IDRSClusteredTry(work, i, j, own, solves, IDRS_MATRIX_SHARED, size, clustered));
  for (int layout = IDRS_MATRIX_SHARED; layout >= least; layout--) {
    for (size = IDRS_CLUSTER_BLOCKS / 2; size >= IDRS_CLUSTER_LEAST && !clustered->clusters; size /= 2)
      PetscCall(IDRSClusteredTry(work, i, j, own, solves, (IDRSClusteredLayout)layout, size, clustered));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSClusteredLaunch_CUDA(IDRSWork work, const IDRSClustered *clustered, const IDRSClusteredMemory *global,
                                        const IDRSWholeSteps *steps, cudaStream_t stream)
{
  PetscFunctionBegin;
  PetscCall(IDRSDispatchWhole(work, [&](auto S, auto shadow) {
    cudaLaunchAttribute      attributes[2];
    const cudaLaunchConfig_t config = IDRSClusterConfig(clustered->clusters, clustered->size, clustered->threads, clustered->bytes,
                                                        stream, attributes);

    return IDRSClusteredDispatch<S>(clustered->layout, [&](auto kernel) {
      return cudaLaunchKernelEx(&config, kernel, *steps, shadow, *clustered, *global);
    });
  }));
  PetscFunctionReturn(PETSC_SUCCESS);
}
