static char help[] = "KSPIDRS stopped after a few iterations: solves that continue from the last solution, as inner solves and\n\
smoothers do; no iteration or one; norms, and counts of products and reductions, of the first iterations and\n\
of limited solves.\n\n";

#include "hash.h"
#include "systems.h"

/* A relative tolerance that no solve meets */
#define UNREACHABLE ((PetscReal)1e-30)

/* Sets a solver with a fixed number of iterations, preconditioned from the right, idrs or another for comparison */
static PetscErrorCode SetShort(KSP ksp, KSPType type, PetscInt s, PetscInt its, const char pctype[])
{
  PC pc;

  PetscFunctionBeginUser;
  PetscCall(KSPSetType(ksp, type));
  PetscCall(KSPSetPCSide(ksp, PC_RIGHT));
  PetscCall(KSPIDRSSetShadowSize(ksp, s));
  PetscCall(KSPIDRSSetImplementation_Private(ksp, implementation));
  PetscCall(KSPSetTolerances(ksp, UNREACHABLE, 0.0, PETSC_DEFAULT, its));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCSetType(pc, pctype));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes by which power of ten so many short solves, each from the last solution, reduce the norm of b - A x */
static PetscErrorCode ManySolves(Mat A, Vec b, KSPType type, PetscInt s, PetscInt its, PetscInt solves, PetscReal *digits)
{
  Vec       x;
  KSP       ksp;
  PetscInt  made;
  PetscReal norm, bnorm;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecSet(x, 0.0));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(SetShort(ksp, type, s, its, PCJACOBI));
  PetscCall(KSPSetInitialGuessNonzero(ksp, PETSC_TRUE));
  for (PetscInt i = 0; i < solves; i++) {
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(KSPGetIterationNumber(ksp, &made));
    PetscCall(ComplainIf(made != its, "%s: solve %" INT " made %" INT " of %" INT " iterations", type, i, made, its));
  }
  PetscCall(ResidualNorm(A, b, x, &norm, &bnorm));
  *digits = PetscLog10Real(bnorm / norm);
  PetscCall(DestroyAll(&ksp, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Short solves reduce the residual norm at least half as far as gmres, in orders of magnitude */
static PetscErrorCode TestMany(void)
{
  const PetscInt lines[] = {24, 60}, s[] = {4, 8};

  PetscFunctionBeginUser;
  for (size_t il = 0; il < PETSC_STATIC_ARRAY_LENGTH(lines); il++) {
    Mat A;
    Vec b, exact;

    PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, lines[il], 0.3, 0.3, &A));
    PetscCall(MatCreateVecs(A, &exact, &b));
    PetscCall(VecSetGeneral(exact, 1.0));
    PetscCall(MatMult(A, exact, b));
    for (PetscInt its = 2; its <= 4; its++) {
      PetscReal best = 0.0, digits = 0.0;

      PetscCall(ManySolves(A, b, KSPGMRES, 0, its, 30, &best));
      for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(s); is++) {
        PetscCall(ManySolves(A, b, KSPIDRS, s[is], its, 30, &digits));
        PetscCall(ComplainIf(!(best > 0.5 && digits >= 0.5 * best),
                             "%" INT " lines, %" INT " iterations, s = %" INT ": %g digits, gmres %g", lines[il], its, s[is],
                             (double)digits, (double)best));
      }
    }
    PetscCall(DestroyAll(&exact, &b, &A));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscScalar Random(PetscInt i, PetscInt j, PetscInt n)
{
  return Number((uint64_t)i, (uint64_t)j);
}

/* All eigenvalues are imaginary, and r is orthogonal to A r if numbers are real */
static PetscScalar RandomSkew(PetscInt i, PetscInt j, PetscInt n)
{
  if (i == j) return 0.0;
  return i < j ? PetscRealPart(Random(i, j, n)) : -PetscRealPart(Random(j, i, n));
}

/* Hermitian, with eigenvalues on both sides of zero */
static PetscScalar Indefinite(PetscInt i, PetscInt j, PetscInt n)
{
  if (i == j) return i % 3 ? 2.0 + 0.1 * i : -1.0 - 0.1 * i;
  return 0.1 * (i < j ? Random(i, j, n) : PetscConj(Random(j, i, n)));
}

/* Data of a monitor for its comparisons */
typedef struct {
  const char *what;
  PetscInt    s;
  PetscReal   first, last;
  PetscInt    calls, products;
} Watch;

/*
   In single precision the start may end early, because half of the digits of a column are rounding errors; the solver makes more
   products then, and the norm may grow
*/
static PetscErrorCode CheckMonotone(KSP ksp, PetscInt its, PetscReal norm, void *ctx)
{
  Watch    *watch = (Watch *)ctx;
  PetscReal found, rounding;
  PetscInt  products;
  PetscBool guess;
  Vec       b, x;

  PetscFunctionBeginUser;
  if (!its) watch->first = watch->last = norm;
  watch->calls++;
  PetscCall(KSPIDRSGetCounts(ksp, &products, NULL, NULL, NULL));
  PetscCall(ComplainIf(products < its || (its && products < watch->products), "%s: %" INT " products at iteration %" INT,
                       watch->what, products, its));
  watch->products = products;
  PetscCall(KSPGetInitialGuessNonzero(ksp, &guess));
  if (PetscDefined(USE_REAL_SINGLE) && products > its + 1 + (guess ? 1 : 0)) watch->s = 0;
  /* some norms are differences of squares */
  rounding = PetscSqrtReal(PETSC_MACHINE_EPSILON) * norm + 1000 * PETSC_MACHINE_EPSILON * watch->first;
  PetscCall(ComplainIf(its <= watch->s && !(norm <= watch->last + rounding),
                       "%s: the norm grows in iteration %" INT ", from %g to %g", watch->what, its, (double)watch->last,
                       (double)norm));
  watch->last = norm;
  PetscCall(KSPBuildSolution(ksp, NULL, &x));
  PetscCall(KSPGetRhs(ksp, &b));
  PetscCall(SolverNorm(ksp, b, x, &found));
  PetscCall(ComplainIf(its <= watch->s && !(PetscAbsReal(found - norm) <= rounding),
                       "%s: norm %g of iteration %" INT ", that of b - A x is %g", watch->what, (double)norm, its, (double)found));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Tests one matrix, with all variants and some seeds */
static PetscErrorCode CheckFirst(const char name[], Mat A)
{
  Vec b, x;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(A, &x, &b));
  for (PetscInt i = 0; i < 5 * VARIANTS; i++) {
    const PetscInt seed = i / VARIANTS;
    char           what[128];
    Watch          watch = {.what = what};
    Variant        variant;
    KSP            ksp;

    PetscCall(VariantCreate(A, i, &variant, &ksp));
    PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s, seed %" INT, name, variant.what, seed));
    watch.s = variant.s;
    PetscCall(KSPIDRSSetShadowSeed(ksp, seed));
    PetscCall(KSPSetTolerances(ksp, UNREACHABLE, 0.0, PETSC_DEFAULT, variant.s + 2));
    PetscCall(KSPMonitorSet(ksp, CheckMonotone, &watch, NULL));
    PetscCall(VecSetGeneral(b, 1.0 + 0.1 * seed));
    PetscCall(VecSetGeneral(x, 2.0));
    PetscCall(KSPSetInitialGuessNonzero(ksp, (PetscBool)(seed % 2)));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(ComplainIf(watch.calls < variant.s + 3, "%s: %" INT " calls of the monitor", what, watch.calls));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The residual norm does not grow in the first s iterations, for any matrix, and it is the norm of b - A x */
static PetscErrorCode TestFirst(void)
{
  const struct {
    const char *name;
    Entry      *entry;
  } kinds[] = {
    {"general",        Random    },
    {"skew-symmetric", RandomSkew},
    {"indefinite",     Indefinite}
  };
  Mat A;

  PetscFunctionBeginUser;
  for (size_t ik = 0; ik < PETSC_STATIC_ARRAY_LENGTH(kinds); ik++) {
    PetscCall(MatCreateEntries(kinds[ik].entry, 40, PETSC_FALSE, &A));
    PetscCall(CheckFirst(kinds[ik].name, A));
    PetscCall(MatDestroy(&A));
  }
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, 8, 0.3, 0.3, &A));
  PetscCall(CheckFirst("convection and diffusion", A));
  PetscCall(MatDestroy(&A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Checks the costs of a solve of so many iterations without norms: one reduction and one product each, and one product for the
   residual of a guess
*/
static PetscErrorCode CheckCounts(const char what[], KSP ksp, Failing *counted, PetscInt its, PetscBool guess, Vec b, Vec x)
{
  PetscInt       products, reductions, made, expected = its + (guess ? 1 : 0);
  PetscLogDouble calls;
  PetscMPIInt    size;
  PetscBool      host;

  PetscFunctionBeginUser;
  PetscCall(KSPSetInitialGuessNonzero(ksp, guess));
  PetscCall(VecSetGeneral(x, 2.0));
  counted->made = 0;
  calls         = -Allreduces();
  PetscCall(KSPSolve(ksp, b, x));
  calls += Allreduces();
  PetscCall(KSPGetIterationNumber(ksp, &made));
  PetscCall(KSPIDRSGetCounts(ksp, &products, &reductions, NULL, NULL));
  PetscCall(ComplainIf(made != its, "%s: %" INT " iterations of %" INT, what, made, its));
  PetscCall(ComplainIf(products != expected || counted->made != expected,
                       "%s, %" INT " iterations: %" INT " products, %" INT " counted", what, its, products, counted->made));
  PetscCall(ComplainIf(reductions != its, "%s, %" INT " iterations: %" INT " reductions", what, its, reductions));
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)x, &host, VECSEQ, VECMPI, ""));
  if (!host || PetscDefined(USE_DEBUG) || !PetscDefined(USE_LOG)) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(ComplainIf(calls != (size > 1 ? its : 0), "%s, %" INT " iterations: %g calls of MPI_Allreduce()", what, its, calls));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestCounts(void)
{
  const PetscReal peclet  = PetscDefined(USE_REAL_SINGLE) ? 1.2 : 0.3; /* in single precision the start with 0.3 ends early */
  Failing         counted = {NULL, 0, 0};                              /* fails never */
  Mat             S;
  Vec             b, x;

  PetscFunctionBeginUser;
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, LINE, peclet, peclet, &counted.A));
  PetscCall(MatCreateVecs(counted.A, &x, &b));
  PetscCall(VecSetGeneral(b, 1.0));
  PetscCall(ShellCreate(counted.A, FailingMult, &counted, &S));
  for (PetscInt i = 0; i < 2 * VARIANTS; i++) {
    Variant variant;
    KSP     ksp;

    PetscCall(VariantCreate(counted.A, i, &variant, &ksp));
    PetscCall(KSPSetOperators(ksp, S, counted.A));
    PetscCall(KSPSetNormType(ksp, KSP_NORM_NONE));
    if (i / VARIANTS) PetscCall(KSPSetConvergenceTest(ksp, KSPConvergedSkip, NULL, NULL));
    PetscCall(KSPSolve(ksp, b, x)); /* completes the set-up */
    for (PetscInt its = 0; its <= variant.s; its++) {
      PetscCall(KSPSetTolerances(ksp, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT, its));
      PetscCall(CheckCounts(variant.what, ksp, &counted, its, PETSC_FALSE, b, x));
      PetscCall(CheckCounts(variant.what, ksp, &counted, its, PETSC_TRUE, b, x));
    }
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&b, &x, &S, &counted.A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Ways to begin a solve */
typedef enum {
  FROM_ZERO,
  FROM_GUESS,
  FROM_SOLUTION,
  ZERO_FROM_ZERO, /* b = 0 */
  ZERO_FROM_GUESS,
  BEGINNINGS
} Beginning;

static const char *const beginnings[] = {"no guess", "a guess", "the solution as guess", "b = 0, no guess", "b = 0, a guess"};

/* Sets right-hand side and guess; solved: the guess is the solution. b - A x is exactly zero for the x from which b is computed */
static PetscErrorCode SetBeginning(Beginning beginning, Mat A, Vec b, Vec x0, PetscBool *guess, PetscBool *solved)
{
  PetscFunctionBeginUser;
  *guess  = (PetscBool)(beginning != FROM_ZERO && beginning != ZERO_FROM_ZERO);
  *solved = (PetscBool)(beginning == FROM_SOLUTION || beginning == ZERO_FROM_ZERO);
  PetscCall(VecSetGeneral(x0, 2.0));
  if (beginning == FROM_SOLUTION) PetscCall(MatMult(A, x0, b));
  else if (beginning >= ZERO_FROM_ZERO) PetscCall(VecSet(b, 0.0));
  else PetscCall(VecSetGeneral(b, 1.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Makes a minimal residual step from x: x + omega u, u = B^{-1}r, r = b - A x, with the omega that minimises ||r - omega A u||, or
   on the left ||B^{-1}(r - omega A u)||
*/
static PetscErrorCode MinimalStep(KSP ksp, Mat A, Vec b, Vec x)
{
  Vec         r, u, g, y;
  PetscScalar gr, gg;
  PCSide      side;
  PC          pc;

  PetscFunctionBeginUser;
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(KSPGetPCSide(ksp, &side));
  PetscCall(DuplicateAll(b, &r, &u, &g, &y));
  PetscCall(MatMult(A, x, r));
  PetscCall(VecAYPX(r, -1.0, b));
  PetscCall(PCApply(pc, r, u));
  PetscCall(MatMult(A, u, g));
  if (side == PC_LEFT) {
    PetscCall(VecCopy(u, r));
    PetscCall(VecCopy(g, y));
    PetscCall(PCApply(pc, y, g));
  }
  PetscCall(VecDot(r, g, &gr)); /* g^H r */
  PetscCall(VecDot(g, g, &gg));
  PetscCall(VecAXPY(x, gr / gg, u));
  PetscCall(DestroyAll(&r, &u, &g, &y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks a solve of this many iterations, none or one: reason, iterations, solution and norm */
static PetscErrorCode CheckFew(const char what[], KSP ksp, Mat A, PetscInt its, Beginning beginning)
{
  KSPConvergedReason reason;
  KSPNormType        normtype;
  PetscBool          guess, solved, skip;
  PetscInt           made;
  PetscReal          norm, bnorm, error, reported, found;
  Vec                b, x, x0;
  PetscErrorCode (*test)(KSP, PetscInt, PetscReal, KSPConvergedReason *, void *);

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecDuplicate(x, &x0));
  PetscCall(SetBeginning(beginning, A, b, x0, &guess, &solved));
  PetscCall(KSPSetInitialGuessNonzero(ksp, guess));
  PetscCall(KSPSetTolerances(ksp, UNREACHABLE, 0.0, PETSC_DEFAULT, its));
  PetscCall(VecCopy(x0, x)); /* without a guess x must not be read */
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(KSPGetIterationNumber(ksp, &made));
  PetscCall(KSPGetNormType(ksp, &normtype));
  PetscCall(KSPGetConvergenceTest(ksp, &test, NULL, NULL));
  skip = (PetscBool)(test == KSPConvergedSkip);

  /* Without norms a solution is not detected before the first product */
  if (solved && (its || (!skip && normtype != KSP_NORM_NONE))) {
    PetscCall(ComplainIf(!(reason > 0) || made > its, "%s: %s after %" INT, what, KSPConvergedReasons[reason], made));
  } else
    PetscCall(ComplainIf(reason != (skip ? KSP_CONVERGED_ITS : KSP_DIVERGED_ITS) || made != its, "%s: %s after %" INT, what,
                         KSPConvergedReasons[reason], made));

  if (!guess) PetscCall(VecSet(x0, 0.0));
  if (its && !solved) PetscCall(MinimalStep(ksp, A, b, x0));
  PetscCall(VecNorm(x0, NORM_2, &norm));
  PetscCall(VecAXPY(x0, -1.0, x));
  PetscCall(VecNorm(x0, NORM_2, &error));
  PetscCall(ComplainIf(!(error <= (its && !solved ? 1000 * PETSC_MACHINE_EPSILON * norm : 0.0)), "%s: x is off by %g of %g", what,
                       (double)error, (double)norm));
  if (normtype != KSP_NORM_NONE) {
    PetscCall(KSPGetResidualNorm(ksp, &reported));
    PetscCall(SolverNorm(ksp, b, x, &found));
    PetscCall(VecNorm(b, NORM_2, &bnorm));
    PetscCall(ComplainIf(!(PetscAbsReal(reported - found) <=
                           PETSC_SQRT_MACHINE_EPSILON * found + 1000 * PETSC_MACHINE_EPSILON * (bnorm + norm)),
                         "%s: norm %g, that of the residual is %g", what, (double)reported, (double)found));
  }
  PetscCall(DestroyAll(&b, &x, &x0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestFew(void)
{
  Mat A;

  PetscFunctionBeginUser;
  PetscCall(MatCreateEntries(Convection, LINE * LINE, PETSC_FALSE, &A));
  for (PetscInt i = 0; i < 4 * VARIANTS; i++) {
    const PetscBool none = (PetscBool)(i / VARIANTS & 1), skip = (PetscBool)(i / VARIANTS >> 1);
    char            what[256];
    Variant         variant;
    KSP             ksp;

    PetscCall(VariantCreate(A, i, &variant, &ksp));
    if (none) PetscCall(KSPSetNormType(ksp, KSP_NORM_NONE));
    if (skip) PetscCall(KSPSetConvergenceTest(ksp, KSPConvergedSkip, NULL, NULL));
    for (PetscInt l = 0; l < 2 * BEGINNINGS; l++) {
      PetscCall(PetscSNPrintf(what, sizeof(what), "%" INT " iterations, %s%s%s, %s", l % 2, variant.what, none ? ", no norms" : "",
                              skip ? ", test skipped" : "", beginnings[l / 2]));
      PetscCall(CheckFew(what, ksp, A, l % 2, (Beginning)(l / 2)));
    }
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(MatDestroy(&A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* One global reduction per product, in the counts of the solver, and in PETSc's count of MPI_Allreduce() */
static PetscErrorCode TestReductions(void)
{
  const PetscInt limits[] = {1, 4, 5, 6, 9, 20, 37};
  PetscBool      device;
  PetscMPIInt    size;
  Mat            A;
  Vec            b, x;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(GridSystemCreate(20, 0.8, &A, &b, &x));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)b, &device, VECSEQCUDA, VECMPICUDA, ""));
  for (PetscInt i = 0; i < 4 * (PetscInt)PETSC_STATIC_ARRAY_LENGTH(limits); i++) {
    const PetscInt s = 1 << i % 4, N = limits[i / 4];
    KSP            ksp;

    PetscCall(SolverCreate(A, s, PCNONE, &ksp));
    PetscCall(KSPIDRSSetCommunication_Private(ksp, KSP_IDRS_COMMUNICATION_MPI)); /* every reduction is an MPI_Allreduce() */
    PetscCall(KSPSetConvergenceTest(ksp, KSPConvergedSkip, NULL, NULL));
    PetscCall(KSPSetTolerances(ksp, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT, N));
    PetscCall(KSPSetUp(ksp));
    for (PetscInt solve = 0; solve < 2; solve++) {
      const PetscLogDouble before = petsc_allreduce_ct;
      PetscInt             its, products, reductions, updates, restarts, calls;
      char                 what[128];

      PetscCall(KSPSolve(ksp, b, x));
      calls = (PetscInt)(petsc_allreduce_ct - before);
      PetscCall(KSPGetIterationNumber(ksp, &its));
      PetscCall(KSPIDRSGetCounts(ksp, &products, &reductions, &updates, &restarts));
      PetscCall(KSPIDRSGetCounts(ksp, NULL, NULL, NULL, NULL));
      PetscCall(
        PetscSNPrintf(what, sizeof(what), "s = %" INT ", %" INT " iterations of %" INT ", %" INT " updates", s, its, N, updates));
      PetscCall(ComplainIf(its != N || restarts, "%s: %" INT " restarts", what, restarts));
      PetscCall(ComplainIf(products != N + updates, "%s: %" INT " products", what, products));
      /* the first projection, one after each update, and on several processes the last norm */
      PetscCall(ComplainIf(reductions < N + 1 + updates || reductions > N + 1 + updates + (size > 1 ? 1 : 0),
                           "%s: %" INT " reductions", what, reductions));
      /*
         On GPUs several processes agree on the memory of the solution, and once on their communication. PETSc with debugging makes
         many more calls to compare arguments between processes
      */
      PetscCall(ComplainIf(PetscDefined(USE_LOG) &&
                             ((!PetscDefined(USE_DEBUG) && calls > N + 3 + updates + (size > 1 && device ? (solve ? 1 : 3) : 0)) ||
                              (size > 1 && calls < reductions)),
                           "%s: %" INT " reductions, %" INT " calls of MPI_Allreduce()", what, reductions, calls));
    }
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Convection and diffusion on a line */
static PetscScalar Line(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 2.0 : (j == i - 1 ? -1.3 : (j == i + 1 ? -0.7 : 0.0));
}

/*
   If the norm of the recurrence deviates from the norm of b - A x, the solver detects it. With any reason, it does not report a
   norm below the tolerance for an x that misses it.
*/
static PetscErrorCode TestNorms(void)
{
  const PetscReal tolerance = 500 * PETSC_MACHINE_EPSILON;
  PetscReal       norm, reported, reference;
  Mat             A;
  Vec             b, x;
  KSP             ksp;

  PetscFunctionBeginUser;
  PetscCall(MatCreateEntries(Line, 200, PETSC_FALSE, &A));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecSet(b, 1.0));
  PetscCall(VecNorm(b, NORM_2, &reference));
  PetscCall(SolverCreate(A, 8, PCNONE, &ksp));
  PetscCall(KSPIDRSSetUpdateTolerance(ksp, 0.0));
  for (PetscInt limit = 220; limit < 300; limit++) {
    KSPConvergedReason reason;

    PetscCall(KSPSetTolerances(ksp, tolerance, PETSC_DEFAULT, PETSC_DEFAULT, limit));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(KSPGetConvergedReason(ksp, &reason));
    PetscCall(KSPGetResidualNorm(ksp, &reported));
    PetscCall(SolverNorm(ksp, b, x, &norm));
    PetscCall(ComplainIf(reported <= tolerance * reference && !(norm <= 1.01 * tolerance * reference),
                         "max_it %" INT ": %s, the norm of b - A x is %g, reported %g, tolerance %g", limit,
                         KSPConvergedReasons[reason], (double)norm, (double)reported, (double)(tolerance * reference)));
  }
  PetscCall(DestroyAll(&ksp, &x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Matvecs of a kernel that makes many steps count as calls of MatMult in the log, in the stage of the solve, without time */
static PetscErrorCode TestLog(void)
{
  PetscLogEvent      event;
  PetscLogStage      stage;
  PetscEventPerfInfo before, after, other;

  PetscFunctionBeginUser;
  if (!PetscDefined(USE_LOG)) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscLogDefaultBegin());
  PetscCall(PetscLogEventGetId("MatMult", &event));
  PetscCall(PetscLogStageRegister("solve", &stage));
  PetscCall(PetscLogEventGetPerfInfo(0, event, &before));
  PetscCall(PetscLogStagePush(stage));
  PetscCall(IDRSLogCalls(event, 5000));
  PetscCall(PetscLogStagePop());
  PetscCall(PetscLogEventGetPerfInfo(stage, event, &after));
  PetscCall(PetscLogEventGetPerfInfo(0, event, &other));
  PetscCall(ComplainIf(after.count != 5000 || after.time != 0.0 || other.count != before.count,
                       "%d calls in %g seconds, and %d instead of %d in the other stage", after.count, (double)after.time,
                       other.count, before.count));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestMany, "many short solves"}, {TestFirst, "norms of the first iterations"},
          {TestCounts, "products and reductions without norms"}, {TestFew, "no iteration and one"}, {TestLog, "calls in the log"},
          {TestReductions, "counts"}, {TestNorms, "norms below the tolerance"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}
    args: -malloc_dump

TEST*/
