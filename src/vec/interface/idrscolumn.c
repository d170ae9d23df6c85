/*
   Columns of the bases as vectors, their memory, sets of vectors with their inner products, and the shadow space in vectors: the
   only file that sets private fields of a Vec
*/
#include <petsc/private/vecimpl.h>
#include <petscidrs/private/idrsops.h>
#include <petscidrs/private/idrscompat.h>

const IDRSDeviceOps *IDRSGetDevice(IDRSMemory place)
{
#if defined(PETSCIDRS_HAVE_CUDA)
  if (place == IDRS_MEMORY_CUDA) return &IDRSDevice_CUDA;
#endif
  return NULL;
}

/*
   IDRSVecCopy - Copies a vector to another one, which may have another type or be in other memory

   Between host and device the array itself is copied: VecCopy() would first copy it to the array that the other vector has on the
   host. PETSc has no VecCopy() between a VECNEST and another type
*/
PetscErrorCode IDRSVecCopy(Vec from, Vec to)
{
  const IDRSDeviceOps *device = IDRSGetDevice(IDRS_MEMORY_CUDA);
  IDRSMemory           memory[2];
  PetscBool            nest[2];
  PetscInt             n;
  const PetscScalar   *read;
  PetscScalar         *written;

  PetscFunctionBegin;
  PetscCall(IDRSVecWhere(from, &memory[0]));
  PetscCall(IDRSVecWhere(to, &memory[1]));
  PetscCall(PetscObjectTypeCompare((PetscObject)from, VECNEST, &nest[0]));
  PetscCall(PetscObjectTypeCompare((PetscObject)to, VECNEST, &nest[1]));
  if (memory[0] == memory[1] && nest[0] == nest[1]) PetscCall(VecCopy(from, to));
  else if (memory[0] == IDRS_MEMORY_CUDA && memory[1] == IDRS_MEMORY_HOST) {
    PetscCall(VecGetArrayWrite(to, &written));
    PetscCall((*device->receive)(from, written));
    PetscCall(VecRestoreArrayWrite(to, &written));
  } else {
    PetscCall(VecGetArrayRead(from, &read));
    if (memory[1] == IDRS_MEMORY_CUDA) PetscCall((*device->send)(read, to));
    else {
      PetscCall(VecGetLocalSize(from, &n));
      PetscCall(VecGetArrayWrite(to, &written));
      PetscCall(PetscArraycpy(written, read, n));
      PetscCall(VecRestoreArrayWrite(to, &written));
    }
    PetscCall(VecRestoreArrayRead(from, &read));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns PETSC_TRUE if vectors like this one have ghost points. The columns of a basis have none */
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
   Sets the properties of a column that VecDuplicate() would set: the layout with its local to global mapping, composed objects
   (operators may ask for the DM), and how values are inserted
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
   Marks a column as changed on the device, after it was written through the basis. VecGetArrayWriteAndMemType() and its restore do
   the same, but with many right-hand sides these calls would take longer than the device
*/
PetscErrorCode IDRSColumnWritten(Vec column)
{
  PetscFunctionBegin;
  column->offloadmask = PETSC_OFFLOAD_GPU;
  PetscCall(PetscObjectStateIncrease((PetscObject)column));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSVecOnArray - Creates a vector with the properties of `like` on the array of `other`, which may be destroyed before its array.
   The vector is NULL, on all processes or none, if the types do not permit this
*/
PetscErrorCode IDRSVecOnArray(Vec like, Vec other, Vec *v)
{
  const MPI_Comm       comm = PetscObjectComm((PetscObject)like);
  const PetscScalar   *array;
  PetscMemType         type;
  const IDRSDeviceOps *device;
  PetscBool            seq, mpi;
  PetscInt             bs, n, N;

  PetscFunctionBegin;
  *v = NULL;
  PetscCall(PetscObjectTypeCompare((PetscObject)other, ((PetscObject)like)->type_name, &seq));
  if (!seq) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecGetBlockSize(like, &bs));
  PetscCall(VecGetLocalSize(like, &n));
  PetscCall(VecGetSize(like, &N));
  PetscCall(VecGetArrayReadAndMemType(other, &array, &type));
  device = IDRSGetDevice(PetscMemTypeDevice(type) ? IDRS_MEMORY_CUDA : IDRS_MEMORY_HOST);
  PetscCall(PetscObjectTypeCompare((PetscObject)like, VECSEQ, &seq));
  PetscCall(PetscObjectTypeCompare((PetscObject)like, VECMPI, &mpi));
  if (seq) PetscCall(VecCreateSeqWithArray(comm, bs, n, array, v));
  else if (mpi) PetscCall(VecCreateMPIWithArray(comm, bs, n, N, array, v));
  else if (device) PetscCall((*device->onarray)(like, array, v));
  PetscCall(VecRestoreArrayReadAndMemType(other, &array));
  if (seq || mpi) PetscCall(IDRSColumnInherit(like, *v));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Reports the same error on all processes if one of their devices has not enough memory for the bases, so that all can continue
   with fewer columns. All back ends that can run together with a device back end call it between the bases and their columns.
   lacking: bytes of a basis, or 0 if there is enough memory, and free bytes.
*/
PetscErrorCode IDRSWorkspaceCheckMemory(IDRSWorkspace work, const PetscLogDouble lacking[])
{
  PetscLogDouble memory[2] = {lacking[0], lacking[0] > 0 ? -lacking[1] : -PETSC_MAX_REAL};

  PetscFunctionBegin;
  if (!PetscDefined(HAVE_DEVICE)) PetscFunctionReturn(PETSC_SUCCESS);
  IDRSCallAllreduce(MPI_IN_PLACE, memory, 2, MPI_DOUBLE, MPI_MAX, work->comm);
  PetscCheck(!(memory[0] > 0), work->comm, PETSC_ERR_MEM,
             "A basis of KSPIDRS needs %.0f bytes of GPU memory, but only %.0f are free; reduce -ksp_idrs_s", memory[0],
             -memory[1]);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Returns the vectors that `width` concurrent right-hand sides need in addition to the first one, and with X by rows, whose width
   is a power of 2
*/
static PetscLogDouble IDRSRoomFor(PetscInt width, PetscInt vectors, PetscBool byrows)
{
  PetscInt columns = width > 1 && byrows ? 1 : 0;

  while (columns && columns < width) columns *= 2;
  return (PetscLogDouble)(width - 1) * (PetscLogDouble)vectors + (PetscLogDouble)columns;
}

/*
   IDRSCheckRoom - Reports the same error on all processes if one of their devices has not enough memory for `width` concurrent
   right-hand sides. Each of them needs `vectors` vectors; those of the first one are allocated. byrows: products copy X to
   row-major order. On the host nothing is checked, because only an allocation can fail
*/
PetscErrorCode IDRSCheckRoom(Vec like, PetscInt vectors, PetscInt width, PetscBool byrows)
{
  const MPI_Comm       comm      = PetscObjectComm((PetscObject)like);
  PetscLogDouble       lacking[] = {0, 0, 0}; /* if memory is short: bytes needed, minus bytes free, minus the width that fits */
  const IDRSDeviceOps *device;
  IDRSMemory           place;
  PetscInt             n;

  PetscFunctionBegin;
  if (!PetscDefined(HAVE_DEVICE)) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSVecWhere(like, &place));
  device = IDRSGetDevice(place);
  PetscCall(VecGetLocalSize(like, &n));
  lacking[1] = lacking[2] = -PETSC_MAX_REAL;
  if (device) {
    const PetscLogDouble vector = (PetscLogDouble)n * (PetscLogDouble)sizeof(PetscScalar),
                         needed = IDRSRoomFor(width, vectors, byrows) * vector;
    PetscLogDouble available;

    PetscCall((*device->getfree)(&available));
    if (needed > available) {
      PetscInt fits = width - 1;

      /* the largest width that fits, for the message */
      while (fits > 1 && IDRSRoomFor(fits, vectors, byrows) * vector > available) fits--;
      lacking[0] = needed;
      lacking[1] = -available;
      lacking[2] = -(PetscLogDouble)fits;
    }
  }
  IDRSCallAllreduce(MPI_IN_PLACE, lacking, 3, MPI_DOUBLE, MPI_MAX, comm);
  PetscCheck(
    !(lacking[0] > 0), comm, PETSC_ERR_MEM,
    "%" PetscInt_FMT
    " right-hand sides at the same time need %.0f more bytes of GPU memory, but only %.0f are free; use -ksp_idrs_width %.0f",
    width, lacking[0], -lacking[1], -lacking[2]);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Destroys vectors that were created, or referenced, one by one; after an error some may be NULL */
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
   Returns the memory of the arrays of a vector on all processes; the host, if they are there on some process, for example because
   of -vec_bind_below. Collective
*/
static PetscErrorCode IDRSVecWhereAll_Private(Vec x, IDRSMemory *place)
{
  PetscMPIInt all;
  PetscBool   cuda;

  PetscFunctionBegin;
  PetscCall(IDRSVecWhere(x, place));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)x, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  if (cuda) {
    all = *place == IDRS_MEMORY_HOST ? 0 : 1;
    IDRSCallAllreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, PetscObjectComm((PetscObject)x));
    if (!all) *place = IDRS_MEMORY_HOST;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSVecsCreate - Creates vectors like this one, without values. On a GPU they share one allocation, *memory, because each
   allocation and each free takes 0.2 ms. Collective
*/
PetscErrorCode IDRSVecsCreate(Vec like, PetscInt count, Vec *vecs[], void **memory)
{
  const IDRSDeviceOps *device;
  PetscBool            ghosted = PETSC_FALSE;
  IDRSMemory           place;
  Vec                 *created;

  PetscFunctionBegin;
  *memory = NULL;
  PetscCall(IDRSVecWhereAll_Private(like, &place));
  PetscCall(IDRSGhosted(like, &ghosted));
  device = IDRSGetDevice(place);
  if (device && !ghosted) {
    PetscErrorCode ierr;

    PetscCall(PetscCalloc1(count, &created));
    ierr = (*device->create)(like, count, created, memory);
    if (ierr) {
      PetscCall(IDRSColumnsDestroy(count, &created));
      PetscCall((*device->free)(memory));
    }
    PetscCall(ierr);
  } else PetscCall(VecDuplicateVecs(like, count, &created));
  *vecs = created; /* only once it is complete */
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSVecsDestroy(PetscInt count, Vec *vecs[], void **memory)
{
  PetscFunctionBegin;
  PetscCall(VecDestroyVecs(count, vecs));
  if (*memory) PetscCall((*IDRSGetDevice(IDRS_MEMORY_CUDA)->free)(memory)); /* only devices allocate it */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSVecMDotLocal - Computes y_j^H x of this process if the type of the vectors can. Other types sum over all processes; then only
   the first process has the inner products, and the others have zeros. Those of VECNEST are such sums, although it has the method
*/
PetscErrorCode IDRSVecMDotLocal(Vec x, PetscInt n, const Vec y[], PetscScalar values[])
{
  PetscMPIInt rank;
  PetscBool   nest;

  PetscFunctionBegin;
  if (!n) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscObjectTypeCompare((PetscObject)x, VECNEST, &nest));
  if (x->ops->mdot_local && !nest) {
    PetscUseTypeMethod(x, mdot_local, n, y, values);
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(VecMDot(x, n, y, values));
  PetscCallMPI(MPI_Comm_rank(PetscObjectComm((PetscObject)x), &rank));
  if (rank) PetscCall(PetscArrayzero(values, n));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSVecGram - Computes W[i + j n] = k_i^H k_j for i <= j < n, in one reduction if the vectors support it. Collective */
PetscErrorCode IDRSVecGram(PetscInt n, Vec K[], PetscScalar W[])
{
  const PetscBool split = (PetscBool)(K[0]->ops->mdot_local != NULL);
  IDRSMemory      place;

  PetscFunctionBegin;
  PetscCall(IDRSVecWhereAll_Private(K[0], &place));
  if (IDRSGetDevice(place)) {
    PetscCall((*IDRSGetDevice(place)->gram)(n, K, W));
    IDRSCallAllreduce(MPI_IN_PLACE, W, n * n, MPIU_SCALAR, MPIU_SUM, PetscObjectComm((PetscObject)K[0]));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  /* W(0:j+1,j) = K(:,0:j+1)^H k_j, all columns in one reduction */
  for (PetscInt j = 0; j < n; j++) {
    if (split) PetscCall(VecMDotBegin(K[j], j + 1, K, W + j * n));
    else PetscCall(VecMDot(K[j], j + 1, K, W + j * n));
  }
  for (PetscInt j = 0; split && j < n; j++) PetscCall(VecMDotEnd(K[j], j + 1, K, W + j * n));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets random numbers with the same seed, for vectors without an array, such as composite vectors of SLEPc */
static PetscErrorCode IDRSVecSetRandom_Private(Vec v, uint64_t seed, PetscInt column)
{
  MPI_Comm    comm;
  PetscMPIInt rank, size;
  PetscRandom random;

  PetscFunctionBegin;
  PetscCall(PetscObjectGetComm((PetscObject)v, &comm));
  PetscCallMPI(MPI_Comm_rank(comm, &rank));
  PetscCallMPI(MPI_Comm_size(comm, &size));
  PetscCall(PetscRandomCreate(comm, &random));
  PetscCall(PetscRandomSetType(random, PETSCRANDER48));
  PetscCall(PetscRandomSetInterval(random, -1.0, 1.0));
  /* the generator uses the low bits */
  PetscCall(PetscRandomSetSeed(random, (unsigned long)(IDRSShadowKey(seed * (uint64_t)size + (uint64_t)rank) +
                                                       IDRSShadowMultiplier((uint32_t)column))));
  PetscCall(PetscRandomSeed(random));
  PetscCall(VecSetRandom(v, random));
  PetscCall(PetscRandomDestroy(&random));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSVecSetHashed - Writes a column of the hashed shadow space of this seed into a vector */
PetscErrorCode IDRSVecSetHashed(Vec v, uint64_t seed, PetscInt column)
{
  const uint64_t key        = IDRSShadowKey(seed);
  const uint32_t multiplier = IDRSShadowMultiplier((uint32_t)(column / 2));
  PetscInt       begin, end;
  PetscScalar   *p;
  IDRSMemory     place;

  PetscFunctionBegin;
  if (!v->petscnative && !v->ops->getarray) {
    PetscCall(IDRSVecSetRandom_Private(v, seed, column));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(IDRSVecWhere(v, &place));
  if (IDRSGetDevice(place)) {
    PetscCall((*IDRSGetDevice(place)->sethashed)(v, key, column));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(VecGetOwnershipRange(v, &begin, &end));
  PetscCall(VecGetArrayWrite(v, &p));
  /* P_ij = (2 field - 65535) times a unit, see idrsshadow.h */
  for (PetscInt i = begin; i < end; i++)
    p[i - begin] = (PetscReal)IDRSShadowColumnInteger(IDRSShadowRowState(key, (uint64_t)i), multiplier, column % 2) *
                   (PetscReal)IDRS_SHADOW_UNIT;
  PetscCall(VecRestoreArrayWrite(v, &p));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Writes the hashed shadow space into vectors, for back ends that need it stored */
PetscErrorCode IDRSShadowFill(IDRSWorkspace work, Vec P[])
{
  PetscFunctionBegin;
  for (PetscInt j = 0; j < work->s; j++) PetscCall(IDRSVecSetHashed(P[j], work->seed, j));
  PetscFunctionReturn(PETSC_SUCCESS);
}
