/*
   How a system is distributed among the blocks of kernels of many steps: see wholelayout.cu
*/
#pragma once

#include "wholecluster.h"

/* How a system is distributed among the blocks of kernels */
typedef struct {
  PetscObjectId    id; /* of the matrix whose rows are known */
  PetscObjectState pattern;
  PetscInt         asked, solves; /* side by side: so many were asked for, and there is room for so many */
  PetscInt         nonzeros;
  PetscInt         own;   /* entries of a row that its lane takes */
  PetscInt         turns; /* of a warp at most */
  bool             diagonal;
  IDRSClustered    clustered; /* how the system lies in shared memory, with a diagonal or without */
  /* with a polynomial preconditioner the system is in global memory; of its matrix the same is known as of the operator */
  bool             polynomial;
  PetscObjectId    polyid;
  PetscObjectState polypattern;
  PetscInt         polyown, polyturns, polynonzeros;
} IDRSWholeLayout;

/* Thread blocks whose rows are in global memory, if the device has enough multiprocessors: a row for each thread */
static inline PetscInt IDRSWholeBlocks(IDRSWork work)
{
  return PetscMax((work->n + IDRS_THREADS - 1) / IDRS_THREADS, 1);
}

PETSC_INTERN PetscErrorCode IDRSWholeLayOut_CUDA(IDRSWork, PetscInt, IDRSWholeLayout *);
