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

   Where the host runs ahead of a device (idrsahead.c), the numbers are there, and all norms come with a later reduction.

   A step that has begun to overwrite U_k is always finished, so that G = A U and M = P^H G stay true: when r has been
   replaced meanwhile, with beta_k = 0.

   The recurrence starts with s minimal residual steps, as in Sonneveld and van Gijzen (2008): their residuals do not grow, and a solve
   that ends before its first omega step has got somewhere.

     start step k = 0 ... s-1
       U_k, G_k     B^{-1}v, A U_k,  v = r at first
       reduction    d = P^H G_k,  G_k^H G_k,  P^H r,  G_k^H r,  r^H r
       omega, f     omega = G_k^H r / G_k^H G_k,  f = P^H r - omega d
       r            r - omega G_k,  x + omega U_k
       alpha, M_k   G_k - G(:,0:k) alpha,  U_k - U(:,0:k) alpha,  as above
       v            r - G(:,0:k+1) c, most often with c = 0: see idrsscalars.h

     its omega step begins with
       r            r - G c,  x + U c,  M c = f:  P^H r = 0, as after every other cycle

   An r that replaces another one during the start has it begin anew.
*/
#include "idrsimpl.h"

/* y = A x, or B^{-1}A x with preconditioning from the left */
PetscErrorCode KSPIDRSProduct_Private(KSP ksp, Vec x, Vec y, Vec work)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  Mat       A;

  PetscFunctionBegin;
  idrs->matvecs++;
  idrs->productseconds -= IDRSGpuSeconds();
  PetscCall(IDRSOrder(idrs->work));
  if (ksp->pc_side == PC_LEFT) PetscCall(KSP_PCApplyBAorAB(ksp, x, y, work));
  else {
    PetscCall(PCGetOperators(ksp->pc, &A, NULL));
    PetscCall(KSP_MatMult(ksp, A, x, y));
  }
  PetscCall(IDRSOrder(idrs->work));
  idrs->productseconds += IDRSGpuSeconds();
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* y = B^{-1}x */
PetscErrorCode KSPIDRSPrecondition_Private(KSP ksp, Vec x, Vec y)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  idrs->preconditions++;
  idrs->pcseconds -= IDRSGpuSeconds();
  PetscCall(IDRSOrder(idrs->work));
  PetscCall(KSP_PCApply(ksp, x, y));
  PetscCall(IDRSOrder(idrs->work));
  idrs->pcseconds += IDRSGpuSeconds();
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The part of a combine that can be done at once: a preconditioner stands between v and u */
static IDRSCombinePart KSPIDRSPart_Private(KSP ksp)
{
  return ((KSP_IDRS *)ksp->data)->preconditioned ? IDRS_COMBINE_V : IDRS_COMBINE_VU;
}

/*
   KSPIDRSReport_Private - Tells the rest of PETSc about an iteration: convergence test, history, monitors. A residual norm
   that meets the tolerance is verified; sets ksp->reason, or replaces r when b - A x does not keep what r promises, and it is the norm of b - A x that is
   told then. A recurrence that has gone so far astray that nothing it finds would be more accurate than what it began with, or than the smoothed iterate,
   has broken down.
*/
PetscErrorCode KSPIDRSReport_Private(KSP ksp, PetscInt its, PetscReal rnorm)
{
  KSP_IDRS          *idrs = (KSP_IDRS *)ksp->data;
  KSPConvergedReason reason;
  PetscInt64         length;

  PetscFunctionBegin;
  idrs->rnorm = rnorm;
  idrs->peak  = PetscMax(idrs->peak, rnorm);
  PetscCall(KSPIDRSSmoothNorm_Private(ksp, &rnorm));
  PetscCall(PetscObjectSAWsTakeAccess((PetscObject)ksp));
  ksp->its   = its;
  ksp->rnorm = ksp->normtype == KSP_NORM_NONE ? 0.0 : rnorm;
  PetscCall(PetscObjectSAWsGrantAccess((PetscObject)ksp));
  idrs->logged = PETSC_FALSE;
  KSPCheckNorm(ksp, rnorm);
  PetscCall((*ksp->converged)(ksp, its, ksp->rnorm, &ksp->reason, ksp->cnvP));
  if (idrs->exact && its && (ksp->reason == KSP_CONVERGED_RTOL || ksp->reason == KSP_CONVERGED_ATOL)) PetscCall(KSPIDRSVerify_Private(ksp));
  if (!ksp->reason && its >= ksp->max_it) ksp->reason = KSP_DIVERGED_ITS;
  reason      = ksp->reason;
  ksp->reason = KSP_CONVERGED_ITERATING; /* with a reason KSPBuildSolution() in a monitor would take vec_sol to be complete */
  length      = (PetscInt64)ksp->res_hist_len;
  PetscCall(KSPLogResidualHistory(ksp, ksp->rnorm));
  idrs->logged = (PetscBool)(length < (PetscInt64)ksp->res_hist_len);
  PetscCall(KSPMonitor(ksp, its, ksp->rnorm));
  ksp->reason = reason;
  if (!ksp->reason && !idrs->replaced && !idrs->work->ahead && idrs->rnorm > KSPIDRSFarthest(idrs, idrs->d ? rnorm : idrs->anchornorm)) {
    PetscCall(PetscInfo(ksp, "Breakdown at iteration %" PetscInt_FMT ": ||r|| has grown to %g\n", its, (double)idrs->rnorm));
    idrs->brokendown = idrs->astray = PETSC_TRUE;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A sum that is infinite or not a number ends the solve, with ksp->reason set */
static PetscErrorCode KSPIDRSCheckSums_Private(KSP ksp, PetscBool y, PetscBool rr)
{
  PetscFunctionBegin;
  if (!IDRSScalarsAreFinite(&((KSP_IDRS *)ksp->data)->work->scalars, y, rr)) KSPCheckNorm(ksp, (PetscReal)INFINITY);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The iteration whose norm is pending, with the norm that came now */
static PetscErrorCode KSPIDRSReportPending_Private(KSP ksp, PetscReal rnorm)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  if (idrs->pending) {
    idrs->pending = PETSC_FALSE;
    PetscCall(KSPIDRSReport_Private(ksp, idrs->its, rnorm));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSReportSums_Private - The sums of a step have come to the host: are they storage, and with them the norm that was pending */
PetscErrorCode KSPIDRSReportSums_Private(KSP ksp)
{
  KSP_IDRS          *idrs = (KSP_IDRS *)ksp->data;
  const PetscScalar *sums = idrs->work->scalars.sums;
  const PetscInt     s    = idrs->s;

  PetscFunctionBegin;
  PetscCall(KSPIDRSCheckSums_Private(ksp, (PetscBool)(idrs->start || idrs->k == s), idrs->pending));
  if (ksp->reason) PetscFunctionReturn(PETSC_SUCCESS);
  if (idrs->start && idrs->k == 0) KSPIDRSSetStartNorm(idrs, PetscSqrtReal(PetscRealPart(sums[IDRS_SUM_YY(s)])));
  PetscCall(KSPIDRSReportPending_Private(ksp, PetscSqrtReal(PetscRealPart(sums[IDRS_SUM_RR(s)]))));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSProject_Private - f = P^H r and the norm of r, for an r that no step has made, and from which a cycle begins; reports
   the iteration that such a norm is pending for
*/
PetscErrorCode KSPIDRSProject_Private(KSP ksp)
{
  KSP_IDRS       *idrs     = (KSP_IDRS *)ksp->data;
  IDRSWork        work     = idrs->work;
  const PetscReal promised = idrs->rnorm;
  PetscReal       rnorm;

  PetscFunctionBegin;
  PetscCall(IDRSProject(work, idrs->r, NULL, idrs->r, NULL));
  PetscCall(KSPIDRSCheckSums_Private(ksp, PETSC_FALSE, PETSC_FALSE));
  if (ksp->reason) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscArraycpy(work->scalars.f, work->scalars.sums, idrs->s));
  rnorm            = PetscSqrtReal(PetscRealPart(work->scalars.sums[IDRS_SUM_XX(idrs->s)]));
  idrs->k          = 0;
  idrs->replaced   = PETSC_FALSE;
  idrs->rnorm      = rnorm;
  idrs->anchornorm = rnorm;
  idrs->peak       = rnorm;
  PetscCall(KSPIDRSReportPending_Private(ksp, rnorm));
  /* Where an update confirms the norm of the recurrence it says nothing of the attainable accuracy */
  if (!ksp->reason && idrs->updated && rnorm > 2.0 * promised) PetscCall(KSPIDRSProgress_Private(ksp, rnorm, IDRS_STAGNATION_UPDATE));
  idrs->updated = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The direction of step k, from where the last pass left it: U_k = omega B^{-1}(r - G(:,k:s) c) + U(:,k:s) c, or B^{-1}v in the start */
static PetscErrorCode KSPIDRSDirection_Private(KSP ksp)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  IDRSWork       work = idrs->work;
  const PetscInt k    = idrs->k;

  PetscFunctionBegin;
  if (idrs->start) {
    if (idrs->preconditioned) PetscCall(KSPIDRSPrecondition_Private(ksp, k ? idrs->v : idrs->r, work->U[k]));
    else if (!k) PetscCall(VecCopy(idrs->r, work->U[0]));
  } else {
    if (idrs->prepared == IDRS_COMBINE_NONE) {
      IDRSScalarsCombine(&work->scalars, k);
      PetscCall(IDRSCombine(work, KSPIDRSPart_Private(ksp), k, idrs->r, idrs->v));
    }
    if (idrs->preconditioned) {
      PetscCall(KSPIDRSPrecondition_Private(ksp, idrs->v, idrs->t));
      PetscCall(IDRSCombine(work, IDRS_COMBINE_U, k, NULL, idrs->t));
    }
  }
  idrs->prepared = IDRS_COMBINE_NONE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A step or omega step up to its projection */
static PetscErrorCode KSPIDRSBeginStep_Private(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  IDRSWork  work = idrs->work;
  Vec       x = idrs->t, y = NULL;

  PetscFunctionBegin;
  if (idrs->k < idrs->s) {
    PetscCall(KSPIDRSDirection_Private(ksp));
    x = work->G[idrs->k];
    if (idrs->start) y = idrs->r;
    PetscCall(KSPIDRSProduct_Private(ksp, work->U[idrs->k], x, idrs->t));
  } else {
    y = idrs->r;
    if (idrs->start && !idrs->projectedr) PetscCall(IDRSCombine(work, IDRS_COMBINE_V, 0, idrs->r, idrs->r));
    idrs->projectedr = PETSC_TRUE;
    if (idrs->preconditioned) PetscCall(KSPIDRSPrecondition_Private(ksp, idrs->r, idrs->v));
    PetscCall(KSPIDRSProduct_Private(ksp, idrs->preconditioned ? idrs->v : idrs->r, x, idrs->v));
  }
  idrs->projected = PETSC_TRUE;
  /* An omega step whose norm is not pending is one where the device has stopped */
  if (idrs->ahead && !idrs->replaced && (idrs->pending || idrs->k < idrs->s)) PetscCall(KSPIDRSProjectAhead_Private(ksp, x, y));
  else PetscCall(IDRSProject(work, x, y, idrs->r, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   What the sums of a projection say, where they have come to the host: the norm that was pending, and the numbers that follow.
   The rest of the step is off with ksp->reason or idrs->brokendown, and that of an omega step, or in the start, with idrs->replaced.
*/
static PetscErrorCode KSPIDRSNext_Private(KSP ksp, PetscReal *rr)
{
  KSP_IDRS      *idrs    = (KSP_IDRS *)ksp->data;
  IDRSScalars   *scalars = &idrs->work->scalars;
  const PetscInt s = idrs->s, k = idrs->k;

  PetscFunctionBegin;
  PetscCall(KSPIDRSReportSums_Private(ksp));
  if (ksp->reason || (idrs->replaced && (k == s || idrs->start))) PetscFunctionReturn(PETSC_SUCCESS);
  if (idrs->start && k == s) PetscCall(KSPIDRSSmoothMove_Private(ksp, s, scalars->c, idrs->work->U, idrs->work->G));
  if (!IDRSScalarsContinue(scalars, k, idrs->start, idrs->cosine, rr)) {
    if (k < s) PetscCall(PetscInfo(ksp, "Breakdown at iteration %" PetscInt_FMT ": M_kk = %g for k = %" PetscInt_FMT " is rounding error\n", ksp->its, (double)PetscAbsScalar(scalars->M[k + k * s]), k));
    else PetscCall(PetscInfo(ksp, "Breakdown at iteration %" PetscInt_FMT ": no omega for ||A r|| = %g\n", ksp->its, (double)PetscSqrtReal(PetscRealPart(scalars->sums[IDRS_SUM_XX(s)]))));
    idrs->brokendown = PETSC_TRUE;
  } else if (idrs->replaced) scalars->beta[k] = 0.0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSIsSharp - Whether rr = ||r - omega t||^2, a difference of squares, keeps at least half of its digits. It does not where r has hardly any
   component but that along t, and the norm is computed from the vector there
*/
static PetscBool KSPIDRSIsSharp(const KSP_IDRS *idrs, PetscReal rr)
{
  return (PetscBool)(rr > PETSC_SQRT_MACHINE_EPSILON * PetscRealPart(idrs->work->scalars.sums[IDRS_SUM_YY(idrs->s)]));
}

/*
   An iteration whose norm cannot wait for the next projection, and is known or computed from r; unless the device has stopped before it. With
   KSP_NORM_NONE no reduction is made for a norm that nothing but the next step would need.
*/
static PetscErrorCode KSPIDRSReportNow_Private(KSP ksp, PetscBool known, PetscReal rnorm)
{
  KSP_IDRS       *idrs = (KSP_IDRS *)ksp->data;
  const PetscBool off  = (PetscBool)(ksp->normtype == KSP_NORM_NONE && idrs->lagged && !idrs->d);
  PetscBool       stopped;

  PetscFunctionBegin;
  PetscCall(KSPIDRSCatchUp_Private(ksp, &stopped));
  if (ksp->reason || stopped) PetscFunctionReturn(PETSC_SUCCESS);
  if (!known && !off) PetscCall(IDRSNorm(idrs->work, idrs->r, &rnorm));
  idrs->pending = PETSC_FALSE;
  PetscCall(KSPIDRSReport_Private(ksp, idrs->its, known || !off ? rnorm : idrs->rnorm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The rest of step k */
static PetscErrorCode KSPIDRSEndStep_Private(KSP ksp)
{
  KSP_IDRS       *idrs = (KSP_IDRS *)ksp->data;
  IDRSWork        work = idrs->work;
  const PetscInt  s    = idrs->s;
  IDRSCombinePart part = IDRS_COMBINE_NONE;
  PetscReal       rr   = 0.0;
  PetscInt        k;
  PetscBool       last, known;

  PetscFunctionBegin;
  if (!work->ahead) PetscCall(KSPIDRSNext_Private(ksp, &rr));
  if (ksp->reason || idrs->brokendown || (idrs->replaced && idrs->start)) PetscFunctionReturn(PETSC_SUCCESS);
  last = (PetscBool)(++idrs->its >= ksp->max_it);
  k    = idrs->k++;
  if (idrs->k < s && !idrs->replaced && !last) part = KSPIDRSPart_Private(ksp);
  if (idrs->start) PetscCall(KSPIDRSSmoothMove_Private(ksp, 1, work->scalars.beta + k, work->U + k, work->G + k));
  PetscCall(IDRSUpdate(work, k, idrs->start, idrs->r, part, idrs->v));
  if (!idrs->start) PetscCall(KSPIDRSSmoothMove_Private(ksp, 1, work->scalars.beta + k, work->U + k, work->G + k));
  PetscCall(KSPIDRSSmoothSums_Private(ksp));
  idrs->prepared = part;
  idrs->pending  = PETSC_TRUE;
  if (idrs->replaced) PetscFunctionReturn(PETSC_SUCCESS);
  idrs->columns = idrs->k;
  /* The omega step that ends the start changes r before its reduction, with which the norm would come */
  known = (PetscBool)(idrs->start && !work->ahead && idrs->lagged && !idrs->d && KSPIDRSIsSharp(idrs, rr));
  if (last || !idrs->lagged || (idrs->start && idrs->k == s && !work->ahead)) PetscCall(KSPIDRSReportNow_Private(ksp, known, known ? PetscSqrtReal(rr) : 0.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The rest of the omega step */
static PetscErrorCode KSPIDRSEndOmega_Private(KSP ksp)
{
  KSP_IDRS       *idrs  = (KSP_IDRS *)ksp->data;
  IDRSWork        work  = idrs->work;
  IDRSCombinePart part  = IDRS_COMBINE_NONE;
  PetscReal       rr    = 0.0;
  Vec             p     = idrs->preconditioned ? idrs->v : idrs->r;
  PetscBool       sharp = PETSC_FALSE, due, later = (PetscBool)(work->ahead || (idrs->lagged && idrs->d)); /* is the norm known only with the next reduction? */

  PetscFunctionBegin;
  if (work->ahead) due = KSPIDRSUpdateDue(idrs, idrs->rnorm);
  else {
    PetscCall(KSPIDRSNext_Private(ksp, &rr));
    if (ksp->reason || idrs->brokendown || idrs->replaced) PetscFunctionReturn(PETSC_SUCCESS);
    sharp = KSPIDRSIsSharp(idrs, rr);
    due   = (PetscBool)(!sharp || KSPIDRSUpdateDue(idrs, PetscSqrtReal(rr)));
  }
  if (++idrs->its < ksp->max_it && !due) part = KSPIDRSPart_Private(ksp);
  PetscCall(KSPIDRSSmoothMove_Private(ksp, 1, work->scalars.omega, &p, &idrs->t));
  PetscCall(IDRSAdvance(work, idrs->preconditioned ? idrs->v : NULL, idrs->t, idrs->z, idrs->r, part, idrs->v));
  PetscCall(KSPIDRSSmoothSums_Private(ksp));
  idrs->prepared   = part;
  idrs->columns    = 0;
  idrs->start      = PETSC_FALSE;
  idrs->projectedr = PETSC_FALSE;
  idrs->k          = 0;
  idrs->pending    = PETSC_TRUE;
  if (!later || part == IDRS_COMBINE_NONE) PetscCall(KSPIDRSReportNow_Private(ksp, (PetscBool)(sharp && idrs->lagged && !idrs->d), sharp ? PetscSqrtReal(rr) : 0.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSStep_Private - The next step, or omega step, of the cycle, or the rest of one when idrs->projected. It ends with
   ksp->reason, with idrs->brokendown, with idrs->replaced when f has to be computed from the r that came in the place of
   the old one, and otherwise with the step done, or where the device had stopped.
*/
PetscErrorCode KSPIDRSStep_Private(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  if (!idrs->projected) PetscCall(KSPIDRSBeginStep_Private(ksp));
  if (ksp->reason || !idrs->projected) PetscFunctionReturn(PETSC_SUCCESS);
  idrs->projected = PETSC_FALSE;
  if (idrs->k < idrs->s) PetscCall(KSPIDRSEndStep_Private(ksp));
  else PetscCall(KSPIDRSEndOmega_Private(ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}
