static char help[] = "KSPIDRS on the transpose of its matrix. The transpose is compared with a\n\
matrix that was assembled as such; with complex numbers it is not the Hermitian transpose.\n\n";

#include "systems.h"

/* Norms of a solve that are compared */
#define MAX_NORMS 12

/* The matrices, each the transpose of the other, and the data of a monitor */
typedef struct {
  const char *what;
  Mat         A; /* the matrix of the system that is being solved */
  Vec         b, r, t;
  PetscReal   peak, norms[MAX_NORMS];
} Watch;

/* Checks that the solution and the residual of a monitor belong to the system that is being solved */
static PetscErrorCode WatchMonitor(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  Watch    *watch = (Watch *)ctx;
  PetscReal norm, bnorm, difference;
  Vec       x, built;

  PetscFunctionBeginUser;
  if (!its) watch->peak = 0.0;
  watch->peak = PetscMax(watch->peak, rnorm);
  if (its < MAX_NORMS) watch->norms[its] = rnorm;
  PetscCall(KSPBuildSolution(ksp, NULL, &x));
  PetscCall(OperatorNorm(ksp, watch->A, watch->b, x, &norm));
  PetscCall(ComplainIf(!(PetscAbsReal(norm - rnorm) <= 1e5 * PETSC_MACHINE_EPSILON * watch->peak),
                       "%s: at iteration %" INT " the norm of b - A x is %g, reported %g", watch->what, its, (double)norm,
                       (double)rnorm));
  PetscCall(ResidualNorm(watch->A, watch->b, x, &norm, &bnorm));
  PetscCall(KSPBuildResidual(ksp, watch->r, watch->t, &built));
  PetscCall(VecNorm(built, NORM_2, &difference));
  PetscCall(ComplainIf(!(PetscAbsReal(norm - difference) <= 1e5 * PETSC_MACHINE_EPSILON * PetscMax(norm, bnorm)),
                       "%s: at iteration %" INT " the residual built has a norm of %g instead of %g", watch->what, its,
                       (double)difference, (double)norm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* One KSP for both directions in turn; each solve agrees with a KSP for the matrix, or for its transpose */
static PetscErrorCode TestDirections(Mat matrices[])
{
  Watch watch;
  Vec   x;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(matrices[0], &x, &watch.b));
  PetscCall(DuplicateAll(watch.b, &watch.r, &watch.t));
  PetscCall(VecSetGeneral(watch.b, 1.0));
  for (PetscInt l = 0; l < VARIANTS; l++) {
    Variant variant;
    KSP     ksp;

    PetscCall(VariantCreate(matrices[0], l, &variant, &ksp));
    for (PetscInt turn = 0; turn < 4; turn++) {
      const PetscInt transposed = turn % 2;
      PetscReal      norms[MAX_NORMS];
      PetscInt       its[2];
      char           what[128];
      KSP            fresh;

      PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s, turn %" INT, transposed ? "transpose" : "matrix", variant.what, turn));
      watch.what = what;
      watch.A    = matrices[transposed];
      PetscCall(VariantCreate(watch.A, l, &variant, &fresh));
      for (PetscInt own = 0; own < 2; own++) {
        KSPConvergedReason reason;
        PetscReal          norm, reference;
        KSP                solver = own ? fresh : ksp;

        PetscCall(KSPMonitorCancel(solver));
        PetscCall(KSPMonitorSet(solver, WatchMonitor, &watch, NULL));
        PetscCall(VecSetGeneral(x, 2.0));
        PetscCall(KSPSetInitialGuessNonzero(solver, turn / 2 ? PETSC_TRUE : PETSC_FALSE));
        if (transposed && !own) PetscCall(KSPSolveTranspose(solver, watch.b, x));
        else PetscCall(KSPSolve(solver, watch.b, x));
        PetscCall(KSPGetConvergedReason(solver, &reason));
        PetscCall(OperatorNorm(solver, watch.A, watch.b, x, &norm));
        PetscCall(OperatorNorm(solver, watch.A, watch.b, NULL, &reference));
        PetscCall(ComplainIf(!(reason > 0) || !(norm <= 1.01 * rtol * reference), "%s: %s, the norm of b - A x is %g of %g", what,
                             KSPConvergedReasons[reason], (double)norm, (double)reference));
        PetscCall(KSPGetIterationNumber(solver, &its[own]));
        if (!own) PetscCall(PetscArraycpy(norms, watch.norms, MAX_NORMS));
      }
      PetscCall(ComplainIf(PetscAbsInt(its[0] - its[1]) > 2 + its[1] / 5,
                           "%s: %" INT " iterations, %" INT " with the matrix itself", what, its[0], its[1]));
      for (PetscInt i = 0; i < PetscMin(MAX_NORMS, its[1]); i++)
        PetscCall(ComplainIf(!(PetscAbsReal(norms[i] - watch.norms[i]) <= PETSC_SQRT_MACHINE_EPSILON * watch.norms[0]),
                             "%s: norm %" INT " is %g, %g with the matrix itself", what, i, (double)norms[i],
                             (double)watch.norms[i]));
      PetscCall(KSPDestroy(&fresh));
    }
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&x, &watch.b, &watch.r, &watch.t));
  PetscCall(Verdict("the matrix and its transpose by turns"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A transpose that PETSc assembles for the solve; early releases support nothing else */
static PetscErrorCode TestExplicit(Mat matrices[])
{
  Vec b, x;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(matrices[0], &x, &b));
  PetscCall(VecSetGeneral(b, 1.0));
  for (size_t is = 0; is < SIZES; is++) {
    KSP ksp;

    PetscCall(SolverCreate(matrices[0], sizes[is], PCJACOBI, &ksp));
    PetscCall(KSPSetUseExplicitTranspose(ksp, PETSC_TRUE));
    PetscCall(KSPSolveTranspose(ksp, b, x));
    PetscCall(CheckSolved("transpose, assembled", ksp, matrices[1], b, x));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&b, &x));
  PetscCall(Verdict("a transpose that is assembled"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  Mat matrices[2];

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(ImplementationFromOptions());
  for (PetscInt i = 0; i < 2; i++) PetscCall(MatCreateEntries(Convection, LINE * LINE, (PetscBool)i, &matrices[i]));
  PetscCall(TestDirections(matrices));
  PetscCall(TestExplicit(matrices));
  for (PetscInt i = 0; i < 2; i++) PetscCall(MatDestroy(&matrices[i]));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
