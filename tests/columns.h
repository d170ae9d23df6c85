/* Blocks of right-hand sides for the tests of KSPMatSolve(), and checks of their solutions */
#pragma once

#include "systems.h"

/* Kinds of right-hand sides */
typedef enum {
  BLOCK_RANDOM,
  BLOCK_POINTS, /* multiples of unit vectors */
  BLOCK_NEAR,   /* nearly equal */
  BLOCK_EQUAL,
  BLOCK_ZERO,  /* every third one is zero */
  BLOCK_SCALE, /* of very different sizes */
  BLOCKS
} BlockKind;
static const char *const BlockKinds[] = {"random", "points", "nearly equal", "equal", "some zero", "of different sizes"};

/* Sets column j of such a block */
static inline PetscErrorCode BlockColumn(BlockKind kind, PetscInt j, Vec b)
{
  PetscInt N;

  PetscFunctionBeginUser;
  PetscCall(VecGetSize(b, &N));
  PetscCall(VecSetGeneral(b, kind == BLOCK_NEAR || kind == BLOCK_EQUAL ? 1.0 : 1.0 + 0.37 * j));
  if (kind == BLOCK_POINTS) {
    PetscCall(VecSet(b, 0.0));
    PetscCall(VecSetValue(b, (7 * j) % N, 1.0 + j, INSERT_VALUES));
    PetscCall(VecAssemble(b));
  }
  if (kind == BLOCK_NEAR) PetscCall(VecShift(b, 1e-3 * j));
  if (kind == BLOCK_ZERO && j % 3 == 1) PetscCall(VecSet(b, 0.0));
  if (kind == BLOCK_SCALE) PetscCall(VecScale(b, PetscPowReal(10.0, (PetscReal)(3 * (j % 5) - 6))));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Creates a block with this number of columns for this matrix, in the memory of its vectors. The leading dimension exceeds the
   number of rows by `more`; all numbers are `between`
*/
static inline PetscErrorCode BlockCreateApart(Mat A, PetscInt columns, PetscInt more, PetscScalar between, Mat *B)
{
  PetscScalar *array;
  PetscInt     n, ld;
  PetscBool    cuda;
  VecType      type;

  PetscFunctionBeginUser;
  PetscCall(MatGetLocalSize(A, &n, NULL));
  PetscCall(MatGetVecType(A, &type));
  PetscCall(PetscStrcmp(type, VECCUDA, &cuda));
  PetscCall(MatCreate(PetscObjectComm((PetscObject)A), B));
  PetscCall(MatSetSizes(*B, n, PETSC_DECIDE, PETSC_DETERMINE, columns));
  PetscCall(MatSetType(*B, cuda ? MATDENSECUDA : MATDENSE));
  if (more) PetscCall(MatDenseSetLDA(*B, n + more));
  PetscCall(MatSetUp(*B));
  PetscCall(MatDenseGetLDA(*B, &ld));
  PetscCall(MatDenseGetArrayWrite(*B, &array));
  for (PetscInt i = 0; n && i < ld * columns; i++) array[i] = between;
  PetscCall(MatDenseRestoreArrayWrite(*B, &array));
  PetscCall(MatAssemble(*B));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode BlockCreate(Mat A, PetscInt columns, Mat *B)
{
  PetscFunctionBeginUser;
  PetscCall(BlockCreateApart(A, columns, 0, 0.0, B));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode BlockSet(Mat A, BlockKind kind, Mat B)
{
  PetscInt columns;
  Vec      b;

  PetscFunctionBeginUser;
  PetscCall(MatGetSize(B, NULL, &columns));
  PetscCall(MatCreateVecs(A, NULL, &b));
  for (PetscInt j = 0; j < columns; j++) {
    PetscCall(BlockColumn(kind, j, b));
    PetscCall(ColumnSet(B, j, b));
  }
  PetscCall(VecDestroy(&b));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates right-hand sides and room for solutions */
static inline PetscErrorCode BlocksCreate(Mat A, PetscInt columns, BlockKind kind, Mat *B, Mat *X)
{
  PetscFunctionBeginUser;
  PetscCall(BlockCreate(A, columns, B));
  PetscCall(BlockSet(A, kind, *B));
  PetscCall(MatDuplicate(*B, MAT_DO_NOT_COPY_VALUES, X));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Checks that every column that is reported as converged has converged in the norm of the solver. The recurrence computes the norm
   of any other column, with rounding errors of earlier, larger residuals: the same number of them is allowed in single and in
   double precision
*/
static inline PetscErrorCode CheckBlock(const char what[], KSP ksp, Mat A, Mat B, Mat X, PetscBool all)
{
  const KSPConvergedReason *reasons;
  const PetscReal          *norms;
  const PetscInt           *its;
  KSPConvergedReason        reason, worst = KSP_CONVERGED_ITERATING;
  PetscInt                  columns, n, most, largest = 0;
  Vec                       b, x;

  PetscFunctionBeginUser;
  PetscCall(MatGetSize(B, NULL, &columns));
  PetscCall(KSPIDRSGetColumnResults(ksp, &n, &reasons, &its, &norms));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(KSPGetIterationNumber(ksp, &most));
  PetscCall(ComplainIf(n != columns, "%s: results of %" INT " columns", what, n));
  PetscCall(MatCreateVecs(A, &x, &b));
  for (PetscInt j = 0; j < PetscMin(n, columns); j++) {
    PetscReal norm, reference;

    PetscCall(ColumnGet(B, j, b));
    PetscCall(ColumnGet(X, j, x));
    PetscCall(SolverNorm(ksp, b, x, &norm));
    PetscCall(SolverNorm(ksp, b, NULL, &reference));
    PetscCall(ComplainIf(all && !(reasons[j] > 0), "%s, column %" INT ": %s", what, j, KSPConvergedReasons[reasons[j]]));
    PetscCall(ComplainIf(reasons[j] > 0 && !(norm <= 1.01 * rtol * reference),
                         "%s, column %" INT ": the norm of b - A x is %g of %g", what, j, (double)norm, (double)reference));
    PetscCall(ComplainIf(!(PetscAbsReal(norm - norms[j]) <=
                           PetscMax(1e-11, (reasons[j] > 0 ? 100 : 4.5e4) * PETSC_MACHINE_EPSILON) * reference +
                             (reasons[j] > 0 ? 1 : 100) * PETSC_SQRT_MACHINE_EPSILON * norm),
                         "%s, column %" INT ": the norm of b - A x is %g, reported %g", what, j, (double)norm, (double)norms[j]));
    if (!j || reasons[j] < worst) worst = reasons[j];
    largest = PetscMax(largest, its[j]);
  }
  PetscCall(ComplainIf(columns && (reason != worst || most != largest),
                       "%s: %s after %" INT ", the worst is %s, the largest number %" INT, what, KSPConvergedReasons[reason], most,
                       KSPConvergedReasons[worst], largest));
  PetscCall(DestroyAll(&b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode SolveAllColumns(const char what[], KSP ksp, Mat A, Mat B, Mat X, PetscBool all)
{
  PetscFunctionBeginUser;
  PetscCall(KSPMatSolve(ksp, B, X));
  PetscCall(CheckBlock(what, ksp, A, B, X, all));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that a column that has converged solves its system, for any norm of the solver */
static inline PetscErrorCode CheckColumn(const char what[], Mat A, Mat B, Mat X, PetscInt j, KSPConvergedReason reason)
{
  PetscReal rnorm, bnorm;
  Vec       b, x;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(ColumnGet(B, j, b));
  PetscCall(ColumnGet(X, j, x));
  PetscCall(ResidualNorm(A, b, x, &rnorm, &bnorm));
  PetscCall(ComplainIf(reason <= 0 || !(rnorm <= 1.01 * rtol * bnorm), "%s, column %" INT ": %s, the norm of b - A x is %g of %g",
                       what, j, KSPConvergedReasons[reason], (double)rnorm, (double)bnorm));
  PetscCall(DestroyAll(&b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Solves for all kinds of right-hand sides and numbers of columns, with these preconditioners, with all sides and widths, with
   block recurrences or not, and checks that every column is solved
*/
static inline PetscErrorCode TestSolved(Mat A, PetscBool block, size_t npctypes, const char *const pctypes[])
{
  const PetscInt counts[] = {1, 2, 3, 4, 8, 16, 17}, widths[] = {16, 5};

  PetscFunctionBeginUser;
  for (size_t is = 0; is < SIZES; is++) {
    for (size_t ipc = 0; ipc < npctypes; ipc++) {
      KSP ksp;

      PetscCall(SolverCreate(A, sizes[is], pctypes[ipc], &ksp));
      PetscCall(KSPIDRSSetBlock(ksp, block));
      PetscCall(KSPSetPCSide(ksp, (is + ipc) % 3 == 2 ? PC_LEFT : PC_RIGHT));
      for (size_t ic = 0; ic < PETSC_STATIC_ARRAY_LENGTH(counts); ic++) {
        const BlockKind kind  = (BlockKind)((is + ipc + ic) % BLOCKS);
        const PetscInt  width = widths[(ipc + ic) % 2];
        char            what[256];
        Mat             B, X;

        PetscCall(BlockCreate(A, counts[ic], &B));
        PetscCall(BlockSet(A, kind, B));
        PetscCall(MatDuplicate(B, MAT_COPY_VALUES, &X)); /* the old X must not matter */
        PetscCall(KSPIDRSSetWidth_Private(ksp, width));
        PetscCall(KSPMatSolve(ksp, B, X));
        PetscCall(PetscSNPrintf(what, sizeof(what), "s = %" INT ", %s, %" INT " columns, %" INT " at a time, %s", sizes[is],
                                pctypes[ipc], counts[ic], width, BlockKinds[kind]));
        PetscCall(CheckBlock(what, ksp, A, B, X, PETSC_TRUE));
        PetscCall(DestroyAll(&B, &X));
      }
      PetscCall(KSPDestroy(&ksp));
    }
  }
  PetscCall(Verdict("every column is solved"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Guesses, exact and others, batches, histories and totals, limits in any step of a cycle, the transpose At */
static inline PetscErrorCode TestOutcomes(Mat A, Mat At, PetscBool block)
{
  const PetscInt            columns = 8;
  const KSPConvergedReason *reasons;
  const PetscInt           *its;
  PetscReal                *history;
  PetscInt                  n, length, sum = 0, total[2];
  KSP                       ksp;
  Mat                       B, X;
  Vec                       b;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(A, NULL, &b));
  PetscCall(BlocksCreate(A, columns, BLOCK_SCALE, &B, &X));
  PetscCall(MatCopy(B, X, SAME_NONZERO_PATTERN));
  PetscCall(SolverCreate(A, block && PetscDefined(USE_REAL_SINGLE) ? 1 : 4, PCJACOBI, &ksp));
  PetscCall(KSPIDRSSetBlock(ksp, block));
  PetscCall(KSPSetInitialGuessNonzero(ksp, PETSC_TRUE));
  PetscCall(SolveAllColumns("from a guess", ksp, A, B, X, PETSC_TRUE));
  PetscCall(ColumnSet(X, 2, b)); /* all but one are solved */
  PetscCall(SolveAllColumns("from the solution", ksp, A, B, X, PETSC_TRUE));
  PetscCall(KSPIDRSGetColumnResults(ksp, NULL, NULL, &its, NULL));
  for (PetscInt j = 0; j < columns; j++)
    PetscCall(ComplainIf((j != 2) != (its[j] == 0), "from the solution: %" INT " iterations of column %" INT, its[j], j));
  PetscCall(KSPSetInitialGuessNonzero(ksp, PETSC_FALSE));
  PetscCall(KSPSetMatSolveBatchSize(ksp, 3));
  PetscCall(KSPMatSolve(ksp, B, X));
  PetscCall(KSPIDRSGetColumnResults(ksp, &n, NULL, NULL, NULL));
  PetscCall(ComplainIf(n != 2, "the last batch has %" INT " columns", n));
  PetscCall(KSPSetMatSolveBatchSize(ksp, PETSC_DECIDE));
  PetscCall(PetscMalloc1(columns * MAX_HISTORY, &history));
  PetscCall(KSPSetResidualHistory(ksp, history, columns * MAX_HISTORY, PETSC_FALSE));
  PetscCall(KSPGetTotalIterations(ksp, &total[0]));
  PetscCall(KSPMatSolve(ksp, B, X));
  PetscCall(KSPGetTotalIterations(ksp, &total[1]));
  PetscCall(KSPGetResidualHistory(ksp, NULL, &length));
  PetscCall(KSPIDRSGetColumnResults(ksp, &n, NULL, &its, NULL));
  for (PetscInt j = 0; j < columns; j++) sum += its[j];
  PetscCall(ComplainIf(length != sum + columns || total[1] - total[0] != sum,
                       "a history of %" INT " norms, and %" INT " iterations in all, for a sum of %" INT, length,
                       total[1] - total[0], sum));
  PetscCall(KSPSetResidualHistory(ksp, NULL, 0, PETSC_FALSE));
  PetscCall(PetscFree(history));
  for (PetscInt limit = 1; limit < 12; limit += 2) {
    PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, limit));
    PetscCall(SolveAllColumns("a limit", ksp, A, B, X, PETSC_FALSE));
    PetscCall(KSPIDRSGetColumnResults(ksp, NULL, &reasons, &its, NULL));
    for (PetscInt j = 0; j < columns; j++)
      PetscCall(ComplainIf(reasons[j] != KSP_DIVERGED_ITS || its[j] != limit, "limit %" INT ": %s after %" INT, limit,
                           KSPConvergedReasons[reasons[j]], its[j]));
  }
  PetscCall(KSPDestroy(&ksp));
  PetscCall(BlockSet(A, BLOCK_RANDOM, B));
  for (PetscInt directions = 1; directions < IDRS_MATSOLVE_DIRECTIONS; directions++) {
    PetscCall(SolverCreate(A, 4, PCJACOBI, &ksp));
    PetscCall(KSPIDRSSetBlock(ksp, block));
    PetscCall(IDRSMatSolveTranspose(ksp, B, X));
    PetscCall(KSPSetOperators(ksp, At, At)); /* for the checks: A and At have the same diagonal */
    PetscCall(CheckBlock("the transpose", ksp, At, B, X, PETSC_TRUE));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&B, &X, &b));
  PetscCall(Verdict("guesses, batches, histories, limits, the transpose"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A diagonal matrix with few values: columns break down, or are solved, within a cycle, at different times */
static inline PetscScalar Few(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 1.0 + i % 5 : 0.0;
}
