/*
   Residual smoothing: a second iterate x + sigma d, whose residual r + sigma e is the shortest on the line through r and the
   smoothed residual before it, q = r + e. Its norm never grows, and is the reported norm.

     move     d := sigma d - dx,   e := sigma e + A dx          with each step of the recurrence from x to x + dx
     sums     e^H e,  e^H q,  q^H q                             in the reduction of the next projection
     sigma    1 - e^H q / e^H e,   ||r + sigma e||^2 = q^H q - |e^H q|^2 / e^H e

   Reference: L. Zhou and H.F. Walker, Residual smoothing techniques for iterative methods, SIAM J. Sci. Comput. 15 (1994)
*/
#include "idrsimpl.h"

/* KSPIDRSSmoothMove_Private - Updates d and e for a step of the recurrence, x += U a and r -= G a, with this number of columns */
PetscErrorCode KSPIDRSSmoothMove_Private(KSP ksp, PetscInt columns, const PetscScalar a[], Vec U[], Vec G[])
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  if (!idrs->d) PetscFunctionReturn(PETSC_SUCCESS);
  for (PetscInt j = 0; j < columns; j++) {
    PetscCall(VecAXPBY(idrs->d, -a[j], idrs->sigma, U[j])); /* d = sigma d - dx */
    PetscCall(VecAXPBY(idrs->e, a[j], idrs->sigma, G[j]));  /* e = sigma e + A dx */
    idrs->sigma = 1.0;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSSmoothSums_Private - Defers the sums for the present r to the next reduction */
PetscErrorCode KSPIDRSSmoothSums_Private(KSP ksp, const KSPIDRSColumn *col)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  if (!idrs->d) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecWAXPY(idrs->q, 1.0, idrs->e, col->r));    /* q = r + e */
  PetscCall(IDRSDeferDots(col->work, idrs->e, idrs->q)); /* e^H e, e^H q, q^H q */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSSmoothNorm_Private - Computes sigma from the sums, and replaces the norm of r by ||r + sigma e|| */
PetscErrorCode KSPIDRSSmoothNorm_Private(KSP ksp, const KSPIDRSColumn *col, PetscReal *rnorm)
{
  KSP_IDRS          *idrs = (KSP_IDRS *)ksp->data;
  const PetscScalar *dots;
  PetscReal          ee, qq;

  PetscFunctionBegin;
  if (!idrs->d || PetscIsInfOrNanReal(*rnorm)) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSGetDots(col->work, &dots));
  ee          = PetscRealPart(dots[IDRS_DOT_XX]);
  qq          = PetscRealPart(dots[IDRS_DOT_YY]);
  idrs->sigma = 1.0;
  if (ee > 0.0) {
    const PetscScalar gamma  = dots[IDRS_DOT_XY] / ee;
    const PetscReal   square = qq - PetscSqr(PetscAbsScalar(gamma)) * ee;

    idrs->sigma -= gamma;
    if (IDRSIsSharp(square, qq)) *rnorm = PetscSqrtReal(square);
    else {
      PetscCall(VecAXPY(idrs->q, -gamma, idrs->e)); /* q + (sigma - 1) e */
      PetscCall(VecNorm(idrs->q, NORM_2, rnorm));
      idrs->counts.norms++;
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSSmoothAddToSolution_Private - Changes the solution into the smoothed iterate */
PetscErrorCode KSPIDRSSmoothAddToSolution_Private(KSP ksp, const KSPIDRSColumn *col)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  if (idrs->d) PetscCall(VecAXPY(col->rep.sol, idrs->sigma, idrs->d));
  idrs->addedsigma = idrs->sigma;
  idrs->sigma      = 0.0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSSmoothSubtract_Private - Changes the solution back into the iterate of the recurrence; y is b - A x of the smoothed
   iterate
*/
PetscErrorCode KSPIDRSSmoothSubtract_Private(KSP ksp, KSPIDRSColumn *col, Vec y)
{
  KSP_IDRS            *idrs = (KSP_IDRS *)ksp->data;
  const KSPIDRSColumns one  = KSPIDRSOneColumn(col);

  PetscFunctionBegin;
  if (!idrs->d) PetscCall(VecCopy(y, col->r));
  else {
    PetscCall(VecScale(idrs->d, idrs->addedsigma));
    PetscCall(VecAXPY(col->rep.sol, -1.0, idrs->d));                               /* x = sol - sigma d */
    PetscCall(KSPIDRSTrueResidual_Private(ksp, &one, PETSC_FALSE, &col->r, NULL)); /* r = b - A x */
    PetscCall(VecWAXPY(idrs->e, -1.0, col->r, y));                                 /* sigma e = y - r */
    idrs->sigma = 1.0;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSSmoothBegin_Private - Sets the smoothed iterate to the iterate of the recurrence */
PetscErrorCode KSPIDRSSmoothBegin_Private(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  if (!idrs->d) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSVecZero(idrs->d));
  PetscCall(IDRSVecZero(idrs->e));
  idrs->sigma = 1.0;
  PetscFunctionReturn(PETSC_SUCCESS);
}
