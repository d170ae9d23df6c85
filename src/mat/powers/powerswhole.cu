/*
   Back end "whole" of the matrix powers: up to 16 steps in one persistent kernel, on the arrays of a MATSEQAIJCUSPARSE that is
   small enough for the registers of the GPU. For such a matrix a kernel launch takes longer than a product.

   A lane has up to IDRS_ROW_ATONCE entries of a row in registers, from the first step to the last. A longer row has several lanes,
   which add up their parts. The first lane of a row has v_{j-1} and v_{j-2} of this row in registers. Lanes exchange entries of
   v_{j-1} as marked scalars, see wait.cuh, and also the sums of a row that is too long for one warp. There is no barrier between
   steps. Each step of a launch has separate places for its marked scalars, so none of them is overwritten while another lane may
   still read it. There are two sets of places, and each launch clears the set of the next launch.

   Reads A, D^{-1}, x, v_{-1} and y once; writes y and the requested vectors. The order of a sum depends only on the pattern, so
   results have the same bits in every run.
*/
#include <petscidrs/private/idrsplace.h>
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
  IDRSPowersWholeKernel(const __grid_constant__ IDRSPowersSteps powers)
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
  bool             planned; /* for this pattern */
  PetscObjectState pattern;
  PetscInt         n, longest;
  size_t           lanes, extra; /* lanes of all warps, and sums of further warps of rows */
  IDRSRowLane     *lane;         /* on the GPU */
  IDRSMarked      *places[2];
  PetscInt         used[2]; /* number of steps whose places are not clear */
  int              set;     /* set of the next launch */
  int             *timedout;
} IDRSPowersWhole;

static const char IDRSPowersWholeKey[] = "IDRSPowersWhole";

static PetscErrorCode IDRSPowersWholeReset(IDRSPowersWhole *whole)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  for (int set = 0; set < 2; set++) PetscCall(PetscDeviceFree(dctx, whole->places[set]));
  PetscCall(PetscDeviceFree(dctx, whole->lane));
  if (whole->timedout) PetscCallCUDA(cudaFreeHost(whole->timedout));
  PetscCall(PetscMemzero(whole, sizeof(*whole)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSPowersWholeDestroy(void *pointer)
{
  IDRSPowersWhole *whole = (IDRSPowersWhole *)IDRSContainerData(pointer);

  PetscFunctionBegin;
  PetscCall(IDRSPowersWholeReset(whole));
  PetscCall(PetscFree(whole));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Gets the data of a matrix, and plans the lanes if its pattern is new */
static PetscErrorCode IDRSPowersWholeGet(Mat A, IDRSPowersWhole **whole)
{
  PetscObjectState pattern;
  PetscContainer   container;
  const PetscInt  *i, *j;
  PetscInt         n;
  PetscBool        done;

  PetscFunctionBegin;
  PetscCall(PetscObjectQuery((PetscObject)A, IDRSPowersWholeKey, (PetscObject *)&container));
  if (container) PetscCall(PetscContainerGetPointer(container, (void **)whole));
  else {
    PetscCall(PetscNew(whole));
    PetscCall(PetscContainerCreate(PETSC_COMM_SELF, &container));
    PetscCall(PetscContainerSetPointer(container, *whole));
    PetscCall(IDRSContainerSetDestroy(container, IDRSPowersWholeDestroy));
    PetscCall(PetscObjectCompose((PetscObject)A, IDRSPowersWholeKey, (PetscObject)container));
    PetscCall(PetscContainerDestroy(&container));
  }
  PetscCall(MatGetNonzeroState(A, &pattern));
  if ((*whole)->planned && (*whole)->pattern == pattern) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSPowersWholeReset(*whole));
  PetscCall(MatGetRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  PetscCheck(done, PETSC_COMM_SELF, PETSC_ERR_PLIB, "MatGetRowIJ() of a matrix of type %s", ((PetscObject)A)->type_name);
  (*whole)->n     = n;
  (*whole)->lanes = IDRSCountRowLanes(n, i, NULL, &(*whole)->extra, &(*whole)->longest);
  PetscCall(MatRestoreRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  (*whole)->pattern = pattern;
  (*whole)->planned = true;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Allocates the places and clears them, and copies the plan to the GPU */
static PetscErrorCode IDRSPowersWholeSetUp(Mat A, IDRSPowersWhole *whole, cudaStream_t stream)
{
  const size_t       count = IDRS_POWERS_STEPS * (whole->n + whole->extra);
  const PetscInt    *i, *j;
  PetscInt           n;
  PetscBool          done;
  PetscErrorCode     ierr;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (whole->timedout) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(MatGetRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  ierr = IDRSUploadRowLanes(n, i, NULL, whole->lanes, &whole->lane);
  PetscCall(MatRestoreRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  PetscCall(ierr);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  for (int set = 0; set < 2; set++) {
    if (!whole->places[set]) PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, count, &whole->places[set]));
    PetscCallCUDA(cudaMemsetAsync(whole->places[set], 0xff, count * sizeof(IDRSMarked), stream)); /* sets all to IDRS_ABSENT */
    whole->used[set] = 0;
  }
  PetscCallCUDA(cudaMallocHost(&whole->timedout, sizeof(*whole->timedout)));
  *whole->timedout = 0;
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
static PetscErrorCode IDRSPowersRuns_Whole(Mat A, PetscInt n, const Vec vecs[], const char *why[])
{
  IDRSPowersWhole *whole;
  PetscInt         rows;
  int              device, cooperative, multiprocessors;

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
  PetscCall(IDRSPowersWholeGet(A, &whole));
  if (whole->lanes > (size_t)IDRS_POWERS_THREADS * multiprocessors) *why = IDRS_POWERS_TOO_LARGE;
  else if (whole->longest > IDRS_ROW_LONGEST) *why = "the longest row would delay all others";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Launches the steps from `begin` on. Their coefficients of the sum, and vectors, are set */
static PetscErrorCode IDRSPowersWholeLaunch(const IDRSPowers *powers, PetscInt begin, IDRSPowersSteps *steps)
{
  IDRSPowersWhole *whole;
  PetscLogDouble   nonzeros = 0;
  cudaStream_t     stream;
  int              device, multiprocessors;
  unsigned int     warps, threads;

  PetscFunctionBegin;
  PetscCall(IDRSPowersWholeGet(powers->A, &whole));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSPowersWholeSetUp(powers->A, whole, stream));
  PetscCall(IDRSCheckTimeout(whole->timedout, "matrix powers"));
  PetscCall(IDRSGetCSR(powers->A, &steps->A));
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  steps->lanes    = whole->lane;
  steps->count    = (unsigned int)whole->lanes;
  steps->stride   = whole->n + whole->extra;
  steps->places   = whole->places[whole->set];
  steps->clear    = whole->places[1 - whole->set];
  steps->cleared  = (int)whole->used[1 - whole->set];
  steps->timedout = whole->timedout;
  steps->polls    = IDRSGetPolls();
  for (int j = 0; j < steps->steps; j++) {
    steps->gamma[j] = powers->gamma[begin + j];
    steps->theta[j] = powers->theta[begin + j];
    steps->mu[j]    = begin + j ? powers->mu[begin + j] : (PetscScalar)0.0;
  }
  /* the smallest blocks that use all multiprocessors, with whole warps */
  warps   = (unsigned int)(whole->lanes / IDRS_WARP);
  threads = (warps + multiprocessors - 1) / multiprocessors * IDRS_WARP;
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(IDRSLaunchCooperative(IDRSPowersWholeKernel, (warps * IDRS_WARP + threads - 1) / threads, threads, stream, *steps));
  PetscCall(PetscLogGpuTimeEnd());
  whole->used[1 - whole->set] = 0;
  whole->used[whole->set]     = steps->steps;
  whole->set                  = 1 - whole->set;
  PetscCall(IDRSGetNonzeros(powers->A, &nonzeros));
  PetscCall(PetscLogGpuFlops(steps->steps * (2.0 * nonzeros + whole->n * (steps->inverse ? 6.0 : 5.0))));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Runs the steps of a launch from v_begin = x and v_{begin-1}; v: vectors for the results, which may be NULL. x and v_{begin-1} may
   be among them, because a thread reads its entries of both before it writes any
*/
static PetscErrorCode IDRSPowersWholeSteps(const IDRSPowers *powers, PetscInt begin, PetscInt count, Vec before, Vec x,
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
  PetscCall(IDRSPowersWholeLaunch(powers, begin, &steps));
  for (PetscInt j = count - 1; j >= 0; j--) {
    if (v[j]) PetscCall(VecRestoreArrayWriteAndMemType(v[j], &steps.v[j]));
  }
  if (y) PetscCall(VecRestoreArrayAndMemType(y, &steps.y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSPowersPowers_Whole(const IDRSPowers *powers, Vec x, Vec v[])
{
  PetscFunctionBegin;
  for (PetscInt begin = 0; begin < powers->k; begin += IDRS_POWERS_STEPS)
    PetscCall(IDRSPowersWholeSteps(powers, begin, PetscMin(IDRS_POWERS_STEPS, powers->k - begin), begin > 1 ? v[begin - 2] : NULL,
                                   begin ? v[begin - 1] : x, v + begin, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSPowersSum_Whole(const IDRSPowers *powers, Vec x, const IDRSPowersSum *sum)
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
    PetscCall(IDRSPowersWholeSteps(powers, begin, count, begin ? work[1] : NULL, begin ? work[0] : x, v, sum));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const IDRSPowersOps IDRSPowers_Whole = {
  PetscDesignatedInitializer(name, "whole"),
  PetscDesignatedInitializer(runs, IDRSPowersRuns_Whole),
  PetscDesignatedInitializer(powers, IDRSPowersPowers_Whole),
  PetscDesignatedInitializer(sum, IDRSPowersSum_Whole),
  PetscDesignatedInitializer(scales, PETSC_TRUE),
};
// clang-format on
