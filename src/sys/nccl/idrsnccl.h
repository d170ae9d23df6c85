/*
   Sums over the devices of several processes, and messages from device to device, by NCCL if the library was built with it. Each
   inner MPI communicator of PETSc has one NCCL communicator, see commdata.h, for reductions and scatters.
*/
#pragma once

#include <petscsys.h>
#include <cuda_runtime.h>

/* A message in device memory, to or from the process with this rank */
typedef struct {
  PetscMPIInt  rank;
  PetscScalar *data;
  size_t       bytes;
} IDRSMessage;

PETSC_INTERN PetscErrorCode IDRSNCCLConnect(MPI_Comm, const char *[]);
PETSC_INTERN PetscErrorCode IDRSNCCLAllreduce(MPI_Comm, const PetscScalar *, PetscScalar *, PetscInt, cudaStream_t);
PETSC_INTERN PetscErrorCode IDRSNCCLExchange(MPI_Comm, cudaEvent_t, PetscInt, const IDRSMessage[], PetscInt, const IDRSMessage[],
                                             cudaEvent_t);
PETSC_INTERN PetscErrorCode IDRSNCCLCheck(MPI_Comm, PetscLogDouble);
PETSC_INTERN PetscErrorCode IDRSNCCLWait(MPI_Comm, cudaStream_t);
PETSC_INTERN PetscErrorCode IDRSNCCLFinish(MPI_Comm, cudaStream_t, PetscBool);
