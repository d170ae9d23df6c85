static char help[] = "Values that KSPIDRS and MATAIJSTREAM do not allow: each is an error that names it, and the solver works with\n\
the next value.\n\n";

#include "systems.h"

/*
   Options with wrong values. PETSc leaks the texts of its option set whenever it refuses an option (try -ksp_gmres_restart abc), so
   leaks are not reported after this test.
*/
static PetscErrorCode TestOptions(void)
{
  const struct {
    const char *name, *value, *right;
    PetscBool   ours; /* otherwise PETSc refuses the value, with its own message */
  } options[] = {
    {"-ksp_idrs_s",              "0",      "5",        PETSC_TRUE },
    {"-ksp_idrs_s",              "-2",     "4",        PETSC_TRUE },
    {"-ksp_idrs_s",              "many",   "3",        PETSC_FALSE},
    {"-ksp_idrs_seed",           "-1",     "7",        PETSC_TRUE },
    {"-ksp_idrs_cosine",         "-0.1",   "0",        PETSC_TRUE },
    {"-ksp_idrs_cosine",         "1",      "0.7",      PETSC_TRUE },
    {"-ksp_idrs_cosine",         "nan",    "0.5",      PETSC_FALSE},
    {"-ksp_idrs_update_tol",     "-1",     "0",        PETSC_TRUE },
    {"-ksp_idrs_update_tol",     "1",      "0.01",     PETSC_TRUE },
    {"-ksp_idrs_max_restarts",   "-1",     "0",        PETSC_TRUE },
    {"-ksp_idrs_width",          "0",      "1",        PETSC_TRUE },
    {"-ksp_idrs_width",          "17",     "16",       PETSC_TRUE },
    {"-ksp_idrs_block",          "maybe",  "false",    PETSC_FALSE},
    {"-ksp_idrs_implementation", NULL,     "vec",      PETSC_TRUE }, /* for vectors in the other memory */
    {"-ksp_idrs_implementation", "abacus", "auto",     PETSC_TRUE },
    {"-ksp_idrs_implementation", "2.5",    "vec",      PETSC_TRUE },
    {"-ksp_idrs_communication",  "pigeon", "auto",     PETSC_TRUE },
    {"-ksp_idrs_product",        "dense",  "mat",      PETSC_TRUE },
    {"-ksp_idrs_run",            "jog",    "stepwise", PETSC_TRUE },
    {"-ksp_idrs_recycle",        "often",  "auto",     PETSC_TRUE },
  };
  PetscErrorCode ierr;
  Mat            A;
  Vec            b;
  KSP            ksp;
  PetscBool      device;

  PetscFunctionBeginUser;
  EndAfter(250);
  PetscCall(PetscOptionsClearValue(NULL, "-malloc_dump"));
  PetscCall(SystemCreateEntries(Tridiagonal, 30, RHS_GENERAL, &A, &b, NULL));
  PetscCall(SolverCreate(A, 3, PCJACOBI, &ksp));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)b, &device, VECSEQCUDA, VECMPICUDA, ""));
  /* the error names an option with the prefix of the solver */
  PetscCall(KSPSetOptionsPrefix(ksp, "inner_"));
  PetscCall(PetscOptionsSetValue(NULL, "-inner_ksp_idrs_s", "-2"));
  Try(ierr, KSPSetFromOptions(ksp));
  PetscCall(CheckError(ierr, "with a prefix", "-inner_ksp_idrs_s", "-2"));
  PetscCall(PetscOptionsClearValue(NULL, "-inner_ksp_idrs_s"));
  PetscCall(KSPSetOptionsPrefix(ksp, NULL));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(options); i++) {
    const char *value = options[i].value ? options[i].value : (device ? "fast" : "cuda");

    PetscCall(PetscOptionsSetValue(NULL, options[i].name, value));
    PetscCall(Listen());
    ierr = KSPSetFromOptions(ksp);
    if (!ierr) ierr = KSPSetUp(ksp);
    PetscCall(Heard());
    if (options[i].ours) PetscCall(CheckError(ierr, options[i].name, options[i].name, value));
    else PetscCall(ComplainIf(!ierr, "%s %s: no error", options[i].name, value));
    PetscCall(PetscOptionsSetValue(NULL, options[i].name, options[i].right));
    PetscCall(KSPSetFromOptions(ksp));
    PetscCall(SolveConverged(options[i].name, ksp, b));
    PetscCall(PetscOptionsClearValue(NULL, options[i].name));
  }
  PetscCall(DestroyAll(&ksp, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The same for a matrix */
static PetscErrorCode TestMatrix(void)
{
  const char *const options[][2] = {
    {"-mat_stream_chunk",    "0"  },
    {"-mat_stream_memory",   "-1" },
    {"-mat_stream_memory",   "0"  },
    {"-mat_stream_ordering", "rcm"}
  };
  PetscErrorCode ierr;
  Mat            A;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_WORLD, &A));
  PetscCall(MatSetSizes(A, 3, 3, PETSC_DETERMINE, PETSC_DETERMINE));
  PetscCall(MatSetType(A, MATAIJSTREAM));
  PetscCall(MatSetOptionsPrefix(A, "stream_")); /* -mat_type must not apply to this matrix */
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(options); i++) {
    char name[64];

    PetscCall(PetscSNPrintf(name, sizeof(name), "-stream_%s", options[i][0] + 1));
    PetscCall(PetscOptionsSetValue(NULL, name, options[i][1]));
    Try(ierr, MatSetFromOptions(A));
    PetscCall(CheckError(ierr, options[i][0], options[i][0], options[i][1]));
    PetscCall(PetscOptionsClearValue(NULL, name));
  }
  PetscCall(MatSetFromOptions(A));
  PetscCall(MatDestroy(&A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* NCCL is requested: no communication on one process, and an error if processes share a GPU or have none */
static PetscErrorCode TestCommunication(void)
{
  PetscErrorCode ierr = PETSC_SUCCESS;
  PetscBool      device;
  PetscMPIInt    size;
  Mat            A;
  Vec            b, x;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(SystemCreateEntries(Tridiagonal, 30, RHS_GENERAL, &A, &b, &x));
  PetscCall(SolverCreate(A, 3, PCJACOBI, &ksp));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)b, &device, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(PetscOptionsSetValue(NULL, "-ksp_idrs_communication", "nccl"));
  PetscCall(KSPSetFromOptions(ksp));
  if (size > 1) { /* processes on devices may have one GPU each, or share a GPU */
    Try(ierr, KSPSolve(ksp, b, x));
    PetscCall(Unlock(b));
    if (!device || ierr) PetscCall(CheckError(ierr, "communication", "-ksp_idrs_communication", "nccl"));
    PetscCall(PetscOptionsSetValue(NULL, "-ksp_idrs_communication", "auto"));
    PetscCall(KSPSetFromOptions(ksp));
  }
  PetscCall(SolveConverged("after NCCL was asked for", ksp, b));
  PetscCall(PetscOptionsClearValue(NULL, "-ksp_idrs_communication"));
  PetscCall(DestroyAll(&ksp, &b, &x, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Shadow vectors that are too short, and a shadow size that differs from their number */
static PetscErrorCode TestShadowVecs(void)
{
  PetscInt  n;
  char      text[32];
  Mat       A;
  Vec       b, like, *P;
  KSP       ksp;
  PetscBool device;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Tridiagonal, 30, RHS_GENERAL, &A, &b, NULL));
  PetscCall(VecGetLocalSize(b, &n));
  PetscCall(SolverCreate(A, 2, PCJACOBI, &ksp));
  for (PetscInt length = n - 1; length <= n; length++) {
    PetscCall(VecCreate(PETSC_COMM_WORLD, &like));
    PetscCall(VecSetSizes(like, length, PETSC_DETERMINE));
    PetscCall(VecSetFromOptions(like));
    PetscCall(VecDuplicateVecs(like, 3, &P));
    for (PetscInt i = 0; i < 3; i++) PetscCall(VecSetGeneral(P[i], 3.0 + i));
    PetscCall(KSPIDRSSetShadowVecs(ksp, 3, P));
    PetscCall(VecDestroyVecs(3, &P));
    PetscCall(VecDestroy(&like));
    PetscCall(PetscSNPrintf(text, sizeof(text), "%" INT, length));
    if (length < n) CheckRefused(KSPSetUp(ksp), "KSPIDRSSetShadowVecs", text);
  }
  PetscCall(SolveConverged("with shadow vectors of the right size", ksp, b));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)b, &device, VECSEQCUDA, VECMPICUDA, ""));
  if (device) {
    PetscCall(KSPIDRSSetImplementation_Private(ksp, KSP_IDRS_CUDA));
    CheckRefused(KSPSetUp(ksp), "explicit shadow vectors", "vec");
    PetscCall(KSPIDRSSetImplementation_Private(ksp, KSP_IDRS_AUTO));
  }
  CheckRefused(KSPIDRSSetShadowSize(ksp, 7), "-ksp_idrs_s", "7");
  CheckRefused(KSPIDRSSetShadowVecs(ksp, -1, NULL), "KSPIDRSSetShadowVecs", "-1");
  PetscCall(KSPIDRSSetShadowVecs(ksp, 0, NULL));
  PetscCall(KSPIDRSSetShadowSize(ksp, 7));
  PetscCall(SolveConverged("without shadow vectors", ksp, b));
  PetscCall(DestroyAll(&ksp, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Features of PETSc that this type does not support */
static PetscErrorCode TestUnsupported(void)
{
  Mat A;
  Vec b;
  KSP ksp;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Tridiagonal, 30, RHS_GENERAL, &A, &b, NULL));
  PetscCall(SolverCreateSide(A, 2, PC_SYMMETRIC, PCJACOBI, &ksp));
  for (PetscInt i = 0; i < 2; i++) {
    if (i) PetscCall(KSPSetNormType(ksp, KSP_NORM_NATURAL));
    CheckRefused(KSPSetUp(ksp), KSPIDRS, i ? "NATURAL" : "SYMMETRIC");
    PetscCall(KSPSetNormType(ksp, KSP_NORM_DEFAULT));
    PetscCall(KSPSetPCSide(ksp, i ? PC_RIGHT : PC_LEFT));
    PetscCall(SolveConverged("after a side or norm that is not supported", ksp, b));
  }
  PetscCall(DestroyAll(&ksp, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A set-up of levels that ends with an error, and then one for a matrix of another size */
static PetscErrorCode TestSetUp(void)
{
  PetscErrorCode ierr;
  PetscBool      gpus;
  Mat            A[2];
  Vec            b[2], x;
  KSP            ksp;

  PetscFunctionBeginUser;
  for (PetscInt k = 0; k < 2; k++) PetscCall(SystemCreateEntries(Tridiagonal, 1500 + k, RHS_GENERAL, &A[k], &b[k], NULL));
  PetscCall(SolverCreate(A[0], 3, PCAGGREGATION, &ksp));
  PetscCall(PetscOptionsSetValue(NULL, "-mg_levels_1_pc_poly_seed", "-1"));
  Try(ierr, KSPSetUp(ksp));
  PetscCall(PetscObjectTypeCompare((PetscObject)A[0], MATMPIAIJCUSPARSE, &gpus)); /* no level has this prefix there */
  if (gpus) PetscCall(KSPReset(ksp));
  else PetscCall(CheckError(ierr, "aggregation", "-mg_levels_1_pc_poly_seed", "-1"));
  PetscCall(PetscOptionsClearValue(NULL, "-mg_levels_1_pc_poly_seed"));
  PetscCall(KSPSetOperators(ksp, A[1], A[1]));
  PetscCall(VecDuplicate(b[1], &x));
  PetscCall(SolveSystem("after an error of the set-up", ksp, A[1], b[1], x));
  PetscCall(DestroyAll(&ksp, &A[0], &A[1], &b[0], &b[1], &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestOptions, "wrong options"}, {TestMatrix, "wrong options of a matrix"}, {TestCommunication, "communication"},
          {TestShadowVecs, "wrong shadow vectors"}, {TestSetUp, "an error in a set-up"},
          {TestUnsupported, "sides and norms that are not supported"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 2}}

TEST*/
