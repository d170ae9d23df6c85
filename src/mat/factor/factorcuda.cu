/*
   Numeric phase and solves on a GPU: memory, copies and launches
*/
#include "factorlevels.h"
#include "numeric.cuh"
#include "triangles.cuh"
#include "../../sys/device/device.h"
#include "../../sys/kernels/csr.h"
#include "../../sys/device/cluster.cuh"
#include "../../sys/device/cooperative.cuh"
#include <petscdevice_cuda.h>

#define IDRS_COPY_THREADS 256

/* Most columns of one solve */
#define IDRS_FACTOR_COLUMNS 16

/* A direction of a solve: the two triangles as kernels read them, and the entries of the pattern that their values come from */
typedef struct {
  PetscBool ready, current; /* set up, with the values of the last numeric phase */
  PetscInt  entries[2], chunks[2];
  IDRSStage stage[2];
  PetscInt *from[2];
} IDRSFactorSweep;

/* Memory on the device that can grow */
typedef struct {
  size_t       count;
  PetscScalar *memory;
} IDRSFactorVectors;

struct _n_IDRSFactorDevice {
  PetscBool         ready; /* everything that both phases need is set up */
  int               multiprocessors;
  size_t            shared;  /* largest shared memory of a block for a solve in one cluster; 0 without clusters */
  IDRSFactorPattern pattern; /* arrays on the device */
  PetscInt         *place, *row, *col;
  PetscScalar      *values;
  IDRSFactorSweep   sweep[2];
  IDRSNumeric       numeric;  /* data that numeric phases keep */
  IDRSFactorVectors work;     /* right-hand sides, and entries of both triangles */
  IDRSFactorVectors staged;   /* copies of arrays on the host */
  int              *timedout; /* on the host: a wait of a solve has reached its limit */
};

/* Allocates device memory and copies data to it; with data = NULL the memory has no values */
template <typename T>
static PetscErrorCode IDRSFactorUpload(size_t count, const T *data, T **copy)
{
  PetscDeviceContext dctx;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, count ? count : 1, copy));
  if (data && count) {
    PetscCall(IDRSStream_CUDA(&stream));
    PetscCallCUDA(cudaMemcpyAsync(*copy, data, count * sizeof(T), cudaMemcpyHostToDevice, stream));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSFactorUploadPermutation(IS permutation, PetscInt n, PetscInt **copy)
{
  const PetscInt *indices;

  PetscFunctionBegin;
  if (!permutation) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(ISGetIndices(permutation, &indices));
  PetscCall(IDRSFactorUpload(n, indices, copy));
  PetscCall(ISRestoreIndices(permutation, &indices));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSFactorSweepDestroy(IDRSFactorSweep *sweep)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  for (int t = 0; t < 2; t++) {
    IDRSStage *stage    = &sweep->stage[t];
    PetscInt **arrays[] = {&stage->order, &stage->i, &stage->j, &stage->chunks, &stage->lanes, &stage->rhs, &sweep->from[t]};

    for (PetscInt **array : arrays) PetscCall(PetscDeviceFree(dctx, *array));
    PetscCall(PetscDeviceFree(dctx, stage->a));
  }
  PetscCall(PetscMemzero(sweep, sizeof(*sweep)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSFactorNumericDestroy(IDRSFactorDevice device)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, device->place));
  PetscCall(PetscDeviceFree(dctx, device->numeric.pivots));
  PetscCall(PetscDeviceFree(dctx, device->numeric.sums));
  PetscCall(PetscDeviceFree(dctx, device->numeric.done));
  PetscCall(PetscDeviceFree(dctx, device->numeric.counts));
  PetscCall(PetscMemzero(&device->numeric, sizeof(device->numeric)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSFactorReset_CUDA(IDRSFactor factor)
{
  IDRSFactorDevice   device = factor->device;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (!device) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  for (int d = 0; d < 2; d++) PetscCall(IDRSFactorSweepDestroy(&device->sweep[d]));
  PetscCall(IDRSFactorNumericDestroy(device));
  {
    PetscInt    **arrays[]  = {&device->pattern.i, &device->pattern.j, &device->pattern.right, &device->row, &device->col};
    PetscScalar **scalars[] = {&device->values, &device->work.memory, &device->staged.memory};

    for (PetscInt **array : arrays) PetscCall(PetscDeviceFree(dctx, *array));
    for (PetscScalar **array : scalars) PetscCall(PetscDeviceFree(dctx, *array));
  }
  if (device->timedout) PetscCallCUDA(cudaFreeHost(device->timedout));
  PetscCall(PetscFree(factor->device));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Gets the largest shared memory of a block in a cluster of IDRS_CLUSTER_BLOCKS blocks; 0 if the GPU, or the compiled code, does
   not support clusters
*/
static PetscErrorCode IDRSFactorGetShared(bool tiles, size_t *shared)
{
  size_t most;
  int    clusters;
  bool   can;

  PetscFunctionBegin;
  *shared = 0;
  PetscCallCUDA(IDRSCanLaunchEarly((const void *)IDRSTrianglesClusterKernel<false>, &can)); /* needs the same devices as clusters */
  if (!can) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCallCUDA(IDRSGetClusters(tiles ? IDRSTrianglesClusterKernel<true> : IDRSTrianglesClusterKernel<false>, IDRS_CLUSTER_BLOCKS,
                                IDRS_TRIANGLE_THREADS, &clusters, &most));
  if (clusters) *shared = most;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets up the data that both phases need */
static PetscErrorCode IDRSFactorDeviceSetUp(IDRSFactor factor)
{
  const IDRSFactorPattern *F = &factor->pattern;
  IDRSFactorDevice         device;
  int                      which, cooperative;

  PetscFunctionBegin;
  if (factor->device && factor->device->ready) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSFactorReset_CUDA(factor)); /* after an error */
  PetscCallCUDA(cudaGetDevice(&which));
  PetscCallCUDA(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, which));
  PetscCheck(cooperative, PETSC_COMM_SELF, PETSC_ERR_SUP_SYS,
             "%s needs a GPU that can run all blocks of a kernel at once: use a matrix of type aij", MATSOLVERPETSCIDRS);
  PetscCall(PetscNew(&device));
  factor->device = device;
  PetscCallCUDA(cudaDeviceGetAttribute(&device->multiprocessors, cudaDevAttrMultiProcessorCount, which));
  PetscCall(IDRSFactorGetShared(F->bs > 1, &device->shared));
  device->pattern.n  = F->n;
  device->pattern.bs = F->bs;
  PetscCall(IDRSFactorUpload(F->n + 1, F->i, &device->pattern.i));
  PetscCall(IDRSFactorUpload(F->i[F->n], F->j, &device->pattern.j));
  PetscCall(IDRSFactorUpload(F->n, F->right, &device->pattern.right));
  PetscCall(IDRSFactorUpload(IDRSFactorEntries(F), (const PetscScalar *)NULL, &device->values));
  PetscCall(IDRSFactorUploadPermutation(factor->row, factor->rows, &device->row));
  PetscCall(IDRSFactorUploadPermutation(factor->col, factor->rows, &device->col));
  PetscCallCUDA(cudaMallocHost(&device->timedout, sizeof(*device->timedout)));
  *device->timedout = 0;
  device->ready     = PETSC_TRUE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Reports an error once, before the next phase or solve, if the waits of a solve have timed out */
static PetscErrorCode IDRSFactorCheckSolves(IDRSFactorDevice device)
{
  const int timedout = *device->timedout;

  PetscFunctionBegin;
  *device->timedout = 0;
  PetscCheck(
    !timedout, PETSC_COMM_SELF, PETSC_ERR_GPU,
    "A solve kernel of %s timed out after %g seconds (-petscidrs_nccl_timeout): perhaps not all of its blocks are resident",
    MATSOLVERPETSCIDRS, (double)IDRSGetTimeout());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns a number of thread blocks for this many warps that are all resident; atonce: most blocks per multiprocessor */
template <typename Kernel>
static PetscErrorCode IDRSFactorResidentBlocks(const IDRSFactorDevice device, Kernel kernel, int threads, int atonce,
                                               PetscInt warps, unsigned int *blocks)
{
  int resident;

  PetscFunctionBegin;
  PetscCallCUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, 0));
  *blocks = (unsigned int)PetscMax(PetscMin((PetscInt64)device->multiprocessors * PetscMin(resident, atonce),
                                            ((PetscInt64)warps * IDRS_WARP + threads - 1) / threads),
                                   1);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline unsigned int IDRSFactorCopyBlocks(size_t count)
{
  return (unsigned int)PetscMax(PetscMin((count + IDRS_COPY_THREADS - 1) / IDRS_COPY_THREADS, (size_t)4096), (size_t)1);
}

/* Loops over the numbers of this thread */
#define IDRSFactorForEach(t, count) \
  for (size_t t = blockIdx.x * (size_t)IDRS_COPY_THREADS + threadIdx.x; t < (count); t += gridDim.x * (size_t)IDRS_COPY_THREADS)

static __global__ void __launch_bounds__(IDRS_COPY_THREADS)
  IDRSFactorPlaceKernel(size_t count, const PetscInt *place, const PetscScalar *a, PetscScalar *values)
{
  IDRSFactorForEach(p, count) values[place[p]] = a[p];
}

/* Copies the tiles of a triangle, transposed or not */
static __global__ void __launch_bounds__(IDRS_COPY_THREADS)
  IDRSFactorGatherKernel(size_t count, int bs, bool transposed, const PetscInt *from, const PetscScalar *values, PetscScalar *a)
{
  IDRSFactorForEach(t, count)
  {
    const int r = (int)(t % (bs * bs)) / bs, c = (int)(t % bs);

    a[t] = values[(size_t)from[t / (bs * bs)] * bs * bs + (transposed ? c * bs + r : r * bs + c)];
  }
}

/* Copies a triangle to the device, without vectors. other: the first triangle if this one is the second, else NULL */
static PetscErrorCode IDRSFactorStageCreate(const IDRSFactorPattern *F, IDRSTriangleKind kind, IDRSTriangle *triangle,
                                            const IDRSTriangle *other, IDRSFactorSweep *sweep)
{
  const int      t     = other ? 1 : 0;
  IDRSStage     *stage = &sweep->stage[t];
  PetscInt      *rhs;
  PetscErrorCode ierr;

  PetscFunctionBegin;
  PetscCall(IDRSTriangleCreate(F, kind, triangle));
  sweep->entries[t] = triangle->i[F->n];
  sweep->chunks[t]  = triangle->nchunks;
  PetscCall(IDRSFactorUpload(F->n, triangle->order, &stage->order));
  PetscCall(IDRSFactorUpload(F->n + 1, triangle->i, &stage->i));
  PetscCall(IDRSFactorUpload(sweep->entries[t], triangle->j, &stage->j));
  PetscCall(IDRSFactorUpload(triangle->nchunks + 1, triangle->chunks, &stage->chunks));
  PetscCall(IDRSFactorUpload(triangle->nchunks, triangle->lanes, &stage->lanes));
  PetscCall(IDRSFactorUpload(sweep->entries[t], triangle->from, &sweep->from[t]));
  PetscCall(IDRSFactorUpload((size_t)sweep->entries[t] * F->bs * F->bs, (const PetscScalar *)NULL, &stage->a));
  if (!other) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscMalloc1(F->n, &rhs));
  for (PetscInt place = 0; place < F->n; place++) rhs[place] = other->places[triangle->order[place]];
  ierr = IDRSFactorUpload(F->n, rhs, &stage->rhs);
  PetscCall(PetscFree(rhs));
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSFactorSweepSetUp(IDRSFactor factor, IDRSFactorDirection direction)
{
  const bool       transposed = direction == IDRS_FACTOR_TRANSPOSED;
  IDRSFactorSweep *sweep      = &factor->device->sweep[direction];
  IDRSTriangle     first = {}, second = {};
  cudaStream_t     stream;
  PetscErrorCode   ierr;

  PetscFunctionBegin;
  if (sweep->ready) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSFactorSweepDestroy(sweep)); /* after an error */
  PetscCall(IDRSStream_CUDA(&stream));
  ierr = IDRSFactorStageCreate(&factor->pattern, transposed ? IDRS_TRIANGLE_UPPER_TRANSPOSED : IDRS_TRIANGLE_LOWER, &first, NULL,
                               sweep);
  if (!ierr)
    ierr = IDRSFactorStageCreate(&factor->pattern, transposed ? IDRS_TRIANGLE_LOWER_TRANSPOSED : IDRS_TRIANGLE_UPPER, &second,
                                 &first, sweep);
  PetscCallCUDA(cudaStreamSynchronize(stream)); /* wait for the copies */
  PetscCall(PetscInfo(NULL, "%s%s: %" PetscInt_FMT " and %" PetscInt_FMT " levels\n", MATSOLVERPETSCIDRS,
                      transposed ? ", transposed" : "", first.levels, second.levels));
  PetscCall(IDRSTriangleDestroy(&first));
  PetscCall(IDRSTriangleDestroy(&second));
  PetscCall(ierr);
  sweep->ready = PETSC_TRUE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies the values of the last numeric phase to the triangles */
static PetscErrorCode IDRSFactorSweepUpdate(IDRSFactor factor, IDRSFactorDirection direction)
{
  const int        bs    = (int)factor->pattern.bs;
  IDRSFactorSweep *sweep = &factor->device->sweep[direction];
  cudaStream_t     stream;

  PetscFunctionBegin;
  PetscCall(IDRSFactorSweepSetUp(factor, direction));
  if (sweep->current) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStream_CUDA(&stream));
  for (int t = 0; t < 2; t++) {
    const size_t count = (size_t)sweep->entries[t] * bs * bs;

    IDRSFactorGatherKernel<<<IDRSFactorCopyBlocks(count), IDRS_COPY_THREADS, 0, stream>>>(count, bs,
                                                                                          direction == IDRS_FACTOR_TRANSPOSED,
                                                                                          sweep->from[t], factor->device->values,
                                                                                          sweep->stage[t].a);
    PetscCallCUDA(cudaGetLastError());
  }
  sweep->current = PETSC_TRUE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static void IDRSFactorValuesChanged(IDRSFactorDevice device)
{
  for (int d = 0; d < 2; d++) device->sweep[d].current = PETSC_FALSE;
}

static PetscErrorCode IDRSFactorFromHost_CUDA(IDRSFactor factor)
{
  cudaStream_t stream;

  PetscFunctionBegin;
  PetscCall(IDRSFactorDeviceSetUp(factor));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCallCUDA(cudaMemcpyAsync(factor->device->values, factor->values, IDRSFactorEntries(&factor->pattern) * sizeof(PetscScalar),
                                cudaMemcpyHostToDevice, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  IDRSFactorValuesChanged(factor->device);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSFactorToHost_CUDA(IDRSFactor factor)
{
  const size_t count = IDRSFactorEntries(&factor->pattern);
  cudaStream_t stream;

  PetscFunctionBegin;
  if (!factor->values) PetscCall(PetscMalloc1(count, &factor->values));
  if (count) { /* without rows there are no kernels */
    PetscCall(IDRSStream_CUDA(&stream));
    PetscCallCUDA(
      cudaMemcpyAsync(factor->values, factor->device->values, count * sizeof(PetscScalar), cudaMemcpyDeviceToHost, stream));
    PetscCallCUDA(cudaStreamSynchronize(stream));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets up the data of a numeric phase besides the pattern */
static PetscErrorCode IDRSFactorNumericSetUp(IDRSFactor factor)
{
  IDRSFactorDevice   device  = factor->device;
  IDRSNumeric       *numeric = &device->numeric;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (numeric->done) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSFactorSweepSetUp(factor, IDRS_FACTOR_FORWARD));
  PetscCall(IDRSFactorNumericDestroy(device)); /* after an error */
  PetscCall(IDRSFactorUpload(factor->nonzeros, factor->place, &device->place));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, factor->rows, &numeric->pivots));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, factor->rows, &numeric->sums));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &numeric->counts));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, device->pattern.n, &numeric->done));
  /* the kernel of the numeric phase processes rows in the order of the first triangle */
  numeric->n       = device->pattern.n;
  numeric->bs      = device->pattern.bs;
  numeric->entries = factor->pattern.i[factor->pattern.n];
  numeric->i       = device->pattern.i;
  numeric->j       = device->pattern.j;
  numeric->right   = device->pattern.right;
  numeric->a       = device->values;
  numeric->order   = device->sweep[IDRS_FACTOR_FORWARD].stage[0].order;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Gets the first and the last small pivot */
static PetscErrorCode IDRSFactorGetPivots(const IDRSNumeric *numeric, const IDRSPivotCounts *counts, IDRSSmallPivots *small)
{
  const PetscInt row[2] = {(PetscInt)counts->first, (PetscInt)counts->last};

  PetscFunctionBegin;
  for (int l = 0; l < 2; l++) {
    PetscScalar pivot;
    PetscReal   sum = 0.0;

    PetscCallCUDA(cudaMemcpy(&pivot, numeric->pivots + row[l], sizeof(pivot), cudaMemcpyDeviceToHost));
    if (IDRSPivotNeedsSum(&numeric->rule))
      PetscCallCUDA(cudaMemcpy(&sum, numeric->sums + row[l], sizeof(sum), cudaMemcpyDeviceToHost));
    small->row[l]   = row[l];
    small->pivot[l] = pivot;
    small->sum[l]   = sum;
  }
  small->count = (PetscInt)counts->count;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The host waits, because it must check for small pivots */
static PetscErrorCode IDRSFactorNumeric_CUDA(IDRSFactor factor, Mat A, const IDRSPivotRule *rule, IDRSSmallPivots *small)
{
  IDRSPivotCounts counts = {0, ULLONG_MAX, 0, 0, 0};
  IDRSNumeric    *numeric;
  IDRSCSR         csr;
  cudaStream_t    stream;
  unsigned int    grid;
  const auto      kernel = factor->pattern.bs > 1 ? IDRSNumericKernel<true> : IDRSNumericKernel<false>;
  PetscBool       ongpu;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJCUSPARSE, &ongpu));
  PetscCheck(ongpu, PETSC_COMM_SELF, PETSC_ERR_ARG_WRONG, "%s: the matrix is of type %s, but the symbolic phase had type %s",
             MATSOLVERPETSCIDRS, ((PetscObject)A)->type_name, MATSEQAIJCUSPARSE);
  if (!factor->rows) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSFactorDeviceSetUp(factor));
  PetscCall(IDRSFactorCheckSolves(factor->device));
  PetscCall(IDRSFactorNumericSetUp(factor));
  numeric        = &factor->device->numeric;
  numeric->rule  = *rule;
  numeric->polls = IDRSGetPolls();
  PetscCall(IDRSStream_CUDA(&stream));
  if (!++numeric->phase) { /* the number has overflowed: numbers of earlier phases are cleared */
    PetscCallCUDA(cudaMemsetAsync(numeric->done, 0, numeric->n * sizeof(*numeric->done), stream));
    numeric->phase = 1;
  }
  PetscCall(IDRSGetCSR(A, &csr));
  PetscCallCUDA(cudaMemsetAsync(numeric->a, 0, IDRSFactorEntries(&factor->pattern) * sizeof(PetscScalar), stream));
  PetscCallCUDA(cudaMemcpyAsync(numeric->counts, &counts, sizeof(counts), cudaMemcpyHostToDevice, stream));
  PetscCall(IDRSFactorResidentBlocks(factor->device, kernel, IDRS_NUMERIC_THREADS, 4, numeric->n, &grid));
  PetscCall(PetscLogGpuTimeBegin());
  IDRSFactorPlaceKernel<<<IDRSFactorCopyBlocks(factor->nonzeros), IDRS_COPY_THREADS, 0, stream>>>(factor->nonzeros,
                                                                                                  factor->device->place, csr.a,
                                                                                                  numeric->a);
  PetscCallCUDA(cudaGetLastError());
  PetscCallCUDA(IDRSLaunchCooperative(kernel, grid, IDRS_NUMERIC_THREADS, stream, *numeric));
  PetscCall(PetscLogGpuTimeEnd());
  PetscCallCUDA(cudaMemcpyAsync(&counts, numeric->counts, sizeof(counts), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscCheck(
    !counts.timedout, PETSC_COMM_SELF, PETSC_ERR_GPU,
    "A factorisation kernel of %s timed out after %g seconds (-petscidrs_nccl_timeout): perhaps not all of its blocks are resident",
    MATSOLVERPETSCIDRS, (double)IDRSGetTimeout());
  if (counts.count) PetscCall(IDRSFactorGetPivots(numeric, &counts, small));
  small->unfit = counts.unfit ? PETSC_TRUE : PETSC_FALSE;
  IDRSFactorValuesChanged(factor->device);
  PetscCall(PetscLogGpuFlops(factor->flops));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Columns of a solve in the order of a triangle */
typedef struct {
  size_t             n; /* tile rows */
  int                bs, columns, width;
  const PetscInt    *order;   /* tile row at each place */
  const PetscInt    *rows;    /* row of b or x for each row of the factors, or NULL: natural */
  const PetscScalar *inverse; /* D^{-1}, or NULL: the identity */
  PetscInt           ld;      /* of b or x */
} IDRSFactorColumns;

/*
   Computes c = D^{-1} b, or c = b, in the order of the first triangle, and marks the entries of both triangles as absent. Padding
   columns are zero
*/
static __global__ void __launch_bounds__(IDRS_COPY_THREADS)
  IDRSFactorBeginKernel(const __grid_constant__ IDRSFactorColumns F, const PetscScalar *b, PetscScalar *c, IDRSMarked *x,
                        IDRSMarked *y)
{
  IDRSFactorForEach(t, F.n * F.bs * F.width)
  {
    const int      column = (int)(t % F.width), r = (int)(t / F.width % F.bs);
    const PetscInt i   = F.order[t / F.width / F.bs];
    PetscScalar    sum = 0.0;

    if (column < F.columns) {
      for (int s = F.inverse ? 0 : r; s < (F.inverse ? F.bs : r + 1); s++) {
        const PetscInt    entry = i * F.bs + s;
        const PetscScalar value = b[(F.rows ? F.rows[entry] : entry) + (size_t)column * F.ld];

        sum += F.inverse ? F.inverse[((size_t)i * F.bs + r) * F.bs + s] * value : value;
      }
    }
    c[t] = sum;
    IDRSMarkedClear(x + t);
    IDRSMarkedClear(y + t);
  }
}

/* Computes x = D^{-T} v, in the order of the second triangle */
static __global__ void __launch_bounds__(IDRS_COPY_THREADS)
  IDRSFactorEndKernel(const __grid_constant__ IDRSFactorColumns F, const IDRSMarked *v, PetscScalar *x)
{
  IDRSFactorForEach(t, F.n * F.bs * F.width)
  {
    const int      column = (int)(t % F.width), r = (int)(t / F.width % F.bs);
    const size_t   place = t / F.width / F.bs;
    const PetscInt i = F.order[place], entry = i * F.bs + r;
    PetscScalar    sum = 0.0;

    if (column >= F.columns) continue;
    for (int s = 0; s < F.bs; s++)
      sum += F.inverse[((size_t)i * F.bs + s) * F.bs + r] * IDRSMarkedValue(v[(place * F.bs + s) * F.width + column]);
    x[(F.rows ? F.rows[entry] : entry) + (size_t)column * F.ld] = sum;
  }
}

/* Allocates memory for this many numbers if there is less */
static PetscErrorCode IDRSFactorGrowVectors(size_t needed, IDRSFactorVectors *vectors)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (needed <= vectors->count) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, vectors->memory));
  vectors->memory = NULL;
  vectors->count  = 0;
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, needed, &vectors->memory));
  vectors->count = needed;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Launches the kernel with one cluster if the shared memory of a block holds the entries of both triangles, else the kernel with as
   many blocks as are resident; entries: of each triangle
*/
static PetscErrorCode IDRSFactorLaunchTriangles(IDRSFactorDevice device, const IDRSTriangles *triangles, size_t entries,
                                                cudaStream_t stream)
{
  const bool   tiles = triangles->bs > 1;
  const size_t bytes = 2 * entries * sizeof(IDRSMarked);

  PetscFunctionBegin;
  if (bytes <= device->shared) {
    cudaLaunchAttribute      attributes[2];
    const cudaLaunchConfig_t config = IDRSClusterConfig(1, IDRS_CLUSTER_BLOCKS, IDRS_TRIANGLE_THREADS, bytes, stream, attributes);

    PetscCallCUDA(cudaLaunchKernelEx(&config, tiles ? IDRSTrianglesClusterKernel<true> : IDRSTrianglesClusterKernel<false>,
                                     *triangles, entries));
  } else {
    const auto   kernel = tiles ? IDRSTrianglesKernel<true> : IDRSTrianglesKernel<false>;
    unsigned int grid;

    PetscCall(
      IDRSFactorResidentBlocks(device, kernel, IDRS_TRIANGLE_THREADS, IDRS_TRIANGLE_BLOCKS, triangles->stage[0].units, &grid));
    PetscCallCUDA(IDRSLaunchCooperative(kernel, grid, IDRS_TRIANGLE_THREADS, stream, *triangles));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves for up to IDRS_FACTOR_COLUMNS columns. b and x are on the device. All of b is read before x is written */
static PetscErrorCode IDRSFactorSolveColumns(IDRSFactor factor, IDRSFactorDirection direction, PetscInt columns,
                                             const PetscScalar b[], PetscInt ldb, PetscScalar x[], PetscInt ldx)
{
  const bool         transposed = direction == IDRS_FACTOR_TRANSPOSED;
  const PetscInt     n = factor->pattern.n, bs = factor->pattern.bs;
  IDRSFactorDevice   device  = factor->device;
  const PetscScalar *inverse = device->values + (size_t)factor->pattern.i[n] * bs * bs; /* D^{-1} */
  IDRSFactorSweep   *sweep   = &device->sweep[direction];
  IDRSFactorColumns  begin   = {}, end;
  IDRSTriangles      triangles;
  size_t             count;
  int                width = 1;
  cudaStream_t       stream;

  PetscFunctionBegin;
  /* a row has width lanes: its columns, padded to a power of 2 */
  while (width < columns) width *= 2;
  count = (size_t)factor->rows * width;
  PetscCall(IDRSFactorGrowVectors(3 * count, &device->work));
  for (int t = 0; t < 2; t++) {
    triangles.stage[t]       = sweep->stage[t];
    triangles.stage[t].x     = (IDRSMarked *)(device->work.memory + (t + 1) * count);
    triangles.stage[t].units = sweep->chunks[t] * width;
  }
  /* the second triangle writes x, unless D^{-T} must be applied first */
  triangles.b        = device->work.memory;
  triangles.out      = transposed ? NULL : x;
  triangles.rows     = device->col;
  triangles.ld       = ldx;
  triangles.bs       = (int)bs;
  triangles.columns  = (int)columns;
  triangles.width    = width;
  triangles.timedout = device->timedout;
  triangles.polls    = IDRSGetPolls();
  begin.n            = (size_t)n;
  begin.bs           = (int)bs;
  begin.columns      = (int)columns;
  begin.width        = width;
  begin.order        = sweep->stage[0].order;
  begin.rows         = transposed ? device->col : device->row;
  begin.inverse      = transposed ? NULL : inverse;
  begin.ld           = ldb;
  end                = begin;
  end.order          = sweep->stage[1].order;
  end.rows           = device->row;
  end.inverse        = inverse;
  end.ld             = ldx;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscLogGpuTimeBegin());
  /* x = (I + U)^{-1} (I + L)^{-1} D^{-1} b, or D^{-T} (I + L)^{-T} (I + U)^{-T} b */
  IDRSFactorBeginKernel<<<IDRSFactorCopyBlocks(count), IDRS_COPY_THREADS, 0, stream>>>(begin, b, device->work.memory,
                                                                                       triangles.stage[0].x, triangles.stage[1].x);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(IDRSFactorLaunchTriangles(device, &triangles, count, stream));
  if (transposed) {
    IDRSFactorEndKernel<<<IDRSFactorCopyBlocks(count), IDRS_COPY_THREADS, 0, stream>>>(end, triangles.stage[1].x, x);
    PetscCallCUDA(cudaGetLastError());
  }
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(PetscLogGpuFlops(columns * IDRSFactorSolveFlops(&factor->pattern)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves for all columns in groups. Arrays in the memory of the host are copied */
static PetscErrorCode IDRSFactorSolve_CUDA(IDRSFactor factor, IDRSFactorDirection direction, const IDRSArrays *arrays)
{
  const PetscInt rows = factor->rows, columns = arrays->columns, ldb = arrays->ldb, ldx = arrays->ldx;
  const bool     bhost = PetscMemTypeHost(arrays->bmem), xhost = PetscMemTypeHost(arrays->xmem);
  PetscScalar   *staged;
  cudaStream_t   stream;

  PetscFunctionBegin;
  if (!rows) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSFactorCheckSolves(factor->device));
  PetscCall(IDRSFactorSweepUpdate(factor, direction));
  if (bhost || xhost)
    PetscCall(IDRSFactorGrowVectors((size_t)rows * PetscMin(columns, IDRS_FACTOR_COLUMNS), &factor->device->staged));
  staged = factor->device->staged.memory;
  PetscCall(IDRSStream_CUDA(&stream));
  for (PetscInt c = 0; c < columns; c += IDRS_FACTOR_COLUMNS) {
    const PetscInt     m   = PetscMin(columns - c, IDRS_FACTOR_COLUMNS);
    const PetscScalar *bc  = arrays->b + (size_t)c * ldb;
    PetscScalar       *xc  = arrays->x + (size_t)c * ldx;
    const size_t       row = rows * sizeof(PetscScalar);

    if (bhost) PetscCallCUDA(cudaMemcpy2DAsync(staged, row, bc, ldb * sizeof(PetscScalar), row, m, cudaMemcpyHostToDevice, stream));
    PetscCall(IDRSFactorSolveColumns(factor, direction, m, bhost ? staged : bc, bhost ? rows : ldb, xhost ? staged : xc,
                                     xhost ? rows : ldx));
    if (xhost) PetscCallCUDA(cudaMemcpy2DAsync(xc, ldx * sizeof(PetscScalar), staged, row, row, m, cudaMemcpyDeviceToHost, stream));
  }
  /* the caller may change b next, and a copy from pinned memory may not have ended */
  if (bhost || xhost) PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static const IDRSFactorCopies IDRSFactorCopies_CUDA = {IDRSFactorToHost_CUDA, IDRSFactorFromHost_CUDA};

// clang-format off
const IDRSFactorOps IDRSFactorBackEnds_CUDA = {
  PetscDesignatedInitializer(name, "on the GPU"),
  PetscDesignatedInitializer(numeric, IDRSFactorNumeric_CUDA),
  PetscDesignatedInitializer(solve, IDRSFactorSolve_CUDA),
  PetscDesignatedInitializer(reset, IDRSFactorReset_CUDA),
  PetscDesignatedInitializer(copies, &IDRSFactorCopies_CUDA),
};
// clang-format on
