/*
   Sums over a grid in a fixed order: each block leaves its own in memory, and the block that finishes last adds them up. They are the same bits run
   after run on the same device, as no floating-point atomics are used. No PETSc call.
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

/* Sums count values over the block; partials[i * gridDim.x + blockIdx.x] gets the sum of values[i]. shared has room for IDRS_WARPS * count values */
template <int count, typename T>
static __device__ __forceinline__ void IDRSBlockSum(T values[count], T *shared, T *partials)
{
  const int lane = threadIdx.x % IDRS_WARP, warp = threadIdx.x / IDRS_WARP;

#pragma unroll
  for (int i = 0; i < count; i++) {
    const T sum = IDRSWarpSum<IDRS_WARP>(values[i]);

    if (lane == 0) shared[i * IDRS_WARPS + warp] = sum;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += IDRS_THREADS) {
    T sum = shared[i * IDRS_WARPS];

    for (int w = 1; w < IDRS_WARPS; w++) sum += shared[i * IDRS_WARPS + w];
    partials[(size_t)i * gridDim.x + blockIdx.x] = sum;
  }
}

/* True in the block that finishes last, after which it sees what all others have written; ticket returns to 0 */
static __device__ __forceinline__ bool IDRSLastBlock(unsigned int *ticket)
{
  __shared__ bool last;

  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  return last;
}

/* Lanes that add up the partial sums of one value, and how many values a block can so add up at once */
#define IDRS_LANES_A_SUM  16
#define IDRS_SUMS_AT_ONCE (IDRS_THREADS / IDRS_LANES_A_SUM)

/* Sum of blocks partial sums, scalars or else reals, by IDRS_LANES_A_SUM lanes, in a fixed order; valid in the first of them. All lanes of the warp take part */
static __device__ __forceinline__ PetscScalar IDRSPartialSum(const PetscScalar *scalars, const PetscReal *reals, unsigned int blocks)
{
  PetscScalar sum = 0.0;

  for (unsigned int b = threadIdx.x % IDRS_LANES_A_SUM; b < blocks; b += IDRS_LANES_A_SUM) sum += scalars ? scalars[b] : (PetscScalar)reals[b];
  return IDRSWarpSum<IDRS_LANES_A_SUM>(sum);
}

/* Partial sums of a grid, and of r^H r from the grid of the last update or advance */
typedef struct {
  PetscScalar  *dots;    /* (2 S + 1) x blocks */
  PetscReal    *squares; /* 2 x blocks */
  PetscReal    *rr;      /* rrblocks */
  unsigned int  rrblocks;
  unsigned int *ticket;
} IDRSPartials;

/* Leaves the sums of this block; true in the block that finishes last */
template <int S, bool Y>
static __device__ __forceinline__ bool IDRSDotsFinish(IDRSDots<S, Y> &block, const IDRSPartials &partials)
{
  using Dots = IDRSDots<S, Y>;
  __shared__ PetscScalar dots[Dots::count * IDRS_WARPS];
  __shared__ PetscReal   squares[Dots::squares * IDRS_WARPS];

  IDRSBlockSum<Dots::count>(block.dot, dots, partials.dots);
  IDRSBlockSum<Dots::squares>(block.square, squares, partials.squares);
  return IDRSLastBlock(partials.ticket);
}

/*
   The sums over all blocks, into sums as laid out in idrsscalars.h, by all threads of the last block; yisr: y is r as the last pass has left it, and
   r^H r is y^H y. Some lanes make a sum. Sums of columns that are not there are dropped.
*/
template <int S, bool Y, bool HASHED>
static __device__ __forceinline__ void IDRSDotsTotal(const IDRSPartials &partials, const IDRSShadow<S> &P, bool yisr, PetscScalar *sums)
{
  constexpr int dots = IDRSDots<S, Y>::count, squares = IDRSDots<S, Y>::squares;
  const int     s = P.s, columns = P.Columns();

  for (int begin = 0; begin < dots + squares + 1; begin += IDRS_SUMS_AT_ONCE) {
    const int          j       = begin + threadIdx.x / IDRS_LANES_A_SUM;
    const PetscScalar *scalars = NULL;
    const PetscReal   *reals   = NULL;
    unsigned int       blocks  = gridDim.x;
    PetscReal          scale   = 1.0;
    int                place   = -1;
    PetscScalar        total;

    if (j < dots) {
      scalars = partials.dots + (size_t)j * blocks;
      if (HASHED && j < 2 * S) scale = (PetscReal)IDRS_FIELD_SCALE;
      if (Y && j == 2 * S) place = IDRS_SUM_XY(s);
      else if (j % S < columns) place = (j < S ? IDRS_SUM_PX(s) : IDRS_SUM_PY(s)) + P.first + j % S;
    } else if (j < dots + squares) {
      reals = partials.squares + (size_t)(j - dots) * blocks;
      place = j == dots ? IDRS_SUM_XX(s) : IDRS_SUM_YY(s);
    } else if (j == dots + squares && !yisr) {
      reals  = partials.rr;
      blocks = partials.rrblocks;
      place  = IDRS_SUM_RR(s);
    }
    total = IDRSPartialSum(scalars, reals, place < 0 ? 0 : blocks);
    if (place >= 0 && threadIdx.x % IDRS_LANES_A_SUM == 0) {
      sums[place] = scale * total;
      if (yisr && place == IDRS_SUM_YY(s)) sums[IDRS_SUM_RR(s)] = total;
    }
  }
}
