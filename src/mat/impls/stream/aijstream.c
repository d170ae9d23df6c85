/*
   MATAIJSTREAM: a MATSEQAIJ or MATMPIAIJ with a few other operations: those that multiply, and those that may free or move the
   arrays, from which copies may be made only while they are registered
*/
#include <petscidrs/private/idrsmemory.h>
#include "matstream.h"

/* Unregisters the arrays. The pattern of the stream is kept until the nonzeros of the matrix change */
static PetscErrorCode MatStreamUnpin(Mat A)
{
  IDRSStream stream;

  PetscFunctionBegin;
  PetscCall(IDRSStreamMatGetStream(A, &stream));
  if (stream) PetscCall(IDRSStreamUnpin(stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatSetValues_AIJStream(Mat A, PetscInt m, const PetscInt rows[], PetscInt n, const PetscInt columns[],
                                             const PetscScalar values[], InsertMode mode)
{
  PetscFunctionBegin;
  PetscCall(MatStreamUnpin(A));
  PetscCall((*MatStreamData(A)->parent.setvalues)(A, m, rows, n, columns, values, mode));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatLoad_AIJStream(Mat A, PetscViewer viewer)
{
  PetscFunctionBegin;
  PetscCall(MatStreamUnpin(A));
  PetscCall((*MatStreamData(A)->parent.load)(A, viewer));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatAssemblyEnd_AIJStream(Mat A, MatAssemblyType mode)
{
  PetscErrorCode (*const mult)(Mat, Vec, Vec) = A->ops->mult;

  PetscFunctionBegin;
  /* on several processes it inserts the values of other processes, which may move the arrays */
  PetscCall(MatStreamUnpin(A));
  PetscCall((*MatStreamData(A)->parent.assemblyend)(A, mode));
  A->ops->mult = mult; /* some releases set it */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MAT_SORTED_FULL is only a hint, with which MATAIJ would replace MatSetValues(), or restore it */
static PetscErrorCode MatSetOption_AIJStream(Mat A, MatOption option, PetscBool set)
{
  PetscFunctionBegin;
  if (option != MAT_SORTED_FULL) PetscCall((*MatStreamData(A)->parent.setoption)(A, option, set));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatRetrieveValues_AIJStream(Mat A)
{
  Mat block, outside;

  PetscFunctionBegin;
  PetscCall((*MatStreamData(A)->retrievevalues)(A));
  /* some releases do not */
  PetscCall(PetscObjectStateIncrease((PetscObject)A));
  if (!MatStreamData(A)->parallel) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(MatMPIAIJGetSeqAIJ(A, &block, &outside, NULL));
  PetscCall(PetscObjectStateIncrease((PetscObject)block));
  PetscCall(PetscObjectStateIncrease((PetscObject)outside));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Called by MatDestroy(), and by MatHeaderMerge(), which replaces the data of the matrix by the data of another */
static PetscErrorCode MatDestroy_AIJStream(Mat A)
{
  PetscErrorCode (*const destroy)(Mat) = MatStreamData(A)->parent.destroy;

  PetscFunctionBegin;
  PetscCall(MatStreamReset_Private(A));
  PetscCall(PetscFree(A->spptr));
  PetscCall((*destroy)(A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatDuplicate_AIJStream(Mat A, MatDuplicateOption option, Mat *B)
{
  PetscFunctionBegin;
  PetscCall((*MatStreamData(A)->parent.duplicate)(A, option, B));
  PetscCall(MatStreamCopySettings_Private(A, *B));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies what MatHeaderMerge() replaces and the matrix keeps */
static void MatStreamCopyPersistent(const Mat_AIJStream *from, Mat_AIJStream *to)
{
  to->settings = from->settings;
  to->ops      = from->ops;
  to->device   = from->device;
}

static PetscErrorCode MatAXPY_AIJStream(Mat Y, PetscScalar a, Mat X, MatStructure structure)
{
  const Mat_AIJStream before = *MatStreamData(Y);

  PetscFunctionBegin;
  PetscCall((*before.parent.axpy)(Y, a, X, structure));
  MatStreamCopyPersistent(&before, MatStreamData(Y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatTranspose_AIJStream(Mat A, MatReuse reuse, Mat *B)
{
  const Mat_AIJStream before = *MatStreamData(A);

  PetscFunctionBegin;
  PetscCall((*before.parent.transpose)(A, reuse, B));
  if (reuse == MAT_INPLACE_MATRIX) MatStreamCopyPersistent(&before, MatStreamData(*B));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatSetFromOptions_AIJStream(Mat A, IDRSOptionItems PetscOptionsObject)
{
  Mat_AIJStream    *data     = MatStreamData(A);
  MatStreamSettings settings = data->settings;
  PetscBool         limited, ordered, natural;
  char              ordering[32] = "";

  PetscFunctionBegin;
  if (data->parent.setfromoptions) PetscCall((*data->parent.setfromoptions)(A, PetscOptionsObject));
  PetscOptionsHeadBegin(PetscOptionsObject, "Options of MATAIJSTREAM");
  PetscCall(
    PetscOptionsReal("-mat_stream_chunk", "Bytes of a chunk of rows", "MATAIJSTREAM", settings.chunk, &settings.chunk, NULL));
  PetscCheck(settings.chunk >= 1.0 && settings.chunk < 1e18, PetscObjectComm((PetscObject)A), PETSC_ERR_ARG_OUTOFRANGE,
             "-mat_stream_chunk %g: must be a positive number of bytes", (double)settings.chunk);
  PetscCall(PetscOptionsReal("-mat_stream_memory", "Bytes of GPU memory (default: half of the free memory, shared by processes)",
                             "MATAIJSTREAM", settings.memory, &settings.memory, &limited));
  PetscCheck(!limited || (settings.memory >= 1.0 && settings.memory < 1e18), PetscObjectComm((PetscObject)A),
             PETSC_ERR_ARG_OUTOFRANGE, "-mat_stream_memory %g: must be a positive number of bytes", (double)settings.memory);
  PetscCall(PetscOptionsBool("-mat_stream_pageable", "Do not register the memory of the host", "MATAIJSTREAM", settings.pageable,
                             &settings.pageable, NULL));
  PetscOptionsHeadEnd();
  PetscCall(PetscOptionsGetString(((PetscObject)A)->options, ((PetscObject)A)->prefix, "-mat_stream_ordering", ordering,
                                  sizeof(ordering), &ordered));
  PetscCall(PetscStrcmp(ordering, "natural", &natural));
  PetscCheck(!ordered || natural, PetscObjectComm((PetscObject)A), PETSC_ERR_SUP,
             "-mat_stream_ordering %s is gone: order the matrix itself with MatGetOrdering() and MatPermute()", ordering);
  /* other chunks need another stream, other memory does not */
  if (settings.chunk != data->settings.chunk || settings.pageable != data->settings.pageable) PetscCall(MatStreamReset_Private(A));
  data->settings = settings;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* z = y + A x */
static PetscErrorCode MatMultAdd_AIJStream(Mat A, Vec x, Vec y, Vec z)
{
  Vec            product = z;
  PetscBool      supports, device;
  PetscErrorCode ierr;

  PetscFunctionBegin;
  PetscCall(MatStreamUsesDevice_Private(A, 2, (Vec[]){x, z}, &supports, &device));
  /* on several processes MatMult() decides where each process multiplies, so that all of them communicate */
  if (MatStreamData(A)->parallel ? !supports : !device) {
    PetscCall((*MatStreamData(A)->parent.multadd)(A, x, y, z));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  /* product = A x by the operation: MatMult() would reject the parallel vectors that MATMPIAIJ passes to its block */
  if (y == z) PetscCall(VecDuplicate(z, &product));
  ierr = (*A->ops->mult)(A, x, product);
  if (!ierr) ierr = VecAXPY(z, 1.0, y == z ? product : y);
  if (y == z) PetscCall(VecDestroy(&product));
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Views the chunks of all processes, and what they have sent */
static PetscErrorCode MatStreamViewCounts(Mat A, const IDRSStream stream, PetscViewer viewer)
{
  PetscLogDouble sums[8] = {0.0}, most[3] = {0.0};
  MPI_Comm       comm       = PetscObjectComm((PetscObject)A);
  double         percentage = 0.0;

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
                                     MatStreamData(A)->ops ? "host, or none" : "host, because there is no GPU"));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (sums[3] > 0.0) percentage = (double)(100.0 * sums[5] / sums[3]);
  PetscCall(
    PetscViewerASCIIPrintf(viewer,
                           "  streamed to the device: %g bytes in chunks, with columns of 8, 16 and 32 bits: %g, %g, %g%s\n",
                           (double)sums[3], (double)sums[0], (double)sums[1], (double)sums[2],
                           MatStreamData(A)->settings.pageable ? "; memory of the host is not registered, which is slow" : ""));
  PetscCall(PetscViewerASCIIPrintf(
    viewer, "  memory of the device: %g bytes; %.1f %% of the chunk bytes are resident; at most %g levels per pass\n",
    (double)sums[4], percentage, (double)most[2]));
  PetscCall(PetscViewerASCIIPrintf(viewer, "  passes: %g; chunks sent: %g; bytes sent: %g, %.1f GB/s\n", (double)most[0],
                                   (double)sums[7], (double)sums[6], (double)(most[1] > 0.0 ? 1e-9 * sums[6] / most[1] : 0.0)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatView_AIJStream(Mat A, PetscViewer viewer)
{
  PetscBool         ascii;
  PetscViewerFormat format;
  Mat               block;
  IDRSStream        stream;

  PetscFunctionBegin;
  PetscCall((*MatStreamData(A)->parent.view)(A, viewer));
  PetscCall(PetscObjectTypeCompare((PetscObject)viewer, PETSCVIEWERASCII, &ascii));
  PetscCall(PetscViewerGetFormat(viewer, &format));
  if (!ascii || format != PETSC_VIEWER_ASCII_INFO_DETAIL) PetscFunctionReturn(PETSC_SUCCESS);
  if (MatStreamData(A)->parallel) PetscCall(MatStreamGetBlock_Private(A, &block, NULL, NULL));
  PetscCall(IDRSStreamMatGetStream(A, &stream));
  PetscCall(MatStreamViewCounts(A, stream, viewer));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatConvert_AIJStream(Mat, MatType, MatReuse, Mat *);
static PetscErrorCode MatConvertFrom_AIJStream(Mat, MatType, MatReuse, Mat *);

/* Calls set with the operations that both types have of their own */
#define MATSTREAM_OPERATIONS(set) \
  set(setvalues, MatSetValues_AIJStream); \
  set(load, MatLoad_AIJStream); \
  set(assemblyend, MatAssemblyEnd_AIJStream); \
  set(setoption, MatSetOption_AIJStream); \
  set(destroy, MatDestroy_AIJStream); \
  set(duplicate, MatDuplicate_AIJStream); \
  set(setfromoptions, MatSetFromOptions_AIJStream); \
  set(view, MatView_AIJStream); \
  set(multadd, MatMultAdd_AIJStream); \
  set(axpy, MatAXPY_AIJStream); \
  set(transpose, MatTranspose_AIJStream); \
  set(convert, MatConvert_AIJStream); \
  set(convertfrom, MatConvertFrom_AIJStream)

/* Converts a matrix of this type to MATSEQAIJ or MATMPIAIJ */
static PetscErrorCode MatStreamEnd(Mat A)
{
  Mat_AIJStream  *data     = MatStreamData(A);
  const PetscBool parallel = data->parallel;
  PetscBool       streams  = PETSC_FALSE;
  Mat             block    = NULL;

  PetscFunctionBegin;
  PetscCall(MatStreamReset_Private(A));
  if (!parallel) PetscCall(MatStreamEnd_SeqAIJ(A));
  else PetscCall(MatMPIAIJGetSeqAIJ(A, &block, NULL, NULL));
  if (block) PetscCall(PetscObjectTypeCompare((PetscObject)block, MATSEQAIJSTREAM, &streams));
  if (streams) PetscCall(MatConvert(block, MATSEQAIJ, MAT_INPLACE_MATRIX, &block));
#define MatStreamRestore(name, function) A->ops->name = data->parent.name
  MATSTREAM_OPERATIONS(MatStreamRestore);
#undef MatStreamRestore
  A->ops->mult     = data->parent.mult;
  A->ops->lufactor = data->parent.lufactor;
  PetscCall(PetscObjectComposeFunction((PetscObject)A, "MatRetrieveValues_C", data->retrievevalues));
  PetscCall(PetscFree(A->spptr));
#if defined(PETSCIDRS_HAVE_CUDA)
  A->boundtocpu = PETSC_TRUE; /* as all MATAIJ are */
#endif
  PetscCall(MatSetVecType(A, VECSTANDARD));
  PetscCall(PetscObjectChangeTypeName((PetscObject)A, parallel ? MATMPIAIJ : MATSEQAIJ));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* In place: the matrix gets the data of the factor, which is not of this type */
static PetscErrorCode MatLUFactor_SeqAIJStream(Mat A, IS row, IS col, const MatFactorInfo *info)
{
  PetscFunctionBegin;
  PetscCall(MatStreamEnd(A));
  PetscUseTypeMethod(A, lufactor, row, col, info);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Converts a MATSEQAIJ or MATMPIAIJ to this type */
static PetscErrorCode MatStreamBegin(Mat A)
{
  Mat_AIJStream *data;
#if defined(PETSCIDRS_HAVE_CUDA)
  PetscBool exists;
#endif

  PetscFunctionBegin;
  PetscCall(PetscNew(&data));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJ, &data->parallel));
  data->parent         = *A->ops;
  data->settings.chunk = 64e6;
  A->spptr             = data;
  PetscCall(PetscObjectChangeTypeName((PetscObject)A, data->parallel ? MATMPIAIJSTREAM : MATSEQAIJSTREAM));
#if defined(PETSCIDRS_HAVE_CUDA)
  /* the GPU is the device if each process has one */
  PetscCall(IDRSDeviceExists(PetscObjectComm((PetscObject)A), &exists));
  if (exists) {
    data->ops     = &IDRSStreamDevice_CUDA;
    A->boundtocpu = PETSC_FALSE;
    PetscCall(MatSetVecType(A, VECCUDA));
  }
#endif
#define MatStreamSet(name, function) A->ops->name = function
  MATSTREAM_OPERATIONS(MatStreamSet);
#undef MatStreamSet
  if (!data->parallel) A->ops->lufactor = MatLUFactor_SeqAIJStream;
  PetscCall(PetscObjectQueryFunction((PetscObject)A, "MatRetrieveValues_C", &data->retrievevalues));
  PetscCall(PetscObjectComposeFunction((PetscObject)A, "MatRetrieveValues_C", MatRetrieveValues_AIJStream));
  if (data->parallel) A->ops->mult = MatMult_MPIAIJStream;
  else PetscCall(MatStreamBegin_SeqAIJ(A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Conversions are operations, not functions composed by name. The factor of an ILU without fill has the functions of its matrix,
   and its type MATSEQAIJ removes only those that it knows
*/
static PetscErrorCode MatConvert_AIJStream(Mat A, MatType type, MatReuse reuse, Mat *newmat)
{
  PetscBool same[2];
  Mat       B = A;

  PetscFunctionBegin;
  PetscCall(PetscStrcmp(type, MATAIJ, &same[0]));
  PetscCall(PetscStrcmp(type, MatStreamData(A)->parallel ? MATMPIAIJ : MATSEQAIJ, &same[1]));
  if (reuse == MAT_REUSE_MATRIX && (same[0] || same[1])) {
    PetscCall(MatCopy(A, *newmat, SAME_NONZERO_PATTERN));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  /* a MATAIJ, which PETSc converts to the other type */
  if (reuse != MAT_INPLACE_MATRIX) PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &B));
  PetscCall(MatStreamEnd(B));
  PetscCall(MatConvert(B, type, reuse == MAT_REUSE_MATRIX ? reuse : MAT_INPLACE_MATRIX, reuse == MAT_REUSE_MATRIX ? newmat : &B));
  if (reuse == MAT_REUSE_MATRIX) PetscCall(MatDestroy(&B));
  else *newmat = B;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatConvertFrom_AIJStream(Mat A, MatType type, MatReuse reuse, Mat *newmat)
{
  PetscBool aij;
  Mat       B = A;

  PetscFunctionBegin;
  (void)type;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &aij, MATSEQAIJ, MATMPIAIJ, ""));
  /* a matrix of another type becomes a MATAIJ first */
  if (!aij) PetscCall(MatConvert(A, MATAIJ, reuse == MAT_INPLACE_MATRIX ? reuse : MAT_INITIAL_MATRIX, &B));
  else if (reuse == MAT_INITIAL_MATRIX) PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &B));
  if (reuse == MAT_REUSE_MATRIX) {
    PetscCall(MatCopy(B, *newmat, SAME_NONZERO_PATTERN));
    if (!aij) PetscCall(MatDestroy(&B));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(MatStreamBegin(B));
  *newmat = B;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*MC
  MATAIJSTREAM - A `MATAIJ` in the memory of the host, which is sent to the GPU in chunks of rows when it multiplies vectors there

  Options Database Keys:
+ -mat_type aijstream        - sets the type in `MatSetFromOptions()`
. -mat_stream_memory bytes   - memory of the GPU for each process (default half of what is free at the first product, in equal parts
    for the processes of the matrix that share the GPU)
. -mat_stream_chunk bytes    - size of a chunk of rows (default 64e6)
- -mat_stream_pageable       - do not register the memory of the host with CUDA, which makes copies several times slower

  Level: intermediate

  Notes:
  The type comes from the plugin libpetscidrs, with `-dll_append path/libpetscidrs.so` or `KSPIDRSRegister()`. With one process it
  is `MATSEQAIJSTREAM`, else `MATMPIAIJSTREAM`, with all operations of `MATSEQAIJ` and `MATMPIAIJ`. Without a GPU, or bound to the
  CPU by `MatBindToCPU()`, it behaves like `MATSEQAIJ` or `MATMPIAIJ`.

  `MatMult()` and `MatMultAdd()` with vectors of type `VECCUDA` take about the time of sending the matrix. `MatPowersMult()`
  and `MatPowersSum()` send it once for as many steps as fit in the memory, on several processes once for each step. All
  other operations run on the host; `MatMultTranspose()` copies vectors on the GPU to the host and back.

  Values are sent from the array of the matrix, which stays registered with CUDA until `MatSetValues()`, `MatLoad()`, a new
  preallocation, a conversion or `MatDestroy()`. Memory of the GPU that products do not need keeps chunks permanently, evenly
  spread over the matrix. They are sent again when values change.

  A matrix that is factored in place is a `MATSEQAIJ`.

  Matrix powers need less memory for the same number of steps if the bandwidth of the matrix is small: `MatGetOrdering()` with
  `MATORDERINGRCM`, and `MatPermute()`, reduce it.

  It is an error if `-mat_stream_memory` is too small for two chunks, or for one if there is only one. The message states the least
  number of bytes. A process has at most $2^{31}$ rows.

  `-mat_view ::ascii_info_detail` prints the number of bytes that have been sent, and the speed.

.seealso: [](ch_matrices), `Mat`, `MATAIJ`, `MATAIJCUSPARSE`, `MatPowersMult()`, `MatPowersSum()`, `KSPIDRSRegister()`
M*/
PetscErrorCode MatCreate_SeqAIJStream(Mat A)
{
  PetscFunctionBegin;
  PetscCall(MatSetType(A, MATSEQAIJ));
  PetscCall(MatStreamBegin(A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode MatCreate_MPIAIJStream(Mat A)
{
  PetscFunctionBegin;
  PetscCall(MatSetType(A, MATMPIAIJ));
  PetscCall(MatStreamBegin(A));
  PetscFunctionReturn(PETSC_SUCCESS);
}
