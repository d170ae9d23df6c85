/*
   The inner products of a set of vectors with each other
*/
#include <petsc/private/vecimpl.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsops.h>

/* IDRSVecGram - W[i + j n] = k_i^H k_j for i <= j < n, in one reduction where the vectors allow it */
PetscErrorCode IDRSVecGram(PetscInt n, Vec K[], PetscScalar W[])
{
  const PetscBool split  = (PetscBool)(K[0]->ops->mdot_local != NULL);
  PetscBool       device = PETSC_FALSE;

  PetscFunctionBegin;
  PetscCall(IDRSOnDevice(K[0], &device));
#if PetscDefined(HAVE_CUDA)
  if (device) {
    PetscCall(IDRSVecGram_CUDA(n, K, W));
    IDRSCallAllreduce(MPI_IN_PLACE, W, n * n, MPIU_SCALAR, MPIU_SUM, PetscObjectComm((PetscObject)K[0]));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
#endif
  for (PetscInt j = 0; j < n; j++) {
    if (split) PetscCall(VecMDotBegin(K[j], j + 1, K, W + j * n));
    else PetscCall(VecMDot(K[j], j + 1, K, W + j * n));
  }
  for (PetscInt j = 0; split && j < n; j++) PetscCall(VecMDotEnd(K[j], j + 1, K, W + j * n));
  PetscFunctionReturn(PETSC_SUCCESS);
}
