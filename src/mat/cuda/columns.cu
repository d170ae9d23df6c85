/*
   Products with several columns on a device: arrays, exchange of entries between processes, and rows with entries outside the
   diagonal block. Each back end has its own kernel for the diagonal block
*/
#include "../../sys/device/device.h"
#include "columns.cuh"
#include "offdiagonal.cuh"

/* Sends entries of X to other devices as messages, see halo.cuh. One thread per number. Reads these entries of X */
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSSendColumnsKernel(IDRSOverlap<true, true> overlap, IDRSColumnArrays given, IDRSSends sends, int k)
{
  const IDRSColumnArrays &arrays = IDRSShareArrays(given);

  overlap.Begin();
  for (size_t g = IDRSFirstRow<1>(); g < (size_t)sends.items * k; g += IDRSRowStride<1>())
    IDRSSendEntry(sends, g / k, g % k, arrays.x[g % k][sends.index[g / k]]);
}

/* Return the ghosts of a column: an array of its own, or one of the numbers of each message */
static __device__ __forceinline__ const PetscScalar *IDRSGhostsOfColumn(const PetscScalar *ghosts, int column, size_t stride)
{
  return ghosts + column * stride;
}

static __device__ __forceinline__ IDRSGhosts IDRSGhostsOfColumn(IDRSGhosts ghosts, int column, size_t)
{
  ghosts.messages += column * IDRS_PARTS;
  return ghosts;
}

/*
   Y += A ghosts for the rows of A. A row has `lanes` lanes, one per column. Reads A, the ghosts and these rows of Y; writes these
   rows of Y. The order of a sum is the same as in IDRSOffDiagonalKernel(), so the results have the same bits
*/
template <typename Ghosts>
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSOffDiagonalColumnsKernel(IDRSOverlap<true, true> overlap, IDRSColumnArrays given, IDRSCSR A, const PetscInt *rows, int k,
                               int lanes, Ghosts ghosts, size_t stride)
{
  const IDRSColumnArrays &arrays = IDRSShareArrays(given);
  const int               c      = threadIdx.x % lanes;
  const Ghosts            column = IDRSGhostsOfColumn(ghosts, c, stride);

  overlap.Begin();
  if (c >= k) return;
  /* Y_c += A_outside ghosts_c */
  for (size_t r = IDRSFirstRow<1>() / lanes; r < (size_t)A.n; r += IDRSRowStride<1>() / lanes)
    arrays.y[c][rows[r]] += IDRSRowPart<4>(A, column, (IDRSIndex)r, 0, 1);
}

/* IDRSColumnsMalloc_CUDA - Replaces memory of *held bytes by uninitialized memory of `bytes` bytes, unless it is large enough */
PetscErrorCode IDRSColumnsMalloc_CUDA(size_t bytes, size_t *held, PetscScalar **memory)
{
  const char    *why       = NULL;
  PetscLogDouble available = 0.0;

  PetscFunctionBegin;
  if (*memory && *held >= bytes) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCallCUDA(cudaFree(*memory));
  *memory = NULL;
  PetscCall(IDRSMalloc_CUDA(bytes, memory, &why));
  if (why) PetscCall(IDRSGetFreeMemory_CUDA(&available));
  PetscCheck(!why, PETSC_COMM_SELF, PETSC_ERR_MEM,
             "A product with several columns needs %zu bytes of GPU memory, but only %.0f are free; reduce -ksp_idrs_width", bytes,
             (double)available);
  *held = bytes;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the distance between the ghosts of two columns. Each column has an address of its own, because PetscSF requires it */
static PetscErrorCode IDRSColumnsGetStride(IDRSOffDiagonal off, size_t *stride)
{
  PetscInt n;

  PetscFunctionBegin;
  PetscCall(VecGetLocalSize(off->ghosts, &n));
  *stride = (size_t)PetscMax(n, 1);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSColumnsBegin_CUDA - Gets the arrays, and begins to send entries of X if there are several processes */
PetscErrorCode IDRSColumnsBegin_CUDA(IDRSProduct product, PetscInt k, Vec X[], Vec Y[], IDRSColumnsLaunch *launch)
{
  const IDRSOffDiagonal off = product->offdiagonal;
  IDRSSends             sends;
  size_t                stride = 0;
  int                   device;

  PetscFunctionBegin;
  *launch   = {};
  launch->k = k;
  PetscCall(IDRSStream_CUDA(&launch->stream));
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&launch->multiprocessors, cudaDevAttrMultiProcessorCount, device));
  for (PetscInt c = 0; c < k; c++) {
    PetscCall(VecGetArrayReadAndMemType(X[c], &launch->arrays.x[c], NULL));
    PetscCall(VecGetArrayWriteAndMemType(Y[c], &launch->arrays.y[c], NULL));
  }
  for (PetscInt c = k; c < IDRS_MAX_WIDTH; c++) { /* a kernel for more than k columns computes the last one again */
    launch->arrays.x[c] = launch->arrays.x[k - 1];
    launch->arrays.y[c] = launch->arrays.y[k - 1];
  }
  if (!off) PetscFunctionReturn(PETSC_SUCCESS);

  /* the exchange, by a kernel or by the scatter of the matrix, overlaps with the product of the diagonal block */
  if (product->halo) {
    PetscCall(IDRSHaloNext(off->wide, &sends));
    PetscCall(PetscLogGpuTimeBegin());
    (void)IDRSLaunchResident<IDRSSendColumnsKernel>(launch->multiprocessors,
                                                    ((size_t)sends.items * k + IDRS_THREADS - 1) / IDRS_THREADS, 0, true,
                                                    launch->stream, launch->arrays, sends, (int)k);
    PetscCallCUDA(cudaGetLastError());
    PetscCall(PetscLogGpuTimeEnd());
  } else {
    PetscCall(IDRSColumnsGetStride(off, &stride));
    PetscCall(IDRSColumnsMalloc_CUDA(stride * k * sizeof(PetscScalar), &off->bytes, &off->columns));
    PetscCall(IDRSStreamJoin_CUDA());
    for (PetscInt c = 0; c < k; c++)
      PetscCall(PetscSFBcastWithMemTypeBegin(off->scatter, MPIU_SCALAR, PETSC_MEMTYPE_CUDA, launch->arrays.x[c], PETSC_MEMTYPE_CUDA,
                                             off->columns + c * stride, MPI_REPLACE));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Launches the second kernel with at most `most` blocks */
template <typename Ghosts>
static PetscErrorCode IDRSColumnsFinish_CUDA(IDRSOffDiagonal off, const IDRSColumnsLaunch *launch, size_t most, Ghosts ghosts,
                                             size_t stride)
{
  int    lanes = 1;
  size_t enough;

  PetscFunctionBegin;
  if (!off->some.A.n) PetscFunctionReturn(PETSC_SUCCESS);
  while (lanes < launch->k) lanes *= 2;
  enough = ((size_t)off->some.A.n * lanes + IDRS_THREADS - 1) / IDRS_THREADS;
  PetscCall(PetscLogGpuTimeBegin());
  (void)IDRSLaunchResident<IDRSOffDiagonalColumnsKernel<Ghosts>>(launch->multiprocessors, PetscMin(enough, most), 0, true,
                                                                 launch->stream, launch->arrays, off->some.A,
                                                                 (const PetscInt *)off->some.rows, (int)launch->k, lanes, ghosts,
                                                                 stride);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSColumnsEnd_CUDA - Finishes the rows with entries outside the diagonal block */
PetscErrorCode IDRSColumnsEnd_CUDA(IDRSProduct product, Vec X[], Vec Y[], IDRSColumnsLaunch *launch)
{
  const IDRSOffDiagonal off    = product->offdiagonal;
  size_t                stride = 0;

  PetscFunctionBegin;
  if (off && product->halo) PetscCall(IDRSColumnsFinish_CUDA(off, launch, IDRSWaitingBlocks(), IDRSHaloGetGhosts(off->wide), 0));
  else if (off) {
    PetscCall(IDRSColumnsGetStride(off, &stride));
    for (PetscInt c = 0; c < launch->k; c++)
      PetscCall(PetscSFBcastEnd(off->scatter, MPIU_SCALAR, launch->arrays.x[c], off->columns + c * stride, MPI_REPLACE));
    PetscCall(IDRSStreamJoin_CUDA());
    PetscCall(IDRSColumnsFinish_CUDA(off, launch, SIZE_MAX, (const PetscScalar *)off->columns, stride));
  }
  for (PetscInt c = 0; c < launch->k; c++) {
    PetscCall(VecRestoreArrayReadAndMemType(X[c], &launch->arrays.x[c]));
    PetscCall(VecRestoreArrayWriteAndMemType(Y[c], &launch->arrays.y[c]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
