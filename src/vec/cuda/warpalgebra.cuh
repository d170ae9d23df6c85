/*
   The algebra of a step after the start, by a warp whose lane i has row i of M. The results are those of IDRSScalarsContinue(), but
   little work remains after the sums have arrived. The following is computed while the sums of a step are being reduced:

     E    maps d = P^H g to alpha_i, i < k, and to the new column M_ik, i >= k: a matrix product instead of the solve of
          IDRSScalarsOrthogonalize(). With a new column, one row of E is divided by its pivot and subtracted from the rows below,
          as in the elimination of d. At the end of a cycle E is the inverse of M.
     N    the inverse of M at the begin of the cycle. Below and right of entry k it belongs to the columns of the last cycle,
          so that c is also a matrix product:

            c = N (f - beta M_k) = N f - beta N M_k,   of rows and columns k+1 ... s-1,

          where N f is computed before the sums arrive, and N M_k during the division by M_kk.

   The numbers of IDRSScalars are updated after the coefficients, before the sums of the next step are used. No PETSc call.
*/
#pragma once

#include <petscidrs/private/idrsscalars.h>
#include "../../sys/kernels/coefficients.cuh"
#include "../../sys/device/target.cuh"

/* In shared memory, by rows, which begin in different banks. Columns of N up to k are zero */
template <int S>
struct alignas(16) IDRSInverses {
  PetscScalar E[S][S + 2], N[S][S + 2];
};

/*
   Coefficients of a step k after the start: a = alpha(0:k) and b = c(k+1:s), with zeros for all other columns, so that passes need
   no tests. The other steps use the base
*/
template <int S>
struct IDRSAlgebraCoefficients : IDRSCoefficients<S> {
  PetscScalar beta; /* of the same step */
};

/* Work of the lanes that precedes the next step */
enum {
  IDRS_ALGEBRA_BEGIN = -2, /* compute E and N from M */
  IDRS_ALGEBRA_NOTHING
};

/* Registers of lane i, for row i. The lane reads the row before the sums arrive. IDRSAlgebraPrepare() of the next step writes it */
template <int S>
struct IDRSLane {
  int         last; /* the step that is not yet in E, N and the scalars, or one of the values above */
  PetscScalar e[S], n[S], f, fk, Nf;
  PetscScalar left, c, inverse, beta; /* of the last step; left: alpha_i or M_ik; beta: or omega */
  /* its r^H r; and bounds of this step, an empty interval if the host must continue in any case */
  PetscReal rr, low, high;
};

/*
   Computes N = M^{-1}, one column per lane, and E for step k: rows of N before k, and for the other rows the identity after the
   elimination of the first k columns
*/
template <int S>
static __device__ __forceinline__ void IDRSAlgebraBegin(const IDRSScalars *scalars, IDRSInverses<S> *inverses, int k)
{
  const int          s = (int)scalars->s, j = (int)IDRS_LANE;
  const PetscScalar *M = scalars->M;

  if (j < S) {
#pragma unroll 1
    for (int i = 0; i < S; i++) {
      PetscScalar sum = i == j ? 1.0 : 0.0;

      inverses->E[i][j] = sum;
#pragma unroll 1
      for (int l = j; l < i && i < s; l++) sum -= M[i + l * s] * inverses->N[l][j];
      inverses->N[i][j] = i < s ? sum * scalars->inverse[i] : (PetscScalar)0.0;
    }
#pragma unroll 1
    for (int i = 0; i < s && j < k; i++) {
      PetscScalar sum = 0.0;

#pragma unroll 1
      for (int l = j; l < k; l++) sum -= M[i + l * s] * inverses->N[l][j];
      inverses->E[i][j] = i < k ? inverses->N[i][j] : sum;
    }
    for (int i = 0; i < S && j <= k; i++) inverses->N[i][j] = 0.0;
  }
  IDRS_SYNC_WARP();
}

/* Completes the last step: writes its numbers to the scalars, and its column to E. After an omega step E becomes N */
template <int S>
static __device__ __forceinline__ void IDRSAlgebraFollow(IDRSScalars *scalars, IDRSInverses<S> *inverses, const IDRSLane<S> &lane)
{
  const int s = (int)scalars->s, i = (int)IDRS_LANE, k = lane.last;

  if (k == s) {
    if (i < S) {
#pragma unroll
      for (int j = 0; j < S; j++) {
        inverses->N[i][j] = j ? inverses->E[i][j] : (PetscScalar)0.0;
        inverses->E[i][j] = i == j ? 1.0 : 0.0;
      }
    }
    if (i < s) {
      scalars->f[i] = lane.f;
      scalars->c[i] = lane.c;
    }
    if (i == 0) scalars->omega[0] = lane.beta;
  } else {
    PetscScalar row[S];

#pragma unroll
    for (int j = 0; j < S; j++) row[j] = inverses->E[k][j] * lane.inverse;
    IDRS_SYNC_WARP();
    if (i >= k && i < S) {
#pragma unroll
      for (int j = 0; j < S; j++) inverses->E[i][j] = i == k ? row[j] : inverses->E[i][j] - lane.left * row[j];
    }
    if (i < S && k + 1 < S) inverses->N[i][k + 1] = 0.0;
    if (i < s) {
      *(i < k ? scalars->alpha + i : scalars->M + i + k * s) = lane.left;
      if (i > k) {
        scalars->f[i] = lane.f;
        scalars->c[i] = lane.c;
      }
    }
    if (i == 0) {
      scalars->inverse[k] = lane.inverse;
      scalars->beta[k]    = lane.beta;
    }
  }
  IDRS_SYNC_WARP();
}

/*
   Called by a warp before the sums of step k have arrived, or with k = s of the omega step: completes the last step, and loads the
   data of this step. lane.last becomes IDRS_ALGEBRA_NOTHING
*/
template <int S>
static __device__ __forceinline__ void IDRSAlgebraPrepare(IDRSScalars *scalars, IDRSInverses<S> *inverses, int k, IDRSLane<S> *lane,
                                                          IDRSAlgebraCoefficients<S> *coefficients)
{
  const int i = min((int)IDRS_LANE, S - 1);

  if (lane->last == IDRS_ALGEBRA_BEGIN) IDRSAlgebraBegin<S>(scalars, inverses, k);
  else if (lane->last != IDRS_ALGEBRA_NOTHING) IDRSAlgebraFollow<S>(scalars, inverses, *lane);
  lane->last = IDRS_ALGEBRA_NOTHING;
  if (IDRS_LANE == 0) coefficients->omega = scalars->omega[0];
  lane->f  = scalars->f[i];
  lane->fk = scalars->f[k];
  lane->Nf = 0.0;
#pragma unroll
  for (int j = 0; j < S; j++) {
    lane->e[j] = inverses->E[i][j];
    lane->n[j] = inverses->N[i][j];
    if (j) lane->Nf += lane->n[j] * scalars->f[j];
  }
}

/*
   Computes the coefficients of step k from d = P^H g. Returns to all lanes true if M_kk is a usable pivot, see
   IDRSScalarsIsPivot(); false if an entry of d is infinite or NaN, because the terms are then not finite. The scalars are not
   changed; *lane has the numbers for them. With fewer than S columns E and N are padded with zeros
*/
template <int S>
static __device__ __forceinline__ bool IDRSAlgebraStep(const IDRSScalars *scalars, int k, IDRSLane<S> *lane,
                                                       IDRSAlgebraCoefficients<S> *coefficients)
{
  const int   i       = (int)IDRS_LANE;
  PetscScalar left[2] = {0.0, 0.0}, Nleft = 0.0, pivot;
  PetscReal   terms = 0.0;
  bool        pivots;

#pragma unroll
  for (int j = 0; j < S; j++) {
    const PetscScalar term = lane->e[j] * scalars->sums[j];

    left[j % 2] += term;
    terms += PetscAbsScalar(term);
  }
  lane->left = left[0] + left[1];
  pivot      = IDRSShuffle(lane->left, k);
  /* before the division, so that both overlap */
  pivots        = IDRSScalarsIsPivot(scalars, PetscAbsScalar(pivot), IDRSShuffle(terms, k));
  lane->inverse = (PetscScalar)1.0 / pivot;
  lane->beta    = lane->fk * lane->inverse;
#pragma unroll
  for (int j = 1; j < S; j++) Nleft += lane->n[j] * IDRSShuffle(lane->left, j);
  lane->c = lane->Nf - lane->beta * Nleft;
  if (i < S) {
    coefficients->a[i] = i < k ? lane->left : (PetscScalar)0.0;
    coefficients->b[i] = lane->c;
  }
  if (i == 0) coefficients->beta = lane->beta;
  lane->f -= lane->beta * lane->left;
  return pivots;
}

/* Computes the coefficients of the omega step for a usable omega: f = P^H (r - omega t) and c = N f. E is the inverse of M here */
template <int S>
static __device__ __forceinline__ void IDRSAlgebraOmega(const IDRSScalars *scalars, PetscScalar omega, IDRSLane<S> *lane,
                                                        IDRSAlgebraCoefficients<S> *coefficients)
{
  const int          s = (int)scalars->s, i = (int)IDRS_LANE;
  const PetscScalar *Pt = scalars->sums + IDRS_SUM_PX(s), *Pr = scalars->sums + IDRS_SUM_PY(s);
  PetscScalar        NPt = 0.0, NPr = 0.0;

#pragma unroll
  for (int j = 0; j < S; j++) {
    if (j < s) {
      NPt += lane->e[j] * Pt[j];
      NPr += lane->e[j] * Pr[j];
    }
  }
  lane->beta = omega;
  lane->c    = NPr - omega * NPt;
  if (i < s) {
    lane->f            = Pr[i] - omega * Pt[i];
    coefficients->a[i] = lane->c;
    coefficients->b[i] = scalars->beta[i];
  }
  if (i == 0) coefficients->omega = omega;
}
