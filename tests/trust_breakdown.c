static char help[] = "Systems on which the recurrence of KSPIDRS breaks down: every solve ends, within bounds, with a true\n\
reason, and restarts are reported.\n\n";

#include <fenv.h>
#include "columns.h"
#include "../tutorials/matrixmarket.h"

/* Rows of the systems, unless stated otherwise */
#define N 12

/* Upper triangular: the first unit vector is an eigenvector of A, the last one is an eigenvector of its transpose */
static PetscScalar Triangular(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 1.0 + 0.5 * i : (j > i ? 0.3 / (j - i) : 0.0);
}

/* Pairs of unknowns are exchanged: A r is orthogonal to r for unit vectors */
static PetscScalar Exchange(PetscInt i, PetscInt j, PetscInt n)
{
  return i / 2 == j / 2 && i != j ? 1.0 : 0.0;
}

/* Allowed ends of a solve */
typedef enum {
  END_CONVERGED,
  END_BREAKDOWN, /* KSP_DIVERGED_BREAKDOWN, after all allowed restarts */
  END_EITHER     /* converged, a breakdown, the divergence tolerance, overflow or max_it */
} End;

/*
   Solves from zero: no error, a reason, few iterations; converged only with a residual that meets the tolerance, and a finite x for
   any reason
*/
static PetscErrorCode SolveAndCheck(const char name[], KSP ksp, Mat A, Vec b, Vec x, End end)
{
  KSPConvergedReason reason;
  PetscErrorCode     ierr;
  PetscInt           its, n, s, restarts, allowed;
  PetscReal          norm, bnorm;
  char               what[128];

  PetscFunctionBeginUser;
  PetscCall(KSPIDRSGetShadowSize(ksp, &s));
  PetscCall(VecGetSize(b, &n));
  Try(ierr, KSPSolve(ksp, b, x));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(KSPIDRSGetCounts(ksp, NULL, NULL, NULL, &restarts));
  GetSetting(ksp, maxrestarts, &allowed);
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %" INT " rows, s = %" INT ": %s after %" INT " iterations, %" INT " restarts",
                          name, n, s, KSPConvergedReasons[reason], its, restarts));
  PetscCall(ResidualNorm(A, b, x, &norm, &bnorm));
  PetscCall(ComplainIf(ierr, "%s: error \"%s\"", what, message));
  /* in single precision x itself may overflow, at a restart, before the recurrence does */
  PetscCall(ComplainIf(!(norm <= PETSC_MAX_REAL) && !(PetscDefined(USE_REAL_SINGLE) && reason == KSP_DIVERGED_NANORINF),
                       "%s: x is not of numbers", what));
  PetscCall(ComplainIf(reason > 0 && !(norm <= 1.01 * rtol * bnorm), "%s: the norm of b - A x is %g of %g", what, (double)norm,
                       (double)bnorm));
  PetscCall(ComplainIf(end == END_CONVERGED && its > 30 * (n + s), "%s: too many", what));
  PetscCall(ComplainIf(reason < 0 && reason != KSP_DIVERGED_BREAKDOWN && reason != KSP_DIVERGED_NANORINF &&
                         reason != KSP_DIVERGED_ITS && reason != KSP_DIVERGED_DTOL,
                       "%s: another reason", what));
  PetscCall(
    ComplainIf(!reason || (end == END_CONVERGED && reason < 0) || (end == END_BREAKDOWN && reason > 0), "%s: not expected", what));
  PetscCall(ComplainIf(end == END_BREAKDOWN && (reason != KSP_DIVERGED_BREAKDOWN || restarts != allowed),
                       "%s: not after %" INT " restarts", what, allowed));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* As many shadow vectors as the space has dimensions, and one more or less: the recurrence ends before its first cycle does */
static PetscErrorCode TestDimensions(void)
{
  Entry *const      entries[] = {Tridiagonal, Triangular, Exchange};
  const char *const names[]   = {"tridiagonal", "triangular", "exchange"};

  PetscFunctionBeginUser;
  for (size_t ie = 0; ie < PETSC_STATIC_ARRAY_LENGTH(entries); ie++) {
    for (size_t is = 0; is < SIZES; is++) {
      const PetscInt dimensions[] = {1, 2, sizes[is] - 1, sizes[is], sizes[is] + 1};

      for (size_t id = 0; id < PETSC_STATIC_ARRAY_LENGTH(dimensions); id++) {
        for (RHS rhs = RHS_FIRST; rhs <= RHS_GENERAL; rhs++) {
          const PetscBool singular = (PetscBool)(entries[ie] == Exchange && dimensions[id] % 2);
          Mat             A;
          Vec             b, x;
          KSP             ksp;

          if (!dimensions[id]) continue;
          PetscCall(SystemCreateEntries(entries[ie], dimensions[id], rhs, &A, &b, &x));
          PetscCall(SolverCreate(A, sizes[is], PCNONE, &ksp));
          PetscCall(SolveAndCheck(names[ie], ksp, A, b, x, singular ? END_EITHER : END_CONVERGED));
          PetscCall(DestroyAll(&ksp, &A, &b, &x));
        }
      }
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Unsuitable shadow vectors of a user */
typedef enum {
  SHADOW_GENERAL,
  SHADOW_ORTHOGONAL, /* orthogonal to b only */
  SHADOW_BLIND,      /* orthogonal to b, and to all products with A from there on */
  SHADOW_EQUAL,      /* the last one equals the first */
  SHADOW_ZERO,       /* the last one is zero */
  SHADOW_RESIDUAL,   /* the first one is b */
  SHADOWS
} Shadow;
static const char *const shadows[] = {"general", "orthogonal to b", "blind", "one of them twice", "one of them zero", "b"};

static PetscErrorCode ShadowCreate(Shadow shadow, Vec b, PetscInt s, Vec *P[])
{
  PetscScalar product, square;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicateVecs(b, s, P));
  PetscCall(VecDot(b, b, &square));
  for (PetscInt i = 0; i < s; i++) {
    PetscCall(VecSetGeneral((*P)[i], 3.0 + 0.7 * i));
    if (shadow == SHADOW_ORTHOGONAL) {
      PetscCall(VecDot((*P)[i], b, &product));
      PetscCall(VecAXPY((*P)[i], -product / square, b));
    }
    if (shadow == SHADOW_BLIND) {
      PetscInt     begin, end;
      PetscScalar *array;

      PetscCall(VecGetOwnershipRange(b, &begin, &end));
      PetscCall(VecGetArray((*P)[i], &array));
      for (PetscInt row = begin; row < PetscMin(end, N / 2); row++) array[row - begin] = 0.0;
      PetscCall(VecRestoreArray((*P)[i], &array));
    }
  }
  if (shadow == SHADOW_EQUAL && s > 1) PetscCall(VecCopy((*P)[0], (*P)[s - 1]));
  if (shadow == SHADOW_ZERO) PetscCall(VecSet((*P)[s - 1], 0.0));
  if (shadow == SHADOW_RESIDUAL) PetscCall(VecCopy(b, (*P)[0]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Two diagonal blocks; b is in the first one */
static PetscScalar Blocks(PetscInt i, PetscInt j, PetscInt n)
{
  return (i < n / 2) == (j < n / 2) ? Tridiagonal(i, j, n) : 0.0;
}

static PetscErrorCode TestShadows(void)
{
  PetscFunctionBeginUser;
  for (size_t is = 0; is < SIZES; is++) {
    for (Shadow shadow = SHADOW_GENERAL; shadow < SHADOWS; shadow++) {
      for (PetscInt skew = 0; skew < 3; skew++) { /* then with omega = 0 */
        const PetscInt s   = sizes[is];
        End            end = END_CONVERGED;
        Mat            A;
        Vec            b, x, *P;
        KSP            ksp;

        PetscCall(SystemCreateEntries(skew ? Skew : Blocks, N, RHS_FIRST, &A, &b, &x));
        PetscCall(ShadowCreate(shadow, b, s, &P));
        PetscCall(SolverCreate(A, s, PCNONE, &ksp));
        PetscCall(KSPIDRSSetMinimumCosine(ksp, skew > 1 ? 0.0 : 0.5));
        PetscCall(KSPIDRSSetShadowVecs(ksp, s, P));
        if (shadow == SHADOW_EQUAL || shadow == SHADOW_ZERO) end = END_EITHER; /* depends on the use of the last one */
        if (shadow == SHADOW_BLIND || (shadow == SHADOW_RESIDUAL && skew)) end = END_BREAKDOWN;
        if (shadow == SHADOW_ZERO && s == 1) end = END_BREAKDOWN;
        if (shadow == SHADOW_ORTHOGONAL && skew) end = END_EITHER; /* neither minimal residual steps nor omega help */
        if (skew > 1) end = END_EITHER;
        PetscCall(SolveAndCheck(shadows[shadow], ksp, A, b, x, end));
        PetscCall(VecDestroyVecs(s, &P));
        PetscCall(DestroyAll(&ksp, &A, &b, &x));
      }
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Shadow vectors and right-hand sides of any scale: their squares overflow, or underflow */
static PetscErrorCode TestScales(void)
{
  const PetscInt s = 4;

  PetscFunctionBeginUser;
  for (PetscInt sign = -1; sign <= 1; sign += 2) {
    PetscInt restarts;
    Mat      A;
    Vec      b, x, *P;
    KSP      ksp;

    PetscCall(SystemCreateEntries(Tridiagonal, N, RHS_GENERAL, &A, &b, &x));
    PetscCall(ShadowCreate(SHADOW_GENERAL, b, s, &P));
    PetscCall(VecScale(b, PetscPowReal(PETSC_MAX_REAL, (PetscReal)0.15 * sign)));
    for (PetscInt i = 0; i < s; i++) PetscCall(VecScale(P[i], PetscPowReal(PETSC_MAX_REAL, (PetscReal)0.42 * sign)));
    PetscCall(SolverCreate(A, s, PCNONE, &ksp));
    PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, PETSC_DEFAULT));
    PetscCall(KSPIDRSSetShadowVecs(ksp, s, P));
    PetscCall(SolveAndCheck(sign < 0 ? "small shadow vectors" : "large shadow vectors", ksp, A, b, x, END_CONVERGED));
    PetscCall(KSPIDRSGetCounts(ksp, NULL, NULL, NULL, &restarts));
    PetscCall(ComplainIf(restarts, "%" INT " restarts with %s shadow vectors", restarts, sign < 0 ? "small" : "large"));
    PetscCall(VecDestroyVecs(s, &P));
    PetscCall(DestroyAll(&ksp, &A, &b, &x));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* -info reports every breakdown, and as many restarts as KSPIDRSGetCounts() and -ksp_view */
static PetscErrorCode TestTold(void)
{
  const PetscInt s = 4;
  PetscMPIInt    rank;
  Mat            A;
  Vec            b, x, *P;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCall(SystemCreateEntries(Blocks, N, RHS_FIRST, &A, &b, &x));
  PetscCall(ShadowCreate(SHADOW_BLIND, b, s, &P));
  for (PetscInt allowed = 0; allowed <= 3; allowed++) {
    PetscInt  restarts, times;
    PetscReal number;
    FILE     *info;
    char     *name;
    KSP       ksp;

    PetscCall(SolverCreate(A, s, PCNONE, &ksp));
    PetscCall(KSPIDRSSetShadowVecs(ksp, s, P));
    PetscCall(KSPIDRSSetMaxRestarts_Private(ksp, allowed));
    if (!rank) {
      PetscCall(PetscInfoSetFile("breakdown_info", "w"));
      PetscCall(PetscInfoAllow(PETSC_TRUE));
    }
    PetscCall(SolveAndCheck("blind shadow vectors", ksp, A, b, x, END_BREAKDOWN));
    PetscCall(PetscInfoAllow(PETSC_FALSE));
    PetscCall(PetscInfoGetFile(&name, &info));
    if (info) fflush(info);
    PetscCall(PetscFree(name));
    PetscCall(KSPIDRSGetCounts(ksp, NULL, NULL, NULL, &restarts));
    PetscCall(FileNumbers("breakdown_info.0", "Breakdown ... iteration ", 1, &number, &times));
    PetscCall(ComplainIf(PetscDefined(USE_INFO) && (times != allowed + 1 || !(number == 0.0)),
                         "%" INT " restarts: %" INT " breakdowns told, the first at iteration %g", restarts, times,
                         (double)number));
    PetscCall(ViewNumbers((PetscObject)ksp, "last solve: ... verifications, ", 1, &number, &times));
    PetscCall(ComplainIf(times != 1 || !(number == (PetscReal)allowed), "%" INT " restarts: %g viewed", restarts, (double)number));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(VecDestroyVecs(s, &P));
  PetscCall(DestroyAll(&A, &b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Almost skew-symmetric: with a few shadow vectors the residual norm grows continually */
static PetscScalar AlmostSkew(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 1e-3 : (j == i + 1 ? 1.0 : (j == i - 1 ? -1.0 : 0.0));
}

typedef struct {
  Mat       A;
  Vec       b, x;
  PetscReal last, worst; /* previous reported norm; relative difference of the reported norm and b - A x */
  PetscInt  grown;       /* norms that are larger than the previous one */
} Stray;

static PetscErrorCode StrayMonitor(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  Stray    *stray = (Stray *)ctx;
  PetscReal norm, bnorm;

  PetscFunctionBeginUser;
  PetscCall(KSPBuildSolution(ksp, stray->x, NULL));
  PetscCall(ResidualNorm(stray->A, stray->b, stray->x, &norm, &bnorm));
  stray->worst = PetscMax(stray->worst, PetscAbsReal(norm - rnorm) / rnorm);
  if (its && rnorm > (1.0 + 10 * PetscPowReal(PETSC_MACHINE_EPSILON, 0.25)) * stray->last) stray->grown++;
  stray->last = rnorm;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   If a residual norm has grown by the factor 1 / (machine precision)^(3/4), the recurrence has lost its accuracy: it restarts
   immediately, on a GPU while the host is ahead of it. A smoothed norm does not grow, and belongs to the smoothed iterate, until it
   is a rounding error, as complex numbers of single precision become before the end.
*/
static PetscErrorCode TestAstray(void)
{
  const PetscReal limit = PetscPowReal(PETSC_MACHINE_EPSILON, -0.75);
  Stray           stray = {.last = 0.0};
  PetscInt        total = 0;

  PetscFunctionBeginUser;
  PetscCall(MatCreateEntries(AlmostSkew, 200, PETSC_FALSE, &stray.A));
  PetscCall(MatCreateVecs(stray.A, &stray.x, &stray.b));
  PetscCall(VecSetGeneral(stray.b, 1.0));
  for (PetscInt s = 1; s <= 4; s *= 2) {
    for (PetscInt smoothing = 0; smoothing < 3; smoothing++) { /* none, with reliable updates, and without */
      KSPConvergedReason reason;
      PetscInt           restarts, entries, beyond = 0;
      const PetscReal   *history;
      KSP                ksp;
      Vec                x;

      PetscCall(VecDuplicate(stray.b, &x));
      PetscCall(SolverCreate(stray.A, s, PCNONE, &ksp));
      PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 3000));
      PetscCall(KSPIDRSSetSmoothing(ksp, (PetscBool)(smoothing > 0)));
      if (smoothing > 1) PetscCall(KSPIDRSSetUpdateTolerance(ksp, 0.0));
      PetscCall(KSPSetResidualHistory(ksp, NULL, 3001, PETSC_TRUE));
      if (smoothing) PetscCall(KSPMonitorSet(ksp, StrayMonitor, &stray, NULL));
      stray.worst = 0.0;
      stray.grown = 0;
      PetscCall(KSPSolve(ksp, stray.b, x));
      PetscCall(KSPGetConvergedReason(ksp, &reason));
      PetscCall(KSPIDRSGetCounts(ksp, NULL, NULL, NULL, &restarts));
      PetscCall(ComplainIf(reason == KSP_DIVERGED_DTOL || reason == KSP_DIVERGED_NANORINF,
                           "almost skew-symmetric, s = %" INT ": %s", s, KSPConvergedReasons[reason]));
      PetscCall(KSPGetResidualHistory(ksp, &history, &entries));
      for (PetscInt i = 0; i < entries; i++) beyond += history[i] > limit * history[0] ? 1 : 0;
      PetscCall(ComplainIf(beyond > restarts + 1,
                           "almost skew-symmetric, s = %" INT ": %" INT " norms are beyond the limit, with %" INT " restarts", s,
                           beyond, restarts));
      PetscCall(ComplainIf(smoothing && !(PetscDefined(USE_REAL_SINGLE) && PetscDefined(USE_COMPLEX)) &&
                             (stray.grown || !(stray.worst <= 10 * PetscPowReal(PETSC_MACHINE_EPSILON, 0.25))),
                           "almost skew-symmetric, s = %" INT ", smoothed: the norm has grown %" INT " times, and is off by %g", s,
                           stray.grown, (double)stray.worst));
      total += beyond;
      PetscCall(DestroyAll(&ksp, &x));
    }
  }
  /* with complex numbers omega is better */
  PetscCall(ComplainIf(!total && !PetscDefined(USE_COMPLEX), "almost skew-symmetric: nothing has gone astray"));
  PetscCall(DestroyAll(&stray.b, &stray.x, &stray.A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   An explicit shadow vector that is almost orthogonal to A b: the residual norm grows as far immediately. A restart with this
   vector would fail in the same way; without it the solve converges from there.
*/
static PetscErrorCode TestGiven(void)
{
  PetscScalar dot;
  PetscReal   norm;
  PetscInt    restarts;
  Mat         A;
  Vec         b, x, Ab, p;
  KSP         ksp;

  PetscFunctionBeginUser;
  PetscCall(MatCreateEntries(Tridiagonal, 50, PETSC_FALSE, &A));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(DuplicateAll(b, &Ab, &p));
  PetscCall(VecSetGeneral(b, 1.0));
  PetscCall(VecSetGeneral(p, 2.0));
  PetscCall(MatMult(A, b, Ab));
  PetscCall(VecNormalize(Ab, &norm));
  /* remove the component along A b, except so little of it that the residual norm grows beyond any limit */
  for (PetscInt i = 0; i < 3; i++) {
    PetscCall(VecDot(p, Ab, &dot));
    PetscCall(VecAXPY(p, -dot, Ab));
  }
  PetscCall(VecNorm(p, NORM_2, &norm));
  PetscCall(VecAXPY(p, PetscPowReal(PETSC_MACHINE_EPSILON, 0.85) * norm, Ab));
  PetscCall(SolverCreate(A, 1, PCNONE, &ksp));
  PetscCall(KSPIDRSSetShadowVecs(ksp, 1, &p));
  PetscCall(SolveSystem("shadow vector almost orthogonal to A b", ksp, A, b, x));
  PetscCall(KSPIDRSGetCounts(ksp, NULL, NULL, NULL, &restarts));
  PetscCall(ComplainIf(restarts > 5, "shadow vector almost orthogonal to A b: %" INT " restarts", restarts));
  PetscCall(DestroyAll(&ksp, &p, &Ab, &b, &x, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Systems in which one entry, row or column is so large that the first two columns of the start are parallel to half of their
   digits, or to three quarters. In single precision a row that is ten times larger leaves pivots of M that are rounding errors
*/
#define LARGE      ((PetscDefined(USE_REAL_SINGLE) ? 1 : 10) / PETSC_SQRT_MACHINE_EPSILON)
#define VERY_LARGE PetscPowReal(PETSC_MACHINE_EPSILON, -0.75)
#define DOMINATED  300

static PetscScalar Weak(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 2.5 : (j == i + 1 ? -1.3 : (j == i - 1 ? -1.0 : 0.0));
}

static PetscScalar LargeRow(PetscInt i, PetscInt j, PetscInt n)
{
  return i == 7 && j % 5 == 0 ? LARGE * (0.6 + 0.4 * PetscSinReal((PetscReal)(j * j))) : Weak(i, j, n);
}

static PetscScalar LargeColumn(PetscInt i, PetscInt j, PetscInt n)
{
  return j == 7 && i % 5 == 0 ? VERY_LARGE * (0.6 + 0.4 * PetscSinReal((PetscReal)(i * i))) : Weak(i, j, n);
}

static PetscScalar LargeEntry(PetscInt i, PetscInt j, PetscInt n)
{
  return i == 7 && j == 7 ? VERY_LARGE : Weak(i, j, n);
}

/*
   The residual falls to the tolerance, or near to the rounding errors of the large row times x. The result of the last restarts
   depends on rounding errors: with a very large entry, about 2 of 100 seeds end above the bound, 1 of them far above, with
   KSP_DIVERGED_BREAKDOWN. Most seeds must reach the bound, and the others must report a failure
*/
#define SEEDS 5

static PetscErrorCode TestDominated(void)
{
  const struct {
    const char *name;
    Entry      *entry;
    PetscReal   attainable;
  } systems[] = {
    {"a large row",         LargeRow,    200 * PETSC_MACHINE_EPSILON * LARGE},
    {"a very large column", LargeColumn, 100 * rtol                         },
    {"a very large entry",  LargeEntry,  100 * rtol                         },
  };

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(systems); i++) {
    Mat A;
    Vec b, x;

    PetscCall(SystemCreateEntries(systems[i].entry, DOMINATED, RHS_ONES, &A, &b, &x));
    for (size_t is = 0; is < SIZES; is++) {
      PetscInt missed = 0;
      KSP      ksp;

      PetscCall(SolverCreate(A, sizes[is], PCNONE, &ksp));
      for (PetscInt seed = 0; seed < SEEDS; seed++) {
        KSPConvergedReason reason;
        PetscReal          rnorm, bnorm;

        PetscCall(KSPIDRSSetShadowSeed(ksp, 100 * seed));
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(ResidualNorm(A, b, x, &rnorm, &bnorm));
        missed += !(rnorm <= systems[i].attainable * bnorm);
        PetscCall(KSPGetConvergedReason(ksp, &reason));
        PetscCall(ComplainIf(reason > 0 ? !(rnorm <= 1.01 * rtol * bnorm) : reason != KSP_DIVERGED_BREAKDOWN,
                             "%s, s = %" INT ", seed %" INT ": %s, the norm of b - A x is %g of %g", systems[i].name, sizes[is],
                             100 * seed, KSPConvergedReasons[reason], (double)rnorm, (double)bnorm));
      }
      PetscCall(ComplainIf(2 * missed > SEEDS,
                           "%s, s = %" INT ": the norm of b - A x is above %g times that of b with %" INT " of %d seeds",
                           systems[i].name, sizes[is], (double)systems[i].attainable, missed, SEEDS));
      PetscCall(KSPDestroy(&ksp));
    }
    PetscCall(DestroyAll(&A, &b, &x));
    PetscCall(Verdict(systems[i].name));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Powers of 2 that A and b are multiplied by, as fractions of the exponent range: the squares of norms underflow, or overflow.
   Multiplication by a power of 2 is exact, so solves differ from solves of the unscaled system only by the rounding errors of the
   sums in x
*/
static const struct {
  PetscReal A, b;
} powers[] = {
  {-0.06, -0.5},
  {0.0,   -0.7},
  {-0.4,  0.0 },
  {0.1,   0.6 },
};

static PetscReal Power(PetscReal part)
{
  return PetscPowReal(2.0, PetscFloorReal(part * PetscLog2Real(PETSC_MAX_REAL)));
}

static PetscErrorCode TestExtremeSystems(void)
{
  Mat A;
  Vec b, x, y;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Weak, 60, RHS_GENERAL, &A, &b, &x));
  PetscCall(VecDuplicate(x, &y));
  for (size_t is = 0; is < SIZES; is++) {
    for (PetscInt left = 0; left < 2; left++) {
      PetscInt its[2];
      KSP      ksp;

      PetscCall(SolverCreateSide(A, sizes[is], left ? PC_LEFT : PC_RIGHT, left ? PCJACOBI : PCNONE, &ksp));
      PetscCall(SolveSystem("as it is", ksp, A, b, x));
      PetscCall(KSPGetIterationNumber(ksp, &its[0]));
      for (size_t l = 0; l < 2 * PETSC_STATIC_ARRAY_LENGTH(powers); l++) {
        const size_t       i = l / 2;
        const PetscReal    a = Power(powers[i].A), factor = Power(powers[i].b);
        const PetscInt     more = PetscDefined(USE_REAL_SINGLE) ? its[0] : l % 2 ? 6 : 2; /* iterations, or less */
        KSPConvergedReason reason;
        PetscReal          rnorm, bnorm, norm;

        /* also from a guess, for which PETSc's test computes ||b||, whose square may overflow */
        PetscCall(KSPSetInitialGuessNonzero(ksp, (PetscBool)(l % 2)));
        PetscCall(VecSet(y, l % 2 ? factor / a / 8 : 0.0));
        PetscCall(MatScale(A, a));
        PetscCall(VecScale(b, factor));
        PetscCall(KSPSolve(ksp, b, y));
        PetscCall(MatScale(A, 1 / a));
        PetscCall(VecScale(b, 1 / factor));
        PetscCall(PetscObjectStateIncrease((PetscObject)b)); /* PETSc has scaled its norm, which may be 0 or infinite */
        PetscCall(VecScale(y, a));
        PetscCall(VecScale(y, 1 / factor));
        PetscCall(KSPGetIterationNumber(ksp, &its[1]));
        PetscCall(KSPGetConvergedReason(ksp, &reason));
        PetscCall(KSPGetResidualNorm(ksp, &norm));
        PetscCall(ResidualNorm(A, b, y, &rnorm, &bnorm));
        PetscCall(ComplainIf(reason != KSP_CONVERGED_RTOL || PetscAbsInt(its[1] - its[0]) > more ||
                               !(rnorm <= 1.01 * rtol * bnorm) || !(norm > 0.0 && norm <= PETSC_MAX_REAL),
                             "A times %g, b times %g, s = %" INT ", %s: %s after %" INT " iterations, %" INT
                             " expected, norm %g, the norm of b - A x is %g of %g",
                             (double)a, (double)factor, sizes[is], left ? "left" : "right", KSPConvergedReasons[reason], its[1],
                             its[0], (double)norm, (double)rnorm, (double)bnorm));
      }
      PetscCall(KSPDestroy(&ksp));
    }
  }
  PetscCall(DestroyAll(&y, &b, &x, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Multiplies or divides columns by these factors */
static PetscErrorCode BlockScale(Mat B, const PetscReal factor[], PetscBool inverse)
{
  PetscInt columns;
  Vec      b;

  PetscFunctionBeginUser;
  PetscCall(MatGetSize(B, NULL, &columns));
  for (PetscInt j = 0; j < columns; j++) {
    PetscCall(MatDenseGetColumnVec(B, j, &b));
    PetscCall(VecScale(b, inverse ? 1 / factor[j] : factor[j]));
    PetscCall(MatDenseRestoreColumnVec(B, j, &b));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The same for right-hand sides of one KSPMatSolve(), the second of which is not scaled */
static PetscErrorCode TestExtremeColumns(void)
{
  const PetscReal factor[] = {Power(-0.6), 1.0, Power(0.6)};
  Mat             A, B, X;
  Vec             b, x;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Weak, 60, RHS_GENERAL, &A, &b, &x));
  PetscCall(BlocksCreate(A, 3, BLOCK_RANDOM, &B, &X));
  for (PetscInt block = 0; block < 2; block++) {
    const KSPConvergedReason *reasons;
    KSP                       ksp;

    PetscCall(SolverCreate(A, 4, PCNONE, &ksp));
    PetscCall(KSPIDRSSetBlock(ksp, (PetscBool)block));
    PetscCall(BlockScale(B, factor, PETSC_FALSE));
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscCall(BlockScale(B, factor, PETSC_TRUE)); /* powers of 2 */
    PetscCall(BlockScale(X, factor, PETSC_TRUE));
    PetscCall(KSPIDRSGetColumnResults(ksp, NULL, &reasons, NULL, NULL));
    for (PetscInt j = 0; j < 3; j++)
      PetscCall(CheckColumn(block ? "block recurrences" : "single recurrences", A, B, X, j, reasons[j]));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&B, &X, &b, &x, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Keeps the last call of a monitor in an outcome */
static PetscErrorCode Tell(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  PetscFunctionBeginUser;
  ((Outcome *)ctx)->its   = its;
  ((Outcome *)ctx)->rnorm = rnorm;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The number of different eigenvalues */
static PetscInt values;

static PetscScalar FewValues(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 1.0 + i % values : 0.0;
}

/* If a start breaks down and solves the system, monitors and history end with the norm and the iteration of the reason */
static PetscErrorCode TestEndOfStart(void)
{
  PetscFunctionBeginUser;
  for (values = 1; values <= 6; values++) {
    for (size_t is = 0; is < SIZES; is++) {
      PetscReal norm, bnorm;
      Outcome   told, found;
      Mat       A;
      Vec       b, x;
      KSP       ksp;

      PetscCall(SystemCreateEntries(FewValues, 36, values % 2 ? RHS_ONES : RHS_GENERAL, &A, &b, &x));
      PetscCall(SolverCreate(A, sizes[is], PCNONE, &ksp));
      PetscCall(KSPMonitorSet(ksp, Tell, &told, NULL));
      PetscCall(VecSet(x, 0.0));
      PetscCall(SolveHistory(ksp, b, x, &found));
      PetscCall(ResidualNorm(A, b, x, &norm, &bnorm));
      PetscCall(ComplainIf(found.reason <= 0 || told.its != found.its || told.rnorm != found.rnorm ||
                             found.length != found.its + 1 || found.norms[found.its] != found.rnorm,
                           "%" INT " eigenvalues, s = %" INT ": %s, iteration %" INT " and norm %g, monitored %" INT " and %g",
                           values, sizes[is], KSPConvergedReasons[found.reason], found.its, (double)found.rnorm, told.its,
                           (double)told.rnorm));
      PetscCall(ComplainIf(!(norm <= 1.01 * rtol * bnorm) || !(found.rnorm <= 1.01 * rtol * bnorm) || found.its < 1 ||
                             found.its > 2 * values + 2,
                           "%" INT " eigenvalues, s = %" INT ": %" INT " iterations, norm %g, and %g of b - A x", values, sizes[is],
                           found.its, (double)found.rnorm, (double)norm));
      PetscCall(DestroyAll(&ksp, &b, &x, &A));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Resistors of different sizes on a grid of 10 x 10 points, and two voltage sources at the same point: the rank is n - 1 */
static PetscReal Resistor(PetscInt i, PetscInt j, PetscInt n)
{
  if (i > j) return Resistor(j, i, n);
  return i >= 0 && j < 100 && (j == i + 10 || (j == i + 1 && j % 10)) ? PetscExpReal(6.0 * PetscSinReal(1.0 + 13.0 * i + 7.0 * j))
                                                                      : 0.0;
}

static PetscScalar Circuit(PetscInt i, PetscInt j, PetscInt n)
{
  if (i >= 100 || j >= 100) return PetscMin(i, j) == 37 ? 1.0 : 0.0;
  if (i == j)
    return Resistor(i, i - 10, n) + Resistor(i, i - 1, n) + Resistor(i, i + 1, n) + Resistor(i, i + 10, n) + (i ? 0.0 : 1.0);
  return -Resistor(i, j, n);
}

/* Numbers so small and so large that x overflows, but not A u */
static PetscScalar Overflowing(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? (i ? 1.0 + i : Power(-0.65)) : 0.0;
}

/*
   If x grows along the null vector of a singular system, the solve ends with KSP_DIVERGED_BREAKDOWN, before x overflows; in rare
   solves x overflows between two tests of ||x||. In single precision the rounding errors may keep x from growing. x is finite for
   every reason but KSP_DIVERGED_NANORINF
*/
static PetscErrorCode TestRunaway(void)
{
  const PetscInt    limits[]  = {3, 50, 130, 200, 400, 485, 1199, 10000};
  const char *const types[]   = {PCPOLY, PCJACOBI};
  PetscInt          overflows = 0;

  PetscFunctionBeginUser;
  for (size_t is = 0; is < SIZES; is++) {
    for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(limits); i++) {
      for (PetscInt test = 0; test < 3; test++) {
        KSPConvergedReason reason;
        PetscReal          norm, bnorm, largest;
        PetscInt           its;
        Mat                A;
        Vec                b, x;
        KSP                ksp;

        PetscCall(SystemCreateEntries(test == 2 ? Overflowing : Circuit, test == 2 ? 20 : 102, RHS_GENERAL, &A, &b, &x));
        if (test == 2) PetscCall(VecSetValue(b, 0, Power(0.65), INSERT_VALUES));
        PetscCall(VecAssemble(b));
        PetscCall(SolverCreate(A, sizes[is], test == 2 ? PCNONE : types[test], &ksp));
        PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, limits[i]));
        PetscCall(VecSet(x, 0.0));
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(KSPGetConvergedReason(ksp, &reason));
        PetscCall(KSPGetIterationNumber(ksp, &its));
        PetscCall(VecNorm(x, NORM_INFINITY, &largest));
        PetscCall(ResidualNorm(A, b, x, &norm, &bnorm));
        PetscCall(ComplainIf(reason != KSP_DIVERGED_NANORINF && !(largest <= PETSC_MAX_REAL),
                             "system %" INT ", s = %" INT ", at most %" INT " iterations: %s after %" INT
                             ", the largest entry of x is %g",
                             test, sizes[is], limits[i], KSPConvergedReasons[reason], its, (double)largest));
        if (test < 2 && reason == KSP_DIVERGED_NANORINF) overflows++;
        else
          PetscCall(ComplainIf(test < 2 && (reason > 0 || (!PetscDefined(USE_REAL_SINGLE) && sizes[is] > 1 && limits[i] == 10000 &&
                                                           (reason != KSP_DIVERGED_BREAKDOWN || its > 5000))),
                               "system %" INT ", s = %" INT ": %s after %" INT " iterations", test, sizes[is],
                               KSPConvergedReasons[reason], its));
        PetscCall(DestroyAll(&ksp, &b, &x, &A));
      }
    }
  }
  PetscCall(ComplainIf(overflows > 1, "%" INT " solves of singular systems overflow", overflows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Skew-symmetric blocks of two rows */
static PetscScalar Turns(PetscInt i, PetscInt j, PetscInt n)
{
  if (n % 2 && i == n - 1) return i == j ? 1.0 : 0.0;
  return i / 2 == j / 2 && i != j ? (i % 2 ? -1.0 : 1.0) : 0.0;
}

/* A difference of squares may be negative if a step solves the system; its root must not be computed */
static PetscErrorCode TestInvalid(void)
{
  PetscFunctionBeginUser;
  for (PetscInt i = 1; i <= 50; i++) {
    Mat A;
    Vec b, x;
    KSP ksp;

    PetscCall(SystemCreateEntries(Identity, 3, RHS_GENERAL, &A, &b, &x));
    PetscCall(MatScale(A, 1.0 + i / 7.0));
    PetscCall(VecSetGeneral(b, 1.0 + i / 7.0));
    PetscCall(SolverCreate(A, 4, PCNONE, &ksp));
    PetscCall(KSPSetUp(ksp));
    (void)feclearexcept(FE_INVALID);
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(ComplainIf(fetestexcept(FE_INVALID), "%" INT " / 7 times the identity: an invalid operation", i));
    PetscCall(DestroyAll(&ksp, &A, &b, &x));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode NormTest(KSP ksp, PetscInt its, PetscReal rnorm, KSPConvergedReason *reason, void *ctx)
{
  PetscFunctionBeginUser;
  *reason = rnorm <= *(PetscReal *)ctx ? KSP_CONVERGED_RTOL : KSP_CONVERGED_ITERATING;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A convergence test of the user is called for the solution even if no restart remains */
static PetscErrorCode TestUser(void)
{
  PetscFunctionBeginUser;
  for (PetscInt n = 2; n <= 8; n++) {
    for (PetscInt s = 1; s <= 8; s++) {
      for (PetscInt i = 0; i < 5; i++) {
        KSPConvergedReason reason;
        PetscReal          tolerance, rnorm, bnorm;
        Mat                A;
        Vec                b, x;
        KSP                ksp;

        PetscCall(SystemCreateEntries(Turns, n, RHS_GENERAL, &A, &b, &x));
        PetscCall(MatScale(A, 0.3 + 0.1 * i));
        PetscCall(VecSetGeneral(b, 0.3 + 0.1 * i));
        PetscCall(VecNorm(b, NORM_2, &bnorm));
        tolerance = rtol * bnorm;
        PetscCall(SolverCreate(A, s, PCNONE, &ksp));
        PetscCall(KSPIDRSSetMaxRestarts_Private(ksp, 0));
        PetscCall(KSPSetConvergenceTest(ksp, NormTest, &tolerance, NULL));
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(KSPGetConvergedReason(ksp, &reason));
        PetscCall(ResidualNorm(A, b, x, &rnorm, &bnorm));
        PetscCall(ComplainIf(!(reason > 0) && rnorm <= tolerance, "n = %" INT ", s = %" INT ", %" INT ": %s with ||b - A x|| = %g",
                             n, s, i, KSPConvergedReasons[reason], (double)rnorm));
        PetscCall(DestroyAll(&ksp, &A, &b, &x));
      }
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A badly scaled real matrix without preconditioner: the recurrence breaks down, restarts from the best solution so far, and
   converges; if it gives up, the solution is no worse than x = 0. Without restarts the growth of r has no limit
*/
static PetscErrorCode TestRestarts(void)
{
  char      file[PETSC_MAX_PATH_LEN] = "";
  PetscInt  total = 0, lost = 0;
  PetscReal bnorm;
  Mat       A;
  Vec       b, x;
  KSP       ksp;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetString(NULL, NULL, "-f", file, sizeof(file), NULL));
  if (PetscDefined(USE_REAL_SINGLE)) {
    PetscCall(Skip("the matrix needs double precision"));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(MatLoadMatrixMarket(PETSC_COMM_WORLD, file, &A));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecSetGeneral(b, 1.0));
  for (PetscInt i = 0; i < 2 * 5 * 2; i++) { /* s, seeds, enough restarts and none */
    const PetscInt     s = i % 2 ? 8 : 4, seed = i / 2 % 5;
    const PetscBool    few = (PetscBool)(i / 10);
    KSPConvergedReason reason;
    PetscReal          norm;
    PetscInt           restarts;

    PetscCall(SolverCreate(A, s, PCNONE, &ksp));
    PetscCall(KSPIDRSSetShadowSeed(ksp, seed));
    PetscCall(KSPIDRSSetMaxRestarts_Private(ksp, few ? 0 : 10));
    PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 10000));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(KSPGetConvergedReason(ksp, &reason));
    PetscCall(KSPIDRSGetCounts(ksp, NULL, NULL, NULL, &restarts));
    PetscCall(ResidualNorm(A, b, x, &norm, &bnorm));
    total += restarts;
    lost += !few && reason < 0;
    PetscCall(ComplainIf(((!few || reason > 0) && !(norm <= (reason > 0 ? 1.01 * rtol : 1.0) * bnorm)) || (few && restarts),
                         "s = %" INT ", seed %" INT ": %s after %" INT " restarts, the norm of b - A x is %g of %g", s, seed,
                         KSPConvergedReasons[reason], restarts, (double)norm, (double)bnorm));
    PetscCall(KSPDestroy(&ksp));
  }
  /* the iteration of a breakdown depends on the rounding errors of matvecs and sums: one of the ten may give up */
  PetscCall(ComplainIf(lost > 1 || !total, "%" INT " solves of 10 have not converged, %" INT " restarts", lost, total));
  PetscCall(DestroyAll(&x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestDimensions, "dimensions around s"}, {TestShadows, "shadow vectors"}, {TestScales, "scales of shadow vectors"},
          {TestTold, "breakdowns and restarts told"}, {TestAstray, "recurrences that go astray"},
          {TestGiven, "a shadow vector almost orthogonal to A b"}, {TestDominated, NULL},
          {TestExtremeSystems, "systems whose squares vanish or overflow"},
          {TestExtremeColumns, "right-hand sides whose squares vanish or overflow"},
          {TestEndOfStart, "ends of starts that solve the system"}, {TestRunaway, "iterates that run away"},
          {TestInvalid, "invalid operations"}, {TestUser, "a test of the user, without restarts"}, {TestRestarts, "restarts"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}
    args: -f ${PETSCIDRS_DIR}/tutorials/matrices/watt_1.mtx.gz

TEST*/
