/*
   MATMPIAIJSTREAM: each process streams its diagonal block, which is a MATSEQAIJSTREAM. The block outside the diagonal and the
   entries of other processes are in the memory of the vectors
*/
#include "matstream.h"
#include <petscidrs/private/idrsmemory.h>

/*
   MatStreamGetBlock_Private - Returns the diagonal block as a MATSEQAIJSTREAM with the settings of the matrix, the block outside
   and its columns; NULL if the matrix has none yet. Collective
*/
PetscErrorCode MatStreamGetBlock_Private(Mat A, Mat *block, Mat *outside, const PetscInt *columns[])
{
  Mat_AIJStream *mine = MatStreamData(A), *its;
  PetscBool      streams;

  PetscFunctionBegin;
  PetscCall(MatStreamFindShare_Private(A));
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
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Creates the scatter to the columns of the block outside, and the copy of this block in the memory of the vectors, again if they
   have changed
*/
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
  if (changed) {
    PetscInt count;
    IS       from;

    PetscCall(MatGetLocalSize(outside, NULL, &count));
    PetscCall(VecScatterDestroy(&data->scatter));
    PetscCall(VecDestroy(&data->ghosts));
    PetscCall(VecCreate(PETSC_COMM_SELF, &data->ghosts));
    PetscCall(VecSetSizes(data->ghosts, count, count));
    PetscCall(VecSetType(data->ghosts, A->defaultvectype));
    PetscCall(ISCreateGeneral(PETSC_COMM_SELF, count, columns, PETSC_COPY_VALUES, &from));
    PetscCall(VecScatterCreate(x, from, data->ghosts, NULL, &data->scatter));
    PetscCall(ISDestroy(&from));
  }
  if (changed || data->offstate != state) {
    PetscCall(MatDestroy(&data->off));
#if defined(PETSCIDRS_HAVE_CUDA)
    if (data->ops->memtype == PETSC_MEMTYPE_CUDA) PetscCall(MatConvert(outside, MATSEQAIJCUSPARSE, MAT_INITIAL_MATRIX, &data->off));
#endif
    if (!data->off) {
      PetscCall(PetscObjectReference((PetscObject)outside));
      data->off = outside;
    }
  }
  data->offid        = id;
  data->offstate     = state;
  data->nonzerostate = A->nonzerostate;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   MatMult_MPIAIJStream - Computes y = A x. If vectors of the device's type are bound to the CPU on some processes, these multiply
   on the host, but scatter as the others
*/
PetscErrorCode MatMult_MPIAIJStream(Mat A, Vec x, Vec y)
{
  Mat_AIJStream  *data = MatStreamData(A);
  const PetscInt *columns;
  PetscBool       supported, device;
  Mat             block, outside;
  PetscErrorCode  ierr;

  PetscFunctionBegin;
  PetscCall(MatStreamGetBlock_Private(A, &block, &outside, &columns));
  PetscCall(MatStreamUsesDevice_Private(block, 2, (Vec[]){x, y}, &supported, &device));
  if (!supported) {
    PetscCall((*data->parent.mult)(A, x, y));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(MatStreamSetUpProduct(A, outside, columns, x));
  if (device) outside = data->off;
  PetscCall(VecBindToCPU(data->ghosts, (PetscBool)!device));
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
