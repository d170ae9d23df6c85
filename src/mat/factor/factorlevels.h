/*
   A triangle of the factors, or its transpose, for solves on GPUs: tile rows in the order of their levels. A row of level l depends
   only on rows of lower levels
*/
#pragma once

#include "factorimpl.h"

/* Lanes of a warp, which processes one chunk, and entries of a row that a lane waits for at the same time */
#define IDRS_CHUNK_LANES     32
#define IDRS_TRIANGLE_ATONCE 4

typedef enum {
  IDRS_TRIANGLE_LOWER,
  IDRS_TRIANGLE_UPPER,
  IDRS_TRIANGLE_LOWER_TRANSPOSED,
  IDRS_TRIANGLE_UPPER_TRANSPOSED
} IDRSTriangleKind;

/*
   The entries of a triangle by rows in their natural order: row i has entries begin[i] to end[i] - 1, their columns j, and the
   entries of the pattern that they are. Without a transposition they are the pattern itself, and made is NULL
*/
typedef struct {
  const PetscInt *begin, *end, *j;
  PetscInt       *made, *columns, *from;
} IDRSTriangleEntries;

typedef struct {
  PetscInt  levels, nchunks;
  PetscInt *order;  /* tile row at each place */
  PetscInt *places; /* of each tile row */
  PetscInt *i, *j;  /* by places, and columns as places */
  PetscInt *from;   /* entry of the pattern that each entry is */
  PetscInt *chunks; /* first place of each chunk: consecutive rows of one level with the same number of lanes */
  PetscInt *lanes;  /* lanes of each chunk, a power of 2 */

  /* during creation, or after an error; level: of each tile row */
  IDRSTriangleEntries entries;
  PetscInt           *level, *next;
} IDRSTriangle;

PETSC_INTERN PetscErrorCode IDRSTriangleCreate(const IDRSFactorPattern *, IDRSTriangleKind, IDRSTriangle *);
PETSC_INTERN PetscErrorCode IDRSTriangleDestroy(IDRSTriangle *);
