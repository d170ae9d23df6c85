/*
   The algebra of a step after the start, k < s, by a warp whose lane i has row i of M: what IDRSScalarsContinue() does, without a meeting of the lanes between columns. The rows are
   in registers, and a lane gives its entry to the others as soon as it has it. No PETSc call.
*/
#pragma once

#include <petscidrs/private/idrsscalars.h>
#include "coefficients.cuh"
#include "../../sys/device/target.cuh"

/* Solves L y = x for rows from begin to end - 1 of the lower triangle, where y_j = (x_j - ...) inverse_j: the x of a lane is what is left of it before the last factor. Returns sum of |L_ij y_j| */
template <int S>
static __device__ __forceinline__ PetscReal IDRSLanesSolve(const PetscScalar row[S], PetscScalar inverse, int begin, int end, PetscScalar *x)
{
  const int i     = (int)IDRS_LANE;
  PetscReal terms = 0.0;

#pragma unroll
  for (int j = 0; j < S; j++) {
    if (j >= begin && j < end) {
      const PetscScalar term = row[j] * IDRSShuffle(*x * inverse, j);

      if (i > j) *x -= term;
      terms += PetscAbsScalar(term);
    }
  }
  return terms;
}

/*
   From d = P^H g the coefficients of the update, and the next c, as in IDRSScalarsOrthogonalize(), IDRSScalarsBeta() and IDRSScalarsCombine(). Returns whether M_kk can be divided by; the
   scalars are as they were if not
*/
template <int S>
static __device__ __forceinline__ bool IDRSLanesStep(IDRSScalars *scalars, int k, IDRSCoefficients<S> *coefficients)
{
  const int         s = (int)scalars->s, i = (int)IDRS_LANE;
  const bool        mine    = i < s;
  const PetscScalar inverse = mine ? scalars->inverse[i] : (PetscScalar)0.0;
  PetscScalar       row[S], x = mine ? scalars->sums[IDRS_SUM_PX(s) + i] : (PetscScalar)0.0, f = mine ? scalars->f[i] : (PetscScalar)0.0, pivot, beta, c;
  PetscReal         terms = PetscAbsScalar(x);

#pragma unroll
  for (int j = 0; j < S; j++) row[j] = mine && j < i ? scalars->M[i + j * s] : (PetscScalar)0.0;
  terms += IDRSLanesSolve<S>(row, inverse, 0, k, &x);
  pivot = IDRSShuffle(x, k);
  if (!IDRSScalarsIsPivot(scalars, PetscAbsScalar(pivot), IDRSShuffle(terms, k))) return false;
  pivot = (PetscScalar)1.0 / pivot;
  beta  = IDRSShuffle(f, k) * pivot;
  if (i > k) f -= beta * x;
  c = f;
  (void)IDRSLanesSolve<S>(row, inverse, k + 1, s, &c);
  c *= inverse;
  if (i < k) coefficients->a[i] = scalars->alpha[i] = x * inverse;
  else if (mine) {
    scalars->M[i + k * s] = x;
    if (i == k) {
      coefficients->b[k] = scalars->beta[k] = beta;
      coefficients->omega                   = scalars->omega[0];
      scalars->inverse[k]                   = pivot;
    } else {
      coefficients->a[i] = scalars->c[i] = c;
      scalars->f[i]                      = f;
    }
  }
  IDRS_SYNC_WARP();
  return true;
}
