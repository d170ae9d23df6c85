/* Products with A, and norms, counted; products are timed */
#include "idrsimpl.h"

/*
   KSPIDRSMatMultColumns_Private - Computes y_j = A x_j for all columns, with one product; the bits of a column of this product do
   not depend on the number of columns. With preconditioning from the left y_j = B^{-1}A x_j, one after another, and the w_j are
   overwritten
*/
PetscErrorCode KSPIDRSMatMultColumns_Private(KSP ksp, const KSPIDRSColumns *cols, Vec x[], Vec y[], Vec w[])
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  idrs->counts.matvecs += cols->count;
  idrs->counts.matvecseconds -= IDRSGpuSeconds();
  PetscCall(IDRSStreamJoin(idrs->slot[0].work));
  if (ksp->pc_side == PC_LEFT) {
    for (PetscInt i = 0; i < cols->count; i++) {
      PetscCall(IDRSVecForgetNorm(y[i]));
      PetscCall(IDRSVecForgetNorm(w[i]));
      PetscCall(KSP_PCApplyBAorAB(ksp, x[i], y[i], w[i])); /* a PC may apply both at once */
    }
  } else if (idrs->active == 1) PetscCall(IDRSProductApply(idrs->product, x[0], y[0]));
  else PetscCall(IDRSProductApplyColumns(idrs->product, cols->count, x, y));
  PetscCall(IDRSStreamJoin(idrs->slot[0].work));
  idrs->counts.matvecseconds += IDRSGpuSeconds();
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

/*
   KSPIDRSNorms_Private - Computes ||v|| for all columns. t is overwritten if the squares of v underflow, lose digits or overflow:
   ||v|| = ||t|| / factor, t = factor v
*/
PetscErrorCode KSPIDRSNorms_Private(KSP ksp, const KSPIDRSColumns *cols, Vec v[], PetscReal norms[])
{
  const IDRSGroup group  = KSPIDRSGetGroup(cols);
  KSPIDRSCounts  *counts = &((KSP_IDRS *)ksp->data)->counts;

  PetscFunctionBegin;
  PetscCall(IDRSNorms(&group, v, norms));
  counts->norms++;
  for (PetscInt i = 0; i < cols->count; i++) {
    const Vec t = cols->column[i]->t;
    PetscReal largest, factor;

    if (!(norms[i] < IDRS_SMALLEST_NORM || norms[i] > IDRS_LARGEST_NORM)) continue;
    PetscCall(VecNorm(v[i], NORM_INFINITY, &largest));
    counts->norms++;
    if (!(largest > 0.0 && largest <= PETSC_MAX_REAL)) continue;
    factor = PetscMin(1.0 / largest, PETSC_MAX_REAL); /* finite if `largest` is subnormal */
    PetscCall(VecCopy(v[i], t));
    PetscCall(IDRSVecForgetNorm(t)); /* which was copied with the vector */
    PetscCall(VecScale(t, factor));
    PetscCall(VecNorm(t, NORM_2, &norms[i]));
    counts->norms++;
    norms[i] /= factor;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
