/*
   The order of a pass, and how many levels and resident chunks the memory of the device has room for
*/
#include <petscidrs/private/idrsstream.h>
#include <petscidrs/private/idrscompat.h>

/* A schedule as it is made; done[j] chunks have level j, or have been sent for level 0 */
typedef struct {
  IDRSStreamPattern  pattern;
  IDRSStreamSchedule schedule;
  PetscInt           done[IDRS_STREAM_LEVELS + 2];
} IDRSStreamScheduler;

/*
   Returns the first chunk whose rows of level j are still read: by level j + 1 of the next chunk or of a later one, or by level
   j + 2 of the same chunk
*/
static PetscInt IDRSStreamFirstLive(const IDRSStreamScheduler *scheduler, PetscInt j)
{
  const PetscInt levels = scheduler->schedule->levels, nchunks = scheduler->pattern->nchunks;
  PetscInt       live = nchunks;

  if (j + 1 <= levels && scheduler->done[j + 1] < nchunks) live = scheduler->pattern->chunks[scheduler->done[j + 1]].least;
  if (j + 2 <= levels) live = PetscMin(live, scheduler->done[j + 2]);
  return live;
}

static PetscBool IDRSStreamIsComputable(const IDRSStreamScheduler *scheduler, PetscInt j)
{
  const PetscInt chunk = scheduler->done[j];

  if (chunk >= scheduler->done[j - 1]) return PETSC_FALSE;
  return (PetscBool)(j == 1 || scheduler->pattern->chunks[chunk].most < scheduler->done[j - 1]);
}

static void IDRSStreamAddStep(IDRSStreamScheduler *scheduler, PetscInt chunk, PetscInt level)
{
  IDRSStreamSchedule      schedule = scheduler->schedule;
  const IDRSStreamPattern pattern  = scheduler->pattern;
  const PetscInt          before   = chunk - IDRSStreamResidentsBefore(pattern, schedule->residents, chunk);
  IDRSStreamStep          step     = {.chunk = chunk, .level = level};

  /* chunks that are not resident use the slots in turn */
  if (IDRSStreamResident(pattern, schedule->residents, chunk)) step.slot = -1;
  else if (schedule->slots) step.slot = before % schedule->slots;
  if (level > 1) step.live = pattern->starts[IDRSStreamFirstLive(scheduler, level - 1)];
  step.last = (PetscBool)(level == schedule->levels);
  if (schedule->steps) schedule->steps[schedule->nsteps] = step;
  schedule->nsteps++;
}

/*
   Sends one chunk after another, each followed by all steps that it makes possible, the highest level first. So the fewest rows are
   live, also at the end, where all levels become possible one after another. If the schedule has no steps yet, finds the largest
   number of slots and rows at a time
*/
static void IDRSStreamMakeSteps(IDRSStreamScheduler *scheduler)
{
  IDRSStreamSchedule schedule = scheduler->schedule;
  IDRSStreamPattern  pattern  = scheduler->pattern;
  PetscInt          *done = scheduler->done, slots = 0;
  PetscInt           released = 0; /* chunks that were complete before the chunk before was sent */

  schedule->nsteps = 0;
  for (PetscInt j = 0; j <= schedule->levels; j++) done[j] = 0;
  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    const PetscInt complete = done[schedule->levels];

    /* a chunk is sent while the steps that the chunk before made possible are computed, whose slots are in use */
    if (!IDRSStreamResident(pattern, schedule->residents, c)) {
      const PetscInt residents = IDRSStreamResidentsBefore(pattern, schedule->residents, c + 1) -
                                 IDRSStreamResidentsBefore(pattern, schedule->residents, released);

      slots = PetscMax(slots, c + 1 - released - residents);
    }
    IDRSStreamAddStep(scheduler, c, 0);
    done[0] = c + 1;
    for (PetscInt j = 1; j >= 1;) {
      if (j <= schedule->levels && IDRSStreamIsComputable(scheduler, j)) {
        const PetscInt chunk = done[j];

        if (j < schedule->levels)
          schedule->rows = PetscMax(schedule->rows,
                                    pattern->starts[chunk + 1] - pattern->starts[IDRSStreamFirstLive(scheduler, j)]);
        IDRSStreamAddStep(scheduler, chunk, j);
        done[j++]++; /* only the next level may become possible */
      } else j--;
    }
    released = complete;
  }
  schedule->slots = slots;
}

/* IDRSStreamScheduleCreate - Creates the order of a pass with 1 to IDRS_STREAM_LEVELS levels and this many resident chunks */
PetscErrorCode IDRSStreamScheduleCreate(IDRSStreamPattern pattern, PetscInt levels, PetscInt residents,
                                        IDRSStreamSchedule *newschedule)
{
  IDRSStreamScheduler scheduler = {.pattern = pattern};

  PetscFunctionBegin;
  PetscAssert(levels >= 1 && levels <= IDRS_STREAM_LEVELS, PETSC_COMM_SELF, PETSC_ERR_PLIB,
              "A pass has 1 to %d levels, not %" PetscInt_FMT, IDRS_STREAM_LEVELS, levels);
  PetscCall(PetscNew(&scheduler.schedule));
  scheduler.schedule->levels    = levels;
  scheduler.schedule->residents = residents;
  IDRSStreamMakeSteps(&scheduler);
  PetscCall(PetscMalloc1(scheduler.schedule->nsteps, &scheduler.schedule->steps));
  IDRSStreamMakeSteps(&scheduler);
  *newschedule = scheduler.schedule;
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSStreamScheduleDestroy(IDRSStreamSchedule *schedule)
{
  PetscFunctionBegin;
  if (!*schedule) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscFree((*schedule)->steps));
  PetscCall(PetscFree(*schedule));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the layout with this number of levels and resident chunks */
static void IDRSStreamMeasure(IDRSStreamPattern pattern, PetscInt levels, PetscInt residents, IDRSStreamLayout *layout)
{
  struct _n_IDRSStreamSchedule schedule  = {.levels = levels, .residents = residents};
  IDRSStreamScheduler          scheduler = {.pattern = pattern, .schedule = &schedule};

  IDRSStreamMakeSteps(&scheduler);
  layout->levels        = levels;
  layout->residents     = residents;
  layout->slots         = schedule.slots;
  layout->rows          = schedule.rows;
  layout->slotbytes     = (size_t)schedule.slots * pattern->slotbytes;
  layout->ringbytes     = (size_t)(levels - 1) * IDRSStreamAlign((size_t)schedule.rows * sizeof(PetscScalar));
  layout->residentbytes = 0;
  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    if (IDRSStreamResident(pattern, residents, c)) layout->residentbytes += IDRSStreamChunkBytes(&pattern->chunks[c]);
  }
}

/*
   IDRSStreamFit - Finds the layout of the memory with the levels wanted, or with the most that fit, nearly as many in all passes,
   and then with the most resident chunks. If there is too little memory, returns the layout with the least memory, and no levels
*/
PetscErrorCode IDRSStreamFit(IDRSStreamPattern pattern, size_t memory, PetscInt levels, IDRSStreamLayout *layout)
{
  const PetscInt   nchunks = pattern->nchunks;
  PetscInt         most = PetscMax(PetscMin(levels, IDRS_STREAM_LEVELS), 1), low = 0, high = nchunks;
  IDRSStreamLayout trial;

  PetscFunctionBegin;
  /* all chunks resident if they fit, else none, with fewer and fewer levels */
  for (;; most--) {
    IDRSStreamMeasure(pattern, most, nchunks, layout);
    if (IDRSStreamLayoutBytes(layout) <= memory) PetscFunctionReturn(PETSC_SUCCESS);
    IDRSStreamMeasure(pattern, most, 0, &trial);
    if (IDRSStreamLayoutBytes(&trial) <= memory || most == 1) break;
  }
  if (IDRSStreamLayoutBytes(&trial) < IDRSStreamLayoutBytes(layout)) *layout = trial;
  if (IDRSStreamLayoutBytes(layout) > memory) {
    layout->levels = 0;
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  /* if several passes are needed, as many levels in all of them */
  if (most < levels) {
    const PetscInt passes = (levels + most - 1) / most;

    most = (levels + passes - 1) / passes;
    IDRSStreamMeasure(pattern, most, 0, layout);
  }
  /* low resident chunks fit, high do not */
  while (high - low > 1) {
    const PetscInt middle = (low + high) / 2;

    IDRSStreamMeasure(pattern, most, middle, &trial);
    if (IDRSStreamLayoutBytes(&trial) > memory) high = middle;
    else {
      low     = middle;
      *layout = trial;
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
