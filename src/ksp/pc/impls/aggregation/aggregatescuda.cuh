/* Aggregates in the memory of the GPU, matrices with sums of entries for them, and what their kernels share */
#pragma once

#include <cub/device/device_scan.cuh>
#include "../../../../sys/device/device.h"
#include "../../../../sys/kernels/csr.h"
#include "../../../../sys/kernels/launch.cuh"
#include <petscidrs/private/idrsmemory.h>
#include "aggregation.h"

/* Largest number of entries in the rows of an aggregate, limited by the shared memory of a warp: 8 bytes for each */
#define AGGREGATES_ENTRIES 6000

typedef struct {
  int  n, count;     /* rows and aggregates of this process */
  int  entries;      /* most entries in the rows of an aggregate */
  int *of;           /* the aggregate of each row, or -1 for none */
  int *start, *rows; /* the rows of aggregate c are rows[start[c]] ... rows[start[c + 1] - 1] */
  /* columns of other processes: in an aggregate there, which is column ghosts[ghost[j]] of the coarse matrix, or -1 for none */
  int       outerentries, nghosts;
  int      *ghost;
  PetscInt *ghosts; /* in the memory of the host */
} AggregatesCUDA;

/* A block of a matrix, with the rows of this process and its columns or others */
typedef struct {
  IDRSCSR    A;
  const int *aggregate; /* of each column, or -1 for none */
  int        entries;   /* most entries in the rows of an aggregate */
} AggregatesBlock;

/* A matrix in the memory of the GPU, row by row, with a MATSEQAIJCUSPARSE for the object state of its MATSHELL, or NULL */
typedef struct {
  PetscInt         rows, columns;
  size_t           nonzeros;
  IDRSMatIndex    *i, *j;
  PetscScalar     *a;
  Mat              full;
  PetscObjectState state;
} AggregatesMatrix;

PETSC_INTERN PetscErrorCode AggregatesGetMostEntries_CUDA(const IDRSCSR *, const AggregatesCUDA *, int *, cudaStream_t,
                                                          const char *[]);
PETSC_INTERN PetscErrorCode AggregatesGetRows_CUDA(const IDRSCSR *, AggregatesCUDA *, cudaStream_t, const char *[]);
PETSC_INTERN PetscErrorCode AggregatesReset_CUDA(AggregatesCUDA *);
PETSC_INTERN PetscErrorCode AggregatesMultiply_CUDA(const AggregatesBlock *, const AggregatesCUDA *, PetscReal, AggregatesMatrix *,
                                                    cudaStream_t);
PETSC_INTERN PetscErrorCode AggregatesUpdate_CUDA(const AggregatesBlock *, const AggregatesCUDA *, PetscReal, const IDRSMatIndex *,
                                                  PetscScalar *, cudaStream_t);
PETSC_INTERN PetscErrorCode AggregatesMatrixReset_CUDA(AggregatesMatrix *);
PETSC_INTERN PetscErrorCode AggregatesMatrixGetMat_CUDA(const AggregatesMatrix *, cudaStream_t, Mat *);
PETSC_INTERN PetscErrorCode AggregatesMatrixGetShell_CUDA(AggregatesMatrix *, Mat *);
PETSC_INTERN PetscErrorCode AggregatesGetFull_CUDA(Mat, Mat *);
PETSC_INTERN PetscErrorCode AggregatesGetCSR_CUDA(Mat, IDRSCSR *);
PETSC_INTERN PetscErrorCode AggregationInverseBegin_CUDA(Mat, AggregationInverse *);
PETSC_INTERN PetscErrorCode AggregationInverseEnd_CUDA(Mat, AggregationInverse *, Mat *, PetscBool *);
PETSC_INTERN PetscErrorCode AggregationInverseDestroy_CUDA(AggregationInverse *);
PETSC_INTERN PetscErrorCode AggregatesFromPairs_CUDA(const IDRSCSR *, size_t, AggregatesCUDA *, cudaStream_t, const char *[]);

static inline unsigned int CountBlocks(size_t threads)
{
  return (unsigned int)PetscMax(PetscMin((threads + IDRS_THREADS - 1) / IDRS_THREADS, 1 << 20), 1);
}

#define AGGREGATES_ATONCE 8 /* entries of a row that a thread loads at a time */

/* Returns the entry of P^T x for aggregate c, in the order of its rows. entry(row) is the entry of x */
template <typename Entry>
static __device__ __forceinline__ PetscScalar AggregateSum(const AggregatesCUDA &aggregates, int c, Entry &&entry)
{
  const int   end = aggregates.start[c + 1];
  PetscScalar sum = 0.0;

#pragma unroll 1
  for (int k = aggregates.start[c]; k < end; k += AGGREGATES_ATONCE) {
    PetscScalar x[AGGREGATES_ATONCE];

#pragma unroll
    for (int l = 0; l < AGGREGATES_ATONCE; l++) x[l] = entry(__ldg(aggregates.rows + min(k + l, end - 1)));
#pragma unroll
    for (int l = 0; l < AGGREGATES_ATONCE; l++) {
      if (k + l < end) sum += x[l];
    }
  }
  return sum;
}

/* Returns true if a row has an entry besides its diagonal entry that is not zero */
static __device__ __forceinline__ bool RowIsCoupled(const IDRSCSR &A, size_t i)
{
  for (IDRSMatIndex p = A.i[i]; p < A.i[i + 1]; p++) {
    if ((size_t)A.j[p] != i && A.a[p] != (PetscScalar)0.0) return true;
  }
  return false;
}

/* Replaces n numbers by the sums of those before them */
template <typename T>
static PetscErrorCode ScanSums(size_t n, T *numbers, cudaStream_t stream)
{
  size_t             bytes = 0;
  char              *work;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCallCUDA(cub::DeviceScan::ExclusiveSum(NULL, bytes, numbers, numbers, (int)n, stream));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, bytes, &work));
  PetscCallCUDA(cub::DeviceScan::ExclusiveSum(work, bytes, numbers, numbers, (int)n, stream));
  PetscCall(PetscDeviceFree(dctx, work));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Gets numbers from the device. The host waits for them */
template <typename T>
static PetscErrorCode CopyToHost(size_t n, const T *from, T *to, cudaStream_t stream)
{
  PetscFunctionBegin;
  PetscCallCUDA(cudaMemcpyAsync(to, from, n * sizeof(T), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}
