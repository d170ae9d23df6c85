#include <petscidrs/private/idrsrows.h>
#include <petscidrs/private/idrscompat.h>
#include <petsc/private/petscimpl.h>

/* IDRSRowsGet - Gets the rows of a sequential matrix, in the memory of the host */
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
- garray - the number of each column of the outer block, or NULL

   Each argument may be NULL if it is not needed
*/
PetscErrorCode IDRSRowsGetBlocks(Mat A, Mat *block, Mat *outer, const PetscInt *garray[])
{
  PetscBool       parallel; /* of a parallel type, perhaps on one process */
  Mat             blocks[2] = {A, NULL};
  const PetscInt *numbers   = NULL;

  PetscFunctionBegin;
  PetscCall(PetscObjectBaseTypeCompare((PetscObject)A, MATMPIAIJ, &parallel));
  if (parallel) PetscCall(MatMPIAIJGetSeqAIJ(A, &blocks[0], &blocks[1], &numbers));
  if (block) *block = blocks[0];
  if (outer) *outer = blocks[1];
  if (garray) *garray = numbers;
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

/*
   IDRSArraysGet - Gets the arrays of right-hand sides, to read, and of solutions, to write

   Input Parameters:
+ b      - a vector, or a dense matrix
. x      - a vector, or a dense matrix with the same columns
- device - PETSC_TRUE for arrays in the memory of the GPU if they are there; else all arrays are in the memory of the host

   Output Parameter:
. arrays - the arrays
*/
PetscErrorCode IDRSArraysGet(PetscObject b, PetscObject x, PetscBool device, IDRSArrays *arrays)
{
  PetscFunctionBegin;
  arrays->bmem = arrays->xmem = PETSC_MEMTYPE_HOST;
  if (b->classid == VEC_CLASSID) {
    arrays->columns = 1;
    PetscCall(VecGetLocalSize((Vec)b, &arrays->ldb));
    PetscCall(VecGetLocalSize((Vec)x, &arrays->ldx));
    if (device) {
      PetscCall(VecGetArrayReadAndMemType((Vec)b, &arrays->b, &arrays->bmem));
      PetscCall(VecGetArrayWriteAndMemType((Vec)x, &arrays->x, &arrays->xmem));
    } else {
      PetscCall(VecGetArrayRead((Vec)b, &arrays->b));
      PetscCall(VecGetArrayWrite((Vec)x, &arrays->x));
    }
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(MatGetSize((Mat)b, NULL, &arrays->columns));
  PetscCall(MatDenseGetLDA((Mat)b, &arrays->ldb));
  PetscCall(MatDenseGetLDA((Mat)x, &arrays->ldx));
#if defined(PETSCIDRS_HAVE_CUDA)
  if (device) {
    PetscCall(MatDenseGetArrayReadAndMemType((Mat)b, &arrays->b, &arrays->bmem));
    PetscCall(MatDenseGetArrayWriteAndMemType((Mat)x, &arrays->x, &arrays->xmem));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
#endif
  PetscCall(MatDenseGetArrayRead((Mat)b, &arrays->b));
  PetscCall(MatDenseGetArrayWrite((Mat)x, &arrays->x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSArraysRestore - Restores the arrays of IDRSArraysGet(), with the same arguments */
PetscErrorCode IDRSArraysRestore(PetscObject b, PetscObject x, PetscBool device, IDRSArrays *arrays)
{
  PetscFunctionBegin;
  if (b->classid == VEC_CLASSID) {
    if (device) {
      PetscCall(VecRestoreArrayWriteAndMemType((Vec)x, &arrays->x));
      PetscCall(VecRestoreArrayReadAndMemType((Vec)b, &arrays->b));
    } else {
      PetscCall(VecRestoreArrayWrite((Vec)x, &arrays->x));
      PetscCall(VecRestoreArrayRead((Vec)b, &arrays->b));
    }
    PetscFunctionReturn(PETSC_SUCCESS);
  }
#if defined(PETSCIDRS_HAVE_CUDA)
  if (device) {
    PetscCall(MatDenseRestoreArrayWriteAndMemType((Mat)x, &arrays->x));
    PetscCall(MatDenseRestoreArrayReadAndMemType((Mat)b, &arrays->b));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
#endif
  PetscCall(MatDenseRestoreArrayWrite((Mat)x, &arrays->x));
  PetscCall(MatDenseRestoreArrayRead((Mat)b, &arrays->b));
  PetscFunctionReturn(PETSC_SUCCESS);
}
