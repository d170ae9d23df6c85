static char help[] = "A reaction that heats itself in a circular current, 2-D: Newton's method for growing reaction rates. Each\n\
linear solve begins with the U of the last one, although the matrix has changed.\n\
  -peclet p   speed of the current times length over diffusion (default 40)\n\
  -rates n    the reaction rate grows from 1 to 6 in n steps (default 6)\n\n";

/*
   Solves

       - Laplace u + p w . grad u = rate e^u   in the unit square,   u = 0 on its boundary

   with central differences, from the solution for the last rate. With the plugin

       ./ex15 -dll_append path/libpetscidrs.so -ksp_type idrs -ksp_idrs_s 8 -ksp_idrs_recycle auto -ksp_view

   a solve begins with the U of the last one, and its start computes G = A U. The program prints the iterations of all linear
   solves. Compare with -ksp_idrs_recycle never.

   Options that matter:
     -ksp_rtol 1e-8                    accuracy of the linear systems. Recycling pays if solves take many iterations
     -snes_monitor -ksp_converged_reason
                                       show progress
     -da_grid_x 64 -da_grid_y 64       points in each direction
     -pc_type jacobi                   on several processes the default is bjacobi with ILU
*/
#include <petscsnes.h>
#include <petscdm.h>
#include <petscdmda.h>

typedef struct {
  PetscReal peclet, rate;
} Parameters;

/* Computes the coefficients at a point: itself, left, right, below, above; times the square of the distance of points */
static void Stencil(PetscReal peclet, PetscReal x, PetscReal y, PetscReal h, PetscScalar values[5])
{
  const PetscReal a = 2.0 * x - 1.0, b = 2.0 * y - 1.0, u = peclet * h * b * (1.0 - a * a), v = -peclet * h * a * (1.0 - b * b);

  values[0] = 4.0;
  values[1] = -1.0 - u;
  values[2] = -1.0 + u;
  values[3] = -1.0 - v;
  values[4] = -1.0 + v;
}

/* Points outside are 0 */
static PetscErrorCode FunctionLocal(DMDALocalInfo *info, void *state, void *residual, void *ctx)
{
  const Parameters *parameters = (const Parameters *)ctx;
  const PetscReal   h          = 1.0 / (info->mx + 1);
  PetscScalar     **u = (PetscScalar **)state, **f = (PetscScalar **)residual;

  PetscFunctionBeginUser;
  for (PetscInt j = info->ys; j < info->ys + info->ym; j++) {
    for (PetscInt i = info->xs; i < info->xs + info->xm; i++) {
      const PetscScalar left = i ? u[j][i - 1] : 0.0, right = i < info->mx - 1 ? u[j][i + 1] : 0.0;
      const PetscScalar below = j ? u[j - 1][i] : 0.0, above = j < info->my - 1 ? u[j + 1][i] : 0.0;
      PetscScalar       values[5];

      Stencil(parameters->peclet, (i + 1) * h, (j + 1) * h, h, values);
      f[j][i] = values[0] * u[j][i] + values[1] * left + values[2] * right + values[3] * below + values[4] * above -
                h * h * parameters->rate * PetscExpScalar(u[j][i]);
    }
  }
  PetscFunctionReturn(0);
}

static PetscErrorCode JacobianLocal(DMDALocalInfo *info, void *state, Mat J, Mat P, void *ctx)
{
  const Parameters *parameters = (const Parameters *)ctx;
  const PetscReal   h          = 1.0 / (info->mx + 1);
  PetscScalar     **u          = (PetscScalar **)state;

  PetscFunctionBeginUser;
  for (PetscInt j = info->ys; j < info->ys + info->ym; j++) {
    for (PetscInt i = info->xs; i < info->xs + info->xm; i++) {
      const PetscInt di[] = {0, -1, 1, 0, 0}, dj[] = {0, 0, 0, -1, 1};
      MatStencil     row = {0}, column = {0};
      PetscScalar    values[5];

      row.i = i;
      row.j = j;
      Stencil(parameters->peclet, (i + 1) * h, (j + 1) * h, h, values);
      values[0] -= h * h * parameters->rate * PetscExpScalar(u[j][i]);
      for (PetscInt k = 0; k < 5; k++) {
        column.i = i + di[k];
        column.j = j + dj[k];
        if (column.i < 0 || column.j < 0 || column.i >= info->mx || column.j >= info->my) continue;
        PetscCall(MatSetValuesStencil(P, 1, &row, 1, &column, &values[k], INSERT_VALUES));
      }
    }
  }
  PetscCall(MatAssemblyBegin(P, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(P, MAT_FINAL_ASSEMBLY));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  Parameters          parameters = {40.0, 1.0};
  PetscInt            rates = 6, solves = 0, iterations = 0, its;
  PetscReal           largest;
  SNES                snes;
  SNESConvergedReason reason;
  DM                  da;
  Vec                 u;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-peclet", &parameters.peclet, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-rates", &rates, NULL));
  PetscCall(DMDACreate2d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DMDA_STENCIL_STAR, 64, 64, PETSC_DECIDE,
                         PETSC_DECIDE, 1, 1, NULL, NULL, &da));
  PetscCall(DMSetFromOptions(da));
  PetscCall(DMSetUp(da));
  PetscCall(DMCreateGlobalVector(da, &u));
  PetscCall(VecSet(u, 0.0));
  PetscCall(SNESCreate(PETSC_COMM_WORLD, &snes));
  PetscCall(SNESSetDM(snes, da));
  PetscCall(DMDASNESSetFunctionLocal(da, INSERT_VALUES, FunctionLocal, &parameters));
  PetscCall(DMDASNESSetJacobianLocal(da, JacobianLocal, &parameters));
  PetscCall(SNESSetFromOptions(snes));
  for (PetscInt i = 0; i < rates; i++) {
    parameters.rate = rates > 1 ? 1.0 + 5.0 * (PetscReal)i / (PetscReal)(rates - 1) : 1.0;
    PetscCall(SNESSolve(snes, NULL, u));
    PetscCall(SNESGetConvergedReason(snes, &reason));
    PetscCall(SNESGetIterationNumber(snes, &its));
    solves += its;
    PetscCall(SNESGetLinearSolveIterations(snes, &its));
    iterations += its;
    if (reason < 0)
      PetscCall(PetscPrintf(PETSC_COMM_WORLD, "rate %g: %s\n", (double)parameters.rate, SNESConvergedReasons[reason]));
  }
  PetscCall(VecNorm(u, NORM_INFINITY, &largest));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%" PetscInt_FMT " linear solves, %" PetscInt_FMT " iterations\n", solves, iterations));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "largest temperature %.4f\n", (double)largest));
  PetscCall(VecDestroy(&u));
  PetscCall(SNESDestroy(&snes));
  PetscCall(DMDestroy(&da));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    requires: double
    nsize: {{1 2}}
    args: -ksp_type idrs -ksp_idrs_s 8 -ksp_idrs_recycle {{never auto always}} -ksp_rtol 1e-6
    filter: grep largest

TEST*/
