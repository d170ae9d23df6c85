static char help[] = "Times KSPMatSolve() of idrs with several right-hand sides: microseconds per matvec and right-hand side,\n\
beside KSPSolve() for one after another, with MatMult() and with the product that idrs takes by itself, beside KSPMatSolve() with\n\
block recurrences, and beside KSPMatSolve() of PETSc's idr.\n\
  -n n1,n2,..  3-D convection-diffusion, 7 points, on n x n x n grids (default 24,64)\n\
  -layers l    or n x n x l n grids, so that l processes have n x n x n each (default 1)\n\
  -s s1,s2,..  sizes of the shadow space (default 1,4,8)\n\
  -columns k   right-hand sides, which are solved for at the same time (default 8)\n\
  -matvecs m   matvecs for each in a timed run (default 90)\n\
  -rtol tol    solve until the norms have fallen by this factor instead, with verification, or -matvecs have been made ten times;\n\
               the time is divided by the iterations\n\
  -repeat r    timed runs; the median is shown (default 5)\n\
  -ways w1,w2,..  only these of together, mat, alone, block, idr, in the order of the columns of the table (default all)\n\
  -recirculation n  the time to a solution of 2-D recirculating convection on an n x n grid with ILU(0), with single and with\n\
               block recurrences\n\n";

#include <petscksp.h>
#include <petsctime.h>
#include "matrices.h"

#define MAX_LIST   16
#define MAX_REPEAT 64

/* What is timed: its name in -ways, the solver, what computes its products, and how it takes the right-hand sides */
static const struct {
  const char *name, *type, *product, *block;
  PetscBool   together;
} ways[] = {
  {"together", "idrs", "auto", "false", PETSC_TRUE },
  {"mat",      "idrs", "mat",  "false", PETSC_FALSE},
  {"alone",    "idrs", "auto", "false", PETSC_FALSE},
  {"block",    "idrs", "auto", "true",  PETSC_TRUE },
  {"idr",      "idr",  NULL,   "false", PETSC_TRUE }
};
#define WAYS PETSC_STATIC_ARRAY_LENGTH(ways)

/* Which of them are asked for, and are there */
static PetscErrorCode GetWays(PetscBool asked[])
{
  PetscErrorCode (*idr)(KSP);
  const char *names[WAYS];
  char       *given[WAYS], all[128] = "";
  PetscInt    count = WAYS, way;
  PetscBool   set, found;

  PetscFunctionBeginUser;
  for (size_t i = 0; i < WAYS; i++) {
    names[i] = ways[i].name;
    if (i) PetscCall(PetscStrlcat(all, ", ", sizeof(all)));
    PetscCall(PetscStrlcat(all, names[i], sizeof(all)));
  }
  PetscCall(PetscOptionsGetStringArray(NULL, NULL, "-ways", given, &count, &set));
  for (size_t i = 0; i < WAYS; i++) asked[i] = set ? PETSC_FALSE : PETSC_TRUE;
  for (PetscInt i = 0; set && i < count; i++) {
    PetscCall(PetscEListFind(WAYS, names, given[i], &way, &found));
    PetscCheck(found, PETSC_COMM_WORLD, PETSC_ERR_ARG_OUTOFRANGE, "-ways %s: none of %s", given[i], all);
    asked[way] = PETSC_TRUE;
    PetscCall(PetscFree(given[i]));
  }
  PetscCall(PetscFunctionListFind(KSPList, "idr", &idr));
  if (asked[WAYS - 1] && !idr) PetscCall(PetscPrintf(PETSC_COMM_WORLD, "No comparison with idr: KSPIDR needs PETSc 3.26\n"));
  if (!idr) asked[WAYS - 1] = PETSC_FALSE;
  PetscFunctionReturn(0);
}

/* One run, from x = 0 */
static PetscErrorCode Solve(KSP ksp, Mat B, Mat X, PetscBool together)
{
  PetscInt columns;

  PetscFunctionBeginUser;
  if (together) {
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscFunctionReturn(0);
  }
  PetscCall(MatGetSize(B, NULL, &columns));
  for (PetscInt j = 0; j < columns; j++) {
    Vec b, x;

    PetscCall(MatDenseGetColumnVecRead(B, j, &b));
    PetscCall(MatDenseGetColumnVecWrite(X, j, &x));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(MatDenseRestoreColumnVecWrite(X, j, &x));
    PetscCall(MatDenseRestoreColumnVecRead(B, j, &b));
  }
  PetscFunctionReturn(0);
}

/*
   Seconds per iteration, each of which is a matvec, and right-hand side: with a fixed number of iterations, and no test, where rtol
   = 0, though the norm is computed. What verification takes besides is in the time. Median of the runs
*/
static PetscErrorCode Time(Mat A, Mat B, Mat X, size_t way, PetscInt s, PetscReal rtol, PetscInt matvecs, PetscInt repeat,
                           PetscReal *seconds)
{
  KSP            ksp;
  PC             pc;
  char           value[16];
  PetscReal      all[MAX_REPEAT];
  PetscLogDouble start, end;
  PetscInt       before, its = 0, columns;

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(value, sizeof(value), "%" PetscInt_FMT, s));
  PetscCall(PetscOptionsSetValue(NULL, "-ksp_idrs_s", value));
  PetscCall(PetscOptionsSetValue(NULL, "-ksp_idr_s", value));
  PetscCall(PetscOptionsSetValue(NULL, "-ksp_idrs_block", ways[way].block));
  if (ways[way].product) PetscCall(PetscOptionsSetValue(NULL, "-ksp_idrs_product", ways[way].product));
  PetscCall(KSPCreate(PetscObjectComm((PetscObject)A), &ksp));
  PetscCall(KSPSetType(ksp, ways[way].type));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPSetPCSide(ksp, PC_RIGHT));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCSetType(pc, PCNONE));
  if (rtol > 0) PetscCall(KSPSetTolerances(ksp, rtol, PETSC_DEFAULT, 1e30, 10 * matvecs));
  else {
    PetscCall(KSPSetTolerances(ksp, PETSC_DEFAULT, PETSC_DEFAULT, 1e30, matvecs));
    PetscCall(KSPSetConvergenceTest(ksp, KSPConvergedSkip, NULL, NULL));
  }
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(MatGetSize(B, NULL, &columns));
  for (PetscInt i = -1; i < repeat; i++) { /* the first is a warm-up */
    PetscCall(PetscBarrier((PetscObject)A));
    PetscCall(KSPGetTotalIterations(ksp, &before));
    PetscCall(PetscTime(&start));
    PetscCall(Solve(ksp, B, X, ways[way].together));
    PetscCall(PetscBarrier((PetscObject)A));
    PetscCall(PetscTime(&end));
    all[PetscMax(i, 0)] = (PetscReal)(end - start);
    PetscCall(KSPGetTotalIterations(ksp, &its));
    its -= before;
  }
  PetscCheck(rtol > 0 || its == matvecs * columns, PetscObjectComm((PetscObject)A), PETSC_ERR_PLIB,
             "%s has made %" PetscInt_FMT " iterations for all, not %" PetscInt_FMT, ways[way].type, its, matvecs * columns);
  PetscCall(PetscSortReal(repeat, all));
  *seconds = all[repeat / 2] / (PetscReal)its;
  PetscCall(KSPDestroy(&ksp));
  PetscFunctionReturn(0);
}

static PetscErrorCode Block(Mat A, PetscInt columns, Mat *B)
{
  Vec       x;
  PetscInt  n;
  PetscBool gpu;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(A, &x, NULL));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)x, &gpu, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(VecGetLocalSize(x, &n));
  PetscCall(VecDestroy(&x));
  PetscCall(MatCreate(PetscObjectComm((PetscObject)A), B));
  PetscCall(MatSetSizes(*B, n, PETSC_DECIDE, PETSC_DETERMINE, columns));
  PetscCall(MatSetType(*B, gpu ? MATDENSECUDA : MATDENSE));
  PetscCall(MatSetUp(*B));
  PetscFunctionReturn(0);
}

/* Seconds of KSPMatSolve() to its tolerance, the fastest of the runs, and matvecs a right-hand side */
static PetscErrorCode TimeSolution(Mat A, Mat B, Mat X, PetscInt s, PetscBool block, PetscInt repeat, PetscReal *seconds,
                                   PetscReal *matvecs)
{
  PetscErrorCode (*counts)(KSP, PetscInt *, PetscInt *, PetscInt *, PetscInt *);
  PetscLogDouble     start, end;
  KSPConvergedReason reason;
  PetscInt           columns, all;
  KSP                ksp;
  PC                 pc;
  char               value[16];

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(value, sizeof(value), "%" PetscInt_FMT, s));
  PetscCall(PetscOptionsSetValue(NULL, "-ksp_idrs_s", value));
  PetscCall(PetscOptionsSetValue(NULL, "-ksp_idrs_block", block ? "true" : "false"));
  PetscCall(KSPCreate(PetscObjectComm((PetscObject)A), &ksp));
  PetscCall(KSPSetType(ksp, "idrs"));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCSetType(pc, PCILU));
  PetscCall(KSPSetTolerances(ksp, 1e-8, PETSC_DEFAULT, PETSC_DEFAULT, 10000));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(MatGetSize(B, NULL, &columns));
  *seconds = PETSC_MAX_REAL;
  for (PetscInt i = 0; i <= repeat; i++) {
    PetscCall(PetscBarrier((PetscObject)A));
    PetscCall(PetscTime(&start));
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscCall(PetscBarrier((PetscObject)A));
    PetscCall(PetscTime(&end));
    if (i) *seconds = PetscMin(*seconds, (PetscReal)(end - start));
  }
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCheck(reason > 0, PetscObjectComm((PetscObject)A), PETSC_ERR_NOT_CONVERGED, "%s", KSPConvergedReasons[reason]);
  PetscCall(PetscObjectQueryFunction((PetscObject)ksp, "KSPIDRSGetCounts_C", &counts));
  PetscCall((*counts)(ksp, &all, NULL, NULL, NULL));
  *matvecs = (PetscReal)all / (PetscReal)columns;
  PetscCall(KSPDestroy(&ksp));
  PetscFunctionReturn(0);
}

/* Time to a solution with block recurrences and without */
static PetscErrorCode CompareSolutions(PetscInt n, PetscInt columns, PetscInt nspaces, const PetscInt spaces[], PetscInt repeat)
{
  PetscRandom random;
  Mat         A, B, X;

  PetscFunctionBeginUser;
  PetscCall(Recirculation(PETSC_COMM_WORLD, n, &A));
  PetscCall(Block(A, columns, &B));
  PetscCall(Block(A, columns, &X));
  PetscCall(PetscRandomCreate(PETSC_COMM_WORLD, &random));
  PetscCall(PetscRandomSetInterval(random, -1.0, 1.0));
  PetscCall(MatSetRandom(B, random));
  PetscCall(PetscRandomDestroy(&random));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD,
                        "recirculating convection, %" PetscInt_FMT " x %" PetscInt_FMT ", ILU(0), %" PetscInt_FMT
                        " right-hand sides to 1e-8: ms, and matvecs a right-hand side\n",
                        n, n, columns));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%3s %10s %8s %10s %8s %8s\n", "s", "each", "matvecs", "block", "matvecs", "ratio"));
  for (PetscInt j = 0; j < nspaces; j++) {
    PetscReal seconds[2], matvecs[2];

    for (PetscInt block = 0; block < 2; block++)
      PetscCall(TimeSolution(A, B, X, spaces[j], (PetscBool)block, repeat, &seconds[block], &matvecs[block]));
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%3" PetscInt_FMT " %10.2f %8.1f %10.2f %8.1f %8.3f\n", spaces[j],
                          (double)(1e3 * seconds[0]), (double)matvecs[0], (double)(1e3 * seconds[1]), (double)matvecs[1],
                          (double)(seconds[1] / seconds[0])));
  }
  PetscCall(MatDestroy(&X));
  PetscCall(MatDestroy(&B));
  PetscCall(MatDestroy(&A));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  PetscInt sizes[MAX_LIST] = {24, 64}, spaces[MAX_LIST] = {1, 4, 8}, nsizes = MAX_LIST, nspaces = MAX_LIST, columns = 8, layers = 1,
           matvecs = 90, repeat = 5, recirculation = 0;
  PetscReal rtol = 0.0;
  PetscBool set, asked[WAYS];

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetIntArray(NULL, NULL, "-n", sizes, &nsizes, &set));
  if (!set) nsizes = 2;
  PetscCall(PetscOptionsGetIntArray(NULL, NULL, "-s", spaces, &nspaces, &set));
  if (!set) nspaces = 3;
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-columns", &columns, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-layers", &layers, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-matvecs", &matvecs, NULL));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-rtol", &rtol, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-repeat", &repeat, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-recirculation", &recirculation, NULL));
  PetscCheck(columns > 1 && layers > 0 && matvecs > 0 && repeat > 0 && repeat <= MAX_REPEAT, PETSC_COMM_WORLD,
             PETSC_ERR_ARG_OUTOFRANGE,
             "-columns %" PetscInt_FMT ", -layers %" PetscInt_FMT ", -matvecs %" PetscInt_FMT ", -repeat %" PetscInt_FMT
             ": at least 2 right-hand sides, a layer, a matvec, and 1 to %d runs",
             columns, layers, matvecs, repeat, MAX_REPEAT);
  PetscCall(KSPInitializePackage());
  if (recirculation) {
    PetscCall(CompareSolutions(recirculation, columns, nspaces, spaces, repeat));
    PetscCall(PetscFinalize());
    return 0;
  }
  PetscCall(GetWays(asked));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%" PetscInt_FMT " right-hand sides, us per matvec and right-hand side\n", columns));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%10s %3s %12s %12s %8s %12s %8s %12s %8s %12s %8s\n", "rows", "s", "KSPMatSolve",
                        "KSPSolve mat", "ratio", "KSPSolve", "ratio", "block", "ratio", "idr", "ratio"));
  for (PetscInt i = 0; i < nsizes; i++) {
    Mat         A, B, X;
    PetscInt    rows;
    PetscRandom random;

    PetscCall(ConvectionDiffusion(PETSC_COMM_WORLD, sizes[i], layers * sizes[i], 0.5, &A));
    PetscCall(MatGetSize(A, &rows, NULL));
    PetscCall(Block(A, columns, &B));
    PetscCall(Block(A, columns, &X));
    PetscCall(PetscRandomCreate(PETSC_COMM_WORLD, &random));
    PetscCall(MatSetRandom(B, random));
    PetscCall(PetscRandomDestroy(&random));
    for (PetscInt j = 0; j < nspaces; j++) {
      PetscReal seconds[WAYS];

      PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%10" PetscInt_FMT " %3" PetscInt_FMT, rows, spaces[j]));
      for (size_t way = 0; way < WAYS; way++) {
        if (asked[way]) {
          PetscCall(Time(A, B, X, way, spaces[j], rtol, matvecs, repeat, &seconds[way]));
          PetscCall(PetscPrintf(PETSC_COMM_WORLD, " %12.2f", (double)(1e6 * seconds[way])));
        } else PetscCall(PetscPrintf(PETSC_COMM_WORLD, " %12s", "-"));
        if (way && asked[0] && asked[way]) PetscCall(PetscPrintf(PETSC_COMM_WORLD, " %8.3f", (double)(seconds[0] / seconds[way])));
        else if (way) PetscCall(PetscPrintf(PETSC_COMM_WORLD, " %8s", "-"));
      }
      PetscCall(PetscPrintf(PETSC_COMM_WORLD, "\n"));
    }
    PetscCall(MatDestroy(&X));
    PetscCall(MatDestroy(&B));
    PetscCall(MatDestroy(&A));
  }
  PetscCall(PetscFinalize());
  return 0;
}
