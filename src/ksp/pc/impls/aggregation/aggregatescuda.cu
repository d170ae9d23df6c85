/*
   Aggregates of the rows of a MATAIJCUSPARSE, by kernels: boxes of a grid or pairs of rows of each process, as on the host, see
   aggregates.c. The step P is a MATSHELL with the aggregate of each row, and the rows of each aggregate.
*/
#include "aggregatescuda.cuh"

/* Blocks whose sums of couplings are added up on the host, in the order of the blocks */
#define GRID_BLOCKS 1024

/* Collects the distances of columns from the diagonal, up to GRID_OFFSETS + 1 of them, in no order; 0 stands for none */
static __global__ void __launch_bounds__(IDRS_THREADS) OffsetsKernel(IDRSCSR A, int *offsets)
{
  for (size_t row = IDRSFirstRow<1>(); row < A.n && !offsets[GRID_OFFSETS]; row += IDRSRowStride<1>()) {
    for (IDRSMatIndex p = A.i[row]; p < A.i[row + 1]; p++) {
      const int distance = abs((int)A.j[p] - (int)row);

      for (int k = 0; distance && k <= GRID_OFFSETS; k++) {
        int found = offsets[k];

        if (!found) found = atomicCAS(offsets + k, 0, distance);
        if (!found || found == distance) break;
      }
    }
  }
}

typedef struct {
  int n[3], size[3], m[3]; /* of the grid, of a box, of the boxes */
} Boxes;

/* Adds up the couplings in each direction of the grid, for each block. *bad becomes 1 if an entry is not between neighbours */
static __global__ void __launch_bounds__(IDRS_THREADS) GridKernel(IDRSCSR A, Boxes grid, PetscReal *sums, int *bad)
{
  __shared__ PetscReal shared[IDRS_WARPS][3];
  PetscReal            sum[3] = {0.0, 0.0, 0.0};

  for (size_t row = IDRSFirstRow<1>(); row < A.n; row += IDRSRowStride<1>()) {
    const int i = (int)row, x = i % grid.n[0], y = i / grid.n[0] % grid.n[1], z = i / grid.n[0] / grid.n[1];

    for (IDRSMatIndex p = A.i[row]; p < A.i[row + 1]; p++) {
      const int       j        = (int)A.j[p];
      const int       step[3]  = {j % grid.n[0] - x, j / grid.n[0] % grid.n[1] - y, j / grid.n[0] / grid.n[1] - z};
      const PetscReal coupling = PetscAbsScalar(A.a[p]);

#pragma unroll
      for (int d = 0; d < 3; d++) {
        if (abs(step[d]) > 1) *bad = 1;
        if (step[d]) sum[d] += coupling;
      }
    }
  }
#pragma unroll
  for (int d = 0; d < 3; d++) {
    sum[d] = IDRSWarpSum<IDRS_WARP>(sum[d]);
    if (threadIdx.x % IDRS_WARP == 0) shared[threadIdx.x / IDRS_WARP][d] = sum[d];
  }
  __syncthreads();
  if (threadIdx.x < 3) {
    PetscReal all = 0.0;

    for (int w = 0; w < IDRS_WARPS; w++) all += shared[w][threadIdx.x];
    sums[3 * blockIdx.x + threadIdx.x] = all;
  }
}

/* Finds the grid whose neighbours have the entries of A, as on the host */
static PetscErrorCode GridFind(const IDRSCSR *A, Grid *grid, PetscBool *found, cudaStream_t stream)
{
  const unsigned int blocks = PetscMin(CountBlocks(A->n), GRID_BLOCKS);
  PetscInt           sorted[GRID_OFFSETS];
  int               *offsets, distance[GRID_OFFSETS + 1], count = 0, bad;
  PetscReal         *sums, *couplings;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  *found = PETSC_FALSE;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, GRID_OFFSETS + 2, &offsets));
  OffsetsKernel<<<CountBlocks(A->n), IDRS_THREADS, 0, stream>>>(*A, offsets);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(CopyToHost(GRID_OFFSETS + 1, offsets, distance, stream));
  if (!distance[GRID_OFFSETS]) {
    for (int k = 0; k < GRID_OFFSETS && distance[k]; k++, count++) {
      int l = k;

      for (; l > 0 && sorted[l - 1] > distance[k]; l--) sorted[l] = sorted[l - 1];
      sorted[l] = distance[k];
    }
    *found = GridFromOffsets_Private(A->n, count, sorted, grid);
  }
  if (*found) {
    const Boxes points = {
      {(int)grid->n[0], (int)grid->n[1], (int)grid->n[2]}
    };

    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, 3 * blocks, &sums));
    PetscCall(PetscMalloc1(3 * blocks, &couplings));
    GridKernel<<<blocks, IDRS_THREADS, 0, stream>>>(*A, points, sums, offsets + GRID_OFFSETS + 1);
    PetscCallCUDA(cudaGetLastError());
    PetscCall(CopyToHost(3 * blocks, sums, couplings, stream));
    PetscCall(CopyToHost(1, offsets + GRID_OFFSETS + 1, &bad, stream));
    *found = bad ? PETSC_FALSE : PETSC_TRUE;
    for (unsigned int k = 0; k < 3 * blocks; k++) grid->coupling[k % 3] += couplings[k];
    GridSetBoxes_Private(grid);
    PetscCall(PetscFree(couplings));
    PetscCall(PetscDeviceFree(dctx, sums));
  }
  PetscCall(PetscDeviceFree(dctx, offsets));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A thread makes one box. If no row of the box has couplings, its first row is the aggregate; else rows without couplings have none
*/
static __global__ void __launch_bounds__(IDRS_THREADS) BoxesKernel(IDRSCSR A, Boxes boxes, int count, int *of)
{
  for (size_t c = IDRSFirstRow<1>(); c < count; c += IDRSRowStride<1>()) {
    const int    at[3]   = {(int)c % boxes.m[0], (int)c / boxes.m[0] % boxes.m[1], (int)c / boxes.m[0] / boxes.m[1]};
    int          rows[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    unsigned int coupled = 0;

#pragma unroll
    for (int k = 0; k < 8; k++) {
      int point[3];

      for (int d = 0; d < 3; d++) point[d] = at[d] * boxes.size[d] + (k >> d & 1);
      for (int d = 0; d < 3; d++) {
        if ((k >> d & 1) >= boxes.size[d] || point[d] >= boxes.n[d]) point[0] = -1;
      }
      if (point[0] >= 0) rows[k] = point[0] + boxes.n[0] * (point[1] + boxes.n[1] * point[2]);
      if (rows[k] >= 0 && RowIsCoupled(A, rows[k])) coupled |= 1u << k;
    }
    if (!coupled) coupled = 1;
#pragma unroll
    for (int k = 0; k < 8; k++) {
      if (rows[k] >= 0) of[rows[k]] = coupled >> k & 1 ? (int)c : -1;
    }
  }
}

static PetscErrorCode AggregatesFromGrid(const IDRSCSR *A, const Grid *grid, AggregatesCUDA *aggregates, cudaStream_t stream)
{
  Boxes boxes;

  PetscFunctionBegin;
  for (int d = 0; d < 3; d++) {
    boxes.n[d]    = (int)grid->n[d];
    boxes.size[d] = (int)grid->size[d];
    boxes.m[d]    = (boxes.n[d] + boxes.size[d] - 1) / boxes.size[d];
  }
  aggregates->count = boxes.m[0] * boxes.m[1] * boxes.m[2];
  BoxesKernel<<<CountBlocks(aggregates->count), IDRS_THREADS, 0, stream>>>(*A, boxes, aggregates->count, aggregates->of);
  PetscCallCUDA(cudaGetLastError());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* number_i = number of the aggregate of row i among those of all processes, or -1 */
static __global__ void __launch_bounds__(IDRS_THREADS)
  GlobalNumberKernel(int n, const int *of, PetscReal begin, PetscScalar *number)
{
  for (size_t row = IDRSFirstRow<1>(); row < n; row += IDRSRowStride<1>())
    number[row] = of[row] < 0 ? (PetscReal)-1.0 : begin + of[row];
}

/* Gets the aggregates of the columns of other processes. Collective */
static PetscErrorCode GhostsGet(Mat A, Mat outer, const PetscInt garray[], AggregatesCUDA *aggregates, cudaStream_t stream)
{
  const PetscScalar *received;
  PetscScalar       *sent;
  PetscInt           begin, count = aggregates->count, n;
  int               *ghost;
  Vec                number, ghosts;
  IS                 is;
  VecScatter         scatter;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCallMPI(MPI_Scan(&count, &begin, 1, MPIU_INT, MPI_SUM, PetscObjectComm((PetscObject)A)));
  begin -= count;
  PetscCall(MatCreateVecs(A, &number, NULL));
  PetscCall(MatCreateVecs(outer, &ghosts, NULL));
  PetscCall(VecGetLocalSize(ghosts, &n));
  PetscCall(IDRSFindArray_CUDA(number, IDRS_WRITE, &sent));
  GlobalNumberKernel<<<CountBlocks(aggregates->n), IDRS_THREADS, 0, stream>>>(aggregates->n, aggregates->of, (PetscReal)begin,
                                                                              sent);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(ISCreateGeneral(PETSC_COMM_SELF, n, garray, PETSC_USE_POINTER, &is));
  PetscCall(VecScatterCreate(number, is, ghosts, NULL, &scatter));
  PetscCall(VecScatterBegin(scatter, number, ghosts, INSERT_VALUES, SCATTER_FORWARD));
  PetscCall(VecScatterEnd(scatter, number, ghosts, INSERT_VALUES, SCATTER_FORWARD));
  /* different numbers in increasing order, and the place of each ghost among them */
  PetscCall(PetscMalloc1(n + 1, &aggregates->ghosts));
  PetscCall(PetscMalloc1(n, &ghost));
  PetscCall(VecGetArrayRead(ghosts, &received));
  count = 0;
  for (PetscInt k = 0; k < n; k++) {
    if (PetscRealPart(received[k]) >= 0.0) aggregates->ghosts[count++] = (PetscInt)PetscRealPart(received[k]);
  }
  PetscCall(PetscSortRemoveDupsInt(&count, aggregates->ghosts));
  for (PetscInt k = 0; k < n; k++) {
    PetscInt place = -1;

    if (PetscRealPart(received[k]) >= 0.0)
      PetscCall(PetscFindInt((PetscInt)PetscRealPart(received[k]), count, aggregates->ghosts, &place));
    ghost[k] = (int)place;
  }
  PetscCall(VecRestoreArrayRead(ghosts, &received));
  aggregates->nghosts = (int)count;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, n, &aggregates->ghost));
  PetscCallCUDA(cudaMemcpyAsync(aggregates->ghost, ghost, n * sizeof(*ghost), cudaMemcpyHostToDevice, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscCall(PetscFree(ghost));
  PetscCall(VecScatterDestroy(&scatter));
  PetscCall(ISDestroy(&is));
  PetscCall(VecDestroy(&ghosts));
  PetscCall(VecDestroy(&number));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* y = z + P x, or P x if z is NULL. Reads x, z and the aggregates; writes y */
static __global__ void __launch_bounds__(IDRS_THREADS) ProlongKernel(IDRSOverlap<true, true> overlap, AggregatesCUDA aggregates,
                                                                     const PetscScalar *x, const PetscScalar *z, PetscScalar *y)
{
  overlap.Begin();
  for (size_t row = IDRSFirstRow<1>(); row < aggregates.n; row += IDRSRowStride<1>()) {
    const int   c     = aggregates.of[row];
    PetscScalar value = z ? z[row] : (PetscScalar)0.0;

    if (c >= 0) value += x[c];
    y[row] = value;
  }
}

/* y = P^T x */
static __global__ void __launch_bounds__(IDRS_THREADS)
  RestrictKernel(IDRSOverlap<true, true> overlap, AggregatesCUDA aggregates, const PetscScalar *x, PetscScalar *y)
{
  overlap.Begin();
  for (size_t c = IDRSFirstRow<1>(); c < aggregates.count; c += IDRSRowStride<1>())
    y[c] = AggregateSum(aggregates, (int)c, [=](int row) { return x[row]; });
}

/* y = z + P x, or P x if z is NULL. z may be y */
static PetscErrorCode ProlongationMultAdd(Mat P, Vec x, Vec z, Vec y)
{
  AggregatesCUDA    *aggregates;
  const PetscScalar *xs, *zs = NULL;
  PetscScalar       *ys;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(MatShellGetContext(P, &aggregates));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(VecCUDAGetArrayRead(x, &xs));
  if (z == y) {
    PetscCall(VecCUDAGetArray(y, &ys));
    zs = ys;
  } else {
    if (z) PetscCall(VecCUDAGetArrayRead(z, &zs));
    PetscCall(VecCUDAGetArrayWrite(y, &ys));
  }
  PetscCall(PetscLogGpuTimeBegin());
  IDRSLaunch<ProlongKernel>(CountBlocks(aggregates->n), stream, *aggregates, xs, zs, ys);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  if (z == y) PetscCall(VecCUDARestoreArray(y, &ys));
  else {
    PetscCall(VecCUDARestoreArrayWrite(y, &ys));
    if (z) PetscCall(VecCUDARestoreArrayRead(z, &zs));
  }
  PetscCall(VecCUDARestoreArrayRead(x, &xs));
  PetscCall(PetscLogGpuFlops(z ? (PetscLogDouble)aggregates->n : 0.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatMult_Prolongation(Mat P, Vec x, Vec y)
{
  PetscFunctionBegin;
  PetscCall(ProlongationMultAdd(P, x, NULL, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatMultTranspose_Prolongation(Mat P, Vec x, Vec y)
{
  AggregatesCUDA    *aggregates;
  const PetscScalar *xs;
  PetscScalar       *ys;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(MatShellGetContext(P, &aggregates));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(VecCUDAGetArrayRead(x, &xs));
  PetscCall(VecCUDAGetArrayWrite(y, &ys));
  PetscCall(PetscLogGpuTimeBegin());
  IDRSLaunch<RestrictKernel>(CountBlocks(aggregates->count), stream, *aggregates, xs, ys);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(VecCUDARestoreArrayWrite(y, &ys));
  PetscCall(VecCUDARestoreArrayRead(x, &xs));
  PetscCall(PetscLogGpuFlops((PetscLogDouble)aggregates->n));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ProlongationDestroy(void *pointer)
{
  AggregatesCUDA *aggregates = (AggregatesCUDA *)IDRSContainerData(pointer);

  PetscFunctionBegin;
  PetscCall(AggregatesReset_CUDA(aggregates));
  PetscCall(PetscFree(aggregates));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ProlongationCreate(MPI_Comm comm, AggregatesCUDA *aggregates, Mat *P)
{
  PetscFunctionBegin;
  PetscCall(MatCreateShell(comm, aggregates->n, aggregates->count, PETSC_DETERMINE, PETSC_DETERMINE, aggregates, P));
  PetscCall(MatShellSetManageScalingShifts(*P));
  PetscCall(MatSetVecType(*P, VECCUDA));
  PetscCall(MatShellSetOperation(*P, MATOP_MULT, (void (*)(void))MatMult_Prolongation));
  PetscCall(MatShellSetOperation(*P, MATOP_MULT_ADD, (void (*)(void))ProlongationMultAdd));
  PetscCall(MatShellSetOperation(*P, MATOP_MULT_TRANSPOSE, (void (*)(void))MatMultTranspose_Prolongation));
  PetscCall(IDRSMatShellSetDestroy(*P, ProlongationDestroy)); /* not MATOP_DESTROY: a duplicate has the same context */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* If one process has a reason why a matrix is not supported, all have one. Collective */
static PetscErrorCode AgreeOnReason(Mat A, const char *why[])
{
  PetscInt any = *why != NULL;

  PetscFunctionBegin;
  IDRSCallAllreduce(MPI_IN_PLACE, &any, 1, MPIU_INT, MPI_MAX, PetscObjectComm((PetscObject)A));
  if (any && !*why) *why = "another process does not support it";
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode AggregatesRuns_CUDA(Mat A, const char *why[])
{
  PetscBool      sequential, parallel;
  PetscInt       N;
  IDRSMemory     place;
  PetscLogDouble nonzeros;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJCUSPARSE, &sequential));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJCUSPARSE, &parallel));
  PetscCall(MatGetSize(A, &N, NULL));
  if (!sequential && !parallel) *why = "the matrix is not of type aijcusparse";
  else if (parallel && PETSC_VERSION_LT(3, 26, 0)) *why = "several processes need PETSc 3.26 or newer";
  else if (sizeof(IDRSMatIndex) != sizeof(PetscInt)) *why = "64-bit indices need PETSc 3.26 or newer";
  else if (PetscDefined(USE_REAL_SINGLE) && parallel && N > 1 << 24)
    *why = "single precision does not hold the numbers of its rows";
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSMatWhere(A, &place));
  PetscCall(IDRSGetNonzeros(A, &nonzeros));
  if (place == IDRS_MEMORY_HOST) *why = "the matrix is bound to the CPU";
  else if (nonzeros > 2e9) *why = "a process has more than 2 000 000 000 entries";
  PetscCall(AgreeOnReason(A, why));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode AggregatesCreate_CUDA(Mat A, AggregatesKind *kind, Mat *P, const char *why[])
{
  const PetscInt    *garray;
  AggregatesCUDA    *aggregates;
  PetscLogDouble     nonzeros;
  PetscBool          found;
  Grid               grid;
  IDRSCSR            csr, outercsr;
  Mat                block, outer;
  cudaStream_t       stream;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(IDRSRowsGetBlocks(A, &block, &outer, &garray));
  PetscCall(AggregatesGetCSR_CUDA(block, &csr));
  PetscCall(IDRSGetNonzeros(block, &nonzeros));
  PetscCall(PetscNew(&aggregates));
  aggregates->n = (int)csr.n;
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, csr.n, &aggregates->of));
  PetscCall(GridFind(&csr, &grid, &found, stream));
  *kind = found || !csr.n ? AGGREGATES_BOXES : AGGREGATES_PAIRS;
  if (found) PetscCall(AggregatesFromGrid(&csr, &grid, aggregates, stream));
  else if (csr.n) PetscCall(AggregatesFromPairs_CUDA(&csr, (size_t)nonzeros, aggregates, stream, why));
  if (!*why) PetscCall(AggregatesGetRows_CUDA(&csr, aggregates, stream, why));
  if (outer && !*why) {
    PetscCall(IDRSGetCSR(outer, &outercsr));
    PetscCall(AggregatesGetMostEntries_CUDA(&outercsr, aggregates, &aggregates->outerentries, stream, why));
  }
  PetscCall(AgreeOnReason(A, why));
  if (*why) {
    PetscCall(AggregatesReset_CUDA(aggregates));
    PetscCall(PetscFree(aggregates));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (outer) PetscCall(GhostsGet(A, outer, garray, aggregates, stream));
  PetscCall(ProlongationCreate(PetscObjectComm((PetscObject)A), aggregates, P));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a parallel matrix of both blocks, or marks it as changed */
static PetscErrorCode CombineBlocks(MPI_Comm comm, Mat block[2], const AggregatesCUDA *aggregates, MatReuse reuse, Mat *A)
{
  PetscInt *garray;

  PetscFunctionBegin;
#if PETSC_VERSION_GE(3, 26, 0)
  if (reuse == MAT_INITIAL_MATRIX) {
    PetscCall(PetscMalloc1(aggregates->nghosts, &garray));
    PetscCall(PetscArraycpy(garray, aggregates->ghosts, aggregates->nghosts));
    PetscCall(MatCreateMPIAIJWithSeqAIJ(comm, PETSC_DETERMINE, PETSC_DETERMINE, block[0], block[1], garray, A));
  }
#else
  (void)garray;
#endif
  PetscCall(PetscObjectStateIncrease((PetscObject)*A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes new values of a matrix */
static PetscErrorCode UpdateMatrix(const AggregatesBlock *block, const AggregatesCUDA *aggregates, PetscReal factor, Mat C,
                                   cudaStream_t stream)
{
  IDRSCSR      csr;
  PetscScalar *a;
  PetscBool    shell;

  PetscFunctionBegin;
  PetscCall(AggregatesGetCSR_CUDA(C, &csr));
  PetscCall(PetscObjectTypeCompare((PetscObject)C, MATSHELL, &shell));
  if (shell) {
    PetscCall(AggregatesUpdate_CUDA(block, aggregates, factor, csr.i, (PetscScalar *)csr.a, stream));
    PetscCall(PetscObjectStateIncrease((PetscObject)C));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(MatSeqAIJCUSPARSEGetArrayWrite(C, &a));
  PetscCall(AggregatesUpdate_CUDA(block, aggregates, factor, csr.i, a, stream));
  PetscCall(MatSeqAIJCUSPARSERestoreArrayWrite(C, &a));
  PetscCall(IDRSStreamJoin_CUDA());
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode AggregatesProduct_CUDA(Mat A, Mat P, PetscReal factor, MatReuse reuse, Mat *coarse)
{
  AggregatesCUDA *aggregates;
  Mat             from[2], to[2] = {NULL, NULL};
  cudaStream_t    stream;

  PetscFunctionBegin;
  PetscCall(MatShellGetContext(P, &aggregates));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSRowsGetBlocks(A, &from[0], &from[1], NULL));
  if (reuse == MAT_REUSE_MATRIX) PetscCall(IDRSRowsGetBlocks(*coarse, &to[0], &to[1], NULL));
  for (int b = 0; b < (from[1] ? 2 : 1); b++) {
    const PetscBool large = (PetscBool)(!from[1] && aggregates->count > AGGREGATION_SMALL);
    AggregatesBlock block = {{}, b ? aggregates->ghost : aggregates->of, b ? aggregates->outerentries : aggregates->entries};

    PetscCall(AggregatesGetCSR_CUDA(from[b], &block.A));
    if (reuse == MAT_REUSE_MATRIX) PetscCall(UpdateMatrix(&block, aggregates, factor, to[b], stream));
    else {
      AggregatesMatrix sums = {};

      sums.rows    = aggregates->count;
      sums.columns = b ? aggregates->nghosts : aggregates->count;
      PetscCall(AggregatesMultiply_CUDA(&block, aggregates, factor, &sums, stream));
      if (large) PetscCall(AggregatesMatrixGetShell_CUDA(&sums, &to[b]));
      else PetscCall(AggregatesMatrixGetMat_CUDA(&sums, stream, &to[b]));
      PetscCall(AggregatesMatrixReset_CUDA(&sums));
    }
  }
  if (from[1]) PetscCall(CombineBlocks(PetscObjectComm((PetscObject)A), to, aggregates, reuse, coarse));
  else if (reuse == MAT_INITIAL_MATRIX) *coarse = to[0];
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* *count = number of rows that have couplings and no aggregate */
static __global__ void __launch_bounds__(IDRS_THREADS) MissingKernel(IDRSCSR A, const int *of, int *count)
{
  for (size_t row = IDRSFirstRow<1>(); row < A.n; row += IDRSRowStride<1>()) {
    if (of[row] < 0 && RowIsCoupled(A, row)) atomicAdd(count, 1);
  }
}

static PetscErrorCode AggregatesMissing_CUDA(Mat A, Mat P, PetscInt *count)
{
  AggregatesCUDA    *aggregates;
  IDRSCSR            csr;
  int               *counted, missing;
  Mat                block;
  cudaStream_t       stream;
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(MatShellGetContext(P, &aggregates));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(IDRSRowsGetBlocks(A, &block, NULL, NULL));
  PetscCall(AggregatesGetCSR_CUDA(block, &csr));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &counted));
  MissingKernel<<<CountBlocks(csr.n), IDRS_THREADS, 0, stream>>>(csr, aggregates->of, counted);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(CopyToHost(1, counted, &missing, stream));
  PetscCall(PetscDeviceFree(dctx, counted));
  *count = missing;
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const AggregatesOps Aggregates_CUDA = {
  PetscDesignatedInitializer(where, "on the GPU"),
  PetscDesignatedInitializer(coarsest, AGGREGATION_COARSEST),
  PetscDesignatedInitializer(parallelcoarsest, AGGREGATION_SMALL),
  PetscDesignatedInitializer(runs, AggregatesRuns_CUDA),
  PetscDesignatedInitializer(create, AggregatesCreate_CUDA),
  PetscDesignatedInitializer(product, AggregatesProduct_CUDA),
  PetscDesignatedInitializer(missing, AggregatesMissing_CUDA),
  PetscDesignatedInitializer(entries, AggregatesGetFull_CUDA),
};
// clang-format on
