/*
   Checks if a matrix has the dense blocks of its block size, and indexes them
*/
#include <petscdevice_cuda.h>
#include "../../sys/device/memory.h"
#include "../../sys/kernels/rows.cuh"
#include "tileindex.h"

/* Block sizes of the compiled kernels. If another block size is a multiple of one of them, the smaller blocks are used */
static const int IDRSBlockSizes[] = {8, 7, 6, 5, 4, 3, 2};

/* The largest of these sizes that divides bs, or 1 */
static int IDRSBlockSize(PetscInt bs)
{
  for (int size : IDRSBlockSizes) {
    if (bs % size == 0) return size;
  }
  return 1;
}

/*
   One thread per row: checks that the row has the columns of the first row of its block, and that these form dense blocks. Reads i
   and j
*/
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSTileCheckKernel(IDRSCSR A, int bs, unsigned int *wrong)
{
  const PetscInt row = (PetscInt)IDRSFirstRow<1>(), head = row - row % bs;
  PetscInt       begin, begin0, count;

  if (row >= A.n) return;
  begin  = A.i[row];
  begin0 = A.i[head];
  count  = A.i[row + 1] - begin;
  if (count != A.i[head + 1] - begin0 || count % bs) {
    *wrong = 1;
    return;
  }
  for (PetscInt q = 0; q < count; q++) {
    const PetscInt first = A.j[begin0 + q - q % bs];

    if (first % bs || A.j[begin + q] != first + q % bs) *wrong = 1;
  }
}

/* One thread per row of blocks */
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSTileIndexKernel(IDRSCSR A, int bs, PetscInt *j)
{
  const PetscInt row = (PetscInt)IDRSFirstRow<1>() * bs;

  if (row >= A.n) return;
  for (PetscInt p = A.i[row]; p < A.i[row + 1]; p += bs) j[A.i[row] / (bs * bs) + (p - A.i[row]) / bs] = A.j[p] / bs;
}

/*
   IDRSFindTiles - Returns the size of the dense blocks of a matrix with this block size, or 1 and the reason why there are none.
   There is no reason if the block size is 1. The host waits
*/
PetscErrorCode IDRSFindTiles(const IDRSCSR *A, PetscInt blocksize, cudaStream_t stream, int *found, const char *why[])
{
  const int     bs   = IDRSBlockSize(blocksize);
  unsigned int *flag = NULL, wrong = 0;

  PetscFunctionBegin;
  *why   = NULL;
  *found = 1;
  if (bs == 1 || !A->n) PetscFunctionReturn(PETSC_SUCCESS);
  if (A->n % bs) *why = "the number of rows of a process is not a multiple of the block size";
  else PetscCall(IDRSMalloc_CUDA(sizeof(*flag), &flag, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCallCUDA(cudaMemsetAsync(flag, 0, sizeof(*flag), stream));
  IDRSTileCheckKernel<<<(unsigned int)((A->n + IDRS_THREADS - 1) / IDRS_THREADS), IDRS_THREADS, 0, stream>>>(*A, bs, flag);
  PetscCallCUDA(cudaGetLastError());
  PetscCallCUDA(cudaMemcpyAsync(&wrong, flag, sizeof(wrong), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscCallCUDA(cudaFree(flag));
  if (wrong) *why = "the pattern has no dense blocks of the block size";
  else *found = bs;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSTileIndexCreate - Indexes the dense blocks of a matrix with this block size, or returns why there are none. The host waits */
PetscErrorCode IDRSTileIndexCreate(const IDRSCSR *A, PetscInt blocksize, IDRSTileIndex *blocks, cudaStream_t stream,
                                   const char *why[])
{
  IDRSMatIndex entries = 0;
  int          bs;

  PetscFunctionBegin;
  blocks->bs = 1;
  PetscCall(IDRSFindTiles(A, blocksize, stream, &bs, why));
  if (bs == 1) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCallCUDA(cudaMemcpyAsync(&entries, A->i + A->n, sizeof(entries), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscCall(IDRSMalloc_CUDA((size_t)entries / (bs * bs) * sizeof(*blocks->j), &blocks->j, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  IDRSTileIndexKernel<<<(unsigned int)((A->n / bs + IDRS_THREADS - 1) / IDRS_THREADS), IDRS_THREADS, 0, stream>>>(*A, bs,
                                                                                                                  blocks->j);
  PetscCallCUDA(cudaGetLastError());
  blocks->bs = bs;
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSTileIndexDestroy(IDRSTileIndex *blocks)
{
  PetscFunctionBegin;
  PetscCallCUDA(cudaFree(blocks->j));
  *blocks = {};
  PetscFunctionReturn(PETSC_SUCCESS);
}
