/*
   Products with several columns on a device: arrays, the entries that travel between the processes, and the rows that need some of
   them. The kernel of the diagonal block is the back end's own
*/
#include "../../sys/device/memory.h"
#include "../../sys/device/stream.h"
#include "../../vec/is/sf/impls/nccl/sfnccl.h"
#include "../interface/idrsrowscatter.h"
#include "columns.cuh"
#include "offdiagonal.h"

/* to = those rows of X, by rows. Reads X there; writes to */
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSPackColumnsKernel(IDRSOverlap<true, true> overlap, IDRSColumnArrays given, const PetscInt *rows, size_t count, int k,
                        PetscScalar *to)
{
  const IDRSColumnArrays &arrays = IDRSShareArrays(given);

  overlap.Begin();
  /* k numbers of a row, side by side */
  for (size_t g = IDRSFirstRow<1>(); g < count * k; g += IDRSRowStride<1>()) to[g] = arrays.x[g % k][rows[g / k]];
}

/* Y += A ghosts for the rows of A: some lanes a row, a lane a column. Reads A, the ghosts, and Y in these rows; writes Y there */
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSOffDiagonalColumnsKernel(IDRSOverlap<true, true> overlap, IDRSColumnArrays given, IDRSCSR A, const PetscInt *rows, int k,
                               int lanes, const PetscScalar *ghosts)
{
  const IDRSColumnArrays &arrays = IDRSShareArrays(given);
  const int               c      = threadIdx.x % lanes;

  overlap.Begin();
  if (c >= k) return;
  for (size_t r = IDRSFirstRow<1>() / lanes; r < (size_t)A.n; r += IDRSRowStride<1>() / lanes) {
    PetscScalar sum = 0.0;

#pragma unroll 4
    for (IDRSIndex p = A.i[r]; p < (IDRSIndex)A.i[r + 1]; p++) sum += A.a[p] * ghosts[(size_t)A.j[p] * k + c];
    /* Y_c += A_outside ghosts_c */
    arrays.y[c][rows[r]] += sum;
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
             "A product with several columns needs %zu bytes of the GPU, of which %.0f are free", bytes, (double)available);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSColumnsScratch_CUDA - Memory for X by rows, which stays until more is needed */
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

/* Which rows travel, and memory for k entries of each */
static PetscErrorCode IDRSColumnsTravel_CUDA(IDRSProduct product, PetscInt k)
{
  const IDRSRowScatter rowscatter = product->rowscatter;
  IDRSColumns          columns    = product->columns;
  PetscBool            nccl, already;

  PetscFunctionBegin;
  if (!columns->rows) {
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
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSColumnsBegin_CUDA - The arrays; entries of X set out for other processes, from one process on */
PetscErrorCode IDRSColumnsBegin_CUDA(IDRSProduct product, PetscInt k, Vec X[], Vec Y[], IDRSColumnsLaunch *launch)
{
  const IDRSRowScatter rowscatter = product->rowscatter;
  int                  device;

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
  /* the rows that other processes need are on their way while the diagonal block is multiplied */
  if (rowscatter) {
    PetscCall(IDRSColumnsTravel_CUDA(product, k));
    PetscCall(PetscLogGpuTimeBegin());
    (void)IDRSLaunchResident<IDRSPackColumnsKernel>(launch->multiprocessors,
                                                    ((size_t)rowscatter->count * k + IDRS_THREADS - 1) / IDRS_THREADS, 0, true,
                                                    launch->stream, launch->arrays, (const PetscInt *)product->columns->rows,
                                                    (size_t)rowscatter->count, (int)k, product->columns->sent);
    PetscCallCUDA(cudaGetLastError());
    PetscCall(PetscLogGpuTimeEnd());
    PetscCall(IDRSStreamJoin_CUDA());
    PetscCall(IDRSRowScatterBegin(rowscatter, k, PETSC_MEMTYPE_CUDA, product->columns->sent, product->columns->ghosts));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSColumnsEnd_CUDA - Finishes the rows with entries outside the diagonal block */
PetscErrorCode IDRSColumnsEnd_CUDA(IDRSProduct product, Vec X[], Vec Y[], IDRSColumnsLaunch *launch)
{
  const PetscInt k     = launch->k;
  int            lanes = 1;

  PetscFunctionBegin;
  if (product->rowscatter) {
    const IDRSOffDiagonal off = product->offdiagonal;

    while (lanes < k) lanes *= 2;
    PetscCall(IDRSRowScatterEnd(product->rowscatter, k, product->columns->sent, product->columns->ghosts));
    PetscCall(IDRSStreamJoin_CUDA());
    PetscCall(PetscLogGpuTimeBegin());
    if (off->some.A.n)
      (void)IDRSLaunchResident<IDRSOffDiagonalColumnsKernel>(launch->multiprocessors,
                                                             ((size_t)off->some.A.n * lanes + IDRS_THREADS - 1) / IDRS_THREADS, 0,
                                                             true, launch->stream, launch->arrays, off->some.A,
                                                             (const PetscInt *)off->some.rows, (int)k, lanes,
                                                             (const PetscScalar *)product->columns->ghosts);
    PetscCallCUDA(cudaGetLastError());
    PetscCall(PetscLogGpuTimeEnd());
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
    PetscCall(IDRSTileIndexDestroy(&(*columns)->blocks));
  }
  PetscCall(PetscFree(*columns));
  PetscFunctionReturn(PETSC_SUCCESS);
}
