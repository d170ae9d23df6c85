/*
   Matchings of matrices in the memory of the host: permutations of vectors, scalings for new values, and the values of
   A~ = P Dr A Dc
*/
#include <petscidrs/private/idrsmatching.h>
#include <petscidrs/private/idrscompat.h>

/* y = d P x, or d P^T x, entry by entry; y is not x */
static PetscErrorCode IDRSMatchingPermute_Host(IDRSMatching matching, PetscBool transpose, Vec d, Vec x, Vec y)
{
  const PetscInt    *places = transpose ? matching->column : matching->row;
  const PetscScalar *darray, *xarray;
  PetscScalar       *yarray;

  PetscFunctionBegin;
  PetscCall(VecGetArrayRead(d, &darray));
  PetscCall(VecGetArrayRead(x, &xarray));
  PetscCall(VecGetArrayWrite(y, &yarray));
  for (PetscInt i = 0; i < matching->n; i++) yarray[i] = darray[i] * xarray[places[i]];
  PetscCall(VecRestoreArrayWrite(y, &yarray));
  PetscCall(VecRestoreArrayRead(x, &xarray));
  PetscCall(VecRestoreArrayRead(d, &darray));
  PetscCall(PetscLogFlops((PetscLogDouble)matching->n));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSMatchingRescale_Host(IDRSMatching matching, Mat A, double **left, double **right, double *largest)
{
  const PetscScalar *array;
  PetscInt           badrow;
  Mat                block, outer;
  IDRSRows           rows;

  PetscFunctionBegin;
  PetscCall(PetscMalloc2(matching->n, left, matching->n, right));
  PetscCall(VecGetArrayRead(matching->right, &array));
  for (PetscInt j = 0; j < matching->n; j++) (*right)[j] = (double)PetscRealPart(array[j]);
  PetscCall(VecRestoreArrayRead(matching->right, &array));
  PetscCall(IDRSRowsGetBlocks(A, &block, &outer, NULL));
  PetscCall(IDRSRowsGet(block, &rows));
  PetscCall(IDRSMatchingRescaleRows(&rows, matching->column, *right, *left, largest));
  PetscCall(IDRSRowsRestore(&rows));
  PetscCall(IDRSMatchingFindBadRow(outer, &badrow));
  /* scalings of the diagonal block do not fit values that are not finite */
  if (badrow >= 0) *largest = PETSC_INFINITY;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* scaling_i = values_i, or values_places(i), within the range of a real number */
static PetscErrorCode IDRSMatchingSetScaling_Host(const double values[], const PetscInt places[], Vec scaling)
{
  PetscScalar *array;
  PetscInt     n;

  PetscFunctionBegin;
  PetscCall(VecGetLocalSize(scaling, &n));
  PetscCall(VecGetArrayWrite(scaling, &array));
  for (PetscInt i = 0; i < n; i++) array[i] = IDRSMatchingLimit(values[places ? places[i] : i]);
  PetscCall(VecRestoreArrayWrite(scaling, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSMatchingSetScalings_Host(IDRSMatching matching, PetscBool keep, double **left, double **right)
{
  PetscFunctionBegin;
  if (keep) {
    PetscCall(IDRSMatchingSetScaling_Host(*left, NULL, matching->left));
    PetscCall(IDRSMatchingSetScaling_Host(*right, NULL, matching->right));
    if (matching->moved) PetscCall(IDRSMatchingSetScaling_Host(*left, matching->row, matching->permuted));
  }
  PetscCall(PetscFree2(*left, *right));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Permutes and scales the rows of a block, as values of a block with the permuted pattern, in which a row may have one entry more:
   the zero in its diagonal place. right has the scalings of the columns
*/
static PetscErrorCode IDRSMatchingFill_Host(IDRSMatching matching, Mat from, Vec right, Mat to)
{
  const PetscInt    *i, *j;
  const PetscScalar *Dr, *Dc;
  PetscInt           n;
  PetscScalar       *a;
  PetscBool          done;
  IDRSRows           rows;

  PetscFunctionBegin;
  PetscCall(IDRSRowsGet(from, &rows));
  PetscCall(VecGetArrayRead(matching->left, &Dr));
  PetscCall(VecGetArrayRead(right, &Dc));
  PetscCall(MatGetRowIJ(to, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  PetscCheck(done && i[n] - rows.i[n] >= 0 && i[n] - rows.i[n] <= n, PETSC_COMM_SELF, PETSC_ERR_PLIB,
             "The pattern of the permuted matrix has changed; use MAT_INITIAL_MATRIX");
  PetscCall(MatSeqAIJGetArrayWrite(to, &a));
  for (PetscInt row = 0; row < n; row++) {
    const PetscInt column = matching->column[row];
    PetscInt       q      = i[column];
    PetscBool      zero   = (PetscBool)(i[column + 1] - q > rows.i[row + 1] - rows.i[row]);

    for (PetscInt p = rows.i[row]; p < rows.i[row + 1]; p++) {
      if (zero && rows.j[p] > column) {
        a[q++] = 0.0;
        zero   = PETSC_FALSE;
      }
      /* The product with the scaling of the row comes first, because it is at most 1 / Dc[j] */
      a[q++] = rows.a[p] * Dr[row] * Dc[rows.j[p]];
    }
    if (zero) a[q] = 0.0;
  }
  PetscCall(MatSeqAIJRestoreArrayWrite(to, &a));
  PetscCall(MatRestoreRowIJ(to, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  PetscCall(VecRestoreArrayRead(right, &Dc));
  PetscCall(VecRestoreArrayRead(matching->left, &Dr));
  PetscCall(IDRSRowsRestore(&rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSMatchingReset_Host(IDRSMatching matching)
{
  PetscFunctionBegin;
  PetscCall(PetscFree2(matching->column, matching->row));
  PetscFunctionReturn(PETSC_SUCCESS);
}

const IDRSMatchingOps IDRSMatchingBackEnds_Host = {.permute     = IDRSMatchingPermute_Host,
                                                   .rescale     = IDRSMatchingRescale_Host,
                                                   .setscalings = IDRSMatchingSetScalings_Host,
                                                   .fill        = IDRSMatchingFill_Host,
                                                   .reset       = IDRSMatchingReset_Host};
