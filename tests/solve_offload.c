static char help[] = "KSPOFFLOAD compared with KSPIDRS: matrices, options, monitors, null spaces, preconditioners, errors.\n\n";

#include "columns.h"

#define ROWS   (6 * LINE)
#define PREFIX "program_"

static char      copies[64] = MATAIJ;     /* type of the copies */
static PetscBool exact      = PETSC_TRUE; /* results are the same bits, because the copies are on the host */

static PetscScalar Symmetric(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 4.5 : (PetscAbsInt(i - j) == 1 || PetscAbsInt(i - j) == LINE ? -1.0 : 0.0);
}

/* Creates a matrix of this type and block size, or a nest, perhaps of even and odd rows, perhaps with vectors of type VECNEST */
static PetscErrorCode KindCreate(const char kind[], PetscInt N, Mat *A)
{
  const PetscBool even = (PetscBool)(strstr(kind, "even") != NULL), symmetric = (PetscBool)(kind[0] == 's' && kind[1] == 'b');
  char            type[16];
  int             bs = 1;
  PetscInt        begin, n;
  Mat             aij, block[4];
  IS              is[2];

  PetscFunctionBeginUser;
  (void)sscanf(kind, "%15s %d", type, &bs);
  PetscCall(MatCreateEntries(symmetric ? Symmetric : Convection, N, PETSC_FALSE, &aij));
  if (symmetric) PetscCall(MatSetOption(aij, MAT_SYMMETRIC, PETSC_TRUE));
  PetscCall(MatSetBlockSize(aij, bs));
  if (strcmp(type, MATNEST)) PetscCall(MatConvert(aij, type, MAT_INITIAL_MATRIX, A));
  else {
    PetscCall(MatGetOwnershipRange(aij, &begin, NULL));
    PetscCall(MatGetLocalSize(aij, &n, NULL));
    PetscCall(ISCreateStride(PETSC_COMM_WORLD, n - n / 2, begin, even ? 2 : 1, &is[0]));
    PetscCall(ISCreateStride(PETSC_COMM_WORLD, n / 2, begin + (even ? 1 : n - n / 2), even ? 2 : 1, &is[1]));
    for (int i = 0; i < 4; i++) PetscCall(MatCreateSubMatrix(aij, is[i / 2], is[i % 2], MAT_INITIAL_MATRIX, &block[i]));
    PetscCall(MatCreateNest(PETSC_COMM_WORLD, 2, even ? is : NULL, 2, even ? is : NULL, block, A));
    if (strstr(kind, "VECNEST")) PetscCall(MatNestSetVecType(*A, VECNEST));
    PetscCall(DestroyAll(&block[0], &block[1], &block[2], &block[3], &is[0], &is[1]));
  }
  PetscCall(MatDestroy(&aij));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies the entries to a vector of another type. PETSc orders the array of a VECNEST like the rows of the matrix */
static PetscErrorCode CopyEntries(Vec from, Vec to)
{
  const PetscScalar *source;
  PetscScalar       *target;
  PetscInt           n;

  PetscFunctionBeginUser;
  PetscCall(VecGetLocalSize(from, &n));
  PetscCall(VecGetArrayRead(from, &source));
  PetscCall(VecGetArrayWrite(to, &target));
  PetscCall(PetscArraycpy(target, source, n));
  PetscCall(VecRestoreArrayWrite(to, &target));
  PetscCall(VecRestoreArrayRead(from, &source));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Two solvers with equal settings: 0 is KSPIDRS, whose matrices have the type of the copies; 1 is KSPOFFLOAD */
typedef struct {
  const char      *kind, *what;     /* the matrix and the last comparison, for complaints */
  KSP              ksp[2], inner;   /* the inner solver of KSPOFFLOAD */
  Mat              A, P, direct[2]; /* Amat and Pmat of the program, and of KSPIDRS; direct[1] is NULL if P is A */
  Vec              b[2], x[2];
  PetscObjectId    id;    /* of the copy of Amat in the last CheckCopies(): a new copy has another one */
  PetscObjectState state; /* of the same: new values have another one */
} Pair;
static Pair pair;
#define Fault(wrong, ...) ComplainIf(wrong, "%s, %s: %s", pair.kind, pair.what, __VA_ARGS__)
#define PairDestroy(pair) \
  DestroyAll(&(pair).A, &(pair).P, &(pair).direct[0], &(pair).direct[1], &(pair).ksp[0], &(pair).ksp[1], &(pair).b[0], \
             &(pair).b[1], &(pair).x[0], &(pair).x[1])

/* Sets these matrices or, for KSPIDRS, their new values, and vectors. KSPSetOperators() of KSPOFFLOAD is called on request */
static PetscErrorCode PairSetOperators(Mat A, Mat P, PetscBool call)
{
  PetscFunctionBeginUser;
  PetscCall(PetscObjectReference((PetscObject)A));
  PetscCall(PetscObjectReference((PetscObject)P));
  PetscCall(DestroyAll(&pair.A, &pair.P, &pair.direct[0], &pair.direct[1], &pair.b[0], &pair.b[1], &pair.x[0], &pair.x[1]));
  pair.A = A;
  pair.P = P;
  for (int k = 0; k < (A == P ? 1 : 2); k++) {
    PetscCall(MatConvert(k ? P : A, MATAIJ, MAT_INITIAL_MATRIX, &pair.direct[k]));
    if (!exact) PetscCall(MatConvert(pair.direct[k], copies, MAT_INPLACE_MATRIX, &pair.direct[k]));
  }
  PetscCall(KSPSetOperators(pair.ksp[0], pair.direct[0], pair.direct[A == P ? 0 : 1]));
  if (call) PetscCall(KSPSetOperators(pair.ksp[1], A, P));
  for (int k = 0; k < 2; k++) {
    PetscCall(MatCreateVecs(k ? A : pair.direct[0], &pair.x[k], &pair.b[k]));
    PetscCall(VecSet(pair.x[k], 0.7));
  }
  PetscCall(VecSetGeneral(pair.b[0], 1.0));
  PetscCall(CopyEntries(pair.b[0], pair.b[1]));
  PetscFunctionReturn(PETSC_SUCCESS);
}
#define PairSet(A, P) PairSetOperators(A, P, PETSC_TRUE)
#define PairChanged() PairSetOperators(pair.A, pair.P, PETSC_FALSE)

static PetscErrorCode PairCreate(const char kind[], PetscInt N, const char pctype[])
{
  Mat A;
  PC  pc;

  PetscFunctionBeginUser;
  PetscCall(PairDestroy(pair));
  pair.kind = kind;
  PetscCall(KindCreate(kind, N, &A));
  PetscCall(SolverCreate(A, 4, pctype, &pair.ksp[0]));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &pair.ksp[1]));
  PetscCall(KSPSetType(pair.ksp[1], KSPOFFLOAD));
  PetscCall(KSPOffloadSetMatType(pair.ksp[1], copies));
  PetscCall(KSPOffloadGetKSP(pair.ksp[1], &pair.inner));
  PetscCall(KSPIDRSSetImplementation_Private(pair.inner, implementation));
  PetscCall(KSPGetPC(pair.inner, &pc));
  PetscCall(PCSetType(pc, pctype));
  for (int k = 0; k < 2; k++) {
    PetscCall(KSPSetTolerances(pair.ksp[k], rtol, 0.0, PETSC_DEFAULT, 300));
    PetscCall(KSPSetOptionsPrefix(pair.ksp[k], PREFIX));
    PetscCall(KSPSetResidualHistory(pair.ksp[k], NULL, MAX_HISTORY, PETSC_TRUE));
  }
  PetscCall(PairSet(A, A));
  PetscCall(MatDestroy(&A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves with both solvers from the same guess, and compares the solutions, unless solve is NULL; then compares the reports */
static PetscErrorCode Compare(const char what[], PetscErrorCode (*solve)(KSP, Vec, Vec))
{
  static Outcome outcome[2];
  KSPNormType    norm[2];
  PCSide         side[2];
  Vec            y;

  PetscFunctionBeginUser;
  pair.what = what;
  if (solve) PetscCall(CopyEntries(pair.x[1], pair.x[0]));
  for (int k = 0; k < 2; k++) {
    if (solve) PetscCall((*solve)(pair.ksp[k], pair.b[k], pair.x[k]));
    PetscCall(GetOutcome(pair.ksp[k], &outcome[k]));
    PetscCall(KSPGetNormType(pair.ksp[k], &norm[k]));
    PetscCall(KSPGetPCSide(pair.ksp[k], &side[k]));
  }
  PetscCall(VecDuplicate(pair.x[0], &y));
  PetscCall(CopyEntries(pair.x[1], y));
  if (solve) PetscCall(CheckClose(what, y, pair.x[0], exact ? 0.0 : 1000 * rtol));
  PetscCall(VecDestroy(&y));
  PetscCall(Fault(outcome[0].reason != outcome[1].reason || norm[0] != norm[1] || side[0] != side[1],
                  KSPConvergedReasons[outcome[1].reason]));
  PetscCall(Fault(exact && (outcome[0].its != outcome[1].its || outcome[0].length != outcome[1].length ||
                            memcmp(&outcome[0].rnorm, &outcome[1].rnorm, sizeof(outcome->rnorm)) ||
                            memcmp(outcome[0].norms, outcome[1].norms, sizeof(outcome->norms))),
                  "other iterations or norms"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets a value on the first process */
static PetscErrorCode SetValue(PetscInt i, PetscInt j, PetscScalar value)
{
  PetscInt begin;

  PetscFunctionBeginUser;
  PetscCall(MatGetOwnershipRange(pair.A, &begin, NULL));
  if (!begin) PetscCall(MatSetValue(pair.A, i, j, value, INSERT_VALUES));
  PetscCall(MatAssemble(pair.A));
  PetscCall(PairChanged());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves, and checks that the copies are like the matrices, and which part of Amat has been copied, also by the view */
static PetscErrorCode CheckCopies(const char what[], const char expected[])
{
  PetscInt         bs[2], n[2];
  const PetscInt  *sizes[2];
  PetscObjectId    id;
  PetscObjectState state;
  PetscBool        equal, known[2], is[2] = {PETSC_FALSE, PETSC_FALSE};
  Mat              mats[2][2] = {
    {pair.A, pair.P}
  }; /* the second row is of the copies */
  const char *copied;
  char        label[64];

  PetscFunctionBeginUser;
  PetscCall(Compare(what, KSPSolve));
  PetscCall(PetscSNPrintf(label, sizeof(label), "%s, %s", pair.kind, what));
  PetscCall(CheckSolved(label, pair.ksp[1], pair.A, pair.b[1], pair.x[1]));
  PetscCall(KSPGetOperators(pair.inner, &mats[1][0], &mats[1][1]));
  PetscCall(Fault((mats[1][0] == mats[1][1]) != (pair.A == pair.P), "Amat and Pmat of the copies"));
  for (int k = 0; k < (pair.A == pair.P ? 1 : 2); k++) {
    PetscCall(MatEqual(mats[1][k], pair.direct[k], &equal));
    PetscCall(Fault(!equal, k ? "the entries of Pmat" : "the entries of Amat"));
    for (int i = 0; i < 2; i++) {
      PetscCall(MatGetBlockSize(mats[i][k], &bs[i]));
      PetscCall(MatGetVariableBlockSizes(mats[i][k], &n[i], &sizes[i]));
      PetscCall(MatIsSymmetricKnown(mats[i][k], &known[i], &is[i]));
    }
    PetscCall(Fault(bs[0] != bs[1] || n[0] != n[1] || (n[0] && sizes[0][0] != sizes[1][0]), "block sizes"));
    PetscCall(Fault(known[0] != known[1] || (known[0] && is[0] != is[1]), "symmetry"));
  }
  PetscCall(PetscObjectGetId((PetscObject)mats[1][0], &id));
  PetscCall(PetscObjectStateGet((PetscObject)mats[1][0], &state));
  copied = id != pair.id ? "pattern" : (state > pair.state ? "values" : "nothing");
  PetscCall(Fault(strcmp(copied, expected), copied));
  PetscCall(PetscSNPrintf(label, sizeof(label), "copied ... of Amat %s%s;", expected, expected[0] == 'p' ? " and values" : ""));
  PetscCall(CheckView(pair.ksp[1], label, 1));
  pair.id    = id;
  pair.state = state;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A change and the copy that the next solve makes */
#define Step(what, expected, change) \
  do { \
    PetscCall(change); \
    PetscCall(PairChanged()); \
    PetscCall(CheckCopies(what, expected)); \
  } while (0)

/* All types of matrices, also with fewer rows than processes; a solve copies what has changed, with KSPSetOperators() or without */
static PetscErrorCode TestCopies(void)
{
  const char *const kinds[]   = {"aij",   "mpiaij", "baij 2",    "baij 3",       "sbaij 2",           "sell",    "is",
                                 "dense", "nest",   "nest even", "nest VECNEST", "nest even VECNEST", "aij few", "dense few"};
  const char *const pctypes[] = {PCPOLY, PCSOR, PCPBJACOBI};
  PetscMPIInt       rank, size;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &size));
  for (int l = 0; l < (int)PETSC_STATIC_ARRAY_LENGTH(kinds); l++) {
    const char *const kind  = kinds[l];
    const PetscBool   dense = (PetscBool)(kind[0] == 'd'), few = (PetscBool)(strstr(kind, "few") != NULL);
    const char *const values = dense ? "pattern" : "values"; /* each new state of a dense matrix has a new copy */
    const PetscInt    N      = few ? 1 + l % 2 : ROWS;
    Mat               P, other, block;
    PetscInt          n;

    /* MatConvert() of PETSc 3.18 is wrong for a MATMPIBAIJ that was assembled twice, and with debugging refuses a MATMPISELL */
    if (PETSC_VERSION_LT(3, 19, 0) && size > 1 && (kind[0] == 'b' || (PetscDefined(USE_DEBUG) && !strcmp(kind, MATSELL)))) continue;
    PetscCall(PairCreate(kind, N, pctypes[l % 3]));
    PetscCall(KindCreate(dense ? "aij" : "dense", N, &other));
    PetscCall(MatCreateEntries(Tridiagonal, N, PETSC_FALSE, &P));
    PetscCall(MatSetOption(pair.A, MAT_NEW_NONZERO_LOCATIONS, PETSC_FALSE));
    Step("the first solve", "pattern", PairSet(pair.A, l % 2 ? P : pair.A));
    PetscCall(MatGetLocalSize(pair.A, &n, NULL));
    PetscCall(MatSetVariableBlockSizes(pair.A, n > 0, &n));
    PetscCall(MatSetOption(pair.A, MAT_SYMMETRIC, PETSC_TRUE));
    PetscCall(KSPSetOperators(pair.ksp[1], pair.A, pair.P));
    PetscCall(CheckCopies("attributes", "nothing"));
    Step("scaled", values, MatScale(pair.A, 1.5));
    if (l % 3 != 1) PetscCall(Compare("transposed", KSPSolveTranspose));
    if (strstr(kind, "nest")) {
      PetscCall(MatNestGetSubMat(pair.A, 0, 1, &block));
      Step("a block of a nest", "values", MatScale(block, 0.5));
    } else if (!few && (dense || strstr(kind, "aij"))) {
      Step("a zero", values, SetValue(1, 2, 0.0));
      PetscCall(MatSetOption(pair.A, MAT_NEW_NONZERO_LOCATIONS, PETSC_TRUE));
      PetscCall(MatSetOption(pair.A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
      Step("a new entry", "pattern", SetValue(0, ROWS / 2, 1.5));
    }
    Step("another matrix", "pattern", PairSet(other, other));
    Step("another Pmat", "nothing", PairSet(other, P));
    Step("scaled Pmat", "nothing", MatScale(P, 2.0));
    Step("Pmat is Amat again", "nothing", PairSet(other, other));
    PetscCall(DestroyAll(&P, &other));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Options of every KSP, with both sides, from several guesses; then other sides and histories, also short ones, for each solve */
static PetscErrorCode TestOptions(void)
{
  /* clang-format off */
  const char *const options[] = {"max_it 0", "min_it 3", "check_norm_iteration 5", "rtol 0.5", "atol 1e30", "divtol 1e-3",
                                 "lag_norm", "knoll", "converged_use_initial_residual_norm", "convergence_test skip",
                                 "converged_use_min_initial_residual_norm", "norm_type none", "converged_maxits"};
  /* clang-format on */
  PetscReal history[2][60], replaced[60];

  PetscFunctionBeginUser;
  for (int l = 0; l < 3 * (int)PETSC_STATIC_ARRAY_LENGTH(options); l++) {
    char         what[128];
    PetscOptions database;

    PetscCall(PetscSNPrintf(what, sizeof(what), "-" PREFIX "ksp_%s", options[l / 3]));
    PetscCall(OptionsPush(what, &database));
    PetscCall(PairCreate("aij", ROWS, PCPOLY));
    for (int k = 0; k < 2; k++) PetscCall(KSPSetPCSide(pair.ksp[k], l % 2 ? PC_LEFT : PC_RIGHT));
    if (l % 3 == 2) PetscCall(Compare(what, KSPSolve));
    for (int k = 0; k < 2; k++) {
      PetscCall(KSPSetTolerances(pair.ksp[k], rtol, 0.0, PETSC_DEFAULT, l % 4 > 1 ? 3 : 20));
      PetscCall(KSPSetFromOptions(pair.ksp[k]));
      PetscCall(KSPSetInitialGuessNonzero(pair.ksp[k], (PetscBool)(l % 3 > 0)));
    }
    PetscCall(Compare(what, KSPSolve));
    PetscCall(OptionsPop(&database));
  }
  PetscCall(PairCreate("aij", ROWS, PCJACOBI));
  for (int l = 0; l < 16; l++) {
    for (int k = 0; k < 2; k++) {
      PetscCall(KSPSetPCSide(pair.ksp[k], l % 2 ? PC_LEFT : PC_SIDE_DEFAULT));
      PetscCall(KSPSetNormType(pair.ksp[k], l % 2 ? KSP_NORM_PRECONDITIONED : KSP_NORM_DEFAULT));
      PetscCall(KSPSetReusePreconditioner(pair.ksp[k], (PetscBool)(l % 3 == 1)));
      if (l % 4 == 0) PetscCall(KSPSetResidualHistory(pair.ksp[k], history[k], l / 4 % 2 ? 5 : 60, (PetscBool)(l / 8)));
      if (l % 4 == 3) PetscCall(KSPSetResidualHistory(pair.ksp[k], NULL, MAX_HISTORY, PETSC_TRUE));
    }
    PetscCall(PetscArraycpy(replaced, history[1], 60));
    PetscCall(SetValue(0, 0, 10.0 + l));
    PetscCall(Compare("sides, histories, reuse", KSPSolve));
    PetscCall(Fault(l % 4 == 3 && memcmp(replaced, history[1], sizeof(replaced)), "a replaced history is written"));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The calls of the monitors and convergence tests of both solvers, and the norm of the preconditioned right-hand side */
static PetscInt  monitored[2], tested[2];
static PetscReal applied[2];
static PetscBool transposed;

/* Checks what PETSc's functions return inside a solve; the residual must be b - A x. The context is of KSPConvergedDefault() */
static PetscErrorCode WatchTest(KSP ksp, PetscInt it, PetscReal rnorm, KSPConvergedReason *reason, void *ctx)
{
  const int k = ksp == pair.ksp[1];
  PetscInt  its;
  PetscReal norm;
  Vec       x, b, built, solution, r, s;
  PC        pc;

  PetscFunctionBeginUser;
  (reason ? tested : monitored)[k]++;
  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(KSPGetResidualNorm(ksp, &norm));
  PetscCall(KSPGetSolution(ksp, &x));
  PetscCall(KSPGetRhs(ksp, &b));
  PetscCall(Fault(ksp != pair.ksp[k] || x != pair.x[k] || b != pair.b[k] || its != it || norm != rnorm, "inside the solve"));
  PetscCall(DuplicateAll(x, &solution, &s));
  PetscCall(KSPBuildSolution(ksp, NULL, &built));
  PetscCall(KSPBuildSolution(ksp, solution, NULL));
  PetscCall(CheckClose("KSPBuildSolution()", built, solution, 0.0));
  PetscCall(KSPBuildResidual(ksp, NULL, NULL, &r));
  PetscCall((transposed ? MatMultTranspose : MatMult)(k ? pair.A : pair.direct[0], solution, s));
  PetscCall(VecAYPX(s, -1.0, b));
  PetscCall(CheckClose("KSPBuildResidual()", r, s, 1e4 * PETSC_MACHINE_EPSILON / rtol));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall((transposed ? PCApplyTranspose : PCApply)(pc, b, s));
  PetscCall(VecNorm(s, NORM_2, &applied[k]));
  PetscCall(DestroyAll(&solution, &s, &r));
  if (reason) PetscCall(KSPConvergedDefault(ksp, it, rnorm, reason, ctx));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode WatchMonitor(KSP ksp, PetscInt it, PetscReal rnorm, void *ctx)
{
  return WatchTest(ksp, it, rnorm, NULL, NULL);
}

static PetscErrorCode TestMonitors(void)
{
  PetscFunctionBeginUser;
  for (int l = 0; l < 16; l++) {
    const PetscBool monitor = (PetscBool)(l % 4 != 1), test = (PetscBool)(l % 4 > 0), left = (PetscBool)(l / 4 % 2);
    void           *defaults;

    transposed = (PetscBool)(l / 8);
    PetscCall(PairCreate(left != transposed ? "nest even VECNEST" : "aij", ROWS, PCPOLY));
    for (int k = 0; k < 2; k++) {
      monitored[k] = tested[k] = 0;
      PetscCall(KSPSetPCSide(pair.ksp[k], left ? PC_LEFT : PC_RIGHT));
      PetscCall(KSPSetInitialGuessNonzero(pair.ksp[k], (PetscBool)(l % 4 == 3)));
      if (monitor) PetscCall(KSPMonitorSet(pair.ksp[k], WatchMonitor, NULL, NULL));
      if (test) PetscCall(KSPConvergedDefaultCreate(&defaults));
      if (test) PetscCall(KSPSetConvergenceTest(pair.ksp[k], WatchTest, defaults, KSPConvergedDefaultDestroy));
    }
    PetscCall(Compare("watched", transposed ? KSPSolveTranspose : KSPSolve));
    PetscCall(Fault(!monitored[1] != !monitor || !tested[1] != !test, "calls"));
    PetscCall(Fault(exact && (monitored[0] != monitored[1] || tested[0] != tested[1]), "the number of calls"));
    PetscCall(Fault(!(PetscAbsReal(applied[0] - applied[1]) <= rtol * applied[0]), "PCApply()"));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A monitor that needs the residual */
static PetscErrorCode BuildMonitor(KSP ksp, PetscInt it, PetscReal rnorm, void *ctx)
{
  PetscReal norm, bnorm;
  Vec       b, r;

  PetscFunctionBeginUser;
  monitored[ksp == pair.ksp[1]]++;
  PetscCall(KSPGetRhs(ksp, &b));
  PetscCall(VecNorm(b, NORM_2, &bnorm));
  PetscCall(KSPBuildResidual(ksp, NULL, NULL, &r));
  PetscCall(VecNorm(r, NORM_2, &norm));
  PetscCall(VecDestroy(&r));
  PetscCall(Fault(!(PetscAbsReal(norm - rnorm) <= rtol * norm + 10 * PETSC_MACHINE_EPSILON * bnorm), "the norm of a monitor"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Ends a solve in the third iteration, unless b = 0 */
static PetscErrorCode DivergingTest(KSP ksp, PetscInt it, PetscReal rnorm, KSPConvergedReason *reason, void *ctx)
{
  *reason = rnorm == 0.0 ? KSP_CONVERGED_ATOL : it > 2 ? KSP_DIVERGED_DTOL : KSP_CONVERGED_ITERATING;
  return PETSC_SUCCESS;
}

/* A column without iterations is the last one, and the others do not converge: the reason is theirs */
static PetscErrorCode TestMonitoredColumns(void)
{
  PetscFunctionBeginUser;
  for (int l = 0; l < 3; l++) {
    Mat B, X;
    Vec b;

    PetscCall(PairCreate("aij", ROWS, PCPOLY));
    for (int k = 0; k < 2; k++) {
      monitored[k] = 0;
      PetscCall(BlockCreate(k ? pair.A : pair.direct[0], 3, &B));
      PetscCall(BlockCreate(k ? pair.A : pair.direct[0], 3, &X));
      PetscCall(BlockSet(k ? pair.A : pair.direct[0], BLOCK_RANDOM, B));
      PetscCall(MatDenseGetColumnVecWrite(B, 2, &b));
      PetscCall(VecSet(b, 0.0));
      PetscCall(MatDenseRestoreColumnVecWrite(B, 2, &b));
      PetscCall(KSPSetTolerances(pair.ksp[k], rtol, PETSC_DEFAULT, PETSC_DEFAULT, l == 1 ? 2 : 300));
      if (l < 2) PetscCall(KSPMonitorSet(pair.ksp[k], BuildMonitor, NULL, NULL));
      else PetscCall(KSPSetConvergenceTest(pair.ksp[k], DivergingTest, NULL, NULL));
      PetscCall(KSPMatSolve(pair.ksp[k], B, X));
      PetscCall(DestroyAll(&B, &X));
    }
    PetscCall(Compare("monitored columns", NULL));
    PetscCall(Fault(l < 2 && !monitored[1], "no monitor"));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPMatSolve() and KSPMatSolveTranspose(), with batches, guesses and other leading dimensions */
static PetscErrorCode TestColumns(void)
{
  PetscFunctionBeginUser;
  for (int l = 0; l < 8 * IDRS_MATSOLVE_DIRECTIONS; l++) {
    Mat B[2], X[2];

    PetscCall(PairCreate(l % 2 ? "nest even" : "aij", ROWS, PCPOLY));
    for (int k = 0; k < 2; k++) {
      PetscCall(BlockCreateApart(k ? pair.A : pair.direct[0], 5, 3 * k, 0.3, &B[k]));
      PetscCall(BlockCreateApart(k ? pair.A : pair.direct[0], 5, 7 * k, 0.3, &X[k]));
      PetscCall(BlockSet(k ? pair.A : pair.direct[0], BLOCK_RANDOM, B[k]));
      if (l / 2 % 2) PetscCall(KSPSetMatSolveBatchSize(pair.ksp[k], 2));
      PetscCall(KSPSetInitialGuessNonzero(pair.ksp[k], (PetscBool)(l / 4 % 2)));
      PetscCall(l / 8 ? IDRSMatSolveTranspose(pair.ksp[k], B[k], X[k]) : KSPMatSolve(pair.ksp[k], B[k], X[k]));
    }
    PetscCall(Compare("columns", NULL));
    for (PetscInt j = 0; j < 5; j++) {
      for (int k = 0; k < 2; k++) PetscCall(ColumnGet(X[k], j, pair.b[k]));
      PetscCall(CopyEntries(pair.b[1], pair.x[0]));
      PetscCall(CheckClose("column", pair.x[0], pair.b[0], exact ? 0.0 : 1000 * rtol));
    }
    PetscCall(Compare("a vector after the columns", KSPSolve));
    PetscCall(DestroyAll(&B[0], &X[0], &B[1], &X[1]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Null spaces of each kind, with constants or a vector, that are set, changed and removed between solves */
static PetscErrorCode TestNullSpaces(void)
{
  PetscErrorCode (*const get[])(Mat, MatNullSpace *) = {MatGetNullSpace, MatGetTransposeNullSpace, MatGetNearNullSpace};
  PetscErrorCode (*const set[])(Mat, MatNullSpace)   = {MatSetNullSpace, MatSetTransposeNullSpace, MatSetNearNullSpace};
  MatNullSpace space;
  PetscInt     n;
  const Vec   *vecs;
  Mat          A;
  Vec          x, v;

  PetscFunctionBeginUser;
  for (int l = 0; l < 24; l++) {
    const int which = l * 5 % 4, content = l / 4 % 2; /* no null space if which is 3 */

    if (l % 8 == 0) PetscCall(PairCreate(l / 8 == 1 ? "dense" : (l / 8 ? "nest even VECNEST" : "aij"), ROWS, PCPOLY));
    PetscCall(VecDuplicate(pair.b[0], &x));
    PetscCall(VecSetGeneral(x, 1.0 + l));
    PetscCall(VecNormalize(x, NULL));
    for (int k = 0; k < 2; k++) {
      A = k ? pair.A : pair.direct[0];
      PetscCall(MatCreateVecs(A, &v, NULL));
      PetscCall(CopyEntries(x, v));
      PetscCall(MatNullSpaceCreate(PETSC_COMM_WORLD, (PetscBool)(content == 0), content == 1, &v, &space));
      for (int i = 0; i < 3; i++) PetscCall((*set[i])(A, i == which ? space : NULL));
      PetscCall(DestroyAll(&v, &space));
    }
    /* both solvers of KSPOFFLOAD remove the transposed one from b, with rounding errors */
    PetscCall(which == 1 ? KSPSolve(pair.ksp[1], pair.b[1], pair.x[1]) : Compare("null spaces", KSPSolve));
    PetscCall(KSPGetOperators(pair.inner, &A, NULL));
    for (int i = 0; i < 3; i++) {
      PetscCall((*get[i])(A, &space));
      PetscCall(Fault(!space != (i != which), "none, or another one"));
      if (!space) continue;
      PetscCall(MatNullSpaceGetVecs(space, NULL, &n, &vecs));
      PetscCall(Fault(n != (content == 1), "another number of vectors"));
      if (n) PetscCall(CheckClose("null space", vecs[0], x, 0.0));
    }
    PetscCall(VecDestroy(&x));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscInt coordinated;

static PetscErrorCode CountCoordinates(PC pc, PetscInt dim, PetscInt n, PetscReal coordinates[])
{
  coordinated += dim == 2 && coordinates[0] == 0.25;
  return PETSC_SUCCESS;
}

/* A preconditioner of the program passes on its coordinates, does not change the solve, and works with another type of KSP */
static PetscErrorCode TestPreconditioners(void)
{
  const char *const pctypes[]      = {PCJACOBI, PCBJACOBI, PCASM, PCLSC};
  PetscReal         coordinates[2] = {0.25, 0.5};
  KSP              *blocks;
  PC                pc, inner;

  PetscFunctionBeginUser;
  for (int l = 0; l < 16; l++) {
    const int type = l / 4, when = l % 4; /* before the set-up, after it, after a solve, and with KSPSetOperators() */

    if (type == 3 && (when == 1 || when == 2)) continue; /* PETSc 3.26 sets it up, which fails for this type */
    PetscCall(PairCreate("aij", ROWS, PCPOLY));
    if (when == 1) PetscCall(KSPSetUp(pair.ksp[1]));
    if (when > 1) PetscCall(Compare("before", KSPSolve));
    if (when == 3) PetscCall(PairSet(pair.A, pair.A));
    PetscCall(KSPGetPC(pair.inner, &inner));
    PetscCall(PetscObjectComposeFunction((PetscObject)inner, "PCSetCoordinates_C", CountCoordinates));
    PetscCall(KSPGetPC(pair.ksp[1], &pc));
    coordinated = 0;
    PetscCall(PCSetCoordinates(pc, 2, 1, coordinates));
    PetscCall(PCSetType(pc, pctypes[type]));
    PetscCall(PetscObjectComposeFunction((PetscObject)pc, "PCSetCoordinates_C", CountCoordinates));
    for (int time = 0; time < 2; time++) PetscCall(Compare(pctypes[type], KSPSolve));
    PetscCall(PCSetCoordinates(pc, 2, 1, coordinates));
    PetscCall(Fault(strcmp(((PetscObject)pc)->type_name, pctypes[type]), "the type"));
    PetscCall(Fault(coordinated != (when ? 2 : 1), "coordinates")); /* not before the set-up */
    PetscCall(PetscObjectComposeFunction((PetscObject)inner, "PCSetCoordinates_C", NULL));
    if (when % 3 == 0 && type % 3) PetscCall((type == 1 ? PCBJacobiGetSubKSP : PCASMGetSubKSP)(pc, NULL, NULL, &blocks));
    PetscCall(KSPSetType(pair.ksp[1], KSPGMRES));
    PetscCall(KSPSetPCSide(pair.ksp[1], PC_RIGHT));
    coordinated = 0;
    PetscCall(PCSetCoordinates(pc, 2, 1, coordinates));
    PetscCall(Fault(coordinated != 1, "coordinates of the preconditioner of the program"));
    PetscCall(PetscObjectComposeFunction((PetscObject)pc, "PCSetCoordinates_C", NULL));
    if (type < 3) PetscCall(SolveSystem("gmres", pair.ksp[1], pair.A, pair.b[1], pair.x[1]));
    PetscCall(KSPSetType(pair.ksp[1], KSPOFFLOAD));
    PetscCall(KSPOffloadSetMatType(pair.ksp[1], copies));
    PetscCall(SolveSystem("after gmres", pair.ksp[1], pair.A, pair.b[1], pair.x[1]));
  }
  PetscCall(PairDestroy(pair));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A convergence test that solves with the KSPOFFLOAD of the context, or fails without a context */
static PetscErrorCode SolvingTest(KSP ksp, PetscInt it, PetscReal rnorm, KSPConvergedReason *reason, void *ctx)
{
  Pair *solved = (Pair *)ctx;

  PetscFunctionBeginUser;
  PetscCheck(solved, PETSC_COMM_WORLD, PETSC_ERR_USER, "An error of the convergence test");
  if (it == 1) PetscCall(KSPSolve(solved->ksp[1], solved->b[1], solved->x[1]));
  if (it == 3) *reason = KSP_CONVERGED_ITS;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Errors, refused options, NaNs and zero pivots, and solves after them, with another solver inside, and for another size */
static PetscErrorCode TestErrors(void)
{
  /* clang-format off */
  const char *const errors[][2] = {{"not converged", "DIVERGED_ITS"}, {"-" PREFIX "ksp_type offload", MATSHELL},
                                   {"An error of the convergence test", ""}, {"KSPConvergedDefaultCreate()", ""},
                                   {"offload", "KSPSolve()"}};
  const char *const refused[] = {"rtol", "atol", "divtol", "max_it", "min_it", "convergence_test", "lag_norm", "converged_maxits",
                                 "check_norm_iteration", "norm_type", "pc_side", "initial_guess_nonzero", "knoll",
                                 "reuse_preconditioner"};
  /* clang-format on */
  KSPConvergedReason reason;
  PCFailedReason     failed;
  PetscOptions       database;
  PetscInt           s;
  PetscMPIInt        rank, size;
  Mat                S;
  PC                 pc;
  Pair               other;

  PetscFunctionBeginUser;
  for (int l = 0; l < 5; l++) {
    PetscCall(PairCreate("dense", 30, PCPOLY));
    other = pair;
    PetscCall(PetscMemzero(&pair, sizeof(pair)));
    PetscCall(PairCreate("aij", ROWS, PCPOLY));
    PetscCall(ShellCreate(pair.A, PassMult, pair.A, &S));
    PetscCall(KSPSetErrorIfNotConverged(pair.ksp[1], PETSC_TRUE));
    if (l == 0) PetscCall(KSPSetTolerances(pair.ksp[1], rtol, 0.0, PETSC_DEFAULT, 2));
    if (l == 1) PetscCall(KSPSetOperators(pair.ksp[1], S, S));
    if (l == 2) PetscCall(KSPSetConvergenceTest(pair.ksp[1], SolvingTest, NULL, NULL));
    if (l == 3) PetscCall(KSPSetConvergenceTest(pair.ksp[1], KSPConvergedDefault, NULL, NULL));
    if (l == 4) PetscCall(KSPSetConvergenceTest(pair.ksp[1], SolvingTest, &pair, NULL));
    CheckRefused(KSPSolve(pair.ksp[1], pair.b[1], pair.x[1]), errors[l][0], errors[l][1]);
    PetscCall(Unlock(pair.b[1]));
    for (int k = 0; k < 2; k++) {
      PetscCall(KSPReset(pair.ksp[k]));
      PetscCall(KSPSetTolerances(pair.ksp[k], rtol, 0.0, PETSC_DEFAULT, 300));
      PetscCall(KSPSetConvergenceTest(pair.ksp[k], SolvingTest, &other, NULL));
    }
    PetscCall(PairSet(l % 2 ? other.A : pair.A, l % 2 ? other.A : pair.A));
    if (l < 4) PetscCall(Compare("after an error", KSPSolve)); /* PCPreSolve() of PETSc still counts the nested solve */
    PetscCall(MatDestroy(&S));
    PetscCall(PairDestroy(other));
  }

  PetscCall(OptionsPush("-" PREFIX "offload_ksp_idrs_s 2", &database));
  PetscCall(PairCreate("aij", ROWS, PCPOLY));
  PetscCall(KSPSetFromOptions(pair.ksp[1]));
  PetscCall(OptionsPop(&database));
  GetSetting(pair.inner, s, &s);
  PetscCall(Fault(s != 2, "another s"));
  CheckRefused(KSPOffloadGetKSP(pair.ksp[0], &pair.inner), "offload", "");
  CheckRefused(KSPOffloadSetMatType(pair.ksp[1], "nonsense"), "offload_mat_type nonsense", "unknown type of matrices");
  PetscCall(RankAndSize(&rank, &size));
  if (size > 1 && !strcmp(copies, MATAIJCUSPARSE)) {
    PetscCall(MatConvert(pair.A, copies, MAT_INITIAL_MATRIX, &S));
    PetscCall(MatBindToCPU(S, rank ? PETSC_FALSE : PETSC_TRUE));
    PetscCall(KSPSetOperators(pair.ksp[1], S, S));
    CheckRefused(KSPSetUp(pair.ksp[1]), "-" PREFIX "ksp_type offload", "bound to the CPU on some processes only");
    PetscCall(KSPSetOperators(pair.ksp[1], pair.A, pair.P));
    PetscCall(MatDestroy(&S));
  }
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(refused); i++) {
    char option[128];

    PetscCall(PetscSNPrintf(option, sizeof(option), "-" PREFIX "offload_ksp_%s", refused[i]));
    PetscCall(OptionsPush(option, &database));
    if (i % 2) CheckRefused(KSPSetUp(pair.ksp[1]), option, "use -" PREFIX "ksp_");
    else CheckRefused(KSPSolve(pair.ksp[1], pair.b[1], pair.x[1]), option, "use -" PREFIX "ksp_");
    PetscCall(OptionsPop(&database));
  }
  PetscCall(DestroyAll(&pair.P, &pair.A)); /* the solver keeps the matrix */
  PetscCall(KSPGetOperators(pair.ksp[1], &S, NULL));
  PetscCall(SolveSystem("after refused options", pair.ksp[1], S, pair.b[1], pair.x[1]));

  for (int l = 0; l < 6; l++) {
    if (l % 2 == 0) PetscCall(PairCreate(l == 2 ? "sbaij 2" : "aij", ROWS, l < 4 ? PCPOLY : PCBJACOBI));
    PetscCall(SetValue(0, 0, l < 4 ? NAN : 0.0));
    for (int k = 0; k < 2; k++) PetscCall(KSPSolve(pair.ksp[k], pair.b[k], pair.x[k]));
    PetscCall(Compare("bad values", NULL));
    PetscCall(KSPGetConvergedReason(pair.ksp[1], &reason));
    PetscCall(KSPGetPC(pair.ksp[1], &pc));
    PetscCall(PCGetFailedReason(pc, &failed));
    PetscCall(Fault(reason >= 0 || (l >= 4 && exact && !failed), KSPConvergedReasons[reason])); /* cuSPARSE finds no zero pivots */
    PetscCall(SetValue(0, 0, 4.0));
    if (l < 4) PetscCall(Compare("good values", KSPSolve)); /* PCBJACOBI of PETSc stays failed */
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCTELESCOPE gathers the system on the first process, whose solver copies it: for many processes and one GPU */
static PetscErrorCode TestTelescope(void)
{
  PetscOptions   database;
  PetscErrorCode ierr;
  PetscMPIInt    rank, size;
  char           options[400];
  Mat            A;
  Vec            b, x;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &size));
  PetscCall(PetscSNPrintf(options, sizeof(options),
                          "-ksp_type preonly -pc_type telescope -pc_telescope_reduction_factor %d -telescope_ksp_type offload "
                          "-telescope_offload_mat_type %s -telescope_ksp_rtol %g",
                          size, copies, (double)rtol));
  PetscCall(KindCreate("aij", ROWS, &A));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecSetGeneral(b, 1.0));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(OptionsPush(options, &database));
  PetscCall(KSPSetFromOptions(ksp));
  Try(ierr, KSPSetUp(ksp));
  PetscCall(OptionsPop(&database));
  for (int k = 0; k < 3 && !ierr; k++) {
    Try(ierr, KSPSolve(ksp, b, x));
    PetscCall(CheckSolved("telescope", ksp, A, b, x));
    PetscCall(MatScale(A, 1.5));
  }
  if (ierr) PetscCall(Complain("telescope: error \"%s\"", message));
  PetscCall(DestroyAll(&ksp, &b, &x, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Reads the options, and removes types: the program's matrices are on the host, also if the tests run on a GPU */
static PetscErrorCode Begin(void)
{
  PetscEnum passes = (PetscEnum)KSP_IDRS_AUTO;

  PetscFunctionBeginUser;
  EndAfter(60);
  PetscCall(PetscOptionsGetEnum(NULL, NULL, "-implementation", KSPIDRSImplementations, &passes, NULL));
  if (passes == (PetscEnum)KSP_IDRS_CUDA) PetscCall(PetscStrncpy(copies, "aijcusparse", sizeof(copies)));
  PetscCall(PetscStrcmp(copies, MATAIJ, &exact));
  PetscCall(PetscOptionsClearValue(NULL, "-mat_type"));
  PetscCall(PetscOptionsClearValue(NULL, "-vec_type"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* TestErrors() is the first one: after an error PETSc counts one solver around all others, and DIVERGED_ITS is no error any more */
RUN_TESTS({Begin, NULL}, {TestErrors, "errors and bad values, and solves after them"},
          {TestCopies, "types of matrices and what is copied"}, {TestOptions, "options of every KSP and histories"},
          {TestMonitors, "monitors and convergence tests"}, {TestColumns, "several right-hand sides"},
          {TestMonitoredColumns, "several right-hand sides, with monitors"}, {TestNullSpaces, "null spaces"},
          {TestPreconditioners, "preconditioners of the program"}, {TestTelescope, "systems that are gathered on one process"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 2 3}}

TEST*/
