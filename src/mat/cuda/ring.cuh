/*
   A warp reads its slices chunk by chunk through a ring in shared memory, to which chunks are copied asynchronously ahead of their
   use: by bulk copies of sm_90, each with its own mbarrier, and on older devices synchronously by the lanes. A lane adds each chunk
   to its rows. No PETSc call.
*/
#pragma once

#include "../../sys/kernels/rows.cuh"
#include "../../sys/kernels/values.cuh"
#include "sell.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  #define IDRS_BULK_COPIES 1
#endif

static __device__ __forceinline__ uint32_t IDRSSharedAddress(const void *p)
{
  return (uint32_t)__cvta_generic_to_shared(p);
}

/* Called by one lane for each barrier, before its first use. The warp must synchronize after the last call */
static __device__ __forceinline__ void IDRSBulkInit(uint64_t *barrier)
{
#if defined(IDRS_BULK_COPIES)
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(IDRSSharedAddress(barrier)));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

/* Returns the L2 cache policy of the copies: data that are read once, in a pass larger than the cache, are evicted first */
static __device__ __forceinline__ uint64_t IDRSBulkPolicy(bool once)
{
  uint64_t policy = 0;

#if defined(IDRS_BULK_COPIES)
  if (once) asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  else asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}

/* Called by all lanes. Addresses and the number of bytes must be multiples of 16 */
static __device__ __forceinline__ void IDRSBulkBegin(void *to, const void *from, uint32_t bytes, uint64_t *barrier, uint64_t policy)
{
#if defined(IDRS_BULK_COPIES)
  if (threadIdx.x % IDRS_WARP == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(IDRSSharedAddress(barrier)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
                   IDRSSharedAddress(to)),
                 "l"(from), "r"(bytes), "r"(IDRSSharedAddress(barrier)), "l"(policy)
                 : "memory");
  }
#else
  for (uint32_t i = threadIdx.x % IDRS_WARP; i < bytes / sizeof(uint4); i += IDRS_WARP) ((uint4 *)to)[i] = ((const uint4 *)from)[i];
#endif
}

/* Called by all lanes. parity is 0 for the first copy on a barrier, 1 for the second, 0 for the third, and so on */
static __device__ __forceinline__ void IDRSBulkAwait(uint64_t *barrier, uint32_t parity)
{
#if defined(IDRS_BULK_COPIES)
  uint32_t done;

  do {
    asm volatile("{\n\t"
                 ".reg .pred p;\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t"
                 "}"
                 : "=r"(done)
                 : "r"(IDRSSharedAddress(barrier)), "r"(parity)
                 : "memory");
  } while (!done);
#else
  __syncwarp();
#endif
}

/* Blocks, if each warp has one slice or one long row */
static inline size_t IDRSSellBlocks(const IDRSSell &A)
{
  return ((size_t)A.slices + IDRS_WARPS - 1) / IDRS_WARPS + ((size_t)A.longrows.n + IDRS_WARPS - 1) / IDRS_WARPS;
}

/* Returns the first long row of this warp. The last blocks, which have the fewest slices, come first */
static __device__ __forceinline__ uint32_t IDRSFirstLongRow()
{
  return (gridDim.x - 1 - blockIdx.x) * IDRS_WARPS + threadIdx.x / IDRS_WARP;
}

/*
   Returns the number of slices that a block processes at a time. If rows are sorted and there are more slices than warps, this is a
   window, to balance the warps; else one slice per warp
*/
template <typename Form>
static __device__ __forceinline__ uint32_t IDRSSlicesAtOnce(const IDRSSell &A)
{
  return A.perm && Form::windowsize > IDRS_WARPS && gridDim.x * IDRS_WARPS < A.slices ? Form::windowsize : IDRS_WARPS;
}

/*
   Iterates over the chunks of the slices of a warp. In a window the warps take slices in alternating order. The data of a slice are
   loaded while the warp processes the slice before
*/
template <typename Form>
struct IDRSChunk {
  uint32_t slice, offset;         /* this slice, this chunk */
  uint32_t left;                  /* remaining slots of the slice, with this chunk; 0 after the last slice */
  uint32_t nextwidth, nextoffset; /* of the next slice */
  bool     first;                 /* first chunk of the slice */

  __device__ __forceinline__ uint32_t Slots() const { return min(left, (uint32_t)IDRS_SLOTS); }
  __device__ __forceinline__ uint32_t Bytes() const { return Form::Bytes(Slots()); }

  __device__ __forceinline__ uint32_t NextSlice(const IDRSSell &A) const
  {
    const uint32_t atonce = IDRSSlicesAtOnce<Form>(A), begin = slice / atonce * atonce, step = slice % atonce / IDRS_WARPS + 1,
                   warp = threadIdx.x / IDRS_WARP;

    return step == atonce / IDRS_WARPS ? begin + gridDim.x * atonce + warp
                                       : begin + step * IDRS_WARPS + (step % 2 ? IDRS_WARPS - 1 - warp : warp);
  }

  __device__ __forceinline__ void Read(const IDRSSell &A, uint32_t i)
  {
    nextwidth  = i < A.slices ? A.width[i] : 0;
    nextoffset = i < A.slices ? A.offset[i] : 0;
  }

  __device__ __forceinline__ void Take(const IDRSSell &A, uint32_t i)
  {
    slice  = i;
    offset = nextoffset;
    left   = nextwidth;
    first  = true;
    Read(A, NextSlice(A));
  }

  __device__ __forceinline__ void Begin(const IDRSSell &A)
  {
    const uint32_t i = blockIdx.x * IDRSSlicesAtOnce<Form>(A) + threadIdx.x / IDRS_WARP;

    Read(A, i);
    Take(A, i);
  }

  __device__ __forceinline__ void Next(const IDRSSell &A)
  {
    first = false;
    offset += Bytes() / IDRS_UNIT;
    left -= Slots();
    if (!left) Take(A, NextSlice(A));
  }
};

/* The ring of a warp with STAGES chunks. rings: the shared memory of a block for the rings of all its warps */
template <typename Form, int STAGES>
struct IDRSRing {
  unsigned char *ring;
  uint64_t      *barriers, policy;
  /* for each chunk in the ring: its slice, and its number of slots with a bit for the first chunk of a slice */
  uint2          *notes;
  uint32_t        stage, parity;
  IDRSChunk<Form> ahead; /* the next chunk to copy */

  /* The present chunk. After the last one comes a first chunk without slots */
  uint32_t slice, slots;
  bool     first;

  static constexpr size_t   bytes    = (size_t)IDRS_WARPS * STAGES * Form::chunkbytes;
  static constexpr uint32_t firstbit = 0x80000000u;

  __device__ __forceinline__ void Copy(const IDRSSell &A)
  {
    if (threadIdx.x % IDRS_WARP == 0) notes[stage] = make_uint2(ahead.slice, ahead.Slots() | (ahead.first ? firstbit : 0));
    if (!ahead.left) return;
    IDRSBulkBegin(ring + stage * Form::chunkbytes, A.chunks + (size_t)ahead.offset * IDRS_UNIT, ahead.Bytes(), barriers + stage,
                  policy);
    ahead.Next(A);
  }

  __device__ __forceinline__ void Step()
  {
    stage = (stage + 1) % STAGES;
    if (stage == 0) parity ^= 1;
  }

  __device__ __forceinline__ void Take()
  {
    const uint2 note = notes[stage];

    slice = note.x;
    slots = note.y & ~firstbit;
    first = note.y & firstbit;
  }

  /* Starts the copies. Called by all threads. once: the matrix is evicted from the L2 cache before it is read again */
  __device__ __forceinline__ void Begin(const IDRSSell &A, unsigned char *rings, bool once)
  {
    __shared__ uint64_t allbarriers[IDRS_WARPS * STAGES];
    __shared__ uint2    allnotes[IDRS_WARPS * STAGES];

    policy   = IDRSBulkPolicy(once);
    ring     = rings + (size_t)(threadIdx.x / IDRS_WARP) * STAGES * Form::chunkbytes;
    barriers = allbarriers + threadIdx.x / IDRS_WARP * STAGES;
    notes    = allnotes + threadIdx.x / IDRS_WARP * STAGES;
    if (threadIdx.x % IDRS_WARP == 0) {
      for (int i = 0; i < STAGES; i++) IDRSBulkInit(barriers + i);
    }
    __syncwarp();
    ahead.Begin(A);
    stage = parity = 0;
    for (int i = 0; i < STAGES; i++) {
      Copy(A);
      Step();
    }
    parity = 0;
    __syncwarp();
    Take();
  }

  /* Waits for the present chunk */
  __device__ __forceinline__ const unsigned char *Await()
  {
    IDRSBulkAwait(barriers + stage, parity);
    return ring + stage * Form::chunkbytes;
  }

  /* Called when all lanes have used the present chunk: copies another one to its place */
  __device__ __forceinline__ void Next(const IDRSSell &A)
  {
    __syncwarp();
    Copy(A);
    Step();
    Take();
  }
};

/* sum += the contribution of a chunk to the rows of this lane. All loads of u are issued before the first value is used */
template <typename Form>
static __device__ __forceinline__ void IDRSChunkAdd(const IDRSSell &A, const unsigned char *chunk, uint32_t slots,
                                                    const PetscScalar *u, const uint32_t row[], PetscScalar sum[])
{
  typedef IDRSTuple<typename Form::Value, Form::rows> Values;
  typedef IDRSTuple<uint16_t, Form::rows>             Columns;

  const uint32_t *bases   = (const uint32_t *)chunk;
  const Values   *values  = (const Values *)(chunk + IDRS_BASES_BYTES) + threadIdx.x % IDRS_WARP;
  const Columns  *columns = (const Columns *)(chunk + IDRS_BASES_BYTES + slots * Form::slicerows * sizeof(typename Form::Value)) +
                           threadIdx.x % IDRS_WARP;
  PetscScalar entry[IDRS_SLOTS][Form::rows];

#pragma unroll
  for (int j = 0; j < IDRS_SLOTS; j++) {
#pragma unroll
    for (int q = 0; q < Form::rows; q++) {
      /* with one distance for all rows of a slot, places beyond the first or the last column have zeros */
      if (Form::columns) entry[j][q] = j < slots ? IDRSLoadConstant(u + bases[j] + columns[j * IDRS_WARP].v[q]) : (PetscScalar)0.0;
      else
        entry[j][q] = j < slots ? IDRSLoadConstant(u + (uint32_t)min(max((int)(row[q] + bases[j]), 0), (int)A.n - 1))
                                : (PetscScalar)0.0;
    }
  }
#pragma unroll
  for (int j = 0; j < IDRS_SLOTS; j++) {
#pragma unroll
    for (int q = 0; q < Form::rows; q++) {
      if (j < slots) sum[q] += IDRSWiden(values[j * IDRS_WARP].v[q]) * entry[j][q];
    }
  }
}
