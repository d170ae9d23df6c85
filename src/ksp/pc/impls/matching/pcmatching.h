/*
   The preconditioner for the permuted and scaled matrix of a matching, for the registration of the library
*/
#pragma once

#include <petscpc.h>

PETSC_INTERN PetscErrorCode PCCreate_Matching(PC);
