/*
   The inner products of a set of vectors with each other on the device, k_i^H k_j for i <= j.

   Vectors are taken in groups. A block takes a chunk of rows of a pair of groups, and a thread adds up the products of all vectors of the one with all of the
   other, row by row. The blocks of all pairs for the same rows run side by side, so that most of what they read is in the L2 cache. The sums of the chunks are added
   up in a fixed order by a second kernel.
*/
#include "launch.cuh"

#define IDRS_GRAM_GROUP (PetscDefined(USE_COMPLEX) ? 4 : 8) /* vectors */
#define IDRS_GRAM_MAX   136                                 /* vectors of one call */
#define IDRS_GRAM_SUMS  (IDRS_GRAM_GROUP * IDRS_GRAM_GROUP)

typedef struct {
  const PetscScalar *a[IDRS_GRAM_MAX];
  size_t             rows;
  int                count;
} IDRSGramVectors;

/* Pair number of groups first <= second; groups are numbered from 0 */
static __device__ __forceinline__ void IDRSGramPair(int number, int *first, int *second)
{
  *second = 0;
  while (number > *second) number -= ++*second;
  *first = number;
}

static __global__ void __launch_bounds__(IDRS_THREADS) IDRSGramKernel(const __grid_constant__ IDRSGramVectors K, size_t chunk, PetscScalar *partials)
{
  __shared__ PetscScalar shared[IDRS_WARPS];
  const size_t           begin = blockIdx.y * chunk, end = begin + chunk < K.rows ? begin + chunk : K.rows;
  PetscScalar            sum[IDRS_GRAM_GROUP][IDRS_GRAM_GROUP];
  int                    first, second;

  IDRSGramPair(blockIdx.x, &first, &second);
  first *= IDRS_GRAM_GROUP;
  second *= IDRS_GRAM_GROUP;
#pragma unroll
  for (int i = 0; i < IDRS_GRAM_GROUP; i++) {
#pragma unroll
    for (int j = 0; j < IDRS_GRAM_GROUP; j++) sum[i][j] = 0.0;
  }
  for (size_t row = begin + threadIdx.x; row < end; row += IDRS_THREADS) {
    PetscScalar a[IDRS_GRAM_GROUP], b[IDRS_GRAM_GROUP];

#pragma unroll
    for (int i = 0; i < IDRS_GRAM_GROUP; i++) a[i] = first + i < K.count ? PetscConj(IDRSLoadConstant(K.a[first + i] + row)) : (PetscScalar)0.0;
#pragma unroll
    for (int j = 0; j < IDRS_GRAM_GROUP; j++) b[j] = second + j < K.count ? IDRSLoadConstant(K.a[second + j] + row) : (PetscScalar)0.0;
#pragma unroll
    for (int i = 0; i < IDRS_GRAM_GROUP; i++) {
#pragma unroll
      for (int j = 0; j < IDRS_GRAM_GROUP; j++) sum[i][j] += a[i] * b[j];
    }
  }
#pragma unroll
  for (int i = 0; i < IDRS_GRAM_GROUP; i++) {
#pragma unroll
    for (int j = 0; j < IDRS_GRAM_GROUP; j++) {
      __syncthreads(); /* what was there before has been read */
      IDRSWarpSums<1>(&sum[i][j], shared);
      __syncthreads();
      if (threadIdx.x == 0) partials[((size_t)blockIdx.y * gridDim.x + blockIdx.x) * IDRS_GRAM_SUMS + i * IDRS_GRAM_GROUP + j] = IDRSWarpsTotal(shared, 0);
    }
  }
}

/* A thread for each product; W has leading dimension count */
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSGramTotalKernel(int count, int pairs, int chunks, const PetscScalar *partials, PetscScalar *W)
{
  const int   i     = (int)IDRSFirstRow<1>();
  PetscScalar total = 0.0;
  int         first, second;

  if (i >= pairs * IDRS_GRAM_SUMS) return;
  IDRSGramPair(i / IDRS_GRAM_SUMS, &first, &second);
  first  = first * IDRS_GRAM_GROUP + i % IDRS_GRAM_SUMS / IDRS_GRAM_GROUP;
  second = second * IDRS_GRAM_GROUP + i % IDRS_GRAM_GROUP;
  if (first > second || second >= count) return;
  for (int c = 0; c < chunks; c++) total += partials[(size_t)c * pairs * IDRS_GRAM_SUMS + i];
  W[first + second * count] = total;
}

/* IDRSVecGram_CUDA - The products of the rows of this process, W[i + j n] = k_i^H k_j for i <= j; the host waits for them */
PetscErrorCode IDRSVecGram_CUDA(PetscInt n, Vec v[], PetscScalar W[])
{
  IDRSGramVectors    K = {};
  size_t             chunk;
  unsigned int       groups, pairs, chunks;
  PetscInt           rows;
  PetscScalar       *partials, *sums;
  PetscDeviceContext dctx;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCheck(n <= IDRS_GRAM_MAX, PETSC_COMM_SELF, PETSC_ERR_PLIB, "%" PetscInt_FMT " vectors", n);
  PetscCall(VecGetLocalSize(v[0], &rows));
  K.rows  = (size_t)rows;
  K.count = (int)n;
  groups  = (unsigned int)(n + IDRS_GRAM_GROUP - 1) / IDRS_GRAM_GROUP;
  pairs   = groups * (groups + 1) / 2;
  chunk   = PetscMax((K.rows + 255) / 256, (size_t)(4 * IDRS_THREADS));
  chunks  = (unsigned int)PetscMax((K.rows + chunk - 1) / chunk, (size_t)1);
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, (size_t)pairs * chunks * IDRS_GRAM_SUMS, &partials));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, (size_t)(n * n), &sums));
  for (PetscInt i = 0; i < n; i++) PetscCall(IDRSGetArrayRead_CUDA(v[i], &K.a[i]));
  IDRSGramKernel<<<dim3(pairs, chunks), IDRS_THREADS, 0, stream>>>(K, chunk, partials);
  PetscCallCUDA(cudaGetLastError());
  IDRSGramTotalKernel<<<(pairs * IDRS_GRAM_SUMS + IDRS_THREADS - 1) / IDRS_THREADS, IDRS_THREADS, 0, stream>>>(K.count, (int)pairs, (int)chunks, partials, sums);
  PetscCallCUDA(cudaGetLastError());
  for (PetscInt i = 0; i < n; i++) PetscCall(VecRestoreArrayReadAndMemType(v[i], &K.a[i]));
  PetscCallCUDA(cudaMemcpyAsync(W, sums, (size_t)(n * n) * sizeof(*W), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscCall(PetscDeviceFree(dctx, sums));
  PetscCall(PetscDeviceFree(dctx, partials));
  PetscCall(PetscLogGpuFlops(2.0 * K.rows * pairs * IDRS_GRAM_SUMS));
  PetscFunctionReturn(PETSC_SUCCESS);
}
