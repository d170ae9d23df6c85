/*
   The copy of a matrix in the sliced format: its life
*/
#pragma once

#include <petscidrs/private/idrsproduct.h>
#include "sliced.cuh"

typedef struct {
  IDRSSliced     A;
  unsigned char *chunks;
  uint32_t      *slices; /* offset and width */
  uint16_t      *perm;
  PetscBool      once; /* A and the vectors of a matvec are more than the L2 cache holds */
} IDRSSlicedCopy;

PETSC_INTERN PetscErrorCode IDRSProductSetUp_Sliced(IDRSProduct, PetscBool, const char *[]);
PETSC_INTERN PetscErrorCode IDRSProductReset_Sliced(IDRSProduct);
