/*
   Aggregates of the rows of a matrix of type MATSEQAIJ: boxes of a grid, if all entries are between neighbours of a structured grid
   whose rows have the order of its points, else pairs of pairs, or pairs of these.

   Reference for pairs: Y. Notay, An aggregation-based algebraic multigrid method, Electron. Trans. Numer. Anal. 37 (2010). Here the
   pairs of a pass are found by handshakes, which can be made at the same time for all rows
*/
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsrows.h>
#include "aggregation.h"

/* Aggregates of the rows of this process */
typedef struct {
  AggregatesKind kind;
  PetscInt       count;
  PetscInt      *of; /* the aggregate of each row, or -1 for none */
} Aggregates;

/* Adds a distance to the sorted list. Returns PETSC_FALSE if there are too many for a grid */
static PetscBool GridAddOffset(PetscInt offset, PetscInt offsets[], PetscInt *count)
{
  PetscInt k = *count;

  while (k > 0 && offsets[k - 1] > offset) k--;
  if (k > 0 && offsets[k - 1] == offset) return PETSC_TRUE;
  if (*count == GRID_OFFSETS) return PETSC_FALSE;
  for (PetscInt l = *count; l > k; l--) offsets[l] = offsets[l - 1];
  offsets[k] = offset;
  (*count)++;
  return PETSC_TRUE;
}

/*
   GridFromOffsets_Private - Finds the grid of n points whose neighbours have these distances, in increasing order: 1, about n_0,
   and about n_0 n_1. Returns PETSC_FALSE if there is none
*/
PetscBool GridFromOffsets_Private(PetscInt n, PetscInt count, const PetscInt offsets[], Grid *grid)
{
  PetscInt plane;

  if (!count || offsets[0] != 1) return PETSC_FALSE;
  *grid = (Grid){
    .n = {n, 1, 1}
  };
  if (count > 1) {
    /* 1, n_0 or 1, n_0 - 1, n_0, n_0 + 1 */
    grid->n[0] = count > 3 && offsets[3] == offsets[1] + 2 ? offsets[2] : offsets[1];
    grid->n[1] = n / grid->n[0];
    if (offsets[count - 1] > grid->n[0] + 1) {
      PetscInt first = 0;

      while (offsets[first] <= grid->n[0] + 1) first++;
      plane      = offsets[first] + (offsets[count - 1] - offsets[first]) / 2;
      grid->n[1] = plane / grid->n[0];
      grid->n[2] = plane ? n / plane : 0;
    }
  }
  return (PetscBool)(grid->n[0] * grid->n[1] * grid->n[2] == n);
}

/* GridSetBoxes_Private - Sets boxes of two points in each direction whose couplings are strong */
void GridSetBoxes_Private(Grid *grid)
{
  const PetscReal strongest = PetscMax(PetscMax(grid->coupling[0], grid->coupling[1]), grid->coupling[2]);

  for (int d = 0; d < 3; d++) grid->size[d] = grid->coupling[d] >= AGGREGATES_STRONG * strongest ? 2 : 1;
}

/* Finds the grid. Returns PETSC_FALSE if an entry is not between neighbours of it */
static PetscBool GridFind(const IDRSRows *rows, Grid *grid)
{
  PetscInt offsets[GRID_OFFSETS] = {0}, count = 0;

  for (PetscInt i = 0; i < rows->n; i++) {
    for (PetscInt k = rows->i[i]; k < rows->i[i + 1]; k++) {
      if (rows->j[k] != i && !GridAddOffset(PetscAbsInt(rows->j[k] - i), offsets, &count)) return PETSC_FALSE;
    }
  }
  if (!GridFromOffsets_Private(rows->n, count, offsets, grid)) return PETSC_FALSE;
  for (PetscInt i = 0; i < rows->n; i++) {
    const PetscInt x = i % grid->n[0], y = i / grid->n[0] % grid->n[1], z = i / grid->n[0] / grid->n[1];

    for (PetscInt k = rows->i[i]; k < rows->i[i + 1]; k++) {
      const PetscInt  j        = rows->j[k];
      const PetscInt  step[]   = {j % grid->n[0] - x, j / grid->n[0] % grid->n[1] - y, j / grid->n[0] / grid->n[1] - z};
      const PetscReal coupling = PetscAbsScalar(rows->a[k]);

      for (int d = 0; d < 3; d++) {
        if (PetscAbsInt(step[d]) > 1) return PETSC_FALSE;
        if (step[d]) grid->coupling[d] += coupling;
      }
    }
  }
  GridSetBoxes_Private(grid);
  return PETSC_TRUE;
}

/* Returns PETSC_TRUE if a row has an entry besides its diagonal entry that is not zero */
static PetscBool RowIsCoupled(const IDRSRows *rows, PetscInt i)
{
  for (PetscInt k = rows->i[i]; k < rows->i[i + 1]; k++) {
    if (rows->j[k] != i && rows->a[k] != 0.0) return PETSC_TRUE;
  }
  return PETSC_FALSE;
}

/*
   Makes the boxes, each of which is a point of the coarse grid. A row without couplings is in no aggregate. If all rows of a box
   have none, its first row is the aggregate, so that no row of the coarse matrix is empty
*/
static PetscErrorCode AggregatesFromGrid(const IDRSRows *rows, const Grid *grid, Aggregates *aggregates)
{
  PetscInt   m[3];
  PetscBool *coupled; /* of a box: a row has couplings, or a row without couplings is the aggregate */

  PetscFunctionBegin;
  for (int d = 0; d < 3; d++) m[d] = (grid->n[d] + grid->size[d] - 1) / grid->size[d];
  aggregates->kind  = AGGREGATES_BOXES;
  aggregates->count = m[0] * m[1] * m[2];
  PetscCall(PetscCalloc1(aggregates->count, &coupled));
  for (PetscInt i = 0; i < rows->n; i++) {
    const PetscInt x = i % grid->n[0], y = i / grid->n[0] % grid->n[1], z = i / grid->n[0] / grid->n[1];

    aggregates->of[i] = x / grid->size[0] + m[0] * (y / grid->size[1] + m[1] * (z / grid->size[2]));
    if (RowIsCoupled(rows, i)) coupled[aggregates->of[i]] = PETSC_TRUE;
  }
  for (PetscInt i = 0; i < rows->n; i++) {
    PetscBool *const box = &coupled[aggregates->of[i]];

    if (*box && !RowIsCoupled(rows, i)) aggregates->of[i] = -1;
    *box = PETSC_TRUE;
  }
  PetscCall(PetscFree(coupled));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes the strengths of couplings: the symmetric part of -D^{-1/2} A D^{-1/2}, D = |diag(A)|, rows multiplied by the sign of
   their diagonal entry, with few digits. Positive ones attract. Equal ones are told apart by the parity of a row, so that pairs
   form a pattern
*/
static PetscErrorCode CouplingsCreate(Mat A, Mat *S)
{
  Vec          left, right;
  Mat          T;
  PetscScalar *l, *r, *values;
  PetscInt     n;
  IDRSRows     rows;

  PetscFunctionBegin;
  PetscCall(MatDuplicate(A, MAT_COPY_VALUES, S));
  PetscCall(MatCreateVecs(A, &right, &left));
  PetscCall(MatGetDiagonal(A, left));
  PetscCall(VecGetLocalSize(left, &n));
  PetscCall(VecGetArray(left, &l));
  PetscCall(VecGetArrayWrite(right, &r));
  for (PetscInt i = 0; i < n; i++) {
    const PetscReal d = PetscRealPart(l[i]), scale = l[i] == 0.0 ? 1.0 : 1.0 / PetscSqrtReal(PetscAbsScalar(l[i]));

    l[i] = d < 0.0 ? scale : -scale;
    r[i] = scale;
  }
  PetscCall(VecRestoreArrayWrite(right, &r));
  PetscCall(VecRestoreArray(left, &l));
  PetscCall(MatDiagonalScale(*S, left, right));
  PetscCall(VecDestroy(&left));
  PetscCall(VecDestroy(&right));
  PetscCall(MatTranspose(*S, MAT_INITIAL_MATRIX, &T));
  PetscCall(MatAXPY(*S, 1.0, T, DIFFERENT_NONZERO_PATTERN));
  PetscCall(MatDestroy(&T));
  PetscCall(IDRSRowsGet(*S, &rows));
  PetscCall(MatSeqAIJGetArray(*S, &values));
  for (PetscInt i = 0; i < n; i++) {
    for (PetscInt k = rows.i[i]; k < rows.i[i + 1]; k++) {
      const PetscInt distance = PetscAbsInt(rows.j[k] - i);
      int            exponent;
      const double   s = frexp(PetscRealPart(values[k]), &exponent);

      values[k] = 0.0;
      if (distance && s > 0.0)
        values[k] = (float)(ldexp(rint(AGGREGATES_PARTS * s), exponent) *
                            (1.0 +
                             1e-3 * ((PetscMin(i, rows.j[k]) / distance % 2 ? 0.0 : 1.0) + 0.4 / (1.0 + PetscLog2Real(distance)))));
    }
  }
  PetscCall(MatSeqAIJRestoreArray(*S, &values));
  PetscCall(IDRSRowsRestore(&rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* `most`: the largest strengths of the two rows of a coupling */
static PetscBool PairIsStrong(PetscReal strength, PetscReal most, PetscReal othermost)
{
  return (PetscBool)(strength > 0.0 && strength >= AGGREGATES_STRONG * PetscMax(most, othermost));
}

/*
   Joins rows to pairs: in each round each free row points to the free row with the strongest coupling, and two that point to each
   other become a pair. A row that stays free joins the pair with the strongest coupling. of[i] is the number of the aggregate.
   "few": rows with strong couplings have few of them on average
*/
static PetscErrorCode PairsFind(Mat A, PetscInt of[], PetscInt *count, PetscBool *few)
{
  Mat        S;
  IDRSRows   s;
  PetscReal *most;
  PetscInt  *to, n, couplings = 0, coupled = 0;
  PetscBool  joined = PETSC_TRUE;

  PetscFunctionBegin;
  PetscCall(CouplingsCreate(A, &S));
  PetscCall(IDRSRowsGet(S, &s));
  n = s.n;
  PetscCall(PetscCalloc1(n, &most));
  PetscCall(PetscMalloc1(n, &to));
  for (PetscInt i = 0; i < n; i++) {
    of[i] = -1;
    for (PetscInt k = s.i[i]; k < s.i[i + 1]; k++) most[i] = PetscMax(most[i], PetscRealPart(s.a[k]));
  }
  for (PetscInt i = 0; i < n; i++) {
    PetscInt strong = 0;

    for (PetscInt k = s.i[i]; k < s.i[i + 1]; k++) strong += PairIsStrong(PetscRealPart(s.a[k]), most[i], most[s.j[k]]);
    couplings += strong;
    coupled += strong > 0;
  }
  *few = (PetscBool)(couplings / AGGREGATES_FEW < coupled);
  for (PetscInt round = 0; round < AGGREGATES_ROUNDS && joined; round++) {
    joined = PETSC_FALSE;
    for (PetscInt i = 0; i < n; i++) {
      PetscReal best = 0.0;

      to[i] = -1;
      for (PetscInt k = s.i[i]; k < s.i[i + 1] && of[i] < 0; k++) {
        const PetscInt  j     = s.j[k];
        const PetscReal value = PetscRealPart(s.a[k]);

        if (of[j] < 0 && value > best && PairIsStrong(value, most[i], most[j])) {
          best  = value;
          to[i] = j;
        }
      }
    }
    for (PetscInt i = 0; i < n; i++) {
      if (to[i] > i && to[to[i]] == i) {
        of[i] = of[to[i]] = i;
        joined            = PETSC_TRUE;
      }
    }
  }
  for (PetscInt i = 0; i < n; i++) {
    PetscReal best = 0.0;

    to[i] = of[i];
    for (PetscInt k = s.i[i]; k < s.i[i + 1] && of[i] < 0; k++) {
      const PetscReal value = PetscRealPart(s.a[k]);

      if (of[s.j[k]] >= 0 && value > best && value >= AGGREGATES_STRONG * most[i]) {
        best  = value;
        to[i] = of[s.j[k]];
      }
    }
  }
  /* numbers in the order of the first rows of pairs; a row without a partner is its own aggregate */
  *count = 0;
  for (PetscInt i = 0; i < n; i++) {
    if (to[i] < 0) to[i] = i;
    if (to[i] == i) of[i] = (*count)++;
  }
  for (PetscInt i = 0; i < n; i++) to[i] = of[to[i]];
  PetscCall(PetscArraycpy(of, to, n));
  PetscCall(PetscFree(to));
  PetscCall(PetscFree(most));
  PetscCall(IDRSRowsRestore(&s));
  PetscCall(MatDestroy(&S));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates P for n rows of this process */
static PetscErrorCode AggregatesGetProlongation(MPI_Comm comm, PetscInt n, const Aggregates *aggregates, Mat *P)
{
  PetscInt begin, column;

  PetscFunctionBegin;
  PetscCall(MatCreate(comm, P));
  PetscCall(MatSetSizes(*P, n, aggregates->count, PETSC_DETERMINE, PETSC_DETERMINE));
  PetscCall(MatSetType(*P, MATAIJ));
  PetscCall(MatSeqAIJSetPreallocation(*P, 1, NULL));
  PetscCall(MatMPIAIJSetPreallocation(*P, 1, NULL, 0, NULL));
  PetscCall(MatGetOwnershipRange(*P, &begin, NULL));
  PetscCall(MatGetOwnershipRangeColumn(*P, &column, NULL));
  for (PetscInt i = 0; i < n; i++) {
    if (aggregates->of[i] >= 0) PetscCall(MatSetValue(*P, begin + i, column + aggregates->of[i], 1.0, INSERT_VALUES));
  }
  PetscCall(MatAssemblyBegin(*P, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(*P, MAT_FINAL_ASSEMBLY));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes aggregates of up to 8 rows, 4 if rows have few strong couplings, or some more, in passes that join pairs of aggregates */
static PetscErrorCode AggregatesFromPairs(Mat A, const IDRSRows *rows, Aggregates *aggregates)
{
  Aggregates pass = {.kind = AGGREGATES_PAIRS};
  Mat        P, fine = A, coarse;
  PetscInt  *number, m, n = rows->n;
  int        passes = AGGREGATES_PASSES;

  PetscFunctionBegin;
  aggregates->kind = AGGREGATES_PAIRS;
  PetscCall(PetscMalloc2(n, &pass.of, n, &number));
  for (PetscInt i = 0; i < n; i++) aggregates->of[i] = RowIsCoupled(rows, i) ? i : -1;
  PetscCall(PetscObjectReference((PetscObject)fine));
  for (int p = 0; p < passes; p++) {
    PetscBool few = PETSC_FALSE;

    PetscCall(PairsFind(fine, pass.of, &pass.count, &few));
    if (!p && few) passes = AGGREGATES_PASSES_FEW;
    for (PetscInt i = 0; i < n; i++) {
      if (aggregates->of[i] >= 0) aggregates->of[i] = pass.of[aggregates->of[i]];
    }
    if (p + 1 < passes) {
      PetscCall(MatGetLocalSize(fine, &m, NULL));
      PetscCall(AggregatesGetProlongation(PETSC_COMM_SELF, m, &pass, &P));
      PetscCall(MatPtAP(fine, P, MAT_INITIAL_MATRIX, 1.0, &coarse));
      PetscCall(MatDestroy(&P));
      PetscCall(MatDestroy(&fine));
      fine = coarse;
    }
  }
  PetscCall(MatDestroy(&fine));
  /* without the rows that are coupled to no other, whose aggregates are empty */
  PetscCall(PetscArrayzero(number, pass.count));
  for (PetscInt i = 0; i < n; i++) {
    if (aggregates->of[i] >= 0) number[aggregates->of[i]] = 1;
  }
  for (PetscInt c = 0; c < pass.count; c++) number[c] = number[c] ? aggregates->count++ : -1;
  for (PetscInt i = 0; i < n; i++) {
    if (aggregates->of[i] >= 0) aggregates->of[i] = number[aggregates->of[i]];
  }
  PetscCall(PetscFree2(pass.of, number));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode AggregatesRuns_Host(Mat A, const char *why[])
{
  PetscFunctionBegin;
  (void)A;
  *why = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes aggregates of the rows of this process, and P */
static PetscErrorCode AggregatesCreate_Host(Mat A, AggregatesKind *kind, Mat *P, const char *why[])
{
  Aggregates aggregates = {.kind = AGGREGATES_BOXES};
  IDRSRows   rows;
  Grid       grid;
  Mat        block;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(IDRSRowsGetBlocks(A, &block, NULL, NULL));
  PetscCall(IDRSRowsGet(block, &rows));
  PetscCall(PetscMalloc1(rows.n, &aggregates.of));
  if (GridFind(&rows, &grid)) PetscCall(AggregatesFromGrid(&rows, &grid, &aggregates));
  else if (rows.n) PetscCall(AggregatesFromPairs(block, &rows, &aggregates));
  *kind = aggregates.kind;
  PetscCall(AggregatesGetProlongation(PetscObjectComm((PetscObject)A), rows.n, &aggregates, P));
  PetscCall(PetscFree(aggregates.of));
  PetscCall(IDRSRowsRestore(&rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* P is sequential on one process, also if A is of a parallel type */
static PetscErrorCode AggregatesProduct_Host(Mat A, Mat P, PetscReal factor, MatReuse reuse, Mat *coarse)
{
  Mat block, outer;

  PetscFunctionBegin;
  PetscCall(IDRSRowsGetBlocks(A, &block, &outer, NULL));
  PetscCall(MatPtAP(outer ? A : block, P, reuse, 1.0, coarse));
  PetscCall(MatScale(*coarse, factor));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode AggregatesMissing_Host(Mat A, Mat P, PetscInt *count)
{
  IDRSRows a, p;
  Mat      blocks[2];

  PetscFunctionBegin;
  *count = 0;
  PetscCall(IDRSRowsGetBlocks(A, &blocks[0], NULL, NULL));
  PetscCall(IDRSRowsGetBlocks(P, &blocks[1], NULL, NULL));
  PetscCall(IDRSRowsGet(blocks[0], &a));
  PetscCall(IDRSRowsGet(blocks[1], &p));
  for (PetscInt i = 0; i < a.n; i++) {
    if (p.i[i] == p.i[i + 1] && RowIsCoupled(&a, i)) (*count)++;
  }
  PetscCall(IDRSRowsRestore(&p));
  PetscCall(IDRSRowsRestore(&a));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode AggregatesGetEntries_Host(Mat A, Mat *B)
{
  PetscFunctionBegin;
  *B = A;
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const AggregatesOps Aggregates_Host = {
  PetscDesignatedInitializer(where, "in the memory of the host"),
  PetscDesignatedInitializer(coarsest, AGGREGATION_COARSEST),
  PetscDesignatedInitializer(parallelcoarsest, AGGREGATION_COARSEST),
  PetscDesignatedInitializer(runs, AggregatesRuns_Host),
  PetscDesignatedInitializer(create, AggregatesCreate_Host),
  PetscDesignatedInitializer(product, AggregatesProduct_Host),
  PetscDesignatedInitializer(missing, AggregatesMissing_Host),
  PetscDesignatedInitializer(entries, AggregatesGetEntries_Host),
};
// clang-format on
