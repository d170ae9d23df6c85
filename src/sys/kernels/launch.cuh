/*
   Launches of kernels that overlap with their neighbours in the stream. The first argument of a kernel states how; the kernel calls
   its Begin() before it accesses memory.

     EARLY    the kernel may be launched before earlier kernels have ended, and waits for all of them itself
     ADMITS   a next kernel that is EARLY may be launched as soon as all blocks of this kernel have begun

   Projection and algebra, whose first block continues after the others have ended, admit the next pass. Projection, update and
   advance, which are in every step, are launched early. A separate combine is neither. Begin() and IDRSLaunch() read the same
   trait, so every kernel that is launched early waits.

   Update and advance also admit the next kernel. A product is launched early only if the system fits into the L2 cache, which saves
   0.7 to 1 us per matvec on an H200. On large systems its blocks would occupy on-chip memory while blocks of the kernel before
   still run: a matvec with 8 000 000 rows would take 320 us instead of 274.
*/
#pragma once

#include <atomic>
#include <type_traits>
#include <petsc/private/deviceimpl.h>
#include <petscdevice_cuda.h>
#include <petscidrs/private/idrscompat.h>
#include "../device/device.h"
#include "../peers/idrspeers.h"
#include "rows.cuh"

template <bool EARLY, bool ADMITS>
struct IDRSOverlap {
  static constexpr bool early = EARLY;

  __device__ __forceinline__ void Begin() const
  {
    if (ADMITS) IDRSAdmitNext();
    if (EARLY) IDRSAwaitPrevious();
  }
};

template <typename Overlap, typename... Parameters>
static constexpr Overlap IDRSGetOverlap(void (*)(Overlap, Parameters...))
{
  return {};
}

#define IDRS_DEVICES 64

/*
   Returns a property of a kernel on the present device. `known` has it for each device, or 0, and find() computes it; 0 after an
   error. Threads that need a property at the same time all compute it, and store the same value
*/
template <typename Find>
static int IDRSOncePerDevice(std::atomic<int> known[], Find &&find)
{
  int device = 0, value;

  (void)cudaGetDevice(&device);
  if (device >= IDRS_DEVICES) return find();
  value = known[device].load(std::memory_order_relaxed);
  if (!value) {
    value = find();
    known[device].store(value, std::memory_order_relaxed);
  }
  return value;
}

/* Returns true if this kernel can be launched early on the present device */
template <auto kernel>
static bool IDRSIsEarly()
{
  static std::atomic<int> known[IDRS_DEVICES]; /* 1: no, 2: yes */

  return IDRSOncePerDevice(known, [] {
           bool early = false;

           return IDRSCanLaunchEarly((const void *)kernel, &early) != cudaSuccess ? 0 : (early ? 2 : 1);
         }) == 2;
}

/*
   Launches a kernel with `shared` bytes of dynamic shared memory. The launch is early only if `may` is set and no process on the
   same device waits for sums of this process. cudaGetLastError() returns the error
*/
template <auto kernel, typename... Arguments>
static void IDRSLaunchShared(dim3 blocks, size_t shared, bool may, cudaStream_t stream, const Arguments &...arguments)
{
  constexpr auto      overlap   = IDRSGetOverlap(kernel);
  cudaLaunchConfig_t  config    = {};
  cudaLaunchAttribute attribute = {};

  attribute.id                                         = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;

  config.gridDim          = blocks;
  config.blockDim         = IDRS_THREADS;
  config.dynamicSmemBytes = shared;
  config.stream           = stream;
  config.attrs            = &attribute;
  config.numAttrs         = overlap.early && may && !IDRSPeersShareDevice() && IDRSIsEarly<kernel>() ? 1 : 0;
  (void)cudaLaunchKernelEx(&config, kernel, overlap, arguments...);
}

template <auto kernel, typename... Arguments>
static void IDRSLaunch(dim3 blocks, cudaStream_t stream, const Arguments &...arguments)
{
  IDRSLaunchShared<kernel>(blocks, 0, true, stream, arguments...);
}

/* Returns the number of blocks of a kernel that are resident at once, at most `enough`; 0 after an error */
template <auto kernel>
static unsigned int IDRSResidentBlocks(int multiprocessors, size_t enough, size_t shared)
{
  static std::atomic<int> known[IDRS_DEVICES];
  const int               resident = IDRSOncePerDevice(known, [=] {
    int blocks = 0;

    if (shared && cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared) != cudaSuccess) return 0;
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, IDRS_THREADS, shared) != cudaSuccess) return 0;
    return PetscMax(blocks, 1);
  });

  if (!resident) return 0;
  return (unsigned int)PetscMax(PetscMin(enough, (size_t)(resident * multiprocessors)), (size_t)1);
}

/* Launches this number of blocks, and returns it */
template <auto kernel, typename... Arguments>
static unsigned int IDRSLaunchResident(int multiprocessors, size_t enough, size_t shared, bool may, cudaStream_t stream,
                                       const Arguments &...arguments)
{
  const unsigned int blocks = IDRSResidentBlocks<kernel>(multiprocessors, enough, shared);

  if (blocks) IDRSLaunchShared<kernel>(blocks, shared, may, stream, arguments...);
  return blocks;
}

/* Largest number of resident blocks of a multiprocessor, for any kernel */
#define IDRS_BLOCKS_PER_SM (IDRS_THREADS_PER_SM / IDRS_THREADS)

/*
   The arguments for at most N columns, as one argument of a kernel. The blocks (x, y) of the grid process column y. Each kernel is
   compiled for one column and for up to IDRS_MAX_WIDTH columns
*/
template <int N, typename Member>
struct IDRSMembers {
  Member member[N];

  __device__ __forceinline__ const Member &Mine() const { return member[N > 1 ? blockIdx.y : 0]; }
};

template <int N, typename Member>
static IDRSMembers<N, Member> IDRSGetMembers(PetscInt count, const Member members[])
{
  IDRSMembers<N, Member> all = {};

  static_assert(sizeof(all) <= 3584, "all arguments of a kernel fit into 4096 bytes, as CUDA before 12.1 wants it");
  for (PetscInt i = 0; i < count; i++) all.member[i] = members[i];
  return all;
}

/* Returns true if an array is aligned for access in packs */
static inline bool IDRSAligned(const void *array)
{
  return (uintptr_t)array % IDRS_ACCESS_BYTES == 0;
}

/*
   Calls launch with S and W of a kernel as types: S is the number of columns for which loops are unrolled, 0 for more than 16; W is
   the width of a pack
*/
template <int N>
using IDRSInt = std::integral_constant<int, N>;

template <typename L>
static cudaError_t IDRSDispatch(PetscInt s, bool packed, L &&launch)
{
  auto wide = [&](auto S) {
    if (packed) launch(S, IDRSInt<IDRS_PACK>());
    else launch(S, IDRSInt<1>());
  };

  if (s <= 1) wide(IDRSInt<1>());
  else if (s <= 2) wide(IDRSInt<2>());
  else if (s <= 4) wide(IDRSInt<4>());
  else if (s <= 8) wide(IDRSInt<8>());
  else if (s <= 16) wide(IDRSInt<16>());
  else wide(IDRSInt<0>());
  return cudaGetLastError();
}
