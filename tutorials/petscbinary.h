/*
   Reads the first matrix and the first vector of PETSc's binary files, as MatView() and VecView() write them, plain or compressed
   with gzip. MatLoad() does the work; headers and length are checked before, since it might fail, or wait for data that never
   comes.
*/
#pragma once

#include <unistd.h>
#include <petscmat.h>
#include "inputfile.h"

#define BINARY_MOST (INT64_MAX / 64) /* no size is larger, so that numbers of bytes do not overflow */

typedef struct {
  InputFile  file;
  int        width;      /* bytes of an integer */
  PetscInt64 numbers[3]; /* a matrix: rows, columns, nonzeros; a vector: length */
  PetscInt64 offset;     /* bytes before this object */
  PetscInt64 rest;       /* bytes of the scalars and of what follows */
  PetscInt64 next;       /* class of the object that follows, 0 at the end of the file */
  PetscInt   found;      /* objects of the wanted class */
} BinaryFile;

/* Returns an integer of the header, most significant byte first */
static PetscInt64 BinaryFileInteger(const unsigned char bytes[], int width)
{
  PetscInt64 value = 0;

  for (int i = 0; i < width; i++) value = (PetscInt64)((PetscInt64)((uint64_t)value << 8) | bytes[i]);
  return width == 4 ? (PetscInt64)(int32_t)value : value;
}

/* Reads the next integer; read is PETSC_FALSE if the file ends before */
static PetscErrorCode BinaryFileNext(BinaryFile *binary, PetscInt64 *value, PetscBool *read)
{
  unsigned char bytes[8];

  PetscFunctionBegin;
  *read  = (PetscBool)(fread(bytes, 1, (size_t)binary->width, binary->file.stream) == (size_t)binary->width);
  *value = *read ? BinaryFileInteger(bytes, binary->width) : 0;
  PetscFunctionReturn(0);
}

/* Checks that the next count integers are from 0 to high, and computes their sum */
static PetscErrorCode BinaryFileIntegers(BinaryFile *binary, PetscInt64 count, PetscInt64 high, const char what[], PetscInt64 *sum)
{
  PetscFunctionBegin;
  *sum = 0;
  for (PetscInt64 i = 0; i < count; i++) {
    PetscInt64 value;
    PetscBool  read;

    PetscCall(BinaryFileNext(binary, &value, &read));
    PetscCheck(read, PETSC_COMM_SELF, PETSC_ERR_FILE_READ, "%s: ends too early, it is cut off: fetch it again", binary->file.name);
    PetscCheck(value >= 0 && value <= high, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED,
               "%s: is damaged, %s %" PetscInt64_FMT " is not from 0 to %" PetscInt64_FMT, binary->file.name, what, value, high);
    *sum = PetscMin(*sum + value, BINARY_MOST + 1); /* without overflow */
  }
  PetscFunctionReturn(0);
}

/* Reads the data between header and scalars: the number of entries of each row, and their columns */
static PetscErrorCode BinaryFileRows(BinaryFile *binary)
{
  const char       *name  = binary->file.name;
  const PetscInt64 *sizes = binary->numbers;
  PetscInt64        sum, ignored;

  PetscFunctionBegin;
  PetscCheck(sizes[2] >= 0, PETSC_COMM_SELF, PETSC_ERR_SUP,
             "%s: is a dense matrix; convert it to MATAIJ with MatConvert() before MatView()", name);
  PetscCheck(sizes[0] >= 0 && sizes[0] == sizes[1], PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED,
             "%s: is %" PetscInt64_FMT " x %" PetscInt64_FMT
             ", the matrix of a linear system must be square; least squares are for KSPLSQR",
             name, sizes[0], sizes[1]);
  PetscCall(BinaryFileIntegers(binary, sizes[0], sizes[1], "the number of entries of a row,", &sum));
  PetscCheck(sum == sizes[2], PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED,
             "%s: is damaged, its rows have %" PetscInt64_FMT " entries, and %" PetscInt64_FMT " are announced", name, sum,
             sizes[2]);
  PetscCall(BinaryFileIntegers(binary, sizes[2], sizes[1] - 1, "the column of an entry,", &ignored));
  PetscFunctionReturn(0);
}

/* PETSc numbers its classes from the class of vectors on */
static PetscBool BinaryFileIsClass(PetscInt64 classid)
{
  return (PetscBool)(classid >= VEC_FILE_CLASSID && classid < VEC_FILE_CLASSID + 20);
}

/* Compares the size of the file with the size that its headers require */
static PetscErrorCode BinaryFileLength(const BinaryFile *binary, PetscInt64 scalars)
{
  const char *name = binary->file.name;

  PetscFunctionBegin;
  if (PetscDefined(USE_COMPLEX)) {
    PetscCheck(scalars == 0 || binary->rest != scalars * (PetscInt64)sizeof(PetscReal), PETSC_COMM_SELF, PETSC_ERR_SUP,
               "%s: has the length of a file of real numbers, and this PETSc has complex scalars; use one with real scalars, or "
               "save it in Matrix Market format",
               name);
  } else {
    PetscCheck(scalars == 0 || binary->rest != 2 * scalars * (PetscInt64)sizeof(PetscReal), PETSC_COMM_SELF, PETSC_ERR_SUP,
               "%s: has the length of a file of complex numbers, and this PETSc has real scalars; use one with complex scalars "
               "(make PETSC_DIR=..., or make SCALAR=complex petsc)",
               name);
  }
  PetscCheck(binary->rest >= scalars * (PetscInt64)sizeof(PetscScalar), PETSC_COMM_SELF, PETSC_ERR_FILE_READ,
             "%s: ends too early, %" PetscInt64_FMT " bytes are missing; it is cut off (fetch it again) or of another precision",
             name, scalars * (PetscInt64)sizeof(PetscScalar) - binary->rest);
  PetscCheck(binary->rest == scalars * (PetscInt64)sizeof(PetscScalar) || BinaryFileIsClass(binary->next), PETSC_COMM_SELF,
             PETSC_ERR_FILE_UNEXPECTED,
             "%s: goes on with something that is no object of PETSc; it is damaged, or its scalars are real or complex and those "
             "of this PETSc are not",
             name);
  PetscFunctionReturn(0);
}

/* Reads an object, whose class has been read, and the class of the next object */
static PetscErrorCode BinaryFileObject(BinaryFile *binary, PetscBool matrix)
{
  const int  count = matrix ? 3 : 1;
  char       buffer[4096];
  PetscInt64 bytes;
  PetscBool  more;

  PetscFunctionBegin;
  PetscCheck(binary->width == (int)sizeof(PetscInt), PETSC_COMM_SELF, PETSC_ERR_SUP,
             "%s: was written with %d-bit indices, and this PETSc has %d-bit ones; use one that fits (make INDICES=%d petsc) or "
             "save it in Matrix Market format",
             binary->file.name, 8 * binary->width, 8 * (int)sizeof(PetscInt), 8 * binary->width);
  for (int i = 0; i < count; i++) {
    PetscCall(BinaryFileNext(binary, &binary->numbers[i], &more));
    PetscCheck(more, PETSC_COMM_SELF, PETSC_ERR_FILE_READ, "%s: ends too early, it is cut off: fetch it again", binary->file.name);
    PetscCheck(binary->numbers[i] <= BINARY_MOST, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED,
               "%s: is damaged, it has a size of %" PetscInt64_FMT, binary->file.name, binary->numbers[i]);
  }
  if (matrix) PetscCall(BinaryFileRows(binary));
  else
    PetscCheck(binary->numbers[0] >= 0, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED,
               "%s: is damaged, its length is %" PetscInt64_FMT, binary->file.name, binary->numbers[0]);
  bytes        = binary->numbers[count - 1] * (PetscInt64)sizeof(PetscScalar);
  binary->rest = 0;
  for (size_t read = 1; read > 0 && binary->rest < bytes; binary->rest += (PetscInt64)read)
    read = fread(buffer, 1, (size_t)PetscMin((PetscInt64)sizeof(buffer), bytes - binary->rest), binary->file.stream);
  PetscCall(BinaryFileNext(binary, &binary->next, &more));
  if (more) binary->rest += binary->width;
  PetscFunctionReturn(0);
}

/* Goes to object j, counted from 0, of the wanted class; is is PETSC_TRUE if PETSc wrote the file */
static PetscErrorCode BinaryFileSeek(BinaryFile *binary, PetscInt wanted, PetscInt j, PetscBool *is)
{
  PetscInt64 classid, bytes;
  PetscBool  matrix;

  PetscFunctionBegin;
  binary->width = 4;
  PetscCall(BinaryFileNext(binary, &classid, is));
  if (*is && classid == 0) { /* the upper half of a longer integer */
    PetscCall(BinaryFileNext(binary, &classid, is));
    binary->width = 8;
  }
  *is = (PetscBool)(*is && BinaryFileIsClass(classid));
  for (; *is && (classid == MAT_FILE_CLASSID || classid == VEC_FILE_CLASSID); classid = binary->next) {
    matrix = (PetscBool)(classid == MAT_FILE_CLASSID);
    PetscCall(BinaryFileObject(binary, matrix));
    if (classid == wanted && binary->found++ == j) break;
    bytes = binary->numbers[matrix ? 2 : 0] * (PetscInt64)sizeof(PetscScalar);
    PetscCheck(binary->rest == bytes || (binary->rest == bytes + binary->width && BinaryFileIsClass(binary->next)), PETSC_COMM_SELF,
               PETSC_ERR_FILE_UNEXPECTED, "%s: ends too early, or goes on with something that is no object of PETSc",
               binary->file.name);
    binary->offset += bytes + binary->width * (matrix ? 4 + binary->numbers[0] + binary->numbers[2] : 2);
  }
  PetscFunctionReturn(0);
}

/* Opens a file, looks for object j of the wanted class, checks it, and closes the file; is is PETSC_TRUE if PETSc wrote the file */
static PetscErrorCode BinaryFileCheck(BinaryFile *binary, const char name[], PetscInt wanted, PetscInt j, PetscBool *is)
{
  PetscErrorCode ierr;
  PetscInt64     rest;

  PetscFunctionBegin;
  PetscCall(PetscMemzero(binary, sizeof(*binary)));
  PetscCall(InputFileOpen(&binary->file, name));
  ierr = BinaryFileSeek(binary, wanted, j, is);
  if (ierr) PetscCall(InputFileEnd(&binary->file, ierr));
  if (!*is) {
    PetscCall(InputFileDrop(&binary->file));
    PetscFunctionReturn(0);
  }
  PetscCall(InputFileClose(&binary->file, &rest));
  binary->rest += rest;
  if (binary->found > j) PetscCall(BinaryFileLength(binary, binary->numbers[wanted == MAT_FILE_CLASSID ? 2 : 0]));
  PetscFunctionReturn(0);
}

/* Checks that all numbers are finite */
static PetscErrorCode BinaryFileFinite(Vec v, const char name[])
{
  PetscReal norm;

  PetscFunctionBegin;
  PetscCall(VecNorm(v, NORM_1, &norm));
  PetscCheck(!PetscIsInfOrNanReal(norm), PetscObjectComm((PetscObject)v), PETSC_ERR_FILE_UNEXPECTED,
             "%s: holds a number that is not finite", name);
  PetscFunctionReturn(0);
}

/* Unpacks to a new file in the directory for temporary files */
static PetscErrorCode BinaryFileUnpack(const char name[], const char directory[], char unpacked[], size_t length, PetscBool *done)
{
  char command[3 * PETSC_MAX_PATH_LEN];
  int  descriptor;

  PetscFunctionBegin;
  PetscCall(PetscSNPrintf(unpacked, length, "%s/unpackedXXXXXX", directory));
  descriptor = mkstemp(unpacked);
  *done      = (PetscBool)(descriptor >= 0);
  if (!*done) PetscFunctionReturn(0);
  PetscCall(PetscSNPrintf(command, sizeof(command), "gzip -dc <'%s' 2>/dev/null >'%s'", name, unpacked));
  *done = (PetscBool)(!close(descriptor) && !system(command));
  if (!*done) (void)unlink(unpacked);
  PetscFunctionReturn(0);
}

/*
   Opens a viewer at the object that was found. Only the first process reads; it unpacks a compressed file to a file that is removed
   immediately
*/
static PetscErrorCode BinaryFileViewer(MPI_Comm comm, const BinaryFile *binary, PetscViewer *viewer)
{
  const char *name = binary->file.name;
  int         descriptor;
  off_t       ignored;
  PetscMPIInt rank;
  PetscBool   compressed, done = PETSC_TRUE;
  char        directory[PETSC_MAX_PATH_LEN], unpacked[PETSC_MAX_PATH_LEN];

  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_rank(comm, &rank));
  PetscCall(InputFileTest(name, &compressed));
  PetscCall(PetscStrncpy(unpacked, name, sizeof(unpacked)));
  if (compressed) {
    PetscCall(PetscGetTmp(comm, directory, sizeof(directory)));
    if (rank == 0) PetscCall(BinaryFileUnpack(name, directory, unpacked, sizeof(unpacked), &done));
    PetscCallMPI(MPI_Bcast(&done, (PetscMPIInt)sizeof(done), MPI_BYTE, 0, comm));
    PetscCheck(done, PETSC_COMM_SELF, PETSC_ERR_FILE_WRITE,
               "%s: cannot be unpacked in %s; set PETSC_TMP to a directory to write to, with room for it", name, directory);
  }
  PetscCall(PetscViewerBinaryOpen(comm, unpacked, FILE_MODE_READ, viewer));
  PetscCall(PetscViewerSetUp(*viewer));
  if (compressed && rank == 0) (void)unlink(unpacked);
  PetscCall(PetscViewerBinaryGetDescriptor(*viewer, &descriptor));
  PetscCall(PetscBinarySynchronizedSeek(comm, descriptor, (off_t)binary->offset, PETSC_BINARY_SEEK_SET, &ignored));
  PetscFunctionReturn(0);
}

/* MatLoadPetscBinary - Creates a parallel matrix of the type of the options; is is PETSC_TRUE if the file has a matrix */
static PetscErrorCode MatLoadPetscBinary(MPI_Comm comm, const char name[], Mat *newmat, PetscBool *is)
{
  BinaryFile     binary;
  PetscViewer    viewer;
  Mat            A;
  Vec            ones, sums;
  PetscErrorCode ierr;

  PetscFunctionBegin;
  PetscCall(BinaryFileCheck(&binary, name, MAT_FILE_CLASSID, 0, is));
  if (!*is) PetscFunctionReturn(0);
  PetscCheck(binary.found > 0, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: is a binary file of PETSc without a matrix", name);
  PetscCall(BinaryFileViewer(comm, &binary, &viewer));
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

/* VecLoadPetscBinary - Fills a vector with vector j of a file, counted from 0; is is PETSC_TRUE if PETSc wrote the file */
static PetscErrorCode VecLoadPetscBinary(Vec b, const char name[], PetscInt j, PetscBool *is)
{
  BinaryFile  binary;
  PetscViewer viewer;
  PetscInt    N;

  PetscFunctionBegin;
  PetscCall(BinaryFileCheck(&binary, name, VEC_FILE_CLASSID, j, is));
  if (!*is) PetscFunctionReturn(0);
  PetscCall(VecGetSize(b, &N));
  PetscCheck(j >= 0 && binary.found > j, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED,
             "%s: is a binary file of PETSc with vectors: %" PetscInt_FMT "; there is no vector %" PetscInt_FMT ", counted from 0",
             name, binary.found, j);
  PetscCheck(binary.numbers[0] == N, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED,
             "%s: has %" PetscInt64_FMT " rows, the right-hand side must have the %" PetscInt_FMT " of the matrix", name,
             binary.numbers[0], N);
  PetscCall(BinaryFileViewer(PetscObjectComm((PetscObject)b), &binary, &viewer));
  PetscCall(VecLoad(b, viewer));
  PetscCall(PetscViewerDestroy(&viewer));
  PetscCall(BinaryFileFinite(b, name));
  PetscFunctionReturn(0);
}

/* PetscBinaryHasVector - Returns PETSC_TRUE if PETSc wrote the file, and vector j of the file has N entries */
PETSC_UNUSED static PetscErrorCode PetscBinaryHasVector(const char name[], PetscInt N, PetscInt j, PetscBool *has)
{
  BinaryFile binary;
  PetscBool  is;

  PetscFunctionBegin;
  PetscCall(BinaryFileCheck(&binary, name, VEC_FILE_CLASSID, j, &is));
  *has = (PetscBool)(is && binary.found > j && binary.numbers[0] == N);
  PetscFunctionReturn(0);
}
