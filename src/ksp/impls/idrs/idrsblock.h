/* The data of block IDR(s): idrsblock.c has the decisions, idrsblockcycle.c the steps */
#pragma once

#include "idrsimpl.h"

/* Position in a cycle */
typedef struct {
  PetscInt  k, columns; /* step, and columns of U whose beta has not been added to Z */
  PetscInt  filled;     /* columns of G and U that are not zero */
  PetscInt  its;        /* completed iterations */
  PetscBool directed;   /* the first sum of the direction has been computed */
} KSPIDRSBlockPosition;

typedef struct {
  PetscInt             count; /* right-hand sides */
  KSPIDRSColumn       *column[IDRS_MAX_WIDTH];
  PetscBool            done[IDRS_MAX_WIDTH];
  PetscReal            norms[IDRS_MAX_WIDTH];   /* of r_j, at the last report */
  PetscReal            anchors[IDRS_MAX_WIDTH]; /* at the last reliable update */
  PetscScalar         *S;                       /* m x count, of leading dimension IDRS_MAX_WIDTH */
  KSPIDRSColumns       owners;                  /* the m slots whose vectors are the columns of blocks */
  IDRSBlockScalars     algebra;
  PetscScalar         *storage;                      /* of its matrices */
  IDRSBlockVec        *vecs, *G, *U, *Z, *V, *T, *R; /* G and U: columns of step k from k m on; R follows T */
  IDRSBlockAxpy       *chain[IDRS_BLOCK_COMBINES];   /* sums of one combine */
  IDRSBlockVec        *x;                            /* their operands, and the places of their coefficients */
  IDRSBlockRow        *rows;
  PetscScalar         *C, *sums;
  PetscInt             ld;
  KSPIDRSBlockPosition at;
  PetscInt             reported;                      /* iterations that have been reported */
  PetscReal            rnorm, best, peak, anchornorm; /* Frobenius norms of R */
  PetscInt             stagnation;                    /* steps since the smallest rnorm */
  PetscInt             misses;
  PetscBool            zinvalid; /* Z is not to be used */
  const char          *why;      /* why the others continue with single recurrences, or NULL */
  /* A device does the algebra, and the host launches a step before it reads the norms of the step before */
  PetscBool            async;    /* it can do so */
  PetscBool            ondevice; /* it has the coefficients */
  PetscBool            stopnext; /* the host must decide: the device stops in the next step */
  PetscInt             inflight;
  KSPIDRSBlockPosition launched[2]; /* positions of the steps in flight, the oldest first */
  IDRSBlockDots        dots[2];
  IDRSBlockStep        step; /* the last launched step */
} KSPIDRSBlockRun;

PETSC_INTERN void           KSPIDRSBlockList(PetscInt, const IDRSBlockVec[], Vec[]);
PETSC_INTERN PetscErrorCode KSPIDRSBlockMatvec_Private(KSP, KSPIDRSBlockRun *);
PETSC_INTERN PetscErrorCode KSPIDRSBlockProject_Private(KSP, KSPIDRSBlockRun *);
PETSC_INTERN PetscErrorCode KSPIDRSBlockLaunch_Private(KSP, KSPIDRSBlockRun *, const IDRSBlockBounds *);
PETSC_INTERN PetscErrorCode KSPIDRSBlockCollect_Private(KSP, KSPIDRSBlockRun *, IDRSBlockNorms *, PetscInt *);
PETSC_INTERN PetscErrorCode KSPIDRSBlockFinish_Private(KSP, KSPIDRSBlockRun *, PetscBool *);
PETSC_INTERN PetscErrorCode KSPIDRSBlockFinishColumn_Private(KSP, KSPIDRSBlockRun *);
PETSC_INTERN PetscErrorCode KSPIDRSBlockAddUpdate_Private(KSP, KSPIDRSBlockRun *);
