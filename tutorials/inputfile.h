/* An input file that is read from begin to end, plain or compressed with gzip, and the entries that are read from it */
#pragma once

#include <stdio.h>
#include <string.h>
#include <petscmat.h>

typedef struct {
  const char *name;
  FILE       *stream;
  PetscBool   piped; /* through gzip */
} InputFile;

/* Finds out whether a file can be read, and whether gzip has compressed it */
static PetscErrorCode InputFileTest(const char name[], PetscBool *compressed)
{
  unsigned char magic[2];
  PetscBool     exists;
  FILE         *stream;

  PetscFunctionBegin;
  PetscCall(PetscTestFile(name, 'r', &exists));
  PetscCheck(exists, PETSC_COMM_SELF, PETSC_ERR_FILE_OPEN, "%s: there is no such file that can be read; check the path", name);
  stream = fopen(name, "r");
  PetscCheck(stream, PETSC_COMM_SELF, PETSC_ERR_FILE_OPEN, "%s: cannot be opened", name);
  *compressed = (PetscBool)(fread(magic, 1, sizeof(magic), stream) == sizeof(magic) && magic[0] == 0x1f && magic[1] == 0x8b);
  (void)fclose(stream);
  PetscFunctionReturn(0);
}

/* Reads the output of a command that contains the name of the file between single quotes */
static PetscErrorCode InputFilePipe(InputFile *file, const char command[])
{
  PetscFunctionBegin;
  PetscCheck(!strchr(file->name, '\''), PETSC_COMM_SELF, PETSC_ERR_FILE_OPEN,
             "%s: rename the file, the name of a compressed file or of an archive must not contain a quote", file->name);
  file->piped  = PETSC_TRUE;
  file->stream = popen(command, "r");
  PetscCheck(file->stream, PETSC_COMM_SELF, PETSC_ERR_FILE_OPEN, "%s: cannot be opened", file->name);
  PetscFunctionReturn(0);
}

static PetscErrorCode InputFileOpen(InputFile *file, const char name[])
{
  char command[PETSC_MAX_PATH_LEN + 32];

  PetscFunctionBegin;
  file->name = name;
  PetscCall(InputFileTest(name, &file->piped));
  if (file->piped) {
    PetscCall(PetscSNPrintf(command, sizeof(command), "gzip -dc <'%s' 2>/dev/null", name));
    PetscCall(InputFilePipe(file, command));
  } else file->stream = fopen(name, "r");
  PetscCheck(file->stream, PETSC_COMM_SELF, PETSC_ERR_FILE_OPEN, "%s: cannot be opened", name);
  PetscFunctionReturn(0);
}

/* Closes a file without reading the rest */
PETSC_UNUSED static PetscErrorCode InputFileDrop(InputFile *file)
{
  PetscFunctionBegin;
  (void)(file->piped ? pclose(file->stream) : fclose(file->stream));
  PetscFunctionReturn(0);
}

/* Reads to the end, where gzip checks that the file is complete; rest is the number of bytes that were not read, or NULL */
static PetscErrorCode InputFileClose(InputFile *file, PetscInt64 *rest)
{
  char       buffer[4096];
  size_t     count;
  PetscInt64 bytes = 0;
  int        status;

  PetscFunctionBegin;
  while ((count = fread(buffer, 1, sizeof(buffer), file->stream)) > 0) bytes += (PetscInt64)count;
  status = file->piped ? pclose(file->stream) : fclose(file->stream);
  PetscCheck(!status, PETSC_COMM_SELF, PETSC_ERR_FILE_READ,
             "%s: gzip cannot read it to its end; it is cut off or damaged: fetch it again", file->name);
  if (rest) *rest = bytes;
  PetscFunctionReturn(0);
}

/* Closes a file, if it is open, after reading has ended with ierr. If the file is truncated, this explains all other mistakes */
static PetscErrorCode InputFileEnd(InputFile *file, PetscErrorCode ierr)
{
  PetscFunctionBegin;
  if (file->stream) PetscCall(InputFileClose(file, NULL));
  PetscFunctionReturn(ierr);
}

/* Entries that are read from a file: of a matrix A, or of one column for a vector b */
typedef struct {
  Mat          A;
  Vec          b;
  PetscInt     column;
  PetscInt     rstart, rend;                 /* rows of this process */
  PetscInt     count, room, *rows, *columns; /* entries of this process */
  PetscScalar *values;
} FileEntries;

/* A reader of one format: calls FileEntriesBegin(), and FileEntriesAdd() for each entry */
typedef PetscErrorCode (*FileReader)(const char name[], FileEntries *entries);

/* Begins to read an M x N matrix */
static PetscErrorCode FileEntriesBegin(FileEntries *entries, const char name[], PetscInt64 M, PetscInt64 N)
{
  PetscLayout layout;
  PetscInt    rows;

  PetscFunctionBegin;
  if (entries->A) {
    PetscCheck(M == N, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED,
               "%s: is %" PetscInt64_FMT " x %" PetscInt64_FMT
               ", the matrix of a linear system must be square; least squares are for KSPLSQR",
               name, M, N);
    PetscCall(MatSetSizes(entries->A, PETSC_DECIDE, PETSC_DECIDE, (PetscInt)M, (PetscInt)N));
    PetscCall(MatSetFromOptions(entries->A));
    PetscCall(MatGetLayouts(entries->A, &layout, NULL));
    PetscCall(PetscLayoutSetUp(layout));
    PetscCall(PetscLayoutGetRange(layout, &entries->rstart, &entries->rend));
  } else {
    PetscCall(VecGetSize(entries->b, &rows));
    PetscCall(VecGetOwnershipRange(entries->b, &entries->rstart, &entries->rend));
    PetscCheck(M == rows, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED,
               "%s: has %" PetscInt64_FMT " rows, the right-hand side must have the %" PetscInt_FMT " of the matrix", name, M,
               rows);
    PetscCheck(entries->column >= 0 && entries->column < N, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED,
               "%s: has %" PetscInt64_FMT " columns, counted from 0; there is no column %" PetscInt_FMT, name, N, entries->column);
  }
  PetscFunctionReturn(0);
}

/* Keeps an entry that belongs to this process; i and j count from 0 */
static PetscErrorCode FileEntriesAdd(FileEntries *entries, PetscInt i, PetscInt j, PetscScalar value)
{
  PetscFunctionBegin;
  if (i < entries->rstart || i >= entries->rend || (entries->b && j != entries->column)) PetscFunctionReturn(0);
  if (entries->count == entries->room) {
    entries->room = entries->room < PETSC_MAX_INT / 2 ? PetscMax(2 * entries->room, 1024) : PETSC_MAX_INT;
    PetscCheck(entries->count < entries->room, PETSC_COMM_SELF, PETSC_ERR_SUP,
               "there are too many entries for the integers of this PETSc; use one with 64-bit indices (make INDICES=64 petsc)");
    PetscCall(PetscRealloc((size_t)entries->room * sizeof(*entries->rows), &entries->rows));
    PetscCall(PetscRealloc((size_t)entries->room * sizeof(*entries->columns), &entries->columns));
    PetscCall(PetscRealloc((size_t)entries->room * sizeof(*entries->values), &entries->values));
  }
  entries->rows[entries->count]     = i;
  entries->columns[entries->count]  = j;
  entries->values[entries->count++] = value;
  PetscFunctionReturn(0);
}

/* Stores the entries in A or b; repeated entries are added */
static PetscErrorCode FileEntriesPut(FileEntries *entries)
{
  PetscScalar *array;

  PetscFunctionBegin;
  if (entries->A) {
    PetscCall(MatSetPreallocationCOO(entries->A, entries->count, entries->rows, entries->columns));
    PetscCall(MatSetValuesCOO(entries->A, entries->values, INSERT_VALUES));
  } else {
    PetscCall(VecSet(entries->b, 0.0));
    PetscCall(VecGetArray(entries->b, &array));
    for (PetscInt k = 0; k < entries->count; k++) array[entries->rows[k] - entries->rstart] += entries->values[k];
    PetscCall(VecRestoreArray(entries->b, &array));
  }
  PetscFunctionReturn(0);
}

/* Reads the file, and stores its entries */
static PetscErrorCode FileEntriesLoad(FileEntries *entries, const char name[], FileReader reader)
{
  PetscErrorCode ierr;

  PetscFunctionBegin;
  ierr = reader(name, entries);
  if (!ierr) ierr = FileEntriesPut(entries);
  PetscCall(PetscFree(entries->rows));
  PetscCall(PetscFree(entries->columns));
  PetscCall(PetscFree(entries->values));
  PetscFunctionReturn(ierr);
}

/* Creates a parallel matrix of the type of the options */
PETSC_UNUSED static PetscErrorCode MatLoadFile(MPI_Comm comm, const char name[], FileReader reader, Mat *newmat)
{
  FileEntries    entries = {.count = 0};
  PetscErrorCode ierr;

  PetscFunctionBegin;
  PetscCall(MatCreate(comm, &entries.A));
  ierr = FileEntriesLoad(&entries, name, reader);
  if (ierr) PetscCall(MatDestroy(&entries.A));
  PetscCall(ierr);
  *newmat = entries.A;
  PetscFunctionReturn(0);
}

/* Fills a vector with one column */
PETSC_UNUSED static PetscErrorCode VecLoadFile(Vec b, const char name[], FileReader reader, PetscInt column)
{
  FileEntries entries = {.b = b, .column = column};

  PetscFunctionBegin;
  PetscCall(FileEntriesLoad(&entries, name, reader));
  PetscFunctionReturn(0);
}
