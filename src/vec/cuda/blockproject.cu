/*
   block project:  P^H X and Y^H Y. Reads X and Y, some of it more than once where there are many columns.

   One kernel makes both: the blocks (x, y) of threads with the same y share rows, and x says which tiles they have, so that they run at the same time and find in the cache what others have read.

   A warp takes 16 rows at a time, and multiplies tiles of 8 columns on the left by tiles of 8 on the right with the matrix units, in double precision whatever the scalars are: see
   IDRSMatrixMultiplyAdd(). A lane has 4 rows of one column of each tile. Its entries of P follow from the hash where they are used. Sums of warps are added up in a fixed order, and those of blocks by a second kernel.
*/
#include <petscidrs/private/idrsshadow.h>
#include "launch.cuh"

#define IDRS_TILE       8
#define IDRS_TILE_ROWS  4                                   /* of a lane, at a time */
#define IDRS_TILE_LEFT  8                                   /* tiles of P that a block of threads takes */
#define IDRS_TILE_RIGHT 2                                   /* tiles of X, or of Y on either side */
#define IDRS_PARTS_OF   (PetscDefined(USE_COMPLEX) ? 2 : 1) /* real numbers of a scalar */
#define IDRS_PARTIALS   (1 << 21)                           /* sums of blocks of threads, at most */

/* Columns of X or Y, an argument of the kernel */
typedef struct {
  const PetscScalar *x[2 * IDRS_MAX_WIDTH];
  size_t             n;
  int                count;
  bool               packed;
} IDRSBlockColumns;

/* Where sums go: that of row i and column j to (offset + i + j ld), with those of other blocks of threads beside it */
typedef struct {
  double      *partials;
  unsigned int blocks;
  int          offset, ld;
} IDRSBlockSums;

/* Rows [i, i + 4) of a column, zeros where there is none */
static __device__ __forceinline__ IDRSPack<IDRS_TILE_ROWS> IDRSTileLoad(const IDRSBlockColumns &columns, const PetscScalar *x, size_t i)
{
  IDRSPack<IDRS_TILE_ROWS> rows = IDRSZero<IDRS_TILE_ROWS>();

  if (!x) return rows;
  if (columns.packed) return IDRSLoad<IDRS_TILE_ROWS>(x, i, columns.n);
#pragma unroll
  for (int l = 0; l < IDRS_TILE_ROWS; l++) {
    if (i + l < columns.n) rows.v[l] = x[i + l];
  }
  return rows;
}

/* The column of this lane in a tile, or NULL */
static __device__ __forceinline__ const PetscScalar *IDRSTileColumn(const IDRSBlockColumns &columns, int tile)
{
  const int column = tile * IDRS_TILE + threadIdx.x % IDRS_WARP / 4;

  return column < columns.count ? columns.x[column] : nullptr;
}

/* The entry of P in a row and a column, from the multiplier of its pair, over 32; odd is 0xffff in the second column of a pair, else 0 */
static __device__ __forceinline__ double IDRSTileShadow(const IDRSShadowRow &row, uint32_t multiplier, uint32_t odd)
{
  const uint32_t w = row.z0 * multiplier + row.z1;

  return __hiloint2double((int)((0x3ff00000u | (w >> 16)) ^ (w & odd)), 0) - (1.0 + 1.0 / 32.0 - 1.0 / 2097152.0);
}

/* c += a^H b of two entries, where a is real, or of scalars */
static __device__ __forceinline__ void IDRSTileMultiply(double (*c)[2], double a, PetscScalar b)
{
  IDRSMatrixMultiplyAdd(c[0], a, (double)PetscRealPart(b));
  if (IDRS_PARTS_OF == 2) IDRSMatrixMultiplyAdd(c[IDRS_PARTS_OF - 1], a, (double)PetscImaginaryPart(b));
}

static __device__ __forceinline__ void IDRSTileMultiplyConjugate(double (*c)[2], PetscScalar a, PetscScalar b)
{
  IDRSTileMultiply(c, (double)PetscRealPart(a), b);
  if (IDRS_PARTS_OF == 2) {
    IDRSMatrixMultiplyAdd(c[0], (double)PetscImaginaryPart(a), (double)PetscImaginaryPart(b));
    IDRSMatrixMultiplyAdd(c[IDRS_PARTS_OF - 1], -(double)PetscImaginaryPart(a), (double)PetscRealPart(b));
  }
}

/* By all threads of a block: sums of its warps, one after another, to the sums of blocks. firstrow and firstcolumn are those of the first tiles, rows and columns those of all */
template <int A, int B>
static __device__ __forceinline__ void IDRSTilesFinish(const double c[A][B][IDRS_PARTS_OF][2], const IDRSBlockSums &out, int firstrow, int firstcolumn, int rows, int columns)
{
  constexpr int     HEIGHT = A * IDRS_TILE, WIDTH = B * IDRS_TILE;
  __shared__ double total[WIDTH * HEIGHT * IDRS_PARTS_OF];
  const int         lane = threadIdx.x % IDRS_WARP;

  for (int i = threadIdx.x; i < WIDTH * HEIGHT * IDRS_PARTS_OF; i += IDRS_THREADS) total[i] = 0.0;
  for (int warp = 0; warp < IDRS_WARPS; warp++) {
    __syncthreads();
    if ((int)threadIdx.x / IDRS_WARP != warp) continue;
#pragma unroll
    for (int a = 0; a < A; a++) {
#pragma unroll
      for (int b = 0; b < B; b++) {
#pragma unroll
        for (int part = 0; part < IDRS_PARTS_OF; part++) {
#pragma unroll
          for (int l = 0; l < 2; l++) total[((b * IDRS_TILE + 2 * (lane % 4) + l) * HEIGHT + a * IDRS_TILE + lane / 4) * IDRS_PARTS_OF + part] += c[a][b][part][l];
        }
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < WIDTH * HEIGHT; i += IDRS_THREADS) {
    const int row = firstrow + i % HEIGHT, column = firstcolumn + i / HEIGHT;

    for (int part = 0; part < IDRS_PARTS_OF && row < rows && column < columns; part++) out.partials[((size_t)(out.offset + row + column * out.ld) * IDRS_PARTS_OF + part) * out.blocks + blockIdx.y] = total[i * IDRS_PARTS_OF + part];
  }
}

/* P^H X for A tiles of P, from this one on, and B tiles of X */
template <int A, int B>
static __device__ __forceinline__ void IDRSShadowTiles(int firsta, int firstb, uint64_t key, uint64_t rstart, int rows, const IDRSBlockColumns &X, const IDRSBlockSums &out)
{
  const int          lane = threadIdx.x % IDRS_WARP;
  const size_t       step = (size_t)out.blocks * IDRS_WARPS * 4 * IDRS_TILE_ROWS;
  const PetscScalar *x[B];
  uint32_t           multiplier[A];
  double             c[A][B][IDRS_PARTS_OF][2] = {};

#pragma unroll
  for (int b = 0; b < B; b++) x[b] = IDRSTileColumn(X, firstb + b);
#pragma unroll
  for (int a = 0; a < A; a++) multiplier[a] = IDRSShadowMultiplier((uint32_t)((firsta + a) * IDRS_TILE + lane / 4) / 2);
  /* all lanes of a warp make the same turns */
  for (size_t base = ((size_t)blockIdx.y * IDRS_WARPS + threadIdx.x / IDRS_WARP) * 4 * IDRS_TILE_ROWS; base < X.n; base += step) {
    const size_t             i = base + (size_t)(lane % 4 * IDRS_TILE_ROWS);
    IDRSPack<IDRS_TILE_ROWS> right[B];

#pragma unroll
    for (int b = 0; b < B; b++) right[b] = IDRSTileLoad(X, x[b], i);
#pragma unroll
    for (int l = 0; l < IDRS_TILE_ROWS; l++) {
      const IDRSShadowRow row = IDRSShadowRowState(key, rstart + i + l);

#pragma unroll
      for (int a = 0; a < A; a++) {
        const double p = IDRSTileShadow(row, multiplier[a], lane / 4 % 2 ? 0xffffu : 0u);

#pragma unroll
        for (int b = 0; b < B; b++) IDRSTileMultiply(c[a][b], p, right[b].v[l]);
      }
    }
  }
  IDRSTilesFinish<A, B>(c, out, firsta * IDRS_TILE, firstb * IDRS_TILE, rows, X.count);
}

/* Y^H Y for B tiles on the left and on the right, from these on */
template <int B>
static __device__ __forceinline__ void IDRSGramTiles(int firsta, int firstb, const IDRSBlockColumns &Y, const IDRSBlockSums &out)
{
  const size_t       step = (size_t)out.blocks * IDRS_WARPS * 4 * IDRS_TILE_ROWS;
  const PetscScalar *x[B], *y[B];
  double             c[B][B][IDRS_PARTS_OF][2] = {};

#pragma unroll
  for (int b = 0; b < B; b++) {
    x[b] = IDRSTileColumn(Y, firsta + b);
    y[b] = IDRSTileColumn(Y, firstb + b);
  }
  for (size_t base = ((size_t)blockIdx.y * IDRS_WARPS + threadIdx.x / IDRS_WARP) * 4 * IDRS_TILE_ROWS; base < Y.n; base += step) {
    const size_t             i = base + (size_t)(threadIdx.x % 4 * IDRS_TILE_ROWS);
    IDRSPack<IDRS_TILE_ROWS> left[B], right[B];

#pragma unroll
    for (int b = 0; b < B; b++) {
      right[b] = IDRSTileLoad(Y, y[b], i);
      left[b]  = firsta == firstb ? right[b] : IDRSTileLoad(Y, x[b], i);
    }
#pragma unroll
    for (int l = 0; l < IDRS_TILE_ROWS; l++) {
#pragma unroll
      for (int a = 0; a < B; a++) {
#pragma unroll
        for (int b = 0; b < B; b++) IDRSTileMultiplyConjugate(c[a][b], left[a].v[l], right[b].v[l]);
      }
    }
  }
  IDRSTilesFinish<B, B>(c, out, firsta * IDRS_TILE, firstb * IDRS_TILE, Y.count, Y.count);
}

/* How many x there are: A tiles of P and B of X for each of the first ones; for the others C tiles of Y on the left and on the right, of which those below the diagonal do nothing */
typedef struct {
  int shadow, left, gram; /* of P^H X; of these with the same tiles of X; on either side of Y^H Y */
} IDRSBlockShares;

template <int A, int B, int C>
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSBlockProjectKernel(uint64_t key, uint64_t rstart, int rows, IDRSBlockShares shares, const __grid_constant__ IDRSBlockColumns X, const __grid_constant__ IDRSBlockColumns Y, IDRSBlockSums shadow, IDRSBlockSums gram)
{
  const int share = (int)blockIdx.x, other = share - shares.shadow;

  if (share < shares.shadow) IDRSShadowTiles<A, B>(share % shares.left * A, share / shares.left * B, key, rstart, rows, X, shadow);
  else if (other % shares.gram <= other / shares.gram) IDRSGramTiles<C>(other % shares.gram * C, other / shares.gram * C, Y, gram);
}

/* A warp for each sum, which the host reads; the last block tells that all have come */
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSBlockTotalKernel(int count, unsigned int blocks, const double *partials, double *sums, unsigned int *done, uint64_t *arrived, uint64_t sequence)
{
  const int i    = (int)(blockIdx.x * IDRS_WARPS + threadIdx.x / IDRS_WARP);
  double    part = 0.0;

  for (unsigned int b = threadIdx.x % IDRS_WARP; i < count && b < blocks; b += IDRS_WARP) part += partials[(size_t)i * blocks + b];
#pragma unroll
  for (int offset = IDRS_WARP / 2; offset > 0; offset /= 2) part += __shfl_down_sync(IDRS_ALL_LANES, part, offset);
  if (i < count && threadIdx.x % IDRS_WARP == 0) sums[i] = part;
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0 && atomicAdd(done, 1u) + 1 == gridDim.x) {
    *done = 0;
    __threadfence_system();
    *(volatile uint64_t *)arrived = sequence;
  }
}

/* Blocks of threads that share the rows, and memory for their sums */
static PetscErrorCode IDRSBlockGetSums_CUDA(IDRS_CUDA *cuda, size_t rows, size_t count, unsigned int *blocks)
{
  const size_t       turn = IDRS_WARPS * 4 * IDRS_TILE_ROWS, enough = PetscMax((rows + turn - 1) / turn, (size_t)1);
  IDRSBlockMemory   *memory = &cuda->block;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  *blocks = (unsigned int)PetscMax(PetscMin(PetscMin(enough, (size_t)(4 * cuda->multiprocessors)), IDRS_PARTIALS / count), (size_t)1);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  if (count * *blocks > memory->partialcount) {
    memory->partialcount = 0;
    PetscCall(PetscDeviceFree(dctx, memory->partials));
    PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, count * *blocks, &memory->partials));
    memory->partialcount = count * *blocks;
  }
  if (count > memory->sumcount) {
    memory->sumcount = 0;
    PetscCall(PetscDeviceFree(dctx, memory->sums));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_HOST, count, &memory->sums));
    memory->sumcount = count;
  }
  if (!memory->arrived) {
    PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &memory->done));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_HOST, 1, &memory->arrived));
    *memory->arrived = 0; /* not by PetscDeviceCalloc(), which lets the stream do it: the host may find the number that another work has left */
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSBlockGetColumns_CUDA(PetscInt n, PetscInt count, const IDRSBlockVec vecs[], IDRSBlockColumns *columns)
{
  PetscFunctionBegin;
  *columns        = {};
  columns->n      = (size_t)n;
  columns->count  = (int)count;
  columns->packed = true;
  for (PetscInt i = 0; i < count; i++) {
    PetscCall(IDRSColumnRead_CUDA(vecs[i].vec));
    columns->x[i]   = vecs[i].array;
    columns->packed = columns->packed && IDRSAligned(vecs[i].array);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static int IDRSTiles(PetscInt columns, int tiles)
{
  return (int)((columns + IDRS_TILE * tiles - 1) / (IDRS_TILE * tiles));
}

/* The kernel with the fewest tiles that there are */
static PetscErrorCode IDRSBlockProjectLaunch_CUDA(IDRSWork work, PetscInt rows, const IDRSBlockColumns &X, const IDRSBlockColumns &Y, const IDRSBlockSums &shadow, const IDRSBlockSums &gram, cudaStream_t stream)
{
  const uint64_t key = IDRSShadowKey(work->seed), rstart = (uint64_t)work->rstart;

  auto launch = [&](auto A, auto B, auto C) {
    const IDRSBlockShares shares = {IDRSTiles(rows, A) * IDRSTiles(X.count, B), IDRSTiles(rows, A), IDRSTiles(Y.count, C)};

    IDRSBlockProjectKernel<A, B, C><<<dim3((unsigned int)(shares.shadow + shares.gram * shares.gram), shadow.blocks), IDRS_THREADS, 0, stream>>>(key, rstart, (int)rows, shares, X, Y, shadow, gram);
  };
  auto right = [&](auto A) {
    if (X.count <= IDRS_TILE && Y.count <= IDRS_TILE) launch(A, IDRSInt<1>(), IDRSInt<1>());
    else launch(A, IDRSInt<IDRS_TILE_RIGHT>(), IDRSInt<IDRS_TILE_RIGHT>());
  };

  PetscFunctionBegin;
  if (rows <= IDRS_TILE) right(IDRSInt<1>());
  else if (rows <= 2 * IDRS_TILE) right(IDRSInt<2>());
  else if (rows <= 4 * IDRS_TILE) right(IDRSInt<4>());
  else right(IDRSInt<IDRS_TILE_LEFT>());
  PetscCallCUDA(cudaGetLastError());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The sums as the contract has them, of those that the device has left */
static void IDRSBlockTakeSums(const IDRSBlockDots *dots, const double *from, PetscScalar sums[])
{
  const PetscInt shadow = dots->rows * dots->nx, ny = dots->ny;
  PetscScalar   *gram = sums + shadow;

  for (PetscInt i = 0; i < shadow + ny * ny; i++) {
    const double scale = i < shadow ? 32.0 : 1.0;

#if PetscDefined(USE_COMPLEX)
    sums[i] = PetscScalar((PetscReal)(scale * from[2 * i]), (PetscReal)(scale * from[2 * i + 1]));
#else
    sums[i] = (PetscReal)(scale * from[i]);
#endif
  }
  for (PetscInt j = 0; j < ny; j++) {
    for (PetscInt i = 0; i < j; i++) gram[j + i * ny] = PetscConj(gram[i + j * ny]);
  }
}

PetscErrorCode IDRSBlockProject_CUDA(IDRSWork work, const IDRSBlockDots *dots, PetscScalar sums[])
{
  const PetscInt   shadows = dots->rows * dots->nx, count = (shadows + dots->ny * dots->ny) * IDRS_PARTS_OF;
  IDRS_CUDA       *cuda = (IDRS_CUDA *)work->data;
  IDRSBlockColumns X, Y;
  IDRSBlockSums    shadow = {}, gram;
  cudaStream_t     stream;

  PetscFunctionBegin;
  if (!count) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCheck(dots->nx <= 2 * IDRS_MAX_WIDTH && dots->ny <= 2 * IDRS_MAX_WIDTH, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE, "Blocks of %" PetscInt_FMT " and %" PetscInt_FMT " columns", dots->nx, dots->ny);
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSBlockGetColumns_CUDA(work->n, dots->nx, dots->x, &X));
  PetscCall(IDRSBlockGetColumns_CUDA(work->n, dots->ny, dots->y, &Y));
  PetscCall(IDRSBlockGetSums_CUDA(cuda, (size_t)work->n, (size_t)count, &shadow.blocks));
  shadow.partials = cuda->block.partials;
  shadow.ld       = (int)dots->rows;
  gram            = shadow;
  gram.offset     = (int)shadows;
  gram.ld         = (int)dots->ny;
  PetscCall(PetscLogGpuTimeBegin());
  PetscCall(IDRSBlockProjectLaunch_CUDA(work, dots->rows, X, Y, shadow, gram, stream));
  IDRSBlockTotalKernel<<<(unsigned int)(count + IDRS_WARPS - 1) / IDRS_WARPS, IDRS_THREADS, 0, stream>>>((int)count, shadow.blocks, shadow.partials, cuda->block.sums, cuda->block.done, cuda->block.arrived, ++cuda->block.sequence);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(IDRSWaitNumber_CUDA(work, cuda->block.arrived, cuda->block.sequence));
  cuda->block.operandsused = 0; /* what came before the sums has been done */
  IDRSBlockTakeSums(dots, cuda->block.sums, sums);
  PetscFunctionReturn(PETSC_SUCCESS);
}
