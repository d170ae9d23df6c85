/*
   A triangle of the factors, or its transpose, as the back end for GPUs solves with it: tile rows in the order of their levels. A
   row of level l needs rows of smaller levels only
*/
#pragma once

#include "factorimpl.h"

/* Lanes of a warp, which has a chunk, and entries of a row that a lane waits for at once */
#define IDRS_CHUNK_LANES     32
#define IDRS_TRIANGLE_ATONCE 4

typedef enum {
  IDRS_TRIANGLE_LOWER,
  IDRS_TRIANGLE_UPPER,
  IDRS_TRIANGLE_LOWER_TRANSPOSED,
  IDRS_TRIANGLE_UPPER_TRANSPOSED
} IDRSTriangleKind;

/* The entries of a triangle by its rows in their natural order: columns, and which entries of the pattern they are */
typedef struct {
  PetscInt *i, *j, *from;
} IDRSTriangleEntries;

typedef struct {
  PetscInt  levels, nchunks;
  PetscInt *order;  /* tile row at each place */
  PetscInt *places; /* of each tile row */
  PetscInt *i, *j;  /* by places, and columns as places */
  PetscInt *from;   /* entry of the pattern that each entry is */
  PetscInt *chunks; /* first places of the chunks: neighbours of one level, whose rows have the same number of lanes */
  PetscInt *lanes;  /* this number, a power of 2, for each chunk */

  /* while it is made, or after an error; level: of each tile row */
  IDRSTriangleEntries entries;
  PetscInt           *level, *next;
} IDRSTriangle;

PETSC_INTERN PetscErrorCode IDRSTriangleCreate(const IDRSFactorPattern *, IDRSTriangleKind, IDRSTriangle *);
PETSC_INTERN PetscErrorCode IDRSTriangleDestroy(IDRSTriangle *);
