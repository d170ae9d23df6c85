#include <petscdevice_cuda.h>
#include <petscidrs/private/idrscompat.h>
#include "idrsnccl.h"
#include "../device/commdata.h"
#include "../device/device.h"

#if defined(PETSCIDRS_HAVE_NCCL)
  #include <nccl.h>

typedef struct {
  ncclComm_t   comm;   /* NULL after a failure */
  cudaStream_t stream; /* for messages, concurrent with PETSc's stream */
  PetscMPIInt  rank;
} IDRSNCCL;

  #if PetscDefined(USE_REAL_SINGLE)
    #define IDRS_NCCL_REAL ncclFloat
  #else
    #define IDRS_NCCL_REAL ncclDouble
  #endif

/* Called on all processes when the communicator is freed */
static void IDRSNCCLFree(MPI_Comm comm, void *data)
{
  IDRSNCCL *nccl = (IDRSNCCL *)data;

  if (nccl->comm) (void)ncclCommDestroy(nccl->comm); /* completes its work on the stream */
  (void)cudaStreamDestroy(nccl->stream);
  delete nccl;
}

/* Returns the data of the communicator. It is an error if NCCL does not connect these processes */
static PetscErrorCode IDRSNCCLGet_Private(MPI_Comm comm, IDRSNCCL **nccl)
{
  PetscFunctionBegin;
  PetscCall(IDRSCommDataFind(comm, IDRSNCCLFree, nccl));
  PetscCheck(*nccl, PETSC_COMM_SELF, PETSC_ERR_ORDER, "NCCL does not connect these processes");
  PetscCheck((*nccl)->comm, PETSC_COMM_SELF, PETSC_ERR_LIB,
             "An earlier operation of NCCL between these processes has failed; the next solve of KSPIDRS with its reductions "
             "connects them again");
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Aborts operations in flight on this device, without a message to other processes */
static PetscErrorCode IDRSNCCLAbort_Private(IDRSNCCL *nccl)
{
  PetscFunctionBegin;
  if (nccl->comm) (void)ncclCommAbort(nccl->comm);
  nccl->comm = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks the result of an NCCL call. After an error the communicator is aborted */
static PetscErrorCode IDRSNCCLResult_Private(IDRSNCCL *nccl, ncclResult_t result)
{
  PetscFunctionBegin;
  if (result == ncclSuccess || result == ncclInProgress) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSNCCLAbort_Private(nccl));
  SETERRQ(PETSC_COMM_SELF, PETSC_ERR_LIB, "NCCL: %s", ncclGetErrorString(result));
}

/* Creates an NCCL communicator for these processes; if that fails on one process, it is NULL on all */
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
   IDRSNCCLConnect - Connects the devices of an inner communicator of PETSc, or returns the reason why they cannot be connected, the
   same on all processes. Collective. If NCCL has failed on one process since the last call, all processes connect again.
*/
PetscErrorCode IDRSNCCLConnect(MPI_Comm comm, const char *why[])
{
  IDRSNCCL   *nccl;
  PetscMPIInt failed;
  PetscBool   shared = PETSC_FALSE;
  int         lowest, highest;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(IDRSCommDataFind(comm, IDRSNCCLFree, &nccl));
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
    PetscCall(IDRSCommDataAdd(comm, IDRSNCCLFree, nccl));
  }
  failed = nccl->comm ? 0 : 1;
  IDRSCallAllreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, comm);
  if (!failed) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSNCCLAbort_Private(nccl));
  PetscCall(IDRSNCCLInit_Private(comm, nccl));
  if (!nccl->comm) *why = "NCCL finds no way between the GPUs; the environment variable NCCL_DEBUG=INFO makes it say why";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSNCCLAllreduce - Enqueues the sum of scalars over all processes on the stream; the bits are the same on all devices */
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
   IDRSNCCLExchange - Sends and receives messages in one NCCL group on the stream for messages, after the event `packed`, and
   records the event `arrived`. A message to this process itself is a copy
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
  ended = ncclGroupEnd(); /* also after an error, because the group would stay open */
  PetscCall(IDRSNCCLResult_Private(nccl, result == ncclSuccess ? ended : result));
  PetscCallCUDA(copied);
  PetscCallCUDA(cudaEventRecord(arrived, nccl->stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSNCCLCheck - Called repeatedly while the host waits. After an asynchronous NCCL error or the timeout it aborts operations in
   flight, so that the device can be used again. NCCL does not detect on one host that a process no longer takes part, so the
   timeout is needed. Without a communicator this function does nothing.
*/
PetscErrorCode IDRSNCCLCheck(MPI_Comm comm, PetscLogDouble seconds)
{
  IDRSNCCL    *nccl;
  ncclResult_t result;

  PetscFunctionBegin;
  PetscCall(IDRSCommDataFind(comm, IDRSNCCLFree, &nccl));
  if (!nccl || !nccl->comm) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSNCCLResult_Private(nccl, ncclCommGetAsyncError(nccl->comm, &result)));
  PetscCall(IDRSNCCLResult_Private(nccl, result));
  if (seconds > IDRSGetTimeout()) {
    PetscCall(IDRSNCCLAbort_Private(nccl));
    SETERRQ(PETSC_COMM_SELF, PETSC_ERR_LIB,
            "No sums or messages of other processes for %g seconds (-petscidrs_nccl_timeout): check whether one of them has failed",
            (double)seconds);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSNCCLFinish - Called before device memory is freed, which waits for all work on the device. After an error other processes may
   no longer take part in the sums and messages in flight. They are aborted after the timeout, or at once if `failed` is set.
*/
PetscErrorCode IDRSNCCLFinish(MPI_Comm comm, cudaStream_t stream, PetscBool failed)
{
  const PetscLogDouble began = MPI_Wtime();
  PetscBool            idle  = PETSC_FALSE;
  IDRSNCCL            *nccl;

  PetscFunctionBegin;
  PetscCall(IDRSCommDataFind(comm, IDRSNCCLFree, &nccl));
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

/* IDRSNCCLWait - Waits until the stream has completed its work. Reports an error after the timeout */
PetscErrorCode IDRSNCCLWait(MPI_Comm comm, cudaStream_t stream)
{
  const PetscLogDouble began = MPI_Wtime();
  PetscBool            idle;

  PetscFunctionBegin;
  PetscCall(IDRSStreamIdle_CUDA(stream, &idle));
  while (!idle) {
    PetscCall(IDRSNCCLCheck(comm, MPI_Wtime() - began));
    PetscCall(IDRSProgressMPI(comm));
    PetscCall(IDRSStreamIdle_CUDA(stream, &idle));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
