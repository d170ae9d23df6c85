/*
   A preconditioner and the product after it in one operation, if that costs less than two operations. A PC that supports it
   composes two functions by these names:

     IDRS_JOINT_RUNS    PETSC_TRUE if it is faster now, for vectors like this one; the same on all processes
     IDRS_JOINT_APPLY   u = c B^{-1}v, or u + c B^{-1}v if "adds", and then g = A u, where A is the operator of the PC. v, u and
                        g are different vectors

   If kernels of a solver can apply the preconditioner themselves, the PC composes

     IDRS_POLYNOMIAL    the polynomial B^{-1}, until its next set-up, or NULL if no kernel can apply it to vectors like this
*/
#pragma once

#include <petscpc.h>
#include <petscidrs/private/idrspowers.h>

#define IDRS_JOINT_RUNS  "IDRSJointRuns_C"
#define IDRS_JOINT_APPLY "IDRSJointApply_C"
#define IDRS_POLYNOMIAL  "IDRSPolynomial_C"

typedef PetscErrorCode IDRSJointRunsFn(PC, Vec, PetscBool *);
typedef PetscErrorCode IDRSJointApplyFn(PC, PetscScalar, Vec, PetscBool, Vec, Vec);
typedef PetscErrorCode IDRSPolynomialFn(PC, Vec, const IDRSPolynomial **);
