/*
   The rows of a sequential matrix of type aij or aijcusparse, in the memory of the host; the arrays of right-hand sides and
   solutions; and the scale of the rows of a matrix in PCPOLY and PCBJIDRS: the inverse of the diagonal entry, or, if the diagonal
   entry is zero or small, of the largest entry of the row
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
PETSC_EXTERN PetscErrorCode IDRSArraysGet(PetscObject, PetscObject, PetscBool, IDRSArrays *);
PETSC_EXTERN PetscErrorCode IDRSArraysRestore(PetscObject, PetscObject, PetscBool, IDRSArrays *);

/* A MATSHELL whose rows are on one GPU composes a function by this name, which gets them as IDRSGetCSR() does */
#define IDRS_ROWS "IDRSGetCSR_C"

/*
   A diagonal entry is small if |a_ii| <= IDRS_SMALL_DIAGONAL max_j |a_ij|. Saddle points with entries of 1e-4 in place of zeros do
   not converge with the inverse of such entries. The matrix steam2 has entries of 2.5e-4, as its unknowns have different units, and
   converges faster with their inverse
*/
#define IDRS_SMALL_DIAGONAL 2e-4

PETSC_INTERN PetscErrorCode IDRSRowsGetInverse(Mat, PetscInt, const PetscInt[], Vec, Vec, Vec, PetscInt *);
PETSC_INTERN PetscErrorCode IDRSViewSmallDiagonal(PetscInt, PetscViewer);

/*
   With CUDA only: the largest entries of IDRSRowsGetInverse(), and unless they are NULL the inverse and the count, for a matrix of
   type aijcusparse, and vectors on the GPU
*/
typedef struct {
  PetscErrorCode (*inverse)(Mat, PetscInt, const PetscInt[], Vec, Vec, PetscInt *);
} IDRSDiagonalOps;
PETSC_INTERN const IDRSDiagonalOps IDRSDiagonal_CUDA;
