/*
   The copy of D^{-1}A: whether there is one, the agreement of all processes, and the arrays of a product
*/
#include "polyimpl.h"

/* Largest number of places of a copy per entry of the matrix, and an additional number for every matrix */
#define PCPOLY_PADDING      1.5
#define PCPOLY_SPARE_PLACES 1024

PetscErrorCode PCPolyCopyDestroy_Private(PCPolyCopy *copy)
{
  PetscFunctionBegin;
  if (*copy) PetscCall((*(*copy)->ops->destroy)(*copy));
  PetscCall(PetscFree(*copy));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets why to NULL, or to the reason why there is no copy of this matrix for vectors like this one */
static PetscErrorCode PCPolyCopyRuns(Mat A, Vec like, const char *why[])
{
  PetscBool cusparse, cuda;
  IDRSPlace place;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &cusparse, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)like, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(IDRSMatWhere(A, &place));
  if (!cusparse) *why = "the matrix is not of type aijcusparse";
  else if (place == IDRS_PLACE_HOST) *why = "the matrix is bound to the CPU";
  else if (!cuda) *why = "its vectors are not of type cuda";
#if defined(PETSCIDRS_HAVE_CUDA)
  else *why = NULL;
#else
  else *why = "this library was built without CUDA";
#endif
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCPolyCopyCreate_Private - Creates the copy of an operator D^{-1}A with values of this precision; NULL and the reason if there is
   none for this matrix. unit: all diagonal entries of D^{-1}A are 1
*/
PetscErrorCode PCPolyCopyCreate_Private(const PCPolyOperator *op, PetscBool unit, PCPolyPrecision precision, PCPolyCopy *newcopy,
                                        const char *why[])
{
  PetscInt    bad[2]; /* flags: no copy; not finite */
  PetscBool   finite = PETSC_TRUE;
  PetscMPIInt size;

  PetscFunctionBegin;
  *newcopy = NULL;
  PetscCall(PCPolyCopyRuns(op->A, op->w, why));
#if defined(PETSCIDRS_HAVE_CUDA)
  if (!*why) {
    PetscCall(PetscNew(newcopy));
    (*newcopy)->ops       = &PCPolyCopies_CUDA;
    (*newcopy)->precision = precision;
    PetscCall((*newcopy)->ops->create(*newcopy, op->A, op->inverse, unit, why, &finite));
  }
#endif
  /* If one process has no copy, or entries that its precision does not hold, no process has one */
  bad[0] = *why != NULL;
  bad[1] = !finite;
  IDRSCallAllreduce(MPI_IN_PLACE, bad, 2, MPIU_INT, MPI_MAX, PetscObjectComm((PetscObject)op->A));
  if (bad[0] && !*why) *why = "another process has no copy";
  if (bad[1] && !*why) *why = "it has entries that are infinite, NaN, or too large for the precision";
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)op->A), &size));
  if (*why) PetscCall(PCPolyCopyDestroy_Private(newcopy));
  else if (size > 1) PetscCall((*newcopy)->ops->connect(*newcopy, op->A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyCopyTooLarge_Private - Returns the reason why a copy with too many places per entry is not made, or NULL */
const char *PCPolyCopyTooLarge_Private(PetscLogDouble places, PetscLogDouble entries)
{
  return places > PCPOLY_PADDING * entries + PCPOLY_SPARE_PLACES ? "its rows are too uneven in length, or too wide" : NULL;
}

static PetscErrorCode PCPolyCheckMemory(PetscMemType type)
{
  PetscFunctionBegin;
  PetscCheck(PetscMemTypeDevice(type), PETSC_COMM_SELF, PETSC_ERR_ARG_WRONGSTATE,
             "A vector of PCPOLY is not in the memory of the GPU any more");
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyGetArrays_Private - Gets the arrays of a product, in the memory of the GPU */
PetscErrorCode PCPolyGetArrays_Private(const PCPolyProduct *product, PCPolyArrays *arrays)
{
  PetscMemType type;

  PetscFunctionBegin;
  *arrays = (PCPolyArrays){.alpha = product->alpha, .beta = product->beta};
  PetscCall(VecGetArrayReadAndMemType(product->z, &arrays->z, &type));
  PetscCall(PCPolyCheckMemory(type));
  if (product->d) {
    PetscCall(VecGetArrayReadAndMemType(product->d, &arrays->d, &type));
    PetscCall(PCPolyCheckMemory(type));
  }
  if (product->y == product->u) {
    PetscCall(VecGetArrayAndMemType(product->y, &arrays->y, &type));
    arrays->u = arrays->y;
  } else {
    PetscCall(VecGetArrayReadAndMemType(product->u, &arrays->u, &type));
    PetscCall(PCPolyCheckMemory(type));
    PetscCall(VecGetArrayWriteAndMemType(product->y, &arrays->y, &type));
  }
  PetscCall(PCPolyCheckMemory(type));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyRestoreArrays_Private - Restores the arrays of a product */
PetscErrorCode PCPolyRestoreArrays_Private(const PCPolyProduct *product, PCPolyArrays *arrays)
{
  PetscFunctionBegin;
  if (product->y == product->u) PetscCall(VecRestoreArrayAndMemType(product->y, &arrays->y));
  else {
    PetscCall(VecRestoreArrayWriteAndMemType(product->y, &arrays->y));
    PetscCall(VecRestoreArrayReadAndMemType(product->u, &arrays->u));
  }
  if (product->d) PetscCall(VecRestoreArrayReadAndMemType(product->d, &arrays->d));
  PetscCall(VecRestoreArrayReadAndMemType(product->z, &arrays->z));
  PetscFunctionReturn(PETSC_SUCCESS);
}
