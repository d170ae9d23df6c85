static char
  help[] = "Times solves of -ksp_type offload, whose matrix is in the memory of the host: beyond the solves of its inner solver,\n\
with an unchanged matrix and with new values, on 3-D convection-diffusion.\n\
  -n 24           points of the cube in each direction\n\
  -repeat 9       runs, of which the median is taken\n\
  -host           also the same solver on the host, with the preconditioner of the options without the prefix\n\n";

#include <petsc/private/petscimpl.h>
#include <petscksp.h>
#include <petsctime.h>
#include "device.h"
#include "matrices.h"

/* Median of the milliseconds of a solve after one that does not count. Before each the values of A are scaled by `factor` */
static PetscErrorCode Time(KSP ksp, Vec b, Vec x, Mat A, PetscReal factor, PetscInt repeat, const char what[], PetscReal *median)
{
  PetscInt           its;
  PetscReal         *times, spread;
  KSPConvergedReason reason;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(repeat, &times));
  for (PetscInt i = -1; i < repeat; i++) {
    PetscLogDouble begin, end;

    if (factor != 1.0) PetscCall(MatScale(A, i % 2 ? factor : 1.0 / factor));
    PetscCall(DeviceWait(b));
    PetscCallMPI(MPI_Barrier(PETSC_COMM_WORLD));
    PetscCall(PetscTime(&begin));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(DeviceWait(x));
    PetscCall(PetscTime(&end));
    if (i >= 0) times[i] = 1e3 * (end - begin);
  }
  PetscCall(PetscSortReal(repeat, times));
  *median = times[repeat / 2];
  spread  = times[repeat - 1] - times[0];
  PetscCall(PetscFree(times));
  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD,
                        "%-34s %10.4f ms  (%.4f between the shortest and the longest), %" PetscInt_FMT " iterations, %s\n", what,
                        (double)*median, (double)spread, its, KSPConvergedReasons[reason]));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  PetscInt  n = 24, repeat = 9;
  PetscReal inner, same, values, host;
  PetscBool onhost = PETSC_FALSE;
  KSP       ksp, solver;
  Mat       A, copy;
  Vec       b, x, c, y;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-n", &n, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-repeat", &repeat, NULL));
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-host", &onhost, NULL));
  PetscCheck(n > 1 && repeat > 0, PETSC_COMM_WORLD, PETSC_ERR_ARG_OUTOFRANGE,
             "-n %" PetscInt_FMT " -repeat %" PetscInt_FMT ": too small", n, repeat);
  PetscCall(ConvectionDiffusion(PETSC_COMM_WORLD, n, n, 0.3, &A));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecSet(b, 1.0));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPSetTolerances(ksp, 1e-8, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
  PetscCall(KSPSetType(ksp, "offload"));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(KSPSolve(ksp, b, x));
  PetscUseMethod(ksp, "KSPOffloadGetKSP_C", (KSP, KSP *), (ksp, &solver));
  PetscCall(KSPGetOperators(solver, &copy, NULL));
  PetscCall(MatCreateVecs(copy, &y, &c));
  PetscCall(VecSet(c, 1.0));
  PetscCall(
    PetscPrintf(PETSC_COMM_WORLD, "%" PetscInt_FMT " rows; copies of type %s\n", n * n * n, ((PetscObject)copy)->type_name));
  PetscCall(Time(solver, c, y, A, 1.0, repeat, "inner solver", &inner));
  PetscCall(Time(ksp, b, x, A, 1.0, repeat, "offload, unchanged matrix", &same));
  PetscCall(Time(ksp, b, x, A, 2.0, repeat, "offload, new values", &values));
  PetscCall(Time(solver, c, y, copy, 2.0, repeat, "inner solver, new values on it", &host));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD,
                        "beyond the inner solver: %.4f ms; with new values %.4f ms, of which set-up and solve take %.4f\n",
                        (double)(same - inner), (double)(values - inner), (double)(host - inner)));
  if (onhost) {
    PetscCall(KSPSetType(ksp, "idrs"));
    PetscCall(Time(ksp, b, x, A, 1.0, repeat, "idrs on the host", &host));
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "idrs on the host over offload: %.2f\n", (double)(host / same)));
  }
  PetscCall(VecDestroy(&c));
  PetscCall(VecDestroy(&y));
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&x));
  PetscCall(MatDestroy(&A));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(PetscFinalize());
  return 0;
}
