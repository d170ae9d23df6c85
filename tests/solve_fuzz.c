static char help[] = "KSPIDRS in random use: small systems of many kinds, settings that change between solves, and after each\n\
solve the checks that every solve must pass.\n\
  -seed n : seed of the first run; it increases by 1 from run to run\n\
  -runs n : largest number of runs\n\
  -seconds t : no run begins after this time\n\
  -ksp_idrs_implementation name : only this back end\n\
The harness implies -malloc_dump, by which leaks are found. A finding is printed with the options that repeat it.\n\n";

#include "systems.h"

#include <signal.h>
#if PetscDefined(HAVE_UNISTD_H)
  #include <unistd.h>
#endif

#define MAX_COLUMNS 20
#define MAX_N       200
#define MAX_S       20

/* Seconds after which a run counts as hanging */
#define DEADLINE 120

/* Random decisions, which are the same on all processes, and random numbers for a place in a matrix or vector */
static PetscInt seed;
static uint64_t state;

static uint64_t Mix(uint64_t x)
{
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* Returns one of 0 ... n-1 */
static PetscInt Pick(PetscInt n)
{
  state += 0x9e3779b97f4a7c15u;
  return (PetscInt)(Mix(state) % (uint64_t)n);
}

static PetscBool Once(PetscInt n)
{
  return Pick(n) ? PETSC_FALSE : PETSC_TRUE;
}

/* Returns a number between -1 and 1 */
static PetscReal Noise(uint64_t key, PetscInt i, PetscInt j)
{
  const uint64_t bits = Mix(Mix(Mix(key) + (uint64_t)i) + (uint64_t)j);

  return (PetscReal)((double)(bits >> 11) / 4503599627370496.0 - 1.0);
}

/* The same, complex if scalars are complex */
static PetscScalar NoiseScalar(uint64_t key, PetscInt i, PetscInt j)
{
#if PetscDefined(USE_COMPLEX)
  return PetscCMPLX(Noise(key, i, j), Noise(key + 1, i, j));
#else
  return Noise(key, i, j);
#endif
}

/* Returns a power of ten: mostly of moderate size, sometimes so large or small that squares overflow or underflow */
static PetscReal Scale(void)
{
  const PetscReal most = PetscLog10Real(PETSC_MAX_REAL) * (PetscReal)(Once(4) ? 0.9 : 0.3);

  return PetscPowReal(10.0, Noise(state, 0, Pick(1000)) * (Once(3) ? most : 3));
}

/* Prints the finding of this run, and the options that repeat it */
static PetscErrorCode Finding(const char what[])
{
  PetscMPIInt size;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(Complain("%s: -seed %" INT " -runs 1 on %d process(es)", what, seed, size));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A run that crashes or hangs prints its seed */
static void Hang(int number)
{
  fprintf(stderr, "fuzz: hangs with -seed %ld -runs 1\n", (long)seed);
  abort();
}

static PetscErrorCode Crash(int number, void *ctx)
{
  fprintf(stderr, "fuzz: crashes with -seed %ld -runs 1\n", (long)seed);
  return PetscSignalHandlerDefault(number, ctx);
}

static void Deadline(unsigned int seconds)
{
#if PetscDefined(HAVE_UNISTD_H)
  signal(SIGALRM, Hang);
  EndAfter(seconds);
#endif
}

/*
   The systems
*/
typedef enum {
  KIND_DENSE,
  KIND_SPARSE,
  KIND_CONVECTION,
  KIND_NEARLY_SINGULAR, /* two rows that are equal up to rounding */
  KIND_ZERO_ROW,
  KIND_SCALED, /* rows of very different sizes */
  KIND_SKEW,
  KIND_INDEFINITE,
  KIND_SHIFT,  /* a cyclic permutation */
  KIND_CIRCLE, /* row sums are zero: the constants are the null space */
  KIND_ZERO,
  KIND_IDENTITY,
  KIND_NAN,
  KINDS
} Kind;

typedef struct {
  Kind      kind;
  PetscInt  N;
  uint64_t  key;
  PetscReal scale, shift;
  PetscBool space; /* the null space is attached */
  Mat       A;
} System;

static PetscScalar SystemEntry(const System *system, PetscInt i, PetscInt j)
{
  const PetscInt    N      = system->N;
  const PetscReal   zero   = 0.0;
  const PetscScalar sparse = i == j ? 2.0 + PetscAbsReal(Noise(system->key, i, i))
                                    : (Noise(system->key + 2, i, j) < 6.0 / N - 1.0 ? NoiseScalar(system->key, i, j) : 0.0);

  switch (system->kind) {
  case KIND_DENSE:
    return NoiseScalar(system->key, i, j) + (i == j ? system->shift : 0.0);
  case KIND_CONVECTION:
    return i == j ? 2.2 : (j == i + 1 ? -1.0 + system->shift : (j == i - 1 ? -1.0 - system->shift : 0.0));
  case KIND_NEARLY_SINGULAR:
    return i == N - 1 && N > 1 ? (j ? 0.0 : 1.0) + (j == 1 ? 0.5 : 0.0) + 10 * PETSC_MACHINE_EPSILON * Noise(system->key, i, j)
                               : (i == 0 ? (j ? 0.0 : 1.0) + (j == 1 ? 0.5 : 0.0) : sparse);
  case KIND_ZERO_ROW:
    return i == N / 2 ? 0.0 : sparse;
  case KIND_SCALED:
    return sparse * PetscPowReal(10.0, 6 * Noise(system->key + 3, i, 0));
  case KIND_SKEW:
    return j == i + 1 ? 1.0 + 0.1 * i : (j == i - 1 ? -1.0 - 0.1 * j : 0.0);
  case KIND_INDEFINITE:
    return i % 2 ? -sparse : sparse;
  case KIND_SHIFT:
    return j == (i + 1) % N ? 1.0 : 0.0;
  case KIND_CIRCLE:
    return N < 3 ? 0.0 : (i == j ? 2.0 : (j == (i + 1) % N ? -1.8 : (i == (j + 1) % N ? -0.2 : 0.0)));
  case KIND_ZERO:
    return 0.0;
  case KIND_IDENTITY:
    return i == j ? 1.0 : 0.0;
  case KIND_NAN:
    return i == N / 2 && j == N / 3 ? zero / zero : sparse;
  default:
    return sparse;
  }
}

/* Returns PETSC_TRUE if PETSc can divide by the diagonal of this matrix. Small numbers count as zero */
static PetscBool HasDiagonal(const System *system)
{
  if (!(system->scale > 1e-3)) return PETSC_FALSE;
  return system->kind == KIND_SPARSE || system->kind == KIND_CONVECTION || system->kind == KIND_INDEFINITE ||
             system->kind == KIND_IDENTITY
         ? PETSC_TRUE
         : PETSC_FALSE;
}

/* Sets ordinary to PETSC_TRUE if the system has a solution, and all numbers on the way to it are far from overflow */
static PetscErrorCode Ordinary(const System *system, Vec b, Vec x0, PetscBool *ordinary)
{
  const PetscBool regular = (PetscBool)(HasDiagonal(system) || system->kind == KIND_DENSE || system->kind == KIND_SCALED ||
                                        system->kind == KIND_SHIFT);
  const PetscReal most    = PetscPowReal(PETSC_MAX_REAL, (PetscReal)0.3);
  PetscReal       bnorm, xnorm;

  PetscFunctionBeginUser;
  PetscCall(VecNorm(b, NORM_INFINITY, &bnorm));
  PetscCall(VecNorm(x0, NORM_INFINITY, &xnorm));
  *ordinary = (PetscBool)(regular && bnorm / system->scale < most && xnorm < most && xnorm * system->scale < most);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Chooses local sizes: equal ones, or any, with empty processes */
static PetscErrorCode LocalSize(PetscInt N, PetscInt *n)
{
  const PetscBool even = Once(2);
  PetscInt        left = N, mine = PETSC_DECIDE;
  PetscMPIInt     rank, size;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &size));
  for (PetscMPIInt p = 0; p < size; p++) {
    const PetscInt part = p == size - 1 ? left : Pick(left + 1);

    if (p == rank && !even) mine = part;
    left -= part;
  }
  *n = mine;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SystemCreate(System *system)
{
  PetscInt    n = 0, begin, end, columns[MAX_N];
  PetscScalar values[MAX_N];

  PetscFunctionBeginUser;
  system->kind  = (Kind)Pick(KINDS);
  system->N     = Once(3) ? Pick(5) : (Once(3) ? Pick(MAX_N + 1) : Pick(40));
  system->key   = Mix(state);
  system->scale = Once(3) ? Scale() : 1.0;
  system->shift = Pick(4) * 0.4 * (system->kind == KIND_DENSE ? PetscSqrtReal((PetscReal)system->N) : 1.0);
  system->space = (PetscBool)(system->kind == KIND_CIRCLE && Once(2));
  PetscCall(LocalSize(system->N, &n));
  PetscCall(MatCreate(PETSC_COMM_WORLD, &system->A));
  PetscCall(MatSetSizes(system->A, n, n, system->N, system->N));
  PetscCall(MatSetType(system->A, MATAIJ));
  PetscCall(MatSetFromOptions(system->A));
  PetscCall(MatSeqAIJSetPreallocation(system->A, system->N, NULL));
  PetscCall(MatMPIAIJSetPreallocation(system->A, system->N, NULL, system->N, NULL));
  PetscCall(MatGetOwnershipRange(system->A, &begin, &end));
  for (PetscInt i = begin; i < end; i++) {
    PetscInt count = 0;

    for (PetscInt j = 0; j < system->N; j++) {
      const PetscScalar value = system->scale * SystemEntry(system, i, j);

      if (value == (PetscScalar)0.0 && i != j) continue;
      columns[count]  = j;
      values[count++] = value;
    }
    PetscCall(MatSetValues(system->A, 1, &i, count, columns, values, INSERT_VALUES));
  }
  PetscCall(MatAssemble(system->A));
  if (Once(5)) PetscCall(MatConvert(system->A, MATDENSE, MAT_INPLACE_MATRIX, &system->A));
  if (system->space) {
    MatNullSpace constants;

    PetscCall(MatNullSpaceCreate(PETSC_COMM_WORLD, PETSC_TRUE, 0, NULL, &constants));
    PetscCall(MatSetNullSpace(system->A, constants));
    PetscCall(MatNullSpaceDestroy(&constants));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode VecSetNoise(Vec x, uint64_t key, PetscReal scale)
{
  PetscInt     begin, end;
  PetscScalar *array;

  PetscFunctionBeginUser;
  PetscCall(VecGetOwnershipRange(x, &begin, &end));
  PetscCall(VecGetArrayWrite(x, &array));
  for (PetscInt i = begin; i < end; i++) array[i - begin] = scale * NoiseScalar(key, i, 0);
  PetscCall(VecRestoreArrayWrite(x, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the right-hand side, and a guess, which may be the solution */
static PetscErrorCode VecsSet(const System *system, Vec b, Vec x0)
{
  PetscFunctionBeginUser;
  if (Once(6)) PetscCall(VecSet(x0, 0.0));
  else PetscCall(VecSetNoise(x0, Mix(state), Scale()));
  switch (Pick(6)) {
  case 0:
    PetscCall(VecSet(b, 0.0));
    break;
  case 1:
    PetscCall(VecSet(b, 0.0));
    if (system->N) PetscCall(VecSetValue(b, Pick(system->N), Scale(), INSERT_VALUES));
    PetscCall(VecAssemble(b));
    break;
  case 2:
    PetscCall(MatMult(system->A, x0, b));
    if (Once(2)) PetscCall(VecSetNoise(x0, Mix(state), Scale()));
    break;
  default:
    PetscCall(VecSetNoise(b, Mix(state), Scale()));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The solvers
*/
typedef struct {
  KSP       ksp;
  PetscBool varies; /* the preconditioner varies between applications */
  PetscBool transposable, guess;
  PetscReal rtol, atol;
  PetscInt  max_it, applications, reports;
} Solver;

static PetscErrorCode VaryingApply(PC pc, Vec x, Vec y)
{
  void *ctx;

  PetscFunctionBeginUser;
  PetscCall(PCShellGetContext(pc, &ctx));
  PetscCall(VecCopy(x, y));
  PetscCall(VecScale(y, 1.0 + 0.3 * PetscSinReal((PetscReal)((Solver *)ctx)->applications++)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes solution and residual of this iteration */
static PetscErrorCode Look(KSP ksp, PetscInt its, PetscReal rnorm, void *ctx)
{
  Vec x, r;

  PetscFunctionBeginUser;
  ((Solver *)ctx)->reports++;
  if (its % 3 == 0) PetscCall(KSPBuildSolution(ksp, NULL, &x));
  if (its % 5 == 0) {
    PetscCall(KSPBuildResidual(ksp, NULL, NULL, &r));
    PetscCall(VecDestroy(&r));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SetPreconditioner(Solver *solver, const System *system)
{
  const char *const types[] = {PCNONE, PCJACOBI, PCSHELL, PCPOLY, PCSOR, PCBJACOBI, PCILU};
  PetscBool         aij, same;
  PetscMPIInt       size;
  PetscInt          which;
  PC                pc;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)system->A, &aij, MATSEQAIJ, MATMPIAIJ, ""));
  /* the last types need the entries of a sparse matrix, and PETSc's types its diagonal */
  which = Pick(aij && HasDiagonal(system) && system->N ? (size == 1 ? 7 : 6) : 4);
  PetscCall(KSPGetPC(solver->ksp, &pc));
  PetscCall(PetscObjectTypeCompare((PetscObject)pc, types[which], &same));
  PetscCall(PCSetType(pc, types[which]));
  /* clears the failure of the previous type. A type that stays is not set up again, and keeps its failure */
  if (!same) PetscCall(PCSetFailedReason(pc, PC_NOERROR));
  solver->varies       = (PetscBool)(which == 2);
  solver->transposable = which == 0 || which == 1 || (which == 3 && aij) || which >= 5 ? PETSC_TRUE : PETSC_FALSE;
  if (which == 2) {
    PetscCall(PCShellSetContext(pc, solver));
    PetscCall(PCShellSetApply(pc, VaryingApply));
  }
  if (which == 3) PetscCall(PCPolySetDegree(pc, 1 + Pick(12)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SetShadow(Solver *solver, Vec like)
{
  PetscFunctionBeginUser;
  PetscCall(KSPIDRSSetShadowVecs(solver->ksp, 0, NULL));
  if (Once(4)) {
    const PetscInt s = 1 + Pick(MAX_S);
    Vec           *P;

    PetscCall(VecDuplicateVecs(like, s, &P));
    for (PetscInt i = 0; i < s; i++) PetscCall(VecSetNoise(P[i], Mix(state + (uint64_t)i), 1.0));
    PetscCall(KSPIDRSSetShadowVecs(solver->ksp, s, P));
    PetscCall(VecDestroyVecs(s, &P));
  } else PetscCall(KSPIDRSSetShadowSize(solver->ksp, 1 + Pick(Once(2) ? MAX_S : 4)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets tolerances and limits */
static PetscErrorCode SetEnd(Solver *solver)
{
  const PetscReal digits = -PetscLog10Real(PETSC_MACHINE_EPSILON), divtols[] = {2.0, 1e4, 1e30};
  void           *ctx;

  PetscFunctionBeginUser;
  solver->rtol   = Once(10) ? 0.0 : Once(3) ? rtol : PetscPowReal(10.0, -1.0 - Pick(1000) * digits / 1000);
  solver->atol   = Once(4) ? PetscPowReal(10.0, -1.0 - Pick(1000) * 2 * digits / 1000) : 0.0;
  solver->max_it = Once(3) ? Pick(4) : (Once(2) ? Pick(40) : 400);
  PetscCall(KSPSetTolerances(solver->ksp, solver->rtol, solver->atol, divtols[Pick(3)], solver->max_it));
  if (Once(8)) PetscCall(KSPSetConvergenceTest(solver->ksp, KSPConvergedSkip, NULL, NULL));
  else {
    PetscCall(KSPConvergedDefaultCreate(&ctx));
    PetscCall(KSPSetConvergenceTest(solver->ksp, KSPConvergedDefault, ctx, KSPConvergedDefaultDestroy));
    PetscCall(KSPConvergedDefaultSetConvergedMaxits(solver->ksp, Once(6)));
  }
  PetscCall(KSPSetCheckNormIteration(solver->ksp, Once(6) ? Pick(10) : -1));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Changes all settings, or some of them */
static PetscErrorCode Change(Solver *solver, const System *system, Vec like, PetscBool all)
{
  const PetscReal cosines[] = {0.0, 0.5, 0.5, 0.7, 0.99}, tolerances[] = {0.0, 1e-3, 1e-3, 0.1, 0.9};
  const PCSide    sides[] = {PC_RIGHT, PC_RIGHT, PC_LEFT};
  PetscBool       device;

  PetscFunctionBeginUser;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)like, &device, VECSEQCUDA, VECMPICUDA, ""));
  if (all || Once(4)) PetscCall(SetShadow(solver, like));
  if (all || Once(4)) PetscCall(KSPIDRSSetShadowSeed(solver->ksp, Pick(1000)));
  if (all || Once(4)) PetscCall(KSPIDRSSetMaxRestarts_Private(solver->ksp, Once(2) ? 10 : Pick(4)));
  if (all || Once(4)) PetscCall(KSPIDRSSetMinimumCosine(solver->ksp, cosines[Pick(5)]));
  if (all || Once(4)) PetscCall(KSPIDRSSetUpdateTolerance(solver->ksp, tolerances[Pick(5)]));
  if (all || Once(4)) PetscCall(KSPIDRSSetSmoothing(solver->ksp, Once(3)));
  if (all || Once(4))
    PetscCall(
      KSPIDRSSetImplementation_Private(solver->ksp, implementation ? implementation : (KSPIDRSImplementation)Pick(KSP_IDRS_CUDA)));
  if (all || Once(4))
    PetscCall(KSPIDRSSetCommunication_Private(solver->ksp, (KSPIDRSCommunication)Pick(KSP_IDRS_COMMUNICATION_NCCL)));
  if (all || Once(4)) PetscCall(KSPIDRSSetProduct_Private(solver->ksp, (KSPIDRSProduct)Pick(KSP_IDRS_PRODUCT_CSR)));
  if (all || Once(4)) PetscCall(KSPIDRSSetRun_Private(solver->ksp, (KSPIDRSRun)Pick(KSP_IDRS_RUN_PERSISTENT)));
  if (all || Once(4))
    PetscCall(KSPIDRSSetRecycle(solver->ksp, Once(2) ? (KSPIDRSRecycle)Pick(KSP_IDRS_RECYCLE_ALWAYS + 1) : KSP_IDRS_RECYCLE_NEVER));
  if (Once(20)) PetscCall(KSPIDRSResetRecycle(solver->ksp));
  if (all || Once(4)) PetscCall(KSPIDRSSetWidth_Private(solver->ksp, Once(3) ? 1 : 1 + Pick(16)));
  if (all || Once(4)) PetscCall(SetPreconditioner(solver, system));
  if (all || Once(4)) PetscCall(SetEnd(solver));
  if (all || Once(6)) {
    /* the side needs a matching norm, and a new set-up */
    PetscCall(ResetWith(solver->ksp, system->A));
    PetscCall(KSPSetPCSide(solver->ksp, sides[Pick(3)]));
    PetscCall(KSPSetNormType(solver->ksp, Once(4) ? KSP_NORM_NONE : KSP_NORM_DEFAULT));
  }
  if (all || Once(4)) {
    solver->guess = Once(3);
    PetscCall(KSPSetInitialGuessNonzero(solver->ksp, solver->guess));
  }
  if (all || Once(4)) {
    PetscCall(KSPMonitorCancel(solver->ksp));
    if (Once(2)) PetscCall(KSPMonitorSet(solver->ksp, Look, solver, NULL));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode RandomSolverCreate(Solver *solver, const System *system, Vec like)
{
  PetscFunctionBeginUser;
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &solver->ksp));
  PetscCall(KSPSetOperators(solver->ksp, system->A, system->A));
  PetscCall(KSPSetType(solver->ksp, KSPIDRS));
  PetscCall(KSPSetResidualHistory(solver->ksp, NULL, MAX_HISTORY, PETSC_TRUE));
  PetscCall(Change(solver, system, like, PETSC_TRUE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Solve(Solver *solver, PetscBool transpose, Vec b, Vec x0, Vec x, Outcome *outcome, PetscErrorCode *ierr)
{
  PetscFunctionBeginUser;
  solver->applications = 0;
  solver->reports      = 0;
  PetscCall(VecCopy(x0, x));
  PetscCall(Listen());
  *ierr = transpose ? KSPSolveTranspose(solver->ksp, b, x) : KSPSolve(solver->ksp, b, x);
  PetscCall(Heard());
  PetscCall(GetOutcome(solver->ksp, outcome));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the norm of b - A y that the solver tests; y may be NULL for zero */
static PetscErrorCode Measure(Solver *solver, const System *system, PetscBool transpose, Vec b, Vec y, PetscReal *norm)
{
  PCSide side;
  PC     pc;
  Vec    r, w;

  PetscFunctionBeginUser;
  PetscCall(KSPGetPC(solver->ksp, &pc));
  PetscCall(KSPGetPCSide(solver->ksp, &side));
  PetscCall(DuplicateAll(b, &r, &w));
  if (y) {
    if (transpose) PetscCall(MatMultTranspose(system->A, y, r));
    else PetscCall(MatMult(system->A, y, r));
    PetscCall(VecAYPX(r, -1.0, b));
  } else PetscCall(VecCopy(b, r));
  if (side == PC_LEFT) {
    if (transpose) PetscCall(PCApplyTranspose(pc, r, w));
    else PetscCall(PCApply(pc, r, w));
    if (system->space) {
      MatNullSpace constants;

      PetscCall(MatGetNullSpace(system->A, &constants));
      PetscCall(MatNullSpaceRemove(constants, w));
    }
    PetscCall(VecNorm(w, NORM_2, norm));
  } else PetscCall(VecNorm(r, NORM_2, norm));
  PetscCall(DestroyAll(&r, &w));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns PETSC_TRUE if a tolerance is met. KSP_CONVERGED_ITS does not depend on the residual */
static PetscBool Met(const Outcome *outcome)
{
  return outcome->reason == KSP_CONVERGED_RTOL || outcome->reason == KSP_CONVERGED_ATOL ||
             outcome->reason == KSP_CONVERGED_HAPPY_BREAKDOWN
         ? PETSC_TRUE
         : PETSC_FALSE;
}

/*
   Checks that b - A x, computed here, meets the tolerance that the solver reports as met. The solver has the same operations and
   the same x, so that no rounding errors need to be allowed for. A preconditioner that varies cannot be measured again.
*/
static PetscErrorCode CheckTruth(Solver *solver, const System *system, PetscBool transpose, Vec b, Vec x0, Vec x,
                                 const Outcome *outcome)
{
  PCSide    side;
  PetscReal norm, reference, xnorm;
  char      text[256];

  PetscFunctionBeginUser;
  PetscCall(KSPGetPCSide(solver->ksp, &side));
  if (!Met(outcome) || (side == PC_LEFT && solver->varies)) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecNorm(x, NORM_INFINITY, &xnorm));
  /* A times zero is not computed, since it may be NaN */
  PetscCall(Measure(solver, system, transpose, b, outcome->its || xnorm > 0.0 ? x : NULL, &norm));
  PetscCall(Measure(solver, system, transpose, b, NULL, &reference));
  if (solver->guess && reference == 0.0) PetscCall(Measure(solver, system, transpose, b, x0, &reference)); /* like PETSc */
  if (norm == 0.0 || norm <= 1.01 * PetscMax(solver->rtol > 0.0 ? solver->rtol * reference : 0.0, solver->atol))
    PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscSNPrintf(text, sizeof(text), "%s, but b - A x is %g, and the tolerances are %g of %g, and %g",
                          KSPConvergedReasons[outcome->reason], (double)norm, (double)solver->rtol, (double)reference,
                          (double)solver->atol));
  PetscCall(Finding(text));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode CheckSolve(Solver *solver, const System *system, PetscBool transpose, Vec b, Vec x0, Vec x,
                                 const Outcome *outcome)
{
  const PetscBool number   = (PetscBool)(outcome->reason != KSP_DIVERGED_NANORINF && outcome->reason != KSP_DIVERGED_PC_FAILED);
  PetscBool       ordinary = PETSC_FALSE;
  PetscMPIInt     reasons[2];
  PetscReal       norm;
  PetscInt        locks, blocks;

  PetscFunctionBeginUser;
  reasons[0] = (PetscMPIInt)outcome->reason;
  reasons[1] = -reasons[0];
  IDRSCallAllreduce(MPI_IN_PLACE, reasons, 2, MPI_INT, MPI_MAX, PETSC_COMM_WORLD);
  if (reasons[0] != -reasons[1]) PetscCall(Finding("different reasons"));
  if (!outcome->reason) PetscCall(Finding("no reason"));
  if (outcome->its < 0 || outcome->its > solver->max_it) PetscCall(Finding("too many iterations"));
  if (outcome->length > outcome->its + 1 || (number && outcome->length != outcome->its + 1))
    PetscCall(Finding("history is not that of the iterations"));
  if (solver->reports && solver->reports != outcome->length) PetscCall(Finding("monitor has not seen what the history has"));
  if (number && outcome->products < outcome->its) PetscCall(Finding("more iterations than products"));
  PetscCall(VecNorm(x, NORM_INFINITY, &norm));
  PetscCall(Ordinary(system, b, x0, &ordinary));
  if (number && (ordinary || Met(outcome)) && !(norm <= PETSC_MAX_REAL)) PetscCall(Finding("solution is not finite"));
  PetscCall(VecLockGet(b, &blocks));
  PetscCall(VecLockGet(x, &locks));
  if (locks || blocks) PetscCall(Finding("vectors stay locked"));
  PetscCall(CheckTruth(solver, system, transpose, b, x0, x, outcome));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that both have the same bits on all processes */
static PetscErrorCode SameBits(Vec x, Vec y, PetscBool *same)
{
  const PetscScalar *xarray, *yarray;
  PetscInt           n;
  PetscMPIInt        differ;

  PetscFunctionBeginUser;
  PetscCall(VecGetLocalSize(x, &n));
  PetscCall(VecGetArrayRead(x, &xarray));
  PetscCall(VecGetArrayRead(y, &yarray));
  differ = n && memcmp(xarray, yarray, (size_t)n * sizeof(*xarray)) ? 1 : 0;
  PetscCall(VecRestoreArrayRead(y, &yarray));
  PetscCall(VecRestoreArrayRead(x, &xarray));
  IDRSCallAllreduce(MPI_IN_PLACE, &differ, 1, MPI_INT, MPI_MAX, PETSC_COMM_WORLD);
  *same = differ ? PETSC_FALSE : PETSC_TRUE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Solves once more, directly or after a reset: the results are the same, unless solves recycle. On a device products of PETSc may
   add in any order, and PCPOLY may choose other scalings
*/
static PetscErrorCode CheckAgain(Solver *solver, const System *system, PetscBool transpose, Vec b, Vec x0, Vec x,
                                 const Outcome *first)
{
  const PetscBool reset = Once(2);
  PetscErrorCode  ierr;
  PetscBool       same = PETSC_FALSE, device, poly;
  KSPIDRSRecycle  recycle;
  Outcome         second;
  char            text[256];
  PC              pc;
  Vec             y;

  PetscFunctionBeginUser;
  PetscCall(KSPGetPC(solver->ksp, &pc));
  PetscCall(PetscObjectTypeCompare((PetscObject)pc, PCPOLY, &poly));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)x, &device, VECSEQCUDA, VECMPICUDA, ""));
  if (device || (poly && reset)) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecDuplicate(x, &y));
  if (reset) PetscCall(ResetWith(solver->ksp, system->A));
  PetscCall(Solve(solver, transpose, b, x0, y, &second, &ierr));
  GetSetting(solver->ksp, recycle, &recycle);
  PetscCall(SameBits(x, y, &same));
  if (ierr) PetscCall(Finding(message));
  else if (recycle != KSP_IDRS_RECYCLE_NEVER) PetscCall(CheckSolve(solver, system, transpose, b, x0, y, &second));
  else if (!same || memcmp(first, &second, sizeof(second))) {
    PetscCall(PetscSNPrintf(text, sizeof(text), "%s %s after %" INT ", %s %s after %" INT,
                            same ? "same solution" : "another solution", KSPConvergedReasons[first->reason], first->its,
                            reset ? "after KSPReset()" : "again", KSPConvergedReasons[second.reason], second.its));
    PetscCall(Finding(text));
  }
  PetscCall(VecDestroy(&y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks KSPMatSolve(): each column that is reported as converged meets its tolerance */
static PetscErrorCode CheckColumns(Solver *solver, const System *system, Vec b, Vec x0, Vec x)
{
  const PetscInt            count = 1 + Pick(Once(3) ? MAX_COLUMNS : 3);
  const KSPConvergedReason *reasons;
  const PetscInt           *its;
  PetscErrorCode            ierr;
  PetscInt                  n, results;
  PetscBool                 device;
  Mat                       B, X, X0;
  char                      text[256];

  PetscFunctionBeginUser;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)x, &device, VECSEQCUDA, VECMPICUDA, ""));
  if (device || solver->varies) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecGetLocalSize(x, &n));
  PetscCall(MatCreateDense(PETSC_COMM_WORLD, n, PETSC_DECIDE, system->N, count, NULL, &B));
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
  for (PetscInt j = 0; j < count; j++) {
    PetscCall(VecsSet(system, b, x0));
    PetscCall(ColumnSet(B, j, b));
    PetscCall(ColumnSet(X, j, x0));
  }
  PetscCall(MatDuplicate(X, MAT_COPY_VALUES, &X0));
  PetscCall(KSPIDRSSetBlock(solver->ksp, Once(3)));
  Try(ierr, KSPMatSolve(solver->ksp, B, X));
  if (ierr && strstr(message, "ksp_idrs_block")) { /* not all settings support blocks */
    PetscCall(KSPIDRSSetBlock(solver->ksp, PETSC_FALSE));
    PetscCall(MatCopy(X0, X, SAME_NONZERO_PATTERN));
    Try(ierr, KSPMatSolve(solver->ksp, B, X));
  }
  if (ierr) {
    PetscCall(PetscSNPrintf(text, sizeof(text), "KSPMatSolve(): error %d, \"%s\"", (int)ierr, message));
    PetscCall(Finding(text));
  } else {
    PetscCall(KSPIDRSGetColumnResults(solver->ksp, &results, &reasons, &its, NULL));
    if (results != count) PetscCall(Finding("KSPMatSolve() has results of another number of columns"));
    for (PetscInt j = 0; j < PetscMin(results, count); j++) {
      const Outcome outcome = {.reason = reasons[j], .its = its[j]};

      PetscCall(ColumnGet(B, j, b));
      PetscCall(ColumnGet(X0, j, x0));
      PetscCall(ColumnGet(X, j, x));
      PetscCall(CheckTruth(solver, system, PETSC_FALSE, b, x0, x, &outcome));
    }
  }
  PetscCall(DestroyAll(&B, &X, &X0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes a system, one or two solvers, and some solves */
static PetscErrorCode Run(void)
{
  const PetscInt count = 1 + Pick(2), solves = 1 + Pick(5);
  System         system;
  Solver         solvers[2];
  Vec            b, x, x0;

  PetscFunctionBeginUser;
  PetscCall(SystemCreate(&system));
  PetscCall(MatCreateVecs(system.A, &x, &b));
  PetscCall(VecDuplicate(x, &x0));
  for (PetscInt i = 0; i < count; i++) PetscCall(RandomSolverCreate(&solvers[i], &system, x));
  for (PetscInt i = 0; i < solves; i++) {
    Solver        *solver = &solvers[Pick(count)];
    PetscBool      transpose;
    PetscErrorCode ierr;
    Outcome        outcome;
    char           text[256];

    if (i) PetscCall(Change(solver, &system, x, PETSC_FALSE));
    if (Once(8)) PetscCall(ResetWith(solver->ksp, system.A));
    if (Once(8)) PetscCall(MatScale(system.A, 1.5));
    PetscCall(VecsSet(&system, b, x0));
    transpose = (PetscBool)(solver->transposable && !system.space && Once(5));
    PetscCall(Solve(solver, transpose, b, x0, x, &outcome, &ierr));
    if (ierr) {
      PetscCall(PetscSNPrintf(text, sizeof(text), "error %d, \"%s\"", (int)ierr, message));
      PetscCall(Finding(text));
      break;
    }
    PetscCall(CheckSolve(solver, &system, transpose, b, x0, x, &outcome));
    if (Once(2)) PetscCall(CheckAgain(solver, &system, transpose, b, x0, x, &outcome));
    if (Once(6)) PetscCall(CheckColumns(solver, &system, b, x0, x));
  }
  for (PetscInt i = 0; i < count; i++) PetscCall(KSPDestroy(&solvers[i].ksp));
  PetscCall(DestroyAll(&b, &x, &x0, &system.A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes the run of a seed; it is repeated if it leaks memory, since PETSc may keep memory for a type at its first use */
static PetscErrorCode RunSeed(void)
{
  PetscFunctionBeginUser;
  for (PetscInt again = 0; again < 2; again++) {
    PetscLogDouble before, after;
    PetscMPIInt    more;

    PetscCall(PetscMallocGetCurrentUsage(&before));
    state = Mix((uint64_t)seed + 0x9e3779b97f4a7c15u);
    Deadline(DEADLINE);
    PetscCall(Run());
    findings.made++; /* a run without a finding counts as a comparison */
    PetscCall(PetscMallocGetCurrentUsage(&after));
    more = after > before ? 1 : 0;
    IDRSCallAllreduce(MPI_IN_PLACE, &more, 1, MPI_INT, MPI_MAX, PETSC_COMM_WORLD);
    if (!more) break;
    if (again) PetscCall(Finding("memory is not freed"));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscInt       runs    = PETSC_MAX_INT, done;
  PetscReal      seconds = 10.0;
  PetscLogDouble start, elapsed, usage;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  seed = 1;
  PetscCall(RepeatSums());
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-seed", &seed, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-runs", &runs, NULL));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-seconds", &seconds, NULL));
  PetscCall(ImplementationFromOptions());
  PetscCall(PetscMallocGetCurrentUsage(&usage));
  PetscCheck(usage > 0.0, PETSC_COMM_WORLD, PETSC_ERR_ORDER, "Memory is not accounted for without -malloc_dump");
  PetscCall(PetscPushSignalHandler(Crash, NULL));
  PetscCall(PetscTime(&start));
  for (done = 0; done < runs; done++, seed++) {
    /* all processes end after the same run, by the clock of one process, since clocks differ */
    PetscCall(PetscTime(&elapsed));
    elapsed -= start;
    PetscCallMPI(MPI_Bcast(&elapsed, 1, MPI_DOUBLE, 0, PETSC_COMM_WORLD));
    if (done && elapsed > (PetscLogDouble)seconds) break;
    PetscCall(RunSeed());
  }
  Deadline(0);
  PetscCall(PetscPopSignalHandler());
  PetscCall(PetscInfo(NULL, "%" INT " runs\n", done));
  PetscCall(Verdict("random use"));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 2}}
    args: -seconds 10

  # a matching in place, where one process has no rows
  test:
    suffix: empty
    nsize: 2
    args: -seed 1133 -runs 1
    output_file: output/solve_fuzz_1.out

TEST*/
