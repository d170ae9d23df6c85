/*
   A polynomial preconditioner in a kernel of many steps, whose lanes hold the matrix of the polynomial. Between the passes of a
   step and the next direction all threads apply it. Its products are steps of matrix powers, see idrspowers.h and rowlanes.cuh:

     y = output v_k,   v_0 = input P x,   v_j = gamma_j (D^{-1}A~ - theta_j) v_{j-1} - mu_j v_{j-2}

   Each product of an application has separate places for the entries of its vector, so no entry is overwritten while another block
   may still read it. Applications use two sets of places in turn, and each application clears the other set. All blocks have read
   that set, because the sums of all blocks have been exchanged since then. The threads that clear a set pass a barrier, with a
   release by the last store, before their block posts its sums. So the set is clear for each block that has these sums.

   No PETSc call.
*/
#pragma once

#include "wholesteps.cuh"
#include "../../mat/powers/rowlanes.cuh"

/* Most products of an application */
#define IDRS_WHOLE_PRODUCTS 32

/* The vectors may be NULL */
typedef struct {
  IDRSCSR            A;
  const IDRSRowLane *lanes;
  unsigned int       count; /* lanes of all blocks */
  int                steps; /* products */
  const PetscScalar *inverse, *input, *output;
  const PetscInt    *row; /* entry i of P x is x_row(i) */
  PetscScalar        gamma[IDRS_WHOLE_PRODUCTS], theta[IDRS_WHOLE_PRODUCTS], mu[IDRS_WHOLE_PRODUCTS];
  size_t             stride;    /* places per product: for rows, and for sums of further warps */
  IDRSMarked        *places[2]; /* of all products, and of x before them */
} IDRSWholePolynomial;

/* Computes the entry of B^{-1}x for the row of this thread, which has written its entry of x. Called by all threads */
template <typename Blocks>
static __device__ __forceinline__ PetscScalar IDRSWholeApply(Blocks &blocks, const PetscScalar *x)
{
  const IDRSWholePolynomial &p       = blocks.polynomial;
  const IDRSPowersEntries   &entries = blocks.entries;
  const bool                 there   = entries.first;
  const PetscInt             i       = entries.row;
  IDRSMarked                *places = p.places[blocks.set], *clear = p.places[1 - blocks.set];
  PetscScalar                last = there ? x[i] : (PetscScalar)0.0, before = 0.0;
  const auto                 publish = [&]() {
    if (there) IDRSMarkedStore(places + i, last);
    if (entries.place >= 0) IDRSMarkedClear(clear + entries.place);
    clear += p.stride;
  };

  blocks.set = 1 - blocks.set;
  if (p.row) {
    const PetscInt column[1] = {there ? p.row[i] : -1};
    IDRSMarked     marked[1];

    publish();
    IDRSPowersGather<1>(places, column, marked, blocks.u.wait);
    last = there ? IDRSMarkedValue(marked[0]) : (PetscScalar)0.0;
    places += p.stride;
  }
  if (there && p.input) last *= p.input[i];
#pragma unroll 1
  for (int j = 0; j < p.steps; j++, places += p.stride) {
    PetscScalar next;

    publish();
    next = IDRSPowersProduct(entries, places, blocks.u.wait);
    if (there && p.inverse) next *= p.inverse[i];
    next   = p.gamma[j] * (next - p.theta[j] * last) - p.mu[j] * before;
    before = last;
    last   = next;
  }
  return there && p.output ? p.output[i] * last : last;
}

/*
   Computes the direction from B^{-1}x, where x is v, or r before an omega step, and from U c, which is in U_k except in the start.
   Called by all threads

     U_k = omega B^{-1}v + U c,   in the start U_k = B^{-1}v,   in the omega step p = B^{-1}r
*/
template <typename Blocks>
static __device__ __forceinline__ void IDRSWholeDirect(const IDRSWholeSteps &steps, Blocks &blocks, int k, bool start,
                                                       PetscScalar omega, const PetscScalar *x)
{
  const size_t i = Blocks::Rows::template First<1>();
  PetscScalar  y = IDRSWholeApply(blocks, x);

  if (i < steps.panels.n) {
    PetscScalar *u = steps.panels.U + k * steps.panels.ld + i;

    if (k < steps.panels.s) {
      if (!start) y = *u + omega * y;
      *u = y;
    } else steps.v[i] = y;
    blocks.u(i, IDRSPack<1>{{y}});
  }
  /* the set is clear before this thread passes the barrier before the sums of the step */
  if (blocks.entries.place >= 0) IDRSMarkedClearRelease(blocks.polynomial.places[blocks.set] + blocks.entries.place);
}

/* Computes v = r - G c and U_0 = U c. Each thread has one row */
template <int S, typename Rows>
static __device__ __forceinline__ void IDRSWholeSplitRows(const IDRSWholeSteps &steps, const IDRSCoefficients<S> &c)
{
  const size_t n = steps.panels.n, ld = steps.panels.ld;

  for (size_t i = Rows::template First<1>(); i < n; i += Rows::template Stride<1>()) {
    PetscScalar v = steps.r[i], Uc = 0.0;

    for (int j = 0; j < steps.panels.s; j++) {
      v -= c.a[j] * steps.panels.G[j * ld + i];
      Uc += c.a[j] * steps.panels.U[j * ld + i];
    }
    steps.v[i]        = v;
    steps.panels.U[i] = Uc;
  }
}
