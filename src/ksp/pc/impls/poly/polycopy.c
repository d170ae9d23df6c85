/*
   Copies of D^{-1}A: which back end makes one, and what all processes agree on
*/
#include "polyimpl.h"
#include <petscidrs/private/idrsstream.h>

static const char *const        uneven    = "its rows are too uneven in length, or too wide",
                         *const elsewhere = "another process has no copy";

PetscErrorCode PCPolyCopyDestroy_Private(PCPolyCopy *copy)
{
  PetscFunctionBegin;
  if (*copy) PetscCall((*(*copy)->ops->destroy)(*copy));
  PetscCall(PetscFree(*copy));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* For this matrix and vectors like these; NULL, and why, where there is none */
static PetscErrorCode PCPolyCopyGetOps(Mat A, Vec like, const PCPolyCopyOps **ops, const char *why[])
{
  PetscBool   aij, host, cusparse, cuda, streamed, takes = PETSC_FALSE, bound = PETSC_FALSE;
  PetscMPIInt all;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &aij, MATSEQAIJ, MATMPIAIJ, MATSEQAIJSTREAM, MATMPIAIJSTREAM, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &streamed, MATSEQAIJSTREAM, MATMPIAIJSTREAM, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)like, &host, VECSEQ, VECMPI, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &cusparse, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)like, &cuda, VECSEQCUDA, VECMPICUDA, ""));
#if defined(PETSCIDRS_HAVE_CUDA)
  if (cusparse) PetscCall(MatBoundToCPU(A, &bound));
#endif
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
  else if (bound) *why = "the matrix is bound to the CPU";
#if defined(PETSCIDRS_HAVE_CUDA)
  else if (cuda && cusparse) *ops = &PCPolyCopies_CUDA;
#endif
  else
    *why = !host && !cuda ? "the vectors are not of type standard or cuda"
                          : "the matrix is not of type aij, or its vectors are elsewhere";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCPolyCopyCreate_Private - A copy of D^{-1}A with values of this precision, or of a wider one, if the back end has no such
   values. No entry of D^{-1}A is larger than 1 / IDRS_SMALL_DIAGONAL, which all precisions can hold

   Input Parameters:
+  A         - the matrix
.  like      - a vector of the kind that is multiplied
.  inverse   - the diagonal of D^{-1}, or NULL
.  unit      - whether all rows are scaled by it
-  precision - of the values

   Output Parameters:
+  newcopy - the copy, or NULL
-  why     - why there is none for this matrix, or NULL
*/
PetscErrorCode PCPolyCopyCreate_Private(Mat A, Vec like, Vec inverse, PetscBool unit, PCPolyPrecision precision,
                                        PCPolyCopy *newcopy, const char *why[])
{
  const PCPolyCopyOps *ops = NULL;
  PetscInt             bad[2]; /* no copy; not finite */
  PetscBool            finite = PETSC_TRUE;
  PetscMPIInt          size;

  PetscFunctionBegin;
  *newcopy = NULL;
  PetscCall(PCPolyCopyGetOps(A, like, &ops, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscNew(newcopy));
  (*newcopy)->ops       = ops;
  (*newcopy)->precision = PetscMax(precision, ops->narrowest);
  PetscCall(ops->create(*newcopy, A, inverse, unit, why, &finite));
  bad[0] = *why != NULL;
  bad[1] = !finite;
  IDRSCallAllreduce(MPI_IN_PLACE, bad, 2, MPIU_INT, MPI_MAX, PetscObjectComm((PetscObject)A));
  if (bad[0] && !*why) *why = elsewhere;
  if (bad[1] && !*why) *why = "it has entries that are infinite, NaN, or too large for the precision";
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)A), &size));
  if (*why) PetscCall(PCPolyCopyDestroy_Private(newcopy));
  else if (size > 1) PetscCall(ops->connect(*newcopy, A, &(*newcopy)->connected));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyCopyTooLarge_Private - Why a copy with so many places for so many entries is not made, or NULL */
const char *PCPolyCopyTooLarge_Private(PetscLogDouble places, PetscLogDouble entries)
{
  return places > PCPOLY_PADDING * entries + PCPOLY_SPARE_PLACES ? uneven : NULL;
}

/*
   PCPolyCopyMultiplyAdd_Private - y = d (alpha u + beta D^{-1}A z), entry by entry, where d is NULL for ones; y may be u, and must
   not be z
*/
PetscErrorCode PCPolyCopyMultiplyAdd_Private(PCPolyCopy copy, PetscScalar alpha, Vec u, PetscScalar beta, Vec z, Vec d, Vec y)
{
  PetscFunctionBegin;
  PetscCall(copy->ops->multiplyadd(copy, alpha, u, beta, z, d, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}
