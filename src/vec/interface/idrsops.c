/*
   The passes of IDR(s), and the operations of block IDR(s), as the solver calls them: checks, logging, and the back end. The
   vectors that a pass reads and writes are stated here once, for the log and for the tests.
*/
#include <petscidrs/private/idrsops.h>
#include <petscidrs/private/idrscompat.h>

const char *const    IDRSPassNames[] = {"combine", "project", "update", "advance", "persistent"};
static PetscLogEvent IDRS_Events[IDRS_PASSES];
PetscLogEvent        IDRS_Reduce;

PetscErrorCode IDRSRegisterEvents(void)
{
  PetscFunctionBegin;
  PetscCall(PetscLogEventRegister("IDRSCombine", KSP_CLASSID, &IDRS_Events[IDRS_COMBINE]));
  PetscCall(PetscLogEventRegister("IDRSProject", KSP_CLASSID, &IDRS_Events[IDRS_PROJECT]));
  PetscCall(PetscLogEventRegister("IDRSUpdate", KSP_CLASSID, &IDRS_Events[IDRS_UPDATE]));
  PetscCall(PetscLogEventRegister("IDRSAdvance", KSP_CLASSID, &IDRS_Events[IDRS_ADVANCE]));
  PetscCall(PetscLogEventRegister("IDRSPersistent", KSP_CLASSID, &IDRS_Events[IDRS_PERSISTENT]));
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
  IDRSWorkspace first = NULL;

  same->count = 0;
  for (PetscInt i = 0; i < group->count; i++) {
    const IDRSStep     *s    = &steps[i];
    const IDRSWorkspace work = group->work[i];

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

/* The calls and the time of a pass belong to the first work of its group */
PetscErrorCode IDRSPassBegin(IDRSWorkspace work, IDRSPass pass)
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
PetscErrorCode IDRSPassCount(IDRSWorkspace work, IDRSPass pass, PetscInt vectors, PetscInt flops)
{
  PetscFunctionBegin;
  if (!work->passes->device) PetscFunctionReturn(PETSC_SUCCESS);
  work->traffic[pass].vectors += (PetscLogDouble)vectors;
  PetscCall(PetscLogGpuFlops((PetscLogDouble)flops * (PetscLogDouble)work->n));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSPassEnd(IDRSWorkspace work, IDRSPass pass)
{
  PetscFunctionBegin;
  work->traffic[pass].seconds += IDRSGpuSeconds();
  if (work->passes->device) work->traffic[pass].calls++;
  PetscCall(PetscLogEventEnd(IDRS_Events[pass], 0, 0, 0, 0));
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

/*
   Checks the step of a pass. After update and advance a preconditioner may have to be applied between v and U. v for the omega step
   is p if the passes apply the preconditioner
*/
static PetscErrorCode IDRSCheckStep_Private(IDRSWorkspace work, IDRSPass pass, const IDRSStep *step)
{
  const PetscInt s = work->s, k = pass == IDRS_COMBINE ? step->k : IDRSNextK(step->k, s);

  PetscFunctionBegin;
  if (pass == IDRS_COMBINE)
    PetscCheck((step->wantv || step->wantu) && !(k == s && step->wantu), work->comm, PETSC_ERR_ARG_OUTOFRANGE,
               "A combine must compute v or U, and in the omega step only v");
  else
    PetscCheck(step->wantv || !step->wantu, work->comm, PETSC_ERR_ARG_OUTOFRANGE,
               "This pass cannot form the next U, because the preconditioner must first be applied to v");
  PetscCheck((0 <= k && k < s) || (k == s && (pass == IDRS_COMBINE || (work->diagonal && !step->wantu && !step->start))) ||
               (pass != IDRS_COMBINE && !step->wantv),
             work->comm, PETSC_ERR_ARG_OUTOFRANGE, "Step %" PetscInt_FMT " of %" PetscInt_FMT, k, s);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Counts the vectors that a pass reads and writes, and its flops per row */
static PetscErrorCode IDRSCountStep_Private(IDRSWorkspace work, IDRSPass pass, const IDRSStep *step)
{
  const PetscInt  s = work->s, k = step->k, d = work->diagonal ? 1 : 0;
  const PetscBool start = (PetscBool)(pass == IDRS_UPDATE && step->start), omega = (PetscBool)(pass == IDRS_COMBINE && k == s);
  PetscInt        columns, vectors = 0, flops = 0; /* columns of the combine */

  PetscFunctionBegin;
  columns = pass == IDRS_UPDATE ? (start ? 0 : s - (k + 1)) : (pass == IDRS_COMBINE && !omega ? s - k : s);
  /* combine: G and U, the diagonal, and the result, in addition to r, v or t */
  if (step->wantv || step->wantu) vectors = (step->wantv && step->wantu ? 2 : 1) * columns + 1 + (step->wantv ? d : 0);
  if (step->wantv) flops += 2 * columns + d;
  if (step->wantu) flops += 2 * columns + 1;
  if (pass == IDRS_COMBINE) {
    /* r, which is not preconditioned in the omega step */
    vectors += 1 - (omega ? d : 0);
    flops -= omega ? d : 0;
  } else if (pass == IDRS_UPDATE) {
    /* G(:,0:k+1), U(:,0:k+1), r read; G_k, U_k, r written; for k = 0 G_0 and r */
    vectors += k ? 2 * (k + 1) + 4 : 3;
    if (start) flops = step->wantv ? 2 * (k + 1) + d : 0;
    flops += 4 * k + 4;
  } else {
    /* U, z, t, r read; z, r written; p if it is not r. The combine uses the U and the diagonal that have been read for z */
    vectors += s + (work->preconditioned ? 6 : 5) - (step->wantu ? s : 0) - (step->wantv ? d : 0);
    flops += 2 * s + 6 + d;
  }
  PetscCall(IDRSPassCount(work, pass, vectors, flops));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Runs a pass for the works of a group, in one call for works that have the same step */
static PetscErrorCode IDRSPass_Private(const IDRSGroup *group, const IDRSStep steps[], IDRSPass pass)
{
  uint32_t        taken = 0;
  IDRSGroup       same;
  const IDRSStep *step;

  PetscFunctionBegin;
  while (IDRSGroupNext(group, steps, PETSC_FALSE, &taken, &same, &step)) {
    const IDRSPassOps *passes = same.work[0]->passes;

    PetscCall(IDRSCheckStep_Private(same.work[0], pass, step));
    PetscCall(IDRSPassBegin(same.work[0], pass));
    if (pass == IDRS_COMBINE) PetscCall((*passes->combine)(&same, step));
    else if (pass == IDRS_UPDATE) PetscCall((*passes->update)(&same, step));
    else PetscCall((*passes->advance)(&same, step));
    for (PetscInt i = 0; i < same.count; i++) PetscCall(IDRSCountStep_Private(same.work[i], pass, step));
    PetscCall(IDRSPassEnd(same.work[0], pass));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSCombine - Computes v and U_k as idrsops.h states; in the omega step r, which it reads and writes */
PetscErrorCode IDRSCombine(const IDRSGroup *group, const IDRSStep steps[])
{
  PetscFunctionBegin;
  PetscCall(IDRSPass_Private(group, steps, IDRS_COMBINE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSUpdate - Runs update of step k, and combine of step k+1; in the start r changes before G_k is made orthogonal */
PetscErrorCode IDRSUpdate(const IDRSGroup *group, const IDRSStep steps[])
{
  PetscFunctionBegin;
  PetscCall(IDRSPass_Private(group, steps, IDRS_UPDATE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSAdvance - Runs advance of the omega step, k = s, and combine of step 0 */
PetscErrorCode IDRSAdvance(const IDRSGroup *group, const IDRSStep steps[])
{
  PetscFunctionBegin;
  PetscCall(IDRSPass_Private(group, steps, IDRS_ADVANCE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSStreamJoin - Orders the passes and the matvecs and preconditioners between them, which may run on another stream of the
   device; called before and after each of them
*/
PetscErrorCode IDRSStreamJoin(IDRSWorkspace work)
{
  PetscFunctionBegin;
  if (work->passes->device) PetscCall((*work->passes->device->join)());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSBlockVecSet - Sets a column of blocks, whose array must not move while the column is used */
PetscErrorCode IDRSBlockVecSet(IDRSWorkspace work, Vec vec, IDRSBlockVec *column)
{
  PetscScalar *array;
  PetscMemType type;

  PetscFunctionBegin;
  column->vec   = vec;
  column->array = NULL;
  if (!work->passes->device) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecGetArrayAndMemType(vec, &array, &type));
  PetscCheck(PetscMemTypeDevice(type), work->comm, PETSC_ERR_ARG_WRONGSTATE,
             "A work vector of KSPIDRS is not in the memory of the GPU any more");
  column->array = array;
  PetscCall(VecRestoreArrayAndMemType(vec, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSBlockCombine - Block DAXPY, for a sequence of sums: each sum uses the results of the sums before it. The CUDA back end
   computes all sums on some rows before it continues with the next rows, so that vectors of several sums stay in a cache. The
   traffic of such a vector is counted once per sum
*/
PetscErrorCode IDRSBlockCombine(IDRSWorkspace work, PetscInt count, const IDRSBlockAxpy sums[])
{
  PetscInt vectors = 0, flops = 0;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++)
    PetscCheck(sums[i].ny <= IDRS_MAX_WIDTH, work->comm, PETSC_ERR_ARG_OUTOFRANGE, "%" PetscInt_FMT " columns exceed the limit %d",
               sums[i].ny, IDRS_MAX_WIDTH);
  PetscCall(IDRSPassBegin(work, IDRS_COMBINE));
  for (PetscInt i = 0; i < count; i++) {
    const IDRSBlockAxpy *sum      = &sums[i];
    const PetscInt       diagonal = work->diagonal && sum->scaled ? 1 : 0;

    vectors += sum->nx + (sum->add ? 2 : 1) * sum->ny + diagonal;
    flops += (2 * sum->nx + diagonal) * sum->ny;
  }
  PetscCall(IDRSPassCount(work, IDRS_COMBINE, vectors, flops));
  PetscCall((*work->passes->blockcombine)(work, count, sums));
  PetscCall(IDRSPassEnd(work, IDRS_COMBINE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSBlockProject - Block DOT, many tasks in one reduction over all processes

   Input Parameters:
+  work  - the work, with the seed of the shadow space
.  count - the number of tasks
-  tasks - the tasks

   Output Parameter:
.  sums - P^H X, then W^H X, for one task after another
*/
PetscErrorCode IDRSBlockProject(IDRSWorkspace work, PetscInt count, const IDRSBlockDots tasks[], PetscScalar sums[])
{
  PetscInt nsums = 0, vectors = 0;

  PetscFunctionBegin;
  PetscCheck(work->hashed, work->comm, PETSC_ERR_PLIB, "Block IDR(s) does not support explicit shadow vectors");
  for (PetscInt i = 0; i < count; i++)
    PetscCheck(tasks[i].nw <= 2 * IDRS_MAX_WIDTH && tasks[i].nx <= 2 * IDRS_MAX_WIDTH, work->comm, PETSC_ERR_ARG_OUTOFRANGE,
               "%" PetscInt_FMT " or %" PetscInt_FMT " columns exceed the limit %d", tasks[i].nw, tasks[i].nx, 2 * IDRS_MAX_WIDTH);
  PetscCall(IDRSPassBegin(work, IDRS_PROJECT));
  for (PetscInt i = 0; i < count; i++) {
    nsums += IDRSBlockDotsCount(&tasks[i]);
    vectors += tasks[i].nx + (IDRSBlockDotsHermitian(&tasks[i]) ? 0 : tasks[i].nw);
  }
  PetscCall(IDRSPassCount(work, IDRS_PROJECT, vectors, 2 * nsums));
  PetscCall((*work->passes->blockproject)(work, count, tasks, sums));
  PetscCall(IDRSPassEnd(work, IDRS_PROJECT));
  PetscCall(IDRSSum(work->comm, nsums, sums));
  work->reductions++;
  PetscFunctionReturn(PETSC_SUCCESS);
}
