/*
   block combine:  Y = D X(:,0:scaled) C(0:scaled,:) + X(:,scaled:nx) C(scaled:nx,:), or Y += that, for one sum after another. Reads X and D, or Y, too, writes Y, a column of which may be one of X.

   One thread owns a pack of rows and makes all sums of a launch on it: what a sum has written is in the cache where the next one reads it. It has all columns of Y, whose entries are in registers
   while the columns of X stream by: each operand of a sum is read once. Coefficients, and pointers to the columns, as there may be hundreds, come through shared memory, in parts. Without tensor
   cores: up to 16 columns it is the memory that takes the time.
*/
#include "launch.cuh"

/* Columns of X whose coefficients are in shared memory at a time, and those that a thread loads at a time */
#define IDRS_BLOCK_PART  64
#define IDRS_BLOCK_LOADS 8

/* Launches of the size of the largest one so far whose operands have room at the same time */
#define IDRS_BLOCK_ROOM 16

/* Sums of a launch, at most, as arguments of the kernel */
#define IDRS_BLOCK_SUMS 16

typedef struct {
  const PetscScalar *const *X; /* pointers to columns, and coefficients, M for each, on the device */
  const PetscScalar        *C;
  PetscScalar              *y[IDRS_MAX_WIDTH];
  int                       nx, ny, scaled;
  bool                      add;
} IDRSChainSum;

typedef struct {
  IDRSChainSum sum[IDRS_BLOCK_SUMS];
  int          count;
} IDRSChain;

static_assert(sizeof(IDRSChain) <= 3584, "all arguments of a kernel fit into 4096 bytes, as CUDA before 12.1 wants it");

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

/* One sum, on the rows of this thread. Y is asked for first, where nothing is scaled that it is not to be scaled with */
template <int M, int W>
static __device__ __forceinline__ void IDRSBlockMake(size_t i, size_t n, const IDRSChainSum &sum, const PetscScalar *diagonal)
{
  IDRSPack<W> y[M];

#pragma unroll
  for (int j = 0; j < M; j++) y[j] = sum.add && !sum.scaled && j < sum.ny && i < n ? IDRSLoad<W>(sum.y[j], i, n) : IDRSZero<W>();
  IDRSBlockAdd<M, W>(i, n, 0, sum.scaled, sum.X, sum.C, y);
  if (sum.scaled && i < n) {
    const IDRSPack<W> d = IDRSLoad<W>(diagonal, i, n);

#pragma unroll
    for (int j = 0; j < M; j++) {
      IDRSScaleEntries<W>(y[j], d);
      if (sum.add && j < sum.ny) IDRSAdd<W>(y[j], 1.0, IDRSLoad<W>(sum.y[j], i, n));
    }
  }
  IDRSBlockAdd<M, W>(i, n, sum.scaled, sum.nx, sum.X, sum.C, y);
#pragma unroll
  for (int j = 0; j < M; j++) {
    if (j < sum.ny && i < n) IDRSStore<W>(sum.y[j], i, n, y[j]);
  }
}

template <int M, int W>
static __global__ void __launch_bounds__(IDRS_THREADS, 2) IDRSBlockCombineKernel(size_t n, const PetscScalar *diagonal, const __grid_constant__ IDRSChain chain)
{
  const size_t i = IDRSFirstRow<W>();

  for (int l = 0; l < chain.count; l++) IDRSBlockMake<M, W>(i, n, chain.sum[l], diagonal);
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
  PetscCall(PetscDeviceFree(dctx, memory->hostoperands));
  PetscCall(PetscDeviceFree(dctx, memory->partials));
  PetscCall(PetscDeviceFree(dctx, memory->sums));
  PetscCall(PetscDeviceFree(dctx, memory->hostsums));
  PetscCall(PetscDeviceFree(dctx, memory->done));
  PetscCall(PetscDeviceFree(dctx, memory->arrived));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSBlockGetOperands_CUDA - Room for so many bytes of operands, a multiple of 16, on the device, and for these in pinned memory, from which they go there. What earlier launches have got stays until the stream has been waited for */
PetscErrorCode IDRSBlockGetOperands_CUDA(IDRS_CUDA *cuda, size_t bytes, cudaStream_t stream, char **host, char **device)
{
  IDRSBlockMemory   *memory = &cuda->block;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (memory->operandsused + bytes > memory->operandbytes) {
    PetscCallCUDA(cudaStreamSynchronize(stream));
    memory->operandsused = 0;
  }
  if (bytes > memory->operandbytes) {
    memory->operandbytes = 0;
    PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
    PetscCall(PetscDeviceFree(dctx, memory->operands));
    PetscCall(PetscDeviceFree(dctx, memory->hostoperands));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, IDRS_BLOCK_ROOM * bytes / sizeof(*memory->operands), &memory->operands));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_HOST, IDRS_BLOCK_ROOM * bytes / sizeof(*memory->hostoperands), &memory->hostoperands));
    memory->operandbytes = IDRS_BLOCK_ROOM * bytes;
  }
  *host   = (char *)memory->hostoperands + memory->operandsused;
  *device = (char *)memory->operands + memory->operandsused;
  memory->operandsused += bytes;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Bytes from the operands of a sum to those of the next one, and to its coefficients, which come behind the pointers */
static inline size_t IDRSBlockPointerBytes(const IDRSBlockAxpy *sum)
{
  return ((size_t)sum->nx * sizeof(PetscScalar *) + 15) / 16 * 16;
}

template <int M>
static inline size_t IDRSBlockOperandBytes(const IDRSBlockAxpy *sum)
{
  return IDRSBlockPointerBytes(sum) + ((size_t)(sum->nx * M) * sizeof(PetscScalar) + 15) / 16 * 16;
}

/* A sum as the kernel takes it, its operands to be sent; tells whether all arrays can be accessed in packs */
template <int M>
static PetscErrorCode IDRSBlockGetSum_CUDA(const IDRSBlockAxpy *sum, bool diagonal, char *host, char *device, IDRSChainSum *to, bool *packed)
{
  const size_t        nx = (size_t)sum->nx, begin = IDRSBlockPointerBytes(sum);
  const PetscScalar **x = (const PetscScalar **)host;
  PetscScalar        *c = (PetscScalar *)(host + begin);

  PetscFunctionBegin;
  to->X      = (const PetscScalar *const *)device;
  to->C      = (const PetscScalar *)(device + begin);
  to->nx     = (int)sum->nx;
  to->ny     = (int)sum->ny;
  to->scaled = diagonal ? (int)sum->scaled : 0;
  to->add    = sum->add;
  for (PetscInt j = 0; j < sum->ny; j++) {
    if (sum->add) PetscCall(IDRSColumnRead_CUDA(sum->y[j].vec));
    to->y[j] = sum->y[j].array;
    *packed  = *packed && IDRSAligned(to->y[j]);
  }
  for (size_t l = 0; l < nx; l++) {
    PetscCall(IDRSColumnRead_CUDA(sum->x[l].vec));
    x[l]    = sum->x[l].array;
    *packed = *packed && IDRSAligned(x[l]);
    for (PetscInt j = 0; j < M; j++) c[l * M + (size_t)j] = j < sum->ny ? sum->C[l + (size_t)(j * sum->ld)] : (PetscScalar)0.0;
  }
  for (PetscInt j = 0; j < sum->ny; j++) PetscCall(IDRSColumnWritten(sum->y[j].vec));
  PetscFunctionReturn(PETSC_SUCCESS);
}

template <int M>
static PetscErrorCode IDRSBlockCombineLaunch_CUDA(IDRSWork work, PetscInt count, const IDRSBlockAxpy sums[])
{
  const size_t       n     = (size_t)work->n;
  IDRS_CUDA         *cuda  = (IDRS_CUDA *)work->data;
  IDRSChain          chain = {};
  size_t             bytes = 0, at  = 0;
  bool               packed, scaled = false;
  const PetscScalar *diagonal;
  char              *host, *device;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  for (PetscInt i = 0; i < count; i++) {
    bytes += IDRSBlockOperandBytes<M>(&sums[i]);
    scaled = scaled || sums[i].scaled > 0;
  }
  PetscCall(IDRSBlockGetOperands_CUDA(cuda, bytes, stream, &host, &device));
  PetscCall(IDRSGetDiagonal_CUDA(work, scaled, &diagonal));
  packed      = IDRSAligned(diagonal);
  chain.count = (int)count;
  for (PetscInt i = 0; i < count; i++) {
    PetscCall(IDRSBlockGetSum_CUDA<M>(&sums[i], diagonal != nullptr, host + at, device + at, &chain.sum[i], &packed));
    at += IDRSBlockOperandBytes<M>(&sums[i]);
  }
  if (bytes) PetscCallCUDA(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream));
  PetscCall(PetscLogGpuTimeBegin());
  if (n) {
    auto launch = [&](auto W) { IDRSBlockCombineKernel<M, W><<<(unsigned int)((n + IDRS_THREADS * W - 1) / (IDRS_THREADS * W)), IDRS_THREADS, 0, stream>>>(n, diagonal, chain); };

    if (packed && IDRSPacked(cuda)) launch(IDRSInt<IDRS_PACK>());
    else launch(IDRSInt<1>());
    PetscCallCUDA(cudaGetLastError());
  }
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(IDRSRestoreDiagonal_CUDA(work, &diagonal));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Sums that one launch makes. Where a block of columns does not fit into the second-level cache each has a launch of its own: with 4 096 000 rows and 8 columns sums together took 473 us a matvec and
   column on an H100, those by themselves 261
*/
static PetscErrorCode IDRSBlockChainLength(IDRSWork work, const IDRSBlockAxpy *sum, PetscInt *length)
{
  int device, bytes;

  PetscFunctionBegin;
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device));
  *length = (size_t)(work->n * sum->ny) * sizeof(PetscScalar) <= (size_t)bytes ? IDRS_BLOCK_SUMS : 1;
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSBlockCombine_CUDA(IDRSWork work, PetscInt count, const IDRSBlockAxpy sums[])
{
  PetscInt length;

  PetscFunctionBegin;
  PetscCall(IDRSBlockChainLength(work, sums, &length));
  for (PetscInt first = 0; first < count; first += length) {
    const PetscInt some = PetscMin(count - first, length);
    PetscInt       ny   = 0;

    for (PetscInt i = 0; i < some; i++) ny = PetscMax(ny, sums[first + i].ny);
    if (ny <= 4) PetscCall(IDRSBlockCombineLaunch_CUDA<4>(work, some, sums + first));
    else if (ny <= 8) PetscCall(IDRSBlockCombineLaunch_CUDA<8>(work, some, sums + first));
    else PetscCall(IDRSBlockCombineLaunch_CUDA<16>(work, some, sums + first));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
