/*
   The copy of a matrix in the sliced format: creation and destruction
*/
#pragma once

#include <petscidrs/private/idrsproduct.h>
#include "sliced.cuh"

typedef IDRSForm<PetscScalar, 1, true> IDRSProductForm;

typedef struct {
  IDRSSliced         A;
  unsigned char     *chunks;
  uint32_t          *slices; /* offsets and widths */
  uint16_t          *perm;
  IDRSCompressedRows longrows;
  size_t             units; /* of the chunks */
  unsigned long long slots;
  PetscBool          once; /* A and the vectors of a matvec do not fit in the L2 cache */
} IDRSSlicedCopy;

PETSC_INTERN PetscErrorCode IDRSSlicedSelectLongRows(const IDRSCSR *, unsigned int, const IDRSRowLengths *, IDRSSlicedCopy *,
                                                     cudaStream_t, const char *[]);
PETSC_INTERN PetscErrorCode IDRSSlicedSort(const IDRSCSR *, PetscLogDouble, IDRSSlicedCopy *, IDRSRowLengths *, cudaStream_t,
                                           const char *[]);
PETSC_INTERN PetscErrorCode IDRSSlicedScan(uint32_t, const uint32_t[], const unsigned long long *, IDRSSlicedCopy *, cudaStream_t,
                                           const char *[]);
PETSC_INTERN unsigned int   IDRSSlicedTurns(const IDRSSlicedCopy *, const IDRSRowLengths *);
PETSC_INTERN PetscErrorCode IDRSSlicedAllocate(IDRSSlicedCopy *, const char *[]);
PETSC_INTERN PetscErrorCode IDRSSlicedDestroy(IDRSSlicedCopy *);
PETSC_INTERN PetscLogDouble IDRSSlicedBytes(const IDRSSlicedCopy *);

PETSC_INTERN PetscErrorCode IDRSProductSetUp_Sliced(IDRSProduct, PetscBool, const char *[]);
PETSC_INTERN PetscErrorCode IDRSProductColumns_Sliced(IDRSProduct, PetscInt, Vec[], Vec[]);
PETSC_INTERN PetscErrorCode IDRSProductReset_Sliced(IDRSProduct);
