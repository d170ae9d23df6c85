/*
   Many steps in one kernel: the code that blocks with their rows in global memory, whole.cu, and in their own shared memory,
   wholecluster.cu, have in common.

   Blocks exchange two things in a step:

     the direction u    each entry, for the rows of A u that need it
     the sums           of each block, which all blocks add, in the same order

   Then each block does the algebra of the step, with the same result. No barrier between blocks and no fence is needed, because
   blocks exchange messages, as in finish.cuh: each word of a message carries the number of its step, so a reader that finds the
   number also has the value. Messages are not overwritten before they are read:

     entries of u       A block writes the entries of step j+1 after it has the sums of all blocks of step j. The sums of a block
                        depend on everything that it has read of u in step j. So no block reads u of step j any more.
     sums               Sums of steps j and j+1 are in two places. A block overwrites its sums of step j by those of step j+2
                        after it has the sums of all blocks of step j+1. A block writes its sums of step j+1 after it has read
                        all sums of step j.

   Reliable updates happen between steps, see wholeupdate.cuh.

   If a block waits too long for another block, it gives up, and then all other blocks also give up. The kernel reports this to the
   host, and the solve ends with an error.
*/
#pragma once

#include "wholepasses.cuh"
#include "wholeupdate.cuh"

/*
   The blocks and their rows. Each kind of blocks is a class with these members:

     Rows            rows of a thread, as in rows.cuh
     A, u            the matrix, and the operand of its rows: u() publishes an entry of the next direction, u.number is the
                     number of the step, u.wait the limit of its waits
     poly            true if the preconditioner is a polynomial, see wholepoly.cuh; then a warp calls Product(A, u) for A u in the
                     row of each thread
     halo            true if a block also computes the passes for rows of other blocks. These halo rows follow its own rows. The
                     product and r^H r are for own rows only
     Publish()       publishes an entry of the product for other blocks that have this row in their halo
     PostSums()      posts the sums of this block for all blocks; returns true if a wait before it has timed out
     AddSums()       adds the sums of all blocks, with a y or without, at least in the first warp; returns true there if a wait
                     has timed out. During the wait the first warp calls a function, and other warps store published entries of
                     other blocks in the vector
     Synchronize()   a barrier of the block after the direction has been published
*/

/*
   Computes the product and the projection of a step, and posts the sums for all blocks. Returns true if a wait has timed out

   Input Parameters:
+  first  - the state of the hash in the first row of this thread
.  rr     - the part of r^H r of this thread
-  square - true to add r^H r here from the present r
*/
template <int S, bool Y, typename Blocks>
static __device__ __forceinline__ bool IDRSWholeProject(const IDRSWholeSteps &steps, const IDRSShadow<S> &P,
                                                        const IDRSShadowRow &first, Blocks &blocks, PetscScalar *x, PetscReal rr,
                                                        bool square)
{
  const IDRSIndex      n = (IDRSIndex)blocks.A.n, stride = (IDRSIndex)Blocks::Rows::template Stride<1>();
  IDRSShadowRow        state = first;
  IDRSDots<S, Y, true> dots;

  IDRSDotsClear(dots);
  dots.square[dots.squares - 1] = rr;
  for (IDRSIndex i = (IDRSIndex)Blocks::Rows::template First<1>(); Blocks::Rows::InWarp(i, n); i += stride) {
    const bool        there = i < n;
    const PetscScalar r = (Y || Blocks::halo) && there ? steps.r[i] : (PetscScalar)0.0, xi = IDRSWholeProduct(steps, blocks, i);

    if (there) {
      x[i] = xi;
      blocks.Publish(i, xi);
    }
    /* P^H x, x^H x, and with r P^H r, x^H r, r^H r */
    IDRSWholeDotsAdd<S, Y>(dots, state, xi, Y ? r : (PetscScalar)0.0);
    if (Blocks::halo && square) dots.square[dots.squares - 1] += IDRSAbsSquare(r);
    if (i + stride < n) state = IDRSShadowRowState(P.key, P.rstart + i + stride);
  }
  return blocks.template PostSums<S, Y>(dots);
}

/* Returns true if the host must continue, whatever the sums are. updates: number so far, or -1 if the host makes updates */
static __device__ __forceinline__ bool IDRSWholeIsLast(const IDRSLimits &limits, PetscInt completed, PetscInt updates)
{
  return limits.its + completed + 1 >= limits.maxits || completed + updates + 2 >= IDRS_WHOLE_STEPS;
}

/*
   Called by a warp before the sums of a step after the start have arrived: does everything that does not depend on them.
   limits.peak is the largest r^H r so far
*/
template <int S>
static __device__ __forceinline__ void IDRSWholePrepare(IDRSScalars *scalars, IDRSInverses<S> *inverses, const IDRSStep &step,
                                                        IDRSLimits &limits, bool last, IDRSLane<S> *lane,
                                                        IDRSLanesCoefficients<S> *c)
{
  if (lane->last >= 0 && IDRS_LANE == 0) limits.peak = max(limits.peak, lane->rr);
  /* the parts of M^{-1}P^H x that need no sums of this step */
  IDRSLanesPrepare<S>(scalars, inverses, (int)step.k, lane, c);
  lane->low  = last ? PETSC_MAX_REAL : (step.unreported ? limits.bounds.low : (PetscReal)-1.0);
  lane->high = step.unreported ? limits.bounds.high : PETSC_MAX_REAL;
}

/* Called by a warp: computes the coefficients of step k after the start from its sums, unless the host must continue */
template <int S>
static __device__ __forceinline__ IDRSWholeNext IDRSWholeContinueStep(IDRSScalars *scalars, int k, IDRSLane<S> *lane,
                                                                      IDRSLanesCoefficients<S> *c)
{
  const bool pivot = IDRSLanesStep<S>(scalars, k, lane, c);

  lane->rr = PetscRealPart(scalars->sums[IDRS_SUM_RR(scalars->s)]);
  if (!(pivot && IDRSIsWithin(lane->rr, lane->low, lane->high))) return IDRS_WHOLE_ENDS;
  lane->last = k;
  return IDRS_WHOLE_STEP;
}

/*
   Called by a warp: the same for a step of the start or an omega step. *square is r^H r before the step, and *next r^H r after it
   if an update follows. shared.limits contains squares; limits.peak is the largest one so far
*/
template <int S>
static __device__ __forceinline__ IDRSWholeNext IDRSWholeContinue(IDRSScalars *scalars, const IDRSStep &step,
                                                                  IDRSWholeShared<S> &shared, bool last, PetscInt updates,
                                                                  IDRSLane<S> *lane, PetscReal *square, PetscReal *next)
{
  const PetscInt  s     = scalars->s;
  const bool      omega = step.k == s;
  const PetscReal rr = PetscRealPart(scalars->sums[IDRS_SUM_RR(s)]), now = PetscRealPart(scalars->sums[IDRS_SUM_YY(s)]);
  IDRSLimits     &limits = shared.limits;
  bool            due    = false;

  *square = PetscRealPart(scalars->sums[IDRSNormSum(s, PETSC_TRUE, step.unreported)]);
  *next   = 0.0;
  if (last) return IDRS_WHOLE_ENDS;
  if (IDRS_LANE == 0 && step.unreported) limits.peak = max(limits.peak, rr);
  if (IDRS_LANE == 0 && step.start && !step.unreported && !(limits.anchornorm <= PETSC_MAX_REAL)) IDRSWholeSetAnchor(limits, now);
  IDRS_SYNC_WARP();
  if (!IDRSWarpAll(IDRSLanesAreFinite<S>(scalars, step.unreported))) return IDRS_WHOLE_ENDS;
  if (step.unreported && !IDRSIsWithin(rr, limits.bounds.low, limits.bounds.high)) return IDRS_WHOLE_ENDS;
  if (omega) {
    PetscScalar factor;

    if (IDRSScalarsDecideOmega(scalars, limits.bounds.cosine, &factor) != IDRS_CONTINUES) return IDRS_WHOLE_ENDS;
    *next = IDRSScalarsNormSquared(scalars, factor);
    due   = limits.fall > 0.0 &&
          (!IDRSScalarsIsSharp(scalars, *next) || IDRSUpdateIsDue(*next, limits.fall, limits.peak, limits.anchornorm));
    if (due && (updates < 0 || !IDRSWholeTrustsNorm(scalars, limits, *next))) return IDRS_WHOLE_ENDS;
    if (!due && !step.start) {
      IDRSLanesOmega<S>(scalars, factor, lane, &shared.c);
      lane->rr   = rr;
      lane->last = (int)s;
      return IDRS_WHOLE_STEP;
    }
  }
  if (IDRSScalarsContinue(scalars, step.k, step.start, limits.bounds.cosine, next) != IDRS_CONTINUES) return IDRS_WHOLE_ENDS;
  for (PetscInt j = IDRS_LANE; j < s; j += IDRS_LANES) IDRSGetCoefficient<S>(scalars, omega ? -1 : step.k, j, &shared.c);
  lane->last = IDRS_LANES_BEGIN;
  return due ? IDRS_WHOLE_UPDATE : IDRS_WHOLE_STEP;
}

/* Runs the passes after the algebra of a step, up to the next direction. Returns the part of r^H r of this thread */
template <int S, typename Rows, bool POLY, typename Publish>
static __device__ __forceinline__ PetscReal IDRSWholePasses(const IDRSWholeSteps &steps, const IDRSStep &step,
                                                            const IDRSLanesCoefficients<S> &c, const Publish &next)
{
  const int              s = steps.panels.s, k = (int)step.k;
  const bool             inner     = k + 1 < s;
  const IDRSDirection    direction = {inner, inner && !POLY, steps.diagonal, steps.v};
  const IDRSNotPublished nobody;

  /* omega step: z += omega p + U beta, r -= omega t, U_0 */
  if (k == s) return IDRSWholeAdvanceRows<S, Rows, POLY>(steps, c, next);
  /* G_k, U_k, r -= beta_k G_k, U_{k+1} */
  if (!step.start) return IDRSWholeUpdateRows<S, Rows, POLY>(steps, c, k, next);
  /* the start: v = r - G(:,0:k+1) c, U_{k+1} = B^{-1}v; after the last step r alone, see IDRSWholeEndStart() */
  if (inner && !POLY) return IDRSUpdateRows<S, 1, Rows>(steps.panels, c, direction, true, k, k + 1, steps.r, next);
  return IDRSUpdateRows<S, 1, Rows>(steps.panels, c, direction, true, k, k + 1, steps.r, nobody);
}

/* The omega step that ends the start: r = r - G c, with direction r or B^{-1}r */
template <int S, typename Rows, bool POLY, typename Publish>
static __device__ __forceinline__ void IDRSWholeEndStart(const IDRSWholeSteps &steps, const IDRSCoefficients<S> &c,
                                                         const Publish &next)
{
  const IDRSDirection direction = {true, false, NULL, steps.r};

  IDRSCombineRows<S, 1, Rows>(steps.panels, c, direction, 0, steps.panels.s, steps.r, [&](size_t i, IDRSPack<1> d) {
    if (steps.diagonal) {
      IDRSScaleEntries<1>(d, IDRSLoad<1>(steps.diagonal, i, steps.panels.n));
      IDRSStore<1>(steps.v, i, steps.panels.n, d);
    }
    if (!POLY) next(i, d);
  });
}

/* Returns the part of r^H r of this thread, over n rows */
template <typename Rows>
static __device__ __forceinline__ PetscReal IDRSWholeSquare(const PetscScalar *r, size_t n)
{
  PetscReal sum = 0.0;

  for (size_t i = Rows::template First<1>(); i < n; i += Rows::template Stride<1>()) sum += IDRSAbsSquare(r[i]);
  return sum;
}

/*
   Publishes the first direction, which has been computed. With step.wantu the direction is r or B^{-1}r, which is also stored as
   U_k, unless B is a polynomial. Returns the part of r^H r of this thread, over `own` rows
*/
template <typename Rows, bool POLY, typename Publish>
static __device__ __forceinline__ PetscReal IDRSWholeBegin(const IDRSWholeSteps &steps, size_t own, const Publish &publish)
{
  const size_t n         = steps.panels.n;
  const bool   omega     = steps.step.k == steps.panels.s;
  PetscScalar *direction = !omega ? steps.panels.U + steps.step.k * steps.panels.ld : (steps.diagonal || POLY ? steps.v : steps.r);
  PetscReal    rr        = 0.0;

  for (size_t i = Rows::template First<1>(); i < n; i += Rows::template Stride<1>()) {
    IDRSPack<1> u = IDRSLoad<1>(steps.r, i, n);

    if (i < own) rr += IDRSSquare<1>(u);
    if (POLY && steps.step.wantu) continue;
    if (steps.step.wantu) {
      if (steps.diagonal) IDRSScaleEntries<1>(u, IDRSLoad<1>(steps.diagonal, i, n));
      IDRSStore<1>(direction, i, n, u);
    } else u = IDRSLoad<1>(direction, i, n);
    publish(i, u);
  }
  return rr;
}

/*
   Runs the steps. Called by all threads of all blocks. r, the panels and the first direction are in the arrays of steps. Returns
   the step in which the host continues; the first block writes all other results for the host
*/
template <int S, typename Blocks>
static __device__ __forceinline__ IDRSStep IDRSWholeRun(const IDRSWholeSteps &steps, const IDRSShadow<S> &P, Blocks &blocks)
{
  __shared__ IDRSWholeShared<S> memory[1];
  IDRSWholeShared<S>           &shared = memory[IDRSKeep(0)];
  const int                     s      = steps.panels.s;
  const IDRSShadowRow           hash   = IDRSShadowRowState(P.key, P.rstart + Blocks::Rows::template First<1>());
  IDRSStep                      step   = steps.step;
  PetscReal                     rr;
  PetscInt                      completed = 0, reported = 0, updates = steps.x ? 0 : -1;
  IDRSScalars                   scalars;
  IDRSLane<S>                   lane;
  bool                          timedout;
  const auto                    prepare = [&]() {
    if (!step.start)
      IDRSWholePrepare<S>(&scalars, &shared.inverses, step, shared.limits, IDRSWholeIsLast(shared.limits, completed, updates),
                                             &lane, &shared.c);
  };

  lane.last = IDRS_LANES_BEGIN;
  IDRSScalarsSetPointers(&scalars, s, shared.storage);
  scalars.pivotscale = steps.pivotscale;
  if (threadIdx.x == 0) shared.limits = IDRSSquareLimits(steps.limits);
  for (int i = threadIdx.x; i < IDRS_STORAGE(s); i += blockDim.x)
    shared.storage[i] = i < IDRS_STORAGE_SUMS(s) ? steps.storage[i] : (PetscScalar)0.0;
  rr = IDRSWholeBegin<typename Blocks::Rows, Blocks::poly>(steps, blocks.A.n, blocks.u);
  if constexpr (Blocks::poly) {
    if (steps.step.wantu) IDRSWholeDirect(steps, blocks, 0, true, 1.0, steps.r); /* U_0 = B^{-1}r */
  }
  for (;;) {
    for (;; completed++) {
      PetscScalar *x = step.k < s ? steps.panels.G + step.k * steps.panels.ld : steps.t;

      /* the end of the start changes r after its norm has been computed */
      const bool y = IDRSStepHasY(&step, s), square = Blocks::halo && !(step.start && step.k == s);

      if (square) rr = 0.0;
      blocks.Synchronize();
      /* G_k = A U_k, or t = A p, and the sums of this block */
      if (y) timedout = IDRSWholeProject<S, true>(steps, P, hash, blocks, x, rr, square);
      else timedout = IDRSWholeProject<S, false>(steps, P, hash, blocks, x, rr, square);
      /* the sums of all blocks */
      timedout = blocks.template AddSums<S>(y, P, x, scalars.sums, prepare) || timedout;
      if (threadIdx.x < IDRS_WARP) {
        IDRSWholeNext follows;
        PetscReal     square, after = 0.0;

        if (y)
          follows = IDRSWholeContinue<S>(&scalars, step, shared, IDRSWholeIsLast(shared.limits, completed, updates), updates, &lane,
                                         &square, &after);
        else {
          /* alpha, M_k, beta_k, f, c */
          follows = IDRSWholeContinueStep<S>(&scalars, (int)step.k, &lane, &shared.c);
          square  = lane.rr;
        }
        if (threadIdx.x == 0) {
          shared.next     = timedout ? IDRS_WHOLE_ENDS : follows;
          shared.promised = after;
          if (blockIdx.x == 0) steps.result->squares[reported] = square; /* overwritten if the kernel ends here */
        }
      }
      __syncthreads();
      if (shared.next != IDRS_WHOLE_STEP) break;
      blocks.u.number++;
      if (step.start || step.unreported) reported++;
      /* the passes, and the direction of the next step */
      rr = IDRSWholePasses<S, typename Blocks::Rows, Blocks::poly>(steps, step, shared.c, blocks.u);
      IDRSStepNext(&step, s);
      if (step.start && step.k == s) {
        __syncthreads();
        for (int j = threadIdx.x; j < s; j += blockDim.x) IDRSGetCoefficient<S>(&scalars, -1, j, &shared.c);
        __syncthreads();
        /* the norm that is reported is the norm before r = r - G c */
        if (Blocks::halo) rr = IDRSWholeSquare<typename Blocks::Rows>(steps.r, blocks.A.n);
        IDRSWholeEndStart<S, typename Blocks::Rows, Blocks::poly>(steps, shared.c, blocks.u);
      }
      /* U_k = omega B^{-1}v + U c, or p = B^{-1}r */
      if constexpr (Blocks::poly)
        IDRSWholeDirect(steps, blocks, (int)step.k, step.start, shared.c.omega, step.k < s ? steps.v : steps.r);
    }
    if (shared.next == IDRS_WHOLE_ENDS) break;
    blocks.u.number++;
    if (step.start || step.unreported) reported++;
    rr = IDRSWholeMakeUpdate<S>(steps, P, blocks, &scalars, shared, &timedout);
    if (threadIdx.x == 0 && blockIdx.x == 0) {
      steps.result->squares[reported] = shared.promised;
      if (shared.goeson) steps.result->updated[updates] = {reported + 1, shared.limits.anchornorm};
    }
    reported++;
    completed++;
    step = {shared.goeson ? 0 : IDRS_RESIDUAL, PETSC_FALSE, PETSC_FALSE, PETSC_FALSE, PETSC_FALSE, step.matvec};
    if (!shared.goeson) break;
    updates++;
  }
  if (blockIdx.x) return step;
  for (int i = threadIdx.x; i < IDRS_STORAGE(s); i += blockDim.x) steps.result->storage[i] = shared.storage[i];
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) {
    steps.result->completed  = completed;
    steps.result->count      = reported;
    steps.result->updates    = max(updates, (PetscInt)0);
    steps.result->k          = (int)step.k;
    steps.result->start      = step.start;
    steps.result->unreported = step.unreported;
    steps.result->timedout   = timedout;
    __threadfence_system();
    *(volatile uint64_t *)steps.arrived = steps.sequence;
  }
  return step;
}

/* Calls launch with the S of a kernel as a type, and the shadow space. The error of the launch becomes one of PETSc */
template <typename L>
static PetscErrorCode IDRSDispatchWhole(IDRSWork work, L &&launch)
{
  cudaError_t error = cudaSuccess;

  PetscFunctionBegin;
  PetscCallCUDA(IDRSDispatch(work->s, false, [&](auto S, auto) {
    if constexpr (S > 0) error = launch(S, IDRSShadow<S>{(int)work->s, 0, IDRSShadowKey(work->seed), (uint64_t)work->rstart, {}});
  }));
  PetscCallCUDA(error);
  PetscFunctionReturn(PETSC_SUCCESS);
}
