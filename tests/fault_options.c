static char help[] = "Values that KSPIDRS and MATAIJSTREAM do not allow, set by options: each is an error that names it, and the\n\
solver works with the next value.\n\n";

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
    {"-ksp_idrs_s",              "0",      "5",     PETSC_TRUE },
    {"-ksp_idrs_s",              "-2",     "4",     PETSC_TRUE },
    {"-ksp_idrs_s",              "many",   "3",     PETSC_FALSE},
    {"-ksp_idrs_seed",           "-1",     "7",     PETSC_TRUE },
    {"-ksp_idrs_cosine",         "-0.1",   "0",     PETSC_TRUE },
    {"-ksp_idrs_cosine",         "1",      "0.7",   PETSC_TRUE },
    {"-ksp_idrs_cosine",         "nan",    "0.5",   PETSC_FALSE},
    {"-ksp_idrs_update_tol",     "-1",     "0",     PETSC_TRUE },
    {"-ksp_idrs_update_tol",     "1",      "0.01",  PETSC_TRUE },
    {"-ksp_idrs_max_restarts",   "-1",     "0",     PETSC_TRUE },
    {"-ksp_idrs_width",          "0",      "1",     PETSC_TRUE },
    {"-ksp_idrs_width",          "17",     "16",    PETSC_TRUE },
    {"-ksp_idrs_block",          "maybe",  "false", PETSC_FALSE},
    {"-ksp_idrs_implementation", NULL,     "vec",   PETSC_TRUE }, /* for vectors in the other memory */
    {"-ksp_idrs_implementation", "abacus", "auto",  PETSC_TRUE },
    {"-ksp_idrs_implementation", "2.5",    "vec",   PETSC_TRUE },
    {"-ksp_idrs_communication",  "pigeon", "auto",  PETSC_TRUE },
    {"-ksp_idrs_product",        "dense",  "mat",   PETSC_TRUE },
    {"-ksp_idrs_run",            "jog",    "steps", PETSC_TRUE },
    {"-ksp_idrs_recycle",        "often",  "auto",  PETSC_TRUE },
  };
  PetscErrorCode ierr;
  Mat            A;
  Vec            b;
  KSP            ksp;
  PetscBool      device;

  PetscFunctionBeginUser;
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
    const char *value = options[i].value ? options[i].value : (device ? "host" : "cuda");

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
  PetscCall(Verdict("wrong options"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The same for a matrix */
static PetscErrorCode TestMatrix(void)
{
  const char *const options[][2] = {
    {"-mat_stream_chunk",  "0" },
    {"-mat_stream_memory", "-1"},
    {"-mat_stream_memory", "0" }
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
  PetscCall(Verdict("wrong options of a matrix"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  EndAfter(250);
  PetscCall(TestOptions());
  PetscCall(TestMatrix());
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 2}}

TEST*/
