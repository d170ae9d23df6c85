/*
   The part of a matrix that each lane of a kernel has, if the lanes hold the whole matrix
*/
#pragma once

#include <petscmat.h>

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
