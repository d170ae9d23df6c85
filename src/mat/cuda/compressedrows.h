/*
   Some rows of a matrix, in compressed row storage of their own: those that have more entries than a limit
*/
#pragma once

#include "source.cuh"

typedef struct {
  IDRSCSR   A;    /* these rows only */
  PetscInt *rows; /* which ones they are, from the first on */
  void     *memory;
  size_t    bytes;
} IDRSCompressedRows;

PETSC_INTERN PetscErrorCode IDRSCompressedRowsSelect(const IDRSCSR *, unsigned int, const IDRSRowLengths *, IDRSCompressedRows *,
                                                     cudaStream_t, const char *[]);
PETSC_INTERN PetscErrorCode IDRSCompressedRowsFill(const IDRSSource *, IDRSCompressedRows *, cudaStream_t);
PETSC_INTERN PetscErrorCode IDRSCompressedRowsDestroy(IDRSCompressedRows *);
