/*
   Systems that several test programs solve, and what is asked of their solutions
*/
#pragma once

#include "complain.h"
#include "operators.h"
#include "residual.h"

/* Numbers of shadow vectors that the tests go through */
static const PetscInt sizes[] = {1, 4, 8};
#define SIZES PETSC_STATIC_ARRAY_LENGTH(sizes)

/* The back end of the options, for the solvers that SolverCreate() makes */
static inline PetscErrorCode ImplementationFromOptions(void)
{
  PetscEnum value = (PetscEnum)KSP_IDRS_AUTO;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetEnum(NULL, NULL, "-ksp_idrs_implementation", KSPIDRSImplementations, &value, NULL));
  implementation = (KSPIDRSImplementation)value;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Entries that follow no pattern, the same on any number of processes; truly complex where there are complex numbers */
static inline PetscErrorCode VecSetGeneral(Vec x, PetscReal start)
{
  PetscInt     begin, end;
  PetscScalar *array;

  PetscFunctionBeginUser;
  PetscCall(VecGetOwnershipRange(x, &begin, &end));
  PetscCall(VecGetArrayWrite(x, &array));
  for (PetscInt i = begin; i < end; i++) {
    array[i - begin] = PetscSinReal(start * (1.0 + 1.7 * i + 0.3 * i * i));
#if PetscDefined(USE_COMPLEX)
    array[i - begin] += PETSC_i * PetscCosReal(start * (2.0 + 0.9 * i + 0.2 * i * i));
#endif
  }
  PetscCall(VecRestoreArrayWrite(x, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Convection and diffusion on a grid whose lines have LINE points, row after row; the transpose is another matrix, the Hermitian one a third */
#define LINE 12

static inline PetscScalar Convection(PetscInt i, PetscInt j, PetscInt n)
{
  PetscScalar value = 0.0;

  if (i == j) value = 4.0 + 0.02 * (i % 7);
  else if (j == i - LINE) value = -1.2;
  else if (j == i + LINE) value = -0.8;
  else if (j == i - 1 && i % LINE) value = -1.4;
  else if (j == i + 1 && j % LINE) value = -0.6;
#if PetscDefined(USE_COMPLEX)
  if (i == j) value += 0.3 * PETSC_i;
  else value *= 1.0 + 0.1 * PETSC_i;
#endif
  return value;
}

/* A solver as the tests want it; options are left to those tests that are about them */
static inline PetscErrorCode SolverCreate(Mat A, PetscInt s, const char pctype[], KSP *ksp)
{
  PC pc;

  PetscFunctionBeginUser;
  PetscCall(KSPCreate(PETSC_COMM_WORLD, ksp));
  PetscCall(KSPSetOperators(*ksp, A, A));
  PetscCall(KSPSetType(*ksp, KSPIDRS));
  PetscCall(KSPIDRSSetShadowSize(*ksp, s));
  PetscCall(KSPIDRSSetImplementation(*ksp, implementation));
  PetscCall(KSPSetTolerances(*ksp, rtol, 0.0, PETSC_DEFAULT, 1000));
  PetscCall(KSPGetPC(*ksp, &pc));
  PetscCall(PCSetType(pc, pctype));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The solver says that it has converged, and x solves the system with this matrix to the tolerance relative to ||b|| */
static inline PetscErrorCode CheckSolved(const char what[], KSP ksp, Mat A, Vec b, Vec x)
{
  KSPConvergedReason reason;
  PetscReal          norm, bnorm;

  PetscFunctionBeginUser;
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(ResidualNorm(A, b, x, &norm, &bnorm));
  if (!(reason > 0)) PetscCall(Complain("%s: %s", what, KSPConvergedReasons[reason]));
  if (!(norm <= 1.01 * rtol * bnorm)) PetscCall(Complain("%s: the norm of b - A x is %g of %g", what, (double)norm, (double)bnorm));
  PetscFunctionReturn(PETSC_SUCCESS);
}
