/*
   Settings of a streamed matrix, its memory on the device, and the choice of the device for products
*/
#include "matstream.h"
#include <petscidrs/private/idrsplace.h>

/* MatStreamReset_Private - Frees what products keep */
PetscErrorCode MatStreamReset_Private(Mat A)
{
  Mat_AIJStream *data = MatStreamData(A);

  PetscFunctionBegin;
  PetscCall(IDRSStreamDestroy(&data->stream));
  PetscCall(MatDestroy(&data->off));
  PetscCall(VecScatterDestroy(&data->scatter));
  PetscCall(VecDestroy(&data->ghosts));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamLimit_Private - Returns the bytes of the device for the stream; 0: half of the free memory */
size_t MatStreamLimit_Private(Mat A)
{
  const Mat_AIJStream *data = MatStreamData(A);

  return data->settings.memory > 0.0 ? (size_t)data->settings.memory : data->share;
}

/* MatStreamUpdateLimit_Private - Passes the limit to the stream if it has changed */
PetscErrorCode MatStreamUpdateLimit_Private(Mat A)
{
  const IDRSStream stream = MatStreamData(A)->stream;

  PetscFunctionBegin;
  if (stream && stream->limit != MatStreamLimit_Private(A)) PetscCall(IDRSStreamSetLimit(stream, MatStreamLimit_Private(A)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode MatStreamGetSettings_Private(Mat A, MatStreamSettings *settings)
{
  PetscFunctionBegin;
  *settings = MatStreamData(A)->settings;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamCopySettings_Private - Copies the settings of A to B; both have this type */
PetscErrorCode MatStreamCopySettings_Private(Mat A, Mat B)
{
  PetscFunctionBegin;
  MatStreamData(B)->settings = MatStreamData(A)->settings;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns if a vector has the type that the device computes with, which is the same on all processes, and if it is on the device */
static PetscErrorCode MatStreamVecWhere(Mat A, Vec x, PetscBool *type, PetscBool *device)
{
  const IDRSStreamDeviceOps *ops   = MatStreamData(A)->ops;
  IDRSPlace                  place = IDRS_PLACE_CUDA;

  PetscFunctionBegin;
  *type = PETSC_FALSE;
  if (ops && ops->memtype == PETSC_MEMTYPE_HOST) PetscCall(PetscObjectTypeCompareAny((PetscObject)x, type, VECSEQ, VECMPI, ""));
#if defined(PETSCIDRS_HAVE_CUDA)
  else if (ops) PetscCall(PetscObjectTypeCompareAny((PetscObject)x, type, VECSEQCUDA, VECMPICUDA, ""));
  if (*type && ops->memtype != PETSC_MEMTYPE_HOST) PetscCall(IDRSVecWhere(x, &place));
#endif
  *device = (PetscBool)(*type && place == IDRS_PLACE_CUDA);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamSupportsType_Private - Returns if products with vectors of this type use the device on some process */
PetscErrorCode MatStreamSupportsType_Private(Mat A, Vec x, PetscBool *supports)
{
  PetscBool device;

  PetscFunctionBegin;
  PetscCall(MatStreamVecWhere(A, x, supports, &device));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   MatStreamUsesDevice_Private - Returns if products with this vector are computed on the device by this process. With
   -vec_bind_below other processes may compute their part on the host
*/
PetscErrorCode MatStreamUsesDevice_Private(Mat A, Vec x, PetscBool *uses)
{
  const IDRSStreamDeviceOps *ops = MatStreamData(A)->ops;
  PetscBool                  type, bound;

  PetscFunctionBegin;
  PetscCall(MatStreamVecWhere(A, x, &type, uses));
  if (!ops || ops->memtype == PETSC_MEMTYPE_HOST) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(MatBoundToCPU(A, &bound));
  if (bound) *uses = PETSC_FALSE;
  if (!*uses)
    PetscCall(
      PetscInfo(A, "Product on the host: %s\n", bound ? "the matrix is bound to the CPU" : "the vectors are not on the GPU"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSStreamMatSetDevice - Computes products on this device with vectors on the host, instead of a GPU. The caller destroys the
   device, after the matrix
*/
PetscErrorCode IDRSStreamMatSetDevice(Mat A, const IDRSStreamDeviceOps *ops, void *device)
{
  PetscFunctionBegin;
  PetscCall(MatStreamReset_Private(A));
  MatStreamData(A)->ops    = ops;
  MatStreamData(A)->device = device;
  PetscCall(MatSetVecType(A, VECSTANDARD));
  PetscFunctionReturn(PETSC_SUCCESS);
}
