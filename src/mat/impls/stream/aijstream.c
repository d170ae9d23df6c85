/*
   MATAIJSTREAM: what both types have in common, and the sequential one. It is a MATSEQAIJ with a few other operations: those that
   multiply, and those that may free or move the arrays, from which copies may be made only while they are registered
*/
#include "aijstream.h"
#include <petscidrs/private/idrsrows.h>
#if defined(PETSCIDRS_HAVE_CUDA)
  #include "streamcuda.h"
#endif

static const char *const functions[MATSTREAM_FUNCTIONS] = {"MatSeqAIJSetPreallocation_C", "MatSeqAIJSetPreallocationCSR_C",
                                                           "MatSetPreallocationCOO_C", "MatResetPreallocation_C", "MatResetHash_C"};

static const char *const orderings[] = {"natural", "rcm", "MatStreamOrdering", "MAT_STREAM_ORDERING_", NULL};

static PetscErrorCode MatConvert_AIJStream(Mat, MatType, MatReuse, Mat *);
static PetscErrorCode MatConvertFrom_AIJStream(Mat, MatType, MatReuse, Mat *);
static PetscErrorCode MatLUFactor_SeqAIJStream(Mat, IS, IS, const MatFactorInfo *);

static inline Mat_AIJStream *Data(Mat A)
{
  return (Mat_AIJStream *)A->spptr;
}

/* Nothing is kept of the arrays, as others take their place */
static PetscErrorCode Forget(Mat A)
{
  PetscFunctionBegin;
  PetscCall(IDRSStreamDestroy(&Data(A)->stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   MatStreamLimit_Private - Bytes for the stream, beside the copies: -mat_stream_memory or its share, without theirs, at least one;
   or 0: half of what is free
*/
size_t MatStreamLimit_Private(Mat A)
{
  const Mat_AIJStream *data   = Data(A);
  const size_t         memory = data->settings.memory > 0.0 ? (size_t)data->settings.memory : data->share, taken = data->taken;

  return memory > taken ? memory - taken : memory ? 1 : 0;
}

/*
   The arrays may be freed or moved; on several processes those of the diagonal block. As long as the pattern stays the same, what
   is known of it is of use again
*/
static PetscErrorCode Unpin(Mat A)
{
  PetscBool parallel, streams = PETSC_TRUE;
  Mat       block = A;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJSTREAM, &parallel));
  if (parallel) PetscCall(MatMPIAIJGetSeqAIJ(A, &block, NULL, NULL));
  if (parallel && block) PetscCall(PetscObjectTypeCompare((PetscObject)block, MATSEQAIJSTREAM, &streams));
  if (block && streams && Data(block)->stream) PetscCall(IDRSStreamUnpin(Data(block)->stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatSetValues_AIJStream(Mat A, PetscInt m, const PetscInt rows[], PetscInt n, const PetscInt columns[],
                                             const PetscScalar values[], InsertMode mode)
{
  PetscFunctionBegin;
  PetscCall(Unpin(A));
  PetscCall((*Data(A)->parent.setvalues)(A, m, rows, n, columns, values, mode));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatLoad_AIJStream(Mat A, PetscViewer viewer)
{
  PetscFunctionBegin;
  PetscCall(Unpin(A));
  PetscCall((*Data(A)->parent.load)(A, viewer));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* On several processes it inserts the values of other processes. Some releases set MatMult() */
static PetscErrorCode MatAssemblyEnd_AIJStream(Mat A, MatAssemblyType mode)
{
  PetscErrorCode (*const mult)(Mat, Vec, Vec) = A->ops->mult;

  PetscFunctionBegin;
  PetscCall(Unpin(A));
  PetscCall((*Data(A)->parent.assemblyend)(A, mode));
  A->ops->mult = mult;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* With MAT_SORTED_FULL MATAIJ takes another MatSetValues(), or the usual one again */
static PetscErrorCode MatSetOption_AIJStream(Mat A, MatOption option, PetscBool set)
{
  /* until it is assembled, MatSetUp() may have set another one */
  PetscBool mine = (PetscBool)(A->ops->setvalues == MatSetValues_AIJStream);

  PetscFunctionBegin;
  PetscCall((*Data(A)->parent.setoption)(A, option, set));
  if (mine && A->ops->setvalues != MatSetValues_AIJStream) {
    Data(A)->parent.setvalues = A->ops->setvalues;
    A->ops->setvalues         = MatSetValues_AIJStream;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatSeqAIJSetPreallocation_AIJStream(Mat A, PetscInt nz, const PetscInt nnz[])
{
  PetscFunctionBegin;
  PetscCall(Forget(A));
  PetscCall((*(PetscErrorCode(*)(Mat, PetscInt, const PetscInt[]))Data(A)->functions[0])(A, nz, nnz));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatSeqAIJSetPreallocationCSR_AIJStream(Mat A, const PetscInt i[], const PetscInt j[], const PetscScalar a[])
{
  PetscFunctionBegin;
  PetscCall(Forget(A));
  PetscCall((*(PetscErrorCode(*)(Mat, const PetscInt[], const PetscInt[], const PetscScalar[]))Data(A)->functions[1])(A, i, j, a));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatSetPreallocationCOO_AIJStream(Mat A, PetscCount n, PetscInt i[], PetscInt j[])
{
  PetscFunctionBegin;
  PetscCall(Forget(A));
  PetscCall((*(PetscErrorCode(*)(Mat, PetscCount, PetscInt[], PetscInt[]))Data(A)->functions[2])(A, n, i, j));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatResetPreallocation_AIJStream(Mat A)
{
  PetscFunctionBegin;
  PetscCall(Forget(A));
  PetscCall((*(PetscErrorCode(*)(Mat))Data(A)->functions[3])(A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatResetHash_AIJStream(Mat A)
{
  PetscFunctionBegin;
  PetscCall(Forget(A));
  PetscCall((*(PetscErrorCode(*)(Mat))Data(A)->functions[4])(A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Some releases do not note that these values are others */
static PetscErrorCode MatRetrieveValues_AIJStream(Mat A)
{
  PetscBool parallel;
  Mat       block, outside;

  PetscFunctionBegin;
  PetscCall((*Data(A)->retrievevalues)(A));
  PetscCall(PetscObjectStateIncrease((PetscObject)A));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJSTREAM, &parallel));
  if (!parallel) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(MatMPIAIJGetSeqAIJ(A, &block, &outside, NULL));
  PetscCall(PetscObjectStateIncrease((PetscObject)block));
  PetscCall(PetscObjectStateIncrease((PetscObject)outside));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* What both types keep of products, freed */
PetscErrorCode MatStreamReset_Private(Mat A)
{
  Mat_AIJStream *data = Data(A);

  PetscFunctionBegin;
  PetscCall(IDRSStreamDestroy(&data->stream));
  PetscCall(MatDestroy(&data->off));
  PetscCall(VecScatterDestroy(&data->scatter));
  PetscCall(VecDestroy(&data->ghosts));
  PetscCall(MatStreamGhostsDestroy_Private(&data->deep));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* By MatDestroy(), and by MatHeaderMerge(), which gives the matrix the data of another one of this type */
static PetscErrorCode MatDestroy_AIJStream(Mat A)
{
  PetscErrorCode (*const destroy)(Mat) = Data(A)->parent.destroy;

  PetscFunctionBegin;
  PetscCall(MatStreamReset_Private(A));
  PetscCall(PetscFree(A->spptr));
  PetscCall((*destroy)(A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamCopySettings_Private - Gives B the settings of A, both of which are of this type */
PetscErrorCode MatStreamCopySettings_Private(Mat A, Mat B)
{
  PetscFunctionBegin;
  Data(B)->settings = Data(A)->settings;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The copy has the same settings */
static PetscErrorCode MatDuplicate_AIJStream(Mat A, MatDuplicateOption option, Mat *B)
{
  PetscFunctionBegin;
  PetscCall((*Data(A)->parent.duplicate)(A, option, B));
  PetscCall(MatStreamCopySettings_Private(A, *B));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* What MatHeaderMerge() does not give to the matrix that takes the data of another one of this type */
typedef struct {
  MatStreamSettings          settings;
  const IDRSStreamDeviceOps *ops;
  void                      *device;
} Kept;

static Kept Keep(Mat A)
{
  return (Kept){.settings = Data(A)->settings, .ops = Data(A)->ops, .device = Data(A)->device};
}

static void SetKept(Mat A, const Kept *kept)
{
  Data(A)->settings = kept->settings;
  Data(A)->ops      = kept->ops;
  Data(A)->device   = kept->device;
}

static PetscErrorCode MatAXPY_AIJStream(Mat Y, PetscScalar a, Mat X, MatStructure structure)
{
  const Kept kept = Keep(Y);

  PetscFunctionBegin;
  PetscCall((*Data(Y)->parent.axpy)(Y, a, X, structure));
  SetKept(Y, &kept);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatTranspose_AIJStream(Mat A, MatReuse reuse, Mat *B)
{
  const Kept kept = Keep(A);

  PetscFunctionBegin;
  PetscCall((*Data(A)->parent.transpose)(A, reuse, B));
  if (reuse == MAT_INPLACE_MATRIX) SetKept(*B, &kept);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatSetFromOptions_AIJStream(Mat A, IDRSOptionItems PetscOptionsObject)
{
  Mat_AIJStream    *data     = Data(A);
  MatStreamSettings settings = data->settings;
  PetscBool         limited, others;
  PetscEnum         ordering = (PetscEnum)settings.ordered;

  PetscFunctionBegin;
  if (data->parent.setfromoptions) PetscCall((*data->parent.setfromoptions)(A, PetscOptionsObject));
  PetscOptionsHeadBegin(PetscOptionsObject, "Options of MATAIJSTREAM");
  PetscCall(
    PetscOptionsReal("-mat_stream_chunk", "Bytes of a chunk of rows", "MATAIJSTREAM", settings.chunk, &settings.chunk, NULL));
  PetscCheck(settings.chunk >= 1.0 && settings.chunk < 1e18, PetscObjectComm((PetscObject)A), PETSC_ERR_ARG_OUTOFRANGE,
             "-mat_stream_chunk %g: must be a positive number of bytes", (double)settings.chunk);
  PetscCall(PetscOptionsReal("-mat_stream_memory",
                             "Bytes of the GPU's memory; without it half of what is free, shared by processes", "MATAIJSTREAM",
                             settings.memory, &settings.memory, &limited));
  PetscCheck(!limited || (settings.memory >= 1.0 && settings.memory < 1e18), PetscObjectComm((PetscObject)A),
             PETSC_ERR_ARG_OUTOFRANGE, "-mat_stream_memory %g: must be a positive number of bytes", (double)settings.memory);
  PetscCall(PetscOptionsBool("-mat_stream_pageable", "Do not register the memory of the host", "MATAIJSTREAM", settings.pageable,
                             &settings.pageable, NULL));
  PetscCall(PetscOptionsInt("-mat_stream_columns", "The fewest bits of columns: 8, 16 or 32", "MATAIJSTREAM", settings.columns,
                            &settings.columns, NULL));
  PetscCheck(settings.columns == 8 || settings.columns == 16 || settings.columns == 32, PetscObjectComm((PetscObject)A),
             PETSC_ERR_ARG_OUTOFRANGE, "-mat_stream_columns %" PetscInt_FMT ": must be 8, 16 or 32", settings.columns);
  PetscCall(PetscOptionsEnum("-mat_stream_ordering", "Order of the chunks", "MATAIJSTREAM", orderings, ordering, &ordering, NULL));
  PetscOptionsHeadEnd();
  settings.ordered = ordering ? PETSC_TRUE : PETSC_FALSE;
  others           = (PetscBool)(settings.chunk != data->settings.chunk || settings.pageable != data->settings.pageable ||
                       settings.columns != data->settings.columns || settings.ordered != data->settings.ordered);
  data->settings   = settings;
  if (others) PetscCall(MatStreamReset_Private(A));
  else if (limited && data->stream && data->stream->limit != MatStreamLimit_Private(A))
    PetscCall(IDRSStreamSetLimit(data->stream, MatStreamLimit_Private(A)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* z = y + A x. On several processes MatMult() sees to it that all of them communicate, wherever their vectors are */
static PetscErrorCode MatMultAdd_AIJStream(Mat A, Vec x, Vec y, Vec z)
{
  PetscBool      parallel, takes;
  Vec            product = z;
  PetscErrorCode ierr;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJSTREAM, &parallel));
  PetscCall(parallel ? MatStreamTakesType_Private(A, x, &takes) : MatStreamTakes_Private(A, x, &takes));
  if (takes) PetscCall(parallel ? MatStreamTakesType_Private(A, z, &takes) : MatStreamTakes_Private(A, z, &takes));
  if (!takes) {
    PetscCall((*Data(A)->parent.multadd)(A, x, y, z));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (y == z) PetscCall(VecDuplicate(z, &product));
  /* MatMult() would refuse vectors of several processes, which MATMPIAIJ gives to its diagonal block */
  ierr = (*A->ops->mult)(A, x, product);
  if (!ierr) ierr = VecAXPY(z, 1.0, y == z ? product : y);
  if (y == z) PetscCall(VecDestroy(&product));
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamTakesType_Private - Whether vectors of this type are those of the device, for all processes */
PetscErrorCode MatStreamTakesType_Private(Mat A, Vec x, PetscBool *takes)
{
  const Mat_AIJStream *data = Data(A);

  PetscFunctionBegin;
  *takes = PETSC_FALSE;
  if (data->ops && data->ops->memtype == PETSC_MEMTYPE_HOST)
    PetscCall(PetscObjectTypeCompareAny((PetscObject)x, takes, VECSEQ, VECMPI, ""));
#if defined(PETSCIDRS_HAVE_CUDA)
  else if (data->ops) PetscCall(PetscObjectTypeCompareAny((PetscObject)x, takes, VECSEQCUDA, VECMPICUDA, ""));
#endif
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   MatStreamTakes_Private - Whether products with this vector are computed on the device, by this process: with -vec_bind_below
   others may compute theirs on the host
*/
PetscErrorCode MatStreamTakes_Private(Mat A, Vec x, PetscBool *takes)
{
  PetscBool bound[2];

  PetscFunctionBegin;
  PetscCall(MatStreamTakesType_Private(A, x, takes));
  if (!Data(A)->ops || Data(A)->ops->memtype == PETSC_MEMTYPE_HOST) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecBoundToCPU(x, &bound[0]));
  PetscCall(MatBoundToCPU(A, &bound[1]));
  if (bound[0] || bound[1]) *takes = PETSC_FALSE;
  if (!*takes)
    PetscCall(
      PetscInfo(A, "Product on the host: %s\n", bound[1] ? "the matrix is bound to the CPU" : "the vectors are not on the GPU"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamGet_Private - The matrix as a device has it, with the values of now */
PetscErrorCode MatStreamGet_Private(Mat A, IDRSStream *stream)
{
  Mat_AIJStream    *data = Data(A);
  PetscObjectState  state;
  IDRSRows          rows;
  IDRSStreamPattern pattern;

  PetscFunctionBegin;
  PetscCheck(A->assembled, PETSC_COMM_SELF, PETSC_ERR_ARG_WRONGSTATE, "Not for unassembled matrix");
  PetscCall(PetscObjectStateGet((PetscObject)A, &state));
  PetscCall(IDRSRowsGet(A, &rows));
  if (data->stream &&
      (data->nonzerostate != A->nonzerostate || data->stream->pattern->entries != (size_t)(rows.n ? rows.i[rows.n] : 0)))
    PetscCall(IDRSStreamDestroy(&data->stream));
  if (data->stream) {
    if (data->state != state || data->stream->values != rows.a) PetscCall(IDRSStreamSetValues(data->stream, rows.a));
  } else {
    void *device = data->device;

    PetscCall(IDRSStreamPatternCreate(rows.n, A->cmap->n, rows.i, rows.j, (size_t)data->settings.chunk, data->settings.columns / 8,
                                      data->settings.ordered, &pattern));
    if (data->settings.ordered && !pattern->ordered)
      PetscCall(PetscInfo(A, "Chunks in the order of the matrix: it has another number of columns than of rows\n"));
#if defined(PETSCIDRS_HAVE_CUDA)
    if (!device) PetscCall(IDRSStreamDeviceCreate_CUDA(data->settings.pageable, &device));
#endif
    PetscCall(IDRSStreamCreate(pattern, rows.a, MatStreamLimit_Private(A), data->ops, device, &data->stream));
  }
  PetscCall(IDRSRowsRestore(&rows));
  data->state        = state;
  data->nonzerostate = A->nonzerostate;
  *stream            = data->stream;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamTake_Private - Takes so many bytes of the stream's memory on the GPU, if it does without */
PetscErrorCode MatStreamTake_Private(Mat A, size_t bytes, PetscBool *taken)
{
  IDRSStream stream;

  PetscFunctionBegin;
  PetscCall(MatStreamGet_Private(A, &stream));
  PetscCall(IDRSStreamTake(stream, bytes, taken));
  if (*taken) Data(A)->taken += bytes;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamGive_Private - Gives them back. A matrix that has been converted, or has the data of another one, has them no more */
PetscErrorCode MatStreamGive_Private(Mat A, size_t bytes)
{
  Mat_AIJStream *data = Data(A);
  PetscBool      streams;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJSTREAM, &streams));
  if (!streams || data->taken < bytes) PetscFunctionReturn(PETSC_SUCCESS);
  data->taken -= bytes;
  if (data->stream && data->stream->limit)
    PetscCall(IDRSStreamSetLimit(data->stream, data->settings.memory > 0.0 || data->share ? MatStreamLimit_Private(A)
                                                                                          : data->stream->limit + bytes));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamProduct_Private - y = A x, arrays of the device */
PetscErrorCode MatStreamProduct_Private(Mat A, const PetscScalar *x, PetscScalar *y)
{
  IDRSStreamSequence sequence = {.product = PETSC_TRUE, .levels = 1, .x = x};
  IDRSStream         stream;
  PetscInt           levels;

  PetscFunctionBegin;
  sequence.v[0] = y;
  PetscCall(MatStreamGet_Private(A, &stream));
  PetscCall(IDRSStreamReserve(stream, 1, &levels));
  PetscCall(IDRSStreamPass(stream, &sequence));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatMult_SeqAIJStream(Mat A, Vec x, Vec y)
{
  const PetscScalar *xarray;
  PetscScalar       *yarray;
  PetscBool          takes;

  PetscFunctionBegin;
  PetscCall(MatStreamTakes_Private(A, x, &takes));
  if (takes) PetscCall(MatStreamTakes_Private(A, y, &takes));
  if (!takes) {
    PetscCall((*Data(A)->parent.mult)(A, x, y));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(VecGetArrayReadAndMemType(x, &xarray, NULL));
  PetscCall(VecGetArrayWriteAndMemType(y, &yarray, NULL));
  PetscCall(MatStreamProduct_Private(A, xarray, yarray));
  PetscCall(VecRestoreArrayWriteAndMemType(y, &yarray));
  PetscCall(VecRestoreArrayReadAndMemType(x, &xarray));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* How many chunks there are of each width, and what has been sent, on all processes; block is the sequential matrix of this one */
PetscErrorCode MatStreamViewCounts_Private(Mat A, Mat block, PetscViewer viewer)
{
  const IDRSStream stream  = block ? Data(block)->stream : NULL;
  PetscLogDouble   sums[8] = {0.0}, most[3] = {0.0};
  MPI_Comm         comm       = PetscObjectComm((PetscObject)A);
  double           percentage = 0.0;

  PetscFunctionBegin;
  if (stream) {
    for (PetscInt c = 0; c < stream->pattern->nchunks; c++) sums[stream->pattern->chunks[c].width / 2] += 1.0;
    sums[3] = (PetscLogDouble)stream->pattern->bytes;
    sums[4] = (PetscLogDouble)IDRSStreamLayoutBytes(&stream->layout);
    sums[5] = (PetscLogDouble)stream->layout.residentbytes;
    sums[6] = stream->counts.bytes;
    sums[7] = (PetscLogDouble)stream->counts.sends;
    most[0] = (PetscLogDouble)stream->counts.passes;
    most[1] = stream->counts.seconds;
    most[2] = (PetscLogDouble)stream->layout.levels;
  }
  IDRSCallAllreduce(MPI_IN_PLACE, sums, 8, MPI_DOUBLE, MPI_SUM, comm);
  IDRSCallAllreduce(MPI_IN_PLACE, most, 3, MPI_DOUBLE, MPI_MAX, comm);
  if (most[0] == 0.0) {
    PetscCall(PetscViewerASCIIPrintf(viewer, "  not streamed so far: products on the %s\n",
                                     Data(A)->ops ? "host, or none" : "host, as there is no GPU"));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (sums[3] > 0.0) percentage = (double)(100.0 * sums[5] / sums[3]);
  PetscCall(
    PetscViewerASCIIPrintf(viewer,
                           "  streamed to the device: %g bytes in chunks, with columns of 8, 16 and 32 bits: %g, %g, %g%s\n",
                           (double)sums[3], (double)sums[0], (double)sums[1], (double)sums[2],
                           Data(A)->settings.pageable ? "; memory of the host is not registered, which is slow" : ""));
  if (stream && stream->pattern->ordered)
    PetscCall(PetscViewerASCIIPrintf(viewer, "  chunks in the order of reverse Cuthill and McKee\n"));
  PetscCall(PetscViewerASCIIPrintf(
    viewer, "  memory of the device: %g bytes; %.1f %% of the chunks' bytes stay there; levels of a pass at most: %g\n",
    (double)sums[4], percentage, (double)most[2]));
  PetscCall(PetscViewerASCIIPrintf(viewer, "  passes: %g; chunks sent: %g; bytes sent: %g, %.1f GB/s\n", (double)most[0],
                                   (double)sums[7], (double)sums[6], (double)(most[1] > 0.0 ? 1e-9 * sums[6] / most[1] : 0.0)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatView_AIJStream(Mat A, PetscViewer viewer)
{
  PetscBool         ascii, parallel;
  PetscViewerFormat format;
  Mat               block = A;

  PetscFunctionBegin;
  PetscCall((*Data(A)->parent.view)(A, viewer));
  PetscCall(PetscObjectTypeCompare((PetscObject)viewer, PETSCVIEWERASCII, &ascii));
  PetscCall(PetscViewerGetFormat(viewer, &format));
  if (!ascii || format != PETSC_VIEWER_ASCII_INFO_DETAIL) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJSTREAM, &parallel));
  if (parallel) PetscCall(MatStreamGetBlock_Private(A, &block, NULL, NULL));
  PetscCall(MatStreamViewCounts_Private(A, block, viewer));
  if (parallel) PetscCall(MatStreamGhostsView_Private(A, viewer));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The type comes with its vectors, and where there is a GPU, with those of the GPU */
static PetscErrorCode FindDevice(Mat A)
{
#if defined(PETSCIDRS_HAVE_CUDA)
  PetscBool exists;
  PetscInt  missing;
#endif

  PetscFunctionBegin;
#if defined(PETSCIDRS_HAVE_CUDA)
  PetscCall(IDRSStreamDeviceExists_CUDA(&exists));
  missing = exists ? 0 : 1;
  IDRSCallAllreduce(MPI_IN_PLACE, &missing, 1, MPIU_INT, MPI_MAX, PetscObjectComm((PetscObject)A));
  if (missing) PetscFunctionReturn(PETSC_SUCCESS);
  Data(A)->ops  = &IDRSStreamDevice_CUDA;
  A->boundtocpu = PETSC_FALSE;
  PetscCall(MatSetVecType(A, VECCUDA));
#endif
  (void)A;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* What only the sequential type has, or the parallel one */
static PetscErrorCode Begin_SeqAIJStream(Mat A)
{
  void (*const others[MATSTREAM_FUNCTIONS])(
    void) = {(void (*)(void))MatSeqAIJSetPreallocation_AIJStream, (void (*)(void))MatSeqAIJSetPreallocationCSR_AIJStream,
             (void (*)(void))MatSetPreallocationCOO_AIJStream, (void (*)(void))MatResetPreallocation_AIJStream,
             (void (*)(void))MatResetHash_AIJStream};

  PetscFunctionBegin;
  A->ops->mult     = MatMult_SeqAIJStream;
  A->ops->lufactor = MatLUFactor_SeqAIJStream;
  for (int f = 0; f < MATSTREAM_FUNCTIONS; f++) {
    PetscCall(PetscObjectQueryFunction((PetscObject)A, functions[f], &Data(A)->functions[f]));
    if (Data(A)->functions[f]) PetscCall(PetscObjectComposeFunction((PetscObject)A, functions[f], others[f]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode End_SeqAIJStream(Mat A)
{
  PetscFunctionBegin;
  for (int f = 0; f < MATSTREAM_FUNCTIONS; f++) {
    if (Data(A)->functions[f]) PetscCall(PetscObjectComposeFunction((PetscObject)A, functions[f], Data(A)->functions[f]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamBegin_Private - A MATAIJ becomes one that is streamed */
PetscErrorCode MatStreamBegin_Private(Mat A)
{
  Mat_AIJStream *data;
  PetscBool      parallel;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJ, &parallel));
  PetscCall(PetscNew(&data));
  data->parent           = *A->ops;
  data->settings.chunk   = 64e6;
  data->settings.columns = 8;
  A->spptr               = data;
  PetscCall(PetscObjectChangeTypeName((PetscObject)A, parallel ? MATMPIAIJSTREAM : MATSEQAIJSTREAM));
  PetscCall(FindDevice(A));
  A->ops->setvalues      = MatSetValues_AIJStream;
  A->ops->load           = MatLoad_AIJStream;
  A->ops->assemblyend    = MatAssemblyEnd_AIJStream;
  A->ops->setoption      = MatSetOption_AIJStream;
  A->ops->destroy        = MatDestroy_AIJStream;
  A->ops->duplicate      = MatDuplicate_AIJStream;
  A->ops->setfromoptions = MatSetFromOptions_AIJStream;
  A->ops->view           = MatView_AIJStream;
  A->ops->multadd        = MatMultAdd_AIJStream;
  A->ops->axpy           = MatAXPY_AIJStream;
  A->ops->transpose      = MatTranspose_AIJStream;
  A->ops->convert        = MatConvert_AIJStream;
  A->ops->convertfrom    = MatConvertFrom_AIJStream;
  PetscCall(PetscObjectQueryFunction((PetscObject)A, "MatRetrieveValues_C", &data->retrievevalues));
  PetscCall(PetscObjectComposeFunction((PetscObject)A, "MatRetrieveValues_C", MatRetrieveValues_AIJStream));
  if (parallel) PetscCall(MatStreamBegin_MPIAIJ(A));
  else PetscCall(Begin_SeqAIJStream(A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* It becomes a MATAIJ again */
static PetscErrorCode MatStreamEnd(Mat A)
{
  Mat_AIJStream *data = Data(A);
  PetscBool      parallel;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJSTREAM, &parallel));
  PetscCall(MatStreamReset_Private(A));
  if (parallel) PetscCall(MatStreamEnd_MPIAIJ(A));
  else PetscCall(End_SeqAIJStream(A));
  A->ops->setvalues      = data->parent.setvalues;
  A->ops->load           = data->parent.load;
  A->ops->assemblyend    = data->parent.assemblyend;
  A->ops->setoption      = data->parent.setoption;
  A->ops->destroy        = data->parent.destroy;
  A->ops->duplicate      = data->parent.duplicate;
  A->ops->setfromoptions = data->parent.setfromoptions;
  A->ops->view           = data->parent.view;
  A->ops->multadd        = data->parent.multadd;
  A->ops->mult           = data->parent.mult;
  A->ops->lufactor       = data->parent.lufactor;
  A->ops->axpy           = data->parent.axpy;
  A->ops->transpose      = data->parent.transpose;
  A->ops->convert        = data->parent.convert;
  A->ops->convertfrom    = data->parent.convertfrom;
  PetscCall(PetscObjectComposeFunction((PetscObject)A, "MatRetrieveValues_C", data->retrievevalues));
  PetscCall(PetscFree(A->spptr));
#if defined(PETSCIDRS_HAVE_CUDA)
  A->boundtocpu = PETSC_TRUE; /* as all MATAIJ are */
#endif
  PetscCall(MatSetVecType(A, VECSTANDARD));
  PetscCall(PetscObjectChangeTypeName((PetscObject)A, parallel ? MATMPIAIJ : MATSEQAIJ));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Conversions are operations, not functions composed by name: the factor of an ILU without fill has the functions of its matrix,
   and MATSEQAIJ, which it is, takes back those that it knows
*/
static PetscErrorCode MatConvert_AIJStream(Mat A, MatType type, MatReuse reuse, Mat *newmat)
{
  PetscBool parallel, same[2];
  Mat       B = A;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJSTREAM, &parallel));
  PetscCall(PetscStrcmp(type, MATAIJ, &same[0]));
  PetscCall(PetscStrcmp(type, parallel ? MATMPIAIJ : MATSEQAIJ, &same[1]));
  if (reuse == MAT_REUSE_MATRIX && (same[0] || same[1])) {
    PetscCall(MatCopy(A, *newmat, SAME_NONZERO_PATTERN));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (reuse != MAT_INPLACE_MATRIX) PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &B));
  PetscCall(MatStreamEnd(B));
  PetscCall(MatConvert(B, type, reuse == MAT_REUSE_MATRIX ? reuse : MAT_INPLACE_MATRIX, reuse == MAT_REUSE_MATRIX ? newmat : &B));
  if (reuse == MAT_REUSE_MATRIX) PetscCall(MatDestroy(&B));
  else *newmat = B;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Of a MATAIJ the type changes; a matrix of another type becomes a MATAIJ first */
static PetscErrorCode MatConvertFrom_AIJStream(Mat A, MatType type, MatReuse reuse, Mat *newmat)
{
  PetscBool aij;
  Mat       B = A;

  PetscFunctionBegin;
  (void)type;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &aij, MATSEQAIJ, MATMPIAIJ, ""));
  if (!aij) PetscCall(MatConvert(A, MATAIJ, reuse == MAT_INPLACE_MATRIX ? reuse : MAT_INITIAL_MATRIX, &B));
  else if (reuse == MAT_INITIAL_MATRIX) PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &B));
  if (reuse == MAT_REUSE_MATRIX) {
    PetscCall(MatCopy(B, *newmat, SAME_NONZERO_PATTERN));
    if (!aij) PetscCall(MatDestroy(&B));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(MatStreamBegin_Private(B));
  *newmat = B;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* In place: MATSEQAIJ gives the matrix the data of the factor, which is none of this type */
static PetscErrorCode MatLUFactor_SeqAIJStream(Mat A, IS row, IS col, const MatFactorInfo *info)
{
  PetscFunctionBegin;
  PetscCall(MatStreamEnd(A));
  PetscUseTypeMethod(A, lufactor, row, col, info);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSStreamMatSetDevice - Products on this device with vectors on the host, instead of a GPU; it stays the caller's, beyond the
   matrix
*/
PetscErrorCode IDRSStreamMatSetDevice(Mat A, const IDRSStreamDeviceOps *ops, void *device)
{
  PetscFunctionBegin;
  PetscCall(MatStreamReset_Private(A));
  Data(A)->ops    = ops;
  Data(A)->device = device;
  PetscCall(MatSetVecType(A, VECSTANDARD));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*MC
  MATAIJSTREAM - A `MATAIJ` in the memory of the host, which is sent to the GPU in chunks of rows when it multiplies vectors there

  Options Database Keys:
+ -mat_type aijstream        - sets the type in `MatSetFromOptions()`
. -mat_stream_memory bytes   - memory of the GPU for each process (default half of what is free at the first product, in equal parts
    for the processes of the matrix that share the GPU)
. -mat_stream_chunk bytes    - size of a chunk of rows (default 64e6)
. -mat_stream_columns bits   - the fewest bits of packed columns, 8, 16 or 32 (default 8)
. -mat_stream_ordering rcm   - send the chunks in the order of reverse Cuthill and McKee for their graph instead of `natural`, on
    one process
- -mat_stream_pageable       - do not register the memory of the host with CUDA, which makes copies several times slower

  Level: intermediate

  Notes:
  The type comes from the plugin libpetscidrs, with `-dll_append path/libpetscidrs.so` or `KSPIDRSRegister()`. With one process it
  is `MATSEQAIJSTREAM`, else `MATMPIAIJSTREAM`, with all operations of `MATSEQAIJ` and `MATMPIAIJ`. Without a GPU, or bound to the
  CPU by `MatBindToCPU()`, it is one of those.

  `MatMult()` and `MatMultAdd()` with vectors of type `VECCUDA` take about the time of sending the matrix. `MatPowersMult()`,
  `MatPowersSum()` and `MatPowersSumMult()` send it once for as many steps as the memory has room for; on several processes each
  sends its rows. All else runs on the host; with vectors on the GPU, `MatMultTranspose()` copies them there and back.

  Values are sent from the array of the matrix, which stays registered with CUDA until `MatSetValues()`, `MatLoad()`, a new
  preallocation, a conversion or `MatDestroy()`. What the product needs besides of the memory of the GPU keeps chunks there for
  good, spread evenly. These are sent again when values change.

  A matrix that is factored in place is a `MATSEQAIJ`.

  With `-mat_stream_ordering rcm` chunks that have columns in each other come after each other: where rows are numbered far from
  their neighbours, and chunks are small, matrix powers then need less memory for the same number of steps. Values stay where they
  are, and results have the same bits. Two vectors more come out of `-mat_stream_memory`.

  It is an error if `-mat_stream_memory` has no room for two chunks, or one if there is no other; the message tells the least number
  of bytes. A process has at most $2^{31}$ rows.

  `-mat_view ::ascii_info_detail` tells how many bytes have been sent and at which speed.

.seealso: [](ch_matrices), `Mat`, `MATAIJ`, `MATAIJCUSPARSE`, `MatPowersMult()`, `MatPowersSum()`, `KSPIDRSRegister()`
M*/
PetscErrorCode MatCreate_SeqAIJStream(Mat A)
{
  PetscFunctionBegin;
  PetscCall(MatSetType(A, MATSEQAIJ));
  PetscCall(MatStreamBegin_Private(A));
  PetscFunctionReturn(PETSC_SUCCESS);
}
