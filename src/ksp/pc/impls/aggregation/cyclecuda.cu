/*
   The visits of small levels in one kernel, by one thread block cluster, see cycle.c. The vectors of the levels are in global
   memory, which is the L2 cache here. After each product there is a barrier of the cluster, or, if one block processes a level
   with few rows, of this block.

   A step of the smoother is x = x + v_k, with v_0 = D^{-1}(b - A x) and the steps of a polynomial, see idrspowers.h:

     v_j = gamma_j (D^{-1}A - theta_j) v_{j-1} - mu_j v_{j-2}
*/
#include "../../../../sys/device/cluster.cuh"
#include "aggregatescuda.cuh"

#define CYCLE_THREADS 1024
#define CYCLE_STEPS   15
#define CYCLE_LEVELS  12
#define CYCLE_NARROW  (2 * CYCLE_THREADS) /* most rows of a level for one block */
#define CYCLE_DENSE   128                 /* most rows of a coarsest level for one block */

typedef struct {
  IDRSCSR            A;
  const PetscScalar *inverse; /* diagonal of D^{-1} */
  AggregatesCUDA     next;    /* the step to the coarser level */
  bool               wide;    /* all blocks process the level, and those above it; else the first one does */
  int                visits;  /* of the coarser level */
  int                steps;
  PetscScalar        gamma[CYCLE_STEPS], theta[CYCLE_STEPS], mu[CYCLE_STEPS];
  PetscScalar       *x, *b, *v[2];
} CycleLevel;

struct _n_AggregationCycle {
  int            levels, blocks; /* of the cluster */
  Mat            top;            /* the matrix of the highest level, referenced: the program may change it */
  Mat            transposed;     /* the transposed inverse of the coarsest matrix, referenced */
  CycleLevel    *level;          /* on the GPU; level 0 has x and b only */
  PetscScalar   *memory;
  PetscLogDouble flops; /* of a visit */
};

/* The threads that process a level */
typedef struct {
  bool wide, member; /* this thread is one of them */
  int  first, stride;
} Team;

static __device__ __forceinline__ Team TeamFor(const CycleLevel &level)
{
  return {level.wide, level.wide || blockIdx.x == 0, (int)(level.wide ? blockIdx.x * CYCLE_THREADS + threadIdx.x : threadIdx.x),
          (int)(level.wide ? gridDim.x * CYCLE_THREADS : CYCLE_THREADS)};
}

static __device__ __forceinline__ void TeamBarrier(const Team &team)
{
  if (team.wide) IDRSClusterBarrier();
  else __syncthreads();
}

/* x = B^{-1}b if "zero", else x = x + B^{-1}(b - A x) */
static __device__ void SmoothLevel(const CycleLevel &level, const IDRSCSR &A, const Team &team, bool zero, const PetscScalar *b,
                                   PetscScalar *x)
{
  if (!team.member) return;
  for (int row = team.first; row < A.n; row += team.stride) {
    PetscScalar r = b[row];

    if (!zero) r -= RowProduct(A, row, x);
    level.v[0][row] = level.inverse[row] * r;
  }
  TeamBarrier(team);
  for (int j = 0; j < level.steps; j++) {
    const PetscScalar *const last  = level.v[j % 2];
    PetscScalar *const       other = level.v[(j + 1) % 2]; /* v_{j-2}, then v_j */

    for (int row = team.first; row < A.n; row += team.stride) {
      PetscScalar next = level.gamma[j] * (level.inverse[row] * RowProduct(A, row, last) - level.theta[j] * last[row]);

      if (j) next -= level.mu[j] * other[row];
      if (j + 1 < level.steps) other[row] = next;
      else x[row] = zero ? next : x[row] + next;
    }
    TeamBarrier(team);
  }
}

/* b of the coarser level = P^T (b - A x) */
static __device__ void RestrictResidual(const CycleLevel &level, const IDRSCSR &A, const Team &team, const PetscScalar *b,
                                        const PetscScalar *x, PetscScalar *coarse)
{
  if (!team.member) return;
  for (int row = team.first; row < A.n; row += team.stride) level.v[0][row] = b[row] - RowProduct(A, row, x);
  TeamBarrier(team);
  for (int c = team.first; c < level.next.count; c += team.stride) {
    PetscScalar sum = 0.0;

    for (int k = level.next.start[c]; k < level.next.start[c + 1]; k++) sum += level.v[0][level.next.rows[k]];
    coarse[c] = sum;
  }
  TeamBarrier(team);
}

/* x = x + P x of the coarser level */
static __device__ void ProlongCorrection(const CycleLevel &level, const Team &team, const PetscScalar *coarse, PetscScalar *x)
{
  if (!team.member) return;
  for (int row = team.first; row < level.A.n; row += team.stride) {
    const int c = level.next.of[row];

    if (c >= 0) x[row] += coarse[c];
  }
  TeamBarrier(team);
}

/* x = A^{-1}b on the coarsest level, a warp for a row, whose entries are in a column of the transposed inverse */
static __device__ void SolveCoarsest(const PetscScalar *transposed, int n, const Team &team, const PetscScalar *b, PetscScalar *x)
{
  const int lane = threadIdx.x % IDRS_WARP;

  if (!team.member) return;
  for (int row = team.first / IDRS_WARP; row < n; row += team.stride / IDRS_WARP) {
    PetscScalar sum = 0.0;

#pragma unroll 4
    for (int j = lane; j < n; j += IDRS_WARP) sum += IDRSLoadConstant(transposed + j + (size_t)row * n) * b[j];
    sum = IDRSWarpSum<IDRS_WARP>(sum);
    if (lane == 0) x[row] = sum;
  }
  TeamBarrier(team);
}

static __global__ void __launch_bounds__(CYCLE_THREADS, 1)
  CycleKernel(const CycleLevel *levels, int count, IDRSCSR top, const PetscScalar *transposed, int visits, const PetscScalar *b,
              PetscScalar *x)
{
  int  left[CYCLE_LEVELS]; /* visits of each level that have not ended */
  int  l    = count - 1;
  bool zero = true;

  left[l] = visits;
  for (;;) {
    const CycleLevel        &level = levels[l];
    const IDRSCSR           &A     = l == count - 1 ? top : level.A;
    const Team               team  = TeamFor(level);
    const PetscScalar *const bl    = l == count - 1 ? b : level.b;
    PetscScalar *const       xl    = l == count - 1 ? x : level.x;

    if (l) { /* down */
      SmoothLevel(level, A, team, zero, bl, xl);
      RestrictResidual(level, A, team, bl, xl, levels[l - 1].b);
      left[--l] = level.visits;
      zero      = true;
      continue;
    }
    SolveCoarsest(transposed, (int)level.A.n, team, bl, xl);
    left[0] = 0;
    /* up, until a level is visited again */
    while (l < count - 1 && left[l] == 0) {
      const CycleLevel  &upper = levels[l + 1];
      const Team         above = TeamFor(upper);
      PetscScalar *const to    = l + 1 == count - 1 ? x : upper.x;

      /* the first block has made the visits below alone */
      if (above.wide && !levels[l].wide) IDRSClusterBarrier();
      ProlongCorrection(upper, above, levels[l].x, to);
      SmoothLevel(upper, l + 1 == count - 1 ? top : upper.A, above, false, l + 1 == count - 1 ? b : upper.b, to);
      left[++l]--;
    }
    if (left[l] == 0) break;
    zero = false;
  }
}

/* step[0] is not used */
static PetscErrorCode AggregationCycleCreate_CUDA(PetscInt levels, const AggregationStep step[], Mat transposed,
                                                  AggregationCycle *newcycle, const char *why[])
{
  AggregationCycle   cycle;
  CycleLevel         level[CYCLE_LEVELS] = {};
  PetscInt           n;
  size_t             needed = 0;
  size_t             shared;
  int                clusters, blocks = 0;
  cudaStream_t       stream;
  PetscDeviceContext dctx;
  PetscScalar       *memory;

  PetscFunctionBegin;
  if (levels > CYCLE_LEVELS) *why = "they are too many";
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
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscNew(&cycle));
  PetscCall(MatGetSize(transposed, &n, NULL));
  level[0].A.n  = n;
  level[0].wide = n > CYCLE_DENSE;
  cycle->levels = (int)levels;
  cycle->blocks = blocks;
  for (PetscInt l = 1; l < levels; l++) {
    const IDRSPowers *powers = &step[l].polynomial->powers;
    PetscLogDouble    nonzeros;
    AggregatesCUDA   *next;

    PetscCall(AggregatesGetCSR_CUDA(step[l].A, &level[l].A));
    PetscCall(IDRSGetNonzeros(step[l].A, &nonzeros));
    PetscCall(IDRSFindArrayRead_CUDA(powers->inverse, &level[l].inverse));
    PetscCall(MatShellGetContext(step[l].P, &next));
    level[l].next   = *next;
    level[l].wide   = level[l - 1].wide || level[l].A.n > CYCLE_NARROW;
    level[l].visits = (int)step[l].visits;
    level[l].steps  = (int)powers->k;
    for (PetscInt j = 0; j < powers->k; j++) {
      level[l].gamma[j] = powers->gamma[j];
      level[l].theta[j] = powers->theta[j];
      level[l].mu[j]    = powers->mu[j];
    }
    needed += 4 * (size_t)level[l].A.n;
    cycle->flops = step[l].visits * cycle->flops + 4.0 * nonzeros * (PetscLogDouble)(powers->k + 1);
  }
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, needed + 2 * n, &cycle->memory));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, levels, &cycle->level));
  memory = cycle->memory;
  for (PetscInt l = 0; l < levels; l++) {
    PetscScalar **const vectors[] = {&level[l].x, &level[l].b, &level[l].v[0], &level[l].v[1]};

    for (int k = 0; k < (l ? 4 : 2); k++) {
      *vectors[k] = memory;
      memory += level[l].A.n;
    }
  }
  PetscCallCUDA(cudaMemcpyAsync(cycle->level, level, levels * sizeof(*level), cudaMemcpyHostToDevice, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscCall(PetscObjectReference((PetscObject)transposed));
  PetscCall(PetscObjectReference((PetscObject)step[levels - 1].A));
  cycle->transposed = transposed;
  cycle->top        = step[levels - 1].A;
  *newcycle         = cycle;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode AggregationCycleApply_CUDA(AggregationCycle cycle, PetscInt visits, Vec b, Vec x)
{
  const PetscScalar  *bs, *transposed;
  IDRSCSR             csr;
  PetscScalar        *xs;
  cudaStream_t        stream;
  cudaLaunchAttribute attributes[2];
  cudaLaunchConfig_t  config;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(AggregatesGetCSR_CUDA(cycle->top, &csr));
  PetscCall(IDRSFindArrayRead_CUDA(b, &bs));
  PetscCall(IDRSFindArray_CUDA(x, IDRS_WRITE, &xs));
  PetscCall(MatDenseCUDAGetArrayRead(cycle->transposed, &transposed));
  config = IDRSClusterConfig(1, (unsigned int)cycle->blocks, CYCLE_THREADS, 0, stream, attributes);
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(cudaLaunchKernelEx(&config, CycleKernel, (const CycleLevel *)cycle->level, cycle->levels, csr, transposed,
                                   (int)visits, bs, xs));
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
  PetscCall(PetscDeviceFree(dctx, (*cycle)->memory));
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
};
// clang-format on
