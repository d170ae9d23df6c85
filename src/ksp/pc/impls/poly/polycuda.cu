/*
   The copy of D^{-1}A in the memory of the GPU, with the vector operations of a factor in the same kernel:

     y = d (alpha u + beta D^{-1}A z)

   It is in the format of src/mat/cuda/sliced.cuh, with two rows a lane; values in half precision take 2 bytes, in single precision
   4, each twice as many for complex numbers. Vectors stay in the precision of PetscScalar: so p(A) is linear, and its matrix is
   perturbed, which costs hardly any iterations; if vectors were rounded it would not be linear, and IDR(s) would take up to several
   times the iterations.

   - The diagonal of D^{-1}A is 1 where all rows are scaled, and is not stored.
   - There are no columns where the entries of each slot are as far from the diagonal, as those of stencils are.
   - Values are multiplied by a power of two, so that the largest is near the end of the range, and small ones keep their digits.
   - On several processes the slices have the entries of the diagonal block. The others are in double precision, and added once
     their part of z has come.
   - So are long rows, which are in no slice.
*/
#include "../../../../sys/device/memory.h"
#include "../../../../sys/kernels/launch.cuh"
#include "../../../../mat/cuda/messages.cuh"
#include "../../../../mat/cuda/offdiagonal.h"
#include "../../../../mat/cuda/ring.cuh"
#include "../../../../sys/kernels/rowsum.cuh"
#include "../../../../mat/cuda/slicedcopy.cuh"
#include "polycopy.h"
#include "polyouter.cuh"
#include "polyscale.cuh"

typedef struct {
  IDRSSlicedCopy  sliced;
  bool            columns, unit;
  PetscReal       scale; /* of the values */
  int             multiprocessors;
  IDRSOffDiagonal off;  /* what is on other processes */
  bool            halo; /* entries of z come inside the kernels */
} PCPolyCUDA;

/* Calls launch with the form of the slots */
template <typename L>
static PetscErrorCode PCPolyDispatch(PCPolyPrecision precision, bool columns, L &&launch)
{
  auto choose = [&](auto value) {
    typedef decltype(value) Value;

    return columns ? launch(IDRSForm<Value, 2, true>()) : launch(IDRSForm<Value, 2, false>());
  };

  PetscFunctionBegin;
  if (precision == PC_POLY_PRECISION_HALF) PetscCall(choose(IDRSNarrow<__half>()));
  else if (precision == PC_POLY_PRECISION_SINGLE) PetscCall(choose(IDRSNarrow<float>()));
  else PetscCall(choose(PetscScalar()));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   largest = max |entry| of what is copied, as the bits of a double; NaN counts as more than all numbers. By a thread, for a row at
   a time
*/
static __global__ void __launch_bounds__(IDRS_THREADS) PCPolyLargestKernel(IDRSSource source, unsigned long long *largest)
{
  unsigned long long mine = 0;

  for (size_t row = IDRSFirstRow<1>(); row < source.A.n; row += IDRSRowStride<1>()) {
    for (PetscInt p = source.A.i[row]; p < source.A.i[row + 1]; p++) {
      const PetscScalar entry = IDRSSourceEntry(source, p, (uint32_t)row);

      if (source.unit && source.A.j[p] == row) continue;
      mine = max(mine, PCPolySizeBits(entry));
    }
  }
  IDRSKeepLargest(mine, largest);
}

/* From the largest of all values */
static PetscErrorCode PCPolyScaleValues(PCPolyPrecision precision, IDRSSource *source, int multiprocessors, cudaStream_t stream,
                                        PetscBool *finite)
{
  unsigned long long *largest;
  double              value;
  PetscDeviceContext  dctx;

  PetscFunctionBegin;
  source->scale = 1.0;
  if (precision == PC_POLY_PRECISION_DOUBLE) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &largest));
  PCPolyLargestKernel<<<(unsigned int)(8 * multiprocessors), IDRS_THREADS, 0, stream>>>(*source, largest);
  PetscCallCUDA(cudaGetLastError());
  PetscCallCUDA(cudaMemcpyAsync(&value, largest, sizeof(value), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscCall(PetscDeviceFree(dctx, largest));
  PCPolyChooseScale(precision, value, &source->scale, finite);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The copy of the diagonal block: without columns if that takes less memory */
static PetscErrorCode PCPolyPackDiagonal(PCPolyCopy copy, Mat block, const IDRSSource *source, cudaStream_t stream,
                                         const char *why[])
{
  PCPolyCUDA        *packed = (PCPolyCUDA *)copy->data;
  IDRSSlicedCopy    *sliced = &packed->sliced;
  PetscLogDouble     nonzeros, entries;
  unsigned long long slots;
  size_t             units;
  IDRSRowLengths     lengths;

  PetscFunctionBegin;
  if (source->A.n > 1 << 30) *why = "a process has more than 2^30 rows";
  if (!source->A.n || *why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSGetNonzeros(block, &nonzeros));
  PetscCall(IDRSSlicedSort(&source->A, nonzeros, sliced, &lengths, stream, why));
  if (!*why) *why = IDRSDeclineLongRow(nonzeros, IDRSSlicedTurns(sliced, &lengths));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PCPolyDispatch(copy->precision, true,
                           [&](auto form) { return IDRSSlicedPlan<decltype(form)>(source, 1, sliced, stream, why); }));
  units           = sliced->units;
  slots           = sliced->slots;
  packed->columns = true;
  if (!*why)
    PetscCall(PCPolyDispatch(copy->precision, false,
                             [&](auto form) { return IDRSSlicedPlan<decltype(form)>(source, 1, sliced, stream, why); }));
  if (!*why && sliced->units >= units)
    PetscCall(PCPolyDispatch(copy->precision, true,
                             [&](auto form) { return IDRSSlicedPlan<decltype(form)>(source, 1, sliced, stream, why); }));
  else packed->columns = false;
  entries = nonzeros - lengths.longentries - (source->unit ? (PetscLogDouble)source->A.n : 0.0);
  if (!*why) *why = PCPolyCopyTooLarge_Private((PetscLogDouble)slots * 2 * IDRS_WARP, entries + 2 * IDRS_WARP);
  if (!*why) PetscCall(IDRSSlicedAllocate(sliced, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PCPolyDispatch(copy->precision, packed->columns,
                           [&](auto form) { return IDRSSlicedFill<decltype(form)>(source, sliced, stream); }));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  copy->bytes = IDRSSlicedBytes(sliced);
  PetscCall(IDRSExceedsCache(copy->bytes + 3.0 * source->A.n * sizeof(PetscScalar), &sliced->once));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCPolyCopyCreate_CUDA(PCPolyCopy copy, Mat A, Vec inverse, PetscBool unit, const char *why[],
                                            PetscBool *finite)
{
  PCPolyCUDA  *packed;
  IDRSSource   source = {};
  cudaStream_t stream;
  int          device;
  Mat          block;

  PetscFunctionBegin;
  PetscCall(PetscNew(&packed));
  copy->data   = packed;
  packed->unit = unit;
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&packed->multiprocessors, cudaDevAttrMultiProcessorCount, device));
  PetscCall(IDRSMatRuns_CUDA(A, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSGetBlocks(A, &block, NULL));
  PetscCall(IDRSGetCSR(block, &source.A));
  source.unit = unit;
  if (inverse) PetscCall(IDRSGetArrayRead_CUDA(inverse, &source.inverse));
  PetscCall(PCPolyScaleValues(copy->precision, &source, packed->multiprocessors, stream, finite));
  packed->scale = source.scale;
  if (*finite) PetscCall(PCPolyPackDiagonal(copy, block, &source, stream, why));
  if (*finite && !*why) PetscCall(IDRSOffDiagonalSetUp(A, NULL, source.inverse, &packed->off, why));
  if (inverse) PetscCall(VecRestoreArrayReadAndMemType(inverse, &source.inverse));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Several products follow one another without sums between them: see halo.h */
static PetscErrorCode PCPolyCopyConnect_CUDA(PCPolyCopy copy, Mat A, PetscBool *connected)
{
  PCPolyCUDA *packed = (PCPolyCUDA *)copy->data;
  const char *why;
  MPI_Comm    comm;
  Mat         block;

  PetscFunctionBegin;
  *connected = PETSC_FALSE;
  PetscCall(IDRSGetBlocks(A, NULL, &block));
  PetscCall(PetscCommDuplicate(PetscObjectComm((PetscObject)A), &comm, NULL));
  PetscCall(IDRSPeersConnect(comm, PETSC_TRUE, NULL, &why));
  if (!why) PetscCall(IDRSOffDiagonalConnect(packed->off, comm, connected));
  if (*connected) PetscCall(IDRSHaloIsMutual(packed->off->halo, packed->off->scatter, block, connected));
  PetscCall(PetscCommDestroy(&comm));
  packed->halo = *connected;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCPolyCopyDestroy_CUDA(PCPolyCopy copy)
{
  PCPolyCUDA *packed = (PCPolyCUDA *)copy->data;

  PetscFunctionBegin;
  PetscCall(IDRSSlicedDestroy(&packed->sliced));
  PetscCall(IDRSOffDiagonalReset(&packed->off));
  PetscCall(PetscFree(copy->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The chunks of a ring: as many as leave room for three blocks, or for wide values one or two */
template <typename Form>
using PCPolyRing = IDRSRing<Form, (Form::slotbytes > 512 ? 2 : 3)>;

/*
   y = d (alpha u + beta D^{-1}A z), where beta is scaled for the entries of the copy, and d is NULL for ones. Reads A, u, z and d
   once, but for the entries of z that no cache holds until their next use; writes y. pairs: the two rows of a lane are taken in one
   access
*/
template <typename Form>
static __global__ void __launch_bounds__(IDRS_THREADS, sizeof(typename Form::Value) <= 4 ? 3 : 1)
  PCPolyKernel(IDRSOverlap<true, true> overlap, IDRSSliced A, bool once, bool unit, bool pairs, IDRSSends sends, PetscScalar alpha,
               const PetscScalar *u, PetscScalar beta, PetscScalar scaled, const PetscScalar *z, const PetscScalar *d,
               PetscScalar *y)
{
  extern __shared__ __align__(128) unsigned char rings[];
  uint32_t                                       row[2] = {0, 0};
  PetscScalar                                    sum[2] = {0.0, 0.0};
  /* on their way while the sums are computed */
  IDRSPack<2>      ui = IDRSZero<2>(), zi = IDRSZero<2>();
  PCPolyRing<Form> ring;

  ring.Begin(A, rings, once);
  overlap.Begin();
  IDRSSendEntries(sends, z);
  while (ring.slots) {
    if (ring.first) {
      const uint32_t place = ring.slice * Form::slicerows + threadIdx.x % IDRS_WARP * 2;

#pragma unroll
      for (int q = 0; q < 2; q++) {
        row[q] = IDRSSlicedRow(A.perm, place + q, A.n);
        sum[q] = 0.0;
      }
      if (pairs) {
        ui = IDRSLoad<2>(u, place, A.n);
        if (unit) zi = IDRSLoad<2>(z, place, A.n);
      } else {
#pragma unroll
        for (int q = 0; q < 2; q++) {
          if (row[q] < A.n) ui.v[q] = u[row[q]];
          if (unit && row[q] < A.n) zi.v[q] = z[row[q]];
        }
      }
    }
    IDRSChunkAdd<Form>(A, ring.Await(), ring.slots, z, row, sum);
    ring.Next(A);
    if (ring.first) {
#pragma unroll
      for (int q = 0; q < 2; q++) {
        ui.v[q] = alpha * ui.v[q] + beta * zi.v[q] + scaled * sum[q];
        if (d && row[q] < A.n) ui.v[q] *= d[row[q]];
      }
      if (pairs) IDRSStore<2>(y, row[0], A.n, ui);
      else {
#pragma unroll
        for (int q = 0; q < 2; q++) {
          if (row[q] < A.n) y[row[q]] = ui.v[q];
        }
      }
    }
  }
  for (uint32_t k = IDRSFirstLongRow(); k < A.longrows.n; k += gridDim.x * IDRS_WARPS) {
    const PetscInt    i       = A.longindices[k];
    const PetscScalar entries = IDRSWarpRowSum<8>(A.longrows, z, k);

    if (threadIdx.x % IDRS_WARP == 0)
      y[i] = (d ? d[i] : (PetscScalar)1.0) * (alpha * u[i] + (unit ? beta * z[i] : (PetscScalar)0.0) + scaled * entries);
  }
}

/* Adds what is on other processes */
static PetscErrorCode PCPolyAddOffDiagonal(const PCPolyCUDA *packed, bool halo, cudaStream_t stream, PetscScalar beta, Vec z,
                                           const PetscScalar *d, PetscScalar *y)
{
  const IDRSOffDiagonal off = packed->off;
  const PetscScalar    *ghosts;

  PetscFunctionBegin;
  if (halo)
    PetscCall(PCPolyOuterLaunch(&off->some, packed->multiprocessors, IDRSWaitingBlocks(), stream, beta,
                                IDRSHaloGetGhosts(off->halo), d, y));
  else {
    PetscCall(VecScatterEnd(off->scatter, z, off->ghosts, INSERT_VALUES, SCATTER_FORWARD));
    PetscCall(IDRSGetArrayRead_CUDA(off->ghosts, &ghosts));
    PetscCall(PCPolyOuterLaunch(&off->some, packed->multiprocessors, SIZE_MAX, stream, beta, ghosts, d, y));
    PetscCall(VecRestoreArrayReadAndMemType(off->ghosts, &ghosts));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCPolyCopyMultiplyAdd_CUDA(PCPolyCopy copy, PetscScalar alpha, Vec u, PetscScalar beta, Vec z, Vec d, Vec y)
{
  const PCPolyCUDA     *packed = (const PCPolyCUDA *)copy->data;
  const IDRSSlicedCopy *sliced = &packed->sliced;
  /* it ends with the connection of the processes */
  const bool         halo = packed->halo && IDRSHaloIsValid(packed->off->halo);
  const PetscScalar *zarray, *uarray, *darray = NULL;
  PetscScalar       *yarray;
  cudaStream_t       stream;
  IDRSBoundary       boundary;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSOffDiagonalBegin(packed->off, z, halo, &boundary));
  PetscCall(IDRSGetArrayRead_CUDA(z, &zarray));
  if (d) PetscCall(IDRSGetArrayRead_CUDA(d, &darray));
  if (y == u) {
    PetscCall(IDRSGetArray_CUDA(y, VecGetArrayAndMemType, &yarray));
    uarray = yarray;
  } else {
    PetscCall(IDRSGetArray_CUDA(y, VecGetArrayWriteAndMemType, &yarray));
    PetscCall(IDRSGetArrayRead_CUDA(u, &uarray));
  }
  PetscCall(PetscLogGpuTimeBegin());
  if (sliced->A.n) {
    const bool pairs = !sliced->A.perm && !((uintptr_t)zarray % IDRS_ACCESS_BYTES || (uintptr_t)uarray % IDRS_ACCESS_BYTES ||
                                            (uintptr_t)yarray % IDRS_ACCESS_BYTES);

    PetscCall(PCPolyDispatch(copy->precision, packed->columns, [&](auto form) {
      typedef decltype(form) Form;

      PetscFunctionBegin;
      (void)IDRSLaunchResident<PCPolyKernel<Form>>(packed->multiprocessors, IDRSSlicedBlocks(sliced->A), PCPolyRing<Form>::bytes,
                                                   !sliced->once, stream, sliced->A, (bool)sliced->once, packed->unit, pairs,
                                                   boundary.sends, alpha, uarray, beta, beta / packed->scale, zarray, darray,
                                                   yarray);
      PetscCallCUDA(cudaGetLastError());
      PetscFunctionReturn(PETSC_SUCCESS);
    }));
  }
  PetscCall(VecRestoreArrayReadAndMemType(z, &zarray));
  if (packed->off) PetscCall(PCPolyAddOffDiagonal(packed, halo, stream, beta, z, darray, yarray));
  PetscCall(PetscLogGpuTimeEnd());
  if (y == u) PetscCall(VecRestoreArrayAndMemType(y, &yarray));
  else {
    PetscCall(VecRestoreArrayReadAndMemType(u, &uarray));
    PetscCall(VecRestoreArrayWriteAndMemType(y, &yarray));
  }
  if (d) PetscCall(VecRestoreArrayReadAndMemType(d, &darray));
  PetscCall(PetscLogGpuFlops(((packed->unit ? 6.0 : 5.0) + (d ? 1.0 : 0.0)) * sliced->A.n +
                             4.0 * IDRS_WARP * (PetscLogDouble)sliced->slots));
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const PCPolyCopyOps PCPolyCopies_CUDA = {
  PetscDesignatedInitializer(narrowest, PC_POLY_PRECISION_HALF),
  PetscDesignatedInitializer(create, PCPolyCopyCreate_CUDA),
  PetscDesignatedInitializer(connect, PCPolyCopyConnect_CUDA),
  PetscDesignatedInitializer(multiplyadd, PCPolyCopyMultiplyAdd_CUDA),
  PetscDesignatedInitializer(destroy, PCPolyCopyDestroy_CUDA),
};
// clang-format on
