/*
   Reliable updates, verification and restarts. The iterate is kept as x = vec_sol + z + U(:,0:columns) beta.

     reliable update   once ||r|| has fallen: r = anchor - A z, vec_sol += z; rounding errors are relative to the present r
     verification      an r that meets the tolerance counts only if b - A x does. Else r = b - A x, until its norm stops falling
     restart           after a breakdown, from the present x with the shadow space of the next seed
     check of x        ends a solve whose ||x|| has grown too much, as it does along a null space

   Reference: H.A. van der Vorst and Q. Ye, Residual replacement strategies for Krylov subspace iterative methods for the
   convergence of true residuals, SIAM J. Sci. Comput. 22 (2000)
*/
#include "idrsimpl.h"

/*
   KSPIDRSAddIterate_Private - Adds the iterate of the recurrence to the solution of each column. v may be overwritten, and z
   must be set to 0 before the next step
*/
PetscErrorCode KSPIDRSAddIterate_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  const IDRSGroup group = KSPIDRSGetGroup(cols);
  PetscInt        columns[IDRS_MAX_WIDTH];
  Vec             x[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  if (!cols->count) PetscFunctionReturn(PETSC_SUCCESS);
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn *col = cols->column[i];

    columns[i]       = col->rec.columns;
    x[i]             = col->scale == 1.0 ? col->rep.sol : col->v;
    col->rec.columns = 0;
    if (col->scale != 1.0) PetscCall(IDRSVecZero(col->v));
  }
  PetscCall(IDRSAddIterate(&group, columns, x)); /* x += z + U(:,0:columns) beta */
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn *col = cols->column[i];

    if (col->scale != 1.0) PetscCall(VecAXPY(col->rep.sol, 1.0 / col->scale, col->v)); /* sol += v / scale */
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the present iterate, for monitors and convergence tests. Between solves vec_sol is the iterate */
PetscErrorCode KSPBuildSolution_IDRS(KSP ksp, Vec v, Vec *V)
{
  KSP_IDRS            *idrs = (KSP_IDRS *)ksp->data;
  const KSPIDRSColumn *col  = idrs->current;

  PetscFunctionBegin;
  PetscCheck(idrs->state == KSPIDRS_IDLE || !col->work->ondevice, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ORDER,
             "The solution cannot be asked for in the middle of an iteration of KSPIDRS on a GPU: do so in a monitor, or in a "
             "convergence test");
  if (!v) {
    if (!idrs->solution) {
      PetscCall(VecDuplicate(ksp->vec_sol, &v));
      idrs->solution = v; /* only once it is complete */
    }
    v = idrs->solution;
  }
  if (idrs->state == KSPIDRS_IDLE) PetscCall(VecCopy(ksp->vec_sol, v));
  else {
    if (col->scale == 1.0) PetscCall(VecCopy(col->rep.sol, v));
    else PetscCall(IDRSVecZero(v));
    PetscCall(IDRSAddIterate(IDRSGroupOfOne(col->work), &col->rec.columns, &v));  /* v += z + U(:,0:columns) beta */
    if (col->scale != 1.0) PetscCall(VecAYPX(v, 1.0 / col->scale, col->rep.sol)); /* v = sol + v / scale */
    if (idrs->d) PetscCall(VecAXPY(v, idrs->sigma, idrs->d));
  }
  if (V) *V = v;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSAnchor_Private - Stores r as the residual of vec_sol, from which the next reliable update is computed */
PetscErrorCode KSPIDRSAnchor_Private(KSPIDRSColumn *col)
{
  PetscFunctionBegin;
  if (col->anchor) PetscCall(VecCopy(col->r, col->anchor));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Scales the system of a column by a power of 2, sigma A x = sigma b, if the square of rnorm = ||b - A x|| is out of range. z
   must be 0. G = A U holds for any scale. A smoothed solve is not scaled
*/
static PetscErrorCode KSPIDRSSetScale_Private(KSP ksp, KSPIDRSColumn *col, PetscReal rnorm)
{
  const PetscReal before = col->scale, most = PetscLog2Real(PETSC_MAX_REAL) - 1;

  PetscFunctionBegin;
  col->scale = 1.0;
  if (!((KSP_IDRS *)ksp->data)->d && rnorm > 0.0 && rnorm <= PETSC_MAX_REAL &&
      !(rnorm >= IDRS_SMALLEST_NORM && rnorm <= IDRS_LARGEST_NORM)) {
    col->scale = PetscPowReal(2.0, PetscMin(-PetscFloorReal(PetscLog2Real(rnorm)), most)); /* a power of 2 changes no digit */
    PetscCall(PetscInfo(ksp, "The system is scaled by %g: the square of ||b - A x|| = %g is beyond the range of PetscReal\n",
                        (double)col->scale, (double)rnorm));
  }
  if (col->scale != before) {
    PetscCall(IDRSVecForgetNorm(col->r));
    PetscCall(VecScale(col->r, col->scale / before));
    PetscCall(KSPIDRSAnchor_Private(col));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Replaces r by v = b - A x, whose norm is rnorm. With smoothing v belongs to the smoothed iterate, and the solution is changed
   back
*/
static PetscErrorCode KSPIDRSReplaceResidual_Private(KSP ksp, KSPIDRSColumn *col, PetscReal rnorm)
{
  PetscFunctionBegin;
  PetscCall(KSPIDRSSmoothSubtract_Private(ksp, col, col->v));
  PetscCall(KSPIDRSAnchor_Private(col));
  col->scale = 1.0;
  PetscCall(KSPIDRSSetScale_Private(ksp, col, rnorm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSBeginRecurrence_Private - Starts the recurrence of each column from vec_sol, whose residual is r.

   An inner solve uses another shadow space than the outer solve. With the same P it would return u with P^H (v - A u) = 0 if it
   stops between two omega steps. Since P^H v = 0, the outer M = P^H A u would then be rounding error.
*/
PetscErrorCode KSPIDRSBeginRecurrence_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  PetscReal norms[IDRS_MAX_WIDTH];
  Vec       r[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn     *col = cols->column[i];
    KSPIDRSRecurrence *rec = &col->rec;

    col->safeguard.key.seed = KSPIDRSGetSeed(idrs); /* a user may have changed it */
    PetscCall(IDRSWorkspaceSetSeed(col->work, col->safeguard.key.seed + (uint64_t)col->trust.restarts));
    IDRSScalarsResetColumns(col->scalars, 0); /* M = I */
    if (col->safeguard.begun && (col->safeguard.takes == KSPIDRS_TAKES_U || col->safeguard.takes == KSPIDRS_TAKES_BASES)) {
      col->safeguard.takes = KSPIDRS_DROPPED_THEM; /* it has begun with data of the last solve, and begins again without them */
      col->safeguard.test  = 0;
      idrs->counts.dropped++;
    }
    PetscCall(KSPIDRSSmoothSums_Private(ksp, col));
    rec->step.start  = PETSC_TRUE;
    rec->status      = KSPIDRS_RECURS;
    rec->step.k      = 0;
    rec->stage       = KSPIDRS_NOTHING;
    rec->recycled    = PETSC_FALSE;
    col->trust.rnorm = col->trust.peak = 0.0;
    col->trust.anchornorm              = PETSC_MAX_REAL;
    if (!col->trust.check) col->trust.check = ksp->normtype == KSP_NORM_NONE ? PETSC_MAX_INT : IDRS_FIRST_CHECK(idrs->persistent);
  }
  if (ksp->normtype == KSP_NORM_NONE) PetscFunctionReturn(PETSC_SUCCESS);
  KSPIDRSGetVecs(cols, r, r);
  PetscCall(KSPIDRSNorms_Private(ksp, cols, r, norms));
  for (PetscInt i = 0; i < cols->count; i++) {
    norms[i] /= cols->column[i]->scale;
    PetscCall(KSPIDRSSetScale_Private(ksp, cols->column[i], norms[i]));
    KSPIDRSSetStartNorm(&cols->column[i]->trust, norms[i]);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes v = b - A x, with the smoothed x if the residual is smoothed, and its norm for all columns */
static PetscErrorCode KSPIDRSTrueNorm_Private(KSP ksp, const KSPIDRSColumns *cols, PetscReal norms[])
{
  Vec v[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  PetscCall(KSPIDRSAddIterate_Private(ksp, cols));
  for (PetscInt i = 0; i < cols->count; i++) PetscCall(KSPIDRSSmoothAddToSolution_Private(ksp, cols->column[i]));
  KSPIDRSGetVecs(cols, v, v);
  PetscCall(KSPIDRSTrueResidual_Private(ksp, cols, PETSC_FALSE, v, NULL)); /* v = b - A x */
  PetscCall(KSPIDRSNorms_Private(ksp, cols, v, norms));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Ends the solve if ||b - A x|| has stopped falling. A much larger norm is a peak, and is not
   counted
*/
static PetscErrorCode KSPIDRSCheckStagnation_Private(KSP ksp, KSPIDRSColumn *col, PetscReal rnorm, PetscInt weight)
{
  IDRSProgress *progress = &col->trust.replacements;

  PetscFunctionBegin;
  if (!IDRSProgressHalves(progress, rnorm) && rnorm <= 1e3 * progress->least) progress->failures += weight;
  if (progress->failures >= IDRS_MAX_STAGNATIONS) {
    PetscCall(
      PetscInfo(ksp, "The tolerance is below the attainable accuracy: ||b - A x|| = %g has stopped falling\n", (double)rnorm));
    if (ksp->normtype != KSP_NORM_NONE) col->rep.rnorm = rnorm;
    col->rep.reason = KSP_DIVERGED_BREAKDOWN;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Calls PETSc's default test with the norm of b - A x. Another test is not called a second time in an iteration */
static PetscErrorCode KSPIDRSTestTrueNorm_Private(KSP ksp, KSPIDRSColumn *col, PetscReal rnorm)
{
  PetscFunctionBegin;
  if (ksp->converged == KSPConvergedDefault && ksp->normtype != KSP_NORM_NONE) PetscCall(KSPIDRSTest_Private(ksp, col, rnorm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSCheckTrueNorm_Private - Compares rnorm = ||b - A x|| with the tolerances, which the norm of r meets. If it meets them,
   too, or is not finite, the column has a reason
*/
PetscErrorCode KSPIDRSCheckTrueNorm_Private(KSP ksp, KSPIDRSColumn *col, PetscReal rnorm)
{
  PetscFunctionBegin;
  ((KSP_IDRS *)ksp->data)->counts.verifications++;
  col->rec.status = KSPIDRS_RECURS;
  PetscCall(KSPIDRSTestNorm_Private(ksp, col, rnorm));
  if (col->rep.reason) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSTestTrueNorm_Private(ksp, col, rnorm));
  if (!col->rep.reason)
    PetscCall(PetscInfo(ksp, "||r|| = %g meets the tolerance, ||b - A x|| = %g does not: the solve continues from b - A x\n",
                        (double)col->rep.rnorm, (double)rnorm));
  col->rep.rnorm = rnorm;
  if (col->rep.reason) col->rec.status = KSPIDRS_COMPLETE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSCheckTrueResidual_Private - Computes b - A x for columns whose r meets the tolerance. Each column then has a reason, or r
   = b - A x, and the solve continues
*/
PetscErrorCode KSPIDRSCheckTrueResidual_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  KSPIDRSColumns due = {.count = 0};
  PetscReal      norms[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    if (!cols->column[i]->rep.reason && cols->column[i]->rec.status == KSPIDRS_UNCHECKED) KSPIDRSColumnsAdd(&due, cols->column[i]);
  }
  if (!due.count) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSTrueNorm_Private(ksp, &due, norms));
  for (PetscInt i = 0; i < due.count; i++) {
    KSPIDRSColumn *col = due.column[i];

    PetscCall(KSPIDRSCheckTrueNorm_Private(ksp, col, norms[i]));
    if (!col->rep.reason) PetscCall(KSPIDRSCheckStagnation_Private(ksp, col, norms[i], IDRS_STAGNATION_CHECK));
    if (!col->rep.reason) {
      PetscCall(KSPIDRSReplaceResidual_Private(ksp, col, norms[i]));
      PetscCall(KSPIDRSSmoothSums_Private(ksp, col));
      col->rec.status = KSPIDRS_REPLACED;
      if (col->rec.stage == KSPIDRS_HAVE_V) col->rec.stage = KSPIDRS_NOTHING; /* v has been overwritten */
    }
    PetscCall(KSPIDRSConcludeReport_Private(ksp, col));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSUpdateProduct_Private - Computes t = A z for all columns, with which a reliable update begins */
PetscErrorCode KSPIDRSUpdateProduct_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  Vec z[IDRS_MAX_WIDTH], t[IDRS_MAX_WIDTH], v[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  KSPIDRSGetVecs(cols, z, z);
  KSPIDRSGetVecs(cols, t, t);
  KSPIDRSGetVecs(cols, v, v);
  PetscCall(KSPIDRSMatMultColumns_Private(ksp, cols, z, t, v));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSUpdateResidual_Private - Computes r = anchor - t, anchor = r, z = 0 for all columns, after z has been added to x */
PetscErrorCode KSPIDRSUpdateResidual_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  const IDRSGroup group = KSPIDRSGetGroup(cols);
  Vec             t[IDRS_MAX_WIDTH], r[IDRS_MAX_WIDTH], anchor[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  KSPIDRSGetVecs(cols, t, t);
  KSPIDRSGetVecs(cols, r, r);
  KSPIDRSGetVecs(cols, anchor, anchor);
  PetscCall(IDRSResidual(&group, anchor, t, r, anchor));
  ((KSP_IDRS *)ksp->data)->counts.updates += cols->count;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSReliableUpdate_Private - Makes a reliable update of columns at the beginning of a cycle whose r has fallen. The order
   keeps KSPBuildSolution() right in MatMult()
*/
PetscErrorCode KSPIDRSReliableUpdate_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  KSPIDRSColumns due = {.count = 0};

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn *col = cols->column[i];

    if (!col->rep.reason && KSPIDRSAtCycle(&col->rec) && col->rec.stage == KSPIDRS_NOTHING &&
        KSPIDRSUpdateDue((KSP_IDRS *)ksp->data, col, col->trust.rnorm))
      KSPIDRSColumnsAdd(&due, col);
  }
  if (!due.count) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSUpdateProduct_Private(ksp, &due));  /* t = A z */
  PetscCall(KSPIDRSAddIterate_Private(ksp, &due));     /* vec_sol += z */
  PetscCall(KSPIDRSUpdateResidual_Private(ksp, &due)); /* r = anchor - t, z = 0 */
  for (PetscInt i = 0; i < due.count; i++) {
    PetscCall(KSPIDRSSmoothSums_Private(ksp, due.column[i]));
    due.column[i]->rec.status = KSPIDRS_RELIABLE_UPDATE;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSFinishReplacement_Private - Finishes the replacement of r after its projection f = P^H r, and reports the norm of its
   iteration. A cycle begins
*/
PetscErrorCode KSPIDRSFinishReplacement_Private(KSP ksp, KSPIDRSColumn *col, IDRSOutcome *outcome, PetscBool updated)
{
  KSP_IDRS          *idrs     = (KSP_IDRS *)ksp->data;
  KSPIDRSRecurrence *rec      = &col->rec;
  KSPIDRSTrust      *trust    = &col->trust;
  const PetscReal    promised = trust->rnorm;
  PetscReal          rr;

  PetscFunctionBegin;
  if (outcome->verdict == IDRS_NOT_FINITE) {
    PetscCall(KSPIDRSTestNorm_Private(ksp, col, (PetscReal)INFINITY));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  /* f; KSPIDRSCombine_Private() computes c of the first direction */
  PetscCall(IDRSQueueContinue(col->work, &outcome->step, idrs->set.cosine, &rr, &outcome->verdict));
  rec->step.k = 0;
  rec->status = KSPIDRS_RECURS;
  KSPIDRSSetReplacedNorm(trust, outcome->rnorm);
  if (rec->step.unreported) {
    rec->step.unreported = PETSC_FALSE;
    PetscCall(KSPIDRSReport_Private(ksp, col, rec->its, outcome->rnorm));
  }
  if (KSPIDRSIsIterating(col) && updated && outcome->rnorm > IDRS_UPDATE_CONFIRMS * promised)
    PetscCall(KSPIDRSCheckStagnation_Private(ksp, col, outcome->rnorm, IDRS_STAGNATION_UPDATE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSTakeReplacedResidual_Private - Computes f = P^H r of an r that has been replaced; a start begins again */
PetscErrorCode KSPIDRSTakeReplacedResidual_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  KSPIDRSColumns begin = {.count = 0}, replaced = {.count = 0};

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn *col = cols->column[i];

    if (!KSPIDRSIsIterating(col) || col->rec.status == KSPIDRS_RECURS) continue;
    if (col->rec.step.start) KSPIDRSColumnsAdd(&begin, col);
    else if (col->rec.stage == KSPIDRS_NOTHING) KSPIDRSColumnsAdd(&replaced, col); /* else a step must be finished first */
  }
  if (begin.count) PetscCall(KSPIDRSBeginRecurrence_Private(ksp, &begin));
  if (replaced.count) PetscCall(KSPIDRSProjectResidual_Private(&replaced)); /* f = P^H r */
  for (PetscInt i = 0; i < replaced.count; i++) {
    KSPIDRSColumn  *col     = replaced.column[i];
    const PetscBool updated = (PetscBool)(col->rec.status == KSPIDRS_RELIABLE_UPDATE);
    IDRSOutcome     outcome;

    PetscCall(IDRSQueueCollect(col->work, &outcome));
    outcome.rnorm /= col->scale;
    PetscCall(KSPIDRSFinishReplacement_Private(ksp, col, &outcome, updated));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Asserts the invariants between two steps, on which the parts of a step rely */
static PetscErrorCode KSPIDRSAssertState_Private(const KSPIDRSColumn *col)
{
  const KSPIDRSRecurrence *rec      = &col->rec;
  const PetscBool          replaced = (PetscBool)(rec->status == KSPIDRS_REPLACED || rec->status == KSPIDRS_RELIABLE_UPDATE);

  PetscFunctionBegin;
  PetscAssert(rec->step.k >= 0 && rec->step.k <= col->scalars->s, PETSC_COMM_SELF, PETSC_ERR_PLIB, "Step %" PetscInt_FMT,
              rec->step.k);
  PetscAssert(rec->columns == (replaced ? 0 : rec->step.k) || rec->status == KSPIDRS_BREAKDOWN, PETSC_COMM_SELF, PETSC_ERR_PLIB,
              "%" PetscInt_FMT " columns in step %" PetscInt_FMT, rec->columns, rec->step.k);
  PetscAssert(rec->stage != KSPIDRS_HAVE_R || rec->step.k == col->scalars->s, PETSC_COMM_SELF, PETSC_ERR_PLIB,
              "A stage of an omega step in step %" PetscInt_FMT, rec->step.k);
  PetscAssert(!col->work->ondevice || rec->status == KSPIDRS_RECURS, PETSC_COMM_SELF, PETSC_ERR_PLIB,
              "The scalars are on the device while the host decides");
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSCheckIterates_Private - Suspends the recurrence of columns whose x has grown too much, and lets the safeguard of recycling
   decide at the end of a cycle. If the matrix is singular, x may grow along a null vector, on which r does not depend, until it
   overflows. The check is made after all projections in flight, and the interval between two checks doubles
*/
PetscErrorCode KSPIDRSCheckIterates_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn       *col   = cols->column[i];
    const KSPIDRSColumns one   = KSPIDRSOneColumn(col);
    KSPIDRSTrust        *trust = &col->trust;
    const PetscBool      due   = (PetscBool)(col->rec.its >= trust->check && col->rec.stage != KSPIDRS_PROJECTED);

    if (KSPIDRSIsIterating(col) && due) {
      PetscCall(KSPIDRSCollectUpTo_Private(ksp, col, 0, NULL));
      PetscCall(IDRSQueueEnd(IDRSGroupOfOne(col->work)));
    }
    if (KSPIDRSIsIterating(col) && due) {
      PetscReal norm, z;

      PetscCall(IDRSVecCopy(col->rep.sol, col->t)); /* x may be bound to the CPU on some processes only */
      PetscCall(KSPIDRSNorms_Private(ksp, &one, &col->t, &norm));
      PetscCall(KSPIDRSNorms_Private(ksp, &one, &col->z, &z));
      norm += z / col->scale; /* a bound of ||x|| */
      if (norm / trust->least > IDRS_MAX_DRIFT(!trust->progress.failures)) {
        PetscCall(PetscInfo(ksp, "Iteration %" PetscInt_FMT ": ||x|| has grown from %g to %g, the matrix may be singular\n",
                            col->rec.its, (double)trust->least, (double)norm));
        col->rec.status = KSPIDRS_RUNAWAY;
      }
      if (norm > 0.0) trust->least = PetscMin(trust->least, norm);
      trust->progress.failures = 1;
      trust->check             = trust->check > PETSC_MAX_INT / 2 ? PETSC_MAX_INT : 2 * trust->check;
    }
    if (col->rep.reason) continue;
    PetscCall(KSPIDRSAssertState_Private(col));
    if (!KSPIDRSAtCycle(&col->rec) || !KSPIDRSSafeguardDue(col, col->rec.its)) continue;
    col->safeguard.test = 0;
    if (col->safeguard.least <= col->safeguard.most) continue;
    col->rec.status = KSPIDRS_DROPPED;
    PetscCall(PetscInfo(ksp, "The bases of the last solve are dropped in iteration %" PetscInt_FMT ": ||r|| = %g is above %g\n",
                        col->rep.its, (double)col->safeguard.least, (double)col->safeguard.most));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Restarts after a failure, from the present x with the next seed, unless x has converged, has run away, or there were too many
   restarts after breakdowns. If r is larger than the residual of vec_sol, vec_sol is the better x. The smoothed iterate is kept,
   and is the new x if the recurrence would soon be too far from it. If the solve ends, its norm is reported with the step that
   failed as one more iteration.

   A start breaks down in step k > 0 if one row, column or eigenvalue of A is so large that the next G_k is parallel to the others.
   Another seed would not help, so it continues with k columns: the next step is the omega step, which needs no f, and the first
   cycle computes the other columns, which are zero
*/
static PetscErrorCode KSPIDRSRestartColumn_Private(KSP ksp, KSPIDRSColumn *col)
{
  KSP_IDRS          *idrs   = (KSP_IDRS *)ksp->data;
  KSPIDRSRecurrence *rec    = &col->rec;
  KSPIDRSTrust      *trust  = &col->trust;
  KSPIDRSReported   *rep    = &col->rep;
  const PetscBool breakdown = (PetscBool)(rec->status == KSPIDRS_BREAKDOWN), runaway = (PetscBool)(rec->status == KSPIDRS_RUNAWAY),
                  continues = (PetscBool)(breakdown && !rec->recycled &&
                                          IDRSStartIsKept(rec->step.start, rec->step.k, idrs->set.s));
  const KSPIDRSColumns one  = KSPIDRSOneColumn(col);
  const PetscInt       its = rep->its, s = idrs->set.s, k = rec->step.k;
  IDRSScalars         *scalars = col->scalars;
  PetscReal            rnorm;

  PetscFunctionBegin;
  if (rec->step.start) {
    if (k < s) {                      /* if the k columns span an invariant Krylov space, r - G c = 0 for this c */
      IDRSScalarsCombine(scalars, 0); /* M c = f; the first entries of c need no other column */
      PetscCall(KSPIDRSSmoothMove_Private(ksp, k, scalars->c, col->U, col->G)); /* x += U c, r -= G c */
    }
    IDRSScalarsEndStart(scalars, k);             /* beta += c */
  } else if (trust->rnorm > trust->anchornorm) { /* the residual of vec_sol is smaller: x = vec_sol */
    if (idrs->d) {
      PetscCall(VecScale(idrs->d, idrs->sigma));
      PetscCall(IDRSAddIterate(IDRSGroupOfOne(col->work), &rec->columns, &idrs->d));
      idrs->sigma = 1.0;
    }
    PetscCall(IDRSVecZero(col->z));
    rec->columns = 0;
  }
  PetscCall(KSPIDRSTrueNorm_Private(ksp, &one, &rnorm)); /* v = b - A x */
  if (rec->step.start && !idrs->d && !(rnorm <= trust->rnorm)) {
    for (PetscInt j = 0; j < k; j++) PetscCall(VecAXPY(rep->sol, -scalars->c[j] / col->scale, col->U[j])); /* x -= U c */
    /* a norm that is not finite comes from the operator or the preconditioner, and the solve must end with this reason */
    if (!PetscIsInfOrNanReal(rnorm)) PetscCall(KSPIDRSTrueNorm_Private(ksp, &one, &rnorm));
  }
  PetscCall(KSPIDRSTestNorm_Private(ksp, col, rnorm));
  if (rep->reason) PetscFunctionReturn(PETSC_SUCCESS);
  rep->its++;
  if (ksp->normtype != KSP_NORM_NONE) rep->rnorm = rnorm;
  PetscCall(KSPIDRSTestTrueNorm_Private(ksp, col, rnorm));
  if (!rep->reason && rnorm == 0.0) rep->reason = KSP_CONVERGED_HAPPY_BREAKDOWN;
  if (!rep->reason && runaway) rep->reason = KSP_DIVERGED_BREAKDOWN;
  (void)IDRSProgressHalves(&trust->breakdowns, rnorm);
  if (!rep->reason && continues) {
    rep->its = its;
    PetscCall(KSPIDRSReplaceResidual_Private(ksp, col, rnorm));
    PetscCall(PetscInfo(ksp, "The start ends after %" PetscInt_FMT " of %" PetscInt_FMT " columns\n", k, s));
    IDRSScalarsResetColumns(scalars, k); /* M(:,k:s) = I(:,k:s) */
    for (PetscInt j = k; j < s; j++) {
      PetscCall(IDRSVecZero(col->G[j]));
      PetscCall(IDRSVecZero(col->U[j]));
    }
    PetscCall(PetscArrayzero(scalars->beta, s));
    col->safeguard.whole = rec->its + 1 + s; /* the omega step, and one cycle */
    rec->step.start      = PETSC_FALSE;
    rec->status          = KSPIDRS_RECURS;
    rec->step.k          = s;
    rec->columns         = s; /* with beta = 0 */
    KSPIDRSSetReplacedNorm(trust, rnorm);
    PetscCall(KSPIDRSSmoothSums_Private(ksp, col));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (!rep->reason && !IDRSProgressRestarts(&trust->breakdowns, breakdown, idrs->set.maxrestarts)) {
    /* the end of the start or of the recurrence has changed x: convergence tests other than the default need its norm */
    if (ksp->normtype != KSP_NORM_NONE && ksp->converged != KSPConvergedDefault) PetscCall(KSPIDRSTest_Private(ksp, col, rnorm));
    if (!rep->reason) {
      PetscCall(PetscInfo(ksp, "Breakdown after %" PetscInt_FMT " restarts\n", trust->restarts));
      rep->reason = KSP_DIVERGED_BREAKDOWN;
    }
  }
  if (rep->reason) {
    PetscCall(KSPIDRSMonitor_Private(ksp, col));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  rep->its = its;
  idrs->counts.restarts++;
  trust->restarts++;
  if (idrs->d && PetscMin(trust->rnorm, trust->anchornorm) > 1e-3 * KSPIDRSGrowthLimit(idrs, rnorm)) {
    PetscCall(VecCopy(col->v, col->r)); /* the smoothed iterate is the new x */
    PetscCall(KSPIDRSAnchor_Private(col));
    PetscCall(KSPIDRSSmoothBegin_Private(ksp));
  } else PetscCall(KSPIDRSReplaceResidual_Private(ksp, col, rnorm));
  PetscCall(KSPIDRSBeginRecurrence_Private(ksp, &one));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSRestart_Private - Restarts columns whose recurrence has failed, one after another */
PetscErrorCode KSPIDRSRestart_Private(KSP ksp, const KSPIDRSColumns *cols)
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    if (!cols->column[i]->rep.reason && cols->column[i]->rec.status > KSPIDRS_UNCHECKED)
      PetscCall(KSPIDRSRestartColumn_Private(ksp, cols->column[i]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
