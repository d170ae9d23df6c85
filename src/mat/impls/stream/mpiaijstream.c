/*
   MATMPIAIJSTREAM: each process streams its diagonal block, which is a MATSEQAIJSTREAM. The block outside the diagonal and the entries of other processes stay where
   the vectors are
*/
#include "aijstream.h"

static inline Mat_AIJStream *Data(Mat A)
{
  return (Mat_AIJStream *)A->spptr;
}

/* MatStreamGetBlock_Private - The diagonal block, the block outside and its columns; NULL where a matrix has none yet */
PetscErrorCode MatStreamGetBlock_Private(Mat A, Mat *block, Mat *outside, const PetscInt *columns[])
{
  Mat_AIJStream *mine = Data(A), *its;
  PetscBool      streams;

  PetscFunctionBegin;
  PetscCall(MatMPIAIJGetSeqAIJ(A, block, outside, columns));
  if (!*block) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscObjectTypeCompare((PetscObject)*block, MATSEQAIJSTREAM, &streams));
  if (!streams) PetscCall(MatStreamBegin_Private(*block));
  its = Data(*block);
  if (its->chunk != mine->chunk || its->columns != mine->columns || its->pageable != mine->pageable || its->ops != mine->ops || its->device != mine->device) PetscCall(MatStreamReset_Private(*block));
  if (its->memory != mine->memory) {
    its->memory = mine->memory;
    if (its->stream) PetscCall(IDRSStreamSetLimit(its->stream, MatStreamLimit_Private(*block)));
  }
  its->chunk    = mine->chunk;
  its->columns  = mine->columns;
  its->pageable = mine->pageable;
  its->ops      = mine->ops;
  its->device   = mine->device;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The scatter to the columns of the block outside, which has changed */
static PetscErrorCode SetUpScatter(Mat A, Mat outside, const PetscInt columns[], Vec x)
{
  Mat_AIJStream *data = Data(A);
  PetscInt       count;
  Vec            local;
  IS             from;

  PetscFunctionBegin;
  PetscCall(MatGetLocalSize(outside, NULL, &count));
  PetscCall(VecScatterDestroy(&data->scatter));
  PetscCall(VecDestroy(&data->ghosts));
  PetscCall(VecDestroy(&data->own));
  PetscCall(VecCreateLocalVector(x, &local)); /* of the type that the ghosts are to have */
  PetscCall(VecCreate(PETSC_COMM_SELF, &data->ghosts));
  PetscCall(VecSetSizes(data->ghosts, count, count));
  PetscCall(VecSetType(data->ghosts, ((PetscObject)local)->type_name));
  PetscCall(VecDestroy(&local));
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

/* y = A_diagonal x + A_outside ghosts, where the ghosts are on their way while the first is computed */
static PetscErrorCode MatMult_MPIAIJStream(Mat A, Vec x, Vec y)
{
  Mat_AIJStream     *data = Data(A);
  const PetscInt    *columns;
  const PetscScalar *xarray;
  PetscScalar       *yarray;
  PetscBool          takes;
  Mat                block, outside;

  PetscFunctionBegin;
  PetscCall(MatStreamTakes_Private(A, x, &takes));
  if (takes) PetscCall(MatStreamTakes_Private(A, y, &takes));
  if (!takes) {
    PetscCall((*data->parent.mult)(A, x, y));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(MatStreamGetBlock_Private(A, &block, &outside, &columns));
  PetscCall(SetUp(A, outside, columns, x));
  if (!data->own) PetscCall(VecCreateLocalVector(y, &data->own));
  PetscCall(VecScatterBegin(data->scatter, x, data->ghosts, INSERT_VALUES, SCATTER_FORWARD));
  PetscCall(VecGetArrayReadAndMemType(x, &xarray, NULL));
  PetscCall(VecGetArrayWriteAndMemType(y, &yarray, NULL));
  PetscCall(MatStreamProduct_Private(block, xarray, yarray));
  PetscCall(VecRestoreArrayWriteAndMemType(y, &yarray));
  PetscCall(VecRestoreArrayReadAndMemType(x, &xarray));
  PetscCall(VecScatterEnd(data->scatter, x, data->ghosts, INSERT_VALUES, SCATTER_FORWARD));
  PetscCall(VecGetLocalVector(y, data->own));
  PetscCall(MatMultAdd(data->off, data->ghosts, data->own, data->own));
  PetscCall(VecRestoreLocalVector(y, data->own));
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
