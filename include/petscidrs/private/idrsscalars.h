/*
   The algebra of IDR(s) on numbers instead of vectors: everything that follows from the sums of one reduction.

     M    s x s, lower triangular, M_ij = p_i^H g_j, stored by columns;  inverse_i = 1 / M_ii
     f    f_i = p_i^H r
     c    M(k:s,k:s) c(k:s) = f(k:s), but for most steps of the start
     alpha, beta, omega   coefficients of a step, see idrsops.h

   The recurrence starts with s minimal residual steps, whose columns fill G, U and M: see IDRSScalarsStartStep().

   No PETSc call: compiled for host and device. On a device the lanes of one warp share the work: each calls the functions,
   and between two uses of an entry by different lanes they meet.
*/
#pragma once

#include <petscsys.h>
#include <petscidrs/private/idrsshadow.h>

/* Sums that one projection of x (and y) leaves behind; s = number of shadow vectors */
#define IDRS_SUM_PX(s) 0             /* P^H x, s entries */
#define IDRS_SUM_XX(s) (s)           /* x^H x */
#define IDRS_SUM_RR(s) ((s) + 1)     /* r^H r, of the previous update or advance */
#define IDRS_SUM_PY(s) ((s) + 2)     /* P^H y, s entries */
#define IDRS_SUM_XY(s) (2 * (s) + 2) /* x^H y */
#define IDRS_SUM_YY(s) (2 * (s) + 3) /* y^H y */

/* Length of the array, with a y or without */
#define IDRS_SUMS(s, y) ((y) ? 2 * (s) + 4 : (s) + 2)

/* All numbers are in one array, so that one copy takes them to a device or back */
#define IDRS_STORAGE_SUMS(s) ((s) * (s) + 5 * (s) + 1)
#define IDRS_STORAGE(s)      (IDRS_STORAGE_SUMS(s) + IDRS_SUMS(s, 1))

/* ||p_k|| = 1 */
#define IDRS_HASHED_PIVOTSCALE (1 / PETSC_MACHINE_EPSILON)

typedef struct {
  PetscInt     s;
  PetscScalar *M, *inverse, *f, *c, *alpha, *beta;
  /* one number; a pointer, as C and CUDA do not agree on how a complex number is aligned inside a struct */
  PetscScalar *omega;
  PetscScalar *sums;       /* of the last projection */
  PetscReal    pivotscale; /* 1 / (epsilon ||p_k||) of the smallest column of P, or IDRS_HASHED_PIVOTSCALE for the hashed space */
} IDRSScalars;

#if defined(__CUDA_ARCH__)
  #define IDRS_LANE        ((PetscInt)(threadIdx.x % 32))
  #define IDRS_LANES       32
  #define IDRS_SYNC_WARP() __syncwarp()
#else
  #define IDRS_LANE  0
  #define IDRS_LANES 1
  #define IDRS_SYNC_WARP() \
    do { \
    } while (0)
#endif

/* Numbers of s shadow vectors in an array of IDRS_STORAGE(s) entries */
static inline IDRS_HOST_DEVICE void IDRSScalarsSetPointers(IDRSScalars *scalars, PetscInt s, PetscScalar *storage)
{
  scalars->s       = s;
  scalars->M       = storage;
  scalars->inverse = scalars->M + s * s;
  scalars->f       = scalars->inverse + s;
  scalars->c       = scalars->f + s;
  scalars->alpha   = scalars->c + s;
  scalars->beta    = scalars->alpha + s;
  scalars->omega   = scalars->beta + s;
  scalars->sums    = scalars->omega + 1;
}

/* Forgets the columns of M from k on: to IDRSScalarsCombine() they are columns of the identity until they are computed */
static inline IDRS_HOST_DEVICE void IDRSScalarsForget(IDRSScalars *scalars, PetscInt k)
{
  const PetscInt s = scalars->s;

  for (PetscInt i = k * s; i < s * s; i++) scalars->M[i] = 0.0;
  for (PetscInt i = k; i < s; i++) scalars->M[i + i * s] = scalars->inverse[i] = 1.0;
}

/* Solves M(k:s,k:s) c = f(k:s), column by column: c_i is scaled by 1 / M_ii when nobody needs it as it was */
static inline IDRS_HOST_DEVICE void IDRSScalarsCombine(IDRSScalars *scalars, PetscInt k)
{
  const PetscInt     s = scalars->s;
  const PetscScalar *M = scalars->M;
  PetscScalar       *c = scalars->c;

  for (PetscInt i = k + IDRS_LANE; i < s; i += IDRS_LANES) c[i] = scalars->f[i];
  for (PetscInt j = k; j < s; j++) {
    PetscScalar cj;

    IDRS_SYNC_WARP();
    cj = c[j] * scalars->inverse[j];
    for (PetscInt i = j + 1 + IDRS_LANE; i < s; i += IDRS_LANES) c[i] -= M[i + j * s] * cj;
  }
  IDRS_SYNC_WARP();
  for (PetscInt i = k + IDRS_LANE; i < s; i += IDRS_LANES) c[i] *= scalars->inverse[i];
  IDRS_SYNC_WARP();
}

/*
   Whether M_kk can be divided by. It cannot when nothing but rounding is left of it: of the terms it is the difference of, or of
   the inner product p_k^H g itself, gg = g^H g. A NaN is no pivot either. Squares, so that no step takes a root, of numbers whose
   range is that of g whatever the scale of P
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSScalarsIsPivot(const IDRSScalars *scalars, PetscReal pivot, PetscReal terms)
{
  const PetscReal gg = PetscRealPart(scalars->sums[IDRS_SUM_XX(scalars->s)]), large = pivot * scalars->pivotscale;

  return pivot > 64 * PETSC_MACHINE_EPSILON * terms && large * large > gg ? PETSC_TRUE : PETSC_FALSE;
}

/*
   From d = P^H g, g = A u, the coefficients that make g orthogonal to p_0 ... p_{k-1}, and the new column of M:

     alpha_i = (d_i - sum_{j<i} M_ij alpha_j) / M_ii, i < k;    M_ik = d_i - sum_{j<k} M_ij alpha_j, i >= k

   Returns whether M_kk can be divided by. *share is what is left of the terms that it is the difference of.
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSScalarsOrthogonalize(IDRSScalars *scalars, PetscInt k, PetscReal *share)
{
  const PetscInt     s     = scalars->s;
  const PetscScalar *d     = scalars->sums + IDRS_SUM_PX(s);
  PetscScalar       *alpha = scalars->alpha, *Mk = scalars->M + k * s;
  PetscReal          terms = PetscAbsScalar(d[k]), pivot;

  for (PetscInt i = IDRS_LANE; i < s; i += IDRS_LANES) {
    if (i < k) alpha[i] = d[i];
    else Mk[i] = d[i];
  }
  for (PetscInt j = 0; j < k; j++) {
    const PetscScalar *Mj = scalars->M + j * s;
    PetscScalar        alphaj;

    IDRS_SYNC_WARP();
    alphaj = alpha[j] * scalars->inverse[j];
    terms += PetscAbsScalar(Mj[k] * alphaj);
    for (PetscInt i = j + 1 + IDRS_LANE; i < s; i += IDRS_LANES) {
      if (i < k) alpha[i] -= Mj[i] * alphaj;
      else Mk[i] -= Mj[i] * alphaj;
    }
  }
  IDRS_SYNC_WARP();
  for (PetscInt i = IDRS_LANE; i < k; i += IDRS_LANES) alpha[i] *= scalars->inverse[i];
  pivot  = PetscAbsScalar(Mk[k]);
  *share = pivot / terms;
  return IDRSScalarsIsPivot(scalars, pivot, terms);
}

/* beta = f_k / M_kk makes r - beta g_k orthogonal to p_k as well;  f_i -= beta M_ik, i > k */
static inline IDRS_HOST_DEVICE void IDRSScalarsBeta(IDRSScalars *scalars, PetscInt k)
{
  const PetscInt    s       = scalars->s;
  const PetscScalar inverse = (PetscScalar)1.0 / scalars->M[k + k * s], beta = scalars->f[k] * inverse;

  if (IDRS_LANE == 0) {
    scalars->inverse[k] = inverse;
    scalars->beta[k]    = beta;
  }
  for (PetscInt i = k + 1 + IDRS_LANE; i < s; i += IDRS_LANES) scalars->f[i] -= beta * scalars->M[i + k * s];
  IDRS_SYNC_WARP();
}

/*
   The omega for which r - omega t has the smallest norm, from the sums of x = t and y = r, and the one that it is enlarged to where
   the angle between t and r is wide: to the length that it would have at the angle with this cosine. Written without a
   division by the cosine of the angle, it stands for t^H r = 0 too (skew-symmetric A):

     minimal  = t^H r / t^H t
     enlarged = minimal, or cosine (||r|| / ||t||) sign(t^H r) where |t^H r| < cosine ||t|| ||r||, sign(0) = 1

   Returns whether they are usable: not for t = 0, nor when the enlarged one is infinite or a NaN.
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSScalarsOmega(const IDRSScalars *scalars, PetscReal cosine, PetscScalar *minimal,
                                                          PetscScalar *enlarged)
{
  const PetscInt    s  = scalars->s;
  const PetscScalar tr = scalars->sums[IDRS_SUM_XY(s)];
  const PetscReal   tt = PetscRealPart(scalars->sums[IDRS_SUM_XX(s)]);
  const PetscReal   rr = PetscRealPart(scalars->sums[IDRS_SUM_YY(s)]), size = PetscAbsScalar(tr);

  if (!(tt > 0.0)) return PETSC_FALSE;
  *minimal = *enlarged = tr / tt;
  /* No roots are taken where |<t,r>|^2 / <t,t> is so large that the test below does not hold */
  if (!(PetscAbsScalar(*minimal) * size > ((PetscReal)1.0 + 16 * PETSC_MACHINE_EPSILON) * cosine * cosine * rr)) {
    const PetscReal tnorm = PetscSqrtReal(tt), rnorm = PetscSqrtReal(rr);

    if (size < cosine * tnorm * rnorm) *enlarged = (size > 0.0 ? tr / size : (PetscScalar)1.0) * (cosine * rnorm / tnorm);
  }
  return PetscAbsScalar(*enlarged) <= PETSC_MAX_REAL ? PETSC_TRUE : PETSC_FALSE;
}

/* ||r - omega t||^2 = r^H r - 2 Re(conj(omega) t^H r) + |omega|^2 t^H t, from the same sums */
static inline IDRS_HOST_DEVICE PetscReal IDRSScalarsNormSquared(const IDRSScalars *scalars, PetscScalar omega)
{
  const PetscInt s = scalars->s;

  return PetscRealPart(scalars->sums[IDRS_SUM_YY(s)]) - 2.0 * PetscRealPart(PetscConj(omega) * scalars->sums[IDRS_SUM_XY(s)]) +
         PetscRealPart(PetscConj(omega) * omega) * PetscRealPart(scalars->sums[IDRS_SUM_XX(s)]);
}

/*
   f = P^H (r - omega t). P^H r is zero on paper before an omega step; leaving it out there lets rounding errors build up until the
   method diverges
*/
static inline IDRS_HOST_DEVICE void IDRSScalarsSetF(IDRSScalars *scalars, PetscScalar omega)
{
  const PetscInt     s  = scalars->s;
  const PetscScalar *Pt = scalars->sums + IDRS_SUM_PX(s), *Pr = scalars->sums + IDRS_SUM_PY(s);

  for (PetscInt i = IDRS_LANE; i < s; i += IDRS_LANES) scalars->f[i] = Pr[i] - omega * Pt[i];
}

/* The direction after a column is chosen in another way if this is left of M_kk: the columns come near to each other */
#define IDRS_SCALARS_PIVOT ((PetscReal)0.01)

/*
   Step k of the start, from the sums of x = g = A u and y = r, u = B^{-1}v: r - omega g has the smallest norm, and g is made
   orthogonal to p_0 ... p_{k-1} afterwards, as in every step. In terms of the columns that come of it, the step omega u is
   U(:,0:k+1) times

     omega alpha_j, j < k,  and omega,   which are added to beta.

   The next direction is v = r - G(:,0:k+1) c. It is r itself, c = 0, but

   - where the angle of g and r is wide, as r hardly changes then, and A r would be g once more: there it is the r that the enlarged
     omega would have made, r - (enlarged - minimal) g;
   - where so many directions have come near to each other that little is left of M_kk, and after the last step: there
     M(0:k+1,0:k+1) c = f(0:k+1), P^H v = 0 as far as there are columns, as in the steps after the start. Any c gives the same
     spaces.

   A column that is half rounding error ends the start: A leaves the space of those before it as it is, but for little, and x is in
   it.
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSScalarsStartStep(IDRSScalars *scalars, PetscInt k, PetscReal cosine, PetscReal *rr)
{
  const PetscInt s = scalars->s;
  PetscScalar    minimal, enlarged;
  PetscReal      share;

  if (!IDRSScalarsOmega(scalars, cosine, &minimal, &enlarged) || !IDRSScalarsOrthogonalize(scalars, k, &share) ||
      !(share > PETSC_SQRT_MACHINE_EPSILON))
    return PETSC_FALSE;
  IDRS_SYNC_WARP();
  IDRSScalarsSetF(scalars, minimal);
  for (PetscInt j = IDRS_LANE; j < k; j += IDRS_LANES) {
    scalars->beta[j] += minimal * scalars->alpha[j];
    scalars->c[j] = (enlarged - minimal) * scalars->alpha[j];
  }
  if (IDRS_LANE == 0) {
    scalars->inverse[k] = (PetscScalar)1.0 / scalars->M[k + k * s];
    scalars->beta[k]    = minimal;
    scalars->c[k]       = enlarged - minimal;
  }
  IDRS_SYNC_WARP();
  if (k + 1 == s || share < IDRS_SCALARS_PIVOT) IDRSScalarsCombine(scalars, 0); /* its first entries need no other column */
  *rr = IDRSScalarsNormSquared(scalars, minimal);
  return PETSC_TRUE;
}

/* Ends the start: r has become r - G c, and beta + c belongs to it */
static inline IDRS_HOST_DEVICE void IDRSScalarsEndStart(IDRSScalars *scalars, PetscInt columns)
{
  for (PetscInt j = IDRS_LANE; j < columns; j += IDRS_LANES) scalars->beta[j] += scalars->c[j];
  IDRS_SYNC_WARP();
}

/*
   The omega step, from the sums of x = t = A B^{-1}r and y = r; *rr = ||r - omega t||^2. Returns whether omega is usable: not when
   it is zero either
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSScalarsOmegaStep(IDRSScalars *scalars, PetscReal cosine, PetscReal *rr)
{
  PetscScalar minimal, omega;

  if (!IDRSScalarsOmega(scalars, cosine, &minimal, &omega) || !(PetscAbsScalar(omega) > 0.0)) return PETSC_FALSE;
  IDRSScalarsSetF(scalars, omega);
  if (IDRS_LANE == 0) scalars->omega[0] = omega;
  *rr = IDRSScalarsNormSquared(scalars, omega);
  IDRS_SYNC_WARP();
  return PETSC_TRUE;
}

/* From the sums of x = r, which no step has made: f = P^H r */
static inline IDRS_HOST_DEVICE void IDRSScalarsTakeResidual(IDRSScalars *scalars)
{
  const PetscInt     s  = scalars->s;
  const PetscScalar *Pr = scalars->sums + IDRS_SUM_PX(s);

  for (PetscInt i = IDRS_LANE; i < s; i += IDRS_LANES) scalars->f[i] = Pr[i];
  IDRS_SYNC_WARP();
}

/* Whether all sums are finite; r^H r counts only if it is asked for. On a device, the sums of this lane */
static inline IDRS_HOST_DEVICE PetscBool IDRSScalarsAreFinite(const IDRSScalars *scalars, PetscBool y, PetscBool rr)
{
  PetscBool finite = PETSC_TRUE;

  for (PetscInt i = IDRS_LANE; i < IDRS_SUMS(scalars->s, y); i += IDRS_LANES) {
    if ((rr || i != IDRS_SUM_RR(scalars->s)) && !(PetscAbsScalar(scalars->sums[i]) <= PETSC_MAX_REAL)) finite = PETSC_FALSE;
  }
  return finite;
}

/*
   All that follows from the sums of step k, or of the omega step, k = s: the coefficients of its update, and the c of the step
   after it. start is true in the first s steps and in the omega step after them. Returns whether the recurrence goes on. *rr is r^H
   r after a step of the start or an omega step.
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSScalarsContinue(IDRSScalars *scalars, PetscInt k, PetscBool start, PetscReal cosine,
                                                             PetscReal *rr)
{
  const PetscInt s = scalars->s;

  if (start && k < s) return IDRSScalarsStartStep(scalars, k, cosine, rr);
  if (k < s) {
    PetscReal share;

    if (!IDRSScalarsOrthogonalize(scalars, k, &share)) return PETSC_FALSE;
    IDRSScalarsBeta(scalars, k);
  } else {
    if (!IDRSScalarsOmegaStep(scalars, cosine, rr)) return PETSC_FALSE;
    if (start) IDRSScalarsEndStart(scalars, s);
  }
  if (k + 1 != s) IDRSScalarsCombine(scalars, k < s ? k + 1 : 0);
  return PETSC_TRUE;
}
