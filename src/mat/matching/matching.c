/*
   Matchings as their users call them: checks, what all processes agree on, scalings for new values, products of Dr, P and Dc, and
   the matrix A~ = P Dr A Dc. The functions that end in _Host are the back end for the memory of the host
*/
#include <petscidrs/private/idrsmatching.h>
#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsmemory.h>
#include <petscidrs/private/idrsstream.h>
#include <float.h>

/* y_i = d_i x_places(i), or d_i x_i without places */
static PetscErrorCode IDRSMatchingScale_Host(IDRSMatching matching, const PetscInt places[], Vec d, Vec x, Vec y)
{
  const PetscScalar *darray, *xarray;
  PetscScalar       *yarray;

  PetscFunctionBegin;
  PetscCall(VecGetArrayRead(d, &darray));
  PetscCall(VecGetArrayRead(x, &xarray));
  PetscCall(VecGetArrayWrite(y, &yarray));
  for (PetscInt i = 0; i < matching->n; i++) yarray[i] = darray[i] * xarray[places ? places[i] : i];
  PetscCall(VecRestoreArrayWrite(y, &yarray));
  PetscCall(VecRestoreArrayRead(x, &xarray));
  PetscCall(VecRestoreArrayRead(d, &darray));
  PetscCall(PetscLogFlops((PetscLogDouble)matching->n));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Finds the first row of a block with an infinite entry or NaN, or -1; the block may be NULL */
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

/* Sets Dr, Dc and P Dr P^T */
static PetscErrorCode IDRSMatchingSetScalings_Host(IDRSMatching matching, const double left[], const double right[])
{
  const Vec           scalings[] = {matching->left, matching->right, matching->permuted};
  const double *const values[]   = {left, right, left};

  PetscFunctionBegin;
  for (int k = 0; k < (matching->moved ? 3 : 2); k++) {
    PetscScalar *array;

    PetscCall(VecGetArrayWrite(scalings[k], &array));
    for (PetscInt i = 0; i < matching->n; i++) array[i] = IDRSMatchingLimit(values[k][k == 2 ? matching->row[i] : i]);
    PetscCall(VecRestoreArrayWrite(scalings[k], &array));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Adapts the scalings to new values of the entries. With the scalings of the rows, the entries of the matching have modulus 1. A
   sweep lowers the scalings of the columns that have entries larger than 1, all from the scalings before the sweep: so they do not
   depend on the order of the rows. A few sweeps are enough if the values change little. If another permutation has a larger
   product, no scalings make all entries at most 1.

   The largest modulus of a scaled entry is infinite if a row has a zero in its column, or an infinite entry or NaN, also in the
   outer block
*/
static PetscErrorCode IDRSMatchingUpdate_Host(IDRSMatching matching, Mat block, Mat outer, PetscBool *kept)
{
  const PetscScalar *array;
  const PetscInt     n = matching->n, *column = matching->column;
  PetscBool          changed = PETSC_TRUE;
  PetscInt           badrow;
  double            *left, *right, *before, largest = 0.0;
  PetscReal          most;
  IDRSRows           rows;

  PetscFunctionBegin;
  PetscCall(PetscMalloc3(n, &left, n, &right, n, &before));
  PetscCall(VecGetArrayRead(matching->right, &array));
  for (PetscInt j = 0; j < n; j++) right[j] = (double)PetscRealPart(array[j]);
  PetscCall(VecRestoreArrayRead(matching->right, &array));
  PetscCall(IDRSMatchingFindBadRow(outer, &badrow));
  PetscCall(IDRSRowsGet(block, &rows));
  for (PetscInt sweep = 0; changed && largest < PETSC_INFINITY; sweep++) {
    changed = PETSC_FALSE;
    largest = badrow < 0 ? 0.0 : PETSC_INFINITY;
    PetscCall(PetscArraycpy(before, right, n));
    for (PetscInt i = 0; i < n; i++) {
      double pivot = 0.0;

      for (PetscInt p = rows.i[i]; p < rows.i[i + 1]; p++) {
        if (rows.j[p] == column[i]) pivot = (double)PetscAbsScalar(rows.a[p]) * before[column[i]];
      }
      if (!(pivot > 0.0)) largest = PETSC_INFINITY; /* also in a row without entries */
      for (PetscInt p = rows.i[i]; p < rows.i[i + 1]; p++) {
        const double a = (double)PetscAbsScalar(rows.a[p]), relative = a * before[rows.j[p]] / pivot;

        if (!(relative <= largest)) largest = relative <= DBL_MAX ? relative : PETSC_INFINITY;
        if (!(relative > MATCHING_ONE) || sweep == MATCHING_SWEEPS) continue;
        right[rows.j[p]] = PetscMin(right[rows.j[p]], pivot / a);
        changed          = PETSC_TRUE;
      }
      left[i] = 1.0 / pivot;
    }
  }
  PetscCall(IDRSRowsRestore(&rows));
  /* all processes keep the permutation, or none */
  most = (PetscReal)largest;
  IDRSCallAllreduce(MPI_IN_PLACE, &most, 1, MPIU_REAL, MPIU_MAX, PetscObjectComm((PetscObject)matching->left));
  *kept = (PetscBool)(most <= MATCHING_KEEP);
  if (*kept) PetscCall(IDRSMatchingSetScalings_Host(matching, left, right));
  PetscCall(PetscFree3(left, right, before));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes the values of a block of A~ with a known pattern. An entry of A~ without an entry of A is a zero on the diagonal. right
   has the scalings of the columns
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
  for (PetscInt k = 0; k < n; k++) {
    const PetscInt  row = matching->row[k], end = rows.i[row + 1];
    const PetscBool all = (PetscBool)(i[k + 1] - i[k] == end - rows.i[row]); /* outer blocks may have other numbers of columns */

    for (PetscInt q = i[k], p = rows.i[row]; q < i[k + 1]; q++) {
      /* The product with the scaling of the row comes first, because it is at most 1 / Dc[j] */
      if (all || (p < end && rows.j[p] == j[q])) {
        a[q] = rows.a[p] * Dr[row] * Dc[rows.j[p]];
        p++;
      } else a[q] = 0.0;
    }
  }
  PetscCall(MatSeqAIJRestoreArrayWrite(to, &a));
  PetscCall(MatRestoreRowIJ(to, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  PetscCall(VecRestoreArrayRead(right, &Dc));
  PetscCall(VecRestoreArrayRead(matching->left, &Dr));
  PetscCall(IDRSRowsRestore(&rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static const IDRSMatchingOps IDRSMatchingBackEnds_Host = {.scale  = IDRSMatchingScale_Host,
                                                          .update = IDRSMatchingUpdate_Host,
                                                          .fill   = IDRSMatchingFill_Host};

/* Gets the back end for the memory of a matrix, which may be NULL, and of two vectors */
static PetscErrorCode IDRSMatchingGetBackEnd(Mat A, Vec x, Vec y, const IDRSMatchingOps **ops)
{
  PetscFunctionBegin;
  *ops = &IDRSMatchingBackEnds_Host;
#if defined(PETSCIDRS_HAVE_CUDA)
  {
    IDRSMemory matrix = IDRS_MEMORY_CUDA, from, to;

    if (A) PetscCall(IDRSMatWhere(A, &matrix));
    PetscCall(IDRSVecWhere(x, &from));
    PetscCall(IDRSVecWhere(y, &to));
    if (matrix == IDRS_MEMORY_CUDA && from == IDRS_MEMORY_CUDA && to == IDRS_MEMORY_CUDA) *ops = &IDRSMatchingBackEnds_CUDA;
  }
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
  MPI_Comm     comm = PetscObjectComm((PetscObject)A);
  IDRSMatching matching;
  double      *left, *right;
  PetscInt     n, begin, badrow, outerbadrow, least[2];
  Mat          block, outer;
  IDRSRows     rows;

  PetscFunctionBegin;
  PetscCall(PetscNew(&matching));
  *newmatching = matching;
  PetscCall(MatGetSize(A, &matching->N, NULL));
  PetscCall(MatGetLocalSize(A, &n, NULL));
  PetscCall(MatGetOwnershipRange(A, &begin, NULL));
  PetscCall(MatCreateVecs(A, &matching->right, &matching->left));
  PetscCall(PetscMalloc2(n + 1, &matching->column, n + 1, &matching->row)); /* NULL has a meaning in IDRSMatchingScale() */
  PetscCall(PetscMalloc2(n, &left, n, &right));
  matching->n = n;
  PetscCall(IDRSRowsGetBlocks(A, &block, &outer, NULL));
  PetscCall(IDRSMatchingFindBadRow(block, &badrow));
  PetscCall(IDRSMatchingFindBadRow(outer, &outerbadrow));
  if (badrow < 0 || (outerbadrow >= 0 && outerbadrow < badrow)) badrow = outerbadrow;
  if (badrow < 0) {
    PetscCall(IDRSRowsGet(block, &rows));
    if (entries < 0.0) entries = 5e7 + 5.0 * (PetscReal)rows.i[n];
    PetscCall(IDRSMatchRows(&rows, (double)entries, matching->column, left, right, &matching->rank));
    if (matching->rank >= 0) IDRSMatchingClipRows(&rows, log(MATCHING_LARGEST), left, right);
    PetscCall(IDRSRowsRestore(&rows));
  }
  /* all processes agree about the first bad row, and about giving up, where the rank is -1 */
  least[0] = badrow < 0 ? PETSC_MAX_INT : badrow + begin;
  least[1] = matching->rank;
  IDRSCallAllreduce(MPI_IN_PLACE, least, 2, MPIU_INT, MPI_MIN, comm);
  matching->badrow = least[0] < PETSC_MAX_INT ? least[0] : -1;
  if (matching->badrow >= 0)
    PetscCall(PetscInfo(A, "No matching: row %" PetscInt_FMT " has an infinite entry or NaN\n", matching->badrow));
  else if (least[1] < 0) {
    PetscCall(PetscInfo(A, "No matching: its computation takes too long\n"));
    PetscCall(IDRSMatchingDestroy(newmatching));
  } else {
    PetscInt sums[2] = {matching->rank, 0};

    for (PetscInt i = 0; i < n; i++) {
      matching->row[matching->column[i]] = i;
      sums[1] += matching->column[i] != i;
      /* IDRSMatchRows() returns logarithms */
      left[i]  = exp(left[i]);
      right[i] = exp(right[i]);
    }
    IDRSCallAllreduce(MPI_IN_PLACE, sums, 2, MPIU_INT, MPI_SUM, comm);
    matching->rank  = sums[0];
    matching->moved = sums[1];
    if (matching->moved) PetscCall(VecDuplicate(matching->left, &matching->permuted));
    else {
      PetscCall(PetscObjectReference((PetscObject)matching->left));
      matching->permuted = matching->left;
    }
    PetscCall(IDRSMatchingSetScalings_Host(matching, left, right));
    PetscCall(IDRSMatchingSetRange(matching));
    PetscCall(PetscInfo(A, "A new matching moves %" PetscInt_FMT " of %" PetscInt_FMT " rows, scalings from %g to %g\n",
                        matching->moved, matching->N, (double)matching->range[0], (double)matching->range[1]));
  }
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
  const IDRSMatchingOps *ops;
  Mat                    block, outer;

  PetscFunctionBegin;
  *kept = PETSC_FALSE;
  if (matching->badrow >= 0) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSRowsGetBlocks(A, &block, &outer, NULL));
  PetscCall(IDRSMatchingGetBackEnd(A, matching->right, matching->right, &ops));
  PetscCall((*ops->update)(matching, block, outer, kept));
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
  if (!*matching) PetscFunctionReturn(PETSC_SUCCESS);
#if defined(PETSCIDRS_HAVE_CUDA)
  PetscCall(IDRSMatchingFreePlaces(*matching));
#endif
  PetscCall(PetscFree2((*matching)->column, (*matching)->row));
  PetscCall(VecDestroy(&(*matching)->left));
  PetscCall(VecDestroy(&(*matching)->right));
  PetscCall(VecDestroy(&(*matching)->permuted));
  PetscCall(VecDestroy(&(*matching)->work));
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
   IDRSMatchingScale - Multiplies entries of x, permuted or not, by d: y_i = d_i x_places(i)

   Input Parameters:
+ matching - the matching
. places   - matching->row for d P x, matching->column for d P^T x, NULL for d x
. d        - the factors
- x        - the vector

   Output Parameter:
. y - the products; it may be x
*/
PetscErrorCode IDRSMatchingScale(IDRSMatching matching, const PetscInt places[], Vec d, Vec x, Vec y)
{
  const IDRSMatchingOps *ops;
  Vec                    to = y;

  PetscFunctionBegin;
  if (!matching->moved) places = NULL;
  if (!places && x == y) {
    PetscCall(IDRSVecPointwiseMult(y, d, y));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  /* a permutation in place needs a copy */
  if (x == y) {
    if (!matching->work) PetscCall(VecDuplicate(matching->left, &matching->work));
    to = matching->work;
  }
  PetscCall(IDRSMatchingGetBackEnd(NULL, x, to, &ops));
  PetscCall((*ops->scale)(matching, places, d, x, to));
  if (to != y) PetscCall(VecCopy(to, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A matrix of the type of A with the permuted pattern, and all diagonal entries: if the block is structurally singular, some places
   of the diagonal have no entry of A, but factorizations need a place for the zero. It has the block size of A if, on all
   processes, the rows of each block of A become the rows of one block of A~, in any order. outer may be NULL
*/
static PetscErrorCode IDRSMatchingCreateMat(IDRSMatching matching, Mat A, Mat inner, Mat outer, const PetscInt garray[],
                                            Mat *newmat)
{
  const PetscInt n = matching->n;
  PetscInt       begin, bs, bscolumns, most = 0, *i, *j;
  PetscBool      stream, crl;
  IDRSRows       in, out = {0};

  PetscFunctionBegin;
  PetscCall(MatGetBlockSizes(A, &bs, &bscolumns));
  if (bs != bscolumns) bs = 1;
  if (bs > 1) {
    const PetscInt size = bs;

    for (PetscInt row = 0; row < n; row++) {
      /* the first row of the block is in another block of A~ */
      if (matching->column[row] / size != matching->column[row - row % size] / size) bs = 1;
    }
    IDRSCallAllreduce(MPI_IN_PLACE, &bs, 1, MPIU_INT, MPI_MIN, PetscObjectComm((PetscObject)A));
  }
  PetscCall(MatGetOwnershipRange(A, &begin, NULL));
  PetscCall(IDRSRowsGet(inner, &in));
  if (outer) PetscCall(IDRSRowsGet(outer, &out));
  PetscCall(PetscIntSumError(in.i[n], n, &most)); /* at most n zeros */
  PetscCall(PetscIntSumError(most, outer ? out.i[n] : 0, &most));
  PetscCall(PetscMalloc2(n + 1, &i, most, &j));
  i[0] = 0;
  for (PetscInt k = 0, q = 0; k < n; k++) {
    const PetscInt row     = matching->row[k]; /* of A, which becomes row k */
    PetscBool      missing = PETSC_TRUE;

    for (PetscInt p = in.i[row]; p < in.i[row + 1]; p++) {
      if (in.j[p] == k) missing = PETSC_FALSE;
      j[q++] = begin + in.j[p];
    }
    if (missing) j[q++] = begin + k;
    for (PetscInt p = outer ? out.i[row] : 0; outer && p < out.i[row + 1]; p++) j[q++] = garray[out.j[p]];
    i[k + 1] = q;
    PetscCall(PetscSortInt(i[k + 1] - i[k], j + i[k]));
  }
  if (outer) PetscCall(IDRSRowsRestore(&out));
  PetscCall(IDRSRowsRestore(&in));
  PetscCall(MatCreate(PetscObjectComm((PetscObject)A), newmat));
  PetscCall(MatSetSizes(*newmat, n, n, matching->N, matching->N));
  PetscCall(MatSetBlockSize(*newmat, bs));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &crl, MATSEQAIJCRL, MATMPIAIJCRL, ""));
  PetscCall(MatSetType(*newmat, crl ? MATAIJ : ((PetscObject)A)->type_name)); /* MATAIJCRL would not see the new values */
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
. B - the permuted and scaled matrix, of the type of A, or MATAIJ for MATAIJCRL
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
  PetscCall(IDRSMatchingGetBackEnd(A, matching->right, matching->right, &ops));
  PetscCall((*ops->fill)(matching, from[0], matching->right, to[0]));
  if (from[1]) {
    PetscInt   columns;
    IS         is;
    Vec        ghosts;
    VecScatter scatter;

    PetscCall(MatGetLocalSize(from[1], NULL, &columns));
    PetscCall(MatCreateVecs(from[1], &ghosts, NULL));
    PetscCall(ISCreateGeneral(PETSC_COMM_SELF, columns, garray, PETSC_USE_POINTER, &is));
    PetscCall(VecScatterCreate(matching->right, is, ghosts, NULL, &scatter));
    PetscCall(ISDestroy(&is));
    PetscCall(VecScatterBegin(scatter, matching->right, ghosts, INSERT_VALUES, SCATTER_FORWARD));
    PetscCall(VecScatterEnd(scatter, matching->right, ghosts, INSERT_VALUES, SCATTER_FORWARD));
    PetscCall((*ops->fill)(matching, from[1], ghosts, to[1]));
    PetscCall(VecScatterDestroy(&scatter));
    PetscCall(VecDestroy(&ghosts));
  }
  PetscCall(PetscObjectStateIncrease((PetscObject)*B));
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
  MPI_Comm     comm = PetscObjectComm((PetscObject)A);
  IDRSMatching matching;
  PetscInt     begin, badrow;
  const char  *why;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(A, MAT_CLASSID, 1);
  PetscCall(IDRSMatchingSupports(A, &why));
  PetscCheck(!why, comm, PETSC_ERR_SUP, "MatGetMatching() of a matrix of type %s: %s", ((PetscObject)A)->type_name, why);
  PetscCall(IDRSMatchingCreate(A, MATCHING_UNLIMITED, &matching));
  badrow = matching->badrow;
  if (badrow < 0 && rows) {
    /* row rows[i] of A becomes row i */
    PetscCall(MatGetOwnershipRange(A, &begin, NULL));
    for (PetscInt i = 0; i < matching->n; i++) matching->row[i] += begin;
    PetscCall(ISCreateGeneral(comm, matching->n, matching->row, PETSC_COPY_VALUES, rows));
    PetscCall(ISSetPermutation(*rows));
  }
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
  PetscCheck(badrow < 0, comm, PETSC_ERR_ARG_OUTOFRANGE, "MatGetMatching(): row %" PetscInt_FMT " has an infinite entry or NaN",
             badrow);
  PetscFunctionReturn(PETSC_SUCCESS);
}
