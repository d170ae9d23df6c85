/*
   The kernel for one level of one chunk, with one thread per row. A block reads the entries of its rows to shared memory in tiles,
   in the order of memory, and each thread adds the entries of its row. So a sum has the order of the columns, independent of the
   tiles. A block with a row of more than IDRS_STREAM_LONG entries uses no tiles: all its threads share such a row, in a way that
   depends only on the row.

   Reads the chunk, v_{j-1}, v_{j-2}, D^{-1} and y; writes v_j and y. No PETSc call.
*/
#pragma once

#include "../../../sys/device/target.cuh"
#include "../../../sys/kernels/terms.cuh"
#include <petscidrs/private/idrsstream.h>

#define IDRS_STREAM_THREADS    256
#define IDRS_STREAM_LONG       4096
#define IDRS_STREAM_TILE_BYTES 86016 /* shared memory for the most entries of a tile, 7168 of 12 bytes */

/* A chunk on the device */
template <typename Code>
struct IDRSStreamRows {
  const uint32_t    *offsets;
  const int32_t     *table;
  const Code        *codes;
  const PetscScalar *values;
  int32_t            row, rows, differences;

  IDRSStreamRows(const IDRSStreamChunk &chunk, const char *memory)
    : offsets((const uint32_t *)memory), table((const int32_t *)(offsets + chunk.rows + 1)),
      codes((const Code *)(table + chunk.differences)), values((const PetscScalar *)(memory + IDRSStreamValuesPlace(&chunk))),
      row((int32_t)chunk.row), rows((int32_t)chunk.rows), differences((int32_t)chunk.differences)
  {
  }
};

/* Entries of a tile: the rows of a block if they have the average length, rounded up */
template <typename Code>
static inline uint32_t IDRSStreamTile(const IDRSStreamChunk &chunk)
{
  const size_t average = (chunk.entries + (size_t)chunk.rows - 1) / (size_t)chunk.rows,
               most    = IDRS_STREAM_TILE_BYTES / (sizeof(Code) + sizeof(PetscScalar)) / IDRS_STREAM_THREADS * IDRS_STREAM_THREADS;

  return (uint32_t)PetscMin(PetscMax(average, 1) * IDRS_STREAM_THREADS, most);
}

/* Returns a column. The table is in shared memory for codes of 8 bits, in global memory for 16 bits, and unused for 32 bits */
template <typename Code>
static __device__ __forceinline__ int32_t IDRSStreamColumn(const int32_t *table, int32_t row, Code code)
{
  if (sizeof(Code) == 4) return (int32_t)code;
  return row + table[code];
}

/* An entry of a level */
static __device__ __forceinline__ PetscScalar *IDRSStreamEntry(const IDRSStreamLevel &level, int32_t row)
{
  const PetscInt place = row - level.begin;

  return level.array + (size_t)(place >= level.rows ? place - level.rows : place);
}

/* sum += entries p, p + stride, ... of a row, from the memory of the device */
template <typename Code>
static __device__ __forceinline__ void IDRSStreamAddEntries(const IDRSStreamRows<Code> &A, const int32_t *table,
                                                            const IDRSStreamLevel &last, int32_t row, uint32_t p, uint32_t end,
                                                            uint32_t stride, PetscScalar *sum)
{
  for (; p < end; p += stride)
    *sum += A.values[p] * IDRSLoadConstant(IDRSStreamEntry(last, IDRSStreamColumn<Code>(table, row, A.codes[p])));
}

/* Computes the sum of a long row, for all threads of the block */
template <typename Code>
static __device__ PetscScalar IDRSStreamLongRow(const IDRSStreamRows<Code> &A, const int32_t *table, const IDRSStreamLevel &last,
                                                int32_t r)
{
  __shared__ __align__(16) PetscReal parts[IDRS_STREAM_THREADS / IDRS_WARP][sizeof(PetscScalar) / sizeof(PetscReal)];
  PetscScalar                        sum = 0.0;

  IDRSStreamAddEntries(A, table, last, A.row + r, A.offsets[r] + threadIdx.x, A.offsets[r + 1], IDRS_STREAM_THREADS, &sum);
  sum = IDRSWarpSum<IDRS_WARP>(sum);
  if (threadIdx.x % IDRS_WARP == 0) *(PetscScalar *)parts[threadIdx.x / IDRS_WARP] = sum;
  __syncthreads();
  sum = 0.0;
  for (int warp = 0; warp < IDRS_STREAM_THREADS / IDRS_WARP; warp++) sum += *(const PetscScalar *)parts[warp];
  __syncthreads();
  return sum;
}

/* Computes the sums of the rows of a block: thread t has the first row plus t. memory: shared, for this many entries of a tile */
template <typename Code>
static __device__ __forceinline__ PetscScalar IDRSStreamSum(const IDRSStreamRows<Code> &A, const IDRSStreamLevel &lastlevel,
                                                            uint32_t tile, unsigned char *memory)
{
  __shared__ int32_t smalltable[sizeof(Code) == 1 ? 256 : 1];

  PetscScalar  *values = (PetscScalar *)memory;
  Code         *codes  = (Code *)(values + tile);
  const int32_t first = (int32_t)blockIdx.x * IDRS_STREAM_THREADS, r = first + (int32_t)threadIdx.x,
                count  = min(IDRS_STREAM_THREADS, A.rows - first);
  const bool     mine  = r < A.rows;
  const uint32_t begin = mine ? A.offsets[r] : 0, end = mine ? A.offsets[r + 1] : 0;
  const int32_t *table = A.table;
  PetscScalar    sum   = 0.0;

  if (sizeof(Code) == 1) {
    if ((int32_t)threadIdx.x < A.differences) smalltable[threadIdx.x] = A.table[threadIdx.x];
    table = smalltable;
  }
  if (__syncthreads_or(end - begin > IDRS_STREAM_LONG)) {
    if (end - begin <= IDRS_STREAM_LONG) IDRSStreamAddEntries(A, table, lastlevel, A.row + r, begin, end, 1, &sum);
    for (int32_t other = first; other < first + count; other++) {
      if (A.offsets[other + 1] - A.offsets[other] <= IDRS_STREAM_LONG) continue;
      const PetscScalar all = IDRSStreamLongRow(A, table, lastlevel, other);

      if (other == r) sum = all;
    }
  } else {
    const uint32_t last = A.offsets[first + count];

    for (uint32_t base = A.offsets[first]; base < last; base += tile) {
      const uint32_t here = min(tile, last - base), from = max(begin, base), to = min(end, base + here);

      for (uint32_t p = threadIdx.x; p < here; p += IDRS_STREAM_THREADS) {
        values[p] = A.values[base + p];
        codes[p]  = A.codes[base + p];
      }
      __syncthreads();
#pragma unroll 4
      for (uint32_t p = from; p < to; p++)
        sum += values[p - base] *
               IDRSLoadConstant(IDRSStreamEntry(lastlevel, IDRSStreamColumn<Code>(table, A.row + r, codes[p - base])));
      __syncthreads();
    }
  }
  return sum;
}

template <typename Code>
static __global__ void __launch_bounds__(IDRS_STREAM_THREADS)
  IDRSStreamKernel(IDRSStreamRows<Code> A, IDRSStreamTask task, uint32_t tile)
{
  extern __shared__ __align__(16) unsigned char memory[];
  const int32_t r = (int32_t)blockIdx.x * IDRS_STREAM_THREADS + (int32_t)threadIdx.x, row = A.row + r;
  PetscScalar   sum = IDRSStreamSum(A, task.last, tile, memory);

  if (r >= A.rows) return;
  if (!task.product) {
    const PetscScalar last = IDRSLoadConstant(IDRSStreamEntry(task.last, row));

    /* next_i and y_i from the sum of the entries of row i */
    if (task.inverse) sum *= IDRSLoadConstant(task.inverse + row);
    sum = task.gamma * (sum - task.theta * last);
    if (task.before.array) sum -= task.mu * *IDRSStreamEntry(task.before, row);
    if (task.y) task.y[row] = IDRSAddTerms(task.begins ? PetscScalar(0.0) : task.y[row], task.first, last, task.c, sum);
  }
  if (task.next.array) *IDRSStreamEntry(task.next, row) = sum;
}
