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
#include <petscidrs/private/idrslimits.h>
#include "../../sys/kernels/finish.cuh"
#include "../../sys/kernels/rowsum.cuh"
#include "../../sys/peers/idrspeers.h"

/* The items that this process sends; none if the scatter exchanges the entries */
typedef struct {
  const PetscInt    *index; /* of the entry of u */
  ulonglong2 *const *to;    /* destination of the message, in the memory of another device */
  uint32_t           items, number;
} IDRSSends;

/* Entries of u from other processes, in the memory of this device: `width` numbers for each, of which the first one is used */
typedef struct {
  const ulonglong2 *messages;
  const int        *givenup; /* as in IDRSPeers */
  uint32_t          number, width;
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

/* Sends the entry of a column of item i */
static __device__ __forceinline__ void IDRSSendEntry(const IDRSSends &sends, size_t i, size_t column, PetscScalar entry)
{
  const PetscReal part[2] = {PetscRealPart(entry), PetscImaginaryPart(entry)};

#pragma unroll
  for (int k = 0; k < IDRS_PARTS; k++)
    IDRSStoreSystem(sends.to[i] + column * IDRS_PARTS + k, IDRSMakeMessage(part[k], sends.number));
}

/* Sends the entries of u that other processes need. Called by all threads of a grid */
static __device__ __forceinline__ void IDRSSendEntries(const IDRSSends &sends, const PetscScalar *u)
{
  for (size_t i = IDRSFirstRow<1>(); i < sends.items; i += IDRSRowStride<1>()) IDRSSendEntry(sends, i, 0, u[sends.index[i]]);
}

/*
   Waits for entries: for messages of this exchange, or of a later one, see above. If a column has not been sent for a long time,
   its message is older. If the host has given up, returns undefined entries; the host reports the error
*/
template <int ATONCE>
static __device__ __forceinline__ void IDRSGather(const IDRSGhosts &u, const PetscInt column[ATONCE], PetscScalar entry[ATONCE])
{
  IDRSBlockMessage message[ATONCE * IDRS_PARTS];
  IDRSWaitPeers    wait = {u.givenup, 0, false};
  bool             all;

  do {
    all = true;
#pragma unroll
    for (int l = 0; l < ATONCE * IDRS_PARTS; l++)
      message[l] = IDRSLoadSystem(u.messages + (size_t)max(column[l / IDRS_PARTS], (PetscInt)0) * u.width * IDRS_PARTS +
                                  l % IDRS_PARTS);
#pragma unroll
    for (int l = 0; l < ATONCE * IDRS_PARTS; l++)
      all = all & (column[l / IDRS_PARTS] < 0 || (IDRSMessageIsOfOrLater((uint32_t)(message[l].x >> 32), u.number) &&
                                                  IDRSMessageIsOfOrLater((uint32_t)(message[l].y >> 32), u.number)));
  } while (!all && !wait.Ends());
#pragma unroll
  for (int l = 0; l < ATONCE; l++) entry[l] = IDRSMessagesScalar(message + l * IDRS_PARTS);
}
