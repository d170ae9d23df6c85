static char help[] = "Counts of KSPIDRS: matvecs and reductions, after and during a solve; and reported norms when the\n\
recurrence deviates from b - A x.\n\n";

#include "systems.h"

/* One global reduction per product, in the counts of the solver, and in PETSc's count of MPI_Allreduce() */
static PetscErrorCode TestCounts(void)
{
  const PetscInt sizes[] = {1, 2, 4, 8}, limits[] = {1, 4, 5, 6, 9, 20, 37};
  PetscBool      device;
  PetscMPIInt    size;
  Mat            A;
  Vec            b, x;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 20, 0.8, LAYOUT_EVEN, &A, &b));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)b, &device, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(VecDuplicate(b, &x));
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
    for (size_t il = 0; il < PETSC_STATIC_ARRAY_LENGTH(limits); il++) {
      const PetscInt N = limits[il];
      KSP            ksp;

      PetscCall(SolverCreate(A, sizes[is], PCNONE, &ksp));
      PetscCall(KSPIDRSSetCommunication_Private(ksp, KSP_IDRS_COMMUNICATION_MPI)); /* every reduction is an MPI_Allreduce() */
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
        PetscCall(ComplainIf(its != N || restarts, "s = %" INT ", %" INT " iterations: %" INT ", %" INT " restarts", sizes[is], N,
                             its, restarts));
        PetscCall(ComplainIf(products != N + updates, "s = %" INT ", %" INT " iterations, %" INT " updates: %" INT " products",
                             sizes[is], N, updates, products));
        /* the first projection, one after each update, and on several processes the last norm */
        PetscCall(ComplainIf(reductions < N + 1 + updates || reductions > N + 1 + updates + (size > 1 ? 1 : 0),
                             "s = %" INT ", %" INT " iterations, %" INT " updates: %" INT " reductions", sizes[is], N, updates,
                             reductions));
        /*
           On GPUs several processes agree on the memory of the solution, and once on their communication. PETSc with debugging
           makes many more calls to compare arguments between processes
        */
        PetscCall(ComplainIf(PetscDefined(USE_LOG) && !PetscDefined(USE_DEBUG) &&
                               calls > N + 3 + updates + (size > 1 && device ? (solve ? 1 : 3) : 0),
                             "s = %" INT ", %" INT " iterations, %" INT " updates: %" INT " calls of MPI_Allreduce()", sizes[is], N,
                             updates, calls));
        PetscCall(ComplainIf(PetscDefined(USE_LOG) && size > 1 && calls < reductions,
                             "s = %" INT ", %" INT " iterations: %" INT " reductions, but %" INT " calls of MPI_Allreduce()",
                             sizes[is], N, reductions, calls));
      }
      PetscCall(KSPDestroy(&ksp));
    }
  }
  PetscCall(DestroyAll(&x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Counts during a solve belong to this solve, and only grow */
static PetscErrorCode CountsMonitor(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  PetscInt *last = (PetscInt *)ctx, products, reductions;

  PetscFunctionBeginUser;
  PetscCall(KSPIDRSGetCounts(ksp, &products, &reductions, NULL, NULL));
  if (!its) last[0] = last[1] = 0;
  PetscCall(ComplainIf(products < last[0] || products < its || reductions < last[1],
                       "at iteration %" INT ": %" INT " products and %" INT " reductions after %" INT " and %" INT, its, products,
                       reductions, last[0], last[1]));
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
  PetscCall(GridSystemCreate(9, 0.8, &A, &b, &x));
  PetscCall(SolverCreate(A, 4, PCJACOBI, &ksp));
  PetscCall(KSPMonitorSet(ksp, CountsMonitor, last, NULL));
  for (PetscInt solve = 0; solve < 2; solve++) PetscCall(KSPSolve(ksp, b, x));
  PetscCall(DestroyAll(&ksp, &x, &b, &A));
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

RUN_TESTS({TestLog, "calls in the log"}, {TestCounts, "counts"}, {TestCountsBetween, "counts during a solve"},
          {TestNorms, "norms below the tolerance"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 2}}

TEST*/
