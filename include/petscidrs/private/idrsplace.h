/*
   The memory in which vectors and matrices are, and the operations of a device on vectors. The host has PETSc's own operations
   instead of a table
*/
#pragma once

#include <petscmat.h>

typedef enum {
  IDRS_PLACE_HOST,
  IDRS_PLACE_CUDA /* arrays in the memory of a GPU */
} IDRSPlace;

PETSC_INTERN PetscErrorCode IDRSVecWhere(Vec, IDRSPlace *);
PETSC_INTERN PetscErrorCode IDRSMatWhere(Mat, IDRSPlace *);
PETSC_INTERN PetscErrorCode IDRSMatBindLike(Mat, Mat);

typedef struct {
  PetscErrorCode (*getfree)(PetscLogDouble *bytes); /* bytes of its memory that are free */
  PetscErrorCode (*join)(void); /* brings the streams of PETSc and of its matrices into the order of the calls */
  PetscErrorCode (*onarray)(Vec like, const PetscScalar *, Vec *); /* a vector like this one on an array of the device */
  /* vectors like this one in one piece of memory, and how that is freed */
  PetscErrorCode (*create)(Vec like, PetscInt, Vec[], void **memory);
  PetscErrorCode (*free)(void **memory);
  PetscErrorCode (*gram)(PetscInt, Vec[], PetscScalar[]);   /* IDRSVecGram() for the rows of this process */
  PetscErrorCode (*sethashed)(Vec, uint64_t key, PetscInt); /* IDRSVecSetHashed() with the key of the seed */
} IDRSDeviceOps;

PETSC_INTERN const IDRSDeviceOps *IDRSGetDevice(IDRSPlace); /* NULL for the host */
