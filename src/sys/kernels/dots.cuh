/*
   The inner products of a row: P^H x, x^H x and, with a y, P^H y, x^H y, y^H y.

   The hashed shadow space is computed when it is used. The 16 bits of an entry become mantissa bits of a number between 1 and 2,
   from which a constant is subtracted, so that no integer is converted. The sums are scaled once, at the end, and exactly. No PETSc
   call.
*/
#pragma once

#include <petscidrs/private/idrsshadow.h>
#include "rows.cuh"

/* Columns per launch. If there are no more columns, the index of the first column is a compile-time constant */
#define IDRS_COLUMNS_AT_ONCE 16

/*
   The entries of P in a row and the two columns of a pair, from the fields f in the two halves of w and of w folded:
   (2 f - 65535) 2^-21, or 2^-17 in single precision; P_ij is that times IDRS_FIELD_SCALE
*/
#if PetscDefined(USE_REAL_SINGLE)
  #define IDRS_FIELD_SCALE 2.0f
static __device__ __forceinline__ void IDRSPair(const IDRSShadowRow &row, uint32_t multiplier, PetscReal *even, PetscReal *odd)
{
  *even = __uint_as_float(0x3f800040u | (IDRSShadowFieldEven(row, multiplier) << 7)) - 1.5f;
  *odd  = __uint_as_float(0x3f800040u | (IDRSShadowFieldOdd(row, multiplier) << 7)) - 1.5f;
}
#else
  #define IDRS_FIELD_SCALE 32.0
static __device__ __forceinline__ void IDRSPair(const IDRSShadowRow &row, uint32_t multiplier, PetscReal *even, PetscReal *odd)
{
  constexpr PetscReal middle = 1.0 + 1.0 / 32.0 - 1.0 / 2097152.0;
  const uint32_t      w      = row.z0 * multiplier + row.z1;
  const uint32_t      high   = __byte_perm(w, 0x3ff00000u, 0x7632); /* 0x3ff0, then the upper half of w */

  *even = __hiloint2double((int)high, 0) - middle;
  *odd  = __hiloint2double((int)(high ^ (w & 0xffffu)), 0) - middle;
}
#endif

/*
   Columns first ... first + S - 1 of the s shadow vectors, which are computed from the key and the global row
*/
template <int S>
struct IDRSShadow {
  int      s, first;
  uint64_t key, rstart;

  __device__ __forceinline__ int Columns() const { return s - first < S ? s - first : S; }
};

/*
   Sums of a thread, later of a block. dot: P^H x, P^H y, x^H y; square: x^H x, y^H y, and with RR the r^H r of the last update or
   advance
*/
template <int S, bool Y, bool RR = false>
struct IDRSDots {
  static constexpr int count = Y ? 2 * S + 1 : S, squares = (Y ? 2 : 1) + (RR ? 1 : 0);
  PetscScalar          dot[count];
  PetscReal            square[squares];
};

template <int S, bool Y, bool RR>
static __device__ __forceinline__ void IDRSDotsClear(IDRSDots<S, Y, RR> &sums)
{
#pragma unroll
  for (int j = 0; j < IDRSDots<S, Y, RR>::count; j++) sums.dot[j] = 0.0;
#pragma unroll
  for (int j = 0; j < IDRSDots<S, Y, RR>::squares; j++) sums.square[j] = 0.0;
}

/* Adds the products of a row with the shadow vectors from `column` on, and x^H y, without squares. row: the state of the hash */
template <int S, bool Y, bool RR>
static __device__ __forceinline__ void IDRSDotsAddRow(IDRSDots<S, Y, RR> &sums, const IDRSShadowRow &row, int column, PetscScalar x,
                                                      PetscScalar y)
{
#pragma unroll
  for (int j = 0; j < S; j += 2) {
    PetscReal even, odd;

    IDRSPair(row, IDRSShadowMultiplier((uint32_t)((column + j) / 2)), &even, &odd);
    sums.dot[j] += even * x;
    if (Y) sums.dot[S + j] += even * y;
    if (j + 1 < S) {
      sums.dot[j + 1] += odd * x;
      if (Y) sums.dot[S + j + 1] += odd * y;
    }
  }
  if (Y) sums.dot[2 * S] += PetscConj(x) * y;
}

/* Adds the products of rows [i, i+W), where y is zero without a y */
template <int S, int W, bool Y, bool RR>
static __device__ __forceinline__ void IDRSDotsAdd(IDRSDots<S, Y, RR> &sums, const IDRSShadow<S> &P, size_t i, const IDRSPack<W> &x,
                                                   const IDRSPack<W> &y)
{
#pragma unroll
  for (int l = 0; l < W; l++)
    IDRSDotsAddRow(sums, IDRSShadowRowState(P.key, P.rstart + i + l), S < IDRS_COLUMNS_AT_ONCE ? 0 : P.first, x.v[l], y.v[l]);
  sums.square[0] += IDRSSquare<W>(x);
  if (Y) sums.square[1] += IDRSSquare<W>(y);
}
