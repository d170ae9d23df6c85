/*
   Computes (A u)_row from the arrays of a CSR matrix, with one lane or several. No PETSc call.
*/
#pragma once

#include "../device/target.cuh"
#include <type_traits>
#include "csr.h"

/* Indices beyond the last one do not overflow in this type */
typedef std::make_unsigned<PetscInt>::type IDRSIndex;

/* Loads entries of a vector that this kernel does not write; 0 for column -1 */
template <int ATONCE>
static __device__ __forceinline__ void IDRSGather(const PetscScalar *u, const PetscInt column[ATONCE], PetscScalar entry[ATONCE])
{
#pragma unroll
  for (int l = 0; l < ATONCE; l++) entry[l] = column[l] >= 0 ? IDRSLoadConstant(u + column[l]) : (PetscScalar)0.0;
}

/* Returns true if this lane has more entries; each lane decides independently, except with operands that overload this function */
template <typename Operand>
static __device__ __forceinline__ bool IDRSGoesOn(const Operand &, bool left)
{
  return left;
}

/*
   Returns the sum of a_q u_q over the entries q = p, p + stride, ... before end. A lane loads ATONCE entries before it uses one of
   them, and loads entries of u with IDRSGather()
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
      value[l]  = q < end ? IDRSLoadConstant(A.a + q) : (PetscScalar)0.0;
    }
    IDRSGather<ATONCE>(u, column, entry);
#pragma unroll
    for (int l = 0; l < ATONCE; l++) {
      if (column[l] >= 0) sum += value[l] * entry[l];
    }
  }
  return sum;
}

/* Returns the part of (A u)_row of this lane, of `lanes` lanes that share the row */
template <int ATONCE, typename Matrix, typename Operand>
static __device__ __forceinline__ PetscScalar IDRSRowPart(const Matrix &A, const Operand &u, IDRSIndex row, int lane, int lanes)
{
  const bool there = row < (IDRSIndex)A.n;

  return IDRSEntriesSum<ATONCE>(A, u, there ? A.i[row] + lane : 0, there ? A.i[row + 1] : 0, lanes);
}

/* Called by a warp. Returns (A u)_row in the first lane */
template <int ATONCE, typename Operand>
static __device__ __forceinline__ PetscScalar IDRSWarpRowSum(const IDRSCSR &A, const Operand &u, IDRSIndex row)
{
  return IDRSWarpSum<IDRS_WARP>(IDRSRowPart<ATONCE>(A, u, row, threadIdx.x % IDRS_WARP, IDRS_WARP));
}

/* Called by a warp for 32 rows from `row` on. Returns (A u)_i with i = row + (this lane) */
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
