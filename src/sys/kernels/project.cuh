/*
   Common parts of projections: their end and their launches. x has been computed before, or a product computes x = A u row by row
*/
#pragma once

#include "algebra.cuh"
#include "launch.cuh"
#include "peers.cuh"

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
  int                       multiprocessors;
  cudaStream_t              stream;
  PetscInt                  n, s, first;
  uint64_t                  key, rstart; /* of the hashed shadow space */
  const PetscScalar *const *P;           /* the arrays of explicit shadow vectors, else NULL */
  Vec                       operand;     /* u if the kernel computes x = A u, or NULL */
  bool                      halo;        /* as in IDRSWorkInfo */
  const PetscScalar        *u;
  PetscScalar              *x;
  const PetscScalar        *y;
  bool                      both; /* there is a y, whose array is NULL if this process has no rows */
  IDRSSums                  out;
  IDRSAlgebra               algebra;
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
template <int S, bool Y, bool HASHED>
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
  IDRSDotsTotal<S, Y, HASHED, false>(out.partials, P, yisr, sums, wait);
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

/*
   Calls launch with S, Y and HASHED of a kernel as types, and with its shadow vectors. All numbers of explicit shadow vectors share
   one kernel, because few solves have them
*/
template <typename L>
static cudaError_t IDRSDispatchProjection(const IDRSProjection &projection, L &&launch)
{
  const auto dispatch = [&](auto S, auto HASHED) {
    IDRSShadow<S> shadow = {(int)projection.s, (int)projection.first, projection.key, projection.rstart, {}};

    for (PetscInt j = 0; projection.P && j < S && projection.first + j < projection.s; j++)
      shadow.a[j] = projection.P[projection.first + j];
    if (projection.both) launch(S, std::true_type(), HASHED, shadow);
    else launch(S, std::false_type(), HASHED, shadow);
  };

  if (projection.P) {
    dispatch(IDRSInt<IDRS_COLUMNS_AT_ONCE>(), std::false_type());
    return cudaGetLastError();
  }
  return IDRSDispatch(PetscMin(projection.s, IDRS_COLUMNS_AT_ONCE), false, [&](auto S, auto) {
    if constexpr (S > 0) dispatch(S, std::true_type());
  });
}
