/*
   Product "sell": from a copy of A in the format of sell.cuh, x = A u with the sums of its projection, and Y = A X.

   A warp computes one slice at a time, with one lane per row, and then long rows with all its lanes. Chunks are copied
   asynchronously to a ring in shared memory. The copies start before the kernel before this one has ended, because chunks contain
   only the matrix. Reads A and y once, and u or X, which is by columns, except for entries that are still in the cache; writes x or
   Y. The sums of several columns have the same bits as for one column.
*/
#include "columns.cuh"
#include "offdiagonal.cuh"
#include "ring.cuh"
#include "sellcopy.cuh"

#define IDRS_MAX_PADDING 1.25 /* places per nonzero; beyond this the automatic choice is another product */

typedef IDRSForm<PetscScalar, 1, true> IDRSProductForm;
typedef IDRSRing<IDRSProductForm, 2>   IDRSProductRing;

static PetscErrorCode IDRSProductReset_Sell(IDRSProduct product)
{
  PetscFunctionBegin;
  PetscCall(IDRSOffDiagonalReset(&product->offdiagonal));
  if (product->data) PetscCall(IDRSSellDestroy((IDRSSellCopy *)product->data));
  PetscCall(PetscFree(product->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Plans the copy of a block with rows, without values. The automatic choice declines if another product is faster, or if the copy
   would use more than half of the free memory
*/
static PetscErrorCode IDRSProductPlan_Sell(IDRSProduct product, Mat block, const IDRSSource *source, cudaStream_t stream,
                                           const char *why[])
{
  IDRSSellCopy   *copy      = (IDRSSellCopy *)product->data;
  const PetscBool automatic = (PetscBool)(product->kind == KSP_IDRS_PRODUCT_AUTO);
  PetscLogDouble  nonzeros, available;
  IDRSRowLengths  lengths;

  PetscFunctionBegin;
  PetscCall(IDRSGetNonzeros(block, &nonzeros));
  PetscCall(IDRSSellSort(&source->A, nonzeros, copy, &lengths, stream, why));
  if (!*why && automatic) PetscCall(IDRSDeclineRows(block, IDRSSellTurns(copy, &lengths), why));
  if (!*why) PetscCall(IDRSSellPlan<IDRSProductForm>(source, copy, stream, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSGetFreeMemory_CUDA(&available));
  if (automatic &&
      (PetscLogDouble)copy->slots * IDRS_WARP > IDRS_MAX_PADDING * (nonzeros - lengths.longentries) + IDRS_WARP * IDRS_SLOTS)
    *why = "the SELL copy would store too many zeros: row lengths or columns within a slice differ too much";
  else if (automatic && (PetscLogDouble)(copy->units * IDRS_UNIT) > available / 2)
    *why = "a copy of the operator would take more than half of the free memory of the GPU";
  else PetscCall(IDRSSellAllocate(copy, why));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSProductSetUp_Sell(IDRSProduct product, PetscBool changed, const char *why[])
{
  IDRSSellCopy  *copy   = (IDRSSellCopy *)product->data;
  IDRSSource     source = {};
  PetscLogDouble begin, end;
  cudaStream_t   stream;
  Mat            block;

  PetscFunctionBegin;
  *why         = NULL;
  source.scale = 1.0;
  PetscCall(PetscTime(&begin));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSRowsGetBlocks(product->A, &block, NULL, NULL));
  PetscCall(IDRSGetCSR(block, &source.A));
  if (source.A.n > 1 << 30) *why = "sell supports at most 2^30 rows per process";
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  if (!copy) {
    PetscCall(PetscNew(&copy));
    product->data = copy;
    if (source.A.n) PetscCall(IDRSProductPlan_Sell(product, block, &source, stream, why));
    if (*why) PetscFunctionReturn(PETSC_SUCCESS);
    product->bytes = IDRSSellBytes(copy);
    PetscCall(IDRSExceedsCache(product->bytes + 2.0 * source.A.n * sizeof(PetscScalar), &copy->once));
  }
  PetscCall(IDRSOffDiagonalSetUp(product->A, copy->perm, NULL, &product->offdiagonal, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  if (!changed) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSSellFill<IDRSProductForm>(&source, copy, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscCall(PetscTime(&end));
  product->seconds = end - begin;
  PetscFunctionReturn(PETSC_SUCCESS);
}

template <int S, bool Y>
static __global__ void __launch_bounds__(IDRS_THREADS, IDRSBlocksAtOnce(Y ? 2 * S : S))
  IDRSSellKernel(IDRSOverlap<true, true> overlap, IDRSSell A, bool once, IDRSBoundary boundary, IDRSShadow<S> P,
                 const PetscScalar *u, PetscScalar *x, const PetscScalar *y, IDRSSums out, IDRSAlgebra algebra)
{
  extern __shared__ __align__(128) unsigned char rings[];
  const int                                      lane = threadIdx.x % IDRS_WARP;
  uint32_t                                       row  = 0;
  PetscScalar                                    sum  = 0.0;
  IDRSPack<1>                                    yi   = IDRSZero<1>();
  IDRSProductRing                                ring;
  IDRSDots<S, Y>                                 dots;
  /* finished: the row has no entries outside the diagonal block */
  bool stopped, finished = true;

  ring.Begin(A, rings, once);
  overlap.Begin();
  IDRSSendEntries(boundary.sends, u);
  stopped = IDRSProjectBegin<S>(P, algebra);
  IDRSDotsClear(dots);
  while (ring.slots) {
    if (ring.first) {
      row = IDRSSellRow(A.perm, ring.slice * IDRS_WARP + lane, A.n);
      sum = 0.0;
      if (Y) yi = IDRSLoad<1>(y, row, A.n);
      if (boundary.places) finished = !(boundary.places[ring.slice] >> lane & 1);
    }
    /* x_row += the entries of this chunk */
    IDRSChunkAdd<IDRSProductForm>(A, ring.Await(), ring.slots, u, &row, &sum);
    ring.Next(A);
    if (ring.first) {
      IDRSPack<1> xi;

      xi.v[0] = row < A.n ? sum : (PetscScalar)0.0;
      IDRSStore<1>(x, row, A.n, xi);
      if (finished) IDRSDotsAdd<S, 1, Y>(dots, P, row, xi, yi);
    }
  }
  for (uint32_t k = IDRSFirstLongRow(); k < A.longrows.n; k += gridDim.x * IDRS_WARPS) {
    IDRSPack<1> xi;

    /* a long row has 32 lanes */
    xi.v[0] = IDRSWarpRowSum<4>(A.longrows, u, k);
    if (lane) continue;
    row = (uint32_t)A.longindices[k];
    yi  = IDRSZero<1>();
    if (Y) yi = IDRSLoad<1>(y, row, A.n);
    IDRSStore<1>(x, row, A.n, xi);
    if (!boundary.i || boundary.i[row + 1] == boundary.i[row]) IDRSDotsAdd<S, 1, Y>(dots, P, row, xi, yi);
  }
  if (!stopped) IDRSProjectEnd<S, Y>(dots, P, out, algebra);
}

static PetscErrorCode IDRSProductProject_Sell(IDRSProduct product, const IDRSProjection *projection)
{
  const IDRSSellCopy *copy = (const IDRSSellCopy *)product->data;

  PetscFunctionBegin;
  PetscCall(
    IDRSLaunchMatvec(product->offdiagonal, projection, [&](auto S, auto Y, const auto &shadow, const IDRSBoundary &boundary) {
      return IDRSLaunchResident<IDRSSellKernel<S, Y>>(projection->multiprocessors, IDRSSellBlocks(copy->A), IDRSProductRing::bytes,
                                                      !copy->once, projection->stream, copy->A, copy->once, boundary, shadow,
                                                      projection->u, projection->x, projection->y, projection->out,
                                                      projection->algebra);
    }));
  PetscFunctionReturn(PETSC_SUCCESS);
}

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
  IDRSSellColumnsKernel(IDRSOverlap<true, true> overlap, IDRSSell A, bool once, IDRSColumnArrays arrays)
{
  extern __shared__ __align__(128) unsigned char rings[];
  const int                                      lane   = threadIdx.x % IDRS_WARP;
  constexpr int                                  atonce = IDRSColumnsShape<K>::atonce;
  uint32_t                                       row    = 0;
  PetscScalar                                    sums[K];
  IDRSProductRing                                ring;

  ring.Begin(A, rings, once);
  overlap.Begin();
  while (ring.slots) {
    if (ring.first) {
      row = IDRSSellRow(A.perm, ring.slice * IDRS_WARP + lane, A.n);
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

static PetscErrorCode IDRSProductColumns_Sell(IDRSProduct product, PetscInt k, Vec X[], Vec Y[])
{
  const IDRSSellCopy *copy = (const IDRSSellCopy *)product->data;
  IDRSColumnsLaunch   launch;

  PetscFunctionBegin;
  PetscCall(IDRSColumnsBegin_CUDA(product, k, X, Y, &launch));
  PetscCall(PetscLogGpuTimeBegin());
  IDRSDispatchColumns(k, [&](auto K) {
    (void)IDRSLaunchResident<IDRSSellColumnsKernel<K>>(launch.multiprocessors, IDRSSellBlocks(copy->A), IDRSProductRing::bytes,
                                                       !copy->once, launch.stream, copy->A, (bool)copy->once, launch.arrays);
  });
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(IDRSColumnsEnd_CUDA(product, X, Y, &launch));
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const IDRSProductOps IDRSProducts_Sell = {
  PetscDesignatedInitializer(name, "sell"),
  PetscDesignatedInitializer(setup, IDRSProductSetUp_Sell),
  PetscDesignatedInitializer(project, IDRSProductProject_Sell),
  PetscDesignatedInitializer(columns, IDRSProductColumns_Sell),
  PetscDesignatedInitializer(reset, IDRSProductReset_Sell),
};
// clang-format on
