static char help[] = "Times factorisations and applications of PCILU and PCLU by MATSOLVERPETSCIDRS and by PETSc's own package\n\
for the type of the matrix, on 3-D convection-diffusion.\n\
  -edge 64               points of the cube in each direction\n\
  -unknowns 1            unknowns of each point, which are coupled with each other\n\
  -columns 1,2,4,8,16    right-hand sides of an application\n\
  -repeat 9              runs, of which the median is taken\n\
  -inner 20              applications of a run\n\
Options of PCFactor, as -pc_factor_levels and -pc_type lu, are those of both packages.\n\n";

#include <petscksp.h>
#include <petsctime.h>
#include "device.h"

#define MOST_COLUMNS 16

static PetscErrorCode GridCreate(PetscInt edge, PetscInt bs, Mat *A)
{
  const PetscInt n = edge * edge * edge, strides[] = {1, edge, edge * edge};

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_SELF, A));
  PetscCall(MatSetSizes(*A, n * bs, n * bs, n * bs, n * bs));
  PetscCall(MatSetType(*A, MATAIJ));
  PetscCall(MatSetFromOptions(*A));
  PetscCall(MatSetBlockSize(*A, bs));
  PetscCall(MatSeqAIJSetPreallocation(*A, 7 * bs, NULL));
  for (PetscInt row = 0; row < n * bs; row++) {
    for (PetscInt s = 0; s < bs; s++) {
      const PetscInt first = row / bs * bs + s;

      PetscCall(MatSetValue(*A, row, first, first == row ? 6.0 + bs : 0.5 / (1.0 + s + row % bs), INSERT_VALUES));
      for (PetscInt d = 0; d < 3; d++) {
        const PetscInt  place = row / bs / strides[d] % edge;
        const PetscReal wind = 0.3 * d, part = first == row ? 1.0 : 0.05;

        if (place > 0) PetscCall(MatSetValue(*A, row, first - strides[d] * bs, -part * (1.0 + wind), INSERT_VALUES));
        if (place < edge - 1) PetscCall(MatSetValue(*A, row, first + strides[d] * bs, -part * (1.0 - wind), INSERT_VALUES));
      }
    }
  }
  PetscCall(MatAssemblyBegin(*A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(*A, MAT_FINAL_ASSEMBLY));
  PetscFunctionReturn(0);
}

typedef PetscErrorCode Work(PC pc, Mat B, Mat X, Vec b, Vec x);

static PetscErrorCode ApplyMatrix(PC pc, Mat B, Mat X, Vec b, Vec x)
{
  PetscFunctionBeginUser;
  PetscCall(PCMatApply(pc, B, X));
  PetscFunctionReturn(0);
}

static PetscErrorCode ApplyVector(PC pc, Mat B, Mat X, Vec b, Vec x)
{
  PetscFunctionBeginUser;
  PetscCall(PCApply(pc, b, x));
  PetscFunctionReturn(0);
}

static PetscErrorCode ApplyTransposed(PC pc, Mat B, Mat X, Vec b, Vec x)
{
  PetscFunctionBeginUser;
  PetscCall(PCApplyTranspose(pc, b, x));
  PetscFunctionReturn(0);
}

/* With new values */
static PetscErrorCode SetUp(PC pc, Mat B, Mat X, Vec b, Vec x)
{
  Mat A;

  PetscFunctionBeginUser;
  PetscCall(PCGetOperators(pc, &A, NULL));
  PetscCall(MatScale(A, -1.0));
  PetscCall(PCSetUp(pc));
  PetscFunctionReturn(0);
}

/* Median of the microseconds of this work, after one run that does not count */
static PetscErrorCode Time(Work *work, PC pc, Mat B, Mat X, Vec b, Vec x, PetscInt repeat, PetscInt inner, PetscReal *median)
{
  PetscReal *times;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(repeat, &times));
  for (PetscInt i = -1; i < repeat; i++) {
    PetscLogDouble begin, end;

    PetscCall(DeviceWait(b));
    PetscCall(PetscTime(&begin));
    for (PetscInt l = 0; l < inner; l++) PetscCall(work(pc, B, X, b, x));
    PetscCall(DeviceWait(b));
    PetscCall(PetscTime(&end));
    if (i >= 0) times[i] = 1e6 * (end - begin) / (PetscReal)inner;
  }
  PetscCall(PetscSortReal(repeat, times));
  *median = times[repeat / 2];
  PetscCall(PetscFree(times));
  PetscFunctionReturn(0);
}

/* Columns on the memory of the vectors of A, with random entries */
static PetscErrorCode DenseCreate(Mat A, PetscInt columns, Mat *B)
{
  PetscInt  n;
  PetscBool gpu;

  PetscFunctionBeginUser;
  PetscCall(MatGetSize(A, &n, NULL));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, "seqaijcusparse", &gpu));
  PetscCall(MatCreate(PETSC_COMM_SELF, B));
  PetscCall(MatSetSizes(*B, n, columns, n, columns));
  PetscCall(MatSetType(*B, gpu ? "seqdensecuda" : MATSEQDENSE));
  PetscCall(MatSetUp(*B));
  PetscCall(MatSetRandom(*B, NULL));
  PetscFunctionReturn(0);
}

static PetscErrorCode TimePackage(Mat A, const char package[], PetscInt ncolumns, const PetscInt columns[], PetscInt repeat,
                                  PetscInt inner, PetscReal *reference)
{
  PetscLogDouble begin, end;
  PetscReal      time;
  PC             pc;
  Vec            b, x;

  PetscFunctionBeginUser;
  PetscCall(PCCreate(PETSC_COMM_SELF, &pc));
  PetscCall(PCSetOperators(pc, A, A));
  PetscCall(PCSetType(pc, PCILU));
  PetscCall(PCSetFromOptions(pc));
  if (package) PetscCall(PCFactorSetMatSolverType(pc, package));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecSetRandom(b, NULL));
  PetscCall(DeviceWait(b));
  PetscCall(PetscTime(&begin));
  PetscCall(PCSetUp(pc));
  PetscCall(DeviceWait(b));
  PetscCall(PetscTime(&end));
  PetscCall(PetscPrintf(PETSC_COMM_SELF, "  %-10s first set-up %10.0f us", package ? package : "PETSc", 1e6 * (end - begin)));
  PetscCall(Time(SetUp, pc, NULL, NULL, b, x, 3, 1, &time));
  PetscCall(PetscPrintf(PETSC_COMM_SELF, ", with new values %10.0f us\n", (double)time));
  PetscCall(Time(ApplyVector, pc, NULL, NULL, b, x, repeat, inner, &time));
  if (*reference == 0.0) *reference = time;
  PetscCall(PetscPrintf(PETSC_COMM_SELF, "  %-10s PCApply %8.1f us, %5.2f of PETSc's\n", package ? package : "PETSc", (double)time,
                        (double)(time / *reference)));
  PetscCall(Time(ApplyTransposed, pc, NULL, NULL, b, x, repeat, inner, &time));
  PetscCall(PetscPrintf(PETSC_COMM_SELF, "  %-10s PCApplyTranspose %8.1f us\n", package ? package : "PETSc", (double)time));
  for (PetscInt i = 0; i < ncolumns; i++) {
    Mat B, X;

    PetscCall(DenseCreate(A, columns[i], &B));
    PetscCall(DenseCreate(A, columns[i], &X));
    PetscCall(Time(ApplyMatrix, pc, B, X, b, x, repeat, package ? inner : 1, &time));
    PetscCall(PetscPrintf(PETSC_COMM_SELF, "  %-10s PCMatApply, %2" PetscInt_FMT " columns, %8.1f us, %5.2f of PETSc's PCApply\n",
                          package ? package : "PETSc", columns[i], (double)time, (double)(time / *reference)));
    PetscCall(MatDestroy(&B));
    PetscCall(MatDestroy(&X));
  }
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&x));
  PetscCall(PCDestroy(&pc));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  PetscInt  edge = 64, unknowns = 1, columns[MOST_COLUMNS] = {1, 2, 4, 8, 16}, count = MOST_COLUMNS, repeat = 9, inner = 20;
  PetscBool set;
  PetscReal reference = 0.0;
  Mat       A;
  MatType   type;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-edge", &edge, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-unknowns", &unknowns, NULL));
  PetscCall(PetscOptionsGetIntArray(NULL, NULL, "-columns", columns, &count, &set));
  if (!set) count = 5;
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-repeat", &repeat, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-inner", &inner, NULL));
  PetscCheck(edge > 0 && unknowns > 0 && repeat > 0 && inner > 0, PETSC_COMM_WORLD, PETSC_ERR_ARG_OUTOFRANGE,
             "-edge %" PetscInt_FMT ", -unknowns %" PetscInt_FMT ", -repeat %" PetscInt_FMT " and -inner %" PetscInt_FMT
             " must be positive",
             edge, unknowns, repeat, inner);
  PetscCall(GridCreate(edge, unknowns, &A));
  PetscCall(MatGetType(A, &type));
  PetscCall(PetscPrintf(PETSC_COMM_SELF, "%" PetscInt_FMT " points with %" PetscInt_FMT " unknowns each, matrix of type %s\n",
                        edge * edge * edge, unknowns, type));
  PetscCall(TimePackage(A, NULL, count, columns, repeat, inner, &reference));
  PetscCall(TimePackage(A, "petscidrs", count, columns, repeat, inner, &reference));
  PetscCall(MatDestroy(&A));
  PetscCall(PetscFinalize());
  return 0;
}
