/*
   The halo exchange of a matvec inside its kernels, between devices that map each other's memory. The first kernel writes the
   entries of u that other processes need into their memory, as messages that carry the number of the exchange, see finish.cuh. The
   second kernel polls the messages that this process needs.

   Exchange e + 1 does not overwrite messages that are still needed: a process sends it after the reduction of matvec e over all
   processes, and a process contributes to this reduction after it has read its messages. After a device has stopped, the host may
   launch further matvecs without a reduction. Their results are not used, so a reader also accepts a message of a later exchange.

   Matvecs without reductions between them need a halo in which a process waits for a message of each process to which it sends. Odd
   and even exchanges have separate memory. A process sends exchange e + 2 after its second kernel of matvec e + 1 has read the
   messages e + 1 of those processes, which they send after their second kernel of matvec e has read everything.

   A matvec with several columns does the same with up to IDRS_MAX_WIDTH numbers per entry. A separate kernel before the first one
   sends, and a separate kernel afterwards computes the sums.
*/
#pragma once

#include <petscmat.h>
#include <petscsf.h>
#include "../../sys/peers/idrspeers.h"

/* The items that this process sends; none if the scatter exchanges the entries */
typedef struct {
  const PetscInt    *index; /* of the entry of u */
  ulonglong2 *const *to;    /* destination of the message, in the memory of another device */
  uint32_t           items, number;
} IDRSSends;

/* Entries of u from other processes, in the memory of this device */
typedef struct {
  const ulonglong2 *messages;
  const int        *givenup; /* as in IDRSPeers */
  uint32_t          number;
} IDRSGhosts;

/*
   Returns the largest number of blocks of a kernel that wait for other processes: small if processes share the device, because
   their kernels must run at the same time
*/
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
