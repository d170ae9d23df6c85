static char help[] = "The host ahead of a device that does the algebra itself: a registered back end made of the back end vec,\n\
whose numbers the host cannot see, and which does nothing after a stop. Solves agree with those in\n\
lockstep, for every end of a solve, with superfluous stops, and after errors.\n\n";

#include <petsc/private/vecimpl.h>
#include <petscidrs/private/idrsops.h>
#include "columns.h"

#define RESULTS 8

/* Device memory for one right-hand side */
typedef struct {
  IDRSWork     work;
  PetscScalar *storage;
  PetscBool    stopped;
  PetscReal    rnorm;
  PetscScalar  rr; /* r^H r of this process after the last update or advance */
  PetscInt     projections;
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

static Device *GetDevice(IDRSWork work)
{
  PetscInt i = 0;

  while (i < IDRS_MAX_WIDTH - 1 && devices[i].work != work) i++;
  return &devices[i];
}

/* On a device works begin with zeros, which a superfluous matvec may read */
static PetscErrorCode Create(IDRSWork work, Vec like)
{
  Device *device = GetDevice(NULL);

  PetscFunctionBeginUser;
  PetscCall((*host->create)(work, like));
  *device = (Device){.work = work, .projections = device - devices};
  PetscCall(PetscCalloc1(IDRS_STORAGE(work->s), &device->storage));
  for (PetscInt j = 0; j < work->s; j++) PetscCall(VecSet(work->U[j], 0.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Destroy(IDRSWork work)
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
    IDRSWork      work   = group->work[i];
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
    IDRSWork work   = group->work[i];
    Device  *device = GetDevice(work);

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
    IDRSWork work   = group->work[i];
    Device  *device = GetDevice(work);

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

static PetscErrorCode QueueCollect(IDRSWork work, const IDRSStep *step, PetscReal *rnorm, PetscBool *stopped)
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
    PetscCall(IDRSWorkRegisterPasses(&passes, &host));
    passes         = *host;
    passes.device  = &deviceops;
    passes.create  = Create;
    passes.destroy = Destroy;
    passes.combine = Combine;
    passes.update  = Update;
    passes.advance = Advance;
    for (PetscInt i = 0; i < IDRS_QUEUES; i++) passes.queue[i] = &queue;
  }
  PetscCall(IDRSWorkRegisterPasses(emulated ? &passes : host, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* An operator that fails once, after so many products */
typedef struct {
  Mat      A;
  PetscInt failat, made;
} Operator;

static PetscErrorCode Product(Mat shell, Vec x, Vec y)
{
  Operator *op;

  PetscFunctionBeginUser;
  PetscCall(MatShellGetContext(shell, &op));
  PetscCheck(++op->made != op->failat, PetscObjectComm((PetscObject)shell), PETSC_ERR_USER, "This product fails");
  PetscCall(MatMult(op->A, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode QuietMonitor(KSP ksp, PetscInt its, PetscReal norm, void *ctx)
{
  return PETSC_SUCCESS;
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
  KSPConvergedReason reason;
  PetscInt           its, products, stops;
  PetscReal          norm;
  History            history;
} Outcome;

static const PetscReal updates[] = {0.0, 1e-3, 0.3}, rtols[] = {1e-4, 1e-9};
static Outcome         lockstep, ahead;

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

static PetscErrorCode Solve(const Setting *set, PetscBool monitored, PetscInt every, PetscInt failat, Operator *op, Mat shell,
                            Vec b, Outcome *out)
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
  PetscCall(SolveHistory(ksp, b, x, &out->history));
  PetscCall(KSPGetConvergedReason(ksp, &out->reason));
  PetscCall(KSPGetIterationNumber(ksp, &out->its));
  PetscCall(KSPIDRSGetCounts(ksp, &out->products, NULL, NULL, NULL));
  PetscCall(SolverNorm(ksp, b, x, &out->norm));
  out->stops = stops;
  PetscCall(DestroyAll(&x, &ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Compares iterations and reason, up to rounding, and checks that the solution has the norm that was reported last */
static PetscErrorCode Compare(const char what[], const Setting *set)
{
  const PetscReal *norms = ahead.history.norms, *expected = lockstep.history.norms, last = norms[ahead.history.length - 1];
  const PetscInt   length    = PetscMin(20, PetscMin(ahead.history.length, lockstep.history.length));
  const PetscReal  reference = set->norm == NORM_OFF ? lockstep.norm : last;
  char             text[256];

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(text, sizeof(text), "%s, s %d, max_it %d, update %g, rtol %g, pc %d, norm %d", what, (int)set->s,
                          (int)set->max_it, (double)updates[set->update], (double)rtols[set->rtol], (int)set->pc, (int)set->norm));
  PetscCall(
    ComplainIf(ahead.reason != lockstep.reason || PetscAbsInt(ahead.its - lockstep.its) > (ahead.its < 40 ? 0 : lockstep.its / 5),
               "%s: %s after %d, in lockstep %s after %d", text, KSPConvergedReasons[ahead.reason], (int)ahead.its,
               KSPConvergedReasons[lockstep.reason], (int)lockstep.its));
  PetscCall(ComplainIf(ahead.history.length != ahead.its + 1 || lockstep.history.length != lockstep.its + 1,
                       "%s: %d norms for %d iterations", text, (int)ahead.history.length, (int)ahead.its));
  for (PetscInt i = 0; i < length; i++) {
    if (!(PetscAbsReal(norms[i] - expected[i]) <= 1e-6 * expected[i])) {
      PetscCall(Complain("%s: norm %d is %g, in lockstep %g", text, (int)i, (double)norms[i], (double)expected[i]));
      break;
    }
  }
  PetscCall(ComplainIf(!(PetscAbsReal(ahead.norm - reference) <= 1e-6 * reference + (set->norm == NORM_OFF ? 0 : 1e-13) * norms[0]),
                       "%s: the norm of b - A x is %g, reported, or in lockstep, %g", text, (double)ahead.norm, (double)reference));
  PetscCall(ComplainIf(ahead.its == lockstep.its && ahead.products > lockstep.products + 3 * ahead.stops,
                       "%s: %d products and %d stops, in lockstep %d", text, (int)ahead.products, (int)ahead.stops,
                       (int)lockstep.products));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestAhead(Operator *op, Mat shell, Vec b)
{
  const PetscInt lengths[] = {1, 2, 4, 8, 20}, limits[] = {1, 2, 5, 9, 14, 500};

  PetscFunctionBeginUser;
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(lengths); is++) {
    for (size_t il = 0; il < PETSC_STATIC_ARRAY_LENGTH(limits); il++) {
      for (PetscInt i = 0; i < 3 * 2 * 3 * 4; i++) {
        const Setting set = {
          .s = lengths[is], .max_it = limits[il], .update = i % 3, .rtol = i / 3 % 2, .pc = i / 6 % 3, .norm = i / 18};

        if (set.norm != NORM_DEFAULT && set.norm != NORM_CHECK_LATE && set.max_it > 100) continue;
        PetscCall(Solve(&set, PETSC_TRUE, 0, 0, op, shell, b, &lockstep));
        PetscCall(Solve(&set, PETSC_FALSE, 0, 0, op, shell, b, &ahead));
        PetscCall(Compare("ahead", &set));
        PetscCall(Solve(&set, PETSC_FALSE, 3, 0, op, shell, b, &ahead));
        PetscCall(Compare("with stops", &set));
        if (set.max_it > 100 && set.norm == NORM_DEFAULT) {
          PetscCall(Solve(&set, PETSC_FALSE, 0, 3 + (PetscInt)is * 4, op, shell, b, &ahead));
          PetscCall(Compare("after an error", &set));
        }
      }
    }
  }
  PetscCall(Verdict("ahead"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

#define COLUMNS 7

static PetscErrorCode ColumnsSolverCreate(Mat A, PetscInt s, const char pctype[], PetscInt i, KSP *ksp)
{
  PetscFunctionBeginUser;
  PetscCall(SolverCreate(A, s, pctype, ksp));
  PetscCall(KSPIDRSSetImplementation_Private(*ksp, KSP_IDRS_VEC));
  PetscCall(KSPIDRSSetWidth_Private(*ksp, i % 2 ? 3 : 16));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Compares many right-hand sides with lockstep: every column is solved, with the same iterations up to rounding */
static PetscErrorCode CompareColumns(Mat A, Mat B, PetscInt s, const char pctype[], PetscInt i)
{
  const PetscInt  every[] = {0, 5, 3};
  const PetscInt *its;
  PetscInt        expected[COLUMNS];
  KSP             ksp;
  Mat             X;

  PetscFunctionBeginUser;
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
  PetscCall(Emulate(PETSC_FALSE));
  PetscCall(ColumnsSolverCreate(A, s, pctype, i, &ksp));
  PetscCall(KSPMatSolve(ksp, B, X));
  PetscCall(KSPIDRSGetColumnResults(ksp, NULL, NULL, &its, NULL));
  PetscCall(PetscArraycpy(expected, its, COLUMNS));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(Emulate(PETSC_TRUE));
  PetscCall(ColumnsSolverCreate(A, s, pctype, i, &ksp));
  PetscCall(KSPIDRSSetCommunication_Private(ksp, KSP_IDRS_COMMUNICATION_NCCL));
  stops = 0;
  for (size_t stop = 0; stop < PETSC_STATIC_ARRAY_LENGTH(every); stop++) {
    char what[128];

    stopevery = every[stop];
    PetscCall(KSPMatSolve(ksp, B, X));
    PetscCall(PetscSNPrintf(what, sizeof(what), "s = %d, %s, %s, case %d, stops %d", (int)s, pctype, BlockKinds[i / 2], (int)i,
                            (int)stopevery));
    PetscCall(CheckBlock(what, ksp, A, B, X, PETSC_TRUE));
    PetscCall(KSPIDRSGetColumnResults(ksp, NULL, NULL, &its, NULL));
    for (PetscInt j = 0; j < COLUMNS; j++)
      PetscCall(ComplainIf(PetscAbsInt(its[j] - expected[j]) > 1 + expected[j] / 5, "%s, column %d: %d iterations, in lockstep %d",
                           what, (int)j, (int)its[j], (int)expected[j]));
  }
  PetscCall(ComplainIf(!stops, "no device has stopped"));
  PetscCall(DestroyAll(&ksp, &X));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestColumns(Mat A)
{
  const PetscInt    shadow[]  = {1, 2, 4, 8};
  const char *const pctypes[] = {PCNONE, PCJACOBI, PCBJACOBI};
  Mat               B;

  PetscFunctionBeginUser;
  PetscCall(BlockCreate(A, COLUMNS, &B));
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(shadow); is++) {
    for (size_t ipc = 0; ipc < PETSC_STATIC_ARRAY_LENGTH(pctypes); ipc++) {
      for (PetscInt i = 0; i < 2 * BLOCKS; i++) {
        PetscCall(BlockSet(A, (BlockKind)(i / 2), B));
        PetscCall(CompareColumns(A, B, shadow[is], pctypes[ipc], i));
      }
    }
  }
  PetscCall(MatDestroy(&B));
  PetscCall(Verdict("many right-hand sides ahead"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves, and checks that the solver reports convergence and that x meets its tolerance */
static PetscErrorCode SolveToNormOf(const char what[], KSP ksp, Vec b, Vec x)
{
  KSPConvergedReason reason;
  PetscReal          tolerance, rnorm, bnorm;

  PetscFunctionBeginUser;
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(KSPGetTolerances(ksp, &tolerance, NULL, NULL, NULL));
  PetscCall(SolverNorm(ksp, b, x, &rnorm));
  PetscCall(VecNorm(b, NORM_2, &bnorm));
  PetscCall(ComplainIf(!(reason > 0) || !(rnorm <= 1.01 * tolerance * bnorm), "%s: %s, and the norm of b - A x is %g of %g", what,
                       KSPConvergedReasons[reason], (double)rnorm, (double)bnorm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves that begin with the panels of the previous solve, which has ended in any step, with steps in flight or not */
static PetscErrorCode TestRecycle(Mat A, Vec b)
{
  const PetscInt    shadow[]  = {1, 2, 4, 8};
  const char *const pctypes[] = {PCNONE, PCJACOBI, PCBJACOBI};

  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < 4 * 3 * 3 * 2; i++) {
    const KSPIDRSRecycle recycle  = i / 36 ? KSP_IDRS_RECYCLE_AUTO : KSP_IDRS_RECYCLE_ALWAYS;
    PetscInt             total[2] = {0, 0};

    for (int way = 0; way < 2; way++) {
      char     what[128];
      PetscInt its;
      KSP      ksp;
      Vec      x;

      PetscCall(PetscSNPrintf(what, sizeof(what), "recycling %s, case %d, %s", KSPIDRSRecycles[recycle], (int)i,
                              way ? "ahead" : "in lockstep"));
      PetscCall(VecDuplicate(b, &x));
      PetscCall(SolverCreate(A, shadow[i % 4], pctypes[i / 4 % 3], &ksp));
      PetscCall(KSPIDRSSetImplementation_Private(ksp, KSP_IDRS_VEC));
      PetscCall(KSPIDRSSetCommunication_Private(ksp, KSP_IDRS_COMMUNICATION_NCCL));
      PetscCall(KSPIDRSSetRecycle(ksp, recycle));
      if (!way) PetscCall(KSPMonitorSet(ksp, QuietMonitor, NULL, NULL));
      stopevery = way && i / 12 % 3 ? 3 + 2 * (i / 12 % 3) : 0;
      for (PetscInt j = 0; j < 24; j++) {
        PetscCall(VecSetGeneral(b, 1.0 + 0.03 * (j % 12)));
        PetscCall(KSPSetTolerances(ksp, rtol * PetscPowReal(1.6, (PetscReal)(j % 12)), 0.0, PETSC_DEFAULT, 1000));
        if (j >= 12 && i / 12 % 3 == 1) PetscCall(PetscObjectStateIncrease((PetscObject)A)); /* as if A had changed */
        PetscCall(SolveToNormOf(what, ksp, b, x));
        PetscCall(KSPGetIterationNumber(ksp, &its));
        total[way] += its;
      }
      PetscCall(DestroyAll(&ksp, &x));
    }
    PetscCall(ComplainIf(PetscAbsInt(total[1] - total[0]) > total[0] / 5, "recycling %s, case %d: %d iterations, in lockstep %d",
                         KSPIDRSRecycles[recycle], (int)i, (int)total[1], (int)total[0]));
  }
  PetscCall(Verdict("recycling ahead"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The same for several right-hand sides, which begin with the panels of the previous ones in their slots */
static PetscErrorCode TestRecycleColumns(Mat A)
{
  const PetscInt    shadow[] = {1, 2, 4, 8}, every[] = {0, 5, 3};
  const char *const pctypes[] = {PCNONE, PCJACOBI, PCBJACOBI};
  Mat               B, X;

  PetscFunctionBeginUser;
  PetscCall(BlockCreate(A, COLUMNS, &B));
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
  for (PetscInt i = 0; i < 4 * 3 * BLOCKS; i++) {
    char what[128];
    KSP  ksp;

    PetscCall(BlockSet(A, (BlockKind)(i / 12), B));
    PetscCall(SolverCreate(A, shadow[i % 4], pctypes[i / 4 % 3], &ksp));
    PetscCall(KSPIDRSSetImplementation_Private(ksp, KSP_IDRS_VEC));
    PetscCall(KSPIDRSSetCommunication_Private(ksp, KSP_IDRS_COMMUNICATION_NCCL));
    PetscCall(KSPIDRSSetWidth_Private(ksp, i % 2 ? 3 : 16));
    PetscCall(KSPIDRSSetRecycle(ksp, i % 5 ? KSP_IDRS_RECYCLE_ALWAYS : KSP_IDRS_RECYCLE_AUTO));
    for (PetscInt j = 0; j < 6; j++) {
      stopevery = every[j % 3];
      if (j == 4) PetscCall(PetscObjectStateIncrease((PetscObject)A)); /* as if A had changed */
      PetscCall(KSPMatSolve(ksp, B, X));
      PetscCall(PetscSNPrintf(what, sizeof(what), "recycling, %s, case %d, solve %d", BlockKinds[i / 12], (int)i, (int)j));
      PetscCall(CheckBlock(what, ksp, A, B, X, PETSC_TRUE));
    }
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&B, &X));
  PetscCall(Verdict("many right-hand sides that recycle ahead"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Convection and diffusion on 20 x 20 points, row after row */
static PetscScalar Flow(PetscInt i, PetscInt j, PetscInt n)
{
  const PetscInt m = 20;

  if (i == j) return 4.1 + 0.2 * (i % 3);
  if (j == i - m) return -1.5;
  if (j == i + m) return -0.5;
  if (j == i - 1 && i % m) return -1.7;
  return j == i + 1 && j % m ? -0.3 : 0.0;
}

int main(int argc, char **argv)
{
  Operator op = {0};
  PetscInt begin, end;
  Mat      shell;
  Vec      b;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  /* the device uses the back end host, so all data is on the host */
  PetscCall(PetscOptionsClearValue(NULL, "-mat_type"));
  PetscCall(PetscOptionsClearValue(NULL, "-vec_type"));
  PetscCall(MatCreateEntries(Flow, 400, PETSC_FALSE, &op.A));
  PetscCall(MatCreateVecs(op.A, NULL, &b));
  PetscCall(VecGetOwnershipRange(b, &begin, &end));
  for (PetscInt i = begin; i < end; i++) PetscCall(VecSetValue(b, i, 1.0 + 0.3 * (i % 7), INSERT_VALUES));
  PetscCall(VecAssemble(b));
  PetscCall(ShellCreate(op.A, Product, &op, &shell));
  PetscCall(Emulate(PETSC_TRUE));
  PetscCall(TestAhead(&op, shell, b));
  PetscCall(TestColumns(op.A));
  PetscCall(TestRecycle(op.A, b));
  PetscCall(TestRecycleColumns(op.A));
  PetscCall(DestroyAll(&shell, &op.A, &b));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  # the tolerances presume double precision
  test:
    suffix: 1
    requires: double
    nsize: {{1 2}}

TEST*/
