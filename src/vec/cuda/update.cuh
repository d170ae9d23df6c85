/*
   update:  G_k -= G(:,0:k) alpha,  U_k -= U(:,0:k) alpha,  r -= beta G_k,  partial sums of r^H r,
   and then combine of step k+1; in the start r -= beta G_k comes first, and then v = r - G(:,0:k+1) c

   One thread owns a pack of rows; reads G(:,0:k+1), U(:,0:k+1), r, and the old columns k+1:e for the combine, each once;
   writes G_k, U_k, r, and v or U_{k+1}. No PETSc call.
*/
#pragma once

#include "combine.cuh"
#include "reduce.cuh"

template <int S, int W, bool START>
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSUpdateKernel(IDRSPanels panels, IDRSCoefficients<S> given, IDRSResident resident, bool first, bool second, int k, int e, PetscScalar *r, PetscScalar *v, PetscReal *partials)
{
  __shared__ IDRSCoefficients<S> c;
  __shared__ PetscReal           shared[IDRS_WARPS];
  const size_t                   n = panels.n, ld = panels.ld;
  PetscReal                      rr[1] = {0.0};

  IDRSAwaitPrevious();
  if (!IDRSTakeCoefficients<S>(&c, given, resident, k, panels.s)) return;
  for (size_t i = ((size_t)blockIdx.x * IDRS_THREADS + threadIdx.x) * W; i < n; i += (size_t)gridDim.x * IDRS_THREADS * W) {
    const int   zero = IDRSZeroPlace(i);
    IDRSPack<W> g = IDRSLoad<W>(panels.G + k * ld, i, n), u = IDRSZero<W>(), x = IDRSLoad<W>(r, i, n), y = IDRSZero<W>(), z = IDRSZero<W>();

    if (k > 0) u = IDRSLoad<W>(panels.U + k * ld, i, n);
    if (START) IDRSAdd<W>(x, -c.b[k], g);
    /* one sweep over the columns: those before k for this step, those after it for the next; y = G c, z = U c */
#pragma unroll
    for (int j = 0; j < (S ? S : panels.s); j++) {
      if (j < k) {
        const IDRSPack<W> gj = IDRSLoad<W>(panels.G + j * ld, i, n);

        IDRSAdd<W>(g, -c.a[zero + j], gj);
        IDRSAdd<W>(u, -c.a[zero + j], IDRSLoad<W>(panels.U + j * ld, i, n));
        if (START) IDRSAdd<W>(y, c.b[zero + j], gj);
      } else if (j > k && j < e) {
        if (first) IDRSAdd<W>(y, c.a[zero + j], IDRSLoad<W>(panels.G + j * ld, i, n));
        if (second) IDRSAdd<W>(z, c.a[zero + j], IDRSLoad<W>(panels.U + j * ld, i, n));
      }
    }
    if (START) IDRSAdd<W>(y, c.a[k], g);
    else IDRSAdd<W>(x, -c.b[k], g);
    rr[0] += IDRSSquare<W>(x);
    if (k > 0) {
      IDRSStore<W>(panels.G + k * ld, i, n, g);
      IDRSStore<W>(panels.U + k * ld, i, n, u);
    }
    IDRSStore<W>(r, i, n, x);
    IDRSAdd<W>(x, -1.0, y);
    if (second) {
      IDRSAdd<W>(z, START ? (PetscScalar)1.0 : c.omega, x);
      IDRSStore<W>(panels.U + (k + 1) * ld, i, n, z);
    } else if (first) IDRSStore<W>(v, i, n, x);
  }
  IDRSBlockSum<1>(rr, shared, partials);
}
