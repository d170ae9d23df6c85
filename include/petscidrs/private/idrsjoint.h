/*
   A preconditioner and the product after it in one operation, where that costs less than one after the other. A PC that has it
   composes two functions, by these names:

     IDRS_JOINT_RUNS    whether it pays at this moment, for vectors like this one; the same on all processes
     IDRS_JOINT_APPLY   u = c B^{-1}v, or u + c B^{-1}v where it adds, and then g = A u, where A is the operator of the PC. v, u and
                        g are different vectors
*/
#pragma once

#include <petscpc.h>

#define IDRS_JOINT_RUNS  "IDRSJointRuns_C"
#define IDRS_JOINT_APPLY "IDRSJointApply_C"

typedef PetscErrorCode IDRSJointRunsFn(PC, Vec, PetscBool *);
typedef PetscErrorCode IDRSJointApplyFn(PC, PetscScalar, Vec, PetscBool, Vec, Vec);
