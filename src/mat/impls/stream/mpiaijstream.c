/*
   MATMPIAIJSTREAM: each process streams its diagonal block, which is a MATSEQAIJSTREAM. The block outside the diagonal and the
   entries of other processes stay where the vectors are
*/
#include "aijstream.h"

static inline Mat_AIJStream *Data(Mat A)
{
  return (Mat_AIJStream *)A->spptr;
}

/*
   Without -mat_stream_memory the processes that share a device share its memory: each takes its part of half of what is free before
   the first of them takes any
*/
static PetscErrorCode FindShare(Mat A)
{
  Mat_AIJStream *data = Data(A);

  PetscFunctionBegin;
  if (!data->ops || data->share || data->settings.memory > 0.0) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall((*data->ops->available)(data->device, PetscObjectComm((PetscObject)A), &data->share));
  data->share = PetscMax(data->share / 2, 1);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   MatStreamGetBlock_Private - The diagonal block, the block outside and its columns; NULL where a matrix has none yet. Collective
*/
PetscErrorCode MatStreamGetBlock_Private(Mat A, Mat *block, Mat *outside, const PetscInt *columns[])
{
  Mat_AIJStream *mine = Data(A), *its;
  PetscBool      streams, bound;
  size_t         limit;

  PetscFunctionBegin;
  PetscCheck(!mine->settings.ordered, PetscObjectComm((PetscObject)A), PETSC_ERR_SUP,
             "-mat_stream_ordering rcm: on one process, and this matrix is on several");
  PetscCall(FindShare(A));
  PetscCall(MatMPIAIJGetSeqAIJ(A, block, outside, columns));
  if (!*block) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscObjectTypeCompare((PetscObject)*block, MATSEQAIJSTREAM, &streams));
  if (!streams) PetscCall(MatStreamBegin_Private(*block));
  PetscCall(MatBoundToCPU(A, &bound));
  PetscCall(MatBindToCPU(*block, bound));
  its   = Data(*block);
  limit = MatStreamLimit_Private(*block);
  if (its->settings.chunk != mine->settings.chunk || its->settings.columns != mine->settings.columns ||
      its->settings.pageable != mine->settings.pageable || its->ops != mine->ops || its->device != mine->device)
    PetscCall(MatStreamReset_Private(*block));
  its->settings = mine->settings;
  its->share    = mine->share;
  its->ops      = mine->ops;
  its->device   = mine->device;
  if (its->stream && limit != MatStreamLimit_Private(*block))
    PetscCall(IDRSStreamSetLimit(its->stream, MatStreamLimit_Private(*block)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The scatter to the columns of the block outside, which has changed */
static PetscErrorCode SetUpScatter(Mat A, Mat outside, const PetscInt columns[], Vec x)
{
  Mat_AIJStream *data = Data(A);
  PetscInt       count;
  IS             from;

  PetscFunctionBegin;
  PetscCall(MatGetLocalSize(outside, NULL, &count));
  PetscCall(VecScatterDestroy(&data->scatter));
  PetscCall(VecDestroy(&data->ghosts));
  PetscCall(VecCreate(PETSC_COMM_SELF, &data->ghosts));
  PetscCall(VecSetSizes(data->ghosts, count, count));
  PetscCall(VecSetType(data->ghosts, A->defaultvectype));
  PetscCall(ISCreateGeneral(PETSC_COMM_SELF, count, columns, PETSC_COPY_VALUES, &from));
  PetscCall(VecScatterCreate(x, from, data->ghosts, NULL, &data->scatter));
  PetscCall(ISDestroy(&from));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The block outside, where the vectors are */
static PetscErrorCode SetUpOutside(Mat A, Mat outside)
{
  Mat_AIJStream *data = Data(A);

  PetscFunctionBegin;
  PetscCall(MatDestroy(&data->off));
#if defined(PETSCIDRS_HAVE_CUDA)
  if (data->ops->memtype == PETSC_MEMTYPE_CUDA) {
    PetscCall(MatConvert(outside, MATSEQAIJCUSPARSE, MAT_INITIAL_MATRIX, &data->off));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
#endif
  PetscCall(PetscObjectReference((PetscObject)outside));
  data->off = outside;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* As long as the block outside is the same. Another object or another nonzero state is there for all processes */
static PetscErrorCode SetUp(Mat A, Mat outside, const PetscInt columns[], Vec x)
{
  Mat_AIJStream   *data = Data(A);
  PetscObjectId    id;
  PetscObjectState state;
  PetscBool        changed;

  PetscFunctionBegin;
  PetscCall(PetscObjectGetId((PetscObject)outside, &id));
  PetscCall(PetscObjectStateGet((PetscObject)outside, &state));
  changed = (PetscBool)(data->offid != id || data->nonzerostate != A->nonzerostate || !data->scatter);
  if (changed) PetscCall(SetUpScatter(A, outside, columns, x));
  if (changed || data->offstate != state) PetscCall(SetUpOutside(A, outside));
  data->offid        = id;
  data->offstate     = state;
  data->nonzerostate = A->nonzerostate;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   MatStreamGetOutside_Private - The block outside where vectors like x are, the scatter to the entries that it is multiplied by,
   and these; all of them are the matrix's
*/
PetscErrorCode MatStreamGetOutside_Private(Mat A, Vec x, Mat *off, VecScatter *scatter, Vec *ghosts)
{
  Mat_AIJStream  *data = Data(A);
  const PetscInt *columns;
  Mat             block, outside;

  PetscFunctionBegin;
  PetscCall(MatStreamGetBlock_Private(A, &block, &outside, &columns));
  PetscCall(SetUp(A, outside, columns, x));
  *off     = data->off;
  *scatter = data->scatter;
  *ghosts  = data->ghosts;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   y = A_diagonal x + A_outside ghosts, where the ghosts are on their way while the first is computed. Vectors of the device's type
   may be bound to the CPU on some processes: those compute there, and take part in the scatter
*/
static PetscErrorCode MatMult_MPIAIJStream(Mat A, Vec x, Vec y)
{
  Mat_AIJStream  *data = Data(A);
  const PetscInt *columns;
  PetscBool       type[2], takes[2];
  Mat             block, outside, off;
  PetscErrorCode  ierr;

  PetscFunctionBegin;
  PetscCall(MatStreamGetBlock_Private(A, &block, &outside, &columns));
  PetscCall(MatStreamTakesType_Private(A, x, &type[0]));
  PetscCall(MatStreamTakesType_Private(A, y, &type[1]));
  if (!type[0] || !type[1]) {
    PetscCall((*data->parent.mult)(A, x, y));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(SetUp(A, outside, columns, x));
  PetscCall(MatStreamTakes_Private(block, x, &takes[0]));
  PetscCall(MatStreamTakes_Private(block, y, &takes[1]));
  PetscCall(VecBindToCPU(data->ghosts, (PetscBool)(!takes[0] || !takes[1])));
  PetscCall(VecScatterBegin(data->scatter, x, data->ghosts, INSERT_VALUES, SCATTER_FORWARD));
  /* the operations of blocks take vectors of several processes, as in MATMPIAIJ */
  ierr = (*block->ops->mult)(block, x, y);
  /* after an error, too: the next product could not begin it */
  PetscCall(VecScatterEnd(data->scatter, x, data->ghosts, INSERT_VALUES, SCATTER_FORWARD));
  PetscCall(ierr);
  off = takes[0] && takes[1] ? data->off : outside;
  PetscUseTypeMethod(off, multadd, data->ghosts, y, y);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamBegin_MPIAIJ - What only the parallel type has, beside what both have */
PetscErrorCode MatStreamBegin_MPIAIJ(Mat A)
{
  PetscFunctionBegin;
  A->ops->mult = MatMult_MPIAIJStream;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamEnd_MPIAIJ - Its block becomes a MATSEQAIJ again */
PetscErrorCode MatStreamEnd_MPIAIJ(Mat A)
{
  PetscBool streams = PETSC_FALSE;
  Mat       block;

  PetscFunctionBegin;
  PetscCall(MatMPIAIJGetSeqAIJ(A, &block, NULL, NULL));
  if (block) PetscCall(PetscObjectTypeCompare((PetscObject)block, MATSEQAIJSTREAM, &streams));
  if (streams) PetscCall(MatConvert(block, MATSEQAIJ, MAT_INPLACE_MATRIX, &block));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode MatCreate_MPIAIJStream(Mat A)
{
  PetscFunctionBegin;
  PetscCall(MatSetType(A, MATMPIAIJ));
  PetscCall(MatStreamBegin_Private(A));
  PetscFunctionReturn(PETSC_SUCCESS);
}
