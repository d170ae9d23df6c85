/*
   The product C = f P^T A P for aggregates: C_cd = f times the sum of all a_ij with row i in aggregate c and column j in
   aggregate d.

   A warp computes a row of C. It writes the aggregate of each entry of its rows of A to shared memory. Then it finds the
   smallest number d that is larger than the last one, and adds up the entries with this number, until there is none. So columns
   are sorted, every sum has the same order in every run, and no pattern is needed for new values.
*/
#include "aggregatescuda.cuh"

/* Entries for each warp in blocks of IDRS_WARPS warps, in the shared memory that every kernel may have */
#define PRODUCT_ENTRIES (48 * 1024 / (IDRS_WARPS * 8))

/* An entry of A in shared memory: its aggregate, -1 for none, and its place in A */
typedef struct {
  int d, place;
} Entry;

/* Writes the entries of the rows of aggregate c, and returns their number. One warp */
static __device__ __forceinline__ int GetEntries(const AggregatesBlock &block, const AggregatesCUDA &aggregates, int c,
                                                 Entry *entries)
{
  const int lane  = threadIdx.x % IDRS_WARP;
  int       total = 0;

  for (int begin = aggregates.start[c], end = aggregates.start[c + 1]; begin < end; begin += IDRS_WARP) {
    const int row   = begin + lane < end ? aggregates.rows[begin + lane] : -1;
    const int first = row < 0 ? 0 : (int)block.A.i[row], length = row < 0 ? 0 : (int)block.A.i[row + 1] - first;
    int       sum = length; /* of this lane and those before it */

#pragma unroll
    for (int offset = 1; offset < IDRS_WARP; offset *= 2) {
      const int other = __shfl_up_sync(IDRS_ALL_LANES, sum, offset);

      if (lane >= offset) sum += other;
    }
    /* the lanes take the entries of all rows in turn; entry e is in the row of the first lane whose sum is larger */
    for (int e = lane, all = IDRSShuffle(sum, IDRS_WARP - 1); e - lane < all; e += IDRS_WARP) {
      int owner = 0;

#pragma unroll
      for (int step = IDRS_WARP / 2; step > 0; step /= 2) {
        if (IDRSShuffle(sum, owner + step - 1) <= e) owner += step;
      }
      const int place = IDRSShuffle(first, owner) + e - (IDRSShuffle(sum, owner) - IDRSShuffle(length, owner));

      if (e < all) entries[total + e] = {block.aggregate[block.A.j[place]], place};
    }
    total += IDRSShuffle(sum, IDRS_WARP - 1);
  }
  __syncwarp();
  return total;
}

/*
   Counts the entries of each row of C, or computes them, and their columns if there is room for those. `capacity` entries of A
   fit in the shared memory of a warp
*/
template <bool COUNTS>
static __global__ void __launch_bounds__(IDRS_THREADS)
  ProductKernel(AggregatesBlock block, AggregatesCUDA aggregates, PetscReal factor, IDRSMatIndex *counts, const IDRSMatIndex *i,
                IDRSMatIndex *j, PetscScalar *a)
{
  extern __shared__ Entry shared[];
  const int               lane = threadIdx.x % IDRS_WARP, warps = blockDim.x / IDRS_WARP;
  Entry *const            entries = shared + threadIdx.x / IDRS_WARP * block.entries;

  const int c = blockIdx.x * warps + threadIdx.x / IDRS_WARP;

  if (c >= aggregates.count) return;
  const int    total = GetEntries(block, aggregates, c, entries);
  IDRSMatIndex count = 0;
  int          last  = -1;

  for (;;) {
    uint32_t d = 0xffffffffu;

    for (int e = lane; e < total; e += IDRS_WARP) {
      if (entries[e].d > last) d = min(d, (uint32_t)entries[e].d);
    }
    d = IDRSWarpMin(d);
    if (d == 0xffffffffu) break;
    if (!COUNTS) {
      PetscScalar sum = 0.0;

      for (int e = lane; e < total; e += IDRS_WARP) {
        if (entries[e].d == (int)d) sum += block.A.a[entries[e].place];
      }
      sum = IDRSWarpSum<IDRS_WARP>(sum);
      if (lane == 0) {
        a[i[c] + count] = factor * sum;
        if (j) j[i[c] + count] = (IDRSMatIndex)d;
      }
    }
    last = (int)d;
    count++;
  }
  if (COUNTS && lane == 0) counts[c] = count;
}

template <bool COUNTS>
static PetscErrorCode LaunchProduct(const AggregatesBlock *block, const AggregatesCUDA *aggregates, PetscReal factor,
                                    IDRSMatIndex *counts, const IDRSMatIndex *i, IDRSMatIndex *j, PetscScalar *a,
                                    cudaStream_t stream)
{
  const int    warps  = block->entries > PRODUCT_ENTRIES ? 1 : IDRS_WARPS;
  const size_t shared = (size_t)warps * block->entries * sizeof(Entry);

  PetscFunctionBegin;
  if (aggregates->count)
    ProductKernel<COUNTS>
      <<<(unsigned int)((aggregates->count + warps - 1) / warps), warps * IDRS_WARP, shared, stream>>>(*block, *aggregates, factor,
                                                                                                       counts, i, j, a);
  PetscCallCUDA(cudaGetLastError());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* AggregatesMultiply_CUDA - Computes C, with its pattern */
PetscErrorCode AggregatesMultiply_CUDA(const AggregatesBlock *block, const AggregatesCUDA *aggregates, PetscReal factor,
                                       AggregatesMatrix *C, cudaStream_t stream)
{
  IDRSMatIndex       nonzeros;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, aggregates->count + 1, &C->i));
  PetscCall(LaunchProduct<true>(block, aggregates, factor, C->i, NULL, NULL, NULL, stream));
  PetscCall(ScanSums(aggregates->count + 1, C->i, stream));
  PetscCall(CopyToHost(1, C->i + aggregates->count, &nonzeros, stream));
  C->nonzeros = (size_t)nonzeros;
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, C->nonzeros, &C->j));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, C->nonzeros, &C->a));
  PetscCall(LaunchProduct<false>(block, aggregates, factor, NULL, C->i, C->j, C->a, stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* AggregatesUpdate_CUDA - Computes new values a of C, whose pattern is the one of the last product */
PetscErrorCode AggregatesUpdate_CUDA(const AggregatesBlock *block, const AggregatesCUDA *aggregates, PetscReal factor,
                                     const IDRSMatIndex *i, PetscScalar *a, cudaStream_t stream)
{
  PetscFunctionBegin;
  PetscCall(LaunchProduct<false>(block, aggregates, factor, NULL, i, NULL, a, stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}
