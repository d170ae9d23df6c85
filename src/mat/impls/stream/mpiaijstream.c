/*
   MATMPIAIJSTREAM: each process streams its diagonal block, which is a MATSEQAIJSTREAM. The block outside the diagonal and the
   entries of other processes are in the memory of the vectors
*/
#include "matstream.h"
#include <petscidrs/private/idrsplace.h>

/*
   Without -mat_stream_memory the processes that share a device have equal parts of half of its free memory. They determine it
   together before the first of them allocates any
*/
static PetscErrorCode MatStreamFindShare(Mat A)
{
  Mat_AIJStream *data = MatStreamData(A);

  PetscFunctionBegin;
  if (!data->ops || data->share || data->settings.memory > 0.0) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall((*data->ops->available)(data->device, PetscObjectComm((PetscObject)A), &data->share));
  data->share = PetscMax(data->share / 2, 1);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   MatStreamGetBlock_Private - Returns the diagonal block as a MATSEQAIJSTREAM with the settings of the matrix, the block outside
   and its columns; NULL if the matrix has none yet. Collective
*/
PetscErrorCode MatStreamGetBlock_Private(Mat A, Mat *block, Mat *outside, const PetscInt *columns[])
{
  Mat_AIJStream *mine = MatStreamData(A), *its;
  PetscBool      streams;

  PetscFunctionBegin;
  PetscCheck(!mine->settings.ordered, PetscObjectComm((PetscObject)A), PETSC_ERR_SUP,
             "-mat_stream_ordering rcm does not support several processes; use natural");
  PetscCall(MatStreamFindShare(A));
  PetscCall(MatMPIAIJGetSeqAIJ(A, block, outside, columns));
  if (!*block) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscObjectTypeCompare((PetscObject)*block, MATSEQAIJSTREAM, &streams));
  /* the operation of A instead of MatConvert(), which would increase the state of the block */
  if (!streams) PetscCall((*A->ops->convertfrom)(*block, MATSEQAIJSTREAM, MAT_INPLACE_MATRIX, block));
  PetscCall(IDRSMatBindLike(A, *block));
  its = MatStreamData(*block);
  if (its->settings.chunk != mine->settings.chunk || its->settings.pageable != mine->settings.pageable || its->ops != mine->ops ||
      its->device != mine->device)
    PetscCall(MatStreamReset_Private(*block));
  its->settings = mine->settings;
  its->share    = mine->share;
  its->ops      = mine->ops;
  its->device   = mine->device;
  PetscCall(MatStreamUpdateLimit_Private(*block));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates the scatter to the columns of the block outside */
static PetscErrorCode MatStreamSetUpScatter(Mat A, Mat outside, const PetscInt columns[], Vec x)
{
  Mat_AIJStream *data = MatStreamData(A);
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

/* Copies the block outside to the memory of the vectors */
static PetscErrorCode MatStreamSetUpOutside(Mat A, Mat outside)
{
  Mat_AIJStream *data = MatStreamData(A);

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

/* Creates the scatter and the block outside again if they have changed */
static PetscErrorCode MatStreamSetUpProduct(Mat A, Mat outside, const PetscInt columns[], Vec x)
{
  Mat_AIJStream   *data = MatStreamData(A);
  PetscObjectId    id;
  PetscObjectState state;
  PetscBool        changed;

  PetscFunctionBegin;
  PetscCall(PetscObjectGetId((PetscObject)outside, &id));
  PetscCall(PetscObjectStateGet((PetscObject)outside, &state));
  /* another object or another nonzero state is the same on all processes, which create the scatter together */
  changed = (PetscBool)(data->offid != id || data->nonzerostate != A->nonzerostate || !data->scatter);
  if (changed) PetscCall(MatStreamSetUpScatter(A, outside, columns, x));
  if (changed || data->offstate != state) PetscCall(MatStreamSetUpOutside(A, outside));
  data->offid        = id;
  data->offstate     = state;
  data->nonzerostate = A->nonzerostate;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   MatStreamGetOutside_Private - Returns the block outside in the memory of vectors like x, the scatter to the entries that it
   multiplies, and these entries; they belong to the matrix
*/
PetscErrorCode MatStreamGetOutside_Private(Mat A, Vec x, Mat *off, VecScatter *scatter, Vec *ghosts)
{
  Mat_AIJStream  *data = MatStreamData(A);
  const PetscInt *columns;
  Mat             block, outside;

  PetscFunctionBegin;
  PetscCall(MatStreamGetBlock_Private(A, &block, &outside, &columns));
  PetscCall(MatStreamSetUpProduct(A, outside, columns, x));
  *off     = data->off;
  *scatter = data->scatter;
  *ghosts  = data->ghosts;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* If vectors of the device's type are bound to the CPU on some processes, these multiply on the host, but scatter as the others */
static PetscErrorCode MatMult_MPIAIJStream(Mat A, Vec x, Vec y)
{
  Mat_AIJStream  *data = MatStreamData(A);
  const PetscInt *columns;
  PetscBool       supported[2], device[2];
  Mat             block, outside;
  PetscErrorCode  ierr;

  PetscFunctionBegin;
  PetscCall(MatStreamGetBlock_Private(A, &block, &outside, &columns));
  PetscCall(MatStreamSupportsType_Private(A, x, &supported[0]));
  PetscCall(MatStreamSupportsType_Private(A, y, &supported[1]));
  if (!supported[0] || !supported[1]) {
    PetscCall((*data->parent.mult)(A, x, y));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(MatStreamSetUpProduct(A, outside, columns, x));
  PetscCall(MatStreamUsesDevice_Private(block, x, &device[0]));
  PetscCall(MatStreamUsesDevice_Private(block, y, &device[1]));
  if (device[0] && device[1]) outside = data->off;
  PetscCall(VecBindToCPU(data->ghosts, (PetscBool)(!device[0] || !device[1])));
  PetscCall(VecScatterBegin(data->scatter, x, data->ghosts, INSERT_VALUES, SCATTER_FORWARD));
  /* y = A_diagonal x during the scatter of ghosts; the operations of blocks accept parallel vectors, as in MATMPIAIJ */
  ierr = (*block->ops->mult)(block, x, y);
  /* also after an error, because the next product could not begin the scatter otherwise */
  PetscCall(VecScatterEnd(data->scatter, x, data->ghosts, INSERT_VALUES, SCATTER_FORWARD));
  PetscCall(ierr);
  /* y += A_outside ghosts */
  PetscUseTypeMethod(outside, multadd, data->ghosts, y, y);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamBegin_MPIAIJ - Sets the operations that only the parallel type has */
PetscErrorCode MatStreamBegin_MPIAIJ(Mat A)
{
  PetscFunctionBegin;
  A->ops->mult = MatMult_MPIAIJStream;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamEnd_MPIAIJ - Converts the diagonal block to a MATSEQAIJ */
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
