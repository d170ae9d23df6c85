/*
   Common parts of projections: the exchange of their sums with other processes, the algebra of a step, their end and their
   launches. x has been computed before, or a product computes x = A u row by row.

   The algebra on the device saves the host the wait for the sums. The first block of a projection computes it, or, if NCCL adds the
   sums of other processes, a separate kernel. If the device stops, the host finishes the step.
*/
#pragma once

#include <petscidrs/private/idrsops.h>
#include "../peers/idrspeers.h"
#include "coefficients.cuh"
#include "finish.cuh"
#include "launch.cuh"

/* Lanes that add up one sum */
#define IDRS_PEER_LANES (IDRS_MAX_PEERS / IDRS_LOADS_AT_ONCE)

static_assert(IDRS_SUMS(IDRS_CUDA_MAX_S, 1) * IDRS_PARTS <= IDRS_PEER_MESSAGES, "a mailbox holds all sums");

/*
   Called by all threads of a block. Replaces the scalars by their sums over all processes: each process writes its sums into the
   mailboxes of all processes, and adds up the sums in its own mailbox. Without an exchange it does nothing. Returns false if the
   host has stopped the wait
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

/*
   The location of the scalars, and the algebra after the sums of a step. If result is NULL, the host does the algebra; if storage
   is NULL, another kernel does. With an exchange the kernel adds the sums of other processes first
*/
typedef struct {
  PetscScalar     *storage;
  IDRSResult      *result;
  IDRSStep         step;
  IDRSBounds       bounds;
  PetscReal        pivotscale;
  IDRSPeerExchange exchange;
} IDRSAlgebra;

/*
   Called by all threads of a block. Copies the scalars, without the sums, to shared memory if they fit. Returns the address for the
   scalars and the sums
*/
template <int S>
static __device__ __forceinline__ PetscScalar *IDRSAlgebraBegin(const IDRSAlgebra &algebra, PetscInt s, PetscScalar *shared)
{
  const PetscInt count = IDRS_STORAGE_SUMS(s);

  if (s > S) return algebra.storage;
  for (PetscInt i = threadIdx.x; i < count; i += IDRS_THREADS) shared[i] = algebra.storage[i];
  return shared;
}

/*
   Called by all threads of a block, once the sums are in storage. Does the algebra, and stores the results for the passes. Inlined,
   although this makes kernels large: a function call took 0.6 to 1.3 us more per step for 13 824 or 262 144 rows on an H200
*/
template <int S, bool Y>
static __device__ __forceinline__ void IDRSAlgebraEnd(const IDRSAlgebra &algebra, PetscInt s, PetscScalar *storage)
{
  __syncthreads();
  if (threadIdx.x < IDRS_WARP) {
    const IDRSStep &step = algebra.step;
    /* only a projection with a y can belong to the start */
    const PetscBool start = Y ? step.start : PETSC_FALSE;
    IDRSScalars     scalars;
    PetscReal       rnorm;
    bool            stopped;

    IDRSScalarsSetPointers(&scalars, s, storage);
    scalars.pivotscale = algebra.pivotscale;
    rnorm              = PetscSqrtReal(PetscRealPart(scalars.sums[IDRSNormSum(s, Y ? PETSC_TRUE : PETSC_FALSE, step.unreported)]));
    /* alpha, M_k, beta_k, f and the next c, or omega */
    stopped = IDRSScalarsDecide(&scalars, step.k, start, Y ? PETSC_TRUE : PETSC_FALSE, step.unreported, rnorm, &algebra.bounds) !=
              IDRS_CONTINUES;
    if (threadIdx.x == 0) *algebra.result = {rnorm, stopped};
  }
  __syncthreads();
  if (s > S) return;
  for (PetscInt i = threadIdx.x; i < IDRS_STORAGE(s); i += IDRS_THREADS) algebra.storage[i] = storage[i];
}

/* The location of the sums */
typedef struct {
  IDRSPartials partials;
  PetscScalar *sums;     /* on the host, or on the device */
  uint64_t    *arrived;  /* on the host, set to sequence once the sums are there */
  uint64_t     sequence; /* 0: more launches follow */
  bool         ends;     /* else another kernel adds the sums of other rows to these */
} IDRSSums;

/* One launch of a projection, for at most IDRS_COLUMNS_AT_ONCE columns of the shadow space from `first` on */
struct _n_IDRSProjection {
  int                multiprocessors;
  cudaStream_t       stream;
  PetscInt           n, s, first;
  uint64_t           key, rstart; /* of the shadow space */
  Vec                operand;     /* u if the kernel computes x = A u, or NULL */
  bool               halo;        /* as in IDRSWorkspaceInfo */
  const PetscScalar *u;
  PetscScalar       *x;
  const PetscScalar *y;
  bool               both; /* there is a y, whose array is NULL if this process has no rows */
  IDRSSums           out;
  IDRSAlgebra        algebra;
};

/*
   Returns the number of blocks per multiprocessor for a kernel with this number of inner products. The algebra, which only the
   first block does, must not reduce the occupancy
*/
static constexpr int IDRSBlocksAtOnce(int products)
{
  return sizeof(PetscScalar) > 8 || products > 16 ? 1 : (products > 8 ? 3 : 4);
}

/* Returns shared memory for the scalars and their sums */
template <int S>
static __device__ __forceinline__ PetscScalar *IDRSSharedStorage()
{
  __shared__ PetscScalar storage[IDRS_STORAGE(S)];

  return storage;
}

/*
   Called by all threads before the rows. Begins to load the scalars, and returns true if the device has stopped. A product does not
   wait for this result: after a stop A u is not used
*/
template <int S>
static __device__ __forceinline__ bool IDRSProjectBegin(const IDRSShadow<S> &P, const IDRSAlgebra &algebra)
{
  if (algebra.storage && blockIdx.x == 0) IDRSAlgebraBegin<S>(algebra, P.s, IDRSSharedStorage<S>());
  return algebra.result && algebra.result->stopped;
}

/*
   Called by all threads after the rows. The first block adds up the sums of all blocks, and does the algebra if algebra.storage is
   set
*/
template <int S, bool Y>
static __device__ __forceinline__ void IDRSProjectEnd(IDRSDots<S, Y> &dots, const IDRSShadow<S> &P, const IDRSSums &out,
                                                      const IDRSAlgebra &algebra)
{
  const bool        yisr    = Y && !(algebra.step.start && algebra.step.k == P.s);
  PetscScalar      *storage = NULL, *sums = out.sums;
  IDRSWaitUnlimited wait;

  if (!IDRSDotsFinish<S, Y>(dots, out.partials) || !out.ends) return;
  if (algebra.storage) {
    storage = P.s > S ? algebra.storage : IDRSSharedStorage<S>();
    sums    = storage + IDRS_STORAGE_SUMS(P.s);
  }
  /* only in the first block */
  IDRSDotsTotal<S, Y, false>(out.partials, P, yisr, sums, wait);
  if (algebra.result) {
    if (algebra.storage && out.sequence && IDRSPeersAdd(algebra.exchange, IDRS_SUMS(P.s, Y), sums))
      IDRSAlgebraEnd<S, Y>(algebra, P.s, storage);
    return;
  }
  /* the host does the algebra: the sums must be visible before the sequence number */
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0 && out.sequence) *(volatile uint64_t *)out.arrived = out.sequence;
}

/* Calls launch with S and Y of a kernel as types, and with its shadow vectors */
template <typename L>
static cudaError_t IDRSDispatchProjection(const IDRSProjection &projection, L &&launch)
{
  return IDRSDispatch(PetscMin(projection.s, IDRS_COLUMNS_AT_ONCE), false, [&](auto S, auto) {
    if constexpr (S > 0) {
      const IDRSShadow<S> shadow = {(int)projection.s, (int)projection.first, projection.key, projection.rstart};

      if (projection.both) launch(S, std::true_type(), shadow);
      else launch(S, std::false_type(), shadow);
    }
  });
}
