/*
   Sums over the devices of several processes, from device to device. The communicators of NCCL are made once for each MPI
   communicator, and kept with it.
*/
#pragma once

#include <petscsys.h>
#include <cuda_runtime.h>

typedef struct _n_IDRSDevices *IDRSDevices;

PETSC_INTERN PetscErrorCode IDRSDevicesGet(MPI_Comm, IDRSDevices *, const char *[]);
PETSC_INTERN PetscErrorCode IDRSDevicesAllreduce(IDRSDevices, const PetscScalar *, PetscScalar *, PetscInt, cudaStream_t);
PETSC_INTERN PetscErrorCode IDRSDevicesCheck(IDRSDevices);
