/*
   The rows of a sequential matrix of type aij or aijcusparse, in the memory of the host, and the arrays of right-hand sides and
   solutions
*/
#pragma once

#include <petscmat.h>

typedef struct {
  Mat                A;
  PetscInt           n;
  const PetscInt    *i, *j;
  const PetscScalar *a;
} IDRSRows;

/* Vectors have one column, dense matrices have several */
typedef struct {
  PetscInt           columns, ldb, ldx;
  const PetscScalar *b;
  PetscScalar       *x;
  PetscMemType       bmem, xmem;
} IDRSArrays;

PETSC_INTERN PetscErrorCode IDRSRowsGet(Mat, IDRSRows *);
PETSC_INTERN PetscErrorCode IDRSRowsRestore(IDRSRows *);
PETSC_INTERN PetscErrorCode IDRSRowsGetBlocks(Mat, Mat *, Mat *, const PetscInt *[]);
PETSC_INTERN PetscErrorCode IDRSRowsGetGhosts(Vec, PetscInt, const PetscInt[], Vec *, VecScatter *);
PETSC_INTERN PetscErrorCode IDRSArraysGet(PetscObject, PetscObject, PetscBool, IDRSArrays *);
PETSC_INTERN PetscErrorCode IDRSArraysRestore(PetscObject, PetscObject, PetscBool, IDRSArrays *);
