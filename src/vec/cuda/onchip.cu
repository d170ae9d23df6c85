/*
   Many steps in one kernel, for systems that fit into the shared memory of all multiprocessors: the panels, r, t, the matrix and u
   of its rows are in the shared memory of a block from the first step to the last, and go back to global memory at the end, where
   the host continues. A block has neighbouring rows, so that it needs little of the u of others, and a multiprocessor for itself.
   What it needs comes into its shared memory before the product, each entry once, and the columns of the matrix are places there. A
   matrix that has no room in shared memory is in global memory, in the same order, and so is t.

   Where the rows of others that a block needs u of are few enough it has them, too: G, U, r, z and t of them behind those of its
   own rows, and makes the passes for them as their own blocks do, from the same numbers to the same bits. Then u is there when its
   own passes have ended, and nobody waits for it. What a block cannot make for such a row is its entry of the product: that is in a
   message, which others take while the sums are on their way.

   Blocks are in clusters, and the sums of a step are made in three parts. Sum i is that of rank i mod size in each cluster:

     of a block           by its warps; then to the rank that has sum i, into its shared memory
     of a cluster         by a warp of that rank, in a fixed order of the ranks; then to all clusters, into a mailbox for each in
                          global memory
     of all               by the first warp of each block, from the mailbox of its cluster, in a fixed order of the clusters

   Meanwhile the first warp prepares the algebra. Where there is one cluster no sum goes through global memory: a block leaves its
   sums to all others, which add them up. Nor does u, which a block without rows of others asks for in their shared memory.

   What goes from block to block is in messages, and why none is overwritten before it is read is argued in whole.cuh for u, and for
   sums that go from each block to all. Here they go through the rank that has them:

     to a rank            Those of steps j and j+1 are in two places. A block writes those of step j+2 over those of step j once it
                          has the sums of all clusters of step j+1. Each of them contains what that rank itself has left for step
                          j+1, and it left that after it had passed on all that it read of step j, and met its threads.
     to a mailbox         A rank posts sums of step j+2 over those of step j once its cluster has left those of step j+2, which each
                          block does after it has the sums of all clusters of step j+1. Each of them contains what the blocks that
                          read this mailbox have left for step j+1, after they had read it in step j.

   Entries of u that come into shared memory are stored there by the thread that has read them, and a barrier is between that and
   the product: so the sums of a block depend on all of them.

     entries of a product   Those of steps j and j+1 are in two places, as nobody waits for a reader before the sums of step j are
                            there. A block writes those of step j+2 over those of step j once it has the sums of all blocks of step
                            j+1. A block leaves these after it has read all that it needs of step j, and met its threads: the passes
                            of step j are between the two.

   A block reads its own mailboxes only, and every store and load is of the same words, relaxed, in the order that data depends on:
   no fence is needed. No block ends before all of its cluster have come to the end, as they might still write to it.

   What a block leaves to itself goes the same way. compute-sanitizer's racecheck knows barriers and no messages: it names these
   stores of Leave() with the loads that wait for them.
*/
/* Threads of a block at most; a thread has several rows then. With more of them a thread has not the registers that it needs */
#define IDRS_THREADS 384
#include "onchip.h"
#include "../../sys/device/cluster.cuh"

/* The least blocks of a cluster */
#define IDRS_CLUSTER_LEAST 4

/* Rows of a block that are not too few for one more cluster, or for a larger one */
#define IDRS_ONCHIP_ROWS 128

/*
   Rows of a block and of others, all of which a block has vectors of: three of a thread. With more of them the passes take longer
   than the entries of u, which nobody waits for then
*/
#define IDRS_HALO_ROWS (3 * IDRS_THREADS)

/* Lanes that add up a sum over the blocks of a cluster */
#define IDRS_CLUSTER_LANES 4

/* Entries of other blocks that a thread asks for at once */
#define IDRS_NEAR_ATONCE 6

/* The first thread that takes rows of others while the first warp prepares the algebra, and the second one passes sums on */
#define IDRS_HALO_FIRST (2 * IDRS_WARP)

/*
   Rows of a matrix, with columns that are places in shared memory, where the matrix is itself if it fits. The first entries of 32
   neighbouring rows are a slice: those of the same number side by side, so that lanes meet in no bank, or read what is side by
   side, and zeros behind the shorter rows. What is left of long rows follows row by row
*/
typedef struct {
  const PetscScalar *a;
  const uint16_t    *j;
  const uint32_t    *slice;  /* where slices begin, and the end of the last */
  const uint32_t    *rest;   /* where the rest of each row begins, and the end of the last, */
  bool               isrest; /* unless no row is so long */
  uint32_t           n;
} IDRSNearMatrix;

/*
   The u of a step: in shared memory for the rows of this block, and behind them for those of others that it needs, which come
   before the product
*/
struct IDRSNearEntries {
  IDRSBlockMessage *entries; /* of all rows, in global memory */
  PetscScalar      *own;
  IDRSIndex         first, n; /* own rows */
  uint32_t          number;
  IDRSWaitPolls    *wait;
  const PetscInt   *others; /* their rows */
  IDRSIndex         count;
  IDRSIndex         rows; /* of each block, but for the last ones */
  /* where there is one cluster: messages of own rows, in shared memory, where others ask for them; else NULL */
  IDRSBlockMessage *close;
  uint32_t          rank; /* of this block in it */
  /* what this thread asks for first: rows, or if they are close the rank and the row of that block in the lower half */
  uint32_t from[IDRS_NEAR_ATONCE];

  __device__ __forceinline__ void operator()(size_t i, const IDRSPack<1> &u) const
  {
    own[i] = u.v[0];
    if (!close) IDRSPostScalar(entries + (first + i) * IDRS_PARTS, u.v[0], number);
    else {
#pragma unroll
      for (int k = 0; k < IDRS_PARTS; k++)
        IDRSStoreCluster(close + i * IDRS_PARTS + k, rank,
                         IDRSMakeMessage(k ? PetscImaginaryPart(u.v[0]) : PetscRealPart(u.v[0]), number));
    }
  }
};

/*
   What a thread asks for that asks for the entries at begin, begin + blockDim.x, ...; for the last one where it has no more of them
*/
static __device__ __forceinline__ void IDRSSetFrom(const IDRSNearEntries &u, IDRSIndex begin, uint32_t from[IDRS_NEAR_ATONCE])
{
#pragma unroll
  for (int l = 0; l < IDRS_NEAR_ATONCE; l++) {
    const IDRSIndex row = u.count ? (IDRSIndex)__ldg(u.others + min(begin + l * blockDim.x, u.count - 1)) : 0;

    from[l] = (uint32_t)(u.close ? row / u.rows << 16 | row % u.rows : row);
  }
}

/*
   Entries p, p + stride, ... before end. All loads are made at once, as none of them depends on a test: what follows on the entries
   of a row counts as zero, and is there behind the last row, too
*/
static __device__ __forceinline__ PetscScalar IDRSNearSum(const IDRSNearMatrix &A, const IDRSNearEntries &u, uint32_t begin,
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

/* By a warp: entry of A u for row + (this lane), where row is the first of 32, as in rowsum.cuh */
template <int ATONCE, typename Entries>
static __device__ __forceinline__ PetscScalar IDRSRowSumShared(const IDRSNearMatrix &A, const Entries &u, IDRSIndex row, int)
{
  const uint32_t lane = threadIdx.x % IDRS_WARP, slice = (uint32_t)row / IDRS_WARP;
  PetscScalar    mine = IDRSNearSum(A, u, A.slice[slice] + lane, A.slice[slice + 1]);

  if (__builtin_expect(A.isrest, 0)) {
    const bool     there = row + lane < A.n;
    const uint32_t begin = there ? A.rest[row + lane] : 0, stop = there ? A.rest[row + lane + 1] : 0;

#pragma unroll 1
    for (unsigned int left = IDRSWarpBallot(begin < stop); left; left &= left - 1) {
      const int   from = __ffs(left) - 1;
      PetscScalar sum  = IDRSWarpSum<IDRS_WARP>(IDRSNearSum(A, u, IDRSShuffle(begin, from) + lane, IDRSShuffle(stop, from)));

      sum = IDRSShuffle(sum, 0);
      if ((int)lane == from) mine += sum;
    }
  }
  return mine;
}

/*
   Entries of others, number begin, begin + stride, ..., all of which are asked for before one is looked at, with load(which of
   them, part). A lane that has no more of them asks for the last one
*/
template <int ATONCE, typename Load>
static __device__ __forceinline__ void IDRSTakeEntries(const IDRSNearEntries &u, PetscScalar *to, IDRSIndex begin, IDRSIndex stride,
                                                       const Load &load)
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

/* Own entries and those of others */
static __device__ __forceinline__ void IDRSMeetEntries(const IDRSNearEntries &u)
{
  uint32_t from[IDRS_NEAR_ATONCE];

#pragma unroll
  for (int l = 0; l < IDRS_NEAR_ATONCE; l++) from[l] = u.from[l];
  for (IDRSIndex begin = threadIdx.x; begin - threadIdx.x % IDRS_WARP < u.count; begin += IDRS_NEAR_ATONCE * blockDim.x) {
    if (begin != threadIdx.x) IDRSSetFrom(u, begin, from);
    if (u.close)
      IDRSTakeEntries<IDRS_NEAR_ATONCE>(u, u.own + u.n, begin, blockDim.x, [&](int l, int part) {
        return IDRSLoadRank(u.close + (from[l] & 0xffff) * IDRS_PARTS + part, from[l] >> 16);
      });
    else
      IDRSTakeEntries<IDRS_NEAR_ATONCE>(u, u.own + u.n, begin, blockDim.x, [&](int l, int part) {
        return IDRSLoadRelaxed(u.entries + (size_t)from[l] * IDRS_PARTS + part);
      });
  }
  __syncthreads();
}

/* Entries of others that a thread asks for at once where nobody waits for them */
#define IDRS_HALO_ATONCE 2

/*
   The same where a block has the rows of others, too, and u of them: others are told of the product instead, which comes while sums
   do, for even steps and for odd ones in two places
*/
struct IDRSHaloEntries : IDRSNearEntries {
  size_t messages; /* in one of them */

  __device__ __forceinline__ void operator()(size_t i, const IDRSPack<1> &u) const { own[i] = u.v[0]; }

  __device__ __forceinline__ IDRSBlockMessage *Place() const { return entries + (number % 2 ? messages : 0); }
};

/* Own entries are there for all threads of the block */
static __device__ __forceinline__ void IDRSMeetEntries(const IDRSHaloEntries &)
{
  __syncthreads();
}

/* By the warps after the first two: x of the rows of others */
static __device__ __forceinline__ void IDRSTakeHalo(const IDRSHaloEntries &u, PetscScalar *x)
{
  const IDRSIndex         stride = blockDim.x - IDRS_HALO_FIRST;
  const IDRSBlockMessage *place  = u.Place();

  for (IDRSIndex begin = threadIdx.x - IDRS_HALO_FIRST; begin - threadIdx.x % IDRS_WARP < u.count;
       begin += IDRS_HALO_ATONCE * stride) {
    IDRSIndex from[IDRS_HALO_ATONCE];

#pragma unroll
    for (int l = 0; l < IDRS_HALO_ATONCE; l++) from[l] = (IDRSIndex)__ldg(u.others + min(begin + l * stride, u.count - 1));
    IDRSTakeEntries<IDRS_HALO_ATONCE>(u, x + u.n, begin, stride, [&](int l, int part) {
      return IDRSLoadRelaxed(place + (size_t)from[l] * IDRS_PARTS + part);
    });
  }
}

/* Messages for the sums that a rank has, from all ranks, in one step */
template <int S>
static constexpr int IDRSClusterMessages = IDRSRealSums<S, true, true> + IDRS_CLUSTER_BLOCKS;

/* Messages for the sums of a block where there is one cluster, for even steps and for odd ones */
template <int S>
static constexpr unsigned int IDRSCloseSums = 2 * IDRSRealSums<S, true, true>;

/* Sums of a warp, with room for as many as are made at once */
#define IDRS_TOTALS 8

template <int S>
static constexpr int IDRSWarpRoom = (IDRSRealSums<S, true, true> + IDRS_TOTALS - 1) / IDRS_TOTALS * IDRS_TOTALS;

/* Memory of a block for the sums of its step and of its cluster */
template <int S>
struct IDRSOnChipSums {
  IDRSBlockMessage messages[2][IDRSClusterMessages<S>]; /* from the blocks of the cluster, for odd and even steps */
  PetscReal        warps[IDRS_WARPS][IDRSWarpRoom<S>];
  int              places[2][IDRSRealSums<S, true, true>]; /* of the sums, without a y and with it */
};

/*
   Sums of values over the lanes of a warp. Fewer instructions than IDRSWarpSums() has, which counts where one warp works at a time:
   in double precision the matrix unit adds, as a product of ones and values has in each column the sum over 4 lanes. Two columns
   are added; then the lanes of column i have a fourth of value i, and another product adds the fourths
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

/* A sum over the warps of a block, whose rest are zeros: there is no test between two of them but one */
template <int room>
static __device__ __forceinline__ PetscReal IDRSWarpsTree(const PetscReal (*warp)[room], int i, int warps)
{
  PetscReal sum[4];

#pragma unroll
  for (int w = 0; w < 4; w++) sum[w] = warp[w][i];
  if (warps > 4) {
#pragma unroll
    for (int w = 4; w < IDRS_WARPS; w++) sum[w % 4] += warp[w][i];
  }
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Blocks whose rows are in shared memory */
template <int SMAX, typename Matrix, typename Entries>
struct IDRSOnChipBlocks {
  typedef IDRSBlockRows Rows;
  static constexpr bool halo = std::is_same<Entries, IDRSHaloEntries>::value;
  Matrix                A;
  Entries               u;
  IDRSCluster           cluster;
  IDRSOnChipSums<SMAX> *shared;
  IDRSBlockMessage     *mailboxes, *second; /* of all clusters, for even steps and for odd ones */
  /* where there is one cluster: sums of all its blocks, in shared memory, for even steps and then for odd ones; else NULL */
  IDRSBlockMessage *all;

  /* Where the sums of a step come to */
  template <int S>
  __device__ __forceinline__ IDRSBlockMessage *Slots() const
  {
    return all ? all + (u.number % 2 ? IDRSRealSums<S, true, true> * cluster.size : 0) : shared->messages[u.number % 2];
  }

  /*
     By all threads: the sums of this block, to the ranks that have them, or to all of them where there is one cluster. Returns
     whether a message has not come
  */
  template <int S, bool Y>
  __device__ __forceinline__ bool Leave(const IDRSDots<S, Y, true> &block)
  {
    IDRSBlockMessage *slots = Slots<S>();
    constexpr int     dots = IDRSDots<S, Y, true>::count, count = IDRSRealSums<S, Y, true>;
    /* the others have nothing */
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
    if (__syncthreads_or(!u.wait->left)) return true; /* nobody gets sums of which a part has not come */
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
     By a warp, some lanes for a sum: the sums of the cluster that this rank has, to all clusters. Nobody gets one of which a part
     has not come
  */
  __device__ __forceinline__ void Pass(unsigned int count, const IDRSBlockMessage *slots, IDRSBlockMessage *boxes)
  {
    constexpr int      together = IDRS_WARP / IDRS_CLUSTER_LANES, ranks = IDRS_CLUSTER_BLOCKS / IDRS_CLUSTER_LANES;
    const unsigned int lane = threadIdx.x % IDRS_CLUSTER_LANES;

    for (unsigned int begin = cluster.rank; begin < count; begin += together * cluster.size) {
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

  /* By a warp, a lane for a sum: adds up so many messages for each, which load(sum, number) asks for */
  template <int S, typename Load>
  __device__ __forceinline__ void Take(bool y, int count, unsigned int messages, PetscScalar *sums, const Load &load)
  {
#pragma unroll 1
    for (int begin = 0; begin < count; begin += IDRS_WARP) {
      const int i     = min(begin + (int)(threadIdx.x % IDRS_WARP), count - 1),
                place = begin + (int)(threadIdx.x % IDRS_WARP) < count ? shared->places[y][i] : -1;
      PetscReal total = 0.0;

      for (unsigned int first = 0; first < messages; first += IDRS_TAKES) {
        IDRSBlockMessage message[IDRS_TAKES];
        PetscReal        sum[IDRS_TAKES];
        uint32_t         missing;

        do {
          missing = 0;
#pragma unroll
          for (int l = 0; l < IDRS_TAKES; l++) message[l] = load(i, min(first + l, messages - 1));
#pragma unroll
          for (int l = 0; l < IDRS_TAKES; l++) missing |= IDRSMessageLacks(message[l], u.number);
        } while (!IDRSWarpAll(!missing) && !u.wait->Ends());
#pragma unroll
        for (int l = 0; l < IDRS_TAKES; l++) sum[l] = first + l < messages ? IDRSMessageValue(message[l]) : (PetscReal)0.0;
#pragma unroll
        for (int half = IDRS_TAKES / 2; half > 0; half /= 2) {
#pragma unroll
          for (int l = 0; l < half; l++) sum[l] += sum[l + half];
        }
        total += sum[0];
      }
      if (place >= 0) ((PetscReal *)sums)[place] = total * (y ? IDRSSumScale<S, true, true>(i) : IDRSSumScale<S, false, true>(i));
    }
  }

  /* By all threads: the sums of all blocks, by the first warp */
  template <int S, typename Meanwhile>
  __device__ __forceinline__ bool Collect(bool y, const IDRSShadow<S> &, PetscScalar *x, PetscScalar *sums,
                                          const Meanwhile &meanwhile)
  {
    const unsigned int count = y ? IDRSRealSums<S, true, true> : IDRSRealSums<S, false, true>;
    IDRSBlockMessage  *slots = Slots<S>(), *boxes = u.number % 2 ? second : mailboxes;

    if (!all && threadIdx.x / IDRS_WARP == (blockDim.x > IDRS_WARP ? 1 : 0)) Pass(count, slots, boxes);
    if constexpr (halo) {
      if (threadIdx.x >= IDRS_HALO_FIRST) IDRSTakeHalo(u, x);
    }
    if (threadIdx.x >= IDRS_WARP) return false;
    meanwhile();
    boxes += cluster.index * cluster.count * count;
    if (all)
      Take<S>(y, (int)count, cluster.size, sums,
              [&](int i, unsigned int rank) { return IDRSLoadCluster(slots + i * cluster.size + rank); });
    else
      Take<S>(y, (int)count, cluster.count, sums,
              [&](int i, unsigned int from) { return IDRSLoadRelaxed(boxes + from * count + i); });
    IDRS_SYNC_WARP();
    return !u.wait->left;
  }

  __device__ __forceinline__ void Tell(size_t i, PetscScalar x) const
  {
    if constexpr (halo) IDRSPostScalar(u.Place() + (u.first + i) * IDRS_PARTS, x, u.number);
  }

  __device__ __forceinline__ void Meet() const { IDRSMeetEntries(u); }
};

/* Copies between shared and global memory, by all threads of a block */
template <typename T>
static __device__ __forceinline__ void IDRSCopyEntries(T *to, const T *from, size_t n)
{
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
}

/*
   What is in shared memory: always G, U, r and the diagonal of own rows, and entries of u, own ones and those of others that the
   product needs
*/
enum {
  IDRS_CHIP_FAR,  /* no more: the matrix and t are in global memory */
  IDRS_CHIP_NEAR, /* the matrix and t as well */
  IDRS_CHIP_HALO  /* these, z and v, and the vectors of the rows of others */
};

/* The same from rows that a block has: own ones, and then those of others */
template <typename T>
static __device__ __forceinline__ void IDRSCopyRows(T *to, const T *from, size_t first, size_t n, const PetscInt *others,
                                                    size_t count)
{
  IDRSCopyEntries(to, from + first, n);
  for (size_t i = threadIdx.x; i < count; i += blockDim.x) to[n + i] = from[others[i]];
}

template <int S, int CHIP>
static __global__ void __launch_bounds__(IDRS_THREADS, 1)
  IDRSOnChipKernel(const __grid_constant__ IDRSWholeSteps given, const __grid_constant__ IDRSShadow<S> shadow,
                   const __grid_constant__ IDRSOnChip onchip)
{
  extern __shared__ __align__(16) PetscScalar chip[];
  __shared__ IDRSOnChipSums<S> sums;
  const size_t                 rows = IDRSKeep((unsigned int)onchip.rows), first = min((size_t)blockIdx.x * rows, given.panels.n),
               n           = IDRSKeep((unsigned int)min(rows, given.panels.n - first));
  const PetscInt *others   = onchip.rowsofothers + onchip.firstother[blockIdx.x];
  const size_t    count    = (size_t)(onchip.firstother[blockIdx.x + 1] - onchip.firstother[blockIdx.x]),
               more        = CHIP == IDRS_CHIP_HALO ? count : 0;
  const size_t       ld    = CHIP == IDRS_CHIP_HALO ? IDRSKeep((unsigned int)(rows + onchip.others)) : rows;
  const int          s     = (int)IDRSKeep((unsigned int)given.panels.s);
  IDRSWaitPolls      wait  = {given.polls};
  IDRSWholeSteps     steps = given;
  IDRSShadow<S>      P     = shadow;
  PetscScalar       *own = chip + (2 * s + (CHIP == IDRS_CHIP_FAR ? 1 : 2)) * ld, *free = own + rows + onchip.others;
  const size_t       slices = (rows + IDRS_WARP - 1) / IDRS_WARP;
  const IDRSMatIndex begin = given.A.i[first], end = given.A.i[first + n];
  IDRSNearEntries    near = {given.entries, own,    (IDRSIndex)first, (IDRSIndex)n,   given.partials.launch,
                             &wait,         others, (IDRSIndex)count, (IDRSIndex)rows};
  IDRSBlockMessage  *all  = NULL;
  PetscScalar       *a;
  uint32_t          *slice, *rest;
  uint16_t          *j;
  IDRSStep           step;
  const auto         run = [&](auto A, auto u) {
    IDRSOnChipBlocks<S, decltype(A), decltype(u)> blocks = {
      A, u, IDRSGetCluster(), &sums, given.partials.messages, given.partials.second, all};

    IDRSClusterMeet();
    return IDRSWholeRun<S>(steps, P, blocks);
  };

  steps.panels = {chip, chip + s * ld, ld, n + more, s};
  steps.r      = chip + 2 * s * ld;
  steps.t      = CHIP == IDRS_CHIP_FAR ? given.t + first : steps.r + ld;
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
  if (CHIP == IDRS_CHIP_HALO) {
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
  for (int i = threadIdx.x; i < IDRS_WARPS * IDRSWarpRoom<S>; i += blockDim.x)
    sums.warps[i / IDRSWarpRoom<S>][i % IDRSWarpRoom<S>] = 0.0;
  for (int i = threadIdx.x; i < IDRSRealSums<S, true, true>; i += blockDim.x) {
    sums.places[0][i] = i < IDRSRealSums<S, false, true> ? IDRSSumPlace<S, false, true>(P, i) : -1;
    sums.places[1][i] = IDRSSumPlace<S, true, true>(P, i);
  }
  slice = (uint32_t *)(CHIP == IDRS_CHIP_FAR ? free : free + onchip.slots);
  rest  = slice + slices + 1;
  a     = CHIP == IDRS_CHIP_FAR ? onchip.a + blockIdx.x * onchip.slots : free;
  j     = CHIP == IDRS_CHIP_FAR ? onchip.j + blockIdx.x * onchip.slots : (uint16_t *)(onchip.rest ? rest + rows + 1 : rest);
  if (onchip.clusters == 1) {
    all = (IDRSBlockMessage *)chip + onchip.messages;
    if (CHIP != IDRS_CHIP_HALO) near.close = all + IDRSCloseSums<S> * onchip.size;
    near.rank = blockIdx.x;
    for (unsigned int k = threadIdx.x; k < IDRSCloseSums<S> * onchip.size + (CHIP != IDRS_CHIP_HALO ? rows * IDRS_PARTS : 0);
         k += blockDim.x)
      all[k] = {0, 0};
  }
  if (CHIP != IDRS_CHIP_HALO) IDRSSetFrom(near, threadIdx.x, near.from);
  IDRSCopyEntries(slice, onchip.slice + blockIdx.x * (slices + 1), slices + 1);
  if (onchip.rest) IDRSCopyEntries(rest, onchip.rest + blockIdx.x * (rows + 1), rows + 1);
  for (size_t k = threadIdx.x; k < onchip.slots; k += blockDim.x) {
    a[k] = 0.0;
    j[k] = 0;
  }
  __syncthreads();
  for (IDRSMatIndex q = begin + threadIdx.x; q < end; q += blockDim.x) {
    const uint32_t place = onchip.places[q];

    a[place >> 16] = given.A.a[q];
    j[place >> 16] = (uint16_t)place;
  }
  if constexpr (CHIP == IDRS_CHIP_HALO)
    step = run(IDRSNearMatrix{a, j, slice, rest, onchip.rest != NULL, (uint32_t)n},
               IDRSHaloEntries{near, given.panels.n * IDRS_PARTS});
  else step = run(IDRSNearMatrix{a, j, slice, rest, onchip.rest != NULL, (uint32_t)n}, near);
  for (int j = 0; j < s; j++) {
    IDRSCopyEntries(given.panels.G + j * given.panels.ld + first, steps.panels.G + j * ld, n);
    IDRSCopyEntries(given.panels.U + j * given.panels.ld + first, steps.panels.U + j * ld, n);
  }
  IDRSCopyEntries(given.r + first, steps.r, n);
  if (CHIP != IDRS_CHIP_FAR && step.k == s) IDRSCopyEntries(given.t + first, steps.t, n);
  if (CHIP == IDRS_CHIP_HALO) {
    IDRSCopyEntries(given.z + first, steps.z, n);
    if (given.diagonal) IDRSCopyEntries(given.v + first, steps.v, n);
  }
  IDRSClusterMeet();
}

/*
   As many clusters of such a size as the device holds of a kernel, whose blocks have a multiprocessor each; *shared: bytes of
   shared memory that the kernel leaves to a block
*/
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
  /* a size that the device does not have */
  if (error == cudaSuccess && cudaOccupancyMaxActiveClusters(clusters, kernel, &config) != cudaSuccess) {
    (void)cudaGetLastError();
    *clusters = 0;
  }
  return error;
}

/* Bytes of shared memory for such blocks */
static size_t IDRSOnChipBytes(PetscInt s, bool diagonal, const IDRSOnChip *onchip, size_t slots, size_t others, bool rest)
{
  /* with own entries of u */
  const size_t rows = onchip->rows, vectors = 2 * (size_t)s + (onchip->matrix ? 3 : 2) + (diagonal ? 1 : 0);
  size_t       bytes = (vectors * rows + others) * sizeof(PetscScalar);

  if (onchip->halo) bytes = (vectors + (diagonal ? 2 : 1)) * (rows + others) * sizeof(PetscScalar);
  if (onchip->matrix) bytes += slots * (sizeof(PetscScalar) + sizeof(uint16_t));
  return bytes + ((rows + IDRS_WARP - 1) / IDRS_WARP + 1 + (rest ? rows + 1 : 0)) * sizeof(uint32_t);
}

/* The matrix as blocks have it, on the host */
typedef struct {
  PetscInt *first, *rows; /* of each block the rows of others that it needs, in ascending order */
  PetscInt *place;        /* of each row; -1 between two blocks */
  /* of each nonzero: its slot, and that of the entry of u, of which a block that fits has at most 65536 each */
  uint32_t *places;
  uint32_t *slice, *rest; /* as in IDRSNearMatrix, of one block after another */
  size_t    others, slots;
  bool      isrest;
} IDRSNear;

static PetscErrorCode IDRSNearCreate(PetscInt n, const PetscInt *i, PetscInt blocks, PetscInt rows, IDRSNear *near)
{
  PetscFunctionBegin;
  PetscCall(PetscMalloc6(blocks + 1, &near->first, i[n], &near->rows, n, &near->place, i[n], &near->places,
                         blocks * ((rows + IDRS_WARP - 1) / IDRS_WARP + 1), &near->slice, blocks * (rows + 1), &near->rest));
  for (PetscInt row = 0; row < n; row++) near->place[row] = -1;
  near->others = near->slots = 0;
  near->isrest               = false;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSNearDestroy(IDRSNear *near)
{
  PetscFunctionBegin;
  PetscCall(PetscFree6(near->first, near->rows, near->place, near->places, near->slice, near->rest));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The rows from begin to end - 1: which of others they need, and where each nonzero finds its entry of u */
static PetscErrorCode IDRSNearColumns(const PetscInt *i, const PetscInt *j, PetscInt begin, PetscInt end, PetscInt *mine,
                                      PetscInt *count, IDRSNear *near)
{
  PetscFunctionBegin;
  *count = 0;
  for (PetscInt q = i[begin]; q < i[end]; q++) {
    if ((j[q] >= begin && j[q] < end) || near->place[j[q]] >= 0) continue;
    near->place[j[q]] = 0;
    mine[(*count)++]  = j[q];
  }
  PetscCall(PetscSortInt(*count, mine));
  for (PetscInt k = 0; k < *count; k++) near->place[mine[k]] = end - begin + k;
  for (PetscInt q = i[begin]; q < i[end]; q++)
    near->places[q] = (uint32_t)(j[q] >= begin && j[q] < end ? j[q] - begin : near->place[j[q]]) & 0xffffu;
  for (PetscInt k = 0; k < *count; k++) near->place[mine[k]] = -1;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Slots for their nonzeros, of which so many are in slices; returns how many slots */
static size_t IDRSNearSlots(const PetscInt *i, PetscInt begin, PetscInt end, PetscInt rows, PetscInt own, uint32_t *slice,
                            uint32_t *rest, IDRSNear *near)
{
  PetscInt slots = 0, number = 0;

  for (PetscInt first = begin; first < begin + rows; first += IDRS_WARP) {
    PetscInt width = 0;

    slice[number++] = (uint32_t)slots;
    for (PetscInt row = first; row < PetscMin(end, first + IDRS_WARP); row++) {
      const PetscInt length = PetscMin(i[row + 1] - i[row], own);

      width = PetscMax(width, length);
      for (PetscInt l = 0; l < length; l++) near->places[i[row] + l] |= (uint32_t)(slots + l * IDRS_WARP + row - first) << 16;
    }
    slots += width * IDRS_WARP;
  }
  slice[number] = (uint32_t)slots;
  for (PetscInt row = begin; row < begin + rows; row++) {
    rest[row - begin] = (uint32_t)slots;
    for (PetscInt q = row < end ? i[row] + own : 0; row < end && q < i[row + 1]; q++) near->places[q] |= (uint32_t)slots++ << 16;
    if (rest[row - begin] < (uint32_t)slots) near->isrest = true;
  }
  rest[rows] = (uint32_t)slots;
  return (size_t)slots;
}

static PetscErrorCode IDRSNearFind(PetscInt n, const PetscInt *i, const PetscInt *j, PetscInt blocks, PetscInt rows, PetscInt own,
                                   IDRSNear *near)
{
  const PetscInt slices = (rows + IDRS_WARP - 1) / IDRS_WARP;
  PetscInt       total  = 0;

  PetscFunctionBegin;
  for (PetscInt block = 0; block < blocks; block++) {
    const PetscInt begin = PetscMin(n, block * rows), end = PetscMin(n, begin + rows);
    PetscInt       count;

    near->first[block] = total;
    PetscCall(IDRSNearColumns(i, j, begin, end, near->rows + total, &count, near));
    total += count;
    near->others = PetscMax(near->others, (size_t)count);
    near->slots  = PetscMax(near->slots, IDRSNearSlots(i, begin, end, rows, own, near->slice + block * (slices + 1),
                                                       near->rest + block * (rows + 1), near));
  }
  near->first[blocks] = total;
  near->slots += (IDRS_WHOLE_ATONCE - 1) * IDRS_WARP + 1; /* which lanes load, and do not use */
  PetscFunctionReturn(PETSC_SUCCESS);
}

template <typename T>
static PetscErrorCode IDRSOnChipUpload(size_t count, const T *data, cudaStream_t stream, T **copy)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, PetscMax(count, (size_t)1), copy));
  PetscCallCUDA(cudaMemcpyAsync(*copy, data, count * sizeof(T), cudaMemcpyHostToDevice, stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSOnChipDestroy_CUDA(IDRSOnChip *onchip)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, onchip->firstother));
  PetscCall(PetscDeviceFree(dctx, onchip->rowsofothers));
  PetscCall(PetscDeviceFree(dctx, onchip->places));
  PetscCall(PetscDeviceFree(dctx, onchip->slice));
  PetscCall(PetscDeviceFree(dctx, onchip->rest));
  PetscCall(PetscDeviceFree(dctx, onchip->a));
  PetscCall(PetscDeviceFree(dctx, onchip->j));
  *onchip = {};
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The matrix as all blocks have it, to the device */
static PetscErrorCode IDRSOnChipUploadNear(const PetscInt *i, PetscInt n, const IDRSNear *near, IDRSOnChip *onchip)
{
  const size_t       blocks = (size_t)onchip->clusters * onchip->size;
  PetscDeviceContext dctx;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  if (!onchip->matrix) {
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, blocks * onchip->slots, &onchip->a));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, blocks * onchip->slots, &onchip->j));
  }
  PetscCall(IDRSOnChipUpload(blocks + 1, near->first, stream, &onchip->firstother));
  PetscCall(IDRSOnChipUpload((size_t)near->first[blocks], near->rows, stream, &onchip->rowsofothers));
  PetscCall(IDRSOnChipUpload((size_t)i[n], near->places, stream, &onchip->places));
  PetscCall(IDRSOnChipUpload(blocks * ((onchip->rows + IDRS_WARP - 1) / IDRS_WARP + 1), near->slice, stream, &onchip->slice));
  if (near->isrest) PetscCall(IDRSOnChipUpload(blocks * (onchip->rows + 1), near->rest, stream, &onchip->rest));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   As many clusters as the device holds of the kernel for a system that lies so, and bytes of shared memory for a block; *sums:
   messages there for its sums, where there is one cluster
*/
static PetscErrorCode IDRSOnChipGetClusters(IDRSWork work, const IDRSOnChip *onchip, int *clusters, size_t *shared, size_t *sums)
{
  PetscFunctionBegin;
  PetscCall(IDRSDispatchWhole(work, [&](auto S, auto) {
    *sums = IDRSCloseSums<S> * onchip->size;
    if (onchip->halo) return IDRSGetClusters(IDRSOnChipKernel<S, IDRS_CHIP_HALO>, onchip->size, clusters, shared);
    return onchip->matrix ? IDRSGetClusters(IDRSOnChipKernel<S, IDRS_CHIP_NEAR>, onchip->size, clusters, shared)
                          : IDRSGetClusters(IDRSOnChipKernel<S, IDRS_CHIP_FAR>, onchip->size, clusters, shared);
  }));
  *clusters = PetscMin(*clusters, IDRS_WARP); /* mailboxes that there is room for */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* What a block of it has, and whether it fits */
static PetscErrorCode IDRSOnChipFits(IDRSWork work, const IDRSNear *near, IDRSOnChip *onchip, bool *fits)
{
  const size_t vectors = onchip->rows + (onchip->halo ? near->others : 0),
               least   = onchip->halo ? IDRS_HALO_FIRST + IDRS_WARP : IDRS_WARP;
  size_t shared, sums, bytes;
  int    most;

  PetscFunctionBegin;
  PetscCall(IDRSOnChipGetClusters(work, onchip, &most, &shared, &sums));
  bytes            = IDRSOnChipBytes(work->s, work->diagonal, onchip, near->slots, near->others, near->isrest);
  onchip->messages = (bytes + sizeof(IDRSBlockMessage) - 1) / sizeof(IDRSBlockMessage);
  if (onchip->clusters == 1)
    bytes = (onchip->messages + sums + (onchip->halo ? 0 : onchip->rows * IDRS_PARTS)) * sizeof(IDRSBlockMessage);
  onchip->threads = (unsigned int)PetscMin(PetscMax((vectors + IDRS_WARP - 1) / IDRS_WARP * IDRS_WARP, least),
                                           (size_t)IDRS_THREADS);
  onchip->slots   = near->slots;
  onchip->others  = near->others;
  onchip->bytes   = PetscMax(bytes, shared / 2 + 1); /* no two blocks on a multiprocessor */
  *fits           = bytes <= shared && (int)onchip->clusters <= most && near->slots <= (size_t)UINT16_MAX + 1;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Whether a system that lies so can fit, by what the block in the middle needs of others, before all blocks are looked at */
static PetscErrorCode IDRSOnChipCanFit(IDRSWork work, const PetscInt *i, const PetscInt *j, const IDRSOnChip *onchip, size_t shared,
                                       IDRSNear *near, bool *can)
{
  const size_t   blocks = (size_t)onchip->clusters * onchip->size;
  const PetscInt begin  = PetscMin(work->n, (PetscInt)(blocks / 2 * onchip->rows)),
                 end    = PetscMin(work->n, begin + (PetscInt)onchip->rows);
  PetscInt count;

  PetscFunctionBegin;
  PetscCall(IDRSNearColumns(i, j, begin, end, near->rows, &count, near));
  *can = IDRSOnChipBytes(work->s, work->diagonal, onchip, (size_t)i[work->n] / blocks, (size_t)count, false) <= shared;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The system in clusters of such a size, if it fits: with the matrix or without, and with the rows of others if these are not too
   many
*/
static PetscErrorCode IDRSOnChipTry(IDRSWork work, const PetscInt *i, const PetscInt *j, PetscInt own, bool matrix,
                                    unsigned int size, IDRSOnChip *onchip)
{
  const size_t   n     = (size_t)work->n;
  IDRSOnChip     tried = {};
  IDRSNear       near  = {};
  size_t         shared, sums;
  int            most;
  bool           can = false, fits = false;
  PetscErrorCode ierr;

  PetscFunctionBegin;
  tried.size   = size;
  tried.matrix = matrix;
  PetscCall(IDRSOnChipGetClusters(work, &tried, &most, &shared, &sums));
  if (!most) PetscFunctionReturn(PETSC_SUCCESS);
  tried.clusters = (unsigned int)PetscMax(PetscMin((size_t)most, (n + size * IDRS_ONCHIP_ROWS - 1) / (size * IDRS_ONCHIP_ROWS)),
                                          (size_t)1);
  tried.rows     = PetscMax((n + tried.clusters * size - 1) / (tried.clusters * size), (size_t)1);
  /* at least */
  if (IDRSOnChipBytes(work->s, work->diagonal, &tried, (size_t)i[n] / (tried.clusters * size), 0, false) > shared)
    PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSNearCreate(work->n, i, (PetscInt)(tried.clusters * size), (PetscInt)tried.rows, &near));
  ierr = IDRSOnChipCanFit(work, i, j, &tried, shared, &near, &can);
  if (!ierr && can) {
    ierr = IDRSNearFind(work->n, i, j, (PetscInt)(tried.clusters * size), (PetscInt)tried.rows, own, &near);
    for (int halo = matrix && tried.rows + near.others <= IDRS_HALO_ROWS; halo >= 0 && !fits && !ierr; halo--) {
      tried.halo = halo;
      ierr       = IDRSOnChipFits(work, &near, &tried, &fits);
    }
  }
  if (!ierr && fits) {
    *onchip = tried;
    ierr    = IDRSOnChipUploadNear(i, work->n, &near, onchip);
  }
  PetscCall(IDRSNearDestroy(&near)); /* after an error, too */
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSOnChipSetUp_CUDA - How the system lies in shared memory: with the matrix if that fits, in clusters that are as large as can
   be, and in as few of them as leave each thread a row. One cluster is as small as leaves each thread one row. There are fewer
   multiprocessors for larger clusters: without the matrix, which they all read then, clusters are smaller
*/
PetscErrorCode IDRSOnChipSetUp_CUDA(IDRSWork work, const PetscInt *i, const PetscInt *j, PetscInt own, IDRSOnChip *onchip)
{
  unsigned int size = IDRS_CLUSTER_LEAST;
  bool         can;

  PetscFunctionBegin;
  PetscCall(IDRSOnChipDestroy_CUDA(onchip));
  PetscCallCUDA(IDRSCanLaunchEarly((const void *)IDRSOnChipKernel<1, IDRS_CHIP_NEAR>, &can)); /* the same devices */
  if (!can) PetscFunctionReturn(PETSC_SUCCESS);
  while (size < IDRS_CLUSTER_BLOCKS && (size_t)work->n > size * IDRS_ONCHIP_ROWS) size *= 2;
  for (; size <= IDRS_CLUSTER_BLOCKS && !onchip->clusters; size *= 2) PetscCall(IDRSOnChipTry(work, i, j, own, true, size, onchip));
  for (int matrix = 1; matrix >= 0; matrix--) {
    for (size = IDRS_CLUSTER_BLOCKS / 2; size >= IDRS_CLUSTER_LEAST && !onchip->clusters; size /= 2)
      PetscCall(IDRSOnChipTry(work, i, j, own, matrix, size, onchip));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSOnChipLaunch_CUDA(IDRSWork work, const IDRSOnChip *onchip, const IDRSWholeSteps *steps, cudaStream_t stream)
{
  PetscFunctionBegin;
  PetscCall(IDRSDispatchWhole(work, [&](auto S, auto shadow) {
    cudaLaunchAttribute      attributes[2];
    const cudaLaunchConfig_t config = IDRSClusterConfig(onchip->clusters, onchip->size, onchip->threads, onchip->bytes, stream,
                                                        attributes);

    if (!onchip->matrix) return cudaLaunchKernelEx(&config, IDRSOnChipKernel<S, IDRS_CHIP_FAR>, *steps, shadow, *onchip);
    return onchip->halo ? cudaLaunchKernelEx(&config, IDRSOnChipKernel<S, IDRS_CHIP_HALO>, *steps, shadow, *onchip)
                        : cudaLaunchKernelEx(&config, IDRSOnChipKernel<S, IDRS_CHIP_NEAR>, *steps, shadow, *onchip);
  }));
  PetscFunctionReturn(PETSC_SUCCESS);
}
