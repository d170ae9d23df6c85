/*
   The parts of a step, which KSPIDRSIterate_Private() in idrs.c puts together. They decide nothing. B is the preconditioner on the
   right; on the left A stands for B^{-1}A and b for B^{-1}b.

   If the scalars are on a device, the host launches idrs->depth more steps before it collects the outcome of one. The device
   stops if the host must decide. Passes that were launched after the stop do nothing. Matvecs and preconditioners launched after
   it overwrite t, a column of G with the same A U, or, in the start, the next column of U, which is computed again. The host then
   finishes the step in which the device stopped.
*/
#include "idrsimpl.h"

/* Returns the present step of a column, for the passes */
IDRSStep KSPIDRSGetStep(const KSP_IDRS *idrs, const KSPIDRSColumn *col)
{
  IDRSStep step = col->rec.step;

  step.wantv = step.wantu = PETSC_FALSE;
  step.matvec             = (PetscBool)(idrs->reader == KSPIDRS_READ_BY_PASS);
  return step;
}

static void KSPIDRSPassAdd(KSPIDRSPass *pass, KSPIDRSColumn *col, const IDRSStep *step)
{
  pass->column[pass->group.count]       = col;
  pass->step[pass->group.count]         = *step;
  pass->group.work[pass->group.count++] = col->work;
}

/*
   KSPIDRSCombine_Private - Computes v = r - G(:,k:s) c with M(k:s,k:s) c = f(k:s), and without a preconditioner U_k, unless the
   last pass has. At the end of the start it computes r = r - G c
*/
PetscErrorCode KSPIDRSCombine_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  KSP_IDRS   *idrs = (KSP_IDRS *)ksp->data;
  KSPIDRSPass pass = {.group.count = 0};

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn           *col  = cols->column[i];
    const KSPIDRSRecurrence *rec  = &col->rec;
    IDRSStep                 step = KSPIDRSGetStep(idrs, col);

    if (rec->recycled || rec->stage != KSPIDRS_NOTHING) continue;
    step.wantv = PETSC_TRUE;
    if (rec->step.k == idrs->set.s) {
      if (rec->step.start) KSPIDRSPassAdd(&pass, col, &step);
    } else if (!rec->step.start) {
      step.wantu = (PetscBool)!KSPIDRSIsPreconditioned(idrs);
      IDRSScalarsCombine(col->scalars, rec->step.k); /* the scalars are on the host */
      KSPIDRSPassAdd(&pass, col, &step);
    }
  }
  if (pass.group.count) PetscCall(IDRSCombine(&pass.group, pass.step));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Applies the preconditioner together with the matvec. The scalars must be on the host */
static PetscErrorCode KSPIDRSPreconditionMult_Private(KSP ksp, KSPIDRSColumn *col)
{
  const IDRSScalars *scalars = col->scalars;
  const PetscInt     s = ((KSP_IDRS *)ksp->data)->set.s, k = col->rec.step.k;

  PetscFunctionBegin;
  PetscAssert(!col->work->ondevice, PetscObjectComm((PetscObject)ksp), PETSC_ERR_PLIB, "The scalars are on the device");
  /* p = B^{-1}r, t = A p */
  if (k == s) PetscCall(KSPIDRSPCApplyMult_Private(ksp, 1.0, col->r, PETSC_FALSE, col->v, col->t));
  /* U_k = B^{-1}v, G_k = A U_k */
  else if (col->rec.step.start)
    PetscCall(KSPIDRSPCApplyMult_Private(ksp, 1.0, k ? col->v : col->r, PETSC_FALSE, col->U[k], col->G[k]));
  else {
    PetscCall(IDRSStreamJoin(col->work));
    PetscCall(VecScale(col->U[k], scalars->c[k])); /* U_k = c_k U_k + U(:,k+1:s) c(k+1:s) */
    PetscCall(VecMAXPY(col->U[k], s - k - 1, scalars->c + k + 1, col->U + k + 1));
    /* U_k += omega B^{-1}v, G_k = A U_k */
    PetscCall(KSPIDRSPCApplyMult_Private(ksp, *scalars->omega, col->v, PETSC_TRUE, col->U[k], col->G[k]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSPrecondition_Private - Computes U_k = omega B^{-1}v + U(:,k:s) c, or B^{-1}v in the start, of columns whose U_k is not
   given, or p = B^{-1}r in the omega step. A fused operation also computes the matvec
*/
PetscErrorCode KSPIDRSPrecondition_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  KSP_IDRS   *idrs  = (KSP_IDRS *)ksp->data;
  KSPIDRSPass pass  = {.group.count = 0};
  PetscInt    count = 0;
  Vec         x[IDRS_MAX_WIDTH], y[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn  *col   = cols->column[i];
    const PetscInt  k     = col->rec.step.k;
    const PetscBool omega = (PetscBool)(k == idrs->set.s), start = col->rec.step.start;

    if (!col->rec.recycled) {
      if (!KSPIDRSIsPreconditioned(idrs)) { /* a direction that no pass has computed: p = D r, or U_0 = D r or r */
        if (omega && idrs->diagonal && col->rec.stage != KSPIDRS_HAVE_V)
          PetscCall(VecPointwiseMult(col->v, col->r, idrs->diagonal));
        if (start && !k && idrs->diagonal) PetscCall(VecPointwiseMult(col->U[0], col->r, idrs->diagonal));
        else if (start && !k) PetscCall(VecCopy(col->r, col->U[0]));
      } else if (idrs->pcmode == KSPIDRS_PC_FUSED) PetscCall(KSPIDRSPreconditionMult_Private(ksp, col));
      else {
        x[count]   = omega || (start && !k) ? col->r : col->v;      /* the operand is r at first and in the omega step */
        y[count++] = omega ? col->v : (start ? col->U[k] : col->t); /* p, U_k in the start, or t */
        if (!omega && !start) {
          IDRSStep step = KSPIDRSGetStep(idrs, col);

          step.wantu = PETSC_TRUE;
          KSPIDRSPassAdd(&pass, col, &step);
        }
      }
    }
    if (col->rec.stage != KSPIDRS_HAVE_R) col->rec.stage = KSPIDRS_HAVE_U;
  }
  if (count) PetscCall(KSPIDRSPCApplyColumns_Private(ksp, count, x, y)); /* y = B^{-1}x */
  if (pass.group.count) PetscCall(IDRSCombine(&pass.group, pass.step));  /* U_k = omega t + U(:,k:s) c */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSMatvec_Private - Computes G_k = A U_k, or t = A p in the omega step, unless the projection or a fused operation does */
PetscErrorCode KSPIDRSMatvec_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  Vec       u[IDRS_MAX_WIDTH], x[IDRS_MAX_WIDTH], w[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    const KSPIDRSColumn *col   = cols->column[i];
    const PetscInt       k     = col->rec.step.k;
    const PetscBool      omega = (PetscBool)(k == idrs->set.s);

    u[i] = omega ? col->p : col->U[k]; /* G_k = A U_k, or t = A p */
    x[i] = omega ? col->t : col->G[k];
    w[i] = omega ? col->v : col->t; /* scratch for PC_LEFT, where p is r, not v */
  }
  if (idrs->reader == KSPIDRS_READ_BY_PASS || (idrs->pcmode == KSPIDRS_PC_FUSED && !cols->column[0]->rec.recycled))
    idrs->counts.matvecs += cols->count;
  else PetscCall(KSPIDRSMatMultColumns_Private(ksp, cols, u, x, w));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSTestsNorm - Returns PETSC_TRUE if the convergence test may end the solve with the norm of this iteration */
PetscBool KSPIDRSTestsNorm(KSP ksp, PetscInt its)
{
  return (PetscBool)(ksp->normtype != KSP_NORM_NONE && ksp->converged == KSPConvergedDefault && its > ksp->chknorm &&
                     its >= IDRSMinimumIterations(ksp));
}

/* KSPIDRSGetTestedBounds - Returns the bounds beyond which the convergence test may end the solve, for norms of the scaled r */
IDRSBounds KSPIDRSGetTestedBounds(KSP ksp, const KSPIDRSColumn *col)
{
  const PetscBool tested = KSPIDRSTestsNorm(ksp, col->rec.its);

  return (IDRSBounds){.low    = tested ? col->scale * col->rep.ttol : -1.0,
                      .high   = tested ? ksp->divtol * (col->scale * col->rep.rnorm0) : PETSC_MAX_REAL,
                      .cosine = ((const KSP_IDRS *)ksp->data)->set.cosine};
}

/* KSPIDRSGetBounds - Returns the same bounds, also limited by the growth of r */
IDRSBounds KSPIDRSGetBounds(KSP ksp, const KSPIDRSColumn *col)
{
  IDRSBounds bounds = KSPIDRSGetTestedBounds(ksp, col);

  bounds.high = PetscMin(bounds.high, col->scale * KSPIDRSGrowthLimit((const KSP_IDRS *)ksp->data, col->trust.anchornorm));
  return bounds;
}

/*
   KSPIDRSProject_Private - Launches d = P^H G_k, G_k^H G_k, r^H r, and in the start and the omega step the sums with r. With bounds
   the device also does the algebra. The host does it after a replacement of r, and in a start with recycled U, at whose end it
   decides whether to keep them
*/
PetscErrorCode KSPIDRSProject_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  KSP_IDRS   *idrs  = (KSP_IDRS *)ksp->data;
  KSPIDRSPass async = {.group.count = 0}, lockstep = {.group.count = 0};
  IDRSBounds  bounds[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn     *col  = cols->column[i];
    KSPIDRSRecurrence *rec  = &col->rec;
    const IDRSStep     step = KSPIDRSGetStep(idrs, col);

    if (idrs->depth && rec->status == KSPIDRS_RECURS && rec->stage != KSPIDRS_HAVE_R && !rec->recycled) {
      bounds[async.group.count] = KSPIDRSGetBounds(ksp, col);
      KSPIDRSPassAdd(&async, col, &step);
    } else KSPIDRSPassAdd(&lockstep, col, &step);
    rec->stage = KSPIDRS_PROJECTED;
  }
  if (async.group.count) PetscCall(IDRSQueueLaunch(&async.group, async.step, bounds));
  if (lockstep.group.count) PetscCall(IDRSQueueLaunch(&lockstep.group, lockstep.step, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSProjectResidual_Private - Launches f = P^H r and ||r|| for an r that no step has computed */
PetscErrorCode KSPIDRSProjectResidual_Private(const KSPIDRSColumns *cols)
{
  const IDRSGroup group = KSPIDRSGetGroup(cols);
  IDRSStep        steps[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) steps[i] = (IDRSStep){.k = IDRS_RESIDUAL};
  PetscCall(IDRSQueueLaunch(&group, steps, NULL)); /* f = P^H r, r^H r */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the step of the pass that ends the step of a column. Without v the norm of r after an omega step is computed at once */
static IDRSStep KSPIDRSGetUpdate(KSP ksp, const KSPIDRSColumn *col, PetscBool due)
{
  const KSP_IDRS          *idrs = (const KSP_IDRS *)ksp->data;
  const KSPIDRSRecurrence *rec  = &col->rec;
  const PetscInt           s = idrs->set.s, k = rec->step.k;
  const PetscBool          last = (PetscBool)(rec->its + 1 >= ksp->max_it);
  IDRSStep                 step = KSPIDRSGetStep(idrs, col);

  if (k == s) step.wantv = (PetscBool)(!last && !due);
  else
    step.wantv = (PetscBool)((k + 1 < s || (idrs->diagonal && !rec->step.start)) && rec->status == KSPIDRS_RECURS &&
                             !rec->recycled && !last);
  step.wantu = (PetscBool)(step.wantv && k + 1 != s && !KSPIDRSIsPreconditioned(idrs));
  return step;
}

/*
   KSPIDRSScalars_Private - Computes alpha, M_k, beta_k and f of a step whose sums have been collected, or omega and f, unless a
   device does. *pass has the columns whose vectors must be updated.

   If the recurrence fails, the step is not finished. If r has been replaced, a step of the start or an omega step is not
   finished either. Other steps have overwritten U_k, so they are finished with beta_k = 0, which keeps G = A U and M = P^H G.
*/
PetscErrorCode KSPIDRSScalars_Private(KSP ksp, const KSPIDRSColumns *cols, KSPIDRSPass *pass)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  const PetscInt s    = idrs->set.s;

  PetscFunctionBegin;
  pass->group.count = 0;
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn     *col     = cols->column[i];
    KSPIDRSRecurrence *rec     = &col->rec;
    const IDRSScalars *scalars = col->scalars;
    const PetscInt     k       = rec->step.k;
    const PetscBool    recurs = (PetscBool)(rec->status == KSPIDRS_RECURS), host = (PetscBool)!col->work->ondevice;
    PetscReal          rr      = 0.0;
    PetscBool          due     = PETSC_FALSE;
    IDRSVerdict        verdict = IDRS_CONTINUES;
    IDRSStep           step    = KSPIDRSGetStep(idrs, col);

    PetscAssert(rec->stage == KSPIDRS_PROJECTED, PetscObjectComm((PetscObject)ksp), PETSC_ERR_PLIB, "There is no step to finish");
    rec->stage = KSPIDRS_NOTHING;
    if (!recurs && (rec->step.start || k == s)) continue;
    if (host) {
      /* r = r - G c, before beta becomes beta + c */
      if (rec->step.start && k == s) PetscCall(KSPIDRSSmoothMove_Private(ksp, s, scalars->c, col->U, col->G));
      PetscCall(IDRSQueueContinue(col->work, &step, idrs->set.cosine, &rr, &verdict));
      if (verdict == IDRS_NO_PIVOT)
        PetscCall(PetscInfo(ksp, "Breakdown at iteration %" PetscInt_FMT ": M_kk = %g, k = %" PetscInt_FMT ", is rounding error\n",
                            col->rep.its, (double)PetscAbsScalar(scalars->M[k + k * s]), k));
      if (verdict == IDRS_NO_OMEGA)
        PetscCall(PetscInfo(ksp, "Breakdown at iteration %" PetscInt_FMT ": no omega for ||A r|| = %g\n", col->rep.its,
                            (double)PetscSqrtReal(PetscRealPart(scalars->sums[IDRS_SUM_XX(s)]))));
      if (IDRSIsBreakdown(verdict)) {
        rec->status = KSPIDRS_BREAKDOWN;
        continue;
      }
      if (!recurs) scalars->beta[k] = 0.0; /* the sums belong to another r */
    }
    if (k == s) {
      /* a reliable update may be due, also if rounding makes the norm from the sums inaccurate, or the safeguard decides */
      due = (PetscBool)((host && !IDRSScalarsIsSharp(scalars, rr)) ||
                        KSPIDRSUpdateDue(idrs, col, host ? PetscSqrtReal(rr) / col->scale : col->trust.rnorm) ||
                        KSPIDRSSafeguardDue(col, rec->its + 1));
      PetscCall(KSPIDRSSmoothMove_Private(ksp, 1, scalars->omega, &col->p, &col->t)); /* x += omega p, r -= omega t */
      /* x += omega U_k, r -= omega G_k, with G_k before its orthogonalization */
    } else if (rec->step.start) PetscCall(KSPIDRSSmoothMove_Private(ksp, 1, scalars->beta + k, col->U + k, col->G + k));
    step                        = KSPIDRSGetUpdate(ksp, col, due);
    pass->rr[pass->group.count] = rr;
    KSPIDRSPassAdd(pass, col, &step);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSNextStep_Private - Goes to the next step after the pass of a step, and decides how the norm of the new r is obtained */
PetscErrorCode KSPIDRSNextStep_Private(KSP ksp, KSPIDRSPass *pass)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  const PetscInt s    = idrs->set.s;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < pass->group.count; i++) {
    KSPIDRSColumn     *col  = pass->column[i];
    KSPIDRSRecurrence *rec  = &col->rec;
    const PetscInt     k    = rec->step.k;
    const IDRSStep    *step = &pass->step[i];
    const PetscBool    host = (PetscBool)!col->work->ondevice, omega = (PetscBool)(k == s);
    PetscBool          now = PETSC_FALSE;
    /* on the host ||r||^2 = rr may be known from the sums of the step, with enough digits; rr may be negative if it is not */
    const PetscBool known = (PetscBool)(host && (omega || rec->step.start) && IDRSScalarsIsSharp(col->scalars, pass->rr[i]) &&
                                        idrs->lagged && !idrs->d);

    rec->its++;
    rec->stage = step->wantu ? KSPIDRS_HAVE_U : (step->wantv ? KSPIDRS_HAVE_V : KSPIDRS_NOTHING);
    /* x += beta_k U_k, r -= beta_k G_k */
    if (!omega && !rec->step.start) PetscCall(KSPIDRSSmoothMove_Private(ksp, 1, col->scalars->beta + k, col->U + k, col->G + k));
    IDRSStepNext(&rec->step, s);
    if (omega) {
      rec->columns = 0;
      now          = (PetscBool)(!step->wantv || (host && !(idrs->lagged && idrs->d)));
    } else if (rec->status == KSPIDRS_RECURS) {
      rec->columns = rec->step.k;
      /* the omega step that ends the start changes r before its reduction, which would include the norm */
      now = (PetscBool)(rec->its >= ksp->max_it || !idrs->lagged || (rec->step.start && rec->step.k == s && host));
    }
    pass->norm[i] = now ? (known ? KSPIDRS_NORM_FROM_SUMS : KSPIDRS_NORM_NOW) : KSPIDRS_NORM_LATER;
    PetscCall(KSPIDRSSmoothSums_Private(ksp, col));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
