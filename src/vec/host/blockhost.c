/*
   Back end "host" of block IDR(s), on arrays in host memory. Tiles of rows stay in the second-level cache while all columns of
   Y, or all products, are computed from those of X, so each column is read from memory once
*/
#include <petscidrs/private/idrsworkimpl.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsloops.h>
#include "blockhost.h"

#define IDRS_TILE_ROWS    256
#define IDRS_TILE_COLUMNS 32 /* of X, or of the shadow space, at a time */

/* Returns no array: operations get the arrays of their columns */
PetscErrorCode IDRSBlockArray_Host(Vec vec, PetscScalar **array)
{
  PetscFunctionBegin;
  *array = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSBlockGetArrays_Host(PetscInt count, const IDRSBlockVec columns[], const PetscScalar *arrays[])
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) PetscCall(VecGetArrayRead(columns[i].vec, &arrays[i]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSBlockRestoreArrays_Host(PetscInt count, const IDRSBlockVec columns[], const PetscScalar *arrays[])
{
  PetscFunctionBegin;
  for (PetscInt i = count - 1; i >= 0; i--) PetscCall(VecRestoreArrayRead(columns[i].vec, &arrays[i]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes y0 += X c0 and y1 += X c1 on m rows, for 4 columns of X */
IDRS_INLINE void IDRSBlockAddPair(PetscInt m, const PetscScalar *X, const PetscScalar *c0, const PetscScalar *c1,
                                  PetscScalar *PETSC_RESTRICT y0, PetscScalar *PETSC_RESTRICT y1)
{
  const PetscScalar *PETSC_RESTRICT x0 = X, *PETSC_RESTRICT x1 = X + IDRS_TILE_ROWS, *PETSC_RESTRICT x2 = X + 2 * IDRS_TILE_ROWS,
                                    *PETSC_RESTRICT x3 = X + 3 * IDRS_TILE_ROWS;

  for (PetscInt i = 0; i < m; i++) {
    y0[i] += c0[0] * x0[i] + c0[1] * x1[i] + (c0[2] * x2[i] + c0[3] * x3[i]);
    y1[i] += c1[0] * x0[i] + c1[1] * x1[i] + (c1[2] * x2[i] + c1[3] * x3[i]);
  }
}

/* Computes Y += X C on a tile, for the columns of X from first to end - 1 */
IDRS_INLINE void IDRSBlockAddTile(const IDRSBlockAxpy *sum, const PetscScalar *const *x, size_t b, PetscInt m, PetscInt first,
                                  PetscInt end, PetscScalar *y)
{
  PetscScalar tile[IDRS_TILE_ROWS * IDRS_TILE_COLUMNS];

  for (; first < end; first += IDRS_TILE_COLUMNS) {
    const PetscInt columns = PetscMin(end - first, IDRS_TILE_COLUMNS);

    for (PetscInt i = 0; i < columns; i++) {
      for (PetscInt l = 0; l < m; l++) tile[i * IDRS_TILE_ROWS + l] = x[first + i][b + (size_t)l];
    }
    for (PetscInt j = 0; j < sum->ny; j += 2) {
      const PetscScalar *c = sum->C + first + j * sum->ld;
      PetscInt           i = 0;

      for (; j + 1 < sum->ny && i + 4 <= columns; i += 4)
        IDRSBlockAddPair(m, tile + i * IDRS_TILE_ROWS, c + i, c + i + sum->ld, y + j * IDRS_TILE_ROWS,
                         y + (j + 1) * IDRS_TILE_ROWS);
      for (PetscInt l = 0; l < PetscMin(sum->ny - j, 2); l++)
        IDRSLoopAdd(m, y + (j + l) * IDRS_TILE_ROWS, 1.0, columns - i, c + i + l * sum->ld, tile + i * IDRS_TILE_ROWS,
                    IDRS_TILE_ROWS);
    }
  }
}

/* Computes one sum on m rows from row b on */
IDRS_INLINE void IDRSBlockCombineTile(const IDRSBlockAxpy *sum, size_t b, PetscInt m, const PetscScalar *diagonal,
                                      const PetscScalar *const *x, PetscScalar *const *to)
{
  PetscScalar y[IDRS_TILE_ROWS * IDRS_MAX_WIDTH];

  for (PetscInt l = 0; l < sum->ny * IDRS_TILE_ROWS; l++) y[l] = 0.0;
  IDRSBlockAddTile(sum, x, b, m, 0, sum->scaled, y);
  for (PetscInt j = 0; diagonal && sum->scaled && j < sum->ny; j++) {
    for (PetscInt l = 0; l < m; l++) y[j * IDRS_TILE_ROWS + l] *= diagonal[b + (size_t)l];
  }
  for (PetscInt j = 0; sum->add && j < sum->ny; j++) {
    for (PetscInt l = 0; l < m; l++) y[j * IDRS_TILE_ROWS + l] += to[j][b + (size_t)l];
  }
  IDRSBlockAddTile(sum, x, b, m, sum->scaled, sum->nx, y);
  for (PetscInt j = 0; j < sum->ny; j++) {
    for (PetscInt l = 0; l < m; l++) to[j][b + (size_t)l] = y[j * IDRS_TILE_ROWS + l];
  }
}

/* Computes all sums. The arrays of their columns X, and of Y, are stored one sum after another */
IDRS_VECTORISED static void IDRSBlockCombineRows(PetscInt count, const IDRSBlockAxpy sums[], PetscInt n,
                                                 const PetscScalar *diagonal, const PetscScalar *const *x, PetscScalar *const *to)
{
  for (size_t b = 0; b < (size_t)n; b += IDRS_TILE_ROWS) {
    const PetscInt            m  = (PetscInt)PetscMin(IDRS_TILE_ROWS, (size_t)n - b);
    const PetscScalar *const *xi = x;
    PetscScalar *const       *yi = to;

    for (PetscInt i = 0; i < count; i++) {
      IDRSBlockCombineTile(&sums[i], b, m, diagonal, xi, yi);
      xi += sums[i].nx;
      yi += sums[i].ny;
    }
  }
}

/* Gets the arrays of all sums before it computes the first sum: a column may be in several sums, and in X and Y */
PetscErrorCode IDRSBlockCombine_Host(IDRSWork work, PetscInt count, const IDRSBlockAxpy sums[])
{
  const PetscScalar **x, *diagonal = NULL;
  PetscScalar       **y;
  PetscInt            nx = 0, ny = 0, scaled = 0;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) {
    nx += sums[i].nx;
    ny += sums[i].ny;
    scaled += sums[i].scaled;
  }
  PetscCall(PetscMalloc2(nx, &x, ny, &y));
  nx = ny = 0;
  for (PetscInt i = 0; i < count; i++) {
    PetscCall(IDRSBlockGetArrays_Host(sums[i].nx, sums[i].x, x + nx));
    for (PetscInt j = 0; j < sums[i].ny; j++) PetscCall(VecGetArray(sums[i].y[j].vec, &y[ny + j]));
    nx += sums[i].nx;
    ny += sums[i].ny;
  }
  if (scaled && work->diagonal) PetscCall(VecGetArrayRead(work->diagonal, &diagonal));
  IDRSBlockCombineRows(count, sums, work->n, diagonal, x, y);
  if (diagonal) PetscCall(VecRestoreArrayRead(work->diagonal, &diagonal));
  for (PetscInt i = count - 1; i >= 0; i--) {
    nx -= sums[i].nx;
    ny -= sums[i].ny;
    for (PetscInt j = sums[i].ny - 1; j >= 0; j--) PetscCall(VecRestoreArray(sums[i].y[j].vec, &y[ny + j]));
    PetscCall(IDRSBlockRestoreArrays_Host(sums[i].nx, sums[i].x, x + nx));
  }
  PetscCall(PetscFree2(x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes columns first and first + 1 of the shadow space in these rows, in units of 2^-16 */
IDRS_INLINE void IDRSBlockShadowPair(PetscInt m, const uint32_t *z0, const uint32_t *z1, PetscInt first, PetscReal *even,
                                     PetscReal *odd)
{
  const uint32_t multiplier = IDRSShadowMultiplier((uint32_t)(first / 2));

  for (PetscInt l = 0; l < m; l++) {
    const IDRSShadowRow row = {z0[l], z1[l]};

    even[l] = (PetscReal)IDRSShadowInteger(IDRSShadowFieldEven(row, multiplier));
    odd[l]  = (PetscReal)IDRSShadowInteger(IDRSShadowFieldOdd(row, multiplier));
  }
}

/* Adds p^H x and q^H x for real p and q */
IDRS_INLINE void IDRSBlockDots2(PetscInt m, const PetscReal *p, const PetscReal *q, const PetscScalar *x, PetscScalar *psum,
                                PetscScalar *qsum)
{
  const PetscReal *parts = (const PetscReal *)x;
  PetscReal        pre = 0.0, pim = 0.0, qre = 0.0, qim = 0.0;

#pragma omp simd reduction(+ : pre, pim, qre, qim)
  for (PetscInt l = 0; l < m; l++) {
    pre += p[l] * parts[IDRS_PARTS * l];
    qre += q[l] * parts[IDRS_PARTS * l];
    if (IDRS_PARTS == 2) {
      pim += p[l] * parts[IDRS_PARTS * l + 1];
      qim += q[l] * parts[IDRS_PARTS * l + 1];
    }
  }
  *psum += IDRS_SCALAR(pre, pim);
  *qsum += IDRS_SCALAR(qre, qim);
}

/* Adds the same products for two columns of X, whose sums are ld apart */
IDRS_INLINE void IDRSBlockDots4(PetscInt m, const PetscReal *p, const PetscReal *q, const PetscScalar *x, const PetscScalar *y,
                                PetscScalar *sums, PetscInt ld)
{
  const PetscReal *xparts = (const PetscReal *)x, *yparts = (const PetscReal *)y;
  PetscReal        px = 0.0, qx = 0.0, py = 0.0, qy = 0.0, pxi = 0.0, qxi = 0.0, pyi = 0.0, qyi = 0.0;

#pragma omp simd reduction(+ : px, qx, py, qy, pxi, qxi, pyi, qyi)
  for (PetscInt l = 0; l < m; l++) {
    px += p[l] * xparts[IDRS_PARTS * l];
    qx += q[l] * xparts[IDRS_PARTS * l];
    py += p[l] * yparts[IDRS_PARTS * l];
    qy += q[l] * yparts[IDRS_PARTS * l];
    if (IDRS_PARTS == 2) {
      pxi += p[l] * xparts[IDRS_PARTS * l + 1];
      qxi += q[l] * xparts[IDRS_PARTS * l + 1];
      pyi += p[l] * yparts[IDRS_PARTS * l + 1];
      qyi += q[l] * yparts[IDRS_PARTS * l + 1];
    }
  }
  sums[0] += IDRS_SCALAR(px, pxi);
  sums[1] += IDRS_SCALAR(qx, qxi);
  sums[ld] += IDRS_SCALAR(py, pyi);
  sums[ld + 1] += IDRS_SCALAR(qy, qyi);
}

/* Computes P^H X, in units of 2^-16, and W^H X over the rows of this process */
IDRS_VECTORISED static void IDRSBlockProjectRows(const IDRSBlockDots *dots, PetscInt n, uint64_t key, uint64_t rstart,
                                                 const PetscScalar *const *w, const PetscScalar *const *x, PetscScalar sums[])
{
  PetscScalar    *products  = sums + dots->rows * dots->nx;
  const PetscBool hermitian = IDRSBlockDotsHermitian(dots);
  PetscReal       P[IDRS_TILE_ROWS * IDRS_TILE_COLUMNS];
  uint32_t        z0[IDRS_TILE_ROWS], z1[IDRS_TILE_ROWS];

  for (size_t b = 0; b < (size_t)n; b += IDRS_TILE_ROWS) {
    const PetscInt m = (PetscInt)PetscMin(IDRS_TILE_ROWS, (size_t)n - b);

    IDRSLoopShadowRows(m, key, rstart + (uint64_t)b, z0, z1);
    for (PetscInt first = 0; first < dots->rows; first += IDRS_TILE_COLUMNS) {
      const PetscInt columns = PetscMin(dots->rows - first, IDRS_TILE_COLUMNS);

      for (PetscInt i = 0; i < columns; i += 2)
        IDRSBlockShadowPair(m, z0, z1, first + i, P + i * IDRS_TILE_ROWS, P + (i + 1) * IDRS_TILE_ROWS);
      for (PetscInt i = 0; i < columns; i += 2) {
        const PetscReal *p = P + i * IDRS_TILE_ROWS, *q = p + IDRS_TILE_ROWS;
        PetscScalar     *to = sums + first + i, unused = 0.0;
        PetscInt         j = 0;

        for (; i + 1 < columns && j + 2 <= dots->nx; j += 2)
          IDRSBlockDots4(m, p, q, x[j] + b, x[j + 1] + b, to + j * dots->rows, dots->rows);
        for (; j < dots->nx; j++)
          IDRSBlockDots2(m, p, q, x[j] + b, to + j * dots->rows, i + 1 < columns ? to + j * dots->rows + 1 : &unused);
      }
    }
    for (PetscInt j = 0; j < dots->nx; j++) {
      for (PetscInt i = 0; i < (hermitian ? j : dots->nw); i++) products[i + j * dots->nw] += IDRSLoopDot(m, w[i] + b, x[j] + b);
      if (hermitian) products[j + j * dots->nw] += IDRSLoopSquare(m, x[j] + b);
    }
  }
}

static PetscErrorCode IDRSBlockProjectOne_Host(IDRSWork work, const IDRSBlockDots *dots, PetscScalar sums[])
{
  PetscScalar        *gram = sums + dots->rows * dots->nx;
  const PetscScalar **w, **x;

  PetscFunctionBegin;
  PetscCall(PetscArrayzero(sums, IDRSBlockDotsCount(dots)));
  PetscCall(PetscMalloc2(dots->nw, &w, dots->nx, &x));
  PetscCall(IDRSBlockGetArrays_Host(dots->nw, dots->w, w));
  PetscCall(IDRSBlockGetArrays_Host(dots->nx, dots->x, x));
  IDRSBlockProjectRows(dots, work->n, IDRSShadowKey(work->seed), (uint64_t)work->rstart, w, x, sums);
  PetscCall(IDRSBlockRestoreArrays_Host(dots->nx, dots->x, x));
  PetscCall(IDRSBlockRestoreArrays_Host(dots->nw, dots->w, w));
  PetscCall(PetscFree2(w, x));
  for (PetscInt i = 0; i < dots->rows * dots->nx; i++) sums[i] *= (PetscReal)IDRS_SHADOW_UNIT;
  for (PetscInt j = 0; IDRSBlockDotsHermitian(dots) && j < dots->nx; j++) {
    for (PetscInt i = 0; i < j; i++) gram[j + i * dots->nw] = PetscConj(gram[i + j * dots->nw]);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSBlockProject_Host(IDRSWork work, PetscInt count, const IDRSBlockDots tasks[], PetscScalar sums[])
{
  PetscFunctionBegin;
  PetscCall(IDRSBlockEachTask(work, count, tasks, IDRSBlockProjectOne_Host, sums));
  PetscFunctionReturn(PETSC_SUCCESS);
}
