/*
   Y = A X from the copy of A in the format of sliced.cuh. One lane per row as for one column, with X by columns. If rows are long
   on average, csrcolumns.cu multiplies with X by rows instead. The sums have the same bits as for one column.

   Reads A once, and X except for entries that are still in the cache; writes Y.
*/
#include "columns.cuh"
#include "ring.cuh"
#include "slicedcopy.h"

typedef IDRSRing<IDRSProductForm, 2> IDRSColumnsRing;

/* sums += the contribution of a chunk to the row of this lane, as IDRSChunkAdd() for each column */
template <int K>
static __device__ __forceinline__ void IDRSChunkAddColumns(const unsigned char *chunk, uint32_t slots,
                                                           const IDRSColumnArrays &arrays, PetscScalar sums[K])
{
  constexpr int      atonce  = IDRSColumnsShape<K>::atonce;
  const uint32_t    *bases   = (const uint32_t *)chunk;
  const PetscScalar *values  = (const PetscScalar *)(chunk + IDRS_BASES_BYTES) + threadIdx.x % IDRS_WARP;
  const uint16_t    *columns = (const uint16_t *)(chunk + IDRS_BASES_BYTES + slots * IDRS_WARP * sizeof(PetscScalar)) +
                            threadIdx.x % IDRS_WARP;

  for (uint32_t j = 0; j < slots; j += atonce) {
    PetscScalar entry[atonce][K];

#pragma unroll
    for (int l = 0; l < atonce; l++) {
#pragma unroll
      for (int c = 0; c < K; c++)
        entry[l][c] = j + l < slots ? IDRSLoadConstant(arrays.x[c] + bases[j + l] + columns[(j + l) * IDRS_WARP])
                                    : (PetscScalar)0.0;
    }
#pragma unroll
    for (int l = 0; l < atonce; l++) {
      if (j + l >= slots) continue;
#pragma unroll
      for (int c = 0; c < K; c++) sums[c] += values[(j + l) * IDRS_WARP] * entry[l][c];
    }
  }
}

template <int K>
static __global__ void __launch_bounds__(IDRS_THREADS, IDRSColumnsShape<K>::blocks)
  IDRSSlicedColumnsKernel(IDRSOverlap<true, true> overlap, IDRSSliced A, bool once, IDRSColumnArrays arrays)
{
  extern __shared__ __align__(128) unsigned char rings[];
  const int                                      lane   = threadIdx.x % IDRS_WARP;
  constexpr int                                  atonce = IDRSColumnsShape<K>::atonce;
  uint32_t                                       row    = 0;
  PetscScalar                                    sums[K];
  IDRSColumnsRing                                ring;

  ring.Begin(A, rings, once);
  overlap.Begin();
  while (ring.slots) {
    if (ring.first) {
      row = IDRSSlicedRow(A.perm, ring.slice * IDRS_WARP + lane, A.n);
      IDRSClearSums<K>(sums);
    }
    /* sums += the entries of this chunk times K columns */
    IDRSChunkAddColumns<K>(ring.Await(), ring.slots, arrays, sums);
    ring.Next(A);
    if (ring.first && row < A.n) IDRSStoreSums<K>(arrays, row, sums);
  }
  for (uint32_t k = IDRSFirstLongRow(); k < (uint32_t)A.longrows.n; k += gridDim.x * IDRS_WARPS) {
    IDRSClearSums<K>(sums);
    /* a long row has 32 lanes */
    IDRSRowParts<atonce, K>(A.longrows, arrays, k, lane, IDRS_WARP, sums);
#pragma unroll
    for (int c = 0; c < K; c++) sums[c] = IDRSWarpSum<IDRS_WARP>(sums[c]);
    if (lane == 0) IDRSStoreSums<K>(arrays, (size_t)A.longindices[k], sums);
  }
}

PetscErrorCode IDRSProductColumns_Sliced(IDRSProduct product, PetscInt k, Vec X[], Vec Y[])
{
  const IDRSSlicedCopy *copy  = (const IDRSSlicedCopy *)product->data;
  int                   lanes = 1;
  Mat                   block = NULL;
  IDRSColumnsLaunch     launch;
  IDRSCSR               csr;

  PetscFunctionBegin;
  PetscCall(IDRSGetBlocks(product->A, &block, NULL));
  PetscCall(IDRSGetRowLanes(block, &lanes));
  /* X by rows helps only with several columns; very long rows have one warp each in the kernel for short rows */
  product->byrows = (PetscBool)(lanes > 1 && k > 1 && !copy->longrows.A.n);
  PetscCall(IDRSColumnsBegin_CUDA(product, k, X, Y, &launch));
  if (product->byrows) {
    PetscCall(IDRSGetCSR(block, &csr));
    PetscCall(IDRSColumnsCSR_CUDA(product, &launch, block, &csr, copy->once));
  } else {
    PetscCall(PetscLogGpuTimeBegin());
    IDRSDispatchColumns(k, [&](auto K) {
      (void)IDRSLaunchResident<IDRSSlicedColumnsKernel<K>>(launch.multiprocessors, IDRSSlicedBlocks(copy->A),
                                                           IDRSColumnsRing::bytes, !copy->once, launch.stream, copy->A,
                                                           (bool)copy->once, launch.arrays);
    });
    PetscCallCUDA(cudaGetLastError());
    PetscCall(PetscLogGpuTimeEnd());
  }
  PetscCall(IDRSColumnsEnd_CUDA(product, X, Y, &launch));
  PetscFunctionReturn(PETSC_SUCCESS);
}
