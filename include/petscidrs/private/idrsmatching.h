/*
   Maximum product matchings of matrices: a permutation of the rows and scalings of rows and columns such that the diagonal entries
   have modulus 1, and the other entries at most 1

     A~ = P Dr A Dc

   On several processes each one matches the rows and columns of its diagonal block.
*/
#pragma once

#include <petscmat.h>
#include <petscidrs/private/idrsrows.h>

/* A matching is kept for new values if no entry is larger than this with adapted scalings */
#define MATCHING_KEEP 2.0

/*
   Limit of the number of entries that the searches of a matching visit: none, or 5e7 + 5 nz for nz entries on this process. On one
   core this takes 5 seconds, and half a microsecond per entry
*/
#define MATCHING_UNLIMITED PETSC_INFINITY
#define MATCHING_LIMITED   (-1.0)

/* Number of sweeps that adapt the scalings to new values, and the tolerance for 1 */
#define MATCHING_SWEEPS 4
#define MATCHING_ONE    (1.0 + 1e-10)

/* The largest scaling: it and its inverse are finite real numbers */
#define MATCHING_LARGEST           ((double)PETSC_MAX_REAL / 4.0)
#define IDRSMatchingLimit(scaling) ((PetscReal)PetscMax(1.0 / MATCHING_LARGEST, PetscMin(MATCHING_LARGEST, scaling)))

typedef struct _n_IDRSMatching {
  PetscInt  n, N;     /* rows of this process, of all */
  PetscInt  rank;     /* sum of the structural ranks of the diagonal blocks */
  PetscInt  moved;    /* rows of all processes that P moves */
  PetscInt  badrow;   /* first row with an infinite entry or NaN, or -1; if there is one, there is no matching */
  PetscInt *column;   /* P moves local row i to local row column[i] */
  PetscInt *row;      /* the inverse: P moves local row row[i] to local row i */
  PetscInt *ondevice; /* a copy of column and row in the memory of the GPU, or NULL */
  Vec       left;     /* diagonal of Dr */
  Vec       right;    /* diagonal of Dc */
  Vec       permuted; /* diagonal of P Dr P^T; left itself if no row is moved */
  Vec       work;     /* for permutations in place, or NULL before the first one */
  PetscReal range[2]; /* least and largest scaling of a row or column */
} *IDRSMatching;

/*
   Back ends. scale does IDRSMatchingScale() for x that is not y. update does IDRSMatchingUpdate() with the diagonal block and the
   outer block, or NULL. fill computes the values of a block of A~ with a known pattern from the block of A and the
   scalings of its columns
*/
typedef struct {
  PetscErrorCode (*scale)(IDRSMatching, const PetscInt[], Vec, Vec, Vec);
  PetscErrorCode (*update)(IDRSMatching, Mat, Mat, PetscBool *);
  PetscErrorCode (*fill)(IDRSMatching, Mat, Vec, Mat);
} IDRSMatchingOps;

/* matching.c */
PETSC_EXTERN PetscErrorCode IDRSMatchingSupports(Mat, const char *[]);
PETSC_EXTERN PetscErrorCode IDRSMatchingCreate(Mat, PetscReal, IDRSMatching *);
PETSC_EXTERN PetscErrorCode IDRSMatchingUpdate(IDRSMatching, Mat, PetscBool *);
PETSC_EXTERN PetscErrorCode IDRSMatchingDestroy(IDRSMatching *);
PETSC_EXTERN PetscErrorCode IDRSMatchingView(IDRSMatching, PetscViewer);
PETSC_EXTERN PetscErrorCode IDRSMatchingScale(IDRSMatching, const PetscInt[], Vec, Vec, Vec);
PETSC_EXTERN PetscErrorCode IDRSMatchingGetMat(IDRSMatching, Mat, MatReuse, Mat *);

/* matchingrows.c */
PETSC_EXTERN PetscErrorCode IDRSMatchRows(const IDRSRows *, double, PetscInt[], double[], double[], PetscInt *);
PETSC_EXTERN void           IDRSMatchingClipRows(const IDRSRows *, double, double[], double[]);

/* matchingcuda.cu, if CUDA is compiled in */
PETSC_INTERN const IDRSMatchingOps IDRSMatchingBackEnds_CUDA;
PETSC_INTERN PetscErrorCode        IDRSMatchingGetPlaces(IDRSMatching, const PetscInt **, const PetscInt **);
PETSC_INTERN PetscErrorCode        IDRSMatchingFreePlaces(IDRSMatching);
