/*
   A matvec by lanes that hold the whole matrix, each up to IDRS_ROW_ATONCE entries of a row in registers. The lanes of a row add up
   their parts. Lanes exchange entries of the vector as marked scalars, see wait.cuh, and also the sums of a row
   that is too long for one warp. No PETSc call.
*/
#pragma once

#include "../../sys/kernels/csr.h"
#include "../../sys/kernels/wait.cuh"

/* Most entries of a row in one lane */
#define IDRS_ROW_ATONCE 8

/* Most warps of a row, because each lane of the first warp adds the sum of one further warp; and most entries of such a row */
#define IDRS_ROW_WARPS   33
#define IDRS_ROW_LONGEST (IDRS_ROW_WARPS * 32 * IDRS_ROW_ATONCE)

/* Part `part` of a row that several lanes share; row -1: none. extra: sums of further warps of the rows before it */
typedef struct {
  int row, part, lanes, extra;
} IDRSRowLane;

PETSC_INTERN size_t         IDRSCountRowLanes(PetscInt, const PetscInt[], const PetscInt[], size_t *, PetscInt *);
PETSC_INTERN PetscErrorCode IDRSUploadRowLanes(PetscInt, const PetscInt[], const PetscInt[], size_t, IDRSRowLane **);

/* Waits for the entries of v_{j-1} in these columns, -1 for none. One warp */
template <int count>
static __device__ __forceinline__ void IDRSPowersGather(const IDRSMarked *places, const PetscInt column[count],
                                                        IDRSMarked marked[count], IDRSWaitPolls *wait)
{
  const IDRSMarked *from[count];
  bool              wanted[count];

#pragma unroll
  for (int l = 0; l < count; l++) {
    wanted[l] = column[l] >= 0;
    from[l]   = places + max(column[l], (PetscInt)0);
  }
  IDRSWaitForMarked<count>(from, wanted, marked, wait);
}

/* The entries of a lane, and the lanes and warps of its row */
typedef struct {
  PetscInt    row, place; /* place of the entry or the sum that the lane stores in a step; -1 for none */
  int         last;       /* the last lane of the row in this warp */
  int         most;       /* most lanes of a row in this warp */
  int         warps;      /* of the row of the first lane */
  PetscInt    extra;      /* place of the sum of the second warp */
  bool        first;      /* the lane is the first one of a row */
  PetscInt    column[IDRS_ROW_ATONCE];
  PetscScalar value[IDRS_ROW_ATONCE];
} IDRSPowersEntries;

static __device__ __forceinline__ void IDRSPowersLoad(const IDRSCSR &A, IDRSRowLane mine, IDRSPowersEntries &entries)
{
  const int      lane  = threadIdx.x % IDRS_WARP;
  const bool     there = mine.row >= 0;
  const PetscInt end = there ? A.i[mine.row + 1] : 0, begin = there ? A.i[mine.row] : 0;
  const int      warp = mine.part / IDRS_WARP, own = min(mine.lanes - warp * IDRS_WARP, IDRS_WARP);

  entries.row   = mine.row;
  entries.first = there && mine.part == 0;
  entries.extra = (PetscInt)A.n + mine.extra;
  entries.warps = IDRSShuffle((mine.lanes + IDRS_WARP - 1) / IDRS_WARP, 0); /* if there are several, the warp has only this row */
  entries.last  = lane - mine.part % IDRS_WARP + own - 1;
  entries.most  = (int)~IDRSWarpMin(~(unsigned int)(there ? own : 1));
  entries.place = entries.first ? mine.row : (there && warp && lane == 0 ? entries.extra + warp - 1 : -1);
#pragma unroll
  for (int l = 0; l < IDRS_ROW_ATONCE; l++) {
    const PetscInt q = begin + mine.part * IDRS_ROW_ATONCE + l;

    entries.column[l] = q < end ? A.j[q] : -1;
    entries.value[l]  = q < end ? A.a[q] : (PetscScalar)0.0;
  }
}

/* Returns (A u)_row in the first lane of each row. A further warp of a row stores its sum. One warp */
static __device__ __forceinline__ PetscScalar IDRSPowersProduct(const IDRSPowersEntries &entries, IDRSMarked *places,
                                                                IDRSWaitPolls *wait)
{
  const int   lane = threadIdx.x % IDRS_WARP;
  IDRSMarked  marked[IDRS_ROW_ATONCE];
  PetscScalar sum = 0.0;

  IDRSPowersGather<IDRS_ROW_ATONCE>(places, entries.column, marked, wait);
#pragma unroll
  for (int l = 0; l < IDRS_ROW_ATONCE; l++) {
    if (entries.column[l] >= 0) sum += entries.value[l] * IDRSMarkedValue(marked[l]);
  }
  /* sum of lanes l ... min(l + 2 offset - 1, last) */
  for (int offset = 1; offset < entries.most; offset *= 2) {
    const PetscScalar other = IDRSShuffleDown(sum, offset);

    if (lane + offset <= entries.last) sum += other;
  }
  if (__builtin_expect(entries.warps > 1, 0)) {
    if (IDRSWarpAll(!entries.first)) {
      if (entries.place >= 0) IDRSMarkedStore(places + entries.place, sum);
    } else {
      const PetscInt further[1] = {lane < entries.warps - 1 ? entries.extra + lane : -1};

      IDRSPowersGather<1>(places, further, marked, wait);
      sum += IDRSWarpSum<IDRS_WARP>(further[0] >= 0 ? IDRSMarkedValue(marked[0]) : (PetscScalar)0.0);
    }
  }
  return sum;
}
