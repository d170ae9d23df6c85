/*
   Reads matrices and right-hand sides in Matrix Market format, plain or compressed with gzip (name ends in .gz), as the
   tutorials, tests and benchmarks need them. Every process reads the file and keeps what is its own, so that all find the
   same mistakes in it.
*/
#pragma once

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
  PetscBool            coordinate; /* else a dense array by columns */
  PetscBool            pattern;    /* no values: ones */
  PetscBool            imaginary;  /* values have an imaginary part */
  MatrixMarketSymmetry symmetry;
  PetscInt             M, N, entries;
} MatrixMarket;

/* The next line that is neither a comment nor empty; without the end of line, which the messages on it would contain */
static PetscErrorCode MatrixMarketLine(MatrixMarket *mm, char line[], int length)
{
  PetscFunctionBegin;
  do {
    PetscCheck(fgets(line, length, mm->file.stream), PETSC_COMM_SELF, PETSC_ERR_FILE_READ, "%s: ends too early, it is cut off: fetch it again", mm->file.name);
    line[strcspn(line, "\r\n")] = '\0';
  } while (line[0] == '%' || line[strspn(line, " \t")] == '\0');
  PetscFunctionReturn(0);
}

/* Whether a word of the header is this one; if so, found is set to value */
#define MatrixMarketWord(word, expected, found, value) \
  do { \
    PetscBool same_; \
    PetscCall(PetscStrcasecmp(word, expected, &same_)); \
    if (same_) found = value; \
  } while (0)

/* Opens the file and reads its header */
static PetscErrorCode MatrixMarketOpen(MatrixMarket *mm, const char name[])
{
  char      line[1024], format[32], field[32], symmetry[32];
  PetscBool flg;
  long long M = 0, N = 0, entries = 0;

  PetscFunctionBegin;
  PetscCall(PetscMemzero(mm, sizeof(*mm)));
  PetscCall(InputFileOpen(&mm->file, name));
  flg = (PetscBool)(fgets(line, sizeof(line), mm->file.stream) && sscanf(line, "%%%%MatrixMarket %*31s %31s %31s %31s", format, field, symmetry) == 3);
  PetscCheck(flg, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: is neither a Matrix Market file, whose first line begins with %%%%MatrixMarket, nor a binary file that PETSc wrote of what is needed here", name);
  MatrixMarketWord(format, "coordinate", mm->coordinate, PETSC_TRUE);
  MatrixMarketWord(field, "pattern", mm->pattern, PETSC_TRUE);
  MatrixMarketWord(field, "complex", mm->imaginary, PETSC_TRUE);
  MatrixMarketWord(symmetry, "symmetric", mm->symmetry, MM_SYMMETRIC);
  MatrixMarketWord(symmetry, "skew-symmetric", mm->symmetry, MM_SKEW);
  MatrixMarketWord(symmetry, "hermitian", mm->symmetry, MM_HERMITIAN);
  PetscCheck(!mm->imaginary || PetscDefined(USE_COMPLEX), PETSC_COMM_SELF, PETSC_ERR_SUP, "%s: has complex entries, and this PETSc has real scalars; use one with complex scalars (make PETSC_DIR=..., or make SCALAR=complex petsc)", name);

  PetscCall(MatrixMarketLine(mm, line, sizeof(line)));
  flg = (PetscBool)(mm->coordinate ? sscanf(line, "%lld %lld %lld", &M, &N, &entries) == 3 : sscanf(line, "%lld %lld", &M, &N) == 2);
  PetscCheck(flg && M >= 0 && N >= 0 && entries >= 0, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: is damaged, where the sizes should be there is: %.60s", name, line);
  PetscCheck((PetscInt)M == M && (PetscInt)N == N && (PetscInt)(2 * entries) == 2 * entries, PETSC_COMM_SELF, PETSC_ERR_SUP, "%s: is too large for the integers of this PETSc; use one with 64-bit indices (make INDICES=64 petsc)", name);
  mm->M       = (PetscInt)M;
  mm->N       = (PetscInt)N;
  mm->entries = (PetscInt)entries;
  PetscFunctionReturn(0);
}

/* Row and column of an entry, from 0; used is where the value begins */
static PetscErrorCode MatrixMarketPlace(MatrixMarket *mm, const char line[], PetscInt *i, PetscInt *j, int *used)
{
  long long row = 0, column = 0;
  int       count;

  PetscFunctionBegin;
  *used = 0;
  count = sscanf(line, "%lld %lld%n", &row, &column, used);
  PetscCheck(count == 2 && row >= 1 && row <= mm->M && column >= 1 && column <= mm->N, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: is damaged, where an entry of the %" PetscInt_FMT " x %" PetscInt_FMT " matrix should be there is: %.60s",
             mm->file.name, mm->M, mm->N, line);
  *i = (PetscInt)(row - 1);
  *j = (PetscInt)(column - 1);
  PetscFunctionReturn(0);
}

/* One number of a line, real or complex */
static PetscErrorCode MatrixMarketValue(MatrixMarket *mm, const char text[], PetscScalar *value)
{
  double re = 1.0, im = 0.0;
  int    count = mm->pattern ? 0 : sscanf(text, "%lf %lf", &re, &im);

  PetscFunctionBegin;
  PetscCheck(mm->pattern || count >= (mm->imaginary ? 2 : 1), PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: is damaged, where a number should be there is: %.60s", mm->file.name, text);
  PetscCheck(!PetscIsInfOrNanReal((PetscReal)re) && !PetscIsInfOrNanReal((PetscReal)im), PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: holds a number that is not finite: %.60s", mm->file.name, text);
#if PetscDefined(USE_COMPLEX)
  *value = PetscCMPLX(re, mm->imaginary ? im : 0.0);
#else
  *value = re;
#endif
  PetscFunctionReturn(0);
}

/*
   MatLoadMatrixMarket - A new parallel matrix of the type of the options, with the entries of a coordinate file
*/
PETSC_UNUSED static PetscErrorCode MatLoadMatrixMarket(MPI_Comm comm, const char name[], Mat *newmat)
{
  MatrixMarket mm;
  Mat          A;
  PetscLayout  layout;
  PetscInt     rstart, rend, copies, count = 0, *rows, *columns;
  PetscScalar *values;
  char         line[1024];

  PetscFunctionBegin;
  PetscCall(MatrixMarketOpen(&mm, name));
  PetscCheck(mm.coordinate, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: is a dense array, the matrix must be in coordinate format", name);
  PetscCheck(mm.M == mm.N, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: is %" PetscInt_FMT " x %" PetscInt_FMT ", the matrix of a linear system must be square; least squares are for KSPLSQR", name, mm.M, mm.N);
  PetscCall(MatCreate(comm, &A));
  PetscCall(MatSetSizes(A, PETSC_DECIDE, PETSC_DECIDE, mm.M, mm.N));
  PetscCall(MatSetFromOptions(A));
  PetscCall(MatGetLayouts(A, &layout, NULL));
  PetscCall(PetscLayoutSetUp(layout));
  PetscCall(PetscLayoutGetRange(layout, &rstart, &rend));

  copies = mm.symmetry == MM_GENERAL ? 1 : 2; /* the other triangle is not in the file */
  PetscCall(PetscMalloc3(copies * mm.entries, &rows, copies * mm.entries, &columns, copies * mm.entries, &values));
  for (PetscInt k = 0; k < mm.entries; k++) {
    PetscInt    i = 0, j = 0;
    int         used;
    PetscScalar value = 0.0;

    PetscCall(MatrixMarketLine(&mm, line, sizeof(line)));
    PetscCall(MatrixMarketPlace(&mm, line, &i, &j, &used));
    PetscCall(MatrixMarketValue(&mm, line + used, &value));
    if (i >= rstart && i < rend) {
      rows[count]     = i;
      columns[count]  = j;
      values[count++] = value;
    }
    if (mm.symmetry != MM_GENERAL && i != j && j >= rstart && j < rend) {
      rows[count]     = j;
      columns[count]  = i;
      values[count++] = mm.symmetry == MM_SKEW ? -value : (mm.symmetry == MM_HERMITIAN ? PetscConj(value) : value);
    }
  }
  PetscCall(InputFileClose(&mm.file, NULL));
  PetscCall(MatSetPreallocationCOO(A, count, rows, columns));
  PetscCall(MatSetValuesCOO(A, values, INSERT_VALUES));
  PetscCall(PetscFree3(rows, columns, values));
  *newmat = A;
  PetscFunctionReturn(0);
}

/*
   VecLoadMatrixMarket - Fills a vector with one column of a file, a dense array or a sparse matrix
*/
PETSC_UNUSED static PetscErrorCode VecLoadMatrixMarket(Vec b, const char name[], PetscInt column)
{
  MatrixMarket mm;
  PetscInt     N, rstart, rend;
  PetscInt64   lines;
  PetscScalar *values;
  char         line[1024];

  PetscFunctionBegin;
  PetscCall(MatrixMarketOpen(&mm, name));
  PetscCall(VecGetSize(b, &N));
  PetscCall(VecGetOwnershipRange(b, &rstart, &rend));
  PetscCheck(mm.M == N, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: has %" PetscInt_FMT " rows, the right-hand side must have the %" PetscInt_FMT " of the matrix", name, mm.M, N);
  PetscCheck(column >= 0 && column < mm.N, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: has %" PetscInt_FMT " columns, counted from 0; there is no column %" PetscInt_FMT, name, mm.N, column);
  PetscCall(VecSet(b, 0.0));
  PetscCall(VecGetArray(b, &values));
  lines = mm.coordinate ? mm.entries : (PetscInt64)(column + 1) * mm.M;
  for (PetscInt64 k = 0; k < lines; k++) {
    PetscInt    i = mm.coordinate ? 0 : (PetscInt)(k % mm.M), j = mm.coordinate ? 0 : (PetscInt)(k / mm.M);
    int         used  = 0;
    PetscScalar value = 0.0;

    PetscCall(MatrixMarketLine(&mm, line, sizeof(line)));
    if (mm.coordinate) PetscCall(MatrixMarketPlace(&mm, line, &i, &j, &used));
    PetscCall(MatrixMarketValue(&mm, line + used, &value));
    if (j == column && i >= rstart && i < rend) values[i - rstart] = value;
  }
  PetscCall(VecRestoreArray(b, &values));
  PetscCall(InputFileClose(&mm.file, NULL));
  PetscFunctionReturn(0);
}
