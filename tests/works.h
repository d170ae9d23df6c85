/* Numbers, vectors and options for the tests of works and their passes */
#pragma once

#include <petscidrs/private/idrsops.h>
#include <petsc/private/petscimpl.h>
#include "harness.h"
#include "hash.h"

#define MAX_LIST 64

/*
   Returns a number between -1 and 1, in complex builds in the square of side 2 around 0, that depends only on its purpose and a row
*/
static inline PetscReal HashedReal(uint64_t which, uint64_t row)
{
  uint64_t x = (which + 1) * UINT64_C(0x9e3779b97f4a7c15) + row * UINT64_C(0xbf58476d1ce4e5b9);

  x = (x ^ x >> 31) * UINT64_C(0x94d049bb133111eb);
  x = (x ^ x >> 29) * UINT64_C(0xd6e8feb86659fd93);
  return (PetscReal)(int32_t)(x >> 32) / (PetscReal)2147483648.0;
}

static inline PetscScalar Number(PetscInt which, PetscInt row)
{
#if PetscDefined(USE_COMPLEX)
  return PetscCMPLX(HashedReal(2 * (uint64_t)which, (uint64_t)row), HashedReal(2 * (uint64_t)which + 1, (uint64_t)row));
#else
  return HashedReal(2 * (uint64_t)which, (uint64_t)row);
#endif
}

/* Sets entries to the numbers for this purpose, by the global row or the local one */
static inline PetscErrorCode VecSetNumbers(Vec x, PetscInt which, PetscBool global)
{
  PetscInt     begin, end;
  PetscScalar *array;

  PetscFunctionBeginUser;
  PetscCall(VecGetOwnershipRange(x, &begin, &end));
  PetscCall(VecGetArrayWrite(x, &array));
  for (PetscInt i = 0; i < end - begin; i++) array[i] = Number(which, i + (global ? begin : 0));
  PetscCall(VecRestoreArrayWrite(x, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

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
