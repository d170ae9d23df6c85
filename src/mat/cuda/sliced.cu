/*
   Product "sliced": x = A u, and the sums of its projection, from a copy of A in the format of sliced.cuh.

   A warp computes one slice at a time, with one lane per row, and then long rows with all its lanes. Chunks are copied
   asynchronously to a ring in shared memory. The copies start before the kernel before this one has ended, because chunks contain
   only the matrix. Reads A and y once, and u except for entries that are still in the cache; writes x.
*/
#include "../../sys/kernels/csr.h"
#include "columns.h"
#include "runs.h"
#include "matvec.cuh"
#include "ring.cuh"
#include "../../sys/kernels/rowsum.cuh"
#include "slicedcopy.h"

typedef IDRSRing<IDRSProductForm, 2> IDRSProductRing;

template <int S, bool Y, bool HASHED>
static __global__ void __launch_bounds__(IDRS_THREADS, IDRSBlocksAtOnce(Y ? 2 * S : S))
  IDRSSlicedKernel(IDRSOverlap<true, true> overlap, IDRSSliced A, bool once, IDRSBoundary boundary, IDRSShadow<S> P,
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
      row = IDRSSlicedRow(A.perm, ring.slice * IDRS_WARP + lane, A.n);
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
      if (finished) IDRSDotsAdd<S, 1, Y, HASHED>(dots, P, row, A.n, xi, yi);
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
    if (!boundary.i || boundary.i[row + 1] == boundary.i[row]) IDRSDotsAdd<S, 1, Y, HASHED>(dots, P, row, A.n, xi, yi);
  }
  if (!stopped) IDRSProjectEnd<S, Y, HASHED>(dots, P, out, algebra);
}

static PetscErrorCode IDRSProductProject_Sliced(IDRSProduct product, const IDRSProjection *projection)
{
  const IDRSSlicedCopy *copy = (const IDRSSlicedCopy *)product->data;

  PetscFunctionBegin;
  PetscCall(IDRSLaunchMatvec(
    product->offdiagonal, projection, [&](auto S, auto Y, auto HASHED, const auto &shadow, const IDRSBoundary &boundary) {
      return IDRSLaunchResident<IDRSSlicedKernel<S, Y, HASHED>>(projection->multiprocessors, IDRSSlicedBlocks(copy->A),
                                                                IDRSProductRing::bytes, !copy->once, projection->stream, copy->A,
                                                                copy->once, boundary, shadow, projection->u, projection->x,
                                                                projection->y, projection->out, projection->algebra);
    }));
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const IDRSProductOps IDRSProducts_Sliced = {
  PetscDesignatedInitializer(name, "sliced"),
  PetscDesignatedInitializer(runs, IDRSProductRuns_CUDA),
  PetscDesignatedInitializer(setup, IDRSProductSetUp_Sliced),
  PetscDesignatedInitializer(project, IDRSProductProject_Sliced),
  PetscDesignatedInitializer(columns, IDRSProductColumns_Sliced),
  PetscDesignatedInitializer(byrows, IDRSProductGoesByRows_CSR),
  PetscDesignatedInitializer(reset, IDRSProductReset_Sliced),
};
// clang-format on
