/*
   Many steps in one kernel, until the host must continue: for systems so small that launches would take longer than the work. This
   file has the part of the host, and the kernel whose blocks have their rows in global memory. A thread has the same rows in all
   passes, and only this thread accesses these rows of the panels, r, z, v and t. The exchange between blocks and its
   synchronization are described in whole.cuh.
*/
#include "wholegrid.cuh"
#include "wholelayout.h"
#include "../../sys/device/cooperative.cuh"
#include "../../sys/device/device.h"

struct _n_IDRSWhole {
  IDRSWholeLayout     alone, sidebyside; /* for one solve on the device, and for several, if this is the first of them */
  IDRSBlockMessage   *entries;           /* of u, or of its exchange with other blocks, in even and in odd steps */
  IDRSWholeResult    *result;            /* pinned */
  size_t              places;   /* of one application of a polynomial; there are twice as many, for two applications in turn */
  IDRSMarked         *products; /* places of products */
  size_t              slots, entriesofu; /* room in the next member: slots, and entries of U */
  IDRSClusteredMemory global;
  cudaStream_t        stream; /* of one of several concurrent solves, like the members below; NULL until it is used */
  cudaEvent_t         begun, ended;
};

template <int S>
static __global__ void __launch_bounds__(IDRS_THREADS, 1)
  IDRSWholeKernel(const __grid_constant__ IDRSWholeSteps steps, const __grid_constant__ IDRSShadow<S> P)
{
  IDRSWaitPolls  wait   = {steps.polls};
  IDRSGridBlocks blocks = {
    steps.A, steps.partials, {steps.entries, steps.partials.launch, &wait}
  };

  (void)IDRSWholeRun<S>(steps, P, blocks);
}

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
  PetscCall(PetscDeviceFree(dctx, (*whole)->global.U));
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
   Allocates the memory of a solve with this layout: messages, the result, and the parts of the system that are in global memory in
   the order of blocks
*/
static PetscErrorCode IDRSWholeGetMemory(IDRSWork work, const IDRSWholeLayout *layout)
{
  IDRS_CUDA           *cuda      = (IDRS_CUDA *)work->data;
  const IDRSClustered *clustered = &layout->clustered;
  const size_t         blocks    = (size_t)clustered->clusters * clustered->size,
               slots             = clustered->layout >= IDRS_MATRIX_SHARED ? 0 : blocks * clustered->slots,
               entriesofu        = clustered->layout >= IDRS_MATRIX_GLOBAL ? 0 : blocks * clustered->rows * (size_t)work->s,
               places            = work->polynomial ? ((size_t)work->polynomial->powers.k + 1) * layout->lanes.places : 0;
  PetscDeviceContext dctx;
  IDRSWhole          whole;

  PetscFunctionBegin;
  if (!cuda->whole) PetscCall(PetscNew(&cuda->whole));
  whole = cuda->whole;
  if (!whole->entries) PetscCall(IDRSWholeCalloc(2 * (size_t)work->n * IDRS_PARTS, &whole->entries));
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
  if (entriesofu > whole->entriesofu) {
    whole->entriesofu = 0;
    PetscCall(IDRSWholeCalloc(entriesofu, &whole->global.U));
    whole->entriesofu = entriesofu;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates the stream of one of several concurrent solves */
static PetscErrorCode IDRSWholeGetStream(IDRSWhole whole)
{
  PetscFunctionBegin;
  if (!whole->stream) PetscCallCUDA(cudaStreamCreateWithFlags(&whole->stream, cudaStreamNonBlocking));
  if (!whole->begun) PetscCallCUDA(cudaEventCreateWithFlags(&whole->begun, cudaEventDisableTiming));
  if (!whole->ended) PetscCallCUDA(cudaEventCreateWithFlags(&whole->ended, cudaEventDisableTiming));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Limits of the automatic choice. With more nonzeros the work of a step takes longer than its launches, if the system is not in
   shared memory. With more turns the other rows wait too long for a long row
*/
#define IDRS_WHOLE_NONZEROS 1048576
#define IDRS_WHOLE_TURNS    8

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
  else if (!work->hashed) *why = "explicit shadow vectors are not supported";
  else if (!cooperative) *why = "the GPU cannot run all blocks of a kernel at once";
  else if (work->polynomial && work->polynomial->powers.k > IDRS_WHOLE_PRODUCTS)
    *why = "an application of PCPOLY has more than 32 products";
  else PetscCall(IDRSProductRuns(work->product, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSWholeGetLayout(work, 1, &layout));
  if (work->polynomial && !layout->lanes.count) *why = "the matrix of PCPOLY does not fit in the registers of all threads";
  if (*why || !automatic || work->polynomial) PetscFunctionReturn(PETSC_SUCCESS);
  if (!layout->clustered.clusters && layout->nonzeros > IDRS_WHOLE_NONZEROS)
    *why = "the system does not fit in shared memory, so one kernel would not be faster";
  else if (layout->turns > IDRS_WHOLE_TURNS) *why = "the longest row would delay all others";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Returns how many of `asked` solves can run concurrently on the device, if one of them can. 0: one can, but its vectors do not all
   fit in shared memory
*/
static PetscErrorCode IDRSWholeFits(IDRSWork work, PetscInt asked, PetscInt *solves)
{
  const IDRSWholeLayout *layout = NULL;
  const IDRSClustered   *clustered;

  PetscFunctionBegin;
  PetscCall(IDRSWholeGetLayout(work, asked, &layout));
  clustered = layout->solves > 1 ? &layout->clustered : &((const IDRS_CUDA *)work->data)->whole->alone.clustered;
  *solves   = work->polynomial || (clustered->clusters && clustered->layout != IDRS_PANEL_GLOBAL) ? layout->solves : 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Launches blocks with their rows in global memory */
static PetscErrorCode IDRSWholeLaunch_CUDA(IDRSWork work, const IDRSWholeSteps *steps, cudaStream_t stream)
{
  const PetscInt wanted = PetscMax((work->n + IDRS_THREADS - 1) / IDRS_THREADS, 1), /* a row for each thread */
    blocks              = PetscMin(wanted, ((const IDRS_CUDA *)work->data)->multiprocessors);

  PetscFunctionBegin;
  PetscCall(IDRSDispatchWhole(work, [&](auto S, auto shadow) {
    return IDRSLaunchCooperative(IDRSWholeKernel<S>, (unsigned int)blocks, IDRS_THREADS, stream, *steps, shadow);
  }));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the report of the kernel, and the step in which the host continues */
static void IDRSWholeSetReport(IDRSWholeResult *result, IDRSStep *step, IDRSWholeReport *report)
{
  for (PetscInt i = 0; i < result->count; i++) result->squares[i] = PetscSqrtReal(result->squares[i]);
  for (PetscInt i = 0; i < result->updates; i++) result->updated[i].rnorm = PetscSqrtReal(result->updated[i].rnorm);
  *report = {result->completed, result->completed + result->updates + 1, result->count, result->updates, result->squares,
             result->updated};
  *step   = {
    result->k,   result->start ? PETSC_TRUE : PETSC_FALSE, result->unreported ? PETSC_TRUE : PETSC_FALSE, PETSC_FALSE, PETSC_FALSE,
    step->matvec};
}

/* Restarts the numbers of messages, and clears the memory so that it has no old number */
static PetscErrorCode IDRSWholeRenumber(IDRSWork work, cudaStream_t stream)
{
  IDRS_CUDA   *cuda  = (IDRS_CUDA *)work->data;
  IDRSWhole    whole = cuda->whole;
  const size_t n = (size_t)work->n, sums = 2 * IDRS_MESSAGES * IDRS_BLOCKS_PER_SM * (size_t)cuda->multiprocessors;

  PetscFunctionBegin;
  PetscCallCUDA(cudaMemsetAsync(cuda->partials.messages, 0, sums * sizeof(IDRSBlockMessage), stream));
  PetscCallCUDA(cudaMemsetAsync(whole->entries, 0, 2 * n * IDRS_PARTS * sizeof(IDRSBlockMessage), stream));
  cuda->partials.launch = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Sets the arguments of the kernel for a solve, and stores its scalars for the kernel. The addresses of arrays do not change until
   the kernel has ended
*/
static PetscErrorCode IDRSWholeGetSteps(const IDRSWholeTask *task, const IDRSWholeLayout *layout, cudaStream_t stream,
                                        IDRSWholeSteps *steps)
{
  IDRSWork           work     = task->work;
  IDRS_CUDA         *cuda     = (IDRS_CUDA *)work->data;
  const int          count    = task->x && task->anchor ? 6 : 4;
  const Vec          vecs[]   = {work->r, work->z, work->v, work->t, task->x, task->anchor};
  PetscScalar      **arrays[] = {&steps->r, &steps->z, &steps->v, &steps->t, &steps->x, &steps->anchor}, *array;
  const PetscScalar *diagonal;
  Mat                block = NULL;

  PetscFunctionBegin;
  PetscCall(IDRSWholeGetMemory(work, layout));
  PetscCall(IDRSColumnsRead_CUDA(work));
  PetscCall(PetscArraycpy(cuda->whole->result->storage, work->storage, IDRS_STORAGE_SUMS(work->s)));
  if (cuda->partials.launch > UINT32_MAX - IDRS_WHOLE_STEPS) PetscCall(IDRSWholeRenumber(work, stream));
  steps->panels     = cuda->panels;
  steps->own        = (int)layout->own;
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
  for (int i = 0; i < count; i++) {
    PetscCall(IDRSGetArray_CUDA(vecs[i], VecGetArrayAndMemType, &array));
    *arrays[i] = array;
    PetscCall(VecRestoreArrayAndMemType(vecs[i], &array));
  }
  PetscCall(IDRSGetDiagonal_CUDA(work, true, &diagonal));
  steps->diagonal = diagonal;
  PetscCall(IDRSRestoreDiagonal_CUDA(work, &diagonal));
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
  else if (layout->clustered.clusters) PetscCall(IDRSClusteredLaunch_CUDA(work, &layout->clustered, &whole->global, steps, stream));
  else PetscCall(IDRSWholeLaunch_CUDA(work, steps, stream));
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
    PetscCall(IDRSWholeGetStream(whole[i]));
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

  PetscFunctionBegin;
  PetscCall(IDRSWait_CUDA(task->work, cuda->sequence));
  PetscCheck(
    !result->timedout, PETSC_COMM_SELF, PETSC_ERR_GPU,
    "A kernel of KSPIDRS timed out after %g seconds (-petscidrs_nccl_timeout): perhaps not all of its blocks are resident; "
    "use -ksp_idrs_run steps",
    (double)IDRSGetTimeout());
  PetscCall(PetscArraycpy(task->work->storage, result->storage, IDRS_STORAGE(task->work->s)));
  IDRSWholeSetReport(result, &task->outcome.step, &task->report);
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
