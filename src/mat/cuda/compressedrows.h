/*
   The values that copies of a matrix have, and the rows with more entries than a limit, in compressed row storage of their own
*/
#pragma once

#include "../../sys/kernels/csr.h"

/* The values of a copy: scale D^{-1}A */
typedef struct {
  IDRSCSR            A;
  const PetscScalar *inverse; /* diagonal of D^{-1}; NULL if D = I */
  bool               unit;    /* the diagonal of D^{-1}A is 1, and is not copied */
  PetscReal          scale;
} IDRSSource;

/* Returns entry p, which is in this row */
static __device__ __forceinline__ PetscScalar IDRSSourceEntry(const IDRSSource &source, PetscInt p, uint32_t row)
{
  return (source.inverse ? source.inverse[row] * source.A.a[p] : source.A.a[p]) * source.scale;
}

/* The selected rows */
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
