/*
   Many steps in one kernel, from a direction that is there until the host is to continue: for systems so small that launches would
   take longer than the work. Here are the host's part, and the kernel whose blocks have their rows in global memory: a thread has
   the same rows in all passes, and the panels, r, z, v and t are read and written by their own thread only. What goes from block to
   block, and why in order, is in whole.cuh.
*/
#include "wholecluster.h"
#include "../../mat/matching/matchingcuda.h"
#include "../../sys/device/cooperative.cuh"
#include "../../sys/device/timeout.h"

struct _n_IDRSWhole {
  IDRSBlockMessage *entries; /* of u, or of what becomes of it, in even steps and in odd ones */
  IDRSWholeResult  *result;  /* pinned */
  PetscObjectId     id;      /* of the matrix whose rows are known */
  PetscObjectState  pattern;
  PetscInt          nonzeros;
  PetscInt          own;   /* entries of a row that its lane takes */
  PetscInt          turns; /* of a warp at most */
  bool              diagonal;
  IDRSClustered     clustered; /* how the system lies in shared memory, with a diagonal or without */
  /* with a polynomial preconditioner the system is in global memory; of its matrix the same is known as of the operator */
  bool              polynomial;
  PetscObjectId     polyid;
  PetscObjectState  polypattern;
  PetscInt          polyown, polyturns, polynonzeros;
  PetscInt          places;   /* for products of an application */
  IDRSBlockMessage *products; /* entries of those */
};

/* The u of a step, on its way to the rows that need it */
struct IDRSEntries {
  IDRSBlockMessage *entries;
  uint32_t          number;
  IDRSWaitPolls    *wait;

  __device__ __forceinline__ void operator()(size_t i, const IDRSPack<1> &u) const
  {
    IDRSPostScalar(entries + i * IDRS_PARTS, u.v[0], number);
  }
};

/*
   The lanes of a warp go on together: one that waits by itself leaves a warp whose shuffles each take hundreds of cycles, until the
   next barrier
*/
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
    for (int l = 0; l < ATONCE * IDRS_PARTS; l++)
      message[l] = IDRSLoadRelaxed(u.entries + (size_t)max(column[l / IDRS_PARTS], (PetscInt)0) * IDRS_PARTS + l % IDRS_PARTS);
    all = true;
#pragma unroll
    for (int l = 0; l < ATONCE * IDRS_PARTS; l++) all = all & IDRSMessageIsThere(message[l], u.number);
  } while (!IDRSWarpAll(all || u.wait->Ends())); /* each lane counts its own loads here, as in IDRSMessagesSum() */
#pragma unroll
  for (int l = 0; l < ATONCE; l++) entry[l] = IDRSMessagesScalar(message + l * IDRS_PARTS);
}

/* Blocks whose rows are in global memory */
struct IDRSGridBlocks {
  typedef IDRSGridRows  Rows;
  static constexpr bool halo = false, poly = false;
  const IDRSCSR        &A;
  const IDRSPartials   &messages;
  IDRSEntries           u;

  /* Sums of even and odd steps are in two places */
  __device__ __forceinline__ IDRSPartials Partials() const
  {
    IDRSPartials partials = messages;

    partials.launch  = u.number;
    partials.earlier = 0;
    if (u.number % 2) partials.messages = partials.second;
    return partials;
  }

  /* By all threads, as the next one. Nobody gets sums of which a part has not come */
  template <int S, bool Y>
  __device__ __forceinline__ bool PostSums(IDRSDots<S, Y, true> &dots)
  {
    if (__syncthreads_or(!u.wait->left)) return true;
    (void)IDRSDotsFinish<S, Y>(dots, Partials());
    return false;
  }

  template <int S, typename Meanwhile>
  __device__ __forceinline__ bool AddSums(bool y, const IDRSShadow<S> &P, PetscScalar *, PetscScalar *sums,
                                          const Meanwhile &meanwhile)
  {
    if (threadIdx.x < IDRS_WARP) meanwhile();
    if (y) IDRSDotsTotal<S, true, true, true>(Partials(), P, false, sums, *u.wait);
    else IDRSDotsTotal<S, false, true, true>(Partials(), P, false, sums, *u.wait);
    return __syncthreads_or(!u.wait->left);
  }

  __device__ __forceinline__ void Publish(size_t, PetscScalar) const {}

  __device__ __forceinline__ void Synchronize() const {}
};

template <int S>
static __global__ void __launch_bounds__(IDRS_THREADS, 1)
  IDRSWholeKernel(const __grid_constant__ IDRSWholeSteps steps, const __grid_constant__ IDRSShadow<S> P)
{
  IDRSWaitPolls  wait   = {steps.polls};
  IDRSGridBlocks blocks = {
    steps.A, steps.partials, {steps.entries, steps.partials.launch, &wait}
  };

  (void)IDRSWholeRun<S>(steps, P, blocks);
}

/* The same with a polynomial preconditioner; a thread has one row */
struct IDRSPolyBlocks : IDRSGridBlocks {
  static constexpr bool      poly = true;
  const IDRSWholePolynomial &polynomial;

  __device__ __forceinline__ IDRSPolyBlocks(const IDRSGridBlocks &blocks, const IDRSWholePolynomial &p)
    : IDRSGridBlocks(blocks), polynomial(p)
  {
  }
};

template <int S>
static __global__ void __launch_bounds__(IDRS_THREADS, 1)
  IDRSWholePolyKernel(const __grid_constant__ IDRSWholeSteps steps, const __grid_constant__ IDRSShadow<S> P,
                      const __grid_constant__ IDRSWholePolynomial polynomial)
{
  IDRSWaitPolls  wait = {steps.polls};
  IDRSPolyBlocks blocks(
    {
      steps.A, steps.partials, {steps.entries, steps.partials.launch, &wait}
  },
    polynomial);

  (void)IDRSWholeRun<S>(steps, P, blocks);
}

PetscErrorCode IDRSWholeDestroy_CUDA(IDRSWhole *whole)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (!*whole) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, (*whole)->entries));
  PetscCall(PetscDeviceFree(dctx, (*whole)->products));
  PetscCall(PetscDeviceFree(dctx, (*whole)->result));
  PetscCall(IDRSClusteredDestroy_CUDA(&(*whole)->clustered));
  PetscCall(PetscFree(*whole));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Entries of its row that a lane takes, twice as many as there are in the mean; and how often the lanes of a warp ask for entries
   of u, at most, where all of them share the rest of a row, as in IDRSRowSumShared()
*/
static void IDRSWholeShareRows(PetscInt n, const PetscInt *i, PetscInt *own, PetscInt *turns)
{
  *own   = n ? IDRS_WHOLE_ATONCE * (1 + 2 * (i[n] / n) / IDRS_WHOLE_ATONCE) : 0;
  *turns = 0;
  for (PetscInt warp = 0; warp < n; warp += IDRS_WARP) {
    PetscInt first = 0, rest = 0;

    for (PetscInt row = warp; row < PetscMin(n, warp + IDRS_WARP); row++) {
      const PetscInt length = i[row + 1] - i[row];

      first = PetscMax(first, PetscMin(length, *own));
      if (length > *own) rest += (length - *own - 1) / (IDRS_WHOLE_ATONCE * IDRS_WARP) + 1;
    }
    *turns = PetscMax(*turns, (first + IDRS_WHOLE_ATONCE - 1) / IDRS_WHOLE_ATONCE + rest);
  }
}

/* What is known of the rows of the polynomial's matrix, and memory for the entries of its products */
static PetscErrorCode IDRSWholeSetUpPolynomial(IDRSWork work, IDRSWhole whole)
{
  const IDRSPolynomial *polynomial = work->polynomial;
  const PetscInt        places     = polynomial->powers.k + 1;
  Mat                   A          = polynomial->powers.A;
  PetscDeviceContext    dctx;
  PetscObjectId         id;
  PetscObjectState      pattern;
  const PetscInt       *i, *j;
  PetscInt              n;
  PetscBool             done;

  PetscFunctionBegin;
  if (places > whole->places) {
    PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
    PetscCall(PetscDeviceFree(dctx, whole->products));
    whole->places = 0;
    PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, places * (size_t)work->n * IDRS_PARTS, &whole->products));
    whole->places = places;
  }
  PetscCall(PetscObjectGetId((PetscObject)A, &id));
  PetscCall(MatGetNonzeroState(A, &pattern));
  if (id == whole->polyid && pattern == whole->polypattern) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(MatGetRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  PetscCheck(done, PETSC_COMM_SELF, PETSC_ERR_PLIB, "MatGetRowIJ() of a matrix of type %s", ((PetscObject)A)->type_name);
  whole->polynonzeros = i[n];
  IDRSWholeShareRows(n, i, &whole->polyown, &whole->polyturns);
  PetscCall(MatRestoreRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  whole->polyid      = id;
  whole->polypattern = pattern;
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
  if (!cuda->whole || !cuda->whole->result) {
    PetscCall(IDRSWholeDestroy_CUDA(&cuda->whole)); /* what an error has left */
    PetscCall(PetscNew(&cuda->whole));
    PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
    PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 2 * (size_t)work->n * IDRS_PARTS, &cuda->whole->entries));
    PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_HOST, 1, &cuda->whole->result));
  }
  PetscCall(PetscObjectGetId((PetscObject)A, &id));
  PetscCall(MatGetNonzeroState(A, &pattern));
  if (id != cuda->whole->id || pattern != cuda->whole->pattern || cuda->whole->diagonal != (work->diagonal != NULL) ||
      cuda->whole->polynomial != (work->polynomial != NULL)) {
    IDRSClustered  *clustered = &cuda->whole->clustered;
    const PetscInt *i, *j;
    PetscInt        n;
    PetscBool       done;
    PetscErrorCode  ierr;

    cuda->whole->id = 0; /* until all is known of it */
    PetscCall(MatGetRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
    PetscCheck(done, PETSC_COMM_SELF, PETSC_ERR_PLIB, "MatGetRowIJ() of a matrix of type %s", ((PetscObject)A)->type_name);
    cuda->whole->nonzeros = i[n];
    IDRSWholeShareRows(n, i, &cuda->whole->own, &cuda->whole->turns);
    if (work->polynomial) ierr = IDRSClusteredDestroy_CUDA(clustered);
    else ierr = IDRSClusteredSetUp_CUDA(work, i, j, cuda->whole->own, clustered);
    PetscCall(MatRestoreRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
    PetscCall(ierr);
    if (work->polynomial)
      PetscCall(PetscInfo(A, "Steps in one kernel, with a polynomial preconditioner: the system is in global memory\n"));
    else if (clustered->clusters)
      PetscCall(PetscInfo(A, "Steps in one kernel: the system is in shared memory%s, in %u clusters of %u blocks of %zu rows\n",
                          clustered->matrix ? "" : " but for the matrix", clustered->clusters, clustered->size, clustered->rows));
    else PetscCall(PetscInfo(A, "Steps in one kernel: the system does not fit into shared memory, or the GPU has no clusters\n"));
    cuda->whole->id         = id;
    cuda->whole->pattern    = pattern;
    cuda->whole->diagonal   = work->diagonal != NULL;
    cuda->whole->polynomial = work->polynomial != NULL;
  }
  if (work->polynomial) {
    PetscCall(IDRSWholeSetUpPolynomial(work, cuda->whole));
    work->whole = "vectors and matrix are in global memory, and PCPOLY is applied inside the kernel";
  } else if (!cuda->whole->clustered.clusters) work->whole = "vectors and matrix are in global memory";
  else
    work->whole = cuda->whole->clustered.matrix ? "vectors and matrix are in shared memory"
                                                : "vectors are in shared memory, the matrix is in global memory";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   With more nonzeros than this the work of a step takes longer than its launches, if not in shared memory; and with more turns
   others wait too long for a long row. With a polynomial preconditioner a step has many products, and these have a kernel of their
   own that holds the matrix in registers: it is faster with more nonzeros, and with two turns. For the automatic choice
*/
#define IDRS_WHOLE_NONZEROS      1048576
#define IDRS_WHOLE_TURNS         8
#define IDRS_WHOLE_POLY_NONZEROS 131072

/* Why the steps cannot run in one kernel, or had better not if the choice is automatic, or NULL */
static PetscErrorCode IDRSWholeRuns(IDRSWork work, IDRSProduct product, PetscBool automatic, const char *why[])
{
  const IDRSWhole *whole = &((const IDRS_CUDA *)work->data)->whole;
  Mat              block = NULL;
  int              device, cooperative;

  PetscFunctionBegin;
  *why = NULL;
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device));
  if (work->s > IDRS_COLUMNS_AT_ONCE) *why = "it takes at most 16 shadow vectors";
  else if (!work->hashed) *why = "it computes the shadow vectors, and those of this solve are given";
  else if (!cooperative) *why = "the GPU cannot run all blocks of a kernel at once";
  else if (work->polynomial && work->n > IDRS_THREADS * ((const IDRS_CUDA *)work->data)->multiprocessors)
    *why = "with PCPOLY each row needs a thread, and the matrix has more rows";
  else if (work->polynomial && work->polynomial->powers.k > IDRS_WHOLE_PRODUCTS)
    *why = "an application of PCPOLY has more than 32 products";
  else PetscCall((*IDRSProducts_CSR.runs)(product, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSGetBlocks(product->A, &block, NULL)); /* a matrix of a parallel type on one process has nothing outside */
  PetscCall(IDRSWholeSetUp_CUDA(work, block));
  if (!automatic) PetscFunctionReturn(PETSC_SUCCESS);
  if (work->polynomial && (PetscMax((*whole)->turns, (*whole)->polyturns) > 1 ||
                           PetscMax((*whole)->nonzeros, (*whole)->polynonzeros) > IDRS_WHOLE_POLY_NONZEROS))
    *why = "products of PCPOLY are faster in a kernel of their own";
  else if (work->polynomial) PetscFunctionReturn(PETSC_SUCCESS);
  else if (!(*whole)->clustered.clusters && (*whole)->nonzeros > IDRS_WHOLE_NONZEROS)
    *why = "the system does not fit into shared memory, and it would not be faster";
  else if ((*whole)->turns > IDRS_WHOLE_TURNS) *why = "a row is so long that the others would wait for it";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Blocks with their rows in global memory */
static PetscErrorCode IDRSWholeLaunch_CUDA(IDRSWork work, const IDRSWholeSteps *steps, cudaStream_t stream)
{
  const IDRS_CUDA   *cuda   = (const IDRS_CUDA *)work->data;
  const size_t       enough = ((size_t)work->n + IDRS_THREADS - 1) / IDRS_THREADS;
  const unsigned int blocks = (unsigned int)PetscMax(PetscMin(enough, (size_t)cuda->multiprocessors), (size_t)1);

  PetscFunctionBegin;
  PetscCall(IDRSDispatchWhole(work, [&](auto S, auto shadow) {
    return IDRSLaunchCooperative(IDRSWholeKernel<S>, blocks, IDRS_THREADS, stream, *steps, shadow);
  }));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The same with a polynomial preconditioner */
static PetscErrorCode IDRSWholePolyLaunch(IDRSWork work, const IDRSWholeSteps *steps, cudaStream_t stream)
{
  const IDRSPolynomial *polynomial = work->polynomial;
  const IDRSPowers     *powers     = &polynomial->powers;
  const IDRSWhole       whole      = ((const IDRS_CUDA *)work->data)->whole;
  const unsigned int    blocks     = (unsigned int)((work->n + IDRS_THREADS - 1) / IDRS_THREADS);
  const Vec             vecs[]     = {powers->inverse, polynomial->sum.input, polynomial->sum.output};
  IDRSWholePolynomial   poly       = {};
  const PetscScalar   **arrays[]   = {&poly.inverse, &poly.input, &poly.output}, *array;
  const PetscInt       *column;

  PetscFunctionBegin;
  PetscCall(IDRSGetCSR(powers->A, &poly.A));
  for (int i = 0; i < 3; i++) {
    if (!vecs[i]) continue;
    PetscCall(IDRSGetArrayRead_CUDA(vecs[i], &array));
    *arrays[i] = array;
    PetscCall(VecRestoreArrayReadAndMemType(vecs[i], &array)); /* it stays where it is */
  }
  if (polynomial->sum.matching) PetscCall(IDRSMatchingGetPlaces(polynomial->sum.matching, &column, &poly.row));
  poly.own     = (int)whole->polyown;
  poly.steps   = (int)powers->k;
  poly.entries = whole->products;
  for (int j = 0; j < poly.steps; j++) {
    poly.gamma[j] = powers->gamma[j];
    poly.theta[j] = powers->theta[j];
    poly.mu[j]    = j ? powers->mu[j] : (PetscScalar)0.0;
  }
  PetscCall(IDRSDispatchWhole(work, [&](auto S, auto shadow) {
    return IDRSLaunchCooperative(IDRSWholePolyKernel<S>, PetscMax(blocks, 1u), IDRS_THREADS, stream, *steps, shadow, poly);
  }));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* What the kernel has reported, and the step in which the host continues */
static void IDRSWholeSetReport(IDRSWholeResult *result, IDRSStep *step, IDRSWholeReport *report)
{
  for (PetscInt i = 0; i < result->count; i++) result->squares[i] = PetscSqrtReal(result->squares[i]);
  for (PetscInt i = 0; i < result->updates; i++) result->updated[i].rnorm = PetscSqrtReal(result->updated[i].rnorm);
  *report = {result->completed, result->completed + result->updates + 1, result->count, result->updates, result->squares,
             result->updated};
  *step   = {
    result->k,   result->start ? PETSC_TRUE : PETSC_FALSE, result->unreported ? PETSC_TRUE : PETSC_FALSE, PETSC_FALSE, PETSC_FALSE,
    step->matvec};
}

/*
   Makes steps, from this one, whose direction is there, and updates, until the host is to continue with the sums
   of *step. The scalars go to the device and come back
*/
static PetscErrorCode IDRSWholeMakeSteps(IDRSWork work, const IDRSLimits *limits, Vec x, Vec anchor, IDRSStep *step,
                                         IDRSWholeReport *report)
{
  IDRS_CUDA     *cuda     = (IDRS_CUDA *)work->data;
  IDRSWhole      whole    = cuda->whole;
  IDRSWholeSteps steps    = {};
  const bool     updates  = x && anchor;
  const int      count    = updates ? 6 : 4;
  Vec            vecs[]   = {work->r, work->z, work->v, work->t, x, anchor};
  PetscScalar  **arrays[] = {&steps.r, &steps.z, &steps.v, &steps.t, &steps.x, &steps.anchor};
  cudaStream_t   stream;
  Mat            block = NULL;

  PetscFunctionBegin;
  PetscCall(IDRSGetBlocks(work->product->A, &block, NULL));
  PetscCall(IDRSWholeSetUp_CUDA(work, block));
  PetscCall(IDRSColumnsRead_CUDA(work));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscArraycpy(whole->result->storage, work->storage, IDRS_STORAGE_SUMS(work->s)));
  /* numbers begin again, and nothing in memory is to bear one of them */
  if (cuda->partials.launch > UINT32_MAX - IDRS_WHOLE_STEPS) {
    PetscCallCUDA(cudaMemsetAsync(cuda->partials.messages, 0,
                                  2 * IDRS_MESSAGES * IDRS_BLOCKS_PER_SM * (size_t)cuda->multiprocessors * sizeof(IDRSBlockMessage),
                                  stream));
    PetscCallCUDA(cudaMemsetAsync(whole->entries, 0, 2 * (size_t)work->n * IDRS_PARTS * sizeof(IDRSBlockMessage), stream));
    if (whole->products)
      PetscCallCUDA(
        cudaMemsetAsync(whole->products, 0, whole->places * (size_t)work->n * IDRS_PARTS * sizeof(IDRSBlockMessage), stream));
    cuda->partials.launch = 0;
  }
  steps.panels     = cuda->panels;
  steps.own        = (int)whole->own;
  steps.entries    = whole->entries;
  steps.partials   = cuda->partials;
  steps.storage    = whole->result->storage; /* every block has read it before the first one can end */
  steps.pivotscale = work->scalars.pivotscale;
  steps.step       = *step;
  steps.limits     = *limits;
  steps.result     = whole->result;
  steps.arrived    = cuda->arrived;
  steps.sequence   = ++cuda->sequence;
  steps.polls      = IDRSGetPolls();
  steps.partials.launch++;
  PetscCall(IDRSGetCSR(block, &steps.A));
  for (int i = 0; i < count; i++) PetscCall(IDRSGetArray_CUDA(vecs[i], VecGetArrayAndMemType, arrays[i]));
  PetscCall(IDRSGetDiagonal_CUDA(work, true, &steps.diagonal));
  PetscCall(PetscLogGpuTimeBegin());
  if (work->polynomial) PetscCall(IDRSWholePolyLaunch(work, &steps, stream));
  else if (whole->clustered.clusters) PetscCall(IDRSClusteredLaunch_CUDA(work, &whole->clustered, &steps, stream));
  else PetscCall(IDRSWholeLaunch_CUDA(work, &steps, stream));
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(IDRSRestoreDiagonal_CUDA(work, &steps.diagonal));
  for (int i = count - 1; i >= 0; i--) PetscCall(VecRestoreArrayAndMemType(vecs[i], arrays[i]));
  for (PetscInt j = 0; j < work->s; j++) {
    PetscCall(IDRSColumnWritten(work->G[j]));
    PetscCall(IDRSColumnWritten(work->U[j]));
  }
  cuda->partials.launch += IDRS_WHOLE_STEPS;
  PetscCall(IDRSWait_CUDA(work, cuda->sequence));
  PetscCheck(!whole->result->timedout, PETSC_COMM_SELF, PETSC_ERR_GPU,
             "A kernel of KSPIDRS has waited for %g seconds (-petscidrs_nccl_timeout): its blocks do not all run. -ksp_idrs_run "
             "steps needs no such kernel",
             (double)IDRSGetTimeout());
  PetscCall(PetscArraycpy(work->storage, whole->result->storage, IDRS_STORAGE(work->s)));
  IDRSWholeSetReport(whole->result, step, report);
  PetscFunctionReturn(PETSC_SUCCESS);
}

const IDRSWholeOps IDRSWhole_CUDA = {IDRSWholeRuns, IDRSWholeMakeSteps};
