/*
   Matchings as their users call them: checks, the diagonal block, what all processes agree on, and products of Dr, P and Dc
*/
#include <petscidrs/private/idrsmatching.h>
#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsplace.h>

/* Back ends for the memory of the host and of the GPU */
static const IDRSMatchingOps *const IDRSMatchingBackEnds[] = {&IDRSMatchingBackEnds_Host,
#if defined(PETSCIDRS_HAVE_CUDA)
                                                              &IDRSMatchingBackEnds_CUDA
#endif
};

/* IDRSMatchingGetBackEnd_Private - Gets the back end for a matrix, which may be NULL, and two vectors */
PetscErrorCode IDRSMatchingGetBackEnd_Private(Mat A, Vec x, Vec y, const IDRSMatchingOps **ops)
{
  PetscFunctionBegin;
  *ops = &IDRSMatchingBackEnds_Host;
#if defined(PETSCIDRS_HAVE_CUDA)
  {
    IDRSPlace matrix = IDRS_PLACE_CUDA, from, to;

    if (A) PetscCall(IDRSMatWhere(A, &matrix));
    PetscCall(IDRSVecWhere(x, &from));
    PetscCall(IDRSVecWhere(y, &to));
    if (matrix == IDRS_PLACE_CUDA && from == IDRS_PLACE_CUDA && to == IDRS_PLACE_CUDA) *ops = &IDRSMatchingBackEnds_CUDA;
  }
#else
  (void)A;
  (void)x;
  (void)y;
#endif
  PetscFunctionReturn(PETSC_SUCCESS);
}

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
  for (PetscInt i = 0; i < matching->n; i++) from[i] = begin + matching->row[i];
  PetscCall(ISCreateGeneral(PetscObjectComm((PetscObject)A), matching->n, from, PETSC_OWN_POINTER, rows));
  PetscCall(ISSetPermutation(*rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Completes the permutation, once the columns of the rows are known */
static PetscErrorCode IDRSMatchingSetPermutation(IDRSMatching matching)
{
  PetscFunctionBegin;
  matching->moved = 0;
  for (PetscInt i = 0; i < matching->n; i++) {
    matching->row[matching->column[i]] = i;
    matching->moved += matching->column[i] != i;
  }
  IDRSCallAllreduce(MPI_IN_PLACE, &matching->moved, 1, MPIU_INT, MPI_SUM, PetscObjectComm((PetscObject)matching->left));
  if (matching->moved) PetscCall(VecDuplicate(matching->left, &matching->permuted));
  else {
    PetscCall(PetscObjectReference((PetscObject)matching->left));
    matching->permuted = matching->left;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSMatchingCreate - Computes the matching of a matrix that IDRSMatchingSupports() supports

   Input Parameters:
+ A       - the matrix
- entries - limit of the searches, which may take long with random values: MATCHING_UNLIMITED, MATCHING_LIMITED or a number

   Output Parameter:
. newmatching - the matching, or NULL if the computation has given up, on all processes
*/
PetscErrorCode IDRSMatchingCreate(Mat A, PetscReal entries, IDRSMatching *newmatching)
{
  IDRSMatching matching;
  double      *left, *right;
  /* the first bad row of all processes; the least rank, -1 if one has given up */
  PetscInt  begin, badrow, outerbadrow, least[2];
  PetscBool keep = PETSC_FALSE;
  Mat       block, outer;
  IDRSRows  rows;

  PetscFunctionBegin;
  PetscCall(PetscNew(&matching));
  *newmatching = matching;
  PetscCall(MatGetSize(A, &matching->N, NULL));
  PetscCall(MatGetLocalSize(A, &matching->n, NULL));
  PetscCall(MatGetOwnershipRange(A, &begin, NULL));
  PetscCall(MatCreateVecs(A, &matching->right, &matching->left));
  PetscCall(PetscMalloc2(matching->n, &matching->column, matching->n, &matching->row));
  PetscCall(PetscMalloc2(matching->n, &left, matching->n, &right));
  PetscCall(IDRSRowsGetBlocks(A, &block, &outer, NULL));
  PetscCall(IDRSRowsGet(block, &rows));
  /* searches with random values may take very long */
  if (entries < 0.0) entries = 5e7 + 5.0 * (PetscReal)rows.i[rows.n];
  PetscCall(IDRSMatchRows(&rows, (double)entries, matching->column, left, right, &matching->rank, &badrow));
  if (badrow < 0 && matching->rank >= 0) IDRSMatchingClipRows(&rows, log(MATCHING_LARGEST), left, right);
  PetscCall(IDRSRowsRestore(&rows));
  PetscCall(IDRSMatchingFindBadRow(outer, &outerbadrow));
  if (badrow < 0 || (outerbadrow >= 0 && outerbadrow < badrow)) badrow = outerbadrow;
  /* all processes agree about the first bad row, and about giving up */
  least[0] = badrow < 0 ? PETSC_MAX_INT : badrow + begin;
  least[1] = matching->rank;
  IDRSCallAllreduce(MPI_IN_PLACE, least, 2, MPIU_INT, MPI_MIN, PetscObjectComm((PetscObject)A));
  matching->badrow = least[0] < PETSC_MAX_INT ? least[0] : -1;
  if (matching->badrow >= 0)
    PetscCall(PetscInfo(A, "No matching: row %" PetscInt_FMT " has an infinite entry or NaN\n", matching->badrow));
  else if (least[1] < 0) {
    PetscCall(PetscInfo(A, "No matching: its computation takes too long\n"));
    PetscCall(IDRSMatchingDestroy(newmatching));
  } else {
    IDRSCallAllreduce(MPI_IN_PLACE, &matching->rank, 1, MPIU_INT, MPI_SUM, PetscObjectComm((PetscObject)A));
    for (PetscInt i = 0; i < matching->n; i++) {
      /* IDRSMatchRows() returns logarithms */
      left[i]  = exp(left[i]);
      right[i] = exp(right[i]);
    }
    PetscCall(IDRSMatchingSetPermutation(matching));
    keep = PETSC_TRUE;
  }
  PetscCall((*IDRSMatchingBackEnds_Host.setscalings)(matching, keep, &left, &right));
  if (keep) {
    PetscCall(IDRSMatchingSetRange(matching));
    PetscCall(PetscInfo(A, "A new matching moves %" PetscInt_FMT " of %" PetscInt_FMT " rows, scalings from %g to %g\n",
                        matching->moved, matching->N, (double)matching->range[0], (double)matching->range[1]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSMatchingUpdate - Adapts the scalings to new values of the matrix

   Output Parameter:
. kept - `PETSC_FALSE` if the permutation does not suit the new values, or if there is no matching: then the matching is unchanged
*/
PetscErrorCode IDRSMatchingUpdate(IDRSMatching matching, Mat A, PetscBool *kept)
{
  const IDRSMatchingOps *ops;
  double                *left, *right, largest;
  PetscReal              most;

  PetscFunctionBegin;
  *kept = PETSC_FALSE;
  if (matching->badrow >= 0) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSMatchingGetBackEnd_Private(A, matching->right, matching->right, &ops));
  PetscCall((*ops->rescale)(matching, A, &left, &right, &largest));
  most = (PetscReal)largest;
  IDRSCallAllreduce(MPI_IN_PLACE, &most, 1, MPIU_REAL, MPIU_MAX, PetscObjectComm((PetscObject)A));
  /* all processes keep the permutation, or none */
  *kept = (PetscBool)(most <= MATCHING_KEEP);
  PetscCall((*ops->setscalings)(matching, *kept, &left, &right));
  if (*kept) {
    PetscCall(IDRSMatchingSetRange(matching));
    PetscCall(
      PetscInfo(A, "The permutation is kept, scalings from %g to %g\n", (double)matching->range[0], (double)matching->range[1]));
  } else PetscCall(PetscInfo(A, "The permutation does not fit the new values and is replaced\n"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSMatchingDestroy(IDRSMatching *matching)
{
  PetscFunctionBegin;
  if (*matching) {
    for (size_t l = 0; l < PETSC_STATIC_ARRAY_LENGTH(IDRSMatchingBackEnds); l++)
      PetscCall((*IDRSMatchingBackEnds[l]->reset)(*matching));
    PetscCall(VecDestroy(&(*matching)->left));
    PetscCall(VecDestroy(&(*matching)->right));
    PetscCall(VecDestroy(&(*matching)->permuted));
    PetscCall(VecDestroy(&(*matching)->work));
  }
  PetscCall(PetscFree(*matching));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSMatchingView - The lines of a view for a matching */
PetscErrorCode IDRSMatchingView(IDRSMatching matching, PetscViewer viewer)
{
  PetscFunctionBegin;
  if (matching->badrow >= 0)
    PetscCall(
      PetscViewerASCIIPrintf(viewer, "  no matching: row %" PetscInt_FMT " has an infinite entry or NaN\n", matching->badrow));
  else {
    PetscCall(PetscViewerASCIIPrintf(viewer,
                                     "  maximum product matching: %" PetscInt_FMT " of %" PetscInt_FMT
                                     " rows moved, scalings from %g to %g\n",
                                     matching->moved, matching->N, (double)matching->range[0], (double)matching->range[1]));
    if (matching->rank < matching->N)
      PetscCall(PetscViewerASCIIPrintf(viewer,
                                       "  structurally singular: rank %" PetscInt_FMT " of %" PetscInt_FMT
                                       " in the diagonal blocks\n",
                                       matching->rank, matching->N));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSMatchingPermute - Permutes the entries of x, and multiplies entry i of the result by d_i

   Input Parameters:
+ matching  - the matching
. transpose - whether to apply P^T
. d         - the factors
- x         - the vector

   Output Parameter:
. y - d P x, or d P^T x, entry by entry; it may be x
*/
PetscErrorCode IDRSMatchingPermute(IDRSMatching matching, PetscBool transpose, Vec d, Vec x, Vec y)
{
  const IDRSMatchingOps *ops;
  Vec                    to = y;

  PetscFunctionBegin;
  if (!matching->moved) {
    PetscCall(IDRSVecPointwiseMult(y, d, x));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  /* a permutation in place needs a copy */
  if (x == y) {
    if (!matching->work) PetscCall(VecDuplicate(matching->left, &matching->work));
    to = matching->work;
  }
  PetscCall(IDRSMatchingGetBackEnd_Private(NULL, x, to, &ops));
  PetscCall((*ops->permute)(matching, transpose, d, x, to));
  if (to != y) PetscCall(VecCopy(to, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSMatchingScaleInput - y = P Dr x, what a preconditioner of A~ is applied to, or y = Dc x if transposed; y may be x */
PetscErrorCode IDRSMatchingScaleInput(IDRSMatching matching, PetscBool transpose, Vec x, Vec y)
{
  PetscFunctionBegin;
  if (transpose) PetscCall(IDRSVecPointwiseMult(y, matching->right, x));
  else PetscCall(IDRSMatchingPermute(matching, PETSC_FALSE, matching->permuted, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSMatchingScaleOutput - y = Dc y, after a preconditioner of A~, or y = Dr P^T y if transposed */
PetscErrorCode IDRSMatchingScaleOutput(IDRSMatching matching, PetscBool transpose, Vec y)
{
  PetscFunctionBegin;
  if (transpose) PetscCall(IDRSMatchingPermute(matching, PETSC_TRUE, matching->left, y, y));
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

  has diagonal entries of modulus 1, and no entry has a larger modulus. Of all permutations of the rows, this one has the largest
  product of the moduli of the diagonal entries. To form the matrix, call `MatDiagonalScale()` with left and right, then
  `MatPermute()` with rows and an identity for the columns.

  On several processes each process matches the rows and columns of its diagonal block. Entries outside of the diagonal blocks are
  scaled, too, and may have a modulus larger than 1.

  Explicit zeros count as no entries. If a block is structurally singular, the matching is as large as possible, rank is smaller
  than the number of rows, and the remaining rows and columns are paired arbitrarily: the permuted matrix has zeros in their
  diagonal places, or no entries. The scalings are finite. If the matrix has an infinite entry or NaN, the function reports an error
  that names its row.

  The matching is computed on the host, by shortest augmenting paths. A scaling that is too large or too small for `PetscReal`
  becomes the largest or smallest number. Then some diagonal entries have a modulus smaller than 1, but no entry has a modulus
  larger than 1.

  Destroy rows with `ISDestroy()`, left and right with `VecDestroy()`.

  References:
  I.S. Duff and J. Koster, On algorithms for permuting large entries to the diagonal of a sparse matrix, SIAM J. Matrix Anal. Appl.
  22 (2001)

.seealso: [](ch_matrices), `Mat`, `MatDiagonalScale()`, `MatPermute()`, `MatGetOrdering()`, `PCMATCHING`, `PCPOLY`
@*/
PetscErrorCode MatGetMatching(Mat A, IS *rows, Vec *left, Vec *right, PetscInt *rank)
{
  IDRSMatching matching;
  PetscInt     badrow;
  const char  *why;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(A, MAT_CLASSID, 1);
  PetscCall(IDRSMatchingSupports(A, &why));
  PetscCheck(!why, PetscObjectComm((PetscObject)A), PETSC_ERR_SUP, "MatGetMatching() of a matrix of type %s: %s",
             ((PetscObject)A)->type_name, why);
  PetscCall(IDRSMatchingCreate(A, MATCHING_UNLIMITED, &matching));
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
  PetscCheck(badrow < 0, PetscObjectComm((PetscObject)A), PETSC_ERR_ARG_OUTOFRANGE,
             "MatGetMatching(): row %" PetscInt_FMT " has an infinite entry or NaN", badrow);
  PetscFunctionReturn(PETSC_SUCCESS);
}
