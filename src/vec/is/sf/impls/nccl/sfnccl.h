/*
   A type of PetscSF that sends between GPUs
*/
#pragma once

#include <petscsf.h>

PETSC_INTERN PetscErrorCode PetscSFCreate_NCCL(PetscSF);
PETSC_INTERN PetscErrorCode IDRSScatterIsNCCL(PetscSF, PetscBool *);
