/*
   Product "csr": x = A u, and the sums of its projection, from the arrays of MATSEQAIJCUSPARSE as they are.

   A warp computes 32 rows at a time, and some of its lanes a row, more of them where rows are longer; then each lane has the entry
   of x of one row. Reads A, u and y; writes x. Where A has dense blocks, a lane takes the entries of a row in a block, from one
   column index for the block, and then those in another block: the sums of several lanes have another order than without blocks.
*/
#include "columns.h"
#include "csr.h"
#include "matvec.cuh"
#include "rowsum.cuh"
#include <petscidrs/private/idrsdiagonal.h>

typedef struct {
  IDRSCSR        A;
  IDRSBlockIndex blocks;
  int            lanes; /* of a row, a power of 2 */
  IDRSRowLengths lengths;
  PetscBool      once; /* as in IDRSSlicedCopy */
} IDRSProductCSR;

/* Matrix: IDRSCSR, or IDRSBlockedCSR */
template <int S, bool Y, bool HASHED, typename Matrix>
static __global__ void __launch_bounds__(IDRS_THREADS, IDRSBlocksAtOnce(Y ? 2 * S : S))
  IDRSCSRKernel(IDRSOverlap<true, true> overlap, Matrix A, int lanes, IDRSBoundary boundary, IDRSShadow<S> P, const PetscScalar *u,
                PetscScalar *x, const PetscScalar *y, IDRSSums out, IDRSAlgebra algebra)
{
  constexpr int  atonce = (Y ? 2 * S : S) > 2 ? 4 : 8; /* what the sums leave registers for */
  const size_t   n = A.n, lane = threadIdx.x % IDRS_WARP;
  bool           stopped;
  IDRSDots<S, Y> dots;

  overlap.Begin();
  IDRSSendEntries(boundary.sends, u);
  stopped = IDRSProjectBegin<S>(P, algebra);
  IDRSDotsClear(dots);
  for (size_t row = IDRSFirstRow<1>() - lane; row < n; row += IDRSRowStride<1>()) {
    const size_t i = row + lane;
    IDRSPack<1>  xi, yi = IDRSZero<1>();

    if (Y) yi = IDRSLoad<1>(y, i, n);
    xi.v[0] = IDRSRowSum<atonce>(A, u, (IDRSIndex)row, lanes);
    IDRSStore<1>(x, i, n, xi);
    if (!boundary.places || !(boundary.places[row / IDRS_WARP] >> lane & 1)) IDRSDotsAdd<S, 1, Y, HASHED>(dots, P, i, n, xi, yi);
  }
  if (!stopped) IDRSProjectEnd<S, Y, HASHED>(dots, P, out, algebra);
}

/* By a warp, for 32 rows at a time */
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSRowLengthsKernel(IDRSCSR A, unsigned int limit, IDRSRowLengths *lengths)
{
  const size_t       lane    = threadIdx.x % IDRS_WARP;
  unsigned long long places  = 0;
  uint32_t           longest = 0;

  for (size_t row = IDRSFirstRow<1>() - lane; row < A.n; row += IDRSRowStride<1>()) {
    const uint32_t length = row + lane < A.n ? (uint32_t)(A.i[row + lane + 1] - A.i[row + lane]) : 0;

    longest = max(longest, ~IDRSWarpMin(~length));
    places += (unsigned long long)~IDRSWarpMin(~(length > limit ? 0 : length)) * IDRS_WARP;
    if (length > limit) {
      atomicAdd(&lengths->longrows, 1);
      atomicAdd(&lengths->longentries, (unsigned long long)length);
    }
  }
  if (lane) return;
  atomicAdd(&lengths->places, places);
  atomicMax(&lengths->longest, longest);
}

/* The host waits */
PetscErrorCode IDRSGetRowLengths(const IDRSCSR *A, unsigned int limit, IDRSRowLengths *lengths)
{
  IDRSRowLengths    *counted;
  PetscDeviceContext dctx;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &counted));
  IDRSRowLengthsKernel<<<(unsigned int)PetscMin(PetscMax((A->n + IDRS_THREADS - 1) / IDRS_THREADS, 1), 2048), IDRS_THREADS, 0,
                         stream>>>(*A, limit, counted);
  PetscCallCUDA(cudaGetLastError());
  PetscCallCUDA(cudaMemcpyAsync(lengths, counted, sizeof(*lengths), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscCall(PetscDeviceFree(dctx, counted));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Why MatMult() is faster, where a lane takes so many entries of the longest row one after the other, or NULL. On an H200 a warp
   takes about 0.7 us for 8 of them, which is the time of 80 000 entries of all rows together
*/
const char *IDRSDeclineLongRow(PetscLogDouble nonzeros, unsigned int entries)
{
  return (PetscLogDouble)entries > 32.0 + nonzeros / 80000.0 ? "a row is so long that the others would wait for it" : NULL;
}

/*
   Why the automatic choice is MatMult() with such rows, or NULL; shared: lanes of a warp share a row. Entries of u are read as
   often as there are entries in rows without blocks, and where these rows are long that decides: there cuSPARSE is faster.
*/
PetscErrorCode IDRSDeclineRows(Mat A, unsigned int entries, PetscBool shared, const char *why[])
{
  PetscLogDouble nonzeros = 0;
  PetscInt       n, bs;

  PetscFunctionBegin;
  PetscCall(IDRSGetNonzeros(A, &nonzeros));
  PetscCall(MatGetLocalSize(A, &n, NULL));
  PetscCall(MatGetBlockSize(A, &bs));
  *why = IDRSDeclineLongRow(nonzeros, entries);
  if (!*why && nonzeros > 12.0 * (PetscLogDouble)n && (bs == 1 || shared)) *why = "rows have more than 12 entries, and no blocks";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Whether so many bytes, read once in a matvec, are more than stay in the L2 cache until the next one */
PetscErrorCode IDRSExceedsCache(PetscLogDouble bytes, PetscBool *exceeds)
{
  int device, cache;

  PetscFunctionBegin;
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device));
  *exceeds = (PetscBool)(bytes > 0.75 * cache);
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSGetNonzeros(Mat A, PetscLogDouble *nonzeros)
{
  MatInfo info;

  PetscFunctionBegin;
  PetscCall(MatGetInfo(A, MAT_LOCAL, &info));
  *nonzeros = info.nz_used;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Lanes of a warp that are to share a row: a power of 2, for a dozen entries each */
PetscErrorCode IDRSGetRowLanes(Mat A, int *lanes)
{
  PetscLogDouble nonzeros = 0;
  PetscInt       n;

  PetscFunctionBegin;
  PetscCall(IDRSGetNonzeros(A, &nonzeros));
  PetscCall(MatGetLocalSize(A, &n, NULL));
  *lanes = 1;
  while (*lanes < IDRS_WARP && 12.0 * *lanes * (PetscLogDouble)n < nonzeros) *lanes *= 2;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Memory of the device; where there is none, NULL, and why */
PetscErrorCode IDRSMalloc_CUDA(size_t bytes, void *memory, const char *why[])
{
  const cudaError_t error = cudaMalloc((void **)memory, PetscMax(bytes, 1));

  PetscFunctionBegin;
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    *(void **)memory = NULL;
    *why             = "the memory of the GPU does not hold a copy of the operator";
  } else PetscCallCUDA(error);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The arrays, up to date. They stay where they are until the matrix changes */
PetscErrorCode IDRSGetCSR(Mat A, IDRSCSR *csr)
{
  const IDRSMatIndex *i, *j;
  const PetscScalar  *a;

  PetscFunctionBegin;
  PetscCall(MatGetLocalSize(A, &csr->n, NULL));
  PetscCall(MatSeqAIJCUSPARSEGetIJ(A, PETSC_FALSE, &i, &j));
  PetscCall(MatSeqAIJCUSPARSEGetArrayRead(A, &a));
  csr->i = i;
  csr->j = j;
  csr->a = a;
  PetscCall(MatSeqAIJCUSPARSERestoreArrayRead(A, &a));
  PetscCall(MatSeqAIJCUSPARSERestoreIJ(A, PETSC_FALSE, &i, &j));
  PetscCall(IDRSStreamJoin_CUDA());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The diagonal block, or the matrix itself on one process, and the block outside, or NULL */
PetscErrorCode IDRSGetBlocks(Mat A, Mat *diagonal, Mat *offdiagonal)
{
  PetscBool sequential;
  Mat       blocks[2];

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJCUSPARSE, &sequential));
  blocks[0] = A;
  blocks[1] = NULL;
  if (!sequential) PetscCall(MatMPIAIJGetSeqAIJ(A, &blocks[0], &blocks[1], NULL));
  if (diagonal) *diagonal = blocks[0];
  if (offdiagonal) *offdiagonal = blocks[1];
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   largest_i = max(largest_i, |a_ij|) for the entries of row i, or, with blocks, for those whose columns are in the block of the
   row. By a thread, for a row at a time
*/
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSRowsLargestKernel(IDRSCSR A, PetscInt nblocks, const PetscInt *starts, PetscScalar *largest)
{
  for (size_t row = IDRSFirstRow<1>(); row < A.n; row += IDRSRowStride<1>()) {
    PetscReal most = PetscRealPart(largest[row]);
    PetscInt  low = 0, high = nblocks; /* blocks from low to high - 1 may have the row */

    while (high - low > 1) {
      const PetscInt middle = low + (high - low) / 2;

      if (starts[middle] <= (PetscInt)row) low = middle;
      else high = middle;
    }
    for (PetscInt p = A.i[row]; p < A.i[row + 1]; p++) {
      if (!starts || (A.j[p] >= starts[low] && A.j[p] < starts[low + 1])) most = PetscMax(most, PetscAbsScalar(A.a[p]));
    }
    largest[row] = most;
  }
}

static PetscErrorCode IDRSRowsLargest_CUDA(Mat A, PetscInt nblocks, const PetscInt starts[], Vec largest, PetscBool *)
{
  PetscDeviceContext dctx;
  PetscScalar       *values;
  PetscInt          *copy = NULL;
  cudaStream_t       stream;
  Mat                blocks[2];

  PetscFunctionBegin;
  PetscCall(IDRSGetBlocks(A, &blocks[0], &blocks[1]));
  PetscCall(VecSet(largest, 0.0));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  if (starts) {
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, nblocks + 1, &copy));
    PetscCallCUDA(cudaMemcpyAsync(copy, starts, (nblocks + 1) * sizeof(*starts), cudaMemcpyHostToDevice, stream));
  }
  PetscCall(VecCUDAGetArray(largest, &values));
  for (int b = 0; b < 2; b++) {
    IDRSCSR csr;

    if (!blocks[b]) continue;
    PetscCall(IDRSGetCSR(blocks[b], &csr));
    if (!csr.n) continue;
    IDRSRowsLargestKernel<<<(unsigned int)PetscMin((csr.n + IDRS_THREADS - 1) / IDRS_THREADS, 2048), IDRS_THREADS, 0, stream>>>(
      csr, nblocks, copy, values);
    PetscCallCUDA(cudaGetLastError());
  }
  PetscCall(VecCUDARestoreArray(largest, &values));
  PetscCall(PetscDeviceFree(dctx, copy));
  PetscFunctionReturn(PETSC_SUCCESS);
}

const IDRSDiagonalOps IDRSDiagonalBackEnds_CUDA = {IDRSRowsLargest_CUDA};

/*
   IDRSMatRuns_CUDA - Why the arrays cannot take the place of MatMult(), or NULL. Where some processes use them and others
   MatMult(), they go through the same scatter
*/
PetscErrorCode IDRSMatRuns_CUDA(Mat A, const char *why[])
{
  PetscBool sequential, parallel, bound, assembled, usual;
  PetscSF   scatter = NULL;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJCUSPARSE, &sequential));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJCUSPARSE, &parallel));
  PetscCall(MatBoundToCPU(A, &bound));
  if (parallel) PetscCall(IDRSMatGetScatter(A, &scatter));
  PetscCall(MatAssembled(A, &assembled));
  if (!sequential && !parallel) *why = "the operator is not of type aijcusparse";
  else if (!assembled) *why = "the operator is not assembled";
  else if (bound) *why = "the operator is bound to the CPU";
  else if (parallel && !scatter)
    *why = "on several processes it needs the scatter of the operator, which PETSc 3.26 and newer tell";
  else {
    PetscCall(IDRSMatHasUsualMult(A, &usual));
    if (!usual) *why = "the operator has a MatMult() of the user";
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* For all products on these arrays */
PetscErrorCode IDRSProductRuns_CUDA(IDRSProduct product, const char *why[])
{
  PetscFunctionBegin;
  PetscCall(IDRSMatRuns_CUDA(product->A, why));
  if (!*why && product->transpose) *why = "the operator is applied transposed";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* What follows from the pattern, once */
static PetscErrorCode IDRSProductPlan_CSR(IDRSProduct product, Mat block, const IDRSCSR *A, IDRSProductCSR *csr)
{
  PetscLogDouble nonzeros = 0;
  cudaStream_t   stream;
  PetscInt       bs;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSGetNonzeros(block, &nonzeros));
  PetscCall(IDRSGetRowLengths(A, UINT_MAX, &csr->lengths));
  PetscCall(
    IDRSExceedsCache(nonzeros * (sizeof(PetscScalar) + sizeof(PetscInt)) + A->n * (sizeof(PetscInt) + 2.0 * sizeof(PetscScalar)),
                     &csr->once));
  PetscCall(IDRSGetRowLanes(block, &csr->lanes));
  if (!product->backend) PetscFunctionReturn(PETSC_SUCCESS); /* several columns look for blocks where they pay */
  PetscCall(MatGetBlockSize(product->A, &bs));               /* the diagonal block of a process need not know of it */
  PetscCall(IDRSBlockIndexCreate(A, bs, &csr->blocks, stream, &product->noblocks));
  product->blocksize = csr->blocks.bs;
  if (product->noblocks) PetscCall(PetscInfo(product->A, "Block size %" PetscInt_FMT " is not used: %s\n", bs, product->noblocks));
  /* for one or two blocks each */
  while (csr->blocks.bs > 1 && csr->lanes > 1 && csr->lanes < IDRS_WARP &&
         2.0 * csr->blocks.bs * csr->lanes * (PetscLogDouble)A->n < nonzeros)
    csr->lanes *= 2;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The arrays are where they are now, though nothing may have changed */
static PetscErrorCode IDRSProductSetUp_CSR(IDRSProduct product, PetscBool changed, const char *why[])
{
  IDRSProductCSR *csr      = (IDRSProductCSR *)product->data;
  PetscLogDouble  nonzeros = 0;
  IDRSCSR         now;
  Mat             block = NULL;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(IDRSGetBlocks(product->A, &block, NULL));
  PetscCall(IDRSGetCSR(block, &now));
  PetscCall(IDRSGetNonzeros(block, &nonzeros));
  if (!csr) {
    PetscCall(PetscNew(&csr));
    product->data = csr;
    PetscCall(IDRSProductPlan_CSR(product, block, &now, csr));
  }
  csr->A = now;
  PetscCall(IDRSOffDiagonalSetUp(product->A, NULL, NULL, &product->offdiagonal, why));
  if (*why || product->kind != KSP_IDRS_PRODUCT_AUTO) PetscFunctionReturn(PETSC_SUCCESS);
  if (product->backend) PetscCall(IDRSDeclineRows(block, csr->lengths.longest / csr->lanes, (PetscBool)(csr->lanes > 1), why));
  else *why = IDRSDeclineLongRow(nonzeros, csr->lengths.longest); /* for several columns alone */
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSProductReset_CSR(IDRSProduct product)
{
  PetscFunctionBegin;
  PetscCall(IDRSOffDiagonalReset(&product->offdiagonal));
  PetscCall(IDRSColumnsReset_CUDA(&product->columns));
  if (product->data) PetscCall(IDRSBlockIndexDestroy(&((IDRSProductCSR *)product->data)->blocks));
  PetscCall(PetscFree(product->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSProductProject_CSR(IDRSProduct product, const IDRSProjection *projection)
{
  const IDRSProductCSR *csr     = (const IDRSProductCSR *)product->data;
  const IDRSBlockedCSR  blocked = {{csr->A}, csr->blocks.j, csr->blocks.bs};
  const size_t          enough  = ((size_t)csr->A.n + IDRS_THREADS - 1) / IDRS_THREADS;

  PetscFunctionBegin;
  PetscCall(IDRSLaunchMatvec(product->offdiagonal, projection,
                             [&](auto S, auto Y, auto HASHED, const auto &shadow, const IDRSBoundary &boundary) {
                               auto launch = [&](const auto &A) {
                                 return IDRSLaunchResident<IDRSCSRKernel<S, Y, HASHED, std::decay_t<decltype(A)>>>(
                                   projection->cuda->multiprocessors, enough, 0, !csr->once, projection->stream, A, csr->lanes,
                                   boundary, shadow, projection->u, projection->x, projection->y, projection->out,
                                   projection->algebra);
                               };

                               return csr->blocks.bs > 1 ? launch(blocked) : launch(csr->A);
                             }));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSProductColumns_CSR(IDRSProduct product, PetscInt k, Vec X[], Vec Y[])
{
  const IDRSProductCSR *csr   = (const IDRSProductCSR *)product->data;
  Mat                   block = NULL;
  IDRSColumnsLaunch     launch;

  PetscFunctionBegin;
  product->byrows = (PetscBool)(csr->lanes > 1);
  PetscCall(IDRSGetBlocks(product->A, &block, NULL));
  PetscCall(IDRSColumnsBegin_CUDA(product, k, X, Y, &launch));
  PetscCall(IDRSColumnsCSR_CUDA(product, &launch, block, &csr->A, csr->once));
  PetscCall(IDRSColumnsEnd_CUDA(product, X, Y, &launch));
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const IDRSProductOps IDRSProducts_CSR = {
  PetscDesignatedInitializer(name, "csr"),
  PetscDesignatedInitializer(runs, IDRSProductRuns_CUDA),
  PetscDesignatedInitializer(setup, IDRSProductSetUp_CSR),
  PetscDesignatedInitializer(project, IDRSProductProject_CSR),
  PetscDesignatedInitializer(columns, IDRSProductColumns_CSR),
  PetscDesignatedInitializer(reset, IDRSProductReset_CSR),
};
// clang-format on
