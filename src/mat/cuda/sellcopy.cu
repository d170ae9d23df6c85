/*
   Rows of a matrix that are selected and copied, and the copy of a matrix in the SELL format: functions that do not depend on the
   form of slots
*/
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>
#include <thrust/iterator/counting_iterator.h>
#include "../../sys/device/device.h"
#include "../../sys/kernels/launch.cuh"
#include "sellcopy.cuh"

#define IDRS_LONG_ROW_LEAST 32 /* a long row has more entries than this, */
#define IDRS_LONG_ROW_MEAN  4  /* and than this many times the average */

struct IDRSLongerRow {
  const IDRSMatIndex *i;
  unsigned int        limit;

  __device__ __forceinline__ bool operator()(PetscInt row) const { return (unsigned int)(i[row + 1] - i[row]) > limit; }
};

/* lengths[k] = entries of row rows[k], followed by one 0. One thread per row */
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSLengthsKernel(IDRSCSR A, const PetscInt *rows, unsigned int count, IDRSMatIndex *lengths)
{
  const size_t k = IDRSFirstRow<1>();

  if (k <= count) lengths[k] = k < count ? A.i[rows[k] + 1] - A.i[rows[k]] : 0;
}

/*
   IDRSCompressedRowsSelect - Selects the rows with more entries than limit; lengths contains their number. Allocates their memory,
   and sets everything except the entries
*/
PetscErrorCode IDRSCompressedRowsSelect(const IDRSCSR *A, unsigned int limit, const IDRSRowLengths *lengths,
                                        IDRSCompressedRows *some, cudaStream_t stream, const char *why[])
{
  const size_t rows = lengths->longrows, entries = lengths->longentries,
               values         = (entries * sizeof(PetscScalar) + sizeof(PetscInt) - 1) / sizeof(PetscInt) * sizeof(PetscInt);
  const auto          all     = thrust::counting_iterator<PetscInt>(0);
  const IDRSLongerRow longer  = {A->i, limit};
  size_t              selects = 0, scans = 0;
  void               *work;
  PetscInt           *count;
  IDRSMatIndex       *i;

  PetscFunctionBegin;
  if (!rows) PetscFunctionReturn(PETSC_SUCCESS);
  some->entries = entries;
  some->bytes   = values + rows * sizeof(PetscInt) + (rows + 1 + entries) * sizeof(IDRSMatIndex);
  PetscCallCUDA(cub::DeviceSelect::If(NULL, selects, all, (PetscInt *)NULL, (PetscInt *)NULL, A->n, longer, stream));
  PetscCallCUDA(cub::DeviceScan::ExclusiveSum(NULL, scans, (IDRSMatIndex *)NULL, (IDRSMatIndex *)NULL, (int)(rows + 1), stream));
  PetscCall(IDRSMalloc_CUDA(some->bytes, &some->memory, why));
  PetscCall(IDRSMalloc_CUDA(PetscMax(selects, scans), &work, why));
  PetscCall(IDRSMalloc_CUDA(sizeof(*count), &count, why));
  if (!*why) {
    some->A.a  = (const PetscScalar *)some->memory;
    some->rows = (PetscInt *)((char *)some->memory + values);
    i          = (IDRSMatIndex *)(some->rows + rows);
    some->A.i  = i;
    some->A.j  = i + rows + 1;
    some->A.n  = (PetscInt)rows;
    PetscCallCUDA(cub::DeviceSelect::If(work, selects, all, some->rows, count, A->n, longer, stream));
    IDRSLengthsKernel<<<(unsigned int)(rows / IDRS_THREADS + 1), IDRS_THREADS, 0, stream>>>(*A, some->rows, (unsigned int)rows, i);
    PetscCallCUDA(cudaGetLastError());
    PetscCallCUDA(cub::DeviceScan::ExclusiveSum(work, scans, i, i, (int)(rows + 1), stream));
    PetscCallCUDA(cudaStreamSynchronize(stream));
  }
  PetscCallCUDA(cudaFree(count));
  PetscCallCUDA(cudaFree(work));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* One warp per row */
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSCompressedFillKernel(IDRSSource source, IDRSCSR some, const PetscInt *rows, IDRSMatIndex *j, PetscScalar *a)
{
  const size_t k = IDRSFirstRow<1>() / IDRS_WARP;

  if (k >= some.n) return;
  for (IDRSMatIndex q = some.i[k] + threadIdx.x % IDRS_WARP; q < some.i[k + 1]; q += IDRS_WARP) {
    const IDRSMatIndex p = source.A.i[rows[k]] + q - some.i[k];

    j[q] = source.A.j[p];
    a[q] = source.unit && j[q] == rows[k] ? (PetscScalar)0.0 : IDRSSourceEntry(source, p, (uint32_t)rows[k]);
  }
}

/* IDRSCompressedRowsFill - Copies the entries of the selected rows; called again if values have changed */
PetscErrorCode IDRSCompressedRowsFill(const IDRSSource *source, IDRSCompressedRows *some, cudaStream_t stream)
{
  PetscFunctionBegin;
  if (!some->A.n) PetscFunctionReturn(PETSC_SUCCESS);
  IDRSCompressedFillKernel<<<(unsigned int)((some->A.n + IDRS_WARPS - 1) / IDRS_WARPS), IDRS_THREADS, 0, stream>>>(
    *source, some->A, some->rows, (IDRSMatIndex *)some->A.j, (PetscScalar *)some->A.a);
  PetscCallCUDA(cudaGetLastError());
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSCompressedRowsDestroy(IDRSCompressedRows *some)
{
  PetscFunctionBegin;
  PetscCallCUDA(cudaFree(some->memory));
  *some = {};
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Sorts one window per block: the place of row i is the number of rows that are longer, or as long and before it. Long rows are
   marked, and count as empty rows in slices
*/
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSSortKernel(IDRSCSR A, unsigned int limit, uint16_t *perm)
{
  __shared__ uint32_t length[IDRS_WINDOW];
  const PetscInt      begin = (PetscInt)blockIdx.x * IDRS_WINDOW;
  const int           rows  = A.n - begin < IDRS_WINDOW ? (int)(A.n - begin) : IDRS_WINDOW;

  for (int i = threadIdx.x; i < rows; i += IDRS_THREADS) length[i] = (uint32_t)(A.i[begin + i + 1] - A.i[begin + i]);
  __syncthreads();
  for (int i = threadIdx.x; i < rows; i += IDRS_THREADS) {
    const uint32_t mine  = length[i] > limit ? 0 : length[i];
    int            place = 0;

    for (int j = 0; j < rows; j++) {
      const uint32_t other = length[j] > limit ? 0 : length[j];

      place += other > mine || (other == mine && j < i);
    }
    perm[begin + place] = (uint16_t)(length[i] > limit ? i | IDRS_LONG_ROW : i);
  }
}

/* IDRSSellSelectLongRows - Separates the rows with more entries than limit. lengths: of all rows */
PetscErrorCode IDRSSellSelectLongRows(const IDRSCSR *A, unsigned int limit, const IDRSRowLengths *lengths, IDRSSellCopy *copy,
                                      cudaStream_t stream, const char *why[])
{
  PetscFunctionBegin;
  PetscCall(IDRSCompressedRowsSelect(A, limit, lengths, &copy->longrows, stream, why));
  copy->A.longrows    = copy->longrows.A;
  copy->A.longindices = copy->longrows.rows;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSSellSort - Sorts the rows if their lengths differ, and separates long rows. lengths: of all rows */
PetscErrorCode IDRSSellSort(const IDRSCSR *A, PetscLogDouble nonzeros, IDRSSellCopy *copy, IDRSRowLengths *lengths,
                            cudaStream_t stream, const char *why[])
{
  const unsigned int limit = (unsigned int)PetscMax(IDRS_LONG_ROW_LEAST, IDRS_LONG_ROW_MEAN * nonzeros / PetscMax(A->n, 1));

  PetscFunctionBegin;
  PetscCall(IDRSGetRowLengths(A, limit, lengths));
  PetscCall(IDRSSellSelectLongRows(A, limit, lengths, copy, stream, why));
  if (*why || (!lengths->longrows && (PetscLogDouble)lengths->places <= 1.05 * nonzeros)) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSMalloc_CUDA(A->n * sizeof(uint16_t), &copy->perm, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  IDRSSortKernel<<<(unsigned int)((A->n + IDRS_WINDOW - 1) / IDRS_WINDOW), IDRS_THREADS, 0, stream>>>(*A, limit, copy->perm);
  PetscCallCUDA(cudaGetLastError());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSSellScan - Computes the offset of each slice from the numbers of units, and copies the numbers of all units and slots to
   the host, which waits
*/
PetscErrorCode IDRSSellScan(uint32_t slices, const uint32_t units[], const unsigned long long *slots, IDRSSellCopy *copy,
                            cudaStream_t stream, const char *why[])
{
  size_t   bytes = 0;
  uint32_t last[2];
  void    *work;

  PetscFunctionBegin;
  PetscCallCUDA(cub::DeviceScan::ExclusiveSum(NULL, bytes, units, copy->slices, (int)slices, stream));
  PetscCall(IDRSMalloc_CUDA(bytes, &work, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCallCUDA(cub::DeviceScan::ExclusiveSum(work, bytes, units, copy->slices, (int)slices, stream));
  PetscCallCUDA(cudaMemcpyAsync(last, copy->slices + slices - 1, sizeof(uint32_t), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaMemcpyAsync(last + 1, units + slices - 1, sizeof(uint32_t), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaMemcpyAsync(&copy->slots, slots, sizeof(copy->slots), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  copy->units = (size_t)last[0] + last[1];
  PetscCallCUDA(cudaFree(work));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSSellTurns - Returns the largest number of entries of a row that one lane processes. A long row has all lanes of a warp */
unsigned int IDRSSellTurns(const IDRSSellCopy *copy, const IDRSRowLengths *lengths)
{
  return copy->longrows.A.n ? PetscMax(lengths->longest / IDRS_WARP, IDRS_LONG_ROW_LEAST) : lengths->longest;
}

/* IDRSSellAllocate - Allocates the chunks of a planned copy */
PetscErrorCode IDRSSellAllocate(IDRSSellCopy *copy, const char *why[])
{
  PetscFunctionBegin;
  PetscCall(IDRSMalloc_CUDA(copy->units * IDRS_UNIT, &copy->chunks, why));
  copy->A.chunks = copy->chunks;
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSSellDestroy(IDRSSellCopy *copy)
{
  PetscFunctionBegin;
  PetscCallCUDA(cudaFree(copy->chunks));
  PetscCallCUDA(cudaFree(copy->slices));
  PetscCallCUDA(cudaFree(copy->perm));
  PetscCall(IDRSCompressedRowsDestroy(&copy->longrows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscLogDouble IDRSSellBytes(const IDRSSellCopy *copy)
{
  return (PetscLogDouble)(copy->units * IDRS_UNIT + 2 * copy->A.slices * sizeof(uint32_t) +
                          (copy->perm ? copy->A.n * sizeof(uint16_t) : 0) + copy->longrows.bytes);
}
