/*
   The passes of IDR(s) as the solver calls them: checks, logging, and the back end. What a pass reads and writes is stated here once, for the log and
   for the tests.
*/
#include <petscidrs/private/idrsworkimpl.h>
#include <petscidrs/private/idrscompat.h>

const char *const    IDRSPassNames[] = {"combine", "project", "update", "advance", "whole"};
static PetscLogEvent IDRS_Events[IDRS_PASSES];
PetscLogEvent        IDRS_Reduce;

PetscErrorCode IDRSRegisterEvents(void)
{
  PetscFunctionBegin;
  PetscCall(PetscLogEventRegister("IDRSCombine", KSP_CLASSID, &IDRS_Events[IDRS_COMBINE]));
  PetscCall(PetscLogEventRegister("IDRSProject", KSP_CLASSID, &IDRS_Events[IDRS_PROJECT]));
  PetscCall(PetscLogEventRegister("IDRSUpdate", KSP_CLASSID, &IDRS_Events[IDRS_UPDATE]));
  PetscCall(PetscLogEventRegister("IDRSAdvance", KSP_CLASSID, &IDRS_Events[IDRS_ADVANCE]));
  PetscCall(PetscLogEventRegister("IDRSWhole", KSP_CLASSID, &IDRS_Events[IDRS_WHOLE]));
  PetscCall(PetscLogEventRegister("IDRSReduce", KSP_CLASSID, &IDRS_Reduce));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Time that PETSc has measured on a GPU so far, with -log_view_gpu_time */
PetscLogDouble IDRSGpuSeconds(void)
{
#if PetscDefined(HAVE_DEVICE)
  return petsc_gtime;
#else
  return 0.0;
#endif
}

PetscErrorCode IDRSPassBegin(IDRSWork work, IDRSPass pass)
{
  PetscFunctionBegin;
  PetscCall(PetscLogEventBegin(IDRS_Events[pass], 0, 0, 0, 0));
  work->traffic[pass].seconds -= IDRSGpuSeconds();
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSPassEnd - Counts what a fused pass moves and does: vectors read and written, flops a row, the way PETSc counts them (a complex
   operation is one). Back ends made of Vec calls move more, and the calls log their own flops.
*/
PetscErrorCode IDRSPassEnd(IDRSWork work, IDRSPass pass, PetscInt vectors, PetscInt flops)
{
  IDRSTraffic *traffic = &work->traffic[pass];

  PetscFunctionBegin;
  traffic->seconds += IDRSGpuSeconds();
  if (!work->passes->composed) {
    traffic->calls++;
    traffic->vectors += (PetscLogDouble)vectors;
    if (work->passes->device) PetscCall(PetscLogGpuFlops((PetscLogDouble)flops * (PetscLogDouble)work->n));
    else PetscCall(PetscLogFlops((PetscLogDouble)flops * (PetscLogDouble)work->n));
  }
  PetscCall(PetscLogEventEnd(IDRS_Events[pass], 0, 0, 0, 0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* What a combine with so many columns reads and writes beyond r, v or t, or beyond the operands of the update or advance before it */
static PetscInt IDRSCombineVectors_Private(IDRSWork work, const IDRSStep *step, PetscInt columns)
{
  return step->wantv || step->wantu ? (step->wantv && step->wantu ? 2 : 1) * columns + 1 + (step->wantv && work->diagonal ? 1 : 0) : 0;
}

static PetscInt IDRSCombineFlops_Private(IDRSWork work, const IDRSStep *step, PetscInt columns)
{
  return (step->wantv ? 2 * columns + (work->diagonal ? 1 : 0) : 0) + (step->wantu ? 2 * columns + 1 : 0);
}

/* IDRSCombine - v and U_k as idrsops.h says; in the omega step r, which it reads and writes */
PetscErrorCode IDRSCombine(IDRSWork work, const IDRSStep *step)
{
  const PetscBool omega   = (PetscBool)(step->k == work->s);
  const PetscInt  columns = omega ? work->s : work->s - step->k, diagonal = omega && work->diagonal ? 1 : 0; /* r is not preconditioned */

  PetscFunctionBegin;
  PetscCheck(0 <= step->k && step->k <= work->s, work->comm, PETSC_ERR_ARG_OUTOFRANGE, "Step %" PetscInt_FMT " of %" PetscInt_FMT, step->k, work->s);
  PetscCheck((step->wantv || step->wantu) && !(omega && step->wantu), work->comm, PETSC_ERR_ARG_OUTOFRANGE, "Combine of nothing, or of U in the omega step");
  PetscCall(IDRSPassBegin(work, IDRS_COMBINE));
  PetscCall((*work->passes->combine)(work, step));
  PetscCall(IDRSPassEnd(work, IDRS_COMBINE, 1 + IDRSCombineVectors_Private(work, step, columns) - diagonal, IDRSCombineFlops_Private(work, step, columns) - diagonal));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* After update and advance a preconditioner may stand between v and U; v for the omega step is p, where the passes apply the preconditioner */
static PetscErrorCode IDRSCheckNext_Private(IDRSWork work, const IDRSStep *step, PetscInt next)
{
  PetscFunctionBegin;
  PetscCheck(step->wantv || !step->wantu, work->comm, PETSC_ERR_ARG_OUTOFRANGE, "A preconditioner stands between this pass and the U of the next step");
  PetscCheck(!step->wantv || (0 <= next && next < work->s) || (next == work->s && work->diagonal && !step->wantu && !step->start), work->comm, PETSC_ERR_ARG_OUTOFRANGE, "Step %" PetscInt_FMT " of %" PetscInt_FMT, next, work->s);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSUpdate - update of step k, and combine of step k+1; in the start r moves before G_k is made orthogonal */
PetscErrorCode IDRSUpdate(IDRSWork work, const IDRSStep *step)
{
  const PetscInt k = step->k, columns = step->start ? 0 : work->s - (k + 1);

  PetscFunctionBegin;
  PetscCall(IDRSCheckNext_Private(work, step, k + 1));
  PetscCall(IDRSPassBegin(work, IDRS_UPDATE));
  PetscCall((*work->passes->update)(work, step));
  PetscCall(IDRSPassEnd(work, IDRS_UPDATE, (k ? 2 * (k + 1) + 4 : 3) + IDRSCombineVectors_Private(work, step, columns), 4 * k + 4 + (step->start ? (step->wantv ? 2 * (k + 1) + (work->diagonal ? 1 : 0) : 0) : IDRSCombineFlops_Private(work, step, columns))));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSAdvance - advance, and combine of step 0; the columns of U and the diagonal that the combine needs have been read for z */
PetscErrorCode IDRSAdvance(IDRSWork work, const IDRSStep *step)
{
  const PetscInt s = work->s;

  PetscFunctionBegin;
  PetscCall(IDRSCheckNext_Private(work, step, 0));
  PetscCall(IDRSPassBegin(work, IDRS_ADVANCE));
  PetscCall((*work->passes->advance)(work, step));
  PetscCall(IDRSPassEnd(work, IDRS_ADVANCE, s + (work->preconditioned ? 6 : 5) + IDRSCombineVectors_Private(work, step, s) - (step->wantu ? s : 0) - (step->wantv && work->diagonal ? 1 : 0), 2 * s + (work->diagonal ? 7 : 6) + IDRSCombineFlops_Private(work, step, s)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSAddIterate - x += z + U(:,0:columns) beta: what the recurrence has not added to x yet */
PetscErrorCode IDRSAddIterate(IDRSWork work, PetscInt columns, Vec x)
{
  PetscFunctionBegin;
  PetscCall(VecAXPY(x, 1.0, work->z));
  if (columns) PetscCall(VecMAXPY(x, columns, work->scalars.beta, work->U));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSStreamJoin - Lets matvecs and preconditioners, which come between the passes and may run on another stream of the device, wait for the passes, and
   the other way round: called before and after each of them
*/
PetscErrorCode IDRSStreamJoin(IDRSWork work)
{
  PetscFunctionBegin;
#if defined(PETSCIDRS_HAVE_CUDA)
  if (work->streams) PetscCall(IDRSStreamJoin_CUDA());
#endif
  PetscFunctionReturn(PETSC_SUCCESS);
}
