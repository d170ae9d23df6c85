/*
   Reliable updates inside a kernel of many steps, whole.cuh, by the rules of idrsstep.h. An update computes the
   same results as on the host, except for rounding errors.

     z = z + omega p + U beta       the rest of an omega step after which an update is due
     r = anchor - A z,  anchor = r
     x = x + z,  z = 0
     f = P^H r,  r^H r              one reduction
     v = r - G c,  U_0 = omega B^{-1}v + U c,  where M c = f

   In the exchange between blocks an update is a separate step with its own number: entries of z replace those of u, and P^H r and
   r^H r replace the sums. A block writes entries of z after it has the sums of all blocks of the omega step, and entries of the
   next u after it has the sums of the update. So the explanation in whole.cuh and wholecluster.cu for steps j, j+1 and j+2 includes
   updates. x, z, r and the anchor of a row are accessed only by the thread of that row.

   If blocks have a halo, they have z of the halo rows, and read r of the update instead of the product. A barrier is between the
   threads that read it and the threads of the passes.

   The host takes over if it might act differently: before the omega step if its norm may end the solve or is not accurate enough;
   and after an update whose r does not confirm the norm of the recurrence.
*/
#pragma once

#include "../../sys/kernels/dots.cuh"
#include "passes.cuh"
#include "wholepoly.cuh"

/* The bounds of the norms are tightened by this factor, so that the kernel never ends too late; the host repeats the test */
#define IDRS_WHOLE_LITTLE (16 * PETSC_MACHINE_EPSILON)

/* Returns the squares of the limits, so that no step computes a root */
static __device__ __forceinline__ IDRSLimits IDRSSquareLimits(const IDRSLimits &limits)
{
  IDRSLimits squares = limits;

  squares.bounds.low  = limits.bounds.low >= 0.0 ? limits.bounds.low * limits.bounds.low * ((PetscReal)1.0 + IDRS_WHOLE_LITTLE)
                                                 : (PetscReal)-1.0;
  squares.bounds.high = limits.bounds.high * limits.bounds.high * ((PetscReal)1.0 - IDRS_WHOLE_LITTLE);
  squares.fall        = limits.fall * limits.fall;
  squares.anchornorm  = limits.anchornorm * limits.anchornorm;
  squares.peak        = limits.peak * limits.peak;
  squares.tested      = limits.tested * limits.tested * ((PetscReal)1.0 - IDRS_WHOLE_LITTLE);
  squares.growth      = limits.growth * limits.growth * ((PetscReal)1.0 - IDRS_WHOLE_LITTLE);
  return squares;
}

/* Sets the limits for a recurrence that has begun, or restarted, with a residual of this r^H r */
static __device__ __forceinline__ void IDRSWholeSetAnchor(IDRSLimits &squares, PetscReal square)
{
  squares.anchornorm  = square;
  squares.peak        = square;
  squares.bounds.high = min(squares.tested, IDRSGrowthLimit(square, squares.growth));
}

/*
   Returns true if the square `next` of a norm after an omega step is accurate and within the bounds. Otherwise the host decides
   about the update that is due
*/
static __device__ __forceinline__ bool IDRSWholeTrustsNorm(const IDRSScalars *scalars, const IDRSLimits &squares, PetscReal next)
{
  return IDRSScalarsIsSharp(scalars, next) && IDRSIsWithin(next, squares.bounds.low, squares.bounds.high);
}

/*
   Called by a warp: uses P^H r and r^H r of an update, where the recurrence had r^H r = *promised*. Returns true if the kernel
   continues, with the coefficients of the next direction
*/
template <int S>
static __device__ __forceinline__ bool IDRSWholeAcceptUpdate(IDRSScalars *scalars, IDRSLimits &squares, PetscReal promised,
                                                             IDRSCoefficients<S> *c)
{
  const PetscReal square = PetscRealPart(scalars->sums[IDRS_SUM_XX(scalars->s)]);

  if (!IDRSWarpAll(IDRSScalarsAreFinite(scalars, PETSC_FALSE, PETSC_FALSE))) return false;
  if (!(square < IDRS_UPDATE_CONFIRMS * IDRS_UPDATE_CONFIRMS * ((PetscReal)1.0 - IDRS_WHOLE_LITTLE) * promised)) return false;
  if (IDRS_LANE == 0) IDRSWholeSetAnchor(squares, square);
  IDRSScalarsSetResidual(scalars);
  IDRSScalarsCombine(scalars, 0);
  for (PetscInt j = IDRS_LANE; j < scalars->s; j += IDRS_LANES) IDRSGetCoefficient<S>(scalars, -1, j, c);
  return true;
}

/* Publishes entries of a vector that the pass does not compute, after this thread has written them */
template <typename Publish>
struct IDRSPublishOther {
  const Publish     &publish;
  const PetscScalar *other;
  size_t             n;

  __device__ __forceinline__ void operator()(size_t i, const IDRSPack<1> &) const { publish(i, IDRSLoad<1>(other, i, n)); }
};

/*
   Computes r = anchor - A z, x += z, z = 0, and the parts of P^H r and r^H r of this thread; *rr is the part of r^H r. A z is
   computed like the product in IDRSWholeProject()
*/
template <int S, typename Blocks>
static __device__ __forceinline__ void IDRSWholeRenew(const IDRSWholeSteps &steps, const IDRSShadow<S> &P, Blocks &blocks,
                                                      IDRSDots<S, false, true> &dots, PetscReal *rr)
{
  const size_t n = blocks.A.n;

  IDRSDotsClear(dots);
  for (size_t i = Blocks::Rows::template First<1>(); Blocks::Rows::InWarp(i, n); i += Blocks::Rows::template Stride<1>()) {
    const PetscScalar Az = IDRSWholeProduct(steps, blocks, i);
    IDRSPack<1>       r = IDRSLoad<1>(steps.anchor, i, n), x = IDRSLoad<1>(steps.x, i, n);

    /* r = anchor - A z */
    r.v[0] -= i < n ? Az : (PetscScalar)0.0;
    /* x += z, z = 0 */
    IDRSAdd<1>(x, 1.0, IDRSLoad<1>(steps.z, i, n));
    IDRSStore<1>(steps.anchor, i, n, r);
    IDRSStore<1>(steps.r, i, n, r);
    IDRSStore<1>(steps.x, i, n, x);
    IDRSStore<1>(steps.z, i, n, IDRSZero<1>());
    if (i < n) blocks.Publish(i, r.v[0]);
    /* P^H r, r^H r */
    IDRSDotsAdd<S, 1, false, true>(dots, P, i, n, r, IDRSZero<1>());
  }
  for (size_t i = n + threadIdx.x; Blocks::halo && i < steps.panels.n; i += blockDim.x) steps.z[i] = 0.0;
  *rr = dots.square[0];
}

/*
   The rest of the omega step, and the update. Called by all threads of all blocks. Uses two numbers: blocks.u, and the next one for
   the direction. scalars are in shared memory. Returns the part of r^H r of this thread; shared.goeson is true if the kernel
   continues, and *timedout, in the first warp, is true if a wait has timed out
*/
template <int S, typename Blocks>
static __device__ __forceinline__ PetscReal IDRSWholeMakeUpdate(const IDRSWholeSteps &steps, const IDRSShadow<S> &P, Blocks &blocks,
                                                                IDRSScalars *scalars, IDRSWholeShared<S> &shared, bool *timedout)
{
  const IDRSDirection none = {false, false, steps.diagonal, steps.v}, direction = {true, true, steps.diagonal, steps.v};
  const IDRSPublishOther<decltype(blocks.u)> publishz = {blocks.u, steps.z, steps.panels.n};
  IDRSDots<S, false, true>                   dots;
  PetscReal                                  rr;

  /* z += omega p + U beta, r -= omega t; z is published instead of u */
  (void)IDRSAdvanceRows<S, 1, typename Blocks::Rows>(steps.panels, shared.c, none, 0,
                                                     {Blocks::poly ? steps.v : NULL, steps.t, steps.z, steps.r}, publishz);
  blocks.Synchronize();
  /* r = anchor - A z */
  IDRSWholeRenew<S>(steps, P, blocks, dots, &rr);
  *timedout = blocks.template PostSums<S, false>(dots);
  *timedout = blocks.template AddSums<S>(false, P, steps.r, scalars->sums, []() {}) || *timedout;
  if (threadIdx.x < IDRS_WARP) {
    const bool goes = IDRSWholeAcceptUpdate<S>(scalars, shared.limits, shared.promised, &shared.c) && !*timedout;

    if (threadIdx.x == 0) shared.goeson = goes;
  }
  __syncthreads();
  blocks.u.number++;
  if (!shared.goeson) return rr;
  if constexpr (Blocks::poly) {
    IDRSWholeSplitRows<S, typename Blocks::Rows>(steps, shared.c);
    IDRSWholeDirect(steps, blocks, 0, false, shared.c.omega, steps.v);
  } else IDRSCombineRows<S, 1, typename Blocks::Rows>(steps.panels, shared.c, direction, 0, steps.panels.s, steps.r, blocks.u);
  return rr;
}
