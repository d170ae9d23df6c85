/*
   The arrays of a MATSEQAIJCUSPARSE on the device, and what is known of its rows
*/
#pragma once

#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsproduct.h>

typedef struct {
  const IDRSMatIndex *i, *j;
  const PetscScalar  *a;
  PetscInt            n;
} IDRSCSR;

typedef struct {
  unsigned long long places;  /* slices of 32 neighbouring rows times their longest row times 32 */
  unsigned int       longest; /* row */
} IDRSRowLengths;

PETSC_INTERN PetscErrorCode IDRSMatRuns_CUDA(Mat, const char *[]);
PETSC_INTERN PetscErrorCode IDRSProductRuns_CUDA(IDRSProduct, const char *[]);
PETSC_INTERN PetscErrorCode IDRSGetBlocks(Mat, Mat *, Mat *);
PETSC_INTERN PetscErrorCode IDRSGetCSR(Mat, IDRSCSR *);
PETSC_INTERN PetscErrorCode IDRSGetRowLengths(const IDRSCSR *, IDRSRowLengths *);
PETSC_INTERN PetscErrorCode IDRSDeclineRows(Mat, const IDRSRowLengths *, PetscInt, const char *[]);
PETSC_INTERN PetscErrorCode IDRSExceedsCache(PetscLogDouble, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSGetNonzeros(Mat, PetscLogDouble *);
