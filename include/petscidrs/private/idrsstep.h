/*
   A step of IDR(s), and the decisions about it. These functions are used by the solver with its passes and queues, the kernels that
   make many steps, block recurrences and PCBJIDRS. A device that runs KSPIDRS only decides whether it continues. If it stops, the
   host finds the reason from the same sums.

     step k = 0 ... s-1                                               omega step, k = s
       U_k = omega B^{-1}(r - G(:,k:s) c) + U(:,k:s) c                  p = B^{-1}r
       G_k = A U_k                                                      t = A p
       d = P^H G_k, G_k^H G_k, r^H r                one reduction       P^H t, t^H t, P^H r, t^H r, r^H r
       alpha, M_k, beta_k, f, c                     idrsscalars.h       omega, f, c
       G_k -= G(:,0:k) alpha, U_k -= U(:,0:k) alpha, r -= beta_k G_k    z += omega p + U beta, r -= omega t

   The steps of the first cycle, the start, are described in idrsscalars.h. The solution is x = vec_sol + z + U(:,0:k) beta, where
   vec_sol is the iterate of the last reliable update. With several right-hand sides in one block recurrence the coefficients are
   matrices, see idrsblockscalars.h.

   No PETSc call: compiled for host and device. A kernel that avoids square roots passes the squares of all norms and factors.
*/
#pragma once

#include <petscsys.h>
#include <petscidrs/private/idrsshadow.h>

/* The value of k for a projection of r without a step, after r has been replaced */
#define IDRS_RESIDUAL (-1)

/* The step of the recurrence that a pass belongs to */
typedef struct {
  PetscInt  k;            /* 0 ... s-1, s for the omega step, or IDRS_RESIDUAL */
  PetscBool start;        /* in the start of the recurrence, which ends with its omega step */
  PetscBool unreported;   /* r^H r belongs to an iteration that has not been reported */
  PetscBool wantv, wantu; /* compute v; compute U_k, or U_{k+1} in update, U_0 in advance */
  /* the projection computes its x as A u first, with the product of the work: G_k = A U_k, or t = A p */
  PetscBool matvec;
} IDRSStep;

/* Returns the step after step k */
static inline IDRS_HOST_DEVICE PetscInt IDRSNextK(PetscInt k, PetscInt s)
{
  return k < s ? k + 1 : 0;
}

/* Moves on to the next step after this one has been made */
static inline IDRS_HOST_DEVICE void IDRSStepNext(IDRSStep *step, PetscInt s)
{
  if (step->k == s) step->start = PETSC_FALSE;
  step->k          = IDRSNextK(step->k, s);
  step->unreported = PETSC_TRUE;
}

/* Returns PETSC_TRUE if the projection of this step has a y, which is r: in the start, and in the omega step */
static inline IDRS_HOST_DEVICE PetscBool IDRSStepHasY(const IDRSStep *step, PetscInt s)
{
  return step->k != IDRS_RESIDUAL && (step->start || step->k == s) ? PETSC_TRUE : PETSC_FALSE;
}

/* The decision about a step */
typedef enum {
  IDRS_CONTINUES,  /* the coefficients of its passes have been computed, on the device or on the host */
  IDRS_UNDECIDED,  /* its sums are on the host, which continues with IDRSQueueContinue() */
  IDRS_TOLERANCE,  /* ||r|| is at most the lower bound */
  IDRS_GROWTH,     /* ||r|| is not below the upper bound: limit of the growth of r, or divergence tolerance */
  IDRS_NOT_FINITE, /* a sum is infinite or NaN */
  IDRS_NO_PIVOT,   /* M_kk is rounding error */
  IDRS_NO_OMEGA    /* omega is zero, infinite or NaN, or t = 0 */
} IDRSVerdict;

/* Returns PETSC_TRUE if the recurrence has broken down: it must start again with another shadow space */
static inline IDRS_HOST_DEVICE PetscBool IDRSIsBreakdown(IDRSVerdict verdict)
{
  return verdict == IDRS_NO_PIVOT || verdict == IDRS_NO_OMEGA ? PETSC_TRUE : PETSC_FALSE;
}

/* A device continues without the host if low < ||r|| < high */
typedef struct {
  PetscReal low, high;
  PetscReal cosine; /* for omega */
} IDRSBounds;

static inline IDRS_HOST_DEVICE PetscBool IDRSIsWithin(PetscReal norm, PetscReal low, PetscReal high)
{
  return norm > low && norm < high ? PETSC_TRUE : PETSC_FALSE;
}

/* Returns why a finite norm is outside the bounds, or IDRS_CONTINUES */
static inline IDRS_HOST_DEVICE IDRSVerdict IDRSDecideNorm(PetscReal norm, const IDRSBounds *bounds)
{
  if (IDRSIsWithin(norm, bounds->low, bounds->high)) return IDRS_CONTINUES;
  return norm > bounds->low ? IDRS_GROWTH : IDRS_TOLERANCE;
}

/* Returns PETSC_FALSE for infinite numbers and NaN */
static inline IDRS_HOST_DEVICE PetscBool IDRSIsFinite(PetscScalar x)
{
  return PetscAbsScalar(x) <= PETSC_MAX_REAL ? PETSC_TRUE : PETSC_FALSE;
}

/*
   Returns PETSC_TRUE unless a pivot of M is NaN, or rounding error of numbers of size `terms`: of the sum of the absolute values of
   the terms whose difference it is. In a block recurrence, which makes no other test, `terms` is the largest entry of P^H G_k
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSIsPivot(PetscReal pivot, PetscReal terms)
{
  return pivot > 64 * PETSC_MACHINE_EPSILON * terms ? PETSC_TRUE : PETSC_FALSE;
}

/*
   Computes the omega that minimizes ||r - omega t||, and enlarges it if the angle between t and r is wide. Written without a
   division by the cosine of the angle, the formula also holds for t^H r = 0 (skew-symmetric A):

     minimal  = t^H r / t^H t
     enlarged = minimal, or cosine (||r|| / ||t||) sign(t^H r) if |t^H r| < cosine ||t|| ||r||, sign(0) = 1

   Returns PETSC_FALSE if t = 0, or if the enlarged omega is infinite or NaN
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSDecideOmega(PetscScalar tr, PetscReal tt, PetscReal rr, PetscReal cosine,
                                                         PetscScalar *minimal, PetscScalar *enlarged)
{
  const PetscReal size = PetscAbsScalar(tr);

  if (!(tt > 0.0)) return PETSC_FALSE;
  *minimal = *enlarged = tr / tt;
  /* The roots below are needed only if |<t,r>|^2 / <t,t> is small enough for the test with roots to hold */
  if (!(PetscAbsScalar(*minimal) * size > ((PetscReal)1.0 + 16 * PETSC_MACHINE_EPSILON) * cosine * cosine * rr)) {
    const PetscReal tnorm = PetscSqrtReal(tt), rnorm = PetscSqrtReal(rr);

    if (size < cosine * tnorm * rnorm) *enlarged = (size > 0.0 ? tr / size : (PetscScalar)1.0) * (cosine * rnorm / tnorm);
  }
  return IDRSIsFinite(*enlarged);
}

/* Returns PETSC_TRUE if the omega step can be made with this enlarged omega, which has been found to be finite */
static inline IDRS_HOST_DEVICE PetscBool IDRSIsOmega(PetscScalar enlarged)
{
  return PetscAbsScalar(enlarged) > 0.0 ? PETSC_TRUE : PETSC_FALSE;
}

/*
   Returns PETSC_TRUE if the square of a norm, computed as the difference of `before` and other squares, has at least half of its
   digits. Otherwise r is nearly parallel to t, and the norm must be computed from the vector
*/
static inline IDRS_HOST_DEVICE PetscBool IDRSIsSharp(PetscReal square, PetscReal before)
{
  return square > PETSC_SQRT_MACHINE_EPSILON * before ? PETSC_TRUE : PETSC_FALSE;
}

/* A device makes many steps without the host, and reliable updates between them, until one of these limits is reached */
typedef struct {
  IDRSBounds bounds;
  PetscInt   its, maxits;      /* completed iterations, and their maximum; the host makes the last one */
  PetscReal  fall, anchornorm; /* an update may be due if ||r|| < fall peak and ||r|| < anchornorm; fall = 0: never */
  PetscReal  peak;             /* largest ||r|| since the last update */
  PetscReal  tested, growth;   /* bounds.high is the minimum of IDRSGrowthLimit(anchornorm, growth) and `tested`, from the
                                   test for divergence */
} IDRSLimits;

/* Returns PETSC_TRUE if r must be recomputed: it has fallen far below its peak since the last update, and below the anchor */
static inline IDRS_HOST_DEVICE PetscBool IDRSUpdateIsDue(PetscReal rnorm, PetscReal fall, PetscReal peak, PetscReal anchornorm)
{
  return rnorm < fall * peak && rnorm < anchornorm ? PETSC_TRUE : PETSC_FALSE;
}

/* If an updated r is larger than the r of the recurrence by more than this factor, the attainable accuracy may be reached */
#define IDRS_UPDATE_CONFIRMS ((PetscReal)2.0)

/* If a residual has grown by this factor, most digits of x are lost: epsilon^(-3/4) */
#define IDRS_MAX_GROWTH PetscPowReal(PETSC_MACHINE_EPSILON, -0.75)

/* Returns the limit of ||r|| for a recurrence that began with a residual of norm `begin` */
static inline IDRS_HOST_DEVICE PetscReal IDRSGrowthLimit(PetscReal begin, PetscReal growth)
{
  return growth < PETSC_MAX_REAL && begin < PETSC_MAX_REAL ? growth * begin : PETSC_MAX_REAL;
}

/* Returns PETSC_TRUE if a start that broke down in step k continues with its k columns: see KSPIDRSRestart_Private() */
static inline IDRS_HOST_DEVICE PetscBool IDRSStartIsKept(PetscBool start, PetscInt k, PetscInt s)
{
  return start && k > 0 && k < s ? PETSC_TRUE : PETSC_FALSE;
}

/* The least norm of b - A x when r was recomputed, and the number of failures to halve it since then */
typedef struct {
  PetscReal least;
  PetscInt  failures;
} IDRSProgress;

/* Returns PETSC_TRUE, and resets the count, if the norm is at most half of the least one */
static inline IDRS_HOST_DEVICE PetscBool IDRSProgressHalves(IDRSProgress *progress, PetscReal norm)
{
  if (!(norm <= (PetscReal)0.5 * progress->least)) return PETSC_FALSE;
  progress->least    = norm;
  progress->failures = 0;
  return PETSC_TRUE;
}

/* Returns PETSC_TRUE if a recurrence that has ended may start again. Its end counts as a failure unless r had grown too far */
static inline IDRS_HOST_DEVICE PetscBool IDRSProgressRestarts(IDRSProgress *progress, PetscBool failed, PetscInt maxrestarts)
{
  if (!failed) return PETSC_TRUE;
  return progress->failures++ < maxrestarts ? PETSC_TRUE : PETSC_FALSE;
}
