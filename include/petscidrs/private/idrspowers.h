/*
   Matrix powers: the contract of their back ends

     v_0 = x,   v_j = gamma_j (D^{-1}A - theta_j) v_{j-1} - mu_j v_{j-2},   j = 1 ... k,   mu_1 v_{-1} = 0

   powers   v_1 ... v_k
   sum      y = c_0 v_0 + ... + c_k v_k, and v_k if it is asked for

   Back ends, in src/mat/powers:

     mat    MatMult() and operations of Vec, for every matrix: the reference for all others
*/
#pragma once

#include <petscmat.h>

/* D is NULL where it is the identity; the coefficients of step j are those with index j - 1 */
typedef struct {
  Mat                A;
  Vec                inverse; /* diagonal of D^{-1}, or NULL */
  PetscInt           k;
  const PetscScalar *gamma, *theta, *mu;
} IDRSPowers;

typedef struct {
  const char *name;
  PetscErrorCode (*powers)(const IDRSPowers *, Vec, Vec[]);
  PetscErrorCode (*sum)(const IDRSPowers *, Vec, const PetscScalar[], Vec, Vec);
} IDRSPowersOps;

PETSC_INTERN const IDRSPowersOps IDRSPowers_Mat;
