/*
   Loops over m consecutive rows, for back end vec and the systems of idrssystem.h. Arrays begin with the first row. No PETSc call:
   compiled for host and device.
*/
#pragma once

#include <petscidrs/private/idrsscalars.h>

/* The loops are compiled for several vector instruction sets, one of which is chosen when the library is loaded */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__)
  #define IDRS_VECTORISED __attribute__((target_clones("default", "avx2", "avx512f")))
#else
  #define IDRS_VECTORISED
#endif
#define IDRS_INLINE static inline __attribute__((always_inline)) IDRS_HOST_DEVICE

#if PetscDefined(USE_COMPLEX)
  #define IDRS_PARTS 2 /* reals per scalar */
  #if defined(__CUDACC__)
    #define IDRS_SCALAR(re, im) PetscScalar(re, im) /* PetscCMPLX() is a function of the host */
  #else
    #define IDRS_SCALAR(re, im) PetscCMPLX(re, im)
  #endif
#else
  #define IDRS_PARTS          1
  #define IDRS_SCALAR(re, im) (re)
#endif

/* Computes y += sign X a, four columns at a time, so that y is not read and written for each */
IDRS_INLINE void IDRSLoopAdd(PetscInt m, PetscScalar *PETSC_RESTRICT y, PetscReal sign, PetscInt columns, const PetscScalar *a,
                             const PetscScalar *X, size_t ld)
{
  PetscInt j = 0;

  for (; j + 4 <= columns; j += 4) {
    const PetscScalar *PETSC_RESTRICT x0 = X + j * ld, *PETSC_RESTRICT x1 = x0 + ld, *PETSC_RESTRICT x2 = x1 + ld,
                                      *PETSC_RESTRICT x3 = x2 + ld;
    const PetscScalar a0 = sign * a[j], a1 = sign * a[j + 1], a2 = sign * a[j + 2], a3 = sign * a[j + 3];

    for (PetscInt i = 0; i < m; i++) y[i] += a0 * x0[i] + a1 * x1[i] + (a2 * x2[i] + a3 * x3[i]);
  }
  for (; j < columns; j++) {
    const PetscScalar *PETSC_RESTRICT x  = X + j * ld;
    const PetscScalar                 aj = sign * a[j];

    for (PetscInt i = 0; i < m; i++) y[i] += aj * x[i];
  }
}

/* Returns the sum of |x_i|^2 */
IDRS_INLINE PetscReal IDRSLoopSquare(PetscInt m, const PetscScalar *x)
{
  const PetscReal *parts = (const PetscReal *)x;
  PetscReal        sum   = 0.0;

#pragma omp simd reduction(+ : sum)
  for (PetscInt i = 0; i < IDRS_PARTS * m; i++) sum += parts[i] * parts[i];
  return sum;
}

/* Computes the state of the hashed space in m rows */
IDRS_INLINE void IDRSLoopShadowRows(PetscInt m, uint64_t key, uint64_t row, uint32_t *z0, uint32_t *z1)
{
  for (PetscInt i = 0; i < m; i++) {
    const IDRSShadowRow state = IDRSShadowRowState(key, row + (uint64_t)i);

    z0[i] = state.z0;
    z1[i] = state.z1;
  }
}

/*
   Returns the entry of P of a field, in units of 2^-16. A GPU adds doubles faster than it converts integers, so 2^52 + 2 field is
   composed from bits, and the constant is subtracted exactly
*/
IDRS_INLINE PetscReal IDRSShadowReal(uint32_t field)
{
#if defined(__CUDA_ARCH__) && !PetscDefined(USE_REAL_SINGLE)
  return __hiloint2double(0x43300000, (int)(2 * field)) - (4503599627370496.0 + 65535.0);
#else
  return (PetscReal)IDRSShadowInteger(field);
#endif
}

/* Adds P_j^H x for columns j (even) and j+1 of the hashed space, P in units of 2^-16. P is real */
IDRS_INLINE void IDRSLoopShadowDots(PetscInt m, const uint32_t *z0, const uint32_t *z1, uint32_t multiplier, const PetscScalar *x,
                                    PetscScalar *even, PetscScalar *odd)
{
  const PetscReal *parts = (const PetscReal *)x;
  PetscReal        e0 = 0.0, o0 = 0.0, e1 = 0.0, o1 = 0.0;

#pragma omp simd reduction(+ : e0, o0, e1, o1)
  for (PetscInt i = 0; i < m; i++) {
    const IDRSShadowRow row = {z0[i], z1[i]};
    const PetscReal     pe  = IDRSShadowReal(IDRSShadowFieldEven(row, multiplier)),
                    po      = IDRSShadowReal(IDRSShadowFieldOdd(row, multiplier));

    e0 += pe * parts[IDRS_PARTS * i];
    o0 += po * parts[IDRS_PARTS * i];
    if (IDRS_PARTS == 2) {
      e1 += pe * parts[IDRS_PARTS * i + 1];
      o1 += po * parts[IDRS_PARTS * i + 1];
    }
  }
  *even += IDRS_SCALAR(e0, e1);
  *odd += IDRS_SCALAR(o0, o1);
}

/* Adds P^H x and P^H y of these rows, in units of P. z0 and z1 are the state of the hashed space in these rows */
IDRS_INLINE void IDRSLoopAddShadowSums(PetscInt m, PetscInt s, const uint32_t *z0, const uint32_t *z1, const PetscScalar *x,
                                       const PetscScalar *y, PetscBool withy, PetscScalar sums[])
{
  PetscScalar *Px = sums + IDRS_SUM_PX(s), *Py = sums + IDRS_SUM_PY(s), unused = 0.0;

  for (PetscInt j = 0; j < s; j += 2) {
    const uint32_t multiplier = IDRSShadowMultiplier((uint32_t)(j / 2));

    IDRSLoopShadowDots(m, z0, z1, multiplier, x, Px + j, j + 1 < s ? Px + j + 1 : &unused);
    if (withy) IDRSLoopShadowDots(m, z0, z1, multiplier, y, Py + j, j + 1 < s ? Py + j + 1 : &unused);
  }
}

/* Adds x^H x, y^H y and x^H y of these rows */
IDRS_INLINE void IDRSLoopAddSquares(PetscInt m, PetscInt s, const PetscScalar *x, const PetscScalar *y, PetscBool withy,
                                    PetscScalar sums[])
{
  const PetscReal *xparts = (const PetscReal *)x, *yparts = (const PetscReal *)y;
  PetscReal        re = 0.0, im = 0.0;

  sums[IDRS_SUM_XX(s)] += IDRSLoopSquare(m, x);
  if (!withy) return;
  sums[IDRS_SUM_YY(s)] += IDRSLoopSquare(m, y);
#pragma omp simd reduction(+ : re, im)
  for (PetscInt i = 0; i < IDRS_PARTS * m; i += IDRS_PARTS) {
    re += xparts[i] * yparts[i];
    if (IDRS_PARTS == 2) {
      re += xparts[i + 1] * yparts[i + 1];
      im += xparts[i] * yparts[i + 1] - xparts[i + 1] * yparts[i];
    }
  }
  sums[IDRS_SUM_XY(s)] += IDRS_SCALAR(re, im);
}

/* Multiplies P^H x and P^H y of all rows by the unit of P */
IDRS_INLINE void IDRSLoopScaleSums(PetscInt s, PetscBool withy, PetscScalar sums[])
{
  for (PetscInt j = 0; j < s; j++) {
    sums[IDRS_SUM_PX(s) + j] *= (PetscReal)IDRS_SHADOW_UNIT;
    if (withy) sums[IDRS_SUM_PY(s) + j] *= (PetscReal)IDRS_SHADOW_UNIT;
  }
}
