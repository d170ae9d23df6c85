/*
   Roots and shifts of polynomials, and their Leja order
*/
#pragma once

#include <petscsys.h>

/* In real builds the roots of a conjugate pair are adjacent, the root with the positive imaginary part first */
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
