/*
   Sums over the devices of several processes, and messages between them, by NCCL where the library was built with it
*/
#include <petscdevice_cuda.h>
#include <petscidrs/private/idrscompat.h>
#include "idrsnccl.h"
#include "../device/stream.h"

#if defined(PETSCIDRS_HAVE_NCCL)
  #include <nccl.h>

struct _n_IDRSDevices {
  ncclComm_t   comm;   /* NULL once something has failed */
  cudaStream_t stream; /* of the messages, which other work goes on beside */
  PetscMPIInt  rank;
};

  #if PetscDefined(USE_REAL_SINGLE)
    #define IDRS_NCCL_REAL ncclFloat
  #else
    #define IDRS_NCCL_REAL ncclDouble
  #endif

/* Under which communicators are kept with those of MPI */
static PetscMPIInt IDRSDevicesKeyval = MPI_KEYVAL_INVALID;

/* PETSc's own communicator of PETSC_COMM_WORLD, once it has devices: without this reference it would go whenever no PETSc object is left on it */
static MPI_Comm IDRSDevicesWorld = MPI_COMM_NULL;

/* Called by MPI when the communicator goes */
static int MPIAPI IDRSDevicesFree(MPI_Comm comm, PetscMPIInt keyval, void *attribute, void *extra)
{
  IDRSDevices devices = (IDRSDevices)attribute;

  (void)cudaStreamDestroy(devices->stream);
  if (devices->comm) (void)ncclCommDestroy(devices->comm);
  delete devices;
  return MPI_SUCCESS;
}

static PetscErrorCode IDRSDevicesFinalize(void)
{
  PetscFunctionBegin;
  if (IDRSDevicesWorld != MPI_COMM_NULL) PetscCall(PetscCommDestroy(&IDRSDevicesWorld));
  PetscCallMPI(MPI_Comm_free_keyval(&IDRSDevicesKeyval));
  IDRSDevicesKeyval = MPI_KEYVAL_INVALID;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Ends what is under way, on this device; other processes are not told */
static PetscErrorCode IDRSDevicesAbort_Private(IDRSDevices devices)
{
  PetscFunctionBegin;
  if (devices->comm) (void)ncclCommAbort(devices->comm);
  devices->comm = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Of a call of NCCL: after an error nothing more is expected of the communicator */
static PetscErrorCode IDRSDevicesResult_Private(IDRSDevices devices, ncclResult_t result)
{
  PetscFunctionBegin;
  if (result == ncclSuccess || result == ncclInProgress) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSDevicesAbort_Private(devices));
  SETERRQ(PETSC_COMM_SELF, PETSC_ERR_LIB, "NCCL: %s", ncclGetErrorString(result));
}

static PetscErrorCode IDRSDevicesAlive_Private(IDRSDevices devices)
{
  PetscFunctionBegin;
  PetscCheck(devices->comm, PETSC_COMM_SELF, PETSC_ERR_LIB, "NCCL has failed between these processes before: KSPIDRS has to be set up again");
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Does another process have the device of this one? The answer is the same on all */
static PetscErrorCode IDRSDevicesShared_Private(MPI_Comm comm, PetscBool *shared)
{
  cudaDeviceProp properties;
  cudaUUID_t    *all;
  PetscMPIInt    rank, size, equal = 0;
  int            device;

  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_rank(comm, &rank));
  PetscCallMPI(MPI_Comm_size(comm, &size));
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaGetDeviceProperties(&properties, device));
  PetscCall(PetscMalloc1(size, &all));
  PetscCallMPI(MPI_Allgather(&properties.uuid, (PetscMPIInt)sizeof(*all), MPI_BYTE, all, (PetscMPIInt)sizeof(*all), MPI_BYTE, comm));
  for (PetscMPIInt i = 0; i < size; i++) {
    PetscBool same;

    PetscCall(PetscMemcmp(&all[i], &properties.uuid, sizeof(*all), &same));
    if (same && i != rank) equal = 1;
  }
  PetscCall(PetscFree(all));
  IDRSCallAllreduce(MPI_IN_PLACE, &equal, 1, MPI_INT, MPI_MAX, comm);
  *shared = equal ? PETSC_TRUE : PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* NCCL between the devices of these processes; where it cannot be, the communicator stays NULL on all of them */
static PetscErrorCode IDRSDevicesConnect_Private(MPI_Comm comm, IDRSDevices devices)
{
  PetscMPIInt  size, failed;
  ncclUniqueId id;

  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_size(comm, &size));
  failed = devices->rank == 0 && ncclGetUniqueId(&id) != ncclSuccess ? 1 : 0;
  PetscCallMPI(MPI_Bcast(&failed, 1, MPI_INT, 0, comm));
  if (failed) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCallMPI(MPI_Bcast(&id, (PetscMPIInt)sizeof(id), MPI_BYTE, 0, comm));
  failed = ncclCommInitRank(&devices->comm, size, id, devices->rank) != ncclSuccess ? 1 : 0;
  if (failed) devices->comm = NULL;
  IDRSCallAllreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, comm);
  if (failed) PetscCall(IDRSDevicesAbort_Private(devices));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The devices of a communicator of PETSc's own, or why there can be no sums between them. Collective, and the same on all processes.
   Where NCCL has failed on one of them since the last time, all begin anew.
*/
PetscErrorCode IDRSDevicesGet(MPI_Comm comm, IDRSDevices *devices, const char *why[])
{
  PetscMPIInt found, failed, relation;
  PetscBool   shared = PETSC_FALSE;
  int         lowest, highest;

  PetscFunctionBegin;
  *devices = NULL;
  *why     = NULL;
  if (IDRSDevicesKeyval == MPI_KEYVAL_INVALID) {
    PetscCallMPI(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, IDRSDevicesFree, &IDRSDevicesKeyval, NULL));
    PetscCall(PetscRegisterFinalize(IDRSDevicesFinalize));
  }
  PetscCallMPI(MPI_Comm_get_attr(comm, IDRSDevicesKeyval, devices, &found));
  if (!found) {
    PetscCall(IDRSDevicesShared_Private(comm, &shared));
    if (shared) {
      *why = "processes share a GPU, which NCCL does not allow";
      PetscFunctionReturn(PETSC_SUCCESS);
    }
    *devices = new struct _n_IDRSDevices();
    PetscCallMPI(MPI_Comm_rank(comm, &(*devices)->rank));
    PetscCallCUDA(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    PetscCallCUDA(cudaStreamCreateWithPriority(&(*devices)->stream, cudaStreamNonBlocking, highest));
    PetscCallMPI(MPI_Comm_set_attr(comm, IDRSDevicesKeyval, *devices));
  }
  failed = (*devices)->comm ? 0 : 1;
  IDRSCallAllreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, comm);
  if (!failed) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSDevicesAbort_Private(*devices));
  PetscCall(IDRSDevicesConnect_Private(comm, *devices));
  if (!(*devices)->comm) {
    *devices = NULL;
    *why     = "NCCL finds no way between the GPUs; the environment variable NCCL_DEBUG=INFO has it say why";
  } else if (IDRSDevicesWorld == MPI_COMM_NULL) {
    PetscCallMPI(MPI_Comm_compare(comm, PETSC_COMM_WORLD, &relation));
    if (relation == MPI_CONGRUENT) { /* only then do all processes of the world come here */
      PetscCall(PetscCommDuplicate(PETSC_COMM_WORLD, &IDRSDevicesWorld, NULL));
      if (IDRSDevicesWorld != comm) PetscCall(PetscCommDestroy(&IDRSDevicesWorld));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sums in the order of the stream; the same bits on all devices */
PetscErrorCode IDRSDevicesAllreduce(IDRSDevices devices, const PetscScalar *from, PetscScalar *to, PetscInt count, cudaStream_t stream)
{
  PetscFunctionBegin;
  PetscCall(IDRSDevicesAlive_Private(devices));
  PetscCall(IDRSDevicesResult_Private(devices, ncclAllReduce(from, to, (size_t)count * (sizeof(PetscScalar) / sizeof(PetscReal)), IDRS_NCCL_REAL, ncclSum, devices->comm, stream)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Messages between devices, as a whole: on the stream that IDRSDevicesGetStream() returns. One to this process itself is a copy */
PetscErrorCode IDRSDevicesExchange(IDRSDevices devices, PetscInt sends, const IDRSMessage send[], PetscInt receives, const IDRSMessage receive[])
{
  const IDRSMessage *own    = NULL;
  cudaError_t        copied = cudaSuccess;
  ncclResult_t       result, ended;

  PetscFunctionBegin;
  PetscCall(IDRSDevicesAlive_Private(devices));
  for (PetscInt i = 0; i < sends; i++) {
    if (send[i].rank == devices->rank) own = &send[i];
  }
  result = ncclGroupStart();
  for (PetscInt i = 0; i < sends && result == ncclSuccess; i++) {
    if (&send[i] != own) result = ncclSend(send[i].data, send[i].bytes, ncclInt8, send[i].rank, devices->comm, devices->stream);
  }
  for (PetscInt i = 0; i < receives && result == ncclSuccess; i++) {
    if (receive[i].rank != devices->rank) result = ncclRecv(receive[i].data, receive[i].bytes, ncclInt8, receive[i].rank, devices->comm, devices->stream);
    else copied = cudaMemcpyAsync(receive[i].data, own->data, own->bytes, cudaMemcpyDeviceToDevice, devices->stream);
  }
  ended = ncclGroupEnd(); /* in any case, or the group would stay open */
  PetscCall(IDRSDevicesResult_Private(devices, result == ncclSuccess ? ended : result));
  PetscCallCUDA(copied);
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSDevicesGetStream(IDRSDevices devices, cudaStream_t *stream)
{
  PetscFunctionBegin;
  *stream = devices->stream;
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSDevicesLost(IDRSDevices devices, PetscBool *lost)
{
  PetscFunctionBegin;
  *lost = devices->comm ? PETSC_FALSE : PETSC_TRUE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   While this process has waited for the others: an error that no call has returned, or so long a time that one of them must have gone
   another way, which on one host NCCL does not see. What is under way then ends, so that the device can be used again.
*/
PetscErrorCode IDRSDevicesCheck(IDRSDevices devices, PetscLogDouble seconds, PetscReal timeout)
{
  ncclResult_t result;

  PetscFunctionBegin;
  PetscCall(IDRSDevicesAlive_Private(devices));
  PetscCall(IDRSDevicesResult_Private(devices, ncclCommGetAsyncError(devices->comm, &result)));
  PetscCall(IDRSDevicesResult_Private(devices, result));
  if (seconds > timeout) PetscCall(IDRSDevicesAbort_Private(devices));
  PetscCheck(devices->comm, PETSC_COMM_SELF, PETSC_ERR_LIB, "The sums of other processes have not come for %g seconds: has one of them failed? See -ksp_idrs_timeout", (double)seconds);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Called before memory of the device is freed, which waits for all that is under way there. After an error these may be sums and messages in which no other
   process takes part any more: what has not come within the time is given up.
*/
PetscErrorCode IDRSDevicesFinish(IDRSDevices devices, cudaStream_t stream, PetscReal timeout)
{
  const PetscLogDouble began = MPI_Wtime();
  PetscBool            idle  = PETSC_FALSE;

  PetscFunctionBegin;
  while (devices->comm && !idle) {
    PetscCall(IDRSStreamIdle_CUDA(stream, &idle));
    if (idle) PetscCall(IDRSStreamIdle_CUDA(devices->stream, &idle));
    if (!idle && MPI_Wtime() - began > timeout) PetscCall(IDRSDevicesAbort_Private(devices));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

#else

PetscErrorCode IDRSDevicesGet(MPI_Comm comm, IDRSDevices *devices, const char *why[])
{
  PetscFunctionBegin;
  *devices = NULL;
  *why     = "this library was built without NCCL";
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSDevicesAllreduce(IDRSDevices devices, const PetscScalar *from, PetscScalar *to, PetscInt count, cudaStream_t stream)
{
  PetscFunctionBegin;
  SETERRQ(PETSC_COMM_SELF, PETSC_ERR_PLIB, "No devices without NCCL");
}

PetscErrorCode IDRSDevicesExchange(IDRSDevices devices, PetscInt sends, const IDRSMessage send[], PetscInt receives, const IDRSMessage receive[])
{
  PetscFunctionBegin;
  SETERRQ(PETSC_COMM_SELF, PETSC_ERR_PLIB, "No devices without NCCL");
}

PetscErrorCode IDRSDevicesGetStream(IDRSDevices devices, cudaStream_t *stream)
{
  PetscFunctionBegin;
  SETERRQ(PETSC_COMM_SELF, PETSC_ERR_PLIB, "No devices without NCCL");
}

PetscErrorCode IDRSDevicesLost(IDRSDevices devices, PetscBool *lost)
{
  PetscFunctionBegin;
  SETERRQ(PETSC_COMM_SELF, PETSC_ERR_PLIB, "No devices without NCCL");
}

PetscErrorCode IDRSDevicesFinish(IDRSDevices devices, cudaStream_t stream, PetscReal timeout)
{
  PetscFunctionBegin;
  SETERRQ(PETSC_COMM_SELF, PETSC_ERR_PLIB, "No devices without NCCL");
}

PetscErrorCode IDRSDevicesCheck(IDRSDevices devices, PetscLogDouble seconds, PetscReal timeout)
{
  PetscFunctionBegin;
  SETERRQ(PETSC_COMM_SELF, PETSC_ERR_PLIB, "No devices without NCCL");
}
#endif
