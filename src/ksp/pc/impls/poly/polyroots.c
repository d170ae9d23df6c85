/*
   The polynomial of PCPOLY: dense algebra of the size of the degree, repeated on all processes.

   Polynomials are expressed in a basis q_0 = 1, q_1, ... with a recurrence, an upper Hessenberg matrix T with one more row than
   columns:

     z [q_0 ... q_{m-1}] = [q_0 ... q_m] T

   The basis is the Arnoldi basis, with T = H, or the Newton basis of given roots. For p = sum_j c_j q_j, j < d, the roots of p are
   the eigenvalues of

     T(0:d-1,0:d-1) - (T_{d-1,d-2} / c_{d-1}) c(0:d-1) e_{d-2}^T

   because q_{d-1} = -sum_{j<d-1} (c_j / c_{d-1}) q_j at a root of p, in the last column of the recurrence.

   References: J.A. Loe and R.B. Morgan, Toward efficient polynomial preconditioning for GMRES, Numer. Linear Algebra Appl. 29
   (2022); N.M. Nachtigal, L. Reichel and L.N. Trefethen, A hybrid GMRES algorithm for nonsymmetric linear systems, SIAM J. Matrix
   Anal. Appl. 13 (1992); L. Reichel, Newton interpolation at Leja points, BIT 30 (1990)
*/
#include "polyimpl.h"
#include <petscblaslapack.h>

/* Roots at infinity and coefficients of this relative size count as zero: the degree is smaller */
#define PCPOLY_NEGLIGIBLE (100 * PETSC_MACHINE_EPSILON)

/*
   Ritz values of this size, relative to the largest, count as zero. In double precision this is 1.5e-8: Ritz values of null vectors
   were at most 8.8e-9 in 50 singular systems with up to 2000 rows, and the smallest Ritz value of 15 real systems was 3.5e-6
*/
#define PCPOLY_ZERO PETSC_SQRT_MACHINE_EPSILON

static PetscBool PCPolyIsFinite(PetscInt n, const PetscScalar a[])
{
  for (PetscInt i = 0; i < n; i++) {
    if (PetscIsInfOrNanScalar(a[i])) return PETSC_FALSE;
  }
  return PETSC_TRUE;
}

/* Computes the eigenvalues of M, n x n, which is overwritten; found is PETSC_FALSE if M is not finite, or LAPACK fails */
static PetscErrorCode PCPolyEigenvalues_Private(PetscInt n, PetscScalar M[], IDRSRoot values[], PetscBool *found)
{
  PetscBLASInt bn, lwork, info = 0, one = 1;
  PetscScalar *work;
  PetscReal   *re, *im; /* rwork in complex builds */

  PetscFunctionBegin;
  *found = PCPolyIsFinite(n * n, M);
  if (!*found || !n) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscBLASIntCast(n, &bn));
  PetscCall(PetscBLASIntCast(8 * n, &lwork));
  PetscCall(PetscMalloc3(9 * n, &work, 2 * n, &re, n, &im));
  PetscCall(PetscFPTrapPush(PETSC_FP_TRAP_OFF));
#if PetscDefined(USE_COMPLEX)
  PetscCallBLAS("LAPACKgeev", LAPACKgeev_("N", "N", &bn, M, &bn, work + 8 * n, NULL, &one, NULL, &one, work, &lwork, re, &info));
  for (PetscInt i = 0; i < n; i++) values[i] = (IDRSRoot){PetscRealPart(work[8 * n + i]), PetscImaginaryPart(work[8 * n + i])};
#else
  PetscCallBLAS("LAPACKgeev", LAPACKgeev_("N", "N", &bn, M, &bn, re, im, NULL, &one, NULL, &one, work, &lwork, &info));
  for (PetscInt i = 0; i < n; i++) values[i] = (IDRSRoot){re[i], im[i]};
#endif
  PetscCall(PetscFPTrapPop());
  PetscCall(PetscFree3(work, re, im));
  if (info) *found = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyRitzValues_Private - Computes the Ritz values of a space that has memory for them */
PetscErrorCode PCPolyRitzValues_Private(PCPolySpace *space)
{
  PetscScalar *M;
  PetscBool    found;

  PetscFunctionBegin;
  PetscCall(PetscMalloc1(space->m * space->m, &M));
  for (PetscInt j = 0; j < space->m; j++) PetscCall(PetscArraycpy(M + j * space->m, space->H + j * (space->m + 1), space->m));
  PetscCall(PCPolyEigenvalues_Private(space->m, M, space->ritz, &found));
  space->nritz = found ? space->m : 0;
  PetscCall(PetscFree(M));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolyDropZeros_Private - Removes and counts the Ritz values that are zero up to rounding errors */
void PCPolyDropZeros_Private(PCPolySpace *space)
{
  PetscReal largest = 0.0;
  PetscInt  n       = 0;

  for (PetscInt i = 0; i < space->nritz; i++) largest = PetscMax(largest, IDRSRootModulus(space->ritz[i]));
  for (PetscInt i = 0; i < space->nritz; i++) {
    if (IDRSRootModulus(space->ritz[i]) > PCPOLY_ZERO * largest) space->ritz[n++] = space->ritz[i];
  }
  space->zeros = space->nritz - n;
  space->nritz = n;
}

/*
   PCPolyNewtonBasis_Private - Computes T of the Newton basis with these m shifts theta; m + 1 rows and m columns, leading dimension
   ld. Without a scale, gamma = -theta, or |theta| for a pair: then q_j is the product of the factors 1 - z / theta before it
*/
void PCPolyNewtonBasis_Private(PetscInt m, const IDRSRoot shifts[], PetscReal scale, PetscInt ld, PetscScalar T[])
{
  for (PetscInt k = 0; k < ld * m; k++) T[k] = 0.0;
  for (PetscInt j = 0; j < m;) {
    const PetscInt    group = IDRSRootGroup(shifts[j]);
    const PetscScalar theta = IDRSRootScalar(shifts[j]),
                      gamma = scale > 0.0 ? scale : (group == 2 ? IDRSRootModulus(shifts[j]) : -theta);

    /* z q_j = theta q_j + gamma q_{j+1}, with Re(theta) for a pair of conjugates, in real arithmetic */
    T[j + j * ld]     = group == 2 ? shifts[j].re : theta;
    T[j + 1 + j * ld] = gamma;
    if (group == 2 && j + 1 < m) {
      /* z q_{j+1} = Re(theta) q_{j+1} - (Im(theta)^2 / gamma) q_j + gamma q_{j+2} */
      T[j + (j + 1) * ld]     = -shifts[j].im * (shifts[j].im / gamma);
      T[j + 1 + (j + 1) * ld] = shifts[j].re;
      T[j + 2 + (j + 1) * ld] = gamma;
    }
    j += group;
  }
}

/* Computes p from its coefficients c_j, j < d, in the basis of T, up to the last that is not negligible; degree 0 for none */
static PetscErrorCode PCPolySetFactors_Private(PetscInt d, const PetscScalar c[], PetscInt ld, const PetscScalar T[],
                                               PCPolynomial *p)
{
  PetscScalar *M;
  PetscReal    largest = 0.0;
  PetscBool    found;
  IDRSRoot     factors[PCPOLY_MAX_DEGREE];

  PetscFunctionBegin;
  for (PetscInt j = 0; j < d; j++) largest = PetscMax(largest, PetscAbsScalar(c[j]));
  while (d && !(PetscAbsScalar(c[d - 1]) > PCPOLY_NEGLIGIBLE * largest)) d--;
  p->degree   = d;
  p->nfactors = PetscMax(d - 1, 0);
  PetscCall(PetscMalloc1(p->nfactors * p->nfactors, &M));
  for (PetscInt j = 0; j < p->nfactors; j++) {
    for (PetscInt i = 0; i < p->nfactors; i++) M[i + j * p->nfactors] = T[i + j * ld];
  }
  /* M(:,d-2) -= (T_{d-1,d-2} / c_{d-1}) c(0:d-1) */
  for (PetscInt i = 0; i < p->nfactors; i++) M[i + (p->nfactors - 1) * p->nfactors] -= T[d - 1 + (d - 2) * ld] * c[i] / c[d - 1];
  PetscCall(PCPolyEigenvalues_Private(p->nfactors, M, factors, &found));
  for (PetscInt i = 0; found && i < p->nfactors; i++) found = (PetscBool)(IDRSRootModulus(factors[i]) > 0.0);
  if (found) PetscCall(IDRSRootsLeja(p->nfactors, factors, 0.0, p->nfactors, p->factors));
  else p->degree = 0;
  PetscCall(PetscFree(M));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCPolyFromRoots_Private - Computes p for the pi with these roots, in the basis of the products pi_j of the first j factors. The
   sum of the differences of these products is 1 - pi = z p. Roots that are infinite relative to the smallest root are omitted
*/
PetscErrorCode PCPolyFromRoots_Private(PetscInt d, const IDRSRoot roots[], PCPolynomial *p)
{
  PetscScalar *T, *c;
  PetscReal    least = PETSC_MAX_REAL;
  IDRSRoot     finite[PCPOLY_MAX_DEGREE];

  PetscFunctionBegin;
  for (PetscInt i = 0; i < d; i++) least = PetscMin(least, IDRSRootModulus(roots[i]));
  p->residual = -1.0;
  p->nroots   = 0;
  p->p0       = 0.0;
  for (PetscInt i = 0; i < d; i++) {
    if (PCPOLY_NEGLIGIBLE * IDRSRootModulus(roots[i]) < least) finite[p->nroots++] = roots[i];
  }
  d = p->nroots;
  PetscCall(PetscMalloc2((d + 1) * d, &T, d, &c));
  PetscCall(IDRSRootsLeja(d, finite, 0.0, d, p->roots));
  PCPolyNewtonBasis_Private(d, p->roots, 0.0, d + 1, T);
  for (PetscInt j = 0; j < d;) {
    const IDRSRoot  theta   = p->roots[j];
    const PetscReal modulus = IDRSRootModulus(theta);

    if (IDRSRootGroup(theta) == 2) {
      /* pi_j - pi_{j+2} = z (Re(theta) q_j / |theta|^2 - q_{j+1} / |theta|) */
      c[j]     = theta.re / modulus / modulus;
      c[j + 1] = -1.0 / modulus;
      p->p0 += 2.0 * c[j];
      j += 2;
    } else {
      /* pi_j - pi_{j+1} = z q_j / theta */
      c[j] = 1.0 / IDRSRootScalar(theta);
      p->p0 += c[j];
      j++;
    }
  }
  PetscCall(PCPolySetFactors_Private(d, c, d + 1, T, p));
  PetscCall(PetscFree2(T, c));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCPolyFromSpace_Private - Computes the GMRES polynomial of degree d. The roots of pi are the harmonic Ritz values; their inverses
   are the eigenvalues of the first d columns of the pseudoinverse of H. If the degree is smaller, because coefficients are
   negligible, p(0), the roots and the residual still belong to degree d: then call it again
*/
PetscErrorCode PCPolyFromSpace_Private(const PCPolySpace *space, PetscInt d, PCPolynomial *p)
{
  const PetscInt ld = space->m + 1, rows = space->invariant && d == space->m ? d : d + 1;
  PetscBLASInt   brows, bd, lwork, info = 0;
  PetscScalar   *R, *W, *work, *M;
  PetscReal      norm = 0.0;
  PetscBool      found;
  IDRSRoot       roots[PCPOLY_MAX_DEGREE];

  PetscFunctionBegin;
  p->degree = p->nroots = p->nfactors = 0;
  p->p0                               = 0.0;
  PetscCall(PetscBLASIntCast(rows, &brows));
  PetscCall(PetscBLASIntCast(d, &bd));
  PetscCall(PetscBLASIntCast(32 * rows, &lwork));
  PetscCall(PetscMalloc4(rows * d, &R, rows * d, &W, 32 * rows, &work, d * d, &M));
  for (PetscInt j = 0; j < d; j++) {
    for (PetscInt i = 0; i < rows; i++) {
      R[i + j * rows] = space->H[i + j * ld];
      W[i + j * rows] = i == j ? 1.0 : 0.0;
    }
  }
  /* W = pseudoinverse of the first d columns of H; its first column c minimizes ||e_0 - H c||, and its trace is p(0) */
  PetscCall(PetscFPTrapPush(PETSC_FP_TRAP_OFF));
  PetscCallBLAS("LAPACKgels", LAPACKgels_("N", &brows, &bd, &bd, R, &brows, W, &brows, work, &lwork, &info));
  PetscCall(PetscFPTrapPop());
  if (!info && PCPolyIsFinite(rows * d, W)) {
    /* residual = ||e_0 - H c|| */
    for (PetscInt i = 0; i < rows; i++) {
      PetscScalar r = i ? 0.0 : 1.0;

      for (PetscInt j = 0; j < d; j++) r -= space->H[i + j * ld] * W[j];
      norm += PetscRealPart(r * PetscConj(r));
    }
    p->residual = PetscSqrtReal(norm);
    for (PetscInt j = 0; j < d; j++) {
      p->p0 += W[j + j * rows];
      PetscCall(PetscArraycpy(M + j * d, W + j * rows, d));
    }
    PetscCall(PCPolySetFactors_Private(d, W, ld, space->H, p));
    PetscCall(PCPolyEigenvalues_Private(d, M, roots, &found));
    norm = 0.0;
    for (PetscInt i = 0; found && i < d; i++) norm = PetscMax(norm, IDRSRootModulus(roots[i]));
    for (PetscInt i = 0; found && i < d; i++) {
      /* The inverses of a pair of conjugates change places, so that the positive imaginary part stays first */
      const IDRSRoot inverse = IDRSRootQuotient((IDRSRoot){1.0, 0.0},
                                                (IDRSRoot){roots[i].re, PetscDefined(USE_COMPLEX) ? roots[i].im : -roots[i].im});

      if (IDRSRootModulus(roots[i]) > PCPOLY_NEGLIGIBLE * norm) roots[p->nroots++] = inverse;
    }
    PetscCall(IDRSRootsLeja(p->nroots, roots, 0.0, p->nroots, p->roots));
    if (!found) p->degree = 0;
  }
  PetscCall(PetscFree4(R, W, work, M));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCPolyLeastRealPart_Private - Returns the smallest Re(1 - pi(lambda)) of these lambda: if it is positive, A p(A) has these
   eigenvalues in the right half plane
*/
PetscReal PCPolyLeastRealPart_Private(const PCPolynomial *p, PetscInt n, const IDRSRoot lambda[])
{
  PetscReal least = PETSC_MAX_REAL;

  for (PetscInt k = 0; k < n; k++) {
    IDRSRoot pi = {1.0, 0.0};

    for (PetscInt i = 0; i < p->nroots; i++) {
      const IDRSRoot quotient = IDRSRootQuotient(lambda[k], p->roots[i]), factor = {1.0 - quotient.re, -quotient.im};

      /* pi(lambda) = prod (1 - lambda / roots_i) */
      pi = (IDRSRoot){pi.re * factor.re - pi.im * factor.im, pi.re * factor.im + pi.im * factor.re};
    }
    least = PetscMin(least, 1.0 - pi.re);
  }
  return least;
}
