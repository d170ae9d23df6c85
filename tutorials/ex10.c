static char help[] = "A substance carried by a circular current, 2-D, without a matrix: the operator is a function, and the\n\
polynomial preconditioner needs no more.\n\
  -peclet p   speed of the current times length over diffusion (default 1000)\n\
  -plain      an operator without MATOP_GET_DIAGONAL\n\n";

/*
   Solves

       - Laplace u + p w . grad u = f   in the unit square,   u = 0 on its boundary,   f = 1 in the middle and 0 elsewhere

   by central differences. The operator is applied to a vector by MatMult() of a MATSHELL, so there is no matrix that could be
   factored, and preconditioners such as ILU, SOR and GAMG cannot be used. A polynomial in the operator can: with the plugin

       ./ex10 -da_grid_x 200 -da_grid_y 200 -dll_append path/libpetscidrs.so -ksp_type idrs -pc_type poly -pc_poly_degree 16
       -ksp_view

   The program prints the number of products with the operator, including those of the preconditioner. An iteration with degree d
   has d products and one reduction. Compare with -pc_type none, and -ksp_type gmres or bcgs.

   Options that matter:
     -pc_type poly -pc_poly_degree 8   degree of the polynomial: 8 to 32
     -da_grid_x 50 -da_grid_y 50       points in each direction
     -peclet 1000                      with fewer points, or a larger number, the operator is less symmetric
     -plain                            without MATOP_GET_DIAGONAL the rows are not scaled
*/
#include <petscksp.h>
#include <petscdm.h>
#include <petscdmda.h>

typedef struct {
  DM        da;
  PetscReal peclet;
  PetscInt  products;
} Current;

/* y = A u. The vector with the values of the neighbours on other processes comes from the DMDA */
static PetscErrorCode Multiply(Mat A, Vec u, Vec y)
{
  Current      *current;
  DMDALocalInfo info;
  Vec           local;
  PetscScalar **v, **result;
  void         *ctx;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(A, &ctx));
  current = (Current *)ctx;
  current->products++;
  PetscCall(DMDAGetLocalInfo(current->da, &info));
  PetscCall(DMGetLocalVector(current->da, &local));
  PetscCall(VecSet(local, 0.0)); /* points outside the square are zero */
  PetscCall(DMGlobalToLocal(current->da, u, INSERT_VALUES, local));
  PetscCall(DMDAVecGetArrayRead(current->da, local, &v));
  PetscCall(DMDAVecGetArrayWrite(current->da, y, &result));
  for (PetscInt j = info.ys; j < info.ys + info.ym; j++) {
    for (PetscInt i = info.xs; i < info.xs + info.xm; i++) {
      const PetscReal hx = 1.0 / (info.mx + 1), hy = 1.0 / (info.my + 1), x = (i + 1) * hx - 0.5, y0 = (j + 1) * hy - 0.5;
      const PetscReal dx = hy / hx, dy = hx / hy, cx = -0.5 * current->peclet * y0 * hy, cy = 0.5 * current->peclet * x * hx;

      result[j][i] = 2.0 * (dx + dy) * v[j][i] - (dx + cx) * (i > 0 ? v[j][i - 1] : 0.0) -
                     (dx - cx) * (i < info.mx - 1 ? v[j][i + 1] : 0.0) - (dy + cy) * (j > 0 ? v[j - 1][i] : 0.0) -
                     (dy - cy) * (j < info.my - 1 ? v[j + 1][i] : 0.0);
    }
  }
  PetscCall(DMDAVecRestoreArrayRead(current->da, local, &v));
  PetscCall(DMDAVecRestoreArrayWrite(current->da, y, &result));
  PetscCall(DMRestoreLocalVector(current->da, &local));
  PetscFunctionReturn(0);
}

static PetscErrorCode Diagonal(Mat A, Vec d)
{
  DMDALocalInfo info;
  PetscReal     ratio;
  void         *ctx;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(A, &ctx));
  PetscCall(DMDAGetLocalInfo(((Current *)ctx)->da, &info));
  ratio = (PetscReal)(info.mx + 1) / (info.my + 1);
  PetscCall(VecSet(d, 2.0 * (ratio + 1.0 / ratio)));
  PetscFunctionReturn(0);
}

/* Sets b to f times the area of a cell */
static PetscErrorCode Source(DM da, Vec b)
{
  DMDALocalInfo info;
  PetscScalar **f;

  PetscFunctionBeginUser;
  PetscCall(DMDAGetLocalInfo(da, &info));
  PetscCall(DMDAVecGetArrayWrite(da, b, &f));
  for (PetscInt j = info.ys; j < info.ys + info.ym; j++) {
    for (PetscInt i = info.xs; i < info.xs + info.xm; i++) {
      const PetscReal x = (i + 1.0) / (info.mx + 1) - 0.5, y = (j + 1.0) / (info.my + 1) - 0.5;

      f[j][i] = x * x + y * y < 0.01 ? 1.0 / ((PetscReal)(info.mx + 1) * (info.my + 1)) : 0.0;
    }
  }
  PetscCall(DMDAVecRestoreArrayWrite(da, b, &f));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  Current            current = {NULL, 1000.0, 0};
  KSPConvergedReason reason;
  PetscReal          rtol, rnorm, bnorm;
  PetscInt           n, N, products, its;
  PetscBool          plain = PETSC_FALSE;
  Mat                A;
  Vec                b, u;
  KSP                ksp;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-peclet", &current.peclet, NULL));
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-plain", &plain, NULL));
  PetscCall(DMDACreate2d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DMDA_STENCIL_STAR, 50, 50, PETSC_DECIDE,
                         PETSC_DECIDE, 1, 1, NULL, NULL, &current.da));
  PetscCall(DMSetFromOptions(current.da));
  PetscCall(DMSetUp(current.da));
  PetscCall(DMCreateGlobalVector(current.da, &b));
  PetscCall(VecDuplicate(b, &u));
  PetscCall(Source(current.da, b));
  PetscCall(VecGetLocalSize(b, &n));
  PetscCall(VecGetSize(b, &N));
  PetscCall(MatCreateShell(PETSC_COMM_WORLD, n, n, N, N, &current, &A));
  PetscCall(MatShellSetOperation(A, MATOP_MULT, (void (*)(void))Multiply));
  if (!plain) PetscCall(MatShellSetOperation(A, MATOP_GET_DIAGONAL, (void (*)(void))Diagonal));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPSetPCSide(ksp, PC_RIGHT)); /* so that any method tests the norm of b - A u */
  PetscCall(KSPSetTolerances(ksp, PETSC_SQRT_MACHINE_EPSILON, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(KSPSolve(ksp, b, u));
  products = current.products;
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(KSPGetTolerances(ksp, &rtol, NULL, NULL, NULL));
  PetscCall(VecNorm(b, NORM_2, &bnorm));
  PetscCall(VecScale(b, -1.0));
  PetscCall(MatMultAdd(A, u, b, b));
  PetscCall(VecNorm(b, NORM_2, &rnorm));
  PetscCall(
    PetscPrintf(PETSC_COMM_WORLD, "%" PetscInt_FMT " iterations, %" PetscInt_FMT " products of the operator\n", its, products));
  if (reason > 0 && rnorm <= 1.1 * rtol * bnorm) PetscCall(PetscPrintf(PETSC_COMM_WORLD, "residual: as small as asked for\n"));
  else PetscCall(PetscPrintf(PETSC_COMM_WORLD, "residual: %g, %s\n", (double)(rnorm / bnorm), KSPConvergedReasons[reason]));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(MatDestroy(&A));
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&u));
  PetscCall(DMDestroy(&current.da));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 2}}
    args: -ksp_type {{idrs gmres}} -pc_type poly -pc_poly_degree {{8 16}}
    filter: grep residual

  test:
    suffix: plain
    nsize: {{1 2}}
    args: -ksp_type idrs -pc_type poly -plain -peclet {{10 3000}}
    filter: grep residual
    output_file: output/ex10_1.out

TEST*/
