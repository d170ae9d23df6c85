/*
   Products as the solver calls them: choice of the back end, and PETSc's MatMult(), which computes all matvecs outside of
   projections, and several columns if no back end runs
*/
#include <petsc/private/matimpl.h>
#include <petscidrs/private/idrsmemory.h>
#include <petscidrs/private/idrsproduct.h>
#include <petscidrs/private/idrscompat.h>

const char *const KSPIDRSProducts[] = {"auto", "mat", "csr", "sell", "KSPIDRSProduct", "KSP_IDRS_PRODUCT_", NULL};

/*
   A copy of the operator pays off after this many matvecs. No more copies are made after this many consecutive operators had fewer
*/
#define IDRS_FEW_MATVECS 30
#define IDRS_SHORT_LIVED 3

#if defined(PETSCIDRS_HAVE_CUDA)
/* Back ends, the fastest first */
static const IDRSProductOps *const IDRSProductList[] = {&IDRSProducts_Sell, &IDRSProducts_CSR};
#endif

/* IDRSProductReset - Frees the data of the back ends */
PetscErrorCode IDRSProductReset(IDRSProduct product)
{
  const IDRSProductOps *owner = product->backend ? product->backend : product->wide;

  PetscFunctionBegin;
  if (owner) PetscCall((*owner->reset)(product));
  product->backend = product->wide = NULL;
  product->bytes = product->seconds = 0.0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSMatGetState - Returns the present state of a matrix */
PetscErrorCode IDRSMatGetState(Mat A, IDRSMatState *state)
{
  Mat       blocks[2] = {NULL, NULL};
  PetscBool parallel;

  PetscFunctionBegin;
  PetscCall(PetscObjectGetId((PetscObject)A, &state->id));
  PetscCall(PetscObjectStateGet((PetscObject)A, &state->values));
  PetscCall(MatGetNonzeroState(A, &state->pattern));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &parallel, MATMPIAIJ, MATMPIAIJCUSPARSE, ""));
  if (parallel) PetscCall(MatMPIAIJGetSeqAIJ(A, &blocks[0], &blocks[1], NULL));
  for (PetscInt i = 0; i < 2 && blocks[i]; i++) {
    PetscObjectState values;

    PetscCall(PetscObjectStateGet((PetscObject)blocks[i], &values));
    state->values += values;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Reports an error on all processes if the requested product does not run on one of them */
static PetscErrorCode IDRSProductAgree_Private(Mat A, KSPIDRSProduct kind, const char why[])
{
  const MPI_Comm comm    = PetscObjectComm((PetscObject)A);
  PetscMPIInt    trouble = why ? 1 : 0;

  PetscFunctionBegin;
  IDRSCallAllreduce(MPI_IN_PLACE, &trouble, 1, MPI_INT, MPI_MAX, comm);
  PetscCheck(!trouble, comm, PETSC_ERR_SUP, "-ksp_idrs_product %s does not work here: %s (operator of type %s); use auto or mat",
             KSPIDRSProducts[kind], why ? why : "it does not run on another process", ((PetscObject)A)->type_name);
  PetscFunctionReturn(PETSC_SUCCESS);
}

#if defined(PETSCIDRS_HAVE_CUDA)
/*
   IDRSMatRuns - Returns the reason why kernels on the arrays of a matrix cannot replace MatMult(), or NULL. Some processes may use
   the arrays and others MatMult(), because both use the same scatter
*/
PetscErrorCode IDRSMatRuns(Mat A, const char *why[])
{
  PetscBool  sequential, parallel, assembled, usual;
  IDRSMemory place;
  PetscSF    scatter = NULL;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJCUSPARSE, &sequential));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJCUSPARSE, &parallel));
  PetscCall(IDRSMatWhere(A, &place));
  if (parallel) PetscCall(IDRSMatGetScatter(A, &scatter));
  PetscCall(MatAssembled(A, &assembled));
  if (!sequential && !parallel) *why = "the operator is not of type aijcusparse";
  else if (!assembled) *why = "the operator is not assembled";
  else if (place == IDRS_MEMORY_HOST) *why = "the operator is bound to the CPU";
  else if (parallel && !scatter) *why = "several processes need PETSc 3.26 or newer, which provides the scatter of the operator";
  else {
    PetscCall(IDRSMatHasUsualMult(A, &usual));
    if (!usual) *why = "the user has replaced MatMult() of the operator";
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The condition of all products that use the arrays */
PetscErrorCode IDRSProductRuns(IDRSProduct product, const char *why[])
{
  PetscFunctionBegin;
  PetscCall(IDRSMatRuns(product->A, why));
  if (!*why && product->transpose) *why = "the operator is applied transposed";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Chooses the product: the requested one or, with auto, the first of these that no condition excludes. If the memory of the GPU is
   too small for the requested sell, csr runs.

     product  excluded                             by
     sell     type, transpose, user's MatMult()    IDRSProductRuns()
              operators are short-lived            here
              rows have more than 12 entries       IDRSDeclineRows()
              one row would delay all others       IDRSDeclineRows()
              too much padding, too little memory  IDRSProductPlan_Sell()
     csr      type, transpose, user's MatMult()    IDRSProductRuns()
              rows have more than 12 entries       IDRSDeclineRows()
              one row would delay all others       IDRSDeclineRows()
     mat      never
*/
static PetscErrorCode IDRSProductChoose_Private(IDRSProduct product, PetscBool changed)
{
  const PetscBool automatic = (PetscBool)(product->kind == KSP_IDRS_PRODUCT_AUTO);
  PetscBool       named     = automatic;

  PetscFunctionBegin;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(IDRSProductList); i++) {
    const IDRSProductOps *backend = IDRSProductList[i];
    const PetscBool       before  = named;
    const char           *why     = NULL;
    PetscErrorCode        ierr;

    if (!named) PetscCall(PetscStrcmp(backend->name, KSPIDRSProducts[product->kind], &named));
    if (!named) continue;
    PetscCall(IDRSProductRuns(product, &why));
    /* the requested one; a process with too little memory for it goes on alone */
    if (!before) PetscCall(IDRSProductAgree_Private(product->A, product->kind, why));
    if (!why && automatic && backend == &IDRSProducts_Sell && product->shortlived >= IDRS_SHORT_LIVED)
      why = "the operator changes too often for a copy";
    if (!why) why = product->declined[i];
    if (!why) {
      if (product->backend != backend) {
        PetscCall(IDRSProductReset(product));
        changed = PETSC_TRUE;
      }
      product->backend = backend;
      ierr             = (*backend->setup)(product, changed, &why);
      if (ierr) (void)IDRSProductReset(product); /* its data are incomplete */
      PetscCall(ierr);
      if (!why) PetscFunctionReturn(PETSC_SUCCESS);
      PetscCall(PetscInfo(product->A, "Product %s is not used: %s\n", backend->name, why));
      product->declined[i] = why;
      PetscCall(IDRSProductReset(product));
    }
    if (!product->slower) product->slower = why;
  }
  if (product->backend) PetscCall(IDRSProductReset(product)); /* the back end of the last solve does not run in this one */
  PetscFunctionReturn(PETSC_SUCCESS);
}
#endif

/*
   IDRSProductSetMat - Sets the operator of a solve, and chooses the back end of its projections

   Input Parameters:
+  product   - the product
.  A         - the operator, referenced until another one is set
.  transpose - PETSC_TRUE to apply A^T
.  kind      - the requested product
-  alone     - the reason why projections cannot compute A u, or NULL
*/
PetscErrorCode IDRSProductSetMat(IDRSProduct product, Mat A, PetscBool transpose, KSPIDRSProduct kind, const char alone[])
{
  IDRSMatState state;
  PetscBool    changed;
#if defined(PETSCIDRS_HAVE_CUDA)
  PetscBool entries;
#endif

  PetscFunctionBegin;
  PetscCall(IDRSMatGetState(A, &state));
  changed = (PetscBool)(state.id != product->state.id || state.values != product->state.values);
  /* a copy pays off only if the operator is used for several matvecs */
  if (changed) {
    product->shortlived = product->state.id && product->matvecs < IDRS_FEW_MATVECS ? product->shortlived + 1 : 0;
    product->matvecs    = 0;
  } else if (product->matvecs >= IDRS_FEW_MATVECS) product->shortlived = 0;
  if (state.id != product->state.id || state.pattern != product->state.pattern || kind != product->kind) {
    PetscCall(IDRSProductReset(product));
    PetscCall(PetscArrayzero(product->declined, PETSC_STATIC_ARRAY_LENGTH(product->declined)));
  }
  PetscCall(PetscObjectReference((PetscObject)A));
  PetscCall(MatDestroy(&product->A));
  product->A          = A;
  product->transpose  = transpose;
  product->kind       = kind;
  product->slower     = alone;
  product->state      = state;
  product->widechosen = PETSC_FALSE;
  product->halo       = PETSC_FALSE;
  product->flops      = 0.0;
  if (kind == KSP_IDRS_PRODUCT_MAT || alone) {
    if (kind > KSP_IDRS_PRODUCT_MAT) PetscCall(IDRSProductAgree_Private(A, kind, alone));
    if (product->backend) PetscCall(IDRSProductReset(product));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
#if defined(PETSCIDRS_HAVE_CUDA)
  PetscCall(IDRSProductChoose_Private(product, changed));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &entries, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
  if (entries) {
    MatInfo info;

    PetscCall(MatGetInfo(A, MAT_LOCAL, &info));
    product->flops = 2.0 * info.nz_used;
  }
#endif
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSProductApply - Computes y = A x, without a projection */
PetscErrorCode IDRSProductApply(IDRSProduct product, Vec x, Vec y)
{
  PetscFunctionBegin;
  if (product->transpose) PetscCall(IDRSMatMultTranspose(product->A, x, y));
  else PetscCall(MatMult(product->A, x, y));
  product->matvecs++;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Updates the back end if values have changed during a solve */
static PetscErrorCode IDRSProductUpdate(IDRSProduct product, const IDRSProductOps *backend)
{
  const char  *why = NULL;
  IDRSMatState state;

  PetscFunctionBegin;
  PetscCall(IDRSMatGetState(product->A, &state));
  if (state.values != product->state.values) {
    PetscCall((*backend->setup)(product, PETSC_TRUE, &why));
    product->state = state;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSProductProject - Computes x = A u and the sums of its projection on a device */
PetscErrorCode IDRSProductProject(IDRSProduct product, const IDRSProjection *projection)
{
  PetscFunctionBegin;
  PetscCall(IDRSProductUpdate(product, product->backend));
  PetscCall(PetscLogEventBegin(MAT_Mult, product->A, 0, 0, 0)); /* the log then contains the matvec, with its inner products */
  PetscCall((*product->backend->project)(product, projection));
  PetscCall(PetscLogEventEnd(MAT_Mult, product->A, 0, 0, 0));
  product->matvecs++;
  PetscCall(PetscLogGpuFlops(product->flops));
  PetscFunctionReturn(PETSC_SUCCESS);
}

#if defined(PETSCIDRS_HAVE_CUDA)
/* Returns PETSC_TRUE if all these vectors are on the GPU */
static PetscErrorCode IDRSProductTakes_Private(PetscInt k, Vec X[], Vec Y[], PetscBool *takes)
{
  PetscFunctionBegin;
  *takes = PETSC_TRUE;
  for (PetscInt j = 0; j < 2 * k && *takes; j++) {
    IDRSMemory place;

    PetscCall(IDRSVecWhere(j < k ? X[j] : Y[j - k], &place));
    *takes = (PetscBool)(place == IDRS_MEMORY_CUDA);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Chooses the back end that computes Y = A X with this operator and vectors like these: the back end of the projections or, if they
   have none, csr, whose set-up is kept if it is chosen again. All processes must use the same scatters: either all have a back end
   and vectors on the GPU, or all call MatMult() for each column
*/
static PetscErrorCode IDRSProductChooseColumns_Private(IDRSProduct product, PetscInt k, Vec X[], Vec Y[])
{
  const MPI_Comm        comm   = PetscObjectComm((PetscObject)product->A);
  const IDRSProductOps *before = product->wide;
  PetscBool             takes  = PETSC_FALSE;
  PetscMPIInt           alone, any;
  MatInfo               info;

  PetscFunctionBegin;
  product->bycolumn = NULL;
  if (product->backend) product->wide = product->backend;
  else if (product->kind == KSP_IDRS_PRODUCT_MAT) product->bycolumn = "-ksp_idrs_product mat was requested";
  else {
    PetscCall(IDRSProductRuns(product, &product->bycolumn));
    if (!product->bycolumn) {
      if (before != &IDRSProducts_CSR) PetscCall(IDRSProductReset(product));
      product->wide = &IDRSProducts_CSR;
      PetscCall((*IDRSProducts_CSR.setup)(product, PETSC_TRUE, &product->bycolumn));
    }
    if (product->bycolumn) PetscCall(IDRSProductReset(product));
  }
  if (product->wide) {
    PetscCall(IDRSProductTakes_Private(k, X, Y, &takes));
    if (!takes) product->bycolumn = "vectors are not on the GPU";
  }
  any = alone = takes ? 0 : 1;
  IDRSCallAllreduce(&alone, &any, 1, MPI_INT, MPI_MAX, comm);
  if (any && product->wide) {
    if (!product->backend) PetscCall(IDRSProductReset(product));
    product->wide = NULL;
    if (!alone) product->bycolumn = "no back end for several columns runs on another process";
  }
  product->widechosen = PETSC_TRUE;
  if (!product->wide) {
    PetscCall(PetscInfo(product->A, "Products with several columns call MatMult() for each column: %s\n", product->bycolumn));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(MatGetInfo(product->A, MAT_LOCAL, &info));
  product->flops = 2.0 * info.nz_used;
  PetscFunctionReturn(PETSC_SUCCESS);
}
#endif

/*
   IDRSProductApplyColumns - Computes Y_j = A X_j, or A^T X_j, for several columns; collective

   Input Parameters:
+  product - the product, whose operator is set
.  k       - number of columns, 1 to IDRS_MAX_WIDTH
-  X       - vectors that A can multiply, or A^T in a transposed solve

   Output Parameter:
.  Y       - other vectors

   A is read once if, on all processes, a back end runs and the vectors of the first product with this operator are on the GPU;
   vectors of later products must be there, too. Then the bits of Y_j do not depend on the other columns, nor on their number.
   Otherwise MatMult() or MatMultTranspose() is called for each column
*/
PetscErrorCode IDRSProductApplyColumns(IDRSProduct product, PetscInt k, Vec X[], Vec Y[])
{
  PetscFunctionBegin;
  PetscCheck(k >= 1 && k <= IDRS_MAX_WIDTH, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
             "%" PetscInt_FMT " columns of a product, must be 1 to %d", k, IDRS_MAX_WIDTH);
#if defined(PETSCIDRS_HAVE_CUDA)
  if (!product->widechosen) PetscCall(IDRSProductChooseColumns_Private(product, k, X, Y));
  if (product->wide) {
    PetscBool takes;

    PetscCall(IDRSProductTakes_Private(k, X, Y, &takes));
    PetscCheck(takes, PETSC_COMM_SELF, PETSC_ERR_ARG_WRONGSTATE,
               "A vector of a product with %" PetscInt_FMT
               " columns is not on the GPU, but the vectors of the first product with this operator were",
               k);
    PetscCall(IDRSProductUpdate(product, product->wide));
    PetscCall(PetscLogEventBegin(MAT_MatMultNumeric, product->A, 0, 0, 0));
    PetscCall((*product->wide->columns)(product, k, X, Y));
    PetscCall(PetscLogEventEnd(MAT_MatMultNumeric, product->A, 0, 0, 0));
    PetscCall(PetscLogGpuFlops(product->flops * (PetscLogDouble)k));
    product->matvecs += k;
    PetscFunctionReturn(PETSC_SUCCESS);
  }
#endif
  for (PetscInt j = 0; j < k; j++) PetscCall(IDRSProductApply(product, X[j], Y[j]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

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
   IDRSProductGoesByRows - Returns PETSC_TRUE if products of several columns with this operator may copy X to row-major order on a
   device. The first such product allocates memory for the copy
*/
PetscErrorCode IDRSProductGoesByRows(Mat A, KSPIDRSProduct kind, PetscBool *byrows)
{
  PetscFunctionBegin;
  *byrows = PETSC_FALSE;
#if defined(PETSCIDRS_HAVE_CUDA)
  if (kind != KSP_IDRS_PRODUCT_MAT) {
    const char *why;
    PetscInt    n;
    MatInfo     info;

    PetscCall(IDRSMatRuns(A, &why));
    if (why) PetscFunctionReturn(PETSC_SUCCESS);
    PetscCall(MatGetLocalSize(A, &n, NULL));
    PetscCall(MatGetInfo(A, MAT_LOCAL, &info));
    /* several lanes share a row, see IDRSGetRowLanes() */
    *byrows = (PetscBool)(info.nz_used > 12.0 * (PetscLogDouble)n);
  }
#endif
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSProductDestroy(IDRSProduct *product)
{
  PetscFunctionBegin;
  if (*product) {
    PetscCall(IDRSProductReset(*product));
    PetscCall(MatDestroy(&(*product)->A));
  }
  PetscCall(PetscFree(*product));
  PetscFunctionReturn(PETSC_SUCCESS);
}
