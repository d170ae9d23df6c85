/*
   Passes of both types of MATAIJSTREAM: arrays of their vectors, and on several processes what is exchanged before a pass

   A pass of L levels needs its first two vectors, D^{-1} and y of all ghosts within distance L. Ghosts are looked for distance
   after distance, as long as their rows are no more than those of the process, and its memory holds them beside the window. All
   processes agree on the distance, and on the levels of a pass.
*/
#include "aijstream.h"
#include <petscidrs/private/idrsrows.h>

/*
   More levels than these, those of PCPOLY with degree 32 and the product, take several passes: it is the GPU that passes wait for
   then, and ghosts would be many more
*/
#define MOST_LEVELS 33

struct _n_MatStreamGhosts {
  PetscInt         wanted, depth;
  PetscBool        limited; /* more rows of other processes would be too many */
  PetscObjectState states[3];
  PetscObjectId    id; /* of the diagonal block */
  IDRSStream       stream;
  size_t           limit, bytes;   /* of the stream's memory; of rows and entries */
  PetscInt         count, *global; /* the ghosts in the order of the stream */
  Vec              inverse, before, x, y;
  VecScatter       scatters[MOST_LEVELS + 1]; /* to those within this distance, or NULL */
  PetscObjectId    inverseid;                 /* of the D^{-1} that is there, 0: none on all processes; and its state */
  PetscObjectState inversestate;
};

static inline Mat_AIJStream *Data(Mat A)
{
  return (Mat_AIJStream *)A->spptr;
}

/* MatStreamGhostsDestroy_Private - Without what the stream has of them */
PetscErrorCode MatStreamGhostsDestroy_Private(MatStreamGhosts **ghosts)
{
  PetscFunctionBegin;
  if (!*ghosts) PetscFunctionReturn(PETSC_SUCCESS);
  for (PetscInt d = 0; d <= MOST_LEVELS; d++) PetscCall(VecScatterDestroy(&(*ghosts)->scatters[d]));
  PetscCall(VecDestroy(&(*ghosts)->inverse));
  PetscCall(VecDestroy(&(*ghosts)->before));
  PetscCall(VecDestroy(&(*ghosts)->x));
  PetscCall(VecDestroy(&(*ghosts)->y));
  PetscCall(PetscFree((*ghosts)->global));
  PetscCall(PetscFree(*ghosts));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The indices without those of the own rows and those that are known, in ascending order */
static PetscErrorCode TakeNew(Mat A, IS is, PetscInt known, const PetscInt columns[], PetscInt *count, PetscInt **others)
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
    while (k < known && columns[k] < indices[l]) k++;
    if ((indices[l] < begin || indices[l] >= end) && (k == known || columns[k] != indices[l])) (*others)[(*count)++] = indices[l];
  }
  PetscCall(ISRestoreIndices(is, &indices));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Whether these ghosts are too many here, as rows of passes with so many levels: more than the own rows, or more than a pass has
   room for. Their rows are taken to be as long as the own ones
*/
static PetscErrorCode TooMany(IDRSStream stream, PetscInt count, PetscInt levels, PetscBool *too)
{
  const IDRSStreamPattern pattern = stream->pattern;
  const double            entries = pattern->n ? (double)pattern->entries / (double)pattern->n : 0.0; /* of a row */
  const double            row     = pattern->n ? entries * (sizeof(PetscScalar) + sizeof(uint32_t)) + sizeof(uint32_t) : 0.0;
  const double            bytes   = (double)count * (row + (double)levels * sizeof(PetscScalar));
  IDRSStreamLayout        layout;
  size_t                  limit;

  PetscFunctionBegin;
  PetscCall(IDRSStreamGetLimit(stream, &limit));
  *too = (PetscBool)(count > pattern->n || bytes >= (double)limit);
  if (*too) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStreamFit(pattern, limit - (size_t)bytes, levels, &layout));
  *too = (PetscBool)(layout.levels < levels);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Rows of other processes, and columns of those, of an own one within the distance of the ghosts */
typedef struct {
  PetscInt  nrows, ncolumns;
  PetscInt *rows, *columns; /* in ascending order; the rows are among the columns */
} Near;

static PetscErrorCode NearDestroy(Near *near)
{
  PetscFunctionBegin;
  PetscCall(PetscFree(near->rows));
  PetscCall(PetscFree(near->columns));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The columns so far become rows, and these columns come */
static PetscErrorCode NearAdd(Near *near, PetscInt count, const PetscInt columns[])
{
  PetscInt *merged, all;

  PetscFunctionBegin;
  PetscCall(PetscMalloc1(near->ncolumns + count, &merged));
  PetscCall(PetscArraycpy(merged, near->columns, near->ncolumns));
  PetscCall(PetscArraycpy(merged + near->ncolumns, columns, count));
  all = near->ncolumns + count;
  PetscCall(PetscSortInt(all, merged));
  PetscCall(PetscFree(near->rows));
  near->rows     = near->columns;
  near->nrows    = near->ncolumns;
  near->columns  = merged;
  near->ncolumns = all;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Distance after distance from the columns of the block outside, up to the one wanted, or until some process has too many rows of
   others, or there are none that are farther away
*/
static PetscErrorCode FindNear(Mat A, IDRSStream stream, PetscInt count, const PetscInt columns[], PetscInt wanted,
                               MatStreamGhosts *ghosts, Near *near)
{
  PetscInt *found;

  PetscFunctionBegin;
  *near = (Near){.nrows = 0};
  PetscCall(PetscMalloc1(count, &found));
  PetscCall(PetscArraycpy(found, columns, count));
  PetscCall(NearAdd(near, count, found));
  ghosts->limited = PETSC_FALSE;
  for (ghosts->depth = 1; ghosts->depth < wanted; ghosts->depth++) {
    PetscBool too = PETSC_FALSE;
    int       any[2];
    IS        is;

    PetscCall(TooMany(stream, near->ncolumns, ghosts->depth + 1, &too));
    any[0] = too ? 1 : 0;
    any[1] = count > 0;
    IDRSCallAllreduce(MPI_IN_PLACE, any, 2, MPI_INT, MPI_MAX, PetscObjectComm((PetscObject)A));
    ghosts->limited = any[0] ? PETSC_TRUE : PETSC_FALSE;
    if (any[0]) break;
    if (!any[1]) {
      ghosts->depth = wanted;
      break;
    }
    PetscCall(ISCreateGeneral(PETSC_COMM_SELF, count, found, PETSC_OWN_POINTER, &is));
    PetscCall(MatIncreaseOverlap(A, 1, &is, 1));
    PetscCall(TakeNew(A, is, near->ncolumns, near->columns, &count, &found));
    PetscCall(NearAdd(near, count, found));
    PetscCall(ISDestroy(&is));
  }
  PetscCall(PetscFree(found));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The first index of the own columns, or of those of the process that has this row */
static PetscErrorCode OwnerColumns(Mat A, PetscInt row, PetscInt *begin, PetscInt *end)
{
  const PetscInt *ranges, *columnranges;
  PetscMPIInt     size;
  PetscInt        low = 0, high;

  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)A), &size));
  PetscCall(MatGetOwnershipRanges(A, &ranges));
  PetscCall(MatGetOwnershipRangesColumn(A, &columnranges));
  high = size;
  while (high - low > 1) {
    const PetscInt middle = (low + high) / 2;

    if (ranges[middle] <= row) low = middle;
    else high = middle;
  }
  *begin = columnranges[low];
  *end   = columnranges[low + 1];
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The rows of ghosts from their processes: entries of the diagonal blocks there come first. Index l of `all` is an own column, or
   one of a ghost
*/
static PetscErrorCode FetchRows(Mat A, const Near *near, PetscInt **i, PetscInt **split, PetscInt **j, PetscScalar **a)
{
  PetscInt begin, end, n, low = 0, *all, filled = 0;
  IDRSRows rows;
  IS       rowis, columnis;
  Mat     *submatrices;

  PetscFunctionBegin;
  PetscCall(MatGetOwnershipRangeColumn(A, &begin, &end));
  n = end - begin;
  PetscCall(PetscMalloc1(n + near->ncolumns, &all));
  while (low < near->ncolumns && near->columns[low] < begin) low++;
  for (PetscInt l = 0; l < near->ncolumns; l++) all[l < low ? l : l + n] = near->columns[l];
  for (PetscInt l = 0; l < n; l++) all[low + l] = begin + l;
  PetscCall(ISCreateGeneral(PETSC_COMM_SELF, near->nrows, near->rows, PETSC_COPY_VALUES, &rowis));
  PetscCall(ISCreateGeneral(PETSC_COMM_SELF, n + near->ncolumns, all, PETSC_COPY_VALUES, &columnis));
  PetscCall(MatCreateSubMatrices(A, 1, &rowis, &columnis, MAT_INITIAL_MATRIX, &submatrices));
  PetscCall(ISDestroy(&rowis));
  PetscCall(ISDestroy(&columnis));
  PetscCall(IDRSRowsGet(submatrices[0], &rows));
  PetscCall(PetscMalloc2(near->ncolumns + 1, i, near->ncolumns, split));
  PetscCall(PetscMalloc2(near->nrows ? rows.i[near->nrows] : 0, j, near->nrows ? rows.i[near->nrows] : 0, a));
  (*i)[0] = 0;
  for (PetscInt g = 0, row = 0; g < near->ncolumns; g++) {
    PetscInt first = 0, last = 0;

    (*split)[g] = filled;
    if (row < near->nrows && near->rows[row] == near->columns[g]) {
      PetscCall(OwnerColumns(A, near->rows[row], &first, &last));
      for (PetscInt outer = 0; outer < 2; outer++) {
        for (PetscInt p = rows.i[row]; p < rows.i[row + 1]; p++) {
          const PetscInt l = rows.j[p], column = all[l];

          if ((column >= first && column < last) == (outer == 1)) continue;
          (*j)[filled]   = l < low ? n + l : l < low + n ? l - low : l;
          (*a)[filled++] = rows.a[p];
        }
        if (!outer) (*split)[g] = filled;
      }
      row++;
    }
    (*i)[g + 1] = filled;
  }
  PetscCall(IDRSRowsRestore(&rows));
  PetscCall(MatDestroySubMatrices(1, &submatrices));
  PetscCall(PetscFree(all));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The stream gets ghosts up to the distance wanted, or to one that is possible */
static PetscErrorCode MakeGhosts(Mat A, Mat outside, const PetscInt columns[], IDRSStream stream, PetscInt wanted,
                                 MatStreamGhosts *ghosts)
{
  IDRSStreamGhostRows given;
  PetscInt            count, *i, *split, *j, *outerj;
  PetscScalar        *a;
  IDRSRows            outer;
  Near                near;

  PetscFunctionBegin;
  PetscCall(MatGetLocalSize(outside, NULL, &count));
  PetscCall(IDRSStreamSetGhosts(stream, 0, NULL));
  PetscCall(FindNear(A, stream, count, columns, wanted, ghosts, &near));
  PetscCall(FetchRows(A, &near, &i, &split, &j, &a));
  PetscCall(IDRSRowsGet(outside, &outer));
  PetscCall(PetscMalloc1(outer.n ? outer.i[outer.n] : 0, &outerj));
  for (PetscInt row = 0; row < outer.n; row++) {
    for (PetscInt p = outer.i[row]; p < outer.i[row + 1]; p++)
      PetscCall(PetscFindInt(columns[outer.j[p]], near.ncolumns, near.columns, &outerj[p]));
  }
  given = (IDRSStreamGhostRows){
    .count = near.ncolumns, .outeri = outer.i, .outerj = outerj, .outera = outer.a, .i = i, .split = split, .j = j, .a = a};
  PetscCall(IDRSStreamSetGhosts(stream, ghosts->depth, &given));
  PetscCall(IDRSRowsRestore(&outer));
  ghosts->count = stream->pattern->ghosts->count;
  ghosts->bytes = stream->pattern->ghosts->bytes;
  PetscCall(PetscMalloc1(ghosts->count, &ghosts->global));
  for (PetscInt g = 0; g < ghosts->count; g++) ghosts->global[g] = near.columns[stream->pattern->ghosts->given[g]];
  PetscCall(PetscFree(outerj));
  PetscCall(PetscFree2(j, a));
  PetscCall(PetscFree2(i, split));
  PetscCall(NearDestroy(&near));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Whether ghosts have other values, nonzeros or memory now, on any process, or there are none yet. Where some process has another
   D^{-1} than the one that ghosts are of, none has it any more: an exchange takes all processes
*/
static PetscErrorCode HasChanged(Mat A, Mat block, Mat outside, IDRSStream stream, Vec inverse, PetscObjectState states[3],
                                 PetscObjectId *id, size_t *limit, PetscBool *changed)
{
  MatStreamGhosts *ghosts       = Data(A)->deep;
  PetscObjectId    inverseid    = 0;
  PetscObjectState inversestate = 0;
  int              any[2];

  PetscFunctionBegin;
  states[2] = A->nonzerostate;
  PetscCall(PetscObjectStateGet((PetscObject)block, &states[0]));
  PetscCall(PetscObjectStateGet((PetscObject)outside, &states[1]));
  PetscCall(PetscObjectGetId((PetscObject)block, id));
  PetscCall(IDRSStreamGetLimit(stream, limit));
  any[0] = !ghosts || ghosts->limit != *limit || ghosts->stream != stream || ghosts->id != *id || !stream->pattern->ghosts;
  for (PetscInt s = 0; !any[0] && s < 3; s++) any[0] = ghosts->states[s] != states[s];
  if (inverse) {
    PetscCall(PetscObjectGetId((PetscObject)inverse, &inverseid));
    PetscCall(PetscObjectStateGet((PetscObject)inverse, &inversestate));
  }
  any[1] = inverse && ghosts && (ghosts->inverseid != inverseid || ghosts->inversestate != inversestate);
  IDRSCallAllreduce(MPI_IN_PLACE, any, 2, MPI_INT, MPI_MAX, PetscObjectComm((PetscObject)A));
  *changed = any[0] ? PETSC_TRUE : PETSC_FALSE;
  if (ghosts && any[1]) ghosts->inverseid = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The fewest levels of any process that fit in a pass */
static PetscErrorCode FitAll(Mat A, IDRSStream stream, PetscInt wanted, PetscInt *levels)
{
  IDRSStreamLayout layout;
  size_t           limit;

  PetscFunctionBegin;
  PetscCall(IDRSStreamGetLimit(stream, &limit));
  PetscCall(IDRSStreamFit(stream->pattern, limit, wanted, &layout));
  *levels = layout.levels;
  IDRSCallAllreduce(MPI_IN_PLACE, levels, 1, MPIU_INT, MPI_MIN, PetscObjectComm((PetscObject)A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   MatStreamReserve_Private - Memory for passes of so many levels, or of as many as possible: the same number on all processes

   Input Parameters:
+  A       - the matrix
.  inverse - D^{-1} of the passes, or NULL; its values are those of all passes until the next call
-  wanted  - levels, 1 or more

   Output Parameter:
.  levels - the most that a pass can have
*/
PetscErrorCode MatStreamReserve_Private(Mat A, Vec inverse, PetscInt wanted, PetscInt *levels)
{
  /* on several processes */
  const PetscInt   passes = (wanted + MOST_LEVELS - 1) / MOST_LEVELS, asked = (wanted + passes - 1) / passes;
  const PetscInt  *columns;
  PetscBool        parallel, changed = PETSC_FALSE;
  PetscObjectState states[3];
  PetscObjectId    id;
  PetscInt         reach = asked, mine;
  size_t           limit;
  IDRSStream       stream;
  Mat              block, outside;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJSTREAM, &parallel));
  if (!parallel) {
    PetscCall(MatStreamGet_Private(A, &stream));
    PetscCall(IDRSStreamReserve(stream, wanted, levels));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(MatStreamGetBlock_Private(A, &block, &outside, &columns));
  PetscCall(MatStreamGet_Private(block, &stream));
  PetscCall(HasChanged(A, block, outside, stream, inverse, states, &id, &limit, &changed));
  *levels = 0;
  while (changed || (Data(A)->deep->wanted < asked && !Data(A)->deep->limited) || !*levels) {
    MatStreamGhosts *ghosts = Data(A)->deep;

    if (changed || (ghosts->wanted < asked && !ghosts->limited)) {
      PetscCall(MatStreamGhostsDestroy_Private(&Data(A)->deep));
      PetscCall(PetscNew(&ghosts));
      Data(A)->deep = ghosts;
      PetscCall(MakeGhosts(A, outside, columns, stream, reach, ghosts));
      PetscCall(PetscArraycpy(ghosts->states, states, 3));
      ghosts->id     = id;
      ghosts->limit  = limit;
      ghosts->stream = stream;
      ghosts->wanted = asked;
      if (reach < asked) ghosts->limited = PETSC_TRUE;
    }
    PetscCall(FitAll(A, stream, PetscMin(asked, ghosts->depth), levels));
    changed = PETSC_FALSE;
    if (!*levels) { /* with fewer ghosts */
      PetscCheck(ghosts->depth > 1, PetscObjectComm((PetscObject)A), PETSC_ERR_MEM,
                 "-mat_stream_memory is too small for the chunks of this matrix on some process; -mat_stream_chunk makes smaller "
                 "ones of rows that are not longer");
      reach   = ghosts->depth / 2;
      changed = PETSC_TRUE;
    }
  }
  PetscCall(IDRSStreamReserve(stream, PetscMin(asked, Data(A)->deep->depth), &mine));
  *levels = PetscMin(mine,
                     Data(A)->deep->depth); /* there may be memory for more levels, or for fewer than in a layout for this number */
  IDRSCallAllreduce(MPI_IN_PLACE, levels, 1, MPIU_INT, MPI_MIN, PetscObjectComm((PetscObject)A));
  if (*levels < wanted)
    PetscCall(PetscInfo(A, "Passes of %" PetscInt_FMT " levels instead of %" PetscInt_FMT ": there are no more ghosts%s\n", *levels,
                        wanted, Data(A)->deep->limited ? ", as more would be too many" : ""));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The ghosts of a vector within this distance, to a vector of them, which is made for the first one */
static PetscErrorCode Exchange(MatStreamGhosts *ghosts, IDRSStreamGhosts order, PetscInt distance, Vec x, Vec *to)
{
  VecScatter *scatter = &ghosts->scatters[distance];

  PetscFunctionBegin;
  if (!*to) {
    Vec local;

    PetscCall(VecCreateLocalVector(x, &local)); /* of the type that the ghosts are to have */
    PetscCall(VecCreate(PETSC_COMM_SELF, to));
    PetscCall(VecSetSizes(*to, ghosts->count, ghosts->count));
    PetscCall(VecSetType(*to, ((PetscObject)local)->type_name));
    PetscCall(VecDestroy(&local));
  }
  if (!*scatter) {
    PetscInt *from, *places, count = 0;
    IS        fromis, placeis;

    PetscCall(PetscMalloc2(ghosts->count, &from, ghosts->count, &places));
    for (PetscInt g = 0; g < ghosts->count; g++) {
      if (order->distance[g] > distance) continue;
      from[count]     = ghosts->global[g];
      places[count++] = g;
    }
    PetscCall(ISCreateGeneral(PETSC_COMM_SELF, count, from, PETSC_COPY_VALUES, &fromis));
    PetscCall(ISCreateGeneral(PETSC_COMM_SELF, count, places, PETSC_COPY_VALUES, &placeis));
    PetscCall(VecScatterCreate(x, fromis, *to, placeis, scatter));
    PetscCall(ISDestroy(&fromis));
    PetscCall(ISDestroy(&placeis));
    PetscCall(PetscFree2(from, places));
  }
  PetscCall(VecScatterBegin(*scatter, x, *to, INSERT_VALUES, SCATTER_FORWARD));
  PetscCall(VecScatterEnd(*scatter, x, *to, INSERT_VALUES, SCATTER_FORWARD));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* What a pass reads of ghosts, and y, where the pass ends with a product with it */
static PetscErrorCode ExchangeAll(MatStreamGhosts *ghosts, const MatStreamVecs *vecs, const IDRSStreamSequence *sequence)
{
  const PetscInt   L     = sequence->levels;
  IDRSStreamGhosts order = ghosts->stream->pattern->ghosts;

  PetscFunctionBegin;
  if (vecs->x) PetscCall(Exchange(ghosts, order, L, vecs->x, &ghosts->x));
  if (sequence->begin && vecs->before) PetscCall(Exchange(ghosts, order, L, vecs->before, &ghosts->before));
  if (vecs->y && sequence->product) PetscCall(Exchange(ghosts, order, L, vecs->y, &ghosts->y));
  if (vecs->inverse && !ghosts->inverseid) {
    PetscCall(Exchange(ghosts, order, ghosts->depth, vecs->inverse, &ghosts->inverse));
    PetscCall(PetscObjectGetId((PetscObject)vecs->inverse, &ghosts->inverseid));
    PetscCall(PetscObjectStateGet((PetscObject)vecs->inverse, &ghosts->inversestate));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode GetRead(Vec v, const PetscScalar **array)
{
  PetscFunctionBegin;
  *array = NULL;
  if (v) PetscCall(VecGetArrayReadAndMemType(v, array, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode RestoreRead(Vec v, const PetscScalar **array)
{
  PetscFunctionBegin;
  if (v) PetscCall(VecRestoreArrayReadAndMemType(v, array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Arrays of ghosts around the pass */
static PetscErrorCode PassWithGhosts(MatStreamGhosts *ghosts, IDRSStreamSequence *sequence)
{
  PetscFunctionBegin;
  sequence->ghosts = PETSC_TRUE;
  PetscCall(GetRead(ghosts->x, &sequence->ghostx));
  PetscCall(GetRead(ghosts->before, &sequence->ghostbefore));
  PetscCall(GetRead(ghosts->inverse, &sequence->ghostinverse));
  if (ghosts->y) PetscCall(VecGetArrayAndMemType(ghosts->y, &sequence->ghosty, NULL));
  PetscCall(IDRSStreamPass(ghosts->stream, sequence));
  if (ghosts->y) PetscCall(VecRestoreArrayAndMemType(ghosts->y, &sequence->ghosty));
  PetscCall(RestoreRead(ghosts->inverse, &sequence->ghostinverse));
  PetscCall(RestoreRead(ghosts->before, &sequence->ghostbefore));
  PetscCall(RestoreRead(ghosts->x, &sequence->ghostx));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   MatStreamPass_Private - A pass, of not more levels than MatStreamReserve_Private() has given since

   Input Parameters:
+  A        - the matrix
.  vecs     - the vectors
-  sequence - levels and coefficients; its arrays are set here
*/
PetscErrorCode MatStreamPass_Private(Mat A, const MatStreamVecs *vecs, IDRSStreamSequence *sequence)
{
  const PetscBool  continues = (PetscBool)(sequence->adds || sequence->begin); /* y has something already */
  MatStreamGhosts *ghosts    = Data(A)->deep;
  PetscBool        parallel;
  Vec              before = vecs->before;
  IDRSStream       stream;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJSTREAM, &parallel));
  if (parallel) PetscCall(ExchangeAll(ghosts, vecs, sequence));
  else PetscCall(MatStreamGet_Private(A, &stream));
  if (vecs->y && continues) PetscCall(VecGetArrayAndMemType(vecs->y, &sequence->y, NULL));
  else if (vecs->y) PetscCall(VecGetArrayWriteAndMemType(vecs->y, &sequence->y, NULL));
  for (PetscInt l = 0; l < sequence->levels; l++) {
    sequence->v[l] = NULL;
    if (vecs->v[l]) PetscCall(VecGetArrayWriteAndMemType(vecs->v[l], &sequence->v[l], NULL));
    if (vecs->v[l] && vecs->v[l] == vecs->before) {
      sequence->before = sequence->v[l];
      before           = NULL;
    }
  }
  PetscCall(GetRead(vecs->inverse, &sequence->inverse));
  PetscCall(GetRead(vecs->x, &sequence->x));
  if (before) PetscCall(GetRead(before, &sequence->before));
  if (parallel) PetscCall(PassWithGhosts(ghosts, sequence));
  else PetscCall(IDRSStreamPass(stream, sequence));
  PetscCall(RestoreRead(before, &sequence->before));
  PetscCall(RestoreRead(vecs->x, &sequence->x));
  PetscCall(RestoreRead(vecs->inverse, &sequence->inverse));
  for (PetscInt l = sequence->levels - 1; l >= 0; l--) {
    if (vecs->v[l]) PetscCall(VecRestoreArrayWriteAndMemType(vecs->v[l], &sequence->v[l]));
  }
  if (vecs->y && continues) PetscCall(VecRestoreArrayAndMemType(vecs->y, &sequence->y));
  else if (vecs->y) PetscCall(VecRestoreArrayWriteAndMemType(vecs->y, &sequence->y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* MatStreamGhostsView_Private - What several processes have of each other's rows */
PetscErrorCode MatStreamGhostsView_Private(Mat A, PetscViewer viewer)
{
  const MatStreamGhosts *ghosts = Data(A)->deep;
  PetscLogDouble         sums[2];

  PetscFunctionBegin;
  if (!ghosts) PetscFunctionReturn(PETSC_SUCCESS);
  sums[0] = (PetscLogDouble)ghosts->count;
  sums[1] = (PetscLogDouble)ghosts->bytes;
  IDRSCallAllreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, PetscObjectComm((PetscObject)A));
  PetscCall(PetscViewerASCIIPrintf(viewer,
                                   "  columns of other processes for passes of up to %" PetscInt_FMT
                                   " levels%s: %g, with %g bytes of rows and entries on the devices\n",
                                   ghosts->depth, ghosts->limited ? ", as for more they would be too many" : "", (double)sums[0],
                                   (double)sums[1]));
  PetscFunctionReturn(PETSC_SUCCESS);
}
