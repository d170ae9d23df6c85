/* The data of block IDR(s): idrsblock.c has the decisions, idrsblockcycle.c the steps, idrsblockbasis.c the basis */
#pragma once

#include "idrsimpl.h"

/* The operation that applies the preconditioner on the right */
typedef enum {
  KSPIDRS_BLOCK_PC_NONE,
  KSPIDRS_BLOCK_PC_DIAGONAL, /* by block combine */
  KSPIDRS_BLOCK_PC_SEPARATE  /* between V and U_k */
} KSPIDRSBlockPC;

/* Position in a cycle */
typedef struct {
  PetscInt  k, columns; /* step, and columns of U whose beta has not been added to Z */
  PetscInt  filled;     /* columns of G and U that are not zero */
  PetscInt  its;        /* completed iterations */
  PetscBool directed;   /* the first sum of the direction has been computed */
} KSPIDRSBlockPosition;

/* Blocks of m columns. G and U have the columns of step k from k m on; R follows T. P, of the omega step, is V or R */
typedef struct {
  KSPIDRSColumns owners; /* the m slots whose vectors are the columns */
  IDRSBlockVec  *G, *U, *Z, *V, *T, *R, *P;
} KSPIDRSBlockVecs;

/* Sums that block combine computes, one after another, with the operands and coefficients of all of them */
typedef struct {
  PetscInt       count, operands;
  IDRSBlockAxpy *sum;
  IDRSBlockVec  *x;
  PetscScalar   *C; /* the coefficients, of leading dimension ld */
  PetscInt       ld;
} KSPIDRSBlockProgram;

/* The algebra of a block recurrence on the host */
typedef struct {
  IDRSBlockScalars algebra;
  IDRSBlockBounds  bounds;
  PetscScalar     *results; /* the sums of the last projection */
  IDRSBlockNorms   norms;   /* of this step */
} KSPIDRSBlock;

/* After a report: none, some or all of the right-hand sides that are not done have a reason to end */
typedef enum {
  KSPIDRS_BLOCK_NONE_ENDS,
  KSPIDRS_BLOCK_SOME_END,
  KSPIDRS_BLOCK_ALL_END
} KSPIDRSBlockEnding;

/* State of a block recurrence. Each column has the norms of its r, and rec.added once its solution is complete */
typedef struct {
  KSPIDRSColumns       cols; /* right-hand sides */
  IDRSWork             work; /* of the first slot, for the operations on blocks */
  KSPIDRSBlockPC       pc;
  KSPIDRSBlockVecs     vecs;
  KSPIDRSBlock         block;
  KSPIDRSBlockProgram  program;
  KSPIDRSBlockPosition at;
  KSPIDRSTrust         trust;      /* Frobenius norms of R, and failed verifications */
  PetscReal            smallest;   /* Frobenius norm of R so far, */
  PetscInt             stagnation; /* and the steps since then */
  KSPIDRSReason        why;        /* why remaining right-hand sides continue with single recurrences, or NULL */
} KSPIDRSBlockRun;

/* Reasons to end */
#define IDRS_BLOCK_BROKEN "the block recurrence has broken down"
#define IDRS_BLOCK_GROWN  "its residuals have grown too far"

/* idrsblockcycle.c */
PETSC_INTERN PetscErrorCode KSPIDRSBlockAddUpdate_Private(KSPIDRSBlockRun *);
PETSC_INTERN PetscErrorCode KSPIDRSBlockMatvec_Private(KSP, KSPIDRSBlockRun *);
PETSC_INTERN PetscErrorCode KSPIDRSBlockProject_Private(KSPIDRSBlockRun *);
PETSC_INTERN PetscErrorCode KSPIDRSBlockFinish_Private(KSPIDRSBlockRun *, PetscBool *);
PETSC_INTERN PetscErrorCode KSPIDRSBlockFinishColumn_Private(KSPIDRSBlockRun *);

/* idrsblockbasis.c */
PETSC_INTERN PetscErrorCode KSPIDRSBlockCreate_Private(KSP, const KSPIDRSColumns *, KSPIDRSBlockRun *);
PETSC_INTERN PetscErrorCode KSPIDRSBlockAnchor_Private(KSP, KSPIDRSBlockRun *);
PETSC_INTERN PetscErrorCode KSPIDRSBlockAddSolutions_Private(KSPIDRSBlockRun *, const PetscBool[]);
