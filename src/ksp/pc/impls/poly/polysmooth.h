/*
   For cycles of multigrid PCPOLY composes functions by these names:

   - the set-up as a smoother. On levels that are visited more than once, the copy has values in single precision
   - a step of the smoother: x = B^{-1}b if "zero", else x = x + B^{-1}(b - A x) with the b of the last step from zero, whose
   D^{-1}b is kept
   - the residual r = b - A x, with the same b, by the copy if its precision suffices. "first": after a step from zero. Later x have
   larger parts for which A x is small, and then the rounding of half precision is too large
*/
#pragma once

#include <petscpc.h>

#define PCPOLY_SMOOTHER "PCPolySetSmoother_C"
#define PCPOLY_SMOOTH   "PCPolySmooth_C"
#define PCPOLY_RESIDUAL "PCPolyResidual_C"

typedef PetscErrorCode PCPolySmoothFn(PC, PetscBool, Vec, Vec);
