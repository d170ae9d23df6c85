#include <petscidrs/private/idrsrows.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsmemory.h>
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
. outer  - the other columns, or NULL if the matrix is on one process
- garray - the number of each column of the outer block, or NULL

   Each argument may be NULL if it is not needed
*/
PetscErrorCode IDRSRowsGetBlocks(Mat A, Mat *block, Mat *outer, const PetscInt *garray[])
{
  PetscBool       parallel; /* of a parallel type, perhaps on one process */
  PetscMPIInt     size;
  Mat             blocks[2] = {A, NULL};
  const PetscInt *numbers   = NULL;

  PetscFunctionBegin;
  PetscCall(PetscObjectBaseTypeCompare((PetscObject)A, MATMPIAIJ, &parallel));
  if (parallel) PetscCall(MatMPIAIJGetSeqAIJ(A, &blocks[0], &blocks[1], &numbers));
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)A), &size));
  if (size == 1) {
    blocks[1] = NULL;
    numbers   = NULL;
  }
  if (block) *block = blocks[0];
  if (outer) *outer = blocks[1];
  if (garray) *garray = numbers;
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

/* Computes the largest entries of rows, and unless `inverse` is NULL the inverse diagonal, if matrix and vectors are on a GPU */
static PetscErrorCode IDRSRowsOnDevice(Mat A, PetscInt nblocks, const PetscInt starts[], Vec largest, Vec inverse, PetscInt *count,
                                       PetscBool *done)
{
  PetscFunctionBegin;
  *done = PETSC_FALSE;
#if defined(PETSCIDRS_HAVE_CUDA)
  {
    IDRSMemory  matrix, vector;
    PetscBool   cusparse;
    PetscMPIInt on;
    void (*rows)(void);

    PetscCall(IDRSMatWhere(A, &matrix));
    PetscCall(IDRSVecWhere(largest, &vector));
    PetscCall(PetscObjectQueryFunction((PetscObject)A, IDRS_ROWS, &rows));
    PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &cusparse, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
    /* the same on all processes, because VecMin() is collective */
    on = ((cusparse && matrix == IDRS_MEMORY_CUDA) || rows) && vector == IDRS_MEMORY_CUDA;
    IDRSCallAllreduce(MPI_IN_PLACE, &on, 1, MPI_INT, MPI_MIN, PetscObjectComm((PetscObject)A));
    *done = on ? PETSC_TRUE : PETSC_FALSE;
    if (*done) PetscCall((*IDRSDiagonal_CUDA.inverse)(A, nblocks, starts, largest, inverse, count));
  }
#endif
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes the largest entries of the rows of a sequential matrix of type aij or aijcusparse on the host. Only entries in the
   diagonal blocks count
*/
static PetscErrorCode IDRSRowsLargestInBlocks(Mat A, PetscInt nblocks, const PetscInt starts[], Vec largest)
{
  PetscScalar *array;
  IDRSRows     rows;

  PetscFunctionBegin;
  PetscCall(IDRSRowsGet(A, &rows));
  PetscCall(VecGetArrayWrite(largest, &array));
  for (PetscInt block = 0; block < nblocks; block++) {
    for (PetscInt i = starts[block]; i < starts[block + 1]; i++) {
      PetscReal most = 0.0;

      for (PetscInt p = rows.i[i]; p < rows.i[i + 1]; p++) {
        if (rows.j[p] >= starts[block] && rows.j[p] < starts[block + 1]) most = PetscMax(most, PetscAbsScalar(rows.a[p]));
      }
      array[i] = most;
    }
  }
  PetscCall(VecRestoreArrayWrite(largest, &array));
  PetscCall(IDRSRowsRestore(&rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSRowsLargest(Mat, PetscInt, const PetscInt[], Vec, PetscBool *);

/* Computes the largest entries of the rows of a MATNEST */
static PetscErrorCode IDRSRowsLargestNest(Mat A, Vec largest, PetscBool *supported)
{
  PetscInt m, n;
  Mat    **blocks;
  IS      *rows;

  PetscFunctionBegin;
  PetscCall(MatNestGetSubMats(A, &m, &n, &blocks));
  PetscCall(PetscMalloc1(m, &rows));
  PetscCall(MatNestGetISs(A, rows, NULL));
  PetscCall(VecSet(largest, 0.0));
  for (PetscInt i = 0; i < m; i++) {
    Vec part;

    PetscCall(VecGetSubVector(largest, rows[i], &part));
    /* maximum over the blocks of a row of the nest */
    for (PetscInt j = 0; j < n; j++) {
      Vec one;

      if (!blocks[i][j] || !*supported) continue;
      PetscCall(MatCreateVecs(blocks[i][j], NULL, &one));
      PetscCall(IDRSRowsLargest(blocks[i][j], 0, NULL, one, supported));
      if (*supported) PetscCall(VecPointwiseMax(part, part, one));
      PetscCall(VecDestroy(&one));
    }
    PetscCall(VecRestoreSubVector(largest, rows[i], &part));
  }
  PetscCall(PetscFree(rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes the largest absolute value of each row. `supported` is PETSC_FALSE if the type of the matrix does not support this; then
   largest has no values
*/
static PetscErrorCode IDRSRowsLargest(Mat A, PetscInt nblocks, const PetscInt starts[], Vec largest, PetscBool *supported)
{
  PetscBool nest;

  PetscFunctionBegin;
  PetscCall(IDRSRowsOnDevice(A, nblocks, starts, largest, NULL, NULL, supported));
  if (*supported) PetscFunctionReturn(PETSC_SUCCESS);
  *supported = PETSC_TRUE;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATNEST, &nest));
  if (starts) PetscCall(IDRSRowsLargestInBlocks(A, nblocks, starts, largest));
  else if (nest) PetscCall(IDRSRowsLargestNest(A, largest, supported));
  else {
    PetscCall(MatHasOperation(A, MATOP_GET_ROW_MAX_ABS, supported));
    if (*supported) PetscCall(MatGetRowMaxAbs(A, largest, NULL));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSRowsGetInverse - Computes the inverse of the diagonal. In a row whose diagonal entry is small it has the inverse of the
   largest entry, or 1 if all entries are zero

   Input Parameters:
+  A       - the matrix, with MatGetDiagonal()
.  nblocks - the number of diagonal blocks, outside of which entries do not count, for a sequential aij or aijcusparse; or 0
.  starts  - nblocks + 1 first rows, or NULL
-  work    - a work vector

   Output Parameters:
+  largest - the largest absolute value of each row, or zeros if the type of the matrix does not support this: then only entries
             that are zero are small
.  inverse - the inverse of the diagonal
-  count   - the number of rows of this process whose diagonal entry is small

   Note:
   A NaN is not small. Only a number is copied to the host if the matrix is on the GPU, or if no entry is small.
*/
PetscErrorCode IDRSRowsGetInverse(Mat A, PetscInt nblocks, const PetscInt starts[], Vec work, Vec largest, Vec inverse,
                                  PetscInt *count)
{
  const PetscScalar *margins, *most;
  PetscScalar       *array;
  PetscReal          least;
  PetscInt           n;
  PetscBool          done;

  PetscFunctionBegin;
  *count = 0;
  PetscCall(IDRSRowsOnDevice(A, nblocks, starts, largest, inverse, count, &done));
  if (done) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(MatGetDiagonal(A, work));
  PetscCall(IDRSRowsLargest(A, nblocks, starts, largest, &done));
  if (!done) PetscCall(VecSet(largest, 0.0));
  PetscCall(VecCopy(work, inverse));
  PetscCall(VecReciprocal(inverse));
  PetscCall(VecAbs(work));
  /* small: |a_ii| - IDRS_SMALL_DIAGONAL max_j |a_ij| <= 0 */
  PetscCall(VecAXPY(work, -IDRS_SMALL_DIAGONAL, largest));
  PetscCall(VecMin(work, NULL, &least));
  if (least > 0.0) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecGetLocalSize(work, &n));
  PetscCall(VecGetArrayRead(work, &margins));
  PetscCall(VecGetArrayRead(largest, &most));
  PetscCall(VecGetArray(inverse, &array));
  for (PetscInt i = 0; i < n; i++) {
    if (!(PetscRealPart(margins[i]) <= 0.0)) continue;
    array[i] = PetscRealPart(most[i]) > 0.0 ? 1.0 / PetscRealPart(most[i]) : 1.0;
    (*count)++;
  }
  PetscCall(VecRestoreArray(inverse, &array));
  PetscCall(VecRestoreArrayRead(largest, &most));
  PetscCall(VecRestoreArrayRead(work, &margins));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSViewSmallDiagonal - Prints the line of a view for this number of rows of all processes */
PetscErrorCode IDRSViewSmallDiagonal(PetscInt count, PetscViewer viewer)
{
  PetscFunctionBegin;
  if (count)
    PetscCall(PetscViewerASCIIPrintf(viewer,
                                     "  rows scaled by their largest entry (diagonal zero or below %g times it): %" PetscInt_FMT
                                     "\n",
                                     IDRS_SMALL_DIAGONAL, count));
  PetscFunctionReturn(PETSC_SUCCESS);
}
