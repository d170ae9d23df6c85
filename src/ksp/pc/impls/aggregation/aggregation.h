/* Aggregates of the rows of a matrix, for PCAGGREGATION */
#pragma once

#include <petscmat.h>

/* Rules for the aggregates of a level */
typedef enum {
  AGGREGATES_BOXES, /* of a grid */
  AGGREGATES_PAIRS  /* of pairs, by the strength of couplings */
} AggregatesKind;

/*
   The operations on the aggregates of a matrix A of type aij, which are columns of P: P_ij = 1 if row i is in aggregate j, else 0. A
   row without couplings to other rows of its process has no aggregate, unless P would have an empty column
*/
typedef struct {
  const char *where;
  PetscErrorCode (*create)(Mat, AggregatesKind *, Mat *); /* makes P */
  /* a P^T A P for a factor a, with the pattern that is there, or a new one */
  PetscErrorCode (*product)(Mat, Mat, PetscReal, MatReuse, Mat *);
  PetscErrorCode (*missing)(Mat, Mat, PetscInt *); /* counts the rows of this process that have couplings and no aggregate */
} AggregatesOps;

PETSC_INTERN const AggregatesOps Aggregates_Host;

/* With CUDA only: for a MATSEQAIJCUSPARSE. P is a MATSHELL, and products have the type of A */
PETSC_INTERN const AggregatesOps Aggregates_CUDA;
PETSC_INTERN PetscErrorCode      AggregatesRuns_CUDA(Mat, const char *[]);

/* Distances of neighbours in the numbering: 13 in each direction in a grid of three dimensions */
#define GRID_OFFSETS 13

/* A grid of points, numbered direction by direction */
typedef struct {
  PetscInt  n[3];
  PetscInt  size[3];     /* of a box */
  PetscReal coupling[3]; /* sum of the absolute values of the couplings in a direction */
} Grid;

PETSC_INTERN PetscBool GridFromOffsets_Private(PetscInt, PetscInt, const PetscInt[], Grid *);
PETSC_INTERN void      GridSetBoxes_Private(Grid *);

/* A coupling is strong if it is at least this part of the strongest one of its row, and for boxes of its direction */
#define AGGREGATES_STRONG 0.25

/* Passes that join pairs, and rounds of handshakes in a pass */
#define AGGREGATES_PASSES 3
#define AGGREGATES_ROUNDS 12
