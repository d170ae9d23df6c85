/*
   The data of a factor of MATSOLVERPETSCIDRS, and the functions that its files share. A file calls only files to its right:

     factor.c   { factorpattern.c, factorhost.c, { factorcuda.cu   factorlevels.c } }

   The matrix with permuted rows and columns is, on the pattern of the factors,

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
#include "factorpivot.h"

/* Tile rows of L and U without their diagonals, columns ascending */
typedef struct {
  PetscInt  n, bs; /* tile rows, and rows of each */
  PetscInt *i, *j;
  PetscInt *right; /* first entry of a row behind the diagonal */
} IDRSFactorPattern;

/* Small pivots: the first and the last row of the permuted matrix that has one, and their number */
typedef struct {
  PetscBool   unfit; /* tiles must have one row, see IDRS_FACTOR_CONDITION; the phase may have stopped at this tile */
  PetscInt    count, row[2];
  PetscScalar pivot[2];
  PetscReal   sum[2];
} IDRSSmallPivots;

/* Two directions of a solve */
typedef enum {
  IDRS_FACTOR_FORWARD,
  IDRS_FACTOR_TRANSPOSED
} IDRSFactorDirection;

typedef struct _n_IDRSFactor *IDRSFactor;

/* Numbers per row, and for one more row, that a symbolic phase works with */
#define IDRS_FACTOR_SCRATCH 5

/* Copies of the values between the memory of a back end and factor->values, in the memory of the host */
typedef struct {
  PetscErrorCode (*tohost)(IDRSFactor);
  PetscErrorCode (*fromhost)(IDRSFactor);
} IDRSFactorCopies;

/*
   Back ends. A numeric phase may stop at the first small pivot that changes the shift. A solve uses the values in the memory of its
   back end. A reset frees the data that depend on the pattern
*/
typedef struct {
  const char *name; /* where it computes */
  PetscErrorCode (*numeric)(IDRSFactor, Mat, const IDRSPivotRule *, IDRSSmallPivots *);
  PetscErrorCode (*solve)(IDRSFactor, IDRSFactorDirection, const IDRSArrays *);
  PetscErrorCode (*reset)(IDRSFactor);
  const IDRSFactorCopies *copies; /* NULL: it computes in the memory of the host */
} IDRSFactorOps;

/* Memory of the back end for GPUs */
typedef struct _n_IDRSFactorDevice *IDRSFactorDevice;

/* The memory with the values of the last numeric phase */
typedef enum {
  IDRS_FACTOR_NO_VALUES,
  IDRS_FACTOR_COMPUTED, /* in the memory of the numeric phase */
  IDRS_FACTOR_PLACED    /* also in the memory of the solves */
} IDRSFactorValues;

struct _n_IDRSFactor {
  const IDRSFactorOps *ops;              /* of the memory where the matrix and the vectors are */
  const IDRSFactorOps *factors, *solves; /* of the numeric phase and of solves: these, or those of the host */

  /* of the symbolic phase */
  MatFactorInfo info;
  IS            row, col;           /* or NULL: natural */
  PetscInt      rows;               /* of the matrix */
  PetscInt      nonzeros, capacity; /* of the matrix, and of pattern.j */
  /* during the symbolic phase: levels of fill, and IDRS_FACTOR_SCRATCH numbers per row */
  PetscInt         *filled, *scratch;
  uint64_t          hash;    /* of its pattern */
  PetscObjectId     id;      /* the last matrix whose pattern was compared with this one, or 0 */
  PetscObjectState  state;   /* its state */
  const char       *untiled; /* why tiles have one row, or NULL */
  IDRSFactorPattern pattern;
  PetscInt         *place; /* among the values, for each entry of the matrix */
  PetscInt          growths;
  PetscLogDouble    flops;

  /* of the numeric phase: tiles by rows, those of the pattern and then those of D^{-1} */
  PetscScalar     *values; /* in the memory of the host */
  IDRSFactorValues where;
  PetscInt         shifts;
  PetscReal        shift;
  PetscScalar     *work; /* of solves on the host */
  IDRSFactorDevice device;
};

static inline PetscInt IDRSFactorTiles(const IDRSFactorPattern *pattern)
{
  return pattern->i[pattern->n] + pattern->n;
}

static inline size_t IDRSFactorEntries(const IDRSFactorPattern *pattern)
{
  return (size_t)IDRSFactorTiles(pattern) * pattern->bs * pattern->bs;
}

/* Flops of a solve for one column, as PETSc counts them */
static inline PetscLogDouble IDRSFactorSolveFlops(const IDRSFactorPattern *pattern)
{
  return 2.0 * pattern->bs * pattern->bs * IDRSFactorTiles(pattern) - (PetscLogDouble)pattern->n * pattern->bs;
}

/* factorpattern.c */
PETSC_INTERN PetscErrorCode IDRSFactorSymbolic_Private(IDRSFactor, Mat, const char[]);
PETSC_INTERN PetscErrorCode IDRSFactorCheckPattern_Private(IDRSFactor, Mat);
PETSC_INTERN PetscErrorCode IDRSFactorResetPattern_Private(IDRSFactor);

/* factorhost.c */
PETSC_INTERN const IDRSFactorOps IDRSFactorBackEnds_Host;

/* factorcuda.cu, where CUDA is compiled in */
PETSC_INTERN const IDRSFactorOps IDRSFactorBackEnds_CUDA;
