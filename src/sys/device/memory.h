/*
   Memory of the device that is free, and whether processes share a device
*/
#pragma once

#include <petscsys.h>

PETSC_INTERN PetscErrorCode IDRSGetFreeMemory_CUDA(PetscLogDouble *);
PETSC_INTERN PetscErrorCode IDRSDeviceGetSharers(MPI_Comm, PetscMPIInt *, PetscLogDouble *);
PETSC_INTERN PetscErrorCode IDRSDeviceShared(MPI_Comm, PetscBool *);
