/*
   Matchings of matrices whose values are in the memory of the GPU: permutations of vectors, scalings for new values, and the values
   of A~ = P Dr A Dc. The matching itself is computed by the processor
*/
#include "../../sys/device/device.h"
#include "../../sys/kernels/launch.cuh"
#include "../../sys/device/target.cuh"
#include "../../sys/kernels/csr.h"
#include <petscidrs/private/idrsmatching.h>
#include <petscidrs/private/idrsplace.h>
#include "matchingcuda.h"

/* The largest scaled entry, as the bits of a double, and whether a sweep has changed a scaling */
typedef struct {
  unsigned long long largest;
  unsigned int       changed;
} IDRSMatchingSweep;

/* Blocks with one row per thread, or several rows */
static unsigned int IDRSMatchingBlocks(PetscInt n)
{
  return (unsigned int)PetscMin((n + IDRS_THREADS - 1) / IDRS_THREADS, 65535);
}

/* Infinity for NaN */
static __device__ __forceinline__ unsigned long long IDRSMatchingBits(double value)
{
  return (unsigned long long)__double_as_longlong(value >= 0.0 ? value : (double)INFINITY);
}

/*
   IDRSMatchingGetPlaces - Returns the permutation in the memory of the GPU: columns of the rows, and rows of the columns, each of
   which may be NULL
*/
PetscErrorCode IDRSMatchingGetPlaces(IDRSMatching matching, const PetscInt **column, const PetscInt **row)
{
  const size_t       bytes = (size_t)matching->n * sizeof(PetscInt);
  PetscDeviceContext dctx;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  if (!matching->ondevice) {
    PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, 2 * (size_t)matching->n, &matching->ondevice));
    PetscCallCUDA(cudaMemcpyAsync(matching->ondevice, matching->column, bytes, cudaMemcpyHostToDevice, stream));
    PetscCallCUDA(cudaMemcpyAsync(matching->ondevice + matching->n, matching->row, bytes, cudaMemcpyHostToDevice, stream));
  }
  if (column) *column = matching->ondevice;
  if (row) *row = matching->ondevice + matching->n;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSMatchingReset_CUDA(IDRSMatching matching)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (!matching->ondevice) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, matching->ondevice));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* y_i = d_i x_places(i) */
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSMatchingPermuteKernel(size_t n, const PetscInt *places, const PetscScalar *d, const PetscScalar *x, PetscScalar *y)
{
  for (size_t i = IDRSFirstRow<1>(); i < n; i += IDRSRowStride<1>()) y[i] = d[i] * x[places[i]];
}

/* y = d P x, or d P^T x, entry by entry; y is not x */
static PetscErrorCode IDRSMatchingPermute_CUDA(IDRSMatching matching, PetscBool transpose, Vec d, Vec x, Vec y)
{
  const PetscInt    *column, *row;
  const PetscScalar *darray, *xarray;
  PetscScalar       *yarray;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSMatchingGetPlaces(matching, &column, &row));
  PetscCall(IDRSGetArrayRead_CUDA(d, &darray));
  PetscCall(IDRSGetArrayRead_CUDA(x, &xarray));
  PetscCall(IDRSGetArray_CUDA(y, VecGetArrayWriteAndMemType, &yarray));
  PetscCall(PetscLogGpuTimeBegin());
  if (matching->n)
    IDRSMatchingPermuteKernel<<<IDRSMatchingBlocks(matching->n), IDRS_THREADS, 0, stream>>>((size_t)matching->n,
                                                                                            transpose ? column : row, darray,
                                                                                            xarray, yarray);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(PetscLogGpuFlops((PetscLogDouble)matching->n));
  PetscCall(VecRestoreArrayWriteAndMemType(y, &yarray));
  PetscCall(VecRestoreArrayReadAndMemType(x, &xarray));
  PetscCall(VecRestoreArrayReadAndMemType(d, &darray));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSMatchingGetScalingsKernel(size_t n, const PetscScalar *scalings, double *values)
{
  for (size_t i = IDRSFirstRow<1>(); i < n; i += IDRSRowStride<1>()) values[i] = (double)PetscRealPart(scalings[i]);
}

/*
   One sweep of IDRSMatchingRescaleRows(): computes the scalings of the rows and, unless it is the last sweep, of the columns, from
   the scalings before the sweep. One thread per row. The bits of positive numbers have the order of the numbers
*/
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSMatchingSweepKernel(IDRSCSR A, const PetscInt *column, bool last, const double *before, double *right, double *left,
                          IDRSMatchingSweep *sweep)
{
  unsigned long long mine = 0;

  for (size_t row = IDRSFirstRow<1>(); row < A.n; row += IDRSRowStride<1>()) {
    double pivot = 0.0;

    for (PetscInt p = A.i[row]; p < A.i[row + 1]; p++) {
      if (A.j[p] == column[row]) pivot = (double)PetscAbsScalar(A.a[p]) * before[column[row]];
    }
    if (!(pivot > 0.0)) mine = IDRSMatchingBits(INFINITY); /* also in a row without entries */
    for (PetscInt p = A.i[row]; p < A.i[row + 1]; p++) {
      const double a = (double)PetscAbsScalar(A.a[p]), relative = a * before[A.j[p]] / pivot;

      mine = max(mine, IDRSMatchingBits(relative));
      if (!(relative > MATCHING_ONE) || last) continue;
      /* right_j = min over i of pivot_i / |a_ij| */
      atomicMin((unsigned long long *)right + A.j[p], (unsigned long long)__double_as_longlong(pivot / a));
      sweep->changed = 1;
    }
    left[row] = 1.0 / pivot;
  }
  __syncwarp();
  IDRSKeepLargest(mine, &sweep->largest);
}

/* Infinite entries and NaN outside the diagonal block count as infinite */
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSMatchingFiniteKernel(IDRSCSR A, IDRSMatchingSweep *sweep)
{
  for (size_t row = IDRSFirstRow<1>(); row < A.n; row += IDRSRowStride<1>()) {
    for (PetscInt p = A.i[row]; p < A.i[row + 1]; p++) {
      if (!((double)PetscAbsScalar(A.a[p]) <= (double)PETSC_MAX_REAL)) sweep->largest = IDRSMatchingBits(INFINITY);
    }
  }
}

static PetscErrorCode IDRSMatchingRescale_CUDA(IDRSMatching matching, Mat A, double **left, double **right, double *largest)
{
  const size_t       bytes = (size_t)matching->n * sizeof(double);
  const PetscInt    *column, *row;
  const PetscScalar *old;
  double            *before;
  IDRSMatchingSweep *ondevice, sweep = {0, 1};
  PetscDeviceContext dctx;
  cudaStream_t       stream;
  IDRSCSR            csr;
  Mat                block, outer;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(IDRSMatchingGetPlaces(matching, &column, &row));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, (size_t)matching->n, left));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, (size_t)matching->n, right));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, (size_t)matching->n, &before));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &ondevice));
  PetscCall(IDRSGetArrayRead_CUDA(matching->right, &old));
  if (matching->n)
    IDRSMatchingGetScalingsKernel<<<IDRSMatchingBlocks(matching->n), IDRS_THREADS, 0, stream>>>((size_t)matching->n, old, *right);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(VecRestoreArrayReadAndMemType(matching->right, &old));
  PetscCall(IDRSRowsGetBlocks(A, &block, &outer, NULL));
  PetscCall(IDRSGetCSR(block, &csr));
  *largest = 0.0;
  /* sweeps until no scaling changes; the host waits for each */
  for (int k = 0; matching->n && sweep.changed && *largest < (double)INFINITY; k++) {
    PetscCallCUDA(cudaMemcpyAsync(before, *right, bytes, cudaMemcpyDeviceToDevice, stream));
    PetscCallCUDA(cudaMemsetAsync(ondevice, 0, sizeof(*ondevice), stream));
    IDRSMatchingSweepKernel<<<IDRSMatchingBlocks(csr.n), IDRS_THREADS, 0, stream>>>(csr, column, k == MATCHING_SWEEPS, before,
                                                                                    *right, *left, ondevice);
    PetscCallCUDA(cudaGetLastError());
    PetscCallCUDA(cudaMemcpyAsync(&sweep, ondevice, sizeof(sweep), cudaMemcpyDeviceToHost, stream));
    PetscCallCUDA(cudaStreamSynchronize(stream));
    static_assert(sizeof(*largest) == sizeof(sweep.largest), "the bits of a double");
    memcpy(largest, &sweep.largest, sizeof(*largest));
  }
  if (outer) {
    PetscCall(IDRSGetCSR(outer, &csr));
    PetscCallCUDA(cudaMemsetAsync(ondevice, 0, sizeof(*ondevice), stream));
    if (csr.n) IDRSMatchingFiniteKernel<<<IDRSMatchingBlocks(csr.n), IDRS_THREADS, 0, stream>>>(csr, ondevice);
    PetscCallCUDA(cudaGetLastError());
    PetscCallCUDA(cudaMemcpyAsync(&sweep, ondevice, sizeof(sweep), cudaMemcpyDeviceToHost, stream));
    PetscCallCUDA(cudaStreamSynchronize(stream));
    if (sweep.largest) *largest = (double)INFINITY;
  }
  PetscCall(PetscDeviceFree(dctx, ondevice));
  PetscCall(PetscDeviceFree(dctx, before));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSMatchingSetScalingsKernel(size_t n, const double *values, const PetscInt *places, PetscScalar *scalings)
{
  for (size_t i = IDRSFirstRow<1>(); i < n; i += IDRSRowStride<1>())
    scalings[i] = IDRSMatchingLimit(values[places ? places[i] : i]);
}

/* scaling_i = values_i, or values_places(i) */
static PetscErrorCode IDRSMatchingSetScaling_CUDA(const double values[], const PetscInt places[], cudaStream_t stream, Vec scaling)
{
  PetscScalar *array;
  PetscInt     n;

  PetscFunctionBegin;
  PetscCall(VecGetLocalSize(scaling, &n));
  PetscCall(IDRSGetArray_CUDA(scaling, VecGetArrayWriteAndMemType, &array));
  if (n) IDRSMatchingSetScalingsKernel<<<IDRSMatchingBlocks(n), IDRS_THREADS, 0, stream>>>((size_t)n, values, places, array);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(VecRestoreArrayWriteAndMemType(scaling, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSMatchingSetScalings_CUDA(IDRSMatching matching, PetscBool keep, double **left, double **right)
{
  const PetscInt    *column, *row;
  PetscDeviceContext dctx;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSMatchingGetPlaces(matching, &column, &row));
  if (keep) {
    PetscCall(IDRSMatchingSetScaling_CUDA(*left, NULL, stream, matching->left));
    PetscCall(IDRSMatchingSetScaling_CUDA(*right, NULL, stream, matching->right));
    if (matching->moved) PetscCall(IDRSMatchingSetScaling_CUDA(*left, row, stream, matching->permuted));
  }
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, *left));
  PetscCall(PetscDeviceFree(dctx, *right));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   a~ = Dr a Dc, in the row of A~ that the row of A becomes, which may have one entry more: the zero in its diagonal place. One
   thread per row. Dr a is at most 1 / Dc, so it does not overflow
*/
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSMatchingFillKernel(IDRSCSR A, const PetscInt *column, const PetscScalar *Dr, const PetscScalar *Dc, const IDRSMatIndex *i,
                         PetscScalar *a)
{
  for (size_t row = IDRSFirstRow<1>(); row < A.n; row += IDRSRowStride<1>()) {
    const PetscScalar scaling = Dr[row];
    const PetscInt    place   = column[row];
    IDRSMatIndex      q       = i[place];
    bool              zero    = i[place + 1] - q > A.i[row + 1] - A.i[row];

    for (PetscInt p = A.i[row]; p < A.i[row + 1]; p++) {
      if (zero && A.j[p] > place) {
        a[q++] = 0.0;
        zero   = false;
      }
      a[q++] = A.a[p] * scaling * Dc[A.j[p]];
    }
    if (zero) a[q] = 0.0;
  }
}

static PetscErrorCode IDRSMatchingFill_CUDA(IDRSMatching matching, Mat from, Vec right, Mat to)
{
  const PetscInt    *column, *row;
  const PetscScalar *Dr, *Dc;
  PetscScalar       *a, *copy = NULL;
  PetscMemType       type;
  PetscDeviceContext dctx;
  cudaStream_t       stream;
  IDRSCSR            A, permuted;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSMatchingGetPlaces(matching, &column, &row));
  PetscCall(IDRSGetCSR(from, &A));
  PetscCall(IDRSGetCSR(to, &permuted));
  PetscCall(IDRSGetArrayRead_CUDA(matching->left, &Dr));
  PetscCall(VecGetArrayReadAndMemType(right, &Dc, &type));
  if (!PetscMemTypeDevice(type)) { /* the ghosts are in the memory of the host */
    PetscInt n;

    PetscCall(VecGetLocalSize(right, &n));
    PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, (size_t)n, &copy));
    PetscCallCUDA(cudaMemcpyAsync(copy, Dc, (size_t)n * sizeof(*copy), cudaMemcpyHostToDevice, stream));
  }
  PetscCall(MatSeqAIJCUSPARSEGetArrayWrite(to, &a));
  if (A.n)
    IDRSMatchingFillKernel<<<IDRSMatchingBlocks(A.n), IDRS_THREADS, 0, stream>>>(A, column, Dr, copy ? copy : Dc, permuted.i, a);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(MatSeqAIJCUSPARSERestoreArrayWrite(to, &a));
  PetscCall(IDRSStreamJoin_CUDA()); /* products of the matrix may run on another stream */
  PetscCall(VecRestoreArrayReadAndMemType(right, &Dc));
  PetscCall(VecRestoreArrayReadAndMemType(matching->left, &Dr));
  if (copy) {
    PetscCallCUDA(cudaStreamSynchronize(stream)); /* before the ghosts are freed */
    PetscCall(PetscDeviceFree(dctx, copy));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const IDRSMatchingOps IDRSMatchingBackEnds_CUDA = {
  PetscDesignatedInitializer(permute, IDRSMatchingPermute_CUDA),
  PetscDesignatedInitializer(rescale, IDRSMatchingRescale_CUDA),
  PetscDesignatedInitializer(setscalings, IDRSMatchingSetScalings_CUDA),
  PetscDesignatedInitializer(fill, IDRSMatchingFill_CUDA),
  PetscDesignatedInitializer(reset, IDRSMatchingReset_CUDA),
};
// clang-format on
