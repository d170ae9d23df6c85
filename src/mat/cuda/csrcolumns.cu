/*
   Y = A X from the arrays of MATSEQAIJCUSPARSE. One thread adds up each sum in the order of the columns of A, so a result does not
   depend on the other columns of X.

   Short rows: one thread per row, with X by columns. Entries at the same position of neighbouring rows are adjacent. Reads A once,
   and X except for entries that are still in the cache; writes Y.

   Long rows, whose columns may be anywhere: X is first copied to row-major order, so that one access reads all entries of a row of
   X. Then several lanes share a row, each with a pack of columns, and write Y by columns.
*/
#include "columns.cuh"
#include "runs.h"

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
static PetscErrorCode IDRSColumnsByRows(IDRSProduct product, const IDRSColumnsLaunch *launch, const IDRSCSR *A, PetscInt columns,
                                        PetscBool once)
{
  const size_t packs = (size_t)columns * IDRSRowShare<K>::lanes, rows = (size_t)A->n * IDRSRowShare<K>::lanes;
  PetscScalar *byrows = NULL;

  PetscFunctionBegin;
  PetscCall(IDRSColumnsScratch_CUDA(product, (size_t)columns * K * sizeof(PetscScalar), &byrows));
  (void)IDRSLaunchResident<IDRSToRowsKernel<K>>(launch->multiprocessors, (packs + IDRS_THREADS - 1) / IDRS_THREADS, 0, !once,
                                                launch->stream, launch->arrays, (size_t)columns, (int)launch->k, byrows);
  (void)IDRSLaunchResident<IDRSCSRByRowsKernel<K>>(launch->multiprocessors, (rows + IDRS_THREADS - 1) / IDRS_THREADS, 0, !once,
                                                   launch->stream, *A, launch->arrays, (int)launch->k, (const PetscScalar *)byrows);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSColumnsCSR_CUDA - Multiplies with X by rows or by columns. once: A is evicted from the L2 cache before it is read again */
PetscErrorCode IDRSColumnsCSR_CUDA(IDRSProduct product, const IDRSColumnsLaunch *launch, Mat A, const IDRSCSR *csr, PetscBool once)
{
  PetscInt columns;

  PetscFunctionBegin;
  PetscCall(MatGetLocalSize(A, NULL, &columns));
  PetscCall(PetscLogGpuTimeBegin());
  if (!product->byrows) {
    IDRSDispatchColumns(launch->k, [&](auto K) {
      (void)IDRSLaunchResident<IDRSCSRColumnsKernel<K>>(launch->multiprocessors, ((size_t)csr->n + IDRS_THREADS - 1) / IDRS_THREADS,
                                                        0, !once, launch->stream, *csr, launch->arrays);
    });
  } else if (launch->k > 8) PetscCall(IDRSColumnsByRows<16>(product, launch, csr, columns, once));
  else if (launch->k > 4) PetscCall(IDRSColumnsByRows<8>(product, launch, csr, columns, once));
  else if (launch->k > 2) PetscCall(IDRSColumnsByRows<4>(product, launch, csr, columns, once));
  else PetscCall(IDRSColumnsByRows<2>(product, launch, csr, columns, once));
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSProductGoesByRows_CSR - Returns PETSC_TRUE if the average row is long */
PetscErrorCode IDRSProductGoesByRows_CSR(Mat A, PetscBool *byrows)
{
  const char *why;
  int         lanes = 1;
  Mat         block = NULL;

  PetscFunctionBegin;
  PetscCall(IDRSMatRuns_CUDA(A, &why));
  if (!why) {
    PetscCall(IDRSGetBlocks(A, &block, NULL));
    PetscCall(IDRSGetRowLanes(block, &lanes));
  }
  *byrows = lanes > 1 ? PETSC_TRUE : PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}
