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

/* Calls launch with a value of the type of the copy's values */
template <typename L>
static PetscErrorCode PCPolyDispatchValue(PCPolyPrecision precision, L &&launch)
{
  PetscFunctionBegin;
  if (precision == PC_POLY_PRECISION_HALF) PetscCall(launch(IDRSNarrow<__half>()));
  else if (precision == PC_POLY_PRECISION_SINGLE) PetscCall(launch(IDRSNarrow<float>()));
  else PetscCall(launch(PetscScalar()));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes the scale from the largest value, which find() keeps in the memory that it is given, as bits; finite becomes PETSC_FALSE
   if the precision does not hold the value
*/
template <typename L>
static PetscErrorCode PCPolyFindScale(PCPolyPrecision precision, cudaStream_t stream, L &&find, PetscReal *scale, PetscBool *finite)
{
  const bool          half = precision == PC_POLY_PRECISION_HALF;
  unsigned long long *memory;
  double              largest;
  int                 exponent;
  PetscDeviceContext  dctx;

  PetscFunctionBegin;
  *scale = 1.0;
  if (precision == PC_POLY_PRECISION_DOUBLE) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &memory));
  PetscCall(find(memory));
  PetscCallCUDA(cudaMemcpyAsync(&largest, memory, sizeof(largest), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscCall(PetscDeviceFree(dctx, memory));
  if (PetscIsInfOrNanReal((PetscReal)largest)) *finite = PETSC_FALSE;
  else if (largest > 0.0) {
    (void)frexp(largest, &exponent); /* largest < 2^exponent */
    exponent = (half ? 15 : (PetscDefined(USE_REAL_SINGLE) ? 15 : 97)) - exponent;
    exponent = PetscMax(PetscMin(exponent, 100), -100); /* of a number whose inverse a PetscReal holds */
    *scale   = (PetscReal)ldexp(1.0, exponent);
    if (largest * ldexp(1.0, exponent) > (half ? 65504.0 : 3e38)) *finite = PETSC_FALSE;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
