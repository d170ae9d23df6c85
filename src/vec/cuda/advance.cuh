/*
   advance:  z += omega p + U beta(0:s),  r -= omega t,  partial sums of r^H r,  p = B^{-1}r before, or r itself,
   and then combine of step 0

   One thread owns a pack of rows; reads z, p, t, r, U and, for the combine, G, each once; writes z, r, and v or U_0.
   No PETSc call.
*/
#pragma once

#include "combine.cuh"
#include "reduce.cuh"

template <int S, int W>
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSAdvanceKernel(IDRSPanels panels, IDRSCoefficients<S> given, IDRSResident resident, bool first, bool second, int e, const PetscScalar *p, const PetscScalar *t, PetscScalar *z, PetscScalar *r, PetscScalar *v, PetscReal *partials)
{
  __shared__ IDRSCoefficients<S> c;
  __shared__ PetscReal           shared[IDRS_WARPS];
  const size_t                   n = panels.n, ld = panels.ld;
  PetscReal                      rr[1] = {0.0};

  IDRSAwaitPrevious();
  if (!IDRSTakeCoefficients<S>(&c, given, resident, -1, panels.s)) return;
  for (size_t i = ((size_t)blockIdx.x * IDRS_THREADS + threadIdx.x) * W; i < n; i += (size_t)gridDim.x * IDRS_THREADS * W) {
    const int   zero = IDRSZeroPlace(i);
    IDRSPack<W> x = IDRSLoad<W>(r, i, n), s = IDRSLoad<W>(z, i, n), y = IDRSZero<W>(), u = IDRSZero<W>();

    if (p) IDRSAdd<W>(s, c.omega, IDRSLoad<W>(p, i, n));
    else IDRSAdd<W>(s, c.omega, x);
#pragma unroll
    for (int j = 0; j < (S ? S : panels.s); j++) {
      if (j < panels.s) {
        const IDRSPack<W> uj = IDRSLoad<W>(panels.U + j * ld, i, n);

        IDRSAdd<W>(s, c.b[zero + j], uj);
        if (j < e) {
          if (first) IDRSAdd<W>(y, c.a[zero + j], IDRSLoad<W>(panels.G + j * ld, i, n));
          if (second) IDRSAdd<W>(u, c.a[zero + j], uj);
        }
      }
    }
    IDRSStore<W>(z, i, n, s);
    IDRSAdd<W>(x, -c.omega, IDRSLoad<W>(t, i, n));
    rr[0] += IDRSSquare<W>(x);
    IDRSStore<W>(r, i, n, x);
    IDRSAdd<W>(x, -1.0, y);
    if (second) {
      IDRSAdd<W>(u, c.omega, x);
      IDRSStore<W>(panels.U, i, n, u);
    } else if (first) IDRSStore<W>(v, i, n, x);
  }
  IDRSBlockSum<1>(rr, shared, partials);
}
