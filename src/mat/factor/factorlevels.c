#include "factorlevels.h"

/* Frees the temporary arrays of IDRSTriangleCreate() */
static PetscErrorCode IDRSTriangleFreeScratch(IDRSTriangle *triangle)
{
  PetscFunctionBegin;
  PetscCall(PetscFree(triangle->entries.i));
  PetscCall(PetscFree2(triangle->entries.j, triangle->entries.from));
  PetscCall(PetscFree2(triangle->level, triangle->next));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* next: memory for one number per tile row */
static PetscErrorCode IDRSTriangleEntriesCreate(const IDRSFactorPattern *F, IDRSTriangleKind kind, PetscInt next[],
                                                IDRSTriangleEntries *entries)
{
  const PetscBool upper      = (PetscBool)(kind == IDRS_TRIANGLE_UPPER || kind == IDRS_TRIANGLE_UPPER_TRANSPOSED);
  const PetscBool transposed = (PetscBool)(kind == IDRS_TRIANGLE_LOWER_TRANSPOSED || kind == IDRS_TRIANGLE_UPPER_TRANSPOSED);

  PetscFunctionBegin;
  PetscCall(PetscCalloc1(F->n + 1, &entries->i));
  for (PetscInt row = 0; row < F->n; row++) {
    for (PetscInt p = upper ? F->right[row] : F->i[row]; p < (upper ? F->i[row + 1] : F->right[row]); p++)
      entries->i[(transposed ? F->j[p] : row) + 1]++;
  }
  for (PetscInt row = 0; row < F->n; row++) entries->i[row + 1] += entries->i[row];
  PetscCall(PetscMalloc2(entries->i[F->n], &entries->j, entries->i[F->n], &entries->from));
  PetscCall(PetscArraycpy(next, entries->i, F->n));
  for (PetscInt row = 0; row < F->n; row++) {
    for (PetscInt p = upper ? F->right[row] : F->i[row]; p < (upper ? F->i[row + 1] : F->right[row]); p++) {
      const PetscInt to = next[transposed ? F->j[p] : row]++;

      entries->j[to]    = transposed ? row : F->j[p];
      entries->from[to] = p;
    }
  }
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
    for (PetscInt p = entries->i[row]; p < entries->i[row + 1]; p++) level[row] = PetscMax(level[row], level[entries->j[p]] + 1);
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

  while (2 * lanes * bs <= IDRS_CHUNK_LANES && lanes * IDRS_TRIANGLE_ATONCE < (entries->i[row + 1] - entries->i[row]) * bs)
    lanes *= 2;
  return lanes;
}

/*
   Divides the rows at places first ... end - 1, of one level, into chunks, and returns the number of all chunks so far. If the
   array is NULL, it only counts
*/
static PetscInt IDRSTriangleCut(PetscInt bs, PetscInt first, PetscInt end, PetscInt chunk, IDRSTriangle *triangle)
{
  for (PetscInt place = first, begin = first, before = 0; place < end; place++) {
    const PetscInt lanes = IDRSTriangleRowLanes(bs, &triangle->entries, triangle->order[place]);

    if (lanes == before && (place + 1 - begin) * bs * lanes <= IDRS_CHUNK_LANES) continue;
    begin  = place;
    before = lanes;
    if (triangle->chunks) {
      triangle->chunks[chunk] = place;
      triangle->lanes[chunk]  = lanes;
    }
    chunk++;
  }
  return chunk;
}

/*
   Sets order and chunks. next contains the first place of each level and the end; it is advanced as rows are inserted. In a level
   the rows with most lanes come first
*/
static PetscErrorCode IDRSTriangleSetOrder(PetscInt n, PetscInt bs, IDRSTriangle *triangle)
{
  const PetscInt *level = triangle->level;
  PetscInt *const next  = triangle->next;

  PetscFunctionBegin;
  PetscCall(PetscArrayzero(next, triangle->levels + 1));
  for (PetscInt row = 0; row < n; row++) next[level[row] + 1]++;
  for (PetscInt l = 0; l < triangle->levels; l++) next[l + 1] += next[l];
  for (PetscInt lanes = IDRS_CHUNK_LANES; lanes > 0; lanes /= 2) {
    for (PetscInt row = 0; row < n; row++) {
      if (IDRSTriangleRowLanes(bs, &triangle->entries, row) != lanes) continue;
      triangle->places[row]                  = next[level[row]]++;
      triangle->order[triangle->places[row]] = row;
    }
  }
  for (PetscInt l = 0; l < triangle->levels; l++)
    triangle->nchunks = IDRSTriangleCut(bs, l ? next[l - 1] : 0, next[l], triangle->nchunks, triangle);
  PetscCall(PetscMalloc2(triangle->nchunks + 1, &triangle->chunks, triangle->nchunks, &triangle->lanes));
  for (PetscInt l = 0, chunk = 0; l < triangle->levels; l++)
    chunk = IDRSTriangleCut(bs, l ? next[l - 1] : 0, next[l], chunk, triangle);
  triangle->chunks[triangle->nchunks] = n;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* If it fails, IDRSTriangleDestroy() frees everything that has been allocated */
PetscErrorCode IDRSTriangleCreate(const IDRSFactorPattern *F, IDRSTriangleKind kind, IDRSTriangle *triangle)
{
  const PetscBool      descending = (PetscBool)(kind == IDRS_TRIANGLE_UPPER || kind == IDRS_TRIANGLE_LOWER_TRANSPOSED);
  IDRSTriangleEntries *entries    = &triangle->entries;

  PetscFunctionBegin;
  PetscCall(PetscMemzero(triangle, sizeof(*triangle)));
  PetscCall(PetscMalloc2(F->n, &triangle->level, F->n + 1, &triangle->next));
  PetscCall(IDRSTriangleEntriesCreate(F, kind, triangle->next, entries));
  triangle->levels = IDRSTriangleFindLevels(F->n, entries, descending, triangle->level);
  PetscCall(PetscMalloc3(F->n, &triangle->order, F->n, &triangle->places, F->n + 1, &triangle->i));
  PetscCall(PetscMalloc2(entries->i[F->n], &triangle->j, entries->i[F->n], &triangle->from));
  PetscCall(IDRSTriangleSetOrder(F->n, F->bs, triangle));
  triangle->i[0] = 0;
  for (PetscInt place = 0, p = 0; place < F->n; place++) {
    const PetscInt row = triangle->order[place];

    for (PetscInt e = entries->i[row]; e < entries->i[row + 1]; e++, p++) {
      triangle->j[p]    = triangle->places[entries->j[e]];
      triangle->from[p] = entries->from[e];
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
