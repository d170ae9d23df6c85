/*
   The symbolic phase: the pattern of PETSc's own factorisations, which no public function returns. If all blocks of the matrix are
   full, the entries of the pattern are tiles
*/
#include "factorimpl.h"

/* The matrix in its permuted order: row i is row rows[i], and column j stands in column columns[j]; NULL: natural */
typedef struct {
  PetscInt        n;
  const PetscInt *i, *j, *rows, *columns;
} IDRSFactorPermuted;

#define IDRSFactorPermute(permutation, i) ((permutation) ? (permutation)[i] : (i))

/*
   Lists the tile columns of a tile row in ascending order, for tiles of bs x bs; full: all its tiles are full. counts is zero for
   each tile column; list is long enough for the row
*/
static PetscErrorCode IDRSFactorTileRow(const IDRSFactorPermuted *A, PetscInt bs, PetscInt tile, PetscInt counts[], PetscInt list[],
                                        PetscInt *length, PetscBool *full)
{
  PetscFunctionBegin;
  *length = 0;
  *full   = PETSC_TRUE;
  if (bs == 1 && !A->columns) {
    const PetscInt row = IDRSFactorPermute(A->rows, tile);
    PetscBool      sorted;

    *length = A->i[row + 1] - A->i[row];
    PetscCall(PetscArraycpy(list, A->j + A->i[row], *length));
    PetscCall(PetscSortedInt(*length, list, &sorted));
    if (!sorted) PetscCall(PetscSortInt(*length, list));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  for (PetscInt r = 0; r < bs; r++) {
    const PetscInt row = IDRSFactorPermute(A->rows, tile * bs + r);

    for (PetscInt p = A->i[row]; p < A->i[row + 1]; p++) {
      const PetscInt J = IDRSFactorPermute(A->columns, A->j[p]) / bs;

      if (!counts[J]++) list[(*length)++] = J;
    }
  }
  for (PetscInt l = 0; l < *length; l++) {
    /* a full tile has bs^2 entries */
    if (counts[list[l]] != bs * bs) *full = PETSC_FALSE;
    counts[list[l]] = 0;
  }
  PetscCall(PetscSortInt(*length, list));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Finds the size of the tiles, and the reason why it is 1 although the matrix has a larger block size, or NULL. untiled: a reason
   of the caller
*/
static PetscErrorCode IDRSFactorFindTiles(IDRSFactor factor, Mat A, const IDRSFactorPermuted *permuted, const char untiled[],
                                          PetscInt *bs, const char *why[])
{
  PetscInt rbs, cbs;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(MatGetBlockSizes(A, &rbs, &cbs));
  *bs = rbs == cbs ? rbs : 1;
  if (*bs > IDRS_FACTOR_TILE) { /* a full block consists of smaller full tiles */
    PetscInt divisor = IDRS_FACTOR_TILE;

    while (*bs % divisor) divisor--;
    *bs = divisor;
  }
  if (*bs == 1) PetscFunctionReturn(PETSC_SUCCESS);
  if (untiled) *why = untiled;
  else {
    PetscInt *const counts = factor->scratch, *const list = counts + permuted->n / *bs;
    PetscBool full = PETSC_TRUE;
    PetscInt  length;

    PetscCall(PetscArrayzero(counts, permuted->n / *bs));
    for (PetscInt tile = 0; full && tile < permuted->n / *bs; tile++)
      PetscCall(IDRSFactorTileRow(permuted, *bs, tile, counts, list, &length, &full));
    if (!full) *why = "not all blocks of the permuted matrix are full";
  }
  if (*why) *bs = 1;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Allocates memory for this many entries of the pattern, and for their levels of fill */
static PetscErrorCode IDRSFactorGrowPattern(IDRSFactor factor, PetscInt needed)
{
  PetscFunctionBegin;
  if (needed <= factor->capacity) PetscFunctionReturn(PETSC_SUCCESS);
  if (factor->capacity) factor->growths++;
  factor->capacity = needed <= PETSC_MAX_INT / 2 ? PetscMax(needed, 2 * factor->capacity) : needed;
  PetscCall(PetscRealloc((size_t)factor->capacity * sizeof(PetscInt), &factor->pattern.j));
  PetscCall(PetscRealloc((size_t)factor->capacity * sizeof(PetscInt), &factor->filled));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A sorted list of columns with their levels of fill: next[n] is the first column, and n ends the list. Columns that are not in the
   list have a negative level
*/
typedef struct {
  PetscInt n, *next, *level;
} IDRSFactorFillRow;

/* Inserts a column after *at, and sets *at to the column */
static inline void IDRSFactorFillInsert(IDRSFactorFillRow *row, PetscInt *at, PetscInt column, PetscInt level)
{
  if (row->level[column] < 0) {
    while (row->next[*at] < column) *at = row->next[*at];
    row->next[column]  = row->next[*at];
    row->next[*at]     = column;
    row->level[column] = level;
  } else row->level[column] = PetscMin(row->level[column], level);
  *at = column;
}

/* Adds row i without fill to the pattern: these columns but the diagonal one. Returns PETSC_TRUE if that is one of them */
static PetscBool IDRSFactorAddRow(IDRSFactorPattern *F, PetscInt i, PetscInt length, const PetscInt list[])
{
  PetscInt  p = F->i[i], l = 0;
  PetscBool diagonal;

  while (l < length && list[l] < i) F->j[p++] = list[l++];
  F->right[i] = p;
  diagonal    = (PetscBool)(l < length && list[l] == i);
  if (diagonal) l++;
  while (l < length) F->j[p++] = list[l++];
  F->i[i + 1] = p;
  return diagonal;
}

/*
   Computes the fill. The level of an entry (i, j) is the min over k < min(i, j) of level (i, k) + level (k, j) + 1; entries of the
   matrix have level 0. Entries of a higher level than `levels` are dropped. A complete factorisation, levels < 0, reads row k only
   up to its first column i with an entry (i, k), because row i also has all later entries of row k. Without fill, levels = 0, the
   rows of the matrix are copied.

   Returns early if a diagonal entry is missing, in tile row *missing, or if there are too many entries
*/
static PetscErrorCode IDRSFactorFill(IDRSFactor factor, const IDRSFactorPermuted *A, PetscInt levels, PetscBool diagonal,
                                     PetscInt *missing, PetscBool *toomany)
{
  IDRSFactorPattern *F = &factor->pattern;
  IDRSFactorFillRow  row;
  PetscInt          *upto, *counts, *list; /* end of the part of each row that is read */

  PetscFunctionBegin;
  *missing = -1;
  *toomany = PETSC_FALSE;
  row      = (IDRSFactorFillRow){F->n, factor->scratch, factor->scratch + F->n + 1};
  upto     = row.level + row.n + 1;
  counts   = upto + row.n;
  list     = counts + row.n;
  PetscCall(PetscArrayzero(counts, row.n));
  for (PetscInt i = 0; i <= row.n; i++) row.level[i] = -1;
  PetscCall(IDRSFactorGrowPattern(factor, (PetscInt)PetscMin(factor->info.fill * (PetscReal)(A->i[A->n] / (F->bs * F->bs)),
                                                             (PetscReal)PETSC_MAX_INT / 4)));
  F->i[0] = 0;
  for (PetscInt i = 0; i < row.n; i++) {
    PetscInt  length, at = row.n, total = 0;
    PetscBool full;

    PetscCall(IDRSFactorTileRow(A, F->bs, i, counts, list, &length, &full));
    if (levels == 0 && (PetscInt64)F->i[i] + length + row.n <= PETSC_MAX_INT / (F->bs * F->bs)) {
      PetscCall(IDRSFactorGrowPattern(factor, F->i[i] + length));
      if (!IDRSFactorAddRow(F, i, length, list) && !diagonal) {
        *missing = i;
        break;
      }
      continue;
    }
    row.next[row.n] = row.n;
    /* the entries of the matrix have level 0 */
    for (PetscInt l = 0; l < length; l++) IDRSFactorFillInsert(&row, &at, list[l], 0);
    if (diagonal) {
      at = row.n;
      while (row.next[at] < i) at = row.next[at];
      IDRSFactorFillInsert(&row, &at, i, 0);
    }
    for (PetscInt k = row.next[row.n]; k < i; k = row.next[k]) {
      /* level (i, j) = min over k of level (i, k) + level (k, j) + 1 */
      const PetscInt end = upto[k];

      at = k;
      for (PetscInt p = F->right[k]; p < end; p++) {
        const PetscInt level = levels < 0 ? 0 : row.level[k] + factor->filled[p] + 1;

        if (levels < 0 || level <= levels) IDRSFactorFillInsert(&row, &at, F->j[p], level);
        if (levels < 0 && F->j[p] == i) upto[k] = p + 1;
      }
    }
    for (PetscInt k = row.next[row.n]; k < row.n; k = row.next[k]) total++;
    if (row.level[i] < 0) *missing = i;
    /* all values of the factors are counted by a PetscInt */
    if ((PetscInt64)F->i[i] + total + row.n > PETSC_MAX_INT / (F->bs * F->bs)) *toomany = PETSC_TRUE;
    if (*missing >= 0 || *toomany) break;
    F->i[i + 1] = F->i[i] + total - 1;
    PetscCall(IDRSFactorGrowPattern(factor, F->i[i + 1]));
    for (PetscInt k = row.next[row.n], p = F->i[i]; k < row.n; k = row.next[k]) {
      if (k == i) F->right[i] = p;
      else {
        F->j[p]             = k;
        factor->filled[p++] = row.level[k];
      }
      row.level[k] = -1;
    }
    upto[i] = F->i[i + 1];
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Finds the place of each entry of the matrix among the values of the factors */
static PetscErrorCode IDRSFactorFindPlaces(IDRSFactor factor, const IDRSFactorPermuted *A)
{
  const IDRSFactorPattern *F     = &factor->pattern;
  const PetscInt           bs    = F->bs;
  PetscInt *const          where = factor->scratch;

  PetscFunctionBegin;
  for (PetscInt tile = 0; tile < F->n; tile++) {
    for (PetscInt p = F->i[tile]; p < F->i[tile + 1]; p++) where[F->j[p]] = p;
    where[tile] = F->i[F->n] + tile;
    for (PetscInt r = 0; r < bs; r++) {
      const PetscInt row = IDRSFactorPermute(A->rows, tile * bs + r);

      for (PetscInt p = A->i[row]; p < A->i[row + 1]; p++) {
        const PetscInt column = IDRSFactorPermute(A->columns, A->j[p]);

        /* tile, row and column in it */
        factor->place[p] = (where[column / bs] * bs + r) * bs + column % bs;
      }
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Multiplications and additions of a numeric phase */
static PetscLogDouble IDRSFactorFlops(const IDRSFactorPattern *F)
{
  const PetscLogDouble bs       = (PetscLogDouble)F->bs;
  PetscLogDouble       products = (PetscLogDouble)F->n;

  for (PetscInt i = 0; i < F->n; i++) {
    for (PetscInt p = F->i[i]; p < F->right[i]; p++) products += (PetscLogDouble)(F->i[F->j[p] + 1] - F->right[F->j[p]]);
    products += (PetscLogDouble)(F->i[i + 1] - F->i[i]);
  }
  return 2.0 * bs * bs * bs * products;
}

static uint64_t IDRSFactorHash(uint64_t hash, PetscInt n, const PetscInt a[])
{
  for (PetscInt i = 0; i < n; i++) {
    hash = (hash ^ (uint64_t)a[i]) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

static PetscErrorCode IDRSFactorGetRows(Mat A, PetscInt *n, const PetscInt *i[], const PetscInt *j[])
{
  PetscBool done;

  PetscFunctionBegin;
  PetscCall(MatGetRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, n, i, j, &done));
  PetscCheck(done, PETSC_COMM_SELF, PETSC_ERR_SUP, "%s does not support type %s: MatGetRowIJ() does not provide its rows",
             MATSOLVERPETSCIDRS, ((PetscObject)A)->type_name);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that the matrix of a numeric phase has the pattern of the symbolic phase */
PetscErrorCode IDRSFactorCheckPattern_Private(IDRSFactor factor, Mat A)
{
  const PetscInt  *i, *j;
  PetscInt         n;
  PetscObjectId    id;
  PetscObjectState state;
  uint64_t         hash;
  PetscBool        done;

  PetscFunctionBegin;
  PetscCall(PetscObjectGetId((PetscObject)A, &id));
  PetscCall(MatGetNonzeroState(A, &state));
  /* the matrix has not changed since it was compared */
  if (id == factor->id && state == factor->state) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSFactorGetRows(A, &n, &i, &j));
  hash = factor->id && n == factor->rows && i[n] == factor->nonzeros ? IDRSFactorHash(IDRSFactorHash(0, n, i), i[n], j)
                                                                     : ~factor->hash;
  PetscCall(MatRestoreRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  PetscCheck(hash == factor->hash, PETSC_COMM_SELF, PETSC_ERR_ARG_WRONGSTATE,
             "The pattern has changed since the symbolic phase of %s; repeat MatLUFactorSymbolic() or MatILUFactorSymbolic()",
             MATSOLVERPETSCIDRS);
  factor->id    = id;
  factor->state = state;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Frees the data of a symbolic phase */
PetscErrorCode IDRSFactorResetPattern_Private(IDRSFactor factor)
{
  PetscFunctionBegin;
  PetscCall((*factor->ops->reset)(factor));
  PetscCall((*IDRSFactorBackEnds_Host.reset)(factor));
  PetscCall(PetscFree2(factor->pattern.i, factor->pattern.right));
  PetscCall(PetscFree(factor->pattern.j));
  PetscCall(PetscFree(factor->filled));
  PetscCall(PetscFree(factor->scratch));
  PetscCall(PetscFree(factor->place));
  factor->capacity = factor->growths = 0;
  factor->where                      = IDRS_FACTOR_NO_VALUES;
  factor->id                         = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the pattern, and the places of the entries of the matrix. The caller frees the temporary data, also after an error */
static PetscErrorCode IDRSFactorFindPattern(IDRSFactor factor, Mat A, const IDRSFactorPermuted *permuted, const char untiled[])
{
  IDRSFactorPattern *F        = &factor->pattern;
  const PetscBool    complete = (PetscBool)(factor->info.levels < 0);
  PetscInt           missing;
  PetscBool          toomany;

  PetscFunctionBegin;
  PetscCall(PetscMalloc1((size_t)IDRS_FACTOR_SCRATCH * (permuted->n + 1), &factor->scratch));
  PetscCall(IDRSFactorFindTiles(factor, A, permuted, untiled, &F->bs, &factor->untiled));
  if (factor->untiled) PetscCall(PetscInfo(A, "%s: tiles of one row: %s\n", MATSOLVERPETSCIDRS, factor->untiled));
  F->n = permuted->n / F->bs;
  PetscCall(PetscMalloc2(F->n + 1, &F->i, F->n, &F->right));
  PetscCall(IDRSFactorFill(factor, permuted, complete ? -1 : (PetscInt)factor->info.levels,
                           (PetscBool)(!complete && factor->info.diagonal_fill != 0.0), &missing, &toomany));
  PetscCheck(
    missing < 0, PETSC_COMM_SELF, PETSC_ERR_MAT_LU_ZRPVT,
    "Row %" PetscInt_FMT
    " of the permuted matrix has no entry on the diagonal; see -pc_factor_diagonal_fill and -pc_factor_nonzeros_along_diagonal",
    missing * F->bs);
  PetscCheck(!toomany, PETSC_COMM_SELF, PETSC_ERR_SUP,
             "The factors have more than %" PetscInt_FMT
             " entries; reduce -pc_factor_levels, or configure PETSc with 64-bit indices",
             PETSC_MAX_INT);
  factor->nonzeros = permuted->i[permuted->n];
  PetscCall(PetscMalloc1(factor->nonzeros, &factor->place));
  PetscCall(IDRSFactorFindPlaces(factor, permuted));
  PetscCall(PetscFree(factor->filled));
  PetscCall(PetscFree(factor->scratch));
  factor->flops = IDRSFactorFlops(F);
  factor->hash  = IDRSFactorHash(IDRSFactorHash(0, permuted->n, permuted->i), factor->nonzeros, permuted->j);
  factor->rows  = permuted->n;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSFactorSymbolic_Private - Computes the pattern of the factors with the permutations and levels of the factor; untiled: the
   reason why tiles must have one row, or NULL
*/
PetscErrorCode IDRSFactorSymbolic_Private(IDRSFactor factor, Mat A, const char untiled[])
{
  IDRSFactorPermuted permuted = {0, NULL, NULL, NULL, NULL};
  IS                 inverse  = NULL;
  PetscErrorCode     ierr     = PETSC_SUCCESS;
  PetscBool          done;

  PetscFunctionBegin;
  PetscCall(IDRSFactorResetPattern_Private(factor));
  if (factor->col) {
    PetscCall(ISInvertPermutation(factor->col, PETSC_DECIDE, &inverse));
    ierr = ISGetIndices(inverse, &permuted.columns);
  }
  if (!ierr && factor->row) ierr = ISGetIndices(factor->row, &permuted.rows);
  if (!ierr) ierr = IDRSFactorGetRows(A, &permuted.n, &permuted.i, &permuted.j);
  if (!ierr) ierr = IDRSFactorFindPattern(factor, A, &permuted, untiled);
  if (permuted.i) PetscCall(MatRestoreRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &permuted.n, &permuted.i, &permuted.j, &done));
  if (permuted.rows) PetscCall(ISRestoreIndices(factor->row, &permuted.rows));
  if (permuted.columns) PetscCall(ISRestoreIndices(inverse, &permuted.columns));
  PetscCall(ISDestroy(&inverse));
  PetscCall(ierr);
  PetscCall(PetscObjectGetId((PetscObject)A, &factor->id));
  PetscCall(MatGetNonzeroState(A, &factor->state));
  PetscFunctionReturn(PETSC_SUCCESS);
}
