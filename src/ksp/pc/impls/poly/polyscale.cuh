/*
   The scale of values in half or single precision: the power of two with which the largest value is at least 2^14, or 2^96 in
   single precision
*/
#pragma once

#include "../../../../sys/device/target.cuh"
#include "polycopy.h"

/* Returns max(|re|, |im|) as the bits of a double; NaN is larger than all numbers */
static __device__ __forceinline__ unsigned long long PCPolySizeBits(PetscScalar entry)
{
  return max((unsigned long long)__double_as_longlong(fabs((double)PetscRealPart(entry))),
             (unsigned long long)__double_as_longlong(fabs((double)PetscImaginaryPart(entry))));
}

/* Calls launch with an argument of the type of the values */
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
   Computes the scale from the largest value, which find() stores as bits at its argument. finite is set to PETSC_FALSE if the value
   is not finite in this precision
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
    exponent = PetscMax(PetscMin(exponent, 100), -100); /* the inverse of the scale must be a finite PetscReal */
    *scale   = (PetscReal)ldexp(1.0, exponent);
    if (largest * ldexp(1.0, exponent) > (half ? 65504.0 : 3e38)) *finite = PETSC_FALSE;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
