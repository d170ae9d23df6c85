/* The preconditioner: where it is applied, and its applications, counted and timed */
#include "idrsimpl.h"
#include <petscidrs/private/idrspowers.h>
#include <petsc/private/pcimpl.h>

/* KSPIDRSPCApply_Private - Computes y = B^{-1}x */
PetscErrorCode KSPIDRSPCApply_Private(KSP ksp, Vec x, Vec y)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  idrs->counts.preconditions++;
  idrs->counts.pcseconds -= IDRSGpuSeconds();
  PetscCall(IDRSStreamJoin(idrs->slot[0].work));
  PetscCall(IDRSVecForgetNorm(y)); /* KSPSolve() of PCKSP begins with VecSet(y, 0) */
  PetscCall(KSP_PCApply(ksp, x, y));
  PetscCall(IDRSStreamJoin(idrs->slot[0].work));
  idrs->counts.pcseconds += IDRSGpuSeconds();
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSPCApplyMult_Private - Computes u = c B^{-1}v, or u += c B^{-1}v, and g = A u in one operation */
PetscErrorCode KSPIDRSPCApplyMult_Private(KSP ksp, PetscScalar c, Vec v, PetscBool adds, Vec u, Vec g)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  idrs->counts.preconditions++;
  idrs->counts.pcseconds -= IDRSGpuSeconds();
  PetscCall(IDRSStreamJoin(idrs->slot[0].work));
  PetscUseMethod(ksp->pc, IDRS_FUSED_APPLY, (PC, PetscScalar, Vec, PetscBool, Vec, Vec), (ksp->pc, c, v, adds, u, g));
  PetscCall(IDRSStreamJoin(idrs->slot[0].work));
  idrs->counts.pcseconds += IDRSGpuSeconds();
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Copies vectors to the columns of a dense matrix, or back. Columns are restored after an error, too, or the matrix could not be
   freed
*/
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
   Computes Y = B^{-1}X by PCMatApply(). *failed is set if that failed for a column on some process: from 3.26 on an inner solver
   that fails for one column makes all of Y infinite. An earlier failure is stored again afterwards
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
   Computes y_j = B^{-1}x_j with dense matrices for the x_j and y_j. Submatrices are restored after an error, too, or KSPReset()
   could not free the matrices
*/
static PetscErrorCode KSPIDRSMatApplyVecs_Private(KSP ksp, PetscInt count, Vec x[], Vec y[], PetscBool *failed)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  PetscErrorCode ierr, restored = PETSC_SUCCESS;
  Mat            X, Y;

  PetscFunctionBegin;
  PetscCall(MatDenseGetSubMatrix(idrs->pcin, PETSC_DECIDE, PETSC_DECIDE, 0, count, &X));
  ierr = MatDenseGetSubMatrix(idrs->pcout, PETSC_DECIDE, PETSC_DECIDE, 0, count, &Y);
  if (!ierr) {
    ierr = KSPIDRSCopyColumns_Private(X, count, x, PETSC_FALSE);
    if (!ierr) ierr = KSPIDRSMatApply_Private(ksp, X, Y, failed);
    if (!ierr && !*failed) ierr = KSPIDRSCopyColumns_Private(Y, count, y, PETSC_TRUE);
    restored = MatDenseRestoreSubMatrix(idrs->pcout, &Y);
  }
  PetscCall(MatDenseRestoreSubMatrix(idrs->pcin, &X));
  PetscCall(ierr);
  PetscCall(restored);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   KSPIDRSPCApplyColumns_Private - Computes y_j = B^{-1}x_j for all columns, by PCMatApply() if that was chosen for this solve.
   If it fails, PCApply() is called for each, so that only the columns end for which it fails
*/
PetscErrorCode KSPIDRSPCApplyColumns_Private(KSP ksp, PetscInt count, Vec x[], Vec y[])
{
  KSP_IDRS      *idrs   = (KSP_IDRS *)ksp->data;
  PetscBool      failed = PETSC_TRUE;
  PCFailedReason worst, reason;

  PetscFunctionBegin;
  PetscCall(PCGetFailedReason(ksp->pc, &worst));
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
  for (PetscInt i = 0; failed && i < count; i++) {
    PetscCall(KSPIDRSPCApply_Private(ksp, x[i], y[i]));
    PetscCall(PCGetFailedReason(ksp->pc, &reason));
    worst = PetscMax(worst, reason);
  }
  PetscCall(PCSetFailedReason(ksp->pc, worst)); /* an application may clear the failure of an earlier one of this solve */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a dense matrix with a column for each slot, and stores it only once it is complete */
static PetscErrorCode KSPIDRSCreateDense_Private(KSP ksp, MatType type, Mat *dense)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  PetscErrorCode ierr;
  PetscInt       n, N;
  Mat            made;

  PetscFunctionBegin;
  if (*dense) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecGetLocalSize(idrs->slot[0].r, &n));
  PetscCall(VecGetSize(idrs->slot[0].r, &N));
  PetscCall(MatCreate(PetscObjectComm((PetscObject)ksp), &made));
  ierr = MatSetSizes(made, n, PETSC_DECIDE, N, idrs->slots);
  if (!ierr) ierr = MatSetType(made, type);
  if (!ierr) ierr = MatSetUp(made);
  if (!ierr) ierr = MatAssemblyBegin(made, MAT_FINAL_ASSEMBLY);
  if (!ierr) ierr = MatAssemblyEnd(made, MAT_FINAL_ASSEMBLY);
  if (ierr) PetscCall(MatDestroy(&made));
  PetscCall(ierr);
  *dense = made;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Chooses PCMatApply() if it reads the data of the preconditioner once for several vectors, which pays for copies to and from
   dense matrices. PCASM and PCGASM work in host memory. If the set-up has failed on a process, PCApply() makes infinite vectors,
   but PCMatApply() may be an error, as with PCBJACOBI of PETSc 3.18
*/
static PetscErrorCode KSPIDRSSetMatApply_Private(KSP ksp)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  PetscBool      overlapping, inner, direct, host, device, here;
  PCFailedReason failed;
  PetscMPIInt    any;
  MatNullSpace   space;
  IDRSMemory     matrix;
  Mat            A;

  PetscFunctionBegin;
  idrs->pcmatapply = KSPIDRS_PC_EACH;
  if (idrs->active == 1 || !KSPIDRSIsPreconditioned(idrs) || !ksp->pc->ops->matapply || ksp->transpose_solve)
    PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscObjectTypeCompareAny((PetscObject)ksp->pc, &overlapping, PCASM, PCGASM, ""));
  PetscCall(PetscObjectTypeCompare((PetscObject)ksp->pc, PCKSP, &inner)); /* before 3.26 PCKSP does not report a failure */
  PetscCall(
    PetscObjectTypeCompareAny((PetscObject)ksp->pc, &direct, PCILU, PCICC, PCLU, PCCHOLESKY, PCQR, PCSVD, PCMAT, PCSPAI, ""));
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(MatGetNullSpace(A, &space));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)idrs->slot[0].r, &host, VECSEQ, VECMPI, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)idrs->slot[0].r, &device, VECSEQCUDA, VECMPICUDA, ""));
  if (overlapping || inner || space) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PCGetFailedReason(ksp->pc, &failed));
  PetscCall(IDRSMatWhere(ksp->pc->pmat, &matrix));
  /* vectors of some processes may be bound to the CPU, and factors of a matrix on the host do not accept blocks on a device */
  here = (PetscBool)(host || (device && idrs->placed && idrs->place != IDRS_MEMORY_HOST && matrix != IDRS_MEMORY_HOST));
  any  = failed || !here ? 1 : 0;
  IDRSCallAllreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_MAX, PetscObjectComm((PetscObject)ksp));
  if (any) PetscFunctionReturn(PETSC_SUCCESS);
  idrs->pcmatapply = direct ? KSPIDRS_PC_DENSE : KSPIDRS_PC_DENSE_CHECKED; /* other types may have inner solvers */
  PetscCall(KSPIDRSCreateDense_Private(ksp, host ? MATDENSE : MATDENSECUDA, &idrs->pcin));
  PetscCall(KSPIDRSCreateDense_Private(ksp, host ? MATDENSE : MATDENSECUDA, &idrs->pcout));
  PetscFunctionReturn(PETSC_SUCCESS);
}

#define KSPIDRS_NULLSPACE_REMOVED "a null space is removed after each application of the preconditioner"

/*
   KSPIDRSSetPreconditioner_Private - Decides how the preconditioner of this solve is applied. The passes apply PCJACOBI on the
   right, unless a null space is removed after each application. If nothing else is between a preconditioner and the matvec after
   it, some types apply both together, and the persistent kernel applies the polynomial of PCPOLY
*/
PetscErrorCode KSPIDRSSetPreconditioner_Private(KSP ksp)
{
  KSP_IDRS         *idrs = (KSP_IDRS *)ksp->data;
  PetscBool         none, jacobi, removed, nullspace, fused = PETSC_FALSE;
  IDRSFusedRunsFn  *runs;
  IDRSPolynomialFn *get;
  MatNullSpace      space, transposed;
  Mat               A;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)ksp->pc, PCNONE, &none));
  PetscCall(PetscObjectTypeCompare((PetscObject)ksp->pc, PCJACOBI, &jacobi));
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(MatGetNullSpace(A, &space));
  PetscCall(MatGetTransposeNullSpace(A, &transposed));
  nullspace        = (PetscBool)(space || transposed);
  removed          = (PetscBool)(jacobi && ksp->pc_side == PC_RIGHT && nullspace);
  jacobi           = (PetscBool)(jacobi && ksp->pc_side == PC_RIGHT && !removed);
  idrs->pcmode     = ksp->pc_side == PC_RIGHT && !none && !jacobi ? KSPIDRS_PC_SEPARATE : KSPIDRS_PC_PASSES;
  idrs->separatepc = NULL;
  if (removed) idrs->separatepc = KSPIDRS_NULLSPACE_REMOVED;
  else if (KSPIDRSIsPreconditioned(idrs) || ksp->pc_side == PC_LEFT)
    idrs->separatepc = "the preconditioner is not PCNONE, PCJACOBI or PCPOLY from the right";
  idrs->diagonal = NULL;
  if (jacobi) {
    if (!idrs->inverse) PetscCall(VecDuplicate(idrs->slot[0].r, &idrs->inverse));
    PetscCall(VecSet(idrs->slot[0].v, 1.0));
    PetscCall(KSPIDRSPCApply_Private(ksp, idrs->slot[0].v, idrs->inverse));
    idrs->diagonal = idrs->inverse;
  }
  PetscCall(KSPIDRSSetMatApply_Private(ksp));
  PetscCall(PetscObjectQueryFunction((PetscObject)ksp->pc, IDRS_FUSED_RUNS, &runs));
  if (runs && KSPIDRSIsPreconditioned(idrs) && idrs->active == 1 && idrs->reader != KSPIDRS_READ_BY_PASS && !ksp->transpose_solve &&
      !nullspace)
    PetscCall((*runs)(ksp->pc, idrs->slot[0].r, &fused));
  if (fused) idrs->pcmode = KSPIDRS_PC_FUSED;
  idrs->polynomial = NULL;
  PetscCall(PetscObjectQueryFunction((PetscObject)ksp->pc, IDRS_POLYNOMIAL, &get));
  if (!get || idrs->pcmode != KSPIDRS_PC_SEPARATE) PetscFunctionReturn(PETSC_SUCCESS);
  if (nullspace) idrs->separatepc = KSPIDRS_NULLSPACE_REMOVED;
  else if (ksp->transpose_solve) idrs->separatepc = "the system is transposed";
  else {
    PetscCall((*get)(ksp->pc, idrs->slot[0].r, &idrs->polynomial));
    idrs->separatepc = idrs->polynomial ? NULL : "the products of PCPOLY are not in one kernel, see -ksp_view";
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
