static char help[] = "KSPMatSolve() with KSPIDRS and other features of PETSc: null spaces, features for which columns are solved\n\
one by one, output, and KSPIDRS inside other solvers.\n\n";

#include "columns.h"

#define COLUMNS 6

static PetscErrorCode ConvergedAtTen(KSP ksp, PetscInt its, PetscReal norm, KSPConvergedReason *reason, void *ctx)
{
  *reason = its >= 10 ? KSP_CONVERGED_ITS : KSP_CONVERGED_ITERATING;
  return PETSC_SUCCESS;
}

static PetscErrorCode Before(KSP ksp, Vec b, Vec x, void *ctx)
{
  ++*(PetscInt *)ctx;
  return PETSC_SUCCESS;
}

/* Checks the smallest, median and largest number of iterations, and the number of failures, in the view */
static PetscErrorCode CheckIterationsView(KSP ksp)
{
  const KSPConvergedReason *reasons;
  const PetscInt           *its;
  PetscInt                  n, sorted[COLUMNS], failed = 0;
  char                      text[128];

  PetscFunctionBeginUser;
  PetscCall(KSPIDRSGetColumnResults(ksp, &n, &reasons, &its, NULL));
  PetscCall(ComplainIf(n != COLUMNS, "results of %" INT " columns", n));
  PetscCall(PetscArraycpy(sorted, its, COLUMNS));
  PetscCall(PetscSortInt(COLUMNS, sorted));
  for (PetscInt j = 0; j < COLUMNS; j++) failed += reasons[j] < 0 ? 1 : 0;
  PetscCall(PetscSNPrintf(text, sizeof(text),
                          "smallest %" INT " ... median %" INT " ... largest %" INT " ... %" INT " right-hand sides", sorted[0],
                          sorted[COLUMNS / 2], sorted[COLUMNS - 1], failed));
  PetscCall(CheckView(ksp, text, 1));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   If a feature needs the iterate of one right-hand side, columns are solved one by one with the same bits as KSPSolve(), and the
   view states the reason
*/
static PetscErrorCode TestApart(void)
{
  enum {
    TOGETHER,
    WIDTH,
    SMOOTHING,
    MONITOR,
    TEST,
    KNOLL,
    BEFORE,
    GUESS, /* from earlier solutions, so that the results of later solves change */
    WAYS
  };
  const char *const why[WAYS] = {[TOGETHER]  = "6 right-hand sides ... at the same time",
                                 [WIDTH]     = "one by one: ... width",
                                 [SMOOTHING] = "one by one: ... smoothing",
                                 [MONITOR]   = "one by one: ... monitor",
                                 [TEST]      = "one by one: ... convergence test",
                                 [KNOLL]     = "one by one: ... guess",
                                 [BEFORE]    = "one by one: ... before and after",
                                 [GUESS]     = "one by one: ... guess"};
  PetscInt          before    = 0;
  Vec               b, x, y;
  Mat               B, X;
  Mat               A;

  PetscFunctionBeginUser;
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, 10, 0.8, 0.4, &A));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecDuplicate(x, &y));
  PetscCall(BlockCreate(A, COLUMNS, &B));
  PetscCall(BlockSet(A, BLOCK_ZERO, B)); /* so that some columns have 0 iterations */
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
  for (PetscInt i = 0; i < WAYS; i++) {
    const PetscBool limited = (PetscBool)(i == TOGETHER || i == WIDTH); /* so that some columns do not converge */
    KSP             ksp;

    PetscCall(SolverCreate(A, 4, PCJACOBI, &ksp));
    if (limited) PetscCall(KSPSetTolerances(ksp, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT, 12));
    if (i == WIDTH) PetscCall(KSPIDRSSetWidth_Private(ksp, 1));
    if (i == SMOOTHING) PetscCall(KSPIDRSSetSmoothing(ksp, PETSC_TRUE));
    if (i == MONITOR) PetscCall(KSPMonitorSet(ksp, QuietMonitor, NULL, NULL));
    if (i == TEST) PetscCall(KSPSetConvergenceTest(ksp, ConvergedAtTen, NULL, NULL));
    if (i == KNOLL) PetscCall(KSPSetInitialGuessKnoll(ksp, PETSC_TRUE));
    if (i == BEFORE) PetscCall(KSPSetPreSolve(ksp, Before, &before));
    if (i == GUESS) PetscCall(KSPSetUseFischerGuess(ksp, 1, 4));
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscCall(CheckView(ksp, why[i], 1));
    PetscCall(CheckViewLines(why[i], (PetscObject)ksp));
    PetscCall(CheckIterationsView(ksp));
    PetscCall(ComplainIf(i == BEFORE && before != COLUMNS, "%" INT " calls before %d solves", before, COLUMNS));
    if (i == GUESS) PetscCall(CheckBlock(why[i], ksp, A, B, X, PETSC_TRUE));
    for (PetscInt j = 0; i != TOGETHER && i != GUESS && j < COLUMNS; j++) {
      PetscBool equal;

      PetscCall(ColumnGet(B, j, b));
      PetscCall(ColumnGet(X, j, y));
      PetscCall(KSPSolve(ksp, b, x));
      PetscCall(VecEqual(x, y, &equal));
      PetscCall(ComplainIf(!equal, "%s: column %" INT " is not what KSPSolve() makes of it", why[i], j));
    }
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&b, &x, &y, &B, &X));
  PetscCall(MatDestroy(&A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Rows sum to zero, and columns do not */
static PetscScalar Singular(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 3.0 : (j == (i + 1) % n ? -2.0 : (j == (i + n - 1) % n ? -1.0 : 0.0));
}

/* A matrix with a null space, and right-hand sides outside its range: KSPSolve() has the same results */
static PetscErrorCode TestNullSpace(void)
{
  const char *const pctypes[] = {PCNONE, PCBJACOBI};
  MatNullSpace      space;
  Vec               b, x, y;
  Mat               A, B, X;

  PetscFunctionBeginUser;
  PetscCall(MatCreateEntries(Singular, 50, PETSC_FALSE, &A));
  PetscCall(MatNullSpaceCreate(PETSC_COMM_WORLD, PETSC_TRUE, 0, NULL, &space));
  PetscCall(MatSetNullSpace(A, space));
  PetscCall(MatSetTransposeNullSpace(A, space));
  PetscCall(MatNullSpaceDestroy(&space));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecDuplicate(x, &y));
  PetscCall(BlocksCreate(A, COLUMNS, BLOCK_RANDOM, &B, &X));
  for (size_t i = 0; i < 2 * PETSC_STATIC_ARRAY_LENGTH(pctypes); i++) {
    const KSPConvergedReason *reasons;
    KSP                       ksp;

    PetscCall(SolverCreateSide(A, 4, i % 2 ? PC_LEFT : PC_RIGHT, pctypes[i / 2], &ksp));
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscCall(KSPIDRSGetColumnResults(ksp, NULL, &reasons, NULL, NULL));
    for (PetscInt j = 0; j < COLUMNS; j++) {
      char what[64];

      PetscCall(ColumnGet(B, j, b));
      PetscCall(ColumnGet(X, j, y));
      PetscCall(KSPSolve(ksp, b, x));
      PetscCall(PetscSNPrintf(what, sizeof(what), "%s, case %d, column %" INT ": %s", pctypes[i / 2], (int)i, j,
                              KSPConvergedReasons[reasons[j]]));
      PetscCall(ComplainIf(reasons[j] <= 0, "%s", what));
      PetscCall(CheckClose(what, y, x, 1e5 * rtol)); /* the solution of KSPSolve() */
    }
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&b, &x, &y, &B, &X, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets two levels of PCMG: a coarse unknown for each pair of rows of a process. The interpolation has the type of A */
static PetscErrorCode SetLevels(Mat A, PC pc)
{
  PetscInt n, begin, end, first;
  MatType  type;
  Mat      P;

  PetscFunctionBeginUser;
  PetscCall(MatGetLocalSize(A, &n, NULL));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  PetscCall(MatGetType(A, &type));
  PetscCall(MatCreate(PETSC_COMM_WORLD, &P));
  PetscCall(MatSetSizes(P, n, (n + 1) / 2, PETSC_DETERMINE, PETSC_DETERMINE));
  PetscCall(MatSetType(P, type));
  PetscCall(MatSeqAIJSetPreallocation(P, 1, NULL));
  PetscCall(MatMPIAIJSetPreallocation(P, 1, NULL, 0, NULL));
  PetscCall(MatGetOwnershipRangeColumn(P, &first, NULL));
  for (PetscInt i = begin; i < end; i++) PetscCall(MatSetValue(P, i, first + (i - begin) / 2, 1.0, INSERT_VALUES));
  PetscCall(MatAssemble(P));
  PetscCall(PCMGSetLevels(pc, 2, NULL));
  PetscCall(PCMGSetGalerkin(pc, PC_MG_GALERKIN_BOTH));
  PetscCall(PCMGSetInterpolation(pc, 1, P));
  PetscCall(MatDestroy(&P));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode GetSmoother(PC pc, KSP *inner)
{
  PetscFunctionBeginUser;
  PetscCall(PCMGGetSmoother(pc, 1, inner));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode GetBlock(PC pc, KSP *inner)
{
  KSP *blocks;

  PetscFunctionBeginUser;
  PetscCall(PCBJacobiGetSubKSP(pc, NULL, NULL, &blocks));
  *inner = blocks[0];
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The tolerance of an inner solver that solves the system, and that the precision attains */
#if PetscDefined(USE_REAL_SINGLE)
  #define INNER_RTOL "5e-6"
#else
  #define INNER_RTOL "1e-10"
#endif

/* A solver inside another solver */
typedef struct {
  const char *options;
  PetscBool   loose; /* inexact, so that the outer solver must iterate */
  PetscErrorCode (*set)(Mat, PC);
  PetscErrorCode (*get)(PC, KSP *); /* the inner solver, if every PETSc calls its KSPMatSolve() under idrs */
} Inside;

/* idrs as the solver of a block, of levels and of PCKSP, which call its KSPMatSolve() */
static PetscErrorCode TestInside(void)
{
  const char *const outer[]  = {KSPIDRS, KSPPREONLY};
  const Inside      inside[] = {
    /* clang-format off */
    {"-pc_type ksp -ksp_ksp_type idrs -ksp_ksp_rtol 1e-2 -ksp_pc_type jacobi", PETSC_TRUE, NULL, NULL},
    {"-pc_type bjacobi -sub_ksp_type idrs -sub_ksp_rtol 1e-3 -sub_pc_type none", PETSC_TRUE, NULL, GetBlock},
    {"-pc_type mg -mg_levels_ksp_type idrs -mg_levels_ksp_max_it 3 -mg_levels_ksp_norm_type none "
     "-mg_levels_ksp_convergence_test skip -mg_levels_pc_type jacobi -mg_coarse_ksp_type idrs -mg_coarse_ksp_rtol 1e-3 "
     "-mg_coarse_pc_type none", PETSC_TRUE, SetLevels, GetSmoother},
    {"-pc_type ksp -ksp_ksp_type idrs -ksp_ksp_rtol " INNER_RTOL " -ksp_pc_type bjacobi", PETSC_FALSE, NULL, NULL}
    /* clang-format on */
  };
  Mat A;

  PetscFunctionBeginUser;
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, 10, 0.8, 0.4, &A));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(outer); i++) {
    for (size_t o = 0; o < PETSC_STATIC_ARRAY_LENGTH(inside); o++) {
      Vec b, x;
      Mat B, X;
      KSP ksp, inner;
      PC  pc;

      if (i && inside[o].loose) continue;
      PetscCall(PetscOptionsInsertString(NULL, inside[o].options));
      PetscCall(BlocksCreate(A, COLUMNS, BLOCK_ZERO, &B, &X));
      PetscCall(MatCreateVecs(A, &x, &b));
      PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
      PetscCall(KSPSetOperators(ksp, A, A));
      PetscCall(KSPSetType(ksp, outer[i]));
      PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 1000));
      PetscCall(KSPGetPC(ksp, &pc));
      PetscCall(PCSetFromOptions(pc));
      if (inside[o].set) PetscCall((*inside[o].set)(A, pc));
      PetscCall(KSPSetFromOptions(ksp));
      PetscCall(KSPMatSolve(ksp, B, X));
      if (!i && inside[o].get) {
        PetscInt n;

        PetscCall((*inside[o].get)(pc, &inner));
        PetscCall(KSPIDRSGetColumnResults(inner, &n, NULL, NULL, NULL));
        PetscCall(ComplainIf(!n, "%s: the inner solver has been given one right-hand side after another", inside[o].options));
      }
      for (PetscInt j = 0; j < COLUMNS; j++) {
        PetscReal norm, bnorm;

        PetscCall(ColumnGet(B, j, b));
        PetscCall(ColumnGet(X, j, x));
        PetscCall(ResidualNorm(A, b, x, &norm, &bnorm));
        PetscCall(ComplainIf(!(norm <= 100 * rtol * bnorm), "%s, %s: the norm of b - A x is %g of %g", outer[i], inside[o].options,
                             (double)norm, (double)bnorm));
      }
      PetscCall(DestroyAll(&ksp, &b, &x, &B, &X));
      PetscCall(PetscOptionsClear(NULL));
    }
  }
  PetscCall(MatDestroy(&A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* From 3.26 on PETSc warns that the short monitor is deprecated */
#if PETSC_VERSION_LT(3, 26, 0)
  #define SHORT_MONITOR "ksp_monitor_short"
#else
  #define SHORT_MONITOR "ksp_monitor"
#endif

/*
   KSPMatSolve() prints its final messages once, for any number of right-hand sides, also if they are solved one by one. With a
   short monitor they are still solved at the same time
*/
static PetscErrorCode TestPrinted(void)
{
  static const struct {
    PetscInt    columns, lines;
    const char *options, *view;
  } cases[] = {
    {1,       0, "",                                                                 "one by one: ... one"                    },
    {COLUMNS, 0, "",                                                                 "6 right-hand sides ... at the same time"},
    {COLUMNS, 0, "-p_pc_type poly",                                                  "6 right-hand sides ... at the same time"},
    {COLUMNS, 0, "-p_ksp_idrs_width 1",                                              "one by one: ... width"                  },
    {COLUMNS, 1, "-p_ksp_idrs_block -p_" SHORT_MONITOR " ascii:monitor.txt",         "6 right-hand sides ... at the same time"},
    {COLUMNS, 1, "-p_ksp_idrs_block -p_ksp_monitor_true_residual ascii:monitor.txt",
     "one by one ... block recurrence: ... monitor"                                                                           },
  };
  Mat A;

  PetscFunctionBeginUser;
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, 10, 0.8, 0.4, &A));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(cases); i++) {
    PetscInt     lines;
    Mat          B, X;
    KSP          ksp;
    PetscOptions options;

    PetscCall(OptionsPush(cases[i].options, &options));
    PetscCall(PetscOptionsInsertString(
      options, "-p_ksp_converged_reason ascii:reasons.txt::append -p_ksp_view_solution ascii:solutions.txt::append"));
    PetscCall(SolverCreate(A, 4, PCJACOBI, &ksp));
    PetscCall(KSPSetOptionsPrefix(ksp, "p_"));
    PetscCall(KSPSetFromOptions(ksp));
    PetscCall(BlocksCreate(A, cases[i].columns, BLOCK_RANDOM, &B, &X));
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscCall(CheckView(ksp, cases[i].view, 1));
    PetscCall(KSPDestroy(&ksp));
    PetscCall(OptionsPop(&options));
    PetscCall(FileNumbers("reasons.txt", "solve converged", 0, NULL, &lines));
    PetscCall(ComplainIf(lines != 1, "%" INT " columns, %s: the reason is printed %" INT " times", cases[i].columns,
                         cases[i].options, lines));
    PetscCall(FileNumbers("solutions.txt", "Object", 0, NULL, &lines));
    PetscCall(
      ComplainIf(lines != 1, "%" INT " columns, %s: %" INT " solutions are printed", cases[i].columns, cases[i].options, lines));
    PetscCall(FileNumbers("monitor.txt", "0 KSP", 0, NULL, &lines));
    PetscCall(ComplainIf((lines > 0) != (cases[i].lines > 0), "%" INT " columns, %s: the monitor prints %" INT " lines",
                         cases[i].columns, cases[i].options, lines));
    PetscCall(DestroyAll(&B, &X));
  }
  PetscCall(MatDestroy(&A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestApart, "one by one where that is needed"}, {TestNullSpace, "null spaces"}, {TestInside, "inside of other solvers"},
          {TestPrinted, "printed once"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 2}}

TEST*/
