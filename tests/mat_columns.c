static char help[] = "Products with 1 to 16 columns, Y = A X, compared with long double: by MatMult() on aij, by csr and by\n\
sell on aijcusparse; rows of many lengths, matrices that change between products, operators that support\n\
only MatMult(), transposed operators, bad input.\n\
  -mat_type <aij>        - aijcusparse for the back ends of a GPU\n\
  -rows n1,n2,...        - numbers of rows of the small matrices\n\
  -large <1>             - factor of the numbers of rows of the large matrices, 0 for none\n\n";

#include <petscidrs/private/idrsproduct.h>
#include "patterns.h"

static MatType   type   = MATAIJ;
static PetscBool device = PETSC_FALSE;

/* X, the same vectors gathered on every process, and Y: IDRS_MAX_WIDTH vectors each */
typedef struct {
  Vec *X, *Y, all[IDRS_MAX_WIDTH];
} Blocks;

static PetscErrorCode BlocksCreate(Mat A, Blocks *blocks)
{
  Vec like;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(A, &like, NULL));
  PetscCall(VecDuplicateVecs(like, IDRS_MAX_WIDTH, &blocks->X));
  PetscCall(VecDuplicateVecs(like, IDRS_MAX_WIDTH, &blocks->Y));
  for (PetscInt j = 0; j < IDRS_MAX_WIDTH; j++) {
    PetscCall(VecSetNumbers(blocks->X[j], 300 + j, PETSC_TRUE));
    PetscCall(GatherCreate(blocks->X[j], &blocks->all[j]));
  }
  PetscCall(VecDestroy(&like));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode BlocksDestroy(Blocks *blocks)
{
  PetscFunctionBeginUser;
  PetscCall(VecDestroyVecs(IDRS_MAX_WIDTH, &blocks->X));
  PetscCall(VecDestroyVecs(IDRS_MAX_WIDTH, &blocks->Y));
  for (PetscInt j = 0; j < IDRS_MAX_WIDTH; j++) PetscCall(VecDestroy(&blocks->all[j]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Applies the product to k columns, and checks these columns of Y. The other columns must remain NaN */
static PetscErrorCode CheckColumns(IDRSProduct product, PetscInt k, const Blocks *blocks, const char what[])
{
  char name[256];

  PetscFunctionBeginUser;
  for (PetscInt j = 0; j < IDRS_MAX_WIDTH; j++) PetscCall(VecSet(blocks->Y[j], (PetscScalar)NAN));
  PetscCall(IDRSProductApplyColumns(product, k, blocks->X, blocks->Y));
  for (PetscInt j = 0; j < IDRS_MAX_WIDTH; j++) {
    PetscReal norm;
    PetscInt  N;

    PetscCall(PetscSNPrintf(name, sizeof(name), "%s, column %" INT " of %" INT, what, j, k));
    if (j < k) PetscCall(CheckRows(product->A, blocks->all[j], blocks->Y[j], name));
    else {
      PetscCall(VecGetSize(blocks->Y[j], &N));
      PetscCall(VecNorm(blocks->Y[j], NORM_INFINITY, &norm));
      PetscCall(ComplainIf(N && !PetscIsNanReal(norm), "%s was written to", name));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Tests a matrix with n rows on this process, with 16, 16 - step, ... columns: the back end, the products, the same bits for any
   other columns, and new values during a solve
*/
static PetscErrorCode Test(Pattern pattern, PetscInt n, KSPIDRSProduct kind, PetscInt step)
{
  PetscBool   same = PETSC_TRUE;
  char        what[128];
  const char *name;
  IDRSProduct product;
  Blocks      blocks;
  Vec        *all;
  Mat         A;

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s, %" INT " rows", KSPIDRSProducts[kind], patterns[pattern], n));
  PetscCall(PatternCreate(pattern, type, n, &A));
  PetscCall(BlocksCreate(A, &blocks));
  PetscCall(VecDuplicateVecs(blocks.Y[0], IDRS_MAX_WIDTH, &all));
  PetscCall(PetscNew(&product));
  PetscCall(IDRSProductSetMat(product, A, PETSC_FALSE, kind, NULL));
  for (PetscInt k = IDRS_MAX_WIDTH; k > 0; k -= step) {
    PetscCall(CheckColumns(product, k, &blocks, what));
    for (PetscInt j = 0; j < k && product->wide; j++) {
      if (k == IDRS_MAX_WIDTH) PetscCall(VecCopy(blocks.Y[j], all[j]));
      PetscCall(VecEqual(blocks.Y[j], all[j], &same));
      PetscCall(ComplainIf(!same, "%s: column %" INT " of %" INT " has other bits than among %d", what, j, k, IDRS_MAX_WIDTH));
    }
  }
  name = product->wide ? product->wide->name : KSPIDRSProducts[KSP_IDRS_PRODUCT_MAT];
  same = PETSC_TRUE;
  if (!device) same = (PetscBool)!product->wide;
  else if (kind != KSP_IDRS_PRODUCT_AUTO) PetscCall(PetscStrcmp(name, KSPIDRSProducts[kind], &same));
  PetscCall(ComplainIf(!same || (product->wide && product->bycolumn), "%s: product %s, %s", what, name,
                       product->bycolumn ? product->bycolumn : "without a reason"));
  PetscCall(MatScale(A, 0.3));
  PetscCall(CheckColumns(product, 5, &blocks, what));
  PetscCall(VecDestroyVecs(IDRS_MAX_WIDTH, &all));
  PetscCall(BlocksDestroy(&blocks));
  PetscCall(IDRSProductDestroy(&product));
  PetscCall(MatDestroy(&A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* y = 2 x */
static PetscErrorCode Double(Mat A, Vec x, Vec y)
{
  PetscFunctionBeginUser;
  PetscCall(VecCopy(x, y));
  PetscCall(VecScale(y, 2.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Operators that need a MatMult() for each column: a user's MatMult(), a shell, on request, and transposed */
static PetscErrorCode TestOthers(void)
{
  static const char *const names[] = {"MatMult() of the user", "shell", "mat"};
  Mat                      A[3];
  Blocks                   blocks;
  PetscInt                 n;

  PetscFunctionBeginUser;
  PetscCall(PatternCreate(GRID, type, 40, &A[0]));
  PetscCall(MatGetLocalSize(A[0], &n, NULL));
  PetscCall(MatCreateShell(PETSC_COMM_WORLD, n, n, PETSC_DETERMINE, PETSC_DETERMINE, NULL, &A[1]));
  PetscCall(MatDuplicate(A[0], MAT_COPY_VALUES, &A[2]));
  for (PetscInt i = 0; i < 2; i++) {
    PetscCall(MatSetOperation(A[i], MATOP_MULT, (void (*)(void))Double));
    PetscCall(MatSetOperation(A[i], MATOP_MULT_TRANSPOSE, (void (*)(void))Double));
  }
  PetscCall(BlocksCreate(A[0], &blocks));
  for (PetscInt i = 0; i < 6; i++) {
    const KSPIDRSProduct kind = i % 3 == 2 ? KSP_IDRS_PRODUCT_MAT : KSP_IDRS_PRODUCT_AUTO;
    IDRSProduct          product;

    PetscCall(PetscNew(&product));
    PetscCall(IDRSProductSetMat(product, A[i % 3], (PetscBool)(i > 2), kind, NULL));
    PetscCall(IDRSProductApplyColumns(product, 7, blocks.X, blocks.Y));
    for (PetscInt j = 0; j < 7; j++) {
      Vec y;

      PetscCall(VecDuplicate(blocks.Y[j], &y));
      if (i > 2) PetscCall(MatMultTranspose(A[i % 3], blocks.X[j], y));
      else PetscCall(MatMult(A[i % 3], blocks.X[j], y));
      /* on a GPU transposed products add in an order that varies */
      PetscCall(CheckClose(names[i % 3], blocks.Y[j], y, i == 5 ? 100 * PETSC_MACHINE_EPSILON : 0.0));
      PetscCall(VecDestroy(&y));
    }
    PetscCall(ComplainIf(product->wide, "%s: the columns did not take a MatMult() each", names[i % 3]));
    PetscCall(IDRSProductDestroy(&product));
  }
  PetscCall(BlocksDestroy(&blocks));
  for (PetscInt i = 0; i < 3; i++) PetscCall(MatDestroy(&A[i]));
  PetscCall(Verdict("operators that have only MatMult()"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A vector in another memory than the matrix, on some processes or all, can be multiplied (PETSc's MatMult() accepts an x, but no
   y, that is bound to the CPU), and so can the same vector twice
*/
static PetscErrorCode TestVecs(void)
{
  Mat         A;
  Blocks      blocks;
  IDRSProduct product;
  PetscMPIInt rank, size;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &size));
  PetscCall(PatternCreate(GRID, type, 300, &A));
  PetscCall(BlocksCreate(A, &blocks));
  PetscCall(PetscNew(&product));
  PetscCall(IDRSProductSetMat(product, A, PETSC_FALSE, KSP_IDRS_PRODUCT_AUTO, NULL));
  for (PetscInt bound = 0; bound < 4; bound++) { /* none, on the first process, on all, none */
    PetscCall(VecBindToCPU(blocks.X[2], (PetscBool)(bound == 2 || (bound == 1 && (!rank || ComparesProcesses(size))))));
    PetscCall(IDRSProductSetMat(product, A, PETSC_FALSE, KSP_IDRS_PRODUCT_AUTO, NULL));
    PetscCall(CheckColumns(product, 4, &blocks, bound % 3 ? "bound to the CPU" : "bound to nothing"));
    PetscCall(ComplainIf(device && (product->wide != NULL) != (bound % 3 == 0), "bound to the CPU: product %s",
                         product->wide ? product->wide->name : product->bycolumn));
  }
  PetscCall(IDRSProductApplyColumns(product, 3, (Vec[]){blocks.X[1], blocks.X[1], blocks.X[0]}, blocks.Y));
  for (PetscInt j = 0; j < 3; j++) PetscCall(CheckRows(A, blocks.all[j < 2 ? 1 : 0], blocks.Y[j], "a vector twice"));
  PetscCall(Verdict("vectors"));
  for (PetscInt i = 0; i < 2; i++) {
    CheckRefused(IDRSProductApplyColumns(product, i ? IDRS_MAX_WIDTH + 1 : 0, blocks.X, blocks.Y), i ? "17" : "0", "1 to 16");
  }
  PetscCall(Verdict("bad input"));
  PetscCall(IDRSProductDestroy(&product));
  PetscCall(BlocksDestroy(&blocks));
  PetscCall(MatDestroy(&A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscInt       rows[16] = {0, 1, 31, 33, 1000}, sizes = 5, factor = 1;
  const PetscInt large[PATTERNS] = {100000, 5001, 20001, 5001, 5001, 50001, 9000};
  char           given[64];
  PetscBool      set;
  PetscMPIInt    rank, size;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(RankAndSize(&rank, &size));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-mat_type", given, sizeof(given), &set));
  if (set) type = given;
  PetscCall(PetscStrcmp(type, MATAIJCUSPARSE, &device));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-large", &factor, NULL));
  PetscCall(ListFromOptions("-rows", 16, rows, &sizes));
  for (Pattern pattern = GRID; pattern < PATTERNS; pattern = (Pattern)(pattern + 1)) {
    for (KSPIDRSProduct kind = KSP_IDRS_PRODUCT_AUTO; kind <= KSP_IDRS_PRODUCT_SELL; kind = (KSPIDRSProduct)(kind + 1)) {
      if (kind != KSP_IDRS_PRODUCT_AUTO && (!device || kind == KSP_IDRS_PRODUCT_MAT)) continue;
      for (PetscInt i = 0; i < sizes; i++) {
        const PetscInt n = rows[(i + rank) % sizes]; /* a different number of rows on every process */

        PetscCall(Test(pattern, pattern == BLOCKS ? n - n % 3 : n, kind, 1));
      }
      if (factor) PetscCall(Test(pattern, factor * large[pattern] / size, kind, 8));
    }
    PetscCall(Verdict(patterns[pattern]));
  }
  PetscCall(TestOthers());
  EndAfter(250);
  PetscCall(TestVecs());
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}

TEST*/
