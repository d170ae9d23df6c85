/*
   The copy of D^{-1}A in the memory of the GPU, with the vector operations of a factor in the same kernel:

     y = d (alpha u + beta D^{-1}A z)

   It has the format of src/mat/cuda/sell.cuh, with two rows per lane. Values need 2 bytes in half and 4 bytes in single
   precision, and twice as many for complex numbers. Vectors keep the precision of PetscScalar, so p(A) is linear with a perturbed
   matrix, which costs hardly any iterations. With rounded vectors it would not be linear, and IDR(s) would need up to several times
   the iterations.

   - If all rows are scaled, the diagonal of D^{-1}A is 1 and is not stored.
   - If the entries of each slot have the same distance from the diagonal, as in stencils, no columns are stored.
   - Values are multiplied by a power of two, so that the largest is near the end of the range, and small values keep their digits.
   - On several processes the slices have the entries of the diagonal block. Other entries are in double precision, and are added
   after the halo of z has arrived.
   - Slices have no long rows. The values of long rows are in double precision. If a matrix is small and all its rows are too long
   for a lane, all rows count as long, and there are no slices.
*/
#include "../../../../sys/device/device.h"
#include "../../../../mat/cuda/offdiagonal.cuh"
#include "../../../../mat/cuda/ring.cuh"
#include "../../../../mat/cuda/sellcopy.cuh"
#include "../../../../mat/cuda/sell.cuh"
#include "../../../../sys/device/target.cuh"
#include "../../../../sys/kernels/launch.cuh"
#include "../../../../sys/kernels/rowsum.cuh"
#include "polycopy.h"

/* Largest number of places of a copy per entry of the matrix, and an additional number for every matrix */
#define PCPOLY_PADDING      1.5
#define PCPOLY_SPARE_PLACES 1024

/* The arrays of a product */
typedef struct {
  PetscScalar        alpha, beta;
  const PetscScalar *u, *z, *d;
  PetscScalar       *y;
  bool               adds;
} PCPolyArrays;

typedef struct {
  IDRSSellCopy    sell;
  bool            columns;
  PetscReal       scale; /* of the values */
  int             multiprocessors;
  IDRSOffDiagonal off;  /* entries outside the diagonal block */
  bool            halo; /* the kernels exchange the halo of z */
} PCPolyCUDA;

/* Calls launch with the format of the slots as a type */
template <typename L>
static PetscErrorCode PCPolyDispatch(PCPolyPrecision precision, bool columns, L &&launch)
{
  auto dispatch = [&](auto value) {
    typedef decltype(value) Value;

    return columns ? launch(IDRSForm<Value, 2, true>()) : launch(IDRSForm<Value, 2, false>());
  };

  PetscFunctionBegin;
  if (precision == PC_POLY_PRECISION_HALF) PetscCall(dispatch(IDRSNarrow<__half>()));
  else if (precision == PC_POLY_PRECISION_SINGLE) PetscCall(dispatch(IDRSNarrow<float>()));
  else PetscCall(dispatch(PetscScalar()));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes largest = max(|re|, |im|) over the copied entries, as the bits of a double; NaN is larger than all numbers. A thread
   processes one row at a time
*/
static __global__ void __launch_bounds__(IDRS_THREADS) PCPolyLargestKernel(IDRSSource source, unsigned long long *largest)
{
  unsigned long long mine = 0;

  for (size_t row = IDRSFirstRow<1>(); row < source.A.n; row += IDRSRowStride<1>()) {
    for (PetscInt p = source.A.i[row]; p < source.A.i[row + 1]; p++) {
      const PetscScalar entry = IDRSSourceEntry(source, p, (uint32_t)row);

      if (source.unit && source.A.j[p] == row) continue;
      mine = max(mine, (unsigned long long)__double_as_longlong(fabs((double)PetscRealPart(entry))));
      mine = max(mine, (unsigned long long)__double_as_longlong(fabs((double)PetscImaginaryPart(entry))));
    }
  }
  IDRSKeepLargest(mine, largest);
}

/*
   Computes the scale of the values in half or single precision: the power of two with which the largest value is at least 2^14, or
   2^96 in single precision. finite is set to PETSC_FALSE if the value is not finite in this precision
*/
static PetscErrorCode PCPolyFindScale(PCPolyPrecision precision, const IDRSSource *source, int blocks, cudaStream_t stream,
                                      PetscReal *scale, PetscBool *finite)
{
  const bool          half = precision == PC_POLY_PRECISION_HALF;
  unsigned long long *memory;
  double              largest;
  int                 exponent;
  PetscDeviceContext  dctx;

  PetscFunctionBegin;
  *scale = 1.0;
  if (precision == PC_POLY_PRECISION_DOUBLE) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &memory));
  PCPolyLargestKernel<<<(unsigned int)blocks, IDRS_THREADS, 0, stream>>>(*source, memory);
  PetscCallCUDA(cudaGetLastError());
  PetscCallCUDA(cudaMemcpyAsync(&largest, memory, sizeof(largest), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscCall(PetscDeviceFree(dctx, memory));
  if (PetscIsInfOrNanReal((PetscReal)largest)) *finite = PETSC_FALSE;
  else if (largest > 0.0) {
    (void)frexp(largest, &exponent); /* largest < 2^exponent */
    exponent = (half ? 15 : (PetscDefined(USE_REAL_SINGLE) ? 15 : 97)) - exponent;
    exponent = PetscMax(PetscMin(exponent, 100), -100); /* the inverse of the scale must be a finite PetscReal */
    *scale   = (PetscReal)ldexp(1.0, exponent);
    if (largest * ldexp(1.0, exponent) > (half ? 65504.0 : 3e38)) *finite = PETSC_FALSE;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Separates all rows as long rows, without slices. If a matrix has few rows with many entries, lanes process their rows too slowly.
   With a warp for each row the product takes the time of MatMult(), and the vector operations are in the same kernel
*/
static PetscErrorCode PCPolyPackByWarps(const IDRSSource *source, PetscLogDouble nonzeros, IDRSSellCopy *sell, cudaStream_t stream,
                                        const char *why[])
{
  IDRSRowLengths lengths;

  PetscFunctionBegin;
  PetscCall(IDRSSellDestroy(sell));
  *sell     = {};
  sell->A.n = (uint32_t)source->A.n;
  PetscCall(IDRSGetRowLengths(&source->A, 0, &lengths));
  if (lengths.longrows < (unsigned int)source->A.n) *why = "it has empty rows, and rows that are too long for a lane";
  else *why = IDRSDeclineLongRow(nonzeros, lengths.longest / IDRS_WARP);
  if (!*why) PetscCall(IDRSSellSelectLongRows(&source->A, 0, &lengths, sell, stream, why));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Plans and allocates the copy of the diagonal block, without columns if that needs less memory */
static PetscErrorCode PCPolyPackDiagonal(PCPolyCopy copy, Mat block, const IDRSSource *source, cudaStream_t stream,
                                         const char *why[])
{
  PCPolyCUDA        *packed = (PCPolyCUDA *)copy->data;
  IDRSSellCopy      *sell   = &packed->sell;
  PetscLogDouble     nonzeros, entries;
  unsigned long long slots;
  size_t             units;
  IDRSRowLengths     lengths;

  auto plan = [&](bool columns) {
    return PCPolyDispatch(copy->precision, columns,
                          [&](auto form) { return IDRSSellPlan<decltype(form)>(source, sell, stream, why); });
  };

  PetscFunctionBegin;
  if (source->A.n > 1 << 30) *why = "a process has more than 2^30 rows";
  if (!source->A.n || *why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSGetNonzeros(block, &nonzeros));
  PetscCall(IDRSSellSort(&source->A, nonzeros, sell, &lengths, stream, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  *why = IDRSDeclineLongRow(nonzeros, IDRSSellTurns(sell, &lengths));
  if (*why && nonzeros >= (PetscLogDouble)IDRS_WARP * source->A.n) {
    *why = NULL;
    PetscCall(PCPolyPackByWarps(source, nonzeros, sell, stream, why));
    copy->bytes = copy->longbytes = IDRSSellBytes(sell);
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  /* Without columns all entries of a slot have the same distance from the diagonal, which may need more slots */
  PetscCall(plan(true));
  units           = sell->units;
  slots           = sell->slots;
  packed->columns = true;
  if (!*why) PetscCall(plan(false));
  if (!*why && sell->units >= units) PetscCall(plan(true));
  else packed->columns = false;
  /* Entries in the slices, without long rows and a diagonal of ones */
  entries = nonzeros - lengths.longentries - (source->unit ? (PetscLogDouble)source->A.n : 0.0);
  if (!*why && (PetscLogDouble)slots * 2 * IDRS_WARP > PCPOLY_PADDING * (entries + 2 * IDRS_WARP) + PCPOLY_SPARE_PLACES)
    *why = "its rows are too uneven in length, or too wide";
  if (!*why) PetscCall(IDRSSellAllocate(sell, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  copy->bytes     = IDRSSellBytes(sell);
  copy->longbytes = (PetscLogDouble)sell->longrows.bytes;
  PetscCall(IDRSExceedsCache(copy->bytes + 3.0 * source->A.n * sizeof(PetscScalar), &sell->once));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Gets the diagonal block and its rows, or the reason why kernels cannot read them */
static PetscErrorCode PCPolyGetRows(Mat A, Mat *block, IDRSCSR *csr, const char *why[])
{
  PetscErrorCode (*get)(Mat, IDRSCSR *);

  PetscFunctionBegin;
  PetscCall(PetscObjectQueryFunction((PetscObject)A, IDRS_ROWS, &get));
  if (!get) PetscCall(IDRSMatRuns(A, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSRowsGetBlocks(A, block, NULL, NULL));
  PetscCall((*(get ? get : IDRSGetCSR))(*block, csr));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCPolyCopyCreate_CUDA(PCPolyCopy copy, Mat A, const char *why[])
{
  PCPolyCUDA  *packed;
  IDRSSource   source = {};
  cudaStream_t stream;
  int          device;
  Mat          block;

  PetscFunctionBegin;
  PetscCall(PetscNew(&packed));
  copy->data = packed;
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&packed->multiprocessors, cudaDevAttrMultiProcessorCount, device));
  PetscCall(PCPolyGetRows(A, &block, &source.A, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStream_CUDA(&stream));
  source.unit = copy->unit;
  PetscCall(PCPolyPackDiagonal(copy, block, &source, stream, why));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The host waits for the values, because the next product may read them before the end of the kernel before it, see
   IDRSRing::Begin()
*/
static PetscErrorCode PCPolyCopyFill_CUDA(PCPolyCopy copy, Mat A, Vec inverse, const char *why[], PetscBool *finite)
{
  PCPolyCUDA  *packed = (PCPolyCUDA *)copy->data;
  IDRSSource   source = {};
  cudaStream_t stream;
  Mat          block;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PCPolyGetRows(A, &block, &source.A, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  source.unit = copy->unit;
  if (inverse) PetscCall(IDRSGetArrayRead_CUDA(inverse, &source.inverse));
  source.scale = 1.0; /* until it is known */
  PetscCall(PCPolyFindScale(copy->precision, &source, 8 * packed->multiprocessors, stream, &packed->scale, finite));
  source.scale = packed->scale;
  if (*finite) {
    PetscCall(PCPolyDispatch(copy->precision, packed->columns,
                             [&](auto form) { return IDRSSellFill<decltype(form)>(&source, &packed->sell, stream); }));
    PetscCall(IDRSOffDiagonalSetUp(A, NULL, source.inverse, &packed->off, why));
    PetscCallCUDA(cudaStreamSynchronize(stream));
  }
  if (inverse) PetscCall(VecRestoreArrayReadAndMemType(inverse, &source.inverse));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Connects the processes for consecutive products without reductions between them: see halo.cuh */
static PetscErrorCode PCPolyCopyConnect_CUDA(PCPolyCopy copy, Mat A)
{
  PCPolyCUDA *packed    = (PCPolyCUDA *)copy->data;
  PetscBool   connected = PETSC_FALSE;
  const char *why;
  MPI_Comm    comm;
  Mat         block;

  PetscFunctionBegin;
  PetscCall(IDRSRowsGetBlocks(A, NULL, &block, NULL));
  PetscCall(PetscCommDuplicate(PetscObjectComm((PetscObject)A), &comm, NULL));
  PetscCall(IDRSPeersConnect(comm, PETSC_TRUE, NULL, &why));
  if (!why) PetscCall(IDRSOffDiagonalConnect(packed->off, comm, 1, &connected));
  if (connected) PetscCall(IDRSHaloIsMutual(packed->off->halo, packed->off->scatter, block, &connected));
  PetscCall(PetscCommDestroy(&comm));
  packed->halo = connected;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCPolyCopyDestroy_CUDA(PCPolyCopy copy)
{
  PCPolyCUDA *packed = (PCPolyCUDA *)copy->data;

  PetscFunctionBegin;
  PetscCall(IDRSSellDestroy(&packed->sell));
  PetscCall(IDRSOffDiagonalReset(&packed->off));
  PetscCall(PetscFree(copy->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The length of the ring allows three resident blocks, or one or two with wide values */
template <typename Form>
using PCPolyRing = IDRSRing<Form, (Form::slotbytes > 512 ? 2 : 3)>;

/* Arguments of a product; pairs: u, z and y are read and written for the two rows of a lane in one access */
typedef struct {
  PCPolyArrays vecs;
  PetscScalar  scaled; /* beta over the scale of the values */
  bool         once, unit, pairs;
  IDRSSends    sends;
} PCPolyArguments;

/*
   Computes y = d (alpha u + beta D^{-1}A z), or y = y + alpha u + beta D^{-1}A z. Reads A, u, z and d or y once, except entries of
   z that leave the caches before their next use; writes y
*/
template <typename Form>
static __global__ void __launch_bounds__(IDRS_THREADS, sizeof(typename Form::Value) <= 4 ? 3 : 1)
  PCPolyKernel(IDRSOverlap<true, true> overlap, IDRSSell A, PCPolyArguments arguments)
{
  const PetscScalar        alpha = arguments.vecs.alpha, beta = arguments.vecs.beta, scaled = arguments.scaled;
  const PetscScalar *const u = arguments.vecs.u, *const z = arguments.vecs.z, *const d = arguments.vecs.d;
  PetscScalar *const y    = arguments.vecs.y;
  const bool         unit = arguments.unit, pairs = arguments.pairs, adds = arguments.vecs.adds;

  extern __shared__ __align__(128) unsigned char rings[];
  uint32_t                                       row[2] = {0, 0};
  PetscScalar                                    sum[2] = {0.0, 0.0};
  IDRSPack<2>                                    ui = IDRSZero<2>(), zi = IDRSZero<2>();
  PCPolyRing<Form>                               ring;

  ring.Begin(A, rings, arguments.once);
  overlap.Begin();
  IDRSSendEntries(arguments.sends, z);
  while (ring.slots) {
    if (ring.first) {
      const uint32_t place = ring.slice * Form::slicerows + threadIdx.x % IDRS_WARP * 2;

#pragma unroll
      for (int q = 0; q < 2; q++) {
        row[q] = IDRSSellRow(A.perm, place + q, A.n);
        sum[q] = 0.0;
      }
      /* the loads of u and z overlap with the sums */
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
    /* sum_i += a_ij z_j */
    IDRSChunkAdd<Form>(A, ring.Await(), ring.slots, z, row, sum);
    ring.Next(A);
    if (ring.first) {
#pragma unroll
      for (int q = 0; q < 2; q++) {
        /* y_i = d_i (alpha u_i + beta z_i + beta sum_i) */
        ui.v[q] = alpha * ui.v[q] + beta * zi.v[q] + scaled * sum[q];
        if (d && row[q] < A.n) ui.v[q] *= d[row[q]];
        if (adds && row[q] < A.n) ui.v[q] += y[row[q]];
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
  /* Long rows, each by a warp */
  for (uint32_t k = IDRSFirstLongRow(); k < A.longrows.n; k += gridDim.x * IDRS_WARPS) {
    const PetscInt    i       = A.longindices[k];
    const PetscScalar entries = IDRSWarpRowSum<8>(A.longrows, z, k);

    if (threadIdx.x % IDRS_WARP == 0) {
      const PetscScalar yi = (d ? d[i] : (PetscScalar)1.0) *
                             (alpha * u[i] + (unit ? beta * z[i] : (PetscScalar)0.0) + scaled * entries);

      y[i] = adds ? y[i] + yi : yi;
    }
  }
}

/* Adds y += d beta A_out z, one thread per row; d is NULL for ones. ghosts: an array, or messages */
template <typename Ghosts>
static __global__ void __launch_bounds__(IDRS_THREADS)
  PCPolyOuterKernel(IDRSOverlap<true, true> overlap, IDRSCSR A, const PetscInt *rows, PetscScalar beta, Ghosts ghosts,
                    const PetscScalar *d, PetscScalar *y)
{
  overlap.Begin();
  for (size_t k = IDRSFirstRow<1>(); k < A.n; k += IDRSRowStride<1>())
    y[rows[k]] += (d ? d[rows[k]] * beta : beta) * IDRSRowPart<4>(A, ghosts, (IDRSIndex)k, 0, 1);
}

/* Launches the kernel with a limited number of blocks */
template <typename Ghosts>
static PetscErrorCode PCPolyOuterLaunch(const IDRSCompressedRows *some, int multiprocessors, size_t most, cudaStream_t stream,
                                        Ghosts ghosts, const PCPolyArrays *arrays)
{
  const size_t enough = ((size_t)some->A.n + IDRS_THREADS - 1) / IDRS_THREADS;

  PetscFunctionBegin;
  (void)IDRSLaunchResident<PCPolyOuterKernel<Ghosts>>(multiprocessors, PetscMin(enough, most), 0, true, stream, some->A,
                                                      (const PetscInt *)some->rows, arrays->beta, ghosts, arrays->d, arrays->y);
  PetscCallCUDA(cudaGetLastError());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Adds the products with entries outside the diagonal block: y += d beta D^{-1}A_out z */
static PetscErrorCode PCPolyAddOffDiagonal(const PCPolyCUDA *packed, bool halo, cudaStream_t stream, Vec z,
                                           const PCPolyArrays *arrays)
{
  const IDRSOffDiagonal off = packed->off;
  const PetscScalar    *ghosts;

  PetscFunctionBegin;
  if (halo)
    PetscCall(
      PCPolyOuterLaunch(&off->some, packed->multiprocessors, IDRSWaitingBlocks(), stream, IDRSHaloGetGhosts(off->halo), arrays));
  else {
    PetscCall(VecScatterEnd(off->scatter, z, off->ghosts, INSERT_VALUES, SCATTER_FORWARD));
    PetscCall(IDRSGetArrayRead_CUDA(off->ghosts, &ghosts));
    PetscCall(PCPolyOuterLaunch(&off->some, packed->multiprocessors, SIZE_MAX, stream, ghosts, arrays));
    PetscCall(VecRestoreArrayReadAndMemType(off->ghosts, &ghosts));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Multiplies by the diagonal block, and sends entries of z inside the kernel if the processes are connected */
static PetscErrorCode PCPolyMultiplyDiagonal(PCPolyCopy copy, IDRSSends sends, cudaStream_t stream, const PCPolyArrays *arrays)
{
  const PCPolyCUDA   *packed    = (const PCPolyCUDA *)copy->data;
  const IDRSSellCopy *sell      = &packed->sell;
  PCPolyArguments     arguments = {*arrays, arrays->beta / packed->scale, (bool)sell->once, (bool)copy->unit, !sell->A.perm, sends};

  PetscFunctionBegin;
  if (!IDRSAligned(arrays->z) || !IDRSAligned(arrays->u) || !IDRSAligned(arrays->y)) arguments.pairs = false;
  PetscCall(PCPolyDispatch(copy->precision, packed->columns, [&](auto form) {
    typedef decltype(form) Form;

    PetscFunctionBegin;
    (void)IDRSLaunchResident<PCPolyKernel<Form>>(packed->multiprocessors, IDRSSellBlocks(sell->A), PCPolyRing<Form>::bytes,
                                                 !sell->once, stream, sell->A, arguments);
    PetscCallCUDA(cudaGetLastError());
    PetscFunctionReturn(PETSC_SUCCESS);
  }));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCPolyCopyMultiplyAdd_CUDA(PCPolyCopy copy, const PCPolyProduct *product)
{
  const PCPolyCUDA *packed = (const PCPolyCUDA *)copy->data;
  /* it ends with the connection of the processes */
  const bool halo = packed->halo && IDRSHaloIsValid(packed->off->halo), inplace = product->y == product->u,
             changes  = inplace || product->adds;
  PCPolyArrays arrays = {product->alpha, product->beta, NULL, NULL, NULL, NULL, (bool)product->adds};
  cudaStream_t stream;
  IDRSBoundary boundary;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSOffDiagonalBegin(packed->off, product->z, halo, &boundary));
  PetscCall(IDRSGetArrayRead_CUDA(product->z, &arrays.z));
  if (product->d) PetscCall(IDRSGetArrayRead_CUDA(product->d, &arrays.d));
  if (!inplace) PetscCall(IDRSGetArrayRead_CUDA(product->u, &arrays.u));
  PetscCall(IDRSGetArray_CUDA(product->y, changes ? VecGetArrayAndMemType : VecGetArrayWriteAndMemType, &arrays.y));
  if (inplace) arrays.u = arrays.y;
  PetscCall(PetscLogGpuTimeBegin());
  if (packed->sell.A.n) PetscCall(PCPolyMultiplyDiagonal(copy, boundary.sends, stream, &arrays));
  if (packed->off) PetscCall(PCPolyAddOffDiagonal(packed, halo, stream, product->z, &arrays));
  PetscCall(PetscLogGpuTimeEnd());
  if (changes) PetscCall(VecRestoreArrayAndMemType(product->y, &arrays.y));
  else PetscCall(VecRestoreArrayWriteAndMemType(product->y, &arrays.y));
  if (!inplace) PetscCall(VecRestoreArrayReadAndMemType(product->u, &arrays.u));
  if (product->d) PetscCall(VecRestoreArrayReadAndMemType(product->d, &arrays.d));
  PetscCall(VecRestoreArrayReadAndMemType(product->z, &arrays.z));
  PetscCall(PetscLogGpuFlops(((copy->unit ? 6.0 : 5.0) + (product->d || product->adds ? 1.0 : 0.0)) * packed->sell.A.n +
                             4.0 * IDRS_WARP * (PetscLogDouble)packed->sell.slots +
                             2.0 * (PetscLogDouble)packed->sell.longrows.entries));
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const PCPolyCopyOps PCPolyCopies_CUDA = {
  PetscDesignatedInitializer(create, PCPolyCopyCreate_CUDA),
  PetscDesignatedInitializer(fill, PCPolyCopyFill_CUDA),
  PetscDesignatedInitializer(connect, PCPolyCopyConnect_CUDA),
  PetscDesignatedInitializer(multiplyadd, PCPolyCopyMultiplyAdd_CUDA),
  PetscDesignatedInitializer(destroy, PCPolyCopyDestroy_CUDA),
};
// clang-format on
