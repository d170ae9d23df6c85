static char help[] = "The host ahead of a device that does the algebra itself: a registered back end made of the back end vec,\n\
whose numbers the host cannot see, and which does nothing after a stop. Solves agree with those in\n\
lockstep, for every end of a solve, with superfluous stops, and after errors.\n\n";

#include <petsc/private/vecimpl.h>
#include <petscidrs/private/idrsops.h>
#include "columns.h"

#define RESULTS 8

/* Device memory for one right-hand side */
typedef struct {
  IDRSWorkspace work;
  PetscScalar  *storage;
  PetscBool     stopped;
  PetscReal     rnorm;
  PetscScalar   rr; /* r^H r of this process after the last update or advance */
  PetscInt      projections;
  struct {
    PetscReal rnorm;
    PetscBool stopped;
  } results[RESULTS]; /* copied to the host by the pass after a projection */
} Device;

static Device             devices[IDRS_MAX_WIDTH];
static PetscInt           stopevery; /* number of projections between superfluous stops; 0 for none */
static PetscInt           stops;
static const IDRSPassOps *host;   /* the back end that the device uses */
static IDRSPassOps        passes; /* the device */

static Device *GetDevice(IDRSWorkspace work)
{
  PetscInt i = 0;

  while (i < IDRS_MAX_WIDTH - 1 && devices[i].work != work) i++;
  return &devices[i];
}

/* On a device works begin with zeros, which a superfluous matvec may read */
static PetscErrorCode Create(IDRSWorkspace work, Vec like)
{
  Device *device = GetDevice(NULL);

  PetscFunctionBeginUser;
  PetscCall((*host->create)(work, like));
  *device = (Device){.work = work, .projections = device - devices};
  PetscCall(PetscCalloc1(IDRS_STORAGE(work->s), &device->storage));
  for (PetscInt j = 0; j < work->s; j++) PetscCall(VecSet(work->U[j], 0.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Destroy(IDRSWorkspace work)
{
  Device *device = GetDevice(work);

  PetscFunctionBeginUser;
  PetscCall(PetscFree(device->storage));
  device->work = NULL;
  PetscCall((*host->destroy)(work));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Runs a pass of the host with the scalars of the device, unless the device has stopped */
static PetscErrorCode Run(const IDRSGroup *group, PetscErrorCode (*pass)(const IDRSGroup *, const IDRSStep *), const IDRSStep *step)
{
  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < group->count; i++) {
    IDRSWorkspace work   = group->work[i];
    const Device *device = GetDevice(work);

    if (work->ondevice && device->stopped) continue;
    if (work->ondevice) IDRSScalarsSetPointers(&work->scalars, work->s, device->storage);
    PetscCall((*pass)(IDRSGroupOfOne(work), step));
    IDRSScalarsSetPointers(&work->scalars, work->s, work->storage);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes r^H r after an update or advance */
static PetscErrorCode ComputeSquares(const IDRSGroup *group)
{
  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < group->count; i++) {
    Device *device = GetDevice(group->work[i]);
    Vec     r      = group->work[i]->r;

    if (!(group->work[i]->ondevice && device->stopped)) PetscUseTypeMethod(r, dot_local, r, &device->rr);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static void CopyResults(const IDRSGroup *group)
{
  for (PetscInt i = 0; i < group->count; i++) {
    Device *device = GetDevice(group->work[i]);

    if (!group->work[i]->ondevice) continue;
    device->results[device->projections % RESULTS].rnorm   = device->rnorm;
    device->results[device->projections % RESULTS].stopped = device->stopped;
  }
}

static PetscErrorCode Combine(const IDRSGroup *group, const IDRSStep *step)
{
  PetscFunctionBeginUser;
  PetscCall(Run(group, host->combine, step));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Update(const IDRSGroup *group, const IDRSStep *step)
{
  PetscFunctionBeginUser;
  CopyResults(group);
  PetscCall(Run(group, host->update, step));
  PetscCall(ComputeSquares(group));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Advance(const IDRSGroup *group, const IDRSStep *step)
{
  PetscFunctionBeginUser;
  CopyResults(group);
  PetscCall(Run(group, host->advance, step));
  PetscCall(ComputeSquares(group));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode QueueConnect(const IDRSGroup *group, PetscBool automatic, PetscBool *halo, const char *why[])
{
  PetscFunctionBeginUser;
  *halo = PETSC_FALSE;
  *why  = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* From now on the scalars of the host are invalid */
static PetscErrorCode QueueBegin(const IDRSGroup *group)
{
  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < group->count; i++) {
    IDRSWorkspace work   = group->work[i];
    Device       *device = GetDevice(work);

    PetscCall(PetscArraycpy(device->storage, work->storage, IDRS_STORAGE(work->s)));
    for (PetscInt j = 0; j < IDRS_STORAGE(work->s); j++) work->storage[j] = NAN;
    device->stopped = PETSC_FALSE;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Does the algebra of the library with sums over all processes, unless the norm is outside its bounds or a stop is due */
static PetscBool Continue(Device *device, IDRSScalars *scalars, const IDRSStep *step, const IDRSBounds *bounds)
{
  device->rnorm = PetscSqrtReal(PetscRealPart(scalars->sums[IDRSStepNormSum(scalars, step)]));
  if (stopevery && device->projections % stopevery == 0) return PETSC_FALSE;
  return (PetscBool)(IDRSScalarsDecide(scalars, step->k, step->start, IDRSStepHasY(step, scalars->s), step->unreported,
                                       device->rnorm, bounds) == IDRS_CONTINUES);
}

static PetscErrorCode QueueLaunch(const IDRSGroup *group, const IDRSStep steps[], const IDRSBounds bounds[])
{
  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < group->count; i++) {
    IDRSWorkspace work   = group->work[i];
    Device       *device = GetDevice(work);

    device->projections++;
    if (device->stopped) continue;
    IDRSScalarsSetPointers(&work->scalars, work->s, device->storage);
    PetscCall((*host->project)(IDRSGroupOfOne(work), &steps[i]));
    work->scalars.sums[IDRS_SUM_RR(work->s)] = device->rr;
    IDRSCallAllreduce(MPI_IN_PLACE, work->scalars.sums, (PetscMPIInt)IDRS_SUMS(work->s, IDRSStepHasY(&steps[i], work->s)),
                      MPIU_SCALAR, MPIU_SUM, work->comm);
    device->stopped = (PetscBool)!Continue(device, &work->scalars, &steps[i], &bounds[i]);
    if (device->stopped) stops++;
    IDRSScalarsSetPointers(&work->scalars, work->s, work->storage);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode QueueCollect(IDRSWorkspace work, const IDRSStep *step, PetscReal *rnorm, PetscBool *stopped)
{
  const Device  *device = GetDevice(work);
  const PetscInt place  = (device->projections - (work->inflight - 1)) % RESULTS;

  PetscFunctionBeginUser;
  *rnorm   = device->results[place].rnorm;
  *stopped = device->results[place].stopped;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode QueueEnd(const IDRSGroup *group)
{
  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < group->count; i++)
    PetscCall(PetscArraycpy(group->work[i]->storage, GetDevice(group->work[i])->storage, IDRS_STORAGE(group->work[i]->s)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static const IDRSQueueOps queue = {
  .name    = "emulated",
  .depth   = 2,
  .connect = QueueConnect,
  .begin   = QueueBegin,
  .launch  = QueueLaunch,
  .collect = QueueCollect,
  .end     = QueueEnd,
};

/* There is only one stream */
static PetscErrorCode Join(void)
{
  PetscFunctionBeginUser;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static const IDRSDeviceOps deviceops = {.join = Join};

/* Sets whether works that are created from now on are on the device */
static PetscErrorCode Emulate(PetscBool emulated)
{
  PetscFunctionBeginUser;
  if (!host) {
    passes.name = KSPIDRSImplementations[KSP_IDRS_VEC];
    PetscCall(IDRSWorkspaceRegisterPasses(&passes, &host));
    passes         = *host;
    passes.device  = &deviceops;
    passes.create  = Create;
    passes.destroy = Destroy;
    passes.combine = Combine;
    passes.update  = Update;
    passes.advance = Advance;
    for (PetscInt i = 0; i < IDRS_QUEUES; i++) passes.queue[i] = &queue;
  }
  PetscCall(IDRSWorkspaceRegisterPasses(emulated ? &passes : host, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

typedef enum {
  NORM_DEFAULT,
  NORM_SKIP,
  NORM_OFF,
  NORM_CHECK_LATE
} Norm;

typedef struct {
  PetscInt s, max_it, update, rtol, pc, norm;
} Setting;

typedef struct {
  Outcome   outcome;
  PetscInt  stops, updates;
  PetscReal norm; /* of b - A x */
} Result;

static const PetscReal updates[] = {0.0, 1e-3, 0.3}, rtols[] = {1e-4, 1e-9};
static Result          lockstep, ahead;

/* A monitor keeps the host in lockstep */
static PetscErrorCode EmulatedSolverCreate(const Setting *set, PetscBool monitored, Mat shell, Mat A, KSP *ksp)
{
  PetscFunctionBeginUser;
  PetscCall(SolverCreateSide(A, set->s, set->pc == 2 ? PC_LEFT : PC_RIGHT, set->pc ? PCJACOBI : PCNONE, ksp));
  PetscCall(KSPSetOperators(*ksp, shell, A));
  PetscCall(KSPIDRSSetImplementation_Private(*ksp, KSP_IDRS_VEC));
  PetscCall(
    KSPIDRSSetCommunication_Private(*ksp, KSP_IDRS_COMMUNICATION_NCCL)); /* the queue of the device, on any number of processes */
  PetscCall(KSPIDRSSetUpdateTolerance(*ksp, updates[set->update]));
  PetscCall(KSPSetTolerances(*ksp, rtols[set->rtol], 0.0, PETSC_DEFAULT, set->max_it));
  if (set->norm == NORM_SKIP) PetscCall(KSPSetConvergenceTest(*ksp, KSPConvergedSkip, NULL, NULL));
  if (set->norm == NORM_OFF) PetscCall(KSPSetNormType(*ksp, KSP_NORM_NONE));
  if (set->norm == NORM_CHECK_LATE) PetscCall(KSPSetCheckNormIteration(*ksp, 40));
  if (monitored) PetscCall(KSPMonitorSet(*ksp, QuietMonitor, NULL, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Solve(const Setting *set, PetscBool monitored, PetscInt every, PetscInt failat, Failing *op, Mat shell, Vec b,
                            Result *out)
{
  KSP ksp;
  Vec x;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(b, &x));
  PetscCall(EmulatedSolverCreate(set, monitored, shell, op->A, &ksp));
  stopevery = every;
  stops     = 0;
  if (failat) {
    op->failat = op->made + failat;
    CheckRefused(KSPSolve(ksp, b, x), "This product", "fails");
    PetscCall(Unlock(b));
    PetscCall(KSPReset(ksp));
    PetscCall(KSPSetOperators(ksp, shell, op->A));
    stops = 0;
  }
  PetscCall(VecSet(x, 0.0));
  PetscCall(SolveHistory(ksp, b, x, &out->outcome));
  PetscCall(SolverNorm(ksp, b, x, &out->norm));
  PetscCall(KSPIDRSGetCounts(ksp, NULL, NULL, &out->updates, NULL));
  out->stops = stops;
  PetscCall(DestroyAll(&x, &ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Compares iterations and reason, up to rounding, and checks that the solution has the norm that was reported last */
static PetscErrorCode Compare(const char what[], const Setting *set)
{
  const PetscReal *norms = ahead.outcome.norms, *expected = lockstep.outcome.norms, last = norms[ahead.outcome.length - 1];
  const PetscInt   length    = PetscMin(20, PetscMin(ahead.outcome.length, lockstep.outcome.length));
  const PetscReal  reference = set->norm == NORM_OFF ? lockstep.norm : last;
  char             text[256];

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(text, sizeof(text), "%s, s %d, max_it %d, update %g, rtol %g, pc %d, norm %d", what, (int)set->s,
                          (int)set->max_it, (double)updates[set->update], (double)rtols[set->rtol], (int)set->pc, (int)set->norm));
  PetscCall(ComplainIf(ahead.outcome.reason != lockstep.outcome.reason || PetscAbsInt(ahead.outcome.its - lockstep.outcome.its) >
                                                                            (ahead.outcome.its < 40 ? 0 : lockstep.outcome.its / 5),
                       "%s: %s after %d, in lockstep %s after %d", text, KSPConvergedReasons[ahead.outcome.reason],
                       (int)ahead.outcome.its, KSPConvergedReasons[lockstep.outcome.reason], (int)lockstep.outcome.its));
  PetscCall(ComplainIf(ahead.outcome.length != ahead.outcome.its + 1 || lockstep.outcome.length != lockstep.outcome.its + 1,
                       "%s: %d norms for %d iterations", text, (int)ahead.outcome.length, (int)ahead.outcome.its));
  for (PetscInt i = 0; i < length; i++) {
    if (!(PetscAbsReal(norms[i] - expected[i]) <= 1e-6 * expected[i])) {
      PetscCall(Complain("%s: norm %d is %g, in lockstep %g", text, (int)i, (double)norms[i], (double)expected[i]));
      break;
    }
  }
  PetscCall(ComplainIf(!(PetscAbsReal(ahead.norm - reference) <= 1e-6 * reference + (set->norm == NORM_OFF ? 0 : 1e-13) * norms[0]),
                       "%s: the norm of b - A x is %g, reported, or in lockstep, %g", text, (double)ahead.norm, (double)reference));
  /* the device also stops for a reliable update; if this is in an omega step, its product is repeated */
  PetscCall(ComplainIf(ahead.outcome.its == lockstep.outcome.its &&
                         ahead.outcome.products > lockstep.outcome.products + 3 * ahead.stops + ahead.updates,
                       "%s: %d products and %d stops, in lockstep %d", text, (int)ahead.outcome.products, (int)ahead.stops,
                       (int)lockstep.outcome.products));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a system on the host, because the device uses the back end vec; works are on the device from now on */
static PetscErrorCode EmulatedSystemCreate(Mat *A, Vec *b)
{
  PetscFunctionBeginUser;
  PetscCall(PetscOptionsClearValue(NULL, "-mat_type"));
  PetscCall(PetscOptionsClearValue(NULL, "-vec_type"));
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, 20, 1.4, 1.0, A));
  PetscCall(MatCreateVecs(*A, NULL, b));
  PetscCall(VecSetGeneral(*b, 1.0));
  PetscCall(Emulate(PETSC_TRUE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestAhead(void)
{
  const PetscInt lengths[] = {1, 2, 4, 8, 20}, limits[] = {1, 2, 5, 9, 14, 500};
  Failing        op = {NULL, 0, 0};
  Mat            shell;
  Vec            b;

  PetscFunctionBeginUser;
  PetscCall(EmulatedSystemCreate(&op.A, &b));
  PetscCall(ShellCreate(op.A, FailingMult, &op, &shell));
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(lengths); is++) {
    for (size_t il = 0; il < PETSC_STATIC_ARRAY_LENGTH(limits); il++) {
      for (PetscInt i = 0; i < 3 * 2 * 3 * 4; i++) {
        const Setting set = {
          .s = lengths[is], .max_it = limits[il], .update = i % 3, .rtol = i / 3 % 2, .pc = i / 6 % 3, .norm = i / 18};

        if (set.norm != NORM_DEFAULT && set.norm != NORM_CHECK_LATE && set.max_it > 100) continue;
        PetscCall(Solve(&set, PETSC_TRUE, 0, 0, &op, shell, b, &lockstep));
        PetscCall(Solve(&set, PETSC_FALSE, 0, 0, &op, shell, b, &ahead));
        PetscCall(Compare("ahead", &set));
        PetscCall(Solve(&set, PETSC_FALSE, 3, 0, &op, shell, b, &ahead));
        PetscCall(Compare("with stops", &set));
        if (set.max_it > 100 && set.norm == NORM_DEFAULT) {
          PetscCall(Solve(&set, PETSC_FALSE, 0, 3 + (PetscInt)is * 4, &op, shell, b, &ahead));
          PetscCall(Compare("after an error", &set));
        }
      }
    }
  }
  PetscCall(DestroyAll(&shell, &op.A, &b));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static const PetscInt    shadow[]  = {1, 2, 4, 8};
static const char *const pctypes[] = {PCNONE, PCJACOBI, PCBJACOBI};

#define COLUMNS 7

static PetscErrorCode ColumnsSolverCreate(Mat A, PetscInt i, PetscBool emulated, KSP *ksp)
{
  PetscFunctionBeginUser;
  PetscCall(Emulate(emulated));
  PetscCall(SolverCreate(A, shadow[i % 4], pctypes[i / 4 % 3], ksp));
  PetscCall(KSPIDRSSetImplementation_Private(*ksp, KSP_IDRS_VEC));
  PetscCall(KSPIDRSSetWidth_Private(*ksp, i % 2 ? 3 : 16));
  if (emulated) PetscCall(KSPIDRSSetCommunication_Private(*ksp, KSP_IDRS_COMMUNICATION_NCCL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Compares many right-hand sides with lockstep: every column is solved, with the same iterations up to rounding. So is every column
   that begins with the bases of the previous right-hand side in its slot
*/
static PetscErrorCode TestColumns(void)
{
  const PetscInt every[] = {0, 5, 3};
  Mat            A, B, X;
  Vec            b;

  PetscFunctionBeginUser;
  PetscCall(EmulatedSystemCreate(&A, &b));
  PetscCall(BlocksCreate(A, COLUMNS, BLOCK_RANDOM, &B, &X));
  for (PetscInt i = 0; i < 4 * 3 * BLOCKS; i++) {
    const PetscInt *its;
    PetscInt        expected[COLUMNS];
    KSP             ksp;

    PetscCall(BlockSet(A, (BlockKind)(i / 12), B));
    PetscCall(ColumnsSolverCreate(A, i, PETSC_FALSE, &ksp));
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscCall(KSPIDRSGetColumnResults(ksp, NULL, NULL, &its, NULL));
    PetscCall(PetscArraycpy(expected, its, COLUMNS));
    PetscCall(KSPDestroy(&ksp));
    PetscCall(ColumnsSolverCreate(A, i, PETSC_TRUE, &ksp));
    stops = 0;
    for (PetscInt j = 0; j < 9; j++) {
      char what[128];

      stopevery = every[j % 3];
      if (j == 3) PetscCall(KSPIDRSSetRecycle(ksp, i % 5 ? KSP_IDRS_RECYCLE_ALWAYS : KSP_IDRS_RECYCLE_AUTO));
      if (j == 7) PetscCall(PetscObjectStateIncrease((PetscObject)A)); /* as if A had changed */
      PetscCall(PetscSNPrintf(what, sizeof(what), "s = %" INT ", %s, %s, case %" INT ", solve %" INT, shadow[i % 4],
                              pctypes[i / 4 % 3], BlockKinds[i / 12], i, j));
      PetscCall(SolveAllColumns(what, ksp, A, B, X, PETSC_TRUE));
      PetscCall(KSPIDRSGetColumnResults(ksp, NULL, NULL, &its, NULL));
      for (PetscInt l = 0; j < 3 && l < COLUMNS; l++)
        PetscCall(ComplainIf(PetscAbsInt(its[l] - expected[l]) > 1 + expected[l] / 5,
                             "%s, column %" INT ": %" INT " iterations, in lockstep %" INT, what, l, its[l], expected[l]));
    }
    PetscCall(ComplainIf(!stops, "no device has stopped"));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&B, &X, &A, &b));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves that begin with the bases of the previous solve, which has ended in any step, with steps in flight or not */
static PetscErrorCode TestRecycle(void)
{
  const PetscReal usual = rtol;
  Mat             A;
  Vec             b, x;

  PetscFunctionBeginUser;
  PetscCall(EmulatedSystemCreate(&A, &b));
  PetscCall(VecDuplicate(b, &x));
  for (PetscInt i = 0; i < 4 * 3 * 3 * 2; i++) {
    const KSPIDRSRecycle recycle  = i / 36 ? KSP_IDRS_RECYCLE_AUTO : KSP_IDRS_RECYCLE_ALWAYS;
    PetscInt             total[2] = {0, 0};

    for (int way = 0; way < 2; way++) {
      char     what[128];
      PetscInt its;
      KSP      ksp;

      PetscCall(PetscSNPrintf(what, sizeof(what), "recycling %s, case %" INT ", %s", KSPIDRSRecycles[recycle], i,
                              way ? "ahead" : "in lockstep"));
      PetscCall(ColumnsSolverCreate(A, i, PETSC_TRUE, &ksp));
      PetscCall(KSPIDRSSetRecycle(ksp, recycle));
      if (!way) PetscCall(KSPMonitorSet(ksp, QuietMonitor, NULL, NULL));
      stopevery = way && i / 12 % 3 ? 3 + 2 * (i / 12 % 3) : 0;
      for (PetscInt j = 0; j < 24; j++) {
        PetscCall(VecSetGeneral(b, 1.0 + 0.03 * (j % 12)));
        rtol = usual * PetscPowReal(1.6, (PetscReal)(j % 12));
        PetscCall(KSPSetTolerances(ksp, rtol, 0.0, PETSC_DEFAULT, 1000));
        if (j >= 12 && i / 12 % 3 == 1) PetscCall(PetscObjectStateIncrease((PetscObject)A)); /* as if A had changed */
        PetscCall(SolveSystem(what, ksp, A, b, x));
        PetscCall(KSPGetIterationNumber(ksp, &its));
        total[way] += its;
      }
      PetscCall(KSPDestroy(&ksp));
    }
    PetscCall(ComplainIf(PetscAbsInt(total[1] - total[0]) > total[0] / 5,
                         "recycling %s, case %" INT ": %" INT " iterations, in lockstep %" INT, KSPIDRSRecycles[recycle], i,
                         total[1], total[0]));
  }
  rtol = usual;
  PetscCall(DestroyAll(&x, &A, &b));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestAhead, "ahead"}, {TestColumns, "many right-hand sides ahead"}, {TestRecycle, "recycling ahead"})

/*TEST

  # the tolerances presume double precision
  test:
    suffix: 1
    requires: double
    nsize: {{1 2}}

TEST*/
