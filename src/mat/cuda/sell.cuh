/*
   The SELL format (SELL): slices of 32 rows with one row per lane of a warp, or of 64 rows with two neighbouring rows per lane.
   Entry j of all rows of a slice is a slot: a value and a column for each row. A column is 16 bits, to be added to the base of the
   slot. Rows are sorted by length within windows if this saves padding. A slot contains the next entry of each row whose column is
   within 65535 of the smallest of them; other rows have a zero in this slot.

   Without columns, the base of a slot is the distance of its entries from the diagonal, one distance for all rows: for stencils.

   A slice is stored as chunks of IDRS_SLOTS slots, the last one with fewer. A warp copies chunks to shared memory ahead of their
   use:

     bases     IDRS_SLOTS x 32 bits
     values    slots x rows of a slice
     columns   slots x rows of a slice x 16 bits, or nothing

   Rows that are much longer than the others are not in slices: the other rows would be padded to their length, and one lane would
   process all their entries. They are in CSR, with one warp per row.

   Reference: A. Monakov, A. Lokhmotov and A. Avetisyan, Automatically tuning sparse matrix-vector multiplication for GPU
   architectures, HiPEAC (2010)
*/
#pragma once

#include <petscsys.h>
#include "../../sys/device/target.cuh"
#include "../../sys/kernels/csr.h"

#define IDRS_SLOTS       8      /* per chunk */
#define IDRS_COLUMN_SPAN 65535u /* largest number of 16 bits */
#define IDRS_WINDOW      1024   /* rows that are sorted at a time */
#define IDRS_LONG_ROW    0x8000 /* bit of a row that is not in a slice */
#define IDRS_UNIT        32     /* bytes; chunks are multiples of it */

#define IDRS_BASES_BYTES ((uint32_t)(IDRS_SLOTS * sizeof(uint32_t)))

/* The values of a copy: scale D^{-1}A */
typedef struct {
  IDRSCSR            A;
  const PetscScalar *inverse; /* diagonal of D^{-1}; NULL if D = I */
  bool               unit;    /* the diagonal of D^{-1}A is 1, and is not copied */
  PetscReal          scale;
} IDRSSource;

/* Returns entry p, which is in this row */
static __device__ __forceinline__ PetscScalar IDRSSourceEntry(const IDRSSource &source, PetscInt p, uint32_t row)
{
  return (source.inverse ? source.inverse[row] * source.A.a[p] : source.A.a[p]) * source.scale;
}

/* The rows with more entries than a limit, in compressed row storage of their own */
typedef struct {
  IDRSCSR   A;    /* these rows only */
  PetscInt *rows; /* their numbers, ascending */
  void     *memory;
  size_t    bytes, entries;
} IDRSCompressedRows;

PETSC_INTERN PetscErrorCode IDRSCompressedRowsSelect(const IDRSCSR *, unsigned int, const IDRSRowLengths *, IDRSCompressedRows *,
                                                     cudaStream_t, const char *[]);
PETSC_INTERN PetscErrorCode IDRSCompressedRowsFill(const IDRSSource *, IDRSCompressedRows *, cudaStream_t);
PETSC_INTERN PetscErrorCode IDRSCompressedRowsDestroy(IDRSCompressedRows *);

/* The contents of slots: the type of values, rows per lane, with columns or without */
template <typename VALUE, int ROWS, bool COLUMNS>
struct IDRSForm {
  typedef VALUE Value;

  static constexpr int      rows      = ROWS;
  static constexpr bool     columns   = COLUMNS;
  static constexpr uint32_t slicerows = IDRS_WARP * ROWS;
  /* slices per window */
  static constexpr uint32_t windowsize = IDRS_WINDOW / slicerows;
  /* per slot */
  static constexpr uint32_t valuebytes = slicerows * sizeof(VALUE), columnbytes = COLUMNS ? slicerows * sizeof(uint16_t) : 0;
  static constexpr uint32_t slotbytes  = valuebytes + columnbytes;
  static constexpr uint32_t chunkbytes = IDRS_BASES_BYTES + IDRS_SLOTS * slotbytes; /* at most */

  /* Bytes of a chunk with this number of slots */
  static __device__ __forceinline__ uint32_t Bytes(uint32_t slots) { return IDRS_BASES_BYTES + slots * slotbytes; }

  /* Units of a slice with this number of slots */
  static __device__ uint32_t Units(uint32_t width)
  {
    const uint32_t left = width % IDRS_SLOTS;

    return (width / IDRS_SLOTS * Bytes(IDRS_SLOTS) + (left ? Bytes(left) : 0)) / IDRS_UNIT;
  }
};

typedef struct {
  const unsigned char *chunks;
  const uint32_t      *offset; /* first chunk of each slice, in units */
  const uint32_t      *width;  /* slots of each slice, at least 1 */
  /* sorted row i is row perm[i] of its window, apart from the bit; NULL if rows are not sorted and none is long */
  const uint16_t *perm;
  uint32_t        slices, n;
  IDRSCSR         longrows;    /* long rows, which are not in slices */
  const PetscInt *longindices; /* their row numbers */
} IDRSSell;

/* Returns the row in place i of the sorted order */
static inline __device__ uint32_t IDRSSortedRow(const uint16_t *perm, uint32_t i, uint32_t n)
{
  return perm && i < n ? i / IDRS_WINDOW * IDRS_WINDOW + (perm[i] & ~IDRS_LONG_ROW) : i;
}

/* The same for slices; returns n if the row is a long one */
static inline __device__ uint32_t IDRSSellRow(const uint16_t *perm, uint32_t i, uint32_t n)
{
  return perm && i < n && perm[i] & IDRS_LONG_ROW ? n : IDRSSortedRow(perm, i, n);
}
