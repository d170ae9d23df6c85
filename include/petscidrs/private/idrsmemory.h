/*
   The memory of vectors and matrices, host or device, and a table of vector operations of a device. The host uses PETSc's
   operations
*/
#pragma once

#include <petscmat.h>

typedef enum {
  IDRS_MEMORY_HOST,
  IDRS_MEMORY_CUDA /* arrays in the memory of a GPU */
} IDRSMemory;

PETSC_INTERN PetscErrorCode IDRSVecWhere(Vec, IDRSMemory *);
PETSC_INTERN PetscErrorCode IDRSVecCopy(Vec, Vec);
PETSC_INTERN PetscErrorCode IDRSMatWhere(Mat, IDRSMemory *);
PETSC_INTERN PetscErrorCode IDRSMatBindLike(Mat, Mat);

/* In a library with back end cuda */
PETSC_INTERN PetscErrorCode IDRSDeviceExists(MPI_Comm, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSDeviceAvailable(MPI_Comm, PetscLogDouble *);
PETSC_INTERN PetscErrorCode IDRSSetTimeout(PetscReal);

typedef struct {
  PetscErrorCode (*getfree)(PetscLogDouble *bytes); /* bytes of its memory that are free */
  PetscErrorCode (*join)(void);                     /* orders work on the streams of PETSc and of its matrices like the calls */
  PetscErrorCode (*onarray)(Vec like, const PetscScalar *, Vec *); /* a vector like this one on an array of the device */
  /* creates vectors like this one in one allocation, which is returned as well */
  PetscErrorCode (*create)(Vec like, PetscInt, Vec[], void **memory);
  PetscErrorCode (*free)(void **memory);
  PetscErrorCode (*gram)(PetscInt, Vec[], PetscScalar[]);   /* IDRSVecGram() for the rows of this process */
  PetscErrorCode (*sethashed)(Vec, uint64_t key, PetscInt); /* IDRSVecSetHashed() with the key of the seed */
  PetscErrorCode (*send)(const PetscScalar *, Vec);         /* from the host to a vector */
  PetscErrorCode (*receive)(Vec, PetscScalar *);            /* from a vector to the host, and waits */
  PetscErrorCode (*sendvalues)(const PetscScalar *, Mat);   /* to a MATSEQAIJCUSPARSE with the same pattern */
} IDRSDeviceOps;

PETSC_INTERN const IDRSDeviceOps *IDRSGetDevice(IDRSMemory); /* NULL for the host */
