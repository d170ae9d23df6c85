/* Aggregates of the rows of a matrix, for PCAGGREGATION */
#pragma once

#include <petscmat.h>

/* Rules for the aggregates of a level */
typedef enum {
  AGGREGATES_BOXES, /* of a grid */
  AGGREGATES_PAIRS  /* of pairs, by the strength of couplings */
} AggregatesKind;

/* Aggregates of the rows of this process */
typedef struct {
  AggregatesKind kind;
  PetscInt       count;
  PetscInt      *of;      /* the aggregate of each row, or -1 for none */
  PetscInt       size[3]; /* of a box */
} Aggregates;

PETSC_INTERN PetscErrorCode AggregatesCreate_Private(Mat, Aggregates *);
PETSC_INTERN PetscErrorCode AggregatesCountMissing_Private(Mat, Mat, PetscInt *);
PETSC_INTERN PetscErrorCode AggregatesGetProlongation_Private(MPI_Comm, PetscInt, const Aggregates *, Mat *);
