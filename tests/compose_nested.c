static char help[] = "KSPIDRS around and inside other solvers: PCKSP, smoothers and coarse solvers of multigrid, blocks,\n\
subdomains and fields. Inner solves stop long before they converge, so the preconditioner varies.\n\n";

#include "systems.h"

#define ROWS (LINE * LINE)

/* An outer solver and its inner solvers, set by options */
typedef struct {
  const char *name, *options;
  PetscInt    most;      /* bound on the iterations */
  PetscMPIInt processes; /* least number of processes */
} Nest;

static PetscErrorCode CheckNest(const Nest *nest, PetscInt s, KSP ksp, Mat A, Vec b, Vec x)
{
  PetscInt its;
  char     what[128];

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s, s = %" INT, nest->name, s));
  PetscCall(CheckSolved(what, ksp, A, b, x));
  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(ComplainIf(its > nest->most, "%s: %" INT " iterations", what, its));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the options of a nest, in which S stands for the number of shadow vectors of every solver */
static PetscErrorCode NestPush(const Nest *nest, PetscInt s, PetscOptions *options)
{
  char text[2048], number[16];

  PetscFunctionBeginUser;
  PetscCall(PetscStrncpy(text, nest->options, sizeof(text)));
  PetscCall(PetscSNPrintf(number, sizeof(number), "%" INT, s));
  for (char *place = text; place; place++) {
    PetscCall(PetscStrchr(place, 'S', &place));
    if (!place) break;
    *place = number[0]; /* s has one digit */
  }
  PetscCall(OptionsPush(text, options));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestParts(void)
{
  const Nest nests[] = {
    /* clang-format off */
    {"idrs in idrs",
     "-ksp_type idrs -ksp_idrs_s S -pc_type ksp -ksp_ksp_type idrs -ksp_ksp_idrs_s S -ksp_ksp_rtol 0.1 -ksp_pc_type "
     "jacobi", 20, 1},
    {"idrs in fgmres",
     "-ksp_type fgmres -pc_type ksp -ksp_ksp_type idrs -ksp_ksp_idrs_s S -ksp_ksp_rtol 0.1 -ksp_pc_type none", 20, 1},
    {"idrs in blocks",
     "-ksp_type idrs -ksp_idrs_s S -pc_type bjacobi -pc_bjacobi_blocks 6 -sub_ksp_type idrs -sub_ksp_idrs_s S "
     "-sub_ksp_rtol 0.01 -sub_pc_type jacobi", 60, 1},
    {"idrs on all processes",
     "-ksp_type idrs -ksp_idrs_s S -pc_type redundant -redundant_ksp_type idrs -redundant_ksp_idrs_s S "
     "-redundant_ksp_rtol 0.1 -redundant_pc_type jacobi", 20, 1},
    {"idrs on fewer processes",
     "-ksp_type idrs -ksp_idrs_s S -pc_type telescope -pc_telescope_reduction_factor 2 -telescope_ksp_type idrs "
     "-telescope_ksp_idrs_s S -telescope_ksp_rtol 0.1 -telescope_pc_type jacobi", 20, 2},
    {"algebraic multigrid",
     "-ksp_type idrs -ksp_idrs_s S -pc_type gamg -pc_gamg_coarse_eq_limit 20 -mg_levels_ksp_type idrs "
     "-mg_levels_ksp_idrs_s 2 -mg_levels_ksp_max_it 3 -mg_levels_ksp_norm_type none -mg_levels_ksp_convergence_test "
     "skip -mg_levels_pc_type jacobi", 100, 1},
    /* clang-format on */
  };
  PetscMPIInt size;
  Mat         A;
  Vec         b, x;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Convection, ROWS, RHS_GENERAL, &A, &b, &x));
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  for (size_t in = 0; in < PETSC_STATIC_ARRAY_LENGTH(nests); in++) {
    if (size < nests[in].processes) PetscCall(Skip("there are too few processes"));
    for (size_t is = 0; size >= nests[in].processes && is < SIZES; is++) {
      PetscOptions options;
      KSP          ksp;

      PetscCall(NestPush(&nests[in], sizes[is], &options));
      PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
      PetscCall(KSPSetOperators(ksp, A, A));
      PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 200));
      PetscCall(KSPSetFromOptions(ksp));
      for (PetscInt solve = 0; solve < 2; solve++) {
        PetscCall(KSPSolve(ksp, b, x));
        PetscCall(CheckNest(&nests[in], sizes[is], ksp, A, b, x));
      }
      PetscCall(KSPDestroy(&ksp));
      PetscCall(OptionsPop(&options));
    }
    PetscCall(Verdict(nests[in].name));
  }
  PetscCall(DestroyAll(&b, &x, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates two fields that are coupled point by point; in a saddle point the block of the second field is zero */
static PetscErrorCode FieldsCreate(PetscBool saddle, Mat *A, IS fields[])
{
  const PetscInt n = 2 * ROWS;
  PetscInt       begin, end, first;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_WORLD, A));
  PetscCall(MatSetSizes(*A, PETSC_DECIDE, PETSC_DECIDE, n, n));
  PetscCall(MatSetType(*A, MATAIJ));
  PetscCall(MatSetFromOptions(*A));
  PetscCall(MatSetUp(*A));
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
  const struct {
    Nest      nest;
    PetscBool saddle;
  } nests[] = {
    {{"multiplicative fields",
      FIELDS "-ksp_type idrs -ksp_idrs_s S -pc_type fieldsplit -pc_fieldsplit_type multiplicative -fieldsplit_1_pc_type jacobi",
      100, 1},
     PETSC_FALSE},
    {{"Schur complement, full",
      FIELDS "-ksp_type idrs -ksp_idrs_s S -pc_type fieldsplit -pc_fieldsplit_type schur -pc_fieldsplit_schur_fact_type full "
             "-fieldsplit_1_pc_type none",
      100, 1},
     PETSC_TRUE },
    {{"Schur complement, lower",
      FIELDS "-ksp_type fgmres -pc_type fieldsplit -pc_fieldsplit_type schur -pc_fieldsplit_schur_fact_type lower "
             "-fieldsplit_1_pc_type none",
      100, 1},
     PETSC_TRUE }
  };

  PetscFunctionBeginUser;
  for (size_t in = 0; in < PETSC_STATIC_ARRAY_LENGTH(nests); in++) {
    IS  fields[2];
    Mat A;
    Vec b, x;

    PetscCall(FieldsCreate(nests[in].saddle, &A, fields));
    PetscCall(MatCreateVecs(A, &x, &b));
    PetscCall(VecSetGeneral(b, 1.0));
    for (size_t is = 0; is < SIZES; is++) {
      PetscOptions options;
      PC           pc;
      KSP          ksp;

      PetscCall(NestPush(&nests[in].nest, sizes[is], &options));
      PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
      PetscCall(KSPSetOperators(ksp, A, A));
      PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 200));
      PetscCall(KSPSetFromOptions(ksp));
      PetscCall(KSPGetPC(ksp, &pc));
      for (PetscInt field = 0; field < 2; field++) PetscCall(PCFieldSplitSetIS(pc, field ? "1" : "0", fields[field]));
      PetscCall(KSPSolve(ksp, b, x));
      PetscCall(CheckNest(&nests[in].nest, sizes[is], ksp, A, b, x));
      PetscCall(KSPDestroy(&ksp));
      PetscCall(OptionsPop(&options));
    }
    PetscCall(DestroyAll(&b, &x, &A));
    for (PetscInt field = 0; field < 2; field++) PetscCall(ISDestroy(&fields[field]));
    PetscCall(Verdict(nests[in].nest.name));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

#define SMOOTHERS \
  "-mg_levels_ksp_type idrs -mg_levels_ksp_idrs_s 2 -mg_levels_ksp_max_it 3 -mg_levels_ksp_norm_type none " \
  "-mg_levels_ksp_convergence_test skip -mg_levels_pc_type jacobi "
#define COARSE "-mg_coarse_ksp_type idrs -mg_coarse_ksp_idrs_s S -mg_coarse_ksp_rtol 0.1 -mg_coarse_pc_type jacobi "

/* Multigrid on the grids of a DM, which computes operators and right-hand side */
static PetscErrorCode TestGrids(void)
{
  const Nest nests[] = {
    /* clang-format off */
    /* smoothers end within a cycle */
    {"smoothers cut short", SMOOTHERS "-mg_levels_ksp_idrs_s S -ksp_type idrs -ksp_idrs_s S -pc_type mg -pc_mg_levels 3", 200, 1},
    {"smoothers", SMOOTHERS "-ksp_type idrs -ksp_idrs_s S -pc_type mg -pc_mg_levels 3", 100, 1},
    {"full multigrid, W cycles",
     SMOOTHERS COARSE "-ksp_type idrs -ksp_idrs_s S -pc_type mg -pc_mg_levels 3 -pc_mg_type full -pc_mg_cycle_type w", 100, 1},
    /* clang-format on */
  };
  PetscReal convection = 5.0;

  PetscFunctionBeginUser;
  for (size_t in = 0; in < PETSC_STATIC_ARRAY_LENGTH(nests); in++) {
    for (size_t is = 0; is < SIZES; is++) {
      PetscOptions options;
      Mat          A;
      Vec          b, x;
      KSP          ksp;

      PetscCall(NestPush(&nests[in], sizes[is], &options));
      PetscCall(GridSolverCreate(17, &convection, &ksp));
      PetscCall(KSPSetFromOptions(ksp));
      PetscCall(KSPSolve(ksp, NULL, NULL));
      PetscCall(KSPGetOperators(ksp, &A, NULL));
      PetscCall(KSPGetRhs(ksp, &b));
      PetscCall(KSPGetSolution(ksp, &x));
      PetscCall(CheckNest(&nests[in], sizes[is], ksp, A, b, x));
      PetscCall(KSPDestroy(&ksp));
      PetscCall(OptionsPop(&options));
    }
    PetscCall(Verdict(nests[in].name));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestParts, NULL}, {TestFields, NULL}, {TestGrids, NULL})

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
