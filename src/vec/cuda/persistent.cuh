/*
   The persistent kernel makes many steps, until the host must continue: for systems so small that launches would take longer than
   the work. Blocks have their rows in shared memory, see persistentcluster.cu, or, with a polynomial preconditioner, in global
   memory, see persistentpoly.cu. This file has the steps, which are the same for both, and the reliable updates between them. A
   thread has the same rows in all passes, and only this thread accesses these rows of the bases, r, z, v, t, x and the anchor.

   Blocks exchange two things in a step:

     the direction u    each entry, for the rows of A u that need it
     the sums           of each block, which all blocks add, in the same order

   Then a warp of each block does the algebra of the step, see warpalgebra.cuh, with the same result. No barrier between blocks and
   no fence is needed, because blocks exchange messages, as in finish.cuh: each word of a message carries the number of its step, so
   a reader that finds the number also has the value. Messages are not overwritten before they are read:

     entries of u       A block writes the entries of step j+1 after it has the sums of all blocks of step j. The sums of a block
                        depend on everything that it has read of u in step j. So no block reads u of step j any more.
     sums               Sums of steps j and j+1 are in two places. A block overwrites its sums of step j by those of step j+2
                        after it has the sums of all blocks of step j+1. A block writes its sums of step j+1 after it has read
                        all sums of step j.

   Reliable updates happen between steps, by the rules of idrsstep.h. An update computes the same results as on the host, except for
   rounding errors.

     z = z + omega p + U beta       the rest of an omega step after which an update is due
     r = anchor - A z,  anchor = r
     x = x + z,  z = 0
     f = P^H r,  r^H r              one reduction
     v = r - G c,  U_0 = omega B^{-1}v + U c,  where M c = f

   In the exchange between blocks an update is a separate step with its own number: entries of z replace those of u, and P^H r and
   r^H r replace the sums. A block writes entries of z after it has the sums of all blocks of the omega step, and entries of the
   next u after it has the sums of the update. So the explanation above for steps j, j+1 and j+2 includes updates.

   The host takes over if it might act differently: before the omega step if its norm may end the solve or is not accurate enough;
   and after an update whose r does not confirm the norm of the recurrence.

   If a block waits too long for another block, it gives up, and then all other blocks also give up. The kernel reports this to the
   host, and the solve ends with an error.

   The only parameters of the template are S, the columns for which loops are unrolled and held in registers, and the class of the
   blocks. Whether the matrix is in shared memory, and whether B is a diagonal, are arguments.
*/
#pragma once

#include "warpalgebra.cuh"
#include "idrscudaimpl.cuh"
#include "../../sys/kernels/project.cuh"
#include "../../sys/kernels/csr.h"
#include "../../sys/kernels/rowsum.cuh"

/* Most steps of one kernel, so that it ends within some ten milliseconds */
#define IDRS_PERSISTENT_STEPS 2048

/* The outcome of the steps, on the host */
typedef struct {
  /* of IDRSScalars, with the sums of the last step; also the copy for the device */
  PetscScalar           storage[IDRS_STORAGE(IDRS_COLUMNS_AT_ONCE)];
  PetscReal             squares[IDRS_PERSISTENT_STEPS]; /* r^H r; the host computes the norms of IDRSPersistentReport */
  IDRSPersistentUpdated updated[IDRS_PERSISTENT_STEPS]; /* also with r^H r */
  PetscInt              completed, count, updates;
  int                   k, start, unreported; /* the step in which the host continues, or k = IDRS_RESIDUAL */
  int                   timedout;             /* a wait has timed out */
} IDRSPersistentResult;

typedef struct {
  IDRSBases             bases;
  IDRSCSR               A;
  IDRSBlockMessage     *entries;
  IDRSPartials          partials; /* launch: number of the first step */
  const PetscScalar    *diagonal;
  PetscScalar          *r, *z, *v, *t;
  PetscScalar          *x, *anchor; /* for updates; x = NULL: the host makes updates */
  const PetscScalar    *storage;
  PetscReal             pivotscale;
  IDRSStep              step;
  IDRSLimits            limits;
  IDRSPersistentResult *result;
  uint64_t             *arrived, sequence;
  unsigned int          polls; /* most polls of a thread that waits */
} IDRSPersistentSteps;

/* The continuation after the sums of a step */
typedef enum {
  IDRS_PERSISTENT_ENDS, /* the host continues with these sums */
  IDRS_PERSISTENT_STEP,
  IDRS_PERSISTENT_UPDATE /* an omega step, and a reliable update after it */
} IDRSPersistentNext;

/* Data that the threads of a block share */
template <int S>
struct IDRSPersistentShared {
  PetscScalar                storage[IDRS_STORAGE(S)];
  IDRSAlgebraCoefficients<S> c;
  IDRSInverses<S>            inverses;
  IDRSLimits                 limits;   /* for r^H r */
  PetscReal                  promised; /* r^H r after the omega step before an update */
  IDRSPersistentNext         next;
  bool                       goeson; /* after an update */
};

/*
   Keeps x in a register from here on. If the compiler knows that a value is an argument of the kernel, or follows from one, it
   loads and computes it again at each use, which is slow if one warp works while all others wait
*/
static __device__ __forceinline__ unsigned int IDRSKeep(unsigned int x)
{
  asm volatile("" : "+r"(x));
  return x;
}

/* Posts a scalar, with one message for each of its parts */
static __device__ __forceinline__ void IDRSPostScalar(IDRSBlockMessage *messages, PetscScalar x, uint32_t number)
{
  const PetscReal part[2] = {PetscRealPart(x), PetscImaginaryPart(x)};

#pragma unroll
  for (int k = 0; k < IDRS_PARTS; k++) IDRSPostMessage(messages + k, part[k], number);
}

/*
   The blocks and their rows. Each kind of blocks is a class with these members:

     Rows            rows of a thread, as in rows.cuh
     u               the operand of the product: u() publishes an entry of the next direction, u.number is the number of the step,
                     u.wait the limit of its waits
     poly            true if the preconditioner is a polynomial; then Direct() computes the direction from B^{-1}x
     Product()       returns the entry of A u in row i of each thread. Called by a warp
     PostSums()      posts the sums of this block for all blocks; returns true if a wait before it has timed out
     AddSums()       adds the sums of all blocks, with a y or without, at least in the first warp; returns true there if a wait
                     has timed out. During the wait the first warp calls a function
     Synchronize()   waits until Product() can read u, and is a barrier of the block if threads read entries of others
*/

/*
   Computes the product and the projection of a step, and posts the sums for all blocks. first: the state of the hash in the first
   row of this thread; rr: the part of r^H r of this thread. Returns true if a wait has timed out
*/
template <int S, bool Y, typename Blocks>
static __device__ __forceinline__ bool IDRSPersistentProject(const IDRSPersistentSteps &steps, const IDRSShadow<S> &P,
                                                             const IDRSShadowRow &first, Blocks &blocks, PetscScalar *x,
                                                             PetscReal rr)
{
  const IDRSIndex      n = (IDRSIndex)steps.bases.n, stride = (IDRSIndex)Blocks::Rows::template Stride<1>();
  IDRSShadowRow        row = first;
  IDRSDots<S, Y, true> dots;

  IDRSDotsClear(dots);
  dots.square[dots.squares - 1] = rr;
  for (IDRSIndex i = (IDRSIndex)Blocks::Rows::template First<1>(); Blocks::Rows::InWarp(i, n); i += stride) {
    const PetscScalar r = Y && i < n ? steps.r[i] : (PetscScalar)0.0, Au = blocks.Product(i);
    const PetscScalar xi = i < n ? Au : (PetscScalar)0.0;

    if (i < n) x[i] = xi;
    /* P^H x, x^H x, and with y = r also P^H r, x^H r, r^H r */
    IDRSDotsAddRow(dots, row, 0, xi, r);
    dots.square[0] += IDRSSquare<1>({{xi}});
    if (Y) dots.square[1] += IDRSSquare<1>({{r}});
    if (i + stride < n) row = IDRSShadowRowState(P.key, P.rstart + i + stride);
  }
  return blocks.template PostSums<S, Y>(dots);
}

/* The bounds of the norms are tightened by this factor, so that the kernel never ends too late; the host repeats the test */
#define IDRS_PERSISTENT_LITTLE (16 * PETSC_MACHINE_EPSILON)

/* Returns the squares of the limits, so that no step computes a root */
static __device__ __forceinline__ IDRSLimits IDRSSquareLimits(const IDRSLimits &limits)
{
  IDRSLimits squares = limits;

  squares.bounds.low  = limits.bounds.low >= 0.0 ? limits.bounds.low * limits.bounds.low * ((PetscReal)1.0 + IDRS_PERSISTENT_LITTLE)
                                                 : (PetscReal)-1.0;
  squares.bounds.high = limits.bounds.high * limits.bounds.high * ((PetscReal)1.0 - IDRS_PERSISTENT_LITTLE);
  squares.fall        = limits.fall * limits.fall;
  squares.anchornorm  = limits.anchornorm * limits.anchornorm;
  squares.peak        = limits.peak * limits.peak;
  squares.tested      = limits.tested * limits.tested * ((PetscReal)1.0 - IDRS_PERSISTENT_LITTLE);
  squares.growth      = limits.growth * limits.growth * ((PetscReal)1.0 - IDRS_PERSISTENT_LITTLE);
  return squares;
}

/* Sets the limits for a recurrence that has begun, or restarted, with a residual of this r^H r */
static __device__ __forceinline__ void IDRSPersistentSetAnchor(IDRSLimits &squares, PetscReal square)
{
  squares.anchornorm  = square;
  squares.peak        = square;
  squares.bounds.high = min(squares.tested, IDRSGrowthLimit(square, squares.growth));
}

/*
   Called by a warp: computes the coefficients of a step of the start or an omega step from its sums, which have a y, unless the
   host must continue. *square is r^H r before the step, and *next r^H r after it if an update follows. shared.limits contains
   squares; limits.peak is the largest one so far
*/
template <int S>
static __device__ __forceinline__ IDRSPersistentNext IDRSPersistentContinue(IDRSScalars *scalars, const IDRSStep &step, bool last,
                                                                            PetscInt updates, IDRSPersistentShared<S> &shared,
                                                                            IDRSLane<S> *lane, PetscReal *square, PetscReal *next)
{
  const PetscInt  s      = scalars->s;
  const PetscReal rr     = PetscRealPart(scalars->sums[IDRS_SUM_RR(s)]);
  IDRSLimits     &limits = shared.limits;
  bool            due    = false;

  *square = PetscRealPart(scalars->sums[IDRSNormSum(s, PETSC_TRUE, step.unreported)]);
  *next   = 0.0;
  if (last) return IDRS_PERSISTENT_ENDS;
  if (IDRS_LANE == 0 && step.unreported) limits.peak = max(limits.peak, rr);
  if (IDRS_LANE == 0 && step.start && !step.unreported && !(limits.anchornorm <= PETSC_MAX_REAL))
    IDRSPersistentSetAnchor(limits, *square);
  IDRS_SYNC_WARP();
  if (!IDRSWarpAll(IDRSScalarsAreFinite(scalars, PETSC_TRUE, step.unreported))) return IDRS_PERSISTENT_ENDS;
  if (step.unreported && !IDRSIsWithin(rr, limits.bounds.low, limits.bounds.high)) return IDRS_PERSISTENT_ENDS;
  if (step.k == s) {
    PetscScalar omega;

    if (IDRSScalarsDecideOmega(scalars, limits.bounds.cosine, &omega) != IDRS_CONTINUES) return IDRS_PERSISTENT_ENDS;
    *next = IDRSScalarsNormSquared(scalars, omega);
    due   = limits.fall > 0.0 &&
          (!IDRSScalarsIsSharp(scalars, *next) || IDRSUpdateIsDue(*next, limits.fall, limits.peak, limits.anchornorm));
    /* the host decides about an update if the norm is not accurate, or may end the solve */
    if (due && (updates < 0 || !IDRSScalarsIsSharp(scalars, *next) || !IDRSIsWithin(*next, limits.bounds.low, limits.bounds.high)))
      return IDRS_PERSISTENT_ENDS;
    if (!due && !step.start) {
      IDRSAlgebraOmega<S>(scalars, omega, lane, &shared.c);
      lane->rr   = rr;
      lane->last = (int)s;
      return IDRS_PERSISTENT_STEP;
    }
  }
  /* alpha, M_k, beta_k, f and the next c, or omega */
  if (IDRSScalarsContinue(scalars, step.k, step.start, limits.bounds.cosine, next) != IDRS_CONTINUES) return IDRS_PERSISTENT_ENDS;
  for (PetscInt j = IDRS_LANE; j < s; j += IDRS_LANES) IDRSGetCoefficient<S>(scalars, step.k == s ? -1 : step.k, j, &shared.c);
  lane->last = IDRS_ALGEBRA_BEGIN;
  return due ? IDRS_PERSISTENT_UPDATE : IDRS_PERSISTENT_STEP;
}

/*
   The passes of step k after the start, or with OMEGA of the omega step: update and advance of passes.cuh, ordered for short waits.
   All columns of a row are loaded before the first one is used. The direction is published before anything else is stored, and
   values that no other row waits for are stored last. With the functions of passes.cuh instead, a matvec took up to 12 % longer for
   1000 to 110 592 rows on an H200.

     step k < s   G_k -= G alpha, U_k -= U alpha, r -= beta_k G_k
     omega step   z += omega p + U beta, r -= omega t

   The direction is U_column = omega B^{-1}(r - G c) + U c, or p = B^{-1}r before the omega step. If B is a polynomial, Direct()
   computes it from v = r - G c or from r. Returns the part of r^H r of this thread
*/
template <int S, bool OMEGA, typename Blocks>
static __device__ __forceinline__ PetscReal IDRSPersistentRows(const IDRSPersistentSteps        &steps,
                                                               const IDRSAlgebraCoefficients<S> &c, int k, const Blocks &blocks)
{
  const IDRSIndex n = (IDRSIndex)steps.bases.n, ld = (IDRSIndex)steps.bases.ld;
  const int       s = steps.bases.s, column = OMEGA ? 0 : k + 1;
  const bool      wantu = column < s && !Blocks::poly;
  PetscScalar    *G = steps.bases.G, *U = steps.bases.U, *x = OMEGA ? steps.t : G + k * ld, *y = OMEGA ? steps.z : U + k * ld;
  PetscReal       sum = 0.0;

  for (IDRSIndex i = (IDRSIndex)Blocks::Rows::template First<1>(); i < n; i += (IDRSIndex)Blocks::Rows::template Stride<1>()) {
    /* a: alpha or beta; b: c */
    const PetscScalar *a = (OMEGA ? c.b : c.a) + IDRSOpaqueZero(i), *b = (OMEGA ? c.a : c.b) + IDRSOpaqueZero(i);
    PetscScalar        xi = x[i], yi = y[i], r = steps.r[i], p = Blocks::poly ? steps.v[i] : r, d;
    PetscScalar        Gi[S], Ui[S], Ga = 0.0, Ua = 0.0, Gc = 0.0, Uc = 0.0;

#pragma unroll
    for (int j = 0; j < S; j++) Gi[j] = j < s ? G[j * ld + i] : (PetscScalar)0.0;
#pragma unroll
    for (int j = 0; j < S; j++) Ui[j] = j < s ? U[j * ld + i] : (PetscScalar)0.0;
#pragma unroll
    for (int j = 0; j < S; j++) {
      if (OMEGA && j >= s) continue;
      Ga += a[j] * Gi[j];
      Ua += a[j] * Ui[j];
      Gc += b[j] * Gi[j];
      Uc += b[j] * Ui[j];
    }
    if (!OMEGA) xi -= Ga;
    r -= (OMEGA ? c.omega : c.beta) * xi;
    d = r - Gc;
    if (steps.diagonal) {
      d *= steps.diagonal[i];
      p *= steps.diagonal[i];
    }
    if (wantu) d = Uc + c.omega * d;
    if (!Blocks::poly) blocks.u(i, {{d}});
    if (wantu) U[column * ld + i] = d;
    else if (column < s || steps.diagonal) steps.v[i] = d;
    if (!OMEGA && k > 0) x[i] = xi;
    if (OMEGA) y[i] = yi + (Ua + c.omega * p);
    else if (k > 0) y[i] = yi - Ua;
    steps.r[i] = r;
    sum += IDRSSquare<1>({{r}});
  }
  return sum;
}

/*
   Runs the passes after the algebra of a step, up to the next direction: U_{k+1}, p, or with a polynomial only the v that it is
   applied to. After the last step of the start r alone, see IDRSPersistentEndStart(). Returns the part of r^H r of this thread
*/
template <int S, typename Blocks>
static __device__ __forceinline__ PetscReal IDRSPersistentPasses(const IDRSPersistentSteps &steps, const IDRSStep &step,
                                                                 const IDRSAlgebraCoefficients<S> &c, const Blocks &blocks)
{
  const int           k         = (int)step.k;
  const bool          inner     = k + 1 != steps.bases.s;
  const IDRSDirection direction = {inner, inner && !Blocks::poly, steps.diagonal, steps.v};

  if (k == steps.bases.s) return IDRSPersistentRows<S, true>(steps, c, k, blocks);
  if (!step.start) return IDRSPersistentRows<S, false>(steps, c, k, blocks);
  /* v = r - G(:,0:k+1) c, U_{k+1} = B^{-1}v */
  return IDRSUpdateRows<S, 1, typename Blocks::Rows>(steps.bases, c, direction, true, k, k + 1, steps.r,
                                                     [&](size_t i, const IDRSPack<1> &d) {
                                                       if (inner && !Blocks::poly) blocks.u(i, d);
                                                     });
}

/* The omega step that ends the start: r = r - G c, with direction r or B^{-1}r */
template <int S, typename Blocks>
static __device__ __forceinline__ void IDRSPersistentEndStart(const IDRSPersistentSteps &steps, const IDRSCoefficients<S> &c,
                                                              const Blocks &blocks)
{
  const IDRSDirection direction = {true, false, NULL, steps.r};

  IDRSCombineRows<S, 1, typename Blocks::Rows>(steps.bases, c, direction, 0, steps.bases.s, steps.r, [&](size_t i, IDRSPack<1> d) {
    if (steps.diagonal) {
      IDRSScaleEntries<1>(d, IDRSLoad<1>(steps.diagonal, i, steps.bases.n));
      IDRSStore<1>(steps.v, i, steps.bases.n, d);
    }
    if (!Blocks::poly) blocks.u(i, d);
  });
}

/*
   Publishes the first direction, which has been computed. With step.wantu the direction is r or B^{-1}r, which is also stored as
   U_k, unless B is a polynomial. Returns the part of r^H r of this thread
*/
template <typename Blocks>
static __device__ __forceinline__ PetscReal IDRSPersistentBegin(const IDRSPersistentSteps &steps, const Blocks &blocks)
{
  const size_t n         = steps.bases.n;
  const bool   isp       = steps.step.k == steps.bases.s;
  PetscScalar *direction = !isp ? steps.bases.U + steps.step.k * steps.bases.ld
                                : (steps.diagonal || Blocks::poly ? steps.v : steps.r);
  PetscReal    rr        = 0.0;

  for (size_t i = Blocks::Rows::template First<1>(); i < n; i += Blocks::Rows::template Stride<1>()) {
    IDRSPack<1> u = IDRSLoad<1>(steps.r, i, n);

    rr += IDRSSquare<1>(u);
    if (Blocks::poly && steps.step.wantu) continue;
    if (steps.step.wantu) {
      if (steps.diagonal) IDRSScaleEntries<1>(u, IDRSLoad<1>(steps.diagonal, i, n));
      IDRSStore<1>(direction, i, n, u);
    } else u = IDRSLoad<1>(direction, i, n);
    blocks.u(i, u);
  }
  return rr;
}

/*
   Computes r = anchor - A z, x += z, z = 0, and the parts of P^H r and r^H r of this thread; *rr is the part of r^H r. A z is
   computed like the product in IDRSPersistentProject()
*/
template <int S, typename Blocks>
static __device__ __forceinline__ void IDRSPersistentRenew(const IDRSPersistentSteps &steps, const IDRSShadow<S> &P, Blocks &blocks,
                                                           IDRSDots<S, false, true> &dots, PetscReal *rr)
{
  const size_t n = steps.bases.n;

  IDRSDotsClear(dots);
  for (size_t i = Blocks::Rows::template First<1>(); Blocks::Rows::InWarp(i, n); i += Blocks::Rows::template Stride<1>()) {
    const PetscScalar Az = blocks.Product(i);
    IDRSPack<1>       r = IDRSLoad<1>(steps.anchor, i, n), x = IDRSLoad<1>(steps.x, i, n);

    /* r = anchor - A z */
    r.v[0] -= i < n ? Az : (PetscScalar)0.0;
    /* x += z, z = 0 */
    IDRSAdd<1>(x, 1.0, IDRSLoad<1>(steps.z, i, n));
    IDRSStore<1>(steps.anchor, i, n, r);
    IDRSStore<1>(steps.r, i, n, r);
    IDRSStore<1>(steps.x, i, n, x);
    IDRSStore<1>(steps.z, i, n, IDRSZero<1>());
    /* P^H r, r^H r */
    IDRSDotsAdd<S, 1, false>(dots, P, i, r, IDRSZero<1>());
  }
  *rr = dots.square[0];
}

/*
   Called by a warp: uses P^H r and r^H r of an update, where the recurrence had r^H r = *promised*. Returns true if the kernel
   continues, with the coefficients of the next direction
*/
template <int S>
static __device__ __forceinline__ bool IDRSPersistentAcceptUpdate(IDRSScalars *scalars, IDRSLimits &squares, PetscReal promised,
                                                                  IDRSCoefficients<S> *c)
{
  const PetscReal square = PetscRealPart(scalars->sums[IDRS_SUM_XX(scalars->s)]);

  if (!IDRSWarpAll(IDRSScalarsAreFinite(scalars, PETSC_FALSE, PETSC_FALSE))) return false;
  if (!(square < IDRS_UPDATE_CONFIRMS * IDRS_UPDATE_CONFIRMS * ((PetscReal)1.0 - IDRS_PERSISTENT_LITTLE) * promised)) return false;
  if (IDRS_LANE == 0) IDRSPersistentSetAnchor(squares, square);
  IDRSScalarsSetResidual(scalars);
  IDRSScalarsCombine(scalars, 0);
  for (PetscInt j = IDRS_LANE; j < scalars->s; j += IDRS_LANES) IDRSGetCoefficient<S>(scalars, -1, j, c);
  return true;
}

/*
   The rest of the omega step, and the update. Called by all threads of all blocks. Uses two numbers: blocks.u, and the next one for
   the direction. scalars are in shared memory. Returns the part of r^H r of this thread; shared.goeson is true if the kernel
   continues, and *timedout, in the first warp, is true if a wait has timed out
*/
template <int S, typename Blocks>
static __device__ __forceinline__ PetscReal IDRSPersistentMakeUpdate(const IDRSPersistentSteps &steps, const IDRSShadow<S> &P,
                                                                     Blocks &blocks, IDRSScalars *scalars,
                                                                     IDRSPersistentShared<S> &shared, bool *timedout)
{
  const IDRSDirection none = {false, false, steps.diagonal, steps.v}, direction = {true, !Blocks::poly, steps.diagonal, steps.v};
  IDRSDots<S, false, true> dots;
  PetscReal                rr;

  /* z += omega p + U beta, r -= omega t; z, which this thread has just stored, is published instead of u */
  (void)IDRSAdvanceRows<S, 1, typename Blocks::Rows>(steps.bases, shared.c, none, 0,
                                                     {Blocks::poly ? steps.v : NULL, steps.t, steps.z, steps.r},
                                                     [&](size_t i, const IDRSPack<1> &) {
                                                       blocks.u(i, IDRSLoad<1>(steps.z, i, steps.bases.n));
                                                     });
  blocks.Synchronize();
  /* r = anchor - A z */
  IDRSPersistentRenew<S>(steps, P, blocks, dots, &rr);
  *timedout = blocks.template PostSums<S, false>(dots);
  *timedout = blocks.template AddSums<S>(false, P, scalars->sums, []() {}) || *timedout;
  if (threadIdx.x < IDRS_WARP) {
    const bool goes = IDRSPersistentAcceptUpdate<S>(scalars, shared.limits, shared.promised, &shared.c) && !*timedout;

    if (threadIdx.x == 0) shared.goeson = goes;
  }
  __syncthreads();
  blocks.u.number++;
  if (!shared.goeson) return rr;
  /* v = r - G c, and U_0 = omega B^{-1}v + U c */
  IDRSCombineRows<S, 1, typename Blocks::Rows>(steps.bases, shared.c, direction, 0, steps.bases.s, steps.r,
                                               [&](size_t i, const IDRSPack<1> &d) {
                                                 if (!Blocks::poly) blocks.u(i, d);
                                               });
  if constexpr (Blocks::poly) blocks.template Direct<S>(steps, shared.c, 0, false, steps.v);
  return rr;
}

/*
   Runs the steps. Called by all threads of all blocks. r, the bases and the first direction are in the arrays of steps. Returns
   the step in which the host continues; the first block writes all other results for the host
*/
template <int S, typename Blocks>
static __device__ __forceinline__ IDRSStep IDRSPersistentRun(const IDRSPersistentSteps &steps, const IDRSShadow<S> &P,
                                                             Blocks &blocks)
{
  __shared__ IDRSPersistentShared<S> memory[1];
  IDRSPersistentShared<S>           &shared    = memory[IDRSKeep(0)];
  const int                          s         = steps.bases.s;
  const IDRSShadowRow                row       = IDRSShadowRowState(P.key, P.rstart + Blocks::Rows::template First<1>());
  IDRSStep                           step      = steps.step;
  PetscInt                           completed = 0, reported = 0, updates = steps.x ? 0 : -1;
  PetscReal                          rr;
  IDRSScalars                        scalars;
  IDRSLane<S>                        lane = {IDRS_ALGEBRA_BEGIN};
  bool                               timedout;
  /* the host makes the last iteration; updates is -1 if it also makes the updates */
  const auto islast = [&]() {
    return shared.limits.its + completed + 1 >= shared.limits.maxits || completed + updates + 2 >= IDRS_PERSISTENT_STEPS;
  };
  /* called by a warp before the sums of a step have arrived: does everything that does not depend on them */
  const auto prepare = [&]() {
    if (step.start) return;
    if (lane.last >= 0 && IDRS_LANE == 0) shared.limits.peak = max(shared.limits.peak, lane.rr);
    IDRSAlgebraPrepare<S>(&scalars, &shared.inverses, (int)step.k, &lane, &shared.c);
    lane.low  = islast() ? PETSC_MAX_REAL : (step.unreported ? shared.limits.bounds.low : (PetscReal)-1.0);
    lane.high = step.unreported ? shared.limits.bounds.high : PETSC_MAX_REAL;
  };

  IDRSScalarsSetPointers(&scalars, s, shared.storage);
  scalars.pivotscale = steps.pivotscale;
  if (threadIdx.x == 0) shared.limits = IDRSSquareLimits(steps.limits);
  for (int i = threadIdx.x; i < IDRS_STORAGE(s); i += blockDim.x)
    shared.storage[i] = i < IDRS_STORAGE_SUMS(s) ? steps.storage[i] : (PetscScalar)0.0;
  rr = IDRSPersistentBegin(steps, blocks);
  if constexpr (Blocks::poly) {
    if (step.wantu) blocks.template Direct<S>(steps, shared.c, 0, true, steps.r); /* U_0 = B^{-1}r */
  }
  for (;; completed++) {
    PetscScalar *x = step.k < s ? steps.bases.G + step.k * steps.bases.ld : steps.t;
    const bool   y = IDRSStepHasY(&step, s);

    blocks.Synchronize();
    /* G_k = A U_k, or t = A p, and the sums of this block */
    if (y) timedout = IDRSPersistentProject<S, true>(steps, P, row, blocks, x, rr);
    else timedout = IDRSPersistentProject<S, false>(steps, P, row, blocks, x, rr);
    /* the sums of all blocks */
    timedout = blocks.template AddSums<S>(y, P, scalars.sums, prepare) || timedout;
    if (threadIdx.x < IDRS_WARP) {
      PetscReal          square, after = 0.0;
      IDRSPersistentNext follows;

      if (y) follows = IDRSPersistentContinue<S>(&scalars, step, islast(), updates, shared, &lane, &square, &after);
      else {
        /* alpha, M_k, beta_k, f and c */
        const bool pivot = IDRSAlgebraStep<S>(&scalars, (int)step.k, &lane, &shared.c);

        square = lane.rr = PetscRealPart(scalars.sums[IDRS_SUM_RR(s)]);
        follows          = pivot && IDRSIsWithin(square, lane.low, lane.high) ? IDRS_PERSISTENT_STEP : IDRS_PERSISTENT_ENDS;
        lane.last        = (int)step.k;
      }
      if (threadIdx.x == 0) {
        shared.next     = timedout ? IDRS_PERSISTENT_ENDS : follows;
        shared.promised = after;
        if (blockIdx.x == 0) steps.result->squares[reported] = square; /* overwritten if the kernel ends here */
      }
    }
    __syncthreads();
    if (shared.next == IDRS_PERSISTENT_ENDS) break;
    blocks.u.number++;
    if (step.start || step.unreported) reported++;
    if (shared.next == IDRS_PERSISTENT_UPDATE) {
      rr = IDRSPersistentMakeUpdate<S>(steps, P, blocks, &scalars, shared, &timedout);
      if (threadIdx.x == 0 && blockIdx.x == 0) {
        steps.result->squares[reported] = shared.promised;
        if (shared.goeson) steps.result->updated[updates] = {reported + 1, shared.limits.anchornorm};
      }
      reported++;
      step = {shared.goeson ? 0 : IDRS_RESIDUAL, PETSC_FALSE, PETSC_FALSE, PETSC_FALSE, PETSC_FALSE, step.matvec};
      if (!shared.goeson) {
        completed++;
        break;
      }
      updates++;
      continue;
    }
    /* the passes, and the direction of the next step */
    rr = IDRSPersistentPasses<S>(steps, step, shared.c, blocks);
    IDRSStepNext(&step, s);
    if (step.start && step.k == s) {
      __syncthreads();
      for (int j = threadIdx.x; j < s; j += blockDim.x) IDRSGetCoefficient<S>(&scalars, -1, j, &shared.c);
      __syncthreads();
      /* the norm that is reported is the norm before r = r - G c */
      IDRSPersistentEndStart<S>(steps, shared.c, blocks);
    }
    /* U_k = omega B^{-1}v + U c, or p = B^{-1}r */
    if constexpr (Blocks::poly) blocks.template Direct<S>(steps, shared.c, (int)step.k, step.start, step.k < s ? steps.v : steps.r);
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
static PetscErrorCode IDRSDispatchPersistent(IDRSWorkspace work, L &&launch)
{
  cudaError_t error = cudaSuccess;

  PetscFunctionBegin;
  PetscCallCUDA(IDRSDispatch(work->s, false, [&](auto S, auto) {
    if constexpr (S > 0) error = launch(S, IDRSShadow<S>{(int)work->s, 0, IDRSShadowKey(work->seed), (uint64_t)work->rstart});
  }));
  PetscCallCUDA(error);
  PetscFunctionReturn(PETSC_SUCCESS);
}
