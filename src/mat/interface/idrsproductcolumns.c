/*
   Products with several columns: choice of the back end, A^T as a matrix, and MatMult() of each column if no back end runs
*/
#include <petsc/private/matimpl.h>
#include <petscidrs/private/idrsops.h>
#include <petscidrs/private/idrsproduct.h>
#include <petscidrs/private/idrscompat.h>
#include "idrsrowscatter.h"

/* Back ends for several columns that need no copy of A, if projections have no back end */
#if defined(PETSCIDRS_HAVE_CUDA)
static const IDRSProductOps *const IDRSColumnsList[] = {&IDRSProducts_CSR, &IDRSProducts_Host};
#else
static const IDRSProductOps *const IDRSColumnsList[] = {&IDRSProducts_Host};
#endif

/*
   IDRSMatHasUsualMult - Returns PETSC_TRUE if MatMult() is the function of the type, and not of the user. PETSC_FALSE for types not
   listed here
*/
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

/*
   Sets up the first back end that runs, or sets the reason why none does. The set-up is kept if the same back end is chosen again
*/
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

/* Returns PETSC_TRUE if the back end for several columns can use all these vectors: if it runs on the GPU, they must be there */
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
   All processes must use the same scatters: either all have a back end for several columns, and vectors that it accepts, or all
   call MatMult()
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
  /* all processes have a back end: one scatter of k numbers per row */
  if (!any && size > 1 && !product->rowscatter) PetscCall(IDRSRowScatterCreate(product->A, &product->rowscatter));
  if (any && product->wide) {
    if (!product->backend) PetscCall(IDRSProductReset(product));
    product->wide = NULL;
    if (!alone) product->bycolumn = "no back end for several columns runs on another process";
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Chooses the back end that computes Y = A X with this operator and vectors like these; NULL: MatMult() of each column */
static PetscErrorCode IDRSProductChooseColumns_Private(IDRSProduct product, PetscInt k, Vec X[], Vec Y[])
{
  MatInfo info;

  PetscFunctionBegin;
  product->bycolumn = NULL;
  if (product->backend) product->wide = product->backend;
  else if (product->kind == KSP_IDRS_PRODUCT_MAT) product->bycolumn = "-ksp_idrs_product mat was requested";
  else PetscCall(IDRSProductTryColumns_Private(product));
  PetscCall(IDRSProductAgreeColumns_Private(product, k, X, Y));
  product->widechosen = PETSC_TRUE;
  if (!product->wide) {
    PetscCall(PetscInfo(product->A, "Products with several columns call MatMult() for each column: %s\n", product->bycolumn));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(MatGetInfo(product->A, MAT_LOCAL, &info));
  product->flops = 2.0 * info.nz_used;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns PETSC_TRUE if A^T can be stored as a matrix, so that products read it once */
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
   Updates A^T, which is the operator of a separate product. MatTranspose() is collective. At the first product with an operator all
   processes agree on a reduction if A^T is still valid. Later each process decides on its own, from states that change on all
   processes. A^T is created again for new values, because after MAT_REUSE_MATRIX a MATAIJCUSPARSE has the old values on the device,
   up to PETSc 3.26 at least
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
  old = !transposed->A || transposed->of.id != state.id || transposed->of.pattern != state.pattern ||
        transposed->of.collective != state.collective || transposed->kind != product->kind;
  if (!product->widechosen) {
    if (transposed->of.values != state.values) old = 1;
    IDRSCallAllreduce(MPI_IN_PLACE, &old, 1, MPI_INT, MPI_MAX, PetscObjectComm((PetscObject)product->A));
    product->widechosen    = PETSC_TRUE;
    transposed->widechosen = PETSC_FALSE;
  }
  if (!old) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscInfo(product->A, "Products with several columns use an explicit transpose\n"));
  PetscCall(MatTranspose(product->A, MAT_INITIAL_MATRIX, &At));
  PetscCall(IDRSProductSetMat(transposed, At, PETSC_FALSE, product->kind, NULL));
  PetscCall(MatDestroy(&At));
  transposed->of = state;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes Y = A X by the back end */
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
   IDRSProductApplyColumns - Computes Y_j = A X_j, or A^T X_j, for several columns; collective

   Input Parameters:
+  product - the product, whose operator is set
.  k       - number of columns, 1 to IDRS_MAX_WIDTH
-  X       - vectors like those that the operator takes

   Output Parameter:
.  Y       - other vectors

   A is read once if, on all processes, a back end runs and the vectors of the first product with this operator are in the memory
   of the matrix, device or host; vectors of later products must be there, too. Then the bits of Y_j do not depend on the other
   columns, nor on their number. Otherwise MatMult() is called for each column
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
                 "A vector of a product with %" PetscInt_FMT
                 " columns is not on the GPU, but the vectors of the first product with this operator were",
                 k);
      PetscCall(IDRSProductWide_Private(product, k, X, Y));
      PetscFunctionReturn(PETSC_SUCCESS);
    }
  }
  for (PetscInt j = 0; j < k; j++) PetscCall(IDRSProductApply(product, X[j], Y[j]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSProductGoesByRows - Returns PETSC_TRUE if products of several columns with this operator, or its transpose, may copy X to
   row-major order on a device. The first such product allocates memory for the copy
*/
PetscErrorCode IDRSProductGoesByRows(Mat A, KSPIDRSProduct kind, PetscBool *byrows)
{
  PetscFunctionBegin;
  *byrows = PETSC_FALSE;
  if (kind != KSP_IDRS_PRODUCT_MAT) PetscCall((*IDRSColumnsList[0]->byrows)(A, byrows));
  PetscFunctionReturn(PETSC_SUCCESS);
}
