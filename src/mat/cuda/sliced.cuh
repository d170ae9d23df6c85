/*
   The sliced format (SELL): slices of 32 rows, a lane of a warp a row, or of 64 rows, two neighbouring ones a lane. Entry j of all
   rows of a slice is a slot, of a value and a column for each row, the columns as 16 bits to be added to the base of the slot. Rows
   are sorted by their length, within windows, where that saves padding. A slot takes the next entry of each row whose column is
   within 65535 of the smallest of them; the other rows wait, and their place holds a zero.

   Without columns, the base of a slot is the distance of its entries from the diagonal, the same one for all of them: for stencils.

   If the matrix has dense blocks of bs rows and columns, the entries of a row in a block are in bs slots one after the other,
   for which a row has one column, that of the first of them: the bases of these slots grow by one.

   A slice is stored as chunks of IDRS_SLOTS slots, the last one of fewer, which a warp copies to shared memory ahead of their use:

     bases     IDRS_SLOTS x 32 bits
     values    slots x rows of a slice
     columns   slots x rows of a slice x 16 bits, of every bs-th slot with blocks, or nothing

   With blocks a chunk has as many slots as whole blocks give.

   Rows that are much longer than the others are in no slice, whose padding would be as long, and whose lane would take all their
   entries one after the other. They are in CSR, and a warp takes one of them.

   Reference: A. Monakov, A. Lokhmotov and A. Avetisyan, Automatically tuning sparse matrix-vector multiplication for GPU
   architectures, HiPEAC (2010)
*/
#pragma once

#include <petscsys.h>
#include "../../sys/device/target.cuh"
#include "compressedrows.h"

#define IDRS_SLOTS       8      /* of a chunk */
#define IDRS_COLUMN_SPAN 65535u /* what 16 bits hold */
#define IDRS_WINDOW      1024   /* rows that are sorted together */
#define IDRS_LONG_ROW    0x8000 /* mark of a row that is in no slice */
#define IDRS_UNIT        32     /* bytes: chunks are multiples of it */

#define IDRS_BASES_BYTES ((uint32_t)(IDRS_SLOTS * sizeof(uint32_t)))

/*
   The columns that slots share: entries of a row in a block, slots of a whole chunk, and what a number of slots up to IDRS_SLOTS is
   multiplied by for 2^16 times the number of blocks
*/
typedef struct {
  uint32_t bs, slots, inverse;
} IDRSSharing;

static inline IDRSSharing IDRSGetSharing(int bs)
{
  return {(uint32_t)bs, (uint32_t)(IDRS_SLOTS / bs * bs), 65536u / (uint32_t)bs + 1};
}

/* The contents of slots: values of this type, for so many rows of a lane, with columns or without; perhaps in blocks */
template <typename VALUE, int ROWS, bool COLUMNS, bool BLOCKS = false>
struct IDRSForm {
  typedef VALUE Value;

  static constexpr int      rows      = ROWS;
  static constexpr bool     columns   = COLUMNS;
  static constexpr bool     blocks    = BLOCKS;
  static constexpr uint32_t slicerows = IDRS_WARP * ROWS;
  /* slices of a window */
  static constexpr uint32_t windowsize = IDRS_WINDOW / slicerows;
  /* of a slot */
  static constexpr uint32_t valuebytes = slicerows * sizeof(VALUE), columnbytes = COLUMNS ? slicerows * sizeof(uint16_t) : 0;
  static constexpr uint32_t slotbytes  = valuebytes + columnbytes;
  static constexpr uint32_t chunkbytes = IDRS_BASES_BYTES + IDRS_SLOTS * slotbytes; /* at most */

  /* Slots of a whole chunk */
  static __device__ __forceinline__ uint32_t Slots(const IDRSSharing &sharing) { return BLOCKS ? sharing.slots : IDRS_SLOTS; }

  /* Which column of a chunk is that of slot j; with the number of its slots, how many there are */
  static __device__ __forceinline__ uint32_t Column(const IDRSSharing &sharing, uint32_t j)
  {
    return BLOCKS ? j * sharing.inverse >> 16 : j;
  }

  /* Bytes of a chunk of so many slots */
  static __device__ __forceinline__ uint32_t Bytes(const IDRSSharing &sharing, uint32_t slots)
  {
    return IDRS_BASES_BYTES + slots * valuebytes + Column(sharing, slots) * columnbytes;
  }

  /* Units of a slice of so many slots */
  static __device__ uint32_t Units(const IDRSSharing &sharing, uint32_t width)
  {
    const uint32_t full = Slots(sharing), left = width % full;

    return (width / full * Bytes(sharing, full) + (left ? Bytes(sharing, left) : 0)) / IDRS_UNIT;
  }
};

typedef struct {
  const unsigned char *chunks;
  const uint32_t      *offset; /* of the first chunk of a slice, in units */
  const uint32_t      *width;  /* slots of a slice, at least 1 */
  /* row i of the sorted ones is row perm[i] of its window, but for a mark; NULL where rows are not sorted, and none is long */
  const uint16_t *perm;
  uint32_t        slices, n;
  IDRSSharing     sharing;
  IDRSCSR         longrows;    /* long rows, which are in no slice, */
  const PetscInt *longindices; /* and which ones they are */
} IDRSSliced;

/* The row in place i of the sorted ones */
static inline __device__ uint32_t IDRSSortedRow(const uint16_t *perm, uint32_t i, uint32_t n)
{
  return perm && i < n ? i / IDRS_WINDOW * IDRS_WINDOW + (perm[i] & ~IDRS_LONG_ROW) : i;
}

/* The same in slices: n where that row is a long one */
static inline __device__ uint32_t IDRSSlicedRow(const uint16_t *perm, uint32_t i, uint32_t n)
{
  return perm && i < n && perm[i] & IDRS_LONG_ROW ? n : IDRSSortedRow(perm, i, n);
}
