/*
   The tail of combine, update and advance, from r - G c and U c of a row in registers: the next direction,

     v = r - G c,   or   U_column = omega (r - G c) + U c,

   where B^{-1}(r - G c) takes the place of r - G c if B^{-1} is diagonal.

   No PETSc call.
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

/* d = r - G c; diagonal: of B^{-1}, or NULL; wantu: U_column, else with wantv: v */
template <int W>
static __device__ __forceinline__ void IDRSTail(const IDRSPanels &panels, bool wantv, bool wantu, int column, PetscScalar omega, size_t i, IDRSPack<W> d, IDRSPack<W> Uc, const PetscScalar *diagonal, PetscScalar *v)
{
  if (diagonal && (wantv || wantu)) IDRSScaleEntries<W>(d, IDRSLoad<W>(diagonal, i, panels.n));
  if (wantu) {
    IDRSAdd<W>(Uc, omega, d);
    IDRSStore<W>(panels.U + column * panels.ld, i, panels.n, Uc);
  } else if (wantv) IDRSStore<W>(v, i, panels.n, d);
}
