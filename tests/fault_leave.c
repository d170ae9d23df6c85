static char help[] = "A process that returns an error from a solve, with one right-hand side or several, between GPUs connected\n\
by NCCL: the other processes return an error within the timeout. Afterwards all processes solve again.\n\n";

#include "columns.h"

#define TIMEOUT 2.0  /* seconds, as in the options below */
#define SLACK   20.0 /* to return, in addition */

static PetscInt left = 0; /* products until one fails on this process; 0 for never */

/* Multiplies with the matrix of a shell, or fails before other processes take part */
static PetscErrorCode LeaveMult(Mat S, Vec x, Vec y)
{
  PetscFunctionBeginUser;
  PetscCheck(!left || --left, PETSC_COMM_SELF, PETSC_ERR_USER, "This process leaves");
  PetscCall(PassMult(S, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets everywhere to PETSC_TRUE if here is PETSC_TRUE on all processes */
static PetscErrorCode Everywhere(PetscBool here, PetscBool *everywhere)
{
  PetscMPIInt all = here ? 1 : 0;

  PetscFunctionBeginUser;
  IDRSCallAllreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, PETSC_COMM_WORLD);
  *everywhere = all ? PETSC_TRUE : PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A system with one right-hand side or, with blocks, several at the same time */
typedef struct {
  Mat A, S, B, X;
  Vec b, x;
} System;

static PetscErrorCode Solve(const System *system, KSP ksp)
{
  PetscFunctionBeginUser;
  if (system->B) PetscCall(KSPMatSolve(ksp, system->B, system->X));
  else PetscCall(KSPSolve(ksp, system->b, system->x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Lets the last process fail in this product; then solves with the same solver */
static PetscErrorCode Leave(const System *system, PetscInt product)
{
  const Mat      S = system->S;
  const char    *expected;
  char           what[80], *found;
  PetscBool      leaving, right, everywhere;
  PetscMPIInt    rank, size;
  PetscErrorCode ierr, code;
  PetscLogDouble begin;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &size));
  PetscCall(PetscSNPrintf(what, sizeof(what), "product %" INT "%s", product, system->B ? ", several right-hand sides" : ""));
  PetscCall(SolverCreate(S, 4, PCNONE, &ksp));
  PetscCall(KSPSetFromOptions(ksp));
  leaving  = rank == size - 1 ? PETSC_TRUE : PETSC_FALSE;
  left     = leaving ? product : 0;
  code     = leaving ? PETSC_ERR_USER : PETSC_ERR_LIB;
  expected = leaving ? "leaves" : "-petscidrs_nccl_timeout";
  begin    = MPI_Wtime();
  Try(ierr, Solve(system, ksp));
  begin = MPI_Wtime() - begin;
  PetscCall(PetscStrstr(message, expected, &found));
  right = ierr == code && found && begin < TIMEOUT + SLACK && (leaving || begin > TIMEOUT) ? PETSC_TRUE : PETSC_FALSE;
  if (!right)
    PetscCall(PetscPrintf(PETSC_COMM_SELF, "  %s: process %d after %g seconds: error %d, \"%s\"\n", what, rank, (double)begin,
                          (int)ierr, message));
  PetscCall(Everywhere(right, &everywhere));
  PetscCall(ComplainIf(!everywhere, "%s", what));
  PetscCall(Unlock(system->b));
  PetscCall(Unlock(system->x));
  PetscCall(ResetWith(ksp, S));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(Solve(system, ksp));
  if (system->B) PetscCall(CheckBlock(what, ksp, system->A, system->B, system->X, PETSC_TRUE));
  else PetscCall(CheckSolved(what, ksp, system->A, system->b, system->x));
  PetscCall(KSPDestroy(&ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets connected to PETSC_TRUE if NCCL connects the processes */
static PetscErrorCode Connected(Mat S, Vec b, Vec x, PetscBool *connected)
{
  PetscErrorCode ierr;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(SolverCreate(S, 4, PCNONE, &ksp));
  PetscCall(KSPSetFromOptions(ksp));
  Try(ierr, KSPSolve(ksp, b, x));
  PetscCall(Everywhere((PetscBool)!ierr, connected));
  PetscCall(KSPDestroy(&ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  const PetscInt N = 20 * LINE, products[] = {2, 30};
  PetscBool      connected;
  Mat            A, S, B, X;
  Vec            b, x;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsClearValue(NULL, "-malloc_dump")); /* PETSc leaks memory after an error */
  PetscCall(PetscOptionsSetValue(NULL, "-sf_type", PETSCSFNCCL));
  PetscCall(SystemCreateEntries(Convection, N, RHS_GENERAL, &A, &b, &x));
  PetscCall(ShellCreate(A, LeaveMult, A, &S));
  PetscCall(Connected(S, b, x, &connected));
  PetscCall(BlocksCreate(A, 3, BLOCK_RANDOM, &B, &X));
  if (connected) {
    const System one = {.A = A, .S = S, .b = b, .x = x}, several = {.A = A, .S = S, .B = B, .X = X, .b = b, .x = x};

    for (size_t ip = 0; ip < PETSC_STATIC_ARRAY_LENGTH(products); ip++) {
      PetscCall(Leave(&one, products[ip]));
      PetscCall(Leave(&several, products[ip]));
    }
    PetscCall(Verdict("a process that leaves"));
  } else
    PetscCall(
      PetscPrintf(PETSC_COMM_WORLD, "a process that leaves: left out, the processes have no GPU each that NCCL connects\n"));
  PetscCall(DestroyAll(&A, &S, &B, &X, &b, &x));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: 2
    args: -log_sync 0 -petscidrs_nccl_timeout 2 -ksp_idrs_communication nccl
    requires: cuda

TEST*/
