/*
   Reads the linear system that the options name:

     -f file              the matrix, in Matrix Market or PETSc's binary format, plain or compressed with gzip
     -b file              the right-hand side, in the same formats
     -column j            column of a Matrix Market file of right-hand sides, from 0
     -rhs ones | random   without -b: b = A x, where x has ones or random numbers (default ones)
*/
#pragma once

#include <petscmat.h>
#include "attempt.h"
#include "device.h"
#include "matrixmarket.h"
#include "petscbinary.h"

/* b = A x for a solution that is known */
static PetscErrorCode RightHandSideFromSolution(Mat A, Vec b)
{
  const char *const kinds[] = {"ones", "random"};
  PetscInt          kind    = 0;
  PetscRandom       random;
  Vec               x;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetEList(NULL, NULL, "-rhs", kinds, PETSC_STATIC_ARRAY_LENGTH(kinds), &kind, NULL));
  PetscCall(MatCreateVecs(A, &x, NULL));
  if (kind == 0) PetscCall(VecSet(x, 1.0));
  else {
    PetscCall(PetscRandomCreate(PetscObjectComm((PetscObject)A), &random));
    PetscCall(PetscRandomSetFromOptions(random));
    PetscCall(VecSetRandom(x, random));
    PetscCall(PetscRandomDestroy(&random));
  }
  PetscCall(MatMult(A, x, b));
  PetscCall(VecDestroy(&x));
  PetscFunctionReturn(0);
}

static PetscErrorCode LinearSystemRead(MPI_Comm comm, Mat *A, Vec *b)
{
  char      file[PETSC_MAX_PATH_LEN];
  PetscInt  column = 0;
  PetscBool set, binary;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetString(NULL, NULL, "-f", file, sizeof(file), &set));
  PetscCheck(set, comm, PETSC_ERR_USER_INPUT, "give a matrix with -f file, in Matrix Market or PETSc's binary format");
  PetscCall(MatLoadPetscBinary(comm, file, A, &binary));
  if (!binary) PetscCall(MatLoadMatrixMarket(comm, file, A));
  PetscCall(MatCreateVecs(*A, NULL, b));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-b", file, sizeof(file), &set));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-column", &column, NULL));
  if (!set) PetscCall(RightHandSideFromSolution(*A, *b));
  else {
    PetscCall(VecLoadPetscBinary(*b, file, &binary));
    if (!binary) PetscCall(VecLoadMatrixMarket(*b, file, column));
  }
  PetscFunctionReturn(0);
}

/*
   LinearSystemLoad - Matrix and right-hand side; what is wrong with them is printed in one line, and loaded says so
*/
static PetscErrorCode LinearSystemLoad(MPI_Comm comm, Mat *A, Vec *b, PetscBool *loaded)
{
  PetscErrorCode ierr;
  PetscBool      failed;

  PetscFunctionBeginUser;
  PetscCall(DeviceCheck(comm, loaded));
  if (!*loaded) PetscFunctionReturn(0);
  *A = NULL;
  *b = NULL;
  PetscCall(AttemptBegin());
  ierr = LinearSystemRead(comm, A, b);
  PetscCall(AttemptEnd(comm, ierr, &failed));
  if (failed) {
    PetscCall(AttemptPrint(comm));
    PetscCall(MatDestroy(A));
    PetscCall(VecDestroy(b));
  }
  *loaded = (PetscBool)!failed;
  PetscFunctionReturn(0);
}
