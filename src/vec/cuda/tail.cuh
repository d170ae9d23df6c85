/*
   The tail of combine, update and advance, from r - G c and U c of a row in registers: the next direction,

     v = r - G c,   or   U_column = omega (r - G c) + U c.

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

/* d = r - G c; wantu: U_column, else with wantv: v */
template <int W>
static __device__ __forceinline__ void IDRSTail(const IDRSPanels &panels, bool wantv, bool wantu, int column, PetscScalar omega, size_t i, const IDRSPack<W> &d, IDRSPack<W> Uc, PetscScalar *v)
{
  if (wantu) {
    IDRSAdd<W>(Uc, omega, d);
    IDRSStore<W>(panels.U + column * panels.ld, i, panels.n, Uc);
  } else if (wantv) IDRSStore<W>(v, i, panels.n, d);
}
