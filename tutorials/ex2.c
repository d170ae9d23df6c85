static char help[] = "Temperature in a cube with wind: convection and diffusion in 3-D on a DMDA, on the CPU or a GPU.\n\
  -peclet p    speed of the wind times length over diffusion (default 100)\n\
  -wind kind   straight, swirl or rise (default swirl)\n\n";

/*
   Solves

       - Laplace u + p w . grad u = 0   in the unit cube,   u = 1 on a hot plate in the floor, u = 0 on the rest of the walls,

   for a wind w of speed 1 at most. With upwind differences u stays between 0 and 1 at every Peclet number p. The
   program checks this and the true residual.

   With larger p the matrix is less symmetric, and GMRES has to keep more vectors. Try for example

       ./ex2 -da_refine 3 -peclet 1000 -dll_append path/libpetscidrs.so -ksp_type idrs -ksp_idrs_s 8 -pc_type jacobi

   Options that matter:
     -da_grid_x 40 -da_grid_y 40 -da_grid_z 40   points in each direction; -da_refine 2 doubles them twice
     -ksp_type idrs -ksp_idrs_s 4                the method; bcgs or gmres for comparison
     -pc_type jacobi | bjacobi | mg | gamg mg rediscretises on coarser grids: -pc_mg_levels 3, with -mg_levels_ksp_type richardson
                                                 -mg_levels_pc_type sor where the wind dominates
     -dm_vec_type cuda -dm_mat_type aijcusparse  everything on a GPU, with preconditioners that run there: none, jacobi, gamg
     -ksp_monitor ascii:history.txt writes residual norms to a file: gnuplot -p -e 'set logscale y; plot "history.txt" using 1:5'
*/
#include <petscksp.h>
#include <petscdm.h>
#include <petscdmda.h>
#include "device.h"

typedef enum {
  WIND_STRAIGHT,
  WIND_SWIRL,
  WIND_RISE
} WindKind;
static const char *const WindKinds[] = {"straight", "swirl", "rise", "WindKind", "WIND_", NULL};

typedef struct {
  PetscReal peclet;
  WindKind  wind;
} Problem;

static void Wind(const Problem *problem, const PetscReal x[3], PetscReal w[3])
{
  switch (problem->wind) {
  case WIND_STRAIGHT: /* from one corner to the opposite one */
    w[0] = w[1] = w[2] = 1.0 / PetscSqrtReal(3.0);
    break;
  case WIND_SWIRL: /* around the vertical axis, upwards in the middle and down outside */
    w[0] = -(x[1] - 0.5);
    w[1] = x[0] - 0.5;
    w[2] = 0.5 * PetscCosReal(PETSC_PI * x[0]) * PetscCosReal(PETSC_PI * x[1]);
    break;
  case WIND_RISE:
    w[0] = w[1] = 0.0;
    w[2]        = 4.0 * x[0] * (1.0 - x[0]) * x[1] * (1.0 - x[1]);
    break;
  }
}

/* Temperature of the walls */
static PetscReal Wall(const PetscReal x[3])
{
  return x[2] == 0.0 && PetscAbsReal(x[0] - 0.5) < 0.25 && PetscAbsReal(x[1] - 0.5) < 0.25 ? 1.0 : 0.0;
}

/*
   Computes the seven coefficients of an inner point: of the point itself, then of its lower and upper neighbours in x, y and z. The
   rows are multiplied by the volume of a cell, so that the grids of multigrid have consistent scales. Neighbour 2d+1 is below in
   direction d, 2d+2 above.
*/
static void Coefficients(const Problem *problem, const PetscReal x[3], const PetscReal h[3], PetscReal a[7])
{
  const PetscReal volume = h[0] * h[1] * h[2];
  PetscReal       w[3];

  Wind(problem, x, w);
  a[0] = 0.0;
  for (PetscInt d = 0; d < 3; d++) {
    const PetscReal diffusion = volume / (h[d] * h[d]), convection = problem->peclet * w[d] * volume / h[d];

    a[2 * d + 1] = -diffusion - PetscMax(convection, 0.0);
    a[2 * d + 2] = -diffusion + PetscMin(convection, 0.0);
    a[0] -= a[2 * d + 1] + a[2 * d + 2];
  }
}

/* Gets the part of the grid on this process, and its spacings; unknowns are inside, at i h with i from 1 */
static PetscErrorCode GridGet(DM da, DMDALocalInfo *info, PetscReal h[3])
{
  PetscFunctionBeginUser;
  PetscCall(DMDAGetLocalInfo(da, info));
  h[0] = 1.0 / (info->mx + 1);
  h[1] = 1.0 / (info->my + 1);
  h[2] = 1.0 / (info->mz + 1);
  PetscFunctionReturn(0);
}

static PetscErrorCode ComputeOperators(KSP ksp, Mat J, Mat A, void *ctx)
{
  const Problem *problem = (const Problem *)ctx;
  DM             da;
  DMDALocalInfo  info;
  PetscReal      h[3], a[7];

  PetscFunctionBeginUser;
  PetscCall(KSPGetDM(ksp, &da));
  PetscCall(GridGet(da, &info, h));
  for (PetscInt k = info.zs; k < info.zs + info.zm; k++) {
    for (PetscInt j = info.ys; j < info.ys + info.ym; j++) {
      for (PetscInt i = info.xs; i < info.xs + info.xm; i++) {
        const PetscReal  x[3]     = {(i + 1) * h[0], (j + 1) * h[1], (k + 1) * h[2]};
        const PetscInt   place[3] = {i, j, k}, size[3] = {info.mx, info.my, info.mz};
        const MatStencil row           = {k, j, i, 0};
        const MatStencil neighbours[7] = {
          row, {k,     j,     i - 1, 0},
           {k,     j,     i + 1, 0},
           {k,     j - 1, i,     0},
           {k,     j + 1, i,     0},
           {k - 1, j,     i,     0},
           {k + 1, j,     i,     0}
        };
        MatStencil  columns[7];
        PetscScalar values[7];
        PetscInt    count = 0;

        Coefficients(problem, x, h, a);
        for (PetscInt c = 0; c < 7; c++) {
          const PetscInt d = (c - 1) / 2, at = c ? place[d] + (c % 2 ? -1 : 1) : 0;

          if (c && (at < 0 || at >= size[d])) continue; /* a wall, see ComputeRHS() */
          columns[count]  = neighbours[c];
          values[count++] = a[c];
        }
        PetscCall(MatSetValuesStencil(A, 1, &row, count, columns, values, INSERT_VALUES));
      }
    }
  }
  PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  PetscFunctionReturn(0);
}

/* Computes the contributions of the walls; only the floor is not at 0 */
static PetscErrorCode ComputeRHS(KSP ksp, Vec b, void *ctx)
{
  const Problem *problem = (const Problem *)ctx;
  DM             da;
  DMDALocalInfo  info;
  PetscReal      h[3], a[7];
  PetscScalar ***values;

  PetscFunctionBeginUser;
  PetscCall(KSPGetDM(ksp, &da));
  PetscCall(GridGet(da, &info, h));
  PetscCall(VecSet(b, 0.0));
  PetscCall(DMDAVecGetArray(da, b, &values));
  for (PetscInt j = info.ys; j < info.ys + info.ym && info.zs == 0; j++) {
    for (PetscInt i = info.xs; i < info.xs + info.xm; i++) {
      const PetscReal x[3] = {(i + 1) * h[0], (j + 1) * h[1], h[2]}, below[3] = {x[0], x[1], 0.0};

      Coefficients(problem, x, h, a);
      values[0][j][i] = -a[5] * Wall(below);
    }
  }
  PetscCall(DMDAVecRestoreArray(da, b, &values));
  PetscFunctionReturn(0);
}

/* Checks that u solves the equations, and that it is between 0 and 1 */
static PetscErrorCode Check(KSP ksp)
{
  KSPConvergedReason reason;
  Mat                A;
  Vec                b, u, r;
  PetscReal          rtol, rnorm, bnorm, lowest, highest;

  PetscFunctionBeginUser;
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(KSPGetTolerances(ksp, &rtol, NULL, NULL, NULL));
  PetscCall(KSPGetOperators(ksp, &A, NULL));
  PetscCall(KSPGetRhs(ksp, &b));
  PetscCall(KSPGetSolution(ksp, &u));
  PetscCall(VecDuplicate(b, &r));
  PetscCall(MatMult(A, u, r));
  PetscCall(VecAYPX(r, -1.0, b));
  PetscCall(VecNorm(r, NORM_2, &rnorm));
  PetscCall(VecNorm(b, NORM_2, &bnorm));
  PetscCall(VecRealPart(u));
  PetscCall(VecMin(u, NULL, &lowest));
  PetscCall(VecMax(u, NULL, &highest));
  if (reason > 0 && rnorm <= 1.1 * rtol * bnorm) PetscCall(PetscPrintf(PETSC_COMM_WORLD, "residual: as small as asked for\n"));
  else PetscCall(PetscPrintf(PETSC_COMM_WORLD, "residual: %g, %s\n", (double)(rnorm / bnorm), KSPConvergedReasons[reason]));
  if (lowest >= -10 * rtol && highest <= 1.0 + 10 * rtol && highest > 0.1)
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "temperature: between 0 and 1\n"));
  else PetscCall(PetscPrintf(PETSC_COMM_WORLD, "temperature: between %g and %g\n", (double)lowest, (double)highest));
  PetscCall(VecDestroy(&r));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  Problem   problem = {100.0, WIND_SWIRL};
  DM        da;
  KSP       ksp;
  PetscBool usable;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-peclet", &problem.peclet, NULL));
  PetscCall(PetscOptionsGetEnum(NULL, NULL, "-wind", WindKinds, (PetscEnum *)&problem.wind, NULL));
  PetscCall(DeviceCheck(PETSC_COMM_WORLD, &usable));
  if (usable) {
    PetscCall(DMDACreate3d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DMDA_STENCIL_STAR, 16, 16, 16,
                           PETSC_DECIDE, PETSC_DECIDE, PETSC_DECIDE, 1, 1, NULL, NULL, NULL, &da));
    PetscCall(DMSetFromOptions(da));
    PetscCall(DMSetUp(da));
    PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
    PetscCall(KSPSetDM(ksp, da));
    PetscCall(KSPSetComputeOperators(ksp, ComputeOperators, &problem));
    PetscCall(KSPSetComputeRHS(ksp, ComputeRHS, &problem));
    PetscCall(KSPSetPCSide(ksp, PC_RIGHT)); /* so that any method tests the norm of b - A u */
    PetscCall(KSPSetTolerances(ksp, PETSC_SQRT_MACHINE_EPSILON, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
    PetscCall(KSPSetFromOptions(ksp));
    PetscCall(KSPSolve(ksp, NULL, NULL));
    PetscCall(Check(ksp));
    PetscCall(KSPDestroy(&ksp));
    PetscCall(DMDestroy(&da));
  }
  PetscCall(PetscFinalize());
  return usable ? 0 : 1; /* the reason has been printed */
}

/*TEST

  testset:
    nsize: {{1 2}}
    args: -ksp_type idrs
    output_file: output/ex2_1.out

    test:
      suffix: 1
      args: -wind {{straight swirl rise}} -peclet {{1 1000}} -pc_type {{none jacobi}}

    test:
      suffix: mg
      args: -da_grid_x 17 -da_grid_y 17 -da_grid_z 17 -pc_type mg -pc_mg_levels 2 -ksp_idrs_s 2

    test:
      suffix: other
      args: -ksp_type {{bcgs gmres}} -pc_type bjacobi -da_refine 1

TEST*/
