/*
   The copy of D^{-1}A of a MATAIJSTREAM, in GPU memory: its chunks with packed columns, and with values in half, single or full
   precision. It is created chunk by chunk in passes over the matrix, and uses memory of the stream. On several processes it has the
   diagonal block. Other entries are in double precision, and are added after the halo of the vector has arrived.

   Values are multiplied by a power of two, as in polycuda.cu; vectors keep the precision of PetscScalar.
*/
#include <petscidrs/private/idrsstream.h>
#include "../../../../sys/device/memory.h"
#include "../../../../mat/impls/stream/streamlevel.cuh"
#include "../../../../sys/kernels/csr.h"
#include "../../../../sys/device/stream.h"
#include "polycopy.h"
#include "polyouter.cuh"
#include "polyscale.cuh"

typedef struct {
  Mat              A;     /* the diagonal block, whose stream provides the memory */
  size_t           bytes; /* of this memory */
  PetscInt         nchunks;
  IDRSStreamChunk *chunks; /* like the chunks of the stream */
  size_t          *places; /* of the packed part of each chunk; its values follow */
  char            *memory;
  PetscReal        scale;
  PCPolyPrecision  precision;
  /* On several processes */
  IDRSCompressedRows outer; /* rows with entries outside the diagonal block */
  VecScatter         scatter;
  Vec                ghosts; /* the entries of the vector that they need */
  int                multiprocessors;
  /* While the copy is made: the chunks of the stream, D^{-1}, and the largest value */
  const IDRSStreamChunk *passing;
  const PetscScalar     *inverse;
  unsigned long long    *largest;
} PCPolyStream;

/* Returns the number of blocks in which each thread has a row */
static unsigned int PCPolyStreamBlocks(const IDRSStreamChunk *chunk)
{
  return (unsigned int)((chunk->rows + IDRS_STREAM_THREADS - 1) / IDRS_STREAM_THREADS);
}

/* A thread stores the entries of a row of D^{-1}A times scale, or, without memory for them, updates the largest value */
template <typename Value>
static __global__ void __launch_bounds__(IDRS_STREAM_THREADS)
  PCPolyStreamFillKernel(const uint32_t *offsets, const PetscScalar *a, int32_t row, int32_t rows, const PetscScalar *inverse,
                         PetscReal scale, Value *values, unsigned long long *largest)
{
  const int32_t      r    = (int32_t)blockIdx.x * IDRS_STREAM_THREADS + (int32_t)threadIdx.x;
  unsigned long long mine = 0;

  if (r < rows) {
    for (uint32_t p = offsets[r]; p < offsets[r + 1]; p++) {
      const PetscScalar entry = (inverse ? inverse[row + r] * a[p] : a[p]) * scale;

      if (values) IDRSNarrowValue(entry, values + p);
      else mine = max(mine, PCPolySizeBits(entry));
    }
  }
  if (!values) IDRSKeepLargest(mine, largest);
}

/* Copies a chunk of a pass, or updates the largest value */
static PetscErrorCode PCPolyStreamVisit(void *ctx, const IDRSStreamTask *task)
{
  const PCPolyStream    *copy  = (const PCPolyStream *)ctx;
  const IDRSStreamChunk *chunk = task->chunk;
  char                  *to    = NULL;
  cudaStream_t           stream;

  PetscFunctionBegin;
  if (copy->memory) to = copy->memory + copy->places[chunk - copy->passing];
  PetscCall(IDRSStream_CUDA(&stream));
  if (to) PetscCallCUDA(cudaMemcpyAsync(to, task->memory, chunk->packedbytes, cudaMemcpyDeviceToDevice, stream));
  PetscCall(PCPolyDispatchValue(copy->precision, [&](auto value) -> PetscErrorCode {
    typedef decltype(value) Value;

    PetscFunctionBegin;
    PCPolyStreamFillKernel<Value><<<PCPolyStreamBlocks(chunk), IDRS_STREAM_THREADS, 0, stream>>>(
      (const uint32_t *)task->memory, (const PetscScalar *)(task->memory + IDRSStreamValuesPlace(chunk)), (int32_t)chunk->row,
      (int32_t)chunk->rows, copy->inverse, copy->scale, to ? (Value *)(to + IDRSStreamValuesPlace(chunk)) : NULL, copy->largest);
    PetscCallCUDA(cudaGetLastError());
    PetscFunctionReturn(PETSC_SUCCESS);
  }));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes a pass with a visit to each chunk */
static PetscErrorCode PCPolyStreamPass(PCPolyStream *copy)
{
  IDRSStreamSequence sequence = {};
  IDRSStream         stream;
  PetscInt           levels;

  PetscFunctionBegin;
  sequence.product = PETSC_TRUE;
  sequence.levels  = 1;
  sequence.visit   = PCPolyStreamVisit;
  sequence.visitor = copy;
  PetscCall(MatStreamGet_Private(copy->A, &stream));
  PetscCall(IDRSStreamReserve(stream, 1, &levels));
  copy->passing = stream->pattern->chunks;
  PetscCall(IDRSStreamPass(stream, &sequence));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the places of the chunks, and allocates them from the memory of the stream */
static PetscErrorCode PCPolyStreamAllocate(PCPolyStream *copy, const char *why[])
{
  size_t     bytes = 0, valuebytes = 0;
  IDRSStream stream;
  PetscBool  taken;

  PetscFunctionBegin;
  PetscCall(PCPolyDispatchValue(copy->precision, [&](auto value) -> PetscErrorCode {
    valuebytes = sizeof(value);
    return PETSC_SUCCESS;
  }));
  PetscCall(MatStreamGet_Private(copy->A, &stream));
  copy->nchunks = stream->pattern->nchunks;
  PetscCall(PetscMalloc2(copy->nchunks, &copy->chunks, copy->nchunks, &copy->places));
  PetscCall(PetscArraycpy(copy->chunks, stream->pattern->chunks, copy->nchunks));
  for (PetscInt c = 0; c < copy->nchunks; c++) {
    copy->places[c] = bytes;
    bytes += IDRSStreamAlign(IDRSStreamValuesPlace(&copy->chunks[c]) + copy->chunks[c].entries * valuebytes);
  }
  /* memory that the stream does not use, within the limit of -mat_stream_memory */
  PetscCall(MatStreamReserveCopy_Private(copy->A, bytes, &taken));
  if (!taken) *why = "-mat_stream_memory does not hold a copy";
  else {
    copy->bytes = bytes;
    PetscCall(IDRSMalloc_CUDA(bytes, &copy->memory, why));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies the entries outside the diagonal block, and gets the scatter of the entries of the vector that they need */
static PetscErrorCode PCPolyStreamOuter(PCPolyStream *copy, Mat A, const char *why[])
{
  IDRSSource     source = {};
  IDRSRowLengths lengths;
  cudaStream_t   stream;
  int            device;
  Mat            outside;
  Vec            like;

  PetscFunctionBegin;
  PetscCall(MatCreateVecs(A, &like, NULL));
  PetscCall(MatStreamGetOutside_Private(A, like, &outside, &copy->scatter, &copy->ghosts));
  PetscCall(VecDestroy(&like));
  PetscCall(PetscObjectReference((PetscObject)copy->scatter));
  PetscCall(PetscObjectReference((PetscObject)copy->ghosts));
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&copy->multiprocessors, cudaDevAttrMultiProcessorCount, device));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(IDRSGetCSR(outside, &source.A));
  source.inverse = copy->inverse;
  source.scale   = 1.0;
  PetscCall(IDRSGetRowLengths(&source.A, 0, &lengths));
  PetscCall(IDRSCompressedRowsSelect(&source.A, 0, &lengths, &copy->outer, stream, why));
  if (!*why) PetscCall(IDRSCompressedRowsFill(&source, &copy->outer, stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCPolyCopyCreate_Stream(PCPolyCopy newcopy, Mat A, Vec inverse, PetscBool unit, const char *why[],
                                              PetscBool *finite)
{
  PCPolyStream     *copy;
  MatStreamSettings settings;
  PetscBool         parallel;
  cudaStream_t      stream;
  Mat               block = A;

  PetscFunctionBegin;
  (void)unit;
  PetscCall(PetscNew(&copy));
  newcopy->data   = copy;
  copy->precision = newcopy->precision;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJSTREAM, &parallel));
  if (parallel) PetscCall(MatStreamGetBlock_Private(A, &block, NULL, NULL));
  PetscCall(PetscObjectReference((PetscObject)block));
  copy->A = block;
  if (inverse) PetscCall(VecGetArrayReadAndMemType(inverse, &copy->inverse, NULL));
  if (parallel) PetscCall(PCPolyStreamOuter(copy, A, why));
  PetscCall(MatStreamGetSettings_Private(block, &settings));
  if (settings.ordered) *why = "a copy needs the order of the matrix; remove -mat_stream_ordering";
  else {
    PetscCall(IDRSStream_CUDA(&stream));
    copy->scale = 1.0; /* until it is known */
    PetscCall(PCPolyFindScale(
      copy->precision, stream,
      [&](unsigned long long *largest) {
        copy->largest = largest;
        return PCPolyStreamPass(copy);
      },
      &copy->scale, finite));
  }
  /* With memory for the values a pass fills them */
  if (*finite && !*why) PetscCall(PCPolyStreamAllocate(copy, why));
  if (*finite && !*why) PetscCall(PCPolyStreamPass(copy));
  if (inverse) PetscCall(VecRestoreArrayReadAndMemType(inverse, &copy->inverse));
  newcopy->bytes = (PetscLogDouble)(copy->bytes + copy->outer.bytes);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCPolyCopyDestroy_Stream(PCPolyCopy newcopy)
{
  PCPolyStream *copy = (PCPolyStream *)newcopy->data;

  PetscFunctionBegin;
  PetscCallCUDA(cudaFree(copy->memory));
  if (copy->bytes) PetscCall(MatStreamReleaseCopy_Private(copy->A, copy->bytes));
  PetscCall(PetscFree2(copy->chunks, copy->places));
  PetscCall(IDRSCompressedRowsDestroy(&copy->outer));
  PetscCall(VecScatterDestroy(&copy->scatter));
  PetscCall(VecDestroy(&copy->ghosts));
  PetscCall(MatDestroy(&copy->A));
  PetscCall(PetscFree(newcopy->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes y = d (alpha u + beta D^{-1}A z) for the rows of a chunk. beta includes the inverse scale of the copy; d is NULL for
   ones
*/
template <typename Code, typename Value>
static __global__ void __launch_bounds__(IDRS_STREAM_THREADS)
  PCPolyStreamKernel(IDRSStreamRows<Code, Value> A, uint32_t tile, PetscScalar alpha, const PetscScalar *u, PetscScalar scaled,
                     IDRSStreamLevel z, const PetscScalar *d, PetscScalar *y)
{
  extern __shared__ __align__(16) unsigned char memory[];
  const int32_t                                 r   = (int32_t)blockIdx.x * IDRS_STREAM_THREADS + (int32_t)threadIdx.x;
  const PetscScalar                             sum = IDRSStreamSum<false>(A, z, tile, memory);

  if (r < A.rows) y[A.row + r] = (d ? d[A.row + r] : (PetscScalar)1.0) * (alpha * u[A.row + r] + scaled * sum);
}

template <typename Code, typename Value>
static PetscErrorCode PCPolyStreamLaunch(const PCPolyStream *copy, PetscInt c, cudaStream_t stream, const PCPolyArrays *arrays)
{
  const IDRSStreamChunk            *chunk  = &copy->chunks[c];
  const char                       *memory = copy->memory + copy->places[c];
  const IDRSStreamRows<Code, Value> A(*chunk, memory, memory + IDRSStreamValuesPlace(chunk));
  const uint32_t                    tile  = IDRSStreamTile<Code, Value>(*chunk);
  const size_t                      bytes = tile * (sizeof(Value) + sizeof(Code));
  IDRSStreamLevel                   z     = {};

  PetscFunctionBegin;
  z.array = (PetscScalar *)arrays->z; /* z is only read */
  z.rows  = PETSC_MAX_INT;
  PetscCallCUDA(IDRSStreamAllow(PCPolyStreamKernel<Code, Value>, bytes));
  PCPolyStreamKernel<Code, Value>
    <<<PCPolyStreamBlocks(chunk), IDRS_STREAM_THREADS, bytes, stream>>>(A, tile, arrays->alpha, arrays->u,
                                                                        arrays->beta / copy->scale, z, arrays->d, arrays->y);
  PetscCallCUDA(cudaGetLastError());
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCPolyCopyMultiplyAdd_Stream(PCPolyCopy newcopy, const PCPolyProduct *product)
{
  const PCPolyStream *copy = (const PCPolyStream *)newcopy->data;
  PCPolyArrays        arrays;
  cudaStream_t        stream;
  PetscLogDouble      entries = 0.0, rows = 0.0;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  if (copy->scatter) PetscCall(VecScatterBegin(copy->scatter, product->z, copy->ghosts, INSERT_VALUES, SCATTER_FORWARD));
  PetscCall(PCPolyGetArrays_Private(product, PETSC_TRUE, &arrays));
  PetscCall(PetscLogGpuTimeBegin());
  /* y = d (alpha u + beta D^{-1}A_in z), chunk by chunk */
  for (PetscInt c = 0; c < copy->nchunks; c++) {
    const PetscInt width = copy->chunks[c].width;

    PetscCall(PCPolyDispatchValue(copy->precision, [&](auto value) {
      typedef decltype(value) Value;

      if (width == 1) return PCPolyStreamLaunch<uint8_t, Value>(copy, c, stream, &arrays);
      if (width == 2) return PCPolyStreamLaunch<uint16_t, Value>(copy, c, stream, &arrays);
      return PCPolyStreamLaunch<uint32_t, Value>(copy, c, stream, &arrays);
    }));
    /* 2 flops for each entry, 3 for each row */
    entries += (PetscLogDouble)copy->chunks[c].entries;
    rows += (PetscLogDouble)copy->chunks[c].rows;
  }
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(PetscLogGpuFlops(2.0 * entries + 3.0 * rows));
  if (copy->scatter) {
    const PetscScalar *ghosts;

    /* y += d beta D^{-1}A_out z */
    PetscCall(VecScatterEnd(copy->scatter, product->z, copy->ghosts, INSERT_VALUES, SCATTER_FORWARD));
    PetscCall(VecGetArrayReadAndMemType(copy->ghosts, &ghosts, NULL));
    PetscCall(PCPolyOuterLaunch(&copy->outer, copy->multiprocessors, SIZE_MAX, stream, ghosts, &arrays));
    PetscCall(VecRestoreArrayReadAndMemType(copy->ghosts, &ghosts));
  }
  PetscCall(PCPolyRestoreArrays_Private(product, &arrays));
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const PCPolyCopyOps PCPolyCopies_Stream = {
  PetscDesignatedInitializer(narrowest, PC_POLY_PRECISION_HALF),
  PetscDesignatedInitializer(create, PCPolyCopyCreate_Stream),
  PetscDesignatedInitializer(connect, PCPolyCopyConnect_Scatter),
  PetscDesignatedInitializer(multiplyadd, PCPolyCopyMultiplyAdd_Stream),
  PetscDesignatedInitializer(destroy, PCPolyCopyDestroy_Stream),
};
// clang-format on
