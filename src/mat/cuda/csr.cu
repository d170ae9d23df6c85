/*
   Product "csr": x = A u, and the sums of its projection, from the arrays of MATSEQAIJCUSPARSE.

   A warp computes 32 rows at a time. A row has several lanes if rows are long; then each lane gets the entry of x of one row. Reads
   A, u and y; writes x.
*/
#include "../../sys/device/memory.h"
#include "columns.h"
#include "runs.h"
#include "../../sys/kernels/csr.h"
#include "matvec.cuh"
#include "../../sys/kernels/rowsum.cuh"
#include <petscidrs/private/idrsdiagonal.h>

typedef struct {
  IDRSCSR        A;
  int            lanes; /* per row, a power of 2 */
  IDRSRowLengths lengths;
  PetscBool      once; /* as in IDRSSlicedCopy */
} IDRSProductCSR;

template <int S, bool Y, bool HASHED>
static __global__ void __launch_bounds__(IDRS_THREADS, IDRSBlocksAtOnce(Y ? 2 * S : S))
  IDRSCSRKernel(IDRSOverlap<true, true> overlap, IDRSCSR A, int lanes, IDRSBoundary boundary, IDRSShadow<S> P, const PetscScalar *u,
                PetscScalar *x, const PetscScalar *y, IDRSSums out, IDRSAlgebra algebra)
{
  constexpr int  atonce = (Y ? 2 * S : S) > 2 ? 4 : 8; /* limited by the registers that the sums use */
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
    /* x_i = (A u)_i */
    xi.v[0] = IDRSRowSum<atonce>(A, u, (IDRSIndex)row, lanes);
    IDRSStore<1>(x, i, n, xi);
    /* the second kernel adds rows with entries outside the diagonal block */
    if (!boundary.places || !(boundary.places[row / IDRS_WARP] >> lane & 1)) IDRSDotsAdd<S, 1, Y, HASHED>(dots, P, i, n, xi, yi);
  }
  if (!stopped) IDRSProjectEnd<S, Y, HASHED>(dots, P, out, algebra);
}

/*
   largest_i = max(largest_i, |a_ij|) for the entries of row i. With blocks, only columns in the block of the row count. One thread
   per row
*/
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSRowsLargestKernel(IDRSCSR A, PetscInt nblocks, const PetscInt *starts, PetscScalar *largest)
{
  for (size_t row = IDRSFirstRow<1>(); row < A.n; row += IDRSRowStride<1>()) {
    PetscReal most = PetscRealPart(largest[row]);
    PetscInt  low = 0, high = nblocks; /* row may be in blocks low to high - 1 */

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

static PetscErrorCode IDRSRowsLargest_CUDA(Mat A, PetscInt nblocks, const PetscInt starts[], Vec largest)
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

const IDRSDiagonalOps IDRSDiagonal_CUDA = {IDRSRowsLargest_CUDA};

/* Updates the arrays, which may have moved even if nothing has changed */
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
    /* data that depend on the pattern only: the lanes of a row are a power of 2, for about a dozen entries per lane */
    PetscCall(IDRSGetRowLengths(&now, UINT_MAX, &csr->lengths));
    PetscCall(
      IDRSExceedsCache(nonzeros * (sizeof(PetscScalar) + sizeof(PetscInt)) + now.n * (sizeof(PetscInt) + 2.0 * sizeof(PetscScalar)),
                       &csr->once));
    PetscCall(IDRSGetRowLanes(block, &csr->lanes));
  }
  csr->A = now;
  PetscCall(IDRSOffDiagonalSetUp(product->A, NULL, NULL, &product->offdiagonal, why));
  if (*why || product->kind != KSP_IDRS_PRODUCT_AUTO) PetscFunctionReturn(PETSC_SUCCESS);
  if (product->backend) PetscCall(IDRSDeclineRows(block, csr->lengths.longest / csr->lanes, why));
  else *why = IDRSDeclineLongRow(nonzeros, csr->lengths.longest); /* for products with several columns only */
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSProductReset_CSR(IDRSProduct product)
{
  PetscFunctionBegin;
  PetscCall(IDRSOffDiagonalReset(&product->offdiagonal));
  PetscCall(IDRSColumnsReset_CUDA(&product->columns));
  PetscCall(PetscFree(product->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSProductProject_CSR(IDRSProduct product, const IDRSProjection *projection)
{
  const IDRSProductCSR *csr    = (const IDRSProductCSR *)product->data;
  const size_t          enough = ((size_t)csr->A.n + IDRS_THREADS - 1) / IDRS_THREADS;

  PetscFunctionBegin;
  PetscCall(IDRSLaunchMatvec(product->offdiagonal, projection,
                             [&](auto S, auto Y, auto HASHED, const auto &shadow, const IDRSBoundary &boundary) {
                               return IDRSLaunchResident<IDRSCSRKernel<S, Y, HASHED>>(projection->multiprocessors, enough, 0,
                                                                                      !csr->once, projection->stream, csr->A,
                                                                                      csr->lanes, boundary, shadow, projection->u,
                                                                                      projection->x, projection->y, projection->out,
                                                                                      projection->algebra);
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
  PetscDesignatedInitializer(byrows, IDRSProductGoesByRows_CSR),
  PetscDesignatedInitializer(reset, IDRSProductReset_CSR),
};
// clang-format on
