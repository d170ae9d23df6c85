/*
   The data of a factor on a GPU, and the functions that its files share. A file calls only files to its right:

     factor.c   factorcuda.cu   factorpattern.c

   PETSc's factor of the same matrix on the host has the pattern. The matrix with permuted rows and columns is, on this pattern,

     A = D (I + L) (I + U)        D diagonal with tiles, L and U strictly lower and upper

   For row i, with A' = D L and U as they are computed from left to right:

     A'_ij = A_ij - sum_k A'_ik U_kj,  k < min(i, j);   D_i = A'_ii;   row i of L and U = D_i^{-1} A'_i

   So both triangles have a unit diagonal. A tile is a dense bs x bs block of entries. A solve processes one tile row after another:

     x = (I + U)^{-1} (I + L)^{-1} D^{-1} b      transposed: x = D^{-T} (I + L)^{-T} (I + U)^{-T} b
*/
#pragma once

#include <petsc/private/matimpl.h>
#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsrows.h>

/* Most rows of a tile */
#define IDRS_FACTOR_TILE 16

/* Lanes of a warp, which processes one chunk, and entries of a row that a lane waits for at the same time */
#define IDRS_CHUNK_LANES     32
#define IDRS_TRIANGLE_ATONCE 4

/* Tile rows of L and U without their diagonals, columns ascending */
typedef struct {
  PetscInt  n, bs; /* tile rows, and rows of each */
  PetscInt *i, *j;
  PetscInt *right; /* first entry of a row behind the diagonal */
} IDRSFactorPattern;

/* Returns PETSC_TRUE if the rule for small pivots compares a pivot with the sum of its row */
#define IDRSPivotNeedsSum(info) \
  ((info)->shifttype == (PetscReal)MAT_SHIFT_NONZERO || (info)->shifttype == (PetscReal)MAT_SHIFT_POSITIVE_DEFINITE)

typedef struct _n_IDRSFactor       *IDRSFactor;
typedef struct _n_IDRSFactorDevice *IDRSFactorDevice; /* memory on the GPU */

struct _n_IDRSFactor {
  Mat petsc;    /* PETSc's factor on the host: of the symbolic phase, and of numeric phases with small pivots */
  IS  row, col; /* copies of the permutations */

  /* of the symbolic phase */
  PetscInt          rows, nonzeros; /* of the matrix */
  uint64_t          hash;           /* of its pattern; 0 before the end of this phase */
  PetscObjectId     id;             /* the last matrix whose pattern was compared with this one, or 0 */
  PetscObjectState  state;          /* its state */
  const char       *untiled;        /* why tiles have one row although the matrix has blocks, or NULL */
  IDRSFactorPattern pattern;
  PetscInt         *place; /* among the values, for each entry of the matrix */
  PetscLogDouble    flops; /* of a numeric phase */

  /* of the numeric phase: tiles by rows, those of the pattern and then those of D^{-1} */
  PetscBool        computed; /* the last phase has ended without an error */
  PetscBool        onhost;   /* by PETSc, because of small pivots */
  IDRSFactorDevice device;
};

static inline size_t IDRSFactorEntries(const IDRSFactorPattern *F)
{
  return (size_t)(F->i[F->n] + F->n) * F->bs * F->bs;
}

/*
   A triangle of the factors, or its transpose: tile rows in the order of their levels. A row of level l depends only on rows of
   lower levels
*/
typedef struct {
  PetscInt  levels, nchunks;
  PetscInt *order;  /* tile row at each place */
  PetscInt *places; /* of each tile row */
  PetscInt *i, *j;  /* by places, and columns as places */
  PetscInt *from;   /* entry of the pattern that each entry is */
  PetscInt *chunks; /* first place of each chunk: consecutive rows of one level with the same number of lanes */
  PetscInt *lanes;  /* lanes of each chunk, a power of 2 */

  /*
     For the creation: row i has entries first[i] to first[i + 1] - 1 in the natural order, with their columns, and the entry of the
     pattern that each of them is
  */
  PetscInt *first, *columns, *entry;
  PetscInt *level, *next;
} IDRSTriangle;

/* factorpattern.c */
PETSC_INTERN PetscErrorCode IDRSFactorSetPattern_Private(IDRSFactor, Mat, const char[]);
PETSC_INTERN PetscErrorCode IDRSFactorCheckPattern_Private(IDRSFactor, Mat);
PETSC_INTERN PetscErrorCode IDRSFactorResetPattern_Private(IDRSFactor);
PETSC_INTERN PetscErrorCode IDRSFactorGetValues_Private(IDRSFactor, PetscScalar[]);
PETSC_INTERN PetscErrorCode IDRSTriangleCreate(const IDRSFactorPattern *, PetscBool, PetscBool, IDRSTriangle *);
PETSC_INTERN PetscErrorCode IDRSTriangleDestroy(IDRSTriangle *);

/* factorcuda.cu: numeric phases and solves on the GPU */
PETSC_INTERN PetscErrorCode IDRSFactorNumeric(IDRSFactor, Mat, const MatFactorInfo *, PetscBool *, PetscBool *);
PETSC_INTERN PetscErrorCode IDRSFactorCopyValues(IDRSFactor);
PETSC_INTERN PetscErrorCode IDRSFactorSolve(IDRSFactor, PetscBool, const IDRSArrays *);
PETSC_INTERN PetscErrorCode IDRSFactorDeviceReset(IDRSFactor);
