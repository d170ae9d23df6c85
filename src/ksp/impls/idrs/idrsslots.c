/* Slots: the vectors of the right-hand sides that KSPMatSolve() solves at the same time */
#include "idrsimpl.h"

/* KSPIDRSSetSlot_Private - Gives a slot its vectors, r, z, v and t, and its work */
PetscErrorCode KSPIDRSSetSlot_Private(KSPIDRSColumn *col, IDRSWork work, Vec vecs[])
{
  PetscFunctionBegin;
  col->work = work;
  col->r    = vecs[0];
  col->z    = vecs[1];
  col->v    = vecs[2];
  col->t    = vecs[3];
  PetscCall(IDRSWorkSetVecs(work, col->r, col->z, col->v, col->t));
  PetscCall(IDRSWorkGetColumns(work, &col->G, &col->U));
  PetscCall(IDRSWorkGetScalars(work, &col->scalars));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSMakeSlots_Private - Creates vectors and panels for `count` simultaneous right-hand sides, unless there are enough: 2s +
   5 vectors each, and one more if products need a row-major copy. The first slot exists
*/
PetscErrorCode KSPIDRSMakeSlots_Private(KSP ksp, PetscInt count)
{
  KSP_IDRS      *idrs   = (KSP_IDRS *)ksp->data;
  const PetscInt length = idrs->set.updatetol > 0.0 ? 5 : 4, more = count - 1;
  IDRSWorkInfo   info;
  IDRSWork       works[IDRS_MAX_WIDTH] = {NULL};
  PetscBool      byrows;
  PetscErrorCode ierr;
  Mat            A;

  PetscFunctionBegin;
  if (count <= idrs->slots) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSDestroySlots_Private(ksp));
  PetscCall(IDRSWorkGetInfo(idrs->slot[0].work, &info));
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(IDRSProductGoesByRows(A, idrs->set.product, &byrows));
  PetscCall(IDRSCheckRoom(idrs->slot[0].r, (info.composed && !idrs->set.P ? 3 : 2) * idrs->set.s + length, count, byrows));
  PetscCall(IDRSVecsCreate(idrs->slot[0].r, length * more, &idrs->slotvecs, &idrs->slotmemory));
  idrs->slotlength = length * more;
  ierr             = IDRSWorkCreate(idrs->slot[0].r, idrs->set.s, idrs->set.P, idrs->set.implementation, more, works);
  /* what is there after an error is destroyed with the slots, too */
  for (PetscInt i = 1; i < count; i++) idrs->slot[i].work = works[i - 1];
  PetscCall(ierr);
  for (PetscInt i = 1; i < count; i++)
    PetscCall(KSPIDRSSetSlot_Private(&idrs->slot[i], works[i - 1], idrs->slotvecs + length * (i - 1)));
  idrs->slots = count;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSDestroySlots_Private - Frees all slots but the first */
PetscErrorCode KSPIDRSDestroySlots_Private(KSP ksp)
{
  KSP_IDRS *idrs                  = (KSP_IDRS *)ksp->data;
  IDRSWork  works[IDRS_MAX_WIDTH] = {NULL};

  PetscFunctionBegin;
  for (PetscInt i = 1; i < IDRS_MAX_WIDTH; i++) {
    works[i - 1] = idrs->slot[i].work;
    PetscCall(PetscMemzero(&idrs->slot[i], sizeof(idrs->slot[i])));
  }
  PetscCall(IDRSWorkDestroy(IDRS_MAX_WIDTH - 1, works));
  if (idrs->slotvecs) PetscCall(IDRSVecsDestroy(idrs->slotlength, &idrs->slotvecs, &idrs->slotmemory));
  PetscCall(MatDestroy(&idrs->pcin));
  PetscCall(MatDestroy(&idrs->pcout));
  idrs->slots = 1;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSGetWorkInfo_Private - Adds up traffic and reductions of all slots of the last solve */
PetscErrorCode KSPIDRSGetWorkInfo_Private(KSP ksp, IDRSWorkInfo *info)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  PetscCall(IDRSWorkGetInfo(idrs->slot[0].work, info));
  for (PetscInt i = 1; i < idrs->active; i++) {
    IDRSWorkInfo other;

    PetscCall(IDRSWorkGetInfo(idrs->slot[i].work, &other));
    info->reductions += other.reductions;
    for (PetscInt j = 0; j < IDRS_PASSES; j++) {
      info->traffic[j].calls += other.traffic[j].calls;
      info->traffic[j].vectors += other.traffic[j].vectors;
      info->traffic[j].seconds += other.traffic[j].seconds;
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
