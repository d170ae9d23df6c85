/*
   The rules of reliable updates and of the growth of r, for the host and for kernels with many steps. All norms of a call may be
   squares, with the squares of the factors. No PETSc call: compiled for host and device.
*/
#pragma once

#include <petscidrs/private/idrsscalars.h>

/*
   Returns PETSC_TRUE if a reliable update is due: rnorm has fallen from the peak since the last update, and below the norm of
   the anchor
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSUpdateIsDue(PetscReal rnorm, PetscReal fall, PetscReal peak, PetscReal anchornorm)
{
  return rnorm < fall * peak && rnorm < anchornorm ? PETSC_TRUE : PETSC_FALSE;
}

/* An updated r that is at most this much larger than the r of the recurrence is no sign of the attainable accuracy */
#define IDRS_UPDATE_CONFIRMS ((PetscReal)2.0)

/* Returns the norm beyond which r is too large for a recurrence that began with a residual of the norm `begin` */
static inline IDRS_HOST_DEVICE PetscReal IDRSGrowthLimit(PetscReal begin, PetscReal growth)
{
  return growth < PETSC_MAX_REAL && begin < PETSC_MAX_REAL ? growth * begin : PETSC_MAX_REAL;
}

/*
   Returns PETSC_TRUE if rr = ||r - omega t||^2, a difference of squares, has at least half of its digits. Otherwise r is nearly
   parallel to t, and the norm must be computed from the vector
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSNormIsSharp(const IDRSScalars *scalars, PetscReal rr)
{
  return rr > PETSC_SQRT_MACHINE_EPSILON * PetscRealPart(scalars->sums[IDRS_SUM_YY(scalars->s)]) ? PETSC_TRUE : PETSC_FALSE;
}
