static char help[] = "KSPIDRS used again: after changes of settings and systems, with another solver inside, as another type;\n\
transposes, several right-hand sides and views in between.\n\n";

#include "systems.h"

static PetscErrorCode CheckSame(const char what[], const History *first, const History *second)
{
  PetscFunctionBeginUser;
  if (first->length != second->length || first->length < 2)
    PetscCall(Complain("%s: %" INT " norms instead of %" INT, what, second->length, first->length));
  else {
    for (PetscInt i = 0; i < first->length; i++) {
      if (!(first->norms[i] == second->norms[i])) {
        PetscCall(
          Complain("%s: norm %" INT " is %.16g instead of %.16g", what, i, (double)second->norms[i], (double)first->norms[i]));
        break;
      }
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Settings of a solver */
typedef struct {
  PetscInt  s, seed;
  PetscReal cosine, tolerance;
  PCSide    side;
} Settings;

static PetscErrorCode Set(const Settings *set, KSP ksp)
{
  PetscFunctionBeginUser;
  PetscCall(KSPIDRSSetShadowSize(ksp, set->s));
  PetscCall(KSPIDRSSetShadowSeed(ksp, set->seed));
  PetscCall(KSPIDRSSetMinimumCosine(ksp, set->cosine));
  PetscCall(KSPIDRSSetUpdateTolerance(ksp, set->tolerance));
  PetscCall(KSPSetPCSide(ksp, set->side));
  PetscCall(KSPSetNormType(ksp, KSP_NORM_DEFAULT)); /* PETSc keeps the norm of the old side otherwise */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that a used solver has the history of a new one with these settings, bit by bit */
static PetscErrorCode CheckAsNew(const char what[], const Settings *set, KSP used, Mat A, Vec b)
{
  History *history;
  KSP      ksp;
  Vec      x;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(2, &history));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(SolverCreate(A, 4, PCJACOBI, &ksp));
  PetscCall(Set(set, ksp));
  PetscCall(SolveHistory(ksp, b, x, &history[0]));
  PetscCall(CheckConverged("a new solver", ksp, b, x));
  PetscCall(SolveHistory(used, b, x, &history[1]));
  PetscCall(CheckConverged(what, used, b, x));
  PetscCall(CheckSame(what, &history[0], &history[1]));
  PetscCall(DestroyAll(&ksp, &x));
  PetscCall(PetscFree(history));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A used solver has no memory: after any change between two solves the next solve equals the solve of a new solver */
static PetscErrorCode TestReuse(void)
{
  static const struct {
    const char *what;
    Settings    set;
  } cases[] = {
    {"the same",                  {4, 0, 0.5, 1e-3, PC_RIGHT} },
    {"the same again",            {4, 0, 0.5, 1e-3, PC_RIGHT} },
    {"the same once more",        {4, 0, 0.5, 1e-3, PC_RIGHT} },
    {"larger s",                  {7, 0, 0.5, 1e-3, PC_RIGHT} },
    {"smaller s",                 {2, 0, 0.5, 1e-3, PC_RIGHT} },
    {"another seed",              {2, 17, 0.5, 1e-3, PC_RIGHT}},
    {"another cosine",            {2, 17, 0.0, 1e-3, PC_RIGHT}},
    {"no reliable updates",       {2, 17, 0.0, 0.0, PC_RIGHT} },
    {"frequent reliable updates", {2, 17, 0.0, 0.5, PC_RIGHT} },
    {"left side",                 {2, 17, 0.0, 0.5, PC_LEFT}  },
    {"right side again",          {2, 17, 0.0, 0.5, PC_RIGHT} },
  };
  const Settings *last = &cases[PETSC_STATIC_ARRAY_LENGTH(cases) - 1].set;
  Mat             A, B, C;
  Vec             b, c;
  KSP             ksp;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 12, 0.8, LAYOUT_EVEN, &A, &b));
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 9, 0.3, LAYOUT_EVEN, &C, &c));
  PetscCall(SolverCreate(A, 4, PCJACOBI, &ksp));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(cases); i++) {
    PetscCall(Set(&cases[i].set, ksp));
    PetscCall(CheckAsNew(cases[i].what, &cases[i].set, ksp, A, b));
  }
  PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &B));
  PetscCall(MatShift(A, 0.7));
  PetscCall(CheckAsNew("other values", last, ksp, A, b));
  PetscCall(KSPSetOperators(ksp, B, B));
  PetscCall(CheckAsNew("another matrix", last, ksp, B, b));
  PetscCall(ResetWith(ksp, C));
  PetscCall(CheckAsNew("another size", last, ksp, C, c));
  PetscCall(KSPReset(ksp));
  PetscCall(KSPReset(ksp));
  PetscCall(DestroyAll(&ksp, &b, &c, &A, &B, &C));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A monitor that solves another system with another solver */
typedef struct {
  KSP      ksp;
  Vec      b, x;
  PetscInt solves;
} Other;

static PetscErrorCode QuietMonitor(KSP ksp, PetscInt its, PetscReal norm, void *ctx)
{
  return PETSC_SUCCESS;
}

static PetscErrorCode OtherMonitor(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  Other *other = (Other *)ctx;

  PetscFunctionBeginUser;
  if (its % 3 == 0) {
    PetscCall(KSPSolve(other->ksp, other->b, other->x));
    PetscCall(CheckConverged("the solver inside", other->ksp, other->b, other->x));
    other->solves++;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks the options of the second of the solvers below */
static PetscErrorCode CheckOptions(KSP ksp)
{
  const KSPIDRSSettings *set;

  PetscFunctionBeginUser;
  PetscCall(KSPIDRSGetSettings_Private(ksp, &set));
  PetscCall(ComplainIf(set->seed != 3 || !(set->cosine == 0.25) || !(set->updatetol == (PetscReal)0.1) || set->maxrestarts != 5 ||
                         set->width != 6 || !set->block,
                       "options: seed %" INT ", cosine %g, update tolerance %g, %" INT " restarts, width %" INT "%s", set->seed,
                       (double)set->cosine, (double)set->updatetol, set->maxrestarts, set->width, set->block ? ", block" : ""));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Two solvers with prefixes and options of their own, one of which solves in a monitor of the other */
static PetscErrorCode TestTwo(void)
{
  const char *prefixes[] = {"first_", "second_"};
  History    *expected, *found;
  PetscInt    s;
  Other       other;
  Mat         A, C;
  Vec         b, x;
  KSP         ksp[2];

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc2(1, &expected, 1, &found));
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 12, 0.8, LAYOUT_EVEN, &A, &b));
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 9, 0.3, LAYOUT_EVEN, &C, &other.b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(other.b, &other.x));
  PetscCall(PetscOptionsInsertString(NULL, "-first_ksp_idrs_s 2 -second_ksp_idrs_s 8 -second_ksp_idrs_cosine 0.25 "
                                           "-second_ksp_idrs_seed 3 -second_ksp_idrs_update_tol 0.1 "
                                           "-second_ksp_idrs_max_restarts 5 -second_ksp_idrs_width 6 -second_ksp_idrs_block true"));
  for (PetscInt i = 0; i < 2; i++) {
    PetscCall(SolverCreate(i ? C : A, 4, PCJACOBI, &ksp[i]));
    PetscCall(KSPSetOptionsPrefix(ksp[i], prefixes[i]));
    PetscCall(KSPSetFromOptions(ksp[i]));
    PetscCall(KSPIDRSGetShadowSize(ksp[i], &s));
    PetscCall(ComplainIf(s != (i ? 8 : 2), "-%sksp_idrs_s: s = %" INT, prefixes[i], s));
  }
  PetscCall(CheckOptions(ksp[1]));
  /* on a GPU both solves run in lockstep then, with the same rounding */
  PetscCall(KSPMonitorSet(ksp[0], QuietMonitor, NULL, NULL));
  PetscCall(SolveHistory(ksp[0], b, x, expected));
  other.ksp    = ksp[1];
  other.solves = 0;
  PetscCall(KSPMonitorSet(ksp[0], OtherMonitor, &other, NULL));
  PetscCall(SolveHistory(ksp[0], b, x, found));
  PetscCall(CheckConverged("the solver outside", ksp[0], b, x));
  PetscCall(CheckSame("interleaved", expected, found));
  PetscCall(ComplainIf(other.solves < 3, "only %" INT " solves inside", other.solves));
  {
    PetscInt products, reductions, updates, restarts;

    PetscCall(KSPIDRSSetShadowSize(ksp[0], 3));
    PetscCall(KSPSetUp(ksp[0]));
    PetscCall(KSPIDRSGetCounts(ksp[0], &products, &reductions, &updates, &restarts));
    PetscCall(ComplainIf(products || reductions || updates || restarts,
                         "set up again, not solved: %" INT " products, %" INT " reductions, %" INT " updates, %" INT " restarts",
                         products, reductions, updates, restarts));
  }
  for (PetscInt i = 0; i < 2; i++) PetscCall(KSPDestroy(&ksp[i]));
  PetscCall(DestroyAll(&x, &b, &other.x, &other.b, &A, &C));
  PetscCall(PetscFree2(expected, found));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode CheckDivtol(const char what[], KSP ksp, PetscReal expected)
{
  PetscReal divtol;

  PetscFunctionBeginUser;
  PetscCall(KSPGetTolerances(ksp, NULL, NULL, &divtol, NULL));
  PetscCall(ComplainIf(!(PetscAbsReal(divtol - expected) <= 1e-6 * expected), "%s: divergence tolerance %g instead of %g", what,
                       (double)divtol, (double)expected));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Changes from one type to another and back. The divergence tolerance is raised for this type only, and only if it is PETSc's
   default
*/
static PetscErrorCode TestTypes(void)
{
  PetscInt s;
  Mat      A;
  Vec      b, x;
  KSP      ksp;

  PetscFunctionBeginUser;
  PetscCall(GridSystemCreate(12, 0.8, &A, &b, &x));
  PetscCall(SolverCreate(A, 6, PCJACOBI, &ksp));
  for (PetscInt i = 0; i < 3; i++) {
    PetscCall(CheckDivtol("the default", ksp, 1e30));
    PetscCall(SolveToNorm("before gmres", ksp, b, x));
    PetscCall(KSPSetType(ksp, KSPGMRES));
    PetscCall(CheckDivtol("gmres after it", ksp, 1e4));
    /* with another type the setters do nothing */
    PetscCall(KSPIDRSSetShadowSize(ksp, 3));
    PetscCall(SolveToNorm("gmres", ksp, b, x));
    PetscCall(KSPSetType(ksp, KSPIDRS));
    PetscCall(KSPIDRSGetShadowSize(ksp, &s));
    PetscCall(ComplainIf(s != 4 && s != 6, "s = %" INT " after gmres", s));
    PetscCall(KSPIDRSSetImplementation_Private(ksp, implementation));
  }
  PetscCall(KSPDestroy(&ksp));

  /* a tolerance of the user stays, before and after the type */
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetTolerances(ksp, PETSC_DEFAULT, PETSC_DEFAULT, 1e6, PETSC_DEFAULT));
  PetscCall(KSPSetType(ksp, KSPIDRS));
  PetscCall(CheckDivtol("set before the type", ksp, 1e6));
  PetscCall(KSPSetType(ksp, KSPBCGS));
  PetscCall(CheckDivtol("set before both types", ksp, 1e6));
  PetscCall(KSPSetType(ksp, KSPIDRS));
  PetscCall(KSPSetTolerances(ksp, 1e-3, PETSC_DEFAULT, 1e7, PETSC_DEFAULT));
  PetscCall(KSPSetType(ksp, KSPBCGS));
  PetscCall(CheckDivtol("set with the type", ksp, 1e7));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetType(ksp, KSPIDRS));
  PetscCall(KSPSetTolerances(ksp, 1e-3, PETSC_DEFAULT, PETSC_DEFAULT, 7));
  PetscCall(CheckDivtol("others set after the type", ksp, 1e30));
  PetscCall(PetscOptionsSetValue(NULL, "-ksp_divtol", "1e4"));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(PetscOptionsClearValue(NULL, "-ksp_divtol"));
  PetscCall(CheckDivtol("by option", ksp, 1e4));
  PetscCall(KSPDestroy(&ksp));

  /* an option is effective if another option sets the type, and destroying an unused solver leaks nothing */
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOptionsPrefix(ksp, "by_"));
  PetscCall(PetscOptionsSetValue(NULL, "-by_ksp_type", "idrs"));
  PetscCall(PetscOptionsSetValue(NULL, "-by_ksp_idrs_s", "11"));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(KSPIDRSGetShadowSize(ksp, &s));
  PetscCall(ComplainIf(s != 11, "-by_ksp_type idrs -by_ksp_idrs_s 11: s = %" INT, s));
  PetscCall(DestroyAll(&ksp, &x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Systems with the transpose, and with several right-hand sides; viewers work at any stage of a solver */
static PetscErrorCode TestOthers(void)
{
  const PCSide sides[] = {PC_RIGHT, PC_LEFT};
  PetscViewer  viewer;
  PetscReal    norm, reference;
  PetscInt     n, N;
  Mat          A, B, X;
  Vec          b, x, r;
  KSP          ksp;

  PetscFunctionBeginUser;
  PetscCall(GridSystemCreate(12, 0.8, &A, &b, &x));
  PetscCall(VecDuplicate(b, &r));
  PetscCall(VecGetLocalSize(b, &n));
  PetscCall(VecGetSize(b, &N));
  PetscCall(VecNorm(b, NORM_2, &reference));
  PetscCall(PetscViewerASCIIOpen(PETSC_COMM_WORLD, "/dev/null", &viewer));
  for (PetscInt i = 0; i < 2; i++) {
    PetscCall(SolverCreateSide(A, 4, sides[i], PCJACOBI, &ksp));
    PetscCall(KSPView(ksp, viewer));
    PetscCall(KSPSetUp(ksp));
    PetscCall(KSPView(ksp, viewer));
    PetscCall(KSPSolveTranspose(ksp, b, x));
    PetscCall(KSPView(ksp, viewer));
    PetscCall(MatMultTranspose(A, x, r));
    PetscCall(VecAYPX(r, -1.0, b));
    PetscCall(VecNorm(r, NORM_2, &norm));
    PetscCall(ComplainIf(!(norm <= 3 * rtol * reference), "transpose, %s: the norm of the residual is %g of %g", PCSides[sides[i]],
                         (double)norm, (double)reference));
    PetscCall(SolveToNorm("after the transpose", ksp, b, x));

    PetscCall(MatCreateDense(PETSC_COMM_WORLD, n, PETSC_DECIDE, N, 3, NULL, &B));
    PetscCall(MatSetUp(B));
    for (PetscInt j = 0; j < 3; j++) {
      Vec column;

      PetscCall(MatDenseGetColumnVecWrite(B, j, &column));
      PetscCall(VecSetGeneral(column, 1.0 + j));
      PetscCall(MatDenseRestoreColumnVecWrite(B, j, &column));
    }
    PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
    PetscCall(KSPMatSolve(ksp, B, X));
    for (PetscInt j = 0; j < 3; j++) {
      PetscCall(ColumnGet(B, j, b));
      PetscCall(ColumnGet(X, j, x));
      PetscCall(SolverNorm(ksp, b, x, &norm));
      PetscCall(VecNorm(b, NORM_2, &reference));
      PetscCall(ComplainIf(!(norm <= 1.01 * rtol * reference), "column %" INT ", %s: the norm of the residual is %g of %g", j,
                           PCSides[sides[i]], (double)norm, (double)reference));
    }
    PetscCall(VecSetGeneral(b, 1.0));
    PetscCall(VecNorm(b, NORM_2, &reference));
    PetscCall(DestroyAll(&B, &X, &ksp));
  }
  PetscCall(DestroyAll(&viewer, &r, &x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks the detailed view of the passes: every operation, and the bytes of its vectors. Vec calls have no such lines */
static PetscErrorCode TestView(void)
{
  const char *const     operations[] = {"project", "update", "advance", "all of these"};
  KSPIDRSImplementation got;
  PetscMPIInt           rank;
  PetscInt              n, lines;
  PetscBool             device;
  Mat                   A;
  Vec                   b, x;
  KSP                   ksp;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCall(GridSystemCreate(12, 0.8, &A, &b, &x));
  PetscCall(VecGetLocalSize(b, &n));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)b, &device, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(SolverCreate(A, 4, PCJACOBI, &ksp));
  PetscCall(KSPIDRSSetRun_Private(ksp, KSP_IDRS_RUN_STEPS)); /* one kernel has no passes */
  PetscCall(KSPIDRSSetUpdateTolerance(ksp, 0.0));
  GetSetting(ksp, implementation, &got);
  PetscCall(ComplainIf(got != implementation, "implementation %d, not %d", (int)got, (int)implementation));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(DetailNumbers((PetscObject)ksp, "no reliable updating", 0, NULL, &lines));
  PetscCall(ComplainIf(lines != 1, "%" INT " lines about reliable updating", lines));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(operations); i++) {
    PetscReal vectors = 0.0, bytes = 0.0;
    char      key[64];

    PetscCall(PetscSNPrintf(key, sizeof(key), "%s ... calls", operations[i]));
    PetscCall(DetailNumbers((PetscObject)ksp, key, 1, &vectors, &lines));
    PetscCall(ComplainIf(lines != (device && implementation != KSP_IDRS_VEC), "%s: %" INT " lines", key, lines));
    PetscCall(PetscSNPrintf(key, sizeof(key), "%s ... vectors", operations[i]));
    PetscCall(DetailNumbers((PetscObject)ksp, key, 1, &bytes, &lines));
    if (lines && !rank) /* of the first process */
      PetscCall(ComplainIf(!(PetscAbsReal(bytes / (PetscReal)sizeof(PetscScalar) - vectors * (PetscReal)n) <= 0.01 * (PetscReal)n),
                           "%s: %g bytes for %g vectors", operations[i], (double)bytes, (double)vectors));
  }
  PetscCall(DestroyAll(&ksp, &x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestReuse, "reuse"}, {TestTwo, "two solvers with prefixes"}, {TestTypes, "types and the divergence tolerance"},
          {TestOthers, "transpose, several right-hand sides, views"}, {TestView, "view in detail"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 2}}

TEST*/
