static char help[] = "KSPMatSolve() with KSPIDRS: bad input, errors during a solve, and matrices that change between solves.\n\n";

#include "columns.h"

#define COLUMNS 5

/* Creates a block like B with another layout: the second process has one row of the first process */
static PetscErrorCode BlockMoveRow(Mat B, Mat *moved)
{
  PetscMPIInt rank;
  PetscInt    n, columns;
  MatType     type;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCall(MatGetLocalSize(B, &n, NULL));
  PetscCall(MatGetSize(B, NULL, &columns));
  PetscCall(MatGetType(B, &type));
  PetscCall(MatCreate(PETSC_COMM_WORLD, moved));
  PetscCall(MatSetSizes(*moved, rank > 1 ? n : (rank ? n + 1 : n - 1), PETSC_DECIDE, PETSC_DETERMINE, columns));
  PetscCall(MatSetType(*moved, type));
  PetscCall(MatSetUp(*moved));
  PetscCall(MatAssemble(*moved));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Blocks with wrong sizes: an error on all processes, after which the solver can be used */
static PetscErrorCode TestBlocks(Mat A)
{
  const KSPConvergedReason *reasons;
  KSPConvergedReason        reason;
  PetscErrorCode            ierr;
  PetscInt                  n;
  Mat                       other, B, X, wrong, empty;
  KSP                       ksp;

  PetscFunctionBeginUser;
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, 7, 0.8, 0.4, &other));
  PetscCall(SolverCreate(A, 2, PCJACOBI, &ksp));
  PetscCall(BlocksCreate(A, COLUMNS, BLOCK_RANDOM, &B, &X));
  for (PetscInt i = 0; i < 8; i++) { /* rows of another matrix, fewer columns, a row on another process, a sparse matrix */
    if (i < 4) PetscCall(BlockCreate(i < 2 ? other : A, i < 2 ? COLUMNS : COLUMNS - 1, &wrong));
    else if (i < 6) PetscCall(BlockMoveRow(B, &wrong));
    else PetscCall(MatConvert(B, MATAIJ, MAT_INITIAL_MATRIX, &wrong));
    Try(ierr, i % 2 ? KSPMatSolve(ksp, B, wrong) : KSPMatSolve(ksp, wrong, X));
    PetscCall(ComplainIf(!ierr, "no error for a wrong block, case %" INT, i));
    PetscCall(MatDestroy(&wrong));
  }
  Try(ierr, KSPMatSolve(ksp, B, B));
  PetscCall(ComplainIf(!ierr, "no error for solutions in the right-hand sides"));
  PetscCall(SolveAllColumns("after errors", ksp, A, B, X, PETSC_TRUE));
  PetscCall(BlockCreate(A, 0, &wrong));
  PetscCall(MatDuplicate(wrong, MAT_DO_NOT_COPY_VALUES, &empty));
  PetscCall(KSPMatSolve(ksp, wrong, empty));
  PetscCall(KSPIDRSGetColumnResults(ksp, &n, NULL, NULL, NULL));
  PetscCall(ComplainIf(n != 0, "%" INT " results of no columns", n));
  PetscCall(DestroyAll(&empty, &wrong));
  PetscCall(KSPSetErrorIfNotConverged(ksp, PETSC_TRUE));
  PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 3));
  Try(ierr, KSPMatSolve(ksp, B, X));
  PetscCall(ComplainIf(ierr != PETSC_ERR_NOT_CONVERGED, "no error where it does not converge: %d", (int)ierr));
  PetscCall(KSPIDRSGetColumnResults(ksp, &n, &reasons, NULL, NULL));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(ComplainIf(n != COLUMNS || reason != KSP_DIVERGED_ITS || reasons[0] != KSP_DIVERGED_ITS, "%s, and %" INT " results",
                       KSPConvergedReasons[reason], n));
  PetscCall(DestroyAll(&ksp, &B, &X, &other));
  PetscCall(Verdict("blocks that do not fit, and errors where it does not converge"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A preconditioner for blocks with one application that fails */
static PetscErrorCode FailingMatApply(PC pc, Mat X, Mat Y)
{
  Failing *failing;

  PetscFunctionBeginUser;
  PetscCall(PCShellGetContext(pc, &failing));
  PetscCheck(++failing->made != failing->failat, PetscObjectComm((PetscObject)pc), PETSC_ERR_USER, "This preconditioner fails");
  PetscCall(MatCopy(X, Y, SAME_NONZERO_PATTERN));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode FailingApply(PC pc, Vec x, Vec y)
{
  PetscFunctionBeginUser;
  PetscCall(VecCopy(x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   After an error in any product or application of the preconditioner the solver can be used again; -malloc_dump shows that nothing
   leaks
*/
static PetscErrorCode TestErrors(Mat A)
{
  const PetscInt failures[] = {1, 7, 23};
  Failing        failing    = {.A = A};
  PetscErrorCode ierr;
  Mat            S, B, X;
  KSP            ksp;
  PC             pc;

  PetscFunctionBeginUser;
  PetscCall(ShellCreate(A, FailingMult, &failing, &S));
  PetscCall(BlocksCreate(A, COLUMNS, BLOCK_RANDOM, &B, &X));
  PetscCall(SolverCreate(S, 2, PCNONE, &ksp));
  PetscCall(KSPSetResidualHistory(ksp, NULL, 100, PETSC_TRUE));
  for (size_t i = 0; i < 2 * PETSC_STATIC_ARRAY_LENGTH(failures); i++) {
    const PetscBool preconditioner = (PetscBool)(i >= PETSC_STATIC_ARRAY_LENGTH(failures));
    const PetscInt  failure        = failures[i % PETSC_STATIC_ARRAY_LENGTH(failures)];

    if (i == PETSC_STATIC_ARRAY_LENGTH(failures)) {
      PetscCall(KSPSetOperators(ksp, A, A));
      PetscCall(KSPGetPC(ksp, &pc));
      PetscCall(PCSetType(pc, PCSHELL));
      PetscCall(PCShellSetContext(pc, &failing));
      PetscCall(PCShellSetApply(pc, FailingApply));
      PetscCall(PCShellSetMatApply(pc, FailingMatApply));
    }
    for (PetscInt block = 0; block < 2; block++) {
      PetscCall(KSPIDRSSetBlock(ksp, (PetscBool)block));
      failing.failat = failing.made + failure;
      Try(ierr, KSPMatSolve(ksp, B, X));
      PetscCall(ComplainIf(ierr != PETSC_ERR_USER, "%s %" INT " failed%s: error %d", preconditioner ? "preconditioner" : "product",
                           failure, block ? ", block" : "", (int)ierr));
      PetscCall(ResetWith(ksp, preconditioner ? A : S));
      PetscCall(SolveAllColumns("after an error", ksp, A, B, X, PETSC_TRUE));
    }
  }
  PetscCall(DestroyAll(&ksp, &S, &B, &X));
  PetscCall(Verdict("errors in the midst of a solve"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Fails for large right-hand sides: for a column whose first residual is 4e6, and not for other columns, whose directions may grow
   from 4 to some 1000 if M is nearly singular
*/
static PetscErrorCode LargeTest(KSP ksp, PetscInt it, PetscReal rnorm, KSPConvergedReason *reason, void *ctx)
{
  PetscReal norm;
  Vec       b;

  PetscFunctionBeginUser;
  *reason = KSP_CONVERGED_ITERATING;
  if (it < 3) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPGetRhs(ksp, &b));
  PetscCall(VecNorm(b, NORM_2, &norm));
  *reason = norm > 1e5 ? KSP_DIVERGED_BREAKDOWN : KSP_CONVERGED_ITS;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   An inner solver of PCMatApply() that fails for one right-hand side, on one process, does not end other columns; PETSc reports the
   failure from 3.26 on
*/
static PetscErrorCode TestOneFails(Mat A)
{
  const PetscInt            large = 1;
  const KSPConvergedReason *reasons;
  Mat                       B, X;
  Vec                       b;
  KSP                       ksp, *inner;
  PC                        pc;

  PetscFunctionBeginUser;
  PetscCall(BlockCreate(A, COLUMNS, &B));
  PetscCall(BlockSet(A, BLOCK_RANDOM, B));
  PetscCall(MatDenseGetColumnVec(B, large, &b));
  PetscCall(VecScale(b, 1e6));
  PetscCall(MatDenseRestoreColumnVec(B, large, &b));
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
  PetscCall(SolverCreate(A, 2, PCBJACOBI, &ksp));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(KSPSetUp(ksp));
  PetscCall(PCBJacobiGetSubKSP(pc, NULL, NULL, &inner));
  PetscCall(KSPSetType(inner[0], KSPIDRS)); /* its reason is the worst one of its block */
  PetscCall(KSPSetConvergenceTest(inner[0], LargeTest, NULL, NULL));
  PetscCall(KSPMatSolve(ksp, B, X));
  PetscCall(KSPIDRSGetColumnResults(ksp, NULL, &reasons, NULL, NULL));
  for (PetscInt j = 0; j < COLUMNS; j++) {
    if (j != large) PetscCall(CheckColumn("as the preconditioner fails for another one", A, B, X, j, reasons[j]));
    else if (PETSC_VERSION_GE(3, 26, 0))
      PetscCall(ComplainIf(reasons[j] != KSP_DIVERGED_PC_FAILED, "%s for the column for which the preconditioner fails",
                           KSPConvergedReasons[reasons[j]]));
  }
  PetscCall(DestroyAll(&ksp, &B, &X));
  PetscCall(Verdict("an inner solver that fails for one"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Adds an entry outside the pattern in a row of each process */
static PetscErrorCode AddEntry(Mat A, PetscInt number)
{
  PetscInt begin, end, N;

  PetscFunctionBeginUser;
  PetscCall(MatSetOption(A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
  PetscCall(MatGetSize(A, &N, NULL));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  if (begin < end) PetscCall(MatSetValue(A, begin + number, (begin + number + N / 2 + 3) % N, 0.3, INSERT_VALUES));
  PetscCall(MatAssemble(A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Values, pattern and matrix change between solves, KSPSolve() and KSPMatSolve() alternate, and the number of columns varies */
static PetscErrorCode TestChanges(Mat A, PetscBool block)
{
  const PetscInt counts[] = {3, 17, 2};
  Mat            other, B, X;
  Vec            b, x;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &other));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(SolverCreate(other, 4, PCJACOBI, &ksp));
  PetscCall(KSPIDRSSetBlock(ksp, block));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(counts); i++) {
    PetscCall(BlocksCreate(A, counts[i], (BlockKind)i, &B, &X));
    PetscCall(SolveAllColumns("at first", ksp, other, B, X, PETSC_TRUE));
    PetscCall(MatShift(other, 0.5));
    PetscCall(SolveAllColumns("other values", ksp, other, B, X, PETSC_TRUE));
    PetscCall(AddEntry(other, (PetscInt)i));
    PetscCall(SolveAllColumns("another pattern", ksp, other, B, X, PETSC_TRUE));
    PetscCall(ColumnGet(B, 0, b));
    PetscCall(SolveSystem("KSPSolve()", ksp, other, b, x));
    PetscCall(KSPSetOperators(ksp, A, A));
    PetscCall(SolveAllColumns("another matrix", ksp, A, B, X, PETSC_TRUE));
    PetscCall(KSPSetOperators(ksp, other, other));
    PetscCall(DestroyAll(&B, &X));
  }
  PetscCall(DestroyAll(&ksp, &b, &x, &other));
  PetscCall(Verdict(block ? "changes between solves with blocks" : "changes between solves"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  Mat A;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(ImplementationFromOptions());
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, 10, 0.8, 0.4, &A));
  PetscCall(TestBlocks(A));
  PetscCall(TestErrors(A));
  PetscCall(TestOneFails(A));
  PetscCall(TestChanges(A, PETSC_FALSE));
  PetscCall(TestChanges(A, PETSC_TRUE));
  PetscCall(MatDestroy(&A));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
