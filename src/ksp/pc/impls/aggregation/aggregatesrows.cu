/* The lists of the rows of aggregates, in the memory of the GPU */
#include "aggregatescuda.cuh"

static __global__ void __launch_bounds__(IDRS_THREADS) CountRowsKernel(int n, const int *of, int *counts)
{
  for (size_t row = IDRSFirstRow<1>(); row < n; row += IDRSRowStride<1>()) {
    if (of[row] >= 0) atomicAdd(counts + of[row], 1);
  }
}

static __global__ void __launch_bounds__(IDRS_THREADS) PlaceRowsKernel(int n, const int *of, int *next, int *rows)
{
  for (size_t row = IDRSFirstRow<1>(); row < n; row += IDRSRowStride<1>()) {
    if (of[row] >= 0) rows[atomicAdd(next + of[row], 1)] = (int)row;
  }
}

/* *most = largest number of entries in the rows of an aggregate */
static __global__ void __launch_bounds__(IDRS_THREADS) EntriesKernel(IDRSCSR A, AggregatesCUDA aggregates, unsigned long long *most)
{
  unsigned long long mine = 0;

  for (size_t c = IDRSFirstRow<1>(); c < aggregates.count; c += IDRSRowStride<1>()) {
    unsigned long long entries = 0;

    for (int k = aggregates.start[c]; k < aggregates.start[c + 1]; k++)
      entries += (unsigned long long)(A.i[aggregates.rows[k] + 1] - A.i[aggregates.rows[k]]);
    mine = max(mine, entries);
  }
  IDRSKeepLargest(mine, most);
}

/* Sorts the rows of each aggregate, which are few */
static __global__ void __launch_bounds__(IDRS_THREADS) SortRowsKernel(AggregatesCUDA aggregates)
{
  for (size_t c = IDRSFirstRow<1>(); c < aggregates.count; c += IDRSRowStride<1>()) {
    const int begin = aggregates.start[c];

    for (int k = begin + 1; k < aggregates.start[c + 1]; k++) {
      const int row = aggregates.rows[k];
      int       l   = k;

      for (; l > begin && aggregates.rows[l - 1] > row; l--) aggregates.rows[l] = aggregates.rows[l - 1];
      aggregates.rows[l] = row;
    }
  }
}

/*
   AggregatesGetMostEntries_CUDA - Gets the largest number of entries in the rows of an aggregate, or sets the reason why it is too
   large
*/
PetscErrorCode AggregatesGetMostEntries_CUDA(const IDRSCSR *A, const AggregatesCUDA *aggregates, int *entries, cudaStream_t stream,
                                             const char *why[])
{
  unsigned long long *most, number;
  PetscDeviceContext  dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &most));
  EntriesKernel<<<CountBlocks(aggregates->count), IDRS_THREADS, 0, stream>>>(*A, *aggregates, most);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(CopyToHost(1, most, &number, stream));
  PetscCall(PetscDeviceFree(dctx, most));
  if (number > AGGREGATES_ENTRIES) *why = "an aggregate has rows with too many entries";
  *entries = (int)PetscMin(number, AGGREGATES_ENTRIES);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* AggregatesGetRows_CUDA - Makes the lists of the rows of each aggregate, in increasing order */
PetscErrorCode AggregatesGetRows_CUDA(const IDRSCSR *A, AggregatesCUDA *aggregates, cudaStream_t stream, const char *why[])
{
  int               *next;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, aggregates->count + 1, &aggregates->start));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, aggregates->n, &aggregates->rows));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, aggregates->count + 1, &next));
  CountRowsKernel<<<CountBlocks(aggregates->n), IDRS_THREADS, 0, stream>>>(aggregates->n, aggregates->of, aggregates->start);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(ScanSums(aggregates->count + 1, aggregates->start, stream));
  PetscCallCUDA(
    cudaMemcpyAsync(next, aggregates->start, (aggregates->count + 1) * sizeof(*next), cudaMemcpyDeviceToDevice, stream));
  PlaceRowsKernel<<<CountBlocks(aggregates->n), IDRS_THREADS, 0, stream>>>(aggregates->n, aggregates->of, next, aggregates->rows);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscDeviceFree(dctx, next));
  PetscCall(AggregatesGetMostEntries_CUDA(A, aggregates, &aggregates->entries, stream, why));
  if (!*why) SortRowsKernel<<<CountBlocks(aggregates->count), IDRS_THREADS, 0, stream>>>(*aggregates);
  PetscCallCUDA(cudaGetLastError());
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode AggregatesReset_CUDA(AggregatesCUDA *aggregates)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, aggregates->ghost));
  PetscCall(PetscDeviceFree(dctx, aggregates->rows));
  PetscCall(PetscDeviceFree(dctx, aggregates->start));
  PetscCall(PetscDeviceFree(dctx, aggregates->of));
  PetscCall(PetscFree(aggregates->ghosts));
  aggregates->of = aggregates->start = aggregates->rows = aggregates->ghost = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}
