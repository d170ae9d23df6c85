/*
   Reads matrices and right-hand sides in Matrix Market format, plain or compressed with gzip (name ends in .gz), as the
   tutorials, tests and benchmarks need them. Every process reads the file and keeps what is its own, so that all find the
   same mistakes in it. Values of an entry that is there more than once are added.
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
  char                *line, *next; /* the line that was read last, and what is left of it */
  size_t               size;
  PetscInt64           number;     /* of that line, from 1 */
  PetscBool            coordinate; /* else a dense array by columns */
  PetscBool            pattern;    /* no values: ones */
  PetscBool            imaginary;  /* values have an imaginary part */
  MatrixMarketSymmetry symmetry;
  PetscInt             M, N, entries;
  PetscInt             count, *rows, *columns; /* entries of this process */
  PetscScalar         *values;
} MatrixMarket;

/* An error that says which line is wrong, and shows its beginning */
#define MatrixMarketCheck(mm, condition, code, what) PetscCheck(condition, PETSC_COMM_SELF, code, "%s: line %" PetscInt64_FMT " %s: %.60s", (mm)->file.name, (mm)->number, what, (mm)->line)

/* The next line, without its end, which the messages on it would contain; more is PETSC_FALSE at the end of the file */
static PetscErrorCode MatrixMarketLine(MatrixMarket *mm, PetscBool *more)
{
  ssize_t length;

  PetscFunctionBegin;
  length   = getline(&mm->line, &mm->size, mm->file.stream);
  *more    = (PetscBool)(length >= 0);
  mm->next = mm->line;
  if (!*more) PetscFunctionReturn(0);
  mm->number++;
  MatrixMarketCheck(mm, mm->number == 1 || strlen(mm->line) == (size_t)length, PETSC_ERR_FILE_UNEXPECTED, "is damaged, it contains a zero byte");
  mm->line[strcspn(mm->line, "\r\n")] = '\0';
  PetscFunctionReturn(0);
}

/* The next line that is neither a comment nor empty */
static PetscErrorCode MatrixMarketContent(MatrixMarket *mm, PetscBool *more)
{
  PetscFunctionBegin;
  do {
    PetscCall(MatrixMarketLine(mm, more));
    while (*more && isspace((unsigned char)*mm->next)) mm->next++;
  } while (*more && (mm->line[0] == '%' || !*mm->next));
  PetscFunctionReturn(0);
}

/* The same where there must be one */
static PetscErrorCode MatrixMarketNext(MatrixMarket *mm)
{
  PetscBool more;

  PetscFunctionBegin;
  PetscCall(MatrixMarketContent(mm, &more));
  PetscCheck(more, PETSC_COMM_SELF, PETSC_ERR_FILE_READ, "%s: ends too early, after line %" PetscInt64_FMT ", it is cut off: fetch it again", mm->file.name, mm->number);
  PetscFunctionReturn(0);
}

/* The next word of the line, which is empty at its end */
static PetscErrorCode MatrixMarketWord(MatrixMarket *mm, char **word)
{
  PetscFunctionBegin;
  while (isspace((unsigned char)*mm->next)) mm->next++;
  *word = mm->next;
  while (*mm->next && !isspace((unsigned char)*mm->next)) mm->next++;
  PetscFunctionReturn(0);
}

/* An integer from low to high is next */
static PetscErrorCode MatrixMarketInteger(MatrixMarket *mm, PetscInt low, PetscInt high, const char wrong[], const char large[], PetscInt *value)
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

/* A real number is next; programs in Fortran write the exponent of one in double precision with a D */
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
  MatrixMarketCheck(mm, end != text && !*end && !strpbrk(text, "xX"), PETSC_ERR_FILE_UNEXPECTED, "is damaged, where a number should be there is");
  MatrixMarketCheck(mm, !PetscIsInfOrNanReal(*value), PETSC_ERR_FILE_UNEXPECTED, "holds a number that is not finite");
  PetscFunctionReturn(0);
}

/* Nothing else is on the line */
static PetscErrorCode MatrixMarketEnd(MatrixMarket *mm)
{
  char *word;

  PetscFunctionBegin;
  PetscCall(MatrixMarketWord(mm, &word));
  MatrixMarketCheck(mm, !*word, PETSC_ERR_FILE_UNEXPECTED, "is damaged, there is more on it than its kind of file has");
  PetscFunctionReturn(0);
}

/* Which of the count names the next word of the header is */
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

/* Reads the header: kind of file and sizes */
static PetscErrorCode MatrixMarketHeader(MatrixMarket *mm)
{
  const char *const objects[] = {"matrix"}, *const formats[] = {"coordinate", "array"}, *const fields[] = {"real", "double", "integer", "pattern", "complex"};
  const char *const symmetries[] = {"general", "symmetric", "skew-symmetric", "hermitian"}; /* as MatrixMarketSymmetry */
  const char        banner[] = "%%MatrixMarket ", wrong[] = "is damaged, where the sizes should be there is", large[] = "has a size too large for the integers of this PETSc; use one with 64-bit indices (make INDICES=64 petsc)";
  PetscInt          object, format, field, symmetry;
  PetscBool         more;

  PetscFunctionBegin;
  PetscCall(MatrixMarketLine(mm, &more));
  PetscCheck(more && !strncmp(mm->line, banner, strlen(banner)), PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: is neither a Matrix Market file, whose first line begins with %%%%MatrixMarket, nor a binary file that PETSc wrote of what is needed here",
             mm->file.name);
  mm->next += strlen(banner);
  PetscCall(MatrixMarketName(mm, PETSC_STATIC_ARRAY_LENGTH(objects), objects, &object));
  PetscCall(MatrixMarketName(mm, PETSC_STATIC_ARRAY_LENGTH(formats), formats, &format));
  PetscCall(MatrixMarketName(mm, PETSC_STATIC_ARRAY_LENGTH(fields), fields, &field));
  PetscCall(MatrixMarketName(mm, PETSC_STATIC_ARRAY_LENGTH(symmetries), symmetries, &symmetry));
  PetscCall(MatrixMarketEnd(mm));
  mm->coordinate = (PetscBool)(format == 0);
  mm->pattern    = (PetscBool)(field == 3);
  mm->imaginary  = (PetscBool)(field == 4);
  mm->symmetry   = (MatrixMarketSymmetry)symmetry;
  MatrixMarketCheck(mm, !mm->pattern || (mm->coordinate && mm->symmetry <= MM_SYMMETRIC), PETSC_ERR_FILE_UNEXPECTED, "contradicts itself, a pattern is coordinate, and general or symmetric");
  PetscCheck(!mm->imaginary || PetscDefined(USE_COMPLEX), PETSC_COMM_SELF, PETSC_ERR_SUP, "%s: has complex entries, and this PETSc has real scalars; use one with complex scalars (make PETSC_DIR=..., or make SCALAR=complex petsc)", mm->file.name);

  PetscCall(MatrixMarketNext(mm));
  PetscCall(MatrixMarketInteger(mm, 0, PETSC_MAX_INT, wrong, large, &mm->M));
  PetscCall(MatrixMarketInteger(mm, 0, PETSC_MAX_INT, wrong, large, &mm->N));
  if (mm->coordinate) PetscCall(MatrixMarketInteger(mm, 0, PETSC_MAX_INT / 2, wrong, large, &mm->entries));
  PetscCall(MatrixMarketEnd(mm));
  PetscFunctionReturn(0);
}

/* A value is next, and the end of the line */
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

/* The next line of a coordinate file; row and column count from 0 */
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

/* Nothing comes after what the header has announced */
static PetscErrorCode MatrixMarketFinish(MatrixMarket *mm)
{
  PetscBool more;

  PetscFunctionBegin;
  PetscCall(MatrixMarketContent(mm, &more));
  MatrixMarketCheck(mm, !more, PETSC_ERR_FILE_UNEXPECTED, "is one more than the sizes at the beginning of the file announce");
  PetscFunctionReturn(0);
}

/* The value of an entry in the other triangle, which is not in the file; sides are the triangles that have been seen */
static PetscErrorCode MatrixMarketMirror(MatrixMarket *mm, PetscInt i, PetscInt j, PetscScalar value, PetscBool sides[], PetscScalar *mirrored)
{
  PetscFunctionBegin;
  *mirrored = mm->symmetry == MM_SKEW ? -value : (mm->symmetry == MM_HERMITIAN ? PetscConj(value) : value);
  if (i != j) sides[i > j] = PETSC_TRUE;
  MatrixMarketCheck(mm, i != j || *mirrored == value, PETSC_ERR_FILE_UNEXPECTED, "is damaged, what the first line of the file says of the symmetry is wrong for");
  MatrixMarketCheck(mm, !sides[0] || !sides[1], PETSC_ERR_FILE_UNEXPECTED, "is damaged, a file with symmetry holds one triangle, and in the other one is");
  PetscFunctionReturn(0);
}

/* Sizes and layout of the matrix, and the entries of this process */
static PetscErrorCode MatrixMarketReadMatrix(MatrixMarket *mm, Mat A)
{
  PetscLayout layout;
  PetscInt    rstart, rend, copies;
  PetscBool   sides[2] = {PETSC_FALSE, PETSC_FALSE};

  PetscFunctionBegin;
  PetscCall(MatrixMarketHeader(mm));
  PetscCheck(mm->coordinate, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: is a dense array, the matrix must be in coordinate format", mm->file.name);
  PetscCheck(mm->M == mm->N, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: is %" PetscInt_FMT " x %" PetscInt_FMT ", the matrix of a linear system must be square; least squares are for KSPLSQR", mm->file.name, mm->M, mm->N);
  PetscCall(MatSetSizes(A, PETSC_DECIDE, PETSC_DECIDE, mm->M, mm->N));
  PetscCall(MatSetFromOptions(A));
  PetscCall(MatGetLayouts(A, &layout, NULL));
  PetscCall(PetscLayoutSetUp(layout));
  PetscCall(PetscLayoutGetRange(layout, &rstart, &rend));

  copies = mm->symmetry == MM_GENERAL ? 1 : 2;
  PetscCall(PetscMalloc3(copies * mm->entries, &mm->rows, copies * mm->entries, &mm->columns, copies * mm->entries, &mm->values));
  for (PetscInt k = 0; k < mm->entries; k++) {
    PetscInt    i = 0, j = 0;
    PetscScalar value = 0.0, mirrored = 0.0;

    PetscCall(MatrixMarketEntry(mm, &i, &j, &value));
    if (i >= rstart && i < rend) {
      mm->rows[mm->count]     = i;
      mm->columns[mm->count]  = j;
      mm->values[mm->count++] = value;
    }
    if (mm->symmetry != MM_GENERAL) PetscCall(MatrixMarketMirror(mm, i, j, value, sides, &mirrored));
    if (mm->symmetry != MM_GENERAL && i != j && j >= rstart && j < rend) {
      mm->rows[mm->count]     = j;
      mm->columns[mm->count]  = i;
      mm->values[mm->count++] = mirrored;
    }
  }
  PetscCall(MatrixMarketFinish(mm));
  PetscFunctionReturn(0);
}

/* The values of one column that belong to this process */
static PetscErrorCode MatrixMarketReadColumn(MatrixMarket *mm, Vec b, PetscInt column, PetscScalar values[])
{
  PetscInt N, rstart, rend, columns, lines;

  PetscFunctionBegin;
  PetscCall(MatrixMarketHeader(mm));
  PetscCall(VecGetSize(b, &N));
  PetscCall(VecGetOwnershipRange(b, &rstart, &rend));
  PetscCheck(mm->M == N, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: has %" PetscInt_FMT " rows, the right-hand side must have the %" PetscInt_FMT " of the matrix", mm->file.name, mm->M, N);
  PetscCheck(column >= 0 && column < mm->N, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: has %" PetscInt_FMT " columns, counted from 0; there is no column %" PetscInt_FMT, mm->file.name, mm->N, column);
  PetscCheck(mm->symmetry == MM_GENERAL, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: holds one triangle of a matrix, right-hand sides must be general", mm->file.name);
  columns = mm->coordinate ? 1 : mm->N;
  lines   = mm->coordinate ? mm->entries : mm->M;
  for (PetscInt j = 0; j < columns; j++) {
    for (PetscInt k = 0; k < lines; k++) {
      PetscInt    row = k, place = j;
      PetscScalar value = 0.0;

      if (mm->coordinate) PetscCall(MatrixMarketEntry(mm, &row, &place, &value));
      else {
        PetscCall(MatrixMarketNext(mm));
        PetscCall(MatrixMarketValue(mm, &value));
      }
      if (place == column && row >= rstart && row < rend) values[row - rstart] += value;
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

/* After reading has ended with ierr, which is returned if it is an error */
static PetscErrorCode MatrixMarketClose(MatrixMarket *mm, PetscErrorCode ierr)
{
  PetscFunctionBegin;
  free(mm->line); /* of getline() */
  if (ierr) PetscCall(InputFileDrop(&mm->file));
  else PetscCall(InputFileClose(&mm->file, NULL));
  PetscFunctionReturn(ierr);
}

/*
   MatLoadMatrixMarket - A new parallel matrix of the type of the options, with the entries of a coordinate file
*/
PETSC_UNUSED static PetscErrorCode MatLoadMatrixMarket(MPI_Comm comm, const char name[], Mat *newmat)
{
  MatrixMarket   mm;
  Mat            A;
  PetscErrorCode ierr;

  PetscFunctionBegin;
  PetscCall(MatrixMarketOpen(&mm, name));
  PetscCall(MatCreate(comm, &A));
  ierr = MatrixMarketClose(&mm, MatrixMarketReadMatrix(&mm, A));
  if (!ierr) ierr = MatSetPreallocationCOO(A, mm.count, mm.rows, mm.columns);
  if (!ierr) ierr = MatSetValuesCOO(A, mm.values, INSERT_VALUES);
  PetscCall(PetscFree3(mm.rows, mm.columns, mm.values));
  if (ierr) PetscCall(MatDestroy(&A));
  PetscCall(ierr);
  *newmat = A;
  PetscFunctionReturn(0);
}

/*
   MatrixMarketColumns - How many columns a file has
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
  MatrixMarket   mm;
  PetscErrorCode ierr;
  PetscScalar   *values;

  PetscFunctionBegin;
  PetscCall(MatrixMarketOpen(&mm, name));
  PetscCall(VecSet(b, 0.0));
  PetscCall(VecGetArray(b, &values));
  ierr = MatrixMarketClose(&mm, MatrixMarketReadColumn(&mm, b, column, values));
  PetscCall(VecRestoreArray(b, &values));
  PetscCall(ierr);
  PetscFunctionReturn(0);
}
