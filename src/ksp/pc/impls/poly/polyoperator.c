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
  PetscBool   known = PETSC_FALSE, mffd, device;
  PetscReal   most;
  Mat         A;
  PetscMPIInt weak; /* on the first process: a maximum over processes is not defined for NaN */

  PetscFunctionBegin;
  if (!poly->op.w) PetscCall(MatCreateVecs(pc->pmat, &poly->op.w, NULL));
  if (!poly->op.t) PetscCall(VecDuplicate(poly->op.w, &poly->op.t));
  /* Later vectors may be bound to the CPU on some processes, but creating one is collective */
  PetscCall(PetscObjectTypeCompare((PetscObject)poly->op.w, VECMPICUDA, &device));
  if (device && !poly->staged) PetscCall(VecDuplicate(poly->op.w, &poly->staged));
  if (!match) PetscCall(PCPolyDestroyMatching_Private(pc));
  else if (!poly->op.matching) PetscCall(PCPolyCreateMatching_Private(pc, PETSC_FALSE));
  A = poly->matched ? poly->matched : pc->pmat;
  PetscCall(PetscObjectReference((PetscObject)A));
  PetscCall(MatDestroy(&poly->op.A));
  poly->op.A  = A;
  poly->small = 0;
  poly->weak  = PETSC_FALSE;
  if (poly->scaling != PC_POLY_SCALING_NONE) PetscCall(MatHasOperation(A, MATOP_GET_DIAGONAL, &known));
  /* MATMFFD has the operation, but it needs a function for single entries */
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMFFD, &mffd));
  if (mffd) known = PETSC_FALSE;
  if (!known) {
    PetscCall(VecDestroy(&poly->op.inverse));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (!poly->op.inverse) PetscCall(VecDuplicate(poly->op.w, &poly->op.inverse));
  /* w: the largest entries of the rows */
  PetscCall(IDRSRowsGetInverse(A, 0, NULL, poly->op.t, poly->op.w, poly->op.inverse, &poly->small));
  IDRSCallAllreduce(MPI_IN_PLACE, &poly->small, 1, MPIU_INT, MPI_SUM, PetscObjectComm((PetscObject)pc));
  if (poly->matched) {
    if (!poly->op.input) PetscCall(VecDuplicate(poly->op.w, &poly->op.input));
    /* D^{-1} P Dr P^T */
    PetscCall(VecPointwiseMult(poly->op.input, poly->op.inverse, poly->op.matching->permuted));
  }
  if (poly->scaling == PC_POLY_SCALING_AUTO && !match && !poly->smoother) {
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
  if (op->input && !transpose) PetscCall(IDRSMatchingScale(op->matching, op->matching->row, op->input, x, y));
  else if (op->input) {
    PetscCall(IDRSMatchingScale(op->matching, NULL, op->matching->right, x, y));
    PetscCall(IDRSVecPointwiseMult(y, op->inverse, y));
  } else if (op->inverse) PetscCall(IDRSVecPointwiseMult(y, op->inverse, x));
  else PetscCall(VecCopy(x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode PCPolyCopyDestroy_Private(PCPolyCopy *copy)
{
  PetscFunctionBegin;
  if (*copy) PetscCall((*(*copy)->ops->destroy)(*copy));
  PetscCall(PetscFree(*copy));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCPolyCopySetUp_Private - Creates the copy of an operator D^{-1}A with values of this precision, or computes the values of the
   last copy again; NULL and the reason if there is none for this matrix. unit: all diagonal entries of D^{-1}A are 1

   The layout of a copy depends only on what is compared here: on the pattern, on the precision, and on `unit`, because no other
   entries are omitted
*/
PetscErrorCode PCPolyCopySetUp_Private(const PCPolyOperator *op, PetscBool unit, PCPolyPrecision precision, PCPolyCopy *copy,
                                       const char *why[])
{
  PetscInt     bad[2]; /* flags: no copy; not finite */
  PetscBool    cusparse, cuda, finite = PETSC_TRUE;
  IDRSMatState state;
  IDRSMemory   place;
  PetscMPIInt  size;
  void (*rows)(void);

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)op->A, &cusparse, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)op->w, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(IDRSMatWhere(op->A, &place));
  PetscCall(PetscObjectQueryFunction((PetscObject)op->A, IDRS_ROWS, &rows));
  PetscCall(IDRSMatGetState(op->A, &state));
  if (*copy && ((*copy)->state.id != state.id || (*copy)->state.pattern != state.pattern || (*copy)->precision != precision ||
                (*copy)->unit != unit))
    PetscCall(PCPolyCopyDestroy_Private(copy));
  if (!cusparse && !rows) *why = "the matrix is not of type aijcusparse";
  else if (!rows && place == IDRS_MEMORY_HOST) *why = "the matrix is bound to the CPU";
  else if (!cuda) *why = "its vectors are not of type cuda";
#if !defined(PETSCIDRS_HAVE_CUDA)
  else *why = "this library was built without CUDA";
#else
  else {
    if (!*copy) {
      PetscCall(PetscNew(copy));
      (*copy)->ops       = &PCPolyCopies_CUDA;
      (*copy)->precision = precision;
      (*copy)->unit      = unit;
      PetscCall((*copy)->ops->create(*copy, op->A, why));
    }
    if (!*why) PetscCall((*copy)->ops->fill(*copy, op->A, op->inverse, why, &finite));
  }
#endif
  /* If one process has no copy, or entries that its precision does not hold, no process has one */
  bad[0] = *why != NULL;
  bad[1] = !finite;
  IDRSCallAllreduce(MPI_IN_PLACE, bad, 2, MPIU_INT, MPI_MAX, PetscObjectComm((PetscObject)op->A));
  if (bad[0] && !*why) *why = "another process has no copy";
  if (bad[1] && !*why) *why = "it has entries that are infinite, NaN, or too large for the precision";
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)op->A), &size));
  if (*why) PetscCall(PCPolyCopyDestroy_Private(copy));
  else {
    if (size > 1) PetscCall((*copy)->ops->connect(*copy, op->A));
    (*copy)->state = state; /* only now it is complete, also for a set-up after an error */
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyMultiplyAdd_Private - Computes the product of a factor, or with A^T; by the copy unless it is NULL */
PetscErrorCode PCPolyMultiplyAdd_Private(const PCPolyOperator *op, PCPolyCopy copy, PetscBool transpose,
                                         const PCPolyProduct *product)
{
  const PetscScalar alpha = product->alpha, beta = product->beta;
  Vec               u = product->u, y = product->y, t = y == u || product->adds ? op->t : y;

  PetscFunctionBegin;
  if (copy && !transpose) {
    PetscCall(PetscLogEventBegin(MAT_Mult, product->z, y, 0, 0)); /* a product of the matrix, for -log_view */
    PetscCall(copy->ops->multiplyadd(copy, product));
    PetscCall(PetscLogEventEnd(MAT_Mult, product->z, y, 0, 0));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  /* t = D^{-1}A z */
  if (transpose) PetscCall(IDRSMatMultTranspose(op->A, product->z, t));
  else PetscCall(MatMult(op->A, product->z, t));
  if (op->inverse) PetscCall(IDRSVecPointwiseMult(t, op->inverse, t));
  /* y = alpha u + beta t, or added to y */
  if (product->adds) PetscCall(VecAXPBYPCZ(y, alpha, beta, 1.0, u, t));
  else if (y == u) PetscCall(VecAXPBY(y, beta, alpha, t));
  else if (alpha == 0.0) PetscCall(VecScale(y, beta));
  else PetscCall(VecAXPBY(y, alpha, beta, u));
  if (product->d) PetscCall(IDRSVecPointwiseMult(y, product->d, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}
