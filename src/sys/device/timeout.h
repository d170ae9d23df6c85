/*
   How long the host waits for sums and messages of other processes that come from GPU to GPU
*/
#pragma once

#include <petscsys.h>

PETSC_INTERN PetscErrorCode IDRSSetTimeout(PetscReal);
PETSC_INTERN PetscReal      IDRSGetTimeout(void);
