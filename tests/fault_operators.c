static char help[] = "NaN, Inf and errors of the operator, the preconditioner, monitors, convergence tests and vectors of\n\
KSPIDRS: every solve ends with the corresponding reason.\n\n";

#include "columns.h"

/*
   Operators and preconditioners that fail in one application, counted from 0, in the part of the last process: all processes must
   detect it
*/
typedef enum {
  FAULT_NONE,
  FAULT_NAN,    /* one entry of the result is a NaN */
  FAULT_INF,    /* all entries of a process are infinite */
  FAULT_FAILED, /* the preconditioner reports a failure, with an infinite result */
  FAULT_ERROR   /* a PETSc error */
} Fault;
static const char *const faults[] = {"no fault", "NaN", "Inf", "failed reason", "error"};

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
  PetscCheck(faulty->fault != FAULT_ERROR, PETSC_COMM_SELF, PETSC_ERR_USER, "Fault of the operator or preconditioner");
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

/* One diagonal entry is so large that the start ends before step s */
static PetscScalar LargeEntry(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j && i == n / 2 ? 10.0 / PETSC_SQRT_MACHINE_EPSILON : Tridiagonal(i, j, n);
}

/* A fault, its application, the matrix and the solver */
typedef struct {
  Entry      *entry;
  Fault       kind;
  PetscBool   preconditioner;
  PetscInt    when, s;
  PCSide      side;
  KSPNormType norm;
} Case;

/* Checks the reason after a solve in which the fault may have occurred */
static PetscErrorCode CheckFault(const char what[], Fault kind, const Faulty *faulty, KSP ksp, PetscErrorCode ierr)
{
  const KSPConvergedReason expected = kind == FAULT_FAILED ? KSP_DIVERGED_PC_FAILED : KSP_DIVERGED_NANORINF;
  KSPConvergedReason       reason;

  PetscFunctionBeginUser;
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  if (kind == FAULT_ERROR) {
    PetscCall(ComplainIf((ierr != PETSC_SUCCESS) != faulty->happened, "%s: error code %d", what, (int)ierr));
  } else if (ierr) {
    PetscCall(Complain("%s: error \"%s\"", what, message));
  } else if (faulty->happened) {
    PetscCall(
      ComplainIf(reason != expected, "%s: %s instead of %s", what, KSPConvergedReasons[reason], KSPConvergedReasons[expected]));
  } else
    PetscCall(ComplainIf(reason == KSP_DIVERGED_NANORINF || reason == KSP_DIVERGED_PC_FAILED || !reason,
                         "%s: did not happen, but %s", what, KSPConvergedReasons[reason]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves with a fault, and in every second case again without it, with the same solver */
static PetscErrorCode SolveWithFault(const Case *c)
{
  Faulty         operator= {NULL}, preconditioner = {NULL}, *faulty = c->preconditioner ? &preconditioner : &operator;
  PetscErrorCode ierr;
  char           what[128];
  Mat            A, S;
  Vec            b, x;
  PC             pc;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(c->entry, 30, RHS_GENERAL, &A, &b, &x));
  PetscCall(VecSetGeneral(x, 2.0));
  operator.A    = A;
  faulty->fault = c->kind;
  faulty->when  = c->when;
  PetscCall(ShellCreate(A, FaultyMult, &operator, & S));
  PetscCall(SolverCreateLimited(S, c->s, c->side, c->norm, 20, PCSHELL, &ksp));
  /* a GPU computes products ahead of the recurrence, which are not used after a breakdown */
  if (c->entry == LargeEntry && implementation == KSP_IDRS_AUTO) PetscCall(KSPIDRSSetImplementation(ksp, KSP_IDRS_VEC));
  /* on the left PETSc's convergence test would apply the preconditioner to b for a nonzero guess, and cause the fault */
  PetscCall(KSPSetInitialGuessNonzero(ksp, c->side == PC_RIGHT ? PETSC_TRUE : PETSC_FALSE));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCShellSetContext(pc, &preconditioner));
  PetscCall(PCShellSetApply(pc, FaultyPCApply));
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s of the %s at application %" INT ", s = %" INT ", %s, norm %s%s", faults[c->kind],
                          c->preconditioner ? "preconditioner" : "operator", c->when, c->s, PCSides[c->side], KSPNormTypes[c->norm],
                          c->entry == LargeEntry ? ", large entry" : ""));
  Try(ierr, KSPSolve(ksp, b, x));
  PetscCall(CheckFault(what, c->kind, faulty, ksp, ierr));
  if (c->when % 2) {
    /* after an error PETSc keeps the vectors of the failed call locked until they are replaced */
    faulty->fault = FAULT_NONE;
    if (c->kind == FAULT_ERROR) PetscCall(ResetWith(ksp, S));
    PetscCall(PCSetFailedReason(pc, PC_NOERROR));
    PetscCall(KSPSetNormType(ksp, KSP_NORM_DEFAULT));
    PetscCall(KSPSetTolerances(ksp, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT, 400));
    PetscCall(PetscStrlcat(what, ", again", sizeof(what)));
    PetscCall(SolveConverged(what, ksp, b));
  }
  PetscCall(DestroyAll(&ksp, &S, &A, &b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   NaN, Inf, a failed preconditioner or a PETSc error in one application of the operator or preconditioner. The solve ends with the
   corresponding reason; after a PETSc error the solver can be used again, or destroyed without a leak.
*/
static PetscErrorCode TestFaults(void)
{
  PetscFunctionBeginUser;
  for (Fault kind = FAULT_NAN; kind <= FAULT_ERROR; kind = (Fault)(kind + 1)) {
    for (PetscInt where = kind == FAULT_FAILED ? 1 : 0; where < 2; where++) {
      char subject[64];

      for (PetscInt i = 0; i < 4 * 2 * 2 * 2 * 14; i++) {
        const Case c = {i / 224 ? LargeEntry : Tridiagonal,
                        kind,
                        (PetscBool)where,
                        i % 14,
                        1 << i / 14 % 4,
                        i / 56 % 2 ? PC_LEFT : PC_RIGHT,
                        i / 112 % 2 ? KSP_NORM_NONE : KSP_NORM_DEFAULT};

        if (c.entry != LargeEntry || c.s >= 4) PetscCall(SolveWithFault(&c)); /* with fewer columns the start ends as usual */
      }
      PetscCall(PetscSNPrintf(subject, sizeof(subject), "%s of the %s", faults[kind], where ? "preconditioner" : "operator"));
      PetscCall(Verdict(subject));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   NaN and Inf in one entry of b and of x0; with KSPSetErrorIfNotConverged() this is an error, after which nothing leaks. PETSc with
   debugging detects the entry before the solver, on one process only, for which the others would wait; the test is omitted.
*/
static PetscErrorCode TestNotANumber(void)
{
  const PetscInt sizes[] = {1, 4};
  const PCSide   sides[] = {PC_RIGHT, PC_LEFT};
  PetscReal      zero    = 0.0;
  PetscMPIInt    size;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  for (PetscInt where = 0; where < 2; where++) {
    for (PetscInt infinite = 0; infinite < 2; infinite++) {
      for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
        for (size_t iside = 0; iside < 2; iside++) {
          for (PetscInt mode = 0; mode < (ComparesProcesses(size) ? 2 : 3); mode++) {
            KSPConvergedReason reason;
            PetscErrorCode     ierr;
            Mat                A;
            Vec                b, x;
            KSP                ksp;

            PetscCall(SystemCreateEntries(Tridiagonal, 12, RHS_GENERAL, &A, &b, &x));
            PetscCall(VecSetGeneral(x, 2.0));
            PetscCall(VecSetValue(where ? x : b, 5, infinite ? 1.0 / zero : zero / zero, INSERT_VALUES));
            PetscCall(VecAssemble(where ? x : b));
            PetscCall(
              SolverCreateLimited(A, sizes[is], sides[iside], mode == 1 ? KSP_NORM_NONE : KSP_NORM_DEFAULT, 20, PCJACOBI, &ksp));
            PetscCall(KSPSetInitialGuessNonzero(ksp, where ? PETSC_TRUE : PETSC_FALSE));
            if (mode == 2) PetscCall(KSPSetErrorIfNotConverged(ksp, PETSC_TRUE));
            Try(ierr, KSPSolve(ksp, b, x));
            PetscCall(KSPGetConvergedReason(ksp, &reason));
            PetscCall(ComplainIf(mode == 2 && !ierr, "%s in %s, s = %" INT ", %s: no error", infinite ? "Inf" : "NaN",
                                 where ? "x0" : "b", sizes[is], PCSides[sides[iside]]));
            PetscCall(ComplainIf(mode < 2 && (ierr || reason != KSP_DIVERGED_NANORINF),
                                 "%s in %s, s = %" INT ", %s: %s, error code %d", infinite ? "Inf" : "NaN", where ? "x0" : "b",
                                 sizes[is], PCSides[sides[iside]], KSPConvergedReasons[reason], (int)ierr));
            PetscCall(DestroyAll(&ksp, &A, &b, &x));
          }
        }
      }
    }
    PetscCall(Verdict(where ? "NaN and Inf in x0" : "NaN and Inf in b"));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Errors of monitors and convergence tests, at any iteration */
static PetscErrorCode FailingMonitor(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  PetscFunctionBeginUser;
  PetscCheck(its != *(PetscInt *)ctx, PETSC_COMM_SELF, PETSC_ERR_USER, "Fault of the monitor");
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode FailingTest(KSP ksp, PetscInt its, PetscReal rnorm, KSPConvergedReason *reason, void *ctx)
{
  PetscFunctionBeginUser;
  *reason = KSP_CONVERGED_ITERATING;
  PetscCheck(its != *(PetscInt *)ctx, PETSC_COMM_SELF, PETSC_ERR_USER, "Fault of the convergence test");
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestCallbacks(void)
{
  PetscFunctionBeginUser;
  for (PetscInt test = 0; test < 2; test++) {
    for (PetscInt when = 0; when < 9; when++) {
      PetscErrorCode ierr;
      PetscInt       its;
      Mat            A;
      Vec            b, x;
      KSP            ksp;

      PetscCall(SystemCreateEntries(Tridiagonal, 30, RHS_GENERAL, &A, &b, &x));
      PetscCall(SolverCreateLimited(A, 3, PC_RIGHT, KSP_NORM_DEFAULT, 400, PCJACOBI, &ksp));
      if (test) PetscCall(KSPSetConvergenceTest(ksp, FailingTest, &when, NULL));
      else PetscCall(KSPMonitorSet(ksp, FailingMonitor, &when, NULL));
      Try(ierr, KSPSolve(ksp, b, x));
      PetscCall(KSPGetIterationNumber(ksp, &its));
      PetscCall(ComplainIf(!ierr || its != when, "error of a %s at iteration %" INT ": error code %d at %" INT,
                           test ? "convergence test" : "monitor", when, (int)ierr, its));
      PetscCall(DestroyAll(&ksp, &A, &b, &x));
    }
  }
  PetscCall(Verdict("errors of monitors and convergence tests"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Calls of PCPreSolve() without their PCPostSolve() */
static PetscInt unfinished = 0;

static PetscErrorCode CountPreSolve(PC pc, KSP ksp, Vec b, Vec x)
{
  PetscFunctionBeginUser;
  unfinished++;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode CountPostSolve(PC pc, KSP ksp, Vec b, Vec x)
{
  PetscFunctionBeginUser;
  unfinished--;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode NestingMonitor(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  Vec b;

  PetscFunctionBeginUser;
  PetscCall(KSPGetRhs(ksp, &b));
  if (its == 2) PetscCall(KSPSolve(ksp, b, (Vec)ctx));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A solve ends by PCPostSolve() also if it fails: before its first iteration, in an iteration, in a solve inside it, or with columns */
static PetscErrorCode TestPostSolve(void)
{
  const char *const kinds[] = {"before", "in an iteration", "in a solve inside", "with columns"};
  PetscInt          when    = 3;
  Faulty            none    = {NULL};

  PetscFunctionBeginUser;
  for (PetscInt kind = 0; kind < 4; kind++) {
    PetscErrorCode ierr;
    Mat            A, B, X;
    Vec            b, x, y;
    KSP            ksp;
    PC             pc;

    PetscCall(SystemCreateEntries(Tridiagonal, 30, RHS_GENERAL, &A, &b, &x));
    PetscCall(VecDuplicate(x, &y));
    PetscCall(BlocksCreate(A, 3, BLOCK_RANDOM, &B, &X));
    PetscCall(SolverCreateLimited(A, 3, PC_RIGHT, KSP_NORM_DEFAULT, 400, PCSHELL, &ksp));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(PCShellSetContext(pc, &none));
    PetscCall(PCShellSetApply(pc, FaultyPCApply));
    PetscCall(PCShellSetPreSolve(pc, CountPreSolve));
    PetscCall(PCShellSetPostSolve(pc, CountPostSolve));
    if (kind == 0) PetscCall(KSPIDRSSetRun(ksp, KSP_IDRS_RUN_WHOLE)); /* no kernel applies this preconditioner */
    else if (kind == 2) PetscCall(KSPMonitorSet(ksp, NestingMonitor, y, NULL));
    else PetscCall(KSPMonitorSet(ksp, FailingMonitor, &when, NULL));
    if (kind == 3) Try(ierr, KSPMatSolve(ksp, B, X));
    else Try(ierr, KSPSolve(ksp, b, x));
    PetscCall(ComplainIf(!ierr || unfinished,
                         "an error %s: error code %d, and %" INT " calls of PCPreSolve() without PCPostSolve()", kinds[kind],
                         (int)ierr, unfinished));
    unfinished = 0;
    PetscCall(KSPIDRSSetRun(ksp, KSP_IDRS_RUN_AUTO));
    PetscCall(KSPMonitorCancel(ksp));
    PetscCall(ResetWith(ksp, A));
    PetscCall(SolveConverged(kinds[kind], ksp, b));
    PetscCall(
      ComplainIf(unfinished, "after an error %s: %" INT " calls of PCPreSolve() without PCPostSolve()", kinds[kind], unfinished));
    PetscCall(DestroyAll(&ksp, &A, &B, &X, &b, &x, &y));
  }
  PetscCall(Verdict("PCPostSolve() after errors"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A preconditioner that fails on one process only, in its set-up or in an application: all processes must agree on the reason. The
   diagonal blocks of this matrix are regular except the last one, which has a zero row. On one process this matrix is regular, so a
   singular one is factored.
*/
static PetscScalar BlockSingular(PetscInt i, PetscInt j, PetscInt n)
{
  if (i == n - 2) return j == 0 ? 1.0 : 0.0;
  return Tridiagonal(i, j, n);
}

/* The last two rows are equal: a pivot vanishes */
static PetscScalar EndSingular(PetscInt i, PetscInt j, PetscInt n)
{
  if (i >= n - 2) return j >= n - 2 ? 1.0 : 0.0;
  return Tridiagonal(i, j, n);
}

static PetscErrorCode FailingSetUp(PC pc)
{
  PetscMPIInt rank, size;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(PetscObjectComm((PetscObject)pc), &rank));
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)pc), &size));
  if (rank == size - 1) PetscCall(PCSetFailedReason(pc, PC_FACTOR_OTHER));
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

static PetscErrorCode TestBlocks(void)
{
  const PCSide      sides[] = {PC_RIGHT, PC_LEFT};
  const PetscInt    sizes[] = {1, 4};
  const KSPNormType norms[] = {KSP_NORM_DEFAULT, KSP_NORM_NONE};
  PetscMPIInt       size;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  if (size > 1) PetscCall(PetscOptionsSetValue(NULL, "-sub_pc_type", "lu"));
  for (size_t is = 0; is < 2; is++) {
    for (size_t iside = 0; iside < 2; iside++) {
      for (size_t inorm = 0; inorm < 2; inorm++) {
        for (PetscInt shell = 0; shell < 2; shell++) {
          KSPConvergedReason reason;
          char               what[128];
          Faulty             preconditioner = {NULL, FAULT_INF, 0, 0, PETSC_FALSE};
          Mat                A;
          Vec                b, x;
          PC                 pc;
          KSP                ksp;

          PetscCall(SystemCreateEntries(shell || size > 1 ? BlockSingular : EndSingular, 12, RHS_GENERAL, &A, &b, &x));
          PetscCall(SolverCreateLimited(A, sizes[is], sides[iside], norms[inorm], 50,
                                        shell ? PCSHELL : (size > 1 ? PCBJACOBI : PCLU), &ksp));
          PetscCall(KSPGetPC(ksp, &pc));
          PetscCall(PCSetFromOptions(pc));
          if (shell) {
            PetscCall(PCShellSetContext(pc, &preconditioner));
            PetscCall(PCShellSetSetUp(pc, FailingSetUp));
            PetscCall(PCShellSetApply(pc, FaultyPCApply));
          }
          PetscCall(KSPSolve(ksp, b, x));
          PetscCall(KSPGetConvergedReason(ksp, &reason));
          PetscCall(PetscSNPrintf(what, sizeof(what), "%s, s = %" INT ", %s, norm %s", shell ? "shell" : "blocks", sizes[is],
                                  PCSides[sides[iside]], KSPNormTypes[norms[inorm]]));
          PetscCall(CheckFailed(what, reason));
          PetscCall(TestFailedColumns(what, ksp, A));
          PetscCall(DestroyAll(&ksp, &A, &b, &x));
        }
      }
    }
  }
  PetscCall(Verdict("a preconditioner that fails on one process"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The first process has a row of zeros: no preconditioner that solves with its block succeeds */
static PetscScalar DeadRow(PetscInt i, PetscInt j, PetscInt n)
{
  return i == 2 ? 0.0 : Tridiagonal(i, j, n);
}

/*
   A block of PCBJIDRS that has failed on the first process ends every solver around it on all processes, also if there are other
   preconditioners and solvers between the two, some of which do not look at norms
*/
static PetscErrorCode TestFailedBlocks(void)
{
  const char *const solvers[] = {KSPIDRS, KSPFGMRES, KSPGMRES, KSPBCGS, KSPRICHARDSON, KSPPREONLY};
  const char *const nests[]   = {
    "-pc_type bjidrs",
    "-pc_type bjidrs -ksp_norm_type none -ksp_max_it 3",
    "-pc_type matching -matching_pc_type bjidrs",
    "-pc_type ksp -ksp_ksp_type fgmres -ksp_pc_type bjidrs",
    "-pc_type ksp -ksp_ksp_type idrs -ksp_pc_type bjidrs",
    "-pc_type fieldsplit -pc_fieldsplit_block_size 2 -fieldsplit_ksp_type preonly -fieldsplit_pc_type bjidrs",
    "-pc_type fieldsplit -pc_fieldsplit_block_size 2 -fieldsplit_ksp_type richardson -fieldsplit_ksp_max_it 2 "
      "-fieldsplit_ksp_norm_type none -fieldsplit_pc_type matching -fieldsplit_matching_pc_type bjidrs",
    "-pc_type mg -mg_levels_ksp_type richardson -mg_levels_ksp_max_it 2 -mg_levels_ksp_norm_type none -mg_levels_pc_type bjidrs",
    "-pc_type mg -mg_levels_ksp_type preonly -mg_levels_pc_type bjidrs",
    "-pc_type bjacobi -sub_ksp_type preonly -sub_pc_type bjidrs",
  };

  PetscFunctionBeginUser;
  for (size_t in = 0; in < PETSC_STATIC_ARRAY_LENGTH(nests); in++) {
    for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(solvers); is++) {
      const PetscBool    direct = (PetscBool)(in == 0 || in == 2);
      PetscBool          multigrid, blocks;
      PetscOptions       options;
      KSPConvergedReason reason;
      PetscErrorCode     ierr;
      char               what[256];
      Mat                A, B, X;
      Vec                b, x;
      PC                 pc;
      KSP                ksp;

      PetscCall(SystemCreateEntries(DeadRow, 24, RHS_GENERAL, &A, &b, &x));
      PetscCall(OptionsPush(nests[in], &options));
      PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
      PetscCall(KSPSetOperators(ksp, A, A));
      PetscCall(KSPSetType(ksp, solvers[is]));
      PetscCall(KSPSetFromOptions(ksp));
      PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s", solvers[is], nests[in]));
      PetscCall(KSPSolve(ksp, b, x));
      PetscCall(KSPGetConvergedReason(ksp, &reason));
      PetscCall(KSPGetPC(ksp, &pc));
      PetscCall(PetscObjectTypeCompare((PetscObject)pc, PCMG, &multigrid));
      PetscCall(PetscObjectTypeCompare((PetscObject)pc, PCBJACOBI, &blocks));
      /* PCMG of PETSc has iterations of its own for KSPRICHARDSON, and KSPPREONLY of 3.18 reads the reason of the process only */
      if ((!multigrid || strcmp(solvers[is], KSPRICHARDSON)) && (!blocks || strcmp(solvers[is], KSPPREONLY)))
        PetscCall(CheckFailed(what, reason));
      if (direct) {
        PetscCall(BlocksCreate(A, 3, BLOCK_RANDOM, &B, &X));
        PetscCall(PetscStrlcat(what, ", KSPMatSolve()", sizeof(what)));
        Try(ierr, KSPMatSolve(ksp, B, X));
        PetscCall(KSPGetConvergedReason(ksp, &reason));
        /* before 3.22 KSPPREONLY cannot make all dense matrices infinite, which is an error on all processes */
        if (!ierr || PETSC_VERSION_GE(3, 22, 0) || strcmp(solvers[is], KSPPREONLY)) PetscCall(CheckFailed(what, reason));
        PetscCall(DestroyAll(&B, &X));
      }
      PetscCall(KSPDestroy(&ksp));
      PetscCall(OptionsPop(&options));
      PetscCall(DestroyAll(&A, &b, &x));
    }
  }
  PetscCall(Verdict("blocks that have failed inside of solvers"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  EndAfter(250);
  PetscCall(ImplementationFromOptions());
  PetscCall(TestNotANumber());
  PetscCall(TestFaults());
  PetscCall(TestCallbacks());
  PetscCall(TestPostSolve());
  PetscCall(TestBlocks());
  PetscCall(TestFailedBlocks());
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}
    args: -ksp_idrs_implementation {{vec host}}

TEST*/
