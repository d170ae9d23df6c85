/*
   The contract of products: y = A x, or A^T x, by the fastest back end that runs on A. The solver creates a product once, sets its matrix at the begin of
   every solve, and applies it.
*/
#pragma once

#include <petscmat.h>

typedef struct _n_IDRSProduct *IDRSProduct;

typedef struct {
  PetscErrorCode (*runs)(Mat, PetscBool transpose, const char *[]); /* sets the string to NULL, or to the reason why it cannot run on such a matrix */
  PetscErrorCode (*apply)(IDRSProduct, Vec, Vec);
} IDRSProductOps;

struct _n_IDRSProduct {
  const IDRSProductOps *backend;
  Mat                   A; /* of this solve, referenced */
  PetscBool             transpose;
};

PETSC_INTERN const IDRSProductOps IDRSProducts_Mat;

PETSC_INTERN PetscErrorCode IDRSProductCreate(IDRSProduct *);
PETSC_INTERN PetscErrorCode IDRSProductSetMat(IDRSProduct, Mat, PetscBool);
PETSC_INTERN PetscErrorCode IDRSProductApply(IDRSProduct, Vec, Vec);
PETSC_INTERN PetscErrorCode IDRSProductDestroy(IDRSProduct *);
