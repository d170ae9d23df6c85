/*
   The queues on the device. With one process the projection kernel does the algebra. With several processes and peer access it also
   adds the sums of all processes; with NCCL a reduction and an algebra kernel follow the projection. The host waits for results
   only when it collects them. After the device has stopped, the kernels return at once.
*/
#include "idrscudaimpl.cuh"
#include "../../mat/cuda/offdiagonal.cuh"
#include "../../sys/nccl/idrsnccl.h"

/* Arguments of a separate algebra kernel; the sums may already be in the storage */
typedef struct {
  IDRSAlgebra        algebra;
  const PetscScalar *sums;
} IDRSReduced;

/* One block per column */
template <int S, int N>
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSAlgebraKernel(IDRSOverlap<false, true> overlap, const __grid_constant__ IDRSMembers<N, IDRSReduced> columns, int s)
{
  __shared__ PetscScalar shared[IDRS_STORAGE(S)];
  const IDRSAlgebra     &algebra = columns.Mine().algebra;
  const bool             y       = IDRSStepHasY(&algebra.step, s);
  PetscScalar           *storage;

  overlap.Begin();
  if (algebra.result->stopped) return;
  /* M, f and c of the last step, then the sums of all processes */
  storage = IDRSAlgebraBegin<S>(algebra, s, shared);
  for (PetscInt i = threadIdx.x; i < IDRS_SUMS(s, y); i += IDRS_THREADS) storage[IDRS_STORAGE_SUMS(s) + i] = columns.Mine().sums[i];
  if (y) IDRSAlgebraEnd<S, true>(algebra, s, storage);
  else IDRSAlgebraEnd<S, false>(algebra, s, storage);
}

static PetscErrorCode IDRSQueueConnect_CUDA(const IDRSGroup *group, PetscBool automatic, PetscBool *halo, const char *why[])
{
  PetscFunctionBegin;
  *halo = PETSC_FALSE;
  *why  = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The product exchanges the halo by its scatter */
static PetscErrorCode IDRSQueueConnect_NCCL(const IDRSGroup *group, PetscBool automatic, PetscBool *halo, const char *why[])
{
  PetscFunctionBegin;
  *halo = PETSC_FALSE;
  PetscCall(IDRSNCCLConnect(group->work[0]->comm, why));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSQueueConnect_Peer(const IDRSGroup *group, PetscBool automatic, PetscBool *halo, const char *why[])
{
  const IDRSWorkspace first = group->work[0];

  PetscFunctionBegin;
  *halo = PETSC_FALSE;
  PetscCall(IDRSPeersConnect(first->comm, automatic, NULL, why));
  if (!*why)
    PetscCall(IDRSOffDiagonalConnect(first->product ? first->product->offdiagonal : NULL, first->comm,
                                     group->count > 1 ? IDRS_MAX_WIDTH : 1, halo));
  /* reductions between devices are not faster if the halo goes through the hosts */
  if (!*why && automatic && !*halo) *why = "the halo exchange of matvecs goes through the hosts";
  for (PetscInt i = 0; i < group->count && !*why; i++)
    PetscCall(IDRSPeersConnect(group->work[i]->comm, automatic, &((IDRS_CUDA *)group->work[i]->data)->channel, why));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies of the scalars of a column: to the device, with a result that has not stopped, or to the host, without a result */
typedef struct {
  const PetscScalar *from;
  PetscScalar       *to;
  IDRSResult        *result;
} IDRSMoved;

/* One block per column. The kernel accesses pinned memory of the host directly */
template <int N>
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSMoveScalarsKernel(IDRSOverlap<false, false> overlap, const __grid_constant__ IDRSMembers<N, IDRSMoved> columns, int count)
{
  const IDRSMoved &mine = columns.Mine();

  overlap.Begin();
  for (int i = threadIdx.x; i < count; i += IDRS_THREADS) mine.to[i] = mine.from[i];
  if (mine.result && threadIdx.x == 0) *mine.result = {};
}

static PetscErrorCode IDRSMoveScalars(const IDRSGroup *group, PetscBool tohost, PetscInt count, cudaStream_t stream)
{
  const dim3 blocks(1, (unsigned int)group->count);
  IDRSMoved  moved[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < group->count; i++) {
    const IDRS_CUDA *cuda = (const IDRS_CUDA *)group->work[i]->data;

    /* to the host after all kernels that have been launched; to the device with a result that has not stopped */
    if (tohost) moved[i] = {cuda->storage, cuda->hoststorage, NULL};
    else moved[i] = {cuda->hoststorage, cuda->storage, cuda->result};
  }
  if (group->count == 1) IDRSLaunch<IDRSMoveScalarsKernel<1>>(blocks, stream, IDRSGetMembers<1>(1, moved), (int)count);
  else
    IDRSLaunch<IDRSMoveScalarsKernel<IDRS_MAX_WIDTH>>(blocks, stream, IDRSGetMembers<IDRS_MAX_WIDTH>(group->count, moved),
                                                      (int)count);
  PetscCallCUDA(cudaGetLastError());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Copies the storage, without the sums, to the device, which has not stopped. The host has waited for the device since the last
   copy to the host
*/
static PetscErrorCode IDRSQueueBegin_CUDA(const IDRSGroup *group)
{
  const PetscInt count = IDRS_STORAGE_SUMS(group->work[0]->s);
  cudaStream_t   stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  for (PetscInt i = 0; i < group->count; i++)
    PetscCall(PetscArraycpy(((const IDRS_CUDA *)group->work[i]->data)->hoststorage, group->work[i]->storage, count));
  PetscCall(IDRSMoveScalars(group, PETSC_FALSE, count, stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the algebra that follows the sums of a step */
static IDRSAlgebra IDRSGetAlgebra(IDRSWorkspace work, const IDRSStep *step, const IDRSBounds *bounds)
{
  const IDRS_CUDA *cuda = (const IDRS_CUDA *)work->data;

  return {cuda->storage, cuda->result, *step, *bounds, work->scalars.pivotscale, {}};
}

/* Launches the projections, one launch for all works that have the same step and shadow space */
static PetscErrorCode IDRSLaunchProjections(const IDRSGroup *group, const IDRSStep steps[], const IDRSAlgebra algebra[],
                                            PetscScalar *const sums[])
{
  uint32_t        taken = 0;
  IDRSGroup       same;
  const IDRSStep *step;

  PetscFunctionBegin;
  for (uint32_t before = 0; IDRSGroupNext(group, steps, PETSC_TRUE, &taken, &same, &step); before = taken) {
    IDRSAlgebra  of[IDRS_MAX_WIDTH];
    PetscScalar *to[IDRS_MAX_WIDTH];
    PetscInt     count = 0;

    for (PetscInt i = 0; i < group->count; i++) {
      if (!((taken ^ before) >> i & 1)) continue;
      of[count]   = algebra[i];
      to[count++] = sums[i];
    }
    PetscCall(IDRSProjectLaunch_CUDA(&same, of, to));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Launches projections that also do the algebra. With peer access they first add the sums of all processes */
static PetscErrorCode IDRSQueueLaunch_CUDA(const IDRSGroup *group, const IDRSStep steps[], const IDRSBounds bounds[])
{
  IDRSAlgebra  algebra[IDRS_MAX_WIDTH];
  PetscScalar *sums[IDRS_MAX_WIDTH] = {};

  PetscFunctionBegin;
  for (PetscInt i = 0; i < group->count; i++) {
    const IDRSWorkspace work = group->work[i];

    algebra[i] = IDRSGetAlgebra(work, &steps[i], &bounds[i]);
    /* the kernel of the projection also adds the sums of all processes */
    if (work->queue == &IDRSQueue_Peer)
      PetscCall(IDRSPeersNext(work->comm, ((const IDRS_CUDA *)work->data)->channel, &algebra[i].exchange));
  }
  PetscCall(IDRSLaunchProjections(group, steps, algebra, sums));
  PetscFunctionReturn(PETSC_SUCCESS);
}

template <int N>
static void IDRSLaunchAlgebra(PetscInt count, PetscInt s, cudaStream_t stream, const IDRSReduced reduced[])
{
  const dim3 blocks(1, (unsigned int)count);

  if (s <= 8) IDRSLaunch<IDRSAlgebraKernel<8, N>>(blocks, stream, IDRSGetMembers<N>(count, reduced), (int)s);
  else IDRSLaunch<IDRSAlgebraKernel<16, N>>(blocks, stream, IDRSGetMembers<N>(count, reduced), (int)s);
}

/*
   Launches projections that store the sums of this process, one NCCL reduction for all columns, and the algebra kernel. If the
   device has stopped for a column, old sums are reduced again, or those of another column, and its storage is not changed
*/
static PetscErrorCode IDRSQueueLaunch_NCCL(const IDRSGroup *group, const IDRSStep steps[], const IDRSBounds bounds[])
{
  const IDRSWorkspace first = group->work[0];
  const PetscInt      s = first->s, count = group->count;
  IDRSAlgebra         project[IDRS_MAX_WIDTH];
  IDRSReduced         reduced[IDRS_MAX_WIDTH];
  PetscScalar        *sums[IDRS_MAX_WIDTH], *global, *local = ((const IDRS_CUDA *)first->data)->localsums;
  PetscInt            length = 0;
  cudaStream_t        stream;

  PetscFunctionBegin;
  global = count == 1 ? ((const IDRS_CUDA *)first->data)->storage + IDRS_STORAGE_SUMS(s) : local + IDRS_MAX_WIDTH * IDRS_SUMS(s, 1);
  for (PetscInt i = 0; i < count; i++) {
    reduced[i] = {IDRSGetAlgebra(group->work[i], &steps[i], &bounds[i]), global + length};
    project[i] = reduced[i].algebra;
    sums[i]    = local + length;
    length += IDRS_SUMS(s, IDRSStepHasY(&steps[i], first->s));
    project[i].storage = NULL;
  }
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSLaunchProjections(group, steps, project, sums));
  PetscCall(PetscLogGpuTimeBegin());
  PetscCall(IDRSNCCLAllreduce(first->comm, local, global, length, stream));
  if (count == 1) IDRSLaunchAlgebra<1>(count, s, stream, reduced);
  else IDRSLaunchAlgebra<IDRS_MAX_WIDTH>(count, s, stream, reduced);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSQueueCollect_CUDA(IDRSWorkspace work, const IDRSStep *step, PetscReal *rnorm, PetscBool *stopped)
{
  const IDRS_CUDA  *cuda     = (const IDRS_CUDA *)work->data;
  const uint64_t    sequence = cuda->sequence - (uint64_t)(work->inflight - 1);
  const IDRSResult *result   = cuda->hostresults + sequence % IDRS_MAX_IN_FLIGHT;

  PetscFunctionBegin;
  PetscCall(IDRSWait_CUDA(work, cuda->arrived, sequence));
  *rnorm   = result->rnorm;
  *stopped = result->stopped ? PETSC_TRUE : PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Waits for all kernels, because they may wait for sums of other processes; the host waits at most until the timeout */
static PetscErrorCode IDRSQueueEnd_CUDA(const IDRSGroup *group)
{
  const IDRSWorkspace  first = group->work[0];
  const PetscInt       count = IDRS_STORAGE(first->s);
  const PetscLogDouble began = MPI_Wtime();
  PetscBool            idle  = PETSC_FALSE;
  cudaStream_t         stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  while (first->size > 1 && !idle) {
    PetscCall(IDRSCheckOthers_CUDA(first, MPI_Wtime() - began));
    PetscCall(IDRSStreamIdle_CUDA(stream, &idle));
  }
  PetscCall(IDRSMoveScalars(group, PETSC_TRUE, count, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  for (PetscInt i = 0; i < group->count; i++)
    PetscCall(PetscArraycpy(group->work[i]->storage, ((const IDRS_CUDA *)group->work[i]->data)->hoststorage, count));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Projections that stay in flight while the host waits for one */
#define IDRS_CUDA_DEPTH 2

// clang-format off
const IDRSQueueOps IDRSQueue_CUDA = {
  PetscDesignatedInitializer(name, "cuda"),
  PetscDesignatedInitializer(depth, IDRS_CUDA_DEPTH),
  PetscDesignatedInitializer(connect, IDRSQueueConnect_CUDA),
  PetscDesignatedInitializer(begin, IDRSQueueBegin_CUDA),
  PetscDesignatedInitializer(launch, IDRSQueueLaunch_CUDA),
  PetscDesignatedInitializer(collect, IDRSQueueCollect_CUDA),
  PetscDesignatedInitializer(end, IDRSQueueEnd_CUDA),
  PetscDesignatedInitializer(persistent, &IDRSPersistent_CUDA),
};

const IDRSQueueOps IDRSQueue_NCCL = {
  PetscDesignatedInitializer(name, "nccl"),
  PetscDesignatedInitializer(depth, IDRS_CUDA_DEPTH),
  PetscDesignatedInitializer(connect, IDRSQueueConnect_NCCL),
  PetscDesignatedInitializer(begin, IDRSQueueBegin_CUDA),
  PetscDesignatedInitializer(launch, IDRSQueueLaunch_NCCL),
  PetscDesignatedInitializer(collect, IDRSQueueCollect_CUDA),
  PetscDesignatedInitializer(end, IDRSQueueEnd_CUDA),
};

const IDRSQueueOps IDRSQueue_Peer = {
  PetscDesignatedInitializer(name, "peer"),
  PetscDesignatedInitializer(depth, IDRS_CUDA_DEPTH),
  PetscDesignatedInitializer(connect, IDRSQueueConnect_Peer),
  PetscDesignatedInitializer(begin, IDRSQueueBegin_CUDA),
  PetscDesignatedInitializer(launch, IDRSQueueLaunch_CUDA),
  PetscDesignatedInitializer(collect, IDRSQueueCollect_CUDA),
  PetscDesignatedInitializer(end, IDRSQueueEnd_CUDA),
};
// clang-format on
