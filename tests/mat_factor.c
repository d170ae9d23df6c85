static char help[] = "MATSOLVERPETSCIDRS on a GPU compared with PETSc's own factorisations on the host, on real matrices and\n\
generated ones: solves with one and many right-hand sides, transposed solves, levels, orderings, block\n\
sizes, values that change. The allowed difference is that of PETSc's factors of a matrix whose values are\n\
rounded differently. For matrices on the host the factors are PETSc's.\n\
  -matrices <directory> - where the matrices are\n\n";

#include "../tutorials/matrixmarket.h"
#include "hash.h"
#include "systems.h"

static PetscBool gpu; /* the matrices are of type aijcusparse */

/* Columns of the matrices of right-hand sides: more than the solver handles at a time */
#define COLUMNS 19

typedef struct {
  MatFactorType   type;
  PetscInt        levels;
  MatOrderingType ordering;
} Kind;

static const Kind kinds[] = {
  {MAT_FACTOR_ILU, 0, MATORDERINGNATURAL},
  {MAT_FACTOR_ILU, 2, MATORDERINGRCM    },
  {MAT_FACTOR_LU,  0, MATORDERINGND     },
  {MAT_FACTOR_ILU, 1, MATORDERINGNATURAL},
  {MAT_FACTOR_LU,  0, MATORDERINGNATURAL}
};
#define KINDS PETSC_STATIC_ARRAY_LENGTH(kinds)

static PetscErrorCode DenseCreate(PetscInt n, PetscInt columns, PetscInt ld, Mat *B)
{
  PetscScalar *b;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_SELF, B));
  PetscCall(MatSetSizes(*B, n, columns, n, columns));
  PetscCall(MatSetType(*B, MATSEQDENSE));
  PetscCall(MatDenseSetLDA(*B, ld));
  PetscCall(MatSeqDenseSetPreallocation(*B, NULL));
  PetscCall(MatDenseGetArrayWrite(*B, &b));
  for (PetscInt c = 0; c < columns; c++) {
    for (PetscInt i = 0; i < n; i++) b[i + (size_t)c * ld] = Number(7 + (uint64_t)c, (uint64_t)i);
  }
  PetscCall(MatDenseRestoreArrayWrite(*B, &b));
  PetscCall(MatAssemble(*B));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Converts to the type of the options, for matrices of one process */
static PetscErrorCode ToType(Mat A, Mat *B)
{
  PetscFunctionBeginUser;
  PetscCall(MatConvert(A, gpu ? "seqaijcusparse" : MATSEQAIJ, MAT_INITIAL_MATRIX, B));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Factor(Mat A, MatSolverType solver, const Kind *kind, MatFactorInfo *info, Mat *F)
{
  IS             row, col;
  PetscErrorCode ierr;

  PetscFunctionBeginUser;
  info->levels = kind->levels;
  PetscCall(MatGetFactor(A, solver, kind->type, F));
  PetscCall(MatGetOrdering(A, kind->ordering, &row, &col));
  if (kind->type == MAT_FACTOR_LU) ierr = MatLUFactorSymbolic(*F, A, row, col, info);
  else ierr = MatILUFactorSymbolic(*F, A, row, col, info);
  PetscCall(DestroyAll(&row, &col));
  if (!ierr) ierr = MatLUFactorNumeric(*F, A, info);
  PetscFunctionReturn(ierr); /* the caller may expect it */
}

static PetscErrorCode InfoCreate(MatFactorInfo *info)
{
  PetscFunctionBeginUser;
  PetscCall(MatFactorInfoInitialize(info));
  info->fill      = 1.0;
  info->zeropivot = 100.0 * PETSC_MACHINE_EPSILON;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Rounds the values differently */
static PetscErrorCode RoundOtherwise(Mat A, Mat *P)
{
  PetscScalar *a;
  MatInfo      info;

  PetscFunctionBeginUser;
  PetscCall(MatDuplicate(A, MAT_COPY_VALUES, P));
  PetscCall(MatGetInfo(*P, MAT_LOCAL, &info));
  PetscCall(MatSeqAIJGetArray(*P, &a));
  for (PetscInt p = 0; p < (PetscInt)info.nz_used; p++)
    a[p] *= (PetscReal)1.0 + (Shadow(3, (uint64_t)p, 0) > 0 ? 2 : -2) * PETSC_MACHINE_EPSILON;
  PetscCall(MatSeqAIJRestoreArray(*P, &a));
  PetscFunctionReturn(PETSC_SUCCESS);
}

typedef PetscErrorCode (*MatSolver)(Mat, Mat, Mat);

/* Computes the largest norm of a column of X - Y, relative to that column of Y */
static PetscErrorCode Difference(Mat X, Mat Y, PetscReal *difference)
{
  PetscReal errors[COLUMNS], norms[COLUMNS];
  PetscInt  columns;
  Mat       D;

  PetscFunctionBeginUser;
  PetscCall(MatGetSize(Y, NULL, &columns));
  PetscCall(MatConvert(X, MATSEQDENSE, MAT_INITIAL_MATRIX, &D));
  PetscCall(MatAXPY(D, -1.0, Y, SAME_NONZERO_PATTERN));
  PetscCall(MatGetColumnNorms(D, NORM_2, errors));
  PetscCall(MatGetColumnNorms(Y, NORM_2, norms));
  *difference = 0.0;
  for (PetscInt c = 0; c < columns; c++) {
    const PetscReal relative = errors[c] / (norms[c] > 0.0 ? norms[c] : (PetscReal)1.0);

    if (!(relative <= *difference)) *difference = relative; /* also a NaN */
  }
  PetscCall(MatDestroy(&D));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Compares solves with PETSc's factor R: one column, many columns with gaps in the memory of the host, and more than the solver
   handles at a time. Solves for one column as a vector, in place, and another time have the same bits. O is the factor of the
   matrix with differently rounded values
*/
static PetscErrorCode CompareSolves(const char what[], Mat F, Mat A, Mat R, Mat O)
{
  const PetscInt  columns[] = {1, 16, COLUMNS};
  const MatSolver solvers[] = {MatMatSolve, MatMatSolveTranspose};
  PetscInt        n;
  Mat             B, X, Y, Z;

  PetscFunctionBeginUser;
  PetscCall(MatGetSize(A, &n, NULL));
  for (PetscInt t = 0; t < 2; t++) {
    PetscReal allowed = 0.0, difference;

    PetscCall(DenseCreate(n, COLUMNS, n, &B));
    PetscCall(DenseCreate(n, COLUMNS, n, &Y));
    PetscCall(DenseCreate(n, COLUMNS, n, &Z));
    PetscCall(solvers[t](R, B, Y));
    PetscCall(solvers[t](O, B, Z));
    PetscCall(Difference(Z, Y, &allowed));
    allowed = 50.0 * allowed + 1000.0 * PETSC_MACHINE_EPSILON;
    PetscCall(DestroyAll(&Z, &B));
    for (PetscInt ic = 0; ic < 3 && allowed < 0.1; ic++) { /* else rounding errors dominate */
      PetscCall(MatDenseGetSubMatrix(Y, 0, n, 0, columns[ic], &Z));
      PetscCall(DenseCreate(n, columns[ic], n + ic % 2, &B));
      PetscCall(DenseCreate(n, columns[ic], n + 3 * (ic % 2), &X));
      if (ic != 1) {
        PetscCall(MatConvert(B, "seqdensecuda", MAT_INPLACE_MATRIX, &B));
        PetscCall(MatConvert(X, "seqdensecuda", MAT_INPLACE_MATRIX, &X));
      }
      PetscCall(solvers[t](F, B, X));
      PetscCall(Difference(X, Z, &difference));
      PetscCall(ComplainIf(!(difference <= allowed), "%s%s, %" INT " columns: %g from PETSc, and %g is allowed", what,
                           t ? ", transposed" : "", columns[ic], (double)difference, (double)allowed));
      PetscCall(MatDenseRestoreSubMatrix(Y, &Z));
      PetscCall(MatDuplicate(X, MAT_DO_NOT_COPY_VALUES, &Z));
      if (ic == 0) {
        Vec b, x;

        PetscCall(MatCreateVecs(A, &x, &b));
        PetscCall(ColumnGet(B, 0, b));
        if (t) PetscCall(MatSolveTranspose(F, b, x));
        else PetscCall(MatSolve(F, b, x));
        PetscCall(ColumnSet(Z, 0, x));
        PetscCall(DestroyAll(&x, &b));
      } else if (t) PetscCall(MatMatSolveTranspose(F, B, Z)); /* PETSc refuses to do this in place */
      else {
        PetscCall(MatCopy(B, Z, SAME_NONZERO_PATTERN));
        PetscCall(MatMatSolve(F, Z, Z));
      }
      PetscCall(Difference(Z, X, &difference));
      PetscCall(ComplainIf(difference != 0.0, "%s%s: a second solve with %" INT " columns has other bits", what,
                           t ? ", transposed" : "", columns[ic]));
      PetscCall(DestroyAll(&Z, &X, &B));
    }
    PetscCall(MatDestroy(&Y));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Compares the error of a factor, with the row and the value of the pivot */
static PetscErrorCode CompareErrors(const char what[], Mat F, Mat R, PetscBool *failed)
{
  MatFactorError error[2];
  PetscReal      value[2];
  PetscInt       row[2];

  PetscFunctionBeginUser;
  for (PetscInt l = 0; l < 2; l++) {
    PetscCall(MatFactorGetError(l ? R : F, &error[l]));
    PetscCall(MatFactorGetErrorZeroPivot(l ? R : F, &value[l], &row[l]));
  }
  PetscCall(ComplainIf(error[0] != error[1], "%s: factor error %d instead of %d", what, (int)error[0], (int)error[1]));
  *failed = (PetscBool)(error[0] || error[1]);
  /* the last zero pivot is reported, and pivots after the first zero depend on the division of complex numbers by zero */
  if (!*failed || PetscDefined(USE_COMPLEX)) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(ComplainIf(row[0] != row[1] || !(PetscAbsReal(value[0] - value[1]) <= 100.0 * PETSC_MACHINE_EPSILON),
                       "%s: pivot %g in row %" INT " instead of %g in row %" INT, what, (double)value[0], row[0], (double)value[1],
                       row[1]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Compares a factorisation, and another one of changed values with the same symbolic phase, with PETSc's. blocks: required block
   size of the factors, or 0 for any. On the host it checks that the factor is PETSc's
*/
static PetscErrorCode Compare(const char what[], Mat A, const Kind *kind, MatFactorInfo *info, PetscInt blocks)
{
  Mat       T, F, R, O, P;
  PetscBool failed = PETSC_FALSE, ours;
  PetscReal size[1];
  PetscInt  lines;
  char      name[256];

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(name, sizeof(name), "%s, %s(%" INT "), %s", what, kind->type == MAT_FACTOR_LU ? "lu" : "ilu",
                          kind->levels, kind->ordering));
  PetscCall(ToType(A, &T));
  PetscCall(Factor(T, MATSOLVERPETSCIDRS, kind, info, &F));
  PetscCall(PetscObjectTypeCompare((PetscObject)F, MATSOLVERPETSCIDRS, &ours));
  PetscCall(ComplainIf(gpu != ours, "%s: the factor is of type %s", name, ((PetscObject)F)->type_name));
  if (!gpu) {
    PetscCall(DestroyAll(&F, &T));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  for (PetscInt changed = 0; changed < 2; changed++) {
    if (changed) {
      PetscCall(MatScale(A, -3.0));
      PetscCall(MatScale(T, -3.0));
      PetscCall(MatLUFactorNumeric(F, T, info));
    }
    PetscCall(RoundOtherwise(A, &P));
    PetscCall(Factor(A, MATSOLVERPETSC, kind, info, &R));
    PetscCall(Factor(P, MATSOLVERPETSC, kind, info, &O));
    PetscCall(CompareErrors(name, F, R, &failed));
    if (!failed) PetscCall(CompareSolves(name, F, T, R, O));
    PetscCall(DestroyAll(&O, &R, &P));
  }
  PetscCall(DetailNumbers((PetscObject)F, "blocks of ", 1, size, &lines));
  PetscCall(ComplainIf(lines != 1 || (blocks && (PetscInt)size[0] != blocks), "%s: blocks of %g rows instead of %" INT, name,
                       (double)size[0], blocks));
  PetscCall(DestroyAll(&F, &T));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestReal(void)
{
  const char *const matrices[] = {"jpwh_991", "orsreg_1", "steam2", "memplus", "wedge4_K"};
  char              directory[PETSC_MAX_PATH_LEN], file[PETSC_MAX_PATH_LEN], type[64] = "";
  MatFactorInfo     info;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetString(NULL, NULL, "-mat_type", type, sizeof(type), NULL));
  PetscCall(PetscStrcmp(type, MATAIJCUSPARSE, &gpu));
  PetscCall(InfoCreate(&info));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-matrices", directory, sizeof(directory), NULL));
  for (size_t im = 0; im < PETSC_STATIC_ARRAY_LENGTH(matrices); im++) {
    Mat      A;
    PetscInt n;

    PetscCall(PetscSNPrintf(file, sizeof(file), "%s/%s.mtx.gz", directory, matrices[im]));
    PetscCall(MatLoadMatrixMarket(PETSC_COMM_SELF, file, &A));
    PetscCall(MatConvert(A, MATSEQAIJ, MAT_INPLACE_MATRIX, &A)); /* PETSc's factors are on the host */
    PetscCall(MatGetSize(A, &n, NULL));
    for (size_t ik = 0; ik < KINDS; ik++) {
      if (n < 1500 || ik == im % 2) PetscCall(Compare(matrices[im], A, &kinds[ik], &info, 1));
    }
    PetscCall(MatDestroy(&A));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a matrix of m x m points with bs unknowns each, in full blocks or, with gaps, in incomplete ones */
static PetscErrorCode BlockGridCreate(PetscInt m, PetscInt bs, PetscBool gaps, Mat *A)
{
  const PetscInt n = m * m;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_SELF, A));
  PetscCall(MatSetSizes(*A, n * bs, n * bs, n * bs, n * bs));
  PetscCall(MatSetType(*A, MATSEQAIJ));
  PetscCall(MatSetBlockSize(*A, bs));
  PetscCall(MatSeqAIJSetPreallocation(*A, 5 * bs, NULL));
  for (PetscInt i = 0; i < n; i++) {
    const PetscInt neighbours[] = {i, i % m ? i - 1 : -1, i % m < m - 1 ? i + 1 : -1, i - m, i + m < n ? i + m : -1};

    for (PetscInt l = 0; l < 5; l++) {
      for (PetscInt t = 0; neighbours[l] >= 0 && t < bs * bs; t++) {
        const PetscInt row = i * bs + t / bs, column = neighbours[l] * bs + t % bs;

        if (gaps && l && t == 1) continue;
        PetscCall(MatSetValue(*A, row, column,
                              Number(11, (uint64_t)row * n * bs + (uint64_t)column) + (row == column ? 3.0 * bs : 0.0),
                              INSERT_VALUES));
      }
    }
  }
  PetscCall(MatAssemble(*A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestBlocks(void)
{
  const PetscInt sizes[] = {1, 2, 3, 4, 8, 16, 17, 18}; /* blocks of more than 16 rows are divided if possible */
  MatFactorInfo  info;

  PetscFunctionBeginUser;
  PetscCall(InfoCreate(&info));
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
    const PetscInt bs = sizes[is];

    for (PetscInt gaps = 0; gaps < (bs == 3 ? 2 : 1); gaps++) {
      for (size_t ik = 0; ik < KINDS; ik++) {
        /* with gaps in the matrix, complete factors may have full blocks */
        const PetscInt expected = gaps ? (ik ? 0 : 1) : (bs == 17 ? 1 : (bs == 18 ? 9 : bs));
        char           what[64];
        Mat            A;

        /* an ordering of PETSc keeps the rows of a block consecutive if it finds equal rows, up to 5 of them */
        if (bs > 5 && strcmp(kinds[ik].ordering, MATORDERINGNATURAL)) continue;
        PetscCall(BlockGridCreate(bs < 5 ? 9 : 5, bs, (PetscBool)gaps, &A));
        PetscCall(PetscSNPrintf(what, sizeof(what), "blocks of %" INT "%s", bs, gaps ? " with gaps" : ""));
        PetscCall(Compare(what, A, &kinds[ik], &info, expected));
        PetscCall(MatDestroy(&A));
      }
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a grid with explicit zeros on the diagonal, in every seventh row */
static PetscErrorCode HolesCreate(PetscInt bs, Mat *A)
{
  PetscInt n;

  PetscFunctionBeginUser;
  PetscCall(BlockGridCreate(6, bs, PETSC_FALSE, A));
  PetscCall(MatGetSize(*A, &n, NULL));
  for (PetscInt row = 0; row < n; row += 7) PetscCall(MatSetValue(*A, row, row, 0.0, INSERT_VALUES));
  PetscCall(MatAssemble(*A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Shift types with matrices that need them, for which PETSc computes the values on the host, and good values after bad ones, for
   which the GPU computes them
*/
static PetscErrorCode TestPivots(void)
{
  const MatFactorShiftType types[] = {MAT_SHIFT_NONE, MAT_SHIFT_NONZERO, MAT_SHIFT_POSITIVE_DEFINITE, MAT_SHIFT_INBLOCKS};
  MatFactorInfo            info;
  Mat                      A, T, F;
  Vec                      b, x;
  MatFactorError           error;
  PetscReal                norm;
  PetscInt                 onhost;

  PetscFunctionBeginUser;
  PetscCall(InfoCreate(&info));
  for (size_t it = 0; it < PETSC_STATIC_ARRAY_LENGTH(types); it++) {
    for (PetscInt bs = 1; bs <= 3; bs += 2) {
      for (size_t ik = 0; ik < 3; ik++) {
        char what[64];

        info.shifttype   = (PetscReal)types[it];
        info.shiftamount = types[it] == MAT_SHIFT_INBLOCKS ? 0.5 : 0.01;
        /* the reference: PETSc 3.26.1 crashes if rows have equal columns */
        if (types[it] == MAT_SHIFT_POSITIVE_DEFINITE && bs > 1) continue;
        PetscCall(HolesCreate(bs, &A));
        PetscCall(PetscSNPrintf(what, sizeof(what), "zeros with shift %s, blocks of %" INT, MatFactorShiftTypes[types[it]], bs));
        /* without the sums of rows there are blocks unless a pivot is small */
        PetscCall(Compare(what, A, &kinds[ik], &info, ik == 0 || types[it] % 3 ? 1 : 0));
        PetscCall(MatDestroy(&A));
      }
    }
  }
  PetscCall(InfoCreate(&info));
  PetscCall(HolesCreate(1, &A));
  PetscCall(ToType(A, &T));
  PetscCall(MatCreateVecs(T, &x, &b));
  PetscCall(VecSetGeneral(b, 0.3));
  PetscCall(Factor(T, MATSOLVERPETSCIDRS, &kinds[0], &info, &F));
  PetscCall(MatFactorGetError(F, &error));
  PetscCall(ComplainIf(error != MAT_FACTOR_NUMERIC_ZEROPIVOT, "a zero pivot: factor error %d", (int)error));
  PetscCall(MatSolve(F, b, x));
  PetscCall(VecNorm(x, NORM_2, &norm));
  PetscCall(ComplainIf(!PetscIsInfOrNanReal(norm), "a solve after a zero pivot has norm %g", (double)norm));
  PetscCall(DetailNumbers((PetscObject)F, "numeric phase by PETSc on the host", 0, NULL, &onhost));
  PetscCall(ComplainIf(onhost != (gpu ? 1 : 0), "a zero pivot: the view has %" INT " lines", onhost));
  PetscCall(MatShift(T, 4.0));
  PetscCall(MatFactorClearError(F)); /* as PCSetUp() does */
  PetscCall(MatLUFactorNumeric(F, T, &info));
  PetscCall(MatFactorGetError(F, &error));
  PetscCall(ComplainIf(error != MAT_FACTOR_NOERROR, "good values after a zero pivot: factor error %d", (int)error));
  PetscCall(MatSolve(F, b, x));
  PetscCall(VecNorm(x, NORM_2, &norm));
  PetscCall(ComplainIf(!(norm > 0.0 && norm < 1e3), "a solve with good values has norm %g", (double)norm));
  PetscCall(DetailNumbers((PetscObject)F, "numeric phase by PETSc on the host", 0, NULL, &onhost));
  PetscCall(ComplainIf(onhost, "good values: the view has %" INT " lines", onhost));
  PetscCall(DestroyAll(&F, &x, &b, &T, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Creates a grid with blocks of up to 5 rows. The first block is close to a singular matrix: its last row is the sum of the others,
   except for this distance on the diagonal
*/
static PetscErrorCode SingularBlockCreate(PetscInt bs, PetscReal distance, Mat *A)
{
  const PetscInt rows[] = {0, 1, 2, 3, 4}, last = bs - 1;
  PetscScalar    block[4 * 5], sums[5]          = {0.0};

  PetscFunctionBeginUser;
  PetscCall(BlockGridCreate(4, bs, PETSC_FALSE, A));
  PetscCall(MatGetValues(*A, last, rows, bs, rows, block));
  for (PetscInt t = 0; t < last * bs; t++) sums[t % bs] += block[t];
  sums[last] += distance;
  PetscCall(MatSetValues(*A, 1, &last, bs, rows, sums, INSERT_VALUES));
  PetscCall(MatAssemble(*A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A singular or nearly singular diagonal block in a regular matrix: solves with its inverse lose twice as many digits as solves
   with factors by rows
*/
static PetscErrorCode TestSingularBlocks(void)
{
  const MatFactorShiftType types[]     = {MAT_SHIFT_NONE, MAT_SHIFT_INBLOCKS}; /* the other types always factor by rows */
  const PetscReal          distances[] = {1e-3, 1e-7, 0.0};
  MatFactorInfo            info;

  PetscFunctionBeginUser;
  for (size_t it = 0; it < PETSC_STATIC_ARRAY_LENGTH(types); it++) {
    for (size_t id = 0; id < PETSC_STATIC_ARRAY_LENGTH(distances); id++) {
      for (PetscInt bs = 2; bs <= 5; bs += 3) {
        for (size_t ik = 0; ik < KINDS; ik += KINDS - 1) {
          char what[64];
          Mat  A;

          PetscCall(InfoCreate(&info));
          info.shifttype   = (PetscReal)types[it];
          info.shiftamount = PetscDefined(USE_REAL_SINGLE) ? PETSC_SQRT_MACHINE_EPSILON : 1e-8; /* above rounding errors */
          PetscCall(SingularBlockCreate(bs, distances[id], &A));
          PetscCall(PetscSNPrintf(what, sizeof(what), "a block of %" INT " rows and %g, shift %s", bs, (double)distances[id],
                                  MatFactorShiftTypes[types[it]]));
          PetscCall(Compare(what, A, &kinds[ik], &info, 1));
          PetscCall(MatDestroy(&A));
        }
      }
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A NaN in the matrix or a right-hand side, with all bits, is a NaN in the solution, and does not affect other columns */
static PetscErrorCode TestNaN(void)
{
  MatFactorInfo info;
  Mat           A, T, F, B, X;
  PetscScalar  *b;
  PetscReal     norms[3], clean[3];

  PetscFunctionBeginUser;
  PetscCall(InfoCreate(&info));
  PetscCall(BlockGridCreate(8, 1, PETSC_FALSE, &A));
  PetscCall(ToType(A, &T));
  PetscCall(Factor(T, MATSOLVERPETSCIDRS, &kinds[0], &info, &F));
  PetscCall(DenseCreate(64, 3, 64, &B));
  PetscCall(DenseCreate(64, 3, 64, &X));
  PetscCall(MatMatSolve(F, B, X));
  PetscCall(MatGetColumnNorms(X, NORM_2, clean));
  PetscCall(MatDenseGetArray(B, &b));
  memset(&b[64], 0xff, sizeof(*b));
  PetscCall(MatDenseRestoreArray(B, &b));
  PetscCall(MatMatSolve(F, B, X));
  PetscCall(MatGetColumnNorms(X, NORM_2, norms));
  PetscCall(ComplainIf(norms[0] != clean[0] || norms[2] != clean[2] || !PetscIsNanReal(norms[1]),
                       "NaN in one of three columns: their norms are %g, %g and %g", (double)norms[0], (double)norms[1],
                       (double)norms[2]));
  PetscCall(MatSetValue(A, 20, 20, NAN, INSERT_VALUES));
  PetscCall(MatAssemble(A));
  PetscCall(MatCopy(A, T, SAME_NONZERO_PATTERN));
  PetscCall(MatLUFactorNumeric(F, T, &info));
  PetscCall(MatMatSolve(F, B, X));
  PetscCall(MatGetColumnNorms(X, NORM_2, norms));
  PetscCall(ComplainIf(!PetscIsNanReal(norms[0]) || !PetscIsNanReal(norms[2]), "NaN in the matrix: norms of columns are %g and %g",
                       (double)norms[0], (double)norms[2]));
  PetscCall(DestroyAll(&X, &B, &F, &T, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sizes 0 and 1, a diagonal matrix, a chain with a level for each row, and a row that depends on all others */
static PetscErrorCode TestShapes(void)
{
  const PetscInt sizes[] = {0, 1, 300, 14000, 20000}; /* all but the last fit into the shared memory of a cluster */
  MatFactorInfo  info;

  PetscFunctionBeginUser;
  PetscCall(InfoCreate(&info));
  for (PetscInt shape = 0; shape < 3; shape++) {
    for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
      const PetscInt n = sizes[is];
      Mat            A, T, F;
      char           what[64];

      PetscCall(MatCreateSeqAIJ(PETSC_COMM_SELF, n, n, 3, NULL, &A));
      PetscCall(MatSetOption(A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
      for (PetscInt row = 0; row < n; row++) {
        PetscCall(MatSetValue(A, row, row, 3.0 + Number(5, (uint64_t)row), INSERT_VALUES));
        if (shape == 1 && row) PetscCall(MatSetValue(A, row, row - 1, Number(6, (uint64_t)row), INSERT_VALUES));
        if (shape == 1 && row < n - 1) PetscCall(MatSetValue(A, row, row + 1, Number(7, (uint64_t)row), INSERT_VALUES));
        if (shape == 2 && row < n - 1) {
          PetscCall(MatSetValue(A, n - 1, row, Number(8, (uint64_t)row) / (PetscReal)n, INSERT_VALUES));
          PetscCall(MatSetValue(A, row, n - 1, Number(9, (uint64_t)row) / (PetscReal)n, INSERT_VALUES));
        }
      }
      PetscCall(MatAssemble(A));
      PetscCall(PetscSNPrintf(what, sizeof(what), "shape %" INT " of %" INT " rows", shape, n));
      if (n) PetscCall(Compare(what, A, &kinds[0], &info, 1));
      else {
        PetscCall(ToType(A, &T));
        PetscCall(Factor(T, MATSOLVERPETSCIDRS, &kinds[0], &info, &F));
        PetscCall(DestroyAll(&F, &T));
      }
      PetscCall(MatDestroy(&A));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Without a name PETSc chooses the same package as without the plugin */
static PetscErrorCode TestDefault(void)
{
  MatSolverType package;
  PetscBool     same;
  Mat           A, T, F;

  PetscFunctionBeginUser;
  PetscCall(BlockGridCreate(4, 1, PETSC_FALSE, &A));
  PetscCall(ToType(A, &T));
  PetscCall(MatGetFactor(T, NULL, MAT_FACTOR_ILU, &F));
  PetscCall(MatFactorGetSolverType(F, &package));
  PetscCall(PetscStrcmp(package, gpu ? "cusparse" : MATSOLVERPETSC, &same));
  PetscCall(ComplainIf(!same, "ILU without a name, %s: %s", gpu ? "aijcusparse" : "aij", package));
  PetscCall(DestroyAll(&F, &T, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestBadInput(void)
{
  MatFactorInfo info;
  Mat           A, T, F, B, X, R;

  PetscFunctionBeginUser;
  PetscCall(InfoCreate(&info));
  PetscCall(BlockGridCreate(5, 1, PETSC_FALSE, &A));
  PetscCall(ToType(A, &T));
  PetscCall(Factor(T, MATSOLVERPETSCIDRS, &kinds[0], &info, &F));
  PetscCall(DenseCreate(25, 3, 25, &B));
  PetscCall(DenseCreate(25, 3, 25, &X));
  PetscCall(MatCreateSeqAIJ(PETSC_COMM_SELF, 25, 3, 1, NULL, &R));
  PetscCall(MatAssemble(R));
  CheckRefused(MatGetFactor(R, MATSOLVERPETSCIDRS, MAT_FACTOR_LU, &R), "25 rows", "3 columns");
  CheckRefused(MatGetFactor(A, MATSOLVERPETSCIDRS, MAT_FACTOR_CHOLESKY, &R), "petscidrs", "CHOLESKY");
  if (gpu) {
    CheckRefused(MatMatSolve(F, R, X), "right-hand sides", "seqaij,");
    CheckRefused(MatMatSolveTranspose(F, B, R), "solutions", "seqaij;");
    CheckRefused(MatLUFactorNumeric(F, A, &info), "type seqaij,", "seqaijcusparse");
    PetscCall(MatSetOption(T, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
    PetscCall(MatSetValue(T, 0, 24, 1.0, INSERT_VALUES));
    PetscCall(MatAssemble(T));
    CheckRefused(MatLUFactorNumeric(F, T, &info), "pattern", "petscidrs");
    PetscCall(MatDestroy(&T));
    PetscCall(ToType(A, &T));
    PetscCall(MatLUFactorNumeric(F, T, &info)); /* another matrix with the old pattern */
    PetscCall(MatDestroy(&F));
    info.usedt = 1.0;
    info.dt    = 0.125;
    PetscCall(MatGetFactor(T, MATSOLVERPETSCIDRS, MAT_FACTOR_ILU, &F));
    CheckRefused(MatILUFactorSymbolic(F, T, NULL, NULL, &info), "drop tolerance", "0.125");
    info.usedt = 0.0;
#if PETSC_VERSION_GE(3, 23, 0)
    info.solveonhost = PETSC_TRUE;
    CheckRefused(MatILUFactorSymbolic(F, T, NULL, NULL, &info), "-pc_factor_mat_solve_on_host", "-pc_factor_mat_solver_type petsc");
    info.solveonhost = PETSC_FALSE;
#endif
    PetscCall(MatILUFactorSymbolic(F, T, NULL, NULL, &info)); /* the natural order */
    PetscCall(MatLUFactorNumeric(F, T, &info));
    PetscCall(MatMatSolve(F, B, X));
  }
  PetscCall(DestroyAll(&R, &F, &X, &B, &T, &A));

  PetscCall(MatCreateSeqAIJ(PETSC_COMM_SELF, 25, 25, 2, NULL, &A)); /* without entry (7, 7) */
  for (PetscInt row = 0; row < 25; row++) {
    if (row != 7) PetscCall(MatSetValue(A, row, row, 2.0, INSERT_VALUES));
    PetscCall(MatSetValue(A, row, (row + 1) % 25, 1.0, INSERT_VALUES));
  }
  PetscCall(MatAssemble(A));
  PetscCall(ToType(A, &T));
  CheckRefused(Factor(T, MATSOLVERPETSCIDRS, &kinds[0], &info, &F), "missing diagonal", "");
  PetscCall(DestroyAll(&F, &T, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestReal, "real matrices"}, {TestBlocks, "blocks"}, {TestPivots, "small pivots"},
          {TestSingularBlocks, "singular blocks"}, {TestNaN, "NaN"}, {TestShapes, "shapes"}, {TestDefault, "default package"},
          {TestBadInput, "bad input"})

/*TEST

  test:
    suffix: 1
    args: -matrices ${PETSCIDRS_DIR}/tutorials/matrices

TEST*/
