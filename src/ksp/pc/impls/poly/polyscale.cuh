/*
   The scale of values in few bits: the power of two that brings the largest value to 2^14 and beyond for half precision, or to 2^96
   for single precision
*/
#pragma once

#include "../../../../sys/device/largest.cuh"
#include "polycopy.h"

/* The larger of |re| and |im|, as the bits of a double: NaN counts as more than all numbers */
static __device__ __forceinline__ unsigned long long PCPolySizeBits(PetscScalar entry)
{
  return max((unsigned long long)__double_as_longlong(fabs((double)PetscRealPart(entry))),
             (unsigned long long)__double_as_longlong(fabs((double)PetscImaginaryPart(entry))));
}

static inline void PCPolyChooseScale(PCPolyPrecision precision, double largest, PetscReal *scale, PetscBool *finite)
{
  int exponent;

  *scale = 1.0;
  if (PetscIsInfOrNanReal((PetscReal)largest)) *finite = PETSC_FALSE;
  else if (largest > 0.0) {
    (void)frexp(largest, &exponent); /* largest < 2^exponent */
    exponent = (precision == PC_POLY_PRECISION_HALF ? 15 : (PetscDefined(USE_REAL_SINGLE) ? 15 : 97)) - exponent;
    exponent = PetscMax(PetscMin(exponent, 100), -100); /* of a number whose inverse a PetscReal holds */
    *scale   = (PetscReal)ldexp(1.0, exponent);
    if (largest * ldexp(1.0, exponent) > (precision == PC_POLY_PRECISION_HALF ? 65504.0 : 3e38)) *finite = PETSC_FALSE;
  }
}
