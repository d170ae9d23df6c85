/* Reports in one line, before any computation, that the GPU of the options cannot be used */
#pragma once

#include <petscmat.h>
#include <petscdevice.h>
#include "attempt.h"

/* Looks for the device first: if it is absent, no partially created object remains */
static PetscErrorCode DeviceTry(MPI_Comm comm, const char vectype[], const char mattype[])
{
  char *cuda, *cusparse;
  Vec   v;
  Mat   A;

  PetscFunctionBeginUser;
  PetscCall(PetscStrstr(vectype, "cuda", &cuda));
  PetscCall(PetscStrstr(mattype, "cusparse", &cusparse));
  if (PetscDefined(HAVE_CUDA) && (cuda || cusparse)) PetscCall(PetscDeviceInitialize(PETSC_DEVICE_CUDA));
  PetscCall(VecCreate(comm, &v));
  PetscCall(VecSetSizes(v, 1, PETSC_DECIDE));
  PetscCall(VecSetType(v, vectype[0] ? vectype : VECSTANDARD));
  PetscCall(VecDestroy(&v));
  PetscCall(MatCreate(comm, &A));
  PetscCall(MatSetSizes(A, 1, 1, PETSC_DECIDE, PETSC_DECIDE));
  PetscCall(MatSetType(A, mattype[0] ? mattype : MATAIJ));
  PetscCall(MatDestroy(&A));
  PetscFunctionReturn(0);
}

/* DeviceCheck - Checks that the types of vectors and matrices in the options can be used here; if not, prints the reason */
static PetscErrorCode DeviceCheck(MPI_Comm comm, PetscBool *usable)
{
  char           vectype[64] = "", mattype[64] = "", reason[512];
  const char    *both;
  PetscErrorCode ierr;
  PetscBool      failed;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetString(NULL, NULL, "-vec_type", vectype, sizeof(vectype), NULL));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-dm_vec_type", vectype, sizeof(vectype), NULL));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-mat_type", mattype, sizeof(mattype), NULL));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-dm_mat_type", mattype, sizeof(mattype), NULL));
  PetscCall(AttemptBegin());
  ierr = DeviceTry(comm, vectype, mattype);
  PetscCall(AttemptEnd(comm, ierr, &failed));
  *usable = (PetscBool)!failed;
  if (failed) {
    both = vectype[0] && mattype[0] ? " and " : "";
    PetscCall(PetscStrncpy(reason, attempt.text, sizeof(reason)));
    if (PetscDefined(HAVE_CUDA)) {
      PetscCall(PetscSNPrintf(
        attempt.text, sizeof(attempt.text),
        "vectors or matrices of type %s%s%s do not work on this machine: leave out the options of types where there is no GPU (%s)",
        vectype, both, mattype, reason));
    } else {
      PetscCall(PetscSNPrintf(attempt.text, sizeof(attempt.text),
                              "this PETSc has no vectors or matrices of type %s%s%s, it was built without CUDA: leave out the "
                              "options of types, or build a PETSc that has it, where there is nvcc, with: make CUDA=1 petsc (%s)",
                              vectype, both, mattype, reason));
    }
    PetscCall(AttemptPrint(comm));
  }
  PetscFunctionReturn(0);
}
