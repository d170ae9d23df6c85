/*
   Numeric phase and solves in the memory of the host, one tile row after another
*/
#include "factorimpl.h"
#include <petscidrs/private/idrsloops.h>

/* Columns of one solve; more columns are slower if tiles have more than one row, because there are too few registers */
#define IDRS_HOST_COLUMNS 4

/* y -= A x for a tile A of bs x bs by rows, and m columns of x and y, by rows */
IDRS_INLINE void IDRSFactorSubtractTile(PetscInt bs, PetscInt m, const PetscScalar *A, const PetscScalar *PETSC_RESTRICT x,
                                        PetscScalar *PETSC_RESTRICT y)
{
  for (PetscInt r = 0; r < bs; r++) {
    for (PetscInt s = 0; s < bs; s++) {
      for (PetscInt c = 0; c < m; c++) y[r * m + c] -= A[r * bs + s] * x[s * m + c];
    }
  }
}

/* y -= A^T x */
IDRS_INLINE void IDRSFactorSubtractTransposedTile(PetscInt bs, PetscInt m, const PetscScalar *A,
                                                  const PetscScalar *PETSC_RESTRICT x, PetscScalar *PETSC_RESTRICT y)
{
  for (PetscInt s = 0; s < bs; s++) {
    for (PetscInt r = 0; r < bs; r++) {
      for (PetscInt c = 0; c < m; c++) y[r * m + c] -= A[s * bs + r] * x[s * m + c];
    }
  }
}

/* x = A x, or A^T x */
IDRS_INLINE void IDRSFactorMultiplyTile(PetscInt bs, PetscInt m, const PetscScalar *A, PetscBool transposed, PetscScalar *x)
{
  PetscScalar y[IDRS_FACTOR_TILE * IDRS_FACTOR_TILE];

  for (PetscInt l = 0; l < bs * m; l++) y[l] = 0.0;
  for (PetscInt r = 0; r < bs; r++) {
    for (PetscInt s = 0; s < bs; s++) {
      const PetscScalar a = transposed ? A[s * bs + r] : A[r * bs + s];

      for (PetscInt c = 0; c < m; c++) y[r * m + c] += a * x[s * m + c];
    }
  }
  for (PetscInt l = 0; l < bs * m; l++) x[l] = y[l];
}

static void IDRSFactorReportPivot(IDRSSmallPivots *small, PetscInt row, PetscScalar pivot, PetscReal sum)
{
  for (PetscInt l = small->count++ ? 1 : 0; l < 2; l++) {
    small->row[l]   = row;
    small->pivot[l] = pivot;
    small->sum[l]   = sum;
  }
}

/* Absolute values of row i of L and U without the diagonal, as with a diagonal that belongs to U */
static PetscReal IDRSFactorRowSum(const IDRSFactorPattern *F, const PetscScalar a[], const PetscScalar inverse[], PetscInt i)
{
  PetscReal sum = 0.0;

  for (PetscInt p = F->i[i]; p < F->right[i]; p++) sum += PetscAbsScalar(a[p] * inverse[F->j[p]]);
  for (PetscInt p = F->right[i]; p < F->i[i + 1]; p++) sum += PetscAbsScalar(a[p]);
  return sum;
}

/* Row i, which has the entries of the matrix. where: place of each tile column of the row, or negative */
IDRS_INLINE void IDRSFactorRow(const IDRSFactorPattern *F, PetscInt bs, PetscInt i, PetscScalar a[], PetscInt where[],
                               const IDRSPivotRule *rule, IDRSSmallPivots *small)
{
  const PetscInt     bs2     = bs * bs;
  PetscScalar *const inverse = a + F->i[F->n] * bs2, *D = inverse + i * bs2;
  PetscScalar        pivots[IDRS_FACTOR_TILE];
  PetscReal          sum = 0.0;

  for (PetscInt p = F->i[i]; p < F->i[i + 1]; p++) where[F->j[p]] = p;
  where[i] = F->i[F->n] + i;
  for (PetscInt p = F->i[i]; p < F->right[i]; p++) {
    const PetscInt k = F->j[p];

    for (PetscInt q = F->right[k]; q < F->i[k + 1]; q++) {
      const PetscInt place = where[F->j[q]];

      /* A'_ij -= A'_ik U_kj */
      if (place >= 0) IDRSFactorSubtractTile(bs, bs, a + p * bs2, a + q * bs2, a + place * bs2);
    }
  }
  for (PetscInt p = F->i[i]; p < F->i[i + 1]; p++) where[F->j[p]] = -1;
  where[i] = -1;
  if (IDRSPivotNeedsSum(rule)) sum = IDRSFactorRowSum(F, a, inverse, i);
  if (IDRSFactorInvert(bs, D, rule, sum, pivots) && bs > 1) small->unfit = PETSC_TRUE;
  for (PetscInt r = 0; r < bs; r++) {
    if (IDRSPivotIsSmall(rule, pivots[r], sum)) IDRSFactorReportPivot(small, i * bs + r, pivots[r], sum);
  }
  /* row i of L and U = D^{-1} A'_i */
  for (PetscInt p = F->i[i]; p < F->i[i + 1]; p++) IDRSFactorMultiplyTile(bs, bs, D, PETSC_FALSE, a + p * bs2);
}

/* Dispatches to code for each frequent size of tiles */
static void IDRSFactorRowTiles(const IDRSFactorPattern *F, PetscInt i, PetscScalar a[], PetscInt where[], const IDRSPivotRule *rule,
                               IDRSSmallPivots *small)
{
  if (F->bs == 1) IDRSFactorRow(F, 1, i, a, where, rule, small);
  else if (F->bs == 3) IDRSFactorRow(F, 3, i, a, where, rule, small);
  else if (F->bs == 4) IDRSFactorRow(F, 4, i, a, where, rule, small);
  else IDRSFactorRow(F, F->bs, i, a, where, rule, small);
}

static PetscErrorCode IDRSFactorNumeric_Host(IDRSFactor factor, Mat A, const IDRSPivotRule *rule, IDRSSmallPivots *small)
{
  const IDRSFactorPattern *F = &factor->pattern;
  PetscInt                *where;
  IDRSRows                 rows;

  PetscFunctionBegin;
  if (!factor->values) PetscCall(PetscMalloc1(IDRSFactorEntries(F), &factor->values));
  PetscCall(PetscArrayzero(factor->values, IDRSFactorEntries(F)));
  PetscCall(IDRSRowsGet(A, &rows));
  for (PetscInt p = 0; p < factor->nonzeros; p++) factor->values[factor->place[p]] = rows.a[p];
  PetscCall(IDRSRowsRestore(&rows));
  if (rule->shift != 0.0) {
    /* only tiles of one row have a shift here */
    for (PetscInt r = 0; r < F->n; r++) factor->values[F->i[F->n] + r] += rule->shift;
  }
  PetscCall(PetscMalloc1(F->n, &where));
  for (PetscInt i = 0; i < F->n; i++) where[i] = -1;
  for (PetscInt i = 0; i < F->n; i++) {
    IDRSFactorRowTiles(F, i, factor->values, where, rule, small);
    if (small->unfit || (small->count && IDRSPivotNeedsSum(rule))) break;
  }
  PetscCall(PetscFree(where));
  PetscCall(PetscLogFlops(factor->flops));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* x_i -= sum of A_p x_j over the entries p of a row */
IDRS_INLINE void IDRSFactorSubtractRow(const IDRSFactorPattern *F, PetscInt bs, PetscInt m, const PetscScalar a[], PetscInt i,
                                       PetscInt begin, PetscInt end, PetscScalar x[])
{
  PetscScalar y[IDRS_FACTOR_TILE * IDRS_FACTOR_TILE];

  for (PetscInt l = 0; l < bs * m; l++) y[l] = x[(size_t)i * bs * m + l];
  for (PetscInt p = begin; p < end; p++) IDRSFactorSubtractTile(bs, m, a + p * bs * bs, x + (size_t)F->j[p] * bs * m, y);
  for (PetscInt l = 0; l < bs * m; l++) x[(size_t)i * bs * m + l] = y[l];
}

/* x_j -= A_p^T x_i for the entries p of a row */
IDRS_INLINE void IDRSFactorSubtractTransposedRow(const IDRSFactorPattern *F, PetscInt bs, PetscInt m, const PetscScalar a[],
                                                 PetscInt i, PetscInt begin, PetscInt end, PetscScalar x[])
{
  for (PetscInt p = begin; p < end; p++)
    IDRSFactorSubtractTransposedTile(bs, m, a + p * bs * bs, x + (size_t)i * bs * m, x + (size_t)F->j[p] * bs * m);
}

/* Both triangles and the diagonal, for m columns of x by rows */
IDRS_INLINE void IDRSFactorSweep(const IDRSFactorPattern *F, PetscInt bs, PetscInt m, const PetscScalar a[],
                                 IDRSFactorDirection direction, PetscScalar x[])
{
  const PetscScalar *inverse = a + F->i[F->n] * bs * bs;

  if (direction == IDRS_FACTOR_FORWARD) {
    for (PetscInt i = 0; i < F->n; i++) {
      /* x = (I + L)^{-1} D^{-1} b, then x = (I + U)^{-1} x */
      IDRSFactorMultiplyTile(bs, m, inverse + i * bs * bs, PETSC_FALSE, x + (size_t)i * bs * m);
      IDRSFactorSubtractRow(F, bs, m, a, i, F->i[i], F->right[i], x);
    }
    for (PetscInt i = F->n - 1; i >= 0; i--) IDRSFactorSubtractRow(F, bs, m, a, i, F->right[i], F->i[i + 1], x);
  } else {
    /* x = (I + U)^{-T} b, then x = D^{-T} (I + L)^{-T} x */
    for (PetscInt i = 0; i < F->n; i++) IDRSFactorSubtractTransposedRow(F, bs, m, a, i, F->right[i], F->i[i + 1], x);
    for (PetscInt i = F->n - 1; i >= 0; i--) {
      IDRSFactorSubtractTransposedRow(F, bs, m, a, i, F->i[i], F->right[i], x);
      IDRSFactorMultiplyTile(bs, m, inverse + i * bs * bs, PETSC_TRUE, x + (size_t)i * bs * m);
    }
  }
}

/* Dispatches to code for each frequent size of tiles */
IDRS_INLINE void IDRSFactorSweepTiles(const IDRSFactorPattern *F, PetscInt m, const PetscScalar a[], IDRSFactorDirection direction,
                                      PetscScalar x[])
{
  if (F->bs == 1) IDRSFactorSweep(F, 1, m, a, direction, x);
  else if (F->bs == 2) IDRSFactorSweep(F, 2, m, a, direction, x);
  else if (F->bs == 3) IDRSFactorSweep(F, 3, m, a, direction, x);
  else if (F->bs == 4) IDRSFactorSweep(F, 4, m, a, direction, x);
  else if (F->bs == 5) IDRSFactorSweep(F, 5, m, a, direction, x);
  else IDRSFactorSweep(F, F->bs, m, a, direction, x);
}

/* One column of b and x, or IDRS_HOST_COLUMNS of them. All of b is read before x is written */
static PetscErrorCode IDRSFactorSolveColumns(IDRSFactor factor, IDRSFactorDirection direction, PetscInt m, const PetscScalar b[],
                                             PetscInt ldb, PetscScalar x[], PetscInt ldx)
{
  const IDRSFactorPattern *F  = &factor->pattern;
  const size_t             n  = (size_t)factor->rows;
  const IS                 in = direction == IDRS_FACTOR_FORWARD ? factor->row : factor->col,
           out                = direction == IDRS_FACTOR_FORWARD ? factor->col : factor->row;
  const PetscInt *from = NULL, *to = NULL;

  PetscFunctionBegin;
  if (!factor->work) PetscCall(PetscMalloc1(n * IDRS_HOST_COLUMNS, &factor->work));
  if (in) PetscCall(ISGetIndices(in, &from));
  if (out) PetscCall(ISGetIndices(out, &to));
  for (PetscInt c = 0; c < m; c++) {
    for (size_t i = 0; i < n; i++) factor->work[i * m + c] = b[(from ? (size_t)from[i] : i) + (size_t)c * ldb];
  }
  if (m == 1) IDRSFactorSweepTiles(F, 1, factor->values, direction, factor->work);
  else IDRSFactorSweepTiles(F, IDRS_HOST_COLUMNS, factor->values, direction, factor->work);
  for (PetscInt c = 0; c < m; c++) {
    for (size_t i = 0; i < n; i++) x[(to ? (size_t)to[i] : i) + (size_t)c * ldx] = factor->work[i * m + c];
  }
  if (out) PetscCall(ISRestoreIndices(out, &to));
  if (in) PetscCall(ISRestoreIndices(in, &from));
  PetscCall(PetscLogFlops(m * IDRSFactorSolveFlops(F)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSFactorSolve_Host(IDRSFactor factor, IDRSFactorDirection direction, const IDRSArrays *arrays)
{
  PetscInt atonce;

  PetscFunctionBegin;
  for (PetscInt c = 0; c < arrays->columns; c += atonce) {
    atonce = arrays->columns - c >= IDRS_HOST_COLUMNS ? IDRS_HOST_COLUMNS : 1;
    PetscCall(IDRSFactorSolveColumns(factor, direction, atonce, arrays->b + (size_t)c * arrays->ldb, arrays->ldb,
                                     arrays->x + (size_t)c * arrays->ldx, arrays->ldx));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSFactorReset_Host(IDRSFactor factor)
{
  PetscFunctionBegin;
  PetscCall(PetscFree(factor->values));
  PetscCall(PetscFree(factor->work));
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const IDRSFactorOps IDRSFactorBackEnds_Host = {
  PetscDesignatedInitializer(name, "on the host"),
  PetscDesignatedInitializer(numeric, IDRSFactorNumeric_Host),
  PetscDesignatedInitializer(solve, IDRSFactorSolve_Host),
  PetscDesignatedInitializer(reset, IDRSFactorReset_Host),
  PetscDesignatedInitializer(copies, NULL),
};
// clang-format on
