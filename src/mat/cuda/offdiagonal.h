/*
   The block of a MATMPIAIJCUSPARSE outside the diagonal one. A u takes two kernels then: the first one, of the product's own, multiplies by the diagonal block while
   entries of u are on their way between the processes, and leaves the rows that need some of them out of its sums; the second one finishes these rows.
*/
#pragma once

#include "csr.h"

typedef struct _n_IDRSOffDiagonal {
  IDRSCSR   A;
  PetscSF   scatter;      /* of the matrix */
  Vec       ghosts;       /* the entries of u that come from other processes */
  PetscInt  count, *rows; /* with entries in this block, on the device */
  uint32_t *unfinished;   /* bit l of word i: the row in place 32 i + l of the product is one of them */
} *IDRSOffDiagonal;

PETSC_INTERN PetscErrorCode IDRSOffDiagonalSetUp(Mat, const uint16_t[], IDRSOffDiagonal *);
PETSC_INTERN PetscErrorCode IDRSOffDiagonalReset(IDRSOffDiagonal *);
PETSC_INTERN PetscErrorCode IDRSOffDiagonalBegin(IDRSOffDiagonal, Vec);
PETSC_INTERN PetscErrorCode IDRSOffDiagonalEnd(IDRSOffDiagonal, const IDRSProjection *, unsigned int);
