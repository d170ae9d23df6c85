static char help[] = "Iterates and norms of KSPIDRS: at every iteration for monitors, for any end of a solve, with vectors of\n\
type nest or of a grid, with preconditioners that vary, and for the transpose, which with complex numbers is not\n\
the Hermitian transpose.\n\n";

#include "columns.h"

/* A monitor that checks the iterate and its residual at every iteration, and keeps the norms */
typedef struct {
  const char *what;
  Mat         A; /* of the system that is solved */
  Vec         b;
  PetscInt    calls;
  PetscReal   peak, norms[MAX_HISTORY];
} Watch;

static PetscErrorCode WatchMonitor(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  Watch    *watch = (Watch *)ctx;
  PetscReal norm, allowed;
  PetscBool same;
  PetscInt  reported;
  PCSide    side;
  PC        pc;
  Vec       x, own, r, w;

  PetscFunctionBeginUser;
  PetscCall(KSPGetIterationNumber(ksp, &reported));
  PetscCall(ComplainIf(its != watch->calls || its != reported,
                       "%s: monitored iteration %" INT " after %" INT " calls, when the solver is at %" INT, watch->what, its,
                       watch->calls, reported));
  if (watch->calls < MAX_HISTORY) watch->norms[watch->calls] = rnorm;
  watch->calls++;
  watch->peak = PetscMax(watch->peak, rnorm);
  allowed     = 50000 * PETSC_MACHINE_EPSILON * watch->peak;

  PetscCall(DuplicateAll(watch->b, &x, &w));
  PetscCall(KSPBuildSolution(ksp, x, NULL));
  PetscCall(OperatorNorm(ksp, watch->A, watch->b, x, &norm));
  PetscCall(ComplainIf(!(PetscAbsReal(norm - rnorm) <= allowed),
                       "%s: at iteration %" INT " the solution built has a residual norm of %.14g, reported %.14g", watch->what,
                       its, (double)norm, (double)rnorm));
  PetscCall(KSPBuildSolution(ksp, NULL, &own));
  PetscCall(VecEqual(x, own, &same));
  PetscCall(ComplainIf(!same, "%s: at iteration %" INT " another solution is built in a vector of the solver", watch->what, its));
  PetscCall(KSPBuildResidual(ksp, NULL, NULL, &r));
  PetscCall(KSPGetPCSide(ksp, &side));
  PetscCall(KSPGetPC(ksp, &pc));
  if (side == PC_LEFT) PetscCall(PCApply(pc, r, w));
  PetscCall(VecNorm(side == PC_LEFT ? w : r, NORM_2, &norm));
  PetscCall(ComplainIf(!(PetscAbsReal(norm - rnorm) <= allowed),
                       "%s: at iteration %" INT " the residual built has a norm of %.14g, reported %.14g", watch->what, its,
                       (double)norm, (double)rnorm));
  PetscCall(DestroyAll(&x, &w, &r));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode WatchSolver(const char what[], KSP ksp, Mat A, Vec b, Watch *watch)
{
  PetscFunctionBeginUser;
  watch->what  = what;
  watch->A     = A;
  watch->b     = b;
  watch->calls = 0;
  watch->peak  = 0.0;
  PetscCall(KSPMonitorCancel(ksp));
  PetscCall(KSPMonitorSet(ksp, WatchMonitor, watch, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Every iteration is monitored once, in order, with the norm of the history; solution and residual can be computed at each */
static PetscErrorCode TestMonitors(void)
{
  const PetscReal tolerances[] = {1e-3, 0.0, 0.7};
  static Outcome  history;
  Watch           watch;
  Mat             A;
  Vec             b, x;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 11, 0.8, LAYOUT_UNEVEN, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  for (PetscInt i = 0; i < VARIANTS * 3 * 2; i++) {
    const PetscReal tolerance = tolerances[i / VARIANTS % 3];
    const PetscBool guess     = (PetscBool)(i / VARIANTS / 3);
    char            what[128];
    Variant         variant;
    PetscInt        its;
    KSP             ksp;

    PetscCall(VariantCreate(A, i, &variant, &ksp));
    PetscCall(PetscSNPrintf(what, sizeof(what), "%s, update tolerance %g, %s guess", variant.what, (double)tolerance,
                            guess ? "nonzero" : "zero"));
    PetscCall(KSPIDRSSetUpdateTolerance(ksp, tolerance));
    PetscCall(VecSetGeneral(x, 2.0));
    PetscCall(KSPSetInitialGuessNonzero(ksp, guess));
    PetscCall(WatchSolver(what, ksp, A, b, &watch));
    PetscCall(SolveHistory(ksp, b, x, &history));
    PetscCall(CheckConverged(what, ksp, b, x));
    PetscCall(KSPGetIterationNumber(ksp, &its));
    PetscCall(ComplainIf(watch.calls != its + 1 || history.length != its + 1,
                         "%s: %" INT " calls of the monitor, %" INT " norms of %" INT " iterations", what, watch.calls,
                         history.length, its));
    for (PetscInt l = 0; l < PetscMin(watch.calls, history.length); l++)
      PetscCall(ComplainIf(!(watch.norms[l] == history.norms[l]), "%s: norm %g of iteration %" INT " monitored, %g in the history",
                           what, (double)watch.norms[l], l, (double)history.norms[l]));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A convergence test that stops at an iteration, for a reason, and is called once an iteration */
typedef struct {
  PetscInt           stop;
  KSPConvergedReason reason;
  PetscInt           calls;
} Stop;

static PetscErrorCode StopTest(KSP ksp, PetscInt its, PetscReal rnorm, KSPConvergedReason *reason, void *ctx)
{
  Stop *stop = (Stop *)ctx;

  PetscFunctionBeginUser;
  *reason = KSP_CONVERGED_ITERATING;
  PetscCall(
    ComplainIf(its != stop->calls++, "the test is called at iteration %" INT " after %" INT " calls", its, stop->calls - 1));
  if (its >= stop->stop) *reason = stop->reason;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Ways to end a solve at a certain iteration */
typedef enum {
  END_MAX_IT,   /* -ksp_max_it */
  END_SKIP,     /* that and -ksp_convergence_test skip */
  END_NO_NORM,  /* that and -ksp_norm_type none */
  END_ITS,      /* a user's test: convergence for a reason of its own, */
  END_RTOL,     /* for a reason that the solver would verify after PETSc's own test, */
  END_DIVERGED, /* or divergence */
  ENDS
} End;
static const char *const ends[] = {
  "max_it", "max_it, no test", "max_it, no norm", "user's test", "user's test of a tolerance", "user's test of divergence"};

/*
   If a solve ends in any step of a cycle, it has made exactly this number of iterations, and the returned x has the reported norm.
   In single precision there is more convection: with 0.8 the start with s = 8 ends early, because half of the digits of a column
   are rounding errors, and more products are made
*/
static PetscErrorCode TestEnds(void)
{
  static const KSPConvergedReason reasons[] = {KSP_DIVERGED_ITS,  KSP_CONVERGED_ITS,  KSP_DIVERGED_ITS,
                                               KSP_CONVERGED_ITS, KSP_CONVERGED_RTOL, KSP_DIVERGED_DTOL};
  Mat                             A;
  Vec                             b, x, first;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 12, PetscDefined(USE_REAL_SINGLE) ? 1.2 : 0.8, LAYOUT_UNEVEN, &A, &b));
  PetscCall(DuplicateAll(b, &x, &first));
  for (PetscInt i = 0; i < VARIANTS; i++) {
    for (PetscInt limit = 0; limit <= 12; limit++) {
      for (PetscInt end = 0; end < ENDS; end++) {
        KSPConvergedReason reason;
        PetscReal          norm, reported;
        PetscInt           its, products, updates;
        char               what[128];
        Stop               stop = {limit, reasons[end], 0};
        Variant            variant;
        KSP                ksp;

        PetscCall(VariantCreate(A, i, &variant, &ksp));
        PetscCall(PetscSNPrintf(what, sizeof(what), "%s, end at %" INT " by %s", variant.what, limit, ends[end]));
        PetscCall(KSPSetTolerances(ksp, 1e-13, PETSC_DEFAULT, PETSC_DEFAULT, end <= END_NO_NORM ? limit : 500));
        if (end == END_SKIP) PetscCall(KSPSetConvergenceTest(ksp, KSPConvergedSkip, NULL, NULL));
        if (end == END_NO_NORM) PetscCall(KSPSetNormType(ksp, KSP_NORM_NONE));
        if (end > END_NO_NORM) PetscCall(KSPSetConvergenceTest(ksp, StopTest, &stop, NULL));
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(KSPGetConvergedReason(ksp, &reason));
        PetscCall(KSPGetIterationNumber(ksp, &its));
        PetscCall(KSPGetResidualNorm(ksp, &reported));
        PetscCall(SolverNorm(ksp, b, x, &norm));
        PetscCall(ComplainIf(its != limit, "%s: %" INT " iterations", what, its));
        /* without a norm PETSc releases differ in the reason */
        PetscCall(ComplainIf(reason != reasons[end] && !(end == END_NO_NORM && reason == KSP_CONVERGED_ITS), "%s: %s", what,
                             KSPConvergedReasons[reason]));
        PetscCall(
          ComplainIf(end != END_NO_NORM && !(PetscAbsReal(norm - reported) <= 5000 * PETSC_MACHINE_EPSILON * PetscMax(norm, 1.0)),
                     "%s: the norm of b - A x is %.14g, reported %.14g", what, (double)norm, (double)reported));
        /* no superfluous product: at most one more than iterations, since the next product computes the last norm */
        PetscCall(KSPIDRSGetCounts(ksp, &products, NULL, &updates, NULL));
        PetscCall(ComplainIf(products < its || products > its + 1 + updates || (end <= END_NO_NORM && products != its + updates),
                             "%s: %" INT " products for %" INT " iterations, %" INT " updates", what, products, its, updates));
        if (!end) PetscCall(VecCopy(x, first));
        PetscCall(CheckClose(what, x, first, 1e6 * PETSC_MACHINE_EPSILON)); /* the end by max_it */
        PetscCall(KSPDestroy(&ksp));
      }
    }
  }
  PetscCall(DestroyAll(&x, &first, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Vectors without an array of their own, from MATNEST. The back end is vec, or chosen by the solver */
static PetscErrorCode TestNest(void)
{
  Mat       blocks[4], A, S, B, X;
  Vec       b, x, parts[2];
  PetscInt  n, N;
  PetscReal rnorm, bnorm;
  KSP       ksp;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 9, 0.8, LAYOUT_EVEN, &blocks[0], &parts[0]));
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 9, 0.3, LAYOUT_EVEN, &blocks[3], &parts[1]));
  PetscCall(MatDuplicate(blocks[0], MAT_COPY_VALUES, &blocks[1]));
  PetscCall(MatDuplicate(blocks[3], MAT_COPY_VALUES, &blocks[2]));
  PetscCall(MatScale(blocks[1], 0.1));
  PetscCall(MatScale(blocks[2], -0.2));
  PetscCall(MatCreateNest(PETSC_COMM_WORLD, 2, NULL, 2, NULL, blocks, &A));
  PetscCall(MatNestSetVecType(A, VECNEST));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecSetGeneral(b, 1.0));
  PetscCall(VecGetLocalSize(b, &n));
  PetscCall(VecGetSize(b, &N));
  PetscCall(MatCreateShell(PETSC_COMM_WORLD, n, n, N, N, A, &S)); /* of the standard type of vectors */
  PetscCall(MatShellSetOperation(S, MATOP_MULT, (void (*)(void))PassMult));
  for (PetscInt i = 0; i < VARIANTS; i++) {
    const PetscBool shell = (PetscBool)(i / 8);
    static Watch    watch;
    Variant         variant;
    PC              pc;

    PetscCall(VariantCreate(shell ? S : A, i, &variant, &ksp));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(PCSetType(pc, PCNONE));
    PetscCall(KSPIDRSSetImplementation_Private(ksp, KSP_IDRS_AUTO));
    PetscCall(WatchSolver(variant.what, ksp, A, b, &watch));
    PetscCall(VecSetGeneral(x, 2.0));
    PetscCall(KSPSetInitialGuessNonzero(ksp, shell));
    PetscCall(SolveToNorm(variant.what, ksp, b, x));
    PetscCall(KSPDestroy(&ksp));
  }
  /* the solver has vectors of type nest, and the columns of B and X are not of this type */
  PetscCall(SolverCreate(A, 4, PCNONE, &ksp));
  PetscCall(BlocksCreate(S, 3, BLOCK_RANDOM, &B, &X));
  PetscCall(KSPMatSolve(ksp, B, X));
  for (PetscInt j = 0; j < 3; j++) {
    PetscCall(ColumnGet(B, j, b));
    PetscCall(ColumnGet(X, j, x));
    PetscCall(ResidualNorm(A, b, x, &rnorm, &bnorm));
    PetscCall(ComplainIf(!(rnorm <= 1.01 * rtol * bnorm), "KSPMatSolve(), column %" INT ": the norm of b - A x is %g of %g", j,
                         (double)rnorm, (double)bnorm));
  }
  PetscCall(DestroyAll(&ksp, &B, &X, &S, &A, &x, &b));
  for (PetscInt i = 0; i < 4; i++) PetscCall(MatDestroy(&blocks[i]));
  for (PetscInt i = 0; i < 2; i++) PetscCall(VecDestroy(&parts[i]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A preconditioner that varies between applications */
typedef struct {
  Vec      diagonal;
  PetscInt count;
} Varying;

static PetscErrorCode VaryingApply(PC pc, Vec x, Vec y)
{
  PetscScalar *array;
  Varying     *varying;
  PetscInt     begin, end;

  PetscFunctionBeginUser;
  PetscCall(PCShellGetContext(pc, &varying));
  PetscCall(VecPointwiseDivide(y, x, varying->diagonal));
  PetscCall(VecGetOwnershipRange(y, &begin, &end));
  PetscCall(VecGetArray(y, &array));
  for (PetscInt i = begin; i < end; i++) array[i - begin] *= 1.0 + 0.02 * PetscSinReal(1.0 * varying->count * (i + 1));
  PetscCall(VecRestoreArray(y, &array));
  varying->count++;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestVarying(void)
{
  Varying varying;
  Mat     A;
  Vec     b, x;

  PetscFunctionBeginUser;
  PetscCall(GridSystemCreate(14, 0.8, &A, &b, &x));
  PetscCall(VecDuplicate(b, &varying.diagonal));
  PetscCall(MatGetDiagonal(A, varying.diagonal));
  for (PetscInt s = 1; s <= 8; s *= 2) {
    for (PetscInt inner = 0; inner < 2; inner++) {
      for (PetscInt guess = 0; guess < 2; guess++) {
        static Watch watch;
        char         what[64];
        KSP          ksp, sub;
        PC           pc;

        PetscCall(PetscSNPrintf(what, sizeof(what), "%s, s = %" INT, inner ? "inner gmres" : "varying diagonal", s));
        PetscCall(SolverCreate(A, s, inner ? PCKSP : PCSHELL, &ksp));
        PetscCall(KSPGetPC(ksp, &pc));
        if (inner) {
          PetscCall(PCKSPGetKSP(pc, &sub));
          PetscCall(KSPSetType(sub, KSPGMRES));
          PetscCall(KSPSetTolerances(sub, 0.2, PETSC_DEFAULT, PETSC_DEFAULT, 100));
          PetscCall(KSPGetPC(sub, &pc));
          PetscCall(PCSetType(pc, PCJACOBI));
        } else {
          varying.count = 0;
          PetscCall(PCShellSetContext(pc, &varying));
          PetscCall(PCShellSetApply(pc, VaryingApply));
        }
        PetscCall(VecSetGeneral(x, 2.0));
        PetscCall(KSPSetInitialGuessNonzero(ksp, guess ? PETSC_TRUE : PETSC_FALSE));
        PetscCall(WatchSolver(what, ksp, A, b, &watch));
        PetscCall(SolveToNorm(what, ksp, b, x));
        PetscCall(KSPDestroy(&ksp));
      }
    }
  }
  PetscCall(DestroyAll(&varying.diagonal, &x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* An operator and a preconditioner whose inputs must have the DM of b and x */
typedef struct {
  Vec      diagonal;
  PetscInt without; /* inputs without it */
} Grid;

static PetscErrorCode GridApply(Grid *grid, Vec x, Vec y)
{
  DM da;

  PetscFunctionBeginUser;
  PetscCall(VecGetDM(x, &da));
  if (!da) grid->without++;
  PetscCall(VecPointwiseMult(y, grid->diagonal, x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode GridMult(Mat S, Vec x, Vec y)
{
  Grid *grid;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(S, &grid));
  PetscCall(GridApply(grid, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode GridPCApply(PC pc, Vec x, Vec y)
{
  Grid *grid;

  PetscFunctionBeginUser;
  PetscCall(PCShellGetContext(pc, &grid));
  PetscCall(GridApply(grid, x, y));
  PetscCall(VecScale(y, 0.1));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Every vector that the operator or the preconditioner gets has the DM of b and x */
static PetscErrorCode TestGrid(void)
{
  Grid     grid = {.without = 0};
  PetscInt n, N;
  DM       da;
  Mat      S;
  Vec      b, x;

  PetscFunctionBeginUser;
  PetscCall(DMDACreate2d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DMDA_STENCIL_STAR, 11, 9, PETSC_DECIDE, PETSC_DECIDE,
                         1, 1, NULL, NULL, &da));
  PetscCall(DMSetFromOptions(da));
  PetscCall(DMSetUp(da));
  PetscCall(DMCreateGlobalVector(da, &b));
  PetscCall(DMCreateGlobalVector(da, &x));
  PetscCall(DMCreateGlobalVector(da, &grid.diagonal));
  PetscCall(VecSetGeneral(grid.diagonal, 0.7));
  PetscCall(VecShift(grid.diagonal, 3.0));
  PetscCall(VecSetGeneral(b, 1.0));
  PetscCall(VecGetLocalSize(b, &n));
  PetscCall(VecGetSize(b, &N));
  PetscCall(MatCreateShell(PETSC_COMM_WORLD, n, n, N, N, &grid, &S));
  PetscCall(MatShellSetOperation(S, MATOP_MULT, (void (*)(void))GridMult));
  for (PetscInt i = 0; i < VARIANTS; i++) {
    Variant variant;
    PC      pc;
    KSP     ksp;

    PetscCall(VariantCreate(S, i, &variant, &ksp));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(PCSetType(pc, PCSHELL));
    PetscCall(PCShellSetContext(pc, &grid));
    PetscCall(PCShellSetApply(pc, GridPCApply));
    PetscCall(VecSetGeneral(x, 2.0));
    PetscCall(KSPSetInitialGuessNonzero(ksp, (PetscBool)(i / 8)));
    PetscCall(SolveToNorm(variant.what, ksp, b, x));
    PetscCall(ComplainIf(grid.without, "%s: %" INT " vectors without the DM", variant.what, grid.without));
    grid.without = 0;
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&S, &grid.diagonal, &x, &b, &da));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* One KSP for both directions in turn; each solve agrees with a KSP for the matrix, or for its transpose */
static PetscErrorCode TestDirections(void)
{
  static Watch watch[2];
  Mat          matrices[2];
  Vec          b, x;

  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < 2; i++) PetscCall(MatCreateEntries(Convection, LINE * LINE, (PetscBool)i, &matrices[i]));
  PetscCall(MatCreateVecs(matrices[0], &x, &b));
  PetscCall(VecSetGeneral(b, 1.0));
  for (PetscInt l = 0; l < VARIANTS; l++) {
    Variant variant;
    KSP     ksp;

    PetscCall(VariantCreate(matrices[0], l, &variant, &ksp));
    for (PetscInt turn = 0; turn < 4; turn++) {
      const PetscInt transposed = turn % 2;
      PetscInt       its[2];
      char           what[128];
      KSP            fresh;

      PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s, turn %" INT, transposed ? "transpose" : "matrix", variant.what, turn));
      PetscCall(VariantCreate(matrices[transposed], l, &variant, &fresh));
      for (PetscInt own = 0; own < 2; own++) {
        KSP solver = own ? fresh : ksp;

        PetscCall(WatchSolver(what, solver, matrices[transposed], b, &watch[own]));
        PetscCall(VecSetGeneral(x, 2.0));
        PetscCall(KSPSetInitialGuessNonzero(solver, turn / 2 ? PETSC_TRUE : PETSC_FALSE));
        if (transposed && !own) PetscCall(KSPSolveTranspose(solver, b, x));
        else PetscCall(KSPSolve(solver, b, x));
        PetscCall(CheckConvergedFor(what, solver, matrices[transposed], b, x));
        PetscCall(KSPGetIterationNumber(solver, &its[own]));
      }
      PetscCall(ComplainIf(PetscAbsInt(its[0] - its[1]) > 2 + its[1] / 5,
                           "%s: %" INT " iterations, %" INT " with the matrix itself", what, its[0], its[1]));
      for (PetscInt i = 0; i < PetscMin(12, its[1]); i++)
        PetscCall(
          ComplainIf(!(PetscAbsReal(watch[0].norms[i] - watch[1].norms[i]) <= PETSC_SQRT_MACHINE_EPSILON * watch[1].norms[0]),
                     "%s: norm %" INT " is %g, %g with the matrix itself", what, i, (double)watch[0].norms[i],
                     (double)watch[1].norms[i]));
      PetscCall(KSPDestroy(&fresh));
    }
    PetscCall(KSPDestroy(&ksp));
  }
  /* a transpose that PETSc assembles for the solve; early releases support nothing else */
  for (size_t is = 0; is < SIZES; is++) {
    KSP ksp;

    PetscCall(SolverCreate(matrices[0], sizes[is], PCJACOBI, &ksp));
    PetscCall(KSPSetUseExplicitTranspose(ksp, PETSC_TRUE));
    PetscCall(KSPSolveTranspose(ksp, b, x));
    PetscCall(CheckSolved("transpose, assembled", ksp, matrices[1], b, x));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&x, &b, &matrices[0], &matrices[1]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestMonitors, "monitors, solution and residual at every iteration"}, {TestEnds, "ends at every iteration"},
          {TestNest, "nested vectors"}, {TestGrid, "vectors of a grid"}, {TestVarying, "preconditioners that vary"},
          {TestDirections, "the matrix and its transpose by turns"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
