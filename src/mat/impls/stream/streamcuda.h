/*
   A GPU as the device of streamed matrices
*/
#pragma once

#include <petscidrs/private/idrsstream.h>

/* Where CUDA is compiled in */
PETSC_INTERN const IDRSStreamDeviceOps IDRSStreamDevice_CUDA;
PETSC_INTERN PetscErrorCode            IDRSStreamDeviceCreate_CUDA(PetscBool, void **);
PETSC_INTERN PetscErrorCode            IDRSStreamDeviceExists_CUDA(PetscBool *);
