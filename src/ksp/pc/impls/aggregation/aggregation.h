/* Aggregates of the rows of a matrix, for PCAGGREGATION */
#pragma once

#include <petsc/private/kspimpl.h>
#include <petsc/private/pcmgimpl.h>
#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrspowers.h>

#define AGGREGATION_LEVELS   30
#define AGGREGATION_COARSEST 600   /* rows of a level that needs no coarser one, and most rows of one that is inverted on a GPU */
#define AGGREGATION_SMALL    20000 /* most rows of a level in the kernel for small levels, and of one that every process has */

/* Rules for the aggregates of a level */
typedef enum {
  AGGREGATES_BOXES, /* of a grid */
  AGGREGATES_PAIRS  /* of pairs, by the strength of couplings */
} AggregatesKind;

/*
   The operations on the aggregates of a matrix A of type aij, which are columns of P: P_ij = 1 if row i is in aggregate j, else 0.
   A row without couplings to other rows of its process has no aggregate, unless P would have an empty column
*/
typedef struct {
  const char *where;
  PetscInt    coarsest, parallelcoarsest;      /* rows of a matrix that needs no coarser level, on one process and on several */
  PetscErrorCode (*runs)(Mat, const char *[]); /* sets the reason why these operations do not support the matrix, or NULL */
  /* makes P, or sets such a reason */
  PetscErrorCode (*create)(Mat, AggregatesKind *, Mat *, const char *[]);
  /* a P^T A P for a factor a, with the pattern that is there, or a new one */
  PetscErrorCode (*product)(Mat, Mat, PetscReal, MatReuse, Mat *);
  PetscErrorCode (*missing)(Mat, Mat, PetscInt *); /* counts the rows of this process that have couplings and no aggregate */
  /* gets the matrix of a level as one of PETSc's types for every preconditioner; it is not destroyed by the caller */
  PetscErrorCode (*entries)(Mat, Mat *);
} AggregatesOps;

PETSC_INTERN const AggregatesOps Aggregates_Host;

/* With CUDA only: for a MATAIJCUSPARSE. P is a MATSHELL, and products have the type of A */
PETSC_INTERN const AggregatesOps Aggregates_CUDA;

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

/*
   The mantissa of a strength is rounded to 2, 3 or 4 of these parts. Otherwise, where couplings grow along a line of cells, each
   row would point to the next one, and a round would find one pair. Roundings do not meet at fractions of small numbers
*/
#define AGGREGATES_PARTS 4.1

/*
   Passes that join pairs, and rounds of handshakes in a pass. If rows have few strong couplings on average, as in two dimensions or
   with stretched cells, three passes would join 8 rows of a line, whose errors a smoother does not reduce
*/
#define AGGREGATES_PASSES     3
#define AGGREGATES_PASSES_FEW 2
#define AGGREGATES_FEW        5
#define AGGREGATES_ROUNDS     12

/* The inverse of the coarsest matrix on a GPU, and the transposed inverse that it has computed last, or NULL */
typedef struct _n_AggregationInverse *AggregationInverse;
typedef struct {
  AggregationInverse inverse;
  Mat                transposed;
} AggregationCoarsest;

/* A kernel that makes the visits of small levels, and the exchange of the right-hand side between processes */
typedef struct _n_AggregationCycle  *AggregationCycle;
typedef struct _n_AggregationGather *AggregationGather;

/* A level for this kernel, and the step to the next coarser one */
typedef struct {
  Mat                   A, P;
  PetscInt              visits; /* of the coarser level */
  const IDRSPolynomial *polynomial;
} AggregationStep;

/*
   The small levels. On several processes the cycle belongs to the PC inside PCREDUNDANT, the solver of level 0, whose solves make
   `visits`
*/
typedef struct {
  AggregationCycle  cycle;  /* NULL: the levels are like others */
  PetscInt          levels; /* number of them; on several processes 1, for level 0 */
  AggregationGather gather; /* on several processes; kept for new values */
  PetscInt          visits;
} AggregationSmall;

typedef struct {
  /*
     makes the kernel, or sets the reason why it does not support these levels. The number of levels is reduced to those whose
     vectors fit in the memory of the kernel. The matrix is the one of `invertend`
  */
  PetscErrorCode (*create)(PetscInt *, const AggregationStep[], Mat, AggregationCycle *, const char *[]);
  /* visits of the highest level from x = 0 */
  PetscErrorCode (*apply)(AggregationCycle, AggregationGather, PetscInt, Vec, Vec);
  PetscErrorCode (*destroy)(AggregationCycle *);
  /* begin and end to compute the transposed inverse; false if it is not finite. If the matrix is singular, see inversecuda.cu */
  PetscErrorCode (*invertbegin)(Mat, AggregationInverse *);
  PetscErrorCode (*invertend)(Mat, AggregationInverse *, Mat *, PetscBool *);
  PetscErrorCode (*destroyinverse)(AggregationInverse *);
  PetscErrorCode (*gather)(Vec, AggregationGather *, const char *[]);
  PetscBool (*gatherisvalid)(AggregationGather);
  PetscErrorCode (*destroygather)(AggregationGather *);
} AggregationCycleOps;

/* With CUDA only */
PETSC_INTERN const AggregationCycleOps AggregationCycles_CUDA;
PETSC_INTERN PetscErrorCode            PCAggregationBeginInverse_Private(PC, Mat, AggregationCoarsest *);
PETSC_INTERN PetscErrorCode            PCAggregationSetUpSmall_Private(PC, AggregationCoarsest *, AggregationSmall *);
PETSC_INTERN PetscErrorCode            PCAggregationConnectSmall_Private(PC, KSP, const AggregationSmall *, AggregationSmall *);

PETSC_INTERN PetscErrorCode PCAggregationSetInverse_Private(PC, AggregationCoarsest *);
PETSC_INTERN PetscErrorCode PCAggregationIsPlain_Private(PC, PetscBool *);
PETSC_INTERN PetscErrorCode PCAggregationVisit_Private(PC, const AggregationSmall *, PetscInt, PetscInt, Vec, Vec);
