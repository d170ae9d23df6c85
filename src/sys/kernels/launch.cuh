/*
   Launches of kernels, each of which overlaps with its neighbours in the stream: the first argument of a kernel, whose Begin()
   it calls before it touches memory.

     EARLY    it may be launched before the kernels ahead of it have ended, and waits for all of them itself
     ADMITS   the next kernel may be launched, if it is one that is launched early, as soon as all blocks of this one have begun

   The kernels whose first block works on alone, projection and algebra, admit the pass behind them; projection, update and advance,
   which are in every step, are launched early. A combine by itself is neither. As Begin() and IDRSLaunch() read the same trait, no
   kernel is launched early that does not wait.

   Update and advance also admit what follows. A product is launched early only where the system fits into the L2 cache: there it
   wins 0.7 to 1 us a matvec on an H200. On large systems its blocks would take memory of the multiprocessor from blocks that still
   run, and a matvec of 8 000 000 rows would take 320 us instead of 274.
*/
#pragma once

#include <type_traits>
#include <petsc/private/deviceimpl.h>
#include <petscdevice_cuda.h>
#include <petscidrs/private/idrscompat.h>
#include "../device/stream.h"
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

/*
   Launches so many blocks, with so many bytes of dynamic shared memory; early only where it may, and no process on the same device
   waits for sums of this one. The error is what cudaGetLastError() returns
*/
template <auto kernel, typename... Arguments>
static void IDRSLaunchShared(dim3 blocks, size_t shared, bool may, cudaStream_t stream, const Arguments &...arguments)
{
  constexpr auto      overlap = IDRSGetOverlap(kernel);
  static bool         asked = false, early = false;
  cudaLaunchConfig_t  config    = {};
  cudaLaunchAttribute attribute = IDRSEarlyAttribute();

  if (overlap.early && !asked) asked = IDRSCanLaunchEarly((const void *)kernel, &early) == cudaSuccess;
  config.gridDim          = blocks;
  config.blockDim         = IDRS_THREADS;
  config.dynamicSmemBytes = shared;
  config.stream           = stream;
  config.attrs            = &attribute;
  config.numAttrs         = early && may && !IDRSPeersShareDevice() ? 1 : 0;
  (void)cudaLaunchKernelEx(&config, kernel, overlap, arguments...);
}

template <auto kernel, typename... Arguments>
static void IDRSLaunch(dim3 blocks, cudaStream_t stream, const Arguments &...arguments)
{
  IDRSLaunchShared<kernel>(blocks, 0, true, stream, arguments...);
}

/* As many blocks as the device holds of a kernel at once, or fewer where so many are enough; 0 after an error */
template <auto kernel>
static unsigned int IDRSResidentBlocks(int multiprocessors, size_t enough, size_t shared)
{
  static int resident = 0;

  if (!resident) {
    if (shared && cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared) != cudaSuccess) return 0;
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, IDRS_THREADS, shared) != cudaSuccess) return 0;
  }
  return (unsigned int)PetscMax(PetscMin(enough, (size_t)(resident * multiprocessors)), (size_t)1);
}

/* Launches so many blocks, and returns how many */
template <auto kernel, typename... Arguments>
static unsigned int IDRSLaunchResident(int multiprocessors, size_t enough, size_t shared, bool may, cudaStream_t stream,
                                       const Arguments &...arguments)
{
  const unsigned int blocks = IDRSResidentBlocks<kernel>(multiprocessors, enough, shared);

  if (blocks) IDRSLaunchShared<kernel>(blocks, shared, may, stream, arguments...);
  return blocks;
}

/* Blocks that a multiprocessor may hold of any kernel */
#define IDRS_BLOCKS_PER_SM (IDRS_THREADS_PER_SM / IDRS_THREADS)

/*
   Arguments of each column of a launch, N columns at most, as an argument of the kernel: the blocks (x, y) of the grid work for
   column y. There is a kernel for one column, and one for up to IDRS_MAX_WIDTH of them
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

/* Returns true if an array can be accessed in packs, from its begin on */
static inline bool IDRSAligned(const void *array)
{
  return (uintptr_t)array % IDRS_ACCESS_BYTES == 0;
}

/*
   Calls launch with the S and W of a kernel as types: S the number of columns to unroll for, 0 for more than 16; W the width of a
   pack
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
