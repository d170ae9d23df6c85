/*
   What a solution is worth, whatever the solver says of it
*/
#pragma once

#include <petscmat.h>

/* ||b - A x|| and ||b|| */
static PetscErrorCode ResidualNorm(Mat A, Vec b, Vec x, PetscReal *rnorm, PetscReal *bnorm)
{
  Vec r;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(b, &r));
  PetscCall(MatMult(A, x, r));
  PetscCall(VecAYPX(r, -1.0, b));
  PetscCall(VecNorm(r, NORM_2, rnorm));
  PetscCall(VecNorm(b, NORM_2, bnorm));
  PetscCall(VecDestroy(&r));
  PetscFunctionReturn(0);
}
