/*
   The preconditioner PCMATCHING: any preconditioner M of the matrix A~ = P Dr A Dc, which a maximum product matching permutes and
   scales

     B^{-1} = Dc M P Dr,   B^{-T} = Dr P^T M^T Dc
*/
#include <petsc/private/pcimpl.h>
#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsfailure.h>
#include <petscidrs/private/idrsmatching.h>
#include <petscidrs/private/idrssettings.h>

typedef struct {
  PC             inner;    /* M, or NULL before it is needed */
  IDRSMatching   matching; /* of pc->pmat, or NULL before the set-up */
  PetscObjectId  id;       /* of pc->pmat at the last set-up */
  Mat            A;        /* A~, or NULL if the set-up has failed */
  Vec            w, v;     /* M is applied to w, with the result v; NULL before the first application */
  Mat            W;        /* the dense matrix that M is applied to, or NULL before the first PCMatApply() */
  PCFailedReason failed;   /* of the set-up, the same on all processes */
  PetscBool      outdated; /* the pattern has changed while the inner preconditioner was reused: A~ has the old one */
} PC_Matching;

/* Creates the inner preconditioner at the first call: the prefix of the outer one may be set after its type */
static PetscErrorCode PCMatchingCreateInner(PC pc)
{
  PC_Matching *data = (PC_Matching *)pc->data;
  const char  *prefix;

  PetscFunctionBegin;
  if (data->inner) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PCCreate(PetscObjectComm((PetscObject)pc), &data->inner));
  PetscCall(PetscObjectIncrementTabLevel((PetscObject)data->inner, (PetscObject)pc, 1));
  PetscCall(PetscObjectSetOptions((PetscObject)data->inner, ((PetscObject)pc)->options));
  PetscCall(PCGetOptionsPrefix(pc, &prefix));
  PetscCall(PCSetOptionsPrefix(data->inner, prefix));
  PetscCall(PCAppendOptionsPrefix(data->inner, "matching_"));
  if (pc->setfromoptionscalled) PetscCall(PCSetFromOptions(data->inner));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A failure of the inner preconditioner on some process fails the set-up on all of them. PCSOR would divide by a zero diagonal
   entry. For PETSc this is not a failure but an error on the process that has the entry, for which the other processes would wait
*/
static PetscErrorCode PCMatchingReduceFailure(PC pc)
{
  PC_Matching   *data  = (PC_Matching *)pc->data;
  PetscObject    inner = (PetscObject)data->inner;
  const PetscInt rank = data->matching->rank, N = data->matching->N;
  PetscReal      shift = 0.0;
  PetscBool      sor;
  PCFailedReason reason;

  PetscFunctionBegin;
  PetscCall(PCGetFailedReason(data->inner, &reason));
  PetscCall(PetscObjectTypeCompareAny(inner, &sor, PCSOR, PCEISENSTAT, ""));
  PetscCall(PetscOptionsGetReal(inner->options, inner->prefix, "-pc_sor_diagonal_shift", &shift, NULL));
  if (sor && rank < N && shift == 0.0) {
    PetscCheck(!pc->erroriffailure, PetscObjectComm((PetscObject)pc), PETSC_ERR_MAT_LU_ZRPVT,
               "-%spc_type %s inside of PCMATCHING: the matrix is structurally singular, rank %" PetscInt_FMT " of %" PetscInt_FMT
               ", and has a zero diagonal entry",
               inner->prefix, inner->type_name, rank, N);
    reason = PC_FACTOR_STRUCT_ZEROPIVOT;
  }
  PetscCall(PCSetFailedReason(pc, reason));
  PetscCall(IDRSPCReduceFailure(pc));
  PetscCall(PCGetFailedReason(pc, &data->failed));
  if (data->failed && rank < N)
    PetscCall(PetscInfo(pc, "%s: the matrix is structurally singular, rank %" PetscInt_FMT " of %" PetscInt_FMT "\n",
                        PCFailedReasons[data->failed], rank, N));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Frees the matching, A~, and all data that depend on them */
static PetscErrorCode PCMatchingResetMat(PC_Matching *data)
{
  PetscFunctionBegin;
  PetscCall(IDRSMatchingDestroy(&data->matching));
  PetscCall(MatDestroy(&data->A));
  PetscCall(VecDestroy(&data->w));
  PetscCall(VecDestroy(&data->v));
  PetscCall(MatDestroy(&data->W));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCSetUp_Matching(PC pc)
{
  PC_Matching *data = (PC_Matching *)pc->data;
  PetscBool    kept = PETSC_FALSE, same;
  const char  *why;

  PetscFunctionBegin;
  PetscCall(IDRSMatchingSupports(pc->pmat, &why));
  PetscCheck(!why, PetscObjectComm((PetscObject)pc), PETSC_ERR_SUP,
             "-%spc_type matching of a matrix of type %s: %s; use a matrix of type aij or a derived type, with as many columns as "
             "rows on each process",
             IDRSPrefix(pc), ((PetscObject)pc->pmat)->type_name, why);
  PetscCall(PCMatchingCreateInner(pc));
  same = IDRSPatternIsSame(pc->flag, pc->pmat, &data->id);
  /* An inner preconditioner that is reused belongs to the old A~, and so to the old matching */
  if (data->A && data->inner->setupcalled && data->inner->reusepreconditioner) {
    PetscCall(PetscInfo(pc, "The matching is kept, because the inner preconditioner is reused\n"));
    if (!same) data->outdated = PETSC_TRUE;
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  /* new values: the permutation is kept if it suits them; after a failure PETSc's factors of a kept A~ would fail again */
  if (data->A && same && !data->outdated && !data->failed) PetscCall(IDRSMatchingUpdate(data->matching, pc->pmat, &kept));
  if (kept) PetscCall(IDRSMatchingGetMat(data->matching, pc->pmat, MAT_REUSE_MATRIX, &data->A));
  else {
    data->outdated = PETSC_FALSE;
    PetscCall(PCMatchingResetMat(data));
    PetscCall(IDRSMatchingCreate(pc->pmat, MATCHING_UNLIMITED, &data->matching));
    if (data->matching->badrow >= 0) {
      data->failed = PC_FACTOR_OTHER;
      PetscCall(PCSetFailedReason(pc, data->failed));
      PetscFunctionReturn(PETSC_SUCCESS);
    }
    PetscCall(IDRSMatchingGetMat(data->matching, pc->pmat, MAT_INITIAL_MATRIX, &data->A));
  }
  /* M is a preconditioner of A~ */
  PetscCall(PCSetOperators(data->inner, data->A, data->A));
  PetscCall(PCSetErrorIfFailure(data->inner, pc->erroriffailure));
  IDRSSetNestLevelOfPC(pc, data->inner);
  PetscCall(PCSetFailedReason(data->inner, PC_NOERROR));
  PetscCall(PCSetUp(data->inner));
  PetscCall(PCMatchingReduceFailure(pc));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPSolve() calls this each time, after PCSetUp(), which does nothing if the matrix is the same: the type of M may have changed */
static PetscErrorCode PCSetUpOnBlocks_Matching(PC pc)
{
  PC_Matching *data = (PC_Matching *)pc->data;

  PetscFunctionBegin;
  if (!data->A || (data->inner->setupcalled && !data->inner->ops->setuponblocks)) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PCSetUp(data->inner));
  PetscCall(PCSetUpOnBlocks(data->inner));
  PetscCall(PCMatchingReduceFailure(pc));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Applies B^{-1}, or B^{-T}. x and y may have another type than the matrix, and than w and v: it may be on the GPU, and they on the
   host
*/
static PetscErrorCode PCMatchingApply(PC pc, PetscBool transpose, Vec x, Vec y)
{
  PC_Matching   *data     = (PC_Matching *)pc->data;
  IDRSMatching   matching = data->matching;
  PetscErrorCode ierr;
  PCFailedReason reason = data->failed;

  PetscFunctionBegin;
  if (!reason) {
    if (!data->w) PetscCall(VecDuplicate(matching->left, &data->w));
    if (!data->v) PetscCall(VecDuplicate(matching->left, &data->v));
    /* w = P Dr x, or Dc x */
    if (transpose) PetscCall(IDRSMatchingScale(matching, NULL, matching->right, x, data->w));
    else PetscCall(IDRSMatchingScale(matching, matching->row, matching->permuted, x, data->w));
    PetscCall(PCSetFailedReason(data->inner, PC_NOERROR)); /* of an earlier application */
    ierr = transpose ? PCApplyTranspose(data->inner, data->w, data->v) : PCApply(data->inner, data->w, data->v);
    if (ierr) PetscCall(VecDestroy(&data->w)); /* it is still locked */
    PetscCall(ierr);
    PetscCall(PCGetFailedReason(data->inner, &reason));
    /* y = Dr P^T v, or Dc v */
    if (transpose) PetscCall(IDRSMatchingScale(matching, matching->column, matching->left, data->v, y));
    else PetscCall(IDRSMatchingScale(matching, NULL, matching->right, data->v, y));
  }
  PetscCall(PCSetFailedReason(pc, reason));
  IDRSVecFlag(y, reason);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCApply_Matching(PC pc, Vec x, Vec y)
{
  PetscFunctionBegin;
  PetscCall(PCMatchingApply(pc, PETSC_FALSE, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCApplyTranspose_Matching(PC pc, Vec x, Vec y)
{
  PC        inner  = ((PC_Matching *)pc->data)->inner;
  PetscBool exists = PETSC_TRUE;

  PetscFunctionBegin;
  if (!((PC_Matching *)pc->data)->failed) PetscCall(PCApplyTransposeExists(inner, &exists));
  PetscCheck(exists, PetscObjectComm((PetscObject)pc), PETSC_ERR_SUP,
             "-%spc_type %s has no transposed application; choose another type inside of PCMATCHING", ((PetscObject)inner)->prefix,
             ((PetscObject)inner)->type_name);
  PetscCall(PCMatchingApply(pc, PETSC_TRUE, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns PETSC_TRUE if the columns of X are of the type of the scalings */
static PetscErrorCode PCMatchingHasColumns(PC_Matching *data, Mat X, PetscBool *has)
{
  Vec x;

  PetscFunctionBegin;
  PetscCall(MatDenseGetColumnVecRead(X, 0, &x));
  PetscCall(PetscObjectTypeCompare((PetscObject)x, ((PetscObject)data->matching->left)->type_name, has));
  PetscCall(MatDenseRestoreColumnVecRead(X, 0, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Applies PCMatApply() of M to all columns. If they do not have the type of the matrix, applies M column by column */
static PetscErrorCode PCMatApply_Matching(PC pc, Mat X, Mat Y)
{
  PC_Matching   *data     = (PC_Matching *)pc->data;
  IDRSMatching   matching = data->matching;
  PetscBool      batch = PETSC_FALSE, same = PETSC_FALSE;
  PetscInt       n;
  PetscLayout    columns, present;
  PCFailedReason reason, failed = data->failed;
  Vec            x, y;

  PetscFunctionBegin;
  PetscCall(MatGetSize(X, NULL, &n));
  if (n && !failed) PetscCall(PCMatchingHasColumns(data, X, &batch));
  if (batch) PetscCall(PCMatchingHasColumns(data, Y, &batch));
  if (batch && data->W) {
    PetscCall(MatGetLayouts(X, NULL, &columns));
    PetscCall(MatGetLayouts(data->W, NULL, &present));
    PetscCall(PetscLayoutCompare(columns, present, &same));
    if (same) PetscCall(PetscObjectTypeCompare((PetscObject)X, ((PetscObject)data->W)->type_name, &same));
  }
  if (batch && !same) {
    PetscCall(MatDestroy(&data->W));
    PetscCall(MatDuplicate(X, MAT_DO_NOT_COPY_VALUES, &data->W));
  }
  for (PetscInt j = 0; j < n; j++) {
    PetscCall(MatDenseGetColumnVecRead(X, j, &x));
    PetscCall(MatDenseGetColumnVecWrite(batch ? data->W : Y, j, &y));
    if (batch) PetscCall(IDRSMatchingScale(matching, matching->row, matching->permuted, x, y));
    else {
      PetscCall(PCMatchingApply(pc, PETSC_FALSE, x, y));
      PetscCall(PCGetFailedReason(pc, &reason));
      failed = PetscMax(failed, reason);
    }
    PetscCall(MatDenseRestoreColumnVecWrite(batch ? data->W : Y, j, &y));
    PetscCall(MatDenseRestoreColumnVecRead(X, j, &x));
  }
  if (batch) {
    /* W = P Dr X; now Y = Dc M W */
    PetscCall(PCSetFailedReason(data->inner, PC_NOERROR)); /* of an earlier application */
    PetscCall(PCMatApply(data->inner, data->W, Y));
    PetscCall(PCGetFailedReason(data->inner, &failed));
    for (PetscInt j = 0; j < n; j++) {
      PetscCall(MatDenseGetColumnVec(Y, j, &y));
      PetscCall(IDRSMatchingScale(matching, NULL, matching->right, y, y));
      IDRSVecFlag(y, failed);
      PetscCall(MatDenseRestoreColumnVec(Y, j, &y));
    }
  }
  PetscCall(PCSetFailedReason(pc, failed));
  PetscCall(IDRSPCReduceFailure(pc));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCPostSolve_Matching(PC pc, KSP ksp, Vec b, Vec x)
{
  PC_Matching *data = (PC_Matching *)pc->data;

  PetscFunctionBegin;
  PetscCall(IDRSPCEndFailure(pc, ksp, data->failed));
  if (!data->failed) PetscCall(PCSetFailedReason(data->inner, PC_NOERROR));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCView_Matching(PC pc, PetscViewer viewer)
{
  PC_Matching *data = (PC_Matching *)pc->data;
  PetscBool    ascii;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)viewer, PETSCVIEWERASCII, &ascii));
  if (!ascii) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PCMatchingCreateInner(pc));
  if (data->matching) PetscCall(IDRSMatchingView(data->matching, viewer));
  PetscCall(PetscViewerASCIIPrintf(viewer, "  preconditioner of the permuted and scaled matrix:\n"));
  PetscCall(PetscViewerASCIIPushTab(viewer));
  PetscCall(PCView(data->inner, viewer));
  PetscCall(PetscViewerASCIIPopTab(viewer));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCSetFromOptions_Matching(PC pc, IDRSOptionItems PetscOptionsObject)
{
  PetscFunctionBegin;
  PetscCall(PCMatchingCreateInner(pc));
  PetscCall(PCSetFromOptions(((PC_Matching *)pc->data)->inner));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCReset_Matching(PC pc)
{
  PC_Matching *data = (PC_Matching *)pc->data;

  PetscFunctionBegin;
  PetscCall(PCMatchingResetMat(data));
  data->failed = PC_NOERROR;
  if (data->inner) PetscCall(PCReset(data->inner));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCDestroy_Matching(PC pc)
{
  PC_Matching *data = (PC_Matching *)pc->data;

  PetscFunctionBegin;
  PetscCall(PCReset_Matching(pc));
  PetscCall(PCDestroy(&data->inner));
  IDRSCompose(pc, PETSC_FALSE, PCMatchingGetPC);
  PetscCall(PetscFree(pc->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*MC
  PCMATCHING - Applies any preconditioner to the matrix that a maximum product matching permutes and scales: for systems with zero
  diagonal entries or bad scaling

  Options Database Keys:
+ -matching_pc_type type - type of the inner preconditioner (default `PCILU` on one process, `PCBJACOBI` on several)
- -matching_pc_...       - the options of the inner preconditioner

  Level: beginner

  Notes:
  The type comes from the plugin libpetscidrs, with `-dll_append path/libpetscidrs.so` or `KSPIDRSRegister()`. It serves every
  `KSP`.

  A maximum product matching permutes the rows of the matrix A and scales its rows and columns, such that

  $$
  \tilde A = P D_r A D_c
  $$

  has diagonal entries of modulus 1, and no entry has a larger modulus; see `MatGetMatching()`. With an inner preconditioner M of
  $\tilde A$, this preconditioner is

  $$
  B^{-1} = D_c M P D_r,   B^{-T} = D_r P^T M^T D_c
  $$

  Residuals, norms and convergence tests of the solver are not changed by the permutation and the scalings. If the preconditioner
  has another matrix than the system, see `KSPSetOperators()`, only the matrix of the preconditioner is used.

  The inner preconditioner has the options prefix of this one, followed by matching_. For example, `-pc_type matching
  -matching_pc_type poly -matching_pc_poly_degree 16` applies `PCPOLY`. `PCMatchingGetPC()` gets the inner preconditioner.

  The matrix is of type `MATAIJ`, or of a type derived from it, with the same layout of rows and columns. For another matrix the
  set-up is an error. $\tilde A$ is a copy of the matrix, and has its type. On several processes each process matches the rows and
  columns of its diagonal block. Entries outside of the diagonal blocks are scaled, too, and may have a modulus larger than 1.

  If the matrix has a block size and the permutation maps each block of rows to the rows of one block, on all processes, the copy
  has the same block size. The copy does not get null spaces, near null spaces and variable block sizes of the matrix.

  If the matrix has new values and the same nonzero pattern, the permutation is kept if the scalings, adapted to the new values,
  leave no entry of a diagonal block with a modulus larger than 2. Then the inner preconditioner keeps its symbolic work.
  Otherwise a new matching is computed. `-info` shows which of the two has happened. To keep the matching, the scalings and the
  inner preconditioner, call `KSPSetReusePreconditioner()` or `PCSetReusePreconditioner()`.

  `PCMatApply()` calls `PCMatApply()` of the inner preconditioner, with a dense matrix that the preconditioner keeps.
  `PCApplyTranspose()` is an error if the inner preconditioner has no transposed application.

  `-ksp_view` shows the number of moved rows, the range of the scalings and the inner preconditioner. If the matrix has an infinite
  entry or NaN, the set-up fails with `PC_FACTOR_OTHER`: `KSPSolve()` ends with `KSP_DIVERGED_PC_FAILED`, and `-info` and
  `-ksp_view` name the row. A failure of the inner preconditioner on some process fails the set-up on all processes. If an inner
  application fails, the result is infinite on this process, and `KSPSolve()` ends with `KSP_DIVERGED_PC_FAILED` on all processes.

  If a diagonal block is structurally singular, its rows and columns that cannot be matched are paired arbitrarily, and $\tilde A$
  has a zero in each of their diagonal places. The scalings are finite, and `-ksp_view` shows the structural rank. The inner
  `PCILU`, `PCLU` and `PCSOR` then fail on all processes, with the rank in `-info`, unless a shift replaces the zeros:
  `-matching_pc_factor_shift_type nonzero` or `-matching_pc_sor_diagonal_shift`. `PCJACOBI` and `PCPOLY` do not need nonzero
  diagonal entries. `PCSOR` inside of another preconditioner, for example as a smoother of `PCGAMG`, reports PETSc's error for a
  zero on the diagonal instead of a failure.

  References:
  I.S. Duff and J. Koster, On algorithms for permuting large entries to the diagonal of a sparse matrix, SIAM J. Matrix Anal.
  Appl. 22 (2001); M. Benzi, J.C. Haws and M. Tuma, Preconditioning highly indefinite and nonsymmetric matrices, SIAM J. Sci.
  Comput. 22 (2000)

.seealso: [](ch_ksp), `PCCreate()`, `PCSetType()`, `PCType`, `PC`, `PCMatchingGetPC()`, `MatGetMatching()`, `PCPOLY`, `PCBJIDRS`,
          `PCILU`, `KSPIDRS`, `KSPIDRSRegister()`
M*/
PETSC_INTERN PetscErrorCode PCCreate_Matching(PC pc)
{
  PC_Matching *data;

  PetscFunctionBegin;
  PetscCall(PetscNew(&data));
  pc->data = (void *)data;

  pc->ops->setup          = PCSetUp_Matching;
  pc->ops->setuponblocks  = PCSetUpOnBlocks_Matching;
  pc->ops->apply          = PCApply_Matching;
  pc->ops->applytranspose = PCApplyTranspose_Matching;
  pc->ops->matapply       = PCMatApply_Matching;
  pc->ops->postsolve      = PCPostSolve_Matching;
  pc->ops->reset          = PCReset_Matching;
  pc->ops->destroy        = PCDestroy_Matching;
  pc->ops->setfromoptions = PCSetFromOptions_Matching;
  pc->ops->view           = PCView_Matching;
  IDRSCompose(pc, PETSC_TRUE, PCMatchingGetPC);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  PCMatchingGetPC - Gets the inner preconditioner of `PCMATCHING`, which is applied to the permuted and scaled matrix

  Not Collective, but inner is parallel if pc is parallel

  Input Parameter:
. pc - the preconditioner context

  Output Parameter:
. inner - the inner preconditioner; it belongs to pc

  Level: intermediate

  Notes:
  Before the set-up of pc, the first call must be made on all processes: it creates the inner preconditioner, with the options
  prefix of pc at that time, followed by matching_.

  The inner preconditioner has its matrix after the set-up of pc. See `PCMATCHING` for the matrix.

.seealso: [](ch_ksp), `PCMATCHING`, `MatGetMatching()`, `PCSetType()`, `PCGetOperators()`
@*/
PetscErrorCode PCMatchingGetPC(PC pc, PC *inner)
{
  PC_Matching *data;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  IDRSUseData(pc, PCMATCHING, data);
  PetscCall(PCMatchingCreateInner(pc));
  *inner = data->inner;
  PetscFunctionReturn(PETSC_SUCCESS);
}
