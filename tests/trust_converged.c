static char help[] = "KSPIDRS reports convergence only if it is true: runs in which verifications fail, solves after one whose\n\
squares underflow, the ends of histories, and updates that do not end a solve.\n\n";

#include "../tutorials/matrixmarket.h"
#include "systems.h"

/* Solves A x = b, and complains if the reason is positive and b - A x does not meet the tolerance */
static PetscErrorCode Solve(KSP ksp, Mat A, Vec b, PetscReal rtol, const char what[], KSPConvergedReason *reason)
{
  Vec       x;
  PetscReal bnorm, rnorm;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(b, &x));
  PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 20000));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(KSPGetConvergedReason(ksp, reason));
  PetscCall(ResidualNorm(A, b, x, &rnorm, &bnorm));
  PetscCall(ComplainIf(!*reason || (*reason > 0 && !(rnorm <= 1.01 * rtol * bnorm)), "%s: %s with |b - A x| / |b| = %g", what,
                       KSPConvergedReasons[*reason], (double)(rnorm / bnorm)));
  PetscCall(VecDestroy(&x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Without reliable updating and near the attainable accuracy, the recursive residual is often wrong; with it all solves converge,
   in single precision all but one
*/
static PetscErrorCode TestUpdating(KSP ksp, Mat A, Vec b, PetscReal tolerance, PetscBool updating)
{
  const char        *what      = updating ? "with reliable updating" : "without reliable updating";
  const PetscInt     least     = updating ? (PetscDefined(USE_REAL_SINGLE) ? 39 : 40) : 30;
  PetscInt           converged = 0;
  KSPConvergedReason reason;

  PetscFunctionBeginUser;
  PetscCall(KSPIDRSSetUpdateTolerance(ksp, updating ? 1e-3 : 0.0));
  for (PetscInt s = 2; s <= 16; s *= 2) {
    PetscCall(KSPIDRSSetShadowSize(ksp, s));
    for (PetscInt seed = 0; seed < 10; seed++) {
      PetscCall(KSPIDRSSetShadowSeed(ksp, seed));
      PetscCall(Solve(ksp, A, b, tolerance, what, &reason));
      if (reason > 0) converged++;
    }
  }
  PetscCall(ComplainIf(converged < least, "%s: only %" INT " of 40 runs converged", what, converged));
  PetscCall(Verdict(what));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A tolerance below the attainable accuracy: the solve reports it, soon after its best residual, and not far from it */
static PetscErrorCode TestBelow(KSP ksp, Mat A, Vec b, PetscReal tolerance)
{
  PetscFunctionBeginUser;
  for (PetscInt s = 4; s <= 16; s *= 2) {
    Vec                x;
    PetscInt           enough, its;
    PetscReal          bnorm, rnorm;
    KSPConvergedReason reason;

    PetscCall(KSPIDRSSetShadowSize(ksp, s));
    PetscCall(KSPIDRSSetShadowSeed(ksp, 0));
    PetscCall(Solve(ksp, A, b, tolerance, "at the attainable accuracy", &reason));
    PetscCall(KSPGetIterationNumber(ksp, &enough));
    PetscCall(KSPSetTolerances(ksp, PETSC_MACHINE_EPSILON / 100, 0.0, PETSC_DEFAULT, 50000));
    PetscCall(VecDuplicate(b, &x));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(KSPGetConvergedReason(ksp, &reason));
    PetscCall(KSPGetIterationNumber(ksp, &its));
    PetscCall(ResidualNorm(A, b, x, &rnorm, &bnorm));
    PetscCall(ComplainIf(reason != KSP_DIVERGED_BREAKDOWN || its > 40 * enough || !(rnorm <= 1e3 * tolerance * bnorm),
                         "below the attainable accuracy, s = %" INT ": %s after %" INT ", and %" INT
                         " are enough, with |b - A x| = %g, |b| = %g",
                         s, KSPConvergedReasons[reason], its, enough, (double)rnorm, (double)bnorm));
    PetscCall(VecDestroy(&x));
  }
  PetscCall(Verdict("below the attainable accuracy"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   If squares underflow, PETSc caches a norm of 0, and VecSet() to 0 then keeps the entries. A solve after one with such entries
   has the same bits as a first solve
*/
static PetscErrorCode TestAfterTiny(Mat A, Vec b)
{
  const PetscReal scale = PetscDefined(USE_REAL_SINGLE) ? 1e-30 : 1e-244;
  PetscReal       norm;
  Vec             tiny, x, y;

  PetscFunctionBeginUser;
  /* without this option cuSPARSE multiplies by the transpose with atomic additions, whose order varies */
  PetscCall(MatSetOption(A, MAT_FORM_EXPLICIT_TRANSPOSE, PETSC_TRUE));
  PetscCall(DuplicateAll(b, &tiny, &x, &y));
  PetscCall(VecNorm(b, NORM_2, &norm));
  PetscCall(VecAXPY(tiny, scale / norm, b));
  for (PetscInt i = 0; i < 8 * VARIANTS; i++) {
    const PetscBool transpose = (PetscBool)(i / VARIANTS % 2), smoothing = (PetscBool)(i / VARIANTS / 4);
    const PetscReal atol = i / VARIANTS / 2 % 2 ? 1e3 * scale : 0.0; /* ends solves with tiny entries at once */
    Variant         variant;
    KSP             ksp[2]; /* a used and a new solver */

    for (PetscInt k = -1; k < 3; k++) {
      Vec       rhs = k < 2 ? tiny : b;
      PetscBool same;

      PetscCall(VariantCreate(A, i, &variant, &ksp[k >= 0]));
      PetscCall(KSPIDRSSetSmoothing(ksp[k >= 0], smoothing));
      PetscCall(KSPSetTolerances(ksp[k >= 0], 1e-6, atol, PETSC_DEFAULT, 30));
      if (k < 0) continue;
      PetscCall(transpose ? KSPSolveTranspose(ksp[1], rhs, x) : KSPSolve(ksp[1], rhs, x));
      PetscCall(transpose ? KSPSolveTranspose(ksp[0], rhs, y) : KSPSolve(ksp[0], rhs, y));
      PetscCall(KSPDestroy(&ksp[1]));
      PetscCall(VecEqual(x, y, &same));
      PetscCall(ComplainIf(!same, "%s, %s, atol %g, %s, solve %" INT " of 3: another solution than of a first solve", variant.what,
                           transpose ? "transposed" : "not transposed", (double)atol, smoothing ? "smoothing" : "no smoothing",
                           k + 1));
    }
    PetscCall(KSPDestroy(&ksp[0]));
  }
  PetscCall(DestroyAll(&tiny, &x, &y));
  PetscCall(Verdict("after tiny entries"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Number of calls of a monitor, and the norm of the last call */
typedef struct {
  PetscInt  calls;
  PetscReal norm;
} Told;

static PetscErrorCode Listener(KSP ksp, PetscInt its, PetscReal norm, void *ctx)
{
  Told *told = (Told *)ctx;

  PetscFunctionBeginUser;
  told->calls++;
  told->norm = norm;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Solves, and compares the last norms of the history, of KSPGetResidualNorm() and, if it is called after the last norm is known, of
   the monitor; then again with arrays that are too short, and just long enough
*/
static PetscErrorCode CheckHistory(const char what[], KSP ksp, Vec b, KSPConvergedReason expected, PetscBool heard)
{
  Told               told = {0, -1.0};
  KSPConvergedReason reason;
  PetscReal          norm, *half;
  const PetscReal   *norms;
  PetscInt           count, full, its;
  PetscBool          same;
  Vec                x;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(b, &x));
  PetscCall(KSPMonitorSet(ksp, Listener, &told, NULL));
  PetscCall(KSPSetResidualHistory(ksp, NULL, 100000, PETSC_TRUE));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(KSPGetResidualNorm(ksp, &norm));
  PetscCall(KSPGetResidualHistory(ksp, &norms, &full));
  PetscCall(
    ComplainIf(reason != expected && !PetscDefined(USE_REAL_SINGLE), "%s: %s after %" INT, what, KSPConvergedReasons[reason], its));
  PetscCall(ComplainIf(full != its + 1 || told.calls != full,
                       "%s: %" INT " iterations, %" INT " norms in the history, %" INT " calls of the monitor", what, its, full,
                       told.calls));
  PetscCall(ComplainIf(full && !(norms[full - 1] == norm), "%s, %s: the history ends with %.17g, KSPGetResidualNorm() gives %.17g",
                       what, KSPConvergedReasons[reason], (double)norms[full - 1], (double)norm));
  PetscCall(ComplainIf(heard && !(told.norm == norm), "%s, %s: the monitor is told %.17g last, KSPGetResidualNorm() gives %.17g",
                       what, KSPConvergedReasons[reason], (double)told.norm, (double)norm));

  PetscCall(PetscMalloc1(full + 1, &half));
  PetscCall(PetscArraycpy(half, norms, full));
  for (PetscInt length = full / 2; length <= full; length += PetscMax(full - full / 2, 1)) {
    PetscReal *own;

    PetscCall(PetscMalloc1(length + 1, &own));
    own[length] = -1.0;
    PetscCall(KSPSetResidualHistory(ksp, own, length, PETSC_TRUE));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(KSPGetResidualHistory(ksp, NULL, &count));
    PetscCall(PetscArraycmp(own, half, length, &same));
    PetscCall(ComplainIf(count != length || !same || !(own[length] == -1.0), "%s: %" INT " norms in a history of length %" INT "%s",
                         what, count, length, same ? "" : ", not those of the long one"));
    PetscCall(KSPSetResidualHistory(ksp, NULL, 0, PETSC_TRUE));
    PetscCall(PetscFree(own));
  }
  PetscCall(PetscFree(half));
  PetscCall(KSPMonitorCancel(ksp));
  PetscCall(VecDestroy(&x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The last norm of the history, of the calls of a monitor and of KSPGetResidualNorm() is the same, for any end of the solve */
static PetscErrorCode TestHistory(KSP ksp, Vec b, PetscReal tolerance)
{
  /*
     In single precision a solve below the attainable accuracy may end with a reliable update or a restart, for which b - A x is
     computed after the monitor has been called
  */
  const PetscBool heard = (PetscBool)!PetscDefined(USE_REAL_SINGLE);
  Vec            *P;

  PetscFunctionBeginUser;
  for (PetscInt s = 1; s <= 8; s *= 8) {
    PetscCall(KSPIDRSSetShadowSize(ksp, s));
    PetscCall(KSPIDRSSetShadowSeed(ksp, 0));
    for (PetscInt updating = 0; updating < 2; updating++) {
      PetscCall(KSPIDRSSetUpdateTolerance(ksp, updating ? 1e-3 : 0.0));
      PetscCall(KSPSetTolerances(ksp, s > 1 ? tolerance : PetscMax(tolerance, (PetscReal)1e-5), 0.0, PETSC_DEFAULT, 20000));
      PetscCall(CheckHistory("to the tolerance", ksp, b, KSP_CONVERGED_RTOL, PETSC_TRUE));
      PetscCall(KSPSetTolerances(ksp, 0.5, 0.0, PETSC_DEFAULT, 20000));
      PetscCall(CheckHistory("to half the norm", ksp, b, KSP_CONVERGED_RTOL, PETSC_TRUE));
      PetscCall(KSPSetTolerances(ksp, PETSC_MACHINE_EPSILON / 100, 0.0, PETSC_DEFAULT, 50000));
      PetscCall(CheckHistory("below the attainable accuracy", ksp, b, KSP_DIVERGED_BREAKDOWN, heard));
      for (PetscInt its = 0; its <= s + 2; its++) {
        PetscCall(KSPSetTolerances(ksp, tolerance, 0.0, PETSC_DEFAULT, its));
        PetscCall(CheckHistory("few iterations", ksp, b, KSP_DIVERGED_ITS, PETSC_TRUE));
      }
    }
  }
  /*
     Equal shadow vectors: a breakdown in the second iteration, and again after each restart. The monitor is called before the
     restart computes b - A x
  */
  PetscCall(KSPIDRSSetUpdateTolerance(ksp, 1e-3));
  PetscCall(KSPSetTolerances(ksp, tolerance, 0.0, PETSC_DEFAULT, 20000));
  PetscCall(VecDuplicateVecs(b, 4, &P));
  for (PetscInt i = 0; i < 4; i++) PetscCall(VecCopy(b, P[i]));
  PetscCall(KSPIDRSSetShadowVecs(ksp, 4, P));
  PetscCall(CheckHistory("breakdown", ksp, b, KSP_DIVERGED_BREAKDOWN, PETSC_FALSE));
  PetscCall(KSPIDRSSetShadowVecs(ksp, 0, NULL));
  PetscCall(VecDestroyVecs(4, &P));
  PetscCall(Verdict("ends of histories"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Any number of reliable updates that confirm the norm of the recurrence does not indicate the attainable accuracy */
static PetscErrorCode TestOften(KSP ksp, Mat A, Vec b)
{
  KSPConvergedReason reason;
  PetscInt           its, updates;

  PetscFunctionBeginUser;
  PetscCall(KSPIDRSSetShadowSize(ksp, 1));
  PetscCall(KSPIDRSSetUpdateTolerance(ksp, 0.9));
  PetscCall(Solve(ksp, A, b, 1e-8, "updates in many iterations", &reason));
  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(KSPIDRSGetCounts(ksp, NULL, NULL, &updates, NULL));
  PetscCall(ComplainIf(!(reason > 0) || updates < 20, "updates in many iterations: %s after %" INT ", with %" INT " updates",
                       KSPConvergedReasons[reason], its, updates));
  PetscCall(Verdict("updates in many iterations"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  Mat             A;
  Vec             b, ones;
  KSP             ksp;
  char            file[PETSC_MAX_PATH_LEN];
  PetscBool       often     = PETSC_FALSE;
  const PetscReal tolerance = PetscDefined(USE_REAL_SINGLE) ? 4e-5 : 1e-11;
  /* in single precision 1 of 160 solves of sherman1 does not attain 4e-5, because its residual has risen too far before */
  const PetscReal attained = PetscDefined(USE_REAL_SINGLE) ? 1e-4 : tolerance;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(ImplementationFromOptions());
  PetscCall(PetscOptionsGetString(NULL, NULL, "-f", file, sizeof(file), NULL));
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-often", &often, NULL));
  PetscCall(MatLoadMatrixMarket(PETSC_COMM_WORLD, file, &A));
  PetscCall(MatCreateVecs(A, &ones, &b));
  PetscCall(VecSet(ones, 1.0));
  PetscCall(MatMult(A, ones, b));
  PetscCall(SolverCreate(A, 4, often ? PCNONE : PCJACOBI, &ksp));
  if (often) PetscCall(TestOften(ksp, A, b));
  else {
    PetscCall(TestUpdating(ksp, A, b, attained, PETSC_FALSE));
    PetscCall(TestUpdating(ksp, A, b, attained, PETSC_TRUE));
    PetscCall(TestBelow(ksp, A, b, tolerance));
    PetscCall(TestAfterTiny(A, b));
    PetscCall(TestHistory(ksp, b, tolerance));
  }
  PetscCall(DestroyAll(&ksp, &ones, &b, &A));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  testset:
    nsize: {{1 2}}
    output_file: output/trust_converged_1.out
    test:
      suffix: 1
      requires: double
      args: -f ${PETSCIDRS_DIR}/tutorials/matrices/orsreg_1.mtx.gz
    # no preconditioner, and a reliable update as soon as the norm has fallen by a tenth
    test:
      suffix: often
      requires: double
      args: -f ${PETSCIDRS_DIR}/tutorials/matrices/stommel4.mtx.gz -often
      output_file: output/trust_converged_often.out
    # orsreg_1 is too ill conditioned for single precision
    test:
      suffix: single
      requires: single
      args: -f ${PETSCIDRS_DIR}/tutorials/matrices/sherman1.mtx.gz

TEST*/
