/*
   Sums over the devices of the processes of one node inside a kernel: each process maps the mailboxes of the others into its own
   address space, and kernels write there. The mailboxes are made once for an MPI communicator of PETSc's own, and kept with it.
   They are divided into channels, one for each solver.
*/
#pragma once

#include <petscsys.h>
#include <cuda_runtime.h>

#define IDRS_MAX_PEERS 32

/* Messages that a process sends to each of the others at once, at most */
#define IDRS_PEER_MESSAGES 320

/* The mailboxes, in the memory of the device */
typedef struct {
  ulonglong2 *mailbox[IDRS_MAX_PEERS]; /* of each process */
  const int  *givenup;                 /* on the host, nonzero: kernels are not to wait any longer */
  int         rank, size;
} IDRSPeers;

/*
   One exchange: the message i of process p is at  first + i size + p  of a mailbox, and carries the number of the exchange.
   peers = NULL: no exchange
*/
typedef struct {
  const IDRSPeers *peers;
  size_t           first;
  uint32_t         number;
} IDRSPeerExchange;

/*
   Memory of each process that kernels of the others write to, beside the mailboxes: as much as each of them has asked for. It is
   kept with the communicator, and serves again once it is given back, so that nobody frees what another process may have mapped
*/
typedef struct _n_IDRSPeersShare *IDRSPeersShare;
struct _n_IDRSPeersShare {
  void      *memory[IDRS_MAX_PEERS]; /* of each process, as mapped here */
  size_t     bytes;                  /* of this process */
  const int *givenup;                /* as in IDRSPeers */
  uint32_t   exchanges;              /* how many there have been */
  PetscBool  taken;
  PetscBool  isBroken; /* an exchange has failed, and the memory is no longer mapped */
};

PETSC_INTERN bool           IDRSPeersShareDevice(void);
PETSC_INTERN PetscErrorCode IDRSPeersCreateShare(MPI_Comm, size_t, IDRSPeersShare *);
PETSC_INTERN PetscErrorCode IDRSPeersNextOfShare(MPI_Comm, IDRSPeersShare, uint32_t *);
PETSC_INTERN PetscErrorCode IDRSPeersDestroyShare(IDRSPeersShare *);
PETSC_INTERN PetscErrorCode IDRSPeersConnect(MPI_Comm, PetscBool, PetscInt *, const char *[]);
PETSC_INTERN PetscErrorCode IDRSPeersNext(MPI_Comm, PetscInt, IDRSPeerExchange *);
PETSC_INTERN PetscErrorCode IDRSPeersCheck(MPI_Comm, PetscLogDouble);
PETSC_INTERN PetscErrorCode IDRSPeersFinish(MPI_Comm, PetscInt *, PetscBool);
