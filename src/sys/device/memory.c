#include <petsc/private/vecimpl.h>
#include <petscidrs/private/idrsmemory.h>
#include <petscidrs/private/idrscompat.h>

/*
   IDRSVecWhere - Returns the memory of the array of a vector; the host, if a vector has no array. The function gets the array,
   because some duplicates of a vector bound to the CPU are not marked as bound
*/
PetscErrorCode IDRSVecWhere(Vec x, IDRSMemory *place)
{
  const PetscScalar *array;
  PetscMemType       type;

  PetscFunctionBegin;
  *place = IDRS_MEMORY_HOST;
  if (!x->petscnative && !x->ops->getarray) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecGetArrayReadAndMemType(x, &array, &type));
  PetscCall(VecRestoreArrayReadAndMemType(x, &array));
  if (PetscMemTypeDevice(type)) *place = IDRS_MEMORY_CUDA;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSMatWhere - Returns the memory of the arrays that the products of a matrix read */
PetscErrorCode IDRSMatWhere(Mat A, IDRSMemory *place)
{
  PetscBool cuda, bound;

  PetscFunctionBegin;
  PetscCall(
    PetscObjectTypeCompareAny((PetscObject)A, &cuda, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, MATSEQDENSECUDA, MATMPIDENSECUDA, ""));
  PetscCall(MatBoundToCPU(A, &bound));
  *place = cuda && !bound ? IDRS_MEMORY_CUDA : IDRS_MEMORY_HOST;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSMatBindLike - Binds a matrix to the CPU if another one is bound */
PetscErrorCode IDRSMatBindLike(Mat like, Mat A)
{
  PetscBool bound;

  PetscFunctionBegin;
  PetscCall(MatBoundToCPU(like, &bound));
  PetscCall(MatBindToCPU(A, bound));
  PetscFunctionReturn(PETSC_SUCCESS);
}
