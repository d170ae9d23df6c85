/*
   The operator of the polynomial, D^{-1}A, and D^{-1}A^T for transposed solves: by MatMult() and Vec operations, for every type of
   matrix, and by a copy
*/
#include "polyimpl.h"
#include <petscidrs/private/idrsrows.h>
#include <petscidrs/private/idrscompat.h>
#include <petsc/private/matimpl.h>

/* The diagonal is weak if an entry of a row is larger than its diagonal entry by more than this factor */
#define PCPOLY_WEAK 10.0

/*
   Copies the diagonal to op.t, and the largest modulus of each row to op.w, or zeros if the type of the matrix does not support it.
   known is PETSC_FALSE if the matrix does not support MatGetDiagonal()
*/
static PetscErrorCode PCPolyGetDiagonal_Private(PC pc, PetscBool *known)
{
  PC_Poly  *poly = (PC_Poly *)pc->data;
  Mat       A    = poly->op.A;
  PetscBool mffd, largest;

  PetscFunctionBegin;
  PetscCall(MatHasOperation(A, MATOP_GET_DIAGONAL, known));
  /* MATMFFD has the operation, but it needs a function for single entries */
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMFFD, &mffd));
  if (mffd) *known = PETSC_FALSE;
  if (!*known) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(MatGetDiagonal(A, poly->op.t));
  PetscCall(IDRSRowsLargest(A, 0, NULL, poly->op.w, &largest));
  if (!largest) PetscCall(IDRSVecZero(poly->op.w));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCPolyUpdateMatching_Private - Keeps the matching of the last set-up if the pattern has not changed and it suits the new values,
   else destroys it
*/
PetscErrorCode PCPolyUpdateMatching_Private(PC pc)
{
  PC_Poly  *poly = (PC_Poly *)pc->data;
  PetscBool kept = PETSC_FALSE;

  PetscFunctionBegin;
  if (poly->op.matching && pc->flag == SAME_NONZERO_PATTERN) PetscCall(IDRSMatchingUpdate(poly->op.matching, pc->pmat, &kept));
  if (kept) PetscCall(IDRSMatchingGetMat(poly->op.matching, pc->pmat, MAT_REUSE_MATRIX, &poly->matched));
  else PetscCall(PCPolyDestroyMatching_Private(pc));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyDestroyMatching_Private - Destroys the matching and its matrix */
PetscErrorCode PCPolyDestroyMatching_Private(PC pc)
{
  PC_Poly *poly = (PC_Poly *)pc->data;

  PetscFunctionBegin;
  PetscCall(IDRSMatchingDestroy(&poly->op.matching));
  PetscCall(VecDestroy(&poly->op.input));
  PetscCall(MatDestroy(&poly->matched));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCPolyCreateMatching_Private - Computes the matching and its matrix; there is none if the computation is limited and takes too
   long
*/
PetscErrorCode PCPolyCreateMatching_Private(PC pc, PetscBool limited)
{
  PC_Poly *poly = (PC_Poly *)pc->data;

  PetscFunctionBegin;
  PetscCall(IDRSMatchingCreate(pc->pmat, limited ? MATCHING_LIMITED : MATCHING_UNLIMITED, &poly->op.matching));
  if (!poly->op.matching) poly->nomatching = "its computation takes too long; with -pc_poly_scaling matching it is not limited";
  else if (poly->op.matching->badrow < 0)
    PetscCall(IDRSMatchingGetMat(poly->op.matching, pc->pmat, MAT_INITIAL_MATRIX, &poly->matched));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCPolySetUpOperator_Private - Sets up the matrix, permuted and scaled by a matching or as it is, and D^{-1}, if the matrix has
   MatGetDiagonal(); see idrsrows.h for rows whose diagonal entry is zero or small
*/
PetscErrorCode PCPolySetUpOperator_Private(PC pc, PetscBool match)
{
  PC_Poly    *poly  = (PC_Poly *)pc->data;
  PetscBool   known = PETSC_FALSE;
  PetscReal   most;
  Mat         A;
  PetscMPIInt weak; /* on the first process: a maximum over processes is not defined for NaN */

  PetscFunctionBegin;
  if (!poly->op.w) PetscCall(MatCreateVecs(pc->pmat, &poly->op.w, NULL));
  if (!poly->op.t) PetscCall(VecDuplicate(poly->op.w, &poly->op.t));
  if (!match) PetscCall(PCPolyDestroyMatching_Private(pc));
  else if (!poly->op.matching) PetscCall(PCPolyCreateMatching_Private(pc, PETSC_FALSE));
  A = poly->matched ? poly->matched : pc->pmat;
  PetscCall(PetscObjectReference((PetscObject)A));
  PetscCall(MatDestroy(&poly->op.A));
  poly->op.A  = A;
  poly->small = 0;
  poly->weak  = PETSC_FALSE;
  if (poly->scaling != PC_POLY_SCALING_NONE) PetscCall(PCPolyGetDiagonal_Private(pc, &known));
  if (!known) {
    PetscCall(VecDestroy(&poly->op.inverse));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (!poly->op.inverse) PetscCall(VecDuplicate(poly->op.w, &poly->op.inverse));
  /* D^{-1} = diag(1 / a_ii), or 1 / max_j |a_ij| if a_ii is small */
  PetscCall(VecCopy(poly->op.t, poly->op.inverse));
  PetscCall(VecReciprocal(poly->op.inverse));
  PetscCall(IDRSReplaceSmallDiagonal(poly->op.t, poly->op.w, poly->op.inverse, &poly->small));
  IDRSCallAllreduce(MPI_IN_PLACE, &poly->small, 1, MPIU_INT, MPI_SUM, PetscObjectComm((PetscObject)pc));
  if (poly->matched) {
    if (!poly->op.input) PetscCall(VecDuplicate(poly->op.w, &poly->op.input));
    /* D^{-1} P Dr P^T */
    PetscCall(VecPointwiseMult(poly->op.input, poly->op.inverse, poly->op.matching->permuted));
  }
  if (poly->scaling == PC_POLY_SCALING_AUTO && !match) {
    /* most = max_ij |a_ij| / |a_ii| */
    PetscCall(IDRSVecPointwiseMult(poly->op.w, poly->op.inverse, poly->op.w));
    PetscCall(VecNorm(poly->op.w, NORM_INFINITY, &most));
    weak = poly->small || most > PCPOLY_WEAK;
    PetscCallMPI(MPI_Bcast(&weak, 1, MPI_INT, 0, PetscObjectComm((PetscObject)pc)));
    poly->weak = weak ? PETSC_TRUE : PETSC_FALSE;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCPolyScale_Private - Computes y = D^{-1}x, the first operation of an application; with a matching y = D^{-1} P Dr x, or y =
   D^{-1} Dc x if transposed. y may be x
*/
PetscErrorCode PCPolyScale_Private(const PCPolyOperator *op, PetscBool transpose, Vec x, Vec y)
{
  PetscFunctionBegin;
  if (op->input && !transpose) PetscCall(IDRSMatchingPermute(op->matching, PETSC_FALSE, op->input, x, y));
  else if (op->input) {
    PetscCall(IDRSMatchingScaleInput(op->matching, PETSC_TRUE, x, y));
    PetscCall(IDRSVecPointwiseMult(y, op->inverse, y));
  } else if (op->inverse) PetscCall(IDRSVecPointwiseMult(y, op->inverse, x));
  else PetscCall(VecCopy(x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyMultiplyAdd_Private - Computes y = d (alpha u + beta D^{-1}A z), or with A^T */
PetscErrorCode PCPolyMultiplyAdd_Private(const PCPolyOperator *op, PetscBool transpose, const PCPolyProduct *product)
{
  const PetscScalar alpha = product->alpha, beta = product->beta;
  Vec               u = product->u, y = product->y, t = y == u ? op->t : y;

  PetscFunctionBegin;
  /* t = D^{-1}A z */
  if (transpose) PetscCall(IDRSMatMultTranspose(op->A, product->z, t));
  else PetscCall(MatMult(op->A, product->z, t));
  if (op->inverse) PetscCall(IDRSVecPointwiseMult(t, op->inverse, t));
  /* y = alpha u + beta t */
  if (y == u) PetscCall(VecAXPBY(y, beta, alpha, t));
  else if (alpha == 0.0) PetscCall(VecScale(y, beta));
  else PetscCall(VecAXPBY(y, alpha, beta, u));
  if (product->d) PetscCall(IDRSVecPointwiseMult(y, product->d, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyMultiplyAddPacked_Private - The same, by the copy if there is one */
PetscErrorCode PCPolyMultiplyAddPacked_Private(const PCPolyOperator *op, PetscBool transpose, const PCPolyProduct *product)
{
  PetscFunctionBegin;
  if (op->copy && !transpose) {
    PetscCall(PetscLogEventBegin(MAT_Mult, product->z, product->y, 0, 0)); /* a product of the matrix, for -log_view */
    PetscCall(op->copy->ops->multiplyadd(op->copy, product));
    PetscCall(PetscLogEventEnd(MAT_Mult, product->z, product->y, 0, 0));
  } else PetscCall(PCPolyMultiplyAdd_Private(op, transpose, product));
  PetscFunctionReturn(PETSC_SUCCESS);
}
