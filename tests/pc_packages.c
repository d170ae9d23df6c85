static char
  help[] = "LU of each package that PETSc has: as the preconditioner of KSPIDRS, inside PCMATCHING, and as the coarse solver of\n\
PCAGGREGATION; with values that change, and with the factors of older values.\n\n";

#include "aggregation.h"

/* PETSc's own LU and MATSOLVERPETSCIDRS factor matrices of one process, cusparse matrices of one GPU */
static const char *const packages[] = {"petsc", "petscidrs", "klu", "mumps", "superlu_dist", "cusparse", "cudss"};

/* Returns row i of Convection(), after pairs of rows have been exchanged so that all diagonal entries are zero */
static PetscScalar Exchanged(PetscInt i, PetscInt j, PetscInt n)
{
  return Convection(i ^ 2, j, n);
}

/*
   Places of a factorisation: options of the preconditioner, and the prefix of the options of LU; options and prefix for packages
   that only factor matrices of one process; the matrix, or NULL for a cube
*/
static const struct {
  const char *name, *outer, *prefix, *blocks, *blockprefix;
  Entry      *entry;
  PetscInt    its; /* allowed with a factorisation of the whole matrix */
} places[] = {
  {"idrs",         "",                     "-",           "-pc_type bjacobi",             "-sub_",                 Convection, 1 },
  {"matching",     "-pc_type matching",    "-matching_",  "-matching_pc_type bjacobi",    "-matching_sub_",        Exchanged,  1 },
  {"coarse level", "-pc_type aggregation", "-mg_coarse_", "-mg_coarse_pc_type redundant", "-mg_coarse_redundant_", NULL,       14},
};

static PetscErrorCode MatrixCreate(size_t place, Mat *A)
{
  PetscFunctionBeginUser;
  if (places[place].entry) PetscCall(MatCreateEntries(places[place].entry, 4 * LINE * LINE, PETSC_FALSE, A));
  else PetscCall(KindCreate(CUBE_CENTRAL, 16, A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns whether a package factors this matrix, and whether it factors its diagonal blocks */
static PetscErrorCode PackageFactors(Mat A, const char package[], PetscBool *whole, PetscBool *blocks)
{
  Mat block;

  PetscFunctionBeginUser;
  PetscCall(MatGetFactorAvailable(A, package, MAT_FACTOR_LU, whole));
  PetscCall(MatGetDiagonalBlock(A, &block));
  PetscCall(MatGetFactorAvailable(block, package, MAT_FACTOR_LU, blocks));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a solver; each of the options must be read, so that the package is the one in use */
static PetscErrorCode SolverWith(Mat A, const char what[], const char options[], KSP *ksp)
{
  PetscOptions database;
  PetscInt     unread;

  PetscFunctionBeginUser;
  PetscCall(OptionsPush(options, &database));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, ksp));
  PetscCall(KSPSetOperators(*ksp, A, A));
  PetscCall(KSPSetType(*ksp, KSPIDRS));
  PetscCall(KSPSetPCSide(*ksp, PC_RIGHT));
  PetscCall(KSPSetTolerances(*ksp, rtol, 0.0, PETSC_DEFAULT, 100));
  PetscCall(KSPSetFromOptions(*ksp));
  PetscCall(KSPSetUp(*ksp));
  PetscCall(KSPSetUpOnBlocks(*ksp));
  PetscCall(PetscOptionsAllUsed(database, &unread));
  PetscCall(ComplainIf(unread, "%s: %" INT " options of \"%s\" are not read", what, unread, options));
  PetscCall(OptionsPop(&database));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode CheckIterations(const char what[], const char values[], KSP ksp, PetscInt most)
{
  PetscInt its;

  PetscFunctionBeginUser;
  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(ComplainIf(its > most, "%s, %s: %" INT " iterations, more than %" INT, what, values, its, most));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Solves with new factors, with the factors of older values that differ by up to 1 %, with their own factors, and with a matrix of
   another pattern
*/
static PetscErrorCode TestPlace(const char package[], size_t place, PetscBool whole)
{
  const char *const values[] = {"first values", "old factors", "new factors"};
  const char *const prefix   = whole ? places[place].prefix : places[place].blockprefix;
  const PetscInt    most     = whole || place == 2 ? places[place].its : 25;
  char              what[64], options[256];
  Mat               A;
  Vec               b, x, factor;
  KSP               ksp;

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s", package, places[place].name));
  PetscCall(PetscSNPrintf(options, sizeof(options), "%s %s %spc_type lu %spc_factor_mat_solver_type %s", places[place].outer,
                          whole ? "" : places[place].blocks, prefix, prefix, package));
  PetscCall(MatrixCreate(place, &A));
  PetscCall(SystemFor(A, &b, &x));
  PetscCall(VecDuplicate(b, &factor));
  PetscCall(VecSetGeneral(factor, 0.7));
  PetscCall(VecScale(factor, 0.01));
  PetscCall(VecShift(factor, 1.0));
  PetscCall(SolverWith(A, what, options, &ksp));
  for (PetscInt k = 0; k < 3; k++) {
    if (k == 1) PetscCall(MatDiagonalScale(A, factor, NULL));
    PetscCall(KSPSetReusePreconditioner(ksp, (PetscBool)(k == 1)));
    PetscCall(SolveSystem(what, ksp, A, b, x));
    PetscCall(CheckIterations(what, values[k], ksp, k == 1 ? most + 4 : most));
  }
  PetscCall(DestroyAll(&ksp, &factor, &x, &b, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestPackages(void)
{
  PetscFunctionBeginUser;
  for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(packages); k++) {
    PetscBool whole, blocks;
    Mat       A;

    PetscCall(MatrixCreate(0, &A));
    PetscCall(PackageFactors(A, packages[k], &whole, &blocks));
    PetscCall(MatDestroy(&A));
    if (!whole && !blocks) PetscCall(Skip("this PETSc does not have the package for this type of matrix"));
    if (PetscDefined(USE_COMPLEX) && !strcmp(packages[k], "klu")) {
      whole = blocks = PETSC_FALSE;
      PetscCall(Skip("PETSc's interface to KLU solves with the conjugate of a complex matrix"));
    }
    for (size_t place = 0; place < PETSC_STATIC_ARRAY_LENGTH(places) && (whole || blocks); place++)
      PetscCall(TestPlace(packages[k], place, whole));
    PetscCall(Verdict(packages[k]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestPackages, NULL})

/*TEST

  test:
    suffix: 1
    nsize: {{1 2}}

TEST*/
