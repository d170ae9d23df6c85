/*
   Reads matrices and right-hand sides in Matrix Market format, plain or compressed with gzip (name ends in .gz), as the
   tutorials, tests and benchmarks need them. Every process reads the file and keeps what is its own.
*/
#pragma once

#include <petscmat.h>

typedef enum {
  MM_GENERAL,
  MM_SYMMETRIC,
  MM_SKEW,
  MM_HERMITIAN
} MatrixMarketSymmetry;

typedef struct {
  const char          *name;
  FILE                *file;
  PetscBool            piped;      /* through gzip */
  PetscBool            coordinate; /* else a dense array by columns */
  PetscBool            pattern;    /* no values: ones */
  PetscBool            imaginary;  /* values have an imaginary part */
  MatrixMarketSymmetry symmetry;
  PetscInt             M, N, entries;
} MatrixMarket;

/* The next line that is neither a comment nor empty */
static PetscErrorCode MatrixMarketLine(MatrixMarket *mm, char line[], int length)
{
  PetscFunctionBegin;
  do {
    PetscCheck(fgets(line, length, mm->file), PETSC_COMM_SELF, PETSC_ERR_FILE_READ, "Matrix Market file %s ends too early", mm->name);
  } while (line[0] == '%' || line[0] == '\n' || line[0] == '\r');
  PetscFunctionReturn(0);
}

/* Reads to the end: gzip must not be cut off */
static PetscErrorCode MatrixMarketClose(MatrixMarket *mm)
{
  char line[1024];

  PetscFunctionBegin;
  while (fgets(line, sizeof(line), mm->file));
  if (mm->piped) PetscCall(PetscPClose(PETSC_COMM_SELF, mm->file));
  else PetscCall(PetscFClose(PETSC_COMM_SELF, mm->file));
  PetscFunctionReturn(0);
}

/* Opens the file and reads its header */
static PetscErrorCode MatrixMarketOpen(MatrixMarket *mm, const char name[])
{
  char      line[1024], object[32], format[32], field[32], symmetry[32], command[PETSC_MAX_PATH_LEN + 16];
  PetscBool exists, flg;
  long long M = 0, N = 0, entries = 0;

  PetscFunctionBegin;
  PetscCall(PetscMemzero(mm, sizeof(*mm)));
  mm->name = name;
  PetscCall(PetscTestFile(name, 'r', &exists));
  PetscCheck(exists, PETSC_COMM_SELF, PETSC_ERR_FILE_OPEN, "Cannot open Matrix Market file %s", name);
  PetscCall(PetscStrendswith(name, ".gz", &mm->piped));
  if (mm->piped) {
    PetscCall(PetscSNPrintf(command, sizeof(command), "gzip -dc '%s'", name));
    PetscCall(PetscPOpen(PETSC_COMM_SELF, NULL, command, "r", &mm->file));
    PetscCheck(mm->file, PETSC_COMM_SELF, PETSC_ERR_FILE_OPEN, "Cannot run %s", command);
  } else PetscCall(PetscFOpen(PETSC_COMM_SELF, name, "r", &mm->file));

  flg = (PetscBool)(fgets(line, sizeof(line), mm->file) && sscanf(line, "%%%%MatrixMarket %31s %31s %31s %31s", object, format, field, symmetry) == 4);
  PetscCheck(flg, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s is not in Matrix Market format: its first line has no %%%%MatrixMarket header", name);
  PetscCall(PetscStrcasecmp(format, "coordinate", &mm->coordinate));
  PetscCall(PetscStrcasecmp(field, "pattern", &mm->pattern));
  PetscCall(PetscStrcasecmp(field, "complex", &mm->imaginary));
  PetscCheck(!mm->imaginary || PetscDefined(USE_COMPLEX), PETSC_COMM_SELF, PETSC_ERR_SUP, "%s has complex entries: use a PETSc with complex scalars", name);
  PetscCall(PetscStrcasecmp(symmetry, "symmetric", &flg));
  if (flg) mm->symmetry = MM_SYMMETRIC;
  PetscCall(PetscStrcasecmp(symmetry, "skew-symmetric", &flg));
  if (flg) mm->symmetry = MM_SKEW;
  PetscCall(PetscStrcasecmp(symmetry, "hermitian", &flg));
  if (flg) mm->symmetry = MM_HERMITIAN;

  PetscCall(MatrixMarketLine(mm, line, sizeof(line)));
  flg = (PetscBool)(mm->coordinate ? sscanf(line, "%lld %lld %lld", &M, &N, &entries) == 3 : sscanf(line, "%lld %lld", &M, &N) == 2);
  PetscCheck(flg && M >= 0 && N >= 0 && entries >= 0, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: no sizes in line %s", name, line);
  mm->M       = (PetscInt)M;
  mm->N       = (PetscInt)N;
  mm->entries = mm->coordinate ? (PetscInt)entries : (PetscInt)(M * N);
  PetscFunctionReturn(0);
}

/* One number of a line, real or complex */
static PetscErrorCode MatrixMarketValue(MatrixMarket *mm, const char text[], PetscScalar *value)
{
  double re = 1.0, im = 0.0;
  int    count = mm->pattern ? 0 : sscanf(text, "%lf %lf", &re, &im);

  PetscFunctionBegin;
  PetscCheck(mm->pattern || count >= (mm->imaginary ? 2 : 1), PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s: no number in %s", mm->name, text);
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
static PetscErrorCode MatLoadMatrixMarket(MPI_Comm comm, const char name[], Mat *newmat)
{
  MatrixMarket mm;
  Mat          A;
  PetscLayout  layout;
  PetscInt     rstart, rend, count = 0, *rows, *columns;
  PetscScalar *values;
  char         line[1024];

  PetscFunctionBegin;
  PetscCall(MatrixMarketOpen(&mm, name));
  PetscCheck(mm.coordinate, comm, PETSC_ERR_FILE_UNEXPECTED, "%s is a dense array, a matrix must be in coordinate format", name);
  PetscCheck(mm.M == mm.N, comm, PETSC_ERR_FILE_UNEXPECTED, "%s is %" PetscInt_FMT " x %" PetscInt_FMT ", a linear system must be square", name, mm.M, mm.N);
  PetscCall(MatCreate(comm, &A));
  PetscCall(MatSetSizes(A, PETSC_DECIDE, PETSC_DECIDE, mm.M, mm.N));
  PetscCall(MatSetFromOptions(A));
  PetscCall(MatGetLayouts(A, &layout, NULL));
  PetscCall(PetscLayoutSetUp(layout));
  PetscCall(PetscLayoutGetRange(layout, &rstart, &rend));

  PetscCall(PetscMalloc3(2 * mm.entries, &rows, 2 * mm.entries, &columns, 2 * mm.entries, &values));
  for (PetscInt k = 0; k < mm.entries; k++) {
    long long   i, j;
    int         used  = 0;
    PetscScalar value = 0.0;

    PetscCall(MatrixMarketLine(&mm, line, sizeof(line)));
    PetscCheck(sscanf(line, "%lld %lld%n", &i, &j, &used) == 2 && i >= 1 && i <= mm.M && j >= 1 && j <= mm.N, comm, PETSC_ERR_FILE_UNEXPECTED, "%s: no entry of the matrix in %s", name, line);
    PetscCall(MatrixMarketValue(&mm, line + used, &value));
    if (i - 1 >= rstart && i - 1 < rend) {
      rows[count]     = (PetscInt)(i - 1);
      columns[count]  = (PetscInt)(j - 1);
      values[count++] = value;
    }
    if (mm.symmetry != MM_GENERAL && i != j && j - 1 >= rstart && j - 1 < rend) {
      rows[count]     = (PetscInt)(j - 1);
      columns[count]  = (PetscInt)(i - 1);
      values[count++] = mm.symmetry == MM_SKEW ? -value : (mm.symmetry == MM_HERMITIAN ? PetscConj(value) : value);
    }
  }
  PetscCall(MatrixMarketClose(&mm));
  PetscCall(MatSetPreallocationCOO(A, count, rows, columns));
  PetscCall(MatSetValuesCOO(A, values, INSERT_VALUES));
  PetscCall(PetscFree3(rows, columns, values));
  *newmat = A;
  PetscFunctionReturn(0);
}

/*
   VecLoadMatrixMarket - Fills a vector with one column of a dense array file
*/
static PetscErrorCode VecLoadMatrixMarket(Vec b, const char name[], PetscInt column)
{
  MatrixMarket mm;
  PetscInt     N, rstart, rend;
  PetscScalar *values;
  char         line[1024];

  PetscFunctionBegin;
  PetscCall(MatrixMarketOpen(&mm, name));
  PetscCall(VecGetSize(b, &N));
  PetscCall(VecGetOwnershipRange(b, &rstart, &rend));
  PetscCheck(!mm.coordinate, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s is in coordinate format, a right-hand side must be a dense array", name);
  PetscCheck(mm.M == N && column >= 0 && column < mm.N, PETSC_COMM_SELF, PETSC_ERR_FILE_UNEXPECTED, "%s is %" PetscInt_FMT " x %" PetscInt_FMT ": no column %" PetscInt_FMT " of length %" PetscInt_FMT, name, mm.M, mm.N, column, N);
  PetscCall(VecGetArrayWrite(b, &values));
  for (PetscInt k = 0; k < (column + 1) * mm.M; k++) {
    const PetscInt i     = k - column * mm.M;
    PetscScalar    value = 0.0;

    PetscCall(MatrixMarketLine(&mm, line, sizeof(line)));
    PetscCall(MatrixMarketValue(&mm, line, &value));
    if (i >= rstart && i < rend) values[i - rstart] = value;
  }
  PetscCall(VecRestoreArrayWrite(b, &values));
  PetscCall(MatrixMarketClose(&mm));
  PetscFunctionReturn(0);
}
