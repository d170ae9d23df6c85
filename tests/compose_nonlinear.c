static char help[] = "KSPIDRS as the linear solver of SNES: Jacobians assembled, applied by differences, or both; line search and "
                     "trust region.\n\n";

#include "systems.h"
#include <petscsnes.h>

/* Convection that depends on the solution, diffusion and a reaction, on a grid in the unit square; zero at the edges */
static PetscErrorCode FormFunction(DMDALocalInfo *info, PetscScalar **u, PetscScalar **f, void *ctx)
{
  const PetscReal h = 1.0 / (info->mx - 1);

  PetscFunctionBeginUser;
  for (PetscInt j = info->ys; j < info->ys + info->ym; j++) {
    for (PetscInt i = info->xs; i < info->xs + info->xm; i++) {
      if (!i || !j || i == info->mx - 1 || j == info->my - 1) f[j][i] = u[j][i];
      else {
        const PetscScalar laplacian = 4.0 * u[j][i] - u[j][i - 1] - u[j][i + 1] - u[j - 1][i] - u[j + 1][i];
        const PetscScalar ux = 0.5 * (u[j][i + 1] - u[j][i - 1]), uy = 0.5 * (u[j + 1][i] - u[j - 1][i]);

        f[j][i] = laplacian + h * (20.0 * (1.0 + u[j][i]) * ux + 10.0 * uy) + h * h * (u[j][i] * u[j][i] * u[j][i] - 30.0);
      }
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A way to compute the Jacobian and to solve */
typedef struct {
  const char *name, *options;
  PetscBool   may; /* may fail: newtontr tests the iterate, which minimises nothing in IDR(s) */
} Way;

static PetscErrorCode SolveAndCheck(const Way *way, PetscInt s)
{
  SNESConvergedReason reason;
  PetscInt            linear;
  PetscReal           norm, first;
  PetscOptions        options;
  DM                  da;
  SNES                snes;
  PetscBool           differences;
  KSP                 ksp;
  Mat                 A;
  Vec                 x, f;

  PetscFunctionBeginUser;
  PetscCall(DMDACreate2d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DMDA_STENCIL_STAR, 17, 17, PETSC_DECIDE,
                         PETSC_DECIDE, 1, 1, NULL, NULL, &da));
  PetscCall(DMSetFromOptions(da));
  PetscCall(DMSetUp(da));
  PetscCall(
    DMDASNESSetFunctionLocal(da, INSERT_VALUES, (PetscErrorCode(*)(DMDALocalInfo *, void *, void *, void *))FormFunction, NULL));
  PetscCall(OptionsPush(way->options, &options));
  PetscCall(SNESCreate(PETSC_COMM_WORLD, &snes));
  PetscCall(SNESSetDM(snes, da));
  PetscCall(SNESSetTolerances(snes, 0.0, rtol, 0.0, 50, 10000));
  PetscCall(SNESGetKSP(snes, &ksp));
  PetscCall(KSPSetType(ksp, KSPIDRS));
  PetscCall(KSPIDRSSetShadowSize(ksp, s));
  PetscCall(KSPIDRSSetImplementation_Private(ksp, implementation));
  PetscCall(SNESSetFromOptions(snes));
  PetscCall(DMCreateGlobalVector(da, &x));
  PetscCall(VecDuplicate(x, &f));
  PetscCall(VecSet(x, 0.0));
  PetscCall(SNESComputeFunction(snes, x, f));
  PetscCall(VecNorm(f, NORM_2, &first));
  PetscCall(SNESSolve(snes, NULL, x));
  PetscCall(SNESComputeFunction(snes, x, f));
  PetscCall(VecNorm(f, NORM_2, &norm));
  PetscCall(SNESGetConvergedReason(snes, &reason));
  PetscCall(SNESGetLinearSolveIterations(snes, &linear));
  PetscCall(ComplainIf(!way->may && !(reason > 0), "%s, s = %" INT ": %s", way->name, s, SNESConvergedReasons[reason]));
  PetscCall(ComplainIf(reason > 0 && !(norm <= 1.01 * rtol * first), "%s, s = %" INT ": %s with a norm of %g of %g", way->name, s,
                       SNESConvergedReasons[reason], (double)norm, (double)first));
  PetscCall(
    ComplainIf(!(norm <= first), "%s, s = %" INT ": the norm has become %g, it was %g", way->name, s, (double)norm, (double)first));
  PetscCall(ComplainIf(linear > 800, "%s, s = %" INT ": %" INT " linear iterations", way->name, s, linear));
  /* the view reports inexact products for a Jacobian by differences */
  PetscCall(KSPGetOperators(ksp, &A, NULL));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMFFD, &differences));
  PetscCall(CheckView(ksp, "inexact", differences ? 1 : 0));
  PetscCall(SNESDestroy(&snes));
  PetscCall(OptionsPop(&options));
  PetscCall(DestroyAll(&x, &f, &da));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  const Way ways[] = {
    {"assembled", "-pc_type bjacobi", PETSC_FALSE},
    {"assembled, no preconditioner", "-pc_type none", PETSC_FALSE},
    {"tolerances of Eisenstat-Walker", "-pc_type jacobi -snes_ksp_ew", PETSC_FALSE},
    {"lagged", "-pc_type bjacobi -snes_lag_jacobian 2 -snes_lag_preconditioner 2", PETSC_FALSE},
    {"matrix free", "-snes_mf -pc_type none", PETSC_FALSE},
    {"matrix free, left", "-snes_mf_operator -pc_type bjacobi -ksp_pc_side left", PETSC_FALSE},
    {"matrix free and assembled", "-snes_mf_operator -pc_type bjacobi", PETSC_FALSE},
    {"trust region, direct preconditioner", "-snes_type newtontr -pc_type redundant", PETSC_FALSE},
    {"trust region", "-snes_type newtontr -pc_type bjacobi", PETSC_TRUE},
    {"trust region, no preconditioner", "-snes_type newtontr -pc_type none", PETSC_TRUE},
    {"trust region, smoothing", "-snes_type newtontr -pc_type bjacobi -ksp_idrs_smoothing",
     PETSC_VERSION_LT(3, 26, 0) ? PETSC_TRUE : PETSC_FALSE},
    {"trust region, smoothing, no preconditioner", "-snes_type newtontr -pc_type none -ksp_idrs_smoothing",
     PETSC_VERSION_LT(3, 26, 0) ? PETSC_TRUE : PETSC_FALSE},
  };

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(ImplementationFromOptions());
  for (size_t iw = 0; iw < PETSC_STATIC_ARRAY_LENGTH(ways); iw++) {
    for (size_t is = 0; is < SIZES; is++) PetscCall(SolveAndCheck(&ways[iw], sizes[is]));
    PetscCall(Verdict(ways[iw].name));
  }
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
