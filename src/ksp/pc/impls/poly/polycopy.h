/*
   A copy of D^{-1}A for the products of the polynomial, in fewer bytes than A, in the memory of the GPU, for MATAIJCUSPARSE and
   VECCUDA: polycuda.cu
*/
#pragma once

#include <petscmat.h>
#include <petscidrs.h>
#include <petscidrs/private/idrsproduct.h>

/* The precision of the values of the copy; double stands for PetscScalar */
typedef enum {
  PC_POLY_PRECISION_HALF,
  PC_POLY_PRECISION_SINGLE,
  PC_POLY_PRECISION_DOUBLE
} PCPolyPrecision;

typedef struct _n_PCPolyCopy *PCPolyCopy;

/*
   The product of a factor: y = d (alpha u + beta D^{-1}A z), entry by entry; d is NULL for ones; y may be u, and must not be z. If
   "adds", y = y + alpha u + beta D^{-1}A z, and y is not u
*/
typedef struct {
  PetscScalar alpha, beta;
  Vec         u, z, d, y;
  PetscBool   adds;
} PCPolyProduct;

typedef struct {
  /* Allocates the copy of a matrix, without values */
  PetscErrorCode (*create)(PCPolyCopy, Mat, const char *[]);
  /* Computes the values of D^{-1}A, at first and for new values in the same pattern */
  PetscErrorCode (*fill)(PCPolyCopy, Mat, Vec, const char *[], PetscBool *);
  /* Connects several processes, if all have a copy; collective */
  PetscErrorCode (*connect)(PCPolyCopy, Mat);
  PetscErrorCode (*multiplyadd)(PCPolyCopy, const PCPolyProduct *);
  PetscErrorCode (*destroy)(PCPolyCopy);
} PCPolyCopyOps;

struct _n_PCPolyCopy {
  const PCPolyCopyOps *ops;
  PCPolyPrecision      precision; /* of the values */
  IDRSMatState         state;     /* of the matrix; 0 until the copy is complete */
  PetscBool            unit;      /* the diagonal of D^{-1}A is 1, and is not copied */
  PetscLogDouble       bytes;     /* on this process */
  PetscLogDouble       longbytes; /* of them, in long rows, whose values are in double precision */
  void                *data;      /* data of the back end */
};

/* If CUDA is compiled in */
PETSC_INTERN const PCPolyCopyOps PCPolyCopies_CUDA;
