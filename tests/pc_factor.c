static char help[] = "MATSOLVERPETSCIDRS in PCILU, PCLU, PCBJACOBI and PCASM, compared with PETSc's own package with the same\n\
options; with several solvers, transposed, with many right-hand sides, and with values and patterns that\n\
change.\n\n";

#include "columns.h"

static const char *const setups[] = {"-pc_type ilu -pc_factor_levels 0",
                                     "-pc_type ilu -pc_factor_levels 2 -pc_factor_mat_ordering_type rcm",
                                     "-pc_type ilu -pc_factor_nonzeros_along_diagonal -pc_factor_diagonal_fill",
                                     "-pc_type lu -pc_factor_mat_ordering_type rcm -pc_factor_reuse_fill",
                                     "-pc_type bjacobi -pc_bjacobi_local_blocks 3 -sub_pc_type lu",
                                     "-pc_type asm -pc_asm_overlap 2 -sub_pc_type ilu -sub_pc_factor_levels 1"};
#define SETUPS   PETSC_STATIC_ARRAY_LENGTH(setups)
#define ONE_ONLY 4 /* the ones before are for one process */

/* Creates a preconditioner with options of its own, and this package */
static PetscErrorCode SolverWith(Mat A, const char type[], const char setup[], const char package[], KSP *ksp)
{
  PetscOptions options;
  char         string[512];
  PC           pc;

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(string, sizeof(string), "%s -pc_factor_mat_solver_type %s -sub_pc_factor_mat_solver_type %s", setup,
                          package, package));
  PetscCall(OptionsPush(string, &options));
  PetscCall(KSPCreate(PetscObjectComm((PetscObject)A), ksp));
  PetscCall(KSPSetOperators(*ksp, A, A));
  PetscCall(KSPSetType(*ksp, type));
  PetscCall(KSPSetPCSide(*ksp, PC_RIGHT));
  PetscCall(KSPSetTolerances(*ksp, rtol, PETSC_DEFAULT, PETSC_DEFAULT, 500));
  PetscCall(KSPGetPC(*ksp, &pc));
  PetscCall(KSPSetFromOptions(*ksp));
  PetscCall(KSPSetUp(*ksp));
  PetscCall(KSPSetUpOnBlocks(*ksp));
  /* a second time, when the package of the factor must have the name that is set; PCBJACOBI would lose memory */
  if (!strstr(setup, "bjacobi")) PetscCall(PCSetFromOptions(pc));
  PetscCall(OptionsPop(&options));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that applications, transposed applications and applications to columns are PETSc's */
static PetscErrorCode CompareApplications(const char what[], KSP ours, KSP theirs, Vec b)
{
  const PetscInt columns = 5;
  PC             mine, other;
  Vec            x, y, z;
  Mat            A, B, X;

  PetscFunctionBeginUser;
  PetscCall(KSPGetOperators(ours, &A, NULL));
  PetscCall(KSPGetPC(ours, &mine));
  PetscCall(KSPGetPC(theirs, &other));
  PetscCall(DuplicateAll(b, &x, &y, &z));
  PetscCall(PCApplyTranspose(mine, b, x));
  PetscCall(PCApplyTranspose(other, b, y));
  PetscCall(CheckClose(what, x, y, 1e4 * PETSC_MACHINE_EPSILON));
  PetscCall(BlocksCreate(A, columns, BLOCK_RANDOM, &B, &X));
  PetscCall(PCMatApply(mine, B, X));
  for (PetscInt c = 0; c < columns; c++) {
    PetscCall(ColumnGet(B, c, z));
    PetscCall(PCApply(other, z, y));
    PetscCall(ColumnGet(X, c, x));
    PetscCall(CheckClose(what, x, y, 1e4 * PETSC_MACHINE_EPSILON));
  }
  PetscCall(PCApply(mine, z, x));
  PetscCall(CheckClose(what, x, y, 1e4 * PETSC_MACHINE_EPSILON));
  PetscCall(DestroyAll(&X, &B, &z, &y, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Checks that solves converge, in about as many iterations as with PETSc's package. larger: allowed norm of b - A x, relative to
   the tolerance
*/
static PetscErrorCode CompareSolves(const char what[], KSP ours, KSP theirs, Vec b, PetscReal larger)
{
  const PetscReal tolerance = rtol;
  PetscInt        its[2];
  Vec             x;
  Mat             A;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(b, &x));
  PetscCall(KSPSolve(theirs, b, x));
  PetscCall(KSPGetIterationNumber(theirs, &its[1]));
  PetscCall(KSPSolve(ours, b, x));
  PetscCall(KSPGetIterationNumber(ours, &its[0]));
  PetscCall(KSPGetOperators(ours, &A, NULL));
  rtol *= larger;
  PetscCall(CheckSolved(what, ours, A, b, x));
  rtol = tolerance;
  PetscCall(
    ComplainIf(PetscAbsInt(its[0] - its[1]) > 1 + its[1] / 10, "%s: %" INT " iterations instead of %" INT, what, its[0], its[1]));
  PetscCall(VecDestroy(&x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestSolvers(void)
{
  const char *const types[]   = {KSPGMRES, KSPIDRS};
  const char *const changes[] = {"first values", "other values", "another pattern", "another matrix"};
  PetscMPIInt       size;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  for (size_t is = size > 1 ? ONE_ONLY : 0; is < SETUPS; is++) {
    for (size_t it = 0; it < PETSC_STATIC_ARRAY_LENGTH(types); it++) {
      Mat  A;
      Vec  b;
      KSP  ours, theirs;
      char what[256];

      PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 14, 0.8, LAYOUT_EVEN, &A, &b));
      PetscCall(SolverWith(A, types[it], setups[is], MATSOLVERPETSCIDRS, &ours));
      PetscCall(SolverWith(A, types[it], setups[is], MATSOLVERPETSC, &theirs));
      for (PetscInt change = 0; change < 4; change++) {
        if (change == 1) PetscCall(MatScale(A, 2.0));
        if (change == 2) {
          PetscInt begin, end;

          PetscCall(MatGetOwnershipRange(A, &begin, &end));
          PetscCall(MatSetOption(A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
          if (end - begin > 5) PetscCall(MatSetValue(A, begin, begin + 4, -0.5, INSERT_VALUES));
          PetscCall(MatAssemble(A));
        }
        if (change == 3) { /* the first pattern */
          PetscCall(MatDestroy(&A));
          PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, 14, 0.3, 0.3, &A));
          PetscCall(KSPSetOperators(ours, A, A));
          PetscCall(KSPSetOperators(theirs, A, A));
        }
        PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s, %s", types[it], setups[is], changes[change]));
        PetscCall(CompareSolves(what, ours, theirs, b, 1.0));
        if (it == 0) PetscCall(CompareApplications(what, ours, theirs, b));
      }
      PetscCall(DestroyAll(&theirs, &ours, &b, &A));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Creates a part of a cyclic shift by half of the rows, on each process separately, with a diagonal that is zero in half of the
   rows: ILU needs the exchange of columns
*/
static PetscErrorCode ShiftCreate(Mat *A)
{
  const PetscInt m = 24;
  PetscInt       begin;

  PetscFunctionBeginUser;
  PetscCall(MatCreateRows(PETSC_COMM_WORLD, m, PETSC_DETERMINE, 3, A));
  PetscCall(MatGetOwnershipRange(*A, &begin, NULL));
  for (PetscInt i = 0; i < m; i++) {
    PetscCall(MatSetValue(*A, begin + i, begin + i, i < m / 2 ? 0.0 : 2.0 + 0.1 * (PetscReal)i, INSERT_VALUES));
    PetscCall(MatSetValue(*A, begin + i, begin + (i + m / 2) % m, 1.0, INSERT_VALUES));
    PetscCall(MatSetValue(*A, begin + i, begin + (i + 1) % m, 0.2, INSERT_VALUES));
  }
  PetscCall(MatAssemble(*A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   -pc_factor_nonzeros_along_diagonal, for which PETSc changes the ordering in place. The exchange leaves pivots of 0.2: the
   preconditioner makes vectors up to 400 times as large, so that solves attain no tolerance near to the machine precision, and in
   single precision the norm that gmres reports may be half of the norm of b - A x
*/
static PetscErrorCode TestDiagonal(void)
{
  const char *const pcs[]       = {"-pc_type bjacobi -sub_pc_type ilu -sub_pc_factor_levels 1 -sub_",
                                   "-pc_type ilu -pc_factor_levels 1 -", "-pc_type lu -"};
  const char *const orderings[] = {MATORDERINGNATURAL, MATORDERINGRCM};
  const PetscReal   tolerance   = rtol;
  PetscMPIInt       size;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  rtol = PetscMax(tolerance, 1e5 * PETSC_MACHINE_EPSILON);
  for (size_t ip = 0; ip < (size > 1 ? 1 : PETSC_STATIC_ARRAY_LENGTH(pcs)); ip++) {
    for (size_t io = 0; io < PETSC_STATIC_ARRAY_LENGTH(orderings); io++) {
      Mat  A;
      Vec  b;
      KSP  ours, theirs;
      PC   pc;
      char setup[256];

      PetscCall(PetscSNPrintf(setup, sizeof(setup), "%spc_factor_nonzeros_along_diagonal 0.1 %spc_factor_mat_ordering_type %s",
                              pcs[ip], strrchr(pcs[ip], ' ') + 1, orderings[io]));
      PetscCall(ShiftCreate(&A));
      PetscCall(MatCreateVecs(A, &b, NULL));
      PetscCall(VecSetGeneral(b, 0.3));
      PetscCall(SolverWith(A, KSPGMRES, setup, MATSOLVERPETSCIDRS, &ours));
      PetscCall(SolverWith(A, KSPGMRES, setup, MATSOLVERPETSC, &theirs));
      PetscCall(CompareSolves(setup, ours, theirs, b, 1.9));
      PetscCall(CompareApplications(setup, ours, theirs, b));
      PetscCall(KSPGetPC(ours, &pc));
      PetscCall(CheckViewLines(setup, (PetscObject)pc));
      PetscCall(DestroyAll(&theirs, &ours, &b, &A));
    }
  }
  rtol = tolerance;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A zero pivot ends a solve as with PETSc's package */
static PetscErrorCode TestFailure(void)
{
  KSPConvergedReason reasons[2];
  PCFailedReason     failures[2];
  PetscMPIInt        rank;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  for (PetscInt l = 0; l < 2; l++) {
    const PetscInt zero = 3;
    Mat            A;
    Vec            b, x;
    KSP            ksp;
    PC             pc;

    PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 9, 0.2, LAYOUT_EVEN, &A, &b));
    PetscCall(MatSetOption(A, MAT_KEEP_NONZERO_PATTERN, PETSC_TRUE));
    PetscCall(MatZeroRows(A, rank ? 0 : 1, &zero, 0.0, NULL, NULL));
    PetscCall(VecDuplicate(b, &x));
    PetscCall(SolverWith(A, KSPGMRES, "-pc_type bjacobi -sub_pc_type ilu", l ? MATSOLVERPETSC : MATSOLVERPETSCIDRS, &ksp));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(KSPGetConvergedReason(ksp, &reasons[l]));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(PCGetFailedReason(pc, &failures[l]));
    PetscCall(DestroyAll(&ksp, &x, &b, &A));
  }
  PetscCall(ComplainIf(reasons[0] != reasons[1] || reasons[0] >= 0, "zero pivot: reason %d, with PETSc's package %d",
                       (int)reasons[0], (int)reasons[1]));
  PetscCall(ComplainIf(failures[0] != failures[1], "zero pivot: PC fails by %d, with PETSc's package %d", (int)failures[0],
                       (int)failures[1]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestSolvers, "preconditioners"}, {TestDiagonal, "nonzeros along the diagonal"}, {TestFailure, "zero pivot"})

/*TEST

  # PETSc's own ILU(0) factors copy the functions of a matrix of type aijcusparse, and do not remove these six when they are
  # destroyed, which -checkfunctionlist prints
  test:
    suffix: 1
    nsize: {{1 2}}
    filter: grep -vE "name: Mat(CUSPARSESet(Format|UseCPUSolve)|ProductSetFromOptions_seqaijcusparse_.*|SeqAIJCopySubArray)_C$"

TEST*/
