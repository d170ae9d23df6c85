/*
   OffloadPC stores the functions of the program's preconditioner while KSPOFFLOAD uses the inner one. The preconditioner of the
   program keeps its type and data, for which the program may ask, but it is not set up, which could take longer than the solve.
   PCBJACOBI, PCASM and PCFIELDSPLIT are set up, once and without their blocks: programs then ask for the solvers of the blocks
*/
#include <petscidrs/private/idrscompat.h>
#include "offload.h"

static PetscErrorCode KSPOffloadGetPC(PC pc, OffloadPC **taken)
{
  PetscContainer container;

  PetscFunctionBegin;
  PetscCall(PetscObjectQuery((PetscObject)pc, "KSPOFFLOAD", (PetscObject *)&container));
  PetscCall(PetscContainerGetPointer(container, (void **)taken));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Applies the inner preconditioner: tests of the program and -ksp_knoll may apply the outer one */
static PetscErrorCode KSPOffloadApplyPC(PC pc, PetscErrorCode (*apply)(PC, Vec, Vec), Vec x, Vec y)
{
  OffloadPC *taken;
  PC         inner;
  Mat        P;
  Vec        v, w;

  PetscFunctionBegin;
  PetscCall(KSPOffloadGetPC(pc, &taken));
  PetscCall(KSPGetOperators(taken->inner, NULL, &P));
  PetscCall(KSPGetPC(taken->inner, &inner));
  PetscCall(MatCreateVecs(P, &v, &w));
  PetscCall(IDRSVecCopy(x, v));
  PetscCall((*apply)(inner, v, w));
  PetscCall(IDRSVecCopy(w, y));
  PetscCall(VecDestroy(&v));
  PetscCall(VecDestroy(&w));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCApply_Offload(PC pc, Vec x, Vec y)
{
  PetscFunctionBegin;
  PetscCall(KSPOffloadApplyPC(pc, PCApply, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCApplyTranspose_Offload(PC pc, Vec x, Vec y)
{
  PetscFunctionBegin;
  PetscCall(KSPOffloadApplyPC(pc, PCApplyTranspose, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static void KSPOffloadReplaceOps(OffloadPC *taken, PetscErrorCode (*setup)(PC))
{
  struct _PCOps ops;

  (void)memset(&ops, 0, sizeof(ops));
  taken->ops         = *taken->outer->ops;
  ops.setup          = setup;
  ops.apply          = PCApply_Offload;
  ops.applytranspose = PCApplyTranspose_Offload;
  ops.setfromoptions = taken->ops.setfromoptions;
  ops.reset          = taken->ops.reset;
  ops.destroy        = taken->ops.destroy;
  *taken->outer->ops = ops;
}

static PetscErrorCode PCSetUp_Offload(PC pc)
{
  OffloadPC *taken;

  PetscFunctionBegin;
  PetscCall(KSPOffloadGetPC(pc, &taken));
  *pc->ops = taken->ops;
  PetscUseTypeMethod(pc, setup);
  taken->setup = PETSC_TRUE;
  KSPOffloadReplaceOps(taken, NULL);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCSetCoordinates() of the preconditioner of the program is PCSetCoordinates() of the inner one */
static PetscErrorCode PCSetCoordinates_Offload(PC pc, PetscInt dim, PetscInt n, PetscReal coordinates[])
{
  OffloadPC *taken;
  PC         inner;

  PetscFunctionBegin;
  PetscCall(KSPOffloadGetPC(pc, &taken));
  PetscCall(KSPGetPC(taken->inner, &inner));
  PetscCall(PCSetCoordinates(inner, dim, n, coordinates));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPOffloadRestorePCOps_Private - Restores the functions, unless the program has changed the type, which has replaced them */
PetscErrorCode KSPOffloadRestorePCOps_Private(OffloadPC *taken)
{
  PC pc = taken->outer;
  PetscErrorCode (*coordinates)(PC, PetscInt, PetscInt, PetscReal *);

  PetscFunctionBegin;
  if (!pc) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscObjectQueryFunction((PetscObject)pc, "PCSetCoordinates_C", &coordinates));
  if (pc->ops->apply == PCApply_Offload) {
    *pc->ops        = taken->ops;
    pc->setupcalled = taken->setup;
    IDRSPCForgetMat(pc);
  } else taken->coordinates = NULL;
  if (coordinates == PCSetCoordinates_Offload)
    PetscCall(PetscObjectComposeFunction((PetscObject)pc, "PCSetCoordinates_C", taken->coordinates));
  PetscCall(PetscObjectCompose((PetscObject)pc, "KSPOFFLOAD", NULL));
  PetscCall(PCDestroy(&taken->outer));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPOffloadReplacePCOps_Private - Replaces the functions, in set-up and solve, because the program may have changed the
   preconditioner or its type. If two solvers share a preconditioner, the solver that used it last owns it
*/
PetscErrorCode KSPOffloadReplacePCOps_Private(KSP ksp, OffloadPC *taken)
{
  PetscBool      blocks;
  PetscContainer container;
  OffloadPC     *other;
  PC             pc;

  PetscFunctionBegin;
  PetscCall(KSPGetPC(ksp, &pc));
  if (pc == taken->outer && pc->ops->apply == PCApply_Offload) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPOffloadRestorePCOps_Private(taken));
  PetscCall(PetscObjectQuery((PetscObject)pc, "KSPOFFLOAD", (PetscObject *)&container));
  if (container) {
    PetscCall(PetscContainerGetPointer(container, (void **)&other));
    PetscCall(KSPOffloadRestorePCOps_Private(other));
  }
  if (!((PetscObject)pc)->type_name) PetscCall(PCSetType(pc, PCNONE));
  PetscCall(PetscInfo(ksp, "The preconditioner %s of the program is not used; -%spc_type is the preconditioner on the GPU\n",
                      ((PetscObject)pc)->type_name, ((PetscObject)taken->inner)->prefix));
  PetscCall(PetscObjectReference((PetscObject)pc));
  taken->outer = pc;
  taken->setup = pc->setupcalled ? PETSC_TRUE : PETSC_FALSE;
  PetscCall(PetscContainerCreate(PetscObjectComm((PetscObject)ksp), &container));
  PetscCall(PetscContainerSetPointer(container, taken));
  PetscCall(PetscObjectCompose((PetscObject)pc, "KSPOFFLOAD", (PetscObject)container));
  PetscCall(PetscContainerDestroy(&container));
  PetscCall(PetscObjectQueryFunction((PetscObject)pc, "PCSetCoordinates_C", &taken->coordinates));
  PetscCall(PetscObjectComposeFunction((PetscObject)pc, "PCSetCoordinates_C", PCSetCoordinates_Offload));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)pc, &blocks, PCBJACOBI, PCASM, PCFIELDSPLIT, ""));
  KSPOffloadReplaceOps(taken, blocks ? PCSetUp_Offload : NULL);
  PetscFunctionReturn(PETSC_SUCCESS);
}
