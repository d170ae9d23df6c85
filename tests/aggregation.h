/* Matrices, solvers and checks of the tests of PCAGGREGATION */
#pragma once

#include "systems.h"

/* Matrices of n^3 points (up to CUBE_ROUGH), or of n rows */
typedef enum {
  CUBE_CENTRAL, /* mesh Peclet number 0.5 */
  CUBE_UPWIND,  /* mesh Peclet number 2 */
  CUBE_ROUGH,   /* conductivities without a pattern, whose logarithms are between -2 and 2 */
  TRIDIAGONAL,
  FIVE,
  NINE,
  TWENTYSEVEN,
  ANISOTROPIC, /* couplings 1000 : 1 */
  BLOCKS2,
  BLOCKS3,
  RANDOM,
  LOWER,         /* rows have columns of earlier rows only */
  ARROW,         /* one row and one column with all entries */
  EMPTY,         /* each third row has only a unit diagonal entry */
  POSITIVE,      /* there are no pairs */
  NEGATIVE,      /* the matrix times -1 */
  ZERO_DIAGONAL, /* one diagonal entry is zero */
  DIAGONAL,
  STORED_ZEROS, /* couplings are stored zeros */
  SIGNS,        /* the same with diagonal entries of both signs */
  COLORS,       /* even rows first: the blocks of two processes have no couplings */
  GROWING,      /* couplings grow along a line, whose points have another order */
  KINDS
} Kind;
static const char *const kinds[] = {"mesh Peclet number 0.5",
                                    "upwind",
                                    "rough",
                                    "tridiagonal",
                                    "5 points",
                                    "9 points",
                                    "27 points",
                                    "anisotropic",
                                    "blocks of 2",
                                    "blocks of 3",
                                    "random",
                                    "lower triangle",
                                    "arrow",
                                    "empty rows",
                                    "positive couplings",
                                    "negative",
                                    "a zero diagonal entry",
                                    "diagonal",
                                    "stored zeros",
                                    "stored zeros, both signs",
                                    "two colors",
                                    "growing couplings"};

static inline PetscReal Conductivity(PetscInt p, PetscInt q)
{
  return 2.0 / (PetscExpReal(2.0 * PetscSinReal(1.0 + 1.7 * p + 0.3 * p * p)) +
                PetscExpReal(2.0 * PetscSinReal(1.0 + 1.7 * q + 0.3 * q * q)));
}

/* Adds the couplings of a row to the neighbours in a grid of m^d points. bs: unknowns at a point */
static inline PetscErrorCode SetNeighbors(Mat A, Kind kind, PetscInt row, PetscInt m, int d, PetscInt bs)
{
  const PetscInt  p = row / bs, at[] = {p % m, p / m % m, p / m / m};
  const PetscReal h = 2.0 / (m + 1), x = h * (at[0] + 1) - 1.0, y = h * (at[1] + 1) - 1.0;
  const PetscReal wind[] = {y * (1.0 - x * x), -x * (1.0 - y * y), 0.3}, peclet = kind == CUBE_UPWIND ? 2.0 : 0.5;
  const PetscBool corners  = (PetscBool)(kind == NINE || kind == TWENTYSEVEN);
  PetscScalar     diagonal = 0.0;

  PetscFunctionBeginUser;
  for (int step = 0; step < (d == 2 ? 9 : 27); step++) {
    const PetscInt s[]    = {step % 3 - 1, step / 3 % 3 - 1, d == 2 ? 0 : step / 9 - 1},
                   steps  = s[0] * s[0] + s[1] * s[1] + s[2] * s[2];
    const PetscInt q      = p + s[0] + m * (s[1] + m * s[2]);
    PetscBool      inside = PETSC_TRUE;
    PetscScalar    value  = -1.0;

    if (!steps || (steps > 1 && !corners)) continue;
    for (int c = 0; c < d; c++) {
      const PetscReal w = peclet * wind[c] * s[c];

      if (at[c] + s[c] < 0 || at[c] + s[c] >= m) inside = PETSC_FALSE;
      if (kind == CUBE_CENTRAL || kind == CUBE_UPWIND) value += 0.5 * w - (kind == CUBE_UPWIND ? 0.5 * PetscAbsReal(w) : 0.0);
    }
    if (kind == CUBE_ROUGH) value = -Conductivity(p, q);
    if (kind == ANISOTROPIC && s[1]) value = -1e-3;
    if (kind == POSITIVE) value = 0.9;
    diagonal += kind == POSITIVE ? 1.0 : -value;
    if (inside) PetscCall(MatSetValue(A, row, bs * q + row % bs, value, INSERT_VALUES));
  }
  for (PetscInt other = p * bs; other < (p + 1) * bs; other++)
    if (other != row) PetscCall(MatSetValue(A, row, other, other < row ? 0.3 : -0.2, INSERT_VALUES));
#if PetscDefined(USE_COMPLEX)
  diagonal += 0.01 * PETSC_i;
#endif
  PetscCall(MatSetValue(A, row, row, diagonal, INSERT_VALUES));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The point on a line of n points that has this row, and the row of a point. GROWING turns round five points at a time */
static inline PetscInt PointOf(Kind kind, PetscInt row, PetscInt n)
{
  if (kind == COLORS) return row < (n + 1) / 2 ? 2 * row : 2 * (row - (n + 1) / 2) + 1;
  return kind == GROWING && row / 5 * 5 + 4 < n ? row / 5 * 5 + 4 - row % 5 : row;
}

static inline PetscInt RowOf(Kind kind, PetscInt point, PetscInt n)
{
  return kind == COLORS ? point / 2 + point % 2 * ((n + 1) / 2) : PointOf(kind, point, n);
}

/* size: points in each direction of a grid, or rows, of which this process has `local` or PETSC_DECIDE */
static inline PetscErrorCode KindCreateLocal(Kind kind, PetscInt size, PetscInt local, Mat *A)
{
  const PetscBool grid = (PetscBool)(kind <= CUBE_ROUGH || (kind >= FIVE && kind <= BLOCKS3) || kind == POSITIVE);
  const int       d    = kind <= CUBE_ROUGH || kind == TWENTYSEVEN ? 3 : 2;
  const PetscInt  bs = kind == BLOCKS2 ? 2 : kind == BLOCKS3 ? 3 : 1, n = !grid ? size : bs * size * size * (d == 3 ? size : 1);
  PetscInt        begin, end;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_WORLD, A));
  PetscCall(MatSetSizes(*A, local, local, n, n));
  PetscCall(MatSetBlockSize(*A, bs));
  PetscCall(MatSetType(*A, MATAIJ));
  PetscCall(MatSetFromOptions(*A));
  PetscCall(MatSeqAIJSetPreallocation(*A, 27, NULL));
  PetscCall(MatMPIAIJSetPreallocation(*A, 27, NULL, 27, NULL));
  PetscCall(MatSetOption(*A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
  PetscCall(MatGetOwnershipRange(*A, &begin, &end));
  for (PetscInt i = begin; i < end; i++) {
    const PetscInt  at      = PointOf(kind, i, n);
    const PetscReal grown   = kind == GROWING ? PetscExpReal(0.01 * (at - n / 2)) : 1.0;
    const PetscReal sign    = kind == NEGATIVE ? -1.0 : 1.0;
    const PetscBool coupled = (PetscBool)(kind != DIAGONAL && !(kind == EMPTY && i % 3 == 1));

    if (grid) {
      PetscCall(SetNeighbors(*A, kind, i, size, d, bs));
      continue;
    }
    PetscCall(MatSetValue(*A, i, i,
                          (kind == ARROW && !i ? 3.0 * n
                           : kind == RANDOM    ? 8.0
                           : kind == GROWING   ? 1.0 + 2.0 * grown
                           : coupled           ? 2.1
                                               : 1.0) *
                            (kind == ZERO_DIAGONAL && i == n / 2 ? 0.0
                             : kind == SIGNS && i % 2            ? -1.0
                                                                 : sign),
                          INSERT_VALUES));
    for (PetscInt j = 0; kind == RANDOM && j < 7; j++) {
      const PetscInt column = (i * (j + 3) + 17 * i * j * j + 31 * j) % n;

      if (column != i) PetscCall(MatSetValue(*A, i, column, -1.0 + 0.2 * (j % 3), INSERT_VALUES));
    }
    for (PetscInt side = -1; side < 2 && coupled && kind != RANDOM; side += 2) {
      const PetscInt neighbor = at + side, j = RowOf(kind, neighbor, n);

      if (neighbor < 0 || neighbor >= n || (kind == LOWER && side > 0)) continue;
      PetscCall(MatSetValue(*A, i, j, kind == STORED_ZEROS || kind == SIGNS ? 0.0 : -sign * grown, INSERT_VALUES));
    }
    if (kind == ARROW && i) PetscCall(MatSetValue(*A, i, 0, -0.1, INSERT_VALUES));
    for (PetscInt j = 1; kind == ARROW && !i && j < n; j++) PetscCall(MatSetValue(*A, 0, j, -0.5, INSERT_VALUES));
  }
  PetscCall(MatAssemble(*A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode KindCreate(Kind kind, PetscInt size, Mat *A)
{
  return KindCreateLocal(kind, size, PETSC_DECIDE, A);
}

/* Creates a solver. Options are read if there are some */
static inline PetscErrorCode SolverFor(Mat A, const char type[], const char options[], KSP *ksp)
{
  PetscOptions   database;
  PC             pc;
  PetscErrorCode ierr;

  PetscFunctionBeginUser;
  PetscCall(KSPCreate(PETSC_COMM_WORLD, ksp));
  PetscCall(KSPSetOperators(*ksp, A, A));
  PetscCall(KSPSetType(*ksp, type));
  PetscCall(KSPSetPCSide(*ksp, PC_RIGHT));
  PetscCall(KSPSetTolerances(*ksp, rtol, 0.0, PETSC_DEFAULT, 200));
  PetscCall(KSPGetPC(*ksp, &pc));
  PetscCall(PCSetType(pc, PCAGGREGATION));
  if (!options) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(OptionsPush(options, &database));
  PetscCall(KSPSetFromOptions(*ksp));
  ierr = KSPSetUp(*ksp);
  PetscCall(OptionsPop(&database));
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode SystemFor(Mat A, Vec *b, Vec *x)
{
  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(A, x, b));
  PetscCall(VecSetGeneral(*b, 1.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Converts a step P to MATAIJ. P of a MATSHELL times the numbers of its columns, from 1 on, is the column of each row, or 0 */
static inline PetscErrorCode StepConvert(Mat step, Mat *P)
{
  PetscScalar *numbers;
  PetscInt     begin, end, m, n, M, N;
  PetscBool    shell;
  Vec          columns, rows;

  PetscFunctionBeginUser;
  PetscCall(PetscObjectTypeCompare((PetscObject)step, MATSHELL, &shell));
  if (!shell) {
    PetscCall(MatConvert(step, MATAIJ, MAT_INITIAL_MATRIX, P));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(MatGetLocalSize(step, &m, &n));
  PetscCall(MatGetSize(step, &M, &N));
  PetscCall(MatCreateVecs(step, &columns, &rows));
  PetscCall(VecGetOwnershipRange(columns, &begin, NULL));
  PetscCall(VecGetArrayWrite(columns, &numbers));
  for (PetscInt c = 0; c < n; c++) numbers[c] = begin + c + 1;
  PetscCall(VecRestoreArrayWrite(columns, &numbers));
  PetscCall(MatMult(step, columns, rows));
  PetscCall(MatCreateAIJ(PETSC_COMM_WORLD, m, n, M, N, 1, NULL, 1, NULL, P));
  PetscCall(VecGetOwnershipRange(rows, &begin, &end));
  PetscCall(VecGetArray(rows, &numbers));
  for (PetscInt i = begin; i < end; i++) {
    const PetscInt column = (PetscInt)PetscRealPart(numbers[i - begin]) - 1;

    if (column >= 0) PetscCall(MatSetValue(*P, i, column, 1.0, INSERT_VALUES));
  }
  PetscCall(VecRestoreArray(rows, &numbers));
  PetscCall(MatAssemble(*P));
  PetscCall(DestroyAll(&columns, &rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Gets the matrix of a level as a MATAIJ, and the step from the next coarser level, unless P is NULL. Level 0 is the coarsest */
static inline PetscErrorCode LevelGet(PC pc, PetscInt l, Mat *A, Mat *P)
{
  KSP smoother;
  Mat from;

  PetscFunctionBeginUser;
  PetscCall(PCMGGetSmoother(pc, l, &smoother));
  PetscCall(KSPGetOperators(smoother, NULL, &from));
  PetscCall(MatConvert(from, MATAIJ, MAT_INITIAL_MATRIX, A));
  if (P) {
    PetscCall(PCMGGetInterpolation(pc, l, &from));
    PetscCall(StepConvert(from, P));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Compares the levels of a matrix on a GPU with the levels of a copy of this matrix on the host */
static inline PetscErrorCode CheckAsOnHost(const char what[], KSP ksp, Mat A)
{
  PetscInt  levels[2];
  PetscBool cuda, same;
  Mat       copy;
  KSP       other;
  PC        pcs[2];

  PetscFunctionBeginUser;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJCUSPARSE, &cuda));
  if (!cuda) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(MatConvert(A, MATAIJ, MAT_INITIAL_MATRIX, &copy));
  PetscCall(SolverFor(copy, KSPIDRS, NULL, &other));
  PetscCall(KSPSetUp(other));
  PetscCall(KSPGetPC(ksp, &pcs[0]));
  PetscCall(KSPGetPC(other, &pcs[1]));
  for (int k = 0; k < 2; k++) PetscCall(PCMGGetLevels(pcs[k], &levels[k]));
  PetscCall(ComplainIf(levels[0] < levels[1], "%s: %" INT " levels on the GPU, %" INT " on the host", what, levels[0], levels[1]));
  for (PetscInt f = 1; f <= PetscMin(levels[0], levels[1]); f++) { /* from the finest level on; the host may stop earlier */
    PetscReal norm, error;
    Mat       B[2], P[2] = {NULL, NULL};

    for (int k = 0; k < 2; k++) PetscCall(LevelGet(pcs[k], levels[k] - f, &B[k], f < levels[1] ? &P[k] : NULL));
    if (f < levels[1]) {
      PetscCall(MatEqual(P[0], P[1], &same));
      PetscCall(ComplainIf(!same, "%s: other aggregates on the GPU than on the host on level %" INT, what, levels[1] - f));
    }
    PetscCall(MatNorm(B[1], NORM_FROBENIUS, &norm));
    PetscCall(MatAXPY(B[0], -1.0, B[1], DIFFERENT_NONZERO_PATTERN));
    PetscCall(MatNorm(B[0], NORM_FROBENIUS, &error));
    PetscCall(ComplainIf(!(error <= 50 * PETSC_MACHINE_EPSILON * norm), "%s: matrices on level %" INT " differ by %g of %g", what,
                         levels[1] - f, (double)error, (double)norm));
    PetscCall(DestroyAll(&B[0], &B[1], &P[0], &P[1]));
  }
  PetscCall(DestroyAll(&other, &copy));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Compares the levels with products of PETSc */
static inline PetscErrorCode CheckLevels(const char what[], KSP ksp)
{
  PetscInt levels, begin, end;
  PC       pc;

  PetscFunctionBeginUser;
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCMGGetLevels(pc, &levels));
  for (PetscInt l = 1; l < levels; l++) {
    PetscReal norm, all, best = PETSC_MAX_REAL;
    Mat       A, P, C, T, AP, product;
    Vec       rows, members;

    PetscCall(LevelGet(pc, l, &A, &P));
    PetscCall(LevelGet(pc, l - 1, &C, NULL));
    PetscCall(MatTranspose(P, MAT_INITIAL_MATRIX, &T));
    PetscCall(MatMatMult(A, P, MAT_INITIAL_MATRIX, PETSC_DEFAULT, &AP));
    PetscCall(MatMatMult(T, AP, MAT_INITIAL_MATRIX, PETSC_DEFAULT, &product));
    PetscCall(MatNorm(product, NORM_FROBENIUS, &norm));
    /* the coarse matrix times 1.5 or 1.6 */
    for (int f = 0; f < 2; f++) {
      PetscReal error;
      Mat       D;

      PetscCall(MatDuplicate(product, MAT_COPY_VALUES, &D));
      PetscCall(MatAXPY(D, f ? -1.5 : -1.6, C, DIFFERENT_NONZERO_PATTERN));
      PetscCall(MatNorm(D, NORM_FROBENIUS, &error));
      best = PetscMin(best, error);
      PetscCall(MatDestroy(&D));
    }
    PetscCall(ComplainIf(!(best <= 50 * PETSC_MACHINE_EPSILON * norm), "%s: P^T A P differs by %g of %g on level %" INT, what,
                         (double)best, (double)norm, l));
    PetscCall(MatCreateVecs(P, &members, &rows));
    PetscCall(VecSet(rows, 1.0));
    PetscCall(MatMultTranspose(P, rows, members));
    PetscCall(VecMin(members, NULL, &all));
    PetscCall(ComplainIf(!(all >= 1.0), "%s: an aggregate has %g rows on level %" INT, what, (double)all, l));
    PetscCall(MatGetOwnershipRange(A, &begin, &end));
    for (PetscInt i = begin; i < end; i++) {
      const PetscInt    *columns;
      const PetscScalar *values;
      PetscInt           n, in;
      PetscBool          coupled = PETSC_FALSE, one;

      PetscCall(MatGetRow(A, i, &n, &columns, &values));
      for (PetscInt k = 0; k < n; k++) {
        if (columns[k] != i && columns[k] >= begin && columns[k] < end && values[k] != 0.0) coupled = PETSC_TRUE;
      }
      PetscCall(MatRestoreRow(A, i, &n, &columns, &values));
      PetscCall(MatGetRow(P, i, &in, NULL, &values));
      one = (PetscBool)(in == 1 && values[0] == 1.0);
      PetscCall(
        ComplainIf(coupled ? !one : in && !one, "%s: row %" INT " of P has %" INT " entries on level %" INT, what, i, in, l));
      PetscCall(MatRestoreRow(P, i, &in, NULL, &values));
    }
    PetscCall(DestroyAll(&rows, &members, &T, &AP, &product, &A, &C, &P));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
