/*
   The settings of all systems, and the result of each
*/
#pragma once

#include <petscksp.h>

#define IDRS_SYSTEM_MAX_S 16

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
