/*
   The type of PetscSF that sends from GPU to GPU
*/
#pragma once

#include <petscsf.h>

PETSC_INTERN PetscErrorCode PetscSFCreate_NCCL(PetscSF);
PETSC_INTERN PetscErrorCode IDRSScatterIsNCCL(PetscSF, PetscBool *);
