/*
   A preconditioner and the product after it in one operation, if that costs less than two operations. A PC that supports it
   composes two functions by these names:

     IDRS_JOINT_RUNS    PETSC_TRUE if it pays now, for vectors like this one; the same on all processes
     IDRS_JOINT_APPLY   u = c B^{-1}v, or u + c B^{-1}v if "adds", and then g = A u, where A is the operator of the PC. v, u and
                        g are different vectors
*/
#pragma once

#include <petscpc.h>

#define IDRS_JOINT_RUNS  "IDRSJointRuns_C"
#define IDRS_JOINT_APPLY "IDRSJointApply_C"

typedef PetscErrorCode IDRSJointRunsFn(PC, Vec, PetscBool *);
typedef PetscErrorCode IDRSJointApplyFn(PC, PetscScalar, Vec, PetscBool, Vec, Vec);
