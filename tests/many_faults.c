static char help[] = "KSPMatSolve() with KSPIDRS: bad input, errors during a solve, and matrices that change between solves.\n\n";

#include "columns.h"
#include <petsc/private/vecimpl.h>

#define COLUMNS 5

static PetscErrorCode TestSettings(Mat A)
{
  const PetscInt    widths[] = {0, -3, 17};
  const char *const values[] = {"0", "-3", "17"};
  PetscInt          width;
  KSP               ksp;

  PetscFunctionBeginUser;
  PetscCall(SolverCreate(A, 2, PCNONE, &ksp));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(widths); i++) {
    CheckRefused(KSPIDRSSetWidth(ksp, widths[i]), "ksp_idrs_width", values[i]);
    PetscCall(KSPIDRSGetWidth(ksp, &width));
    PetscCall(ComplainIf(width != 16, "the width is %" INT " after one that was refused", width));
  }
  PetscCall(KSPDestroy(&ksp));
  PetscCall(Verdict("widths"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

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
  Vec                       column;
  KSP                       ksp;

  PetscFunctionBeginUser;
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, 7, 0.8, 0.4, &other));
  PetscCall(SolverCreate(A, 2, PCJACOBI, &ksp));
  PetscCall(BlocksCreate(A, COLUMNS, BLOCK_RANDOM, &B, &X));
  for (PetscInt i = 0; i < 8; i++) {
    if (i < 4) PetscCall(BlockCreate(i < 2 ? other : A, i < 2 ? COLUMNS : COLUMNS - 1, &wrong));
    else if (i < 6) PetscCall(BlockMoveRow(B, &wrong)); /* on one process one row less */
    else PetscCall(MatConvert(B, MATAIJ, MAT_INITIAL_MATRIX, &wrong));
    PetscCall(Listen());
    if (i == 0 || i == 4 || i == 6) ierr = KSPMatSolve(ksp, wrong, X);
    else if (i == 1 || i == 5 || i == 7) ierr = KSPMatSolve(ksp, B, wrong);
    else if (i == 2) ierr = KSPMatSolve(ksp, B, wrong);
    else ierr = KSPMatSolve(ksp, B, B);
    PetscCall(Heard());
    PetscCall(ComplainIf(!ierr, "no error for a wrong block, case %" INT, i));
    PetscCall(MatDestroy(&wrong));
  }
  PetscCall(MatGetLocalSize(B, &n, NULL));
  PetscCall(MatCreate(PetscObjectComm((PetscObject)A), &wrong));
  PetscCall(MatSetSizes(wrong, n, PETSC_DECIDE, PETSC_DETERMINE, COLUMNS));
  PetscCall(MatSetType(wrong, MATDENSE));
  Try(ierr, KSPMatSolve(ksp, wrong, X));
  PetscCall(ComplainIf(!ierr || !(strstr(message, "preallocat") || strstr(message, "assembled")),
                       "a block that is not set up: error code %d, \"%s\"", (int)ierr, message));
  PetscCall(MatDestroy(&wrong));
  PetscCall(MatDenseGetColumnVec(X, 0, &column)); /* then the solver cannot get it */
  for (PetscInt width = 1; width <= 16; width += 15) {
    PetscCall(KSPIDRSSetWidth(ksp, width));
    Try(ierr, KSPMatSolve(ksp, B, X));
    PetscCall(ComplainIf(!ierr, "no error for solutions of which a column is in use, width %" INT, width));
  }
  PetscCall(MatDenseRestoreColumnVec(X, 0, &column));
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

/* An operator with one product that fails */
typedef struct {
  Mat      A;
  PetscInt failat, made;
} Failing;

static PetscErrorCode FailingMult(Mat S, Vec x, Vec y)
{
  Failing *failing;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(S, &failing));
  PetscCheck(++failing->made != failing->failat, PetscObjectComm((PetscObject)S), PETSC_ERR_USER, "This product fails");
  PetscCall(MatMult(failing->A, x, y));
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
  const PetscInt failures[] = {1, 2, 7, 12, 23, 40};
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
    PetscCall(KSPIDRSSetWidth(ksp, i % 2 ? 3 : 16));
    for (PetscInt block = 0; block < 2; block++) {
      PetscCall(KSPIDRSSetBlock(ksp, (PetscBool)block));
      failing.failat = failing.made + failure;
      Try(ierr, KSPMatSolve(ksp, B, X));
      PetscCall(ComplainIf(ierr != PETSC_ERR_USER, "%s %" INT " failed%s: error %d", preconditioner ? "preconditioner" : "product",
                           failure, block ? ", block" : "", (int)ierr));
      PetscCall(KSPReset(ksp));
      PetscCall(KSPSetOperators(ksp, preconditioner ? A : S, preconditioner ? A : S));
      PetscCall(SolveAllColumns("after an error", ksp, A, B, X, PETSC_TRUE));
    }
  }
  PetscCall(DestroyAll(&ksp, &S, &B, &X));
  PetscCall(Verdict("errors in the midst of a solve"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Number of copies of vectors until one fails; 0 for none. Duplicates of a vector with this copy function inherit it */
static PetscInt copies = 0;
static PetscErrorCode (*copy)(Vec, Vec);

static PetscErrorCode FailingCopy(Vec x, Vec y)
{
  PetscFunctionBeginUser;
  PetscCheck(!copies || --copies, PETSC_COMM_SELF, PETSC_ERR_USER, "This copy fails");
  PetscCall((*copy)(x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* VecDuplicateVecs() of PETSc 3.21 loses the copy function */
static PetscErrorCode DuplicateEach(Vec x, PetscInt count, Vec *vecs[])
{
  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(count, vecs));
  for (PetscInt i = 0; i < count; i++) PetscCall(VecDuplicate(x, *vecs + i));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static void VecSetFailingCopy(Vec x)
{
  if (x->ops->copy != FailingCopy) copy = x->ops->copy;
  x->ops->copy          = FailingCopy;
  x->ops->duplicatevecs = DuplicateEach;
}

static PetscErrorCode BlockSetFailingCopy(Mat B)
{
  Vec column;

  PetscFunctionBeginUser;
  PetscCall(MatDenseGetColumnVec(B, 0, &column));
  VecSetFailingCopy(column);
  PetscCall(MatDenseRestoreColumnVec(B, 0, &column));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The column vectors of the preconditioner's block also have this copy function */
static PetscErrorCode CopiedMatApply(PC pc, Mat X, Mat Y)
{
  PetscFunctionBeginUser;
  PetscCall(MatCopy(X, Y, SAME_NONZERO_PATTERN));
  PetscCall(BlockSetFailingCopy(Y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Use of a solver whose copies fail */
typedef struct {
  PetscBool block, preconditioner;
} CopyKind;

/* Creates a vector with the rows of A, of a parallel type also on one process, in the memory of the matrix */
static PetscErrorCode ParallelVecCreate(Mat A, Vec *x)
{
  PetscBool device;
  PetscInt  n;

  PetscFunctionBeginUser;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &device, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
  PetscCall(MatGetLocalSize(A, &n, NULL));
  PetscCall(VecCreate(PETSC_COMM_WORLD, x));
  PetscCall(VecSetSizes(*x, n, PETSC_DETERMINE));
  PetscCall(VecSetType(*x, device ? VECMPICUDA : VECMPI));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Creates a solver whose vectors have this copy function. Also on one process they have a parallel type, like its first solution.
   Columns have another type, so solutions are copied
*/
static PetscErrorCode CopySolverCreate(Mat A, const CopyKind *kind, KSP *ksp)
{
  Vec b, x;
  PC  pc;

  PetscFunctionBeginUser;
  PetscCall(SolverCreate(A, 2, kind->preconditioner ? PCSHELL : PCNONE, ksp));
  PetscCall(KSPGetPC(*ksp, &pc));
  if (kind->preconditioner) {
    PetscCall(PCShellSetApply(pc, FailingApply));
    PetscCall(PCShellSetMatApply(pc, CopiedMatApply));
  }
  PetscCall(KSPIDRSSetWidth(*ksp, 3));
  PetscCall(KSPIDRSSetBlock(*ksp, kind->block));
  PetscCall(MatCreateVecs(A, NULL, &b));
  PetscCall(ParallelVecCreate(A, &x));
  PetscCall(VecSetGeneral(b, 1.0));
  VecSetFailingCopy(x);
  PetscCall(KSPSolve(*ksp, b, x));
  PetscCall(DestroyAll(&b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Lets the n-th copy of a vector fail, if there is one. Afterwards everything can be used again, or destroyed */
static PetscErrorCode FailCopy(Mat A, Mat B, const CopyKind *kind, PetscInt n, PetscBool *happened)
{
  PetscErrorCode ierr;
  char           what[128];
  Mat            X;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(what, sizeof(what), "copy %" INT "%s%s", n, kind->block ? ", block" : "",
                          kind->preconditioner ? ", preconditioner" : ""));
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
  PetscCall(CopySolverCreate(A, kind, &ksp));
  PetscCall(Listen());
  copies    = n;
  ierr      = KSPMatSolve(ksp, B, X);
  *happened = copies ? PETSC_FALSE : PETSC_TRUE;
  copies    = 0;
  PetscCall(Heard());
  PetscCall(ComplainIf(*happened ? ierr != PETSC_ERR_USER : ierr != PETSC_SUCCESS, "%s: error %d", what, (int)ierr));
  PetscCall(ResetWith(ksp, A));
  PetscCall(SolveAllColumns(what, ksp, A, B, X, PETSC_TRUE));
  PetscCall(DestroyAll(&ksp, &X));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestCopies(Mat A)
{
  PetscMPIInt size;
  Mat         B;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(BlockCreate(A, COLUMNS, &B));
  PetscCall(BlockSet(A, BLOCK_RANDOM, B));
  for (PetscInt i = 0; i < 4; i++) {
    const CopyKind kind = {i & 1 ? PETSC_TRUE : PETSC_FALSE, i & 2 ? PETSC_TRUE : PETSC_FALSE};
    /* at least solutions are copied; columns of the same type as the vectors are not */
    const PetscInt least    = size == 1 || kind.preconditioner ? COLUMNS : 1;
    PetscBool      happened = PETSC_TRUE;
    PetscInt       n        = 0;

    while (happened) { /* all of the first copies, and some of the others */
      n += 1 + n / 8;
      PetscCall(FailCopy(A, B, &kind, n, &happened));
    }
    PetscCall(ComplainIf(n <= least, "block %d, preconditioner %d: only %" INT " copies", kind.block, kind.preconditioner, n - 1));
  }
  PetscCall(MatDestroy(&B));
  PetscCall(Verdict("copies that fail"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* An inner solver that fails three times in a row, from this solve on */
static PetscErrorCode FailingTest(KSP ksp, PetscInt it, PetscReal rnorm, KSPConvergedReason *reason, void *ctx)
{
  Failing *failing = (Failing *)ctx;

  PetscFunctionBeginUser;
  *reason = KSP_CONVERGED_ITERATING;
  if (it < 3) PetscFunctionReturn(PETSC_SUCCESS);
  failing->made++;
  *reason = failing->made >= failing->failat && failing->made < failing->failat + 3 ? KSP_DIVERGED_BREAKDOWN : KSP_CONVERGED_ITS;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* If a preconditioner fails for some right-hand sides, later right-hand sides still use it */
static PetscErrorCode TestInner(Mat A)
{
  const KSPConvergedReason *reasons;
  Mat                       B, X;
  KSP                       ksp, inner;
  PC                        pc;

  PetscFunctionBeginUser;
  PetscCall(BlocksCreate(A, COLUMNS, BLOCK_RANDOM, &B, &X));
  for (PetscInt width = 1; width <= 3; width++) {
    Failing failing = {.failat = 4};

    PetscCall(SolverCreate(A, 2, PCKSP, &ksp));
    PetscCall(KSPIDRSSetWidth(ksp, width));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(PCKSPGetKSP(pc, &inner));
    PetscCall(KSPSetType(inner, KSPBCGS));
    PetscCall(KSPSetConvergenceTest(inner, FailingTest, &failing, NULL));
    PetscCall(KSPGetPC(inner, &pc));
    PetscCall(PCSetType(pc, PCNONE));
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscCall(KSPIDRSGetColumnResults(ksp, NULL, &reasons, NULL, NULL));
    for (PetscInt j = 3; j < COLUMNS; j++)
      PetscCall(CheckColumn("after the preconditioner has failed for others", A, B, X, j, reasons[j]));
    PetscCall(ComplainIf(failing.made < failing.failat + 3, "the inner solver has not failed"));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&B, &X));
  PetscCall(Verdict("a preconditioner that fails for some"));
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
  const PetscInt counts[] = {3, 17, 2, 8};
  Mat            other, small, B, X;
  Vec            b, x;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, 8, 0.8, 0.4, &small));
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
    PetscCall(DestroyAll(&B, &X));
    PetscCall(BlocksCreate(small, counts[i], (BlockKind)i, &B, &X));
    PetscCall(KSPReset(ksp)); /* PETSc requires it for a matrix of another size */
    PetscCall(KSPSetOperators(ksp, small, small));
    PetscCall(SolveAllColumns("a matrix of another size", ksp, small, B, X, PETSC_TRUE));
    PetscCall(DestroyAll(&B, &X));
    PetscCall(ResetWith(ksp, other));
    PetscCall(KSPIDRSSetShadowSize(ksp, 2 + (PetscInt)i));
  }
  PetscCall(DestroyAll(&ksp, &b, &x, &other, &small));
  PetscCall(Verdict(block ? "changes between solves with blocks" : "changes between solves"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A full matrix whose diagonal entries are larger than the others of their rows */
static PetscScalar Dominant(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? (PetscScalar)3.0 : (PetscScalar)(PetscSinReal((PetscReal)(3 * i + 5 * j)) / n);
}

/* More columns than rows, also if processes have no rows */
static PetscErrorCode TestFewRows(void)
{
  const PetscInt rows[] = {1, 2, 5, 30}, counts[] = {3, 17, 40};

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(rows); i++) {
    Mat A;

    PetscCall(MatCreateEntries(Dominant, rows[i], PETSC_FALSE, &A));
    for (size_t ic = 0; ic < PETSC_STATIC_ARRAY_LENGTH(counts); ic++) {
      Mat B, X;

      PetscCall(BlockCreate(A, counts[ic], &B));
      for (PetscInt kind = 0; kind < BLOCKS; kind++) {
        const PetscBool block = (PetscBool)(kind % 2);
        char            what[128];
        KSP             ksp;

        PetscCall(BlockSet(A, (BlockKind)kind, B));
        PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
        for (PetscInt s = 1; s <= 4; s += 3) {
          PetscCall(SolverCreate(A, s, PCNONE, &ksp));
          PetscCall(KSPIDRSSetBlock(ksp, block));
          PetscCall(KSPMatSolve(ksp, B, X));
          PetscCall(PetscSNPrintf(what, sizeof(what), "%" INT " columns of %" INT " rows, %s, s = %" INT "%s", counts[ic], rows[i],
                                  BlockKinds[kind], s, block ? ", block" : ""));
          PetscCall(CheckBlock(what, ksp, A, B, X, PETSC_TRUE));
          PetscCall(KSPDestroy(&ksp));
        }
        PetscCall(MatDestroy(&X));
      }
      PetscCall(MatDestroy(&B));
    }
    PetscCall(MatDestroy(&A));
  }
  PetscCall(Verdict("more columns than rows"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  Mat A;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(ImplementationFromOptions());
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, 10, 0.8, 0.4, &A));
  PetscCall(TestSettings(A));
  PetscCall(TestBlocks(A));
  PetscCall(TestErrors(A));
  PetscCall(TestCopies(A));
  PetscCall(TestInner(A));
  PetscCall(TestOneFails(A));
  PetscCall(TestChanges(A, PETSC_FALSE));
  PetscCall(TestChanges(A, PETSC_TRUE));
  PetscCall(TestFewRows());
  PetscCall(MatDestroy(&A));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}
    args: -ksp_idrs_implementation {{vec host}}

TEST*/
