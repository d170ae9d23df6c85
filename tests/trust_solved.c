static char help[] = "Small systems that a few steps solve exactly, so that the recurrence breaks down: no invalid operation,\n\
and a convergence test of the user is called for the solution even if no restart remains.\n\n";

#include <fenv.h>
#include "systems.h"

/* Skew-symmetric blocks of two rows, or c times the identity */
static PetscErrorCode SmallSystemCreate(PetscInt n, PetscReal c, PetscBool skew, Mat *A, Vec *b, Vec *x)
{
  PetscFunctionBeginUser;
  PetscCall(MatCreateSeqAIJ(PETSC_COMM_SELF, n, n, 1, NULL, A));
  for (PetscInt i = 0; i < n; i++) {
    const PetscBool last = (PetscBool)(n % 2 && i == n - 1);

    if (skew && !last) PetscCall(MatSetValue(*A, i, i % 2 ? i - 1 : i + 1, i % 2 ? -c : c, INSERT_VALUES));
    else PetscCall(MatSetValue(*A, i, i, skew ? 1.0 : c, INSERT_VALUES));
  }
  PetscCall(MatAssemble(*A));
  PetscCall(MatCreateVecs(*A, x, b));
  PetscCall(VecSetGeneral(*b, c));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A difference of squares may be negative if a step solves the system; its root must not be computed */
static PetscErrorCode TestInvalid(void)
{
  PetscFunctionBeginUser;
  for (PetscInt i = 1; i <= 200; i++) {
    Mat A;
    Vec b, x;
    KSP ksp;

    PetscCall(SmallSystemCreate(3, 1.0 + i / 7.0, PETSC_FALSE, &A, &b, &x));
    PetscCall(SolverCreate(A, 4, PCNONE, &ksp));
    PetscCall(KSPSetUp(ksp));
    (void)feclearexcept(FE_INVALID);
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(ComplainIf(fetestexcept(FE_INVALID), "%" INT " / 7 times the identity: an invalid operation", i));
    PetscCall(DestroyAll(&ksp, &A, &b, &x));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Test(KSP ksp, PetscInt its, PetscReal rnorm, KSPConvergedReason *reason, void *ctx)
{
  PetscFunctionBeginUser;
  *reason = rnorm <= *(PetscReal *)ctx ? KSP_CONVERGED_RTOL : KSP_CONVERGED_ITERATING;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestTest(void)
{
  PetscFunctionBeginUser;
  for (PetscInt n = 2; n <= 8; n++) {
    for (PetscInt s = 1; s <= 8; s++) {
      for (PetscInt i = 0; i < 20; i++) {
        KSPConvergedReason reason;
        PetscReal          tolerance, rnorm, bnorm;
        Mat                A;
        Vec                b, x;
        KSP                ksp;

        PetscCall(SmallSystemCreate(n, 0.3 + 0.1 * i, PETSC_TRUE, &A, &b, &x));
        PetscCall(VecNorm(b, NORM_2, &bnorm));
        tolerance = rtol * bnorm;
        PetscCall(SolverCreate(A, s, PCNONE, &ksp));
        PetscCall(KSPIDRSSetMaxRestarts_Private(ksp, 0));
        PetscCall(KSPSetConvergenceTest(ksp, Test, &tolerance, NULL));
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

RUN_TESTS({TestInvalid, "invalid operations"}, {TestTest, "a test of the user, without restarts"})

/*TEST

  test:
    suffix: 1

TEST*/
