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

/*
   IDRSRowsGetBlocks - Gets the diagonal block of this process, and the block of its other columns with their numbers

   Output Parameters:
+ block  - the diagonal block
. outer  - the other columns, or NULL if the matrix is sequential
- garray - the number of each column of the outer block, or NULL; the argument may be NULL
*/
PetscErrorCode IDRSRowsGetBlocks(Mat A, Mat *block, Mat *outer, const PetscInt *garray[])
{
  PetscBool parallel; /* by its type: a parallel type may live on one process */

  PetscFunctionBegin;
  PetscCall(PetscObjectBaseTypeCompare((PetscObject)A, MATMPIAIJ, &parallel));
  *block = A;
  *outer = NULL;
  if (garray) *garray = NULL;
  if (parallel) PetscCall(MatMPIAIJGetSeqAIJ(A, block, outer, garray));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSRowsGetGhosts - Creates a vector for the entries of x with these numbers, in the memory of the host, and the scatter that
   fills it
*/
PetscErrorCode IDRSRowsGetGhosts(Vec x, PetscInt n, const PetscInt garray[], Vec *ghosts, VecScatter *scatter)
{
  IS is;

  PetscFunctionBegin;
  PetscCall(ISCreateGeneral(PETSC_COMM_SELF, n, garray, PETSC_USE_POINTER, &is));
  PetscCall(VecCreateSeq(PETSC_COMM_SELF, n, ghosts));
  PetscCall(VecScatterCreate(x, is, *ghosts, NULL, scatter));
  PetscCall(ISDestroy(&is));
  PetscFunctionReturn(PETSC_SUCCESS);
}
