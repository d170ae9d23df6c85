/*
   The algebra of IDR(s) on numbers instead of vectors: everything that follows from the sums of one reduction.

     M    s x s, lower triangular, M_ij = p_i^H g_j, stored by columns
     f    f_i = p_i^H r
     c    M(k:s,k:s) c(k:s) = f(k:s)
     alpha, beta, omega   coefficients of a step, see idrsops.h

   No PETSc call: compiled for host and device.
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

typedef struct {
  PetscInt     s;
  PetscScalar *M, *f, *c, *alpha, *beta;
  PetscScalar *omega;      /* one number; a pointer, as C and CUDA do not agree on how a complex number is aligned inside a struct */
  PetscReal    shadownorm; /* scale of the columns of P: ||p_k||, or 1 for the hashed space */
} IDRSSmall;

/* The recurrence starts with G = U = 0, M = I, omega = 1 */
static inline IDRS_HOST_DEVICE void IDRSSmallStart(IDRSSmall *small)
{
  const PetscInt s = small->s;

  for (PetscInt i = 0; i < s * s; i++) small->M[i] = 0.0;
  for (PetscInt i = 0; i < s; i++) small->M[i + i * s] = 1.0;
  small->omega[0] = 1.0;
}

/* Solves M(k:s,k:s) c = f(k:s) */
static inline IDRS_HOST_DEVICE void IDRSSmallCombine(IDRSSmall *small, PetscInt k)
{
  const PetscInt s = small->s;

  for (PetscInt i = k; i < s; i++) {
    PetscScalar sum = small->f[i];

    for (PetscInt j = k; j < i; j++) sum -= small->M[i + j * s] * small->c[j];
    small->c[i] = sum / small->M[i + i * s];
  }
}

/*
   From d = P^H g, g = A u, the coefficients that make g orthogonal to p_0 ... p_{k-1}, and the new column of M:

     alpha_i = (d_i - sum_{j<i} M_ij alpha_j) / M_ii, i < k;    M_ik = d_i - sum_{j<k} M_ij alpha_j, i >= k

   Returns whether M_kk can be divided by. It cannot when nothing but rounding is left of it: of the terms it is the
   difference of, or of the inner product p_k^H g itself, gg = g^H g. A NaN is no pivot either.
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSSmallOrthogonalize(IDRSSmall *small, PetscInt k, const PetscScalar d[], PetscReal gg)
{
  const PetscInt s     = small->s;
  PetscReal      terms = PetscAbsScalar(d[k]), pivot;

  for (PetscInt i = 0; i < k; i++) {
    PetscScalar sum = d[i];

    for (PetscInt j = 0; j < i; j++) sum -= small->M[i + j * s] * small->alpha[j];
    small->alpha[i] = sum / small->M[i + i * s];
  }
  for (PetscInt i = k; i < s; i++) {
    PetscScalar sum = d[i];

    for (PetscInt j = 0; j < k; j++) sum -= small->M[i + j * s] * small->alpha[j];
    small->M[i + k * s] = sum;
  }
  for (PetscInt j = 0; j < k; j++) terms += PetscAbsScalar(small->M[k + j * s] * small->alpha[j]);
  pivot = PetscAbsScalar(small->M[k + k * s]);
  return pivot > 64 * PETSC_MACHINE_EPSILON * terms && pivot > PETSC_MACHINE_EPSILON * small->shadownorm * PetscSqrtReal(gg) ? PETSC_TRUE : PETSC_FALSE;
}

/* beta = f_k / M_kk makes r - beta g_k orthogonal to p_k as well;  f_i -= beta M_ik, i > k */
static inline IDRS_HOST_DEVICE void IDRSSmallStep(IDRSSmall *small, PetscInt k)
{
  const PetscInt    s    = small->s;
  const PetscScalar beta = small->f[k] / small->M[k + k * s];

  small->beta[k] = beta;
  for (PetscInt i = k + 1; i < s; i++) small->f[i] -= beta * small->M[i + k * s];
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
static inline IDRS_HOST_DEVICE PetscBool IDRSSmallOmega(IDRSSmall *small, const PetscScalar sums[], PetscReal cosine, PetscReal *rr)
{
  const PetscInt     s     = small->s;
  const PetscScalar *Pt    = sums;
  const PetscScalar *Pr    = sums + IDRS_SUM_PY(s);
  const PetscScalar  tr    = sums[IDRS_SUM_XY(s)];
  const PetscReal    tt    = PetscRealPart(sums[IDRS_SUM_XX(s)]);
  const PetscReal    rr0   = PetscRealPart(sums[IDRS_SUM_RR(s)]);
  const PetscReal    tnorm = PetscSqrtReal(tt), rnorm = PetscSqrtReal(rr0), size = PetscAbsScalar(tr);
  PetscScalar        omega;

  if (!(tt > 0.0)) return PETSC_FALSE;
  if (size < cosine * tnorm * rnorm) omega = (size > 0.0 ? tr / size : (PetscScalar)1.0) * (cosine * rnorm / tnorm);
  else omega = tr / tt;
  if (!(PetscAbsScalar(omega) > 0.0 && PetscAbsScalar(omega) <= PETSC_MAX_REAL)) return PETSC_FALSE;
  for (PetscInt i = 0; i < s; i++) small->f[i] = Pr[i] - omega * Pt[i];
  small->omega[0] = omega;
  *rr             = rr0 - 2.0 * PetscRealPart(PetscConj(omega) * tr) + PetscRealPart(PetscConj(omega) * omega) * tt;
  return PETSC_TRUE;
}
