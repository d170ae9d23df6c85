/* Parts of KSPOFFLOAD: copies of matrices, and the preconditioner of the program */
#pragma once

#include <petsc/private/pcimpl.h>
#include <petscidrs/private/idrsmemory.h>

#define OFFLOAD_NULL_SPACES 3 /* null space, transposed null space, near null space */

/* A matrix of the program and its copy. The object states show if the program has changed the matrix */
typedef struct {
  Mat              mat;  /* the copy, or the program's matrix itself if it is on a GPU; NULL before the first set-up */
  Mat              host; /* the program's matrix as MATAIJ, with the pattern of the copy; NULL if the program's matrix is MATAIJ */
  PetscObjectId    id;   /* of the program's matrix */
  PetscObjectState state, nonzerostate;
  PetscObjectId    spaces[OFFLOAD_NULL_SPACES];
} OffloadMat;

/* The result of an update */
typedef enum {
  OFFLOAD_NOTHING,
  OFFLOAD_VALUES,
  OFFLOAD_PATTERN /* and values, into a new copy */
} OffloadCopied;

PETSC_INTERN PetscErrorCode KSPOffloadMatUpdate_Private(Mat, const char[], MatType, OffloadMat *, OffloadCopied *);
PETSC_INTERN PetscErrorCode KSPOffloadMatReset_Private(OffloadMat *);

/* The inner solver, and the preconditioner of the program with its functions */
typedef struct {
  KSP           inner;
  PC            outer;
  struct _PCOps ops;
  PetscBool     setup; /* the preconditioner of the program has been set up */
  /* its PCSetCoordinates(), or NULL */
  PetscErrorCode (*coordinates)(PC, PetscInt, PetscInt, PetscReal *);
} OffloadPC;

PETSC_INTERN PetscErrorCode KSPOffloadReplacePCOps_Private(KSP, OffloadPC *);
PETSC_INTERN PetscErrorCode KSPOffloadRestorePCOps_Private(OffloadPC *);
