static char help[] = "Tries Krylov methods on a linear system with one preconditioner. petscidrs-advise and make advise call it for each preconditioner.\n\
  -f file, -b file, -column j, -rhs kind   the system, see linearsystem.h\n\
  -solvers a,b:s,...        methods, each with an optional s (default idrs:1,idrs:2,idrs:4,idrs:8,bcgs,gmres, and idr:4 where PETSc has it)\n\
  -preconditioners a,b,...  types of preconditioners, read by petscidrs-advise (default none,jacobi,poly,bjacobi,sor,asm,gamg)\n\
  -limit seconds            time limit of one solve or set-up (default 10); one that takes more than twice this and five seconds is killed\n\
  -total seconds            no run begins after this time (default 60)\n\
PETSc's options apply to all methods: -ksp_rtol 1e-8, -ksp_max_it, -ksp_gmres_restart, -pc_factor_levels, ...\n\
Where there is a GPU that PETSc can use, it runs there, unless -mat_type aij -vec_type standard say otherwise. Also runs on several processes.\n\n";

/*
   petscidrs-advise, and make advise MATRIX=file [RHS=file], are the script tools/advise, which starts this program once for each preconditioner and prints the
   results as a table. So a preconditioner that crashes, or hangs because one process has failed, does not stop the others.

   All methods are preconditioned from the right and so test the norm of the same residual. The preconditioner is set up once and
   serves all methods. Each run begins with a few iterations that are not counted: they are a warm-up, and give the number of
   iterations that fit into the time limit, so that no clock is read during the timed run.

   It prints lines of fields, separated by tabs:

     system  the system, the number of methods, a note on memory
     begin   options of the run or set-up that begins
     run     0 if correct, 1 if not, 2 if there is no solution; seconds or residual norm; options; all options to paste; the other
             columns of the table
     history options; seconds of the solve; residual norms relative to that of b, at most SAMPLES of them at equal distances
     ended   why the last run or set-up was killed
     left    the number of runs that were left out for want of time
*/
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>
#include <petscksp.h>
#include <petsctime.h>
#include "linearsystem.h"
#include "solvers.h"

#define TRIAL   30    /* iterations that are not counted; GMRES restarts after as many */
#define SAMPLES 200   /* of a history */
#define SHORT   0.05  /* seconds: solves that are repeated, */
#define AGAIN   4     /* so often */
#define HISTORY 20000 /* longest history */

typedef struct {
  char      options[256], reason[sizeof(attempt.text) + 32];
  PetscInt  its, vectors; /* vectors: number of work vectors, 0 if unknown */
  PetscReal matvecs, setup, solve, residual;
  PetscBool right; /* converged, and the true residual meets the tolerance */
} Run;

typedef struct {
  MPI_Comm       comm;
  Mat            A;
  Vec            b, x, r;
  PetscReal      limit, total, bnorm, rtol;
  PetscLogDouble begin;
  char           pctype[64];
} Advice;

/* Numbers of events so far: matvecs, applications of the preconditioner */
typedef struct {
  PetscInt matvecs, applications;
} Events;

static PetscErrorCode EventsCount(Events *events)
{
  PetscLogEvent      matvec, application;
  PetscEventPerfInfo info;

  PetscFunctionBeginUser;
  PetscCall(PetscLogEventGetId("MatMult", &matvec));
  PetscCall(PetscLogEventGetPerfInfo(0, matvec, &info));
  events->matvecs = info.count;
  PetscCall(PetscLogEventGetId("PCApply", &application));
  PetscCall(PetscLogEventGetPerfInfo(0, application, &info));
  events->applications = info.count;
  PetscFunctionReturn(0);
}

static PetscErrorCode EventsSince(const Events *before, Events *events)
{
  PetscFunctionBeginUser;
  PetscCall(EventsCount(events));
  events->matvecs -= before->matvecs;
  events->applications -= before->applications;
  PetscFunctionReturn(0);
}

/* The same on all processes, which decide by it */
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

/* Work vectors of the methods that are tried by default, as their sources allocate them; x and b not among them */
static PetscErrorCode WorkVectors(KSP ksp, const char type[], PetscInt s, PetscInt *vectors)
{
  PetscBool is;

  PetscFunctionBeginUser;
  *vectors = 0;
  PetscCall(PetscStrcmp(type, "idrs", &is));
  if (is) *vectors = 2 * s + 5;
  PetscCall(PetscStrcmp(type, "idr", &is));
  if (is) *vectors = 3 * s + 4;
  PetscCall(PetscStrcmp(type, KSPBCGS, &is));
  if (is) *vectors = 6;
  PetscCall(PetscStrcmp(type, KSPGMRES, &is));
  if (is) {
    PetscCall(KSPGMRESGetRestart(ksp, vectors));
    *vectors += 4;
  }
  PetscFunctionReturn(0);
}

/* Where a process has failed and the others wait for it, it says why; they give it the time to */
static void WatchEnd(int number)
{
  char line[sizeof(attempt.text) + 8] = "ended\t";

  if (!attempt.code) (void)sleep(1);
  strcat(line, attempt.code ? attempt.text : "out of time");
  strcat(line, "\n");
  _exit(write(STDOUT_FILENO, line, strlen(line)) < 0 ? 2 : 1);
}

/* All that comes before WatchStop() must end in time, or all processes do */
static PetscErrorCode WatchStart(const Advice *advice)
{
  double           seconds = PetscMin(2.0 * (double)advice->limit + 5.0, 1e9);
  struct itimerval timer   = {.it_value.tv_sec = (time_t)seconds};

  PetscFunctionBeginUser;
  PetscCheck(signal(SIGALRM, WatchEnd) != SIG_ERR && !setitimer(ITIMER_REAL, &timer, NULL), PETSC_COMM_SELF, PETSC_ERR_SYS, "no timer of %g s", seconds);
  PetscFunctionReturn(0);
}

static PetscErrorCode WatchStop(void)
{
  struct itimerval none = {.it_value.tv_sec = 0};

  PetscFunctionBeginUser;
  PetscCheck(!setitimer(ITIMER_REAL, &none, NULL), PETSC_COMM_SELF, PETSC_ERR_SYS, "the timer cannot be stopped");
  PetscFunctionReturn(0);
}

/* Sets up a preconditioner and applies it once, which may fail, on some processes only; usage is what one application takes */
static PetscErrorCode PreconditionerTry(Advice *advice, PC *newpc, PetscReal *seconds, Events *usage, PetscBool *failed)
{
  enum {
    CREATE,
    SET_UP,
    SET_UP_BLOCKS,
    APPLY,
    STEPS
  };
  Events         before;
  PetscLogDouble start;
  PC             pc;

  PetscFunctionBeginUser;
  PetscCall(PCCreate(advice->comm, &pc));
  PetscCall(PCSetOperators(pc, advice->A, advice->A));
  PetscCall(PetscTime(&start));
  *failed = PETSC_FALSE;
  PetscCall(WatchStart(advice));
  for (int step = 0; step < STEPS && !*failed; step++) {
    PetscErrorCode ierr = 0;

    PetscCall(EventsCount(&before));
    PetscCall(AttemptBegin());
    switch (step) {
    case CREATE:
      ierr = PCSetType(pc, advice->pctype);
      if (!ierr) ierr = PCSetFromOptions(pc);
      break;
    case SET_UP:
      ierr = PCSetUp(pc);
      break;
    case SET_UP_BLOCKS:
      ierr = PCSetUpOnBlocks(pc);
      break;
    case APPLY:
      ierr = PCApply(pc, advice->b, advice->r);
      break;
    }
    PetscCall(AttemptEnd(advice->comm, ierr, failed));
    if (step != APPLY) PetscCall(SecondsSince(advice->comm, start, seconds));
  }
  PetscCall(WatchStop());
  PetscCall(EventsSince(&before, usage));
  *newpc = pc;
  PetscFunctionReturn(0);
}

/* From x = 0 */
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

/* The solve, after some iterations that show how many of them the limit of time allows */
static PetscErrorCode LimitedSolve(Advice *advice, KSP ksp, const Events *usage, Run *run, PetscBool *failed)
{
  PetscReal          rtol, atol, dtol, rnorm, allowed;
  PetscInt           maxits, its;
  PetscBool          limited = PETSC_FALSE;
  Events             before, events;
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
    PetscCall(EventsCount(&before));
    PetscCall(TimedSolve(advice, ksp, &run->solve, failed));
    PetscCall(EventsSince(&before, &events));
    /* of short solves the shortest, as the others were disturbed */
    for (int k = 0; k < AGAIN && !*failed && run->solve < SHORT; k++) {
      PetscReal seconds;

      PetscCall(TimedSolve(advice, ksp, &seconds, failed));
      run->solve = PetscMin(run->solve, seconds);
    }
  }
  if (*failed) {
    PetscCall(PetscSNPrintf(run->reason, sizeof(run->reason), "failed: %s", attempt.text));
    PetscFunctionReturn(0);
  }
  PetscCall(KSPGetIterationNumber(ksp, &run->its));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  run->matvecs = events.matvecs - (PetscReal)usage->matvecs * events.applications / PetscMax(usage->applications, 1); /* without the matvecs of the preconditioner */
  PetscCall(MatMult(advice->A, advice->x, advice->r));
  PetscCall(VecAYPX(advice->r, -1.0, advice->b));
  PetscCall(VecNorm(advice->r, NORM_2, &rnorm));
  run->residual = advice->bnorm > 0.0 ? rnorm / advice->bnorm : rnorm;
  run->right    = (PetscBool)(reason > 0 && rnorm <= 1.1 * PetscMax(rtol * advice->bnorm, atol));
  advice->rtol  = rtol;
  if (reason == KSP_DIVERGED_ITS && limited) PetscCall(PetscStrncpy(run->reason, "out of time", sizeof(run->reason)));
  else if (reason > 0 && !run->right) PetscCall(PetscSNPrintf(run->reason, sizeof(run->reason), "%s, but the true residual is too large", KSPConvergedReasons[reason]));
  else PetscCall(PetscStrncpy(run->reason, KSPConvergedReasons[reason], sizeof(run->reason)));
  PetscFunctionReturn(0);
}

/* PrintOptions - Prints the options to paste: those of the run, and those that the user gave for all runs */
static PetscErrorCode PrintOptions(const Advice *advice, const Run *run)
{
  const char *const given[] = {"-mat_type", "-vec_type", "-use_gpu_aware_mpi", "-ksp_gmres_restart"};
  char              value[PETSC_MAX_PATH_LEN], *idrs, *poly;
  PetscBool         set;

  PetscFunctionBeginUser;
  PetscCall(PetscStrstr(run->options, "-ksp_type idrs", &idrs));
  PetscCall(PetscStrstr(run->options, "-pc_type poly", &poly));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-dll_append", value, sizeof(value), &set));
  if (set && (idrs || poly)) PetscCall(PetscPrintf(advice->comm, "-dll_append %s ", value));
  PetscCall(PetscPrintf(advice->comm, "%s -ksp_pc_side right -ksp_rtol %g", run->options, (double)advice->rtol));
  for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(given); k++) {
    PetscCall(PetscOptionsGetString(NULL, NULL, given[k], value, sizeof(value), &set));
    if (set) PetscCall(PetscPrintf(advice->comm, " %s %s", given[k], value));
  }
  PetscFunctionReturn(0);
}

/* PrintRun - Prints a row; tools/advise sorts correct runs by time, and other runs with a solution by residual norm */
static PetscErrorCode PrintRun(const Advice *advice, const Run *run)
{
  PetscInt  n;
  PetscBool solved = (PetscBool)(run->matvecs > 0 && !PetscIsInfOrNanReal(run->residual));

  PetscFunctionBeginUser;
  PetscCall(VecGetSize(advice->b, &n));
  PetscCall(PetscPrintf(advice->comm, "run\t%d\t%g\t%s\t", run->right ? 0 : (solved ? 1 : 2), run->right ? (double)(run->setup + run->solve) : (solved ? (double)run->residual : 0.0), run->options));
  PetscCall(PrintOptions(advice, run));
  PetscCall(PetscPrintf(advice->comm, "\t"));
  if (run->matvecs > 0) {
    char work[16] = "?";

    if (run->vectors) PetscCall(PetscSNPrintf(work, sizeof(work), "%.3g", 1e-6 * (double)n * sizeof(PetscScalar) * (double)run->vectors));
    PetscCall(PetscPrintf(advice->comm, "%7" PetscInt_FMT " %9.0f %9.5f %9.5f %11.2e %9s  ", run->its, (double)run->matvecs, (double)run->setup, (double)run->solve, (double)run->residual, work));
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
  for (PetscInt k = 0; k < count; k++) PetscCall(PetscPrintf(advice->comm, "%s%.3g", k ? " " : "", (double)(norms[(PetscInt)((PetscInt64)k * (n - 1) / (count - 1))] / (advice->bnorm > 0.0 ? advice->bnorm : (PetscReal)1.0))));
  PetscCall(PetscPrintf(advice->comm, "\n"));
  PetscFunctionReturn(0);
}

/* One method with the preconditioner, which has been set up */
static PetscErrorCode SolverTry(Advice *advice, const char solver[], PC pc, PetscReal setup, const Events *usage)
{
  Run       run        = {.setup = setup};
  char      option[80] = "", **parts;
  int       count;
  PetscInt  s = 0;
  PetscBool failed;
  KSP       ksp;

  PetscFunctionBeginUser;
  PetscCall(PetscStrToArray(solver, ':', &count, &parts));
  PetscCall(PetscSNPrintf(run.options, sizeof(run.options), "-ksp_type %s", parts[0]));
  if (count > 1) {
    PetscCall(PetscOptionsStringToInt(parts[1], &s));
    PetscCall(PetscSNPrintf(option, sizeof(option), "-ksp_%s_s", parts[0]));
    PetscCall(PetscOptionsSetValue(NULL, option, parts[1]));
    PetscCall(PetscSNPrintf(run.options, sizeof(run.options), "-ksp_type %s %s %s", parts[0], option, parts[1]));
  }
  PetscCall(PetscStrlcat(run.options, " -pc_type ", sizeof(run.options)));
  PetscCall(PetscStrlcat(run.options, advice->pctype, sizeof(run.options)));
  PetscCall(PetscPrintf(advice->comm, "begin\t%s\n", run.options));

  PetscCall(KSPCreate(advice->comm, &ksp));
  PetscCall(KSPSetType(ksp, parts[0]));
  PetscCall(KSPSetPC(ksp, pc));
  PetscCall(KSPSetOperators(ksp, advice->A, advice->A));
  PetscCall(KSPSetPCSide(ksp, PC_RIGHT));
  PetscCall(KSPSetTolerances(ksp, advice->rtol, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
  PetscCall(KSPSetSkipPCSetFromOptions(ksp, PETSC_TRUE));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(WorkVectors(ksp, parts[0], s, &run.vectors));
  PetscCall(LimitedSolve(advice, ksp, usage, &run, &failed));
  PetscCall(PrintRun(advice, &run));
  if (!failed) PetscCall(PrintHistory(advice, ksp, &run));
  if (!failed) PetscCall(KSPDestroy(&ksp)); /* else the preconditioner may hold work vectors of the method, which it would free */
  if (option[0]) PetscCall(PetscOptionsClearValue(NULL, option));
  PetscCall(PetscStrToArrayDestroy(count, parts));
  PetscFunctionReturn(0);
}

static PetscErrorCode PreconditionerRuns(Advice *advice, int count, char *solvers[])
{
  PC        pc;
  PetscReal setup = 0.0, elapsed;
  int       made  = 0;
  Run       run   = {.right = PETSC_FALSE};
  Events    usage;
  PetscBool failed;

  PetscFunctionBeginUser;
  PetscCall(SecondsSince(advice->comm, advice->begin, &elapsed));
  if (elapsed <= advice->total) {
    PetscCall(PetscSNPrintf(run.options, sizeof(run.options), "-pc_type %s", advice->pctype));
    PetscCall(PetscPrintf(advice->comm, "begin\t%s\n", run.options));
    PetscCall(PreconditionerTry(advice, &pc, &setup, &usage, &failed));
    if (failed) { /* PCDestroy() might free b, which a PC that failed in PCApply() may still hold */
      PetscCall(PetscSNPrintf(run.reason, sizeof(run.reason), "set-up failed: %s", attempt.text));
      PetscCall(PrintRun(advice, &run));
      made = count;
    } else {
      for (; made < count && elapsed <= advice->total; made++) {
        PetscCall(SolverTry(advice, solvers[made], pc, setup, &usage));
        PetscCall(SecondsSince(advice->comm, advice->begin, &elapsed));
      }
      PetscCall(PCDestroy(&pc));
    }
  }
  PetscCall(PetscPrintf(advice->comm, "left\t%d\n", count - made));
  PetscFunctionReturn(0);
}

/* What the program or tools/advise varies */
static PetscErrorCode OptionsCheck(MPI_Comm comm, PetscBool *usable)
{
  const char *const chosen[] = {"-ksp_type", "-ksp_pc_side"};
  PetscBool         set;

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(chosen) && *usable; i++) {
    PetscCall(PetscOptionsHasName(NULL, NULL, chosen[i], &set));
    if (set) {
      PetscCall(PetscSNPrintf(attempt.text, sizeof(attempt.text), "%s is what this program chooses itself; list the candidates with -solvers and -preconditioners", chosen[i]));
      PetscCall(AttemptPrint(comm));
      *usable = PETSC_FALSE;
    }
  }
  PetscFunctionReturn(0);
}

/* The types for the GPU, where there is one that PETSc can use, and the options name no types. An MPI that cannot read its memory does */
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

static PetscErrorCode PrintSystem(const Advice *advice, int count)
{
  char        file[PETSC_MAX_PATH_LEN];
  PetscInt    n;
  PetscMPIInt size;
  MatInfo     info;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetString(NULL, NULL, "-f", file, sizeof(file), NULL));
  PetscCall(MatGetSize(advice->A, &n, NULL));
  PetscCall(MatGetInfo(advice->A, MAT_GLOBAL_SUM, &info));
  PetscCallMPI(MPI_Comm_size(advice->comm, &size));
  PetscCall(PetscPrintf(advice->comm, "system\t%s: %" PetscInt_FMT " rows, %.0f nonzeros, processes: %d; at most %.4g s per solve, %.4g s in total\t%d\t", file, n, info.nz_used, size, (double)advice->limit, (double)advice->total, count));
  PetscCall(PetscPrintf(advice->comm, "work MB: memory of the work vectors, without x and b. Where nothing converges, try idrs with s = 16: %d vectors, %.3g MB\n", 2 * 16 + 5, (2 * 16 + 5) * 1e-6 * (double)n * sizeof(PetscScalar)));
  PetscFunctionReturn(0);
}

static PetscErrorCode AdviceGive(Advice *advice, int count, char *solvers[])
{
  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-limit", &advice->limit, NULL));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-total", &advice->total, NULL));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-pc_type", advice->pctype, sizeof(advice->pctype), NULL));
  PetscCall(PrintSystem(advice, count));
  PetscCall(VecNorm(advice->b, NORM_2, &advice->bnorm));
  PetscCall(MatCreateVecs(advice->A, &advice->x, &advice->r));
  PetscCall(PreconditionerRuns(advice, count, solvers));
  PetscCall(VecDestroy(&advice->x));
  PetscCall(VecDestroy(&advice->r));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  Advice    advice        = {.limit = 10.0, .total = 60.0, .rtol = 1e-8, .pctype = PCNONE};
  char      defaults[128] = "idrs:1,idrs:2,idrs:4,idrs:8,bcgs,gmres", **solvers;
  int       count;
  PetscBool usable;

  PetscFunctionBeginUser;
  if (PetscDefined(HAVE_CUDA)) PetscCall(PetscOptionsSetValue(NULL, "-use_gpu_aware_mpi", "0"));
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscLogDefaultBegin()); /* counts matvecs */
  PetscCall(ChooseDevice());
  PetscCall(PetscTime(&advice.begin));
  advice.comm = PETSC_COMM_WORLD;
  PetscCall(SolverExists("idr", &usable)); /* came with 3.26 */
  if (usable) PetscCall(PetscStrlcat(defaults, ",idr:4", sizeof(defaults)));
  PetscCall(SolversFromOptions(advice.comm, defaults, &count, &solvers, &usable));
  PetscCall(OptionsCheck(advice.comm, &usable));
  if (usable) PetscCall(LinearSystemLoad(advice.comm, &advice.A, &advice.b, &usable));
  if (usable) {
    PetscCall(AdviceGive(&advice, count, solvers));
    PetscCall(VecDestroy(&advice.b));
    PetscCall(MatDestroy(&advice.A));
  }
  PetscCall(PetscStrToArrayDestroy(count, solvers));
  PetscCall(PetscFinalize());
  return usable ? 0 : 1; /* what is wrong with the input has been said */
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
