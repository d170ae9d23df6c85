/* The functions of blockhost.c in the table of back end "host" */
#pragma once

#include <petscidrs/private/idrsops.h>

PETSC_INTERN PetscErrorCode IDRSBlockArray_Host(Vec, PetscScalar **);
PETSC_INTERN PetscErrorCode IDRSBlockCombine_Host(IDRSWork, PetscInt, const IDRSBlockAxpy[]);
PETSC_INTERN PetscErrorCode IDRSBlockProject_Host(IDRSWork, PetscInt, const IDRSBlockDots[], PetscScalar[]);
