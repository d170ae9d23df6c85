/*
   The rows of combine, update and advance, for kernels of one pass and for kernels of many steps. One thread owns a pack of rows,
   and has the same rows in all passes: of all blocks, or of its own block.

   All passes end with the next direction, from r - G c and U c of a row in registers:

     v = r - G c,   or   U_column = omega (r - G c) + U c,

   where B^{-1}(r - G c) replaces r - G c if B^{-1} is diagonal. A function with the row and its entries as arguments can publish
   the direction.

   The loop over the columns is unrolled for S >= s columns (S = 0: not unrolled), and all its loads are issued at the same time. No
   PETSc call.
*/
#pragma once

#include "../../sys/kernels/coefficients.cuh"
#include "../../sys/kernels/rows.cuh"

/* Both bases; column j of G starts at G + j ld */
typedef struct {
  PetscScalar *G, *U;
  size_t       ld, n;
  int          s;
} IDRSBases;

/* The direction that a pass computes in addition: v, or column U_column. If neither is wanted, d = r - G c is published */
typedef struct {
  bool               wantv, wantu;
  const PetscScalar *diagonal; /* of B^{-1}, or NULL */
  PetscScalar       *v;
} IDRSDirection;

/* The direction is not published */
struct IDRSNotPublished {
  template <int W>
  __device__ __forceinline__ void operator()(size_t, const IDRSPack<W> &) const
  {
  }
};

template <int W, typename Publish>
static __device__ __forceinline__ void IDRSDirect(const IDRSBases &bases, const IDRSDirection &direction, int column,
                                                  PetscScalar omega, size_t i, IDRSPack<W> d, IDRSPack<W> Uc,
                                                  const Publish &publish)
{
  /* d = B^{-1}(r - G c) */
  if (direction.diagonal && (direction.wantv || direction.wantu))
    IDRSScaleEntries<W>(d, IDRSLoad<W>(direction.diagonal, i, bases.n));
  if (direction.wantu) {
    /* U_column = omega d + U c */
    IDRSAdd<W>(Uc, omega, d);
    IDRSStore<W>(bases.U + column * bases.ld, i, bases.n, Uc);
    publish(i, Uc);
  } else {
    /* v = d */
    if (direction.wantv) IDRSStore<W>(direction.v, i, bases.n, d);
    publish(i, d);
  }
}

/* Columns k ... end - 1. x is r, or B^{-1}v if direction.wantv is false */
template <int S, int W, typename Rows = IDRSGridRows, typename Publish>
static __device__ __forceinline__ void IDRSCombineRows(const IDRSBases &bases, const IDRSCoefficients<S> &c,
                                                       const IDRSDirection &direction, int k, int end, const PetscScalar *x,
                                                       const Publish &publish)
{
  const size_t  n = bases.n, ld = bases.ld;
  IDRSDirection written = direction;

  written.wantv = true;
  for (size_t i = Rows::template First<W>(); i < n; i += Rows::template Stride<W>()) {
    const int   zero = IDRSOpaqueZero(i);
    IDRSPack<W> d = IDRSLoad<W>(x, i, n), Uc = IDRSZero<W>();

#pragma unroll
    for (int j = 0; j < (S ? S : end); j++) {
      if (j >= k && j < end) {
        /* d = r - sum_j c_j G_j, U c = sum_j c_j U_j */
        if (direction.wantv) IDRSAdd<W>(d, -c.a[zero + j], IDRSLoad<W>(bases.G + j * ld, i, n));
        if (direction.wantu) IDRSAdd<W>(Uc, c.a[zero + j], IDRSLoad<W>(bases.U + j * ld, i, n));
      }
    }
    IDRSDirect<W>(bases, written, k, c.omega, i, d, Uc, publish);
  }
}

/*
   Update. The combine ends before column end, which is k + 1 in the start and without a combine. Returns the part of r^H r of this
   thread
*/
template <int S, int W, typename Rows = IDRSGridRows, typename Publish>
static __device__ __forceinline__ PetscReal IDRSUpdateRows(const IDRSBases &bases, const IDRSCoefficients<S> &c,
                                                           const IDRSDirection &direction, bool start, int k, int end,
                                                           PetscScalar *r, const Publish &publish)
{
  const size_t n = bases.n, ld = bases.ld;
  PetscReal    sum = 0.0;

  for (size_t i = Rows::template First<W>(); i < n; i += Rows::template Stride<W>()) {
    const int   zero = IDRSOpaqueZero(i);
    IDRSPack<W> g = IDRSLoad<W>(bases.G + k * ld, i, n), u = IDRSZero<W>(), rr = IDRSLoad<W>(r, i, n), Gc = IDRSZero<W>(),
                Uc = IDRSZero<W>();

    if (k > 0) u = IDRSLoad<W>(bases.U + k * ld, i, n);
    /* start: r -= beta_k G_k with the G_k before orthogonalization */
    if (start) IDRSAdd<W>(rr, -c.b[k], g);
    /* one loop over the columns: before k for this step, after k for the next step */
#pragma unroll
    for (int j = 0; j < (S ? S : bases.s); j++) {
      if (j < k) {
        const IDRSPack<W> gj = IDRSLoad<W>(bases.G + j * ld, i, n);

        /* G_k -= alpha_j G_j, U_k -= alpha_j U_j, j < k */
        IDRSAdd<W>(g, -c.a[zero + j], gj);
        IDRSAdd<W>(u, -c.a[zero + j], IDRSLoad<W>(bases.U + j * ld, i, n));
        if (start) IDRSAdd<W>(Gc, c.b[zero + j], gj);
      } else if (j > k && j < end) {
        /* G c and U c of step k + 1, j > k */
        if (direction.wantv) IDRSAdd<W>(Gc, c.a[zero + j], IDRSLoad<W>(bases.G + j * ld, i, n));
        if (direction.wantu) IDRSAdd<W>(Uc, c.a[zero + j], IDRSLoad<W>(bases.U + j * ld, i, n));
      }
    }
    if (start) IDRSAdd<W>(Gc, c.a[k], g);
    /* r -= beta_k G_k */
    else IDRSAdd<W>(rr, -c.b[k], g);
    sum += IDRSSquare<W>(rr);
    if (k > 0) {
      IDRSStore<W>(bases.G + k * ld, i, n, g);
      IDRSStore<W>(bases.U + k * ld, i, n, u);
    }
    IDRSStore<W>(r, i, n, rr);
    IDRSAdd<W>(rr, -1.0, Gc);
    IDRSDirect<W>(bases, direction, k + 1, start ? (PetscScalar)1.0 : c.omega, i, rr, Uc, publish);
  }
  return sum;
}

/* The vectors of advance. p = NULL: r itself, or B^{-1}r by the diagonal */
typedef struct {
  const PetscScalar *p, *t;
  PetscScalar       *z, *r;
} IDRSAdvanced;

/* Advance. The combine ends before column end, which is 0 without a combine. Returns the part of r^H r of this thread */
template <int S, int W, typename Rows = IDRSGridRows, typename Publish>
static __device__ __forceinline__ PetscReal IDRSAdvanceRows(const IDRSBases &bases, const IDRSCoefficients<S> &c,
                                                            const IDRSDirection &direction, int end, const IDRSAdvanced &x,
                                                            const Publish &publish)
{
  const size_t n = bases.n, ld = bases.ld;
  PetscReal    sum = 0.0;

  for (size_t i = Rows::template First<W>(); i < n; i += Rows::template Stride<W>()) {
    const int   zero = IDRSOpaqueZero(i);
    IDRSPack<W> rr = IDRSLoad<W>(x.r, i, n), zz = IDRSLoad<W>(x.z, i, n), Gc = IDRSZero<W>(), Uc = IDRSZero<W>();

    /* z += omega p */
    if (x.p) IDRSAdd<W>(zz, c.omega, IDRSLoad<W>(x.p, i, n));
    else {
      IDRSPack<W> pp = rr;

      if (direction.diagonal) IDRSScaleEntries<W>(pp, IDRSLoad<W>(direction.diagonal, i, n));
      IDRSAdd<W>(zz, c.omega, pp);
    }
#pragma unroll
    for (int j = 0; j < (S ? S : bases.s); j++) {
      if (j < bases.s) {
        const IDRSPack<W> uj = IDRSLoad<W>(bases.U + j * ld, i, n);

        /* z += beta_j U_j, and G c and U c of step 0 */
        IDRSAdd<W>(zz, c.b[zero + j], uj);
        if (j < end) {
          if (direction.wantv) IDRSAdd<W>(Gc, c.a[zero + j], IDRSLoad<W>(bases.G + j * ld, i, n));
          if (direction.wantu) IDRSAdd<W>(Uc, c.a[zero + j], uj);
        }
      }
    }
    IDRSStore<W>(x.z, i, n, zz);
    /* r -= omega t */
    IDRSAdd<W>(rr, -c.omega, IDRSLoad<W>(x.t, i, n));
    sum += IDRSSquare<W>(rr);
    IDRSStore<W>(x.r, i, n, rr);
    IDRSAdd<W>(rr, -1.0, Gc);
    IDRSDirect<W>(bases, direction, 0, c.omega, i, rr, Uc, publish);
  }
  return sum;
}
