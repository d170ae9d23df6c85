static char help[] = "KSPMatSolve() with block recurrences of KSPIDRS. Every column is compared with its own system.\n\n";

#include "columns.h"

#define COLUMNS 8

/*
   In single precision rounding errors of the vectors grow from cycle to cycle in a block with this number of columns, even if all
   sums and the algebra are in double precision. The block recurrence then saves no matvecs and breaks down, and its columns
   continue with single recurrences. They are still solved; counts are checked for a few cycles, or with a larger bound
*/
#define SINGLE PetscDefined(USE_REAL_SINGLE)

static PetscErrorCode BlockSolverCreate(Mat A, PetscInt s, const char pctype[], KSP *ksp)
{
  PetscFunctionBeginUser;
  PetscCall(SolverCreate(A, s, pctype, ksp));
  PetscCall(KSPIDRSSetBlock(*ksp, PETSC_TRUE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves with KSPMatSolve(), checks that no column has failed, and counts the matvecs */
static PetscErrorCode CountMatvecs(KSP ksp, Mat B, Mat X, PetscInt *matvecs)
{
  KSPConvergedReason reason;

  PetscFunctionBeginUser;
  PetscCall(KSPMatSolve(ksp, B, X));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(ComplainIf(reason < 0, "%s", KSPConvergedReasons[reason]));
  PetscCall(KSPIDRSGetCounts(ksp, matvecs, NULL, NULL, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A block recurrence needs fewer matvecs than single recurrences, and columns that depend on others need almost none; norms and b -
   A x are checked
*/
static PetscErrorCode TestMatvecs(Mat A)
{
  PetscFunctionBeginUser;
  for (PetscInt s = 1; s <= 4; s += 3) {
    PetscInt matvecs[3];
    KSP      ksp;
    Mat      B, X;
    Vec      b;

    PetscCall(SolverCreate(A, s, PCNONE, &ksp));
    PetscCall(BlocksCreate(A, COLUMNS, BLOCK_RANDOM, &B, &X));
    PetscCall(CountMatvecs(ksp, B, X, &matvecs[0]));
    PetscCall(KSPIDRSSetBlock(ksp, PETSC_TRUE));
    PetscCall(CountMatvecs(ksp, B, X, &matvecs[1]));
    /*
       with s = 1 rounding errors change the count of a block by some per cent: from 600 to 648 of 680 with other orders of the same
       sums, and on 1, 2, 3 processes
    */
    PetscCall(ComplainIf(matvecs[1] > (SINGLE  ? 1.5
                                       : s > 1 ? 0.95
                                               : 0.98) *
                                        matvecs[0],
                         "s = %" INT ": %" INT " matvecs with a block, %" INT " without", s, matvecs[1], matvecs[0]));
    PetscCall(DestroyAll(&B, &X));
    PetscCall(BlockCreate(A, 2 * COLUMNS, &B));
    PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
    PetscCall(MatCreateVecs(A, NULL, &b));
    for (PetscInt j = 0; j < 2 * COLUMNS; j++) {
      PetscCall(BlockColumn(BLOCK_RANDOM, j % COLUMNS, b));
      PetscCall(VecScale(b, 1.0 + j));
      PetscCall(ColumnSet(B, j, b));
    }
    PetscCall(CountMatvecs(ksp, B, X, &matvecs[2]));
    PetscCall(CheckBlock("dependent columns", ksp, A, B, X, PETSC_TRUE));
    PetscCall(ComplainIf(matvecs[2] > matvecs[1] + matvecs[1] / (SINGLE ? 2 : 10) + 3 * COLUMNS,
                         "s = %" INT ": %" INT " matvecs for twice as many columns of the same rank, %" INT " for half of them", s,
                         matvecs[2], matvecs[1]));
    PetscCall(DestroyAll(&b, &B, &X, &ksp));
  }
  PetscCall(Verdict("matvecs of blocks, and of dependent columns"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A step has one reduction, which includes the Gram matrix of R. Other reductions: the basis, each reliable update, and the
   verification of each column
*/
static PetscErrorCode TestReductions(Mat A)
{
  PetscBool device;

  PetscFunctionBeginUser;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &device, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
  for (size_t is = 0; is < SIZES; is++) {
    PetscInt its, reductions, updates;
    KSP      ksp;
    Mat      B, X;

    PetscCall(BlockSolverCreate(A, sizes[is], PCNONE, &ksp));
    if (SINGLE) PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 20)); /* before the block breaks down */
    PetscCall(BlocksCreate(A, COLUMNS, BLOCK_RANDOM, &B, &X));
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscCall(KSPGetIterationNumber(ksp, &its));
    PetscCall(KSPIDRSGetCounts(ksp, NULL, &reductions, &updates, NULL));
    /* five: the first norms, the basis in three rounds at most, and f; a device makes some superfluous steps when it stops */
    PetscCall(ComplainIf(reductions < its || reductions > its + updates / COLUMNS + COLUMNS + 5 + (device ? updates + COLUMNS : 0),
                         "s = %" INT ": %" INT " reductions in %" INT " iterations with %" INT " updates", sizes[is], reductions,
                         its, updates));
    PetscCall(DestroyAll(&ksp, &B, &X));
  }
  PetscCall(Verdict("reductions of blocks"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* An operator with some consecutive products that are wrong by this part of their norm */
typedef struct {
  Mat       A;
  PetscInt  made, first, last;
  PetscReal part;
} Straying;

static PetscErrorCode StrayingMult(Mat S, Vec x, Vec y)
{
  Straying *straying;
  PetscReal norm, size;
  Vec       error;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(S, &straying));
  PetscCall(MatMult(straying->A, x, y));
  straying->made++;
  if (straying->made < straying->first || straying->made > straying->last) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecDuplicate(y, &error));
  PetscCall(VecSetGeneral(error, 0.7 * straying->made));
  PetscCall(VecNorm(y, NORM_2, &norm));
  PetscCall(VecNorm(error, NORM_2, &size));
  PetscCall(VecAXPY(y, straying->part * norm / size, error));
  PetscCall(VecDestroy(&error));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   After an error of the operator the residual of the recurrence meets the tolerance although b - A x does not. The recurrence
   continues from b - A x with its bases, in any step of a cycle. It needs 0.60 to 0.64 of the matvecs of a whole solve in
   addition; 0.68 to 0.85 if M is not P^H G in that step. In single precision, where the error is nearer to the tolerance, it needs
   0.14 to 0.33 for a system that few iterations solve, and any part for others
*/
static PetscErrorCode TestMisses(Mat A)
{
  /* with other values the dropped column is a smaller part of M, or of a cycle */
  const PetscInt shadows[] = {3, 4}, start = SINGLE ? 4 : 8;
  PetscReal      more = 0.0, all = 0.0;
  Straying       straying = {.A = A, .part = 1e-4};
  Mat            S, B, X;

  PetscFunctionBeginUser;
  PetscCall(ShellCreate(A, StrayingMult, &straying, &S));
  PetscCall(BlocksCreate(A, COLUMNS, BLOCK_RANDOM, &B, &X));
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(shadows); is++) {
    for (PetscInt i = 0; i < 16; i++) {
      PetscInt matvecs[2];

      for (PetscInt wrong = 0; wrong < 2; wrong++) {
        KSP ksp;

        PetscCall(BlockSolverCreate(S, shadows[is], PCNONE, &ksp));
        PetscCall(KSPIDRSSetUpdateTolerance(ksp, 1e-200)); /* an update would detect the error before */
        PetscCall(KSPSetTolerances(ksp, rtol * PetscPowReal(10.0, (SINGLE ? -0.03 : -0.1) * i), 0.0, PETSC_DEFAULT, 1000));
        straying.made  = 0;
        straying.first = wrong ? start * COLUMNS + 1 : 1;
        straying.last  = wrong ? (start + 1) * COLUMNS : 0;
        PetscCall(CountMatvecs(ksp, B, X, &matvecs[wrong]));
        PetscCall(CheckBlock("after an error of the operator", ksp, A, B, X, PETSC_TRUE));
        PetscCall(KSPDestroy(&ksp));
      }
      all += matvecs[0];
      more += matvecs[1] - matvecs[0];
    }
  }
  PetscCall(ComplainIf(!(more <= (SINGLE ? 0.45 : 0.67) * all), "%g matvecs more than without an error, which takes %g",
                       (double)more, (double)all));
  PetscCall(DestroyAll(&X, &B, &S));
  PetscCall(Verdict("verifications that fail"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   One product that is not finite, in any step: the block recurrence breaks down, its columns continue with single recurrences from
   the last iterate, and all are solved. The view reports it
*/
static PetscErrorCode TestBreakdown(Mat A)
{
  Straying straying = {.A = A, .part = PETSC_MAX_REAL};
  Mat      S, B, X;

  PetscFunctionBeginUser;
  PetscCall(ShellCreate(A, StrayingMult, &straying, &S));
  PetscCall(BlocksCreate(A, COLUMNS, BLOCK_RANDOM, &B, &X));
  for (PetscInt step = 0; step < (SINGLE ? 8 : 12); step++) { /* before tolerances of single precision are met */
    char what[64];
    KSP  ksp;

    PetscCall(BlockSolverCreate(S, 3, PCNONE, &ksp));
    straying.made  = 0;
    straying.first = straying.last = step * COLUMNS + 2;
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscCall(PetscSNPrintf(what, sizeof(what), "a NaN in step %" INT, step));
    PetscCall(CheckBlock(what, ksp, A, B, X, PETSC_TRUE));
    PetscCall(CheckView(ksp, "8 of them ... without a block recurrence: ... broken down", 1));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&X, &B, &S));
  PetscCall(Verdict("breakdowns"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Columns that differ by little more than rounding errors, and tolerances of the same size: the block neglects the remaining part
   of a column outside the span of the others. No column is reported as solved that is not, and all columns that KSPSolve() solves
   are solved
*/
static PetscErrorCode TestNear(Mat A)
{
  const PetscReal differences[] = {1.0, 30.0, 300.0, 3e3, 3e4}, tolerances[] = {100.0, 500.0, 3e3}, usual = rtol;
  PetscInt        solved = 0;
  Mat             B, X;
  Vec             b, w, x;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecDuplicate(b, &w));
  PetscCall(BlockCreate(A, COLUMNS, &B));
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
  for (size_t id = 0; id < PETSC_STATIC_ARRAY_LENGTH(differences); id++) {
    for (PetscInt j = 0; j < COLUMNS; j++) {
      PetscCall(BlockColumn(BLOCK_RANDOM, 0, b));
      PetscCall(BlockColumn(BLOCK_RANDOM, 1 + j, w));
      PetscCall(VecAXPBY(b, j ? differences[id] * PETSC_MACHINE_EPSILON : 0.0, 1.0 + j, w));
      PetscCall(ColumnSet(B, j, b));
    }
    for (size_t it = 0; it < PETSC_STATIC_ARRAY_LENGTH(tolerances); it++) {
      for (PetscInt s = 1; s <= 4; s += 3) {
        const KSPConvergedReason *reasons;
        KSPConvergedReason        alone[COLUMNS];
        char                      what[128];
        KSP                       ksp;

        rtol = tolerances[it] * PETSC_MACHINE_EPSILON;
        PetscCall(SolverCreate(A, s, PCNONE, &ksp));
        for (PetscInt j = 0; j < COLUMNS; j++) {
          PetscCall(ColumnGet(B, j, b));
          PetscCall(KSPSolve(ksp, b, x));
          PetscCall(KSPGetConvergedReason(ksp, &alone[j]));
        }
        PetscCall(KSPIDRSSetBlock(ksp, PETSC_TRUE));
        PetscCall(KSPMatSolve(ksp, B, X));
        PetscCall(PetscSNPrintf(what, sizeof(what), "s = %" INT ", %g epsilon apart, to %g epsilon", s, (double)differences[id],
                                (double)tolerances[it]));
        PetscCall(CheckBlock(what, ksp, A, B, X, PETSC_FALSE));
        PetscCall(KSPIDRSGetColumnResults(ksp, NULL, &reasons, NULL, NULL));
        for (PetscInt j = 0; j < COLUMNS; j++) {
          PetscCall(ComplainIf(alone[j] > 0 && reasons[j] < 0, "%s: column %" INT " is %s, alone %s", what, j,
                               KSPConvergedReasons[reasons[j]], KSPConvergedReasons[alone[j]]));
          solved += alone[j] > 0 ? 1 : 0;
        }
        PetscCall(KSPDestroy(&ksp));
      }
    }
  }
  rtol = usual;
  PetscCall(ComplainIf(!solved, "KSPSolve() solves none of them"));
  PetscCall(DestroyAll(&b, &w, &x, &B, &X));
  PetscCall(Verdict("columns that nearly depend on each other"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Cyclic shift: the residual does not fall before n steps */
static PetscScalar Shift(PetscInt i, PetscInt j, PetscInt n)
{
  return j == (i + 1) % n ? 1.0 : 0.0;
}

/* Recurrences that break down, or cannot reduce the residual: columns continue with single recurrences, and the view reports it */
static PetscErrorCode TestAlone(void)
{
  Entry *const   entries[] = {Few, Skew, Identity, Shift};
  const PetscInt n         = 150;

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(entries); i++) {
    Mat A, B, X;

    PetscCall(MatCreateEntries(entries[i], n, PETSC_FALSE, &A));
    PetscCall(BlockCreate(A, COLUMNS, &B));
    PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
    for (size_t is = 0; is < SIZES; is++) {
      for (PetscInt kind = 0; kind < BLOCKS; kind++) {
        const PetscBool slow = (PetscBool)(entries[i] == Skew || entries[i] == Shift);
        char            what[128];
        KSP             ksp;

        PetscCall(BlockSolverCreate(A, sizes[is], PCNONE, &ksp));
        PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 250));
        PetscCall(BlockSet(A, (BlockKind)kind, B));
        PetscCall(KSPMatSolve(ksp, B, X));
        PetscCall(PetscSNPrintf(what, sizeof(what), "matrix %d, s = %" INT ", %s", (int)i, sizes[is], BlockKinds[kind]));
        PetscCall(CheckBlock(what, ksp, A, B, X, slow ? PETSC_FALSE : PETSC_TRUE));
        /*
           in single precision the rounding errors that remain in R, after the steps that solve for all columns in exact arithmetic,
           may miss the tolerance, and the block recurrence breaks down. So does the block recurrence of 2 residuals, when it cannot
           reduce them
        */
        if (!slow && !(SINGLE && kind == BLOCK_POINTS)) PetscCall(CheckView(ksp, "without a block recurrence:", 0));
        if (!slow && kind == BLOCK_RANDOM) PetscCall(CheckView(ksp, "independent residuals", 1));
        if (entries[i] == Shift && (kind == BLOCK_NEAR || kind == BLOCK_EQUAL))
          PetscCall(CheckView(ksp,
                              SINGLE ? "8 of them ... without a block recurrence"
                                     : "8 of them ... without a block recurrence: ... no smaller residual",
                              1));
        PetscCall(KSPDestroy(&ksp));
      }
    }
    PetscCall(DestroyAll(&B, &X, &A));
  }
  {
    KSP ksp;
    Mat A, B, X;

    PetscCall(MatCreateEntries(Few, 30, PETSC_FALSE, &A));
    PetscCall(BlocksCreate(A, COLUMNS, BLOCK_RANDOM, &B, &X));
    PetscCall(BlockSolverCreate(A, 4, PCNONE, &ksp));
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscCall(CheckView(ksp, "without a block recurrence: ... fewer unknowns", 1));
    PetscCall(DestroyAll(&ksp, &X, &B, &A));
  }
  PetscCall(Verdict("columns that go on by themselves"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Settings that block recurrences do not support are errors that name the options */
static PetscErrorCode TestErrors(Mat A)
{
  const char *const        named[]  = {"ksp_idrs_width", "ksp_idrs_smoothing", "KSPIDRSSetShadowVecs",
                                       "ksp_idrs_run",   "ksp_idrs_width",     "KSPIDRSSetShadowVecs"},
                    *const values[] = {"1", "true", "4", "persistent", "1600", "8"};
  const PetscInt           s = 4, rank = 2; /* there would be s times 2 shadow vectors, which cannot be set either */
  Mat                      B, X;

  PetscFunctionBeginUser;
  PetscCall(BlocksCreate(A, 2, BLOCK_RANDOM, &B, &X));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(named); i++) {
    PetscErrorCode ierr;
    Vec           *P, x;
    KSP            ksp;

    PetscCall(BlockSolverCreate(A, s, PCNONE, &ksp));
    PetscCall(MatCreateVecs(A, &x, NULL));
    PetscCall(VecDuplicateVecs(x, rank * s, &P));
    if (i == 0) PetscCall(KSPIDRSSetWidth_Private(ksp, 1));
    if (i == 1) PetscCall(KSPIDRSSetSmoothing(ksp, PETSC_TRUE));
    if (i == 2 || i == 5) PetscCall(KSPIDRSSetShadowVecs(ksp, i == 2 ? s : rank * s, P));
    if (i == 3) PetscCall(KSPIDRSSetRun_Private(ksp, KSP_IDRS_RUN_PERSISTENT));
    if (i == 4) PetscCall(KSPIDRSSetShadowSize(ksp, 100)); /* times a width of 16 */
    Try(ierr, KSPMatSolve(ksp, B, X));
    PetscCall(CheckError(ierr, "-ksp_idrs_block", "ksp_idrs_block", values[i]));
    PetscCall(CheckError(ierr, "-ksp_idrs_block", named[i], values[i]));
    PetscCall(VecDestroyVecs(rank * s, &P));
    PetscCall(DestroyAll(&x, &ksp));
  }
  PetscCall(DestroyAll(&B, &X));
  PetscCall(Verdict("options that exclude each other"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  const char *const pctypes[] = {PCNONE, PCJACOBI, PCBJACOBI, PCSOR};
  Mat               A, large, counted, matrices[2];

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(ImplementationFromOptions());
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_UNEVEN, 12, 0.8, 0.4, &A));
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, 40, 0.2, 0.1, &large));
  for (PetscInt i = 0; i < 2; i++) PetscCall(MatCreateEntries(Convection, LINE * LINE, (PetscBool)i, &matrices[i]));
  counted = SINGLE ? A : large;
  PetscCall(TestSolved(A, PETSC_TRUE, PETSC_STATIC_ARRAY_LENGTH(pctypes), pctypes));
  PetscCall(TestMatvecs(counted));
  PetscCall(TestReductions(counted));
  PetscCall(TestMisses(counted));
  PetscCall(TestBreakdown(A));
  PetscCall(TestNear(A));
  PetscCall(TestOutcomes(matrices[0], matrices[1], PETSC_TRUE));
  PetscCall(TestAlone());
  PetscCall(TestErrors(A));
  for (PetscInt i = 0; i < 2; i++) PetscCall(MatDestroy(&matrices[i]));
  PetscCall(DestroyAll(&large, &A));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
