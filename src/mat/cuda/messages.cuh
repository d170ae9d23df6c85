/*
   Entries of a vector as messages between devices: see halo.h. No PETSc call.
*/
#pragma once

#include "../../sys/kernels/finish.cuh"
#include "halo.h"
#include "../../sys/kernels/rowsum.cuh"

/* More exchanges than are under way at the same time. A column that has not been sent for long has an old message */
#define IDRS_EXCHANGES_AHEAD 65536u

/* By all threads of a grid: sends the entries of u that other processes need */
static __device__ __forceinline__ void IDRSSendEntries(const IDRSSends &sends, const PetscScalar *u)
{
  for (size_t i = IDRSFirstRow<1>(); i < sends.items; i += IDRSRowStride<1>()) {
    const PetscScalar entry   = u[sends.index[i]];
    const PetscReal   part[2] = {PetscRealPart(entry), PetscImaginaryPart(entry)};

#pragma unroll
    for (int k = 0; k < IDRS_PARTS; k++) IDRSStoreSystem(sends.to[i] + k, IDRSMakeMessage(part[k], sends.number));
  }
}

/* Returns true if a message of this exchange has come, or of a later one, as far as matvecs are launched without sums */
static __device__ __forceinline__ bool IDRSMessageIsThereOrLater(const IDRSBlockMessage &message, uint32_t number)
{
  return max((uint32_t)(message.x >> 32) - number, (uint32_t)(message.y >> 32) - number) < IDRS_EXCHANGES_AHEAD;
}

/* Each lane of a warp waits by itself */
static __device__ __forceinline__ bool IDRSGoesOn(const IDRSGhosts &, bool left)
{
  return left;
}

/* Entries as they come, or any where the host has given up: it tells its caller */
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
