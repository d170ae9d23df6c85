static char help[] = "What KSPIDRS shows of itself to the rest of PETSc: iterates, norms, reasons, counts, settings, reuse, and the objects it works with.\n\n";

#include <petscidrs.h>
#include <petscdmda.h>
#include "columns.h"
#include "complain.h"
#include "operators.h"

/* Longest residual history of a solve here */
#define MAX_HISTORY 1000

/* Entries between -1 and 1 that follow no pattern, the same on any number of processes */
static PetscErrorCode VecSetGeneral(Vec x, PetscReal start)
{
  PetscInt     begin, end;
  PetscScalar *array;

  PetscFunctionBeginUser;
  PetscCall(VecGetOwnershipRange(x, &begin, &end));
  PetscCall(VecGetArrayWrite(x, &array));
  for (PetscInt i = begin; i < end; i++) array[i - begin] = PetscSinReal(start * (1.0 + 1.7 * i + 0.3 * i * i));
  PetscCall(VecRestoreArrayWrite(x, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* How the rows are shared among the processes */
typedef enum {
  LAYOUT_EVEN,
  LAYOUT_UNEVEN, /* more the higher the rank */
  LAYOUT_EMPTY,  /* nothing on the first process */
  LAYOUT_ONE,    /* everything on the last */
  LAYOUTS
} Layout;
static const char *const layouts[] = {"even", "uneven", "first empty", "all on the last"};

static PetscErrorCode LayoutSize(MPI_Comm comm, Layout layout, PetscInt N, PetscInt *n)
{
  PetscMPIInt rank, size;
  PetscInt    before, after;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(comm, &rank));
  PetscCallMPI(MPI_Comm_size(comm, &size));
  *n = PETSC_DECIDE;
  if (size > 1) {
    if (layout == LAYOUT_ONE) *n = rank == size - 1 ? N : 0;
    if (layout == LAYOUT_EMPTY) *n = rank ? N / (size - 1) + (rank - 1 < N % (size - 1) ? 1 : 0) : 0;
    if (layout == LAYOUT_UNEVEN) {
      before = N * (rank * (rank + 1)) / (size * (size + 1));
      after  = N * ((rank + 1) * (rank + 2)) / (size * (size + 1));
      *n     = after - before;
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Convection and diffusion on a square of m by m points; with an imaginary shift where there are complex numbers */
static PetscErrorCode SystemCreate(MPI_Comm comm, PetscInt m, PetscReal convection, Layout layout, Mat *A, Vec *b)
{
  const PetscInt  N     = m * m;
  const PetscReal h     = convection / 2;
  PetscScalar     shift = 4.0;
  PetscInt        n, begin, end;

  PetscFunctionBeginUser;
#if PetscDefined(USE_COMPLEX)
  shift += 0.3 * PETSC_i;
#endif
  PetscCall(LayoutSize(comm, layout, N, &n));
  PetscCall(MatCreate(comm, A));
  PetscCall(MatSetSizes(*A, n, n, N, N));
  PetscCall(MatSetType(*A, MATAIJ));
  PetscCall(MatSetFromOptions(*A));
  PetscCall(MatSeqAIJSetPreallocation(*A, 5, NULL));
  PetscCall(MatMPIAIJSetPreallocation(*A, 5, NULL, 4, NULL));
  PetscCall(MatGetOwnershipRange(*A, &begin, &end));
  for (PetscInt row = begin; row < end; row++) {
    const PetscInt i = row % m, j = row / m;

    PetscCall(MatSetValue(*A, row, row, shift + 0.02 * (row % 7), INSERT_VALUES));
    if (i > 0) PetscCall(MatSetValue(*A, row, row - 1, -1.0 - h, INSERT_VALUES));
    if (i < m - 1) PetscCall(MatSetValue(*A, row, row + 1, -1.0 + h, INSERT_VALUES));
    if (j > 0) PetscCall(MatSetValue(*A, row, row - m, -1.0 - h / 2, INSERT_VALUES));
    if (j < m - 1) PetscCall(MatSetValue(*A, row, row + m, -1.0 + h / 2, INSERT_VALUES));
  }
  PetscCall(MatAssemblyBegin(*A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(*A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatCreateVecs(*A, NULL, b));
  PetscCall(VecSetGeneral(*b, 1.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A solver as the tests want it; options are left to those tests that are about them */
static PetscErrorCode SolverCreate(Mat A, PetscInt s, PCSide side, const char *pctype, KSP *ksp)
{
  PC pc;

  PetscFunctionBeginUser;
  PetscCall(KSPCreate(PetscObjectComm((PetscObject)A), ksp));
  PetscCall(KSPSetOperators(*ksp, A, A));
  PetscCall(KSPSetType(*ksp, KSPIDRS));
  PetscCall(KSPIDRSSetShadowSize(*ksp, s));
  PetscCall(KSPIDRSSetImplementation(*ksp, implementation));
  PetscCall(KSPSetPCSide(*ksp, side));
  PetscCall(KSPSetTolerances(*ksp, rtol, 0.0, PETSC_DEFAULT, 500));
  PetscCall(KSPGetPC(*ksp, &pc));
  PetscCall(PCSetType(pc, pctype));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* ||b - A x||, or that of the preconditioned residual where the solver works on this one */
static PetscErrorCode TrueNorm(KSP ksp, Vec b, Vec x, PetscReal *norm)
{
  PCSide side;
  Mat    A;
  Vec    r, w;
  PC     pc;

  PetscFunctionBeginUser;
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(KSPGetPCSide(ksp, &side));
  PetscCall(KSPGetOperators(ksp, &A, NULL));
  PetscCall(VecDuplicate(b, &r));
  PetscCall(VecDuplicate(b, &w));
  PetscCall(MatMult(A, x, r));
  PetscCall(VecAYPX(r, -1.0, b));
  if (side == PC_LEFT) PetscCall(PCApply(pc, r, w));
  PetscCall(VecNorm(side == PC_LEFT ? w : r, NORM_2, norm));
  PetscCall(VecDestroy(&r));
  PetscCall(VecDestroy(&w));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Converged, and truly: the norm of the residual of x is below the tolerance, and it is the norm reported */
static PetscErrorCode CheckConverged(const char what[], KSP ksp, Vec b, Vec x)
{
  KSPConvergedReason reason;
  PetscReal          norm, reported, reference;
  Vec                zero;

  PetscFunctionBeginUser;
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(KSPGetResidualNorm(ksp, &reported));
  PetscCall(TrueNorm(ksp, b, x, &norm));
  PetscCall(VecDuplicate(x, &zero));
  PetscCall(VecSet(zero, 0.0));
  PetscCall(TrueNorm(ksp, b, zero, &reference));
  PetscCall(VecDestroy(&zero));
  if (!(reason > 0)) PetscCall(Complain("%s: %s", what, KSPConvergedReasons[reason]));
  if (!(norm <= 1.01 * rtol * reference)) PetscCall(Complain("%s: the norm of b - A x is %g of %g", what, (double)norm, (double)reference));
  if (!(PetscAbsReal(norm - reported) <= PetscMax(1e-12, 10 * PETSC_MACHINE_EPSILON) * reference)) PetscCall(Complain("%s: the norm of b - A x is %g, reported %g", what, (double)norm, (double)reported));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A solve with the norms of all its iterations */
typedef struct {
  PetscInt  length;
  PetscReal norms[MAX_HISTORY];
} History;

static PetscErrorCode SolveHistory(KSP ksp, Vec b, Vec x, History *history)
{
  const PetscReal *norms;

  PetscFunctionBeginUser;
  PetscCall(KSPSetResidualHistory(ksp, NULL, MAX_HISTORY, PETSC_TRUE));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(KSPGetResidualHistory(ksp, &norms, &history->length));
  PetscCall(PetscArraycpy(history->norms, norms, history->length));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode CheckSame(const char what[], const History *first, const History *second)
{
  PetscFunctionBeginUser;
  if (first->length != second->length || first->length < 2) PetscCall(Complain("%s: %" PetscInt_FMT " norms instead of %" PetscInt_FMT, what, second->length, first->length));
  else {
    for (PetscInt i = 0; i < first->length; i++) {
      if (!(first->norms[i] == second->norms[i])) {
        PetscCall(Complain("%s: norm %" PetscInt_FMT " is %.16g instead of %.16g", what, i, (double)second->norms[i], (double)first->norms[i]));
        break;
      }
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The history of a new solver with these settings: what any used one has to repeat, bit by bit */
static PetscErrorCode FreshHistory(Mat A, Vec b, PetscInt s, PetscInt seed, PetscReal cosine, PetscReal tolerance, PCSide side, const char *pctype, History *history)
{
  KSP ksp;
  Vec x;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(b, &x));
  PetscCall(SolverCreate(A, s, side, pctype, &ksp));
  PetscCall(KSPIDRSSetShadowSeed(ksp, seed));
  PetscCall(KSPIDRSSetMinimumCosine(ksp, cosine));
  PetscCall(KSPIDRSSetUpdateTolerance(ksp, tolerance));
  PetscCall(SolveHistory(ksp, b, x, history));
  PetscCall(CheckConverged("a new solver", ksp, b, x));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A monitor that looks at the iterate and its residual at every iteration, and keeps the norms
*/
typedef struct {
  const char *what;
  Vec         b, x, t, v, w;
  PetscInt    calls;
  PetscReal   peak;
  PetscBool   build;
  PetscReal   norms[MAX_HISTORY];
} Watch;

static PetscErrorCode WatchCreate(const char what[], Vec b, PetscBool build, Watch *watch)
{
  PetscFunctionBeginUser;
  watch->what  = what;
  watch->b     = b;
  watch->calls = 0;
  watch->peak  = 0.0;
  watch->build = build;
  PetscCall(VecDuplicate(b, &watch->x));
  PetscCall(VecDuplicate(b, &watch->t));
  PetscCall(VecDuplicate(b, &watch->v));
  PetscCall(VecDuplicate(b, &watch->w));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode WatchDestroy(Watch *watch)
{
  PetscFunctionBeginUser;
  PetscCall(VecDestroy(&watch->x));
  PetscCall(VecDestroy(&watch->t));
  PetscCall(VecDestroy(&watch->v));
  PetscCall(VecDestroy(&watch->w));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode WatchMonitor(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  Watch    *watch = (Watch *)ctx;
  PetscReal norm, difference;
  PetscInt  reported;
  PCSide    side;
  PC        pc;
  Vec       x, v;

  PetscFunctionBeginUser;
  PetscCall(KSPGetIterationNumber(ksp, &reported));
  if (its != watch->calls) PetscCall(Complain("%s: monitored iteration %" PetscInt_FMT " after %" PetscInt_FMT " calls", watch->what, its, watch->calls));
  if (its != reported) PetscCall(Complain("%s: monitored iteration %" PetscInt_FMT " when the solver is at %" PetscInt_FMT, watch->what, its, reported));
  if (watch->calls < MAX_HISTORY) watch->norms[watch->calls] = rnorm;
  watch->calls++;
  watch->peak = PetscMax(watch->peak, rnorm);
  if (!watch->build) PetscFunctionReturn(PETSC_SUCCESS);

  PetscCall(KSPBuildSolution(ksp, watch->x, NULL));
  PetscCall(TrueNorm(ksp, watch->b, watch->x, &norm));
  if (!(PetscAbsReal(norm - rnorm) <= 50000 * PETSC_MACHINE_EPSILON * watch->peak))
    PetscCall(Complain("%s: at iteration %" PetscInt_FMT " the solution built has a residual norm of %.14g, reported %.14g", watch->what, its, (double)norm, (double)rnorm));

  PetscCall(KSPBuildSolution(ksp, NULL, &x));
  PetscCall(VecCopy(x, watch->t));
  PetscCall(VecAXPY(watch->t, -1.0, watch->x));
  PetscCall(VecNorm(watch->t, NORM_INFINITY, &difference));
  if (!(difference == 0.0)) PetscCall(Complain("%s: at iteration %" PetscInt_FMT " the solution built in a vector of the solver differs by %g", watch->what, its, (double)difference));

  PetscCall(KSPBuildResidual(ksp, watch->t, watch->v, &v));
  PetscCall(KSPGetPCSide(ksp, &side));
  PetscCall(KSPGetPC(ksp, &pc));
  if (side == PC_LEFT) PetscCall(PCApply(pc, v, watch->w));
  else PetscCall(VecCopy(v, watch->w));
  PetscCall(VecNorm(watch->w, NORM_2, &norm));
  if (!(PetscAbsReal(norm - rnorm) <= 50000 * PETSC_MACHINE_EPSILON * watch->peak)) PetscCall(Complain("%s: at iteration %" PetscInt_FMT " the residual built has a norm of %.14g, reported %.14g", watch->what, its, (double)norm, (double)rnorm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Every iteration is monitored once, in order, with the norm of the history; solution and residual can be built at each */
static PetscErrorCode TestMonitors(void)
{
  const PetscInt  sizes[]      = {1, 2, 4, 8};
  const PCSide    sides[]      = {PC_RIGHT, PC_LEFT};
  const char     *pctypes[]    = {PCNONE, PCJACOBI};
  const PetscReal tolerances[] = {1e-3, 0.0, 0.7};
  Mat             A;
  Vec             b, x;

  PetscFunctionBeginUser;
  PetscCall(SystemCreate(PETSC_COMM_WORLD, 11, 0.8, LAYOUT_UNEVEN, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
    for (size_t iside = 0; iside < 2; iside++) {
      for (size_t ipc = 0; ipc < 2; ipc++) {
        for (size_t itol = 0; itol < PETSC_STATIC_ARRAY_LENGTH(tolerances); itol++) {
          for (PetscInt guess = 0; guess < 2; guess++) {
            static History history;
            static Watch   watch;
            char           what[128];
            PetscInt       its;
            KSP            ksp;

            PetscCall(PetscSNPrintf(what, sizeof(what), "s = %" PetscInt_FMT ", %s, %s, update tolerance %g, %s guess", sizes[is], PCSides[sides[iside]], pctypes[ipc], (double)tolerances[itol], guess ? "nonzero" : "zero"));
            PetscCall(SolverCreate(A, sizes[is], sides[iside], pctypes[ipc], &ksp));
            PetscCall(KSPIDRSSetUpdateTolerance(ksp, tolerances[itol]));
            PetscCall(VecSetGeneral(x, 2.0));
            PetscCall(KSPSetInitialGuessNonzero(ksp, guess ? PETSC_TRUE : PETSC_FALSE));
            PetscCall(WatchCreate(what, b, PETSC_TRUE, &watch));
            PetscCall(KSPMonitorSet(ksp, WatchMonitor, &watch, NULL));
            PetscCall(SolveHistory(ksp, b, x, &history));
            PetscCall(CheckConverged(what, ksp, b, x));
            PetscCall(KSPGetIterationNumber(ksp, &its));
            if (watch.calls != its + 1 || history.length != its + 1) PetscCall(Complain("%s: %" PetscInt_FMT " calls of the monitor, %" PetscInt_FMT " norms of %" PetscInt_FMT " iterations", what, watch.calls, history.length, its));
            for (PetscInt i = 0; i < PetscMin(watch.calls, history.length); i++) {
              if (!(watch.norms[i] == history.norms[i])) PetscCall(Complain("%s: norm %g of iteration %" PetscInt_FMT " monitored, %g in the history", what, (double)watch.norms[i], i, (double)history.norms[i]));
            }
            PetscCall(WatchDestroy(&watch));
            PetscCall(KSPDestroy(&ksp));
          }
        }
      }
    }
  }
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("monitors, solution and residual at every iteration"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A convergence test that stops at an iteration, for a reason; when it is asked again, with b - A x, for the second one */
typedef struct {
  PetscInt           stop;
  KSPConvergedReason reason, second;
  PetscInt           calls; /* at that iteration */
} Stop;

static PetscErrorCode StopTest(KSP ksp, PetscInt its, PetscReal rnorm, KSPConvergedReason *reason, void *ctx)
{
  Stop *stop = (Stop *)ctx;

  PetscFunctionBeginUser;
  *reason = KSP_CONVERGED_ITERATING;
  if (its >= stop->stop) *reason = stop->calls++ ? stop->second : stop->reason;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* How a solve is ended at a certain iteration */
typedef enum {
  END_MAX_IT,   /* -ksp_max_it */
  END_SKIP,     /* that and -ksp_convergence_test skip */
  END_NO_NORM,  /* that and -ksp_norm_type none */
  END_ITS,      /* a test of the user's: convergence for a reason of its own, */
  END_RTOL,     /* for one that the solver verifies, */
  END_DIVERGED, /* or divergence, */
  END_REJECTED, /* or divergence once it has seen b - A x */
  ENDS
} End;
static const char *const ends[] = {"max_it", "max_it, no test", "max_it, no norm", "user's test", "user's test of a tolerance", "user's test of divergence", "user's test of a tolerance, then of divergence"};

/* Wherever in a cycle a solve is ended, it has made exactly these iterations, and the x handed back belongs to the norm reported */
static PetscErrorCode TestEnds(void)
{
  const PetscInt                  sizes[]   = {1, 2, 4, 8};
  const PCSide                    sides[]   = {PC_RIGHT, PC_LEFT};
  const char                     *pctypes[] = {PCNONE, PCJACOBI};
  static const KSPConvergedReason reasons[] = {KSP_DIVERGED_ITS, KSP_CONVERGED_ITS, KSP_DIVERGED_ITS, KSP_CONVERGED_ITS, KSP_CONVERGED_RTOL, KSP_DIVERGED_DTOL, KSP_DIVERGED_BREAKDOWN};
  Mat                             A;
  Vec                             b, x, first;

  PetscFunctionBeginUser;
  PetscCall(SystemCreate(PETSC_COMM_WORLD, 12, 0.8, LAYOUT_UNEVEN, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(b, &first));
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
    for (size_t iside = 0; iside < 2; iside++) {
      for (size_t ipc = 0; ipc < 2; ipc++) {
        for (PetscInt limit = 0; limit <= 12; limit++) {
          for (PetscInt end = 0; end < ENDS; end++) {
            KSPConvergedReason reason;
            PetscReal          norm, reported, size;
            PetscInt           its, products, updates;
            char               what[128];
            Stop               stop = {limit, end == END_REJECTED ? KSP_CONVERGED_RTOL : reasons[end], reasons[end], 0};
            KSP                ksp;

            if (end == END_REJECTED && !limit) continue; /* the first norm is that of b - A x */
            PetscCall(PetscSNPrintf(what, sizeof(what), "s = %" PetscInt_FMT ", %s, %s, end at %" PetscInt_FMT " by %s", sizes[is], PCSides[sides[iside]], pctypes[ipc], limit, ends[end]));
            PetscCall(SolverCreate(A, sizes[is], sides[iside], pctypes[ipc], &ksp));
            PetscCall(KSPSetTolerances(ksp, 1e-13, PETSC_DEFAULT, PETSC_DEFAULT, end <= END_NO_NORM ? limit : 500));
            if (end == END_SKIP) PetscCall(KSPSetConvergenceTest(ksp, KSPConvergedSkip, NULL, NULL));
            if (end == END_NO_NORM) PetscCall(KSPSetNormType(ksp, KSP_NORM_NONE));
            if (end > END_NO_NORM) PetscCall(KSPSetConvergenceTest(ksp, StopTest, &stop, NULL));
            PetscCall(KSPSolve(ksp, b, x));
            PetscCall(KSPGetConvergedReason(ksp, &reason));
            PetscCall(KSPGetIterationNumber(ksp, &its));
            PetscCall(KSPGetResidualNorm(ksp, &reported));
            PetscCall(TrueNorm(ksp, b, x, &norm));
            if (its != limit) PetscCall(Complain("%s: %" PetscInt_FMT " iterations", what, its));
            /* without a norm releases of PETSc differ about the reason */
            if (reason != reasons[end] && !(end == END_NO_NORM && reason == KSP_CONVERGED_ITS)) PetscCall(Complain("%s: %s", what, KSPConvergedReasons[reason]));
            if (end != END_NO_NORM && !(PetscAbsReal(norm - reported) <= 5000 * PETSC_MACHINE_EPSILON * PetscMax(norm, 1.0))) PetscCall(Complain("%s: the norm of b - A x is %.14g, reported %.14g", what, (double)norm, (double)reported));
            /* no product is made for nothing: one more than iterations where the norm of the last comes with the next, one to verify a tolerance */
            PetscCall(KSPIDRSGetCounts(ksp, &products, NULL, &updates, NULL));
            if (products < its || products > its + 1 + updates + (end == END_RTOL || end == END_REJECTED ? 1 : 0))
              PetscCall(Complain("%s: %" PetscInt_FMT " products for %" PetscInt_FMT " iterations, %" PetscInt_FMT " updates", what, products, its, updates));
            if (end <= END_NO_NORM && products != its + updates) PetscCall(Complain("%s: %" PetscInt_FMT " products for %" PetscInt_FMT " iterations, %" PetscInt_FMT " updates", what, products, its, updates));
            if (!end) PetscCall(VecCopy(x, first));
            PetscCall(VecNorm(first, NORM_2, &size));
            PetscCall(VecAXPY(x, -1.0, first));
            PetscCall(VecNorm(x, NORM_2, &norm));
            if (!(norm <= 1e6 * PETSC_MACHINE_EPSILON * size)) PetscCall(Complain("%s: x differs by %g of %g from that by max_it", what, (double)norm, (double)size));
            PetscCall(KSPDestroy(&ksp));
          }
        }
      }
    }
  }
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&first));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("ends at every iteration"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A used solver forgets: whatever changes between two solves, the next is that of a new solver, bit by bit */
static PetscErrorCode TestReuse(void)
{
  History *expected, *found;
  Mat      A, B, C;
  Vec      b, c, x, y;
  KSP      ksp;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc2(1, &expected, 1, &found));
  PetscCall(SystemCreate(PETSC_COMM_WORLD, 12, 0.8, LAYOUT_EVEN, &A, &b));
  PetscCall(SystemCreate(PETSC_COMM_WORLD, 9, 0.3, LAYOUT_EVEN, &C, &c));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(c, &y));
  PetscCall(SolverCreate(A, 4, PC_RIGHT, PCJACOBI, &ksp));
  PetscCall(FreshHistory(A, b, 4, 0, 0.5, 1e-3, PC_RIGHT, PCJACOBI, expected));
  for (PetscInt i = 0; i < 3; i++) {
    PetscCall(SolveHistory(ksp, b, x, found));
    PetscCall(CheckSame("the same again", expected, found));
  }

  PetscCall(KSPIDRSSetShadowSize(ksp, 7));
  PetscCall(FreshHistory(A, b, 7, 0, 0.5, 1e-3, PC_RIGHT, PCJACOBI, expected));
  PetscCall(SolveHistory(ksp, b, x, found));
  PetscCall(CheckSame("larger s", expected, found));
  PetscCall(KSPIDRSSetShadowSize(ksp, 2));
  PetscCall(FreshHistory(A, b, 2, 0, 0.5, 1e-3, PC_RIGHT, PCJACOBI, expected));
  PetscCall(SolveHistory(ksp, b, x, found));
  PetscCall(CheckSame("smaller s", expected, found));
  PetscCall(KSPIDRSSetShadowSeed(ksp, 17));
  PetscCall(FreshHistory(A, b, 2, 17, 0.5, 1e-3, PC_RIGHT, PCJACOBI, expected));
  PetscCall(SolveHistory(ksp, b, x, found));
  PetscCall(CheckSame("another seed", expected, found));
  PetscCall(KSPIDRSSetMinimumCosine(ksp, 0.0));
  PetscCall(FreshHistory(A, b, 2, 17, 0.0, 1e-3, PC_RIGHT, PCJACOBI, expected));
  PetscCall(SolveHistory(ksp, b, x, found));
  PetscCall(CheckSame("another cosine", expected, found));
  PetscCall(KSPIDRSSetUpdateTolerance(ksp, 0.0));
  PetscCall(FreshHistory(A, b, 2, 17, 0.0, 0.0, PC_RIGHT, PCJACOBI, expected));
  PetscCall(SolveHistory(ksp, b, x, found));
  PetscCall(CheckSame("no reliable updates", expected, found));
  PetscCall(KSPIDRSSetUpdateTolerance(ksp, 0.5));
  PetscCall(FreshHistory(A, b, 2, 17, 0.0, 0.5, PC_RIGHT, PCJACOBI, expected));
  PetscCall(SolveHistory(ksp, b, x, found));
  PetscCall(CheckSame("frequent reliable updates", expected, found));
  /* PETSc keeps the norm that belonged to the old side, unless told not to */
  PetscCall(KSPSetPCSide(ksp, PC_LEFT));
  PetscCall(KSPSetNormType(ksp, KSP_NORM_DEFAULT));
  PetscCall(FreshHistory(A, b, 2, 17, 0.0, 0.5, PC_LEFT, PCJACOBI, expected));
  PetscCall(SolveHistory(ksp, b, x, found));
  PetscCall(CheckSame("left side", expected, found));
  PetscCall(KSPSetPCSide(ksp, PC_RIGHT));
  PetscCall(KSPSetNormType(ksp, KSP_NORM_DEFAULT));
  PetscCall(FreshHistory(A, b, 2, 17, 0.0, 0.5, PC_RIGHT, PCJACOBI, expected));
  PetscCall(SolveHistory(ksp, b, x, found));
  PetscCall(CheckSame("right side again", expected, found));

  /* other values in the same matrix, another matrix of the same size, another size after a reset */
  PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &B));
  PetscCall(MatShift(A, 0.7));
  PetscCall(FreshHistory(A, b, 2, 17, 0.0, 0.5, PC_RIGHT, PCJACOBI, expected));
  PetscCall(SolveHistory(ksp, b, x, found));
  PetscCall(CheckConverged("other values", ksp, b, x));
  PetscCall(CheckSame("other values", expected, found));
  PetscCall(KSPSetOperators(ksp, B, B));
  PetscCall(FreshHistory(B, b, 2, 17, 0.0, 0.5, PC_RIGHT, PCJACOBI, expected));
  PetscCall(SolveHistory(ksp, b, x, found));
  PetscCall(CheckConverged("another matrix", ksp, b, x));
  PetscCall(CheckSame("another matrix", expected, found));
  PetscCall(KSPReset(ksp));
  PetscCall(KSPSetOperators(ksp, C, C));
  PetscCall(FreshHistory(C, c, 2, 17, 0.0, 0.5, PC_RIGHT, PCJACOBI, expected));
  PetscCall(SolveHistory(ksp, c, y, found));
  PetscCall(CheckConverged("another size", ksp, c, y));
  PetscCall(CheckSame("another size", expected, found));
  PetscCall(KSPReset(ksp));
  PetscCall(KSPReset(ksp));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&y));
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&c));
  PetscCall(MatDestroy(&A));
  PetscCall(MatDestroy(&B));
  PetscCall(MatDestroy(&C));
  PetscCall(PetscFree2(expected, found));
  PetscCall(Verdict("reuse"));
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

/* Two solvers with prefixes, and options of their own, one working while the other waits */
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
  PetscCall(SystemCreate(PETSC_COMM_WORLD, 12, 0.8, LAYOUT_EVEN, &A, &b));
  PetscCall(SystemCreate(PETSC_COMM_WORLD, 9, 0.3, LAYOUT_EVEN, &C, &other.b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(other.b, &other.x));
  PetscCall(PetscOptionsSetValue(NULL, "-first_ksp_idrs_s", "2"));
  PetscCall(PetscOptionsSetValue(NULL, "-second_ksp_idrs_s", "8"));
  PetscCall(PetscOptionsSetValue(NULL, "-second_ksp_idrs_cosine", "0.25"));
  PetscCall(PetscOptionsSetValue(NULL, "-second_ksp_idrs_seed", "3"));
  PetscCall(PetscOptionsSetValue(NULL, "-second_ksp_idrs_update_tol", "0.1"));
  PetscCall(PetscOptionsSetValue(NULL, "-second_ksp_idrs_max_restarts", "5"));
  for (PetscInt i = 0; i < 2; i++) {
    PetscCall(SolverCreate(i ? C : A, 4, PC_RIGHT, PCJACOBI, &ksp[i]));
    PetscCall(KSPSetOptionsPrefix(ksp[i], prefixes[i]));
    PetscCall(KSPSetFromOptions(ksp[i]));
    PetscCall(KSPIDRSGetShadowSize(ksp[i], &s));
    if (s != (i ? 8 : 2)) PetscCall(Complain("-%sksp_idrs_s: s = %" PetscInt_FMT, prefixes[i], s));
  }
  {
    PetscInt  seed, restarts;
    PetscReal cosine, tolerance;

    PetscCall(KSPIDRSGetShadowSeed(ksp[1], &seed));
    PetscCall(KSPIDRSGetMinimumCosine(ksp[1], &cosine));
    PetscCall(KSPIDRSGetUpdateTolerance(ksp[1], &tolerance));
    PetscCall(KSPIDRSGetMaxRestarts(ksp[1], &restarts));
    if (seed != 3 || !(cosine == 0.25) || !(tolerance == (PetscReal)0.1) || restarts != 5)
      PetscCall(Complain("options: seed %" PetscInt_FMT ", cosine %g, update tolerance %g, %" PetscInt_FMT " restarts", seed, (double)cosine, (double)tolerance, restarts));
  }
  PetscCall(KSPMonitorSet(ksp[0], QuietMonitor, NULL, NULL)); /* on a GPU both solves are made in lockstep then, with the same rounding */
  PetscCall(SolveHistory(ksp[0], b, x, expected));
  other.ksp    = ksp[1];
  other.solves = 0;
  PetscCall(KSPMonitorSet(ksp[0], OtherMonitor, &other, NULL));
  PetscCall(SolveHistory(ksp[0], b, x, found));
  PetscCall(CheckConverged("the solver outside", ksp[0], b, x));
  PetscCall(CheckSame("interleaved", expected, found));
  if (other.solves < 3) PetscCall(Complain("only %" PetscInt_FMT " solves inside", other.solves));
  {
    PetscInt products, reductions, updates, restarts;

    PetscCall(KSPIDRSSetShadowSize(ksp[0], 3));
    PetscCall(KSPSetUp(ksp[0]));
    PetscCall(KSPIDRSGetCounts(ksp[0], &products, &reductions, &updates, &restarts));
    if (products || reductions || updates || restarts)
      PetscCall(Complain("set up again, not solved: %" PetscInt_FMT " products, %" PetscInt_FMT " reductions, %" PetscInt_FMT " updates, %" PetscInt_FMT " restarts", products, reductions, updates, restarts));
  }
  for (PetscInt i = 0; i < 2; i++) PetscCall(KSPDestroy(&ksp[i]));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&other.x));
  PetscCall(VecDestroy(&other.b));
  PetscCall(MatDestroy(&A));
  PetscCall(MatDestroy(&C));
  PetscCall(PetscFree2(expected, found));
  PetscCall(Verdict("two solvers with prefixes"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode CheckDivtol(const char what[], KSP ksp, PetscReal expected)
{
  PetscReal divtol;

  PetscFunctionBeginUser;
  PetscCall(KSPGetTolerances(ksp, NULL, NULL, &divtol, NULL));
  if (!(PetscAbsReal(divtol - expected) <= 1e-6 * expected)) PetscCall(Complain("%s: divergence tolerance %g instead of %g", what, (double)divtol, (double)expected));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* From one type to another and back; the divergence tolerance is raised only for this type, and where it is PETSc's default */
static PetscErrorCode TestTypes(void)
{
  PetscInt s;
  Mat      A;
  Vec      b, x;
  KSP      ksp;

  PetscFunctionBeginUser;
  PetscCall(SystemCreate(PETSC_COMM_WORLD, 12, 0.8, LAYOUT_EVEN, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(SolverCreate(A, 6, PC_RIGHT, PCJACOBI, &ksp));
  for (PetscInt i = 0; i < 3; i++) {
    PetscCall(CheckDivtol("the default", ksp, 1e30));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(CheckConverged("before gmres", ksp, b, x));
    PetscCall(KSPSetType(ksp, KSPGMRES));
    PetscCall(CheckDivtol("gmres after it", ksp, 1e4));
    /* with another type the setters do nothing */
    PetscCall(KSPIDRSSetShadowSize(ksp, 3));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(CheckConverged("gmres", ksp, b, x));
    PetscCall(KSPSetType(ksp, KSPIDRS));
    PetscCall(KSPIDRSGetShadowSize(ksp, &s));
    if (s != 4 && s != 6) PetscCall(Complain("s = %" PetscInt_FMT " after gmres", s));
    PetscCall(KSPIDRSSetImplementation(ksp, implementation));
  }
  PetscCall(KSPDestroy(&ksp));

  /* a tolerance that somebody has set stays, before and after the type */
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

  /* an option reaches a type that comes by option, and destroying a solver that was never used leaks nothing */
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOptionsPrefix(ksp, "by_"));
  PetscCall(PetscOptionsSetValue(NULL, "-by_ksp_type", "idrs"));
  PetscCall(PetscOptionsSetValue(NULL, "-by_ksp_idrs_s", "11"));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(KSPIDRSGetShadowSize(ksp, &s));
  if (s != 11) PetscCall(Complain("-by_ksp_type idrs -by_ksp_idrs_s 11: s = %" PetscInt_FMT, s));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("types and the divergence tolerance"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* One global reduction a product: as the solver counts them, and as PETSc counts the calls of MPI_Allreduce() */
static PetscErrorCode TestCounts(void)
{
  const PetscInt sizes[] = {1, 2, 4, 8}, limits[] = {1, 4, 5, 6, 9, 20, 37};
  PetscMPIInt    size;
  Mat            A;
  Vec            b, x;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(SystemCreate(PETSC_COMM_WORLD, 20, 0.8, LAYOUT_EVEN, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
    for (size_t il = 0; il < PETSC_STATIC_ARRAY_LENGTH(limits); il++) {
      const PetscInt N = limits[il];
      KSP            ksp;

      PetscCall(SolverCreate(A, sizes[is], PC_RIGHT, PCNONE, &ksp));
      PetscCall(KSPSetConvergenceTest(ksp, KSPConvergedSkip, NULL, NULL));
      PetscCall(KSPSetTolerances(ksp, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT, N));
      PetscCall(KSPSetUp(ksp));
      for (PetscInt solve = 0; solve < 2; solve++) {
        const PetscLogDouble before = petsc_allreduce_ct;
        PetscInt             its, products, reductions, updates, restarts, calls;

        PetscCall(KSPSolve(ksp, b, x));
        calls = (PetscInt)(petsc_allreduce_ct - before);
        PetscCall(KSPGetIterationNumber(ksp, &its));
        PetscCall(KSPIDRSGetCounts(ksp, &products, &reductions, &updates, &restarts));
        PetscCall(KSPIDRSGetCounts(ksp, NULL, NULL, NULL, NULL));
        if (its != N || restarts) PetscCall(Complain("s = %" PetscInt_FMT ", %" PetscInt_FMT " iterations: %" PetscInt_FMT ", %" PetscInt_FMT " restarts", sizes[is], N, its, restarts));
        if (products != N + updates) PetscCall(Complain("s = %" PetscInt_FMT ", %" PetscInt_FMT " iterations, %" PetscInt_FMT " updates: %" PetscInt_FMT " products", sizes[is], N, updates, products));
        /* the first projection, one after each update, and on several processes that of the last norm */
        if (reductions < N + 1 + updates || reductions > N + 1 + updates + (size > 1 ? 1 : 0))
          PetscCall(Complain("s = %" PetscInt_FMT ", %" PetscInt_FMT " iterations, %" PetscInt_FMT " updates: %" PetscInt_FMT " reductions", sizes[is], N, updates, reductions));
        /* PETSc with debugging makes many more, to see that all processes say the same */
        if (PetscDefined(USE_LOG) && !PetscDefined(USE_DEBUG) && calls > N + 3 + updates)
          PetscCall(Complain("s = %" PetscInt_FMT ", %" PetscInt_FMT " iterations, %" PetscInt_FMT " updates: %" PetscInt_FMT " calls of MPI_Allreduce()", sizes[is], N, updates, calls));
        if (PetscDefined(USE_LOG) && size > 1 && calls < reductions)
          PetscCall(Complain("s = %" PetscInt_FMT ", %" PetscInt_FMT " iterations: %" PetscInt_FMT " reductions, but %" PetscInt_FMT " calls of MPI_Allreduce()", sizes[is], N, reductions, calls));
      }
      PetscCall(KSPDestroy(&ksp));
    }
  }
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("counts"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Counts asked for during a solve are of this solve, and only grow */
static PetscErrorCode CountsMonitor(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  PetscInt *last = (PetscInt *)ctx, products, reductions;

  PetscFunctionBeginUser;
  PetscCall(KSPIDRSGetCounts(ksp, &products, &reductions, NULL, NULL));
  if (!its) last[0] = last[1] = 0;
  if (products < last[0] || products < its || reductions < last[1])
    PetscCall(Complain("at iteration %" PetscInt_FMT ": %" PetscInt_FMT " products and %" PetscInt_FMT " reductions after %" PetscInt_FMT " and %" PetscInt_FMT, its, products, reductions, last[0], last[1]));
  last[0] = products;
  last[1] = reductions;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestCountsBetween(void)
{
  PetscInt last[2];
  Mat      A;
  Vec      b, x;
  KSP      ksp;

  PetscFunctionBeginUser;
  PetscCall(SystemCreate(PETSC_COMM_WORLD, 9, 0.8, LAYOUT_EVEN, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(SolverCreate(A, 4, PC_RIGHT, PCJACOBI, &ksp));
  PetscCall(KSPMonitorSet(ksp, CountsMonitor, last, NULL));
  for (PetscInt solve = 0; solve < 2; solve++) PetscCall(KSPSolve(ksp, b, x));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("counts during a solve"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Where the norm of the recurrence has left that of b - A x behind, the solver finds out by itself. Whatever it ends with,
   it does not report a norm below the tolerance for an x that misses it.
*/
static PetscErrorCode TestNorms(void)
{
  const PetscReal tolerance = 500 * PETSC_MACHINE_EPSILON;
  const PetscInt  n         = 200;
  PetscReal       norm, reported, reference;
  PetscInt        begin, end;
  Mat             A;
  Vec             b, x;
  KSP             ksp;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_WORLD, &A));
  PetscCall(MatSetSizes(A, PETSC_DECIDE, PETSC_DECIDE, n, n));
  PetscCall(MatSetType(A, MATAIJ));
  PetscCall(MatSetFromOptions(A));
  PetscCall(MatSetUp(A));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  for (PetscInt i = begin; i < end; i++) {
    PetscCall(MatSetValue(A, i, i, 2.0, INSERT_VALUES));
    if (i > 0) PetscCall(MatSetValue(A, i, i - 1, -1.3, INSERT_VALUES));
    if (i < n - 1) PetscCall(MatSetValue(A, i, i + 1, -0.7, INSERT_VALUES));
  }
  PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecSet(b, 1.0));
  PetscCall(VecNorm(b, NORM_2, &reference));
  PetscCall(SolverCreate(A, 8, PC_RIGHT, PCNONE, &ksp));
  PetscCall(KSPIDRSSetUpdateTolerance(ksp, 0.0));
  for (PetscInt limit = 220; limit < 300; limit++) {
    KSPConvergedReason reason;

    PetscCall(KSPSetTolerances(ksp, tolerance, PETSC_DEFAULT, PETSC_DEFAULT, limit));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(KSPGetConvergedReason(ksp, &reason));
    PetscCall(KSPGetResidualNorm(ksp, &reported));
    PetscCall(TrueNorm(ksp, b, x, &norm));
    if (reported <= tolerance * reference && !(norm <= 1.01 * tolerance * reference))
      PetscCall(Complain("max_it %" PetscInt_FMT ": %s, the norm of b - A x is %g, reported %g, tolerance %g", limit, KSPConvergedReasons[reason], (double)norm, (double)reported, (double)(tolerance * reference)));
  }
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("norms below the tolerance"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Systems with the transpose, and with several right-hand sides; what the viewers say of a solver at any stage is not an error */
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
  PetscCall(SystemCreate(PETSC_COMM_WORLD, 12, 0.8, LAYOUT_EVEN, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(b, &r));
  PetscCall(VecGetLocalSize(b, &n));
  PetscCall(VecGetSize(b, &N));
  PetscCall(VecNorm(b, NORM_2, &reference));
  PetscCall(PetscViewerASCIIOpen(PETSC_COMM_WORLD, "/dev/null", &viewer));
  for (PetscInt i = 0; i < 2; i++) {
    PetscCall(SolverCreate(A, 4, sides[i], PCJACOBI, &ksp));
    PetscCall(KSPView(ksp, viewer));
    PetscCall(KSPSetUp(ksp));
    PetscCall(KSPView(ksp, viewer));
    PetscCall(KSPSolveTranspose(ksp, b, x));
    PetscCall(KSPView(ksp, viewer));
    PetscCall(MatMultTranspose(A, x, r));
    PetscCall(VecAYPX(r, -1.0, b));
    PetscCall(VecNorm(r, NORM_2, &norm));
    if (!(norm <= 3 * rtol * reference)) PetscCall(Complain("transpose, %s: the norm of the residual is %g of %g", PCSides[sides[i]], (double)norm, (double)reference));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(CheckConverged("after the transpose", ksp, b, x));

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
      PetscCall(TrueNorm(ksp, b, x, &norm));
      PetscCall(VecNorm(b, NORM_2, &reference));
      if (!(norm <= 1.01 * rtol * reference)) PetscCall(Complain("column %" PetscInt_FMT ", %s: the norm of the residual is %g of %g", j, PCSides[sides[i]], (double)norm, (double)reference));
    }
    PetscCall(VecSetGeneral(b, 1.0));
    PetscCall(VecNorm(b, NORM_2, &reference));
    PetscCall(MatDestroy(&B));
    PetscCall(MatDestroy(&X));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(PetscViewerDestroy(&viewer));
  PetscCall(VecDestroy(&r));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("transpose, several right-hand sides, views"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Is the residual history that of every other process, to the last bit? */
static PetscErrorCode CheckHistory(const char what[], KSP ksp)
{
  const PetscReal *history;
  PetscInt         entries, shortest, longest;
  PetscReal       *smallest, *largest;

  PetscFunctionBeginUser;
  PetscCall(KSPGetResidualHistory(ksp, &history, &entries));
  IDRSCallAllreduce(&entries, &shortest, 1, MPIU_INT, MPI_MIN, PETSC_COMM_WORLD);
  IDRSCallAllreduce(&entries, &longest, 1, MPIU_INT, MPI_MAX, PETSC_COMM_WORLD);
  if (shortest != longest || !shortest) PetscCall(Complain("%s: histories of %" PetscInt_FMT " to %" PetscInt_FMT " norms", what, shortest, longest));
  PetscCall(PetscMalloc2(shortest, &smallest, shortest, &largest));
  IDRSCallAllreduce(history, smallest, (PetscMPIInt)shortest, MPIU_REAL, MPIU_MIN, PETSC_COMM_WORLD);
  IDRSCallAllreduce(history, largest, (PetscMPIInt)shortest, MPIU_REAL, MPIU_MAX, PETSC_COMM_WORLD);
  for (PetscInt i = 0; i < shortest; i++) {
    if (smallest[i] != largest[i]) PetscCall(Complain("%s: norm %" PetscInt_FMT " is from %g to %g", what, i, (double)smallest[i], (double)largest[i]));
  }
  PetscCall(PetscFree2(smallest, largest));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* On any number of processes, however the rows are shared, the iterations are those of one process */
static PetscErrorCode TestRanks(void)
{
  const PetscInt sizes[]   = {1, 2, 4, 8};
  const char    *pctypes[] = {PCNONE, PCJACOBI};
  Mat            A;
  Vec            b, x;
  KSP            ksp;

  PetscFunctionBeginUser;
  rtol = PetscMax(rtol, 10000 * PETSC_MACHINE_EPSILON); /* near the attainable accuracy the iterations depend on rounding */
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
    for (size_t ipc = 0; ipc < 2; ipc++) {
      PetscInt alone, together;

      PetscCall(SystemCreate(PETSC_COMM_SELF, 13, 0.5, LAYOUT_EVEN, &A, &b));
      PetscCall(VecDuplicate(b, &x));
      PetscCall(SolverCreate(A, sizes[is], PC_RIGHT, pctypes[ipc], &ksp));
      PetscCall(KSPSolve(ksp, b, x));
      PetscCall(KSPGetIterationNumber(ksp, &alone));
      PetscCall(KSPDestroy(&ksp));
      PetscCall(VecDestroy(&x));
      PetscCall(VecDestroy(&b));
      PetscCall(MatDestroy(&A));
      for (PetscInt layout = 0; layout < LAYOUTS; layout++) {
        PetscCall(SystemCreate(PETSC_COMM_WORLD, 13, 0.5, (Layout)layout, &A, &b));
        PetscCall(VecDuplicate(b, &x));
        PetscCall(SolverCreate(A, sizes[is], PC_RIGHT, pctypes[ipc], &ksp));
        PetscCall(KSPSetResidualHistory(ksp, NULL, PETSC_DECIDE, PETSC_TRUE));
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(CheckConverged(layouts[layout], ksp, b, x));
        PetscCall(CheckHistory(layouts[layout], ksp));
        PetscCall(KSPGetIterationNumber(ksp, &together));
        if (PetscAbsInt(together - alone) > 1) PetscCall(Complain("s = %" PetscInt_FMT ", %s, %s: %" PetscInt_FMT " iterations, %" PetscInt_FMT " on one process", sizes[is], pctypes[ipc], layouts[layout], together, alone));
        PetscCall(KSPDestroy(&ksp));
        PetscCall(VecDestroy(&x));
        PetscCall(VecDestroy(&b));
        PetscCall(MatDestroy(&A));
      }
    }
  }
  PetscCall(Verdict("iterations on any number of processes"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Vectors that have no array of their own: those of MATNEST; the back end is the one of Vec calls, or the solver's choice */
static PetscErrorCode TestNest(void)
{
  const PetscInt sizes[] = {1, 4};
  const PCSide   sides[] = {PC_RIGHT, PC_LEFT};
  Mat            blocks[4], A, S;
  Vec            b, x, parts[2];
  PetscInt       n, N;

  PetscFunctionBeginUser;
  PetscCall(SystemCreate(PETSC_COMM_WORLD, 9, 0.8, LAYOUT_EVEN, &blocks[0], &parts[0]));
  PetscCall(SystemCreate(PETSC_COMM_WORLD, 9, 0.3, LAYOUT_EVEN, &blocks[3], &parts[1]));
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
  PetscCall(MatCreateShell(PETSC_COMM_WORLD, n, n, N, N, A, &S));
  PetscCall(MatShellSetOperation(S, MATOP_MULT, (void (*)(void))PassMult));
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
    for (size_t iside = 0; iside < 2; iside++) {
      for (PetscInt shell = 0; shell < 2; shell++) {
        static Watch watch;
        char         what[64];
        KSP          ksp;

        PetscCall(PetscSNPrintf(what, sizeof(what), "%s, s = %" PetscInt_FMT ", %s", shell ? "shell" : "nest", sizes[is], PCSides[sides[iside]]));
        PetscCall(SolverCreate(shell ? S : A, sizes[is], sides[iside], PCNONE, &ksp));
        PetscCall(KSPIDRSSetImplementation(ksp, implementation == KSP_IDRS_VEC ? KSP_IDRS_VEC : KSP_IDRS_AUTO));
        PetscCall(WatchCreate(what, b, PETSC_TRUE, &watch));
        PetscCall(KSPMonitorSet(ksp, WatchMonitor, &watch, NULL));
        PetscCall(VecSetGeneral(x, 2.0));
        PetscCall(KSPSetInitialGuessNonzero(ksp, shell ? PETSC_TRUE : PETSC_FALSE));
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(CheckConverged(what, ksp, b, x));
        PetscCall(WatchDestroy(&watch));
        PetscCall(KSPDestroy(&ksp));
      }
    }
  }
  PetscCall(MatDestroy(&S));
  PetscCall(MatDestroy(&A));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  for (PetscInt i = 0; i < 4; i++) PetscCall(MatDestroy(&blocks[i]));
  for (PetscInt i = 0; i < 2; i++) PetscCall(VecDestroy(&parts[i]));
  PetscCall(Verdict("nested vectors"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* An operator that knows its grid only from its input: every vector it is given has the DM */
static PetscErrorCode GridMult(Mat S, Vec x, Vec y)
{
  const PetscScalar *const *u;
  PetscScalar             **v;
  PetscInt                  xs, ys, xm, ym, M, N;
  PetscInt                 *without;
  Vec                       local;
  DM                        da;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(S, &without));
  PetscCall(VecGetDM(x, &da));
  if (!da) {
    (*without)++;
    PetscCall(VecCopy(x, y));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(DMDAGetInfo(da, NULL, &M, &N, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
  PetscCall(DMDAGetCorners(da, &xs, &ys, NULL, &xm, &ym, NULL));
  PetscCall(DMGetLocalVector(da, &local));
  PetscCall(DMGlobalToLocalBegin(da, x, INSERT_VALUES, local));
  PetscCall(DMGlobalToLocalEnd(da, x, INSERT_VALUES, local));
  PetscCall(DMDAVecGetArrayRead(da, local, (void *)&u));
  PetscCall(DMDAVecGetArrayWrite(da, y, &v));
  for (PetscInt j = ys; j < ys + ym; j++) {
    for (PetscInt i = xs; i < xs + xm; i++) {
      v[j][i] = 4.1 * u[j][i];
      if (i > 0) v[j][i] -= 1.4 * u[j][i - 1];
      if (i < M - 1) v[j][i] -= 0.6 * u[j][i + 1];
      if (j > 0) v[j][i] -= 1.2 * u[j - 1][i];
      if (j < N - 1) v[j][i] -= 0.8 * u[j + 1][i];
    }
  }
  PetscCall(DMDAVecRestoreArrayWrite(da, y, &v));
  PetscCall(DMDAVecRestoreArrayRead(da, local, (void *)&u));
  PetscCall(DMRestoreLocalVector(da, &local));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A preconditioner that knows it only from its input, too */
static PetscErrorCode GridPCApply(PC pc, Vec x, Vec y)
{
  void *ctx;
  DM    da;

  PetscFunctionBeginUser;
  PetscCall(PCShellGetContext(pc, &ctx));
  PetscCall(VecGetDM(x, &da));
  if (!da) (*(PetscInt *)ctx)++;
  PetscCall(VecCopy(x, y));
  PetscCall(VecScale(y, 0.25));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestGrid(void)
{
  const PetscInt sizes[] = {1, 4};
  const PCSide   sides[] = {PC_RIGHT, PC_LEFT};
  PetscInt       n, N, without = 0;
  DM             da;
  Mat            S;
  Vec            b, x;

  PetscFunctionBeginUser;
  PetscCall(DMDACreate2d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DMDA_STENCIL_STAR, 11, 9, PETSC_DECIDE, PETSC_DECIDE, 1, 1, NULL, NULL, &da));
  PetscCall(DMSetFromOptions(da));
  PetscCall(DMSetUp(da));
  PetscCall(DMCreateGlobalVector(da, &b));
  PetscCall(DMCreateGlobalVector(da, &x));
  PetscCall(VecSetGeneral(b, 1.0));
  PetscCall(VecGetLocalSize(b, &n));
  PetscCall(VecGetSize(b, &N));
  PetscCall(MatCreateShell(PETSC_COMM_WORLD, n, n, N, N, &without, &S));
  PetscCall(MatShellSetOperation(S, MATOP_MULT, (void (*)(void))GridMult));
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
    for (size_t iside = 0; iside < 2; iside++) {
      for (PetscInt preconditioned = 0; preconditioned < 2; preconditioned++) {
        char what[64];
        PC   pc;
        KSP  ksp;

        PetscCall(PetscSNPrintf(what, sizeof(what), "grid, s = %" PetscInt_FMT ", %s%s", sizes[is], PCSides[sides[iside]], preconditioned ? ", preconditioned" : ""));
        PetscCall(SolverCreate(S, sizes[is], sides[iside], preconditioned ? PCSHELL : PCNONE, &ksp));
        PetscCall(KSPGetPC(ksp, &pc));
        if (preconditioned) {
          PetscCall(PCShellSetContext(pc, &without));
          PetscCall(PCShellSetApply(pc, GridPCApply));
        }
        PetscCall(VecSetGeneral(x, 2.0));
        PetscCall(KSPSetInitialGuessNonzero(ksp, preconditioned ? PETSC_TRUE : PETSC_FALSE));
        PetscCall(KSPSolve(ksp, b, x));
        if (without) PetscCall(Complain("%s: %" PetscInt_FMT " vectors without the DM", what, without));
        without = 0;
        PetscCall(CheckConverged(what, ksp, b, x));
        PetscCall(KSPDestroy(&ksp));
      }
    }
  }
  PetscCall(MatDestroy(&S));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(DMDestroy(&da));
  PetscCall(Verdict("vectors of a grid"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A line of points, column by column: every process adds what its points give to their neighbours, by their local numbers */
static PetscErrorCode LocalMult(Mat S, Vec x, Vec y)
{
  const PetscScalar *array, weights[] = {-0.6, 2.5, -1.4};
  PetscInt           begin, end, first, N;
  DM                 da;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(S, &da));
  PetscCall(DMDAGetGhostCorners(da, &first, NULL, NULL, NULL, NULL, NULL));
  PetscCall(VecGetSize(x, &N));
  PetscCall(VecGetOwnershipRange(x, &begin, &end));
  PetscCall(VecSet(y, 0.0));
  PetscCall(VecGetArrayRead(x, &array));
  for (PetscInt i = begin; i < end; i++) {
    PetscInt    rows[3], count = 0;
    PetscScalar values[3];

    for (PetscInt j = 0; j < 3; j++) {
      const PetscInt row = i + j - 1;

      if (row < 0 || row >= N) continue;
      rows[count]     = row - first;
      values[count++] = weights[j] * array[i - begin];
    }
    PetscCall(VecSetValuesLocal(y, count, rows, values, ADD_VALUES));
  }
  PetscCall(VecRestoreArrayRead(x, &array));
  PetscCall(VecAssemblyBegin(y));
  PetscCall(VecAssemblyEnd(y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The same rows, from values of the neighbours that the vector has places for */
static PetscErrorCode GhostMult(Mat S, Vec x, Vec y)
{
  const PetscScalar *from;
  PetscScalar       *to;
  PetscInt           begin, end, N;
  Vec                local;

  PetscFunctionBeginUser;
  PetscCall(VecGetSize(x, &N));
  PetscCall(VecGetOwnershipRange(x, &begin, &end));
  PetscCall(VecGhostUpdateBegin(x, INSERT_VALUES, SCATTER_FORWARD));
  PetscCall(VecGhostUpdateEnd(x, INSERT_VALUES, SCATTER_FORWARD));
  PetscCall(VecGhostGetLocalForm(x, &local));
  PetscCall(VecGetArrayRead(local, &from));
  PetscCall(VecGetArrayWrite(y, &to));
  for (PetscInt i = begin, n = end - begin; i < end; i++) {
    const PetscInt before = i == begin ? n : i - begin - 1, after = i < end - 1 ? i - begin + 1 : n + (begin > 0);

    to[i - begin] = 2.5 * from[i - begin];
    if (i > 0) to[i - begin] -= 1.4 * from[before];
    if (i < N - 1) to[i - begin] -= 0.6 * from[after];
  }
  PetscCall(VecRestoreArrayWrite(y, &to));
  PetscCall(VecRestoreArrayRead(local, &from));
  PetscCall(VecGhostRestoreLocalForm(x, &local));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Operators that rely on what VecDuplicate() hands on: the local to global mapping, places for ghosts */
static PetscErrorCode TestDuplicates(void)
{
  const PetscInt sizes[] = {1, 4};
  const PCSide   sides[] = {PC_RIGHT, PC_LEFT};
  PetscInt       begin, n, N = 60, ghosts[2], count = 0;
  DM             da;
  Mat            S;
  Vec            b, x;

  PetscFunctionBeginUser;
  PetscCall(DMDACreate1d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, N, 1, 1, NULL, &da));
  PetscCall(DMSetFromOptions(da));
  PetscCall(DMSetUp(da));
  PetscCall(DMDAGetCorners(da, &begin, NULL, NULL, &n, NULL, NULL));
  if (begin > 0) ghosts[count++] = begin - 1;
  if (begin + n < N) ghosts[count++] = begin + n;
  for (PetscInt ghosted = 0; ghosted < 2; ghosted++) {
    if (ghosted) PetscCall(VecCreateGhost(PETSC_COMM_WORLD, n, N, count, ghosts, &b));
    else PetscCall(DMCreateGlobalVector(da, &b));
    PetscCall(MatCreateShell(PETSC_COMM_WORLD, n, n, N, N, da, &S));
    PetscCall(MatShellSetOperation(S, MATOP_MULT, (void (*)(void))(ghosted ? GhostMult : LocalMult)));
    PetscCall(VecSetGeneral(b, 1.0));
    PetscCall(VecDuplicate(b, &x));
    for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
      for (size_t iside = 0; iside < 2; iside++) {
        char what[64];
        KSP  ksp;

        PetscCall(PetscSNPrintf(what, sizeof(what), "%s, s = %" PetscInt_FMT ", %s", ghosted ? "ghosts" : "local numbers", sizes[is], PCSides[sides[iside]]));
        PetscCall(SolverCreate(S, sizes[is], sides[iside], PCNONE, &ksp));
        if (ghosted) PetscCall(KSPIDRSSetImplementation(ksp, KSP_IDRS_AUTO));
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(CheckConverged(what, ksp, b, x));
        PetscCall(KSPDestroy(&ksp));
      }
    }
    PetscCall(MatDestroy(&S));
    PetscCall(VecDestroy(&x));
    PetscCall(VecDestroy(&b));
  }
  PetscCall(DMDestroy(&da));
  PetscCall(Verdict("what duplicates have"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A preconditioner that is another one at each application */
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
  const PetscInt sizes[] = {1, 2, 4, 8};
  Varying        varying;
  Mat            A;
  Vec            b, x;

  PetscFunctionBeginUser;
  PetscCall(SystemCreate(PETSC_COMM_WORLD, 14, 0.8, LAYOUT_EVEN, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(b, &varying.diagonal));
  PetscCall(MatGetDiagonal(A, varying.diagonal));
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
    for (PetscInt inner = 0; inner < 2; inner++) {
      for (PetscInt guess = 0; guess < 2; guess++) {
        static Watch watch;
        char         what[64];
        KSP          ksp, sub;
        PC           pc;

        PetscCall(PetscSNPrintf(what, sizeof(what), "%s, s = %" PetscInt_FMT, inner ? "inner gmres" : "varying diagonal", sizes[is]));
        PetscCall(SolverCreate(A, sizes[is], PC_RIGHT, inner ? PCKSP : PCSHELL, &ksp));
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
        PetscCall(WatchCreate(what, b, PETSC_TRUE, &watch));
        PetscCall(KSPMonitorSet(ksp, WatchMonitor, &watch, NULL));
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(CheckConverged(what, ksp, b, x));
        PetscCall(WatchDestroy(&watch));
        PetscCall(KSPDestroy(&ksp));
      }
    }
  }
  PetscCall(VecDestroy(&varying.diagonal));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("preconditioners that vary"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* What the solver tells in detail of its passes: every operation, and bytes that are those of the vectors */
static PetscErrorCode TestView(void)
{
  const char *const     operations[] = {"project", "update", "advance", "all of these"};
  const char           *file         = "surface_view.txt";
  PetscBool             found[4]     = {PETSC_FALSE, PETSC_FALSE, PETSC_FALSE, PETSC_FALSE};
  KSPIDRSImplementation got;
  PetscViewer           viewer;
  PetscMPIInt           rank;
  PetscInt              n;
  PetscBool             told = PETSC_FALSE;
  Mat                   A;
  Vec                   b, x;
  KSP                   ksp;

  PetscFunctionBeginUser;
  PetscCall(SystemCreate(PETSC_COMM_WORLD, 12, 0.8, LAYOUT_EVEN, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecGetLocalSize(b, &n));
  PetscCall(SolverCreate(A, 4, PC_RIGHT, PCJACOBI, &ksp));
  PetscCall(KSPIDRSSetUpdateTolerance(ksp, 0.0));
  PetscCall(KSPIDRSGetImplementation(ksp, &got));
  if (got != implementation) PetscCall(Complain("implementation %d, not %d", (int)got, (int)implementation));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(PetscViewerASCIIOpen(PETSC_COMM_WORLD, file, &viewer));
  PetscCall(PetscViewerPushFormat(viewer, PETSC_VIEWER_ASCII_INFO_DETAIL));
  PetscCall(KSPView(ksp, viewer));
  PetscCall(PetscViewerPopFormat(viewer));
  PetscCall(PetscViewerDestroy(&viewer));
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  if (!rank) {
    FILE *f = fopen(file, "r");
    char  line[512];

    while (f && fgets(line, sizeof(line), f)) {
      char *place;

      PetscCall(PetscStrstr(line, "no reliable updating", &place));
      if (place) told = PETSC_TRUE;
      for (PetscInt i = 0; i < 4; i++) {
        double calls, vectors, bytes;

        PetscCall(PetscStrstr(line, operations[i], &place));
        if (!place || sscanf(place + strlen(operations[i]), "%lf calls %lf vectors %lf bytes", &calls, &vectors, &bytes) != 3) continue;
        found[i] = PETSC_TRUE;
        if (!(PetscAbsReal((PetscReal)(bytes - vectors * (double)n * (double)sizeof(PetscScalar))) <= 0.01 * (double)n * (double)sizeof(PetscScalar))) PetscCall(Complain("%s: %g bytes for %g vectors", operations[i], bytes, vectors));
      }
    }
    if (f) fclose(f);
    (void)remove(file);
  }
  PetscCallMPI(MPI_Bcast(found, 4 * (PetscMPIInt)sizeof(*found), MPI_BYTE, 0, PETSC_COMM_WORLD));
  PetscCallMPI(MPI_Bcast(&told, (PetscMPIInt)sizeof(told), MPI_BYTE, 0, PETSC_COMM_WORLD));
  if (!told) PetscCall(Complain("nothing about reliable updating"));
  for (PetscInt i = 0; i < 4; i++) {
    if (found[i] != (implementation != KSP_IDRS_VEC)) PetscCall(Complain("%s: traffic is%s told", operations[i], found[i] ? "" : " not")); /* Vec calls move more than we know */
  }
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("view in detail"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscEnum value = (PetscEnum)KSP_IDRS_AUTO;
  char      test[32];

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscStrncpy(test, "iterates", sizeof(test)));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-test", test, sizeof(test), NULL));
  PetscCall(PetscOptionsGetEnum(NULL, NULL, "-ksp_idrs_implementation", KSPIDRSImplementations, &value, NULL));
  implementation = (KSPIDRSImplementation)value;
  switch (test[0]) {
  case 'i':
    PetscCall(TestMonitors());
    PetscCall(TestEnds());
    break;
  case 'u':
    PetscCall(TestReuse());
    PetscCall(TestTwo());
    PetscCall(TestTypes());
    PetscCall(TestCounts());
    PetscCall(TestOthers());
    PetscCall(TestView());
    break;
  case 'b':
    PetscCall(TestCountsBetween());
    PetscCall(TestNorms());
    break;
  case 'r':
    PetscCall(TestRanks());
    break;
  case 'o':
    PetscCall(TestNest());
    PetscCall(TestGrid());
    PetscCall(TestDuplicates());
    PetscCall(TestVarying());
    break;
  default:
    SETERRQ(PETSC_COMM_WORLD, PETSC_ERR_ARG_OUTOFRANGE, "-test %s: there are iterates, use, between, ranks and objects", test);
  }
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  testset:
    args: -ksp_idrs_implementation {{vec host}}
    test:
      suffix: iterates
      nsize: {{1 2 3}}
      args: -test iterates
      output_file: output/use_surface_iterates.out
    test:
      suffix: use
      nsize: {{1 2}}
      args: -test use
      output_file: output/use_surface_use.out
    test:
      suffix: between
      nsize: {{1 2}}
      args: -test between
      output_file: output/use_surface_between.out
    test:
      suffix: ranks
      nsize: {{1 2 3 4}}
      args: -test ranks
      output_file: output/use_surface_ranks.out
    test:
      suffix: objects
      nsize: {{1 2}}
      args: -test objects
      output_file: output/use_surface_objects.out

TEST*/
