static char help[] = "PCAGGREGATION: options, types of matrices, and other solves.\n\n";

#include "aggregation.h"
#include "columns.h"

/* Options, with a line of the view that shows them, and how often */
static const struct {
  const char *options, *line;
  PetscInt    lines;
} settings[] = {
  {"",                                                     "degree 4",                    2},
  {"",                                                     "cycles=w",                    1},
  {"",                                                     "aggregates: boxes of a grid", 2},
  {"",                                                     "rows, ",                      3},
  {"-mg_levels_pc_poly_degree 6",                          "degree 6",                    2},
  {"-mg_levels_2_pc_poly_degree 6",                        "degree 6",                    1},
  {"-mg_levels_ksp_type gmres",                            "type: gmres",                 2},
  {"-mg_levels_pc_type sor -mg_levels_ksp_type chebyshev", "type: sor",                   2},
  {"-pc_mg_cycle_type v",                                  "cycles=v",                    1},
  {"-mg_coarse_pc_type jacobi -mg_coarse_ksp_type gmres",  "type: jacobi",                1},
  {"-pc_mg_distinct_smoothup",                             "degree 4",                    4},
  {"-pc_mg_type full",                                     "type is FULL",                1},
  {"-pc_mg_type additive",                                 "type is ADDITIVE",            1},
  {"-pc_mg_type kaskade",                                  "type is KASKADE",             1},
  {"-pc_mg_galerkin both",                                 "rows, ",                      3},
  {"-pc_mg_multiplicative_cycles 2",                       "rows, ",                      3},
};

/* On several GPUs each process has all levels of up to 20 000 rows, so there is one level, and PCREDUNDANT */
static PetscErrorCode CheckLevelsView(KSP ksp, const char line[], PetscInt lines)
{
  PetscBool gpus;
  Mat       A;

  PetscFunctionBeginUser;
  PetscCall(KSPGetOperators(ksp, &A, NULL));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJCUSPARSE, &gpus));
  if (!gpus) PetscCall(CheckView(ksp, line, lines));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestOptions(void)
{
  PetscOptions   database;
  PetscErrorCode ierr;
  PetscMPIInt    rank, size;
  PetscBool      cuda;
  Mat            A;
  Vec            b, x;
  KSP            ksp, second;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &size));
  PetscCall(KindCreate(FIVE, 60, &A));
  PetscCall(SystemFor(A, &b, &x));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJCUSPARSE, &cuda));
  for (size_t s = 0; s < PETSC_STATIC_ARRAY_LENGTH(settings); s++) {
    Try(ierr, SolverFor(A, KSPFGMRES, settings[s].options, &ksp));
    if (ierr) {
      PetscCall(Complain("%s: error \"%s\"", settings[s].options, message));
      continue;
    }
    PetscCall(SolveSystem(settings[s].options, ksp, A, b, x));
    PetscCall(CheckLevelsView(ksp, settings[s].line, settings[s].lines));
    PetscCall(MatScale(A, 2.0));
    PetscCall(SolveSystem(settings[s].options, ksp, A, b, x));
    PetscCall(CheckLevelsView(ksp, settings[s].line, settings[s].lines));
    PetscCall(KSPDestroy(&ksp));
  }
  /* two solvers, one with a prefix; and options without KSPSetFromOptions() */
  PetscCall(OptionsPush("-in_mg_levels_pc_poly_degree 3 -in_pc_mg_cycle_type v -pc_mg_cycle_type v", &database));
  PetscCall(SolverFor(A, KSPFGMRES, NULL, &ksp));
  PetscCall(SolverFor(A, KSPFGMRES, NULL, &second));
  PetscCall(KSPSetOptionsPrefix(second, "in_"));
  PetscCall(CheckView(second, "type: aggregation", 1)); /* before the set-up */
  PetscCall(KSPSetFromOptions(second));
  PetscCall(SolveSystem("without options", ksp, A, b, x));
  PetscCall(SolveSystem("with a prefix", second, A, b, x));
  PetscCall(CheckLevelsView(ksp, "cycles=w", 1));
  PetscCall(CheckLevelsView(second, "degree 3", 2));
  PetscCall(CheckLevelsView(second, "cycles=v", 1));
  PetscCall(CheckViewLines("view", (PetscObject)second));
  PetscCall(OptionsPop(&database));
  /* the solver of the coarsest level of a small matrix */
  PetscCall(MatDestroy(&A));
  PetscCall(KindCreate(FIVE, 12, &A));
  PetscCall(ResetWith(ksp, A));
  PetscCall(KSPSetUp(ksp));
  PetscCall(CheckLevelsView(ksp, cuda ? "inverse of the matrix" : "type: lu", 1));
  PetscCall(DestroyAll(&ksp, &second, &b, &x, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Types of matrices, null spaces, NaN, and other solves */
static PetscErrorCode TestTypes(void)
{
  const char *const  types[] = {MATBAIJ, MATSELL, MATDENSE, MATSBAIJ, MATAIJSTREAM, MATMPIAIJ};
  KSPConvergedReason reason;
  MatNullSpace       space;
  PetscErrorCode     ierr;
  PetscInt           begin, end, its;
  Mat                A, B, X;
  Vec                b, x, c, y, ones;
  KSP                ksp;
  PetscMPIInt        rank, size;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &size));
  PetscCall(KindCreate(FIVE, 25, &A));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(DuplicateAll(b, &c, &y, &ones));
  PetscCall(VecSetGeneral(b, 1.0));
  PetscCall(VecSetGeneral(c, 0.3));
  for (size_t t = 0; t < PETSC_STATIC_ARRAY_LENGTH(types); t++) {
    /* MatConvert() of PETSc 3.18 refuses this type with debugging; MatPtAP() of 3.21 ends with a segmentation fault after it */
    if (size > 1 && !strcmp(types[t], MATSELL) && PETSC_VERSION_LT(3, 26, 0) &&
        (PETSC_VERSION_GE(3, 19, 0) || PetscDefined(USE_DEBUG)))
      continue;
    PetscCall(MatSetOption(A, MAT_SYMMETRIC, PETSC_TRUE));
    PetscCall(MatConvert(A, types[t], MAT_INITIAL_MATRIX, &B));
    PetscCall(SolverFor(B, KSPFGMRES, NULL, &ksp));
    for (int changed = 0; changed < 2; changed++) {
      Try(ierr, KSPSolve(ksp, b, x));
      if (ierr) {
        PetscCall(Complain("%s: error \"%s\"", types[t], message));
        break;
      } else PetscCall(CheckSolved(types[t], ksp, B, b, x));
      PetscCall(KSPGetIterationNumber(ksp, &its));
      PetscCall(ComplainIf(its > 15, "%s: %" INT " iterations", types[t], its));
      PetscCall(MatScale(B, 2.0));
    }
    PetscCall(DestroyAll(&ksp, &B));
  }
  PetscCall(ShellCreate(A, PassMult, A, &B));
  PetscCall(SolverFor(B, KSPFGMRES, NULL, &ksp));
  Try(ierr, KSPSolve(ksp, b, x)); /* newer versions of PETSc convert it */
  if (ierr) PetscCall(CheckError(ierr, "shell", "shell", ""));
  else PetscCall(CheckSolved("shell", ksp, A, b, x));
  PetscCall(KSPReset(ksp));
  PetscCall(KSPSetOperators(ksp, B, A));
  PetscCall(Unlock(b));
  PetscCall(SolveSystem("shell as Amat", ksp, B, b, x));
  PetscCall(MatDestroy(&B));
  PetscCall(ResetWith(ksp, A));
  /* several right-hand sides, and the transpose */
  PetscCall(BlockCreate(A, 3, &B));
  PetscCall(BlockCreate(A, 3, &X));
  for (int j = 0; j < 3; j++) PetscCall(ColumnSet(B, j, j == 1 ? c : b));
  Try(ierr, KSPMatSolve(ksp, B, X));
  if (ierr) PetscCall(Complain("KSPMatSolve: error \"%s\"", message));
  for (int j = 0; j < 3 && !ierr; j++) {
    PetscCall(ColumnGet(X, j, x));
    PetscCall(CheckSolved("KSPMatSolve", ksp, A, j == 1 ? c : b, x));
  }
  PetscCall(DestroyAll(&B, &X));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(KindCreate(BLOCKS2, 25, &B));
  {
    Vec bt, xt;

    PetscCall(SystemFor(B, &bt, &xt));
    PetscCall(SolverFor(B, KSPGMRES, NULL, &ksp));
    PetscCall(KSPSetPCSide(ksp, PC_LEFT));
    PetscCall(KSPSetTolerances(ksp, 1e-10, 0.0, PETSC_DEFAULT, 200));
    Try(ierr, KSPSolveTranspose(ksp, bt, xt));
    if (ierr) PetscCall(CheckError(ierr, "KSPSolveTranspose", "ranspose", ""));
    else {
      PetscCall(MatTranspose(B, MAT_INITIAL_MATRIX, &X));
      PetscCall(CheckSolved("transpose", ksp, X, bt, xt));
      PetscCall(MatDestroy(&X));
    }
    PetscCall(DestroyAll(&ksp, &B, &bt, &xt));
  }
  /* the rows have the sum zero */
  PetscCall(VecSet(ones, 1.0));
  PetscCall(MatMult(A, ones, y));
  PetscCall(VecScale(y, -1.0));
  PetscCall(MatDiagonalSet(A, y, ADD_VALUES));
  PetscCall(MatNullSpaceCreate(PETSC_COMM_WORLD, PETSC_TRUE, 0, NULL, &space));
  for (int near = 0; near < 2; near++) {
    const char *const outer[] = {KSPIDRS, KSPGMRES, KSPFGMRES};

    if (near) PetscCall(MatSetNearNullSpace(A, space));
    PetscCall(MatSetNullSpace(A, space));
    PetscCall(VecCopy(b, c));
    PetscCall(MatNullSpaceRemove(space, c));
    for (int o = 0; o < 3; o++) {
      PetscCall(SolverFor(A, outer[o], NULL, &ksp));
      PetscCall(SolveSystem("null space", ksp, A, c, x));
      PetscCall(KSPGetIterationNumber(ksp, &its));
      PetscCall(ComplainIf(its > 20, "null space, %s: %" INT " iterations", outer[o], its));
      PetscCall(KSPDestroy(&ksp));
    }
  }
  PetscCall(MatNullSpaceDestroy(&space));
  /* a NaN on or off the diagonal, in the first matrix or later */
  for (int place = 0; place < 4; place++) {
    PetscCall(KindCreate(FIVE, 25, &B));
    PetscCall(SolverFor(B, place % 2 ? KSPGMRES : KSPIDRS, NULL, &ksp));
    if (place > 1) PetscCall(KSPSolve(ksp, b, x));
    PetscCall(MatGetOwnershipRange(B, &begin, &end));
    if (begin <= 37 && 37 < end) PetscCall(MatSetValue(B, 37, 37 + place % 2, (PetscReal)NAN, INSERT_VALUES));
    PetscCall(MatAssemble(B));
    Try(ierr, KSPSolve(ksp, b, x));
    PetscCall(ComplainIf(ierr, "NaN: error \"%s\"", message));
    PetscCall(KSPGetConvergedReason(ksp, &reason));
    PetscCall(
      ComplainIf(reason != KSP_DIVERGED_NANORINF && reason != KSP_DIVERGED_PC_FAILED, "NaN: %s", KSPConvergedReasons[reason]));
    PetscCall(KindCreate(FIVE, 25, &X));
    PetscCall(MatCopy(X, B, SAME_NONZERO_PATTERN));
    PetscCall(KSPSetOperators(ksp, B, B));
    PetscCall(SolveSystem("after a NaN", ksp, B, b, x));
    PetscCall(DestroyAll(&ksp, &B, &X));
  }
  PetscCall(DestroyAll(&A, &b, &x, &c, &y, &ones));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Inputs that once ended the program */
static PetscErrorCode TestFatal(void)
{
  PetscErrorCode ierr;
  Mat            A, B;
  Vec            b, x;
  KSP            ksp;

  PetscFunctionBeginUser;
  EndAfter(100);
  PetscCall(KindCreate(FIVE, 60, &A));
  PetscCall(SystemFor(A, &b, &x));
  /* PCAGGREGATION chooses the number of levels */
  Try(ierr, SolverFor(A, KSPFGMRES, "-pc_mg_levels 2", &ksp));
  if (!ierr) Try(ierr, KSPSolve(ksp, b, x));
  if (ierr) PetscCall(CheckError(ierr, "number of levels", "pc_mg_levels", ""));
  else PetscCall(CheckSolved("number of levels", ksp, A, b, x));
  PetscCall(KSPDestroy(&ksp));
  /* MatConvert() of PETSc with MAT_REUSE_MATRIX destroys a matrix of this type */
  PetscCall(MatConvert(A, MATAIJPERM, MAT_INITIAL_MATRIX, &B));
  PetscCall(SolverFor(B, KSPFGMRES, NULL, &ksp));
  PetscCall(Unlock(b));
  PetscCall(SolveSystem(MATAIJPERM, ksp, B, b, x));
  PetscCall(MatScale(B, 2.0));
  PetscCall(SolveSystem(MATAIJPERM, ksp, B, b, x));
  PetscCall(DestroyAll(&ksp, &b, &x, &A, &B));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A system with two or more levels, one solve, and x = B^{-1}b. GPUs visit levels of at most 20 000 rows inside PCREDUNDANT */
static PetscErrorCode LevelsCreate(const char what[], Mat *A, Vec *b, Vec *x, Vec *y, KSP *ksp, PC *pc, PetscInt *levels)
{
  PetscFunctionBeginUser;
  PetscCall(KindCreate(FIVE, 150, A));
  PetscCall(SystemFor(*A, b, x));
  PetscCall(VecDuplicate(*x, y));
  PetscCall(SolverFor(*A, KSPFGMRES, NULL, ksp));
  PetscCall(SolveSystem(what, *ksp, *A, *b, *x));
  PetscCall(KSPGetPC(*ksp, pc));
  PetscCall(PCApply(*pc, *b, *x));
  PetscCall(PCMGGetLevels(*pc, levels));
  PetscCall(ComplainIf(*levels < 2, "%s: %" INT " levels", what, *levels));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A restriction of the program takes effect at the next set-up */
static PetscErrorCode TestRestriction(void)
{
  PetscInt  levels;
  PetscBool aij, same;
  Mat       A, P, R;
  Vec       b, x, y;
  PC        pc;
  KSP       ksp;

  PetscFunctionBeginUser;
  PetscCall(LevelsCreate("restriction of aggregates", &A, &b, &x, &y, &ksp, &pc, &levels));
  PetscCall(PCMGGetInterpolation(pc, levels - 1, &P));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)P, &aij, MATSEQAIJ, MATMPIAIJ, ""));
  if (aij) {
    PetscCall(MatDuplicate(P, MAT_COPY_VALUES, &R));
    PetscCall(MatScale(R, 0.5));
    PetscCall(PCMGSetRestriction(pc, levels - 1, R));
    PetscCall(PetscObjectStateIncrease((PetscObject)A));
    PetscCall(SolveSystem("restriction of the program", ksp, A, b, y));
    PetscCall(PCApply(pc, b, y));
    PetscCall(VecEqual(x, y, &same));
    PetscCall(ComplainIf(same, "a restriction of the program has no effect"));
    PetscCall(MatDestroy(&R));
  } else PetscCall(Skip("levels on a GPU have no matrix of type aij"));
  PetscCall(DestroyAll(&ksp, &b, &x, &y, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* On a GPU levels are of type shell, whose duplicates have the same arrays */
static PetscErrorCode TestDuplicates(void)
{
  PetscInt  levels, level;
  PetscBool same;
  Mat       A, M[2], copy;
  Vec       b, x, y, z, v, w;
  PC        pc;
  KSP       ksp, smoother;

  PetscFunctionBeginUser;
  PetscCall(LevelsCreate("duplicates of levels", &A, &b, &x, &y, &ksp, &pc, &levels));
  for (level = 1; level < levels; level++) {
    PetscCall(PCMGGetInterpolation(pc, level, &M[0]));
    PetscCall(PCMGGetSmoother(pc, level - 1, &smoother));
    PetscCall(KSPGetOperators(smoother, &M[1], NULL));
    for (PetscInt m = 0; m < 2; m++) {
      PetscCall(MatDuplicate(M[m], MAT_COPY_VALUES, &copy));
      PetscCall(MatCreateVecs(M[m], &z, &v));
      PetscCall(VecDuplicate(v, &w));
      PetscCall(VecSetRandom(z, NULL));
      PetscCall(MatMult(M[m], z, v));
      PetscCall(MatMult(copy, z, w));
      PetscCall(VecEqual(v, w, &same));
      PetscCall(ComplainIf(!same, "level %" INT ": the product with a duplicate differs", level));
      PetscCall(DestroyAll(&copy, &z, &v, &w));
    }
  }
  PetscCall(PCApply(pc, b, y));
  PetscCall(VecEqual(x, y, &same));
  PetscCall(ComplainIf(!same, "the preconditioner changes with the end of duplicates"));
  PetscCall(DestroyAll(&ksp, &b, &x, &y, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestOptions, "options"}, {TestTypes, "types of matrices"}, {TestFatal, "inputs that ended the program"},
          {TestRestriction, "a restriction of the program"}, {TestDuplicates, "duplicates of levels"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 2 3}}
    args: -malloc_dump

TEST*/
