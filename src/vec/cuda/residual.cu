/*
   The iterate, residuals and norms outside of the steps, for the columns of a group in one launch:

     x += z + U(:,0:columns) beta,     y = b - t,  copy = y,  z = 0,     v^H v

   Reads and writes each vector once.
*/
#include "groups.cuh"

template <int W, int N>
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSAddIterateKernel(IDRSOverlap<false, false> overlap, const __grid_constant__ IDRSMembers<N, IDRSColumn> columns,
                       const __grid_constant__ IDRSHostCoefficients<0, N> fromhost)
{
  __shared__ IDRSCoefficients<0> c;
  const IDRSColumn              &mine  = columns.Mine();
  const IDRSBases               &bases = mine.bases; /* with this many columns */

  overlap.Begin();
  (void)IDRSLoadCoefficients<0>(&c, fromhost.Mine(), mine.device, -1, bases.s);
  for (size_t i = IDRSFirstRow<W>(); i < bases.n; i += IDRSRowStride<W>()) {
    IDRSPack<W> x = IDRSLoad<W>(mine.x[IDRS_R], i, bases.n);

    /* x += z + U beta */
    IDRSAdd<W>(x, 1.0, IDRSLoad<W>(mine.x[IDRS_Z], i, bases.n));
#pragma unroll 4
    for (int j = 0; j < bases.s; j++) IDRSAdd<W>(x, c.b[j], IDRSLoad<W>(bases.U + j * bases.ld, i, bases.n));
    IDRSStore<W>(mine.x[IDRS_R], i, bases.n, x);
  }
}

PetscErrorCode IDRSAddIterate_CUDA(const IDRSGroup *group, const PetscInt count[], Vec x[])
{
  const IDRSAccess access[IDRS_OPERANDS] = {IDRS_NOTHING, IDRS_READ, IDRS_NOTHING, IDRS_NOTHING, IDRS_NOTHING};
  IDRSColumn       columns[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  PetscCall(IDRSColumnsGet_CUDA(group, access, false, columns));
  for (PetscInt i = 0; i < group->count; i++) {
    PetscCall(IDRSFindArray_CUDA(x[i], IDRS_CHANGE, &columns[i].x[IDRS_R]));
    columns[i].bases.s = (int)count[i];
  }
  PetscCall(IDRSLaunchColumns(group, IDRS_COLUMNS_AT_ONCE + 1, -1, columns,
                              [&](auto S, auto W, auto N, const auto &members, const auto &fromhost, cudaStream_t stream) {
                                if constexpr (S == 0)
                                  (void)IDRSLaunchRows<IDRSAddIterateKernel<W, N>, IDRSAddIterateKernel<W, 1>>(
                                    (const IDRS_CUDA *)group->work[0]->data, W, group->count, stream, members, fromhost);
                              }));
  for (PetscInt i = 0; i < group->count; i++)
    PetscCall(PetscLogGpuFlops((1.0 + 2.0 * (PetscLogDouble)count[i]) * (PetscLogDouble)group->work[i]->n));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Arrays of a residual; t and copy may be NULL, and some of the others may be equal */
typedef struct {
  const PetscScalar *b, *t;
  PetscScalar       *y, *copy, *z;
} IDRSDifference;

template <int W, int N>
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSResidualKernel(IDRSOverlap<false, false> overlap, size_t n, const __grid_constant__ IDRSMembers<N, IDRSDifference> columns)
{
  const IDRSDifference &mine = columns.Mine();

  overlap.Begin();
  for (size_t i = IDRSFirstRow<W>(); i < n; i += IDRSRowStride<W>()) {
    IDRSPack<W> y = IDRSLoad<W>(mine.b, i, n);

    /* y = b - t */
    if (mine.t) IDRSAdd<W>(y, -1.0, IDRSLoad<W>(mine.t, i, n));
    IDRSStore<W>(mine.y, i, n, y);
    if (mine.copy) IDRSStore<W>(mine.copy, i, n, y);
    IDRSStore<W>(mine.z, i, n, IDRSZero<W>());
  }
}

/* b may be y or copy, and t may be y */
PetscErrorCode IDRSResidual_CUDA(const IDRSGroup *group, Vec b[], Vec t[], Vec y[], Vec copy[])
{
  const IDRS_CUDA *cuda   = (const IDRS_CUDA *)group->work[0]->data;
  const PetscInt   count  = group->count;
  bool             packed = IDRSPacked(cuda);
  IDRSDifference   columns[IDRS_MAX_WIDTH];
  cudaStream_t     stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  for (PetscInt i = 0; i < count; i++) {
    IDRSDifference *mine = &columns[i];

    PetscCall(IDRSFindArrayRead_CUDA(b[i], &mine->b));
    PetscCall(IDRSFindArrayRead_CUDA(t ? t[i] : NULL, &mine->t));
    PetscCall(IDRSFindArray_CUDA(y[i], IDRS_WRITE, &mine->y));
    PetscCall(IDRSFindArray_CUDA(copy ? copy[i] : NULL, IDRS_WRITE, &mine->copy));
    PetscCall(IDRSFindArray_CUDA(group->work[i]->z, IDRS_WRITE, &mine->z));
    packed = packed && IDRSAligned(mine->b) && IDRSAligned(mine->t) && IDRSAligned(mine->y) && IDRSAligned(mine->copy) &&
             IDRSAligned(mine->z);
    if (t) PetscCall(PetscLogGpuFlops((PetscLogDouble)group->work[i]->n));
  }
  PetscCall(PetscLogGpuTimeBegin());
  IDRSDispatchRows<IDRS_PACK>(packed, count, [&](auto W, auto N) {
    (void)IDRSLaunchRows<IDRSResidualKernel<W, N>, IDRSResidualKernel<W, 1>>(cuda, W, count, stream, cuda->bases.n,
                                                                             IDRSGetMembers<N>(count, columns));
  });
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A vector, its partial sums as in a projection, and the place of its square in the memory of the host */
typedef struct {
  const PetscScalar *v;
  IDRSBlockMessage  *messages;
  uint32_t           launch;
  PetscReal         *square;
  uint64_t          *arrived, sequence;
} IDRSSquared;

/* The first block adds the sums, as in a projection */
template <int W, int N>
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSSquaresKernel(IDRSOverlap<false, false> overlap, size_t n, const __grid_constant__ IDRSMembers<N, IDRSSquared> columns)
{
  __shared__ PetscReal shared[IDRS_WARPS];
  const IDRSSquared   &mine = columns.Mine();
  PetscReal            sum  = 0.0;
  IDRSWaitUnlimited    wait;

  overlap.Begin();
  for (size_t i = IDRSFirstRow<W>(); i < n; i += IDRSRowStride<W>()) sum += IDRSSquare<W>(IDRSLoad<W>(mine.v, i, n));
  IDRSWarpSumsShared<1>(&sum, shared);
  __syncthreads();
  if (threadIdx.x == 0) IDRSPostMessage(mine.messages + blockIdx.x, IDRSWarpsTotal(shared, 0), mine.launch);
  if (blockIdx.x || threadIdx.x >= IDRS_WARP) return;
  /* the first block waits for the parts of all blocks */
  sum = IDRSMessagesSum<IDRS_WARP>(mine.messages, mine.launch, gridDim.x, wait);
  if (threadIdx.x) return;
  *(volatile PetscReal *)mine.square = sum;
  __threadfence_system();
  *(volatile uint64_t *)mine.arrived = mine.sequence;
}

/* The host waits. VecNorm() computes norms whose squares overflow */
PetscErrorCode IDRSNorms_CUDA(const IDRSGroup *group, Vec v[], PetscReal norms[])
{
  const IDRS_CUDA *first  = (const IDRS_CUDA *)group->work[0]->data;
  const PetscInt   count  = group->count;
  bool             packed = IDRSPacked(first);
  IDRSSquared      columns[IDRS_MAX_WIDTH];
  cudaStream_t     stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  for (PetscInt i = 0; i < count; i++) {
    IDRS_CUDA *cuda = (IDRS_CUDA *)group->work[i]->data;

    IDRSCountLaunch(&cuda->partials);
    columns[i] = {NULL,          cuda->partials.messages, cuda->partials.launch, (PetscReal *)cuda->hostsums,
                  cuda->arrived, ++cuda->sequence};
    PetscCall(IDRSFindArrayRead_CUDA(v[i], &columns[i].v));
    packed = packed && IDRSAligned(columns[i].v);
  }
  PetscCall(PetscLogGpuTimeBegin());
  IDRSDispatchRows<2 * IDRS_PACK>(packed, count, [&](auto W, auto N) {
    (void)IDRSLaunchRows<IDRSSquaresKernel<W, N>, IDRSSquaresKernel<W, 1>>(first, W, count, stream, first->bases.n,
                                                                           IDRSGetMembers<N>(count, columns));
  });
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  for (PetscInt i = 0; i < count; i++) {
    PetscCall(IDRSWait_CUDA(group->work[i], columns[i].arrived, columns[i].sequence));
    norms[i] = *columns[i].square;
    PetscCall(PetscLogGpuFlops(2.0 * (PetscLogDouble)group->work[i]->n));
  }
  if (group->work[0]->size > 1)
    IDRSCallAllreduce(MPI_IN_PLACE, norms, (PetscMPIInt)count, MPIU_REAL, MPIU_SUM, group->work[0]->comm);
  for (PetscInt i = 0; i < count; i++) {
    norms[i] = PetscSqrtReal(norms[i]);
    if (PetscIsInfReal(norms[i])) PetscCall(VecNorm(v[i], NORM_2, &norms[i]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
