/*
   The values that copies of a matrix have: scale D^{-1}A. No PETSc call.
*/
#pragma once

#include "../../sys/kernels/csr.h"

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
