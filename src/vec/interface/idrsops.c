/*
   The passes of IDR(s) as the solver calls them: checks, logging, and the back end. The vectors that a pass reads and writes are
   stated here once, for the log and for the tests.
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

/* Returns the time that PETSc has measured on a GPU so far, with -log_view_gpu_time */
PetscLogDouble IDRSGpuSeconds(void)
{
#if PetscDefined(HAVE_DEVICE)
  return petsc_gtime;
#else
  return 0.0;
#endif
}

/*
   IDRSGroupNext - Selects the works of a group that have the same step, apart from `unreported`, as the first work that is not
   taken, and their scalars in the same place; for projections also the same shadow space, which changes at a restart. taken has one
   bit per work. Returns PETSC_FALSE if all are taken
*/
PetscBool IDRSGroupNext(const IDRSGroup *group, const IDRSStep steps[], PetscBool projects, uint32_t *taken, IDRSGroup *same,
                        const IDRSStep **step)
{
  IDRSWork first = NULL;

  same->count = 0;
  for (PetscInt i = 0; i < group->count; i++) {
    const IDRSStep *s    = &steps[i];
    const IDRSWork  work = group->work[i];

    /* works with another step, place of the scalars or shadow space are selected later */
    if (*taken & (UINT32_C(1) << i)) continue;
    if (!first) {
      first = work;
      *step = s;
    } else if (work->ondevice != first->ondevice || s->k != (*step)->k || s->start != (*step)->start ||
               s->wantv != (*step)->wantv || s->wantu != (*step)->wantu || s->matvec != (*step)->matvec ||
               (projects && work->seed != first->seed))
      continue;
    *taken |= UINT32_C(1) << i;
    same->work[same->count++] = work;
  }
  return first ? PETSC_TRUE : PETSC_FALSE;
}

/* IDRSEachWork - Runs a pass for one work after another */
PetscErrorCode IDRSEachWork(const IDRSGroup *group, const IDRSStep *step, PetscErrorCode (*pass)(IDRSWork, const IDRSStep *))
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < group->count; i++) PetscCall((*pass)(group->work[i], step));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The calls and the time of a pass belong to the first work of its group */
PetscErrorCode IDRSPassBegin(IDRSWork work, IDRSPass pass)
{
  PetscFunctionBegin;
  PetscCall(PetscLogEventBegin(IDRS_Events[pass], 0, 0, 0, 0));
  work->traffic[pass].seconds -= IDRSGpuSeconds();
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSPassCount - Counts the traffic and flops of a fused pass for one work: vectors read and written, flops per row, as PETSc
   counts them (a complex operation is one). Vec calls have more traffic, and log their own flops.
*/
PetscErrorCode IDRSPassCount(IDRSWork work, IDRSPass pass, PetscInt vectors, PetscInt flops)
{
  PetscFunctionBegin;
  if (!work->passes->device) PetscFunctionReturn(PETSC_SUCCESS);
  work->traffic[pass].vectors += (PetscLogDouble)vectors;
  PetscCall(PetscLogGpuFlops((PetscLogDouble)flops * (PetscLogDouble)work->n));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSPassEnd(IDRSWork work, IDRSPass pass)
{
  PetscFunctionBegin;
  work->traffic[pass].seconds += IDRSGpuSeconds();
  if (work->passes->device) work->traffic[pass].calls++;
  PetscCall(PetscLogEventEnd(IDRS_Events[pass], 0, 0, 0, 0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Returns the vectors that a combine with this many columns reads and writes in addition to r, v or t, or to the operands of the
   update or advance before it
*/
static PetscInt IDRSCombineVectors_Private(IDRSWork work, const IDRSStep *step, PetscInt columns)
{
  return step->wantv || step->wantu ? (step->wantv && step->wantu ? 2 : 1) * columns + 1 + (step->wantv && work->diagonal ? 1 : 0)
                                    : 0;
}

static PetscInt IDRSCombineFlops_Private(IDRSWork work, const IDRSStep *step, PetscInt columns)
{
  return (step->wantv ? 2 * columns + (work->diagonal ? 1 : 0) : 0) + (step->wantu ? 2 * columns + 1 : 0);
}

/* Differences between the passes: the checks of a step, the vectors that it reads and writes, and the back end */
typedef struct {
  IDRSPass pass;
  PetscErrorCode (*check)(IDRSWork, const IDRSStep *);
  void (*count)(IDRSWork, const IDRSStep *, PetscInt *vectors, PetscInt *flops);
} IDRSPassRules;

/* Runs a pass for the works of a group, in one call for works that have the same step */
static PetscErrorCode IDRSPass_Private(const IDRSGroup *group, const IDRSStep steps[], const IDRSPassRules *rules)
{
  uint32_t        taken = 0;
  IDRSGroup       same;
  const IDRSStep *step;

  PetscFunctionBegin;
  while (IDRSGroupNext(group, steps, PETSC_FALSE, &taken, &same, &step)) {
    IDRSWork           first  = same.work[0];
    const IDRSPassOps *passes = first->passes;

    PetscCall((*rules->check)(first, step));
    PetscCall(IDRSPassBegin(first, rules->pass));
    switch (rules->pass) {
    case IDRS_COMBINE:
      PetscCall((*passes->combine)(&same, step));
      break;
    case IDRS_UPDATE:
      PetscCall((*passes->update)(&same, step));
      break;
    case IDRS_ADVANCE:
      PetscCall((*passes->advance)(&same, step));
      break;
    default:
      SETERRQ(PETSC_COMM_SELF, PETSC_ERR_PLIB, "IDRSPass_Private() does not know pass %s", IDRSPassNames[rules->pass]);
    }
    for (PetscInt i = 0; i < same.count; i++) {
      PetscInt vectors, flops;

      (*rules->count)(same.work[i], step, &vectors, &flops);
      PetscCall(IDRSPassCount(same.work[i], rules->pass, vectors, flops));
    }
    PetscCall(IDRSPassEnd(first, rules->pass));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSSum - Computes sums over all processes, in place */
PetscErrorCode IDRSSum(MPI_Comm comm, PetscInt count, PetscScalar sums[])
{
  PetscMPIInt length;

  PetscFunctionBegin;
  PetscCall(PetscMPIIntCast(count, &length));
  PetscCall(PetscLogEventBegin(IDRS_Reduce, 0, 0, 0, 0));
  IDRSCallAllreduce(MPI_IN_PLACE, sums, length, MPIU_SCALAR, MPIU_SUM, comm);
  PetscCall(PetscLogEventEnd(IDRS_Reduce, 0, 0, 0, 0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSCheckCombine_Private(IDRSWork work, const IDRSStep *step)
{
  PetscFunctionBegin;
  PetscCheck(0 <= step->k && step->k <= work->s, work->comm, PETSC_ERR_ARG_OUTOFRANGE, "Step %" PetscInt_FMT " of %" PetscInt_FMT,
             step->k, work->s);
  PetscCheck((step->wantv || step->wantu) && !(step->k == work->s && step->wantu), work->comm, PETSC_ERR_ARG_OUTOFRANGE,
             "A combine must compute v or U, and in the omega step only v");
  PetscFunctionReturn(PETSC_SUCCESS);
}

static void IDRSCountCombine_Private(IDRSWork work, const IDRSStep *step, PetscInt *vectors, PetscInt *flops)
{
  const PetscBool omega = (PetscBool)(step->k == work->s);
  /* r is not preconditioned */
  const PetscInt columns = omega ? work->s : work->s - step->k, diagonal = omega && work->diagonal ? 1 : 0;

  /* r, and the columns of G and U */
  *vectors = 1 + IDRSCombineVectors_Private(work, step, columns) - diagonal;
  *flops   = IDRSCombineFlops_Private(work, step, columns) - diagonal;
}

/* IDRSCombine - Computes v and U_k as idrsops.h states; in the omega step r, which it reads and writes */
PetscErrorCode IDRSCombine(const IDRSGroup *group, const IDRSStep steps[])
{
  static const IDRSPassRules rules = {IDRS_COMBINE, IDRSCheckCombine_Private, IDRSCountCombine_Private};

  PetscFunctionBegin;
  PetscCall(IDRSPass_Private(group, steps, &rules));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   After update and advance a preconditioner may have to be applied between v and U. v for the omega step is p if the passes apply
   the preconditioner
*/
static PetscErrorCode IDRSCheckNext_Private(IDRSWork work, const IDRSStep *step)
{
  const PetscInt next = IDRSNextK(step->k, work->s);

  PetscFunctionBegin;
  PetscCheck(step->wantv || !step->wantu, work->comm, PETSC_ERR_ARG_OUTOFRANGE,
             "This pass cannot form the next U, because the preconditioner must first be applied to v");
  PetscCheck(!step->wantv || (0 <= next && next < work->s) || (next == work->s && work->diagonal && !step->wantu && !step->start),
             work->comm, PETSC_ERR_ARG_OUTOFRANGE, "Step %" PetscInt_FMT " of %" PetscInt_FMT, next, work->s);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static void IDRSCountUpdate_Private(IDRSWork work, const IDRSStep *step, PetscInt *vectors, PetscInt *flops)
{
  const PetscInt k = step->k, columns = step->start ? 0 : work->s - (k + 1);

  /* G(:,0:k+1), U(:,0:k+1), r read; G_k, U_k, r written; for k = 0 G_0 and r */
  *vectors = (k ? 2 * (k + 1) + 4 : 3) + IDRSCombineVectors_Private(work, step, columns);
  *flops   = 4 * k + 4 +
           (step->start ? (step->wantv ? 2 * (k + 1) + (work->diagonal ? 1 : 0) : 0)
                        : IDRSCombineFlops_Private(work, step, columns));
}

/* IDRSUpdate - Runs update of step k, and combine of step k+1; in the start r changes before G_k is made orthogonal */
PetscErrorCode IDRSUpdate(const IDRSGroup *group, const IDRSStep steps[])
{
  static const IDRSPassRules rules = {IDRS_UPDATE, IDRSCheckNext_Private, IDRSCountUpdate_Private};

  PetscFunctionBegin;
  PetscCall(IDRSPass_Private(group, steps, &rules));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The combine uses columns of U and the diagonal that have already been read for z */
static void IDRSCountAdvance_Private(IDRSWork work, const IDRSStep *step, PetscInt *vectors, PetscInt *flops)
{
  const PetscInt s = work->s;

  /* U, z, t, r read; z, r written; p if it is not r */
  *vectors = s + (work->preconditioned ? 6 : 5) + IDRSCombineVectors_Private(work, step, s) - (step->wantu ? s : 0) -
             (step->wantv && work->diagonal ? 1 : 0);
  *flops = 2 * s + (work->diagonal ? 7 : 6) + IDRSCombineFlops_Private(work, step, s);
}

/* IDRSAdvance - Runs advance of the omega step, k = s, and combine of step 0 */
PetscErrorCode IDRSAdvance(const IDRSGroup *group, const IDRSStep steps[])
{
  static const IDRSPassRules rules = {IDRS_ADVANCE, IDRSCheckNext_Private, IDRSCountAdvance_Private};

  PetscFunctionBegin;
  PetscCall(IDRSPass_Private(group, steps, &rules));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSStreamJoin - Orders the passes and the matvecs and preconditioners between them, which may run on another stream of the
   device; called before and after each of them
*/
PetscErrorCode IDRSStreamJoin(IDRSWork work)
{
  PetscFunctionBegin;
  if (work->passes->device) PetscCall((*work->passes->device->join)());
  PetscFunctionReturn(PETSC_SUCCESS);
}
