/*
   For cycles of multigrid PCPOLY composes a function by this name, a step of its smoother: x = B^{-1}b if "zero", else
   x = x + B^{-1}(b - A x)
*/
#pragma once

#include <petscpc.h>

#define PCPOLY_SMOOTH "PCPolySmooth_C"

typedef PetscErrorCode PCPolySmoothFn(PC, PetscBool, Vec, Vec);

/* A MATSHELL whose rows are on the GPU composes a function by this name, which gets them as IDRSGetCSR() does */
#define PCPOLY_ROWS "PCPolyGetRows_C"
