/*
   The algebra of IDR(s) on scalars: everything that follows from the sums of one reduction.

     M    s x s, lower triangular, M_ij = p_i^H g_j, stored by columns;  inverse_i = 1 / M_ii
     f    f_i = p_i^H r
     c    M(k:s,k:s) c(k:s) = f(k:s), but for most steps of the start
     alpha, beta, omega   coefficients of a step, see idrsops.h

   No PETSc call: compiled for host and device. On a device the lanes of one warp share the work. All lanes call the functions,
   except IDRSScalarsResetColumns(), which one lane calls. Between two uses of an entry by different lanes they synchronize.
*/
#pragma once

#include <petscidrs/private/idrsstep.h>

/* The sums of one projection of x (and y); s = number of shadow vectors */
#define IDRS_SUM_PX(s) 0             /* P^H x, s entries */
#define IDRS_SUM_XX(s) (s)           /* x^H x */
#define IDRS_SUM_RR(s) ((s) + 1)     /* r^H r, of the previous update or advance */
#define IDRS_SUM_PY(s) ((s) + 2)     /* P^H y, s entries */
#define IDRS_SUM_XY(s) (2 * (s) + 2) /* x^H y */
#define IDRS_SUM_YY(s) (2 * (s) + 3) /* y^H y */

/* Length of the array, with or without a y */
#define IDRS_SUMS(s, y) ((y) ? 2 * (s) + 4 : (s) + 2)

/*
   Returns the index of ||r||^2 in the sums. The norm of an unreported iteration is r^H r of the last pass. Otherwise it is y^H y
   with y = r. Both differ only in the omega step that ends the start, which has changed r after the last pass
*/
static inline IDRS_HOST_DEVICE PetscInt IDRSNormSum(PetscInt s, PetscBool y, PetscBool unreported)
{
  return unreported || !y ? IDRS_SUM_RR(s) : IDRS_SUM_YY(s);
}

/* All numbers are in one array, so that one copy moves them to a device or back */
#define IDRS_STORAGE_SUMS(s) ((s) * (s) + 5 * (s) + 1)
#define IDRS_STORAGE(s)      (IDRS_STORAGE_SUMS(s) + IDRS_SUMS(s, 1))

/* For a column of the hashed space, whose norm counts as 1 */
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
  #define IDRS_LANE         ((PetscInt)(threadIdx.x % 32))
  #define IDRS_LANES        32
  #define IDRS_SYNC_WARP()  __syncwarp()
  #define IDRS_AND_LANES(x) __all_sync(0xffffffffU, x)
#else
  #define IDRS_LANE         0
  #define IDRS_LANES        1
  #define IDRS_AND_LANES(x) (x)
  #define IDRS_SYNC_WARP() \
    do { \
    } while (0)
#endif

/* Sets the pointers into an array of IDRS_STORAGE(s) entries */
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

/* Sets the columns of M from k on to columns of the identity, until they are computed */
static inline IDRS_HOST_DEVICE void IDRSScalarsResetColumns(IDRSScalars *scalars, PetscInt k)
{
  const PetscInt s = scalars->s;

  for (PetscInt i = k * s; i < s * s; i++) scalars->M[i] = 0.0;
  for (PetscInt i = k; i < s; i++) scalars->M[i + i * s] = scalars->inverse[i] = 1.0;
}

/* Solves M(k:s,k:s) c = f(k:s), column by column: c_i is scaled by 1 / M_ii after its last use */
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
   Returns PETSC_TRUE unless M_kk is NaN, or rounding error of p_k^H g or of the terms whose difference it is. Compares squares, so
   that no square root is needed
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSScalarsIsPivot(const IDRSScalars *scalars, PetscReal pivot, PetscReal terms)
{
  const PetscReal gg = PetscRealPart(scalars->sums[IDRS_SUM_XX(scalars->s)]), large = pivot * scalars->pivotscale;

  return IDRSIsPivot(pivot, terms) && large * large > gg ? PETSC_TRUE : PETSC_FALSE;
}

/*
   Computes the coefficients that make g = A u orthogonal to p_0 ... p_{k-1}, and column k of M, from d = P^H g:

     alpha_i = (d_i - sum_{j<i} M_ij alpha_j) / M_ii, i < k;    M_ik = d_i - sum_{j<k} M_ij alpha_j, i >= k

   Returns PETSC_TRUE if M_kk is a pivot. *share is |M_kk| over the sum of its terms.
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

/* Computes beta = f_k / M_kk, which makes r - beta g_k orthogonal to p_k, and f_i -= beta M_ik, i > k */
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

/* Computes omega from the sums of x = t and y = r, see IDRSDecideOmega() */
static inline IDRS_HOST_DEVICE PetscBool IDRSScalarsOmega(const IDRSScalars *scalars, PetscReal cosine, PetscScalar *minimal,
                                                          PetscScalar *enlarged)
{
  const PetscInt     s    = scalars->s;
  const PetscScalar *sums = scalars->sums;

  return IDRSDecideOmega(sums[IDRS_SUM_XY(s)], PetscRealPart(sums[IDRS_SUM_XX(s)]), PetscRealPart(sums[IDRS_SUM_YY(s)]), cosine,
                         minimal, enlarged);
}

/* Computes the omega of the omega step */
static inline IDRS_HOST_DEVICE IDRSVerdict IDRSScalarsDecideOmega(const IDRSScalars *scalars, PetscReal cosine, PetscScalar *omega)
{
  PetscScalar minimal;

  return IDRSScalarsOmega(scalars, cosine, &minimal, omega) && IDRSIsOmega(*omega) ? IDRS_CONTINUES : IDRS_NO_OMEGA;
}

/* Returns ||r - omega t||^2 = r^H r - 2 Re(conj(omega) t^H r) + |omega|^2 t^H t */
static inline IDRS_HOST_DEVICE PetscReal IDRSScalarsNormSquared(const IDRSScalars *scalars, PetscScalar omega)
{
  const PetscInt s = scalars->s;

  return PetscRealPart(scalars->sums[IDRS_SUM_YY(s)]) - 2.0 * PetscRealPart(PetscConj(omega) * scalars->sums[IDRS_SUM_XY(s)]) +
         PetscRealPart(PetscConj(omega) * omega) * PetscRealPart(scalars->sums[IDRS_SUM_XX(s)]);
}

/* Returns PETSC_TRUE if this square, see IDRSScalarsNormSquared(), has at least half of its digits */
static inline IDRS_HOST_DEVICE PetscBool IDRSScalarsIsSharp(const IDRSScalars *scalars, PetscReal square)
{
  return IDRSIsSharp(square, PetscRealPart(scalars->sums[IDRS_SUM_YY(scalars->s)]));
}

/*
   Computes f = P^H (r - omega t). Without P^H r, which is zero in exact arithmetic, rounding errors would grow until the method
   diverges
*/
static inline IDRS_HOST_DEVICE void IDRSScalarsSetF(IDRSScalars *scalars, PetscScalar omega)
{
  const PetscInt     s  = scalars->s;
  const PetscScalar *Pt = scalars->sums + IDRS_SUM_PX(s), *Pr = scalars->sums + IDRS_SUM_PY(s);

  for (PetscInt i = IDRS_LANE; i < s; i += IDRS_LANES) scalars->f[i] = Pr[i] - omega * Pt[i];
}

/* If |M_kk| is below this share of its terms, the columns are nearly parallel, and the next direction is chosen in another way */
#define IDRS_SCALARS_PIVOT ((PetscReal)0.01)

/*
   Makes step k of the start, from the sums of x = g = A u and y = r, u = B^{-1}v: r - omega g has the smallest norm, and g is
   made orthogonal to p_0 ... p_{k-1} afterwards. In the new columns the step omega u is U(:,0:k+1) (omega alpha, omega), which
   is added to beta.

   The next direction is v = r - G(:,0:k+1) c. Any c gives the same spaces. c = 0 and v = r, except in two cases:

     - if the angle between g and r is wide, r hardly changes, and A r would be nearly g again: then v = r - (enlarged - minimal) g,
       the r of the enlarged omega
     - if the columns are nearly parallel (IDRS_SCALARS_PIVOT), and after the last step: M(0:k+1,0:k+1) c = f(0:k+1), so p_i^H v = 0
       for i <= k

   If half of the digits of a column are rounding errors, the start ends: the space before it is nearly invariant, and contains the
   solution.
*/
static inline IDRS_HOST_DEVICE IDRSVerdict IDRSScalarsStartStep(IDRSScalars *scalars, PetscInt k, PetscReal cosine, PetscReal *rr)
{
  const PetscInt s = scalars->s;
  PetscScalar    minimal, enlarged;
  PetscReal      share;

  if (!IDRSScalarsOmega(scalars, cosine, &minimal, &enlarged)) return IDRS_NO_OMEGA;
  if (!IDRSScalarsOrthogonalize(scalars, k, &share) || !(share > PETSC_SQRT_MACHINE_EPSILON)) return IDRS_NO_PIVOT;
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
  if (k + 1 == s || share < IDRS_SCALARS_PIVOT) IDRSScalarsCombine(scalars, 0); /* its first entries depend on no later column */
  *rr = IDRSScalarsNormSquared(scalars, minimal);
  return IDRS_CONTINUES;
}

/* Ends the start: beta += c, because r has become r - G c */
static inline IDRS_HOST_DEVICE void IDRSScalarsEndStart(IDRSScalars *scalars, PetscInt columns)
{
  for (PetscInt j = IDRS_LANE; j < columns; j += IDRS_LANES) scalars->beta[j] += scalars->c[j];
  IDRS_SYNC_WARP();
}

/* Sets f = P^H r, from the sums of x = r, for an r that no step has computed */
static inline IDRS_HOST_DEVICE void IDRSScalarsSetResidual(IDRSScalars *scalars)
{
  const PetscInt     s  = scalars->s;
  const PetscScalar *Pr = scalars->sums + IDRS_SUM_PX(s);

  for (PetscInt i = IDRS_LANE; i < s; i += IDRS_LANES) scalars->f[i] = Pr[i];
  IDRS_SYNC_WARP();
}

/* Returns PETSC_TRUE if all sums are finite; r^H r is tested only on request. On a device: the sums of this lane */
static inline IDRS_HOST_DEVICE PetscBool IDRSScalarsAreFinite(const IDRSScalars *scalars, PetscBool y, PetscBool rr)
{
  PetscBool finite = PETSC_TRUE;

  for (PetscInt i = IDRS_LANE; i < IDRS_SUMS(scalars->s, y); i += IDRS_LANES) {
    if ((rr || i != IDRS_SUM_RR(scalars->s)) && !IDRSIsFinite(scalars->sums[i])) finite = PETSC_FALSE;
  }
  return finite;
}

/*
   Computes everything that follows from the sums of step k, or k = s, the omega step: the coefficients of its update, and the c
   of the next step. start is true up to the first omega step. *rr is r^H r after a step of the start or an omega step
*/
static inline IDRS_HOST_DEVICE IDRSVerdict IDRSScalarsContinue(IDRSScalars *scalars, PetscInt k, PetscBool start, PetscReal cosine,
                                                               PetscReal *rr)
{
  const PetscInt s = scalars->s;

  if (start && k < s) return IDRSScalarsStartStep(scalars, k, cosine, rr);
  if (k < s) {
    PetscReal share;

    if (!IDRSScalarsOrthogonalize(scalars, k, &share)) return IDRS_NO_PIVOT;
    IDRSScalarsBeta(scalars, k);
  } else {
    PetscScalar omega;

    if (IDRSScalarsDecideOmega(scalars, cosine, &omega) != IDRS_CONTINUES) return IDRS_NO_OMEGA;
    IDRSScalarsSetF(scalars, omega);
    if (IDRS_LANE == 0) scalars->omega[0] = omega;
    *rr = IDRSScalarsNormSquared(scalars, omega);
    IDRS_SYNC_WARP();
    if (start) IDRSScalarsEndStart(scalars, s);
  }
  if (k + 1 != s) IDRSScalarsCombine(scalars, IDRSNextK(k, s));
  return IDRS_CONTINUES;
}

/*
   Decides whether the recurrence continues with step k, whose sums have been computed, and computes its coefficients. If `tested`
   is set, `norm`, which is the norm of r, must be within the bounds. y is true if the projection of the step has a y, which is r
*/
static inline IDRS_HOST_DEVICE IDRSVerdict IDRSScalarsDecide(IDRSScalars *scalars, PetscInt k, PetscBool start, PetscBool y,
                                                             PetscBool tested, PetscReal norm, const IDRSBounds *bounds)
{
  PetscReal rr;

  if (!IDRS_AND_LANES(IDRSScalarsAreFinite(scalars, y, tested))) return IDRS_NOT_FINITE;
  if (tested) {
    const IDRSVerdict verdict = IDRSDecideNorm(norm, bounds);

    if (verdict != IDRS_CONTINUES) return verdict;
  }
  return IDRSScalarsContinue(scalars, k, start, bounds->cosine, &rr);
}
