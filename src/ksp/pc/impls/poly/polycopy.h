/*
   Copies of D^{-1}A for the products of the polynomial, in fewer bytes than A has: the contract of their back ends

     host   in the memory of the host, for MATAIJ and standard vectors: polypacked.c
     cuda   in the memory of the GPU, for MATAIJCUSPARSE and VECCUDA: polycuda.cu
     stream in the memory of the GPU, for MATAIJSTREAM and VECCUDA, by chunks of rows: polystream.cu
*/
#pragma once

#include <petscmat.h>
#include <petscidrs.h>

typedef struct _n_PCPolyCopy *PCPolyCopy;

typedef struct {
  PCPolyPrecision narrowest; /* precision of values that it has */
  PetscErrorCode (*create)(PCPolyCopy, Mat, Vec, PetscBool, const char *[], PetscBool *);
  /* Called on several processes, if all have a copy; collective. NULL if products always use scatters */
  PetscErrorCode (*connect)(PCPolyCopy, Mat);
  PetscErrorCode (*multiplyadd)(PCPolyCopy, PetscScalar, Vec, PetscScalar, Vec, Vec, Vec);
  PetscErrorCode (*destroy)(PCPolyCopy);
} PCPolyCopyOps;

struct _n_PCPolyCopy {
  const PCPolyCopyOps *ops;
  PCPolyPrecision      precision; /* of the values; double is that of PetscScalar */
  PetscLogDouble       bytes;     /* on this process */
  void                *data;      /* the back end's own */
};

/* How many bytes a copy may have for each entry: places of slots for each of them, and some for any matrix */
#define PCPOLY_PADDING      1.5
#define PCPOLY_SPARE_PLACES 1024

PETSC_INTERN const char *PCPolyCopyTooLarge_Private(PetscLogDouble, PetscLogDouble);

PETSC_INTERN const PCPolyCopyOps PCPolyCopies_Host;
/* Where CUDA is compiled in */
PETSC_INTERN const PCPolyCopyOps PCPolyCopies_CUDA;
PETSC_INTERN const PCPolyCopyOps PCPolyCopies_Stream;
