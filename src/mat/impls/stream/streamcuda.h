/*
   A GPU as the device of streamed matrices
*/
#pragma once

#include <petscidrs/private/idrsstream.h>

/* The device for streamed matrices, if this process has a GPU */
typedef struct {
  PetscErrorCode (*exists)(PetscBool *);
  PetscErrorCode (*create)(PetscBool pageable, void **);
} IDRSStreamGPUOps;

/* With CUDA only */
PETSC_INTERN const IDRSStreamDeviceOps IDRSStreamDevice_CUDA;
PETSC_INTERN const IDRSStreamGPUOps    IDRSStreamGPU_CUDA;
