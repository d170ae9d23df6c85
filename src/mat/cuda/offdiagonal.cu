/*
   The block outside the diagonal block: the rows that have entries there, the scatter, and the kernel that completes these rows and
   their part of the projection
*/
#include "../../sys/device/device.h"
#include "offdiagonal.cuh"

/*
   Completes x and the sums. One thread per row, because most rows have few entries here. ghosts: an array, or messages. Reads A,
   and u, x and y in these rows; writes x
*/
template <int S, bool Y, typename Ghosts>
static __global__ void __launch_bounds__(IDRS_THREADS, IDRSBlocksAtOnce(Y ? 2 * S : S))
  IDRSOffDiagonalKernel(IDRSOverlap<true, true> overlap, IDRSCSR A, const PetscInt *rows, IDRSShadow<S> P, Ghosts ghosts,
                        PetscScalar *x, const PetscScalar *y, IDRSSums out, IDRSAlgebra algebra)
{
  IDRSDots<S, Y> dots;
  bool           stopped;

  overlap.Begin();
  stopped = IDRSProjectBegin<S>(P, algebra);
  IDRSDotsClear(dots);
  for (size_t k = IDRSFirstRow<1>(); k < A.n; k += IDRSRowStride<1>()) {
    const PetscInt i = rows[k];
    IDRSPack<1>    xi, yi = IDRSZero<1>();

    if (Y) yi.v[0] = y[i];
    /* x_i += (A_outside ghosts)_i */
    xi.v[0] = x[i] + IDRSRowPart<4>(A, ghosts, (IDRSIndex)k, 0, 1);
    x[i]    = xi.v[0];
    /* the inner products that the first kernel has left out */
    IDRSDotsAdd<S, 1, Y>(dots, P, i, xi, yi);
  }
  if (!stopped) IDRSProjectEnd<S, Y>(dots, P, out, algebra);
}

/* Sets the bits of 32 rows, one warp per word */
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSUnfinishedKernel(IDRSCSR A, const uint16_t *perm, uint32_t *places)
{
  const uint32_t place = (uint32_t)IDRSFirstRow<1>(), row = IDRSSortedRow(perm, place, (uint32_t)A.n);
  const uint32_t bits = __ballot_sync(IDRS_ALL_LANES, row < A.n && A.i[row + 1] > A.i[row]);

  if (place % IDRS_WARP == 0 && place < A.n) places[place / IDRS_WARP] = bits;
}

/*
   IDRSOffDiagonalSetUp - Copies the block of the matrix if there is one, or updates its values. perm: as in sell.cuh. inverse:
   the diagonal of D^{-1} if the entries belong to D^{-1}A. why: NULL, or that the memory of the GPU is too small
*/
PetscErrorCode IDRSOffDiagonalSetUp(Mat A, const uint16_t perm[], const PetscScalar *inverse, IDRSOffDiagonal *newoff,
                                    const char *why[])
{
  IDRSOffDiagonal off    = *newoff;
  IDRSSource      source = {};
  IDRSRowLengths  lengths;
  cudaStream_t    stream;
  Mat             block;

  PetscFunctionBegin;
  PetscCall(IDRSRowsGetBlocks(A, NULL, &block, NULL));
  if (!block) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSGetCSR(block, &source.A));
  source.inverse = inverse;
  source.scale   = 1.0;
  if (!off) {
    PetscCall(PetscNew(&off));
    *newoff = off;
    off->n  = source.A.n;
    PetscCall(MatCreateVecs(block, &off->ghosts, NULL));
    PetscCall(IDRSMatGetScatter(A, &off->scatter));
    PetscCall(PetscObjectReference((PetscObject)off->scatter));
    PetscCall(IDRSGetRowLengths(&source.A, 0, &lengths));
    PetscCall(IDRSCompressedRowsSelect(&source.A, 0, &lengths, &off->some, stream, why));
    if (!*why) PetscCall(IDRSMalloc_CUDA(((size_t)off->n / IDRS_WARP + 1) * sizeof(uint32_t), &off->places, why));
    if (*why) PetscFunctionReturn(PETSC_SUCCESS);
    if (off->n) {
      IDRSUnfinishedKernel<<<(unsigned int)((off->n + IDRS_THREADS - 1) / IDRS_THREADS), IDRS_THREADS, 0, stream>>>(source.A, perm,
                                                                                                                    off->places);
      PetscCallCUDA(cudaGetLastError());
    }
  }
  off->boundary.places = off->places;
  off->boundary.i      = source.A.i;
  PetscCall(IDRSCompressedRowsFill(&source, &off->some, stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSOffDiagonalReset(IDRSOffDiagonal *off)
{
  PetscFunctionBegin;
  if (*off) {
    PetscCall(IDRSCompressedRowsDestroy(&(*off)->some));
    PetscCallCUDA(cudaFree((*off)->places));
    PetscCallCUDA(cudaFree((*off)->columns));
    PetscCall(VecDestroy(&(*off)->ghosts));
    PetscCall(PetscSFDestroy(&(*off)->scatter));
    PetscCall(IDRSHaloDestroy(&(*off)->halo));
    PetscCall(IDRSHaloDestroy(&(*off)->wide));
  }
  PetscCall(PetscFree(*off));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSOffDiagonalConnect - Creates the halo that kernels of projections, or of products with up to `width` columns, exchange,
   unless it exists. *connected is the same on all processes: PETSC_TRUE if the halo exists. off may be NULL on some processes.
   Collective, between processes that IDRSPeersConnect() has connected
*/
PetscErrorCode IDRSOffDiagonalConnect(IDRSOffDiagonal off, MPI_Comm comm, PetscInt width, PetscBool *connected)
{
  IDRSHalo   *halo      = off ? (width > 1 ? &off->wide : &off->halo) : NULL;
  PetscMPIInt states[2] = {off ? 0 : 1, off && IDRSHaloIsValid(*halo) ? 0 : 1};
  PetscInt    ghosts;

  PetscFunctionBegin;
  IDRSCallAllreduce(MPI_IN_PLACE, states, 2, MPI_INT, MPI_MAX, comm);
  if (!states[0] && states[1]) {
    PetscCall(IDRSHaloDestroy(halo));
    PetscCall(VecGetLocalSize(off->ghosts, &ghosts));
    PetscCall(IDRSHaloCreate(comm, off->scatter, ghosts, width, halo));
  }
  *connected = !states[0] && *halo ? PETSC_TRUE : PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSOffDiagonalBegin - Begins to send entries of u if there are several processes: by the scatter, or by the first kernel, which
   uses boundary
*/
PetscErrorCode IDRSOffDiagonalBegin(IDRSOffDiagonal off, Vec u, bool halo, IDRSBoundary *boundary)
{
  PetscFunctionBegin;
  *boundary = off ? off->boundary : IDRSBoundary();
  if (off && halo) PetscCall(IDRSHaloNext(off->halo, &boundary->sends));
  else if (off) PetscCall(VecScatterBegin(off->scatter, u, off->ghosts, INSERT_VALUES, SCATTER_FORWARD));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Launches the second kernel with at most `most` blocks */
template <typename Ghosts>
static PetscErrorCode IDRSOffDiagonalLaunch(IDRSOffDiagonal off, const IDRSProjection *projection, const IDRSSums &out, size_t most,
                                            Ghosts ghosts)
{
  const size_t enough = ((size_t)off->some.A.n + IDRS_THREADS - 1) / IDRS_THREADS;

  PetscFunctionBegin;
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(IDRSDispatchProjection(*projection, [&](auto S, auto Y, const auto &shadow) {
    (void)IDRSLaunchResident<IDRSOffDiagonalKernel<S, Y, Ghosts>>(projection->multiprocessors, PetscMin(enough, most), 0, true,
                                                                  projection->stream, off->some.A, (const PetscInt *)off->some.rows,
                                                                  shadow, ghosts, projection->x, projection->y, out,
                                                                  projection->algebra);
  }));
  PetscCall(PetscLogGpuTimeEnd());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSOffDiagonalEnd - Completes the rows that the first kernel, with `blocks` blocks, has left out. Does nothing on one process */
PetscErrorCode IDRSOffDiagonalEnd(IDRSOffDiagonal off, const IDRSProjection *projection, unsigned int blocks)
{
  const PetscScalar *ghosts;
  IDRSSums           out = projection->out;

  PetscFunctionBegin;
  if (!off) PetscFunctionReturn(PETSC_SUCCESS);
  /* the second kernel adds the sums of the first one to its own */
  out.partials.earlier  = blocks;
  out.partials.messages = out.partials.second;
  out.partials.second   = projection->out.partials.messages;
  out.ends              = true;
  if (projection->halo) PetscCall(IDRSOffDiagonalLaunch(off, projection, out, IDRSWaitingBlocks(), IDRSHaloGetGhosts(off->halo)));
  else {
    PetscCall(VecScatterEnd(off->scatter, projection->operand, off->ghosts, INSERT_VALUES, SCATTER_FORWARD));
    PetscCall(IDRSGetArrayRead_CUDA(off->ghosts, &ghosts));
    PetscCall(IDRSOffDiagonalLaunch(off, projection, out, SIZE_MAX, ghosts));
    PetscCall(VecRestoreArrayReadAndMemType(off->ghosts, &ghosts));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
