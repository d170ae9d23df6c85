/*
   What the solves of all blocks have in common, and what comes of each of them
*/
#pragma once

#include <petscksp.h>

#define IDRS_SYSTEM_MAX_S 16

typedef struct {
  PetscReal rtol, abstol; /* rtol is negative where there is no test, and all steps are made */
  PetscReal cosine;
  PetscReal growth; /* of the norm of r over that at the begin of a recurrence, at most */
  PetscInt  s, maxits, maxrestarts;
  uint64_t  seed;
} IDRSSystemLimits;

typedef struct {
  PetscInt           its, products, restarts;
  PetscReal          norm; /* ||b - A x|| */
  KSPConvergedReason reason;
} IDRSSystemResult;
