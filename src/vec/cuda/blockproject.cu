/*
   block project: P^H X and W^H X for many tasks. Reads W and X once each, if a task has up to 128 columns on the left.

   The thread blocks (x, y, z) with the same y work on one task and share its rows; z selects the strips of 16 columns on the left.
   Rows are copied to shared memory in slabs, and the copies of the next slabs overlap with the products of the present one. A warp
   has one strip, of P or of W, and multiplies it by all columns of X, 16 rows at a time, with the tensor cores, always in double
   precision, see IDRSMatrixMultiplyAdd(). If there are few strips, several warps have the same strip and share the rows. Each entry
   of P is computed from the hash once, where it is used.

   The sums of warps are added in a fixed order. A second kernel adds the sums of thread blocks, and writes them to the memory of
   the host.
*/
#include <petscidrs/private/idrsshadow.h>
#include "idrscudaimpl.cuh"

#define IDRS_STRIP       16
#define IDRS_TILE        8 /* columns of X that are multiplied at the same time */
#define IDRS_DOTS_ROWS   16
#define IDRS_DOTS_STAGES 3     /* slabs in shared memory */
#define IDRS_DOTS_BYTES  32768 /* most bytes of a slab that has more than IDRS_DOTS_FEWEST rows */
#define IDRS_DOTS_FEWEST 64
/* fewest slabs per multiprocessor if they have more than the fewest rows, because the wait for the first slab is not hidden */
#define IDRS_DOTS_FILLS    12
#define IDRS_DOTS_MOST     512
#define IDRS_DOTS_WARPS    8  /* of a thread block, at most */
#define IDRS_DOTS_RESIDENT 2  /* thread blocks per multiprocessor */
#define IDRS_DOTS_TASKS    64 /* of a launch, at most, because they are arguments of the kernel */
/* of a launch whose pointers are arguments, too; more pointers are in the memory of the device */
#define IDRS_DOTS_COLUMNS 128
#define IDRS_PARTIALS     (1 << 22) /* most sums of thread blocks */

typedef struct {
  int  rows, nw, nx;
  int  column, columns; /* first of its columns, and their number: columns of W, then of X; only of X if W is X */
  int  sum;             /* first of its sums */
  bool hermitian;
} IDRSDotsTask;

typedef struct {
  size_t                    n;
  uint64_t                  key, rstart;
  const PetscScalar *const *columns; /* of all tasks; NULL: in column[] */
  double                   *partials;
  int                       sums, slab; /* of all tasks; rows of a slab */
  const PetscScalar        *column[IDRS_DOTS_COLUMNS];
  IDRSDotsTask              task[IDRS_DOTS_TASKS];
} IDRSDotsArguments;

static_assert(sizeof(IDRSDotsArguments) <= 3584, "kernel arguments must fit in 4096 bytes before CUDA 12.1");

/* Returns the number of strips of a task; strips of P come first */
static __host__ __device__ inline int IDRSDotsStrips(int columns)
{
  return (columns + IDRS_STRIP - 1) / IDRS_STRIP;
}

static __host__ __device__ inline int IDRSDotsShare(const IDRSDotsTask *task, int shares)
{
  return (IDRSDotsStrips(task->rows) + IDRSDotsStrips(task->nw) + shares - 1) / shares;
}

/* Returns the number of warps that share the rows of each strip, for this many strips, warps, and steps of IDRS_DOTS_ROWS rows */
static __host__ __device__ inline int IDRSDotsTurns(int strips, int warps, int steps)
{
  int turns = 1;

  while (2 * turns * strips <= warps && 2 * turns <= steps) turns *= 2;
  return turns;
}

/* Returns the bytes between columns of a slab, chosen so that the lanes of a warp access different banks */
static __host__ __device__ inline size_t IDRSDotsColumnBytes(int rows)
{
  return (size_t)rows * sizeof(PetscScalar) + 64;
}

/* Returns row l of this lane within a slab: a lane has 4 of each 16 rows, in packs of 16 bytes */
static __device__ __forceinline__ int IDRSDotsRow(int l)
{
  return l / IDRS_PACK * 4 * IDRS_PACK + (int)threadIdx.x % 4 * IDRS_PACK + l % IDRS_PACK;
}

static __device__ __forceinline__ void IDRSDotsLoad(const PetscScalar *rows, PetscScalar to[4])
{
#pragma unroll
  for (int l = 0; l < 4; l += IDRS_PACK) {
    const IDRSPack<IDRS_PACK> pack = *reinterpret_cast<const IDRSPack<IDRS_PACK> *>(rows + IDRSDotsRow(l));

#pragma unroll
    for (int i = 0; i < IDRS_PACK; i++) to[l + i] = pack.v[i];
  }
}

/* Starts to copy a slab, from row `first` on, padded with zeros. Called by all threads of a block */
template <int W>
static __device__ __forceinline__ void IDRSDotsCopy(const IDRSDotsArguments &dots, const PetscScalar *const *columns, int count,
                                                    size_t first, char *slab)
{
  const int warps = (int)blockDim.x / IDRS_WARP, row = (int)threadIdx.x % IDRS_WARP * W,
            rows = (int)min(dots.n - first, (size_t)dots.slab), whole = rows / W * W;

  for (int c = (int)threadIdx.x / IDRS_WARP; c < count; c += warps) {
    const PetscScalar *from = columns[c] + first;
    PetscScalar       *to   = (PetscScalar *)(slab + (size_t)c * IDRSDotsColumnBytes(dots.slab));

    for (int l = row; l < whole; l += IDRS_WARP * W) IDRSCopyAsync<sizeof(IDRSPack<W>)>(to + l, from + l);
#pragma unroll 1
    for (int l = whole + (int)threadIdx.x % IDRS_WARP; l < dots.slab; l += IDRS_WARP) to[l] = l < rows ? from[l] : (PetscScalar)0.0;
  }
}

/* Computes the entries of P of a lane, divided by 32: in its 4 rows, and in two columns, which have one multiplier */
static __device__ __forceinline__ void IDRSDotsShadow(const uint2 *states, uint32_t multiplier, double a[8])
{
#pragma unroll
  for (int l = 0; l < 4; l++) {
    const uint2    state = states[IDRSDotsRow(l)];
    const uint32_t w = state.x * multiplier + state.y, even = 0x3ff00000u + (w >> 16);

    a[2 * l]     = __hiloint2double((int)even, 0) - (1.0 + 1.0 / 32.0 - 1.0 / 2097152.0);
    a[2 * l + 1] = __hiloint2double((int)(even ^ (w & 0xffffu)), 0) - (1.0 + 1.0 / 32.0 - 1.0 / 2097152.0);
  }
}

/* c += a^T b for a real a; real and imaginary parts are separate */
static __device__ __forceinline__ void IDRSDotsMultiply(double (*c)[4], const double a[8], const PetscScalar b[4])
{
  double part[4];

#pragma unroll
  for (int l = 0; l < 4; l++) part[l] = (double)PetscRealPart(b[l]);
  IDRSMatrixMultiplyAdd(c[0], a, part);
  if (IDRS_PARTS == 2) {
#pragma unroll
    for (int l = 0; l < 4; l++) part[l] = (double)PetscImaginaryPart(b[l]);
    IDRSMatrixMultiplyAdd(c[IDRS_PARTS - 1], a, part);
  }
}

/*
   The work of a warp: its strip of the left side, or none, and its share of the rows. Columns beyond the last one are replaced by
   the last one, and their sums are not used
*/
template <int B>
struct IDRSDotsWarp {
  int      strip, slot, turn, turns; /* slot: number within the thread block */
  bool     works, shadow;
  uint32_t multiplier;        /* for two columns of P */
  int      left[2], right[B]; /* bytes at which the columns of this lane begin in a slab */
};

template <int B>
static __device__ __forceinline__ IDRSDotsWarp<B> IDRSDotsGetWarp(const IDRSDotsTask &task, int strips, int slab)
{
  const int warp = (int)threadIdx.x / IDRS_WARP, lane = (int)threadIdx.x % IDRS_WARP / 4, shadows = IDRSDotsStrips(task.rows),
            firstx = task.hermitian ? 0 : task.nw, bytes = (int)IDRSDotsColumnBytes(slab);
  IDRSDotsWarp<B> mine;

  mine.turns  = IDRSDotsTurns(strips, (int)blockDim.x / IDRS_WARP, slab / IDRS_DOTS_ROWS);
  mine.slot   = warp % strips;
  mine.turn   = warp / strips;
  mine.works  = mine.turn < mine.turns;
  mine.strip  = (int)blockIdx.z * IDRSDotsShare(&task, (int)gridDim.z) + mine.slot;
  mine.shadow = mine.strip < shadows;
  if (!mine.shadow) mine.strip -= shadows;
  mine.multiplier = IDRSShadowMultiplier((uint32_t)(mine.strip * (IDRS_STRIP / 2) + lane));
#pragma unroll
  for (int h = 0; h < 2; h++) mine.left[h] = min(mine.strip * IDRS_STRIP + lane + h * (IDRS_STRIP / 2), task.nw - 1) * bytes;
#pragma unroll
  for (int b = 0; b < B; b++) mine.right[b] = (firstx + min(b * IDRS_TILE + lane, task.nx - 1)) * bytes;
  return mine;
}

/* Multiplies a strip of P by all tiles of X, on the steps of a slab that belong to this warp */
template <int B>
static __device__ __forceinline__ void IDRSDotsShadowSlab(const IDRSDotsWarp<B> &mine, int steps, const char *slab,
                                                          const uint2 *states, double c[B][IDRS_PARTS][4])
{
#pragma unroll 2
  for (int step = mine.turn; step < steps; step += mine.turns) {
    const char *rows = slab + step * IDRS_DOTS_ROWS * (int)sizeof(PetscScalar);
    double      a[8];

    IDRSDotsShadow(states + step * IDRS_DOTS_ROWS, mine.multiplier, a);
#pragma unroll
    for (int b = 0; b < B; b++) {
      PetscScalar right[4];

      IDRSDotsLoad((const PetscScalar *)(rows + mine.right[b]), right);
      IDRSDotsMultiply(c[b], a, right);
    }
  }
}

/* The same for a strip of W */
template <int B>
static __device__ __forceinline__ void IDRSDotsExplicitSlab(const IDRSDotsWarp<B> &mine, int steps, const char *slab,
                                                            double c[B][IDRS_PARTS][4])
{
#pragma unroll 2
  for (int step = mine.turn; step < steps; step += mine.turns) {
    const char *rows = slab + step * IDRS_DOTS_ROWS * (int)sizeof(PetscScalar);
    double      a[8], imaginary[8];
    PetscScalar left[2][4];

    IDRSDotsLoad((const PetscScalar *)(rows + mine.left[0]), left[0]);
    IDRSDotsLoad((const PetscScalar *)(rows + mine.left[1]), left[1]);
#pragma unroll
    for (int l = 0; l < 8; l++) {
      a[l]         = (double)PetscRealPart(left[l % 2][l / 2]);
      imaginary[l] = (double)PetscImaginaryPart(left[l % 2][l / 2]);
    }
#pragma unroll
    for (int b = 0; b < B; b++) {
      PetscScalar right[4];

      IDRSDotsLoad((const PetscScalar *)(rows + mine.right[b]), right);
      IDRSDotsMultiply(c[b], a, right);
      if constexpr (IDRS_PARTS == 2) {
        /* the imaginary part of the left side: c += imaginary^T (-i right) */
#pragma unroll
        for (int l = 0; l < 4; l++) right[l] = IDRS_SCALAR(PetscImaginaryPart(right[l]), -PetscRealPart(right[l]));
        IDRSDotsMultiply(c[b], imaginary, right);
      }
    }
  }
}

/* Adds the sums of the warps that share a strip to total, one warp after another: 16 sums of a strip for each column of X */
template <int B>
static __device__ __forceinline__ void IDRSDotsAddWarps(const IDRSDotsWarp<B> &mine, const double c[B][IDRS_PARTS][4],
                                                        double *total)
{
  const int lane = (int)threadIdx.x % IDRS_WARP;

  for (int turn = 0; turn < mine.turns; turn++) {
    __syncthreads();
    if (!mine.works || mine.turn != turn) continue;
#pragma unroll
    for (int b = 0; b < B; b++) {
#pragma unroll
      for (int part = 0; part < IDRS_PARTS; part++) {
#pragma unroll
        for (int l = 0; l < 4; l++) {
          const int row    = mine.shadow ? lane / 4 * 2 + l / 2 : lane / 4 + l / 2 * (IDRS_STRIP / 2),
                    column = b * IDRS_TILE + lane % 4 * 2 + l % 2;
          double *to       = total + ((mine.slot * B * IDRS_TILE + column) * IDRS_STRIP + row) * IDRS_PARTS + part;

          *to = turn ? *to + c[b][part][l] : c[b][part][l];
        }
      }
    }
  }
  __syncthreads();
}

/*
   Stores the sums of this thread block in the order of the contract. If the product is Hermitian, the sums below the diagonal are
   copied from those above it
*/
template <int B>
static __device__ __forceinline__ void IDRSDotsStore(const IDRSDotsArguments &dots, const IDRSDotsTask &task, int firststrip,
                                                     int strips, const double *total)
{
  double   *to      = dots.partials + ((size_t)blockIdx.x * (size_t)dots.sums + (size_t)task.sum) * IDRS_PARTS;
  const int shadows = IDRSDotsStrips(task.rows);

  for (int i = (int)threadIdx.x; i < strips * B * IDRS_TILE * IDRS_STRIP; i += (int)blockDim.x) {
    const int  strip = firststrip + i / (B * IDRS_TILE * IDRS_STRIP), column = i / IDRS_STRIP % (B * IDRS_TILE);
    const bool shadow = strip < shadows;
    const int  row    = (shadow ? strip : strip - shadows) * IDRS_STRIP + i % IDRS_STRIP;
    double    *at     = to + (shadow ? 0 : task.rows * task.nx) * IDRS_PARTS;

    if (column >= task.nx || row >= (shadow ? task.rows : task.nw) || (!shadow && task.hermitian && row > column)) continue;
    for (int part = 0; part < IDRS_PARTS; part++) {
      const double sum = total[i * IDRS_PARTS + part];

      if (shadow) at[(row + column * task.rows) * IDRS_PARTS + part] = 32.0 * sum;
      else {
        at[(row + column * task.nw) * IDRS_PARTS + part] = part && task.hermitian && row == column ? 0.0 : sum;
        if (task.hermitian && row < column) at[(column + row * task.nw) * IDRS_PARTS + part] = part ? -sum : sum;
      }
    }
  }
}

/* B: tiles of X, W: entries per copy */
template <int B, int W>
static __global__ void __launch_bounds__(IDRS_WARP *IDRS_DOTS_WARPS, B *IDRS_PARTS <= 4 ? IDRS_DOTS_RESIDENT : 1)
  IDRSBlockProjectKernel(const __grid_constant__ IDRSDotsArguments dots)
{
  extern __shared__ ulonglong2 memory[];
  const IDRSDotsTask          &task  = dots.task[blockIdx.y];
  const int                    share = IDRSDotsShare(&task, (int)gridDim.z), firststrip = (int)blockIdx.z * share,
            strips          = min(share, IDRSDotsStrips(task.rows) + IDRSDotsStrips(task.nw) - firststrip);
  const size_t        stage = (size_t)task.columns * IDRSDotsColumnBytes(dots.slab), stride = (size_t)gridDim.x * (size_t)dots.slab;
  uint2              *states  = (uint2 *)memory; /* for two slabs */
  const PetscScalar **columns = (const PetscScalar **)(states + 2 * dots.slab);
  char  *slabs = (char *)memory + (2 * (size_t)dots.slab * sizeof(uint2) + (size_t)task.columns * sizeof(*columns) + 15) / 16 * 16;
  double c[B][IDRS_PARTS][4] = {};
  size_t first = (size_t)blockIdx.x * (size_t)dots.slab, next = first;
  IDRSDotsWarp<B> mine;

  IDRSAdmitNext();
  if (strips <= 0 || !task.nx) return;
  mine = IDRSDotsGetWarp<B>(task, strips, dots.slab);
  for (int i = (int)threadIdx.x; i < task.columns; i += (int)blockDim.x)
    columns[i] = dots.columns ? dots.columns[task.column + i] : dots.column[task.column + i];
  __syncthreads();
  for (int i = 0; i < IDRS_DOTS_STAGES - 1; i++, next += stride) {
    if (next < dots.n) IDRSDotsCopy<W>(dots, columns, task.columns, next, slabs + (size_t)i * stage);
    IDRSCopyCommit();
  }
  for (int turn = 0; first < dots.n; turn++, first += stride, next += stride) {
    uint2 *here = states + turn % 2 * dots.slab;

    for (int i = (int)threadIdx.x; task.rows && i < dots.slab; i += (int)blockDim.x) {
      const IDRSShadowRow state = IDRSShadowRowState(dots.key, dots.rstart + first + (size_t)i);

      here[i] = make_uint2(state.z0, state.z1);
    }
    IDRSCopyWait<IDRS_DOTS_STAGES - 2>();
    __syncthreads(); /* this slab has arrived, and the slab before it has been used */
    if (next < dots.n)
      IDRSDotsCopy<W>(dots, columns, task.columns, next,
                      slabs + (size_t)((turn + IDRS_DOTS_STAGES - 1) % IDRS_DOTS_STAGES) * stage);
    IDRSCopyCommit();
    if (mine.works) {
      const size_t left = dots.n - first;
      const int   steps = left < (size_t)dots.slab ? ((int)left + IDRS_DOTS_ROWS - 1) / IDRS_DOTS_ROWS : dots.slab / IDRS_DOTS_ROWS;
      const char *slab  = slabs + (size_t)(turn % IDRS_DOTS_STAGES) * stage;

      if (mine.shadow) IDRSDotsShadowSlab<B>(mine, steps, slab, here, c);
      else IDRSDotsExplicitSlab<B>(mine, steps, slab, c);
    }
  }
  IDRSCopyWait<0>();
  IDRSDotsAddWarps<B>(mine, c, (double *)memory);
  IDRSDotsStore<B>(dots, task, firststrip, strips, (double *)memory);
}

/* Adds the sums of thread blocks, 32 sums per block. The last block writes the number for the host */
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSBlockTotalKernel(IDRSOverlap<true, true> overlap, int count, unsigned int blocks, const double *partials, PetscReal *sums,
                       unsigned int *done, uint64_t *arrived, uint64_t sequence)
{
  __shared__ double part[IDRS_WARPS][IDRS_WARP];
  const int warp = (int)threadIdx.x / IDRS_WARP, lane = (int)threadIdx.x % IDRS_WARP, i = (int)blockIdx.x * IDRS_WARP + lane;
  double    sum = 0.0;

  overlap.Begin();
#pragma unroll 8
  for (unsigned int b = (unsigned int)warp; b < blocks; b += IDRS_WARPS)
    sum += i < count ? partials[(size_t)b * (size_t)count + (size_t)i] : 0.0;
  part[warp][lane] = sum;
  __syncthreads();
  if (warp) return;
  if (i < count) {
    for (int l = 1; l < IDRS_WARPS; l++) sum += part[l][lane];
    sums[i] = (PetscReal)sum;
  }
  __threadfence_system();
  __syncwarp();
  if (lane == 0 && atomicAdd(done, 1u) + 1 == gridDim.x) {
    *done = 0;
    __threadfence_system();
    *(volatile uint64_t *)arrived = sequence;
  }
}

/* The shape of the launches of a call, the same for all tasks */
typedef struct {
  PetscInt     columns, tasks; /* columns of all tasks; tasks per launch */
  int          sums, tiles, slab, warps, shares;
  unsigned int blocks; /* thread blocks that share the rows of a task */
  size_t       shared; /* bytes */
  bool         packed;
} IDRSDotsPlan;

static IDRSDotsTask IDRSDotsGetTask(const IDRSBlockDots *from)
{
  IDRSDotsTask task = {};

  task.rows      = (int)from->rows;
  task.nw        = (int)from->nw;
  task.nx        = (int)from->nx;
  task.hermitian = IDRSBlockDotsHermitian(from);
  task.columns   = task.nx + (task.hermitian ? 0 : task.nw);
  return task;
}

static size_t IDRSDotsShared(int slab, int columns)
{
  return (2 * (size_t)slab * sizeof(uint2) + (size_t)columns * sizeof(PetscScalar *) + 15) / 16 * 16 +
         (size_t)IDRS_DOTS_STAGES * (size_t)columns * IDRSDotsColumnBytes(slab);
}

static PetscErrorCode IDRSDotsGetPlan_CUDA(const IDRS_CUDA *cuda, size_t n, PetscInt count, const IDRSBlockDots tasks[],
                                           IDRSDotsPlan *plan)
{
  int    device, limit, all, strips = 0, nx = 0, columns = 0, most = 0;
  size_t slabs, resident;

  PetscFunctionBegin;
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  PetscCallCUDA(cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
  *plan = {};
  for (PetscInt i = 0; i < count; i++) {
    const IDRSDotsTask task = IDRSDotsGetTask(&tasks[i]);

    strips  = PetscMax(strips, IDRSDotsShare(&task, 1));
    nx      = PetscMax(nx, task.nx);
    columns = PetscMax(columns, task.columns);
    plan->columns += task.columns;
    plan->sums += (int)IDRSBlockDotsCount(&tasks[i]);
  }
  plan->tasks  = PetscMin(count, IDRS_DOTS_TASKS);
  plan->tiles  = nx <= IDRS_TILE ? 1 : nx <= 2 * IDRS_TILE ? 2 : 4;
  plan->shares = PetscMax((strips + IDRS_DOTS_WARPS - 1) / IDRS_DOTS_WARPS, 1);
  plan->slab   = IDRS_DOTS_MOST;
  while (plan->slab > IDRS_DOTS_FEWEST &&
         ((size_t)plan->slab * (size_t)columns * sizeof(PetscScalar) > IDRS_DOTS_BYTES ||
          (n + (size_t)plan->slab - 1) / (size_t)plan->slab * (size_t)(plan->tasks * plan->shares) <
            (size_t)(IDRS_DOTS_FILLS * cuda->multiprocessors)))
    plan->slab /= 2;
  while (plan->slab > IDRS_DOTS_ROWS && IDRSDotsShared(plan->slab, columns) > (size_t)limit) plan->slab /= 2;
  for (PetscInt i = 0; i < count; i++) {
    const IDRSDotsTask task  = IDRSDotsGetTask(&tasks[i]);
    const int          share = IDRSDotsShare(&task, plan->shares);

    plan->warps = PetscMax(plan->warps, share * IDRSDotsTurns(PetscMax(share, 1), IDRS_DOTS_WARPS, plan->slab / IDRS_DOTS_ROWS));
    most        = PetscMax(most, share);
  }
  plan->shared = PetscMax(IDRSDotsShared(plan->slab, columns),
                          (size_t)(most * plan->tiles * IDRS_TILE * IDRS_STRIP * IDRS_PARTS) * sizeof(double));
  resident     = plan->tiles * IDRS_PARTS <= 4 ? PetscMin((size_t)all / (plan->shared + 1024), (size_t)IDRS_DOTS_RESIDENT) : 1;
  slabs        = (n + (size_t)plan->slab - 1) / (size_t)plan->slab;
  plan->blocks = (unsigned int)
    PetscMax(PetscMin(PetscMin(resident * (size_t)cuda->multiprocessors / (size_t)(plan->tasks * plan->shares), slabs),
                      IDRS_PARTIALS / (size_t)(plan->sums * IDRS_PARTS)),
             (size_t)1);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Allocates memory for the sums of thread blocks, and for the final sums */
static PetscErrorCode IDRSDotsGetMemory_CUDA(IDRSBlockMemory *memory, const IDRSDotsPlan *plan)
{
  const size_t       partials = (size_t)plan->sums * IDRS_PARTS * plan->blocks, sums = (size_t)plan->sums;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  if (partials > memory->partialcount) {
    memory->partialcount = 0;
    PetscCall(PetscDeviceFree(dctx, memory->partials));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, partials, &memory->partials));
    memory->partialcount = partials;
  }
  if (sums > memory->sumcount) {
    memory->sumcount = 0;
    PetscCall(PetscDeviceFree(dctx, memory->sums));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_HOST, sums, &memory->sums));
    memory->sumcount = sums;
  }
  if (!memory->arrived) {
    PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &memory->done));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_HOST, 1, &memory->arrived));
    /* not PetscDeviceCalloc(), which clears it in the stream: until then the host might read an old number */
    *memory->arrived = 0;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Gets the columns of tasks; *packed: all can be copied in packs */
static PetscErrorCode IDRSDotsGetColumns_CUDA(PetscInt count, const IDRSBlockDots tasks[], const PetscScalar *columns[],
                                              bool *packed)
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) {
    const PetscInt nw = IDRSBlockDotsHermitian(&tasks[i]) ? 0 : tasks[i].nw;

    for (PetscInt l = 0; l < nw + tasks[i].nx; l++) {
      const IDRSBlockVec *column = l < nw ? &tasks[i].w[l] : &tasks[i].x[l - nw];

      PetscCall(IDRSColumnRead_CUDA(column->vec));
      *packed    = *packed && IDRSAligned(column->array);
      *columns++ = column->array;
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Launches as many tasks at a time as the arguments of a kernel can hold */
static PetscErrorCode IDRSDotsLaunch_CUDA(PetscInt count, const IDRSBlockDots tasks[], const IDRSDotsPlan *plan,
                                          IDRSDotsArguments *dots, cudaStream_t stream)
{
  int column = 0, sum = 0;

  PetscFunctionBegin;
  for (PetscInt first = 0; first < count; first += plan->tasks) {
    const PetscInt some   = PetscMin(count - first, plan->tasks);
    auto           launch = [&](auto B, auto W) {
      /* more than 48 KiB of shared memory must be requested on each device that a process uses */
      if (plan->shared > 49152)
        PetscCallCUDA(
          cudaFuncSetAttribute(IDRSBlockProjectKernel<B, W>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)plan->shared));
      IDRSBlockProjectKernel<B, W><<<dim3(plan->blocks, (unsigned int)some, (unsigned int)plan->shares),
                                               (unsigned int)(plan->warps * IDRS_WARP), plan->shared, stream>>>(*dots);
      return PETSC_SUCCESS;
    };
    auto packed = [&](auto B) { return plan->packed ? launch(B, IDRSInt<IDRS_PACK>()) : launch(B, IDRSInt<1>()); };

    for (PetscInt i = 0; i < some; i++) {
      IDRSDotsTask *task = &dots->task[i];

      *task        = IDRSDotsGetTask(&tasks[first + i]);
      task->column = column;
      task->sum    = sum;
      column += task->columns;
      sum += (int)IDRSBlockDotsCount(&tasks[first + i]);
    }
    if (plan->tiles == 1) PetscCall(packed(IDRSInt<1>()));
    else if (plan->tiles == 2) PetscCall(packed(IDRSInt<2>()));
    else PetscCall(packed(IDRSInt<4>()));
    PetscCallCUDA(cudaGetLastError());
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The host waits for the sums */
PetscErrorCode IDRSBlockProject_CUDA(IDRSWorkspace work, PetscInt count, const IDRSBlockDots tasks[], PetscScalar sums[])
{
  const size_t        n      = (size_t)work->n;
  IDRS_CUDA          *cuda   = (IDRS_CUDA *)work->data;
  IDRSBlockMemory    *memory = &cuda->block;
  IDRSDotsArguments   dots   = {};
  IDRSDotsPlan        plan;
  const PetscScalar **columns = dots.column;
  char               *host    = NULL, *device;
  size_t              bytes;
  int                 parts;
  PetscInt            nsums = 0;
  cudaStream_t        stream;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) nsums += IDRSBlockDotsCount(&tasks[i]);
  if (!nsums) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSDotsGetPlan_CUDA(cuda, n, count, tasks, &plan));
  PetscCall(IDRSDotsGetMemory_CUDA(memory, &plan));
  bytes = ((size_t)plan.columns * sizeof(*columns) + 15) / 16 * 16;
  if (plan.columns > IDRS_DOTS_COLUMNS) {
    PetscCall(IDRSBlockGetOperands_CUDA(cuda, bytes, stream, &host, &device));
    columns      = (const PetscScalar **)host;
    dots.columns = (const PetscScalar *const *)device;
  }
  plan.packed = true;
  PetscCall(IDRSDotsGetColumns_CUDA(count, tasks, columns, &plan.packed));
  if (host) PetscCallCUDA(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream));
  dots.n        = n;
  dots.key      = IDRSShadowKey(work->seed);
  dots.rstart   = (uint64_t)work->rstart;
  dots.partials = memory->partials;
  dots.sums     = plan.sums;
  dots.slab     = plan.slab;
  parts         = plan.sums * IDRS_PARTS;
  PetscCall(PetscLogGpuTimeBegin());
  PetscCall(IDRSDotsLaunch_CUDA(count, tasks, &plan, &dots, stream));
  IDRSLaunch<IDRSBlockTotalKernel>(dim3((unsigned int)(parts + IDRS_WARP - 1) / IDRS_WARP), stream, parts, plan.blocks,
                                   (const double *)memory->partials, (PetscReal *)memory->sums, memory->done, memory->arrived,
                                   ++memory->sequence);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(IDRSWait_CUDA(work, memory->arrived, memory->sequence));
  memory->operandsused = 0; /* all copies before the sums have ended */
  PetscCall(PetscArraycpy(sums, memory->sums, nsums));
  PetscFunctionReturn(PETSC_SUCCESS);
}
