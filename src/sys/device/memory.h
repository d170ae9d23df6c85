/*
   Memory of the device: allocation, free bytes, arrays of vectors, and processes that share a device
*/
#pragma once

#include <petscvec.h>

PETSC_INTERN PetscErrorCode IDRSGetFreeMemory_CUDA(PetscLogDouble *);
PETSC_INTERN PetscErrorCode IDRSDeviceGetSharers(MPI_Comm, PetscMPIInt *, PetscLogDouble *);
PETSC_INTERN PetscErrorCode IDRSDeviceShared(MPI_Comm, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSMalloc_CUDA(size_t, void *, const char *[]);
PETSC_INTERN PetscErrorCode IDRSGetArray_CUDA(Vec, PetscErrorCode (*)(Vec, PetscScalar **, PetscMemType *), PetscScalar **);
PETSC_INTERN PetscErrorCode IDRSGetArrayRead_CUDA(Vec, const PetscScalar **);
PETSC_INTERN PetscErrorCode IDRSFindArrayRead_CUDA(Vec, const PetscScalar **);
