/*
   Preparations of a solve: work vectors and the slots of right-hand sides, their memory, the operator, and the executor
*/
#include "idrsimpl.h"
#include <petscidrs/private/idrssettings.h>
#if defined(PETSCIDRS_HAVE_CUDA)
  #include "../../../vec/is/sf/impls/nccl/sfnccl.h"
#endif

/*
   Creates work vectors of one type on all processes: like the solution, or on the device if the solution is in host memory and the
   matrix on a device, on some process, because MatMult() then needs device vectors
*/
static PetscErrorCode KSPIDRSCreateVecs_Private(KSP ksp, PetscInt count, Vec *vecs[])
{
  PetscBool   host = PETSC_FALSE, set = PETSC_FALSE, bound = PETSC_FALSE;
  PetscMPIInt all  = 1; /* the matrix is not on a device, or bound to the CPU on all processes */
  char       *cuda = NULL, *hip = NULL;
  Vec         like, *created;
  VecType     type;
  Mat         A;

  PetscFunctionBegin;
  if (ksp->vec_sol) PetscCall(PetscObjectTypeCompareAny((PetscObject)ksp->vec_sol, &host, VECSEQ, VECMPI, ""));
  if (host) PetscCall(PCGetOperatorsSet(ksp->pc, &set, NULL));
  if (set) {
    PetscCall(PCGetOperators(ksp->pc, &A, NULL));
    PetscCall(MatGetVecType(A, &type));
    PetscCall(PetscStrstr(type, VECCUDA, &cuda));
    PetscCall(PetscStrstr(type, VECHIP, &hip));
    PetscCall(MatBoundToCPU(A, &bound));
  }
  if (cuda || hip) {
    all = bound ? 1 : 0;
    IDRSCallAllreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, PetscObjectComm((PetscObject)ksp));
  }
  if (!all) {
    PetscCall(
      PetscInfo(ksp, "Right-hand side and solution are on the host, the matrix is on the device: so are the work vectors\n"));
    PetscCall(MatCreateVecs(A, &like, NULL));
    PetscCall(VecDuplicateVecs(like, count, &created));
    PetscCall(VecDestroy(&like));
  } else PetscCall(KSPCreateVecs(ksp, count, &created, 0, NULL));
  *vecs = created; /* only once it is complete */
  /* VecDuplicate() copies the operations of a vector that is bound to the CPU, but not that it is bound, and makes no array then */
  bound = PETSC_FALSE;
  if (all && ksp->vec_sol) PetscCall(VecBoundToCPU(ksp->vec_sol, &bound));
  for (PetscInt i = 0; bound && i < count; i++) PetscCall(VecBindToCPU(created[i], PETSC_TRUE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Finds the memory of the solution. *moved is set on all processes if it has changed since the last solve: then the work vectors
   must be created again. If a CUDA solution is bound to the CPU and the matrix is not, the result of MatMult() would be on the
   device, where such a vector is not read
*/
static PetscErrorCode KSPIDRSCheckPlacement_Private(KSP ksp, PetscBool *moved)
{
  KSP_IDRS   *idrs = (KSP_IDRS *)ksp->data;
  PetscBool   cuda;
  IDRSMemory  place, matrix;
  PetscMPIInt states[2];
  Mat         A;

  PetscFunctionBegin;
  *moved = PETSC_FALSE;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)idrs->slot[0].r, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  if (!cuda) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSVecWhere(ksp->vec_sol, &place));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)ksp->vec_sol, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(IDRSMatWhere(A, &matrix));
  states[0] = cuda && place == IDRS_MEMORY_HOST && matrix == IDRS_MEMORY_CUDA ? 1 : 0;
  states[1] = idrs->placed && idrs->place != place ? 1 : 0;
  IDRSCallAllreduce(MPI_IN_PLACE, states, 2, MPI_INT, MPI_MAX, PetscObjectComm((PetscObject)ksp));
  PetscCheck(!states[0], PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_WRONGSTATE,
             "The solution is bound to the CPU and the matrix is not, on some process at least: bind both, with VecBindToCPU() and "
             "MatBindToCPU(), or none");
  if (states[1]) PetscCall(PetscInfo(ksp, "The solution has moved between host and device: set up again\n"));
  idrs->place  = place;
  idrs->placed = PETSC_TRUE;
  *moved       = states[1] ? PETSC_TRUE : PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the vectors r, z, v and t and the work of a slot */
static PetscErrorCode KSPIDRSSetSlot_Private(KSPIDRSColumn *col, IDRSWorkspace work, Vec vecs[])
{
  PetscFunctionBegin;
  col->work = work;
  col->r    = vecs[0];
  col->z    = vecs[1];
  col->v    = vecs[2];
  col->t    = vecs[3];
  PetscCall(IDRSWorkspaceSetVecs(work, col->r, col->z, col->v, col->t));
  col->G       = work->G;
  col->U       = work->U;
  col->scalars = &work->scalars;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Discards the data for later solves in slots, and frees the bases of the other direction */
static PetscErrorCode KSPIDRSDestroyKept_Private(KSP ksp, PetscInt begin, PetscInt end)
{
  KSP_IDRS     *idrs                  = (KSP_IDRS *)ksp->data;
  IDRSWorkspace works[IDRS_MAX_WIDTH] = {NULL};

  PetscFunctionBegin;
  for (PetscInt i = begin; i < end; i++) {
    KSPIDRSColumn *col = &idrs->slot[i];

    works[i]       = col->otherwork;
    col->otherwork = NULL;
    PetscCall(PetscFree(col->kept.storage));
    PetscCall(PetscFree(col->otherkept.storage));
    PetscCall(PetscMemzero(&col->kept, sizeof(col->kept)));
    PetscCall(PetscMemzero(&col->otherkept, sizeof(col->otherkept)));
  }
  PetscCall(IDRSWorkspaceDestroy(end - begin, works + begin));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Frees all slots but the first */
static PetscErrorCode KSPIDRSDestroySlots_Private(KSP ksp)
{
  KSP_IDRS     *idrs                  = (KSP_IDRS *)ksp->data;
  IDRSWorkspace works[IDRS_MAX_WIDTH] = {NULL};

  PetscFunctionBegin;
  PetscCall(KSPIDRSDestroyKept_Private(ksp, 1, IDRS_MAX_WIDTH));
  for (PetscInt i = 1; i < IDRS_MAX_WIDTH; i++) {
    works[i - 1] = idrs->slot[i].work;
    PetscCall(PetscMemzero(&idrs->slot[i], sizeof(idrs->slot[i])));
  }
  PetscCall(IDRSWorkspaceDestroy(IDRS_MAX_WIDTH - 1, works));
  if (idrs->slotvecs) PetscCall(IDRSVecsDestroy(idrs->slotlength, &idrs->slotvecs, &idrs->slotmemory));
  PetscCall(MatDestroy(&idrs->pcin));
  PetscCall(MatDestroy(&idrs->pcout));
  idrs->slots = 1;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Creates vectors and bases for `count` simultaneous right-hand sides, unless there are enough: 2s + 5 vectors each, and one more
   if products need a row-major copy. The first slot exists
*/
static PetscErrorCode KSPIDRSMakeSlots_Private(KSP ksp, PetscInt count)
{
  KSP_IDRS         *idrs   = (KSP_IDRS *)ksp->data;
  const PetscInt    length = idrs->set.updatetol > 0.0 ? 5 : 4, more = count - 1;
  IDRSWorkspaceInfo info;
  IDRSWorkspace     works[IDRS_MAX_WIDTH] = {NULL};
  PetscBool         byrows;
  PetscErrorCode    ierr;
  Mat               A;

  PetscFunctionBegin;
  if (count <= idrs->slots) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSDestroySlots_Private(ksp));
  PetscCall(IDRSWorkspaceGetInfo(idrs->slot[0].work, &info));
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(IDRSProductGoesByRows(A, idrs->set.product, &byrows));
  PetscCall(IDRSCheckRoom(idrs->slot[0].r, info.bases + length, count, byrows));
  PetscCall(IDRSVecsCreate(idrs->slot[0].r, length * more, &idrs->slotvecs, &idrs->slotmemory));
  idrs->slotlength = length * more;
  ierr             = IDRSWorkspaceCreate(idrs->slot[0].r, idrs->set.s, idrs->set.P, idrs->set.implementation, more, works);
  /* after an error the created works are destroyed with the slots */
  for (PetscInt i = 1; i < count; i++) idrs->slot[i].work = works[i - 1];
  PetscCall(ierr);
  for (PetscInt i = 1; i < count; i++)
    PetscCall(KSPIDRSSetSlot_Private(&idrs->slot[i], works[i - 1], idrs->slotvecs + length * (i - 1)));
  idrs->slots = count;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSForgetKept_Private - Discards the data for later solves in all slots */
PetscErrorCode KSPIDRSForgetKept_Private(KSP ksp)
{
  PetscFunctionBegin;
  PetscCall(KSPIDRSDestroyKept_Private(ksp, 0, 1));
  PetscCall(KSPIDRSDestroyKept_Private(ksp, 1, IDRS_MAX_WIDTH));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Exchanges the bases of the slots if the direction of this solve, A or its transpose, differs from the last solve and solves
   recycle. The bases of the other direction are kept for its next solve: 2s vectors each, with back end vec 3s. The works of the
   first slot and of the others have been created in two groups
*/
static PetscErrorCode KSPIDRSTurnSlots_Private(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  if (idrs->set.recycle == KSP_IDRS_RECYCLE_NEVER || idrs->transposed == ksp->transpose_solve) PetscFunctionReturn(PETSC_SUCCESS);
  for (PetscInt begin = 0, end = 1; begin < idrs->slots; begin = end, end = idrs->slots) {
    IDRSWorkspace     works[IDRS_MAX_WIDTH] = {NULL};
    PetscBool         keeps                 = PETSC_FALSE;
    IDRSWorkspaceInfo info;
    PetscErrorCode    ierr;

    for (PetscInt i = begin; i < end; i++) keeps = (PetscBool)(keeps || (idrs->slot[i].kept.storage && !idrs->slot[i].kept.why));
    if (!keeps || idrs->slot[begin].otherwork) continue;
    PetscCall(IDRSWorkspaceGetInfo(idrs->slot[0].work, &info));
    PetscCall(IDRSCheckRoom(idrs->slot[0].r, info.bases, end - begin, PETSC_FALSE));
    ierr = IDRSWorkspaceCreate(idrs->slot[0].r, idrs->set.s, idrs->set.P, idrs->set.implementation, end - begin, works);
    if (ierr) PetscCall(IDRSWorkspaceDestroy(end - begin, works));
    PetscCall(ierr);
    for (PetscInt i = begin; i < end; i++) idrs->slot[i].otherwork = works[i - begin];
  }
  idrs->transposed = ksp->transpose_solve;
  for (PetscInt i = 0; i < idrs->slots; i++) {
    KSPIDRSColumn      *col  = &idrs->slot[i];
    const KSPIDRSKept   kept = col->kept;
    const IDRSWorkspace work = col->work;

    col->kept      = col->otherkept;
    col->otherkept = kept;
    if (!col->otherwork) continue; /* no basis needs to be kept */
    PetscCall(KSPIDRSSetSlot_Private(col, col->otherwork, (Vec[]){col->r, col->z, col->v, col->t}));
    col->otherwork = work;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSGetWorkInfo_Private - Adds up traffic and reductions of all slots of the last solve */
PetscErrorCode KSPIDRSGetWorkInfo_Private(KSP ksp, IDRSWorkspaceInfo *info)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  PetscCall(IDRSWorkspaceGetInfo(idrs->slot[0].work, info));
  for (PetscInt i = 1; i < idrs->active; i++) {
    IDRSWorkspaceInfo other;

    PetscCall(IDRSWorkspaceGetInfo(idrs->slot[i].work, &other));
    info->reductions += other.reductions;
    for (PetscInt j = 0; j < IDRS_PASSES; j++) {
      info->traffic[j].calls += other.traffic[j].calls;
      info->traffic[j].vectors += other.traffic[j].vectors;
      info->traffic[j].seconds += other.traffic[j].seconds;
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Frees the data of KSPSetUp_IDRS() */
PetscErrorCode KSPReset_IDRS(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  for (PetscInt i = 0; idrs->state != KSPIDRS_IDLE && i < idrs->slots; i++) {
    if (idrs->slot[i].work) idrs->slot[i].work->failed = PETSC_TRUE;
  }
  PetscCall(KSPIDRSDestroySlots_Private(ksp));
  PetscCall(KSPIDRSDestroyKept_Private(ksp, 0, 1));
  PetscCall(IDRSWorkspaceDestroy(1, &idrs->slot[0].work));
  PetscCall(IDRSProductDestroy(&idrs->product));
  PetscCall(VecDestroyVecs(idrs->nvecs, &idrs->vecs));
  PetscCall(VecDestroy(&idrs->solution));
  PetscCall(VecDestroy(&idrs->inverse));
  PetscCall(PetscMemzero(idrs->slot, sizeof(idrs->slot)));
  idrs->nvecs  = 0;
  idrs->active = 1;
  idrs->state  = KSPIDRS_IDLE;
  PetscCall(PetscMemzero(&idrs->counts, sizeof(idrs->counts)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates bases and work vectors: 2s + 5, three more with smoothing, s more if the back end stores the shadow space */
PetscErrorCode KSPSetUp_IDRS(KSP ksp)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  const PetscInt s = idrs->set.s, kept = idrs->set.updatetol > 0.0 ? 5 : 4, count = kept + (idrs->set.smoothing ? 3 : 0);

  PetscFunctionBegin;
  PetscCall(KSPReset_IDRS(ksp));
  PetscCall(KSPIDRSCreateVecs_Private(ksp, count, &idrs->vecs));
  idrs->nvecs = count;
  idrs->d = idrs->e = idrs->q = NULL;
  if (idrs->set.smoothing) {
    idrs->d = idrs->vecs[kept];
    idrs->e = idrs->vecs[kept + 1];
    idrs->q = idrs->vecs[kept + 2];
  }
  if (idrs->set.P) {
    PetscLayout theirs, ours;
    PetscBool   same;

    PetscCall(VecGetLayout(idrs->vecs[0], &ours));
    for (PetscInt i = 0; i < s; i++) {
      PetscCall(VecGetLayout(idrs->set.P[i], &theirs));
      PetscCall(PetscLayoutCompare(ours, theirs, &same)); /* the same answer on all processes */
      PetscCheck(same, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_SIZ,
                 "KSPIDRSSetShadowVecs(): shadow vector %" PetscInt_FMT " has local size %" PetscInt_FMT ", global %" PetscInt_FMT
                 ", the solution has %" PetscInt_FMT ", %" PetscInt_FMT,
                 i, theirs->n, theirs->N, ours->n, ours->N);
    }
  }
  PetscCall(PetscNew(&idrs->product));
  PetscCall(IDRSWorkspaceCreate(idrs->vecs[0], s, idrs->set.P, idrs->set.implementation, 1, &idrs->slot[0].work));
  PetscCall(KSPIDRSSetSlot_Private(&idrs->slot[0], idrs->slot[0].work, idrs->vecs));
  idrs->placed = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Repeats the set-up inside KSPSolve(), if the solution has moved between host and device, or the last solve ended with an error */
static PetscErrorCode KSPIDRSSetUpAgain_Private(KSP ksp)
{
  const KSPSetUpStage stage = ksp->setupstage;

  PetscFunctionBegin;
  ksp->setupstage = KSP_SETUP_NEW; /* in case the set-up fails */
  PetscCall(KSPSetUp_IDRS(ksp));
  ksp->setupstage = stage;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* If rows are long, MatMult() is faster. Above this number of entries it saves more time than the persistent kernel does */
#define IDRS_PERSISTENT_ENTRIES 524288

/*
   Sets the operator of this solve, the back end of its matvecs, and the kernels that may read it, and decides whether b - A x can
   be trusted
*/
static PetscErrorCode KSPIDRSSetOperator_Private(KSP ksp)
{
  KSP_IDRS         *idrs = (KSP_IDRS *)ksp->data;
  const char       *why  = NULL;
  PetscBool         schur, inexact, direct = PETSC_TRUE;
  IDRSWorkspaceInfo info;
  KSP               inner;
  Mat               A;

  PetscFunctionBegin;
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  /* Matvecs by differences are inexact, and so are matvecs of a Schur complement whose inner solve is iterative */
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMFFD, &inexact));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSCHURCOMPLEMENT, &schur));
  if (schur) {
    PetscCall(MatSchurComplementGetKSP(A, &inner));
    PetscCall(PetscObjectTypeCompare((PetscObject)inner, KSPPREONLY, &direct));
  }
  idrs->exact = (PetscBool)(!inexact && direct);
  if (!idrs->exact)
    PetscCall(
      PetscInfo(ksp, "The operator of type %s is inexact: no reliable updates and no verification\n", ((PetscObject)A)->type_name));
  PetscCall(IDRSWorkspaceGetInfo(idrs->slot[0].work, &info));
  if (!info.device) why = "the vector operations do not run on a GPU";
  else if (ksp->pc_side == PC_LEFT) why = "the operator is applied together with a preconditioner from the left";
  PetscCall(IDRSProductSetMat(idrs->product, A, ksp->transpose_solve, idrs->set.product, why));
  idrs->reader = KSPIDRS_READ_BY_NONE;
  if (idrs->active > 1 && idrs->set.block) PetscFunctionReturn(PETSC_SUCCESS);
  /* the passes of several right-hand sides have one product for all of them */
  if (idrs->product->backend) idrs->reader = idrs->active > 1 ? KSPIDRS_READ_BY_RUN : KSPIDRS_READ_BY_PASS;
  else if (!why && info.size == 1 && idrs->set.product == KSP_IDRS_PRODUCT_AUTO &&
           (idrs->set.run == KSP_IDRS_RUN_PERSISTENT || idrs->product->flops <= 2.0 * IDRS_PERSISTENT_ENTRIES))
    idrs->reader = KSPIDRS_READ_BY_RUN;
  PetscFunctionReturn(PETSC_SUCCESS);
}

const char *const KSPIDRSRuns[] = {"auto", "stepwise", "persistent", "KSPIDRSRun", "KSP_IDRS_RUN_", NULL};

/*@C
  KSPIDRSMonitorInterrupt - Ends a solve if a function of the caller returns an error, a monitor for `KSPMonitorSet()`

  Logically Collective

  Input Parameters:
+ ksp   - the Krylov solver context
. it    - the iteration, not used
. rnorm - the residual norm, not used
- ctx   - pointer to a variable with the function, of type `PetscErrorCode (*)(void)`

  Level: advanced

  Note:
  `KSPIDRS` calls the function once in each iteration of each right-hand side. The monitor does not need the solution, so a GPU does
  not wait for the host, and `KSPMatSolve()` solves for several right-hand sides at the same time. The Python package checks signals
  with this monitor, so that a KeyboardInterrupt ends a solve.

.seealso: [](ch_ksp), `KSPIDRS`, `KSPMonitorSet()`
@*/
PetscErrorCode KSPIDRSMonitorInterrupt(KSP ksp, PetscInt it, PetscReal rnorm, void *ctx)
{
  PetscFunctionBegin;
  PetscCall((*(PetscErrorCode(**)(void))ctx)());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSMonitorsNorms - Returns PETSC_TRUE if no monitor needs the solution: all are PETSc's monitors of the norm, or the above */
PetscBool KSPIDRSMonitorsNorms(KSP ksp)
{
  typedef PetscErrorCode (*Monitor)(KSP, PetscInt, PetscReal, void *);

  for (PetscInt i = 0; i < ksp->numbermonitors; i++) {
    const Monitor monitor = (Monitor)ksp->monitor[i];

    if (monitor != (Monitor)KSPMonitorResidual && monitor != (Monitor)IDRSMonitorShort &&
        monitor != (Monitor)KSPMonitorResidualDrawLG && monitor != (Monitor)KSPIDRSMonitorInterrupt)
      return PETSC_FALSE;
  }
  return PETSC_TRUE;
}

/* Returns the reason why a kernel cannot make many steps of this solve, or NULL */
static PetscErrorCode KSPIDRSWhyNotPersistent_Private(KSP ksp, const char *why[])
{
  KSP_IDRS         *idrs = (KSP_IDRS *)ksp->data;
  PetscInt          solves;
  IDRSWorkspaceInfo info;

  PetscFunctionBegin;
  PetscCall(IDRSWorkspaceGetInfo(idrs->slot[0].work, &info));
  *why = NULL;
  if (!info.device) *why = "the vector operations do not run on a GPU";
  else if (idrs->lockstep) *why = idrs->lockstep;
  else if (info.size > 1) *why = "there are several processes";
  else if (idrs->separatepc) *why = idrs->separatepc;
  else if (idrs->active > 1 && idrs->set.block) *why = "the right-hand sides have a block recurrence";
  else PetscCall(IDRSQueuePersistentRuns(idrs->slot[0].work, (PetscBool)(idrs->set.run == KSP_IDRS_RUN_AUTO), why));
  if (*why || idrs->active == 1) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSQueuePersistentFits(idrs->slot[0].work, idrs->active, &solves));
  if (solves < idrs->active) *why = "the systems of two right-hand sides do not fit on the GPU at the same time";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Chooses the back end of the iterations, and the number of steps that the host launches before it waits for a device: 0 if a
   monitor or test may need the solution of every iteration, or if a matvec takes much longer than the wait
*/
static PetscErrorCode KSPIDRSChooseRun_Private(KSP ksp)
{
  KSP_IDRS         *idrs = (KSP_IDRS *)ksp->data;
  PetscBool         streams;
  IDRSWorkspaceInfo info;
  Mat               A;

  PetscFunctionBegin;
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &streams, MATSEQAIJSTREAM, MATMPIAIJSTREAM, ""));
  PetscCall(IDRSWorkspaceGetInfo(idrs->slot[0].work, &info));
  idrs->lagged   = (PetscBool)(info.size > 1 || info.device);
  idrs->lockstep = NULL;
  idrs->depth    = 0;
  if (info.device) {
    if (!KSPIDRSMonitorsNorms(ksp)) idrs->lockstep = "a monitor may ask for the solution";
    if (idrs->d) idrs->lockstep = "residual smoothing";
    if (streams) idrs->lockstep = "an unused matvec would need a pass over the streamed operator";
    if (ksp->converged != KSPConvergedDefault && ksp->converged != KSPConvergedSkip)
      idrs->lockstep = "a convergence test of the user may ask for the solution";
    if (info.throughhost) idrs->lockstep = info.throughhost;
    if (idrs->lockstep) PetscCall(PetscInfo(ksp, "The host waits for the device in every matvec: %s\n", idrs->lockstep));
    else idrs->depth = info.depth;
  }
  idrs->slowerrun = NULL;
  if (idrs->set.run != KSP_IDRS_RUN_STEPWISE) PetscCall(KSPIDRSWhyNotPersistent_Private(ksp, &idrs->slowerrun));
  PetscCheck(!idrs->slowerrun || idrs->set.run == KSP_IDRS_RUN_AUTO, PetscObjectComm((PetscObject)ksp), PETSC_ERR_SUP,
             "-%sksp_idrs_run %s cannot be used here: %s", IDRSPrefix(ksp), KSPIDRSRuns[idrs->set.run], idrs->slowerrun);
  idrs->persistent = (PetscBool)(idrs->set.run != KSP_IDRS_RUN_STEPWISE && !idrs->slowerrun);
  if (idrs->persistent) idrs->depth = 0; /* the host finishes a step between two kernels */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Prepares everything that depends on the operators and options of this solve, for `active` simultaneous right-hand sides */
static PetscErrorCode KSPIDRSPrepareSolve_Private(KSP ksp, PetscInt active)
{
  KSP_IDRS         *idrs = (KSP_IDRS *)ksp->data;
  PetscBool         moved;
  PetscInt          level;
  IDRSGroup         group = {.count = active};
  IDRSWorkspaceInfo info;
#if defined(PETSCIDRS_HAVE_CUDA)
  PetscSF sf;
  Mat     A;
#endif

  PetscFunctionBegin;
  PetscCall(KSPIDRSCheckPlacement_Private(ksp, &moved));
  if (moved) {
    PetscCall(KSPIDRSSetUpAgain_Private(ksp));
    PetscCall(KSPIDRSCheckPlacement_Private(ksp, &moved));
  }
  PetscCall(KSPIDRSMakeSlots_Private(ksp, active));
  PetscCall(KSPIDRSTurnSlots_Private(ksp));
  idrs->active = active;
  PetscCall(KSPIDRSSetOperator_Private(ksp));
  /* before 3.26 a new type or matrix is set up only in PCApply(), which does not report a failure */
  PetscCall(PCSetUp(ksp->pc));
  PetscCall(KSPIDRSSetPreconditioner_Private(ksp));
  for (PetscInt i = 0; i < active; i++) {
    KSPIDRSColumn *col = &idrs->slot[i];

    col->p      = KSPIDRSIsPreconditioned(idrs) || idrs->diagonal ? col->v : col->r;
    col->anchor = !idrs->exact || !(idrs->set.updatetol > 0.0) ? NULL : (i ? idrs->slotvecs[5 * (i - 1) + 4] : idrs->vecs[4]);
    KSPIDRSResetColumn(col);
    col->work->product = idrs->reader == KSPIDRS_READ_BY_NONE ? NULL : idrs->product;
    PetscCall(IDRSWorkspaceStart(col->work, (PetscBool)(col->p == col->v), idrs->diagonal));
    col->work->polynomial = idrs->polynomial;
    group.work[i]         = col->work;
  }
  idrs->scatters = PETSC_FALSE;
#if defined(PETSCIDRS_HAVE_CUDA)
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(IDRSMatGetScatter(A, &sf));
  if (sf) PetscCall(IDRSScatterIsNCCL(sf, &idrs->scatters)); /* which needs PETSc 3.26 */
#endif
  PetscCall(IDRSWorkspaceConnect(&group, idrs->set.communication, idrs->scatters));
  PetscCall(KSPIDRSGetWorkInfo_Private(ksp, &info));
  PetscCall(PetscMemzero(&idrs->counts, sizeof(idrs->counts)));
  idrs->counts.before = info.reductions;
  /* PETSc counts the nesting by its preconditioners; KSPIDRSNesting also counts solvers in an operator or PCSHELL of the user */
  PetscCall(IDRSGetNestLevel(ksp, &level));
  idrs->nesting = PetscMax(level, KSPIDRSNesting);
  PetscCall(KSPIDRSChooseRun_Private(ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSPrepareColumns_Private - Prepares a solve for `active` simultaneous right-hand sides, or for those that can run at the
   same time, each in one kernel, if these are two or more
*/
PetscErrorCode KSPIDRSPrepareColumns_Private(KSP ksp, PetscInt active)
{
  KSP_IDRS   *idrs = (KSP_IDRS *)ksp->data;
  PetscBool   cuda;
  PetscMPIInt size;
  PetscInt    solves = 0;

  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)ksp), &size));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)idrs->slot[0].r, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  if (active > 1 && ((cuda && size == 1) || idrs->set.run == KSP_IDRS_RUN_PERSISTENT) && !idrs->set.block &&
      idrs->set.run != KSP_IDRS_RUN_STEPWISE) {
    PetscCall(KSPIDRSPrepareSolve_Private(ksp, 1));
    if (idrs->persistent) PetscCall(IDRSQueuePersistentFits(idrs->slot[0].work, active, &solves));
    if (solves > 1) active = solves;
    else if (idrs->set.run == KSP_IDRS_RUN_PERSISTENT) {
      idrs->sequential = "with -ksp_idrs_run persistent two systems do not fit on the GPU at the same time";
      PetscFunctionReturn(PETSC_SUCCESS);
    }
  }
  PetscCall(KSPIDRSPrepareSolve_Private(ksp, active));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSRecover_Private - Repeats the set-up if the last solve ended with an error. Several processes cannot know without a
   reduction whether all of them had the error, so the user must call KSPReset()
*/
PetscErrorCode KSPIDRSRecover_Private(KSP ksp)
{
  const KSP_IDRS *idrs = (const KSP_IDRS *)ksp->data;
  PetscMPIInt     size;

  PetscFunctionBegin;
  if (idrs->state == KSPIDRS_IDLE) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)ksp), &size));
  PetscCheck(idrs->state != KSPIDRS_SOLVING, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ORDER,
             "KSPSolve() is called inside KSPSolve() of the same KSP: create another KSP for the inner solve");
  PetscCheck(size == 1, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ORDER,
             "The last KSPSolve() has ended with an error: call KSPReset(), on all processes, and KSPSetOperators()");
  PetscCall(PetscInfo(ksp, "The last KSPSolve() has ended with an error: set up again\n"));
  PetscCall(KSPIDRSSetUpAgain_Private(ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}
