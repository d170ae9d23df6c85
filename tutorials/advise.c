static char help[] = "Tries Krylov methods on a linear system with one preconditioner. petscidrs-advise and make advise call it\n\
for each preconditioner.\n\
  -f file, -b file, -column j, -rhs kind   the system, see linearsystem.h\n\
  -solvers a,b:s,...        methods, each with an optional s (default idrs:1,idrs:2,idrs:4,idrs:8,bcgs,gmres, idr:4 if PETSc has\n\
                            it, and\n\
                            cg if the matrix is symmetric)\n\
  -preconditioners a,b,...  types of preconditioners, read by petscidrs-advise (default\n\
                            none,jacobi,poly,poly:16,aggregation,bjacobi,matching,\n\
                            sor,asm,gamg, LU with each package that suits the matrix, and icc on one process if the matrix is\n\
                            symmetric with a positive diagonal); poly:16 is poly with degree 16, matching:jacobi is matching with\n\
                            jacobi for the permuted matrix, and lu:mumps is lu with the package mumps\n\
  -solves n                 recommend for n solves with the same pattern and new values before each, read by petscidrs-advise\n\
                            (default: for one, and for many)\n\
  -limit seconds            time limit of one solve or set-up (default 10); one that takes more than twice this and five seconds\n\
                            is killed, and LU after this time\n\
  -total seconds            no run begins after this time (default 60)\n\
  -structural_rank          begin with the structural rank of the matrix (petscidrs-advise always does)\n\
PETSc's options apply to all methods: -ksp_rtol 1e-8, -ksp_max_it, -ksp_gmres_restart, -pc_factor_levels, ...\n\
If PETSc can use a GPU, the runs use it, unless the options are -mat_type aij -vec_type standard. The program also runs on\n\
several processes.\n\n";

/*
   petscidrs-advise, and make advise MATRIX=file [RHS=file], are the script tools/advise, which starts this program once for each
   preconditioner and prints the results as a table. So a preconditioner that crashes, or hangs because one process has failed, does
   not stop the others.

   All methods test the norm of the same residual: preconditioned from the right, or from the left with the unpreconditioned norm
   (cg). The preconditioner is set up for all methods together, for a new matrix and for new values in the same pattern. LU is tried
   with preonly, and with idrs if the solution of preonly is not accurate enough. Each run begins with a few iterations that are not
   counted: they are a warm-up, and determine the number of iterations that fit into the time limit, so that no clock is read during
   the timed run. Set-ups and solves are repeated until they add up to ENOUGH, and at least once unless the first took SURE; the
   shortest counts, since the others were disturbed.

   The program prints lines of fields, separated by tabs:

     system  the system, the number of methods, preconditioners that also suit this matrix: LU with packages, icc
     rank    1 if the structural rank is too small, else 0; what to print about it
     begin   options of the run or set-up that begins
     run     0 if correct, 1 if not, 2 if there is no solution; seconds of a first solve, or residual norm; seconds of a further
             solve with new values; options; all options to paste; the other columns of the table
     history options; seconds of the solve; residual norms relative to that of b, at most SAMPLES of them at equal distances
     ended   reason why the last run or set-up was killed
     options the options of the command line that nothing has read so far, separated by blanks
     left    the number of runs that were omitted for lack of time
*/
#include <malloc.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>
#include <petscksp.h>
#include <petsctime.h>
#include "linearsystem.h"
#include "solvers.h"

#define TRIAL   30    /* iterations that are not counted; also the restart of GMRES */
#define SAMPLES 200   /* of a history */
#define ENOUGH  0.1   /* seconds of repeated set-ups or solves */
#define SURE    1.0   /* seconds of a first set-up or solve that is not repeated */
#define HISTORY 20000 /* longest history */

typedef struct {
  char        options[256], reason[sizeof(attempt.text) + 32];
  const char *side;                                      /* option for the side of the preconditioner */
  PetscInt    its, matvecs, vectors;                     /* vectors: number of work vectors, -1 if unknown */
  PetscReal   setup, newvalues, memory, solve, residual; /* seconds; memory: bytes of the preconditioner */
  PetscBool   right;                                     /* converged, and the true residual meets the tolerance */
} Run;

typedef struct {
  MPI_Comm       comm;
  Mat            A;
  Vec            b, x, r;
  PetscReal      limit, total, rtol;
  PetscReal      scale, bnorm; /* largest modulus of an entry of b, and the norm of b / scale, which does not overflow */
  PetscLogDouble begin;
  PetscBool      hermitian, positive, direct; /* positive: hermitian with a positive diagonal; direct: LU */
  char           pctype[64], pcoptions[128];  /* of the preconditioner: its type, and all options, to paste after -pc_type */
} Advice;

/* Returns the same time on all processes, whose decisions depend on it */
static PetscErrorCode SecondsSince(MPI_Comm comm, PetscLogDouble start, PetscReal *seconds)
{
  PetscLogDouble now;
  PetscReal      range[2];

  PetscFunctionBeginUser;
  PetscCall(PetscTime(&now));
  range[0] = range[1] = (PetscReal)(now - start);
  PetscCall(PetscGlobalMinMaxReal(comm, range, range));
  *seconds = range[1];
  PetscFunctionReturn(0);
}

/* Returns the number of work vectors of the default methods, as their sources allocate them, without x and b */
static PetscErrorCode WorkVectors(KSP ksp, const char type[], PetscInt s, PetscInt *vectors)
{
  PetscBool is;

  PetscFunctionBeginUser;
  *vectors = -1;
  PetscCall(PetscStrcmp(type, KSPPREONLY, &is));
  if (is) *vectors = 0;
  PetscCall(PetscStrcmp(type, "idrs", &is));
  if (is) *vectors = 2 * s + 5;
  PetscCall(PetscStrcmp(type, "idr", &is));
  if (is) *vectors = 3 * s + 4;
  PetscCall(PetscStrcmp(type, KSPBCGS, &is));
  if (is) *vectors = 6;
  PetscCall(PetscStrcmp(type, KSPCG, &is));
  if (is) *vectors = 3;
  PetscCall(PetscStrcmp(type, KSPGMRES, &is));
  if (is) {
    PetscCall(KSPGMRESGetRestart(ksp, vectors));
    *vectors += 4;
  }
  PetscFunctionReturn(0);
}

/* Returns the bytes that all processes have allocated on the host */
static PetscErrorCode MemoryInUse(MPI_Comm comm, PetscReal *bytes)
{
  PetscReal own;

  PetscFunctionBeginUser;
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  {
    struct mallinfo2 info = mallinfo2();

    own = (PetscReal)(info.uordblks + info.hblkhd);
  }
#else
  {
    PetscLogDouble resident;

    PetscCall(PetscMemoryGetCurrentUsage(&resident));
    own = (PetscReal)resident;
  }
#endif
  PetscCallMPI(MPIU_Allreduce(&own, bytes, 1, MPIU_REAL, MPIU_SUM, comm));
  PetscFunctionReturn(0);
}

/*
   Handler of SIGALRM: prints the reason and ends the process. A process without an error waits for a second, so that a process with
   an error prints its reason first
*/
static void WatchEnd(int number)
{
  char line[sizeof(attempt.text) + 8] = "ended\t";

  if (!attempt.code) (void)sleep(1);
  strcat(line, attempt.code ? attempt.text : "out of time");
  strcat(line, "\n");
  _exit(write(STDOUT_FILENO, line, strlen(line)) < 0 ? 2 : 1);
}

/*
   Starts a time limit: if WatchStop() is not called in time, all processes end. LU of a large three-dimensional problem would take
   too long with every package, so LU has less time
*/
static PetscErrorCode WatchStart(const Advice *advice)
{
  double           limit = (double)advice->limit, seconds = PetscMin(advice->direct ? limit + 1e-3 : 2.0 * limit + 5.0, 1e9);
  struct itimerval timer = {.it_value.tv_sec = (time_t)seconds, .it_value.tv_usec = (suseconds_t)(1e6 * fmod(seconds, 1.0))};

  PetscFunctionBeginUser;
  PetscCheck(signal(SIGALRM, WatchEnd) != SIG_ERR && !setitimer(ITIMER_REAL, &timer, NULL), PETSC_COMM_SELF, PETSC_ERR_SYS,
             "no timer of %g s", seconds);
  PetscFunctionReturn(0);
}

static PetscErrorCode WatchStop(void)
{
  struct itimerval none = {.it_value.tv_sec = 0};

  PetscFunctionBeginUser;
  PetscCheck(!setitimer(ITIMER_REAL, &none, NULL), PETSC_COMM_SELF, PETSC_ERR_SYS, "the timer cannot be stopped");
  PetscFunctionReturn(0);
}

/* Returns PETSC_TRUE if a set-up or solve that took the seconds of sum in several times is repeated */
static PetscBool Repeats(PetscReal sum, int times)
{
  return (PetscBool)(sum < ENOUGH || (times == 1 && sum < SURE));
}

/* Creates a preconditioner. If there is one, changes the values of the matrix, which are the same again afterwards */
static PetscErrorCode PreconditionerBegin(Advice *advice, PC *pc)
{
  PetscFunctionBeginUser;
  if (*pc) {
    PetscCall(MatScale(advice->A, 2.0));
    PetscCall(MatScale(advice->A, 0.5));
    PetscFunctionReturn(0);
  }
  PetscCall(PCCreate(advice->comm, pc));
  PetscCall(PCSetOperators(*pc, advice->A, advice->A));
  PetscCall(PCSetType(*pc, advice->pctype));
  PetscCall(PCSetFromOptions(*pc));
  PetscFunctionReturn(0);
}

static PetscErrorCode PreconditionerSetUp(PC pc)
{
  PCFailedReason reason;

  PetscFunctionBeginUser;
  PetscCall(PCSetUp(pc));
  PetscCall(PCSetUpOnBlocks(pc));
  PetscCall(PCGetFailedReason(pc, &reason));
  PetscCheck(!reason, PETSC_COMM_SELF, PETSC_ERR_CONV_FAILED, "%s", PCFailedReasons[reason]);
  PetscFunctionReturn(0);
}

/*
   Sets up a preconditioner and applies it once: a new one if pc is NULL, otherwise pc for new values. Repeats this; seconds is the
   time of the shortest set-up, memory the most bytes of all processes. This may fail, also on some processes only
*/
static PetscErrorCode PreconditionerTry(Advice *advice, PC *pc, PetscReal *seconds, PetscReal *memory, PetscBool *failed)
{
  const PetscBool fresh = (PetscBool) !*pc;
  PetscReal       before, after, sum = 0.0, spent = 0.0;

  PetscFunctionBeginUser;
  *failed = PETSC_FALSE;
  for (int times = 0; !*failed && (!times || Repeats(sum, times)); times++) {
    PetscLogDouble begin, start = 0.0;

    if (fresh) PetscCall(PCDestroy(pc));
    PetscCall(PetscTime(&begin));
    PetscCall(MemoryInUse(advice->comm, &before));
    PetscCall(WatchStart(advice));
    for (int step = 0; step < 3 && !*failed; step++) {
      PetscErrorCode ierr;

      PetscCall(AttemptBegin());
      if (step == 0) ierr = PreconditionerBegin(advice, pc);
      else if (step == 1) ierr = PreconditionerSetUp(*pc);
      else ierr = PCApply(*pc, advice->b, advice->r);
      PetscCall(AttemptEnd(advice->comm, ierr, failed));
      if (step == 0) PetscCall(PetscTime(&start));
      if (step == 1) PetscCall(SecondsSince(advice->comm, start, &spent));
    }
    PetscCall(WatchStop());
    PetscCall(MemoryInUse(advice->comm, &after));
    *memory  = PetscMax(*memory, after - before); /* a part of it stays with the matrix */
    *seconds = times ? PetscMin(*seconds, spent) : spent;
    PetscCall(SecondsSince(advice->comm, begin, &spent));
    sum += spent;
  }
  PetscFunctionReturn(0);
}

/* Solves from x = 0 */
static PetscErrorCode TimedSolve(Advice *advice, KSP ksp, PetscReal *seconds, PetscBool *failed)
{
  PetscErrorCode ierr;
  PetscLogDouble start;

  PetscFunctionBeginUser;
  PetscCall(WatchStart(advice));
  PetscCall(PetscBarrier((PetscObject)ksp));
  PetscCall(PetscTime(&start));
  PetscCall(AttemptBegin());
  ierr = KSPSolve(ksp, advice->b, advice->x);
  PetscCall(AttemptEnd(advice->comm, ierr, failed));
  PetscCall(SecondsSince(advice->comm, start, seconds));
  PetscCall(WatchStop());
  PetscFunctionReturn(0);
}

/* Solves, after some iterations that show how many iterations the time limit allows */
static PetscErrorCode LimitedSolve(Advice *advice, KSP ksp, Run *run, PetscBool *failed)
{
  PetscReal          rtol, atol, dtol, rnorm, allowed, sum, seconds;
  PetscInt           maxits, its, before;
  PetscBool          limited = PETSC_FALSE;
  KSPConvergedReason reason;

  PetscFunctionBeginUser;
  PetscCall(KSPGetTolerances(ksp, &rtol, &atol, &dtol, &maxits));
  PetscCall(KSPSetTolerances(ksp, rtol, atol, dtol, PetscMin(TRIAL, maxits)));
  PetscCall(TimedSolve(advice, ksp, &run->solve, failed));
  if (!*failed) {
    PetscCall(KSPGetIterationNumber(ksp, &its));
    allowed = run->solve > 0.0 ? advice->limit / run->solve * PetscMax(its, 1) : maxits;
    limited = (PetscBool)(allowed < maxits);
    PetscCall(KSPSetTolerances(ksp, rtol, atol, dtol, limited ? PetscMax((PetscInt)allowed, 1) : maxits));
    PetscCall(KSPSetResidualHistory(ksp, NULL, HISTORY, PETSC_TRUE));
    PetscCall(MatvecsCount(&before));
    PetscCall(TimedSolve(advice, ksp, &run->solve, failed));
    PetscCall(MatvecsCount(&run->matvecs));
    run->matvecs -= before;
    sum = run->solve;
    for (int times = 1; !*failed && Repeats(sum, times); times++) {
      PetscCall(TimedSolve(advice, ksp, &seconds, failed));
      run->solve = PetscMin(run->solve, seconds);
      sum += seconds;
    }
  }
  if (*failed) {
    PetscCall(PetscSNPrintf(run->reason, sizeof(run->reason), "failed: %s", attempt.text));
    PetscFunctionReturn(0);
  }
  PetscCall(KSPGetIterationNumber(ksp, &run->its));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(MatMult(advice->A, advice->x, advice->r));
  PetscCall(VecAYPX(advice->r, -1.0, advice->b));
  PetscCall(VecScale(advice->r, (PetscReal)1.0 / advice->scale));
  PetscCall(VecNorm(advice->r, NORM_2, &rnorm));
  run->residual = rnorm / advice->bnorm;
  run->right    = (PetscBool)(reason > 0 && rnorm <= 1.1 * PetscMax(rtol * advice->bnorm, atol / advice->scale));
  advice->rtol  = rtol;
  if (reason == KSP_DIVERGED_ITS && limited) PetscCall(PetscStrncpy(run->reason, "out of time", sizeof(run->reason)));
  else if (reason > 0 && !run->right)
    PetscCall(
      PetscSNPrintf(run->reason, sizeof(run->reason), "%s, but the true residual is too large", KSPConvergedReasons[reason]));
  else PetscCall(PetscStrncpy(run->reason, KSPConvergedReasons[reason], sizeof(run->reason)));
  PetscFunctionReturn(0);
}

/* Collects the options of the command line to paste: without the options of the system, of this program and of the run */
static PetscErrorCode OptionsGiven(char given[], size_t length)
{
  const char *const own[] = {
    "-f",        "-b",          "-column",   "-rhs",      "-solvers",           "-limit",          "-total", "-pc_type",
    "-ksp_rtol", "-dll_append", "-mat_type", "-vec_type", "-use_gpu_aware_mpi", "-structural_rank"};
  const char *const set[] = {"-mat_type", "-vec_type", "-use_gpu_aware_mpi"}; /* this program may have set them */
  char            **args, value[PETSC_MAX_PATH_LEN];
  int               count;
  PetscBool         skip = PETSC_FALSE, is;

  PetscFunctionBeginUser;
  given[0] = '\0';
  for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(set); k++) {
    PetscCall(PetscOptionsGetString(NULL, NULL, set[k], value, sizeof(value), &is));
    if (is) PetscCall(PetscSNPrintf(given + strlen(given), length - strlen(given), " %s %s", set[k], value));
  }
  PetscCall(PetscGetArgs(&count, &args));
  for (int i = 1; i < count; i++) {
    if (args[i][0] == '-' && isalpha((unsigned char)args[i][1])) {
      skip = PETSC_FALSE;
      for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(own) && !skip; k++) PetscCall(PetscStrcmp(args[i], own[k], &skip));
    }
    if (!skip) PetscCall(PetscSNPrintf(given + strlen(given), length - strlen(given), " %s", args[i]));
  }
  PetscFunctionReturn(0);
}

/* Prints the options to paste: the options of the run, and the user's options for all runs */
static PetscErrorCode PrintOptions(const Advice *advice, const Run *run)
{
  char      plugin[PETSC_MAX_PATH_LEN], given[4096];
  PetscBool set;

  PetscFunctionBeginUser;
  PetscCall(OptionsGiven(given, sizeof(given)));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-dll_append", plugin, sizeof(plugin), &set));
  if (set && (strstr(run->options, "idrs") || strstr(run->options, "poly") || strstr(run->options, "-pc_type matching") ||
              strstr(run->options, "-pc_type aggregation") || strstr(given, "idrs") || strstr(given, "poly")))
    PetscCall(PetscPrintf(advice->comm, "-dll_append %s ", plugin));
  PetscCall(
    PetscPrintf(advice->comm, "%s%s -ksp_rtol %g%s", run->options, run->side ? run->side : "", (double)advice->rtol, given));
  PetscFunctionReturn(0);
}

/* Prints a row; tools/advise sorts correct runs by time, and other runs with a solution by residual norm */
static PetscErrorCode PrintRun(const Advice *advice, const Run *run)
{
  const PetscReal first = run->setup + run->solve, further = run->newvalues + run->solve;
  PetscInt        n;
  PetscBool       solved = (PetscBool)(run->its > 0 && !PetscIsInfOrNanReal(run->residual));

  PetscFunctionBeginUser;
  PetscCall(VecGetSize(advice->b, &n));
  PetscCall(PetscPrintf(advice->comm, "run\t%d\t%g\t%g\t%s\t", run->right ? 0 : (solved ? 1 : 2),
                        run->right ? (double)first : (solved ? (double)run->residual : 0.0), (double)further, run->options));
  PetscCall(PrintOptions(advice, run));
  PetscCall(PetscPrintf(advice->comm, "\t"));
  if (run->its > 0) {
    char work[16] = "?";

    if (run->vectors >= 0)
      PetscCall(PetscSNPrintf(work, sizeof(work), "%.3g",
                              1e-6 * ((double)n * sizeof(PetscScalar) * (double)run->vectors + (double)run->memory)));
    PetscCall(PetscPrintf(advice->comm, "%7" PetscInt_FMT " %9" PetscInt_FMT " %9.5f %9.5f %9.5f %9.5f %9.5f %11.2e %9s  ",
                          run->its, run->matvecs, (double)run->setup, (double)run->newvalues, (double)run->solve, (double)first,
                          (double)further, (double)run->residual, work));
  }
  PetscCall(PetscPrintf(advice->comm, "%s\n", run->reason));
  PetscFunctionReturn(0);
}

static PetscErrorCode PrintHistory(const Advice *advice, KSP ksp, const Run *run)
{
  const PetscReal *norms;
  PetscInt         n, count;

  PetscFunctionBeginUser;
  PetscCall(KSPGetResidualHistory(ksp, &norms, &n));
  count = PetscMin(n, SAMPLES);
  if (count < 2) PetscFunctionReturn(0);
  PetscCall(PetscPrintf(advice->comm, "history\t%s\t%g\t", run->options, (double)run->solve));
  for (PetscInt k = 0; k < count; k++)
    PetscCall(PetscPrintf(advice->comm, "%s%.3g", k ? " " : "",
                          (double)(norms[(PetscInt)((PetscInt64)k * (n - 1) / (count - 1))] / advice->scale / advice->bnorm)));
  PetscCall(PetscPrintf(advice->comm, "\n"));
  PetscFunctionReturn(0);
}

/* Splits a solver of the list into its type and the option of its number of shadow vectors, which is empty if there is none */
static PetscErrorCode SolverOption(const char solver[], char type[], char option[], size_t length, PetscInt *s)
{
  const char *colon = strchr(solver, ':');
  char       *end   = NULL;

  PetscFunctionBeginUser;
  option[0] = '\0';
  *s        = 0;
  PetscCall(PetscStrncpy(type, solver, PetscMin(length, colon ? (size_t)(colon - solver) + 1 : length)));
  if (!colon) PetscFunctionReturn(0);
  *s = (PetscInt)strtol(colon + 1, &end, 10);
  PetscCheck(end != colon + 1 && !*end, PETSC_COMM_SELF, PETSC_ERR_USER_INPUT, "-solvers %s: '%s' is no number of shadow vectors",
             solver, colon + 1);
  PetscCall(PetscSNPrintf(option, length, "-ksp_%s_s", type));
  PetscCall(PetscOptionsSetValue(NULL, option, colon + 1));
  PetscFunctionReturn(0);
}

static PetscErrorCode SolverCreate(Advice *advice, const char type[], KSP *ksp)
{
  PetscFunctionBeginUser;
  PetscCall(KSPCreate(advice->comm, ksp));
  PetscCall(KSPSetType(*ksp, type));
  PetscCall(KSPSetOperators(*ksp, advice->A, advice->A));
  PetscCall(KSPSetPCSide(*ksp, PC_RIGHT));
  PetscCall(KSPSetTolerances(*ksp, advice->rtol, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
  PetscCall(KSPSetSkipPCSetFromOptions(*ksp, PETSC_TRUE));
  PetscCall(KSPSetFromOptions(*ksp));
  PetscFunctionReturn(0);
}

/* Methods without right preconditioning, like cg, are preconditioned from the left, and test the norm of b - A x if they can */
static PetscErrorCode SolverSide(Advice *advice, KSP ksp, const char **option)
{
  PetscErrorCode ierr;
  PetscBool      failed;
  PCSide         side;

  PetscFunctionBeginUser;
  *option = " -ksp_pc_side right";
  PetscCall(AttemptBegin());
  ierr = KSPGetPCSide(ksp, &side);
  PetscCall(AttemptEnd(advice->comm, ierr, &failed));
  if (!failed) PetscFunctionReturn(0);
  *option = " -ksp_norm_type unpreconditioned";
  PetscCall(KSPSetPCSide(ksp, PC_LEFT));
  PetscCall(KSPSetNormType(ksp, KSP_NORM_UNPRECONDITIONED));
  PetscCall(AttemptBegin());
  ierr = KSPGetPCSide(ksp, &side);
  PetscCall(AttemptEnd(advice->comm, ierr, &failed));
  if (!failed) PetscFunctionReturn(0);
  *option = "";
  PetscCall(KSPSetNormType(ksp, KSP_NORM_PRECONDITIONED));
  PetscFunctionReturn(0);
}

/* Tries one method with the preconditioner, which has been set up; run has its times and memory */
static PetscErrorCode SolverTry(Advice *advice, const char solver[], PC pc, Run run, PetscBool *right)
{
  char      type[64], option[64], method[128];
  PetscInt  s;
  PetscBool failed;
  KSP       ksp;

  PetscFunctionBeginUser;
  PetscCall(SolverOption(solver, type, option, sizeof(option), &s));
  PetscCall(PetscSNPrintf(method, sizeof(method), "-ksp_type %s%s%s%s%s -pc_type", type, option[0] ? " " : "", option,
                          option[0] ? " " : "", option[0] ? strchr(solver, ':') + 1 : ""));
  PetscCall(PetscSNPrintf(run.options, sizeof(run.options), "%s %s", method, advice->pcoptions));
  PetscCall(PetscPrintf(advice->comm, "begin\t%s\n", run.options));

  PetscCall(SolverCreate(advice, type, &ksp));
  PetscCall(KSPSetPC(ksp, pc));
  PetscCall(SolverSide(advice, ksp, &run.side));
  PetscCall(WorkVectors(ksp, type, s, &run.vectors));
  PetscCall(LimitedSolve(advice, ksp, &run, &failed));
  PetscCall(PrintRun(advice, &run));
  if (!failed) PetscCall(PrintHistory(advice, ksp, &run));
  if (!failed) PetscCall(KSPDestroy(&ksp)); /* otherwise the preconditioner may hold work vectors of the method */
  if (option[0]) PetscCall(PetscOptionsClearValue(NULL, option));
  *right = run.right;
  PetscFunctionReturn(0);
}

/* Prints a row for a preconditioner without any method */
static PetscErrorCode PreconditionerSkip(const Advice *advice, const char what[], const char reason[])
{
  Run run = {.right = PETSC_FALSE};

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(run.options, sizeof(run.options), "-pc_type %s", advice->pcoptions));
  PetscCall(PetscSNPrintf(run.reason, sizeof(run.reason), "%s: %s", what, reason));
  PetscCall(PrintRun(advice, &run));
  PetscFunctionReturn(0);
}

/*
   PETSc shifts the diagonal until an incomplete Cholesky factorisation exists, which may never end if the matrix is not hermitian
*/
static PetscErrorCode PreconditionerIsSuited(const Advice *advice, PetscBool *is)
{
  PetscBool icc, cholesky;

  PetscFunctionBeginUser;
  PetscCall(PetscStrcmp(advice->pctype, PCICC, &icc));
  PetscCall(PetscStrcmp(advice->pctype, PCCHOLESKY, &cholesky));
  *is = (PetscBool)(advice->hermitian || !(icc || cholesky));
  if (!*is) PetscCall(PreconditionerSkip(advice, "skipped", "the matrix is not symmetric"));
  PetscFunctionReturn(0);
}

/* Collects the options of the command line that nothing has read: those that only a preconditioner may read, or all others */
static PetscErrorCode OptionsUnread(PetscBool preconditioner, char unread[], size_t length)
{
  /* ends: read by PetscFinalize() */
  const char *const parts[] = {"pc_", "_ksp_", "sub_", "mg_", "mat_"}, *const ends[] = {"-malloc", "-options", "-log", "-memory",
                                                                                        "-use_gpu"};
  char **args;
  int    count;

  PetscFunctionBeginUser;
  unread[0] = '\0';
  PetscCall(PetscGetArgs(&count, &args));
  for (int i = 1; i < count; i++) {
    PetscBool read, part = PETSC_FALSE;

    if (args[i][0] != '-' || !isalpha((unsigned char)args[i][1])) continue;
    PetscCall(PetscOptionsUsed(NULL, args[i] + 1, &read));
    for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(ends); k++) read = (PetscBool)(read || strstr(args[i], ends[k]) == args[i]);
    for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(parts); k++) part = (PetscBool)(part || strstr(args[i], parts[k]));
    if (!read && part == preconditioner)
      PetscCall(PetscSNPrintf(unread + strlen(unread), length - strlen(unread), "%s%s", unread[0] ? " " : "", args[i]));
  }
  PetscFunctionReturn(0);
}

static PetscErrorCode PreconditionerRuns(Advice *advice, int count, char *solvers[])
{
  PC        pc  = NULL;
  Run       run = {.right = PETSC_FALSE};
  PetscReal elapsed;
  int       made = 0;
  char      unread[512];
  PetscBool failed, right = PETSC_FALSE, suited = PETSC_TRUE;

  PetscFunctionBeginUser;
  PetscCall(SecondsSince(advice->comm, advice->begin, &elapsed));
  if (elapsed <= advice->total) PetscCall(PreconditionerIsSuited(advice, &suited));
  if (!suited) made = count;
  else if (elapsed <= advice->total) {
    PetscCall(PetscPrintf(advice->comm, "begin\t-pc_type %s\n", advice->pcoptions));
    PetscCall(PreconditionerTry(advice, &pc, &run.setup, &run.memory, &failed));
    if (!failed) PetscCall(PreconditionerTry(advice, &pc, &run.newvalues, &run.memory, &failed));
    if (!failed && run.setup < SURE) { /* the values of pc may depend on the set-ups before, so the solves have a new one */
      PetscCall(PCDestroy(&pc));
      PetscCall(PreconditionerTry(advice, &pc, &run.setup, &run.memory, &failed));
    }
    if (failed) { /* PCDestroy() might free b, which a PC that failed in PCApply() may still hold */
      PetscCall(PreconditionerSkip(advice, "set-up failed", attempt.text));
      made = count;
    } else {
      for (; made < count && elapsed <= advice->total; made = advice->direct && right ? count : made + 1) {
        PetscCall(SolverTry(advice, solvers[made], pc, run, &right));
        PetscCall(SecondsSince(advice->comm, advice->begin, &elapsed));
      }
      PetscCall(PCDestroy(&pc));
    }
    PetscCall(OptionsUnread(PETSC_TRUE, unread, sizeof(unread)));
    PetscCall(PetscPrintf(advice->comm, "options\t%s\n", unread));
  }
  PetscCall(PetscPrintf(advice->comm, "left\t%d\n", count - made));
  PetscFunctionReturn(0);
}

/* Reads the type of the preconditioner, after a colon a degree, the preconditioner of the permuted matrix, or a package of LU */
static PetscErrorCode PreconditionerRead(Advice *advice)
{
  const char *const types[] = {"poly", "matching", PCLU}, *const options[] = {"-pc_poly_degree", "-matching_pc_type",
                                                                              "-pc_factor_mat_solver_type"};
  const char *option = NULL;
  char       *part;
  PetscBool   old, given, is;

  PetscFunctionBeginUser;
  PetscCall(PetscStrncpy(advice->pcoptions, advice->pctype, sizeof(advice->pcoptions)));
  part = strchr(advice->pctype, ':');
  if (!part) PetscFunctionReturn(0);
  *part++ = '\0';
  for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(types); k++) {
    PetscCall(PetscStrcmp(advice->pctype, types[k], &is));
    if (is) option = options[k];
  }
  PetscCall(PetscStrcmp(advice->pcoptions, "gamg:poly", &old));
  PetscCheck(option, PETSC_COMM_SELF, PETSC_ERR_USER_INPUT, "-preconditioners %s: %s", advice->pcoptions,
             old ? "gone since version 0.5, use aggregation"
                 : "after a colon poly has a degree, matching a second preconditioner, and lu a package");
  PetscCall(PetscOptionsHasName(NULL, NULL, option, &given));
  PetscCheck(!given, PETSC_COMM_SELF, PETSC_ERR_USER_INPUT,
             "-preconditioners %s sets %s, which is an option of all runs, too; remove one of the two", advice->pcoptions, option);
  PetscCall(PetscOptionsSetValue(NULL, "-pc_type", advice->pctype));
  PetscCall(PetscOptionsSetValue(NULL, option, part));
  PetscCall(PetscSNPrintf(advice->pcoptions, sizeof(advice->pcoptions), "%s %s %s", advice->pctype, option, part));
  PetscFunctionReturn(0);
}

/*
   Collects preconditioners that only suit some matrices: LU with each package that factors the matrix, the fastest for large
   matrices first, and after a semicolon PETSc's LU, which is slower, and icc
*/
static PetscErrorCode PreconditionersExtra(const Advice *advice, char list[], size_t length)
{
  const char *const packages[] = {"cudss", "mumps", "superlu_dist", "klu", MATSOLVERPETSC};
  const char       *petsc      = "";
  PetscMPIInt       size;
  PetscBool         given, suits;

  PetscFunctionBeginUser;
  list[0] = '\0';
  PetscCall(PetscOptionsHasName(NULL, NULL, "-pc_factor_mat_solver_type", &given));
  if (given) PetscCall(PetscStrncpy(list, "lu,", length));
  for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(packages) && !given; k++) {
    PetscCall(MatGetFactorAvailable(advice->A, packages[k], MAT_FACTOR_LU, &suits));
    if (suits && k + 1 == PETSC_STATIC_ARRAY_LENGTH(packages) && list[0]) petsc = ",lu:petsc";
    else if (suits) PetscCall(PetscSNPrintf(list + strlen(list), length - strlen(list), "lu:%s,", packages[k]));
  }
  PetscCallMPI(MPI_Comm_size(advice->comm, &size));
  PetscCall(PetscSNPrintf(list + strlen(list), length - strlen(list), ";%s%s", petsc, advice->positive && size == 1 ? ",icc" : ""));
  PetscFunctionReturn(0);
}

/*
   Reads all options except the preconditioner's, so that a mistake in them is found before the runs. As in PETSc, unread options
   are accepted with -options_left no
*/
static PetscErrorCode OptionsRead(Advice *advice, int count, char *solvers[])
{
  char      type[64], option[64], unread[512];
  PetscInt  s;
  PetscBool set, left = PETSC_TRUE;
  KSP       ksp;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-limit", &advice->limit, NULL));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-total", &advice->total, NULL));
  PetscCheck(advice->limit > 0.0, PETSC_COMM_SELF, PETSC_ERR_USER_INPUT, "-limit %g: the time limit of a solve must be positive",
             (double)advice->limit);
  PetscCall(PreconditionerRead(advice));
  PetscCall(PetscOptionsHasName(NULL, NULL, "-ksp_pc_side", &set));
  PetscCheck(!set, PETSC_COMM_SELF, PETSC_ERR_USER_INPUT,
             "-ksp_pc_side is set by this program, so that all methods test the same norm; remove it");
  for (int i = 0; i < count; i++) {
    PetscCall(SolverOption(solvers[i], type, option, sizeof(option), &s));
    PetscCall(SolverCreate(advice, type, &ksp));
    PetscCall(KSPDestroy(&ksp));
    if (option[0]) PetscCall(PetscOptionsClearValue(NULL, option));
  }
  PetscCall(OptionsUnread(PETSC_FALSE, unread, sizeof(unread)));
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-options_left", &left, NULL));
  PetscCheck(!left || !unread[0], PETSC_COMM_SELF, PETSC_ERR_USER_INPUT,
             "%s: neither this program nor its methods read this option; -help lists the options", unread);
  PetscFunctionReturn(0);
}

/* Sets the types for the GPU, if PETSc can use one, and the options name no types. MPI need not be GPU-aware */
static PetscErrorCode ChooseDevice(void)
{
  PetscBool vec, mat;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsHasName(NULL, NULL, "-vec_type", &vec));
  PetscCall(PetscOptionsHasName(NULL, NULL, "-mat_type", &mat));
  if (!PetscDefined(HAVE_CUDA) || vec || mat || access("/dev/nvidiactl", R_OK | W_OK)) PetscFunctionReturn(0);
  PetscCall(PetscOptionsSetValue(NULL, "-vec_type", "cuda"));
  PetscCall(PetscOptionsSetValue(NULL, "-mat_type", MATAIJCUSPARSE));
  PetscFunctionReturn(0);
}

/* Compares A v and A^H v for a random v, and checks the diagonal */
static PetscErrorCode MatrixLook(Advice *advice)
{
  Vec       v;
  PetscReal norm, difference, low;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(advice->x, &v));
  PetscCall(VecSetRandom(v, NULL));
  PetscCall(MatMult(advice->A, v, advice->x));
  PetscCall(MatMultHermitianTranspose(advice->A, v, advice->r));
  PetscCall(VecNorm(advice->x, NORM_2, &norm));
  PetscCall(VecAXPY(advice->r, -1.0, advice->x));
  PetscCall(VecNorm(advice->r, NORM_2, &difference));
  advice->hermitian = (PetscBool)(difference <= 0.01 * PETSC_SQRT_MACHINE_EPSILON * norm);
  if (advice->hermitian) {
    PetscCall(MatGetDiagonal(advice->A, v));
    PetscCall(VecMin(v, NULL, &low)); /* of the real parts */
    advice->positive = (PetscBool)(low > 0.0);
  }
  PetscCall(VecDestroy(&v));
  PetscFunctionReturn(0);
}

/*
   Computes the structural rank with MatGetMatching() of the plugin. On several processes the sum of the ranks of the diagonal blocks
   may be smaller: then the first process matches the whole matrix. rank is -1 if the plugin is not loaded
*/
static PetscErrorCode StructuralRank(Mat A, PetscInt *rank)
{
  const MPI_Comm comm = PetscObjectComm((PetscObject)A);
  PetscErrorCode (*matching)(Mat, IS *, Vec *, Vec *, PetscInt *);
  PetscMPIInt size, me;
  PetscInt    n;
  IS          all;
  Mat        *whole;

  PetscFunctionBeginUser;
  *rank = -1;
  PetscCall(PetscDLSym(NULL, "MatGetMatching", (void **)&matching));
  if (!matching) PetscFunctionReturn(0);
  PetscCall((*matching)(A, NULL, NULL, NULL, rank));
  PetscCall(MatGetSize(A, &n, NULL));
  PetscCallMPI(MPI_Comm_size(comm, &size));
  if (*rank == n || size == 1) PetscFunctionReturn(0);
  PetscCallMPI(MPI_Comm_rank(comm, &me));
  PetscCall(ISCreateStride(PETSC_COMM_SELF, n, 0, 1, &all));
  PetscCall(MatCreateSubMatrices(A, me ? 0 : 1, &all, &all, MAT_INITIAL_MATRIX, &whole));
  if (!me) PetscCall((*matching)(whole[0], NULL, NULL, NULL, rank));
  PetscCall(MatDestroySubMatrices(me ? 0 : 1, &whole));
  PetscCall(ISDestroy(&all));
  PetscCallMPI(MPI_Bcast(rank, 1, MPIU_INT, 0, comm));
  PetscFunctionReturn(0);
}

/* Prints the structural rank, and a warning if it is too small. There is none if the matrix is of another type than MATAIJ */
static PetscErrorCode PrintRank(Advice *advice)
{
  PetscErrorCode ierr;
  PetscInt       rank, n;
  PetscBool      failed;

  PetscFunctionBeginUser;
  PetscCall(PetscPrintf(advice->comm, "begin\tstructural rank\n"));
  PetscCall(WatchStart(advice));
  PetscCall(AttemptBegin());
  ierr = StructuralRank(advice->A, &rank);
  PetscCall(AttemptEnd(advice->comm, ierr, &failed));
  PetscCall(WatchStop());
  if (failed || rank < 0) PetscFunctionReturn(0);
  PetscCall(MatGetSize(advice->A, &n, NULL));
  PetscCall(PetscPrintf(advice->comm, "rank\t%d\tstructural rank: %" PetscInt_FMT " of %" PetscInt_FMT " rows%s\n", rank < n, rank,
                        n,
                        rank < n ? ". The matrix is singular for all values of its nonzeros, and most right-hand sides have no "
                                   "solution. Check the model, see docs/troubleshooting.md"
                                 : ""));
  PetscFunctionReturn(0);
}

/* Reads the second right-hand side of the file; it is an error if there is only one */
static PetscErrorCode SecondRead(Advice *advice)
{
  char       file[PETSC_MAX_PATH_LEN];
  PetscBool  set, binary;
  FileReader reader;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetString(NULL, NULL, "-b", file, sizeof(file), &set));
  if (!set) PetscCall(PetscOptionsGetString(NULL, NULL, "-f", file, sizeof(file), NULL));
  PetscCall(VecLoadPetscBinary(advice->x, file, 1, &binary));
  if (binary) PetscFunctionReturn(0);
  PetscCheck(set, PETSC_COMM_SELF, PETSC_ERR_USER_INPUT, "%s: no right-hand sides", file);
  PetscCall(NumpyFileReader(file, &reader));
  PetscCall(VecLoadFile(advice->x, file, reader ? reader : MatrixMarketRead, 1));
  PetscFunctionReturn(0);
}

static PetscErrorCode AdviceGive(Advice *advice, const char heading[], PetscBool *usable)
{
  char           defaults[128] = "idrs:1,idrs:2,idrs:4,idrs:8,bcgs,gmres", extra[128], **solvers;
  int            count;
  PetscMPIInt    size;
  PetscErrorCode ierr;
  PetscBool      failed, exists, first;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(advice->A, &advice->x, &advice->r));
  PetscCall(VecNorm(advice->b, NORM_INFINITY, &advice->scale));
  PetscCall(VecAXPBY(advice->r, (PetscReal)1.0 / advice->scale, 0.0, advice->b)); /* VecCopy() would copy the norm, too */
  PetscCall(VecNorm(advice->r, NORM_2, &advice->bnorm));
  PetscCall(PetscOptionsHasName(NULL, NULL, "-structural_rank", &first));
  PetscCall(AttemptBegin());
  ierr = MatrixLook(advice);
  PetscCall(AttemptEnd(advice->comm, ierr, &failed));
  if (failed) advice->hermitian = advice->positive = PETSC_FALSE; /* the type of matrix has no transposed products */
  PetscCall(PetscOptionsGetString(NULL, NULL, "-pc_type", advice->pctype, sizeof(advice->pctype), NULL));
  PetscCall(PetscStrcmp(advice->pctype, PCLU, &advice->direct));
  advice->direct = (PetscBool)(advice->direct || !strncmp(advice->pctype, "lu:", 3));
  PetscCall(SolverExists("idr", &exists)); /* since 3.26 */
  if (exists) PetscCall(PetscStrlcat(defaults, ",idr:4", sizeof(defaults)));
  if (advice->hermitian) PetscCall(PetscStrlcat(defaults, ",cg", sizeof(defaults)));
  if (advice->direct) PetscCall(PetscStrncpy(defaults, "preonly,idrs:4", sizeof(defaults)));
  PetscCall(SolversFromOptions(advice->comm, defaults, &count, &solvers, usable));
  if (*usable) {
    PetscCall(AttemptBegin());
    ierr = OptionsRead(advice, count, solvers);
    PetscCall(AttemptEnd(advice->comm, ierr, &failed));
    if (failed) PetscCall(AttemptPrint(advice->comm));
    *usable = (PetscBool)!failed;
  }
  if (*usable) {
    PetscCallMPI(MPI_Comm_size(advice->comm, &size));
    PetscCall(PreconditionersExtra(advice, extra, sizeof(extra)));
    PetscCall(PetscPrintf(advice->comm, "system\t%s; processes: %d; about %.4g s per solve, no new run after %.4g s\t%d\t%s\n",
                          heading, size, (double)advice->limit, (double)advice->total, count, extra));
    if (first) PetscCall(PrintRank(advice));
    PetscCall(AttemptBegin());
    ierr = SecondRead(advice);
    PetscCall(AttemptEnd(advice->comm, ierr, &failed));
    if (!failed) PetscCall(PetscPrintf(advice->comm, "several\n"));
    PetscCall(PreconditionerRuns(advice, count, solvers));
  }
  PetscCall(PetscStrToArrayDestroy(count, solvers));
  PetscCall(VecDestroy(&advice->x));
  PetscCall(VecDestroy(&advice->r));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  Advice    advice = {.limit = 10.0, .total = 60.0, .rtol = 1e-8, .pctype = PCNONE};
  char      heading[3 * PETSC_MAX_PATH_LEN];
  PetscBool usable;

  PetscFunctionBeginUser;
  if (PetscDefined(HAVE_CUDA)) PetscCall(PetscOptionsSetValue(NULL, "-use_gpu_aware_mpi", "0"));
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscLogDefaultBegin()); /* counts matvecs */
  PetscCall(ChooseDevice());
  PetscCall(PetscTime(&advice.begin));
  advice.comm = PETSC_COMM_WORLD;
  PetscCall(LinearSystemLoad(advice.comm, &advice.A, &advice.b, heading, sizeof(heading), &usable));
  if (usable) {
    PetscCall(AdviceGive(&advice, heading, &usable));
    PetscCall(VecDestroy(&advice.b));
    PetscCall(MatDestroy(&advice.A));
  }
  PetscCall(PetscFinalize());
  return usable ? 0 : 1; /* the reason has been printed */
}

/*TEST

  testset:
    requires: double
    nsize: {{1 2}}
    args: -f ${PETSCIDRS_DIR}/tutorials/matrices/orsreg_1.mtx.gz -rhs random -solvers idrs:2,idrs:4
    filter: sed -n -e "s|^run.*failed: .*|failed|p" -e "s|^run.0.*-ksp_type idrs -ksp_idrs_s [24] .*-ksp_pc_side right -ksp_rtol 1e-08.*CONVERGED_RTOL|converged|p" -e "/^begin/p" -e "/^left/p"

    test:
      suffix: 1
      args: -pc_type jacobi

    test:
      suffix: failed
      args: -pc_type nosuch

TEST*/
