/*
   The mailboxes of a communicator: created collectively, mapped by CUDA's interprocess communication, and divided into channels.

   A channel has memory for two exchanges. Exchange e + 2 overwrites the messages of exchange e. This is safe: a process sends e + 2
   after its kernel with exchange e + 1 has ended, so it has received message e + 1 of every other process, and each of them sent e
   + 1 after its kernel with exchange e had read all messages. Therefore the kernels of a channel must run one after another on each
   device, as the kernels of a solver do.
*/
#include <atomic>
#include <petscdevice_cuda.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrslimits.h>
#include "idrspeers.h"
#include "../device/commdata.h"
#include "../device/memory.h"
#include "../device/stream.h"
#include "../device/timeout.h"

/*
   Channels of a communicator: one for each simultaneous right-hand side of a solver. Their number is the number of bits of `taken`
*/
#define IDRS_CHANNELS 64

/*
   Largest number of shares of a communicator, and the unit of their sizes. Smaller allocations would be mapped together with other
   allocations of the process
*/
#define IDRS_SHARES      64
#define IDRS_SHARE_BYTES ((size_t)1 << 21)

/* Outcomes of mapping memory; the largest one of all processes counts */
enum {
  IDRS_PEERS_MAPPED,
  IDRS_PEERS_NO_MEMORY, /* at this time */
  IDRS_PEERS_CANNOT
};

typedef struct {
  PetscMPIInt    rank, size;
  const char    *why;                      /* these processes can never be connected, or NULL */
  void          *mailbox[IDRS_MAX_PEERS];  /* of each process, as mapped here, or NULL */
  IDRSPeers     *peers;                    /* the same for kernels */
  int           *givenup;                  /* pinned */
  uint32_t       exchanges[IDRS_CHANNELS]; /* number of the last one in each channel */
  uint64_t       taken;                    /* channels that solvers of this process use, one bit each */
  PetscBool      isBroken;                 /* an exchange failed: processes may have different exchange numbers */
  PetscBool      shared;                   /* some of these processes are on the same device */
  PetscBool      isCounted;                /* in IDRSPeersSharing */
  IDRSPeersShare share[IDRS_SHARES];       /* in the same order on all processes */
  PetscInt       shares;
} IDRSMailboxes;

/* Communicators whose mailboxes connect this process with others on the same device */
static std::atomic<int> IDRSPeersSharing{0};

/*
   Returns true if kernels of this process may wait for kernels of other processes on the same device. A block that waits must not
   keep the others from running. So the next kernels are not launched early then, because they would occupy the multiprocessors
   while they wait
*/
bool IDRSPeersShareDevice(void)
{
  return IDRSPeersSharing.load(std::memory_order_relaxed) > 0;
}

/* Returns the number of messages of an exchange in the mailbox of a process */
static size_t IDRSPeersRoom(const IDRSMailboxes *boxes)
{
  return (size_t)IDRS_PEER_MESSAGES * (size_t)boxes->size;
}

/* Unmaps memory of other processes. The memory of this process must not be freed while they may have it mapped */
static void IDRSPeersUnmap(const IDRSMailboxes *boxes, void *memory[])
{
  for (PetscMPIInt p = 0; p < boxes->size; p++) {
    if (p != boxes->rank && memory[p]) (void)cudaIpcCloseMemHandle(memory[p]);
    if (p != boxes->rank) memory[p] = NULL;
  }
  (void)cudaGetLastError();
}

/* Unmaps all shares. A share in use is deleted later, by IDRSPeersDestroyShare() */
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

/* Waits for all processes until the timeout. Returns true if all of them have arrived */
static bool IDRSPeersBarrier(MPI_Comm comm)
{
  const double began   = MPI_Wtime();
  int          arrived = 0;
  MPI_Request  request;

  if (MPI_Ibarrier(comm, &request) != MPI_SUCCESS) return false;
  while (!arrived && MPI_Wtime() - began <= IDRSGetTimeout()) {
    if (MPI_Test(&request, &arrived, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
  }
  return arrived;
}

/*
   Called on all processes when the communicator is freed. After an error some processes may not arrive here. Then the memory is
   freed at the end of the program
*/
static void IDRSPeersFree(MPI_Comm comm, void *data)
{
  IDRSMailboxes *boxes = (IDRSMailboxes *)data;
  bool           frees;

  IDRSPeersUnmap(boxes, boxes->mailbox);
  for (PetscInt i = 0; i < boxes->shares; i++) IDRSPeersUnmap(boxes, boxes->share[i]->memory);
  /* also if an exchange has failed on this process, because the others may not know this and wait here */
  frees = boxes->size && IDRSPeersBarrier(comm) && !boxes->isBroken;
  if (boxes->isCounted) IDRSPeersSharing--;
  IDRSPeersDropShares(boxes, frees);
  if (frees) (void)cudaFree(boxes->mailbox[boxes->rank]);
  (void)cudaFree(boxes->peers);
  (void)cudaFreeHost(boxes->givenup);
  delete boxes;
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

/* Returns the outcome of a call that maps memory, or that prepares this */
static PetscMPIInt IDRSPeersOutcome(cudaError_t error)
{
  (void)cudaGetLastError();
  return error == cudaSuccess ? IDRS_PEERS_MAPPED : (error == cudaErrorMemoryAllocation ? IDRS_PEERS_NO_MEMORY : IDRS_PEERS_CANNOT);
}

/* Allocates memory of zeros on this process, with a handle for other processes */
static PetscErrorCode IDRSPeersMake_Private(size_t bytes, void **memory, cudaIpcMemHandle_t *handle, PetscMPIInt *outcome)
{
  cudaStream_t stream;

  PetscFunctionBegin;
  *outcome = IDRSPeersOutcome(cudaMalloc(memory, bytes));
  if (*outcome == IDRS_PEERS_MAPPED) {
    PetscCall(IDRSStream_CUDA(&stream));
    PetscCallCUDA(cudaMemsetAsync(*memory, 0, bytes, stream));
    PetscCallCUDA(cudaStreamSynchronize(stream));
    *outcome = IDRSPeersOutcome(cudaIpcGetMemHandle(handle, *memory));
  } else *memory = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Allocates memory and maps the memory of the other processes, on all processes or on none. All processes get the same outcome */
static PetscErrorCode IDRSPeersMap_Private(MPI_Comm comm, const IDRSMailboxes *boxes, size_t bytes, void *memory[],
                                           PetscMPIInt *outcome)
{
  cudaIpcMemHandle_t *handles;

  PetscFunctionBegin;
  PetscCall(PetscCalloc1(boxes->size, &handles));
  PetscCall(IDRSPeersMake_Private(bytes, &memory[boxes->rank], &handles[boxes->rank], outcome));
  IDRSCallAllreduce(MPI_IN_PLACE, outcome, 1, MPI_INT, MPI_MAX, comm);
  if (*outcome == IDRS_PEERS_MAPPED) {
    PetscCallMPI(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, handles, (PetscMPIInt)sizeof(*handles), MPI_BYTE, comm));
    for (PetscMPIInt p = 0; p < boxes->size && *outcome == IDRS_PEERS_MAPPED; p++) {
      if (p == boxes->rank) continue;
      *outcome = IDRSPeersOutcome(cudaIpcOpenMemHandle(&memory[p], handles[p], cudaIpcMemLazyEnablePeerAccess));
      if (*outcome != IDRS_PEERS_MAPPED) memory[p] = NULL;
    }
    IDRSCallAllreduce(MPI_IN_PLACE, outcome, 1, MPI_INT, MPI_MAX, comm);
  }
  PetscCall(PetscFree(handles));
  if (*outcome != IDRS_PEERS_MAPPED) {
    IDRSPeersUnmap(boxes, memory);
    PetscCallMPI(MPI_Barrier(comm));
    PetscCallCUDA(cudaFree(memory[boxes->rank]));
    memory[boxes->rank] = NULL;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates the mailboxes and maps them, on all processes or on none */
static PetscErrorCode IDRSPeersOpen_Private(MPI_Comm comm, IDRSMailboxes *boxes, PetscMPIInt *outcome)
{
  IDRSPeers    peers = {};
  cudaStream_t stream;

  PetscFunctionBegin;
  *(volatile int *)boxes->givenup = 1; /* kernels of a solve that ended with an error may still wait */
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  IDRSPeersUnmap(boxes, boxes->mailbox);
  boxes->mailbox[boxes->rank] = NULL; /* after a failed exchange, see IDRSPeersFree() */
  IDRSPeersDropShares(boxes, false);
  PetscCall(PetscArrayzero(boxes->exchanges, IDRS_CHANNELS));
  PetscCall(
    IDRSPeersMap_Private(comm, boxes, 2 * IDRS_CHANNELS * IDRSPeersRoom(boxes) * sizeof(ulonglong2), boxes->mailbox, outcome));
  if (*outcome != IDRS_PEERS_MAPPED) PetscFunctionReturn(PETSC_SUCCESS);
  *boxes->givenup = 0;
  peers.givenup   = boxes->givenup;
  peers.rank      = boxes->rank;
  peers.size      = boxes->size;
  for (PetscMPIInt p = 0; p < boxes->size; p++) peers.mailbox[p] = (ulonglong2 *)boxes->mailbox[p];
  PetscCallCUDA(cudaMemcpy(boxes->peers, &peers, sizeof(peers), cudaMemcpyHostToDevice));
  boxes->isBroken = PETSC_FALSE;
  if (boxes->shared && !boxes->isCounted) IDRSPeersSharing++;
  boxes->isCounted = boxes->shared;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns a channel that no solver uses on any process, or -1 */
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
   IDRSPeersConnect - Connects the devices of an inner communicator of PETSc, and assigns a channel to a solver if *channel is -1;
   channel may be NULL. If that fails, `why` is the reason. Collective, with the same result on all processes. If an exchange has
   failed on one of them since the last call, all connect again. If one of them had no memory for mailboxes in the last call, they
   try again; if they cannot map memory of each other, they do not. If automatic, processes that share a device are not connected,
   because each would wait for kernels of the others that cannot be resident
*/
PetscErrorCode IDRSPeersConnect(MPI_Comm comm, PetscBool automatic, PetscInt *channel, const char *why[])
{
  IDRSMailboxes *boxes;
  PetscMPIInt    states[2]; /* all connect again; a process shares its device with others that it may wait for */
  PetscMPIInt    outcome;
  PetscBool      node = PETSC_FALSE;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(IDRSCommDataFind(comm, IDRSPeersFree, &boxes));
  if (!boxes) {
    PetscCall(IDRSPeersNode_Private(comm, &node));
    boxes = new IDRSMailboxes();
    PetscCallMPI(MPI_Comm_rank(comm, &boxes->rank));
    PetscCallMPI(MPI_Comm_size(comm, &boxes->size));
    if (node) {
      PetscCall(IDRSDeviceShared(comm, &boxes->shared));
      PetscCallCUDA(cudaMalloc((void **)&boxes->peers, sizeof(*boxes->peers)));
      PetscCallCUDA(cudaHostAlloc((void **)&boxes->givenup, sizeof(*boxes->givenup), cudaHostAllocPortable | cudaHostAllocMapped));
    } else {
      boxes->size = 0;
      boxes->why  = "the processes are not on one node, or more than " PetscStringize(IDRS_MAX_PEERS);
    }
    PetscCall(IDRSCommDataAdd(comm, IDRSPeersFree, boxes));
  }
  *why = boxes->why;
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  states[0] = boxes->isBroken || !boxes->mailbox[boxes->rank] ? 1 : 0;
  states[1] = IDRSPeersShareDevice() ? 1 : 0;
  IDRSCallAllreduce(MPI_IN_PLACE, states, 2, MPI_INT, MPI_MAX, comm);
  if (states[0]) {
    PetscCall(IDRSPeersOpen_Private(comm, boxes, &outcome));
    if (outcome == IDRS_PEERS_NO_MEMORY) *why = "a GPU has no memory for the mailboxes";
    else if (outcome == IDRS_PEERS_CANNOT) *why = boxes->why = "the GPUs cannot map each other's memory";
    if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (automatic && (states[1] || boxes->shared)) *why = "processes share a GPU";
  else if (channel && *channel < 0) PetscCall(IDRSPeersTake_Private(comm, boxes, channel));
  if (!*why && channel && *channel < 0)
    *why = "so many solvers or right-hand sides on these processes have such reductions already: " PetscStringize(IDRS_CHANNELS);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSPeersNext - Returns the next exchange of a channel, for the next kernel */
PetscErrorCode IDRSPeersNext(MPI_Comm comm, PetscInt channel, IDRSPeerExchange *exchange)
{
  IDRSMailboxes *boxes;
  uint32_t       number;

  PetscFunctionBegin;
  PetscCall(IDRSCommDataFind(comm, IDRSPeersFree, &boxes));
  PetscCheck(boxes && channel >= 0, PETSC_COMM_SELF, PETSC_ERR_ORDER, "No mailboxes connect these processes");
  PetscCheck(
    !boxes->isBroken, PETSC_COMM_SELF, PETSC_ERR_LIB,
    "An earlier exchange between these processes has failed; the next solve of KSPIDRS with such reductions connects them again");
  number                    = IDRSNextExchange(boxes->exchanges[channel]);
  boxes->exchanges[channel] = number;
  exchange->peers           = boxes->peers;
  exchange->number          = number;
  exchange->first           = (2 * (size_t)channel + number % 2) * IDRSPeersRoom(boxes);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSPeersCreateShare - Allocates bytes of zeros on this process, which the other processes map; NULL if that fails. Collective on
   connected processes, with the same result on all. Messages of earlier kernels have arrived before the processes agree here, and
   are cleared, because after 2^31 exchanges they would count as later ones. So a process must not send to another process before it
   has received a message from it
*/
PetscErrorCode IDRSPeersCreateShare(MPI_Comm comm, size_t bytes, IDRSPeersShare *newshare)
{
  IDRSMailboxes *boxes;
  IDRSPeersShare share  = NULL;
  uint64_t       usable = 0;
  PetscMPIInt    outcome;
  cudaStream_t   stream;

  PetscFunctionBegin;
  *newshare = NULL;
  PetscCall(IDRSCommDataFind(comm, IDRSPeersFree, &boxes));
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
    PetscCall(IDRSPeersMap_Private(comm, boxes, share->bytes, share->memory, &outcome));
    if (outcome == IDRS_PEERS_MAPPED) boxes->share[boxes->shares++] = share;
    else {
      delete share;
      share = NULL;
    }
  }
  if (share) share->taken = PETSC_TRUE;
  *newshare = share;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSPeersNextOfShare - Returns the number of the next exchange through a share */
PetscErrorCode IDRSPeersNextOfShare(MPI_Comm comm, IDRSPeersShare share, uint32_t *number)
{
  IDRSMailboxes *boxes;

  PetscFunctionBegin;
  PetscCall(IDRSCommDataFind(comm, IDRSPeersFree, &boxes));
  PetscCheck(
    boxes && !boxes->isBroken && !share->isBroken, PETSC_COMM_SELF, PETSC_ERR_LIB,
    "An earlier exchange between these processes has failed; the next solve of KSPIDRS with such messages connects them again");
  *number = share->exchanges = IDRSNextExchange(share->exchanges);
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
   IDRSPeersCheck - Called repeatedly while the host waits. After the timeout kernels stop waiting, and the host reports an error.
   Without mailboxes this function does nothing
*/
PetscErrorCode IDRSPeersCheck(MPI_Comm comm, PetscLogDouble seconds)
{
  IDRSMailboxes *boxes;

  PetscFunctionBegin;
  if (seconds <= IDRSGetTimeout()) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSCommDataFind(comm, IDRSPeersFree, &boxes));
  if (!boxes || !boxes->givenup || !boxes->mailbox[boxes->rank]) PetscFunctionReturn(PETSC_SUCCESS);
  boxes->isBroken                 = PETSC_TRUE;
  *(volatile int *)boxes->givenup = 1;
  SETERRQ(PETSC_COMM_SELF, PETSC_ERR_LIB,
          "No sums or messages of other processes for %g seconds (-petscidrs_nccl_timeout): check whether one of them has failed",
          (double)seconds);
}

/*
   IDRSPeersFinish - Releases the channel of a solver, before device memory is freed, which waits for all work on the device. After
   an error other processes may no longer take part in the exchanges in flight, also those of a preconditioner. Then kernels stop
   waiting, and all processes connect again in the next call of IDRSPeersConnect()
*/
PetscErrorCode IDRSPeersFinish(MPI_Comm comm, PetscInt *channel, PetscBool failed)
{
  IDRSMailboxes *boxes;

  PetscFunctionBegin;
  PetscCall(IDRSCommDataFind(comm, IDRSPeersFree, &boxes));
  if (failed && boxes && boxes->givenup) {
    boxes->isBroken                 = PETSC_TRUE;
    *(volatile int *)boxes->givenup = 1;
  }
  if (*channel >= 0) boxes->taken &= ~((uint64_t)1 << *channel);
  *channel = -1;
  PetscFunctionReturn(PETSC_SUCCESS);
}
