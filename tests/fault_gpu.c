static char help[] = "Errors of the GPU: each call with which KSPIDRS allocates, launches, copies, sets or waits in a solve fails once, and the solver can be used\n\
again; or it and all calls of these after it, as when the GPU is lost, and a new solver can. Each failure is an error with a text. That the GPU still works is none.\n\n";

#define PETSC_DESIRE_FEATURE_TEST_MACROS /* for RTLD_NEXT and dladdr() */
#include <petscidrs.h>
#include "systems.h"
#include "faults.h"

#define GPU_CALLS (CALL_SYNCHRONIZE + 1) /* those of a solver */

static PetscInt working = 0; /* answers that a stream still works */

/* That a stream still works is kept as an error */
PETSC_EXTERN cudaError_t cudaStreamQuery(cudaStream_t);
cudaError_t              cudaStreamQuery(cudaStream_t stream)
{
  cudaError_t error;
  cudaError_t (*runtime)(cudaStream_t);
  Dl_info info;

  *(void **)&runtime = dlsym(RTLD_NEXT, "cudaStreamQuery");
  error              = (*runtime)(stream);
  if (error == cudaErrorNotReady && dladdr(__builtin_return_address(0), &info) && strstr(info.dli_fname, "libpetscidrs")) {
    last = error;
    working++;
  }
  return error;
}

/* Convection and diffusion on a line, on the GPU */
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
  PetscCall(MatAssemblyBegin(*A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(*A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatCreateVecs(*A, x, b));
  PetscCall(VecSet(*b, 1.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A solve with a new solver in which the n-th of these calls fails, and one after it: with the same solver, or, where all calls after that one fail, with
   another, once the first has been destroyed meanwhile. Tells whether there was an n-th
*/
static PetscErrorCode Fail(Mat A, Vec b, Vec x, PetscInt s, const char pctype[], Call call, PetscInt n, PetscBool all, PetscBool *happened)
{
  PetscErrorCode ierr;
  PetscReal      rnorm, bnorm;
  char           what[128];
  PetscBool      spared;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s, s = %" PetscInt_FMT ", %s, call %" PetscInt_FMT "%s", calls[call], s, pctype, n, all ? " and all others" : ""));
  PetscCall(SolverCreate(A, s, pctype, &ksp));
  PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 400));
  PetscCall(Listen());
  sticky    = all;
  failing   = call;
  left      = n;
  ierr      = KSPSolve(ksp, b, x);
  *happened = left ? PETSC_FALSE : PETSC_TRUE;
  left      = 0;
  last      = cudaSuccess;
  PetscCall(Heard());
  /* without memory for a copy of the operator another product runs */
  spared = (PetscBool)(call == CALL_MALLOC && !all && !ierr);
  if (spared) {
    PetscCall(ResidualNorm(A, b, x, &rnorm, &bnorm));
    spared = (PetscBool)(rnorm <= 1.01 * rtol * bnorm);
  }
  PetscCall(ComplainIf(*happened && !spared && (!ierr || !message[0]), "%s: error code %d, \"%s\"", what, (int)ierr, message));
  PetscCall(ComplainIf(*happened && ierr && ierr != PETSC_ERR_MEM && ierr != PETSC_ERR_GPU && ierr != PETSC_ERR_GPU_RESOURCE, "%s: error code %d, \"%s\"", what, (int)ierr, message));
  PetscCall(ComplainIf(!*happened && ierr, "%s: has not failed, but \"%s\"", what, message));
  if (lost) {
    PetscCall(Listen());
    (void)KSPDestroy(&ksp); /* may be an error, too */
    PetscCall(Heard());
    last = cudaSuccess;
    lost = PETSC_FALSE;
    PetscCall(SolverCreate(A, s, pctype, &ksp));
    PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 400));
  }
  PetscCall(Unlock(b));
  PetscCall(Unlock(x));
  PetscCall(KSPReset(ksp));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(Listen());
  ierr = KSPSolve(ksp, b, x);
  PetscCall(Heard());
  PetscCall(ResidualNorm(A, b, x, &rnorm, &bnorm));
  PetscCall(ComplainIf(ierr || !(rnorm <= 1.01 * rtol * bnorm), "%s: again, error code %d, ||b - A x|| = %g ||b||", what, (int)ierr, (double)(rnorm / bnorm)));
  PetscCall(KSPDestroy(&ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MonitorNothing(KSP ksp, PetscInt it, PetscReal rnorm, void *ctx)
{
  PetscFunctionBeginUser;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A solve with so many rows, and a monitor, that the host waits for each product */
static PetscErrorCode Wait(PetscInt n)
{
  PetscErrorCode ierr;
  Mat            A;
  Vec            b, x;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(SystemCreate(n, &A, &b, &x));
  PetscCall(SolverCreate(A, 4, PCNONE, &ksp));
  PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 20));
  PetscCall(KSPMonitorSet(ksp, MonitorNothing, NULL, NULL));
  PetscCall(Listen());
  ierr = KSPSolve(ksp, b, x);
  PetscCall(Heard());
  PetscCall(ComplainIf(ierr, "error code %d, \"%s\"", (int)ierr, message));
  PetscCall(ComplainIf(!working, "the host has not waited"));
  last = cudaSuccess;
  PetscCall(KSPDestroy(&ksp));
  PetscCall(MatDestroy(&A));
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&x));
  PetscCall(Verdict("a GPU that still works"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  const PetscInt    numbers[] = {4, 20};
  const char *const pctypes[] = {PCNONE, PCJACOBI};
  Mat               A;
  Vec               b, x;

  PetscFunctionBeginUser;
  implementation = KSP_IDRS_CUDA;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  if (!GPUThere()) {
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "errors of the GPU: left out, there is no GPU here\n"));
    PetscCall(PetscFinalize());
    return 0;
  }
  PetscCall(PetscOptionsClearValue(NULL, "-malloc_dump")); /* PETSc loses memory with an error */
  PetscCall(Wait(8000000));
  PetscCall(SystemCreate(500, &A, &b, &x));
  for (Call call = CALL_MALLOC; call < GPU_CALLS; call++) {
    PetscInt total = 0;

    for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(numbers); is++) {
      for (size_t ipc = 0; ipc < PETSC_STATIC_ARRAY_LENGTH(pctypes); ipc++) {
        for (PetscInt all = 0; all < 2; all++) {
          PetscBool happened = PETSC_TRUE;

          /* each of the first ones, and some of the many that follow */
          for (PetscInt n = 1; happened; n += 1 + n / 10, total++) PetscCall(Fail(A, b, x, numbers[is], pctypes[ipc], call, n, (PetscBool)all, &happened));
        }
      }
    }
    PetscCall(ComplainIf(total <= 8, "%s: no call has failed", calls[call]));
    PetscCall(Verdict(calls[call]));
  }
  PetscCall(MatDestroy(&A));
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&x));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  build:
    requires: cuda

  test:
    suffix: 1

TEST*/
