/*
   Back end "cuda": the operations of IDR(s) as fused kernels on VECCUDA. Here is PETSc's side, arrays, stream, buffers and
   launches; the kernels are in the .cuh files, an operation each.

   In lockstep sums arrive in pinned memory, where a projection waits for them, the s x s algebra is done on the host, and
   coefficients travel as kernel arguments. After IDRSSend() the numbers are in the memory of the device instead: the
   projection kernels do the algebra, the others take their coefficients from there, and the host waits for results in pinned
   memory only as late as it collects them. When a projection has stopped the device, kernels return at once.
*/
#include <petsc/private/deviceimpl.h>
#include <petsc/private/vecimpl.h>
#include <petscdevice_cuda.h>
#include <petscidrs/private/idrsops.h>
#include <petscidrs/private/idrscompat.h>
#include <atomic>
#include <initializer_list>
#include <type_traits>
#include "update.cuh"
#include "advance.cuh"
#include "project.cuh"
#include "../../sys/nccl/idrsnccl.h"
#include "../../sys/device/stream.h"

/* Results of projections that the host has not collected yet, at most */
#define IDRS_RESULTS 8

/* Blocks that a multiprocessor may hold of any kernel: it has room for 2048 threads */
#define IDRS_BLOCKS_PER_SM (2048 / IDRS_THREADS)

typedef struct {
  IDRSPanels    panels;
  int           multiprocessors;
  bool          overlaps; /* a kernel can be launched before the one that it depends on has ended */
  PetscScalar  *partials;
  PetscReal    *squares, *rr;
  unsigned int  rrblocks; /* that the last update or advance had */
  unsigned int *ticket;
  PetscScalar  *storage;     /* of IDRSScalars */
  IDRSResult   *result;      /* of the last projection that the device has not stopped before */
  IDRSDevices   devices;     /* of all processes, when they add up their sums themselves */
  PetscScalar  *own;         /* sums of this one then */
  PetscScalar  *sums;        /* pinned */
  IDRSResult   *passedon;    /* pinned: that of projection i in place i % IDRS_RESULTS */
  uint64_t     *arrived;     /* pinned: the last projection whose sums or result have come */
  uint64_t      sequence;    /* of the last projection launched */
  cudaEvent_t   here, there; /* see IDRSOrder_CUDA() */
} IDRS_CUDA;

static PetscErrorCode IDRSRuns_CUDA(Vec like, PetscInt s, const char *why[])
{
  PetscBool cuda, device, ghosted;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)like, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  if (!cuda) *why = "back end cuda takes vectors of type cuda";
  else {
    PetscCall(IDRSOnDevice(like, &device));
    PetscCall(IDRSGhosted(like, &ghosted));
    if (!device) *why = "back end cuda takes vectors in the memory of the GPU, and these are bound to the CPU";
    else if (ghosted) *why = "back end cuda takes no ghosted vectors";
    else if (s > IDRS_CUDA_MAX_S) *why = "back end cuda takes at most 64 shadow vectors";
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A panel of zeros, or how much was asked for and how much there is. With cudaMalloc(), as the arrays of VECCUDA: a GPU-aware MPI
   cannot send from the pool that PetscDeviceMalloc() takes memory from, and PETSc never gives the memory of the pool back.
*/
static PetscErrorCode IDRSPanelCreate_CUDA(size_t bytes, cudaStream_t stream, PetscScalar **panel, PetscLogDouble lacking[])
{
  size_t      free = 0, total = 0;
  cudaError_t error = cudaMalloc((void **)panel, PetscMax(bytes, 1));

  PetscFunctionBegin;
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    *panel = NULL;
    PetscCallCUDA(cudaMemGetInfo(&free, &total));
    lacking[0] = (PetscLogDouble)bytes;
    lacking[1] = (PetscLogDouble)free;
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCallCUDA(error);
  PetscCallCUDA(cudaMemsetAsync(*panel, 0, bytes, stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSColumnCreate_CUDA(IDRSWork work, Vec like, PetscScalar *array, Vec *column)
{
  const MPI_Comm comm = PetscObjectComm((PetscObject)like);
  PetscInt       bs, N;
  PetscBool      seq;

  PetscFunctionBegin;
  PetscCall(VecGetBlockSize(like, &bs));
  PetscCall(VecGetSize(like, &N));
  PetscCall(PetscObjectTypeCompare((PetscObject)like, VECSEQCUDA, &seq));
  if (seq) PetscCall(VecCreateSeqCUDAWithArray(comm, bs, work->n, array, column));
  else PetscCall(VecCreateMPICUDAWithArray(comm, bs, work->n, N, array, column));
  PetscCall(IDRSColumnInherit(like, *column));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSCreate_CUDA(IDRSWork work, Vec like)
{
  const PetscInt     s = work->s;
  IDRS_CUDA         *cuda;
  PetscDeviceContext dctx;
  cudaStream_t       stream;
  unsigned int       blocks;
  int                device, major;
  cudaFuncAttributes attributes;
  size_t             bytes;
  PetscLogDouble     lacking[2] = {0, 0};

  PetscFunctionBegin;
  for (PetscInt j = 0; work->P && j < s; j++) {
    PetscBool same;

    PetscCall(PetscObjectTypeCompareAny((PetscObject)work->P[j], &same, VECSEQCUDA, VECMPICUDA, ""));
    PetscCheck(same, work->comm, PETSC_ERR_ARG_WRONG, "KSPIDRSSetShadowVecs(): shadow vector %" PetscInt_FMT " is of type %s, the system is on the GPU", j, ((PetscObject)work->P[j])->type_name);
  }
  PetscCall(PetscNew(&cuda));
  work->data = cuda;
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&cuda->multiprocessors, cudaDevAttrMultiProcessorCount, device));
  PetscCallCUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  PetscCallCUDA(cudaFuncGetAttributes(&attributes, IDRSNextKernel<8>));
  cuda->overlaps  = major >= 9 && attributes.ptxVersion >= 90; /* the kernels wait by themselves when they were compiled for such a device */
  blocks          = (unsigned int)(IDRS_BLOCKS_PER_SM * cuda->multiprocessors);
  cuda->panels.n  = (size_t)work->n;
  cuda->panels.s  = (int)s;
  cuda->panels.ld = ((size_t)work->n * sizeof(PetscScalar) / 512 + 1) * 512 / sizeof(PetscScalar); /* columns begin on 512 bytes */
  bytes           = (size_t)s * cuda->panels.ld * sizeof(PetscScalar);
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSPanelCreate_CUDA(bytes, stream, &cuda->panels.G, lacking));
  if (!(lacking[0] > 0)) PetscCall(IDRSPanelCreate_CUDA(bytes, stream, &cuda->panels.U, lacking));
  PetscCall(IDRSWorkCheckMemory(work, lacking));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, (2 * IDRS_COLUMNS_AT_ONCE + 1) * blocks, &cuda->partials));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, 2 * blocks, &cuda->squares));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, blocks, &cuda->rr));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, IDRS_STORAGE(s), &cuda->storage));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, IDRS_SUMS(s, 1), &cuda->own));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &cuda->ticket));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &cuda->result));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_HOST, IDRS_SUMS(s, 1), &cuda->sums));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_HOST, IDRS_RESULTS, &cuda->passedon));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_HOST, 1, &cuda->arrived));
  *cuda->arrived = 0;
  PetscCallCUDA(cudaEventCreateWithFlags(&cuda->here, cudaEventDisableTiming));
  PetscCallCUDA(cudaEventCreateWithFlags(&cuda->there, cudaEventDisableTiming));
  PetscCall(PetscCalloc1(s, &work->G));
  PetscCall(PetscCalloc1(s, &work->U));
  for (PetscInt j = 0; j < s; j++) {
    PetscCall(IDRSColumnCreate_CUDA(work, like, cuda->panels.G + j * cuda->panels.ld, &work->G[j]));
    PetscCall(IDRSColumnCreate_CUDA(work, like, cuda->panels.U + j * cuda->panels.ld, &work->U[j]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSConnect_CUDA(IDRSWork work, const char *why[])
{
  PetscFunctionBegin;
  PetscCall(IDRSDevicesGet(work->comm, &((IDRS_CUDA *)work->data)->devices, why));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSLost_CUDA(IDRSWork work, PetscBool *lost)
{
  IDRS_CUDA *cuda = (IDRS_CUDA *)work->data;

  PetscFunctionBegin;
  *lost = PETSC_FALSE;
  if (cuda->devices) PetscCall(IDRSDevicesLost(cuda->devices, lost));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSDestroy_CUDA(IDRSWork work)
{
  IDRS_CUDA         *cuda = (IDRS_CUDA *)work->data;
  PetscDeviceContext dctx;
  cudaStream_t       stream;

  PetscFunctionBegin;
  if (cuda && cuda->devices) {
    PetscCall(IDRSStream_CUDA(&stream));
    PetscCall(IDRSDevicesFinish(cuda->devices, stream, work->timeout));
  }
  PetscCall(IDRSColumnsDestroy(work->s, &work->G));
  PetscCall(IDRSColumnsDestroy(work->s, &work->U));
  if (cuda) {
    PetscCallCUDA(cudaFree(cuda->panels.G));
    PetscCallCUDA(cudaFree(cuda->panels.U));
    PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
    PetscCall(PetscDeviceFree(dctx, cuda->partials));
    PetscCall(PetscDeviceFree(dctx, cuda->squares));
    PetscCall(PetscDeviceFree(dctx, cuda->rr));
    PetscCall(PetscDeviceFree(dctx, cuda->storage));
    PetscCall(PetscDeviceFree(dctx, cuda->own));
    PetscCall(PetscDeviceFree(dctx, cuda->ticket));
    PetscCall(PetscDeviceFree(dctx, cuda->result));
    PetscCall(PetscDeviceFree(dctx, cuda->sums));
    PetscCall(PetscDeviceFree(dctx, cuda->passedon));
    PetscCall(PetscDeviceFree(dctx, cuda->arrived));
    if (cuda->here) PetscCallCUDA(cudaEventDestroy(cuda->here));
    if (cuda->there) PetscCallCUDA(cudaEventDestroy(cuda->there));
  }
  PetscCall(PetscFree(work->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Arrays of a vector on the device; the back end was chosen for such vectors */
static PetscErrorCode IDRSGet_CUDA(Vec x, PetscErrorCode (*get)(Vec, PetscScalar **, PetscMemType *), PetscScalar **array)
{
  PetscMemType type;

  PetscFunctionBegin;
  PetscCall((*get)(x, array, &type));
  PetscCheck(PetscMemTypeDevice(type), PETSC_COMM_SELF, PETSC_ERR_ARG_WRONGSTATE, "A work vector of KSPIDRS is not in the memory of the GPU any more");
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSGetRead_CUDA(Vec x, const PetscScalar **array)
{
  PetscMemType type;

  PetscFunctionBegin;
  PetscCall(VecGetArrayReadAndMemType(x, array, &type));
  PetscCheck(PetscMemTypeDevice(type), PETSC_COMM_SELF, PETSC_ERR_ARG_WRONGSTATE, "A work vector of KSPIDRS is not in the memory of the GPU any more");
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Columns are read through the panels; those that somebody has written on the host are copied up first */
static PetscErrorCode IDRSCurrent_CUDA(IDRSWork work)
{
  PetscFunctionBegin;
  for (PetscInt j = 0; j < 2 * work->s; j++) {
    Vec                column = j < work->s ? work->G[j] : work->U[j - work->s];
    const PetscScalar *array;

    if (column->offloadmask != PETSC_OFFLOAD_CPU) continue;
    PetscCall(IDRSGetRead_CUDA(column, &array));
    PetscCall(VecRestoreArrayReadAndMemType(column, &array));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Columns are written through the panels; PETSc is told that the device has their new values */
static PetscErrorCode IDRSChanged_CUDA(Vec column)
{
  PetscScalar *array;

  PetscFunctionBegin;
  PetscCall(VecGetArrayWriteAndMemType(column, &array, NULL));
  PetscCall(VecRestoreArrayWriteAndMemType(column, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Launches a kernel for all rows in packs of width, with as many blocks as the device holds at once, or fewer where these do for the rows;
   returns the number of blocks. A kernel that follows one of ours directly is launched early, and waits for that one itself.
*/
template <auto kernel, typename... Arguments>
static unsigned int IDRSLaunch(const IDRS_CUDA *cuda, int width, bool early, cudaStream_t stream, Arguments... arguments)
{
  static int          resident = 0;
  const size_t        needed   = (cuda->panels.n + (size_t)IDRS_THREADS * width - 1) / ((size_t)IDRS_THREADS * width);
  cudaLaunchConfig_t  config   = {};
  cudaLaunchAttribute attribute;

  if (!resident && cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, IDRS_THREADS, 0) != cudaSuccess) return 0;
  attribute.id                                         = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;

  config.gridDim  = (unsigned int)PetscMax(PetscMin(needed, (size_t)(resident * cuda->multiprocessors)), (size_t)1);
  config.blockDim = IDRS_THREADS;
  config.stream   = stream;
  config.attrs    = &attribute;
  config.numAttrs = early && cuda->overlaps ? 1 : 0;
  (void)cudaLaunchKernelEx(&config, kernel, arguments...); /* IDRSDispatch() returns the error */
  return config.gridDim.x;
}

/*
   Can the rows be taken in packs? Not if there are so few of them that some multiprocessors would be idle then; projections, whose packs are twice as
   large, gain by them all the same
*/
static bool IDRSPacked(const IDRS_CUDA *cuda, std::initializer_list<const void *> arrays)
{
  if (cuda->panels.n < (size_t)(IDRS_PACK * IDRS_THREADS * cuda->multiprocessors)) return false;
  for (const void *array : arrays) {
    if ((uintptr_t)array % IDRS_PACK_BYTES) return false;
  }
  return true;
}

/* Calls launch with the S and W of a kernel as types: S the number of columns to unroll for, 0 for more than 16; W the width of a pack */
template <int N>
using IDRSInt = std::integral_constant<int, N>;

template <typename L>
static cudaError_t IDRSDispatch(PetscInt s, bool packed, L &&launch)
{
  auto wide = [&](auto S) {
    if (packed) launch(S, IDRSInt<IDRS_PACK>());
    else launch(S, IDRSInt<1>());
  };

  if (s <= 1) wide(IDRSInt<1>());
  else if (s <= 2) wide(IDRSInt<2>());
  else if (s <= 4) wide(IDRSInt<4>());
  else if (s <= 8) wide(IDRSInt<8>());
  else if (s <= 16) wide(IDRSInt<16>());
  else wide(IDRSInt<0>());
  return cudaGetLastError();
}

/* Coefficients for update of step k, or with k = -1 for the others; unless they are on the device */
template <int S>
static IDRSCoefficients<S> IDRSGetCoefficients(IDRSWork work, PetscInt k)
{
  IDRSCoefficients<S> c = {};

  for (PetscInt j = 0; !work->ahead && j < work->s; j++) IDRSGetCoefficient<S>(&work->scalars, k, j, &c);
  return c;
}

/* Where a pass finds the storage; whether it is the one that follows a projection */
static IDRSResident IDRSGetResident(IDRSWork work, bool follows)
{
  const IDRS_CUDA *cuda = (IDRS_CUDA *)work->data;

  if (!work->ahead) return {};
  return {cuda->storage, cuda->result, follows ? cuda->passedon + cuda->sequence % IDRS_RESULTS : nullptr, cuda->arrived, cuda->sequence};
}

static PetscErrorCode IDRSCombine_CUDA(IDRSWork work, IDRSCombinePart part, PetscInt k, Vec r, Vec v)
{
  IDRS_CUDA         *cuda  = (IDRS_CUDA *)work->data;
  const bool         first = part != IDRS_COMBINE_U, second = part != IDRS_COMBINE_V;
  Vec                in = first ? r : v;
  const PetscScalar *x;
  PetscScalar       *y = NULL;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(IDRSCurrent_CUDA(work));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSGetRead_CUDA(in, &x));
  if (!second) PetscCall(IDRSGet_CUDA(v, VecGetArrayWriteAndMemType, &y));
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(IDRSDispatch(work->s, IDRSPacked(cuda, {x, y}),
                             [&](auto S, auto W) { IDRSLaunch<IDRSCombineKernel<S, W>>(cuda, W, false, stream, cuda->panels, IDRSGetCoefficients<S>(work, -1), IDRSGetResident(work, false), first, second, (int)k, (int)work->s, x, y); }));
  PetscCall(PetscLogGpuTimeEnd());
  if (!second) PetscCall(VecRestoreArrayWriteAndMemType(v, &y));
  PetscCall(VecRestoreArrayReadAndMemType(in, &x));
  if (second) PetscCall(IDRSChanged_CUDA(work->U[k]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSUpdate_CUDA(IDRSWork work, PetscInt k, PetscBool start, Vec r, IDRSCombinePart part, Vec v)
{
  IDRS_CUDA   *cuda  = (IDRS_CUDA *)work->data;
  const bool   first = part != IDRS_COMBINE_NONE, second = part == IDRS_COMBINE_VU;
  PetscScalar *x, *y                                     = NULL;
  cudaStream_t stream;

  PetscFunctionBegin;
  PetscCall(IDRSCurrent_CUDA(work));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSGet_CUDA(r, VecGetArrayAndMemType, &x));
  if (part == IDRS_COMBINE_V) PetscCall(IDRSGet_CUDA(v, VecGetArrayWriteAndMemType, &y));
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(IDRSDispatch(work->s, IDRSPacked(cuda, {x, y}), [&](auto S, auto W) {
    const IDRSCoefficients<S> c     = IDRSGetCoefficients<S>(work, k);
    const IDRSResident        there = IDRSGetResident(work, true);

    if (start) cuda->rrblocks = IDRSLaunch<IDRSUpdateKernel<S, W, true>>(cuda, W, true, stream, cuda->panels, c, there, first, second, (int)k, (int)k + 1, x, y, cuda->rr);
    else cuda->rrblocks = IDRSLaunch<IDRSUpdateKernel<S, W, false>>(cuda, W, true, stream, cuda->panels, c, there, first, second, (int)k, (int)(first ? work->s : k + 1), x, y, cuda->rr);
  }));
  PetscCall(PetscLogGpuTimeEnd());
  if (part == IDRS_COMBINE_V) PetscCall(VecRestoreArrayWriteAndMemType(v, &y));
  PetscCall(VecRestoreArrayAndMemType(r, &x));
  if (k) {
    PetscCall(IDRSChanged_CUDA(work->G[k]));
    PetscCall(IDRSChanged_CUDA(work->U[k]));
  }
  if (second) PetscCall(IDRSChanged_CUDA(work->U[k + 1]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSAdvance_CUDA(IDRSWork work, Vec p, Vec t, Vec z, Vec r, IDRSCombinePart part, Vec v)
{
  IDRS_CUDA         *cuda  = (IDRS_CUDA *)work->data;
  const bool         first = part != IDRS_COMBINE_NONE, second = part == IDRS_COMBINE_VU;
  const PetscScalar *parray = NULL, *tarray;
  PetscScalar       *zarray, *rarray, *varray = NULL;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(IDRSCurrent_CUDA(work));
  PetscCall(IDRSStream_CUDA(&stream));
  if (p) PetscCall(IDRSGetRead_CUDA(p, &parray));
  PetscCall(IDRSGetRead_CUDA(t, &tarray));
  PetscCall(IDRSGet_CUDA(z, VecGetArrayAndMemType, &zarray));
  PetscCall(IDRSGet_CUDA(r, VecGetArrayAndMemType, &rarray));
  if (part == IDRS_COMBINE_V) PetscCall(IDRSGet_CUDA(v, VecGetArrayWriteAndMemType, &varray));
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(IDRSDispatch(work->s, IDRSPacked(cuda, {parray, tarray, zarray, rarray, varray}), [&](auto S, auto W) {
    cuda->rrblocks = IDRSLaunch<IDRSAdvanceKernel<S, W>>(cuda, W, true, stream, cuda->panels, IDRSGetCoefficients<S>(work, -1), IDRSGetResident(work, true), first, second, (int)(first ? work->s : 0), parray, tarray, zarray, rarray, varray, cuda->rr);
  }));
  PetscCall(PetscLogGpuTimeEnd());
  if (part == IDRS_COMBINE_V) PetscCall(VecRestoreArrayWriteAndMemType(v, &varray));
  PetscCall(VecRestoreArrayAndMemType(r, &rarray));
  PetscCall(VecRestoreArrayAndMemType(z, &zarray));
  PetscCall(VecRestoreArrayReadAndMemType(t, &tarray));
  if (p) PetscCall(VecRestoreArrayReadAndMemType(p, &parray));
  if (second) PetscCall(IDRSChanged_CUDA(work->U[0]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* One launch for up to S columns of the shadow space from the first on */
template <int S, int W, bool Y, bool HASHED>
static void IDRSProjectLaunch(IDRSWork work, PetscInt first, const PetscScalar *P[], const PetscScalar *x, const PetscScalar *y, const IDRSContinuation &how, cudaStream_t stream)
{
  IDRS_CUDA     *cuda    = (IDRS_CUDA *)work->data;
  const IDRSSums out     = {cuda->partials, cuda->squares, cuda->rr, cuda->rrblocks, cuda->ticket, how.result ? cuda->own : cuda->sums, cuda->arrived, first + S < work->s ? 0 : cuda->sequence};
  IDRSColumns<S> columns = {};

  for (int j = 0; P && j < S && first + j < work->s; j++) columns.a[j] = P[first + j];
  (void)IDRSLaunch<IDRSProjectKernel<S, W, Y, HASHED>>(cuda, W, true, stream, (size_t)work->n, (int)work->s, (int)first, IDRSShadowKey(work->seed), (uint64_t)work->rstart, columns, x, y, out, how);
}

/* Waits for projection number sequence: for the number that comes after its sums, as the kernel's end is known much later */
static PetscErrorCode IDRSWait_CUDA(IDRSWork work, uint64_t sequence)
{
  const IDRS_CUDA *cuda  = (const IDRS_CUDA *)work->data;
  PetscLogDouble   began = 0;
  PetscBool        idle;
  cudaStream_t     stream;

  PetscFunctionBegin;
  for (unsigned int polls = 1; *(volatile uint64_t *)cuda->arrived < sequence; polls++) {
    if (polls % 65536 == 0) { /* a kernel that failed sends nothing */
      if (began == 0) began = MPI_Wtime();
      if (cuda->devices) PetscCall(IDRSDevicesCheck(cuda->devices, MPI_Wtime() - began, work->timeout));
      PetscCall(IDRSStream_CUDA(&stream));
      PetscCall(IDRSStreamIdle_CUDA(stream, &idle));
      PetscCheck(!idle || *(volatile uint64_t *)cuda->arrived >= sequence, PETSC_COMM_SELF, PETSC_ERR_GPU, "A projection of KSPIDRS ended without its sums");
    }
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* More than IDRS_COLUMNS_AT_ONCE columns take several launches */
static PetscErrorCode IDRSProject_CUDA(IDRSWork work, Vec x, Vec y, Vec r, const IDRSNext *next)
{
  IDRS_CUDA         *cuda = (IDRS_CUDA *)work->data;
  const PetscScalar *P[IDRS_CUDA_MAX_S], *xarray, *yarray = NULL;
  const PetscInt     s    = work->s;
  IDRSContinuation   here = {}, after;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCheck(work->outstanding < IDRS_RESULTS, work->comm, PETSC_ERR_PLIB, "No room for the result of another projection");
  PetscCall(IDRSStream_CUDA(&stream));
  for (PetscInt j = 0; work->P && j < s; j++) PetscCall(IDRSGetRead_CUDA(work->P[j], &P[j]));
  PetscCall(IDRSGetRead_CUDA(x, &xarray));
  if (y) PetscCall(IDRSGetRead_CUDA(y, &yarray));
  cuda->sequence++;
  if (next) here = {cuda->storage, cuda->result, *next, work->scalars.shadownorm};
  after = here;
  if (cuda->devices) here.storage = NULL;
  PetscCall(PetscLogGpuTimeBegin());
  for (PetscInt first = 0; first < s; first += IDRS_COLUMNS_AT_ONCE) {
    PetscCallCUDA(IDRSDispatch(PetscMin(s, IDRS_COLUMNS_AT_ONCE), IDRSPacked(cuda, {xarray, yarray}), [&](auto S, auto width) {
      constexpr int W = width > 1 ? 2 * width : 1; /* one vector is little to read: more of it at once */

      if constexpr (S > 0) {
        if (work->P) {
          if (y) IDRSProjectLaunch<S, W, true, false>(work, first, P, xarray, yarray, here, stream);
          else IDRSProjectLaunch<S, W, false, false>(work, first, P, xarray, yarray, here, stream);
        } else {
          if (y) IDRSProjectLaunch<S, W, true, true>(work, first, NULL, xarray, yarray, here, stream);
          else IDRSProjectLaunch<S, W, false, true>(work, first, NULL, xarray, yarray, here, stream);
        }
      }
    }));
  }
  if (next && cuda->devices) {
    PetscCall(IDRSDevicesAllreduce(cuda->devices, cuda->own, after.storage + IDRS_STORAGE_SUMS(s), IDRS_SUMS(s, y), stream));
    if (s <= 8) IDRSNextKernel<8><<<1, IDRS_THREADS, 0, stream>>>(after, (int)s);
    else IDRSNextKernel<16><<<1, IDRS_THREADS, 0, stream>>>(after, (int)s);
    PetscCallCUDA(cudaGetLastError());
  }
  PetscCall(PetscLogGpuTimeEnd());
  if (y) PetscCall(VecRestoreArrayReadAndMemType(y, &yarray));
  PetscCall(VecRestoreArrayReadAndMemType(x, &xarray));
  for (PetscInt j = 0; work->P && j < s; j++) PetscCall(VecRestoreArrayReadAndMemType(work->P[j], &P[j]));
  if (!next) {
    PetscCall(IDRSWait_CUDA(work, cuda->sequence));
    PetscCall(PetscArraycpy(work->scalars.sums, cuda->sums, IDRS_SUMS(s, y)));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The storage, without the sums, to the device, which has not stopped */
static PetscErrorCode IDRSSend_CUDA(IDRSWork work)
{
  IDRS_CUDA     *cuda = (IDRS_CUDA *)work->data;
  const PetscInt s    = work->s;
  cudaStream_t   stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCallCUDA(cudaMemcpyAsync(cuda->storage, work->storage, (size_t)IDRS_STORAGE_SUMS(s) * sizeof(PetscScalar), cudaMemcpyHostToDevice, stream));
  PetscCallCUDA(cudaMemsetAsync(cuda->result, 0, sizeof(*cuda->result), stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSCollect_CUDA(IDRSWork work, PetscReal *rnorm, PetscBool *stopped)
{
  const IDRS_CUDA  *cuda     = (IDRS_CUDA *)work->data;
  const uint64_t    sequence = cuda->sequence - (uint64_t)(work->outstanding - 1);
  const IDRSResult *result   = cuda->passedon + sequence % IDRS_RESULTS;

  PetscFunctionBegin;
  PetscCall(IDRSWait_CUDA(work, sequence));
  *rnorm   = result->rnorm;
  *stopped = result->stopped ? PETSC_TRUE : PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* What has been launched since may wait for the sums of other processes, which is bounded as in IDRSWait_CUDA() */
static PetscErrorCode IDRSFetch_CUDA(IDRSWork work)
{
  const IDRS_CUDA     *cuda  = (IDRS_CUDA *)work->data;
  const PetscLogDouble began = MPI_Wtime();
  PetscBool            idle;
  cudaStream_t         stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSStreamIdle_CUDA(stream, &idle));
  while (cuda->devices && !idle) {
    PetscCall(IDRSDevicesCheck(cuda->devices, MPI_Wtime() - began, work->timeout));
    PetscCall(IDRSStreamIdle_CUDA(stream, &idle));
  }
  PetscCallCUDA(cudaMemcpyAsync(work->storage, cuda->storage, (size_t)IDRS_STORAGE(work->s) * sizeof(PetscScalar), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   MATAIJCUSPARSE takes the stream that is PETSc's default when the matrix is made, which is the legacy stream of CUDA if no
   PetscDeviceContext has been set up by then. A stream that does not wait for that one by itself (with
   -root_device_context_stream_type nonblocking) is made to, and the other way round.
*/
static PetscErrorCode IDRSOrder_CUDA(IDRSWork work)
{
  IDRS_CUDA   *cuda   = (IDRS_CUDA *)work->data;
  cudaStream_t stream = NULL;
  unsigned int flags;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  if (!stream) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCallCUDA(cudaStreamGetFlags(stream, &flags));
  if (!(flags & cudaStreamNonBlocking)) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCallCUDA(cudaEventRecord(cuda->here, stream));
  PetscCallCUDA(cudaEventRecord(cuda->there, cudaStreamLegacy));
  PetscCallCUDA(cudaStreamWaitEvent(stream, cuda->there, 0));
  PetscCallCUDA(cudaStreamWaitEvent(cudaStreamLegacy, cuda->here, 0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The speed at which this device copies, measured once: what no pass over vectors in its memory can be much faster than. Left at
   zero where there is not room for arrays that are much larger than the caches.
*/
static PetscErrorCode IDRSCopySpeed_CUDA(IDRSWork work, PetscReal *speed)
{
  static PetscReal measured[64];
  const size_t     bytes = (size_t)256 << 20;
  void            *from, *to;
  cudaStream_t     stream;
  int              device;

  PetscFunctionBegin;
  *speed = 0.0;
  PetscCallCUDA(cudaGetDevice(&device));
  if (device >= (int)PETSC_STATIC_ARRAY_LENGTH(measured)) PetscFunctionReturn(PETSC_SUCCESS);
  if (!(measured[device] > 0.0)) {
    if (cudaMalloc(&from, 2 * bytes) != cudaSuccess) {
      (void)cudaGetLastError();
      PetscCall(PetscInfo(work->G[0], "No room on the GPU to measure its copy speed\n"));
      PetscFunctionReturn(PETSC_SUCCESS);
    }
    to = (char *)from + bytes;
    PetscCall(IDRSStream_CUDA(&stream));
    PetscCallCUDA(cudaMemsetAsync(from, 0, 2 * bytes, stream));
    for (int i = 0; i < 10; i++) {
      cudaEvent_t begin, end;
      float       milliseconds;

      PetscCallCUDA(cudaEventCreate(&begin));
      PetscCallCUDA(cudaEventCreate(&end));
      PetscCallCUDA(cudaEventRecord(begin, stream));
      PetscCallCUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
      PetscCallCUDA(cudaEventRecord(end, stream));
      PetscCallCUDA(cudaEventSynchronize(end));
      PetscCallCUDA(cudaEventElapsedTime(&milliseconds, begin, end));
      measured[device] = PetscMax(measured[device], (PetscReal)(2 * bytes) / (PetscReal)(1e-3 * milliseconds));
      PetscCallCUDA(cudaEventDestroy(begin));
      PetscCallCUDA(cudaEventDestroy(end));
    }
    PetscCallCUDA(cudaFree(from));
  }
  *speed = measured[device];
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const IDRSOps IDRSOps_CUDA = {
  PetscDesignatedInitializer(name, "cuda"),
  PetscDesignatedInitializer(composed, PETSC_FALSE),
  PetscDesignatedInitializer(device, PETSC_TRUE),
  PetscDesignatedInitializer(runs, IDRSRuns_CUDA),
  PetscDesignatedInitializer(create, IDRSCreate_CUDA),
  PetscDesignatedInitializer(connect, IDRSConnect_CUDA),
  PetscDesignatedInitializer(lost, IDRSLost_CUDA),
  PetscDesignatedInitializer(destroy, IDRSDestroy_CUDA),
  PetscDesignatedInitializer(combine, IDRSCombine_CUDA),
  PetscDesignatedInitializer(project, IDRSProject_CUDA),
  PetscDesignatedInitializer(update, IDRSUpdate_CUDA),
  PetscDesignatedInitializer(advance, IDRSAdvance_CUDA),
  PetscDesignatedInitializer(order, IDRSOrder_CUDA),
  PetscDesignatedInitializer(send, IDRSSend_CUDA),
  PetscDesignatedInitializer(collect, IDRSCollect_CUDA),
  PetscDesignatedInitializer(fetch, IDRSFetch_CUDA),
  PetscDesignatedInitializer(copyspeed, IDRSCopySpeed_CUDA),
};
// clang-format on
