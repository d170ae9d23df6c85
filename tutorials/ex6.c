static char help[] = "Calls the functions of the plugin from a program that links it, and compares numbers of shadow vectors.\n\
  -n k         points in each direction (default 60)\n\
  -peclet p    (default 200)\n\n";

/*
   A program that calls the functions of idrs includes petscidrs.h and links the library. It does not need -dll_append. After
   make install PREFIX=/some/where compile it with

       export PKG_CONFIG_PATH=/some/where/lib/pkgconfig:$PETSC_DIR/$PETSC_ARCH/lib/pkgconfig
       mpicc ex6.c -o ex6 $(pkg-config --cflags --libs petscidrs) -lm

   At run time the loader finds libpetscidrs.so in LD_LIBRARY_PATH, or by -Wl,-rpath,/some/where/lib on that line.

   The system describes a substance in a circular current: convection and diffusion in a square, with central differences. For
   s = 1, 2, 4 and 8 shadow vectors the program prints the number of matvecs (multiplications of a vector by A), which falls with s,
   and the number of global reductions, one for each matvec. Options on the command line override the calls:
   -ksp_rtol 1e-10, -ksp_view, -ksp_idrs_seed 3, -pc_type none, and on a GPU -mat_type aijcusparse -vec_type cuda.
*/
#include <petscidrs.h>

static PetscErrorCode CircularCurrent(MPI_Comm comm, PetscInt n, PetscReal peclet, Mat *newmat)
{
  const PetscReal h = 1.0 / (n + 1);
  PetscInt        begin, end;
  Mat             A;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(comm, &A));
  PetscCall(MatSetSizes(A, PETSC_DECIDE, PETSC_DECIDE, n * n, n * n));
  PetscCall(MatSetFromOptions(A));
  PetscCall(MatSeqAIJSetPreallocation(A, 5, NULL));
  PetscCall(MatMPIAIJSetPreallocation(A, 5, NULL, 2, NULL));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  for (PetscInt row = begin; row < end; row++) {
    const PetscInt  i = row % n, j = row / n;
    const PetscReal x = (i + 1) * h - 0.5, y = (j + 1) * h - 0.5;
    const PetscReal cx = -peclet * y * h / 2.0, cy = peclet * x * h / 2.0; /* half of speed times h */

    PetscCall(MatSetValue(A, row, row, 4.0, INSERT_VALUES));
    if (i > 0) PetscCall(MatSetValue(A, row, row - 1, -1.0 - cx, INSERT_VALUES));
    if (i < n - 1) PetscCall(MatSetValue(A, row, row + 1, -1.0 + cx, INSERT_VALUES));
    if (j > 0) PetscCall(MatSetValue(A, row, row - n, -1.0 - cy, INSERT_VALUES));
    if (j < n - 1) PetscCall(MatSetValue(A, row, row + n, -1.0 + cy, INSERT_VALUES));
  }
  PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  *newmat = A;
  PetscFunctionReturn(0);
}

/*
   Solve - Solves with s shadow vectors and prints a line of the table. *good is set if the system is solved, with one reduction per
   matvec and at most two per residual that is computed afresh
*/
static PetscErrorCode Solve(KSP ksp, Mat A, Vec b, Vec x, PetscInt s, PetscInt *matvecs, PetscBool *good)
{
  PetscInt           reductions, updates, restarts;
  PetscReal          rtol, rnorm, bnorm;
  KSPConvergedReason reason;
  Vec                r;

  PetscFunctionBeginUser;
  PetscCall(KSPIDRSSetShadowSize(ksp, s));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(KSPIDRSGetCounts(ksp, matvecs, &reductions, &updates, &restarts));

  /* Any solver may err; idrs has computed this itself before it reported convergence */
  PetscCall(KSPGetTolerances(ksp, &rtol, NULL, NULL, NULL));
  PetscCall(VecDuplicate(b, &r));
  PetscCall(MatMult(A, x, r));
  PetscCall(VecAYPX(r, -1.0, b));
  PetscCall(VecNorm(r, NORM_2, &rnorm));
  PetscCall(VecNorm(b, NORM_2, &bnorm));
  PetscCall(VecDestroy(&r));
  *good = (PetscBool)(reason > 0 && rnorm <= 1.1 * rtol * bnorm && reductions <= *matvecs + 2 * (updates + restarts + 1));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD,
                        "%2" PetscInt_FMT " %9" PetscInt_FMT " %11" PetscInt_FMT " %8" PetscInt_FMT " %9" PetscInt_FMT "  %s\n", s,
                        *matvecs, reductions, updates, restarts, KSPConvergedReasons[reason]));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  PetscInt  n = 60, matvecs = 0, last = 0;
  PetscReal peclet = 200.0;
  PetscBool good = PETSC_FALSE, all = PETSC_TRUE;
  Mat       A;
  Vec       b, x;
  KSP       ksp;
  PC        pc;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(KSPIDRSRegister()); /* once, after PetscInitialize() */
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-n", &n, NULL));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-peclet", &peclet, NULL));
  PetscCall(CircularCurrent(PETSC_COMM_WORLD, n, peclet, &A));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecSet(b, 1.0));

  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPSetType(ksp, KSPIDRS));
  PetscCall(KSPSetTolerances(ksp, PETSC_SQRT_MACHINE_EPSILON, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCSetType(pc, PCJACOBI));
  PetscCall(KSPIDRSSetShadowSeed(ksp, 1));         /* another shadow space, the same on any number of processes */
  PetscCall(KSPIDRSSetUpdateTolerance(ksp, 1e-2)); /* the residual is recomputed whenever it has fallen by this */
  PetscCall(KSPSetFromOptions(ksp));

  PetscCall(PetscPrintf(PETSC_COMM_WORLD, " s   matvecs  reductions  updates  restarts\n"));
  for (PetscInt s = 1; s <= 8; s *= 2) {
    PetscCall(Solve(ksp, A, b, x, s, &matvecs, &good));
    if (!good || (s > 1 && matvecs >= last)) all = PETSC_FALSE;
    last = matvecs;
  }
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "Solved with one reduction per matvec, and fewer matvecs for each larger s: %s\n",
                        all ? "yes" : "no"));

  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    requires: double
    nsize: {{1 2}}
    filter: tail -n 1

TEST*/
