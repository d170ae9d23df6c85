/*
   The sliced format (SELL-32): slices of 32 rows, a lane of a warp a row. Entry j of all rows of a slice is a slot of 32 values and 32 columns, the columns
   as 16 bits to be added to the base of the slot. Rows are sorted by their length, within windows, where that saves padding. A slot takes the next entry of
   each row whose column is within 65535 of the smallest of them; the other rows wait, and their place holds a zero.

   A slice is stored as chunks of IDRS_SLOTS slots, the last one of fewer, which a warp copies to shared memory ahead of their use:

     bases     IDRS_SLOTS x 32 bits
     values    slots x 32 scalars
     columns   slots x 32 x 16 bits

   Reference: A. Monakov, A. Lokhmotov and A. Avetisyan, Automatically tuning sparse matrix-vector multiplication for GPU architectures, HiPEAC (2010)
*/
#pragma once

#include <petscsys.h>
#include "../../sys/device/target.cuh"

#define IDRS_SLOTS       8      /* of a chunk */
#define IDRS_COLUMN_SPAN 65535u /* what 16 bits hold */
#define IDRS_WINDOW      1024   /* rows that are sorted together */
#define IDRS_UNIT        32     /* bytes: chunks are multiples of it */

/* Bytes of bases, and of a slot beside its base */
#define IDRS_BASES_BYTES ((uint32_t)(IDRS_SLOTS * sizeof(uint32_t)))
#define IDRS_SLOT_BYTES  ((uint32_t)(IDRS_WARP * (sizeof(PetscScalar) + sizeof(uint16_t))))
#define IDRS_CHUNK_BYTES (IDRS_BASES_BYTES + IDRS_SLOTS * IDRS_SLOT_BYTES)

typedef struct {
  const unsigned char *chunks;
  const uint32_t      *offset; /* of the first chunk of a slice, in units */
  const uint32_t      *width;  /* slots of a slice, at least 1 */
  const uint16_t      *perm;   /* row i of the sorted ones is row perm[i] of its window; NULL where rows are not sorted */
  uint32_t             slices, n;
} IDRSSliced;

/* Units of a slice of so many slots */
static inline __host__ __device__ uint32_t IDRSSliceUnits(uint32_t width)
{
  return ((width + IDRS_SLOTS - 1) / IDRS_SLOTS * IDRS_BASES_BYTES + width * IDRS_SLOT_BYTES) / IDRS_UNIT;
}

/* The row in place i of the sorted ones */
static inline __device__ uint32_t IDRSSlicedRow(const uint16_t *perm, uint32_t i, uint32_t n)
{
  return perm && i < n ? i / IDRS_WINDOW * IDRS_WINDOW + perm[i] : i;
}
