/*
   Waits for a GPU before a time is taken, because the host does not wait for the kernels that it launches
*/
#pragma once

#include <petscvec.h>
#include <petscdevice.h>

/*
   DeviceWait - Ends when all is done that has been asked for, if such vectors are on a device. On a machine without a GPU a PETSc
   with CUDA has no context to ask
*/
static PetscErrorCode DeviceWait(Vec like)
{
  PetscDeviceContext dctx;
  PetscBool          device;

  PetscFunctionBeginUser;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)like, &device, VECSEQCUDA, VECMPICUDA, ""));
  if (!device) PetscFunctionReturn(0);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceContextSynchronize(dctx));
  PetscFunctionReturn(0);
}
