/*
   Numeric phase and solves on a GPU: memory, copies and launches
*/
#include "numeric.cuh"
#include "triangles.cuh"
#include "../../sys/device/device.h"
#include "../../sys/kernels/csr.h"
#include "../../sys/device/cluster.cuh"
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

struct _n_IDRSFactorDevice {
  PetscBool       ready; /* everything but the transposed sweep is set up */
  int             multiprocessors;
  size_t          shared; /* largest shared memory of a block for a solve in one cluster; 0 without clusters */
  PetscInt       *place, *row, *col;
  IDRSNumeric     numeric;  /* arguments of the numeric phase, with the values */
  IDRSFactorSweep sweep[2]; /* solves, and transposed ones */
  size_t          count;    /* numbers in `work` */
  PetscScalar    *work;     /* right-hand sides, entries of both triangles, and copies of arrays on the host */
  int            *timedout; /* on the host: a wait of a solve has reached its limit */
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

/* A natural permutation has no copy */
static PetscErrorCode IDRSFactorUploadPermutation(IS permutation, PetscInt n, PetscInt **copy)
{
  const PetscInt *indices;
  PetscBool       natural;

  PetscFunctionBegin;
  PetscCall(ISIdentity(permutation, &natural));
  if (natural) PetscFunctionReturn(PETSC_SUCCESS);
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

/* IDRSFactorDeviceReset - Frees the memory on the GPU */
PetscErrorCode IDRSFactorDeviceReset(IDRSFactor factor)
{
  IDRSFactorDevice   device = factor->device;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (!device) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  for (int d = 0; d < 2; d++) PetscCall(IDRSFactorSweepDestroy(&device->sweep[d]));
  {
    IDRSNumeric *numeric  = &device->numeric;
    PetscInt   **arrays[] = {&numeric->i, &numeric->j, &numeric->right, &device->place, &device->row, &device->col};

    for (PetscInt **array : arrays) PetscCall(PetscDeviceFree(dctx, *array));
    PetscCall(PetscDeviceFree(dctx, numeric->a));
    PetscCall(PetscDeviceFree(dctx, numeric->pivots));
    PetscCall(PetscDeviceFree(dctx, numeric->done));
    PetscCall(PetscDeviceFree(dctx, numeric->result));
    PetscCall(PetscDeviceFree(dctx, device->work));
  }
  if (device->timedout) PetscCallCUDA(cudaFreeHost(device->timedout));
  PetscCall(PetscFree(factor->device));
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
static PetscErrorCode IDRSFactorStageCreate(const IDRSFactorPattern *F, PetscBool upper, PetscBool transposed,
                                            IDRSTriangle *triangle, const IDRSTriangle *other, IDRSFactorSweep *sweep)
{
  const int      t     = other ? 1 : 0;
  IDRSStage     *stage = &sweep->stage[t];
  PetscInt      *rhs;
  PetscErrorCode ierr;

  PetscFunctionBegin;
  PetscCall(IDRSTriangleCreate(F, upper, transposed, triangle));
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

static PetscErrorCode IDRSFactorSweepSetUp(IDRSFactor factor, PetscBool transposed)
{
  const PetscBool  forward = transposed ? PETSC_FALSE : PETSC_TRUE;
  IDRSFactorSweep *sweep   = &factor->device->sweep[transposed];
  IDRSTriangle     first = {}, second = {};
  cudaStream_t     stream;
  PetscErrorCode   ierr;

  PetscFunctionBegin;
  if (sweep->ready) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSFactorSweepDestroy(sweep)); /* after an error */
  PetscCall(IDRSStream_CUDA(&stream));
  /* L and U, or U^T and L^T */
  ierr = IDRSFactorStageCreate(&factor->pattern, transposed, transposed, &first, NULL, sweep);
  if (!ierr) ierr = IDRSFactorStageCreate(&factor->pattern, forward, transposed, &second, &first, sweep);
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
static PetscErrorCode IDRSFactorSweepUpdate(IDRSFactor factor, PetscBool transposed)
{
  const int        bs    = (int)factor->pattern.bs;
  IDRSFactorSweep *sweep = &factor->device->sweep[transposed];
  cudaStream_t     stream;

  PetscFunctionBegin;
  PetscCall(IDRSFactorSweepSetUp(factor, transposed));
  if (sweep->current) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStream_CUDA(&stream));
  for (int t = 0; t < 2; t++) {
    const size_t count = (size_t)sweep->entries[t] * bs * bs;

    IDRSFactorGatherKernel<<<IDRSFactorCopyBlocks(count), IDRS_COPY_THREADS, 0, stream>>>(count, bs, transposed, sweep->from[t],
                                                                                          factor->device->numeric.a,
                                                                                          sweep->stage[t].a);
    PetscCallCUDA(cudaGetLastError());
  }
  sweep->current = PETSC_TRUE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSFactorCopyValues - Copies the values of PETSc's factor */
PetscErrorCode IDRSFactorCopyValues(IDRSFactor factor)
{
  const size_t   count = IDRSFactorEntries(&factor->pattern);
  cudaError_t    error = cudaSuccess;
  PetscScalar   *values;
  cudaStream_t   stream;
  PetscErrorCode ierr;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscMalloc1(count, &values));
  ierr = IDRSFactorGetValues_Private(factor, values);
  if (!ierr) error = cudaMemcpyAsync(factor->device->numeric.a, values, count * sizeof(*values), cudaMemcpyHostToDevice, stream);
  if (!ierr && error == cudaSuccess) error = cudaStreamSynchronize(stream);
  PetscCall(PetscFree(values));
  PetscCall(ierr);
  PetscCallCUDA(error);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets up numeric phases and solves. Shared memory is for clusters of IDRS_CLUSTER_BLOCKS blocks */
static PetscErrorCode IDRSFactorDeviceSetUp(IDRSFactor factor)
{
  const IDRSFactorPattern *F       = &factor->pattern;
  const auto               cluster = F->bs > 1 ? IDRSTrianglesClusterKernel<true> : IDRSTrianglesClusterKernel<false>;
  IDRSFactorDevice         device;
  IDRSNumeric             *numeric;
  PetscDeviceContext       dctx;
  int                      which, cooperative, clusters;

  PetscFunctionBegin;
  if (factor->device && factor->device->ready) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSFactorDeviceReset(factor)); /* after an error */
  PetscCallCUDA(cudaGetDevice(&which));
  PetscCallCUDA(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, which));
  PetscCheck(cooperative, PETSC_COMM_SELF, PETSC_ERR_SUP_SYS,
             "%s needs a GPU that can run all blocks of a kernel at once: use a matrix of type aij", MATSOLVERPETSCIDRS);
  PetscCall(PetscNew(&factor->device));
  device = factor->device;
  PetscCallCUDA(cudaDeviceGetAttribute(&device->multiprocessors, cudaDevAttrMultiProcessorCount, which));
  PetscCallCUDA(IDRSGetClusters(cluster, IDRS_CLUSTER_BLOCKS, IDRS_TRIANGLE_THREADS, &clusters, &device->shared));
  numeric          = &device->numeric;
  numeric->n       = F->n;
  numeric->bs      = F->bs;
  numeric->entries = F->i[F->n];
  PetscCall(IDRSFactorUpload(F->n + 1, F->i, &numeric->i));
  PetscCall(IDRSFactorUpload(F->i[F->n], F->j, &numeric->j));
  PetscCall(IDRSFactorUpload(F->n, F->right, &numeric->right));
  PetscCall(IDRSFactorUpload(IDRSFactorEntries(F), (const PetscScalar *)NULL, &numeric->a));
  PetscCall(IDRSFactorUpload(factor->nonzeros, factor->place, &device->place));
  PetscCall(IDRSFactorUploadPermutation(factor->row, factor->rows, &device->row));
  PetscCall(IDRSFactorUploadPermutation(factor->col, factor->rows, &device->col));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, factor->rows, &numeric->pivots));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &numeric->result));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, F->n, &numeric->done));
  PetscCallCUDA(cudaMallocHost(&device->timedout, sizeof(*device->timedout)));
  *device->timedout = 0;
  PetscCall(IDRSFactorSweepSetUp(factor, PETSC_FALSE));
  numeric->order = device->sweep[PETSC_FALSE].stage[0].order; /* the numeric phase processes rows in the order of this triangle */
  device->ready  = PETSC_TRUE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSFactorNumeric - Computes the values. The host waits, because it must check for small pivots

   Output Parameters:
+ unfit - PETSC_TRUE if the inverse of a tile of several rows must not be used
- small - PETSC_TRUE if PETSc would report or change a pivot, for tiles of one row
*/
PetscErrorCode IDRSFactorNumeric(IDRSFactor factor, Mat A, const MatFactorInfo *info, PetscBool *unfit, PetscBool *small)
{
  const auto        kernel = factor->pattern.bs > 1 ? IDRSNumericKernel<true> : IDRSNumericKernel<false>;
  IDRSNumericResult result;
  IDRSNumeric      *numeric;
  IDRSCSR           csr;
  cudaStream_t      stream;
  unsigned int      grid;

  PetscFunctionBegin;
  *unfit = *small = PETSC_FALSE;
  if (!factor->rows) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSFactorDeviceSetUp(factor));
  PetscCall(IDRSCheckTimeout(factor->device->timedout, MATSOLVERPETSCIDRS " solve"));
  numeric            = &factor->device->numeric;
  numeric->shifttype = (MatFactorShiftType)(int)info->shifttype;
  numeric->zeropivot = info->zeropivot;
  numeric->polls     = IDRSGetPolls();
  PetscCall(IDRSStream_CUDA(&stream));
  if (!++numeric->phase) { /* the number has overflowed: numbers of earlier phases are cleared */
    PetscCallCUDA(cudaMemsetAsync(numeric->done, 0, numeric->n * sizeof(*numeric->done), stream));
    numeric->phase = 1;
  }
  PetscCall(IDRSGetCSR(A, &csr));
  PetscCallCUDA(cudaMemsetAsync(numeric->a, 0, IDRSFactorEntries(&factor->pattern) * sizeof(PetscScalar), stream));
  PetscCallCUDA(cudaMemsetAsync(numeric->result, 0, sizeof(*numeric->result), stream));
  PetscCall(IDRSFactorResidentBlocks(factor->device, kernel, IDRS_NUMERIC_THREADS, 4, numeric->n, &grid));
  PetscCall(PetscLogGpuTimeBegin());
  IDRSFactorPlaceKernel<<<IDRSFactorCopyBlocks(factor->nonzeros), IDRS_COPY_THREADS, 0, stream>>>(factor->nonzeros,
                                                                                                  factor->device->place, csr.a,
                                                                                                  numeric->a);
  PetscCallCUDA(cudaGetLastError());
  PetscCallCUDA(IDRSLaunchCooperative(kernel, grid, IDRS_NUMERIC_THREADS, stream, *numeric));
  PetscCall(PetscLogGpuTimeEnd());
  PetscCallCUDA(cudaMemcpyAsync(&result, numeric->result, sizeof(result), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscCall(IDRSCheckTimeout(&result.timedout, MATSOLVERPETSCIDRS " factorisation"));
  *unfit = result.unfit ? PETSC_TRUE : PETSC_FALSE;
  *small = result.small ? PETSC_TRUE : PETSC_FALSE;
  for (int d = 0; d < 2; d++) factor->device->sweep[d].current = PETSC_FALSE;
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

/* Returns the lanes of a row: its columns, padded to a power of 2 */
static inline int IDRSFactorWidth(PetscInt columns)
{
  int width = 1;

  while (width < columns) width *= 2;
  return width;
}

/* Solves for up to IDRS_FACTOR_COLUMNS columns. b and x are on the device. All of b is read before x is written */
static PetscErrorCode IDRSFactorSolveColumns(IDRSFactor factor, PetscBool transposed, PetscInt columns, const PetscScalar b[],
                                             PetscInt ldb, PetscScalar x[], PetscInt ldx)
{
  const PetscInt          n = factor->pattern.n, bs = factor->pattern.bs;
  IDRSFactorDevice        device  = factor->device;
  const PetscScalar      *inverse = device->numeric.a + (size_t)factor->pattern.i[n] * bs * bs; /* D^{-1} */
  IDRSFactorSweep        *sweep   = &device->sweep[transposed];
  const int               width   = IDRSFactorWidth(columns);
  const size_t            count   = (size_t)factor->rows * width;
  const PetscInt         *in = transposed ? device->col : device->row, *out = transposed ? device->row : device->col;
  const PetscScalar      *before = transposed ? NULL : inverse;
  const IDRSFactorColumns begin  = {(size_t)n, (int)bs, (int)columns, width, sweep->stage[0].order, in, before, ldb};
  const IDRSFactorColumns end    = {(size_t)n, (int)bs, (int)columns, width, sweep->stage[1].order, out, inverse, ldx};
  IDRSTriangles           triangles;
  cudaStream_t            stream;

  PetscFunctionBegin;
  for (int t = 0; t < 2; t++) {
    triangles.stage[t]       = sweep->stage[t];
    triangles.stage[t].x     = (IDRSMarked *)(device->work + (t + 1) * count);
    triangles.stage[t].units = sweep->chunks[t] * width;
  }
  /* the second triangle writes x, unless D^{-T} must be applied first */
  triangles.b        = device->work;
  triangles.out      = transposed ? NULL : x;
  triangles.rows     = out;
  triangles.ld       = ldx;
  triangles.bs       = (int)bs;
  triangles.columns  = (int)columns;
  triangles.width    = width;
  triangles.timedout = device->timedout;
  triangles.polls    = IDRSGetPolls();
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscLogGpuTimeBegin());
  /* x = (I + U)^{-1} (I + L)^{-1} D^{-1} b, or D^{-T} (I + L)^{-T} (I + U)^{-T} b */
  IDRSFactorBeginKernel<<<IDRSFactorCopyBlocks(count), IDRS_COPY_THREADS, 0, stream>>>(begin, b, device->work, triangles.stage[0].x,
                                                                                       triangles.stage[1].x);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(IDRSFactorLaunchTriangles(device, &triangles, count, stream));
  if (transposed) {
    IDRSFactorEndKernel<<<IDRSFactorCopyBlocks(count), IDRS_COPY_THREADS, 0, stream>>>(end, triangles.stage[1].x, x);
    PetscCallCUDA(cudaGetLastError());
  }
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(PetscLogGpuFlops(columns * (2.0 * IDRSFactorEntries(&factor->pattern) - factor->rows)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSFactorSolve - Solves for all columns in groups. Arrays in the memory of the host are copied */
PetscErrorCode IDRSFactorSolve(IDRSFactor factor, PetscBool transposed, const IDRSArrays *arrays)
{
  const PetscInt   rows = factor->rows, columns = arrays->columns, ldb = arrays->ldb, ldx = arrays->ldx;
  const bool       bhost = PetscMemTypeHost(arrays->bmem), xhost = PetscMemTypeHost(arrays->xmem);
  const size_t     count = (size_t)rows * IDRSFactorWidth(PetscMin(columns, IDRS_FACTOR_COLUMNS)), row = rows * sizeof(PetscScalar);
  IDRSFactorDevice device = factor->device;
  PetscScalar     *staged; /* a copy of b, and then of x */
  cudaStream_t     stream;

  PetscFunctionBegin;
  if (!rows) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSCheckTimeout(device->timedout, MATSOLVERPETSCIDRS " solve"));
  PetscCall(IDRSFactorSweepUpdate(factor, transposed));
  PetscCall(IDRSGrow_CUDA((bhost || xhost ? 4 : 3) * count, &device->count, &device->work));
  staged = device->work + 3 * count;
  PetscCall(IDRSStream_CUDA(&stream));
  for (PetscInt c = 0; c < columns; c += IDRS_FACTOR_COLUMNS) {
    const PetscInt     m  = PetscMin(columns - c, IDRS_FACTOR_COLUMNS);
    const PetscScalar *bc = arrays->b + (size_t)c * ldb;
    PetscScalar       *xc = arrays->x + (size_t)c * ldx;

    if (bhost) PetscCallCUDA(cudaMemcpy2DAsync(staged, row, bc, ldb * sizeof(PetscScalar), row, m, cudaMemcpyHostToDevice, stream));
    PetscCall(IDRSFactorSolveColumns(factor, transposed, m, bhost ? staged : bc, bhost ? rows : ldb, xhost ? staged : xc,
                                     xhost ? rows : ldx));
    if (xhost) PetscCallCUDA(cudaMemcpy2DAsync(xc, ldx * sizeof(PetscScalar), staged, row, row, m, cudaMemcpyDeviceToHost, stream));
  }
  /* the caller may change b next, and a copy from pinned memory may not have ended */
  if (bhost || xhost) PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}
