/*
   The timeout of -petscidrs_nccl_timeout, for the host, which waits for sums and messages of other processes, and for threads that
   wait inside kernels
*/
#pragma once

#include <petscsys.h>

PETSC_INTERN PetscErrorCode IDRSSetTimeout(PetscReal);
PETSC_INTERN PetscReal      IDRSGetTimeout(void);
PETSC_INTERN unsigned int   IDRSGetPolls(void);

/*
   Called repeatedly while the host waits for the device, which may wait for other processes. MPI need not deliver a message of this
   process while this process makes no call of MPI, although the send has ended, and another process may wait for the message
*/
static inline PetscErrorCode IDRSProgressMPI(MPI_Comm comm)
{
  int found;

  PetscFunctionBegin;
  PetscCallMPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found, MPI_STATUS_IGNORE));
  PetscFunctionReturn(PETSC_SUCCESS);
}
