/*
   Adds up sums over the devices of several processes, inside a kernel: see idrspeers.h. Each process writes its sums into the
   mailboxes of all processes, and adds up the sums in its own mailbox in the order of the processes. So all devices get the same
   bits. No PETSc call.
*/
#pragma once

#include "../peers/idrspeers.h"
#include "finish.cuh"

/* Lanes that add up one sum */
#define IDRS_PEER_LANES (IDRS_MAX_PEERS / IDRS_LOADS_AT_ONCE)

static_assert(IDRS_SUMS(IDRS_CUDA_MAX_S, 1) * IDRS_PARTS <= IDRS_PEER_MESSAGES, "a mailbox holds all sums");

/*
   Called by all threads of a block. Replaces the scalars by their sums over all processes; without an exchange it does nothing.
   Returns false if the host has stopped the wait
*/
static __device__ __forceinline__ bool IDRSPeersAdd(const IDRSPeerExchange &exchange, int scalars, PetscScalar *sums)
{
  const int     count  = scalars * IDRS_PARTS;
  PetscReal    *values = (PetscReal *)sums;
  IDRSWaitPeers wait;
  int           size, rank;

  if (!exchange.peers) return true;
  size = exchange.peers->size;
  rank = exchange.peers->rank;
  wait = {exchange.peers->givenup, 0, false};
  __syncthreads();
  for (int k = threadIdx.x; k < count * size; k += IDRS_THREADS) {
    const int p = k / count, i = k % count;

    /* a copy of each sum to the mailbox of each process */
    IDRSStoreSystem(exchange.peers->mailbox[p] + exchange.first + i * size + rank, IDRSMakeMessage(values[i], exchange.number));
  }
  __syncthreads();
  for (int begin = 0; begin < count; begin += IDRS_THREADS / IDRS_PEER_LANES) {
    const int i = begin + (int)threadIdx.x / IDRS_PEER_LANES;
    /* in the order of the processes, so that all devices get the same bits */
    const PetscReal sum = IDRSMessagesSum<IDRS_PEER_LANES>(exchange.peers->mailbox[rank] + exchange.first +
                                                             min(i, count - 1) * size,
                                                           exchange.number, size, wait);

    if (i < count && threadIdx.x % IDRS_PEER_LANES == 0) values[i] = sum;
  }
  return !__syncthreads_or(wait.ended);
}
