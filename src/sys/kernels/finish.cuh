/*
   Sums over a grid in a fixed order: each block posts its own, and the first block waits for them and adds them up. They are the
   same bits run after run on the same device, as no floating-point atomics are used. No PETSc call.

   The first block waits while others still run, or have not begun. They do not depend on it, and the kernel behind it, whose blocks
   could take their place, is admitted when all blocks have begun.
*/
#pragma once

#include <petscidrs/private/idrsscalars.h>
#include "dots.cuh"
#include "wait.cuh"

/* By a warp: the sum of each value over its lanes goes to shared[i * IDRS_WARPS + warp] */
template <int count, typename T>
static __device__ __forceinline__ void IDRSWarpSumsShared(T values[count], T *shared)
{
  IDRSWarpSums<count>(values, [&](int i, const T &sum) { shared[i * IDRS_WARPS + threadIdx.x / IDRS_WARP] = sum; });
}

/* The sum over the block of value i, once all warps have left theirs; a block may have fewer of them than there is room for */
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

/* Sums a value over the block; partials[blockIdx.x] gets it */
static __device__ __forceinline__ void IDRSBlockSum(PetscReal value, PetscReal *shared, PetscReal *partials)
{
  IDRSWarpSumsShared<1>(&value, shared);
  __syncthreads();
  if (threadIdx.x == 0) partials[blockIdx.x] = IDRSWarpsTotal(shared, 0);
}

/* Sums of a grid, and of r^H r from the grid of the last update or advance */
typedef struct {
  IDRSBlockMessage *messages; /* one for each real number of a sum, and each block */
  IDRSBlockMessage *second;   /* of so many blocks of an earlier kernel, whose sums are added; or room for them */
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

/* Messages or numbers that a lane asks for at once */
#define IDRS_LOADS_AT_ONCE 8

/*
   Sum over blocks of messages, by so many lanes, in a fixed order; valid in the first of them. All lanes of a warp take part. None
   of the loads is in a branch, so that all are under way at once
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

/*
   Leaves the sums of this block; true in the block that adds up those of all blocks. The others go on meanwhile: it is one that is
   sure to run
*/
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

/* r^H r over the blocks of the last update or advance, by a warp; valid in its first lane */
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
   The index of real number i of the sums over all blocks in sums as laid out in idrsscalars.h, counted in real numbers; -1: it is
   of a column that is not there. With RR, r^H r of the last pass is among them
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

/* Sums with the hashed shadow space are in units of its fields */
template <int S, bool Y, bool HASHED>
static __device__ __forceinline__ PetscReal IDRSSumScale(int i)
{
  return HASHED && i < (Y ? 2 : 1) * S * IDRS_PARTS ? (PetscReal)IDRS_FIELD_SCALE : (PetscReal)1.0;
}

/*
   The sums over all blocks, into sums as laid out in idrsscalars.h, by all threads of a block; yisr: y is r as the last pass has
   left it, and r^H r is y^H y. Some lanes make a sum, of a real number
*/
template <int S, bool Y, bool HASHED, bool RR, typename Wait>
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

    /* the sums of the rows that an earlier kernel has finished */
    if (partials.earlier)
      total += IDRSMessagesSum<lanes>(partials.second + (size_t)i * partials.earlier, partials.launch, partials.earlier, wait);
    total *= IDRSSumScale<S, Y, HASHED>(i);
    if (!mine || place < 0) continue;
    if (i < dots) ((PetscReal *)sums)[place] = total;
    else sums[place / IDRS_PARTS] = total;
    if (yisr && i == dots + 1) sums[IDRS_SUM_RR(P.s)] = total;
  }
}
