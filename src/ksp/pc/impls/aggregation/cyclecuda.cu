/*
   The visits of small levels in one kernel, by one thread block cluster, see cycle.c. A block has consecutive rows of each level.
   The vectors of a level are in the shared memory of the blocks that have its rows, and so is its matrix if the memory is large
   enough. In a product the blocks load entries of vectors from each other.

   A step of the smoother is x = x + v_k, with v_0 = D^{-1}(b - A x) and the steps of a polynomial, see idrspowers.h:

     v_j = gamma_j (D^{-1}A - theta_j) v_{j-1} - mu_j v_{j-2}
*/
#include "../../../../sys/device/cluster.cuh"
#include "aggregatescuda.cuh"
#include "gathercuda.cuh"

#define CYCLE_THREADS 1024
#define CYCLE_STEPS   15
#define CYCLE_LEVELS  12

/* A level */
typedef struct {
  IDRSCSR            A;       /* of the coarsest level: n only */
  const PetscScalar *inverse; /* diagonal of D^{-1} */
  AggregatesCUDA     next;    /* the step to the coarser level */
  int                visits;  /* of the coarser level */
  int                steps;
  PetscScalar        gamma[CYCLE_STEPS], theta[CYCLE_STEPS], mu[CYCLE_STEPS];
  int                rows;       /* of a block; the last blocks have fewer or none */
  unsigned int       reciprocal; /* row / rows is the upper half of row times this number */
  int                place;      /* of the arrays of CyclePart in the shared memory, in bytes */
} CycleLevel;

/*
   The rows that a block has of a level: places of arrays in the shared memory, in bytes, see Shared()

   range    the entries of each row
   column   of each entry: the address of its entry of x
   a        0 if the matrix is not in the shared memory
*/
typedef struct {
  int x, b, v[2], inverse, range, column, a;
  int first, rows;    /* its rows */
  int begin, entries; /* its entries in A */
} CyclePart;

struct _n_AggregationCycle {
  int            levels, blocks; /* of the cluster */
  Mat            top;            /* the matrix of the highest level, referenced: the program may change it */
  Mat            transposed;     /* the transposed inverse of the coarsest matrix, referenced */
  CycleLevel    *level;          /* on the GPU; level 0 has no matrix */
  size_t         fixed, shared;  /* bytes of shared memory: of all arrays but matrices, and in all */
  PetscLogDouble flops;          /* of a visit */
};

/* Returns an array in the shared memory. A pointer that is itself loaded would give slower loads, because it may point anywhere */
template <typename T>
static __device__ __forceinline__ T *Shared(int place)
{
  extern __shared__ __align__(16) char memory[];

  return (T *)(memory + place);
}

/* The place of a row: its block, and its number there */
static __device__ __forceinline__ int BlockOf(const CycleLevel &level, int row)
{
  return (int)__umulhi((unsigned int)row, level.reciprocal);
}

static __device__ __forceinline__ int NumberOf(const CycleLevel &level, int row)
{
  return row - BlockOf(level, row) * level.rows;
}

/* The address, in the shared memory of the cluster, of the entry of a vector with this row. The blocks have the same layout */
static __device__ __forceinline__ unsigned int AddressOf(const CycleLevel &level, int vector, int row)
{
  unsigned int address = (unsigned int)__cvta_generic_to_shared(Shared<PetscScalar>(vector) + NumberOf(level, row));

  IDRS_CLUSTER_CODE("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(BlockOf(level, row)));
  return address;
}

static __device__ __forceinline__ PetscScalar LoadAddress(unsigned int address)
{
  PetscReal part[IDRS_PARTS];

#pragma unroll
  for (int k = 0; k < IDRS_PARTS; k++) {
    part[k] = 0.0;
#if PetscDefined(USE_REAL_SINGLE)
    IDRS_CLUSTER_CODE("ld.shared::cluster.f32 %0, [%1];" : "=f"(part[k]) : "r"(address + k * (unsigned int)sizeof(PetscReal)));
#else
    IDRS_CLUSTER_CODE("ld.shared::cluster.f64 %0, [%1];" : "=d"(part[k]) : "r"(address + k * (unsigned int)sizeof(PetscReal)));
#endif
  }
#if PetscDefined(USE_COMPLEX)
  return PetscScalar(part[0], part[1]);
#else
  return part[0];
#endif
}

/* Returns the entry of A z in the row with number i, for the matrix in the shared memory or not. z is x or another vector */
template <bool SHARED>
static __device__ __forceinline__ PetscScalar RowSum(const CycleLevel &level, const CyclePart &part, int i, int z)
{
  const int2                range  = Shared<int2>(part.range)[i];
  const unsigned int *const column = Shared<unsigned int>(part.column);
  const PetscScalar *const  a      = Shared<PetscScalar>(part.a);
  const unsigned int        shift  = (unsigned int)(z - part.x);
  PetscScalar               sum    = 0.0;

#pragma unroll 1
  for (int p = range.x; p < range.y; p += AGGREGATES_ATONCE) {
    unsigned int address[AGGREGATES_ATONCE];
    PetscScalar  value[AGGREGATES_ATONCE];

#pragma unroll
    for (int l = 0; l < AGGREGATES_ATONCE; l++) {
      const int q = min(p + l, range.y - 1);

      address[l] = SHARED ? column[q] : AddressOf(level, part.x, (int)__ldg(level.A.j + q));
      value[l]   = SHARED ? a[q] : IDRSLoadConstant(level.A.a + q);
    }
#pragma unroll
    for (int l = 0; l < AGGREGATES_ATONCE; l++) {
      const PetscScalar entry = LoadAddress(address[l] + shift);

      if (p + l < range.y) sum += value[l] * entry;
    }
  }
  return sum;
}

static __device__ __forceinline__ PetscScalar RowProduct(const CycleLevel &level, const CyclePart &part, int i, int z)
{
  return part.a ? RowSum<true>(level, part, i, z) : RowSum<false>(level, part, i, z);
}

/* x = B^{-1}b if "zero", else x = x + B^{-1}(b - A x) */
static __device__ void SmoothLevel(const CycleLevel &level, const CyclePart &part, bool zero)
{
  const PetscScalar *const b = Shared<PetscScalar>(part.b), *const inverse = Shared<PetscScalar>(part.inverse);
  PetscScalar *const x = Shared<PetscScalar>(part.x), *const v = Shared<PetscScalar>(part.v[0]);

  for (int i = threadIdx.x; i < part.rows; i += CYCLE_THREADS)
    v[i] = inverse[i] * (zero ? b[i] : b[i] - RowProduct(level, part, i, part.x));
  IDRSClusterBarrierOwn();
  for (int j = 0; j < level.steps; j++) {
    const PetscScalar *const last  = Shared<PetscScalar>(part.v[j % 2]);
    PetscScalar *const       other = Shared<PetscScalar>(part.v[(j + 1) % 2]); /* v_{j-2}, then v_j */

    for (int i = threadIdx.x; i < part.rows; i += CYCLE_THREADS) {
      PetscScalar next = level.gamma[j] * (inverse[i] * RowProduct(level, part, i, part.v[j % 2]) - level.theta[j] * last[i]);

      if (j) next -= level.mu[j] * other[i];
      if (j + 1 < level.steps) other[i] = next;
      else x[i] = zero ? next : x[i] + next;
    }
    IDRSClusterBarrierOwn();
  }
}

/* b of the coarser level = P^T (b - A x). SmoothLevel() reads it in the same threads, and SolveCoarsest() after a barrier */
static __device__ void RestrictResidual(const CycleLevel &level, const CyclePart &part, const CycleLevel &coarse,
                                        const CyclePart &coarsepart)
{
  const PetscScalar *const b        = Shared<PetscScalar>(part.b);
  PetscScalar *const       residual = Shared<PetscScalar>(part.v[0]);

  for (int i = threadIdx.x; i < part.rows; i += CYCLE_THREADS) residual[i] = b[i] - RowProduct(level, part, i, part.x);
  IDRSClusterBarrierOwn();
  for (int i = threadIdx.x; i < coarsepart.rows; i += CYCLE_THREADS) {
    Shared<PetscScalar>(coarsepart.b)[i] = AggregateSum(level.next, coarsepart.first + i,
                                                        [&](int row) { return LoadAddress(AddressOf(level, part.v[0], row)); });
  }
}

/* x = x + P x of the coarser level */
static __device__ void ProlongCorrection(const CycleLevel &level, const CyclePart &part, const CycleLevel &coarse,
                                         const CyclePart &coarsepart)
{
  for (int i = threadIdx.x; i < part.rows; i += CYCLE_THREADS) {
    const int c = __ldg(level.next.of + part.first + i);

    if (c >= 0) Shared<PetscScalar>(part.x)[i] += LoadAddress(AddressOf(coarse, coarsepart.x, c));
  }
  IDRSClusterBarrierOwn();
}

/*
   x = A^{-1}b on the coarsest level, a warp for a row, whose entries are in a column of the transposed inverse. All of b is in the
   first bytes of the shared memory
*/
static __device__ void SolveCoarsest(const PetscScalar *transposed, const CycleLevel &level, const CyclePart &part)
{
  PetscScalar *const b = Shared<PetscScalar>(0);
  const int          n = (int)level.A.n, lane = threadIdx.x % IDRS_WARP;

  IDRSClusterBarrierOwn();
  for (int row = threadIdx.x; row < n; row += CYCLE_THREADS) b[row] = LoadAddress(AddressOf(level, part.b, row));
  __syncthreads();
  for (int i = threadIdx.x / IDRS_WARP; i < part.rows; i += CYCLE_THREADS / IDRS_WARP) {
    const int   row = part.first + i;
    PetscScalar sum = 0.0;

#pragma unroll 8
    for (int j = lane; j < n; j += IDRS_WARP) sum += IDRSLoadConstant(transposed + j + (size_t)row * n) * b[j];
    sum = IDRSWarpSum<IDRS_WARP>(sum);
    if (lane == 0) Shared<PetscScalar>(part.x)[i] = sum;
  }
  IDRSClusterBarrierOwn();
}

/* Sets the rows of this block, and the places of all arrays in the shared memory. Matrices of coarse levels get the room first */
static __device__ void PlaceParts(const CycleLevel levels[], int count, CyclePart parts[], size_t fixed, size_t shared)
{
  if (threadIdx.x < count) {
    const CycleLevel &level = levels[threadIdx.x];
    CyclePart        &part  = parts[threadIdx.x];
    const int         n = (int)level.A.n, bytes = level.rows * (int)sizeof(PetscScalar);

    part.x       = level.place;
    part.b       = part.x + bytes;
    part.v[0]    = part.b + bytes;
    part.v[1]    = part.v[0] + bytes;
    part.inverse = part.v[1] + bytes;
    part.range   = part.inverse + bytes;
    part.first   = min((int)blockIdx.x * level.rows, n);
    part.rows    = min(level.rows, n - part.first);
    part.begin   = threadIdx.x ? (int)__ldg(level.A.i + part.first) : 0; /* level 0 has no matrix */
    part.entries = threadIdx.x ? (int)__ldg(level.A.i + part.first + part.rows) - part.begin : 0;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int l = 1; l < count; l++) {
      const size_t bytes = ((size_t)parts[l].entries * (sizeof(PetscScalar) + sizeof(unsigned int)) + 15) / 16 * 16;
      const bool   fits  = fixed + bytes <= shared;

      parts[l].a      = fits ? (int)fixed : 0;
      parts[l].column = parts[l].a + parts[l].entries * (int)sizeof(PetscScalar);
      if (fits) fixed += bytes;
    }
  }
  __syncthreads();
}

/* Loads D^{-1} and the entries of A */
static __device__ void LoadPart(const CycleLevel &level, const CyclePart &part)
{
  const int base = part.a ? part.begin : 0;

  for (int i = threadIdx.x; i < part.rows; i += CYCLE_THREADS) {
    const int row = part.first + i;

    Shared<int2>(part.range)[i]          = make_int2((int)__ldg(level.A.i + row) - base, (int)__ldg(level.A.i + row + 1) - base);
    Shared<PetscScalar>(part.inverse)[i] = IDRSLoadConstant(level.inverse + row);
  }
#pragma unroll 8
  for (int p = threadIdx.x; p < (part.a ? part.entries : 0); p += CYCLE_THREADS) {
    Shared<unsigned int>(part.column)[p] = AddressOf(level, part.x, (int)__ldg(level.A.j + part.begin + p));
    Shared<PetscScalar>(part.a)[p]       = IDRSLoadConstant(level.A.a + part.begin + p);
  }
}

/* b of the highest level: from this process, or from another one */
static __device__ void LoadRightSide(const CycleLevel &level, const CyclePart &part, const CycleExchange &exchange,
                                     const PetscScalar *b)
{
  for (int i = threadIdx.x; i < part.rows; i += CYCLE_THREADS) {
    PetscScalar *const entry = Shared<PetscScalar>(part.b) + i;
    const PetscInt     row   = part.first + i;

    if (row >= exchange.first && row < exchange.first + exchange.n) *entry = b[row - exchange.first];
    else IDRSGather<1>(exchange.others, &row, entry);
  }
}

static __global__ void __launch_bounds__(CYCLE_THREADS, 1)
  CycleKernel(const CycleLevel *given, int count, IDRSCSR A, const PetscScalar *transposed, size_t fixed, size_t shared, int visits,
              CycleExchange exchange, const PetscScalar *b, PetscScalar *x)
{
  __shared__ CycleLevel levels[CYCLE_LEVELS];
  __shared__ CyclePart  parts[CYCLE_LEVELS];

  const int top  = count - 1;
  const int last = exchange.first + exchange.n;
  int       left[CYCLE_LEVELS]; /* visits of each level that have not ended */
  int       l    = top;
  bool      zero = true, down = true;

  for (size_t i = (size_t)blockIdx.x * CYCLE_THREADS + threadIdx.x; i < exchange.sends.items; i += gridDim.x * CYCLE_THREADS)
    IDRSSendEntry(exchange.sends, i, 0, b[exchange.sends.index[i]]);
  for (int k = threadIdx.x; k < count * (int)(sizeof(CycleLevel) / sizeof(int)); k += CYCLE_THREADS)
    ((int *)levels)[k] = ((const int *)given)[k];
  __syncthreads();
  if (threadIdx.x == 0) levels[top].A = A;
  __syncthreads();
  PlaceParts(levels, count, parts, fixed, shared);
  for (int k = 1; k < count; k++) LoadPart(levels[k], parts[k]);
  LoadRightSide(levels[top], parts[top], exchange, b);
  __syncthreads();
  left[top] = visits;
  /* one call of each function, since the instructions of this kernel need much of the cache */
  for (;;) {
    if (!down) ProlongCorrection(levels[l], parts[l], levels[l - 1], parts[l - 1]);
    SmoothLevel(levels[l], parts[l], zero);
    if (down) {
      RestrictResidual(levels[l], parts[l], levels[l - 1], parts[l - 1]);
      left[l - 1] = levels[l].visits;
      zero        = true;
      if (--l) continue;
      SolveCoarsest(transposed, levels[0], parts[0]);
      left[0] = 0;
    } else left[l]--;
    zero = false;
    down = left[l] > 0; /* the level is visited again */
    if (down) continue;
    if (l == top) break;
    l++;
  }
  for (int i = threadIdx.x; i < parts[top].rows; i += CYCLE_THREADS) {
    const int row = parts[top].first + i;

    if (row >= exchange.first && row < last) x[row - exchange.first] = Shared<PetscScalar>(parts[top].x)[i];
  }
}

/* Deals out the rows of a level to the blocks, and places its arrays behind the first *bytes of the shared memory */
static void CyclePlaceLevel(CycleLevel *level, int blocks, size_t *bytes)
{
  level->rows       = 2 * (int)((level->A.n + 2 * blocks - 1) / (2 * blocks)); /* even: all arrays are aligned to 8 bytes */
  level->reciprocal = (unsigned int)((((unsigned long long)1 << 32) + level->rows - 1) / level->rows); /* n rows < 2^32 */
  level->place      = (int)*bytes;
  *bytes += (level->rows * (5 * sizeof(PetscScalar) + sizeof(int2)) + 15) / 16 * 16;
}

/* step[0] is not used */
static PetscErrorCode AggregationCycleCreate_CUDA(PetscInt *count, const AggregationStep step[], Mat transposed,
                                                  AggregationCycle *newcycle, const char *why[])
{
  AggregationCycle   cycle;
  CycleLevel         level[CYCLE_LEVELS] = {};
  PetscInt           n, levels = *count;
  size_t             shared = 0, bytes, more;
  int                clusters, blocks = 0;
  cudaStream_t       stream;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  levels = PetscMin(levels, CYCLE_LEVELS);
  for (PetscInt l = 1; l < levels && !*why; l++) {
    const IDRSPolynomial *p = step[l].polynomial;

    if (!p || p->sum.matching || p->sum.output || p->sum.input != p->powers.inverse || !p->powers.inverse)
      *why = "the polynomial of a smoother is not one of D^{-1}A in one kernel";
    else if (p->powers.k > CYCLE_STEPS) *why = "the degree of a smoother is too large";
  }
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  for (int size = IDRS_CLUSTER_BLOCKS; size > 1 && !blocks; size /= 2) {
    PetscCallCUDA(IDRSGetClusters(CycleKernel, size, CYCLE_THREADS, &clusters, &shared));
    if (clusters) blocks = size;
  }
  if (!blocks) *why = "the GPU has no clusters of thread blocks";
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(MatGetSize(transposed, &n, NULL));
  bytes        = (n * sizeof(PetscScalar) + 15) / 16 * 16;
  level[0].A.n = n;
  CyclePlaceLevel(level, blocks, &bytes);
  for (PetscInt l = 1; l < levels; l++) {
    PetscCall(AggregatesGetCSR_CUDA(step[l].A, &level[l].A));
    more = bytes;
    CyclePlaceLevel(level + l, blocks, &more);
    if (more > shared) levels = l;
    else bytes = more;
  }
  *count = levels;
  if (levels < 2) *why = "the shared memory is smaller than their vectors";
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscNew(&cycle));
  cycle->levels = (int)levels;
  cycle->blocks = blocks;
  cycle->fixed  = bytes;
  cycle->shared = shared;
  for (PetscInt l = 1; l < levels; l++) {
    const IDRSPowers *powers = &step[l].polynomial->powers;
    PetscLogDouble    nonzeros;
    AggregatesCUDA   *next;

    PetscCall(IDRSGetNonzeros(step[l].A, &nonzeros));
    PetscCall(IDRSFindArrayRead_CUDA(powers->inverse, &level[l].inverse));
    PetscCall(MatShellGetContext(step[l].P, &next));
    level[l].next   = *next;
    level[l].visits = (int)step[l].visits;
    level[l].steps  = (int)powers->k;
    for (PetscInt j = 0; j < powers->k; j++) {
      level[l].gamma[j] = powers->gamma[j];
      level[l].theta[j] = powers->theta[j];
      level[l].mu[j]    = powers->mu[j];
    }
    cycle->flops = step[l].visits * cycle->flops + 4.0 * nonzeros * (PetscLogDouble)(powers->k + 1);
  }
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, levels, &cycle->level));
  PetscCallCUDA(cudaMemcpyAsync(cycle->level, level, levels * sizeof(*level), cudaMemcpyHostToDevice, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscCall(PetscObjectReference((PetscObject)transposed));
  PetscCall(PetscObjectReference((PetscObject)step[levels - 1].A));
  cycle->transposed = transposed;
  cycle->top        = step[levels - 1].A;
  *newcycle         = cycle;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode AggregationCycleApply_CUDA(AggregationCycle cycle, AggregationGather gather, PetscInt visits, Vec b, Vec x)
{
  const PetscScalar  *bs, *transposed;
  IDRSCSR             csr;
  PetscScalar        *xs;
  cudaStream_t        stream;
  CycleExchange       exchange;
  cudaLaunchAttribute attributes[2];
  cudaLaunchConfig_t  config;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(AggregatesGetCSR_CUDA(cycle->top, &csr));
  PetscCall(IDRSFindArrayRead_CUDA(b, &bs));
  PetscCall(IDRSFindArray_CUDA(x, IDRS_WRITE, &xs));
  PetscCall(MatDenseCUDAGetArrayRead(cycle->transposed, &transposed));
  PetscCall(AggregationGatherNext_CUDA(gather, csr.n, &exchange));
  config = IDRSClusterConfig(1, (unsigned int)cycle->blocks, CYCLE_THREADS, cycle->shared, stream, attributes);
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(cudaLaunchKernelEx(&config, CycleKernel, (const CycleLevel *)cycle->level, cycle->levels, csr, transposed,
                                   cycle->fixed, cycle->shared, (int)visits, exchange, bs, xs));
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(PetscLogGpuFlops(visits * cycle->flops));
  PetscCall(MatDenseCUDARestoreArrayRead(cycle->transposed, &transposed));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode AggregationCycleDestroy_CUDA(AggregationCycle *cycle)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (!*cycle) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, (*cycle)->level));
  PetscCall(MatDestroy(&(*cycle)->transposed));
  PetscCall(MatDestroy(&(*cycle)->top));
  PetscCall(PetscFree(*cycle));
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const AggregationCycleOps AggregationCycles_CUDA = {
  PetscDesignatedInitializer(create, AggregationCycleCreate_CUDA),
  PetscDesignatedInitializer(apply, AggregationCycleApply_CUDA),
  PetscDesignatedInitializer(destroy, AggregationCycleDestroy_CUDA),
  PetscDesignatedInitializer(invertbegin, AggregationInverseBegin_CUDA),
  PetscDesignatedInitializer(invertend, AggregationInverseEnd_CUDA),
  PetscDesignatedInitializer(destroyinverse, AggregationInverseDestroy_CUDA),
  PetscDesignatedInitializer(gather, AggregationGatherCreate_CUDA),
  PetscDesignatedInitializer(gatherisvalid, AggregationGatherIsValid_CUDA),
  PetscDesignatedInitializer(destroygather, AggregationGatherDestroy_CUDA),
};
// clang-format on
