/*
   Ghosts of a streamed matrix on several processes: their order, and rows and entries that stay on the device
*/
#include <petscidrs/private/idrsstream.h>
#include <petscidrs/private/idrscompat.h>

/* A plan as it is made, by the numbers that the ghosts were given */
typedef struct {
  IDRSStreamPattern          pattern;
  IDRSStreamGhosts           ghosts;
  const IDRSStreamGhostRows *rows;
  PetscInt                  *distance; /* from the own rows: 0 where it is not known */
  PetscInt                  *chunk;    /* that it is near to */
  PetscInt                  *number;   /* new ones */
} Plan;

/* Places of ghosts are means of those of the rows that they were found from; own rows are where they are */
typedef struct {
  int64_t *sum, *count;
} Places;

static void Find(Plan *plan, Places *places, PetscInt g, PetscInt distance, int64_t place)
{
  if (!plan->distance[g]) plan->distance[g] = distance;
  if (plan->distance[g] != distance) return;
  places->sum[g] += place;
  places->count[g]++;
}

/* The distance of each ghost, and the chunk that it is near to */
static PetscErrorCode FindNear(Plan *plan)
{
  const IDRSStreamGhostRows *rows = plan->rows;
  const PetscInt             n    = plan->pattern->n;
  Places                     places;

  PetscFunctionBegin;
  PetscCall(PetscCalloc2(rows->count, &places.sum, rows->count, &places.count));
  for (PetscInt row = 0; row < n; row++) {
    for (PetscInt p = rows->outeri[row]; p < rows->outeri[row + 1]; p++) Find(plan, &places, rows->outerj[p], 1, row);
  }
  for (PetscInt d = 1; d < plan->ghosts->depth; d++) {
    for (PetscInt g = 0; g < rows->count; g++) {
      if (plan->distance[g] != d) continue;
      for (PetscInt p = rows->i[g]; p < rows->i[g + 1]; p++) {
        if (rows->j[p] >= n) Find(plan, &places, rows->j[p] - n, d + 1, places.sum[g] / places.count[g]);
      }
    }
  }
  for (PetscInt g = 0; g < rows->count; g++) {
    if (!plan->distance[g]) continue;
    plan->chunk[g] = IDRSStreamChunkOf(plan->pattern, (PetscInt)(places.sum[g] / places.count[g]));
    plan->ghosts->count++;
  }
  PetscCall(PetscFree2(places.sum, places.count));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* By chunks, in a chunk by distances, and else as they were given. Those that are too far away are left out */
static PetscErrorCode Order(Plan *plan)
{
  IDRSStreamGhosts ghosts = plan->ghosts;
  const PetscInt   depth = ghosts->depth, keys = plan->pattern->nchunks * depth;
  PetscInt        *next;

  PetscFunctionBegin;
  PetscCall(PetscCalloc1(keys + 1, &ghosts->first));
  PetscCall(PetscMalloc2(ghosts->count, &ghosts->given, ghosts->count, &ghosts->distance));
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
    ghosts->given[number]    = g;
    ghosts->distance[number] = plan->distance[g];
  }
  PetscCall(PetscFree(next));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Memory for so many bytes; 0 bytes take no place */
static size_t Place(IDRSStreamGhosts ghosts, size_t bytes)
{
  const size_t place = ghosts->bytes;

  ghosts->bytes += IDRSStreamAlign(bytes);
  return place;
}

static void PlaceOutside(IDRSStreamGhosts ghosts, PetscInt rows, size_t entries, IDRSStreamOutside *outside)
{
  outside->rows    = entries ? rows : 0;
  outside->entries = entries;
  outside->place   = Place(ghosts, IDRSStreamOutsideBytes(outside));
}

/* Sizes and places of all that belongs to a chunk */
static void MeasureChunk(Plan *plan, PetscInt c)
{
  const IDRSStreamGhostRows *rows   = plan->rows;
  const IDRSStreamChunk     *chunk  = &plan->pattern->chunks[c];
  IDRSStreamGhosts           ghosts = plan->ghosts;
  IDRSStreamGhostChunk      *mine   = &ghosts->chunks[c];
  const PetscInt             first = ghosts->first[c * ghosts->depth], end = ghosts->first[c * ghosts->depth + ghosts->depth - 1];
  size_t                     outer = 0;

  PlaceOutside(ghosts, chunk->rows, (size_t)(rows->outeri[chunk->row + chunk->rows] - rows->outeri[chunk->row]), &mine->own);
  mine->inner = (IDRSStreamChunk){.row = plan->pattern->n + first, .rows = end - first, .width = 4};
  for (PetscInt number = first; number < end; number++) {
    const PetscInt g = ghosts->given[number];

    mine->inner.entries += (size_t)(rows->split[g] - rows->i[g]);
    outer += (size_t)(rows->i[g + 1] - rows->split[g]);
  }
  mine->inner.packedbytes = (size_t)(mine->inner.rows + 1) * sizeof(uint32_t) + mine->inner.entries * sizeof(uint32_t);
  mine->inner.packed      = Place(ghosts, mine->inner.rows ? IDRSStreamChunkBytes(&mine->inner) : 0);
  PlaceOutside(ghosts, mine->inner.rows, outer, &mine->outer);
}

/* The most entries of a chunk that are counted together: chunks have few in the diagonal block, but any number outside */
static size_t MostEntries(IDRSStreamPattern pattern)
{
  size_t most = 0;

  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    const IDRSStreamGhostChunk *mine = &pattern->ghosts->chunks[c];

    most = PetscMax(most, PetscMax(mine->own.entries, PetscMax(mine->inner.entries, mine->outer.entries)));
  }
  return most;
}

/* Offsets, columns and values as they are filled in, row after row */
typedef struct {
  uint32_t    *offset, *column, end;
  PetscScalar *value;
} Filler;

static Filler FillerBegin(uint32_t *offsets, PetscInt rows, PetscScalar *values)
{
  const Filler filler = {.offset = offsets, .column = offsets + rows + 1, .value = values};

  *offsets = 0;
  return filler;
}

/* A row: these entries, whose columns begin with those of the own rows, or with the ghosts */
static void FillRow(Filler *filler, const Plan *plan, PetscInt begin, PetscInt end, const PetscInt j[], const PetscScalar a[],
                    PetscInt ghostcolumn)
{
  const PetscInt n = plan->pattern->n;

  for (PetscInt p = begin; p < end; p++) {
    *filler->column++ = (uint32_t)(j[p] < ghostcolumn ? j[p] : n + plan->number[j[p] - ghostcolumn]);
    *filler->value++  = a[p];
  }
  filler->end += (uint32_t)(end - begin);
  *++filler->offset = filler->end;
}

static Filler OutsideBegin(IDRSStreamGhosts ghosts, const IDRSStreamOutside *outside)
{
  return FillerBegin((uint32_t *)(ghosts->memory + outside->place), outside->rows,
                     (PetscScalar *)(ghosts->memory + outside->place + IDRSStreamOutsideHead(outside)));
}

static void FillChunk(Plan *plan, PetscInt c)
{
  const IDRSStreamGhostRows  *rows   = plan->rows;
  const IDRSStreamChunk      *chunk  = &plan->pattern->chunks[c];
  IDRSStreamGhosts            ghosts = plan->ghosts;
  const IDRSStreamGhostChunk *mine   = &ghosts->chunks[c];
  const PetscInt              n = plan->pattern->n, first = mine->inner.row - n;

  if (mine->own.rows) {
    Filler filler = OutsideBegin(ghosts, &mine->own);

    for (PetscInt row = chunk->row; row < chunk->row + chunk->rows; row++)
      FillRow(&filler, plan, rows->outeri[row], rows->outeri[row + 1], rows->outerj, rows->outera, 0);
  }
  if (mine->inner.rows) {
    Filler filler = FillerBegin((uint32_t *)(ghosts->memory + mine->inner.packed), mine->inner.rows,
                                (PetscScalar *)(ghosts->memory + mine->inner.packed + IDRSStreamValuesPlace(&mine->inner)));

    for (PetscInt r = 0; r < mine->inner.rows; r++) {
      const PetscInt g = ghosts->given[first + r];

      FillRow(&filler, plan, rows->i[g], rows->split[g], rows->j, rows->a, n);
    }
  }
  if (mine->outer.rows) {
    Filler filler = OutsideBegin(ghosts, &mine->outer);

    for (PetscInt r = 0; r < mine->inner.rows; r++) {
      const PetscInt g = ghosts->given[first + r];

      FillRow(&filler, plan, rows->split[g], rows->i[g + 1], rows->j, rows->a, n);
    }
  }
}

/* A chunk with its ghosts has columns in this chunk, too */
static void Widen(Plan *plan, PetscInt c, PetscInt other)
{
  plan->pattern->chunks[c].least = PetscMin(plan->pattern->chunks[c].least, other);
  plan->pattern->chunks[c].most  = PetscMax(plan->pattern->chunks[c].most, other);
}

/* The chunks that each chunk has columns in, by its own rows and by those of its ghosts */
static void FindFrontiers(Plan *plan)
{
  const IDRSStreamGhostRows *rows    = plan->rows;
  IDRSStreamPattern          pattern = plan->pattern;
  IDRSStreamChunk           *chunks  = pattern->chunks;

  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    for (PetscInt p = rows->outeri[chunks[c].row]; p < rows->outeri[chunks[c].row + chunks[c].rows]; p++)
      Widen(plan, c, plan->chunk[rows->outerj[p]]);
  }
  for (PetscInt g = 0; g < rows->count; g++) {
    if (!plan->distance[g] || plan->distance[g] == plan->ghosts->depth) continue;
    for (PetscInt p = rows->i[g]; p < rows->i[g + 1]; p++)
      Widen(plan, plan->chunk[g],
            rows->j[p] < pattern->n ? IDRSStreamChunkOf(pattern, rows->j[p]) : plan->chunk[rows->j[p] - pattern->n]);
  }
  for (PetscInt c = 1; c < pattern->nchunks; c++) chunks[c].most = PetscMax(chunks[c].most, chunks[c - 1].most);
  for (PetscInt c = pattern->nchunks - 2; c >= 0; c--) chunks[c].least = PetscMin(chunks[c].least, chunks[c + 1].least);
}

/*
   IDRSStreamGhostsCreate - Gives a pattern its ghosts

   Input Parameters:
+  pattern - the own rows
.  depth   - the largest distance of a ghost from the own rows, 1 or more
-  rows    - rows of the ghosts, and entries in columns of ghosts
*/
PetscErrorCode IDRSStreamGhostsCreate(IDRSStreamPattern pattern, PetscInt depth, const IDRSStreamGhostRows *rows)
{
  Plan             plan = {.pattern = pattern, .rows = rows};
  IDRSStreamGhosts ghosts;
  size_t           most;

  PetscFunctionBegin;
  PetscCall(IDRSStreamGhostsDestroy(pattern));
  PetscCheck((PetscInt64)pattern->n + rows->count <= INT32_MAX, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
             "A process streams at most %d rows with those of others, and this one has %" PetscInt_FMT " and %" PetscInt_FMT
             ": take more processes",
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
  PetscCall(FindNear(&plan));
  PetscCall(Order(&plan));
  for (PetscInt c = 0; c < pattern->nchunks; c++) MeasureChunk(&plan, c);
  most = MostEntries(pattern);
  if (most > INT32_MAX) PetscCall(IDRSStreamGhostsDestroy(pattern));
  /* kernels count in uint32_t, beyond the last one */
  PetscCheck(most <= INT32_MAX, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
             "A chunk has at most %d entries outside of the diagonal block, or in rows of other processes, and this matrix has %g: "
             "take a smaller -mat_stream_chunk, or more processes",
             INT32_MAX, (double)most);
  PetscCall(PetscMalloc1(ghosts->bytes, &ghosts->memory));
  for (PetscInt c = 0; c < pattern->nchunks; c++) FillChunk(&plan, c);
  FindFrontiers(&plan);
  PetscCall(PetscFree3(plan.distance, plan.chunk, plan.number));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSStreamGhostsDestroy - The pattern is that of its own rows again */
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
  PetscCall(PetscFree2(ghosts->given, ghosts->distance));
  PetscCall(PetscFree(ghosts->memory));
  PetscCall(PetscFree(pattern->ghosts));
  PetscFunctionReturn(PETSC_SUCCESS);
}
