/*
   Conditions for kernels on the arrays of a matrix in place of MatMult()
*/
#pragma once

#include <petscidrs/private/idrsplace.h>
#include <petscidrs/private/idrsproduct.h>

PETSC_INTERN PetscErrorCode IDRSMatRuns_CUDA(Mat, const char *[]);
PETSC_INTERN PetscErrorCode IDRSProductRuns_CUDA(IDRSProduct, const char *[]);
