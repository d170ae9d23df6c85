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

/*
   The matrix, and how its columns are counted if chunks are ordered: chunk c, in the order of the matrix, begins with column
   starts[c], and is shifted
*/
typedef struct {
  const PetscInt *i, *j;
  PetscInt        nchunks, *starts, *shifts; /* starts[nchunks] is the end; NULL: as in the matrix */
  PetscInt        recent;                    /* chunk of the last column */
} IDRSStreamEntries;

static inline PetscInt IDRSStreamColumnOf(IDRSStreamEntries *entries, PetscInt p)
{
  const PetscInt column = entries->j[p];

  if (!entries->starts) return column;
  if (column < entries->starts[entries->recent] || column >= entries->starts[entries->recent + 1])
    entries->recent = IDRSStreamSearch(entries->nchunks, entries->starts, column);
  return column + entries->shifts[entries->recent];
}

/* Collects the differences of a chunk, up to one too many */
static void IDRSStreamCodesCollect(IDRSStreamCodes *codes, const IDRSStreamChunk *chunk, IDRSStreamEntries *entries)
{
  IDRSStreamCodesClear(codes);
  for (PetscInt r = 0; r < chunk->rows; r++) {
    for (PetscInt p = entries->i[chunk->origin + r]; p < entries->i[chunk->origin + r + 1]; p++) {
      (void)IDRSStreamCodesGet(codes, (int32_t)(IDRSStreamColumnOf(entries, p) - (chunk->row + r)));
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

/* Finds the first and the last chunk that each chunk has columns in, itself included, also with the chunks after or before it */
static void IDRSStreamFindFrontiers(IDRSStreamPattern pattern, IDRSStreamEntries *entries)
{
  IDRSStreamChunk *chunks = pattern->chunks;

  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    PetscInt low = chunks[c].row, high = chunks[c].row;

    for (PetscInt p = entries->i[chunks[c].origin]; p < entries->i[chunks[c].origin + chunks[c].rows]; p++) {
      const PetscInt column = IDRSStreamColumnOf(entries, p);

      low  = PetscMin(low, column);
      high = PetscMax(high, column);
    }
    chunks[c].least = IDRSStreamChunkOf(pattern, low);
    chunks[c].most  = PetscMax(IDRSStreamChunkOf(pattern, high), c ? chunks[c - 1].most : 0);
  }
  for (PetscInt c = pattern->nchunks - 2; c >= 0; c--) chunks[c].least = PetscMin(chunks[c].least, chunks[c + 1].least);
}

/* Chooses the width of the columns, and computes sizes */
static void IDRSStreamChunkMeasure(IDRSStreamPattern pattern, IDRSStreamChunk *chunk, IDRSStreamCodes *codes,
                                   IDRSStreamEntries *entries)
{
  IDRSStreamCodesCollect(codes, chunk, entries);
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

static void IDRSStreamChunkPack(IDRSStreamPattern pattern, const IDRSStreamChunk *chunk, IDRSStreamCodes *codes,
                                IDRSStreamEntries *entries)
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
    const PetscInt *i = entries->i + chunk->origin + r;

    offsets[r + 1] = (uint32_t)((size_t)i[1] - chunk->entry);
    for (PetscInt p = i[0]; p < i[1]; p++) {
      const PetscInt place = IDRSStreamColumnOf(entries, p);

      if (chunk->width == 1) *code8++ = (uint8_t)IDRSStreamCodesGet(codes, (int32_t)(place - (chunk->row + r)));
      else if (chunk->width == 2) *code16++ = (uint16_t)IDRSStreamCodesGet(codes, (int32_t)(place - (chunk->row + r)));
      else *column++ = (uint32_t)place;
    }
  }
  for (PetscInt d = 0; d < chunk->differences; d++) table[d] = codes->differences[d];
}

/* Orders the chunks, and finds how columns are counted then */
static PetscErrorCode IDRSStreamOrderChunks(IDRSStreamPattern pattern, IDRSStreamEntries *entries)
{
  const PetscInt   nchunks = pattern->nchunks;
  PetscInt        *order;
  IDRSStreamChunk *chunks;

  PetscFunctionBegin;
  /* column j of the matrix is j + shift in the order of the chunks */
  entries->nchunks = nchunks;
  PetscCall(PetscMalloc2(nchunks + 1, &entries->starts, nchunks, &entries->shifts));
  PetscCall(PetscArraycpy(entries->starts, pattern->starts, nchunks + 1));
  PetscCall(PetscMalloc1(nchunks, &order));
  PetscCall(IDRSStreamOrder(nchunks, entries->starts, entries->i, entries->j, order));
  PetscCall(PetscMalloc1(nchunks, &chunks));
  for (PetscInt c = 0; c < nchunks; c++) {
    chunks[c]                 = pattern->chunks[order[c]];
    chunks[c].row             = pattern->starts[c];
    entries->shifts[order[c]] = chunks[c].row - chunks[c].origin;
    pattern->starts[c + 1]    = chunks[c].row + chunks[c].rows;
  }
  PetscCall(PetscFree(order));
  PetscCall(PetscFree(pattern->chunks));
  pattern->chunks = chunks;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSStreamPatternCreate - Creates chunks of about this many bytes on the device from n rows, and packs their columns. If
   `ordered`, and if there are as many columns as rows, the chunks are reordered. The pattern keeps neither i nor j
*/
PetscErrorCode IDRSStreamPatternCreate(PetscInt n, PetscInt columns, const PetscInt i[], const PetscInt j[], size_t bytes,
                                       PetscBool ordered, IDRSStreamPattern *newpattern)
{
  IDRSStreamEntries entries = {.i = i, .j = j};
  IDRSStreamPattern pattern;
  IDRSStreamCodes   codes;

  PetscFunctionBegin;
  PetscCheck(PetscMax(n, columns) <= INT32_MAX, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
             "A process streams at most %d rows and columns, but this one has %" PetscInt_FMT " x %" PetscInt_FMT
             "; use more processes",
             INT32_MAX, n, columns);
  PetscCall(PetscNew(&pattern));
  pattern->n       = n;
  pattern->columns = columns;
  pattern->entries = n ? (size_t)i[n] : 0;
  for (PetscInt row = 0; row < n; row += IDRSStreamChunkRows(row, n, i, bytes)) pattern->nchunks++;
  PetscCall(PetscCalloc1(pattern->nchunks, &pattern->chunks));
  PetscCall(PetscCalloc1(pattern->nchunks + 1, &pattern->starts));
  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    IDRSStreamChunk *chunk = &pattern->chunks[c];
    const PetscInt   row   = pattern->starts[c];

    chunk->row             = row;
    chunk->origin          = row;
    chunk->rows            = IDRSStreamChunkRows(row, n, i, bytes);
    chunk->entry           = (size_t)i[row];
    chunk->entries         = (size_t)i[row + chunk->rows] - chunk->entry;
    pattern->starts[c + 1] = row + chunk->rows;
  }
  /* then rows, columns and frontiers are counted in the order of the chunks */
  pattern->ordered = (PetscBool)(ordered && n == columns);
  if (pattern->ordered) PetscCall(IDRSStreamOrderChunks(pattern, &entries));
  IDRSStreamFindFrontiers(pattern, &entries);
  PetscCall(IDRSStreamCodesCreate(&codes));
  for (PetscInt c = 0; c < pattern->nchunks; c++) IDRSStreamChunkMeasure(pattern, &pattern->chunks[c], &codes, &entries);
  PetscCall(PetscMalloc1(pattern->packedbytes, &pattern->packed));
  for (PetscInt c = 0; c < pattern->nchunks; c++) IDRSStreamChunkPack(pattern, &pattern->chunks[c], &codes, &entries);
  PetscCall(PetscFree2(entries.starts, entries.shifts));
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
