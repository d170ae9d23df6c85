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

/*
   Y = A X, with X by rows. A lane reads several entries of a row of A at a time. With BS > 1 these are the entries in one block:
   they multiply adjacent rows of X, and all BS rows of the block share one column index
*/
template <int K, int BS>
static __global__ void __launch_bounds__(IDRS_THREADS, BS > 4 || sizeof(PetscScalar) > 8 ? 3 : 4)
  IDRSCSRByRowsKernel(IDRSOverlap<true, true> overlap, IDRSCSR A, const PetscInt *blocks, IDRSColumnArrays given, int k,
                      const PetscScalar *byrows)
{
  constexpr int           width = IDRSRowShare<K>::width, lanes = IDRSRowShare<K>::lanes, atonce = BS > 1 ? BS : 4;
  const IDRSColumnArrays &arrays = IDRSShareArrays(given);
  const int               first  = threadIdx.x % lanes * width;

  overlap.Begin();
  for (size_t row = IDRSFirstRow<1>() / lanes; row < (size_t)A.n; row += IDRSRowStride<1>() / lanes) {
    const IDRSIndex end   = A.i[row + 1];
    const PetscInt *block = BS > 1 ? blocks + A.i[row - row % BS] / (BS * BS) : blocks;
    IDRSPack<width> sums  = IDRSZero<width>();

    for (IDRSIndex p = A.i[row]; p < end; p += atonce) {
      const size_t    begin = BS > 1 ? (size_t)*block++ * BS : 0;
      PetscScalar     value[atonce];
      IDRSPack<width> entry[atonce];

#pragma unroll
      for (int l = 0; l < atonce; l++) {
        const bool there = BS > 1 || p + l < end;
        /* the columns of a dense block are consecutive */
        const size_t column = BS > 1 ? begin + l : (there ? A.j[p + l] : 0);

        value[l] = there ? IDRSLoadConstant(A.a + p + l) : (PetscScalar)0.0;
        entry[l] = *reinterpret_cast<const IDRSPack<width> *>(byrows + column * K + first);
      }
#pragma unroll
      for (int l = 0; l < atonce; l++) {
        if (BS > 1 || p + l < end) IDRSAdd(sums, value[l], entry[l]);
      }
    }
#pragma unroll
    for (int l = 0; l < width; l++) {
      if (first + l < k) arrays.y[first + l][row] = sums.v[l];
    }
  }
}

/* Calls launch with the block size as a type */
template <int BS = 8, typename L>
static void IDRSDispatchTiles(int bs, L &&launch)
{
  if constexpr (BS == 1) launch(IDRSInt<1>());
  else if (bs == BS) launch(IDRSInt<BS>());
  else IDRSDispatchTiles<BS - 1>(bs, launch);
}

template <int K>
static PetscErrorCode IDRSColumnsByRows(IDRSProduct product, const IDRSColumnsLaunch *launch, const IDRSCSR *A, PetscInt columns,
                                        PetscBool once)
{
  const IDRSTileIndex *blocks = &product->columns->blocks;
  const size_t         packs = (size_t)columns * IDRSRowShare<K>::lanes, rows = (size_t)A->n * IDRSRowShare<K>::lanes;
  PetscScalar         *byrows = NULL;

  PetscFunctionBegin;
  PetscCall(IDRSColumnsScratch_CUDA(product, (size_t)columns * K * sizeof(PetscScalar), &byrows));
  (void)IDRSLaunchResident<IDRSToRowsKernel<K>>(launch->multiprocessors, (packs + IDRS_THREADS - 1) / IDRS_THREADS, 0, !once,
                                                launch->stream, launch->arrays, (size_t)columns, (int)launch->k, byrows);
  IDRSDispatchTiles(blocks->bs, [&](auto BS) {
    (void)IDRSLaunchResident<IDRSCSRByRowsKernel<K, BS>>(launch->multiprocessors, (rows + IDRS_THREADS - 1) / IDRS_THREADS, 0,
                                                         !once, launch->stream, *A, (const PetscInt *)blocks->j, launch->arrays,
                                                         (int)launch->k, (const PetscScalar *)byrows);
  });
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Looks for dense blocks once per pattern, with the block size of the parallel matrix, which its diagonal block may not have */
static PetscErrorCode IDRSColumnsTiles(IDRSProduct product, const IDRSCSR *csr, cudaStream_t stream)
{
  IDRSTileIndex *blocks = &product->columns->blocks;
  PetscInt       bs;

  PetscFunctionBegin;
  if (blocks->bs) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(MatGetBlockSize(product->A, &bs));
  PetscCall(IDRSTileIndexCreate(csr, bs, blocks, stream, &product->notiles));
  product->tilesize = blocks->bs;
  if (product->notiles) PetscCall(PetscInfo(product->A, "Block size %" PetscInt_FMT " is not used: %s\n", bs, product->notiles));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSColumnsCSR_CUDA - Multiplies with X by rows or by columns. once: A is evicted from the L2 cache before it is read again */
PetscErrorCode IDRSColumnsCSR_CUDA(IDRSProduct product, const IDRSColumnsLaunch *launch, Mat A, const IDRSCSR *csr, PetscBool once)
{
  PetscInt columns;

  PetscFunctionBegin;
  PetscCall(MatGetLocalSize(A, NULL, &columns));
  if (product->byrows) PetscCall(IDRSColumnsTiles(product, csr, launch->stream));
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
