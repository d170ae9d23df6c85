/*
   The permuted and scaled matrix of a matching, A~ = P Dr A Dc
*/
#include <petscidrs/private/idrsmatching.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsstream.h>
#include <petscidrs/private/idrsplace.h>

/* The block size of A if, on all processes, the rows of each block of A become the rows of one block of A~, in any order; else 1 */
static PetscErrorCode IDRSMatchingGetBlockSize(IDRSMatching matching, Mat A, PetscInt *bs)
{
  PetscInt rows, columns;

  PetscFunctionBegin;
  PetscCall(MatGetBlockSizes(A, &rows, &columns));
  *bs = rows == columns ? rows : 1;
  if (*bs == 1) PetscFunctionReturn(PETSC_SUCCESS);
  for (PetscInt row = 0; row < matching->n; row++) {
    /* the first row of the block is in another block of A~ */
    if (matching->column[row] / rows != matching->column[row - row % rows] / rows) *bs = 1;
  }
  IDRSCallAllreduce(MPI_IN_PLACE, bs, 1, MPIU_INT, MPI_MIN, PetscObjectComm((PetscObject)A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns PETSC_TRUE if row i has an entry in column j */
static PetscBool IDRSMatchingHasEntry(const IDRSRows *rows, PetscInt i, PetscInt j)
{
  for (PetscInt k = rows->i[i]; k < rows->i[i + 1]; k++) {
    if (rows->j[k] == j) return PETSC_TRUE;
  }
  return PETSC_FALSE;
}

/*
   A matrix of the type of A with the permuted pattern, and all diagonal entries: if the block is structurally singular, some places
   of the diagonal have no entry of A, but factorizations need a place for the zero. outer is the block outside of the diagonal one,
   or NULL
*/
static PetscErrorCode IDRSMatchingCreateMat(IDRSMatching matching, Mat A, Mat inner, Mat outer, const PetscInt garray[],
                                            Mat *newmat)
{
  const PetscInt n = matching->n;
  PetscInt       begin, bs, most = 0, entries = 0, *i, *j;
  PetscBool      stream;
  IDRSRows       in, out = {0};

  PetscFunctionBegin;
  PetscCall(IDRSMatchingGetBlockSize(matching, A, &bs));
  PetscCall(MatGetOwnershipRange(A, &begin, NULL));
  PetscCall(IDRSRowsGet(inner, &in));
  if (outer) PetscCall(IDRSRowsGet(outer, &out));
  PetscCall(PetscIntSumError(in.i[n], n, &most)); /* at most n zeros */
  PetscCall(PetscIntSumError(most, outer ? out.i[n] : 0, &entries));
  PetscCall(PetscMalloc2(n + 1, &i, entries, &j));
  i[0] = 0;
  for (PetscInt row = 0; row < n; row++) {
    const PetscInt column = matching->column[row];

    i[column + 1] = in.i[row + 1] - in.i[row] + (outer ? out.i[row + 1] - out.i[row] : 0);
    if (!IDRSMatchingHasEntry(&in, row, column)) i[column + 1]++;
  }
  for (PetscInt row = 0; row < n; row++) i[row + 1] += i[row];
  for (PetscInt row = 0; row < n; row++) {
    /* row i of A is row column[i] of A~; its columns ascend: outer ones, those of the block, outer ones */
    const PetscInt column = matching->column[row];
    PetscInt       q = i[column], p = outer ? out.i[row] : 0;
    PetscBool      missing = (PetscBool)!IDRSMatchingHasEntry(&in, row, column);

    for (; outer && p < out.i[row + 1] && garray[out.j[p]] < begin; p++) j[q++] = garray[out.j[p]];
    for (PetscInt k = in.i[row]; k < in.i[row + 1]; k++) {
      if (missing && in.j[k] > column) {
        j[q++]  = begin + column;
        missing = PETSC_FALSE;
      }
      j[q++] = begin + in.j[k];
    }
    if (missing) j[q++] = begin + column;
    for (; outer && p < out.i[row + 1]; p++) j[q++] = garray[out.j[p]];
  }
  if (outer) PetscCall(IDRSRowsRestore(&out));
  PetscCall(IDRSRowsRestore(&in));
  PetscCall(MatCreate(PetscObjectComm((PetscObject)A), newmat));
  PetscCall(MatSetSizes(*newmat, n, n, matching->N, matching->N));
  PetscCall(MatSetBlockSize(*newmat, bs));
  PetscCall(MatSetType(*newmat, ((PetscObject)A)->type_name));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &stream, MATSEQAIJSTREAM, MATMPIAIJSTREAM, ""));
  if (stream) PetscCall(MatStreamCopySettings_Private(A, *newmat));
  PetscCall(IDRSMatBindLike(A, *newmat));
  PetscCall(MatSeqAIJSetPreallocationCSR(*newmat, i, j, NULL));
  PetscCall(MatMPIAIJSetPreallocationCSR(*newmat, i, j, NULL));
  PetscCall(PetscFree2(i, j));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSMatchingGetMat - Computes A~ = P Dr A Dc

   Input Parameters:
+ matching - the matching
. A        - the matrix
- reuse    - MAT_INITIAL_MATRIX, or MAT_REUSE_MATRIX if the pattern of A and the permutation have not changed since the last call

   Output Parameter:
. B - the permuted and scaled matrix, of the type of A; it has the block size of A if the permutation maps blocks of rows to blocks
*/
PetscErrorCode IDRSMatchingGetMat(IDRSMatching matching, Mat A, MatReuse reuse, Mat *B)
{
  const PetscInt        *garray;
  const IDRSMatchingOps *ops;
  Mat                    from[2], to[2];

  PetscFunctionBegin;
  PetscCall(IDRSRowsGetBlocks(A, &from[0], &from[1], &garray));
  if (reuse == MAT_INITIAL_MATRIX) PetscCall(IDRSMatchingCreateMat(matching, A, from[0], from[1], garray, B));
  PetscCall(IDRSRowsGetBlocks(*B, &to[0], &to[1], NULL));
  PetscCall(IDRSMatchingGetBackEnd_Private(A, matching->right, matching->right, &ops));
  PetscCall((*ops->fill)(matching, from[0], matching->right, to[0]));
  if (from[1]) {
    PetscInt   columns;
    Vec        ghosts;
    VecScatter scatter;

    PetscCall(MatGetLocalSize(from[1], NULL, &columns));
    PetscCall(IDRSRowsGetGhosts(matching->right, columns, garray, &ghosts, &scatter));
    PetscCall(VecScatterBegin(scatter, matching->right, ghosts, INSERT_VALUES, SCATTER_FORWARD));
    PetscCall(VecScatterEnd(scatter, matching->right, ghosts, INSERT_VALUES, SCATTER_FORWARD));
    PetscCall((*ops->fill)(matching, from[1], ghosts, to[1]));
    PetscCall(VecScatterDestroy(&scatter));
    PetscCall(VecDestroy(&ghosts));
  }
  PetscCall(PetscObjectStateIncrease((PetscObject)*B));
  PetscFunctionReturn(PETSC_SUCCESS);
}
