static char help[] = "Memory that runs out: each allocation of the library in the set-up and the solve of KSPIDRS, PCBJIDRS and\n\
MATSOLVERPETSCIDRS fails once. Each failure is an error, all memory is freed, and the solver can be used again.\n\n";

#include "columns.h"

#define MAX_BLOCKS 8192

/* Memory in use that was allocated since this list began, and the functions that allocated it */
static struct {
  void       *address;
  const char *function;
} blocks[MAX_BLOCKS];
static PetscInt    inuse    = 0;
static PetscBool   watching = PETSC_FALSE;
static PetscInt    left     = 0; /* number of allocations of the library until one fails, which is included; 0 for none */
static const char *failed;       /* function of the failed allocation */

/* PETSc's own allocators */
static PetscErrorCode (*allocate)(size_t, PetscBool, int, const char[], const char[], void **);
static PetscErrorCode (*release)(void *, int, const char[], const char[]);
static PetscErrorCode (*resize)(size_t, int, const char[], const char[], void **);

static void Remember(void *address, const char function[])
{
  if (!watching || !address) return;
  if (inuse < MAX_BLOCKS) {
    blocks[inuse].address  = address;
    blocks[inuse].function = function;
  }
  inuse++;
}

static void Forget(const void *address)
{
  for (PetscInt i = PetscMin(inuse, MAX_BLOCKS) - 1; address && i >= 0; i--) {
    if (blocks[i].address != address) continue;
    blocks[i] = blocks[--inuse];
    return;
  }
}

/*
   Fails in the chosen allocation. The library is compiled with relative file names. PETSc with debugging keeps a stack of active
   functions: PetscError() pops this one, like PetscFunctionReturn()
*/
static PetscErrorCode Fail(size_t size, int line, const char function[], const char file[])
{
  PetscFunctionBeginUser;
  if (!size || !left || strncmp(file, "src/", 4) || --left) PetscFunctionReturn(PETSC_SUCCESS);
  failed = function;
  return PetscError(PETSC_COMM_SELF, line, function, file, PETSC_ERR_MEM, PETSC_ERROR_INITIAL, "No memory, for this test");
}

/* Fills memory with invalid pointers unless it must be zero */
static PetscErrorCode Malloc(size_t size, PetscBool clear, int line, const char function[], const char file[], void **result)
{
  PetscErrorCode ierr = Fail(size, line, function, file);

  if (!ierr) ierr = (*allocate)(size, clear, line, function, file, result);
  if (ierr) return ierr;
  if (watching && !clear && *result) memset(*result, 0xff, size);
  Remember(*result, function);
  return PETSC_SUCCESS;
}

static PetscErrorCode Free(void *address, int line, const char function[], const char file[])
{
  Forget(address);
  return (*release)(address, line, function, file);
}

static PetscErrorCode Realloc(size_t size, int line, const char function[], const char file[], void **result)
{
  const void    *old  = *result;
  PetscErrorCode ierr = Fail(size, line, function, file);

  if (!ierr) ierr = (*resize)(size, line, function, file, result);
  if (ierr) return ierr;
  Forget(old);
  Remember(*result, function);
  return PETSC_SUCCESS;
}

/* The solvers, the numbers of right-hand sides, and the least numbers of allocations of the library */
static const struct {
  const char *name, *options;
  PetscInt    columns, allocations;
} solvers[] = {
  {"KSPSolve()",                "-pc_type jacobi",                          1, 5},
  {"KSPSolve() in a sequence",  "-pc_type jacobi -ksp_idrs_recycle always", 1, 5},
  {"KSPMatSolve()",             "-pc_type jacobi -ksp_idrs_width 2",        3, 5},
  {"KSPMatSolve() with blocks", "-pc_type none -ksp_idrs_block",            3, 5},
  {"PCBJIDRS",                  "-pc_type bjidrs -pc_bjidrs_pc_type none",  1, 5},
  {"ILU(1)",
   "-pc_type ilu -pc_factor_mat_solver_type petscidrs "
   "-pc_factor_levels 1",                                                   1, 5},
};

/*
   Creates a solver, and solves twice while the n-th allocation fails; then solves with the same solver after KSPReset(), or with a
   new one if it has not been created. happened: there was an n-th allocation
*/
static PetscErrorCode FailOnce(size_t which, PetscInt n, PetscBool *happened)
{
  PetscErrorCode ierr = PETSC_SUCCESS;
  PetscOptions   options;
  PetscBool      made = PETSC_FALSE;
  char           what[128];
  Mat            A, B, X;
  Vec            b, x;
  KSP            ksp;

  PetscFunctionBeginUser;
  failed   = NULL;
  inuse    = 0;
  watching = PETSC_TRUE;
  PetscCall(OptionsPush(solvers[which].options, &options));
  PetscCall(SystemCreateEntries(Tridiagonal, 30, RHS_GENERAL, &A, &b, &x));
  PetscCall(BlocksCreate(A, solvers[which].columns, BLOCK_RANDOM, &B, &X));
  PetscCall(SolverCreate(A, 4, PCNONE, &ksp));
  PetscCall(Listen());
  left = n;
  for (PetscInt turn = 0; turn < 2 && !ierr; turn++) {
    ierr = KSPSetFromOptions(ksp);
    made = ierr ? PETSC_FALSE : PETSC_TRUE;
    if (made) ierr = solvers[which].columns > 1 ? KSPMatSolve(ksp, B, X) : KSPSolve(ksp, b, x);
  }
  left = 0;
  PetscCall(Heard());
  *happened = failed ? PETSC_TRUE : PETSC_FALSE;
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s, allocation %" INT " in %s()", solvers[which].name, n, failed ? failed : "no"));
  PetscCall(ComplainIf(ierr != (failed ? PETSC_ERR_MEM : PETSC_SUCCESS), "%s: error code %d, \"%s\"", what, (int)ierr, message));
  PetscCall(Unlock(b));
  PetscCall(Unlock(x));
  if (made) PetscCall(ResetWith(ksp, A));
  else { /* PETSc would use a partially created preconditioner */ PetscCall(KSPDestroy(&ksp));
    PetscCall(SolverCreate(A, 4, PCNONE, &ksp));
    PetscCall(KSPSetFromOptions(ksp));
  }
  if (solvers[which].columns > 1) PetscCall(SolveAllColumns(what, ksp, A, B, X, PETSC_TRUE));
  else PetscCall(SolveSystem(what, ksp, A, b, x));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(OptionsPop(&options));
  PetscCall(DestroyAll(&A, &B, &X, &b, &x));
  watching = PETSC_FALSE;
  PetscCheck(inuse <= MAX_BLOCKS, PETSC_COMM_SELF, PETSC_ERR_PLIB, "More than %d allocations at a time", MAX_BLOCKS);
  for (PetscInt i = 0; i < inuse && n; i++) /* PETSc leaks texts if the creation of a type fails */
    PetscCall(ComplainIf(made || strcmp(blocks[i].function, "PetscStrallocpy"), "%s: memory of %s() is not freed", what,
                         blocks[i].function));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscFunctionBeginUser;
  PetscCall(PetscMallocSetCoalesce(PETSC_TRUE)); /* with debugging PetscMalloc2() loses its first array if there is no second one */
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsClearValue(NULL, "-malloc_dump"));
  PetscCall(ImplementationFromOptions());
  allocate       = PetscTrMalloc;
  release        = PetscTrFree;
  resize         = PetscTrRealloc;
  PetscTrMalloc  = Malloc;
  PetscTrFree    = Free;
  PetscTrRealloc = Realloc;
  for (size_t which = 0; which < PETSC_STATIC_ARRAY_LENGTH(solvers); which++) {
    PetscBool happened;
    PetscInt  n = 0;

    PetscCall(FailOnce(which, 0, &happened)); /* what PETSc allocates once */
    do PetscCall(FailOnce(which, ++n, &happened));
    while (happened);
    PetscCall(ComplainIf(n <= solvers[which].allocations, "%s: only %" INT " allocations", solvers[which].name, n - 1));
    PetscCall(Verdict(solvers[which].name));
  }
  PetscTrMalloc  = allocate;
  PetscTrFree    = release;
  PetscTrRealloc = resize;
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1

TEST*/
