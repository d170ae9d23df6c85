/*
   Ghosts of a streamed matrix on several processes: their order, and rows and entries that stay on the device
*/
#include <petscidrs/private/idrsstream.h>
#include <petscidrs/private/idrscompat.h>

/* Ghosts during creation; arrays are indexed by the input numbers */
typedef struct {
  IDRSStreamPattern          pattern;
  IDRSStreamGhosts           ghosts;
  const IDRSStreamGhostRows *rows;
  PetscInt                  *distance; /* from the own rows; 0: unknown */
  PetscInt                  *chunk;    /* that they are computed with */
  PetscInt                  *number;   /* in the new order */
} IDRSStreamGhostPlan;

/* The position of a ghost is the mean of the positions of the rows that it was found from; the position of an own row is the row */
typedef struct {
  int64_t *sum, *count;
} IDRSStreamPositions;

static void IDRSStreamPositionAdd(IDRSStreamGhostPlan *plan, IDRSStreamPositions *positions, PetscInt g, PetscInt distance,
                                  int64_t position)
{
  if (!plan->distance[g]) plan->distance[g] = distance;
  if (plan->distance[g] != distance) return;
  positions->sum[g] += position;
  positions->count[g]++;
}

/* Finds the distance of each ghost, and the chunk at its position */
static PetscErrorCode IDRSStreamGhostsLocate(IDRSStreamGhostPlan *plan)
{
  const IDRSStreamGhostRows *rows = plan->rows;
  const PetscInt             n    = plan->pattern->n;
  IDRSStreamPositions        positions;

  PetscFunctionBegin;
  PetscCall(PetscCalloc2(rows->count, &positions.sum, rows->count, &positions.count));
  /* distance 1: columns of own rows; then columns of ghosts, distance after distance */
  for (PetscInt row = 0; row < n; row++) {
    for (PetscInt p = rows->outeri[row]; p < rows->outeri[row + 1]; p++)
      IDRSStreamPositionAdd(plan, &positions, rows->outerj[p], 1, row);
  }
  for (PetscInt d = 1; d < plan->ghosts->depth; d++) {
    for (PetscInt g = 0; g < rows->count; g++) {
      if (plan->distance[g] != d) continue;
      for (PetscInt p = rows->i[g]; p < rows->i[g + 1]; p++) {
        if (rows->j[p] >= n) IDRSStreamPositionAdd(plan, &positions, rows->j[p] - n, d + 1, positions.sum[g] / positions.count[g]);
      }
    }
  }
  for (PetscInt g = 0; g < rows->count; g++) {
    if (!plan->distance[g]) continue;
    plan->chunk[g] = IDRSStreamChunkOf(plan->pattern, (PetscInt)(positions.sum[g] / positions.count[g]));
    plan->ghosts->count++;
  }
  PetscCall(PetscFree2(positions.sum, positions.count));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Orders ghosts by chunks, in a chunk by distances, and otherwise as in the input. Omits ghosts that are too distant */
static PetscErrorCode IDRSStreamGhostsOrder(IDRSStreamGhostPlan *plan)
{
  IDRSStreamGhosts ghosts = plan->ghosts;
  const PetscInt   depth = ghosts->depth, keys = plan->pattern->nchunks * depth;
  PetscInt        *next;

  PetscFunctionBegin;
  PetscCall(PetscCalloc1(keys + 1, &ghosts->first));
  PetscCall(PetscMalloc2(ghosts->count, &ghosts->source, ghosts->count, &ghosts->distance));
  /* a counting sort by key = chunk depth + distance - 1 */
  for (PetscInt g = 0; g < plan->rows->count; g++) {
    if (plan->distance[g]) ghosts->first[plan->chunk[g] * depth + plan->distance[g]]++;
  }
  for (PetscInt key = 0; key < keys; key++) ghosts->first[key + 1] += ghosts->first[key];
  PetscCall(PetscMalloc1(keys + 1, &next));
  PetscCall(PetscArraycpy(next, ghosts->first, keys + 1));
  for (PetscInt g = 0; g < plan->rows->count; g++) {
    PetscInt number;

    if (!plan->distance[g]) continue;
    number                   = next[plan->chunk[g] * depth + plan->distance[g] - 1]++;
    plan->number[g]          = number;
    ghosts->source[number]   = g;
    ghosts->distance[number] = plan->distance[g];
  }
  PetscCall(PetscFree(next));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Allots this many bytes in the memory of the ghosts, and returns their place */
static size_t IDRSStreamGhostsAllot(IDRSStreamGhosts ghosts, size_t bytes)
{
  const size_t place = ghosts->bytes;

  ghosts->bytes += IDRSStreamAlign(bytes);
  return place;
}

static void IDRSStreamOutsideAllot(IDRSStreamGhosts ghosts, PetscInt rows, size_t entries, IDRSStreamOutside *outside)
{
  outside->rows    = entries ? rows : 0;
  outside->entries = entries;
  outside->place   = IDRSStreamGhostsAllot(ghosts, IDRSStreamOutsideBytes(outside));
}

/* Computes sizes and places of the entries of a chunk */
static void IDRSStreamGhostChunkMeasure(IDRSStreamGhostPlan *plan, PetscInt c)
{
  const IDRSStreamGhostRows *rows   = plan->rows;
  const IDRSStreamChunk     *chunk  = &plan->pattern->chunks[c];
  IDRSStreamGhosts           ghosts = plan->ghosts;
  IDRSStreamGhostChunk      *mine   = &ghosts->chunks[c];
  const PetscInt             first = ghosts->first[c * ghosts->depth], end = ghosts->first[c * ghosts->depth + ghosts->depth - 1];
  size_t                     outer = 0;

  IDRSStreamOutsideAllot(ghosts, chunk->rows, (size_t)(rows->outeri[chunk->row + chunk->rows] - rows->outeri[chunk->row]),
                         &mine->own);
  mine->inner = (IDRSStreamChunk){.row = plan->pattern->n + first, .rows = end - first, .width = 4};
  for (PetscInt number = first; number < end; number++) {
    const PetscInt g = ghosts->source[number];

    mine->inner.entries += (size_t)(rows->split[g] - rows->i[g]);
    outer += (size_t)(rows->i[g + 1] - rows->split[g]);
  }
  mine->inner.packedbytes = (size_t)(mine->inner.rows + 1) * sizeof(uint32_t) + mine->inner.entries * sizeof(uint32_t);
  mine->inner.packed      = IDRSStreamGhostsAllot(ghosts, mine->inner.rows ? IDRSStreamChunkBytes(&mine->inner) : 0);
  IDRSStreamOutsideAllot(ghosts, mine->inner.rows, outer, &mine->outer);
}

/* Entries of rows in input order: those of row r are begin[which[r]] to end[which[r]]. Column ghostcolumn + g is ghost g */
typedef struct {
  PetscInt           rows;
  const PetscInt    *which, *begin, *end, *j; /* which NULL: row r */
  const PetscScalar *a;
  PetscInt           ghostcolumn;
} IDRSStreamInputRows;

/* Copies rows to the memory of the ghosts, with offsets from 0, columns by the new numbers of ghosts, and values at their place */
static void IDRSStreamFillRows(const IDRSStreamGhostPlan *plan, const IDRSStreamInputRows *input, char *memory, size_t values)
{
  uint32_t    *offsets = (uint32_t *)memory, *column = offsets + input->rows + 1;
  PetscScalar *value = (PetscScalar *)(memory + values);

  offsets[0] = 0;
  for (PetscInt r = 0; r < input->rows; r++) {
    const PetscInt row = input->which ? input->which[r] : r;

    for (PetscInt p = input->begin[row]; p < input->end[row]; p++) {
      const PetscInt j = input->j[p];

      *column++ = (uint32_t)(j < input->ghostcolumn ? j : plan->pattern->n + plan->number[j - input->ghostcolumn]);
      *value++  = input->a[p];
    }
    offsets[r + 1] = offsets[r] + (uint32_t)(input->end[row] - input->begin[row]);
  }
}

/* Fills in entries of a chunk: its own rows outside the diagonal block, and both parts of the rows of its ghosts */
static void IDRSStreamGhostChunkFill(IDRSStreamGhostPlan *plan, PetscInt c)
{
  const IDRSStreamGhostRows  *rows   = plan->rows;
  const IDRSStreamChunk      *chunk  = &plan->pattern->chunks[c];
  IDRSStreamGhosts            ghosts = plan->ghosts;
  const IDRSStreamGhostChunk *mine   = &ghosts->chunks[c];
  IDRSStreamInputRows         input  = {.rows  = mine->own.rows,
                                        .begin = rows->outeri + chunk->row,
                                        .end   = rows->outeri + chunk->row + 1,
                                        .j     = rows->outerj,
                                        .a     = rows->outera};

  if (mine->own.rows) IDRSStreamFillRows(plan, &input, ghosts->memory + mine->own.place, IDRSStreamOutsideHead(&mine->own));
  input = (IDRSStreamInputRows){
    .rows = mine->inner.rows, .begin = rows->i, .end = rows->split, .j = rows->j, .a = rows->a, .ghostcolumn = plan->pattern->n};
  if (ghosts->count) input.which = ghosts->source + (mine->inner.row - plan->pattern->n);
  if (mine->inner.rows) IDRSStreamFillRows(plan, &input, ghosts->memory + mine->inner.packed, IDRSStreamValuesPlace(&mine->inner));
  input.begin = rows->split;
  input.end   = rows->i + 1;
  if (mine->outer.rows) IDRSStreamFillRows(plan, &input, ghosts->memory + mine->outer.place, IDRSStreamOutsideHead(&mine->outer));
}

/* Notes that a chunk with its ghosts has columns in the other chunk */
static void IDRSStreamWidenFrontiers(IDRSStreamChunk *chunk, PetscInt other)
{
  chunk->least = PetscMin(chunk->least, other);
  chunk->most  = PetscMax(chunk->most, other);
}

/* Finds the chunks that each chunk has columns in, in its own rows and in those of its ghosts */
static void IDRSStreamGhostsFindFrontiers(IDRSStreamGhostPlan *plan)
{
  const IDRSStreamGhostRows *rows    = plan->rows;
  IDRSStreamPattern          pattern = plan->pattern;
  IDRSStreamChunk           *chunks  = pattern->chunks;

  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    for (PetscInt p = rows->outeri[chunks[c].row]; p < rows->outeri[chunks[c].row + chunks[c].rows]; p++)
      IDRSStreamWidenFrontiers(&chunks[c], plan->chunk[rows->outerj[p]]);
  }
  for (PetscInt g = 0; g < rows->count; g++) {
    if (!plan->distance[g] || plan->distance[g] == plan->ghosts->depth) continue;
    for (PetscInt p = rows->i[g]; p < rows->i[g + 1]; p++)
      IDRSStreamWidenFrontiers(&chunks[plan->chunk[g]], rows->j[p] < pattern->n ? IDRSStreamChunkOf(pattern, rows->j[p])
                                                                                : plan->chunk[rows->j[p] - pattern->n]);
  }
  /* a level of a chunk is computed after the same level of all chunks before it */
  for (PetscInt c = 1; c < pattern->nchunks; c++) chunks[c].most = PetscMax(chunks[c].most, chunks[c - 1].most);
  for (PetscInt c = pattern->nchunks - 2; c >= 0; c--) chunks[c].least = PetscMin(chunks[c].least, chunks[c + 1].least);
}

/* IDRSStreamGhostsCreate - Adds ghosts up to distance depth from the own rows, 1 or more, to a pattern */
PetscErrorCode IDRSStreamGhostsCreate(IDRSStreamPattern pattern, PetscInt depth, const IDRSStreamGhostRows *rows)
{
  IDRSStreamGhostPlan plan = {.pattern = pattern, .rows = rows};
  IDRSStreamGhosts    ghosts;
  size_t              most = 0;

  PetscFunctionBegin;
  PetscCall(IDRSStreamGhostsDestroy(pattern));
  PetscCheck((PetscInt64)pattern->n + rows->count <= INT32_MAX, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
             "A process streams at most %d rows, including rows of other processes, but this one has %" PetscInt_FMT
             " rows and needs %" PetscInt_FMT " rows of other processes; use more processes",
             INT32_MAX, pattern->n, rows->count);
  PetscCall(PetscNew(&ghosts));
  pattern->ghosts = ghosts;
  plan.ghosts     = ghosts;
  ghosts->depth   = depth;
  PetscCall(PetscCalloc1(pattern->nchunks, &ghosts->chunks));
  PetscCall(PetscMalloc2(pattern->nchunks, &ghosts->least, pattern->nchunks, &ghosts->most));
  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    ghosts->least[c] = pattern->chunks[c].least;
    ghosts->most[c]  = pattern->chunks[c].most;
  }
  PetscCall(PetscCalloc3(rows->count, &plan.distance, rows->count, &plan.chunk, rows->count, &plan.number));
  PetscCall(IDRSStreamGhostsLocate(&plan));
  PetscCall(IDRSStreamGhostsOrder(&plan));
  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    const IDRSStreamGhostChunk *mine = &ghosts->chunks[c];

    IDRSStreamGhostChunkMeasure(&plan, c);
    most = PetscMax(most, PetscMax(mine->own.entries, PetscMax(mine->inner.entries, mine->outer.entries)));
  }
  /* kernels count in uint32_t, beyond the last entry. Chunks have few entries in the diagonal block, but any number outside */
  if (most > INT32_MAX) PetscCall(IDRSStreamGhostsDestroy(pattern));
  PetscCheck(most <= INT32_MAX, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
             "A chunk has at most %d entries outside of the diagonal block, or in rows of other processes, but this matrix has %g; "
             "use a smaller -mat_stream_chunk, or more processes",
             INT32_MAX, (double)most);
  PetscCall(PetscMalloc1(ghosts->bytes, &ghosts->memory));
  for (PetscInt c = 0; c < pattern->nchunks; c++) IDRSStreamGhostChunkFill(&plan, c);
  IDRSStreamGhostsFindFrontiers(&plan);
  PetscCall(PetscFree3(plan.distance, plan.chunk, plan.number));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSStreamGhostsDestroy - Restores the pattern without ghosts */
PetscErrorCode IDRSStreamGhostsDestroy(IDRSStreamPattern pattern)
{
  IDRSStreamGhosts ghosts = pattern->ghosts;

  PetscFunctionBegin;
  if (!ghosts) PetscFunctionReturn(PETSC_SUCCESS);
  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    pattern->chunks[c].least = ghosts->least[c];
    pattern->chunks[c].most  = ghosts->most[c];
  }
  PetscCall(PetscFree2(ghosts->least, ghosts->most));
  PetscCall(PetscFree(ghosts->chunks));
  PetscCall(PetscFree(ghosts->first));
  PetscCall(PetscFree2(ghosts->source, ghosts->distance));
  PetscCall(PetscFree(ghosts->memory));
  PetscCall(PetscFree(pattern->ghosts));
  PetscFunctionReturn(PETSC_SUCCESS);
}
