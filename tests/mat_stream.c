static char help[] = "Matrices that are streamed to a device: chunks, packed columns and the order of a pass compared with plain\n\
searches of the graph, for real matrices and for empty rows, a dense row and rows longer than a chunk;\n\
passes on an emulated device, with various orders of copies and computations.\n\
  -matrices <directory> - where the real matrices are\n\n";

#include "../tutorials/matrixmarket.h"
#include "harness.h"
#include "streamdevice.h"

/* A matrix by rows */
typedef struct {
  char         name[32];
  PetscInt     n, *i, *j;
  PetscInt    *entry; /* first entry of each row in the matrix that has these rows in another order; NULL: i */
  PetscScalar *a;
} Rows;

/* Generated matrices */
typedef enum {
  EMPTY,
  ONE,    /* one row */
  GRID,   /* 24 x 24 x 4 points */
  GAPS,   /* most rows are empty, also the last ones */
  DENSE,  /* one row has all columns */
  COLUMN, /* all rows have one column */
  ARROW,  /* the last row has all columns */
  FAR,    /* columns anywhere */
  UPPER,  /* columns behind the diagonal only */
  KINDS
} Kind;
static const char *const kinds[] = {"no rows",      "one row", "grid",        "gaps",          "dense row",
                                    "dense column", "arrow",   "far columns", "upper triangle"};
static const PetscInt    sizes[] = {0, 1, 2304, 700, 900, 900, 900, 600, 500};

static PetscBool HasEntry(Kind kind, PetscInt n, PetscInt row, PetscInt column)
{
  const PetscInt d = PetscAbsInt(column - row);

  switch (kind) {
  case GRID:
    return (PetscBool)(d == 0 || (d == 1 && PetscMax(row, column) % 24) || (d == 24 && PetscMax(row, column) / 24 % 24) ||
                       d == 576);
  case GAPS:
    return (PetscBool)(row % 7 == 3 && row < n - 90 && (column == row || column == n - 1 - row));
  case DENSE:
    return (PetscBool)(d <= 1 || row == n / 3);
  case COLUMN:
    return (PetscBool)(d <= 1 || column == n / 3);
  case ARROW:
    return (PetscBool)(d == 0 || row == n - 1);
  case FAR:
    return (PetscBool)(Bits(7, (uint64_t)(row * n + column)) % 97 < 2);
  case UPPER:
    return (PetscBool)(column > row && d < 40);
  default:
    return PETSC_TRUE;
  }
}

static PetscErrorCode RowsGenerate(Kind kind, Rows *rows)
{
  const PetscInt n     = sizes[kind];
  PetscInt       count = 0;

  PetscFunctionBeginUser;
  PetscCall(PetscStrncpy(rows->name, kinds[kind], sizeof(rows->name)));
  rows->entry = NULL;
  for (PetscInt row = 0; row < n; row++) {
    for (PetscInt column = 0; column < n; column++) count += HasEntry(kind, n, row, column) ? 1 : 0;
  }
  rows->n = n;
  PetscCall(PetscMalloc3(n + 1, &rows->i, count, &rows->j, count, &rows->a));
  rows->i[0] = count = 0;
  for (PetscInt row = 0; row < n; row++) {
    for (PetscInt column = 0; column < n; column++) {
      if (!HasEntry(kind, n, row, column)) continue;
      rows->j[count] = column;
      rows->a[count] = Number(3, (uint64_t)count);
      count++;
    }
    rows->i[row + 1] = count;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode RowsRead(const char directory[], const char name[], Rows *rows)
{
  char               file[PETSC_MAX_PATH_LEN];
  Mat                A;
  const PetscInt    *i, *j;
  const PetscScalar *a;
  PetscReal          norm;
  PetscBool          done;

  PetscFunctionBeginUser;
  PetscCall(PetscStrncpy(rows->name, name, sizeof(rows->name)));
  rows->entry = NULL;
  PetscCall(PetscSNPrintf(file, sizeof(file), "%s/%s.mtx.gz", directory, name));
  PetscCall(MatLoadMatrixMarket(PETSC_COMM_SELF, file, &A));
  PetscCall(MatNorm(A, NORM_INFINITY, &norm));
  PetscCall(MatScale(A, 1.0 / norm)); /* in single precision powers of A would overflow */
  PetscCall(MatGetRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &rows->n, &i, &j, &done));
  PetscCall(MatSeqAIJGetArrayRead(A, &a));
  PetscCall(PetscMalloc3(rows->n + 1, &rows->i, i[rows->n], &rows->j, i[rows->n], &rows->a));
  PetscCall(PetscArraycpy(rows->i, i, rows->n + 1));
  PetscCall(PetscArraycpy(rows->j, j, i[rows->n]));
  PetscCall(PetscArraycpy(rows->a, a, i[rows->n]));
  PetscCall(MatSeqAIJRestoreArrayRead(A, &a));
  PetscCall(MatRestoreRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, NULL, &i, &j, &done));
  PetscCall(MatDestroy(&A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode RowsFree(Rows *rows)
{
  PetscFunctionBeginUser;
  PetscCall(PetscFree3(rows->i, rows->j, rows->a));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks chunks, columns, widths, and the chunks that contain the columns of each chunk, including itself */
static PetscErrorCode CheckPattern(const Rows *rows, IDRSStreamPattern pattern, size_t bytes)
{
  PetscInt row = 0, wrong = 0, *chunkof;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(rows->n, &chunkof));
  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    const IDRSStreamChunk *chunk = &pattern->chunks[c];

    PetscCall(ComplainIf(chunk->row != row || chunk->rows < 1,
                         "%s: chunk %" PetscInt_FMT " begins with row %" PetscInt_FMT ", and has %" PetscInt_FMT, rows->name, c,
                         chunk->row, chunk->rows));
    PetscCall(ComplainIf(chunk->rows > 1 && chunk->entries * (sizeof(PetscScalar) + 4) + 4 * (size_t)(chunk->rows + 1) > bytes,
                         "%s: chunk %" PetscInt_FMT " is too large", rows->name, c));
    PetscCall(ComplainIf(IDRSStreamChunkBytes(chunk) > pattern->slotbytes, "%s: chunk %" PetscInt_FMT " is larger than a slot",
                         rows->name, c));
    for (PetscInt r = 0; r < chunk->rows; r++) chunkof[row + r] = c;
    row += chunk->rows;
  }
  PetscCall(ComplainIf(row != rows->n, "%s: chunks of %" PetscInt_FMT " rows", rows->name, row));
  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    const IDRSStreamChunk *chunk   = &pattern->chunks[c];
    const char            *packed  = pattern->packed + chunk->packed;
    const uint32_t        *offsets = (const uint32_t *)packed;
    PetscInt               least = c, most = c, different = 0;
    PetscBool             *seen;

    PetscCall(PetscCalloc1(2 * rows->n, &seen));
    for (PetscInt r = 0; r < chunk->rows; r++) {
      const PetscInt *columns = rows->j + rows->i[chunk->row + r];
      const PetscInt  length  = rows->i[chunk->row + r + 1] - rows->i[chunk->row + r];

      if (offsets[r + 1] - offsets[r] != (uint32_t)length ||
          chunk->entry + offsets[r] != (size_t)(rows->entry ? rows->entry : rows->i)[chunk->row + r])
        wrong++;
      for (PetscInt p = 0; p < length; p++) {
        if (PackedColumn(chunk, packed, chunk->row + r, offsets[r] + (uint32_t)p) != columns[p]) wrong++;
        if (!seen[columns[p] - (chunk->row + r) + rows->n]) different++;
        seen[columns[p] - (chunk->row + r) + rows->n] = PETSC_TRUE;
      }
    }
    PetscCall(PetscFree(seen));
    PetscCall(ComplainIf(chunk->width != (different <= 256     ? 1
                                          : different <= 65536 ? 2
                                                               : 4),
                         "%s: chunk %" PetscInt_FMT " has columns of %" PetscInt_FMT " bytes for %" PetscInt_FMT " differences",
                         rows->name, c, chunk->width, different));
    for (PetscInt p = 0; p < rows->i[chunk->row + chunk->rows]; p++) most = PetscMax(most, chunkof[rows->j[p]]);
    for (PetscInt p = rows->i[chunk->row]; p < rows->i[rows->n]; p++) least = PetscMin(least, chunkof[rows->j[p]]);
    PetscCall(ComplainIf(chunk->least != least || chunk->most != most,
                         "%s: chunk %" PetscInt_FMT " needs those from %" PetscInt_FMT " to %" PetscInt_FMT, rows->name, c,
                         chunk->least, chunk->most));
  }
  PetscCall(ComplainIf(wrong, "%s: %" PetscInt_FMT " columns are wrong", rows->name, wrong));
  PetscCall(PetscFree(chunkof));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Checks that every step has its input: its chunk in its slot, and for each column of the matrix the rows of the lower levels in
   the rings. In the end all chunks have all levels. A chunk is sent while the steps since the previous chunk are computed, so it
   must not overwrite a slot that these steps read
*/
static PetscErrorCode CheckSchedule(const Rows *rows, IDRSStreamPattern pattern, PetscInt levels, PetscInt residents)
{
  IDRSStreamSchedule schedule;
  /* previous: the step that sent the previous chunk; last: the last step that read a slot */
  PetscInt *slot, **ring, *last, wrong = 0, computed = 0, previous = 0;

  PetscFunctionBeginUser;
  PetscCall(IDRSStreamScheduleCreate(pattern, levels, residents, &schedule));
  PetscCall(PetscMalloc3(schedule->slots, &slot, schedule->slots, &last, levels + 1, &ring));
  for (PetscInt s = 0; s < schedule->slots; s++) slot[s] = last[s] = -1;
  for (PetscInt j = 0; j <= levels; j++) {
    PetscCall(PetscMalloc1(rows->n, &ring[j]));
    for (PetscInt r = 0; r < rows->n; r++) ring[j][r] = j ? -1 : r; /* the row in this place */
  }
  for (PetscInt s = 0; s < schedule->nsteps; s++) {
    const IDRSStreamStep  *step  = &schedule->steps[s];
    const IDRSStreamChunk *chunk = &pattern->chunks[step->chunk];
    const PetscInt mine = step->level < levels ? schedule->rows : rows->n, below = step->level > 1 ? schedule->rows : rows->n,
                   belower = step->level > 2 ? schedule->rows : rows->n;

    if (!step->level) {
      if (step->slot >= 0) {
        if (step->slot >= schedule->slots || last[step->slot] >= previous) wrong++;
        else slot[step->slot] = step->chunk;
      }
      previous = s;
      continue;
    }
    if (step->slot >= 0) {
      if (slot[step->slot] != step->chunk) wrong++;
      last[step->slot] = s;
    }
    if (step->last != (PetscBool)(step->level == levels)) wrong++;
    for (PetscInt p = rows->i[chunk->row]; p < rows->i[chunk->row + chunk->rows]; p++) {
      const PetscInt column = rows->j[p];

      if (ring[step->level - 1][column % below] != column) wrong++;
      if (step->level > 1 && (column < step->live || column - step->live >= schedule->rows)) wrong++;
    }
    for (PetscInt row = chunk->row; row < chunk->row + chunk->rows; row++) {
      if (ring[step->level - 1][row % below] != row) wrong++;
      if (step->level > 1 && ring[step->level - 2][row % belower] != row) wrong++;
    }
    for (PetscInt row = chunk->row; row < chunk->row + chunk->rows; row++) ring[step->level][row % mine] = row;
    computed++;
  }
  PetscCall(ComplainIf(computed != levels * pattern->nchunks, "%s: %" PetscInt_FMT " levels of chunks instead of %" PetscInt_FMT,
                       rows->name, computed, levels * pattern->nchunks));
  PetscCall(ComplainIf(wrong,
                       "%s, %" PetscInt_FMT " chunks, %" PetscInt_FMT " of them resident, %" PetscInt_FMT " levels: %" PetscInt_FMT
                       " things are not where they are read",
                       rows->name, pattern->nchunks, residents, levels, wrong));
  for (PetscInt j = 0; j <= levels; j++) PetscCall(PetscFree(ring[j]));
  PetscCall(PetscFree3(slot, last, ring));
  PetscCall(IDRSStreamScheduleDestroy(&schedule));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Checks that the least memory is sufficient, and one byte less is not. With more memory there are more levels, more resident
   chunks, and in the end all chunks are resident
*/
static PetscErrorCode CheckFit(const Rows *rows, IDRSStreamPattern pattern, PetscInt levels)
{
  IDRSStreamLayout layout, before;
  size_t           least, all, bytes;

  PetscFunctionBeginUser;
  PetscCall(IDRSStreamFit(pattern, 0, levels, &layout));
  least = IDRSStreamLayoutBytes(&layout);
  PetscCall(ComplainIf(pattern->nchunks && layout.levels, "%s: a layout in no memory", rows->name));
  if (!pattern->nchunks) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSStreamFit(pattern, least - 1, levels, &layout));
  PetscCall(ComplainIf(layout.levels, "%s: a layout in less than the least memory", rows->name));
  PetscCall(IDRSStreamFit(pattern, least, levels, &before));
  PetscCall(
    ComplainIf(before.levels < 1 || IDRSStreamLayoutBytes(&before) > least, "%s: no layout in the least memory", rows->name));
  all = pattern->bytes + (size_t)(levels - 1 + (pattern->ordered ? 2 : 0)) * IDRSStreamAlign((size_t)rows->n * sizeof(PetscScalar));
  for (PetscInt step = 1; step <= 12; step++) {
    bytes = least + (all > least ? (all - least) / 12 * (size_t)step + (step == 12 ? 12 : 0) : 0);
    PetscCall(IDRSStreamFit(pattern, bytes, levels, &layout));
    PetscCall(ComplainIf(IDRSStreamLayoutBytes(&layout) > bytes, "%s: a layout of %g bytes in %g", rows->name,
                         (double)IDRSStreamLayoutBytes(&layout), (double)bytes));
    PetscCall(ComplainIf(layout.levels < before.levels, "%s: fewer levels in more memory", rows->name));
    PetscCall(ComplainIf(layout.levels == before.levels && layout.residents < before.residents,
                         "%s: fewer resident chunks in more memory", rows->name));
    before = layout;
  }
  PetscCall(ComplainIf(layout.levels != levels || layout.residents != pattern->nchunks || layout.slots,
                       "%s: %" PetscInt_FMT " levels, %" PetscInt_FMT " chunks of %" PetscInt_FMT " where all fits", rows->name,
                       layout.levels, layout.residents, pattern->nchunks));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates the rows in the order of the chunks; the entries of a row keep their order */
static PetscErrorCode RowsOrder(const Rows *rows, IDRSStreamPattern pattern, Rows *ordered)
{
  PetscInt *place, wrong = 0, count = 0;

  PetscFunctionBeginUser;
  *ordered = *rows;
  PetscCall(PetscMalloc1(rows->n, &place));
  for (PetscInt row = 0; row < rows->n; row++) place[row] = -1;
  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    for (PetscInt r = 0; r < pattern->chunks[c].rows; r++) {
      const PetscInt row = pattern->chunks[c].origin + r;

      if (place[row] >= 0) wrong++;
      place[row] = pattern->chunks[c].row + r;
    }
  }
  PetscCall(PetscMalloc3(rows->n + 1, &ordered->i, rows->i[rows->n], &ordered->j, rows->n, &ordered->entry));
  ordered->i[0] = 0;
  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    for (PetscInt r = 0; r < pattern->chunks[c].rows; r++) {
      const PetscInt row = pattern->chunks[c].origin + r, to = pattern->chunks[c].row + r;

      ordered->entry[to] = rows->i[row];
      for (PetscInt p = rows->i[row]; p < rows->i[row + 1]; p++) ordered->j[count++] = place[rows->j[p]];
      ordered->i[to + 1] = count;
    }
  }
  PetscCall(PetscFree(place));
  PetscCall(ComplainIf(wrong || count != rows->i[rows->n], "%s: %" PetscInt_FMT " rows are in two chunks", rows->name, wrong));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Tests the order of the matrix and the reverse Cuthill-McKee order */
static PetscErrorCode TestPlan(const Rows *rows)
{
  const size_t bytes[] = {1, 3000, 40000, 10000000};

  PetscFunctionBeginUser;
  for (size_t ib = rows->n > 1000 ? 2 : 0; ib < PETSC_STATIC_ARRAY_LENGTH(bytes); ib++) {
    for (PetscInt order = 0; order < 2; order++) {
      IDRSStreamPattern pattern;
      Rows              ordered = *rows;

      PetscCall(IDRSStreamPatternCreate(rows->n, rows->n, rows->i, rows->j, bytes[ib], (PetscBool)order, &pattern));
      if (order) PetscCall(RowsOrder(rows, pattern, &ordered));
      PetscCall(CheckPattern(&ordered, pattern, bytes[ib]));
      for (PetscInt levels = 1; levels <= 12; levels += levels < 3 ? 1 : 9) {
        for (PetscInt part = 0; part <= 3; part++) PetscCall(CheckSchedule(&ordered, pattern, levels, pattern->nchunks * part / 3));
        PetscCall(CheckFit(&ordered, pattern, levels));
      }
      PetscCall(IDRSStreamPatternDestroy(&pattern));
      if (order) PetscCall(PetscFree3(ordered.i, ordered.j, ordered.entry));
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes y = A x for the rows of a pattern, on a device of its own */
static PetscErrorCode RunProduct(IDRSStreamPattern pattern, const PetscScalar a[], const PetscScalar x[], PetscScalar y[])
{
  IDRSStream stream;
  Device     device;
  PetscInt   levels;

  PetscFunctionBeginUser;
  PetscCall(DeviceCreate(RANDOM, 10000000, &device));
  PetscCall(IDRSStreamCreate(pattern, a, 0, &deviceops, &device, &stream));
  PetscCall(IDRSStreamReserve(stream, 1, &levels));
  PetscCall(IDRSStreamPass(stream, &(IDRSStreamSequence){.product = PETSC_TRUE, .levels = 1, .x = x, .v = {y}}));
  PetscCall(DeviceSettle(&device));
  PetscCall(IDRSStreamDestroy(&stream));
  PetscCall(DeviceDestroy("a product", &device));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A chunk with so many differences between columns and rows that 8 and 16 bits do not suffice, and one chunk at each limit; its
   product is a sum of the numbers of its columns
*/
static PetscErrorCode TestWidths(void)
{
  const PetscInt counts[] = {256, 257, 65536, 65537}, widths[] = {1, 2, 2, 4};

  PetscFunctionBeginUser;
  for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(counts); k++) {
    const PetscInt    n = counts[k], i[] = {0, n};
    PetscInt         *j;
    PetscScalar      *a, *x, y, exact = 0.0;
    IDRSStreamPattern pattern;

    PetscCall(PetscMalloc3(n, &j, n, &a, 3 * n, &x));
    for (PetscInt p = 0; p < n; p++) {
      j[p] = 3 * p;
      a[p] = (PetscReal)(p % 5 - 2);
    }
    for (PetscInt p = 0; p < 3 * n; p++) x[p] = (PetscReal)(p % 7);
    for (PetscInt p = 0; p < n; p++) exact += a[p] * x[j[p]];
    PetscCall(IDRSStreamPatternCreate(1, 3 * n, i, j, 1000, PETSC_FALSE, &pattern));
    PetscCall(ComplainIf(pattern->nchunks != 1 || pattern->chunks[0].width != widths[k],
                         "%" PetscInt_FMT " differences: columns of %" PetscInt_FMT " bytes", n, pattern->chunks[0].width));
    for (PetscInt p = 0; p < n; p++)
      PetscCall(ComplainIf(PackedColumn(&pattern->chunks[0], pattern->packed, 0, (uint32_t)p) != j[p],
                           "%" PetscInt_FMT " differences: column %" PetscInt_FMT, n, p));
    PetscCall(RunProduct(pattern, a, x, &y));
    PetscCall(ComplainIf(y != exact, "%" PetscInt_FMT " differences: the product is wrong", n));
    PetscCall(PetscFree3(j, a, x));
  }
  PetscCall(Verdict("widths of columns"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes rows and slots of a pass of so many levels with chunks of so many bytes, none of which is resident */
static PetscErrorCode GetWindow(const Rows *rows, size_t bytes, PetscBool ordered, PetscInt levels, PetscInt *live,
                                PetscReal *share)
{
  IDRSStreamPattern  pattern;
  IDRSStreamSchedule schedule;

  PetscFunctionBeginUser;
  PetscCall(IDRSStreamPatternCreate(rows->n, rows->n, rows->i, rows->j, bytes, ordered, &pattern));
  PetscCall(IDRSStreamScheduleCreate(pattern, levels, 0, &schedule));
  *live  = schedule->rows;
  *share = (PetscReal)schedule->slots / (PetscReal)pattern->nchunks;
  PetscCall(IDRSStreamScheduleDestroy(&schedule));
  PetscCall(IDRSStreamPatternDestroy(&pattern));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The live rows of a level belong to some neighbouring chunks, for any number of levels: a grid, in chunks with more rows than a
   plane
*/
static PetscErrorCode TestWindow(void)
{
  Rows      rows;
  PetscInt  live[3];
  PetscReal share;

  PetscFunctionBeginUser;
  PetscCall(RowsGenerate(GRID, &rows));
  for (PetscInt k = 0; k < 3; k++) PetscCall(GetWindow(&rows, 10000, PETSC_FALSE, k ? 12 * k : 3, &live[k], &share));
  PetscCall(ComplainIf(live[1] != live[0] || live[2] != live[0] || live[0] >= rows.n,
                       "%" PetscInt_FMT ", %" PetscInt_FMT " and %" PetscInt_FMT " rows live for 3, 12 and 24 levels", live[0],
                       live[1], live[2]));
  PetscCall(RowsFree(&rows));
  PetscCall(Verdict("the window"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The share of the rows that 8 levels hold at a time, each in a chunk of its own, in the order of the matrix and in another one: a
   grid of 21 x 21 x 5 points that is numbered by planes
*/
static PetscErrorCode TestOrder(const Rows *rows)
{
  PetscReal share[2];
  PetscInt  live;
  PetscBool grid;

  PetscFunctionBeginUser;
  PetscCall(PetscStrcmp(rows->name, "orsreg_1", &grid));
  if (!grid) PetscFunctionReturn(PETSC_SUCCESS);
  for (PetscInt order = 0; order < 2; order++) PetscCall(GetWindow(rows, 1, (PetscBool)order, 8, &live, &share[order]));
  PetscCall(ComplainIf(!(share[0] > 0.9 && share[1] < 0.4), "%s: %g of the rows at a time, and %g of them if they are ordered",
                       rows->name, (double)share[0], (double)share[1]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

#define LEVELS 7

/* Results of a sequence: its vectors, their sum and the product with it */
typedef struct {
  PetscScalar *v[LEVELS + 1], *y, *z;
} Results;

static PetscErrorCode ResultsCreate(PetscInt n, Results *results)
{
  PetscFunctionBeginUser;
  for (PetscInt j = 0; j <= LEVELS; j++) PetscCall(PetscMalloc1(n, &results->v[j]));
  PetscCall(PetscMalloc2(n, &results->y, n, &results->z));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ResultsDestroy(Results *results)
{
  PetscFunctionBeginUser;
  for (PetscInt j = 0; j <= LEVELS; j++) PetscCall(PetscFree(results->v[j]));
  PetscCall(PetscFree2(results->y, results->z));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A sequence, and its exact results */
typedef struct {
  PetscScalar gamma[LEVELS], theta[LEVELS], mu[LEVELS], c[LEVELS + 1], *inverse;
  Results     exact;
} Whole;

static void RowsMultiply(const Rows *rows, const PetscScalar x[], PetscScalar y[])
{
  for (PetscInt i = 0; i < rows->n; i++) {
    PetscScalar sum = 0.0;

    for (PetscInt p = rows->i[i]; p < rows->i[i + 1]; p++) sum += rows->a[p] * x[rows->j[p]];
    y[i] = sum;
  }
}

/* Computes the same step by step, from the rows */
static PetscErrorCode WholeCreate(const Rows *rows, Whole *whole)
{
  PetscScalar **const v = whole->exact.v;

  PetscFunctionBeginUser;
  PetscCall(ResultsCreate(rows->n, &whole->exact));
  PetscCall(PetscMalloc1(rows->n, &whole->inverse));
  for (PetscInt j = 0; j < LEVELS; j++) {
    whole->gamma[j] = 0.3 + 0.1 * PetscCosReal((PetscReal)j);
    whole->theta[j] = PetscSinReal(0.7 * (PetscReal)j);
    whole->mu[j]    = j % 3 ? 0.2 : 0.0;
  }
  for (PetscInt j = 0; j <= LEVELS; j++) whole->c[j] = PetscSinReal(1.0 + 3.0 * (PetscReal)j);
  for (PetscInt i = 0; i < rows->n; i++) {
    v[0][i]           = Number(21, (uint64_t)i);
    whole->inverse[i] = Number(22, (uint64_t)i);
    whole->exact.y[i] = whole->c[0] * v[0][i];
  }
  for (PetscInt j = 1; j <= LEVELS; j++) {
    RowsMultiply(rows, v[j - 1], v[j]);
    for (PetscInt i = 0; i < rows->n; i++) {
      v[j][i] = whole->gamma[j - 1] * (v[j][i] * whole->inverse[i] - whole->theta[j - 1] * v[j - 1][i]);
      if (j > 1 && whole->mu[j - 1] != 0.0) v[j][i] -= whole->mu[j - 1] * v[j - 2][i];
      whole->exact.y[i] += whole->c[j] * v[j][i];
    }
  }
  RowsMultiply(rows, whole->exact.y, whole->exact.z);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode WholeDestroy(Whole *whole)
{
  PetscFunctionBeginUser;
  PetscCall(ResultsDestroy(&whole->exact));
  PetscCall(PetscFree(whole->inverse));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Counts numbers that differ by more than the rounding errors of another order of operations; NaN differs */
static PetscInt Differences(PetscInt n, const PetscScalar a[], const PetscScalar b[])
{
  PetscInt  wrong = 0;
  PetscReal size  = 0.0;

  for (PetscInt i = 0; i < n; i++) size = PetscMax(size, PetscAbsScalar(b[i]));
  for (PetscInt i = 0; i < n; i++) {
    if (!(PetscAbsScalar(a[i] - b[i]) <= 1000 * PETSC_MACHINE_EPSILON * size)) wrong++;
  }
  return wrong;
}

/* Checks that the last vector and a result have the bits of the first run */
static PetscErrorCode CheckBits(const char what[], PetscInt n, const PetscScalar last[], const PetscScalar y[], Results *first,
                                PetscBool *known)
{
  PetscBool same[2];

  PetscFunctionBeginUser;
  if (!*known) {
    PetscCall(PetscArraycpy(first->v[LEVELS], last, n));
    PetscCall(PetscArraycpy(first->y, y, n));
  }
  *known = PETSC_TRUE;
  PetscCall(PetscArraycmp(first->v[LEVELS], last, n, &same[0]));
  PetscCall(PetscArraycmp(first->y, y, n, &same[1]));
  PetscCall(ComplainIf(!same[0] || !same[1], "%s: other bits", what));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes all levels in passes of as many levels as fit: v[j] for levels at the end of a pass and before it, and the sum in y;
   with `all`, all levels
*/
static PetscErrorCode RunSequence(IDRSStream stream, const Whole *whole, PetscBool all, Results *results)
{
  IDRSStreamSequence sequence = {
    .gamma = whole->gamma, .theta = whole->theta, .mu = whole->mu, .c = whole->c, .inverse = whole->inverse, .y = results->y};
  PetscScalar **const v = results->v;
  PetscInt            most;

  PetscFunctionBeginUser;
  PetscCall(IDRSStreamReserve(stream, LEVELS, &most));
  for (PetscInt begin = 0; begin < LEVELS; begin += sequence.levels) {
    sequence.begin  = begin;
    sequence.levels = PetscMin(most, LEVELS - begin);
    sequence.x      = begin ? v[begin] : whole->exact.v[0];
    sequence.before = begin > 1 ? v[begin - 1] : begin ? whole->exact.v[0] : NULL;
    for (PetscInt j = 0; j < sequence.levels; j++) {
      sequence.v[j] = NULL;
      if (all || j >= sequence.levels - 2) sequence.v[j] = v[begin + j + 1];
    }
    PetscCall(IDRSStreamPass(stream, &sequence));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   With any memory and any order on the device, and with chunks of another size, the results have the same bits, and the counts are
   right
*/
static PetscErrorCode TestPasses(const Rows *rows)
{
  const size_t bytes[] = {3000, 40000, 10000000};
  Whole        whole;
  Results      results, first;
  PetscScalar *values;
  PetscBool    known = PETSC_FALSE;
  char         what[128];

  PetscFunctionBeginUser;
  PetscCall(WholeCreate(rows, &whole));
  PetscCall(ResultsCreate(rows->n, &results));
  PetscCall(ResultsCreate(rows->n, &first));
  PetscCall(PetscMalloc1(rows->i[rows->n], &values));
  for (size_t ib = rows->n > 1000 ? 1 : 0; ib < PETSC_STATIC_ARRAY_LENGTH(bytes); ib++) {
    for (PetscInt part = 0; part <= 4; part++) {
      for (Manner manner = COPIES_FIRST; manner < MANNERS; manner++) {
        IDRSStreamPattern pattern;
        IDRSStreamLayout  layout;
        IDRSStream        stream;
        Device            device;
        size_t            least, all, limit;
        PetscInt          passes, wrong;

        PetscCall(IDRSStreamPatternCreate(rows->n, rows->n, rows->i, rows->j, bytes[ib], (PetscBool)((part + (PetscInt)manner) % 2),
                                          &pattern));
        PetscCall(IDRSStreamFit(pattern, 0, LEVELS, &layout));
        least = IDRSStreamLayoutBytes(&layout);
        all   = pattern->bytes + (LEVELS + (pattern->ordered ? 2 : 0)) * IDRSStreamAlign((size_t)rows->n * sizeof(PetscScalar));
        limit = PetscMax(least + (all > least ? (all - least) / 4 * (size_t)part : 0), 1);
        PetscCall(DeviceCreate(manner, 2 * limit + 1, &device));
        PetscCall(PetscArraycpy(values, rows->a, rows->i[rows->n]));
        PetscCall(IDRSStreamCreate(pattern, values, part % 2 ? limit : 0, &deviceops, &device, &stream));
        for (PetscInt again = 0; again < 3; again++) {
          PetscCall(RunSequence(stream, &whole, (PetscBool)(again == 1), &results));
          PetscCall(PetscArrayzero(values, rows->i[rows->n])); /* no pass reads them later */
          PetscCall(DeviceSettle(&device));
          PetscCall(PetscArraycpy(values, rows->a, rows->i[rows->n]));
          if (again == 1) PetscCall(IDRSStreamSetValues(stream, values));
          wrong = Differences(rows->n, results.y, whole.exact.y);
          for (PetscInt j = again == 1 ? 1 : LEVELS - 1; j <= LEVELS; j++)
            wrong += Differences(rows->n, results.v[j], whole.exact.v[j]);
          PetscCall(PetscSNPrintf(what, sizeof(what), "%s, chunks of %g bytes, %g bytes of memory, manner %d, time %" PetscInt_FMT,
                                  rows->name, (double)bytes[ib], (double)limit, (int)manner, again));
          PetscCall(ComplainIf(wrong, "%s: %" PetscInt_FMT " numbers are wrong", what, wrong));
          PetscCall(CheckBits(what, rows->n, results.v[LEVELS], results.y, &first, &known));
        }
        passes = (LEVELS + stream->layout.levels - 1) / stream->layout.levels;
        PetscCall(ComplainIf(stream->counts.passes != 3 * passes, "%s: %d passes", rows->name, (int)stream->counts.passes));
        PetscCall(ComplainIf(stream->counts.sends !=
                               3 * passes * (pattern->nchunks - stream->layout.residents) + 2 * stream->layout.residents,
                             "%s: %d chunks sent, of %" PetscInt_FMT " with %" PetscInt_FMT " resident, %" PetscInt_FMT " passes",
                             rows->name, (int)stream->counts.sends, pattern->nchunks, stream->layout.residents, passes));
        PetscCall(ComplainIf(device.most > limit, "%s: %g bytes of the device's memory instead of %g", rows->name,
                             (double)device.most, (double)limit));
        PetscCall(IDRSStreamDestroy(&stream));
        PetscCall(DeviceDestroy(rows->name, &device));
      }
    }
  }
  PetscCall(PetscFree(values));
  PetscCall(ResultsDestroy(&first));
  PetscCall(ResultsDestroy(&results));
  PetscCall(WholeDestroy(&whole));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A rectangular matrix, which supports products only; an infinite entry of x affects only the rows with its column */
static PetscErrorCode TestProduct(void)
{
  const PetscInt    i[] = {0, 2, 2, 3}, j[] = {0, 6, 3};
  const PetscScalar a[] = {2.0, 3.0, 4.0}, x[] = {1.0, INFINITY, 0.0, 5.0, 0.0, 0.0, 7.0};
  PetscScalar       y[3];
  IDRSStreamPattern pattern;

  PetscFunctionBeginUser;
  PetscCall(IDRSStreamPatternCreate(3, 7, i, j, 1, PETSC_FALSE, &pattern));
  PetscCall(RunProduct(pattern, a, x, y));
  PetscCall(ComplainIf(y[0] != 23.0 || y[1] != 0.0 || y[2] != 20.0, "a product of 3 rows and 7 columns"));
  PetscCall(Verdict("products"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The error for too little memory states the available and the required bytes. After a failure of any operation of the device
   nothing stays pinned, and the next sequence is right
*/
static PetscErrorCode TestErrors(void)
{
  Rows     rows;
  Whole    whole;
  Results  results;
  PetscInt levels, failure, wrong;

  PetscFunctionBeginUser;
  PetscCall(RowsGenerate(FAR, &rows));
  PetscCall(WholeCreate(&rows, &whole));
  PetscCall(ResultsCreate(rows.n, &results));
  for (failure = -1;; failure++) {
    IDRSStreamPattern pattern;
    IDRSStreamLayout  layout;
    IDRSStream        stream;
    Device            device;
    PetscErrorCode    ierr;
    char              least[32];

    PetscCall(IDRSStreamPatternCreate(rows.n, rows.n, rows.i, rows.j, 10000, PETSC_FALSE, &pattern));
    PetscCall(DeviceCreate(failure % 2 ? COPIES_FIRST : COMPUTATIONS_FIRST, pattern->bytes * 3 / 2, &device));
    if (failure < 0) {
      PetscCall(IDRSStreamFit(pattern, 0, 1, &layout));
      PetscCall(PetscSNPrintf(least, sizeof(least), "%g", (double)IDRSStreamLayoutBytes(&layout)));
      PetscCall(IDRSStreamCreate(pattern, rows.a, 77, &deviceops, &device, &stream));
      CheckRefused(IDRSStreamReserve(stream, 1, &levels), "-mat_stream_memory 77", least);
      PetscCall(IDRSStreamDestroy(&stream));
      PetscCall(DeviceDestroy("too little memory", &device));
      continue;
    }
    PetscCall(IDRSStreamCreate(pattern, rows.a, 0, &deviceops, &device, &stream));
    device.failure = failure;
    PetscCall(Listen());
    ierr = RunSequence(stream, &whole, PETSC_FALSE, &results);
    PetscCall(Heard());
    if (ierr) {
      device.failure = -1;
      for (PetscInt place = 0; place < MOST_PINNED; place++)
        PetscCall(ComplainIf(device.pinned[place], "operation %" PetscInt_FMT " has failed: memory is still pinned", failure));
      PetscCall(RunSequence(stream, &whole, PETSC_FALSE, &results));
    }
    PetscCall(DeviceSettle(&device));
    wrong = Differences(rows.n, results.v[LEVELS], whole.exact.v[LEVELS]) + Differences(rows.n, results.y, whole.exact.y);
    PetscCall(
      ComplainIf(wrong, "operation %" PetscInt_FMT " has failed: %" PetscInt_FMT " numbers are wrong afterwards", failure, wrong));
    PetscCall(IDRSStreamDestroy(&stream));
    PetscCall(DeviceDestroy("an operation that has failed", &device));
    if (!ierr) break;
  }
  PetscCall(ComplainIf(failure < 50, "only %" PetscInt_FMT " operations", failure));
  PetscCall(ResultsDestroy(&results));
  PetscCall(WholeDestroy(&whole));
  PetscCall(RowsFree(&rows));
  PetscCall(Verdict("errors"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  const char *const names[]                       = {"Trefethen_2000", "add32",    "e05r0500", "jpwh_991", "memplus",
                                                     "orsreg_1",       "sherman1", "steam2",   "stommel4", "watt_1"};
  char              directory[PETSC_MAX_PATH_LEN] = "tutorials/matrices";

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-matrices", directory, sizeof(directory), NULL));
  for (PetscInt kind = 0; kind < KINDS + (PetscInt)PETSC_STATIC_ARRAY_LENGTH(names); kind++) {
    Rows rows;

    if (kind < KINDS) PetscCall(RowsGenerate((Kind)kind, &rows));
    else PetscCall(RowsRead(directory, names[kind - KINDS], &rows));
    PetscCall(TestPlan(&rows));
    PetscCall(TestOrder(&rows));
    PetscCall(TestPasses(&rows));
    PetscCall(Verdict(rows.name));
    PetscCall(RowsFree(&rows));
  }
  PetscCall(TestWidths());
  PetscCall(TestWindow());
  PetscCall(TestProduct());
  PetscCall(TestErrors());
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    args: -matrices ${PETSCIDRS_DIR}/tutorials/matrices

TEST*/
