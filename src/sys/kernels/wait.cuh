/*
   Waiting inside kernels. A thread polls a memory location until another thread has stored a value there. There are three kinds of
   locations:

     message   a real number with the number of its launch or exchange, stored in one access
     marked    a scalar; a NaN with all bits set marks each real that has not been stored yet
     number    the last phase that a row has completed, stored with release and loaded with acquire

   and three limits:

     IDRSWaitUnlimited   for blocks that do not depend on the waiting block, so they always store their value
     IDRSWaitPolls       for blocks that must all be resident: a number of loads, computed from the timeout, see device.h
     IDRSWaitPeers       for other devices: until the host sets a flag, after the same timeout

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
   left: remaining polls of this thread in this kernel. All lanes of a warp must call Ends() equally often, so that they reach the
   limit at the same time
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

/* The flag is in host memory: it is read at every 1024th poll */
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
   A sum of a block, for the block that adds up the sums. Each half of a double, or a float twice, is stored in one access with the
   number of the launch. The reader compares this number, so no fence is needed. Memory is 0 at first, and launches count from 1
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

/* Returns the bits in which the launch numbers of the message differ from `launch` */
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

/* Returns the scalar whose real parts are in IDRS_PARTS messages */
static __device__ __forceinline__ PetscScalar IDRSMessagesScalar(const IDRSBlockMessage *message)
{
#if PetscDefined(USE_COMPLEX)
  return PetscScalar(IDRSMessageValue(message[0]), IDRSMessageValue(message[1]));
#else
  return IDRSMessageValue(message[0]);
#endif
}

/* The bits of a real; their type and their constraint in PTX */
#if PetscDefined(USE_REAL_SINGLE)
typedef unsigned int IDRSBits;
  #define IDRS_PTX_BITS     ".u32"
  #define IDRS_PTX_REGISTER "r"
#else
typedef unsigned long long IDRSBits;
  #define IDRS_PTX_BITS     ".u64"
  #define IDRS_PTX_REGISTER "l"
#endif
#define IDRS_ABSENT (~(IDRSBits)0)

/*
   A NaN is replaced by another NaN than the mark before it is stored. A real is stored and loaded in one access, so a value other
   than the mark is the number, and neither a fence nor a flag is needed. Numbers do not change until the next kernel begins
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

/*
   Clears the first part with release semantics, after all earlier stores of this thread. A fence would also invalidate the L1 cache
*/
static __device__ __forceinline__ void IDRSMarkedClearRelease(IDRSMarked *marked)
{
  asm volatile("st.release.gpu.global" IDRS_PTX_BITS " [%0], %1;" ::"l"(&marked->part[0]), IDRS_PTX_REGISTER(IDRS_ABSENT)
               : "memory");
}

static __device__ __forceinline__ void IDRSMarkedStore(IDRSMarked *marked, PetscScalar x)
{
  const PetscReal real[2] = {PetscRealPart(x), PetscImaginaryPart(x)};

#pragma unroll
  for (int k = 0; k < IDRS_PARTS; k++)
    asm volatile("st.relaxed.gpu.global" IDRS_PTX_BITS " [%0], %1;" ::"l"(&marked->part[k]),
                 IDRS_PTX_REGISTER(IDRSRealBits(real[k]))
                 : "memory");
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

/* A load with this suffix if operand 2 is not zero: predicated instead of a branch, so that several loads are in flight at once */
#define IDRS_PTX_LOAD_IF(suffix) \
  "{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %2, 0;\n\t@p ld.relaxed." suffix IDRS_PTX_BITS " %0, [%1];\n\t}"

/* Marked scalars in global memory. LoadIf() loads a scalar if `ask` is set */
struct IDRSMarkedInGlobal {
  static __device__ __forceinline__ void LoadIf(bool ask, const IDRSMarked *from, IDRSMarked *marked)
  {
#pragma unroll
    for (int k = 0; k < IDRS_PARTS; k++)
      asm volatile(IDRS_PTX_LOAD_IF("gpu.global")
                   : "+" IDRS_PTX_REGISTER(marked->part[k])
                   : "l"(&from->part[k]), "r"((unsigned int)ask)
                   : "memory");
  }
};

/*
   Called by a warp. Waits for the wanted scalars of each lane. A scalar that has arrived is not loaded again, because many loads
   delay the loads of other warps
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

/* Called by a warp. Waits until the number of a row equals the phase. Earlier stores of the warp of that row are then visible */
static __device__ __forceinline__ void IDRSWaitForNumber(const unsigned int *done, unsigned int phase, IDRSWaitPolls *wait)
{
  unsigned int number;

  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(number) : "l"(done) : "memory");
  } while (!IDRSWarpAll(number == phase) && !wait->Ends());
  __syncwarp();
}

/* Called by a warp after all its lanes have stored their parts of the row */
static __device__ __forceinline__ void IDRSStoreNumber(unsigned int *done, unsigned int phase)
{
  __syncwarp();
  if (threadIdx.x % IDRS_WARP) return;
  __threadfence();
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(done), "r"(phase) : "memory");
}
