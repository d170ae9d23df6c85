/*
   Sums over a grid in a fixed order: each block posts its own, and the first block waits for them and adds them up. They are the same bits run
   after run on the same device, as no floating-point atomics are used. No PETSc call.

   The first block waits while others still run, or have not begun. They do not depend on it, and the kernel behind it, whose blocks could take their place, is
   admitted when all blocks have begun.
*/
#pragma once

#include <petscidrs/private/idrsscalars.h>
#include "dots.cuh"

#define IDRS_WARPS (IDRS_THREADS / IDRS_WARP)

/* Sum over the lanes of a warp, or over each part of it of so many lanes; valid in the first of them */
template <int lanes, typename T>
static __device__ __forceinline__ T IDRSWarpSum(T x)
{
#pragma unroll
  for (int offset = lanes / 2; offset > 0; offset /= 2) x += IDRSShuffleDown(x, offset);
  return x;
}

/* By a warp: the sum of each value over its lanes goes to shared[i * IDRS_WARPS + warp] */
template <int count, typename T>
static __device__ __forceinline__ void IDRSWarpSums(const T values[count], T *shared)
{
#pragma unroll
  for (int i = 0; i < count; i++) {
    const T sum = IDRSWarpSum<IDRS_WARP>(values[i]);

    if (threadIdx.x % IDRS_WARP == 0) shared[i * IDRS_WARPS + threadIdx.x / IDRS_WARP] = sum;
  }
}

/* The sum over the block of value i, once all warps have left theirs */
template <typename T>
static __device__ __forceinline__ T IDRSWarpsTotal(const T *shared, int i)
{
  T sum = shared[i * IDRS_WARPS];

#pragma unroll
  for (int w = 1; w < IDRS_WARPS; w++) sum += shared[i * IDRS_WARPS + w];
  return sum;
}

/* Sums a value over the block; partials[blockIdx.x] gets it */
static __device__ __forceinline__ void IDRSBlockSum(PetscReal value, PetscReal *shared, PetscReal *partials)
{
  IDRSWarpSums<1>(&value, shared);
  __syncthreads();
  if (threadIdx.x == 0) partials[blockIdx.x] = IDRSWarpsTotal(shared, 0);
}

/*
   A sum of a block on its way to the block that adds up: each word goes in one access of 8 bytes with the number of the launch, so that the reader sees
   when it has come, and no fence is needed. Memory holds 0 at first, and launches count from 1
*/
typedef struct {
  uint2 word[sizeof(PetscReal) / sizeof(uint32_t)];
} IDRSBlockMessage;

static __device__ __forceinline__ void IDRSPostMessage(IDRSBlockMessage *message, PetscReal value, uint32_t launch)
{
#if PetscDefined(USE_REAL_SINGLE)
  IDRSStoreRelaxed(&message->word[0], make_uint2(__float_as_uint(value), launch));
#else
  IDRSStoreRelaxed(&message->word[0], make_uint2((uint32_t)__double2loint(value), launch));
  IDRSStoreRelaxed(&message->word[1], make_uint2((uint32_t)__double2hiint(value), launch));
#endif
}

#if PetscDefined(USE_COMPLEX)
static __device__ __forceinline__ void IDRSPostMessage(IDRSBlockMessage *message, PetscScalar value, uint32_t launch)
{
  IDRSPostMessage(message, value.real(), launch);
  IDRSPostMessage(message + gridDim.x, value.imag(), launch);
}
#endif

/* Whether it has come, and its value */
static __device__ __forceinline__ bool IDRSTakeMessage(const IDRSBlockMessage *message, uint32_t launch, PetscReal *value)
{
  const uint2 low = IDRSLoadRelaxed(&message->word[0]);

#if PetscDefined(USE_REAL_SINGLE)
  *value = __uint_as_float(low.x);
  return low.y == launch;
#else
  const uint2 high = IDRSLoadRelaxed(&message->word[1]);

  *value = __hiloint2double((int)high.x, (int)low.x);
  return low.y == launch && high.y == launch;
#endif
}

/* Sums of a grid, and of r^H r from the grid of the last update or advance */
typedef struct {
  IDRSBlockMessage *messages; /* one for each real number of a sum, and each block */
  uint32_t          launch;
  PetscReal        *rr; /* rrblocks */
  unsigned int      rrblocks;
} IDRSPartials;

/* Real numbers in a scalar, and in the sums of up to IDRS_COLUMNS_AT_ONCE columns */
#define IDRS_PARTS    ((int)(sizeof(PetscScalar) / sizeof(PetscReal)))
#define IDRS_MESSAGES ((2 * IDRS_COLUMNS_AT_ONCE + 1) * IDRS_PARTS + 2)

/* Lanes that add up the sums of the blocks, and how many a block can so add up at once; messages that a lane asks for at once */
#define IDRS_LANES_A_SUM  16
#define IDRS_SUMS_AT_ONCE (IDRS_THREADS / IDRS_LANES_A_SUM)
#define IDRS_TAKES        4

/*
   Sum over blocks of messages, or of plain numbers, or 0 where both are NULL, by IDRS_LANES_A_SUM lanes, in a fixed order; valid in the first of them. All lanes
   of a warp take part, each in as many rounds as the longest of the sums needs
*/
static __device__ __forceinline__ PetscReal IDRSBlocksSum(const IDRSBlockMessage *messages, uint32_t launch, const PetscReal *plain, unsigned int blocks, unsigned int longest)
{
  const unsigned int lane = threadIdx.x % IDRS_LANES_A_SUM;
  PetscReal          sum  = 0.0;

  for (unsigned int begin = lane; begin < longest + lane; begin += IDRS_TAKES * IDRS_LANES_A_SUM) {
    PetscReal value[IDRS_TAKES];
    bool      all;

    do {
      all = true;
#pragma unroll
      for (int i = 0; i < IDRS_TAKES; i++) {
        const unsigned int b = begin + i * IDRS_LANES_A_SUM;

        value[i] = 0.0;
        if (b < blocks && messages) all = IDRSTakeMessage(messages + b, launch, &value[i]) && all;
        else if (b < blocks && plain) value[i] = plain[b];
      }
    } while (!IDRSWarpAll(all));
#pragma unroll
    for (int i = 0; i < IDRS_TAKES; i++) sum += value[i];
  }
  return IDRSWarpSum<IDRS_LANES_A_SUM>(sum);
}

/* Leaves the sums of this block; true in the block that adds up those of all blocks. The others go on meanwhile: it is one that is sure to run */
template <int S, bool Y>
static __device__ __forceinline__ bool IDRSDotsFinish(IDRSDots<S, Y> &block, const IDRSPartials &partials)
{
  using Dots = IDRSDots<S, Y>;
  __shared__ PetscScalar dots[Dots::count * IDRS_WARPS];
  __shared__ PetscReal   squares[Dots::squares * IDRS_WARPS];
  IDRSBlockMessage      *mine = partials.messages + blockIdx.x;

  IDRSWarpSums<Dots::count>(block.dot, dots);
  IDRSWarpSums<Dots::squares>(block.square, squares);
  __syncthreads();
  for (int i = threadIdx.x; i < Dots::count + Dots::squares; i += IDRS_THREADS) {
    if (i < Dots::count) IDRSPostMessage(mine + (size_t)i * IDRS_PARTS * gridDim.x, IDRSWarpsTotal(dots, i), partials.launch);
    else IDRSPostMessage(mine + (size_t)(i - Dots::count + Dots::count * IDRS_PARTS) * gridDim.x, IDRSWarpsTotal(squares, i - Dots::count), partials.launch);
  }
  return blockIdx.x == 0;
}

/*
   The sums over all blocks, into sums as laid out in idrsscalars.h, by all threads of a block; yisr: y is r as the last pass has left it, and
   r^H r is y^H y. Some lanes make a sum, of a real number. Sums of columns that are not there are dropped.
*/
template <int S, bool Y, bool HASHED>
static __device__ __forceinline__ void IDRSDotsTotal(const IDRSPartials &partials, const IDRSShadow<S> &P, bool yisr, PetscScalar *sums)
{
  constexpr int      dots = IDRSDots<S, Y>::count * IDRS_PARTS, squares = IDRSDots<S, Y>::squares;
  const int          s = P.s, columns = P.Columns();
  const unsigned int longest = gridDim.x > partials.rrblocks ? gridDim.x : partials.rrblocks;

  for (int begin = 0; begin < dots + squares + 1; begin += IDRS_SUMS_AT_ONCE) {
    const int        i = begin + threadIdx.x / IDRS_LANES_A_SUM, j = i / IDRS_PARTS;
    const PetscReal *plain = NULL;
    PetscReal        scale = 1.0, total;
    int              place = -1;

    if (i < dots) {
      if (HASHED && j < 2 * S) scale = (PetscReal)IDRS_FIELD_SCALE;
      if (Y && j == 2 * S) place = IDRS_SUM_XY(s);
      else if (j % S < columns) place = (j < S ? IDRS_SUM_PX(s) : IDRS_SUM_PY(s)) + P.first + j % S;
    } else if (i < dots + squares) place = i == dots ? IDRS_SUM_XX(s) : IDRS_SUM_YY(s);
    else if (i == dots + squares && !yisr) {
      place = IDRS_SUM_RR(s);
      plain = partials.rr;
    }
    total = scale * IDRSBlocksSum(place < 0 || plain ? NULL : partials.messages + (size_t)i * gridDim.x, partials.launch, plain, plain ? partials.rrblocks : gridDim.x, longest);
    if (place >= 0 && threadIdx.x % IDRS_LANES_A_SUM == 0) {
      PetscReal *part = (PetscReal *)(sums + place);

      if (i < dots) part[i % IDRS_PARTS] = total;
      else sums[place] = total;
      if (yisr && place == IDRS_SUM_YY(s)) sums[IDRS_SUM_RR(s)] = total;
    }
  }
}
