/* Back end "vec" of block IDR(s), by Vec calls. Columns of the shadow space are computed where they are used */
#include <petsc/private/vecimpl.h>
#include <petscidrs/private/idrsops.h>
#include <petscidrs/private/idrscompat.h>
#include "blockvec.h"

/* Copies columns to an array of Vec */
static void IDRSBlockList(PetscInt count, const IDRSBlockVec columns[], Vec list[])
{
  for (PetscInt i = 0; i < count; i++) list[i] = columns[i].vec;
}

/* Computes the columns of Y in other vectors first, because they may be among the columns of X */
static PetscErrorCode IDRSBlockAxpy_Vec(IDRSWork work, const IDRSBlockAxpy *sum, Vec x[], Vec y[])
{
  const PetscInt scaled = sum->scaled;

  PetscFunctionBegin;
  for (PetscInt j = 0; j < sum->ny; j++) {
    const PetscScalar *c = sum->C + j * sum->ld;

    PetscCall(IDRSVecZero(y[j]));
    PetscCall(VecMAXPY(y[j], scaled, (PetscScalar *)c, x));
    if (scaled && work->diagonal) PetscCall(VecPointwiseMult(y[j], y[j], work->diagonal));
    if (sum->add) PetscCall(VecAXPY(y[j], 1.0, sum->y[j].vec));
    PetscCall(VecMAXPY(y[j], sum->nx - scaled, (PetscScalar *)c + scaled, x + scaled));
  }
  for (PetscInt j = 0; j < sum->ny; j++) PetscCall(VecCopy(y[j], sum->y[j].vec));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSBlockCombineOne_Vec(IDRSWork work, const IDRSBlockAxpy *sum)
{
  PetscErrorCode made, ierr;
  Vec           *x, *y;

  PetscFunctionBegin;
  PetscCall(PetscMalloc1(sum->nx, &x));
  IDRSBlockList(sum->nx, sum->x, x);
  made = VecDuplicateVecs(work->r, sum->ny, &y);
  ierr = made ? made : IDRSBlockAxpy_Vec(work, sum, x, y);
  PetscCall(PetscFree(x));
  if (!made) PetscCall(VecDestroyVecs(sum->ny, &y));
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSBlockCombine_Vec(IDRSWork work, PetscInt count, const IDRSBlockAxpy sums[])
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) PetscCall(IDRSBlockCombineOne_Vec(work, &sums[i]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the sums of a task. p and row are overwritten */
static PetscErrorCode IDRSBlockDots_Vec(IDRSWork work, const IDRSBlockDots *dots, const Vec w[], const Vec x[], Vec p,
                                        PetscScalar row[], PetscScalar sums[])
{
  PetscScalar *products = sums + dots->rows * dots->nx;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < dots->rows; i++) {
    PetscCall(IDRSVecSetHashed(p, work->seed, i));
    PetscCall(IDRSVecMDotLocal(p, dots->nx, x, row)); /* x^H p, and p is real */
    for (PetscInt j = 0; j < dots->nx; j++) sums[i + j * dots->rows] = PetscConj(row[j]);
  }
  for (PetscInt j = 0; j < dots->nx; j++) PetscCall(IDRSVecMDotLocal(x[j], dots->nw, w, products + j * dots->nw));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSBlockProjectOne_Vec(IDRSWork work, const IDRSBlockDots *dots, PetscScalar sums[])
{
  PetscErrorCode made, ierr;
  PetscScalar   *row;
  Vec           *w, *x, p;

  PetscFunctionBegin;
  PetscCall(PetscMalloc3(dots->nw, &w, dots->nx, &x, dots->nx, &row));
  IDRSBlockList(dots->nw, dots->w, w);
  IDRSBlockList(dots->nx, dots->x, x);
  made = VecDuplicate(work->r, &p);
  ierr = made ? made : IDRSBlockDots_Vec(work, dots, w, x, p, row, sums);
  PetscCall(PetscFree3(w, x, row));
  if (!made) PetscCall(VecDestroy(&p));
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSBlockProject_Vec(IDRSWork work, PetscInt count, const IDRSBlockDots tasks[], PetscScalar sums[])
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) {
    PetscCall(IDRSBlockProjectOne_Vec(work, &tasks[i], sums));
    sums += IDRSBlockDotsCount(&tasks[i]);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
