/*
   Makes the copy of a matrix in the sliced format, on the device: sorts rows where that saves padding, counts the slots of each slice, adds up where each begins,
   and fills them. Where only values have changed since, they alone are filled in again.
*/
#include <cub/device/device_scan.cuh>
#include "../../vec/cuda/project.cuh"
#include "csr.h"
#include "offdiagonal.h"
#include "slicedcopy.h"

#define IDRS_MAX_PADDING 1.25 /* places for each nonzero, beyond which the automatic choice is another product */

/* By a block, for a window: row i has place (number of rows that are longer, or as long and before it) */
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSSortKernel(IDRSCSR A, uint16_t *perm)
{
  __shared__ uint32_t length[IDRS_WINDOW];
  const PetscInt      begin = (PetscInt)blockIdx.x * IDRS_WINDOW;
  const int           rows  = A.n - begin < IDRS_WINDOW ? (int)(A.n - begin) : IDRS_WINDOW;

  for (int i = threadIdx.x; i < rows; i += IDRS_THREADS) length[i] = (uint32_t)(A.i[begin + i + 1] - A.i[begin + i]);
  __syncthreads();
  for (int i = threadIdx.x; i < rows; i += IDRS_THREADS) {
    int place = 0;

    for (int j = 0; j < rows; j++) place += length[j] > length[i] || (length[j] == length[i] && j < i);
    perm[begin + place] = (uint16_t)i;
  }
}

/* Walks along the 32 rows of a slice, slot by slot: next entry p of the row of this lane, in columns of the slot with that base */
struct IDRSSlotWalk {
  PetscInt p, end;
  uint32_t base;
  bool     taken; /* entry p is in this slot */

  __device__ __forceinline__ IDRSSlotWalk(const IDRSCSR &A, const uint16_t *perm, uint32_t slice)
  {
    const uint32_t row = IDRSSlicedRow(perm, slice * IDRS_WARP + threadIdx.x % IDRS_WARP, (uint32_t)A.n);

    p     = row < A.n ? A.i[row] : 0;
    end   = row < A.n ? A.i[row + 1] : 0;
    taken = false;
  }

  /* By all lanes: whether there is a next slot */
  __device__ __forceinline__ bool Next(const IDRSCSR &A)
  {
    uint32_t column;

    if (taken) p++;
    column = p < end ? (uint32_t)A.j[p] : 0xffffffffu;
    base   = IDRSWarpMin(column);
    taken  = p < end && column - base <= IDRS_COLUMN_SPAN;
    return base != 0xffffffffu;
  }
};

/* By a warp, for a slice: slots, and units of memory */
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSWidthKernel(IDRSCSR A, const uint16_t *perm, uint32_t slices, uint32_t *width, uint32_t *units, unsigned long long *slots)
{
  const uint32_t slice = (uint32_t)(IDRSFirstRow<1>() / IDRS_WARP);
  uint32_t       count = 0;

  if (slice >= slices) return;
  for (IDRSSlotWalk walk(A, perm, slice); walk.Next(A);) count++;
  if (threadIdx.x % IDRS_WARP) return;
  width[slice] = count ? count : 1;
  units[slice] = IDRSSliceUnits(count ? count : 1);
  atomicAdd(slots, (unsigned long long)(count ? count : 1));
}

/* By a warp, for a slice: its chunks */
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSFillKernel(IDRSCSR A, IDRSSliced sliced, unsigned char *chunks)
{
  const uint32_t slice = (uint32_t)(IDRSFirstRow<1>() / IDRS_WARP), lane = threadIdx.x % IDRS_WARP;
  unsigned char *chunk;
  uint32_t       left;

  if (slice >= sliced.slices) return;
  chunk = chunks + (size_t)sliced.offset[slice] * IDRS_UNIT;
  left  = sliced.width[slice];
  for (IDRSSlotWalk walk(A, sliced.perm, slice); left > 0;) {
    const uint32_t slots   = left < IDRS_SLOTS ? left : IDRS_SLOTS;
    PetscScalar   *values  = (PetscScalar *)(chunk + IDRS_BASES_BYTES);
    uint16_t      *columns = (uint16_t *)(values + slots * IDRS_WARP);

    for (uint32_t j = 0; j < IDRS_SLOTS; j++) {
      const bool more = j < slots && walk.Next(A);

      if (lane == 0) ((uint32_t *)chunk)[j] = more ? walk.base : 0;
      if (j >= slots) continue;
      values[j * IDRS_WARP + lane]  = more && walk.taken ? A.a[walk.p] : (PetscScalar)0.0;
      columns[j * IDRS_WARP + lane] = more && walk.taken ? (uint16_t)((uint32_t)A.j[walk.p] - walk.base) : 0;
    }
    chunk += IDRS_BASES_BYTES + slots * IDRS_SLOT_BYTES;
    left -= slots;
  }
}

/* Memory of the device, or NULL where there is none */
static PetscErrorCode IDRSMalloc_CUDA(size_t bytes, void *memory)
{
  const cudaError_t error = cudaMalloc((void **)memory, PetscMax(bytes, 1));

  PetscFunctionBegin;
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    *(void **)memory = NULL;
  } else PetscCallCUDA(error);
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSProductReset_Sliced(IDRSProduct product)
{
  IDRSSlicedCopy *copy = (IDRSSlicedCopy *)product->data;

  PetscFunctionBegin;
  PetscCall(IDRSOffDiagonalReset(product));
  if (copy) {
    PetscCallCUDA(cudaFree(copy->chunks));
    PetscCallCUDA(cudaFree(copy->slices));
    PetscCallCUDA(cudaFree(copy->perm));
  }
  PetscCall(PetscFree(product->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Where each slice begins, with what is needed for a moment only: units of each slice, the memory of the scan, the number of slots */
static PetscErrorCode IDRSSlicedCount(const IDRSCSR *csr, IDRSSlicedCopy *copy, cudaStream_t stream, unsigned long long *slots, size_t *units, const char *why[])
{
  const uint32_t      slices = copy->A.slices;
  const unsigned int  blocks = (unsigned int)((slices + IDRS_WARPS - 1) / IDRS_WARPS);
  size_t              bytes  = 0;
  uint32_t           *unit, last[2];
  void               *scan;
  unsigned long long *count;

  PetscFunctionBegin;
  PetscCallCUDA(cub::DeviceScan::ExclusiveSum(NULL, bytes, (uint32_t *)NULL, (uint32_t *)NULL, (int)slices, stream));
  PetscCall(IDRSMalloc_CUDA(slices * sizeof(uint32_t), &unit));
  PetscCall(IDRSMalloc_CUDA(bytes, &scan));
  PetscCall(IDRSMalloc_CUDA(sizeof(*count), &count));
  if (unit && scan && count) {
    PetscCallCUDA(cudaMemsetAsync(count, 0, sizeof(*count), stream));
    IDRSWidthKernel<<<blocks, IDRS_THREADS, 0, stream>>>(*csr, copy->perm, slices, copy->slices + slices, unit, count);
    PetscCallCUDA(cudaGetLastError());
    PetscCallCUDA(cub::DeviceScan::ExclusiveSum(scan, bytes, unit, copy->slices, (int)slices, stream));
    PetscCallCUDA(cudaMemcpyAsync(last, copy->slices + slices - 1, sizeof(uint32_t), cudaMemcpyDeviceToHost, stream));
    PetscCallCUDA(cudaMemcpyAsync(last + 1, unit + slices - 1, sizeof(uint32_t), cudaMemcpyDeviceToHost, stream));
    PetscCallCUDA(cudaMemcpyAsync(slots, count, sizeof(*slots), cudaMemcpyDeviceToHost, stream));
    PetscCallCUDA(cudaStreamSynchronize(stream));
    *units = (size_t)last[0] + last[1];
  } else *why = "the memory of the GPU does not hold a copy of the operator";
  PetscCallCUDA(cudaFree(count));
  PetscCallCUDA(cudaFree(scan));
  PetscCallCUDA(cudaFree(unit));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Everything but the chunks: which rows are in a slice, and how much memory the slices take */
static PetscErrorCode IDRSSlicedPlan(IDRSProduct product, Mat block, const IDRSCSR *csr, cudaStream_t stream, size_t *units, const char *why[])
{
  IDRSSlicedCopy    *copy      = (IDRSSlicedCopy *)product->data;
  const PetscBool    automatic = (PetscBool)(product->kind == KSP_IDRS_PRODUCT_AUTO);
  const uint32_t     n         = (uint32_t)csr->n;
  PetscLogDouble     nonzeros;
  unsigned long long slots;
  IDRSRowLengths     lengths;

  PetscFunctionBegin;
  PetscCall(IDRSGetNonzeros(block, &nonzeros));
  PetscCall(IDRSGetRowLengths(csr, &lengths));
  copy->A.n      = n;
  copy->A.slices = (n + IDRS_WARP - 1) / IDRS_WARP;
  PetscCall(IDRSMalloc_CUDA(2 * copy->A.slices * sizeof(uint32_t), &copy->slices));
  if ((PetscLogDouble)lengths.places > 1.05 * nonzeros) PetscCall(IDRSMalloc_CUDA(n * sizeof(uint16_t), &copy->perm));
  if (!copy->slices) *why = "the memory of the GPU does not hold a copy of the operator";
  if (automatic && !*why) PetscCall(IDRSDeclineRows(block, &lengths, 1, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  if (copy->perm) {
    IDRSSortKernel<<<(n + IDRS_WINDOW - 1) / IDRS_WINDOW, IDRS_THREADS, 0, stream>>>(*csr, copy->perm);
    PetscCallCUDA(cudaGetLastError());
  }
  PetscCall(IDRSSlicedCount(csr, copy, stream, &slots, units, why));
  if (!*why && automatic && (PetscLogDouble)slots * IDRS_WARP > IDRS_MAX_PADDING * nonzeros + IDRS_WARP * IDRS_SLOTS) *why = "a copy in slices would hold too many zeros: rows of a slice differ too much, or are spread too far";
  copy->A.offset = copy->slices;
  copy->A.width  = copy->slices + copy->A.slices;
  copy->A.perm   = copy->perm;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Memory for the chunks; the automatic choice leaves half of what is free to others */
static PetscErrorCode IDRSSlicedAllocate(IDRSProduct product, size_t units, const char *why[])
{
  IDRSSlicedCopy *copy = (IDRSSlicedCopy *)product->data;
  size_t          free, total;

  PetscFunctionBegin;
  PetscCallCUDA(cudaMemGetInfo(&free, &total));
  if (product->kind == KSP_IDRS_PRODUCT_AUTO && units * IDRS_UNIT > free / 2) *why = "a copy of the operator would take more than half of the free memory of the GPU";
  else {
    PetscCall(IDRSMalloc_CUDA(units * IDRS_UNIT, &copy->chunks));
    if (!copy->chunks) *why = "the memory of the GPU does not hold a copy of the operator";
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSProductSetUp_Sliced(IDRSProduct product, PetscBool changed, const char *why[])
{
  IDRSSlicedCopy *copy = (IDRSSlicedCopy *)product->data;
  PetscLogDouble  begin, end;
  cudaStream_t    stream;
  IDRSCSR         csr;
  Mat             block;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(PetscTime(&begin));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSGetBlocks(product->A, &block, NULL));
  PetscCall(IDRSGetCSR(block, &csr));
  if (csr.n > 1 << 30) *why = "sliced takes at most 2^30 rows of a process";
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  if (!copy) {
    size_t units = 0;

    PetscCall(PetscNew(&copy));
    product->data = copy;
    if (csr.n) PetscCall(IDRSSlicedPlan(product, block, &csr, stream, &units, why));
    if (csr.n && !*why) PetscCall(IDRSSlicedAllocate(product, units, why));
    if (*why) PetscFunctionReturn(PETSC_SUCCESS);
    copy->A.chunks = copy->chunks;
    product->bytes = (PetscLogDouble)(units * IDRS_UNIT + 2 * copy->A.slices * sizeof(uint32_t) + (copy->perm ? csr.n * sizeof(uint16_t) : 0));
    PetscCall(IDRSExceedsCache(product->bytes + 2.0 * csr.n * sizeof(PetscScalar), &copy->once));
  }
  PetscCall(IDRSOffDiagonalSetUp(product, copy->perm, why));
  if (!changed) PetscFunctionReturn(PETSC_SUCCESS);
  if (csr.n) IDRSFillKernel<<<(copy->A.slices + IDRS_WARPS - 1) / IDRS_WARPS, IDRS_THREADS, 0, stream>>>(csr, copy->A, copy->chunks);
  PetscCallCUDA(cudaGetLastError());
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscCall(PetscTime(&end));
  product->seconds = end - begin;
  PetscFunctionReturn(PETSC_SUCCESS);
}
