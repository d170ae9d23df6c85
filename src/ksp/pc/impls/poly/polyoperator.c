/*
   The operator of the polynomial, D^{-1}A, and D^{-1}A^T for transposed solves: by MatMult() and Vec operations, for every type of matrix, and by a copy
*/
#include "polyimpl.h"
#include <petscidrs/private/idrsdiagonal.h>
#include <petsc/private/matimpl.h>

/*
   PCPolySetUpOperator_Private - D^{-1}, if A has MatGetDiagonal(); see idrsdiagonal.h for rows whose diagonal entry is zero or
   small
*/
PetscErrorCode PCPolySetUpOperator_Private(PC pc)
{
  PC_Poly  *poly = (PC_Poly *)pc->data;
  PetscBool known, mffd;

  PetscFunctionBegin;
  poly->op.A = pc->pmat;
  if (!poly->op.w) PetscCall(MatCreateVecs(pc->pmat, &poly->op.w, NULL));
  if (!poly->op.t) PetscCall(VecDuplicate(poly->op.w, &poly->op.t));
  PetscCall(MatHasOperation(pc->pmat, MATOP_GET_DIAGONAL, &known));
  PetscCall(PetscObjectTypeCompare((PetscObject)pc->pmat, MATMFFD, &mffd)); /* it has the operation, but only for functions that are given entry by entry */
  poly->small = 0;
  if (!known || mffd) {
    PetscCall(VecDestroy(&poly->op.inverse));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (!poly->op.inverse) PetscCall(VecDuplicate(poly->op.w, &poly->op.inverse));
  PetscCall(MatGetDiagonal(pc->pmat, poly->op.t));
  PetscCall(VecCopy(poly->op.t, poly->op.inverse));
  PetscCall(VecReciprocal(poly->op.inverse));
  PetscCall(IDRSRowsLargest(pc->pmat, 0, NULL, poly->op.w, &known));
  if (!known) PetscCall(VecSet(poly->op.w, 0.0));
  PetscCall(IDRSReplaceSmallDiagonal(poly->op.t, poly->op.w, poly->op.inverse, &poly->small));
  IDRSCallAllreduce(MPI_IN_PLACE, &poly->small, 1, MPIU_INT, MPI_SUM, PetscObjectComm((PetscObject)pc));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyOperatorReset_Private - Frees all but A */
PetscErrorCode PCPolyOperatorReset_Private(PCPolyOperator *op)
{
  PetscFunctionBegin;
  PetscCall(VecDestroy(&op->inverse));
  PetscCall(VecDestroy(&op->w));
  PetscCall(VecDestroy(&op->t));
  PetscCall(PCPolyCopyDestroy_Private(&op->copy));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyScale_Private - y = D^{-1}x */
PetscErrorCode PCPolyScale_Private(const PCPolyOperator *op, Vec x, Vec y)
{
  PetscFunctionBegin;
  if (op->inverse) PetscCall(VecPointwiseMult(y, op->inverse, x));
  else PetscCall(VecCopy(x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyMultiplyAdd_Private - y = alpha u + beta D^{-1}A z, or with A^T; y may be u, and must not be z */
PetscErrorCode PCPolyMultiplyAdd_Private(const PCPolyOperator *op, PetscBool transpose, PetscScalar alpha, Vec u, PetscScalar beta, Vec z, Vec y)
{
  Vec t = y == u ? op->t : y;

  PetscFunctionBegin;
  if (transpose) PetscCall(MatMultTranspose(op->A, z, t));
  else PetscCall(MatMult(op->A, z, t));
  if (op->inverse) PetscCall(IDRSVecMultiply(t, op->inverse));
  if (y == u) PetscCall(VecAXPBY(y, beta, alpha, t));
  else if (alpha == 0.0) PetscCall(VecScale(y, beta));
  else PetscCall(VecAXPBY(y, alpha, beta, u));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolySetUpCopy_Private - A copy in this precision, or in a wider one */
PetscErrorCode PCPolySetUpCopy_Private(PC pc, PCPolyPrecision precision)
{
  PC_Poly *poly = (PC_Poly *)pc->data;

  PetscFunctionBegin;
  PetscCall(PCPolyCopyDestroy_Private(&poly->op.copy));
  PetscCall(PCPolyCopyCreate_Private(pc->pmat, poly->op.w, poly->op.inverse, (PetscBool)(poly->op.inverse && !poly->small), precision, &poly->op.copy, &poly->nocopy));
  if (poly->nocopy) PetscCall(PetscInfo(pc, "Products by MatMult(): %s\n", poly->nocopy));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyMultiplyAddPacked_Private - The same as PCPolyMultiplyAdd_Private(), by the copy where there is one */
PetscErrorCode PCPolyMultiplyAddPacked_Private(const PCPolyOperator *op, PetscBool transpose, PetscScalar alpha, Vec u, PetscScalar beta, Vec z, Vec y)
{
  PetscFunctionBegin;
  if (op->copy && !transpose) {
    PetscCall(PetscLogEventBegin(MAT_Mult, z, y, 0, 0)); /* a product of the matrix, for -log_view */
    PetscCall(PCPolyCopyMultiplyAdd_Private(op->copy, alpha, u, beta, z, y));
    PetscCall(PetscLogEventEnd(MAT_Mult, z, y, 0, 0));
  } else PetscCall(PCPolyMultiplyAdd_Private(op, transpose, alpha, u, beta, z, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}
