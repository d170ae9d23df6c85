static char help[] = "The products that compute the matvecs of KSPIDRS: every product that a matrix supports, operators that\n\
change between solves or support none, and preconditioners that the vector operations apply. Without a\n\
device the choice is MatMult(), with the same results.\n\n";

#include "systems.h"

/* Gets the last product that can be requested for such a matrix: on a device all, otherwise MatMult() and the automatic choice */
static PetscErrorCode LastProduct(Mat A, KSPIDRSProduct *last)
{
  PetscBool device;

  PetscFunctionBeginUser;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &device, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
  if (PETSC_VERSION_LT(3, 26, 0)) {
    PetscMPIInt size;

    PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)A), &size));
    if (size > 1) device = PETSC_FALSE;
  }
  *last = device ? KSP_IDRS_PRODUCT_SELL : KSP_IDRS_PRODUCT_MAT;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Solve(const char what[], KSPIDRSProduct product, KSP ksp, Mat A, Vec b, Vec x)
{
  char name[256];

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(name, sizeof(name), "%s, product %s", what, KSPIDRSProducts[product]));
  PetscCall(SolveSystem(name, ksp, A, b, x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Every product with every kind of preconditioner, one solver for all */
static PetscErrorCode TestProducts(void)
{
  const char *const pctypes[] = {PCNONE, PCJACOBI, PCBJACOBI};
  const PetscInt    sizes[]   = {1, 4, 17};
  KSPIDRSProduct    last;
  Mat               A;
  Vec               b, x;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsClearValue(NULL, "-malloc_dump")); /* PETSc leaks memory after an error */
  PetscCall(GridSystemCreate(30, 0.4, &A, &b, &x));
  PetscCall(LastProduct(A, &last));
  for (size_t ipc = 0; ipc < PETSC_STATIC_ARRAY_LENGTH(pctypes); ipc++) {
    for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
      KSP ksp;

      PetscCall(SolverCreate(A, sizes[is], pctypes[ipc], &ksp));
      for (KSPIDRSProduct product = KSP_IDRS_PRODUCT_AUTO; product <= last; product = (KSPIDRSProduct)(product + 1)) {
        PetscCall(KSPIDRSSetProduct_Private(ksp, product));
        PetscCall(Solve(pctypes[ipc], product, ksp, A, b, x));
      }
      PetscCall(KSPDestroy(&ksp));
    }
  }
  PetscCall(DestroyAll(&x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* New values, a new pattern, a new matrix, perhaps at the same address, and another type, between the solves of a solver */
static PetscErrorCode TestChanges(void)
{
  KSPIDRSProduct last = KSP_IDRS_PRODUCT_AUTO;
  PetscInt       begin, end, N;
  Mat            A;
  Vec            b, x;

  PetscFunctionBeginUser;
  for (KSPIDRSProduct product = KSP_IDRS_PRODUCT_AUTO; product <= last; product = (KSPIDRSProduct)(product + 1)) {
    KSP ksp;

    PetscCall(GridSystemCreate(20, 0.4, &A, &b, &x));
    PetscCall(LastProduct(A, &last));
    PetscCall(SolverCreate(A, 4, PCJACOBI, &ksp));
    PetscCall(KSPIDRSSetProduct_Private(ksp, product));
    PetscCall(Solve("first", product, ksp, A, b, x));
    PetscCall(MatGetOwnershipRange(A, &begin, &end));
    for (PetscInt i = begin; i < end; i++) PetscCall(MatSetValue(A, i, i, 50.0 + i % 3, INSERT_VALUES));
    PetscCall(MatAssemble(A));
    PetscCall(Solve("another diagonal", product, ksp, A, b, x));
    PetscCall(MatSetOption(A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
    PetscCall(MatGetSize(A, &N, NULL));
    if (begin < end) PetscCall(MatSetValue(A, begin, N - 1 - begin, 0.5, INSERT_VALUES));
    PetscCall(MatAssemble(A));
    PetscCall(Solve("another pattern", product, ksp, A, b, x));
    for (PetscInt turn = 0; turn < 3; turn++) {
      Mat C;

      PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &C));
      PetscCall(MatScale(C, 1.0 + turn));
      PetscCall(KSPSetOperators(ksp, C, C));
      PetscCall(Solve("made anew", product, ksp, C, b, x));
      PetscCall(KSPSetOperators(ksp, A, A));
      PetscCall(MatDestroy(&C));
    }
    PetscCall(KSPIDRSSetProduct_Private(ksp, KSP_IDRS_PRODUCT_AUTO));
    PetscCall(Solve("before another type", product, ksp, A, b, x));
    PetscCall(MatConvert(A, MATAIJ, MAT_INPLACE_MATRIX, &A));
    PetscCall(Solve("after another type", product, ksp, A, b, x));
    PetscCall(DestroyAll(&ksp, &x, &b, &A));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A requested product that cannot run is an error that names it, and the solver can be used with another setting */
static PetscErrorCode TestRefused(void)
{
  Mat A, S;
  Vec b, x;
  KSP ksp;

  PetscFunctionBeginUser;
  PetscCall(GridSystemCreate(12, 0.4, &A, &b, &x));
  PetscCall(ShellCreate(A, PassMult, A, &S));
  PetscCall(SolverCreate(S, 4, PCNONE, &ksp));
  for (KSPIDRSProduct product = KSP_IDRS_PRODUCT_CSR; product <= KSP_IDRS_PRODUCT_SELL; product = (KSPIDRSProduct)(product + 1)) {
    PetscCall(KSPIDRSSetProduct_Private(ksp, product));
    CheckRefused(KSPSolve(ksp, b, x), "-ksp_idrs_product", KSPIDRSProducts[product]);
    PetscCall(Unlock(b));
    PetscCall(KSPIDRSSetProduct_Private(ksp, KSP_IDRS_PRODUCT_AUTO));
    PetscCall(Solve("after an error", KSP_IDRS_PRODUCT_AUTO, ksp, A, b, x));
  }
  PetscCall(DestroyAll(&ksp, &S, &x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* y = D x, with D in the shell */
static PetscErrorCode ApplyDiagonal(PC pc, Vec x, Vec y)
{
  void *diagonal;

  PetscFunctionBeginUser;
  PetscCall(PCShellGetContext(pc, &diagonal));
  PetscCall(VecPointwiseMult(y, x, (Vec)diagonal));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCJACOBI of all kinds, which the vector operations apply, compared with a shell that does the same: the same history, and a
   fraction of the calls
*/
static PetscErrorCode TestJacobi(void)
{
  const PCJacobiType types[] = {PC_JACOBI_DIAGONAL, PC_JACOBI_ROWMAX, PC_JACOBI_ROWSUM};
  PetscInt           begin, end;
  Mat                A;
  Vec                b, x, ones, diagonal;
  Outcome           *history;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(2, &history));
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 16, 0.4, LAYOUT_EVEN, &A, &b));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  for (PetscInt i = begin; i < end; i++) PetscCall(MatSetValue(A, i, i, 5.0 + i % 7, INSERT_VALUES));
  PetscCall(MatAssemble(A));
  PetscCall(DuplicateAll(b, &x, &ones, &diagonal));
  for (size_t it = 0; it < PETSC_STATIC_ARRAY_LENGTH(types); it++) {
    for (PetscInt shell = 0; shell < 2; shell++) {
      KSP ksp;
      PC  pc;

      PetscCall(SolverCreate(A, 4, shell ? PCSHELL : PCJACOBI, &ksp));
      PetscCall(KSPIDRSSetProduct_Private(ksp, KSP_IDRS_PRODUCT_MAT));
      PetscCall(KSPGetPC(ksp, &pc));
      if (shell) {
        PetscCall(PCShellSetApply(pc, ApplyDiagonal));
        PetscCall(PCShellSetContext(pc, diagonal));
      } else {
        PetscCall(PCJacobiSetType(pc, types[it]));
        PetscCall(KSPSetUp(ksp));
        PetscCall(VecSet(ones, 1.0));
        PetscCall(PCApply(pc, ones, diagonal));
      }
      PetscCall(SolveHistory(ksp, b, x, &history[shell]));
      PetscCall(CheckSolved(shell ? "shell" : "jacobi", ksp, A, b, x));
      PetscCall(KSPDestroy(&ksp));
    }
    for (PetscInt i = 0; i < PetscMin(12, PetscMin(history[0].length, history[1].length)); i++) {
      const PetscReal difference = PetscAbsReal(history[0].norms[i] - history[1].norms[i]);

      PetscCall(ComplainIf(!(difference <= PETSC_SQRT_MACHINE_EPSILON * history[0].norms[0]),
                           "jacobi %s, iteration %" INT ": norm %g, and %g with a shell", PCJacobiTypes[types[it]], i,
                           (double)history[0].norms[i], (double)history[1].norms[i]));
    }
  }
  PetscCall(PetscFree(history));
  PetscCall(DestroyAll(&ones, &diagonal, &x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestProducts, "products"}, {TestChanges, "changes"}, {TestRefused, "products that cannot run"}, {TestJacobi, "jacobi"})

/*TEST

   test:
     suffix: 1
     nsize: {{1 3}}

TEST*/
