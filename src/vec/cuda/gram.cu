/*
   The inner products of a set of vectors with each other on the device, k_i^H k_j for i <= j.

   Vectors are divided into groups. A warp has a chunk of rows of a pair of groups, and a lane adds the products of all vectors of
   one group with all vectors of the other, row by row. The warps of a block have the same rows and different pairs, so most loads
   hit the L1 cache; if there are more warps than pairs, a pair has several chunks. A second kernel adds the sums of the chunks in a
   fixed order.
*/
#include "idrscudaimpl.cuh"

#define IDRS_GRAM_GROUP  (PetscDefined(USE_COMPLEX) ? 3 : 4) /* vectors */
#define IDRS_GRAM_MAX    136                                 /* vectors of one call */
#define IDRS_GRAM_SUMS   (IDRS_GRAM_GROUP * IDRS_GRAM_GROUP)
#define IDRS_GRAM_WARPS  32  /* per block */
#define IDRS_GRAM_ROWS   256 /* per chunk, at least */
#define IDRS_GRAM_BLOCKS 256 /* most blocks that share the rows; the same on all devices, so sums are the same */

typedef struct {
  const PetscScalar *a[IDRS_GRAM_MAX];
  size_t             rows;
  int                count;
} IDRSGramVectors;

/* Finds pair `number` of groups first <= second; groups are numbered from 0 */
static __device__ __forceinline__ void IDRSGramPair(int number, int *first, int *second)
{
  *second = 0;
  while (number > *second) number -= ++*second;
  *first = number;
}

/* a[i] = entry of vector first + i in a row, or 0 */
static __device__ __forceinline__ void IDRSGramLoad(const IDRSGramVectors &K, int first, size_t row, PetscScalar a[IDRS_GRAM_GROUP])
{
#pragma unroll
  for (int i = 0; i < IDRS_GRAM_GROUP; i++) a[i] = first + i < K.count ? IDRSLoadConstant(K.a[first + i] + row) : (PetscScalar)0.0;
}

/* chunks: per block. The first block index selects the pairs */
static __global__ void __launch_bounds__(IDRS_GRAM_WARPS *IDRS_WARP)
  IDRSGramKernel(const __grid_constant__ IDRSGramVectors K, int pairs, int chunks, size_t rows, PetscScalar *partials)
{
  const int    warp = threadIdx.x / IDRS_WARP, lane = threadIdx.x % IDRS_WARP, here = chunks > 1 ? pairs : IDRS_GRAM_WARPS;
  const int    pair  = blockIdx.x * IDRS_GRAM_WARPS + warp % here;
  const size_t chunk = (size_t)blockIdx.y * chunks + warp / here, begin = chunk * rows,
               end = begin + rows < K.rows ? begin + rows : K.rows;
  PetscScalar sum[IDRS_GRAM_GROUP][IDRS_GRAM_GROUP];
  int         first, second;

  if (pair >= pairs || warp / here >= chunks) return;
  IDRSGramPair(pair, &first, &second);
#pragma unroll
  for (int i = 0; i < IDRS_GRAM_GROUP; i++) {
#pragma unroll
    for (int j = 0; j < IDRS_GRAM_GROUP; j++) sum[i][j] = 0.0;
  }
  for (size_t row = begin + lane; row < end; row += IDRS_WARP) {
    PetscScalar a[IDRS_GRAM_GROUP], b[IDRS_GRAM_GROUP];

    IDRSGramLoad(K, first * IDRS_GRAM_GROUP, row, a);
    IDRSGramLoad(K, second * IDRS_GRAM_GROUP, row, b);
#pragma unroll
    for (int i = 0; i < IDRS_GRAM_GROUP; i++) {
#pragma unroll
      for (int j = 0; j < IDRS_GRAM_GROUP; j++) sum[i][j] += PetscConj(a[i]) * b[j];
    }
  }
#pragma unroll
  for (int i = 0; i < IDRS_GRAM_GROUP; i++) {
#pragma unroll
    for (int j = 0; j < IDRS_GRAM_GROUP; j++) {
      const PetscScalar total = IDRSWarpSum<IDRS_WARP>(sum[i][j]);

      if (lane == 0) partials[(chunk * pairs + pair) * IDRS_GRAM_SUMS + i * IDRS_GRAM_GROUP + j] = total;
    }
  }
}

/* One warp per product; W has leading dimension count */
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSGramTotalKernel(int count, int pairs, int chunks, const PetscScalar *partials, PetscScalar *W)
{
  const int   i = (int)IDRSFirstRow<1>() / IDRS_WARP, lane = threadIdx.x % IDRS_WARP;
  PetscScalar total = 0.0;
  int         first, second;

  if (i >= pairs * IDRS_GRAM_SUMS) return;
  IDRSGramPair(i / IDRS_GRAM_SUMS, &first, &second);
  first  = first * IDRS_GRAM_GROUP + i % IDRS_GRAM_SUMS / IDRS_GRAM_GROUP;
  second = second * IDRS_GRAM_GROUP + i % IDRS_GRAM_GROUP;
  if (first > second || second >= count) return;
#pragma unroll 4
  for (int c = lane; c < chunks; c += IDRS_WARP) total += partials[(size_t)c * pairs * IDRS_GRAM_SUMS + i];
  total = IDRSWarpSum<IDRS_WARP>(total);
  if (lane == 0) W[first + second * count] = total;
}

/* IDRSVecGram_CUDA - Computes W[i + j n] = k_i^H k_j for i <= j over the rows of this process; the host waits */
PetscErrorCode IDRSVecGram_CUDA(PetscInt n, Vec v[], PetscScalar W[])
{
  IDRSGramVectors    K = {};
  size_t             chunk;
  unsigned int       groups, pairs, chunks, blocks;
  PetscInt           rows;
  PetscScalar       *partials, *sums;
  PetscDeviceContext dctx;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCheck(n <= IDRS_GRAM_MAX, PETSC_COMM_SELF, PETSC_ERR_PLIB, "%" PetscInt_FMT " vectors exceed IDRS_GRAM_MAX", n);
  PetscCall(VecGetLocalSize(v[0], &rows));
  K.rows  = (size_t)rows;
  K.count = (int)n;
  groups  = (unsigned int)(n + IDRS_GRAM_GROUP - 1) / IDRS_GRAM_GROUP;
  pairs   = groups * (groups + 1) / 2;
  chunks  = pairs < IDRS_GRAM_WARPS ? IDRS_GRAM_WARPS / pairs : 1;
  chunk   = PetscMax((K.rows + IDRS_GRAM_BLOCKS * chunks - 1) / (IDRS_GRAM_BLOCKS * chunks), (size_t)IDRS_GRAM_ROWS);
  blocks  = (unsigned int)PetscMax((K.rows + chunk * chunks - 1) / (chunk * chunks), (size_t)1);
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, (size_t)pairs * chunks * blocks * IDRS_GRAM_SUMS, &partials));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, (size_t)(n * n), &sums));
  for (PetscInt i = 0; i < n; i++) PetscCall(IDRSFindArrayRead_CUDA(v[i], &K.a[i]));
  IDRSGramKernel<<<dim3((pairs + IDRS_GRAM_WARPS - 1) / IDRS_GRAM_WARPS, blocks), IDRS_GRAM_WARPS * IDRS_WARP, 0, stream>>>(
    K, (int)pairs, (int)chunks, chunk, partials);
  PetscCallCUDA(cudaGetLastError());
  IDRSGramTotalKernel<<<(pairs * IDRS_GRAM_SUMS + IDRS_WARPS - 1) / IDRS_WARPS, IDRS_THREADS, 0, stream>>>(K.count, (int)pairs,
                                                                                                           (int)(chunks * blocks),
                                                                                                           partials, sums);
  PetscCallCUDA(cudaGetLastError());
  PetscCallCUDA(cudaMemcpyAsync(W, sums, (size_t)(n * n) * sizeof(*W), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscCall(PetscDeviceFree(dctx, sums));
  PetscCall(PetscDeviceFree(dctx, partials));
  PetscCall(PetscLogGpuFlops(2.0 * K.rows * pairs * IDRS_GRAM_SUMS));
  PetscFunctionReturn(PETSC_SUCCESS);
}
