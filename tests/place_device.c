static char help[] = "The memory of the data of KSPIDRS, on host or device: matrices and vectors in different memories, data\n\
that moves between solves, and insufficient memory. Without a device all data is on the host, with the\n\
same results.\n\n";

#include "systems.h"

/* Creates convection and diffusion on a line, of the type of the options or on the host */
static PetscErrorCode PlacedSystemCreate(PetscInt N, PetscBool optionsmatrix, PetscBool optionsvector, Mat *A, Vec *b, Vec *x)
{
  PetscInt begin, end;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_WORLD, A));
  PetscCall(MatSetSizes(*A, PETSC_DECIDE, PETSC_DECIDE, N, N));
  PetscCall(MatSetType(*A, MATAIJ));
  if (optionsmatrix) PetscCall(MatSetFromOptions(*A));
  PetscCall(MatSeqAIJSetPreallocation(*A, 3, NULL));
  PetscCall(MatMPIAIJSetPreallocation(*A, 3, NULL, 1, NULL));
  PetscCall(MatGetOwnershipRange(*A, &begin, &end));
  for (PetscInt i = begin; i < end; i++) {
    PetscCall(MatSetValue(*A, i, i, 2.2 + 0.1 * (i % 5), INSERT_VALUES));
    if (i > 0) PetscCall(MatSetValue(*A, i, i - 1, -1.4, INSERT_VALUES));
    if (i < N - 1) PetscCall(MatSetValue(*A, i, i + 1, -0.6, INSERT_VALUES));
  }
  PetscCall(MatAssemble(*A));
  PetscCall(VecCreate(PETSC_COMM_WORLD, b));
  PetscCall(VecSetSizes(*b, PETSC_DECIDE, N));
  PetscCall(VecSetType(*b, VECSTANDARD));
  if (optionsvector) PetscCall(VecSetFromOptions(*b));
  for (PetscInt i = begin; i < end; i++) PetscCall(VecSetValue(*b, i, 1.0 + 0.3 * (i % 7), INSERT_VALUES));
  PetscCall(VecAssemble(*b));
  PetscCall(VecDuplicate(*b, x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes ||b - A x|| and ||b|| on the host, from the values that the host sees */
static PetscErrorCode HostNorms(PetscInt N, Vec b, Vec x, PetscReal *residual, PetscReal *bnorm)
{
  const Vec          from[] = {b, x};
  const PetscScalar *values;
  PetscScalar       *array;
  PetscInt           n;
  Mat                host;
  Vec                to[2];

  PetscFunctionBeginUser;
  PetscCall(PlacedSystemCreate(N, PETSC_FALSE, PETSC_FALSE, &host, &to[0], &to[1]));
  for (PetscInt i = 0; i < 2; i++) {
    PetscCall(VecGetLocalSize(to[i], &n));
    PetscCall(VecGetArrayRead(from[i], &values));
    PetscCall(VecGetArrayWrite(to[i], &array));
    PetscCall(PetscArraycpy(array, values, n));
    PetscCall(VecRestoreArrayWrite(to[i], &array));
    PetscCall(VecRestoreArrayRead(from[i], &values));
  }
  PetscCall(ResidualNorm(host, to[0], to[1], residual, bnorm));
  PetscCall(DestroyAll(&host, &to[0], &to[1]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves from zero; the solution is right on the host, and PETSc has the same values on the device */
static PetscErrorCode SolveAndCheck(const char what[], PetscInt N, KSP ksp, Vec b, Vec x)
{
  KSPConvergedReason reason;
  PetscObjectState   before, after;
  PetscReal          residual, bnorm, norm = 0.0, device;
  const PetscScalar *array;
  PetscInt           n;

  PetscFunctionBeginUser;
  PetscCall(PetscObjectStateGet((PetscObject)x, &before));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(PetscObjectStateGet((PetscObject)x, &after));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(VecNorm(x, NORM_2, &device));
  PetscCall(VecGetLocalSize(x, &n));
  PetscCall(VecGetArrayRead(x, &array));
  for (PetscInt i = 0; i < n; i++) norm += PetscSqr(PetscAbsScalar(array[i]));
  PetscCall(VecRestoreArrayRead(x, &array));
  IDRSCallAllreduce(MPI_IN_PLACE, &norm, 1, MPIU_REAL, MPIU_SUM, PETSC_COMM_WORLD);
  norm = PetscSqrtReal(norm);
  PetscCall(HostNorms(N, b, x, &residual, &bnorm));
  PetscCall(ComplainIf(!(reason > 0), "%s: %s", what, KSPConvergedReasons[reason]));
  PetscCall(
    ComplainIf(!(residual <= 1.01 * rtol * bnorm), "%s: the norm of b - A x is %g of %g", what, (double)residual, (double)bnorm));
  PetscCall(ComplainIf(!(PetscAbsReal(norm - device) <= 100 * PETSC_MACHINE_EPSILON * norm),
                       "%s: ||x|| is %g by VecNorm(), %g on the host", what, (double)device, (double)norm));
  PetscCall(ComplainIf(after == before, "%s: the state of x is unchanged", what));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a dense matrix in the memory of these vectors */
static PetscErrorCode BlockCreate(Vec b, PetscInt columns, Mat *B)
{
  PetscBool cuda;
  PetscInt  n;

  PetscFunctionBeginUser;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)b, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(VecGetLocalSize(b, &n));
  PetscCall(MatCreate(PETSC_COMM_WORLD, B));
  PetscCall(MatSetSizes(*B, n, PETSC_DECIDE, PETSC_DETERMINE, columns));
  PetscCall(MatSetType(*B, cuda ? MATDENSECUDA : MATDENSE));
  PetscCall(MatSetUp(*B));
  PetscCall(MatAssemble(*B));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves with KSPMatSolve(); each column is right on the host. Vectors and dense matrices are in the same memory */
static PetscErrorCode SolveBlockAndCheck(const char what[], PetscInt N, PetscInt columns, KSP ksp, Vec b, Vec x)
{
  const KSPConvergedReason *reasons;
  Vec                       column;
  Mat                       B, X;

  PetscFunctionBeginUser;
  PetscCall(BlockCreate(b, columns, &B));
  PetscCall(BlockCreate(x, columns, &X));
  PetscCall(VecDuplicate(b, &column));
  PetscCall(VecCopy(b, column));
  for (PetscInt j = 0; j < columns; j++) {
    PetscCall(ColumnSet(B, j, column));
    PetscCall(VecShift(column, 0.3));
  }
  PetscCall(KSPMatSolve(ksp, B, X));
  PetscCall(KSPIDRSGetColumnResults(ksp, NULL, &reasons, NULL, NULL));
  for (PetscInt j = 0; j < columns; j++) {
    PetscReal residual, bnorm;

    PetscCall(ColumnGet(B, j, column));
    PetscCall(ColumnGet(X, j, x));
    PetscCall(HostNorms(N, column, x, &residual, &bnorm));
    PetscCall(ComplainIf(!(reasons[j] > 0) || !(residual <= 1.01 * rtol * bnorm),
                         "%s, column %" INT ": %s, the norm of b - A x is %g of %g", what, j, KSPConvergedReasons[reasons[j]],
                         (double)residual, (double)bnorm));
  }
  PetscCall(DestroyAll(&B, &X, &column));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Matrix, right-hand sides and solutions in each memory: two solves with one and with several right-hand sides by each solver, and
   one more with blocks in the other memories
*/
static PetscErrorCode TestBlocks(void)
{
  const PetscInt    N = 300, counts[] = {5, 3};
  const char *const pctypes[] = {PCNONE, PCJACOBI, PCBJACOBI};

  PetscFunctionBeginUser;
  for (PetscInt place = 0; place < 8; place++) {
    for (size_t ipc = 0; ipc < PETSC_STATIC_ARRAY_LENGTH(pctypes); ipc++) {
      for (PetscInt block = 0; block < 2; block++) {
        char what[128];
        Mat  A, other;
        Vec  b, x, unused[2];
        KSP  ksp;

        PetscCall(PetscSNPrintf(what, sizeof(what), "matrix %s, right-hand sides %s, solutions %s, %s%s",
                                place & 1 ? "on the host" : "of the options", place & 2 ? "on the host" : "of the options",
                                place & 4 ? "on the host" : "of the options", pctypes[ipc], block ? ", block" : ""));
        PetscCall(
          PlacedSystemCreate(N, place & 1 ? PETSC_FALSE : PETSC_TRUE, place & 2 ? PETSC_FALSE : PETSC_TRUE, &A, &b, &unused[0]));
        PetscCall(PlacedSystemCreate(N, PETSC_FALSE, place & 4 ? PETSC_FALSE : PETSC_TRUE, &other, &unused[1], &x));
        PetscCall(SolverCreate(A, 4, pctypes[ipc], &ksp));
        PetscCall(KSPIDRSSetWidth_Private(ksp, 4));
        PetscCall(KSPIDRSSetBlock(ksp, (PetscBool)block));
        for (PetscInt solve = 0; !block && solve < 2; solve++) PetscCall(SolveAndCheck(what, N, ksp, b, x));
        for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(counts); i++) PetscCall(SolveBlockAndCheck(what, N, counts[i], ksp, b, x));
        PetscCall(SolveBlockAndCheck(what, N, 5, ksp, unused[1], unused[0]));
        PetscCall(DestroyAll(&ksp, &unused[0], &unused[1], &other, &A, &b, &x));
      }
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Values that the host writes between solves, and data that is bound to the host, before the solver is set up or after a solve */
static PetscErrorCode TestMoves(void)
{
  const PetscInt N = 300;
  PetscInt       its, n;
  PetscScalar   *array;
  Mat            A;
  Vec            b, x;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(PlacedSystemCreate(N, PETSC_TRUE, PETSC_TRUE, &A, &b, &x));
  PetscCall(VecGetLocalSize(b, &n));
  PetscCall(SolverCreate(A, 4, PCJACOBI, &ksp));
  PetscCall(SolveAndCheck("first solve", N, ksp, b, x));
  PetscCall(VecGetArray(b, &array));
  for (PetscInt i = 0; i < n; i++) array[i] = 2.0 - array[i];
  PetscCall(VecRestoreArray(b, &array));
  PetscCall(SolveAndCheck("right-hand side changed on the host", N, ksp, b, x));
  /* the solution from the host is a good enough guess */
  PetscCall(VecGetArray(x, &array));
  PetscCall(VecRestoreArray(x, &array));
  PetscCall(KSPSetInitialGuessNonzero(ksp, PETSC_TRUE));
  PetscCall(KSPSetTolerances(ksp, 10 * rtol, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(ComplainIf(its, "guess written on the host: %" INT " iterations", its));
  PetscCall(KSPSetInitialGuessNonzero(ksp, PETSC_FALSE));
  PetscCall(KSPSetTolerances(ksp, rtol, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));

  PetscCall(MatBindToCPU(A, PETSC_TRUE));
  PetscCall(SolveAndCheck("matrix bound to the host after a solve", N, ksp, b, x));
  PetscCall(VecBindToCPU(b, PETSC_TRUE));
  PetscCall(VecBindToCPU(x, PETSC_TRUE));
  PetscCall(SolveAndCheck("everything bound to the host after a solve", N, ksp, b, x));
  PetscCall(ResetWith(ksp, A));
  PetscCall(SolveAndCheck("everything bound to the host", N, ksp, b, x));
  PetscCall(MatBindToCPU(A, PETSC_FALSE));
  PetscCall(VecBindToCPU(b, PETSC_FALSE));
  PetscCall(VecBindToCPU(x, PETSC_FALSE));
  PetscCall(SolveAndCheck("bound no more", N, ksp, b, x));
  PetscCall(DestroyAll(&ksp, &A, &b, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The last process has its part of matrix, right-hand side and solution on the host, the other processes have theirs where the
   options place them; from the beginning, or since a solve. If the matrix of the last process is not on the host, this is an error
   on all processes.
*/
static PetscErrorCode TestMixed(void)
{
  const PetscInt    N         = 300;
  const char *const pctypes[] = {PCNONE, PCJACOBI, PCPOLY};
  PetscMPIInt       rank, size;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &size));
  if (ComparesProcesses(size)) {
    PetscCall(Skip(COMPARES_PROCESSES));
    PetscCall(Verdict("mixed"));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  for (size_t i = 0; i < 2 * PETSC_STATIC_ARRAY_LENGTH(pctypes); i++) {
    const PetscInt late = i % 2;
    PetscInt       its[2];
    PetscBool      device;
    Mat            A;
    Vec            b, x;
    KSP            ksp;

    PetscCall(PlacedSystemCreate(N, PETSC_TRUE, PETSC_TRUE, &A, &b, &x));
    PetscCall(PetscObjectTypeCompareAny((PetscObject)b, &device, VECSEQCUDA, VECMPICUDA, ""));
    PetscCall(SolverCreate(A, 4, pctypes[i / 2], &ksp));
    for (PetscInt solve = 0; solve < 3; solve++) {
      const PetscBool here = solve < 2 && solve >= late && rank == size - 1 ? PETSC_TRUE : PETSC_FALSE;

      PetscCall(VecBindToCPU(b, here));
      PetscCall(VecBindToCPU(x, here));
      if (device && solve == 1) {
        PetscCall(MatBindToCPU(A, PETSC_FALSE));
        CheckRefused(KSPSolve(ksp, b, x), "CPU", "bind");
        PetscCall(Unlock(b));
        PetscCall(Unlock(x));
      }
      PetscCall(MatBindToCPU(A, here));
      PetscCall(SolveAndCheck("last process on the host", N, ksp, b, x));
      PetscCall(KSPGetIterationNumber(ksp, &its[solve ? 1 : 0]));
      PetscCall(ComplainIf(solve && PetscAbsInt(its[1] - its[0]) > 1, "last process on the host: %" INT " iterations, and %" INT,
                           its[0], its[1]));
      if (solve == 1) {
        Vec duplicate;

        PetscCall(VecDuplicate(x, &duplicate));
        PetscCall(SolveAndCheck("duplicate of a solution whose last part is on the host", N, ksp, b, duplicate));
        PetscCall(VecDestroy(&duplicate));
      }
    }
    PetscCall(DestroyAll(&ksp, &A, &b, &x));
  }
  PetscCall(Verdict("mixed"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IdentityMult(Mat A, Vec x, Vec y)
{
  PetscFunctionBeginUser;
  PetscCall(VecCopy(x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Creates the identity with n rows on the last process and a few on the others, and a vector, if vectors are on a device; otherwise
   nothing
*/
static PetscErrorCode IdentityCreate(PetscInt n, PetscBool *cuda, Mat *A, Vec *b)
{
  PetscInt    here;
  PetscMPIInt rank, size;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &size));
  here = rank == size - 1 ? n : 10;
  PetscCall(VecCreate(PETSC_COMM_WORLD, b));
  PetscCall(VecSetSizes(*b, here, PETSC_DETERMINE));
  PetscCall(VecSetFromOptions(*b));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)*b, cuda, VECSEQCUDA, VECMPICUDA, ""));
  if (!*cuda) {
    PetscCall(VecDestroy(b));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(MatCreateShell(PETSC_COMM_WORLD, here, here, PETSC_DETERMINE, PETSC_DETERMINE, NULL, A));
  PetscCall(MatShellSetOperation(*A, MATOP_MULT, (void (*)(void))IdentityMult));
  PetscCall(MatShellSetVecType(*A, VECCUDA));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   On a device: doubles the rows of the last process until the bases of 64 columns do not fit. This is an error on all processes
   that states the requested memory. Afterwards this memory is free again: bases that need most of it fit.
*/
static PetscErrorCode TestMemory(void)
{
  PetscBool      cuda = PETSC_FALSE;
  PetscErrorCode ierr = PETSC_SUCCESS;

  PetscFunctionBeginUser;
  for (PetscInt n = 1 << 20; !ierr && n < 1 << 30; n *= 2) {
    Mat A;
    Vec b;
    KSP ksp;

    PetscCall(IdentityCreate(n, &cuda, &A, &b));
    if (!cuda) break;
    PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
    PetscCall(KSPSetType(ksp, KSPIDRS));
    PetscCall(KSPSetOperators(ksp, A, A));
    PetscCall(KSPIDRSSetShadowSize(ksp, 64));
    for (PetscInt i = 0; i < 3 && (ierr || !i); i++) Try(ierr, KSPSetUp(ksp));
    if (ierr) {
      const char *found;
      long long   wanted = 0, available = 0;

      found = FindKey(message, "KSPIDRS ... needs");
      if (found) (void)sscanf(found, "%lld bytes of GPU memory, but only %lld", &wanted, &available);
      PetscCall(
        ComplainIf(ierr != PETSC_ERR_MEM || wanted < (long long)n * 64 * (long long)sizeof(PetscScalar) || available >= wanted,
                   "too little memory: error %d, %lld bytes of %lld, \"%s\"", (int)ierr, wanted, available, message));
      /* fewer columns: both bases fit unless one of the bases above still exists */
      PetscCall(KSPIDRSSetShadowSize(ksp, 24));
      PetscCall(KSPSetUp(ksp));
    }
    PetscCall(DestroyAll(&ksp, &A, &b));
  }
  PetscCall(ComplainIf(cuda && !ierr, "there was always memory enough"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   On a device: doubles the rows of the last process until the vectors for 16 right-hand sides at the same time do not fit. This is
   an error on all processes that states the requested memory, the free memory, and the width that fits; with this width the same
   solver solves
*/
static PetscErrorCode TestWidth(void)
{
  const PetscInt columns = 16, s = 24;
  PetscBool      cuda = PETSC_FALSE;
  PetscErrorCode ierr = PETSC_SUCCESS;

  PetscFunctionBeginUser;
  for (PetscInt n = 1 << 22; !ierr && n < 1 << 28; n *= 2) {
    Mat A, B, X;
    Vec b;
    KSP ksp;

    PetscCall(IdentityCreate(n, &cuda, &A, &b));
    if (!cuda) break;
    PetscCall(BlockCreate(b, columns, &B));
    PetscCall(BlockCreate(b, columns, &X));
    for (PetscInt j = 0; j < columns; j++) {
      PetscCall(VecSet(b, 1.0 + j));
      PetscCall(ColumnSet(B, j, b));
    }
    PetscCall(VecDestroy(&b));
    PetscCall(SolverCreate(A, s, PCNONE, &ksp));
    Try(ierr, KSPMatSolve(ksp, B, X));
    if (ierr) {
      KSPConvergedReason reason;
      char              *found;
      int                asked = 0, width = 0;
      long long          wanted = 0, available = 0;

      PetscCall(PetscStrstr(message, "right-hand sides at the same time need", &found));
      if (ierr != PETSC_ERR_MEM || !found ||
          sscanf(message,
                 "%d right-hand sides at the same time need %lld more bytes of GPU memory, but only %lld are free; use "
                 "-ksp_idrs_width %d",
                 &asked, &wanted, &available, &width) != 4) {
        PetscCall(Complain("too little memory: error %d, \"%s\"", (int)ierr, message));
        width = 1;
      } else
        PetscCall(ComplainIf(asked != columns || wanted < (long long)n * 2 * s * (columns - 1) * (long long)sizeof(PetscScalar) ||
                               available >= wanted || width < 1 || width >= columns,
                             "too little memory: width %d instead of %d, %lld bytes of %lld", width, asked, wanted, available));
      PetscCall(KSPIDRSSetWidth_Private(ksp, width));
      PetscCall(KSPMatSolve(ksp, B, X));
      PetscCall(KSPGetConvergedReason(ksp, &reason));
      PetscCall(ComplainIf(reason < 0, "width %d: %s", width, KSPConvergedReasons[reason]));
    }
    PetscCall(DestroyAll(&ksp, &X, &B, &A));
  }
  PetscCall(ComplainIf(cuda && !ierr, "there was always memory enough"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestBlocks, "places of blocks"}, {TestMoves, "moves"}, {TestMixed, NULL}, {TestMemory, "memory"},
          {TestWidth, "memory for right-hand sides"})

/*TEST

   test:
     suffix: 1
     nsize: {{1 2}}

TEST*/
