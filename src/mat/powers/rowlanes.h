/*
   The part of a matrix that each lane of a kernel has, where the lanes together have all of it
*/
#pragma once

#include <petscmat.h>

/* Entries of a row that a lane has at most */
#define IDRS_ROW_ATONCE 8

/* Warps of a row at most: each lane of the first one adds the sum of one further warp. And entries of such a row */
#define IDRS_ROW_WARPS   33
#define IDRS_ROW_LONGEST (IDRS_ROW_WARPS * 32 * IDRS_ROW_ATONCE)

/* Part `part` of a row that so many lanes share; row -1: none. extra: number of sums of further warps of the rows before it */
typedef struct {
  int row, part, lanes, extra;
} IDRSRowLane;

PETSC_INTERN size_t         IDRSCountRowLanes(PetscInt, const PetscInt[], const PetscInt[], size_t *, PetscInt *);
PETSC_INTERN PetscErrorCode IDRSUploadRowLanes(PetscInt, const PetscInt[], const PetscInt[], size_t, IDRSRowLane **);
