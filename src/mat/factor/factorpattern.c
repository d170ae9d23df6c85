/*
   The pattern of PETSc's factor, by tiles if all blocks are full, and its triangles in the order of their levels
*/
#include "factorimpl.h"

#if defined(PETSCIDRS_HAVE_CUDA)

/*
   Copies the pattern without the diagonal. PETSc stores the rows of L, and then the rows of U from the last to the first, each with
   its diagonal entry at the end
*/
static PetscErrorCode IDRSFactorCopyPattern(Mat petsc, IDRSFactorPattern *F)
{
  const PetscInt *i, *j;
  PetscInt        n;
  PetscBool       done;

  PetscFunctionBegin;
  PetscCall(MatGetRowIJ(petsc, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  PetscCheck(done, PETSC_COMM_SELF, PETSC_ERR_PLIB, "MatGetRowIJ() of PETSc's factor");
  F->n  = n;
  F->bs = 1;
  PetscCall(PetscMalloc2(F->n + 1, &F->i, F->n, &F->right));
  for (PetscInt row = F->n - 1, p = i[F->n]; row >= 0; row--, p++) {
    const PetscInt begin = p;

    while (j[p] != row) p++;
    F->right[row] = p - begin; /* entries of U, at first */
  }
  F->i[0] = 0;
  for (PetscInt row = 0; row < F->n; row++) F->i[row + 1] = F->i[row] + i[row + 1] - i[row] + F->right[row];
  PetscCall(PetscMalloc1(F->i[F->n], &F->j));
  for (PetscInt row = F->n - 1, p = i[F->n]; row >= 0; row--) {
    const PetscInt lower = i[row + 1] - i[row], upper = F->right[row];

    F->right[row] = F->i[row] + lower;
    PetscCall(PetscArraycpy(F->j + F->i[row], j + i[row], lower));
    PetscCall(PetscArraycpy(F->j + F->right[row], j + p, upper));
    p += upper + 1;
  }
  PetscCall(MatRestoreRowIJ(petsc, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the column of entry q of a row, among the entries with the diagonal */
static inline PetscInt IDRSFactorColumn(const IDRSFactorPattern *F, PetscInt row, PetscInt q)
{
  const PetscInt p = F->i[row] + q;

  return p == F->right[row] ? row : F->j[p > F->right[row] ? p - 1 : p];
}

/* Joins the entries to tiles of bs x bs. Returns PETSC_FALSE, and changes nothing, if not all tiles are full */
static PetscBool IDRSFactorJoinTiles(IDRSFactorPattern *F, PetscInt bs)
{
  PetscInt count = 0;

  for (PetscInt row = 0; row < F->n; row++) {
    const PetscInt first = row / bs * bs, length = F->i[row + 1] - F->i[row] + 1;

    if (length % bs || length != F->i[first + 1] - F->i[first] + 1) return PETSC_FALSE;
    for (PetscInt q = 0; q < length; q++) {
      const PetscInt begin = IDRSFactorColumn(F, first, q - q % bs);

      if (begin % bs || IDRSFactorColumn(F, row, q) != begin + q % bs) return PETSC_FALSE;
    }
  }
  for (PetscInt tile = 0; tile < F->n / bs; tile++) {
    const PetscInt first = tile * bs, length = F->i[first + 1] - F->i[first] + 1;
    PetscInt       right = count;

    for (PetscInt q = 0; q < length; q += bs) {
      const PetscInt J = IDRSFactorColumn(F, first, q) / bs;

      if (J != tile) F->j[count++] = J;
      if (J < tile) right = count;
    }
    F->right[tile] = right;
    F->i[tile + 1] = count;
  }
  F->i[0] = 0;
  F->n /= bs;
  F->bs = bs;
  return PETSC_TRUE;
}

/* Finds the place of each entry of the matrix among the values of the factors */
static PetscErrorCode IDRSFactorFindPlaces(IDRSFactor factor, Mat A)
{
  const IDRSFactorPattern *F  = &factor->pattern;
  const PetscInt           bs = F->bs, *i, *j, *rows, *columns;
  PetscInt                *where, n;
  PetscBool                done;
  IS                       inverse;

  PetscFunctionBegin;
  PetscCall(PetscMalloc1(factor->nonzeros, &factor->place));
  PetscCall(PetscMalloc1(F->n, &where));
  PetscCall(ISInvertPermutation(factor->col, PETSC_DECIDE, &inverse));
  PetscCall(ISGetIndices(inverse, &columns));
  PetscCall(ISGetIndices(factor->row, &rows));
  PetscCall(MatGetRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  for (PetscInt tile = 0; tile < F->n; tile++) {
    for (PetscInt p = F->i[tile]; p < F->i[tile + 1]; p++) where[F->j[p]] = p;
    where[tile] = F->i[F->n] + tile;
    for (PetscInt r = 0; r < bs; r++) {
      const PetscInt row = rows[tile * bs + r];

      for (PetscInt p = i[row]; p < i[row + 1]; p++) {
        /* tile, row and column in it */
        factor->place[p] = (where[columns[j[p]] / bs] * bs + r) * bs + columns[j[p]] % bs;
      }
    }
  }
  PetscCall(MatRestoreRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  PetscCall(ISRestoreIndices(factor->row, &rows));
  PetscCall(ISRestoreIndices(inverse, &columns));
  PetscCall(ISDestroy(&inverse));
  PetscCall(PetscFree(where));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Gets the number of entries and a hash of the pattern of a matrix */
static PetscErrorCode IDRSFactorHash(Mat A, PetscInt *nonzeros, uint64_t *hash)
{
  const PetscInt *i, *j;
  PetscInt        n;
  PetscBool       done;

  PetscFunctionBegin;
  PetscCall(MatGetRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  *nonzeros = i[n];
  *hash     = (uint64_t)n + 1;
  for (PetscInt p = -n; p < i[n]; p++) {
    *hash = (*hash ^ (uint64_t)(p < 0 ? i[p + n] : j[p])) * 0x9e3779b97f4a7c15u;
    *hash ^= *hash >> 29;
  }
  PetscCall(MatRestoreRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSFactorCheckPattern_Private - Checks that the matrix of a numeric phase has type and pattern of the symbolic phase */
PetscErrorCode IDRSFactorCheckPattern_Private(IDRSFactor factor, Mat A)
{
  PetscObjectId    id;
  PetscObjectState state;
  PetscInt         nonzeros;
  uint64_t         hash;
  PetscBool        ongpu;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJCUSPARSE, &ongpu));
  PetscCheck(ongpu, PETSC_COMM_SELF, PETSC_ERR_ARG_WRONG, "%s: the matrix is of type %s, but the symbolic phase had type %s",
             MATSOLVERPETSCIDRS, ((PetscObject)A)->type_name, MATSEQAIJCUSPARSE);
  PetscCall(PetscObjectGetId((PetscObject)A, &id));
  PetscCall(MatGetNonzeroState(A, &state));
  /* the matrix has not changed since it was compared */
  if (factor->hash && id == factor->id && state == factor->state) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSFactorHash(A, &nonzeros, &hash));
  PetscCheck(hash == factor->hash && nonzeros == factor->nonzeros, PETSC_COMM_SELF, PETSC_ERR_ARG_WRONGSTATE,
             "The pattern has changed since the symbolic phase of %s; repeat MatLUFactorSymbolic() or MatILUFactorSymbolic()",
             MATSOLVERPETSCIDRS);
  factor->id    = id;
  factor->state = state;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSFactorSetPattern_Private - Sets the pattern and the places from PETSc's factor; untiled: the reason why tiles must have one
   row, or NULL
*/
PetscErrorCode IDRSFactorSetPattern_Private(IDRSFactor factor, Mat A, const char untiled[])
{
  IDRSFactorPattern *F = &factor->pattern;
  PetscInt           bs, cbs;
  PetscLogDouble     products;
  uint64_t           hash;

  PetscFunctionBegin;
  PetscCall(IDRSFactorResetPattern_Private(factor));
  PetscCall(IDRSFactorHash(A, &factor->nonzeros, &hash));
  PetscCall(IDRSFactorCopyPattern(factor->petsc, F));
  PetscCall(MatGetBlockSizes(A, &bs, &cbs));
  if (bs != cbs) bs = 1;
  if (bs > IDRS_FACTOR_TILE) { /* a full block consists of smaller full tiles */
    PetscInt divisor = IDRS_FACTOR_TILE;

    while (bs % divisor) divisor--;
    bs = divisor;
  }
  if (bs > 1 && !untiled && !IDRSFactorJoinTiles(F, bs)) untiled = "not all blocks of the factors are full";
  factor->untiled = bs > 1 ? untiled : NULL;
  if (factor->untiled) PetscCall(PetscInfo(A, "%s: tiles of one row: %s\n", MATSOLVERPETSCIDRS, factor->untiled));
  PetscCall(IDRSFactorFindPlaces(factor, A));
  /* multiplications and additions of a numeric phase */
  products = (PetscLogDouble)F->n;
  for (PetscInt i = 0; i < F->n; i++) {
    for (PetscInt p = F->i[i]; p < F->right[i]; p++) products += (PetscLogDouble)(F->i[F->j[p] + 1] - F->right[F->j[p]]);
    products += (PetscLogDouble)(F->i[i + 1] - F->i[i]);
  }
  factor->flops = 2.0 * (PetscLogDouble)F->bs * F->bs * F->bs * products;
  factor->rows  = F->n * F->bs;
  factor->hash  = hash;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Frees the pattern and the places. The caller has freed the memory on the GPU */
PetscErrorCode IDRSFactorResetPattern_Private(IDRSFactor factor)
{
  PetscFunctionBegin;
  PetscCall(PetscFree2(factor->pattern.i, factor->pattern.right));
  PetscCall(PetscFree(factor->pattern.j));
  PetscCall(PetscFree(factor->place));
  factor->computed = PETSC_FALSE;
  factor->hash     = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSFactorGetValues_Private - Gets the values of PETSc's factor A = L' U', whose L' has a unit diagonal, for tiles of one row:

     D = diag U';   (I + L)_ij = D_i^{-1} L'_ij D_j;   I + U = D^{-1} U'

   PETSc stores D^{-1} on the diagonal of U'
*/
PetscErrorCode IDRSFactorGetValues_Private(IDRSFactor factor, PetscScalar values[])
{
  const IDRSFactorPattern *F       = &factor->pattern;
  PetscScalar *const       inverse = values + F->i[F->n];
  const PetscScalar       *a, *next;

  PetscFunctionBegin;
  PetscCall(MatSeqAIJGetArrayRead(factor->petsc, &a));
  next = a;
  for (PetscInt i = 0; i < F->n; i++) {
    for (PetscInt p = F->i[i]; p < F->right[i]; p++) values[p] = *next++;
  }
  for (PetscInt i = F->n - 1; i >= 0; i--) {
    for (PetscInt p = F->right[i]; p < F->i[i + 1]; p++) values[p] = *next++;
    inverse[i] = *next++;
  }
  PetscCall(MatSeqAIJRestoreArrayRead(factor->petsc, &a));
  for (PetscInt i = 0; i < F->n; i++) {
    for (PetscInt p = F->i[i]; p < F->right[i]; p++) values[p] /= inverse[F->j[p]];
    for (PetscInt p = F->i[i]; p < F->i[i + 1]; p++) values[p] *= inverse[i];
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Lists the entries of each row */
static PetscErrorCode IDRSTriangleSetRows(const IDRSFactorPattern *F, PetscBool upper, PetscBool transposed, IDRSTriangle *triangle)
{
  const PetscInt *begin = upper ? F->right : F->i, *end = upper ? F->i + 1 : F->right;
  PetscInt       *first, *next                          = triangle->next;

  PetscFunctionBegin;
  PetscCall(PetscCalloc1(F->n + 1, &triangle->first));
  first = triangle->first;
  for (PetscInt row = 0; row < F->n; row++) {
    for (PetscInt p = begin[row]; p < end[row]; p++) first[(transposed ? F->j[p] : row) + 1]++;
  }
  for (PetscInt row = 0; row < F->n; row++) first[row + 1] += first[row];
  PetscCall(PetscMalloc2(first[F->n], &triangle->columns, first[F->n], &triangle->entry));
  PetscCall(PetscArraycpy(next, first, F->n));
  for (PetscInt row = 0; row < F->n; row++) {
    for (PetscInt p = begin[row]; p < end[row]; p++) {
      const PetscInt to = next[transposed ? F->j[p] : row]++;

      triangle->columns[to] = transposed ? row : F->j[p];
      triangle->entry[to]   = p;
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Returns the number of lanes for each row of the matrix in this tile row: a power of 2, so that each lane has at most
   IDRS_TRIANGLE_ATONCE entries if the warp has enough lanes
*/
static PetscInt IDRSTriangleRowLanes(PetscInt bs, const IDRSTriangle *triangle, PetscInt row)
{
  PetscInt lanes = 1;

  while (2 * lanes * bs <= IDRS_CHUNK_LANES &&
         lanes * IDRS_TRIANGLE_ATONCE < (triangle->first[row + 1] - triangle->first[row]) * bs)
    lanes *= 2;
  return lanes;
}

/*
   Sets levels, order and chunks. In a level the rows with most lanes come first. The rows of a chunk have the same level and number
   of lanes, and fit into a warp
*/
static PetscErrorCode IDRSTriangleSetOrder(PetscInt n, PetscInt bs, PetscBool descending, IDRSTriangle *triangle)
{
  PetscInt *const level = triangle->level, *const next = triangle->next; /* next place in each level */
  PetscInt most = 1;

  PetscFunctionBegin;
  for (PetscInt l = 0; l < n; l++) {
    const PetscInt row = descending ? n - 1 - l : l;

    level[row] = 0;
    /* level i = 1 + max over j of level j */
    for (PetscInt p = triangle->first[row]; p < triangle->first[row + 1]; p++)
      level[row] = PetscMax(level[row], level[triangle->columns[p]] + 1);
    triangle->levels = PetscMax(triangle->levels, level[row] + 1);
  }
  PetscCall(PetscArrayzero(next, triangle->levels + 1));
  for (PetscInt row = 0; row < n; row++) {
    next[level[row] + 1]++;
    most = PetscMax(most, IDRSTriangleRowLanes(bs, triangle, row));
  }
  for (PetscInt l = 0; l < triangle->levels; l++) next[l + 1] += next[l];
  for (PetscInt lanes = most; lanes > 0; lanes /= 2) {
    for (PetscInt row = 0; row < n; row++) {
      if (IDRSTriangleRowLanes(bs, triangle, row) != lanes) continue;
      triangle->places[row]                  = next[level[row]]++;
      triangle->order[triangle->places[row]] = row;
    }
  }
  PetscCall(PetscMalloc2(n + 1, &triangle->chunks, n, &triangle->lanes)); /* a chunk has at least one row */
  for (PetscInt place = 0, begin = 0, before = -1; place < n; place++) {
    const PetscInt row = triangle->order[place], lanes = IDRSTriangleRowLanes(bs, triangle, row);

    if (level[row] == before && lanes == triangle->lanes[triangle->nchunks - 1] &&
        (place + 1 - begin) * bs * lanes <= IDRS_CHUNK_LANES)
      continue;
    begin                                = place;
    before                               = level[row];
    triangle->chunks[triangle->nchunks]  = place;
    triangle->lanes[triangle->nchunks++] = lanes;
  }
  triangle->chunks[triangle->nchunks] = n;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* IDRSTriangleCreate - Creates a triangle. If it fails, IDRSTriangleDestroy() frees everything that has been allocated */
PetscErrorCode IDRSTriangleCreate(const IDRSFactorPattern *F, PetscBool upper, PetscBool transposed, IDRSTriangle *triangle)
{
  PetscFunctionBegin;
  PetscCall(PetscMemzero(triangle, sizeof(*triangle)));
  PetscCall(PetscMalloc2(F->n, &triangle->level, F->n + 1, &triangle->next));
  PetscCall(IDRSTriangleSetRows(F, upper, transposed, triangle));
  PetscCall(PetscMalloc3(F->n, &triangle->order, F->n, &triangle->places, F->n + 1, &triangle->i));
  PetscCall(PetscMalloc2(triangle->first[F->n], &triangle->j, triangle->first[F->n], &triangle->from));
  PetscCall(IDRSTriangleSetOrder(F->n, F->bs, (PetscBool)(upper != transposed), triangle));
  triangle->i[0] = 0;
  for (PetscInt place = 0, p = 0; place < F->n; place++) {
    const PetscInt row = triangle->order[place];

    for (PetscInt e = triangle->first[row]; e < triangle->first[row + 1]; e++, p++) {
      triangle->j[p]    = triangle->places[triangle->columns[e]];
      triangle->from[p] = triangle->entry[e];
    }
    triangle->i[place + 1] = p;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSTriangleDestroy(IDRSTriangle *triangle)
{
  PetscFunctionBegin;
  PetscCall(PetscFree(triangle->first));
  PetscCall(PetscFree2(triangle->columns, triangle->entry));
  PetscCall(PetscFree2(triangle->level, triangle->next));
  PetscCall(PetscFree3(triangle->order, triangle->places, triangle->i));
  PetscCall(PetscFree2(triangle->j, triangle->from));
  PetscCall(PetscFree2(triangle->chunks, triangle->lanes));
  PetscFunctionReturn(PETSC_SUCCESS);
}

#endif
