/*
   The solver of diagonal blocks, for the registration of the library
*/
#pragma once

#include <petscpc.h>

PETSC_INTERN PetscErrorCode PCCreate_BJIDRS(PC);
