/*
   The queues on the device. One process: the projection does the algebra itself. Several: it also adds up the sums of all processes before; or it leaves that to NCCL, and a
   kernel does the algebra. The host waits for results only when it collects them. Where the device has stopped, the kernels return at once.
*/
#include "launch.cuh"
#include "../../sys/nccl/idrsnccl.h"

/* One block: the algebra by itself, from sums that are in the storage */
template <int S>
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSAlgebraKernel(IDRSOverlap<false, true> overlap, IDRSAlgebra algebra, int s)
{
  __shared__ PetscScalar shared[IDRS_STORAGE(S)];
  PetscScalar           *storage;

  overlap.Begin();
  if (algebra.result->stopped) return;
  storage = IDRSAlgebraBegin<S>(algebra, s, shared);
  for (PetscInt i = IDRS_STORAGE_SUMS(s) + threadIdx.x; i < IDRS_STORAGE(s); i += IDRS_THREADS) storage[i] = algebra.storage[i];
  if (algebra.step.start || algebra.step.k == s) IDRSAlgebraEnd<S, true>(algebra, s, storage);
  else IDRSAlgebraEnd<S, false>(algebra, s, storage);
}

static PetscErrorCode IDRSQueueRuns_CUDA(IDRSWork work, PetscBool automatic, const char *why[])
{
  PetscFunctionBegin;
  *why = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSQueueRuns_NCCL(IDRSWork work, PetscBool automatic, const char *why[])
{
  PetscFunctionBegin;
  PetscCall(IDRSNCCLConnect(work->comm, why));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSQueueRuns_Peer(IDRSWork work, PetscBool automatic, const char *why[])
{
  IDRS_CUDA *cuda = (IDRS_CUDA *)work->data;

  PetscFunctionBegin;
  PetscCall(IDRSNCCLRenew(work->comm));
  PetscCall(IDRSPeersConnect(work->comm, automatic, &cuda->channel, why));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSQueueHalo_Peer(IDRSWork work, PetscBool *halo)
{
  PetscFunctionBegin;
  PetscCall(IDRSProductConnect_CUDA(work->product, work->comm, halo));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The storage, without the sums, to the device, which has not stopped */
static PetscErrorCode IDRSQueueBegin_CUDA(IDRSWork work)
{
  IDRS_CUDA   *cuda = (IDRS_CUDA *)work->data;
  cudaStream_t stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCallCUDA(cudaMemcpyAsync(cuda->storage, work->storage, (size_t)IDRS_STORAGE_SUMS(work->s) * sizeof(PetscScalar), cudaMemcpyHostToDevice, stream));
  PetscCallCUDA(cudaMemsetAsync(cuda->result, 0, sizeof(*cuda->result), stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* What follows from the sums of a step */
static IDRSAlgebra IDRSGetAlgebra(IDRSWork work, const IDRSStep *step, const IDRSBounds *bounds)
{
  const IDRS_CUDA *cuda = (const IDRS_CUDA *)work->data;

  return {cuda->storage, cuda->result, *step, *bounds, work->scalars.shadownorm, {}};
}

/* The projection does the algebra */
static PetscErrorCode IDRSQueueLaunch_CUDA(IDRSWork work, const IDRSStep *step, Vec x, Vec y, const IDRSBounds *bounds)
{
  const IDRSAlgebra algebra = IDRSGetAlgebra(work, step, bounds);

  PetscFunctionBegin;
  PetscCall(IDRSProjectLaunch_CUDA(work, x, y, &algebra));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The projection adds up the sums of all processes, and does the algebra */
static PetscErrorCode IDRSQueueLaunch_Peer(IDRSWork work, const IDRSStep *step, Vec x, Vec y, const IDRSBounds *bounds)
{
  const IDRS_CUDA *cuda    = (const IDRS_CUDA *)work->data;
  IDRSAlgebra      algebra = IDRSGetAlgebra(work, step, bounds);

  PetscFunctionBegin;
  PetscCall(IDRSPeersNext(work->comm, cuda->channel, &algebra.exchange));
  PetscCall(IDRSProjectLaunch_CUDA(work, x, y, &algebra));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The projection leaves the sums of this process, NCCL adds them up, and the algebra kernel follows. After the device has stopped, those of the last projection before
   are added up again, and the storage keeps the same sums
*/
static PetscErrorCode IDRSQueueLaunch_NCCL(IDRSWork work, const IDRSStep *step, Vec x, Vec y, const IDRSBounds *bounds)
{
  const IDRS_CUDA  *cuda    = (const IDRS_CUDA *)work->data;
  const PetscInt    s       = work->s;
  const IDRSAlgebra algebra = IDRSGetAlgebra(work, step, bounds);
  IDRSAlgebra       project = algebra;
  cudaStream_t      stream;

  PetscFunctionBegin;
  project.storage = NULL;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSProjectLaunch_CUDA(work, x, y, &project));
  PetscCall(PetscLogGpuTimeBegin());
  PetscCall(IDRSNCCLAllreduce(work->comm, cuda->localsums, cuda->storage + IDRS_STORAGE_SUMS(s), IDRS_SUMS(s, y), stream));
  if (s <= 8) IDRSLaunch<IDRSAlgebraKernel<8>>(1, stream, algebra, (int)s);
  else IDRSLaunch<IDRSAlgebraKernel<16>>(1, stream, algebra, (int)s);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSQueueCollect_CUDA(IDRSWork work, const IDRSStep *step, PetscReal *rnorm, PetscBool *stopped)
{
  const IDRS_CUDA  *cuda     = (const IDRS_CUDA *)work->data;
  const uint64_t    sequence = cuda->sequence - (uint64_t)(work->inflight - 1);
  const IDRSResult *result   = cuda->hostresults + sequence % IDRS_MAX_IN_FLIGHT;

  PetscFunctionBegin;
  PetscCall(IDRSWait_CUDA(work, sequence));
  *rnorm   = result->rnorm;
  *stopped = result->stopped ? PETSC_TRUE : PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Kernels that have been launched may wait for the sums of other processes, and the host not longer than the timeout */
static PetscErrorCode IDRSQueueEnd_CUDA(IDRSWork work)
{
  const IDRS_CUDA     *cuda  = (const IDRS_CUDA *)work->data;
  const PetscLogDouble began = MPI_Wtime();
  PetscBool            idle  = PETSC_FALSE;
  cudaStream_t         stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  while (work->size > 1 && !idle) {
    PetscCall(IDRSCheckOthers_CUDA(work, MPI_Wtime() - began));
    PetscCall(IDRSStreamIdle_CUDA(stream, &idle));
  }
  PetscCallCUDA(cudaMemcpyAsync(work->storage, cuda->storage, (size_t)IDRS_STORAGE(work->s) * sizeof(PetscScalar), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Many steps in one kernel. The scalars are on the device until the host continues */
static PetscErrorCode IDRSQueueWhole_CUDA(IDRSWork work, const IDRSLimits *limits, IDRSStep *step, PetscInt *completed, const PetscReal *norms[])
{
  PetscFunctionBegin;
  PetscCall(IDRSQueueBegin_CUDA(work));
  PetscCall(IDRSWhole_CUDA(work, limits, step, completed, norms));
  PetscCall(IDRSQueueEnd_CUDA(work));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The host launches so many projections before it waits for the first of them */
#define IDRS_CUDA_DEPTH 2

// clang-format off
const IDRSQueueOps IDRSQueue_CUDA = {
  PetscDesignatedInitializer(name, "cuda"),
  PetscDesignatedInitializer(depth, IDRS_CUDA_DEPTH),
  PetscDesignatedInitializer(runs, IDRSQueueRuns_CUDA),
  PetscDesignatedInitializer(halo, IDRSQueueNoHalo),
  PetscDesignatedInitializer(begin, IDRSQueueBegin_CUDA),
  PetscDesignatedInitializer(launch, IDRSQueueLaunch_CUDA),
  PetscDesignatedInitializer(collect, IDRSQueueCollect_CUDA),
  PetscDesignatedInitializer(end, IDRSQueueEnd_CUDA),
  PetscDesignatedInitializer(wholeruns, IDRSWholeRuns_CUDA),
  PetscDesignatedInitializer(whole, IDRSQueueWhole_CUDA),
};

const IDRSQueueOps IDRSQueue_NCCL = {
  PetscDesignatedInitializer(name, "nccl"),
  PetscDesignatedInitializer(depth, IDRS_CUDA_DEPTH),
  PetscDesignatedInitializer(runs, IDRSQueueRuns_NCCL),
  PetscDesignatedInitializer(halo, IDRSQueueNoHalo),
  PetscDesignatedInitializer(begin, IDRSQueueBegin_CUDA),
  PetscDesignatedInitializer(launch, IDRSQueueLaunch_NCCL),
  PetscDesignatedInitializer(collect, IDRSQueueCollect_CUDA),
  PetscDesignatedInitializer(end, IDRSQueueEnd_CUDA),
};

const IDRSQueueOps IDRSQueue_Peer = {
  PetscDesignatedInitializer(name, "peer"),
  PetscDesignatedInitializer(depth, IDRS_CUDA_DEPTH),
  PetscDesignatedInitializer(runs, IDRSQueueRuns_Peer),
  PetscDesignatedInitializer(halo, IDRSQueueHalo_Peer),
  PetscDesignatedInitializer(begin, IDRSQueueBegin_CUDA),
  PetscDesignatedInitializer(launch, IDRSQueueLaunch_Peer),
  PetscDesignatedInitializer(collect, IDRSQueueCollect_CUDA),
  PetscDesignatedInitializer(end, IDRSQueueEnd_CUDA),
};
// clang-format on
