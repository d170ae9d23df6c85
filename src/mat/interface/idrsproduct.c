/*
   Products as the solver calls them: choice of the back end; and the back end "mat", PETSc's MatMult() of any operator
*/
#include <petscidrs/private/idrsproduct.h>
#include <petscidrs/private/idrscompat.h>

static PetscErrorCode IDRSProductRuns_Mat(Mat A, PetscBool transpose, const char *why[])
{
  PetscFunctionBegin;
  *why = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSProductApply_Mat(IDRSProduct product, Vec x, Vec y)
{
  PetscFunctionBegin;
  if (product->transpose) PetscCall(MatMultTranspose(product->A, x, y));
  else PetscCall(MatMult(product->A, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

const IDRSProductOps IDRSProducts_Mat = {
  .runs  = IDRSProductRuns_Mat,
  .apply = IDRSProductApply_Mat,
};

/* Back ends, the fastest first; the last one runs on every matrix */
static const IDRSProductOps *const IDRSProductList[] = {&IDRSProducts_Mat};

PetscErrorCode IDRSProductCreate(IDRSProduct *product)
{
  PetscFunctionBegin;
  PetscCall(PetscNew(product));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSProductSetMat - Chooses the back end for this matrix, or its transpose; the matrix is referenced until another one is set */
PetscErrorCode IDRSProductSetMat(IDRSProduct product, Mat A, PetscBool transpose)
{
  PetscFunctionBegin;
  PetscCall(PetscObjectReference((PetscObject)A));
  PetscCall(MatDestroy(&product->A));
  product->A         = A;
  product->transpose = transpose;
  product->backend   = NULL;
  for (size_t i = 0; !product->backend; i++) {
    const char *why;

    PetscCall((*IDRSProductList[i]->runs)(A, transpose, &why));
    if (!why) product->backend = IDRSProductList[i];
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSProductApply(IDRSProduct product, Vec x, Vec y)
{
  PetscFunctionBegin;
  PetscCall((*product->backend->apply)(product, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSProductDestroy(IDRSProduct *product)
{
  PetscFunctionBegin;
  if (*product) PetscCall(MatDestroy(&(*product)->A));
  PetscCall(PetscFree(*product));
  PetscFunctionReturn(PETSC_SUCCESS);
}
