static char help[] = "Burgers' equations in 2-D: nonlinear and time-dependent, with preconditioners that lag behind the matrix or\n\
change in each iteration.\n\
  -reynolds r   (default 100)\n\n";

/*
   Solves

       u_t + u u_x + v u_y = (u_xx + u_yy) / r,   v_t + u v_x + v v_y = (v_xx + v_yy) / r   in the unit square

   with central differences, backward differentiation in time, and Newton's method in each step. The exact solution is a front that
   moves along the diagonal (C.A.J. Fletcher, Int. J. Numer. Meth. Fluids 3 (1983) 213-216). It determines boundary and initial
   values, and the program compares with it at the end.

   The matrix changes in every Newton iteration, but the preconditioner can be kept longer. Options that matter:
     -ksp_type idrs -ksp_idrs_s 2               each system needs only a few iterations, so a small s suffices
     -snes_lag_preconditioner 4 -snes_lag_preconditioner_persists
                                                set the preconditioner up for every fourth matrix only, across time steps
     -snes_lag_jacobian 2                       keep the matrix as well
     -pc_type ksp -ksp_ksp_type bcgs -ksp_ksp_max_it 3 -ksp_pc_type jacobi
                                                some iterations of another method as preconditioner, which then varies: idrs and
                                                fgmres allow this, gmres and bcgs do not
     -snes_ksp_ew                               solve the linear systems only as accurately as Newton's method needs
     -ts_monitor -snes_monitor -ksp_converged_reason   show progress
     -ts_adapt_type none -ts_dt 0.01            constant time step
     -dm_vec_type cuda -dm_mat_type aijcusparse linear algebra on a GPU; the differences are computed on the host
*/
#include <petscts.h>
#include <petscdm.h>
#include <petscdmda.h>
#include "device.h"

typedef struct {
  PetscScalar u, v;
} Velocity;

static Velocity Exact(PetscReal reynolds, PetscReal x, PetscReal y, PetscReal t)
{
  const PetscReal front = 0.25 / (1.0 + PetscExpReal((4.0 * y - 4.0 * x - t) * reynolds / 32.0));
  Velocity        w;

  w.u = 0.75 - front;
  w.v = 0.75 + front;
  return w;
}

/* F(t, w, w_t) = 0: the equations inside, the boundary values at the boundary */
static PetscErrorCode IFunctionLocal(DMDALocalInfo *info, PetscReal t, void *state, void *rate, void *residual, void *ctx)
{
  const PetscReal reynolds = *(const PetscReal *)ctx, hx = 1.0 / (info->mx - 1), hy = 1.0 / (info->my - 1);
  Velocity      **w = (Velocity **)state, **wt = (Velocity **)rate, **f = (Velocity **)residual;

  PetscFunctionBeginUser;
  for (PetscInt j = info->ys; j < info->ys + info->ym; j++) {
    for (PetscInt i = info->xs; i < info->xs + info->xm; i++) {
      const Velocity here = w[j][i];

      if (i == 0 || j == 0 || i == info->mx - 1 || j == info->my - 1) {
        const Velocity given = Exact(reynolds, i * hx, j * hy, t);

        f[j][i].u = here.u - given.u;
        f[j][i].v = here.v - given.v;
      } else {
        const Velocity west = w[j][i - 1], east = w[j][i + 1], south = w[j - 1][i], north = w[j + 1][i];

        f[j][i].u = wt[j][i].u + here.u * (east.u - west.u) / (2 * hx) + here.v * (north.u - south.u) / (2 * hy) -
                    ((east.u - 2.0 * here.u + west.u) / (hx * hx) + (north.u - 2.0 * here.u + south.u) / (hy * hy)) / reynolds;
        f[j][i].v = wt[j][i].v + here.u * (east.v - west.v) / (2 * hx) + here.v * (north.v - south.v) / (2 * hy) -
                    ((east.v - 2.0 * here.v + west.v) / (hx * hx) + (north.v - 2.0 * here.v + south.v) / (hy * hy)) / reynolds;
      }
    }
  }
  PetscFunctionReturn(0);
}

static PetscErrorCode ExactSolution(DM da, PetscReal reynolds, PetscReal t, Vec solution)
{
  DMDALocalInfo info;
  Velocity    **w;

  PetscFunctionBeginUser;
  PetscCall(DMDAGetLocalInfo(da, &info));
  PetscCall(DMDAVecGetArray(da, solution, &w));
  for (PetscInt j = info.ys; j < info.ys + info.ym; j++) {
    for (PetscInt i = info.xs; i < info.xs + info.xm; i++)
      w[j][i] = Exact(reynolds, (PetscReal)i / (info.mx - 1), (PetscReal)j / (info.my - 1), t);
  }
  PetscCall(DMDAVecRestoreArray(da, solution, &w));
  PetscFunctionReturn(0);
}

/* Prints the numbers of steps and iterations, and the distance from the exact solution at the end */
static PetscErrorCode Report(TS ts, DM da, PetscReal reynolds, Vec w)
{
  PetscInt          steps, newton, linear;
  PetscReal         end, error;
  TSConvergedReason reason;
  Vec               exact;

  PetscFunctionBeginUser;
  PetscCall(TSGetConvergedReason(ts, &reason));
  PetscCall(TSGetStepNumber(ts, &steps));
  PetscCall(TSGetSNESIterations(ts, &newton));
  PetscCall(TSGetKSPIterations(ts, &linear));
  PetscCall(TSGetSolveTime(ts, &end));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD,
                        "%" PetscInt_FMT " steps, %" PetscInt_FMT " Newton iterations, %" PetscInt_FMT " linear ones\n", steps,
                        newton, linear));
  PetscCall(VecDuplicate(w, &exact));
  PetscCall(ExactSolution(da, reynolds, end, exact));
  PetscCall(VecAXPY(exact, -1.0, w));
  PetscCall(VecNorm(exact, NORM_INFINITY, &error));
  if (reason > 0 && error <= 0.005) PetscCall(PetscPrintf(PETSC_COMM_WORLD, "front: where it should be, to 0.005\n"));
  else
    PetscCall(
      PetscPrintf(PETSC_COMM_WORLD, "front: wrong by %g at time %g, %s\n", (double)error, (double)end, TSConvergedReasons[reason]));
  PetscCall(VecDestroy(&exact));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  PetscReal reynolds = 100.0;
  PetscBool usable;
  DM        da;
  TS        ts;
  Vec       w;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-reynolds", &reynolds, NULL));
  PetscCall(DeviceCheck(PETSC_COMM_WORLD, &usable));
  if (usable) {
    PetscCall(DMDACreate2d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DMDA_STENCIL_STAR, 33, 33, PETSC_DECIDE,
                           PETSC_DECIDE, 2, 1, NULL, NULL, &da));
    PetscCall(DMSetFromOptions(da));
    PetscCall(DMSetUp(da));
    PetscCall(TSCreate(PETSC_COMM_WORLD, &ts));
    PetscCall(TSSetDM(ts, da));
    PetscCall(TSSetType(ts, TSBDF));
    /* the matrix is computed from differences of this function, with a colouring of the grid */
    PetscCall(DMDATSSetIFunctionLocal(da, INSERT_VALUES, IFunctionLocal, &reynolds));
    PetscCall(TSSetTimeStep(ts, 0.025));
    PetscCall(TSSetMaxTime(ts, 0.5));
    PetscCall(TSSetExactFinalTime(ts, TS_EXACTFINALTIME_MATCHSTEP));
    PetscCall(TSSetFromOptions(ts));
    PetscCall(DMCreateGlobalVector(da, &w));
    PetscCall(ExactSolution(da, reynolds, 0.0, w));
    PetscCall(TSSolve(ts, w));
    PetscCall(Report(ts, da, reynolds, w));
    PetscCall(VecDestroy(&w));
    PetscCall(TSDestroy(&ts));
    PetscCall(DMDestroy(&da));
  }
  PetscCall(PetscFinalize());
  return usable ? 0 : 1; /* the reason has been printed */
}

/*TEST

  testset:
    requires: double
    nsize: {{1 2}}
    args: -ksp_type idrs
    filter: grep front
    output_file: output/ex4_1.out

    test:
      suffix: 1
      args: -pc_type bjacobi -ksp_idrs_s {{1 2 4}}

    test:
      suffix: lag
      args: -pc_type bjacobi -snes_lag_preconditioner 4 -snes_lag_preconditioner_persists -snes_ksp_ew

    test:
      suffix: ksp
      args: -pc_type ksp -ksp_ksp_type bcgs -ksp_ksp_max_it {{1 3}} -ksp_pc_type jacobi

TEST*/
