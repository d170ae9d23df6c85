/*
   The passes of steps after the start, in a kernel of many steps: update and advance of passes.cuh for one row, ordered for short
   waits. All columns of a row are loaded before the first one is used, the direction is published before anything else is written,
   and values that no other row waits for are written last. With the rows of passes.cuh instead, a matvec took up to 12 % longer for
   1000 to 110 592 rows on an H200, and a third longer for 262 144 rows and s = 8. No PETSc call.
*/
#pragma once

#include "passes.cuh"
#include "wholesteps.cuh"

/* |x|^2 */
static __device__ __forceinline__ PetscReal IDRSAbsSquare(PetscScalar x)
{
  return PetscRealPart(x) * PetscRealPart(x) + PetscImaginaryPart(x) * PetscImaginaryPart(x);
}

/* Adds the inner products of a row, as in dots.cuh; state: of the hash for this row, computed before x */
template <int S, bool Y>
static __device__ __forceinline__ void IDRSWholeDotsAdd(IDRSDots<S, Y, true> &sums, const IDRSShadowRow &state, PetscScalar x,
                                                        PetscScalar y)
{
#pragma unroll
  for (int j = 0; j < S; j += 2) {
    PetscReal p[2];

    IDRSPair(state, IDRSShadowMultiplier(j / 2), &p[0], &p[1]);
#pragma unroll
    for (int l = 0; l < 2 && j + l < S; l++) {
      sums.dot[j + l] += p[l] * x;
      if (Y) sums.dot[S + j + l] += p[l] * y;
    }
  }
  sums.square[0] += IDRSAbsSquare(x);
  if (Y) {
    sums.dot[2 * S] += PetscConj(x) * y;
    sums.square[1] += IDRSAbsSquare(y);
  }
}

/* Entry i of the first s columns of a panel */
template <int S>
static __device__ __forceinline__ void IDRSLoadColumns(const PetscScalar *panel, IDRSIndex ld, IDRSIndex i, int s,
                                                       PetscScalar entry[S])
{
#pragma unroll
  for (int j = 0; j < S; j++) entry[j] = j < s ? panel[j * ld + i] : (PetscScalar)0.0;
}

/*
   Step k: with the new G_k and U_k, r = r - beta G_k, and the direction of step k+1, or r or B^{-1}r after the last step. With a
   polynomial preconditioner, POLY, v = r - G c and U_{k+1} = U c instead of the direction. Returns the part of r^H r of this thread
*/
template <int S, typename Rows, bool POLY, typename Publish>
static __device__ __forceinline__ PetscReal IDRSWholeUpdateRows(const IDRSWholeSteps &steps, const IDRSLanesCoefficients<S> &c,
                                                                int k, const Publish &publish)
{
  const IDRSIndex n = (IDRSIndex)steps.panels.n, ld = (IDRSIndex)steps.panels.ld;
  const int       s   = steps.panels.s;
  PetscReal       sum = 0.0;

  for (IDRSIndex i = (IDRSIndex)Rows::template First<1>(); i < n; i += (IDRSIndex)Rows::template Stride<1>()) {
    const int   zero = IDRSOpaqueZero(i);
    PetscScalar G[S], U[S], g = steps.panels.G[k * ld + i], u = steps.panels.U[k * ld + i], r = steps.r[i], Ga = 0.0, Ua = 0.0,
                            Gc = 0.0, Uc = 0.0;
    IDRSPack<1> d;

    IDRSLoadColumns<S>(steps.panels.G, ld, i, s, G);
    IDRSLoadColumns<S>(steps.panels.U, ld, i, s, U);
#pragma unroll
    for (int j = 0; j < S; j++) {
      /* G alpha, U alpha for step k; G c, U c for step k + 1 */
      Ga += c.a[zero + j] * G[j];
      Ua += c.a[zero + j] * U[j];
      Gc += c.b[zero + j] * G[j];
      Uc += c.b[zero + j] * U[j];
    }
    /* G_k -= G alpha, U_k -= U alpha, r -= beta_k G_k */
    g -= Ga;
    u -= Ua;
    r -= c.beta * g;
    /* d = B^{-1}(r - G c), U_{k+1} = omega d + U c */
    d.v[0] = r - Gc;
    if (steps.diagonal) d.v[0] *= steps.diagonal[i];
    if (k + 1 < s && POLY) {
      steps.v[i] = d.v[0];
      d.v[0]     = Uc;
    } else if (k + 1 < s) d.v[0] = Uc + c.omega * d.v[0];
    if (!POLY) publish(i, d);
    if (k + 1 < s) steps.panels.U[(k + 1) * ld + i] = d.v[0];
    else if (steps.diagonal) steps.v[i] = d.v[0];
    /* no other row waits for what follows */
    if (k > 0) {
      steps.panels.G[k * ld + i] = g;
      steps.panels.U[k * ld + i] = u;
    }
    steps.r[i] = r;
    sum += IDRSAbsSquare(r);
  }
  return sum;
}

/*
   The omega step: r = r - omega t, the direction of step 0, and z = z + omega p + U beta, where p is the old r or B^{-1}r. With a
   polynomial preconditioner v = r - G c and U_0 = U c instead of the direction. Returns the part of r^H r of this thread
*/
template <int S, typename Rows, bool POLY, typename Publish>
static __device__ __forceinline__ PetscReal IDRSWholeAdvanceRows(const IDRSWholeSteps &steps, const IDRSCoefficients<S> &c,
                                                                 const Publish &publish)
{
  const IDRSIndex n = (IDRSIndex)steps.panels.n, ld = (IDRSIndex)steps.panels.ld;
  const int       s   = steps.panels.s;
  PetscReal       sum = 0.0;

  for (IDRSIndex i = (IDRSIndex)Rows::template First<1>(); i < n; i += (IDRSIndex)Rows::template Stride<1>()) {
    const int   zero = IDRSOpaqueZero(i);
    PetscScalar G[S], U[S], p = steps.r[i], r = p - c.omega * steps.t[i], z = steps.z[i], Gc = 0.0, Uc = 0.0, Ub = 0.0;
    IDRSPack<1> d;

    IDRSLoadColumns<S>(steps.panels.G, ld, i, s, G);
    IDRSLoadColumns<S>(steps.panels.U, ld, i, s, U);
#pragma unroll
    for (int j = 0; j < S; j++) {
      if (j < s) {
        /* G c, U c for step 0; U beta for z */
        Gc += c.a[zero + j] * G[j];
        Uc += c.a[zero + j] * U[j];
        Ub += c.b[zero + j] * U[j];
      }
    }
    d.v[0] = r - Gc;
    if (steps.diagonal) {
      const PetscScalar scale = steps.diagonal[i];

      d.v[0] *= scale;
      p *= scale;
    }
    if (POLY) {
      p          = steps.v[i];
      steps.v[i] = d.v[0];
      d.v[0]     = Uc;
    } else {
      d.v[0] = Uc + c.omega * d.v[0];
      publish(i, d);
    }
    steps.panels.U[i] = d.v[0];
    steps.r[i]        = r;
    sum += IDRSAbsSquare(r);
    /* z += omega p + U beta */
    steps.z[i] = z + (Ub + c.omega * p);
  }
  return sum;
}
