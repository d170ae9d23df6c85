/*
   The order of a pass, and how many levels and resident chunks the memory of the device has room for
*/
#include <petscidrs/private/idrsstream.h>
#include <petscidrs/private/idrscompat.h>

/* A pass as it is made; done[j] chunks have level j, which is all of them for level 0 */
typedef struct {
  IDRSStreamPattern  pattern;
  IDRSStreamSchedule schedule;
  PetscInt           done[IDRS_STREAM_LEVELS + 2];
  PetscInt           sent; /* chunks that are not resident, so far */
} Pass;

/* The first row of this chunk, or the number of rows behind the last one */
static PetscInt FirstRow(IDRSStreamPattern pattern, PetscInt chunk)
{
  return chunk < pattern->nchunks ? pattern->chunks[chunk].row : pattern->n;
}

/*
   The first chunk whose rows of level j are still read: by level j + 1 of the next chunk or of one behind it, or by level j + 2 of
   the same chunk
*/
static PetscInt FirstLive(const Pass *pass, PetscInt j)
{
  const PetscInt levels = pass->schedule->levels, nchunks = pass->pattern->nchunks;
  PetscInt       live = nchunks;

  if (j + 1 <= levels && pass->done[j + 1] < nchunks) live = pass->pattern->chunks[pass->done[j + 1]].least;
  if (j + 2 <= levels) live = PetscMin(live, pass->done[j + 2]);
  return live;
}

static PetscBool Computable(const Pass *pass, PetscInt j)
{
  const PetscInt chunk = pass->done[j];

  if (chunk >= pass->done[j - 1]) return PETSC_FALSE;
  return (PetscBool)(j == 1 || pass->pattern->chunks[chunk].most < pass->done[j - 1]);
}

static void AddStep(Pass *pass, PetscInt chunk, PetscInt level, PetscInt slot)
{
  IDRSStreamSchedule schedule = pass->schedule;
  IDRSStreamStep     step     = {.chunk = chunk, .level = level, .slot = slot};

  if (level > 1) step.live = FirstRow(pass->pattern, FirstLive(pass, level - 1));
  step.last = (PetscBool)(level == schedule->levels);
  if (schedule->steps) schedule->steps[schedule->nsteps] = step;
  schedule->nsteps++;
}

/* The slot of a chunk that is not resident: they take turns */
static PetscInt Slot(const Pass *pass, PetscInt chunk)
{
  const PetscInt before = chunk - (PetscInt)((int64_t)chunk * pass->schedule->residents / pass->pattern->nchunks);

  if (IDRSStreamResident(pass->pattern, pass->schedule->residents, chunk)) return -1;
  return pass->schedule->slots ? before % pass->schedule->slots : 0;
}

/*
   One after the other, with what each of them makes possible, the highest level first: then the fewest rows are live, at the end,
   too, where all levels become possible one after the other. The most slots and rows at a time are found where the schedule has no
   steps yet
*/
static void PassRun(Pass *pass)
{
  IDRSStreamSchedule schedule = pass->schedule;
  IDRSStreamPattern  pattern  = pass->pattern;
  /* chunks that are done with, before and after what the chunk before makes possible */
  PetscInt slots = 0, released[2] = {0, 0};

  schedule->nsteps = 0;
  for (PetscInt j = 0; j <= schedule->levels; j++) pass->done[j] = 0;
  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    if (!IDRSStreamResident(pattern, schedule->residents, c)) {
      const int64_t before = c + 1 - (int64_t)(c + 1) * schedule->residents / pattern->nchunks,
                    gone   = released[0] - (int64_t)released[0] * schedule->residents / pattern->nchunks;

      slots = PetscMax(slots, (PetscInt)(before - gone));
    }
    AddStep(pass, c, 0, Slot(pass, c));
    pass->done[0] = c + 1;
    for (PetscInt j = 1; j >= 1;) {
      if (j <= schedule->levels && Computable(pass, j)) {
        const PetscInt chunk = pass->done[j];

        if (j < schedule->levels)
          schedule->rows = PetscMax(schedule->rows, FirstRow(pattern, chunk + 1) - FirstRow(pattern, FirstLive(pass, j)));
        AddStep(pass, chunk, j, Slot(pass, chunk));
        pass->done[j++]++; /* which may make the next level possible, and no other */
      } else j--;
    }
    released[0] = released[1];
    released[1] = pass->done[schedule->levels];
  }
  schedule->slots = slots;
}

/*
   IDRSStreamScheduleCreate - The order of a pass

   Input Parameters:
+  pattern   - the matrix
.  levels    - how many, 1 to IDRS_STREAM_LEVELS
-  residents - number of chunks that stay on the device

   Output Parameter:
.  newschedule - the schedule
*/
PetscErrorCode IDRSStreamScheduleCreate(IDRSStreamPattern pattern, PetscInt levels, PetscInt residents,
                                        IDRSStreamSchedule *newschedule)
{
  Pass pass = {.pattern = pattern};

  PetscFunctionBegin;
  PetscAssert(levels >= 1 && levels <= IDRS_STREAM_LEVELS, PETSC_COMM_SELF, PETSC_ERR_PLIB, "%" PetscInt_FMT " levels", levels);
  PetscCall(PetscNew(&pass.schedule));
  pass.schedule->levels    = levels;
  pass.schedule->residents = residents;
  PassRun(&pass);
  PetscCall(PetscMalloc1(pass.schedule->nsteps, &pass.schedule->steps));
  PassRun(&pass);
  *newschedule = pass.schedule;
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

/* The layout with so many levels and resident chunks */
static void Measure(IDRSStreamPattern pattern, PetscInt levels, PetscInt residents, IDRSStreamLayout *layout)
{
  struct _n_IDRSStreamSchedule schedule = {.levels = levels, .residents = residents};
  Pass                         pass     = {.pattern = pattern, .schedule = &schedule};

  PassRun(&pass);
  layout->levels        = levels;
  layout->residents     = residents;
  layout->slots         = schedule.slots;
  layout->rows          = schedule.rows;
  layout->slotbytes     = (size_t)schedule.slots * pattern->slotbytes;
  layout->ringbytes     = (size_t)(levels - 1) * IDRSStreamAlign((size_t)schedule.rows * sizeof(PetscScalar));
  layout->residentbytes = 0;
  layout->orderbytes    = pattern->ordered ? 2 * IDRSStreamAlign((size_t)pattern->n * sizeof(PetscScalar)) : 0;
  layout->ghostbytes    = pattern->ghosts
                          ? pattern->ghosts->bytes +
                           (size_t)(levels - 1) * IDRSStreamAlign((size_t)pattern->ghosts->count * sizeof(PetscScalar))
                          : 0;
  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    if (IDRSStreamResident(pattern, residents, c)) layout->residentbytes += IDRSStreamChunkBytes(&pattern->chunks[c]);
  }
}

/*
   IDRSStreamFit - The most levels in so much memory, all passes with nearly as many; then the most resident chunks in what is left

   Input Parameters:
+  pattern - the matrix
.  memory  - bytes of the device
-  levels  - how many levels are wanted, in one pass if possible

   Output Parameter:
.  layout - how the memory is used. With no levels there is too little: then it is the layout with the least memory
*/
PetscErrorCode IDRSStreamFit(IDRSStreamPattern pattern, size_t memory, PetscInt levels, IDRSStreamLayout *layout)
{
  const PetscInt   nchunks = pattern->nchunks;
  PetscInt         most = PetscMax(PetscMin(levels, IDRS_STREAM_LEVELS), 1), low = 0, high = nchunks;
  IDRSStreamLayout trial;

  PetscFunctionBegin;
  for (;; most--) {
    Measure(pattern, most, nchunks, layout);
    if (IDRSStreamLayoutBytes(layout) <= memory) PetscFunctionReturn(PETSC_SUCCESS);
    Measure(pattern, most, 0, &trial);
    if (IDRSStreamLayoutBytes(&trial) <= memory || most == 1) break;
  }
  if (IDRSStreamLayoutBytes(&trial) < IDRSStreamLayoutBytes(layout)) *layout = trial;
  if (IDRSStreamLayoutBytes(layout) > memory) {
    layout->levels = 0;
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (most < levels) {
    const PetscInt passes = (levels + most - 1) / most;

    most = (levels + passes - 1) / passes;
    Measure(pattern, most, 0, layout);
  }
  while (high - low > 1) {
    const PetscInt middle = (low + high) / 2;

    Measure(pattern, most, middle, &trial);
    if (IDRSStreamLayoutBytes(&trial) > memory) high = middle;
    else {
      low     = middle;
      *layout = trial;
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
