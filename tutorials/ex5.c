static char help[] = "Many right-hand sides: the ocean circulation under the mean wind of each month, in three ways.\n\
  -f file   the matrix, in a format of linearsystem.h\n\
  -b file   the right-hand sides, the columns of a Matrix Market file\n\n";

/*
   Solves A x_j = b_j for all columns of a file

     1. with KSPMatSolve(): idrs solves many columns at the same time, with products that read A once and one reduction for all of
        them, and others such as bcgs column by column;
     2. in a loop with KSPSolve(), from zero;
     3. in a loop, from the solution of the previous column, which is a good guess if the columns change little.

   One KSP solves all systems: the preconditioner is set up once, and idrs keeps its work vectors. Only KSPSetOperators(), or a
   change of the matrix, sets them up again. Try

       ./ex5 -f matrices/stommel4.mtx.gz -b matrices/stommel4_b.mtx.gz -dll_append path/libpetscidrs.so -ksp_type idrs -pc_type ilu

   Options that matter:
     -ksp_idrs_s 1 -ksp_idrs_width 8        the method: with many columns a small s is best; so many columns at the same time
     -pc_type ilu -pc_factor_levels 3       with many right-hand sides an expensive set-up pays
     -ksp_rtol 1e-6                         also with the guesses of 3. relative to b, not to the first residual
     -vec_type cuda -mat_type aijcusparse   everything on a GPU
*/
#include <petscksp.h>
#include <petsctime.h>
#include "linearsystem.h"

/* Computes the true residual of system j, relative to its right-hand side, if it is larger than the largest so far */
static PetscErrorCode ResidualOfColumn(Mat A, Mat B, Mat X, PetscInt j, PetscReal *largest)
{
  Vec       b, x, r;
  PetscReal rnorm, bnorm;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(A, NULL, &r));
  PetscCall(MatDenseGetColumnVecRead(B, j, &b));
  PetscCall(MatDenseGetColumnVecRead(X, j, &x));
  PetscCall(MatMult(A, x, r));
  PetscCall(VecAYPX(r, -1.0, b));
  PetscCall(VecNorm(r, NORM_2, &rnorm));
  PetscCall(VecNorm(b, NORM_2, &bnorm));
  PetscCall(MatDenseRestoreColumnVecRead(X, j, &x));
  PetscCall(MatDenseRestoreColumnVecRead(B, j, &b));
  if (bnorm > 0.0) rnorm /= bnorm;
  if (!(rnorm <= *largest)) *largest = rnorm;
  PetscCall(VecDestroy(&r));
  PetscFunctionReturn(0);
}

/* Solves in a loop, each column from the solution of the previous one or from zero */
static PetscErrorCode SolveOneByOne(KSP ksp, Mat B, Mat X, PetscBool from_last)
{
  PetscInt columns;
  Vec      b, x, guess;
  Mat      A;

  PetscFunctionBeginUser;
  PetscCall(KSPGetOperators(ksp, &A, NULL));
  PetscCall(MatCreateVecs(A, &guess, NULL));
  PetscCall(VecSet(guess, 0.0));
  PetscCall(KSPSetInitialGuessNonzero(ksp, from_last));
  PetscCall(MatGetSize(B, NULL, &columns));
  for (PetscInt j = 0; j < columns; j++) {
    PetscCall(MatDenseGetColumnVecRead(B, j, &b));
    PetscCall(MatDenseGetColumnVecWrite(X, j, &x));
    PetscCall(VecCopy(guess, x));
    PetscCall(KSPSolve(ksp, b, x));
    if (from_last) PetscCall(VecCopy(x, guess));
    PetscCall(MatDenseRestoreColumnVecWrite(X, j, &x));
    PetscCall(MatDenseRestoreColumnVecRead(B, j, &b));
  }
  PetscCall(KSPSetInitialGuessNonzero(ksp, PETSC_FALSE));
  PetscCall(VecDestroy(&guess));
  PetscFunctionReturn(0);
}

/* Solves in one of the three ways, and prints its iterations, its time, and whether all columns are solved */
static PetscErrorCode SolveAll(KSP ksp, Mat A, Mat B, Mat X, int way)
{
  const char *const ways[] = {"KSPMatSolve()", "one by one, from zero", "one by one, from the last"};
  PetscReal         rtol, largest = 0.0;
  PetscInt          columns, before, after;
  PetscLogDouble    start, end;

  PetscFunctionBeginUser;
  PetscCall(KSPGetTotalIterations(ksp, &before));
  PetscCall(PetscTime(&start));
  if (way == 0) PetscCall(KSPMatSolve(ksp, B, X));
  else PetscCall(SolveOneByOne(ksp, B, X, (PetscBool)(way == 2)));
  PetscCall(PetscTime(&end));
  PetscCall(KSPGetTotalIterations(ksp, &after));
  PetscCall(KSPGetTolerances(ksp, &rtol, NULL, NULL, NULL));
  PetscCall(MatGetSize(B, NULL, &columns));
  for (PetscInt j = 0; j < columns; j++) PetscCall(ResidualOfColumn(A, B, X, j, &largest));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%-28s %10" PetscInt_FMT " iterations %10.4f s   ", ways[way], after - before,
                        (double)(end - start)));
  if (largest <= 1.1 * rtol) PetscCall(PetscPrintf(PETSC_COMM_WORLD, "all %" PetscInt_FMT " solved\n", columns));
  else PetscCall(PetscPrintf(PETSC_COMM_WORLD, "residual norms up to %g\n", (double)largest));
  PetscFunctionReturn(0);
}

/* Reads the columns of the file into a dense matrix, whose columns are vectors of the type of A */
static PetscErrorCode RightHandSides(Mat A, Mat *newmat)
{
  char      file[PETSC_MAX_PATH_LEN];
  PetscBool set, cuda;
  PetscInt  n, N, columns = 0;
  Vec       b, column;
  Mat       B;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetString(NULL, NULL, "-b", file, sizeof(file), &set));
  PetscCheck(set, PETSC_COMM_SELF, PETSC_ERR_USER_INPUT, "give right-hand sides with -b file, in Matrix Market format");
  PetscCall(MatrixMarketColumns(file, &columns));
  PetscCall(MatCreateVecs(A, NULL, &b));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)b, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(MatGetSize(A, &N, NULL));
  PetscCall(MatGetLocalSize(A, &n, NULL));
  PetscCall(MatCreate(PetscObjectComm((PetscObject)A), &B));
  PetscCall(MatSetSizes(B, n, PETSC_DECIDE, N, columns));
  PetscCall(MatSetType(B, cuda ? MATDENSECUDA : MATDENSE));
  PetscCall(MatSetUp(B));
  for (PetscInt j = 0; j < columns; j++) {
    PetscCall(VecLoadMatrixMarket(b, file, j));
    PetscCall(MatDenseGetColumnVecWrite(B, j, &column));
    PetscCall(VecCopy(b, column));
    PetscCall(MatDenseRestoreColumnVecWrite(B, j, &column));
  }
  PetscCall(MatAssemblyBegin(B, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(B, MAT_FINAL_ASSEMBLY));
  PetscCall(VecDestroy(&b));
  *newmat = B;
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  Mat            A, B, X;
  KSP            ksp;
  PetscLogDouble start, end;
  PetscBool      usable, failed = PETSC_FALSE;
  PetscErrorCode ierr;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(LinearSystemLoad(PETSC_COMM_WORLD, &A, NULL, NULL, 0, &usable));
  if (usable) {
    PetscCall(AttemptBegin());
    ierr = RightHandSides(A, &B);
    PetscCall(AttemptEnd(PETSC_COMM_WORLD, ierr, &failed));
    if (failed) PetscCall(AttemptPrint(PETSC_COMM_WORLD));
    else {
      PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
      PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
      PetscCall(KSPSetOperators(ksp, A, A));
      PetscCall(KSPSetPCSide(ksp, PC_RIGHT));
      PetscCall(KSPSetTolerances(ksp, PETSC_SQRT_MACHINE_EPSILON, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
      PetscCall(KSPSetFromOptions(ksp));
      PetscCall(PetscTime(&start));
      PetscCall(KSPSetUp(ksp));
      PetscCall(KSPSetUpOnBlocks(ksp));
      PetscCall(PetscTime(&end));
      PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%-28s %21s %10.4f s\n", "set-up", "", (double)(end - start)));
      for (int way = 0; way < 3; way++) PetscCall(SolveAll(ksp, A, B, X, way));
      PetscCall(KSPDestroy(&ksp));
      PetscCall(MatDestroy(&X));
      PetscCall(MatDestroy(&B));
    }
    PetscCall(MatDestroy(&A));
  }
  PetscCall(PetscFinalize());
  return usable && !failed ? 0 : 1; /* the reason has been printed */
}

/*TEST

  test:
    requires: double
    nsize: {{1 2}}
    args: -f ${PETSCIDRS_DIR}/tutorials/matrices/stommel4.mtx.gz -b ${PETSCIDRS_DIR}/tutorials/matrices/stommel4_b.mtx.gz -ksp_type idrs -pc_type {{jacobi bjacobi}}
    filter: sed -e "s/ *[0-9]* iterations//" -e "s/ *[0-9.]* s//"

TEST*/
