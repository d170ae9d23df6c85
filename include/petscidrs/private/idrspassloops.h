/*
   The passes of idrsops.h on m consecutive rows, for back end host and for the systems of idrssystem.h. Arrays begin with the first
   row. Column j of G begins at G + j ld. No PETSc call: compiled for host and device.
*/
#pragma once

#include <petscidrs/private/idrsloops.h>

/* Computes v = r - G(:,0:k) c in the start, and v = r - G(:,k:s) c after it. v may be r */
IDRS_INLINE void IDRSLoopCombineV(PetscInt m, const IDRSScalars *scalars, PetscInt k, PetscBool start, const PetscScalar *G,
                                  size_t ld, const PetscScalar *r, PetscScalar *v)
{
  const PetscInt low = start ? 0 : k, high = start ? k : scalars->s;

  for (PetscInt i = 0; i < m; i++) v[i] = r[i];
  IDRSLoopAdd(m, v, -1.0, high - low, scalars->c + low, G + low * ld, ld);
}

/* Computes y = D x, where D = B^{-1} is diagonal. y may be x */
IDRS_INLINE void IDRSLoopScale(PetscInt m, const PetscScalar *D, const PetscScalar *x, PetscScalar *y)
{
  for (PetscInt i = 0; i < m; i++) y[i] = D[i] * x[i];
}

/* Computes U_k = omega v + U(:,k:s) c, where v = B^{-1}(r - G(:,k:s) c) */
IDRS_INLINE void IDRSLoopCombineU(PetscInt m, const IDRSScalars *scalars, PetscInt k, PetscScalar *U, size_t ld,
                                  const PetscScalar *v)
{
  PetscScalar *PETSC_RESTRICT u     = U + k * ld;
  const PetscScalar           omega = scalars->omega[0], ck = scalars->c[k];

  for (PetscInt i = 0; i < m; i++) u[i] = omega * v[i] + ck * u[i];
  IDRSLoopAdd(m, u, 1.0, scalars->s - k - 1, scalars->c + k + 1, u + ld, ld);
}

/* Updates G_k, U_k and r after the projection of step k. Returns r^H r of these rows */
IDRS_INLINE PetscReal IDRSLoopUpdate(PetscInt m, const IDRSScalars *scalars, PetscInt k, PetscBool start, PetscScalar *G,
                                     PetscScalar *U, size_t ld, PetscScalar *r)
{
  PetscScalar *g = G + k * ld, *u = U + k * ld;

  /* r -= beta_k G_k, with the new G_k except in the start */
  if (start) IDRSLoopAdd(m, r, -1.0, 1, scalars->beta + k, g, ld);
  IDRSLoopAdd(m, g, -1.0, k, scalars->alpha, G, ld); /* G_k -= G(:,0:k) alpha */
  IDRSLoopAdd(m, u, -1.0, k, scalars->alpha, U, ld); /* U_k -= U(:,0:k) alpha */
  if (!start) IDRSLoopAdd(m, r, -1.0, 1, scalars->beta + k, g, ld);
  return IDRSLoopSquare(m, r);
}

/* Updates z and r after the projection of the omega step, p = B^{-1}r. Returns r^H r of these rows */
IDRS_INLINE PetscReal IDRSLoopAdvance(PetscInt m, const IDRSScalars *scalars, const PetscScalar *U, size_t ld, const PetscScalar *p,
                                      const PetscScalar *t, PetscScalar *z, PetscScalar *r)
{
  /* z += omega p + U beta */
  IDRSLoopAdd(m, z, 1.0, 1, scalars->omega, p, ld);
  IDRSLoopAdd(m, z, 1.0, scalars->s, scalars->beta, U, ld);
  IDRSLoopAdd(m, r, -1.0, 1, scalars->omega, t, ld); /* r -= omega t */
  return IDRSLoopSquare(m, r);
}

/* Adds P^H x and P^H y of these rows, in units of P. z0 and z1 are the state of the hashed space in these rows */
IDRS_INLINE void IDRSLoopAddShadowSums(PetscInt m, PetscInt s, const uint32_t *z0, const uint32_t *z1, const PetscScalar *x,
                                       const PetscScalar *y, PetscBool withy, PetscScalar sums[])
{
  PetscScalar *Px = sums + IDRS_SUM_PX(s), *Py = sums + IDRS_SUM_PY(s), unused = 0.0;

  for (PetscInt j = 0; j < s; j += 2) {
    const uint32_t multiplier = IDRSShadowMultiplier((uint32_t)(j / 2));

    IDRSLoopShadowDots(m, z0, z1, multiplier, x, Px + j, j + 1 < s ? Px + j + 1 : &unused);
    if (withy) IDRSLoopShadowDots(m, z0, z1, multiplier, y, Py + j, j + 1 < s ? Py + j + 1 : &unused);
  }
}

/* Adds x^H x, y^H y and x^H y of these rows */
IDRS_INLINE void IDRSLoopAddSquares(PetscInt m, PetscInt s, const PetscScalar *x, const PetscScalar *y, PetscBool withy,
                                    PetscScalar sums[])
{
  sums[IDRS_SUM_XX(s)] += IDRSLoopSquare(m, x);
  if (withy) {
    sums[IDRS_SUM_YY(s)] += IDRSLoopSquare(m, y);
    sums[IDRS_SUM_XY(s)] += IDRSLoopDot(m, x, y);
  }
}

/* Multiplies P^H x and P^H y of all rows by the unit of P */
IDRS_INLINE void IDRSLoopScaleSums(PetscInt s, PetscBool withy, PetscScalar sums[])
{
  for (PetscInt j = 0; j < s; j++) {
    sums[IDRS_SUM_PX(s) + j] *= (PetscReal)IDRS_SHADOW_UNIT;
    if (withy) sums[IDRS_SUM_PY(s) + j] *= (PetscReal)IDRS_SHADOW_UNIT;
  }
}
