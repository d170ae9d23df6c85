/*
   block combine: Y = D X(:,0:scaled) C(0:scaled,:) + X(:,scaled:nx) C(scaled:nx,:), or Y += the same, for a sequence of sums

   Reads X and D, or also Y; writes Y. A column of Y may also be a column of X.

   One thread owns a pack of rows and computes all sums of a launch on it, so the next sum finds the results of the last one in the
   cache. The thread keeps the entries of all columns of Y in registers and loops over the columns of X, so each operand of a sum is
   read once. Coefficients, and pointers to columns, of which there may be hundreds, are loaded to shared memory in parts. Tensor
   cores are not used, because up to 16 columns the memory bandwidth is the limit.
*/
#include "idrscudaimpl.cuh"

/* Columns of X whose coefficients are in shared memory at the same time, and columns that a thread loads at the same time */
#define IDRS_BLOCK_PART  64
#define IDRS_BLOCK_LOADS 8

/* The memory for operands is for this many launches of the largest size so far */
#define IDRS_BLOCK_ROOM 16

/* Most sums of a launch, because they are arguments of the kernel */
#define IDRS_BLOCK_SUMS 16

typedef struct {
  const PetscScalar *const *X; /* on the device: pointers to columns, and M coefficients for each */
  const PetscScalar        *C;
  PetscScalar              *y[IDRS_MAX_WIDTH];
  int                       nx, ny, scaled;
  bool                      add;
} IDRSChainSum;

typedef struct {
  IDRSChainSum sum[IDRS_BLOCK_SUMS];
  int          count;
} IDRSChain;

static_assert(sizeof(IDRSChain) <= 3584, "kernel arguments must fit in 4096 bytes before CUDA 12.1");

/* Loads rows [i, i+W) of x. If WHOLE, all of them exist, and no branch prevents concurrent loads */
template <int W, bool WHOLE>
static __device__ __forceinline__ IDRSPack<W> IDRSBlockLoad(const PetscScalar *x, size_t i, size_t n)
{
  if constexpr (WHOLE) return *reinterpret_cast<const IDRSPack<W> *>(x + i);
  else return IDRSLoad<W>(x, i, n);
}

/* y += X C on the rows of this thread, for the columns whose pointers and coefficients are in shared memory */
template <int M, int W, bool WHOLE>
static __device__ __forceinline__ void IDRSBlockAddPart(size_t i, size_t n, int columns, const PetscScalar *const *x,
                                                        const PetscScalar *c, IDRSPack<W> y[M])
{
  for (int first = 0; first < columns; first += IDRS_BLOCK_LOADS) {
    IDRSPack<W> part[IDRS_BLOCK_LOADS];

#pragma unroll
    for (int l = 0; l < IDRS_BLOCK_LOADS; l++)
      part[l] = first + l < columns ? IDRSBlockLoad<W, WHOLE>(x[first + l], i, n) : IDRSZero<W>();
#pragma unroll
    for (int l = 0; l < IDRS_BLOCK_LOADS; l++) {
      if (first + l < columns) {
#pragma unroll
        for (int j = 0; j < M; j++) IDRSAdd<W>(y[j], c[(first + l) * M + j], part[l]);
      }
    }
  }
}

/* y += X C, for the columns of X from first to end - 1. Called by all threads of a block */
template <int M, int W>
static __device__ __forceinline__ void IDRSBlockAdd(size_t i, size_t n, int first, int end, const PetscScalar *const *X,
                                                    const PetscScalar *C, IDRSPack<W> y[M])
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

/* Computes one sum on the rows of this thread. Y is loaded first, unless D must be applied before Y is added */
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
static __global__ void __launch_bounds__(IDRS_THREADS, 2)
  IDRSBlockCombineKernel(size_t n, const PetscScalar *diagonal, const __grid_constant__ IDRSChain chain)
{
  const size_t i = IDRSFirstRow<W>();

  for (int l = 0; l < chain.count; l++) IDRSBlockMake<M, W>(i, n, chain.sum[l], diagonal);
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
  PetscCall(PetscDeviceFree(dctx, memory->done));
  PetscCall(PetscDeviceFree(dctx, memory->arrived));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSBlockGetOperands_CUDA - Returns memory for this many bytes of operands, a multiple of 16, on the device and in pinned memory.
   The memory of earlier launches stays valid until the stream is synchronized
*/
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
    PetscCall(
      PetscDeviceMalloc(dctx, PETSC_MEMTYPE_HOST, IDRS_BLOCK_ROOM * bytes / sizeof(*memory->hostoperands), &memory->hostoperands));
    memory->operandbytes = IDRS_BLOCK_ROOM * bytes;
  }
  *host   = (char *)memory->hostoperands + memory->operandsused;
  *device = (char *)memory->operands + memory->operandsused;
  memory->operandsused += bytes;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Launches sums, whose pointers X and coefficients C are on the device, with M coefficients for each pointer. If the columns of a
   sum fit in the L2 cache, one launch computes all sums, and later sums find their operands in the cache. If not, each sum has its
   own launch: with 4 096 000 rows, s = 4, a matvec and column took 473 us in one launch, 261 us with one per sum
*/
template <int M>
static PetscErrorCode IDRSBlockCombineLaunch_CUDA(IDRSWorkspace work, PetscInt count, const IDRSBlockAxpy sums[],
                                                  const PetscScalar *const *X, const PetscScalar *C, const PetscScalar *diagonal,
                                                  cudaStream_t stream)
{
  const size_t n = (size_t)work->n;
  int          device, cache;
  PetscInt     most;

  PetscFunctionBegin;
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device));
  most = n * (size_t)sums[0].ny * sizeof(PetscScalar) <= (size_t)cache ? IDRS_BLOCK_SUMS : 1;
  PetscCall(PetscLogGpuTimeBegin());
  for (PetscInt first = 0; n && first < count; first += most) {
    IDRSChain chain  = {};
    bool      packed = IDRSAligned(diagonal) && IDRSPacked((IDRS_CUDA *)work->data);
    auto      launch = [&](auto W) {
      IDRSBlockCombineKernel<M, W>
        <<<(unsigned int)((n + IDRS_THREADS * W - 1) / (IDRS_THREADS * W)), IDRS_THREADS, 0, stream>>>(n, diagonal, chain);
    };

    chain.count = (int)PetscMin(count - first, most);
    for (int i = 0; i < chain.count; i++) {
      const IDRSBlockAxpy &sum = sums[first + i];
      IDRSChainSum        &to  = chain.sum[i];

      to = {X, C, {}, (int)sum.nx, (int)sum.ny, diagonal ? (int)sum.scaled : 0, (bool)sum.add};
      X += sum.nx;
      C += sum.nx * M;
      for (PetscInt j = 0; j < sum.ny; j++) {
        to.y[j] = sum.y[j].array;
        packed  = packed && IDRSAligned(to.y[j]);
      }
      for (PetscInt l = 0; l < sum.nx; l++) packed = packed && IDRSAligned(sum.x[l].array);
    }
    if (packed) launch(IDRSInt<IDRS_PACK>());
    else launch(IDRSInt<1>());
    PetscCallCUDA(cudaGetLastError());
  }
  PetscCall(PetscLogGpuTimeEnd());
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSBlockCombine_CUDA(IDRSWorkspace work, PetscInt count, const IDRSBlockAxpy sums[])
{
  size_t                    nx = 0, bytes, begin, l = 0;
  PetscInt                  ny     = 0, width;
  bool                      scaled = false;
  char                     *host, *device;
  const PetscScalar       **x, *C, *diagonal;
  const PetscScalar *const *X;
  PetscScalar              *c;
  cudaStream_t              stream;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) {
    nx += (size_t)sums[i].nx;
    ny     = PetscMax(ny, sums[i].ny);
    scaled = scaled || sums[i].scaled > 0;
  }
  width = ny <= 4 ? 4 : (ny <= 8 ? 8 : 16);
  begin = (nx * sizeof(*x) + 15) / 16 * 16; /* offset of the coefficients */
  bytes = begin + (nx * (size_t)width * sizeof(*c) + 15) / 16 * 16;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSBlockGetOperands_CUDA((IDRS_CUDA *)work->data, bytes, stream, &host, &device));
  x = (const PetscScalar **)host;
  c = (PetscScalar *)(host + begin);
  X = (const PetscScalar *const *)device;
  C = (const PetscScalar *)(device + begin);
  for (PetscInt i = 0; i < count; i++) {
    const IDRSBlockAxpy *sum = &sums[i];

    for (PetscInt k = 0; k < sum->nx; k++, l++) {
      PetscCall(IDRSColumnRead_CUDA(sum->x[k].vec));
      x[l] = sum->x[k].array;
      for (PetscInt j = 0; j < width; j++)
        c[l * (size_t)width + (size_t)j] = j < sum->ny ? sum->C[k + j * sum->ld] : (PetscScalar)0.0;
    }
    for (PetscInt j = 0; j < sum->ny; j++) {
      if (sum->add) PetscCall(IDRSColumnRead_CUDA(sum->y[j].vec));
      PetscCall(IDRSColumnWritten(sum->y[j].vec));
    }
  }
  /* one copy for the pointers and coefficients of all sums */
  if (bytes) PetscCallCUDA(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream));
  PetscCall(IDRSFindArrayRead_CUDA(scaled ? work->diagonal : NULL, &diagonal));
  if (width == 4) PetscCall(IDRSBlockCombineLaunch_CUDA<4>(work, count, sums, X, C, diagonal, stream));
  else if (width == 8) PetscCall(IDRSBlockCombineLaunch_CUDA<8>(work, count, sums, X, C, diagonal, stream));
  else PetscCall(IDRSBlockCombineLaunch_CUDA<16>(work, count, sums, X, C, diagonal, stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}
