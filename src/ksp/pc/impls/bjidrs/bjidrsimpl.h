/*
   The data of PCBJIDRS, and what its files offer each other. Calls point one way: a file calls only files to its right

     bjidrs.c   { bjidrsset.c, bjidrsblocks.c, bjidrshost.c }
*/
#pragma once

#include <petsc/private/pcimpl.h>
#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsrows.h>
#include <petscidrs/private/idrsblocklimits.h>

/* Where the blocks come from */
typedef enum {
  BJIDRS_PATTERN,
  BJIDRS_VARIABLE,
  BJIDRS_NUMBER,
  BJIDRS_SIZES
} BJIDRSSource;

typedef struct {
  KSP inner; /* carries options, and does not solve */

  PetscInt  nasked; /* blocks of this process that the user wants, or none */
  PetscInt *sizes;  /* and their sizes, or NULL: all the same */

  Mat          A; /* the diagonal block of this process, which has the blocks */
  BJIDRSSource source;
  PetscInt     nblocks, largest;
  PetscInt    *starts;  /* nblocks + 1: first rows */
  Vec          inverse; /* diagonal of B^{-1}, or NULL */

  /* of the last application: a system for each block, and for each column of a matrix all of them */
  PetscInt            nsystems, room;
  KSPConvergedReason *reasons;
  PetscInt           *its;
  PetscReal          *norms;
} PC_BJIDRS;

/* bjidrsset.c */
PETSC_INTERN PetscErrorCode BJIDRSGetInner_Private(PC, KSP *);
PETSC_INTERN PetscErrorCode BJIDRSGetLimits_Private(PC, IDRSBlockLimits *);
PETSC_INTERN PetscErrorCode BJIDRSComposeSetters_Private(PC, PetscBool);

/* bjidrsblocks.c */
PETSC_INTERN PetscErrorCode BJIDRSFindBlocks_Private(PC);

/* bjidrshost.c */
PETSC_INTERN PetscErrorCode BJIDRSSolve_Host(PC, const IDRSBlockLimits *, PetscInt, PetscInt, const PetscScalar[], PetscInt, PetscScalar[]);
