/*
   What makes the answers of KSPIDRS trustworthy: the iterate is kept as x = vec_sol + z + U(:,0:columns) beta, with

   - reliable updating: once ||r|| has fallen far enough since the last time, r := anchor - A z, whose rounding error is
     relative to the present size of r, and z is added to vec_sol,
   - verification: a tolerance that r meets counts only when b - A x meets it too; else r := b - A x and the solve goes
     on, unless that has stopped helping: then the tolerance is below the attainable accuracy,
   - restarts: after a breakdown of the recurrence, from the present x with the shadow space of the next seed.

   Reference: H.A. van der Vorst and Q. Ye, Residual replacement strategies for Krylov subspace iterative methods for the
   convergence of true residuals, SIAM J. Sci. Comput. 22 (2000)
*/
#include "idrsimpl.h"

/*
   y = b - A x, or B^{-1}(b - A x) with preconditioning from the left; t is overwritten. Vectors of another type than ours,
   as the columns of a MATDENSE on the host beside a matrix on the GPU, go through y: products take ours only.
*/
PetscErrorCode KSPIDRSResidual_Private(KSP ksp, PetscBool zero, Vec y)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  Vec       t = idrs->t, x = ksp->vec_sol, b = ksp->vec_rhs;
  Mat       A;
  PetscBool ours[2];

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)x, ((PetscObject)y)->type_name, &ours[0]));
  PetscCall(PetscObjectTypeCompare((PetscObject)b, ((PetscObject)y)->type_name, &ours[1]));
  if (zero) PetscCall(VecCopy(b, t));
  else {
    if (!ours[0]) {
      PetscCall(VecCopy(x, y));
      x = y;
    }
    PetscCall(PCGetOperators(ksp->pc, &A, NULL));
    PetscCall(IDRSOrder(idrs->work));
    PetscCall(KSP_MatMult(ksp, A, x, t));
    PetscCall(IDRSOrder(idrs->work));
    if (!ours[1]) {
      PetscCall(VecCopy(b, y));
      b = y;
    }
    PetscCall(VecAYPX(t, -1.0, b));
    idrs->matvecs++;
  }
  if (ksp->pc_side == PC_LEFT) PetscCall(KSPIDRSPrecondition_Private(ksp, t, y));
  else PetscCall(VecCopy(t, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* x += z + U(:,0:columns) beta: from vec_sol to the iterate of this moment */
static PetscErrorCode KSPIDRSAddPending_Private(KSP ksp, Vec x)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  PetscCall(VecAXPY(x, 1.0, idrs->z));
  if (idrs->columns) PetscCall(VecMAXPY(x, idrs->columns, idrs->work->scalars.beta, idrs->work->U));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* vec_sol becomes the iterate of this moment, z = 0 */
PetscErrorCode KSPIDRSFold_Private(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  PetscCall(KSPIDRSAddPending_Private(ksp, ksp->vec_sol));
  PetscCall(VecSet(idrs->z, 0.0));
  idrs->columns = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The iterate of this moment, for monitors and convergence tests; between solves it is all in vec_sol */
PetscErrorCode KSPBuildSolution_IDRS(KSP ksp, Vec v, Vec *V)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  PetscCheck(!idrs->solving || !idrs->work->ahead, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ORDER, "The solution cannot be asked for in the middle of an iteration of KSPIDRS on a GPU: do so in a monitor, or in a convergence test");
  if (!v) {
    if (!idrs->solution) {
      PetscCall(VecDuplicate(ksp->vec_sol, &v));
      idrs->solution = v; /* only once it is complete */
    }
    v = idrs->solution;
  }
  PetscCall(VecCopy(ksp->vec_sol, v));
  if (idrs->solving) {
    PetscCall(KSPIDRSAddPending_Private(ksp, v));
    PetscCall(KSPIDRSSmoothAdd_Private(ksp, v));
  }
  if (V) *V = v;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSNorm_Private - Computes ||v||, also where the squares of v vanish, and overwrites t. A norm that PETSc keeps with v is not used: it may be
   that of a vector that v was copied from, before a failed preconditioner flagged v
*/
static PetscErrorCode KSPIDRSNorm_Private(KSP ksp, Vec v, PetscReal *norm)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  PetscReal largest;

  PetscFunctionBegin;
  PetscCall(PetscObjectStateIncrease((PetscObject)v));
  PetscCall(VecNorm(v, NORM_2, norm));
  idrs->work->reductions++;
  if (*norm >= IDRS_SMALLEST_NORM || PetscIsInfOrNanReal(*norm)) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecNorm(v, NORM_INFINITY, &largest));
  idrs->work->reductions++;
  if (largest > 0.0) {
    PetscCall(PetscInfo(ksp, "The squares of a residual of norm %g vanish or lose digits: scale the system\n", (double)largest));
    PetscCall(VecCopy(v, idrs->t));
    PetscCall(PetscObjectStateIncrease((PetscObject)idrs->t)); /* the norm that was copied with the vector is not to be scaled */
    PetscCall(VecScale(idrs->t, 1.0 / largest));
    PetscCall(VecNorm(idrs->t, NORM_2, norm));
    idrs->work->reductions++;
    *norm *= largest;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* r and vec_sol belong together from now on: the next reliable update starts here */
static PetscErrorCode KSPIDRSAnchor_Private(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  if (idrs->anchor) PetscCall(VecCopy(idrs->r, idrs->anchor));
  PetscCall(KSPIDRSSmoothSums_Private(ksp));
  idrs->replaced = PETSC_TRUE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSBegin_Private - Starts the recurrence from vec_sol; r is its residual, whose norm is computed unless nobody asks for it.

   A solve inside another one, in its preconditioner for instance, takes another shadow space than that: with one and the same it would hand back u
   with P^H (v - A u) = 0 where it stops between two omega steps, and as P^H v = 0, M = P^H A u would be zero but for rounding.
*/
PetscErrorCode KSPIDRSBegin_Private(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  PetscCall(IDRSWorkSetSeed(idrs->work, (uint64_t)idrs->seed + (uint64_t)idrs->restarts + ((uint64_t)idrs->depth << 32)));
  IDRSScalarsReset(&idrs->work->scalars);
  PetscCall(KSPIDRSAnchor_Private(ksp));
  idrs->start      = PETSC_TRUE;
  idrs->projectedr = PETSC_FALSE;
  idrs->k          = 0;
  idrs->replaced   = PETSC_FALSE;
  idrs->updated    = PETSC_FALSE;
  idrs->brokendown = PETSC_FALSE;
  idrs->astray     = PETSC_FALSE;
  idrs->prepared   = IDRS_COMBINE_NONE;
  idrs->rnorm = idrs->peak = 0.0;
  idrs->anchornorm         = PETSC_MAX_REAL;
  if (ksp->normtype != KSP_NORM_NONE) {
    PetscReal rnorm;

    PetscCall(KSPIDRSNorm_Private(ksp, idrs->r, &rnorm));
    KSPIDRSSetStartNorm(idrs, rnorm);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* y = b - A x with all that is known of x, smoothed if it is to be, and its norm */
static PetscErrorCode KSPIDRSTrueNorm_Private(KSP ksp, Vec y, PetscReal *rnorm)
{
  PetscFunctionBegin;
  PetscCall(KSPIDRSFold_Private(ksp));
  PetscCall(KSPIDRSSmoothFold_Private(ksp));
  PetscCall(KSPIDRSResidual_Private(ksp, PETSC_FALSE, y));
  PetscCall(KSPIDRSNorm_Private(ksp, y, rnorm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSProgress_Private - r has been replaced by what x really has, after the recurrence had promised less: ends the solve when
   this does not get smaller any more. What is far above the smallest is on its way down from a peak, and says nothing.
*/
PetscErrorCode KSPIDRSProgress_Private(KSP ksp, PetscReal rnorm, PetscInt weight)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  if (rnorm <= 0.5 * idrs->floor) {
    idrs->stagnations = 0;
    idrs->floor       = rnorm;
  } else if (rnorm <= 1e3 * idrs->floor) idrs->stagnations += weight;
  if (idrs->stagnations >= IDRS_MAX_STAGNATIONS) {
    PetscCall(PetscInfo(ksp, "The tolerance is below the attainable accuracy: ||b - A x|| = %g has stopped falling\n", (double)rnorm));
    if (ksp->normtype != KSP_NORM_NONE) ksp->rnorm = rnorm;
    ksp->reason = KSP_DIVERGED_BREAKDOWN;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* x is tested by b - A x instead of r */
PetscErrorCode KSPIDRSVerify_Private(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  PetscReal rnorm;

  PetscFunctionBegin;
  idrs->verifications++;
  PetscCall(KSPIDRSTrueNorm_Private(ksp, idrs->v, &rnorm));
  KSPCheckNorm(ksp, rnorm);
  PetscCall((*ksp->converged)(ksp, ksp->its, rnorm, &ksp->reason, ksp->cnvP));
  if (!ksp->reason) PetscCall(PetscInfo(ksp, "Residual norm %g of the recurrence meets the tolerance, that of b - A x is %g: going on from there\n", (double)ksp->rnorm, (double)rnorm));
  ksp->rnorm = rnorm;
  if (ksp->reason) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSProgress_Private(ksp, rnorm, IDRS_STAGNATION_VERIFY));
  if (ksp->reason) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSSmoothUnfold_Private(ksp, idrs->v));
  if (idrs->prepared == IDRS_COMBINE_V) idrs->prepared = IDRS_COMBINE_NONE; /* v was overwritten here, and belonged to the old r */
  PetscCall(KSPIDRSAnchor_Private(ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* r := anchor - A z,  vec_sol += z,  z := 0 */
PetscErrorCode KSPIDRSReliableUpdate_Private(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  PetscCall(KSPIDRSProduct_Private(ksp, idrs->z, idrs->t, idrs->v));
  PetscCall(VecWAXPY(idrs->r, -1.0, idrs->t, idrs->anchor));
  PetscCall(KSPIDRSFold_Private(ksp));
  PetscCall(KSPIDRSAnchor_Private(ksp));
  idrs->updated = PETSC_TRUE;
  idrs->updates++;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A start that has broken down after so many steps: where the columns that are there span a Krylov space that A leaves as it is, the residual
   vanishes for the x + U c with P^H (r - G c) = 0
*/
static PetscErrorCode KSPIDRSFinishStart_Private(KSP ksp)
{
  KSP_IDRS    *idrs    = (KSP_IDRS *)ksp->data;
  IDRSScalars *scalars = &idrs->work->scalars;

  PetscFunctionBegin;
  if (idrs->k < idrs->s) {
    IDRSScalarsCombine(scalars, 0); /* its first entries need no other column */
    PetscCall(KSPIDRSSmoothMove_Private(ksp, idrs->k, scalars->c, idrs->work->U, idrs->work->G));
  }
  IDRSScalarsEndStart(scalars, idrs->k);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Else it is the x of the last step that is taken: y = b - A x, and its norm */
static PetscErrorCode KSPIDRSDropStart_Private(KSP ksp, Vec y, PetscReal *rnorm)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  for (PetscInt j = 0; j < idrs->k; j++) PetscCall(VecAXPY(ksp->vec_sol, -idrs->work->scalars.c[j], idrs->work->U[j]));
  PetscCall(KSPIDRSTrueNorm_Private(ksp, y, rnorm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSRestart_Private - After a breakdown: from the present x, with the next seed, unless x is good enough or too many
   restarts have been made; that of a recurrence that took its time to go astray is not counted. A recurrence that breaks down because nothing is left of r has
   found the solution; one that breaks down with an r that is larger than when it was tied to vec_sol has gone astray, and vec_sol is the better x. The smoothed
   iterate stays what it is, and is where to begin if from any other the recurrence would soon be too far from it.
*/
PetscErrorCode KSPIDRSRestart_Private(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  PetscReal rnorm;

  PetscFunctionBegin;
  if (idrs->start) PetscCall(KSPIDRSFinishStart_Private(ksp));
  else if (idrs->rnorm > idrs->anchornorm) {
    if (idrs->d) {
      PetscCall(VecScale(idrs->d, idrs->sigma));
      PetscCall(KSPIDRSAddPending_Private(ksp, idrs->d));
      idrs->sigma = 1.0;
    }
    PetscCall(VecSet(idrs->z, 0.0));
    idrs->columns = 0;
  }
  PetscCall(KSPIDRSTrueNorm_Private(ksp, idrs->v, &rnorm));
  if (idrs->start && !idrs->d && !(rnorm <= idrs->rnorm)) PetscCall(KSPIDRSDropStart_Private(ksp, idrs->v, &rnorm));
  KSPCheckNorm(ksp, rnorm);
  if (ksp->normtype != KSP_NORM_NONE) {
    ksp->rnorm = rnorm;
    PetscCall((*ksp->converged)(ksp, ksp->its, rnorm, &ksp->reason, ksp->cnvP));
  }
  if (!ksp->reason && rnorm == 0.0) ksp->reason = KSP_CONVERGED_HAPPY_BREAKDOWN;
  if (rnorm <= 0.5 * idrs->restartnorm) {
    idrs->fruitless   = 0;
    idrs->restartnorm = rnorm;
  }
  if (!ksp->reason && !idrs->astray && idrs->fruitless >= idrs->maxrestarts) {
    PetscCall(PetscInfo(ksp, "Breakdown after %" PetscInt_FMT " restarts\n", idrs->restarts));
    ksp->reason = KSP_DIVERGED_BREAKDOWN;
  }
  if (ksp->reason) PetscFunctionReturn(PETSC_SUCCESS);
  idrs->restarts++;
  if (!idrs->astray) idrs->fruitless++;
  if (idrs->d && PetscMin(idrs->rnorm, idrs->anchornorm) > 1e-3 * KSPIDRSFarthest(idrs, rnorm)) {
    PetscCall(VecCopy(idrs->v, idrs->r));
    PetscCall(KSPIDRSSmoothBegin_Private(ksp));
  } else PetscCall(KSPIDRSSmoothUnfold_Private(ksp, idrs->v));
  PetscCall(KSPIDRSBegin_Private(ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}
