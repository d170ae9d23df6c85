static char help[] = "Which Krylov method and preconditioner for this linear system: tries them, prints a table, the fastest first, and the options to paste.\n\
  -f file, -b file, -column j, -rhs kind   the system, as in linearsystem.h\n\
  -solvers a,b:s,...        methods, some with their s (default idrs:1,idrs:2,idrs:4,idrs:8,bcgs,gmres, and idr:4 where PETSc has it)\n\
  -preconditioners a,b,...  their types (default none,jacobi,bjacobi,sor,asm,gamg)\n\
  -limit seconds            of one solve (default 10); the set-up of a preconditioner cannot be interrupted\n\
  -total seconds            after which no other run begins (default 300)\n\
Tolerance, iterations and more as always, for all methods: -ksp_rtol 1e-8, -ksp_max_it, -ksp_gmres_restart, -pc_factor_levels, ...\n\
On a GPU: -mat_type aijcusparse -vec_type cuda. Runs in parallel too.\n\n";

/*
   make advise MATRIX=file [RHS=file] calls this program.

   All methods are preconditioned from the right and so test the norm of the same residual. A preconditioner is set up once and
   serves all methods. Each run begins with a few iterations that are not counted: they warm up, and tell how many iterations
   fit into the limit of time, so that the run itself is not disturbed by a clock.
*/
#include <unistd.h>
#include <petscksp.h>
#include <petsctime.h>
#include "linearsystem.h"
#include "solvers.h"

#define TRIAL 30 /* iterations that are not counted: as many as GMRES makes before it restarts */

typedef struct {
  char      options[256], reason[96];
  PetscInt  its, vectors; /* vectors is 0 where it is not known */
  PetscReal products, setup, solve, residual;
  PetscBool right, idrs; /* right: converged, and the true residual is as small as was asked for */
} Run;

typedef struct {
  MPI_Comm       comm;
  Mat            A;
  Vec            b, x, r;
  PetscReal      limit, total, bnorm, rtol;
  PetscLogDouble begin;
  PetscInt       planned, made;
  Run           *runs;
} Advice;

/* Events so far: products with a matrix, applications of a preconditioner */
typedef struct {
  PetscInt products, applications;
} Events;

static PetscErrorCode EventsCount(Events *events)
{
  PetscLogEvent      product, application;
  PetscEventPerfInfo info;

  PetscFunctionBeginUser;
  PetscCall(PetscLogEventGetId("MatMult", &product));
  PetscCall(PetscLogEventGetPerfInfo(0, product, &info));
  events->products = info.count;
  PetscCall(PetscLogEventGetId("PCApply", &application));
  PetscCall(PetscLogEventGetPerfInfo(0, application, &info));
  events->applications = info.count;
  PetscFunctionReturn(0);
}

static PetscErrorCode EventsSince(const Events *before, Events *events)
{
  PetscFunctionBeginUser;
  PetscCall(EventsCount(events));
  events->products -= before->products;
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

/* What goes on, on a terminal only; a line that the next one overwrites, and NULL wipes out */
static PetscErrorCode Progress(const Advice *advice, const char text[])
{
  char line[128] = "";

  PetscFunctionBeginUser;
  if (!isatty(STDERR_FILENO)) PetscFunctionReturn(0);
  if (text) PetscCall(PetscSNPrintf(line, sizeof(line), "%" PetscInt_FMT " of %" PetscInt_FMT ": %s", advice->made, advice->planned, text));
  PetscCall(PetscFPrintf(advice->comm, PETSC_STDERR, "\r%-78.78s\r", line));
  PetscFunctionReturn(0);
}

/* Sets up a preconditioner and applies it once, which may fail, on some processes only; usage is what one application takes */
static PetscErrorCode PreconditionerTry(Advice *advice, const char type[], PC *newpc, PetscReal *seconds, Events *usage, PetscBool *failed)
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
  for (int step = 0; step < STEPS && !*failed; step++) {
    PetscErrorCode ierr = 0;

    PetscCall(EventsCount(&before));
    PetscCall(AttemptBegin());
    switch (step) {
    case CREATE:
      ierr = PCSetType(pc, type);
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
  PetscCall(PetscBarrier((PetscObject)ksp));
  PetscCall(PetscTime(&start));
  PetscCall(AttemptBegin());
  ierr = KSPSolve(ksp, advice->b, advice->x);
  PetscCall(AttemptEnd(advice->comm, ierr, failed));
  PetscCall(SecondsSince(advice->comm, start, seconds));
  PetscFunctionReturn(0);
}

/* The solve, after some iterations that show how many of them the limit of time allows */
static PetscErrorCode LimitedSolve(Advice *advice, KSP ksp, const Events *usage, Run *run)
{
  PetscReal          rtol, atol, dtol, rnorm, allowed;
  PetscInt           maxits, its;
  PetscBool          failed, limited = PETSC_FALSE;
  Events             before, events;
  KSPConvergedReason reason;

  PetscFunctionBeginUser;
  PetscCall(KSPGetTolerances(ksp, &rtol, &atol, &dtol, &maxits));
  PetscCall(KSPSetTolerances(ksp, rtol, atol, dtol, PetscMin(TRIAL, maxits)));
  PetscCall(TimedSolve(advice, ksp, &run->solve, &failed));
  if (!failed) {
    PetscCall(KSPGetIterationNumber(ksp, &its));
    allowed = run->solve > 0.0 ? advice->limit / run->solve * PetscMax(its, 1) : maxits;
    limited = (PetscBool)(allowed < maxits);
    PetscCall(KSPSetTolerances(ksp, rtol, atol, dtol, limited ? PetscMax((PetscInt)allowed, 1) : maxits));
    PetscCall(EventsCount(&before));
    PetscCall(TimedSolve(advice, ksp, &run->solve, &failed));
    PetscCall(EventsSince(&before, &events));
  }
  if (failed) {
    PetscCall(PetscSNPrintf(run->reason, sizeof(run->reason), "failed: %s", attempt.text));
    PetscFunctionReturn(0);
  }
  PetscCall(KSPGetIterationNumber(ksp, &run->its));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  run->products = events.products - (PetscReal)usage->products * events.applications / PetscMax(usage->applications, 1); /* without those inside the preconditioner */
  PetscCall(MatMult(advice->A, advice->x, advice->r));
  PetscCall(VecAYPX(advice->r, -1.0, advice->b));
  PetscCall(VecNorm(advice->r, NORM_2, &rnorm));
  run->residual = advice->bnorm > 0.0 ? rnorm / advice->bnorm : rnorm;
  run->right    = (PetscBool)(reason > 0 && rnorm <= 1.1 * PetscMax(rtol * advice->bnorm, atol));
  advice->rtol  = rtol;
  if (reason == KSP_DIVERGED_ITS && limited) PetscCall(PetscStrncpy(run->reason, "out of time", sizeof(run->reason)));
  else if (reason > 0 && !run->right) PetscCall(PetscSNPrintf(run->reason, sizeof(run->reason), "%s, but not so", KSPConvergedReasons[reason]));
  else PetscCall(PetscStrncpy(run->reason, KSPConvergedReasons[reason], sizeof(run->reason)));
  PetscFunctionReturn(0);
}

/* One method with a preconditioner that has been set up */
static PetscErrorCode SolverTry(Advice *advice, const char solver[], const char pctype[], PC pc, PetscReal setup, const Events *usage)
{
  Run     *run        = &advice->runs[advice->made++];
  char     option[80] = "", **parts;
  int      count;
  PetscInt s = 0;
  KSP      ksp;

  PetscFunctionBeginUser;
  PetscCall(PetscStrToArray(solver, ':', &count, &parts));
  PetscCall(PetscStrcmp(parts[0], "idrs", &run->idrs));
  PetscCall(PetscSNPrintf(run->options, sizeof(run->options), "-ksp_type %s", parts[0]));
  if (count > 1) {
    PetscCall(PetscOptionsStringToInt(parts[1], &s));
    PetscCall(PetscSNPrintf(option, sizeof(option), "-ksp_%s_s", parts[0]));
    PetscCall(PetscOptionsSetValue(NULL, option, parts[1]));
    PetscCall(PetscSNPrintf(run->options, sizeof(run->options), "-ksp_type %s %s %s", parts[0], option, parts[1]));
  }
  PetscCall(PetscStrlcat(run->options, " -pc_type ", sizeof(run->options)));
  PetscCall(PetscStrlcat(run->options, pctype, sizeof(run->options)));
  PetscCall(Progress(advice, run->options));

  PetscCall(KSPCreate(advice->comm, &ksp));
  PetscCall(KSPSetType(ksp, parts[0]));
  PetscCall(KSPSetPC(ksp, pc));
  PetscCall(KSPSetOperators(ksp, advice->A, advice->A));
  PetscCall(KSPSetPCSide(ksp, PC_RIGHT));
  PetscCall(KSPSetTolerances(ksp, advice->rtol, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
  PetscCall(KSPSetSkipPCSetFromOptions(ksp, PETSC_TRUE));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(WorkVectors(ksp, parts[0], s, &run->vectors));
  run->setup = setup;
  PetscCall(LimitedSolve(advice, ksp, usage, run));
  PetscCall(KSPDestroy(&ksp));
  if (option[0]) PetscCall(PetscOptionsClearValue(NULL, option));
  PetscCall(PetscStrToArrayDestroy(count, parts));
  PetscFunctionReturn(0);
}

/* All methods with one preconditioner */
static PetscErrorCode PreconditionerRuns(Advice *advice, const char pctype[], int count, char *solvers[])
{
  PC        pc;
  PetscReal setup = 0.0, elapsed = 0.0;
  char      step[80];
  Events    usage;
  PetscBool failed;

  PetscFunctionBeginUser;
  PetscCall(SecondsSince(advice->comm, advice->begin, &elapsed));
  if (elapsed > advice->total) PetscFunctionReturn(0);
  PetscCall(PetscSNPrintf(step, sizeof(step), "set-up of -pc_type %s", pctype));
  PetscCall(Progress(advice, step));
  PetscCall(PreconditionerTry(advice, pctype, &pc, &setup, &usage, &failed));
  if (failed) {
    Run *run = &advice->runs[advice->made++];

    PetscCall(PetscSNPrintf(run->options, sizeof(run->options), "-pc_type %s", pctype));
    PetscCall(PetscSNPrintf(run->reason, sizeof(run->reason), "set-up failed: %s", attempt.text));
    run->setup = setup;
    advice->planned -= count - 1;
  }
  for (int i = 0; i < count && !failed; i++) {
    PetscCall(SecondsSince(advice->comm, advice->begin, &elapsed));
    if (elapsed <= advice->total) PetscCall(SolverTry(advice, solvers[i], pctype, pc, setup, &usage));
  }
  PetscCall(PCDestroy(&pc));
  PetscFunctionReturn(0);
}

/* Those that are right come first, the fastest of them before the others; then those that got furthest */
static int RunCompare(const void *one, const void *other)
{
  const Run *a = (const Run *)one, *b = (const Run *)other;

  if (a->right != b->right) return a->right ? -1 : 1;
  if (a->right) return a->setup + a->solve < b->setup + b->solve ? -1 : 1;
  if ((a->products > 0) != (b->products > 0)) return a->products > 0 ? -1 : 1;
  return a->residual < b->residual ? -1 : 1;
}

static PetscErrorCode PrintTable(const Advice *advice)
{
  PetscInt  n;
  PetscReal megabytes;

  PetscFunctionBeginUser;
  PetscCall(Progress(advice, NULL));
  PetscCall(VecGetSize(advice->b, &n));
  megabytes = 1e-6 * n * sizeof(PetscScalar);
  PetscCall(PetscPrintf(advice->comm, "%-46s %7s %9s %9s %9s %11s %9s  %s\n", "options", "its", "products", "set-up s", "solve s", "|b-Ax|/|b|", "work MB", "reason"));
  for (PetscInt i = 0; i < advice->made; i++) {
    const Run *run      = &advice->runs[i];
    char       work[16] = "?";

    if (run->vectors) PetscCall(PetscSNPrintf(work, sizeof(work), "%.3g", (double)(run->vectors * megabytes)));
    if (run->products > 0)
      PetscCall(PetscPrintf(advice->comm, "%-46s %7" PetscInt_FMT " %9.0f %9.4f %9.4f %11.2e %9s  %s\n", run->options, run->its, (double)run->products, (double)run->setup, (double)run->solve, (double)run->residual, work, run->reason));
    else PetscCall(PetscPrintf(advice->comm, "%-46s %s\n", run->options, run->reason));
  }
  PetscCall(PetscPrintf(advice->comm, "\nwork: vectors of the method besides x and b; idrs with s = 16 would take %d, %.3g MB, and is worth a try where nothing else converges\n", 2 * 16 + 5, (double)((2 * 16 + 5) * megabytes)));
  if (advice->made < advice->planned) PetscCall(PetscPrintf(advice->comm, "%" PetscInt_FMT " runs left out, after the %g s of -total\n", advice->planned - advice->made, (double)advice->total));
  PetscFunctionReturn(0);
}

/* The options of the first run that is right, with idrs or any method; those that the user gave for all runs belong to them */
static PetscErrorCode PrintOptions(const Advice *advice, PetscBool idrs, const char what[])
{
  const char *const given[] = {"-mat_type", "-vec_type", "-ksp_gmres_restart"};
  char              value[PETSC_MAX_PATH_LEN];
  PetscInt          i = 0;
  PetscBool         set;

  PetscFunctionBeginUser;
  while (i < advice->made && idrs && !advice->runs[i].idrs) i++;
  if (i == advice->made || !advice->runs[i].right) {
    PetscCall(PetscPrintf(advice->comm, "\n%s: none; try -solvers idrs:16, more time with -limit, or a stronger preconditioner\n", what));
    PetscFunctionReturn(0);
  }
  PetscCall(PetscPrintf(advice->comm, "\n%s:\n ", what));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-dll_append", value, sizeof(value), &set));
  if (set && advice->runs[i].idrs) PetscCall(PetscPrintf(advice->comm, " -dll_append %s", value));
  PetscCall(PetscPrintf(advice->comm, " %s -ksp_pc_side right -ksp_rtol %g", advice->runs[i].options, (double)advice->rtol));
  for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(given); k++) {
    PetscCall(PetscOptionsGetString(NULL, NULL, given[k], value, sizeof(value), &set));
    if (set) PetscCall(PetscPrintf(advice->comm, " %s %s", given[k], value));
  }
  PetscCall(PetscPrintf(advice->comm, "\n"));
  PetscFunctionReturn(0);
}

/* Types of method or preconditioner are what the program varies */
static PetscErrorCode OptionsCheck(MPI_Comm comm, PetscBool *usable)
{
  const char *const chosen[] = {"-ksp_type", "-pc_type", "-ksp_pc_side"};
  PetscBool         set;

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(chosen) && *usable; i++) {
    PetscCall(PetscOptionsHasName(NULL, NULL, chosen[i], &set));
    if (set) {
      PetscCall(PetscSNPrintf(attempt.text, sizeof(attempt.text), "%s is what this program chooses itself; name what it is to try with -solvers and -preconditioners", chosen[i]));
      PetscCall(AttemptPrint(comm));
      *usable = PETSC_FALSE;
    }
  }
  PetscFunctionReturn(0);
}

static PetscErrorCode AdviceGive(Advice *advice, int count, char *solvers[])
{
  char        file[PETSC_MAX_PATH_LEN], types[256] = "none,jacobi,bjacobi,sor,asm,gamg", **preconditioners;
  int         kinds;
  PetscInt    n;
  PetscMPIInt size;
  MatInfo     info;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-limit", &advice->limit, NULL));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-total", &advice->total, NULL));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-preconditioners", types, sizeof(types), NULL));
  PetscCall(PetscStrToArray(types, ',', &kinds, &preconditioners));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-f", file, sizeof(file), NULL));
  PetscCall(MatGetSize(advice->A, &n, NULL));
  PetscCall(MatGetInfo(advice->A, MAT_GLOBAL_SUM, &info));
  PetscCallMPI(MPI_Comm_size(advice->comm, &size));
  PetscCall(PetscPrintf(advice->comm, "%s: %" PetscInt_FMT " rows, %.0f nonzeros, processes: %d; at most %.4g s per solve, %.4g s in total\n\n", file, n, info.nz_used, size, (double)advice->limit, (double)advice->total));

  PetscCall(VecNorm(advice->b, NORM_2, &advice->bnorm));
  PetscCall(MatCreateVecs(advice->A, &advice->x, &advice->r));
  advice->planned = count * kinds;
  PetscCall(PetscCalloc1(advice->planned, &advice->runs));
  PetscCall(PetscTime(&advice->begin));
  for (int i = 0; i < kinds; i++) PetscCall(PreconditionerRuns(advice, preconditioners[i], count, solvers));
  qsort(advice->runs, (size_t)advice->made, sizeof(Run), RunCompare);
  PetscCall(PrintTable(advice));
  PetscCall(PrintOptions(advice, PETSC_FALSE, "The fastest"));
  if (advice->made && !advice->runs[0].idrs) PetscCall(PrintOptions(advice, PETSC_TRUE, "The fastest with idrs"));
  PetscCall(PetscFree(advice->runs));
  PetscCall(PetscStrToArrayDestroy(kinds, preconditioners));
  PetscCall(VecDestroy(&advice->x));
  PetscCall(VecDestroy(&advice->r));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  Advice    advice        = {.limit = 10.0, .total = 300.0, .rtol = 1e-8};
  char      defaults[128] = "idrs:1,idrs:2,idrs:4,idrs:8,bcgs,gmres", **solvers;
  int       count;
  PetscBool usable;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscLogDefaultBegin()); /* counts products */
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

  # the times, and so the order, vary; what failed is last
  test:
    requires: double
    nsize: {{1 2}}
    args: -f ${PETSCIDRS_DIR}/tutorials/matrices/orsreg_1.mtx.gz -rhs random -solvers idrs:2,idrs:4 -preconditioners jacobi,none,nosuch
    filter: sed -n -e "s|.* failed: .*|failed|p" -e "s|.*idrs_s [24].* CONVERGED_RTOL|converged|p" -e "/^The fastest/p" -e "s|^  .*-ksp_type idrs -ksp_idrs_s [24] .*-ksp_pc_side right -ksp_rtol 1e-08.*|options|p"

TEST*/
