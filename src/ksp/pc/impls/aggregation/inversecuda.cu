/*
   The inverse of the matrix of a coarsest level by Gauss-Jordan elimination, in one kernel by one thread block cluster. The
   matrix M with y = M x changes step by step to its inverse: step k takes the row p with the largest |m_pk| of the rows that are
   still equations, and exchanges its y_p with x_k,

     x_k = (y_p - sum_{j != k} m_pj x_j) / m_pk,   y_i = f_i y_p + sum_{j != k} (m_ij - f_i m_pj) x_j,   f_i = m_ik / m_pk

   A block has each size-th column in its shared memory, and a thread the entries of one row. The block with column k + 1 computes
   this column first in step k, finds p of the next step, and gives p and f to the others, which compute their columns meanwhile.

   Rows are scaled by their largest entry first. If no |m_pk| exceeds rounding errors, the matrix is singular: x_k is zero, and an
   equation remains that is not used. With the system of a Neumann problem this is a solution if there is one.
*/
#include "../../../../sys/device/cluster.cuh"
#include "aggregatescuda.cuh"

#define INVERSE_THREADS 1024
#define INVERSE_ROWS    640 /* for which arrays in shared memory have places */
#define INVERSE_WARPS   (INVERSE_THREADS / IDRS_WARP)

/* The numbers that the block with column k gives to all others in a step; two of them take turns */
typedef struct {
  PetscScalar f[INVERSE_ROWS]; /* 1 / m_pk in place of f_p */
  int         row;             /* p, or -1 for none */
} InverseStep;

/* The two halves of a barrier of all threads of all blocks */
static __device__ __forceinline__ void InverseArrive()
{
  if (gridDim.x > 1) IDRS_CLUSTER_CODE("barrier.cluster.arrive.release.aligned;" :: : "memory");
}

static __device__ __forceinline__ void InverseWait()
{
  if (gridDim.x > 1) IDRS_CLUSTER_CODE("barrier.cluster.wait.acquire.aligned;" :: : "memory");
  else __syncthreads();
}

/*
   Returns the row of the largest value in a block, or -1 if no value exceeds `least`. The values are compared without their last
   10 bits, in whose place the row is; the first of equal rows counts. All threads call it, those without a row with a value of 0
*/
static __device__ int FindLargest(PetscReal value, int row, PetscReal least)
{
  __shared__ unsigned long long keys[INVERSE_WARPS];
  const int                     lane = threadIdx.x % IDRS_WARP, warps = blockDim.x / IDRS_WARP;
  unsigned long long            key = ((unsigned long long)__double_as_longlong((double)value) & ~1023ull) | (1023 - row);

  for (int round = 0; round < 2; round++) {
#pragma unroll
    for (int offset = IDRS_WARP / 2; offset > 0; offset /= 2) key = max(key, IDRSShuffle(key, lane ^ offset));
    if (round) break;
    if (lane == 0) keys[threadIdx.x / IDRS_WARP] = key;
    __syncthreads();
    key = lane < warps ? keys[lane] : 0;
  }
  return __longlong_as_double((long long)key) > (double)least ? 1023 - (int)(key & 1023) : -1;
}

/*
   Writes the transposed inverse of A, n rows and columns, where zeros are. If the shared memory is too small for the columns of a
   block, `memory` has the columns of all blocks, else it is NULL. If an entry of A or of the inverse is not finite, *bad becomes 1
*/
static __global__ void __launch_bounds__(INVERSE_THREADS, 1)
  InverseKernel(IDRSCSR A, PetscScalar *memory, InverseStep *steps, PetscScalar *transposed, int *bad)
{
  extern __shared__ PetscScalar columns[];
  __shared__ PetscScalar        pivots[INVERSE_ROWS]; /* m_pj of the columns of this block */
  __shared__ PetscReal          scales[INVERSE_ROWS];
  __shared__ int                rows[INVERSE_ROWS]; /* p of step k, or -1 */

  const int          n = (int)A.n, blocks = gridDim.x, block = blockIdx.x, mine = (n - block + blocks - 1) / blocks;
  PetscScalar *const M     = memory ? memory + (size_t)block * ((n + blocks - 1) / blocks) * n : columns;
  const int          width = (n + IDRS_WARP - 1) / IDRS_WARP * IDRS_WARP, groups = blockDim.x / width;
  const int          i = threadIdx.x % width, group = threadIdx.x / width; /* this thread has row i of each groups-th column */
  const bool         member = i < n && group < groups;
  const PetscReal    least  = 4 * n * PETSC_MACHINE_EPSILON;
  bool               used   = false; /* row i is no longer an equation */

  for (int c = group; member && c < mine; c += groups) M[(size_t)c * n + i] = 0.0;
  __syncthreads();
  if (member && group == 0) {
    PetscReal largest = 0.0;

    for (IDRSMatIndex p = A.i[i]; p < A.i[i + 1]; p++) {
      const PetscReal size = PetscAbsScalar(A.a[p]);

      if (!(size <= PETSC_MAX_REAL)) *bad = 1;
      largest = PetscMax(largest, size);
    }
    scales[i] = largest > 0.0 ? 1.0 / largest : 1.0;
    for (IDRSMatIndex p = A.i[i]; p < A.i[i + 1]; p++) {
      if ((int)A.j[p] % blocks == block) M[(size_t)(A.j[p] / blocks) * n + i] += A.a[p] * scales[i];
    }
  }
  __syncthreads();
  /* the block with column k finds p of step k, and gives it to all blocks */
  auto choose = [&](int k) {
    PetscScalar *const column    = M + (size_t)(k / blocks) * n;
    const bool         candidate = member && group == 0;
    const int          p = FindLargest(candidate && !used ? PetscAbsScalar(column[i]) : (PetscReal)0.0, candidate ? i : 0, least);

    if (candidate && p >= 0) steps[k % 2].f[i] = i == p ? (PetscScalar)1.0 / column[p] : column[i] / column[p];
    if (threadIdx.x == 0) steps[k % 2].row = p;
  };
  if (block == 0) choose(0);
  for (int k = 0; k < n; k++) {
    if (!k) InverseArrive();
    InverseWait();
    const InverseStep *const step  = steps + k % 2;
    const int                p     = step->row;
    const PetscScalar        f     = member ? step->f[i] : (PetscScalar)0.0;
    const int                early = k + 1 < n && (k + 1) % blocks == block ? (k + 1) / blocks : -1; /* column of the next step */

    auto update = [&](int c) {
      PetscScalar *const entry = M + (size_t)c * n + i;

      if (c * blocks + block == k) *entry = f;
      else *entry = (i == p ? (PetscScalar)0.0 : *entry) - f * pivots[c];
    };
    if (threadIdx.x == 0) rows[k] = p;
    if (i == p) used = true;
    for (int c = threadIdx.x; p >= 0 && c < mine; c += blockDim.x) pivots[c] = M[(size_t)c * n + p];
    __syncthreads();
    if (early >= 0) {
      if (member && p >= 0 && group == 0) update(early);
      choose(k + 1);
    }
    if (k + 1 < n) InverseArrive();
#pragma unroll 4
    for (int c = group; c < mine; c += groups) {
      if (member && p >= 0 && c != early) update(c);
    }
    __syncthreads();
  }
  __syncthreads();
  for (int c = 0; c < mine; c++) {
    const int equation = rows[c * blocks + block]; /* column c is the one of y of this row */

    for (int k = threadIdx.x; equation >= 0 && k < n; k += blockDim.x) {
      if (rows[k] >= 0) {
        const PetscScalar entry = M[(size_t)c * n + rows[k]] * scales[equation];

        if (!(PetscAbsScalar(entry) <= PETSC_MAX_REAL)) *bad = 1;
        transposed[equation + (size_t)k * n] = entry;
      }
    }
  }
}

struct _n_AggregationInverse {
  Mat              transposed; /* MATSEQDENSECUDA: the transposed inverse */
  PetscInt         n;
  int              blocks; /* of the cluster */
  size_t           shared; /* bytes of each */
  PetscScalar     *memory; /* if the shared memory is too small, else NULL */
  InverseStep     *steps;
  int             *bad;
  cudaStream_t     stream; /* so that the set-up of other levels goes on meanwhile */
  cudaEvent_t      event;  /* A is there */
  PetscObjectId    id;     /* of A, and its state */
  PetscObjectState state;
};

static PetscErrorCode InverseCreate(PetscInt n, AggregationInverse *newinverse)
{
  AggregationInverse inverse;
  PetscDeviceContext dctx;
  size_t             available;
  int                clusters = 0;

  PetscFunctionBegin;
  PetscCall(PetscNew(newinverse));
  inverse    = *newinverse;
  inverse->n = -1; /* until it is complete */
  PetscCall(MatCreateSeqDenseCUDA(PETSC_COMM_SELF, n, n, NULL, &inverse->transposed));
  for (inverse->blocks = IDRS_CLUSTER_BLOCKS; inverse->blocks > 1; inverse->blocks /= 2) {
    PetscCallCUDA(IDRSGetClusters(InverseKernel, inverse->blocks, INVERSE_THREADS, &clusters, &available));
    if (clusters) break;
  }
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  inverse->shared = (size_t)((n + inverse->blocks - 1) / inverse->blocks) * n * sizeof(PetscScalar);
  if (inverse->blocks == 1 || inverse->shared > available) {
    PetscCall(
      PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, inverse->blocks * inverse->shared / sizeof(PetscScalar), &inverse->memory));
    inverse->shared = 0;
  }
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, 2, &inverse->steps));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &inverse->bad));
  PetscCallCUDA(cudaStreamCreateWithFlags(&inverse->stream, cudaStreamNonBlocking));
  PetscCallCUDA(cudaEventCreateWithFlags(&inverse->event, cudaEventDisableTiming));
  inverse->n = n;
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode AggregationInverseDestroy_CUDA(AggregationInverse *inverse)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (!*inverse) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCallCUDA(cudaStreamSynchronize((*inverse)->stream));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, (*inverse)->bad));
  PetscCall(PetscDeviceFree(dctx, (*inverse)->steps));
  PetscCall(PetscDeviceFree(dctx, (*inverse)->memory));
  if ((*inverse)->event) PetscCallCUDA(cudaEventDestroy((*inverse)->event));
  if ((*inverse)->stream) PetscCallCUDA(cudaStreamDestroy((*inverse)->stream));
  PetscCall(MatDestroy(&(*inverse)->transposed));
  PetscCall(PetscFree(*inverse));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* AggregationInverseBegin_CUDA - Begins to invert A, in the inverse of a matrix of the same size or a new one */
PetscErrorCode AggregationInverseBegin_CUDA(Mat A, AggregationInverse *newinverse)
{
  IDRSCSR             csr;
  AggregationInverse  inverse;
  PetscScalar        *entries;
  cudaStream_t        stream;
  cudaLaunchAttribute attributes[2];
  cudaLaunchConfig_t  config;

  PetscFunctionBegin;
  PetscCall(AggregatesGetCSR_CUDA(A, &csr));
  PetscCheck(csr.n <= INVERSE_ROWS, PETSC_COMM_SELF, PETSC_ERR_PLIB, "%" PetscInt_FMT " rows", csr.n);
  if (*newinverse && (*newinverse)->n != csr.n) PetscCall(AggregationInverseDestroy_CUDA(newinverse));
  if (!*newinverse) PetscCall(InverseCreate(csr.n, newinverse));
  inverse = *newinverse;
  PetscCall(PetscObjectGetId((PetscObject)A, &inverse->id));
  PetscCall(PetscObjectStateGet((PetscObject)A, &inverse->state));
  if (!csr.n) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCallCUDA(cudaEventRecord(inverse->event, stream));
  PetscCallCUDA(cudaStreamWaitEvent(inverse->stream, inverse->event, 0));
  PetscCall(MatDenseCUDAGetArrayWrite(inverse->transposed, &entries));
  PetscCallCUDA(cudaMemsetAsync(entries, 0, (size_t)csr.n * csr.n * sizeof(*entries), inverse->stream));
  PetscCallCUDA(cudaMemsetAsync(inverse->bad, 0, sizeof(*inverse->bad), inverse->stream));
  config = IDRSClusterConfig(1, (unsigned int)inverse->blocks, INVERSE_THREADS, inverse->shared, inverse->stream, attributes);
  if (inverse->blocks == 1) config.numAttrs = 0; /* the GPU has no clusters */
  PetscCallCUDA(cudaLaunchKernelEx(&config, InverseKernel, csr, inverse->memory, inverse->steps, entries, inverse->bad));
  PetscCall(MatDenseCUDARestoreArrayWrite(inverse->transposed, &entries));
  PetscCall(PetscLogGpuFlops(2.0 * csr.n * csr.n * csr.n));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* AggregationInverseEnd_CUDA - Waits for the inverse of A. `finite` is false if an entry of A or of the inverse is not finite */
PetscErrorCode AggregationInverseEnd_CUDA(Mat A, AggregationInverse *inverse, Mat *transposed, PetscBool *finite)
{
  PetscObjectId    id;
  PetscObjectState state;
  int              bad = 0;

  PetscFunctionBegin;
  PetscCall(PetscObjectGetId((PetscObject)A, &id));
  PetscCall(PetscObjectStateGet((PetscObject)A, &state));
  if (!*inverse || (*inverse)->id != id || (*inverse)->state != state) PetscCall(AggregationInverseBegin_CUDA(A, inverse));
  if ((*inverse)->n) PetscCall(CopyToHost(1, (*inverse)->bad, &bad, (*inverse)->stream));
  *finite     = (PetscBool)!bad;
  *transposed = (*inverse)->transposed;
  PetscFunctionReturn(PETSC_SUCCESS);
}
