/*
   Matchings of matrices whose values are in the memory of the GPU: permutations of vectors, scalings for new values, and the values
   of A~ = P Dr A Dc. The matching itself is computed by the processor
*/
#include "../../sys/device/device.h"
#include "../../sys/kernels/launch.cuh"
#include "../../sys/device/target.cuh"
#include "../../sys/kernels/csr.h"
#include <petscidrs/private/idrsmatching.h>
#include <petscidrs/private/idrsmemory.h>

/* Results of a sweep */
typedef struct {
  unsigned long long largest;  /* scaled entry, as the bits of a double */
  unsigned int       changed;  /* a scaling has been lowered */
  unsigned int       infinite; /* of all sweeps: an entry outside of the diagonal block is not finite */
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

PetscErrorCode IDRSMatchingFreePlaces(IDRSMatching matching)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (!matching->ondevice) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, matching->ondevice));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* y_i = d_i x_places(i), or d_i x_i without places */
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSMatchingScaleKernel(size_t n, const PetscInt *places, const PetscScalar *d, const PetscScalar *x, PetscScalar *y)
{
  for (size_t i = IDRSFirstRow<1>(); i < n; i += IDRSRowStride<1>()) y[i] = d[i] * x[places ? places[i] : i];
}

static PetscErrorCode IDRSMatchingScale_CUDA(IDRSMatching matching, const PetscInt places[], Vec d, Vec x, Vec y)
{
  const PetscInt    *column, *row;
  const PetscScalar *darray, *xarray;
  PetscScalar       *yarray;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSMatchingGetPlaces(matching, &column, &row));
  if (places) places = places == matching->row ? row : column;
  PetscCall(IDRSGetArrayRead_CUDA(d, &darray));
  PetscCall(IDRSGetArrayRead_CUDA(x, &xarray));
  PetscCall(IDRSGetArray_CUDA(y, VecGetArrayWriteAndMemType, &yarray));
  PetscCall(PetscLogGpuTimeBegin());
  if (matching->n)
    IDRSMatchingScaleKernel<<<IDRSMatchingBlocks(matching->n), IDRS_THREADS, 0, stream>>>((size_t)matching->n, places, darray,
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
   One sweep of IDRSMatchingUpdate_Host(): computes the scalings of the rows and, unless it is the last sweep, of the columns, from
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

static __global__ void __launch_bounds__(IDRS_THREADS) IDRSMatchingFiniteKernel(IDRSCSR A, IDRSMatchingSweep *sweep)
{
  for (size_t row = IDRSFirstRow<1>(); row < A.n; row += IDRSRowStride<1>()) {
    for (PetscInt p = A.i[row]; p < A.i[row + 1]; p++) {
      if (!((double)PetscAbsScalar(A.a[p]) <= (double)PETSC_MAX_REAL)) sweep->infinite = 1;
    }
  }
}

/* Dr, Dc and, if a row is moved, P Dr P^T */
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSMatchingSetScalingsKernel(size_t n, const double *left, const double *right, const PetscInt *row, PetscScalar *Dr,
                                PetscScalar *Dc, PetscScalar *permuted)
{
  for (size_t i = IDRSFirstRow<1>(); i < n; i += IDRSRowStride<1>()) {
    Dr[i] = IDRSMatchingLimit(left[i]);
    Dc[i] = IDRSMatchingLimit(right[i]);
    if (permuted) permuted[i] = IDRSMatchingLimit(left[row[i]]);
  }
}

static PetscErrorCode IDRSMatchingSetScalings_CUDA(IDRSMatching matching, const double left[], const double right[])
{
  const PetscInt *column, *row;
  PetscScalar    *Dr, *Dc, *permuted = NULL;
  cudaStream_t    stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSMatchingGetPlaces(matching, &column, &row));
  PetscCall(IDRSGetArray_CUDA(matching->left, VecGetArrayWriteAndMemType, &Dr));
  PetscCall(IDRSGetArray_CUDA(matching->right, VecGetArrayWriteAndMemType, &Dc));
  if (matching->moved) PetscCall(IDRSGetArray_CUDA(matching->permuted, VecGetArrayWriteAndMemType, &permuted));
  if (matching->n)
    IDRSMatchingSetScalingsKernel<<<IDRSMatchingBlocks(matching->n), IDRS_THREADS, 0, stream>>>((size_t)matching->n, left, right,
                                                                                                row, Dr, Dc, permuted);
  PetscCallCUDA(cudaGetLastError());
  if (permuted) PetscCall(VecRestoreArrayWriteAndMemType(matching->permuted, &permuted));
  PetscCall(VecRestoreArrayWriteAndMemType(matching->right, &Dc));
  PetscCall(VecRestoreArrayWriteAndMemType(matching->left, &Dr));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSMatchingUpdate_CUDA(IDRSMatching matching, Mat block, Mat outer, PetscBool *kept)
{
  const size_t       n = (size_t)matching->n, bytes = n * sizeof(double);
  const PetscInt    *column, *row;
  const PetscScalar *old;
  double            *left, *right, *before, largest = 0.0;
  PetscReal          most;
  IDRSMatchingSweep *ondevice, sweep = {0, 1, 0};
  PetscDeviceContext dctx;
  cudaStream_t       stream;
  IDRSCSR            csr;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(IDRSMatchingGetPlaces(matching, &column, &row));
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, 3 * n, &left));
  right  = left + n;
  before = right + n;
  PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &ondevice));
  PetscCallCUDA(cudaMemsetAsync(ondevice, 0, sizeof(*ondevice), stream));
  PetscCall(IDRSGetArrayRead_CUDA(matching->right, &old));
  if (n) IDRSMatchingGetScalingsKernel<<<IDRSMatchingBlocks(matching->n), IDRS_THREADS, 0, stream>>>(n, old, right);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(VecRestoreArrayReadAndMemType(matching->right, &old));
  if (outer) {
    PetscCall(IDRSGetCSR(outer, &csr));
    if (csr.n) IDRSMatchingFiniteKernel<<<IDRSMatchingBlocks(csr.n), IDRS_THREADS, 0, stream>>>(csr, ondevice);
    PetscCallCUDA(cudaGetLastError());
  }
  PetscCall(IDRSGetCSR(block, &csr));
  /* sweeps until no scaling changes; the host waits for each */
  for (int k = 0; n && sweep.changed && largest < (double)INFINITY; k++) {
    PetscCallCUDA(cudaMemcpyAsync(before, right, bytes, cudaMemcpyDeviceToDevice, stream));
    PetscCallCUDA(cudaMemsetAsync(ondevice, 0, offsetof(IDRSMatchingSweep, infinite), stream));
    IDRSMatchingSweepKernel<<<IDRSMatchingBlocks(csr.n), IDRS_THREADS, 0, stream>>>(csr, column, k == MATCHING_SWEEPS, before,
                                                                                    right, left, ondevice);
    PetscCallCUDA(cudaGetLastError());
    PetscCallCUDA(cudaMemcpyAsync(&sweep, ondevice, sizeof(sweep), cudaMemcpyDeviceToHost, stream));
    PetscCallCUDA(cudaStreamSynchronize(stream));
    static_assert(sizeof(largest) == sizeof(sweep.largest), "the bits of a double");
    memcpy(&largest, &sweep.largest, sizeof(largest));
    if (sweep.infinite) largest = (double)INFINITY;
  }
  /* all processes keep the permutation, or none */
  most = (PetscReal)largest;
  IDRSCallAllreduce(MPI_IN_PLACE, &most, 1, MPIU_REAL, MPIU_MAX, PetscObjectComm((PetscObject)matching->left));
  *kept = (PetscBool)(most <= MATCHING_KEEP);
  if (*kept) PetscCall(IDRSMatchingSetScalings_CUDA(matching, left, right));
  PetscCall(PetscDeviceFree(dctx, ondevice));
  PetscCall(PetscDeviceFree(dctx, left));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   a~ = Dr a Dc, with one thread per row of the block B of A~. An entry of B without an entry of A is a zero on the diagonal. Dr a
   is at most 1 / Dc, so it does not overflow
*/
static __global__ void __launch_bounds__(IDRS_THREADS)
  IDRSMatchingFillKernel(IDRSCSR A, IDRSCSR B, const PetscInt *rows, const PetscScalar *Dr, const PetscScalar *Dc, PetscScalar *a)
{
  for (size_t k = IDRSFirstRow<1>(); k < B.n; k += IDRSRowStride<1>()) {
    const PetscInt row = rows[k];
    const bool     all = B.i[k + 1] - B.i[k] == A.i[row + 1] - A.i[row]; /* outer blocks may have other numbers of columns */
    IDRSMatIndex   p   = A.i[row];

    for (IDRSMatIndex q = B.i[k]; q < B.i[k + 1]; q++) {
      if (all || (p < A.i[row + 1] && A.j[p] == B.j[q])) {
        a[q] = A.a[p] * Dr[row] * Dc[A.j[p]];
        p++;
      } else a[q] = 0.0;
    }
  }
}

static PetscErrorCode IDRSMatchingFill_CUDA(IDRSMatching matching, Mat from, Vec right, Mat to)
{
  const PetscInt    *column, *row;
  const PetscScalar *Dr, *Dc;
  PetscScalar       *a;
  cudaStream_t       stream;
  IDRSCSR            A, B;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSMatchingGetPlaces(matching, &column, &row));
  PetscCall(IDRSGetCSR(from, &A));
  PetscCall(IDRSGetCSR(to, &B));
  PetscCall(IDRSGetArrayRead_CUDA(matching->left, &Dr));
  PetscCall(IDRSGetArrayRead_CUDA(right, &Dc));
  PetscCall(MatSeqAIJCUSPARSEGetArrayWrite(to, &a));
  if (A.n) IDRSMatchingFillKernel<<<IDRSMatchingBlocks(A.n), IDRS_THREADS, 0, stream>>>(A, B, row, Dr, Dc, a);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(MatSeqAIJCUSPARSERestoreArrayWrite(to, &a));
  PetscCall(IDRSStreamJoin_CUDA()); /* products of the matrix may run on another stream */
  PetscCall(VecRestoreArrayReadAndMemType(right, &Dc));
  PetscCall(VecRestoreArrayReadAndMemType(matching->left, &Dr));
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const IDRSMatchingOps IDRSMatchingBackEnds_CUDA = {
  PetscDesignatedInitializer(scale, IDRSMatchingScale_CUDA),
  PetscDesignatedInitializer(update, IDRSMatchingUpdate_CUDA),
  PetscDesignatedInitializer(fill, IDRSMatchingFill_CUDA),
};
// clang-format on
