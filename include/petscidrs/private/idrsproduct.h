/*
   The contract of products: x = A u, or A^T u. PETSc's MatMult() computes it for every operator. The back ends here compute it
   together with the projection of x, on a device, so that x is not read again: see idrsops.h.

     csr      the arrays of the matrix as they are
     sliced   a copy made for the device, see src/mat/cuda/sliced.cuh

   Y_j = A X_j for several columns reads A once, with these, and with

     host     the arrays of the matrix in the memory of the host

   The solver creates a product, tells it the operator at the begin of every solve, and lets the projections compute A u where a
   back end runs. b - A x is always computed by MatMult(), so that what verifies a solution does not depend on the kernels that it
   came from. csr and sliced look for dense blocks of the block size of A: see src/mat/cuda/tileindex.h.

   Columns are vectors of their own, each with an array of its own. A back end that projections have is that of several columns,
   too; else the first of csr and host that runs on all processes, with vectors that are on the device on all of them where it is
   csr. A^T X takes A^T as a matrix, which is made at the first such product with these values of A. All processes agree on that
   once an operator has been set, at the first product of several columns; after that, those with A^T see new values that all
   processes have set, and not those that one of them has written to its blocks alone.
*/
#pragma once

#include <petscmat.h>
#include <petscidrs.h>

/* Columns that a product takes at once, at most */
#define IDRS_MAX_WIDTH 16

typedef struct _n_IDRSProduct   *IDRSProduct;
typedef struct _n_IDRSProjection IDRSProjection; /* of the back end that launches it */

/* The matvec in a projection, on a device */
typedef struct {
  PetscErrorCode (*project)(IDRSProduct, const IDRSProjection *); /* x = A u with its sums */
  /*
     whether the kernels can exchange the halo themselves, of 1 column or of up to IDRS_MAX_WIDTH columns. The product may be NULL
     on this process. Collective, between processes whose devices map each other's memory
  */
  PetscErrorCode (*connect)(IDRSProduct, MPI_Comm, PetscInt, PetscBool *);
} IDRSProjectOps;

typedef struct {
  const char *name;
  /* sets the string to NULL, or to the reason why it cannot run on A */
  PetscErrorCode (*runs)(IDRSProduct, const char *[]);
  /* at the begin of a solve, for an A that has changed or not; the reason why it had better not run on A, or found no memory */
  PetscErrorCode (*setup)(IDRSProduct, PetscBool, const char *[]);
  const IDRSProjectOps *projection; /* NULL: only several columns */
  /* Y_j = A X_j for 1 to IDRS_MAX_WIDTH columns, where vectors are on the side of the matrix */
  PetscErrorCode (*columns)(IDRSProduct, PetscInt, Vec[], Vec[]);
  /* whether that may take memory for a block by rows, with this operator or its transpose */
  PetscErrorCode (*byrows)(Mat, PetscBool *);
  PetscErrorCode (*reset)(IDRSProduct); /* frees what setup and columns have made */
} IDRSProductOps;

/*
   The state of a matrix as a process has seen it; states only grow. A process that writes to its blocks alone finds another
   state of the values than other processes do
*/
typedef struct {
  PetscObjectId    id;
  PetscObjectState values, pattern;
  PetscObjectState collective; /* of values that all processes have changed */
} IDRSMatState;

struct _n_IDRSProduct {
  const IDRSProductOps      *backend; /* of the projections; NULL: MatMult() */
  const IDRSProductOps      *wide;    /* of several columns: the same where there is one; NULL: MatMult() for each */
  Mat                        A;       /* of this solve, referenced */
  PetscBool                  transpose;
  KSPIDRSProduct             kind;        /* asked for */
  IDRSMatState               state;       /* of A when the back end was set up */
  void                      *data;        /* the back end's own */
  struct _n_IDRSOffDiagonal *offdiagonal; /* what a process needs of others, on several processes */
  /* what several columns need of other processes; like wide, all processes have it or none */
  struct _n_IDRSRowScatter *rowscatter;
  struct _n_IDRSColumns    *columns;    /* what several columns need on a device, from their first product on */
  IDRSProduct               transposed; /* of A^T as a matrix, from the first product of several columns with A^T on */
  IDRSMatState              of;         /* of the matrix whose transpose A is, where this is such a product */
  /* all processes have agreed on wide for this operator and its vectors, or on the transpose */
  PetscBool      widechosen;
  PetscBool      halo;           /* the kernels for several columns exchange the halo in this solve, on all processes */
  PetscBool      byrows;         /* several columns go through a block by rows */
  PetscInt       tilesize;       /* of the blocks of A that have one column index then; 0 or 1: there are none */
  const char    *notiles;        /* why the block size of A is not used, or NULL */
  const char    *bycolumn;       /* why wide is NULL, or NULL */
  const char    *slower;         /* why no faster one runs, or NULL */
  const char    *declined[2];    /* why set-up has declined for this pattern, for each of the back ends */
  PetscLogDouble flops;          /* of a matvec */
  PetscLogDouble bytes, seconds; /* that the copy of the matrix holds, and that it took */
  PetscInt       matvecs;        /* with the present values of A */
  PetscInt       shortlived;     /* values of A in a row that were changed after few matvecs */
};

PETSC_INTERN const IDRSProductOps IDRSProducts_Host;

/* With CUDA only */
PETSC_INTERN const IDRSProductOps IDRSProducts_CSR, IDRSProducts_Sliced;
PETSC_INTERN PetscErrorCode       IDRSProductConnect(IDRSProduct, MPI_Comm, PetscBool, PetscBool *);

PETSC_EXTERN PetscErrorCode IDRSProductCreate(IDRSProduct *);
PETSC_EXTERN PetscErrorCode IDRSProductSetMat(IDRSProduct, Mat, PetscBool, KSPIDRSProduct, const char[]);
PETSC_INTERN PetscErrorCode IDRSProductApply(IDRSProduct, Vec, Vec);
PETSC_EXTERN PetscErrorCode IDRSProductApplyColumns(IDRSProduct, PetscInt, Vec[], Vec[]);
PETSC_INTERN PetscErrorCode IDRSProductGoesByRows(Mat, KSPIDRSProduct, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSMatHasUsualMult(Mat, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSMatGetState(Mat, IDRSMatState *);
PETSC_INTERN PetscErrorCode IDRSProductUpdate(IDRSProduct, const IDRSProductOps *);
PETSC_INTERN PetscErrorCode IDRSProductReset(IDRSProduct);
PETSC_INTERN PetscErrorCode IDRSProductProject(IDRSProduct, const IDRSProjection *);
PETSC_EXTERN PetscErrorCode IDRSProductDestroy(IDRSProduct *);
