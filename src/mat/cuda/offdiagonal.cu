/*
   The block of the matrix outside the diagonal one: the rows that have entries there, the scatter, and the kernel that finishes these rows of a product with
   its projection
*/
#include <cub/device/device_select.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <petscsf.h>
#include "../../vec/cuda/project.cuh"
#include "sliced.cuh"
#include "offdiagonal.h"
#include "rowsum.cuh"

/* Finishes x and the sums: a thread a row, as there are few entries in most of them. Reads the entries of A, u, x and y in these rows; writes x */
template <int S, bool Y, bool HASHED>
static __global__ void __launch_bounds__(IDRS_THREADS, IDRSBlocksAtOnce(Y ? 2 * S : S)) IDRSOffDiagonalKernel(IDRSOverlap<true, true> overlap, IDRSCSR A, const PetscInt *rows, size_t count, IDRSShadow<S> P, const PetscScalar *ghosts, PetscScalar *x, const PetscScalar *y, IDRSSums out, IDRSAlgebra algebra)
{
  IDRSDots<S, Y> dots;
  bool           stopped;

  overlap.Begin();
  stopped = IDRSProjectBegin<S>(P, algebra);
  IDRSDotsClear(dots);
  for (size_t place = IDRSFirstRow<1>(); place < count; place += IDRSRowStride<1>()) {
    const PetscInt i = rows[place];
    IDRSPack<1>    xi, yi = IDRSZero<1>();

    if (Y) yi.v[0] = y[i];
    xi.v[0] = x[i] + IDRSRowPart<4>(A, ghosts, i, 0, 1);
    x[i]    = xi.v[0];
    IDRSDotsAdd<S, 1, Y, HASHED>(dots, P, i, A.n, xi, yi);
  }
  if (!stopped) IDRSProjectEnd<S, Y, HASHED>(dots, P, out, algebra);
}

/* The bits of 32 places, by a warp */
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSUnfinishedKernel(IDRSCSR A, const uint16_t *perm, uint32_t *unfinished)
{
  const uint32_t place = (uint32_t)IDRSFirstRow<1>(), row = IDRSSlicedRow(perm, place, (uint32_t)A.n);
  const uint32_t bits = __ballot_sync(IDRS_ALL_LANES, row < A.n && A.i[row + 1] > A.i[row]);

  if (place % IDRS_WARP == 0 && place < A.n) unfinished[place / IDRS_WARP] = bits;
}

struct IDRSHasEntries {
  const IDRSMatIndex *i;

  __device__ __forceinline__ bool operator()(PetscInt row) const { return i[row + 1] > i[row]; }
};

/* The rows with entries, on the device; the host waits */
static PetscErrorCode IDRSOffDiagonalRows(IDRSOffDiagonal off, cudaStream_t stream)
{
  const auto           all   = thrust::counting_iterator<PetscInt>(0);
  const IDRSHasEntries has   = {off->A.i};
  size_t               bytes = 0;
  void                *work;
  PetscInt            *count;

  PetscFunctionBegin;
  PetscCallCUDA(cudaMalloc((void **)&off->rows, (size_t)PetscMax(off->A.n, 1) * sizeof(PetscInt)));
  PetscCallCUDA(cudaMalloc((void **)&count, sizeof(*count)));
  PetscCallCUDA(cub::DeviceSelect::If(NULL, bytes, all, off->rows, count, off->A.n, has, stream));
  PetscCallCUDA(cudaMalloc(&work, PetscMax(bytes, 1)));
  PetscCallCUDA(cub::DeviceSelect::If(work, bytes, all, off->rows, count, off->A.n, has, stream));
  PetscCallCUDA(cudaMemcpyAsync(&off->count, count, sizeof(*count), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscCallCUDA(cudaFree(work));
  PetscCallCUDA(cudaFree(count));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSOffDiagonalSetUp - Takes the block of the matrix, if it has one; perm as in sliced.cuh */
PetscErrorCode IDRSOffDiagonalSetUp(Mat A, const uint16_t perm[], IDRSOffDiagonal *newoff)
{
  IDRSOffDiagonal off = *newoff;
  cudaStream_t    stream;
  Mat             block;

  PetscFunctionBegin;
  PetscCall(IDRSGetBlocks(A, NULL, &block));
  if (!block) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStream_CUDA(&stream));
  if (!off) {
    PetscCall(PetscNew(&off));
    *newoff = off;
    PetscCall(IDRSGetCSR(block, &off->A));
    PetscCall(MatCreateVecs(block, &off->ghosts, NULL));
    PetscCall(IDRSMatGetScatter(A, &off->scatter));
    PetscCall(PetscObjectReference((PetscObject)off->scatter));
    PetscCall(IDRSOffDiagonalRows(off, stream));
    PetscCallCUDA(cudaMalloc((void **)&off->unfinished, ((size_t)off->A.n / IDRS_WARP + 1) * sizeof(uint32_t)));
    if (off->A.n) {
      IDRSUnfinishedKernel<<<(unsigned int)((off->A.n + IDRS_THREADS - 1) / IDRS_THREADS), IDRS_THREADS, 0, stream>>>(off->A, perm, off->unfinished);
      PetscCallCUDA(cudaGetLastError());
    }
  }
  PetscCall(IDRSGetCSR(block, &off->A)); /* its values may have moved */
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSOffDiagonalReset(IDRSOffDiagonal *off)
{
  PetscFunctionBegin;
  if (*off) {
    PetscCallCUDA(cudaFree((*off)->rows));
    PetscCallCUDA(cudaFree((*off)->unfinished));
    PetscCall(VecDestroy(&(*off)->ghosts));
    PetscCall(PetscSFDestroy(&(*off)->scatter));
  }
  PetscCall(PetscFree(*off));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSOffDiagonalBegin - Entries of u set out for other processes, from one process on */
PetscErrorCode IDRSOffDiagonalBegin(IDRSOffDiagonal off, Vec u)
{
  PetscFunctionBegin;
  if (off) PetscCall(VecScatterBegin(off->scatter, u, off->ghosts, INSERT_VALUES, SCATTER_FORWARD));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSOffDiagonalEnd - Finishes the rows that the first kernel, of so many blocks, has left out; nothing on one process */
PetscErrorCode IDRSOffDiagonalEnd(IDRSOffDiagonal off, const IDRSProjection *projection, unsigned int blocks)
{
  const PetscScalar *ghosts;
  IDRSSums           out = projection->out;

  PetscFunctionBegin;
  if (!off) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecScatterEnd(off->scatter, projection->operand, off->ghosts, INSERT_VALUES, SCATTER_FORWARD));
  out.partials.earlier  = blocks;
  out.partials.messages = out.partials.second;
  out.partials.second   = projection->out.partials.messages;
  out.ends              = true;
  PetscCall(IDRSGetArrayRead_CUDA(off->ghosts, &ghosts));
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(IDRSDispatchProjection(*projection, [&](auto S, auto Y, auto HASHED, const auto &shadow) {
    (void)IDRSLaunchResident<IDRSOffDiagonalKernel<S, Y, HASHED>>(projection->cuda->multiprocessors, ((size_t)off->count + IDRS_THREADS - 1) / IDRS_THREADS, 0, true, projection->stream, off->A, (const PetscInt *)off->rows, (size_t)off->count, shadow, ghosts,
                                                                  projection->x, projection->y, out, projection->algebra);
  }));
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(VecRestoreArrayReadAndMemType(off->ghosts, &ghosts));
  PetscFunctionReturn(PETSC_SUCCESS);
}
