/*
   block combine:  Y = D X(:,0:scaled) C(0:scaled,:) + X(:,scaled:nx) C(scaled:nx,:), or Y += that. Reads X and D, or Y, too, writes Y, a column of which may be one of X.

   One thread owns a pack of rows and all columns of Y, whose entries are in registers while the columns of X stream by: each operand is read once. Coefficients, and pointers to the columns, as
   there may be hundreds, come through shared memory, in parts. Without tensor cores: up to 16 columns it is the memory that takes the time.
*/
#include "launch.cuh"

/* Columns of X whose coefficients are in shared memory at a time, and those that a thread loads at a time */
#define IDRS_BLOCK_PART  64
#define IDRS_BLOCK_LOADS 8

typedef struct {
  PetscScalar *y[IDRS_MAX_WIDTH];
  int          count;
  bool         add;
} IDRSBlockTargets;

/* Rows [i, i+W) of x, all of which are there where WHOLE says so: without a branch, so that many loads are under way at once */
template <int W, bool WHOLE>
static __device__ __forceinline__ IDRSPack<W> IDRSBlockLoad(const PetscScalar *x, size_t i, size_t n)
{
  if constexpr (WHOLE) return *reinterpret_cast<const IDRSPack<W> *>(x + i);
  else return IDRSLoad<W>(x, i, n);
}

/* y += X C on the rows of this thread, for the columns whose pointers and coefficients are in shared memory */
template <int M, int W, bool WHOLE>
static __device__ __forceinline__ void IDRSBlockAddPart(size_t i, size_t n, int columns, const PetscScalar *const *x, const PetscScalar *c, IDRSPack<W> y[M])
{
  for (int first = 0; first < columns; first += IDRS_BLOCK_LOADS) {
    IDRSPack<W> part[IDRS_BLOCK_LOADS];

#pragma unroll
    for (int l = 0; l < IDRS_BLOCK_LOADS; l++) part[l] = first + l < columns ? IDRSBlockLoad<W, WHOLE>(x[first + l], i, n) : IDRSZero<W>();
#pragma unroll
    for (int l = 0; l < IDRS_BLOCK_LOADS; l++) {
      if (first + l < columns) {
#pragma unroll
        for (int j = 0; j < M; j++) IDRSAdd<W>(y[j], c[(first + l) * M + j], part[l]);
      }
    }
  }
}

/* y += X C, for the columns of X from first to end - 1. By all threads of a block */
template <int M, int W>
static __device__ __forceinline__ void IDRSBlockAdd(size_t i, size_t n, int first, int end, const PetscScalar *const *X, const PetscScalar *C, IDRSPack<W> y[M])
{
  __shared__ const PetscScalar *x[IDRS_BLOCK_PART];
  __shared__ PetscScalar        c[IDRS_BLOCK_PART * M];

  for (; first < end; first += IDRS_BLOCK_PART) {
    const int columns = min(end - first, IDRS_BLOCK_PART);

    __syncthreads();
    for (int l = threadIdx.x; l < columns * M; l += IDRS_THREADS) c[l] = C[(size_t)first * M + l];
    for (int l = threadIdx.x; l < columns; l += IDRS_THREADS) x[l] = X[first + l];
    __syncthreads();
    if (i + W <= n) IDRSBlockAddPart<M, W, true>(i, n, columns, x, c, y);
    else if (i < n) IDRSBlockAddPart<M, W, false>(i, n, columns, x, c, y);
  }
}

template <int M, int W>
static __global__ void __launch_bounds__(IDRS_THREADS, 2) IDRSBlockCombineKernel(size_t n, int nx, int scaled, const PetscScalar *const *X, const PetscScalar *C, const PetscScalar *diagonal, const __grid_constant__ IDRSBlockTargets to)
{
  const size_t i = IDRSFirstRow<W>();
  IDRSPack<W>  y[M];

#pragma unroll
  for (int j = 0; j < M; j++) y[j] = IDRSZero<W>();
  IDRSBlockAdd<M, W>(i, n, 0, scaled, X, C, y);
  if (scaled && i < n) {
    const IDRSPack<W> d = IDRSLoad<W>(diagonal, i, n);

#pragma unroll
    for (int j = 0; j < M; j++) IDRSScaleEntries<W>(y[j], d);
  }
  if (to.add && i < n) {
#pragma unroll
    for (int j = 0; j < M; j++) {
      if (j < to.count) IDRSAdd<W>(y[j], 1.0, IDRSLoad<W>(to.y[j], i, n));
    }
  }
  IDRSBlockAdd<M, W>(i, n, scaled, nx, X, C, y);
#pragma unroll
  for (int j = 0; j < M; j++) {
    if (j < to.count && i < n) IDRSStore<W>(to.y[j], i, n, y[j]);
  }
}

PetscErrorCode IDRSBlockArray_CUDA(Vec vec, PetscScalar **array)
{
  PetscScalar *a;

  PetscFunctionBegin;
  PetscCall(IDRSGetArray_CUDA(vec, VecGetArrayAndMemType, &a));
  *array = a;
  PetscCall(VecRestoreArrayAndMemType(vec, &a));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSBlockDestroy_CUDA(IDRSBlockMemory *memory)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, memory->operands));
  PetscCall(PetscDeviceFree(dctx, memory->partials));
  PetscCall(PetscDeviceFree(dctx, memory->sums));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Room for so many bytes of operands on the device */
static PetscErrorCode IDRSBlockGetOperands_CUDA(IDRS_CUDA *cuda, size_t bytes, char **operands)
{
  IDRSBlockMemory   *memory = &cuda->block;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (bytes > memory->operandbytes) {
    memory->operandbytes = 0;
    PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
    PetscCall(PetscDeviceFree(dctx, memory->operands));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, (bytes + sizeof(*memory->operands) - 1) / sizeof(*memory->operands), &memory->operands));
    memory->operandbytes = bytes;
  }
  *operands = (char *)memory->operands;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Pointers to the columns of X, and behind them the coefficients, M for each, as the kernel takes them; tells whether all arrays can be accessed in packs */
template <int M>
static PetscErrorCode IDRSBlockSendOperands_CUDA(IDRS_CUDA *cuda, const IDRSBlockAxpy *sum, cudaStream_t stream, const PetscScalar *const **X, const PetscScalar **C, bool *packed)
{
  const size_t nx = (size_t)sum->nx, begin = (nx * sizeof(*X) + 15) / 16 * 16, bytes = begin + nx * M * sizeof(PetscScalar);
  char        *host, *device;

  PetscFunctionBegin;
  PetscCall(IDRSBlockGetOperands_CUDA(cuda, bytes, &device));
  PetscCall(PetscCalloc1(bytes, &host));
  for (size_t l = 0; l < nx; l++) {
    PetscCall(IDRSColumnRead_CUDA(sum->x[l].vec));
    ((const PetscScalar **)host)[l] = sum->x[l].array;
    *packed                         = *packed && IDRSAligned(sum->x[l].array);
    for (PetscInt j = 0; j < sum->ny; j++) ((PetscScalar *)(host + begin))[l * M + (size_t)j] = sum->C[l + (size_t)(j * sum->ld)];
  }
  PetscCallCUDA(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream)); /* returns once pageable memory has been read */
  PetscCall(PetscFree(host));
  *X = (const PetscScalar *const *)device;
  *C = (const PetscScalar *)(device + begin);
  PetscFunctionReturn(PETSC_SUCCESS);
}

template <int M>
static PetscErrorCode IDRSBlockCombineLaunch_CUDA(IDRSWork work, const IDRSBlockAxpy *sum)
{
  const size_t              n    = (size_t)work->n;
  IDRS_CUDA                *cuda = (IDRS_CUDA *)work->data;
  IDRSBlockTargets          to   = {};
  const PetscScalar        *C    = nullptr, *diagonal;
  const PetscScalar *const *X    = nullptr;
  bool                      packed;
  cudaStream_t              stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSGetDiagonal_CUDA(work, sum->scaled > 0, &diagonal));
  packed   = IDRSAligned(diagonal);
  to.count = (int)sum->ny;
  to.add   = sum->add;
  for (PetscInt j = 0; j < sum->ny; j++) {
    if (sum->add) PetscCall(IDRSColumnRead_CUDA(sum->y[j].vec));
    to.y[j] = sum->y[j].array;
    packed  = packed && IDRSAligned(to.y[j]);
  }
  PetscCall(IDRSBlockSendOperands_CUDA<M>(cuda, sum, stream, &X, &C, &packed));
  PetscCall(PetscLogGpuTimeBegin());
  if (n) {
    auto launch = [&](auto W) { IDRSBlockCombineKernel<M, W><<<(unsigned int)((n + IDRS_THREADS * W - 1) / (IDRS_THREADS * W)), IDRS_THREADS, 0, stream>>>(n, (int)sum->nx, diagonal ? (int)sum->scaled : 0, X, C, diagonal, to); };

    if (packed && IDRSPacked(cuda)) launch(IDRSInt<IDRS_PACK>());
    else launch(IDRSInt<1>());
    PetscCallCUDA(cudaGetLastError());
  }
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(IDRSRestoreDiagonal_CUDA(work, &diagonal));
  for (PetscInt j = 0; j < sum->ny; j++) PetscCall(IDRSColumnWritten(sum->y[j].vec));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSBlockCombine_CUDA(IDRSWork work, const IDRSBlockAxpy *sum)
{
  PetscFunctionBegin;
  if (sum->ny <= 4) PetscCall(IDRSBlockCombineLaunch_CUDA<4>(work, sum));
  else if (sum->ny <= 8) PetscCall(IDRSBlockCombineLaunch_CUDA<8>(work, sum));
  else PetscCall(IDRSBlockCombineLaunch_CUDA<16>(work, sum));
  PetscFunctionReturn(PETSC_SUCCESS);
}
