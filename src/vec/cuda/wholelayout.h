/*
   Distribution of a system among the blocks of kernels of many steps: see wholelayout.cu
*/
#pragma once

#include "wholecluster.h"

/* The lanes of rows with a polynomial preconditioner, on the device, see rowlanes.h */
typedef struct {
  unsigned int count;  /* 0: too few lanes, or a row is too long */
  size_t       places; /* per product: entries, and sums of further warps */
  IDRSRowLane *lane;
} IDRSWholeLanes;

/* The distribution of a system among the blocks of kernels: its vectors and its matrices, the operator and that of a polynomial */
typedef struct {
  PetscObjectId    id[2]; /* of the matrices of this layout; 0: no polynomial */
  PetscObjectState pattern[2];
  PetscInt         asked, solves; /* concurrent solves: requested, and possible */
  PetscInt         nonzeros;      /* of the operator */
  PetscInt         own;           /* entries of a row of the operator that its own lane adds */
  PetscInt         turns;         /* most batches of loads of a warp */
  bool             diagonal;
  IDRSClustered    clustered; /* placement of the system in shared memory, with a diagonal or without */
  IDRSWholeLanes   lanes;     /* with a polynomial: the system is in global memory */
} IDRSWholeLayout;

PETSC_INTERN PetscErrorCode IDRSWholeLayOut_CUDA(IDRSWork, PetscInt, IDRSWholeLayout *);
PETSC_INTERN PetscErrorCode IDRSWholeLayoutDestroy_CUDA(IDRSWholeLayout *);

PETSC_INTERN PetscErrorCode IDRSWholeLanesSetUp_CUDA(PetscInt, const PetscInt[], const PetscInt[], PetscInt, IDRSWholeLanes *);
PETSC_INTERN PetscErrorCode IDRSWholeLanesDestroy_CUDA(IDRSWholeLanes *);
PETSC_INTERN PetscErrorCode IDRSWholeGetPolynomial_CUDA(IDRSWork, const IDRSWholeLanes *, IDRSWholePolynomial *);
PETSC_INTERN PetscErrorCode IDRSWholePolyLaunch_CUDA(IDRSWork, const IDRSWholePolynomial *, IDRSMarked *, const IDRSWholeSteps *,
                                                     cudaStream_t);
