static char help[] = "Solves real systems, NAME.mat[.gz] with NAME.rhs[.gz] in a directory of PETSc's binary files, by several\n\
methods and preconditioners from the right. For each system and preconditioner it prints the matvecs of each method, '-' if it\n\
does not converge, '!' behind a number if the true residual is above the tolerance. Then, for each preconditioner and method: how\n\
many systems are solved and wrong, and matvecs and milliseconds for those solved.\n\
  -directory dir       directory of the files\n\
  -names a,b,c         names of systems\n\
  -solvers a,b:4,c     methods, idrs and idr with an optional s (default idrs:1,idrs:4,idrs:8,idrs:16,bcgs,gmres)\n\
  -pcs a,b:8,c         preconditioners (default none,jacobi,ilu,poly:16): poly:8:matching has a degree and a scaling,\n\
                       matching:ilu the preconditioner\n\
                       of the permuted matrix; factors have a shift of type nonzero\n\
  -wrong factor        a run is wrong if it converges and its true residual is above this factor times the tolerance (default\n\
                       1.1)\n\
  -verbose             print a line for every run: reason, iterations, true residual, milliseconds of set-up and solve\n\
  -repeat n            solves of each run: the median of their times counts (default 1). The first one allocates\n\
Tolerance and maximum number of iterations: -ksp_rtol, -ksp_max_it (default 1e-8, 5000). On a GPU: -mat_type aijcusparse\n\
-vec_type cuda.\n\n";

#include <petscksp.h>
#include <petsctime.h>
#include "../tutorials/linearsystem.h"
#include "../tutorials/solvers.h"
#include "device.h"
#include "preconditioner.h"

/* Counts and times of a method with a preconditioner, over all systems */
typedef struct {
  PetscInt  runs, solved, wrong, matvecs;
  PetscReal setup, seconds;
} Tally;

/* The result of one run */
typedef struct {
  KSPConvergedReason reason;
  PetscInt           its, matvecs;
  PetscReal          residual, setup, seconds; /* residual: ||b - A x|| / ||b|| */
} Outcome;

/* A method, "idrs:4", and a preconditioner, "poly:16", with the options of the command line */
static PetscErrorCode Create(Mat A, const char solver[], const char pcname[], KSP *ksp)
{
  PC        pc;
  char    **parts;
  int       n;
  PetscBool factors;

  PetscFunctionBeginUser;
  PetscCall(KSPCreate(PetscObjectComm((PetscObject)A), ksp));
  PetscCall(KSPSetOperators(*ksp, A, A));
  PetscCall(PetscStrToArray(solver, ':', &n, &parts));
  PetscCall(KSPSetType(*ksp, parts[0]));
  if (n > 1) {
    PetscCall(PetscOptionsSetValue(NULL, "-ksp_idrs_s", parts[1]));
    PetscCall(PetscOptionsSetValue(NULL, "-ksp_idr_s", parts[1]));
  }
  PetscCall(PetscStrToArrayDestroy(n, parts));
  PetscCall(KSPGetPC(*ksp, &pc));
  PetscCall(SetPC(pc, pcname));
  PetscCall(PetscOptionsHasName(NULL, NULL, "-matching_pc_factor_shift_type", &factors));
  if (!factors) PetscCall(PetscOptionsSetValue(NULL, "-matching_pc_factor_shift_type", "nonzero"));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)pc, &factors, PCILU, PCLU, ""));
  if (factors) PetscCall(PCFactorSetShiftType(pc, MAT_SHIFT_NONZERO));
  PetscCall(KSPSetPCSide(*ksp, PC_RIGHT));
  PetscCall(KSPSetTolerances(*ksp, 1e-8, PETSC_DEFAULT, PETSC_DEFAULT, 5000));
  PetscCall(KSPSetFromOptions(*ksp));
  PetscFunctionReturn(0);
}

/* Set-up, and solves from x = 0, whose median counts */
static PetscErrorCode SetUpAndSolve(KSP ksp, Vec b, Vec x, Outcome *out)
{
  PetscLogDouble start = 0, middle = 0, end = 0;
  PetscInt       before, after, repeat      = 1;
  PetscReal     *seconds;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-repeat", &repeat, NULL));
  PetscCheck(repeat > 0, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE, "-repeat %" PetscInt_FMT ": must be positive", repeat);
  PetscCall(VecSet(x, 0.0));
  PetscCall(DeviceWait(x));
  PetscCall(PetscTime(&start));
  PetscCall(KSPSetUp(ksp));
  PetscCall(DeviceWait(x));
  PetscCall(PetscTime(&end));
  out->setup = (PetscReal)(end - start);
  PetscCall(PetscMalloc1(repeat, &seconds));
  for (PetscInt i = 0; i < repeat; i++) {
    PetscCall(PetscTime(&middle));
    PetscCall(MatvecsCount(&before));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(DeviceWait(x));
    PetscCall(PetscTime(&end));
    PetscCall(MatvecsCount(&after));
    seconds[i] = (PetscReal)(end - middle);
  }
  PetscCall(PetscSortReal(repeat, seconds));
  out->matvecs = after - before;
  out->seconds = seconds[repeat / 2];
  PetscCall(PetscFree(seconds));
  PetscCall(KSPGetConvergedReason(ksp, &out->reason));
  PetscCall(KSPGetIterationNumber(ksp, &out->its));
  PetscFunctionReturn(0);
}

/* One run; an error of the set-up, such as a zero pivot, is a run that does not converge */
static PetscErrorCode Run(Mat A, Vec b, const char solver[], const char pcname[], Outcome *out)
{
  PetscErrorCode ierr;
  PetscBool      failed;
  PetscReal      bnorm;
  Vec            x, r;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(PetscMemzero(out, sizeof(*out)));
  PetscCall(Create(A, solver, pcname, &ksp));
  PetscCall(MatCreateVecs(A, &x, &r));
  PetscCall(AttemptBegin());
  ierr = SetUpAndSolve(ksp, b, x, out);
  PetscCall(AttemptEnd(PetscObjectComm((PetscObject)A), ierr, &failed));
  if (failed) out->reason = KSP_DIVERGED_PC_FAILED;
  PetscCall(MatMult(A, x, r));
  PetscCall(VecAYPX(r, -1.0, b));
  PetscCall(VecNorm(r, NORM_2, &out->residual));
  PetscCall(VecNorm(b, NORM_2, &bnorm));
  out->residual /= bnorm;
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&r));
  PetscCall(KSPDestroy(&ksp));
  PetscFunctionReturn(0);
}

/* All methods with one preconditioner on one system: a line of the first table */
static PetscErrorCode RunAll(Mat A, Vec b, const char name[], const char pcname[], int count, char *solvers[], PetscReal factor,
                             PetscBool verbose, Tally tallies[])
{
  MPI_Comm  comm = PetscObjectComm((PetscObject)A);
  PetscReal rtol = 1e-8;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-ksp_rtol", &rtol, NULL));
  if (!verbose) PetscCall(PetscPrintf(comm, "%-18s %-16s", name, pcname));
  for (int i = 0; i < count; i++) {
    Outcome   out;
    PetscBool wrong;
    char      text[64] = "-";

    PetscCall(Run(A, b, solvers[i], pcname, &out));
    wrong = (PetscBool)(out.reason > 0 && !(out.residual <= factor * rtol));
    tallies[i].runs++;
    if (wrong) tallies[i].wrong++;
    else if (out.reason > 0) {
      tallies[i].solved++;
      tallies[i].matvecs += out.matvecs;
      tallies[i].setup += out.setup;
      tallies[i].seconds += out.seconds;
    }
    if (out.reason > 0) PetscCall(PetscSNPrintf(text, sizeof(text), "%" PetscInt_FMT "%s", out.matvecs, wrong ? "!" : ""));
    if (verbose)
      PetscCall(PetscPrintf(comm,
                            "%-18s %-16s %-10s %7s  %-24s its %6" PetscInt_FMT
                            "  |b-Ax|/|b| %9.2e  set-up %9.3f ms  solve %9.3f ms\n",
                            name, pcname, solvers[i], text, KSPConvergedReasons[out.reason], out.its, (double)out.residual,
                            (double)(1e3 * out.setup), (double)(1e3 * out.seconds)));
    else PetscCall(PetscPrintf(comm, " %9s", text));
  }
  if (!verbose) PetscCall(PetscPrintf(comm, "\n"));
  PetscFunctionReturn(0);
}

/* The file of a system with this ending, plain or compressed */
static PetscErrorCode FileOf(const char directory[], const char name[], const char ending[], char file[], size_t length,
                             PetscBool *there)
{
  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(file, length, "%s/%s.%s.gz", directory, name, ending));
  PetscCall(PetscTestFile(file, 'r', there));
  if (*there) PetscFunctionReturn(0);
  PetscCall(PetscSNPrintf(file, length, "%s/%s.%s", directory, name, ending));
  PetscCall(PetscTestFile(file, 'r', there));
  PetscFunctionReturn(0);
}

/*
   Reads a system; loaded is PETSC_FALSE, and the reason is printed, if that does not work, as for a complex one with real scalars
*/
static PetscErrorCode SystemLoad(const char directory[], const char name[], Mat *A, Vec *b, PetscBool *loaded)
{
  char file[PETSC_MAX_PATH_LEN], heading[2 * PETSC_MAX_PATH_LEN];

  PetscFunctionBeginUser;
  PetscCall(FileOf(directory, name, "mat", file, sizeof(file), loaded));
  PetscCheck(*loaded, PETSC_COMM_WORLD, PETSC_ERR_FILE_OPEN, "-names %s: there is no file %s", name, file);
  PetscCall(PetscOptionsSetValue(NULL, "-f", file));
  PetscCall(FileOf(directory, name, "rhs", file, sizeof(file), loaded));
  if (*loaded) PetscCall(PetscOptionsSetValue(NULL, "-b", file));
  else PetscCall(PetscOptionsClearValue(NULL, "-b"));
  PetscCall(LinearSystemLoad(PETSC_COMM_WORLD, A, b, heading, sizeof(heading), loaded));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  char    **names, **solvers, **pcs, text[4096] = "none,jacobi,ilu,poly:16", directory[PETSC_MAX_PATH_LEN];
  int       nnames, nsolvers, npcs;
  PetscBool set, usable, verbose = PETSC_FALSE;
  PetscReal factor = 1.1;
  Tally    *tallies;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscLogDefaultBegin());
  PetscCall(SolversFromOptions(PETSC_COMM_WORLD, "idrs:1,idrs:4,idrs:8,idrs:16,bcgs,gmres", &nsolvers, &solvers, &usable));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-directory", directory, sizeof(directory), &set));
  PetscCheck(set, PETSC_COMM_WORLD, PETSC_ERR_USER_INPUT, "give the directory of the systems with -directory");
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-wrong", &factor, NULL));
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-verbose", &verbose, NULL));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-pcs", text, sizeof(text), NULL));
  PetscCall(PetscStrToArray(text, ',', &npcs, &pcs));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-names", text, sizeof(text), &set));
  PetscCheck(set, PETSC_COMM_WORLD, PETSC_ERR_USER_INPUT, "give the names of systems with -names");
  PetscCall(PetscStrToArray(text, ',', &nnames, &names));
  PetscCall(PetscCalloc1(npcs * nsolvers, &tallies));
  if (usable && !verbose) {
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%-18s %-16s", "matvecs", ""));
    for (int i = 0; i < nsolvers; i++) PetscCall(PetscPrintf(PETSC_COMM_WORLD, " %9s", solvers[i]));
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "\n"));
  }
  for (int k = 0; usable && k < nnames; k++) {
    PetscBool loaded;
    Mat       A;
    Vec       b;

    PetscCall(SystemLoad(directory, names[k], &A, &b, &loaded));
    for (int j = 0; loaded && j < npcs; j++)
      PetscCall(RunAll(A, b, names[k], pcs[j], nsolvers, solvers, factor, verbose, tallies + j * nsolvers));
    if (!loaded) continue;
    PetscCall(MatDestroy(&A));
    PetscCall(VecDestroy(&b));
  }
  if (usable)
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "\n%-16s %-10s %6s %6s %6s %10s %12s %12s\n", "", "", "runs", "solved", "wrong",
                          "matvecs", "set-up ms", "solve ms"));
  for (int j = 0; usable && j < npcs; j++) {
    for (int i = 0; i < nsolvers; i++) {
      const Tally *tally = &tallies[j * nsolvers + i];

      PetscCall(PetscPrintf(PETSC_COMM_WORLD,
                            "%-16s %-10s %6" PetscInt_FMT " %6" PetscInt_FMT " %6" PetscInt_FMT " %10" PetscInt_FMT
                            " %12.2f %12.2f\n",
                            pcs[j], solvers[i], tally->runs, tally->solved, tally->wrong, tally->matvecs,
                            (double)(1e3 * tally->setup), (double)(1e3 * tally->seconds)));
    }
  }
  PetscCall(PetscFree(tallies));
  PetscCall(PetscStrToArrayDestroy(nnames, names));
  PetscCall(PetscStrToArrayDestroy(npcs, pcs));
  PetscCall(PetscStrToArrayDestroy(nsolvers, solvers));
  PetscCall(PetscFinalize());
  return 0;
}
