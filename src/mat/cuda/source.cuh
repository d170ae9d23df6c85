/*
   The values that are copied of a matrix: D^{-1}A times a scale. No PETSc call.
*/
#pragma once

#include "../../sys/kernels/csr.h"

typedef struct {
  IDRSCSR            A;
  const PetscScalar *inverse; /* diagonal of D^{-1}, or NULL where D is I */
  bool               unit;    /* the diagonal of D^{-1}A is 1, and is left out */
  PetscReal          scale;
} IDRSSource;

/* Entry p, which is in this row */
static __device__ __forceinline__ PetscScalar IDRSSourceEntry(const IDRSSource &source, PetscInt p, uint32_t row)
{
  return (source.inverse ? source.inverse[row] * source.A.a[p] : source.A.a[p]) * source.scale;
}
