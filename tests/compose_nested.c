static char help[] = "KSPIDRS around and inside other solvers: PCKSP, smoothers and coarse solvers of multigrid, blocks,\n\
subdomains and fields. Inner solves stop long before they converge, so the preconditioner varies. On a GPU the\n\
automatic choice for small systems is a kernel that makes many iterations; elsewhere the solver runs step by step.\n\n";

#include "systems.h"

#define ROWS (LINE * LINE)
#define ANY  -1

/* An outer solver and its inner solvers, set by options in which S stands for the number of shadow vectors of every solver */
typedef struct {
  const char *name, *options;
  PetscInt    most;           /* bound on the iterations */
  PetscMPIInt processes;      /* least number of processes */
  PetscInt    alone, several; /* idrs solvers that make many iterations in one kernel, on one process and on each of several */
} Nest;

/* Checks that the expected number of solvers made many iterations in one kernel if the operator is on a GPU, and none otherwise */
static PetscErrorCode CheckRuns(const Nest *nest, KSP ksp)
{
  PetscInt    chosen, made, expected;
  PetscBool   gpu;
  PetscMPIInt size;
  Mat         A;

  PetscFunctionBeginUser;
  if (nest->alone == ANY) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(KSPGetOperators(ksp, &A, NULL));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &gpu, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
  expected = !gpu ? 0 : (size == 1 ? nest->alone : size * nest->several);
  PetscCall(DetailNumbers((PetscObject)ksp, "run persistent ... automatically", 0, NULL, &chosen));
  PetscCall(DetailNumbers((PetscObject)ksp, "matvecs ... kernels, where", 0, NULL, &made));
  PetscCall(ComplainIf(chosen != expected || made != expected,
                       "%s: many iterations in one kernel were chosen by %" INT " solvers and made by %" INT ", and not by %" INT,
                       nest->name, chosen, made, expected));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Solves twice with each number of shadow vectors: a system, with fields unless they are NULL, or the system of a grid of m x m
   points, whose DM computes operators and right-hand side
*/
static PetscErrorCode TestNest(const Nest *nest, Mat A, Vec b, Vec x, IS fields[], PetscInt m)
{
  PetscReal   convection = 5.0;
  PetscMPIInt size;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  if (size < nest->processes) PetscCall(Skip("there are too few processes"));
  for (size_t is = 0; size >= nest->processes && is < (strchr(nest->options, 'S') ? SIZES : 1); is++) {
    PetscOptions options;
    char         text[2048], what[128];
    PetscInt     its;
    KSP          ksp;
    PC           pc;

    PetscCall(PetscStrncpy(text, nest->options, sizeof(text)));
    for (char *place = strchr(text, 'S'); place; place = strchr(place, 'S')) *place = (char)('0' + sizes[is]);
    PetscCall(PetscSNPrintf(what, sizeof(what), "%s, s = %" INT, nest->name, sizes[is]));
    PetscCall(OptionsPush(text, &options));
    if (m) PetscCall(GridSolverCreate(m, &convection, &ksp));
    else {
      PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
      PetscCall(KSPSetOperators(ksp, A, A));
      PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 200));
    }
    PetscCall(KSPSetFromOptions(ksp));
    PetscCall(KSPGetPC(ksp, &pc));
    for (PetscInt field = 0; fields && field < 2; field++) PetscCall(PCFieldSplitSetIS(pc, field ? "1" : "0", fields[field]));
    for (PetscInt solve = 0; solve < 2; solve++) {
      PetscCall(KSPSolve(ksp, b, x));
      if (m) {
        PetscCall(KSPGetOperators(ksp, &A, NULL));
        PetscCall(KSPGetRhs(ksp, &b));
        PetscCall(KSPGetSolution(ksp, &x));
      }
      PetscCall(CheckSolved(what, ksp, A, b, x));
      if (m) b = x = NULL;
      PetscCall(KSPGetIterationNumber(ksp, &its));
      PetscCall(ComplainIf(its > nest->most, "%s: %" INT " iterations", what, its));
      PetscCall(CheckRuns(nest, ksp));
    }
    PetscCall(KSPDestroy(&ksp));
    PetscCall(OptionsPop(&options));
  }
  PetscCall(Verdict(nest->name));
  PetscFunctionReturn(PETSC_SUCCESS);
}

#define BLOCKS "-ksp_type fgmres -pc_type bjacobi -sub_ksp_type idrs -sub_ksp_rtol 0.01 "

/*
   Solvers of parts of a matrix. The domains are ranges of rows: with the default, PTScotch, Debian's PETSc with 64-bit integers
   ends with an error
*/
static PetscErrorCode TestParts(void)
{
  const Nest nests[] = {
    /* clang-format off */
    {"idrs in idrs",
     "-ksp_type idrs -ksp_idrs_s S -pc_type ksp -ksp_ksp_type idrs -ksp_ksp_idrs_s S -ksp_ksp_rtol 0.1 -ksp_pc_type "
     "jacobi", 20, 1, ANY, ANY},
    {"idrs in fgmres",
     "-ksp_type fgmres -pc_type ksp -ksp_ksp_type idrs -ksp_ksp_idrs_s S -ksp_ksp_rtol 0.1 -ksp_pc_type none", 20, 1, ANY, ANY},
    {"idrs in blocks",
     "-ksp_type idrs -ksp_idrs_s S -pc_type bjacobi -pc_bjacobi_blocks 6 -sub_ksp_type idrs -sub_ksp_idrs_s S "
     "-sub_ksp_rtol 0.01 -sub_pc_type jacobi", 60, 1, ANY, ANY},
    {"idrs on all processes",
     "-ksp_type idrs -ksp_idrs_s S -pc_type redundant -redundant_ksp_type idrs -redundant_ksp_idrs_s S "
     "-redundant_ksp_rtol 0.1 -redundant_pc_type jacobi", 20, 1, ANY, ANY},
    {"idrs on fewer processes",
     "-ksp_type idrs -ksp_idrs_s S -pc_type telescope -pc_telescope_reduction_factor 2 -telescope_ksp_type idrs "
     "-telescope_ksp_idrs_s S -telescope_ksp_rtol 0.1 -telescope_pc_type jacobi", 20, 2, ANY, ANY},
    {"algebraic multigrid",
     "-ksp_type idrs -ksp_idrs_s S -pc_type gamg -pc_gamg_coarse_eq_limit 20 -mg_levels_ksp_type idrs "
     "-mg_levels_ksp_idrs_s 2 -mg_levels_ksp_max_it 3 -mg_levels_ksp_norm_type none -mg_levels_ksp_convergence_test "
     "skip -mg_levels_pc_type jacobi", 100, 1, ANY, ANY},
    {"a block for each process", BLOCKS "-sub_pc_type jacobi", 200, 1, 1, 1},
    {"several blocks", BLOCKS "-pc_bjacobi_local_blocks 3 -sub_pc_type none", 200, 1, 3, 3},
    {"domains",
     "-ksp_type fgmres -pc_type asm -pc_asm_local_blocks 2 -pc_asm_overlap 2 -sub_ksp_type idrs -sub_ksp_rtol 0.01 "
     "-sub_pc_type jacobi -mat_partitioning_type current", 200, 1, 2, 2},
    {"idrs in blocks of idrs",
     "-ksp_type idrs -pc_type bjacobi -pc_bjacobi_local_blocks 2 -sub_ksp_type idrs -sub_ksp_idrs_s 2 -sub_ksp_rtol "
     "0.01 -sub_pc_type jacobi", 200, 1, 2, 2},
    {"PCKSP", "-ksp_type fgmres -pc_type ksp -ksp_ksp_type idrs -ksp_ksp_rtol 0.1 -ksp_pc_type jacobi", 200, 1, 1, 0},
    {"blocks with sor", BLOCKS "-sub_pc_type sor", 200, 1, 0, 0},
    /* clang-format on */
  };
  Mat A;
  Vec b, x;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Convection, ROWS, RHS_GENERAL, &A, &b, &x));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(nests); i++) PetscCall(TestNest(&nests[i], A, b, x, NULL, 0));
  PetscCall(DestroyAll(&b, &x, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* 21 entries per row, no blocks: with a launch of its own, MatMult() is faster than the products of the library */
static PetscScalar Band(PetscInt i, PetscInt j, PetscInt n)
{
  return i == j ? 12.0 : (PetscAbsInt(i - j) > 10 ? 0.0 : ((i + 2 * j) % 3 ? 0.5 : -0.4));
}

static PetscErrorCode TestLongRows(void)
{
  const Nest nests[] = {
    /* clang-format off */
    {"long rows", "-ksp_type idrs -pc_type jacobi", 200, 1, 1, 0},
    {"blocks of long rows", BLOCKS "-pc_bjacobi_local_blocks 2 -sub_pc_type none", 200, 1, 2, 2},
    {"products by PETSc", "-ksp_type idrs -pc_type jacobi -ksp_idrs_product mat", 200, 1, 0, 0},
    /* clang-format on */
  };
  Mat A;
  Vec b, x;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Band, ROWS, RHS_GENERAL, &A, &b, &x));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(nests); i++) PetscCall(TestNest(&nests[i], A, b, x, NULL, 0));
  PetscCall(DestroyAll(&b, &x, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates two fields that are coupled point by point; in a saddle point the block of the second field is zero */
static PetscErrorCode FieldsCreate(PetscBool saddle, Mat *A, IS fields[])
{
  const PetscInt n = 2 * ROWS;
  PetscInt       begin, end, first;

  PetscFunctionBeginUser;
  PetscCall(MatCreateRows(PETSC_COMM_WORLD, PETSC_DECIDE, n, 5, A));
  PetscCall(MatGetOwnershipRange(*A, &begin, &end));
  for (PetscInt row = begin; row < end; row++) {
    const PetscInt i = row / 2, field = row % 2;
    const PetscInt neighbours[] = {i - LINE, i - 1, i, i + 1, i + LINE};

    for (PetscInt k = 0; k < 5; k++) {
      const PetscInt j = neighbours[k];

      if (j < 0 || j >= ROWS) continue;
      if (!field || !saddle) PetscCall(MatSetValue(*A, row, 2 * j + field, Convection(i, j, ROWS), INSERT_VALUES));
    }
    PetscCall(MatSetValue(*A, row, 2 * i + 1 - field, field ? -1.0 : 0.7, INSERT_VALUES));
    if (field && saddle) PetscCall(MatSetValue(*A, row, row, 0.0, INSERT_VALUES));
  }
  PetscCall(MatAssemble(*A));
  for (PetscInt field = 0; field < 2; field++) {
    first = begin % 2 == field ? begin : begin + 1;
    PetscCall(ISCreateStride(PETSC_COMM_WORLD, end > first ? (end - first + 1) / 2 : 0, first, 2, &fields[field]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

#define FIELDS \
  "-fieldsplit_0_ksp_type idrs -fieldsplit_0_ksp_idrs_s S -fieldsplit_0_ksp_rtol 0.01 -fieldsplit_0_pc_type jacobi " \
  "-fieldsplit_1_ksp_type idrs -fieldsplit_1_ksp_idrs_s S -fieldsplit_1_ksp_rtol 0.01 "

static PetscErrorCode TestFields(void)
{
  const Nest nests[] = {
    /* clang-format off */
    {"multiplicative fields",
     FIELDS "-ksp_type idrs -ksp_idrs_s S -pc_type fieldsplit -pc_fieldsplit_type multiplicative -fieldsplit_1_pc_type jacobi",
     100, 1, ANY, ANY},
    {"Schur complement, full",
     FIELDS "-ksp_type idrs -ksp_idrs_s S -pc_type fieldsplit -pc_fieldsplit_type schur -pc_fieldsplit_schur_fact_type full "
            "-fieldsplit_1_pc_type none", 100, 1, ANY, ANY},
    {"Schur complement, lower",
     FIELDS "-ksp_type fgmres -pc_type fieldsplit -pc_fieldsplit_type schur -pc_fieldsplit_schur_fact_type lower "
            "-fieldsplit_1_pc_type none", 100, 1, ANY, ANY},
    /* clang-format on */
  };

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(nests); i++) {
    IS  fields[2];
    Mat A;
    Vec b, x;

    PetscCall(FieldsCreate((PetscBool)(i > 0), &A, fields));
    PetscCall(MatCreateVecs(A, &x, &b));
    PetscCall(VecSetGeneral(b, 1.0));
    PetscCall(TestNest(&nests[i], A, b, x, fields, 0));
    PetscCall(DestroyAll(&b, &x, &A, &fields[0], &fields[1]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

#define SMOOTHERS \
  "-mg_levels_ksp_type idrs -mg_levels_ksp_idrs_s 2 -mg_levels_ksp_max_it 3 -mg_levels_ksp_norm_type none " \
  "-mg_levels_ksp_convergence_test skip -mg_levels_pc_type jacobi "
#define COARSE "-mg_coarse_ksp_type idrs -mg_coarse_ksp_idrs_s S -mg_coarse_ksp_rtol 0.1 -mg_coarse_pc_type jacobi "

#define LEVELS "-ksp_type fgmres -pc_type mg -pc_mg_levels 3 -mg_levels_pc_type jacobi "

/* Smoothers and coarse solvers of multigrid */
static PetscErrorCode TestGrids(void)
{
  const Nest nests[] = {
    /* clang-format off */
    /* smoothers end within a cycle */
    {"smoothers cut short", SMOOTHERS "-mg_levels_ksp_idrs_s S -ksp_type idrs -ksp_idrs_s S -pc_type mg -pc_mg_levels 3",
     200, 1, ANY, ANY},
    {"smoothers", SMOOTHERS "-ksp_type idrs -ksp_idrs_s S -pc_type mg -pc_mg_levels 3", 100, 1, ANY, ANY},
    {"full multigrid, W cycles",
     SMOOTHERS COARSE "-ksp_type idrs -ksp_idrs_s S -pc_type mg -pc_mg_levels 3 -pc_mg_type full -pc_mg_cycle_type w",
     100, 1, ANY, ANY},
    {"coarse level", LEVELS "-mg_coarse_ksp_type idrs -mg_coarse_ksp_rtol 0.01 -mg_coarse_pc_type jacobi", 200, 1, 1, 0},
    {"smoothers and coarse level",
     "-ksp_type fgmres -pc_type mg -pc_mg_levels 3 -mg_levels_ksp_type idrs -mg_levels_ksp_idrs_s 2 "
     "-mg_levels_ksp_max_it 4 -mg_levels_pc_type jacobi -mg_coarse_ksp_type idrs -mg_coarse_pc_type jacobi", 200, 1, 3, 0},
    {"coarse level in blocks", LEVELS "-mg_coarse_ksp_type fgmres -mg_coarse_ksp_rtol 0.01 -mg_coarse_pc_type bjacobi "
     "-mg_coarse_sub_ksp_type idrs -mg_coarse_sub_pc_type jacobi", 200, 1, 1, 1},
    /* clang-format on */
  };

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(nests); i++)
    PetscCall(TestNest(&nests[i], NULL, NULL, NULL, NULL, i < 3 ? 17 : 25));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestParts, NULL}, {TestLongRows, NULL}, {TestFields, NULL}, {TestGrids, NULL})

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
