#include <petscidrs/private/idrsrows.h>
#include <petscidrs/private/idrscompat.h>

/* IDRSRowsGet - The rows of a sequential matrix, in the memory of the host */
PetscErrorCode IDRSRowsGet(Mat A, IDRSRows *rows)
{
  PetscBool done;

  PetscFunctionBegin;
  rows->A = A;
  PetscCall(MatGetRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &rows->n, &rows->i, &rows->j, &done));
  PetscCheck(done, PETSC_COMM_SELF, PETSC_ERR_PLIB, "MatGetRowIJ() of a matrix of type %s", ((PetscObject)A)->type_name);
  PetscCall(MatSeqAIJGetArrayRead(A, &rows->a));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSRowsRestore(IDRSRows *rows)
{
  PetscBool done;

  PetscFunctionBegin;
  PetscCall(MatSeqAIJRestoreArrayRead(rows->A, &rows->a));
  PetscCall(MatRestoreRowIJ(rows->A, 0, PETSC_FALSE, PETSC_FALSE, &rows->n, &rows->i, &rows->j, &done));
  PetscFunctionReturn(PETSC_SUCCESS);
}
