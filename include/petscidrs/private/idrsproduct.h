/*
   The interface of products: x = A u, or A^T u. PETSc's MatMult() computes it for every operator. On a device the back ends here
   compute it in the same kernel as the projection of x, so that x is not read again: see idrsops.h.

     csr      the arrays of the matrix itself
     sell     a copy made for the device, see src/mat/cuda/sell.cuh

   With these back ends Y_j = A X_j for several columns reads A once.

   The solver creates a product, and sets the operator at the beginning of every solve. If a back end runs, the projections compute
   A u. MatMult() always computes b - A x, so that the verification of a solution does not depend on these kernels.

   Columns are separate vectors, each with its own array. If the projections have a back end, it also multiplies several columns.
   Otherwise csr does, if it runs on all processes and all vectors are on the device; else MatMult() or MatMultTranspose() is called
   for each. All processes agree on this at the first product of several columns after an operator has been set
*/
#pragma once

#include <petscmat.h>
#include <petscidrs/private/idrssettings.h>

/* Largest number of columns of a product */
#define IDRS_MAX_WIDTH 16

typedef struct _n_IDRSProduct   *IDRSProduct;
typedef struct _n_IDRSProjection IDRSProjection; /* defined by the back end */

typedef struct {
  const char *name;
  /* at the beginning of a solve; sets the reason why it would be slower on A, or found no memory, or NULL */
  PetscErrorCode (*setup)(IDRSProduct, PetscBool, const char *[]);
  PetscErrorCode (*project)(IDRSProduct, const IDRSProjection *); /* computes x = A u and the sums */
  /* Y_j = A X_j for 1 to IDRS_MAX_WIDTH columns, if vectors and matrix are on the device */
  PetscErrorCode (*columns)(IDRSProduct, PetscInt, Vec[], Vec[]);
  PetscErrorCode (*reset)(IDRSProduct); /* frees the data of setup and columns */
} IDRSProductOps;

/*
   The state of a matrix as seen by a process; states only grow. If a process writes only to its own blocks, its state of the values
   differs from the state on other processes
*/
typedef struct {
  PetscObjectId    id;
  PetscObjectState values, pattern;
} IDRSMatState;

struct _n_IDRSProduct {
  const IDRSProductOps      *backend; /* of the projections; NULL: MatMult() */
  const IDRSProductOps      *wide;    /* of several columns: `backend` if there is one; NULL: MatMult() for each */
  Mat                        A;       /* of this solve, referenced */
  PetscBool                  transpose;
  KSPIDRSProduct             kind;           /* requested */
  IDRSMatState               state;          /* of A when the back end was set up */
  void                      *data;           /* data of the back end */
  struct _n_IDRSOffDiagonal *offdiagonal;    /* data for the halo exchange, on several processes */
  PetscBool                  widechosen;     /* all processes have agreed on wide for this operator and its vectors */
  PetscBool                  halo;           /* the kernels for several columns exchange the halo in this solve, on all processes */
  const char                *bycolumn;       /* why wide is NULL, or NULL */
  const char                *slower;         /* why no faster one runs, or NULL */
  const char                *declined[2];    /* why the set-up of a back end has declined for this pattern */
  PetscLogDouble             flops;          /* of a matvec */
  PetscLogDouble             bytes, seconds; /* size and set-up time of the copy of the matrix */
  PetscInt                   matvecs;        /* with the present values of A */
  PetscInt                   shortlived;     /* consecutive values of A that were changed after few matvecs */
};

/* With CUDA only */
PETSC_INTERN const IDRSProductOps IDRSProducts_CSR, IDRSProducts_Sell;
PETSC_INTERN PetscErrorCode       IDRSMatRuns(Mat, const char *[]);
PETSC_INTERN PetscErrorCode       IDRSProductRuns(IDRSProduct, const char *[]);

PETSC_EXTERN PetscErrorCode IDRSProductSetMat(IDRSProduct, Mat, PetscBool, KSPIDRSProduct, const char[]);
PETSC_INTERN PetscErrorCode IDRSProductApply(IDRSProduct, Vec, Vec);
PETSC_EXTERN PetscErrorCode IDRSProductApplyColumns(IDRSProduct, PetscInt, Vec[], Vec[]);
PETSC_EXTERN PetscErrorCode IDRSProductGoesByRows(Mat, KSPIDRSProduct, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSMatHasUsualMult(Mat, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSMatGetState(Mat, IDRSMatState *);
PETSC_INTERN PetscErrorCode IDRSProductReset(IDRSProduct);
PETSC_INTERN PetscErrorCode IDRSProductProject(IDRSProduct, const IDRSProjection *);
PETSC_EXTERN PetscErrorCode IDRSProductDestroy(IDRSProduct *);
