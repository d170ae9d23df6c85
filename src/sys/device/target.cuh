/*
   Properties of the target device: warp size, shuffles, and launches that overlap. Another kind of device also needs changes to the
   lanes of idrsscalars.h, and files with PTX. No PETSc call.
*/
#pragma once

#include <petscsys.h>
#include <type_traits>

#define IDRS_WARP      32
#define IDRS_ALL_LANES 0xffffffffu

/* The widest access to memory, in bytes */
#define IDRS_ACCESS_BYTES 16

/* Largest number of resident threads of a multiprocessor */
#define IDRS_THREADS_PER_SM 2048

static __device__ __forceinline__ PetscReal IDRSShuffleDown(PetscReal x, int offset)
{
  return __shfl_down_sync(IDRS_ALL_LANES, x, offset);
}

static __device__ __forceinline__ PetscReal IDRSShuffleXor(PetscReal x, int mask)
{
  return __shfl_xor_sync(IDRS_ALL_LANES, x, mask);
}

/* Returns x of another lane, a number or an index */
template <typename T, std::enable_if_t<std::is_arithmetic<T>::value, int> = 0>
static __device__ __forceinline__ T IDRSShuffle(T x, int lane)
{
  return __shfl_sync(IDRS_ALL_LANES, x, lane);
}

#if PetscDefined(USE_COMPLEX)
static __device__ __forceinline__ PetscScalar IDRSShuffleDown(PetscScalar x, int offset)
{
  return PetscScalar(IDRSShuffleDown(x.real(), offset), IDRSShuffleDown(x.imag(), offset));
}

static __device__ __forceinline__ PetscScalar IDRSShuffleXor(PetscScalar x, int mask)
{
  return PetscScalar(IDRSShuffleXor(x.real(), mask), IDRSShuffleXor(x.imag(), mask));
}

static __device__ __forceinline__ PetscScalar IDRSShuffle(PetscScalar x, int lane)
{
  return PetscScalar(IDRSShuffle(x.real(), lane), IDRSShuffle(x.imag(), lane));
}
#endif

/* Returns the sum over each group of `lanes` lanes of a warp; valid in the first lane of a group */
template <int lanes, typename T>
static __device__ __forceinline__ T IDRSWarpSum(T x)
{
#pragma unroll
  for (int offset = lanes / 2; offset > 0; offset /= 2) x += IDRSShuffleDown(x, offset);
  return x;
}

/*
   Computes the sums of several values over the lanes of a warp. One lane calls store(i, sum) for each value i. Each lane sends half
   of its values to the lane at the distance `offset`, and adds the values that it receives to its other half. This takes little
   more than count shuffles instead of 5 count. The lane has the values first to end - 1, and `values` is overwritten
*/
template <int count, int offset = IDRS_WARP / 2, typename T, typename Store>
static __device__ __forceinline__ void IDRSWarpSums(T *values, Store &&store, int first = 0, int end = count)
{
  if constexpr (offset == 0) {
#pragma unroll
    for (int i = 0; i < count; i++) {
      if (first + i < end) store(first + i, values[i]);
    }
  } else if constexpr (count == 1) {
    values[0] += IDRSShuffleXor(values[0], offset);
    if (threadIdx.x & offset) end = 0; /* the other lane stores it */
    IDRSWarpSums<1, offset / 2>(values, store, first, end);
  } else {
    constexpr int half  = (count + 1) / 2;
    const bool    upper = threadIdx.x & offset;

#pragma unroll
    for (int i = 0; i < half; i++) {
      const T second = i + half < count ? values[i + half] : T(0.0), kept = upper ? second : values[i],
              given = upper ? values[i] : second;

      values[i] = kept + IDRSShuffleXor(given, offset);
    }
    IDRSWarpSums<half, offset / 2>(values, store, upper ? first + half : first, upper ? end : min(end, first + half));
  }
}

/* Returns the smallest x of the warp in all lanes */
static __device__ __forceinline__ uint32_t IDRSWarpMin(uint32_t x)
{
#pragma unroll
  for (int offset = IDRS_WARP / 2; offset > 0; offset /= 2) x = min(x, __shfl_xor_sync(IDRS_ALL_LANES, x, offset));
  return x;
}

/*
   Called by a warp. Computes *largest = max(*largest, numbers of all lanes) of the bits of nonnegative doubles, which are in the
   order of the numbers
*/
static __device__ __forceinline__ void IDRSKeepLargest(unsigned long long mine, unsigned long long *largest)
{
#pragma unroll
  for (int offset = IDRS_WARP / 2; offset > 0; offset /= 2) mine = max(mine, __shfl_xor_sync(IDRS_ALL_LANES, mine, offset));
  if (threadIdx.x % IDRS_WARP == 0) atomicMax(largest, mine);
}

/* Store or load two 64-bit words, each in one access, visible to all blocks of the device, without an order between accesses */
static __device__ __forceinline__ void IDRSStoreRelaxed(ulonglong2 *to, ulonglong2 words)
{
  asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(words.x), "l"(words.y) : "memory");
}

static __device__ __forceinline__ ulonglong2 IDRSLoadRelaxed(const ulonglong2 *from)
{
  ulonglong2 words;

  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(words.x), "=l"(words.y) : "l"(from) : "memory");
  return words;
}

/* The same, visible to kernels on other devices */
static __device__ __forceinline__ void IDRSStoreSystem(ulonglong2 *to, ulonglong2 words)
{
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(words.x), "l"(words.y) : "memory");
}

static __device__ __forceinline__ ulonglong2 IDRSLoadSystem(const ulonglong2 *from)
{
  ulonglong2 words;

  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(words.x), "=l"(words.y) : "l"(from) : "memory");
  return words;
}

/* Loads an entry that this kernel does not write, through the read-only data cache */
static __device__ __forceinline__ PetscScalar IDRSLoadConstant(const PetscScalar *x)
{
#if PetscDefined(USE_COMPLEX) && PetscDefined(USE_REAL_SINGLE)
  const float2 z = __ldg((const float2 *)x);

  return PetscScalar(z.x, z.y);
#elif PetscDefined(USE_COMPLEX)
  const double2 z = __ldg((const double2 *)x);

  return PetscScalar(z.x, z.y);
#else
  return __ldg(x);
#endif
}

/*
   C += A B by a warp, A 8 x 4, B 4 x 8, in double precision: a lane has A(lane / 4, lane % 4), B(lane % 4, lane / 4), and C(lane /
   4, 2 (lane % 4) + i), i = 0, 1
*/
static __device__ __forceinline__ void IDRSMatrixMultiplyAddSmall(double c[2], double a, double b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" : "+d"(c[0]), "+d"(c[1]) : "d"(a), "d"(b));
#else
  const int lane = threadIdx.x % IDRS_WARP;

  #pragma unroll
  for (int k = 0; k < 4; k++) {
    const double ak = __shfl_sync(IDRS_ALL_LANES, a, (lane & ~3) + k);

    c[0] += ak * __shfl_sync(IDRS_ALL_LANES, b, 8 * (lane & 3) + k);
    c[1] += ak * __shfl_sync(IDRS_ALL_LANES, b, 8 * (lane & 3) + 4 + k);
  }
#endif
}

/*
   The same for A 16 x 16, B 16 x 8: a lane has a[2 l + h] = A(lane / 4 + 8 h, lane % 4 + 4 l), b[l] = B(lane % 4 + 4 l, lane / 4),
   and c[2 h + i] = C(lane / 4 + 8 h, 2 (lane % 4) + i)
*/
static __device__ __forceinline__ void IDRSMatrixMultiplyAdd(double c[4], const double a[8], const double b[4])
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, "
      "%15}, {%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]), "d"(b[2]),
        "d"(b[3]));
#else
  #pragma unroll
  for (int l = 0; l < 4; l++) {
    IDRSMatrixMultiplyAddSmall(c, a[2 * l], b[l]);
    IDRSMatrixMultiplyAddSmall(c + 2, a[2 * l + 1], b[l]);
  }
#endif
}

/*
   Copies 4, 8 or 16 bytes from global to shared memory asynchronously. The copies of a thread before a commit are one group. A wait
   ends when at most `groups` groups of the thread are in flight
*/
template <int bytes>
static __device__ __forceinline__ void IDRSCopyAsync(void *to, const void *from)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const uint32_t address = (uint32_t)__cvta_generic_to_shared(to);

  if constexpr (bytes == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
  else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(bytes) : "memory");
#else
  for (int i = 0; i < bytes / 4; i++) ((uint32_t *)to)[i] = ((const uint32_t *)from)[i];
#endif
}

static __device__ __forceinline__ void IDRSCopyCommit()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int groups>
static __device__ __forceinline__ void IDRSCopyWait()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
#endif
}

/* Returns true if the condition holds in all lanes of the warp */
static __device__ __forceinline__ bool IDRSWarpAll(bool mine)
{
  return __all_sync(IDRS_ALL_LANES, mine);
}

/*
   Returns 0, which the compiler assumes to depend on i. If a loop over i adds it to an index into shared memory, the compiler does
   not hoist the load out of the loop. The loaded value then needs no register between its uses, so more threads are resident.
*/
static __device__ __forceinline__ int IDRSOpaqueZero(size_t i)
{
  int zero;

  asm("mov.u32 %0, 0;" : "=r"(zero) : "l"(i));
  return zero;
}

/* Waits until all earlier kernels in the stream have ended and their results are in memory: for a kernel that was launched early */
static __device__ __forceinline__ void IDRSAwaitPrevious()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/* Allows the next kernel in the stream to be launched early, once all blocks of this kernel have called this function */
static __device__ __forceinline__ void IDRSAdmitNext()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/*
   Returns true if this kernel can be launched early: the device supports it, and IDRSAwaitPrevious() was compiled for such a device
*/
static inline cudaError_t IDRSCanLaunchEarly(const void *kernel, bool *can)
{
  cudaFuncAttributes attributes;
  int                device, major = 0;
  cudaError_t        error = cudaGetDevice(&device);

  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, kernel);
  *can = error == cudaSuccess && major >= 9 && attributes.ptxVersion >= 90;
  return error;
}
