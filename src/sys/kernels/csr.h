/*
   The arrays of a MATSEQAIJCUSPARSE on the device, and what is known of its rows
*/
#pragma once

#include <petscidrs/private/idrscompat.h>
#include <petscmat.h>

typedef struct {
  const IDRSMatIndex *i, *j;
  const PetscScalar  *a;
  PetscInt            n;
} IDRSCSR;

/* Long rows are those of more entries than a limit */
typedef struct {
  unsigned long long places;      /* slices of 32 neighbouring rows times their longest row that is not long times 32 */
  unsigned long long longentries; /* in long rows */
  unsigned int       longrows;
  unsigned int       longest; /* row of all */
} IDRSRowLengths;

PETSC_INTERN PetscErrorCode IDRSGetBlocks(Mat, Mat *, Mat *);
PETSC_INTERN PetscErrorCode IDRSGetCSR(Mat, IDRSCSR *);
PETSC_INTERN PetscErrorCode IDRSGetRowLengths(const IDRSCSR *, unsigned int, IDRSRowLengths *);
PETSC_INTERN const char    *IDRSDeclineLongRow(PetscLogDouble, unsigned int);
PETSC_INTERN PetscErrorCode IDRSDeclineRows(Mat, unsigned int, PetscBool, const char *[]);
PETSC_INTERN PetscErrorCode IDRSExceedsCache(PetscLogDouble, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSGetNonzeros(Mat, PetscLogDouble *);
PETSC_INTERN PetscErrorCode IDRSGetRowLanes(Mat, int *);
