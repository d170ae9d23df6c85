/*
   Copies of D^{-1}A: the choice of the back end, the agreement of all processes, and the arrays of a product
*/
#include "polyimpl.h"
#include <petscidrs/private/idrsstream.h>

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

/* Returns the back end for this matrix and vectors like this one, or NULL and the reason if there is none */
static PetscErrorCode PCPolyCopyGetOps(Mat A, Vec like, const PCPolyCopyOps **ops, const char *why[])
{
  PetscBool   aij, host, cusparse, cuda, streamed, takes = PETSC_FALSE;
  IDRSPlace   place;
  PetscMPIInt all;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &aij, MATSEQAIJ, MATMPIAIJ, MATSEQAIJSTREAM, MATMPIAIJSTREAM, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &streamed, MATSEQAIJSTREAM, MATMPIAIJSTREAM, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)like, &host, VECSEQ, VECMPI, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &cusparse, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)like, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(IDRSMatWhere(A, &place));
  if (streamed) { /* vectors may be bound to the CPU on some processes */
    PetscCall(MatStreamUsesDevice_Private(A, like, &takes));
    all = takes ? 1 : 0;
    IDRSCallAllreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, PetscObjectComm((PetscObject)A));
    takes = all ? PETSC_TRUE : PETSC_FALSE;
  }
  *ops = NULL;
  *why = NULL;
  if (takes && host) *why = "the matrix is streamed";
#if defined(PETSCIDRS_HAVE_CUDA)
  else if (takes) *ops = &PCPolyCopies_Stream;
#endif
  else if (host && aij) *ops = &PCPolyCopies_Host;
  else if (cusparse && place == IDRS_PLACE_HOST) *why = "the matrix is bound to the CPU";
#if defined(PETSCIDRS_HAVE_CUDA)
  else if (cuda && cusparse) *ops = &PCPolyCopies_CUDA;
#endif
  else
    *why = !host && !cuda ? "the vectors are not of type standard or cuda"
                          : "the matrix is not of type aij, or its vectors are elsewhere";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCPolyCopyCreate_Private - Creates the copy of an operator D^{-1}A with values of this precision, or of a wider one if the back
   end has no such values; NULL and the reason if there is none for this matrix. unit: all diagonal entries of D^{-1}A are 1
*/
PetscErrorCode PCPolyCopyCreate_Private(const PCPolyOperator *op, PetscBool unit, PCPolyPrecision precision, PCPolyCopy *newcopy,
                                        const char *why[])
{
  const PCPolyCopyOps *ops = NULL;
  PetscInt             bad[2]; /* flags: no copy; not finite */
  PetscBool            finite = PETSC_TRUE;
  PetscMPIInt          size;

  PetscFunctionBegin;
  *newcopy = NULL;
  PetscCall(PCPolyCopyGetOps(op->A, op->w, &ops, why));
  /* If one process has no copy, or entries that its precision does not hold, no process has one */
  if (ops) {
    PetscCall(PetscNew(newcopy));
    (*newcopy)->ops       = ops;
    (*newcopy)->precision = PetscMax(precision, ops->narrowest);
    PetscCall(ops->create(*newcopy, op->A, op->inverse, unit, why, &finite));
  }
  bad[0] = *why != NULL;
  bad[1] = !finite;
  IDRSCallAllreduce(MPI_IN_PLACE, bad, 2, MPIU_INT, MPI_MAX, PetscObjectComm((PetscObject)op->A));
  if (bad[0] && !*why) *why = "another process has no copy";
  if (bad[1] && !*why) *why = "it has entries that are infinite, NaN, or too large for the precision";
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)op->A), &size));
  if (*why) PetscCall(PCPolyCopyDestroy_Private(newcopy));
  else if (size > 1) PetscCall(ops->connect(*newcopy, op->A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyCopyTooLarge_Private - Returns the reason why a copy with too many places per entry is not made, or NULL */
const char *PCPolyCopyTooLarge_Private(PetscLogDouble places, PetscLogDouble entries)
{
  return places > PCPOLY_PADDING * entries + PCPOLY_SPARE_PLACES ? "its rows are too uneven in length, or too wide" : NULL;
}

/* PCPolyCopyConnect_Scatter - Does nothing: the products of a copy use its scatter */
PetscErrorCode PCPolyCopyConnect_Scatter(PCPolyCopy copy, Mat A)
{
  PetscFunctionBegin;
  (void)copy;
  (void)A;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCPolyCheckMemory(PetscMemType type, PetscBool device)
{
  PetscFunctionBegin;
  PetscCheck(!device || PetscMemTypeDevice(type), PETSC_COMM_SELF, PETSC_ERR_ARG_WRONGSTATE,
             "A vector of PCPOLY is not in the memory of the GPU any more");
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyGetArrays_Private - Gets the arrays of a product, in the memory of the GPU if it is for the device */
PetscErrorCode PCPolyGetArrays_Private(const PCPolyProduct *product, PetscBool device, PCPolyArrays *arrays)
{
  PetscMemType type;

  PetscFunctionBegin;
  *arrays = (PCPolyArrays){.alpha = product->alpha, .beta = product->beta};
  PetscCall(VecGetArrayReadAndMemType(product->z, &arrays->z, &type));
  PetscCall(PCPolyCheckMemory(type, device));
  if (product->d) {
    PetscCall(VecGetArrayReadAndMemType(product->d, &arrays->d, &type));
    PetscCall(PCPolyCheckMemory(type, device));
  }
  if (product->y == product->u) {
    PetscCall(VecGetArrayAndMemType(product->y, &arrays->y, &type));
    arrays->u = arrays->y;
  } else {
    PetscCall(VecGetArrayReadAndMemType(product->u, &arrays->u, &type));
    PetscCall(PCPolyCheckMemory(type, device));
    PetscCall(VecGetArrayWriteAndMemType(product->y, &arrays->y, &type));
  }
  PetscCall(PCPolyCheckMemory(type, device));
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
