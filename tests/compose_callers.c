static char help[] = "Small systems that other solvers pass to KSPIDRS: blocks, subdomains and coarse levels of multigrid.\n\
On a GPU the automatic choice is a kernel that makes many iterations; elsewhere the solver runs step by step.\n\n";

#include "systems.h"

#define ROWS (LINE * LINE)

/* Options of a solver, and the number of its idrs solvers on a process that can make many iterations in one kernel */
typedef struct {
  const char *name, *options;
  PetscInt    alone, several; /* on one process, and on each of several */
} Caller;

/* Checks that the expected number of solvers made many iterations in one kernel if the operator is on a GPU, and none otherwise */
static PetscErrorCode CheckRuns(const Caller *caller, KSP ksp)
{
  PetscInt    chosen, made, expected;
  PetscBool   gpu;
  PetscMPIInt size;
  Mat         A;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(KSPGetOperators(ksp, &A, NULL));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &gpu, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
  expected = !gpu ? 0 : (size == 1 ? caller->alone : size * caller->several);
  PetscCall(DetailNumbers((PetscObject)ksp, "run whole ... automatically", 0, NULL, &chosen));
  PetscCall(DetailNumbers((PetscObject)ksp, "matvecs ... kernels, where", 0, NULL, &made));
  PetscCall(ComplainIf(chosen != expected || made != expected,
                       "%s: many iterations in one kernel were chosen by %" INT " solvers and made by %" INT ", and not by %" INT,
                       caller->name, chosen, made, expected));
  PetscFunctionReturn(PETSC_SUCCESS);
}

#define BLOCKS "-ksp_type fgmres -pc_type bjacobi -sub_ksp_type idrs -sub_ksp_rtol 0.01 "

/* Solves twice with each solver, all with the same matrix */
static PetscErrorCode TestCallers(const char subject[], const Caller callers[], size_t count, Entry *entry)
{
  Mat A;
  Vec b, x;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(entry, ROWS, RHS_GENERAL, &A, &b, &x));
  for (size_t i = 0; i < count; i++) {
    PetscOptions options;
    KSP          ksp;

    PetscCall(OptionsPush(callers[i].options, &options));
    PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
    PetscCall(KSPSetOperators(ksp, A, A));
    PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 200));
    PetscCall(KSPSetFromOptions(ksp));
    for (PetscInt solve = 0; solve < 2; solve++) {
      PetscCall(SolveSystem(callers[i].name, ksp, A, b, x));
      PetscCall(CheckRuns(&callers[i], ksp));
    }
    PetscCall(KSPDestroy(&ksp));
    PetscCall(OptionsPop(&options));
  }
  PetscCall(DestroyAll(&x, &b, &A));
  PetscCall(Verdict(subject));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Solvers of parts of a matrix. The domains are ranges of rows: with the default, PTScotch, Debian's PETSc with 64-bit integers ends
   with an error
*/
static PetscErrorCode TestParts(void)
{
  const Caller callers[] = {
    /* clang-format off */
    {"a block for each process", BLOCKS "-sub_pc_type jacobi", 1, 1},
    {"blocks", BLOCKS "-pc_bjacobi_local_blocks 3 -sub_pc_type none", 3, 3},
    {"domains",
     "-ksp_type fgmres -pc_type asm -pc_asm_local_blocks 2 -pc_asm_overlap 2 -sub_ksp_type idrs -sub_ksp_rtol 0.01 "
     "-sub_pc_type jacobi -mat_partitioning_type current", 2, 2},
    {"idrs in idrs",
     "-ksp_type idrs -pc_type bjacobi -pc_bjacobi_local_blocks 2 -sub_ksp_type idrs -sub_ksp_idrs_s 2 -sub_ksp_rtol "
     "0.01 -sub_pc_type jacobi", 2, 2},
    {"PCKSP", "-ksp_type fgmres -pc_type ksp -ksp_ksp_type idrs -ksp_ksp_rtol 0.1 -ksp_pc_type jacobi", 1, 0},
    {"blocks with sor", BLOCKS "-sub_pc_type sor", 0, 0},
    /* clang-format on */
  };

  PetscFunctionBeginUser;
  PetscCall(TestCallers("blocks and domains", callers, PETSC_STATIC_ARRAY_LENGTH(callers), Convection));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* 21 entries per row, no blocks: with a launch of its own, MatMult() is faster than the products of the library */
static PetscScalar Band(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 12.0 : (PetscAbsInt(i - j) > 10 ? 0.0 : ((i + 2 * j) % 3 ? 0.5 : -0.4));
}

static PetscErrorCode TestLongRows(void)
{
  const Caller callers[] = {
    {"long rows",           "-ksp_type idrs -pc_type jacobi",                       1, 0},
    {"blocks of long rows", BLOCKS "-pc_bjacobi_local_blocks 2 -sub_pc_type none",  2, 2},
    {"products by PETSc",   "-ksp_type idrs -pc_type jacobi -ksp_idrs_product mat", 0, 0},
  };

  PetscFunctionBeginUser;
  PetscCall(TestCallers("long rows", callers, PETSC_STATIC_ARRAY_LENGTH(callers), Band));
  PetscFunctionReturn(PETSC_SUCCESS);
}

#define LEVELS "-ksp_type fgmres -pc_type mg -pc_mg_levels 3 -mg_levels_pc_type jacobi "

/* Solvers of the coarse level and of other levels of multigrid */
static PetscErrorCode TestGrids(void)
{
  const Caller callers[] = {
    /* clang-format off */
    {"coarse level", LEVELS "-mg_coarse_ksp_type idrs -mg_coarse_ksp_rtol 0.01 -mg_coarse_pc_type jacobi", 1, 0},
    {"smoothers",
     "-ksp_type fgmres -pc_type mg -pc_mg_levels 3 -mg_levels_ksp_type idrs -mg_levels_ksp_idrs_s 2 "
     "-mg_levels_ksp_max_it 4 -mg_levels_pc_type jacobi -mg_coarse_ksp_type idrs -mg_coarse_pc_type jacobi", 3, 0},
    {"coarse level in blocks", LEVELS "-mg_coarse_ksp_type fgmres -mg_coarse_ksp_rtol 0.01 -mg_coarse_pc_type bjacobi "
     "-mg_coarse_sub_ksp_type idrs -mg_coarse_sub_pc_type jacobi", 1, 1},
    /* clang-format on */
  };
  PetscReal convection = 5.0;

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(callers); i++) {
    PetscOptions options;
    KSP          ksp;
    Mat          A;
    Vec          b, x;

    PetscCall(OptionsPush(callers[i].options, &options));
    PetscCall(GridSolverCreate(25, &convection, &ksp));
    PetscCall(KSPSetFromOptions(ksp));
    PetscCall(KSPSolve(ksp, NULL, NULL));
    PetscCall(KSPGetOperators(ksp, &A, NULL));
    PetscCall(KSPGetRhs(ksp, &b));
    PetscCall(KSPGetSolution(ksp, &x));
    PetscCall(CheckSolved(callers[i].name, ksp, A, b, x));
    PetscCall(CheckRuns(&callers[i], ksp));
    PetscCall(KSPDestroy(&ksp));
    PetscCall(OptionsPop(&options));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestParts, NULL}, {TestLongRows, NULL}, {TestGrids, "multigrid"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 2}}

TEST*/
