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

PETSC_EXTERN PetscErrorCode IDRSRowsGet(Mat, IDRSRows *);
PETSC_EXTERN PetscErrorCode IDRSRowsRestore(IDRSRows *);
PETSC_EXTERN PetscErrorCode IDRSRowsGetBlocks(Mat, Mat *, Mat *, const PetscInt *[]);
PETSC_EXTERN PetscErrorCode IDRSRowsGetGhosts(Vec, PetscInt, const PetscInt[], Vec *, VecScatter *);
PETSC_EXTERN PetscErrorCode IDRSArraysGet(PetscObject, PetscObject, PetscBool, IDRSArrays *);
PETSC_EXTERN PetscErrorCode IDRSArraysRestore(PetscObject, PetscObject, PetscBool, IDRSArrays *);
