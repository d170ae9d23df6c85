static char help[] = "The host ahead of a device that does the algebra itself: a device made of the host back end, whose numbers\n\
the host cannot see, and that\n\
does nothing once it has stopped. Solves agree with those in lockstep, at every way to end, with stops where none are needed, and after errors.\n\n";

#include "../src/ksp/impls/idrs/idrsimpl.h"
#include <petscidrs/private/idrsworkimpl.h>
#include "columns.h"

#define RESULTS   8
#define MAX_NORMS 2000

/* What a device has in its memory, for one right-hand side */
typedef struct {
  IDRSWork     work;
  PetscScalar *storage;
  PetscBool    stopped;
  PetscReal    rnorm;
  PetscInt     projections, stops;
  PetscInt     stopevery; /* a stop for no reason, now and then; 0 for none */
  struct {
    PetscReal rnorm;
    PetscBool stopped;
  } results[RESULTS]; /* copied to the host by the pass after a projection */
} Device;

/* The same for a block recurrence */
typedef struct {
  IDRSBlockScalars scalars;
  PetscScalar     *storage, *sums, *C;
  IDRSBlockNorms   norms, results[RESULTS];
  PetscInt         launches, stops, stopevery;
} BlockDevice;

static Device             devices[IDRS_MAX_WIDTH];
static BlockDevice        blocks;
static const IDRSPassOps *host; /* the back end that the device is made of */
static IDRSPassOps        passes;

static Device *GetDevice(IDRSWork work)
{
  for (PetscInt i = 0; i < IDRS_MAX_WIDTH; i++) {
    if (devices[i].work == work) return &devices[i];
  }
  return NULL;
}

/* Runs a pass of the host on the scalars of the device, unless that has stopped */
static PetscErrorCode Run(const IDRSGroup *group, PetscErrorCode (*pass)(const IDRSGroup *, const IDRSStep *), const IDRSStep *step)
{
  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < group->count; i++) {
    IDRSWork      work   = group->work[i];
    const Device *device = GetDevice(work);

    if (work->ondevice && device->stopped) continue;
    if (work->ondevice) IDRSScalarsSetPointers(&work->scalars, work->s, device->storage);
    PetscCall((*pass)(IDRSAlone(work), step));
    IDRSScalarsSetPointers(&work->scalars, work->s, work->storage);
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
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Advance(const IDRSGroup *group, const IDRSStep *step)
{
  PetscFunctionBeginUser;
  CopyResults(group);
  PetscCall(Run(group, host->advance, step));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode QueueRuns(const IDRSGroup *group, PetscBool automatic, const char *why[])
{
  PetscFunctionBeginUser;
  *why = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode QueueHalo(IDRSWork work, PetscBool *halo)
{
  PetscFunctionBeginUser;
  *halo = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The host's own scalars are no use to it from now on */
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

/* Whether the recurrence goes on, from sums over all processes */
static PetscBool Continue(Device *device, IDRSScalars *scalars, const IDRSStep *step, const IDRSBounds *bounds)
{
  const PetscInt  s = scalars->s;
  const PetscBool y = (PetscBool)(step->start || step->k == s);
  PetscReal       rr;

  device->rnorm = PetscSqrtReal(PetscRealPart(scalars->sums[step->unreported || !y ? IDRS_SUM_RR(s) : IDRS_SUM_YY(s)]));
  for (PetscInt j = 0; j < IDRS_SUMS(s, y); j++) {
    if (!(PetscAbsScalar(scalars->sums[j]) <= PETSC_MAX_REAL) && (j != IDRS_SUM_RR(s) || step->unreported)) return PETSC_FALSE;
  }
  if (step->unreported && !(device->rnorm > bounds->low && device->rnorm < bounds->high)) return PETSC_FALSE;
  if (device->stopevery && device->projections % device->stopevery == 0) return PETSC_FALSE;
  return IDRSScalarsContinue(scalars, step->k, step->start, bounds->cosine, &rr);
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
    work->scalars.sums[IDRS_SUM_RR(work->s)] = work->rr;
    PetscCall((*host->project)(IDRSAlone(work), &steps[i]));
    IDRSCallAllreduce(MPI_IN_PLACE, work->scalars.sums, (PetscMPIInt)IDRS_SUMS(work->s, IDRSStepHasY(&work->scalars, &steps[i])),
                      MPIU_SCALAR, MPIU_SUM, work->comm);
    device->stopped = (PetscBool)!Continue(device, &work->scalars, &steps[i], &bounds[i]);
    if (device->stopped) device->stops++;
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
  .runs    = QueueRuns,
  .halo    = QueueHalo,
  .begin   = QueueBegin,
  .launch  = QueueLaunch,
  .collect = QueueCollect,
  .end     = QueueEnd,
};

/* The host's own numbers are no use to it from now on */
static PetscErrorCode BlockBegin(IDRSWork work, const IDRSBlockScalars *scalars, PetscReal peak)
{
  const PetscInt s = scalars->s, m = scalars->m, length = IDRS_BLOCK_STORAGE(s, m);

  PetscFunctionBeginUser;
  PetscCall(PetscFree3(blocks.storage, blocks.sums, blocks.C));
  PetscCall(PetscMalloc3(length, &blocks.storage, IDRSBlockSumCount(s, m, s), &blocks.sums, (s + 4) * s * m * m, &blocks.C));
  PetscCall(PetscArraycpy(blocks.storage, scalars->M, length));
  IDRSBlockScalarsSetPointers(&blocks.scalars, s, m, blocks.storage);
  for (PetscInt i = 0; i < length; i++) scalars->M[i] = NAN;
  blocks.norms = (IDRSBlockNorms){.peak = peak};
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode BlockLaunch(IDRSWork work, const IDRSBlockStep *step)
{
  IDRSBlockBounds bounds = step->bounds;

  PetscFunctionBeginUser;
  blocks.launches++;
  if (blocks.norms.stopped) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall((*host->blockproject)(work, step->tasks, step->dots, blocks.sums));
  if (blocks.stopevery && blocks.launches % blocks.stopevery == 0) bounds.stop = PETSC_TRUE;
  IDRSBlockScalarsContinue(&blocks.scalars, step->k, &bounds, blocks.sums, &blocks.norms);
  if (blocks.norms.stopped) blocks.stops++;
  blocks.results[blocks.launches % RESULTS] = blocks.norms;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode BlockCombine(IDRSWork work, const IDRSBlockStep *step, IDRSBlockCombines which)
{
  PetscFunctionBeginUser;
  for (PetscInt l = 0; l < step->count[which] && !blocks.norms.stopped; l++) {
    IDRSBlockAxpy sum = step->sums[which][l];

    sum.C  = blocks.C;
    sum.ld = sum.nx;
    for (PetscInt i = 0; i < sum.nx * sum.ny; i++)
      blocks.C[i] = IDRSBlockScalarsGet(&blocks.scalars, &sum.rows[i % sum.nx], i / sum.nx);
    PetscCall((*host->blockcombine)(work, 1, &sum));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode BlockCollect(IDRSWork work, PetscInt inflight, IDRSBlockNorms *norms)
{
  PetscFunctionBeginUser;
  *norms = blocks.results[(blocks.launches - (inflight - 1)) % RESULTS];
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode BlockEnd(IDRSWork work, const IDRSBlockScalars *scalars, PetscInt count, PetscScalar sums[])
{
  PetscFunctionBeginUser;
  PetscCall(PetscArraycpy(scalars->M, blocks.storage, IDRS_BLOCK_STORAGE(scalars->s, scalars->m)));
  PetscCall(PetscArraycpy(sums, blocks.sums, count));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static const IDRSBlockQueueOps blockqueue = {
  .begin   = BlockBegin,
  .launch  = BlockLaunch,
  .combine = BlockCombine,
  .collect = BlockCollect,
  .end     = BlockEnd,
};

/* From now on the solver, which has been set up, works with a device */
static PetscErrorCode Attach(KSP ksp, PetscInt stopevery)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBeginUser;
  if (idrs->slot[0].work->passes != &passes) host = idrs->slot[0].work->passes;
  passes            = *host;
  passes.device     = PETSC_TRUE;
  passes.combine    = Combine;
  passes.update     = Update;
  passes.advance    = Advance;
  passes.blockqueue = &blockqueue;
  blocks.stops      = 0;
  blocks.stopevery  = stopevery;
  for (PetscInt i = 0; i < IDRS_QUEUES; i++) passes.queue[i] = &queue;
  for (PetscInt i = 0; i < idrs->slots; i++) {
    IDRSWork work = idrs->slot[i].work;

    work->passes    = &passes;
    work->alldevice = PETSC_TRUE;
    PetscCall(PetscFree(devices[i].storage));
    PetscCall(PetscCalloc1(IDRS_STORAGE(work->s), &devices[i].storage));
    devices[i].work      = work;
    devices[i].stops     = 0;
    devices[i].stopevery = stopevery;
    /* Matvecs in vain may meet a column that nothing was written to: those of a device begin as zeros */
    for (PetscInt j = 0; j < work->s; j++) PetscCall(VecSet(work->U[j], 0.0));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* An operator that fails once, when as many products have been made */
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
  PetscInt           its, products, length, stops;
  PetscReal          norm, norms[MAX_NORMS];
} Outcome;

static const PetscReal updates[] = {0.0, 1e-3, 0.3}, rtols[] = {1e-4, 1e-9};
static Outcome         lockstep, ahead;

static PetscErrorCode Solve(const Setting *set, PetscBool monitored, PetscInt stopevery, PetscInt failat, Operator *op, Mat shell,
                            Vec b, Vec x, Outcome *out)
{
  const PetscReal *norms;
  PetscErrorCode   ierr;
  KSP              ksp;
  PC               pc;
  Vec              r;

  PetscFunctionBeginUser;
  PetscCall(KSPCreate(PetscObjectComm((PetscObject)shell), &ksp));
  PetscCall(KSPSetOperators(ksp, shell, op->A));
  PetscCall(KSPSetType(ksp, KSPIDRS));
  PetscCall(KSPIDRSSetShadowSize(ksp, set->s));
  PetscCall(KSPIDRSSetImplementation(ksp, KSP_IDRS_HOST));
  PetscCall(KSPIDRSSetCommunication(ksp, KSP_IDRS_COMMUNICATION_NCCL)); /* the queue of the device, on several processes too */
  PetscCall(KSPIDRSSetUpdateTolerance(ksp, updates[set->update]));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCSetType(pc, set->pc ? PCJACOBI : PCNONE));
  PetscCall(KSPSetPCSide(ksp, set->pc == 2 ? PC_LEFT : PC_RIGHT));
  PetscCall(KSPSetTolerances(ksp, rtols[set->rtol], 0.0, PETSC_DEFAULT, set->max_it));
  if (set->norm == NORM_SKIP) PetscCall(KSPSetConvergenceTest(ksp, KSPConvergedSkip, NULL, NULL));
  if (set->norm == NORM_OFF) PetscCall(KSPSetNormType(ksp, KSP_NORM_NONE));
  if (set->norm == NORM_CHECK_LATE) PetscCall(KSPSetCheckNormIteration(ksp, 40));
  if (monitored) PetscCall(KSPMonitorSet(ksp, QuietMonitor, NULL, NULL));
  PetscCall(KSPSetResidualHistory(ksp, NULL, MAX_NORMS, PETSC_TRUE));
  PetscCall(KSPSetUp(ksp));
  PetscCall(Attach(ksp, stopevery));
  op->failat = failat ? op->made + failat : 0;
  if (failat) {
    PetscCall(Listen());
    ierr = KSPSolve(ksp, b, x);
    PetscCall(Heard());
    PetscCall(ComplainIf(ierr != PETSC_ERR_USER, "product %" PetscInt_FMT " failed: error %d", failat, (int)ierr));
    PetscCall(Unlock(b));
    PetscCall(KSPReset(ksp));
    PetscCall(KSPSetOperators(ksp, shell, op->A));
    PetscCall(KSPSetUp(ksp));
    PetscCall(Attach(ksp, stopevery));
    PetscCall(KSPSetResidualHistory(ksp, NULL, MAX_NORMS, PETSC_TRUE));
  }
  PetscCall(VecSet(x, 0.0));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(KSPGetConvergedReason(ksp, &out->reason));
  PetscCall(KSPGetIterationNumber(ksp, &out->its));
  PetscCall(KSPIDRSGetCounts(ksp, &out->products, NULL, NULL, NULL));
  PetscCall(KSPGetResidualHistory(ksp, &norms, &out->length));
  PetscCall(PetscArraycpy(out->norms, norms, out->length));
  out->stops = devices[0].stops;
  PetscCall(VecDuplicate(b, &r));
  PetscCall(MatMult(op->A, x, r));
  PetscCall(VecAYPX(r, -1.0, b));
  if (set->pc == 2) {
    Vec t;

    PetscCall(VecDuplicate(b, &t));
    PetscCall(PCApply(pc, r, t));
    PetscCall(VecNorm(t, NORM_2, &out->norm));
    PetscCall(VecDestroy(&t));
  } else PetscCall(VecNorm(r, NORM_2, &out->norm));
  PetscCall(VecDestroy(&r));
  PetscCall(KSPDestroy(&ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The same iterations and reason, but for rounding, and the solution is the one whose norm was reported last */
static PetscErrorCode Compare(const char what[], const Setting *set)
{
  char      text[256];
  PetscReal last = ahead.norms[ahead.length - 1];

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(text, sizeof(text),
                          "%s, s %" PetscInt_FMT ", max_it %" PetscInt_FMT ", update %g, rtol %g, pc %" PetscInt_FMT
                          ", norm %" PetscInt_FMT,
                          what, set->s, set->max_it, (double)updates[set->update], (double)rtols[set->rtol], set->pc, set->norm));
  PetscCall(
    ComplainIf(ahead.reason != lockstep.reason || PetscAbsInt(ahead.its - lockstep.its) > (ahead.its < 40 ? 0 : lockstep.its / 5),
               "%s: %s after %" PetscInt_FMT ", in lockstep %s after %" PetscInt_FMT, text, KSPConvergedReasons[ahead.reason],
               ahead.its, KSPConvergedReasons[lockstep.reason], lockstep.its));
  PetscCall(ComplainIf(ahead.length != ahead.its + 1 || lockstep.length != lockstep.its + 1,
                       "%s: %" PetscInt_FMT " norms for %" PetscInt_FMT " iterations", text, ahead.length, ahead.its));
  for (PetscInt i = 0; i < PetscMin(20, PetscMin(ahead.length, lockstep.length)); i++) {
    if (!(PetscAbsReal(ahead.norms[i] - lockstep.norms[i]) <= 1e-6 * lockstep.norms[i])) {
      PetscCall(
        Complain("%s: norm %" PetscInt_FMT " is %g, in lockstep %g", text, i, (double)ahead.norms[i], (double)lockstep.norms[i]));
      break;
    }
  }
  PetscCall(ComplainIf(set->norm != NORM_OFF && !(PetscAbsReal(ahead.norm - last) <= 1e-6 * last + 1e-13 * ahead.norms[0]),
                       "%s: the norm of b - A x is %g, reported %g", text, (double)ahead.norm, (double)last));
  PetscCall(ComplainIf(set->norm == NORM_OFF && !(PetscAbsReal(ahead.norm - lockstep.norm) <= 1e-6 * lockstep.norm),
                       "%s: the norm of b - A x is %g, in lockstep %g", text, (double)ahead.norm, (double)lockstep.norm));
  PetscCall(ComplainIf(ahead.its == lockstep.its && ahead.products > lockstep.products + 3 * ahead.stops,
                       "%s: %" PetscInt_FMT " products and %" PetscInt_FMT " stops, in lockstep %" PetscInt_FMT, text,
                       ahead.products, ahead.stops, lockstep.products));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Many right-hand sides, ahead of devices of which each stops at other steps, or of one with a block recurrence, as in lockstep:
   every column solved, with the same iterations but for rounding
*/
static PetscErrorCode TestColumns(Mat A, PetscBool block)
{
  PetscMPIInt       size;
  const PetscInt    shadow[] = {1, 2, 4, 8}, stops[] = {0, 5, 3}, widths[] = {16, 3};
  const char *const pctypes[] = {PCNONE, PCJACOBI, PCBJACOBI};
  Mat               B, X;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(BlockCreate(A, 7, &B));
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(shadow); is++) {
    for (size_t ipc = 0; ipc < PETSC_STATIC_ARRAY_LENGTH(pctypes); ipc++) {
      for (PetscInt i = 0; i < 2 * BLOCKS; i++) {
        const PetscInt *its;
        PetscInt        expected[7], total = 0;
        char            what[128];
        KSP             ksp;

        PetscCall(SolverCreate(A, shadow[is], pctypes[ipc], &ksp));
        PetscCall(KSPIDRSSetImplementation(ksp, KSP_IDRS_HOST));
        PetscCall(KSPIDRSSetWidth(ksp, widths[i % 2]));
        PetscCall(KSPIDRSSetBlock(ksp, block));
        if (block) PetscCall(KSPSetPCSide(ksp, i % 3 ? PC_RIGHT : PC_LEFT));
        PetscCall(BlockSet(A, (BlockKind)(i / 2), B));
        PetscCall(KSPMatSolve(ksp, B, X));
        PetscCall(KSPIDRSGetColumnResults(ksp, NULL, NULL, &its, NULL));
        PetscCall(PetscArraycpy(expected, its, 7));
        PetscCall(KSPIDRSSetCommunication(ksp, KSP_IDRS_COMMUNICATION_NCCL));
        for (size_t stop = 0; stop < PETSC_STATIC_ARRAY_LENGTH(stops); stop++) {
          PetscCall(Attach(ksp, stops[stop]));
          PetscCall(KSPMatSolve(ksp, B, X));
          PetscCall(PetscSNPrintf(what, sizeof(what),
                                  "s = %" PetscInt_FMT ", %s, %s, width %" PetscInt_FMT ", stops %" PetscInt_FMT, shadow[is],
                                  pctypes[ipc], BlockKinds[i / 2], widths[i % 2], stops[stop]));
          PetscCall(CheckBlock(what, ksp, A, B, X, PETSC_TRUE));
          if (!i && block) { /* all seven with one block recurrence */
            PetscCall(CheckView(ksp, "block recurrences: coefficients stay on the device, the host launches a matvec of each",
                                size == 1 ? 1 : 0));
            PetscCall(CheckView(ksp, "block recurrences: the host has the coefficients", size == 1 ? 0 : 1));
            PetscCall(CheckView(ksp, "matvecs before it reads a norm", 0));
          }
          PetscCall(KSPIDRSGetColumnResults(ksp, NULL, NULL, &its, NULL));
          for (PetscInt j = 0; j < 7; j++)
            PetscCall(ComplainIf(PetscAbsInt(its[j] - expected[j]) > 1 + expected[j] / 5,
                                 "%s, column %" PetscInt_FMT ": %" PetscInt_FMT " iterations, in lockstep %" PetscInt_FMT, what, j,
                                 its[j], expected[j]));
          for (PetscInt j = 0; j < IDRS_MAX_WIDTH; j++) total += block && size == 1 ? blocks.stops : devices[j].stops;
        }
        PetscCall(ComplainIf(!total && (!block || size == 1), "no device has stopped"));
        PetscCall(KSPDestroy(&ksp));
      }
    }
  }
  PetscCall(MatDestroy(&B));
  PetscCall(MatDestroy(&X));
  PetscCall(Verdict(block ? "block recurrences ahead" : "many right-hand sides ahead"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  const PetscInt m = 20, N = m * m, lengths[] = {1, 2, 4, 8, 20}, limits[] = {1, 2, 5, 9, 14, 500};
  PetscInt       begin, end, n;
  Operator       op = {0};
  Mat            shell;
  Vec            b, x;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(KSPIDRSRegister());
  PetscCall(MatCreateAIJ(PETSC_COMM_WORLD, PETSC_DECIDE, PETSC_DECIDE, N, N, 5, NULL, 4, NULL, &op.A));
  PetscCall(MatGetOwnershipRange(op.A, &begin, &end));
  for (PetscInt k = begin; k < end; k++) {
    const PetscInt i = k / m, j = k % m;

    PetscCall(MatSetValue(op.A, k, k, 4.1 + 0.2 * (k % 3), INSERT_VALUES));
    if (i) PetscCall(MatSetValue(op.A, k, k - m, -1.5, INSERT_VALUES));
    if (i < m - 1) PetscCall(MatSetValue(op.A, k, k + m, -0.5, INSERT_VALUES));
    if (j) PetscCall(MatSetValue(op.A, k, k - 1, -1.7, INSERT_VALUES));
    if (j < m - 1) PetscCall(MatSetValue(op.A, k, k + 1, -0.3, INSERT_VALUES));
  }
  PetscCall(MatAssemblyBegin(op.A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(op.A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatCreateVecs(op.A, &x, &b));
  for (PetscInt i = begin; i < end; i++) PetscCall(VecSetValue(b, i, 1.0 + 0.3 * (i % 7), INSERT_VALUES));
  PetscCall(VecAssemblyBegin(b));
  PetscCall(VecAssemblyEnd(b));
  PetscCall(VecGetLocalSize(b, &n));
  PetscCall(MatCreateShell(PETSC_COMM_WORLD, n, n, N, N, &op, &shell));
  PetscCall(MatShellSetOperation(shell, MATOP_MULT, (void (*)(void))Product));

  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(lengths); is++) {
    for (size_t il = 0; il < PETSC_STATIC_ARRAY_LENGTH(limits); il++) {
      for (PetscInt i = 0; i < 3 * 2 * 3 * 4; i++) {
        const Setting set = {
          .s = lengths[is], .max_it = limits[il], .update = i % 3, .rtol = i / 3 % 2, .pc = i / 6 % 3, .norm = i / 18};

        if (set.norm != NORM_DEFAULT && set.norm != NORM_CHECK_LATE && set.max_it > 100) continue;
        PetscCall(Solve(&set, PETSC_TRUE, 0, 0, &op, shell, b, x, &lockstep));
        PetscCall(Solve(&set, PETSC_FALSE, 0, 0, &op, shell, b, x, &ahead));
        PetscCall(Compare("ahead", &set));
        PetscCall(Solve(&set, PETSC_FALSE, 3, 0, &op, shell, b, x, &ahead));
        PetscCall(Compare("with stops", &set));
        if (set.max_it > 100 && set.norm == NORM_DEFAULT) {
          PetscCall(Solve(&set, PETSC_FALSE, 0, 3 + (PetscInt)is * 4, &op, shell, b, x, &ahead));
          PetscCall(Compare("after an error", &set));
        }
      }
    }
  }
  PetscCall(Verdict("ahead"));
  PetscCall(TestColumns(op.A, PETSC_FALSE));
  PetscCall(TestColumns(op.A, PETSC_TRUE));
  PetscCall(PetscFree3(blocks.storage, blocks.sums, blocks.C));
  for (PetscInt i = 0; i < IDRS_MAX_WIDTH; i++) PetscCall(PetscFree(devices[i].storage));
  PetscCall(MatDestroy(&shell));
  PetscCall(MatDestroy(&op.A));
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&x));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  # the tolerances presume double precision; a GPU has a device of its own
  test:
    suffix: 1
    requires: double
    nsize: {{1 2}}

TEST*/
