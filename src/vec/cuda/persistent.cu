/*
   The host's part of the persistent kernel, which makes many steps, until the host must continue: see persistent.cuh
*/
#include "persistentlayout.h"
#include "../../sys/device/device.h"

struct _n_IDRSPersistent {
  IDRSPersistentLayout  alone, sidebyside; /* for one solve on the device, and for several, if this is the first of them */
  IDRSBlockMessage     *entries;           /* of u */
  IDRSPersistentResult *result;            /* pinned */
  size_t                places;   /* of one application of a polynomial; there are twice as many, for two applications in turn */
  IDRSMarked           *products; /* places of products */
  size_t                slots;    /* room in the next member */
  IDRSClusteredMemory   global;
  cudaStream_t          stream; /* of one of several concurrent solves, like the members below; NULL until it is used */
  cudaEvent_t           begun, ended;
};

PetscErrorCode IDRSPersistentDestroy_CUDA(IDRSPersistent *persistent)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (!*persistent) PetscFunctionReturn(PETSC_SUCCESS);
  if ((*persistent)->stream)
    PetscCallCUDA(cudaStreamSynchronize((*persistent)->stream)); /* after an error a kernel may still run */
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, (*persistent)->entries));
  PetscCall(PetscDeviceFree(dctx, (*persistent)->products));
  PetscCall(PetscDeviceFree(dctx, (*persistent)->global.a));
  PetscCall(PetscDeviceFree(dctx, (*persistent)->global.j));
  PetscCall(PetscDeviceFree(dctx, (*persistent)->result));
  if ((*persistent)->begun) PetscCallCUDA(cudaEventDestroy((*persistent)->begun));
  if ((*persistent)->ended) PetscCallCUDA(cudaEventDestroy((*persistent)->ended));
  if ((*persistent)->stream) PetscCallCUDA(cudaStreamDestroy((*persistent)->stream));
  PetscCall(IDRSPersistentLayoutDestroy_CUDA(&(*persistent)->alone));
  PetscCall(IDRSPersistentLayoutDestroy_CUDA(&(*persistent)->sidebyside));
  PetscCall(PetscFree(*persistent));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the layout of the solve of a work, or of `asked` concurrent solves; the work belongs to the first of them */
static PetscErrorCode IDRSPersistentGetLayout(IDRSWorkspace work, PetscInt asked, const IDRSPersistentLayout **layout)
{
  IDRS_CUDA            *cuda = (IDRS_CUDA *)work->data;
  IDRSPersistentLayout *one;

  PetscFunctionBegin;
  if (!cuda->persistent) PetscCall(PetscNew(&cuda->persistent));
  one = asked > 1 ? &cuda->persistent->sidebyside : &cuda->persistent->alone;
  PetscCall(IDRSPersistentLayOut_CUDA(work, asked, one));
  *layout = one;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Frees *memory, and allocates `count` zeros on the device */
template <typename T>
static PetscErrorCode IDRSPersistentCalloc(size_t count, T **memory)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, *memory));
  *memory = NULL;
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, count, memory));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Allocates the memory of a solve with this layout: messages, the result, and the matrix in the order of blocks if it is in global
   memory
*/
static PetscErrorCode IDRSPersistentGetMemory(IDRSWorkspace work, const IDRSPersistentLayout *layout)
{
  IDRS_CUDA           *cuda      = (IDRS_CUDA *)work->data;
  const IDRSClustered *clustered = &layout->clustered;
  const size_t blocks = (size_t)clustered->clusters * clustered->size, slots = clustered->matrix ? 0 : blocks * clustered->slots,
               places = work->polynomial ? ((size_t)work->polynomial->powers.k + 1) * layout->lanes.places : 0;
  PetscDeviceContext dctx;
  IDRSPersistent     persistent;

  PetscFunctionBegin;
  if (!cuda->persistent) PetscCall(PetscNew(&cuda->persistent));
  persistent = cuda->persistent;
  if (!persistent->entries) PetscCall(IDRSPersistentCalloc((size_t)work->n * IDRS_PARTS, &persistent->entries));
  if (!persistent->result) {
    PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
    PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_HOST, 1, &persistent->result));
  }
  if (places > persistent->places) {
    persistent->places = 0;
    PetscCall(IDRSPersistentCalloc(2 * places, &persistent->products));
    persistent->places = places;
  }
  if (slots > persistent->slots) {
    persistent->slots = 0;
    PetscCall(IDRSPersistentCalloc(slots, &persistent->global.a));
    PetscCall(IDRSPersistentCalloc(slots, &persistent->global.j));
    persistent->slots = slots;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Most entries of a row for the automatic choice: a lane adds them in 32 batches, for which all other lanes wait, some 3 us */
#define IDRS_PERSISTENT_LONGEST 256

/* Returns the reason why the steps cannot run in one kernel, or should not if the choice is automatic, or NULL */
static PetscErrorCode IDRSPersistentRuns(IDRSWorkspace work, PetscBool automatic, const char *why[])
{
  const IDRSPersistentLayout *layout;
  int                         device, cooperative;

  PetscFunctionBegin;
  *why = NULL;
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device));
  if (work->s > IDRS_COLUMNS_AT_ONCE) *why = "more than 16 shadow vectors are not supported";
  else if (!cooperative) *why = "the GPU cannot run all blocks of a kernel at once";
  else if (work->polynomial && work->polynomial->powers.k > IDRS_PERSISTENT_PRODUCTS)
    *why = "an application of PCPOLY has more than 32 products";
  else PetscCall(IDRSProductRuns(work->product, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSPersistentGetLayout(work, 1, &layout));
  if (work->polynomial && !layout->lanes.count) *why = "the matrix of PCPOLY does not fit in the registers of all threads";
  else if (!work->polynomial && !layout->clustered.clusters) *why = "the system does not fit in the shared memory of the GPU";
  else if (!work->polynomial && automatic && layout->longest > IDRS_PERSISTENT_LONGEST)
    *why = "the longest row would delay all others";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns how many of `asked` solves can run concurrently on the device, if one of them can */
static PetscErrorCode IDRSPersistentFits(IDRSWorkspace work, PetscInt asked, PetscInt *solves)
{
  const IDRSPersistentLayout *layout = NULL;

  PetscFunctionBegin;
  PetscCall(IDRSPersistentGetLayout(work, asked, &layout));
  *solves = layout->solves;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Sets the arguments of the kernel for a solve, and stores its scalars for the kernel. The addresses of arrays do not change until
   the kernel has ended
*/
static PetscErrorCode IDRSPersistentGetSteps(const IDRSPersistentTask *task, const IDRSPersistentLayout *layout,
                                             cudaStream_t stream, IDRSPersistentSteps *steps)
{
  IDRSWorkspace work     = task->work;
  IDRS_CUDA    *cuda     = (IDRS_CUDA *)work->data;
  const int     count    = task->x && task->anchor ? 6 : 4;
  const Vec     vecs[]   = {work->r, work->z, work->v, work->t, task->x, task->anchor};
  PetscScalar **arrays[] = {&steps->r, &steps->z, &steps->v, &steps->t, &steps->x, &steps->anchor};
  Mat           block    = NULL;

  PetscFunctionBegin;
  PetscCall(IDRSPersistentGetMemory(work, layout));
  PetscCall(IDRSColumnsRead_CUDA(work));
  PetscCall(PetscArraycpy(cuda->persistent->result->storage, work->storage, IDRS_STORAGE_SUMS(work->s)));
  if (cuda->partials.launch > UINT32_MAX - IDRS_PERSISTENT_STEPS) {
    const size_t sums = 2 * IDRS_MESSAGES * IDRS_BLOCKS_PER_SM * (size_t)cuda->multiprocessors;

    /* the numbers of messages start again, and the memory must have no old number */
    PetscCallCUDA(cudaMemsetAsync(cuda->partials.messages, 0, sums * sizeof(IDRSBlockMessage), stream));
    PetscCallCUDA(cudaMemsetAsync(cuda->persistent->entries, 0, (size_t)work->n * IDRS_PARTS * sizeof(IDRSBlockMessage), stream));
    cuda->partials.launch = 0;
  }
  steps->bases      = cuda->bases;
  steps->entries    = cuda->persistent->entries;
  steps->partials   = cuda->partials;
  steps->storage    = cuda->persistent->result->storage; /* all blocks read it before the first block can end */
  steps->pivotscale = work->scalars.pivotscale;
  steps->step       = task->outcome.step;
  steps->limits     = task->limits;
  steps->result     = cuda->persistent->result;
  steps->arrived    = cuda->arrived;
  steps->sequence   = ++cuda->sequence;
  steps->polls      = IDRSGetPolls();
  steps->partials.launch++;
  PetscCall(IDRSRowsGetBlocks(work->product->A, &block, NULL, NULL));
  PetscCall(IDRSGetCSR(block, &steps->A));
  for (int i = 0; i < count; i++) PetscCall(IDRSFindArray_CUDA(vecs[i], IDRS_CHANGE, arrays[i]));
  PetscCall(IDRSFindArrayRead_CUDA(work->diagonal, &steps->diagonal));
  for (PetscInt j = 0; j < work->s; j++) {
    PetscCall(IDRSColumnWritten(work->G[j]));
    PetscCall(IDRSColumnWritten(work->U[j]));
  }
  cuda->partials.launch += IDRS_PERSISTENT_STEPS;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSPersistentLaunch(IDRSWorkspace work, const IDRSPersistentLayout *layout,
                                           const IDRSPersistentPolynomial *polynomial, const IDRSPersistentSteps *steps,
                                           cudaStream_t stream)
{
  const IDRSPersistent persistent = ((const IDRS_CUDA *)work->data)->persistent;

  PetscFunctionBegin;
  if (work->polynomial) PetscCall(IDRSPersistentPolyLaunch_CUDA(work, polynomial, persistent->products, steps, stream));
  else PetscCall(IDRSClusteredLaunch_CUDA(work, &layout->clustered, &persistent->global, steps, stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Launches several concurrent solves, each on its own stream, after the work on PETSc's stream. PETSc's stream waits until all
   kernels have ended, also after an error
*/
static PetscErrorCode IDRSPersistentLaunchAll(PetscInt count, const IDRSPersistentTask tasks[], const IDRSPersistentLayout *layout,
                                              const IDRSPersistentPolynomial *polynomial, const IDRSPersistentSteps steps[],
                                              cudaStream_t stream)
{
  IDRSPersistent persistent[IDRS_MAX_WIDTH];
  PetscErrorCode ierr     = PETSC_SUCCESS;
  cudaError_t    error    = cudaSuccess;
  PetscInt       launched = 0;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) {
    persistent[i] = ((const IDRS_CUDA *)tasks[i].work->data)->persistent;
    if (!persistent[i]->stream) PetscCallCUDA(cudaStreamCreateWithFlags(&persistent[i]->stream, cudaStreamNonBlocking));
    if (!persistent[i]->begun) PetscCallCUDA(cudaEventCreateWithFlags(&persistent[i]->begun, cudaEventDisableTiming));
    if (!persistent[i]->ended) PetscCallCUDA(cudaEventCreateWithFlags(&persistent[i]->ended, cudaEventDisableTiming));
  }
  PetscCallCUDA(cudaEventRecord(persistent[0]->begun, stream));
  for (; launched < count && !ierr && !error; launched++) {
    error = cudaStreamWaitEvent(persistent[launched]->stream, persistent[0]->begun, 0);
    if (!error)
      ierr = IDRSPersistentLaunch(tasks[launched].work, layout, polynomial, &steps[launched], persistent[launched]->stream);
  }
  for (PetscInt i = 0; i < launched && !error; i++) {
    error = cudaEventRecord(persistent[i]->ended, persistent[i]->stream);
    if (!error) error = cudaStreamWaitEvent(stream, persistent[i]->ended, 0);
  }
  for (PetscInt i = 0; i < launched && error; i++) (void)cudaStreamSynchronize(persistent[i]->stream);
  PetscCall(ierr);
  PetscCallCUDA(error);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Waits for the kernel of a solve, and copies its results to the work */
static PetscErrorCode IDRSPersistentCollect(IDRSPersistentTask *task)
{
  IDRS_CUDA            *cuda   = (IDRS_CUDA *)task->work->data;
  IDRSPersistentResult *result = cuda->persistent->result;
  IDRSStep             &step   = task->outcome.step;

  PetscFunctionBegin;
  PetscCall(IDRSWait_CUDA(task->work, cuda->arrived, cuda->sequence));
  PetscCheck(
    !result->timedout, PETSC_COMM_SELF, PETSC_ERR_GPU,
    "A kernel of KSPIDRS timed out after %g seconds (-petscidrs_nccl_timeout): perhaps not all of its blocks are resident; "
    "use -ksp_idrs_run stepwise",
    (double)IDRSGetTimeout());
  PetscCall(PetscArraycpy(task->work->storage, result->storage, IDRS_STORAGE(task->work->s)));
  for (PetscInt i = 0; i < result->count; i++) result->squares[i] = PetscSqrtReal(result->squares[i]);
  for (PetscInt i = 0; i < result->updates; i++) result->updated[i].rnorm = PetscSqrtReal(result->updated[i].rnorm);
  task->report = {result->completed, result->completed + result->updates + 1, result->count, result->updates, result->squares,
                  result->updated};
  step         = {
    result->k,  result->start ? PETSC_TRUE : PETSC_FALSE, result->unreported ? PETSC_TRUE : PETSC_FALSE, PETSC_FALSE, PETSC_FALSE,
    step.matvec};
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Runs steps and updates of each task, from its first step, whose direction has been computed, until the host must continue. The
   step of the task is then the step whose sums the host must use. Scalars are copied to the device and back. first: the work that
   IDRSPersistentFits() was called with, for `asked` solves
*/
static PetscErrorCode IDRSPersistentMakeSteps(IDRSWorkspace first, PetscInt asked, PetscInt count, IDRSPersistentTask tasks[])
{
  const IDRSPersistentLayout *layout;
  IDRSPersistentPolynomial    polynomial            = {};
  IDRSPersistentSteps         steps[IDRS_MAX_WIDTH] = {};
  cudaStream_t                stream;

  PetscFunctionBegin;
  PetscCall(IDRSPersistentGetLayout(first, asked, &layout));
  PetscCall(IDRSStream_CUDA(&stream));
  if (first->polynomial) PetscCall(IDRSPersistentGetPolynomial_CUDA(first, &layout->lanes, &polynomial));
  for (PetscInt i = 0; i < count; i++) PetscCall(IDRSPersistentGetSteps(&tasks[i], layout, stream, &steps[i]));
  PetscCall(PetscLogGpuTimeBegin());
  if (asked == 1) PetscCall(IDRSPersistentLaunch(tasks[0].work, layout, &polynomial, &steps[0], stream));
  else PetscCall(IDRSPersistentLaunchAll(count, tasks, layout, &polynomial, steps, stream));
  PetscCall(PetscLogGpuTimeEnd());
  for (PetscInt i = 0; i < count; i++) PetscCall(IDRSPersistentCollect(&tasks[i]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

const IDRSPersistentOps IDRSPersistent_CUDA = {IDRSPersistentRuns, IDRSPersistentFits, IDRSPersistentMakeSteps};
