/*
   Ghosts of a MATMPIAIJSTREAM: rows of other processes that a pass with several levels computes in addition to the own rows

   A pass of L levels needs its first two vectors, D^{-1} and y of all ghosts within distance L. Ghosts are searched with increasing
   distance, until there are more rows of ghosts than own rows, or until they do not fit in the memory with the window. All
   processes agree on the distance
*/
#include "matstream.h"
#include <petscidrs/private/idrsrows.h>

/* MatStreamGhostsDestroy_Private - Destroys the vectors and scatters of ghosts; the stream keeps their rows */
PetscErrorCode MatStreamGhostsDestroy_Private(MatStreamGhosts **ghosts)
{
  PetscFunctionBegin;
  if (!*ghosts) PetscFunctionReturn(PETSC_SUCCESS);
  for (PetscInt d = 0; d <= MATSTREAM_MAX_LEVELS; d++) PetscCall(VecScatterDestroy(&(*ghosts)->scatters[d]));
  PetscCall(VecDestroy(&(*ghosts)->inverse));
  PetscCall(VecDestroy(&(*ghosts)->before));
  PetscCall(VecDestroy(&(*ghosts)->x));
  PetscCall(VecDestroy(&(*ghosts)->y));
  PetscCall(PetscFree((*ghosts)->global));
  PetscCall(PetscFree(*ghosts));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Rows of other processes within the distance of the ghosts, and their columns that are of other processes; in ascending order */
typedef struct {
  PetscInt  nrows, ncolumns;
  PetscInt *rows, *columns; /* the rows are among the columns */
} MatStreamOverlap;

/* Increases the distance by one: the columns become rows, and these columns are added */
static PetscErrorCode MatStreamOverlapAdd(MatStreamOverlap *overlap, PetscInt count, const PetscInt columns[])
{
  const PetscInt known = overlap->ncolumns;
  PetscInt      *merged;

  PetscFunctionBegin;
  PetscCall(PetscMalloc1(known + count, &merged));
  PetscCall(PetscArraycpy(merged, overlap->columns, known));
  PetscCall(PetscArraycpy(merged + known, columns, count));
  PetscCall(PetscSortInt(known + count, merged));
  PetscCall(PetscFree(overlap->rows));
  *overlap = (MatStreamOverlap){.nrows = known, .rows = overlap->columns, .ncolumns = known + count, .columns = merged};
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the indices that are neither of own rows nor in the overlap, in ascending order */
static PetscErrorCode MatStreamOverlapSelectNew(const MatStreamOverlap *overlap, Mat A, IS is, PetscInt *count, PetscInt **others)
{
  const PetscInt *indices;
  PetscInt        begin, end, n, k = 0;

  PetscFunctionBegin;
  *count = 0;
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  PetscCall(ISSort(is));
  PetscCall(ISGetLocalSize(is, &n));
  PetscCall(ISGetIndices(is, &indices));
  PetscCall(PetscMalloc1(n, others));
  for (PetscInt l = 0; l < n; l++) {
    while (k < overlap->ncolumns && overlap->columns[k] < indices[l]) k++;
    if ((indices[l] < begin || indices[l] >= end) && (k == overlap->ncolumns || overlap->columns[k] != indices[l]))
      (*others)[(*count)++] = indices[l];
  }
  PetscCall(ISRestoreIndices(is, &indices));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Returns if this number of ghosts with rows is too large on this process for passes with this number of levels: more than own
   rows, or more than the memory of a pass holds
*/
static PetscErrorCode MatStreamGhostsAreTooMany(IDRSStream stream, PetscInt count, PetscInt levels, PetscBool *too)
{
  const IDRSStreamPattern pattern = stream->pattern;
  /* their rows are estimated to be as long as the own ones */
  const double     entries = pattern->n ? (double)pattern->entries / (double)pattern->n : 0.0;
  const double     row     = pattern->n ? entries * (sizeof(PetscScalar) + sizeof(uint32_t)) + sizeof(uint32_t) : 0.0;
  const double     bytes   = (double)count * (row + (double)levels * sizeof(PetscScalar));
  IDRSStreamLayout layout;
  size_t           limit;

  PetscFunctionBegin;
  PetscCall(IDRSStreamGetLimit(stream, &limit));
  *too = (PetscBool)(count > pattern->n || bytes >= (double)limit);
  if (*too) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStreamFit(pattern, limit - (size_t)bytes, levels, &layout));
  *too = (PetscBool)(layout.levels < levels);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Finds ghosts, distance after distance, from the columns of the block outside up to the distance wanted, or until some process has
   too many of them, or no process has any that are farther away
*/
static PetscErrorCode MatStreamOverlapFind(Mat A, IDRSStream stream, PetscInt count, const PetscInt columns[],
                                           MatStreamGhosts *ghosts, MatStreamOverlap *overlap)
{
  PetscInt *found;

  PetscFunctionBegin;
  *overlap = (MatStreamOverlap){.nrows = 0};
  PetscCall(PetscMalloc1(count, &found));
  PetscCall(PetscArraycpy(found, columns, count));
  PetscCall(MatStreamOverlapAdd(overlap, count, found));
  for (ghosts->depth = 1; ghosts->depth < ghosts->wanted; ghosts->depth++) {
    PetscBool too = PETSC_FALSE;
    int       any[2];
    IS        is;

    PetscCall(MatStreamGhostsAreTooMany(stream, overlap->ncolumns, ghosts->depth + 1, &too));
    /* all processes stop at the same distance: too many ghosts on any of them, or none found on all of them */
    any[0] = too ? 1 : 0;
    any[1] = count > 0;
    IDRSCallAllreduce(MPI_IN_PLACE, any, 2, MPI_INT, MPI_MAX, PetscObjectComm((PetscObject)A));
    ghosts->limited = any[0] ? PETSC_TRUE : PETSC_FALSE;
    if (any[0]) break;
    if (!any[1]) {
      ghosts->depth = ghosts->wanted;
      break;
    }
    PetscCall(ISCreateGeneral(PETSC_COMM_SELF, count, found, PETSC_OWN_POINTER, &is));
    PetscCall(MatIncreaseOverlap(A, 1, &is, 1));
    PetscCall(MatStreamOverlapSelectNew(overlap, A, is, &count, &found));
    PetscCall(MatStreamOverlapAdd(overlap, count, found));
    PetscCall(ISDestroy(&is));
  }
  PetscCall(PetscFree(found));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Rows of ghosts, in the columns of IDRSStreamGhostRows, whose arrays they are */
typedef struct {
  PetscInt    *i, *split, *j;
  PetscScalar *a;
} MatStreamGhostRows;

/* Gets the rows of ghosts from their processes. In each row, entries of the diagonal block of the owner are first */
static PetscErrorCode MatStreamGetGhostRows(Mat A, const MatStreamOverlap *overlap, MatStreamGhostRows *ghosts)
{
  PetscInt begin, end, n, low = 0, *all, filled = 0;
  IDRSRows rows;
  IS       rowis, columnis;
  Mat     *submatrices;

  PetscFunctionBegin;
  PetscCall(MatGetOwnershipRangeColumn(A, &begin, &end));
  n = end - begin;
  /* columns of the submatrix: columns of ghosts and the own columns between them, in ascending order */
  PetscCall(PetscMalloc1(n + overlap->ncolumns, &all));
  while (low < overlap->ncolumns && overlap->columns[low] < begin) low++;
  for (PetscInt l = 0; l < overlap->ncolumns; l++) all[l < low ? l : l + n] = overlap->columns[l];
  for (PetscInt l = 0; l < n; l++) all[low + l] = begin + l;
  PetscCall(ISCreateGeneral(PETSC_COMM_SELF, overlap->nrows, overlap->rows, PETSC_COPY_VALUES, &rowis));
  PetscCall(ISCreateGeneral(PETSC_COMM_SELF, n + overlap->ncolumns, all, PETSC_COPY_VALUES, &columnis));
  PetscCall(MatCreateSubMatrices(A, 1, &rowis, &columnis, MAT_INITIAL_MATRIX, &submatrices));
  PetscCall(ISDestroy(&rowis));
  PetscCall(ISDestroy(&columnis));
  /* of each row the columns that its owner has in its diagonal block, then the others */
  PetscCall(IDRSRowsGet(submatrices[0], &rows));
  PetscCall(PetscMalloc2(overlap->ncolumns + 1, &ghosts->i, overlap->ncolumns, &ghosts->split));
  PetscCall(
    PetscMalloc2(overlap->nrows ? rows.i[overlap->nrows] : 0, &ghosts->j, overlap->nrows ? rows.i[overlap->nrows] : 0, &ghosts->a));
  ghosts->i[0] = 0;
  for (PetscInt g = 0, row = 0; g < overlap->ncolumns; g++) {
    ghosts->split[g] = filled;
    if (row < overlap->nrows && overlap->rows[row] == overlap->columns[g]) {
      PetscMPIInt owner;

      PetscCall(PetscLayoutFindOwner(A->rmap, overlap->rows[row], &owner));
      for (PetscInt outer = 0; outer < 2; outer++) {
        for (PetscInt p = rows.i[row]; p < rows.i[row + 1]; p++) {
          const PetscInt l = rows.j[p], column = all[l];

          if ((column >= A->cmap->range[owner] && column < A->cmap->range[owner + 1]) == (outer == 1)) continue;
          ghosts->j[filled]   = l < low ? n + l : l < low + n ? l - low : l;
          ghosts->a[filled++] = rows.a[p];
        }
        if (!outer) ghosts->split[g] = filled;
      }
      row++;
    }
    ghosts->i[g + 1] = filled;
  }
  PetscCall(IDRSRowsRestore(&rows));
  PetscCall(MatDestroySubMatrices(1, &submatrices));
  PetscCall(PetscFree(all));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the ghosts of the overlap in the stream */
static PetscErrorCode MatStreamSetGhosts(Mat A, Mat outside, const PetscInt columns[], const MatStreamOverlap *overlap,
                                         IDRSStream stream, PetscInt depth)
{
  MatStreamGhostRows rows;
  IDRSRows           outer;
  PetscInt          *outerj;

  PetscFunctionBegin;
  PetscCall(MatStreamGetGhostRows(A, overlap, &rows));
  PetscCall(IDRSRowsGet(outside, &outer));
  /* columns of the block outside become numbers of ghosts */
  PetscCall(PetscMalloc1(outer.n ? outer.i[outer.n] : 0, &outerj));
  for (PetscInt row = 0; row < outer.n; row++) {
    for (PetscInt p = outer.i[row]; p < outer.i[row + 1]; p++)
      PetscCall(PetscFindInt(columns[outer.j[p]], overlap->ncolumns, overlap->columns, &outerj[p]));
  }
  PetscCall(IDRSStreamSetGhosts(stream, depth,
                                &(IDRSStreamGhostRows){.count  = overlap->ncolumns,
                                                       .outeri = outer.i,
                                                       .outerj = outerj,
                                                       .outera = outer.a,
                                                       .i      = rows.i,
                                                       .split  = rows.split,
                                                       .j      = rows.j,
                                                       .a      = rows.a}));
  PetscCall(IDRSRowsRestore(&outer));
  PetscCall(PetscFree(outerj));
  PetscCall(PetscFree2(rows.j, rows.a));
  PetscCall(PetscFree2(rows.i, rows.split));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   MatStreamGhostsCreate_Private - Sets ghosts of the stream of the diagonal block up to the distance wanted, or to the largest
   possible one, for the block outside the diagonal and its columns
*/
PetscErrorCode MatStreamGhostsCreate_Private(Mat A, Mat outside, const PetscInt columns[], IDRSStream stream, PetscInt wanted,
                                             MatStreamGhosts **newghosts)
{
  MatStreamGhosts *ghosts;
  PetscInt         count;
  MatStreamOverlap overlap;

  PetscFunctionBegin;
  PetscCall(PetscNew(&ghosts));
  *newghosts     = ghosts;
  ghosts->wanted = wanted;
  PetscCall(MatGetLocalSize(outside, NULL, &count));
  PetscCall(IDRSStreamSetGhosts(stream, 0, NULL));
  PetscCall(MatStreamOverlapFind(A, stream, count, columns, ghosts, &overlap));
  PetscCall(MatStreamSetGhosts(A, outside, columns, &overlap, stream, ghosts->depth));
  ghosts->count = stream->pattern->ghosts->count;
  ghosts->bytes = stream->pattern->ghosts->bytes;
  PetscCall(PetscMalloc1(ghosts->count, &ghosts->global));
  for (PetscInt g = 0; g < ghosts->count; g++) ghosts->global[g] = overlap.columns[stream->pattern->ghosts->source[g]];
  PetscCall(PetscFree(overlap.rows));
  PetscCall(PetscFree(overlap.columns));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a vector for the ghosts of x, with the type of x on one process */
static PetscErrorCode MatStreamGhostsCreateVec(const MatStreamGhosts *ghosts, Vec x, Vec *newvec)
{
  Vec local;

  PetscFunctionBegin;
  PetscCall(VecCreateLocalVector(x, &local));
  PetscCall(VecCreate(PETSC_COMM_SELF, newvec));
  PetscCall(VecSetSizes(*newvec, ghosts->count, ghosts->count));
  PetscCall(VecSetType(*newvec, ((PetscObject)local)->type_name));
  PetscCall(VecDestroy(&local));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates the scatter from x to the ghosts within this distance */
static PetscErrorCode MatStreamGhostsCreateScatter(const MatStreamGhosts *ghosts, PetscInt distance, Vec x, Vec to,
                                                   VecScatter *scatter)
{
  const IDRSStreamGhosts order = ghosts->version.stream->pattern->ghosts;
  PetscInt              *from, *places, count = 0;
  IS                     fromis, placeis;

  PetscFunctionBegin;
  PetscCall(PetscMalloc2(ghosts->count, &from, ghosts->count, &places));
  for (PetscInt g = 0; g < ghosts->count; g++) {
    if (order->distance[g] > distance) continue;
    from[count]     = ghosts->global[g];
    places[count++] = g;
  }
  PetscCall(ISCreateGeneral(PETSC_COMM_SELF, count, from, PETSC_COPY_VALUES, &fromis));
  PetscCall(ISCreateGeneral(PETSC_COMM_SELF, count, places, PETSC_COPY_VALUES, &placeis));
  PetscCall(VecScatterCreate(x, fromis, to, placeis, scatter));
  PetscCall(ISDestroy(&fromis));
  PetscCall(ISDestroy(&placeis));
  PetscCall(PetscFree2(from, places));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Gets the ghosts of x within this distance */
static PetscErrorCode MatStreamGhostsExchangeVec(MatStreamGhosts *ghosts, PetscInt distance, Vec x, Vec *to)
{
  VecScatter *scatter = &ghosts->scatters[distance];

  PetscFunctionBegin;
  /* one vector for all passes, and a scatter for each distance */
  if (!*to) PetscCall(MatStreamGhostsCreateVec(ghosts, x, to));
  if (!*scatter) PetscCall(MatStreamGhostsCreateScatter(ghosts, distance, x, *to, scatter));
  PetscCall(VecScatterBegin(*scatter, x, *to, INSERT_VALUES, SCATTER_FORWARD));
  PetscCall(VecScatterEnd(*scatter, x, *to, INSERT_VALUES, SCATTER_FORWARD));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamGhostsExchange_Private - Gets the ghosts of all vectors that a pass reads */
PetscErrorCode MatStreamGhostsExchange_Private(MatStreamGhosts *ghosts, const MatStreamVecs *vecs,
                                               const IDRSStreamSequence *sequence)
{
  const PetscInt L = sequence->levels;

  PetscFunctionBegin;
  if (vecs->x) PetscCall(MatStreamGhostsExchangeVec(ghosts, L, vecs->x, &ghosts->x));
  if (sequence->begin && vecs->before) PetscCall(MatStreamGhostsExchangeVec(ghosts, L, vecs->before, &ghosts->before));
  /* the product with y reads y by columns */
  if (vecs->y && sequence->product) PetscCall(MatStreamGhostsExchangeVec(ghosts, L, vecs->y, &ghosts->y));
  /* D^{-1} once, for all distances */
  if (vecs->inverse && !ghosts->inverseid) {
    PetscCall(MatStreamGhostsExchangeVec(ghosts, ghosts->depth, vecs->inverse, &ghosts->inverse));
    PetscCall(PetscObjectGetId((PetscObject)vecs->inverse, &ghosts->inverseid));
    PetscCall(PetscObjectStateGet((PetscObject)vecs->inverse, &ghosts->inversestate));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamGhostsView_Private - Views the ghosts of all processes, if there are any */
PetscErrorCode MatStreamGhostsView_Private(Mat A, const MatStreamGhosts *ghosts, PetscViewer viewer)
{
  PetscLogDouble sums[2];

  PetscFunctionBegin;
  if (!ghosts) PetscFunctionReturn(PETSC_SUCCESS);
  sums[0] = (PetscLogDouble)ghosts->count;
  sums[1] = (PetscLogDouble)ghosts->bytes;
  IDRSCallAllreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, PetscObjectComm((PetscObject)A));
  PetscCall(PetscViewerASCIIPrintf(viewer,
                                   "  columns of other processes for passes of up to %" PetscInt_FMT
                                   " levels: %g, with %g bytes of rows and entries on the devices%s\n",
                                   ghosts->depth, (double)sums[0], (double)sums[1],
                                   ghosts->limited ? "; more levels would need too many ghosts" : ""));
  PetscFunctionReturn(PETSC_SUCCESS);
}
