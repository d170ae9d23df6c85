/*
   Memory of the device, and the passes: the steps of the schedule in their order, where only copies and computations wait for each
   other. The host waits for the copies at the end of a pass, so that the values of the matrix may change afterwards
*/
#include <petscidrs/private/idrsstream.h>
#include <petscidrs/private/idrscompat.h>

/*
   IDRSStreamCreate - Creates a stream, which owns the pattern and the device, but not the values, which may change between passes.
   limit: bytes of the device's memory
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

/* Pins the memory of the host that copies are made from: values and packed columns */
static PetscErrorCode IDRSStreamPin(IDRSStream stream)
{
  const IDRSStreamPattern pattern = stream->pattern;

  PetscFunctionBegin;
  if (stream->pinned) PetscFunctionReturn(PETSC_SUCCESS);
  stream->pinned = PETSC_TRUE; /* also if an error leaves some of it pinned */
  PetscCall((*stream->ops->pin)(stream->device, stream->values, pattern->entries * sizeof(PetscScalar)));
  PetscCall((*stream->ops->pin)(stream->device, pattern->packed, pattern->packedbytes));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSStreamUnpin - Permits to free or move the memory of the host; the next pass pins it again */
PetscErrorCode IDRSStreamUnpin(IDRSStream stream)
{
  PetscFunctionBegin;
  if (!stream->pinned) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall((*stream->ops->finish)(stream->device));
  PetscCall((*stream->ops->unpin)(stream->device, stream->values));
  PetscCall((*stream->ops->unpin)(stream->device, stream->pattern->packed));
  stream->pinned = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSStreamSetValues - Sets another array of values, or notes that values of the same array have changed */
PetscErrorCode IDRSStreamSetValues(IDRSStream stream, const PetscScalar values[])
{
  PetscFunctionBegin;
  if (values != stream->values) PetscCall(IDRSStreamUnpin(stream));
  stream->values = values;
  /* the next pass sends resident chunks again */
  PetscCall(PetscArrayzero(stream->present, stream->pattern->nchunks));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Frees the memory of the device, once nothing works on it, and schedules for it */
static PetscErrorCode IDRSStreamFreeMemory(IDRSStream stream)
{
  char *memory = stream->memory;

  PetscFunctionBegin;
  stream->memory = NULL;
  stream->wanted = 0;
  for (PetscInt l = 0; l <= IDRS_STREAM_LEVELS; l++) PetscCall(IDRSStreamScheduleDestroy(&stream->schedules[l]));
  PetscCall(PetscArrayzero(stream->present, stream->pattern->nchunks));
  if (memory) PetscCall((*stream->ops->free)(stream->device, memory));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSStreamSetLimit - Sets the bytes of the device's memory for later passes */
PetscErrorCode IDRSStreamSetLimit(IDRSStream stream, size_t limit)
{
  PetscFunctionBegin;
  if (limit == stream->limit) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStreamFreeMemory(stream));
  stream->limit = limit;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* After an error, frees the memory of the device, and unpins all memory of the host, whatever else fails */
static void IDRSStreamRecover(IDRSStream stream)
{
  /* computations of the pass may still read slots that are not released, and this waits for them */
  (void)IDRSStreamFreeMemory(stream);
  if (!IDRSStreamUnpin(stream)) return;
  (void)(*stream->ops->unpin)(stream->device, stream->values);
  (void)(*stream->ops->unpin)(stream->device, stream->pattern->packed);
  stream->pinned = PETSC_FALSE;
}

PetscErrorCode IDRSStreamDestroy(IDRSStream *stream)
{
  PetscFunctionBegin;
  if (!*stream) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStreamUnpin(*stream));
  PetscCall(IDRSStreamFreeMemory(*stream));
  PetscCall((*(*stream)->ops->destroy)((*stream)->device));
  PetscCall(PetscFree2((*stream)->places, (*stream)->present));
  PetscCall(IDRSStreamPatternDestroy(&(*stream)->pattern));
  PetscCall(PetscFree(*stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSStreamReserve - Reserves memory for passes with the levels wanted, or with as many as fit, and returns the most of a pass */
PetscErrorCode IDRSStreamReserve(IDRSStream stream, PetscInt wanted, PetscInt *levels)
{
  IDRSStreamPattern pattern = stream->pattern;
  IDRSStreamLayout  layout;
  size_t            place, bytes;

  PetscFunctionBegin;
  *levels = stream->layout.levels;
  /* memory for more levels is kept with its resident chunks, unless another layout saves passes */
  if (wanted <= stream->wanted && wanted <= *levels) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStreamFit(pattern, stream->limit, wanted, &layout));
  if (wanted <= stream->wanted && (wanted + *levels - 1) / *levels <= (wanted + layout.levels - 1) / layout.levels)
    PetscFunctionReturn(PETSC_SUCCESS);
  bytes = IDRSStreamLayoutBytes(&layout);
  PetscCheck(layout.levels, PETSC_COMM_SELF, PETSC_ERR_MEM,
             "-mat_stream_memory %g: this matrix needs at least %g bytes of GPU memory, for %" PetscInt_FMT
             " chunks of at most %g bytes; reduce -mat_stream_chunk or increase -mat_stream_memory",
             (double)stream->limit, (double)bytes, layout.slots, (double)pattern->slotbytes);
  /* slots, rings, resident chunks */
  PetscCall(IDRSStreamFreeMemory(stream));
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

/* Returns the place of a chunk on the device */
static char *IDRSStreamChunkMemory(IDRSStream stream, const IDRSStreamStep *step)
{
  return stream->memory + (step->slot < 0 ? stream->places[step->chunk] : (size_t)step->slot * stream->pattern->slotbytes);
}

/* Sends a chunk to its slot, or a resident chunk to its place if it is not there yet, as slot number slots */
static PetscErrorCode IDRSStreamSendChunk(IDRSStream stream, const IDRSStreamStep *step)
{
  const IDRSStreamChunk *chunk = &stream->pattern->chunks[step->chunk];
  const PetscInt         slot  = step->slot < 0 ? stream->layout.slots : step->slot;
  char                  *to    = IDRSStreamChunkMemory(stream, step);

  PetscFunctionBegin;
  if (step->slot < 0 && stream->present[step->chunk]) PetscFunctionReturn(PETSC_SUCCESS);
  /* after the computations that release the slot; computations of the chunk wait for these copies */
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

/* Returns level j of a pass, which begins with levels -1 and 0; live is a row of the level that is in memory */
static IDRSStreamLevel IDRSStreamGetLevel(IDRSStream stream, const IDRSStreamSequence *sequence, const IDRSStreamSchedule schedule,
                                          PetscInt j, PetscInt live)
{
  IDRSStreamLevel level = {.begin = 0, .rows = PETSC_MAX_INT};

  if (j <= 0) level.array = (PetscScalar *)(j ? sequence->before : sequence->x); /* which are only read */
  else level.array = sequence->v[j - 1];
  /* intermediate levels are in rings, unless the caller wants them */
  if (j > 0 && j < schedule->levels && !level.array) {
    level.array = (PetscScalar *)(stream->memory + stream->layout.slotbytes +
                                  (size_t)(j - 1) * IDRSStreamAlign((size_t)schedule->rows * sizeof(PetscScalar)));
    level.rows  = schedule->rows;
    level.begin = live / schedule->rows * schedule->rows;
  }
  return level;
}

/* Sets the coefficients of step j of the sequence. The task has no y if it would add nothing to y */
static void IDRSStreamSetCoefficients(const IDRSStreamSequence *sequence, PetscInt j, IDRSStreamTask *task)
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

/* Computes a level of a chunk */
static PetscErrorCode IDRSStreamCompute(IDRSStream stream, const IDRSStreamSequence *sequence, const IDRSStreamSchedule schedule,
                                        const IDRSStreamStep *step)
{
  const PetscInt         j     = sequence->begin + step->level; /* in the sequence */
  const IDRSStreamChunk *chunk = &stream->pattern->chunks[step->chunk];
  IDRSStreamTask         task  = {.chunk = chunk, .memory = IDRSStreamChunkMemory(stream, step)};

  PetscFunctionBegin;
  /* next = gamma (inverse A last - theta last) - mu before, or the product with y or with the last level */
  task.product = (PetscBool)(sequence->product && step->level == sequence->levels);
  task.next    = IDRSStreamGetLevel(stream, sequence, schedule, step->level, chunk->row);
  if (task.product && sequence->y) task.last = (IDRSStreamLevel){.array = sequence->y, .rows = PETSC_MAX_INT};
  else task.last = IDRSStreamGetLevel(stream, sequence, schedule, step->level - 1, step->live);
  if (!task.product) {
    IDRSStreamSetCoefficients(sequence, j, &task);
    if (j > 1 && task.mu != 0.0) task.before = IDRSStreamGetLevel(stream, sequence, schedule, step->level - 2, chunk->row);
  }
  PetscCall((*stream->ops->compute)(stream->device, &task));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Runs all steps of a pass */
static PetscErrorCode IDRSStreamRunSteps(IDRSStream stream, const IDRSStreamSequence *sequence)
{
  IDRSStreamSchedule schedule;

  PetscFunctionBegin;
  PetscCall(IDRSStreamPin(stream));
  if (!stream->schedules[sequence->levels])
    PetscCall(
      IDRSStreamScheduleCreate(stream->pattern, sequence->levels, stream->layout.residents, &stream->schedules[sequence->levels]));
  schedule = stream->schedules[sequence->levels];
  /* the queues of the device wait for each other, and not the host */
  for (PetscInt s = 0; s < schedule->nsteps; s++) {
    const IDRSStreamStep *step = &schedule->steps[s];

    if (!step->level) PetscCall(IDRSStreamSendChunk(stream, step));
    else PetscCall(IDRSStreamCompute(stream, sequence, schedule, step));
    if (step->last && step->slot >= 0) PetscCall((*stream->ops->release)(stream->device, step->slot));
  }
  PetscCall((*stream->ops->release)(stream->device, stream->layout.slots));
  PetscCall((*stream->ops->finish)(stream->device));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscLogEvent IDRSStreamPassEvent;

/* IDRSStreamRegisterEvents - Registers passes as an event for -log_view */
PetscErrorCode IDRSStreamRegisterEvents(void)
{
  PetscFunctionBegin;
  PetscCall(PetscLogEventRegister("MatStreamPass", MAT_CLASSID, &IDRSStreamPassEvent));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSStreamPass - Computes levels of a sequence, at most as many as IDRSStreamReserve() has returned, in one pass */
PetscErrorCode IDRSStreamPass(IDRSStream stream, const IDRSStreamSequence *sequence)
{
  PetscErrorCode ierr;
  PetscLogDouble begin, end;

  PetscFunctionBegin;
  PetscAssert(sequence->levels <= stream->layout.levels, PETSC_COMM_SELF, PETSC_ERR_PLIB,
              "A pass of %" PetscInt_FMT " levels exceeds the %" PetscInt_FMT " levels that fit in memory", sequence->levels,
              stream->layout.levels);
  PetscCall(PetscLogEventBegin(IDRSStreamPassEvent, 0, 0, 0, 0));
  PetscCall(PetscTime(&begin));
  ierr = IDRSStreamRunSteps(stream, sequence);
  if (ierr) IDRSStreamRecover(stream);
  PetscCall(ierr);
  PetscCall(PetscTime(&end));
  stream->counts.passes++;
  stream->counts.seconds += end - begin;
  PetscCall(PetscLogEventEnd(IDRSStreamPassEvent, 0, 0, 0, 0));
  PetscFunctionReturn(PETSC_SUCCESS);
}
