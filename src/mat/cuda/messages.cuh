/*
   Entries of a vector as messages between devices: see halo.h. No PETSc call.
*/
#pragma once

#include <petscidrs/private/idrslimits.h>
#include "../../sys/kernels/finish.cuh"
#include "halo.h"
#include "../../sys/kernels/rowsum.cuh"

/* Sends the entries of u that other processes need. Called by all threads of a grid */
static __device__ __forceinline__ void IDRSSendEntries(const IDRSSends &sends, const PetscScalar *u)
{
  for (size_t i = IDRSFirstRow<1>(); i < sends.items; i += IDRSRowStride<1>()) {
    const PetscScalar entry   = u[sends.index[i]];
    const PetscReal   part[2] = {PetscRealPart(entry), PetscImaginaryPart(entry)};

#pragma unroll
    for (int k = 0; k < IDRS_PARTS; k++) IDRSStoreSystem(sends.to[i] + k, IDRSMakeMessage(part[k], sends.number));
  }
}

/*
   Returns true if the message of this exchange has arrived, or the message of a later one, see halo.h. If a column has not been
   sent for a long time, its message is older
*/
static __device__ __forceinline__ bool IDRSMessageIsThereOrLater(const IDRSBlockMessage &message, uint32_t number)
{
  return IDRSMessageIsOfOrLater((uint32_t)(message.x >> 32), number) && IDRSMessageIsOfOrLater((uint32_t)(message.y >> 32), number);
}

/* Each lane of a warp waits separately */
static __device__ __forceinline__ bool IDRSGoesOn(const IDRSGhosts &, bool left)
{
  return left;
}

/* Waits for entries. If the host has given up, returns undefined entries; the host reports the error */
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
      message[l] = IDRSLoadSystem(u.messages + (size_t)max(column[l / IDRS_PARTS], (PetscInt)0) * IDRS_PARTS + l % IDRS_PARTS);
#pragma unroll
    for (int l = 0; l < ATONCE * IDRS_PARTS; l++)
      all = all & (column[l / IDRS_PARTS] < 0 || IDRSMessageIsThereOrLater(message[l], u.number));
  } while (!all && !wait.Ends());
#pragma unroll
  for (int l = 0; l < ATONCE; l++) entry[l] = IDRSMessagesScalar(message + l * IDRS_PARTS);
}
