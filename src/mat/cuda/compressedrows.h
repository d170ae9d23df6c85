/*
   The rows of a matrix that have more entries than a limit, in compressed row storage of their own
*/
#pragma once

#include "source.cuh"

typedef struct {
  IDRSCSR   A;    /* these rows only */
  PetscInt *rows; /* their numbers, ascending */
  void     *memory;
  size_t    bytes, entries;
} IDRSCompressedRows;

PETSC_INTERN PetscErrorCode IDRSCompressedRowsSelect(const IDRSCSR *, unsigned int, const IDRSRowLengths *, IDRSCompressedRows *,
                                                     cudaStream_t, const char *[]);
PETSC_INTERN PetscErrorCode IDRSCompressedRowsFill(const IDRSSource *, IDRSCompressedRows *, cudaStream_t);
PETSC_INTERN PetscErrorCode IDRSCompressedRowsDestroy(IDRSCompressedRows *);
