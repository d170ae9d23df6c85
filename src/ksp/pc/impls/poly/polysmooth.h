/*
   For cycles of multigrid PCPOLY composes a function by this name, a step of its smoother: x = B^{-1}b if "zero", else
   x = x + B^{-1}(b - A x) with the same b as in the last step from zero, whose D^{-1}b is kept; and a function that computes the
   residual r = b - A x after a step from zero, by the copy if there is one. Later x have larger parts for which A x is small, and
   then the rounding of the copy is too large
*/
#pragma once

#include <petscpc.h>

#define PCPOLY_SMOOTH   "PCPolySmooth_C"
#define PCPOLY_RESIDUAL "PCPolyResidual_C"

typedef PetscErrorCode PCPolySmoothFn(PC, PetscBool, Vec, Vec);
typedef PetscErrorCode PCPolyResidualFn(PC, Vec, Vec, Vec);
