/*
   Back end "persistent" of the matrix powers: up to 16 steps in one persistent kernel, on the arrays of a MATSEQAIJCUSPARSE that is
   small enough for the registers of the GPU. For such a matrix a kernel launch takes longer than a product.

   A lane has up to IDRS_ROW_ATONCE entries of a row in registers, from the first step to the last. A longer row has several lanes,
   which add up their parts. The first lane of a row has v_{j-1} and v_{j-2} of this row in registers. Lanes exchange entries of
   v_{j-1} as marked scalars, see wait.cuh, and also the sums of a row that is too long for one warp. There is no barrier between
   steps. Each step of a launch has separate places for its marked scalars, so none of them is overwritten while another lane may
   still read it. There are two sets of places, and each launch clears the set of the next launch.

   Reads A, D^{-1}, x, v_{-1} and y once; writes y and the requested vectors. The order of a sum depends only on the pattern, so
   results have the same bits in every run.
*/
#include <petscidrs/private/idrsmemory.h>
#include <petscidrs/private/idrspowers.h>
#include <petsc/private/petscimpl.h>
#include "../../sys/device/cluster.cuh"
#include "../../sys/device/device.h"
#include "../../sys/kernels/csr.h"
#include "../../sys/kernels/terms.cuh"
#include "../../sys/kernels/wait.cuh"
#include "rowlanes.cuh"

/* Most threads of a block, limited by the registers that each thread needs */
#define IDRS_POWERS_THREADS 704

/* Most steps of a launch */
#define IDRS_POWERS_STEPS 16

/* Coefficients and vectors of a launch; vectors may be NULL. If begins is true, y is not read */
typedef struct {
  IDRSCSR            A;
  const IDRSRowLane *lanes;
  unsigned int       count; /* number of lanes */
  int                steps;
  size_t             stride; /* places per step: for rows, and for sums of further warps */
  IDRSMarked        *places, *clear;
  int                cleared; /* steps whose places are cleared */
  PetscScalar        gamma[IDRS_POWERS_STEPS], theta[IDRS_POWERS_STEPS], mu[IDRS_POWERS_STEPS], c[IDRS_POWERS_STEPS], c0;
  const PetscScalar *inverse, *x, *before, *input, *output;
  const PetscInt    *row; /* v_0 = input x_row, entry by entry */
  PetscScalar       *v[IDRS_POWERS_STEPS], *y;
  bool               begins;
  int               *timedout;
  unsigned int       polls;
} IDRSPowersSteps;

static __global__ void __launch_bounds__(IDRS_POWERS_THREADS, 1)
  IDRSPowersPersistentKernel(const __grid_constant__ IDRSPowersSteps powers)
{
  const unsigned int lane = blockIdx.x * blockDim.x + threadIdx.x;
  IDRSWaitPolls      wait = {powers.polls};
  PetscScalar        last = 0.0, before = 0.0, inverse = 1.0, y = 0.0;
  IDRSPowersEntries  entries;
  PetscInt           i;

  IDRSPowersLoad(powers.A, lane < powers.count ? powers.lanes[lane] : IDRSRowLane{-1, 0, 0, 0}, entries);
  i = entries.row;
  if (entries.first) {
    last = powers.x[powers.row ? powers.row[i] : i];
    if (powers.input) last *= powers.input[i];
    IDRSMarkedStore(powers.places + i, last);
    if (powers.before) before = powers.before[i];
    if (powers.inverse) inverse = powers.inverse[i];
    if (powers.y) y = IDRSAddTerms(powers.begins ? (PetscScalar)0.0 : powers.y[i], powers.c0, last, 0.0, 0.0);
  }
  for (int j = 0; entries.place >= 0 && j < powers.cleared; j++) IDRSMarkedClear(powers.clear + j * powers.stride + entries.place);
  for (int j = 0; j < powers.steps; j++) {
    const PetscScalar sum = IDRSPowersProduct(entries, powers.places + j * powers.stride, &wait);
    /* v_j = gamma (D^{-1}A v_{j-1} - theta v_{j-1}) - mu v_{j-2} */
    const PetscScalar next = powers.gamma[j] * (inverse * sum - powers.theta[j] * last) - powers.mu[j] * before;

    before = last;
    last   = next;
    if (!entries.first) continue;
    if (j + 1 < powers.steps) IDRSMarkedStore(powers.places + (j + 1) * powers.stride + i, next);
    y = IDRSAddTerms(y, 0.0, 0.0, powers.c[j], next);
    if (powers.v[j]) powers.v[j][i] = powers.output ? powers.output[i] * next : next;
  }
  if (entries.first && powers.y) powers.y[i] = y;
  if (!wait.left) *(volatile int *)powers.timedout = 1;
}

/* The data of this back end that is stored with a matrix */
typedef struct {
  PetscObjectId    id;      /* of the matrix of the plan, which MatAXPY() may replace in the same Mat; 0 without a plan */
  PetscObjectState pattern; /* of the same */
  PetscInt         n, longest;
  size_t           lanes, extra; /* lanes of all warps, and sums of further warps of rows */
  IDRSRowLane     *lane;         /* on the GPU */
  IDRSMarked      *places[2];
  PetscInt         used[2]; /* number of steps whose places are not clear */
  int              set;     /* set of the next launch */
  int             *timedout;
} IDRSPowersPersistent;

static const char IDRSPowersPersistentKey[] = "IDRSPowersPersistent";

static PetscErrorCode IDRSPowersPersistentReset(IDRSPowersPersistent *persistent)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  for (int set = 0; set < 2; set++) PetscCall(PetscDeviceFree(dctx, persistent->places[set]));
  PetscCall(PetscDeviceFree(dctx, persistent->lane));
  if (persistent->timedout) PetscCallCUDA(cudaFreeHost(persistent->timedout));
  PetscCall(PetscMemzero(persistent, sizeof(*persistent)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSPowersPersistentDestroy(void *pointer)
{
  IDRSPowersPersistent *persistent = (IDRSPowersPersistent *)IDRSContainerData(pointer);

  PetscFunctionBegin;
  PetscCall(IDRSPowersPersistentReset(persistent));
  PetscCall(PetscFree(persistent));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Gets the data of a matrix, and plans the lanes if its pattern is new */
static PetscErrorCode IDRSPowersPersistentGet(Mat A, IDRSPowersPersistent **persistent)
{
  PetscObjectId    id;
  PetscObjectState pattern;
  PetscContainer   container;
  const PetscInt  *i, *j;
  PetscInt         n;
  PetscBool        done;

  PetscFunctionBegin;
  PetscCall(PetscObjectQuery((PetscObject)A, IDRSPowersPersistentKey, (PetscObject *)&container));
  if (container) PetscCall(PetscContainerGetPointer(container, (void **)persistent));
  else {
    PetscCall(PetscNew(persistent));
    PetscCall(PetscContainerCreate(PETSC_COMM_SELF, &container));
    PetscCall(PetscContainerSetPointer(container, *persistent));
    PetscCall(IDRSContainerSetDestroy(container, IDRSPowersPersistentDestroy));
    PetscCall(PetscObjectCompose((PetscObject)A, IDRSPowersPersistentKey, (PetscObject)container));
    PetscCall(PetscContainerDestroy(&container));
  }
  PetscCall(PetscObjectGetId((PetscObject)A, &id));
  PetscCall(MatGetNonzeroState(A, &pattern));
  if ((*persistent)->id == id && (*persistent)->pattern == pattern) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSPowersPersistentReset(*persistent));
  PetscCall(MatGetRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  PetscCheck(done, PETSC_COMM_SELF, PETSC_ERR_PLIB, "MatGetRowIJ() of a matrix of type %s", ((PetscObject)A)->type_name);
  (*persistent)->n     = n;
  (*persistent)->lanes = IDRSCountRowLanes(n, i, NULL, &(*persistent)->extra, &(*persistent)->longest);
  PetscCall(MatRestoreRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  (*persistent)->id      = id;
  (*persistent)->pattern = pattern;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Allocates the places and clears them, and copies the plan to the GPU */
static PetscErrorCode IDRSPowersPersistentSetUp(Mat A, IDRSPowersPersistent *persistent, cudaStream_t stream)
{
  const size_t       count = IDRS_POWERS_STEPS * (persistent->n + persistent->extra);
  const PetscInt    *i, *j;
  PetscInt           n;
  PetscBool          done;
  PetscErrorCode     ierr;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (persistent->timedout) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(MatGetRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  ierr = IDRSUploadRowLanes(n, i, NULL, persistent->lanes, &persistent->lane);
  PetscCall(MatRestoreRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  PetscCall(ierr);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  for (int set = 0; set < 2; set++) {
    if (!persistent->places[set]) PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, count, &persistent->places[set]));
    PetscCallCUDA(cudaMemsetAsync(persistent->places[set], 0xff, count * sizeof(IDRSMarked), stream)); /* sets all to IDRS_ABSENT */
    persistent->used[set] = 0;
  }
  PetscCallCUDA(cudaMallocHost(&persistent->timedout, sizeof(*persistent->timedout)));
  *persistent->timedout = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

#define IDRS_POWERS_TOO_LARGE "the matrix has more entries than the lanes of the GPU hold"

static PetscInt IDRSPowersMostRows = PETSC_MAX_INT;

/* IDRSPowersSetMostRows - Sets the largest number of rows for this back end, 0 to disable it: for tests of other back ends */
PetscErrorCode IDRSPowersSetMostRows(PetscInt rows)
{
  PetscFunctionBegin;
  IDRSPowersMostRows = rows;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns NULL, or the reason why the steps cannot be in one kernel, or should not be */
static PetscErrorCode IDRSPowersRuns_Persistent(Mat A, PetscInt n, const Vec vecs[], const char *why[])
{
  IDRSPowersPersistent *persistent;
  PetscInt              rows;
  int                   device, cooperative, multiprocessors;

  PetscFunctionBegin;
  PetscCall(IDRSPowersAreOnGPU(A, n, vecs, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device));
  PetscCallCUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  PetscCall(MatGetLocalSize(A, &rows, NULL));
  if (!cooperative) *why = "the GPU cannot run all blocks of a kernel at once";
  else if (rows > PetscMin(IDRSPowersMostRows, IDRS_POWERS_THREADS * multiprocessors)) *why = IDRS_POWERS_TOO_LARGE;
  else if (!rows) *why = "the matrix has no rows";
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSPowersPersistentGet(A, &persistent));
  if (persistent->lanes > (size_t)IDRS_POWERS_THREADS * multiprocessors) *why = IDRS_POWERS_TOO_LARGE;
  else if (persistent->longest > IDRS_ROW_LONGEST) *why = "the longest row would delay all others";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Launches the steps from `begin` on. Their coefficients of the sum, and vectors, are set */
static PetscErrorCode IDRSPowersPersistentLaunch(const IDRSPowers *powers, PetscInt begin, IDRSPowersSteps *steps)
{
  IDRSPowersPersistent *persistent;
  PetscLogDouble        nonzeros = 0;
  cudaStream_t          stream;
  int                   device, multiprocessors;
  unsigned int          warps, threads;

  PetscFunctionBegin;
  PetscCall(IDRSPowersPersistentGet(powers->A, &persistent));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSPowersPersistentSetUp(powers->A, persistent, stream));
  PetscCall(IDRSCheckTimeout(persistent->timedout, "matrix powers"));
  PetscCall(IDRSGetCSR(powers->A, &steps->A));
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  steps->lanes    = persistent->lane;
  steps->count    = (unsigned int)persistent->lanes;
  steps->stride   = persistent->n + persistent->extra;
  steps->places   = persistent->places[persistent->set];
  steps->clear    = persistent->places[1 - persistent->set];
  steps->cleared  = (int)persistent->used[1 - persistent->set];
  steps->timedout = persistent->timedout;
  steps->polls    = IDRSGetPolls();
  for (int j = 0; j < steps->steps; j++) {
    steps->gamma[j] = powers->gamma[begin + j];
    steps->theta[j] = powers->theta[begin + j];
    steps->mu[j]    = begin + j ? powers->mu[begin + j] : (PetscScalar)0.0;
  }
  /* the smallest blocks that use all multiprocessors, with whole warps */
  warps   = (unsigned int)(persistent->lanes / IDRS_WARP);
  threads = (warps + multiprocessors - 1) / multiprocessors * IDRS_WARP;
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(
    IDRSLaunchCooperative(IDRSPowersPersistentKernel, (warps * IDRS_WARP + threads - 1) / threads, threads, stream, *steps));
  PetscCall(PetscLogGpuTimeEnd());
  persistent->used[1 - persistent->set] = 0;
  persistent->used[persistent->set]     = steps->steps;
  persistent->set                       = 1 - persistent->set;
  PetscCall(IDRSGetNonzeros(powers->A, &nonzeros));
  PetscCall(PetscLogGpuFlops(steps->steps * (2.0 * nonzeros + persistent->n * (steps->inverse ? 6.0 : 5.0))));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Runs the steps of a launch from v_begin = x and v_{begin-1}; v: vectors for the results, which may be NULL. x and v_{begin-1} may
   be among them, because a thread reads its entries of both before it writes any
*/
static PetscErrorCode IDRSPowersPersistentSteps(const IDRSPowers *powers, PetscInt begin, PetscInt count, Vec before, Vec x,
                                                const Vec v[], const IDRSPowersSum *sum)
{
  Vec             y     = sum ? sum->y : NULL;
  IDRSPowersSteps steps = {};

  PetscFunctionBegin;
  steps.steps  = (int)count;
  steps.begins = !begin;
  for (PetscInt j = 0; y && j < count; j++) steps.c[j] = sum->c[begin + j + 1];
  PetscCall(IDRSFindArrayRead_CUDA(powers->inverse, &steps.inverse));
  PetscCall(IDRSFindArrayRead_CUDA(before, &steps.before));
  PetscCall(IDRSFindArrayRead_CUDA(x, &steps.x));
  if (sum && !begin) {
    if (y) steps.c0 = sum->c[0];
    PetscCall(IDRSFindArrayRead_CUDA(sum->input, &steps.input));
    if (sum->matching) PetscCall(IDRSMatchingGetPlaces(sum->matching, NULL, &steps.row));
  }
  if (sum && begin + count == powers->k) PetscCall(IDRSFindArrayRead_CUDA(sum->output, &steps.output));
  if (y) PetscCall(IDRSGetArray_CUDA(y, begin ? VecGetArrayAndMemType : VecGetArrayWriteAndMemType, &steps.y));
  for (PetscInt j = 0; j < count; j++) {
    if (v[j]) PetscCall(IDRSGetArray_CUDA(v[j], VecGetArrayWriteAndMemType, &steps.v[j]));
  }
  PetscCall(IDRSPowersPersistentLaunch(powers, begin, &steps));
  for (PetscInt j = count - 1; j >= 0; j--) {
    if (v[j]) PetscCall(VecRestoreArrayWriteAndMemType(v[j], &steps.v[j]));
  }
  if (y) PetscCall(VecRestoreArrayAndMemType(y, &steps.y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSPowersPowers_Persistent(const IDRSPowers *powers, Vec x, Vec v[])
{
  PetscFunctionBegin;
  for (PetscInt begin = 0; begin < powers->k; begin += IDRS_POWERS_STEPS)
    PetscCall(IDRSPowersPersistentSteps(powers, begin, PetscMin(IDRS_POWERS_STEPS, powers->k - begin),
                                        begin > 1 ? v[begin - 2] : NULL, begin ? v[begin - 1] : x, v + begin, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSPowersSum_Persistent(const IDRSPowers *powers, Vec x, const IDRSPowersSum *sum)
{
  const PetscInt k = powers->k;
  Vec            work[3];

  PetscFunctionBegin;
  if (!k) {
    PetscCall(IDRSPowersSumByStep(powers, x, sum));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (k > IDRS_POWERS_STEPS) PetscCall(IDRSPowersWorkGet(powers->A, x, work));
  for (PetscInt begin = 0, count; begin < k; begin += count) {
    Vec v[IDRS_POWERS_STEPS] = {};

    count = PetscMin(IDRS_POWERS_STEPS, k - begin);
    /* the last vector, or the two vectors that the next launch begins with */
    if (begin + count == k) v[count - 1] = sum->vk;
    else {
      v[count - 1] = work[0];
      v[count - 2] = work[1];
    }
    PetscCall(IDRSPowersPersistentSteps(powers, begin, count, begin ? work[1] : NULL, begin ? work[0] : x, v, sum));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const IDRSPowersOps IDRSPowers_Persistent = {
  PetscDesignatedInitializer(name, "persistent"),
  PetscDesignatedInitializer(runs, IDRSPowersRuns_Persistent),
  PetscDesignatedInitializer(powers, IDRSPowersPowers_Persistent),
  PetscDesignatedInitializer(sum, IDRSPowersSum_Persistent),
  PetscDesignatedInitializer(scales, PETSC_TRUE),
};
// clang-format on
