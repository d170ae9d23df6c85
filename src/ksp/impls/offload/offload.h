/* Copies of matrices and vectors for KSPOFFLOAD */
#pragma once

#include <petsc/private/pcimpl.h>
#include <petscidrs/private/idrsmemory.h>

#define OFFLOAD_NULL_SPACES 3 /* null space, transposed null space, near null space */

/* The arrays of the program that are copied: values of the diagonal and off-diagonal block of Amat and of Pmat, and vectors */
typedef enum {
  OFFLOAD_AMAT,
  OFFLOAD_PMAT = 2,
  OFFLOAD_RHS  = 4,
  OFFLOAD_SOLUTION,
  OFFLOAD_ARRAYS,
  OFFLOAD_OTHER = OFFLOAD_ARRAYS /* never registered */
} OffloadArray;

/* The arrays that are registered for copies with -offload_pin, which are three times faster */
typedef struct {
  PetscBool   enabled;
  IDRSPinned  set;
  const void *array[OFFLOAD_ARRAYS];
} OffloadPins;

/* A matrix of the program and its copy. The object states tell whether the program has changed the matrix */
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

PETSC_INTERN PetscErrorCode KSPOffloadMatUpdate_Private(Mat, const char[], MatType, OffloadPins *, OffloadArray, OffloadMat *,
                                                        OffloadCopied *);
PETSC_INTERN PetscErrorCode KSPOffloadMatReset_Private(OffloadMat *);
PETSC_INTERN PetscErrorCode KSPOffloadVecCopy_Private(OffloadPins *, OffloadArray, Vec, Vec);
PETSC_INTERN PetscErrorCode KSPOffloadUnpin_Private(OffloadPins *);

/* The inner solver, and the preconditioner of the program, whose functions are kept here */
typedef struct {
  KSP           inner;
  PC            outer;
  struct _PCOps ops;
  PetscBool     setup; /* the preconditioner of the program has been set up */
} OffloadPC;

PETSC_INTERN PetscErrorCode KSPOffloadTakePC_Private(KSP, PetscBool, OffloadPC *);
PETSC_INTERN PetscErrorCode KSPOffloadReleasePC_Private(OffloadPC *);
