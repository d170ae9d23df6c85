/*
   The scale of the rows of a matrix in PCPOLY and PCBJIDRS: the inverse of the diagonal entry, or, if the diagonal entry is zero or
   small, of the largest entry of the row
*/
#pragma once

#include <petscmat.h>

/*
   A diagonal entry is small if |a_ii| <= IDRS_SMALL_DIAGONAL max_j |a_ij|. Saddle points with entries of 1e-4 in place of zeros do
   not converge with the inverse of such entries. The matrix steam2 has entries of 2.5e-4, as its unknowns have different units, and
   converges faster with their inverse
*/
#define IDRS_SMALL_DIAGONAL 2e-4

PETSC_INTERN PetscErrorCode IDRSRowsLargest(Mat, PetscInt, const PetscInt[], Vec, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSReplaceSmallDiagonal(Vec, Vec, Vec, PetscInt *);
PETSC_INTERN PetscErrorCode IDRSViewSmallDiagonal(PetscInt, PetscViewer);

/* With CUDA only: IDRSRowsLargest() for a matrix of type aijcusparse, and a vector on the GPU */
typedef struct {
  PetscErrorCode (*rowslargest)(Mat, PetscInt, const PetscInt[], Vec);
} IDRSDiagonalOps;
PETSC_INTERN const IDRSDiagonalOps IDRSDiagonal_CUDA;
