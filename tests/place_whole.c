static char help[] = "Iterations of KSPIDRS in one kernel of a GPU, many at a time, compared with step by step. Without a GPU,\n\
or on several processes, the choice is step by step, with the same results.\n\
  -solves n - that many solves in a row, and nothing else: for a GPU that other processes use at the same time\n\n";

#include "systems.h"

/* Sets runs to PETSC_TRUE if one kernel can make many steps with such a matrix */
static PetscErrorCode WholeRuns(Mat A, PetscBool *runs)
{
  PetscMPIInt size;

  PetscFunctionBeginUser;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJCUSPARSE, runs));
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)A), &size));
  if (size > 1) *runs = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets gpu to PETSC_TRUE if the options create matrices on a GPU */
static PetscErrorCode OnGPU(PetscBool *gpu)
{
  Mat A;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_WORLD, &A));
  PetscCall(MatSetSizes(A, PETSC_DECIDE, PETSC_DECIDE, 1, 1));
  PetscCall(MatSetFromOptions(A));
  PetscCall(WholeRuns(A, gpu));
  PetscCall(MatDestroy(&A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SolverCreateRun(Mat A, PetscInt s, const char pctype[], KSPIDRSRun run, KSP *ksp)
{
  PetscFunctionBeginUser;
  PetscCall(SolverCreate(A, s, pctype, ksp));
  PetscCall(KSPIDRSSetRun_Private(*ksp, run));
  PetscCall(KSPIDRSSetProduct_Private(*ksp, KSP_IDRS_PRODUCT_AUTO));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks the number of lines of the view with this key */
static PetscErrorCode CheckLines(const char what[], KSP ksp, const char key[], PetscInt expected)
{
  PetscInt lines;

  PetscFunctionBeginUser;
  PetscCall(ViewNumbers((PetscObject)ksp, key, 0, NULL, &lines));
  PetscCall(ComplainIf(lines != expected, "%s: %" INT " lines of the view with \"%s\", not %" INT, what, lines, key, expected));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Preconditioners of histories. With the first two a kernel can make many steps with a matrix of any size */
static const struct {
  const char *type;
  const char *scaling;
} methods[] = {
  {PCNONE,   "auto"    },
  {PCJACOBI, "auto"    },
  {PCPOLY,   "none"    },
  {PCPOLY,   "diagonal"},
  {PCPOLY,   "matching"}
};

/* Threads of a kernel of many steps that hold a matrix, on each device of interest; each thread holds 8 entries of a row */
#define THREADS 30000

/* Sets fits to PETSC_TRUE if they hold a matrix whose rows have similar numbers of entries; long rows have whole warps */
static PetscErrorCode PolynomialFits(Mat A, PetscBool *fits)
{
  MatInfo        info;
  PetscInt       N;
  PetscLogDouble threads;

  PetscFunctionBeginUser;
  PetscCall(MatGetSize(A, &N, NULL));
  PetscCall(MatGetInfo(A, MAT_GLOBAL_SUM, &info));
  threads = PetscCeilReal(info.nz_used / N / 8);
  if (threads > 32) threads = 32 * PetscCeilReal(threads / 32);
  *fits = (PetscBool)(threads * N <= THREADS);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SetPolynomial(KSP ksp, PetscInt degree, const char scaling[])
{
  PC pc;

  PetscFunctionBeginUser;
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCPolySetDegree(pc, degree));
  PetscCall(PolyOption(pc, "scaling", scaling));
  PetscFunctionReturn(PETSC_SUCCESS);
}

#define KERNELS "matvecs ... kernels, where"

/*
   Compares histories, up to rounding errors in the first cycles, and with a second solve to the bit. Unless `last` is set, this
   excludes the last norm, which MatMult() computes. All solutions are right
*/
static PetscErrorCode CompareHistories(Mat A, Vec b, PetscInt explicit, PetscBool last)
{
  const PetscInt sizes[] = {1, 2, 3, 4, 6, 8, 12, 16};
  PetscBool      runs, cusparse, fits;
  Vec            x, again;
  History       *history;

  PetscFunctionBeginUser;
  PetscCall(PolynomialFits(A, &fits));
  PetscCall(PetscMalloc1(3, &history));
  PetscCall(DuplicateAll(b, &x, &again));
  PetscCall(WholeRuns(A, &runs));
  /* products of this type may add in another order each time */
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJCUSPARSE, &cusparse));
  for (size_t ipc = 0; ipc < (explicit || !fits ? 2 : PETSC_STATIC_ARRAY_LENGTH(methods)); ipc++) {
    for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
      const PetscInt s = sizes[is];
      PetscBool      equal;
      Vec           *P = NULL;

      if (explicit) {
        PetscCall(VecDuplicateVecs(b, s, &P));
        for (PetscInt j = 0; j < s; j++) PetscCall(VecSetGeneral(P[j], 0.37 + j));
      }
      for (PetscInt turn = 0; turn < 3; turn++) {
        KSP ksp;

        PetscCall(SolverCreateRun(A, s, methods[ipc].type,
                                  turn ? (runs && !explicit ? KSP_IDRS_RUN_WHOLE : KSP_IDRS_RUN_AUTO) : KSP_IDRS_RUN_STEPS, &ksp));
        if (ipc > 1) PetscCall(SetPolynomial(ksp, 6, methods[ipc].scaling));
        if (explicit) PetscCall(KSPIDRSSetShadowVecs(ksp, s, P));
        PetscCall(SolveHistory(ksp, b, turn == 2 ? again : x, &history[turn]));
        PetscCall(CheckSolved(turn ? "whole" : "steps", ksp, A, b, turn == 2 ? again : x));
        PetscCall(KSPDestroy(&ksp));
      }
      for (PetscInt i = 0; i < PetscMin(12, PetscMin(history[0].length, history[1].length)); i++) {
        const PetscReal difference = PetscAbsReal(history[0].norms[i] - history[1].norms[i]);

        PetscCall(ComplainIf(!(difference <= PETSC_SQRT_MACHINE_EPSILON * history[0].norms[0]),
                             "%s, s = %" INT ", iteration %" INT ": norm %g step by step, %g in one kernel", methods[ipc].type, s,
                             i, (double)history[0].norms[i], (double)history[1].norms[i]));
      }
      PetscCall(ComplainIf(history[0].length > 2 * history[1].length || history[1].length > 2 * history[0].length,
                           "%s, s = %" INT ": %" INT " iterations step by step, %" INT " in one kernel", methods[ipc].type, s,
                           history[0].length, history[1].length));
      PetscCall(PetscArraycmp(history[1].norms, history[2].norms, history[1].length - (last ? 0 : 1), &equal));
      PetscCall(ComplainIf(!cusparse && (history[1].length != history[2].length || !equal),
                           "%s, s = %" INT ": other norms in a second solve", methods[ipc].type, s));
      PetscCall(VecEqual(x, again, &equal));
      PetscCall(ComplainIf(!cusparse && !equal, "%s, s = %" INT ": another solution in a second solve", methods[ipc].type, s));
      if (explicit) PetscCall(VecDestroyVecs(s, &P));
    }
  }
  PetscCall(PetscFree(history));
  PetscCall(DestroyAll(&again, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A grid; large grids are omitted without a GPU */
static PetscErrorCode TestHistories(PetscInt m, PetscInt explicit)
{
  PetscInt  begin, end;
  PetscBool gpu;
  Mat       A;
  Vec       b;

  PetscFunctionBeginUser;
  PetscCall(OnGPU(&gpu));
  if (m > 200 && !gpu) {
    PetscCall(Skip("no kernel of a GPU runs whole solves, so large grids are left out"));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, m, 0.4, LAYOUT_EVEN, &A, &b));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  for (PetscInt i = begin; i < end; i++) PetscCall(MatSetValue(A, i, i, 5.0 + i % 7, INSERT_VALUES));
  PetscCall(MatAssemble(A));
  PetscCall(CompareHistories(A, b, explicit, PETSC_TRUE));
  PetscCall(DestroyAll(&b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Rows of n entries, or of n / 2 */
static PetscScalar InAllColumns(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? (PetscReal)(n + i % 5) / 2 : (PetscReal)(2 * ((7 * j + 3 * i) % 11) - 9) / 20;
}

static PetscScalar InHalfOfThem(PetscInt i, PetscInt j, PetscInt n)
{
  return (j - i + n) % n < n / 2 ? InAllColumns(i, j, n) : 0.0;
}

/*
   Few rows with so many entries that the matrix does not fit where the vectors fit. cuSPARSE adds long rows in another order each
   time
*/
static PetscErrorCode TestManyEntries(Entry *entry, PetscInt n)
{
  PetscBool fits, runs;
  Mat       A;
  Vec       b;

  PetscFunctionBeginUser;
  PetscCall(MatCreateEntries(entry, n, PETSC_FALSE, &A));
  PetscCall(MatCreateVecs(A, &b, NULL));
  PetscCall(VecSetGeneral(b, 0.7));
  PetscCall(CompareHistories(A, b, 0, PETSC_FALSE));
  PetscCall(PolynomialFits(A, &fits));
  PetscCall(WholeRuns(A, &runs));
  if (runs && !fits) {
    PetscErrorCode ierr;
    Vec            x;
    KSP            ksp;

    PetscCall(VecDuplicate(b, &x));
    PetscCall(SolverCreateRun(A, 4, PCPOLY, KSP_IDRS_RUN_WHOLE, &ksp));
    Try(ierr, KSPSolve(ksp, b, x));
    PetscCall(Unlock(b));
    PetscCall(CheckError(ierr, "a matrix that threads cannot hold", "-ksp_idrs_run", "threads"));
    PetscCall(DestroyAll(&ksp, &x));
  }
  PetscCall(DestroyAll(&b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Counts reports, and as wrong those that are out of order */
typedef struct {
  PetscInt reports, wrong;
} Reports;

static PetscErrorCode CountReport(KSP ksp, PetscInt its, PetscReal norm, void *ctx)
{
  Reports *reports = (Reports *)ctx;

  PetscFunctionBeginUser;
  if (its != reports->reports++) reports->wrong++;
  if (!(norm >= 0.0)) reports->wrong++;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Every limit on the number of iterations: exactly so many are made, and the norm reported last is the norm of b - A x */
static PetscErrorCode TestLimits(void)
{
  const PetscInt sizes[] = {1, 4, 8};
  Mat            A;
  Vec            b, x;

  PetscFunctionBeginUser;
  PetscCall(GridSystemCreate(20, 0.4, &A, &b, &x));
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
    for (PetscInt limit = 0; limit <= 2 * sizes[is] + 4; limit++) {
      for (PetscInt none = 0; none < 2; none++) {
        KSP                ksp;
        KSPConvergedReason reason;
        PetscInt           its;
        PetscReal          norm, rnorm, bnorm;

        PetscCall(
          SolverCreateLimited(A, sizes[is], PC_RIGHT, none ? KSP_NORM_NONE : KSP_NORM_UNPRECONDITIONED, limit, PCJACOBI, &ksp));
        PetscCall(KSPSetConvergenceTest(ksp, KSPConvergedSkip, NULL, NULL));
        PetscCall(KSPIDRSSetRun_Private(ksp, KSP_IDRS_RUN_AUTO));
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(KSPGetIterationNumber(ksp, &its));
        PetscCall(KSPGetResidualNorm(ksp, &norm));
        PetscCall(KSPGetConvergedReason(ksp, &reason));
        PetscCall(ResidualNorm(A, b, x, &rnorm, &bnorm));
        PetscCall(ComplainIf(its != limit, "s = %" INT ": %" INT " iterations of %" INT " (%s)", sizes[is], its, limit,
                             KSPConvergedReasons[reason]));
        if (!none)
          PetscCall(ComplainIf(!(PetscAbsReal(norm - rnorm) <= PETSC_SQRT_MACHINE_EPSILON * bnorm),
                               "s = %" INT ", iteration %" INT ": norm %g reported, b - A x has %g", sizes[is], limit, (double)norm,
                               (double)rnorm));
        PetscCall(KSPDestroy(&ksp));
      }
    }
  }
  PetscCall(DestroyAll(&x, &b, &A));
  PetscCall(Verdict("limits"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Tolerances down to the attainable accuracy, with a monitor and guesses, all with one solver; then more iterations than one kernel
   makes
*/
static PetscErrorCode TestTolerances(void)
{
  const PetscReal tolerances[] = {1e-1, 1e-3, 1e-5, 1e-8, 1e-11, 1e-15};
  Mat             A;
  Vec             b, x;
  KSP             ksp;

  PetscFunctionBeginUser;
  PetscCall(GridSystemCreate(24, 0.4, &A, &b, &x));
  PetscCall(SolverCreateRun(A, 4, PCJACOBI, KSP_IDRS_RUN_AUTO, &ksp));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(tolerances); i++) {
    for (PetscInt guess = 0; guess < 2; guess++) {
      Reports            reports = {0, 0};
      KSPConvergedReason reason;
      PetscReal          rnorm, bnorm;
      PetscInt           its;

      PetscCall(KSPSetTolerances(ksp, tolerances[i], 0.0, 1e30, 500));
      PetscCall(KSPSetInitialGuessNonzero(ksp, (PetscBool)guess));
      PetscCall(KSPMonitorSet(ksp, CountReport, &reports, NULL));
      PetscCall(VecSetGeneral(x, 1.0 + (PetscReal)i));
      PetscCall(KSPSolve(ksp, b, x));
      PetscCall(KSPMonitorCancel(ksp));
      PetscCall(KSPGetConvergedReason(ksp, &reason));
      PetscCall(KSPGetIterationNumber(ksp, &its));
      PetscCall(ResidualNorm(A, b, x, &rnorm, &bnorm));
      PetscCall(ComplainIf(reports.reports != its + 1 || reports.wrong,
                           "tolerance %g: %" INT " reports of %" INT " iterations, %" INT " out of order", (double)tolerances[i],
                           reports.reports, its, reports.wrong));
      if (tolerances[i] >= rtol)
        PetscCall(ComplainIf(reason <= 0, "tolerance %g: %s", (double)tolerances[i], KSPConvergedReasons[reason]));
      if (reason > 0)
        PetscCall(ComplainIf(!(rnorm <= 1.01 * tolerances[i] * bnorm), "tolerance %g is said to be met, b - A x has %g of ||b||",
                             (double)tolerances[i], (double)(rnorm / bnorm)));
    }
  }
  PetscCall(KSPDestroy(&ksp));
  PetscCall(SolverCreateLimited(A, 4, PC_RIGHT, KSP_NORM_UNPRECONDITIONED, 5000, PCNONE, &ksp));
  PetscCall(KSPSetConvergenceTest(ksp, KSPConvergedSkip, NULL, NULL));
  PetscCall(KSPSolve(ksp, b, x));
  {
    KSPConvergedReason reason;
    PetscReal          rnorm, bnorm;

    PetscCall(KSPGetConvergedReason(ksp, &reason));
    PetscCall(ResidualNorm(A, b, x, &rnorm, &bnorm));
    PetscCall(ComplainIf(!(rnorm <= PETSC_SQRT_MACHINE_EPSILON * bnorm), "5000 iterations leave b - A x at %g of ||b|| (%s)",
                         (double)(rnorm / bnorm), KSPConvergedReasons[reason]));
  }
  PetscCall(DestroyAll(&ksp, &x, &b, &A));
  PetscCall(Verdict("tolerances"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Any number of rows from one on; rows of very different lengths; a matrix that changes between solves in values and in pattern, or
   is replaced
*/
static PetscErrorCode TestSizes(void)
{
  const PetscInt rows[] = {1, 2, 31, 32, 33, 255, 256, 257, 1000, 5000};
  Mat            A, B;
  Vec            b, x;

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(rows); i++) {
    const PetscInt N = rows[i];
    PetscInt       begin, end;
    KSP            ksp;

    PetscCall(MatCreate(PETSC_COMM_WORLD, &A));
    PetscCall(MatSetSizes(A, PETSC_DECIDE, PETSC_DECIDE, N, N));
    PetscCall(MatSetFromOptions(A));
    PetscCall(MatSetUp(A));
    PetscCall(MatSetOption(A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
    PetscCall(MatGetOwnershipRange(A, &begin, &end));
    for (PetscInt row = begin; row < end; row++) {
      PetscCall(MatSetValue(A, row, row, 30.0 + row % 5, ADD_VALUES));
      for (PetscInt j = 1; j < 1 + (row % 97 == 0 ? 60 : row % 7); j++)
        PetscCall(MatSetValue(A, row, (row + j * j * 17) % N, j % 2 ? 0.4 : -0.3, ADD_VALUES));
    }
    PetscCall(MatAssemble(A));
    PetscCall(MatCreateVecs(A, &x, &b));
    PetscCall(VecSetGeneral(b, 0.7));
    PetscCall(SolverCreateRun(A, 4, i % 2 ? PCJACOBI : PCNONE, KSP_IDRS_RUN_AUTO, &ksp));
    PetscCall(SolveSystem("first", ksp, A, b, x));
    PetscCall(MatScale(A, 2.0));
    PetscCall(SolveSystem("scaled", ksp, A, b, x));
    if (begin < end) PetscCall(MatSetValue(A, begin, N - 1 - begin, 0.5, ADD_VALUES));
    PetscCall(MatAssemble(A));
    PetscCall(SolveSystem("another pattern", ksp, A, b, x));
    PetscCall(MatTranspose(A, MAT_INITIAL_MATRIX, &B));
    PetscCall(KSPSetOperators(ksp, B, B));
    PetscCall(SolveSystem("another matrix", ksp, B, b, x));
    PetscCall(MatDestroy(&B)); /* the solver has a reference */
    PetscCall(KSPSetOperators(ksp, A, A));
    PetscCall(SolveSystem("the first matrix", ksp, A, b, x));
    PetscCall(VecSet(b, 0.0));
    PetscCall(SolveSystem("nothing on the right", ksp, A, b, x));
    PetscCall(DestroyAll(&ksp, &x, &b, &A));
  }
  PetscCall(Verdict("sizes"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A monitor and a convergence test of a program, which might use the solution */
static PetscErrorCode MonitorNothing(KSP ksp, PetscInt its, PetscReal norm, void *ctx)
{
  PetscFunctionBeginUser;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PassTest(KSP ksp, PetscInt its, PetscReal norm, KSPConvergedReason *reason, void *ctx)
{
  PetscFunctionBeginUser;
  PetscCall(KSPConvergedDefault(ksp, its, norm, reason, ctx));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Settings that a kernel of many steps does not support, with the reason in the error on a GPU; without a GPU the reason differs */
typedef enum {
  OTHER_BJACOBI,
  OTHER_SOR,
  OTHER_SHELL,
  OTHER_SIZE,
  OTHER_SIDE,
  OTHER_MONITOR,
  OTHER_TEST,
  OTHER_SMOOTHING,
  OTHER_PRODUCT,
  OTHER_DEGREE,
  OTHERS
} Other;
static const char *const reasons[] = {"PCJACOBI", "PCJACOBI",         "",          "16 shadow vectors", "PCJACOBI",
                                      "monitor",  "convergence test", "smoothing", "MatMult()",         "more than 32 products"};

/* Creates a solver that is set to make many steps in one kernel, and cannot. S: a shell of A */
static PetscErrorCode OtherCreate(Other other, Mat A, Mat S, KSP *ksp)
{
  const char *const pctypes[OTHERS] = {
    [OTHER_BJACOBI] = PCBJACOBI, [OTHER_SOR] = PCSOR, [OTHER_SIDE] = PCJACOBI, [OTHER_DEGREE] = PCPOLY};
  void *ctx;

  PetscFunctionBeginUser;
  PetscCall(SolverCreateRun(other == OTHER_SHELL ? S : A, other == OTHER_SIZE ? 17 : 4, pctypes[other] ? pctypes[other] : PCNONE,
                            KSP_IDRS_RUN_WHOLE, ksp));
  if (other == OTHER_SIDE) PetscCall(KSPSetPCSide(*ksp, PC_LEFT));
  if (other == OTHER_MONITOR) PetscCall(KSPMonitorSet(*ksp, MonitorNothing, NULL, NULL));
  if (other == OTHER_TEST) {
    PetscCall(KSPConvergedDefaultCreate(&ctx));
    PetscCall(KSPSetConvergenceTest(*ksp, PassTest, ctx, KSPConvergedDefaultDestroy));
  }
  if (other == OTHER_SMOOTHING) PetscCall(KSPIDRSSetSmoothing(*ksp, PETSC_TRUE));
  if (other == OTHER_DEGREE) PetscCall(SetPolynomial(*ksp, 40, "diagonal"));
  if (other == OTHER_PRODUCT) PetscCall(KSPIDRSSetProduct_Private(*ksp, KSP_IDRS_PRODUCT_MAT));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Settings that cannot run in one kernel are errors that name the option and the reason, and the solver can be used with another
   setting. A NaN ends the solve
*/
static PetscErrorCode TestRefused(void)
{
  PetscErrorCode     ierr;
  KSPConvergedReason reason;
  KSPIDRSRun         run;
  PetscInt           begin, end;
  PetscBool          gpu;
  Mat                A, S;
  Vec                b, x;
  KSP                ksp;

  PetscFunctionBeginUser;
  PetscCall(OnGPU(&gpu));
  PetscCall(GridSystemCreate(12, 0.4, &A, &b, &x));
  PetscCall(ShellCreate(A, PassMult, A, &S));
  for (Other other = OTHER_BJACOBI; other < OTHERS; other++) {
    PetscCall(OtherCreate(other, A, S, &ksp));
    Try(ierr, KSPSolve(ksp, b, x));
    PetscCall(Unlock(b));
    PetscCall(CheckError(ierr, "one kernel where it cannot run", "-ksp_idrs_run", "whole"));
    PetscCall(CheckError(ierr, "one kernel where it cannot run", "-ksp_idrs_run", gpu ? reasons[other] : ""));
    PetscCall(KSPIDRSSetRun_Private(ksp, KSP_IDRS_RUN_AUTO));
    GetSetting(ksp, run, &run);
    PetscCall(ComplainIf(run != KSP_IDRS_RUN_AUTO, "the run is %s", KSPIDRSRuns[run]));
    PetscCall(KSPSolve(ksp, b, x));
    if (other == OTHER_SIDE) PetscCall(CheckConverged("after an error", ksp, b, x));
    else PetscCall(CheckSolved("after an error", ksp, A, b, x));
    Try(ierr, KSPIDRSSetRun_Private(ksp, (KSPIDRSRun)3));
    PetscCall(CheckError(ierr, "a run that there is not", "KSPIDRSSetRun()", "3"));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(MatDestroy(&S));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  if (begin == 0 && end > 0) PetscCall(MatSetValue(A, 0, 0, (PetscReal)NAN, INSERT_VALUES));
  PetscCall(MatAssemble(A));
  PetscCall(SolverCreateRun(A, 4, PCNONE, KSP_IDRS_RUN_AUTO, &ksp));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(ComplainIf(reason != KSP_DIVERGED_NANORINF, "NaN: %s", KSPConvergedReasons[reason]));
  PetscCall(DestroyAll(&ksp, &x, &b, &A));
  PetscCall(Verdict("what cannot run"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A matrix of a parallel type, also on one process */
static PetscErrorCode TestParallelType(void)
{
  const PetscInt n = 200;
  PetscInt       begin, end;
  PetscBool      gpu;
  Mat            A;
  Vec            b, x;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(OnGPU(&gpu));
  PetscCall(MatCreate(PETSC_COMM_WORLD, &A));
  PetscCall(MatSetSizes(A, PETSC_DECIDE, PETSC_DECIDE, n, n));
  PetscCall(MatSetType(A, gpu ? MATMPIAIJCUSPARSE : MATMPIAIJ));
  PetscCall(MatMPIAIJSetPreallocation(A, 3, NULL, 2, NULL));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  for (PetscInt i = begin; i < end; i++) {
    for (PetscInt j = PetscMax(i - 1, 0); j < PetscMin(i + 2, n); j++)
      PetscCall(MatSetValue(A, i, j, Tridiagonal(i, j, n), INSERT_VALUES));
  }
  PetscCall(MatAssemble(A));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecSetGeneral(b, 0.7));
  PetscCall(SolverCreateRun(A, 4, PCJACOBI, KSP_IDRS_RUN_AUTO, &ksp));
  PetscCall(SolveSystem("a matrix of a parallel type", ksp, A, b, x));
  PetscCall(DestroyAll(&ksp, &x, &b, &A));
  PetscCall(Verdict("a parallel type"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   There are as many reliable updates as step by step, except a late one by the host of a GPU, and a kernel does not end for them.
   The view states where a kernel has its vectors
*/
static PetscErrorCode TestUpdates(void)
{
  const PetscInt sizes[] = {1, 4, 8};
  PetscBool      gpu;
  Mat            A;
  Vec            b, x;

  PetscFunctionBeginUser;
  PetscCall(OnGPU(&gpu));
  PetscCall(GridSystemCreate(60, 0.4, &A, &b, &x));
  for (PetscInt i = 0; i < 9; i++) {
    const PetscInt s = sizes[i % 3];
    PetscInt       updates[2], restarts[2], lines;
    PetscReal      kernels;

    for (PetscInt whole = 0; whole < 2; whole++) {
      KSP ksp;

      PetscCall(SolverCreateRun(A, s, methods[i / 3].type,
                                whole ? (gpu ? KSP_IDRS_RUN_WHOLE : KSP_IDRS_RUN_AUTO) : KSP_IDRS_RUN_STEPS, &ksp));
      /* in single precision one cycle may reach the tolerance from the residual at which the default makes an update */
      if (PetscDefined(USE_REAL_SINGLE)) PetscCall(KSPIDRSSetUpdateTolerance(ksp, 0.1));
      PetscCall(SolveSystem(whole ? "whole" : "steps", ksp, A, b, x));
      PetscCall(KSPIDRSGetCounts(ksp, NULL, NULL, &updates[whole], &restarts[whole]));
      PetscCall(CheckLines("updates", ksp, KERNELS, whole && gpu ? 1 : 0));
      PetscCall(ViewNumbers((PetscObject)ksp, "matvecs ... operations in ", 1, &kernels, &lines));
      if (lines)
        PetscCall(ComplainIf(!(kernels < updates[whole] + restarts[whole] + 1), "s = %" INT ": %g kernels with %" INT " updates", s,
                             (double)kernels, updates[whole]));
      PetscCall(KSPDestroy(&ksp));
    }
    /* in single precision a recurrence may reach the tolerance before its first update is due */
    PetscCall(
      ComplainIf((!PetscDefined(USE_REAL_SINGLE) && (!updates[0] || !updates[1])) || PetscAbsInt(updates[0] - updates[1]) > 1,
                 "s = %" INT ": %" INT " updates step by step, %" INT " in one kernel", s, updates[0], updates[1]));
  }
  PetscCall(DestroyAll(&x, &b, &A));
  PetscCall(Verdict("updates"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A monitor of PETSc prints the norms of the history, one line per iteration, if a kernel of many steps computes them */
static PetscErrorCode TestMonitor(void)
{
  PetscBool    gpu;
  PetscInt     lines;
  PetscReal    norms[MAX_HISTORY];
  PetscOptions options;
  Mat          A;
  Vec          b, x;
  KSP          ksp;
  History     *history;

  PetscFunctionBeginUser;
  PetscCall(OnGPU(&gpu));
  PetscCall(PetscMalloc1(1, &history));
  PetscCall(GridSystemCreate(40, 0.4, &A, &b, &x));
  PetscCall(OptionsPush("-ksp_monitor ascii:place_whole_norms.txt", &options));
  PetscCall(SolverCreateRun(A, 4, PCJACOBI, KSP_IDRS_RUN_AUTO, &ksp));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(SolveHistory(ksp, b, x, history));
  PetscCall(CheckSolved("with a monitor", ksp, A, b, x));
  PetscCall(CheckLines("a monitor", ksp, KERNELS, gpu ? 1 : 0));
  PetscCall(KSPDestroy(&ksp)); /* closes the file */
  PetscCall(OptionsPop(&options));
  PetscCall(FileNumbers("place_whole_norms.txt", "KSP Residual norm ", MAX_HISTORY, norms, &lines));
  PetscCall(
    ComplainIf(lines != history->length || lines < 20, "a monitor: %" INT " lines of %" INT " norms", lines, history->length));
  for (PetscInt i = 0; i < PetscMin(lines, history->length); i++) {
    PetscCall(
      ComplainIf(!(PetscAbsReal(norms[i] - history->norms[i]) <= PetscMax(1e-11, 10 * PETSC_MACHINE_EPSILON) * history->norms[i]),
                 "iteration %" INT ": the monitor has norm %g, the history %g", i, (double)norms[i], (double)history->norms[i]));
  }
  PetscCall(DestroyAll(&x, &b, &A));
  PetscCall(PetscFree(history));
  PetscCall(Verdict("monitors"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a matrix with three entries per row, and one row with an entry in each column */
static PetscErrorCode MatCreateLongRow(PetscInt n, Mat *A)
{
  PetscInt begin, end;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_WORLD, A));
  PetscCall(MatSetSizes(*A, PETSC_DECIDE, PETSC_DECIDE, n, n));
  PetscCall(MatSetFromOptions(*A));
  PetscCall(MatSetUp(*A));
  PetscCall(MatSetOption(*A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
  PetscCall(MatGetOwnershipRange(*A, &begin, &end));
  for (PetscInt i = begin; i < end; i++) {
    const PetscInt reach = i == n / 2 ? n : 1;

    for (PetscInt j = PetscMax(i - reach, 0); j <= PetscMin(i + reach, n - 1); j++)
      PetscCall(MatSetValue(*A, i, j, reach > 1 && i != j ? 0.5 / n : Tridiagonal(i, j, n), INSERT_VALUES));
  }
  PetscCall(MatAssemble(*A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   If one row is long, the automatic choice is MatMult(), and step by step, and the view states the reasons; a kernel of many steps
   finds the same solution
*/
static PetscErrorCode TestLongRow(void)
{
  const PetscInt n = 4000;
  PetscInt       told[2];
  PetscBool      gpu;
  Mat            A;
  Vec            b, x;

  PetscFunctionBeginUser;
  PetscCall(OnGPU(&gpu));
  PetscCall(MatCreateLongRow(n, &A));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecSetGeneral(b, 0.7));
  {
    KSP ksp;

    /* the long row has several warps */
    PetscCall(SolverCreateRun(A, 4, PCPOLY, gpu ? KSP_IDRS_RUN_WHOLE : KSP_IDRS_RUN_AUTO, &ksp));
    PetscCall(SolveSystem("a long row in one kernel, with a polynomial", ksp, A, b, x));
    PetscCall(CheckLines("a long row, with a polynomial", ksp, KERNELS, gpu ? 1 : 0));
    PetscCall(KSPDestroy(&ksp));
  }
  for (PetscInt whole = 0; whole < 2; whole++) {
    KSP ksp;

    PetscCall(SolverCreateRun(A, 4, PCNONE, whole && gpu ? KSP_IDRS_RUN_WHOLE : KSP_IDRS_RUN_AUTO, &ksp));
    PetscCall(SolveSystem(whole ? "a long row in one kernel" : "a long row", ksp, A, b, x));
    PetscCall(ViewNumbers((PetscObject)ksp, "no faster one: ... longest row", 0, NULL, &told[whole]));
    if (gpu) PetscCall(CheckLines("a long row", ksp, "run steps ... automatically", whole ? 0 : 1));
    PetscCall(CheckLines("a long row", ksp, KERNELS, gpu && whole ? 1 : 0));
    PetscCall(KSPDestroy(&ksp));
  }
  /* the line on the product may also mention the row */
  PetscCall(ComplainIf(told[0] != told[1] + (gpu ? 1 : 0),
                       "a long row: %" INT " lines of the view tell of it, %" INT " with one kernel", told[0], told[1]));
  PetscCall(DestroyAll(&x, &b, &A));
  PetscCall(Verdict("a long row"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   If a null space is removed after each application of the preconditioner, no kernel makes many steps, and the view states the
   reason
*/
static PetscErrorCode TestNullSpace(void)
{
  const PetscInt n = 400;
  PetscBool      gpu;
  MatNullSpace   space;
  Mat            A;
  Vec            b, x;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(OnGPU(&gpu));
  PetscCall(GridSystemCreate(20, 0.4, &A, &b, &x));
  PetscCall(MatNullSpaceCreate(PETSC_COMM_WORLD, PETSC_TRUE, 0, NULL, &space));
  PetscCall(MatSetNullSpace(A, space));
  PetscCall(SolverCreateRun(A, 4, PCJACOBI, KSP_IDRS_RUN_AUTO, &ksp));
  PetscCall(KSPSetTolerances(ksp, 1e-1, 0.0, 1e30, n));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(CheckLines("a null space", ksp, "no faster one: ... null space", gpu ? 1 : 0));
  PetscCall(CheckLines("a null space", ksp, KERNELS, 0));
  PetscCall(DestroyAll(&ksp, &space, &x, &b, &A));
  PetscCall(Verdict("null space"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Solves one after another, with solvers of several sizes in turn. Each solve repeats the bits of the first one. tell: reports
   every thousand solves on stderr
*/
static PetscErrorCode TestMany(PetscInt solves, PetscBool tell)
{
  const PetscInt    edges[] = {9, 31, 32, 100, 60, 20}, sizes[] = {1, 4, 8, 2, 4, 8};
  const char *const pctypes[] = {PCNONE, PCJACOBI, PCNONE, PCJACOBI, PCPOLY, PCPOLY};
  Mat               A[PETSC_STATIC_ARRAY_LENGTH(edges)];
  Vec               b[PETSC_STATIC_ARRAY_LENGTH(edges)], first[PETSC_STATIC_ARRAY_LENGTH(edges)], x;
  KSP               ksp[PETSC_STATIC_ARRAY_LENGTH(edges)];
  PetscInt          its[PETSC_STATIC_ARRAY_LENGTH(edges)];

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(edges); i++) {
    PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, edges[i], 0.4, LAYOUT_EVEN, &A[i], &b[i]));
    PetscCall(VecDuplicate(b[i], &first[i]));
    PetscCall(SolverCreateRun(A[i], sizes[i], pctypes[i], KSP_IDRS_RUN_AUTO, &ksp[i]));
    PetscCall(KSPSolve(ksp[i], b[i], first[i]));
    PetscCall(CheckSolved("the first of many solves", ksp[i], A[i], b[i], first[i]));
    PetscCall(KSPGetIterationNumber(ksp[i], &its[i]));
  }
  for (PetscInt solve = 0; solve < solves; solve++) {
    const size_t i = (size_t)solve % PETSC_STATIC_ARRAY_LENGTH(edges);
    PetscBool    equal;
    PetscInt     now;

    PetscCall(VecDuplicate(b[i], &x));
    PetscCall(KSPSolve(ksp[i], b[i], x));
    PetscCall(KSPGetIterationNumber(ksp[i], &now));
    PetscCall(VecEqual(x, first[i], &equal));
    PetscCall(ComplainIf(now != its[i] || !equal, "solve %" INT " of %" INT ": %" INT " iterations, at first %" INT "%s", solve,
                         solves, now, its[i], equal ? "" : ", and another solution"));
    PetscCall(VecDestroy(&x));
    if (tell && solve % 1000 == 999) PetscCall(PetscFPrintf(PETSC_COMM_WORLD, PETSC_STDERR, "%" INT " solves\n", solve + 1));
  }
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(edges); i++) PetscCall(DestroyAll(&ksp[i], &first[i], &b[i], &A[i]));
  PetscCall(Verdict("many solves"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscInt  solves = 40;
  PetscBool alone;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsClearValue(NULL, "-malloc_dump")); /* PETSc leaks memory after an error */
  PetscCall(ImplementationFromOptions());
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-solves", &solves, &alone));
  PetscCall(TestMany(solves, alone));
  if (alone) {
    PetscCall(PetscFinalize());
    return 0;
  }
  PetscCall(TestHistories(30, 0));
  PetscCall(TestHistories(190, 0));
  PetscCall(TestHistories(420, 0)); /* several rows per thread, and by s all in shared memory, all but the matrix, or nothing */
  PetscCall(TestHistories(30, 1));
  PetscCall(TestManyEntries(InAllColumns, 400));
  PetscCall(TestManyEntries(InHalfOfThem, 900));
  PetscCall(Verdict("histories"));
  PetscCall(TestLimits());
  PetscCall(TestTolerances());
  PetscCall(TestSizes());
  PetscCall(TestUpdates());
  PetscCall(TestMonitor());
  PetscCall(TestLongRow());
  PetscCall(TestNullSpace());
  PetscCall(TestRefused());
  PetscCall(TestParallelType());
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

   test:
     suffix: 1
     nsize: {{1 2}}

TEST*/
