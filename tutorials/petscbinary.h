/*
   Reads matrices and right-hand sides from PETSc's binary files, as MatView() and VecView() write them, plain or compressed
   with gzip. MatLoad() does the work; what it cannot read, or would wait for, is found before from header and length.
*/
#pragma once

#include <unistd.h>
#include <petscmat.h>
#include "inputfile.h"

typedef struct {
  InputFile  file;
  int        width;      /* bytes of an integer */
  PetscInt64 numbers[3]; /* a matrix: rows, columns, nonzeros; a vector: length */
} BinaryFile;

/* An integer of the header, which has its most significant byte first */
static PetscInt64 BinaryFileInteger(const unsigned char bytes[], int width)
{
  PetscInt64 value = 0;

  for (int i = 0; i < width; i++) value = (PetscInt64)((PetscInt64)((uint64_t)value << 8) | bytes[i]);
  return width == 4 ? (PetscInt64)(int32_t)value : value;
}

/* Opens the file and reads the header of an object of this class with count numbers; is tells whether there is one */
static PetscErrorCode BinaryFileOpen(BinaryFile *binary, const char name[], PetscInt classid, int count, PetscBool *is)
{
  unsigned char bytes[8];
  size_t        length;

  PetscFunctionBegin;
  PetscCall(InputFileOpen(&binary->file, name));
  length        = fread(bytes, 1, 4, binary->file.stream);
  binary->width = 4;
  if (length == 4 && BinaryFileInteger(bytes, 4) == 0) { /* the upper half of one that is longer */
    binary->width = 8;
    length += fread(bytes + 4, 1, 4, binary->file.stream);
  }
  *is = (PetscBool)(length == (size_t)binary->width && BinaryFileInteger(bytes, binary->width) == classid);
  for (int i = 0; i < count && *is; i++) {
    PetscCheck(fread(bytes, 1, binary->width, binary->file.stream) == (size_t)binary->width, PETSC_COMM_SELF, PETSC_ERR_FILE_READ, "%s: ends too early, it is cut off: fetch it again", name);
    binary->numbers[i] = BinaryFileInteger(bytes, binary->width);
  }
  PetscFunctionReturn(0);
}

/* Compares what is left of the file with these integers and scalars */
static PetscErrorCode BinaryFileClose(BinaryFile *binary, PetscInt64 integers, PetscInt64 scalars)
{
  const char *name = binary->file.name;
  PetscInt64  rest;

  PetscFunctionBegin;
  PetscCall(InputFileClose(&binary->file, &rest));
  PetscCheck(binary->width == (int)sizeof(PetscInt), PETSC_COMM_SELF, PETSC_ERR_SUP, "%s: was written with %d-bit indices, and this PETSc has %d-bit ones; use one that fits (make INDICES=%d petsc) or save it in Matrix Market format", name, 8 * binary->width, 8 * (int)sizeof(PetscInt),
             8 * binary->width);
  rest -= integers * (PetscInt64)sizeof(PetscInt);
  if (PetscDefined(USE_COMPLEX)) {
    PetscCheck(scalars == 0 || rest != scalars * (PetscInt64)sizeof(PetscReal), PETSC_COMM_SELF, PETSC_ERR_SUP, "%s: has the length of a file of real numbers, and this PETSc has complex scalars; use one with real scalars, or save it in Matrix Market format", name);
  } else {
    PetscCheck(scalars == 0 || rest != 2 * scalars * (PetscInt64)sizeof(PetscReal), PETSC_COMM_SELF, PETSC_ERR_SUP, "%s: has the length of a file of complex numbers, and this PETSc has real scalars; use one with complex scalars (make PETSC_DIR=..., or make SCALAR=complex petsc)", name);
  }
  PetscCheck(rest >= scalars * (PetscInt64)sizeof(PetscScalar), PETSC_COMM_SELF, PETSC_ERR_FILE_READ, "%s: ends too early, %" PetscInt64_FMT " bytes are missing; it is cut off (fetch it again) or of another precision", name, scalars * (PetscInt64)sizeof(PetscScalar) - rest);
  PetscFunctionReturn(0);
}

/* A viewer for the file; a compressed one is unpacked by the first process, which alone reads, to a file that goes at once */
static PetscErrorCode BinaryFileViewer(MPI_Comm comm, const char name[], PetscViewer *viewer)
{
  PetscMPIInt rank;
  PetscBool   compressed;
  char        directory[PETSC_MAX_PATH_LEN], unpacked[PETSC_MAX_PATH_LEN], command[3 * PETSC_MAX_PATH_LEN];

  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_rank(comm, &rank));
  PetscCall(PetscStrendswith(name, ".gz", &compressed));
  PetscCall(PetscStrncpy(unpacked, name, sizeof(unpacked)));
  if (compressed && rank == 0) {
    int descriptor;

    PetscCall(PetscGetTmp(PETSC_COMM_SELF, directory, sizeof(directory)));
    PetscCall(PetscSNPrintf(unpacked, sizeof(unpacked), "%s/unpackedXXXXXX", directory));
    descriptor = mkstemp(unpacked);
    PetscCheck(descriptor >= 0, PETSC_COMM_SELF, PETSC_ERR_FILE_OPEN, "%s: cannot be unpacked in %s; set PETSC_TMP to a directory to write to", name, directory);
    PetscCall(PetscSNPrintf(command, sizeof(command), "gzip -dc '%s' > '%s'", name, unpacked));
    PetscCheck(!close(descriptor) && !system(command), PETSC_COMM_SELF, PETSC_ERR_FILE_WRITE, "%s: cannot be unpacked in %s; set PETSC_TMP to a directory with more room", name, directory);
  }
  PetscCall(PetscViewerBinaryOpen(comm, unpacked, FILE_MODE_READ, viewer));
  PetscCall(PetscViewerSetUp(*viewer));
  if (compressed && rank == 0) PetscCheck(!unlink(unpacked), PETSC_COMM_SELF, PETSC_ERR_FILE_WRITE, "%s: cannot be removed", unpacked);
  PetscFunctionReturn(0);
}

/*
   MatLoadPetscBinary - A new parallel matrix of the type of the options; is tells whether the file is one of a matrix
*/
static PetscErrorCode MatLoadPetscBinary(MPI_Comm comm, const char name[], Mat *newmat, PetscBool *is)
{
  BinaryFile  binary;
  PetscViewer viewer;
  Mat         A;

  PetscFunctionBegin;
  PetscCall(BinaryFileOpen(&binary, name, MAT_FILE_CLASSID, 3, is));
  if (!*is) {
    PetscCall(InputFileClose(&binary.file, NULL));
    PetscFunctionReturn(0);
  }
  PetscCheck(binary.numbers[2] >= 0, PETSC_COMM_SELF, PETSC_ERR_SUP, "%s: is a dense matrix; convert it to MATAIJ with MatConvert() before MatView()", name);
  PetscCall(BinaryFileClose(&binary, binary.numbers[0] + binary.numbers[2], binary.numbers[2]));
  PetscCheck(binary.numbers[0] == binary.numbers[1], PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: is %" PetscInt64_FMT " x %" PetscInt64_FMT ", the matrix of a linear system must be square; least squares are for KSPLSQR", name, binary.numbers[0],
             binary.numbers[1]);
  PetscCall(BinaryFileViewer(comm, name, &viewer));
  PetscCall(MatCreate(comm, &A));
  PetscCall(MatSetFromOptions(A));
  PetscCall(MatLoad(A, viewer));
  PetscCall(PetscViewerDestroy(&viewer));
  *newmat = A;
  PetscFunctionReturn(0);
}

/*
   VecLoadPetscBinary - Fills a vector; is tells whether the file is one of a vector
*/
static PetscErrorCode VecLoadPetscBinary(Vec b, const char name[], PetscBool *is)
{
  BinaryFile  binary;
  PetscViewer viewer;
  PetscInt    N;

  PetscFunctionBegin;
  PetscCall(BinaryFileOpen(&binary, name, VEC_FILE_CLASSID, 1, is));
  if (!*is) {
    PetscCall(InputFileClose(&binary.file, NULL));
    PetscFunctionReturn(0);
  }
  PetscCall(BinaryFileClose(&binary, 0, binary.numbers[0]));
  PetscCall(VecGetSize(b, &N));
  PetscCheck(binary.numbers[0] == N, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: has %" PetscInt64_FMT " rows, the right-hand side must have the %" PetscInt_FMT " of the matrix", name, binary.numbers[0], N);
  PetscCall(BinaryFileViewer(PetscObjectComm((PetscObject)b), name, &viewer));
  PetscCall(VecLoad(b, viewer));
  PetscCall(PetscViewerDestroy(&viewer));
  PetscFunctionReturn(0);
}
