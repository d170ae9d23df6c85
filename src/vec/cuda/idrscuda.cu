/*
   Back end "cuda": the operations of IDR(s) as fused kernels on VECCUDA. Here is PETSc's side, arrays, stream, buffers and
   launches; the kernels are in the .cuh files, an operation each.

   Sums arrive in pinned memory, and a projection waits for them: the s x s algebra is done on the host. Coefficients travel
   as kernel arguments.
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

/* Blocks of a grid that fill the device: so many on each multiprocessor */
#define IDRS_BLOCKS_PER_SM 8

typedef struct {
  IDRSPanels    panels;
  unsigned int  blocks; /* of a grid at most */
  PetscScalar  *partials;
  PetscReal    *squares, *rr;
  unsigned int  rrblocks; /* that the last update or advance had */
  unsigned int *ticket;
  PetscScalar  *sums;        /* pinned */
  unsigned int *arrived;     /* pinned: the last projection whose sums have come */
  unsigned int  sequence;    /* of the last projection launched */
  cudaEvent_t   here, there; /* see IDRSOrder_CUDA() */
} IDRS_CUDA;

static PetscErrorCode IDRSRuns_CUDA(Vec like, PetscInt s, const char *why[])
{
  PetscBool cuda, bound = PETSC_FALSE;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)like, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  if (!cuda) *why = "back end cuda takes vectors of type cuda";
  else {
    PetscCall(VecBoundToCPU(like, &bound));
    if (bound) *why = "back end cuda takes vectors in the memory of the GPU, and these are bound to the CPU";
    else if (s > IDRS_CUDA_MAX_S) *why = "back end cuda takes at most 64 shadow vectors";
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSStream_CUDA(cudaStream_t *stream)
{
  PetscDeviceContext dctx;
  void              *handle;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceContextGetStreamHandle(dctx, &handle));
  *stream = *(cudaStream_t *)handle;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Device memory, or an error that tells how much was asked for and how much there is */
static PetscErrorCode IDRSMalloc_CUDA(size_t bytes, const char what[], void **memory)
{
  size_t      free = 0, total = 0;
  cudaError_t error = cudaMalloc(memory, PetscMax(bytes, 1));

  PetscFunctionBegin;
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    *memory = NULL;
    PetscCallCUDA(cudaMemGetInfo(&free, &total));
    SETERRQ(PETSC_COMM_SELF, PETSC_ERR_MEM, "%s of KSPIDRS needs %zu bytes on the GPU, where %zu are free: take a smaller -ksp_idrs_s", what, bytes, free);
  }
  PetscCallCUDA(error);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSColumnCreate_CUDA(IDRSSpace space, Vec like, PetscScalar *array, Vec *column)
{
  const MPI_Comm comm = PetscObjectComm((PetscObject)like);
  PetscInt       bs, N;
  PetscBool      seq;

  PetscFunctionBegin;
  PetscCall(VecGetBlockSize(like, &bs));
  PetscCall(VecGetSize(like, &N));
  PetscCall(PetscObjectTypeCompare((PetscObject)like, VECSEQCUDA, &seq));
  if (seq) PetscCall(VecCreateSeqCUDAWithArray(comm, bs, space->n, array, column));
  else PetscCall(VecCreateMPICUDAWithArray(comm, bs, space->n, N, array, column));
  PetscCall(PetscObjectListDuplicate(((PetscObject)like)->olist, &((PetscObject)*column)->olist));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSCreate_CUDA(IDRSSpace space, Vec like)
{
  const PetscInt s = space->s;
  IDRS_CUDA     *cuda;
  int            device, sms;
  size_t         bytes;

  PetscFunctionBegin;
  for (PetscInt j = 0; space->P && j < s; j++) {
    PetscBool same;

    PetscCall(PetscObjectTypeCompareAny((PetscObject)space->P[j], &same, VECSEQCUDA, VECMPICUDA, ""));
    PetscCheck(same, space->comm, PETSC_ERR_ARG_WRONG, "KSPIDRSSetShadowVecs(): shadow vector %" PetscInt_FMT " is of type %s, the system is on the GPU", j, ((PetscObject)space->P[j])->type_name);
  }
  PetscCall(PetscNew(&cuda));
  space->data = cuda;
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  cuda->blocks    = (unsigned int)(IDRS_BLOCKS_PER_SM * sms);
  cuda->panels.n  = (size_t)space->n;
  cuda->panels.s  = (int)s;
  cuda->panels.ld = ((size_t)space->n * sizeof(PetscScalar) / 512 + 1) * 512 / sizeof(PetscScalar); /* columns begin on 512 bytes */
  bytes           = (size_t)s * cuda->panels.ld * sizeof(PetscScalar);
  PetscCall(IDRSMalloc_CUDA(bytes, "The panel G", (void **)&cuda->panels.G));
  PetscCall(IDRSMalloc_CUDA(bytes, "The panel U", (void **)&cuda->panels.U));
  PetscCall(IDRSMalloc_CUDA((2 * 16 + 1) * cuda->blocks * sizeof(PetscScalar), "A buffer", (void **)&cuda->partials));
  PetscCall(IDRSMalloc_CUDA(2 * cuda->blocks * sizeof(PetscReal), "A buffer", (void **)&cuda->squares));
  PetscCall(IDRSMalloc_CUDA(cuda->blocks * sizeof(PetscReal), "A buffer", (void **)&cuda->rr));
  PetscCall(IDRSMalloc_CUDA(sizeof(unsigned int), "A buffer", (void **)&cuda->ticket));
  PetscCallCUDA(cudaMemset(cuda->ticket, 0, sizeof(unsigned int)));
  PetscCallCUDA(cudaDeviceSynchronize()); /* the stream of the kernels may not wait for that of the memset */
  PetscCallCUDA(cudaHostAlloc((void **)&cuda->sums, IDRS_SUMS(s) * sizeof(PetscScalar), cudaHostAllocDefault));
  PetscCallCUDA(cudaHostAlloc((void **)&cuda->arrived, sizeof(unsigned int), cudaHostAllocDefault));
  *cuda->arrived = 0;
  PetscCallCUDA(cudaEventCreateWithFlags(&cuda->here, cudaEventDisableTiming));
  PetscCallCUDA(cudaEventCreateWithFlags(&cuda->there, cudaEventDisableTiming));
  PetscCall(PetscCalloc1(s, &space->G));
  PetscCall(PetscCalloc1(s, &space->U));
  for (PetscInt j = 0; j < s; j++) {
    PetscCall(IDRSColumnCreate_CUDA(space, like, cuda->panels.G + j * cuda->panels.ld, &space->G[j]));
    PetscCall(IDRSColumnCreate_CUDA(space, like, cuda->panels.U + j * cuda->panels.ld, &space->U[j]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSDestroy_CUDA(IDRSSpace space)
{
  IDRS_CUDA *cuda = (IDRS_CUDA *)space->data;

  PetscFunctionBegin;
  PetscCall(IDRSColumnsDestroy(space->s, &space->G));
  PetscCall(IDRSColumnsDestroy(space->s, &space->U));
  if (cuda) {
    PetscCallCUDA(cudaFree(cuda->panels.G));
    PetscCallCUDA(cudaFree(cuda->panels.U));
    PetscCallCUDA(cudaFree(cuda->partials));
    PetscCallCUDA(cudaFree(cuda->squares));
    PetscCallCUDA(cudaFree(cuda->rr));
    PetscCallCUDA(cudaFree(cuda->ticket));
    PetscCallCUDA(cudaFreeHost(cuda->sums));
    PetscCallCUDA(cudaFreeHost(cuda->arrived));
    if (cuda->here) PetscCallCUDA(cudaEventDestroy(cuda->here));
    if (cuda->there) PetscCallCUDA(cudaEventDestroy(cuda->there));
  }
  PetscCall(PetscFree(space->data));
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
static PetscErrorCode IDRSCurrent_CUDA(IDRSSpace space)
{
  PetscFunctionBegin;
  for (PetscInt j = 0; j < 2 * space->s; j++) {
    Vec                column = j < space->s ? space->G[j] : space->U[j - space->s];
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

/* Grid for n rows in packs of width, at most what fills the device */
static unsigned int IDRSGrid(const IDRS_CUDA *cuda, int width)
{
  const size_t blocks = (cuda->panels.n + (size_t)IDRS_THREADS * width - 1) / ((size_t)IDRS_THREADS * width);

  return (unsigned int)PetscMax(PetscMin(blocks, (size_t)cuda->blocks), (size_t)1);
}

static bool IDRSAligned(std::initializer_list<const void *> arrays)
{
  for (const void *array : arrays) {
    if ((uintptr_t)array % IDRS_PACK_BYTES) return false;
  }
  return true;
}

/* Calls launch with the S and W of a kernel as types: S the number of columns to unroll for, 0 for more than 16; W the width of a pack */
template <int N>
using IDRSInt = std::integral_constant<int, N>;

template <typename L>
static cudaError_t IDRSDispatch(PetscInt s, bool aligned, L &&launch)
{
  auto wide = [&](auto S) {
    if (aligned) launch(S, IDRSInt<IDRS_PACK>());
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

static IDRSCoefficients IDRSGetCoefficients(const IDRSSmall *small, PetscInt k, PetscInt e)
{
  IDRSCoefficients c;

  c.omega = small->omega[0];
  c.beta  = k < 0 ? (PetscScalar)0.0 : small->beta[k];
  for (PetscInt j = 0; j < k; j++) c.a[j] = small->alpha[j];
  for (PetscInt j = k + 1; j < e; j++) c.a[j] = small->c[j];
  return c;
}

static PetscErrorCode IDRSCombine_CUDA(IDRSSpace space, IDRSCombinePart part, PetscInt k, PetscInt e, Vec r, Vec v)
{
  IDRS_CUDA             *cuda  = (IDRS_CUDA *)space->data;
  const bool             first = part != IDRS_COMBINE_U, second = part != IDRS_COMBINE_V;
  const IDRSCoefficients c  = IDRSGetCoefficients(&space->small, -1, e);
  Vec                    in = first ? r : v;
  const PetscScalar     *x;
  PetscScalar           *y = NULL;
  cudaStream_t           stream;

  PetscFunctionBegin;
  PetscCall(IDRSCurrent_CUDA(space));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSGetRead_CUDA(in, &x));
  if (!second) PetscCall(IDRSGet_CUDA(v, VecGetArrayWriteAndMemType, &y));
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(IDRSDispatch(space->s, IDRSAligned({x, y}), [&](auto S, auto W) { IDRSCombineKernel<S, W><<<IDRSGrid(cuda, W), IDRS_THREADS, 0, stream>>>(cuda->panels, c, first, second, (int)k, (int)e, x, y); }));
  PetscCall(PetscLogGpuTimeEnd());
  if (!second) PetscCall(VecRestoreArrayWriteAndMemType(v, &y));
  PetscCall(VecRestoreArrayReadAndMemType(in, &x));
  if (second) PetscCall(IDRSChanged_CUDA(space->U[k]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSUpdate_CUDA(IDRSSpace space, PetscInt k, Vec r, IDRSCombinePart part, PetscInt e, Vec v)
{
  IDRS_CUDA             *cuda  = (IDRS_CUDA *)space->data;
  const bool             first = part != IDRS_COMBINE_NONE, second = part == IDRS_COMBINE_VU;
  const IDRSCoefficients c = IDRSGetCoefficients(&space->small, k, first ? e : k + 1);
  PetscScalar           *x, *y = NULL;
  cudaStream_t           stream;

  PetscFunctionBegin;
  PetscCall(IDRSCurrent_CUDA(space));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSGet_CUDA(r, VecGetArrayAndMemType, &x));
  if (part == IDRS_COMBINE_V) PetscCall(IDRSGet_CUDA(v, VecGetArrayWriteAndMemType, &y));
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(IDRSDispatch(space->s, IDRSAligned({x, y}), [&](auto S, auto W) {
    cuda->rrblocks = IDRSGrid(cuda, W);
    IDRSUpdateKernel<S, W><<<cuda->rrblocks, IDRS_THREADS, 0, stream>>>(cuda->panels, c, first, second, (int)k, (int)(first ? e : k + 1), x, y, cuda->rr);
  }));
  PetscCall(PetscLogGpuTimeEnd());
  if (part == IDRS_COMBINE_V) PetscCall(VecRestoreArrayWriteAndMemType(v, &y));
  PetscCall(VecRestoreArrayAndMemType(r, &x));
  if (k) {
    PetscCall(IDRSChanged_CUDA(space->G[k]));
    PetscCall(IDRSChanged_CUDA(space->U[k]));
  }
  if (second) PetscCall(IDRSChanged_CUDA(space->U[k + 1]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSAdvance_CUDA(IDRSSpace space, Vec p, Vec t, Vec z, Vec r, IDRSCombinePart part, PetscInt e, Vec v)
{
  IDRS_CUDA             *cuda  = (IDRS_CUDA *)space->data;
  const bool             first = part != IDRS_COMBINE_NONE, second = part == IDRS_COMBINE_VU;
  const IDRSCoefficients c = IDRSGetCoefficients(&space->small, -1, first ? e : 0);
  IDRSBeta               beta;
  const PetscScalar     *parray = NULL, *tarray;
  PetscScalar           *zarray, *rarray, *varray = NULL;
  cudaStream_t           stream;

  PetscFunctionBegin;
  for (PetscInt j = 0; j < space->s; j++) beta.a[j] = space->small.beta[j];
  PetscCall(IDRSCurrent_CUDA(space));
  PetscCall(IDRSStream_CUDA(&stream));
  if (p) PetscCall(IDRSGetRead_CUDA(p, &parray));
  PetscCall(IDRSGetRead_CUDA(t, &tarray));
  PetscCall(IDRSGet_CUDA(z, VecGetArrayAndMemType, &zarray));
  PetscCall(IDRSGet_CUDA(r, VecGetArrayAndMemType, &rarray));
  if (part == IDRS_COMBINE_V) PetscCall(IDRSGet_CUDA(v, VecGetArrayWriteAndMemType, &varray));
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(IDRSDispatch(space->s, IDRSAligned({parray, tarray, zarray, rarray, varray}), [&](auto S, auto W) {
    cuda->rrblocks = IDRSGrid(cuda, W);
    IDRSAdvanceKernel<S, W><<<cuda->rrblocks, IDRS_THREADS, 0, stream>>>(cuda->panels, c, beta, first, second, (int)(first ? e : 0), parray, tarray, zarray, rarray, varray, cuda->rr);
  }));
  PetscCall(PetscLogGpuTimeEnd());
  if (part == IDRS_COMBINE_V) PetscCall(VecRestoreArrayWriteAndMemType(v, &varray));
  PetscCall(VecRestoreArrayAndMemType(r, &rarray));
  PetscCall(VecRestoreArrayAndMemType(z, &zarray));
  PetscCall(VecRestoreArrayReadAndMemType(t, &tarray));
  if (p) PetscCall(VecRestoreArrayReadAndMemType(p, &parray));
  if (second) PetscCall(IDRSChanged_CUDA(space->U[0]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* One launch for up to S columns of the shadow space from the first on */
template <int S, int W, bool Y, bool HASHED>
static void IDRSProjectLaunch(IDRSSpace space, PetscInt first, const PetscScalar *P[], const PetscScalar *x, const PetscScalar *y, cudaStream_t stream)
{
  IDRS_CUDA     *cuda    = (IDRS_CUDA *)space->data;
  const IDRSSums out     = {cuda->partials, cuda->squares, cuda->rr, cuda->rrblocks, cuda->ticket, cuda->sums, cuda->arrived, first + S < space->s ? 0 : cuda->sequence};
  IDRSColumns<S> columns = {};

  for (int j = 0; P && j < S && first + j < space->s; j++) columns.a[j] = P[first + j];
  IDRSProjectKernel<S, W, Y, HASHED><<<IDRSGrid(cuda, W), IDRS_THREADS, 0, stream>>>((size_t)space->n, (int)space->s, (int)first, IDRSShadowKey(space->seed), (uint64_t)space->rstart, columns, x, y, out);
}

/* Waits for the sums of the last projection: for the number that comes after them, as the kernel's end is known much later */
static PetscErrorCode IDRSWait_CUDA(const IDRS_CUDA *cuda, cudaStream_t stream)
{
  PetscFunctionBegin;
  for (unsigned int polls = 1; *(volatile unsigned int *)cuda->arrived != cuda->sequence; polls++) {
    if (polls % 65536 == 0) { /* a kernel that failed sends nothing */
      const cudaError_t error = cudaStreamQuery(stream);

      if (error == cudaErrorNotReady) continue;
      PetscCallCUDA(error);
      PetscCheck(*(volatile unsigned int *)cuda->arrived == cuda->sequence, PETSC_COMM_SELF, PETSC_ERR_GPU, "A projection of KSPIDRS ended without its sums");
    }
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* More than 16 columns take several launches */
static PetscErrorCode IDRSProject_CUDA(IDRSSpace space, Vec x, Vec y, Vec r, PetscScalar sums[])
{
  IDRS_CUDA         *cuda = (IDRS_CUDA *)space->data;
  const PetscScalar *P[IDRS_CUDA_MAX_S], *xarray, *yarray = NULL;
  const PetscInt     s = space->s, entries = y ? IDRS_SUMS(s) : s + 2;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  for (PetscInt j = 0; space->P && j < s; j++) PetscCall(IDRSGetRead_CUDA(space->P[j], &P[j]));
  PetscCall(IDRSGetRead_CUDA(x, &xarray));
  if (y) PetscCall(IDRSGetRead_CUDA(y, &yarray));
  PetscCall(PetscLogGpuTimeBegin());
  if (++cuda->sequence == 0) cuda->sequence = 1; /* 0 is for launches that others follow */
  for (PetscInt first = 0; first < s; first += 16) {
    PetscCallCUDA(IDRSDispatch(PetscMin(s, 16), IDRSAligned({xarray, yarray}), [&](auto S, auto W) {
      if constexpr (S > 0) {
        if (space->P) {
          if (y) IDRSProjectLaunch<S, W, true, false>(space, first, P, xarray, yarray, stream);
          else IDRSProjectLaunch<S, W, false, false>(space, first, P, xarray, yarray, stream);
        } else {
          if (y) IDRSProjectLaunch<S, W, true, true>(space, first, NULL, xarray, yarray, stream);
          else IDRSProjectLaunch<S, W, false, true>(space, first, NULL, xarray, yarray, stream);
        }
      }
    }));
  }
  PetscCall(PetscLogGpuTimeEnd());
  if (y) PetscCall(VecRestoreArrayReadAndMemType(y, &yarray));
  PetscCall(VecRestoreArrayReadAndMemType(x, &xarray));
  for (PetscInt j = 0; space->P && j < s; j++) PetscCall(VecRestoreArrayReadAndMemType(space->P[j], &P[j]));
  PetscCall(IDRSWait_CUDA(cuda, stream));
  PetscCall(PetscArraycpy(sums, cuda->sums, entries));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   MATAIJCUSPARSE takes the stream that is PETSc's default when the matrix is made, which is the legacy stream of CUDA if no
   PetscDeviceContext has been set up by then. A stream that does not wait for that one by itself (with
   -root_device_context_stream_type nonblocking) is made to, and the other way round.
*/
static PetscErrorCode IDRSOrder_CUDA(IDRSSpace space)
{
  IDRS_CUDA   *cuda   = (IDRS_CUDA *)space->data;
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

const IDRSOps IDRSOps_CUDA = {"cuda", PETSC_FALSE, PETSC_TRUE, IDRSRuns_CUDA, IDRSCreate_CUDA, IDRSDestroy_CUDA, IDRSCombine_CUDA, IDRSProject_CUDA, IDRSUpdate_CUDA, IDRSAdvance_CUDA, IDRSOrder_CUDA};
