/*
   Terms of a sum of vectors, for one row. No PETSc call.
*/
#pragma once

#include <petscsys.h>

/* Returns y + first u + c v, without terms whose coefficient is zero */
static __device__ __forceinline__ PetscScalar IDRSAddTerms(PetscScalar y, PetscScalar first, PetscScalar u, PetscScalar c,
                                                           PetscScalar v)
{
  if (first != PetscScalar(0.0)) y += first * u;
  if (c != PetscScalar(0.0)) y += c * v;
  return y;
}
