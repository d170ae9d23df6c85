/*
   Matchings as their users call them: checks, the diagonal block, what all processes agree on, and products of Dr, P and Dc
*/
#include "matching.h"
#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>

/* IDRSMatchingSupports - Returns why there is no matching of this matrix, or NULL; all processes return the same */
PetscErrorCode IDRSMatchingSupports(Mat A, const char *why[])
{
  PetscBool aij, congruent, assembled;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(MatAssembled(A, &assembled));
  PetscCall(PetscObjectBaseTypeCompareAny((PetscObject)A, &aij, MATSEQAIJ, MATMPIAIJ, ""));
  PetscCall(MatHasCongruentLayouts(A, &congruent));
  if (!aij) *why = "the matrix is not of type aij, or a type that is derived from it";
  else if (!congruent) *why = "the matrix has different layouts of rows and columns";
  else if (!assembled) *why = "the matrix is not assembled";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Finds the first row of a block with an infinite entry or NaN; returns -1 if there is none, or no block */
static PetscErrorCode IDRSMatchingFindBadRow(Mat block, PetscInt *badrow)
{
  IDRSRows rows;

  PetscFunctionBegin;
  *badrow = -1;
  if (!block) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSRowsGet(block, &rows));
  for (PetscInt i = 0; i < rows.n && *badrow < 0; i++) {
    for (PetscInt p = rows.i[i]; p < rows.i[i + 1]; p++) {
      if (PetscIsInfOrNanScalar(rows.a[p])) *badrow = i;
    }
  }
  PetscCall(IDRSRowsRestore(&rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The largest modulus of the logarithm of a scaling: a real number can hold the scaling and its inverse */
static double IDRSMatchingLimit(void)
{
  return log((double)PETSC_MAX_REAL / 4.0);
}

/* Sets a scaling from its logarithms, limited to what PetscReal can hold */
static PetscErrorCode IDRSMatchingSetScaling(Vec scaling, const double logarithms[])
{
  const double limit = IDRSMatchingLimit();
  PetscScalar *array;
  PetscInt     n;

  PetscFunctionBegin;
  PetscCall(VecGetLocalSize(scaling, &n));
  PetscCall(VecGetArrayWrite(scaling, &array));
  for (PetscInt i = 0; i < n; i++) array[i] = (PetscScalar)exp(PetscMax(-limit, PetscMin(limit, logarithms[i])));
  PetscCall(VecRestoreArrayWrite(scaling, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the range of all scalings, for the view */
static PetscErrorCode IDRSMatchingSetRange(IDRSMatching matching)
{
  const Vec scalings[] = {matching->left, matching->right};

  PetscFunctionBegin;
  matching->range[0] = PETSC_MAX_REAL;
  matching->range[1] = 0.0;
  for (PetscInt i = 0; matching->N && i < 2; i++) {
    PetscReal least, most;

    PetscCall(VecMin(scalings[i], NULL, &least));
    PetscCall(VecMax(scalings[i], NULL, &most));
    matching->range[0] = PetscMin(matching->range[0], least);
    matching->range[1] = PetscMax(matching->range[1], most);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Gets the permutation: row rows[i] of A becomes row i */
static PetscErrorCode IDRSMatchingGetRows(IDRSMatching matching, Mat A, IS *rows)
{
  PetscInt begin, *from;

  PetscFunctionBegin;
  PetscCall(MatGetOwnershipRange(A, &begin, NULL));
  PetscCall(PetscMalloc1(matching->n, &from));
  for (PetscInt i = 0; i < matching->n; i++) from[matching->column[i]] = begin + i;
  PetscCall(ISCreateGeneral(PetscObjectComm((PetscObject)A), matching->n, from, PETSC_OWN_POINTER, rows));
  PetscCall(ISSetPermutation(*rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates the scatter x -> P x if a row moves */
static PetscErrorCode IDRSMatchingSetPermutation(IDRSMatching matching, Mat A)
{
  IS rows;

  PetscFunctionBegin;
  matching->moved = 0;
  for (PetscInt i = 0; i < matching->n; i++) matching->moved += matching->column[i] != i;
  IDRSCallAllreduce(MPI_IN_PLACE, &matching->moved, 1, MPIU_INT, MPI_SUM, PetscObjectComm((PetscObject)A));
  if (!matching->moved) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecDuplicate(matching->left, &matching->work));
  PetscCall(IDRSMatchingGetRows(matching, A, &rows));
  PetscCall(VecScatterCreate(matching->work, rows, matching->left, NULL, &matching->permute));
  PetscCall(ISDestroy(&rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSMatchingCreate - Computes the matching of a matrix that IDRSMatchingSupports() supports */
PetscErrorCode IDRSMatchingCreate(Mat A, IDRSMatching *newmatching)
{
  IDRSMatching matching;
  double      *left, *right;
  PetscInt     begin, badrow, outerbadrow;
  Mat          block, outer;
  IDRSRows     rows;

  PetscFunctionBegin;
  PetscCall(PetscNew(&matching));
  *newmatching = matching;
  PetscCall(MatGetSize(A, &matching->N, NULL));
  PetscCall(MatGetLocalSize(A, &matching->n, NULL));
  PetscCall(MatGetOwnershipRange(A, &begin, NULL));
  PetscCall(MatCreateVecs(A, &matching->right, &matching->left));
  PetscCall(PetscMalloc1(matching->n, &matching->column));
  PetscCall(PetscMalloc2(matching->n, &left, matching->n, &right));
  PetscCall(IDRSRowsGetBlocks(A, &block, &outer, NULL));
  PetscCall(IDRSRowsGet(block, &rows));
  PetscCall(IDRSMatchRows(&rows, matching->column, left, right, &matching->rank, &badrow));
  if (badrow < 0) IDRSMatchingClipRows(&rows, IDRSMatchingLimit(), left, right);
  PetscCall(IDRSRowsRestore(&rows));
  PetscCall(IDRSMatchingFindBadRow(outer, &outerbadrow));
  if (badrow < 0 || (outerbadrow >= 0 && outerbadrow < badrow)) badrow = outerbadrow;
  badrow = badrow < 0 ? PETSC_MAX_INT : badrow + begin;
  IDRSCallAllreduce(&badrow, &matching->badrow, 1, MPIU_INT, MPI_MIN, PetscObjectComm((PetscObject)A));
  if (matching->badrow == PETSC_MAX_INT) {
    matching->badrow = -1;
    IDRSCallAllreduce(MPI_IN_PLACE, &matching->rank, 1, MPIU_INT, MPI_SUM, PetscObjectComm((PetscObject)A));
    PetscCall(IDRSMatchingSetScaling(matching->left, left));
    PetscCall(IDRSMatchingSetScaling(matching->right, right));
    PetscCall(IDRSMatchingSetRange(matching));
    PetscCall(IDRSMatchingSetPermutation(matching, A));
    PetscCall(PetscInfo(A, "A new matching moves %" PetscInt_FMT " of %" PetscInt_FMT " rows, scalings from %g to %g\n", matching->moved, matching->N, (double)matching->range[0], (double)matching->range[1]));
  } else PetscCall(PetscInfo(A, "No matching: row %" PetscInt_FMT " has an infinite entry or NaN\n", matching->badrow));
  PetscCall(PetscFree2(left, right));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSMatchingUpdate - Adapts the scalings to new values of the matrix

   Output Parameter:
. kept - `PETSC_FALSE` if the permutation does not suit the new values, or if there is no matching: then the matching is unchanged
*/
PetscErrorCode IDRSMatchingUpdate(IDRSMatching matching, Mat A, PetscBool *kept)
{
  double            *left, *right, largest;
  PetscReal          most;
  const PetscScalar *array;
  PetscInt           badrow;
  Mat                block, outer;
  IDRSRows           rows;

  PetscFunctionBegin;
  *kept = PETSC_FALSE;
  if (matching->badrow >= 0) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscMalloc2(matching->n, &left, matching->n, &right));
  PetscCall(VecGetArrayRead(matching->right, &array));
  for (PetscInt j = 0; j < matching->n; j++) right[j] = (double)PetscRealPart(array[j]);
  PetscCall(VecRestoreArrayRead(matching->right, &array));
  PetscCall(IDRSRowsGetBlocks(A, &block, &outer, NULL));
  PetscCall(IDRSRowsGet(block, &rows));
  IDRSMatchingRescaleRows(&rows, matching->column, right, left, &largest);
  PetscCall(IDRSRowsRestore(&rows));
  PetscCall(IDRSMatchingFindBadRow(outer, &badrow));
  most = badrow < 0 ? (PetscReal)largest : PETSC_INFINITY;
  IDRSCallAllreduce(MPI_IN_PLACE, &most, 1, MPIU_REAL, MPIU_MAX, PetscObjectComm((PetscObject)A));
  *kept = (PetscBool)(most <= MATCHING_KEEP);
  if (*kept) {
    for (PetscInt i = 0; i < matching->n; i++) {
      left[i]  = log(left[i]);
      right[i] = log(right[i]);
    }
    PetscCall(IDRSMatchingSetScaling(matching->left, left));
    PetscCall(IDRSMatchingSetScaling(matching->right, right));
    PetscCall(IDRSMatchingSetRange(matching));
    PetscCall(PetscInfo(A, "The permutation is kept, scalings from %g to %g\n", (double)matching->range[0], (double)matching->range[1]));
  } else PetscCall(PetscInfo(A, "The permutation is not kept: it does not suit the new values\n"));
  PetscCall(PetscFree2(left, right));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSMatchingDestroy(IDRSMatching *matching)
{
  PetscFunctionBegin;
  if (*matching) {
    PetscCall(PetscFree((*matching)->column));
    PetscCall(VecDestroy(&(*matching)->left));
    PetscCall(VecDestroy(&(*matching)->right));
    PetscCall(VecDestroy(&(*matching)->work));
    PetscCall(VecScatterDestroy(&(*matching)->permute));
  }
  PetscCall(PetscFree(*matching));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSMatchingView - The lines of a view for a matching */
PetscErrorCode IDRSMatchingView(IDRSMatching matching, PetscViewer viewer)
{
  PetscFunctionBegin;
  if (matching->badrow >= 0) PetscCall(PetscViewerASCIIPrintf(viewer, "  no matching: row %" PetscInt_FMT " has an infinite entry or NaN\n", matching->badrow));
  else {
    PetscCall(PetscViewerASCIIPrintf(viewer, "  maximum product matching: %" PetscInt_FMT " of %" PetscInt_FMT " rows moved, scalings from %g to %g\n", matching->moved, matching->N, (double)matching->range[0], (double)matching->range[1]));
    if (matching->rank < matching->N) PetscCall(PetscViewerASCIIPrintf(viewer, "  structural rank of the diagonal blocks: %" PetscInt_FMT " of %" PetscInt_FMT " rows\n", matching->rank, matching->N));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* y = P Dr x, or y = Dr P^T x; y may be x */
static PetscErrorCode IDRSMatchingApplyLeft(IDRSMatching matching, PetscBool transpose, Vec x, Vec y)
{
  PetscFunctionBegin;
  if (!matching->permute) PetscCall(IDRSVecPointwiseMult(y, matching->left, x));
  else if (transpose) {
    PetscCall(VecScatterBegin(matching->permute, x, matching->work, INSERT_VALUES, SCATTER_REVERSE));
    PetscCall(VecScatterEnd(matching->permute, x, matching->work, INSERT_VALUES, SCATTER_REVERSE));
    PetscCall(VecPointwiseMult(y, matching->left, matching->work));
  } else {
    PetscCall(VecPointwiseMult(matching->work, matching->left, x));
    PetscCall(VecScatterBegin(matching->permute, matching->work, y, INSERT_VALUES, SCATTER_FORWARD));
    PetscCall(VecScatterEnd(matching->permute, matching->work, y, INSERT_VALUES, SCATTER_FORWARD));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSMatchingScaleInput - y = P Dr x, what a preconditioner of A~ is applied to, or y = Dc x if transposed; y may be x */
PetscErrorCode IDRSMatchingScaleInput(IDRSMatching matching, PetscBool transpose, Vec x, Vec y)
{
  PetscFunctionBegin;
  if (transpose) PetscCall(IDRSVecPointwiseMult(y, matching->right, x));
  else PetscCall(IDRSMatchingApplyLeft(matching, PETSC_FALSE, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSMatchingScaleOutput - y = Dc y, after a preconditioner of A~, or y = Dr P^T y if transposed */
PetscErrorCode IDRSMatchingScaleOutput(IDRSMatching matching, PetscBool transpose, Vec y)
{
  PetscFunctionBegin;
  if (transpose) PetscCall(IDRSMatchingApplyLeft(matching, PETSC_TRUE, y, y));
  else PetscCall(IDRSVecPointwiseMult(y, matching->right, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  MatGetMatching - Computes a maximum product matching of the rows and columns of a matrix, with scalings

  Collective

  Input Parameter:
. A - the matrix, of type `MATAIJ` or a type derived from it, with the same layout of rows and columns

  Output Parameters:
+ rows  - the permutation: row rows[i] of A, of the rows of all processes, becomes row i; or `NULL`
. left  - the scalings of the rows, in the order of A, or `NULL`
. right - the scalings of the columns, or `NULL`
- rank  - the structural rank: the number of rows that have an entry in their column, or `NULL`

  Level: intermediate

  Notes:
  The permuted and scaled matrix

  $$
  \tilde A = P D_r A D_c
  $$

  has diagonal entries of modulus 1, and no entry has a larger modulus. Of all permutations of the rows, this one has the largest product of
  the moduli of the diagonal entries. To form the matrix, call `MatDiagonalScale()` with left and right, then `MatPermute()` with rows and
  an identity for the columns.

  On several processes each process matches the rows and columns of its diagonal block. Entries outside of the diagonal blocks are scaled,
  too, and may have a modulus larger than 1.

  Explicit zeros count as no entries. If a block is structurally singular, the matching is as large as possible, rank is smaller than the
  number of rows, and the remaining rows and columns are paired arbitrarily. The scalings are finite. If the matrix has an infinite entry
  or NaN, the function reports an error that names its row.

  The matching is computed on the host, by shortest augmenting paths. A scaling that is too large or too small for `PetscReal` becomes
  the largest or smallest number. Then some diagonal entries have a modulus smaller than 1, but no entry has a modulus larger than 1.

  Destroy rows with `ISDestroy()`, left and right with `VecDestroy()`.

  References:
  I.S. Duff and J. Koster, On algorithms for permuting large entries to the diagonal of a sparse matrix, SIAM J. Matrix Anal. Appl. 22
  (2001)

.seealso: [](ch_matrices), `Mat`, `MatDiagonalScale()`, `MatPermute()`, `MatGetOrdering()`, `PCMATCHING`, `PCPOLY`,
          `PCPolySetScaling()`
@*/
PetscErrorCode MatGetMatching(Mat A, IS *rows, Vec *left, Vec *right, PetscInt *rank)
{
  IDRSMatching matching;
  PetscInt     badrow;
  const char  *why;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(A, MAT_CLASSID, 1);
  PetscCall(IDRSMatchingSupports(A, &why));
  PetscCheck(!why, PetscObjectComm((PetscObject)A), PETSC_ERR_SUP, "MatGetMatching() of a matrix of type %s: %s", ((PetscObject)A)->type_name, why);
  PetscCall(IDRSMatchingCreate(A, &matching));
  badrow = matching->badrow;
  if (badrow < 0 && rows) PetscCall(IDRSMatchingGetRows(matching, A, rows));
  if (badrow < 0 && left) {
    PetscCall(PetscObjectReference((PetscObject)matching->left));
    *left = matching->left;
  }
  if (badrow < 0 && right) {
    PetscCall(PetscObjectReference((PetscObject)matching->right));
    *right = matching->right;
  }
  if (rank) *rank = matching->rank;
  PetscCall(IDRSMatchingDestroy(&matching));
  PetscCheck(badrow < 0, PetscObjectComm((PetscObject)A), PETSC_ERR_ARG_OUTOFRANGE, "MatGetMatching(): row %" PetscInt_FMT " has an infinite entry or NaN", badrow);
  PetscFunctionReturn(PETSC_SUCCESS);
}
