#include "factorlevels.h"

/* Frees the temporary arrays of IDRSTriangleCreate() */
static PetscErrorCode IDRSTriangleFreeScratch(IDRSTriangle *triangle)
{
  PetscFunctionBegin;
  PetscCall(PetscFree(triangle->entries.made));
  PetscCall(PetscFree2(triangle->entries.columns, triangle->entries.from));
  PetscCall(PetscFree2(triangle->level, triangle->next));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* next: memory for one number per tile row */
static PetscErrorCode IDRSTriangleEntriesCreate(const IDRSFactorPattern *F, IDRSTriangleKind kind, PetscInt next[],
                                                IDRSTriangleEntries *entries)
{
  const PetscBool upper = (PetscBool)(kind == IDRS_TRIANGLE_UPPER || kind == IDRS_TRIANGLE_UPPER_TRANSPOSED);
  PetscInt       *made;

  PetscFunctionBegin;
  entries->begin = upper ? F->right : F->i;
  entries->end   = upper ? F->i + 1 : F->right;
  entries->j     = F->j;
  if (kind == IDRS_TRIANGLE_LOWER || kind == IDRS_TRIANGLE_UPPER) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscCalloc1(F->n + 1, &entries->made));
  made = entries->made;
  for (PetscInt row = 0; row < F->n; row++) {
    for (PetscInt p = entries->begin[row]; p < entries->end[row]; p++) made[F->j[p] + 1]++;
  }
  for (PetscInt row = 0; row < F->n; row++) made[row + 1] += made[row];
  PetscCall(PetscMalloc2(made[F->n], &entries->columns, made[F->n], &entries->from));
  PetscCall(PetscArraycpy(next, made, F->n));
  for (PetscInt row = 0; row < F->n; row++) {
    for (PetscInt p = entries->begin[row]; p < entries->end[row]; p++) {
      const PetscInt to = next[F->j[p]]++;

      entries->columns[to] = row;
      entries->from[to]    = p;
    }
  }
  entries->begin = made;
  entries->end   = made + 1;
  entries->j     = entries->columns;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the level of each tile row, from 0, and returns the number of levels */
static PetscInt IDRSTriangleFindLevels(PetscInt n, const IDRSTriangleEntries *entries, PetscBool descending, PetscInt level[])
{
  PetscInt levels = 0;

  for (PetscInt l = 0; l < n; l++) {
    const PetscInt row = descending ? n - 1 - l : l;

    level[row] = 0;
    /* level i = 1 + max over j of level j */
    for (PetscInt p = entries->begin[row]; p < entries->end[row]; p++) level[row] = PetscMax(level[row], level[entries->j[p]] + 1);
    levels = PetscMax(levels, level[row] + 1);
  }
  return levels;
}

/*
   Returns the number of lanes for each row of the matrix in this tile row: a power of 2, so that each lane has at most
   IDRS_TRIANGLE_ATONCE entries if the warp has enough lanes
*/
static PetscInt IDRSTriangleRowLanes(PetscInt bs, const IDRSTriangleEntries *entries, PetscInt row)
{
  PetscInt lanes = 1;

  while (2 * lanes * bs <= IDRS_CHUNK_LANES && lanes * IDRS_TRIANGLE_ATONCE < (entries->end[row] - entries->begin[row]) * bs)
    lanes *= 2;
  return lanes;
}

/* Divides the rows at places first ... end - 1, of one level, into chunks */
static void IDRSTriangleCut(PetscInt bs, PetscInt first, PetscInt end, IDRSTriangle *triangle)
{
  for (PetscInt place = first, begin = first, before = 0; place < end; place++) {
    const PetscInt lanes = IDRSTriangleRowLanes(bs, &triangle->entries, triangle->order[place]);

    if (lanes == before && (place + 1 - begin) * bs * lanes <= IDRS_CHUNK_LANES) continue;
    begin                                = place;
    before                               = lanes;
    triangle->chunks[triangle->nchunks]  = place;
    triangle->lanes[triangle->nchunks++] = lanes;
  }
}

/*
   Sets order and chunks. next contains the first place of each level and the end; it is advanced as rows are inserted. In a level
   the rows with most lanes come first
*/
static PetscErrorCode IDRSTriangleSetOrder(PetscInt n, PetscInt bs, IDRSTriangle *triangle)
{
  const PetscInt *level = triangle->level;
  PetscInt *const next  = triangle->next;
  PetscInt        most  = 1;

  PetscFunctionBegin;
  PetscCall(PetscArrayzero(next, triangle->levels + 1));
  for (PetscInt row = 0; row < n; row++) {
    next[level[row] + 1]++;
    most = PetscMax(most, IDRSTriangleRowLanes(bs, &triangle->entries, row));
  }
  for (PetscInt l = 0; l < triangle->levels; l++) next[l + 1] += next[l];
  for (PetscInt lanes = most; lanes > 0; lanes /= 2) {
    for (PetscInt row = 0; row < n; row++) {
      if (IDRSTriangleRowLanes(bs, &triangle->entries, row) != lanes) continue;
      triangle->places[row]                  = next[level[row]]++;
      triangle->order[triangle->places[row]] = row;
    }
  }
  PetscCall(PetscMalloc2(n + 1, &triangle->chunks, n, &triangle->lanes)); /* a chunk has at least one row */
  for (PetscInt l = 0; l < triangle->levels; l++) IDRSTriangleCut(bs, l ? next[l - 1] : 0, next[l], triangle);
  triangle->chunks[triangle->nchunks] = n;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* If it fails, IDRSTriangleDestroy() frees everything that has been allocated */
PetscErrorCode IDRSTriangleCreate(const IDRSFactorPattern *F, IDRSTriangleKind kind, IDRSTriangle *triangle)
{
  const PetscBool      descending = (PetscBool)(kind == IDRS_TRIANGLE_UPPER || kind == IDRS_TRIANGLE_LOWER_TRANSPOSED);
  IDRSTriangleEntries *entries    = &triangle->entries;
  PetscInt             count      = 0;

  PetscFunctionBegin;
  PetscCall(PetscMemzero(triangle, sizeof(*triangle)));
  PetscCall(PetscMalloc2(F->n, &triangle->level, F->n + 1, &triangle->next));
  PetscCall(IDRSTriangleEntriesCreate(F, kind, triangle->next, entries));
  triangle->levels = IDRSTriangleFindLevels(F->n, entries, descending, triangle->level);
  PetscCall(PetscMalloc3(F->n, &triangle->order, F->n, &triangle->places, F->n + 1, &triangle->i));
  for (PetscInt row = 0; row < F->n; row++) count += entries->end[row] - entries->begin[row];
  PetscCall(PetscMalloc2(count, &triangle->j, count, &triangle->from));
  PetscCall(IDRSTriangleSetOrder(F->n, F->bs, triangle));
  triangle->i[0] = 0;
  for (PetscInt place = 0, p = 0; place < F->n; place++) {
    const PetscInt row = triangle->order[place];

    for (PetscInt e = entries->begin[row]; e < entries->end[row]; e++, p++) {
      triangle->j[p]    = triangle->places[entries->j[e]];
      triangle->from[p] = entries->from ? entries->from[e] : e;
    }
    triangle->i[place + 1] = p;
  }
  PetscCall(IDRSTriangleFreeScratch(triangle));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSTriangleDestroy(IDRSTriangle *triangle)
{
  PetscFunctionBegin;
  PetscCall(IDRSTriangleFreeScratch(triangle));
  PetscCall(PetscFree3(triangle->order, triangle->places, triangle->i));
  PetscCall(PetscFree2(triangle->j, triangle->from));
  PetscCall(PetscFree2(triangle->chunks, triangle->lanes));
  PetscFunctionReturn(PETSC_SUCCESS);
}
