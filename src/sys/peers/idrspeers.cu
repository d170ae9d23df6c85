/*
   The mailboxes of a communicator: made by all processes together, mapped by CUDA's interprocess communication, and divided into
   channels.

   A channel has room for two exchanges, which take turns. Exchange e + 2 may overwrite what exchange e has left: a process sends
   e + 2 once its kernel with e + 1 has ended, for which the message e + 1 of each other process has come, and a process sends that
   after its kernel with e has read everything. So the kernels of a channel are to run one after another on each device, which those
   of a solver do.
*/
#include <petscdevice_cuda.h>
#include <petscidrs/private/idrscompat.h>
#include "idrspeers.h"
#include "../device/memory.h"
#include "../device/stream.h"
#include "../device/timeout.h"

/*
   Channels of a communicator, for solvers and for each of the right-hand sides that a solver takes at the same time: as many as a
   mask of 64 bits has places for
*/
#define IDRS_CHANNELS 64

/*
   Shares of a communicator, and what their sizes are multiples of, as other allocations of a process would be mapped with smaller
   ones
*/
#define IDRS_SHARES      64
#define IDRS_SHARE_BYTES ((size_t)1 << 21)

typedef struct {
  PetscMPIInt    rank, size;
  const char    *why;                      /* these processes cannot be connected, or NULL */
  void          *mailbox[IDRS_MAX_PEERS];  /* of each process, as mapped here; NULL where they have not been made */
  IDRSPeers     *peers;                    /* the same for kernels */
  int           *givenup;                  /* pinned */
  uint32_t       exchanges[IDRS_CHANNELS]; /* how many there have been in each channel */
  uint64_t       taken;                    /* channels that solvers of this process have, a bit each */
  PetscBool      isBroken;                 /* an exchange was not made: channels may disagree about their number */
  PetscBool      shared;                   /* some of these processes are on the same device */
  IDRSPeersShare share[IDRS_SHARES];       /* in the same order on all processes */
  PetscInt       shares;
} IDRSMailboxes;

static PetscMPIInt IDRSPeersKeyval = MPI_KEYVAL_INVALID;

/*
   True if mailboxes connect this process with others on the same device. A block that waits for other processes must
   then leave room for their kernels: those that would follow it early, and fill the multiprocessors while they wait themselves, are
   launched after it
*/
static bool IDRSPeersShared = false;

bool IDRSPeersShareDevice(void)
{
  return IDRSPeersShared;
}

/* Messages of an exchange in the mailbox of a process */
static size_t IDRSPeersRoom(const IDRSMailboxes *boxes)
{
  return (size_t)IDRS_PEER_MESSAGES * (size_t)boxes->size;
}

/* Returns the data that are kept with the communicator, or NULL */
static PetscErrorCode IDRSPeersFind_Private(MPI_Comm comm, IDRSMailboxes **boxes)
{
  PetscMPIInt found = 0;

  PetscFunctionBegin;
  if (IDRSPeersKeyval != MPI_KEYVAL_INVALID) PetscCallMPI(MPI_Comm_get_attr(comm, IDRSPeersKeyval, boxes, &found));
  if (!found) *boxes = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The memory of other processes is not mapped any more. That of this one must stay as long as they may have it mapped */
static void IDRSPeersUnmap(const IDRSMailboxes *boxes, void *memory[])
{
  for (PetscMPIInt p = 0; p < boxes->size; p++) {
    if (p != boxes->rank && memory[p]) (void)cudaIpcCloseMemHandle(memory[p]);
    if (p != boxes->rank) memory[p] = NULL;
  }
  (void)cudaGetLastError();
}

/* Shares that somebody has are returned later */
static void IDRSPeersDropShares(IDRSMailboxes *boxes, bool frees)
{
  for (PetscInt i = 0; i < boxes->shares; i++) {
    IDRSPeersShare share = boxes->share[i];

    IDRSPeersUnmap(boxes, share->memory);
    if (frees) (void)cudaFree(share->memory[boxes->rank]);
    share->isBroken = PETSC_TRUE;
    if (!share->taken) delete share;
  }
  boxes->shares = 0;
}

/*
   Called by MPI on all processes when the communicator is freed. If an exchange has failed, some processes may not arrive here, so
   the memory is freed at the end of the program
*/
static int MPIAPI IDRSPeersFree(MPI_Comm comm, PetscMPIInt keyval, void *attribute, void *extra)
{
  IDRSMailboxes *boxes = (IDRSMailboxes *)attribute;
  bool           frees;

  IDRSPeersUnmap(boxes, boxes->mailbox);
  for (PetscInt i = 0; i < boxes->shares; i++) IDRSPeersUnmap(boxes, boxes->share[i]->memory);
  frees = !boxes->isBroken && MPI_Barrier(comm) == MPI_SUCCESS;
  IDRSPeersDropShares(boxes, frees);
  if (frees) (void)cudaFree(boxes->mailbox[boxes->rank]);
  (void)cudaFree(boxes->peers);
  (void)cudaFreeHost(boxes->givenup);
  delete boxes;
  return MPI_SUCCESS;
}

static PetscErrorCode IDRSPeersFinalize(void)
{
  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_free_keyval(&IDRSPeersKeyval));
  IDRSPeersKeyval = MPI_KEYVAL_INVALID;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns PETSC_TRUE if all processes of the communicator are on one node, and not too many; the same on all processes */
static PetscErrorCode IDRSPeersNode_Private(MPI_Comm comm, PetscBool *node)
{
  PetscMPIInt size, here;
  MPI_Comm    local;

  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_size(comm, &size));
  PetscCallMPI(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local));
  PetscCallMPI(MPI_Comm_size(local, &here));
  PetscCallMPI(MPI_Comm_free(&local));
  *node = here == size && size <= IDRS_MAX_PEERS ? PETSC_TRUE : PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Memory of this process, of zeros, and how others map it. Returns whether CUDA can do so */
static PetscErrorCode IDRSPeersMake_Private(size_t bytes, void **memory, cudaIpcMemHandle_t *handle, PetscBool *made)
{
  cudaStream_t stream;

  PetscFunctionBegin;
  *made = PETSC_FALSE;
  if (cudaMalloc(memory, bytes) == cudaSuccess) {
    PetscCall(IDRSStream_CUDA(&stream));
    PetscCallCUDA(cudaMemsetAsync(*memory, 0, bytes, stream));
    PetscCallCUDA(cudaStreamSynchronize(stream));
    if (cudaIpcGetMemHandle(handle, *memory) == cudaSuccess) *made = PETSC_TRUE;
  } else *memory = NULL;
  (void)cudaGetLastError();
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes memory and maps that of all, on all processes or on none */
static PetscErrorCode IDRSPeersMap_Private(MPI_Comm comm, const IDRSMailboxes *boxes, size_t bytes, void *memory[],
                                           PetscBool *mapped)
{
  cudaIpcMemHandle_t *handles;
  PetscMPIInt         failed;
  PetscBool           made;

  PetscFunctionBegin;
  PetscCall(PetscCalloc1(boxes->size, &handles));
  PetscCall(IDRSPeersMake_Private(bytes, &memory[boxes->rank], &handles[boxes->rank], &made));
  failed = made ? 0 : 1;
  IDRSCallAllreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, comm);
  if (!failed) {
    PetscCallMPI(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, handles, (PetscMPIInt)sizeof(*handles), MPI_BYTE, comm));
    for (PetscMPIInt p = 0; p < boxes->size && !failed; p++) {
      if (p != boxes->rank && cudaIpcOpenMemHandle(&memory[p], handles[p], cudaIpcMemLazyEnablePeerAccess) != cudaSuccess) {
        memory[p] = NULL;
        failed    = 1;
      }
    }
    (void)cudaGetLastError();
    IDRSCallAllreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, comm);
  }
  PetscCall(PetscFree(handles));
  if (failed) {
    IDRSPeersUnmap(boxes, memory);
    PetscCallMPI(MPI_Barrier(comm));
    PetscCallCUDA(cudaFree(memory[boxes->rank]));
    memory[boxes->rank] = NULL;
  }
  *mapped = failed ? PETSC_FALSE : PETSC_TRUE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes the mailboxes and maps them, on all processes or on none */
static PetscErrorCode IDRSPeersOpen_Private(MPI_Comm comm, IDRSMailboxes *boxes, PetscBool *opened)
{
  IDRSPeers    peers = {};
  cudaStream_t stream;

  PetscFunctionBegin;
  *(volatile int *)boxes->givenup = 1; /* kernels of a solve that has ended with an error may wait still */
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  IDRSPeersUnmap(boxes, boxes->mailbox);
  boxes->mailbox[boxes->rank] = NULL; /* after a failed exchange, see IDRSPeersFree() */
  IDRSPeersDropShares(boxes, false);
  PetscCall(PetscArrayzero(boxes->exchanges, IDRS_CHANNELS));
  PetscCall(
    IDRSPeersMap_Private(comm, boxes, 2 * IDRS_CHANNELS * IDRSPeersRoom(boxes) * sizeof(ulonglong2), boxes->mailbox, opened));
  if (!*opened) PetscFunctionReturn(PETSC_SUCCESS);
  *boxes->givenup = 0;
  peers.givenup   = boxes->givenup;
  peers.rank      = boxes->rank;
  peers.size      = boxes->size;
  for (PetscMPIInt p = 0; p < boxes->size; p++) peers.mailbox[p] = (ulonglong2 *)boxes->mailbox[p];
  PetscCallCUDA(cudaMemcpy(boxes->peers, &peers, sizeof(peers), cudaMemcpyHostToDevice));
  boxes->isBroken = PETSC_FALSE;
  PetscCall(IDRSDeviceShared(comm, &boxes->shared));
  if (boxes->shared) IDRSPeersShared = true;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A channel that no solver has on any process; -1 where there is none */
static PetscErrorCode IDRSPeersTake_Private(MPI_Comm comm, IDRSMailboxes *boxes, PetscInt *channel)
{
  uint64_t available = ~boxes->taken;

  PetscFunctionBegin;
  IDRSCallAllreduce(MPI_IN_PLACE, &available, 1, MPI_UINT64_T, MPI_BAND, comm);
  *channel = -1;
  for (PetscInt i = 0; i < IDRS_CHANNELS && *channel < 0; i++) {
    if (available >> i & 1) *channel = i;
  }
  if (*channel >= 0) boxes->taken |= (uint64_t)1 << *channel;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSPeersConnect - Connects the devices of a communicator of PETSc's own, and gives a solver a channel between them, if it has
   none (-1) and wants one (not NULL), or says why that cannot be. Collective, and the same on all processes. If an exchange has
   failed on one of them since the last call, all connect again. If automatic, processes that share a device are not connected,
   because each would wait for kernels of the others that cannot be resident
*/
PetscErrorCode IDRSPeersConnect(MPI_Comm comm, PetscBool automatic, PetscInt *channel, const char *why[])
{
  IDRSMailboxes *boxes;
  PetscMPIInt    states[2]; /* all begin anew; a process shares its device, in this communicator or in another one */
  PetscBool      node = PETSC_FALSE, opened = PETSC_FALSE;

  PetscFunctionBegin;
  *why = NULL;
  if (IDRSPeersKeyval == MPI_KEYVAL_INVALID) {
    PetscCallMPI(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, IDRSPeersFree, &IDRSPeersKeyval, NULL));
    PetscCall(PetscRegisterFinalize(IDRSPeersFinalize));
  }
  PetscCall(IDRSPeersFind_Private(comm, &boxes));
  if (!boxes) {
    PetscCall(IDRSPeersNode_Private(comm, &node));
    boxes = new IDRSMailboxes();
    PetscCallMPI(MPI_Comm_rank(comm, &boxes->rank));
    PetscCallMPI(MPI_Comm_size(comm, &boxes->size));
    if (node) {
      PetscCallCUDA(cudaMalloc((void **)&boxes->peers, sizeof(*boxes->peers)));
      PetscCallCUDA(cudaHostAlloc((void **)&boxes->givenup, sizeof(*boxes->givenup), cudaHostAllocPortable | cudaHostAllocMapped));
    } else {
      boxes->size = 0;
      boxes->why  = "the processes are not on one node, or more than " PetscStringize(IDRS_MAX_PEERS);
    }
    PetscCallMPI(MPI_Comm_set_attr(comm, IDRSPeersKeyval, boxes));
  }
  *why = boxes->why;
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  states[0] = boxes->isBroken || !boxes->mailbox[boxes->rank] ? 1 : 0;
  states[1] = IDRSPeersShared ? 1 : 0;
  IDRSCallAllreduce(MPI_IN_PLACE, states, 2, MPI_INT, MPI_MAX, comm);
  if (states[0]) {
    PetscCall(IDRSPeersOpen_Private(comm, boxes, &opened));
    if (!opened) {
      *why = boxes->why = "the GPUs cannot map each other's memory, or have none for the mailboxes";
      PetscFunctionReturn(PETSC_SUCCESS);
    }
  }
  if (automatic && (states[1] || boxes->shared)) *why = "processes share a GPU";
  else if (channel && *channel < 0) PetscCall(IDRSPeersTake_Private(comm, boxes, channel));
  if (!*why && channel && *channel < 0)
    *why = "so many solvers or right-hand sides on these processes have such reductions already: " PetscStringize(IDRS_CHANNELS);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSPeersNext - The next exchange of a channel, for the next kernel */
PetscErrorCode IDRSPeersNext(MPI_Comm comm, PetscInt channel, IDRSPeerExchange *exchange)
{
  IDRSMailboxes *boxes;
  uint32_t       number;

  PetscFunctionBegin;
  PetscCall(IDRSPeersFind_Private(comm, &boxes));
  PetscCheck(boxes && channel >= 0, PETSC_COMM_SELF, PETSC_ERR_ORDER, "No mailboxes connect these processes");
  PetscCheck(
    !boxes->isBroken, PETSC_COMM_SELF, PETSC_ERR_LIB,
    "An earlier exchange between these processes has failed: the next solve of KSPIDRS with such reductions connects them anew");
  number           = ++boxes->exchanges[channel];
  exchange->peers  = boxes->peers;
  exchange->number = number;
  exchange->first  = (2 * (size_t)channel + number % 2) * IDRSPeersRoom(boxes);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSPeersCreateShare - Allocates bytes of zeros on this process, which the other processes map; NULL if that fails. Collective on
   connected processes, and the same result on all. Messages of earlier kernels have arrived before all processes are here, and are
   cleared, because after 2^31 exchanges they would count as later ones. So a process must not send to another one before it has
   received a message of it
*/
PetscErrorCode IDRSPeersCreateShare(MPI_Comm comm, size_t bytes, IDRSPeersShare *newshare)
{
  IDRSMailboxes *boxes;
  IDRSPeersShare share  = NULL;
  uint64_t       usable = 0;
  PetscBool      mapped;
  cudaStream_t   stream;

  PetscFunctionBegin;
  *newshare = NULL;
  PetscCall(IDRSPeersFind_Private(comm, &boxes));
  PetscCheck(boxes && boxes->mailbox[boxes->rank], PETSC_COMM_SELF, PETSC_ERR_ORDER, "No mailboxes connect these processes");
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  for (PetscInt i = 0; i < boxes->shares; i++) {
    if (!boxes->share[i]->taken && boxes->share[i]->bytes >= bytes) usable |= (uint64_t)1 << i;
  }
  IDRSCallAllreduce(MPI_IN_PLACE, &usable, 1, MPI_UINT64_T, MPI_BAND, comm);
  for (PetscInt i = 0; i < boxes->shares && !share; i++) {
    if (usable >> i & 1) share = boxes->share[i];
  }
  if (share) {
    PetscCallCUDA(cudaMemsetAsync(share->memory[boxes->rank], 0, share->bytes, stream));
    PetscCallCUDA(cudaStreamSynchronize(stream));
    share->exchanges = 0;
  } else if (boxes->shares < IDRS_SHARES) {
    share          = new _n_IDRSPeersShare();
    share->givenup = boxes->givenup;
    share->bytes   = (bytes / IDRS_SHARE_BYTES + 1) * IDRS_SHARE_BYTES;
    PetscCall(IDRSPeersMap_Private(comm, boxes, share->bytes, share->memory, &mapped));
    if (mapped) boxes->share[boxes->shares++] = share;
    else {
      delete share;
      share = NULL;
    }
  }
  if (share) share->taken = PETSC_TRUE;
  *newshare = share;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSPeersNextOfShare - The number of the next exchange through a share */
PetscErrorCode IDRSPeersNextOfShare(MPI_Comm comm, IDRSPeersShare share, uint32_t *number)
{
  IDRSMailboxes *boxes;

  PetscFunctionBegin;
  PetscCall(IDRSPeersFind_Private(comm, &boxes));
  PetscCheck(
    boxes && !boxes->isBroken && !share->isBroken, PETSC_COMM_SELF, PETSC_ERR_LIB,
    "An earlier exchange between these processes has failed: the next solve of KSPIDRS with such messages connects them anew");
  *number = ++share->exchanges;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSPeersDestroyShare - Returns a share to its communicator, or deletes one whose exchange has failed */
PetscErrorCode IDRSPeersDestroyShare(IDRSPeersShare *share)
{
  PetscFunctionBegin;
  if (*share) {
    (*share)->taken = PETSC_FALSE;
    if ((*share)->isBroken) delete *share;
  }
  *share = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSPeersCheck - Called while the host has waited so long. After the timeout kernels stop waiting, and the host reports an error.
   Without mailboxes it does nothing
*/
PetscErrorCode IDRSPeersCheck(MPI_Comm comm, PetscLogDouble seconds)
{
  IDRSMailboxes *boxes;

  PetscFunctionBegin;
  if (seconds <= IDRSGetTimeout()) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSPeersFind_Private(comm, &boxes));
  if (!boxes || !boxes->givenup || !boxes->mailbox[boxes->rank]) PetscFunctionReturn(PETSC_SUCCESS);
  boxes->isBroken                 = PETSC_TRUE;
  *(volatile int *)boxes->givenup = 1;
  SETERRQ(PETSC_COMM_SELF, PETSC_ERR_LIB,
          "Sums or messages of other processes have not come for %g seconds: has one of them failed? See -petscidrs_nccl_timeout",
          (double)seconds);
}

/*
   IDRSPeersFinish - Returns a channel, if there is one, before memory of the device is freed, which waits for all that is under way
   there. After an error these may be exchanges in which no other process takes part any more, those of a preconditioner, too:
   kernels do not wait for them from now on, and all processes begin anew the next time
*/
PetscErrorCode IDRSPeersFinish(MPI_Comm comm, PetscInt *channel, PetscBool failed)
{
  IDRSMailboxes *boxes;

  PetscFunctionBegin;
  PetscCall(IDRSPeersFind_Private(comm, &boxes));
  if (failed && boxes && boxes->givenup) {
    boxes->isBroken                 = PETSC_TRUE;
    *(volatile int *)boxes->givenup = 1;
  }
  if (*channel >= 0) boxes->taken &= ~((uint64_t)1 << *channel);
  *channel = -1;
  PetscFunctionReturn(PETSC_SUCCESS);
}
