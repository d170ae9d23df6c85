static char help[] = "What KSPIDRS calls converged is: runs in which verifications fail, and right-hand sides whose squares cannot be represented.\n\n";

#include <petscidrs.h>
#include "../tutorials/matrixmarket.h"
#include "complain.h"
#include "residual.h"

/* Solves A x = b and complains when the reason is positive and b - A x does not meet the tolerance */
static PetscErrorCode Solve(KSP ksp, Mat A, Vec b, PetscReal rtol, const char what[], KSPConvergedReason *reason)
{
  Vec       x;
  PetscReal bnorm, rnorm;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(b, &x));
  PetscCall(KSPSetTolerances(ksp, rtol, 1e-300, PETSC_DEFAULT, 20000));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(KSPGetConvergedReason(ksp, reason));
  PetscCall(ResidualNorm(A, b, x, &rnorm, &bnorm));
  if (!*reason || (*reason > 0 && !(rnorm <= 1.01 * rtol * bnorm))) PetscCall(Complain("%s: %s with |b - A x| = %g, |b| = %g", what, KSPConvergedReasons[*reason], (double)rnorm, (double)bnorm));
  PetscCall(VecDestroy(&x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  Mat                A;
  Vec                b, ones;
  KSP                ksp;
  PC                 pc;
  char               file[PETSC_MAX_PATH_LEN];
  KSPConvergedReason reason;
  PetscInt           converged = 0;
  const PetscReal    tolerance = PetscDefined(USE_REAL_SINGLE) ? 4e-5 : 1e-11;
#if PetscDefined(USE_REAL_SINGLE)
  const PetscReal scales[] = {1e-24, 1e-20, 1e-15, 1e15, 1e21};
#else
  const PetscReal scales[] = {1e-170, 1e-155, 1e-140, 1e140, 1e160};
#endif
  PetscReal norm;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-f", file, sizeof(file), NULL));
  PetscCall(MatLoadMatrixMarket(PETSC_COMM_WORLD, file, &A));
  PetscCall(MatCreateVecs(A, &ones, &b));
  PetscCall(VecSet(ones, 1.0));
  PetscCall(MatMult(A, ones, b));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetType(ksp, KSPIDRS));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCSetType(pc, PCJACOBI));
  PetscCall(KSPSetFromOptions(ksp));

  /* Without reliable updating and not far from the attainable accuracy, the recursive residual is often wrong about x */
  PetscCall(KSPIDRSSetUpdateTolerance(ksp, 0.0));
  for (PetscInt s = 2; s <= 16; s *= 2) {
    PetscCall(KSPIDRSSetShadowSize(ksp, s));
    for (PetscInt seed = 0; seed < 10; seed++) {
      PetscCall(KSPIDRSSetShadowSeed(ksp, seed));
      PetscCall(Solve(ksp, A, b, tolerance, "without reliable updating", &reason));
      if (reason > 0) converged++;
    }
  }
  if (converged < 30) PetscCall(Complain("only %" PetscInt_FMT " of 40 runs without reliable updating converged", converged));
  PetscCall(Verdict("without reliable updating"));

  /* With it all converge */
  PetscCall(KSPIDRSSetUpdateTolerance(ksp, 1e-3));
  for (PetscInt s = 2; s <= 16; s *= 2) {
    PetscCall(KSPIDRSSetShadowSize(ksp, s));
    for (PetscInt seed = 0; seed < 10; seed++) {
      PetscCall(KSPIDRSSetShadowSeed(ksp, seed));
      PetscCall(Solve(ksp, A, b, tolerance, "with reliable updating", &reason));
      if (reason < 0) PetscCall(Complain("with reliable updating, s = %" PetscInt_FMT ", seed %" PetscInt_FMT ": %s", s, seed, KSPConvergedReasons[reason]));
    }
  }
  PetscCall(Verdict("with reliable updating"));

  /* Below the attainable accuracy: an end that says so, soon after all that can be had, and not far from it */
  for (PetscInt s = 4; s <= 16; s *= 2) {
    Vec       x;
    PetscInt  enough, its;
    PetscReal bnorm, rnorm;

    PetscCall(KSPIDRSSetShadowSize(ksp, s));
    PetscCall(KSPIDRSSetShadowSeed(ksp, 0));
    PetscCall(Solve(ksp, A, b, tolerance, "at the attainable accuracy", &reason));
    PetscCall(KSPGetIterationNumber(ksp, &enough));
    PetscCall(KSPSetTolerances(ksp, PETSC_MACHINE_EPSILON / 100, 1e-300, PETSC_DEFAULT, 50000));
    PetscCall(VecDuplicate(b, &x));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(KSPGetConvergedReason(ksp, &reason));
    PetscCall(KSPGetIterationNumber(ksp, &its));
    PetscCall(ResidualNorm(A, b, x, &rnorm, &bnorm));
    if (reason != KSP_DIVERGED_BREAKDOWN || its > 40 * enough || !(rnorm <= 1e3 * tolerance * bnorm))
      PetscCall(Complain("below the attainable accuracy, s = %" PetscInt_FMT ": %s after %" PetscInt_FMT ", and %" PetscInt_FMT " are enough, with |b - A x| = %g, |b| = %g", s, KSPConvergedReasons[reason], its, enough, (double)rnorm, (double)bnorm));
    PetscCall(VecDestroy(&x));
  }
  PetscCall(Verdict("below the attainable accuracy"));

  /* Squares of these vanish or overflow: a defined reason, and never a wrong one */
  PetscCall(KSPIDRSSetShadowSize(ksp, 4));
  PetscCall(VecNorm(b, NORM_2, &norm));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(scales); i++) {
    PetscCall(VecScale(b, scales[i] / norm));
    PetscCall(Solve(ksp, A, b, rtol, "scaled right-hand side", &reason));
    PetscCall(VecScale(b, norm / scales[i]));
  }
  PetscCall(Verdict("scaled right-hand sides"));

  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&ones));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  testset:
    nsize: {{1 2}}
    args: -ksp_idrs_implementation {{vec host}}
    output_file: output/trust_1.out
    test:
      suffix: 1
      requires: double
      args: -f ${PETSCIDRS_DIR}/tutorials/matrices/orsreg_1.mtx.gz
    # that one is too ill conditioned for single precision
    test:
      suffix: single
      requires: single
      args: -f ${PETSCIDRS_DIR}/tutorials/matrices/sherman1.mtx.gz

TEST*/
