#include "factorlevels.h"

/* The entries of a triangle by its rows in their natural order: columns, and which entries of the pattern they are */
typedef struct {
  PetscInt *i, *j, *from;
} IDRSEntries;

static PetscErrorCode IDRSEntriesDestroy(IDRSEntries *entries)
{
  PetscFunctionBegin;
  PetscCall(PetscFree(entries->i));
  PetscCall(PetscFree2(entries->j, entries->from));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSEntriesCreate(const IDRSFactorPattern *F, IDRSTriangleKind kind, IDRSEntries *entries)
{
  const PetscBool upper      = (PetscBool)(kind == IDRS_TRIANGLE_UPPER || kind == IDRS_TRIANGLE_UPPER_TRANSPOSED);
  const PetscBool transposed = (PetscBool)(kind == IDRS_TRIANGLE_LOWER_TRANSPOSED || kind == IDRS_TRIANGLE_UPPER_TRANSPOSED);
  PetscInt       *next;

  PetscFunctionBegin;
  PetscCall(PetscCalloc1(F->n + 1, &entries->i));
  for (PetscInt row = 0; row < F->n; row++) {
    for (PetscInt p = upper ? F->right[row] : F->i[row]; p < (upper ? F->i[row + 1] : F->right[row]); p++) entries->i[(transposed ? F->j[p] : row) + 1]++;
  }
  for (PetscInt row = 0; row < F->n; row++) entries->i[row + 1] += entries->i[row];
  PetscCall(PetscMalloc2(entries->i[F->n], &entries->j, entries->i[F->n], &entries->from));
  PetscCall(PetscMalloc1(F->n, &next));
  PetscCall(PetscArraycpy(next, entries->i, F->n));
  for (PetscInt row = 0; row < F->n; row++) {
    for (PetscInt p = upper ? F->right[row] : F->i[row]; p < (upper ? F->i[row + 1] : F->right[row]); p++) {
      const PetscInt to = next[transposed ? F->j[p] : row]++;

      entries->j[to]    = transposed ? row : F->j[p];
      entries->from[to] = p;
    }
  }
  PetscCall(PetscFree(next));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Level of each block row, from 0, and how many there are */
static PetscInt IDRSFindLevels(PetscInt n, const IDRSEntries *entries, PetscBool descending, PetscInt level[])
{
  PetscInt levels = 0;

  for (PetscInt l = 0; l < n; l++) {
    const PetscInt row = descending ? n - 1 - l : l;

    level[row] = 0;
    for (PetscInt p = entries->i[row]; p < entries->i[row + 1]; p++) level[row] = PetscMax(level[row], level[entries->j[p]] + 1);
    levels = PetscMax(levels, level[row] + 1);
  }
  return levels;
}

/* Order and chunks: begins has the first place of each level, and of the one behind the last */
static PetscErrorCode IDRSOrderByLevels(PetscInt n, PetscInt bs, const PetscInt level[], IDRSTriangle *triangle)
{
  const PetscInt most = IDRS_CHUNK_ROWS / bs;
  PetscInt      *begins, *next;

  PetscFunctionBegin;
  PetscCall(PetscCalloc1(triangle->levels + 1, &begins));
  for (PetscInt row = 0; row < n; row++) begins[level[row] + 1]++;
  for (PetscInt l = 0; l < triangle->levels; l++) {
    triangle->nchunks += (begins[l + 1] + most - 1) / most;
    begins[l + 1] += begins[l];
  }
  PetscCall(PetscMalloc1(triangle->levels + 1, &next));
  PetscCall(PetscArraycpy(next, begins, triangle->levels + 1));
  for (PetscInt row = 0; row < n; row++) {
    triangle->places[row]                  = next[level[row]]++;
    triangle->order[triangle->places[row]] = row;
  }
  PetscCall(PetscMalloc1(triangle->nchunks + 1, &triangle->chunks));
  for (PetscInt l = 0, c = 0; l < triangle->levels; l++) {
    for (PetscInt place = begins[l]; place < begins[l + 1]; place += most) triangle->chunks[c++] = place;
  }
  triangle->chunks[triangle->nchunks] = n;
  PetscCall(PetscFree(next));
  PetscCall(PetscFree(begins));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSTriangleCreate(const IDRSFactorPattern *F, IDRSTriangleKind kind, IDRSTriangle *triangle)
{
  const PetscBool descending = (PetscBool)(kind == IDRS_TRIANGLE_UPPER || kind == IDRS_TRIANGLE_LOWER_TRANSPOSED);
  IDRSEntries     entries;
  PetscInt       *level;

  PetscFunctionBegin;
  PetscCall(PetscMemzero(triangle, sizeof(*triangle)));
  PetscCall(IDRSEntriesCreate(F, kind, &entries));
  PetscCall(PetscMalloc1(F->n, &level));
  triangle->levels = IDRSFindLevels(F->n, &entries, descending, level);
  PetscCall(PetscMalloc3(F->n, &triangle->order, F->n, &triangle->places, F->n + 1, &triangle->i));
  PetscCall(PetscMalloc2(entries.i[F->n], &triangle->j, entries.i[F->n], &triangle->from));
  PetscCall(IDRSOrderByLevels(F->n, F->bs, level, triangle));
  triangle->i[0] = 0;
  for (PetscInt place = 0, p = 0; place < F->n; place++) {
    const PetscInt row = triangle->order[place];

    for (PetscInt e = entries.i[row]; e < entries.i[row + 1]; e++, p++) {
      triangle->j[p]    = triangle->places[entries.j[e]];
      triangle->from[p] = entries.from[e];
    }
    triangle->i[place + 1] = p;
  }
  PetscCall(PetscFree(level));
  PetscCall(IDRSEntriesDestroy(&entries));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSTriangleDestroy(IDRSTriangle *triangle)
{
  PetscFunctionBegin;
  PetscCall(PetscFree3(triangle->order, triangle->places, triangle->i));
  PetscCall(PetscFree2(triangle->j, triangle->from));
  PetscCall(PetscFree(triangle->chunks));
  PetscFunctionReturn(PETSC_SUCCESS);
}
