/*
   The timeout of -petscidrs_nccl_timeout, for the host, which waits for sums and messages of other processes, and for threads that
   wait inside kernels
*/
#pragma once

#include <petscsys.h>

PETSC_INTERN PetscErrorCode IDRSSetTimeout(PetscReal);
PETSC_INTERN PetscReal      IDRSGetTimeout(void);
PETSC_INTERN unsigned int   IDRSGetPolls(void);
