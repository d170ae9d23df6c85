/*
   A set of vectors, and their inner products with each other
*/
#include <petsc/private/vecimpl.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsworkimpl.h>

/*
   IDRSVecsCreate - Vectors like this one, whose values are not set. On a GPU they are in one piece of memory: each piece takes 0.2
   ms, to have and to give back. memory belongs to them
*/
PetscErrorCode IDRSVecsCreate(Vec like, PetscInt count, Vec *vecs[], void **memory)
{
  PetscBool device = PETSC_FALSE, ghosted = PETSC_FALSE;
  Vec      *created;

  PetscFunctionBegin;
  *memory = NULL;
  PetscCall(IDRSOnDevice(like, &device));
  PetscCall(IDRSGhosted(like, &ghosted));
#if defined(PETSCIDRS_HAVE_CUDA)
  if (device && !ghosted) {
    PetscErrorCode ierr;

    PetscCall(PetscCalloc1(count, &created));
    ierr = IDRSVecsCreate_CUDA(like, count, created, memory);
    if (ierr) {
      PetscCall(IDRSColumnsDestroy(count, &created));
      PetscCall(IDRSVecsFree_CUDA(memory));
    }
    PetscCall(ierr);
    *vecs = created;
    PetscFunctionReturn(PETSC_SUCCESS);
  }
#endif
  PetscCall(VecDuplicateVecs(like, count, &created));
  *vecs = created; /* only once it is complete */
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSVecsDestroy(PetscInt count, Vec *vecs[], void **memory)
{
  PetscFunctionBegin;
  PetscCall(VecDestroyVecs(count, vecs));
#if defined(PETSCIDRS_HAVE_CUDA)
  if (*memory) PetscCall(IDRSVecsFree_CUDA(memory));
#endif
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSVecGram - W[i + j n] = k_i^H k_j for i <= j < n, in one reduction where the vectors allow it */
PetscErrorCode IDRSVecGram(PetscInt n, Vec K[], PetscScalar W[])
{
  const PetscBool split  = (PetscBool)(K[0]->ops->mdot_local != NULL);
  PetscBool       device = PETSC_FALSE;

  PetscFunctionBegin;
  PetscCall(IDRSOnDevice(K[0], &device));
#if defined(PETSCIDRS_HAVE_CUDA)
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
