/*
   The settings of all systems, and the result of each
*/
#pragma once

#include <petscksp.h>
#include <petscidrs/private/idrsshadow.h>

#define IDRS_SYSTEM_MAX_S 16

/* PETSc's default of -ksp_max_it. A system that reaches another limit, set by the user, has not failed */
#define IDRS_SYSTEM_DEFAULT_MAXITS 10000

typedef struct {
  PetscReal rtol, abstol; /* rtol < 0: all steps are made, without a test */
  PetscReal cosine;
  PetscReal growth; /* largest ||r|| relative to ||r|| at the beginning of a recurrence */
  PetscInt  s, maxits, maxrestarts;
  uint64_t  seed;
} IDRSSystemLimits;

typedef struct {
  PetscInt           its, products, restarts;
  PetscReal          norm; /* ||b - A x|| */
  KSPConvergedReason reason;
} IDRSSystemResult;

/* Returns PETSC_TRUE if a system has failed. As for KSPCheckSolve(), a limit of iterations that the user has set is no failure */
static inline IDRS_HOST_DEVICE PetscBool IDRSSystemFails(const IDRSSystemLimits *limits, KSPConvergedReason reason)
{
  return reason < 0 && (reason != KSP_DIVERGED_ITS || limits->maxits == IDRS_SYSTEM_DEFAULT_MAXITS) ? PETSC_TRUE : PETSC_FALSE;
}
