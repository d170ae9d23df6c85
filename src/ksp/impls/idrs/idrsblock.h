/*
   Block IDR(s): the coefficients of its recurrence, on the host. Blocks have m columns, coefficients are m x m matrices, and q = s m is the number of shadow vectors. Arrays of q rows hold
   the coefficients of step k in rows k m ... (k + 1) m - 1; all are stored by columns
*/
#pragma once

#include "idrsimpl.h"

typedef struct {
  PetscInt      s, m, q;
  PetscScalar  *storage;
  PetscScalar  *M;        /* P^H G, q x q, block lower triangular */
  PetscScalar  *LU;       /* factors of its diagonal blocks, s of them */
  PetscScalar  *f;        /* P^H R, q x m */
  PetscScalar  *c;        /* M(k:s,k:s) c = f(k:s), times T: q x m, from row k m on */
  PetscScalar  *alpha;    /* of the steps of this cycle: that of step k, q x m, in columns k m ... (k + 1) m - 1 */
  PetscScalar  *beta;     /* of the steps of this cycle, q x m */
  PetscScalar  *T;        /* directions are made from R T, m x m */
  PetscScalar  *identity; /* m x m */
  PetscScalar  *W;        /* scratch, m x m */
  PetscScalar  *work;     /* scratch of LAPACK */
  PetscScalar   omega;
  PetscBLASInt *pivots;
  PetscReal    *eigenvalues;
  PetscBool     failed; /* on this process, which may see it alone: rounding errors of LAPACK need not be the same on all of them */
} KSPIDRSBlockAlgebra;

PETSC_INTERN PetscErrorCode KSPIDRSBlockAlgebraCreate_Private(PetscInt, PetscInt, KSPIDRSBlockAlgebra *);
PETSC_INTERN PetscErrorCode KSPIDRSBlockAlgebraDestroy_Private(KSPIDRSBlockAlgebra *);
PETSC_INTERN PetscErrorCode KSPIDRSBlockDirection_Private(KSPIDRSBlockAlgebra *, PetscInt);
PETSC_INTERN PetscErrorCode KSPIDRSBlockColumn_Private(KSPIDRSBlockAlgebra *, PetscInt, PetscScalar[]);
PETSC_INTERN PetscErrorCode KSPIDRSBlockOmega_Private(KSPIDRSBlockAlgebra *, PetscReal, const PetscScalar[], PetscReal *);
