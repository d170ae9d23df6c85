/*
   The persistent kernel with a polynomial preconditioner: vectors are in global memory, and the lanes of all blocks hold the matrix
   of the polynomial in registers, and have the same rows of the operator. Between the passes of a step and the next direction all
   threads apply the polynomial. Its products are steps of matrix powers, see idrspowers.h and rowlanes.cuh:

     y = output v_k,   v_0 = input P x,   v_j = gamma_j (D^{-1}A~ - theta_j) v_{j-1} - mu_j v_{j-2}

   Each product of an application has separate places for the entries of its vector, so no entry is overwritten while another block
   may still read it. Applications use two sets of places in turn, and each application clears the other set. All blocks have read
   that set, because the sums of all blocks have been exchanged since then. The threads that clear a set pass a barrier, with a
   release by the last store, before their block posts its sums. So the set is clear for each block that has these sums.
*/
#include "persistentlayout.h"
#include <petscidrs/private/idrsmatching.h>
#include "../../mat/powers/rowlanes.cuh"
#include "../../sys/device/cluster.cuh"

/* The u of a step, which is exchanged between blocks */
struct IDRSPersistentEntries {
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
static __device__ __forceinline__ bool IDRSGoesOn(const IDRSPersistentEntries &, bool left)
{
  return !IDRSWarpAll(!left);
}

/* Waits for the entries in these columns, -1 for none. All loads are issued before the first value is tested. One warp */
template <int ATONCE>
static __device__ __forceinline__ void IDRSGather(const IDRSPersistentEntries &u, const PetscInt column[ATONCE],
                                                  PetscScalar entry[ATONCE])
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

/* More than the number of rows */
#define IDRS_LANE_ROWS ((size_t)1 << 30)

/* A thread has the row whose first lane it is, or none: row n. It has no second row */
struct IDRSLaneRows {
  static __device__ __forceinline__ IDRSIndex &Mine()
  {
    __shared__ IDRSIndex rows[IDRS_THREADS];

    return rows[threadIdx.x];
  }

  template <int W>
  static __device__ __forceinline__ size_t First()
  {
    return Mine();
  }

  template <int W>
  static __device__ __forceinline__ size_t Stride()
  {
    return IDRS_LANE_ROWS;
  }

  static __device__ __forceinline__ bool InWarp(size_t i, size_t) { return i < IDRS_LANE_ROWS; }
};

struct IDRSPolyBlocks {
  typedef IDRSLaneRows            Rows;
  static constexpr bool           poly = true;
  const IDRSCSR                  &A;
  const IDRSPartials             &messages;
  const IDRSPersistentPolynomial &polynomial;
  IDRSPersistentEntries           u;
  int                             set; /* of places, for the next application */
  IDRSRowLane                     mine;
  IDRSPowersEntries               entries; /* of the matrix of the polynomial */

  __device__ __forceinline__ IDRSPolyBlocks(const IDRSPersistentSteps &steps, const IDRSPersistentPolynomial &p,
                                            IDRSWaitPolls *wait)
    : A(steps.A), messages(steps.partials), polynomial(p), u{steps.entries, steps.partials.launch, wait}, set(0), mine{-1, 0, 0, 0}
  {
    const unsigned int lane = blockIdx.x * IDRS_THREADS + threadIdx.x;

    if (lane < p.count) mine = p.lanes[lane];
    IDRSPowersLoad(p.A, mine, entries);
    Rows::Mine() = (IDRSIndex)(entries.first ? entries.row : A.n);
  }

  /* Returns the entry of A u in the row of this thread. Only the first warp of a row reads entries of the operator */
  __device__ __forceinline__ PetscScalar Product(size_t) const
  {
    const bool  there = mine.row >= 0 && mine.part < IDRS_WARP;
    const int   lanes = min(mine.lanes, IDRS_WARP);
    PetscScalar sum   = IDRSEntriesSum<IDRS_ROW_ATONCE>(A, u, there ? A.i[mine.row] + mine.part : 0, there ? A.i[mine.row + 1] : 0,
                                                      there ? lanes : 1);

    /* sum of parts j ... min(j + 2 offset, lanes) - 1 */
    for (int offset = 1; offset < entries.most; offset *= 2) {
      const PetscScalar other = IDRSShuffleDown(sum, offset);

      if (mine.part + offset < lanes) sum += other;
    }
    return entries.first ? sum : (PetscScalar)0.0;
  }

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
  __device__ __forceinline__ bool AddSums(bool y, const IDRSShadow<S> &P, PetscScalar *sums, const Meanwhile &meanwhile)
  {
    if (threadIdx.x < IDRS_WARP) meanwhile();
    if (y) IDRSDotsTotal<S, true, true>(Partials(), P, false, sums, *u.wait);
    else IDRSDotsTotal<S, false, true>(Partials(), P, false, sums, *u.wait);
    return __syncthreads_or(!u.wait->left);
  }

  __device__ __forceinline__ void Synchronize() const {}

  /* Returns the entry of B^{-1}x for the row of this thread, which has written its entry of x. Called by all threads */
  __device__ __forceinline__ PetscScalar Apply(const PetscScalar *x)
  {
    const IDRSPersistentPolynomial &p      = polynomial;
    const bool                      there  = entries.first;
    const PetscInt                  i      = entries.row;
    IDRSMarked                     *places = p.places[set], *clear = p.places[1 - set];
    PetscScalar                     last = there ? x[i] : (PetscScalar)0.0, before = 0.0;
    const auto                      publish = [&]() {
      if (there) IDRSMarkedStore(places + i, last);
      if (entries.place >= 0) IDRSMarkedClear(clear + entries.place);
      clear += p.stride;
    };

    set = 1 - set;
    if (p.row) {
      const PetscInt column[1] = {there ? p.row[i] : -1};
      IDRSMarked     marked[1];

      publish();
      IDRSPowersGather<1>(places, column, marked, u.wait);
      last = there ? IDRSMarkedValue(marked[0]) : (PetscScalar)0.0;
      places += p.stride;
    }
    if (there && p.input) last *= p.input[i];
#pragma unroll 1
    for (int j = 0; j < p.steps; j++, places += p.stride) {
      PetscScalar next;

      publish();
      next = IDRSPowersProduct(entries, places, u.wait);
      if (there && p.inverse) next *= p.inverse[i];
      next   = p.gamma[j] * (next - p.theta[j] * last) - p.mu[j] * before;
      before = last;
      last   = next;
    }
    return there && p.output ? p.output[i] * last : last;
  }

  /*
     Computes the direction from B^{-1}x, where x is v, or r before an omega step. Called by all threads

       U_k = omega B^{-1}v + U(:,k:s) c,   in the start U_k = B^{-1}v,   in the omega step p = B^{-1}r
  */
  template <int S>
  __device__ __forceinline__ void Direct(const IDRSPersistentSteps &steps, const IDRSCoefficients<S> &c, int k, bool start,
                                         const PetscScalar *x)
  {
    const IDRSBases &bases = steps.bases;
    const size_t     i     = Rows::First<1>();
    PetscScalar      y     = Apply(x);

    if (i < bases.n) {
      if (k < bases.s) {
        PetscScalar *U = bases.U + i;

        if (!start) {
          /* the update of step k - 1 has c of step k in b, see IDRSAlgebraCoefficients */
          const PetscScalar *ck = k ? c.b : c.a;

          y *= c.omega;
#pragma unroll
          for (int j = 0; j < S; j++) {
            if (j >= k && j < bases.s) y += ck[j] * U[j * bases.ld];
          }
        }
        U[k * bases.ld] = y;
      } else steps.v[i] = y;
      u(i, IDRSPack<1>{{y}});
    }
    /* the set is clear before this thread passes the barrier before the sums of the step */
    if (entries.place >= 0) IDRSMarkedClearRelease(polynomial.places[set] + entries.place);
  }
};

template <int S>
static __global__ void __launch_bounds__(IDRS_THREADS, 1)
  IDRSPersistentPolyKernel(const __grid_constant__ IDRSPersistentSteps steps, const __grid_constant__ IDRSShadow<S> P,
                           const __grid_constant__ IDRSPersistentPolynomial polynomial)
{
  IDRSWaitPolls  wait = {steps.polls};
  IDRSPolyBlocks blocks(steps, polynomial, &wait);

  (void)IDRSPersistentRun<S>(steps, P, blocks);
}

/* IDRSPersistentGetPolynomial_CUDA - Returns the polynomial preconditioner of all solves, whose arrays do not move */
PetscErrorCode IDRSPersistentGetPolynomial_CUDA(IDRSWorkspace work, const IDRSPersistentLanes *lanes,
                                                IDRSPersistentPolynomial *poly)
{
  const IDRSPolynomial *polynomial = work->polynomial;
  const IDRSPowers     *powers     = &polynomial->powers;

  PetscFunctionBegin;
  PetscCall(IDRSGetCSR(powers->A, &poly->A));
  PetscCall(IDRSFindArrayRead_CUDA(powers->inverse, &poly->inverse));
  PetscCall(IDRSFindArrayRead_CUDA(polynomial->sum.input, &poly->input));
  PetscCall(IDRSFindArrayRead_CUDA(polynomial->sum.output, &poly->output));
  if (polynomial->sum.matching) PetscCall(IDRSMatchingGetPlaces(polynomial->sum.matching, NULL, &poly->row));
  poly->lanes  = lanes->lane;
  poly->count  = lanes->count;
  poly->stride = lanes->places;
  poly->steps  = (int)powers->k;
  for (int j = 0; j < poly->steps; j++) {
    poly->gamma[j] = powers->gamma[j];
    poly->theta[j] = powers->theta[j];
    poly->mu[j]    = j ? powers->mu[j] : (PetscScalar)0.0;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSPersistentPolyLaunch_CUDA - Launches the kernel of a solve, with separate places */
PetscErrorCode IDRSPersistentPolyLaunch_CUDA(IDRSWorkspace work, const IDRSPersistentPolynomial *polynomial, IDRSMarked *places,
                                             const IDRSPersistentSteps *steps, cudaStream_t stream)
{
  const unsigned int       blocks = PetscMax((polynomial->count + IDRS_THREADS - 1) / IDRS_THREADS, 1);
  const size_t             count  = ((size_t)polynomial->steps + 1) * polynomial->stride;
  IDRSPersistentPolynomial poly   = *polynomial;

  PetscFunctionBegin;
  PetscCallCUDA(cudaMemsetAsync(places, 0xff, 2 * count * sizeof(*places), stream)); /* sets all to IDRS_ABSENT */
  poly.places[0] = places;
  poly.places[1] = places + count;
  PetscCall(IDRSDispatchPersistent(work, [&](auto S, auto shadow) {
    return IDRSLaunchCooperative(IDRSPersistentPolyKernel<S>, blocks, IDRS_THREADS, stream, *steps, shadow, poly);
  }));
  PetscFunctionReturn(PETSC_SUCCESS);
}
