/*
   Data that this library keeps with an inner MPI communicator of PETSc. When the communicator is freed, which is collective, the
   data are destroyed in the reverse order of their creation, so that destroy functions may communicate. Separate MPI attributes
   would not guarantee an order, because MPI may delete the attributes of a communicator in any order
*/
#pragma once

#include <petscsys.h>

/* Also identifies the kind of data */
typedef void (*IDRSCommDestroy)(MPI_Comm, void *);

PETSC_INTERN PetscErrorCode IDRSCommDataFind(MPI_Comm, IDRSCommDestroy, void *);
PETSC_INTERN PetscErrorCode IDRSCommDataAdd(MPI_Comm, IDRSCommDestroy, void *);
