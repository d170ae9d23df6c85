/*
   The contract of products: x = A u, or A^T u. PETSc's MatMult() computes it for every operator. The back ends here compute it together with the projection of x,
   on a device, so that x is not read again: see idrsops.h.

     csr      the arrays of the matrix as they are
     sliced   a copy made for the device, see src/mat/cuda/sliced.cuh

   The solver creates a product, tells it the operator at the begin of every solve, and lets the projections compute A u where a back end runs. b - A x is
   always computed by MatMult(), so that what verifies a solution does not depend on the kernels that it came from.
*/
#pragma once

#include <petscmat.h>
#include <petscidrs.h>

typedef struct _n_IDRSProduct   *IDRSProduct;
typedef struct _n_IDRSProjection IDRSProjection; /* of the back end that launches it */

typedef struct {
  const char *name;
  PetscErrorCode (*runs)(IDRSProduct, const char *[]);             /* sets the string to NULL, or to the reason why it cannot run on A */
  PetscErrorCode (*setup)(IDRSProduct, PetscBool, const char *[]); /* at the begin of a solve, for an A that has changed or not; the reason why it had better not run on A, or found no memory */
  PetscErrorCode (*project)(IDRSProduct, const IDRSProjection *);  /* x = A u with its sums */
  PetscErrorCode (*reset)(IDRSProduct);                            /* frees what setup has made */
} IDRSProductOps;

/* What has been seen of a matrix; states only grow */
typedef struct {
  PetscObjectId    id;
  PetscObjectState values, pattern;
} IDRSMatState;

struct _n_IDRSProduct {
  const IDRSProductOps      *backend; /* NULL: MatMult() */
  Mat                        A;       /* of this solve, referenced */
  PetscBool                  transpose;
  KSPIDRSProduct             kind;           /* asked for */
  IDRSMatState               state;          /* of A when the back end was set up */
  void                      *data;           /* the back end's own */
  struct _n_IDRSOffDiagonal *offdiagonal;    /* what a process needs of others, on several processes */
  const char                *slower;         /* why no faster one runs, or NULL */
  const char                *declined[2];    /* why set-up has declined for this pattern, for each of the back ends */
  PetscLogDouble             flops;          /* of a matvec */
  PetscLogDouble             bytes, seconds; /* that the copy of the matrix holds, and that it took */
  PetscInt                   matvecs;        /* with the present values of A */
  PetscInt                   shortlived;     /* values of A in a row that were changed after few matvecs */
};

/* Where CUDA is compiled in */
PETSC_INTERN const IDRSProductOps IDRSProducts_CSR, IDRSProducts_Sliced;
PETSC_INTERN PetscErrorCode       IDRSProductConnect_CUDA(IDRSProduct, MPI_Comm, PetscBool *);

PETSC_EXTERN PetscErrorCode IDRSProductCreate(IDRSProduct *);
PETSC_EXTERN PetscErrorCode IDRSProductSetMat(IDRSProduct, Mat, PetscBool, KSPIDRSProduct, const char[]);
PETSC_INTERN PetscErrorCode IDRSProductApply(IDRSProduct, Vec, Vec);
PETSC_INTERN PetscErrorCode IDRSProductProject(IDRSProduct, const IDRSProjection *);
PETSC_EXTERN PetscErrorCode IDRSProductDestroy(IDRSProduct *);
