#include <petscidrs/private/idrsdiagonal.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsplace.h>
#include <petscidrs/private/idrsrows.h>

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
   IDRSRowsLargest - Computes the largest absolute value of each row

   Input Parameters:
+  A       - the matrix
.  nblocks - the number of diagonal blocks, outside of which entries do not count, for a sequential aij or aijcusparse; or 0
-  starts  - nblocks + 1 first rows, or NULL

   Output Parameters:
+  largest   - the values
-  supported - `PETSC_FALSE` if the type of the matrix does not support this; then largest has no values
*/
PetscErrorCode IDRSRowsLargest(Mat A, PetscInt nblocks, const PetscInt starts[], Vec largest, PetscBool *supported)
{
  PetscBool nest;

  PetscFunctionBegin;
  *supported = PETSC_TRUE;
#if defined(PETSCIDRS_HAVE_CUDA)
  {
    IDRSPlace matrix, vector;

    PetscCall(IDRSMatWhere(A, &matrix));
    PetscCall(IDRSVecWhere(largest, &vector));
    if (matrix == IDRS_PLACE_CUDA && vector == IDRS_PLACE_CUDA) {
      PetscCall((*IDRSDiagonal_CUDA.rowslargest)(A, nblocks, starts, largest));
      PetscFunctionReturn(PETSC_SUCCESS);
    }
  }
#endif
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
   IDRSReplaceSmallDiagonal - Replaces the scale of rows whose diagonal entry is small by the inverse of their largest entry, or by
   1 if all their entries are zero

   Input Parameters:
+  diagonal - the diagonal of the matrix; it is changed
.  largest  - the largest absolute value of each row, or zeros: then only entries that are zero are small
-  scale    - the scale of each row

   Output Parameters:
+  scale - the scale of each row
-  count - the number of rows of this process whose scale has been replaced

   Note:
   A NaN is not small. If no entry is small, only a minimum is copied to the host.
*/
PetscErrorCode IDRSReplaceSmallDiagonal(Vec diagonal, Vec largest, Vec scale, PetscInt *count)
{
  const PetscScalar *margins, *most;
  PetscScalar       *array;
  PetscReal          least;
  PetscInt           n;

  PetscFunctionBegin;
  *count = 0;
  PetscCall(VecAbs(diagonal));
  /* small: |a_ii| - IDRS_SMALL_DIAGONAL max_j |a_ij| <= 0 */
  PetscCall(VecAXPY(diagonal, -IDRS_SMALL_DIAGONAL, largest));
  PetscCall(VecMin(diagonal, NULL, &least));
  if (least > 0.0) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecGetLocalSize(diagonal, &n));
  PetscCall(VecGetArrayRead(diagonal, &margins));
  PetscCall(VecGetArrayRead(largest, &most));
  PetscCall(VecGetArray(scale, &array));
  for (PetscInt i = 0; i < n; i++) {
    if (!(PetscRealPart(margins[i]) <= 0.0)) continue;
    array[i] = PetscRealPart(most[i]) > 0.0 ? 1.0 / PetscRealPart(most[i]) : 1.0;
    (*count)++;
  }
  PetscCall(VecRestoreArray(scale, &array));
  PetscCall(VecRestoreArrayRead(largest, &most));
  PetscCall(VecRestoreArrayRead(diagonal, &margins));
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
