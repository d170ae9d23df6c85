static char help[] = "NaN, Inf and failures of the operator, the preconditioner and vectors of KSPIDRS: every solve ends with the\n\
corresponding reason.\n\n";

#include "columns.h"

/*
   Operators and preconditioners that fail in one application, counted from 0, in the part of the last process: all processes must
   detect it
*/
typedef enum {
  FAULT_NONE,
  FAULT_NAN,   /* one entry of the result is a NaN */
  FAULT_INF,   /* all entries of a process are infinite */
  FAULT_FAILED /* the preconditioner reports a failure, with an infinite result */
} Fault;
static const char *const faults[] = {"no fault", "NaN", "Inf", "failed reason"};

typedef struct {
  Mat       A; /* applied before the fault; NULL for the identity */
  Fault     fault;
  PetscInt  when, count;
  PetscBool happened;
} Faulty;

static PetscErrorCode FaultyApply(Faulty *faulty, PC pc, Vec x, Vec y)
{
  PetscMPIInt  rank, size;
  PetscReal    zero = 0.0;
  PetscInt     n;
  PetscScalar *array;

  PetscFunctionBeginUser;
  if (faulty->A) PetscCall(MatMult(faulty->A, x, y));
  else PetscCall(VecCopy(x, y));
  if (faulty->fault == FAULT_NONE || faulty->count++ != faulty->when) PetscFunctionReturn(PETSC_SUCCESS);
  faulty->happened = PETSC_TRUE;
  PetscCallMPI(MPI_Comm_rank(PetscObjectComm((PetscObject)x), &rank));
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)x), &size));
  if (rank < size - 1) PetscFunctionReturn(PETSC_SUCCESS);
  if (faulty->fault == FAULT_FAILED) PetscCall(PCSetFailedReason(pc, PC_FACTOR_NUMERIC_ZEROPIVOT));
  PetscCall(VecGetLocalSize(y, &n));
  PetscCall(VecGetArray(y, &array));
  for (PetscInt i = 0; i < n; i++) {
    if (faulty->fault != FAULT_NAN) array[i] = 1.0 / zero;
    else if (i == n / 2) array[i] = zero / zero;
  }
  PetscCall(VecRestoreArray(y, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode FaultyMult(Mat A, Vec x, Vec y)
{
  void *ctx;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(A, &ctx));
  PetscCall(FaultyApply((Faulty *)ctx, NULL, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode FaultyPCApply(PC pc, Vec x, Vec y)
{
  void *ctx;

  PetscFunctionBeginUser;
  PetscCall(PCShellGetContext(pc, &ctx));
  PetscCall(FaultyApply((Faulty *)ctx, pc, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A fault, its application, and the side */
typedef struct {
  Fault     kind;
  PetscBool preconditioner;
  PetscInt  when;
  PCSide    side;
} Case;

/* Solves with a fault, and again without it, with the same solver */
static PetscErrorCode SolveWithFault(const Case *c)
{
  const KSPConvergedReason expected = c->kind == FAULT_FAILED ? KSP_DIVERGED_PC_FAILED : KSP_DIVERGED_NANORINF;
  Faulty                   operator= {NULL}, preconditioner = {NULL}, *faulty = c->preconditioner ? &preconditioner : &operator;
  KSPConvergedReason       reason;
  char                     what[128];
  Mat                      A, S;
  Vec                      b, x;
  PC                       pc;
  KSP                      ksp;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Tridiagonal, 30, RHS_GENERAL, &A, &b, &x));
  PetscCall(VecSetGeneral(x, 2.0));
  operator.A    = A;
  faulty->fault = c->kind;
  faulty->when  = c->when;
  PetscCall(ShellCreate(A, FaultyMult, &operator, & S));
  PetscCall(SolverCreateLimited(S, 4, c->side, KSP_NORM_DEFAULT, 20, PCSHELL, &ksp));
  /* on the left PETSc's convergence test would apply the preconditioner to b for a nonzero guess, and cause the fault */
  PetscCall(KSPSetInitialGuessNonzero(ksp, c->side == PC_RIGHT ? PETSC_TRUE : PETSC_FALSE));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCShellSetContext(pc, &preconditioner));
  PetscCall(PCShellSetApply(pc, FaultyPCApply));
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s of the %s at application %" INT ", %s", faults[c->kind],
                          c->preconditioner ? "preconditioner" : "operator", c->when, PCSides[c->side]));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(ComplainIf(faulty->happened && reason != expected, "%s: %s instead of %s", what, KSPConvergedReasons[reason],
                       KSPConvergedReasons[expected]));
  PetscCall(ComplainIf(!faulty->happened && (reason == expected || !reason), "%s: did not happen, but %s", what,
                       KSPConvergedReasons[reason]));
  faulty->fault = FAULT_NONE;
  PetscCall(PCSetFailedReason(pc, PC_NOERROR));
  PetscCall(KSPSetTolerances(ksp, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT, 400));
  PetscCall(PetscStrlcat(what, ", again", sizeof(what)));
  PetscCall(SolveConverged(what, ksp, b));
  PetscCall(DestroyAll(&ksp, &S, &A, &b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   NaN, Inf or a failed preconditioner in one application of the operator or preconditioner: in the first one, in the
   start and in a cycle. The solve ends with the corresponding reason, and the solver can be used again
*/
static PetscErrorCode TestFaults(void)
{
  const PetscInt when[] = {0, 3, 11};

  PetscFunctionBeginUser;
  for (Fault kind = FAULT_NAN; kind <= FAULT_FAILED; kind = (Fault)(kind + 1)) {
    for (PetscInt where = kind == FAULT_FAILED ? 1 : 0; where < 2; where++) {
      char subject[64];

      for (size_t i = 0; i < 2 * PETSC_STATIC_ARRAY_LENGTH(when); i++) {
        const Case c = {kind, (PetscBool)where, when[i / 2], i % 2 ? PC_LEFT : PC_RIGHT};

        PetscCall(SolveWithFault(&c));
      }
      PetscCall(PetscSNPrintf(subject, sizeof(subject), "%s of the %s", faults[kind], where ? "preconditioner" : "operator"));
      PetscCall(Verdict(subject));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A NaN in one entry of b and Inf in one of x0; with KSPSetErrorIfNotConverged() this is an error, after which nothing leaks. PETSc
   with debugging detects the entry before the solver, on one process only, for which the others would wait; the test is omitted.
*/
static PetscErrorCode TestNotANumber(void)
{
  PetscReal   zero = 0.0;
  PetscMPIInt size;

  PetscFunctionBeginUser;
  EndAfter(250);
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  for (PetscInt where = 0; where < 2; where++) {
    for (PetscInt i = 0; i < (ComparesProcesses(size) ? 2 : 4); i++) {
      const PetscBool    error = (PetscBool)(i > 1);
      KSPConvergedReason reason;
      PetscErrorCode     ierr;
      Mat                A;
      Vec                b, x;
      KSP                ksp;

      PetscCall(SystemCreateEntries(Tridiagonal, 12, RHS_GENERAL, &A, &b, &x));
      PetscCall(VecSetGeneral(x, 2.0));
      PetscCall(VecSetValue(where ? x : b, 5, where ? 1.0 / zero : zero / zero, INSERT_VALUES));
      PetscCall(VecAssemble(where ? x : b));
      PetscCall(SolverCreateLimited(A, 4, i % 2 ? PC_LEFT : PC_RIGHT, KSP_NORM_DEFAULT, 20, PCJACOBI, &ksp));
      PetscCall(KSPSetInitialGuessNonzero(ksp, where ? PETSC_TRUE : PETSC_FALSE));
      PetscCall(KSPSetErrorIfNotConverged(ksp, error));
      Try(ierr, KSPSolve(ksp, b, x));
      PetscCall(KSPGetConvergedReason(ksp, &reason));
      PetscCall(ComplainIf(error ? !ierr : ierr || reason != KSP_DIVERGED_NANORINF, "%s, case %" INT ": %s, error code %d",
                           where ? "Inf in x0" : "NaN in b", i, KSPConvergedReasons[reason], (int)ierr));
      PetscCall(DestroyAll(&ksp, &A, &b, &x));
    }
    PetscCall(Verdict(where ? "Inf in x0" : "NaN in b"));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that all processes report a failed preconditioner */
static PetscErrorCode CheckFailed(const char what[], KSPConvergedReason reason)
{
  const PetscMPIInt mine = (PetscMPIInt)reason;
  PetscMPIInt       worst, best;

  PetscFunctionBeginUser;
  IDRSCallAllreduce(&mine, &worst, 1, MPI_INT, MPI_MIN, PETSC_COMM_WORLD);
  IDRSCallAllreduce(&mine, &best, 1, MPI_INT, MPI_MAX, PETSC_COMM_WORLD);
  PetscCall(ComplainIf(worst != best || reason != KSP_DIVERGED_PC_FAILED, "%s: reasons %d to %d", what, worst, best));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks the same for each of several right-hand sides */
static PetscErrorCode TestFailedColumns(const char what[], KSP ksp, Mat A)
{
  const PetscInt columns = 3;
  Mat            B, X;

  PetscFunctionBeginUser;
  PetscCall(BlocksCreate(A, columns, BLOCK_RANDOM, &B, &X));
  for (PetscInt block = 0; block < 2; block++) {
    const KSPConvergedReason *reasons;

    PetscCall(KSPIDRSSetBlock(ksp, (PetscBool)block));
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscCall(KSPIDRSGetColumnResults(ksp, NULL, &reasons, NULL, NULL));
    for (PetscInt j = 0; j < columns; j++) PetscCall(CheckFailed(what, reasons[j]));
  }
  PetscCall(DestroyAll(&B, &X));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The first process has a row of zeros: no preconditioner that solves with its block succeeds */
static PetscScalar DeadRow(PetscInt i, PetscInt j, PetscInt n)
{
  return i == 2 ? 0.0 : Tridiagonal(i, j, n);
}

/*
   A preconditioner that has failed on the first process ends the solver around it on all processes, also if there is another
   preconditioner or solver between the two
*/
static PetscErrorCode TestFailedBlocks(void)
{
  const char *const solvers[] = {KSPIDRS, KSPGMRES, KSPPREONLY};
  const char *const nests[]   = {"-pc_type bjacobi -sub_pc_type lu",
                                 "-pc_type bjacobi -sub_pc_type lu -ksp_pc_side left",
                                 "-pc_type bjidrs",
                                 "-pc_type bjidrs -ksp_norm_type none -ksp_max_it 3",
                                 "-pc_type ksp -ksp_ksp_type idrs -ksp_pc_type bjidrs",
                                 "-pc_type mg -mg_levels_ksp_type richardson -mg_levels_ksp_max_it 2 -mg_levels_ksp_norm_type none "
                                   "-mg_levels_pc_type bjidrs"};

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(nests) * PETSC_STATIC_ARRAY_LENGTH(solvers); i++) {
    const char *const        nest   = nests[i / PETSC_STATIC_ARRAY_LENGTH(solvers)],
                      *const solver = solvers[i % PETSC_STATIC_ARRAY_LENGTH(solvers)];
    PetscOptions             options;
    KSPConvergedReason       reason;
    char                     what[256];
    Mat                      A;
    Vec                      b, x;
    KSP                      ksp;

    if (strstr(nest, "bjacobi") && strcmp(solver, KSPIDRS)) continue; /* with PETSc's preonly processes disagree on the reason */
    PetscCall(SystemCreateEntries(DeadRow, 24, RHS_GENERAL, &A, &b, &x));
    PetscCall(OptionsPush(nest, &options));
    PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
    PetscCall(KSPSetOperators(ksp, A, A));
    PetscCall(KSPSetType(ksp, solver));
    PetscCall(KSPSetFromOptions(ksp));
    PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s", solver, nest));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(KSPGetConvergedReason(ksp, &reason));
    PetscCall(CheckFailed(what, reason));
    if (i == 0) PetscCall(TestFailedColumns(what, ksp, A));
    PetscCall(KSPDestroy(&ksp));
    PetscCall(OptionsPop(&options));
    PetscCall(DestroyAll(&A, &b, &x));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestNotANumber, NULL}, {TestFaults, NULL}, {TestFailedBlocks, "a preconditioner that fails on one process"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
