static char help[] = "PCPOLY with every solver and side, operators of several types, matrices that change, systems for which\n\
there is no polynomial of the requested degree, or none at all, and bad values.\n\n";

#include "../benchmarks/matrices.h"
#include "systems.h"

static const PetscInt degrees[] = {1, 2, 5, 8, 16};
#define DEGREES PETSC_STATIC_ARRAY_LENGTH(degrees)

/* A system, and a solver of it with PCPOLY */
typedef struct {
  Mat A;
  Vec b, x;
  KSP ksp;
  PC  pc;
} Problem;

static PetscErrorCode SetPoly(Problem *problem, PetscInt degree)
{
  PetscFunctionBeginUser;
  PetscCall(KSPGetPC(problem->ksp, &problem->pc));
  PetscCall(PCSetType(problem->pc, PCPOLY));
  PetscCall(PCPolySetDegree(problem->pc, degree));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Replaces the solver */
static PetscErrorCode ProblemSetSolver(Problem *problem, PetscInt s, PetscInt degree)
{
  PetscFunctionBeginUser;
  PetscCall(KSPDestroy(&problem->ksp));
  PetscCall(SolverCreate(problem->A, s, PCNONE, &problem->ksp));
  PetscCall(SetPoly(problem, degree));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ProblemCreateGrid(PetscInt m, PetscReal peclet, Layout layout, Problem *problem)
{
  PetscFunctionBeginUser;
  *problem = (Problem){NULL};
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, m, peclet, layout, &problem->A, &problem->b));
  PetscCall(VecDuplicate(problem->b, &problem->x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ProblemCreateEntries(Entry *entry, PetscInt n, Problem *problem)
{
  PetscFunctionBeginUser;
  *problem = (Problem){NULL};
  PetscCall(SystemCreateEntries(entry, n, RHS_GENERAL, &problem->A, &problem->b, &problem->x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ProblemDestroy(Problem *problem)
{
  PetscFunctionBeginUser;
  PetscCall(DestroyAll(&problem->ksp, &problem->x, &problem->b, &problem->A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode CheckSolve(const char what[], Problem *problem)
{
  PetscFunctionBeginUser;
  PetscCall(VecSet(problem->x, 0.0));
  PetscCall(KSPSolve(problem->ksp, problem->b, problem->x));
  PetscCall(CheckSolved(what, problem->ksp, problem->A, problem->b, problem->x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRS with both sides, and other solvers */
static PetscErrorCode TestSolvers(void)
{
  const char *const others[]  = {KSPGMRES, KSPFGMRES, KSPBCGS, KSPTFQMR, KSPRICHARDSON};
  const PetscReal   peclets[] = {0.3, 1.5};

  PetscFunctionBeginUser;
  for (size_t ip = 0; ip < PETSC_STATIC_ARRAY_LENGTH(peclets); ip++) {
    Problem problem;

    PetscCall(ProblemCreateGrid(30, peclets[ip], LAYOUT_UNEVEN, &problem));
    for (size_t id = 0; id < DEGREES; id++) {
      char what[128];

      for (size_t is = 0; is < SIZES; is++) {
        for (PetscInt left = 0; left < 2; left++) {
          PetscCall(ProblemSetSolver(&problem, sizes[is], degrees[id]));
          PetscCall(KSPSetPCSide(problem.ksp, left ? PC_LEFT : PC_RIGHT));
          PetscCall(PetscSNPrintf(what, sizeof(what), "Peclet number %g, degree %" PetscInt_FMT ", s = %" PetscInt_FMT "%s",
                                  (double)peclets[ip], degrees[id], sizes[is], left ? ", left" : ""));
          if (left) PetscCall(SolveConverged(what, problem.ksp, problem.b));
          else PetscCall(CheckSolve(what, &problem));
        }
      }
      for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(others); i++) {
        PetscReal          rnorm, bnorm;
        KSPConvergedReason reason;

        /* tfqmr of PETSc may break down, or not notice the end, as it does without a preconditioner */
        if (PetscDefined(USE_REAL_SINGLE) && degrees[id] <= 2 && !strcmp(others[i], KSPTFQMR)) continue;
        PetscCall(ProblemSetSolver(&problem, 1, degrees[id]));
        PetscCall(KSPSetType(problem.ksp, others[i]));
        PetscCall(KSPSetTolerances(problem.ksp, rtol, 0.0, PETSC_DEFAULT, 4000));
        PetscCall(KSPSolve(problem.ksp, problem.b, problem.x));
        PetscCall(KSPGetConvergedReason(problem.ksp, &reason));
        PetscCall(ResidualNorm(problem.A, problem.b, problem.x, &rnorm, &bnorm));
        /* other solvers do not verify, and most of them test the preconditioned norm */
        PetscCall(ComplainIf(reason <= 0 || reason == KSP_CONVERGED_ITS || !(rnorm <= 100 * rtol * bnorm),
                             "%s, degree %" PetscInt_FMT ": %s, the norm of b - A x is %g of %g", others[i], degrees[id],
                             KSPConvergedReasons[reason], (double)rnorm, (double)bnorm));
      }
    }
    PetscCall(ProblemDestroy(&problem));
  }
  PetscCall(Verdict("solvers"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Central differences in a cube of m^3 points, with mesh Peclet number 10 in all directions */
static PetscErrorCode ProblemCreateCube(PetscInt m, Problem *problem)
{
  PetscFunctionBeginUser;
  *problem = (Problem){NULL};
  PetscCall(ConvectionDiffusion(PETSC_COMM_WORLD, m, m, 10.0, &problem->A));
  PetscCall(MatCreateVecs(problem->A, &problem->x, &problem->b));
  PetscCall(VecSetGeneral(problem->b, 1.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves with each degree from 2 to `largest`. A solve may take at most `most` matvecs */
static PetscErrorCode CheckDegrees(Problem *problem, PetscInt s, PetscInt largest, PetscInt most)
{
  PetscFunctionBeginUser;
  for (PetscInt degree = 2; degree <= largest; degree++) {
    PetscInt used, its;
    char     what[64];

    if (PETSC_MACHINE_EPSILON > 1e-10 && degree > 6) continue;
    PetscCall(PetscSNPrintf(what, sizeof(what), "s = %" PetscInt_FMT ", degree %" PetscInt_FMT, s, degree));
    PetscCall(ProblemSetSolver(problem, s, degree));
    PetscCall(CheckSolve(what, problem));
    PetscCall(KSPGetIterationNumber(problem->ksp, &its));
    PetscCall(PCPolyGetDegree(problem->pc, NULL, &used));
    PetscCall(ComplainIf(used < 1 || used > degree, "%s: degree %" PetscInt_FMT " used", what, used));
    PetscCall(ComplainIf(its * used > most, "%s: %" PetscInt_FMT " iterations", what, its));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Central differences at a mesh Peclet number of 10, with which IDR(s) hardly converges without a preconditioner */
static PetscErrorCode TestConvection(void)
{
  Problem problem, cube;

  PetscFunctionBeginUser;
  PetscCall(ProblemCreateGrid(32, 20.0, LAYOUT_EVEN, &problem));
  PetscCall(ProblemCreateCube(24, &cube));
  for (size_t is = 0; is < SIZES; is++) PetscCall(CheckDegrees(&problem, sizes[is], 20, 1500));
  PetscCall(CheckDegrees(&cube, 4, 7, 500));
  PetscCall(ProblemDestroy(&cube));
  PetscCall(ProblemDestroy(&problem));
  PetscCall(Verdict("convection"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PassDiagonal(Mat S, Vec d)
{
  void *ctx;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(S, &ctx));
  PetscCall(MatGetDiagonal((Mat)ctx, d));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PassTranspose(Mat S, Vec x, Vec y)
{
  void *ctx;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(S, &ctx));
  PetscCall(MatMultTranspose((Mat)ctx, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Shells with and without a diagonal, a matrix of blocks, a preconditioner from another matrix, transposed solves */
static PetscErrorCode TestOperators(void)
{
  Mat      A, C, S, T, N, block[4] = {NULL};
  Vec      part[2];
  PetscInt used[2];
  Problem  problem, nest = {NULL};

  PetscFunctionBeginUser;
  PetscCall(ProblemCreateGrid(24, 0.6, LAYOUT_UNEVEN, &problem));
  A = problem.A;
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_UNEVEN, 24, 0.5, 0.3, &C));
  PetscCall(ShellCreate(A, PassMult, A, &S));
  PetscCall(ShellCreate(A, PassMult, A, &T));
  PetscCall(MatShellSetOperation(T, MATOP_GET_DIAGONAL, (void (*)(void))PassDiagonal));
  PetscCall(MatShellSetOperation(T, MATOP_MULT_TRANSPOSE, (void (*)(void))PassTranspose));
  for (PetscInt i = 0; i < 4; i++) {
    const Mat   operators[] = {S, T, A, C}, from[] = {S, T, C, T};
    const char *names[] = {"shell", "shell with a diagonal", "another matrix", "another matrix, a shell"};

    problem.A = operators[i];
    PetscCall(ProblemSetSolver(&problem, 4, 6));
    PetscCall(KSPSetOperators(problem.ksp, operators[i], from[i]));
    PetscCall(CheckSolve(names[i], &problem));
    if (i < 2) PetscCall(PCPolyGetDegree(problem.pc, NULL, &used[i]));
    if (i == 1) {
      PetscCall(KSPSolveTranspose(problem.ksp, problem.b, problem.x));
      PetscCall(MatCreateTranspose(T, &N));
      PetscCall(CheckSolved("transposed", problem.ksp, N, problem.b, problem.x));
      PetscCall(MatDestroy(&N));
    }
  }
  problem.A = A;
  PetscCall(ComplainIf(used[0] < 1 || used[1] < 1, "shells: degrees %" PetscInt_FMT " and %" PetscInt_FMT, used[0], used[1]));
  block[0] = A;
  block[3] = C;
  PetscCall(MatCreateNest(PETSC_COMM_WORLD, 2, NULL, 2, NULL, block, &nest.A));
  PetscCall(MatNestSetVecType(nest.A, VECNEST));
  part[0] = problem.b;
  PetscCall(VecDuplicate(part[0], &part[1]));
  PetscCall(VecSetGeneral(part[1], 0.3));
  PetscCall(VecCreateNest(PETSC_COMM_WORLD, 2, NULL, part, &nest.b));
  PetscCall(VecDuplicate(nest.b, &nest.x));
  PetscCall(ProblemSetSolver(&nest, 4, 6));
  PetscCall(KSPIDRSSetImplementation_Private(nest.ksp, KSP_IDRS_AUTO));
  PetscCall(CheckSolve("nest", &nest));
  PetscCall(ProblemDestroy(&nest));
  PetscCall(DestroyAll(&part[1], &S, &T, &C));
  PetscCall(ProblemDestroy(&problem));
  PetscCall(Verdict("operators"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the largest difference of the roots from the kept ones, and keeps the roots */
static PetscErrorCode RootsMoved(PC pc, PetscInt *kept, PetscReal keptre[], PetscReal *moved)
{
  const PetscReal *re;
  PetscInt         n;

  PetscFunctionBeginUser;
  PetscCall(PCPolyGetRoots(pc, &n, &re, NULL));
  *moved = n == *kept ? 0.0 : 1.0;
  for (PetscInt i = 0; i < n; i++) {
    if (n == *kept) *moved = PetscMax(*moved, PetscAbsReal(re[i] - keptre[i]));
    keptre[i] = re[i];
  }
  *kept = n;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Matrices and settings that change between solves of one solver */
static PetscErrorCode TestChanges(void)
{
  enum {
    NOTHING,
    SHIFTED,
    SCALED,
    ANOTHER,
    REUSED,
    REUSED_DEGREE,
    NOT_REUSED,
    ANOTHER_SEED
  };
  const struct {
    const char *name;
    int         change;
    PetscBool   kept;   /* the roots of the previous solve */
    PetscInt    degree; /* requested and used */
  } steps[] = {
    {"at first",                  NOTHING,       PETSC_FALSE, 4},
    {"nothing",                   NOTHING,       PETSC_TRUE,  4},
    {"diagonal",                  SHIFTED,       PETSC_FALSE, 4},
    {"rows scaled",               SCALED,        PETSC_TRUE,  4}, /* D^{-1}A does not depend on the scale of rows */
    {"another matrix",            ANOTHER,       PETSC_FALSE, 4},
    {"reuse, another matrix",     REUSED,        PETSC_TRUE,  4},
    {"reuse, another degree",     REUSED_DEGREE, PETSC_FALSE, 3},
    {"no reuse, the same matrix", NOT_REUSED,    PETSC_TRUE,  3},
    {"another seed",              ANOTHER_SEED,  PETSC_FALSE, 3}
  };
  PetscInt  n = 0;
  PetscReal re[128], moved;
  Vec       d;
  Problem   problem, other;

  PetscFunctionBeginUser;
  PetscCall(ProblemCreateGrid(24, 0.6, LAYOUT_EVEN, &problem));
  PetscCall(ProblemCreateGrid(13, 0.6, LAYOUT_EVEN, &other));
  PetscCall(VecDuplicate(problem.b, &d));
  PetscCall(ProblemSetSolver(&problem, 4, 4));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(steps); i++) {
    const Mat A = problem.A;
    PetscInt  asked, used;

    if (steps[i].change == SHIFTED) PetscCall(MatShift(A, 2.0));
    if (steps[i].change == SCALED) {
      PetscCall(VecSetGeneral(d, 0.1));
      PetscCall(VecShift(d, 3.0));
      PetscCall(MatDiagonalScale(A, d, NULL));
    }
    if (steps[i].change == ANOTHER) PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, 24, 3.0, 0.1, &problem.A));
    if (steps[i].change == REUSED || steps[i].change == NOT_REUSED)
      PetscCall(PolyOption(problem.pc, "reuse", steps[i].change == REUSED ? "true" : "false"));
    if (steps[i].change == ANOTHER_SEED) PetscCall(PolyOption(problem.pc, "seed", "17"));
    PetscCall(PCPolySetDegree(problem.pc, steps[i].degree));
    PetscCall(KSPSetOperators(problem.ksp, problem.A, problem.A));
    PetscCall(CheckSolve(steps[i].name, &problem));
    PetscCall(RootsMoved(problem.pc, &n, re, &moved));
    if (steps[i].kept)
      PetscCall(ComplainIf(!(moved <= 1e8 * PETSC_MACHINE_EPSILON), "%s: roots have moved by %g", steps[i].name, (double)moved));
    else PetscCall(ComplainIf(!(moved > 1e-5), "%s: roots have moved by %g only", steps[i].name, (double)moved));
    PetscCall(PCPolyGetDegree(problem.pc, &asked, &used));
    PetscCall(ComplainIf(asked != steps[i].degree || used != asked, "%s: degree %" PetscInt_FMT ", %" PetscInt_FMT " used",
                         steps[i].name, asked, used));
    if (steps[i].change == ANOTHER) {
      PetscCall(MatDestroy(&problem.A));
      problem.A = A;
    }
  }
  /* another type and back */
  PetscCall(PCSetType(problem.pc, PCJACOBI));
  PetscCall(CheckSolve("another type", &problem));
  PetscCall(SetPoly(&problem, 5));
  PetscCall(CheckSolve("another type, and back", &problem));
  /* another size, after a reset */
  PetscCall(KSPReset(problem.ksp));
  PetscCall(KSPSetOperators(problem.ksp, other.A, other.A));
  PetscCall(SolveConverged("another size", problem.ksp, other.b));
  PetscCall(VecDestroy(&d));
  PetscCall(ProblemDestroy(&other));
  PetscCall(ProblemDestroy(&problem));
  PetscCall(Verdict("changes"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscScalar Large(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 1e20 : 0.0;
}

static PetscScalar Negative(PetscInt i, PetscInt j, PetscInt n)
{
  return -1e-20 * Convection(i, j, n);
}

static PetscScalar Nilpotent(PetscInt i, PetscInt j, PetscInt n)
{
  return j == i + 1 ? 1.0 : 0.0;
}

static PetscScalar Zero(PetscInt i, PetscInt j, PetscInt n)
{
  return 0.0;
}

/* [ C 1; -1 0 ], where every other diagonal entry is zero */
static PetscScalar Saddle(PetscInt i, PetscInt j, PetscInt n)
{
  if (i == j) return i % 2 ? 0.0 : 4.0;
  if (i / 2 == j / 2) return i % 2 ? -1.0 : 1.0;
  return i % 2 || j % 2 ? 0.0 : (j == i + 2 ? -0.5 : (j == i - 2 ? -1.0 : 0.0));
}

/* Convection and diffusion on a line, with this entry in every fourth row of the diagonal */
static PetscReal small;

static PetscScalar Small(PetscInt i, PetscInt j, PetscInt n)
{
  if (i == j) return i % 4 ? 2.6 : small;
  return j == i - 1 ? -1.3 : (j == i + 1 ? -1.0 : 0.0);
}

static PetscScalar DenseRow(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 3.0 : (i == n / 2 ? 0.1 : (j == i + 1 ? -1.0 : 0.0));
}

static PetscScalar TwoValues(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 1.0 : (j == i + 1 && i % 2 == 0 ? 0.5 : (j == i - 1 && j % 2 == 0 ? 0.5 : 0.0));
}

/* Spaces that end early, scales at the end of the range, zero diagonals, more processes or degrees than rows */
static PetscErrorCode TestSpecial(void)
{
  const struct {
    const char *name;
    Entry      *entry;
    PetscInt    n, most; /* most: largest possible degree in exact arithmetic */
  } systems[] = {
    {"identity",         Identity,    40, 1 },
    {"a large multiple", Large,       40, 1 },
    {"two eigenvalues",  TwoValues,   40, 2 },
    {"tridiagonal",      Tridiagonal, 60, 16},
    {"negative",         Negative,    96, 16},
    {"zeros",            Saddle,      60, 16},
    {"dense row",        DenseRow,    60, 16},
    {"1 x 1",            Tridiagonal, 1,  1 },
    {"2 x 2",            Tridiagonal, 2,  2 },
    {"5 x 5",            Tridiagonal, 5,  5 }
  };

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(systems); i++) {
    for (size_t id = 0; id < DEGREES; id++) {
      const PetscReal *re, *im;
      PetscInt         n, used;
      Problem          problem;
      char             what[64];

      PetscCall(ProblemCreateEntries(systems[i].entry, systems[i].n, &problem));
      PetscCall(ProblemSetSolver(&problem, 2, degrees[id]));
      PetscCall(PetscSNPrintf(what, sizeof(what), "%s, degree %" PetscInt_FMT, systems[i].name, degrees[id]));
      PetscCall(CheckSolve(what, &problem));
      PetscCall(PCPolyGetDegree(problem.pc, NULL, &used));
      PetscCall(
        ComplainIf(used < 1 || used > PetscMin(degrees[id], systems[i].most), "%s: degree %" PetscInt_FMT " used", what, used));
      PetscCall(PCPolyGetRoots(problem.pc, &n, &re, &im));
      for (PetscInt k = 0; k < n; k++)
        PetscCall(ComplainIf(PetscIsInfOrNanReal(re[k]) || PetscIsInfOrNanReal(im[k]) || (re[k] == 0.0 && im[k] == 0.0),
                             "%s: root %g + %gi", what, (double)re[k], (double)im[k]));
      PetscCall(ProblemDestroy(&problem));
    }
  }
  PetscCall(Verdict("special systems"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Gets the number of rows that are scaled by their largest entry from the view */
static PetscErrorCode SmallRows(PC pc, PetscInt *rows)
{
  PetscReal number[1] = {0.0};
  PetscInt  lines;

  PetscFunctionBeginUser;
  PetscCall(ViewNumbers((PetscObject)pc, " times it): ", 1, number, &lines));
  *rows = (PetscInt)number[0];
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Diagonal entries far below the rest of their rows are treated like zeros, for any scale of the rows. With entries of 1e-2 gmres
   attains a relative norm of 250 times the machine precision
*/
static PetscErrorCode TestSmallDiagonal(void)
{
  const PetscInt    n          = 60;
  const PetscReal   entries[]  = {0.0, 1e-20, 1e-8, 1e-4, 1e-2, 1.0};
  const char *const types[]    = {KSPIDRS, KSPGMRES};
  const PetscReal   tolerance  = rtol;
  PetscInt          zero[2][2] = {{0}}; /* iterations with zeros; rows may be scaled by complex numbers */

  PetscFunctionBeginUser;
  rtol = PetscMax(tolerance, 1e3 * PETSC_MACHINE_EPSILON);
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(entries); i++) {
    for (PetscInt scaled = 0; scaled < 2; scaled++) {
      for (size_t it = 0; it < PETSC_STATIC_ARRAY_LENGTH(types); it++) {
        const PetscInt expected = entries[i] < 1e-3 ? n / 4 : 0;
        PetscInt       its, rows;
        Problem        problem;
        char           what[64];

        small = entries[i];
        PetscCall(ProblemCreateEntries(Small, n, &problem));
        if (scaled) {
          PetscCall(VecSetGeneral(problem.x, 0.3));
          PetscCall(VecShift(problem.x, 3.0));
          PetscCall(VecScale(problem.x, 1e6));
          PetscCall(MatDiagonalScale(problem.A, problem.x, NULL));
          PetscCall(VecPointwiseMult(problem.b, problem.b, problem.x));
        }
        PetscCall(ProblemSetSolver(&problem, 4, 8));
        PetscCall(KSPSetType(problem.ksp, types[it]));
        PetscCall(KSPSetPCSide(problem.ksp, PC_RIGHT));
        PetscCall(PolyOption(problem.pc, "scaling", "diagonal"));
        PetscCall(PetscSNPrintf(what, sizeof(what), "%s, diagonal entries of %g%s", types[it], (double)entries[i],
                                scaled ? ", rows scaled" : ""));
        /* gmres does not verify: in single precision the norm of b - A x may be above the norm that gmres reports */
        if (PetscDefined(USE_REAL_SINGLE) && it) PetscCall(KSPSetTolerances(problem.ksp, 0.1 * rtol, 0.0, PETSC_DEFAULT, 1000));
        PetscCall(CheckSolve(what, &problem));
        PetscCall(KSPGetIterationNumber(problem.ksp, &its));
        if (i == 0) zero[scaled][it] = its;
        PetscCall(ComplainIf(expected && its > zero[scaled][it] + 2,
                             "%s: %" PetscInt_FMT " iterations, and %" PetscInt_FMT " with zeros", what, its, zero[scaled][it]));
        PetscCall(SmallRows(problem.pc, &rows));
        PetscCall(ComplainIf(rows != expected, "%s: %" PetscInt_FMT " rows scaled by their largest entry instead of %" PetscInt_FMT,
                             what, rows, expected));
        PetscCall(ProblemDestroy(&problem));
      }
    }
  }
  rtol = tolerance;
  PetscCall(Verdict("small diagonal entries"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Matrices without a polynomial: the preconditioner fails, and then a good matrix is solved. A nilpotent matrix has polynomials,
   but no solution
*/
static PetscErrorCode TestFailures(void)
{
  const PetscReal zero = 0.0;
  const struct {
    const char *name;
    Entry      *entry;
    PetscReal   value; /* of an entry, unless it is zero */
    PetscBool   fails;
  } systems[] = {
    {"zero",      Zero,        0.0,         PETSC_TRUE },
    {"nilpotent", Nilpotent,   0.0,         PETSC_FALSE},
    {"NaN",       Tridiagonal, zero / zero, PETSC_TRUE },
    {"Inf",       Tridiagonal, 1.0 / zero,  PETSC_TRUE }
  };
  const char *const others[] = {KSPGMRES, KSPFGMRES, KSPBCGS, KSPRICHARDSON, KSPPREONLY};
  Problem           problem;
  Mat               good;

  PetscFunctionBeginUser;
  PetscCall(ProblemCreateEntries(Tridiagonal, 30, &problem));
  good = problem.A;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(systems); i++) {
    KSPConvergedReason reason;
    PCFailedReason     failed;
    PetscInt           used;
    Mat                A;

    PetscCall(MatCreateEntries(systems[i].entry, 30, PETSC_FALSE, &A));
    if (systems[i].value != 0.0) {
      PetscCall(MatSetOption(A, MAT_NEW_NONZERO_LOCATION_ERR, PETSC_FALSE));
      PetscCall(MatSetValue(A, 12, 13, systems[i].value, INSERT_VALUES));
      PetscCall(MatAssemble(A));
    }
    PetscCall(KSPDestroy(&problem.ksp));
    PetscCall(SolverCreate(A, 2, PCNONE, &problem.ksp));
    if (i % 2) PetscCall(KSPSetUp(problem.ksp)); /* before 3.26 PETSc sets up a type that changes later in PCApply() only */
    PetscCall(SetPoly(&problem, 4));
    PetscCall(VecSet(problem.x, 0.0));
    PetscCall(KSPSolve(problem.ksp, problem.b, problem.x));
    PetscCall(KSPGetConvergedReason(problem.ksp, &reason));
    PetscCall(PCGetFailedReason(problem.pc, &failed));
    PetscCall(PCPolyGetDegree(problem.pc, NULL, &used));
    PetscCall(ComplainIf((systems[i].fails ? reason != KSP_DIVERGED_PC_FAILED : reason >= 0) || systems[i].fails != !!failed ||
                           systems[i].fails != !used,
                         "%s: %s, degree %" PetscInt_FMT, systems[i].name, KSPConvergedReasons[reason], used));
    for (size_t t = 0; systems[i].fails && t < PETSC_STATIC_ARRAY_LENGTH(others); t++) {
      for (PetscInt none = 0; none < 2; none++) { /* without norms, as in a smoother */
        KSP ksp;

        PetscCall(SolverCreate(A, 1, PCNONE, &ksp));
        PetscCall(KSPSetType(ksp, others[t]));
        PetscCall(KSPSetPC(ksp, problem.pc));
        if (none) PetscCall(KSPSetNormType(ksp, KSP_NORM_NONE));
        PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 5));
        PetscCall(VecSet(problem.x, 0.0));
        PetscCall(KSPSolve(ksp, problem.b, problem.x));
        PetscCall(KSPGetConvergedReason(ksp, &reason));
        PetscCall(ComplainIf(reason != KSP_DIVERGED_PC_FAILED, "%s, %s%s: %s", systems[i].name, others[t],
                             none ? " without norms" : "", KSPConvergedReasons[reason]));
        PetscCall(KSPDestroy(&ksp));
      }
    }
    PetscCall(KSPSetOperators(problem.ksp, good, good));
    PetscCall(CheckSolve("after a failure", &problem));
    PetscCall(MatDestroy(&A));
  }
  PetscCall(ProblemDestroy(&problem));
  PetscCall(Verdict("failures"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Matrices whose Krylov spaces end early; `varied` is a number of each matrix */
static PetscReal varied;

static PetscReal Uneven(PetscInt i)
{
  return PetscExpReal(3.0 * PetscSinReal(1.0 + 7.0 * i)) * (i % 3 ? 1.0 : -1.0);
}

static PetscScalar AnyDiagonal(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? Uneven(i) : 0.0;
}

static PetscScalar FewValues(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 1.0 + i % (PetscInt)varied : 0.0;
}

static PetscScalar Dominant(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? varied : (j == i - 1 ? -1.2 : (j == i + 1 ? -0.8 : 0.0));
}

static PetscScalar RepeatedBlocks(PetscInt i, PetscInt j, PetscInt n)
{
  return i / 3 != j / 3 ? 0.0 : (i == j ? 4.0 + i % 3 : 0.1 * (1 + i % 3) * (2 - j % 3) + 0.3);
}

/* Returns the error of an application of the preconditioner to A x, relative to ||x|| */
static PetscErrorCode ApplicationError(Mat A, Vec x, PetscInt degree, PetscInt seed, const char scaling[], PetscReal *error)
{
  char      number[16];
  PetscReal norm;
  Vec       b, y;
  PC        pc;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(A, &y, &b));
  PetscCall(MatMult(A, x, b));
  PetscCall(PCCreate(PETSC_COMM_WORLD, &pc));
  PetscCall(PCSetType(pc, PCPOLY));
  PetscCall(PCPolySetDegree(pc, degree));
  PetscCall(PetscSNPrintf(number, sizeof(number), "%" PetscInt_FMT, seed));
  PetscCall(PolyOption(pc, "seed", number));
  PetscCall(PolyOption(pc, "scaling", scaling));
  PetscCall(PolyOption(pc, "precision", "double")); /* -pc_poly_precision */
  PetscCall(PCSetOperators(pc, A, A));
  PetscCall(PCApply(pc, b, y));
  PetscCall(VecAXPY(y, -1.0, x));
  PetscCall(VecNorm(y, NORM_2, error));
  PetscCall(VecNorm(x, NORM_2, &norm));
  *error /= norm;
  PetscCall(PCDestroy(&pc));
  PetscCall(DestroyAll(&b, &y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   If the Krylov space ends, the preconditioner is as accurate as the space allows, and a larger degree is never much less accurate
   than a smaller one. In single precision a rounding error cannot be told from the last direction, so that the degree may be one
   less
*/
static PetscErrorCode TestAccuracy(void)
{
  const struct {
    const char *name;
    Entry      *entry;
    const char *scaling;
    PetscReal   varied[3], bounds[3]; /* the number of each matrix, and its least error */
  } systems[] = {
    {"few eigenvalues",      FewValues,      "none", {1, 3, 7},        {1e-14, 1e-12, 1e-9}},
    {"dominant",             Dominant,       "auto", {1e2, 1e6, 1e15}, {1e-8, 1e-12, 1e-13}},
    {"dominant, no scaling", Dominant,       "none", {1e2, 1e6, 1e15}, {1e-8, 1e-12, 1e-13}},
    {"repeated blocks",      RepeatedBlocks, "auto", {1},              {1e-11}             }
  };
  const PetscInt rising[] = {1, 2, 3, 4, 6, 8, 12, 16, 32, 64};

  PetscFunctionBeginUser;
  for (PetscInt n = 1; n <= 300; n += n < 20 ? 1 : 7) {
    Problem problem;

    PetscCall(ProblemCreateEntries(AnyDiagonal, n, &problem));
    for (size_t id = 0; id < DEGREES; id++) {
      PetscReal error;

      PetscCall(ApplicationError(problem.A, problem.b, degrees[id], n, "auto", &error));
      PetscCall(ComplainIf(!(error <= 4500 * PETSC_MACHINE_EPSILON),
                           "diagonal of %" PetscInt_FMT ", degree %" PetscInt_FMT ": error %g", n, degrees[id], (double)error));
    }
    PetscCall(ProblemDestroy(&problem));
  }
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(systems); i++) {
    for (PetscInt l = 0; l < 3 && systems[i].varied[l] != 0.0; l++) {
      for (PetscInt seed = 0; seed < 3; seed++) {
        PetscReal least = PETSC_MAX_REAL, bound = PetscMax(systems[i].bounds[l], PetscDefined(USE_REAL_SINGLE) ? 0.2 : 0.0);
        Problem   problem;

        varied = systems[i].varied[l];
        PetscCall(ProblemCreateEntries(systems[i].entry, 105, &problem));
        for (size_t id = 0; id < PETSC_STATIC_ARRAY_LENGTH(rising); id++) {
          PetscReal error;

          PetscCall(ApplicationError(problem.A, problem.b, rising[id], seed, systems[i].scaling, &error));
          PetscCall(ComplainIf(!(error <= 10 * PetscMax(least, 100 * PETSC_MACHINE_EPSILON)),
                               "%s %g, seed %" PetscInt_FMT ", degree %" PetscInt_FMT ": error %g, and %g with a smaller degree",
                               systems[i].name, (double)varied, seed, rising[id], (double)error, (double)least));
          least = PetscMin(least, error);
        }
        PetscCall(ComplainIf(!(least <= bound), "%s %g, seed %" PetscInt_FMT ": error %g", systems[i].name, (double)varied, seed,
                             (double)least));
        PetscCall(ProblemDestroy(&problem));
      }
    }
  }
  PetscCall(Verdict("accuracy"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Singular matrices; `varied` is the length of a cycle, or the diagonal entry */
static PetscScalar Cycles(PetscInt i, PetscInt j, PetscInt n)
{
  const PetscInt k = (PetscInt)varied;

  if (i / k * k + k > n || j / k * k + k > n) return 0.0; /* dead rows at the end */
  return i == j ? 1.0 : (i / k == j / k && j % k == (i + 1) % k ? -1.0 : 0.0);
}

static PetscScalar Triangle(PetscInt i, PetscInt j, PetscInt n)
{
  return i / 3 != j / 3 ? 0.0 : (i == j ? 2.0 : -1.0);
}

static PetscScalar DeadRows(PetscInt i, PetscInt j, PetscInt n)
{
  return i % 37 == 5 || j % 37 == 5 ? 0.0 : Dominant(i, j, n);
}

static PetscScalar DeadDiagonal(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j && i % 3 != 1 ? PetscAbsReal(Uneven(i)) : 0.0;
}

/* Rows of sum zero, of no symmetry: a graph with directed edges to i + 1, i + 2 and i - 3 of a circle */
static PetscScalar Graph(PetscInt i, PetscInt j, PetscInt n)
{
  const PetscInt to[]  = {(i + 1) % n, (i + 2) % n, (i + n - 3) % n};
  PetscScalar    value = 0.0;

  for (PetscInt k = 0; k < 3; k++) {
    const PetscReal weight = 1.5 + PetscSinReal(3.0 * i + 5.0 * k);

    if (to[k] != i && i == j) value += weight;
    if (to[k] != i && to[k] == j) value -= weight;
  }
  return value;
}

/*
   Consistent singular systems: with the polynomial they converge with each solver, as with PCJACOBI, for every seed, and the null
   space is not amplified
*/
static PetscErrorCode TestSingular(void)
{
  const struct {
    const char *name;
    Entry      *entry;
    PetscReal   varied;
    PetscInt    n;
    PetscBool   constant; /* constant vectors span the null space */
  } systems[] = {
    {"pairs",              Cycles,       2,   80,  PETSC_FALSE},
    {"triangle",           Triangle,     0,   3,   PETSC_TRUE },
    {"cycles",             Cycles,       3,   120, PETSC_FALSE},
    {"cycle and dead row", Cycles,       3,   4,   PETSC_FALSE},
    {"cycles and dead",    Cycles,       3,   122, PETSC_FALSE},
    {"dead rows",          DeadRows,     100, 300, PETSC_FALSE},
    {"dead rows, strong",  DeadRows,     1e6, 300, PETSC_FALSE},
    {"dead diagonal",      DeadDiagonal, 0,   50,  PETSC_FALSE},
    {"dead diagonal of 2", DeadDiagonal, 0,   2,   PETSC_FALSE},
    {"graph of 9",         Graph,        0,   9,   PETSC_TRUE },
    {"graph of 40",        Graph,        0,   40,  PETSC_TRUE }
  };
  const char *const types[] = {KSPIDRS, KSPGMRES, KSPBCGS};

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(systems); i++) {
    for (PetscInt attached = 0; attached <= (systems[i].constant ? 1 : 0); attached++) {
      Problem      problem = {NULL};
      PetscReal    known;
      PetscBool    jacobi[3]; /* the solver converges with it */
      MatNullSpace space;

      varied = systems[i].varied;
      PetscCall(SystemCreateEntries(systems[i].entry, systems[i].n, RHS_CONSISTENT, &problem.A, &problem.b, &problem.x));
      PetscCall(VecNorm(problem.x, NORM_2, &known));
      PetscCall(MatNullSpaceCreate(PETSC_COMM_WORLD, PETSC_TRUE, 0, NULL, &space));
      if (attached) PetscCall(MatSetNullSpace(problem.A, space));
      PetscCall(MatNullSpaceDestroy(&space));
      for (size_t t = 0; t < PETSC_STATIC_ARRAY_LENGTH(types); t++) {
        KSPConvergedReason reason;

        PetscCall(ProblemSetSolver(&problem, 4, 1));
        PetscCall(PCSetType(problem.pc, PCJACOBI));
        PetscCall(KSPSetType(problem.ksp, types[t]));
        PetscCall(VecSet(problem.x, 0.0));
        PetscCall(KSPSolve(problem.ksp, problem.b, problem.x));
        PetscCall(KSPGetConvergedReason(problem.ksp, &reason));
        jacobi[t] = (PetscBool)(reason > 0);
      }
      for (PetscInt test = 0; test < 3 * (PetscInt)DEGREES * 3; test++) {
        const PetscInt     degree = degrees[test / 9], seed = test / 3 % 3;
        const char        *seeds[] = {"0", "1", "2"};
        KSPConvergedReason reason;
        PetscReal          norm, rnorm, bnorm;

        if (!jacobi[test % 3]) continue;
        /* PETSc's bcgs breaks down if the preconditioner is exact, and rounding errors leave s = r - alpha v in the null space */
        if (!strcmp(types[test % 3], KSPBCGS) && systems[i].n < 6) continue;
        PetscCall(ProblemSetSolver(&problem, 4, degree));
        PetscCall(PolyOption(problem.pc, "seed", seeds[seed]));
        PetscCall(KSPSetType(problem.ksp, types[test % 3]));
        PetscCall(KSPSetTolerances(problem.ksp, rtol, 0.0, PETSC_DEFAULT, 500));
        PetscCall(VecSet(problem.x, 0.0));
        PetscCall(KSPSolve(problem.ksp, problem.b, problem.x));
        PetscCall(KSPGetConvergedReason(problem.ksp, &reason));
        PetscCall(ResidualNorm(problem.A, problem.b, problem.x, &rnorm, &bnorm));
        PetscCall(VecNorm(problem.x, NORM_2, &norm));
        PetscCall(ComplainIf(reason <= 0 || !(rnorm <= 1e3 * rtol * bnorm) || !(norm <= 1e3 * known),
                             "%s%s, %s, degree %" PetscInt_FMT ", seed %" PetscInt_FMT ": %s, ||b - A x|| = %g of %g, ||x|| = %g",
                             systems[i].name, attached ? ", null space attached" : "", types[test % 3], degree, seed,
                             KSPConvergedReasons[reason], (double)rnorm, (double)bnorm, (double)norm));
      }
      PetscCall(ProblemDestroy(&problem));
    }
  }
  PetscCall(Verdict("singular systems"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode FailDiagonal(Mat S, Vec d)
{
  PetscFunctionBeginUser;
  SETERRQ(PetscObjectComm((PetscObject)S), PETSC_ERR_SUP, "No diagonal");
}

/* Standard and nest vectors with a MATNEST that creates the other type; without scaling no call of MatGetDiagonal() */
static PetscErrorCode TestVectors(void)
{
  Problem problem;
  Mat     block[4], S;

  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < 4; i++) PetscCall(MatCreateEntries(i % 3 ? Identity : Convection, 40, PETSC_FALSE, &block[i]));
  for (PetscInt test = 0; test < 4; test++) {
    const char *const what = test % 2 ? "nest vectors" : "standard vectors";
    Vec               part[2];
    PetscReal         norm[2];
    PetscInt          n;

    problem = (Problem){NULL};
    PetscCall(MatCreateNest(PETSC_COMM_WORLD, 2, NULL, 2, NULL, block, &problem.A));
    if (test / 2) PetscCall(MatNestSetVecType(problem.A, VECNEST));
    PetscCall(MatGetLocalSize(problem.A, &n, NULL));
    for (PetscInt i = 0; i < 2; i++) PetscCall(MatCreateVecs(block[0], &part[i], NULL));
    if (test % 2) PetscCall(VecCreateNest(PETSC_COMM_WORLD, 2, NULL, part, &problem.b));
    else PetscCall(VecCreateMPI(PETSC_COMM_WORLD, n, 80, &problem.b));
    for (PetscInt i = 0; i < 2; i++) PetscCall(VecDestroy(&part[i]));
    PetscCall(VecDuplicate(problem.b, &problem.x));
    PetscCall(VecSet(problem.b, 1.0));
    /* without a preconditioner, by a solver of PETSc */
    PetscCall(SolverCreate(problem.A, 1, PCNONE, &problem.ksp));
    PetscCall(KSPSetType(problem.ksp, KSPGMRES));
    PetscCall(VecSet(problem.x, 0.0));
    PetscCall(KSPSolve(problem.ksp, problem.b, problem.x));
    PetscCall(ResidualNorm(problem.A, problem.b, problem.x, &norm[0], &norm[1]));
    if (!(norm[0] <= 10 * rtol * norm[1])) {
      PetscCall(Skip("PETSc does not multiply such vectors by a nest of these matrices"));
      PetscCall(ProblemDestroy(&problem));
      continue;
    }
    PetscCall(ProblemSetSolver(&problem, 2, 4));
    PetscCall(KSPIDRSSetImplementation_Private(problem.ksp, KSP_IDRS_AUTO));
    PetscCall(CheckSolve(what, &problem));
    PetscCall(ProblemSetSolver(&problem, 2, 4));
    PetscCall(KSPSetType(problem.ksp, KSPRICHARDSON));
    PetscCall(KSPSolve(problem.ksp, problem.b, problem.x));
    PetscCall(CheckSolved(what, problem.ksp, problem.A, problem.b, problem.x));
    PetscCall(ProblemDestroy(&problem));
  }
  for (PetscInt i = 0; i < 4; i++) PetscCall(MatDestroy(&block[i]));
  PetscCall(ProblemCreateEntries(Tridiagonal, 60, &problem));
  PetscCall(ShellCreate(problem.A, PassMult, problem.A, &S));
  PetscCall(MatShellSetOperation(S, MATOP_GET_DIAGONAL, (void (*)(void))FailDiagonal));
  PetscCall(SolverCreate(S, 2, PCNONE, &problem.ksp));
  PetscCall(SetPoly(&problem, 4));
  PetscCall(PolyOption(problem.pc, "scaling", "none"));
  PetscCall(CheckSolve("no scaling, no diagonal", &problem));
  PetscCall(MatDestroy(&S));
  PetscCall(ProblemDestroy(&problem));
  PetscCall(Verdict("vectors"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks the line of the view with the settings */
static PetscErrorCode CheckSettings(const char what[], PC pc, const char line[])
{
  PetscInt lines;

  PetscFunctionBeginUser;
  PetscCall(ViewNumbers((PetscObject)pc, line, 0, NULL, &lines));
  PetscCall(ComplainIf(lines != 1, "%s: the view has not the line %s", what, line));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Refused values: the error names the value and the setting, and the old value stays */
static PetscErrorCode TestValues(void)
{
  const PetscInt    degree[] = {0, -3, 129, 1000000};
  const char *const texts[]  = {" 0:", "-3", "129", "1000000"};
  const PetscReal   zero = 0.0, re[] = {1.0, 0.5, 0.5}, im[] = {0.0, 0.25, 0.25}, bad[] = {1.0, 0.0, 2.0};
  const PetscReal   nan[] = {1.0, zero / zero};
  PetscInt          used;
  PC                pc;

  PetscFunctionBeginUser;
  PetscCall(PCCreate(PETSC_COMM_WORLD, &pc));
  PetscCall(PCSetOptionsPrefix(pc, "my_"));
  /* another type ignores the setters, and its getters are errors */
  PetscCall(PCSetType(pc, PCNONE));
  PetscCall(PCPolySetDegree(pc, -7));
  CheckRefused(PCPolyGetDegree(pc, NULL, &used), "PCPolyGetDegree", PCPOLY);
  PetscCall(PCSetType(pc, PCPOLY));
  PetscCall(CheckSettings("the defaults", pc, "  degree 8, roots gmres, seed 0"));
  for (PetscInt i = 0; i < 4; i++) CheckRefused(PCPolySetDegree(pc, degree[i]), "-my_pc_poly_degree", texts[i]);
  CheckRefused(PCPolySetRoots(pc, 129, re, im), "PCPolySetRoots", "129");
  CheckRefused(PolyOption(pc, "seed", "-7"), "-my_pc_poly_seed", "-7");
  CheckRefused(PolyOption(pc, "roots", "user"), "-my_pc_poly_roots", "user");
  CheckRefused(PolyOption(pc, "roots", "chebyshev"), "-my_pc_poly_roots chebyshev", "gmres");
  CheckRefused(PCPolySetRoots(pc, 3, bad, NULL), "PCPolySetRoots", "root 1");
  CheckRefused(PCPolySetRoots(pc, 2, nan, NULL), "PCPolySetRoots", "root 1");
  CheckRefused(PCPolySetRoots(pc, 3, NULL, NULL), "PCPolySetRoots", "3");
  if (!PetscDefined(USE_COMPLEX)) CheckRefused(PCPolySetRoots(pc, 3, re, im), "PCPolySetRoots", "root 1");
  PetscCall(CheckSettings("after errors", pc, "  degree 8, roots gmres, seed 0"));
  PetscCall(PolyOption(pc, "degree", "12 -my_pc_poly_seed 5 -my_pc_poly_reuse true -my_pc_poly_smoother"));
  PetscCall(PCPolySetRoots(pc, 1, re, NULL));
  PetscCall(CheckSettings("after the options", pc, "  degree 1, roots user, seed 5, for a smoother, kept when the matrix changes"));
  PetscCall(PCDestroy(&pc));
  PetscCall(Verdict("values"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* -ksp_view states the degree, the residual of the start vector, and the reason if there is no polynomial */
static PetscErrorCode TestView(void)
{
  for (PetscInt zero = 0; zero < 2; zero++) {
    const char *const texts[] = {"degree used: ", "residual of the random start vector: ", "no polynomial: "};
    PetscReal         numbers[4];
    PetscInt          lines;
    Mat               A;
    PC                pc;

    PetscFunctionBeginUser;
    PetscCall(MatCreateEntries(zero ? Zero : Convection, 120, PETSC_FALSE, &A));
    PetscCall(PCCreate(PETSC_COMM_WORLD, &pc));
    PetscCall(PCSetType(pc, PCPOLY));
    PetscCall(PCPolySetDegree(pc, 3));
    PetscCall(PCSetOperators(pc, A, A));
    PetscCall(PCSetUp(pc));
    PetscCall(CheckViewLines(zero ? "zero" : "convection", (PetscObject)pc));
    for (PetscInt i = 0; i < 3; i++) {
      PetscCall(ViewNumbers((PetscObject)pc, texts[i], 4, numbers, &lines));
      PetscCall(ComplainIf(lines != (zero == (i == 2) ? 1 : 0), "%s: %" PetscInt_FMT " lines with \"%s\"",
                           zero ? "zero" : "convection", lines, texts[i]));
      if (lines == 1 && i == 0) PetscCall(ComplainIf(numbers[0] != 3.0, "degree %g in the view", (double)numbers[0]));
      if (lines == 1 && i == 1) PetscCall(ComplainIf(!(numbers[0] < 1.0), "residual %g in the view", (double)numbers[0]));
    }
    PetscCall(DestroyAll(&pc, &A));
  }
  PetscCall(Verdict("view"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(KSPIDRSRegister());
  PetscCall(PetscOptionsClearValue(NULL, "-malloc_dump")); /* PETSc leaks memory after an error */
  PetscCall(ImplementationFromOptions());
  PetscCall(TestSolvers());
  PetscCall(TestConvection());
  PetscCall(TestOperators());
  PetscCall(TestChanges());
  PetscCall(TestSpecial());
  PetscCall(TestSmallDiagonal());
  PetscCall(TestFailures());
  PetscCall(TestAccuracy());
  PetscCall(TestSingular());
  PetscCall(TestVectors());
  PetscCall(TestValues());
  PetscCall(TestView());
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
