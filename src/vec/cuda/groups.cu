/*
   The operands of the columns of a group, and the device memory that the columns share
*/
#include "groups.cuh"

/* Returns a vector of a work, or its diagonal. If there is none, sets its access to none */
static Vec IDRSOperand(IDRSWork work, int which, IDRSAccess *access)
{
  const Vec x[IDRS_OPERANDS] = {work->r, work->z, work->v, work->t, work->diagonal};

  if (which == IDRS_D && !x[which]) *access = IDRS_NOTHING;
  return x[which];
}

static PetscErrorCode IDRSOperandGet_CUDA(IDRSWork work, int which, IDRSAccess access, PetscScalar **array)
{
  const Vec x = IDRSOperand(work, which, &access);

  PetscFunctionBegin;
  *array = NULL;
  if (access == IDRS_READ) PetscCall(IDRSGetArrayRead_CUDA(x, (const PetscScalar **)array));
  else if (access == IDRS_WRITE) PetscCall(IDRSGetArray_CUDA(x, VecGetArrayWriteAndMemType, array));
  else if (access == IDRS_CHANGE) PetscCall(IDRSGetArray_CUDA(x, VecGetArrayAndMemType, array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSOperandRestore_CUDA(IDRSWork work, int which, IDRSAccess access, PetscScalar **array)
{
  const Vec x = IDRSOperand(work, which, &access);

  PetscFunctionBegin;
  if (access == IDRS_READ) PetscCall(VecRestoreArrayReadAndMemType(x, (const PetscScalar **)array));
  else if (access == IDRS_WRITE) PetscCall(VecRestoreArrayWriteAndMemType(x, array));
  else if (access == IDRS_CHANGE) PetscCall(VecRestoreArrayAndMemType(x, array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSColumnsGet_CUDA - Gets the operands of a pass, with an access for each vector; copies: this pass copies the result of the
   last projection to the host
*/
PetscErrorCode IDRSColumnsGet_CUDA(const IDRSGroup *group, const IDRSAccess access[], bool copies, IDRSColumn columns[])
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < group->count; i++) {
    const IDRSWork   work = group->work[i];
    const IDRS_CUDA *cuda = (const IDRS_CUDA *)work->data;

    PetscCall(IDRSColumnsRead_CUDA(work));
    columns[i].panels = cuda->panels;
    columns[i].device = IDRSGetDeviceScalars(work, copies);
    columns[i].rr     = cuda->partials.rr;
    for (int which = 0; which < IDRS_OPERANDS; which++)
      PetscCall(IDRSOperandGet_CUDA(work, which, access[which], &columns[i].x[which]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSColumnsRestore_CUDA(const IDRSGroup *group, const IDRSAccess access[], IDRSColumn columns[])
{
  PetscFunctionBegin;
  for (PetscInt i = group->count - 1; i >= 0; i--) {
    for (int which = IDRS_OPERANDS - 1; which >= 0; which--)
      PetscCall(IDRSOperandRestore_CUDA(group->work[i], which, access[which], &columns[i].x[which]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSGetShared_CUDA - Returns the memory for a group whose first work this is. It is allocated on demand, because most works are
   never the first of several
*/
PetscErrorCode IDRSGetShared_CUDA(IDRSWork work, IDRSShared **shared)
{
  IDRS_CUDA         *cuda = (IDRS_CUDA *)work->data;
  const PetscInt     sums = IDRS_MAX_WIDTH * IDRS_SUMS(work->s, 1);
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (!cuda->shared) {
    PetscCall(PetscNew(&cuda->shared));
    PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, IDRS_MAX_WIDTH, &cuda->shared->coefficients));
    PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 2 * sums, &cuda->shared->localsums));
    cuda->shared->sums = cuda->shared->localsums + sums;
  }
  *shared = cuda->shared;
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSSharedDestroy_CUDA(IDRSShared **shared)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  if (!*shared) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, (*shared)->coefficients));
  PetscCall(PetscDeviceFree(dctx, (*shared)->localsums));
  PetscCall(PetscFree(*shared));
  PetscFunctionReturn(PETSC_SUCCESS);
}
