/*
   The copy of a matrix in the sliced format: functions that do not depend on the form of slots
*/
#include <cub/device/device_scan.cuh>
#include "../../sys/device/device.h"
#include "slicedcopy.cuh"

#define IDRS_LONG_ROW_LEAST 32 /* a long row has more entries than this, */
#define IDRS_LONG_ROW_MEAN  4  /* and than this many times the average */

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

/* IDRSSlicedSelectLongRows - Separates the rows with more entries than limit. lengths: of all rows */
PetscErrorCode IDRSSlicedSelectLongRows(const IDRSCSR *A, unsigned int limit, const IDRSRowLengths *lengths, IDRSSlicedCopy *copy,
                                        cudaStream_t stream, const char *why[])
{
  PetscFunctionBegin;
  PetscCall(IDRSCompressedRowsSelect(A, limit, lengths, &copy->longrows, stream, why));
  copy->A.longrows    = copy->longrows.A;
  copy->A.longindices = copy->longrows.rows;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSSlicedSort - Sorts the rows if their lengths differ, and separates long rows. lengths: of all rows */
PetscErrorCode IDRSSlicedSort(const IDRSCSR *A, PetscLogDouble nonzeros, IDRSSlicedCopy *copy, IDRSRowLengths *lengths,
                              cudaStream_t stream, const char *why[])
{
  const unsigned int limit = (unsigned int)PetscMax(IDRS_LONG_ROW_LEAST, IDRS_LONG_ROW_MEAN * nonzeros / PetscMax(A->n, 1));

  PetscFunctionBegin;
  PetscCall(IDRSGetRowLengths(A, limit, lengths));
  PetscCall(IDRSSlicedSelectLongRows(A, limit, lengths, copy, stream, why));
  if (*why || (!lengths->longrows && (PetscLogDouble)lengths->places <= 1.05 * nonzeros)) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSMalloc_CUDA(A->n * sizeof(uint16_t), &copy->perm, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  IDRSSortKernel<<<(unsigned int)((A->n + IDRS_WINDOW - 1) / IDRS_WINDOW), IDRS_THREADS, 0, stream>>>(*A, limit, copy->perm);
  PetscCallCUDA(cudaGetLastError());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSSlicedScan - Computes the offset of each slice from the numbers of units, and copies the numbers of all units and slots to
   the host, which waits
*/
PetscErrorCode IDRSSlicedScan(uint32_t slices, const uint32_t units[], const unsigned long long *slots, IDRSSlicedCopy *copy,
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

/* IDRSSlicedTurns - Returns the largest number of entries of a row that one lane processes. A long row has all lanes of a warp */
unsigned int IDRSSlicedTurns(const IDRSSlicedCopy *copy, const IDRSRowLengths *lengths)
{
  return copy->longrows.A.n ? PetscMax(lengths->longest / IDRS_WARP, IDRS_LONG_ROW_LEAST) : lengths->longest;
}

/* IDRSSlicedAllocate - Allocates the chunks of a planned copy */
PetscErrorCode IDRSSlicedAllocate(IDRSSlicedCopy *copy, const char *why[])
{
  PetscFunctionBegin;
  PetscCall(IDRSMalloc_CUDA(copy->units * IDRS_UNIT, &copy->chunks, why));
  copy->A.chunks = copy->chunks;
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSSlicedDestroy(IDRSSlicedCopy *copy)
{
  PetscFunctionBegin;
  PetscCallCUDA(cudaFree(copy->chunks));
  PetscCallCUDA(cudaFree(copy->slices));
  PetscCallCUDA(cudaFree(copy->perm));
  PetscCall(IDRSCompressedRowsDestroy(&copy->longrows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscLogDouble IDRSSlicedBytes(const IDRSSlicedCopy *copy)
{
  return (PetscLogDouble)(copy->units * IDRS_UNIT + 2 * copy->A.slices * sizeof(uint32_t) +
                          (copy->perm ? copy->A.n * sizeof(uint16_t) : 0) + copy->longrows.bytes);
}
