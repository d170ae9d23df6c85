#include <petscidrs/private/idrscompat.h>
#include "runs.h"

/*
   IDRSMatRuns_CUDA - Returns the reason why the arrays cannot replace MatMult(), or NULL. Some processes may use the arrays and
   others MatMult(), because both use the same scatter
*/
PetscErrorCode IDRSMatRuns_CUDA(Mat A, const char *why[])
{
  PetscBool sequential, parallel, assembled, usual;
  IDRSPlace place;
  PetscSF   scatter = NULL;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJCUSPARSE, &sequential));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJCUSPARSE, &parallel));
  PetscCall(IDRSMatWhere(A, &place));
  if (parallel) PetscCall(IDRSMatGetScatter(A, &scatter));
  PetscCall(MatAssembled(A, &assembled));
  if (!sequential && !parallel) *why = "the operator is not of type aijcusparse";
  else if (!assembled) *why = "the operator is not assembled";
  else if (place == IDRS_PLACE_HOST) *why = "the operator is bound to the CPU";
  else if (parallel && !scatter) *why = "several processes need PETSc 3.26 or newer, which provides the scatter of the operator";
  else {
    PetscCall(IDRSMatHasUsualMult(A, &usual));
    if (!usual) *why = "the user has replaced MatMult() of the operator";
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The condition of all products that use the arrays */
PetscErrorCode IDRSProductRuns_CUDA(IDRSProduct product, const char *why[])
{
  PetscFunctionBegin;
  PetscCall(IDRSMatRuns_CUDA(product->A, why));
  if (!*why && product->transpose) *why = "the operator is applied transposed";
  PetscFunctionReturn(PETSC_SUCCESS);
}
