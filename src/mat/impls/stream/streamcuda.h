/*
   A GPU as the device of streamed matrices
*/
#pragma once

#include <petscidrs/private/idrsstream.h>

/* Whether this process has a GPU, and the device for it */
typedef struct {
  PetscErrorCode (*exists)(PetscBool *);
  PetscErrorCode (*create)(PetscBool pageable, void **);
} IDRSStreamGPUOps;

/* Where CUDA is compiled in */
PETSC_INTERN const IDRSStreamDeviceOps IDRSStreamDevice_CUDA;
PETSC_INTERN const IDRSStreamGPUOps    IDRSStreamGPU_CUDA;
