/*
   The copy of D^{-1}A: its creation, which all processes agree on
*/
#include "polyimpl.h"

PetscErrorCode PCPolyCopyDestroy_Private(PCPolyCopy *copy)
{
  PetscFunctionBegin;
  if (*copy) PetscCall((*(*copy)->ops->destroy)(*copy));
  PetscCall(PetscFree(*copy));
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
  PetscBool   cusparse, cuda, finite = PETSC_TRUE;
  IDRSPlace   place;
  PetscMPIInt size;

  PetscFunctionBegin;
  *newcopy = NULL;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)op->A, &cusparse, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)op->w, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(IDRSMatWhere(op->A, &place));
  if (!cusparse) *why = "the matrix is not of type aijcusparse";
  else if (place == IDRS_PLACE_HOST) *why = "the matrix is bound to the CPU";
  else if (!cuda) *why = "its vectors are not of type cuda";
#if !defined(PETSCIDRS_HAVE_CUDA)
  else *why = "this library was built without CUDA";
#else
  else {
    *why = NULL;
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
