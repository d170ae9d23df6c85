/*
   The numeric phase in one kernel: one warp per tile row, in the order of the levels of L.

     A'_ij = A_ij - sum_k A'_ik U_kj,  k < min(i, j);   D_i = A'_ii;   row i of L and U = D_i^{-1} A'_i

   A warp waits for row k when it needs the row. A warp that has computed a row stores the number of the phase after a release
   fence; a warp that finds this number reads the row after an acquire fence. Warps process rows in the order of the levels, and all
   warps are resident. So the first row that is not done depends only on rows that are done.
*/
#pragma once

#include "../../sys/kernels/wait.cuh"
#include "factorpivot.h"

#define IDRS_NUMERIC_THREADS 256

/* Small pivots: their number, and the first and last of their rows */
typedef struct {
  unsigned long long count, first, last;
  /* a wait has reached its limit; the inverse of a diagonal block must not be used */
  int timedout, unfit;
} IDRSPivotCounts;

typedef struct {
  PetscInt         n, bs, entries; /* entries: of the pattern */
  const PetscInt  *i, *j, *right, *order;
  PetscScalar     *a; /* tiles of the pattern, which contain the matrix at first, and diagonal tiles after them */
  PetscScalar     *pivots;
  PetscReal       *sums; /* one per row, if the rule needs them */
  unsigned int    *done; /* number of the last phase that has computed each row */
  unsigned int     phase;
  unsigned int     polls; /* most polls of a warp that waits */
  IDRSPivotRule    rule;
  IDRSPivotCounts *counts;
} IDRSNumeric;

/* Returns the tile of row i in this column, or -1; columns are in ascending order */
static __device__ __forceinline__ PetscInt IDRSFactorFindTile(const IDRSNumeric &F, PetscInt i, PetscInt column)
{
  PetscInt low = F.i[i], high = F.i[i + 1];

  if (column == i) return F.entries + i;
  while (low < high) {
    const PetscInt middle = low + (high - low) / 2;

    if (F.j[middle] < column) low = middle + 1;
    else high = middle;
  }
  return low < F.i[i + 1] && F.j[low] == column ? low : -1;
}

/*
   An entry of A'_ij, to which A'_ik U_kj contributes: tile q of row k, row and column within the tile, and the place of tile A'_ij,
   or -1
*/
typedef struct {
  PetscInt q, place;
  int      r, c;
} IDRSFactorTarget;

static __device__ __forceinline__ IDRSFactorTarget IDRSFactorFindTarget(const IDRSNumeric &F, PetscInt bs, PetscInt i,
                                                                        PetscInt first, PetscInt t)
{
  IDRSFactorTarget target;

  target.q     = first + t / (bs * bs);
  target.r     = (int)(t % (bs * bs) / bs);
  target.c     = (int)(t % bs);
  target.place = IDRSFactorFindTile(F, i, F.j[target.q]);
  return target;
}

/*
   A'_ij -= A'_ik U_kj for all j of row k, where A'_ik is tile p. The first target of each lane is found before the wait for row k
*/
template <bool TILES>
static __device__ __forceinline__ void IDRSFactorEliminate(const IDRSNumeric &F, PetscInt i, PetscInt p, IDRSWaitPolls *wait)
{
  const PetscInt   bs = TILES ? F.bs : 1, k = F.j[p], first = F.right[k], count = (F.i[k + 1] - first) * bs * bs;
  PetscInt         t      = threadIdx.x % IDRS_WARP;
  IDRSFactorTarget target = {0, -1, 0, 0};

  if (t < count) target = IDRSFactorFindTarget(F, bs, i, first, t);
  IDRSWaitForNumber(F.done + k, F.phase, wait);
  for (; t < count; t += IDRS_WARP) {
    PetscScalar sum = 0.0;

    if (t >= IDRS_WARP) target = IDRSFactorFindTarget(F, bs, i, first, t);
    if (target.place < 0) continue;
    for (PetscInt s = 0; s < bs; s++) sum += F.a[(p * bs + target.r) * bs + s] * F.a[(target.q * bs + s) * bs + target.c];
    /* A'_ij -= A'_ik U_kj */
    F.a[(target.place * bs + target.r) * bs + target.c] -= sum;
  }
  __syncwarp();
}

/* Returns the sum of absolute values of row i of L and U without the diagonal, for tiles of one row. One warp */
static __device__ __forceinline__ PetscReal IDRSFactorRowSum(const IDRSNumeric &F, PetscInt i)
{
  PetscReal sum = 0.0;

  for (PetscInt p = F.i[i] + threadIdx.x % IDRS_WARP; p < F.i[i + 1]; p += IDRS_WARP)
    sum += PetscAbsScalar(p < F.right[i] ? F.a[p] * F.a[F.entries + F.j[p]] : F.a[p]);
#pragma unroll
  for (int offset = IDRS_WARP / 2; offset > 0; offset /= 2) sum += IDRSShuffleXor(sum, offset);
  return sum;
}

/* Counts the small pivots of tile row i */
static __device__ __forceinline__ void IDRSFactorCountPivots(const IDRSNumeric &F, PetscInt i, PetscReal sum)
{
  for (PetscInt r = threadIdx.x % IDRS_WARP; r < F.bs; r += IDRS_WARP) {
    const PetscInt row = i * F.bs + r;

    if (!IDRSPivotIsSmall(&F.rule, F.pivots[row], sum)) continue;
    atomicAdd(&F.counts->count, 1ull);
    atomicMin(&F.counts->first, (unsigned long long)row);
    atomicMax(&F.counts->last, (unsigned long long)row);
  }
}

/* Row i of L and U = D^{-1} A'_i, column by column */
template <bool TILES>
static __device__ __forceinline__ void IDRSFactorScaleRow(const IDRSNumeric &F, PetscInt i, const PetscScalar *D)
{
  const PetscInt bs = TILES ? F.bs : 1, first = F.i[i], columns = (F.i[i + 1] - first) * bs;

  for (PetscInt t = threadIdx.x % IDRS_WARP; t < columns; t += IDRS_WARP) {
    PetscScalar *const A = F.a + (first + t / bs) * bs * bs + t % bs;
    PetscScalar        column[TILES ? IDRS_FACTOR_TILE : 1];

    for (PetscInt r = 0; r < bs; r++) column[r] = A[r * bs];
    for (PetscInt r = 0; r < bs; r++) {
      PetscScalar sum = 0.0;

      for (PetscInt s = 0; s < bs; s++) sum += D[r * bs + s] * column[s];
      A[r * bs] = sum;
    }
  }
}

template <bool TILES>
static __global__ void __launch_bounds__(IDRS_NUMERIC_THREADS) IDRSNumericKernel(const __grid_constant__ IDRSNumeric F)
{
  const PetscInt warps = gridDim.x * (IDRS_NUMERIC_THREADS / IDRS_WARP);
  IDRSWaitPolls  wait  = {F.polls};

  for (PetscInt place = (blockIdx.x * IDRS_NUMERIC_THREADS + threadIdx.x) / IDRS_WARP; place < F.n; place += warps) {
    const PetscInt     i = F.order[place], bs = TILES ? F.bs : 1;
    PetscScalar *const D   = F.a + (F.entries + i) * bs * bs;
    PetscReal          sum = 0.0;

    if (!TILES && F.rule.shift != 0.0 && threadIdx.x % IDRS_WARP == 0) *D += F.rule.shift;
    __syncwarp();
    for (PetscInt p = F.i[i]; p < F.right[i]; p++) IDRSFactorEliminate<TILES>(F, i, p, &wait);
    if (!TILES && IDRSPivotNeedsSum(&F.rule)) {
      sum = IDRSFactorRowSum(F, i);
      if (threadIdx.x % IDRS_WARP == 0) F.sums[i] = sum;
    }
    if (IDRSFactorInvert(bs, D, &F.rule, sum, F.pivots + i * bs) && TILES) F.counts->unfit = 1;
    IDRSFactorCountPivots(F, i, sum);
    IDRSFactorScaleRow<TILES>(F, i, D);
    IDRSStoreNumber(F.done + i, F.phase);
  }
  if (!wait.left && threadIdx.x % IDRS_WARP == 0) F.counts->timedout = 1;
}
