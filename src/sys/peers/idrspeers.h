/*
   Sums over the devices of the processes of one node inside a kernel. Each process maps the mailboxes of the others into its own
   address space, and kernels write there. Each inner MPI communicator of PETSc has mailboxes, see commdata.h, which are divided
   into channels.
*/
#pragma once

#include <petscsys.h>
#include <cuda_runtime.h>

#define IDRS_MAX_PEERS 32

/* Largest number of messages of an exchange, from a process to each other process */
#define IDRS_PEER_MESSAGES 320

/* The mailboxes, in device memory */
typedef struct {
  ulonglong2 *mailbox[IDRS_MAX_PEERS]; /* of each process */
  const int  *givenup;                 /* on the host; nonzero: an exchange has failed, and kernels must stop waiting */
  int         rank, size;
} IDRSPeers;

/*
   One exchange: message i of process p is at first + i size + p of a mailbox, and has the number of the exchange. peers = NULL: no
   exchange
*/
typedef struct {
  const IDRSPeers *peers;
  size_t           first;
  uint32_t         number;
} IDRSPeerExchange;

/*
   Memory of each process, besides the mailboxes, that kernels of other processes write to. Sizes may differ between processes. A
   released share belongs to the communicator and is used again, so that memory is not freed while another process may have it
   mapped
*/
typedef struct _n_IDRSPeersShare *IDRSPeersShare;
struct _n_IDRSPeersShare {
  void      *memory[IDRS_MAX_PEERS]; /* of each process, as mapped here */
  size_t     bytes;                  /* of this process */
  const int *givenup;                /* as in IDRSPeers */
  uint32_t   exchanges;              /* number of the last one */
  PetscBool  taken;                  /* PETSC_FALSE: released */
};

PETSC_INTERN bool           IDRSPeersShareDevice(void);
PETSC_INTERN PetscErrorCode IDRSPeersCreateShare(MPI_Comm, size_t, IDRSPeersShare *);
PETSC_INTERN PetscErrorCode IDRSPeersNextOfShare(MPI_Comm, IDRSPeersShare, uint32_t *);
PETSC_INTERN PetscErrorCode IDRSPeersConnect(MPI_Comm, PetscBool, PetscInt *, const char *[]);
PETSC_INTERN PetscErrorCode IDRSPeersNext(MPI_Comm, PetscInt, IDRSPeerExchange *);
PETSC_INTERN PetscErrorCode IDRSPeersCheck(MPI_Comm, PetscLogDouble);
PETSC_INTERN PetscErrorCode IDRSPeersFinish(MPI_Comm, PetscInt *, PetscBool);
