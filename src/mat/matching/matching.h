/*
   Maximum product matchings of matrices: a permutation of the rows and scalings of rows and columns such that the diagonal entries
   have modulus 1, and the other entries at most 1

     A~ = P Dr A Dc

   On several processes each one matches the rows and columns of its diagonal block.
*/
#pragma once

#include <petscmat.h>
#include <petscidrs/private/idrsrows.h>

/* A matching is kept for new values if its scalings, adapted to them, leave no entry larger than this */
#define MATCHING_KEEP 2.0

typedef struct _n_IDRSMatching {
  PetscInt   n, N;     /* rows of this process, of all */
  PetscInt   rank;     /* sum of the structural ranks of the diagonal blocks */
  PetscInt   moved;    /* rows of all processes that are not in their place */
  PetscInt   badrow;   /* first row with an infinite entry or NaN, or -1; if there is one, there is no matching */
  PetscInt  *column;   /* of each row of this process, in its diagonal block */
  Vec        left;     /* diagonal of Dr */
  Vec        right;    /* diagonal of Dc */
  Vec        work;     /* Dr x, or NULL if no row is moved */
  VecScatter permute;  /* x -> P x, or NULL if no row is moved */
  PetscReal  range[2]; /* least and largest scaling of a row or column */
} *IDRSMatching;

/* matching.c */
PETSC_INTERN PetscErrorCode IDRSMatchingSupports(Mat, const char *[]);
PETSC_INTERN PetscErrorCode IDRSMatchingCreate(Mat, IDRSMatching *);
PETSC_INTERN PetscErrorCode IDRSMatchingUpdate(IDRSMatching, Mat, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSMatchingDestroy(IDRSMatching *);
PETSC_INTERN PetscErrorCode IDRSMatchingView(IDRSMatching, PetscViewer);
PETSC_INTERN PetscErrorCode IDRSMatchingScaleInput(IDRSMatching, PetscBool, Vec, Vec);
PETSC_INTERN PetscErrorCode IDRSMatchingScaleOutput(IDRSMatching, PetscBool, Vec);

/* matchingmat.c */
PETSC_INTERN PetscErrorCode IDRSMatchingGetMat(IDRSMatching, Mat, MatReuse, Mat *);

/* matchingrows.c */
PETSC_INTERN PetscErrorCode IDRSMatchRows(const IDRSRows *, PetscInt[], double[], double[], PetscInt *, PetscInt *);
PETSC_INTERN void           IDRSMatchingClipRows(const IDRSRows *, double, double[], double[]);
PETSC_INTERN void           IDRSMatchingRescaleRows(const IDRSRows *, const PetscInt[], double[], double[], double *);
