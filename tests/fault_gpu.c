static char help[] = "Errors of the GPU: each call with which KSPIDRS, PCBJIDRS, PCPOLY and MATSOLVERPETSCIDRS allocate, launch,\n\
copy, set or synchronize in a solve fails once, and the solver can be used again. Or all later calls fail,\n\
too, as if the GPU were lost, and a new solver can be used. Each failure is an error with a message.\n\n";

#define PETSC_DESIRE_FEATURE_TEST_MACROS /* for RTLD_NEXT and dladdr() */
#include <petscidrs.h>
#include "systems.h"
#include "faults.h"
#include <petscdevice.h>

/* The solvers, and their numbers of simultaneous right-hand sides */
static const struct {
  const char *pctype;
  PetscInt    columns;
} solvers[] = {
  {PCJACOBI, 1},
  {PCILU,    1},
  {PCBJIDRS, 1},
  {PCPOLY,   3}
};
#define SOLVERS PETSC_STATIC_ARRAY_LENGTH(solvers)

RUNTIME(cudaHostAlloc, CALL_MALLOCHOST, cudaErrorMemoryAllocation, (void **address, size_t size, unsigned int flags),
        (address, size, flags))

/* Replaces PETSc's allocation from its memory pool */
PetscErrorCode PetscDeviceAllocate_Private(PetscDeviceContext dctx, PetscBool clear, PetscMemType type, size_t size,
                                           size_t alignment, void **address)
{
  PetscErrorCode (*allocate)(PetscDeviceContext, PetscBool, PetscMemType, size_t, size_t, void **);

  if (Fails(CALL_ALLOCATE, __builtin_return_address(0)))
    return PetscError(PETSC_COMM_SELF, __LINE__, PETSC_FUNCTION_NAME, __FILE__, PETSC_ERR_MEM, PETSC_ERROR_INITIAL,
                      "No memory, for this test");
  *(void **)&allocate = dlsym(RTLD_NEXT, "PetscDeviceAllocate_Private");
  return (*allocate)(dctx, clear, type, size, alignment, address);
}

/* Creates convection and diffusion on a line, on the GPU */
static PetscErrorCode SystemCreate(PetscInt n, Mat *A, Vec *b, Vec *x)
{
  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_WORLD, A));
  PetscCall(MatSetSizes(*A, PETSC_DECIDE, PETSC_DECIDE, n, n));
  PetscCall(MatSetType(*A, MATAIJCUSPARSE));
  PetscCall(MatSeqAIJSetPreallocation(*A, 3, NULL));
  for (PetscInt i = 0; i < n; i++) {
    PetscCall(MatSetValue(*A, i, i, 2.4, INSERT_VALUES));
    if (i > 0) PetscCall(MatSetValue(*A, i, i - 1, -1.4, INSERT_VALUES));
    if (i < n - 1) PetscCall(MatSetValue(*A, i, i + 1, -0.6, INSERT_VALUES));
  }
  PetscCall(MatAssemble(*A));
  PetscCall(MatCreateVecs(*A, x, b));
  PetscCall(VecSet(*b, 1.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a solver with this preconditioner, with factors of the library */
static PetscErrorCode SolverMake(Mat A, const char pctype[], KSP *ksp)
{
  PetscBool factors, blocks;
  PC        pc;

  PetscFunctionBeginUser;
  PetscCall(SolverCreate(A, 4, pctype, ksp));
  PetscCall(KSPSetTolerances(*ksp, rtol, 0.0, PETSC_DEFAULT, 400));
  PetscCall(KSPGetPC(*ksp, &pc));
  PetscCall(PetscStrcmp(pctype, PCILU, &factors));
  PetscCall(PetscStrcmp(pctype, PCBJIDRS, &blocks));
  if (factors) PetscCall(PCFactorSetMatSolverType(pc, MATSOLVERPETSCIDRS));
  if (blocks) { /* five blocks of the same size */
    PetscInt n, sizes[5];

    PetscCall(MatGetLocalSize(A, &n, NULL));
    for (PetscInt i = 0; i < 5; i++) sizes[i] = n / 5;
    PetscCall(MatSetVariableBlockSizes(A, 5, sizes));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves for b, or for `columns` copies of b; x is the solution of the last one */
static PetscErrorCode Solve(KSP ksp, Vec b, Vec x, PetscInt columns)
{
  PetscErrorCode ierr;
  PetscInt       n;
  Mat            B, X;

  PetscFunctionBeginUser;
  if (columns == 1) {
    PetscCall(KSPSolve(ksp, b, x));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(VecGetSize(b, &n));
  PetscCall(MatCreateDenseCUDA(PETSC_COMM_WORLD, PETSC_DECIDE, PETSC_DECIDE, n, columns, NULL, &B));
  for (PetscInt j = 0; j < columns; j++) PetscCall(ColumnSet(B, j, b));
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
  ierr = KSPMatSolve(ksp, B, X);
  if (!ierr) {
    PetscCall(ColumnGet(X, columns - 1, x));
    PetscCall(DestroyAll(&B, &X));
  } /* otherwise a column of them may be in use */
  PetscFunctionReturn(ierr);
}

/*
   Lets the n-th call of this kind fail in a solve with a new solver, then solves again with the same solver. If all later calls
   fail as well, another solver is used after the first one is destroyed. happened is PETSC_TRUE if there was an n-th call
*/
static PetscErrorCode Fail(Mat A, Vec b, Vec x, size_t which, Call call, PetscInt n, PetscBool all, PetscBool *happened)
{
  const char    *pctype  = solvers[which].pctype;
  const PetscInt columns = solvers[which].columns;
  PetscErrorCode ierr;
  PetscReal      rnorm, bnorm;
  char           what[128];
  PetscBool      spared;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s, %" INT " columns, call %" INT "%s", calls[call], pctype, columns, n,
                          all ? " and all others" : ""));
  PetscCall(SolverMake(A, pctype, &ksp));
  PetscCall(Listen());
  sticky    = all;
  failing   = call;
  left      = n;
  ierr      = Solve(ksp, b, x, columns);
  *happened = left ? PETSC_FALSE : PETSC_TRUE;
  left      = 0;
  last      = cudaSuccess;
  PetscCall(Heard());
  /* without memory for a copy of the operator another product is used */
  spared = (PetscBool)(call == CALL_MALLOC && !all && !ierr);
  if (spared) {
    PetscCall(ResidualNorm(A, b, x, &rnorm, &bnorm));
    spared = (PetscBool)(rnorm <= 1.01 * rtol * bnorm);
  }
  PetscCall(ComplainIf(*happened && !spared && (!ierr || !message[0]), "%s: error code %d, \"%s\"", what, (int)ierr, message));
  PetscCall(ComplainIf(*happened && ierr && ierr != PETSC_ERR_MEM && ierr != PETSC_ERR_GPU && ierr != PETSC_ERR_GPU_RESOURCE,
                       "%s: error code %d, \"%s\"", what, (int)ierr, message));
  PetscCall(ComplainIf(!*happened && ierr, "%s: has not failed, but \"%s\"", what, message));
  if (lost) {
    PetscCall(Listen());
    (void)KSPDestroy(&ksp); /* may fail as well */
    PetscCall(Heard());
    last = cudaSuccess;
    lost = PETSC_FALSE;
    PetscCall(SolverMake(A, pctype, &ksp));
  }
  PetscCall(Unlock(b));
  PetscCall(Unlock(x));
  PetscCall(ResetWith(ksp, A));
  Try(ierr, Solve(ksp, b, x, columns));
  PetscCall(ResidualNorm(A, b, x, &rnorm, &bnorm));
  PetscCall(ComplainIf(ierr || !(rnorm <= 1.01 * rtol * bnorm), "%s: again, error code %d, ||b - A x|| = %g ||b||", what, (int)ierr,
                       (double)(rnorm / bnorm)));
  PetscCall(KSPDestroy(&ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   If some blocks of a kernel of many steps are missing, the others wait in vain. The kernel ends with an error, and the solver can
   be used again
*/
static PetscErrorCode TestMissing(void)
{
  PetscErrorCode ierr;
  PetscReal      rnorm, bnorm;
  Mat            A;
  Vec            b, x;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(SystemCreate(20000, &A, &b, &x));
  PetscCall(SolverMake(A, PCJACOBI, &ksp));
  PetscCall(PetscOptionsSetValue(NULL, "-ksp_idrs_run", "persistent"));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(PetscOptionsClearValue(NULL, "-ksp_idrs_run"));
  withhold = PETSC_TRUE;
  Try(ierr, KSPSolve(ksp, b, x));
  if (withhold) PetscCall(ComplainIf(ierr, "error code %d, \"%s\"", (int)ierr, message)); /* the GPU has no clusters */
  else PetscCall(CheckError(ierr, "blocks that wait in vain", "not all of its blocks", "-ksp_idrs_run stepwise"));
  withhold = PETSC_FALSE;
  PetscCall(Unlock(b));
  PetscCall(Unlock(x));
  PetscCall(ResetWith(ksp, A));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(ResidualNorm(A, b, x, &rnorm, &bnorm));
  PetscCall(
    ComplainIf(!(rnorm <= 1.01 * rtol * bnorm), "after blocks that wait in vain: ||b - A x|| = %g ||b||", (double)(rnorm / bnorm)));
  PetscCall(DestroyAll(&ksp, &A, &b, &x));
  PetscCall(Verdict("blocks that wait in vain"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  Mat A;
  Vec b, x;

  PetscFunctionBeginUser;
  implementation = KSP_IDRS_CUDA;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  if (!GPUThere()) {
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "errors of the GPU: left out, there is no GPU here\n"));
    PetscCall(PetscFinalize());
    return 0;
  }
  PetscCall(PetscOptionsClearValue(NULL, "-malloc_dump")); /* PETSc leaks memory after an error */
  PetscCall(TestMissing());
  PetscCall(SystemCreate(500, &A, &b, &x));
  for (Call call = CALL_MALLOC; call <= CALL_WAIT; call++) {
    PetscInt total = 0;

    if (call == CALL_REGISTER) continue; /* no solver calls it */
    for (size_t i = 0; i < 2 * SOLVERS; i++) {
      PetscBool happened = PETSC_TRUE;

      /* each of the first ones, and some of the many that follow */
      for (PetscInt n = 1; happened; n += 1 + n / 4, total++)
        PetscCall(Fail(A, b, x, i / 2, call, n, (PetscBool)(i % 2), &happened));
    }
    PetscCall(ComplainIf(total <= (PetscInt)(2 * SOLVERS), "%s: no call has failed", calls[call]));
    PetscCall(Verdict(calls[call]));
  }
  PetscCall(DestroyAll(&A, &b, &x));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  build:
    requires: cuda

  test:
    suffix: 1
    args: -petscidrs_nccl_timeout 3

TEST*/
