static char help[] = "Errors of the GPU in products and matrix powers of MATAIJSTREAM: each call that allocates, registers,\n\
copies, launches, records or waits fails once. Each failure is an error with a message, no memory stays\n\
registered, and after the matrix has been assembled again its products are right.\n\n";

#define PETSC_DESIRE_FEATURE_TEST_MACROS /* for RTLD_NEXT and dladdr() */
#include <petscidrs.h>
#include "systems.h"
#include "faults.h"

#define N     1500
#define STEPS 3

static PetscInt registered = 0; /* registered pieces of host memory */

/* Defined like the functions of faults.h, and counted */
PETSC_EXTERN cudaError_t cudaHostRegister(void *, size_t, unsigned int);
cudaError_t              cudaHostRegister(void *memory, size_t bytes, unsigned int flags)
{
  cudaError_t error = cudaErrorUnknown;
  cudaError_t (*runtime)(void *, size_t, unsigned int);

  if (Fails(CALL_REGISTER, __builtin_return_address(0))) return error;
  *(void **)&runtime = dlsym(RTLD_NEXT, "cudaHostRegister");
  error              = (*runtime)(memory, bytes, flags);
  if (!error) registered++;
  return error;
}

PETSC_EXTERN cudaError_t cudaHostUnregister(void *);
cudaError_t              cudaHostUnregister(void *memory)
{
  cudaError_t error;
  cudaError_t (*runtime)(void *);

  *(void **)&runtime = dlsym(RTLD_NEXT, "cudaHostUnregister");
  error              = (*runtime)(memory);
  if (!error) registered--;
  return error;
}

/* Creates a matrix in chunks, some of which fit into its GPU memory */
static PetscErrorCode StreamCreate(MatType type, Mat *A)
{
  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_WORLD, A));
  PetscCall(MatSetOptionsPrefix(*A, "s_"));
  PetscCall(MatSetSizes(*A, PETSC_DECIDE, PETSC_DECIDE, N, N));
  PetscCall(MatSetType(*A, type));
  PetscCall(MatSeqAIJSetPreallocation(*A, 3, NULL));
  PetscCall(MatSetFromOptions(*A));
  for (PetscInt i = 0; i < N; i++) {
    for (PetscInt j = PetscMax(i - 1, 0); j <= PetscMin(i + 1, N - 1); j++)
      PetscCall(MatSetValue(*A, i, j, 1.0 / (PetscReal)(2 + i % 5 + j % 3), INSERT_VALUES));
  }
  PetscCall(MatAssemble(*A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes a product, or the sum of a sequence, whose coefficients keep all vectors at about the same size */
static PetscErrorCode Multiply(Mat A, PetscBool powers, Vec x, Vec y)
{
  const PetscScalar gamma[STEPS] = {0.5, 0.5, 0.5}, theta[STEPS] = {0.2, 0.1, 0.3}, mu[STEPS] = {0.0, 0.1, 0.1},
                    c[STEPS + 1] = {1.0, 0.5, 0.5, 0.25};

  PetscFunctionBeginUser;
  if (powers) PetscCall(MatPowersSum(A, NULL, x, STEPS, gamma, theta, mu, c, y, NULL));
  else PetscCall(MatMult(A, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Lets the n-th call of this kind fail with a new matrix. happened: there was an n-th call */
static PetscErrorCode Fail(Mat B, PetscBool powers, Call call, PetscInt n, PetscBool *happened)
{
  PetscErrorCode ierr;
  char           what[128];
  Vec            x, y, z;
  Mat            A;

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s %" INT " in %s", calls[call], n, powers ? "MatPowersSum()" : "MatMult()"));
  PetscCall(StreamCreate(MATAIJSTREAM, &A));
  PetscCall(MatCreateVecs(A, &x, &y));
  PetscCall(VecDuplicate(y, &z));
  PetscCall(VecSet(x, 1.0));
  PetscCall(VecSet(y, 0.0));
  PetscCall(Listen());
  failing   = call;
  left      = n;
  ierr      = Multiply(A, powers, x, y);
  *happened = left ? PETSC_FALSE : PETSC_TRUE;
  left      = 0;
  last      = cudaSuccess;
  PetscCall(Heard());
  PetscCall(ComplainIf(*happened && (!ierr || !message[0]), "%s: error code %d, \"%s\"", what, (int)ierr, message));
  PetscCall(ComplainIf(*happened && ierr != PETSC_ERR_MEM && ierr != PETSC_ERR_GPU && ierr != PETSC_ERR_GPU_RESOURCE &&
                         ierr != PETSC_ERR_SYS,
                       "%s: error code %d, \"%s\"", what, (int)ierr, message));
  PetscCall(ComplainIf(!*happened && ierr, "%s: has not failed, but \"%s\"", what, message));
  PetscCall(ComplainIf(*happened && registered, "%s: %" INT " pieces of memory are registered", what, registered));
  if (*happened && call == CALL_REGISTER) { /* the option in the message avoids the error */
    PetscCall(CheckError(ierr, what, "-mat_stream_pageable", "ulimit -l"));
    PetscCall(PetscOptionsInsertString(NULL, "-s_mat_stream_pageable"));
    PetscCall(MatSetFromOptions(A));
    PetscCall(PetscOptionsClearValue(NULL, "-s_mat_stream_pageable"));
  }
  PetscCall(Unlock(x));
  PetscCall(Unlock(y));
  PetscCall(MatAssemble(A));
  PetscCall(VecSet(x, 1.0));
  PetscCall(Multiply(A, powers, x, z));
  PetscCall(Multiply(B, powers, x, y));
  PetscCall(CheckClose(what, z, y, 100 * PETSC_MACHINE_EPSILON));
  PetscCall(MatDestroy(&A));
  PetscCall(ComplainIf(registered, "%s: %" INT " pieces of memory are registered after the matrix is gone", what, registered));
  PetscCall(DestroyAll(&z, &y, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  const Call those[] = {CALL_MALLOC, CALL_REGISTER, CALL_COPY, CALL_LAUNCH, CALL_RECORD, CALL_WAIT, CALL_SYNCHRONIZE};
  Mat        B;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  if (!GPUThere()) {
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "errors of the GPU: left out, there is no GPU here\n"));
    PetscCall(PetscFinalize());
    return 0;
  }
  PetscCall(KSPIDRSRegister());
  PetscCall(PetscOptionsClearValue(NULL, "-malloc_dump")); /* PETSc leaks memory after an error */
  PetscCall(PetscOptionsInsertString(NULL, "-s_mat_stream_chunk 8000 -s_mat_stream_memory 90000"));
  PetscCall(StreamCreate(MATAIJ, &B));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(those); i++) {
    for (PetscInt powers = 0; powers < 2; powers++) {
      PetscBool happened = PETSC_TRUE;
      PetscInt  n;

      for (n = 1; happened; n++) PetscCall(Fail(B, (PetscBool)powers, those[i], n, &happened));
      PetscCall(ComplainIf(n <= 2, "%s: no call has failed", calls[those[i]]));
    }
    PetscCall(Verdict(calls[those[i]]));
  }
  PetscCall(MatDestroy(&B));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  build:
    requires: cuda

  test:
    suffix: 1

TEST*/
