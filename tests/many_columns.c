static char help[] = "KSPMatSolve() with KSPIDRS: several right-hand sides at the same time. Every column is compared with its\n\
own system, and with KSPSolve().\n\n";

#include "columns.h"

#define COLUMNS 8

/*
   Each column has the history of KSPSolve(), up to rounding in the first cycles; with a width of 1 histories and solutions have the
   same bits
*/
static PetscErrorCode TestHistories(Mat A)
{
  const char *const pctypes[] = {PCNONE, PCJACOBI, PCBJACOBI};
  static Outcome    alone;

  PetscFunctionBeginUser;
  for (size_t is = 0; is < SIZES; is++) {
    for (size_t ipc = 0; ipc < PETSC_STATIC_ARRAY_LENGTH(pctypes); ipc++) {
      for (PetscInt width = 1; width <= COLUMNS; width += COLUMNS - 1) {
        const PetscInt *its;
        PetscReal      *norms;
        PetscInt        length, at = 0;
        char            what[128];
        KSP             ksp, single;
        Mat             B, X;
        Vec             b, x, y;

        PetscCall(SolverCreate(A, sizes[is], pctypes[ipc], &ksp));
        PetscCall(SolverCreate(A, sizes[is], pctypes[ipc], &single));
        PetscCall(BlocksCreate(A, COLUMNS, BLOCK_RANDOM, &B, &X));
        PetscCall(MatCreateVecs(A, &x, &b));
        PetscCall(VecDuplicate(x, &y));
        PetscCall(PetscMalloc1(COLUMNS * MAX_HISTORY, &norms));
        PetscCall(KSPSetResidualHistory(ksp, norms, COLUMNS * MAX_HISTORY, PETSC_FALSE));
        PetscCall(KSPIDRSSetWidth_Private(ksp, width));
        PetscCall(KSPMatSolve(ksp, B, X));
        PetscCall(KSPGetResidualHistory(ksp, NULL, &length));
        PetscCall(KSPIDRSGetColumnResults(ksp, NULL, NULL, &its, NULL));
        for (PetscInt j = 0; j < COLUMNS; j++) {
          const PetscInt certain = PetscMin(2 * (sizes[is] + 1), its[j]);
          PetscBool      equal;

          PetscCall(
            PetscSNPrintf(what, sizeof(what), "s = %" INT ", %s, width %" INT ", column %" INT, sizes[is], pctypes[ipc], width, j));
          PetscCall(ColumnGet(B, j, b));
          PetscCall(SolveHistory(single, b, x, &alone));
          PetscCall(ComplainIf(PetscAbsInt(alone.length - 1 - its[j]) > (width == 1 ? 0 : 1 + its[j] / 10),
                               "%s: %" INT " iterations, %" INT " by KSPSolve()", what, its[j], alone.length - 1));
          PetscCall(ComplainIf(at + its[j] + 1 > length, "%s: the history is too short", what));
          for (PetscInt i = 0; i <= certain && i < alone.length; i++)
            PetscCall(ComplainIf(!(PetscAbsReal(norms[at + i] - alone.norms[i]) <=
                                   (width == 1 ? 0.0 : 100 * PETSC_SQRT_MACHINE_EPSILON) * alone.norms[0]),
                                 "%s: norm %" INT " is %g, by KSPSolve() %g", what, i, (double)norms[at + i],
                                 (double)alone.norms[i]));
          PetscCall(ColumnGet(X, j, y));
          PetscCall(VecEqual(x, y, &equal));
          PetscCall(ComplainIf(width == 1 && !equal, "%s: not the solution of KSPSolve()", what));
          at += its[j] + 1;
        }
        PetscCall(ComplainIf(at != length, "%" INT " norms instead of %" INT, length, at));
        PetscCall(PetscFree(norms));
        PetscCall(DestroyAll(&b, &x, &y, &B, &X, &single, &ksp));
      }
    }
  }
  PetscCall(Verdict("histories beside those of KSPSolve()"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* An operator with one product that is a NaN */
typedef struct {
  Mat      A;
  PetscInt made, wrong;
} Wrong;

static PetscErrorCode WrongMult(Mat S, Vec x, Vec y)
{
  Wrong *wrong;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(S, &wrong));
  PetscCall(MatMult(wrong->A, x, y));
  if (++wrong->made == wrong->wrong) PetscCall(VecSet(y, (PetscScalar)NAN));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A column that ends within a cycle, in any step, does not change the other columns */
static PetscErrorCode TestEnds(Mat A)
{
  const PetscInt special = 2;
  Wrong          wrong   = {.A = A};
  PetscBool      equal;
  Mat            S, B, X, Y;
  Vec            x, y;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(A, &x, &y));
  PetscCall(ShellCreate(A, WrongMult, &wrong, &S));
  PetscCall(BlocksCreate(A, COLUMNS, BLOCK_RANDOM, &B, &X));
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &Y));
  for (size_t is = 0; is < SIZES; is++) {
    for (PetscInt step = -1; step < 2 * (sizes[is] + 1); step++) { /* the first time all products are right */
      const KSPConvergedReason *reasons;
      char                      what[64];
      KSP                       ksp;

      PetscCall(SolverCreate(S, sizes[is], PCNONE, &ksp));
      wrong.made  = 0;
      wrong.wrong = step < 0 ? 0 : step * COLUMNS + special + 1;
      PetscCall(KSPMatSolve(ksp, B, step < 0 ? X : Y));
      PetscCall(PetscSNPrintf(what, sizeof(what), "s = %" INT ", a NaN in step %" INT, sizes[is], step));
      PetscCall(KSPIDRSGetColumnResults(ksp, NULL, &reasons, NULL, NULL));
      for (PetscInt j = 0; j < COLUMNS; j++) {
        const PetscBool ends = (PetscBool)(step >= 0 && j == special);

        PetscCall(ComplainIf(ends ? reasons[j] != KSP_DIVERGED_NANORINF : reasons[j] < 0, "%s, column %" INT ": %s", what, j,
                             KSPConvergedReasons[reasons[j]]));
        if (step < 0 || ends) continue;
        PetscCall(ColumnGet(X, j, x));
        PetscCall(ColumnGet(Y, j, y));
        PetscCall(VecEqual(x, y, &equal));
        PetscCall(ComplainIf(!equal, "%s: column %" INT " has changed", what, j));
      }
      PetscCall(KSPDestroy(&ksp));
    }
  }
  PetscCall(DestroyAll(&S, &B, &X, &Y, &x, &y));
  PetscCall(Verdict("columns that end in the midst of a cycle"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Counts the loggings of an event so far */
static PetscErrorCode CountEvent(const char name[], PetscInt *count)
{
  PetscEventPerfInfo info;
  PetscLogEvent      event;

  PetscFunctionBeginUser;
  PetscCall(PetscLogEventGetId(name, &event));
  PetscCall(PetscLogEventGetPerfInfo(PETSC_DETERMINE, event, &info));
  *count = info.count;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Counts the calls of the passes and of the reduction so far */
static PetscErrorCode CountCalls(PetscInt *passes, PetscInt *reductions)
{
  const char *const names[] = {"IDRSCombine", "IDRSProject", "IDRSUpdate", "IDRSAdvance"};

  PetscFunctionBeginUser;
  *passes = 0;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(names); i++) {
    PetscInt count;

    PetscCall(CountEvent(names[i], &count));
    *passes += count;
  }
  PetscCall(CountEvent("IDRSReduce", reductions));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Equal columns need as many calls of passes, and reductions, as one column, apart from the norms of b - A x */
static PetscErrorCode TestCalls(Mat A)
{
  const char *const pctypes[] = {PCNONE, PCJACOBI, PCBJACOBI};

  PetscFunctionBeginUser;
  for (size_t is = 0; is < SIZES; is++) {
    for (size_t ipc = 0; ipc < PETSC_STATIC_ARRAY_LENGTH(pctypes); ipc++) {
      PetscInt passes[3], reductions[3], all[2];
      KSP      ksp;
      Mat      B, X;
      Vec      b, x;

      PetscCall(SolverCreate(A, sizes[is], pctypes[ipc], &ksp));
      PetscCall(KSPIDRSSetRun_Private(ksp, KSP_IDRS_RUN_STEPWISE)); /* on a GPU, as for several columns */
      PetscCall(KSPIDRSSetCommunication_Private(ksp, KSP_IDRS_COMMUNICATION_MPI));
      PetscCall(BlocksCreate(A, COLUMNS, BLOCK_EQUAL, &B, &X));
      PetscCall(MatCreateVecs(A, &x, &b));
      PetscCall(ColumnGet(B, 0, b));
      PetscCall(CountCalls(&passes[0], &reductions[0]));
      PetscCall(KSPSolve(ksp, b, x));
      PetscCall(KSPIDRSGetCounts(ksp, NULL, &all[0], NULL, NULL));
      PetscCall(CountCalls(&passes[1], &reductions[1]));
      PetscCall(KSPMatSolve(ksp, B, X));
      PetscCall(KSPIDRSGetCounts(ksp, NULL, &all[1], NULL, NULL));
      PetscCall(CountCalls(&passes[2], &reductions[2]));
      /* columns agree up to rounding with KSPSolve(), whose product may differ: one cycle more or less */
      PetscCall(ComplainIf(PetscAbsInt(passes[2] - 2 * passes[1] + passes[0]) > 4 * (sizes[is] + 1),
                           "s = %" INT ", %s: %" INT " passes for one column, %" INT " for %d", sizes[is], pctypes[ipc],
                           passes[1] - passes[0], passes[2] - passes[1], COLUMNS));
      PetscCall(ComplainIf(reductions[2] - 2 * reductions[1] + reductions[0] > sizes[is] + 1,
                           "s = %" INT ", %s: %" INT " reductions for one column, %" INT " for %d", sizes[is], pctypes[ipc],
                           reductions[1] - reductions[0], reductions[2] - reductions[1], COLUMNS));
      /* in single precision the first s steps break down for s = 8, which costs three more reductions per column */
      PetscCall(
        ComplainIf(all[1] > all[0] + sizes[is] + 1 + 3 + (PetscDefined(USE_REAL_SINGLE) && sizes[is] == 8 ? 3 * (COLUMNS - 1) : 0),
                   "s = %" INT ", %s: KSPIDRSGetCounts() tells of %" INT " reductions for one column, %" INT " for %d", sizes[is],
                   pctypes[ipc], all[0], all[1], COLUMNS));
      PetscCall(DestroyAll(&b, &x, &B, &X, &ksp));
    }
  }
  PetscCall(Verdict("passes and reductions of many columns are those of one"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   On a GPU each step reads A once for all its columns: there are as many products of several columns as the slowest column has
   steps, and products of one column only compute b - A x. Each column of a product has a scatter
*/
static PetscErrorCode TestReads(Mat A)
{
  PetscMPIInt size;
  PetscBool   device;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &device, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
  if (!device) PetscCall(SkipWithoutGPU());
  for (size_t is = 0; is < SIZES && device; is++) {
    PetscInt several[2], one[2], scatters[2], its, matvecs, updates;
    KSP      ksp;
    Mat      B, X;

    PetscCall(SolverCreate(A, sizes[is], PCNONE, &ksp));
    PetscCall(KSPIDRSSetRun_Private(ksp, KSP_IDRS_RUN_STEPWISE));
    PetscCall(KSPIDRSSetCommunication_Private(ksp, KSP_IDRS_COMMUNICATION_MPI));
    PetscCall(BlocksCreate(A, COLUMNS, BLOCK_RANDOM, &B, &X));
    PetscCall(CountEvent("MatMatMultNum", &several[0]));
    PetscCall(CountEvent("MatMult", &one[0]));
    PetscCall(CountEvent("SFBcastBegin", &scatters[0]));
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscCall(CountEvent("MatMatMultNum", &several[1]));
    PetscCall(CountEvent("MatMult", &one[1]));
    PetscCall(CountEvent("SFBcastBegin", &scatters[1]));
    PetscCall(KSPGetIterationNumber(ksp, &its));
    PetscCall(KSPIDRSGetCounts(ksp, &matvecs, NULL, &updates, NULL));
    /* updates of different columns may be due in different cycles, and a device makes some superfluous products when it stops */
    PetscCall(ComplainIf(several[1] - several[0] < its || several[1] - several[0] > its + updates + 1 + 3 * (updates + COLUMNS),
                         "s = %" INT ": %" INT " products of several columns, for %" INT " iterations and %" INT " updates",
                         sizes[is], several[1] - several[0], its, updates));
    if (size > 1)
      PetscCall(ComplainIf(scatters[1] - scatters[0] < several[1] - several[0] ||
                             scatters[1] - scatters[0] > COLUMNS * (several[1] - several[0]) + one[1] - one[0],
                           "s = %" INT ": %" INT " scatters for %" INT " products of several columns", sizes[is],
                           scatters[1] - scatters[0], several[1] - several[0]));
    PetscCall(ComplainIf(one[1] - one[0] > 2 * COLUMNS, "s = %" INT ": %" INT " products of one column, to verify %d", sizes[is],
                         one[1] - one[0], COLUMNS));
    PetscCall(ComplainIf(matvecs < COLUMNS * (its / 2), "s = %" INT ": only %" INT " matvecs are counted", sizes[is], matvecs));
    PetscCall(DestroyAll(&B, &X, &ksp));
  }
  PetscCall(Verdict("A is read once for all columns"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCMatApply() applies the preconditioner to all columns at once, if it reads its data once. PCASM is applied column by column,
   since its PCMatApply() goes through the host. The passes apply PCJACOBI, and read its diagonal once. PCNONE is not applied
*/
static PetscErrorCode TestPreconditioners(Mat A)
{
  const char *const pctypes[] = {PCNONE, PCJACOBI, PCBJACOBI, PCASM};

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(pctypes); i++) {
    const PetscBool several = (PetscBool)(i == 2), one = (PetscBool)(i == 3);
    PetscInt        blocks[2], vectors[2], its, updates;
    KSP             ksp;
    Mat             B, X;

    PetscCall(SolverCreate(A, 4, pctypes[i], &ksp));
    PetscCall(KSPIDRSSetRun_Private(ksp, KSP_IDRS_RUN_STEPWISE));
    PetscCall(BlocksCreate(A, COLUMNS, BLOCK_RANDOM, &B, &X));
    PetscCall(CountEvent("PCMatApply", &blocks[0]));
    PetscCall(CountEvent("PCApply", &vectors[0]));
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscCall(CountEvent("PCMatApply", &blocks[1]));
    PetscCall(CountEvent("PCApply", &vectors[1]));
    PetscCall(KSPGetIterationNumber(ksp, &its));
    PetscCall(KSPIDRSGetCounts(ksp, NULL, NULL, &updates, NULL));
    blocks[1] -= blocks[0];
    vectors[1] -= vectors[0];
    /* applications to dense matrices inside a preconditioner may be counted as well, and a device makes some superfluous ones */
    PetscCall(ComplainIf(several ? blocks[1] < its || blocks[1] > 2 * (its + updates + 1) + 6 * (updates + COLUMNS) : blocks[1] > 0,
                         "%s: applied to %" INT " blocks in %" INT " iterations", pctypes[i], blocks[1], its));
    PetscCall(ComplainIf(one ? vectors[1] < its * COLUMNS / 2 : vectors[1] > (i == 1 ? 1 : 0),
                         "%s: applied to %" INT " vectors in %" INT " iterations", pctypes[i], vectors[1], its));
    PetscCall(DestroyAll(&B, &X, &ksp));
  }
  PetscCall(Verdict("preconditioners of all columns"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A slow column keeps its slot, and fast columns use the other slot in turn: all of them need as many projections as the slow
   column beside one of them
*/
static PetscErrorCode TestTurns(Mat A)
{
  const PetscInt s = 1, counts[] = {2, 10};
  PetscInt       projections[2];
  PetscReal      norm;
  Vec            b;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(A, NULL, &b));
  PetscCall(BlockColumn(BLOCK_RANDOM, 0, b));
  PetscCall(VecNorm(b, NORM_2, &norm));
  for (PetscInt i = 0; i < 2; i++) {
    const PetscInt *its;
    PetscInt        before, after;
    KSP             ksp;
    Mat             B, X;

    PetscCall(BlockCreate(A, counts[i], &B));
    for (PetscInt j = 0; j < counts[i]; j++) {
      PetscCall(BlockColumn(BLOCK_RANDOM, j, b));
      if (j) PetscCall(VecScale(b, 2 * rtol)); /* near the absolute tolerance */
      PetscCall(ColumnSet(B, j, b));
    }
    PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
    PetscCall(SolverCreate(A, s, PCNONE, &ksp));
    PetscCall(KSPSetTolerances(ksp, 0.0, rtol * norm, PETSC_DEFAULT, PETSC_DEFAULT));
    PetscCall(KSPIDRSSetWidth_Private(ksp, 2));
    PetscCall(CountEvent("IDRSProject", &before));
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscCall(CountEvent("IDRSProject", &after));
    projections[i] = after - before;
    PetscCall(KSPIDRSGetColumnResults(ksp, NULL, NULL, &its, NULL));
    for (PetscInt j = 1; j < counts[i]; j++)
      PetscCall(ComplainIf(its[j] < 1 || 10 * its[j] > its[0], "the slow column has %" INT " iterations, column %" INT " has %" INT,
                           its[0], j, its[j]));
    PetscCall(DestroyAll(&B, &X, &ksp));
  }
  PetscCall(ComplainIf(projections[1] > projections[0] + 2, "%" INT " projections for %" INT " columns, %" INT " for %" INT,
                       projections[1], counts[1], projections[0], counts[0]));
  PetscCall(VecDestroy(&b));
  PetscCall(Verdict("a column that is done makes room for the next"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Dense matrices with any leading dimension. The gaps between columns do not change */
static PetscErrorCode TestLeading(Mat A)
{
  const PetscInt more[][2] = {
    {3, 0},
    {0, 5},
    {1, 7}
  };
  const PetscScalar between = 1e30;

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(more); i++) {
    for (PetscInt way = 0; way < 4; way++) { /* at the same time, one by one, with PCMatApply(), with a block recurrence */
      const PetscScalar *array;
      PetscInt           n, ld;
      KSP                ksp;
      Mat                B, X;

      PetscCall(BlockCreateApart(A, COLUMNS, more[i][0], between, &B));
      PetscCall(BlockCreateApart(A, COLUMNS, more[i][1], between, &X));
      PetscCall(BlockSet(A, BLOCK_RANDOM, B));
      PetscCall(SolverCreate(A, 4, way == 2 ? PCBJACOBI : PCJACOBI, &ksp));
      if (way == 1) PetscCall(KSPIDRSSetWidth_Private(ksp, 1));
      PetscCall(KSPIDRSSetBlock(ksp, (PetscBool)(way == 3)));
      PetscCall(SolveAllColumns("leading dimensions", ksp, A, B, X, PETSC_TRUE));
      PetscCall(MatGetLocalSize(X, &n, NULL));
      PetscCall(MatDenseGetLDA(X, &ld));
      PetscCall(ComplainIf(ld != n + more[i][1], "the leading dimension is %" INT " for %" INT " rows", ld, n));
      PetscCall(MatDenseGetArrayRead(X, &array));
      for (PetscInt j = 0; j < COLUMNS; j++) {
        for (PetscInt l = n; l < ld; l++)
          PetscCall(
            ComplainIf(array[l + j * ld] != between, "number %" INT " behind column %" INT " has been written to", l - n, j));
      }
      PetscCall(MatDenseRestoreArrayRead(X, &array));
      PetscCall(DestroyAll(&ksp, &B, &X));
    }
  }
  PetscCall(Verdict("leading dimensions"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Host memory of several right-hand sides, as PETSc counts it: 2s + 5 vectors each, s more with the back end vec, and a part that
   does not grow with the rows
*/
static PetscErrorCode TestMemory(Mat A)
{
  PetscBool device;
  PetscInt  n;
  Mat       B, X;

  PetscFunctionBeginUser;
  PetscCall(BlockCreate(A, COLUMNS, &B));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)B, &device, MATSEQDENSECUDA, MATMPIDENSECUDA, ""));
  PetscCall(BlockSet(A, BLOCK_RANDOM, B));
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
  PetscCall(MatGetLocalSize(A, &n, NULL));
  for (size_t is = 0; is < SIZES; is++) {
    const PetscInt s = sizes[is], vectors = (device && implementation == KSP_IDRS_VEC ? 3 : 2) * s + 5;
    PetscLogDouble before, after;
    PetscReal      taken;
    KSP            ksp;

    PetscCall(SolverCreate(A, s, PCNONE, &ksp));
    PetscCall(KSPSetUp(ksp));
    PetscCall(PetscMallocGetCurrentUsage(&before));
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscCall(PetscMallocGetCurrentUsage(&after));
    taken = (PetscReal)(after - before) / ((COLUMNS - 1) * (PetscReal)sizeof(PetscScalar)) / n;
    PetscCall(ComplainIf(before > 0.0 && !device && !(taken <= 1.05 * vectors + 1),
                         "s = %" INT ": %g vectors a column, should be %" INT, s, (double)taken, vectors));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&B, &X));
  PetscCall(Verdict("memory"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   With one process and one GPU as many kernels of many steps as fit run side by side. If two do not fit, columns are solved one by
   one with -ksp_idrs_run persistent, and otherwise step by step at the same time
*/
static PetscErrorCode TestSideBySide(Mat small)
{
  static const struct {
    PetscInt    m, columns, s;
    KSPIDRSRun  run;
    const char *pctype, *view; /* a line of the view on a GPU */
  } cases[] = {
    {12,  16, 4,  KSP_IDRS_RUN_AUTO,       PCJACOBI, "at the same time: each"                   },
    {12,  17, 1,  KSP_IDRS_RUN_PERSISTENT, PCNONE,   "at the same time: each"                   },
    {12,  5,  8,  KSP_IDRS_RUN_AUTO,       PCPOLY,   "at the same time: each"                   },
    {100, 16, 4,  KSP_IDRS_RUN_AUTO,       PCNONE,   "right-hand sides, ... at the same time"   },
    {100, 3,  16, KSP_IDRS_RUN_PERSISTENT, PCJACOBI, "at the same time: each"                   },
    {100, 2,  4,  KSP_IDRS_RUN_STEPWISE,   PCJACOBI, "run stepwise"                             },
    {240, 2,  4,  KSP_IDRS_RUN_PERSISTENT, PCJACOBI, "at the same time: each"                   },
    {600, 2,  1,  KSP_IDRS_RUN_AUTO,       PCJACOBI, "run stepwise"                             },
    {400, 2,  8,  KSP_IDRS_RUN_PERSISTENT, PCJACOBI, "one by one: with -ksp_idrs_run persistent"}
  };

  PetscBool gpu;

  PetscFunctionBeginUser;
  PetscCall(PetscObjectTypeCompare((PetscObject)small, MATSEQAIJCUSPARSE, &gpu));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(cases); i++) {
    KSP ksp;
    Mat A, B, X;

    PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, gpu ? cases[i].m : 12, 0.8, 0.4, &A));
    PetscCall(BlocksCreate(A, cases[i].columns, BLOCK_RANDOM, &B, &X));
    PetscCall(SolverCreate(A, cases[i].s, cases[i].pctype, &ksp));
    if (gpu || cases[i].run != KSP_IDRS_RUN_PERSISTENT) PetscCall(KSPIDRSSetRun_Private(ksp, cases[i].run));
    for (PetscInt again = 0; again < 2; again++) {
      PetscCall(SolveAllColumns(cases[i].view, ksp, A, B, X, PETSC_TRUE));
      if (gpu) PetscCall(CheckView(ksp, cases[i].view, 1));
    }
    PetscCall(DestroyAll(&ksp, &B, &X, &A));
  }
  PetscCall(Verdict("columns side by side"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  const char *const pctypes[] = {PCNONE, PCJACOBI, PCBJACOBI, PCSOR, PCASM};
  Mat               A, large, matrices[2];

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(ImplementationFromOptions());
  PetscCall(PetscLogDefaultBegin()); /* counts calls */
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_UNEVEN, 12, 0.8, 0.4, &A));
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, 160, 0.8, 0.4, &large));
  for (PetscInt i = 0; i < 2; i++) PetscCall(MatCreateEntries(Convection, LINE * LINE, (PetscBool)i, &matrices[i]));
  PetscCall(TestSolved(A, PETSC_FALSE, PETSC_STATIC_ARRAY_LENGTH(pctypes), pctypes));
  PetscCall(TestHistories(A));
  PetscCall(TestEnds(A));
  PetscCall(TestCalls(A));
  PetscCall(TestReads(A));
  PetscCall(TestPreconditioners(A));
  PetscCall(TestTurns(A));
  PetscCall(TestLeading(A));
  PetscCall(TestMemory(large));
  PetscCall(TestSideBySide(A));
  PetscCall(TestOutcomes(matrices[0], matrices[1], PETSC_FALSE));
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
