/*
   Rows in chunks, and the columns of a chunk packed: codes of 8 or 16 bits for the differences (column - row), if a chunk has few
   of them, like the chunks of grids
*/
#include <petscidrs/private/idrsstream.h>
#include <petscidrs/private/idrscompat.h>

#define MAX_DIFFERENCES 65536
#define PLACES          (4 * MAX_DIFFERENCES) /* of the hash table, a power of 2 */

/* The differences of a chunk in the order of their appearance, and a hash table of their places in that order */
typedef struct {
  PetscInt  count;
  int32_t  *differences;  /* MAX_DIFFERENCES + 1 */
  int32_t  *keys, *codes; /* of each place; code -1 for none */
  PetscInt *used;         /* places */
} IDRSStreamCodes;

static PetscErrorCode IDRSStreamCodesCreate(IDRSStreamCodes *codes)
{
  PetscFunctionBegin;
  codes->count = 0;
  PetscCall(PetscMalloc4(MAX_DIFFERENCES + 1, &codes->differences, PLACES, &codes->keys, PLACES, &codes->codes, MAX_DIFFERENCES + 1,
                         &codes->used));
  for (PetscInt place = 0; place < PLACES; place++) codes->codes[place] = -1;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSStreamCodesDestroy(IDRSStreamCodes *codes)
{
  PetscFunctionBegin;
  PetscCall(PetscFree4(codes->differences, codes->keys, codes->codes, codes->used));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static void IDRSStreamCodesClear(IDRSStreamCodes *codes)
{
  for (PetscInt i = 0; i < codes->count; i++) codes->codes[codes->used[i]] = -1;
  codes->count = 0;
}

/* Returns the code of a difference, which is new if it is the old count */
static inline int32_t IDRSStreamCodesGet(IDRSStreamCodes *codes, int32_t difference)
{
  uint32_t place = (uint32_t)difference * 2654435761u >> 14;

  for (; codes->codes[place] >= 0; place = (place + 1) % PLACES) {
    if (codes->keys[place] == difference) return codes->codes[place];
  }
  codes->keys[place]               = difference;
  codes->used[codes->count]        = (PetscInt)place;
  codes->differences[codes->count] = difference;
  codes->codes[place]              = (int32_t)codes->count;
  return (int32_t)codes->count++;
}

/* Collects the differences of a chunk, up to one too many */
static void IDRSStreamCodesCollect(IDRSStreamCodes *codes, const IDRSStreamChunk *chunk, const PetscInt i[], const PetscInt j[])
{
  IDRSStreamCodesClear(codes);
  for (PetscInt row = chunk->row; row < chunk->row + chunk->rows; row++) {
    for (PetscInt p = i[row]; p < i[row + 1]; p++) {
      (void)IDRSStreamCodesGet(codes, (int32_t)(j[p] - row));
      if (codes->count > MAX_DIFFERENCES) return;
    }
  }
}

/* Returns the number of rows, at least 1, of a chunk of this many bytes with columns of 32 bits that begins with this row */
static PetscInt IDRSStreamChunkRows(PetscInt row, PetscInt n, const PetscInt i[], size_t bytes)
{
  PetscInt end = row + 1;

  for (; end < n; end++) {
    const size_t entries = (size_t)(i[end + 1] - i[row]);

    /* kernels count in uint32_t, beyond the last entry */
    if (entries * (sizeof(PetscScalar) + sizeof(uint32_t)) + (size_t)(end + 2 - row) * sizeof(uint32_t) > bytes ||
        entries > INT32_MAX)
      break;
  }
  return end - row;
}

/* Returns the chunk that has this row */
static PetscInt IDRSStreamChunkOf(IDRSStreamPattern pattern, PetscInt row)
{
  PetscInt low = 0, high = pattern->nchunks;

  while (high - low > 1) {
    const PetscInt middle = (low + high) / 2;

    if (pattern->starts[middle] <= row) low = middle;
    else high = middle;
  }
  return low;
}

/* Finds the first and the last chunk that each chunk has columns in, itself included, also with the chunks after or before it */
static void IDRSStreamFindFrontiers(IDRSStreamPattern pattern, const PetscInt i[], const PetscInt j[])
{
  IDRSStreamChunk *chunks = pattern->chunks;

  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    PetscInt low = chunks[c].row, high = chunks[c].row;

    for (PetscInt p = i[chunks[c].row]; p < i[chunks[c].row + chunks[c].rows]; p++) {
      low  = PetscMin(low, j[p]);
      high = PetscMax(high, j[p]);
    }
    chunks[c].least = IDRSStreamChunkOf(pattern, low);
    chunks[c].most  = PetscMax(IDRSStreamChunkOf(pattern, high), c ? chunks[c - 1].most : 0);
  }
  for (PetscInt c = pattern->nchunks - 2; c >= 0; c--) chunks[c].least = PetscMin(chunks[c].least, chunks[c + 1].least);
}

/* Chooses the width of the columns, and computes sizes */
static void IDRSStreamChunkMeasure(IDRSStreamPattern pattern, IDRSStreamChunk *chunk, IDRSStreamCodes *codes, const PetscInt i[],
                                   const PetscInt j[])
{
  IDRSStreamCodesCollect(codes, chunk, i, j);
  chunk->width = codes->count <= 256 ? 1 : codes->count <= MAX_DIFFERENCES ? 2 : 4;
  /* with columns of 4 bytes there is no table */
  chunk->differences = chunk->width == 4 ? 0 : codes->count;
  chunk->packed      = pattern->packedbytes;
  chunk->packedbytes = (size_t)(chunk->rows + 1) * sizeof(uint32_t) + (size_t)chunk->differences * sizeof(int32_t) +
                       chunk->entries * (size_t)chunk->width;
  pattern->packedbytes += IDRSStreamAlign(chunk->packedbytes);
  pattern->slotbytes = PetscMax(pattern->slotbytes, IDRSStreamChunkBytes(chunk));
  pattern->bytes += IDRSStreamChunkBytes(chunk);
}

static void IDRSStreamChunkPack(IDRSStreamPattern pattern, const IDRSStreamChunk *chunk, IDRSStreamCodes *codes, const PetscInt i[],
                                const PetscInt j[])
{
  uint32_t *offsets = (uint32_t *)(pattern->packed + chunk->packed);
  int32_t  *table   = (int32_t *)(offsets + chunk->rows + 1);
  uint8_t  *code8   = (uint8_t *)(table + chunk->differences);
  uint16_t *code16  = (uint16_t *)code8;
  uint32_t *column  = (uint32_t *)code8;

  IDRSStreamCodesClear(codes);
  /* the table of differences fills up in the order of the codes */
  offsets[0] = 0;
  for (PetscInt r = 0; r < chunk->rows; r++) {
    const PetscInt row = chunk->row + r;

    offsets[r + 1] = (uint32_t)((size_t)i[row + 1] - chunk->entry);
    for (PetscInt p = i[row]; p < i[row + 1]; p++) {
      if (chunk->width == 1) *code8++ = (uint8_t)IDRSStreamCodesGet(codes, (int32_t)(j[p] - row));
      else if (chunk->width == 2) *code16++ = (uint16_t)IDRSStreamCodesGet(codes, (int32_t)(j[p] - row));
      else *column++ = (uint32_t)j[p];
    }
  }
  for (PetscInt d = 0; d < chunk->differences; d++) table[d] = codes->differences[d];
}

/*
   IDRSStreamPatternCreate - Creates chunks of about this many bytes on the device from n rows, and packs their columns. The pattern
   keeps neither i nor j
*/
PetscErrorCode IDRSStreamPatternCreate(PetscInt n, PetscInt columns, const PetscInt i[], const PetscInt j[], size_t bytes,
                                       IDRSStreamPattern *newpattern)
{
  IDRSStreamPattern pattern;
  IDRSStreamCodes   codes;

  PetscFunctionBegin;
  PetscCheck(PetscMax(n, columns) <= INT32_MAX, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
             "A process streams at most %d rows and columns, but this one has %" PetscInt_FMT " x %" PetscInt_FMT
             "; use more processes",
             INT32_MAX, n, columns);
  PetscCall(PetscNew(&pattern));
  pattern->n       = n;
  pattern->entries = n ? (size_t)i[n] : 0;
  for (PetscInt row = 0; row < n; row += IDRSStreamChunkRows(row, n, i, bytes)) pattern->nchunks++;
  PetscCall(PetscCalloc1(pattern->nchunks, &pattern->chunks));
  PetscCall(PetscCalloc1(pattern->nchunks + 1, &pattern->starts));
  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    IDRSStreamChunk *chunk = &pattern->chunks[c];
    const PetscInt   row   = pattern->starts[c];

    chunk->row             = row;
    chunk->rows            = IDRSStreamChunkRows(row, n, i, bytes);
    chunk->entry           = (size_t)i[row];
    chunk->entries         = (size_t)i[row + chunk->rows] - chunk->entry;
    pattern->starts[c + 1] = row + chunk->rows;
  }
  IDRSStreamFindFrontiers(pattern, i, j);
  PetscCall(IDRSStreamCodesCreate(&codes));
  for (PetscInt c = 0; c < pattern->nchunks; c++) IDRSStreamChunkMeasure(pattern, &pattern->chunks[c], &codes, i, j);
  PetscCall(PetscMalloc1(pattern->packedbytes, &pattern->packed));
  for (PetscInt c = 0; c < pattern->nchunks; c++) IDRSStreamChunkPack(pattern, &pattern->chunks[c], &codes, i, j);
  PetscCall(IDRSStreamCodesDestroy(&codes));
  *newpattern = pattern;
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSStreamPatternDestroy(IDRSStreamPattern *pattern)
{
  PetscFunctionBegin;
  if (!*pattern) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscFree((*pattern)->packed));
  PetscCall(PetscFree((*pattern)->starts));
  PetscCall(PetscFree((*pattern)->chunks));
  PetscCall(PetscFree(*pattern));
  PetscFunctionReturn(PETSC_SUCCESS);
}
