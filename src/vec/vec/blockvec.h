/* The functions of blockvec.c in the table of back end "vec" */
#pragma once

#include <petscidrs/private/idrsops.h>

/* Also for other projections: idrsvec.c */
PETSC_INTERN PetscErrorCode IDRSVecMDotLocal(Vec, PetscInt, const Vec[], PetscScalar[]);
PETSC_INTERN PetscErrorCode IDRSBlockCombine_Vec(IDRSWork, PetscInt, const IDRSBlockAxpy[]);
PETSC_INTERN PetscErrorCode IDRSBlockProject_Vec(IDRSWork, PetscInt, const IDRSBlockDots[], PetscScalar[]);
