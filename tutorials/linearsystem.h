/*
   Reads the linear system that the options name:

     -f file              the matrix: Matrix Market, PETSc's binary format, npz of scipy.sparse, or a square npy of numpy
     -b file              the right-hand side: Matrix Market, PETSc's binary format (also the file of the matrix), or npy
     -column j            column of the file of right-hand sides, or vector of a binary file, from 0
     -rhs random | ones   b = A x, where x has random numbers or ones

   Files may be compressed with gzip, except npz. Without -b and -rhs a vector behind the matrix in a binary file is b; if there
   is none, b = A x with random x.
*/
#pragma once

#include <petscmat.h>
#include "attempt.h"
#include "device.h"
#include "matrixmarket.h"
#include "numpyfile.h"
#include "petscbinary.h"
#include "righthandside.h"

/* Reads or computes the right-hand side of the options; origin describes it */
static PetscErrorCode RightHandSideRead(Mat A, Vec b, const char matrix[], char origin[], size_t length)
{
  const char *const kinds[] = {"random", "ones"}, *made;
  char              file[PETSC_MAX_PATH_LEN];
  PetscInt          kind = 0, column = 0, N;
  PetscBool         set, made_set, binary;
  PetscReal         norm;
  FileReader        reader;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetString(NULL, NULL, "-b", file, sizeof(file), &set));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-column", &column, NULL));
  PetscCall(PetscOptionsGetEList(NULL, NULL, "-rhs", kinds, PETSC_STATIC_ARRAY_LENGTH(kinds), &kind, &made_set));
  PetscCheck(!set || !made_set, PETSC_COMM_SELF, PETSC_ERR_USER_INPUT,
             "-rhs %s: there is a file of right-hand sides, %s; remove one of the two", kinds[kind], file);
  if (!set && !made_set) {
    PetscCall(PetscStrncpy(file, matrix, sizeof(file)));
    PetscCall(VecGetSize(b, &N));
    PetscCall(PetscBinaryHasVector(file, N, column, &set));
  }
  PetscCheck(set || column == 0, PETSC_COMM_SELF, PETSC_ERR_USER_INPUT,
             "-column %" PetscInt_FMT ": there is no such right-hand side in a file", column);
  if (!set) {
    PetscCall(RightHandSideMake(A, b, matrix, kind, &made));
    PetscCall(PetscStrncpy(origin, made, length));
    PetscFunctionReturn(0);
  }
  PetscCall(VecLoadPetscBinary(b, file, column, &binary));
  if (!binary) {
    PetscCall(NumpyFileReader(file, &reader));
    PetscCall(VecLoadFile(b, file, reader ? reader : MatrixMarketRead, column));
  }
  PetscCall(VecNorm(b, NORM_2, &norm));
  PetscCheck(norm > 0.0, PETSC_COMM_SELF, PETSC_ERR_USER_INPUT,
             "%s: the right-hand side is zero, and so is the solution; choose another one", file);
  PetscCall(PetscSNPrintf(origin, length, "b from %s", file));
  if (column) PetscCall(PetscSNPrintf(origin, length, "b from %s, column %" PetscInt_FMT, file, column));
  PetscFunctionReturn(0);
}

/* Reads the matrix and, if b is not NULL, the right-hand side */
static PetscErrorCode LinearSystemRead(MPI_Comm comm, Mat *A, Vec *b, char heading[], size_t length)
{
  char       file[PETSC_MAX_PATH_LEN], origin[PETSC_MAX_PATH_LEN + 64];
  PetscInt   n;
  PetscBool  set, binary;
  MatInfo    info;
  FileReader reader;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetString(NULL, NULL, "-f", file, sizeof(file), &set));
  PetscCheck(set, comm, PETSC_ERR_USER_INPUT,
             "give a matrix with -f file, in Matrix Market format, PETSc's binary format, npz or npy");
  PetscCall(MatLoadPetscBinary(comm, file, A, &binary));
  if (!binary) {
    PetscCall(NumpyFileReader(file, &reader));
    PetscCall(MatLoadFile(comm, file, reader ? reader : MatrixMarketRead, A));
  }
  if (!b) PetscFunctionReturn(0);
  PetscCall(MatCreateVecs(*A, NULL, b));
  PetscCall(RightHandSideRead(*A, *b, file, origin, sizeof(origin)));
  PetscCall(MatGetSize(*A, &n, NULL));
  PetscCall(MatGetInfo(*A, MAT_GLOBAL_SUM, &info));
  PetscCall(PetscSNPrintf(heading, length, "%s: %" PetscInt_FMT " rows, %.0f nonzeros; %s", file, n, info.nz_used, origin));
  PetscFunctionReturn(0);
}

/*
   LinearSystemLoad - Reads the matrix and, if b is not NULL, the right-hand side, with a heading that describes them. If they are
   wrong, prints the reason in one line, and sets loaded to PETSC_FALSE
*/
static PetscErrorCode LinearSystemLoad(MPI_Comm comm, Mat *A, Vec *b, char heading[], size_t length, PetscBool *loaded)
{
  PetscErrorCode ierr;
  PetscBool      failed;

  PetscFunctionBeginUser;
  PetscCall(DeviceCheck(comm, loaded));
  if (!*loaded) PetscFunctionReturn(0);
  *A = NULL;
  if (b) *b = NULL;
  PetscCall(AttemptBegin());
  ierr = LinearSystemRead(comm, A, b, heading, length);
  PetscCall(AttemptEnd(comm, ierr, &failed));
  if (failed) {
    PetscCall(AttemptPrint(comm));
    PetscCall(MatDestroy(A));
    if (b) PetscCall(VecDestroy(b));
  }
  *loaded = (PetscBool)!failed;
  PetscFunctionReturn(0);
}
