/*
   Sums over the devices of several processes, and messages between them, from device to device. The communicators of NCCL are made once for each MPI
   communicator, and kept with it.
*/
#pragma once

#include <petscsys.h>
#include <cuda_runtime.h>

typedef struct _n_IDRSDevices *IDRSDevices;

/* In the memory of the device, to or from the process of that rank */
typedef struct {
  PetscMPIInt  rank;
  PetscScalar *data;
  size_t       bytes;
} IDRSMessage;

PETSC_INTERN PetscErrorCode IDRSDevicesGet(MPI_Comm, IDRSDevices *, const char *[]);
PETSC_INTERN PetscErrorCode IDRSDevicesAllreduce(IDRSDevices, const PetscScalar *, PetscScalar *, PetscInt, cudaStream_t);
PETSC_INTERN PetscErrorCode IDRSDevicesExchange(IDRSDevices, PetscInt, const IDRSMessage[], PetscInt, const IDRSMessage[]);
PETSC_INTERN PetscErrorCode IDRSDevicesGetStream(IDRSDevices, cudaStream_t *);
PETSC_INTERN PetscErrorCode IDRSDevicesLost(IDRSDevices, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSDevicesFinish(IDRSDevices, cudaStream_t, PetscReal);
PETSC_INTERN PetscErrorCode IDRSDevicesCheck(IDRSDevices, PetscLogDouble, PetscReal);
