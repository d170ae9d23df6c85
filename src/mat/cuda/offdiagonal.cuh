/*
   The block of a MATMPIAIJCUSPARSE outside the diagonal block. A u then needs two kernels. The first one belongs to the product: it
   multiplies by the diagonal block during the halo exchange, and leaves out the sums of rows that need ghosts. The second one
   completes these rows.
*/
#pragma once

#include <petscidrs/private/idrsproduct.h>
#include "../../sys/kernels/project.cuh"
#include "halo.cuh"
#include "sell.cuh"

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
  PetscScalar       *columns; /* ghosts of several columns that the scatter receives, and the size of this memory in bytes */
  size_t             bytes;
} *IDRSOffDiagonal;

PETSC_INTERN PetscErrorCode IDRSOffDiagonalSetUp(Mat, const uint16_t[], const PetscScalar *, IDRSOffDiagonal *, const char *[]);
PETSC_INTERN PetscErrorCode IDRSOffDiagonalConnect(IDRSOffDiagonal, MPI_Comm, PetscInt, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSOffDiagonalReset(IDRSOffDiagonal *);
PETSC_INTERN PetscErrorCode IDRSOffDiagonalBegin(IDRSOffDiagonal, Vec, bool, IDRSBoundary *);
PETSC_INTERN PetscErrorCode IDRSOffDiagonalEnd(IDRSOffDiagonal, const IDRSProjection *, unsigned int);

/*
   Launches a matvec with its projection, for all products. launch() is called with S, Y, the shadow space and the
   boundary. It launches the first kernel, which overlaps with the halo exchange, and returns the number of its blocks
*/
template <typename L>
static PetscErrorCode IDRSLaunchMatvec(IDRSOffDiagonal off, const IDRSProjection *projection, L &&launch)
{
  unsigned int blocks = 0;
  IDRSBoundary boundary;

  PetscFunctionBegin;
  PetscCall(IDRSOffDiagonalBegin(off, projection->operand, projection->halo, &boundary));
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(
    IDRSDispatchProjection(*projection, [&](auto S, auto Y, const auto &shadow) { blocks = launch(S, Y, shadow, boundary); }));
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(IDRSOffDiagonalEnd(off, projection, blocks));
  PetscFunctionReturn(PETSC_SUCCESS);
}
