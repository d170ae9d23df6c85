/*
   The parts of a step of IDR(s), which KSPIDRSStepColumns_Private() in idrsrun.c calls. A cycle is s steps that fill the panels,
   and an omega step. B is the preconditioner on the right; on the left A stands for B^{-1}A and b for B^{-1}b.

   The recurrence starts with s minimal residual steps, as in Sonneveld and van Gijzen (2008). Their residuals do not grow, so a
   solve that ends before its first omega step has reduced the residual. If r is replaced during the start, the start begins again.

     start step k = 0 ... s-1
       U_k, G_k     B^{-1}v, A U_k,  v = r at first
       reduction    d = P^H G_k,  G_k^H G_k,  P^H r,  G_k^H r,  r^H r
       omega, f     omega = G_k^H r / G_k^H G_k,  f = P^H r - omega d
       r            r - omega G_k,  x + omega U_k
       alpha, M_k   G_k - G(:,0:k) alpha,  U_k - U(:,0:k) alpha
       v            r - G(:,0:k+1) c, most often with c = 0: see idrsscalars.h

     its omega step begins with
       r            r - G c,  x + U c,  M c = f:  P^H r = 0, as after every other cycle

   The norm of the new r comes with the reduction of the next step, so an iteration is reported one matvec late. On one process
   and in host memory the norm is reported at once. In both cases x and r still belong to the reported iteration.

   If the scalars are on a device, the host launches idrs->depth more steps before it collects the outcome of one. The device
   stops if the host must decide. Passes that were launched after the stop do nothing. Matvecs and preconditioners launched after
   it overwrite t, a column of G with the same A U, or, in the start, the next column of U, which is computed again. The host then
   finishes the step in which the device stopped.
*/
#include "idrsimpl.h"

/* Returns the present step of a column, for the passes */
static IDRSStep KSPIDRSGetStep(const KSP_IDRS *idrs, const KSPIDRSColumn *col)
{
  IDRSStep step = col->rec.step;

  step.wantv = step.wantu = PETSC_FALSE;
  step.matvec             = (PetscBool)(idrs->reader == KSPIDRS_READ_BY_PASS);
  return step;
}

/* Columns of a pass, with the step of each */
typedef struct {
  IDRSGroup group;
  IDRSStep  step[IDRS_MAX_WIDTH];
} KSPIDRSPass;

static void KSPIDRSPassAdd(KSPIDRSPass *pass, const KSPIDRSColumn *col, const IDRSStep *step)
{
  pass->step[pass->group.count]         = *step;
  pass->group.work[pass->group.count++] = col->work;
}

/*
   Launches the combination of vectors in the direction, before a preconditioner, unless the pass before has computed it. After the
   start it solves for c first; the scalars are on the host then
*/
static PetscErrorCode KSPIDRSCombine_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  KSP_IDRS   *idrs = (KSP_IDRS *)ksp->data;
  KSPIDRSPass pass = {.group.count = 0};

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn     *col  = cols->column[i];
    KSPIDRSRecurrence *rec  = &col->rec;
    IDRSStep           step = KSPIDRSGetStep(idrs, col);

    step.wantv = PETSC_TRUE;
    if (rec->step.k == idrs->set.s) {
      if (rec->step.start && rec->omega == KSPIDRS_OMEGA_NEW) {
        KSPIDRSPassAdd(&pass, col, &step); /* r = r - G c */
        rec->omega = KSPIDRS_OMEGA_PROJECTED;
      }
    } else if (!rec->step.start && rec->stage == KSPIDRS_NOTHING) {
      step.wantu = (PetscBool)!KSPIDRSIsPreconditioned(idrs); /* U_k = omega v + U(:,k:s) c, in the same pass */
      IDRSScalarsCombine(col->scalars, rec->step.k);          /* M(k:s,k:s) c = f(k:s) */
      KSPIDRSPassAdd(&pass, col, &step);                      /* v = r - G(:,k:s) c */
    }
  }
  if (pass.group.count) PetscCall(IDRSCombine(&pass.group, pass.step));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Applies the preconditioner: to r in the omega step, to v before U_k */
static PetscErrorCode KSPIDRSPrecondition_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  KSP_IDRS   *idrs = (KSP_IDRS *)ksp->data;
  KSPIDRSPass pass = {.group.count = 0};
  Vec         x[IDRS_MAX_WIDTH], y[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    const KSPIDRSColumn *col   = cols->column[i];
    const PetscInt       k     = col->rec.step.k;
    const PetscBool      omega = (PetscBool)(k == idrs->set.s);

    x[i] = omega || (col->rec.step.start && !k) ? col->r : col->v;      /* the operand is r at first and in the omega step */
    y[i] = omega ? col->v : (col->rec.step.start ? col->U[k] : col->t); /* p, U_k in the start, or t */
    if (!omega && !col->rec.step.start) {
      IDRSStep step = KSPIDRSGetStep(idrs, col);

      step.wantu = PETSC_TRUE;
      KSPIDRSPassAdd(&pass, col, &step);
    }
  }
  PetscCall(KSPIDRSPCApplyColumns_Private(ksp, cols->count, x, y));     /* y = B^{-1}x */
  if (pass.group.count) PetscCall(IDRSCombine(&pass.group, pass.step)); /* U_k = omega t + U(:,k:s) c */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Applies the preconditioner together with the matvec. The scalars must be on the host */
static PetscErrorCode KSPIDRSPreconditionMult_Private(KSP ksp, KSPIDRSColumn *col)
{
  const IDRSScalars *scalars = col->scalars;
  const PetscInt     s = ((KSP_IDRS *)ksp->data)->set.s, k = col->rec.step.k;

  PetscFunctionBegin;
  PetscAssert(!IDRSQueueOnDevice(col->work), PetscObjectComm((PetscObject)ksp), PETSC_ERR_PLIB, "The scalars are on the device");
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

/* Computes a direction that no pass has computed: B^{-1}r with a diagonal B, or r, with which a recurrence begins */
static PetscErrorCode KSPIDRSCopyDirection_Private(KSP ksp, KSPIDRSColumn *col)
{
  KSP_IDRS                *idrs = (KSP_IDRS *)ksp->data;
  const KSPIDRSRecurrence *rec  = &col->rec;

  PetscFunctionBegin;
  if (rec->step.k == idrs->set.s) {
    if (idrs->diagonal && rec->stage != KSPIDRS_HAVE_V) PetscCall(VecPointwiseMult(col->v, col->r, idrs->diagonal));
  } else if (rec->step.start && !rec->step.k) {
    if (idrs->diagonal) PetscCall(VecPointwiseMult(col->U[0], col->r, idrs->diagonal));
    else PetscCall(VecCopy(col->r, col->U[0]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSDirection_Private - Computes U_k, or p = B^{-1}r in the omega step, of columns whose U_k is not given; a joint operation
   also computes the matvec
*/
PetscErrorCode KSPIDRSDirection_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  KSP_IDRS      *idrs  = (KSP_IDRS *)ksp->data;
  KSPIDRSColumns needs = {.count = 0};

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    if (cols->column[i]->rec.given) cols->column[i]->rec.stage = KSPIDRS_HAVE_U;
    else needs.column[needs.count++] = cols->column[i];
  }
  if (!needs.count) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSCombine_Private(ksp, &needs));
  if (idrs->pcmode == KSPIDRS_PC_JOINT) PetscCall(KSPIDRSPreconditionMult_Private(ksp, needs.column[0]));
  else if (KSPIDRSIsPreconditioned(idrs)) PetscCall(KSPIDRSPrecondition_Private(ksp, &needs));
  for (PetscInt i = 0; i < needs.count; i++) {
    if (!KSPIDRSIsPreconditioned(idrs)) PetscCall(KSPIDRSCopyDirection_Private(ksp, needs.column[i]));
    needs.column[i]->rec.stage = KSPIDRS_HAVE_U;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSMatvec_Private - Computes the matvec of the step, unless the projection or a joint operation does */
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
    w[i] = omega ? col->v : col->t; /* scratch */
  }
  if (idrs->reader == KSPIDRS_READ_BY_PASS || (idrs->pcmode == KSPIDRS_PC_JOINT && !cols->column[0]->rec.given))
    idrs->counts.matvecs += cols->count;
  else PetscCall(KSPIDRSMatMultColumns_Private(ksp, cols, u, x, w));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns PETSC_TRUE if the convergence test may end the solve with the norm of this iteration */
static PetscBool KSPIDRSTestsNorm(KSP ksp, PetscInt its)
{
  return (PetscBool)(ksp->normtype != KSP_NORM_NONE && ksp->converged == KSPConvergedDefault && its > ksp->chknorm &&
                     its >= IDRSMinimumIterations(ksp));
}

/*
   KSPIDRSTestedNorm - Returns the norm of the scaled r of a column at which the convergence test may end the solve in this
   iteration, or -1
*/
PetscReal KSPIDRSTestedNorm(KSP ksp, const KSPIDRSColumn *col, PetscInt its)
{
  return KSPIDRSTestsNorm(ksp, its) ? col->scale * col->rep.ttol : -1.0;
}

/* Returns the bounds beyond which the convergence test may end the solve, for norms of the scaled r */
static IDRSBounds KSPIDRSGetTestedBounds(KSP ksp, const KSPIDRSColumn *col)
{
  const PetscBool tested = KSPIDRSTestsNorm(ksp, col->rec.its);

  return (IDRSBounds){.low    = KSPIDRSTestedNorm(ksp, col, col->rec.its),
                      .high   = tested ? ksp->divtol * (col->scale * col->rep.rnorm0) : PETSC_MAX_REAL,
                      .cosine = ((const KSP_IDRS *)ksp->data)->set.cosine};
}

/* Returns the same bounds, also limited by the growth of r */
static IDRSBounds KSPIDRSGetBounds(KSP ksp, const KSPIDRSColumn *col)
{
  IDRSBounds bounds = KSPIDRSGetTestedBounds(ksp, col);

  bounds.high = PetscMin(bounds.high, col->scale * KSPIDRSGrowthLimit((const KSP_IDRS *)ksp->data, col->trust.anchornorm));
  return bounds;
}

/*
   KSPIDRSLaunch_Private - Launches the projections of the step, with bounds if a device continues. The host continues after a
   replacement of r, and in a start with recycled U, at whose end it decides whether to keep them
*/
PetscErrorCode KSPIDRSLaunch_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  KSP_IDRS   *idrs  = (KSP_IDRS *)ksp->data;
  KSPIDRSPass async = {.group.count = 0}, lockstep = {.group.count = 0};
  IDRSBounds  bounds[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn *col  = cols->column[i];
    const IDRSStep step = KSPIDRSGetStep(idrs, col);

    if (idrs->depth && col->rec.residual == KSPIDRS_RECURRED && col->rec.omega != KSPIDRS_OMEGA_REPEAT && !col->rec.given) {
      bounds[async.group.count] = KSPIDRSGetBounds(ksp, col);
      KSPIDRSPassAdd(&async, col, &step);
    } else KSPIDRSPassAdd(&lockstep, col, &step);
    col->rec.stage = KSPIDRS_PROJECTED;
  }
  /* d = P^H G_k, G_k^H G_k, r^H r, and the algebra */
  if (async.group.count) PetscCall(IDRSQueueLaunch(&async.group, async.step, bounds));
  if (lockstep.group.count) PetscCall(IDRSQueueLaunch(&lockstep.group, lockstep.step, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSCollect_Private - Collects the outcome of the oldest projection in flight. If the device stopped there, the recurrence
   returns to that step; an omega step is repeated, because its t has been overwritten
*/
PetscErrorCode KSPIDRSCollect_Private(KSPIDRSColumn *col, IDRSOutcome *outcome)
{
  KSPIDRSRecurrence *rec  = &col->rec;
  const IDRSStep    *step = &outcome->step;

  PetscFunctionBegin;
  PetscCall(IDRSQueueCollect(col->work, outcome));
  outcome->rnorm /= col->scale;
  if (outcome->stopped) {
    rec->step    = *step;
    rec->columns = step->k;
    rec->its     = col->rep.its + (step->unreported ? 1 : 0);
    rec->omega   = step->k == col->scalars->s ? KSPIDRS_OMEGA_REPEAT : KSPIDRS_OMEGA_NEW;
    rec->stage   = rec->omega == KSPIDRS_OMEGA_REPEAT ? KSPIDRS_NOTHING : KSPIDRS_PROJECTED; /* the sums are on the host */
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSCanBeWhole - Returns PETSC_TRUE if one kernel may make the next steps: r belongs to the recurrence, the next step is not
   the omega step that ends the start, no omega step is repeated, no U_k is given, the guard of recycling and the check of the
   iterate are not due, and the convergence test looks at all norms from now on
*/
PetscBool KSPIDRSCanBeWhole(KSP ksp, const KSPIDRSColumn *col)
{
  const KSPIDRSRecurrence *rec = &col->rec;

  return (PetscBool)(rec->stage != KSPIDRS_PROJECTED && !rec->suspended && rec->residual == KSPIDRS_RECURRED &&
                     rec->omega != KSPIDRS_OMEGA_REPEAT && !(rec->step.start && rec->step.k == col->scalars->s) && !rec->given &&
                     rec->its + 1 < KSPIDRSNextDecision(col) &&
                     (KSPIDRSTestsNorm(ksp, rec->its) || ksp->normtype == KSP_NORM_NONE || ksp->converged != KSPConvergedDefault));
}

/*
   KSPIDRSGetWholeTask - Returns the steps and reliable updates of one kernel, from a step that has its direction or from the first
*/
IDRSWholeTask KSPIDRSGetWholeTask(KSP ksp, const KSPIDRSColumn *col)
{
  const KSP_IDRS  *idrs   = (const KSP_IDRS *)ksp->data;
  const PetscReal  scale  = col->scale;
  const IDRSLimits limits = {.bounds     = KSPIDRSGetBounds(ksp, col),
                             .its        = col->rec.its,
                             .maxits     = PetscMin(ksp->max_it, KSPIDRSNextDecision(col)),
                             .fall       = col->anchor ? idrs->set.updatetol : 0.0,
                             .anchornorm = scale * col->trust.anchornorm,
                             .peak       = scale * col->trust.peak,
                             .tested     = KSPIDRSGetTestedBounds(ksp, col).high,
                             .growth     = KSPIDRSGrowth(idrs)};
  /* x is NULL if the host makes the updates */
  IDRSWholeTask task = {.work    = col->work,
                        .limits  = limits,
                        .x       = scale == 1.0 ? col->rep.sol : NULL,
                        .anchor  = col->anchor,
                        .outcome = {.step = KSPIDRSGetStep(idrs, col)}};

  task.outcome.step.wantu = KSPIDRSBeginsWhole(&col->rec);
  return task;
}

/* KSPIDRSTakeWhole - Adopts the results of a kernel. The host must finish the step in its outcome, or project an updated r */
void KSPIDRSTakeWhole(KSP ksp, KSPIDRSColumn *col, IDRSWholeTask *task)
{
  KSP_IDRS              *idrs    = (KSP_IDRS *)ksp->data;
  KSPIDRSRecurrence     *rec     = &col->rec;
  const IDRSWholeReport *report  = &task->report;
  const PetscBool        updated = (PetscBool)(task->outcome.step.k == IDRS_RESIDUAL);

  task->outcome.rnorm /= col->scale;
  idrs->counts.wholes++;
  idrs->counts.wholematvecs += report->matvecs;
  idrs->counts.matvecs += report->matvecs;
  idrs->counts.updates += report->updates + (updated ? 1 : 0);
  rec->its += report->completed;
  rec->step = task->outcome.step;
  if (updated) rec->step.k = 0;
  rec->columns = rec->step.k;
  rec->omega   = rec->step.start && rec->step.k == idrs->set.s ? KSPIDRS_OMEGA_PROJECTED : KSPIDRS_OMEGA_NEW;
  rec->stage   = updated ? KSPIDRS_NOTHING : KSPIDRS_PROJECTED;
}

/* KSPIDRSProject_Private - Launches f = P^H r and ||r|| for an r that no step has computed */
PetscErrorCode KSPIDRSProject_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  const IDRSGroup group = KSPIDRSGetGroup(cols);
  IDRSStep        steps[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) steps[i] = (IDRSStep){.k = IDRS_RESIDUAL};
  PetscCall(IDRSQueueLaunch(&group, steps, NULL)); /* f = P^H r, r^H r */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the scalars of a step from sums on the host. rr is ||r||^2 after an omega step or a step of the start */
static PetscErrorCode KSPIDRSContinue_Private(KSP ksp, KSPIDRSColumn *col, PetscReal *rr)
{
  KSP_IDRS          *idrs    = (KSP_IDRS *)ksp->data;
  KSPIDRSRecurrence *rec     = &col->rec;
  const IDRSScalars *scalars = col->scalars;
  const PetscInt     s = idrs->set.s, k = rec->step.k;
  const IDRSStep     step = KSPIDRSGetStep(idrs, col);
  IDRSVerdict        verdict;

  PetscFunctionBegin;
  /* r = r - G c, before beta becomes beta + c */
  if (rec->step.start && k == s) PetscCall(KSPIDRSSmoothMove_Private(ksp, s, scalars->c, col->U, col->G));
  PetscCall(IDRSQueueContinue(col->work, &step, idrs->set.cosine, rr, &verdict)); /* alpha, M_k, beta_k, f, or omega, f */
  if (verdict == IDRS_NO_PIVOT)
    PetscCall(PetscInfo(ksp, "Breakdown at iteration %" PetscInt_FMT ": M_kk = %g for k = %" PetscInt_FMT " is rounding error\n",
                        col->rep.its, (double)PetscAbsScalar(scalars->M[k + k * s]), k));
  if (verdict == IDRS_NO_OMEGA)
    PetscCall(PetscInfo(ksp, "Breakdown at iteration %" PetscInt_FMT ": no omega for ||A r|| = %g\n", col->rep.its,
                        (double)PetscSqrtReal(PetscRealPart(scalars->sums[IDRS_SUM_XX(s)]))));
  if (IDRSIsBreakdown(verdict)) rec->suspended = KSPIDRS_BREAKDOWN;
  else if (rec->residual != KSPIDRS_RECURRED) scalars->beta[k] = 0.0; /* the sums belong to another r */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the step of the pass that finishes a step */
static IDRSStep KSPIDRSGetFinish(KSP ksp, const KSPIDRSColumn *col, PetscBool due)
{
  const KSP_IDRS          *idrs = (const KSP_IDRS *)ksp->data;
  const KSPIDRSRecurrence *rec  = &col->rec;
  const PetscInt           s = idrs->set.s, k = rec->step.k;
  const PetscBool          last = (PetscBool)(rec->its + 1 >= ksp->max_it);
  IDRSStep                 step = KSPIDRSGetStep(idrs, col);

  if (k == s) step.wantv = (PetscBool)(!last && !due);
  else
    step.wantv = (PetscBool)((k + 1 < s || (idrs->diagonal && !rec->step.start)) && rec->residual == KSPIDRS_RECURRED &&
                             !rec->given && !last);
  step.wantu = (PetscBool)(step.wantv && k + 1 != s && !KSPIDRSIsPreconditioned(idrs));
  return step;
}

/*
   Moves the smoothed iterate by a vector that the pass will change. *due is set if a reliable update may be due after the omega
   step, also if rounding makes the norm from the sums inaccurate, or if the guard of recycling must decide
*/
static PetscErrorCode KSPIDRSBeforeFinish_Private(KSP ksp, KSPIDRSColumn *col, PetscReal rr, PetscBool *due)
{
  KSP_IDRS                *idrs     = (KSP_IDRS *)ksp->data;
  const KSPIDRSRecurrence *rec      = &col->rec;
  const IDRSScalars       *scalars  = col->scalars;
  const PetscBool          lockstep = (PetscBool)!IDRSQueueOnDevice(col->work);
  const PetscInt           k        = rec->step.k;

  PetscFunctionBegin;
  *due = PETSC_FALSE;
  if (k == idrs->set.s) {
    *due = (PetscBool)((lockstep && !IDRSScalarsIsSharp(scalars, rr)) ||
                       KSPIDRSUpdateDue(idrs, col, lockstep ? PetscSqrtReal(rr) / col->scale : col->trust.rnorm) ||
                       KSPIDRSGuardDue(col, rec->its + 1));
    PetscCall(KSPIDRSSmoothMove_Private(ksp, 1, scalars->omega, &col->p, &col->t)); /* x += omega p, r -= omega t */
    /* x += omega U_k, r -= omega G_k, with G_k before its orthogonalization */
  } else if (rec->step.start) PetscCall(KSPIDRSSmoothMove_Private(ksp, 1, scalars->beta + k, col->U + k, col->G + k));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Returns the method for a norm that the next reduction does not contain. The host may know rr = ||r||^2 from the sums of the step,
   with enough digits
*/
static KSPIDRSNorm KSPIDRSNormNow(const KSP_IDRS *idrs, const KSPIDRSColumn *col, PetscReal rr)
{
  const PetscBool known = (PetscBool)(!IDRSQueueOnDevice(col->work) && IDRSScalarsIsSharp(col->scalars, rr));

  return known && idrs->lagged && !idrs->d ? KSPIDRS_NORM_FROM_SUMS : KSPIDRS_NORM_NOW;
}

/* Updates the state after the pass of a step k < s */
static PetscErrorCode KSPIDRSAfterInner_Private(KSP ksp, KSPIDRSColumn *col, PetscReal rr, KSPIDRSNorm *norm)
{
  KSP_IDRS          *idrs     = (KSP_IDRS *)ksp->data;
  KSPIDRSRecurrence *rec      = &col->rec;
  const PetscInt     k        = rec->step.k;
  const PetscBool    lockstep = (PetscBool)!IDRSQueueOnDevice(col->work), last = (PetscBool)(rec->its >= ksp->max_it);

  PetscFunctionBegin;
  /* x += beta_k U_k, r -= beta_k G_k */
  if (!rec->step.start) PetscCall(KSPIDRSSmoothMove_Private(ksp, 1, col->scalars->beta + k, col->U + k, col->G + k));
  IDRSStepNext(&rec->step, idrs->set.s);
  if (rec->residual != KSPIDRS_RECURRED) PetscFunctionReturn(PETSC_SUCCESS);
  rec->columns = rec->step.k;
  /* The omega step that ends the start changes r before its reduction, which would include the norm */
  if (last || !idrs->lagged || (rec->step.start && rec->step.k == idrs->set.s && lockstep))
    *norm = rec->step.start ? KSPIDRSNormNow(idrs, col, rr) : KSPIDRS_NORM_NOW;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Updates the state after the pass of the omega step */
static PetscErrorCode KSPIDRSAfterOmega_Private(KSP ksp, KSPIDRSColumn *col, const IDRSStep *step, PetscReal rr, KSPIDRSNorm *norm)
{
  KSP_IDRS          *idrs     = (KSP_IDRS *)ksp->data;
  KSPIDRSRecurrence *rec      = &col->rec;
  const PetscBool    lockstep = (PetscBool)!IDRSQueueOnDevice(col->work);

  PetscFunctionBegin;
  IDRSStepNext(&rec->step, idrs->set.s);
  rec->columns = 0;
  rec->omega   = KSPIDRS_OMEGA_NEW;
  if (!step->wantv || (lockstep && !(idrs->lagged && idrs->d))) *norm = KSPIDRSNormNow(idrs, col, rr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the scalars of a step whose sums have been collected, unless the device does. *follows is set if a pass must follow */
static PetscErrorCode KSPIDRSAlgebra_Private(KSP ksp, KSPIDRSColumn *col, PetscReal *rr, PetscBool *follows)
{
  KSPIDRSRecurrence *rec = &col->rec;

  PetscFunctionBegin;
  PetscAssert(rec->stage == KSPIDRS_PROJECTED && !rec->suspended, PetscObjectComm((PetscObject)ksp), PETSC_ERR_PLIB,
              "There is no step to finish");
  *rr        = 0.0;
  *follows   = PETSC_FALSE;
  rec->stage = KSPIDRS_NOTHING;
  if (rec->residual != KSPIDRS_RECURRED && (rec->step.start || rec->step.k == col->scalars->s)) PetscFunctionReturn(PETSC_SUCCESS);
  if (!IDRSQueueOnDevice(col->work)) PetscCall(KSPIDRSContinue_Private(ksp, col, rr));
  *follows = (PetscBool)!rec->suspended;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSFinish_Private - Finishes a step whose sums have been collected: scalars, then vectors

     norm  - for each column, how the norm of the new r is obtained
     rnorm - the norm, if it follows from the sums

   If the recurrence fails, the step is not finished. If r has been replaced, a step of the start or an omega step is not
   finished either. Other steps have overwritten U_k, so they are finished with beta_k = 0, which keeps G = A U and M = P^H G.
*/
PetscErrorCode KSPIDRSFinish_Private(KSP ksp, const KSPIDRSColumns *cols, KSPIDRSNorm norm[], PetscReal rnorm[])
{
  KSP_IDRS   *idrs  = (KSP_IDRS *)ksp->data;
  KSPIDRSPass pass  = {.group.count = 0};
  PetscBool   omega = PETSC_FALSE, follows[IDRS_MAX_WIDTH];
  PetscReal   rr[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn *col = cols->column[i];

    norm[i] = KSPIDRS_NORM_LATER;
    omega   = (PetscBool)(col->rec.step.k == idrs->set.s);
    PetscCall(KSPIDRSAlgebra_Private(ksp, col, &rr[i], &follows[i]));
    if (follows[i]) {
      PetscBool due;
      IDRSStep  step;

      PetscCall(KSPIDRSBeforeFinish_Private(ksp, col, rr[i], &due));
      step = KSPIDRSGetFinish(ksp, col, due);
      KSPIDRSPassAdd(&pass, col, &step);
    }
  }
  /* z += omega p + U beta, r -= omega t */
  if (pass.group.count && omega) PetscCall(IDRSAdvance(&pass.group, pass.step));
  /* G_k -= G(:,0:k) alpha, U_k -= U(:,0:k) alpha, r -= beta_k G_k */
  else if (pass.group.count) PetscCall(IDRSUpdate(&pass.group, pass.step));
  for (PetscInt i = 0, done = 0; i < cols->count; i++) {
    KSPIDRSColumn  *col  = cols->column[i];
    const IDRSStep *step = &pass.step[done];

    if (!follows[i]) continue;
    done++;
    col->rec.its++;
    col->rec.stage = step->wantu ? KSPIDRS_HAVE_U : (step->wantv ? KSPIDRS_HAVE_V : KSPIDRS_NOTHING);
    if (omega) PetscCall(KSPIDRSAfterOmega_Private(ksp, col, step, rr[i], &norm[i]));
    else PetscCall(KSPIDRSAfterInner_Private(ksp, col, rr[i], &norm[i]));
    PetscCall(KSPIDRSSmoothSums_Private(ksp, col));
    if (norm[i] == KSPIDRS_NORM_FROM_SUMS) rnorm[i] = PetscSqrtReal(rr[i]) / col->scale; /* else rr may be negative */
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
