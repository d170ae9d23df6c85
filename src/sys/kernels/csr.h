/*
   The arrays of a MATSEQAIJCUSPARSE on the device, and the lengths of its rows
*/
#pragma once

#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsrows.h>
#include <petscmat.h>

typedef struct {
  const IDRSMatIndex *i, *j;
  const PetscScalar  *a;
  PetscInt            n;
} IDRSCSR;

/* Rows with more entries than a limit are long */
typedef struct {
  unsigned long long places;      /* sum over slices of 32 rows: 32 times the largest length of a row that is not long */
  unsigned long long longentries; /* in long rows */
  unsigned int       longrows;
  unsigned int       longest; /* largest number of entries in a row */
} IDRSRowLengths;

PETSC_INTERN PetscErrorCode IDRSGetCSR(Mat, IDRSCSR *);
PETSC_INTERN PetscErrorCode IDRSGetRowLengths(const IDRSCSR *, unsigned int, IDRSRowLengths *);
PETSC_INTERN const char    *IDRSDeclineLongRow(PetscLogDouble, unsigned int);
PETSC_INTERN PetscErrorCode IDRSDeclineRows(Mat, unsigned int, const char *[]);
PETSC_INTERN PetscErrorCode IDRSExceedsCache(PetscLogDouble, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSGetNonzeros(Mat, PetscLogDouble *);
PETSC_INTERN PetscErrorCode IDRSGetRowLanes(Mat, int *);
