/*
   Distribution of a system among the blocks of kernels of many steps: see wholelayout.cu
*/
#pragma once

#include "wholecluster.h"

/* With a polynomial preconditioner: the lanes that have the rows, see rowlanes.h, on the device */
typedef struct {
  unsigned int count;  /* 0: there are too few, or a row is too long */
  size_t       places; /* of a product, for entries and sums of further warps of a row */
  IDRSRowLane *lane;
} IDRSWholeLanes;

/* The distribution of a system among the blocks of kernels: its vectors and its matrices, the operator and that of a polynomial */
typedef struct {
  PetscObjectId    id[2]; /* of matrices whose rows are known; 0: no polynomial */
  PetscObjectState pattern[2];
  PetscInt         asked, solves; /* side by side: so many were asked for, and there is room for so many */
  PetscInt         nonzeros;      /* of the operator */
  PetscInt         own;           /* entries of a row of the operator that its lane takes */
  PetscInt         turns;         /* of a warp at most */
  bool             diagonal;
  IDRSClustered    clustered; /* how the system lies in shared memory, with a diagonal or without */
  IDRSWholeLanes   lanes;     /* with a polynomial: the system is in global memory */
} IDRSWholeLayout;

PETSC_INTERN PetscErrorCode IDRSWholeLayOut_CUDA(IDRSWork, PetscInt, IDRSWholeLayout *);
PETSC_INTERN PetscErrorCode IDRSWholeLayoutDestroy_CUDA(IDRSWholeLayout *);

PETSC_INTERN PetscErrorCode IDRSWholeLanesSetUp_CUDA(PetscInt, const PetscInt[], const PetscInt[], PetscInt, IDRSWholeLanes *);
PETSC_INTERN PetscErrorCode IDRSWholeLanesDestroy_CUDA(IDRSWholeLanes *);
PETSC_INTERN PetscErrorCode IDRSWholeGetPolynomial_CUDA(IDRSWork, const IDRSWholeLanes *, IDRSWholePolynomial *);
PETSC_INTERN PetscErrorCode IDRSWholePolyLaunch_CUDA(IDRSWork, const IDRSWholePolynomial *, IDRSMarked *, const IDRSWholeSteps *,
                                                     cudaStream_t);
