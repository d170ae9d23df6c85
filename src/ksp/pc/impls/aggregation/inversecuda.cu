/*
   The inverse of the matrix of a coarsest level by Gauss-Jordan elimination, in one kernel by one thread block cluster. The matrix M
   with y = M x changes step by step to its inverse: step k takes the row p with the largest |m_pk| of the rows that are still
   equations, and exchanges its y_p with x_k,

     x_k = (y_p - sum_{j != k} m_pj x_j) / m_pk,   y_i = f_i y_p + sum_{j != k} (m_ij - f_i m_pj) x_j,   f_i = m_ik / m_pk

   A block has each size-th column in its shared memory, and a thread the entries of one row. The block with column k finds p and
   gives p and f to the others, which wait once in a step.

   Rows are scaled by their largest entry first. If no |m_pk| exceeds rounding errors, the matrix is singular: x_k is zero, and an
   equation remains that is not used. With the system of a Neumann problem this is a solution if there is one.
*/
#include "../../../../sys/device/cluster.cuh"
#include "aggregatescuda.cuh"

#define INVERSE_THREADS 1024
#define INVERSE_ROWS    640 /* for which arrays in shared memory have places */
#define INVERSE_WARPS   (INVERSE_THREADS / IDRS_WARP)

/* What the block with column k gives to all others in a step; two of them take turns */
typedef struct {
  PetscScalar f[INVERSE_ROWS]; /* 1 / m_pk in place of f_p */
  int         row;             /* p, or -1 for none */
} InverseStep;

/* Waits for all threads of all blocks */
static __device__ __forceinline__ void InverseBarrier()
{
  if (gridDim.x > 1) IDRSClusterBarrier();
  else __syncthreads();
}

/* Returns the row of the largest value in a block, or -1 if no value exceeds `least`. All threads call it */
static __device__ int FindLargest(PetscReal value, int row, PetscReal least)
{
  __shared__ PetscReal values[INVERSE_WARPS];
  __shared__ int       rows[INVERSE_WARPS];
  const int            lane = threadIdx.x % IDRS_WARP, warps = blockDim.x / IDRS_WARP;

  for (int round = 0; round < 2; round++) {
#pragma unroll
    for (int offset = IDRS_WARP / 2; offset > 0; offset /= 2) {
      const PetscReal other    = IDRSShuffle(value, lane ^ offset);
      const int       otherrow = IDRSShuffle(row, lane ^ offset);

      if (other > value || (other == value && otherrow < row)) {
        value = other;
        row   = otherrow;
      }
    }
    if (round) break;
    if (lane == 0) {
      values[threadIdx.x / IDRS_WARP] = value;
      rows[threadIdx.x / IDRS_WARP]   = row;
    }
    __syncthreads();
    value = lane < warps ? values[lane] : (PetscReal)-1.0;
    row   = lane < warps ? rows[lane] : INVERSE_ROWS;
  }
  return value > least ? row : -1;
}

/*
   Writes the transposed inverse of A, n rows and columns, where zeros are. `memory` is for the columns of M of all blocks if the
   shared memory is too small for those of a block, else NULL. *bad becomes 1 if an entry of A or of the inverse is not finite
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
  for (int k = 0; k < n; k++) {
    InverseStep *const step = steps + k % 2;

    if (k % blocks == block) {
      const bool        candidate = member && group == 0 && !used;
      const PetscScalar entry     = member && group == 0 ? M[(size_t)(k / blocks) * n + i] : (PetscScalar)0.0;
      const int         p = FindLargest(candidate ? PetscAbsScalar(entry) : (PetscReal)-1.0, candidate ? i : INVERSE_ROWS, least);

      if (member && group == 0 && p >= 0) {
        const PetscScalar inverse = (PetscScalar)1.0 / M[(size_t)(k / blocks) * n + p];

        step->f[i] = i == p ? inverse : entry * inverse;
      }
      if (threadIdx.x == 0) step->row = p;
    }
    InverseBarrier();
    const int p = step->row;

    if (threadIdx.x == 0) rows[k] = p;
    if (p < 0) continue;
    for (int c = threadIdx.x; c < mine; c += blockDim.x) pivots[c] = M[(size_t)c * n + p];
    __syncthreads();
    if (member) {
      const PetscScalar f = step->f[i];

      for (int c = group; c < mine; c += groups) {
        PetscScalar *const entry = M + (size_t)c * n + i;

        if (c * blocks + block == k) *entry = f;
        else *entry = (i == p ? (PetscScalar)0.0 : *entry) - f * pivots[c];
      }
      used = used || i == p;
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

/* AggregationInvert_CUDA - Inverts A into the transposed inverse, a MATSEQDENSECUDA. `finite` is false if an entry of A or of the inverse is not finite */
PetscErrorCode AggregationInvert_CUDA(Mat A, Mat transposed, PetscBool *finite)
{
  IDRSCSR             csr;
  PetscScalar        *entries, *memory = NULL;
  InverseStep        *steps;
  int                *bad, found, clusters = 0, blocks;
  size_t              available, shared;
  cudaStream_t        stream;
  cudaLaunchAttribute attributes[2];
  cudaLaunchConfig_t  config;
  PetscDeviceContext  dctx;

  PetscFunctionBegin;
  PetscCall(AggregatesGetCSR_CUDA(A, &csr));
  PetscCheck(csr.n <= INVERSE_ROWS, PETSC_COMM_SELF, PETSC_ERR_PLIB, "%" PetscInt_FMT " rows", csr.n);
  *finite = PETSC_TRUE;
  if (!csr.n) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  for (blocks = IDRS_CLUSTER_BLOCKS; blocks > 1; blocks /= 2) {
    PetscCallCUDA(IDRSGetClusters(InverseKernel, blocks, INVERSE_THREADS, &clusters, &available));
    if (clusters) break;
  }
  shared = (size_t)((csr.n + blocks - 1) / blocks) * csr.n * sizeof(PetscScalar);
  if (blocks == 1 || shared > available) {
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, blocks * shared / sizeof(PetscScalar), &memory));
    shared = 0;
  }
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, 2, &steps));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &bad));
  PetscCall(MatDenseCUDAGetArrayWrite(transposed, &entries));
  PetscCallCUDA(cudaMemsetAsync(entries, 0, (size_t)csr.n * csr.n * sizeof(*entries), stream));
  config = IDRSClusterConfig(1, (unsigned int)blocks, INVERSE_THREADS, shared, stream, attributes);
  if (blocks == 1) config.numAttrs = 0; /* the GPU has no clusters */
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(cudaLaunchKernelEx(&config, InverseKernel, csr, memory, steps, entries, bad));
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(PetscLogGpuFlops(2.0 * csr.n * csr.n * csr.n));
  PetscCall(CopyToHost(1, bad, &found, stream));
  PetscCall(MatDenseCUDARestoreArrayWrite(transposed, &entries));
  PetscCall(PetscDeviceFree(dctx, bad));
  PetscCall(PetscDeviceFree(dctx, steps));
  PetscCall(PetscDeviceFree(dctx, memory));
  *finite = (PetscBool)!found;
  PetscFunctionReturn(PETSC_SUCCESS);
}
