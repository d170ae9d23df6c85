static char help[] = "PCAGGREGATION: numbers of iterations, coarse matrices, difficult matrices, layouts, and changes.\n\n";

#include "aggregation.h"

/* The number of iterations must not grow with the grid */
static PetscErrorCode TestGrowth(void)
{
  const char *const types[] = {KSPIDRS, KSPGMRES, KSPFGMRES, KSPBCGS};
  PetscMPIInt       rank, size;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &size));
  for (Kind kind = CUBE_CENTRAL; kind <= CUBE_ROUGH; kind++) {
    PetscInt  its[4][3];
    PetscBool gpus;

    for (PetscInt level = 0; level < (size > 1 ? 2 : 3); level++) {
      Mat A;
      Vec b, x;

      PetscCall(KindCreate(kind, 16 + 16 * level, &A));
      PetscCall(SystemFor(A, &b, &x));
      for (int type = 0; type < (level == 2 ? 1 : 4); type++) {
        KSP ksp;

        PetscCall(SolverFor(A, types[type], NULL, &ksp));
        PetscCall(SolveSystem(kinds[kind], ksp, A, b, x));
        PetscCall(KSPGetIterationNumber(ksp, &its[type][level]));
        /* on several GPUs each process has all levels of 16 points, which takes fewer iterations */
        PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJCUSPARSE, &gpus));
        PetscCall(ComplainIf(its[type][level] > (gpus ? 13.0 : 1.4 * its[type][0] + 2.0),
                             "%s, %s: %" INT " iterations, %" INT " with 16 points", types[type], kinds[kind], its[type][level],
                             its[type][0]));
        PetscCall(KSPDestroy(&ksp));
      }
      PetscCall(DestroyAll(&b, &x, &A));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Difficult matrices of many and of few rows: each solve converges to the true solution */
static PetscErrorCode TestKinds(void)
{
  const PetscInt few[] = {1, 2, 3, 5, 12, 50};

  PetscFunctionBeginUser;
  for (int s = -1; s < (int)PETSC_STATIC_ARRAY_LENGTH(few); s++) {
    for (Kind kind = s < 0 ? CUBE_CENTRAL : TRIDIAGONAL; kind < KINDS; kind++) {
      const PetscBool grid = (PetscBool)((kind >= FIVE && kind <= BLOCKS3) || kind == POSITIVE);
      const PetscInt  cube = kind <= CUBE_ROUGH || kind == TWENTYSEVEN, size = s >= 0 ? (grid ? 1 + few[s] % 5 : few[s])
                                                                             : cube   ? 12
                                                                             : grid   ? 40
                                                                                      : 1500;
      PetscInt        levels, rows, coarser, its;
      PetscBool       gpus;
      char            what[80];
      PetscErrorCode  ierr;
      Mat             A, coarse;
      Vec             b, x;
      KSP             ksp, second;
      PC              pc;

      PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %" INT, kinds[kind], size));
      PetscCall(KindCreate(kind, size, &A));
      PetscCall(SystemFor(A, &b, &x));
      PetscCall(SolverFor(A, kind % 2 ? KSPFGMRES : KSPIDRS, NULL, &ksp));
      if (kind == ZERO_DIAGONAL && s >= 0) {
        PetscCall(DestroyAll(&ksp, &b, &x, &A));
        continue; /* see TestZeroDiagonal() */
      }
      Try(ierr, KSPSolve(ksp, b, x));
      if (ierr) PetscCall(Complain("%s: error \"%s\"", what, message));
      else {
        PetscCall(CheckSolved(what, ksp, A, b, x));
        PetscCall(KSPGetPC(ksp, &pc));
        PetscCall(PCMGGetLevels(pc, &levels));
        PetscCall(MatGetSize(A, &rows, NULL));
        PetscCall(KSPGetIterationNumber(ksp, &its));
        /* on several GPUs each process has all levels of up to 20 000 rows, in PCREDUNDANT */
        PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJCUSPARSE, &gpus));
        if (kind <= EMPTY)
          PetscCall(ComplainIf((levels > 1) != (rows > (gpus ? 20000 : 600)), "%s: %" INT " levels", what, levels));
        if (kind == GROWING && levels > 1) { /* each row has the strongest coupling to the next one */
          PetscCall(PCMGGetSmoother(pc, levels - 2, &second));
          PetscCall(KSPGetOperators(second, &coarse, NULL));
          PetscCall(MatGetSize(coarse, &coarser, NULL));
          PetscCall(ComplainIf(coarser > 0.4 * rows, "%s: %" INT " rows on the second level", what, coarser));
        }
        PetscCall(CheckLevels(what, ksp));
        PetscCall(CheckAsOnHost(what, ksp, A));
      }
      PetscCall(DestroyAll(&ksp, &b, &x, &A));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Layouts of the rows, with processes without rows */
static PetscErrorCode TestLayouts(void)
{
  PetscFunctionBeginUser;
  for (Layout layout = LAYOUT_EVEN; layout < LAYOUTS; layout++) {
    for (PetscInt m = 2; m < 65; m += 31) {
      PetscInt local, its;
      Mat      A;
      Vec      b, x;
      KSP      ksp;

      PetscCall(LayoutSize(PETSC_COMM_WORLD, layout, m * m, &local));
      PetscCall(KindCreateLocal(FIVE, m, local, &A));
      PetscCall(SystemFor(A, &b, &x));
      PetscCall(SolverFor(A, KSPIDRS, NULL, &ksp));
      PetscCall(SolveSystem("layout", ksp, A, b, x));
      PetscCall(KSPGetIterationNumber(ksp, &its));
      PetscCall(ComplainIf(its > 20, "layout %d, %" INT " points: %" INT " iterations", (int)layout, m, its));
      PetscCall(CheckLevels("layout", ksp));
      PetscCall(DestroyAll(&ksp, &b, &x, &A));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that a solver has the solution of a new solver, bit by bit, and of one solve after the other */
static PetscErrorCode CheckAsNew(const char what[], KSP ksp, Mat A, Vec b)
{
  KSPType   type;
  PetscBool same;
  Vec       x, y, z;
  KSP       fresh;

  PetscFunctionBeginUser;
  PetscCall(DuplicateAll(b, &x, &y, &z));
  PetscCall(KSPGetType(ksp, &type));
  PetscCall(SolverFor(A, type, NULL, &fresh));
  PetscCall(SolveSystem(what, ksp, A, b, x));
  PetscCall(KSPSolve(fresh, b, y));
  PetscCall(KSPSolve(ksp, b, z));
  PetscCall(VecEqual(x, y, &same));
  PetscCall(ComplainIf(!same, "%s: not the bits of a new solver", what));
  PetscCall(VecEqual(x, z, &same));
  PetscCall(ComplainIf(!same, "%s: a second solve has other bits", what));
  PetscCall(CheckLevels(what, ksp));
  PetscCall(DestroyAll(&x, &y, &z, &fresh));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* One solver for changing matrices */
static PetscErrorCode TestChanges(void)
{
  PetscInt  begin, end, its, levels;
  PetscBool same;
  Mat       A, B;
  Vec       b, c, d, x, y;
  KSP       ksp, smoother;
  PC        pc, poly;

  PetscFunctionBeginUser;
  PetscCall(KindCreate(FIVE, 40, &A));
  PetscCall(SystemFor(A, &b, &x));
  PetscCall(DuplicateAll(b, &d, &y));
  PetscCall(SolverFor(A, KSPIDRS, NULL, &ksp));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(CheckAsNew("first", ksp, A, b));
  /* new values, whose aggregates are the same */
  PetscCall(MatScale(A, 4.0));
  PetscCall(CheckAsNew("new values", ksp, A, b));
  PetscCall(MatScale(A, PETSC_SQRT_MACHINE_EPSILON)); /* every pivot is now smaller than the old limit */
  PetscCall(CheckAsNew("small values", ksp, A, b));
  PetscCall(MatScale(A, 1 / PETSC_SQRT_MACHINE_EPSILON));
  PetscCall(VecSetGeneral(d, 0.7));
  PetscCall(VecPointwiseMult(d, d, d));
  PetscCall(VecAbs(d));
  PetscCall(VecShift(d, 0.1));
  PetscCall(MatScale(A, 3.0));
  PetscCall(MatDiagonalSet(A, d, ADD_VALUES));
  PetscCall(SolveSystem("new values", ksp, A, b, x)); /* pairs of a new solver may differ */
  PetscCall(CheckLevels("new values", ksp));
  /* the couplings of each third row vanish */
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  {
    IS rows;

    PetscCall(ISCreateStride(PETSC_COMM_WORLD, (end - begin) / 3, begin, 3, &rows));
    PetscCall(MatSetOption(A, MAT_KEEP_NONZERO_PATTERN, PETSC_TRUE));
    PetscCall(MatZeroRowsIS(A, rows, 1.0, NULL, NULL));
    PetscCall(SolveSystem("vanishing couplings", ksp, A, b, x));
    PetscCall(ISDestroy(&rows));
  }
  /* couplings vanish and come back: the aggregates are made of the zeros */
  PetscCall(MatDestroy(&A));
  PetscCall(KindCreate(FIVE, 40, &A));
  PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &B));
  PetscCall(MatZeroEntries(A));
  PetscCall(MatShift(A, 1.0));
  PetscCall(ResetWith(ksp, A));
  PetscCall(SolveSystem("no couplings", ksp, A, b, x));
  PetscCall(MatCopy(B, A, SAME_NONZERO_PATTERN));
  PetscCall(SolveSystem("couplings again", ksp, A, b, x));
  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(ComplainIf(its > 20, "couplings again: %" INT " iterations", its));
  PetscCall(MatDestroy(&B));
  /* the same system with other matrices, patterns and sizes; the first ones are destroyed */
  for (int reset = 0; reset < 3; reset++) {
    const Kind order[] = {NINE, ANISOTROPIC, DIAGONAL, FIVE};

    for (int k = 0; k < 4; k++) {
      PetscCall(MatDestroy(&A));
      PetscCall(KindCreate(order[k], order[k] == DIAGONAL ? 1600 : 40, &A));
      if (reset == 1) PetscCall(KSPReset(ksp));
      if (reset == 2) PetscCall(PCReset(pc));
      PetscCall(KSPSetOperators(ksp, A, A));
      PetscCall(CheckAsNew(kinds[order[k]], ksp, A, b));
    }
  }
  for (PetscInt m = 50; m > 4; m -= 15) {
    PetscCall(KindCreate(FIVE, m, &B));
    PetscCall(SystemFor(B, &c, NULL));
    PetscCall(ResetWith(ksp, B));
    PetscCall(CheckAsNew("other size", ksp, B, c));
    PetscCall(DestroyAll(&B, &c));
  }
  /* Amat is not Pmat */
  PetscCall(KindCreate(FIVE, 40, &B));
  PetscCall(MatScale(B, 7.0));
  PetscCall(MatShift(B, 0.1));
  PetscCall(KSPReset(ksp));
  PetscCall(KSPSetOperators(ksp, A, B));
  PetscCall(SolveSystem("Amat is not Pmat", ksp, A, b, x));
  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(ComplainIf(its > 18, "Amat is not Pmat: %" INT " iterations", its));
  PetscCall(CheckLevels("Amat is not Pmat", ksp));
  PetscCall(MatDestroy(&B));
  PetscCall(KSPSetOperators(ksp, A, A));
  /* a smoother that the program changes between solves, without new operators */
  PetscCall(PCMGGetLevels(pc, &levels));
  PetscCall(PCMGGetSmoother(pc, levels - 1, &smoother));
  PetscCall(KSPGetPC(smoother, &poly));
  PetscCall(SolveSystem("before another degree", ksp, A, b, x));
  PetscCall(PCPolySetDegree(poly, 6));
  PetscCall(SolveSystem("another degree", ksp, A, b, x));
  /* another type and back, and a preconditioner that is kept */
  PetscCall(PCSetType(pc, PCGAMG));
  PetscCall(SolveSystem("gamg", ksp, A, b, x));
  PetscCall(PCSetType(pc, PCAGGREGATION));
  PetscCall(CheckAsNew("type again", ksp, A, b));
  PetscCall(PCSetType(pc, PCJACOBI));
  PetscCall(PCSetType(pc, PCAGGREGATION));
  PetscCall(CheckAsNew("type again", ksp, A, b));
  PetscCall(PCApply(pc, b, x));
  PetscCall(KSPSetReusePreconditioner(ksp, PETSC_TRUE));
  PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &B));
  PetscCall(MatShift(B, 0.5));
  PetscCall(KSPSetOperators(ksp, B, B));
  PetscCall(SolveSystem("kept", ksp, B, b, y));
  PetscCall(MatDestroy(&A));
  PetscCall(PCApply(pc, b, y));
  PetscCall(VecEqual(x, y, &same));
  PetscCall(KSPSetReusePreconditioner(ksp, PETSC_FALSE));
  PetscCall(CheckAsNew("no longer kept", ksp, B, b));
  PetscCall(DestroyAll(&B, &ksp, &b, &d, &x, &y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Many rows: on a GPU the matrix of the first coarse level is a MATSHELL, unless options need a type of PETSc */
static PetscErrorCode TestLarge(void)
{
  const char *const options[] = {"", "-mg_levels_ksp_type chebyshev -mg_levels_pc_type jacobi", "-mg_levels_ksp_type gmres",
                                 "-mg_levels_pc_poly_scaling matching -pc_mg_distinct_smoothup"};
  Mat               A, T;
  Vec               b, x;

  PetscFunctionBeginUser;
  PetscCall(KindCreate(FIVE, 460, &A));
  PetscCall(SystemFor(A, &b, &x));
  for (size_t o = 0; o < PETSC_STATIC_ARRAY_LENGTH(options); o++) {
    KSP ksp;

    PetscCall(SolverFor(A, o == 2 ? KSPFGMRES : KSPIDRS, options[o], &ksp));
    for (int pass = 0; pass < 2; pass++) {
      PetscCall(SolveSystem(options[o], ksp, A, b, x));
      PetscCall(CheckLevels(options[o], ksp));
      if (!o) PetscCall(CheckAsOnHost("large", ksp, A));
      PetscCall(MatScale(A, 2.0));
    }
    if (!o) {
      PetscCall(KSPSolveTranspose(ksp, b, x));
      PetscCall(MatTranspose(A, MAT_INITIAL_MATRIX, &T));
      PetscCall(CheckSolved("transposed", ksp, T, b, x));
      PetscCall(MatDestroy(&T));
    }
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&b, &x, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Few rows with a zero diagonal entry: the direct solver of the coarsest level solves them, on any number of processes */
static PetscErrorCode TestZeroDiagonal(void)
{
  PetscFunctionBeginUser;
  EndAfter(100);
  for (PetscInt n = 3; n < 51; n += 47) {
    PetscErrorCode ierr;
    Mat            A;
    Vec            b, x;
    KSP            ksp;

    PetscCall(KindCreate(ZERO_DIAGONAL, n, &A));
    PetscCall(SystemFor(A, &b, &x));
    PetscCall(SolverFor(A, KSPIDRS, NULL, &ksp));
    Try(ierr, KSPSolve(ksp, b, x));
    if (ierr) PetscCall(Complain("%" INT " rows: error \"%s\"", n, message));
    else PetscCall(CheckSolved("zero diagonal", ksp, A, b, x));
    PetscCall(DestroyAll(&ksp, &b, &x, &A));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestGrowth, "numbers of iterations"}, {TestKinds, "kinds of matrices"}, {TestLayouts, "layouts"},
          {TestChanges, "changes"}, {TestLarge, "many rows"}, {TestZeroDiagonal, "a zero diagonal entry"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 2 3}}
    args: -malloc_dump

TEST*/
