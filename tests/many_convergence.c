static char help[] = "Matvecs per right-hand side of KSPIDRS with block recurrences, on real matrices: the median over the seeds\n\
is within 10 % of the counts of an independent study of the same method. If blocks do not help, it is not\n\
much above the count of single recurrences. Every column has the residual that it reports.\n\
  -matrices <directory> - where they are\n\n";

#include "../tutorials/matrixmarket.h"
#include "columns.h"
#include "hash.h"

#define SHADOW    4
#define MAX_SEEDS 15
#define WIDTHS    2

static const PetscInt widths[WIDTHS] = {8, 16};

typedef struct {
  const char *matrix, *pc;
  /*
     counts of the study by number of columns; it used complex scalars for complex matrices only. 0: compare with single recurrences
  */
  PetscInt  seeds, expected[WIDTHS];
  PetscBool imaginary; /* the matrix is complex */
  PetscReal most;      /* bound relative to expected */
} Problem;

static const Problem problems[] = {
  {"jpwh_991", PCNONE,   3,         {47, 40},   PETSC_FALSE, 1.1},
  {"sherman1", PCJACOBI, 3,         {113, 64},  PETSC_FALSE, 1.1},
  {"sherman1", PCILU,    3,         {30, 22},   PETSC_FALSE, 1.1},
  {"stommel4", PCJACOBI, 3,         {167, 115}, PETSC_FALSE, 1.1},
  {"stommel4", PCILU,    3,         {29, 25},   PETSC_FALSE, 1.1},
  {"orsreg_1", PCILU,    MAX_SEEDS, {54, 37},   PETSC_FALSE, 1.1},
  {"wedge4",   PCJACOBI, 7,         {154, 114}, PETSC_TRUE,  1.1},
  {"add32",    PCJACOBI, MAX_SEEDS, {0, 0},     PETSC_FALSE, 1.1},
  {"orsreg_1", PCJACOBI, 3,         {0, 0},     PETSC_FALSE, 1.3}
};

/* Loads the matrix of a file, or K + i omega C - omega^2 M at 4 Hz from the files of wedge4 */
static PetscErrorCode Load(const char name[], Mat *A)
{
  const char *const parts[] = {"_K", "_C", "_M"};
  const PetscScalar omega = 8.0 * PETSC_PI, factors[] = {1.0, PetscSqrtScalar(-1.0) * omega, -omega * omega};
  char              directory[PETSC_MAX_PATH_LEN] = ".", file[PETSC_MAX_PATH_LEN];
  PetscBool         wedge;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetString(NULL, NULL, "-matrices", directory, sizeof(directory), NULL));
  PetscCall(PetscStrcmp(name, "wedge4", &wedge));
  for (PetscInt i = 0; i < (wedge ? 3 : 1); i++) {
    Mat part;

    PetscCall(PetscSNPrintf(file, sizeof(file), "%s/%s%s.mtx.gz", directory, name, wedge ? parts[i] : ""));
    PetscCall(MatLoadMatrixMarket(PETSC_COMM_WORLD, file, i ? &part : A));
    if (!i) continue;
    PetscCall(MatAXPY(*A, factors[i], part, DIFFERENT_NONZERO_PATTERN));
    PetscCall(MatDestroy(&part));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Fills B with random columns */
static PetscErrorCode SetRandom(Mat A, PetscInt seed, Mat B)
{
  PetscInt begin, end, columns;
  Vec      b;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(A, NULL, &b));
  PetscCall(VecGetOwnershipRange(b, &begin, &end));
  PetscCall(MatGetSize(B, NULL, &columns));
  for (PetscInt j = 0; j < columns; j++) {
    for (PetscInt i = begin; i < end; i++)
      PetscCall(VecSetValue(b, i, (PetscReal)Shadow((uint64_t)(1000 + seed), (uint64_t)i, j) / 65536, INSERT_VALUES));
    PetscCall(VecAssemble(b));
    PetscCall(ColumnSet(B, j, b));
  }
  PetscCall(VecDestroy(&b));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the matvecs per column, as the median over the seeds */
static PetscErrorCode Median(KSP ksp, Mat A, PetscInt seeds, PetscInt columns, PetscBool block, PetscReal *median)
{
  PetscReal matvecs[MAX_SEEDS];
  Mat       B, X;

  PetscFunctionBeginUser;
  PetscCall(KSPIDRSSetBlock(ksp, block));
  PetscCall(BlockCreate(A, columns, &B));
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
  for (PetscInt seed = 0; seed < seeds; seed++) {
    PetscInt count;

    PetscCall(KSPIDRSSetShadowSeed(ksp, seed));
    PetscCall(SetRandom(A, seed, B));
    PetscCall(SolveAllColumns(block ? "block" : "a recurrence each", ksp, A, B, X, PETSC_TRUE));
    PetscCall(KSPIDRSGetCounts(ksp, &count, NULL, NULL, NULL));
    matvecs[seed] = (PetscReal)count / (PetscReal)columns;
  }
  PetscCall(PetscSortReal(seeds, matvecs));
  *median = matvecs[seeds / 2];
  PetscCall(DestroyAll(&B, &X));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(problems); i++) {
    const Problem *problem = &problems[i];
    PetscBool      device;
    Mat            A;
    KSP            ksp;

    if (problem->expected[0] && problem->imaginary != PetscDefined(USE_COMPLEX)) continue;
    PetscCall(Load(problem->matrix, &A));
    PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &device, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
    PetscCall(SolverCreate(A, SHADOW, problem->pc, &ksp));
    PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 10000));
    PetscCall(KSPSetFromOptions(ksp));
    for (PetscInt j = 0; j < WIDTHS; j++) {
      PetscReal expected = (PetscReal)problem->expected[j], bound, block;

      if (problem->expected[j]) {
        /*
           in addition to the recurrence: the verification, and the superfluous matvecs of a device at the end of each of its
           recurrences, since the host launches a matvec before it reads the norms
        */
        bound = problem->most * expected + 1 + (device ? 3 : 0);
      } else {
        PetscCall(Median(ksp, A, problem->seeds, widths[j], PETSC_FALSE, &expected));
        /* all columns of a block end in one step, and single recurrences in any step */
        bound = PetscMax(problem->most * expected, expected + 2 * (SHADOW + 1));
      }
      PetscCall(Median(ksp, A, problem->seeds, widths[j], PETSC_TRUE, &block));
      PetscCall(ComplainIf(!(block <= bound), "%s, %s, %" INT " columns: %g matvecs each, expected %g", problem->matrix,
                           problem->pc, widths[j], (double)block, (double)expected));
    }
    PetscCall(DestroyAll(&ksp, &A));
  }
  PetscCall(Verdict("matvecs of block recurrences"));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  # a residual of 1e-8 is below the attainable accuracy of single precision
  test:
    suffix: 1
    requires: double
    args: -matrices ${PETSCIDRS_DIR}/tutorials/matrices

TEST*/
