static char help[] = "Solves that an error interrupts in each call of the operator, the preconditioner, a monitor and the\n\
convergence test: the next solve, on several processes after KSPReset(), has the bits of a new solver.\n\n";

#include "systems.h"

/* Number of calls from the solver so far, and number of the call that fails */
static PetscInt calls, failing;

static PetscErrorCode Called(void)
{
  PetscFunctionBeginUser;
  PetscCheck(++calls != failing, PETSC_COMM_SELF, PETSC_ERR_USER, "Interrupted");
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Mult(Mat S, Vec x, Vec y)
{
  void *A;

  PetscFunctionBeginUser;
  PetscCall(Called());
  PetscCall(MatShellGetContext(S, &A));
  PetscCall(MatMult((Mat)A, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The error occurs before the result is complete */
static PetscErrorCode PCApplyScaled(PC pc, Vec x, Vec y)
{
  PetscFunctionBeginUser;
  PetscCall(VecCopy(x, y));
  PetscCall(Called());
  PetscCall(VecScale(y, 0.3));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Monitor(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  Vec x;

  PetscFunctionBeginUser;
  PetscCall(Called());
  PetscCall(KSPBuildSolution(ksp, NULL, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Test(KSP ksp, PetscInt its, PetscReal rnorm, KSPConvergedReason *reason, void *ctx)
{
  PetscFunctionBeginUser;
  PetscCall(Called());
  PetscCall(KSPConvergedDefault(ksp, its, rnorm, reason, ctx));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscScalar Upwind(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 2.2 : (j == i - 1 ? -1.8 : (j == i + 1 ? -0.2 : 0.0));
}

static PetscErrorCode TestedSystemCreate(Mat *A, Mat *S, Vec *b, Vec *x)
{
  const PetscInt n = 20;
  PetscOptions   options;
  PetscInt       begin, end;

  PetscFunctionBeginUser;
  PetscCall(OptionsPush("", &options)); /* a matrix on the host, whose products are reproducible to the bit */
  PetscCall(MatCreateEntries(Upwind, n, PETSC_FALSE, A));
  PetscCall(OptionsPop(&options));
  PetscCall(MatGetOwnershipRange(*A, &begin, &end));
  PetscCall(MatCreateVecs(*A, x, b));
  PetscCall(ShellCreate(*A, Mult, *A, S));
  for (PetscInt i = begin; i < end; i++) PetscCall(VecSetValue(*b, i, 1.0 + PetscSinReal((PetscReal)(i * i)), INSERT_VALUES));
  PetscCall(VecAssemble(*b));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestedSolverCreate(PCSide side, Mat S, KSP *ksp)
{
  void *ctx;
  PC    pc;

  PetscFunctionBeginUser;
  PetscCall(SolverCreateSide(S, 3, side, PCSHELL, ksp));
  PetscCall(KSPIDRSSetUpdateTolerance(*ksp, 0.3));
  PetscCall(KSPSetTolerances(*ksp, rtol, 0.0, PETSC_DEFAULT, 100));
  PetscCall(KSPSetResidualHistory(*ksp, NULL, MAX_HISTORY, PETSC_TRUE));
  /* on the left PETSc's convergence test would precondition b, and leak a vector after the error */
  PetscCall(KSPSetInitialGuessNonzero(*ksp, (PetscBool)(side == PC_RIGHT)));
  PetscCall(KSPMonitorSet(*ksp, Monitor, NULL, NULL));
  PetscCall(KSPConvergedDefaultCreate(&ctx));
  PetscCall(KSPSetConvergenceTest(*ksp, Test, ctx, KSPConvergedDefaultDestroy));
  PetscCall(KSPGetPC(*ksp, &pc));
  PetscCall(PCShellSetApply(pc, PCApplyScaled));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves while call number `which` fails, counted from 1; 0 for none */
static PetscErrorCode Solve(KSP ksp, PetscInt which, Vec b, Vec x, Outcome *outcome, PetscErrorCode *ierr)
{
  PetscReal norm;

  PetscFunctionBeginUser;
  /* PETSc scales a cached norm with the vector, which may round differently: the norm is cached in all solves */
  PetscCall(VecNorm(b, NORM_2, &norm));
  PetscCall(VecSet(x, 0.7));
  calls   = 0;
  failing = which;
  PetscCall(Listen());
  *ierr = KSPSolve(ksp, b, x);
  PetscCall(Heard());
  failing = 0;
  PetscCall(GetOutcome(ksp, outcome));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Interrupt(PCSide side, Mat S, PetscInt which, Vec b, Vec x, const Outcome *expected, Vec solution)
{
  PetscErrorCode ierr;
  PetscReal      difference;
  PetscMPIInt    size;
  char           what[256];
  Outcome        outcome;
  Vec            latest;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s, call %" INT, PCSides[side], which));
  PetscCall(TestedSolverCreate(side, S, &ksp));
  PetscCall(Solve(ksp, which, b, x, &outcome, &ierr));
  PetscCall(ComplainIf(!ierr, "%s: no error", what));
  PetscCall(KSPBuildSolution(ksp, NULL, &latest));
  PetscCall(VecNorm(latest, NORM_2, &difference));
  PetscCall(ComplainIf(!(difference <= PETSC_MAX_REAL), "%s: the solution so far is not a number", what));
  PetscCall(Unlock(b));
  PetscCall(Unlock(x));
  if (size > 1 && which % 2) { /* several processes must reset the solver */
    CheckRefused(KSPSolve(ksp, b, x), "KSPReset()", "");
    PetscCall(Unlock(b));
    PetscCall(Unlock(x));
  }
  if (size > 1 || which % 2) PetscCall(ResetWith(ksp, S));
  PetscCall(Solve(ksp, 0, b, x, &outcome, &ierr));
  if (ierr) PetscCall(Complain("%s: error \"%s\"", what, message));
  else {
    PetscCall(VecAXPY(x, -1.0, solution));
    PetscCall(VecNorm(x, NORM_INFINITY, &difference));
    PetscCall(ComplainIf(!(difference == 0.0) || memcmp(&outcome, expected, sizeof(outcome)),
                         "%s: the solution differs by %g, %s after %" INT ", %s after %" INT " expected", what, (double)difference,
                         KSPConvergedReasons[outcome.reason], outcome.its, KSPConvergedReasons[expected->reason], expected->its));
  }
  PetscCall(KSPDestroy(&ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestCalls(void)
{
  const PCSide sides[] = {PC_RIGHT, PC_LEFT};
  Mat          A, S;
  Vec          b, x, solution;

  PetscFunctionBeginUser;
  PetscCall(TestedSystemCreate(&A, &S, &b, &x));
  PetscCall(VecDuplicate(x, &solution));
  for (PetscInt i = 0; i < 2; i++) {
    PetscErrorCode ierr;
    PetscInt       total;
    Outcome        expected;
    KSP            ksp;

    PetscCall(TestedSolverCreate(sides[i], S, &ksp));
    PetscCall(Solve(ksp, 0, b, solution, &expected, &ierr));
    PetscCall(KSPDestroy(&ksp));
    total = calls;
    PetscCall(ComplainIf(ierr, "%s: error \"%s\"", PCSides[sides[i]], message));
    for (PetscInt which = 1; which <= total; which += 1 + which / 8)
      PetscCall(Interrupt(sides[i], S, which, b, x, &expected, solution));
  }
  PetscCall(DestroyAll(&solution, &b, &x, &S, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Fails on the last process only, after all sums of this solve */
static PetscErrorCode LastMonitor(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  PetscMPIInt rank, size;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &size));
  PetscCheck(rank != size - 1 || its < *(PetscInt *)ctx, PETSC_COMM_SELF, PETSC_ERR_USER, "Interrupted");
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   An error on some processes, after which all processes solve again; another solver, which is not affected, solves in between.
   PETSc's log has a barrier before each event that is not inside itself. Events that the error interrupts stay open: hence
   -log_sync 0.
*/
static PetscErrorCode TestSome(void)
{
  Outcome        expected[2], outcome;
  PetscErrorCode ierr;
  PetscMPIInt    failures, size;
  PetscInt       fifth = 5, never = PETSC_MAX_INT;
  Mat            A, S;
  Vec            b, x;
  KSP            ksp[2];

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  if (ComparesProcesses(size)) {
    PetscCall(Skip(COMPARES_PROCESSES));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(TestedSystemCreate(&A, &S, &b, &x));
  for (PetscInt i = 0; i < 2; i++) {
    PetscCall(TestedSolverCreate(PC_RIGHT, S, &ksp[i]));
    /* no sum after the last monitor: a norm that meets the tolerance would be verified, and x of a solve without success checked */
    PetscCall(KSPSetConvergenceTest(ksp[i], KSPConvergedSkip, NULL, NULL));
    PetscCall(KSPSetTolerances(ksp[i], PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT, fifth));
    PetscCall(Solve(ksp[i], 0, b, x, &expected[i], &ierr));
    PetscCall(ComplainIf(ierr || expected[i].its != fifth, "error \"%s\" after %" INT, message, expected[i].its));
  }
  PetscCall(KSPMonitorSet(ksp[0], LastMonitor, &fifth, NULL));
  PetscCall(Solve(ksp[0], 0, b, x, &outcome, &ierr));
  failures = ierr ? 1 : 0;
  IDRSCallAllreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, PETSC_COMM_WORLD);
  PetscCall(ComplainIf(failures != 1, "%d processes with an error", (int)failures));
  PetscCall(Unlock(b));
  PetscCall(Unlock(x));
  PetscCall(ResetWith(ksp[0], S));
  for (PetscInt i = 1; i >= 0; i--) {
    PetscCall(KSPMonitorCancel(ksp[i]));
    PetscCall(KSPMonitorSet(ksp[i], LastMonitor, &never, NULL));
    PetscCall(Solve(ksp[i], 0, b, x, &outcome, &ierr));
    if (ierr) PetscCall(Complain("%s: error \"%s\"", i ? "another solver" : "again", message));
    else
      PetscCall(ComplainIf(memcmp(&outcome, &expected[i], sizeof(outcome)), "%s: %s after %" INT " with norm %g, %g expected",
                           i ? "another solver" : "again", KSPConvergedReasons[outcome.reason], outcome.its, (double)outcome.rnorm,
                           (double)expected[i].rnorm));
    PetscCall(KSPDestroy(&ksp[i]));
  }
  PetscCall(DestroyAll(&b, &x, &S, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The function of KSPIDRSMonitorInterrupt() is called in each iteration, and its error ends the solve */
static PetscErrorCode TestMonitorInterrupt(void)
{
  PetscErrorCode (*check)(void) = Called;
  PetscErrorCode ierr;
  PetscInt       its;
  Mat            A, S;
  Vec            b, x;
  Outcome        outcome, expected;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(TestedSystemCreate(&A, &S, &b, &x));
  PetscCall(SolverCreateSide(A, 3, PC_RIGHT, PCNONE, &ksp));
  PetscCall(KSPMonitorSet(ksp, KSPIDRSMonitorInterrupt, &check, NULL));
  PetscCall(Solve(ksp, 0, b, x, &expected, &ierr));
  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(ComplainIf(ierr || its < 6 || calls != its + 1, "%" INT " calls in %" INT " iterations", calls, its));
  PetscCall(Solve(ksp, 5, b, x, &outcome, &ierr));
  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(ComplainIf(!ierr || calls != 5, "%" INT " calls", calls));
  PetscCall(Unlock(b));
  PetscCall(Unlock(x));
  PetscCall(ResetWith(ksp, A));
  PetscCall(Solve(ksp, 0, b, x, &outcome, &ierr));
  PetscCall(ComplainIf(ierr || memcmp(&outcome, &expected, sizeof(outcome)), "the solve after the error differs"));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(DestroyAll(&b, &x, &S, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestCalls, "an error in a call"}, {TestSome, "an error on one process"},
          {TestMonitorInterrupt, "KSPIDRSMonitorInterrupt()"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 2}}
    args: -log_sync 0

TEST*/
