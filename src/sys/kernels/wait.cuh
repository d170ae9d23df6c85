/*
   Waiting inside kernels. A thread reads a place in memory again and again until it finds what another thread stores there. There
   are three kinds of places:

     message   a real number with the number of its launch or exchange, stored in one access
     marked    a scalar; a NaN with all bits set marks each real that has not been stored yet
     number    of the last phase that a row has been through, stored with release and loaded with acquire

   and three limits:

     IDRSWaitUnlimited   for blocks that do not depend on the waiting one, so that they store their part in any case
     IDRSWaitPolls       for blocks that must all be resident: a number of loads that follows from the timeout, see timeout.h
     IDRSWaitPeers       for other devices: until the host, which has the same timeout, sets a flag

   No PETSc call.
*/
#pragma once

#include <petscidrs/private/idrsloops.h>
#include "../device/target.cuh"

struct IDRSWaitUnlimited {
  static __device__ __forceinline__ ulonglong2 Load(const ulonglong2 *message) { return IDRSLoadRelaxed(message); }

  __device__ __forceinline__ bool Ends() { return false; }
};

/*
   left: loads that are left to this thread in this kernel. If each lane calls Ends() whenever one of them does, all lanes of a warp
   reach the limit together
*/
struct IDRSWaitPolls {
  unsigned int left;

  static __device__ __forceinline__ ulonglong2 Load(const ulonglong2 *message) { return IDRSLoadRelaxed(message); }

  __device__ __forceinline__ bool Ends()
  {
    if (left) left--;
    return !left;
  }
};

/* The flag is in the memory of the host: one load in 1024 looks at it */
struct IDRSWaitPeers {
  const volatile int *givenup;
  unsigned int        polls;
  bool                ended;

  static __device__ __forceinline__ ulonglong2 Load(const ulonglong2 *message) { return IDRSLoadSystem(message); }

  __device__ __forceinline__ bool Ends()
  {
    if (++polls % 1024 == 0 && *givenup) ended = true;
    return ended;
  }
};

/*
   A sum of a block on its way to the block that adds up: each half of a double, or a float twice, goes in one access with the
   number of the launch, so that the reader sees when it has come, and no fence is needed. Memory holds 0 at first, and launches
   count from 1
*/
typedef ulonglong2 IDRSBlockMessage;

static __device__ __forceinline__ IDRSBlockMessage IDRSMakeMessage(PetscReal value, uint32_t launch)
{
  const unsigned long long tag = (unsigned long long)launch << 32;
#if PetscDefined(USE_REAL_SINGLE)
  const unsigned int bits = __float_as_uint(value);

  return make_ulonglong2(tag | bits, tag | bits);
#else
  return make_ulonglong2(tag | (unsigned int)__double2loint(value), tag | (unsigned int)__double2hiint(value));
#endif
}

static __device__ __forceinline__ void IDRSPostMessage(IDRSBlockMessage *message, PetscReal value, uint32_t launch)
{
  IDRSStoreRelaxed(message, IDRSMakeMessage(value, launch));
}

#if PetscDefined(USE_COMPLEX)
static __device__ __forceinline__ void IDRSPostMessage(IDRSBlockMessage *message, PetscScalar value, uint32_t launch)
{
  IDRSPostMessage(message, value.real(), launch);
  IDRSPostMessage(message + gridDim.x, value.imag(), launch);
}
#endif

/* Bits in which its numbers differ from the one that is waited for */
static __device__ __forceinline__ uint32_t IDRSMessageLacks(const IDRSBlockMessage &message, uint32_t launch)
{
  return ((uint32_t)(message.x >> 32) ^ launch) | ((uint32_t)(message.y >> 32) ^ launch);
}

static __device__ __forceinline__ bool IDRSMessageIsThere(const IDRSBlockMessage &message, uint32_t launch)
{
  return !IDRSMessageLacks(message, launch);
}

static __device__ __forceinline__ PetscReal IDRSMessageValue(const IDRSBlockMessage &message)
{
#if PetscDefined(USE_REAL_SINGLE)
  return __uint_as_float((unsigned int)message.x);
#else
  return __hiloint2double((int)message.y, (int)message.x);
#endif
}

/* The scalar whose parts are in so many messages */
static __device__ __forceinline__ PetscScalar IDRSMessagesScalar(const IDRSBlockMessage *message)
{
#if PetscDefined(USE_COMPLEX)
  return PetscScalar(IDRSMessageValue(message[0]), IDRSMessageValue(message[1]));
#else
  return IDRSMessageValue(message[0]);
#endif
}

#if PetscDefined(USE_REAL_SINGLE)
typedef unsigned int IDRSBits;
  #define IDRS_ABSENT 0xffffffffu
#else
typedef unsigned long long IDRSBits;
  #define IDRS_ABSENT 0xffffffffffffffffull
#endif

/*
   NaNs are replaced by another one before they are stored. A real is stored and loaded in one access, so that a thread which does
   not find the mark has the number, and neither fence nor flag is needed. Numbers stay as they are until the next kernel begins
*/
typedef struct {
  IDRSBits part[IDRS_PARTS];
} IDRSMarked;

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

static __device__ __forceinline__ void IDRSMarkedClear(IDRSMarked *marked)
{
#pragma unroll
  for (int k = 0; k < IDRS_PARTS; k++) marked->part[k] = IDRS_ABSENT;
}

/* The same for the first part, once the device sees all that this thread has stored. A fence would empty the L1 cache, too */
static __device__ __forceinline__ void IDRSMarkedClearRelease(IDRSMarked *marked)
{
#if PetscDefined(USE_REAL_SINGLE)
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(&marked->part[0]), "r"(IDRS_ABSENT) : "memory");
#else
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(&marked->part[0]), "l"(IDRS_ABSENT) : "memory");
#endif
}

static __device__ __forceinline__ void IDRSMarkedStore(IDRSMarked *marked, PetscScalar x)
{
  const PetscReal real[2] = {PetscRealPart(x), PetscImaginaryPart(x)};

#pragma unroll
  for (int k = 0; k < IDRS_PARTS; k++) {
#if PetscDefined(USE_REAL_SINGLE)
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(&marked->part[k]), "r"(IDRSRealBits(real[k])) : "memory");
#else
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(&marked->part[k]), "l"(IDRSRealBits(real[k])) : "memory");
#endif
  }
}

/* Asks for a marked, or does not: a load without a branch, so that those of other markeds are under way, too */
static __device__ __forceinline__ void IDRSMarkedLoadIf(bool ask, const IDRSMarked *from, IDRSMarked *marked)
{
#pragma unroll
  for (int k = 0; k < IDRS_PARTS; k++) {
#if PetscDefined(USE_REAL_SINGLE)
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %2, 0;\n\t@p ld.relaxed.gpu.global.u32 %0, [%1];\n\t}"
                 : "+r"(marked->part[k])
                 : "l"(&from->part[k]), "r"((unsigned int)ask)
                 : "memory");
#else
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %2, 0;\n\t@p ld.relaxed.gpu.global.u64 %0, [%1];\n\t}"
                 : "+l"(marked->part[k])
                 : "l"(&from->part[k]), "r"((unsigned int)ask)
                 : "memory");
#endif
  }
}

static __device__ __forceinline__ bool IDRSMarkedIsThere(const IDRSMarked &marked)
{
  bool all = true;

#pragma unroll
  for (int k = 0; k < IDRS_PARTS; k++) all = all & (marked.part[k] != IDRS_ABSENT);
  return all;
}

static __device__ __forceinline__ PetscScalar IDRSMarkedValue(const IDRSMarked &marked)
{
#if PetscDefined(USE_COMPLEX)
  return PetscScalar(IDRSBitsReal(marked.part[0]), IDRSBitsReal(marked.part[1]));
#else
  return IDRSBitsReal(marked.part[0]);
#endif
}

/* Marked scalars in global memory */
struct IDRSMarkedInGlobal {
  static __device__ __forceinline__ void LoadIf(bool ask, const IDRSMarked *from, IDRSMarked *marked)
  {
    IDRSMarkedLoadIf(ask, from, marked);
  }
};

/*
   By a warp: the lanes get the scalars that they want. None is asked for again once it has come: too many loads hold up those that
   others wait for
*/
template <int count, typename Memory = IDRSMarkedInGlobal>
static __device__ __forceinline__ void IDRSWaitForMarked(const IDRSMarked *const from[count], const bool wanted[count],
                                                         IDRSMarked marked[count], IDRSWaitPolls *wait)
{
  bool missing;

#pragma unroll
  for (int l = 0; l < count; l++) IDRSMarkedClear(marked + l);
  do {
#pragma unroll
    for (int l = 0; l < count; l++) Memory::LoadIf(wanted[l] & !IDRSMarkedIsThere(marked[l]), from[l], marked + l);
    missing = false;
#pragma unroll
    for (int l = 0; l < count; l++) missing = missing | (wanted[l] & !IDRSMarkedIsThere(marked[l]));
  } while (!IDRSWarpAll(!missing) && !wait->Ends());
}

/* By a warp: waits until the number of a row is that of the phase. What its warp has stored before can be read then */
static __device__ __forceinline__ void IDRSWaitForNumber(const unsigned int *done, unsigned int phase, IDRSWaitPolls *wait)
{
  unsigned int number;

  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(number) : "l"(done) : "memory");
  } while (!IDRSWarpAll(number == phase) && !wait->Ends());
  __syncwarp();
}

/* By a warp, whose lanes have all stored their part of the row */
static __device__ __forceinline__ void IDRSStoreNumber(unsigned int *done, unsigned int phase)
{
  __syncwarp();
  if (threadIdx.x % IDRS_WARP) return;
  __threadfence();
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(done), "r"(phase) : "memory");
}
