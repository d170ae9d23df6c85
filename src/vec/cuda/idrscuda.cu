/*
   Back end "cuda": the passes of IDR(s) as fused kernels on VECCUDA. This file has the bases and the buffers, access.cu the
   waits of the host. The queues that do the algebra on the device are in idrsqueue.cu.

   Scalars. With the queue of the host the sums of a projection are written to pinned memory, where the host waits for them. The
   host does the algebra, and passes the coefficients as kernel arguments. Between begin and end of a queue on the device the
   scalars are in the memory of the device: the projection, or the algebra kernel after it, does the algebra, and the other kernels
   read their coefficients there. The next update or advance copies the result of a projection to pinned memory, where the host
   collects it later.
*/
#include "idrscudaimpl.cuh"
#include "../../sys/nccl/idrsnccl.h"

static PetscErrorCode IDRSRuns_CUDA(Vec like, PetscInt s, const char *why[])
{
  IDRSMemory place;
  PetscBool  cuda, ghosted;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)like, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  if (!cuda) *why = "back end cuda supports only vectors of type cuda";
  else {
    PetscCall(IDRSVecWhere(like, &place));
    PetscCall(IDRSGhosted(like, &ghosted));
    if (place == IDRS_MEMORY_HOST) *why = "back end cuda supports only vectors in GPU memory, but these are bound to the CPU";
    else if (ghosted) *why = "back end cuda does not support ghosted vectors";
    else if (s > IDRS_CUDA_MAX_S) *why = "back end cuda supports at most 64 shadow vectors";
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Allocates a basis of zeros, or sets lacking to the requested and the free bytes. Uses cudaMalloc(), like the arrays of VECCUDA: a
   GPU-aware MPI cannot send from the memory pool of PetscDeviceMalloc(), and PETSc never releases the memory of the pool.
*/
static PetscErrorCode IDRSBasisCreate_CUDA(size_t bytes, cudaStream_t stream, PetscScalar **basis, PetscLogDouble lacking[])
{
  const char *why = NULL;

  PetscFunctionBegin;
  PetscCall(IDRSMalloc_CUDA(bytes, basis, &why));
  if (*basis) PetscCallCUDA(cudaMemsetAsync(*basis, 0, bytes, stream));
  else {
    lacking[0] = (PetscLogDouble)bytes;
    PetscCall(IDRSGetFreeMemory_CUDA(&lacking[1]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the entries from one column to the next; columns are aligned to 512 bytes */
static size_t IDRSColumnStride(PetscInt n)
{
  return ((size_t)n * sizeof(PetscScalar) / 512 + 1) * 512 / sizeof(PetscScalar);
}

static PetscErrorCode IDRSColumnCreate_CUDA(Vec like, const PetscScalar *array, Vec *column)
{
  const MPI_Comm comm = PetscObjectComm((PetscObject)like);
  PetscInt       bs, n, N;
  PetscBool      seq;

  PetscFunctionBegin;
  PetscCall(VecGetBlockSize(like, &bs));
  PetscCall(VecGetLocalSize(like, &n));
  PetscCall(VecGetSize(like, &N));
  PetscCall(PetscObjectTypeCompare((PetscObject)like, VECSEQCUDA, &seq));
  if (seq) PetscCall(VecCreateSeqCUDAWithArray(comm, bs, n, array, column));
  else PetscCall(VecCreateMPICUDAWithArray(comm, bs, n, N, array, column));
  PetscCall(IDRSColumnInherit(like, *column));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Allocates one array for all vectors, because each allocation and each free takes 0.2 ms */
static PetscErrorCode IDRSVecsCreate_CUDA(Vec like, PetscInt count, Vec vecs[], void **memory)
{
  size_t   ld;
  PetscInt n;

  PetscFunctionBegin;
  PetscCall(VecGetLocalSize(like, &n));
  ld = IDRSColumnStride(n);
  PetscCallCUDA(cudaMalloc(memory, (size_t)count * ld * sizeof(PetscScalar)));
  for (PetscInt j = 0; j < count; j++) PetscCall(IDRSColumnCreate_CUDA(like, (PetscScalar *)*memory + j * ld, &vecs[j]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSVecsFree_CUDA(void **memory)
{
  PetscFunctionBegin;
  PetscCallCUDA(cudaFree(*memory));
  *memory = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSCreate_CUDA(IDRSWorkspace work, Vec like)
{
  const PetscInt     s = work->s;
  IDRS_CUDA         *cuda;
  PetscDeviceContext dctx;
  cudaStream_t       stream;
  unsigned int       blocks;
  int                device;
  size_t             bytes;
  PetscLogDouble     lacking[2] = {0, 0};

  PetscFunctionBegin;
  PetscCall(PetscNew(&cuda));
  work->data    = cuda;
  cuda->channel = -1;
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&cuda->multiprocessors, cudaDevAttrMultiProcessorCount, device));
  blocks         = (unsigned int)(IDRS_BLOCKS_PER_SM * cuda->multiprocessors);
  cuda->bases.n  = (size_t)work->n;
  cuda->bases.s  = (int)s;
  cuda->bases.ld = IDRSColumnStride(work->n);
  bytes          = (size_t)s * cuda->bases.ld * sizeof(PetscScalar);
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSBasisCreate_CUDA(bytes, stream, &cuda->bases.G, lacking));
  if (!(lacking[0] > 0)) PetscCall(IDRSBasisCreate_CUDA(bytes, stream, &cuda->bases.U, lacking));
  PetscCall(IDRSWorkspaceCheckMemory(work, lacking));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 2 * IDRS_MESSAGES * blocks, &cuda->partials.messages));
  cuda->partials.second = cuda->partials.messages + IDRS_MESSAGES * blocks;
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, blocks, &cuda->partials.rr));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, IDRS_STORAGE(s), &cuda->storage));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, IDRS_MAX_WIDTH, &cuda->coefficients));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 2 * IDRS_MAX_WIDTH * IDRS_SUMS(s, 1), &cuda->localsums));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &cuda->result));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_HOST, IDRS_SUMS(s, 1), &cuda->hostsums));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_HOST, IDRS_STORAGE(s), &cuda->hoststorage));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_HOST, IDRS_MAX_IN_FLIGHT, &cuda->hostresults));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_HOST, 1, &cuda->arrived));
  *cuda->arrived = 0;
  PetscCall(PetscCalloc1(s, &work->G));
  PetscCall(PetscCalloc1(s, &work->U));
  for (PetscInt j = 0; j < s; j++) {
    PetscCall(IDRSColumnCreate_CUDA(like, cuda->bases.G + j * cuda->bases.ld, &work->G[j]));
    PetscCall(IDRSColumnCreate_CUDA(like, cuda->bases.U + j * cuda->bases.ld, &work->U[j]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSDestroy_CUDA(IDRSWorkspace work)
{
  const PetscBool    failed = (PetscBool)(work->failed && work->queue); /* the device may still compute sums */
  IDRS_CUDA         *cuda   = (IDRS_CUDA *)work->data;
  PetscDeviceContext dctx;
  cudaStream_t       stream;

  PetscFunctionBegin;
  if (cuda) {
    PetscCall(IDRSStream_CUDA(&stream));
    PetscCall(IDRSPeersFinish(work->comm, &cuda->channel, failed));
    PetscCall(IDRSNCCLFinish(work->comm, stream, failed));
  }
  PetscCall(IDRSColumnsDestroy(work->s, &work->G));
  PetscCall(IDRSColumnsDestroy(work->s, &work->U));
  if (cuda) {
    PetscCallCUDA(cudaFree(cuda->bases.G));
    PetscCallCUDA(cudaFree(cuda->bases.U));
    PetscCall(IDRSPersistentDestroy_CUDA(&cuda->persistent));
    PetscCall(IDRSBlockDestroy_CUDA(&cuda->block));
    PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
    PetscCall(PetscDeviceFree(dctx, cuda->partials.messages));
    PetscCall(PetscDeviceFree(dctx, cuda->partials.rr));
    PetscCall(PetscDeviceFree(dctx, cuda->storage));
    PetscCall(PetscDeviceFree(dctx, cuda->coefficients));
    PetscCall(PetscDeviceFree(dctx, cuda->localsums));
    PetscCall(PetscDeviceFree(dctx, cuda->result));
    PetscCall(PetscDeviceFree(dctx, cuda->hostsums));
    PetscCall(PetscDeviceFree(dctx, cuda->hoststorage));
    PetscCall(PetscDeviceFree(dctx, cuda->hostresults));
    PetscCall(PetscDeviceFree(dctx, cuda->arrived));
  }
  PetscCall(PetscFree(work->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A column of the hashed shadow space, stored: see idrsshadow.h */
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSHashedKernel(uint64_t key, uint64_t rstart, PetscInt column, size_t n, PetscScalar *v)
{
  const uint32_t multiplier = IDRSShadowMultiplier((uint32_t)(column / 2));

  for (size_t i = IDRSFirstRow<1>(); i < n; i += IDRSRowStride<1>())
    v[i] = (PetscReal)IDRSShadowColumnInteger(IDRSShadowRowState(key, rstart + i), multiplier, column % 2) *
           (PetscReal)IDRS_SHADOW_UNIT;
}

static PetscErrorCode IDRSVecSetHashed_CUDA(Vec v, uint64_t key, PetscInt column)
{
  PetscInt     begin, end;
  PetscScalar *array;
  cudaStream_t stream;

  PetscFunctionBegin;
  PetscCall(VecGetOwnershipRange(v, &begin, &end));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSFindArray_CUDA(v, IDRS_WRITE, &array));
  if (begin < end)
    IDRSHashedKernel<<<(unsigned int)PetscMin((end - begin + IDRS_THREADS - 1) / IDRS_THREADS, 65535), IDRS_THREADS, 0, stream>>>(
      key, (uint64_t)begin, column, (size_t)(end - begin), array);
  PetscCallCUDA(cudaGetLastError());
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSVecSend_CUDA(const PetscScalar *from, Vec to)
{
  PetscInt     n;
  PetscScalar *array;
  cudaStream_t stream;

  PetscFunctionBegin;
  PetscCall(VecGetLocalSize(to, &n));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSFindArray_CUDA(to, IDRS_WRITE, &array));
  PetscCall(IDRSTransfer_CUDA((void *)from, array, (size_t)n * sizeof(*from), cudaMemcpyHostToDevice, stream));
  PetscCall(PetscLogCpuToGpu((PetscLogDouble)n * sizeof(*from)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSVecReceive_CUDA(Vec from, PetscScalar *to)
{
  PetscInt           n;
  const PetscScalar *array;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(VecGetLocalSize(from, &n));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSFindArrayRead_CUDA(from, &array));
  PetscCall(IDRSTransfer_CUDA(to, (void *)array, (size_t)n * sizeof(*to), cudaMemcpyDeviceToHost, stream));
  PetscCall(PetscLogGpuToCpu((PetscLogDouble)n * sizeof(*to)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Not MatSeqAIJCUSPARSEGetArrayWrite(), which is an error before the first use of the matrix on the device */
static PetscErrorCode IDRSMatSendValues_CUDA(const PetscScalar *from, Mat to)
{
  MatInfo      info;
  PetscScalar *values;
  cudaStream_t stream;

  PetscFunctionBegin;
  PetscCall(MatGetInfo(to, MAT_LOCAL, &info));
  PetscCall(IDRSStreamJoin_CUDA());
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(MatSeqAIJCUSPARSEGetArray(to, &values));
  PetscCall(IDRSTransfer_CUDA((void *)from, values, (size_t)info.nz_used * sizeof(*from), cudaMemcpyHostToDevice, stream));
  PetscCall(PetscLogCpuToGpu(info.nz_used * sizeof(*from)));
  PetscCall(MatSeqAIJCUSPARSERestoreArray(to, &values));
  PetscCall(IDRSStreamJoin_CUDA());
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const IDRSDeviceOps IDRSDevice_CUDA = {
  PetscDesignatedInitializer(getfree, IDRSGetFreeMemory_CUDA),
  PetscDesignatedInitializer(join, IDRSStreamJoin_CUDA),
  PetscDesignatedInitializer(onarray, IDRSColumnCreate_CUDA),
  PetscDesignatedInitializer(create, IDRSVecsCreate_CUDA),
  PetscDesignatedInitializer(free, IDRSVecsFree_CUDA),
  PetscDesignatedInitializer(gram, IDRSVecGram_CUDA),
  PetscDesignatedInitializer(sethashed, IDRSVecSetHashed_CUDA),
  PetscDesignatedInitializer(send, IDRSVecSend_CUDA),
  PetscDesignatedInitializer(receive, IDRSVecReceive_CUDA),
  PetscDesignatedInitializer(sendvalues, IDRSMatSendValues_CUDA),
};

const IDRSPassOps IDRSPasses_CUDA = {
  PetscDesignatedInitializer(name, "cuda"),
  PetscDesignatedInitializer(device, &IDRSDevice_CUDA),
  PetscDesignatedInitializer(queue, {&IDRSQueue_CUDA, &IDRSQueue_NCCL, &IDRSQueue_Peer}),
  PetscDesignatedInitializer(runs, IDRSRuns_CUDA),
  PetscDesignatedInitializer(create, IDRSCreate_CUDA),
  PetscDesignatedInitializer(destroy, IDRSDestroy_CUDA),
  PetscDesignatedInitializer(combine, IDRSCombine_CUDA),
  PetscDesignatedInitializer(project, IDRSProject_CUDA),
  PetscDesignatedInitializer(update, IDRSUpdate_CUDA),
  PetscDesignatedInitializer(advance, IDRSAdvance_CUDA),
  PetscDesignatedInitializer(additerate, IDRSAddIterate_CUDA),
  PetscDesignatedInitializer(residual, IDRSResidual_CUDA),
  PetscDesignatedInitializer(norms, IDRSNorms_CUDA),
  PetscDesignatedInitializer(blockcombine, IDRSBlockCombine_CUDA),
  PetscDesignatedInitializer(blockproject, IDRSBlockProject_CUDA),
};
// clang-format on
