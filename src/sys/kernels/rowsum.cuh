/*
   (A u)_row from the arrays of a CSR matrix, by one lane or several. No PETSc call.
*/
#pragma once

#include "../device/target.cuh"
#include <type_traits>
#include "csr.h"

/* Indices that do not overflow beyond the last one */
typedef std::make_unsigned<PetscInt>::type IDRSIndex;

/* Entries of a vector that nothing writes in this kernel; of column -1 there is none */
template <int ATONCE>
static __device__ __forceinline__ void IDRSGather(const PetscScalar *u, const PetscInt column[ATONCE], PetscScalar entry[ATONCE])
{
#pragma unroll
  for (int l = 0; l < ATONCE; l++) entry[l] = column[l] >= 0 ? IDRSLoadConstant(u + column[l]) : (PetscScalar)0.0;
}

/* Returns true if this lane goes on because it has entries left: each by itself */
static __device__ __forceinline__ bool IDRSGoesOn(const PetscScalar *, bool left)
{
  return left;
}

/* Value q of a matrix in global memory, which nothing writes in this kernel */
static __device__ __forceinline__ PetscScalar IDRSMatrixValue(const IDRSCSR &A, IDRSIndex q)
{
  return IDRSLoadConstant(A.a + q);
}

/*
   Entries p, p + stride, ... before end. A lane reads ATONCE entries before it uses one of them, and takes those of u with
   IDRSGather()
*/
template <int ATONCE, typename Matrix, typename Operand>
static __device__ __forceinline__ PetscScalar IDRSEntriesSum(const Matrix &A, const Operand &u, IDRSIndex p, IDRSIndex end,
                                                             int stride)
{
  PetscScalar sum = 0.0;

  for (; IDRSGoesOn(u, p < end); p += ATONCE * stride) {
    PetscInt    column[ATONCE];
    PetscScalar value[ATONCE], entry[ATONCE];

#pragma unroll
    for (int l = 0; l < ATONCE; l++) {
      const IDRSIndex q = p + l * stride;

      column[l] = q < end ? A.j[q] : -1;
      value[l]  = q < end ? IDRSMatrixValue(A, q) : (PetscScalar)0.0;
    }
    IDRSGather<ATONCE>(u, column, entry);
#pragma unroll
    for (int l = 0; l < ATONCE; l++) {
      if (column[l] >= 0) sum += value[l] * entry[l];
    }
  }
  return sum;
}

/* By lane of so many: the part of this lane of (A u)_row */
template <int ATONCE, typename Matrix, typename Operand>
static __device__ __forceinline__ PetscScalar IDRSRowPart(const Matrix &A, const Operand &u, IDRSIndex row, int lane, int lanes)
{
  const bool there = row < (IDRSIndex)A.n;

  return IDRSEntriesSum<ATONCE>(A, u, there ? A.i[row] + lane : 0, there ? A.i[row + 1] : 0, lanes);
}

/* The arrays of a CSR matrix with dense blocks, and the index of these: see tileindex.h */
struct IDRSTiledCSR : IDRSCSR {
  const PetscInt *blocks;
  int             bs;
};

/* The same with blocks, of which a lane takes those number lane, lane + lanes, ... of a row */
template <int ATONCE>
static __device__ __forceinline__ PetscScalar IDRSRowPart(const IDRSTiledCSR &A, const PetscScalar *u, IDRSIndex row, int lane,
                                                          int lanes)
{
  const bool      there = row < (IDRSIndex)A.n;
  const IDRSIndex begin = there ? A.i[row] : 0, end = there ? A.i[row + 1] : 0;
  const PetscInt *block = A.blocks + (there ? A.i[row - row % A.bs] : 0) / (A.bs * A.bs) + lane;
  PetscScalar     sum   = 0.0;

  for (IDRSIndex p = begin + lane * A.bs; p < end; p += lanes * A.bs, block += lanes) {
    const PetscScalar *entries = u + (size_t)*block * A.bs;

    for (int first = 0; first < A.bs; first += 4) {
      PetscScalar value[4], entry[4];

#pragma unroll
      for (int l = 0; l < 4; l++) {
        value[l] = first + l < A.bs ? IDRSLoadConstant(A.a + p + first + l) : (PetscScalar)0.0;
        entry[l] = first + l < A.bs ? IDRSLoadConstant(entries + first + l) : (PetscScalar)0.0;
      }
#pragma unroll
      for (int l = 0; l < 4; l++) {
        if (first + l < A.bs) sum += value[l] * entry[l];
      }
    }
  }
  return sum;
}

/* By a warp: (A u)_row, for its first lane */
template <int ATONCE, typename Operand>
static __device__ __forceinline__ PetscScalar IDRSWarpRowSum(const IDRSCSR &A, const Operand &u, IDRSIndex row)
{
  return IDRSWarpSum<IDRS_WARP>(IDRSRowPart<ATONCE>(A, u, row, threadIdx.x % IDRS_WARP, IDRS_WARP));
}

/* By a warp: entry of A u for row + (this lane), where row is the first of 32 */
template <int ATONCE, typename Matrix, typename Operand>
static __device__ __forceinline__ PetscScalar IDRSRowSum(const Matrix &A, const Operand &u, IDRSIndex row, int lanes)
{
  const int   lane = threadIdx.x % IDRS_WARP, rows = IDRS_WARP / lanes; /* rows at a time */
  PetscScalar mine = 0.0;

  if (lanes == 1) return IDRSRowPart<ATONCE>(A, u, row + lane, 0, 1);
  for (int done = 0; done < IDRS_WARP; done += rows) {
    PetscScalar sum = IDRSRowPart<ATONCE>(A, u, row + done + lane / lanes, lane % lanes, lanes);

    /* the lanes of a row add up their parts, and lane l gets the sum of row l */
    for (int offset = lanes / 2; offset > 0; offset /= 2) sum += IDRSShuffleDown(sum, offset);
    sum = IDRSShuffle(sum, lane % rows * lanes);
    if (lane / rows == done / rows) mine = sum;
  }
  return mine;
}

/* The same, where each lane has a row, but for entries beyond so many: those of one row after another are shared by all lanes */
template <int ATONCE, typename Matrix, typename Operand>
static __device__ __forceinline__ PetscScalar IDRSRowSumShared(const Matrix &A, const Operand &u, IDRSIndex row, int own)
{
  const int       lane  = threadIdx.x % IDRS_WARP;
  const bool      there = row + lane < (IDRSIndex)A.n;
  const IDRSIndex begin = there ? A.i[row + lane] : 0, end = there ? A.i[row + lane + 1] : 0,
                  split = min(end, begin + (IDRSIndex)own);
  PetscScalar mine      = IDRSEntriesSum<ATONCE>(A, u, begin, split, 1);

  for (unsigned int left = IDRSWarpBallot(split < end); left; left &= left - 1) {
    const int         from = __ffs(left) - 1;
    const IDRSIndex   p = IDRSShuffle(split, from), last = IDRSShuffle(end, from);
    const PetscScalar rest = IDRSShuffle(IDRSWarpSum<IDRS_WARP>(IDRSEntriesSum<ATONCE>(A, u, p + lane, last, IDRS_WARP)), 0);

    if (lane == from) mine += rest;
  }
  return mine;
}
