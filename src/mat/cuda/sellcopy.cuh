/*
   Copies a matrix to the SELL format on the device: sorts rows if this saves padding, counts the slots of each slice, computes
   offsets, and fills the slices.
*/
#pragma once

#include <petscdevice_cuda.h>
#include "../../sys/device/device.h"
#include "../../sys/kernels/rows.cuh"
#include "../../sys/kernels/values.cuh"
#include "sell.cuh"

typedef struct {
  IDRSSell           A;
  unsigned char     *chunks;
  uint32_t          *slices; /* offsets and widths */
  uint16_t          *perm;
  IDRSCompressedRows longrows;
  size_t             units; /* of the chunks */
  unsigned long long slots;
  PetscBool          once; /* A and the vectors of a matvec do not fit in the L2 cache */
} IDRSSellCopy;

PETSC_INTERN PetscErrorCode IDRSSellSelectLongRows(const IDRSCSR *, unsigned int, const IDRSRowLengths *, IDRSSellCopy *,
                                                   cudaStream_t, const char *[]);
PETSC_INTERN PetscErrorCode IDRSSellSort(const IDRSCSR *, PetscLogDouble, IDRSSellCopy *, IDRSRowLengths *, cudaStream_t,
                                         const char *[]);
PETSC_INTERN PetscErrorCode IDRSSellScan(uint32_t, const uint32_t[], const unsigned long long *, IDRSSellCopy *, cudaStream_t,
                                         const char *[]);
PETSC_INTERN unsigned int   IDRSSellTurns(const IDRSSellCopy *, const IDRSRowLengths *);
PETSC_INTERN PetscErrorCode IDRSSellAllocate(IDRSSellCopy *, const char *[]);
PETSC_INTERN PetscErrorCode IDRSSellDestroy(IDRSSellCopy *);
PETSC_INTERN PetscLogDouble IDRSSellBytes(const IDRSSellCopy *);

/*
   Iterates over the slots of a slice; p is the next entry of each row of this lane. The key of an entry is its column, or its
   distance from the diagonal. A slot contains keys from a base to base + reach
*/
template <typename Form>
struct IDRSSlotWalk {
  static constexpr uint32_t none = 0xffffffffu, sign = 0x80000000u, reach = Form::columns ? IDRS_COLUMN_SPAN : 0;

  PetscInt p[Form::rows], end[Form::rows];
  uint32_t row[Form::rows], base;
  bool     taken[Form::rows]; /* entry p is in this slot */

  __device__ __forceinline__ IDRSSlotWalk(const IDRSSource &source, const uint16_t *perm, uint32_t slice)
  {
    for (int q = 0; q < Form::rows; q++) {
      row[q]   = IDRSSellRow(perm, slice * Form::slicerows + threadIdx.x % IDRS_WARP * Form::rows + q, (uint32_t)source.A.n);
      p[q]     = row[q] < source.A.n ? source.A.i[row[q]] : 0;
      end[q]   = row[q] < source.A.n ? source.A.i[row[q] + 1] : 0;
      taken[q] = false;
    }
  }

  /* Returns true if there is a next slot. Called by all lanes */
  __device__ __forceinline__ bool Next(const IDRSSource &source)
  {
    uint32_t key[Form::rows], least = none;

#pragma unroll
    for (int q = 0; q < Form::rows; q++) {
      if (taken[q]) p[q]++;
      if (source.unit && p[q] < end[q] && source.A.j[p[q]] == row[q]) p[q]++;
      key[q] = none;
      if (p[q] < end[q]) key[q] = Form::columns ? (uint32_t)source.A.j[p[q]] : ((uint32_t)source.A.j[p[q]] - row[q]) ^ sign;
      least = min(least, key[q]);
    }
    least = IDRSWarpMin(least);
    base  = Form::columns ? least : least ^ sign;
#pragma unroll
    for (int q = 0; q < Form::rows; q++) taken[q] = key[q] != none && key[q] - least <= reach;
    return least != none;
  }

  __device__ __forceinline__ uint16_t Column(const IDRSSource &source, int q) const
  {
    return taken[q] ? (uint16_t)((uint32_t)source.A.j[p[q]] - base) : 0;
  }
};

/* One warp per slice: counts slots, and units of memory */
template <typename Form>
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSWidthKernel(IDRSSource source, const uint16_t *perm, uint32_t slices,
                                                                       uint32_t *width, uint32_t *units, unsigned long long *slots)
{
  const uint32_t slice = (uint32_t)(IDRSFirstRow<1>() / IDRS_WARP);
  uint32_t       count = 0;

  if (slice >= slices) return;
  for (IDRSSlotWalk<Form> walk(source, perm, slice); walk.Next(source);) count++;
  if (threadIdx.x % IDRS_WARP) return;
  count        = max(count, 1u);
  width[slice] = count;
  units[slice] = Form::Units(count);
  atomicAdd(slots, (unsigned long long)count);
}

/* One warp per slice: fills its chunks */
template <typename Form>
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSFillKernel(IDRSSource source, IDRSSell sell, unsigned char *chunks)
{
  typedef typename Form::Value            Value;
  typedef IDRSTuple<Value, Form::rows>    Values;
  typedef IDRSTuple<uint16_t, Form::rows> Columns;

  const uint32_t slice = (uint32_t)(IDRSFirstRow<1>() / IDRS_WARP), lane = threadIdx.x % IDRS_WARP;
  unsigned char *chunk;
  uint32_t       left;

  if (slice >= sell.slices) return;
  chunk = chunks + (size_t)sell.offset[slice] * IDRS_UNIT;
  left  = sell.width[slice];
  for (IDRSSlotWalk<Form> walk(source, sell.perm, slice); left > 0;) {
    const uint32_t slots   = min(left, (uint32_t)IDRS_SLOTS);
    Values        *values  = (Values *)(chunk + IDRS_BASES_BYTES);
    Columns       *columns = (Columns *)(chunk + IDRS_BASES_BYTES + slots * Form::slicerows * sizeof(Value));

    for (uint32_t j = 0; j < IDRS_SLOTS; j++) {
      const bool more = j < slots && walk.Next(source);
      Values     value;
      Columns    column;

      if (lane == 0) ((uint32_t *)chunk)[j] = more ? walk.base : 0;
      if (j >= slots) continue;
#pragma unroll
      for (int q = 0; q < Form::rows; q++) {
        IDRSNarrowValue(more && walk.taken[q] ? IDRSSourceEntry(source, walk.p[q], walk.row[q]) : (PetscScalar)0.0, &value.v[q]);
        column.v[q] = more ? walk.Column(source, q) : 0;
      }
      values[j * IDRS_WARP + lane] = value;
      if (Form::columns) columns[j * IDRS_WARP + lane] = column;
    }
    chunk += Form::Bytes(slots);
    left -= slots;
  }
}

static inline unsigned int IDRSSliceBlocks(uint32_t slices)
{
  return (unsigned int)((slices + IDRS_WARPS - 1) / IDRS_WARPS);
}

/*
   Counts the slots in this form, and so the memory of the slices. The rows may have been sorted
*/
template <typename Form>
static PetscErrorCode IDRSSellPlan(const IDRSSource *source, IDRSSellCopy *copy, cudaStream_t stream, const char *why[])
{
  const uint32_t      slices = ((uint32_t)source->A.n + Form::slicerows - 1) / Form::slicerows;
  uint32_t           *units;
  unsigned long long *slots;

  PetscFunctionBegin;
  copy->A.n      = (uint32_t)source->A.n;
  copy->A.slices = slices;
  copy->A.perm   = copy->perm;
  if (!slices) PetscFunctionReturn(PETSC_SUCCESS);
  if (!copy->slices) PetscCall(IDRSMalloc_CUDA(2 * slices * sizeof(uint32_t), &copy->slices, why));
  PetscCall(IDRSMalloc_CUDA(slices * sizeof(uint32_t), &units, why));
  PetscCall(IDRSMalloc_CUDA(sizeof(*slots), &slots, why));
  if (!*why) {
    PetscCallCUDA(cudaMemsetAsync(slots, 0, sizeof(*slots), stream));
    IDRSWidthKernel<Form>
      <<<IDRSSliceBlocks(slices), IDRS_THREADS, 0, stream>>>(*source, copy->perm, slices, copy->slices + slices, units, slots);
    PetscCallCUDA(cudaGetLastError());
    PetscCall(IDRSSellScan(slices, units, slots, copy, stream, why));
  }
  PetscCallCUDA(cudaFree(slots));
  PetscCallCUDA(cudaFree(units));
  copy->A.offset = copy->slices;
  copy->A.width  = copy->slices + slices;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies the values of a matrix whose copy is planned, or whose values have changed */
template <typename Form>
static PetscErrorCode IDRSSellFill(const IDRSSource *source, IDRSSellCopy *copy, cudaStream_t stream)
{
  PetscFunctionBegin;
  if (copy->A.slices)
    IDRSFillKernel<Form><<<IDRSSliceBlocks(copy->A.slices), IDRS_THREADS, 0, stream>>>(*source, copy->A, copy->chunks);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(IDRSCompressedRowsFill(source, &copy->longrows, stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}
