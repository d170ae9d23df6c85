/*
   Registration of the factorisation package MATSOLVERPETSCIDRS
*/
#pragma once

#include <petscmat.h>

PETSC_INTERN PetscErrorCode MatSolverTypeRegister_PETScIDRS(void);
