/*
   The copy of D^{-1}A in the memory of the host, with the vector operations of a factor in the same loop over the rows:

     y = d (alpha u + beta D^{-1}A z)

   - Rows are sorted by length within windows, and divided into slices of PCPOLY_SLICE rows. A slice consists of slots. A slot has
   one entry of each row: a column as 16 bits, relative to the base of the slot, and a value in single precision, or in the
   precision of PetscScalar.
   - The entries of a slot have the next columns of their rows, within the range of 16 bits. A row without such an entry has a zero.
   - If all rows are scaled, the diagonal of D^{-1}A is 1 and is not stored.
   - On several processes the slices have the entries of the diagonal block. Other entries are in lists, and are added after the
   halo of z has arrived.
*/
#include "polyimpl.h"
#include <petscidrs/private/idrslimits.h>
#include <petscidrs/private/idrsrows.h>

#define PCPOLY_SLICE  8
#define PCPOLY_WINDOW 1024
#define PCPOLY_REACH  65536 /* range of 16 bits */

#if PetscDefined(USE_COMPLEX)
typedef float _Complex PCPolySingle;
#else
typedef float PCPolySingle;
#endif

typedef struct {
  PetscBool      single; /* values in single precision, else PetscScalar */
  PetscLogDouble bytes;  /* on this process */
  PetscBool      unit;   /* the diagonal is 1 and not stored */
  PetscInt       n, slices, nslots;
  PetscInt      *order; /* row of each place; -1 after the last row */
  PetscInt      *first; /* first slot of each slice */
  PetscInt      *base;  /* first column of each slot */
  uint16_t      *columns;
  void          *values;
  PetscInt       nouter; /* rows with entries outside the diagonal block */
  PetscInt      *outer, *outerfirst, *outercolumns;
  void          *outervalues;
  VecScatter     scatter;
  Vec            ghosts;
} PCPolyPacked;

/* Stores a value; finite becomes PETSC_FALSE if it is not finite in this precision */
static inline void PCPolyStore(PCPolyPacked *copy, void *values, size_t k, PetscScalar value, PetscBool *finite)
{
  if (copy->single) {
    PCPolySingle *single = (PCPolySingle *)values + k;

    *single = (PCPolySingle)value;
    if (PetscIsInfOrNanScalar((PetscScalar)*single)) *finite = PETSC_FALSE;
  } else ((PetscScalar *)values)[k] = value;
}

/*
   Sorts the rows of each window by length, longest first. Rows of the same length keep their order, because the low bits of the key
   are their position
*/
static PetscErrorCode PCPolySort(PCPolyPacked *copy, const IDRSRows *rows)
{
  const PetscInt longest = 1048576; /* larger lengths count as this length */

  PetscFunctionBegin;
  for (PetscInt begin = 0; begin < copy->n; begin += PCPOLY_WINDOW) {
    const PetscInt count = PetscMin(PCPOLY_WINDOW, copy->n - begin);
    PetscInt       keys[PCPOLY_WINDOW];

    for (PetscInt k = 0; k < count; k++)
      keys[k] = (longest - PetscMin(longest, rows->i[begin + k + 1] - rows->i[begin + k])) * PCPOLY_WINDOW + k;
    PetscCall(PetscSortInt(count, keys));
    for (PetscInt k = 0; k < count; k++) copy->order[begin + k] = begin + keys[k] % PCPOLY_WINDOW;
  }
  for (PetscInt k = copy->n; k < copy->slices * PCPOLY_SLICE; k++) copy->order[k] = -1;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Fills the slots of a slice from this slot on, and returns the next slot. Without memory for values it only counts slots. A slot
   begins at the smallest column that remains in the slice
*/
static PetscInt PCPolyFillSlice(PCPolyPacked *copy, const IDRSRows *rows, const PetscScalar inverse[], PetscInt slice,
                                PetscInt slot, PetscBool *finite)
{
  const PetscInt *order = copy->order + slice * PCPOLY_SLICE;
  PetscInt        next[PCPOLY_SLICE], base;

  for (PetscInt lane = 0; lane < PCPOLY_SLICE; lane++) next[lane] = order[lane] < 0 ? 0 : rows->i[order[lane]];
  while (PETSC_TRUE) {
    /* base = smallest of the next columns of the rows */
    base = PETSC_MAX_INT;
    for (PetscInt lane = 0; lane < PCPOLY_SLICE; lane++) {
      if (order[lane] < 0) continue;
      /* The diagonal entry is 1 and is left out */
      if (copy->unit && next[lane] < rows->i[order[lane] + 1] && rows->j[next[lane]] == order[lane]) next[lane]++;
      if (next[lane] < rows->i[order[lane] + 1]) base = PetscMin(base, rows->j[next[lane]]);
    }
    if (base == PETSC_MAX_INT) return slot;
    if (copy->values) copy->base[slot] = base;
    for (PetscInt lane = 0; lane < PCPOLY_SLICE; lane++) {
      const size_t    place = IDRSSlotPlace(slot, PCPOLY_SLICE, lane);
      const PetscInt  k     = next[lane];
      const PetscBool taken = (PetscBool)(order[lane] >= 0 && k < rows->i[order[lane] + 1] && rows->j[k] - base < PCPOLY_REACH);

      if (taken) next[lane]++;
      if (!copy->values) continue;
      copy->columns[place] = taken ? (uint16_t)(rows->j[k] - base) : 0;
      PCPolyStore(copy, copy->values, place, taken ? (inverse ? inverse[order[lane]] : 1.0) * rows->a[k] : 0.0, finite);
    }
    slot++;
  }
}

/* Copies the diagonal block: counts the slots of each slice, allocates them, and fills them */
static PetscErrorCode PCPolyPackInner(PCPolyPacked *copy, Mat A, const PetscScalar inverse[], const char *why[], PetscBool *finite)
{
  const size_t size = copy->single ? sizeof(PCPolySingle) : sizeof(PetscScalar);
  size_t       places;
  PetscInt     entries;
  IDRSRows     rows;

  PetscFunctionBegin;
  PetscCall(IDRSRowsGet(A, &rows));
  copy->n      = rows.n;
  copy->slices = (rows.n + PCPOLY_SLICE - 1) / PCPOLY_SLICE;
  PetscCall(PetscMalloc2(copy->slices * PCPOLY_SLICE, &copy->order, copy->slices + 1, &copy->first));
  PetscCall(PCPolySort(copy, &rows));
  copy->first[0] = 0;
  for (PetscInt slice = 0; slice < copy->slices; slice++)
    copy->first[slice + 1] = PCPolyFillSlice(copy, &rows, inverse, slice, copy->first[slice], finite);
  copy->nslots = copy->first[copy->slices];
  entries      = rows.i[rows.n] - (copy->unit ? rows.n : 0);
  places       = IDRSSlotPlace(copy->nslots, PCPOLY_SLICE, 0);
  *why         = PCPolyCopyTooLarge_Private((PetscLogDouble)places, (PetscLogDouble)entries);
  if (!*why) {
    PetscCall(PetscMalloc3(copy->nslots, &copy->base, places, &copy->columns, places * size, (char **)&copy->values));
    for (PetscInt slice = 0; slice < copy->slices; slice++)
      (void)PCPolyFillSlice(copy, &rows, inverse, slice, copy->first[slice], finite);
    copy->bytes += (PetscLogDouble)copy->nslots * (sizeof(PetscInt) + PCPOLY_SLICE * (sizeof(uint16_t) + size)) +
                   (PetscLogDouble)copy->slices * (PCPOLY_SLICE + 1) * sizeof(PetscInt);
  }
  PetscCall(IDRSRowsRestore(&rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies the off-diagonal block; garray has the global columns */
static PetscErrorCode PCPolyPackOuter(PCPolyPacked *copy, Mat whole, Mat A, const PetscInt garray[], const PetscScalar inverse[],
                                      PetscBool *finite)
{
  const size_t size = copy->single ? sizeof(PCPolySingle) : sizeof(PetscScalar);
  PetscInt     columns, row = 0;
  IDRSRows     rows;
  Vec          like;

  PetscFunctionBegin;
  PetscCall(MatGetLocalSize(A, NULL, &columns));
  PetscCall(MatCreateVecs(whole, &like, NULL));
  PetscCall(IDRSRowsGetGhosts(like, columns, garray, &copy->ghosts, &copy->scatter));
  PetscCall(VecDestroy(&like));
  PetscCall(IDRSRowsGet(A, &rows));
  /* Only rows with entries are stored */
  for (PetscInt i = 0; i < rows.n; i++) copy->nouter += rows.i[i + 1] > rows.i[i];
  PetscCall(PetscMalloc4(copy->nouter, &copy->outer, copy->nouter + 1, &copy->outerfirst, rows.i[rows.n], &copy->outercolumns,
                         rows.i[rows.n] * size, (char **)&copy->outervalues));
  copy->outerfirst[0] = 0;
  for (PetscInt i = 0; i < rows.n; i++) {
    if (rows.i[i + 1] == rows.i[i]) continue;
    for (PetscInt k = rows.i[i]; k < rows.i[i + 1]; k++) {
      copy->outercolumns[k] = rows.j[k];
      PCPolyStore(copy, copy->outervalues, k, (inverse ? inverse[i] : 1.0) * rows.a[k], finite);
    }
    copy->outer[row]        = i;
    copy->outerfirst[++row] = rows.i[i + 1];
  }
  copy->bytes += (PetscLogDouble)rows.i[rows.n] * (sizeof(PetscInt) + size) + 2.0 * copy->nouter * sizeof(PetscInt) +
                 (PetscLogDouble)columns * sizeof(PetscScalar);
  PetscCall(IDRSRowsRestore(&rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCPolyCopyDestroy_Host(PCPolyCopy copy)
{
  PCPolyPacked *packed = (PCPolyPacked *)copy->data;

  PetscFunctionBegin;
  PetscCall(PetscFree2(packed->order, packed->first));
  PetscCall(PetscFree3(packed->base, packed->columns, packed->values));
  PetscCall(PetscFree4(packed->outer, packed->outerfirst, packed->outercolumns, packed->outervalues));
  PetscCall(VecScatterDestroy(&packed->scatter));
  PetscCall(VecDestroy(&packed->ghosts));
  PetscCall(PetscFree(copy->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCPolyCopyCreate_Host(PCPolyCopy copy, Mat A, Vec inverse, PetscBool unit, const char *why[],
                                            PetscBool *finite)
{
  const PetscInt    *garray;
  const PetscScalar *d = NULL;
  PCPolyPacked      *packed;
  Mat                inner, outer;

  PetscFunctionBegin;
  PetscCall(PetscNew(&packed));
  copy->data     = packed;
  packed->single = (PetscBool)(copy->precision == PC_POLY_PRECISION_SINGLE);
  packed->unit   = unit;
  PetscCall(IDRSRowsGetBlocks(A, &inner, &outer, &garray));
  if (inverse) PetscCall(VecGetArrayRead(inverse, &d));
  PetscCall(PCPolyPackInner(packed, inner, d, why, finite));
  if (outer) PetscCall(PCPolyPackOuter(packed, A, outer, garray, d, finite));
  if (inverse) PetscCall(VecRestoreArrayRead(inverse, &d));
  copy->bytes = packed->bytes;
  PetscFunctionReturn(PETSC_SUCCESS);
}

#define PCPolyInner  PCPolyInnerSingle
#define PCPolyOuter  PCPolyOuterSingle
#define PCPolyNumber PCPolySingle
#include "polyrows.h"
#undef PCPolyInner
#undef PCPolyOuter
#undef PCPolyNumber
#define PCPolyInner  PCPolyInnerScalar
#define PCPolyOuter  PCPolyOuterScalar
#define PCPolyNumber PetscScalar
#include "polyrows.h"

static PetscErrorCode PCPolyCopyMultiplyAdd_Host(PCPolyCopy copy, const PCPolyProduct *product)
{
  const PCPolyPacked *packed = (const PCPolyPacked *)copy->data;
  const PetscScalar  *ghosts;
  PCPolyArrays        arrays;

  PetscFunctionBegin;
  if (packed->scatter) PetscCall(VecScatterBegin(packed->scatter, product->z, packed->ghosts, INSERT_VALUES, SCATTER_FORWARD));
  PetscCall(PCPolyGetArrays_Private(product, PETSC_FALSE, &arrays));
  /* y = d (alpha u + beta D^{-1}A_in z), during the halo exchange of z */
  if (packed->single) PCPolyInnerSingle(packed, &arrays);
  else PCPolyInnerScalar(packed, &arrays);
  if (packed->scatter) {
    PetscCall(VecScatterEnd(packed->scatter, product->z, packed->ghosts, INSERT_VALUES, SCATTER_FORWARD));
    PetscCall(VecGetArrayRead(packed->ghosts, &ghosts));
    /* y += d beta D^{-1}A_out z */
    if (packed->single) PCPolyOuterSingle(packed, ghosts, &arrays);
    else PCPolyOuterScalar(packed, ghosts, &arrays);
    PetscCall(VecRestoreArrayRead(packed->ghosts, &ghosts));
  }
  PetscCall(PCPolyRestoreArrays_Private(product, &arrays));
  PetscCall(
    PetscLogFlops(((packed->unit ? 6.0 : 5.0) + (product->d ? 1.0 : 0.0)) * packed->n + 2.0 * packed->nslots * PCPOLY_SLICE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const PCPolyCopyOps PCPolyCopies_Host = {
  PetscDesignatedInitializer(narrowest, PC_POLY_PRECISION_SINGLE), /* the processor has no arithmetic for half precision */
  PetscDesignatedInitializer(create, PCPolyCopyCreate_Host),
  PetscDesignatedInitializer(connect, PCPolyCopyConnect_Scatter),
  PetscDesignatedInitializer(multiplyadd, PCPolyCopyMultiplyAdd_Host),
  PetscDesignatedInitializer(destroy, PCPolyCopyDestroy_Host),
};
// clang-format on
