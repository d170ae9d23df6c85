/*
   Products with several columns on a device: the arrays of the columns, and functions that the back ends share
*/
#pragma once

#include <petscidrs/private/idrsproduct.h>
#include "../../sys/kernels/csr.h"

typedef struct {
  const PetscScalar *x[IDRS_MAX_WIDTH];
  PetscScalar       *y[IDRS_MAX_WIDTH];
} IDRSColumnArrays;

/* One product */
typedef struct {
  PetscInt         k;
  IDRSColumnArrays arrays;
  cudaStream_t     stream;
  int              multiprocessors;
} IDRSColumnsLaunch;

/* Device memory that is kept between products */
typedef struct _n_IDRSColumns {
  PetscInt    *rows;          /* to send, as in IDRSRowScatter */
  PetscScalar *sent, *ghosts; /* row-major, with room for this many columns: */
  PetscInt     width;
  PetscScalar *byrows; /* X by rows, and its size in bytes */
  size_t       bytes;
} *IDRSColumns;

PETSC_INTERN PetscErrorCode IDRSColumnsBegin_CUDA(IDRSProduct, PetscInt, Vec[], Vec[], IDRSColumnsLaunch *);
PETSC_INTERN PetscErrorCode IDRSColumnsEnd_CUDA(IDRSProduct, Vec[], Vec[], IDRSColumnsLaunch *);
PETSC_INTERN PetscErrorCode IDRSColumnsReset_CUDA(IDRSColumns *);
PETSC_INTERN PetscErrorCode IDRSColumnsScratch_CUDA(IDRSProduct, size_t, PetscScalar **);
PETSC_INTERN PetscErrorCode IDRSColumnsCSR_CUDA(IDRSProduct, const IDRSColumnsLaunch *, Mat, const IDRSCSR *, PetscBool);
PETSC_INTERN PetscErrorCode IDRSProductGoesByRows_CSR(Mat, PetscBool *);
