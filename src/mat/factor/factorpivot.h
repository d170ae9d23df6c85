/*
   The test for small pivots, and the inverse of a diagonal tile without pivoting: with the pivots of a factorisation by rows

   No PETSc call: compiled for host and device. On a device the lanes of one warp share the work.
*/
#pragma once

#include <petscmat.h>
#include <petscidrs/private/idrsscalars.h>

/* Most rows of a tile */
#define IDRS_FACTOR_TILE 16

/*
   Products with the inverse of an ill-conditioned tile lose digits that an elimination by rows keeps: if the last pivot of a tile
   is s times its other entries, the errors are eps / s^2 and eps / s. The criterion is the largest |D_ij (D^{-1})_ji|, which does
   not depend on the scale of rows and columns. If it is larger than this, tiles have one row
*/
#define IDRS_FACTOR_CONDITION 100.0

/* The options of a MatFactorInfo, with the same meaning as in PETSc's own factorisations */
typedef struct {
  MatFactorShiftType type;
  PetscReal          zeropivot;
  PetscReal          shift;    /* is added to the diagonal of the matrix */
  PetscReal          inblocks; /* is added to a small pivot with MAT_SHIFT_INBLOCKS */
} IDRSPivotRule;

/* True if the rule compares pivots with the sum of absolute values of the other entries in their row of L and U */
#define IDRSPivotNeedsSum(rule) ((rule)->type == MAT_SHIFT_NONZERO || (rule)->type == MAT_SHIFT_POSITIVE_DEFINITE)

/* Returns PETSC_TRUE if a pivot is small; a NaN is not small */
static inline IDRS_HOST_DEVICE PetscBool IDRSPivotIsSmall(const IDRSPivotRule *rule, PetscScalar pivot, PetscReal sum)
{
  if (rule->type == MAT_SHIFT_POSITIVE_DEFINITE) return PetscRealPart(pivot) <= rule->zeropivot * sum ? PETSC_TRUE : PETSC_FALSE;
  return PetscAbsScalar(pivot) <= (rule->type == MAT_SHIFT_NONZERO ? rule->zeropivot * sum : rule->zeropivot) ? PETSC_TRUE
                                                                                                              : PETSC_FALSE;
}

/*
   Computes D = D^{-1}, bs x bs by rows, in place by Gauss-Jordan elimination, and stores the pivots. sum: of the only row, if the
   rule needs it. Returns PETSC_TRUE if the inverse must not be used, because D is ill-conditioned or has a changed pivot; on a
   device each lane checks its own entries
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSFactorInvert(PetscInt bs, PetscScalar *D, const IDRSPivotRule *rule, PetscReal sum,
                                                          PetscScalar pivots[])
{
  PetscScalar before[IDRS_FACTOR_TILE * IDRS_FACTOR_TILE / IDRS_LANES];
  PetscBool   unfit = PETSC_FALSE;

  IDRS_SYNC_WARP();
  for (PetscInt t = IDRS_LANE, l = 0; t < bs * bs; t += IDRS_LANES) before[l++] = D[t];
  for (PetscInt p = 0; p < bs; p++) {
    PetscScalar pivot, inverse;

    IDRS_SYNC_WARP();
    pivot = D[p * bs + p];
    if (IDRS_LANE == 0) pivots[p] = pivot;
    if (rule->type == MAT_SHIFT_INBLOCKS && IDRSPivotIsSmall(rule, pivot, sum)) {
      pivot += rule->inblocks;
      unfit = PETSC_TRUE;
    }
    inverse = (PetscReal)1.0 / pivot;
    IDRS_SYNC_WARP();
    /* row p = row p / pivot, then row r -= D_rp row p for the other rows */
    for (PetscInt c = IDRS_LANE; c < bs; c += IDRS_LANES) D[p * bs + c] = c == p ? inverse : D[p * bs + c] * inverse;
    IDRS_SYNC_WARP();
    for (PetscInt t = IDRS_LANE; t < bs * bs; t += IDRS_LANES) {
      const PetscInt r = t / bs, c = t % bs;

      if (r != p && c != p) D[t] -= D[r * bs + p] * D[p * bs + c];
    }
    IDRS_SYNC_WARP();
    for (PetscInt r = IDRS_LANE; r < bs; r += IDRS_LANES) {
      if (r != p) D[r * bs + p] *= -inverse;
    }
  }
  IDRS_SYNC_WARP();
  for (PetscInt t = IDRS_LANE, l = 0; t < bs * bs; t += IDRS_LANES) {
    /* |D_ij (D^{-1})_ji| */
    if (PetscAbsScalar(before[l++] * D[t % bs * bs + t / bs]) > (PetscReal)IDRS_FACTOR_CONDITION) unfit = PETSC_TRUE;
  }
  return unfit;
}
