/*
   Many steps in one kernel, from a direction that is there until the host is to continue: for systems so small that launches would take longer than the work.

   All blocks are resident at once, and a thread has the same rows in all passes: the panels, r, z, v and t are read and written by their own thread only.
   Two things go from block to block in a step:

     the direction u    each entry, for the rows of A u that need it
     the sums           of each block, which all blocks add up, in the same order

   Then every block does the algebra of the step for itself, with the same outcome. No barrier and no fence is needed: what goes from block to block is in messages, as in
   finish.cuh, each word of which carries the number of its step. Whoever reads the number has the value.

     entries of u       A block writes those of step j+1 once it has the sums of all blocks of step j. The sums of a block depend on all that it has read of u in step j.
                        So nobody reads u of step j any more.
     sums               Those of steps j and j+1 are in two places. A block writes those of step j+2 over those of step j once it has the sums of all blocks of step j+1, and a block
                        leaves these after it has read all sums of step j.

   A block that waits for another one too long gives up, and so do all others: then the host is told, and the solve ends with an error.
*/
#include "project.cuh"
#include "../../mat/cuda/csr.h"
#include "../../mat/cuda/rowsum.cuh"
#include "../../sys/device/cooperative.cuh"

/* Steps of one kernel, so that it ends within some ten milliseconds */
#define IDRS_WHOLE_STEPS 2048

/* How often a message is asked for: some ten seconds */
#define IDRS_WHOLE_POLLS (1u << 24)

/* What has become of the steps, on the host */
typedef struct {
  PetscReal norms[IDRS_WHOLE_STEPS]; /* of r, at the begin of each step that the kernel has completed */
  PetscInt  completed;
  int       k, start; /* the step in which the host continues */
  int       lost;     /* a message has not come */
} IDRSWholeResult;

struct _n_IDRSWhole {
  IDRSBlockMessage *entries; /* of u */
  IDRSWholeResult  *result;  /* pinned */
  PetscObjectId     id;      /* of the matrix whose rows are known */
  PetscObjectState  pattern;
  unsigned int      longest; /* row */
  int               lanes;   /* of a row */
};

typedef struct {
  IDRSPanels         panels;
  IDRSCSR            A;
  int                lanes;
  IDRSBlockMessage  *entries;
  IDRSPartials       partials; /* launch: number of the first step */
  const PetscScalar *diagonal;
  PetscScalar       *r, *z, *v, *t, *storage;
  PetscReal          shadownorm;
  IDRSStep           step;
  IDRSLimits         limits;
  IDRSWholeResult   *result;
  uint64_t          *arrived, sequence;
} IDRSWholeSteps;

struct IDRSBoundedPatience {
  unsigned int left;

  static __device__ __forceinline__ IDRSBlockMessage Load(const IDRSBlockMessage *message) { return IDRSLoadRelaxed(message); }

  __device__ __forceinline__ bool Ends()
  {
    if (left) left--;
    return !left;
  }
};

/* The u of a step, on its way to the rows that need it */
struct IDRSEntries {
  IDRSBlockMessage    *entries;
  uint32_t             number;
  IDRSBoundedPatience *patience;

  __device__ __forceinline__ void operator()(size_t i, const IDRSPack<1> &u) const
  {
    const PetscReal part[2] = {PetscRealPart(u.v[0]), PetscImaginaryPart(u.v[0])};

#pragma unroll
    for (int k = 0; k < IDRS_PARTS; k++) IDRSPostMessage(entries + i * IDRS_PARTS + k, part[k], number);
  }
};

/* The lanes of a warp go on together: one that waits by itself leaves a warp whose shuffles each take hundreds of cycles, until the next barrier */
static __device__ __forceinline__ bool IDRSGoesOn(const IDRSEntries &, bool left)
{
  return !IDRSWarpAll(!left);
}

/* By a warp. All entries are on their way before one is looked at */
template <int ATONCE>
static __device__ __forceinline__ void IDRSGather(const IDRSEntries &u, const PetscInt column[ATONCE], PetscScalar entry[ATONCE])
{
  IDRSBlockMessage message[ATONCE * IDRS_PARTS];
  bool             all;

  do {
#pragma unroll
    for (int l = 0; l < ATONCE * IDRS_PARTS; l++) message[l] = IDRSLoadRelaxed(u.entries + (size_t)max(column[l / IDRS_PARTS], (PetscInt)0) * IDRS_PARTS + l % IDRS_PARTS);
    all = true;
#pragma unroll
    for (int l = 0; l < ATONCE * IDRS_PARTS; l++) all = all & IDRSMessageHasCome(message[l], u.number);
  } while (!IDRSWarpAll(all || u.patience->Ends()));
#pragma unroll
  for (int l = 0; l < ATONCE; l++) entry[l] = IDRSMessagesScalar(message + l * IDRS_PARTS);
}

/* Product and projection of a step, with the sums of all blocks; rr: part of r^H r of this thread */
template <int S, bool Y, bool HASHED>
static __device__ __forceinline__ void IDRSWholeProject(const IDRSWholeSteps &steps, const IDRSShadow<S> &P, const IDRSEntries &u, PetscScalar *x, PetscReal rr, PetscScalar *sums)
{
  const size_t         n = steps.panels.n, lane = threadIdx.x % IDRS_WARP;
  IDRSPartials         partials = steps.partials;
  IDRSDots<S, Y, true> dots;

  partials.launch = u.number;
  if (u.number % 2) partials.messages = partials.second;
  partials.earlier = 0;
  IDRSDotsClear(dots);
  dots.square[dots.squares - 1] = rr;
  for (size_t row = IDRSFirstRow<1>() - lane; row < n; row += IDRSRowStride<1>()) {
    const size_t i = row + lane;
    IDRSPack<1>  xi, yi = IDRSZero<1>();

    if (Y) yi = IDRSLoad<1>(steps.r, i, n);
    xi.v[0] = IDRSRowSum<8>(steps.A, u, (IDRSIndex)row, steps.lanes);
    IDRSStore<1>(x, i, n, xi);
    IDRSDotsAdd<S, 1, Y, HASHED>(dots, P, i, n, xi, yi);
  }
  (void)IDRSDotsFinish<S, Y>(dots, partials);
  IDRSDotsTotal<S, Y, HASHED, true>(partials, P, false, sums, *u.patience);
}

/* By a warp: whether the device goes on after this step; else the host continues with its sums. *rnorm is the norm of r at its begin, *peak the largest one so far */
static __device__ __forceinline__ bool IDRSWholeContinue(IDRSScalars *scalars, const IDRSStep &step, const IDRSLimits &limits, PetscInt completed, PetscReal *rnorm, PetscReal *peak)
{
  const PetscInt  s     = scalars->s;
  const bool      omega = step.k == s, y = step.start || omega;
  const PetscReal norm = PetscSqrtReal(PetscRealPart(scalars->sums[IDRS_SUM_RR(s)])), now = y ? PetscSqrtReal(PetscRealPart(scalars->sums[IDRS_SUM_YY(s)])) : norm;

  if (limits.its + completed + 1 >= limits.maxits || completed + 1 >= IDRS_WHOLE_STEPS) return false;
  if (step.unreported) *peak = max(*peak, norm);
  if (omega && now < limits.fall * *peak && now < limits.anchornorm) return false;
  return y ? IDRSContinue<true>(scalars, step, limits.bounds, rnorm) : IDRSContinue<false>(scalars, step, limits.bounds, rnorm);
}

/* The passes after the algebra of a step, up to the next direction. Returns the part of r^H r of this thread */
template <int S>
static __device__ __forceinline__ PetscReal IDRSWholePasses(const IDRSWholeSteps &steps, const IDRSStep &step, const IDRSCoefficients<S> &c, const IDRSEntries &next)
{
  const int            s = steps.panels.s, k = (int)step.k;
  const bool           inner     = k + 1 < s;
  const IDRSDirection  direction = {inner || (k < s && steps.diagonal && !step.start) || k == s, inner || k == s, steps.diagonal, steps.v};
  const IDRSTellNobody nobody;

  if (k == s) return IDRSAdvanceRows<S, 1>(steps.panels, c, direction, s, (const PetscScalar *)NULL, steps.t, steps.z, steps.r, next);
  if (!step.start) return IDRSUpdateRows<S, 1, false>(steps.panels, c, direction, k, direction.wantv ? s : k + 1, steps.r, next);
  if (inner) return IDRSUpdateRows<S, 1, true>(steps.panels, c, direction, k, k + 1, steps.r, next);
  return IDRSUpdateRows<S, 1, true>(steps.panels, c, direction, k, k + 1, steps.r, nobody);
}

/* The omega step that ends the start begins with r = r - G c, and its direction is r or B^{-1}r */
template <int S>
static __device__ __forceinline__ void IDRSWholeEndStart(const IDRSWholeSteps &steps, const IDRSCoefficients<S> &c, const IDRSEntries &next)
{
  const IDRSDirection direction = {true, false, NULL, steps.r};

  IDRSCombineRows<S, 1>(steps.panels, c, direction, 0, steps.panels.s, steps.r, [&](size_t i, IDRSPack<1> d) {
    if (steps.diagonal) {
      IDRSScaleEntries<1>(d, IDRSLoad<1>(steps.diagonal, i, steps.panels.n));
      IDRSStore<1>(steps.v, i, steps.panels.n, d);
    }
    next(i, d);
  });
}

template <int S, bool HASHED>
static __global__ void __launch_bounds__(IDRS_THREADS, 1) IDRSWholeKernel(const __grid_constant__ IDRSWholeSteps steps, const __grid_constant__ IDRSShadow<S> P)
{
  __shared__ PetscScalar storage[IDRS_STORAGE(S)];
  __shared__ IDRSCoefficients<S> c;
  __shared__ bool                goeson;
  const size_t                   n    = steps.panels.n;
  const int                      s    = steps.panels.s;
  IDRSStep                       step = steps.step;
  PetscReal                      rr = 0.0, peak = steps.limits.peak;
  IDRSBoundedPatience            patience  = {IDRS_WHOLE_POLLS};
  IDRSEntries                    u         = {steps.entries, steps.partials.launch, &patience};
  PetscInt                       completed = 0;
  IDRSScalars                    scalars;
  bool                           lost;

  IDRSScalarsSetPointers(&scalars, s, storage);
  scalars.shadownorm = steps.shadownorm;
  for (int i = threadIdx.x; i < IDRS_STORAGE_SUMS(s); i += IDRS_THREADS) storage[i] = steps.storage[i];
  for (size_t i = IDRSFirstRow<1>(); i < n; i += IDRSRowStride<1>()) {
    const PetscScalar *direction = step.k < s ? steps.panels.U + step.k * steps.panels.ld : (steps.diagonal ? steps.v : steps.r);

    rr += IDRSSquare<1>(IDRSLoad<1>(steps.r, i, n));
    u(i, IDRSLoad<1>(direction, i, n));
  }
  for (;; completed++) {
    PetscScalar *x = step.k < s ? steps.panels.G + step.k * steps.panels.ld : steps.t;

    if (step.start || step.k == s) IDRSWholeProject<S, true, HASHED>(steps, P, u, x, rr, scalars.sums);
    else IDRSWholeProject<S, false, HASHED>(steps, P, u, x, rr, scalars.sums);
    lost = __syncthreads_or(!patience.left);
    if (threadIdx.x < IDRS_WARP) {
      PetscReal  rnorm;
      const bool goes = IDRSWholeContinue(&scalars, step, steps.limits, completed, &rnorm, &peak) && !lost;

      for (int j = threadIdx.x; j < s; j += IDRS_WARP) IDRSGetCoefficient<S>(&scalars, step.k < s ? step.k : -1, j, &c);
      if (threadIdx.x == 0) {
        goeson = goes;
        if (goes && blockIdx.x == 0) steps.result->norms[completed] = rnorm;
      }
    }
    __syncthreads();
    if (!goeson) break;
    u.number++;
    rr              = IDRSWholePasses<S>(steps, step, c, u);
    step.unreported = PETSC_TRUE;
    if (step.k == s) step.start = PETSC_FALSE;
    step.k = step.k < s ? step.k + 1 : 0;
    if (step.start && step.k == s) {
      __syncthreads();
      for (int j = threadIdx.x; j < s; j += IDRS_THREADS) IDRSGetCoefficient<S>(&scalars, -1, j, &c);
      __syncthreads();
      IDRSWholeEndStart<S>(steps, c, u);
    }
  }
  if (blockIdx.x) return;
  for (int i = threadIdx.x; i < IDRS_STORAGE(s); i += IDRS_THREADS) steps.storage[i] = storage[i];
  if (threadIdx.x == 0) {
    steps.result->completed = completed;
    steps.result->k         = (int)step.k;
    steps.result->start     = step.start;
    steps.result->lost      = lost;
    __threadfence_system();
    *(volatile uint64_t *)steps.arrived = steps.sequence;
  }
}

PetscErrorCode IDRSWholeDestroy_CUDA(IDRSWhole *whole)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (!*whole) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, (*whole)->entries));
  PetscCall(PetscDeviceFree(dctx, (*whole)->result));
  PetscCall(PetscFree(*whole));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The messages and the result, and what is known of the rows of A */
static PetscErrorCode IDRSWholeSetUp_CUDA(IDRSWork work, Mat A)
{
  IDRS_CUDA         *cuda = (IDRS_CUDA *)work->data;
  PetscDeviceContext dctx;
  PetscObjectId      id;
  PetscObjectState   pattern;

  PetscFunctionBegin;
  if (!cuda->whole) {
    PetscCall(PetscNew(&cuda->whole));
    PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
    PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, (size_t)work->n * IDRS_PARTS, &cuda->whole->entries));
    PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_HOST, 1, &cuda->whole->result));
  }
  PetscCall(PetscObjectGetId((PetscObject)A, &id));
  PetscCall(MatGetNonzeroState(A, &pattern));
  if (id != cuda->whole->id || pattern != cuda->whole->pattern) {
    IDRSRowLengths lengths;
    IDRSCSR        csr;

    PetscCall(IDRSGetCSR(A, &csr));
    PetscCall(IDRSGetRowLengths(&csr, UINT_MAX, &lengths));
    PetscCall(IDRSGetRowLanes(A, &cuda->whole->lanes));
    cuda->whole->longest = lengths.longest;
    cuda->whole->id      = id;
    cuda->whole->pattern = pattern;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Why the steps cannot run in one kernel, or had better not, or NULL */
PetscErrorCode IDRSWholeRuns_CUDA(IDRSWork work, IDRSProduct product, const char *why[])
{
  PetscLogDouble nonzeros;
  int            device, cooperative;

  PetscFunctionBegin;
  *why = NULL;
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device));
  if (work->s > IDRS_COLUMNS_AT_ONCE) *why = "it takes at most 16 shadow vectors";
  else if (!cooperative) *why = "the GPU cannot run all blocks of a kernel at once";
  else PetscCall(IDRSProductRuns_CUDA(product, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSWholeSetUp_CUDA(work, product->A));
  PetscCall(IDRSGetNonzeros(product->A, &nonzeros));
  *why = IDRSDeclineLongRow(nonzeros, ((IDRS_CUDA *)work->data)->whole->longest / ((IDRS_CUDA *)work->data)->whole->lanes);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSWholeLaunch_CUDA(IDRSWork work, const IDRSWholeSteps *steps, cudaStream_t stream)
{
  const IDRS_CUDA   *cuda   = (const IDRS_CUDA *)work->data;
  const size_t       enough = ((size_t)work->n + IDRS_THREADS - 1) / IDRS_THREADS;
  const unsigned int blocks = (unsigned int)PetscMax(PetscMin(enough, (size_t)cuda->multiprocessors), (size_t)1);
  const PetscScalar *P[IDRS_COLUMNS_AT_ONCE];
  cudaError_t        error = cudaSuccess;

  PetscFunctionBegin;
  for (PetscInt j = 0; work->P && j < work->s; j++) PetscCall(IDRSGetArrayRead_CUDA(work->P[j], &P[j]));
  PetscCallCUDA(IDRSDispatch(work->s, false, [&](auto S, auto) {
    if constexpr (S > 0) {
      IDRSShadow<S> shadow = {(int)work->s, 0, IDRSShadowKey(work->seed), (uint64_t)work->rstart, {}};

      for (PetscInt j = 0; work->P && j < work->s; j++) shadow.a[j] = P[j];
      if (work->P) error = IDRSLaunchCooperative(IDRSWholeKernel<S, false>, blocks, IDRS_THREADS, stream, *steps, shadow);
      else error = IDRSLaunchCooperative(IDRSWholeKernel<S, true>, blocks, IDRS_THREADS, stream, *steps, shadow);
    }
  }));
  PetscCallCUDA(error);
  for (PetscInt j = 0; work->P && j < work->s; j++) PetscCall(VecRestoreArrayReadAndMemType(work->P[j], &P[j]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSWhole_CUDA - Makes steps, from this one, whose direction is there, until the host is to continue with the sums of *step. Tells how many have been completed, and the
   norm of r at the begin of each of them
*/
PetscErrorCode IDRSWhole_CUDA(IDRSWork work, const IDRSLimits *limits, IDRSStep *step, PetscInt *completed, const PetscReal *norms[])
{
  IDRS_CUDA     *cuda      = (IDRS_CUDA *)work->data;
  IDRSWhole      whole     = cuda->whole;
  IDRSWholeSteps steps     = {};
  Vec            vecs[4]   = {work->r, work->z, work->v, work->t};
  PetscScalar  **arrays[4] = {&steps.r, &steps.z, &steps.v, &steps.t};
  cudaStream_t   stream;

  PetscFunctionBegin;
  PetscCall(IDRSColumnsRead_CUDA(work));
  PetscCall(IDRSStream_CUDA(&stream));
  if (cuda->partials.launch > UINT32_MAX - IDRS_WHOLE_STEPS) { /* numbers begin again, and nothing in memory is to bear one of them */
    PetscCallCUDA(cudaMemsetAsync(cuda->partials.messages, 0, 2 * IDRS_MESSAGES * IDRS_BLOCKS_PER_SM * (size_t)cuda->multiprocessors * sizeof(IDRSBlockMessage), stream));
    PetscCallCUDA(cudaMemsetAsync(whole->entries, 0, (size_t)work->n * IDRS_PARTS * sizeof(IDRSBlockMessage), stream));
    cuda->partials.launch = 0;
  }
  steps.panels     = cuda->panels;
  steps.lanes      = whole->lanes;
  steps.entries    = whole->entries;
  steps.partials   = cuda->partials;
  steps.storage    = cuda->storage;
  steps.shadownorm = work->scalars.shadownorm;
  steps.step       = *step;
  steps.limits     = *limits;
  steps.result     = whole->result;
  steps.arrived    = cuda->arrived;
  steps.sequence   = ++cuda->sequence;
  steps.partials.launch++;
  PetscCall(IDRSGetCSR(work->product->A, &steps.A));
  for (int i = 0; i < 4; i++) PetscCall(IDRSGetArray_CUDA(vecs[i], VecGetArrayAndMemType, arrays[i]));
  PetscCall(IDRSGetDiagonal_CUDA(work, true, &steps.diagonal));
  PetscCall(PetscLogGpuTimeBegin());
  PetscCall(IDRSWholeLaunch_CUDA(work, &steps, stream));
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(IDRSRestoreDiagonal_CUDA(work, &steps.diagonal));
  for (int i = 3; i >= 0; i--) PetscCall(VecRestoreArrayAndMemType(vecs[i], arrays[i]));
  for (PetscInt j = 0; j < work->s; j++) {
    PetscCall(IDRSColumnWritten_CUDA(work->G[j]));
    PetscCall(IDRSColumnWritten_CUDA(work->U[j]));
  }
  cuda->partials.launch += IDRS_WHOLE_STEPS;
  PetscCall(IDRSWait_CUDA(work, cuda->sequence));
  PetscCheck(!whole->result->lost, PETSC_COMM_SELF, PETSC_ERR_GPU, "Blocks of a kernel of KSPIDRS have not met: are they held up, by a debugger perhaps? -ksp_idrs_run steps does without");
  *step      = {whole->result->k, whole->result->start ? PETSC_TRUE : PETSC_FALSE, whole->result->completed ? PETSC_TRUE : step->unreported, PETSC_FALSE, PETSC_FALSE, step->matvec};
  *completed = whole->result->completed;
  *norms     = whole->result->norms;
  PetscFunctionReturn(PETSC_SUCCESS);
}
