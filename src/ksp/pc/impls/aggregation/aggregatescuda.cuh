/* Aggregates in the memory of the GPU, and matrices with sums of entries for them */
#pragma once

#include "../../../../sys/device/device.h"
#include "../../../../sys/kernels/csr.h"
#include <petscidrs/private/idrsmemory.h>
#include "aggregation.h"

/* Largest number of entries in the rows of an aggregate, limited by the shared memory of a warp: 8 bytes for each */
#define AGGREGATES_ENTRIES 6000

typedef struct {
  int  n, count;     /* rows, aggregates */
  int  entries;      /* most entries in the rows of an aggregate */
  int *of;           /* the aggregate of each row, or -1 for none */
  int *start, *rows; /* the rows of aggregate c are rows[start[c]] ... rows[start[c + 1] - 1] */
} AggregatesCUDA;

/* A matrix in the memory of the GPU, rows by rows */
typedef struct {
  size_t        nonzeros;
  IDRSMatIndex *i, *j;
  PetscScalar  *a;
} AggregatesMatrix;

PETSC_INTERN PetscErrorCode AggregatesGetRows_CUDA(const IDRSCSR *, AggregatesCUDA *, cudaStream_t, const char *[]);
PETSC_INTERN PetscErrorCode AggregatesReset_CUDA(AggregatesCUDA *);
PETSC_INTERN PetscErrorCode AggregatesMultiply_CUDA(const IDRSCSR *, const AggregatesCUDA *, PetscReal, AggregatesMatrix *,
                                                    cudaStream_t);
PETSC_INTERN PetscErrorCode AggregatesUpdate_CUDA(const IDRSCSR *, const AggregatesCUDA *, PetscReal, Mat, cudaStream_t);
PETSC_INTERN PetscErrorCode AggregatesMatrixReset_CUDA(AggregatesMatrix *);
PETSC_INTERN PetscErrorCode AggregatesMatrixGetMat_CUDA(MPI_Comm, PetscInt, const AggregatesMatrix *, cudaStream_t, Mat *);
