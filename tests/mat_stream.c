static char help[] = "Matrices that are streamed to a device: chunks, packed columns, memory and passes on an emulated device, with\n\
various orders of copies and computations, for real matrices, empty rows, and rows longer than a chunk.\n\
  -matrices <directory> - where the real matrices are\n\n";

#include "../tutorials/matrixmarket.h"
#include "harness.h"
#include "streamdevice.h"

/* A matrix by rows */
typedef struct {
  char         name[32];
  PetscInt     n, *i, *j;
  PetscScalar *a;
} Rows;

/* Generated matrices */
typedef enum {
  EMPTY,
  GRID,  /* 12 x 12 x 8 points */
  GAPS,  /* most rows are empty, also the last ones */
  DENSE, /* one row and one column are full */
  FAR,   /* columns anywhere */
  KINDS
} Kind;
static const char *const kinds[] = {"no rows", "grid", "gaps", "dense row and column", "far columns"};
static const PetscInt    sizes[] = {0, 1152, 700, 900, 600};

static PetscScalar KindEntry(Kind kind, PetscInt i, PetscInt j, PetscInt n)
{
  const PetscInt d     = PetscAbsInt(j - i);
  PetscBool      entry = PETSC_FALSE;

  if (kind == GRID)
    entry = (PetscBool)(d == 0 || (d == 1 && PetscMax(i, j) % 12) || (d == 12 && PetscMax(i, j) / 12 % 12) || d == 144);
  if (kind == GAPS) entry = (PetscBool)(i % 7 == 3 && i < n - 90 && (j == i || j == n - 1 - i));
  if (kind == DENSE) entry = (PetscBool)(d <= 1 || i == n / 3 || j == n / 2);
  if (kind == FAR) entry = (PetscBool)(Bits(7, (uint64_t)(i * n + j)) % 97 < 2);
  return entry ? Number(3, (uint64_t)(i * n + j)) : (PetscScalar)0.0;
}

/* Copies the rows of a matrix that is generated, or of a real one */
static PetscErrorCode RowsCreate(PetscInt kind, const char directory[], Rows *rows)
{
  const char *const  names[] = {"add32", "memplus", "orsreg_1", "stommel4"};
  char               file[PETSC_MAX_PATH_LEN];
  Mat                A;
  const PetscInt    *i, *j;
  const PetscScalar *a;
  PetscReal          norm;
  PetscBool          done;

  PetscFunctionBeginUser;
  PetscCall(PetscStrncpy(rows->name, kind < KINDS ? kinds[kind] : names[kind - KINDS], sizeof(rows->name)));
  if (kind < KINDS) {
    PetscCall(MatCreateSeqAIJ(PETSC_COMM_SELF, sizes[kind], sizes[kind], sizes[kind], NULL, &A));
    for (PetscInt row = 0; row < sizes[kind]; row++) {
      for (PetscInt column = 0; column < sizes[kind]; column++) {
        const PetscScalar value = KindEntry((Kind)kind, row, column, sizes[kind]);

        if (value != (PetscScalar)0.0) PetscCall(MatSetValue(A, row, column, value, INSERT_VALUES));
      }
    }
    PetscCall(MatAssemble(A));
  } else {
    PetscCall(PetscSNPrintf(file, sizeof(file), "%s/%s.mtx.gz", directory, rows->name));
    PetscCall(MatLoadMatrixMarket(PETSC_COMM_SELF, file, &A));
    PetscCall(MatNorm(A, NORM_INFINITY, &norm));
    PetscCall(MatScale(A, 1.0 / norm)); /* in single precision powers of A would overflow */
  }
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

/*
   Checks that chunks have all rows and about these bytes, that the least memory is sufficient, and that one byte less is not. With
   more memory there are more levels, more resident chunks, and in the end all chunks are resident
*/
static PetscErrorCode CheckPlan(const Rows *rows, size_t bytes, PetscInt levels)
{
  IDRSStreamPattern pattern;
  IDRSStreamLayout  layout, before;
  size_t            least, all;
  PetscInt          row = 0;

  PetscFunctionBeginUser;
  PetscCall(IDRSStreamPatternCreate(rows->n, rows->n, rows->i, rows->j, bytes, &pattern));
  for (PetscInt c = 0; c < pattern->nchunks; c++) {
    const IDRSStreamChunk *chunk = &pattern->chunks[c];
    const size_t           size  = chunk->entries * (sizeof(PetscScalar) + 4) + 4 * (size_t)(chunk->rows + 1);

    PetscCall(ComplainIf(chunk->row != row || (chunk->rows > 1 && size > bytes),
                         "%s: chunk %" INT " of %g bytes begins with row %" INT, rows->name, c, (double)size, chunk->row));
    row += chunk->rows;
  }
  PetscCall(ComplainIf(row != rows->n, "%s: chunks of %" INT " rows", rows->name, row));
  PetscCall(IDRSStreamFit(pattern, 0, levels, &layout));
  least = IDRSStreamLayoutBytes(&layout);
  all   = pattern->bytes + (size_t)(levels - 1) * IDRSStreamAlign((size_t)rows->n * sizeof(PetscScalar));
  PetscCall(IDRSStreamFit(pattern, least - 1, levels, &layout));
  PetscCall(ComplainIf(pattern->nchunks && layout.levels, "%s: a layout in less than the least memory", rows->name));
  PetscCall(IDRSStreamFit(pattern, least, levels, &before));
  for (PetscInt step = 0; step <= 12 && pattern->nchunks; step++) {
    const size_t limit = least + (all > least ? (all - least) / 12 * (size_t)step + (step == 12 ? 12 : 0) : 0);

    PetscCall(IDRSStreamFit(pattern, limit, levels, &layout));
    PetscCall(ComplainIf(!layout.levels || IDRSStreamLayoutBytes(&layout) > limit, "%s: a layout of %g bytes in %g", rows->name,
                         (double)IDRSStreamLayoutBytes(&layout), (double)limit));
    PetscCall(ComplainIf(layout.levels < before.levels || (layout.levels == before.levels && layout.residents < before.residents),
                         "%s: fewer levels or fewer resident chunks in more memory", rows->name));
    before = layout;
  }
  PetscCall(ComplainIf(pattern->nchunks && (layout.levels != levels || layout.residents != pattern->nchunks || layout.slots),
                       "%s: %" INT " levels, %" INT " chunks of %" INT " where all fits", rows->name, layout.levels,
                       layout.residents, pattern->nchunks));
  PetscCall(IDRSStreamPatternDestroy(&pattern));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A chunk with so many differences between columns and rows that 8 and 16 bits do not suffice, and one chunk at each limit; its
   product is a sum of the numbers of its columns, and infinite numbers elsewhere do not matter
*/
static PetscErrorCode TestWidths(void)
{
  const PetscInt counts[] = {256, 257, 65536, 65537}, widths[] = {1, 2, 2, 4};

  PetscFunctionBeginUser;
  for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(counts); k++) {
    const PetscInt    n = counts[k], i[] = {0, n};
    PetscInt         *j, levels;
    PetscScalar      *a, *x, y, exact = 0.0;
    IDRSStreamPattern pattern;
    IDRSStream        stream;
    Device            device;

    PetscCall(PetscMalloc3(n, &j, n, &a, 3 * n, &x));
    for (PetscInt p = 0; p < 3 * n; p++) x[p] = p % 3 ? INFINITY : (PetscReal)(p % 7);
    for (PetscInt p = 0; p < n; p++) {
      j[p] = 3 * p;
      a[p] = (PetscReal)(p % 5 - 2);
      exact += a[p] * x[3 * p];
    }
    PetscCall(IDRSStreamPatternCreate(1, 3 * n, i, j, 1000, &pattern));
    PetscCall(ComplainIf(pattern->nchunks != 1 || pattern->chunks[0].width != widths[k],
                         "%" INT " differences: columns of %" INT " bytes", n, pattern->chunks[0].width));
    PetscCall(DeviceCreate(RANDOM, 10000000, &device));
    PetscCall(IDRSStreamCreate(pattern, a, 10000000, &deviceops, &device, &stream));
    PetscCall(IDRSStreamReserve(stream, 1, &levels));
    PetscCall(IDRSStreamPass(stream, &(IDRSStreamSequence){.product = PETSC_TRUE, .levels = 1, .x = x, .v = {&y}}));
    PetscCall(DeviceSettle(&device));
    PetscCall(ComplainIf(y != exact, "%" INT " differences: the product is wrong", n));
    PetscCall(IDRSStreamDestroy(&stream));
    PetscCall(DeviceDestroy("a product", &device));
    PetscCall(PetscFree3(j, a, x));
  }
  PetscCall(Verdict("widths of columns"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The live rows of a level belong to some neighbouring chunks, for any number of levels: a grid, in chunks with more rows than a
   plane
*/
static PetscErrorCode TestWindow(void)
{
  Rows     rows;
  PetscInt live[3];

  PetscFunctionBeginUser;
  PetscCall(RowsCreate(GRID, NULL, &rows));
  for (PetscInt k = 0; k < 3; k++) {
    IDRSStreamPattern  pattern;
    IDRSStreamSchedule schedule;

    PetscCall(IDRSStreamPatternCreate(rows.n, rows.n, rows.i, rows.j, 16000, &pattern));
    PetscCall(IDRSStreamScheduleCreate(pattern, k ? 12 * k : 3, 0, &schedule));
    live[k] = schedule->rows;
    PetscCall(IDRSStreamScheduleDestroy(&schedule));
    PetscCall(IDRSStreamPatternDestroy(&pattern));
  }
  PetscCall(ComplainIf(live[1] != live[0] || live[2] != live[0] || live[0] >= rows.n,
                       "%" INT ", %" INT " and %" INT " rows live for 3, 12 and 24 levels", live[0], live[1], live[2]));
  PetscCall(PetscFree3(rows.i, rows.j, rows.a));
  PetscCall(Verdict("the window"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

#define LEVELS 7

/* A sequence, its vectors and their sum, computed step by step from the rows */
typedef struct {
  PetscScalar gamma[LEVELS], theta[LEVELS], mu[LEVELS], c[LEVELS + 1], *inverse, *v[LEVELS + 1], *y;
} Whole;

static PetscErrorCode PersistentCreate(const Rows *rows, Whole *whole)
{
  PetscScalar **const v = whole->v;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc3(rows->n, &whole->inverse, rows->n, &whole->y, (LEVELS + 1) * rows->n, &v[0]));
  for (PetscInt j = 0; j <= LEVELS; j++) {
    v[j]        = v[0] + j * rows->n;
    whole->c[j] = PetscSinReal(1.0 + 3.0 * (PetscReal)j);
    if (j == LEVELS) break;
    whole->gamma[j] = 0.3 + 0.1 * PetscCosReal((PetscReal)j);
    whole->theta[j] = PetscSinReal(0.7 * (PetscReal)j);
    whole->mu[j]    = j % 3 ? 0.2 : 0.0;
  }
  for (PetscInt i = 0; i < rows->n; i++) {
    v[0][i]           = Number(21, (uint64_t)i);
    whole->inverse[i] = Number(22, (uint64_t)i);
    whole->y[i]       = whole->c[0] * v[0][i];
  }
  for (PetscInt j = 1; j <= LEVELS; j++) {
    for (PetscInt i = 0; i < rows->n; i++) {
      PetscScalar sum = 0.0;

      for (PetscInt p = rows->i[i]; p < rows->i[i + 1]; p++) sum += rows->a[p] * v[j - 1][rows->j[p]];
      v[j][i] = whole->gamma[j - 1] * (sum * whole->inverse[i] - whole->theta[j - 1] * v[j - 1][i]);
      if (j > 1 && whole->mu[j - 1] != 0.0) v[j][i] -= whole->mu[j - 1] * v[j - 2][i];
      whole->y[i] += whole->c[j] * v[j][i];
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PersistentDestroy(Whole *whole)
{
  PetscFunctionBeginUser;
  PetscCall(PetscFree3(whole->inverse, whole->y, whole->v[0]));
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
static PetscErrorCode CheckBits(const char what[], PetscInt n, const Whole *results, Whole *first, PetscBool *known)
{
  PetscBool same[2];

  PetscFunctionBeginUser;
  if (!*known) {
    PetscCall(PetscArraycpy(first->v[LEVELS], results->v[LEVELS], n));
    PetscCall(PetscArraycpy(first->y, results->y, n));
  }
  *known = PETSC_TRUE;
  PetscCall(PetscArraycmp(first->v[LEVELS], results->v[LEVELS], n, &same[0]));
  PetscCall(PetscArraycmp(first->y, results->y, n, &same[1]));
  PetscCall(ComplainIf(!same[0] || !same[1], "%s: other bits", what));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes all levels in passes of as many levels as fit: v[j] for levels at the end of a pass and before it, and the sum in y;
   with `all`, all levels
*/
static PetscErrorCode RunSequence(IDRSStream stream, const Whole *whole, PetscBool all, Whole *results)
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
    sequence.x      = begin ? v[begin] : whole->v[0];
    sequence.before = begin > 1 ? v[begin - 1] : begin ? whole->v[0] : NULL;
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
  Whole        whole, results, first;
  PetscScalar *values;
  PetscBool    known = PETSC_FALSE;
  char         what[128];

  PetscFunctionBeginUser;
  PetscCall(PersistentCreate(rows, &whole));
  PetscCall(PersistentCreate(rows, &results));
  PetscCall(PersistentCreate(rows, &first));
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

        PetscCall(IDRSStreamPatternCreate(rows->n, rows->n, rows->i, rows->j, bytes[ib], &pattern));
        PetscCall(IDRSStreamFit(pattern, 0, LEVELS, &layout));
        least = IDRSStreamLayoutBytes(&layout);
        all   = pattern->bytes + LEVELS * IDRSStreamAlign((size_t)rows->n * sizeof(PetscScalar));
        limit = PetscMax(least + (all > least ? (all - least) / 4 * (size_t)part : 0), 1);
        PetscCall(DeviceCreate(manner, 2 * limit + 1, &device));
        PetscCall(PetscArraycpy(values, rows->a, rows->i[rows->n]));
        PetscCall(IDRSStreamCreate(pattern, values, limit, &deviceops, &device, &stream));
        for (PetscInt again = 0; again < 3; again++) {
          PetscCall(RunSequence(stream, &whole, (PetscBool)(again == 1), &results));
          PetscCall(PetscArrayzero(values, rows->i[rows->n])); /* no pass reads them later */
          PetscCall(DeviceSettle(&device));
          PetscCall(PetscArraycpy(values, rows->a, rows->i[rows->n]));
          if (again == 1) PetscCall(IDRSStreamSetValues(stream, values));
          wrong = Differences(rows->n, results.y, whole.y);
          for (PetscInt j = again == 1 ? 1 : LEVELS - 1; j <= LEVELS; j++) wrong += Differences(rows->n, results.v[j], whole.v[j]);
          PetscCall(PetscSNPrintf(what, sizeof(what), "%s, chunks of %g bytes, %g bytes of memory, manner %d, time %" INT,
                                  rows->name, (double)bytes[ib], (double)limit, (int)manner, again));
          PetscCall(ComplainIf(wrong, "%s: %" INT " numbers are wrong", what, wrong));
          PetscCall(CheckBits(what, rows->n, &results, &first, &known));
        }
        passes = (LEVELS + stream->layout.levels - 1) / stream->layout.levels;
        PetscCall(ComplainIf(stream->counts.passes != 3 * passes, "%s: %d passes", rows->name, (int)stream->counts.passes));
        PetscCall(ComplainIf(stream->counts.sends !=
                               3 * passes * (pattern->nchunks - stream->layout.residents) + 2 * stream->layout.residents,
                             "%s: %d chunks sent, of %" INT " with %" INT " resident, %" INT " passes", rows->name,
                             (int)stream->counts.sends, pattern->nchunks, stream->layout.residents, passes));
        PetscCall(ComplainIf(device.most > limit, "%s: %g bytes of the device's memory instead of %g", rows->name,
                             (double)device.most, (double)limit));
        PetscCall(IDRSStreamDestroy(&stream));
        PetscCall(DeviceDestroy(rows->name, &device));
      }
    }
  }
  PetscCall(PetscFree(values));
  PetscCall(PersistentDestroy(&first));
  PetscCall(PersistentDestroy(&results));
  PetscCall(PersistentDestroy(&whole));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  char directory[PETSC_MAX_PATH_LEN] = "tutorials/matrices";

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-matrices", directory, sizeof(directory), NULL));
  for (PetscInt kind = 0; kind < KINDS + 4; kind++) {
    Rows rows;

    PetscCall(RowsCreate(kind, directory, &rows));
    for (PetscInt levels = 1; levels <= 12; levels += levels < 3 ? 1 : 9) {
      PetscCall(CheckPlan(&rows, 3000, levels));
      PetscCall(CheckPlan(&rows, 100000, levels));
    }
    PetscCall(TestPasses(&rows));
    PetscCall(Verdict(rows.name));
    PetscCall(PetscFree3(rows.i, rows.j, rows.a));
  }
  PetscCall(TestWidths());
  PetscCall(TestWindow());
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    args: -matrices ${PETSCIDRS_DIR}/tutorials/matrices

TEST*/
