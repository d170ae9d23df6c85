/*
   The rows of a sequential matrix of type aij or aijcusparse, in the memory of the host
*/
#pragma once

#include <petscmat.h>

typedef struct {
  Mat                A;
  PetscInt           n;
  const PetscInt    *i, *j;
  const PetscScalar *a;
} IDRSRows;

PETSC_INTERN PetscErrorCode IDRSRowsGet(Mat, IDRSRows *);
PETSC_INTERN PetscErrorCode IDRSRowsRestore(IDRSRows *);
PETSC_INTERN PetscErrorCode IDRSRowsGetBlocks(Mat, Mat *, Mat *, const PetscInt *[]);
PETSC_INTERN PetscErrorCode IDRSRowsGetGhosts(Vec, PetscInt, const PetscInt[], Vec *, VecScatter *);
