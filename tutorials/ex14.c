static char help[] = "A substance in a circular current, 2-D, in time: every step solves a system with the same operator, and\n\
begins with the bases of the last solve.\n\
  -peclet p   speed of the current times length over diffusion (default 40)\n\n";

/*
   Solves

       u_t = Laplace u - p w . grad u + f   in the unit square,   u = 0 on its boundary and at first

   with central differences and the implicit Euler method. The source f is a bell that moves around the middle. Each step solves
   (I / dt + L) u = f + (last u) / dt. With the plugin

       ./ex14 -dll_append path/libpetscidrs.so -ksp_type idrs -ksp_idrs_s 8 -ksp_idrs_recycle auto -ksp_view

   a solve begins with the bases of the solve in the step before. The program prints the iterations of all solves. Compare with
   -ksp_idrs_recycle never.

   Options that matter:
     -snes_lag_jacobian -2 -snes_lag_jacobian_persists
                                       assemble the operator once. Then a recycled solve needs no start, which saves s iterations
     -ts_dt 0.2 -ts_max_steps 10       steps
     -da_grid_x 64 -da_grid_y 64       points in each direction
     -pc_type jacobi                   on several processes the default is bjacobi with ILU
*/
#include <petscts.h>
#include <petscdm.h>
#include <petscdmda.h>

/* The source at a point and a time */
static PetscReal Source(PetscReal x, PetscReal y, PetscReal t)
{
  return PetscExpReal(-40.0 * (PetscSqr(x - 0.5 - 0.3 * PetscCosReal(3.0 * t)) + PetscSqr(y - 0.5 - 0.3 * PetscSinReal(3.0 * t))));
}

/* Computes the coefficients of L at a point: itself, left, right, below, above; times the square of the distance of points */
static void Stencil(PetscReal peclet, PetscReal x, PetscReal y, PetscReal h, PetscScalar values[5])
{
  const PetscReal a = 2.0 * x - 1.0, b = 2.0 * y - 1.0, u = peclet * h * b * (1.0 - a * a), v = -peclet * h * a * (1.0 - b * b);

  values[0] = 4.0;
  values[1] = -1.0 - u;
  values[2] = -1.0 + u;
  values[3] = -1.0 - v;
  values[4] = -1.0 + v;
}

/* F = u_t + L u - f. Points outside are 0 */
static PetscErrorCode FunctionLocal(DMDALocalInfo *info, PetscReal t, void *state, void *rate, void *residual, void *ctx)
{
  const PetscReal peclet = *(const PetscReal *)ctx, h = 1.0 / (info->mx + 1);
  PetscScalar   **u = (PetscScalar **)state, **ut = (PetscScalar **)rate, **f = (PetscScalar **)residual;

  PetscFunctionBeginUser;
  for (PetscInt j = info->ys; j < info->ys + info->ym; j++) {
    for (PetscInt i = info->xs; i < info->xs + info->xm; i++) {
      const PetscReal   x = (i + 1) * h, y = (j + 1) * h;
      const PetscScalar left = i ? u[j][i - 1] : 0.0, right = i < info->mx - 1 ? u[j][i + 1] : 0.0;
      const PetscScalar below = j ? u[j - 1][i] : 0.0, above = j < info->my - 1 ? u[j + 1][i] : 0.0;
      PetscScalar       values[5];

      Stencil(peclet, x, y, h, values);
      f[j][i] = h * h * (ut[j][i] - Source(x, y, t)) + values[0] * u[j][i] + values[1] * left + values[2] * right +
                values[3] * below + values[4] * above;
    }
  }
  PetscFunctionReturn(0);
}

/* shift dF/du_t + dF/du */
static PetscErrorCode JacobianLocal(DMDALocalInfo *info, PetscReal t, void *state, void *rate, PetscReal shift, Mat J, Mat P,
                                    void *ctx)
{
  const PetscReal peclet = *(const PetscReal *)ctx, h = 1.0 / (info->mx + 1);

  PetscFunctionBeginUser;
  for (PetscInt j = info->ys; j < info->ys + info->ym; j++) {
    for (PetscInt i = info->xs; i < info->xs + info->xm; i++) {
      const PetscInt di[] = {0, -1, 1, 0, 0}, dj[] = {0, 0, 0, -1, 1};
      MatStencil     row = {0}, column = {0};
      PetscScalar    values[5];

      row.i = i;
      row.j = j;
      Stencil(peclet, (i + 1) * h, (j + 1) * h, h, values);
      values[0] += h * h * shift;
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
  PetscReal peclet = 40.0, largest;
  PetscInt  steps, iterations;
  TS        ts;
  SNES      snes;
  DM        da;
  Vec       u;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-peclet", &peclet, NULL));
  PetscCall(DMDACreate2d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DMDA_STENCIL_STAR, 64, 64, PETSC_DECIDE,
                         PETSC_DECIDE, 1, 1, NULL, NULL, &da));
  PetscCall(DMSetFromOptions(da));
  PetscCall(DMSetUp(da));
  PetscCall(DMCreateGlobalVector(da, &u));
  PetscCall(VecSet(u, 0.0));
  PetscCall(TSCreate(PETSC_COMM_WORLD, &ts));
  PetscCall(TSSetDM(ts, da));
  PetscCall(DMDATSSetIFunctionLocal(da, INSERT_VALUES, FunctionLocal, &peclet));
  PetscCall(DMDATSSetIJacobianLocal(da, JacobianLocal, &peclet));
  PetscCall(TSSetType(ts, TSBEULER));
  PetscCall(TSSetTimeStep(ts, 0.2));
  PetscCall(TSSetMaxSteps(ts, 10));
  PetscCall(TSSetMaxTime(ts, 1e6));
  PetscCall(TSSetExactFinalTime(ts, TS_EXACTFINALTIME_STEPOVER));
  PetscCall(TSGetSNES(ts, &snes));
  PetscCall(SNESSetType(snes, SNESKSPONLY)); /* the equations are linear */
  PetscCall(TSSetFromOptions(ts));
  PetscCall(TSSolve(ts, u));
  PetscCall(TSGetStepNumber(ts, &steps));
  PetscCall(TSGetKSPIterations(ts, &iterations));
  PetscCall(VecNorm(u, NORM_INFINITY, &largest));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%" PetscInt_FMT " steps, %" PetscInt_FMT " linear iterations\n", steps, iterations));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "largest concentration %.4f\n", (double)largest));
  PetscCall(VecDestroy(&u));
  PetscCall(TSDestroy(&ts));
  PetscCall(DMDestroy(&da));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  testset:
    nsize: {{1 2}}
    args: -ksp_type idrs -ksp_idrs_s 8 -ksp_rtol 1e-6
    requires: double
    filter: grep largest
    output_file: output/ex14_1.out

    test:
      suffix: 1
      args: -ksp_idrs_recycle {{never auto always}}

    test:
      suffix: lag
      args: -ksp_idrs_recycle {{auto always}} -snes_lag_jacobian -2 -snes_lag_jacobian_persists -pc_type jacobi

TEST*/
