/*
   Back end "vec": the operations of block IDR(s) as plain Vec calls. Columns of the shadow space are made where they are used, each for all columns of the block
*/
#include <petscidrs/private/idrsworkimpl.h>
#include <petscidrs/private/idrscompat.h>
#include "blockvec.h"

PetscErrorCode IDRSBlockArray_Vec(Vec vec, PetscScalar **array)
{
  PetscFunctionBegin;
  *array = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Columns of a block as VecMAXPY() and VecMDot() take them */
static PetscErrorCode IDRSBlockList_Vec(PetscInt count, const IDRSBlockVec columns[], Vec *list[])
{
  PetscFunctionBegin;
  PetscCall(PetscMalloc1(count, list));
  for (PetscInt i = 0; i < count; i++) (*list)[i] = columns[i].vec;
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSBlockCombine_Vec(IDRSWork work, const IDRSBlockAxpy *sum)
{
  const PetscInt scaled = sum->scaled;
  Vec           *x, *y;

  PetscFunctionBegin;
  PetscCall(IDRSBlockList_Vec(sum->nx, sum->x, &x));
  PetscCall(VecDuplicateVecs(work->r, sum->ny, &y)); /* as columns of Y are among those of X */
  for (PetscInt j = 0; j < sum->ny; j++) {
    const PetscScalar *c = sum->C + j * sum->ld;

    PetscCall(VecSet(y[j], 0.0));
    PetscCall(VecMAXPY(y[j], scaled, (PetscScalar *)c, x));
    if (scaled && work->diagonal) PetscCall(VecPointwiseMult(y[j], y[j], work->diagonal));
    if (sum->add) PetscCall(VecAXPY(y[j], 1.0, sum->y[j].vec));
    PetscCall(VecMAXPY(y[j], sum->nx - scaled, (PetscScalar *)c + scaled, x + scaled));
  }
  for (PetscInt j = 0; j < sum->ny; j++) PetscCall(VecCopy(y[j], sum->y[j].vec));
  PetscCall(VecDestroyVecs(sum->ny, &y));
  PetscCall(PetscFree(x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sums of Vec calls are over all processes: the first one alone hands them on to the reduction */
PetscErrorCode IDRSBlockProject_Vec(IDRSWork work, const IDRSBlockDots *dots, PetscScalar sums[])
{
  const PetscInt count = dots->rows * dots->nx + dots->ny * dots->ny;
  PetscScalar   *gram  = sums + dots->rows * dots->nx, *row;
  PetscMPIInt    rank;
  Vec           *x, *y, p;

  PetscFunctionBegin;
  PetscCall(IDRSBlockList_Vec(dots->nx, dots->x, &x));
  PetscCall(IDRSBlockList_Vec(dots->ny, dots->y, &y));
  PetscCall(PetscMalloc1(dots->nx, &row));
  PetscCall(VecDuplicate(work->r, &p));
  for (PetscInt i = 0; i < dots->rows; i++) {
    PetscCall(IDRSVecSetHashed(p, work->seed, i));
    PetscCall(VecMDot(p, dots->nx, x, row)); /* x^H p, and p is real */
    for (PetscInt j = 0; j < dots->nx; j++) sums[i + j * dots->rows] = PetscConj(row[j]);
  }
  for (PetscInt j = 0; j < dots->ny; j++) PetscCall(VecMDot(y[j], dots->ny, y, gram + j * dots->ny));
  PetscCallMPI(MPI_Comm_rank(work->comm, &rank));
  if (rank) PetscCall(PetscArrayzero(sums, count));
  PetscCall(VecDestroy(&p));
  PetscCall(PetscFree(row));
  PetscCall(PetscFree(y));
  PetscCall(PetscFree(x));
  PetscFunctionReturn(PETSC_SUCCESS);
}
