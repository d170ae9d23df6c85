/*
   Aggregates of the rows of a process by handshakes, as on the host, see aggregates.c: in kernels with a thread for each row
*/
#include "aggregatescuda.cuh"

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

/*
   Returns the strength of (i, j), and if A lacks (j, i). The sum is rounded like the one of (j, i), without a fused multiplication,
   so that both strengths are equal
*/
static __device__ __forceinline__ float GetStrength(const IDRSCSR &A, const PetscReal *left, int i, IDRSMatIndex p, bool *lacks)
{
  const int j = (int)A.j[p], distance = abs(j - i);
  int       exponent;
  PetscReal s = left[i] * PetscAbsReal(left[j]) * PetscRealPart(A.a[p]);

  *lacks = distance != 0;
  for (IDRSMatIndex q = A.i[j]; q < A.i[j + 1] && *lacks; q++) {
    if ((int)A.j[q] == i) {
      const PetscReal other = left[j] * PetscAbsReal(left[i]) * PetscRealPart(A.a[q]);

      s      = PetscDefined(USE_REAL_SINGLE) ? (PetscReal)__fadd_rn((float)s, (float)other) : (PetscReal)__dadd_rn(s, other);
      *lacks = false;
    }
  }
  if (!distance || !(s > 0.0)) return 0.0f;
  s = (PetscReal)frexp((double)s, &exponent);
  return (float)(ldexp(rint(AGGREGATES_PARTS * (double)s), exponent) *
                 (1.0 + 1e-3 * ((min(i, j) / distance % 2 ? 0.0 : 1.0) + 0.4 / (1.0 + log2((double)distance)))));
}

/* Computes strengths, and counts the places of each row that A lacks; in the second pass, fills these */
template <bool SECOND>
static __global__ void __launch_bounds__(IDRS_THREADS) CouplingsKernel(Couplings S, const PetscReal *left, int *counts)
{
  for (size_t row = IDRSFirstRow<1>(); row < S.A.n; row += IDRSRowStride<1>()) {
    for (IDRSMatIndex p = S.A.i[row]; p < S.A.i[row + 1]; p++) {
      bool        lacks;
      const float s = GetStrength(S.A, left, (int)row, p, &lacks);

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
  CouplingScaleKernel<<<CountBlocks(A->n), IDRS_THREADS, 0, stream>>>(*A, left);
  CouplingsKernel<false><<<CountBlocks(A->n), IDRS_THREADS, 0, stream>>>(*S, left, S->i);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(ScanSums(A->n + 1, S->i, stream));
  PetscCall(CopyToHost(1, S->i + A->n, &lacking, stream));
  if (lacking) {
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, lacking, &S->j));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, lacking, &S->lacking));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, A->n, &next));
    PetscCallCUDA(cudaMemcpyAsync(next, S->i, A->n * sizeof(*next), cudaMemcpyDeviceToDevice, stream));
    CouplingsKernel<true><<<CountBlocks(A->n), IDRS_THREADS, 0, stream>>>(*S, left, next);
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

static __device__ __forceinline__ bool PairIsStrong(float strength, float most, float othermost)
{
  return strength > 0.0f && strength >= (float)AGGREGATES_STRONG * fmaxf(most, othermost);
}

/* counts[0] = number of strong couplings, counts[1] = number of rows that have some */
static __global__ void __launch_bounds__(IDRS_THREADS) PairsCountKernel(Couplings S, const float *most, int *counts)
{
  __shared__ int sums[2];

  if (threadIdx.x < 2) sums[threadIdx.x] = 0;
  __syncthreads();
  for (size_t row = IDRSFirstRow<1>(); row < S.A.n; row += IDRSRowStride<1>()) {
    int strong = 0;

    ForCouplings(S, row, [&](int j, float s) { strong += PairIsStrong(s, most[row], most[j]); });
    if (strong) atomicAdd(&sums[0], strong);
    if (strong) atomicAdd(&sums[1], 1);
  }
  __syncthreads();
  if (threadIdx.x < 2) atomicAdd(counts + threadIdx.x, sums[threadIdx.x]);
}

/* Each free row points to the free row with the strongest coupling */
static __global__ void __launch_bounds__(IDRS_THREADS) PairsPointKernel(Couplings S, const float *most, const int *of, int *to)
{
  for (size_t row = IDRSFirstRow<1>(); row < S.A.n; row += IDRSRowStride<1>())
    to[row] = of[row] >= 0 ? -1
                           : StrongestRow(S, row, [&](int j, float s) { return of[j] < 0 && PairIsStrong(s, most[row], most[j]); });
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
static PetscErrorCode PairsFind(const IDRSCSR *A, size_t nonzeros, int *of, int *count, bool *few, cudaStream_t stream)
{
  const unsigned int blocks = CountBlocks(A->n);
  Couplings          S;
  float             *most;
  int               *to, *first, *counts, strong[2];
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(CouplingsCreate(A, nonzeros, &S, stream));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 2, &counts));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, A->n, &most));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, A->n, &to));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, A->n + 1, &first));
  PairsBeginKernel<<<blocks, IDRS_THREADS, 0, stream>>>(S, most, of);
  PairsCountKernel<<<blocks, IDRS_THREADS, 0, stream>>>(S, most, counts);
  for (int round = 0; round < AGGREGATES_ROUNDS; round++) {
    PairsPointKernel<<<blocks, IDRS_THREADS, 0, stream>>>(S, most, of, to);
    PairsJoinKernel<<<blocks, IDRS_THREADS, 0, stream>>>((int)A->n, to, of);
  }
  PairsEndKernel<<<blocks, IDRS_THREADS, 0, stream>>>(S, most, of, to, first);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(ScanSums(A->n + 1, first, stream));
  NumberKernel<<<blocks, IDRS_THREADS, 0, stream>>>((int)A->n, to, first, of);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(CopyToHost(1, first + A->n, count, stream));
  PetscCall(CopyToHost(2, counts, strong, stream));
  *few = strong[0] < AGGREGATES_FEW * (long long)strong[1];
  PetscCall(PetscDeviceFree(dctx, counts));
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

/* AggregatesFromPairs_CUDA - Makes aggregates in passes that join pairs of aggregates, see AggregatesFromPairs() of the host */
PetscErrorCode AggregatesFromPairs_CUDA(const IDRSCSR *A, size_t nonzeros, AggregatesCUDA *aggregates, cudaStream_t stream,
                                        const char *why[])
{
  AggregatesCUDA     pass;
  int                count     = 0; /* of the aggregates of a pass */
  int                passes    = AGGREGATES_PASSES;
  AggregatesMatrix   coarse[2] = {};
  AggregatesBlock    block;
  IDRSCSR            fine = *A;
  int               *used;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  CoupledKernel<<<CountBlocks(A->n), IDRS_THREADS, 0, stream>>>(*A, aggregates->of);
  PetscCallCUDA(cudaGetLastError());
  for (int p = 0; p < passes && !*why; p++) {
    bool few = false;

    pass   = {};
    pass.n = (int)fine.n;
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, fine.n, &pass.of));
    PetscCall(PairsFind(&fine, nonzeros, pass.of, &pass.count, &few, stream));
    if (!p && few) passes = AGGREGATES_PASSES_FEW;
    count = pass.count;
    NumberKernel<<<CountBlocks(A->n), IDRS_THREADS, 0, stream>>>((int)A->n, aggregates->of, pass.of, aggregates->of);
    PetscCallCUDA(cudaGetLastError());
    if (p + 1 < passes) {
      PetscCall(AggregatesGetRows_CUDA(&fine, &pass, stream, why));
      block = {fine, pass.of, pass.entries};
      if (!*why) PetscCall(AggregatesMultiply_CUDA(&block, &pass, 1.0, &coarse[p % 2], stream));
    }
    PetscCall(AggregatesReset_CUDA(&pass));
    if (p > 0) PetscCall(AggregatesMatrixReset_CUDA(&coarse[(p - 1) % 2]));
    if (p + 1 < passes && !*why) {
      fine     = {coarse[p % 2].i, coarse[p % 2].j, coarse[p % 2].a, (PetscInt)count};
      nonzeros = coarse[p % 2].nonzeros;
    }
  }
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  /* without the rows that are coupled to no other, whose aggregates are empty */
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, count + 1, &used));
  UsedKernel<<<CountBlocks(A->n), IDRS_THREADS, 0, stream>>>((int)A->n, aggregates->of, used);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(ScanSums(count + 1, used, stream));
  NumberKernel<<<CountBlocks(A->n), IDRS_THREADS, 0, stream>>>((int)A->n, aggregates->of, used, aggregates->of);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(CopyToHost(1, used + count, &aggregates->count, stream));
  PetscCall(PetscDeviceFree(dctx, used));
  PetscFunctionReturn(PETSC_SUCCESS);
}
