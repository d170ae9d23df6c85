static char help[] = "Times the first solve of a process, the second one with new values, and the first one of a new KSP.\n\
  -n 24    points in each direction of 3-D convection-diffusion\n\n";

#include <petscksp.h>
#include <petsctime.h>
#include "matrices.h"
#include "device.h"

/* Times KSPSetUp() and KSPSolve(), in ms */
static PetscErrorCode TimeSolve(const char what[], KSP ksp, Vec b, Vec x)
{
  PetscLogDouble begin, middle, end;
  PetscInt       its;

  PetscFunctionBeginUser;
  PetscCall(DeviceWait(b));
  PetscCall(PetscTime(&begin));
  PetscCall(KSPSetUp(ksp));
  PetscCall(KSPSetUpOnBlocks(ksp));
  PetscCall(DeviceWait(b));
  PetscCall(PetscTime(&middle));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(DeviceWait(b));
  PetscCall(PetscTime(&end));
  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%-24s set-up %8.2f ms, solve %8.2f ms, %" PetscInt_FMT " iterations\n", what,
                        1e3 * (middle - begin), 1e3 * (end - middle), its));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  PetscInt n = 24;
  Mat      A;
  Vec      b, x;
  KSP      ksp;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-n", &n, NULL));
  PetscCall(ConvectionDiffusion(PETSC_COMM_WORLD, n, n, 0.3, &A));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecSet(x, 1.0));
  PetscCall(MatMult(A, x, b)); /* PETSc's own first use: the matrix is on the GPU, and cuSPARSE is there */
  for (PetscInt new = 0; new < 2; new ++) {
    PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
    PetscCall(KSPSetOperators(ksp, A, A));
    PetscCall(KSPSetFromOptions(ksp));
    PetscCall(TimeSolve(new ? "new KSP" : "first", ksp, b, x));
    PetscCall(MatScale(A, 2.0)); /* new values */
    if (!new) PetscCall(TimeSolve("second, new values", ksp, b, x));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&x));
  PetscCall(MatDestroy(&A));
  PetscCall(PetscFinalize());
  return 0;
}
