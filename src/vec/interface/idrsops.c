/*
   The operations of IDR(s) as the solver calls them: choice of the back end, checks, logging, and the one reduction
   over processes. What an operation reads and writes is stated here once, for the log and for the tests.
*/
#include <petsc/private/vecimpl.h>
#include <petscidrs/private/idrsops.h>
#include <petscidrs/private/idrscompat.h>

const char *const KSPIDRSCommunications[]  = {"auto", "mpi", "nccl", "KSPIDRSCommunication", "KSP_IDRS_COMMUNICATION_", NULL};
const char *const KSPIDRSImplementations[] = {"auto", "vec", "host", "cuda", "KSPIDRSImplementation", "KSP_IDRS_", NULL};

const char *const    IDRSOperations[] = {"combine", "project", "update", "advance"};
static PetscLogEvent IDRS_Events[IDRS_OPERATIONS], IDRS_Reduce;

PetscErrorCode IDRSRegisterEvents(void)
{
  PetscFunctionBegin;
  PetscCall(PetscLogEventRegister("IDRSCombine", KSP_CLASSID, &IDRS_Events[IDRS_COMBINE]));
  PetscCall(PetscLogEventRegister("IDRSProject", KSP_CLASSID, &IDRS_Events[IDRS_PROJECT]));
  PetscCall(PetscLogEventRegister("IDRSUpdate", KSP_CLASSID, &IDRS_Events[IDRS_UPDATE]));
  PetscCall(PetscLogEventRegister("IDRSAdvance", KSP_CLASSID, &IDRS_Events[IDRS_ADVANCE]));
  PetscCall(PetscLogEventRegister("IDRSReduce", KSP_CLASSID, &IDRS_Reduce));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Are the arrays of vectors like this one in the memory of a device? Duplicates of a vector that is bound to the host do not all know that they are */
PetscErrorCode IDRSOnDevice(Vec like, PetscBool *device)
{
  const PetscScalar *array;
  PetscMemType       type;

  PetscFunctionBegin;
  PetscCall(VecGetArrayReadAndMemType(like, &array, &type));
  PetscCall(VecRestoreArrayReadAndMemType(like, &array));
  *device = (PetscBool)PetscMemTypeDevice(type);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Have vectors like this one places for ghosts? The columns of a panel have none */
PetscErrorCode IDRSGhosted(Vec like, PetscBool *ghosted)
{
  PetscBool mpi;
  Vec       local = NULL;

  PetscFunctionBegin;
  PetscCall(PetscObjectBaseTypeCompare((PetscObject)like, VECMPI, &mpi));
  if (mpi) {
    PetscCall(VecGhostGetLocalForm(like, &local));
    *ghosted = (PetscBool)(local != NULL);
    PetscCall(VecGhostRestoreLocalForm(like, &local));
  } else *ghosted = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The back end for vectors like this one: the one asked for, or an error that says why it cannot run; with auto, the
   first of the list that can, and in *slower why those before it cannot. Fused back ends may differ between processes, some of
   whose vectors may be bound to the host; one that is made of Vec calls runs on all or none.
*/
static PetscErrorCode IDRSWorkChoose_Private(Vec like, PetscInt s, KSPIDRSImplementation implementation, const IDRSOps **ops, const char *slower[])
{
  const IDRSOps *candidates[] = {
#if defined(PETSCIDRS_HAVE_CUDA)
    &IDRSOps_CUDA,
#endif
    &IDRSOps_Host, &IDRSOps_Vec};
  const MPI_Comm  comm      = PetscObjectComm((PetscObject)like);
  const PetscBool automatic = (PetscBool)(implementation == KSP_IDRS_AUTO);
  const char     *why       = NULL;
  PetscMPIInt     trouble[2]; /* nothing can run; nothing but Vec calls */
  PetscBool       built = PETSC_FALSE;

  PetscFunctionBegin;
  *ops    = NULL;
  *slower = NULL;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(candidates) && !*ops; i++) {
    PetscBool named;

    PetscCall(PetscStrcmp(candidates[i]->name, KSPIDRSImplementations[implementation], &named));
    if (!automatic && !named) continue;
    built = PETSC_TRUE;
    PetscCall((*candidates[i]->runs)(like, s, &why));
    if (why) *slower = why;
    else *ops = candidates[i];
  }
  PetscCheck(built, comm, PETSC_ERR_SUP, "-ksp_idrs_implementation %s: this library was built without it; it needs PETSc 3.20 or newer, with CUDA", KSPIDRSImplementations[implementation]);
  trouble[0] = *ops ? 0 : 1;
  trouble[1] = *ops && (*ops)->composed ? 1 : 0;
  IDRSCallAllreduce(MPI_IN_PLACE, trouble, 2, MPI_INT, MPI_MAX, comm);
  PetscCheck(!trouble[0], comm, PETSC_ERR_SUP, "-ksp_idrs_implementation %s cannot run here: %s (vectors of type %s)", KSPIDRSImplementations[implementation], why ? why : "not on another process", ((PetscObject)like)->type_name);
  if (trouble[1] && !(*ops)->composed) {
    *ops    = &IDRSOps_Vec;
    *slower = "another process can run nothing else";
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Reductions from device to device, where the user has asked for them and all processes can make them. To ask for scatters of that
   kind is to ask for both: with either alone something is left that the hosts wait for.
*/
static PetscErrorCode IDRSWorkConnect_Private(IDRSWork work, KSPIDRSCommunication communication)
{
  PetscMPIInt able = work->backend->connect ? 1 : 0;
  char        type[32];
  PetscBool   scatters;

  PetscFunctionBegin;
  if (work->size == 1) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscOptionsGetString(NULL, NULL, "-sf_type", type, sizeof(type), &scatters));
  if (scatters) PetscCall(PetscStrcmp(type, PETSCSFNCCL, &scatters));
  if (communication == KSP_IDRS_COMMUNICATION_MPI) work->throughhost = "reductions pass through the hosts, with -ksp_idrs_communication mpi";
  else if (communication == KSP_IDRS_COMMUNICATION_AUTO && !scatters) work->throughhost = "reductions and scatters pass through the hosts, without -sf_type " PETSCSFNCCL;
  else {
    IDRSCallAllreduce(MPI_IN_PLACE, &able, 1, MPI_INT, MPI_MIN, work->comm);
    if (able) PetscCall((*work->backend->connect)(work, &work->throughhost));
    else work->throughhost = "not all processes have their vectors on a GPU";
  }
  PetscCheck(communication != KSP_IDRS_COMMUNICATION_NCCL || !work->throughhost, work->comm, PETSC_ERR_SUP, "-ksp_idrs_communication nccl cannot be used here: %s", work->throughhost);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Called by all back ends that may run beside one on a device, between the panels and their columns: is there memory for the panels on the
   devices of all processes? If not, all end with the same error, and may go on with fewer columns. Here it lacks where lacking[0] is not zero: bytes of a panel,
   and how many are free.
*/
PetscErrorCode IDRSWorkCheckMemory(IDRSWork work, const PetscLogDouble lacking[])
{
  PetscLogDouble memory[2] = {lacking[0], lacking[0] > 0 ? -lacking[1] : -PETSC_MAX_REAL};

  PetscFunctionBegin;
  if (!PetscDefined(HAVE_DEVICE)) PetscFunctionReturn(PETSC_SUCCESS);
  IDRSCallAllreduce(MPI_IN_PLACE, memory, 2, MPI_DOUBLE, MPI_MAX, work->comm);
  PetscCheck(!(memory[0] > 0), work->comm, PETSC_ERR_MEM, "A panel of KSPIDRS needs %.0f bytes on the GPU, where %.0f are free: take a smaller -ksp_idrs_s", memory[0], -memory[1]);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Vectors that were created, or referenced, one by one; some may be missing after an error */
PetscErrorCode IDRSColumnsDestroy(PetscInt count, Vec *columns[])
{
  PetscFunctionBegin;
  if (*columns) {
    for (PetscInt i = 0; i < count; i++) PetscCall(VecDestroy(&(*columns)[i]));
  }
  PetscCall(PetscFree(*columns));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   What VecDuplicate() would have given a column, which was made around its array: the layout with its local to global mapping, what is composed with
   the vector (operators may ask for the DM), and how values are set in it
*/
PetscErrorCode IDRSColumnInherit(Vec like, Vec column)
{
  PetscFunctionBegin;
  PetscCall(PetscLayoutReference(like->map, &column->map));
  PetscCall(PetscObjectListDuplicate(((PetscObject)like)->olist, &((PetscObject)column)->olist));
  PetscCall(PetscFunctionListDuplicate(((PetscObject)like)->qlist, &((PetscObject)column)->qlist));
  column->stash.donotstash   = like->stash.donotstash;
  column->stash.ignorenegidx = like->stash.ignorenegidx;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSWorkCreate - Allocates the panels of IDR(s) for vectors like the one given and chooses the back end

   Collective

   Input Parameters:
+  like           - a vector with the layout and type of the solution
.  s              - number of columns
.  P              - s explicit shadow vectors, referenced here, or NULL for the hashed space of seed 0
.  implementation - the back end asked for
-  communication  - how reductions are to travel between devices

   Output Parameter:
.  space - the panels with their back end; free with IDRSWorkDestroy()
*/
PetscErrorCode IDRSWorkCreate(Vec like, PetscInt s, Vec P[], KSPIDRSImplementation implementation, KSPIDRSCommunication communication, IDRSWork *newwork)
{
  IDRSWork work;

  PetscFunctionBegin;
  PetscCall(PetscNew(&work));
  *newwork   = work;
  work->comm = MPI_COMM_NULL;
  PetscCall(IDRSWorkChoose_Private(like, s, implementation, &work->backend, &work->slower));
  if (work->slower) PetscCall(PetscInfo(like, "Back end %s, and no faster one: %s\n", work->backend->name, work->slower));
  PetscCall(PetscCommDuplicate(PetscObjectComm((PetscObject)like), &work->comm, NULL));
  PetscCallMPI(MPI_Comm_size(work->comm, &work->size));
  PetscCall(VecGetLocalSize(like, &work->n));
  PetscCall(VecGetOwnershipRange(like, &work->rstart, NULL));
  work->s       = s;
  work->hashed  = P ? PETSC_FALSE : PETSC_TRUE;
  work->timeout = PETSC_MAX_REAL;

  PetscCall(PetscCalloc1(IDRS_STORAGE(s) + IDRS_RIDERS, &work->storage)); /* sums come last in it, and riders after them */
  IDRSScalarsSetPointers(&work->scalars, s, work->storage);
  work->scalars.shadownorm = 1.0;
  if (P) {
    PetscCall(PetscCalloc1(s, &work->P));
    for (PetscInt i = 0; i < s; i++) {
      PetscReal norm;

      PetscCall(PetscObjectReference((PetscObject)P[i]));
      work->P[i] = P[i];
      PetscCall(VecNorm(P[i], NORM_2, &norm));
      work->scalars.shadownorm = i ? PetscMin(work->scalars.shadownorm, norm) : norm;
    }
  }
  PetscCall((*work->backend->create)(work, like));
  PetscCall(IDRSWorkConnect_Private(work, communication));
  IDRSScalarsReset(&work->scalars);
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSWorkDestroy(IDRSWork *oldwork)
{
  IDRSWork work = *oldwork;

  PetscFunctionBegin;
  if (!work) PetscFunctionReturn(PETSC_SUCCESS);
  *oldwork = NULL;
  if (work->backend) PetscCall((*work->backend->destroy)(work));
  PetscCall(IDRSColumnsDestroy(work->s, &work->P));
  PetscCall(PetscFree(work->storage));
  if (work->comm != MPI_COMM_NULL) PetscCall(PetscCommDestroy(&work->comm));
  PetscCall(PetscFree(work));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Takes the hashed shadow space of another seed; explicit shadow vectors stay */
PetscErrorCode IDRSWorkSetSeed(IDRSWork work, uint64_t seed)
{
  PetscFunctionBegin;
  if (work->hashed && seed != work->seed) {
    work->seed = seed;
    if (work->P) PetscCall(IDRSShadowFill(work, work->P));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Vectors that have no array to write into, such as those of SLEPc that are put together from others: random numbers of the same seed */
static PetscErrorCode IDRSShadowFillRandom_Private(IDRSWork work, Vec P[])
{
  PetscMPIInt rank;
  PetscRandom random;

  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_rank(work->comm, &rank));
  PetscCall(PetscRandomCreate(work->comm, &random));
  PetscCall(PetscRandomSetType(random, PETSCRANDER48));
  PetscCall(PetscRandomSetInterval(random, -1.0, 1.0));
  PetscCall(PetscRandomSetSeed(random, (unsigned long)IDRSShadowKey(work->seed * (uint64_t)work->size + (uint64_t)rank))); /* which counts in its low bits only */
  PetscCall(PetscRandomSeed(random));
  for (PetscInt j = 0; j < work->s; j++) PetscCall(VecSetRandom(P[j], random));
  PetscCall(PetscRandomDestroy(&random));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Writes the hashed shadow space into vectors, for back ends that need it stored */
PetscErrorCode IDRSShadowFill(IDRSWork work, Vec P[])
{
  const uint64_t key = IDRSShadowKey(work->seed);

  PetscFunctionBegin;
  if (!P[0]->petscnative && !P[0]->ops->getarray) {
    PetscCall(IDRSShadowFillRandom_Private(work, P));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  for (PetscInt j = 0; j < work->s; j++) {
    const uint32_t multiplier = IDRSShadowMultiplier((uint32_t)(j / 2));
    PetscScalar   *p;

    PetscCall(VecGetArrayWrite(P[j], &p));
    for (PetscInt i = 0; i < work->n; i++) {
      const IDRSShadowRow row   = IDRSShadowRowState(key, (uint64_t)(work->rstart + i));
      const uint32_t      field = j % 2 ? IDRSShadowFieldOdd(row, multiplier) : IDRSShadowFieldEven(row, multiplier);

      p[i] = (PetscReal)IDRSShadowInteger(field) * (PetscReal)IDRS_SHADOW_UNIT;
    }
    PetscCall(VecRestoreArrayWrite(P[j], &p));
  }
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

static PetscErrorCode IDRSLogBegin_Private(IDRSWork work, IDRSOperation operation)
{
  PetscFunctionBegin;
  PetscCall(PetscLogEventBegin(IDRS_Events[operation], 0, 0, 0, 0));
  work->traffic[operation].seconds -= IDRSGpuSeconds();
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Counts what a fused pass moves and does: vectors read and written, flops a row, the way PETSc counts them (a complex
   operation is one). Back ends made of Vec calls move more, and the calls log their own flops.
*/
static PetscErrorCode IDRSLogEnd_Private(IDRSWork work, IDRSOperation operation, PetscInt vectors, PetscInt flops)
{
  IDRSTraffic *traffic = &work->traffic[operation];

  PetscFunctionBegin;
  traffic->seconds += IDRSGpuSeconds();
  if (!work->backend->composed) {
    traffic->calls++;
    traffic->vectors += (PetscLogDouble)vectors;
    if (work->backend->device) PetscCall(PetscLogGpuFlops((PetscLogDouble)flops * (PetscLogDouble)work->n));
    else PetscCall(PetscLogFlops((PetscLogDouble)flops * (PetscLogDouble)work->n));
  }
  PetscCall(PetscLogEventEnd(IDRS_Events[operation], 0, 0, 0, 0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* What a combine with so many columns reads and writes beyond r or v, or beyond the operands of the update or advance before it */
static PetscInt IDRSCombineVectors_Private(IDRSCombinePart part, PetscInt columns)
{
  switch (part) {
  case IDRS_COMBINE_V:
  case IDRS_COMBINE_U:
    return columns + 1;
  case IDRS_COMBINE_VU:
    return 2 * columns + 1;
  default:
    return 0;
  }
}

static PetscInt IDRSCombineFlops_Private(IDRSCombinePart part, PetscInt columns)
{
  switch (part) {
  case IDRS_COMBINE_V:
    return 2 * columns;
  case IDRS_COMBINE_U:
    return 2 * columns + 1;
  case IDRS_COMBINE_VU:
    return 4 * columns + 1;
  default:
    return 0;
  }
}

static PetscErrorCode IDRSCheck_Private(IDRSWork work, PetscInt k)
{
  PetscFunctionBegin;
  PetscCheck(0 <= k && k < work->s, work->comm, PETSC_ERR_ARG_OUTOFRANGE, "Step %" PetscInt_FMT " of %" PetscInt_FMT, k, work->s);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* combine of step k, on its own: v and U_k as idrsops.h says; v holds B^{-1}v for IDRS_COMBINE_U, and is not used by IDRS_COMBINE_VU */
PetscErrorCode IDRSCombine(IDRSWork work, IDRSCombinePart part, PetscInt k, Vec r, Vec v)
{
  const PetscInt columns = work->s - k;

  PetscFunctionBegin;
  PetscCheck(part != IDRS_COMBINE_NONE, work->comm, PETSC_ERR_ARG_OUTOFRANGE, "Combine of nothing");
  PetscCall(IDRSCheck_Private(work, k));
  PetscCall(IDRSLogBegin_Private(work, IDRS_COMBINE));
  PetscCall((*work->backend->combine)(work, part, k, r, v));
  PetscCall(IDRSLogEnd_Private(work, IDRS_COMBINE, 1 + IDRSCombineVectors_Private(part, columns), IDRSCombineFlops_Private(part, columns)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Inner products of x and y, which nothing needs before the next projection or norm of r */
PetscErrorCode IDRSRide(IDRSWork work, Vec x, Vec y)
{
  Vec          both[2] = {x, y};
  PetscScalar *riders  = work->riders;

  PetscFunctionBegin;
  if (work->backend->composed || work->size == 1) {
    PetscCall(VecMDot(y, 2, both, riders + IDRS_RIDER_XY));
    PetscCall(VecDot(x, x, riders + IDRS_RIDER_XX));
    if (work->size > 1) work->reductions += 2;
  } else {
    PetscUseTypeMethod(x, dot_local, x, riders + IDRS_RIDER_XX);
    PetscUseTypeMethod(y, dot_local, x, riders + IDRS_RIDER_XY);
    PetscUseTypeMethod(y, dot_local, y, riders + IDRS_RIDER_YY);
    work->riding = PETSC_TRUE;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sums over all processes, in place: the one reduction per product. The array has room for the riders behind them */
static PetscErrorCode IDRSReduce_Private(IDRSWork work, PetscInt count, PetscScalar sums[])
{
  PetscMPIInt length;

  PetscFunctionBegin;
  PetscCall(PetscMPIIntCast(count + (work->riding ? IDRS_RIDERS : 0), &length));
  if (work->riding) PetscCall(PetscArraycpy(sums + count, work->riders, IDRS_RIDERS));
  PetscCall(PetscLogEventBegin(IDRS_Reduce, 0, 0, 0, 0));
  IDRSCallAllreduce(MPI_IN_PLACE, sums, length, MPIU_SCALAR, MPIU_SUM, work->comm);
  PetscCall(PetscLogEventEnd(IDRS_Reduce, 0, 0, 0, 0));
  if (work->riding) PetscCall(PetscArraycpy(work->riders, sums + count, IDRS_RIDERS));
  work->riding = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   project: work->scalars.sums as laid out in idrsscalars.h, over all processes; y is r or NULL. With a next, the device goes on by
   itself and the result is to be collected
*/
PetscErrorCode IDRSProject(IDRSWork work, Vec x, Vec y, Vec r, const IDRSNext *next)
{
  const PetscInt s    = work->s;
  PetscScalar   *sums = work->scalars.sums;

  PetscFunctionBegin;
  PetscCheck(!next == !work->ahead, work->comm, PETSC_ERR_ORDER, "A projection goes on by itself when the numbers are on the device, and only then");
  PetscCall(IDRSLogBegin_Private(work, IDRS_PROJECT));
  sums[IDRS_SUM_RR(s)] = work->rr;
  PetscCall((*work->backend->project)(work, x, y, r, next));
  PetscCall(IDRSLogEnd_Private(work, IDRS_PROJECT, y ? 2 : 1, y ? 4 * s + 6 : 2 * s + 2));
  if (next) work->outstanding++;
  else if (!work->backend->composed) PetscCall(IDRSReduce_Private(work, IDRS_SUMS(s, y), sums));
  work->reductions++;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* update of step k, and combine of step k+1; start: of the first s steps, where r moves before G_k is made orthogonal */
PetscErrorCode IDRSUpdate(IDRSWork work, PetscInt k, PetscBool start, Vec r, IDRSCombinePart part, Vec v)
{
  const PetscInt columns = part == IDRS_COMBINE_NONE || start ? 0 : work->s - (k + 1);

  PetscFunctionBegin;
  PetscCheck(part != IDRS_COMBINE_U, work->comm, PETSC_ERR_ARG_OUTOFRANGE, "A preconditioner stands between update and the u of the next step");
  if (part != IDRS_COMBINE_NONE) PetscCall(IDRSCheck_Private(work, k + 1));
  PetscCall(IDRSLogBegin_Private(work, IDRS_UPDATE));
  PetscCall((*work->backend->update)(work, k, start, r, part, v));
  PetscCall(IDRSLogEnd_Private(work, IDRS_UPDATE, (k ? 2 * (k + 1) + 4 : 3) + IDRSCombineVectors_Private(part, columns), 4 * k + 4 + (start ? (part == IDRS_COMBINE_NONE ? 0 : 2 * (k + 1)) : IDRSCombineFlops_Private(part, columns))));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* advance, and combine of step 0; the columns of U that the combine needs have been read for z */
PetscErrorCode IDRSAdvance(IDRSWork work, Vec p, Vec t, Vec z, Vec r, IDRSCombinePart part, Vec v)
{
  const PetscInt s = work->s, columns = part == IDRS_COMBINE_NONE ? 0 : s;

  PetscFunctionBegin;
  PetscCheck(part != IDRS_COMBINE_U, work->comm, PETSC_ERR_ARG_OUTOFRANGE, "A preconditioner stands between advance and the u of the next step");
  PetscCall(IDRSLogBegin_Private(work, IDRS_ADVANCE));
  PetscCall((*work->backend->advance)(work, p, t, z, r, part, v));
  PetscCall(IDRSLogEnd_Private(work, IDRS_ADVANCE, s + (p ? 6 : 5) + IDRSCombineVectors_Private(part, columns) - (part == IDRS_COMBINE_VU ? columns : 0), 2 * s + 6 + IDRSCombineFlops_Private(part, columns)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* ||r|| by itself, after an update or advance: where it cannot wait for the next projection */
PetscErrorCode IDRSNorm(IDRSWork work, Vec r, PetscReal *norm)
{
  PetscFunctionBegin;
  if (work->backend->composed || (work->backend->device && work->size == 1)) PetscCall(VecNorm(r, NORM_2, norm));
  else {
    PetscScalar rr[1 + IDRS_RIDERS] = {work->rr};

    if (work->backend->device) {
      PetscReal local;

      PetscUseTypeMethod(r, norm_local, NORM_2, &local);
      rr[0] = PetscSqr(local);
    }
    if (work->size > 1) PetscCall(IDRSReduce_Private(work, 1, rr));
    *norm = PetscSqrtReal(PetscRealPart(rr[0]));
  }
  if (work->size > 1) work->reductions++;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Products and preconditioners come between the operations, and may run on another stream of the device than they: called
   before and after each of them
*/
PetscErrorCode IDRSOrder(IDRSWork work)
{
  PetscFunctionBegin;
  if (work->backend->order) PetscCall((*work->backend->order)(work));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The algebra goes on on the device, with the present storage, as soon as the next projection */
PetscErrorCode IDRSSend(IDRSWork work)
{
  PetscFunctionBegin;
  PetscCheck(work->backend->send, work->comm, PETSC_ERR_SUP, "Back end %s leaves the algebra to the host", work->backend->name);
  PetscCall((*work->backend->send)(work));
  work->ahead       = PETSC_TRUE;
  work->outstanding = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The result of the first projection that is outstanding: ||r|| where it was pending, and whether the device has stopped there */
PetscErrorCode IDRSCollect(IDRSWork work, PetscReal *rnorm, PetscBool *stopped)
{
  PetscFunctionBegin;
  PetscCheck(work->ahead && work->outstanding > 0, work->comm, PETSC_ERR_ORDER, "No projection is outstanding");
  PetscCall((*work->backend->collect)(work, rnorm, stopped));
  work->outstanding--;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The algebra goes on on the host; results that are still outstanding are dropped */
PetscErrorCode IDRSFetch(IDRSWork work)
{
  PetscFunctionBegin;
  if (!work->ahead) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall((*work->backend->fetch)(work));
  work->ahead       = PETSC_FALSE;
  work->outstanding = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}
