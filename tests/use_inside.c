static char help[] = "KSPMatSolve() with KSPIDRS beside the rest of PETSc: null spaces, what goes column by column, what is printed, KSPIDRS inside of other solvers.\n\n";

#include "columns.h"

#define COLUMNS 6

static PetscErrorCode Monitor(KSP ksp, PetscInt its, PetscReal norm, void *ctx)
{
  return PETSC_SUCCESS;
}

static PetscErrorCode ConvergedAtTen(KSP ksp, PetscInt its, PetscReal norm, KSPConvergedReason *reason, void *ctx)
{
  *reason = its >= 10 ? KSP_CONVERGED_ITS : KSP_CONVERGED_ITERATING;
  return PETSC_SUCCESS;
}

static PetscErrorCode Before(KSP ksp, Vec b, Vec x, void *ctx)
{
  ++*(PetscInt *)ctx;
  return PETSC_SUCCESS;
}

/* What needs the iterate of one right-hand side goes one by one, which is told, and is KSPSolve() to the bit */
static PetscErrorCode TestApart(Mat A)
{
  const char *const why[]  = {"at the same time", "width 1", "residual smoothing", "a monitor", "a convergence test", "an initial guess", "before and after"};
  PetscInt          before = 0;
  Vec               b, x, y;
  Mat               B, X;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecDuplicate(x, &y));
  PetscCall(BlockCreate(A, COLUMNS, &B));
  PetscCall(BlockSet(A, BLOCK_RANDOM, B));
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(why); i++) {
    KSP ksp;

    PetscCall(SolverCreate(A, 4, PCJACOBI, &ksp));
    if (i == 1) PetscCall(KSPIDRSSetWidth(ksp, 1));
    if (i == 2) PetscCall(KSPIDRSSetSmoothing(ksp, PETSC_TRUE));
    if (i == 3) PetscCall(KSPMonitorSet(ksp, Monitor, NULL, NULL));
    if (i == 4) PetscCall(KSPSetConvergenceTest(ksp, ConvergedAtTen, NULL, NULL));
    if (i == 5) PetscCall(KSPSetInitialGuessKnoll(ksp, PETSC_TRUE));
    if (i == 6) PetscCall(KSPSetPreSolve(ksp, Before, &before));
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscCall(CheckView(ksp, why[i]));
    PetscCall(CheckView(ksp, "right-hand sides have not converged"));
    PetscCall(ComplainIf(i == 6 && before != COLUMNS, "%" PetscInt_FMT " calls before %d solves", before, COLUMNS));
    for (PetscInt j = 0; i && j < COLUMNS; j++) {
      PetscBool equal;

      PetscCall(ColumnGet(B, j, b));
      PetscCall(ColumnGet(X, j, y));
      PetscCall(KSPSolve(ksp, b, x));
      PetscCall(VecEqual(x, y, &equal));
      PetscCall(ComplainIf(!equal, "%s: column %" PetscInt_FMT " is not what KSPSolve() makes of it", why[i], j));
    }
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&y));
  PetscCall(MatDestroy(&B));
  PetscCall(MatDestroy(&X));
  PetscCall(Verdict("one by one where that is needed"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Rows sum to zero, and columns do not */
static PetscScalar Singular(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 3.0 : (j == (i + 1) % n ? -2.0 : (j == (i + n - 1) % n ? -1.0 : 0.0));
}

/* A matrix with a null space, and right-hand sides that are not in its range: as by KSPSolve() */
static PetscErrorCode TestNullSpace(void)
{
  const char *const pctypes[] = {PCNONE, PCJACOBI, PCBJACOBI};
  MatNullSpace      space;
  Vec               b, x, y;
  Mat               A, B, X;

  PetscFunctionBeginUser;
  PetscCall(MatCreateEntries(Singular, 50, PETSC_FALSE, &A));
  PetscCall(MatNullSpaceCreate(PETSC_COMM_WORLD, PETSC_TRUE, 0, NULL, &space));
  PetscCall(MatSetNullSpace(A, space));
  PetscCall(MatSetTransposeNullSpace(A, space));
  PetscCall(MatNullSpaceDestroy(&space));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecDuplicate(x, &y));
  PetscCall(BlockCreate(A, COLUMNS, &B));
  PetscCall(BlockSet(A, BLOCK_RANDOM, B));
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
  for (size_t i = 0; i < 2 * PETSC_STATIC_ARRAY_LENGTH(pctypes); i++) {
    const KSPConvergedReason *reasons;
    KSP                       ksp;

    PetscCall(SolverCreateSide(A, 4, i % 2 ? PC_LEFT : PC_RIGHT, pctypes[i / 2], &ksp));
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscCall(KSPIDRSGetColumnResults(ksp, NULL, &reasons, NULL, NULL));
    for (PetscInt j = 0; j < COLUMNS; j++) {
      const PetscBool converged = (PetscBool)(reasons[j] > 0);
      PetscReal       norm, distance;

      PetscCall(ColumnGet(B, j, b));
      PetscCall(ColumnGet(X, j, y));
      PetscCall(KSPSolve(ksp, b, x));
      PetscCall(VecNorm(x, NORM_2, &norm));
      PetscCall(VecAXPY(y, -1.0, x));
      PetscCall(VecNorm(y, NORM_2, &distance));
      PetscCall(ComplainIf(!converged || !(distance <= 1e5 * rtol * norm), "%s, %s, column %" PetscInt_FMT ": %s, and %g from the solution of KSPSolve()", pctypes[i / 2], PCSides[i % 2 ? PC_LEFT : PC_RIGHT], j, converged ? "converged" : "not converged", (double)(distance / norm)));
    }
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&y));
  PetscCall(MatDestroy(&B));
  PetscCall(MatDestroy(&X));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("null spaces"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* idrs as the solver of a block, a level or a field, and of a PCKSP, which call KSPMatSolve() of it */
static PetscErrorCode TestInside(Mat A)
{
  const char *const outer[] = {KSPIDRS, KSPRICHARDSON, KSPPREONLY};
  const char *const options[] = {"-pc_type ksp -ksp_ksp_type idrs -ksp_ksp_rtol 1e-2 -ksp_pc_type jacobi", "-pc_type bjacobi -sub_ksp_type idrs -sub_ksp_rtol 1e-3 -sub_pc_type none", "-pc_type ksp -ksp_ksp_type idrs -ksp_ksp_rtol 1e-10 -ksp_pc_type bjacobi"};

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(outer); i++) {
    for (size_t o = 0; o < PETSC_STATIC_ARRAY_LENGTH(options); o++) {
      const PetscBool loose = (PetscBool)(o < 2);
      Vec             b, x;
      Mat             B, X;
      KSP             ksp;

      if (i == 2 && loose) continue;
      PetscCall(PetscOptionsInsertString(NULL, options[o]));
      PetscCall(BlockCreate(A, COLUMNS, &B));
      PetscCall(BlockSet(A, BLOCK_ZERO, B));
      PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
      PetscCall(MatCreateVecs(A, &x, &b));
      PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
      PetscCall(KSPSetOperators(ksp, A, A));
      PetscCall(KSPSetType(ksp, outer[i]));
      PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 1000));
      PetscCall(KSPSetFromOptions(ksp));
      PetscCall(KSPMatSolve(ksp, B, X));
      for (PetscInt j = 0; j < COLUMNS; j++) {
        PetscReal norm, bnorm;

        PetscCall(ColumnGet(B, j, b));
        PetscCall(ColumnGet(X, j, x));
        PetscCall(ResidualNorm(A, b, x, &norm, &bnorm));
        PetscCall(ComplainIf(!(norm <= 100 * rtol * bnorm), "%s, %s: the norm of b - A x is %g of %g", outer[i], options[o], (double)norm, (double)bnorm));
      }
      PetscCall(KSPDestroy(&ksp));
      PetscCall(VecDestroy(&b));
      PetscCall(VecDestroy(&x));
      PetscCall(MatDestroy(&B));
      PetscCall(MatDestroy(&X));
      PetscCall(PetscOptionsClear(NULL));
    }
  }
  PetscCall(Verdict("inside of other solvers"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  Mat A;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(ImplementationFromOptions());
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, 10, 0.8, 0.4, &A));
  PetscCall(TestApart(A));
  PetscCall(TestNullSpace());
  PetscCall(TestInside(A));
  PetscCall(MatDestroy(&A));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 2}}
    args: -ksp_idrs_implementation {{vec host}}

TEST*/
