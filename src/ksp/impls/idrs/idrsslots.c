/* Slots: the vectors of the right-hand sides that KSPMatSolve() solves at the same time */
#include "idrsimpl.h"

/* KSPIDRSSetSlot_Private - Sets the vectors r, z, v and t and the work of a slot */
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
  PetscCall(IDRSCheckRoom(idrs->slot[0].r, info.panel + length, count, byrows));
  PetscCall(IDRSVecsCreate(idrs->slot[0].r, length * more, &idrs->slotvecs, &idrs->slotmemory));
  idrs->slotlength = length * more;
  ierr             = IDRSWorkCreate(idrs->slot[0].r, idrs->set.s, idrs->set.P, idrs->set.implementation, more, works);
  /* after an error the created works are destroyed with the slots */
  for (PetscInt i = 1; i < count; i++) idrs->slot[i].work = works[i - 1];
  PetscCall(ierr);
  for (PetscInt i = 1; i < count; i++)
    PetscCall(KSPIDRSSetSlot_Private(&idrs->slot[i], works[i - 1], idrs->slotvecs + length * (i - 1)));
  idrs->slots = count;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSDestroyPanels_Private - Discards the data for later solves in slots, and frees the panels of the other direction */
PetscErrorCode KSPIDRSDestroyPanels_Private(KSP ksp, PetscInt begin, PetscInt end)
{
  KSP_IDRS *idrs                  = (KSP_IDRS *)ksp->data;
  IDRSWork  works[IDRS_MAX_WIDTH] = {NULL};

  PetscFunctionBegin;
  for (PetscInt i = begin; i < end; i++) {
    KSPIDRSColumn *col = &idrs->slot[i];

    works[i]       = col->otherwork;
    col->otherwork = NULL;
    PetscCall(PetscFree(col->panel.storage));
    PetscCall(PetscFree(col->otherpanel.storage));
    PetscCall(PetscMemzero(&col->panel, sizeof(col->panel)));
    PetscCall(PetscMemzero(&col->otherpanel, sizeof(col->otherpanel)));
  }
  PetscCall(IDRSWorkDestroy(end - begin, works + begin));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSForgetPanels_Private - The same for all slots, whose works have been created in these two groups */
PetscErrorCode KSPIDRSForgetPanels_Private(KSP ksp)
{
  PetscFunctionBegin;
  PetscCall(KSPIDRSDestroyPanels_Private(ksp, 0, 1));
  PetscCall(KSPIDRSDestroyPanels_Private(ksp, 1, IDRS_MAX_WIDTH));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates panels of the other direction for slots whose panels must be kept, for all slots whose works were created together */
static PetscErrorCode KSPIDRSMakeOtherPanels_Private(KSP ksp, PetscInt begin, PetscInt end)
{
  KSP_IDRS      *idrs                  = (KSP_IDRS *)ksp->data;
  IDRSWork       works[IDRS_MAX_WIDTH] = {NULL};
  PetscBool      keeps                 = PETSC_FALSE;
  IDRSWorkInfo   info;
  PetscErrorCode ierr;

  PetscFunctionBegin;
  for (PetscInt i = begin; i < end; i++) keeps = (PetscBool)(keeps || (idrs->slot[i].panel.storage && !idrs->slot[i].panel.why));
  if (!keeps || idrs->slot[begin].otherwork) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSWorkGetInfo(idrs->slot[0].work, &info));
  PetscCall(IDRSCheckRoom(idrs->slot[0].r, info.panel, end - begin, PETSC_FALSE));
  ierr = IDRSWorkCreate(idrs->slot[0].r, idrs->set.s, idrs->set.P, idrs->set.implementation, end - begin, works);
  if (ierr) PetscCall(IDRSWorkDestroy(end - begin, works));
  PetscCall(ierr);
  for (PetscInt i = begin; i < end; i++) idrs->slot[i].otherwork = works[i - begin];
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSTurnSlots_Private - Exchanges the panels of the slots if the direction of this solve, A or its transpose, differs from the
   last solve and solves recycle. The panels of the other direction are kept for its next solve: 2s vectors each, with back end vec
   3s
*/
PetscErrorCode KSPIDRSTurnSlots_Private(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  if (idrs->set.recycle == KSP_IDRS_RECYCLE_NEVER || idrs->transposed == ksp->transpose_solve) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSMakeOtherPanels_Private(ksp, 0, 1));
  PetscCall(KSPIDRSMakeOtherPanels_Private(ksp, 1, idrs->slots));
  idrs->transposed = ksp->transpose_solve;
  for (PetscInt i = 0; i < idrs->slots; i++) {
    KSPIDRSColumn     *col   = &idrs->slot[i];
    const KSPIDRSPanel panel = col->panel;
    const IDRSWork     work  = col->work;

    col->panel      = col->otherpanel;
    col->otherpanel = panel;
    if (!col->otherwork) continue; /* no panel needs to be kept */
    PetscCall(KSPIDRSSetSlot_Private(col, col->otherwork, (Vec[]){col->r, col->z, col->v, col->t}));
    col->otherwork = work;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSDestroySlots_Private - Frees all slots but the first */
PetscErrorCode KSPIDRSDestroySlots_Private(KSP ksp)
{
  KSP_IDRS *idrs                  = (KSP_IDRS *)ksp->data;
  IDRSWork  works[IDRS_MAX_WIDTH] = {NULL};

  PetscFunctionBegin;
  PetscCall(KSPIDRSDestroyPanels_Private(ksp, 1, IDRS_MAX_WIDTH));
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
