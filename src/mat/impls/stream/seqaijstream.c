/*
   MATSEQAIJSTREAM: the stream of a matrix on one process, and products with it. Copies may be made from the arrays of the matrix
   only while the arrays are registered, so this file wraps the functions that free or move them
*/
#include "matstream.h"
#include <petscidrs/private/idrsrows.h>
#if defined(PETSCIDRS_HAVE_CUDA)
  #include "streamcuda.h"
#endif

/* Creates the stream for the nonzeros of the matrix */
static PetscErrorCode MatStreamCreateStream(Mat A, const IDRSRows *rows)
{
  Mat_AIJStream    *data   = MatStreamData(A);
  void             *device = data->device;
  IDRSStreamPattern pattern;

  PetscFunctionBegin;
  PetscCall(
    IDRSStreamPatternCreate(rows->n, A->cmap->n, rows->i, rows->j, (size_t)data->settings.chunk, data->settings.ordered, &pattern));
  if (data->settings.ordered && !pattern->ordered) PetscCall(PetscInfo(A, "Chunks in natural order: the matrix is not square\n"));
#if defined(PETSCIDRS_HAVE_CUDA)
  if (!device) PetscCall((*IDRSStreamGPU_CUDA.create)(data->settings.pageable, &device));
#endif
  PetscCall(IDRSStreamCreate(pattern, rows->a, MatStreamLimit_Private(A), data->ops, device, &data->stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamGet_Private - Returns the stream of a sequential matrix, with its present values */
PetscErrorCode MatStreamGet_Private(Mat A, IDRSStream *stream)
{
  Mat_AIJStream   *data = MatStreamData(A);
  PetscObjectState state;
  IDRSRows         rows;

  PetscFunctionBegin;
  PetscCheck(A->assembled, PETSC_COMM_SELF, PETSC_ERR_ARG_WRONGSTATE, "The matrix is not assembled");
  PetscCall(PetscObjectStateGet((PetscObject)A, &state));
  PetscCall(IDRSRowsGet(A, &rows));
  /* other nonzeros need another pattern, other values do not */
  if (data->stream &&
      (data->nonzerostate != A->nonzerostate || data->stream->pattern->entries != (size_t)(rows.n ? rows.i[rows.n] : 0)))
    PetscCall(IDRSStreamDestroy(&data->stream));
  if (!data->stream) PetscCall(MatStreamCreateStream(A, &rows));
  else if (data->state != state || data->stream->values != rows.a) PetscCall(IDRSStreamSetValues(data->stream, rows.a));
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
  PetscBool          device;

  PetscFunctionBegin;
  PetscCall(MatStreamUsesDevice_Private(A, x, &device));
  if (device) PetscCall(MatStreamUsesDevice_Private(A, y, &device));
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
