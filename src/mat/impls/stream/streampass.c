/*
   Memory of the device, and the passes: each step of the schedule in its order, where only copies and computations wait for each
   other. The host waits for the copies at the end of a pass, so that the values of the matrix may change then
*/
#include <petscidrs/private/idrsstream.h>
#include <petscidrs/private/idrscompat.h>

/*
   IDRSStreamCreate - A matrix that is streamed

   Input Parameters:
+  pattern - its rows; it belongs to the stream from now on
.  values  - its values, in the memory of the host; they may change between passes
.  limit   - bytes of the device's memory, or 0: half of what is free at the first pass
.  ops     - the device
-  device  - what the device keeps; it belongs to the stream from now on

   Output Parameter:
.  newstream - the stream
*/
PetscErrorCode IDRSStreamCreate(IDRSStreamPattern pattern, const PetscScalar values[], size_t limit, const IDRSStreamDeviceOps *ops,
                                void *device, IDRSStream *newstream)
{
  IDRSStream stream;

  PetscFunctionBegin;
  PetscCall(PetscNew(&stream));
  stream->pattern = pattern;
  stream->values  = values;
  stream->limit   = limit;
  stream->ops     = ops;
  stream->device  = device;
  PetscCall(PetscCalloc2(pattern->nchunks, &stream->places, pattern->nchunks, &stream->present));
  *newstream = stream;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies may be made from the memory of the host */
static PetscErrorCode Pin(IDRSStream stream)
{
  PetscFunctionBegin;
  if (stream->pinned) PetscFunctionReturn(PETSC_SUCCESS);
  stream->pinned = PETSC_TRUE; /* also where only one of them is, after an error */
  PetscCall((*stream->ops->pin)(stream->device, stream->values, stream->pattern->entries * sizeof(PetscScalar)));
  PetscCall((*stream->ops->pin)(stream->device, stream->pattern->packed, stream->pattern->packedbytes));
  if (stream->pattern->ghosts)
    PetscCall((*stream->ops->pin)(stream->device, stream->pattern->ghosts->memory, stream->pattern->ghosts->bytes));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSStreamUnpin - The memory of the host may be freed or moved; the next pass pins it again */
PetscErrorCode IDRSStreamUnpin(IDRSStream stream)
{
  PetscFunctionBegin;
  if (!stream->pinned) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall((*stream->ops->finish)(stream->device));
  PetscCall((*stream->ops->unpin)(stream->device, stream->values));
  PetscCall((*stream->ops->unpin)(stream->device, stream->pattern->packed));
  if (stream->pattern->ghosts) PetscCall((*stream->ops->unpin)(stream->device, stream->pattern->ghosts->memory));
  stream->pinned = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Resident chunks are sent again, and what ghosts have */
static PetscErrorCode Forget(IDRSStream stream)
{
  PetscFunctionBegin;
  stream->ghostspresent = PETSC_FALSE;
  PetscCall(PetscArrayzero(stream->present, stream->pattern->nchunks));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSStreamSetValues - Other values of the same matrix, or the same array with values that have changed */
PetscErrorCode IDRSStreamSetValues(IDRSStream stream, const PetscScalar values[])
{
  PetscFunctionBegin;
  if (values != stream->values) PetscCall(IDRSStreamUnpin(stream));
  stream->values = values;
  PetscCall(Forget(stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The memory of the device, once nothing works on it, and what is known of it */
static PetscErrorCode FreeMemory(IDRSStream stream)
{
  char *memory = stream->memory;

  PetscFunctionBegin;
  stream->memory = NULL;
  stream->wanted = 0;
  for (PetscInt l = 0; l <= IDRS_STREAM_LEVELS; l++) PetscCall(IDRSStreamScheduleDestroy(&stream->schedules[l]));
  PetscCall(Forget(stream));
  if (memory) PetscCall((*stream->ops->free)(stream->device, memory));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSStreamSetGhosts - Ghosts up to this distance, instead of others that there were; rows NULL: none */
PetscErrorCode IDRSStreamSetGhosts(IDRSStream stream, PetscInt depth, const IDRSStreamGhostRows *rows)
{
  PetscFunctionBegin;
  PetscCall(IDRSStreamUnpin(stream));
  PetscCall(FreeMemory(stream));
  PetscCall(IDRSStreamGhostsDestroy(stream->pattern));
  if (rows) PetscCall(IDRSStreamGhostsCreate(stream->pattern, depth, rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSStreamSetLimit - Passes from now on use so many bytes of the device's memory, or 0: half of what is free at the next one.
   Ghosts, which may be too many now, are gone
*/
PetscErrorCode IDRSStreamSetLimit(IDRSStream stream, size_t limit)
{
  PetscFunctionBegin;
  PetscCall(FreeMemory(stream));
  if (stream->pattern->ghosts) PetscCall(IDRSStreamSetGhosts(stream, 0, NULL));
  stream->limit = limit;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   After an error nothing is pinned, whatever else fails. Computations of the pass may still read its slots, which nobody has
   released: so the memory of the device goes, once they are done, and whoever makes the next pass reserves it again
*/
static void Abandon(IDRSStream stream)
{
  (void)FreeMemory(stream);
  if (IDRSStreamUnpin(stream)) {
    (void)(*stream->ops->unpin)(stream->device, stream->values);
    (void)(*stream->ops->unpin)(stream->device, stream->pattern->packed);
    if (stream->pattern->ghosts) (void)(*stream->ops->unpin)(stream->device, stream->pattern->ghosts->memory);
    stream->pinned = PETSC_FALSE;
  }
}

PetscErrorCode IDRSStreamDestroy(IDRSStream *stream)
{
  PetscFunctionBegin;
  if (!*stream) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStreamUnpin(*stream));
  PetscCall(FreeMemory(*stream));
  PetscCall((*(*stream)->ops->destroy)((*stream)->device));
  PetscCall(PetscFree2((*stream)->places, (*stream)->present));
  PetscCall(IDRSStreamPatternDestroy(&(*stream)->pattern));
  PetscCall(PetscFree(*stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode FindLimit(IDRSStream stream)
{
  PetscFunctionBegin;
  if (stream->limit) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall((*stream->ops->available)(stream->device, PETSC_COMM_SELF, &stream->limit));
  stream->limit = PetscMax(stream->limit / 2, 1);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSStreamGetLimit - The bytes of the device's memory that passes may use */
PetscErrorCode IDRSStreamGetLimit(IDRSStream stream, size_t *limit)
{
  PetscFunctionBegin;
  PetscCall(FindLimit(stream));
  *limit = stream->limit;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSStreamTake - Leaves so many bytes of its memory to somebody else, if it has enough for passes with one level then */
PetscErrorCode IDRSStreamTake(IDRSStream stream, size_t bytes, PetscBool *taken)
{
  IDRSStreamLayout layout;

  PetscFunctionBegin;
  *taken = PETSC_FALSE;
  PetscCall(FindLimit(stream));
  if (bytes >= stream->limit) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStreamFit(stream->pattern, stream->limit - bytes, 1, &layout));
  *taken = (PetscBool)(layout.levels > 0);
  if (*taken) PetscCall(IDRSStreamSetLimit(stream, stream->limit - bytes));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSStreamReserve - Memory for passes with so many levels, or with as many as fit. Where a pass before had more, it keeps that
   memory, unless other memory spares passes: the resident chunks stay those that they are

   Input Parameters:
+  stream - the stream
-  wanted - levels

   Output Parameter:
.  levels - the most that a pass can have
*/
PetscErrorCode IDRSStreamReserve(IDRSStream stream, PetscInt wanted, PetscInt *levels)
{
  IDRSStreamPattern pattern = stream->pattern;
  IDRSStreamLayout  layout;
  size_t            place, bytes;

  PetscFunctionBegin;
  *levels = stream->layout.levels;
  if (wanted <= stream->wanted && wanted <= *levels) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(FindLimit(stream));
  PetscCall(IDRSStreamFit(pattern, stream->limit, wanted, &layout));
  if (wanted <= stream->wanted && (wanted + *levels - 1) / *levels <= (wanted + layout.levels - 1) / layout.levels)
    PetscFunctionReturn(PETSC_SUCCESS);
  bytes = IDRSStreamLayoutBytes(&layout);
  PetscCheck(layout.levels, PETSC_COMM_SELF, PETSC_ERR_MEM,
             "-mat_stream_memory %g: the chunks of this matrix need %g bytes of the device at least, for %" PetscInt_FMT
             " of at most %g bytes; -mat_stream_chunk makes smaller ones of rows that are not longer",
             (double)stream->limit, (double)bytes, layout.slots, (double)pattern->slotbytes);
  PetscCall(FreeMemory(stream));
  PetscCall((*stream->ops->malloc)(stream->device, bytes, (void **)&stream->memory));
  place = layout.slotbytes + layout.ringbytes;
  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    stream->places[c] = place;
    if (IDRSStreamResident(pattern, layout.residents, c)) place += IDRSStreamChunkBytes(&pattern->chunks[c]);
  }
  stream->layout = layout;
  stream->wanted = wanted;
  *levels        = layout.levels;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Where a chunk is on the device */
static char *ChunkMemory(IDRSStream stream, const IDRSStreamStep *step)
{
  return stream->memory + (step->slot < 0 ? stream->places[step->chunk] : (size_t)step->slot * stream->pattern->slotbytes);
}

/* A chunk to its slot, or to its place for good if it is not there; resident chunks have a number behind the slots */
static PetscErrorCode Send(IDRSStream stream, const IDRSStreamStep *step)
{
  const IDRSStreamChunk *chunk = &stream->pattern->chunks[step->chunk];
  const PetscInt         slot  = step->slot < 0 ? stream->layout.slots : step->slot;
  char                  *to    = ChunkMemory(stream, step);

  PetscFunctionBegin;
  if (step->slot < 0 && stream->present[step->chunk]) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall((*stream->ops->reuse)(stream->device, slot));
  PetscCall((*stream->ops->copy)(stream->device, to, stream->pattern->packed + chunk->packed, chunk->packedbytes));
  PetscCall((*stream->ops->copy)(stream->device, to + IDRSStreamValuesPlace(chunk), stream->values + chunk->entry,
                                 chunk->entries * sizeof(PetscScalar)));
  PetscCall((*stream->ops->arrived)(stream->device, slot));
  if (step->slot < 0) stream->present[step->chunk] = PETSC_TRUE;
  stream->counts.sends++;
  stream->counts.bytes += (PetscLogDouble)(chunk->packedbytes + chunk->entries * sizeof(PetscScalar));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Where ghosts are on the device: what they have, and behind it their levels 1, 2, ... */
static char *GhostMemory(IDRSStream stream)
{
  return stream->memory + stream->layout.slotbytes + stream->layout.ringbytes + stream->layout.residentbytes;
}

/* Rows and entries of ghosts, before the first pass that needs them. They have the number of resident chunks */
static PetscErrorCode SendGhosts(IDRSStream stream)
{
  const IDRSStreamGhosts ghosts = stream->pattern->ghosts;

  PetscFunctionBegin;
  if (stream->ghostspresent || !ghosts->bytes) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall((*stream->ops->reuse)(stream->device, stream->layout.slots));
  PetscCall((*stream->ops->copy)(stream->device, GhostMemory(stream), ghosts->memory, ghosts->bytes));
  PetscCall((*stream->ops->arrived)(stream->device, stream->layout.slots));
  stream->ghostspresent = PETSC_TRUE;
  stream->counts.bytes += (PetscLogDouble)ghosts->bytes;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Whether the product with y is the last level: then y is read by columns */
static PetscBool ReadsSum(const IDRSStreamSequence *sequence)
{
  return (PetscBool)(sequence->product && sequence->y);
}

/* Where v_0 is in the order of the chunks, and y behind it */
static PetscScalar *Ordered(IDRSStream stream, PetscBool sum)
{
  return (PetscScalar *)(GhostMemory(stream) + stream->layout.ghostbytes +
                         (sum ? IDRSStreamAlign((size_t)stream->pattern->n * sizeof(PetscScalar)) : 0));
}

/* A vector to the order of the chunks, or back */
static PetscErrorCode MoveVector(IDRSStream stream, PetscScalar ordered[], PetscScalar vector[], PetscBool back)
{
  PetscFunctionBegin;
  for (PetscInt c = 0; c < stream->pattern->nchunks; c++) {
    const IDRSStreamChunk *chunk = &stream->pattern->chunks[c];
    PetscScalar           *here = ordered + chunk->row, *there = vector + chunk->origin;

    PetscCall(
      (*stream->ops->move)(stream->device, back ? there : here, back ? here : there, (size_t)chunk->rows * sizeof(PetscScalar)));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The rows of a chunk from the ring of a level to where the caller wants them */
static PetscErrorCode MoveRows(IDRSStream stream, const IDRSStreamChunk *chunk, IDRSStreamLevel level, PetscScalar vector[])
{
  const PetscInt place = (chunk->row - level.begin) % level.rows, rows = PetscMin(chunk->rows, level.rows - place);

  PetscFunctionBegin;
  PetscCall((*stream->ops->move)(stream->device, vector + chunk->origin, level.array + place, (size_t)rows * sizeof(PetscScalar)));
  if (rows < chunk->rows)
    PetscCall((*stream->ops->move)(stream->device, vector + chunk->origin + rows, level.array,
                                   (size_t)(chunk->rows - rows) * sizeof(PetscScalar)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Level j of a pass, -1 and 0 those that it begins with; live is its first row that is there, or one that is asked for. A level
   that is read by columns has no chunk; of one that is read or written by the rows of a chunk a vector is found from the chunk's
   origin. Where chunks are ordered, levels between are in rings, also those that the caller wants
*/
static IDRSStreamLevel Level(IDRSStream stream, const IDRSStreamSequence *sequence, const IDRSStreamSchedule schedule, PetscInt j,
                             PetscInt live, const IDRSStreamChunk *chunk)
{
  const IDRSStreamGhosts ghosts = sequence->ghosts ? stream->pattern->ghosts : NULL;
  IDRSStreamLevel        level  = {.begin = 0, .rows = PETSC_MAX_INT, .n = stream->pattern->n};

  if (j <= 0) level.array = (PetscScalar *)(j ? sequence->before : sequence->x); /* which are only read */
  else level.array = sequence->v[j - 1];
  if (chunk) level.begin = chunk->row - chunk->origin;
  else if (j == 0 && stream->pattern->ordered) level.array = Ordered(stream, PETSC_FALSE);
  if (j > 0 && j < schedule->levels && (!level.array || stream->pattern->ordered)) {
    level.array = (PetscScalar *)(stream->memory + stream->layout.slotbytes +
                                  (size_t)(j - 1) * IDRSStreamAlign((size_t)schedule->rows * sizeof(PetscScalar)));
    level.rows  = schedule->rows;
    level.begin = live / schedule->rows * schedule->rows;
  }
  if (ghosts && j <= 0) level.ghosts = (PetscScalar *)(j ? sequence->ghostbefore : sequence->ghostx);
  else if (ghosts && j < schedule->levels)
    level.ghosts = (PetscScalar *)(GhostMemory(stream) + ghosts->bytes +
                                   (size_t)(j - 1) * IDRSStreamAlign((size_t)ghosts->count * sizeof(PetscScalar)));
  return level;
}

/* The coefficients of step j of the sequence. A y to which it adds nothing is left alone */
static void SetCoefficients(const IDRSStreamSequence *sequence, PetscInt j, IDRSStreamTask *task)
{
  task->inverse = sequence->inverse;
  task->gamma   = sequence->gamma[j - 1];
  task->theta   = sequence->theta[j - 1];
  task->mu      = sequence->mu[j - 1];
  if (!sequence->y) return;
  task->begins = (PetscBool)(j == 1 && !sequence->adds);
  if (j == 1) task->first = sequence->c[0];
  task->c = sequence->c[j];
  if (task->begins || task->first != 0.0 || task->c != 0.0) task->y = sequence->y;
}

static IDRSStreamOutsideRows OutsideRows(IDRSStream stream, const IDRSStreamOutside *outside)
{
  const char           *memory = GhostMemory(stream) + outside->place;
  IDRSStreamOutsideRows rows   = {.offsets = NULL};

  if (!outside->rows) return rows;
  rows.offsets = (const uint32_t *)memory;
  rows.columns = rows.offsets + outside->rows + 1;
  rows.values  = (const PetscScalar *)(memory + IDRSStreamOutsideHead(outside));
  return rows;
}

/* The same level of the ghosts of the chunk, of those that levels behind it need */
static PetscErrorCode ComputeGhosts(IDRSStream stream, const IDRSStreamSequence *sequence, const IDRSStreamStep *step,
                                    IDRSStreamTask *task)
{
  const IDRSStreamGhostChunk *mine = &stream->pattern->ghosts->chunks[step->chunk];

  PetscFunctionBegin;
  task->rows = IDRSStreamGhostsWithin(stream->pattern->ghosts, step->chunk, sequence->levels - step->level);
  if (!task->rows) PetscFunctionReturn(PETSC_SUCCESS);
  task->ghosts  = PETSC_TRUE;
  task->chunk   = &mine->inner;
  task->memory  = GhostMemory(stream) + mine->inner.packed;
  task->outside = OutsideRows(stream, &mine->outer);
  if (task->inverse) task->inverse = sequence->ghostinverse;
  if (task->y) task->y = sequence->product ? sequence->ghosty : NULL; /* which only the product reads */
  PetscCall((*stream->ops->compute)(stream->device, task));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Compute(IDRSStream stream, const IDRSStreamSequence *sequence, const IDRSStreamSchedule schedule,
                              const IDRSStreamStep *step)
{
  const PetscInt         j     = sequence->begin + step->level; /* in the sequence */
  const IDRSStreamChunk *chunk = &stream->pattern->chunks[step->chunk];
  const PetscInt         shift = chunk->origin - chunk->row;
  const PetscBool        sum   = (PetscBool)(stream->pattern->ordered && ReadsSum(sequence));
  IDRSStreamTask         task  = {.chunk = chunk, .rows = chunk->rows, .memory = ChunkMemory(stream, step)};

  PetscFunctionBegin;
  task.product = (PetscBool)(sequence->product && step->level == sequence->levels);
  task.last    = Level(stream, sequence, schedule, step->level - 1, step->live, NULL);
  task.next    = Level(stream, sequence, schedule, step->level, chunk->row, chunk);
  if (task.product && sequence->y)
    task.last = (IDRSStreamLevel){.array  = sum ? Ordered(stream, PETSC_TRUE) : sequence->y,
                                  .rows   = PETSC_MAX_INT,
                                  .ghosts = sequence->ghosty,
                                  .n      = stream->pattern->n};
  if (!task.product) {
    SetCoefficients(sequence, j, &task);
    if (j > 1 && task.mu != 0.0) task.before = Level(stream, sequence, schedule, step->level - 2, chunk->row, chunk);
    if (task.inverse) task.inverse += shift;
    if (task.y) task.y = sum ? Ordered(stream, PETSC_TRUE) : task.y + shift;
  }
  if (sequence->ghosts) task.outside = OutsideRows(stream, &stream->pattern->ghosts->chunks[step->chunk].own);
  if (sequence->visit) PetscCall((*sequence->visit)(sequence->visitor, &task));
  else PetscCall((*stream->ops->compute)(stream->device, &task));
  if (stream->pattern->ordered && step->level < schedule->levels && sequence->v[step->level - 1])
    PetscCall(MoveRows(stream, chunk, task.next, sequence->v[step->level - 1]));
  if (sequence->ghosts) PetscCall(ComputeGhosts(stream, sequence, step, &task));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* All steps of a pass */
static PetscErrorCode Run(IDRSStream stream, const IDRSStreamSequence *sequence)
{
  const PetscBool    sum = (PetscBool)(stream->pattern->ordered && ReadsSum(sequence));
  IDRSStreamSchedule schedule;

  PetscFunctionBegin;
  PetscCall(Pin(stream));
  if (!stream->schedules[sequence->levels])
    PetscCall(
      IDRSStreamScheduleCreate(stream->pattern, sequence->levels, stream->layout.residents, &stream->schedules[sequence->levels]));
  schedule = stream->schedules[sequence->levels];
  if (sequence->ghosts) PetscCall(SendGhosts(stream));
  /* a product with y alone has no x */
  if (stream->pattern->ordered && sequence->x)
    PetscCall(MoveVector(stream, Ordered(stream, PETSC_FALSE), (PetscScalar *)sequence->x, PETSC_FALSE));
  if (sum && (sequence->begin || sequence->adds || sequence->levels == 1))
    PetscCall(MoveVector(stream, Ordered(stream, PETSC_TRUE), sequence->y, PETSC_FALSE));
  for (PetscInt s = 0; s < schedule->nsteps; s++) {
    const IDRSStreamStep *step = &schedule->steps[s];

    if (!step->level) PetscCall(Send(stream, step));
    else PetscCall(Compute(stream, sequence, schedule, step));
    if (step->last && step->slot >= 0) PetscCall((*stream->ops->release)(stream->device, step->slot));
  }
  if (sum && sequence->levels > 1) PetscCall(MoveVector(stream, Ordered(stream, PETSC_TRUE), sequence->y, PETSC_TRUE));
  PetscCall((*stream->ops->release)(stream->device, stream->layout.slots));
  PetscCall((*stream->ops->finish)(stream->device));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscLogEvent StreamPass;

/* IDRSStreamRegisterEvents - Passes, with the bytes that they send, in -log_view */
PetscErrorCode IDRSStreamRegisterEvents(void)
{
  PetscFunctionBegin;
  PetscCall(PetscLogEventRegister("MatStreamPass", MAT_CLASSID, &StreamPass));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSStreamPass - Some levels of a sequence, not more than IDRSStreamReserve() has given, in one pass */
PetscErrorCode IDRSStreamPass(IDRSStream stream, const IDRSStreamSequence *sequence)
{
  PetscErrorCode ierr;
  PetscLogDouble begin, end;

  PetscFunctionBegin;
  PetscAssert(sequence->levels <= stream->layout.levels, PETSC_COMM_SELF, PETSC_ERR_PLIB,
              "%" PetscInt_FMT " levels, and there is memory for %" PetscInt_FMT, sequence->levels, stream->layout.levels);
  PetscAssert(!sequence->ghosts || (stream->pattern->ghosts && sequence->levels <= stream->pattern->ghosts->depth), PETSC_COMM_SELF,
              PETSC_ERR_PLIB, "%" PetscInt_FMT " levels with ghosts, which are not within so many", sequence->levels);
  PetscCall(PetscLogEventBegin(StreamPass, 0, 0, 0, 0));
  PetscCall(PetscTime(&begin));
  ierr = Run(stream, sequence);
  if (ierr) Abandon(stream);
  PetscCall(ierr);
  PetscCall(PetscTime(&end));
  stream->counts.passes++;
  stream->counts.seconds += end - begin;
  PetscCall(PetscLogEventEnd(StreamPass, 0, 0, 0, 0));
  PetscFunctionReturn(PETSC_SUCCESS);
}
