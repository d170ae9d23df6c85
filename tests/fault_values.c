static char help[] = "Values that KSPIDRS does not allow, set by functions: each is an error that names it, and the solver works\n\
with its previous values.\n\n";

#include "systems.h"

/* Creates the solver of these tests, with 30 rows */
static PetscErrorCode TestedCreate(Mat *A, Vec *b, KSP *ksp)
{
  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Tridiagonal, 30, RHS_GENERAL, A, b, NULL));
  PetscCall(SolverCreate(*A, 3, PCJACOBI, ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Calls every setter with wrong values, before and after a solve; the old values stay, and the solver works */
static PetscErrorCode TestSetters(void)
{
  const PetscReal zero = 0.0;
  const struct {
    PetscErrorCode (*set)(KSP, PetscInt);
    PetscInt    value;
    const char *name, *text;
  } integers[] = {
    {KSPIDRSSetShadowSize,  0,   "-ksp_idrs_s",            "0"  },
    {KSPIDRSSetShadowSize,  -3,  "-ksp_idrs_s",            "-3" },
    {KSPIDRSSetShadowSeed,  -1,  "-ksp_idrs_seed",         "-1" },
    {KSPIDRSSetMaxRestarts, -1,  "-ksp_idrs_max_restarts", "-1" },
    {KSPIDRSSetMaxRestarts, -17, "-ksp_idrs_max_restarts", "-17"},
    {KSPIDRSSetWidth,       0,   "-ksp_idrs_width",        "0"  },
    {KSPIDRSSetWidth,       -2,  "-ksp_idrs_width",        "-2" },
  };
  const struct {
    PetscErrorCode (*set)(KSP, PetscReal);
    PetscReal   value;
    const char *name, *text;
  } reals[] = {
    {KSPIDRSSetMinimumCosine,   -0.1,        "-ksp_idrs_cosine",     "-0.1"},
    {KSPIDRSSetMinimumCosine,   1.0,         "-ksp_idrs_cosine",     "1"   },
    {KSPIDRSSetMinimumCosine,   zero / zero, "-ksp_idrs_cosine",     "nan" },
    {KSPIDRSSetUpdateTolerance, -1.0,        "-ksp_idrs_update_tol", "-1"  },
    {KSPIDRSSetUpdateTolerance, 1.0,         "-ksp_idrs_update_tol", "1"   },
    {KSPIDRSSetUpdateTolerance, zero / zero, "-ksp_idrs_update_tol", "nan" },
  };
  PetscErrorCode ierr;
  PetscInt       s, seed, restarts;
  PetscReal      cosine, tolerance;
  Mat            A;
  Vec            b;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(TestedCreate(&A, &b, &ksp));
  for (PetscInt round = 0; round < 2; round++) {
    for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(integers); i++)
      CheckRefused((*integers[i].set)(ksp, integers[i].value), integers[i].name, integers[i].text);
    for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(reals); i++) {
      Try(ierr, (*reals[i].set)(ksp, reals[i].value));
      PetscCall(CheckError(ierr, reals[i].name, reals[i].name, reals[i].text));
    }
    for (int value = -1; value <= 99; value += 100) {
      const char *const text = value < 0 ? "-1" : "99";

      CheckRefused(KSPIDRSSetImplementation(ksp, (KSPIDRSImplementation)value), "KSPIDRSSetImplementation", text);
      CheckRefused(KSPIDRSSetCommunication(ksp, (KSPIDRSCommunication)value), "KSPIDRSSetCommunication", text);
      CheckRefused(KSPIDRSSetProduct(ksp, (KSPIDRSProduct)value), "KSPIDRSSetProduct", text);
    }
    CheckRefused(KSPIDRSSetShadowVecs(ksp, -2, NULL), "KSPIDRSSetShadowVecs", "-2");
    PetscCall(KSPIDRSGetShadowSize(ksp, &s));
    PetscCall(KSPIDRSGetShadowSeed(ksp, &seed));
    PetscCall(KSPIDRSGetMinimumCosine(ksp, &cosine));
    PetscCall(KSPIDRSGetUpdateTolerance(ksp, &tolerance));
    PetscCall(KSPIDRSGetMaxRestarts(ksp, &restarts));
    PetscCall(ComplainIf(s != 3 || seed != 0 || !(cosine == 0.5) || !(tolerance == (PetscReal)1e-3) || restarts != 10,
                         "after errors: s %" INT ", seed %" INT ", cosine %g, tolerance %g, restarts %" INT, s, seed,
                         (double)cosine, (double)tolerance, restarts));
    PetscCall(SolveConverged("after errors", ksp, b));
  }
  PetscCall(DestroyAll(&ksp, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The set-up refuses a back end for vectors in the other memory, or a back end that the library was built without */
static PetscErrorCode TestImplementation(void)
{
  PetscBool device;
  Mat       A;
  Vec       b;
  KSP       ksp;

  PetscFunctionBeginUser;
  PetscCall(TestedCreate(&A, &b, &ksp));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)b, &device, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(KSPIDRSSetImplementation(ksp, device ? KSP_IDRS_HOST : KSP_IDRS_CUDA));
  CheckRefused(KSPSetUp(ksp), "-ksp_idrs_implementation", device ? "host" : "cuda");
  PetscCall(KSPIDRSSetImplementation(ksp, implementation));
  PetscCall(SolveConverged("after a back end that cannot run", ksp, b));
  PetscCall(DestroyAll(&ksp, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that a solve is refused for the value of an option; with `may` it may also succeed */
static PetscErrorCode CheckSolveRefused(KSP ksp, Vec b, PetscBool may, const char option[], const char value[])
{
  PetscErrorCode ierr;
  Vec            x;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(b, &x));
  Try(ierr, KSPSolve(ksp, b, x));
  PetscCall(Unlock(b));
  PetscCall(VecDestroy(&x));
  if (!may || ierr) PetscCall(CheckError(ierr, "a setting that cannot be", option, value));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* NCCL is requested: no communication on one process, and an error if processes share a GPU or have none */
static PetscErrorCode TestCommunication(void)
{
  KSPIDRSCommunication communication;
  PetscBool            device;
  PetscMPIInt          size;
  Mat                  A;
  Vec                  b;
  KSP                  ksp;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(TestedCreate(&A, &b, &ksp));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)b, &device, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(KSPIDRSSetCommunication(ksp, KSP_IDRS_COMMUNICATION_NCCL));
  PetscCall(KSPIDRSGetCommunication(ksp, &communication));
  PetscCall(ComplainIf(communication != KSP_IDRS_COMMUNICATION_NCCL, "communication: %d", (int)communication));
  if (size > 1) { /* processes on devices may have one GPU each, or share a GPU */
    PetscCall(CheckSolveRefused(ksp, b, device, "-ksp_idrs_communication", "nccl"));
    PetscCall(KSPIDRSSetCommunication(ksp, KSP_IDRS_COMMUNICATION_AUTO));
  }
  PetscCall(SolveConverged("after NCCL was asked for", ksp, b));
  PetscCall(KSPIDRSSetCommunication(ksp, KSP_IDRS_COMMUNICATION_MPI));
  PetscCall(SolveConverged("MPI asked for", ksp, b));
  PetscCall(DestroyAll(&ksp, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Requested products: matrices on the host have none of them */
static PetscErrorCode TestProducts(void)
{
  PetscBool cuda;
  Mat       A;
  Vec       b;
  KSP       ksp;

  PetscFunctionBeginUser;
  PetscCall(TestedCreate(&A, &b, &ksp));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &cuda, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
  for (int i = KSP_IDRS_PRODUCT_CSR; i <= KSP_IDRS_PRODUCT_SLICED; i++) {
    const KSPIDRSProduct product = (KSPIDRSProduct)i;
    KSPIDRSProduct       found;

    PetscCall(KSPIDRSSetProduct(ksp, product));
    PetscCall(KSPIDRSGetProduct(ksp, &found));
    PetscCall(ComplainIf(found != product, "product: %d", (int)found));
    PetscCall(CheckSolveRefused(ksp, b, cuda, "-ksp_idrs_product", KSPIDRSProducts[product]));
    PetscCall(KSPIDRSSetProduct(ksp, KSP_IDRS_PRODUCT_AUTO));
    PetscCall(ResetWith(ksp, A));
    PetscCall(SolveConverged("after a product was asked for", ksp, b));
  }
  PetscCall(DestroyAll(&ksp, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates vectors of this local size, as shadow vectors */
static PetscErrorCode ShadowCreate(PetscInt s, PetscInt n, Vec *P[])
{
  Vec like;

  PetscFunctionBeginUser;
  PetscCall(VecCreate(PETSC_COMM_WORLD, &like));
  PetscCall(VecSetSizes(like, n, PETSC_DETERMINE));
  PetscCall(VecSetFromOptions(like));
  PetscCall(VecDuplicateVecs(like, s, P));
  for (PetscInt i = 0; i < s; i++) PetscCall(VecSetGeneral((*P)[i], 3.0 + i));
  PetscCall(VecDestroy(&like));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Explicit shadow vectors of the wrong size, and a shadow size that differs from their number */
static PetscErrorCode TestShadowVecs(void)
{
  PetscMPIInt    rank, size;
  PetscInt       n, s;
  PetscErrorCode ierr;
  char           text[32];
  Mat            A;
  Vec            b, *P;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &size));
  PetscCall(SystemCreateEntries(Tridiagonal, 30, RHS_GENERAL, &A, &b, NULL));
  PetscCall(VecGetLocalSize(b, &n));
  PetscCall(SolverCreate(A, 2, PCJACOBI, &ksp));
  PetscCall(SolveConverged("before shadow vectors", ksp, b));

  /* too short everywhere; then, on two processes, of the right length with another layout */
  for (PetscInt moved = 0; moved < (size == 2 ? 2 : 1); moved++) {
    const PetscInt m = moved ? n + (rank ? 1 : -1) : n - 1;

    PetscCall(ShadowCreate(3, m, &P));
    PetscCall(KSPIDRSSetShadowVecs(ksp, 3, P));
    PetscCall(VecDestroyVecs(3, &P));
    PetscCall(PetscSNPrintf(text, sizeof(text), "%" INT, m));
    Try(ierr, KSPSetUp(ksp));
    PetscCall(CheckError(ierr, "size of shadow vectors", "KSPIDRSSetShadowVecs", text));
  }

  PetscCall(ShadowCreate(5, n, &P));
  PetscCall(KSPIDRSSetShadowVecs(ksp, 5, P));
  PetscCall(VecDestroyVecs(5, &P));
  PetscCall(SolveConverged("with shadow vectors of the right size", ksp, b));
  Try(ierr, KSPIDRSSetShadowSize(ksp, 7));
  PetscCall(CheckError(ierr, "number of shadow vectors", "-ksp_idrs_s", "7"));
  PetscCall(CheckError(ierr, "number of shadow vectors", "KSPIDRSSetShadowVecs", "5"));
  Try(ierr, KSPIDRSSetShadowVecs(ksp, -1, NULL));
  PetscCall(CheckError(ierr, "number of shadow vectors", "KSPIDRSSetShadowVecs", "-1"));
  PetscCall(KSPIDRSSetShadowSize(ksp, 5));
  PetscCall(SolveConverged("still with shadow vectors", ksp, b));
  PetscCall(KSPIDRSSetShadowVecs(ksp, 0, NULL));
  PetscCall(KSPIDRSSetShadowSize(ksp, 7));
  PetscCall(KSPIDRSGetShadowSize(ksp, &s));
  PetscCall(ComplainIf(s != 7, "s is %" INT " after shadow vectors", s));
  PetscCall(SolveConverged("without shadow vectors", ksp, b));

  /* must not leak when the solver is destroyed */
  PetscCall(ShadowCreate(2, n - 1, &P));
  PetscCall(KSPIDRSSetShadowVecs(ksp, 2, P));
  PetscCall(VecDestroyVecs(2, &P));
  Try(ierr, KSPSetUp(ksp));
  PetscCall(ComplainIf(!ierr, "size of shadow vectors: no error"));
  PetscCall(DestroyAll(&ksp, &b, &A));
  PetscCall(Verdict("wrong shadow vectors"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Features of PETSc that this type does not support */
static PetscErrorCode TestUnsupported(void)
{
  PetscErrorCode ierr;
  Mat            A;
  Vec            b;
  KSP            ksp;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateEntries(Tridiagonal, 30, RHS_GENERAL, &A, &b, NULL));
  PetscCall(SolverCreateSide(A, 2, PC_SYMMETRIC, PCJACOBI, &ksp));
  for (PetscInt i = 0; i < 2; i++) {
    if (i) PetscCall(KSPSetNormType(ksp, KSP_NORM_NATURAL));
    Try(ierr, KSPSetUp(ksp));
    PetscCall(CheckError(ierr, i ? "natural norm" : "symmetric preconditioning", KSPIDRS, i ? "NATURAL" : "SYMMETRIC"));
    PetscCall(KSPSetNormType(ksp, KSP_NORM_DEFAULT));
    PetscCall(KSPSetPCSide(ksp, i ? PC_RIGHT : PC_LEFT));
    PetscCall(SolveConverged("after a side or norm that is not supported", ksp, b));
  }
  PetscCall(DestroyAll(&ksp, &b, &A));
  PetscCall(Verdict("sides and norms that are not supported"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  EndAfter(250);
  PetscCall(ImplementationFromOptions());
  PetscCall(TestSetters());
  PetscCall(Verdict("wrong values"));
  PetscCall(TestImplementation());
  PetscCall(Verdict("a back end that cannot run"));
  PetscCall(TestCommunication());
  PetscCall(Verdict("communication"));
  PetscCall(TestProducts());
  PetscCall(Verdict("products"));
  PetscCall(TestShadowVecs());
  PetscCall(TestUnsupported());
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 2}}
    args: -ksp_idrs_implementation {{vec host}}

TEST*/
