/* The permutation of a matching in the memory of the GPU, for kernels that permute what they read */
#pragma once

#include <petscidrs/private/idrsmatching.h>

PETSC_INTERN PetscErrorCode IDRSMatchingGetPlaces(IDRSMatching, const PetscInt **, const PetscInt **);
