/*
   The host's part of the persistent kernel, which makes many steps, until the host must continue: see whole.cuh
*/
#include "wholelayout.h"
#include "../../sys/device/device.h"

struct _n_IDRSWhole {
  IDRSWholeLayout     alone, sidebyside; /* for one solve on the device, and for several, if this is the first of them */
  IDRSBlockMessage   *entries;           /* of u */
  IDRSWholeResult    *result;            /* pinned */
  size_t              places;   /* of one application of a polynomial; there are twice as many, for two applications in turn */
  IDRSMarked         *products; /* places of products */
  size_t              slots;    /* room in the next member */
  IDRSClusteredMemory global;
  cudaStream_t        stream; /* of one of several concurrent solves, like the members below; NULL until it is used */
  cudaEvent_t         begun, ended;
};

PetscErrorCode IDRSWholeDestroy_CUDA(IDRSWhole *whole)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (!*whole) PetscFunctionReturn(PETSC_SUCCESS);
  if ((*whole)->stream) PetscCallCUDA(cudaStreamSynchronize((*whole)->stream)); /* after an error a kernel may still run */
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, (*whole)->entries));
  PetscCall(PetscDeviceFree(dctx, (*whole)->products));
  PetscCall(PetscDeviceFree(dctx, (*whole)->global.a));
  PetscCall(PetscDeviceFree(dctx, (*whole)->global.j));
  PetscCall(PetscDeviceFree(dctx, (*whole)->result));
  if ((*whole)->begun) PetscCallCUDA(cudaEventDestroy((*whole)->begun));
  if ((*whole)->ended) PetscCallCUDA(cudaEventDestroy((*whole)->ended));
  if ((*whole)->stream) PetscCallCUDA(cudaStreamDestroy((*whole)->stream));
  PetscCall(IDRSWholeLayoutDestroy_CUDA(&(*whole)->alone));
  PetscCall(IDRSWholeLayoutDestroy_CUDA(&(*whole)->sidebyside));
  PetscCall(PetscFree(*whole));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the layout of the solve of a work, or of `asked` concurrent solves; the work belongs to the first of them */
static PetscErrorCode IDRSWholeGetLayout(IDRSWork work, PetscInt asked, const IDRSWholeLayout **layout)
{
  IDRS_CUDA       *cuda = (IDRS_CUDA *)work->data;
  IDRSWholeLayout *one;

  PetscFunctionBegin;
  if (!cuda->whole) PetscCall(PetscNew(&cuda->whole));
  one = asked > 1 ? &cuda->whole->sidebyside : &cuda->whole->alone;
  PetscCall(IDRSWholeLayOut_CUDA(work, asked, one));
  *layout = one;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Frees *memory, and allocates `count` zeros on the device */
template <typename T>
static PetscErrorCode IDRSWholeCalloc(size_t count, T **memory)
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
static PetscErrorCode IDRSWholeGetMemory(IDRSWork work, const IDRSWholeLayout *layout)
{
  IDRS_CUDA           *cuda      = (IDRS_CUDA *)work->data;
  const IDRSClustered *clustered = &layout->clustered;
  const size_t blocks = (size_t)clustered->clusters * clustered->size, slots = clustered->matrix ? 0 : blocks * clustered->slots,
               places = work->polynomial ? ((size_t)work->polynomial->powers.k + 1) * layout->lanes.places : 0;
  PetscDeviceContext dctx;
  IDRSWhole          whole;

  PetscFunctionBegin;
  if (!cuda->whole) PetscCall(PetscNew(&cuda->whole));
  whole = cuda->whole;
  if (!whole->entries) PetscCall(IDRSWholeCalloc((size_t)work->n * IDRS_PARTS, &whole->entries));
  if (!whole->result) {
    PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
    PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_HOST, 1, &whole->result));
  }
  if (places > whole->places) {
    whole->places = 0;
    PetscCall(IDRSWholeCalloc(2 * places, &whole->products));
    whole->places = places;
  }
  if (slots > whole->slots) {
    whole->slots = 0;
    PetscCall(IDRSWholeCalloc(slots, &whole->global.a));
    PetscCall(IDRSWholeCalloc(slots, &whole->global.j));
    whole->slots = slots;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Most entries of a row for the automatic choice: a lane adds them in 32 batches, for which all other lanes wait, some 3 us */
#define IDRS_WHOLE_LONGEST 256

/* Returns the reason why the steps cannot run in one kernel, or should not if the choice is automatic, or NULL */
static PetscErrorCode IDRSWholeRuns(IDRSWork work, PetscBool automatic, const char *why[])
{
  const IDRSWholeLayout *layout;
  int                    device, cooperative;

  PetscFunctionBegin;
  *why = NULL;
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device));
  if (work->s > IDRS_COLUMNS_AT_ONCE) *why = "more than 16 shadow vectors are not supported";
  else if (!cooperative) *why = "the GPU cannot run all blocks of a kernel at once";
  else if (work->polynomial && work->polynomial->powers.k > IDRS_WHOLE_PRODUCTS)
    *why = "an application of PCPOLY has more than 32 products";
  else PetscCall(IDRSProductRuns(work->product, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSWholeGetLayout(work, 1, &layout));
  if (work->polynomial && !layout->lanes.count) *why = "the matrix of PCPOLY does not fit in the registers of all threads";
  else if (!work->polynomial && !layout->clustered.clusters) *why = "the system does not fit in the shared memory of the GPU";
  else if (!work->polynomial && automatic && layout->longest > IDRS_WHOLE_LONGEST) *why = "the longest row would delay all others";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns how many of `asked` solves can run concurrently on the device, if one of them can */
static PetscErrorCode IDRSWholeFits(IDRSWork work, PetscInt asked, PetscInt *solves)
{
  const IDRSWholeLayout *layout = NULL;

  PetscFunctionBegin;
  PetscCall(IDRSWholeGetLayout(work, asked, &layout));
  *solves = layout->solves;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Sets the arguments of the kernel for a solve, and stores its scalars for the kernel. The addresses of arrays do not change until
   the kernel has ended
*/
static PetscErrorCode IDRSWholeGetSteps(const IDRSWholeTask *task, const IDRSWholeLayout *layout, cudaStream_t stream,
                                        IDRSWholeSteps *steps)
{
  IDRSWork      work     = task->work;
  IDRS_CUDA    *cuda     = (IDRS_CUDA *)work->data;
  const int     count    = task->x && task->anchor ? 6 : 4;
  const Vec     vecs[]   = {work->r, work->z, work->v, work->t, task->x, task->anchor};
  PetscScalar **arrays[] = {&steps->r, &steps->z, &steps->v, &steps->t, &steps->x, &steps->anchor};
  Mat           block    = NULL;

  PetscFunctionBegin;
  PetscCall(IDRSWholeGetMemory(work, layout));
  PetscCall(IDRSColumnsRead_CUDA(work));
  PetscCall(PetscArraycpy(cuda->whole->result->storage, work->storage, IDRS_STORAGE_SUMS(work->s)));
  if (cuda->partials.launch > UINT32_MAX - IDRS_WHOLE_STEPS) {
    const size_t sums = 2 * IDRS_MESSAGES * IDRS_BLOCKS_PER_SM * (size_t)cuda->multiprocessors;

    /* the numbers of messages start again, and the memory must have no old number */
    PetscCallCUDA(cudaMemsetAsync(cuda->partials.messages, 0, sums * sizeof(IDRSBlockMessage), stream));
    PetscCallCUDA(cudaMemsetAsync(cuda->whole->entries, 0, (size_t)work->n * IDRS_PARTS * sizeof(IDRSBlockMessage), stream));
    cuda->partials.launch = 0;
  }
  steps->panels     = cuda->panels;
  steps->entries    = cuda->whole->entries;
  steps->partials   = cuda->partials;
  steps->storage    = cuda->whole->result->storage; /* all blocks read it before the first block can end */
  steps->pivotscale = work->scalars.pivotscale;
  steps->step       = task->outcome.step;
  steps->limits     = task->limits;
  steps->result     = cuda->whole->result;
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
  cuda->partials.launch += IDRS_WHOLE_STEPS;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSWholeLaunch(IDRSWork work, const IDRSWholeLayout *layout, const IDRSWholePolynomial *polynomial,
                                      const IDRSWholeSteps *steps, cudaStream_t stream)
{
  const IDRSWhole whole = ((const IDRS_CUDA *)work->data)->whole;

  PetscFunctionBegin;
  if (work->polynomial) PetscCall(IDRSWholePolyLaunch_CUDA(work, polynomial, whole->products, steps, stream));
  else PetscCall(IDRSClusteredLaunch_CUDA(work, &layout->clustered, &whole->global, steps, stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Launches several concurrent solves, each on its own stream, after the work on PETSc's stream. PETSc's stream waits until all
   kernels have ended, also after an error
*/
static PetscErrorCode IDRSWholeLaunchAll(PetscInt count, const IDRSWholeTask tasks[], const IDRSWholeLayout *layout,
                                         const IDRSWholePolynomial *polynomial, const IDRSWholeSteps steps[], cudaStream_t stream)
{
  IDRSWhole      whole[IDRS_MAX_WIDTH];
  PetscErrorCode ierr     = PETSC_SUCCESS;
  cudaError_t    error    = cudaSuccess;
  PetscInt       launched = 0;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) {
    whole[i] = ((const IDRS_CUDA *)tasks[i].work->data)->whole;
    if (!whole[i]->stream) PetscCallCUDA(cudaStreamCreateWithFlags(&whole[i]->stream, cudaStreamNonBlocking));
    if (!whole[i]->begun) PetscCallCUDA(cudaEventCreateWithFlags(&whole[i]->begun, cudaEventDisableTiming));
    if (!whole[i]->ended) PetscCallCUDA(cudaEventCreateWithFlags(&whole[i]->ended, cudaEventDisableTiming));
  }
  PetscCallCUDA(cudaEventRecord(whole[0]->begun, stream));
  for (; launched < count && !ierr && !error; launched++) {
    error = cudaStreamWaitEvent(whole[launched]->stream, whole[0]->begun, 0);
    if (!error) ierr = IDRSWholeLaunch(tasks[launched].work, layout, polynomial, &steps[launched], whole[launched]->stream);
  }
  for (PetscInt i = 0; i < launched && !error; i++) {
    error = cudaEventRecord(whole[i]->ended, whole[i]->stream);
    if (!error) error = cudaStreamWaitEvent(stream, whole[i]->ended, 0);
  }
  for (PetscInt i = 0; i < launched && error; i++) (void)cudaStreamSynchronize(whole[i]->stream);
  PetscCall(ierr);
  PetscCallCUDA(error);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Waits for the kernel of a solve, and copies its results to the work */
static PetscErrorCode IDRSWholeCollect(IDRSWholeTask *task)
{
  IDRS_CUDA       *cuda   = (IDRS_CUDA *)task->work->data;
  IDRSWholeResult *result = cuda->whole->result;
  IDRSStep        &step   = task->outcome.step;

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
   IDRSWholeFits() was called with, for `asked` solves
*/
static PetscErrorCode IDRSWholeMakeSteps(IDRSWork first, PetscInt asked, PetscInt count, IDRSWholeTask tasks[])
{
  const IDRSWholeLayout *layout;
  IDRSWholePolynomial    polynomial            = {};
  IDRSWholeSteps         steps[IDRS_MAX_WIDTH] = {};
  cudaStream_t           stream;

  PetscFunctionBegin;
  PetscCall(IDRSWholeGetLayout(first, asked, &layout));
  PetscCall(IDRSStream_CUDA(&stream));
  if (first->polynomial) PetscCall(IDRSWholeGetPolynomial_CUDA(first, &layout->lanes, &polynomial));
  for (PetscInt i = 0; i < count; i++) PetscCall(IDRSWholeGetSteps(&tasks[i], layout, stream, &steps[i]));
  PetscCall(PetscLogGpuTimeBegin());
  if (asked == 1) PetscCall(IDRSWholeLaunch(tasks[0].work, layout, &polynomial, &steps[0], stream));
  else PetscCall(IDRSWholeLaunchAll(count, tasks, layout, &polynomial, steps, stream));
  PetscCall(PetscLogGpuTimeEnd());
  for (PetscInt i = 0; i < count; i++) PetscCall(IDRSWholeCollect(&tasks[i]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

const IDRSWholeOps IDRSWhole_CUDA = {IDRSWholeRuns, IDRSWholeFits, IDRSWholeMakeSteps};
