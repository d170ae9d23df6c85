static char help[] = "Sound of a point source: the Helmholtz equation in 2-D with absorbing boundaries, for PETSc with complex\n\
scalars.\n\
  -wavenumber k   (default 20)\n\
  -shift beta     the preconditioner is made from the operator with k^2 (1 + i beta) (default 0.5; 0 for the operator itself)\n\n";

/*
   Solves

       - Laplace u - k^2 u = delta(x - (1/2,1/2))   in the unit square,   du/dn = i k u   on its boundary,

   and compares the solution with the wave i/4 H0(k |x|), H0 a Hankel function. They differ by reflections of the simple boundary
   condition.

   The matrix is symmetric, not Hermitian, and indefinite. For such matrices IDR(s) gains from a larger s, and incomplete
   factorizations are unreliable. The usual remedy is a preconditioner for an equation with damping, k^2 (1 + i beta)
   (Erlangga, Vuik and Oosterlee, Appl. Numer. Math. 50 (2004) 409-425), in which waves decay, so that ILU or multigrid work.

   Options that matter:
     -da_grid_x 101 -da_grid_y 101    at least ten points per wavelength: 2 pi / k >= 10 h
     -ksp_idrs_s 8                    fewer matvecs than with 4, the default
     -shift 0.5                       a smaller shift is closer to the operator, and harder for -pc_type ilu, bjacobi or gamg
     -pc_type lu -shift 0.5           shows the effect of the shift alone
     -dm_vec_type cuda -dm_mat_type aijcusparse   everything on a GPU
*/
#include <petscksp.h>
#include <petscdm.h>
#include <petscdmda.h>
#include "device.h"

#if PetscDefined(USE_COMPLEX)

typedef struct {
  PetscReal k, beta;
} Problem;

/*
   Assembles - Laplace - k^2 (1 + i beta) with second-order differences; the centred boundary condition has eliminated the points
   outside
*/
static PetscErrorCode Operator(DM da, PetscReal k, PetscReal beta, Mat A)
{
  const PetscScalar square = k * k * (1.0 + PETSC_i * beta);
  DMDALocalInfo     info;
  PetscReal         h[2];

  PetscFunctionBeginUser;
  PetscCall(DMDAGetLocalInfo(da, &info));
  h[0] = 1.0 / (info.mx - 1);
  h[1] = 1.0 / (info.my - 1);
  for (PetscInt j = info.ys; j < info.ys + info.ym; j++) {
    for (PetscInt i = info.xs; i < info.xs + info.xm; i++) {
      const PetscInt   place[2] = {i, j}, last[2] = {info.mx - 1, info.my - 1};
      const MatStencil row             = {0, j, i, 0};
      MatStencil       columns[5]      = {row};
      PetscScalar      coefficients[5] = {-square};
      PetscInt         count           = 1;

      for (PetscInt d = 0; d < 2; d++) {
        const PetscReal diffusion = 1.0 / (h[d] * h[d]);

        coefficients[0] += 2.0 * diffusion;
        for (PetscInt side = -1; side <= 1; side += 2) {
          const PetscBool at_wall = (PetscBool)(place[d] == (side < 0 ? 0 : last[d]));

          if (at_wall) coefficients[0] -= 2.0 * PETSC_i * k / h[d]; /* u outside is u inside + 2 h i k u */
          else {
            const PetscBool opposite = (PetscBool)(place[d] == (side < 0 ? last[d] : 0));

            columns[count] = row;
            if (d == 0) columns[count].i += side;
            else columns[count].j += side;
            coefficients[count++] = -diffusion * (opposite ? 2.0 : 1.0);
          }
        }
      }
      PetscCall(MatSetValuesStencil(A, 1, &row, count, columns, coefficients, INSERT_VALUES));
    }
  }
  PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  PetscFunctionReturn(0);
}

/*
   Sets the source, one over the area of a cell in the middle of the grid, and the wave in free space. The wave is compared in a
   ring: it is set to 0 near the source, where it is infinite, and near the boundary, which reflects a little
*/
static PetscErrorCode SourceAndWave(DM da, PetscReal k, Vec b, Vec wave)
{
  DMDALocalInfo info;
  PetscScalar **source, **values;

  PetscFunctionBeginUser;
  PetscCall(DMDAGetLocalInfo(da, &info));
  PetscCall(VecSet(b, 0.0));
  PetscCall(VecSet(wave, 0.0));
  PetscCall(DMDAVecGetArray(da, b, &source));
  PetscCall(DMDAVecGetArray(da, wave, &values));
  for (PetscInt j = info.ys; j < info.ys + info.ym; j++) {
    for (PetscInt i = info.xs; i < info.xs + info.xm; i++) {
      const double x = (double)(i - info.mx / 2) / (info.mx - 1), y = (double)(j - info.my / 2) / (info.my - 1),
                   r = sqrt(x * x + y * y);

      if (i == info.mx / 2 && j == info.my / 2) source[j][i] = (PetscReal)(info.mx - 1) * (info.my - 1);
      if (r > 0.1 && r < 0.4) values[j][i] = 0.25 * PETSC_i * PetscCMPLX(j0((double)k * r), y0((double)k * r));
    }
  }
  PetscCall(DMDAVecRestoreArray(da, wave, &values));
  PetscCall(DMDAVecRestoreArray(da, b, &source));
  PetscFunctionReturn(0);
}

/* Computes ||u - wave|| / ||wave|| where the wave is not 0 */
static PetscErrorCode Distance(Vec u, Vec wave, PetscReal *distance)
{
  PetscInt           n;
  PetscScalar       *difference;
  const PetscScalar *values;
  PetscReal          norm;
  Vec                d;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(u, &d));
  PetscCall(VecWAXPY(d, -1.0, wave, u));
  PetscCall(VecGetLocalSize(d, &n));
  PetscCall(VecGetArray(d, &difference));
  PetscCall(VecGetArrayRead(wave, &values));
  for (PetscInt i = 0; i < n; i++) {
    if (values[i] == 0.0) difference[i] = 0.0;
  }
  PetscCall(VecRestoreArrayRead(wave, &values));
  PetscCall(VecRestoreArray(d, &difference));
  PetscCall(VecNorm(d, NORM_2, distance));
  PetscCall(VecNorm(wave, NORM_2, &norm));
  *distance /= norm;
  PetscCall(VecDestroy(&d));
  PetscFunctionReturn(0);
}

static PetscErrorCode SolveHelmholtz(void)
{
  PetscReal          k = 20.0, beta = 0.5, rtol, rnorm, bnorm, distance;
  KSPConvergedReason reason;
  DM                 da;
  Mat                A, P;
  Vec                b, u, r, wave;
  KSP                ksp;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-wavenumber", &k, NULL));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-shift", &beta, NULL));
  PetscCall(DMDACreate2d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DMDA_STENCIL_STAR, 101, 101, PETSC_DECIDE,
                         PETSC_DECIDE, 1, 1, NULL, NULL, &da));
  PetscCall(DMSetFromOptions(da));
  PetscCall(DMSetUp(da));
  PetscCall(DMCreateMatrix(da, &A));
  PetscCall(DMCreateMatrix(da, &P));
  PetscCall(Operator(da, k, 0.0, A));
  PetscCall(Operator(da, k, beta, P));
  PetscCall(DMCreateGlobalVector(da, &b));
  PetscCall(VecDuplicate(b, &u));
  PetscCall(VecDuplicate(b, &r));
  PetscCall(VecDuplicate(b, &wave));
  PetscCall(SourceAndWave(da, k, b, wave));

  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOperators(ksp, A, P));
  PetscCall(KSPSetPCSide(ksp, PC_RIGHT));
  PetscCall(KSPSetTolerances(ksp, PETSC_SQRT_MACHINE_EPSILON, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(KSPSolve(ksp, b, u));

  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(KSPGetTolerances(ksp, &rtol, NULL, NULL, NULL));
  PetscCall(MatMult(A, u, r));
  PetscCall(VecAYPX(r, -1.0, b));
  PetscCall(VecNorm(r, NORM_2, &rnorm));
  PetscCall(VecNorm(b, NORM_2, &bnorm));
  if (reason > 0 && rnorm <= 1.1 * rtol * bnorm) PetscCall(PetscPrintf(PETSC_COMM_WORLD, "residual: as small as asked for\n"));
  else PetscCall(PetscPrintf(PETSC_COMM_WORLD, "residual: %g, %s\n", (double)(rnorm / bnorm), KSPConvergedReasons[reason]));
  PetscCall(Distance(u, wave, &distance));
  if (distance <= 0.1) PetscCall(PetscPrintf(PETSC_COMM_WORLD, "wave: that of free space but for less than a tenth\n"));
  else PetscCall(PetscPrintf(PETSC_COMM_WORLD, "wave: that of free space but for %g\n", (double)distance));

  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&wave));
  PetscCall(VecDestroy(&r));
  PetscCall(VecDestroy(&u));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&P));
  PetscCall(MatDestroy(&A));
  PetscCall(DMDestroy(&da));
  PetscFunctionReturn(0);
}

#else

static PetscErrorCode SolveHelmholtz(void)
{
  PetscFunctionBeginUser;
  PetscCall(
    PetscPrintf(PETSC_COMM_WORLD,
                "This PETSc has real scalars, and waves with absorbing boundaries are complex: use one with complex scalars\n"));
  PetscFunctionReturn(0);
}

#endif

int main(int argc, char **argv)
{
  PetscBool usable;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(DeviceCheck(PETSC_COMM_WORLD, &usable));
  if (usable) PetscCall(SolveHelmholtz());
  PetscCall(PetscFinalize());
  return usable ? 0 : 1; /* the reason has been printed */
}

/*TEST

  testset:
    requires: complex
    nsize: {{1 2}}
    args: -ksp_type idrs
    output_file: output/ex3_1.out

    test:
      suffix: 1
      args: -pc_type bjacobi -ksp_idrs_s {{4 8}} -shift {{0.2 0.5}}

    test:
      suffix: none
      args: -pc_type none -ksp_idrs_s 8

  test:
    suffix: real
    requires: !complex
    args: -ksp_type idrs -options_left no

TEST*/
