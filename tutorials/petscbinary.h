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
  PetscInt64 rest;       /* bytes of the scalars and of what follows */
  PetscInt64 next;       /* class of the object that follows, 0 at the end of the file */
} BinaryFile;

/* An integer of the header, which has its most significant byte first */
static PetscInt64 BinaryFileInteger(const unsigned char bytes[], int width)
{
  PetscInt64 value = 0;

  for (int i = 0; i < width; i++) value = (PetscInt64)((PetscInt64)((uint64_t)value << 8) | bytes[i]);
  return width == 4 ? (PetscInt64)(int32_t)value : value;
}

/* The next integer; read is PETSC_FALSE if the file ends before */
static PetscErrorCode BinaryFileNext(BinaryFile *binary, PetscInt64 *value, PetscBool *read)
{
  unsigned char bytes[8];

  PetscFunctionBegin;
  *read  = (PetscBool)(fread(bytes, 1, (size_t)binary->width, binary->file.stream) == (size_t)binary->width);
  *value = *read ? BinaryFileInteger(bytes, binary->width) : 0;
  PetscFunctionReturn(0);
}

/* The header of an object of this class, with count numbers; is tells whether there is one */
static PetscErrorCode BinaryFileHeader(BinaryFile *binary, PetscInt classid, int count, PetscBool *is)
{
  PetscInt64 value;

  PetscFunctionBegin;
  binary->width = 4;
  PetscCall(BinaryFileNext(binary, &value, is));
  if (*is && value == 0) { /* the upper half of one that is longer */
    PetscCall(BinaryFileNext(binary, &value, is));
    binary->width = 8;
  }
  *is = (PetscBool)(*is && value == classid);
  for (int i = 0; i < count && *is; i++) {
    PetscBool read;

    PetscCall(BinaryFileNext(binary, &binary->numbers[i], &read));
    PetscCheck(read, PETSC_COMM_SELF, PETSC_ERR_FILE_READ, "%s: ends too early, it is cut off: fetch it again", binary->file.name);
  }
  PetscFunctionReturn(0);
}

/* The next count integers are from 0 to high; sum is that of them */
static PetscErrorCode BinaryFileIntegers(BinaryFile *binary, PetscInt64 count, PetscInt64 high, const char what[], PetscInt64 *sum)
{
  PetscFunctionBegin;
  *sum = 0;
  for (PetscInt64 i = 0; i < count; i++) {
    PetscInt64 value;
    PetscBool  read;

    PetscCall(BinaryFileNext(binary, &value, &read));
    PetscCheck(read, PETSC_COMM_SELF, PETSC_ERR_FILE_READ, "%s: ends too early, it is cut off: fetch it again", binary->file.name);
    PetscCheck(value >= 0 && value <= high, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: is damaged, %s %" PetscInt64_FMT " is not from 0 to %" PetscInt64_FMT, binary->file.name, what, value, high);
    *sum += value;
  }
  PetscFunctionReturn(0);
}

/* What comes after the header, up to the scalars: how many entries each row has, and their columns */
static PetscErrorCode BinaryFileRows(BinaryFile *binary)
{
  const char       *name  = binary->file.name;
  const PetscInt64 *sizes = binary->numbers;
  PetscInt64        sum, ignored;

  PetscFunctionBegin;
  PetscCheck(sizes[2] >= 0, PETSC_COMM_SELF, PETSC_ERR_SUP, "%s: is a dense matrix; convert it to MATAIJ with MatConvert() before MatView()", name);
  PetscCheck(sizes[0] >= 0 && sizes[0] == sizes[1], PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: is %" PetscInt64_FMT " x %" PetscInt64_FMT ", the matrix of a linear system must be square; least squares are for KSPLSQR", name, sizes[0], sizes[1]);
  PetscCall(BinaryFileIntegers(binary, sizes[0], sizes[1], "the number of entries of a row,", &sum));
  PetscCheck(sum == sizes[2], PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: is damaged, its rows have %" PetscInt64_FMT " entries, and %" PetscInt64_FMT " are announced", name, sum, sizes[2]);
  PetscCall(BinaryFileIntegers(binary, sizes[2], sizes[1] - 1, "the column of an entry,", &ignored));
  PetscFunctionReturn(0);
}

/* Reads on to the end of the file; the class of what follows the scalars says whether they are as many as they should be */
static PetscErrorCode BinaryFileRest(BinaryFile *binary, PetscInt64 scalars)
{
  char       buffer[sizeof(PetscScalar)];
  PetscInt64 count = 0;
  PetscBool  more;

  PetscFunctionBegin;
  while (count < scalars && fread(buffer, sizeof(buffer), 1, binary->file.stream) == 1) count++;
  binary->rest = count * (PetscInt64)sizeof(buffer);
  if (count == scalars) {
    PetscCall(BinaryFileNext(binary, &binary->next, &more));
    if (more) binary->rest += binary->width;
  }
  PetscFunctionReturn(0);
}

/* Compares what there is with what there should be */
static PetscErrorCode BinaryFileLength(const BinaryFile *binary, PetscInt64 scalars)
{
  const char *name = binary->file.name;

  PetscFunctionBegin;
  if (PetscDefined(USE_COMPLEX)) {
    PetscCheck(scalars == 0 || binary->rest != scalars * (PetscInt64)sizeof(PetscReal), PETSC_COMM_SELF, PETSC_ERR_SUP, "%s: has the length of a file of real numbers, and this PETSc has complex scalars; use one with real scalars, or save it in Matrix Market format", name);
  } else {
    PetscCheck(scalars == 0 || binary->rest != 2 * scalars * (PetscInt64)sizeof(PetscReal), PETSC_COMM_SELF, PETSC_ERR_SUP, "%s: has the length of a file of complex numbers, and this PETSc has real scalars; use one with complex scalars (make PETSC_DIR=..., or make SCALAR=complex petsc)", name);
  }
  PetscCheck(binary->rest >= scalars * (PetscInt64)sizeof(PetscScalar), PETSC_COMM_SELF, PETSC_ERR_FILE_READ, "%s: ends too early, %" PetscInt64_FMT " bytes are missing; it is cut off (fetch it again) or of another precision", name,
             scalars * (PetscInt64)sizeof(PetscScalar) - binary->rest);
  /* PETSc numbers its classes from that of vectors on */
  PetscCheck(binary->rest == scalars * (PetscInt64)sizeof(PetscScalar) || (binary->next >= VEC_FILE_CLASSID && binary->next < VEC_FILE_CLASSID + 20), PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: goes on with something that is no object of PETSc; it is damaged, or its scalars are real or complex and those of this PETSc are not", name);
  PetscFunctionReturn(0);
}

/* The object, if is tells that there is one of this class */
static PetscErrorCode BinaryFileBody(BinaryFile *binary, PetscInt classid, int count, PetscBool *is)
{
  PetscFunctionBegin;
  PetscCall(BinaryFileHeader(binary, classid, count, is));
  if (!*is) PetscFunctionReturn(0);
  PetscCheck(binary->width == (int)sizeof(PetscInt), PETSC_COMM_SELF, PETSC_ERR_SUP, "%s: was written with %d-bit indices, and this PETSc has %d-bit ones; use one that fits (make INDICES=%d petsc) or save it in Matrix Market format", binary->file.name,
             8 * binary->width, 8 * (int)sizeof(PetscInt), 8 * binary->width);
  if (classid == MAT_FILE_CLASSID) PetscCall(BinaryFileRows(binary));
  else PetscCheck(binary->numbers[0] >= 0, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: is damaged, its length is %" PetscInt64_FMT, binary->file.name, binary->numbers[0]);
  PetscCall(BinaryFileRest(binary, binary->numbers[count - 1]));
  PetscFunctionReturn(0);
}

/* Opens and reads an object of this class, checks it, and closes the file; is tells whether there is one */
static PetscErrorCode BinaryFileCheck(BinaryFile *binary, const char name[], PetscInt classid, PetscBool *is)
{
  const int      count = classid == MAT_FILE_CLASSID ? 3 : 1;
  PetscErrorCode ierr;
  PetscInt64     rest;

  PetscFunctionBegin;
  PetscCall(PetscMemzero(binary, sizeof(*binary)));
  PetscCall(InputFileOpen(&binary->file, name));
  ierr = BinaryFileBody(binary, classid, count, is);
  if (ierr) {
    PetscCall(InputFileDrop(&binary->file));
    PetscFunctionReturn(ierr);
  }
  PetscCall(InputFileClose(&binary->file, &rest));
  if (!*is) PetscFunctionReturn(0);
  binary->rest += rest;
  PetscCall(BinaryFileLength(binary, binary->numbers[count - 1]));
  PetscFunctionReturn(0);
}

/* Numbers that are not finite would turn all into such */
static PetscErrorCode BinaryFileFinite(Vec v, const char name[])
{
  PetscReal norm;

  PetscFunctionBegin;
  PetscCall(VecNorm(v, NORM_1, &norm));
  PetscCheck(!PetscIsInfOrNanReal(norm), PetscObjectComm((PetscObject)v), PETSC_ERR_FILE_UNEXPECTED, "%s: holds a number that is not finite", name);
  PetscFunctionReturn(0);
}

/* To a file of its own in the directory for temporary ones */
static PetscErrorCode BinaryFileUnpack(const char name[], const char directory[], char unpacked[], size_t length, PetscBool *done)
{
  char command[3 * PETSC_MAX_PATH_LEN];
  int  descriptor;

  PetscFunctionBegin;
  PetscCall(PetscSNPrintf(unpacked, length, "%s/unpackedXXXXXX", directory));
  descriptor = mkstemp(unpacked);
  *done      = (PetscBool)(descriptor >= 0);
  if (!*done) PetscFunctionReturn(0);
  PetscCall(PetscSNPrintf(command, sizeof(command), "gzip -dc '%s' 2>/dev/null > '%s'", name, unpacked));
  *done = (PetscBool)(!close(descriptor) && !system(command));
  if (!*done) (void)unlink(unpacked);
  PetscFunctionReturn(0);
}

/* A viewer for the file; a compressed one is unpacked by the first process, which alone reads, to a file that goes at once */
static PetscErrorCode BinaryFileViewer(MPI_Comm comm, const char name[], PetscViewer *viewer)
{
  PetscMPIInt rank;
  PetscBool   compressed, done = PETSC_TRUE;
  char        directory[PETSC_MAX_PATH_LEN], unpacked[PETSC_MAX_PATH_LEN];

  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_rank(comm, &rank));
  PetscCall(PetscStrendswith(name, ".gz", &compressed));
  PetscCall(PetscStrncpy(unpacked, name, sizeof(unpacked)));
  if (compressed) {
    PetscCall(PetscGetTmp(comm, directory, sizeof(directory)));
    if (rank == 0) PetscCall(BinaryFileUnpack(name, directory, unpacked, sizeof(unpacked), &done));
    PetscCallMPI(MPI_Bcast(&done, 1, MPIU_BOOL, 0, comm));
    PetscCheck(done, PETSC_COMM_SELF, PETSC_ERR_FILE_WRITE, "%s: cannot be unpacked in %s; set PETSC_TMP to a directory to write to, with room for it", name, directory);
  }
  PetscCall(PetscViewerBinaryOpen(comm, unpacked, FILE_MODE_READ, viewer));
  PetscCall(PetscViewerSetUp(*viewer));
  if (compressed && rank == 0) (void)unlink(unpacked);
  PetscFunctionReturn(0);
}

/*
   MatLoadPetscBinary - A new parallel matrix of the type of the options; is tells whether the file is one of a matrix
*/
static PetscErrorCode MatLoadPetscBinary(MPI_Comm comm, const char name[], Mat *newmat, PetscBool *is)
{
  BinaryFile     binary;
  PetscViewer    viewer;
  Mat            A;
  Vec            ones, sums;
  PetscErrorCode ierr;

  PetscFunctionBegin;
  PetscCall(BinaryFileCheck(&binary, name, MAT_FILE_CLASSID, is));
  if (!*is) PetscFunctionReturn(0);
  PetscCall(BinaryFileViewer(comm, name, &viewer));
  PetscCall(MatCreate(comm, &A));
  PetscCall(MatSetFromOptions(A));
  PetscCall(MatLoad(A, viewer));
  PetscCall(PetscViewerDestroy(&viewer));
  PetscCall(MatCreateVecs(A, &ones, &sums));
  PetscCall(VecSet(ones, 1.0));
  PetscCall(MatMult(A, ones, sums));
  ierr = BinaryFileFinite(sums, name);
  PetscCall(VecDestroy(&ones));
  PetscCall(VecDestroy(&sums));
  if (ierr) PetscCall(MatDestroy(&A));
  PetscCall(ierr);
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
  PetscCall(BinaryFileCheck(&binary, name, VEC_FILE_CLASSID, is));
  if (!*is) PetscFunctionReturn(0);
  PetscCall(VecGetSize(b, &N));
  PetscCheck(binary.numbers[0] == N, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: has %" PetscInt64_FMT " rows, the right-hand side must have the %" PetscInt_FMT " of the matrix", name, binary.numbers[0], N);
  PetscCall(BinaryFileViewer(PetscObjectComm((PetscObject)b), name, &viewer));
  PetscCall(VecLoad(b, viewer));
  PetscCall(PetscViewerDestroy(&viewer));
  PetscCall(BinaryFileFinite(b, name));
  PetscFunctionReturn(0);
}
