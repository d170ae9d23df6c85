/*
   Products with several columns on a device: arrays, exchange of entries between processes, and rows with entries outside the
   diagonal block. Each back end has its own kernel for the diagonal block
*/
#include "../../sys/device/memory.h"
#include "../../sys/device/stream.h"
#include "../../vec/is/sf/impls/nccl/sfnccl.h"
#include "../interface/idrsrowscatter.h"
#include "columns.cuh"
#include "messages.cuh"
#include "offdiagonal.h"

/* Sends entries of X to other devices as messages, see halo.h. One thread per number. Reads these entries of X */
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSSendColumnsKernel(IDRSOverlap<true, true> overlap, IDRSColumnArrays given, IDRSSends sends, int k)
{
  const IDRSColumnArrays &arrays = IDRSShareArrays(given);

  overlap.Begin();
  for (size_t g = IDRSFirstRow<1>(); g < (size_t)sends.items * k; g += IDRSRowStride<1>()) {
    const size_t      i = g / k, c = g % k;
    const PetscScalar entry   = arrays.x[c][sends.index[i]];
    const PetscReal   part[2] = {PetscRealPart(entry), PetscImaginaryPart(entry)};

#pragma unroll
    for (int l = 0; l < IDRS_PARTS; l++) IDRSStoreSystem(sends.to[i] + c * IDRS_PARTS + l, IDRSMakeMessage(part[l], sends.number));
  }
}

/* to = the rows of X that other processes need, row-major. Reads these rows of X; writes to */
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSPackColumnsKernel(IDRSOverlap<true, true> overlap, IDRSColumnArrays given, const PetscInt *rows, size_t count, int k,
                        PetscScalar *to)
{
  const IDRSColumnArrays &arrays = IDRSShareArrays(given);

  overlap.Begin();
  /* k adjacent numbers per row */
  for (size_t g = IDRSFirstRow<1>(); g < count * k; g += IDRSRowStride<1>()) to[g] = arrays.x[g % k][rows[g / k]];
}

/* One column of the ghosts, which are an array or messages. A ghost has `numbers` numbers, one per column */
template <typename Ghosts>
struct IDRSGhostColumn {
  Ghosts ghosts;
  int    numbers, column;
};

template <typename Ghosts>
static __device__ __forceinline__ bool IDRSGoesOn(const IDRSGhostColumn<Ghosts> &u, bool left)
{
  return IDRSGoesOn(u.ghosts, left);
}

template <int ATONCE, typename Ghosts>
static __device__ __forceinline__ void IDRSGather(const IDRSGhostColumn<Ghosts> &u, const PetscInt column[ATONCE],
                                                  PetscScalar entry[ATONCE])
{
  PetscInt number[ATONCE];

#pragma unroll
  for (int l = 0; l < ATONCE; l++) number[l] = column[l] < 0 ? -1 : column[l] * u.numbers + u.column;
  IDRSGather<ATONCE>(u.ghosts, number, entry);
}

/*
   Y += A ghosts for the rows of A. A row has `lanes` lanes, one per column. Reads A, the ghosts and these rows of Y; writes these
   rows of Y. The order of a sum is the same as in IDRSOffDiagonalKernel(), so the results have the same bits
*/
template <typename Ghosts>
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSOffDiagonalColumnsKernel(IDRSOverlap<true, true> overlap, IDRSColumnArrays given, IDRSCSR A, const PetscInt *rows, int k,
                               int lanes, Ghosts ghosts, int numbers)
{
  const IDRSColumnArrays       &arrays = IDRSShareArrays(given);
  const int                     c      = threadIdx.x % lanes;
  const IDRSGhostColumn<Ghosts> column = {ghosts, numbers, c};

  overlap.Begin();
  if (c >= k) return;
  for (size_t r = IDRSFirstRow<1>() / lanes; r < (size_t)A.n; r += IDRSRowStride<1>() / lanes) {
    PetscScalar *y = arrays.y[c] + rows[r];

    /* Y_c += A_outside ghosts_c */
    *y += IDRSRowPart<4>(A, column, (IDRSIndex)r, 0, 1);
  }
}

static PetscErrorCode IDRSColumnsMalloc_CUDA(size_t bytes, void *memory)
{
  const char    *why       = NULL;
  PetscLogDouble available = 0.0;

  PetscFunctionBegin;
  PetscCall(IDRSMalloc_CUDA(bytes, memory, &why));
  if (why) PetscCall(IDRSGetFreeMemory_CUDA(&available));
  PetscCheck(!why, PETSC_COMM_SELF, PETSC_ERR_MEM,
             "A product with several columns needs %zu bytes of GPU memory, but only %.0f are free; reduce -ksp_idrs_width", bytes,
             (double)available);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSColumnsScratch_CUDA - Returns memory for X by rows, which is kept until more is needed */
PetscErrorCode IDRSColumnsScratch_CUDA(IDRSProduct product, size_t bytes, PetscScalar **scratch)
{
  IDRSColumns columns = product->columns;

  PetscFunctionBegin;
  if (columns->bytes < bytes) {
    PetscCallCUDA(cudaFree(columns->byrows));
    columns->byrows = NULL;
    columns->bytes  = 0;
    PetscCall(IDRSColumnsMalloc_CUDA(bytes, &columns->byrows));
    columns->bytes = bytes;
  }
  *scratch = columns->byrows;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Begins to send the entries that other processes need, by kernels or by the scatter */
static PetscErrorCode IDRSColumnsSend_CUDA(IDRSProduct product, const IDRSColumnsLaunch *launch)
{
  const IDRSRowScatter rowscatter = product->rowscatter;
  IDRSColumns          columns    = product->columns;
  const int            k          = (int)launch->k;
  PetscBool            nccl, already;
  IDRSSends            sends;

  PetscFunctionBegin;
  if (product->halo) {
    PetscCall(IDRSHaloNext(product->offdiagonal->wide, &sends));
    PetscCall(PetscLogGpuTimeBegin());
    (void)IDRSLaunchResident<IDRSSendColumnsKernel>(launch->multiprocessors,
                                                    ((size_t)sends.items * k + IDRS_THREADS - 1) / IDRS_THREADS, 0, true,
                                                    launch->stream, launch->arrays, sends, k);
    PetscCallCUDA(cudaGetLastError());
    PetscCall(PetscLogGpuTimeEnd());
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (!columns->rows) { /* copies the numbers of the rows to send to the device */
    PetscCall(IDRSScatterIsNCCL(product->offdiagonal->scatter, &nccl));
    PetscCall(IDRSScatterIsNCCL(rowscatter->sf, &already));
    if (nccl && !already) PetscCall(PetscSFSetType(rowscatter->sf, PETSCSFNCCL));
    PetscCall(IDRSColumnsMalloc_CUDA(rowscatter->count * sizeof(PetscInt), &columns->rows));
    PetscCallCUDA(cudaMemcpy(columns->rows, rowscatter->rows, rowscatter->count * sizeof(PetscInt), cudaMemcpyHostToDevice));
  }
  if (columns->width < k) {
    PetscCallCUDA(cudaFree(columns->sent));
    PetscCallCUDA(cudaFree(columns->ghosts));
    columns->sent = columns->ghosts = NULL;
    columns->width                  = 0;
    PetscCall(IDRSColumnsMalloc_CUDA((size_t)rowscatter->count * k * sizeof(PetscScalar), &columns->sent));
    PetscCall(IDRSColumnsMalloc_CUDA((size_t)rowscatter->nghosts * k * sizeof(PetscScalar), &columns->ghosts));
    columns->width = k;
  }
  PetscCall(PetscLogGpuTimeBegin());
  (void)IDRSLaunchResident<IDRSPackColumnsKernel>(launch->multiprocessors,
                                                  ((size_t)rowscatter->count * k + IDRS_THREADS - 1) / IDRS_THREADS, 0, true,
                                                  launch->stream, launch->arrays, (const PetscInt *)columns->rows,
                                                  (size_t)rowscatter->count, k, columns->sent);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(IDRSStreamJoin_CUDA());
  PetscCall(IDRSRowScatterBegin(rowscatter, launch->k, columns->sent, columns->ghosts));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSColumnsBegin_CUDA - Gets the arrays, and begins to send entries of X if there are several processes */
PetscErrorCode IDRSColumnsBegin_CUDA(IDRSProduct product, PetscInt k, Vec X[], Vec Y[], IDRSColumnsLaunch *launch)
{
  int device;

  PetscFunctionBegin;
  *launch   = {};
  launch->k = k;
  PetscCall(IDRSStream_CUDA(&launch->stream));
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&launch->multiprocessors, cudaDevAttrMultiProcessorCount, device));
  if (!product->columns) PetscCall(PetscNew(&product->columns));
  for (PetscInt c = 0; c < k; c++) {
    PetscCall(VecGetArrayReadAndMemType(X[c], &launch->arrays.x[c], NULL));
    PetscCall(VecGetArrayWriteAndMemType(Y[c], &launch->arrays.y[c], NULL));
  }
  for (PetscInt c = k; c < IDRS_MAX_WIDTH; c++) { /* a kernel for more than k columns computes the last one again */
    launch->arrays.x[c] = launch->arrays.x[k - 1];
    launch->arrays.y[c] = launch->arrays.y[k - 1];
  }
  /* the exchange overlaps with the product of the diagonal block */
  if (product->rowscatter) PetscCall(IDRSColumnsSend_CUDA(product, launch));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Launches the second kernel with at most `most` blocks */
template <typename Ghosts>
static PetscErrorCode IDRSColumnsFinish_CUDA(IDRSOffDiagonal off, const IDRSColumnsLaunch *launch, size_t most, Ghosts ghosts,
                                             int numbers)
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
                                                                 numbers);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSColumnsEnd_CUDA - Finishes the rows with entries outside the diagonal block */
PetscErrorCode IDRSColumnsEnd_CUDA(IDRSProduct product, Vec X[], Vec Y[], IDRSColumnsLaunch *launch)
{
  const IDRSOffDiagonal off = product->offdiagonal;
  const PetscInt        k   = launch->k;

  PetscFunctionBegin;
  if (product->rowscatter && product->halo)
    PetscCall(IDRSColumnsFinish_CUDA(off, launch, IDRSWaitingBlocks(), IDRSHaloGetGhosts(off->wide), IDRS_MAX_WIDTH));
  else if (product->rowscatter) {
    PetscCall(IDRSRowScatterEnd(product->rowscatter, k, product->columns->sent, product->columns->ghosts));
    PetscCall(IDRSStreamJoin_CUDA());
    PetscCall(IDRSColumnsFinish_CUDA(off, launch, SIZE_MAX, (const PetscScalar *)product->columns->ghosts, (int)k));
  }
  for (PetscInt c = 0; c < k; c++) {
    PetscCall(VecRestoreArrayReadAndMemType(X[c], &launch->arrays.x[c]));
    PetscCall(VecRestoreArrayWriteAndMemType(Y[c], &launch->arrays.y[c]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSColumnsReset_CUDA(IDRSColumns *columns)
{
  PetscFunctionBegin;
  if (*columns) {
    PetscCallCUDA(cudaFree((*columns)->rows));
    PetscCallCUDA(cudaFree((*columns)->sent));
    PetscCallCUDA(cudaFree((*columns)->ghosts));
    PetscCallCUDA(cudaFree((*columns)->byrows));
  }
  PetscCall(PetscFree(*columns));
  PetscFunctionReturn(PETSC_SUCCESS);
}
