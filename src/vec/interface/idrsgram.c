/*
   A set of vectors, and their inner products with each other
*/
#include <petsc/private/vecimpl.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsworkimpl.h>

/*
   Returns the memory of the arrays of a vector on all processes; the host, if they are there on some process, for example because
   of -vec_bind_below. Collective
*/
static PetscErrorCode IDRSVecWhereAll_Private(Vec x, IDRSPlace *place)
{
  PetscMPIInt all;
  PetscBool   cuda;

  PetscFunctionBegin;
  PetscCall(IDRSVecWhere(x, place));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)x, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  if (cuda) {
    all = *place == IDRS_PLACE_HOST ? 0 : 1;
    IDRSCallAllreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, PetscObjectComm((PetscObject)x));
    if (!all) *place = IDRS_PLACE_HOST;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSVecsCreate - Creates vectors like this one, without values. On a GPU they share one allocation, *memory, because each
   allocation and each free takes 0.2 ms. Collective
*/
PetscErrorCode IDRSVecsCreate(Vec like, PetscInt count, Vec *vecs[], void **memory)
{
  const IDRSDeviceOps *device;
  PetscBool            ghosted = PETSC_FALSE;
  IDRSPlace            place;
  Vec                 *created;

  PetscFunctionBegin;
  *memory = NULL;
  PetscCall(IDRSVecWhereAll_Private(like, &place));
  PetscCall(IDRSGhosted(like, &ghosted));
  device = IDRSGetDevice(place);
  if (device && !ghosted) {
    PetscErrorCode ierr;

    PetscCall(PetscCalloc1(count, &created));
    ierr = (*device->create)(like, count, created, memory);
    if (ierr) {
      PetscCall(IDRSColumnsDestroy(count, &created));
      PetscCall((*device->free)(memory));
    }
    PetscCall(ierr);
    *vecs = created;
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(VecDuplicateVecs(like, count, &created));
  *vecs = created; /* only once it is complete */
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSVecsDestroy(PetscInt count, Vec *vecs[], void **memory)
{
  PetscFunctionBegin;
  PetscCall(VecDestroyVecs(count, vecs));
  if (*memory) PetscCall((*IDRSGetDevice(IDRS_PLACE_CUDA)->free)(memory)); /* only devices allocate it */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSVecGram - Computes W[i + j n] = k_i^H k_j for i <= j < n, in one reduction if the vectors support it. Collective */
PetscErrorCode IDRSVecGram(PetscInt n, Vec K[], PetscScalar W[])
{
  const PetscBool split = (PetscBool)(K[0]->ops->mdot_local != NULL);
  IDRSPlace       place;

  PetscFunctionBegin;
  PetscCall(IDRSVecWhereAll_Private(K[0], &place));
  if (IDRSGetDevice(place)) {
    PetscCall((*IDRSGetDevice(place)->gram)(n, K, W));
    IDRSCallAllreduce(MPI_IN_PLACE, W, n * n, MPIU_SCALAR, MPIU_SUM, PetscObjectComm((PetscObject)K[0]));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  /* W(0:j+1,j) = K(:,0:j+1)^H k_j, all columns in one reduction */
  for (PetscInt j = 0; j < n; j++) {
    if (split) PetscCall(VecMDotBegin(K[j], j + 1, K, W + j * n));
    else PetscCall(VecMDot(K[j], j + 1, K, W + j * n));
  }
  for (PetscInt j = 0; split && j < n; j++) PetscCall(VecMDotEnd(K[j], j + 1, K, W + j * n));
  PetscFunctionReturn(PETSC_SUCCESS);
}
