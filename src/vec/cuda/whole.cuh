/*
   Many steps in one kernel, as blocks make them that have their rows in global memory, whole.cu, or in their own shared memory, onchip.cu: what both have in common.

   Two things go from block to block in a step:

     the direction u    each entry, for the rows of A u that need it
     the sums           of each block, which all blocks add up, in the same order

   Then every block does the algebra of the step for itself, with the same outcome. No barrier between blocks and no fence is needed: what goes from block to block is in messages, as in
   finish.cuh, each word of which carries the number of its step. Whoever reads the number has the value.

     entries of u       A block writes those of step j+1 once it has the sums of all blocks of step j. The sums of a block depend on all that it has read of u in step j.
                        So nobody reads u of step j any more.
     sums               Those of steps j and j+1 are in two places. A block writes those of step j+2 over those of step j once it has the sums of all blocks of step j+1, and a block
                        leaves these after it has read all sums of step j.

   Reliable updates are made between steps, see wholeupdate.cuh.

   A block that waits for another one too long gives up, and so do all others: then the host is told, and the solve ends with an error.
*/
#pragma once

#include "wholeupdate.cuh"

/*
   The blocks and their rows, a class each:

     Rows            those of a thread, as in rows.cuh
     A, u            the matrix, and the operand of its rows: u() tells an entry of the next direction, u.number is the number of the step, u.patience how long is waited
     Sums()          adds up the sums of all blocks, for the first warp at least; true there if a message has not come
     Meet()          after the direction has been told: what threads of this block are told without messages is there
*/

/* Product and projection of a step, with the sums of all blocks; rr: part of r^H r of this thread */
template <int S, bool Y, bool HASHED, typename Blocks>
static __device__ __forceinline__ bool IDRSWholeProject(const IDRSWholeSteps &steps, const IDRSShadow<S> &P, Blocks &blocks, PetscScalar *x, PetscReal rr, PetscScalar *sums)
{
  const size_t         n = steps.panels.n, lane = threadIdx.x % IDRS_WARP;
  IDRSDots<S, Y, true> dots;

  IDRSDotsClear(dots);
  dots.square[dots.squares - 1] = rr;
  for (size_t row = Blocks::Rows::template First<1>() - lane; row < n; row += Blocks::Rows::template Stride<1>()) {
    const size_t i = row + lane;
    IDRSPack<1>  xi, yi = IDRSZero<1>();

    if (Y) yi = IDRSLoad<1>(steps.r, i, n);
    xi.v[0] = IDRSRowSumShared<IDRS_WHOLE_ATONCE>(blocks.A, blocks.u, (IDRSIndex)row, steps.own);
    IDRSStore<1>(x, i, n, xi);
    IDRSDotsAdd<S, 1, Y, HASHED>(dots, P, i, n, xi, yi);
  }
  return blocks.template Sums<S, Y, HASHED>(dots, P, sums);
}

/*
   By a warp: what follows from the sums of this step, with its coefficients unless that is left to the host. *square is r^H r at its begin, and *next after it where an update follows; limits.peak, of
   squares as they all are, the largest one so far. updates: made so far, or -1 where the host makes them
*/
template <int S>
static __device__ __forceinline__ IDRSWholeNext IDRSWholeContinue(IDRSScalars *scalars, const IDRSStep &step, IDRSLimits &limits, PetscInt completed, PetscInt updates, IDRSCoefficients<S> *c, PetscReal *square, PetscReal *next)
{
  const PetscInt  s     = scalars->s;
  const bool      omega = step.k == s, y = step.start || omega;
  const PetscReal rr = PetscRealPart(scalars->sums[IDRS_SUM_RR(s)]), now = y ? PetscRealPart(scalars->sums[IDRS_SUM_YY(s)]) : rr;
  bool            due;

  *square = step.unreported || !y ? rr : now; /* the start has a norm to tell before any iteration is unreported */
  *next   = 0.0;
  if (limits.its + completed + 1 >= limits.maxits || completed + updates + 2 >= IDRS_WHOLE_STEPS) return IDRS_WHOLE_ENDS;
  if (IDRS_LANE == 0 && step.unreported) limits.peak = max(limits.peak, rr);
  if (IDRS_LANE == 0 && step.start && !step.unreported && !(limits.anchornorm <= PETSC_MAX_REAL)) IDRSWholeSetAnchor(limits, now);
  IDRS_SYNC_WARP();
  due = omega && IDRSUpdateIsDue(now, limits.fall, limits.peak, limits.anchornorm);
  if (due && updates < 0) return IDRS_WHOLE_ENDS;
  if (!IDRSWarpAll(IDRSScalarsAreFinite(scalars, y ? PETSC_TRUE : PETSC_FALSE, step.unreported))) return IDRS_WHOLE_ENDS;
  if (step.unreported && !(rr > limits.bounds.low && rr < limits.bounds.high)) return IDRS_WHOLE_ENDS;
  if (!y) return IDRSLanesStep<S>(scalars, (int)step.k, c) ? IDRS_WHOLE_STEP : IDRS_WHOLE_ENDS;
  if (due && !IDRSWholeKnowsNorm(scalars, limits)) return IDRS_WHOLE_ENDS;
  if (!IDRSScalarsContinue(scalars, step.k, step.start, limits.bounds.cosine, next)) return IDRS_WHOLE_ENDS;
  for (PetscInt j = IDRS_LANE; j < s; j += IDRS_LANES) IDRSGetCoefficient<S>(scalars, omega ? -1 : step.k, j, c);
  return due && IDRSUpdateIsDue(*next, limits.fall, limits.peak, limits.anchornorm) ? IDRS_WHOLE_UPDATE : IDRS_WHOLE_STEP;
}

/* The passes after the algebra of a step, up to the next direction. Returns the part of r^H r of this thread */
template <int S, typename Rows, typename Tell>
static __device__ __forceinline__ PetscReal IDRSWholePasses(const IDRSWholeSteps &steps, const IDRSStep &step, const IDRSCoefficients<S> &c, const Tell &next)
{
  const int            s = steps.panels.s, k = (int)step.k;
  const bool           inner     = k + 1 < s;
  const IDRSDirection  direction = {inner || (k < s && steps.diagonal && !step.start) || k == s, inner || k == s, steps.diagonal, steps.v};
  const IDRSTellNobody nobody;

  if (k == s) return IDRSAdvanceRows<S, 1, Rows>(steps.panels, c, direction, s, (const PetscScalar *)NULL, steps.t, steps.z, steps.r, next);
  if (!step.start) return IDRSUpdateRows<S, 1, false, Rows>(steps.panels, c, direction, k, direction.wantv ? s : k + 1, steps.r, next);
  if (inner) return IDRSUpdateRows<S, 1, true, Rows>(steps.panels, c, direction, k, k + 1, steps.r, next);
  return IDRSUpdateRows<S, 1, true, Rows>(steps.panels, c, direction, k, k + 1, steps.r, nobody);
}

/* The omega step that ends the start begins with r = r - G c, and its direction is r or B^{-1}r */
template <int S, typename Rows, typename Tell>
static __device__ __forceinline__ void IDRSWholeEndStart(const IDRSWholeSteps &steps, const IDRSCoefficients<S> &c, const Tell &next)
{
  const IDRSDirection direction = {true, false, NULL, steps.r};

  IDRSCombineRows<S, 1, Rows>(steps.panels, c, direction, 0, steps.panels.s, steps.r, [&](size_t i, IDRSPack<1> d) {
    if (steps.diagonal) {
      IDRSScaleEntries<1>(d, IDRSLoad<1>(steps.diagonal, i, steps.panels.n));
      IDRSStore<1>(steps.v, i, steps.panels.n, d);
    }
    next(i, d);
  });
}

/* Tells of the direction to begin with, which is there, or with step.wantu r or B^{-1}r, and becomes U_k. Returns the part of r^H r of this thread */
template <typename Rows, typename Tell>
static __device__ __forceinline__ PetscReal IDRSWholeBegin(const IDRSWholeSteps &steps, const Tell &tell)
{
  const size_t n         = steps.panels.n;
  const bool   omega     = steps.step.k == steps.panels.s;
  PetscScalar *direction = !omega ? steps.panels.U + steps.step.k * steps.panels.ld : (steps.diagonal ? steps.v : steps.r);
  PetscReal    rr        = 0.0;

  for (size_t i = Rows::template First<1>(); i < n; i += Rows::template Stride<1>()) {
    IDRSPack<1> u = IDRSLoad<1>(steps.r, i, n);

    rr += IDRSSquare<1>(u);
    if (steps.step.wantu) {
      if (steps.diagonal) IDRSScaleEntries<1>(u, IDRSLoad<1>(steps.diagonal, i, n));
      IDRSStore<1>(direction, i, n, u);
    } else u = IDRSLoad<1>(direction, i, n);
    tell(i, u);
  }
  return rr;
}

/* The steps, by all threads of all blocks. r, the panels and the direction to begin with are where steps points to. Returns the step in which the host continues; the first block tells the host the rest */
template <int S, bool HASHED, typename Blocks>
static __device__ __forceinline__ IDRSStep IDRSWholeRun(const IDRSWholeSteps &steps, const IDRSShadow<S> &P, Blocks &blocks)
{
  __shared__ PetscScalar storage[IDRS_STORAGE(S)];
  __shared__ IDRSCoefficients<S> c;
  __shared__ IDRSLimits          limits; /* for r^H r */
  __shared__ IDRSWholeNext       next;
  __shared__ PetscReal           promised; /* r^H r after the omega step before an update */
  __shared__ bool                goeson;   /* after one */
  const int                      s    = steps.panels.s;
  IDRSStep                       step = steps.step;
  PetscReal                      rr;
  PetscInt                       completed = 0, told = 0, updates = steps.x ? 0 : -1;
  IDRSScalars                    scalars;
  bool                           lost;

  IDRSScalarsSetPointers(&scalars, s, storage);
  scalars.pivotscale = steps.pivotscale;
  if (threadIdx.x == 0) limits = IDRSSquareLimits(steps.limits);
  for (int i = threadIdx.x; i < IDRS_STORAGE(s); i += blockDim.x) storage[i] = i < IDRS_STORAGE_SUMS(s) ? steps.storage[i] : (PetscScalar)0.0;
  rr = IDRSWholeBegin<typename Blocks::Rows>(steps, blocks.u);
  for (;;) {
    for (;; completed++) {
      PetscScalar *x = step.k < s ? steps.panels.G + step.k * steps.panels.ld : steps.t;

      blocks.Meet();
      if (step.start || step.k == s) lost = IDRSWholeProject<S, true, HASHED>(steps, P, blocks, x, rr, scalars.sums);
      else lost = IDRSWholeProject<S, false, HASHED>(steps, P, blocks, x, rr, scalars.sums);
      if (threadIdx.x < IDRS_WARP) {
        PetscReal           square, after;
        const IDRSWholeNext follows = IDRSWholeContinue<S>(&scalars, step, limits, completed, updates, &c, &square, &after);

        if (threadIdx.x == 0) {
          next     = lost ? IDRS_WHOLE_ENDS : follows;
          promised = after;
          if (blockIdx.x == 0) steps.result->squares[told] = square; /* counts if the kernel goes on */
        }
      }
      __syncthreads();
      if (next != IDRS_WHOLE_STEP) break;
      blocks.u.number++;
      if (step.start || step.unreported) told++;
      rr              = IDRSWholePasses<S, typename Blocks::Rows>(steps, step, c, blocks.u);
      step.unreported = PETSC_TRUE;
      if (step.k == s) step.start = PETSC_FALSE;
      step.k = step.k < s ? step.k + 1 : 0;
      if (step.start && step.k == s) {
        __syncthreads();
        for (int j = threadIdx.x; j < s; j += blockDim.x) IDRSGetCoefficient<S>(&scalars, -1, j, &c);
        __syncthreads();
        IDRSWholeEndStart<S, typename Blocks::Rows>(steps, c, blocks.u);
      }
    }
    if (next == IDRS_WHOLE_ENDS) break;
    blocks.u.number++;
    if (step.start || step.unreported) told++;
    rr = IDRSWholeMakeUpdate<S, HASHED>(steps, P, blocks, &scalars, limits, promised, c, goeson, &lost);
    if (threadIdx.x == 0 && blockIdx.x == 0) {
      steps.result->squares[told] = promised;
      if (goeson) steps.result->updated[updates] = {told + 1, limits.anchornorm};
    }
    told++;
    completed++;
    step = {goeson ? 0 : IDRS_RESIDUAL, PETSC_FALSE, PETSC_FALSE, PETSC_FALSE, PETSC_FALSE, step.matvec};
    if (!goeson) break;
    updates++;
  }
  if (blockIdx.x) return step;
  for (int i = threadIdx.x; i < IDRS_STORAGE(s); i += blockDim.x) steps.result->storage[i] = storage[i];
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) {
    steps.result->completed  = completed;
    steps.result->count      = told;
    steps.result->updates    = max(updates, (PetscInt)0);
    steps.result->k          = (int)step.k;
    steps.result->start      = step.start;
    steps.result->unreported = step.unreported;
    steps.result->lost       = lost;
    __threadfence_system();
    *(volatile uint64_t *)steps.arrived = steps.sequence;
  }
  return step;
}

/* Calls launch with S and HASHED of a kernel as types, and the shadow vectors that it takes. The error of the launch becomes one of PETSc */
template <typename L>
static PetscErrorCode IDRSDispatchWhole(IDRSWork work, L &&launch)
{
  const PetscScalar *P[IDRS_COLUMNS_AT_ONCE];
  cudaError_t        error = cudaSuccess;

  PetscFunctionBegin;
  for (PetscInt j = 0; work->P && j < work->s; j++) PetscCall(IDRSGetArrayRead_CUDA(work->P[j], &P[j]));
  PetscCallCUDA(IDRSDispatch(work->s, false, [&](auto S, auto) {
    if constexpr (S > 0) {
      IDRSShadow<S> shadow = {(int)work->s, 0, IDRSShadowKey(work->seed), (uint64_t)work->rstart, {}};

      for (PetscInt j = 0; work->P && j < work->s; j++) shadow.a[j] = P[j];
      if (work->P) error = launch(S, std::false_type(), shadow);
      else error = launch(S, std::true_type(), shadow);
    }
  }));
  PetscCallCUDA(error);
  for (PetscInt j = 0; work->P && j < work->s; j++) PetscCall(VecRestoreArrayReadAndMemType(work->P[j], &P[j]));
  PetscFunctionReturn(PETSC_SUCCESS);
}
