/*
   Selects rows of a matrix, and copies them
*/
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>
#include <thrust/iterator/counting_iterator.h>
#include "../../sys/device/device.h"
#include "../../sys/kernels/launch.cuh"
#include "compressedrows.h"

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
