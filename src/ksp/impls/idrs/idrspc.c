/*
   The preconditioner: where it is applied, and its applications to one vector or to several, counted and timed
*/
#include "idrsimpl.h"
#include <petscidrs/private/idrsjoint.h>
#include <petsc/private/pcimpl.h>

/* KSPIDRSPCApply_Private - y = B^{-1}x */
PetscErrorCode KSPIDRSPCApply_Private(KSP ksp, Vec x, Vec y)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  idrs->counts.preconditions++;
  idrs->counts.pcseconds -= IDRSGpuSeconds();
  PetscCall(IDRSStreamJoin(idrs->slot[0].work));
  PetscCall(KSP_PCApply(ksp, x, y));
  PetscCall(IDRSStreamJoin(idrs->slot[0].work));
  idrs->counts.pcseconds += IDRSGpuSeconds();
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSPCApplyMult_Private - u = c B^{-1}v, or u + c B^{-1}v, and g = A u, in one operation */
PetscErrorCode KSPIDRSPCApplyMult_Private(KSP ksp, PetscScalar c, Vec v, PetscBool adds, Vec u, Vec g)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  idrs->counts.preconditions++;
  idrs->counts.pcseconds -= IDRSGpuSeconds();
  PetscCall(IDRSStreamJoin(idrs->slot[0].work));
  PetscUseMethod(ksp->pc, IDRS_JOINT_APPLY, (PC, PetscScalar, Vec, PetscBool, Vec, Vec), (ksp->pc, c, v, adds, u, g));
  PetscCall(IDRSStreamJoin(idrs->slot[0].work));
  idrs->counts.pcseconds += IDRSGpuSeconds();
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Vectors to a block of them, or back. After an error, too, the block gets its column back: it could not be destroyed otherwise */
static PetscErrorCode KSPIDRSCopyColumns_Private(Mat dense, PetscInt count, Vec x[], PetscBool back)
{
  PetscErrorCode ierr;
  Vec            column;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) {
    if (back) {
      PetscCall(MatDenseGetColumnVecRead(dense, i, &column));
      ierr = VecCopy(column, x[i]);
      PetscCall(MatDenseRestoreColumnVecRead(dense, i, &column));
    } else {
      PetscCall(MatDenseGetColumnVecWrite(dense, i, &column));
      ierr = VecCopy(x[i], column);
      PetscCall(MatDenseRestoreColumnVecWrite(dense, i, &column));
    }
    PetscCall(ierr);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Y = B^{-1}X by PCMatApply(), and whether that has failed for some column, on some process: an inner solver that fails for one
   makes the whole block infinite, from 3.26 on. What has failed before is none of this application's, and is kept for those who ask
   why a norm is infinite
*/
static PetscErrorCode KSPIDRSMatApply_Private(KSP ksp, Mat X, Mat Y, PetscBool *failed)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  PCFailedReason before, reason;
  PetscMPIInt    any;

  PetscFunctionBegin;
  *failed = PETSC_FALSE;
  PetscCall(PCGetFailedReason(ksp->pc, &before));
  if (idrs->pcmatapply == KSPIDRS_PC_DENSE_CHECKED) PetscCall(PCSetFailedReason(ksp->pc, PC_NOERROR));
  PetscCall(PCMatApply(ksp->pc, X, Y));
  if (idrs->pcmatapply == KSPIDRS_PC_DENSE) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PCGetFailedReason(ksp->pc, &reason));
  any = reason ? 1 : 0;
  IDRSCallAllreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_MAX, PetscObjectComm((PetscObject)ksp));
  *failed = any ? PETSC_TRUE : PETSC_FALSE;
  PetscCall(PCSetFailedReason(ksp->pc, before));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   y_j = B^{-1}x_j, with a block for the x_j. Blocks are given back after an error, too: KSPReset() could not destroy what they are
   part of otherwise
*/
static PetscErrorCode KSPIDRSMatApplyTo_Private(KSP ksp, PetscInt count, Vec x[], Mat X, Vec y[], PetscBool *failed)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  PetscErrorCode ierr;
  Mat            Y;

  PetscFunctionBegin;
  PetscCall(KSPIDRSCopyColumns_Private(X, count, x, PETSC_FALSE));
  PetscCall(MatDenseGetSubMatrix(idrs->pcout, PETSC_DECIDE, PETSC_DECIDE, 0, count, &Y));
  ierr = KSPIDRSMatApply_Private(ksp, X, Y, failed);
  if (!ierr && !*failed) ierr = KSPIDRSCopyColumns_Private(Y, count, y, PETSC_TRUE);
  PetscCall(MatDenseRestoreSubMatrix(idrs->pcout, &Y));
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The same for vectors */
static PetscErrorCode KSPIDRSMatApplyVecs_Private(KSP ksp, PetscInt count, Vec x[], Vec y[], PetscBool *failed)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  PetscErrorCode ierr;
  Mat            X;

  PetscFunctionBegin;
  PetscCall(MatDenseGetSubMatrix(idrs->pcin, PETSC_DECIDE, PETSC_DECIDE, 0, count, &X));
  ierr = KSPIDRSMatApplyTo_Private(ksp, count, x, X, y, failed);
  PetscCall(MatDenseRestoreSubMatrix(idrs->pcin, &X));
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSPCApplyColumns_Private - y_j = B^{-1}x_j for all columns, by PCMatApply() where that has been chosen for this solve, of
   one that is left alone, too. Where it fails, by PCApply() for one after another, so that only those columns end for which that
   fails
*/
PetscErrorCode KSPIDRSPCApplyColumns_Private(KSP ksp, PetscInt count, Vec x[], Vec y[])
{
  KSP_IDRS *idrs   = (KSP_IDRS *)ksp->data;
  PetscBool failed = PETSC_TRUE;

  PetscFunctionBegin;
  if (idrs->pcmatapply != KSPIDRS_PC_EACH) {
    idrs->counts.preconditions += count;
    idrs->counts.pcseconds -= IDRSGpuSeconds();
    PetscCall(IDRSStreamJoin(idrs->slot[0].work));
    PetscCall(KSPIDRSMatApplyVecs_Private(ksp, count, x, y, &failed));
    PetscCall(IDRSStreamJoin(idrs->slot[0].work));
    idrs->counts.pcseconds += IDRSGpuSeconds();
    if (failed)
      PetscCall(
        PetscInfo(ksp, "The preconditioner has failed for one of %" PetscInt_FMT " vectors: it is applied to one after another\n",
                  count));
  }
  for (PetscInt i = 0; failed && i < count; i++) PetscCall(KSPIDRSPCApply_Private(ksp, x[i], y[i]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A block of vectors like those of all slots, of which nothing is there yet */
static PetscErrorCode KSPIDRSSetUpDense_Private(KSP ksp, MatType type, Mat dense)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  PetscInt  n, N;

  PetscFunctionBegin;
  PetscCall(VecGetLocalSize(idrs->slot[0].r, &n));
  PetscCall(VecGetSize(idrs->slot[0].r, &N));
  PetscCall(MatSetSizes(dense, n, PETSC_DECIDE, N, idrs->slots));
  PetscCall(MatSetType(dense, type));
  PetscCall(MatSetUp(dense));
  PetscCall(MatAssemblyBegin(dense, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(dense, MAT_FINAL_ASSEMBLY));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The same, complete or none: the next solve would take half of one for a block */
static PetscErrorCode KSPIDRSCreateDense_Private(KSP ksp, MatType type, Mat *dense)
{
  PetscErrorCode ierr;
  Mat            made;

  PetscFunctionBegin;
  PetscCall(MatCreate(PetscObjectComm((PetscObject)ksp), &made));
  ierr = KSPIDRSSetUpDense_Private(ksp, type, made);
  if (ierr) PetscCall(MatDestroy(&made));
  PetscCall(ierr);
  *dense = made;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   How the preconditioner is applied to several vectors. PCMatApply() takes blocks that the vectors are copied to and from, which
   pays where it reads its data once for all of them. That of PCASM and PCGASM makes blocks in the memory of the host, and those of
   types that have none apply the preconditioner to one vector after another. So does one whose set-up has failed on some process:
   PCApply() makes infinite vectors then, where PCMatApply() may be an error, as that of PCBJACOBI with PETSc 3.18
*/
static PetscErrorCode KSPIDRSSetMatApply_Private(KSP ksp)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  PetscBool      overlapping, inner, direct, host, device;
  PCFailedReason failed;
  PetscMPIInt    any;
  MatNullSpace   space;
  Mat            A;

  PetscFunctionBegin;
  idrs->pcmatapply = KSPIDRS_PC_EACH;
  if (idrs->active == 1 || !KSPIDRSIsPreconditioned(idrs) || !ksp->pc->ops->matapply || ksp->transpose_solve)
    PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscObjectTypeCompareAny((PetscObject)ksp->pc, &overlapping, PCASM, PCGASM, ""));
  PetscCall(PetscObjectTypeCompare((PetscObject)ksp->pc, PCKSP, &inner)); /* before 3.26 nobody is told of one that fails */
  PetscCall(
    PetscObjectTypeCompareAny((PetscObject)ksp->pc, &direct, PCILU, PCICC, PCLU, PCCHOLESKY, PCQR, PCSVD, PCMAT, PCSPAI, ""));
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(MatGetNullSpace(A, &space));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)idrs->slot[0].r, &host, VECSEQ, VECMPI, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)idrs->slot[0].r, &device, VECSEQCUDA, VECMPICUDA, ""));
  if (overlapping || inner || space || !(host || (device && idrs->memory == KSPIDRS_DEVICE))) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PCGetFailedReason(ksp->pc, &failed));
  any = failed ? 1 : 0;
  IDRSCallAllreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_MAX, PetscObjectComm((PetscObject)ksp));
  if (any) PetscFunctionReturn(PETSC_SUCCESS);
  idrs->pcmatapply = direct ? KSPIDRS_PC_DENSE : KSPIDRS_PC_DENSE_CHECKED; /* other types may have inner solvers */
  if (!idrs->pcin) PetscCall(KSPIDRSCreateDense_Private(ksp, host ? MATDENSE : MATDENSECUDA, &idrs->pcin));
  if (!idrs->pcout) PetscCall(KSPIDRSCreateDense_Private(ksp, host ? MATDENSE : MATDENSECUDA, &idrs->pcout));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Whether the preconditioner of this solve is applied together with the matvec after it. Nothing else may be between them */
static PetscErrorCode KSPIDRSSetJoint_Private(KSP ksp, PetscBool nullspace)
{
  KSP_IDRS        *idrs = (KSP_IDRS *)ksp->data;
  IDRSJointRunsFn *runs;
  PetscBool        joint = PETSC_FALSE;

  PetscFunctionBegin;
  if (!KSPIDRSIsPreconditioned(idrs) || idrs->active > 1 || idrs->reader == KSPIDRS_READ_BY_PASS || ksp->transpose_solve ||
      nullspace)
    PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscObjectQueryFunction((PetscObject)ksp->pc, IDRS_JOINT_RUNS, &runs));
  if (runs) PetscCall((*runs)(ksp->pc, idrs->slot[0].r, &joint));
  if (joint) idrs->pcmode = KSPIDRS_PC_JOINT;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSSetPreconditioner_Private - Where the preconditioner of this solve is applied. The passes apply that of PCJACOBI, from the
   right: its diagonal is what it makes of a vector of ones. Where a null space is removed after each application, it is applied by
   itself
*/
PetscErrorCode KSPIDRSSetPreconditioner_Private(KSP ksp)
{
  KSP_IDRS    *idrs = (KSP_IDRS *)ksp->data;
  PetscBool    none, jacobi, removed;
  MatNullSpace space, transposed;
  Mat          A;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)ksp->pc, PCNONE, &none));
  PetscCall(PetscObjectTypeCompare((PetscObject)ksp->pc, PCJACOBI, &jacobi));
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(MatGetNullSpace(A, &space));
  PetscCall(MatGetTransposeNullSpace(A, &transposed));
  removed          = (PetscBool)(jacobi && ksp->pc_side == PC_RIGHT && (space || transposed));
  jacobi           = (PetscBool)(jacobi && ksp->pc_side == PC_RIGHT && !removed);
  idrs->pcmode     = ksp->pc_side == PC_RIGHT && !none && !jacobi ? KSPIDRS_PC_SEPARATE : KSPIDRS_PC_PASSES;
  idrs->separatepc = NULL;
  if (removed) idrs->separatepc = "a null space is removed after each application of the preconditioner";
  else if (KSPIDRSIsPreconditioned(idrs) || ksp->pc_side == PC_LEFT)
    idrs->separatepc = "the preconditioner is not PCNONE or PCJACOBI from the right";
  idrs->diagonal = NULL;
  if (jacobi) {
    if (!idrs->inverse) PetscCall(KSPIDRSCreateVecs_Private(ksp, 1, &idrs->inverse)); /* like the work vectors */
    PetscCall(VecSet(idrs->slot[0].v, 1.0));
    PetscCall(KSPIDRSPCApply_Private(ksp, idrs->slot[0].v, idrs->inverse[0]));
    idrs->diagonal = idrs->inverse[0];
  }
  PetscCall(KSPIDRSSetMatApply_Private(ksp));
  PetscCall(KSPIDRSSetJoint_Private(ksp, (PetscBool)(space || transposed)));
  PetscFunctionReturn(PETSC_SUCCESS);
}
