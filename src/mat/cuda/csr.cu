/*
   Product "csr": from the arrays of MATSEQAIJCUSPARSE, x = A u with the sums of its projection, and Y = A X; and the largest
   entries of rows and the inverse of the diagonal.

   One column: a warp computes 32 rows at a time. A row has several lanes if rows are long; then each lane gets the entry of x of
   one row. Reads A, u and y; writes x.

   Several columns, short rows: one thread per row, with X by columns. Entries at the same position of neighbouring rows are
   adjacent. Reads A once, and X except for entries that are still in the cache; writes Y.

   Several columns, long rows, whose columns may be anywhere: X is first copied to row-major order, so that one access reads all
   entries of a row of X. Then several lanes share a row, each with a pack of columns, and write Y by columns.

   One thread adds up each sum of several columns in the order of the columns of A, so a result does not depend on the other columns
   of X.
*/
#include "../../sys/device/device.h"
#include "columns.cuh"
#include "offdiagonal.cuh"
#include <petscidrs/private/idrsrows.h>

typedef struct {
  IDRSCSR        A;
  int            lanes; /* per row, a power of 2 */
  IDRSRowLengths lengths;
  PetscBool      once;   /* as in IDRSSellCopy */
  PetscScalar   *byrows; /* X by rows, and its size in bytes */
  size_t         bytes;
} IDRSProductCSR;

template <int S, bool Y>
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
    if (!boundary.places || !(boundary.places[row / IDRS_WARP] >> lane & 1)) IDRSDotsAdd<S, 1, Y>(dots, P, i, xi, yi);
  }
  if (!stopped) IDRSProjectEnd<S, Y>(dots, P, out, algebra);
}

/*
   largest_i = max(largest_i, |a_ij|) for the entries of row i. With blocks, only columns in the block of the row count. Unless
   `inverse` is NULL, computes 1 / a_ii, or 1 / largest_i if a_ii is small, see IDRSRowsGetInverse(). small: the number of these
   rows. One thread per row
*/
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSRowsInverseKernel(IDRSCSR A, PetscInt nblocks, const PetscInt *starts, PetscScalar *largest, PetscScalar *inverse,
                        unsigned long long *small)
{
  for (size_t row = IDRSFirstRow<1>(); row < A.n; row += IDRSRowStride<1>()) {
    PetscReal   most     = PetscRealPart(largest[row]);
    PetscScalar diagonal = 0.0;
    PetscInt    low = 0, high = nblocks; /* row may be in blocks low to high - 1 */

    while (high - low > 1) {
      const PetscInt middle = low + (high - low) / 2;

      if (starts[middle] <= (PetscInt)row) low = middle;
      else high = middle;
    }
    for (PetscInt p = A.i[row]; p < A.i[row + 1]; p++) {
      if (!starts || (A.j[p] >= starts[low] && A.j[p] < starts[low + 1])) most = PetscMax(most, PetscAbsScalar(A.a[p]));
      if (A.j[p] == (PetscInt)row) diagonal = A.a[p];
    }
    largest[row] = most;
    if (!inverse) continue;
    if (PetscAbsScalar(diagonal) - (PetscReal)IDRS_SMALL_DIAGONAL * most <= (PetscReal)0.0) {
      inverse[row] = most > (PetscReal)0.0 ? (PetscReal)1.0 / most : (PetscReal)1.0;
      atomicAdd(small, 1ull);
    } else inverse[row] = (PetscScalar)1.0 / diagonal;
  }
}

static PetscErrorCode IDRSRowsInverse_CUDA(Mat A, PetscInt nblocks, const PetscInt starts[], Vec largest, Vec inverse,
                                           PetscInt *count)
{
  PetscDeviceContext  dctx;
  PetscScalar        *values, *inverses = NULL;
  PetscInt           *copy = NULL;
  unsigned long long *small, found;
  cudaStream_t        stream;
  Mat                 blocks[2];

  PetscFunctionBegin;
  PetscCall(IDRSRowsGetBlocks(A, &blocks[0], &blocks[1], NULL));
  PetscCall(VecSet(largest, 0.0));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &small));
  if (starts) {
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, nblocks + 1, &copy));
    PetscCallCUDA(cudaMemcpyAsync(copy, starts, (nblocks + 1) * sizeof(*starts), cudaMemcpyHostToDevice, stream));
  }
  PetscCall(VecCUDAGetArray(largest, &values));
  if (inverse) PetscCall(VecCUDAGetArrayWrite(inverse, &inverses));
  /* the diagonal block is last, when the largest entries of the other block are known */
  for (int b = 1; b >= 0; b--) {
    IDRSCSR csr;
    PetscErrorCode (*get)(Mat, IDRSCSR *);

    if (!blocks[b]) continue;
    PetscCall(PetscObjectQueryFunction((PetscObject)blocks[b], IDRS_ROWS, &get));
    PetscCall((*(get ? get : IDRSGetCSR))(blocks[b], &csr));
    if (!csr.n) continue;
    IDRSRowsInverseKernel<<<(unsigned int)PetscMin((csr.n + IDRS_THREADS - 1) / IDRS_THREADS, 2048), IDRS_THREADS, 0, stream>>>(
      csr, nblocks, copy, values, b ? NULL : inverses, small);
    PetscCallCUDA(cudaGetLastError());
  }
  if (inverse) {
    PetscCall(VecCUDARestoreArrayWrite(inverse, &inverses));
    PetscCallCUDA(cudaMemcpyAsync(&found, small, sizeof(found), cudaMemcpyDeviceToHost, stream));
    PetscCallCUDA(cudaStreamSynchronize(stream));
    *count = (PetscInt)found;
  }
  PetscCall(VecCUDARestoreArray(largest, &values));
  PetscCall(PetscDeviceFree(dctx, small));
  PetscCall(PetscDeviceFree(dctx, copy));
  PetscFunctionReturn(PETSC_SUCCESS);
}

const IDRSDiagonalOps IDRSDiagonal_CUDA = {IDRSRowsInverse_CUDA};

/* Updates the arrays, which may have moved even if nothing has changed */
static PetscErrorCode IDRSProductSetUp_CSR(IDRSProduct product, PetscBool changed, const char *why[])
{
  IDRSProductCSR *csr      = (IDRSProductCSR *)product->data;
  PetscLogDouble  nonzeros = 0;
  IDRSCSR         now;
  Mat             block = NULL;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(IDRSRowsGetBlocks(product->A, &block, NULL, NULL));
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
  if (product->data) PetscCallCUDA(cudaFree(((IDRSProductCSR *)product->data)->byrows));
  PetscCall(PetscFree(product->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSProductProject_CSR(IDRSProduct product, const IDRSProjection *projection)
{
  const IDRSProductCSR *csr    = (const IDRSProductCSR *)product->data;
  const size_t          enough = ((size_t)csr->A.n + IDRS_THREADS - 1) / IDRS_THREADS;

  PetscFunctionBegin;
  PetscCall(
    IDRSLaunchMatvec(product->offdiagonal, projection, [&](auto S, auto Y, const auto &shadow, const IDRSBoundary &boundary) {
      return IDRSLaunchResident<IDRSCSRKernel<S, Y>>(projection->multiprocessors, enough, 0, !csr->once, projection->stream, csr->A,
                                                     csr->lanes, boundary, shadow, projection->u, projection->x, projection->y,
                                                     projection->out, projection->algebra);
    }));
  PetscFunctionReturn(PETSC_SUCCESS);
}

template <int K>
static __global__ void __launch_bounds__(IDRS_THREADS, IDRSColumnsShape<K>::blocks)
  IDRSCSRColumnsKernel(IDRSOverlap<true, true> overlap, IDRSCSR A, IDRSColumnArrays arrays)
{
  constexpr int atonce = IDRSColumnsShape<K>::atonce > 1 ? IDRSColumnsShape<K>::atonce : 2;

  overlap.Begin();
  for (size_t row = IDRSFirstRow<1>(); row < (size_t)A.n; row += IDRSRowStride<1>()) {
    PetscScalar sums[K];

    IDRSClearSums<K>(sums);
    /* (A X)_row, by one thread */
    IDRSRowParts<atonce, K>(A, arrays, (IDRSIndex)row, 0, 1, sums);
    IDRSStoreSums<K>(arrays, row, sums);
  }
}

/* A row of X by rows: K scalars, a power of 2, of which k are columns; one pack per lane */
template <int K>
struct IDRSRowShare {
  static constexpr int width = K < IDRS_PACK ? K : IDRS_PACK, lanes = K / width;
};

/* byrows = X, padded with zeros. One thread per pack. Reads X once; writes byrows */
template <int K>
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSToRowsKernel(IDRSOverlap<true, true> overlap, IDRSColumnArrays given, size_t n, int k, PetscScalar *byrows)
{
  constexpr int           width = IDRSRowShare<K>::width, lanes = IDRSRowShare<K>::lanes;
  const IDRSColumnArrays &arrays = IDRSShareArrays(given);
  const int               first  = threadIdx.x % lanes * width;

  overlap.Begin();
  for (size_t g = IDRSFirstRow<1>(); g < n * lanes; g += IDRSRowStride<1>()) {
    IDRSPack<width> pack;

#pragma unroll
    /* a row of X, padded with zeros to K entries */
    for (int l = 0; l < width; l++) pack.v[l] = first + l < k ? arrays.x[first + l][g / lanes] : (PetscScalar)0.0;
    *reinterpret_cast<IDRSPack<width> *>(byrows + g * width) = pack;
  }
}

/* Y = A X, with X by rows. A lane reads several entries of a row of A at a time */
template <int K>
static __global__ void __launch_bounds__(IDRS_THREADS, sizeof(PetscScalar) > 8 ? 3 : 4)
  IDRSCSRByRowsKernel(IDRSOverlap<true, true> overlap, IDRSCSR A, IDRSColumnArrays given, int k, const PetscScalar *byrows)
{
  constexpr int           width = IDRSRowShare<K>::width, lanes = IDRSRowShare<K>::lanes, atonce = 4;
  const IDRSColumnArrays &arrays = IDRSShareArrays(given);
  const int               first  = threadIdx.x % lanes * width;

  overlap.Begin();
  for (size_t row = IDRSFirstRow<1>() / lanes; row < (size_t)A.n; row += IDRSRowStride<1>() / lanes) {
    const IDRSIndex end  = A.i[row + 1];
    IDRSPack<width> sums = IDRSZero<width>();

    for (IDRSIndex p = A.i[row]; p < end; p += atonce) {
      PetscScalar     value[atonce];
      IDRSPack<width> entry[atonce];

#pragma unroll
      for (int l = 0; l < atonce; l++) {
        const bool   there  = p + l < end;
        const size_t column = there ? A.j[p + l] : 0;

        value[l] = there ? IDRSLoadConstant(A.a + p + l) : (PetscScalar)0.0;
        entry[l] = *reinterpret_cast<const IDRSPack<width> *>(byrows + column * K + first);
      }
#pragma unroll
      for (int l = 0; l < atonce; l++) {
        if (p + l < end) IDRSAdd(sums, value[l], entry[l]);
      }
    }
#pragma unroll
    for (int l = 0; l < width; l++) {
      if (first + l < k) arrays.y[first + l][row] = sums.v[l];
    }
  }
}

template <int K>
static PetscErrorCode IDRSColumnsByRows(IDRSProductCSR *csr, const IDRSColumnsLaunch *launch, PetscInt columns)
{
  const size_t packs = (size_t)columns * IDRSRowShare<K>::lanes, rows = (size_t)csr->A.n * IDRSRowShare<K>::lanes;

  PetscFunctionBegin;
  PetscCall(IDRSColumnsMalloc_CUDA((size_t)columns * K * sizeof(PetscScalar), &csr->bytes, &csr->byrows));
  (void)IDRSLaunchResident<IDRSToRowsKernel<K>>(launch->multiprocessors, (packs + IDRS_THREADS - 1) / IDRS_THREADS, 0, !csr->once,
                                                launch->stream, launch->arrays, (size_t)columns, (int)launch->k, csr->byrows);
  (void)IDRSLaunchResident<IDRSCSRByRowsKernel<K>>(launch->multiprocessors, (rows + IDRS_THREADS - 1) / IDRS_THREADS, 0, !csr->once,
                                                   launch->stream, csr->A, launch->arrays, (int)launch->k,
                                                   (const PetscScalar *)csr->byrows);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSProductColumns_CSR(IDRSProduct product, PetscInt k, Vec X[], Vec Y[])
{
  IDRSProductCSR   *csr = (IDRSProductCSR *)product->data;
  IDRSColumnsLaunch launch;
  PetscInt          columns;
  Mat               block;

  PetscFunctionBegin;
  PetscCall(IDRSRowsGetBlocks(product->A, &block, NULL, NULL));
  PetscCall(MatGetLocalSize(block, NULL, &columns));
  PetscCall(IDRSColumnsBegin_CUDA(product, k, X, Y, &launch));
  PetscCall(PetscLogGpuTimeBegin());
  if (csr->lanes == 1) {
    IDRSDispatchColumns(k, [&](auto K) {
      (void)IDRSLaunchResident<IDRSCSRColumnsKernel<K>>(launch.multiprocessors,
                                                        ((size_t)csr->A.n + IDRS_THREADS - 1) / IDRS_THREADS, 0, !csr->once,
                                                        launch.stream, csr->A, launch.arrays);
    });
  } else if (k > 8) PetscCall(IDRSColumnsByRows<16>(csr, &launch, columns));
  else if (k > 4) PetscCall(IDRSColumnsByRows<8>(csr, &launch, columns));
  else if (k > 2) PetscCall(IDRSColumnsByRows<4>(csr, &launch, columns));
  else PetscCall(IDRSColumnsByRows<2>(csr, &launch, columns));
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(IDRSColumnsEnd_CUDA(product, X, Y, &launch));
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const IDRSProductOps IDRSProducts_CSR = {
  PetscDesignatedInitializer(name, "csr"),
  PetscDesignatedInitializer(setup, IDRSProductSetUp_CSR),
  PetscDesignatedInitializer(project, IDRSProductProject_CSR),
  PetscDesignatedInitializer(columns, IDRSProductColumns_CSR),
  PetscDesignatedInitializer(reset, IDRSProductReset_CSR),
};
// clang-format on
