static char help[] = "Decisions about steps on difficult systems: t = 0, NaN and Inf, r = 0 in a cycle, zero pivots,\n\
special right-hand sides. Each executor of IDR(s) solves the same systems: KSPSolve() step by step and in one kernel,\n\
KSPMatSolve() with single recurrences and with a block recurrence, and PCBJIDRS.\n\n";

#include "columns.h"

#define N       40
#define COLUMNS 8

typedef enum {
  SINGLE,
  GROUP,
  BLOCK,
  SYSTEM, /* PCBJIDRS, with a diagonal block for each column */
  AMONG,  /* the same, with each of these blocks between two good ones */
  WHOLE,  /* many steps in one kernel of a GPU */
  EXECUTORS
} Executor;
static const char *const executors[] = {"KSPSolve()", "KSPMatSolve()", "block", "PCBJIDRS", "PCBJIDRS among good blocks", "whole"};

/* Allowed ends of a solve. With END_HONEST, any reason that is true of the solution */
typedef enum {
  END_HONEST,
  END_CONVERGED,
  END_DIVERGED, /* KSP_DIVERGED_BREAKDOWN, _ITS, _DTOL, or _NANORINF after an overflow */
  END_NAN       /* KSP_DIVERGED_NANORINF */
} End;

/* An operator whose products number first to last are 0, or NaN */
typedef struct {
  Mat       A;
  PetscInt  made, first, last;
  PetscBool nan;
} Faults;

/* All processes have all numbers. x has the initial guesses before a solve, and then the solutions */
typedef struct {
  const char        *name;
  Entry             *entry;
  PetscInt           n, s, columns, max_it;
  PetscBool          guess;
  PetscScalar        b[COLUMNS][N], x[COLUMNS][N], shadow[N]; /* shadow: the first explicit shadow vector, if it is not zero */
  End                end[COLUMNS];
  PetscInt           most[COLUMNS]; /* iterations, or 0 for any number */
  Faults            *faults;
  KSPConvergedReason reason[COLUMNS];
  PetscInt           its[COLUMNS];
  PetscReal          reported[COLUMNS], rnorm[COLUMNS], bnorm[COLUMNS];
} Problem;

static PetscErrorCode FaultyMult(Mat S, Vec x, Vec y)
{
  Faults *faults;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(S, &faults));
  PetscCall(MatMult(faults->A, x, y));
  faults->made++;
  if (faults->made >= faults->first && faults->made <= faults->last) PetscCall(VecSet(y, faults->nan ? NAN : 0.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Entries of right-hand sides and solutions that follow no pattern */
static PetscScalar General(PetscInt i, PetscInt which)
{
  const PetscReal angle = (1.0 + 0.37 * which) * (1.0 + 1.7 * i + 0.3 * i * i);

  return PetscDefined(USE_COMPLEX) ? PetscCMPLX(PetscSinReal(angle), PetscCosReal(2 * angle)) : (PetscScalar)PetscSinReal(angle);
}

/* Sets the entries of a vector from an array of all entries */
static PetscErrorCode Spread(const PetscScalar all[], Vec x)
{
  PetscInt begin, end;

  PetscFunctionBeginUser;
  PetscCall(VecGetOwnershipRange(x, &begin, &end));
  for (PetscInt i = begin; i < end; i++) PetscCall(VecSetValue(x, i, all[i], INSERT_VALUES));
  PetscCall(VecAssemble(x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies the entries of all processes to an array */
static PetscErrorCode Gather(Vec x, PetscInt n, PetscScalar all[])
{
  const PetscScalar *array;
  Vec                y;

  PetscFunctionBeginUser;
  PetscCall(GatherCreate(x, &y));
  PetscCall(VecGetArrayRead(y, &array));
  PetscCall(PetscArraycpy(all, array, n));
  PetscCall(VecRestoreArrayRead(y, &array));
  PetscCall(VecDestroy(&y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SolveKSP(Executor executor, Problem *problem)
{
  const PetscBool           many    = (PetscBool)(executor == GROUP || executor == BLOCK);
  const PetscInt            columns = problem->columns, s = problem->s;
  const KSPConvergedReason *reasons;
  const PetscReal          *norms;
  const PetscInt           *its;
  Vec                       b, x, *P = NULL;
  Mat                       A, S, B, X;
  KSP                       ksp;

  PetscFunctionBeginUser;
  PetscCall(MatCreateEntries(problem->entry, problem->n, PETSC_FALSE, &A));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(ShellCreate(A, FaultyMult, problem->faults, &S));
  PetscCall(SolverCreateLimited(problem->faults ? S : A, s, PC_RIGHT, KSP_NORM_DEFAULT, problem->max_it, PCNONE, &ksp));
  PetscCall(KSPSetInitialGuessNonzero(ksp, problem->guess));
  PetscCall(KSPIDRSSetRun_Private(ksp, executor == WHOLE ? KSP_IDRS_RUN_PERSISTENT : KSP_IDRS_RUN_STEPWISE));
  PetscCall(KSPIDRSSetBlock(ksp, (PetscBool)(executor == BLOCK)));
  if (problem->faults) problem->faults->A = A;
  if (problem->shadow[0] != 0.0) {
    PetscCall(VecDuplicateVecs(b, s, &P));
    for (PetscInt i = 0; i < s; i++) PetscCall(VecSetGeneral(P[i], 2.0 + 0.7 * i));
    PetscCall(Spread(problem->shadow, P[0]));
    PetscCall(KSPIDRSSetShadowVecs(ksp, s, P));
  }
  PetscCall(BlockCreate(A, columns, &B));
  PetscCall(BlockCreate(A, columns, &X));
  for (PetscInt j = 0; j < columns; j++) {
    PetscCall(Spread(problem->b[j], b));
    PetscCall(Spread(problem->x[j], x));
    PetscCall(ColumnSet(B, j, b));
    PetscCall(ColumnSet(X, j, x));
    if (problem->faults) problem->faults->made = 0;
    if (many) continue;
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(KSPGetConvergedReason(ksp, &problem->reason[j]));
    PetscCall(KSPGetIterationNumber(ksp, &problem->its[j]));
    PetscCall(KSPGetResidualNorm(ksp, &problem->reported[j]));
    PetscCall(Gather(x, problem->n, problem->x[j]));
  }
  if (many) {
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscCall(KSPIDRSGetColumnResults(ksp, NULL, &reasons, &its, &norms));
    PetscCall(PetscArraycpy(problem->reason, reasons, columns));
    PetscCall(PetscArraycpy(problem->its, its, columns));
    PetscCall(PetscArraycpy(problem->reported, norms, columns));
  }
  for (PetscInt j = 0; many && j < columns; j++) {
    PetscCall(ColumnGet(X, j, x));
    PetscCall(Gather(x, problem->n, problem->x[j]));
  }
  if (P) PetscCall(VecDestroyVecs(s, &P));
  PetscCall(DestroyAll(&ksp, &S, &A, &B, &X, &b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes ||b - A x|| and ||b|| from the entries of A */
static void Norms(Entry *entry, PetscInt n, const PetscScalar b[], const PetscScalar x[], PetscReal *rnorm, PetscReal *bnorm)
{
  PetscReal rr = 0.0, bb = 0.0;

  for (PetscInt i = 0; i < n; i++) {
    PetscScalar r = b[i];

    for (PetscInt j = 0; j < n; j++) r -= (*entry)(i, j, n) * x[j];
    rr += PetscSqr(PetscAbsScalar(r));
    bb += PetscSqr(PetscAbsScalar(b[i]));
  }
  *rnorm = PetscSqrtReal(rr);
  *bnorm = PetscSqrtReal(bb);
}

/* Each process has all blocks. Every second block belongs to a column if the others are good, else every block */
static PetscErrorCode SolvePC(PetscBool among, Problem *problem)
{
  const PetscInt            n = problem->n, stride = among ? 2 : 1, blocks = stride * (problem->columns + 1) - 1;
  const KSPConvergedReason *reasons;
  const PetscReal          *norms;
  const PetscInt           *its;
  PetscInt                  rstart, *sizes;
  PetscScalar              *array, good[N];
  Mat                       A;
  Vec                       b, x;
  PC                        pc, innerpc;
  KSP                       inner;

  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < n; i++) good[i] = General(i, 100);
  PetscCall(MatCreateRows(PETSC_COMM_WORLD, n * blocks, PETSC_DETERMINE, n, &A));
  PetscCall(MatGetOwnershipRange(A, &rstart, NULL));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecGetArrayWrite(b, &array));
  for (PetscInt row = 0; row < n * blocks; row++) {
    const PetscInt  k = row / n, i = row % n;
    const PetscBool own = (PetscBool)((k + 1) % stride == 0);

    array[row] = own ? problem->b[k / stride][i] : good[i];
    for (PetscInt j = 0; j < n; j++) {
      const PetscScalar value = own ? (*problem->entry)(i, j, n) : Tridiagonal(i, j, n);

      if (value != 0.0 || i == j) PetscCall(MatSetValue(A, rstart + row, rstart + k * n + j, value, INSERT_VALUES));
    }
  }
  PetscCall(VecRestoreArrayWrite(b, &array));
  PetscCall(MatAssemble(A));
  PetscCall(PCCreate(PETSC_COMM_WORLD, &pc));
  PetscCall(PCSetOperators(pc, A, A));
  PetscCall(PCSetType(pc, PCBJIDRS));
  PetscCall(PetscMalloc1(blocks, &sizes));
  for (PetscInt k = 0; k < blocks; k++) sizes[k] = n;
  PetscCall(MatSetVariableBlockSizes(A, blocks, sizes));
  PetscCall(PetscFree(sizes));
  PetscCall(PCBJIDRSGetKSP(pc, &inner));
  PetscCall(KSPIDRSSetShadowSize(inner, problem->s));
  PetscCall(KSPSetTolerances(inner, rtol, 0.0, PETSC_DEFAULT, problem->max_it));
  PetscCall(KSPGetPC(inner, &innerpc));
  PetscCall(PCSetType(innerpc, PCNONE));
  PetscCall(PCApply(pc, b, x));
  PetscCall(PCBJIDRSGetResults(pc, NULL, &reasons, &its, &norms));
  PetscCall(VecGetArray(x, &array));
  for (PetscInt k = 0; k < blocks; k++) {
    const PetscInt j = k / stride;
    PetscReal      rnorm, bnorm;

    if ((k + 1) % stride == 0) {
      PetscCall(PetscArraycpy(problem->x[j], array + k * n, n));
      problem->reason[j]   = reasons[k];
      problem->its[j]      = its[k];
      problem->reported[j] = norms[k];
      continue;
    }
    Norms(Tridiagonal, n, good, array + k * n, &rnorm, &bnorm);
    PetscCall(ComplainIf(!(reasons[k] > 0 && rnorm <= 1.01 * rtol * bnorm),
                         "beside %s, s = %" INT ": good block %" INT ": %s, %g of %g", problem->name, problem->s, k,
                         KSPConvergedReasons[reasons[k]], (double)rnorm, (double)bnorm));
  }
  PetscCall(VecRestoreArray(x, &array));
  PetscCall(DestroyAll(&pc, &A, &b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Solve(Executor executor, Problem *problem)
{
  PetscFunctionBeginUser;
  if (executor == SYSTEM || executor == AMONG) PetscCall(SolvePC((PetscBool)(executor == AMONG), problem));
  else PetscCall(SolveKSP(executor, problem));
  for (PetscInt j = 0; j < problem->columns; j++)
    Norms(problem->entry, problem->n, problem->b[j], problem->x[j], &problem->rnorm[j], &problem->bnorm[j]);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Each column has ended as it must: x is finite, but infinite in a system of PCBJIDRS that has failed. If the reason is positive, x
   solves the system. After a breakdown x is no worse than 0. In both cases the reported norm is the norm of b - A x. The columns of
   a block recurrence end with a cycle, or in the same step
*/
static PetscErrorCode CheckEnds(Executor executor, const Problem *problem)
{
  PetscFunctionBeginUser;
  for (PetscInt j = 0; j < problem->columns; j++) {
    const KSPConvergedReason reason = problem->reason[j];
    const End                end    = problem->end[j];
    const PetscReal          norm = problem->reported[j], rnorm = problem->rnorm[j], bnorm = problem->bnorm[j];
    const PetscBool nan = (PetscBool)(reason == KSP_DIVERGED_NANORINF), broken = (PetscBool)(reason == KSP_DIVERGED_BREAKDOWN);
    const PetscBool flagged = (PetscBool)((executor == SYSTEM || executor == AMONG) && (nan || broken));
    const PetscInt  most    = problem->most[j] + (executor == BLOCK ? problem->s : 0);
    PetscBool       finite  = PETSC_TRUE;
    PetscReal       xx      = 0.0, rounding;
    char            what[256];

    PetscCall(PetscSNPrintf(what, sizeof(what),
                            "%s, s = %" INT ", %s, column %" INT ": %s after %" INT ", norm %g of %g, reported %g", problem->name,
                            problem->s, executors[executor], j, KSPConvergedReasons[reason], problem->its[j], (double)rnorm,
                            (double)bnorm, (double)norm));
    for (PetscInt i = 0; i < problem->n; i++) {
      finite = (PetscBool)(finite && !PetscIsInfOrNanScalar(problem->x[j][i]));
      xx += PetscSqr(PetscAbsScalar(problem->x[j][i]));
    }
    /* of A x: in single precision, near to the tolerance, x is large if A is singular or almost singular */
    rounding = PetscDefined(USE_REAL_SINGLE) ? 4 * PETSC_MACHINE_EPSILON * PetscSqrtReal(xx) : 0.0;
    PetscCall(ComplainIf(finite == flagged, "%s: x is%s finite", what, finite ? "" : " not"));
    PetscCall(ComplainIf(reason > 0 && !(rnorm <= 1.01 * rtol * bnorm + rounding), "%s: not solved", what));
    PetscCall(ComplainIf(broken && !((flagged ? norm : rnorm) <= 1.01 * bnorm), "%s: worse than x = 0", what));
    PetscCall(ComplainIf((reason > 0 || (broken && !flagged)) &&
                           !(PetscAbsReal(norm - rnorm) <= PETSC_SQRT_MACHINE_EPSILON * bnorm + rounding),
                         "%s: another norm", what));
    PetscCall(ComplainIf(!(reason > 0 || broken || nan || reason == KSP_DIVERGED_ITS || reason == KSP_DIVERGED_DTOL) ||
                           (end == END_CONVERGED && reason < 0) || (end == END_DIVERGED && reason > 0) || (end == END_NAN && !nan),
                         "%s: not expected", what));
    PetscCall(ComplainIf(problem->most[j] && problem->its[j] > most, "%s: more than %" INT " iterations", what, most));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves with all executors that can. If the system has no solution, rounding errors choose the negative reason */
static PetscErrorCode SolveByAll(const Problem *problem)
{
  const PetscBool general = (PetscBool)(!problem->guess && problem->shadow[0] == 0.0);
  Problem        *mine;
  PetscBool       whole;
  Mat             A;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(1, &mine));
  PetscCall(MatCreateEntries(Identity, 1, PETSC_FALSE, &A));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJCUSPARSE, &whole));
  PetscCall(MatDestroy(&A));
  for (Executor executor = SINGLE; executor < EXECUTORS; executor++) {
    if ((executor >= SYSTEM && !general) || (executor == BLOCK && problem->shadow[0] != 0.0) || (executor == WHOLE && !whole))
      continue;
    *mine = *problem;
    PetscCall(Solve(executor, mine));
    PetscCall(CheckEnds(executor, mine));
  }
  PetscCall(PetscFree(mine));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* b = A w for a general w */
static void SetConsistent(Problem *problem, PetscInt j, PetscInt which)
{
  for (PetscInt i = 0; i < problem->n; i++) {
    problem->b[j][i] = 0.0;
    for (PetscInt l = 0; l < problem->n; l++) problem->b[j][i] += (*problem->entry)(i, l, problem->n) * General(l, which);
  }
}

#define ENTRY(name, value) \
  static PetscScalar name(PetscInt i, PetscInt j, PetscInt n) \
  { \
    return value; \
  }
ENTRY(LowRank, (i == j ? 1.0 : 0.0) + (i < 4 && j < 8 ? 0.25 * (1.0 + i) / (1.0 + j) : 0.0))
ENTRY(ThreeValues, i == j ? 1.0 + i % 3 : 0.0)
ENTRY(Triangular, i == j ? 1.0 + 0.5 * i : (j > i ? 0.3 / (j - i) : 0.0))
ENTRY(Shift, i == (j + 1) % n ? 1.0 : 0.0)
ENTRY(Permutation, i == (7 * j + 3) % n ? 1.0 : 0.0)
ENTRY(Signs, i == j ? (i % 2 ? -1.0 : 1.0) : 0.0)
ENTRY(Jordan, i == j ? 1.0 : (j == i + 1 ? 2.0 : 0.0))
ENTRY(RankOne, (1.0 + i) * (1.0 + (3 * j) % 5))
ENTRY(Halves, i == (j + n / 2) % n ? 1.0 : 0.0)
ENTRY(ZeroDiagonal, i == j ? 0.0 : Tridiagonal(i, j, n))
ENTRY(Nilpotent, j == i + 1 ? 1.0 : 0.0)
ENTRY(Zero, 0.0)
ENTRY(Projector, i == j && i < n / 2 ? 1.0 : 0.0)
ENTRY(ZeroRow, i == n / 2 ? 0.0 : Tridiagonal(i, j, n))
ENTRY(WithNaN, i == n / 2 && j == i ? (PetscScalar)NAN : Tridiagonal(i, j, n))
ENTRY(Huge, i == n / 2 && j == i ? (PetscScalar)(0.3 * PETSC_MAX_REAL) : Tridiagonal(i, j, n))
ENTRY(WithInf, i == n / 2 && j == i ? (PetscScalar)INFINITY : Tridiagonal(i, j, n))

/* Columns b, A w, which is consistent, and -2 b */
static PetscErrorCode TestSystems(void)
{
  static const struct {
    const char *name;
    Entry      *entry;
    PetscInt    n;
    RHS         rhs;
    End         end;
    PetscInt    most; /* iterations for s = 1, which are more than those for larger s */
  } systems[] = {
    {"identity",                      Identity,     N,  RHS_GENERAL,    END_CONVERGED, 1},
    {"identity and low rank",         LowRank,      N,  RHS_GENERAL,    END_CONVERGED, 4},
    {"three eigenvalues",             ThreeValues,  N,  RHS_GENERAL,    END_CONVERGED, 6},
    {"eigenvector",                   Triangular,   N,  RHS_FIRST,      END_CONVERGED, 1},
    {"eigenvector of the transpose",  Triangular,   N,  RHS_LAST,       END_CONVERGED, 0},
    {"permutation, unit vector",      Permutation,  N,  RHS_FIRST,      END_HONEST,    0},
    {"permutation",                   Permutation,  N,  RHS_GENERAL,    END_HONEST,    0},
    {"signs, ones",                   Signs,        N,  RHS_ONES,       END_CONVERGED, 4},
    {"Jordan block, eigenvector",     Jordan,       12, RHS_FIRST,      END_CONVERGED, 1},
    {"Jordan block",                  Jordan,       12, RHS_GENERAL,    END_HONEST,    0},
    {"rank one, consistent",          RankOne,      12, RHS_CONSISTENT, END_CONVERGED, 0},
    {"rank one, inconsistent",        RankOne,      12, RHS_GENERAL,    END_DIVERGED,  0},
    {"one row",                       Tridiagonal,  1,  RHS_GENERAL,    END_CONVERGED, 1},
    {"two rows",                      Tridiagonal,  2,  RHS_GENERAL,    END_CONVERGED, 4},
    {"b = 0",                         Tridiagonal,  N,  RHS_ZERO,       END_CONVERGED, 0},
    {"shift, unit vector",            Shift,        N,  RHS_FIRST,      END_HONEST,    0},
    {"shift",                         Shift,        N,  RHS_GENERAL,    END_HONEST,    0},
    {"skew-symmetric, unit vector",   Skew,         N,  RHS_FIRST,      END_HONEST,    0},
    {"skew-symmetric",                Skew,         N,  RHS_GENERAL,    END_HONEST,    0},
    {"halves exchanged, unit vector", Halves,       N,  RHS_FIRST,      END_CONVERGED, 4},
    {"halves exchanged",              Halves,       N,  RHS_GENERAL,    END_CONVERGED, 4},
    {"zero diagonal",                 ZeroDiagonal, N,  RHS_GENERAL,    END_HONEST,    0},
    {"zero matrix",                   Zero,         N,  RHS_GENERAL,    END_DIVERGED,  0},
    {"nilpotent, A b = 0",            Nilpotent,    N,  RHS_FIRST,      END_DIVERGED,  0},
    {"nilpotent, inconsistent",       Nilpotent,    N,  RHS_LAST,       END_DIVERGED,  0},
    {"projector, inconsistent",       Projector,    N,  RHS_ONES,       END_DIVERGED,  0},
    {"projector, A b = 0",            Projector,    N,  RHS_LAST,       END_DIVERGED,  0},
    {"projector, consistent",         Projector,    N,  RHS_FIRST,      END_CONVERGED, 1},
    {"zero row, inconsistent",        ZeroRow,      N,  RHS_ONES,       END_DIVERGED,  0},
    {"zero row, consistent",          ZeroRow,      N,  RHS_CONSISTENT, END_CONVERGED, 0},
    {"a huge entry",                  Huge,         N,  RHS_GENERAL,    END_HONEST,    0},
    {"a NaN in A",                    WithNaN,      N,  RHS_GENERAL,    END_NAN,       0},
    {"an Inf in A",                   WithInf,      N,  RHS_GENERAL,    END_NAN,       0},
  };
  const PetscReal tolerance = rtol;
  Problem        *problem;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(1, &problem));
  for (size_t l = 0; l < PETSC_STATIC_ARRAY_LENGTH(systems); l++) {
    /* Dependent columns of a block lose digits: near to the machine precision they may take more iterations than the limit */
    if (systems[l].most) rtol = PetscMax(tolerance, 1e4 * PETSC_MACHINE_EPSILON);
    for (PetscInt s = 1; s <= 4; s += 3) {
      const PetscInt n = systems[l].n, unit = systems[l].rhs == RHS_LAST ? n - 1 : 0;
      const RHS      rhs = systems[l].rhs;

      *problem = (Problem){.name = systems[l].name, .entry = systems[l].entry, .n = n, .s = s, .columns = 3, .max_it = 200};
      for (PetscInt i = 0; i < n; i++)
        problem->b[0][i] = rhs == RHS_GENERAL ? General(i, 0) : rhs == RHS_ONES || (rhs != RHS_ZERO && i == unit) ? 3.0 : 0.0;
      if (rhs == RHS_CONSISTENT) SetConsistent(problem, 0, 0);
      SetConsistent(problem, 1, 1);
      for (PetscInt i = 0; i < n; i++) problem->b[2][i] = -2.0 * problem->b[0][i];
      problem->end[0] = problem->end[1] = problem->end[2] = systems[l].end;
      if (systems[l].end != END_NAN) problem->end[1] = END_HONEST;
      problem->most[0] = problem->most[2] = systems[l].most;
      PetscCall(SolveByAll(problem));
    }
    rtol = tolerance;
    PetscCall(Verdict(systems[l].name));
  }
  PetscCall(PetscFree(problem));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Special right-hand sides, each of them or all, beside a general one. On the host the solution of the general one has the
   same bits beside each of them
*/
static PetscErrorCode TestColumns(void)
{
  enum {
    ZERO,
    ISNAN,
    ISINF,
    COPY,
    MULTIPLE,
    CONSISTENT,
    SOLVED, /* by the initial guess */
    KINDS
  };
  PetscScalar first[N];
  Problem    *problem;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(1, &problem));
  for (PetscInt s = 1; s <= 4; s += 3) {
    for (PetscInt kind = 0; kind <= KINDS; kind++) {
      PetscBool same;
      char      name[64];

      PetscCall(PetscSNPrintf(name, sizeof(name), "right-hand side of kind %" INT, kind));
      *problem        = (Problem){.name = name, .entry = Convection, .n = N, .s = s, .columns = 1, .max_it = 1000};
      problem->end[0] = END_CONVERGED;
      for (PetscInt i = 0; i < N; i++) problem->b[0][i] = General(i, 0);
      for (PetscInt k = 0; k < KINDS; k++) {
        const PetscInt j = problem->columns;

        if (kind < KINDS && k != kind) continue;
        problem->columns++;
        problem->end[j] = k == ISNAN || k == ISINF ? END_NAN : END_CONVERGED;
        if (k == SOLVED) problem->guess = PETSC_TRUE;
        if (k == CONSISTENT || k == SOLVED) SetConsistent(problem, j, j);
        for (PetscInt i = 0; i < N; i++) {
          if (k == ISNAN || k == ISINF) problem->b[j][i] = General(i, j);
          if (k == COPY || k == MULTIPLE) problem->b[j][i] = problem->b[0][i] * (k == COPY ? 1.0 : -3.0);
          if (k == SOLVED) problem->x[j][i] = General(i, j);
        }
        if (k == ISNAN || k == ISINF) problem->b[j][N / 3] = k == ISNAN ? NAN : INFINITY;
      }
      PetscCall(SolveByAll(problem));
      PetscCall(Solve(GROUP, problem));
      if (!kind) PetscCall(PetscArraycpy(first, problem->x[0], N));
      PetscCall(PetscArraycmp(first, problem->x[0], N, &same));
      PetscCall(ComplainIf(!same && (implementation != KSP_IDRS_CUDA),
                           "s = %" INT ": right-hand side of kind %" INT " changes the solution of the other one", s, kind));
    }
  }
  PetscCall(PetscFree(problem));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   If the products of one step are zero, the step breaks down, and the system is solved after it. At the limit on iterations x is
   the iterate before that step, or better. If products are NaN from a step on, the reason states it, and x is no worse than 0
*/
static PetscErrorCode TestProducts(void)
{
  const char *const kinds[] = {"0", "0, at the limit", "NaN"};
  Problem          *problem, *before;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc2(1, &problem, 1, &before));
  for (Executor executor = SINGLE; executor <= BLOCK; executor++) {
    for (PetscInt l = 0; l < 45; l++) { /* three cycles with s = 1, and with s = 2 */
      const PetscInt kind = l % 3, s = l < 18 ? 1 : 2, step = (l < 18 ? l : l - 18) / 3;
      const PetscInt products = executor == SINGLE ? 1 : 3;
      Faults faults = {.first = step * products + 1, .last = kind < 2 ? (step + 1) * products : PETSC_MAX_INT, .nan = kind == 2};
      char   name[64];

      PetscCall(PetscSNPrintf(name, sizeof(name), "products of step %" INT " are %s", step, kinds[kind]));
      *problem = (Problem){.name = name, .entry = Convection, .n = N, .s = s, .columns = 3, .max_it = kind == 1 ? step + 1 : 1000};
      for (PetscInt j = 0; j < 3; j++) {
        for (PetscInt i = 0; i < N; i++) problem->b[j][i] = General(i, j);
        problem->end[j] = kind == 0 ? END_CONVERGED : kind == 1 ? END_HONEST : END_NAN;
      }
      *before         = *problem;
      before->max_it  = step;
      problem->faults = &faults;
      PetscCall(Solve(executor, problem));
      PetscCall(CheckEnds(executor, problem));
      PetscCall(Solve(executor, before));
      for (PetscInt j = 0; j < 3; j++)
        PetscCall(ComplainIf(!(problem->rnorm[j] <= 1.01 * (kind < 2 ? before->rnorm[j] : problem->bnorm[j])),
                             "%s, s = %" INT ", %s, column %" INT ": %s, norm %g, %g before that step", name, s,
                             executors[executor], j, KSPConvergedReasons[problem->reason[j]], (double)problem->rnorm[j],
                             (double)before->rnorm[j]));
    }
  }
  PetscCall(PetscFree2(problem, before));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The first shadow vector is orthogonal to A b, so that M_00 = 0 without rounding errors */
static PetscErrorCode TestShadow(void)
{
  Entry *const entries[] = {Tridiagonal, Skew, Shift};
  Problem     *problem;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(1, &problem));
  for (size_t l = 0; l < PETSC_STATIC_ARRAY_LENGTH(entries); l++) {
    for (PetscInt s = 1; s <= 4; s += 3) {
      *problem = (Problem){.name = "p_0^H A b = 0", .entry = entries[l], .n = N, .s = s, .columns = 3, .max_it = 200};
      for (PetscInt j = 0; j < 3; j++) problem->b[j][0] = 1.0 + j;
      problem->shadow[0] = 1.0;
      if (entries[l] == Tridiagonal) problem->shadow[1] = 8.0;
      PetscCall(SolveByAll(problem));
    }
  }
  PetscCall(PetscFree(problem));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestSystems, NULL}, {TestColumns, "special right-hand sides"}, {TestProducts, "products that are zero or NaN"},
          {TestShadow, "shadow vectors orthogonal to A b"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 2}}

TEST*/
