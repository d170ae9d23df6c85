/*
   One cycle of IDR(s): s steps that enlarge the panels, one omega step. Statement by statement as on paper; the sums of
   each product are made in one reduction.

   With B the preconditioner on the right (identity otherwise; on the left A stands for B^{-1}A and b for B^{-1}b):

     step k = 0 ... s-1
       c(k:s)       M(k:s,k:s) c = f(k:s)
       v            r - G(:,k:s) c
       U_k          omega B^{-1}v + U(:,k:s) c
       G_k          A U_k
       reduction    d = P^H G_k,  G_k^H G_k,  r^H r
       alpha, M_k   make G_k orthogonal to p_0 ... p_{k-1}
       beta_k       f_k / M_kk,   f_i -= beta_k M_ik, i > k
       G_k, U_k     G_k - G(:,0:k) alpha,   U_k - U(:,0:k) alpha
       r            r - beta_k G_k

     omega step
       t            A B^{-1}r
       reduction    P^H t,  t^H t,  r^H r,  P^H r,  t^H r
       omega, f     f = P^H r - omega P^H t
       z            z + omega B^{-1}r + U beta(0:s)
       r            r - omega t

   The norm of the r that a step leaves comes with the next reduction, so an iteration is reported one product late; at
   once on one process and in the memory of the host, where the norm is there already. Either way x and r are then those
   of that iteration.

   A step that has begun to overwrite U_k is always finished, so that G = A U and M = P^H G stay true: when r has been
   replaced meanwhile, with beta_k = 0.
*/
#include "idrsimpl.h"

/* A sum that is infinite or not a number ends the solve, with ksp->reason set */
static PetscErrorCode KSPIDRSCheckSums_Private(KSP ksp, PetscInt count)
{
  const PetscScalar *sums  = ((KSP_IDRS *)ksp->data)->space->sums;
  PetscReal          worst = 0.0;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) {
    if (PetscIsInfOrNanScalar(sums[i])) worst = PetscAbsScalar(sums[i]);
  }
  KSPCheckNorm(ksp, worst);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* y = A x, or B^{-1}A x with preconditioning from the left */
PetscErrorCode KSPIDRSProduct_Private(KSP ksp, Vec x, Vec y, Vec work)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  Mat       A;

  PetscFunctionBegin;
  idrs->matvecs++;
  PetscCall(IDRSOrder(idrs->space));
  if (ksp->pc_side == PC_LEFT) PetscCall(KSP_PCApplyBAorAB(ksp, x, y, work));
  else {
    PetscCall(PCGetOperators(ksp->pc, &A, NULL));
    PetscCall(KSP_MatMult(ksp, A, x, y));
  }
  PetscCall(IDRSOrder(idrs->space));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* y = B^{-1}x */
PetscErrorCode KSPIDRSPrecondition_Private(KSP ksp, Vec x, Vec y)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  PetscCall(IDRSOrder(idrs->space));
  PetscCall(KSP_PCApply(ksp, x, y));
  PetscCall(IDRSOrder(idrs->space));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The part of a combine that can be done at once: a preconditioner stands between v and u */
static IDRSCombinePart KSPIDRSPart_Private(KSP ksp)
{
  return ((KSP_IDRS *)ksp->data)->preconditioned ? IDRS_COMBINE_V : IDRS_COMBINE_VU;
}

/*
   KSPIDRSReport_Private - Tells the rest of PETSc about an iteration: history, monitors, convergence test. A residual norm
   that meets the tolerance is verified; sets ksp->reason, or replaces r when b - A x does not keep what r promises.
*/
PetscErrorCode KSPIDRSReport_Private(KSP ksp, PetscInt its, PetscReal rnorm)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  idrs->pending = PETSC_FALSE;
  idrs->rnorm   = rnorm;
  idrs->peak    = PetscMax(idrs->peak, rnorm);
  PetscCall(PetscObjectSAWsTakeAccess((PetscObject)ksp));
  ksp->its   = its;
  ksp->rnorm = ksp->normtype == KSP_NORM_NONE ? 0.0 : rnorm;
  PetscCall(PetscObjectSAWsGrantAccess((PetscObject)ksp));
  KSPCheckNorm(ksp, rnorm);
  PetscCall(KSPLogResidualHistory(ksp, ksp->rnorm));
  PetscCall(KSPMonitor(ksp, its, ksp->rnorm));
  PetscCall((*ksp->converged)(ksp, its, ksp->rnorm, &ksp->reason, ksp->cnvP));
  if (idrs->exact && its && (ksp->reason == KSP_CONVERGED_RTOL || ksp->reason == KSP_CONVERGED_ATOL)) PetscCall(KSPIDRSVerify_Private(ksp));
  if (!ksp->reason && its >= ksp->max_it) ksp->reason = KSP_DIVERGED_ITS;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSProject_Private - f = P^H r and the norm of r, for an r that no step has made; reports the iteration that such
   a norm is pending for
*/
PetscErrorCode KSPIDRSProject_Private(KSP ksp)
{
  KSP_IDRS *idrs  = (KSP_IDRS *)ksp->data;
  IDRSSpace space = idrs->space;
  PetscReal rnorm;

  PetscFunctionBegin;
  PetscCall(IDRSProject(space, idrs->r, NULL, idrs->r));
  PetscCall(KSPIDRSCheckSums_Private(ksp, idrs->s + 1));
  if (ksp->reason) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscArraycpy(space->small.f, space->sums, idrs->s));
  rnorm = PetscSqrtReal(PetscRealPart(space->sums[IDRS_SUM_XX(idrs->s)]));
  if (rnorm == 0.0) PetscCall(VecNorm(idrs->r, NORM_2, &rnorm)); /* the squares of very small numbers vanish, their norm does not */
  idrs->replaced = PETSC_FALSE;
  idrs->rnorm    = rnorm;
  idrs->peak     = rnorm;
  if (idrs->pending) PetscCall(KSPIDRSReport_Private(ksp, ksp->its + 1, rnorm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* U_k = omega B^{-1}(r - G(:,k:s) c) + U(:,k:s) c, from where the last pass left it */
static PetscErrorCode KSPIDRSDirection_Private(KSP ksp, PetscInt k)
{
  KSP_IDRS      *idrs  = (KSP_IDRS *)ksp->data;
  IDRSSpace      space = idrs->space;
  const PetscInt e     = idrs->first ? k : idrs->s;

  PetscFunctionBegin;
  if (idrs->prepared == IDRS_COMBINE_NONE) {
    IDRSSmallCombine(&space->small, k);
    PetscCall(IDRSCombine(space, KSPIDRSPart_Private(ksp), k, e, idrs->r, idrs->v));
  }
  if (idrs->preconditioned) {
    PetscCall(KSPIDRSPrecondition_Private(ksp, idrs->v, idrs->t));
    PetscCall(IDRSCombine(space, IDRS_COMBINE_U, k, e, NULL, idrs->t));
  }
  idrs->prepared = IDRS_COMBINE_NONE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Step k; returns early with ksp->reason, or with idrs->brokendown */
static PetscErrorCode KSPIDRSStep_Private(KSP ksp, PetscInt k)
{
  KSP_IDRS       *idrs  = (KSP_IDRS *)ksp->data;
  IDRSSpace       space = idrs->space;
  IDRSSmall      *small = &space->small;
  const PetscInt  s     = idrs->s;
  IDRSCombinePart part  = IDRS_COMBINE_NONE;
  PetscBool       last;
  PetscReal       rnorm;

  PetscFunctionBegin;
  PetscCall(KSPIDRSDirection_Private(ksp, k));
  PetscCall(KSPIDRSProduct_Private(ksp, space->U[k], space->G[k], idrs->t));
  PetscCall(IDRSProject(space, space->G[k], NULL, idrs->r));
  PetscCall(KSPIDRSCheckSums_Private(ksp, s + 2));
  if (!ksp->reason && idrs->pending) PetscCall(KSPIDRSReport_Private(ksp, ksp->its + 1, PetscSqrtReal(PetscRealPart(space->sums[IDRS_SUM_RR(s)]))));
  if (ksp->reason) PetscFunctionReturn(PETSC_SUCCESS);

  if (!IDRSSmallOrthogonalize(small, k, space->sums, PetscRealPart(space->sums[IDRS_SUM_XX(s)]))) {
    PetscCall(PetscInfo(ksp, "Breakdown at iteration %" PetscInt_FMT ": M_kk = %g for k = %" PetscInt_FMT " is rounding error\n", ksp->its, (double)PetscAbsScalar(small->M[k + k * s]), k));
    idrs->brokendown = PETSC_TRUE;
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (idrs->replaced) small->beta[k] = 0.0;
  else IDRSSmallStep(small, k);

  last = (PetscBool)(ksp->its + 1 >= ksp->max_it);
  if (k + 1 < s && !idrs->replaced && !last) {
    part = KSPIDRSPart_Private(ksp);
    IDRSSmallCombine(small, k + 1);
  }
  PetscCall(IDRSUpdate(space, k, idrs->r, part, idrs->first ? k + 1 : s, idrs->v));
  idrs->prepared = part;
  idrs->pending  = PETSC_TRUE;
  if (idrs->replaced) PetscFunctionReturn(PETSC_SUCCESS);
  idrs->columns = k + 1;
  if (last || !idrs->lagged) {
    PetscCall(IDRSNorm(space, idrs->r, &rnorm));
    PetscCall(KSPIDRSReport_Private(ksp, ksp->its + 1, rnorm));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The omega step; returns early with ksp->reason, idrs->replaced or idrs->brokendown */
static PetscErrorCode KSPIDRSOmega_Private(KSP ksp)
{
  KSP_IDRS       *idrs  = (KSP_IDRS *)ksp->data;
  IDRSSpace       space = idrs->space;
  IDRSSmall      *small = &space->small;
  const PetscInt  s     = idrs->s;
  IDRSCombinePart part  = IDRS_COMBINE_NONE;
  Vec             p     = idrs->preconditioned ? idrs->v : NULL;
  PetscReal       rr0, rr;
  PetscBool       sharp, due;

  PetscFunctionBegin;
  if (p) PetscCall(KSPIDRSPrecondition_Private(ksp, idrs->r, p));
  PetscCall(KSPIDRSProduct_Private(ksp, p ? p : idrs->r, idrs->t, idrs->v));
  PetscCall(IDRSProject(space, idrs->t, idrs->r, idrs->r));
  PetscCall(KSPIDRSCheckSums_Private(ksp, IDRS_SUMS(s)));
  rr0 = PetscRealPart(space->sums[IDRS_SUM_RR(s)]);
  if (!ksp->reason && idrs->pending) PetscCall(KSPIDRSReport_Private(ksp, ksp->its + 1, PetscSqrtReal(rr0)));
  if (ksp->reason || idrs->replaced) PetscFunctionReturn(PETSC_SUCCESS);

  if (!IDRSSmallOmega(small, space->sums, idrs->cosine, &rr)) {
    PetscCall(PetscInfo(ksp, "Breakdown at iteration %" PetscInt_FMT ": no omega for ||A r|| = %g\n", ksp->its, (double)PetscSqrtReal(PetscRealPart(space->sums[IDRS_SUM_XX(s)]))));
    idrs->brokendown = PETSC_TRUE;
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  /* The difference that gives the new norm keeps half of its digits at least, or the norm is computed from r */
  sharp = (PetscBool)(rr > PETSC_SQRT_MACHINE_EPSILON * rr0);
  due   = (PetscBool)(!sharp || KSPIDRSUpdateDue(idrs, PetscSqrtReal(rr)));
  if (ksp->its + 1 < ksp->max_it && !due) {
    part = KSPIDRSPart_Private(ksp);
    IDRSSmallCombine(small, 0);
  }
  PetscCall(IDRSAdvance(space, p, idrs->t, idrs->z, idrs->r, part, s, idrs->v));
  idrs->prepared = part;
  idrs->columns  = 0;
  idrs->first    = PETSC_FALSE;
  if (sharp && idrs->lagged) idrs->rnorm = PetscSqrtReal(rr);
  else PetscCall(IDRSNorm(space, idrs->r, &idrs->rnorm));
  PetscCall(KSPIDRSReport_Private(ksp, ksp->its + 1, idrs->rnorm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSCycle_Private - One cycle, or less: it ends with ksp->reason, with idrs->brokendown, or with idrs->replaced when
   f has to be computed from the r that came in the place of the old one
*/
PetscErrorCode KSPIDRSCycle_Private(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  for (PetscInt k = 0; k < idrs->s; k++) {
    if (idrs->replaced && idrs->prepared != IDRS_COMBINE_VU) PetscFunctionReturn(PETSC_SUCCESS);
    PetscCall(KSPIDRSStep_Private(ksp, k));
    if (ksp->reason || idrs->brokendown) PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (!idrs->replaced) PetscCall(KSPIDRSOmega_Private(ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}
