/*
   Columns of a dense matrix, copied from and to vectors
*/
#pragma once

#include <petscmat.h>
#include <petscidrs/private/idrscompat.h>

static inline PetscErrorCode ColumnGet(Mat B, PetscInt j, Vec b)
{
  Vec column;

  PetscFunctionBeginUser;
  PetscCall(MatDenseGetColumnVecRead(B, j, &column));
  PetscCall(VecCopy(column, b));
  PetscCall(MatDenseRestoreColumnVecRead(B, j, &column));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode ColumnSet(Mat B, PetscInt j, Vec b)
{
  Vec column;

  PetscFunctionBeginUser;
  PetscCall(MatDenseGetColumnVecWrite(B, j, &column));
  PetscCall(VecCopy(b, column));
  PetscCall(MatDenseRestoreColumnVecWrite(B, j, &column));
  PetscFunctionReturn(PETSC_SUCCESS);
}
