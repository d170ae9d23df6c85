/*
   Creation and destruction of an IDRSWorkspace, the choice of the back ends, and the functions that the solver calls
*/
#include <petscidrs/private/idrsops.h>
#include <petscidrs/private/idrscompat.h>

const char *const KSPIDRSCommunications[]  = {"auto", "mpi", "nccl", "peer", "KSPIDRSCommunication", "KSP_IDRS_COMMUNICATION_",
                                              NULL};
const char *const KSPIDRSImplementations[] = {"auto", "vec", "cuda", "KSPIDRSImplementation", "KSP_IDRS_", NULL};

/* Back ends, the fastest first */
static const IDRSPassOps *IDRSPassList[] = {
#if defined(PETSCIDRS_HAVE_CUDA)
  &IDRSPasses_CUDA,
#endif
  &IDRSPasses_Vec};

/*
   IDRSWorkspaceRegisterPasses - Registers a back end instead of the one with the same name, which is returned; for example an
   emulated device
*/
PetscErrorCode IDRSWorkspaceRegisterPasses(const IDRSPassOps *passes, const IDRSPassOps **replaced)
{
  PetscFunctionBegin;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(IDRSPassList); i++) {
    PetscBool same;

    PetscCall(PetscStrcmp(IDRSPassList[i]->name, passes->name, &same));
    if (!same) continue;
    if (replaced) *replaced = IDRSPassList[i];
    IDRSPassList[i] = passes;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSWorkspaceChoose_Private - Chooses the back end for vectors like this one: the requested one, or an error with the reason why
   it cannot run; with auto, the first of the list that runs on all processes, and in *slower the reason why those before it do not.
   On some processes vectors may be bound to the host
*/
static PetscErrorCode IDRSWorkspaceChoose_Private(Vec like, PetscInt s, PetscBool explicit, KSPIDRSImplementation implementation,
                                                  const IDRSPassOps **passes, const char *slower[])
{
  const MPI_Comm  comm      = PetscObjectComm((PetscObject)like);
  const PetscBool automatic = (PetscBool)(implementation == KSP_IDRS_AUTO);
  const char     *why       = NULL;
  PetscMPIInt     trouble[2]; /* no back end runs; not on a device */
  PetscBool       built = PETSC_FALSE;
#if defined(PETSCIDRS_HAVE_CUDA)
  const char *missing = NULL;
#else
  const char *missing = "this library was built without CUDA";
#endif

  PetscFunctionBegin;
  *passes = NULL;
  *slower = automatic ? missing : NULL;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(IDRSPassList) && !*passes; i++) {
    PetscBool named;

    PetscCall(PetscStrcmp(IDRSPassList[i]->name, KSPIDRSImplementations[implementation], &named));
    if (!automatic && !named) continue;
    built = PETSC_TRUE;
    if (explicit && IDRSPassList[i]->device) why = "explicit shadow vectors need back end vec";
    else PetscCall((*IDRSPassList[i]->runs)(like, s, &why));
    if (why) *slower = why;
    else *passes = IDRSPassList[i];
  }
  PetscCheck(built, comm, PETSC_ERR_SUP,
             "-ksp_idrs_implementation %s: this library was built without it; it needs PETSc 3.20 or newer, with CUDA",
             KSPIDRSImplementations[implementation]);
  /* all processes agree, as reductions and scatters are collective */
  trouble[0] = *passes ? 0 : 1;
  trouble[1] = *passes && (*passes)->device ? 0 : 1;
  IDRSCallAllreduce(MPI_IN_PLACE, trouble, 2, MPI_INT, MPI_MAX, comm);
  PetscCheck(!trouble[0], comm, PETSC_ERR_SUP, "-ksp_idrs_implementation %s cannot run here: %s (vectors of type %s)",
             KSPIDRSImplementations[implementation], why ? why : "it does not run on another process",
             ((PetscObject)like)->type_name);
  if (trouble[1] && (*passes)->device) {
    *passes = &IDRSPasses_Vec;
    *slower = "the vectors of another process are not on a GPU";
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Initializes a work without its bases */
static PetscErrorCode IDRSWorkspaceInitialize_Private(IDRSWorkspace work, Vec like, PetscInt s, Vec P[])
{
  PetscFunctionBegin;
  PetscCall(PetscCommDuplicate(PetscObjectComm((PetscObject)like), &work->comm, NULL));
  PetscCallMPI(MPI_Comm_size(work->comm, &work->size));
  PetscCall(VecGetLocalSize(like, &work->n));
  PetscCall(VecGetOwnershipRange(like, &work->rstart, NULL));
  work->s      = s;
  work->hashed = P ? PETSC_FALSE : PETSC_TRUE;

  PetscCall(PetscCalloc1(IDRS_STORAGE(s) + IDRS_DOTS, &work->storage)); /* the sums are last, followed by the deferred dots */
  IDRSScalarsSetPointers(&work->scalars, s, work->storage);
  work->scalars.pivotscale = IDRS_HASHED_PIVOTSCALE;
  if (P) {
    PetscReal least = PETSC_MAX_REAL;

    PetscCall(PetscCalloc1(s, &work->P));
    for (PetscInt i = 0; i < s; i++) {
      PetscReal  norm;
      IDRSMemory place;
      PetscBool  same = PETSC_TRUE;

      PetscCall(IDRSVecWhere(like, &place));
      if (place != IDRS_MEMORY_HOST) PetscCall(PetscObjectTypeCompare((PetscObject)P[i], ((PetscObject)like)->type_name, &same));
      PetscCheck(same, work->comm, PETSC_ERR_ARG_WRONG,
                 "KSPIDRSSetShadowVecs(): shadow vector %" PetscInt_FMT " is of type %s, the system is on the GPU", i,
                 ((PetscObject)P[i])->type_name);
      PetscCall(PetscObjectReference((PetscObject)P[i]));
      work->P[i] = P[i];
      PetscCall(VecNorm(P[i], NORM_2, &norm));
      least = PetscMin(least, norm);
    }
    work->scalars.pivotscale = 1 / (PETSC_MACHINE_EPSILON * least);
  }
  IDRSScalarsResetColumns(&work->scalars, 0);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSWorkspaceCreate - Allocates the bases of IDR(s) for vectors like the one given and chooses the back end of the passes

   Collective

   Input Parameters:
+  like           - a vector with the layout and type of the solution
.  s              - number of columns
.  P              - s explicit shadow vectors, referenced here, or NULL for the hashed shadow space of seed 0
.  implementation - the requested back end
-  count          - number of works

   Output Parameter:
.  works - the bases with their back end; free with IDRSWorkspaceDestroy()
*/
PetscErrorCode IDRSWorkspaceCreate(Vec like, PetscInt s, Vec P[], KSPIDRSImplementation implementation, PetscInt count,
                                   IDRSWorkspace works[])
{
  const IDRSPassOps *passes;
  const char        *slower;

  PetscFunctionBegin;
  PetscCall(IDRSWorkspaceChoose_Private(like, s, (PetscBool)(P != NULL), implementation, &passes, &slower));
  if (slower) PetscCall(PetscInfo(like, "Back end %s is used; faster back ends do not run: %s\n", passes->name, slower));
  for (PetscInt i = 0; i < count; i++) {
    PetscCall(PetscNew(&works[i]));
    works[i]->comm   = MPI_COMM_NULL;
    works[i]->passes = passes;
    works[i]->slower = slower;
  }
  for (PetscInt i = 0; i < count; i++) {
    PetscCall(IDRSWorkspaceInitialize_Private(works[i], like, s, P));
    PetscCall((*passes->create)(works[i], like));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Destroys works; after an error some, or parts of them, may be NULL */
PetscErrorCode IDRSWorkspaceDestroy(PetscInt count, IDRSWorkspace works[])
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) {
    IDRSWorkspace work = works[i];

    works[i] = NULL;
    if (!work) continue;
    PetscCall((*work->passes->destroy)(work));
    PetscCall(IDRSColumnsDestroy(work->s, &work->P));
    PetscCall(PetscFree(work->storage));
    if (work->comm != MPI_COMM_NULL) PetscCall(PetscCommDestroy(&work->comm));
    PetscCall(PetscFree(work));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the vectors of the solver for the passes, see idrsops.h */
PetscErrorCode IDRSWorkspaceSetVecs(IDRSWorkspace work, Vec r, Vec z, Vec v, Vec t)
{
  PetscFunctionBegin;
  work->r = r;
  work->z = z;
  work->v = v;
  work->t = t;
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSWorkspaceGetInfo(IDRSWorkspace work, IDRSWorkspaceInfo *info)
{
  PetscFunctionBegin;
  info->passes      = work->passes->name;
  info->slower      = work->slower;
  info->throughhost = work->throughhost;
  info->device      = (PetscBool)(work->passes->device != NULL);
  info->queue       = work->queue ? work->queue->name : "host";
  info->depth       = work->queue ? work->queue->depth : 0;
  info->halo        = work->halo;
  info->persistent  = work->persistent;
  info->n           = work->n;
  info->bases       = (work->P && work->hashed ? 3 : 2) * work->s;
  info->size        = work->size;
  info->reductions  = work->reductions;
  PetscCall(PetscArraycpy(info->traffic, work->traffic, IDRS_PASSES));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the seed of the hashed shadow space; explicit shadow vectors are kept */
PetscErrorCode IDRSWorkspaceSetSeed(IDRSWorkspace work, uint64_t seed)
{
  PetscFunctionBegin;
  if (work->hashed && seed != work->seed) {
    work->seed = seed;
    if (work->P) PetscCall(IDRSShadowFill(work, work->P));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSWorkspaceConnect - Chooses the queue: on the device if the passes run there and, with several processes, if reductions are
   between devices

   Collective

   Input Parameters:
+  group         - the works whose passes are made together, with their product
.  communication - the requested communication between devices
-  scatters      - PETSC_TRUE if the scatters of the operator are between devices. If the hosts must wait for scatters, the
                   automatic choice has no reductions between devices
*/
PetscErrorCode IDRSWorkspaceConnect(const IDRSGroup *group, KSPIDRSCommunication communication, PetscBool scatters)
{
  const IDRSWorkspace first = group->work[0];
  const PetscBool     asked = (PetscBool)(first->size > 1 && communication >= KSP_IDRS_COMMUNICATION_NCCL),
                  automatic = (PetscBool)(first->size > 1 && !asked);
  const IDRSQueueOps *queue = NULL;
  const char         *why   = NULL; /* why the host has the queue */
  PetscBool           halo  = PETSC_FALSE;
  PetscInt            candidates[2], count = 0;

  PetscFunctionBegin;
  if (first->size == 1) {
    if (first->passes->device) candidates[count++] = IDRS_QUEUE_ONE;
  } else if (communication == KSP_IDRS_COMMUNICATION_MPI)
    why = "reductions go through the hosts, because of -ksp_idrs_communication mpi";
  else if (!first->passes->device) why = "the vectors are not on GPUs";
  else if (asked) candidates[count++] = communication == KSP_IDRS_COMMUNICATION_PEER ? IDRS_QUEUE_PEER : IDRS_QUEUE_NCCL;
  else { /* mapped memory if it can be used for all communication; NCCL if the scatters use it */
    candidates[count++] = IDRS_QUEUE_PEER;
    if (scatters) candidates[count++] = IDRS_QUEUE_NCCL;
  }
  for (PetscInt i = 0; i < count && !queue; i++) {
    const IDRSQueueOps *candidate = first->passes->queue[candidates[i]];

    PetscCall((*candidate->connect)(group, automatic, &halo, &why));
    if (!why) queue = candidate;
  }
  halo = (PetscBool)(halo && queue);
  for (PetscInt i = 0; i < group->count; i++) {
    group->work[i]->queue       = queue;
    group->work[i]->throughhost = why;
    group->work[i]->halo        = halo;
  }
  if (first->product) first->product->halo = (PetscBool)(halo && group->count > 1);
  PetscCheck(!asked || !why, first->comm, PETSC_ERR_SUP, "-ksp_idrs_communication %s does not work here: %s; use auto or mpi",
             KSPIDRSCommunications[communication], why);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Begins a solve: no traffic has been counted, and no inner product is deferred. With a preconditioner p is v, else r. The passes
   apply a diagonal preconditioner
*/
PetscErrorCode IDRSWorkspaceStart(IDRSWorkspace work, PetscBool preconditioned, Vec diagonal)
{
  PetscFunctionBegin;
  /* an error in the last solve may have left the scalars on the device */
  PetscCall(IDRSQueueEnd(IDRSGroupOfOne(work)));
  work->preconditioned = preconditioned;
  work->diagonal       = diagonal;
  work->deferred       = PETSC_FALSE;
  PetscCall(PetscArrayzero(work->traffic, IDRS_PASSES));
  PetscFunctionReturn(PETSC_SUCCESS);
}
