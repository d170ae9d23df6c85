/*
   Many steps in one kernel with a polynomial preconditioner: the lanes of all blocks hold the matrix of the polynomial, and have
   the same rows of the operator
*/
#include "wholegrid.cuh"
#include "wholelayout.h"
#include "../../sys/device/cooperative.cuh"

/* More than the number of rows */
#define IDRS_LANE_ROWS ((size_t)1 << 30)

/* A thread has the row whose first lane it is, or none: row n */
struct IDRSLaneRows {
  static __device__ __forceinline__ IDRSIndex &Mine()
  {
    __shared__ IDRSIndex rows[IDRS_THREADS];

    return rows[threadIdx.x];
  }

  template <int W>
  static __device__ __forceinline__ size_t First()
  {
    return Mine();
  }

  /* a thread has no second row */
  template <int W>
  static __device__ __forceinline__ size_t Stride()
  {
    return IDRS_LANE_ROWS;
  }

  static __device__ __forceinline__ bool InWarp(size_t i, size_t) { return i < IDRS_LANE_ROWS; }
};

struct IDRSPolyBlocks : IDRSGridBlocks {
  typedef IDRSLaneRows       Rows;
  static constexpr bool      poly = true;
  const IDRSWholePolynomial &polynomial;
  int                        set; /* of places, for the next application */
  IDRSRowLane                mine;
  IDRSPowersEntries          entries; /* of the matrix of the polynomial */

  __device__ __forceinline__ IDRSPolyBlocks(const IDRSGridBlocks &blocks, const IDRSWholePolynomial &p)
    : IDRSGridBlocks(blocks), polynomial(p), set(0), mine{-1, 0, 0, 0}
  {
    const unsigned int lane = blockIdx.x * IDRS_THREADS + threadIdx.x;

    if (lane < p.count) mine = p.lanes[lane];
    IDRSPowersLoad(p.A, mine, entries);
    IDRSLaneRows::Mine() = (IDRSIndex)(entries.first ? entries.row : A.n);
  }

  /* Only the first warp of a row reads entries of the operator */
  template <typename Operand>
  __device__ __forceinline__ PetscScalar Product(const IDRSCSR &M, const Operand &x) const
  {
    const bool  there = mine.row >= 0 && mine.part < IDRS_WARP;
    const int   lanes = min(mine.lanes, IDRS_WARP);
    PetscScalar sum   = IDRSEntriesSum<IDRS_ROW_ATONCE>(M, x, there ? M.i[mine.row] + mine.part : 0, there ? M.i[mine.row + 1] : 0,
                                                      there ? lanes : 1);

    /* sum of parts j ... min(j + 2 offset, lanes) - 1 */
    for (int offset = 1; offset < entries.most; offset *= 2) {
      const PetscScalar other = IDRSShuffleDown(sum, offset);

      if (mine.part + offset < lanes) sum += other;
    }
    return entries.first ? sum : (PetscScalar)0.0;
  }
};

template <int S>
static __global__ void __launch_bounds__(IDRS_THREADS, 1)
  IDRSWholePolyKernel(const __grid_constant__ IDRSWholeSteps steps, const __grid_constant__ IDRSShadow<S> P,
                      const __grid_constant__ IDRSWholePolynomial polynomial)
{
  IDRSWaitPolls  wait = {steps.polls};
  IDRSPolyBlocks blocks(
    {
      steps.A, steps.partials, {steps.entries, steps.partials.launch, &wait}
  },
    polynomial);

  (void)IDRSWholeRun<S>(steps, P, blocks);
}

PetscErrorCode IDRSWholeLanesDestroy_CUDA(IDRSWholeLanes *lanes)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, lanes->lane));
  PetscCall(PetscMemzero(lanes, sizeof(*lanes)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSWholeLanesSetUp_CUDA - Distributes the rows of both matrices among the lanes of at most this many blocks. Sets count = 0 if
   there are too few lanes, or a row is too long for them
*/
PetscErrorCode IDRSWholeLanesSetUp_CUDA(PetscInt n, const PetscInt i[], const PetscInt other[], PetscInt blocks,
                                        IDRSWholeLanes *lanes)
{
  PetscInt longest;
  size_t   count, extra;

  PetscFunctionBegin;
  PetscCall(IDRSWholeLanesDestroy_CUDA(lanes));
  count = IDRSCountRowLanes(n, i, other, &extra, &longest);
  if (count > (size_t)blocks * IDRS_THREADS || longest > IDRS_ROW_LONGEST) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSUploadRowLanes(n, i, other, count, &lanes->lane));
  lanes->count  = (unsigned int)count;
  lanes->places = (size_t)n + extra;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSWholeGetPolynomial_CUDA - Returns the polynomial preconditioner for all solves. The addresses of its arrays do not change */
PetscErrorCode IDRSWholeGetPolynomial_CUDA(IDRSWork work, const IDRSWholeLanes *lanes, IDRSWholePolynomial *poly)
{
  const IDRSPolynomial *polynomial = work->polynomial;
  const IDRSPowers     *powers     = &polynomial->powers;

  PetscFunctionBegin;
  PetscCall(IDRSGetCSR(powers->A, &poly->A));
  PetscCall(IDRSFindArrayRead_CUDA(powers->inverse, &poly->inverse));
  PetscCall(IDRSFindArrayRead_CUDA(polynomial->sum.input, &poly->input));
  PetscCall(IDRSFindArrayRead_CUDA(polynomial->sum.output, &poly->output));
  if (polynomial->sum.matching) PetscCall(IDRSMatchingGetPlaces(polynomial->sum.matching, NULL, &poly->row));
  poly->lanes  = lanes->lane;
  poly->count  = lanes->count;
  poly->stride = lanes->places;
  poly->steps  = (int)powers->k;
  for (int j = 0; j < poly->steps; j++) {
    poly->gamma[j] = powers->gamma[j];
    poly->theta[j] = powers->theta[j];
    poly->mu[j]    = j ? powers->mu[j] : (PetscScalar)0.0;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSWholePolyLaunch_CUDA - Launches the kernel of a solve, with separate places */
PetscErrorCode IDRSWholePolyLaunch_CUDA(IDRSWork work, const IDRSWholePolynomial *polynomial, IDRSMarked *places,
                                        const IDRSWholeSteps *steps, cudaStream_t stream)
{
  const unsigned int  blocks = PetscMax((polynomial->count + IDRS_THREADS - 1) / IDRS_THREADS, 1);
  const size_t        count  = ((size_t)polynomial->steps + 1) * polynomial->stride;
  IDRSWholePolynomial poly   = *polynomial;

  PetscFunctionBegin;
  PetscCallCUDA(cudaMemsetAsync(places, 0xff, 2 * count * sizeof(*places), stream)); /* sets all to IDRS_ABSENT */
  poly.places[0] = places;
  poly.places[1] = places + count;
  PetscCall(IDRSDispatchWhole(work, [&](auto S, auto shadow) {
    return IDRSLaunchCooperative(IDRSWholePolyKernel<S>, blocks, IDRS_THREADS, stream, *steps, shadow, poly);
  }));
  PetscFunctionReturn(PETSC_SUCCESS);
}
