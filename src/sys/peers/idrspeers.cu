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
#include "../device/device.h"

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

typedef struct {
  PetscMPIInt    rank, size;
  size_t         room;                     /* messages of an exchange in the mailbox of a process */
  const char    *why;                      /* these processes can no longer be connected, or NULL; the same on all */
  void          *mailbox[IDRS_MAX_PEERS];  /* of each process, as mapped here, or NULL */
  IDRSPeers     *peers;                    /* the same for kernels */
  int           *givenup;                  /* pinned; 1: an exchange has failed, processes may have different exchange numbers */
  uint32_t       exchanges[IDRS_CHANNELS]; /* number of the last one in each channel */
  uint64_t       taken;                    /* channels that solvers of this process use, one bit each */
  PetscBool      shared;                   /* some of these processes are on the same device */
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

/* Unmaps memory of other processes. The memory of this process must not be freed while they may have it mapped */
static void IDRSPeersUnmap(const IDRSMailboxes *boxes, void *memory[])
{
  for (PetscMPIInt p = 0; p < boxes->size; p++) {
    if (p != boxes->rank && memory[p]) (void)cudaIpcCloseMemHandle(memory[p]);
    if (p != boxes->rank) memory[p] = NULL;
  }
  (void)cudaGetLastError();
}

/*
   Called on all processes when the communicator is freed; then no share is in use. After an error some processes may not arrive
   here: after the timeout, or if an exchange has failed, the memory is freed at the end of the program
*/
static void IDRSPeersFree(MPI_Comm comm, void *data)
{
  IDRSMailboxes *boxes   = (IDRSMailboxes *)data;
  const double   began   = MPI_Wtime();
  const bool     broken  = boxes->givenup && *boxes->givenup;
  int            arrived = 0;
  MPI_Request    request;

  IDRSPeersUnmap(boxes, boxes->mailbox);
  for (PetscInt i = 0; i < boxes->shares; i++) IDRSPeersUnmap(boxes, boxes->share[i]->memory);
  /* waits also if an exchange has failed on this process, because the others may not know this and wait here */
  if (boxes->size && MPI_Ibarrier(comm, &request) == MPI_SUCCESS) {
    while (!arrived && MPI_Wtime() - began <= IDRSGetTimeout() && MPI_Test(&request, &arrived, MPI_STATUS_IGNORE) == MPI_SUCCESS)
      continue;
  }
  if (boxes->shared && boxes->mailbox[boxes->rank]) IDRSPeersSharing--;
  for (PetscInt i = 0; i < boxes->shares; i++) {
    if (arrived && !broken) (void)cudaFree(boxes->share[i]->memory[boxes->rank]);
    delete boxes->share[i];
  }
  if (arrived && !broken) (void)cudaFree(boxes->mailbox[boxes->rank]);
  (void)cudaFree(boxes->peers);
  (void)cudaFreeHost(boxes->givenup);
  delete boxes;
}

/* Reasons why processes have no memory of each other; the largest one counts for all */
typedef enum {
  PEERS_MAPPED,
  PEERS_NO_MEMORY, /* at present */
  PEERS_NOT_MAPPED
} PeersMapping;

/* Allocates memory of zeros and maps the memory of the other processes, on all processes or, unless PEERS_MAPPED, on none */
static PetscErrorCode IDRSPeersMap_Private(MPI_Comm comm, const IDRSMailboxes *boxes, size_t bytes, void *memory[],
                                           PetscMPIInt *failed)
{
  const PetscMPIInt   rank = boxes->rank;
  cudaIpcMemHandle_t *handles;
  cudaStream_t        stream;

  PetscFunctionBegin;
  PetscCall(PetscCalloc1(boxes->size, &handles));
  PetscCall(IDRSStream_CUDA(&stream));
  *failed = cudaMalloc(&memory[rank], bytes) == cudaSuccess ? PEERS_MAPPED : PEERS_NO_MEMORY;
  if (!*failed) {
    PetscCallCUDA(cudaMemsetAsync(memory[rank], 0, bytes, stream));
    PetscCallCUDA(cudaStreamSynchronize(stream));
    *failed = cudaIpcGetMemHandle(&handles[rank], memory[rank]) == cudaSuccess ? PEERS_MAPPED : PEERS_NOT_MAPPED;
  } else memory[rank] = NULL;
  IDRSCallAllreduce(MPI_IN_PLACE, failed, 1, MPI_INT, MPI_MAX, comm);
  if (!*failed) {
    PetscCallMPI(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, handles, (PetscMPIInt)sizeof(*handles), MPI_BYTE, comm));
    for (PetscMPIInt p = 0; p < boxes->size && !*failed; p++) {
      if (p == rank) continue;
      if (cudaIpcOpenMemHandle(&memory[p], handles[p], cudaIpcMemLazyEnablePeerAccess) != cudaSuccess) {
        *failed   = PEERS_NOT_MAPPED;
        memory[p] = NULL;
      }
    }
    IDRSCallAllreduce(MPI_IN_PLACE, failed, 1, MPI_INT, MPI_MAX, comm);
  }
  (void)cudaGetLastError();
  PetscCall(PetscFree(handles));
  if (*failed) {
    IDRSPeersUnmap(boxes, memory);
    PetscCallMPI(MPI_Barrier(comm));
    PetscCallCUDA(cudaFree(memory[rank]));
    memory[rank] = NULL;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates the data of a communicator, without mailboxes. The processes must be on one node */
static PetscErrorCode IDRSPeersCreate_Private(MPI_Comm comm, IDRSMailboxes **newboxes)
{
  IDRSMailboxes *boxes = new IDRSMailboxes();
  PetscMPIInt    here;
  MPI_Comm       local;

  PetscFunctionBegin;
  *newboxes = boxes;
  PetscCallMPI(MPI_Comm_rank(comm, &boxes->rank));
  PetscCallMPI(MPI_Comm_size(comm, &boxes->size));
  boxes->room = (size_t)IDRS_PEER_MESSAGES * (size_t)boxes->size;
  PetscCallMPI(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local));
  PetscCallMPI(MPI_Comm_size(local, &here));
  PetscCallMPI(MPI_Comm_free(&local));
  if (here != boxes->size || boxes->size > IDRS_MAX_PEERS) {
    boxes->size = 0;
    boxes->why  = "the processes are not on one node, or more than " PetscStringize(IDRS_MAX_PEERS);
  } else {
    PetscCall(IDRSDeviceShared(comm, &boxes->shared));
    PetscCallCUDA(cudaMalloc((void **)&boxes->peers, sizeof(*boxes->peers)));
    PetscCallCUDA(cudaHostAlloc((void **)&boxes->givenup, sizeof(*boxes->givenup), cudaHostAllocPortable | cudaHostAllocMapped));
    *boxes->givenup = 0;
  }
  PetscCall(IDRSCommDataAdd(comm, IDRSPeersFree, boxes));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSPeersConnect - Connects the devices of an inner communicator of PETSc, and assigns a channel to a solver if *channel is -1;
   channel may be NULL. If that fails, `why` is the reason. Collective, with the same result on all processes. If they cannot map
   memory of each other, or an exchange has failed on one of them, they do not try again; after a lack of memory they do. If
   automatic, processes that share a device are not connected, because each would wait for kernels of the others that cannot be
   resident
*/
PetscErrorCode IDRSPeersConnect(MPI_Comm comm, PetscBool automatic, PetscInt *channel, const char *why[])
{
  IDRSMailboxes *boxes;
  IDRSPeers      peers = {};
  uint64_t       available;
  PetscMPIInt    states[2]; /* an exchange has failed; a process shares its device with others that it may wait for */
  PetscMPIInt    failed;

  PetscFunctionBegin;
  PetscCall(IDRSCommDataFind(comm, IDRSPeersFree, &boxes));
  if (!boxes) PetscCall(IDRSPeersCreate_Private(comm, &boxes));
  *why = boxes->why;
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  states[0] = *boxes->givenup;
  states[1] = IDRSPeersShareDevice() ? 1 : 0;
  IDRSCallAllreduce(MPI_IN_PLACE, states, 2, MPI_INT, MPI_MAX, comm);
  if (states[0]) {
    *boxes->givenup = 1;
    *why = boxes->why = "an earlier exchange between these processes has failed";
  } else if (!boxes->mailbox[boxes->rank]) {
    PetscCall(IDRSPeersMap_Private(comm, boxes, 2 * IDRS_CHANNELS * boxes->room * sizeof(ulonglong2), boxes->mailbox, &failed));
    if (failed == PEERS_NO_MEMORY) *why = "one of the GPUs has no memory left for mailboxes";
    else if (failed) *why = boxes->why = "the GPUs cannot map each other's memory";
    else {
      peers.givenup = boxes->givenup;
      peers.rank    = boxes->rank;
      peers.size    = boxes->size;
      for (PetscMPIInt p = 0; p < boxes->size; p++) peers.mailbox[p] = (ulonglong2 *)boxes->mailbox[p];
      PetscCallCUDA(cudaMemcpy(boxes->peers, &peers, sizeof(peers), cudaMemcpyHostToDevice));
      if (boxes->shared) IDRSPeersSharing++;
    }
  }
  if (!*why && automatic && (states[1] || boxes->shared)) *why = "processes share a GPU";
  if (*why || !channel || *channel >= 0) PetscFunctionReturn(PETSC_SUCCESS);

  /* a channel that no solver uses on any process */
  available = ~boxes->taken;
  IDRSCallAllreduce(MPI_IN_PLACE, &available, 1, MPI_UINT64_T, MPI_BAND, comm);
  for (PetscInt i = 0; i < IDRS_CHANNELS && *channel < 0; i++) {
    if (available >> i & 1) *channel = i;
  }
  if (*channel >= 0) boxes->taken |= (uint64_t)1 << *channel;
  else *why = "so many solvers or right-hand sides on these processes have such reductions already: " PetscStringize(IDRS_CHANNELS);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the mailboxes of connected processes, before an exchange */
static PetscErrorCode IDRSPeersGet_Private(MPI_Comm comm, IDRSMailboxes **boxes)
{
  PetscFunctionBegin;
  PetscCall(IDRSCommDataFind(comm, IDRSPeersFree, boxes));
  PetscCheck(*boxes && (*boxes)->mailbox[(*boxes)->rank], PETSC_COMM_SELF, PETSC_ERR_ORDER, "No mailboxes connect these processes");
  PetscCheck(!*(*boxes)->givenup, PETSC_COMM_SELF, PETSC_ERR_LIB, "An earlier exchange between these processes has failed");
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSPeersNext - Returns the next exchange of a channel, for the next kernel */
PetscErrorCode IDRSPeersNext(MPI_Comm comm, PetscInt channel, IDRSPeerExchange *exchange)
{
  IDRSMailboxes *boxes;

  PetscFunctionBegin;
  PetscCall(IDRSPeersGet_Private(comm, &boxes));
  exchange->number = boxes->exchanges[channel] = IDRSNextExchange(boxes->exchanges[channel]);
  exchange->peers                              = boxes->peers;
  exchange->first                              = (2 * (size_t)channel + exchange->number % 2) * boxes->room;
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
  PetscMPIInt    failed;
  cudaStream_t   stream;

  PetscFunctionBegin;
  *newshare = NULL;
  PetscCall(IDRSPeersGet_Private(comm, &boxes));
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
    PetscCall(IDRSPeersMap_Private(comm, boxes, share->bytes, share->memory, &failed));
    if (!failed) boxes->share[boxes->shares++] = share;
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
  PetscCall(IDRSPeersGet_Private(comm, &boxes));
  *number = share->exchanges = IDRSNextExchange(share->exchanges);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSPeersCheck - Called repeatedly while the host waits. After the timeout kernels stop waiting, and the host reports an error.
   Without mailboxes this function does nothing
*/
PetscErrorCode IDRSPeersCheck(MPI_Comm comm, PetscLogDouble seconds)
{
  IDRSMailboxes *boxes;
  PetscInt       channel = -1;

  PetscFunctionBegin;
  if (seconds <= IDRSGetTimeout()) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSCommDataFind(comm, IDRSPeersFree, &boxes));
  if (!boxes || !boxes->givenup || !boxes->mailbox[boxes->rank]) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSPeersFinish(comm, &channel, PETSC_TRUE));
  SETERRQ(PETSC_COMM_SELF, PETSC_ERR_LIB,
          "No sums or messages of other processes for %g seconds (-petscidrs_nccl_timeout): check whether one of them has failed",
          (double)seconds);
}

/*
   IDRSPeersFinish - Releases the channel of a solver, before device memory is freed, which waits for all work on the device. After
   an error other processes may no longer take part in the exchanges in flight, also those of a preconditioner. Then kernels stop
   waiting, and these processes have no more exchanges
*/
PetscErrorCode IDRSPeersFinish(MPI_Comm comm, PetscInt *channel, PetscBool failed)
{
  IDRSMailboxes *boxes;

  PetscFunctionBegin;
  PetscCall(IDRSCommDataFind(comm, IDRSPeersFree, &boxes));
  if (failed && boxes && boxes->givenup) *(volatile int *)boxes->givenup = 1;
  if (*channel >= 0) boxes->taken &= ~((uint64_t)1 << *channel);
  *channel = -1;
  PetscFunctionReturn(PETSC_SUCCESS);
}
