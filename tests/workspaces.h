/* Numbers, vectors and options for the tests of works and their passes */
#pragma once

#include <petscidrs/private/idrsops.h>
#include <petsc/private/petscimpl.h>
#include "harness.h"
#include "hash.h"

#define MAX_LIST 64

/* Creates a vector with n rows on this process, of the type of the options */
static inline PetscErrorCode VecCreateRows(PetscInt n, Vec *x)
{
  PetscFunctionBeginUser;
  PetscCall(VecCreate(PETSC_COMM_WORLD, x));
  PetscCall(VecSetSizes(*x, n, PETSC_DETERMINE));
  PetscCall(VecSetFromOptions(*x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Reads the tested back end from -implementation */
static inline PetscErrorCode BackEndFromOptions(KSPIDRSImplementation *back)
{
  PetscEnum value = (PetscEnum)KSP_IDRS_VEC;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetEnum(NULL, NULL, "-implementation", KSPIDRSImplementations, &value, NULL));
  *back = (KSPIDRSImplementation)value;
  PetscFunctionReturn(PETSC_SUCCESS);
}
