/*
   Sums over the devices of the processes of one node inside a kernel: each process maps the mailboxes of the others into its own address space, and kernels write
   there. The mailboxes are made once for an MPI communicator of PETSc's own, and kept with it. They are divided into channels, one for each solver.
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
   One exchange: the message i of process p is at  first + i size + p  of a mailbox, and carries the number of the exchange. peers = NULL: no exchange
*/
typedef struct {
  const IDRSPeers *peers;
  size_t           first;
  uint32_t         number;
} IDRSPeerExchange;

PETSC_INTERN bool           IDRSPeersShareDevice(void);
PETSC_INTERN PetscErrorCode IDRSPeersConnect(MPI_Comm, PetscInt *, const char *[]);
PETSC_INTERN PetscErrorCode IDRSPeersNext(MPI_Comm, PetscInt, IDRSPeerExchange *);
PETSC_INTERN PetscErrorCode IDRSPeersCheck(MPI_Comm, PetscLogDouble);
PETSC_INTERN PetscErrorCode IDRSPeersFinish(MPI_Comm, PetscInt *, PetscBool);
