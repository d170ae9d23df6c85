/*
   Product "sliced": x = A u, and the sums of its projection, from a copy of A in the format of sliced.cuh.

   A warp computes a slice at a time, a lane a row. Its chunks come through a ring in shared memory, and the warp copies them ahead of their use, from before
   the kernel ahead of this one in the stream has ended: nothing but a matrix is in them. Reads A, u and y once, but for the entries of u that no cache holds
   until their next use; writes x.
*/
#include "../../vec/cuda/project.cuh"
#include "../../sys/device/bulk.cuh"
#include "csr.h"
#include "offdiagonal.h"
#include "sliced.cuh"
#include "slicedcopy.h"

#define IDRS_STAGES 2 /* chunks of a ring */

/* The slices of a warp, chunk by chunk. A block takes a window at a time, up and down, where rows are sorted, so that all its warps have as much to do */
struct IDRSChunk {
  uint32_t begin, slice, offset; /* first slice of the window, or of the eight of a block; this slice; this chunk */
  uint32_t left;                 /* slots of the slice from this chunk on; 0 after the last slice */
  bool     first;                /* chunk of its slice */

  __device__ __forceinline__ uint32_t Slots() const { return left < IDRS_SLOTS ? left : IDRS_SLOTS; }
  __device__ __forceinline__ uint32_t Bytes() const { return IDRS_BASES_BYTES + Slots() * IDRS_SLOT_BYTES; }

  __device__ __forceinline__ void Take(const IDRSSliced &A)
  {
    left  = slice < A.slices ? A.width[slice] : 0;
    first = true;
    if (left) offset = A.offset[slice];
  }

  __device__ __forceinline__ void Begin(const IDRSSliced &A)
  {
    begin = blockIdx.x * (A.perm ? IDRS_WINDOW / IDRS_WARP : IDRS_WARPS);
    slice = begin + threadIdx.x / IDRS_WARP;
    Take(A);
  }

  __device__ __forceinline__ void Next(const IDRSSliced &A)
  {
    const uint32_t window = A.perm ? IDRS_WINDOW / IDRS_WARP : IDRS_WARPS, step = (slice - begin) / IDRS_WARPS + 1;

    first = false;
    offset += Bytes() / IDRS_UNIT;
    left -= Slots();
    if (left) return;
    if (step < window / IDRS_WARPS) slice = begin + step * IDRS_WARPS + (step % 2 ? IDRS_WARPS - 1 - threadIdx.x / IDRS_WARP : threadIdx.x / IDRS_WARP);
    else {
      begin += gridDim.x * window;
      slice = begin + threadIdx.x / IDRS_WARP;
    }
    Take(A);
  }
};

/* What the slots of a chunk contribute to the row of this lane */
static __device__ __forceinline__ PetscScalar IDRSChunkSum(const unsigned char *chunk, uint32_t slots, const PetscScalar *u)
{
  const int          lane    = threadIdx.x % IDRS_WARP;
  const uint32_t    *bases   = (const uint32_t *)chunk;
  const PetscScalar *values  = (const PetscScalar *)(chunk + IDRS_BASES_BYTES) + lane;
  const uint16_t    *columns = (const uint16_t *)(chunk + IDRS_BASES_BYTES + slots * IDRS_WARP * sizeof(PetscScalar)) + lane;
  PetscScalar        entry[IDRS_SLOTS], sum = 0.0;

#pragma unroll
  for (int j = 0; j < IDRS_SLOTS; j++) entry[j] = j < slots ? IDRSLoadConstant(u + bases[j] + columns[j * IDRS_WARP]) : (PetscScalar)0.0;
#pragma unroll
  for (int j = 0; j < IDRS_SLOTS; j++) {
    if (j < slots) sum += values[j * IDRS_WARP] * entry[j];
  }
  return sum;
}

template <int S, bool Y, bool HASHED>
static __global__ void __launch_bounds__(IDRS_THREADS, IDRSBlocksAtOnce(Y ? 2 * S : S)) IDRSSlicedKernel(IDRSOverlap<true, true> overlap, IDRSSliced A, bool once, const uint32_t *unfinished, IDRSShadow<S> P, const PetscScalar *u, PetscScalar *x, const PetscScalar *y, IDRSSums out, IDRSAlgebra algebra)
{
  extern __shared__ __align__(128) unsigned char rings[];
  __shared__ uint64_t                            barriers[IDRS_WARPS * IDRS_STAGES];
  const int                                      warp = threadIdx.x / IDRS_WARP, lane = threadIdx.x % IDRS_WARP;
  const uint64_t                                 policy  = IDRSBulkPolicy(once);
  unsigned char                                 *ring    = rings + (size_t)warp * IDRS_STAGES * IDRS_CHUNK_BYTES;
  uint64_t                                      *barrier = barriers + warp * IDRS_STAGES;
  uint32_t                                       begun = 0, stage = 0, parity = 0, row = 0;
  PetscScalar                                    sum = 0.0;
  IDRSPack<1>                                    yi  = IDRSZero<1>();
  IDRSChunk                                      chunk, ahead;
  IDRSDots<S, Y>                                 dots;
  bool                                           stopped, finished = true; /* whether the row is, once this block is through with it */

  if (lane == 0) {
    for (int i = 0; i < IDRS_STAGES; i++) IDRSBulkInit(barrier + i);
  }
  __syncwarp();
  chunk.Begin(A);
  ahead = chunk;
  for (; begun < IDRS_STAGES && ahead.left; begun++) {
    IDRSBulkBegin(ring + begun * IDRS_CHUNK_BYTES, A.chunks + (size_t)ahead.offset * IDRS_UNIT, ahead.Bytes(), barrier + begun, policy);
    ahead.Next(A);
  }
  overlap.Begin();
  stopped = IDRSProjectBegin<S>(P, algebra);
  IDRSDotsClear(dots);
  while (chunk.left) {
    if (chunk.first) {
      const uint32_t place = chunk.slice * IDRS_WARP + lane;

      row = IDRSSlicedRow(A.perm, place, A.n);
      sum = 0.0;
      if (Y) yi = IDRSLoad<1>(y, row, A.n);
      if (unfinished) finished = !(unfinished[chunk.slice] >> lane & 1);
    }
    IDRSBulkAwait(barrier + stage, parity);
    sum += IDRSChunkSum(ring + stage * IDRS_CHUNK_BYTES, chunk.Slots(), u);
    __syncwarp();
    if (ahead.left) {
      IDRSBulkBegin(ring + stage * IDRS_CHUNK_BYTES, A.chunks + (size_t)ahead.offset * IDRS_UNIT, ahead.Bytes(), barrier + stage, policy);
      ahead.Next(A);
    }
    stage = (stage + 1) % IDRS_STAGES;
    if (stage == 0) parity ^= 1;
    chunk.Next(A);
    if (chunk.first) {
      IDRSPack<1> xi;

      xi.v[0] = row < A.n ? sum : (PetscScalar)0.0;
      IDRSStore<1>(x, row, A.n, xi);
      if (finished) IDRSDotsAdd<S, 1, Y, HASHED>(dots, P, row, A.n, xi, yi);
    }
  }
  if (!stopped) IDRSProjectEnd<S, Y, HASHED>(dots, P, out, algebra);
}

static PetscErrorCode IDRSProductProject_Sliced(IDRSProduct product, const IDRSProjection *projection)
{
  const IDRSSlicedCopy *copy       = (const IDRSSlicedCopy *)product->data;
  const uint32_t       *unfinished = product->offdiagonal ? product->offdiagonal->unfinished : NULL;
  const size_t          window = copy->A.perm ? IDRS_WINDOW / IDRS_WARP : IDRS_WARPS, enough = (copy->A.slices + window - 1) / window;
  const size_t          rings  = (size_t)IDRS_WARPS * IDRS_STAGES * IDRS_CHUNK_BYTES;
  unsigned int          blocks = 0;

  PetscFunctionBegin;
  PetscCall(IDRSOffDiagonalBegin(product, projection));
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(IDRSDispatchProjection(*projection, [&](auto S, auto Y, auto HASHED, const auto &shadow) {
    blocks = IDRSLaunchResident<IDRSSlicedKernel<S, Y, HASHED>>(projection->cuda, enough, rings, !copy->once, projection->stream, copy->A, copy->once, unfinished, shadow, projection->u, projection->x, projection->y, projection->out, projection->algebra);
  }));
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(IDRSOffDiagonalEnd(product, projection, blocks));
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const IDRSProductOps IDRSProducts_Sliced = {
  PetscDesignatedInitializer(name, "sliced"),
  PetscDesignatedInitializer(runs, IDRSProductRuns_CUDA),
  PetscDesignatedInitializer(setup, IDRSProductSetUp_Sliced),
  PetscDesignatedInitializer(project, IDRSProductProject_Sliced),
  PetscDesignatedInitializer(reset, IDRSProductReset_Sliced),
};
// clang-format on
