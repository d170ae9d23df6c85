/*
   The algebra of IDR(s) on numbers instead of vectors: everything that follows from the sums of one reduction.

     M    s x s, lower triangular, M_ij = p_i^H g_j, stored by columns;  inverse_i = 1 / M_ii
     f    f_i = p_i^H r
     c    M(k:s,k:s) c(k:s) = f(k:s)
     alpha, beta, omega   coefficients of a step, see idrsops.h

   No PETSc call: compiled for host and device. On a device the lanes of one warp share the work: each calls the functions,
   and between two uses of an entry by different lanes they meet.
*/
#pragma once

#include <petscsys.h>
#include <petscidrs/private/idrsshadow.h>

/* Sums that one projection of x (and y) leaves behind; s = number of shadow vectors */
#define IDRS_SUM_XX(s) (s)           /* x^H x; the s entries before it are P^H x */
#define IDRS_SUM_RR(s) ((s) + 1)     /* r^H r, of the previous update or of y */
#define IDRS_SUM_PY(s) ((s) + 2)     /* P^H y, s entries */
#define IDRS_SUM_XY(s) (2 * (s) + 2) /* x^H y */
#define IDRS_SUMS(s)   (2 * (s) + 3) /* length of the array */

/* Those of them that the projection of step k has made, or with k = s that of the omega step; r^H r only where it is pending */
#define IDRS_SUMS_OF_STEP(s, k, pending) ((k) == (s) ? IDRS_SUMS(s) : ((pending) ? (s) + 2 : (s) + 1))

/* All numbers are in one array, so that one copy takes them to a device or back */
#define IDRS_FIRST_SUM(s) ((s) * (s) + 5 * (s) + 1)
#define IDRS_NUMBERS(s)   (IDRS_FIRST_SUM(s) + IDRS_SUMS(s))

typedef struct {
  PetscInt     s;
  PetscScalar *M, *inverse, *f, *c, *alpha, *beta;
  PetscScalar *omega;      /* one number; a pointer, as C and CUDA do not agree on how a complex number is aligned inside a struct */
  PetscScalar *sums;       /* of the last projection */
  PetscReal    shadownorm; /* scale of the columns of P: ||p_k||, or 1 for the hashed space */
} IDRSSmall;

#if defined(__CUDA_ARCH__)
  #define IDRS_LANE   ((PetscInt)(threadIdx.x % 32))
  #define IDRS_LANES  32
  #define IDRS_MEET() __syncwarp()
#else
  #define IDRS_LANE  0
  #define IDRS_LANES 1
  #define IDRS_MEET() \
    do { \
    } while (0)
#endif

/* Numbers of s shadow vectors in an array of IDRS_NUMBERS(s) entries */
static inline IDRS_HOST_DEVICE void IDRSSmallPlace(IDRSSmall *small, PetscInt s, PetscScalar *numbers)
{
  small->s       = s;
  small->M       = numbers;
  small->inverse = small->M + s * s;
  small->f       = small->inverse + s;
  small->c       = small->f + s;
  small->alpha   = small->c + s;
  small->beta    = small->alpha + s;
  small->omega   = small->beta + s;
  small->sums    = small->omega + 1;
}

/* The recurrence starts with G = U = 0, M = I, omega = 1 */
static inline void IDRSSmallStart(IDRSSmall *small)
{
  const PetscInt s = small->s;

  for (PetscInt i = 0; i < s * s; i++) small->M[i] = 0.0;
  for (PetscInt i = 0; i < s; i++) small->M[i + i * s] = small->inverse[i] = 1.0;
  small->omega[0] = 1.0;
}

/* Solves M(k:s,k:s) c = f(k:s), column by column: c_i is scaled by 1 / M_ii when nobody needs it as it was */
static inline IDRS_HOST_DEVICE void IDRSSmallCombine(IDRSSmall *small, PetscInt k)
{
  const PetscInt     s = small->s;
  const PetscScalar *M = small->M;
  PetscScalar       *c = small->c;

  for (PetscInt i = k + IDRS_LANE; i < s; i += IDRS_LANES) c[i] = small->f[i];
  for (PetscInt j = k; j < s; j++) {
    PetscScalar cj;

    IDRS_MEET();
    cj = c[j] * small->inverse[j];
    for (PetscInt i = j + 1 + IDRS_LANE; i < s; i += IDRS_LANES) c[i] -= M[i + j * s] * cj;
  }
  IDRS_MEET();
  for (PetscInt i = k + IDRS_LANE; i < s; i += IDRS_LANES) c[i] *= small->inverse[i];
  IDRS_MEET();
}

/*
   From d = P^H g, g = A u, the coefficients that make g orthogonal to p_0 ... p_{k-1}, and the new column of M:

     alpha_i = (d_i - sum_{j<i} M_ij alpha_j) / M_ii, i < k;    M_ik = d_i - sum_{j<k} M_ij alpha_j, i >= k

   Returns whether M_kk can be divided by. It cannot when nothing but rounding is left of it: of the terms it is the
   difference of, or of the inner product p_k^H g itself, gg = g^H g. A NaN is no pivot either.
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSSmallOrthogonalize(IDRSSmall *small, PetscInt k)
{
  const PetscInt     s     = small->s;
  const PetscScalar *d     = small->sums;
  const PetscReal    gg    = PetscRealPart(small->sums[IDRS_SUM_XX(s)]);
  PetscScalar       *alpha = small->alpha, *Mk = small->M + k * s;
  PetscReal          terms = PetscAbsScalar(d[k]), pivot;

  for (PetscInt i = IDRS_LANE; i < s; i += IDRS_LANES) {
    if (i < k) alpha[i] = d[i];
    else Mk[i] = d[i];
  }
  for (PetscInt j = 0; j < k; j++) {
    const PetscScalar *Mj = small->M + j * s;
    PetscScalar        alphaj;

    IDRS_MEET();
    alphaj = alpha[j] * small->inverse[j];
    terms += PetscAbsScalar(Mj[k] * alphaj);
    for (PetscInt i = j + 1 + IDRS_LANE; i < s; i += IDRS_LANES) {
      if (i < k) alpha[i] -= Mj[i] * alphaj;
      else Mk[i] -= Mj[i] * alphaj;
    }
  }
  IDRS_MEET();
  for (PetscInt i = IDRS_LANE; i < k; i += IDRS_LANES) alpha[i] *= small->inverse[i];
  pivot = PetscAbsScalar(Mk[k]);
  return pivot > 64 * PETSC_MACHINE_EPSILON * terms && pivot > PETSC_MACHINE_EPSILON * small->shadownorm * PetscSqrtReal(gg) ? PETSC_TRUE : PETSC_FALSE;
}

/* beta = f_k / M_kk makes r - beta g_k orthogonal to p_k as well;  f_i -= beta M_ik, i > k */
static inline IDRS_HOST_DEVICE void IDRSSmallStep(IDRSSmall *small, PetscInt k)
{
  const PetscInt    s       = small->s;
  const PetscScalar inverse = (PetscScalar)1.0 / small->M[k + k * s], beta = small->f[k] * inverse;

  if (IDRS_LANE == 0) {
    small->inverse[k] = inverse;
    small->beta[k]    = beta;
  }
  for (PetscInt i = k + 1 + IDRS_LANE; i < s; i += IDRS_LANES) small->f[i] -= beta * small->M[i + k * s];
  IDRS_MEET();
}

/*
   The omega step, from the sums of x = t = A B^{-1} r and y = r: omega minimises ||r - omega t||, but where the angle
   between t and r is wide it is enlarged to the length that it would have at the angle with this cosine. Written
   without a division by the cosine of the angle, it stands for t^H r = 0 too (skew-symmetric A):

     omega = t^H r / t^H t, or cosine (||r|| / ||t||) sign(t^H r) where |t^H r| < cosine ||t|| ||r||, sign(0) = 1
     f     = P^H r - omega P^H t
     *rr   = ||r - omega t||^2 = r^H r - 2 Re(conj(omega) t^H r) + |omega|^2 t^H t

   P^H r is zero on paper; leaving it out lets rounding errors build up until the method diverges.

   Returns whether omega is usable: not for t = 0, nor when it is zero, infinite or not a number.
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSSmallOmega(IDRSSmall *small, PetscReal cosine, PetscReal *rr)
{
  const PetscInt     s     = small->s;
  const PetscScalar *Pt    = small->sums;
  const PetscScalar *Pr    = small->sums + IDRS_SUM_PY(s);
  const PetscScalar  tr    = small->sums[IDRS_SUM_XY(s)];
  const PetscReal    tt    = PetscRealPart(small->sums[IDRS_SUM_XX(s)]);
  const PetscReal    rr0   = PetscRealPart(small->sums[IDRS_SUM_RR(s)]);
  const PetscReal    tnorm = PetscSqrtReal(tt), rnorm = PetscSqrtReal(rr0), size = PetscAbsScalar(tr);
  PetscScalar        omega;

  if (!(tt > 0.0)) return PETSC_FALSE;
  if (size < cosine * tnorm * rnorm) omega = (size > 0.0 ? tr / size : (PetscScalar)1.0) * (cosine * rnorm / tnorm);
  else omega = tr / tt;
  if (!(PetscAbsScalar(omega) > 0.0 && PetscAbsScalar(omega) <= PETSC_MAX_REAL)) return PETSC_FALSE;
  for (PetscInt i = IDRS_LANE; i < s; i += IDRS_LANES) small->f[i] = Pr[i] - omega * Pt[i];
  if (IDRS_LANE == 0) small->omega[0] = omega;
  *rr = rr0 - 2.0 * PetscRealPart(PetscConj(omega) * tr) + PetscRealPart(PetscConj(omega) * omega) * tt;
  IDRS_MEET();
  return PETSC_TRUE;
}

/*
   All that follows from the sums of step k, or of the omega step, k = s: the coefficients of its update, and the c of the step
   after it. Returns whether the recurrence goes on; *rr is r^H r after an omega step.
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSSmallNext(IDRSSmall *small, PetscInt k, PetscReal cosine, PetscReal *rr)
{
  const PetscInt s = small->s;

  if (k < s) {
    if (!IDRSSmallOrthogonalize(small, k)) return PETSC_FALSE;
    IDRSSmallStep(small, k);
  } else if (!IDRSSmallOmega(small, cosine, rr)) return PETSC_FALSE;
  if (k + 1 != s) IDRSSmallCombine(small, k < s ? k + 1 : 0);
  return PETSC_TRUE;
}
