#include <petscdevice_cuda.h>
#include <petscidrs/private/idrscompat.h>
#include "idrsnccl.h"
#include "../device/memory.h"
#include "../device/stream.h"
#include "../device/timeout.h"

#if defined(PETSCIDRS_HAVE_NCCL)
  #include <nccl.h>

typedef struct {
  ncclComm_t   comm;   /* NULL once something has failed */
  cudaStream_t stream; /* of the messages, beside PETSc's, which goes on meanwhile */
  PetscMPIInt  rank;
} IDRSNCCL;

  #if PetscDefined(USE_REAL_SINGLE)
    #define IDRS_NCCL_REAL ncclFloat
  #else
    #define IDRS_NCCL_REAL ncclDouble
  #endif

/* Under which communicators are kept with those of MPI */
static PetscMPIInt IDRSNCCLKeyval = MPI_KEYVAL_INVALID;

/*
   PETSc's own communicator of PETSC_COMM_WORLD, once it has one of NCCL: without this reference it would go whenever no PETSc
   object is left on it
*/
static MPI_Comm IDRSNCCLWorld = MPI_COMM_NULL;

/* Called by MPI when the communicator goes */
static int MPIAPI IDRSNCCLFree(MPI_Comm comm, PetscMPIInt keyval, void *attribute, void *extra)
{
  IDRSNCCL *nccl = (IDRSNCCL *)attribute;

  (void)cudaStreamDestroy(nccl->stream);
  if (nccl->comm) (void)ncclCommDestroy(nccl->comm);
  delete nccl;
  return MPI_SUCCESS;
}

static PetscErrorCode IDRSNCCLFinalize(void)
{
  PetscFunctionBegin;
  if (IDRSNCCLWorld != MPI_COMM_NULL) PetscCall(PetscCommDestroy(&IDRSNCCLWorld));
  PetscCallMPI(MPI_Comm_free_keyval(&IDRSNCCLKeyval));
  IDRSNCCLKeyval = MPI_KEYVAL_INVALID;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the data that are kept with the communicator, or NULL */
static PetscErrorCode IDRSNCCLFind_Private(MPI_Comm comm, IDRSNCCL **nccl)
{
  PetscMPIInt found = 0;

  PetscFunctionBegin;
  if (IDRSNCCLKeyval != MPI_KEYVAL_INVALID) PetscCallMPI(MPI_Comm_get_attr(comm, IDRSNCCLKeyval, nccl, &found));
  if (!found) *nccl = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The same for a call that NCCL has to be there for */
static PetscErrorCode IDRSNCCLGet_Private(MPI_Comm comm, IDRSNCCL **nccl)
{
  PetscFunctionBegin;
  PetscCall(IDRSNCCLFind_Private(comm, nccl));
  PetscCheck(*nccl, PETSC_COMM_SELF, PETSC_ERR_ORDER, "NCCL does not connect these processes");
  PetscCheck((*nccl)->comm, PETSC_COMM_SELF, PETSC_ERR_LIB,
             "NCCL has failed between these processes before: the next solve of KSPIDRS with its reductions connects them anew");
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Ends what is under way, on this device; other processes are not told */
static PetscErrorCode IDRSNCCLAbort_Private(IDRSNCCL *nccl)
{
  PetscFunctionBegin;
  if (nccl->comm) (void)ncclCommAbort(nccl->comm);
  nccl->comm = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Of a call of NCCL: after an error nothing more is expected of the communicator */
static PetscErrorCode IDRSNCCLResult_Private(IDRSNCCL *nccl, ncclResult_t result)
{
  PetscFunctionBegin;
  if (result == ncclSuccess || result == ncclInProgress) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSNCCLAbort_Private(nccl));
  SETERRQ(PETSC_COMM_SELF, PETSC_ERR_LIB, "NCCL: %s", ncclGetErrorString(result));
}

/* A communicator of NCCL for these processes; where it cannot be, it stays NULL on all of them */
static PetscErrorCode IDRSNCCLInit_Private(MPI_Comm comm, IDRSNCCL *nccl)
{
  PetscMPIInt  size, failed;
  ncclUniqueId id;

  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_size(comm, &size));
  failed = nccl->rank == 0 && ncclGetUniqueId(&id) != ncclSuccess ? 1 : 0;
  PetscCallMPI(MPI_Bcast(&failed, 1, MPI_INT, 0, comm));
  if (failed) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCallMPI(MPI_Bcast(&id, (PetscMPIInt)sizeof(id), MPI_BYTE, 0, comm));
  failed = ncclCommInitRank(&nccl->comm, size, id, nccl->rank) != ncclSuccess ? 1 : 0;
  if (failed) nccl->comm = NULL;
  IDRSCallAllreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, comm);
  if (failed) PetscCall(IDRSNCCLAbort_Private(nccl));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSNCCLConnect - Connects the devices of a communicator of PETSc's own, or says why they cannot be connected. Collective, and
   the same on all processes. Where NCCL has failed on one of them since the last time, all begin anew.
*/
PetscErrorCode IDRSNCCLConnect(MPI_Comm comm, const char *why[])
{
  IDRSNCCL   *nccl;
  PetscMPIInt failed, relation;
  PetscBool   shared = PETSC_FALSE;
  int         lowest, highest;

  PetscFunctionBegin;
  *why = NULL;
  if (IDRSNCCLKeyval == MPI_KEYVAL_INVALID) {
    PetscCallMPI(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, IDRSNCCLFree, &IDRSNCCLKeyval, NULL));
    PetscCall(PetscRegisterFinalize(IDRSNCCLFinalize));
  }
  PetscCall(IDRSNCCLFind_Private(comm, &nccl));
  if (!nccl) {
    PetscCall(IDRSDeviceShared(comm, &shared));
    if (shared) {
      *why = "processes share a GPU, which NCCL does not allow";
      PetscFunctionReturn(PETSC_SUCCESS);
    }
    nccl = new IDRSNCCL();
    PetscCallMPI(MPI_Comm_rank(comm, &nccl->rank));
    PetscCallCUDA(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    PetscCallCUDA(cudaStreamCreateWithPriority(&nccl->stream, cudaStreamNonBlocking, highest));
    PetscCallMPI(MPI_Comm_set_attr(comm, IDRSNCCLKeyval, nccl));
  }
  failed = nccl->comm ? 0 : 1;
  IDRSCallAllreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, comm);
  if (!failed) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSNCCLAbort_Private(nccl));
  PetscCall(IDRSNCCLInit_Private(comm, nccl));
  if (!nccl->comm) *why = "NCCL finds no way between the GPUs; the environment variable NCCL_DEBUG=INFO makes it say why";
  else if (IDRSNCCLWorld == MPI_COMM_NULL) {
    PetscCallMPI(MPI_Comm_compare(comm, PETSC_COMM_WORLD, &relation));
    if (relation == MPI_CONGRUENT) { /* only then do all processes of the world come here */
      PetscCall(PetscCommDuplicate(PETSC_COMM_WORLD, &IDRSNCCLWorld, NULL));
      if (IDRSNCCLWorld != comm) PetscCall(PetscCommDestroy(&IDRSNCCLWorld));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSNCCLRenew - Connects these devices again if NCCL has connected them before, for scatters, and has failed since; collective.
   If it cannot, the scatters report the error
*/
PetscErrorCode IDRSNCCLRenew(MPI_Comm comm)
{
  IDRSNCCL   *nccl;
  const char *why;

  PetscFunctionBegin;
  PetscCall(IDRSNCCLFind_Private(comm, &nccl));
  if (nccl) PetscCall(IDRSNCCLConnect(comm, &why));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSNCCLAllreduce - Adds up scalars of all processes, in the order of the stream; the same bits on all devices */
PetscErrorCode IDRSNCCLAllreduce(MPI_Comm comm, const PetscScalar *from, PetscScalar *to, PetscInt count, cudaStream_t stream)
{
  IDRSNCCL *nccl;

  PetscFunctionBegin;
  PetscCall(IDRSNCCLGet_Private(comm, &nccl));
  PetscCall(IDRSNCCLResult_Private(nccl, ncclAllReduce(from, to, (size_t)count * (sizeof(PetscScalar) / sizeof(PetscReal)),
                                                       IDRS_NCCL_REAL, ncclSum, nccl->comm, stream)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSNCCLExchange - Sends and receives messages, as a whole, on a stream beside PETSc's: once they are packed, up to where they
   have arrived. One to this process itself is a copy
*/
PetscErrorCode IDRSNCCLExchange(MPI_Comm comm, cudaEvent_t packed, PetscInt sends, const IDRSMessage send[], PetscInt receives,
                                const IDRSMessage receive[], cudaEvent_t arrived)
{
  IDRSNCCL          *nccl;
  const IDRSMessage *own    = NULL;
  cudaError_t        copied = cudaSuccess;
  ncclResult_t       result, ended;

  PetscFunctionBegin;
  PetscCall(IDRSNCCLGet_Private(comm, &nccl));
  for (PetscInt i = 0; i < sends; i++) {
    if (send[i].rank == nccl->rank) own = &send[i];
  }
  PetscCallCUDA(cudaStreamWaitEvent(nccl->stream, packed, 0));
  result = ncclGroupStart();
  for (PetscInt i = 0; i < sends && result == ncclSuccess; i++) {
    if (&send[i] != own) result = ncclSend(send[i].data, send[i].bytes, ncclInt8, send[i].rank, nccl->comm, nccl->stream);
  }
  for (PetscInt i = 0; i < receives && result == ncclSuccess; i++) {
    if (receive[i].rank != nccl->rank)
      result = ncclRecv(receive[i].data, receive[i].bytes, ncclInt8, receive[i].rank, nccl->comm, nccl->stream);
    else copied = cudaMemcpyAsync(receive[i].data, own->data, own->bytes, cudaMemcpyDeviceToDevice, nccl->stream);
  }
  ended = ncclGroupEnd(); /* in any case, or the group would stay open */
  PetscCall(IDRSNCCLResult_Private(nccl, result == ncclSuccess ? ended : result));
  PetscCallCUDA(copied);
  PetscCallCUDA(cudaEventRecord(arrived, nccl->stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSNCCLCheck - Called while the host has waited so long: ends what is under way, so that the device can be used again, after an
   error that no call has returned, or after so long a time that a process must have gone another way, which NCCL does not see on
   one host. Where nothing can be under way, it does nothing.
*/
PetscErrorCode IDRSNCCLCheck(MPI_Comm comm, PetscLogDouble seconds)
{
  IDRSNCCL    *nccl;
  ncclResult_t result;

  PetscFunctionBegin;
  PetscCall(IDRSNCCLFind_Private(comm, &nccl));
  if (!nccl || !nccl->comm) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSNCCLResult_Private(nccl, ncclCommGetAsyncError(nccl->comm, &result)));
  PetscCall(IDRSNCCLResult_Private(nccl, result));
  if (seconds > IDRSGetTimeout()) {
    PetscCall(IDRSNCCLAbort_Private(nccl));
    SETERRQ(PETSC_COMM_SELF, PETSC_ERR_LIB,
            "Sums or messages of other processes have not come for %g seconds: has one of them failed? See -petscidrs_nccl_timeout",
            (double)seconds);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSNCCLFinish - Called before memory of the device is freed, which waits for all that is under way there. After an error these
   may be sums and messages in which no other process takes part any more: what has not come within the timeout is given up, and at
   once where that is known.
*/
PetscErrorCode IDRSNCCLFinish(MPI_Comm comm, cudaStream_t stream, PetscBool failed)
{
  const PetscLogDouble began = MPI_Wtime();
  PetscBool            idle  = PETSC_FALSE;
  IDRSNCCL            *nccl;

  PetscFunctionBegin;
  PetscCall(IDRSNCCLFind_Private(comm, &nccl));
  while (nccl && nccl->comm && !idle) {
    PetscCall(IDRSStreamIdle_CUDA(stream, &idle));
    if (idle) PetscCall(IDRSStreamIdle_CUDA(nccl->stream, &idle));
    if (!idle && (failed || MPI_Wtime() - began > IDRSGetTimeout())) PetscCall(IDRSNCCLAbort_Private(nccl));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

#else

PetscErrorCode IDRSNCCLConnect(MPI_Comm comm, const char *why[])
{
  PetscFunctionBegin;
  *why = "this library was built without NCCL";
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSNCCLRenew(MPI_Comm comm)
{
  PetscFunctionBegin;
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSNCCLAllreduce(MPI_Comm comm, const PetscScalar *from, PetscScalar *to, PetscInt count, cudaStream_t stream)
{
  PetscFunctionBegin;
  SETERRQ(PETSC_COMM_SELF, PETSC_ERR_PLIB, "No sums without NCCL");
}

PetscErrorCode IDRSNCCLExchange(MPI_Comm comm, cudaEvent_t packed, PetscInt sends, const IDRSMessage send[], PetscInt receives,
                                const IDRSMessage receive[], cudaEvent_t arrived)
{
  PetscFunctionBegin;
  SETERRQ(PETSC_COMM_SELF, PETSC_ERR_PLIB, "No messages without NCCL");
}

PetscErrorCode IDRSNCCLCheck(MPI_Comm comm, PetscLogDouble seconds)
{
  PetscFunctionBegin;
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSNCCLFinish(MPI_Comm comm, cudaStream_t stream, PetscBool failed)
{
  PetscFunctionBegin;
  PetscFunctionReturn(PETSC_SUCCESS);
}
#endif

/* IDRSNCCLWait - Waits until the stream has done its work, with an error after the timeout */
PetscErrorCode IDRSNCCLWait(MPI_Comm comm, cudaStream_t stream)
{
  const PetscLogDouble began = MPI_Wtime();
  PetscBool            idle;

  PetscFunctionBegin;
  PetscCall(IDRSStreamIdle_CUDA(stream, &idle));
  while (!idle) {
    PetscCall(IDRSNCCLCheck(comm, MPI_Wtime() - began));
    PetscCall(IDRSStreamIdle_CUDA(stream, &idle));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
