/* Products with A, counted and timed */
#include "idrsimpl.h"

/* If rows are long, MatMult() is faster. Above this number of entries it saves more time than the persistent kernel does */
#define IDRS_WHOLE_ENTRIES 524288

/* KSPIDRSChooseProduct_Private - Sets the operator of this solve, the back end of its matvecs, and the kernels that may read it */
PetscErrorCode KSPIDRSChooseProduct_Private(KSP ksp)
{
  KSP_IDRS    *idrs = (KSP_IDRS *)ksp->data;
  const char  *why  = NULL;
  IDRSWorkInfo info;
  Mat          A;

  PetscFunctionBegin;
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(IDRSWorkGetInfo(idrs->slot[0].work, &info));
  if (!info.device) why = "the vector operations do not run on a GPU";
  else if (ksp->pc_side == PC_LEFT) why = "the operator is applied together with a preconditioner from the left";
  PetscCall(IDRSProductSetMat(idrs->product, A, ksp->transpose_solve, idrs->set.product, why));
  idrs->reader = KSPIDRS_READ_BY_NONE;
  if (idrs->active > 1 && idrs->set.block) PetscFunctionReturn(PETSC_SUCCESS);
  /* the passes of several right-hand sides have one product for all of them */
  if (idrs->product->backend) idrs->reader = idrs->active > 1 ? KSPIDRS_READ_BY_RUN : KSPIDRS_READ_BY_PASS;
  else if (!why && info.size == 1 && idrs->set.product == KSP_IDRS_PRODUCT_AUTO &&
           (idrs->set.run == KSP_IDRS_RUN_WHOLE || idrs->product->flops <= 2.0 * IDRS_WHOLE_ENTRIES))
    idrs->reader = KSPIDRS_READ_BY_RUN;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSSetOperator_Private - Decides whether b - A x can be trusted with the operator of this solve */
PetscErrorCode KSPIDRSSetOperator_Private(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  PetscBool schur, inexact, direct = PETSC_TRUE;
  KSP       inner;
  Mat       A;

  PetscFunctionBegin;
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  /* Matvecs by differences are inexact, and so are matvecs of a Schur complement whose inner solve is iterative */
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMFFD, &inexact));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSCHURCOMPLEMENT, &schur));
  if (schur) {
    PetscCall(MatSchurComplementGetKSP(A, &inner));
    PetscCall(PetscObjectTypeCompare((PetscObject)inner, KSPPREONLY, &direct));
  }
  idrs->exact = (PetscBool)(!inexact && direct);
  if (!idrs->exact)
    PetscCall(
      PetscInfo(ksp, "The operator of type %s is inexact: no reliable updates and no verification\n", ((PetscObject)A)->type_name));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSMatMult_Private - Computes y = A x, or B^{-1}A x with preconditioning from the left, when w is overwritten */
PetscErrorCode KSPIDRSMatMult_Private(KSP ksp, Vec x, Vec y, Vec w)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  idrs->counts.matvecs++;
  idrs->counts.matvecseconds -= IDRSGpuSeconds();
  PetscCall(IDRSStreamJoin(idrs->slot[0].work));
  if (ksp->pc_side == PC_LEFT) {
    PetscCall(IDRSVecForgetNorm(y));
    PetscCall(IDRSVecForgetNorm(w));
    PetscCall(KSP_PCApplyBAorAB(ksp, x, y, w)); /* a PC may apply both at once */
  } else PetscCall(IDRSProductApply(idrs->product, x, y));
  PetscCall(IDRSStreamJoin(idrs->slot[0].work));
  idrs->counts.matvecseconds += IDRSGpuSeconds();
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSMatMultColumns_Private - Computes y_j = A x_j for all columns, with one product unless the preconditioner is on the left.
   The bits of a column of this product do not depend on the number of columns
*/
PetscErrorCode KSPIDRSMatMultColumns_Private(KSP ksp, const KSPIDRSColumns *cols, Vec x[], Vec y[], Vec w[])
{
  KSP_IDRS      *idrs  = (KSP_IDRS *)ksp->data;
  const PetscInt count = cols->count;

  PetscFunctionBegin;
  if (idrs->active == 1 || ksp->pc_side == PC_LEFT) {
    for (PetscInt i = 0; i < count; i++) PetscCall(KSPIDRSMatMult_Private(ksp, x[i], y[i], w[i]));
  } else {
    idrs->counts.matvecs += count;
    idrs->counts.matvecseconds -= IDRSGpuSeconds();
    PetscCall(IDRSStreamJoin(idrs->slot[0].work));
    PetscCall(IDRSProductApplyColumns(idrs->product, count, x, y));
    PetscCall(IDRSStreamJoin(idrs->slot[0].work));
    idrs->counts.matvecseconds += IDRSGpuSeconds();
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSMatMultSolution_Private - Computes t = A x for the solution of a column, by MatMult(). A solution of another type than
   the work vectors is copied to y first
*/
PetscErrorCode KSPIDRSMatMultSolution_Private(KSP ksp, const KSPIDRSColumn *col, Vec y)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  Vec       x    = col->rep.sol;
  PetscBool same;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)x, ((PetscObject)y)->type_name, &same));
  if (!same) {
    PetscCall(VecCopy(x, y));
    x = y;
  }
  PetscCall(IDRSStreamJoin(col->work));
  PetscCall(IDRSProductApply(idrs->product, x, col->t));
  PetscCall(IDRSStreamJoin(col->work));
  idrs->counts.matvecs++;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSTrueResidual_Private - Computes y = b - A x, or B^{-1}(b - A x) with preconditioning from the left, for all columns,
   copies it to `copy` unless that is NULL, and sets z = 0. t is overwritten. A x is computed by MatMult(), so that verification
   does not depend on the kernels of this library
*/
PetscErrorCode KSPIDRSTrueResidual_Private(KSP ksp, const KSPIDRSColumns *cols, PetscBool zero, Vec y[], Vec copy[])
{
  const PetscBool left  = (PetscBool)(ksp->pc_side == PC_LEFT);
  const IDRSGroup group = KSPIDRSGetGroup(cols);
  Vec             b[IDRS_MAX_WIDTH], t[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    const KSPIDRSColumn *col = cols->column[i];
    PetscBool            same;

    t[i] = col->t;
    b[i] = col->rep.rhs;
    if (!zero) PetscCall(KSPIDRSMatMultSolution_Private(ksp, col, y[i])); /* t = A x */
    PetscCall(PetscObjectTypeCompare((PetscObject)b[i], ((PetscObject)y[i])->type_name, &same));
    if (!same) {
      PetscCall(VecCopy(b[i], y[i]));
      b[i] = y[i];
    }
  }
  PetscCall(IDRSResidual(&group, b, zero ? NULL : t, left ? t : y, left ? NULL : copy)); /* y = b - t, z = 0 */
  for (PetscInt i = 0; left && i < cols->count; i++) {
    PetscCall(KSPIDRSPCApply_Private(ksp, t[i], y[i])); /* y = B^{-1}t */
    if (copy && copy[i]) PetscCall(VecCopy(y[i], copy[i]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
