/*
   The polynomial preconditioner, for the registration of the library
*/
#pragma once

#include <petscpc.h>

PETSC_INTERN PetscErrorCode PCCreate_Poly(PC);
