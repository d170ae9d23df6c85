/*
   Sums over a grid in a fixed order. Each block posts its sums, and the first block waits for them and adds them up. On the same
   device the bits are the same in every run, because no floating-point atomics are used. No PETSc call.

   The first block may wait for blocks that have not begun. This cannot deadlock: the other blocks do not depend on it, and the next
   kernel, whose blocks could occupy the multiprocessors, is admitted only when all blocks have begun.
*/
#pragma once

#include <petscidrs/private/idrsscalars.h>
#include "dots.cuh"
#include "wait.cuh"

/* Called by a warp. Stores the sum of value i over the lanes in shared[i * IDRS_WARPS + warp] */
template <int count, typename T>
static __device__ __forceinline__ void IDRSWarpSumsShared(T values[count], T *shared)
{
  IDRSWarpSums<count>(values, [&](int i, const T &sum) { shared[i * IDRS_WARPS + threadIdx.x / IDRS_WARP] = sum; });
}

/* Returns the sum of value i over the `warps` warps of a block, after a barrier */
template <typename T>
static __device__ __forceinline__ T IDRSWarpsTotal(const T *shared, int i, int warps = IDRS_WARPS)
{
  T sum = shared[i * IDRS_WARPS];

#pragma unroll
  for (int w = 1; w < IDRS_WARPS; w++) {
    if (w < warps) sum += shared[i * IDRS_WARPS + w];
  }
  return sum;
}

/* Stores the sum of a value over the block in partials[blockIdx.x] */
static __device__ __forceinline__ void IDRSBlockSum(PetscReal value, PetscReal *shared, PetscReal *partials)
{
  IDRSWarpSumsShared<1>(&value, shared);
  __syncthreads();
  if (threadIdx.x == 0) partials[blockIdx.x] = IDRSWarpsTotal(shared, 0);
}

/* Partial sums of a grid, and of r^H r from the grid of the last update or advance */
typedef struct {
  IDRSBlockMessage *messages; /* one for each real number of a sum and each block */
  IDRSBlockMessage *second;   /* messages of the `earlier` blocks of an earlier kernel, whose sums are added */
  unsigned int      earlier;
  uint32_t          launch;
  PetscReal        *rr; /* rrblocks */
  unsigned int      rrblocks;
} IDRSPartials;

/* Real numbers in the sums of up to IDRS_COLUMNS_AT_ONCE columns */
#define IDRS_MESSAGES ((2 * IDRS_COLUMNS_AT_ONCE + 1) * IDRS_PARTS + 3)

/* Real numbers in the sums of a projection */
template <int S, bool Y, bool RR>
static constexpr int IDRSRealSums = IDRSDots<S, Y, RR>::count * IDRS_PARTS + IDRSDots<S, Y, RR>::squares;

/* Messages or numbers that a lane loads at once */
#define IDRS_LOADS_AT_ONCE 8

/*
   Returns the sum of the messages of all blocks, computed by `lanes` lanes in a fixed order; valid in the first of them. All lanes
   of a warp must call it. No load is in a branch, so all loads are in flight at once
*/
template <int lanes, typename Wait>
static __device__ __forceinline__ PetscReal IDRSMessagesSum(const IDRSBlockMessage *messages, uint32_t launch, unsigned int blocks,
                                                            Wait &wait)
{
  const unsigned int lane = threadIdx.x % lanes;
  PetscReal          sum  = 0.0;

  for (unsigned int begin = lane; begin < blocks + lane; begin += IDRS_LOADS_AT_ONCE * lanes) {
    IDRSBlockMessage message[IDRS_LOADS_AT_ONCE];
    bool             all;

    /* all loads are issued before the first is tested */
    do {
#pragma unroll
      for (int i = 0; i < IDRS_LOADS_AT_ONCE; i++) message[i] = Wait::Load(messages + min(begin + i * lanes, blocks - 1));
      all = true;
#pragma unroll
      for (int i = 0; i < IDRS_LOADS_AT_ONCE; i++) all = all & IDRSMessageIsThere(message[i], launch);
    } while (!IDRSWarpAll(all || wait.Ends()));
#pragma unroll
    for (int i = 0; i < IDRS_LOADS_AT_ONCE; i++) sum += begin + i * lanes < blocks ? IDRSMessageValue(message[i]) : (PetscReal)0.0;
  }
  return IDRSWarpSum<lanes>(sum);
}

/* Posts the sums of this block. Returns true in the first block, which adds up the sums of all blocks */
template <int S, bool Y, bool RR>
static __device__ __forceinline__ bool IDRSDotsFinish(IDRSDots<S, Y, RR> &block, const IDRSPartials &partials)
{
  using Dots = IDRSDots<S, Y, RR>;
  __shared__ PetscScalar dots[Dots::count * IDRS_WARPS];
  __shared__ PetscReal   squares[Dots::squares * IDRS_WARPS];
  IDRSBlockMessage      *mine = partials.messages + blockIdx.x;

  IDRSWarpSumsShared<Dots::count>(block.dot, dots);
  IDRSWarpSumsShared<Dots::squares>(block.square, squares);
  __syncthreads();
  for (int i = threadIdx.x; i < Dots::count + Dots::squares; i += IDRS_THREADS) {
    /* a message for each real number of each sum */
    if (i < Dots::count) IDRSPostMessage(mine + (size_t)i * IDRS_PARTS * gridDim.x, IDRSWarpsTotal(dots, i), partials.launch);
    else
      IDRSPostMessage(mine + (size_t)(i - Dots::count + Dots::count * IDRS_PARTS) * gridDim.x,
                      IDRSWarpsTotal(squares, i - Dots::count), partials.launch);
  }
  return blockIdx.x == 0;
}

/* Called by a warp. Returns r^H r from the blocks of the last update or advance; valid in the first lane */
static __device__ __forceinline__ PetscReal IDRSLastSquare(const IDRSPartials &partials)
{
  const unsigned int lane = threadIdx.x % IDRS_WARP, blocks = partials.rrblocks;
  PetscReal          sum = 0.0;

  for (unsigned int begin = lane; begin < blocks + lane; begin += IDRS_LOADS_AT_ONCE * IDRS_WARP) {
    PetscReal value[IDRS_LOADS_AT_ONCE];

#pragma unroll
    for (int i = 0; i < IDRS_LOADS_AT_ONCE; i++) value[i] = partials.rr[min(begin + i * IDRS_WARP, blocks - 1)];
#pragma unroll
    for (int i = 0; i < IDRS_LOADS_AT_ONCE; i++) sum += begin + i * IDRS_WARP < blocks ? value[i] : (PetscReal)0.0;
  }
  return IDRSWarpSum<IDRS_WARP>(sum);
}

/*
   Returns the index of real number i of the sums in the layout of idrsscalars.h, counted in real numbers, or -1 for a column beyond
   the last one. With RR the sums include r^H r of the last pass
*/
template <int S, bool Y, bool RR>
static __device__ __forceinline__ int IDRSSumPlace(const IDRSShadow<S> &P, int i)
{
  constexpr int dots = IDRSDots<S, Y, RR>::count * IDRS_PARTS, count = IDRSRealSums<S, Y, RR>;
  const int     s = P.s, j = i / IDRS_PARTS;
  int           place;

  if (RR && i == count - 1) place = IDRS_SUM_RR(s);
  else if (i >= dots) place = i == dots ? IDRS_SUM_XX(s) : IDRS_SUM_YY(s);
  else if (Y && j == 2 * S) place = IDRS_SUM_XY(s);
  else if (j % S < P.Columns()) place = (j < S ? IDRS_SUM_PX(s) : IDRS_SUM_PY(s)) + P.first + j % S;
  else return -1;
  return place * IDRS_PARTS + (i < dots ? i % IDRS_PARTS : 0);
}

/* Returns the unit of a sum: sums with the shadow space are in units of its fields */
template <int S, bool Y>
static __device__ __forceinline__ PetscReal IDRSSumScale(int i)
{
  return i < (Y ? 2 : 1) * S * IDRS_PARTS ? (PetscReal)IDRS_FIELD_SCALE : (PetscReal)1.0;
}

/*
   Called by all threads of a block. Computes the sums over all blocks in the layout of idrsscalars.h. yisr: y is the r of the last
   pass, so r^H r is y^H y. A group of lanes computes the sum of one real number
*/
template <int S, bool Y, bool RR, typename Wait>
static __device__ __forceinline__ void IDRSDotsTotal(const IDRSPartials &partials, const IDRSShadow<S> &P, bool yisr,
                                                     PetscScalar *sums, Wait &wait)
{
  constexpr int dots = IDRSDots<S, Y, RR>::count * IDRS_PARTS, count = IDRSRealSums<S, Y, RR>;
  constexpr int lanes = count <= IDRS_WARPS ? IDRS_WARP : IDRS_WARP / 2, atonce = IDRS_THREADS / lanes;

  if (!RR && !yisr && threadIdx.x / IDRS_WARP == IDRS_WARPS - 1) {
    const PetscReal rr = IDRSLastSquare(partials);

    if (threadIdx.x % IDRS_WARP == 0) sums[IDRS_SUM_RR(P.s)] = rr;
  }
  for (int begin = 0; begin < count; begin += atonce) {
    const int  i = min(begin + (int)threadIdx.x / lanes, count - 1), place = IDRSSumPlace<S, Y, RR>(P, i);
    const bool mine  = begin + (int)threadIdx.x / lanes < count && threadIdx.x % lanes == 0;
    PetscReal  total = IDRSMessagesSum<lanes>(partials.messages + (size_t)i * gridDim.x, partials.launch, gridDim.x, wait);

    /* the sums over the rows of an earlier kernel */
    if (partials.earlier)
      total += IDRSMessagesSum<lanes>(partials.second + (size_t)i * partials.earlier, partials.launch, partials.earlier, wait);
    total *= IDRSSumScale<S, Y>(i);
    if (!mine || place < 0) continue;
    if (i < dots) ((PetscReal *)sums)[place] = total;
    else sums[place / IDRS_PARTS] = total;
    if (yisr && i == dots + 1) sums[IDRS_SUM_RR(P.s)] = total;
  }
}
