/*
   Operators that several test programs are about
*/
#pragma once

#include <petscmat.h>

/* A matrix entry by entry, zeros off the diagonal left out; or its transpose, from the same entries */
typedef PetscScalar Entry(PetscInt i, PetscInt j, PetscInt n);

static inline PetscErrorCode MatCreateEntries(Entry *entry, PetscInt n, PetscBool transposed, Mat *A)
{
  PetscInt begin, end;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_WORLD, A));
  PetscCall(MatSetSizes(*A, PETSC_DECIDE, PETSC_DECIDE, n, n));
  PetscCall(MatSetType(*A, MATAIJ));
  PetscCall(MatSetFromOptions(*A));
  PetscCall(MatSetUp(*A));
  PetscCall(MatGetOwnershipRange(*A, &begin, &end));
  for (PetscInt i = begin; i < end; i++) {
    for (PetscInt j = 0; j < n; j++) {
      const PetscScalar value = transposed ? (*entry)(j, i, n) : (*entry)(i, j, n);

      if (value != 0.0 || i == j) PetscCall(MatSetValue(*A, i, j, value, INSERT_VALUES));
    }
  }
  PetscCall(MatAssemblyBegin(*A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(*A, MAT_FINAL_ASSEMBLY));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The product of a shell around a matrix, which is another type of operator */
static inline PetscErrorCode PassMult(Mat S, Vec x, Vec y)
{
  void *ctx;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(S, &ctx));
  PetscCall(MatMult((Mat)ctx, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}
