static char help[] = "KSPIDRS used again: settings at any time and on other types, changes of settings, systems and types between\n\
solves, a solver inside another one; after any change a solve equals the solve of a new solver.\n\n";

#include "systems.h"

#define ROWS (LINE * LINE)

/* Defaults of KSPIDRS */
static const PetscReal defaults[13] = {
  4, 0, 10, 0.5, 1e-3, KSP_IDRS_AUTO, KSP_IDRS_COMMUNICATION_AUTO, KSP_IDRS_PRODUCT_AUTO, KSP_IDRS_RUN_AUTO,
  16}; /* then never, false */

/* Gets all values, in this order; returns the first error */
static PetscErrorCode GetSettings(KSP ksp, PetscReal values[])
{
  const KSPIDRSSettings *set;

  PetscFunctionBeginUser;
  PetscCall(KSPIDRSGetSettings_Private(ksp, &set));
  values[0]  = (PetscReal)set->s;
  values[1]  = (PetscReal)set->seed;
  values[2]  = (PetscReal)set->maxrestarts;
  values[3]  = set->cosine;
  values[4]  = set->updatetol;
  values[5]  = (PetscReal)set->implementation;
  values[6]  = (PetscReal)set->communication;
  values[7]  = (PetscReal)set->product;
  values[8]  = (PetscReal)set->run;
  values[9]  = (PetscReal)set->width;
  values[10] = (PetscReal)set->recycle;
  values[11] = (PetscReal)set->block;
  values[12] = (PetscReal)set->smoothing;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode CheckDefaults(const char what[], KSP ksp)
{
  PetscReal values[PETSC_STATIC_ARRAY_LENGTH(defaults)];

  PetscFunctionBeginUser;
  PetscCall(GetSettings(ksp, values));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(defaults); i++)
    PetscCall(ComplainIf(!(values[i] == defaults[i]), "%s: setting %d is %g, not %g", what, (int)i, (double)values[i],
                         (double)defaults[i]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Calls every setter, with values that are not the defaults, or not allowed */
static PetscErrorCode SetAll(KSP ksp, PetscBool right, Vec P[])
{
  PetscFunctionBeginUser;
  PetscCall(KSPIDRSSetShadowSize(ksp, right ? 7 : -7));
  PetscCall(KSPIDRSSetShadowSeed(ksp, right ? 5 : -5));
  PetscCall(KSPIDRSSetMaxRestarts_Private(ksp, right ? 3 : -3));
  PetscCall(KSPIDRSSetMinimumCosine(ksp, right ? 0.25 : 2.0));
  PetscCall(KSPIDRSSetUpdateTolerance(ksp, right ? 0.1 : 10.0));
  PetscCall(KSPIDRSSetImplementation_Private(ksp, KSP_IDRS_VEC));
  PetscCall(KSPIDRSSetCommunication_Private(ksp, KSP_IDRS_COMMUNICATION_MPI));
  PetscCall(KSPIDRSSetProduct_Private(ksp, KSP_IDRS_PRODUCT_MAT));
  PetscCall(KSPIDRSSetRun_Private(ksp, KSP_IDRS_RUN_STEPWISE));
  PetscCall(KSPIDRSSetRecycle(ksp, KSP_IDRS_RECYCLE_ALWAYS));
  PetscCall(KSPIDRSResetRecycle(ksp));
  PetscCall(KSPIDRSSetWidth_Private(ksp, right ? 5 : 50));
  PetscCall(KSPIDRSSetBlock(ksp, PETSC_TRUE));
  PetscCall(KSPIDRSSetSmoothing(ksp, PETSC_TRUE));
  PetscCall(KSPIDRSSetShadowVecs(ksp, 2, P));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Before the type is set, and for other types, setters do nothing and getters are errors; then the type has its defaults */
static PetscErrorCode TestElsewhere(Mat A, Vec b, Vec x, Vec P[])
{
  const KSPType types[] = {NULL, KSPGMRES, KSPBCGS, KSPPREONLY};

  PetscFunctionBeginUser;
  for (size_t it = 0; it < PETSC_STATIC_ARRAY_LENGTH(types); it++) {
    for (PetscInt right = 0; right < 2; right++) {
      const char    *what = types[it] ? types[it] : "no type";
      PetscReal      values[PETSC_STATIC_ARRAY_LENGTH(defaults)];
      PetscInt       references;
      PetscErrorCode ierr;
      KSP            ksp;

      PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
      if (types[it]) PetscCall(KSPSetType(ksp, types[it]));
      PetscCall(SetAll(ksp, (PetscBool)right, P));
      PetscCall(PetscObjectGetReference((PetscObject)P[0], &references));
      PetscCall(ComplainIf(references != 1, "%s: keeps shadow vectors", what));
      PetscCall(Listen());
      ierr = GetSettings(ksp, values);
      if (!ierr) ierr = KSPIDRSGetCounts(ksp, NULL, NULL, NULL, NULL);
      PetscCall(Heard());
      PetscCall(ComplainIf(!ierr, "%s: no error of the getters", what));
      PetscCall(KSPSetType(ksp, KSPIDRS));
      PetscCall(CheckDefaults(what, ksp));
      PetscCall(KSPSetOperators(ksp, A, A));
      PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 1000));
      PetscCall(SolveSystem(what, ksp, A, b, x));
      PetscCall(KSPDestroy(&ksp));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Changes from type to type and back, with solves in between or without: neither settings nor vectors are kept */
static PetscErrorCode TestTurns(Mat A, Vec b, Vec x, Vec P[])
{
  const KSPType types[] = {KSPGMRES, KSPBCGS, KSPTFQMR, KSPFGMRES};

  PetscFunctionBeginUser;
  for (PetscInt solving = 0; solving < 2; solving++) {
    KSP ksp;

    PetscCall(SolverCreate(A, 4, PCJACOBI, &ksp));
    for (size_t it = 0; it < PETSC_STATIC_ARRAY_LENGTH(types); it++) {
      PetscInt references;

      PetscCall(SetAll(ksp, PETSC_TRUE, P));
      if (solving) PetscCall(SolveSystem("before another type", ksp, A, b, x));
      PetscCall(KSPSetType(ksp, types[it]));
      PetscCall(PetscObjectGetReference((PetscObject)P[0], &references));
      PetscCall(ComplainIf(references != 1, "%s: shadow vectors are kept", types[it]));
      if (solving) {
        PetscCall(KSPSetPCSide(ksp, it % 2 ? PC_RIGHT : PC_LEFT)); /* a side of the type; the last one has only the right side */
        PetscCall(KSPSetNormType(ksp, KSP_NORM_DEFAULT));
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(KSPSetNormType(ksp, KSP_NORM_DEFAULT));
        PetscCall(KSPSetPCSide(ksp, PC_RIGHT));
      }
      PetscCall(KSPSetType(ksp, KSPIDRS));
      PetscCall(CheckDefaults(types[it], ksp));
      PetscCall(SolveSystem(types[it], ksp, A, b, x));
    }
    PetscCall(KSPDestroy(&ksp));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A setting after the set-up and before a solve is effective, and the bases have the size that it requires */
static PetscErrorCode TestAfterSetUp(Mat A, Vec b, Vec x, Vec P[])
{
  PetscFunctionBeginUser;
  for (size_t is = 0; is < SIZES; is++) {
    PetscInt products, reductions, updates, restarts;
    KSP      ksp;

    PetscCall(SolverCreate(A, sizes[is], PCJACOBI, &ksp));
    PetscCall(KSPSetUp(ksp));
    PetscCall(KSPIDRSGetCounts(ksp, &products, &reductions, &updates, &restarts));
    PetscCall(ComplainIf(products || reductions || updates || restarts, "counts before a solve"));
    PetscCall(KSPIDRSSetShadowSize(ksp, sizes[(is + 1) % SIZES]));
    PetscCall(KSPIDRSSetUpdateTolerance(ksp, 0.0)); /* one vector less */
    PetscCall(SolveSystem("set after the set-up", ksp, A, b, x));
    PetscCall(KSPIDRSSetUpdateTolerance(ksp, 0.1)); /* and one more */
    PetscCall(SolveSystem("set after a solve", ksp, A, b, x));
    PetscCall(KSPIDRSSetImplementation_Private(ksp, KSP_IDRS_VEC));
    PetscCall(SolveSystem("another back end", ksp, A, b, x));
    PetscCall(KSPIDRSSetShadowVecs(ksp, 2, P));
    PetscCall(KSPIDRSSetImplementation_Private(ksp, KSP_IDRS_AUTO));
    PetscCall(SolveSystem("shadow vectors given", ksp, A, b, x));
    PetscCall(KSPIDRSSetShadowVecs(ksp, 0, NULL));
    PetscCall(SolveSystem("shadow vectors taken back", ksp, A, b, x));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Operators that change, with a preconditioner that is kept, computed again, or computed from another matrix */
static PetscErrorCode TestOperators(Mat A, Vec b, Vec x, Vec P[])
{
  PetscFunctionBeginUser;
  for (size_t is = 0; is < SIZES; is++) {
    PetscErrorCode ierr;
    PetscReal      norm;
    Mat            B, S;
    Vec            kept, now;
    PC             pc;
    KSP            ksp;

    PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &B));
    PetscCall(DuplicateAll(b, &kept, &now));
    PetscCall(SolverCreate(B, sizes[is], PCJACOBI, &ksp));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(PCApply(pc, b, kept));

    /* another matrix, with the preconditioner of the first one and its solution as guess */
    PetscCall(MatShift(B, 2.0));
    PetscCall(KSPSetReusePreconditioner(ksp, PETSC_TRUE));
    PetscCall(KSPSetInitialGuessNonzero(ksp, PETSC_TRUE));
    PetscCall(SolveSystem("preconditioner kept", ksp, B, b, x));
    PetscCall(PCApply(pc, b, now));
    PetscCall(CheckClose("preconditioner kept", now, kept, 0.0));
    PetscCall(KSPSetReusePreconditioner(ksp, PETSC_FALSE));
    PetscCall(SolveSystem("preconditioner made again", ksp, B, b, x));
    PetscCall(PCApply(pc, b, now));
    PetscCall(VecAXPY(now, -1.0, kept));
    PetscCall(VecNorm(now, NORM_2, &norm));
    PetscCall(ComplainIf(!(norm > 0.0), "s = %" INT ": the preconditioner was kept", sizes[is]));

    /* a shell as operator, with a preconditioner from another matrix; then neither */
    PetscCall(ShellCreate(B, PassMult, B, &S));
    PetscCall(KSPSetOperators(ksp, S, A));
    PetscCall(SolveSystem("shell", ksp, B, b, x));
    PetscCall(PCSetType(pc, PCNONE));
    PetscCall(SolveSystem("shell without preconditioner", ksp, B, b, x));
    PetscCall(KSPSetOperators(ksp, A, A));
    PetscCall(PCSetType(pc, PCJACOBI));
    PetscCall(SolveSystem("the first matrix again", ksp, A, b, x));

    /* without operators a solve is an error, and with them again it is none */
    PetscCall(ResetWith(ksp, NULL));
    Try(ierr, KSPSolve(ksp, b, x));
    PetscCall(ComplainIf(!ierr, "s = %" INT ": no error without operators", sizes[is]));
    PetscCall(ResetWith(ksp, B));
    PetscCall(VecSet(x, 0.0));
    PetscCall(SolveSystem("operators again", ksp, B, b, x));
    PetscCall(DestroyAll(&ksp, &kept, &now, &S, &B));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The view of an automatic choice names the reason why it is not the GPU, also if the program has set the type of the matrix */
static PetscErrorCode TestReason(Mat A, Vec b, Vec x, Vec P[])
{
#if defined(PETSCIDRS_HAVE_CUDA)
  const char key[] = "no faster one: ... of type cuda; ... aij: ... MatConvert()";
#else
  const char key[] = "no faster one: ... built without CUDA";
#endif
  Mat B;
  Vec c, y;
  KSP ksp;

  PetscFunctionBeginUser;
  PetscCall(MatConvert(A, MATAIJ, MAT_INITIAL_MATRIX, &B));
  PetscCall(MatCreateVecs(B, &y, &c));
  PetscCall(VecSet(c, 1.0));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetType(ksp, KSPIDRS));
  PetscCall(KSPSetOperators(ksp, B, B));
  PetscCall(KSPSolve(ksp, c, y));
  PetscCall(CheckView(ksp, "implementation vec", 1));
  PetscCall(CheckView(ksp, key, 1));
  PetscCall(KSPIDRSSetImplementation_Private(ksp, KSP_IDRS_VEC));
  PetscCall(KSPSolve(ksp, c, y));
  PetscCall(CheckView(ksp, "no faster one", 0)); /* the back end was asked for */
  PetscCall(DestroyAll(&ksp, &c, &y, &B));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode CheckSame(const char what[], const Outcome *first, const Outcome *second)
{
  PetscBool same;

  PetscFunctionBeginUser;
  PetscCall(PetscArraycmp(first->norms, second->norms, PetscMin(first->length, second->length), &same));
  PetscCall(ComplainIf(!same || first->length != second->length || first->length < 2, "%s: %" INT " norms, not the same %" INT,
                       what, second->length, first->length));
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
  Outcome *history;
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
static PetscErrorCode TestReuse(Mat A, Vec b, Vec x, Vec P[])
{
  static const struct {
    const char *what;
    Settings    set;
  } cases[] = {
    {"the same",                  {4, 0, 0.5, 1e-3, PC_RIGHT} },
    {"the same again",            {4, 0, 0.5, 1e-3, PC_RIGHT} },
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
  Mat             B, C;
  Vec             c;
  KSP             ksp;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 9, 0.3, LAYOUT_EVEN, &C, &c));
  PetscCall(SolverCreate(A, 4, PCJACOBI, &ksp));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(cases); i++) {
    PetscCall(Set(&cases[i].set, ksp));
    PetscCall(CheckAsNew(cases[i].what, &cases[i].set, ksp, A, b));
  }
  PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &B));
  PetscCall(KSPSetOperators(ksp, B, B));
  PetscCall(CheckAsNew("another matrix", last, ksp, B, b));
  PetscCall(MatShift(B, 0.7));
  PetscCall(CheckAsNew("other values", last, ksp, B, b));
  PetscCall(ResetWith(ksp, C));
  PetscCall(CheckAsNew("another size", last, ksp, C, c));
  PetscCall(KSPReset(ksp));
  PetscCall(KSPReset(ksp));
  PetscCall(DestroyAll(&ksp, &c, &B, &C));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A monitor that solves another system with another solver */
typedef struct {
  KSP      ksp;
  Vec      b, x;
  PetscInt solves;
} Other;

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

/* Two solvers with prefixes and options of their own, one of which solves in a monitor of the other */
static PetscErrorCode TestTwo(Mat A, Vec b, Vec x, Vec P[])
{
  const char            *prefixes[] = {"first_", "second_"};
  const KSPIDRSSettings *set;
  Outcome               *expected, *found;
  PetscInt               s;
  Other                  other;
  Mat                    C;
  KSP                    ksp[2];

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc2(1, &expected, 1, &found));
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 9, 0.3, LAYOUT_EVEN, &C, &other.b));
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
  PetscCall(KSPIDRSGetSettings_Private(ksp[1], &set));
  PetscCall(ComplainIf(set->seed != 3 || !(set->cosine == 0.25) || !(set->updatetol == (PetscReal)0.1) || set->maxrestarts != 5 ||
                         set->width != 6 || !set->block,
                       "options: seed %" INT ", cosine %g, update tolerance %g, %" INT " restarts, width %" INT "%s", set->seed,
                       (double)set->cosine, (double)set->updatetol, set->maxrestarts, set->width, set->block ? ", block" : ""));
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
  for (PetscInt i = 0; i < 2; i++) PetscCall(KSPDestroy(&ksp[i]));
  PetscCall(DestroyAll(&other.x, &other.b, &C));
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

/* The divergence tolerance is raised for this type only, and only if it is PETSc's default; a tolerance of the user stays */
static PetscErrorCode TestDivtol(Mat A, Vec b, Vec x, Vec P[])
{
  PetscInt s;
  KSP      ksp;

  PetscFunctionBeginUser;
  for (PetscInt user = 0; user < 2; user++) {
    PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
    if (user) PetscCall(KSPSetTolerances(ksp, PETSC_DEFAULT, PETSC_DEFAULT, 1e6, PETSC_DEFAULT));
    PetscCall(KSPSetType(ksp, KSPIDRS));
    PetscCall(CheckDivtol("with the type", ksp, user ? 1e6 : 1e30));
    PetscCall(KSPSetTolerances(ksp, 1e-3, PETSC_DEFAULT, PETSC_DEFAULT, 7));
    PetscCall(CheckDivtol("others set after the type", ksp, user ? 1e6 : 1e30));
    PetscCall(KSPSetType(ksp, KSPBCGS));
    PetscCall(CheckDivtol("with another type", ksp, user ? 1e6 : 1e4));
    PetscCall(KSPSetType(ksp, KSPIDRS));
    if (user) PetscCall(KSPSetTolerances(ksp, 1e-3, PETSC_DEFAULT, 1e7, PETSC_DEFAULT));
    else {
      PetscCall(PetscOptionsSetValue(NULL, "-ksp_divtol", "1e4"));
      PetscCall(KSPSetFromOptions(ksp));
      PetscCall(PetscOptionsClearValue(NULL, "-ksp_divtol"));
    }
    PetscCall(CheckDivtol("set with the type", ksp, user ? 1e7 : 1e4));
    PetscCall(KSPSetType(ksp, KSPBCGS));
    if (user) PetscCall(CheckDivtol("set before another type", ksp, 1e7));
    PetscCall(KSPDestroy(&ksp));
  }
  /* an option is effective if another option sets the type, and destroying an unused solver leaks nothing */
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOptionsPrefix(ksp, "by_"));
  PetscCall(PetscOptionsSetValue(NULL, "-by_ksp_type", "idrs"));
  PetscCall(PetscOptionsSetValue(NULL, "-by_ksp_idrs_s", "11"));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(KSPIDRSGetShadowSize(ksp, &s));
  PetscCall(ComplainIf(s != 11, "-by_ksp_type idrs -by_ksp_idrs_s 11: s = %" INT, s));
  PetscCall(KSPDestroy(&ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks the detailed view of the passes: every operation, and the bytes of its vectors. Vec calls have no such lines */
static PetscErrorCode TestView(Mat A, Vec b, Vec x, Vec P[])
{
  const char *const     operations[] = {"project", "update", "advance", "all of these"};
  KSPIDRSImplementation got;
  PetscMPIInt           rank;
  PetscInt              n, lines;
  PetscBool             device;
  KSP                   ksp;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCall(VecGetLocalSize(b, &n));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)b, &device, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(SolverCreate(A, 4, PCJACOBI, &ksp));
  PetscCall(KSPIDRSSetRun_Private(ksp, KSP_IDRS_RUN_STEPWISE)); /* one kernel has no passes */
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
  PetscCall(KSPDestroy(&ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* All tests have one system and two shadow vectors */
int main(int argc, char **argv)
{
  static const struct {
    PetscErrorCode (*run)(Mat, Vec, Vec, Vec[]);
    const char *subject;
  } tests[] = {
    {TestElsewhere,  "setters before the type and on other types"},
    {TestTurns,      "types by turns"                            },
    {TestAfterSetUp, "settings after the set-up"                 },
    {TestOperators,  "operators and preconditioners that change" },
    {TestReason,     "the reason for the host"                   },
    {TestReuse,      "reuse"                                     },
    {TestTwo,        "two solvers with prefixes"                 },
    {TestDivtol,     "the divergence tolerance"                  },
    {TestView,       "view in detail"                            },
  };
  Mat A;
  Vec b, x, *P;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(ImplementationFromOptions());
  PetscCall(SystemCreateEntries(Convection, ROWS, RHS_GENERAL, &A, &b, &x));
  PetscCall(VecDuplicateVecs(b, 2, &P));
  for (PetscInt i = 0; i < 2; i++) PetscCall(VecSetGeneral(P[i], 3.0 + i));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(tests); i++) {
    PetscCall((*tests[i].run)(A, b, x, P));
    PetscCall(Verdict(tests[i].subject));
  }
  PetscCall(VecDestroyVecs(2, &P));
  PetscCall(DestroyAll(&b, &x, &A));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 2}}

TEST*/
