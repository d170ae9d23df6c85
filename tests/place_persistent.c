static char help[] = "Iterations of KSPIDRS in the persistent kernel of a GPU, compared with step by step. Without a GPU,\n\
or on several processes, the choice is step by step, with the same results.\n\n";

#include "systems.h"

static PetscBool gpu; /* the options create matrices with which the persistent kernel can run */

/* Preconditioners. With the first two the matrix need not fit in the registers of the GPU */
typedef struct {
  const char *type;
  const char *scaling; /* of PCPOLY, or NULL */
} Method;
static const Method methods[] = {
  {PCNONE,   NULL      },
  {PCJACOBI, NULL      },
  {PCPOLY,   "none"    },
  {PCPOLY,   "diagonal"},
  {PCPOLY,   "matching"}
};
enum {
  JACOBI = 1,
  POLY
};

static PetscErrorCode SolverCreateRun(Mat A, PetscInt s, const Method *method, KSPIDRSRun run, KSP *ksp)
{
  PC pc;

  PetscFunctionBeginUser;
  PetscCall(SolverCreate(A, s, method->type, ksp));
  PetscCall(KSPIDRSSetRun_Private(*ksp, run));
  PetscCall(KSPIDRSSetProduct_Private(*ksp, KSP_IDRS_PRODUCT_AUTO));
  PetscCall(KSPGetPC(*ksp, &pc));
  if (method->scaling) {
    PetscCall(PCPolySetDegree(pc, 6));
    PetscCall(PolyOption(pc, "scaling", method->scaling));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

#define KERNELS "matvecs ... kernels, where"

/*
   Compares histories, up to rounding errors in the first cycles, and with a second solve to the bit, except for the last norm,
   which MatMult() computes. All solutions are right. Destroys A and b. npc: number of preconditioners
*/
static PetscErrorCode CompareHistories(PetscInt npc, Mat A, Vec b)
{
  const PetscInt sizes[] = {1, 3, 8, 16};
  PetscBool      varies;
  Vec            x, again;
  Outcome       *history;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(3, &history));
  PetscCall(DuplicateAll(b, &x, &again));
  /* products of this type may add in another order each time */
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJCUSPARSE, &varies));
  for (PetscInt i = 0; i < npc * (PetscInt)PETSC_STATIC_ARRAY_LENGTH(sizes); i++) {
    const Method  *method = &methods[i % npc];
    const PetscInt s      = sizes[i / npc];
    PetscBool      equal, same;

    for (PetscInt turn = 0; turn < 3; turn++) {
      const KSPIDRSRun run = turn ? (gpu ? KSP_IDRS_RUN_PERSISTENT : KSP_IDRS_RUN_AUTO) : KSP_IDRS_RUN_STEPWISE;
      KSP              ksp;

      PetscCall(SolverCreateRun(A, s, method, run, &ksp));
      PetscCall(SolveHistory(ksp, b, turn == 2 ? again : x, &history[turn]));
      PetscCall(CheckSolved(turn ? "persistent" : "stepwise", ksp, A, b, turn == 2 ? again : x));
      PetscCall(KSPDestroy(&ksp));
    }
    for (PetscInt k = 0; k < PetscMin(12, PetscMin(history[0].length, history[1].length)); k++) {
      const PetscReal difference = PetscAbsReal(history[0].norms[k] - history[1].norms[k]);

      PetscCall(ComplainIf(!(difference <= PETSC_SQRT_MACHINE_EPSILON * history[0].norms[0]),
                           "%s, s = %" INT ", iteration %" INT ": norm %g step by step, %g in one kernel", method->type, s, k,
                           (double)history[0].norms[k], (double)history[1].norms[k]));
    }
    PetscCall(ComplainIf(history[0].length > 2 * history[1].length || history[1].length > 2 * history[0].length,
                         "%s, s = %" INT ": %" INT " iterations step by step, %" INT " in one kernel", method->type, s,
                         history[0].length, history[1].length));
    PetscCall(PetscArraycmp(history[1].norms, history[2].norms, history[1].length - 1, &equal));
    PetscCall(VecEqual(x, again, &same));
    PetscCall(ComplainIf(!varies && (history[1].length != history[2].length || !equal || !same),
                         "%s, s = %" INT ": other norms or another solution in a second solve", method->type, s));
  }
  PetscCall(PetscFree(history));
  PetscCall(DestroyAll(&again, &x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Rows of n / 2 entries */
static PetscScalar InHalfOfThem(PetscInt i, PetscInt j, PetscInt n)
{
  if ((j - i + n) % n >= n / 2) return 0.0;
  return i == j ? (PetscReal)(n + i % 5) / 2 : (PetscReal)(2 * ((7 * j + 3 * i) % 11) - 9) / 20;
}

/* Three entries per row, and one row with an entry in each column */
static PetscScalar InFirstRow(PetscInt i, PetscInt j, PetscInt n)
{
  if (i == 0 && j > 1) return 0.5 / n;
  return PetscAbsInt(i - j) > 1 ? (PetscScalar)0.0 : Tridiagonal(i, j, n);
}

/* The matrix is in shared memory, or, with many columns or long rows, in global memory; or PCPOLY is in the kernel */
static PetscErrorCode TestHistories(void)
{
  Mat A;
  Vec b;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 30, 0.4, LAYOUT_EVEN, &A, &b));
  PetscCall(CompareHistories((PetscInt)PETSC_STATIC_ARRAY_LENGTH(methods), A, b));
  if (gpu) { /* several rows per thread */
    PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 300, 0.4, LAYOUT_EVEN, &A, &b));
    PetscCall(MatShift(A, 1.0));
    PetscCall(CompareHistories(POLY, A, b));
  }
  PetscCall(MatCreateEntries(InHalfOfThem, 900, PETSC_FALSE, &A));
  PetscCall(MatCreateVecs(A, &b, NULL));
  PetscCall(VecSetGeneral(b, 0.7));
  PetscCall(CompareHistories(POLY, A, b));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Limits on the number of iterations: exactly so many are made; with the last limit more than in one kernel, until r stagnates */
static PetscErrorCode TestLimits(void)
{
  Mat A;
  Vec b, x;

  PetscFunctionBeginUser;
  PetscCall(GridSystemCreate(20, 0.4, &A, &b, &x));
  for (PetscInt i = 0; i <= 26; i++) {
    const PetscInt    s = i % 3 ? 4 : 1, limit = i < 26 ? i / 2 : 5000;
    const KSPNormType type = i % 2 ? KSP_NORM_NONE : KSP_NORM_UNPRECONDITIONED;
    PetscInt          its;
    PetscReal         norm, rnorm, bnorm;
    KSP               ksp;

    PetscCall(SolverCreateLimited(A, s, PC_RIGHT, type, limit, PCJACOBI, &ksp));
    PetscCall(KSPSetConvergenceTest(ksp, KSPConvergedSkip, NULL, NULL));
    PetscCall(KSPIDRSSetRun_Private(ksp, KSP_IDRS_RUN_AUTO));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(KSPGetIterationNumber(ksp, &its));
    PetscCall(KSPGetResidualNorm(ksp, &norm));
    PetscCall(ResidualNorm(A, b, x, &rnorm, &bnorm));
    PetscCall(ComplainIf(i < 26 && its != limit, "s = %" INT ": %" INT " iterations of %" INT, s, its, limit));
    PetscCall(ComplainIf(i % 2 == 0 && !(PetscAbsReal(norm - rnorm) <= PETSC_SQRT_MACHINE_EPSILON * bnorm),
                         "s = %" INT ", iteration %" INT ": norm %g reported, b - A x has %g", s, its, (double)norm,
                         (double)rnorm));
    PetscCall(ComplainIf(i == 26 && !(rnorm <= PETSC_SQRT_MACHINE_EPSILON * bnorm), "b - A x has norm %g after %" INT " iterations",
                         (double)rnorm, its));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* One row in 97 has 60 entries, the others up to 7 */
static PetscScalar OfAllLengths(PetscInt i, PetscInt j, PetscInt n)
{
  const PetscInt reach = i % 97 ? i % 7 / 2 : PetscMin(30, n / 2), distance = (j - i + n) % n;

  if (i == j) return 30.0 + i % 5;
  return distance <= reach || distance >= n - reach ? (j % 2 ? 0.4 : -0.3) : 0.0;
}

/* Any number of rows from one on; rows of different lengths; a matrix whose values change between solves, or that is replaced */
static PetscErrorCode TestSizes(void)
{
  const PetscInt rows[] = {1, 2, 33, 257, 3000};
  Mat            A, B;
  Vec            b, x;
  KSP            ksp;

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(rows); i++) {
    PetscCall(MatCreateEntries(OfAllLengths, rows[i], PETSC_FALSE, &A));
    PetscCall(MatCreateVecs(A, &x, &b));
    PetscCall(VecSetGeneral(b, 0.7));
    PetscCall(SolverCreateRun(A, 4, &methods[i % 2], KSP_IDRS_RUN_AUTO, &ksp));
    PetscCall(SolveSystem("first", ksp, A, b, x));
    PetscCall(MatScale(A, 2.0));
    PetscCall(SolveSystem("scaled", ksp, A, b, x));
    PetscCall(MatTranspose(A, MAT_INITIAL_MATRIX, &B));
    PetscCall(KSPSetOperators(ksp, B, B));
    PetscCall(SolveSystem("another matrix", ksp, B, b, x));
    PetscCall(DestroyAll(&ksp, &x, &b, &B, &A));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Settings that the persistent kernel does not support, with the reason in the error on a GPU; without a GPU the reason differs */
static const char *const reasons[] = {"PCJACOBI", "16 shadow vectors", "PCJACOBI", "MatMult()", "more than 32 products"};

/*
   Settings that cannot run in one kernel are errors that name the option and the reason, and the solver can be used with another
   setting
*/
static PetscErrorCode TestRefused(void)
{
  PetscErrorCode ierr;
  Mat            A;
  Vec            b, x;
  KSP            ksp;
  PC             pc;

  PetscFunctionBeginUser;
  PetscCall(GridSystemCreate(12, 0.4, &A, &b, &x));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(reasons); i++) {
    PetscCall(SolverCreateRun(A, i == 1 ? 17 : 4, &methods[i == 2 ? JACOBI : i == 4 ? POLY : 0], KSP_IDRS_RUN_PERSISTENT, &ksp));
    PetscCall(KSPGetPC(ksp, &pc));
    if (i == 0) PetscCall(PCSetType(pc, PCSOR));
    if (i == 2) PetscCall(KSPSetPCSide(ksp, PC_LEFT));
    if (i == 3) PetscCall(KSPIDRSSetProduct_Private(ksp, KSP_IDRS_PRODUCT_MAT));
    if (i == 4) PetscCall(PCPolySetDegree(pc, 40));
    Try(ierr, KSPSolve(ksp, b, x));
    PetscCall(Unlock(b));
    PetscCall(CheckError(ierr, "one kernel where it cannot run", "-ksp_idrs_run", gpu ? reasons[i] : ""));
    PetscCall(KSPIDRSSetRun_Private(ksp, KSP_IDRS_RUN_AUTO));
    PetscCall(KSPSolve(ksp, b, x));
    if (i == 2) PetscCall(CheckConverged("after an error", ksp, b, x));
    else PetscCall(CheckSolved("after an error", ksp, A, b, x));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* There are as many reliable updates as step by step, except a late one by the host of a GPU, and a kernel does not end for them */
static PetscErrorCode TestUpdates(void)
{
  Mat A;
  Vec b, x;

  PetscFunctionBeginUser;
  PetscCall(GridSystemCreate(60, 0.4, &A, &b, &x));
  for (PetscInt i = 0; i < 6; i++) {
    const PetscInt s = i % 2 ? 4 : 1;
    PetscInt       updates[2], restarts[2], lines;
    PetscReal      kernels;

    for (PetscInt whole = 0; whole < 2; whole++) {
      KSP ksp;

      PetscCall(SolverCreateRun(A, s, &methods[i / 2], whole ? KSP_IDRS_RUN_AUTO : KSP_IDRS_RUN_STEPWISE, &ksp));
      /* in single precision one cycle may reach the tolerance from the residual at which the default makes an update */
      if (PetscDefined(USE_REAL_SINGLE)) PetscCall(KSPIDRSSetUpdateTolerance(ksp, 0.1));
      PetscCall(SolveSystem(whole ? "persistent" : "stepwise", ksp, A, b, x));
      PetscCall(KSPIDRSGetCounts(ksp, NULL, NULL, &updates[whole], &restarts[whole]));
      PetscCall(CheckView(ksp, KERNELS, whole && gpu ? 1 : 0));
      PetscCall(ViewNumbers((PetscObject)ksp, "matvecs ... operations in ", 1, &kernels, &lines));
      PetscCall(ComplainIf(lines && !(kernels < updates[whole] + restarts[whole] + 1),
                           "s = %" INT ": %g kernels with %" INT " updates", s, (double)kernels, updates[whole]));
      PetscCall(KSPDestroy(&ksp));
    }
    /* in single precision a recurrence may reach the tolerance before its first update is due */
    PetscCall(
      ComplainIf((!PetscDefined(USE_REAL_SINGLE) && (!updates[0] || !updates[1])) || PetscAbsInt(updates[0] - updates[1]) > 1,
                 "s = %" INT ": %" INT " updates step by step, %" INT " in one kernel", s, updates[0], updates[1]));
  }
  PetscCall(DestroyAll(&x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Systems for which the automatic choice is step by step, with the reason in the view: a row that is too long, where the persistent
   kernel finds the same solution if it is requested; a null space; and too many rows for the shared memory of a GPU
*/
static PetscErrorCode TestSteps(void)
{
  static const char *const lines[] = {"no faster one: ... longest row", "no faster one: ... null space",
                                      "no faster one: ... shared memory"};
  MatNullSpace             space;
  Mat                      A;
  Vec                      b, x;
  KSP                      ksp;

  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < 3; i++) {
    PetscInt told;

    if (i) PetscCall(GridSystemCreate(i == 2 && gpu ? 720 : 20, 0.4, &A, &b, &x));
    else {
      PetscCall(MatCreateEntries(InFirstRow, 1000, PETSC_FALSE, &A));
      PetscCall(MatCreateVecs(A, &x, &b));
      PetscCall(VecSetGeneral(b, 0.7));
    }
    if (i == 1) {
      PetscCall(MatNullSpaceCreate(PETSC_COMM_WORLD, PETSC_TRUE, 0, NULL, &space));
      PetscCall(MatSetNullSpace(A, space));
      PetscCall(MatNullSpaceDestroy(&space));
    }
    PetscCall(SolverCreateRun(A, 4, &methods[JACOBI], KSP_IDRS_RUN_AUTO, &ksp));
    PetscCall(KSPSetTolerances(ksp, i ? 1e-1 : rtol, 0.0, 1e30, 400));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(CheckView(ksp, KERNELS, 0));
    PetscCall(ViewNumbers((PetscObject)ksp, lines[i], 0, NULL, &told)); /* the line on the product may also mention the row */
    PetscCall(ComplainIf(gpu && !told, "no line of the view has \"%s\"", lines[i]));
    if (!i && gpu) {
      PetscCall(KSPIDRSSetRun_Private(ksp, KSP_IDRS_RUN_PERSISTENT));
      PetscCall(SolveSystem("a long row in one kernel", ksp, A, b, x));
      PetscCall(CheckView(ksp, KERNELS, 1));
    }
    PetscCall(DestroyAll(&ksp, &x, &b, &A));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves one after another, with solvers of several sizes in turn. Each solve repeats the bits of the first one */
static PetscErrorCode TestMany(void)
{
  const PetscInt edges[] = {9, 100, 20, 32}, sizes[] = {1, 2, 4, 8};
  Mat            A[PETSC_STATIC_ARRAY_LENGTH(edges)];
  Vec            b[PETSC_STATIC_ARRAY_LENGTH(edges)], first[PETSC_STATIC_ARRAY_LENGTH(edges)], x;
  KSP            ksp[PETSC_STATIC_ARRAY_LENGTH(edges)];

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsClearValue(NULL, "-malloc_dump")); /* PETSc leaks memory after an error */
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(edges); i++) {
    PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, edges[i], 0.4, LAYOUT_EVEN, &A[i], &b[i]));
    PetscCall(VecDuplicate(b[i], &first[i]));
    PetscCall(PetscObjectTypeCompare((PetscObject)A[i], MATSEQAIJCUSPARSE, &gpu));
    PetscCall(SolverCreateRun(A[i], sizes[i], &methods[i], KSP_IDRS_RUN_AUTO, &ksp[i]));
    PetscCall(SolveSystem("the first of many solves", ksp[i], A[i], b[i], first[i]));
  }
  for (PetscInt solve = 0; solve < 24; solve++) {
    const size_t i = (size_t)solve % PETSC_STATIC_ARRAY_LENGTH(edges);
    PetscBool    equal;

    PetscCall(VecDuplicate(b[i], &x));
    PetscCall(KSPSolve(ksp[i], b[i], x));
    PetscCall(VecEqual(x, first[i], &equal));
    PetscCall(ComplainIf(!equal, "solve %" INT " has another solution than the first one", solve));
    PetscCall(VecDestroy(&x));
  }
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(edges); i++) PetscCall(DestroyAll(&ksp[i], &first[i], &b[i], &A[i]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestMany, "many solves"}, {TestHistories, "histories"}, {TestLimits, "limits"}, {TestSizes, "sizes"},
          {TestUpdates, "updates"}, {TestSteps, "steps"}, {TestRefused, "what cannot run"})

/*TEST

   test:
     suffix: 1
     nsize: {{1 2}}

TEST*/
