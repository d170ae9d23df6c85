/*
   The halo of a matvec inside its kernels, between devices that map each other's memory. The first kernel writes the entries of u
   that other processes need into their memory, as messages that carry the number of the exchange: see finish.cuh. The second kernel
   asks for those that this process needs, until they have come.

   Exchange e + 1 overwrites nothing that is still needed: a process sends it after the sums of matvec e have been added up over all
   processes, and a process gives its sums away after it has read its messages. Where a device has stopped, further matvecs may be
   launched without sums. Their results are not used, so a reader also takes a message of a later exchange.

   Matvecs without sums between them need a halo in which a process waits for something of each process to which it sends. Odd and
   even exchanges have memory of their own. A process sends exchange e + 2 after its second kernel of matvec e + 1 has read the
   messages e + 1 of those processes, which they send after their second kernel of matvec e has read everything.

   A matvec with several columns is the same, with up to IDRS_MAX_WIDTH numbers of each entry, and with the kernel that sends before
   the first one. Its sums follow in a kernel of their own.
*/
#pragma once

#include <petscmat.h>
#include <petscsf.h>
#include "../../sys/peers/idrspeers.h"

/* The items that this process sends; none without such a halo */
typedef struct {
  const PetscInt    *index; /* of the entry of u */
  ulonglong2 *const *to;    /* where its message goes, in the memory of another device */
  uint32_t           items, number;
} IDRSSends;

/* Entries of u that come from other processes, in the memory of this device */
typedef struct {
  const ulonglong2 *messages;
  const int        *givenup; /* as in IDRSPeers */
  uint32_t          number;
} IDRSGhosts;

/* At most so many blocks of a kernel wait for other processes: few on a device that is shared, so that their kernels find room */
static inline size_t IDRSWaitingBlocks(void)
{
  return IDRSPeersShareDevice() ? 16 : SIZE_MAX;
}

typedef struct _n_IDRSHalo *IDRSHalo;

PETSC_INTERN PetscErrorCode IDRSHaloCreate(MPI_Comm, PetscSF, PetscInt, PetscInt, IDRSHalo *);
PETSC_INTERN PetscBool      IDRSHaloIsValid(IDRSHalo);
PETSC_INTERN PetscErrorCode IDRSHaloIsMutual(IDRSHalo, PetscSF, Mat, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSHaloNext(IDRSHalo, IDRSSends *);
PETSC_INTERN IDRSGhosts     IDRSHaloGetGhosts(IDRSHalo);
PETSC_INTERN PetscErrorCode IDRSHaloDestroy(IDRSHalo *);
