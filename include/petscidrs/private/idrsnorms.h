/* The norms that PETSc caches */
#pragma once

#include <petscidrs/private/idrscompat.h>

/*
   PETSc caches the norm of a vector. If the squares of the entries underflow, the cached norm is 0: then VecSet(v, 0) keeps the
   entries, and VecScale() scales the 0
*/
#define IDRSVecForgetNorm(v) PetscObjectStateIncrease((PetscObject)(v))

/* Computes v = 0 */
static inline PetscErrorCode IDRSVecZero(Vec v)
{
  PetscFunctionBegin;
  PetscCall(IDRSVecForgetNorm(v));
  PetscCall(VecSet(v, 0.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes y = A^T x; PETSc begins with VecSet(y, 0) */
static inline PetscErrorCode IDRSMatMultTranspose(Mat A, Vec x, Vec y)
{
  PetscFunctionBegin;
  PetscCall(IDRSVecForgetNorm(y));
  PetscCall(MatMultTranspose(A, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}
