/*
   Reads arrays as numpy.save() writes them (npy, of one or two dimensions), and sparse matrices as scipy.sparse.save_npz() writes
   them (csr, csc, coo). Every process reads the file and keeps its own entries. No Python is needed: a npz file is a zip
   archive, and gzip decompresses its members.
*/
#pragma once

#include <ctype.h>
#include <stdlib.h>
#include "inputfile.h"

typedef struct {
  InputFile  file;
  char       kind;  /* of numbers: b, i, u, f, c */
  int        width; /* bytes of a number */
  PetscBool  bigendian, fortran;
  int        dimensions;
  PetscInt64 shape[2]; /* 1 beyond the dimensions */
} NumpyArray;

/* Returns an unsigned integer of 1 to 8 bytes */
static uint64_t NumpyBytes(const unsigned char bytes[], int width, PetscBool bigendian)
{
  uint64_t value = 0;

  for (int i = 0; i < width; i++) value = value << 8 | bytes[bigendian ? i : width - 1 - i];
  return value;
}

static PetscErrorCode NumpyRead(InputFile *file, void *bytes, size_t count)
{
  PetscFunctionBegin;
  PetscCheck(fread(bytes, 1, count, file->stream) == count, PETSC_COMM_SELF, PETSC_ERR_FILE_READ,
             "%s: ends too early, it is cut off: fetch it again", file->name);
  PetscFunctionReturn(0);
}

static PetscErrorCode NumpySeek(InputFile *file, uint64_t offset)
{
  PetscFunctionBegin;
  PetscCheck(!fseek(file->stream, (long)offset, SEEK_SET), PETSC_COMM_SELF, PETSC_ERR_FILE_READ,
             "%s: cannot be read at byte %" PetscInt64_FMT, file->name, (PetscInt64)offset);
  PetscFunctionReturn(0);
}

/* Returns the value of a signed integer that was read without its sign */
static int64_t NumpySign(uint64_t bits, int width)
{
  const int unused = 64 - 8 * width;

  return (int64_t)(bits << unused) >> unused;
}

/* Finds the value of a key of the header, a literal of Python: {'descr': '<f8', 'fortran_order': False, 'shape': (30, 2), } */
static PetscErrorCode NumpyKey(NumpyArray *array, const char header[], const char key[], const char **value)
{
  PetscFunctionBegin;
  *value = strstr(header, key);
  PetscCheck(*value, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: is damaged, the header of an array lacks %s",
             array->file.name, key);
  *value += strlen(key);
  while (isspace((unsigned char)**value)) (*value)++;
  PetscFunctionReturn(0);
}

/* Reads type and shape of an array */
static PetscErrorCode NumpyArrayHeader(NumpyArray *array)
{
  const char   *name = array->file.name, *value;
  char         *end;
  unsigned char start[12];
  char          header[4096] = "";
  uint64_t      length;
  int           more;

  PetscFunctionBegin;
  PetscCall(NumpyRead(&array->file, start, 8));
  PetscCheck(!memcmp(start, "\x93NUMPY", 6), PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED,
             "%s: is damaged, it should hold an array of numpy", name);
  more = start[6] == 1 ? 2 : 4;
  PetscCall(NumpyRead(&array->file, start, (size_t)more));
  length = NumpyBytes(start, more, PETSC_FALSE);
  PetscCheck(length < sizeof(header), PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED,
             "%s: is damaged, or its numbers are records; only plain numbers are read", name);
  PetscCall(NumpyRead(&array->file, header, (size_t)length));
  PetscCall(NumpyKey(array, header, "'descr':", &value));
  array->kind      = value[0] == '\'' && value[1] ? value[2] : '\0';
  array->bigendian = (PetscBool)(value[0] == '\'' && value[1] == '>');
  array->width     = array->kind ? atoi(value + 3) : 0;
  PetscCheck(array->width > 0 && array->kind && strchr("biufcSU", array->kind), PETSC_COMM_SELF, PETSC_ERR_SUP,
             "%s: numbers of type %.*s are not read", name, (int)strcspn(value, ","), value);
  PetscCall(NumpyKey(array, header, "'fortran_order':", &value));
  array->fortran = (PetscBool)(value[0] == 'T');
  PetscCall(NumpyKey(array, header, "'shape':", &value));
  array->shape[0] = array->shape[1] = 1;
  array->dimensions                 = 0;
  for (value += *value == '('; isdigit((unsigned char)*value); array->dimensions++) {
    PetscInt64 size = (PetscInt64)strtoll(value, &end, 10);

    PetscCheck(array->dimensions < 2, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: is an array of more than two dimensions",
               name);
    PetscCheck(size <= PETSC_MAX_INT, PETSC_COMM_SELF, PETSC_ERR_SUP,
               "%s: has a size too large for the integers of this PETSc; use one with 64-bit indices (make INDICES=64 petsc)",
               name);
    array->shape[array->dimensions] = size;
    for (value = end; *value == ',' || *value == ' '; value++) {}
  }
  PetscFunctionReturn(0);
}

/* Reads the next number */
static PetscErrorCode NumpyArrayNext(NumpyArray *array, PetscScalar *value)
{
  const char     *name  = array->file.name;
  const int       parts = array->kind == 'c' ? 2 : 1, width = array->width / parts;
  const PetscBool real = (PetscBool)(array->kind == 'f' || array->kind == 'c');
  unsigned char   bytes[8];
  double          part[2] = {0.0, 0.0};

  PetscFunctionBegin;
  PetscCheck(width == 4 || width == 8 || (!real && (width == 1 || width == 2)), PETSC_COMM_SELF, PETSC_ERR_SUP,
             "%s: numbers of type %c%d are not read", name, array->kind, array->width);
  PetscCheck(parts == 1 || PetscDefined(USE_COMPLEX), PETSC_COMM_SELF, PETSC_ERR_SUP,
             "%s: has complex entries, and this PETSc has real scalars; use one with complex scalars (make PETSC_DIR=..., or make "
             "SCALAR=complex petsc)",
             name);
  for (int i = 0; i < parts; i++) {
    uint64_t bits;

    PetscCall(NumpyRead(&array->file, bytes, (size_t)width));
    bits = NumpyBytes(bytes, width, array->bigendian);
    if (array->kind == 'i') part[i] = (double)NumpySign(bits, width);
    else if (!real) part[i] = (double)bits;
    else if (width == 4) {
      const uint32_t bits32 = (uint32_t)bits;
      float          number;

      memcpy(&number, &bits32, sizeof(number));
      part[i] = number;
    } else memcpy(&part[i], &bits, sizeof(part[i]));
    PetscCheck(!PetscIsInfOrNanReal((PetscReal)part[i]), PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED,
               "%s: holds a number that is not finite", name);
  }
#if PetscDefined(USE_COMPLEX)
  *value = PetscCMPLX((PetscReal)part[0], (PetscReal)part[1]);
#else
  *value = (PetscReal)part[0];
#endif
  PetscFunctionReturn(0);
}

/* Reads an integer from low to high */
static PetscErrorCode NumpyArrayIndex(NumpyArray *array, PetscInt64 low, PetscInt64 high, PetscInt64 *index)
{
  unsigned char bytes[8];
  uint64_t      bits;

  PetscFunctionBegin;
  PetscCheck((array->kind == 'i' || array->kind == 'u') && (array->width == 4 || array->width == 8), PETSC_COMM_SELF,
             PETSC_ERR_FILE_UNEXPECTED, "%s: is damaged, an index is no integer", array->file.name);
  PetscCall(NumpyRead(&array->file, bytes, (size_t)array->width));
  bits   = NumpyBytes(bytes, array->width, array->bigendian);
  *index = (PetscInt64)(array->kind == 'i' ? NumpySign(bits, array->width) : (int64_t)bits);
  PetscCheck(*index >= low && *index <= high, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED,
             "%s: is damaged, an index %" PetscInt64_FMT " is not from %" PetscInt64_FMT " to %" PetscInt64_FMT, array->file.name,
             *index, low, high);
  PetscFunctionReturn(0);
}

/* Reads a dense array, by rows or, in Fortran's order, by columns; zeros are no entries, except on the diagonal */
static PetscErrorCode NumpyArrayBody(NumpyArray *array, FileEntries *entries)
{
  PetscInt outer, inner;

  PetscFunctionBegin;
  PetscCall(NumpyArrayHeader(array));
  PetscCall(FileEntriesBegin(entries, array->file.name, array->shape[0], array->shape[1]));
  outer = (PetscInt)array->shape[array->fortran ? 1 : 0];
  inner = (PetscInt)array->shape[array->fortran ? 0 : 1];
  for (PetscInt k = 0; k < outer; k++) {
    for (PetscInt l = 0; l < inner; l++) {
      PetscScalar value = 0.0;

      PetscCall(NumpyArrayNext(array, &value));
      if (k == l || value != (PetscScalar)0.0)
        PetscCall(FileEntriesAdd(entries, array->fortran ? l : k, array->fortran ? k : l, value));
    }
  }
  PetscFunctionReturn(0);
}

/*
   Opens a member of a zip archive: finds it in the directory at the end of the archive, and cuts it out, so that nothing behind it
   is read. If it is compressed, gzip decompresses it, with the head and tail that are missing in the archive
*/
static PetscErrorCode NumpyZipOpen(InputFile *file, const char name[], const char member[])
{
  unsigned char end[22], entry[46], local[30];
  char          title[64], tail[64] = "", part[PETSC_MAX_PATH_LEN + 64], command[PETSC_MAX_PATH_LEN + 256];
  uint64_t      number, size, offset;

  PetscFunctionBegin;
  file->name   = name;
  file->stream = fopen(name, "r");
  PetscCheck(file->stream && !fseek(file->stream, -(long)sizeof(end), SEEK_END), PETSC_COMM_SELF, PETSC_ERR_FILE_OPEN,
             "%s: cannot be read; it is cut off: fetch it again", name);
  PetscCall(NumpyRead(file, end, sizeof(end)));
  PetscCheck(!memcmp(end, "PK\5\6", 4), PETSC_COMM_SELF, PETSC_ERR_FILE_READ, "%s: ends too early, it is cut off: fetch it again",
             name);
  PetscCall(NumpySeek(file, NumpyBytes(end + 16, 4, PETSC_FALSE)));
  for (number = NumpyBytes(end + 10, 2, PETSC_FALSE); number > 0; number--) {
    size_t length;

    PetscCall(NumpyRead(file, entry, sizeof(entry)));
    length = (size_t)NumpyBytes(entry + 28, 2, PETSC_FALSE);
    PetscCheck(length < sizeof(title), PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: is no file of scipy.sparse.save_npz()",
               name);
    PetscCall(NumpyRead(file, title, length));
    title[length] = '\0';
    if (!strcmp(title, member)) break;
    PetscCall(NumpySeek(file, (uint64_t)ftell(file->stream) + NumpyBytes(entry + 30, 2, PETSC_FALSE) +
                                NumpyBytes(entry + 32, 2, PETSC_FALSE)));
  }
  PetscCheck(number > 0, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED,
             "%s: lacks %s, it is no matrix that scipy.sparse.save_npz() has written", name, member);
  size   = NumpyBytes(entry + 20, 4, PETSC_FALSE);
  offset = NumpyBytes(entry + 42, 4, PETSC_FALSE);
  PetscCheck(PetscMax(size, offset) < 0xffffffff, PETSC_COMM_SELF, PETSC_ERR_SUP,
             "%s: has a part larger than 4 GB; write it as PETSc's binary file", name);
  PetscCall(NumpySeek(file, offset));
  PetscCall(NumpyRead(file, local, sizeof(local)));
  offset += sizeof(local) + NumpyBytes(local + 26, 2, PETSC_FALSE) + NumpyBytes(local + 28, 2, PETSC_FALSE);
  (void)fclose(file->stream);
  file->stream = NULL;
  PetscCall(PetscSNPrintf(part, sizeof(part), "tail -c +%" PetscInt64_FMT " '%s' | head -c %" PetscInt64_FMT,
                          (PetscInt64)offset + 1, name, (PetscInt64)size));
  /* checksum and size of the decompressed data */
  for (int i = 0; i < 8; i++) (void)sprintf(tail + 4 * i, "\\%03o", entry[i < 4 ? 16 + i : 20 + i]);
  if (NumpyBytes(entry + 10, 2, PETSC_FALSE) == 0) PetscCall(PetscSNPrintf(command, sizeof(command), "%s", part));
  else
    PetscCall(PetscSNPrintf(
      command, sizeof(command),
      "{ printf '\\037\\213\\010\\000\\000\\000\\000\\000\\000\\003'; %s; printf '%s'; } 2>/dev/null | gzip -dc 2>/dev/null", part,
      tail));
  PetscCall(InputFilePipe(file, command));
  PetscFunctionReturn(0);
}

/* Opens an array of a npz file, and reads its header */
static PetscErrorCode NumpyZipArray(NumpyArray *array, const char name[], const char part[])
{
  char member[32];

  PetscFunctionBegin;
  PetscCall(PetscSNPrintf(member, sizeof(member), "%s.npy", part));
  PetscCall(NumpyZipOpen(&array->file, name, member));
  PetscCall(NumpyArrayHeader(array));
  PetscFunctionReturn(0);
}

/* Checks that an array has one dimension of this length */
static PetscErrorCode NumpyArrayLength(const NumpyArray *array, const char part[], PetscInt64 length)
{
  PetscFunctionBegin;
  PetscCheck(array->dimensions == 1 && array->shape[0] == length, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED,
             "%s: is damaged, %s has %d dimensions, the first of length %" PetscInt64_FMT
             "; according to shape and data it has one of length %" PetscInt64_FMT,
             array->file.name, part, array->dimensions, array->shape[0], length);
  PetscFunctionReturn(0);
}

typedef struct {
  NumpyArray format, shape, data, first, second; /* first, second: indptr and indices, or row and col */
} NumpySparse;

static PetscErrorCode NumpySparseBody(NumpySparse *sparse, const char name[], FileEntries *entries)
{
  char       format[5] = "", letter[4];
  PetscBool  coo, csr;
  PetscInt64 count, sizes[2], majors, end = 0;

  PetscFunctionBegin;
  PetscCall(NumpyZipArray(&sparse->format, name, "format"));
  for (int i = 0; i < 3 && i < sparse->format.width; i++) { /* U: characters of four bytes */
    PetscCall(NumpyRead(&sparse->format.file, letter, sparse->format.kind == 'U' ? 4 : 1));
    format[i] = letter[0];
  }
  coo = (PetscBool)!strcmp(format, "coo");
  csr = (PetscBool)!strcmp(format, "csr");
  PetscCheck(coo || csr || !strcmp(format, "csc"), PETSC_COMM_SELF, PETSC_ERR_SUP,
             "%s: is a matrix of format %s; save it as tocsr()", name, format);
  PetscCall(NumpyZipArray(&sparse->shape, name, "shape"));
  PetscCall(NumpyArrayLength(&sparse->shape, "shape", 2));
  for (int i = 0; i < 2; i++) PetscCall(NumpyArrayIndex(&sparse->shape, 0, PETSC_MAX_INT - 1, &sizes[i]));
  PetscCall(FileEntriesBegin(entries, name, sizes[0], sizes[1]));
  PetscCall(NumpyZipArray(&sparse->data, name, "data"));
  PetscCall(NumpyZipArray(&sparse->first, name, coo ? "row" : "indptr"));
  PetscCall(NumpyZipArray(&sparse->second, name, coo ? "col" : "indices"));
  count  = sparse->data.shape[0];
  majors = coo ? 1 : sizes[csr ? 0 : 1];
  PetscCall(NumpyArrayLength(&sparse->data, "data", count));
  PetscCall(NumpyArrayLength(&sparse->first, coo ? "row" : "indptr", coo ? count : majors + 1));
  PetscCall(NumpyArrayLength(&sparse->second, coo ? "col" : "indices", count));
  if (!coo) PetscCall(NumpyArrayIndex(&sparse->first, 0, 0, &end));
  for (PetscInt64 major = 0, k = 0; major < majors; major++) {
    if (coo) end = count;
    else PetscCall(NumpyArrayIndex(&sparse->first, end, count, &end)); /* the arrays may be longer than the last end */
    for (; k < end; k++) {
      PetscInt64  i     = major, j;
      PetscScalar value = 0.0;

      if (coo) PetscCall(NumpyArrayIndex(&sparse->first, 0, sizes[0] - 1, &i));
      PetscCall(NumpyArrayIndex(&sparse->second, 0, sizes[csr || coo ? 1 : 0] - 1, &j));
      PetscCall(NumpyArrayNext(&sparse->data, &value));
      PetscCall(FileEntriesAdd(entries, (PetscInt)(csr || coo ? i : j), (PetscInt)(csr || coo ? j : i), value));
    }
  }
  PetscFunctionReturn(0);
}

/* The FileReader of npy */
static PetscErrorCode NumpyArrayRead(const char name[], FileEntries *entries)
{
  NumpyArray array;

  PetscFunctionBegin;
  PetscCall(InputFileOpen(&array.file, name));
  PetscCall(InputFileEnd(&array.file, NumpyArrayBody(&array, entries)));
  PetscFunctionReturn(0);
}

/* The FileReader of npz */
static PetscErrorCode NumpySparseRead(const char name[], FileEntries *entries)
{
  NumpySparse    sparse;
  PetscErrorCode ierr;

  PetscFunctionBegin;
  PetscCall(PetscMemzero(&sparse, sizeof(sparse)));
  ierr = NumpySparseBody(&sparse, name, entries);
  ierr = InputFileEnd(&sparse.format.file, ierr);
  ierr = InputFileEnd(&sparse.shape.file, ierr);
  ierr = InputFileEnd(&sparse.data.file, ierr);
  ierr = InputFileEnd(&sparse.first.file, ierr);
  ierr = InputFileEnd(&sparse.second.file, ierr);
  PetscFunctionReturn(ierr);
}

/* NumpyFileReader - Returns the FileReader of a file of numpy or scipy, according to its first bytes, or NULL */
static PetscErrorCode NumpyFileReader(const char name[], FileReader *reader)
{
  InputFile file = {.name = name};
  char      magic[6];

  PetscFunctionBegin;
  *reader = NULL;
  PetscCall(InputFileOpen(&file, name));
  if (fread(magic, 1, sizeof(magic), file.stream) == sizeof(magic)) {
    if (!memcmp(magic, "\x93NUMPY", 6)) *reader = NumpyArrayRead;
    if (!memcmp(magic, "PK\3\4", 4)) *reader = NumpySparseRead;
  }
  PetscCall(InputFileDrop(&file));
  PetscFunctionReturn(0);
}
