/*
   For cycles of multigrid PCPOLY composes a function by this name, a step of its smoother: x = B^{-1}b if "zero", else
   x = x + B^{-1}(b - A x) with the same b as in the last step from zero, whose D^{-1}b is kept
*/
#pragma once

#include <petscpc.h>

#define PCPOLY_SMOOTH "PCPolySmooth_C"

typedef PetscErrorCode PCPolySmoothFn(PC, PetscBool, Vec, Vec);
