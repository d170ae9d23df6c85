/*
   The Krylov space of D^{-1}A for the polynomial of PCPOLY, without a reduction for each vector. The products are the same as in
   the polynomial. A pass computes the vectors of a basis by their recurrence, and the matrix of all inner products at once:

     D^{-1}A K_m = K_{m+1} T,   K^H K = R^H R,   so with Q = K R^{-1}:   D^{-1}A Q_m = Q_{m+1} H,   H = R T R_m^{-1}

   The first pass computes powers of D^{-1}A. The next passes compute the Newton basis whose shifts are the eigenvalues of H from
   the pass before, in Leja order, until the space has the requested dimension, or does not grow.

   Reference: Z. Bai, D. Hu and L. Reichel, A Newton basis GMRES implementation, IMA J. Numer. Anal. 14 (1994)
*/
#include "polyimpl.h"
#include <petscidrs/private/idrsops.h>

#define PCPOLY_POWERS 8 /* largest power in the first pass */
#define PCPOLY_PASSES 4 /* largest number of passes */

/* Relative accuracy of eigenvalues of H as eigenvalues of D^{-1}A: a vector keeps this component in the direction of a shift */
#define PCPOLY_RESOLUTION 1e-3

/* Rounding errors of inner products of vectors of norm 1 */
#define PCPOLY_ROUNDING (100 * PETSC_MACHINE_EPSILON)

/* Computes the vectors of the basis of T, from k_0 on; T has one or two entries above the subdiagonal */
static PetscErrorCode PCPolyBasis_Private(const PCPolyOperator *op, PetscInt m, const PetscScalar T[], Vec K[])
{
  PetscScalar          gamma[PCPOLY_MAX_DEGREE], theta[PCPOLY_MAX_DEGREE], mu[PCPOLY_MAX_DEGREE];
  const IDRSPowersOps *powers;

  PetscFunctionBegin;
  PetscAssert(m <= PCPOLY_MAX_DEGREE, PETSC_COMM_SELF, PETSC_ERR_PLIB, "%" PetscInt_FMT " vectors", m);
  PetscCall(PCPolyGetPowers_Private(op, K[0], K[m], &powers));
  for (PetscInt j = 0; j < m; j++) {
    const PetscScalar *t       = T + j * (m + 1);
    PCPolyProduct      product = {.alpha = -t[j] / t[j + 1], .u = K[j], .beta = 1.0 / t[j + 1], .z = K[j], .y = K[j + 1]};

    /* T_{j+1,j} k_{j+1} = D^{-1}A k_j - T_jj k_j - T_{j-1,j} k_{j-1} */
    gamma[j] = 1.0 / t[j + 1];
    theta[j] = t[j];
    mu[j]    = j ? t[j - 1] / t[j + 1] : (PetscScalar)0.0;
    if (powers) continue;
    PetscCall(PCPolyMultiplyAdd_Private(op, op->copy, PETSC_FALSE, &product));
    if (mu[j] != 0.0) PetscCall(VecAXPY(K[j + 1], -mu[j], K[j - 1]));
  }
  if (powers) PetscCall(MatPowersMult(op->A, op->inverse, K[0], m, gamma, theta, mu, K + 1));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes R from the inner products W of n vectors by Cholesky decomposition, all with the leading dimension n; the vectors are
   scaled to norm 1 for it. rank is the number of vectors before the first one whose part orthogonal to them is not larger than the
   rounding error of that part. dependent: the error is also too small to hide another direction, so that the space is taken as
   invariant. If a shift of the recurrence T is an eigenvalue, the vector itself may be a rounding error
*/
static PetscErrorCode PCPolyCholesky_Private(PetscInt n, const PetscScalar W[], const PetscScalar T[], PetscScalar R[],
                                             PetscInt *rank, PetscBool *dependent)
{
  PetscScalar *z;
  PetscReal    before = 1.0;

  PetscFunctionBegin;
  PetscCall(PetscMalloc1(n, &z));
  *dependent = PETSC_FALSE;
  for (*rank = 0; *rank < n; (*rank)++) {
    const PetscInt  j      = *rank;
    const PetscReal norm   = PetscSqrtReal(PetscRealPart(W[j + j * n]));
    PetscReal       square = 1.0, sum = 1.0, noise = 0.0, error;

    if (PetscIsInfOrNanReal(norm)) break;
    for (PetscInt i = 0; i < n; i++) R[i + j * n] = 0.0;
    /* r = R^{-H} K^H k_j; square = 1 - r^H r: square of the part of k_j that is orthogonal to k_0 ... k_{j-1} */
    for (PetscInt i = 0; i < j && norm > 0.0; i++) {
      PetscScalar r = W[i + j * n] / norm;

      for (PetscInt k = 0; k < i; k++) r -= PetscConj(R[k + i * n]) * R[k + j * n];
      R[i + j * n] = r / R[i + i * n];
      square -= PetscRealPart(R[i + j * n] * PetscConj(R[i + j * n]));
    }
    /* z = R^{-1} r: the coefficients of the nearest vector in the span */
    for (PetscInt i = j - 1; i >= 0; i--) {
      z[i] = R[i + j * n];
      for (PetscInt k = i + 1; k < j; k++) z[i] -= R[i + k * n] * z[k];
      z[i] /= R[i + i * n];
    }
    for (PetscInt i = 0; i < j; i++) {
      sum += PetscAbsScalar(z[i]) * PetscSqrtReal(PetscRealPart(W[i + i * n])); /* of the vectors scaled to norm 1 */
      R[i + j * n] *= norm;
    }
    /* of the square: eps (1 + ||z||_1)^2 */
    error = PCPOLY_ROUNDING * PetscSqr(sum);
    /* of k_j: eps sum_{i<j} |T_{i,j-1}| ||k_i|| / |T_{j,j-1}| */
    for (PetscInt i = PetscMax(j - 2, 0); i < j; i++)
      noise += PCPOLY_ROUNDING * PetscAbsScalar(T[i + (j - 1) * n] / T[j + (j - 1) * n]) *
               PetscSqrtReal(PetscRealPart(W[i + i * n]));
    if (!(norm > noise) || !(square > error)) {
      /* in single precision the error hides much, but one dimension is better than none */
      *dependent = (PetscBool)(j == 1 || !(norm > noise) || PetscSqrtReal(error) <= PCPOLY_RESOLUTION * before);
      break;
    }
    before       = PetscSqrtReal(square);
    R[j + j * n] = before * norm;
  }
  PetscCall(PetscFree(z));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes H = R T R_m^{-1} for the largest space that the vectors resolve: of dimension m = rank - 1, or m = rank if the next
   vector is in their span, so that its column of R is known
*/
static PetscErrorCode PCPolyHessenberg_Private(PetscInt n, const PetscScalar R[], const PetscScalar T[], PetscInt rank, PetscInt m,
                                               PCPolySpace *space)
{
  const PetscInt ld = m + 1;

  PetscFunctionBegin;
  space->m         = m;
  space->invariant = (PetscBool)(m == rank);
  PetscCall(PetscFree(space->H));
  PetscCall(PetscCalloc1(ld * m, &space->H));
  for (PetscInt j = 0; j < m; j++) {
    PetscScalar *h = space->H + j * ld;

    /* H R_m = R T, column by column; T has entries in rows j - 1 to j + 1, R is upper triangular, and H upper Hessenberg */
    for (PetscInt k = PetscMax(j - 1, 0); k < j + 2; k++) {
      for (PetscInt i = 0; i < PetscMin(k + 1, rank); i++) h[i] += R[i + k * n] * T[k + j * n];
    }
    for (PetscInt k = 0; k < j; k++) {
      for (PetscInt i = 0; i < PetscMin(k + 2, rank); i++) h[i] -= space->H[i + k * ld] * R[k + j * n];
    }
    for (PetscInt i = 0; i < PetscMin(j + 2, rank); i++) h[i] /= R[j + j * n];
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Returns a scale for the vectors of the next pass, which must neither overflow nor vanish: the geometric mean of the distances of
   the first shift to the others
*/
static PetscReal PCPolyCapacity(PetscInt n, const IDRSRoot shifts[])
{
  PetscReal sum = 0.0, scale;

  for (PetscInt i = 1; i < n; i++)
    sum += PetscLogReal(IDRSRootModulus((IDRSRoot){shifts[0].re - shifts[i].re, shifts[0].im - shifts[i].im}) + PETSC_SMALL);
  scale = n > 1 ? PetscExpReal(sum / (n - 1)) : IDRSRootModulus(shifts[0]);
  return scale > 0.0 ? scale : 1.0;
}

/* T of k_1 = D^{-1}A k_0 */
static const PetscScalar PCPolyOnce[] = {0.0, 1.0};

/* Computes the Krylov space of D^{-1}A and K[0]. The first process decides for all, since rounding errors of others may differ */
static PetscErrorCode PCPolySpaceBuild_Private(const PCPolyOperator *op, PetscInt m, Vec K[], PCPolySpace *space)
{
  MPI_Comm     comm    = PetscObjectComm((PetscObject)K[0]);
  PetscInt     columns = PetscMin(m, PCPOLY_POWERS), before = -1, found[2]; /* the rank, and the dimension of the space */
  PetscScalar *T, *R, *W;
  PetscReal    scale;
  PetscBool    dependent = PETSC_FALSE;
  IDRSRoot    *shifts;

  PetscFunctionBegin;
  *space = (PCPolySpace){0};
  PetscCall(PetscMalloc3((m + 1) * m, &T, (m + 1) * (m + 1), &R, (m + 1) * (m + 1), &W));
  PetscCall(PetscMalloc1(m, &space->ritz));
  PetscCall(PetscCalloc1(m, &shifts));
  /*
     scale = ||D^{-1}A v|| / ||v||, because A without D may have any scale. The kernel of the basis yields the same bits in every
     set-up; MatMult() may add up long rows in another order each time
  */
  PetscCall(PCPolyBasis_Private(op, 1, PCPolyOnce, K));
  PetscCall(IDRSVecGram(2, K, W));
  scale = PetscSqrtReal(PetscRealPart(W[3]) / PetscRealPart(W[0]));
  if (!(scale > 0.0) || PetscIsInfOrNanReal(scale)) { /* a square underflows or overflows */
    PetscReal norm[2];

    for (PetscInt i = 0; i < 2; i++) PetscCall(VecNorm(K[i], NORM_2, &norm[i]));
    scale = norm[1] / norm[0];
    if (!(scale > 0.0) || PetscIsInfOrNanReal(scale)) scale = 1.0;
  }
  for (PetscInt pass = 0; pass < PCPOLY_PASSES && space->m > before && space->m < m; pass++) {
    const PetscInt n = columns + 1;

    /* D^{-1}A K_m = K_{m+1} T */
    PCPolyNewtonBasis_Private(columns, shifts, scale, n, T);
    PetscCallMPI(MPI_Bcast(T, (PetscMPIInt)(n * columns), MPIU_SCALAR, 0, comm));
    PetscCall(PCPolyBasis_Private(op, columns, T, K));
    /* W = K^H K = R^H R in one reduction */
    PetscCall(IDRSVecGram(n, K, W));
    PetscCall(PCPolyCholesky_Private(n, W, T, R, &found[0], &dependent));
    found[1] = dependent ? found[0] : PetscMax(found[0] - 1, 0);
    PetscCallMPI(MPI_Bcast(found, 2, MPIU_INT, 0, comm));
    PetscCall(PetscInfo(K[0], "Pass %" PetscInt_FMT ": %" PetscInt_FMT " of %" PetscInt_FMT " vectors are independent%s\n", pass,
                        found[0], n, found[0] == found[1] ? ", the space is invariant" : ""));
    before = space->m;
    if (pass && found[1] < before) break;
    /* H, and from it the shifts of the next pass */
    PetscCall(PCPolyHessenberg_Private(n, R, T, found[0], found[1], space));
    PetscCall(PCPolyRitzValues_Private(space));
    if (!space->nritz) space->ritz[0].re = PETSC_INFINITY;
    PetscCallMPI(MPI_Bcast(space->ritz, (PetscMPIInt)(2 * space->m), MPIU_REAL, 0, comm));
    if (!space->m || PetscIsInfOrNanReal(space->ritz[0].re)) break;
    columns = m;
    PetscCall(IDRSRootsLeja(space->m, space->ritz, PCPOLY_RESOLUTION, columns, shifts));
    scale = PCPolyCapacity(space->m, shifts);
  }
  PCPolyDropZeros_Private(space);
  PetscCall(PetscFree(shifts));
  PetscCall(PetscFree3(T, R, W));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCPolySpaceCreate_Private - Computes the Krylov space of D^{-1}A and K[0], of dimension m or smaller; K has m + 1 vectors. With
   `image` K[0] becomes D^{-1}A v first, which has less of the eigenvectors of small eigenvalues.

   If a Ritz value is zero, the space has resolved a null vector of A. Every residual polynomial keeps this part of v, because
   pi(0) = 1, and to reduce the rest of v together with it would distort pi. So K[0] becomes D^{-1}A v, which has no such part
*/
PetscErrorCode PCPolySpaceCreate_Private(const PCPolyOperator *op, PetscBool image, PetscInt m, Vec K[], PCPolySpace *space)
{
  PetscMPIInt zero;

  PetscFunctionBegin;
  if (!image) {
    PetscCall(PCPolySpaceBuild_Private(op, m, K, space));
    zero = space->zeros > 0;
    PetscCallMPI(MPI_Bcast(&zero, 1, MPI_INT, 0, PetscObjectComm((PetscObject)K[0])));
    if (!zero) PetscFunctionReturn(PETSC_SUCCESS);
    PetscCall(PetscInfo(K[0], "A Ritz value is zero: the start vector is multiplied by the matrix\n"));
    PetscCall(PCPolySpaceDestroy_Private(space));
  }
  PetscCall(PCPolyBasis_Private(op, 1, PCPolyOnce, K));
  PetscCall(VecCopy(K[1], K[0]));
  PetscCall(PCPolySpaceBuild_Private(op, m, K, space));
  space->range = PETSC_TRUE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode PCPolySpaceDestroy_Private(PCPolySpace *space)
{
  PetscFunctionBegin;
  PetscCall(PetscFree(space->H));
  PetscCall(PetscFree(space->ritz));
  PetscFunctionReturn(PETSC_SUCCESS);
}
