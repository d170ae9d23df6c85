/*
   Products as the solver calls them: choice of the back end, and PETSc's MatMult(), which computes all matvecs outside of
   projections
*/
#include <petsc/private/matimpl.h>
#include <petscidrs/private/idrsproduct.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsnorms.h>
#include "idrsrowscatter.h"

const char *const KSPIDRSProducts[] = {"auto", "mat", "csr", "sliced", "KSPIDRSProduct", "KSP_IDRS_PRODUCT_", NULL};

/*
   A copy of the operator pays off after this many matvecs. No more copies are made after this many consecutive operators had fewer
*/
#define IDRS_FEW_MATVECS 30
#define IDRS_SHORT_LIVED 3

#if defined(PETSCIDRS_HAVE_CUDA)
/* Back ends, the fastest first */
static const IDRSProductOps *const IDRSProductList[] = {&IDRSProducts_Sliced, &IDRSProducts_CSR};
#endif

PetscErrorCode IDRSProductCreate(IDRSProduct *product)
{
  PetscFunctionBegin;
  PetscCall(PetscNew(product));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSProductReset - Frees the data of the back ends */
PetscErrorCode IDRSProductReset(IDRSProduct product)
{
  const IDRSProductOps *owner = product->backend ? product->backend : product->wide;

  PetscFunctionBegin;
  if (owner) PetscCall((*owner->reset)(product));
  product->backend = product->wide = NULL;
  product->byrows                  = PETSC_FALSE;
  product->tilesize                = 0;
  product->notiles                 = NULL;
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
  PetscCall(PetscObjectStateGet((PetscObject)A, &state->collective));
  PetscCall(MatGetNonzeroState(A, &state->pattern));
  state->values = state->collective;
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
/* Sets up back end i for A, or for its new values, or returns the reason why it does not run */
static PetscErrorCode IDRSProductTry_Private(IDRSProduct product, size_t i, PetscBool changed, const char *why[])
{
  const IDRSProductOps *backend = IDRSProductList[i];
  PetscErrorCode        ierr;

  PetscFunctionBegin;
  *why = product->declined[i];
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  if (product->backend != backend) {
    PetscCall(IDRSProductReset(product));
    changed = PETSC_TRUE;
  }
  product->backend = backend;
  ierr             = (*backend->setup)(product, changed, why);
  if (ierr) (void)IDRSProductReset(product); /* its data are incomplete */
  PetscCall(ierr);
  if (!*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscInfo(product->A, "Product %s is not used: %s\n", backend->name, *why));
  product->declined[i] = *why;
  PetscCall(IDRSProductReset(product));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Chooses the requested product, or the next one in the list if there is too little memory; with auto the fastest that runs */
static PetscErrorCode IDRSProductChoose_Private(IDRSProduct product, PetscBool changed)
{
  const PetscBool automatic = (PetscBool)(product->kind == KSP_IDRS_PRODUCT_AUTO);
  PetscBool       named     = automatic;

  PetscFunctionBegin;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(IDRSProductList); i++) {
    const PetscBool before = named;
    const char     *why    = NULL;

    if (!named) PetscCall(PetscStrcmp(IDRSProductList[i]->name, KSPIDRSProducts[product->kind], &named));
    if (!named) continue;
    PetscCall((*IDRSProductList[i]->runs)(product, &why));
    /* the requested one; a process with too little memory for it goes on alone */
    if (!before) PetscCall(IDRSProductAgree_Private(product->A, product->kind, why));
    if (!why && automatic && IDRSProductList[i] == &IDRSProducts_Sliced && product->shortlived >= IDRS_SHORT_LIVED)
      why = "the operator changes too often for a copy";
    if (!why) PetscCall(IDRSProductTry_Private(product, i, changed, &why));
    if (!why) PetscFunctionReturn(PETSC_SUCCESS);
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
    PetscCall(IDRSRowScatterDestroy(&product->rowscatter));
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

/* IDRSProductUpdate - Updates the back end if values have changed during a solve */
PetscErrorCode IDRSProductUpdate(IDRSProduct product, const IDRSProductOps *backend)
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
  PetscCall((*product->backend->projection->project)(product, projection));
  PetscCall(PetscLogEventEnd(MAT_Mult, product->A, 0, 0, 0));
  product->matvecs++;
  PetscCall(PetscLogGpuFlops(product->flops));
  PetscFunctionReturn(PETSC_SUCCESS);
}

#if defined(PETSCIDRS_HAVE_CUDA)
/*
   IDRSProductConnect - Returns PETSC_TRUE if projections, or products with several columns, can exchange the halo inside their
   kernels. The product may be NULL on some processes. Collective. Both back ends have the same halo
*/
PetscErrorCode IDRSProductConnect(IDRSProduct product, MPI_Comm comm, PetscBool columns, PetscBool *connected)
{
  PetscFunctionBegin;
  PetscCall((*IDRSProductList[0]->projection->connect)(product, comm, columns ? IDRS_MAX_WIDTH : 1, connected));
  PetscFunctionReturn(PETSC_SUCCESS);
}
#endif

PetscErrorCode IDRSProductDestroy(IDRSProduct *product)
{
  PetscFunctionBegin;
  if (*product) {
    PetscCall(IDRSProductReset(*product));
    PetscCall(IDRSRowScatterDestroy(&(*product)->rowscatter));
    PetscCall(IDRSProductDestroy(&(*product)->transposed));
    PetscCall(MatDestroy(&(*product)->A));
  }
  PetscCall(PetscFree(*product));
  PetscFunctionReturn(PETSC_SUCCESS);
}
