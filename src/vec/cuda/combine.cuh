/*
   combine:  v = r - G(:,k:e) c,   U_k = omega v + U(:,k:e) c

   One thread owns a pack of rows; reads r (or v), G(:,k:e), U(:,k:e), writes v or U_k. The columns come in a loop unrolled
   for S >= s columns (S = 0: not unrolled), whose loads are all under way at once. No PETSc call.
*/
#pragma once

#include "coefficients.cuh"
#include "rows.cuh"

/* Both panels; column j of G starts at G + j ld */
typedef struct {
  PetscScalar *G, *U;
  size_t       ld, n;
  int          s;
} IDRSPanels;

/* The part of a combine that needs no column before k; r and, for combine U, v are in registers */
template <int S, int W>
static __device__ __forceinline__ void IDRSCombineRows(const IDRSPanels &panels, const IDRSCoefficients<S> &c, bool first, bool second, int k, int e, size_t i, IDRSPack<W> v, PetscScalar *vout)
{
  const size_t n = panels.n, ld = panels.ld;
  const int    zero = IDRSZeroPlace(i);
  IDRSPack<W>  u    = IDRSZero<W>();

#pragma unroll
  for (int j = 0; j < (S ? S : e); j++) {
    if (j >= k && j < e) {
      if (first) IDRSAdd<W>(v, -c.a[zero + j], IDRSLoad<W>(panels.G + j * ld, i, n));
      if (second) IDRSAdd<W>(u, c.a[zero + j], IDRSLoad<W>(panels.U + j * ld, i, n));
    }
  }
  if (second) {
    IDRSAdd<W>(u, c.omega, v);
    IDRSStore<W>(panels.U + k * ld, i, n, u);
  } else IDRSStore<W>(vout, i, n, v);
}

/* x is r, or the preconditioned v of combine U; first: subtract G c, second: go on to U_k */
template <int S, int W>
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSCombineKernel(IDRSPanels panels, IDRSCoefficients<S> given, IDRSResident resident, bool first, bool second, int k, int e, const PetscScalar *x, PetscScalar *v)
{
  __shared__ IDRSCoefficients<S> c;

  if (!IDRSTakeCoefficients<S>(&c, given, resident, -1, panels.s)) return;
  for (size_t i = ((size_t)blockIdx.x * IDRS_THREADS + threadIdx.x) * W; i < panels.n; i += (size_t)gridDim.x * IDRS_THREADS * W) { IDRSCombineRows<S, W>(panels, c, first, second, k, e, i, IDRSLoad<W>(x, i, panels.n), v); }
}
