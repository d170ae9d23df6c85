/*
   The queue of block recurrences on the device. After the projection of a step, a kernel with one thread block does the algebra of
   idrsblockscalars.h, and writes the coefficients of the combines of this step in the order of their operands. The host waits for
   the norms of a step when it collects them. After the device has stopped, this kernel and the combines return at once.

   The numbers of the recurrence are in the memory of the device. The kernel works on a copy in shared memory if they fit.
*/
#include "idrscudaimpl.cuh"

/* Operands of all sums of a step, with the coefficients from the algebra; host: the operands that were copied last */
typedef struct {
  PetscInt            nx, room;      /* columns of X in all sums, and the number that fits in the memory */
  ulonglong2         *device, *host; /* rows, then pointers to columns; host is pinned */
  IDRSBlockRow       *rows;
  const PetscScalar **X;
  PetscScalar        *C;
} IDRSBlockOperands;

struct _n_IDRSBlockQueue {
  PetscInt           s, m, width;
  size_t             shared, largest; /* bytes of the copy in shared memory, 0 without a copy; and bytes available */
  PetscScalar       *storage, *kept;  /* the numbers; the sums of the step in which the device stopped */
  size_t             storagesize, keptsize;
  IDRSBlockNorms    *norms; /* norms: of the last step, on the device. results: pinned, of step i at i % IDRS_MAX_IN_FLIGHT */
  IDRSBlockNorms    *results;
  uint64_t          *arrived;  /* pinned: the last step whose norms have arrived */
  uint64_t           sequence; /* of the last step launched */
  PetscInt           steps;
  IDRSBlockOperands *operands; /* of each step of a cycle */
};

typedef struct {
  int                 s, m, k, widthbits; /* widthbits: 2, 3 or 4 for 4, 8 or 16 coefficients per column of X */
  PetscScalar        *storage, *kept;
  const PetscScalar  *sums;
  IDRSBlockNorms     *norms, *result;
  uint64_t           *arrived, sequence;
  IDRSBlockBounds     bounds;
  int                 count; /* rows of coefficients */
  const IDRSBlockRow *rows;
  PetscScalar        *C;
} IDRSBlockAlgebra;

/* Writes the coefficients of the combines, zeros beyond m columns. Called by all threads of a block */
static __device__ __forceinline__ void IDRSBlockWriteCoefficients(const IDRSBlockScalars *block, const IDRSBlockAlgebra &algebra)
{
  const int widthbits = algebra.widthbits;

#pragma unroll 4
  for (int e = (int)threadIdx.x; e < algebra.count << widthbits; e += IDRS_THREADS) {
    const IDRSBlockRow row = algebra.rows[e >> widthbits];
    const int          j   = e & ((1 << widthbits) - 1);

    algebra.C[e] = j < block->m ? IDRSBlockScalarsGet(block, &row, j) : (PetscScalar)0.0;
  }
}

/* Copies numbers. Called by all threads of a block */
static __device__ __forceinline__ void IDRSBlockCopy(int count, const PetscScalar *from, PetscScalar *to)
{
#pragma unroll 8
  for (int i = (int)threadIdx.x; i < count; i += IDRS_THREADS) to[i] = from[i];
}

/* Writes the numbers that a step has changed back to the memory of the device. Called by all threads of a block */
static __device__ __forceinline__ void IDRSBlockStore(const IDRSBlockScalars *block, const IDRSBlockScalars *kept, int k)
{
  const int m = block->m, q = block->q;

  if (k < block->s) {
    IDRSBlockCopy(q * m, block->M + k * m * q, kept->M + k * m * q);
    IDRSBlockCopy(q * m, block->alpha + k * m * q, kept->alpha + k * m * q);
    IDRSBlockCopy(m * m, block->inverse + k * m * m, kept->inverse + k * m * m);
    IDRSBlockCopy(q * m, block->beta, kept->beta);
  } else if (threadIdx.x == 0) *kept->omega = *block->omega;
  IDRSBlockCopy(q * m, block->f, kept->f);
}

/* Writes the norms of a step to the host, before the coefficients are written. Called by all threads of a block */
static __device__ __forceinline__ void IDRSBlockSend(const IDRSBlockNorms &norms, const IDRSBlockAlgebra &algebra)
{
  for (int j = (int)threadIdx.x; j < (int)algebra.bounds.count; j += IDRS_THREADS)
    *(volatile PetscReal *)&algebra.result->norms[j] = norms.norms[j];
  if (threadIdx.x == 0) {
    *(volatile PetscReal *)&algebra.result->rnorm   = norms.rnorm;
    *(volatile PetscBool *)&algebra.result->finite  = norms.finite;
    *(volatile PetscBool *)&algebra.result->stopped = norms.stopped;
    algebra.norms->peak                             = norms.peak;
    algebra.norms->stopped                          = norms.stopped;
  }
}

/* Reports the norms, after all threads of a block have written theirs */
static __device__ __forceinline__ void IDRSBlockReport(const IDRSBlockAlgebra &algebra)
{
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) *(volatile uint64_t *)algebra.arrived = algebra.sequence;
}

/*
   This kernel wrote the numbers in the step before, or the host did, in both cases before the projection began. So they are copied
   before the sums of the projection are complete
*/
template <bool SHARED>
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSBlockAlgebraKernel(IDRSOverlap<true, false> overlap, const __grid_constant__ IDRSBlockAlgebra algebra)
{
  extern __shared__ ulonglong2 room[];
  __shared__ IDRSBlockNorms    norms;
  const int                    s = algebra.s, m = algebra.m, nsums = (int)IDRSBlockSumCount(s, m, algebra.k);
  PetscScalar                 *storage = reinterpret_cast<PetscScalar *>(room), *sums = storage + IDRS_BLOCK_STORAGE(s, m);
  IDRSBlockScalars             block, kept;

  IDRSBlockScalarsSetPointers(&block, s, m, SHARED ? storage : algebra.storage);
  IDRSBlockScalarsSetPointers(&kept, s, m, algebra.storage);
  if (SHARED) IDRSBlockCopy(IDRS_BLOCK_KEPT(s, m), algebra.storage, storage);
  if (threadIdx.x == 0) norms.peak = algebra.norms->peak;
  overlap.Begin();
  if (algebra.norms->stopped) return;
  if (SHARED) IDRSBlockCopy(nsums, algebra.sums, sums);
  __syncthreads();
  IDRSBlockScalarsDecide(&block, algebra.k, &algebra.bounds, SHARED ? sums : algebra.sums, &norms);
  IDRSBlockSend(norms, algebra);
  if (norms.stopped) IDRSBlockCopy(nsums, algebra.sums, algebra.kept);
  else {
    IDRSBlockWriteCoefficients(&block, algebra);
    if (SHARED) IDRSBlockStore(&block, &kept, algebra.k);
  }
  IDRSBlockReport(algebra);
}

static PetscErrorCode IDRSBlockOperandsDestroy_CUDA(IDRSBlockOperands *operands)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  operands->nx = operands->room = 0;
  PetscCall(PetscDeviceFree(dctx, operands->device));
  PetscCall(PetscDeviceFree(dctx, operands->host));
  PetscCall(PetscDeviceFree(dctx, operands->C));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSBlockQueueDestroy_CUDA(IDRSBlockQueue *queue)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (!*queue) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  for (PetscInt i = 0; i < (*queue)->steps; i++) PetscCall(IDRSBlockOperandsDestroy_CUDA(&(*queue)->operands[i]));
  PetscCall(PetscFree((*queue)->operands));
  PetscCall(PetscDeviceFree(dctx, (*queue)->storage));
  PetscCall(PetscDeviceFree(dctx, (*queue)->kept));
  PetscCall(PetscDeviceFree(dctx, (*queue)->norms));
  PetscCall(PetscDeviceFree(dctx, (*queue)->results));
  PetscCall(PetscDeviceFree(dctx, (*queue)->arrived));
  PetscCall(PetscFree(*queue));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the queue of a work, without the memory that depends on s and m */
static PetscErrorCode IDRSBlockQueueGet_CUDA(IDRSWork work, IDRSBlockQueue *queue)
{
  IDRS_CUDA         *cuda = (IDRS_CUDA *)work->data;
  PetscDeviceContext dctx;
  int                device, bytes;

  PetscFunctionBegin;
  if (!cuda->blockqueue) {
    PetscCall(PetscNew(&cuda->blockqueue));
    PetscCallCUDA(cudaGetDevice(&device));
    PetscCallCUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    cuda->blockqueue->largest = (size_t)bytes - 2048; /* except for the static shared memory of the kernel */
    PetscCallCUDA(cudaFuncSetAttribute(IDRSBlockAlgebraKernel<true>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       (int)cuda->blockqueue->largest));
    PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &cuda->blockqueue->norms));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_HOST, IDRS_MAX_IN_FLIGHT, &cuda->blockqueue->results));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_HOST, 1, &cuda->blockqueue->arrived));
    *cuda->blockqueue->arrived = 0;
  }
  *queue = cuda->blockqueue;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Allocates memory for numbers on the device */
static PetscErrorCode IDRSBlockQueueGrow_CUDA(size_t count, PetscScalar **numbers, size_t *size)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (count <= *size) PetscFunctionReturn(PETSC_SUCCESS);
  *size = 0;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, *numbers));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, count, numbers));
  *size = count;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSQueueRuns_Block(const IDRSGroup *group, PetscBool automatic, const char *why[])
{
  PetscFunctionBegin;
  *why = group->work[0]->size > 1 ? "the sums of block recurrences go through the hosts" : NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSQueueBegin_Block(const IDRSGroup *group)
{
  const IDRSWork          work    = group->work[0];
  const IDRSBlockScalars *scalars = &work->block->algebra;
  const PetscInt          s = scalars->s, m = scalars->m;
  const size_t            count = (size_t)IDRS_BLOCK_STORAGE(s, m);
  size_t                  shared;
  IDRSBlockNorms          norms = {};
  IDRSBlockQueue          queue = NULL;
  cudaStream_t            stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSBlockQueueGet_CUDA(work, &queue));
  PetscCall(IDRSBlockQueueGrow_CUDA(count, &queue->storage, &queue->storagesize));
  PetscCall(IDRSBlockQueueGrow_CUDA((size_t)IDRSBlockSumCount(s, m, s), &queue->kept, &queue->keptsize));
  if (queue->steps < s + 1) {
    PetscCall(PetscRealloc((size_t)(s + 1) * sizeof(*queue->operands), &queue->operands));
    PetscCall(PetscArrayzero(queue->operands + queue->steps, s + 1 - queue->steps));
    queue->steps = s + 1;
  }
  queue->s      = s;
  queue->m      = m;
  queue->width  = IDRSBlockWidth(m);
  shared        = (count + (size_t)IDRSBlockSumCount(s, m, s)) * sizeof(PetscScalar);
  queue->shared = shared <= queue->largest ? shared : 0;
  norms.peak    = work->block->norms.peak;
  PetscCallCUDA(cudaMemcpyAsync(queue->storage, scalars->M, count * sizeof(PetscScalar), cudaMemcpyHostToDevice, stream));
  PetscCallCUDA(cudaMemcpyAsync(queue->norms, &norms, sizeof(norms), cudaMemcpyHostToDevice, stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Allocates memory for this many columns of X */
static PetscErrorCode IDRSBlockOperandsGrow_CUDA(PetscInt nx, IDRSBlockOperands *operands)
{
  const size_t       bytes = (size_t)nx * (sizeof(IDRSBlockRow) + sizeof(PetscScalar *));
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (nx <= operands->room) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSBlockOperandsDestroy_CUDA(operands));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, bytes / sizeof(*operands->device) + 1, &operands->device));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_HOST, bytes / sizeof(*operands->host) + 1, &operands->host));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, (size_t)(nx * IDRS_MAX_WIDTH), &operands->C));
  operands->room = nx;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Copies the operands of all sums of a step to the device if they have changed. From one cycle to the next they change only while
   columns of G and U are zero. The host has already collected the step for which they were copied last
*/
static PetscErrorCode IDRSBlockSendOperands_CUDA(PetscInt count, const IDRSBlockAxpy sums[], IDRSBlockOperands *operands,
                                                 cudaStream_t stream)
{
  PetscInt            nx = 0, l = 0;
  bool                changed;
  IDRSBlockRow       *rows;
  const PetscScalar **x;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) nx += sums[i].nx;
  PetscCall(IDRSBlockOperandsGrow_CUDA(nx, operands));
  changed      = nx != operands->nx;
  operands->nx = nx;
  rows         = (IDRSBlockRow *)operands->host;
  x            = (const PetscScalar **)(rows + nx);
  for (PetscInt i = 0; i < count; i++) {
    for (PetscInt j = 0; j < sums[i].nx; j++, l++) {
      const IDRSBlockRow *row = &sums[i].rows[j];

      if (!changed && x[l] == sums[i].x[j].array && rows[l].at == row->at && rows[l].ld == row->ld && rows[l].sign == row->sign &&
          rows[l].omega == row->omega)
        continue;
      changed = true;
      rows[l] = *row;
      x[l]    = sums[i].x[j].array;
    }
  }
  operands->rows = (IDRSBlockRow *)operands->device;
  operands->X    = (const PetscScalar **)(operands->rows + nx);
  if (changed && nx)
    PetscCallCUDA(
      cudaMemcpyAsync(operands->device, operands->host, (size_t)nx * (sizeof(*rows) + sizeof(*x)), cudaMemcpyHostToDevice, stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSQueueLaunch_Block(const IDRSGroup *group, const IDRSStep steps[], const IDRSBounds bounds[])
{
  const IDRSWork     work     = group->work[0];
  const IDRSBlock   *block    = work->block;
  IDRS_CUDA         *cuda     = (IDRS_CUDA *)work->data;
  IDRSBlockQueue     queue    = cuda->blockqueue;
  IDRSBlockOperands *operands = &queue->operands[steps->k];
  IDRSBlockAlgebra   algebra  = {};
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSBlockSendOperands_CUDA(block->count, block->sums, operands, stream));
  cuda->prepared    = {queue->width, operands->X, operands->C, &queue->norms->stopped};
  algebra.count     = (int)operands->nx;
  algebra.rows      = operands->rows;
  algebra.C         = operands->C;
  algebra.s         = (int)queue->s;
  algebra.m         = (int)queue->m;
  algebra.k         = (int)steps->k;
  algebra.widthbits = queue->width == 4 ? 2 : (queue->width == 8 ? 3 : 4);
  algebra.storage   = queue->storage;
  algebra.kept      = queue->kept;
  algebra.norms     = queue->norms;
  algebra.sequence  = ++queue->sequence;
  algebra.result    = queue->results + queue->sequence % IDRS_MAX_IN_FLIGHT;
  algebra.arrived   = queue->arrived;
  algebra.bounds    = block->bounds;
  PetscCall(IDRSBlockProjectLaunch_CUDA(work, block->tasks, block->dots, false, &algebra.sums));
  PetscCall(PetscLogGpuTimeBegin());
  if (queue->shared) IDRSLaunchShared<IDRSBlockAlgebraKernel<true>>(dim3(1), queue->shared, true, stream, algebra);
  else IDRSLaunch<IDRSBlockAlgebraKernel<false>>(dim3(1), stream, algebra);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSQueueCollect_Block(IDRSWork work, const IDRSStep *step, PetscReal *rnorm, PetscBool *stopped)
{
  const IDRSBlockQueue queue    = ((IDRS_CUDA *)work->data)->blockqueue;
  const uint64_t       sequence = queue->sequence - (uint64_t)(work->inflight - 1);
  IDRSBlockNorms      *norms    = &work->block->norms;

  PetscFunctionBegin;
  PetscCall(IDRSWaitNumber_CUDA(work, queue->arrived, sequence));
  *norms   = queue->results[sequence % IDRS_MAX_IN_FLIGHT];
  *rnorm   = norms->rnorm;
  *stopped = norms->stopped;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies the numbers, and the sums of the step in which the device has stopped */
static PetscErrorCode IDRSQueueEnd_Block(const IDRSGroup *group)
{
  const IDRSWork          work    = group->work[0];
  const IDRSBlockScalars *scalars = &work->block->algebra;
  const IDRSBlockQueue    queue   = ((IDRS_CUDA *)work->data)->blockqueue;
  const size_t            numbers = (size_t)IDRS_BLOCK_STORAGE(scalars->s, scalars->m);
  cudaStream_t            stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCallCUDA(cudaMemcpyAsync(scalars->M, queue->storage, numbers * sizeof(PetscScalar), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaMemcpyAsync(work->block->results, queue->kept,
                                (size_t)IDRSBlockSumCount(scalars->s, scalars->m, scalars->s) * sizeof(PetscScalar),
                                cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const IDRSQueueOps IDRSQueue_Block = {
  PetscDesignatedInitializer(name, "block"),
  PetscDesignatedInitializer(depth, 1),
  PetscDesignatedInitializer(runs, IDRSQueueRuns_Block),
  PetscDesignatedInitializer(halo, IDRSQueueNoHalo),
  PetscDesignatedInitializer(begin, IDRSQueueBegin_Block),
  PetscDesignatedInitializer(launch, IDRSQueueLaunch_Block),
  PetscDesignatedInitializer(reduce, IDRSQueueReduced),
  PetscDesignatedInitializer(collect, IDRSQueueCollect_Block),
  PetscDesignatedInitializer(end, IDRSQueueEnd_Block),
};
// clang-format on
