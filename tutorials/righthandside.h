/* A right-hand side for a matrix without one */
#pragma once

#include <petscmat.h>

/* Computes b = A x for x of random numbers between -1 and 1, or of ones; norm is ||b|| */
static PetscErrorCode RightHandSideFromSolution(Mat A, Vec b, PetscBool ones, PetscReal *norm)
{
  PetscRandom random;
  Vec         x;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(A, &x, NULL));
  if (ones) PetscCall(VecSet(x, 1.0));
  else {
    PetscCall(PetscRandomCreate(PetscObjectComm((PetscObject)A), &random));
#if PetscDefined(USE_COMPLEX)
    PetscCall(PetscRandomSetInterval(random, PetscCMPLX(-1.0, -1.0), PetscCMPLX(1.0, 1.0)));
#else
    PetscCall(PetscRandomSetInterval(random, -1.0, 1.0));
#endif
    PetscCall(PetscRandomSetFromOptions(random));
    PetscCall(VecSetRandom(x, random));
    PetscCall(PetscRandomDestroy(&random));
  }
  PetscCall(MatMult(A, x, b));
  PetscCall(VecNorm(b, NORM_2, norm));
  PetscCall(VecDestroy(&x));
  PetscFunctionReturn(0);
}

/*
   RightHandSideMake - Fills b with A x, for a random x (kind 0) or x of ones (kind 1). If the rows of A sum to zero, A times ones
   is zero up to rounding errors, so x is also random for kind 1. origin describes x
*/
static PetscErrorCode RightHandSideMake(Mat A, Vec b, const char matrix[], PetscInt kind, const char **origin)
{
  PetscReal norm, onesnorm = 0.0;

  PetscFunctionBeginUser;
  *origin = "b = A x, x random";
  PetscCall(RightHandSideFromSolution(A, b, PETSC_FALSE, &norm));
  PetscCheck(norm > 0.0, PETSC_COMM_SELF, PETSC_ERR_USER_INPUT, "%s: the matrix is zero", matrix);
  if (kind == 0) PetscFunctionReturn(0);
  PetscCall(RightHandSideFromSolution(A, b, PETSC_TRUE, &onesnorm));
  if (onesnorm > 0.01 * PETSC_SQRT_MACHINE_EPSILON * norm) *origin = "b = A x, x of ones";
  else {
    PetscCall(RightHandSideFromSolution(A, b, PETSC_FALSE, &norm));
    *origin = "b = A x, x random, because A times ones is zero";
  }
  PetscFunctionReturn(0);
}
