/*
   The block of a MATMPIAIJCUSPARSE outside the diagonal one. A u takes two kernels then: the first one, of the product's own,
   multiplies by the diagonal block while entries of u are on their way between the processes, and leaves the rows that need some of
   them out of its sums; the second one finishes these rows.
*/
#pragma once

#include <petscidrs/private/idrsproduct.h>
#include "compressedrows.h"
#include "halo.h"

/* Rows of the product with entries in this block, on the device, NULL on one process; and what the first kernel sends */
typedef struct {
  const uint32_t     *places; /* bit l of word i: the row in place 32 i + l is one of them */
  const IDRSMatIndex *i;      /* of the block */
  IDRSSends           sends;
} IDRSBoundary;

typedef struct _n_IDRSOffDiagonal {
  IDRSCompressedRows some;    /* rows with entries, in this block */
  PetscSF            scatter; /* of the matrix */
  Vec                ghosts;  /* the entries of u that come from other processes by the scatter */
  IDRSHalo           halo;    /* by which they come inside the kernels, or NULL */
  IDRSHalo           wide;    /* the same for several columns */
  PetscInt           n;       /* rows of the block */
  uint32_t          *places;  /* as above */
  IDRSBoundary       boundary;
} *IDRSOffDiagonal;

PETSC_INTERN PetscErrorCode IDRSOffDiagonalSetUp(Mat, const uint16_t[], const PetscScalar *, IDRSOffDiagonal *, const char *[]);
PETSC_INTERN PetscErrorCode IDRSOffDiagonalConnect(IDRSOffDiagonal, MPI_Comm, PetscInt, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSOffDiagonalReset(IDRSOffDiagonal *);
PETSC_INTERN PetscErrorCode IDRSOffDiagonalBegin(IDRSOffDiagonal, Vec, bool, IDRSBoundary *);
PETSC_INTERN PetscErrorCode IDRSOffDiagonalEnd(IDRSOffDiagonal, const IDRSProjection *, unsigned int);
PETSC_INTERN PetscErrorCode IDRSProductConnect_CUDA(IDRSProduct, MPI_Comm, PetscInt, PetscBool *);
