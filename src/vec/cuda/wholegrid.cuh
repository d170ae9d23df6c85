/*
   Many steps in one kernel: blocks with their rows in global memory, and the exchange between them
*/
#pragma once

#include "whole.cuh"

/* The u of a step, which is exchanged between blocks */
struct IDRSEntries {
  IDRSBlockMessage *entries;
  uint32_t          number;
  IDRSWaitPolls    *wait;

  __device__ __forceinline__ void operator()(size_t i, const IDRSPack<1> &u) const
  {
    IDRSPostScalar(entries + i * IDRS_PARTS, u.v[0], number);
  }
};

/*
   The lanes of a warp wait until all of them can continue. If one lane waited separately, the warp would diverge until the next
   barrier, and each of its shuffles would take hundreds of cycles
*/
static __device__ __forceinline__ bool IDRSGoesOn(const IDRSEntries &, bool left)
{
  return !IDRSWarpAll(!left);
}

/* Waits for the entries in these columns, -1 for none. All loads are issued before the first value is tested. One warp */
template <int ATONCE>
static __device__ __forceinline__ void IDRSGather(const IDRSEntries &u, const PetscInt column[ATONCE], PetscScalar entry[ATONCE])
{
  IDRSBlockMessage message[ATONCE * IDRS_PARTS];
  bool             all;

  do {
#pragma unroll
    for (int l = 0; l < ATONCE * IDRS_PARTS; l++)
      message[l] = IDRSLoadRelaxed(u.entries + (size_t)max(column[l / IDRS_PARTS], (PetscInt)0) * IDRS_PARTS + l % IDRS_PARTS);
    all = true;
#pragma unroll
    for (int l = 0; l < ATONCE * IDRS_PARTS; l++) all = all & IDRSMessageIsThere(message[l], u.number);
  } while (!IDRSWarpAll(all || u.wait->Ends())); /* each lane counts its own loads here, as in IDRSMessagesSum() */
#pragma unroll
  for (int l = 0; l < ATONCE; l++) entry[l] = IDRSMessagesScalar(message + l * IDRS_PARTS);
}

/* Blocks whose rows are in global memory */
struct IDRSGridBlocks {
  typedef IDRSGridRows  Rows;
  static constexpr bool halo = false, poly = false;
  const IDRSCSR        &A;
  const IDRSPartials   &messages;
  IDRSEntries           u;

  /* Sums of even and odd steps have two places */
  __device__ __forceinline__ IDRSPartials Partials() const
  {
    IDRSPartials partials = messages;

    partials.launch  = u.number;
    partials.earlier = 0;
    if (u.number % 2) partials.messages = partials.second;
    return partials;
  }

  /* PostSums() and AddSums() are called by all threads. No sums are posted if a part is missing */
  template <int S, bool Y>
  __device__ __forceinline__ bool PostSums(IDRSDots<S, Y, true> &dots)
  {
    if (__syncthreads_or(!u.wait->left)) return true;
    (void)IDRSDotsFinish<S, Y>(dots, Partials());
    return false;
  }

  template <int S, typename Meanwhile>
  __device__ __forceinline__ bool AddSums(bool y, const IDRSShadow<S> &P, PetscScalar *, PetscScalar *sums,
                                          const Meanwhile &meanwhile)
  {
    if (threadIdx.x < IDRS_WARP) meanwhile();
    if (y) IDRSDotsTotal<S, true, true, true>(Partials(), P, false, sums, *u.wait);
    else IDRSDotsTotal<S, false, true, true>(Partials(), P, false, sums, *u.wait);
    return __syncthreads_or(!u.wait->left);
  }

  __device__ __forceinline__ void Publish(size_t, PetscScalar) const {}

  __device__ __forceinline__ void Synchronize() const {}
};
