/*
   Products with several columns: choice of the back end, A^T as a matrix, and MatMult() of each column where A cannot be read once
   for all
*/
#include <petsc/private/matimpl.h>
#include <petscidrs/private/idrsops.h>
#include <petscidrs/private/idrsproduct.h>
#include <petscidrs/private/idrscompat.h>
#include "idrsrowscatter.h"

/* Back ends of several columns beside those that projections have, which need no copy of A */
#if defined(PETSCIDRS_HAVE_CUDA)
static const IDRSProductOps *const IDRSColumnsList[] = {&IDRSProducts_CSR, &IDRSProducts_Host};
#else
static const IDRSProductOps *const IDRSColumnsList[] = {&IDRSProducts_Host};
#endif

/* IDRSMatHasUsualMult - Whether MatMult() is that of the type, which a user may have replaced; for the types here */
PetscErrorCode IDRSMatHasUsualMult(Mat A, PetscBool *usual)
{
  static const MatType types[]                                 = {MATSEQAIJ, MATMPIAIJ, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE};
  static void (*known[PETSC_STATIC_ARRAY_LENGTH(types)])(void) = {NULL};
  Mat like;
  void (*mult)(void);

  PetscFunctionBegin;
  *usual = PETSC_FALSE;
  PetscCall(MatGetOperation(A, MATOP_MULT, &mult));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(types); i++) {
    PetscBool same;

    PetscCall(PetscObjectTypeCompare((PetscObject)A, types[i], &same));
    if (!same) continue;
    if (!known[i]) {
      PetscCall(MatCreate(PETSC_COMM_SELF, &like));
      PetscCall(MatSetSizes(like, 0, 0, 0, 0));
      PetscCall(MatSetType(like, types[i]));
      PetscCall(MatGetOperation(like, MATOP_MULT, &known[i]));
      PetscCall(MatDestroy(&like));
    }
    *usual = (PetscBool)(mult == known[i]);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The first back end that runs, or why none does. What was set up for several columns alone stays where it is taken again */
static PetscErrorCode IDRSProductTryColumns_Private(IDRSProduct product)
{
  const IDRSProductOps *before = product->wide;
  const char           *why    = NULL;

  PetscFunctionBegin;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(IDRSColumnsList); i++) {
    const IDRSProductOps *backend = IDRSColumnsList[i];

    PetscCall((*backend->runs)(product, &why));
    if (!why) {
      if (before != backend) PetscCall(IDRSProductReset(product));
      product->wide = backend;
      PetscCall((*backend->setup)(product, PETSC_TRUE, &why));
    }
    if (!why) {
      product->bycolumn = NULL;
      PetscFunctionReturn(PETSC_SUCCESS);
    }
    if (!product->bycolumn) product->bycolumn = why;
  }
  PetscCall(IDRSProductReset(product));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns PETSC_TRUE if the back end of several columns can use all these vectors, which are on the side of the matrix then */
static PetscErrorCode IDRSProductTakes_Private(IDRSProduct product, PetscInt k, Vec X[], Vec Y[], PetscBool *takes)
{
  PetscFunctionBegin;
  *takes = PETSC_TRUE;
  if (!product->wide->projection) PetscFunctionReturn(PETSC_SUCCESS);
  for (PetscInt j = 0; j < 2 * k && *takes; j++) {
    IDRSPlace place;

    PetscCall(IDRSVecWhere(j < k ? X[j] : Y[j - k], &place));
    *takes = (PetscBool)(place == IDRS_PLACE_CUDA);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The scatters of all columns at once and those of MatMult() do not meet: all processes have a back end of several columns, and
   vectors that it takes, or none has
*/
static PetscErrorCode IDRSProductAgreeColumns_Private(IDRSProduct product, PetscInt k, Vec X[], Vec Y[])
{
  const MPI_Comm comm  = PetscObjectComm((PetscObject)product->A);
  PetscBool      takes = PETSC_FALSE;
  PetscMPIInt    alone, any, size;

  PetscFunctionBegin;
  if (product->wide) {
    PetscCall(IDRSProductTakes_Private(product, k, X, Y, &takes));
    if (!takes) product->bycolumn = "vectors are not on the GPU";
  }
  any = alone = takes ? 0 : 1;
  IDRSCallAllreduce(&alone, &any, 1, MPI_INT, MPI_MAX, comm);
  PetscCallMPI(MPI_Comm_size(comm, &size));
  /* all processes have a back end: one scatter of k numbers a row */
  if (!any && size > 1 && !product->rowscatter) PetscCall(IDRSRowScatterCreate(product->A, &product->rowscatter));
  if (any && product->wide) {
    if (!product->backend) PetscCall(IDRSProductReset(product));
    product->wide = NULL;
    if (!alone) product->bycolumn = "another process cannot read its rows once for all columns";
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The back end that computes Y = A X with this operator and vectors like these, which may be MatMult() of each column */
static PetscErrorCode IDRSProductChooseColumns_Private(IDRSProduct product, PetscInt k, Vec X[], Vec Y[])
{
  MatInfo info;

  PetscFunctionBegin;
  product->bycolumn = NULL;
  if (product->backend) product->wide = product->backend;
  else if (product->kind == KSP_IDRS_PRODUCT_MAT) product->bycolumn = "MatMult() is asked for";
  else PetscCall(IDRSProductTryColumns_Private(product));
  PetscCall(IDRSProductAgreeColumns_Private(product, k, X, Y));
  product->widechosen = PETSC_TRUE;
  if (!product->wide) {
    PetscCall(PetscInfo(product->A, "Several columns take a MatMult() each: %s\n", product->bycolumn));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(MatGetInfo(product->A, MAT_LOCAL, &info));
  product->flops = 2.0 * info.nz_used;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns PETSC_TRUE if A^T can be made as a matrix whose products read it once */
static PetscErrorCode IDRSProductTransposes_Private(IDRSProduct product, PetscBool *can)
{
  PetscFunctionBegin;
  *can = PETSC_FALSE;
  if (product->kind == KSP_IDRS_PRODUCT_MAT) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(
    PetscObjectTypeCompareAny((PetscObject)product->A, can, MATSEQAIJ, MATMPIAIJ, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
  if (*can) PetscCall(IDRSMatHasUsualMult(product->A, can));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A^T as the operator of a product of its own, whose values are those of A. MatTranspose() takes all processes: they agree on it at
   the first product with this operator, and after that each sees by itself what all have changed together. It is made anew for new
   values: after MAT_REUSE_MATRIX a MATAIJCUSPARSE has the old ones on the device, up to PETSc 3.26 at least
*/
static PetscErrorCode IDRSProductTranspose_Private(IDRSProduct product)
{
  IDRSProduct  transposed = product->transposed;
  PetscMPIInt  old;
  IDRSMatState state;
  Mat          At;

  PetscFunctionBegin;
  if (!transposed) {
    PetscCall(IDRSProductCreate(&transposed));
    product->transposed = transposed;
  }
  PetscCall(IDRSMatGetState(product->A, &state));
  /* A^T is made again if the matrix, its pattern, its values or the product asked for have changed */
  old = !transposed->A || transposed->of.id != state.id || transposed->of.pattern != state.pattern ||
        transposed->of.collective != state.collective || transposed->kind != product->kind;
  if (!product->widechosen) {
    if (transposed->of.values != state.values) old = 1;
    IDRSCallAllreduce(MPI_IN_PLACE, &old, 1, MPI_INT, MPI_MAX, PetscObjectComm((PetscObject)product->A));
    product->widechosen    = PETSC_TRUE;
    transposed->widechosen = PETSC_FALSE;
  }
  if (!old) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscInfo(product->A, "Several columns take the transpose of the operator as a matrix\n"));
  PetscCall(MatTranspose(product->A, MAT_INITIAL_MATRIX, &At));
  PetscCall(IDRSProductSetMat(transposed, At, PETSC_FALSE, product->kind, NULL));
  PetscCall(MatDestroy(&At));
  transposed->of = state;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* By the back end, in one go */
static PetscErrorCode IDRSProductWide_Private(IDRSProduct product, PetscInt k, Vec X[], Vec Y[])
{
  const PetscLogDouble flops = product->flops * (PetscLogDouble)k;

  PetscFunctionBegin;
  PetscCall(IDRSProductUpdate(product, product->wide));
  PetscCall(PetscLogEventBegin(MAT_MatMultNumeric, product->A, 0, 0, 0));
  PetscCall((*product->wide->columns)(product, k, X, Y));
  PetscCall(PetscLogEventEnd(MAT_MatMultNumeric, product->A, 0, 0, 0));
  if (product->wide->projection) PetscCall(PetscLogGpuFlops(flops));
  else PetscCall(PetscLogFlops(flops));
  product->matvecs += k;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSProductApplyColumns - Y_j = A X_j by itself, or A^T X_j, for several columns; collective

   Input Parameters:
+  product - the product, whose operator is set
.  k       - number of columns, 1 to IDRS_MAX_WIDTH
-  X       - vectors like those that the operator takes

   Output Parameter:
.  Y       - other vectors

   A is read once, where a back end runs and the vectors of the first product with this operator are on the side of the matrix,
   device or host, on all processes; vectors of later products must be there, too. Then Y_j does not depend on the other columns,
   nor on whether there are any, to the last bit. Else each column is multiplied by MatMult()
*/
PetscErrorCode IDRSProductApplyColumns(IDRSProduct product, PetscInt k, Vec X[], Vec Y[])
{
  PetscBool can = PETSC_FALSE;

  PetscFunctionBegin;
  PetscCheck(k >= 1 && k <= IDRS_MAX_WIDTH, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
             "%" PetscInt_FMT " columns of a product, must be 1 to %d", k, IDRS_MAX_WIDTH);
  if (product->transpose) {
    PetscCall(IDRSProductTransposes_Private(product, &can));
    /* Y = A^T X by A^T as a matrix */
    if (can) {
      PetscCall(IDRSProductTranspose_Private(product));
      PetscCall(IDRSProductApplyColumns(product->transposed, k, X, Y));
      product->matvecs += k;
      PetscFunctionReturn(PETSC_SUCCESS);
    }
  } else {
    if (!product->widechosen) PetscCall(IDRSProductChooseColumns_Private(product, k, X, Y));
    if (product->wide) {
      PetscCall(IDRSProductTakes_Private(product, k, X, Y, &can));
      PetscCheck(can, PETSC_COMM_SELF, PETSC_ERR_ARG_WRONGSTATE,
                 "A vector of this product of %" PetscInt_FMT
                 " columns is not on the GPU, where those of the first product with this operator were",
                 k);
      PetscCall(IDRSProductWide_Private(product, k, X, Y));
      PetscFunctionReturn(PETSC_SUCCESS);
    }
  }
  for (PetscInt j = 0; j < k; j++) PetscCall(IDRSProductApply(product, X[j], Y[j]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSProductGoesByRows - Whether products of several columns with this operator, or its transpose, may need a block by rows on a
   device: memory that they allocate when the first of them is computed
*/
PetscErrorCode IDRSProductGoesByRows(Mat A, KSPIDRSProduct kind, PetscBool *byrows)
{
  PetscFunctionBegin;
  *byrows = PETSC_FALSE;
  if (kind != KSP_IDRS_PRODUCT_MAT) PetscCall((*IDRSColumnsList[0]->byrows)(A, byrows));
  PetscFunctionReturn(PETSC_SUCCESS);
}
