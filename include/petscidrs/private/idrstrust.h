/*
   What keeps r near to b - A x: when r is to be computed afresh, what that confirms, and how large r may become. The host decides
   so between two runs, and a kernel with many steps by itself.

   All norms of a call may as well be squares, with the squares of the factors. No PETSc call: compiled for host and device.
*/
#pragma once

#include <petscidrs/private/idrsscalars.h>

/*
   Whether r has fallen so far, to this norm, that a reliable update is due: from the largest norm since the last one, and below
   that of the residual it began with
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSUpdateIsDue(PetscReal rnorm, PetscReal fall, PetscReal peak, PetscReal anchornorm)
{
  return rnorm < fall * peak && rnorm < anchornorm ? PETSC_TRUE : PETSC_FALSE;
}

/*
   An update whose r is not larger than the one of the recurrence by more than this factor confirms it, and says nothing of the
   attainable accuracy
*/
#define IDRS_UPDATE_CONFIRMS ((PetscReal)2.0)

/*
   The norm beyond which r is too large for a recurrence that began with a residual of the norm `begin`: none where that is not
   known, or the factor says so
*/
static inline IDRS_HOST_DEVICE PetscReal IDRSGrowthLimit(PetscReal begin, PetscReal growth)
{
  return growth < PETSC_MAX_REAL && begin < PETSC_MAX_REAL ? growth * begin : PETSC_MAX_REAL;
}

/*
   Whether rr = ||r - omega t||^2, a difference of squares, keeps at least half of its digits. It does not where r has hardly any
   component but the one along t, and the norm is computed from the vector there
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSNormIsSharp(const IDRSScalars *scalars, PetscReal rr)
{
  return rr > PETSC_SQRT_MACHINE_EPSILON * PetscRealPart(scalars->sums[IDRS_SUM_YY(scalars->s)]) ? PETSC_TRUE : PETSC_FALSE;
}
