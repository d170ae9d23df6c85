static char help[] = "Times idrs, PETSc's idr, bcgs and gmres on one system: microseconds per matvec (one multiplication of a\n\
vector by A), and time to a true residual of 1e-8. Prints the copy speed of the machine and a table with ratios, and appends the\n\
table to a CSV file.\n\
  -n n         3-D convection-diffusion, 7 points, on an n x n x n grid (default 100)\n\
  -nz m        or n x n x m\n\
  -peclet p    its mesh Peclet number, wind (1,1,1) (default 0.5)\n\
  -irregular n instead about n rows of 3 to 60 entries, 22 in the mean, at random places within 8192 columns of the diagonal\n\
  -bs bs       whose rows and columns come in blocks of this size (default 1)\n\
  -f file      a matrix from a Matrix Market file instead\n\
  -b file      its right-hand side (default A (1,...,1)^T)\n\
  -matvecs k   matvecs in a timed run (default 90)\n\
  -repeat r    number of timed runs; the median is shown (default 5). A solve to the tolerance is timed the second time\n\
  -limit k     maximum number of iterations of the run to the tolerance (default 3000)\n\
  -s s1,s2,..  sizes of the shadow space (default 1,4,8)\n\
  -others m,.. other methods (default bcgs,gmres)\n\
  -pcs a,b:8   a table for each of these preconditioners, with the time of its set-up and of an application; poly with an\n\
               optional degree\n\
               (default: no such list; the options of PETSc choose the preconditioner)\n\
  -csv file    CSV file to append to\n\
  -label text  name of the problem in table and file\n\n";

#include <petscksp.h>
#include <petsctime.h>
#include "../tutorials/matrixmarket.h"
#include "../tutorials/righthandside.h"
#include "device.h"
#include "matrices.h"
#include "preconditioner.h"
#include "progress.h"

typedef struct {
  PetscInt    repeat, matvecs, limit;
  const char *label;
  const char *pc; /* name in -pcs, or NULL */
  FILE       *csv;
} Benchmark;

typedef struct {
  PetscReal          matvec; /* seconds per matvec */
  PetscReal          solve;  /* seconds to the tolerance */
  PetscReal          residual;
  PetscInt           its, matvecs;
  KSPConvergedReason reason;
} Timing;

/* TimedSolve - Solves from x = 0; gives the time and the number of matvecs */
static PetscErrorCode TimedSolve(KSP ksp, Vec b, Vec x, PetscReal *seconds, PetscInt *matvecs)
{
  PetscLogEvent      event;
  PetscEventPerfInfo before, after;
  PetscLogDouble     start, end;

  PetscFunctionBeginUser;
  PetscCall(PetscLogEventGetId("MatMult", &event));
  PetscCall(PetscLogEventGetPerfInfo(0, event, &before));
  PetscCall(PetscBarrier((PetscObject)ksp));
  PetscCall(PetscTime(&start));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(PetscBarrier((PetscObject)ksp));
  PetscCall(PetscTime(&end));
  PetscCall(PetscLogEventGetPerfInfo(0, event, &after));
  *seconds = (PetscReal)(end - start);
  *matvecs = after.count - before.count;
  PetscFunctionReturn(0);
}

/* MethodName - The name in the table, with s where the method has one */
static PetscErrorCode MethodName(const char type[], PetscInt s, char name[], size_t length)
{
  PetscFunctionBeginUser;
  if (s) PetscCall(PetscSNPrintf(name, length, "%s(%" PetscInt_FMT ")", type, s));
  else PetscCall(PetscStrncpy(name, type, length));
  PetscFunctionReturn(0);
}

/* CreateSolver - A solver that is preconditioned from the right, so that all methods test the norm of the true residual */
static PetscErrorCode CreateSolver(const Benchmark *bench, Mat A, const char type[], KSP *ksp)
{
  PC pc;

  PetscFunctionBeginUser;
  PetscCall(KSPCreate(PetscObjectComm((PetscObject)A), ksp));
  PetscCall(KSPSetType(*ksp, type));
  PetscCall(KSPSetOperators(*ksp, A, A));
  PetscCall(KSPSetPCSide(*ksp, PC_RIGHT));
  PetscCall(KSPGetPC(*ksp, &pc));
  if (bench->pc) PetscCall(SetPC(pc, bench->pc));
  PetscCall(KSPSetFromOptions(*ksp));
  PetscFunctionReturn(0);
}

static PetscErrorCode Measure(const Benchmark *bench, Mat A, Vec b, const char type[], PetscInt s, Timing *timing)
{
  KSP                      ksp;
  Vec                      x, r;
  PetscReal                seconds[64], bnorm;
  PetscInt                 matvecs;
  void                    *ctx;
  static const char *const sizes[] = {"-ksp_idrs_s", "-ksp_idr_s"};
  const MPI_Comm           comm    = PetscObjectComm((PetscObject)A);
  char                     name[32], text[128];

  PetscFunctionBeginUser;
  PetscCall(MethodName(type, s, name, sizeof(name)));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(b, &r));
  PetscCall(VecNorm(b, NORM_2, &bnorm));
  for (PetscInt i = 0; i < 2 && s; i++) {
    char value[16];

    PetscCall(PetscSNPrintf(value, sizeof(value), "%" PetscInt_FMT, s));
    PetscCall(PetscOptionsSetValue(NULL, sizes[i], value));
  }
  PetscCall(CreateSolver(bench, A, type, &ksp));
  PetscCall(KSPSetUp(ksp));

  /* A fixed number of iterations without a test; an iteration of bcgs has two matvecs, so divide by the matvecs counted */
  PetscCall(KSPSetTolerances(ksp, PETSC_DEFAULT, PETSC_DEFAULT, 1e30, bench->matvecs));
  PetscCall(KSPSetConvergenceTest(ksp, KSPConvergedSkip, NULL, NULL));
  for (PetscInt i = 0; i < bench->repeat + 1; i++) {
    PetscCall(PetscSNPrintf(text, sizeof(text), "%s: run %" PetscInt_FMT " of %" PetscInt_FMT, name, i + 1, bench->repeat + 1));
    PetscCall(Progress(comm, text));
    PetscCall(TimedSolve(ksp, b, x, &seconds[i ? i - 1 : 0], &matvecs)); /* the first is a warm-up */
    seconds[i ? i - 1 : 0] /= matvecs;
  }
  PetscCall(PetscSortReal(bench->repeat, seconds));
  timing->matvec = seconds[bench->repeat / 2];

  PetscCall(KSPSetTolerances(ksp, 1e-8, 1e-300, 1e30, bench->limit));
  PetscCall(KSPConvergedDefaultCreate(&ctx));
  PetscCall(KSPSetConvergenceTest(ksp, KSPConvergedDefault, ctx, KSPConvergedDefaultDestroy));
  PetscCall(PetscSNPrintf(text, sizeof(text), "%s: run to the tolerance", name));
  PetscCall(Progress(comm, text));
  /* the first solve loads kernels that a fixed number of iterations does not use */
  for (PetscInt i = 0; i < 2; i++) PetscCall(TimedSolve(ksp, b, x, &timing->solve, &timing->matvecs));
  PetscCall(Progress(comm, NULL));
  PetscCall(KSPGetIterationNumber(ksp, &timing->its));
  PetscCall(KSPGetConvergedReason(ksp, &timing->reason));
  PetscCall(MatMult(A, x, r));
  PetscCall(VecAYPX(r, -1.0, b));
  PetscCall(VecNorm(r, NORM_2, &timing->residual));
  timing->residual /= bnorm;

  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&r));
  PetscFunctionReturn(0);
}

/*
   MeasureCopy - Times VecCopy() of a vector of the type of b, 256 MB on each process, and prints the bytes read and written per
   second, which bound what passes over long vectors can reach. tools/plot roofline reads this line
*/
static PetscErrorCode MeasureCopy(const Benchmark *bench, Vec b)
{
  const MPI_Comm comm = PetscObjectComm((PetscObject)b);
  const PetscInt n = (PetscInt)(256e6 / sizeof(PetscScalar)), copies = 10;
  Vec            x, y;
  VecType        type;
  PetscReal      best = PETSC_MAX_REAL;

  PetscFunctionBeginUser;
  PetscCall(VecGetType(b, &type));
  PetscCall(VecCreate(comm, &x));
  PetscCall(VecSetSizes(x, n, PETSC_DETERMINE));
  PetscCall(VecSetType(x, type));
  PetscCall(VecDuplicate(x, &y));
  PetscCall(VecSet(x, 1.0));
  PetscCall(VecCopy(x, y)); /* a warm-up */
  PetscCall(DeviceWait(x));
  PetscCall(Progress(comm, "copy speed"));
  for (PetscInt i = 0; i < bench->repeat; i++) {
    PetscLogDouble start, end;
    PetscReal      seconds;

    PetscCall(PetscBarrier((PetscObject)x));
    PetscCall(PetscTime(&start));
    for (PetscInt k = 0; k < copies; k++) PetscCall(VecCopy(x, y));
    PetscCall(DeviceWait(x));
    PetscCall(PetscBarrier((PetscObject)x));
    PetscCall(PetscTime(&end));
    seconds = (PetscReal)(end - start) / copies;
    best    = PetscMin(best, seconds);
  }
  PetscCall(Progress(comm, NULL));
  PetscCall(PetscPrintf(comm, "copy speed of each process: %.1f GB/s read and written\n",
                        (double)(1e-9 * 2.0 * sizeof(PetscScalar) * n / best)));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&y));
  PetscFunctionReturn(0);
}

/* MeasureMatvec - Times MatMult() alone */
static PetscErrorCode MeasureMatvec(const Benchmark *bench, Mat A, Vec b, Timing *timing)
{
  Vec       x, y;
  PetscReal seconds[64], norm;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(b, &y));
  PetscCall(VecCopy(b, x));
  for (PetscInt i = 0; i < bench->repeat + 1; i++) {
    PetscLogDouble start, end;

    PetscCall(PetscBarrier((PetscObject)A));
    PetscCall(PetscTime(&start));
    for (PetscInt k = 0; k < bench->matvecs; k++) PetscCall(MatMult(A, x, y));
    PetscCall(VecNorm(y, NORM_2, &norm)); /* waits for all of them */
    PetscCall(PetscTime(&end));
    seconds[i ? i - 1 : 0] = (PetscReal)(end - start) / bench->matvecs;
  }
  PetscCall(PetscSortReal(bench->repeat, seconds));
  *timing         = (Timing){0};
  timing->matvec  = seconds[bench->repeat / 2];
  timing->matvecs = bench->matvecs;
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&y));
  PetscFunctionReturn(0);
}

/* Times PCSetUp() */
static PetscErrorCode MeasureSetUp(PC pc, Vec b, PetscReal *seconds)
{
  PetscLogDouble start, end;

  PetscFunctionBeginUser;
  PetscCall(PetscBarrier((PetscObject)pc));
  PetscCall(PetscTime(&start));
  PetscCall(PCSetUp(pc));
  PetscCall(DeviceWait(b));
  PetscCall(PetscBarrier((PetscObject)pc));
  PetscCall(PetscTime(&end));
  *seconds = (PetscReal)(end - start);
  PetscFunctionReturn(0);
}

/*
   MeasurePC - Times the set-up of the preconditioner, the set-up for new values, and PCApply(). Each set-up runs twice; the second
   one counts
*/
static PetscErrorCode MeasurePC(const Benchmark *bench, Mat A, Vec b)
{
  const PetscInt count = PetscMax(bench->matvecs / 8, 1);
  KSP            ksp;
  PC             pc;
  Vec            y;
  PetscReal      seconds[64], setup, again;
  PetscLogDouble start, end;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(b, &y));
  for (PetscInt i = 0; i < 2; i++) {
    if (i) PetscCall(KSPDestroy(&ksp));
    PetscCall(CreateSolver(bench, A, KSPPREONLY, &ksp));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(MeasureSetUp(pc, b, &setup));
  }
  for (PetscInt i = 0; i < 2; i++) {
    PetscCall(MatScale(A, i ? 0.5 : 2.0)); /* exact */
    PetscCall(MeasureSetUp(pc, b, &again));
  }
  for (PetscInt i = 0; i < bench->repeat + 1; i++) {
    PetscCall(PetscBarrier((PetscObject)A));
    PetscCall(PetscTime(&start));
    for (PetscInt k = 0; k < count; k++) PetscCall(PCApply(pc, b, y));
    PetscCall(DeviceWait(b));
    PetscCall(PetscBarrier((PetscObject)A));
    PetscCall(PetscTime(&end));
    seconds[i ? i - 1 : 0] = (PetscReal)(end - start) / count;
  }
  PetscCall(PetscSortReal(bench->repeat, seconds));
  PetscCall(PetscPrintf(PetscObjectComm((PetscObject)A),
                        "preconditioner %s: set-up %.2f ms, for new values %.2f ms, application %.1f us\n", bench->pc,
                        (double)(1e3 * setup), (double)(1e3 * again), (double)(1e6 * seconds[bench->repeat / 2])));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&y));
  PetscFunctionReturn(0);
}

/* Report - Prints a line of the table; the ratio is to PETSc's idr with the same s, and left out for methods without s */
static PetscErrorCode Report(const Benchmark *bench, MPI_Comm comm, PetscInt rows, const char type[], PetscInt s, const Timing *t,
                             const Timing *reference)
{
  const char *verdict = t->reason < 0 ? KSPConvergedReasons[t->reason]
                                      : (t->residual <= 1.01e-8 ? "" : "CONVERGED, but the true residual is too large");
  PetscMPIInt size;
  char        name[32], ratio[32] = "";

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(comm, &size));
  PetscCall(MethodName(type, s, name, sizeof(name)));
  if (reference) PetscCall(PetscSNPrintf(ratio, sizeof(ratio), "%.2f", (double)(t->matvec / reference->matvec)));
  if (!t->reason) PetscCall(PetscPrintf(comm, "%-10s %12.1f\n", name, (double)(1e6 * t->matvec)));
  else
    PetscCall(PetscPrintf(comm, "%-10s %12.1f %8s %10" PetscInt_FMT " %12.4f %12.1e  %s\n", name, (double)(1e6 * t->matvec), ratio,
                          t->matvecs, (double)t->solve, (double)t->residual, verdict));
  if (bench->csv)
    PetscCall(
      PetscFPrintf(comm, bench->csv,
                   "%s%s%s,%" PetscInt_FMT ",%d,%s,%" PetscInt_FMT ",%.3f,%s,%" PetscInt_FMT ",%" PetscInt_FMT ",%.6f,%.3e,%s\n",
                   bench->label, bench->pc ? " " : "", bench->pc ? bench->pc : "", rows, size, type, s, (double)(1e6 * t->matvec),
                   ratio, t->its, t->matvecs, (double)t->solve, (double)t->residual, KSPConvergedReasons[t->reason]));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  Benchmark   bench = {5, 90, 3000, NULL, NULL, NULL};
  Mat         A;
  Vec         b;
  Timing      timing, reference;
  char        file[PETSC_MAX_PATH_LEN], label[256] = "";
  const char *origin;
  PetscInt    n = 100, nz, rows, irregular = 0, bs = 1, sizes[16] = {1, 4, 8}, count = 16, nothers = 16, npcs = 16;
  PetscReal   peclet = 0.5;
  PetscBool   set, isnew;
  MPI_Comm    comm;
  PetscErrorCode (*create)(KSP);
  char *others[16], *pcs[16];

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  comm = PETSC_COMM_WORLD;
  PetscCall(PetscLogDefaultBegin());
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-n", &n, NULL));
  nz = n;
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-nz", &nz, NULL));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-peclet", &peclet, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-irregular", &irregular, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-bs", &bs, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-matvecs", &bench.matvecs, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-limit", &bench.limit, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-repeat", &bench.repeat, NULL));
  PetscCheck(bench.repeat >= 1 && bench.repeat <= 64, comm, PETSC_ERR_USER_INPUT, "-repeat %" PetscInt_FMT ": must be in 1 to 64",
             bench.repeat);
  PetscCall(PetscOptionsGetIntArray(NULL, NULL, "-s", sizes, &count, &set));
  if (!set) count = 3;
  PetscCall(PetscOptionsGetStringArray(NULL, NULL, "-others", others, &nothers, &set));
  if (!set) {
    nothers = 2;
    PetscCall(PetscStrallocpy(KSPBCGS, &others[0]));
    PetscCall(PetscStrallocpy(KSPGMRES, &others[1]));
  }

  PetscCall(PetscOptionsHasName(NULL, NULL, "-ksp_type", &set));
  if (set) {
    PetscCall(PetscPrintf(comm, "-ksp_type is not used: each row of a table has its own method, see -others\n"));
    PetscCall(PetscOptionsClearValue(NULL, "-ksp_type"));
  }
  PetscCall(PetscOptionsGetStringArray(NULL, NULL, "-pcs", pcs, &npcs, &set));
  if (!set) npcs = 0;

  PetscCall(PetscOptionsGetString(NULL, NULL, "-f", file, sizeof(file), &set));
  if (set) {
    PetscCall(MatLoadMatrixMarket(comm, file, &A));
    PetscCall(PetscStrncpy(label, file, sizeof(label)));
  } else if (irregular) {
    PetscCheck(bs >= 1 && bs <= 16 && irregular >= bs, comm, PETSC_ERR_USER_INPUT,
               "-irregular %" PetscInt_FMT " -bs %" PetscInt_FMT ": at least a block, of 1 to 16 rows", irregular, bs);
    PetscCall(Irregular(comm, irregular, bs, &A));
    PetscCall(PetscSNPrintf(label, sizeof(label), "irregular, blocks of %" PetscInt_FMT, bs));
  } else {
    PetscCall(ConvectionDiffusion(comm, n, nz, peclet, &A));
    if (n == nz) PetscCall(PetscSNPrintf(label, sizeof(label), "convection-diffusion %" PetscInt_FMT "^3", n));
    else PetscCall(PetscSNPrintf(label, sizeof(label), "convection-diffusion %" PetscInt_FMT "^2 x %" PetscInt_FMT, n, nz));
  }
  PetscCall(PetscOptionsGetString(NULL, NULL, "-label", label, sizeof(label), NULL));
  bench.label = label;
  PetscCall(MatGetSize(A, &rows, NULL));
  PetscCall(MatCreateVecs(A, NULL, &b));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-b", file, sizeof(file), &set));
  if (set) PetscCall(VecLoadMatrixMarket(b, file, 0));
  else {
    PetscCall(RightHandSideMake(A, b, label, 1, &origin));
    PetscCall(PetscPrintf(comm, "%s\n", origin));
  }

  PetscCall(PetscOptionsGetString(NULL, NULL, "-csv", file, sizeof(file), &set));
  if (set) {
    PetscCall(PetscTestFile(file, 'r', &isnew));
    isnew = (PetscBool)!isnew;
    PetscCall(PetscFOpen(comm, file, "a", &bench.csv));
    if (isnew)
      PetscCall(
        PetscFPrintf(comm, bench.csv,
                     "problem,rows,ranks,method,s,us_a_matvec,ratio_to_idr,iterations,matvecs,seconds,true_residual,reason\n"));
  }

  PetscCall(PetscPrintf(comm, "%s, %" PetscInt_FMT " rows\n", label, rows));
  PetscCall(MeasureCopy(&bench, b));
  PetscCall(
    PetscPrintf(comm, "%-10s %12s %8s %10s %12s %12s\n", "method", "us/matvec", "of idr", "matvecs", "seconds", "true res."));
  PetscCall(MeasureMatvec(&bench, A, b, &timing));
  PetscCall(Report(&bench, comm, rows, "MatMult", 0, &timing, NULL));
  PetscCall(KSPInitializePackage());
  PetscCall(PetscFunctionListFind(KSPList, "idr", &create));
  for (PetscInt ipc = 0; ipc < PetscMax(npcs, 1); ipc++) {
    if (npcs) {
      bench.pc = pcs[ipc];
      PetscCall(MeasurePC(&bench, A, b));
    }
    for (PetscInt i = 0; i < count; i++) {
      if (create) {
        PetscCall(Measure(&bench, A, b, "idr", sizes[i], &reference));
        PetscCall(Report(&bench, comm, rows, "idr", sizes[i], &reference, NULL));
      }
      PetscCall(Measure(&bench, A, b, "idrs", sizes[i], &timing));
      PetscCall(Report(&bench, comm, rows, "idrs", sizes[i], &timing, create ? &reference : NULL));
    }
    for (PetscInt i = 0; i < nothers; i++) {
      PetscCall(Measure(&bench, A, b, others[i], 0, &timing));
      PetscCall(Report(&bench, comm, rows, others[i], 0, &timing, NULL));
    }
  }
  for (PetscInt i = 0; i < npcs; i++) PetscCall(PetscFree(pcs[i]));
  for (PetscInt i = 0; i < nothers; i++) PetscCall(PetscFree(others[i]));
  if (!create) PetscCall(PetscPrintf(comm, "No comparison with idr: KSPIDR needs PETSc 3.26\n"));
  if (bench.csv) PetscCall(PetscFClose(comm, bench.csv));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(PetscFinalize());
  return 0;
}
