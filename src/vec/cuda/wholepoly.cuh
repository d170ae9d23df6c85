/*
   A polynomial preconditioner in a kernel of many steps, whose threads have one row each. Between the passes of a step and the next
   direction all threads apply it: its products are steps of matrix powers, see idrspowers.h, and entries go from block to block as
   those of a direction do. Each product has places of its own. So no entry is overwritten while another block may read it, and the
   sums of the step after that separate this application from the next one.

     y = output v_k,   v_0 = input P x,   v_j = gamma_j (D^{-1}A~ - theta_j) v_{j-1} - mu_j v_{j-2}

   No PETSc call.
*/
#pragma once

#include "wholesteps.cuh"

/* Products of an application at most */
#define IDRS_WHOLE_PRODUCTS 32

/* Each of the arrays but those of A may be NULL */
typedef struct {
  IDRSCSR            A;
  int                own, steps; /* entries of a row that its lane takes; products */
  const PetscScalar *inverse, *input, *output;
  const PetscInt    *row; /* P x has entry x_row(i) in place i */
  PetscScalar        gamma[IDRS_WHOLE_PRODUCTS], theta[IDRS_WHOLE_PRODUCTS], mu[IDRS_WHOLE_PRODUCTS];
  IDRSBlockMessage  *entries; /* n for each product, and n more for x */
} IDRSWholePolynomial;

/* By all threads: the entry of B^{-1}x for the row of this thread, which has written its entry of x */
template <typename Blocks>
static __device__ __forceinline__ PetscScalar IDRSWholeApply(const Blocks &blocks, const PetscScalar *x)
{
  const IDRSWholePolynomial &p = blocks.polynomial;
  const size_t               n = p.A.n, i = Blocks::Rows::template First<1>(), warp = i - threadIdx.x % IDRS_WARP;
  const bool                 there   = i < n;
  auto                       entries = blocks.u;
  PetscScalar                last = there ? x[i] : (PetscScalar)0.0, before = 0.0;

  entries.entries = p.entries;
  if (p.row) {
    const PetscInt column[1] = {there ? p.row[i] : 0};
    PetscScalar    entry[1];

    if (there) entries(i, IDRSPack<1>{{last}});
    if (warp < n) IDRSGather<1>(entries, column, entry);
    last = there ? entry[0] : (PetscScalar)0.0;
    entries.entries += n * IDRS_PARTS;
  }
  if (there && p.input) last *= p.input[i];
#pragma unroll 1
  for (int j = 0; j < p.steps; j++) {
    PetscScalar next = 0.0;

    if (there) entries(i, IDRSPack<1>{{last}});
    if (warp < n) next = IDRSRowSumShared<IDRS_WHOLE_ATONCE>(p.A, entries, (IDRSIndex)warp, p.own);
    if (there && p.inverse) next *= p.inverse[i];
    next   = p.gamma[j] * (next - p.theta[j] * last) - p.mu[j] * before;
    before = last;
    last   = next;
    entries.entries += n * IDRS_PARTS;
  }
  return there && p.output ? p.output[i] * last : last;
}

/*
   By all threads: the direction from B^{-1}x, where x is v, or r before an omega step, and from U c, which is in U_k but for the
   start

     U_k = omega B^{-1}v + U c,   in the start U_k = B^{-1}v,   in the omega step p = B^{-1}r
*/
template <typename Blocks>
static __device__ __forceinline__ void IDRSWholeDirect(const IDRSWholeSteps &steps, const Blocks &blocks, int k, bool start,
                                                       PetscScalar omega, const PetscScalar *x)
{
  const size_t i = Blocks::Rows::template First<1>();
  PetscScalar  y = IDRSWholeApply(blocks, x);

  if (i >= steps.panels.n) return;
  if (k < steps.panels.s) {
    PetscScalar *u = steps.panels.U + k * steps.panels.ld + i;

    if (!start) y = *u + omega * y;
    *u = y;
  } else steps.v[i] = y;
  blocks.u(i, IDRSPack<1>{{y}});
}

/* v = r - G c and U_0 = U c, by the thread of each row */
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
