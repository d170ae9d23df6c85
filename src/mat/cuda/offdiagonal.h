/*
   The block of a MATMPIAIJCUSPARSE outside the diagonal block. A u then needs two kernels. The first one belongs to the product: it
   multiplies by the diagonal block during the halo exchange, and leaves out the sums of rows that need ghosts. The second one
   completes these rows.
*/
#pragma once

#include <petscidrs/private/idrsproduct.h>
#include "compressedrows.h"
#include "halo.h"

/* Rows of the product with entries in this block, on the device, NULL on one process; and the items that the first kernel sends */
typedef struct {
  const uint32_t     *places; /* bit l of word i: place 32 i + l has such a row */
  const IDRSMatIndex *i;      /* of the block */
  IDRSSends           sends;
} IDRSBoundary;

typedef struct _n_IDRSOffDiagonal {
  IDRSCompressedRows some;    /* rows with entries in this block */
  PetscSF            scatter; /* of the matrix */
  Vec                ghosts;  /* entries of u that the scatter receives */
  IDRSHalo           halo;    /* NULL if kernels do not exchange the entries */
  IDRSHalo           wide;    /* the same for several columns */
  PetscInt           n;       /* rows of the process */
  uint32_t          *places;  /* as above */
  IDRSBoundary       boundary;
} *IDRSOffDiagonal;

PETSC_INTERN PetscErrorCode IDRSOffDiagonalSetUp(Mat, const uint16_t[], const PetscScalar *, IDRSOffDiagonal *, const char *[]);
PETSC_INTERN PetscErrorCode IDRSOffDiagonalConnect(IDRSOffDiagonal, MPI_Comm, PetscInt, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSOffDiagonalReset(IDRSOffDiagonal *);
PETSC_INTERN PetscErrorCode IDRSOffDiagonalBegin(IDRSOffDiagonal, Vec, bool, IDRSBoundary *);
PETSC_INTERN PetscErrorCode IDRSOffDiagonalEnd(IDRSOffDiagonal, const IDRSProjection *, unsigned int);
