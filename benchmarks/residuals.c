static char help[] = "How often a reported convergence is true: solves systems with real matrices, several preconditioners and\n\
several right-hand sides, and counts the runs that reported convergence, and among them those whose true residual is above the\n\
tolerance.\n\
  -matrices directory  directory of the Matrix Market files, name.mtx.gz\n\
  -names a,b,c         names of matrices (default: ten of tutorials/matrices); wedge4 is assembled from three files; reaction,\n\
                       helmholtz, convection\n\
                       and rows are generated\n\
  -solvers a,b:4,c     methods, each with an optional s (default\n\
                       idrs:1,idrs:2,idrs:4,idrs:8,idrs:16,idr:1,idr:4,idr:8,idr:16,bcgs,gmres)\n\
  -pcs a,b:8,c         preconditioners, poly with an optional degree (default none,jacobi,ilu; ilu is bjacobi on several\n\
                       processes); if the set-up fails for a matrix, a line says so\n\
  -seeds k             number of seeds of the shadow space and of poly; idrs runs once with each (default 1)\n\
  -columns a,b,c       KSPMatSolve() with so many right-hand sides, of idrs only, of seven kinds: random solutions, points,\n\
                       sines, nearly equal ones, equal ones,\n\
                       some of them zero, some of them with their solution as initial guess; each column counts as a run\n\
  -compare             print, for random right-hand sides instead, the median over the seeds of the matvecs a right-hand side,\n\
                       with a recurrence each and with -ksp_idrs_block\n\
  -wrong factor        a run is wrong if its true residual is above this factor times the tolerance (default 1.1)\n\
  -verbose             print a line for every run that did not converge or is wrong\n\
Tolerance and maximum number of iterations: -ksp_rtol, -ksp_max_it (default 1e-8, 5000).\n\n";

#include <petscksp.h>
#include <petsctime.h>
#include <petscidrs/private/idrscompat.h>
#include "../tutorials/matrixmarket.h"
#include "preconditioner.h"
#include "problems.h"
#include "progress.h"

#define MAX_NAMES 64

typedef struct {
  PetscInt  runs, converged, wrong, broken, matvecs;
  PetscReal seconds;
} Tally;

/* Right-hand sides: A (1,...,1)^T, a unit vector, sines */
static const char *const sides[] = {"ones", "point", "general"};

static PetscErrorCode RightHandSide(Mat A, PetscInt which, Vec b)
{
  PetscInt begin, end, N;

  PetscFunctionBeginUser;
  PetscCall(VecGetOwnershipRange(b, &begin, &end));
  PetscCall(VecGetSize(b, &N));
  if (which == 0) {
    Vec ones;

    PetscCall(VecDuplicate(b, &ones));
    PetscCall(VecSet(ones, 1.0));
    PetscCall(MatMult(A, ones, b));
    PetscCall(VecDestroy(&ones));
  } else {
    for (PetscInt i = begin; i < end; i++)
      PetscCall(VecSetValue(b, i, which == 1 ? (i == N / 2 ? 1.0 : 0.0) : PetscSinReal(1.0 + 1.7 * (PetscReal)i), INSERT_VALUES));
    PetscCall(VecAssemblyBegin(b));
    PetscCall(VecAssemblyEnd(b));
  }
  PetscFunctionReturn(0);
}

/* Run - Solves from x = 0 and counts the outcome */
static PetscErrorCode Run(KSP ksp, Mat A, Vec b, PetscReal factor, const char what[], PetscBool verbose, Tally *tally)
{
  KSPConvergedReason reason;
  PetscLogEvent      event;
  PetscEventPerfInfo before, after;
  PetscLogDouble     start, end;
  PetscReal          rtol, bnorm, rnorm;
  PetscInt           its;
  Vec                x, r;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(b, &r));
  PetscCall(PetscLogEventGetId("MatMult", &event));
  PetscCall(PetscLogEventGetPerfInfo(0, event, &before));
  PetscCall(PetscTime(&start));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(PetscTime(&end));
  PetscCall(PetscLogEventGetPerfInfo(0, event, &after));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(KSPGetTolerances(ksp, &rtol, NULL, NULL, NULL));
  PetscCall(MatMult(A, x, r));
  PetscCall(VecAYPX(r, -1.0, b));
  PetscCall(VecNorm(r, NORM_2, &rnorm));
  PetscCall(VecNorm(b, NORM_2, &bnorm));
  tally->runs++;
  tally->matvecs += after.count - before.count;
  tally->seconds += (PetscReal)(end - start);
  if (reason > 0) tally->converged++;
  if (reason > 0 && !(rnorm <= factor * rtol * bnorm)) tally->wrong++;
  if (reason < 0 && reason != KSP_DIVERGED_ITS) tally->broken++;
  if (verbose && !(reason > 0 && rnorm <= factor * rtol * bnorm)) {
    PetscCall(Progress(PETSC_COMM_WORLD, NULL));
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "  %s: %s after %" PetscInt_FMT ", |b-Ax|/|b| %.2e\n", what,
                          KSPConvergedReasons[reason], its, (double)(rnorm / bnorm)));
  }
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&r));
  PetscFunctionReturn(0);
}

/*
   Columns of a block: what Run() takes, nearly equal ones, equal ones, some of them zero, and random solutions, some of which are
   the initial guess
*/
static const char *const blocks[] = {"solutions", "points", "sines", "nearly equal", "equal", "some zero", "some exact"};
#define BLOCKS 7
#define EXACT  6

/* x is the initial guess */
static PetscErrorCode BlockColumn(Mat A, PetscInt which, PetscInt j, PetscInt columns, Vec b, Vec x)
{
  PetscInt begin, end, N;

  PetscFunctionBeginUser;
  PetscCall(VecGetOwnershipRange(b, &begin, &end));
  PetscCall(VecGetSize(b, &N));
  for (PetscInt i = begin; i < end; i++) {
    PetscReal value = PetscSinReal(
      1.0 + (1.7 + (which == 0 || which == 2 || which == 5 || which == EXACT ? 0.11 * (PetscReal)j : 0.0)) * (PetscReal)i);

    if (which == 1) value = i == (N / columns) * j ? 1.0 : 0.0;
    if (which == 3) value += 1e-3 * PetscCosReal((PetscReal)(j + 1) * (PetscReal)i);
    if (which == 5 && j % 3 == 1) value = 0.0;
    PetscCall(VecSetValue(b, i, value, INSERT_VALUES));
  }
  PetscCall(VecAssemblyBegin(b));
  PetscCall(VecAssemblyEnd(b));
  if (which == 0 || which == EXACT) {
    PetscCall(VecCopy(b, x));
    PetscCall(MatMult(A, x, b));
  }
  if (which != EXACT || j % 3 != 1) PetscCall(VecSet(x, 0.0));
  PetscFunctionReturn(0);
}

/* Right-hand sides on the host */
static PetscErrorCode MatCreateBlock(Mat A, PetscInt columns, Mat *B)
{
  PetscInt n;

  PetscFunctionBeginUser;
  PetscCall(MatGetLocalSize(A, &n, NULL));
  PetscCall(MatCreateDense(PetscObjectComm((PetscObject)A), n, PETSC_DECIDE, PETSC_DETERMINE, columns, NULL, B));
  PetscCall(MatAssemblyBegin(*B, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(*B, MAT_FINAL_ASSEMBLY));
  PetscFunctionReturn(0);
}

static PetscErrorCode ColumnWrite(Mat B, PetscInt j, Vec b)
{
  Vec column;

  PetscFunctionBeginUser;
  PetscCall(MatDenseGetColumnVecWrite(B, j, &column));
  PetscCall(VecCopy(b, column));
  PetscCall(MatDenseRestoreColumnVecWrite(B, j, &column));
  PetscFunctionReturn(0);
}

/* RunBlock - Solves for so many right-hand sides at once, and counts what becomes of each */
static PetscErrorCode RunBlock(KSP ksp, Mat A, PetscInt which, PetscInt columns, PetscReal factor, const char what[],
                               PetscBool verbose, Tally *tally)
{
  const KSPConvergedReason *reasons;
  const PetscInt           *its;
  PetscErrorCode (*results)(KSP, PetscInt *, const KSPConvergedReason *[], const PetscInt *[], const PetscReal *[]);
  PetscReal      rtol;
  PetscLogDouble start, end;
  Mat            B, X;
  Vec            b, x, r;

  PetscFunctionBeginUser;
  PetscCall(PetscObjectQueryFunction((PetscObject)ksp, "KSPIDRSGetColumnResults_C", &results));
  PetscCheck(results, PETSC_COMM_WORLD, PETSC_ERR_USER, "-columns is for idrs");
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecDuplicate(b, &r));
  PetscCall(MatCreateBlock(A, columns, &B));
  PetscCall(MatCreateBlock(A, columns, &X));
  for (PetscInt j = 0; j < columns; j++) {
    PetscCall(BlockColumn(A, which, j, columns, b, x));
    PetscCall(ColumnWrite(B, j, b));
    PetscCall(ColumnWrite(X, j, x));
  }
  PetscCall(KSPSetInitialGuessNonzero(ksp, (PetscBool)(which == EXACT)));
  PetscCall(PetscTime(&start));
  PetscCall(KSPMatSolve(ksp, B, X));
  PetscCall(PetscTime(&end));
  tally->seconds += (PetscReal)(end - start);
  PetscCall((*results)(ksp, NULL, &reasons, &its, NULL));
  PetscCall(KSPGetTolerances(ksp, &rtol, NULL, NULL, NULL));
  for (PetscInt j = 0; j < columns; j++) {
    PetscReal rnorm, bnorm;
    PetscBool wrong;
    Vec       column;

    PetscCall(BlockColumn(A, which, j, columns, b, x));
    PetscCall(MatDenseGetColumnVecRead(X, j, &column));
    PetscCall(VecCopy(column, x));
    PetscCall(MatDenseRestoreColumnVecRead(X, j, &column));
    PetscCall(MatMult(A, x, r));
    PetscCall(VecAYPX(r, -1.0, b));
    PetscCall(VecNorm(r, NORM_2, &rnorm));
    PetscCall(VecNorm(b, NORM_2, &bnorm));
    wrong = (PetscBool)(reasons[j] > 0 && !(rnorm <= factor * rtol * bnorm));
    tally->runs++;
    tally->matvecs += its[j];
    if (reasons[j] > 0) tally->converged++;
    if (wrong) tally->wrong++;
    if (reasons[j] < 0 && reasons[j] != KSP_DIVERGED_ITS) tally->broken++;
    if (verbose && (wrong || reasons[j] < 0)) {
      PetscCall(Progress(PETSC_COMM_WORLD, NULL));
      PetscCall(PetscPrintf(PETSC_COMM_WORLD,
                            "  %s, %s, column %" PetscInt_FMT " of %" PetscInt_FMT ": %s after %" PetscInt_FMT
                            ", |b-Ax|/|b| %.2e\n",
                            what, blocks[which], j, columns, KSPConvergedReasons[reasons[j]], its[j], (double)(rnorm / bnorm)));
    }
  }
  PetscCall(MatDestroy(&B));
  PetscCall(MatDestroy(&X));
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&r));
  PetscFunctionReturn(0);
}

/* Matvecs a column of KSPMatSolve() for random columns, and how many of them are wrong, or have not converged */
static PetscErrorCode CountMatvecs(KSP ksp, Mat A, PetscInt columns, PetscInt seed, PetscBool block, PetscReal factor,
                                   PetscInt *matvecs, PetscInt *bad)
{
  const KSPConvergedReason *reasons;
  PetscReal                 rtol, *rnorms, *bnorms;
  PetscErrorCode (*counts)(KSP, PetscInt *, PetscInt *, PetscInt *, PetscInt *);
  PetscErrorCode (*results)(KSP, PetscInt *, const KSPConvergedReason *[], const PetscInt *[], const PetscReal *[]);
  PetscRandom random;
  char        value[16];
  Mat         B, X, R;

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(value, sizeof(value), "%" PetscInt_FMT, seed));
  PetscCall(PetscOptionsSetValue(NULL, "-ksp_idrs_seed", value));
  PetscCall(PetscOptionsSetValue(NULL, "-ksp_idrs_block", block ? "true" : "false"));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(PetscRandomCreate(PetscObjectComm((PetscObject)A), &random));
  PetscCall(PetscRandomSetInterval(random, PetscDefined(USE_COMPLEX) ? PetscCMPLX(-1.0, -1.0) : -1.0,
                                   PetscDefined(USE_COMPLEX) ? PetscCMPLX(1.0, 1.0) : 1.0));
  PetscCall(PetscRandomSetSeed(random, (unsigned long)(seed + 1)));
  PetscCall(PetscRandomSeed(random));
  PetscCall(MatCreateBlock(A, columns, &B));
  PetscCall(MatSetRandom(B, random));
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
  PetscCall(KSPMatSolve(ksp, B, X));
  PetscCall(PetscObjectQueryFunction((PetscObject)ksp, "KSPIDRSGetCounts_C", &counts));
  PetscCall(PetscObjectQueryFunction((PetscObject)ksp, "KSPIDRSGetColumnResults_C", &results));
  PetscCheck(counts && results, PETSC_COMM_WORLD, PETSC_ERR_USER, "-compare is for idrs");
  PetscCall((*counts)(ksp, matvecs, NULL, NULL, NULL));
  *matvecs = (*matvecs + columns / 2) / columns;
  PetscCall((*results)(ksp, NULL, &reasons, NULL, NULL));
  PetscCall(KSPGetTolerances(ksp, &rtol, NULL, NULL, NULL));
  PetscCall(MatMatMult(A, X, MAT_INITIAL_MATRIX, PETSC_DEFAULT, &R));
  PetscCall(MatAYPX(R, -1.0, B, SAME_NONZERO_PATTERN));
  PetscCall(PetscMalloc2(columns, &rnorms, columns, &bnorms));
  PetscCall(MatGetColumnNorms(R, NORM_2, rnorms));
  PetscCall(MatGetColumnNorms(B, NORM_2, bnorms));
  for (PetscInt j = 0; j < columns; j++) *bad += reasons[j] > 0 && rnorms[j] <= factor * rtol * bnorms[j] ? 0 : 1;
  PetscCall(PetscFree2(rnorms, bnorms));
  PetscCall(MatDestroy(&R));
  PetscCall(MatDestroy(&X));
  PetscCall(MatDestroy(&B));
  PetscCall(PetscRandomDestroy(&random));
  PetscFunctionReturn(0);
}

/* CompareBlocks - Prints the median of matvecs a column with a recurrence each and with block recurrences */
static PetscErrorCode CompareBlocks(KSP ksp, Mat A, const char what[], PetscInt columns, PetscInt seeds, PetscReal factor)
{
  PetscInt *counts[2], bad = 0;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc2(seeds, &counts[0], seeds, &counts[1]));
  for (PetscInt seed = 0; seed < seeds; seed++) {
    for (PetscInt block = 0; block < 2; block++)
      PetscCall(CountMatvecs(ksp, A, columns, seed, (PetscBool)block, factor, &counts[block][seed], &bad));
  }
  for (PetscInt block = 0; block < 2; block++) PetscCall(PetscSortInt(seeds, counts[block]));
  PetscCall(Progress(PETSC_COMM_WORLD, NULL));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD,
                        "%-34s %7" PetscInt_FMT " %8" PetscInt_FMT " %8" PetscInt_FMT " %8.2f %6" PetscInt_FMT "\n", what, columns,
                        counts[0][seeds / 2], counts[1][seeds / 2], (double)counts[1][seeds / 2] / (double)counts[0][seeds / 2],
                        bad));
  PetscCall(PetscFree2(counts[0], counts[1]));
  PetscFunctionReturn(0);
}

/*
   CanSetUp - Tells whether the preconditioner can be set up, on all processes: an error of one of them in its blocks is none of the
   others
*/
static PetscErrorCode CanSetUp(KSP ksp, PetscBool *can)
{
  PetscErrorCode ierr;
  PC             pc;
  PCFailedReason failed = PC_NOERROR;
  PetscMPIInt    cannot;

  PetscFunctionBeginUser;
  PetscCall(PetscPushErrorHandler(PetscReturnErrorHandler, NULL));
  ierr = KSPSetUp(ksp);
  if (!ierr) ierr = KSPSetUpOnBlocks(ksp);
  PetscCall(PetscPopErrorHandler());
  PetscCall(KSPGetPC(ksp, &pc));
  if (!ierr) PetscCall(PCGetFailedReason(pc, &failed));
  cannot = ierr || failed ? 1 : 0;
  IDRSCallAllreduce(MPI_IN_PLACE, &cannot, 1, MPI_INT, MPI_MAX, PetscObjectComm((PetscObject)ksp));
  *can = cannot ? PETSC_FALSE : PETSC_TRUE;
  PetscFunctionReturn(0);
}

static PetscErrorCode RunAll(Mat A, const char name[], const char solver[], const char method[], PetscInt npcs, char *pcs[],
                             PetscInt seeds, PetscInt ncolumns, const PetscInt columns[], PetscBool compare, PetscReal factor,
                             PetscBool verbose, Tally *tally)
{
  Vec b;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(A, NULL, &b));
  for (PetscInt ipc = 0; ipc < npcs; ipc++) {
    PetscBool can = PETSC_FALSE, idrs;
    KSP       ksp;
    PC        pc;

    PetscCall(PetscStrcmp(method, "idrs", &idrs));
    PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
    PetscCall(KSPSetType(ksp, method));
    PetscCall(KSPSetOperators(ksp, A, A));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(SetPC(pc, pcs[ipc]));
    PetscCall(KSPSetPCSide(ksp, PC_RIGHT));
    PetscCall(KSPSetTolerances(ksp, 1e-8, 1e-300, 1e30, 5000));
    PetscCall(KSPSetFromOptions(ksp));
    PetscCall(CanSetUp(ksp, &can));
    if (!can) {
      PetscCall(Progress(PETSC_COMM_WORLD, NULL));
      PetscCall(PetscPrintf(PETSC_COMM_WORLD, "  %s, %s, %s: no preconditioner\n", solver, name, pcs[ipc]));
    }
    for (PetscInt i = 0; can && compare && i < ncolumns; i++) {
      char what[256];

      PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s, %s", solver, name, pcs[ipc]));
      PetscCall(CompareBlocks(ksp, A, what, columns[i], seeds, factor));
    }
    for (PetscInt i = 0; can && !compare && i < ncolumns * BLOCKS; i++) {
      char what[256];

      PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s, %s", solver, name, pcs[ipc]));
      PetscCall(RunBlock(ksp, A, i % BLOCKS, columns[i / BLOCKS], factor, what, verbose, tally));
    }
    for (PetscInt side = 0; can && !ncolumns && side < 3; side++) {
      PetscCall(RightHandSide(A, side, b));
      for (PetscInt seed = 0; seed < (idrs ? seeds : 1); seed++) {
        char what[256], value[16];

        if (idrs) {
          PetscCall(PetscSNPrintf(value, sizeof(value), "%" PetscInt_FMT, seed));
          PetscCall(PetscOptionsSetValue(NULL, "-ksp_idrs_seed", value));
          PetscCall(PetscOptionsSetValue(NULL, "-pc_poly_seed", value));
          PetscCall(KSPSetFromOptions(ksp));
        }
        PetscCall(
          PetscSNPrintf(what, sizeof(what), "%s, %s, %s, %s, seed %" PetscInt_FMT, solver, name, pcs[ipc], sides[side], seed));
        PetscCall(Run(ksp, A, b, factor, what, verbose, tally));
      }
    }
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(VecDestroy(&b));
  PetscFunctionReturn(0);
}

/* The names of an option, or of the default; to be freed one by one */
static PetscErrorCode GetNames(const char option[], const char defaults[], char *names[], PetscInt *count)
{
  PetscBool set;

  PetscFunctionBeginUser;
  *count = MAX_NAMES;
  PetscCall(PetscOptionsGetStringArray(NULL, NULL, option, names, count, &set));
  if (!set) {
    char **split;
    int    n;

    PetscCall(PetscStrToArray(defaults, ',', &n, &split));
    for (*count = 0; *count < n; (*count)++) PetscCall(PetscStrallocpy(split[*count], &names[*count]));
    PetscCall(PetscStrToArrayDestroy(n, split));
  }
  PetscFunctionReturn(0);
}

/* The file of a name; wedge4 is K + i omega C - omega^2 M at 4 Hz, without C where scalars are real */
static PetscErrorCode MatLoadNamed(const char directory[], const char name[], Mat *A)
{
  const PetscScalar omega = 8.0 * PETSC_PI;
  char              file[PETSC_MAX_PATH_LEN + 64];
  PetscBool         wedge;
  Mat               M;

  PetscFunctionBeginUser;
  PetscCall(PetscStrcmp(name, "wedge4", &wedge));
  PetscCall(PetscSNPrintf(file, sizeof(file), "%s/%s%s.mtx.gz", directory, name, wedge ? "_K" : ""));
  PetscCall(MatLoadMatrixMarket(PETSC_COMM_WORLD, file, A));
  if (!wedge) PetscFunctionReturn(0);
  PetscCall(PetscSNPrintf(file, sizeof(file), "%s/%s_M.mtx.gz", directory, name));
  PetscCall(MatLoadMatrixMarket(PETSC_COMM_WORLD, file, &M));
  PetscCall(MatAXPY(*A, -omega * omega, M, DIFFERENT_NONZERO_PATTERN));
  PetscCall(MatDestroy(&M));
#if PetscDefined(USE_COMPLEX)
  PetscCall(PetscSNPrintf(file, sizeof(file), "%s/%s_C.mtx.gz", directory, name));
  PetscCall(MatLoadMatrixMarket(PETSC_COMM_WORLD, file, &M));
  PetscCall(MatAXPY(*A, PETSC_i * omega, M, DIFFERENT_NONZERO_PATTERN));
  PetscCall(MatDestroy(&M));
#endif
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  char     *names[MAX_NAMES], *solvers[MAX_NAMES], *pcs[MAX_NAMES], directory[PETSC_MAX_PATH_LEN] = "tutorials/matrices";
  PetscInt  count, methods, npcs;
  PetscInt  seeds = 1, ncolumns = MAX_NAMES, columns[MAX_NAMES];
  PetscReal factor  = 1.1;
  PetscBool verbose = PETSC_FALSE, compare = PETSC_FALSE, blocked;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscLogDefaultBegin());
  PetscCall(PetscOptionsGetString(NULL, NULL, "-matrices", directory, sizeof(directory), NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-seeds", &seeds, NULL));
  PetscCall(PetscOptionsGetIntArray(NULL, NULL, "-columns", columns, &ncolumns, &blocked));
  if (!blocked) ncolumns = 0;
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-compare", &compare, NULL));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-wrong", &factor, NULL));
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-verbose", &verbose, NULL));
  PetscCall(
    GetNames("-names", "jpwh_991,add32,orsreg_1,sherman1,watt_1,steam2,Trefethen_2000,stommel4,memplus,e05r0500", names, &count));
  PetscCall(GetNames("-solvers", "idrs:1,idrs:2,idrs:4,idrs:8,idrs:16,idr:1,idr:4,idr:8,idr:16,bcgs,gmres", solvers, &methods));
  PetscCall(GetNames("-pcs", "none,jacobi,ilu", pcs, &npcs));
  if (compare)
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%-34s %7s %8s %8s %8s %6s\n", "matvecs a right-hand side", "columns", "each", "block",
                          "ratio", "bad"));
  else
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%-10s %6s %10s %6s %10s %6s %10s %9s\n", "solver", "runs", "converged", "wrong",
                          "broken", "max_it", "matvecs", "seconds"));
  for (PetscInt m = 0; m < methods; m++) {
    Tally  tally = {0};
    char **parts;
    int    n;
    PetscErrorCode (*create)(KSP);

    PetscCall(PetscStrToArray(solvers[m], ':', &n, &parts));
    PetscCheck(n > 0, PETSC_COMM_WORLD, PETSC_ERR_USER, "-solvers: an empty name");
    PetscCall(PetscFunctionListFind(KSPList, parts[0], &create));
    if (!create) PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%-10s not in this PETSc\n", solvers[m]));
    else {
      if (n > 1) {
        PetscCall(PetscOptionsSetValue(NULL, "-ksp_idrs_s", parts[1]));
        PetscCall(PetscOptionsSetValue(NULL, "-ksp_idr_s", parts[1]));
      }
      for (PetscInt i = 0; i < count; i++) {
        char text[512];
        Mat  A;

        PetscCall(PetscSNPrintf(text, sizeof(text), "%s: %s, matrix %" PetscInt_FMT " of %" PetscInt_FMT, solvers[m], names[i],
                                i + 1, count));
        PetscCall(Progress(PETSC_COMM_WORLD, text));
        PetscCall(MatCreateProblem(PETSC_COMM_WORLD, names[i], &A));
        if (!A) PetscCall(MatLoadNamed(directory, names[i], &A));
        PetscCall(RunAll(A, names[i], solvers[m], parts[0], npcs, pcs, seeds, ncolumns, columns, compare, factor, verbose, &tally));
        PetscCall(MatDestroy(&A));
      }
      PetscCall(Progress(PETSC_COMM_WORLD, NULL));
      if (!compare)
        PetscCall(PetscPrintf(PETSC_COMM_WORLD,
                              "%-10s %6" PetscInt_FMT " %10" PetscInt_FMT " %6" PetscInt_FMT " %10" PetscInt_FMT " %6" PetscInt_FMT
                              " %10" PetscInt_FMT " %9.1f\n",
                              solvers[m], tally.runs, tally.converged, tally.wrong, tally.broken,
                              tally.runs - tally.converged - tally.broken, tally.matvecs, (double)tally.seconds));
    }
    PetscCall(PetscStrToArrayDestroy(n, parts));
  }
  for (PetscInt i = 0; i < count; i++) PetscCall(PetscFree(names[i]));
  for (PetscInt i = 0; i < methods; i++) PetscCall(PetscFree(solvers[i]));
  for (PetscInt i = 0; i < npcs; i++) PetscCall(PetscFree(pcs[i]));
  PetscCall(PetscFinalize());
  return 0;
}
