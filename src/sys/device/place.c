#include <petsc/private/vecimpl.h>
#include <petscidrs/private/idrsplace.h>
#include <petscidrs/private/idrscompat.h>

/*
   IDRSVecWhere - Returns the memory of the array of a vector; the host, if a vector has no array. The function gets the array,
   because some duplicates of a vector bound to the CPU are not marked as bound
*/
PetscErrorCode IDRSVecWhere(Vec x, IDRSPlace *place)
{
  const PetscScalar *array;
  PetscMemType       type;

  PetscFunctionBegin;
  *place = IDRS_PLACE_HOST;
  if (!x->petscnative && !x->ops->getarray) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecGetArrayReadAndMemType(x, &array, &type));
  PetscCall(VecRestoreArrayReadAndMemType(x, &array));
  if (PetscMemTypeDevice(type)) *place = IDRS_PLACE_CUDA;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSMatWhere - Returns the memory of the arrays that the products of a matrix read */
PetscErrorCode IDRSMatWhere(Mat A, IDRSPlace *place)
{
  PetscBool cuda, bound;

  PetscFunctionBegin;
  PetscCall(
    PetscObjectTypeCompareAny((PetscObject)A, &cuda, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, MATSEQDENSECUDA, MATMPIDENSECUDA, ""));
  PetscCall(MatBoundToCPU(A, &bound));
  *place = cuda && !bound ? IDRS_PLACE_CUDA : IDRS_PLACE_HOST;
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
