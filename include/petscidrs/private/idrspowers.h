/*
   Matrix powers: the interface of their back ends

     v_0 = x,   v_j = gamma_j (D^{-1}A - theta_j) v_{j-1} - mu_j v_{j-2},   j = 1 ... k,   mu_1 v_{-1} = 0

   powers   v_1 ... v_k
   sum      y = c_0 v_0 + ... + c_k v_k, or y += ...; optionally v_k and z = A y

   Terms of a sum with c_j = 0 are not added.

   Back ends, in src/mat/powers:

     mat         MatMult() and operations of Vec, step by step, for every matrix: the reference for all others
     persistent  up to 16 steps in one kernel, on the arrays of a MATSEQAIJCUSPARSE, if the registers of the GPU hold the matrix
     stream      passes over a MATAIJSTREAM, each with many steps; the product with y is the last step, and y may be NULL

   For PCPOLY back end persistent computes

     v_0 = input P x   with the permutation of a matching,   and output v_k
*/
#pragma once

#include <petscpc.h>
#include <petscidrs/private/idrsmatching.h>

typedef struct _n_IDRSPowers IDRSPowers;

/*
   Results of a sum: y, v_k and z, each of which may be NULL. If `adds` is set, the sum is added to y. Only back end stream supports
   this, and computes z. Only back end persistent uses the members after z, diagonals and a matching, each of which may be NULL.
   Both compute sums with y = NULL
*/
typedef struct {
  const PetscScalar *c;
  PetscBool          adds;
  Vec                y, vk, z, input, output;
  IDRSMatching       matching;
} IDRSPowersSum;

typedef struct {
  const char *name;
  /* sets the string to NULL, or to the reason why it cannot run with these vectors; the same on all processes */
  PetscErrorCode (*runs)(Mat, PetscInt, const Vec[], const char *[]);
  PetscErrorCode (*powers)(const IDRSPowers *, Vec, Vec[]);
  PetscErrorCode (*sum)(const IDRSPowers *, Vec, const IDRSPowersSum *);
  PetscBool scales; /* the back end uses the last members of IDRSPowersSum */
} IDRSPowersOps;

/* D is NULL where it is the identity; the coefficients of step j are those with index j - 1 */
struct _n_IDRSPowers {
  const IDRSPowersOps *ops;
  Mat                  A;
  Vec                  inverse; /* diagonal of D^{-1}, or NULL */
  PetscInt             k;
  const PetscScalar   *gamma, *theta, *mu;
};

/* A polynomial whose result is v_k, for kernels that apply it as a preconditioner between their products */
typedef struct {
  IDRSPowers    powers;
  IDRSPowersSum sum;
} IDRSPolynomial;

PETSC_INTERN PetscErrorCode IDRSPowersSumByStep(const IDRSPowers *, Vec, const IDRSPowersSum *);
PETSC_INTERN PetscErrorCode IDRSPowersWorkGet(Mat, Vec, Vec[]);

PETSC_EXTERN const IDRSPowersOps IDRSPowers_Stream;

/* With CUDA only */
PETSC_EXTERN PetscErrorCode IDRSPowersSetMostRows(PetscInt);
PETSC_INTERN PetscErrorCode IDRSPowersAreOnGPU(Mat, PetscInt, const Vec[], const char *[]);

PETSC_INTERN const IDRSPowersOps IDRSPowers_Persistent;

/*
   A preconditioner and the product after it in one operation, if that costs less than two operations. A PC that supports it
   composes two functions by these names:

     IDRS_FUSED_RUNS    PETSC_TRUE if it is faster now, for vectors like this one; the same on all processes
     IDRS_FUSED_APPLY   u = c B^{-1}v, or u + c B^{-1}v if "adds", and then g = A u, where A is the operator of the PC. v, u and
                        g are different vectors

   If kernels of a solver can apply the preconditioner themselves, the PC composes

     IDRS_POLYNOMIAL    the polynomial B^{-1}, until its next set-up, or NULL if no kernel can apply it to vectors like this
*/
#define IDRS_FUSED_RUNS  "IDRSFusedRuns_C"
#define IDRS_FUSED_APPLY "IDRSFusedApply_C"
#define IDRS_POLYNOMIAL  "IDRSPolynomial_C"

typedef PetscErrorCode IDRSFusedRunsFn(PC, Vec, PetscBool *);
typedef PetscErrorCode IDRSFusedApplyFn(PC, PetscScalar, Vec, PetscBool, Vec, Vec);
typedef PetscErrorCode IDRSPolynomialFn(PC, Vec, const IDRSPolynomial **);

/*
   A root or a shift of a polynomial. In real builds the roots of a conjugate pair are adjacent, the root with the positive
   imaginary part first
*/
typedef struct {
  PetscReal re, im;
} IDRSRoot;

/* Returns 2 if this root is the first of a pair of conjugates in a real build, otherwise 1 */
static inline PetscInt IDRSRootGroup(IDRSRoot root)
{
  return !PetscDefined(USE_COMPLEX) && root.im > 0.0 ? 2 : 1;
}

static inline PetscReal IDRSRootModulus(IDRSRoot root)
{
  return PetscHypotReal(root.re, root.im);
}

/* Returns a / b, also if the square of |b| overflows or underflows */
static inline IDRSRoot IDRSRootQuotient(IDRSRoot a, IDRSRoot b)
{
  const PetscReal modulus = IDRSRootModulus(b);

  a = (IDRSRoot){a.re / modulus, a.im / modulus};
  b = (IDRSRoot){b.re / modulus, b.im / modulus};
  return (IDRSRoot){a.re * b.re + a.im * b.im, a.im * b.re - a.re * b.im};
}

/* Returns a root that does not belong to a pair */
static inline PetscScalar IDRSRootScalar(IDRSRoot root)
{
#if PetscDefined(USE_COMPLEX)
  return PetscCMPLX(root.re, root.im);
#else
  return root.re;
#endif
}

PETSC_INTERN PetscErrorCode IDRSRootsCreate(const char[], PetscInt, const PetscReal[], const PetscReal[], IDRSRoot **);
PETSC_INTERN PetscErrorCode IDRSRootsLeja(PetscInt, const IDRSRoot[], PetscReal, PetscInt, IDRSRoot[]);
