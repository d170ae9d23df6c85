/*
   Numbers that rows of a kernel wait for: the number itself tells whether it has come. No PETSc call.

   Memory holds IDRS_ABSENT in each real at first, a NaN that no number is: NaNs are replaced by another one before they are stored.
   A real is stored and loaded in one access, so that who does not find the mark has the number, and neither fence nor flag is
   needed. Numbers stay as they are until the next kernel begins.
*/
#pragma once

#include "../../sys/device/target.cuh"
#include <petscidrs/private/idrsloops.h>

/* How often a number is asked for: some ten seconds */
#define IDRS_EXCHANGE_POLLS (1u << 24)

#if PetscDefined(USE_REAL_SINGLE)
typedef unsigned int IDRSBits;
  #define IDRS_ABSENT 0xffffffffu
#else
typedef unsigned long long IDRSBits;
  #define IDRS_ABSENT 0xffffffffffffffffull
#endif

/* A scalar on its way */
typedef struct {
  IDRSBits part[IDRS_PARTS];
} IDRSParcel;

static __device__ __forceinline__ IDRSBits IDRSRealBits(PetscReal x)
{
#if PetscDefined(USE_REAL_SINGLE)
  return x == x ? __float_as_uint(x) : 0x7fc00000u;
#else
  return x == x ? (IDRSBits)__double_as_longlong(x) : 0x7ff8000000000000ull;
#endif
}

static __device__ __forceinline__ PetscReal IDRSBitsReal(IDRSBits bits)
{
#if PetscDefined(USE_REAL_SINGLE)
  return __uint_as_float(bits);
#else
  return __longlong_as_double((long long)bits);
#endif
}

static __device__ __forceinline__ void IDRSParcelClear(IDRSParcel *parcel)
{
#pragma unroll
  for (int k = 0; k < IDRS_PARTS; k++) parcel->part[k] = IDRS_ABSENT;
}

static __device__ __forceinline__ void IDRSParcelSend(IDRSParcel *parcel, PetscScalar x)
{
  const PetscReal real[2] = {PetscRealPart(x), PetscImaginaryPart(x)};

#pragma unroll
  for (int k = 0; k < IDRS_PARTS; k++) {
#if PetscDefined(USE_REAL_SINGLE)
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(&parcel->part[k]), "r"(IDRSRealBits(real[k])) : "memory");
#else
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(&parcel->part[k]), "l"(IDRSRealBits(real[k])) : "memory");
#endif
  }
}

/* Asks for a parcel, or does not: a load without a branch, so that those of other parcels are under way, too */
static __device__ __forceinline__ void IDRSParcelLoadIf(bool ask, const IDRSParcel *from, IDRSParcel *parcel)
{
#pragma unroll
  for (int k = 0; k < IDRS_PARTS; k++) {
#if PetscDefined(USE_REAL_SINGLE)
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %2, 0;\n\t@p ld.relaxed.gpu.global.u32 %0, [%1];\n\t}"
                 : "+r"(parcel->part[k])
                 : "l"(&from->part[k]), "r"((unsigned int)ask)
                 : "memory");
#else
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %2, 0;\n\t@p ld.relaxed.gpu.global.u64 %0, [%1];\n\t}"
                 : "+l"(parcel->part[k])
                 : "l"(&from->part[k]), "r"((unsigned int)ask)
                 : "memory");
#endif
  }
}

static __device__ __forceinline__ bool IDRSParcelHasCome(const IDRSParcel &parcel)
{
  bool all = true;

#pragma unroll
  for (int k = 0; k < IDRS_PARTS; k++) all = all & (parcel.part[k] != IDRS_ABSENT);
  return all;
}

static __device__ __forceinline__ PetscScalar IDRSParcelScalar(const IDRSParcel &parcel)
{
#if PetscDefined(USE_COMPLEX)
  return PetscScalar(IDRSBitsReal(parcel.part[0]), IDRSBitsReal(parcel.part[1]));
#else
  return IDRSBitsReal(parcel.part[0]);
#endif
}
