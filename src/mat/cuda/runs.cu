#include <petscidrs/private/idrscompat.h>
#include "runs.h"

/*
   IDRSMatRuns_CUDA - Why the arrays cannot take the place of MatMult(), or NULL. Where some processes use them and others
   MatMult(), they go through the same scatter
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
  else if (parallel && !scatter)
    *why = "on several processes it needs the scatter of the operator, which PETSc 3.26 and newer tell";
  else {
    PetscCall(IDRSMatHasUsualMult(A, &usual));
    if (!usual) *why = "the operator has a MatMult() of the user";
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* For all products on these arrays */
PetscErrorCode IDRSProductRuns_CUDA(IDRSProduct product, const char *why[])
{
  PetscFunctionBegin;
  PetscCall(IDRSMatRuns_CUDA(product->A, why));
  if (!*why && product->transpose) *why = "the operator is applied transposed";
  PetscFunctionReturn(PETSC_SUCCESS);
}
