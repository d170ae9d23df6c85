/*
   One column index for each dense block of a matrix: 4 / bs^2 bytes per entry instead of 4
*/
#pragma once

#include "../../sys/kernels/csr.h"

typedef struct {
  int       bs; /* 1: no blocks; 0: not determined yet */
  PetscInt *j;  /* block q of rows r to r + bs - 1 begins in column bs j[i[r] / bs^2 + q] */
} IDRSTileIndex;

PETSC_INTERN PetscErrorCode IDRSFindTiles(const IDRSCSR *, PetscInt, cudaStream_t, int *, const char *[]);
PETSC_INTERN PetscErrorCode IDRSTileIndexCreate(const IDRSCSR *, PetscInt, IDRSTileIndex *, cudaStream_t, const char *[]);
PETSC_INTERN PetscErrorCode IDRSTileIndexDestroy(IDRSTileIndex *);
