/*
   Executor for one GPU: one kernel makes many steps of a right-hand side, with their matvecs, and reliable updates. It stops in a
   step that the host must finish
*/
#include "idrsimpl.h"

/* Returns the iteration after which the safeguard of recycling or the check of the iterate is due */
static PetscInt KSPIDRSNextDecision(const KSPIDRSColumn *col)
{
  return col->safeguard.test ? PetscMin(col->safeguard.test, col->trust.check) : col->trust.check;
}

/*
   Returns PETSC_TRUE if one kernel may make the next steps: r belongs to the recurrence, the next step is not the omega step that
   ends the start, no omega step is repeated, no U_k is recycled, the safeguard of recycling and the check of the iterate are not
   due, and the convergence test looks at all norms from now on
*/
static PetscBool KSPIDRSCanBePersistent(KSP ksp, const KSPIDRSColumn *col)
{
  const KSPIDRSRecurrence *rec = &col->rec;

  return (PetscBool)(rec->stage != KSPIDRS_PROJECTED && rec->stage != KSPIDRS_HAVE_R && rec->status == KSPIDRS_RECURS &&
                     !(rec->step.start && rec->step.k == col->scalars->s) && !rec->recycled &&
                     rec->its + 1 < KSPIDRSNextDecision(col) &&
                     (KSPIDRSTestsNorm(ksp, rec->its) || ksp->normtype == KSP_NORM_NONE || ksp->converged != KSPConvergedDefault));
}

/*
   Returns the steps and reliable updates of one kernel, from a step that has its direction or from the first, whose direction the
   kernel computes
*/
static IDRSPersistentTask KSPIDRSGetPersistentTask(KSP ksp, const KSPIDRSColumn *col, PetscBool first)
{
  const KSP_IDRS    *idrs  = (const KSP_IDRS *)ksp->data;
  const PetscReal    scale = col->scale;
  IDRSPersistentTask task  = {
     .work    = col->work,
     .limits  = {.bounds     = KSPIDRSGetBounds(ksp, col),
                 .its        = col->rec.its,
                 .maxits     = PetscMin(ksp->max_it, KSPIDRSNextDecision(col)),
                 .fall       = col->anchor ? idrs->set.updatetol : 0.0,
                 .anchornorm = scale * col->trust.anchornorm,
                 .peak       = scale * col->trust.peak,
                 .tested     = KSPIDRSGetTestedBounds(ksp, col).high,
                 .growth     = KSPIDRSGrowth(idrs)},
     .x       = scale == 1.0 ? col->rep.sol : NULL, /* NULL if the host makes the updates */
     .anchor  = col->anchor,
     .outcome = {.step = KSPIDRSGetStep(idrs, col)}
  };

  task.outcome.step.wantu = first;
  return task;
}

/*
   Adopts the results of a kernel, and reports its norms and reliable updates as if the host had made the steps. The host must then
   finish the step in its outcome. *updated is set if the kernel has replaced r
*/
static PetscErrorCode KSPIDRSConcludePersistent_Private(KSP ksp, KSPIDRSColumn *col, IDRSPersistentTask *task, PetscBool *updated)
{
  KSPIDRSCounts              *counts = &((KSP_IDRS *)ksp->data)->counts;
  KSPIDRSRecurrence          *rec    = &col->rec;
  const IDRSPersistentReport *report = &task->report;
  PetscInt                    update = 0;
  IDRSOutcome                 passed = {
                    .step = {.start = rec->step.start, .unreported = rec->step.unreported}
  };

  PetscFunctionBegin;
  *updated = (PetscBool)(task->outcome.step.k == IDRS_RESIDUAL);
  task->outcome.rnorm /= col->scale;
  counts->kernels++;
  counts->persistentmatvecs += report->matvecs;
  counts->matvecs += report->matvecs;
  counts->updates += report->updates + (*updated ? 1 : 0);
  rec->its += report->completed;
  rec->step = task->outcome.step;
  if (*updated) rec->step.k = 0;
  rec->columns = rec->step.k;
  rec->stage   = *updated ? KSPIDRS_NOTHING : KSPIDRS_PROJECTED;
  for (PetscInt i = 0; i <= report->count && KSPIDRSIsIterating(col); i++) {
    if (update < report->updates && report->update[update].after == i)
      KSPIDRSSetReplacedNorm(&col->trust, report->update[update++].rnorm / col->scale);
    if (i == report->count) break;
    passed.rnorm = report->norms[i] / col->scale;
    PetscCall(KSPIDRSReportOutcome_Private(ksp, col, &passed));
    passed.step.unreported = PETSC_TRUE;
  }
  if (!KSPIDRSIsIterating(col)) PetscFunctionReturn(PETSC_SUCCESS);
  if (*updated) PetscCall(KSPIDRSFinishReplacement_Private(ksp, col, &task->outcome, PETSC_TRUE));
  else PetscCall(KSPIDRSReportOutcome_Private(ksp, col, &task->outcome));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSRunKernels_Private - Runs a kernel for each column at the same time, unless no kernel can make its next step. Columns
   remain if the host must make or finish a step
*/
PetscErrorCode KSPIDRSRunKernels_Private(KSP ksp, KSPIDRSColumns *cols)
{
  KSP_IDRS          *idrs                    = (KSP_IDRS *)ksp->data;
  PetscBool          updated[IDRS_MAX_WIDTH] = {PETSC_FALSE};
  PetscInt           place[IDRS_MAX_WIDTH], count = 0, left = 0;
  IDRSPersistentTask tasks[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < cols->count; i++) {
    KSPIDRSColumn       *col   = cols->column[i];
    const KSPIDRSColumns one   = KSPIDRSOneColumn(col);
    const PetscBool      first = (PetscBool)(col->rec.step.start && col->rec.step.k == 0 && col->rec.stage == KSPIDRS_NOTHING);

    if (!KSPIDRSCanBePersistent(ksp, col)) continue;
    if (!first) {
      PetscCall(KSPIDRSCombine_Private(ksp, &one));
      PetscCall(KSPIDRSPrecondition_Private(ksp, &one));
    }
    place[count]   = i;
    tasks[count++] = KSPIDRSGetPersistentTask(ksp, col, first);
  }
  if (count) PetscCall(IDRSQueuePersistent(idrs->slot[0].work, idrs->active, count, tasks));
  for (PetscInt j = 0; j < count; j++)
    PetscCall(KSPIDRSConcludePersistent_Private(ksp, cols->column[place[j]], &tasks[j], &updated[place[j]]));
  for (PetscInt i = 0; i < cols->count; i++) {
    if (KSPIDRSIsIterating(cols->column[i]) && !updated[i]) cols->column[left++] = cols->column[i];
  }
  cols->count = left;
  PetscFunctionReturn(PETSC_SUCCESS);
}
