/*
   Matrix powers: the contract of their back ends

     v_0 = x,   v_j = gamma_j (D^{-1}A - theta_j) v_{j-1} - mu_j v_{j-2},   j = 1 ... k,   mu_1 v_{-1} = 0

   powers   v_1 ... v_k
   sum      y = c_0 v_0 + ... + c_k v_k, and v_k if it is asked for

   Back ends, in src/mat/powers:

     mat    MatMult() and operations of Vec, for every matrix: the reference for all others
     cuda   a kernel for each step, on the arrays of a MATSEQAIJCUSPARSE
     stream passes over a MATSEQAIJSTREAM, each of many steps; its sum may be without y

   The first two go step by step: powersstep.c.
*/
#pragma once

#include <petscmat.h>

typedef struct _n_IDRSPowers IDRSPowers;

typedef struct {
  const char *name;
  PetscErrorCode (*powers)(const IDRSPowers *, Vec, Vec[]);
  PetscErrorCode (*sum)(const IDRSPowers *, Vec, const PetscScalar[], Vec, Vec);

  /*
     Of those that go step by step: v_j from v_{j-2} and v_{j-1}, where the next vector is another one, and v_{-1} is not read. If there is a y, c_j v_j is added to it; with the first step
     y = c_0 v_0 + c_1 v_1
  */
  PetscErrorCode (*step)(const IDRSPowers *, PetscInt, Vec before, Vec last, Vec next, const PetscScalar[], Vec y);
} IDRSPowersOps;

/* D is NULL where it is the identity; the coefficients of step j are those with index j - 1 */
struct _n_IDRSPowers {
  const IDRSPowersOps *ops;
  Mat                  A;
  Vec                  inverse; /* diagonal of D^{-1}, or NULL */
  PetscInt             k;
  const PetscScalar   *gamma, *theta, *mu;
};

PETSC_INTERN PetscErrorCode IDRSPowersByStep(const IDRSPowers *, Vec, Vec[]);
PETSC_INTERN PetscErrorCode IDRSPowersSumByStep(const IDRSPowers *, Vec, const PetscScalar[], Vec, Vec);

PETSC_INTERN PetscErrorCode IDRSPowersWorkGet(Mat, Vec, Vec[]);

PETSC_INTERN const IDRSPowersOps IDRSPowers_Mat;
PETSC_INTERN const IDRSPowersOps IDRSPowers_Stream;
PETSC_INTERN PetscErrorCode      IDRSPowersRuns_Stream(Mat, PetscInt, const Vec[], const char *[]);

/* Where CUDA is compiled in */
PETSC_INTERN const IDRSPowersOps IDRSPowers_CUDA;
PETSC_INTERN PetscErrorCode      IDRSPowersRuns_CUDA(Mat, const char *[]);
