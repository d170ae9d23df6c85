/*
   Reads matrices and right-hand sides in Matrix Market format, plain or compressed with gzip, for the tutorials, tests and
   benchmarks. Every process reads the file and keeps its own entries, so that all processes find the same mistakes. Repeated
   entries are added.
*/
#pragma once

#include <ctype.h>
#include <errno.h>
#include <petscmat.h>
#include "inputfile.h"

typedef enum {
  MM_GENERAL,
  MM_SYMMETRIC,
  MM_SKEW,
  MM_HERMITIAN
} MatrixMarketSymmetry;

typedef struct {
  InputFile            file;
  char                *buffer, *rest; /* what getline() has read, and the lines in it that are not read yet */
  char                *line, *next;   /* the last line read, and the rest of it */
  size_t               size;
  PetscInt64           number;     /* number of that line, from 1 */
  PetscBool            coordinate; /* otherwise a dense array by columns */
  PetscBool            pattern;    /* no values: ones */
  PetscBool            imaginary;  /* values have an imaginary part */
  MatrixMarketSymmetry symmetry;
  PetscInt             M, N, entries; /* entries: 0 for a dense array */
} MatrixMarket;

/* An error that names the wrong line, and shows its beginning */
#define MatrixMarketCheck(mm, condition, code, what) \
  PetscCheck(condition, PETSC_COMM_SELF, code, "%s: line %" PetscInt64_FMT " %s: %.60s", (mm)->file.name, (mm)->number, what, \
             (mm)->line)

/*
   Reads the next line, without its end, which messages must not contain: LF, CR, or both. more is PETSC_FALSE at the end of the file
*/
static PetscErrorCode MatrixMarketLine(MatrixMarket *mm, PetscBool *more)
{
  PetscFunctionBegin;
  *more = PETSC_TRUE;
  if (!mm->rest || !*mm->rest) {
    const ssize_t length = getline(&mm->buffer, &mm->size, mm->file.stream);

    *more = (PetscBool)(length >= 0);
    if (!*more) PetscFunctionReturn(0);
    mm->line = mm->rest = mm->buffer;
    MatrixMarketCheck(mm, mm->number == 0 || strlen(mm->line) == (size_t)length, PETSC_ERR_FILE_UNEXPECTED,
                      "is damaged, it contains a zero byte");
  }
  mm->number++;
  mm->line = mm->next = mm->rest;
  mm->rest += strcspn(mm->rest, "\r\n");
  if (*mm->rest) {
    char *end = mm->rest;

    mm->rest += strncmp(end, "\r\n", 2) ? 1 : 2;
    *end = '\0';
  }
  PetscFunctionReturn(0);
}

/* Reads the next line that is neither a comment nor empty */
static PetscErrorCode MatrixMarketContent(MatrixMarket *mm, PetscBool *more)
{
  PetscFunctionBegin;
  do {
    PetscCall(MatrixMarketLine(mm, more));
    while (*more && isspace((unsigned char)*mm->next)) mm->next++;
  } while (*more && (mm->line[0] == '%' || !*mm->next));
  PetscFunctionReturn(0);
}

/* Reads such a line; it is an error if there is none */
static PetscErrorCode MatrixMarketNext(MatrixMarket *mm)
{
  PetscBool more;

  PetscFunctionBegin;
  PetscCall(MatrixMarketContent(mm, &more));
  PetscCheck(more, PETSC_COMM_SELF, PETSC_ERR_FILE_READ,
             "%s: ends too early, after line %" PetscInt64_FMT ", it is cut off: fetch it again", mm->file.name, mm->number);
  PetscFunctionReturn(0);
}

/* Returns the next word of the line, which is empty at its end */
static PetscErrorCode MatrixMarketWord(MatrixMarket *mm, char **word)
{
  PetscFunctionBegin;
  while (isspace((unsigned char)*mm->next)) mm->next++;
  *word = mm->next;
  while (*mm->next && !isspace((unsigned char)*mm->next)) mm->next++;
  PetscFunctionReturn(0);
}

/* Reads an integer from low to high */
static PetscErrorCode MatrixMarketInteger(MatrixMarket *mm, PetscInt low, PetscInt high, const char wrong[], const char large[],
                                          PetscInt *value)
{
  char     *word, *end;
  long long number;

  PetscFunctionBegin;
  PetscCall(MatrixMarketWord(mm, &word));
  errno  = 0;
  number = strtoll(word, &end, 10);
  MatrixMarketCheck(mm, end != word && end == mm->next && number >= low, PETSC_ERR_FILE_UNEXPECTED, wrong);
  MatrixMarketCheck(mm, errno != ERANGE && number <= high, PETSC_ERR_FILE_UNEXPECTED, large);
  *value = (PetscInt)number;
  PetscFunctionReturn(0);
}

/* Reads a real number; Fortran programs write a D in the exponent of double precision */
static PetscErrorCode MatrixMarketReal(MatrixMarket *mm, PetscReal *value)
{
  char  *word, *end, *exponent;
  size_t length;
  char   text[64] = "";

  PetscFunctionBegin;
  PetscCall(MatrixMarketWord(mm, &word));
  length = (size_t)(mm->next - word);
  if (length < sizeof(text)) memcpy(text, word, length);
  exponent = strpbrk(text, "dD");
  if (exponent) *exponent = 'e';
  *value = (PetscReal)strtod(text, &end);
  MatrixMarketCheck(mm, end != text && !*end && !strpbrk(text, "xX"), PETSC_ERR_FILE_UNEXPECTED,
                    "is damaged, where a number should be there is");
  MatrixMarketCheck(mm, !PetscIsInfOrNanReal(*value), PETSC_ERR_FILE_UNEXPECTED, "holds a number that is not finite");
  PetscFunctionReturn(0);
}

/* Checks that the line has no other words */
static PetscErrorCode MatrixMarketEnd(MatrixMarket *mm)
{
  char *word;

  PetscFunctionBegin;
  PetscCall(MatrixMarketWord(mm, &word));
  MatrixMarketCheck(mm, !*word, PETSC_ERR_FILE_UNEXPECTED, "is damaged, there is more on it than its kind of file has");
  PetscFunctionReturn(0);
}

/* Finds the next word of the header among the names */
static PetscErrorCode MatrixMarketName(MatrixMarket *mm, PetscInt count, const char *const names[], PetscInt *which)
{
  char  *word;
  size_t length;

  PetscFunctionBegin;
  PetscCall(MatrixMarketWord(mm, &word));
  length = (size_t)(mm->next - word);
  for (*which = 0; *which < count; (*which)++) {
    if (strlen(names[*which]) == length && !strncasecmp(names[*which], word, length)) break;
  }
  MatrixMarketCheck(mm, *which < count, PETSC_ERR_FILE_UNEXPECTED, "has a word that this reader does not know");
  PetscFunctionReturn(0);
}

/* Copies the beginning of a line, with bytes that cannot be printed in hexadecimal */
static PetscErrorCode MatrixMarketShow(const char line[], char shown[], size_t length)
{
  PetscFunctionBegin;
  shown[0] = '\0';
  for (const char *c = line; *c && strlen(shown) + 5 < length; c++)
    (void)sprintf(shown + strlen(shown), isprint((unsigned char)*c) ? "%c" : "\\x%02x", (unsigned char)*c);
  PetscFunctionReturn(0);
}

/* Reads the header: kind of file and sizes */
static PetscErrorCode MatrixMarketHeader(MatrixMarket *mm)
{
  const char *const objects[] = {"matrix"}, *const formats[] = {"coordinate", "array"};
  const char *const fields[]     = {"real", "double", "integer", "pattern", "complex", "unsigned-integer"};
  const char *const symmetries[] = {"general", "symmetric", "skew-symmetric", "hermitian"}; /* as MatrixMarketSymmetry */
  const char        banner[] = "%%MatrixMarket", wrong[] = "is damaged, where the sizes should be there is",
             large[] = "has a size too large for the integers of this PETSc; use one with 64-bit indices (make INDICES=64 petsc)";
  PetscInt  object, format, field, symmetry;
  PetscBool more;
  char     *word;

  PetscFunctionBegin;
  PetscCall(MatrixMarketLine(mm, &more));
  PetscCheck(more, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: is empty", mm->file.name);
  PetscCall(MatrixMarketWord(mm, &word));
  if (mm->next - word != (ptrdiff_t)strlen(banner) || strncmp(word, banner, strlen(banner))) {
    char shown[64];

    PetscCall(MatrixMarketShow(mm->line, shown, sizeof(shown)));
    SETERRQ(
      PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED,
      "%s: is neither a Matrix Market file, which begins with %s, nor a binary file of PETSc, numpy or scipy; it begins with %s",
      mm->file.name, banner, shown);
  }
  PetscCall(MatrixMarketName(mm, PETSC_STATIC_ARRAY_LENGTH(objects), objects, &object));
  PetscCall(MatrixMarketName(mm, PETSC_STATIC_ARRAY_LENGTH(formats), formats, &format));
  PetscCall(MatrixMarketName(mm, PETSC_STATIC_ARRAY_LENGTH(fields), fields, &field));
  PetscCall(MatrixMarketName(mm, PETSC_STATIC_ARRAY_LENGTH(symmetries), symmetries, &symmetry));
  PetscCall(MatrixMarketEnd(mm));
  mm->coordinate = (PetscBool)(format == 0);
  mm->pattern    = (PetscBool)(field == 3);
  mm->imaginary  = (PetscBool)(field == 4);
  mm->symmetry   = (MatrixMarketSymmetry)symmetry;
  MatrixMarketCheck(mm, !mm->pattern || (mm->coordinate && mm->symmetry <= MM_SYMMETRIC), PETSC_ERR_FILE_UNEXPECTED,
                    "contradicts itself, a pattern is coordinate, and general or symmetric");
  PetscCheck(!mm->imaginary || PetscDefined(USE_COMPLEX), PETSC_COMM_SELF, PETSC_ERR_SUP,
             "%s: has complex entries, and this PETSc has real scalars; use one with complex scalars (make PETSC_DIR=..., or make "
             "SCALAR=complex petsc)",
             mm->file.name);

  PetscCall(MatrixMarketNext(mm));
  PetscCall(MatrixMarketInteger(mm, 0, PETSC_MAX_INT, wrong, large, &mm->M));
  PetscCall(MatrixMarketInteger(mm, 0, PETSC_MAX_INT, wrong, large, &mm->N));
  if (mm->coordinate) PetscCall(MatrixMarketInteger(mm, 0, PETSC_MAX_INT / 2, wrong, large, &mm->entries));
  PetscCall(MatrixMarketEnd(mm));
  PetscFunctionReturn(0);
}

/* Reads a value, and the end of the line */
static PetscErrorCode MatrixMarketValue(MatrixMarket *mm, PetscScalar *value)
{
  PetscReal re = 1.0, im = 0.0;

  PetscFunctionBegin;
  if (!mm->pattern) PetscCall(MatrixMarketReal(mm, &re));
  if (mm->imaginary) PetscCall(MatrixMarketReal(mm, &im));
  PetscCall(MatrixMarketEnd(mm));
#if PetscDefined(USE_COMPLEX)
  *value = PetscCMPLX(re, im);
#else
  *value = re;
#endif
  PetscFunctionReturn(0);
}

/* Reads the next line of a coordinate file; row and column count from 0 */
static PetscErrorCode MatrixMarketEntry(MatrixMarket *mm, PetscInt *i, PetscInt *j, PetscScalar *value)
{
  const char wrong[] = "is damaged, where an entry should be there is", large[] = "is damaged, outside of the matrix there is";

  PetscFunctionBegin;
  PetscCall(MatrixMarketNext(mm));
  PetscCall(MatrixMarketInteger(mm, 1, mm->M, wrong, large, i));
  PetscCall(MatrixMarketInteger(mm, 1, mm->N, wrong, large, j));
  (*i)--;
  (*j)--;
  PetscCall(MatrixMarketValue(mm, value));
  PetscFunctionReturn(0);
}

/* Checks that nothing follows the entries that the header has announced */
static PetscErrorCode MatrixMarketFinish(MatrixMarket *mm)
{
  PetscBool more;

  PetscFunctionBegin;
  PetscCall(MatrixMarketContent(mm, &more));
  MatrixMarketCheck(mm, !more, PETSC_ERR_FILE_UNEXPECTED, "is one more than the sizes at the beginning of the file announce");
  PetscFunctionReturn(0);
}

/* Computes the value of the mirrored entry, which is not in the file; sides are the triangles so far */
static PetscErrorCode MatrixMarketMirror(MatrixMarket *mm, PetscInt i, PetscInt j, PetscScalar value, PetscBool sides[],
                                         PetscScalar *mirrored)
{
  PetscFunctionBegin;
  *mirrored = mm->symmetry == MM_SKEW ? -value : (mm->symmetry == MM_HERMITIAN ? PetscConj(value) : value);
  if (i != j) sides[i > j] = PETSC_TRUE;
  MatrixMarketCheck(mm, i != j || *mirrored == value, PETSC_ERR_FILE_UNEXPECTED,
                    "is damaged, what the first line of the file says of the symmetry is wrong for");
  MatrixMarketCheck(mm, !sides[0] || !sides[1], PETSC_ERR_FILE_UNEXPECTED,
                    "is damaged, a file with symmetry holds one triangle, and in the other one is");
  PetscFunctionReturn(0);
}

/* Keeps an entry, and its mirrored entry */
static PetscErrorCode MatrixMarketAdd(MatrixMarket *mm, FileEntries *entries, PetscInt i, PetscInt j, PetscScalar value,
                                      PetscBool sides[])
{
  PetscScalar mirrored = 0.0;

  PetscFunctionBegin;
  PetscCall(FileEntriesAdd(entries, i, j, value));
  if (mm->symmetry == MM_GENERAL) PetscFunctionReturn(0);
  PetscCall(MatrixMarketMirror(mm, i, j, value, sides, &mirrored));
  if (i != j) PetscCall(FileEntriesAdd(entries, j, i, mirrored));
  PetscFunctionReturn(0);
}

/*
   Reads the whole file. A dense array with symmetry has the lower triangle; zeros of a dense array are no entries, except on the
   diagonal
*/
static PetscErrorCode MatrixMarketBody(MatrixMarket *mm, FileEntries *entries)
{
  PetscBool   sides[2] = {PETSC_FALSE, PETSC_FALSE};
  PetscInt    i = 0, j = 0;
  PetscScalar value = 0.0;

  PetscFunctionBegin;
  PetscCall(MatrixMarketHeader(mm));
  PetscCall(FileEntriesBegin(entries, mm->file.name, mm->M, mm->N));
  PetscCheck(entries->A || mm->symmetry == MM_GENERAL, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED,
             "%s: holds one triangle of a matrix, right-hand sides must be general", mm->file.name);
  for (PetscInt k = 0; k < mm->entries; k++) {
    PetscCall(MatrixMarketEntry(mm, &i, &j, &value));
    PetscCall(MatrixMarketAdd(mm, entries, i, j, value, sides));
  }
  for (j = 0; !mm->coordinate && j < mm->N; j++) {
    for (i = mm->symmetry == MM_GENERAL ? 0 : j + (mm->symmetry == MM_SKEW); i < mm->M; i++) {
      PetscCall(MatrixMarketNext(mm));
      PetscCall(MatrixMarketValue(mm, &value));
      if (i == j || value != (PetscScalar)0.0) PetscCall(MatrixMarketAdd(mm, entries, i, j, value, sides));
    }
  }
  PetscCall(MatrixMarketFinish(mm));
  PetscFunctionReturn(0);
}

static PetscErrorCode MatrixMarketOpen(MatrixMarket *mm, const char name[])
{
  PetscFunctionBegin;
  PetscCall(PetscMemzero(mm, sizeof(*mm)));
  PetscCall(InputFileOpen(&mm->file, name));
  PetscFunctionReturn(0);
}

/* Closes the file, after reading has ended with ierr */
static PetscErrorCode MatrixMarketClose(MatrixMarket *mm, PetscErrorCode ierr)
{
  PetscFunctionBegin;
  free(mm->buffer); /* of getline() */
  PetscCall(InputFileEnd(&mm->file, ierr));
  PetscFunctionReturn(0);
}

/* The FileReader of this format */
static PetscErrorCode MatrixMarketRead(const char name[], FileEntries *entries)
{
  MatrixMarket mm;

  PetscFunctionBegin;
  PetscCall(MatrixMarketOpen(&mm, name));
  PetscCall(MatrixMarketClose(&mm, MatrixMarketBody(&mm, entries)));
  PetscFunctionReturn(0);
}

/*
   MatLoadMatrixMarket - Creates a parallel matrix of the type of the options
*/
PETSC_UNUSED static PetscErrorCode MatLoadMatrixMarket(MPI_Comm comm, const char name[], Mat *newmat)
{
  PetscFunctionBegin;
  PetscCall(MatLoadFile(comm, name, MatrixMarketRead, newmat));
  PetscFunctionReturn(0);
}

/*
   MatrixMarketColumns - Returns the number of columns in a file
*/
PETSC_UNUSED static PetscErrorCode MatrixMarketColumns(const char name[], PetscInt *columns)
{
  MatrixMarket mm;

  PetscFunctionBegin;
  PetscCall(MatrixMarketOpen(&mm, name));
  PetscCall(MatrixMarketClose(&mm, MatrixMarketHeader(&mm)));
  *columns = mm.N;
  PetscFunctionReturn(0);
}

/*
   VecLoadMatrixMarket - Fills a vector with one column of a file, a dense array or a sparse matrix
*/
PETSC_UNUSED static PetscErrorCode VecLoadMatrixMarket(Vec b, const char name[], PetscInt column)
{
  PetscFunctionBegin;
  PetscCall(VecLoadFile(b, name, MatrixMarketRead, column));
  PetscFunctionReturn(0);
}
