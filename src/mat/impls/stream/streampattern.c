/*
   Rows in chunks, and the columns of a chunk packed: codes of 8 or 16 bits for the differences (column - row), where a chunk has
   few of them, as those of grids
*/
#include <petscidrs/private/idrsstream.h>
#include <petscidrs/private/idrscompat.h>

#define MOST_DIFFERENCES 65536
#define PLACES           (4 * MOST_DIFFERENCES) /* of the hash table, a power of 2 */

/* The differences of a chunk, in the order of their appearance, and where each of them is in that order */
typedef struct {
  PetscInt  count;
  int32_t  *differences;  /* MOST_DIFFERENCES + 1 */
  int32_t  *keys, *codes; /* of each place; code -1 for none */
  PetscInt *taken;        /* places */
} Codes;

static PetscErrorCode CodesCreate(Codes *codes)
{
  PetscFunctionBegin;
  codes->count = 0;
  PetscCall(PetscMalloc4(MOST_DIFFERENCES + 1, &codes->differences, PLACES, &codes->keys, PLACES, &codes->codes,
                         MOST_DIFFERENCES + 1, &codes->taken));
  for (PetscInt place = 0; place < PLACES; place++) codes->codes[place] = -1;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode CodesDestroy(Codes *codes)
{
  PetscFunctionBegin;
  PetscCall(PetscFree4(codes->differences, codes->keys, codes->codes, codes->taken));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static void CodesClear(Codes *codes)
{
  for (PetscInt i = 0; i < codes->count; i++) codes->codes[codes->taken[i]] = -1;
  codes->count = 0;
}

/* The code of a difference, which is new if it is the old count */
static inline int32_t CodesGet(Codes *codes, int32_t difference)
{
  uint32_t place = (uint32_t)difference * 2654435761u >> 14;

  for (; codes->codes[place] >= 0; place = (place + 1) % PLACES) {
    if (codes->keys[place] == difference) return codes->codes[place];
  }
  codes->keys[place]               = difference;
  codes->taken[codes->count]       = (PetscInt)place;
  codes->differences[codes->count] = difference;
  codes->codes[place]              = (int32_t)codes->count;
  return (int32_t)codes->count++;
}

/*
   The matrix, and how its columns are counted where chunks are ordered: chunk c, in the order of the matrix, begins with column
   starts[c], and is shifted
*/
typedef struct {
  const PetscInt *i, *j;
  PetscInt        nchunks, *starts, *shifts; /* starts[nchunks] is the end; NULL: as in the matrix */
  PetscInt        recent;                    /* chunk of the last column that was asked for */
} Entries;

static inline PetscInt Column(Entries *entries, PetscInt p)
{
  const PetscInt column = entries->j[p];

  if (!entries->starts) return column;
  if (column < entries->starts[entries->recent] || column >= entries->starts[entries->recent + 1]) {
    PetscInt low = 0, high = entries->nchunks;

    while (high - low > 1) {
      const PetscInt middle = (low + high) / 2;

      if (entries->starts[middle] <= column) low = middle;
      else high = middle;
    }
    entries->recent = low;
  }
  return column + entries->shifts[entries->recent];
}

/* The differences of the entries of a chunk, up to one too many */
static void CodesCollect(Codes *codes, const IDRSStreamChunk *chunk, Entries *entries)
{
  CodesClear(codes);
  for (PetscInt r = 0; r < chunk->rows; r++) {
    for (PetscInt p = entries->i[chunk->origin + r]; p < entries->i[chunk->origin + r + 1]; p++) {
      (void)CodesGet(codes, (int32_t)(Column(entries, p) - (chunk->row + r)));
      if (codes->count > MOST_DIFFERENCES) return;
    }
  }
}

/* Rows from this one on for a chunk of so many bytes, with columns of 32 bits; one row at least */
static PetscInt ChunkRows(PetscInt row, PetscInt n, const PetscInt i[], size_t bytes)
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

/* IDRSStreamChunkOf - The chunk that has this row; they are in ascending order */
PetscInt IDRSStreamChunkOf(IDRSStreamPattern pattern, PetscInt row)
{
  PetscInt low = 0, high = pattern->nchunks;

  while (high - low > 1) {
    const PetscInt middle = (low + high) / 2;

    if (pattern->chunks[middle].row <= row) low = middle;
    else high = middle;
  }
  return low;
}

/* The chunks that each chunk has columns in, itself included, and then with the chunks behind or before it */
static void FindFrontiers(IDRSStreamPattern pattern, Entries *entries)
{
  IDRSStreamChunk *chunks = pattern->chunks;

  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    PetscInt low = chunks[c].row, high = chunks[c].row;

    for (PetscInt p = entries->i[chunks[c].origin]; p < entries->i[chunks[c].origin + chunks[c].rows]; p++) {
      const PetscInt column = Column(entries, p);

      low  = PetscMin(low, column);
      high = PetscMax(high, column);
    }
    chunks[c].least = IDRSStreamChunkOf(pattern, low);
    chunks[c].most  = PetscMax(IDRSStreamChunkOf(pattern, high), c ? chunks[c - 1].most : 0);
  }
  for (PetscInt c = pattern->nchunks - 2; c >= 0; c--) chunks[c].least = PetscMin(chunks[c].least, chunks[c + 1].least);
}

/* Width of the columns, and sizes */
static void ChunkMeasure(IDRSStreamPattern pattern, IDRSStreamChunk *chunk, PetscInt narrowest, Codes *codes, Entries *entries)
{
  CodesCollect(codes, chunk, entries);
  chunk->width       = PetscMax(codes->count <= 256 ? 1 : codes->count <= MOST_DIFFERENCES ? 2 : 4, narrowest);
  chunk->differences = chunk->width == 4 ? 0 : codes->count;
  chunk->packed      = pattern->packedbytes;
  chunk->packedbytes = (size_t)(chunk->rows + 1) * sizeof(uint32_t) + (size_t)chunk->differences * sizeof(int32_t) +
                       chunk->entries * (size_t)chunk->width;
  pattern->packedbytes += IDRSStreamAlign(chunk->packedbytes);
  pattern->slotbytes = PetscMax(pattern->slotbytes, IDRSStreamChunkBytes(chunk));
  pattern->bytes += IDRSStreamChunkBytes(chunk);
}

static void ChunkPack(IDRSStreamPattern pattern, const IDRSStreamChunk *chunk, Codes *codes, Entries *entries)
{
  uint32_t *offsets = (uint32_t *)(pattern->packed + chunk->packed);
  int32_t  *table   = (int32_t *)(offsets + chunk->rows + 1);
  uint8_t  *code8   = (uint8_t *)(table + chunk->differences);
  uint16_t *code16  = (uint16_t *)code8;
  uint32_t *column  = (uint32_t *)code8;

  CodesClear(codes);
  offsets[0] = 0;
  for (PetscInt r = 0; r < chunk->rows; r++) {
    const PetscInt *i = entries->i + chunk->origin + r;

    offsets[r + 1] = (uint32_t)((size_t)i[1] - chunk->entry);
    for (PetscInt p = i[0]; p < i[1]; p++) {
      const PetscInt place = Column(entries, p);

      if (chunk->width == 1) *code8++ = (uint8_t)CodesGet(codes, (int32_t)(place - (chunk->row + r)));
      else if (chunk->width == 2) *code16++ = (uint16_t)CodesGet(codes, (int32_t)(place - (chunk->row + r)));
      else *column++ = (uint32_t)place;
    }
  }
  for (PetscInt d = 0; d < chunk->differences; d++) table[d] = codes->differences[d];
}

/* Puts the chunks in their order, and finds how columns are counted then */
static PetscErrorCode Order(IDRSStreamPattern pattern, Entries *entries)
{
  const PetscInt   nchunks = pattern->nchunks;
  PetscInt        *order, row = 0;
  IDRSStreamChunk *chunks;

  PetscFunctionBegin;
  entries->nchunks = nchunks;
  PetscCall(PetscMalloc2(nchunks + 1, &entries->starts, nchunks, &entries->shifts));
  PetscCall(PetscMalloc1(nchunks, &order));
  PetscCall(IDRSStreamOrder(pattern, entries->i, entries->j, order));
  PetscCall(PetscMalloc1(nchunks, &chunks));
  entries->starts[nchunks] = pattern->n;
  for (PetscInt c = 0; c < nchunks; c++) {
    const IDRSStreamChunk *chunk = &pattern->chunks[order[c]];

    chunks[c]                 = *chunk;
    chunks[c].row             = row;
    entries->starts[order[c]] = chunk->row;
    entries->shifts[order[c]] = row - chunk->row;
    row += chunk->rows;
  }
  PetscCall(PetscFree(order));
  PetscCall(PetscFree(pattern->chunks));
  pattern->chunks = chunks;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSStreamPatternCreate - Chunks of rows, with columns packed

   Input Parameters:
+  n         - number of rows
.  columns   - number of columns
.  i         - where rows begin
.  j         - columns
.  bytes     - about what a chunk takes on the device
.  narrowest - columns have so many bytes, 1, 2 or 4, or more
-  ordered   - the chunks come in an order of their own, if there are as many columns as rows

   Output Parameter:
.  newpattern - the pattern; i and j are not needed any more
*/
PetscErrorCode IDRSStreamPatternCreate(PetscInt n, PetscInt columns, const PetscInt i[], const PetscInt j[], size_t bytes,
                                       PetscInt narrowest, PetscBool ordered, IDRSStreamPattern *newpattern)
{
  Entries           entries = {.i = i, .j = j};
  IDRSStreamPattern pattern;
  Codes             codes;
  PetscInt          row;

  PetscFunctionBegin;
  PetscCheck(PetscMax(n, columns) <= INT32_MAX, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
             "A process streams at most %d rows and columns, and this matrix has %" PetscInt_FMT " x %" PetscInt_FMT
             " here: take more processes",
             INT32_MAX, n, columns);
  PetscCall(PetscNew(&pattern));
  pattern->n       = n;
  pattern->columns = columns;
  pattern->entries = n ? (size_t)i[n] : 0;
  for (row = 0; row < n; row += ChunkRows(row, n, i, bytes)) pattern->nchunks++;
  PetscCall(PetscCalloc1(pattern->nchunks, &pattern->chunks));
  row = 0;
  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    IDRSStreamChunk *chunk = &pattern->chunks[c];

    chunk->row     = row;
    chunk->origin  = row;
    chunk->rows    = ChunkRows(row, n, i, bytes);
    chunk->entry   = (size_t)i[row];
    chunk->entries = (size_t)i[row + chunk->rows] - chunk->entry;
    row += chunk->rows;
  }
  pattern->ordered = (PetscBool)(ordered && n == columns);
  if (pattern->ordered) PetscCall(Order(pattern, &entries));
  FindFrontiers(pattern, &entries);
  PetscCall(CodesCreate(&codes));
  for (PetscInt c = 0; c < pattern->nchunks; c++) ChunkMeasure(pattern, &pattern->chunks[c], narrowest, &codes, &entries);
  PetscCall(PetscMalloc1(pattern->packedbytes, &pattern->packed));
  for (PetscInt c = 0; c < pattern->nchunks; c++) ChunkPack(pattern, &pattern->chunks[c], &codes, &entries);
  PetscCall(PetscFree2(entries.starts, entries.shifts));
  PetscCall(CodesDestroy(&codes));
  *newpattern = pattern;
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSStreamPatternDestroy(IDRSStreamPattern *pattern)
{
  PetscFunctionBegin;
  if (!*pattern) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStreamGhostsDestroy(*pattern));
  PetscCall(PetscFree((*pattern)->packed));
  PetscCall(PetscFree((*pattern)->chunks));
  PetscCall(PetscFree(*pattern));
  PetscFunctionReturn(PETSC_SUCCESS);
}
