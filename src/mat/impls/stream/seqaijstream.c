/*
   Products with a streamed matrix: the choice of the device and its memory, for both types, and MATSEQAIJSTREAM. Copies may be made
   from the arrays of a matrix only while the arrays are registered, so this file wraps the functions that free or move them
*/
#include "matstream.h"
#include <petscidrs/private/idrsmemory.h>
#include <petscidrs/private/idrsrows.h>

/* MatStreamReset_Private - Frees what products keep */
PetscErrorCode MatStreamReset_Private(Mat A)
{
  Mat_AIJStream *data = MatStreamData(A);

  PetscFunctionBegin;
  PetscCall(IDRSStreamDestroy(&data->stream));
  PetscCall(MatDestroy(&data->off));
  PetscCall(VecScatterDestroy(&data->scatter));
  PetscCall(VecDestroy(&data->ghosts));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamCopySettings_Private - Copies the settings of A to B; both have this type */
PetscErrorCode MatStreamCopySettings_Private(Mat A, Mat B)
{
  PetscFunctionBegin;
  MatStreamData(B)->settings = MatStreamData(A)->settings;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   MatStreamFindShare_Private - Without -mat_stream_memory the processes that share a device have equal parts of half of its free
   memory. They determine it together before the first of them allocates any
*/
PetscErrorCode MatStreamFindShare_Private(Mat A)
{
  Mat_AIJStream *data = MatStreamData(A);

  PetscFunctionBegin;
  if (!data->ops || data->share || data->settings.memory > 0.0) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall((*data->ops->available)(data->device, PetscObjectComm((PetscObject)A), &data->share));
  data->share = PetscMax(data->share / 2, 1);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   MatStreamUsesDevice_Private - Returns if these vectors have the type that the device computes with, which is the same on all
   processes, and if this process computes products with them on the device. With -vec_bind_below some processes may compute their
   part on the host
*/
PetscErrorCode MatStreamUsesDevice_Private(Mat A, PetscInt n, const Vec vecs[], PetscBool *supports, PetscBool *uses)
{
  const IDRSStreamDeviceOps *ops = MatStreamData(A)->ops;

  PetscFunctionBegin;
  *supports = *uses = ops ? PETSC_TRUE : PETSC_FALSE;
  for (PetscInt i = 0; i < n && *supports; i++) {
    if (ops->memtype == PETSC_MEMTYPE_HOST)
      PetscCall(PetscObjectTypeCompareAny((PetscObject)vecs[i], supports, VECSEQ, VECMPI, ""));
#if defined(PETSCIDRS_HAVE_CUDA)
    else {
      IDRSMemory place;

      PetscCall(PetscObjectTypeCompareAny((PetscObject)vecs[i], supports, VECSEQCUDA, VECMPICUDA, ""));
      if (*supports) PetscCall(IDRSVecWhere(vecs[i], &place));
      if (*supports && place != IDRS_MEMORY_CUDA) *uses = PETSC_FALSE;
    }
#endif
  }
  if (!*supports) *uses = PETSC_FALSE;
  if (!ops || ops->memtype == PETSC_MEMTYPE_HOST) PetscFunctionReturn(PETSC_SUCCESS);
  if (!*uses) PetscCall(PetscInfo(A, "Product on the host: the vectors are not on the GPU\n"));
  else {
    PetscBool bound;

    PetscCall(MatBoundToCPU(A, &bound));
    if (bound) *uses = PETSC_FALSE;
    if (bound) PetscCall(PetscInfo(A, "Product on the host: the matrix is bound to the CPU\n"));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSStreamMatSetDevice - Computes products on this device with vectors on the host, instead of a GPU. The caller destroys the
   device, after the matrix
*/
PetscErrorCode IDRSStreamMatSetDevice(Mat A, const IDRSStreamDeviceOps *ops, void *device)
{
  PetscFunctionBegin;
  PetscCall(MatStreamReset_Private(A));
  MatStreamData(A)->ops    = ops;
  MatStreamData(A)->device = device;
  PetscCall(MatSetVecType(A, VECSTANDARD));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamGet_Private - Returns the stream of a sequential matrix, with its present values */
PetscErrorCode MatStreamGet_Private(Mat A, IDRSStream *stream)
{
  Mat_AIJStream   *data = MatStreamData(A);
  PetscObjectState state;
  IDRSRows         rows;
  size_t           limit;

  PetscFunctionBegin;
  PetscCheck(A->assembled, PETSC_COMM_SELF, PETSC_ERR_ARG_WRONGSTATE, "The matrix is not assembled");
  PetscCall(MatStreamFindShare_Private(A));
  limit = data->settings.memory > 0.0 ? (size_t)data->settings.memory : data->share;
  PetscCall(PetscObjectStateGet((PetscObject)A, &state));
  PetscCall(IDRSRowsGet(A, &rows));
  /* other nonzeros need another pattern, other values do not */
  if (data->stream &&
      (data->nonzerostate != A->nonzerostate || data->stream->pattern->entries != (size_t)(rows.n ? rows.i[rows.n] : 0)))
    PetscCall(IDRSStreamDestroy(&data->stream));
  if (!data->stream) {
    void             *device = data->device;
    IDRSStreamPattern pattern;

    PetscCall(IDRSStreamPatternCreate(rows.n, A->cmap->n, rows.i, rows.j, (size_t)data->settings.chunk, &pattern));
#if defined(PETSCIDRS_HAVE_CUDA)
    if (!device) PetscCall(IDRSStreamGPUCreate(data->settings.pageable, &device));
#endif
    PetscCall(IDRSStreamCreate(pattern, rows.a, limit, data->ops, device, &data->stream));
  } else if (data->state != state || data->stream->values != rows.a) PetscCall(IDRSStreamSetValues(data->stream, rows.a));
  PetscCall(IDRSStreamSetLimit(data->stream, limit));
  PetscCall(IDRSRowsRestore(&rows));
  data->state        = state;
  data->nonzerostate = A->nonzerostate;
  *stream            = data->stream;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSStreamMatGetStream - Returns the stream of this process as it is, or NULL */
PetscErrorCode IDRSStreamMatGetStream(Mat A, IDRSStream *stream)
{
  PetscBool streams;
  Mat       block = A;

  PetscFunctionBegin;
  *stream = NULL;
  if (MatStreamData(A)->parallel) PetscCall(MatMPIAIJGetSeqAIJ(A, &block, NULL, NULL));
  if (!block) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscObjectTypeCompare((PetscObject)block, MATSEQAIJSTREAM, &streams));
  if (streams) *stream = MatStreamData(block)->stream;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatMult_SeqAIJStream(Mat A, Vec x, Vec y)
{
  IDRSStreamSequence sequence = {.product = PETSC_TRUE, .levels = 1};
  IDRSStream         stream;
  PetscInt           levels;
  PetscBool          supports, device;

  PetscFunctionBegin;
  PetscCall(MatStreamUsesDevice_Private(A, 2, (Vec[]){x, y}, &supports, &device));
  if (!device) {
    PetscCall((*MatStreamData(A)->parent.mult)(A, x, y));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  /* y = A x is a pass with one level */
  PetscCall(VecGetArrayReadAndMemType(x, &sequence.x, NULL));
  PetscCall(VecGetArrayWriteAndMemType(y, &sequence.v[0], NULL));
  PetscCall(MatStreamGet_Private(A, &stream));
  PetscCall(IDRSStreamReserve(stream, 1, &levels));
  PetscCall(IDRSStreamPass(stream, &sequence));
  PetscCall(VecRestoreArrayWriteAndMemType(y, &sequence.v[0]));
  PetscCall(VecRestoreArrayReadAndMemType(x, &sequence.x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Defines a function that destroys the stream, because the arrays of the matrix are replaced, and then calls the function of
   MATSEQAIJ
*/
#define MATSTREAM_WRAP(name, index, parameters, arguments) \
  static PetscErrorCode name##_SeqAIJStream parameters \
  { \
    PetscFunctionBegin; \
    PetscCall(IDRSStreamDestroy(&MatStreamData(A)->stream)); \
    PetscCall((*(PetscErrorCode(*) parameters)MatStreamData(A)->functions[index])arguments); \
    PetscFunctionReturn(PETSC_SUCCESS); \
  }

MATSTREAM_WRAP(MatSeqAIJSetPreallocation, MATSTREAM_SET_PREALLOCATION, (Mat A, PetscInt nz, const PetscInt nnz[]), (A, nz, nnz))
MATSTREAM_WRAP(MatSeqAIJSetPreallocationCSR, MATSTREAM_SET_PREALLOCATION_CSR,
               (Mat A, const PetscInt i[], const PetscInt j[], const PetscScalar a[]), (A, i, j, a))
MATSTREAM_WRAP(MatSetPreallocationCOO, MATSTREAM_SET_PREALLOCATION_COO, (Mat A, PetscCount n, PetscInt i[], PetscInt j[]),
               (A, n, i, j))
MATSTREAM_WRAP(MatResetPreallocation, MATSTREAM_RESET_PREALLOCATION, (Mat A), (A))
MATSTREAM_WRAP(MatResetHash, MATSTREAM_RESET_HASH, (Mat A), (A))

static const struct {
  const char *name;
  void (*function)(void);
} functions[MATSTREAM_FUNCTIONS] = {
  [MATSTREAM_SET_PREALLOCATION]     = {"MatSeqAIJSetPreallocation_C",    (void (*)(void))MatSeqAIJSetPreallocation_SeqAIJStream   },
  [MATSTREAM_SET_PREALLOCATION_CSR] = {"MatSeqAIJSetPreallocationCSR_C", (void (*)(void))MatSeqAIJSetPreallocationCSR_SeqAIJStream},
  [MATSTREAM_SET_PREALLOCATION_COO] = {"MatSetPreallocationCOO_C",       (void (*)(void))MatSetPreallocationCOO_SeqAIJStream      },
  [MATSTREAM_RESET_PREALLOCATION]   = {"MatResetPreallocation_C",        (void (*)(void))MatResetPreallocation_SeqAIJStream       },
  [MATSTREAM_RESET_HASH]            = {"MatResetHash_C",                 (void (*)(void))MatResetHash_SeqAIJStream                }
};

/* MatStreamBegin_SeqAIJ - Sets the operations that only the sequential type has */
PetscErrorCode MatStreamBegin_SeqAIJ(Mat A)
{
  Mat_AIJStream *data = MatStreamData(A);

  PetscFunctionBegin;
  A->ops->mult = MatMult_SeqAIJStream;
  for (MatStreamFunction f = 0; f < MATSTREAM_FUNCTIONS; f++) {
    PetscCall(PetscObjectQueryFunction((PetscObject)A, functions[f].name, &data->functions[f]));
    if (data->functions[f]) PetscCall(PetscObjectComposeFunction((PetscObject)A, functions[f].name, functions[f].function));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamEnd_SeqAIJ - Composes the functions of MATSEQAIJ again */
PetscErrorCode MatStreamEnd_SeqAIJ(Mat A)
{
  Mat_AIJStream *data = MatStreamData(A);

  PetscFunctionBegin;
  for (MatStreamFunction f = 0; f < MATSTREAM_FUNCTIONS; f++) {
    if (data->functions[f]) PetscCall(PetscObjectComposeFunction((PetscObject)A, functions[f].name, data->functions[f]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
