/* The type PCGAMGPATTERN of PCGAMG */
#pragma once

#include <petscpc.h>

PETSC_INTERN PetscErrorCode PCGAMGCreate_Pattern(PC);
