/*
   Aggregates of the rows of a MATSEQAIJCUSPARSE, by kernels: boxes of a grid or pairs, as on the host, see aggregates.c. The step P
   is a MATSHELL with the aggregate of each row, and the rows of each aggregate.
*/
#include <cub/device/device_scan.cuh>
#include "../../../../sys/kernels/launch.cuh"
#include "aggregatescuda.cuh"

/* Blocks whose sums of couplings are added up on the host, in the order of the blocks */
#define GRID_BLOCKS 1024

static unsigned int Blocks(size_t threads)
{
  return (unsigned int)PetscMin((threads + IDRS_THREADS - 1) / IDRS_THREADS, 1 << 20);
}

/* Returns true if a row has an entry besides its diagonal entry that is not zero */
static __device__ __forceinline__ bool RowIsCoupled(const IDRSCSR &A, size_t i)
{
  for (IDRSMatIndex p = A.i[i]; p < A.i[i + 1]; p++) {
    if ((size_t)A.j[p] != i && A.a[p] != (PetscScalar)0.0) return true;
  }
  return false;
}

/* Replaces n numbers by the sums of those before them */
template <typename T>
static PetscErrorCode Scan(size_t n, T *numbers, cudaStream_t stream)
{
  size_t             bytes = 0;
  char              *work;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCallCUDA(cub::DeviceScan::ExclusiveSum(NULL, bytes, numbers, numbers, (int)n, stream));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, bytes, &work));
  PetscCallCUDA(cub::DeviceScan::ExclusiveSum(work, bytes, numbers, numbers, (int)n, stream));
  PetscCall(PetscDeviceFree(dctx, work));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Gets numbers from the device. The host waits for them */
template <typename T>
static PetscErrorCode Get(size_t n, const T *from, T *to, cudaStream_t stream)
{
  PetscFunctionBegin;
  PetscCallCUDA(cudaMemcpyAsync(to, from, n * sizeof(T), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Collects the distances of columns from the diagonal, up to GRID_OFFSETS + 1 of them, in no order; 0 stands for none */
static __global__ void __launch_bounds__(IDRS_THREADS) OffsetsKernel(IDRSCSR A, int *offsets)
{
  for (size_t row = IDRSFirstRow<1>(); row < A.n && !offsets[GRID_OFFSETS]; row += IDRSRowStride<1>()) {
    for (IDRSMatIndex p = A.i[row]; p < A.i[row + 1]; p++) {
      const int distance = abs((int)A.j[p] - (int)row);

      for (int k = 0; distance && k <= GRID_OFFSETS; k++) {
        int found = offsets[k];

        if (!found) found = atomicCAS(offsets + k, 0, distance);
        if (!found || found == distance) break;
      }
    }
  }
}

typedef struct {
  int n[3], size[3], m[3]; /* of the grid, of a box, of the boxes */
} Boxes;

/* Adds up the couplings in each direction of the grid, for each block. *bad becomes 1 if an entry is not between neighbours */
static __global__ void __launch_bounds__(IDRS_THREADS) GridKernel(IDRSCSR A, Boxes grid, PetscReal *sums, int *bad)
{
  __shared__ PetscReal shared[IDRS_WARPS][3];
  PetscReal            sum[3] = {0.0, 0.0, 0.0};

  for (size_t row = IDRSFirstRow<1>(); row < A.n; row += IDRSRowStride<1>()) {
    const int i = (int)row, x = i % grid.n[0], y = i / grid.n[0] % grid.n[1], z = i / grid.n[0] / grid.n[1];

    for (IDRSMatIndex p = A.i[row]; p < A.i[row + 1]; p++) {
      const int       j        = (int)A.j[p];
      const int       step[3]  = {j % grid.n[0] - x, j / grid.n[0] % grid.n[1] - y, j / grid.n[0] / grid.n[1] - z};
      const PetscReal coupling = PetscAbsScalar(A.a[p]);

#pragma unroll
      for (int d = 0; d < 3; d++) {
        if (abs(step[d]) > 1) *bad = 1;
        if (step[d]) sum[d] += coupling;
      }
    }
  }
#pragma unroll
  for (int d = 0; d < 3; d++) {
    sum[d] = IDRSWarpSum<IDRS_WARP>(sum[d]);
    if (threadIdx.x % IDRS_WARP == 0) shared[threadIdx.x / IDRS_WARP][d] = sum[d];
  }
  __syncthreads();
  if (threadIdx.x < 3) {
    PetscReal all = 0.0;

    for (int w = 0; w < IDRS_WARPS; w++) all += shared[w][threadIdx.x];
    sums[3 * blockIdx.x + threadIdx.x] = all;
  }
}

/* Finds the grid whose neighbours have the entries of A, as on the host */
static PetscErrorCode GridFind(const IDRSCSR *A, Grid *grid, PetscBool *found, cudaStream_t stream)
{
  const unsigned int blocks = PetscMin(Blocks(A->n), GRID_BLOCKS);
  PetscInt           sorted[GRID_OFFSETS];
  int               *offsets, distance[GRID_OFFSETS + 1], count = 0, bad;
  PetscReal         *sums, *couplings;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  *found = PETSC_FALSE;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, GRID_OFFSETS + 2, &offsets));
  OffsetsKernel<<<Blocks(A->n), IDRS_THREADS, 0, stream>>>(*A, offsets);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(Get(GRID_OFFSETS + 1, offsets, distance, stream));
  if (!distance[GRID_OFFSETS]) {
    for (int k = 0; k < GRID_OFFSETS && distance[k]; k++, count++) {
      int l = k;

      for (; l > 0 && sorted[l - 1] > distance[k]; l--) sorted[l] = sorted[l - 1];
      sorted[l] = distance[k];
    }
    *found = GridFromOffsets_Private(A->n, count, sorted, grid);
  }
  if (*found) {
    const Boxes points = {
      {(int)grid->n[0], (int)grid->n[1], (int)grid->n[2]}
    };

    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, 3 * blocks, &sums));
    PetscCall(PetscMalloc1(3 * blocks, &couplings));
    GridKernel<<<blocks, IDRS_THREADS, 0, stream>>>(*A, points, sums, offsets + GRID_OFFSETS + 1);
    PetscCallCUDA(cudaGetLastError());
    PetscCall(Get(3 * blocks, sums, couplings, stream));
    PetscCall(Get(1, offsets + GRID_OFFSETS + 1, &bad, stream));
    *found = bad ? PETSC_FALSE : PETSC_TRUE;
    for (unsigned int k = 0; k < 3 * blocks; k++) grid->coupling[k % 3] += couplings[k];
    GridSetBoxes_Private(grid);
    PetscCall(PetscFree(couplings));
    PetscCall(PetscDeviceFree(dctx, sums));
  }
  PetscCall(PetscDeviceFree(dctx, offsets));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A thread makes one box. If no row of the box has couplings, its first row is the aggregate; else rows without couplings have none
*/
static __global__ void __launch_bounds__(IDRS_THREADS) BoxesKernel(IDRSCSR A, Boxes boxes, int count, int *of)
{
  for (size_t c = IDRSFirstRow<1>(); c < count; c += IDRSRowStride<1>()) {
    const int    at[3]   = {(int)c % boxes.m[0], (int)c / boxes.m[0] % boxes.m[1], (int)c / boxes.m[0] / boxes.m[1]};
    int          rows[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    unsigned int coupled = 0;

#pragma unroll
    for (int k = 0; k < 8; k++) {
      int point[3];

      for (int d = 0; d < 3; d++) point[d] = at[d] * boxes.size[d] + (k >> d & 1);
      for (int d = 0; d < 3; d++) {
        if ((k >> d & 1) >= boxes.size[d] || point[d] >= boxes.n[d]) point[0] = -1;
      }
      if (point[0] >= 0) rows[k] = point[0] + boxes.n[0] * (point[1] + boxes.n[1] * point[2]);
      if (rows[k] >= 0 && RowIsCoupled(A, rows[k])) coupled |= 1u << k;
    }
    if (!coupled) coupled = 1;
#pragma unroll
    for (int k = 0; k < 8; k++) {
      if (rows[k] >= 0) of[rows[k]] = coupled >> k & 1 ? (int)c : -1;
    }
  }
}

static PetscErrorCode AggregatesFromGrid(const IDRSCSR *A, const Grid *grid, AggregatesCUDA *aggregates, cudaStream_t stream)
{
  Boxes boxes;

  PetscFunctionBegin;
  for (int d = 0; d < 3; d++) {
    boxes.n[d]    = (int)grid->n[d];
    boxes.size[d] = (int)grid->size[d];
    boxes.m[d]    = (boxes.n[d] + boxes.size[d] - 1) / boxes.size[d];
  }
  aggregates->count = boxes.m[0] * boxes.m[1] * boxes.m[2];
  BoxesKernel<<<Blocks(aggregates->count), IDRS_THREADS, 0, stream>>>(*A, boxes, aggregates->count, aggregates->of);
  PetscCallCUDA(cudaGetLastError());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The strengths of couplings, as on the host, with the pattern of A; and those in places (i, j) that A lacks, because only (j,
   i) has an entry
*/
typedef struct {
  IDRSCSR A;
  float  *s;
  int    *i, *j; /* i is NULL if A lacks none */
  float  *lacking;
} Couplings;

/* left_i = -1 / sqrt|a_ii|, times the sign of a_ii, or -1 if a_ii is zero */
static __global__ void __launch_bounds__(IDRS_THREADS) CouplingScaleKernel(IDRSCSR A, PetscReal *left)
{
  for (size_t row = IDRSFirstRow<1>(); row < A.n; row += IDRSRowStride<1>()) {
    PetscScalar d = 0.0;

    for (IDRSMatIndex p = A.i[row]; p < A.i[row + 1]; p++) {
      if ((size_t)A.j[p] == row) d = A.a[p];
    }
    left[row] = d == (PetscScalar)0.0 ? (PetscReal)-1.0 : 1.0 / PetscSqrtReal(PetscAbsScalar(d));
    if (PetscRealPart(d) >= 0.0) left[row] = -PetscAbsReal(left[row]);
  }
}

/* Returns the strength of (i, j), and if A lacks (j, i) */
static __device__ __forceinline__ float Coupling(const IDRSCSR &A, const PetscReal *left, int i, IDRSMatIndex p, bool *lacks)
{
  const int j = (int)A.j[p], distance = abs(j - i);
  PetscReal s = left[i] * PetscAbsReal(left[j]) * PetscRealPart(A.a[p]);

  *lacks = distance != 0;
  for (IDRSMatIndex q = A.i[j]; q < A.i[j + 1] && *lacks; q++) {
    if ((int)A.j[q] == i) {
      s += left[j] * PetscAbsReal(left[i]) * PetscRealPart(A.a[q]);
      *lacks = false;
    }
  }
  if (!distance || !(s > 0.0)) return 0.0f;
  return (float)(s * (1.0 + 1e-3 * ((min(i, j) / distance % 2 ? 0.0 : 1.0) + 0.4 / (1.0 + log2((double)distance)))));
}

/* Computes strengths, and counts the places of each row that A lacks; in the second pass, fills these */
template <bool SECOND>
static __global__ void __launch_bounds__(IDRS_THREADS) CouplingsKernel(Couplings S, const PetscReal *left, int *counts)
{
  for (size_t row = IDRSFirstRow<1>(); row < S.A.n; row += IDRSRowStride<1>()) {
    for (IDRSMatIndex p = S.A.i[row]; p < S.A.i[row + 1]; p++) {
      bool        lacks;
      const float s = Coupling(S.A, left, (int)row, p, &lacks);

      if (!SECOND) S.s[p] = s;
      if (!lacks) continue;
      if (!SECOND) atomicAdd(counts + S.A.j[p], 1);
      else {
        const int place = atomicAdd(counts + S.A.j[p], 1);

        S.j[place]       = (int)row;
        S.lacking[place] = s;
      }
    }
  }
}

static PetscErrorCode CouplingsCreate(const IDRSCSR *A, size_t nonzeros, Couplings *S, cudaStream_t stream)
{
  PetscReal         *left;
  int                lacking, *next;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  *S   = {};
  S->A = *A;
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, nonzeros, &S->s));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, A->n, &left));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, A->n + 1, &S->i));
  CouplingScaleKernel<<<Blocks(A->n), IDRS_THREADS, 0, stream>>>(*A, left);
  CouplingsKernel<false><<<Blocks(A->n), IDRS_THREADS, 0, stream>>>(*S, left, S->i);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(Scan(A->n + 1, S->i, stream));
  PetscCall(Get(1, S->i + A->n, &lacking, stream));
  if (lacking) {
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, lacking, &S->j));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, lacking, &S->lacking));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, A->n, &next));
    PetscCallCUDA(cudaMemcpyAsync(next, S->i, A->n * sizeof(*next), cudaMemcpyDeviceToDevice, stream));
    CouplingsKernel<true><<<Blocks(A->n), IDRS_THREADS, 0, stream>>>(*S, left, next);
    PetscCallCUDA(cudaGetLastError());
    PetscCall(PetscDeviceFree(dctx, next));
  } else {
    PetscCall(PetscDeviceFree(dctx, S->i));
    S->i = NULL;
  }
  PetscCall(PetscDeviceFree(dctx, left));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode CouplingsDestroy(Couplings *S)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, S->lacking));
  PetscCall(PetscDeviceFree(dctx, S->j));
  PetscCall(PetscDeviceFree(dctx, S->i));
  PetscCall(PetscDeviceFree(dctx, S->s));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Calls each(j, s) for all couplings of row i */
template <typename Each>
static __device__ __forceinline__ void ForCouplings(const Couplings &S, size_t i, Each &&each)
{
  for (IDRSMatIndex p = S.A.i[i]; p < S.A.i[i + 1]; p++) each((int)S.A.j[p], S.s[p]);
  for (int p = S.i ? S.i[i] : 0, end = S.i ? S.i[i + 1] : 0; p < end; p++) each(S.j[p], S.lacking[p]);
}

/* Returns the row with the largest strength that `may` be chosen, the first one of several; -1 for none */
template <typename May>
static __device__ __forceinline__ int StrongestRow(const Couplings &S, size_t i, May &&may)
{
  float best = 0.0f;
  int   to   = -1;

  ForCouplings(S, i, [&](int j, float s) {
    if ((s > best || (s == best && j < to)) && may(j, s)) {
      best = s;
      to   = j;
    }
  });
  return to;
}

/* most_i = largest strength of row i; no row is in a pair */
static __global__ void __launch_bounds__(IDRS_THREADS) PairsBeginKernel(Couplings S, float *most, int *of)
{
  for (size_t row = IDRSFirstRow<1>(); row < S.A.n; row += IDRSRowStride<1>()) {
    float largest = 0.0f;

    ForCouplings(S, row, [&](int, float s) { largest = fmaxf(largest, s); });
    most[row] = largest;
    of[row]   = -1;
  }
}

/* Each free row points to the free row with the strongest coupling */
static __global__ void __launch_bounds__(IDRS_THREADS) PairsPointKernel(Couplings S, const float *most, const int *of, int *to)
{
  for (size_t row = IDRSFirstRow<1>(); row < S.A.n; row += IDRSRowStride<1>())
    to[row] = of[row] >= 0 ? -1 : StrongestRow(S, row, [&](int j, float s) {
      return of[j] < 0 && s >= (float)AGGREGATES_STRONG * fmaxf(most[row], most[j]);
    });
}

/* Two rows that point to each other become a pair */
static __global__ void __launch_bounds__(IDRS_THREADS) PairsJoinKernel(int n, const int *to, int *of)
{
  for (size_t row = IDRSFirstRow<1>(); row < n; row += IDRSRowStride<1>()) {
    const int other = to[row];

    if (other > (int)row && to[other] == (int)row) of[row] = of[other] = (int)row;
  }
}

/* A row that stays free joins the pair with the strongest coupling, or is alone. first_i = 1 if row i is the first one of a pair */
static __global__ void __launch_bounds__(IDRS_THREADS)
  PairsEndKernel(Couplings S, const float *most, const int *of, int *to, int *first)
{
  for (size_t row = IDRSFirstRow<1>(); row < S.A.n; row += IDRSRowStride<1>()) {
    int pair = of[row];

    if (pair < 0) {
      pair = StrongestRow(S, row, [&](int j, float s) { return of[j] >= 0 && s >= (float)AGGREGATES_STRONG * most[row]; });
      pair = pair < 0 ? (int)row : of[pair];
    }
    to[row]    = pair;
    first[row] = pair == (int)row;
  }
}

/* of_i = number of aggregate to_i, -1 for none */
static __global__ void __launch_bounds__(IDRS_THREADS) NumberKernel(int n, const int *to, const int *number, int *of)
{
  for (size_t row = IDRSFirstRow<1>(); row < n; row += IDRSRowStride<1>()) of[row] = to[row] < 0 ? -1 : number[to[row]];
}

/* Joins rows to pairs, see PairsFind() of the host */
static PetscErrorCode PairsFind(const IDRSCSR *A, size_t nonzeros, int *of, int *count, cudaStream_t stream)
{
  const unsigned int blocks = Blocks(A->n);
  Couplings          S;
  float             *most;
  int               *to, *first;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(CouplingsCreate(A, nonzeros, &S, stream));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, A->n, &most));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, A->n, &to));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, A->n + 1, &first));
  PairsBeginKernel<<<blocks, IDRS_THREADS, 0, stream>>>(S, most, of);
  for (int round = 0; round < AGGREGATES_ROUNDS; round++) {
    PairsPointKernel<<<blocks, IDRS_THREADS, 0, stream>>>(S, most, of, to);
    PairsJoinKernel<<<blocks, IDRS_THREADS, 0, stream>>>((int)A->n, to, of);
  }
  PairsEndKernel<<<blocks, IDRS_THREADS, 0, stream>>>(S, most, of, to, first);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(Scan(A->n + 1, first, stream));
  NumberKernel<<<blocks, IDRS_THREADS, 0, stream>>>((int)A->n, to, first, of);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(Get(1, first + A->n, count, stream));
  PetscCall(PetscDeviceFree(dctx, first));
  PetscCall(PetscDeviceFree(dctx, to));
  PetscCall(PetscDeviceFree(dctx, most));
  PetscCall(CouplingsDestroy(&S));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* of_i = i, or -1 if row i has no couplings */
static __global__ void __launch_bounds__(IDRS_THREADS) CoupledKernel(IDRSCSR A, int *of)
{
  for (size_t row = IDRSFirstRow<1>(); row < A.n; row += IDRSRowStride<1>()) of[row] = RowIsCoupled(A, row) ? (int)row : -1;
}

/* used_c = 1 if aggregate c has rows */
static __global__ void __launch_bounds__(IDRS_THREADS) UsedKernel(int n, const int *of, int *used)
{
  for (size_t row = IDRSFirstRow<1>(); row < n; row += IDRSRowStride<1>()) {
    if (of[row] >= 0) used[of[row]] = 1;
  }
}

/* Makes aggregates of up to 8 rows, or some more, in passes that join pairs of aggregates */
static PetscErrorCode AggregatesFromPairs(const IDRSCSR *A, size_t nonzeros, AggregatesCUDA *aggregates, cudaStream_t stream,
                                          const char *why[])
{
  AggregatesCUDA     pass = {};
  AggregatesMatrix   coarse[2];
  IDRSCSR            fine = *A;
  int               *used;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  CoupledKernel<<<Blocks(A->n), IDRS_THREADS, 0, stream>>>(*A, aggregates->of);
  PetscCallCUDA(cudaGetLastError());
  for (int p = 0; p < AGGREGATES_PASSES && !*why; p++) {
    pass   = {};
    pass.n = (int)fine.n;
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, fine.n, &pass.of));
    PetscCall(PairsFind(&fine, nonzeros, pass.of, &pass.count, stream));
    NumberKernel<<<Blocks(A->n), IDRS_THREADS, 0, stream>>>((int)A->n, aggregates->of, pass.of, aggregates->of);
    PetscCallCUDA(cudaGetLastError());
    if (p + 1 < AGGREGATES_PASSES) {
      PetscCall(AggregatesGetRows_CUDA(&fine, &pass, stream, why));
      if (!*why) PetscCall(AggregatesMultiply_CUDA(&fine, &pass, 1.0, &coarse[p % 2], stream));
    }
    PetscCall(AggregatesReset_CUDA(&pass));
    if (p > 0) PetscCall(AggregatesMatrixReset_CUDA(&coarse[(p - 1) % 2]));
    if (p + 1 < AGGREGATES_PASSES && !*why) {
      fine     = {coarse[p % 2].i, coarse[p % 2].j, coarse[p % 2].a, (PetscInt)pass.count};
      nonzeros = coarse[p % 2].nonzeros;
    }
  }
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  /* without the rows that are coupled to no other, whose aggregates are empty */
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, pass.count + 1, &used));
  UsedKernel<<<Blocks(A->n), IDRS_THREADS, 0, stream>>>((int)A->n, aggregates->of, used);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(Scan(pass.count + 1, used, stream));
  NumberKernel<<<Blocks(A->n), IDRS_THREADS, 0, stream>>>((int)A->n, aggregates->of, used, aggregates->of);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(Get(1, used + pass.count, &aggregates->count, stream));
  PetscCall(PetscDeviceFree(dctx, used));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static __global__ void __launch_bounds__(IDRS_THREADS) CountRowsKernel(int n, const int *of, int *counts)
{
  for (size_t row = IDRSFirstRow<1>(); row < n; row += IDRSRowStride<1>()) {
    if (of[row] >= 0) atomicAdd(counts + of[row], 1);
  }
}

static __global__ void __launch_bounds__(IDRS_THREADS) PlaceRowsKernel(int n, const int *of, int *next, int *rows)
{
  for (size_t row = IDRSFirstRow<1>(); row < n; row += IDRSRowStride<1>()) {
    if (of[row] >= 0) rows[atomicAdd(next + of[row], 1)] = (int)row;
  }
}

/* *most = largest number of entries in the rows of an aggregate */
static __global__ void __launch_bounds__(IDRS_THREADS) EntriesKernel(IDRSCSR A, AggregatesCUDA aggregates, unsigned long long *most)
{
  unsigned long long mine = 0;

  for (size_t c = IDRSFirstRow<1>(); c < aggregates.count; c += IDRSRowStride<1>()) {
    unsigned long long entries = 0;

    for (int k = aggregates.start[c]; k < aggregates.start[c + 1]; k++)
      entries += (unsigned long long)(A.i[aggregates.rows[k] + 1] - A.i[aggregates.rows[k]]);
    mine = max(mine, entries);
  }
  atomicMax(most, mine);
}

/* Sorts the rows of each aggregate, which are few */
static __global__ void __launch_bounds__(IDRS_THREADS) SortRowsKernel(AggregatesCUDA aggregates)
{
  for (size_t c = IDRSFirstRow<1>(); c < aggregates.count; c += IDRSRowStride<1>()) {
    const int begin = aggregates.start[c];

    for (int k = begin + 1; k < aggregates.start[c + 1]; k++) {
      const int row = aggregates.rows[k];
      int       l   = k;

      for (; l > begin && aggregates.rows[l - 1] > row; l--) aggregates.rows[l] = aggregates.rows[l - 1];
      aggregates.rows[l] = row;
    }
  }
}

/* AggregatesGetRows_CUDA - Makes the lists of the rows of each aggregate, in increasing order */
PetscErrorCode AggregatesGetRows_CUDA(const IDRSCSR *A, AggregatesCUDA *aggregates, cudaStream_t stream, const char *why[])
{
  unsigned long long *most, entries;
  int                *next;
  PetscDeviceContext  dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, aggregates->count + 1, &aggregates->start));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, aggregates->n, &aggregates->rows));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, aggregates->count + 1, &next));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &most));
  CountRowsKernel<<<Blocks(aggregates->n), IDRS_THREADS, 0, stream>>>(aggregates->n, aggregates->of, aggregates->start);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(Scan(aggregates->count + 1, aggregates->start, stream));
  PetscCallCUDA(
    cudaMemcpyAsync(next, aggregates->start, (aggregates->count + 1) * sizeof(*next), cudaMemcpyDeviceToDevice, stream));
  PlaceRowsKernel<<<Blocks(aggregates->n), IDRS_THREADS, 0, stream>>>(aggregates->n, aggregates->of, next, aggregates->rows);
  EntriesKernel<<<Blocks(aggregates->count), IDRS_THREADS, 0, stream>>>(*A, *aggregates, most);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(Get(1, most, &entries, stream));
  if (entries > AGGREGATES_ENTRIES) *why = "an aggregate has rows with too many entries";
  else if (aggregates->count) {
    aggregates->entries = (int)entries;
    SortRowsKernel<<<Blocks(aggregates->count), IDRS_THREADS, 0, stream>>>(*aggregates);
    PetscCallCUDA(cudaGetLastError());
  }
  PetscCall(PetscDeviceFree(dctx, most));
  PetscCall(PetscDeviceFree(dctx, next));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode AggregatesReset_CUDA(AggregatesCUDA *aggregates)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, aggregates->rows));
  PetscCall(PetscDeviceFree(dctx, aggregates->start));
  PetscCall(PetscDeviceFree(dctx, aggregates->of));
  aggregates->of = aggregates->start = aggregates->rows = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* y = z + P x, or P x if z is NULL. Reads x, z and the aggregates; writes y */
static __global__ void __launch_bounds__(IDRS_THREADS) ProlongKernel(IDRSOverlap<true, true> overlap, AggregatesCUDA aggregates,
                                                                     const PetscScalar *x, const PetscScalar *z, PetscScalar *y)
{
  overlap.Begin();
  for (size_t row = IDRSFirstRow<1>(); row < aggregates.n; row += IDRSRowStride<1>()) {
    const int   c     = aggregates.of[row];
    PetscScalar value = z ? z[row] : (PetscScalar)0.0;

    if (c >= 0) value += x[c];
    y[row] = value;
  }
}

/* y = z + P^T x, or P^T x if z is NULL. A thread adds up an aggregate in the order of its rows */
static __global__ void __launch_bounds__(IDRS_THREADS) RestrictKernel(IDRSOverlap<true, true> overlap, AggregatesCUDA aggregates,
                                                                      const PetscScalar *x, const PetscScalar *z, PetscScalar *y)
{
  overlap.Begin();
  for (size_t c = IDRSFirstRow<1>(); c < aggregates.count; c += IDRSRowStride<1>()) {
    PetscScalar sum = 0.0;

    for (int k = aggregates.start[c]; k < aggregates.start[c + 1]; k++) sum += x[aggregates.rows[k]];
    y[c] = z ? z[c] + sum : sum;
  }
}

static PetscErrorCode ProlongationMult(Mat P, PetscBool transpose, Vec x, Vec z, Vec y)
{
  AggregatesCUDA    *aggregates;
  const PetscScalar *xs, *zs;
  PetscScalar       *ys;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(MatShellGetContext(P, &aggregates));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSFindArrayRead_CUDA(x, &xs));
  PetscCall(IDRSFindArrayRead_CUDA(z, &zs));
  PetscCall(IDRSFindArray_CUDA(y, z == y ? IDRS_CHANGE : IDRS_WRITE, &ys));
  PetscCall(PetscLogGpuTimeBegin());
  if (transpose && aggregates->count) IDRSLaunch<RestrictKernel>(Blocks(aggregates->count), stream, *aggregates, xs, zs, ys);
  else if (!transpose && aggregates->n) IDRSLaunch<ProlongKernel>(Blocks(aggregates->n), stream, *aggregates, xs, zs, ys);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(PetscLogGpuFlops(z || transpose ? (PetscLogDouble)aggregates->n : 0.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatMult_Prolongation(Mat P, Vec x, Vec y)
{
  PetscFunctionBegin;
  PetscCall(ProlongationMult(P, PETSC_FALSE, x, NULL, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatMultAdd_Prolongation(Mat P, Vec x, Vec z, Vec y)
{
  PetscFunctionBegin;
  PetscCall(ProlongationMult(P, PETSC_FALSE, x, z, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatMultTranspose_Prolongation(Mat P, Vec x, Vec y)
{
  PetscFunctionBegin;
  PetscCall(ProlongationMult(P, PETSC_TRUE, x, NULL, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatMultTransposeAdd_Prolongation(Mat P, Vec x, Vec z, Vec y)
{
  PetscFunctionBegin;
  PetscCall(ProlongationMult(P, PETSC_TRUE, x, z, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatDestroy_Prolongation(Mat P)
{
  AggregatesCUDA *aggregates;

  PetscFunctionBegin;
  PetscCall(MatShellGetContext(P, &aggregates));
  PetscCall(AggregatesReset_CUDA(aggregates));
  PetscCall(PetscFree(aggregates));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ProlongationCreate(MPI_Comm comm, AggregatesCUDA *aggregates, Mat *P)
{
  PetscFunctionBegin;
  PetscCall(MatCreateShell(comm, aggregates->n, aggregates->count, aggregates->n, aggregates->count, aggregates, P));
  PetscCall(MatShellSetManageScalingShifts(*P));
  PetscCall(MatSetVecType(*P, VECCUDA));
  PetscCall(MatShellSetOperation(*P, MATOP_MULT, (void (*)(void))MatMult_Prolongation));
  PetscCall(MatShellSetOperation(*P, MATOP_MULT_ADD, (void (*)(void))MatMultAdd_Prolongation));
  PetscCall(MatShellSetOperation(*P, MATOP_MULT_TRANSPOSE, (void (*)(void))MatMultTranspose_Prolongation));
  PetscCall(MatShellSetOperation(*P, MATOP_MULT_TRANSPOSE_ADD, (void (*)(void))MatMultTransposeAdd_Prolongation));
  PetscCall(MatShellSetOperation(*P, MATOP_DESTROY, (void (*)(void))MatDestroy_Prolongation));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode AggregatesRuns_CUDA(Mat A, const char *why[])
{
  PetscBool      cuda;
  IDRSMemory     place;
  PetscLogDouble nonzeros;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJCUSPARSE, &cuda));
  if (!cuda) *why = "the matrix is not of type seqaijcusparse";
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSMatWhere(A, &place));
  PetscCall(IDRSGetNonzeros(A, &nonzeros));
  if (place == IDRS_MEMORY_HOST) *why = "the matrix is bound to the CPU";
  else if (sizeof(IDRSMatIndex) != sizeof(PetscInt)) *why = "64-bit indices need PETSc 3.26 or newer";
  else if (nonzeros > 2e9) *why = "it has more than 2 000 000 000 entries";
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode AggregatesCreate_CUDA(Mat A, AggregatesKind *kind, Mat *P, const char *why[])
{
  AggregatesCUDA    *aggregates;
  PetscLogDouble     nonzeros;
  PetscBool          found;
  Grid               grid;
  IDRSCSR            csr;
  cudaStream_t       stream;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(IDRSGetCSR(A, &csr));
  PetscCall(IDRSGetNonzeros(A, &nonzeros));
  PetscCall(PetscNew(&aggregates));
  aggregates->n = (int)csr.n;
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, csr.n, &aggregates->of));
  PetscCall(GridFind(&csr, &grid, &found, stream));
  *kind = found ? AGGREGATES_BOXES : AGGREGATES_PAIRS;
  if (found) PetscCall(AggregatesFromGrid(&csr, &grid, aggregates, stream));
  else PetscCall(AggregatesFromPairs(&csr, (size_t)nonzeros, aggregates, stream, why));
  if (!*why) PetscCall(AggregatesGetRows_CUDA(&csr, aggregates, stream, why));
  if (!*why) PetscCall(ProlongationCreate(PetscObjectComm((PetscObject)A), aggregates, P));
  else {
    PetscCall(AggregatesReset_CUDA(aggregates));
    PetscCall(PetscFree(aggregates));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode AggregatesProduct_CUDA(Mat A, Mat P, PetscReal factor, MatReuse reuse, Mat *coarse)
{
  AggregatesCUDA *aggregates;
  IDRSCSR         csr;
  cudaStream_t    stream;

  PetscFunctionBegin;
  PetscCall(MatShellGetContext(P, &aggregates));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSGetCSR(A, &csr));
  if (reuse == MAT_INITIAL_MATRIX) {
    AggregatesMatrix sums;

    PetscCall(AggregatesMultiply_CUDA(&csr, aggregates, factor, &sums, stream));
    PetscCall(AggregatesMatrixGetMat_CUDA(PetscObjectComm((PetscObject)A), aggregates->count, &sums, stream, coarse));
    PetscCall(AggregatesMatrixReset_CUDA(&sums));
  } else PetscCall(AggregatesUpdate_CUDA(&csr, aggregates, factor, *coarse, stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* *count = number of rows that have couplings and no aggregate */
static __global__ void __launch_bounds__(IDRS_THREADS) MissingKernel(IDRSCSR A, const int *of, int *count)
{
  for (size_t row = IDRSFirstRow<1>(); row < A.n; row += IDRSRowStride<1>()) {
    if (of[row] < 0 && RowIsCoupled(A, row)) atomicAdd(count, 1);
  }
}

static PetscErrorCode AggregatesMissing_CUDA(Mat A, Mat P, PetscInt *count)
{
  AggregatesCUDA    *aggregates;
  IDRSCSR            csr;
  int               *counted, missing;
  cudaStream_t       stream;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(MatShellGetContext(P, &aggregates));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(IDRSGetCSR(A, &csr));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &counted));
  MissingKernel<<<Blocks(csr.n), IDRS_THREADS, 0, stream>>>(csr, aggregates->of, counted);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(Get(1, counted, &missing, stream));
  PetscCall(PetscDeviceFree(dctx, counted));
  *count = missing;
  PetscFunctionReturn(PETSC_SUCCESS);
}

const AggregatesOps Aggregates_CUDA = {"on the GPU",           64,
                                       AggregatesRuns_CUDA,    AggregatesCreate_CUDA,
                                       AggregatesProduct_CUDA, AggregatesMissing_CUDA};
