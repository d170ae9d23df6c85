/*
   The numeric phase in one kernel: one warp per tile row, in the order of the levels of L.

     A'_ij = A_ij - sum_k A'_ik U_kj,  k < min(i, j);   D_i = A'_ii;   row i of L and U = D_i^{-1} A'_i

   A warp waits for row k when it needs the row. A warp that has computed a row stores the number of the phase after a release
   fence; a warp that finds this number reads the row after an acquire fence. Warps process rows in the order of the levels, and all
   warps are resident. So the first row that is not done depends only on rows that are done.
*/
#pragma once

#include "factorimpl.h"
#include "../../sys/kernels/wait.cuh"

#define IDRS_NUMERIC_THREADS 256

/*
   Products with the inverse of an ill-conditioned tile lose digits that an elimination by rows keeps: if the last pivot of a tile
   is s times its other entries, the errors are eps / s^2 and eps / s. The criterion is the largest |D_ij (D^{-1})_ji|, which does
   not depend on the scale of rows and columns. If it is larger than this, tiles have one row
*/
#define IDRS_FACTOR_CONDITION 100.0

/* Results of a phase that the host checks */
typedef struct {
  int unfit;    /* the inverse of a tile of several rows must not be used */
  int small;    /* there is a small pivot in a tile of one row */
  int timedout; /* a wait has reached its limit */
} IDRSNumericResult;

typedef struct {
  PetscInt           n, bs, entries; /* entries: of the pattern */
  PetscInt          *i, *j, *right, *order;
  PetscScalar       *a; /* tiles of the pattern, which contain the matrix at first, and diagonal tiles after them */
  PetscScalar       *pivots;
  unsigned int      *done; /* number of the last phase that has computed each row */
  unsigned int       phase;
  unsigned int       polls;     /* most polls of a warp that waits */
  MatFactorShiftType shifttype; /* of MatFactorInfo */
  PetscReal          zeropivot; /* of MatFactorInfo */
  IDRSNumericResult *result;
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

/*
   Returns true if PETSc would report or change the pivot of row i, see MatPivotCheck(); a NaN is not small. Tiles of one row. Two
   types of shifts compare it with the sum of absolute values of the other entries in its row of L', which has a unit diagonal, and
   U'. One warp
*/
static __device__ __forceinline__ bool IDRSPivotIsSmall(const IDRSNumeric &F, PetscInt i)
{
  const PetscScalar pivot    = F.pivots[i];
  const bool        positive = F.shifttype == MAT_SHIFT_POSITIVE_DEFINITE;
  PetscReal         sum      = 1.0;

  if (positive || F.shifttype == MAT_SHIFT_NONZERO) {
    sum = 0.0;
    for (PetscInt p = F.i[i] + threadIdx.x % IDRS_WARP; p < F.i[i + 1]; p += IDRS_WARP)
      sum += PetscAbsScalar(p < F.right[i] ? F.a[p] * F.a[F.entries + F.j[p]] : F.a[p]);
#pragma unroll
    for (int offset = IDRS_WARP / 2; offset > 0; offset /= 2) sum += IDRSShuffleXor(sum, offset);
  }
  return (positive ? PetscRealPart(pivot) : PetscAbsScalar(pivot)) <= F.zeropivot * sum;
}

/*
   Computes D = D^{-1}, a tile by rows, in place by Gauss-Jordan elimination without pivoting, and stores the pivots, which are the
   pivots of a factorisation by rows. Returns true if the inverse must not be used, because D is ill-conditioned or has a small
   pivot; each lane checks its own entries. One warp
*/
static __device__ __forceinline__ bool IDRSFactorInvert(const IDRSNumeric &F, PetscInt bs, PetscScalar *D, PetscScalar pivots[])
{
  const PetscInt lane = threadIdx.x % IDRS_WARP;
  PetscScalar    before[IDRS_FACTOR_TILE * IDRS_FACTOR_TILE / IDRS_WARP];
  bool           unfit = false;

  __syncwarp();
  for (PetscInt t = lane, l = 0; t < bs * bs; t += IDRS_WARP) before[l++] = D[t];
  for (PetscInt p = 0; p < bs; p++) {
    PetscScalar pivot, inverse;

    __syncwarp();
    pivot   = D[p * bs + p];
    inverse = (PetscReal)1.0 / pivot;
    if (lane == 0) pivots[p] = pivot;
    if (PetscAbsScalar(pivot) <= F.zeropivot) unfit = true;
    __syncwarp();
    /* row p = row p / pivot, then row r -= D_rp row p for the other rows */
    for (PetscInt c = lane; c < bs; c += IDRS_WARP) D[p * bs + c] = c == p ? inverse : D[p * bs + c] * inverse;
    __syncwarp();
    for (PetscInt t = lane; t < bs * bs; t += IDRS_WARP) {
      const PetscInt r = t / bs, c = t % bs;

      if (r != p && c != p) D[t] -= D[r * bs + p] * D[p * bs + c];
    }
    __syncwarp();
    for (PetscInt r = lane; r < bs; r += IDRS_WARP) {
      if (r != p) D[r * bs + p] *= -inverse;
    }
  }
  __syncwarp();
  for (PetscInt t = lane, l = 0; t < bs * bs; t += IDRS_WARP) {
    /* |D_ij (D^{-1})_ji| */
    if (PetscAbsScalar(before[l++] * D[t % bs * bs + t / bs]) > (PetscReal)IDRS_FACTOR_CONDITION) unfit = true;
  }
  return unfit;
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
    PetscScalar *const D = F.a + (F.entries + i) * bs * bs;

    for (PetscInt p = F.i[i]; p < F.right[i]; p++) IDRSFactorEliminate<TILES>(F, i, p, &wait);
    if (IDRSFactorInvert(F, bs, D, F.pivots + i * bs) && TILES) F.result->unfit = 1;
    if (!TILES && IDRSPivotIsSmall(F, i)) F.result->small = 1;
    IDRSFactorScaleRow<TILES>(F, i, D);
    IDRSStoreNumber(F.done + i, F.phase);
  }
  if (!wait.left && threadIdx.x % IDRS_WARP == 0) F.result->timedout = 1;
}
