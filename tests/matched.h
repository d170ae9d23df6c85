/*
   Preconditioners of matrices that are permuted and scaled by a matching, with functions of PETSc: the reference for PCMATCHING and
   PCPOLY
*/
#pragma once

#include "systems.h"

/* A preconditioner of P Dr A Dc made by functions of PETSc: MatGetMatching(), MatDiagonalScale() and MatPermute() */
typedef struct {
  IS  rows, inverse;
  Vec left, right;
  PC  inner;
} Reference;

/* The caller sets the type of the inner preconditioner */
static inline PetscErrorCode ReferenceCreate(Mat A, Reference *reference)
{
  PetscInt begin, end;
  IS       columns;
  Mat      scaled, permuted;

  PetscFunctionBeginUser;
  PetscCall(MatGetMatching(A, &reference->rows, &reference->left, &reference->right, NULL));
  PetscCall(ISInvertPermutation(reference->rows, PETSC_DECIDE, &reference->inverse));
  PetscCall(MatConvert(A, MATAIJ, MAT_INITIAL_MATRIX, &scaled));
  PetscCall(MatDiagonalScale(scaled, reference->left, reference->right));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  PetscCall(ISCreateStride(PETSC_COMM_WORLD, end - begin, begin, 1, &columns));
  PetscCall(ISSetPermutation(columns));
  PetscCall(MatPermute(scaled, reference->rows, columns, &permuted));
  PetscCall(PCCreate(PETSC_COMM_WORLD, &reference->inner));
  PetscCall(PCSetOperators(reference->inner, permuted, permuted));
  PetscCall(DestroyAll(&columns, &permuted, &scaled));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode ReferenceDestroy(Reference *reference)
{
  PetscFunctionBeginUser;
  PetscCall(DestroyAll(&reference->rows, &reference->inverse, &reference->left, &reference->right, &reference->inner));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Permutes the entries of x; the order of each process contains its own rows only */
static inline PetscErrorCode Permute(Vec x, IS rows, Vec y)
{
  const PetscInt    *from;
  const PetscScalar *in;
  PetscScalar       *out;
  PetscInt           begin, end;

  PetscFunctionBeginUser;
  PetscCall(VecGetOwnershipRange(x, &begin, &end));
  PetscCall(ISGetIndices(rows, &from));
  PetscCall(VecGetArrayRead(x, &in));
  PetscCall(VecGetArrayWrite(y, &out));
  for (PetscInt i = 0; i < end - begin; i++) out[i] = in[from[i] - begin];
  PetscCall(VecRestoreArrayWrite(y, &out));
  PetscCall(VecRestoreArrayRead(x, &in));
  PetscCall(ISRestoreIndices(rows, &from));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* y = Dc M P Dr x, or y = Dr P^T M^T Dc x */
static inline PetscErrorCode ReferenceApply(const Reference *reference, PetscBool transpose, Vec x, Vec y)
{
  Vec v, w;

  PetscFunctionBeginUser;
  PetscCall(DuplicateAll(x, &v, &w));
  if (transpose) {
    PetscCall(VecPointwiseMult(v, reference->right, x));
    PetscCall(PCApplyTranspose(reference->inner, v, w));
    PetscCall(Permute(w, reference->inverse, v));
    PetscCall(VecPointwiseMult(y, reference->left, v));
  } else {
    PetscCall(VecPointwiseMult(v, reference->left, x));
    PetscCall(Permute(v, reference->rows, w));
    PetscCall(PCApply(reference->inner, w, v));
    PetscCall(VecPointwiseMult(y, reference->right, v));
  }
  PetscCall(DestroyAll(&v, &w));
  PetscFunctionReturn(PETSC_SUCCESS);
}
