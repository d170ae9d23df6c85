/*
   The solver KSPOFFLOAD: an inner KSP solves with copies of the matrices and vectors on a GPU. The program, whose matrices are in
   the memory of the host, sees a KSP that has solved itself
*/
#include "offload.h"
#include "../idrs/idrsimpl.h"

typedef enum {
  OFFLOAD_SETUP,   /* the copies have been updated, for the next solve */
  OFFLOAD_SOLVING, /* inside KSPSolve() of the inner solver */
  OFFLOAD_SOLVED
} OffloadStage;

typedef struct {
  char         *type;      /* of the copies of the matrices, or NULL if this library has no CUDA */
  OffloadMat    A, P;      /* P has no copy if Amat and Pmat are the same matrix */
  OffloadCopied copied[2]; /* by the last solve, for A and P */
  PetscInt      vectors;   /* copied by the last solve */
  Vec           b, x;      /* on the GPU */
  Vec           residual;  /* on the GPU, or NULL before the first KSPBuildResidual() */
  Vec           solution;  /* on the host, or NULL before the first KSPBuildSolution() without a vector */
  OffloadPC     pc;
  PetscReal     divtol[2]; /* default tolerances of PETSc, which the next type has again, and of KSPIDRS */
  OffloadStage  stage;
} KSP_Offload;

static PetscLogEvent KSP_OffloadCopy;

/* KSPOffloadRegisterEvents - Registers the event of the copies between the program and the GPU */
PetscErrorCode KSPOffloadRegisterEvents(void)
{
  PetscFunctionBegin;
  PetscCall(PetscLogEventRegister("KSPOffloadCopy", KSP_CLASSID, &KSP_OffloadCopy));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Copies a right-hand side (rows) or a solution (columns) to the GPU, or back. A VECNEST is copied block by block: its blocks are
   the entries `is` of the other vector
*/
static PetscErrorCode KSPOffloadCopyVec(KSP ksp, PetscBool rows, Vec from, Vec to)
{
  Mat       A;
  Vec       part, *nested;
  PetscBool fromnest, tonest, matnest;
  PetscInt  blocks;
  IS       *is;

  PetscFunctionBegin;
  PetscCall(PetscLogEventBegin(KSP_OffloadCopy, 0, 0, 0, 0));
  PetscCall(KSPGetOperators(ksp, &A, NULL));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATNEST, &matnest));
  PetscCall(PetscObjectTypeCompare((PetscObject)from, VECNEST, &fromnest));
  PetscCall(PetscObjectTypeCompare((PetscObject)to, VECNEST, &tonest));
  if (matnest && fromnest != tonest) {
    PetscCall(VecNestGetSubVecs(fromnest ? from : to, &blocks, &nested));
    PetscCall(PetscMalloc1(blocks, &is));
    PetscCall(MatNestGetISs(A, rows ? is : NULL, rows ? NULL : is));
    for (PetscInt i = 0; i < blocks; i++) {
      PetscCall(VecGetSubVector(fromnest ? to : from, is[i], &part));
      PetscCall(IDRSVecCopy(fromnest ? nested[i] : part, fromnest ? part : nested[i]));
      PetscCall(VecRestoreSubVector(fromnest ? to : from, is[i], &part));
    }
    PetscCall(PetscFree(is));
    PetscCall(PetscObjectStateIncrease((PetscObject)to));
  } else PetscCall(IDRSVecCopy(from, to));
  ((KSP_Offload *)ksp->data)->vectors++;
  PetscCall(PetscLogEventEnd(KSP_OffloadCopy, 0, 0, 0, 0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes the copies of the matrices equal to the matrices of the program */
static PetscErrorCode KSPOffloadUpdateMats(KSP ksp)
{
  KSP_Offload  *offload   = (KSP_Offload *)ksp->data;
  const char   *prefix    = IDRSPrefix(ksp);
  OffloadCopied copied[2] = {OFFLOAD_NOTHING, OFFLOAD_NOTHING};
  Mat           A, P, present = NULL;

  PetscFunctionBegin;
  PetscCall(KSPGetOperators(ksp, &A, &P));
  PetscCall(PetscLogEventBegin(KSP_OffloadCopy, 0, 0, 0, 0));
  PetscCall(KSPOffloadMatUpdate_Private(A, prefix, offload->type, &offload->A, &copied[0]));
  if (P == A) PetscCall(KSPOffloadMatReset_Private(&offload->P));
  else PetscCall(KSPOffloadMatUpdate_Private(P, prefix, offload->type, &offload->P, &copied[1]));
  PetscCall(PetscLogEventEnd(KSP_OffloadCopy, 0, 0, 0, 0));
  P = offload->P.mat ? offload->P.mat : offload->A.mat;
  if (offload->b) PetscCall(KSPGetOperators(offload->pc.inner, NULL, &present));
  if (copied[0] || copied[1] || P != present) PetscCall(KSPSetOperators(offload->pc.inner, offload->A.mat, P));
  if (copied[0] == OFFLOAD_PATTERN || !offload->b) {
    PetscCall(VecDestroy(&offload->b));
    PetscCall(VecDestroy(&offload->x));
    PetscCall(VecDestroy(&offload->residual));
    PetscCall(MatCreateVecs(offload->A.mat, &offload->x, &offload->b));
  }
  /* a set-up copies for the next solve */
  for (int i = 0; i < 2; i++)
    offload->copied[i] = offload->stage == OFFLOAD_SETUP ? PetscMax(copied[i], offload->copied[i]) : copied[i];
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Calls the convergence test of the program with the KSP of the program */
static PetscErrorCode KSPConverged_Offload(KSP inner, PetscInt it, PetscReal rnorm, KSPConvergedReason *reason, void *ctx)
{
  KSP ksp = (KSP)ctx;

  PetscFunctionBegin;
  ksp->its   = it;
  ksp->rnorm = rnorm;
  PetscCall((*ksp->converged)(ksp, it, rnorm, reason, ksp->cnvP));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Calls the monitors of the program */
static PetscErrorCode KSPMonitor_Offload(KSP inner, PetscInt it, PetscReal rnorm, void *ctx)
{
  KSP ksp = (KSP)ctx;

  PetscFunctionBegin;
  ksp->its   = it;
  ksp->rnorm = rnorm;
  if (ksp->err_hist) PetscCall(KSPLogErrorHistory(ksp));
  PetscCall(KSPMonitor(ksp, it, rnorm));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The inner solver has PETSc's own convergence tests if the program has them: with these KSPIDRS need not wait for the GPU in every
   iteration. Any other test is called for the KSP of the program
*/
static PetscErrorCode KSPOffloadSetInnerTest(KSP ksp)
{
  KSP                     inner = ((KSP_Offload *)ksp->data)->pc.inner;
  KSPConvergedDefaultCtx *ctx, *given = (KSPConvergedDefaultCtx *)ksp->cnvP;

  PetscFunctionBegin;
  if (ksp->converged == KSPConvergedDefault && given) {
    if (inner->converged != KSPConvergedDefault) {
      PetscCall(KSPConvergedDefaultCreate((void **)&ctx));
      PetscCall(KSPSetConvergenceTest(inner, KSPConvergedDefault, ctx, KSPConvergedDefaultDestroy));
    }
    ctx                 = (KSPConvergedDefaultCtx *)inner->cnvP;
    ctx->initialrtol    = given->initialrtol;
    ctx->mininitialrtol = given->mininitialrtol;
    ctx->convmaxits     = given->convmaxits;
  } else if (ksp->converged == KSPConvergedSkip) PetscCall(KSPSetConvergenceTest(inner, KSPConvergedSkip, NULL, NULL));
  else PetscCall(KSPSetConvergenceTest(inner, KSPConverged_Offload, ksp, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Passes the tolerances, norm, limits, initial guess, test and monitors of the program's KSP to the inner solver */
static PetscErrorCode KSPOffloadSetInnerSettings(KSP ksp)
{
  KSP       inner = ((KSP_Offload *)ksp->data)->pc.inner;
  PetscBool reuse, monitored = PETSC_FALSE;

  PetscFunctionBegin;
  PetscCall(KSPSetTolerances(inner, ksp->rtol, ksp->abstol, ksp->divtol, ksp->max_it));
  IDRSCopyMinimumIterations(ksp, inner);
  PetscCall(KSPSetNormType(inner, ksp->normtype_set));
  PetscCall(KSPSetPCSide(inner, ksp->pc_side_set));
  PetscCall(KSPSetLagNorm(inner, ksp->lagnorm));
  PetscCall(KSPSetCheckNormIteration(inner, ksp->chknorm));
  PetscCall(KSPGetReusePreconditioner(ksp, &reuse));
  PetscCall(KSPSetReusePreconditioner(inner, reuse));
  PetscCall(KSPSetInitialGuessNonzero(inner, ksp->guess_zero ? PETSC_FALSE : PETSC_TRUE));
  PetscCall(KSPSetInitialGuessKnoll(inner, ksp->guess_knoll));
  PetscCall(KSPOffloadSetInnerTest(ksp));
  for (PetscInt i = 0; i < inner->numbermonitors; i++) {
    if (inner->monitor[i] == KSPMonitor_Offload) monitored = PETSC_TRUE;
  }
  if (!monitored && (ksp->numbermonitors || ksp->err_hist)) PetscCall(KSPMonitorSet(inner, KSPMonitor_Offload, ksp, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Options of the inner solver that would have no effect, because the inner solver has the value of the outer one */
static const char *const KSPOffloadOuterOptions[] = {"rtol",
                                                     "atol",
                                                     "divtol",
                                                     "max_it",
                                                     "min_it",
                                                     "convergence_test",
                                                     "lag_norm",
                                                     "converged_maxits",
                                                     "check_norm_iteration",
                                                     "converged_use_initial_residual_norm",
                                                     "converged_use_min_initial_residual_norm",
                                                     "norm_type",
                                                     "pc_side",
                                                     "initial_guess_nonzero",
                                                     "knoll",
                                                     "reuse_preconditioner"};

static PetscErrorCode KSPOffloadCheckOptions(KSP ksp)
{
  PetscObject inner = (PetscObject)((KSP_Offload *)ksp->data)->pc.inner;
  char        option[64];
  PetscBool   set;

  PetscFunctionBegin;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(KSPOffloadOuterOptions); i++) {
    PetscCall(PetscSNPrintf(option, sizeof(option), "-ksp_%s", KSPOffloadOuterOptions[i]));
    PetscCall(PetscOptionsHasName(inner->options, inner->prefix, option, &set));
    PetscCheck(
      !set, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_WRONG,
      "-%sksp_%s has no effect, because the inner solver of -ksp_type offload uses the value of the outer one; use -%sksp_%s",
      inner->prefix, KSPOffloadOuterOptions[i], IDRSPrefix(ksp), KSPOffloadOuterOptions[i]);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The inner solver is set up by the solve: MODFLOW 6 calls KSPSetUp() before the matrix has values */
static PetscErrorCode KSPSetUp_Offload(KSP ksp)
{
  KSP_Offload *offload = (KSP_Offload *)ksp->data;

  PetscFunctionBegin;
  PetscCall(KSPOffloadCheckOptions(ksp));
  PetscCall(KSPOffloadReplacePCOps_Private(ksp, &offload->pc));
  PetscCall(KSPOffloadUpdateMats(ksp));
  offload->stage = OFFLOAD_SETUP;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Prepares a solve: values may have changed since the set-up, without a call that KSP sees */
static PetscErrorCode KSPOffloadBegin(KSP ksp)
{
  KSP_Offload *offload = (KSP_Offload *)ksp->data;

  PetscFunctionBegin;
  PetscCheck(offload->stage != OFFLOAD_SOLVING, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_WRONGSTATE,
             "A convergence test or a monitor of a KSP of type offload has called KSPSolve() of this KSP");
  PetscCall(KSPOffloadReplacePCOps_Private(ksp, &offload->pc));
  PetscCall(PCSetFailedReason(ksp->pc, PC_NOERROR));
  PetscCall(KSPOffloadUpdateMats(ksp));
  PetscCall(KSPOffloadSetInnerSettings(ksp));
  PetscCall(KSPSetUp(offload->pc.inner));
  ksp->normtype = offload->pc.inner->normtype; /* which convergence tests ask for */
  ksp->pc_side  = offload->pc.inner->pc_side;
  ksp->reason   = KSP_CONVERGED_ITERATING;
  /* the inner solver continues the history, whose array may be another one, or none, in the next solve */
  if (ksp->res_hist_reset) ksp->res_hist_len = 0;
  if (ksp->res_hist)
    PetscCall(KSPSetResidualHistory(offload->pc.inner, ksp->res_hist + ksp->res_hist_len,
                                    (PetscInt)(ksp->res_hist_max - ksp->res_hist_len), PETSC_TRUE));
  else if (!offload->pc.inner->res_hist_alloc) offload->pc.inner->res_hist = NULL;
  offload->vectors = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the results of the KSP of the program */
static PetscErrorCode KSPOffloadEnd(KSP ksp)
{
  KSP            inner = ((KSP_Offload *)ksp->data)->pc.inner;
  PCFailedReason failed;

  PetscFunctionBegin;
  if (ksp->res_hist) ksp->res_hist_len += inner->res_hist_len;
  ksp->its    = inner->its;
  ksp->rnorm  = inner->rnorm;
  ksp->rnorm0 = inner->rnorm0;
  ksp->ttol   = inner->ttol;
  ksp->reason = inner->reason;
  PetscCall(PCGetFailedReason(inner->pc, &failed));
  if (ksp->reason == KSP_DIVERGED_PC_FAILED) PetscCall(PCSetFailedReason(ksp->pc, failed));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPSolve_Offload(KSP ksp)
{
  KSP_Offload    *offload   = (KSP_Offload *)ksp->data;
  const PetscBool transpose = ksp->transpose_solve, rows = transpose ? PETSC_FALSE : PETSC_TRUE;
  Vec             b, x;
  PetscErrorCode  ierr;

  PetscFunctionBegin;
  PetscCall(KSPOffloadBegin(ksp));
  b = transpose ? offload->x : offload->b;
  x = transpose ? offload->b : offload->x;
  PetscCall(KSPOffloadCopyVec(ksp, rows, ksp->vec_rhs, b));
  if (!ksp->guess_zero && !ksp->guess_knoll) PetscCall(KSPOffloadCopyVec(ksp, transpose, ksp->vec_sol, x));
  offload->stage = OFFLOAD_SOLVING;
  ierr           = transpose ? KSPSolveTranspose(offload->pc.inner, b, x) : KSPSolve(offload->pc.inner, b, x);
  offload->stage = OFFLOAD_SOLVED;
  PetscCall(ierr);
  PetscCall(KSPOffloadCopyVec(ksp, transpose, x, ksp->vec_sol));
  PetscCall(KSPOffloadEnd(ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A dense matrix for the columns of X, of the type that the vectors of the copies belong to */
static PetscErrorCode KSPOffloadCreateColumns(KSP ksp, Mat X, Mat *columns)
{
  IDRSMemory memory;

  PetscFunctionBegin;
  PetscCall(IDRSVecWhere(((KSP_Offload *)ksp->data)->b, &memory));
  PetscCall(MatConvert(X, memory == IDRS_MEMORY_CUDA ? MATDENSECUDA : MATDENSE, MAT_INITIAL_MATRIX, columns));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies the columns of a dense matrix on the GPU to a matrix of the program */
static PetscErrorCode KSPOffloadCopyColumns(Mat from, Mat to)
{
  PetscInt           m, n, source, target;
  const PetscScalar *columns;
  PetscScalar       *copies;

  PetscFunctionBegin;
  PetscCall(MatGetLocalSize(to, &m, NULL));
  PetscCall(MatGetSize(to, NULL, &n));
  PetscCall(MatDenseGetLDA(from, &source));
  PetscCall(MatDenseGetLDA(to, &target));
  PetscCall(MatDenseGetArrayRead(from, &columns));
  PetscCall(MatDenseGetArrayWrite(to, &copies));
  for (PetscInt j = 0; j < n; j++)
    PetscCall(PetscArraycpy(copies + (size_t)j * (size_t)target, columns + (size_t)j * (size_t)source, m));
  PetscCall(MatDenseRestoreArrayWrite(to, &copies));
  PetscCall(MatDenseRestoreArrayRead(from, &columns));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves for one right-hand side after another. The results are the worst reason, and the largest number of iterations and norm */
static PetscErrorCode KSPOffloadSolveEach(KSP ksp, PetscBool transpose, Mat B, Mat X)
{
  KSPConvergedReason reason = KSP_CONVERGED_ITERATING;
  PetscInt           n, its = 0;
  PetscReal          rnorm = 0.0;
  PetscErrorCode     ierr;
  Vec                b, x;

  PetscFunctionBegin;
  PetscCall(MatGetSize(B, NULL, &n));
  for (PetscInt j = 0; j < n; j++) {
    PetscCall(MatDenseGetColumnVecRead(B, j, &b));
    PetscCall(MatDenseGetColumnVec(X, j, &x));
    ierr = transpose ? KSPSolveTranspose(ksp, b, x) : KSPSolve(ksp, b, x);
    PetscCall(MatDenseRestoreColumnVec(X, j, &x)); /* also after an error */
    PetscCall(MatDenseRestoreColumnVecRead(B, j, &b));
    PetscCall(ierr);
    reason = j ? PetscMin(reason, ksp->reason) : ksp->reason;
    its    = PetscMax(its, ksp->its);
    rnorm  = ksp->rnorm > rnorm || PetscIsInfOrNanReal(ksp->rnorm) ? ksp->rnorm : rnorm;
  }
  ksp->reason = reason;
  ksp->its    = its;
  ksp->rnorm  = rnorm;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPMatSolve_Offload(KSP ksp, Mat B, Mat X)
{
  KSP_Offload    *offload   = (KSP_Offload *)ksp->data;
  KSP             inner     = offload->pc.inner;
  const PetscBool requested = IDRSMatSolveTransposes(ksp);
  PetscBool       transpose = (PetscBool)(requested && ksp->transpose_solve); /* an explicit transpose is the operator already */
  PetscInt        n;
  Mat             rhs, solutions;
  PetscErrorCode  ierr;

  PetscFunctionBegin;
  /* tests, monitors and functions of the program may ask for the vectors of a solve */
  if ((ksp->converged != KSPConvergedDefault && ksp->converged != KSPConvergedSkip) || !KSPIDRSMonitorsNorms(ksp) ||
      ksp->err_hist || ksp->presolve || ksp->postsolve || ksp->guess) {
    PetscCall(KSPOffloadSolveEach(ksp, requested, B, X));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(KSPOffloadBegin(ksp));
  PetscCall(PetscLogEventBegin(KSP_OffloadCopy, 0, 0, 0, 0));
  PetscCall(KSPOffloadCreateColumns(ksp, B, &rhs));
  PetscCall(KSPOffloadCreateColumns(ksp, X, &solutions));
  PetscCall(PetscLogEventEnd(KSP_OffloadCopy, 0, 0, 0, 0));
  offload->stage = OFFLOAD_SOLVING;
  ierr           = transpose ? IDRSMatSolveTranspose(inner, rhs, solutions) : KSPMatSolve(inner, rhs, solutions);
  offload->stage = OFFLOAD_SOLVED;
  if (!ierr) {
    PetscCall(PetscLogEventBegin(KSP_OffloadCopy, 0, 0, 0, 0));
    PetscCall(KSPOffloadCopyColumns(solutions, X));
    PetscCall(PetscLogEventEnd(KSP_OffloadCopy, 0, 0, 0, 0));
  }
  PetscCall(MatDestroy(&rhs));
  PetscCall(MatDestroy(&solutions));
  PetscCall(ierr);
  PetscCall(MatGetSize(B, NULL, &n));
  offload->vectors = 3 * n;
  PetscCall(KSPOffloadEnd(ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPBuildSolution_Offload(KSP ksp, Vec v, Vec *V)
{
  KSP_Offload *offload = (KSP_Offload *)ksp->data;
  Vec          x;

  PetscFunctionBegin;
  if (!v) {
    if (!offload->solution) PetscCall(VecDuplicate(ksp->vec_sol, &offload->solution));
    v = offload->solution;
  }
  PetscCall(KSPBuildSolution(offload->pc.inner, NULL, &x));
  PetscCall(KSPOffloadCopyVec(ksp, ksp->transpose_solve, x, v));
  *V = v;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* During a solve the GPU computes the residual. Before and after it the program may have changed the matrix or the vectors */
static PetscErrorCode KSPBuildResidual_Offload(KSP ksp, Vec t, Vec v, Vec *V)
{
  KSP_Offload *offload = (KSP_Offload *)ksp->data;
  Vec          r;

  PetscFunctionBegin;
  if (offload->stage != OFFLOAD_SOLVING) {
    PetscCall(KSPBuildResidualDefault(ksp, t, v, V));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (!offload->residual) PetscCall(VecDuplicate(offload->b, &offload->residual));
  PetscCall(KSPBuildResidual(offload->pc.inner, NULL, offload->residual, &r));
  PetscCall(KSPOffloadCopyVec(ksp, ksp->transpose_solve ? PETSC_FALSE : PETSC_TRUE, r, v));
  *V = v;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPOffloadSetInnerPrefix(KSP ksp)
{
  KSP_Offload *offload = (KSP_Offload *)ksp->data;
  const char  *prefix;

  PetscFunctionBegin;
  PetscCall(KSPGetOptionsPrefix(ksp, &prefix));
  PetscCall(KSPSetOptionsPrefix(offload->pc.inner, prefix));
  PetscCall(KSPAppendOptionsPrefix(offload->pc.inner, "offload_"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPSetFromOptions_Offload(KSP ksp, IDRSOptionItems PetscOptionsObject)
{
  KSP_Offload *offload = (KSP_Offload *)ksp->data;
  char         type[256];
  PetscBool    set;

  PetscFunctionBegin;
  PetscOptionsHeadBegin(PetscOptionsObject, "KSP offload options");
  PetscCall(PetscOptionsFList("-offload_mat_type", "Type of the copies of the matrices", "KSPOffloadSetMatType", MatList,
                              offload->type, type, sizeof(type), &set));
  if (set) PetscCall(KSPOffloadSetMatType(ksp, type));
  PetscOptionsHeadEnd();
  PetscCall(KSPOffloadSetInnerPrefix(ksp));
  PetscCall(KSPSetFromOptions(offload->pc.inner));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPView_Offload(KSP ksp, PetscViewer viewer)
{
  KSP_Offload             *offload  = (KSP_Offload *)ksp->data;
  static const char *const copied[] = {"nothing", "values", "pattern and values"};
  PetscBool                ascii;
  PetscLogDouble           bytes = 0.0;
  PetscInt                 n     = 0;
  MatInfo                  info;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)viewer, PETSCVIEWERASCII, &ascii));
  if (!ascii) PetscFunctionReturn(PETSC_SUCCESS);
  if (offload->b) {
    PetscCall(VecGetSize(offload->b, &n));
    for (Mat *mat = (Mat[]){offload->A.mat, offload->P.mat, NULL}; *mat; mat++) {
      PetscCall(MatGetInfo(*mat, MAT_GLOBAL_SUM, &info));
      bytes += info.nz_used * sizeof(PetscScalar);
    }
    PetscCall(PetscViewerASCIIPrintf(viewer, "  copies of type %s; values of %g MB%s\n", ((PetscObject)offload->A.mat)->type_name,
                                     bytes / 1e6, offload->P.mat ? " (Amat and Pmat)" : ""));
    PetscCall(PetscViewerASCIIPrintf(viewer,
                                     "  the last solve has copied %" PetscInt_FMT " vectors of %g MB; of Amat %s; of Pmat %s\n",
                                     offload->vectors, (PetscLogDouble)n * sizeof(PetscScalar) / 1e6, copied[offload->copied[0]],
                                     offload->P.mat ? copied[offload->copied[1]] : "nothing, it is Amat"));
  } else PetscCall(PetscViewerASCIIPrintf(viewer, "  copies of type %s\n", offload->type ? offload->type : "(not set)"));
  if (ksp->pc && ((PetscObject)ksp->pc)->type_name)
    PetscCall(PetscViewerASCIIPrintf(viewer, "  preconditioner of the program, not used: %s\n", ((PetscObject)ksp->pc)->type_name));
  PetscCall(PetscViewerASCIIPrintf(viewer, "  solver of the copies:\n"));
  PetscCall(PetscViewerASCIIPushTab(viewer));
  PetscCall(KSPView(offload->pc.inner, viewer));
  PetscCall(PetscViewerASCIIPopTab(viewer));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPReset_Offload(KSP ksp)
{
  KSP_Offload *offload = (KSP_Offload *)ksp->data;

  PetscFunctionBegin;
  offload->stage = OFFLOAD_SOLVED;
  PetscCall(KSPReset(offload->pc.inner));
  PetscCall(KSPOffloadRestorePCOps_Private(&offload->pc));
  PetscCall(KSPOffloadMatReset_Private(&offload->A));
  PetscCall(KSPOffloadMatReset_Private(&offload->P));
  PetscCall(VecDestroy(&offload->b));
  PetscCall(VecDestroy(&offload->x));
  PetscCall(VecDestroy(&offload->residual));
  PetscCall(VecDestroy(&offload->solution));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPDestroy_Offload(KSP ksp)
{
  KSP_Offload *offload = (KSP_Offload *)ksp->data;

  PetscFunctionBegin;
  PetscCall(KSPReset_Offload(ksp));
  PetscCall(IDRSSetDefaultDivtol(ksp, offload->divtol[1], offload->divtol[0]));
  PetscCall(KSPDestroy(&offload->pc.inner));
  PetscCall(PetscFree(offload->type));
  IDRSCompose(ksp, PETSC_FALSE, KSPOffloadGetKSP);
  IDRSCompose(ksp, PETSC_FALSE, KSPOffloadSetMatType);
  PetscCall(KSPDestroyDefault(ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*MC
  KSPOFFLOAD - Solves with copies of the matrices and vectors on a GPU, for programs whose matrices are in the memory of the host

  Options Database Keys:
+ -offload_mat_type type - type of the copies of the matrices (default `MATAIJCUSPARSE`)
. -offload_ksp_type type - type of the inner solver (default `KSPIDRS`)
. -offload_pc_type type  - type of its preconditioner (default `PCPOLY`)
- -offload_...           - further options of the inner solver, its preconditioner and the copies

  Level: beginner

  Notes:
  The type comes from the plugin libpetscidrs, with `-dll_append path/libpetscidrs.so` or `KSPIDRSRegister()`.

  Many programs fix the types of their matrices and vectors, so that `-mat_type` has no effect. With `-ksp_type offload` such a
  program solves on a GPU without a change. If the program takes its types from options, `-mat_type aijcusparse -vec_type cuda`
  without this type is faster, because nothing is copied.

  `KSPSetUp()` copies Amat and Pmat, once if they are the same matrix, and `KSPSolve()` copies the right-hand side to the GPU, and
  the solution back. A nonzero initial guess is copied as well. The object states of the matrices tell what has changed: without a
  change nothing is copied, with new values the values, and the pattern only if the nonzero state has changed. `-ksp_view` shows
  what the last solve has copied, and `-log_view` the time in the event KSPOffloadCopy.

  The types of matrices are aij, baij, sbaij, sell, is, dense, and nest of these, on any number of processes. A matrix that is on a
  GPU is used without a copy. Another type, for example shell, is an error. A dense matrix with new values needs a new copy. The
  copies have the block sizes, variable block sizes, symmetry and null spaces of the matrices. The inner preconditioner gets what
  the program gives to `PCSetCoordinates()` after `KSPSetUp()`. A `DM` is not passed on.

  The inner solver uses the tolerances, norm, limits, initial guess, history, monitors and convergence test of this `KSP`. A
  convergence test of the program, and its monitors, get this `KSP`. If they call `KSPBuildSolution()` or `KSPBuildResidual()`, the
  vector is copied to the host. Otherwise no vector is copied during the iterations. After a solve this `KSP` has the reason, the
  number of iterations and the norm of the inner solver. With a convergence test other than `KSPConvergedDefault()` and
  `KSPConvergedSkip()` the host waits for the GPU in every iteration, and `KSPMatSolve()` solves column by column.

  The preconditioner of the program keeps its type and settings, and is not applied while the solver has this type. It is set up
  only if it is of type `PCBJACOBI`, `PCASM` or `PCFIELDSPLIT`, once and without its blocks, or if the program changes its type
  between two solves. Its `PCApply()` applies the inner preconditioner.

  `KSPOFFLOAD` has the default divergence tolerance of `KSPIDRS`.

.seealso: [](ch_ksp), `KSPCreate()`, `KSPSetType()`, `KSPType`, `KSP`, `KSPIDRS`, `PCPOLY`, `PCMPI`, `KSPOffloadGetKSP()`,
          `KSPOffloadSetMatType()`, `KSPIDRSRegister()`
M*/
PetscErrorCode KSPCreate_Offload(KSP ksp)
{
  KSP_Offload *offload;
  PC           inner;

  PetscFunctionBegin;
  PetscCall(PetscNew(&offload));
  ksp->data           = (void *)offload;
  ksp->setupnewmatrix = PETSC_TRUE;
  IDRSGuessNotRead(ksp); /* a guess of zero is set on the GPU */
#if defined(PETSCIDRS_HAVE_CUDA)
  PetscCall(PetscStrallocpy(MATAIJCUSPARSE, &offload->type));
#endif
  PetscCall(KSPCreate(PetscObjectComm((PetscObject)ksp), &offload->pc.inner));
  IDRSSetNestLevel(offload->pc.inner, ksp->nestlevel); /* with 0 PETSc's MPI linear solver server makes its PC a PCMPI */
  PetscCall(PetscObjectIncrementTabLevel((PetscObject)offload->pc.inner, (PetscObject)ksp, 1));
  PetscCall(PetscObjectSetOptions((PetscObject)offload->pc.inner, ((PetscObject)ksp)->options));
  PetscCall(KSPOffloadSetInnerPrefix(ksp));
  offload->stage     = OFFLOAD_SOLVED;
  offload->divtol[0] = offload->pc.inner->divtol;
  PetscCall(KSPSetType(offload->pc.inner, KSPIDRS));
  offload->divtol[1] = offload->pc.inner->divtol;
  PetscCall(IDRSSetDefaultDivtol(ksp, offload->divtol[0], offload->divtol[1]));
  PetscCall(KSPGetPC(offload->pc.inner, &inner));
  PetscCall(PCSetType(inner, PCPOLY));

  for (int norm = KSP_NORM_NONE; norm < KSP_NORM_MAX; norm++) {
    for (int side = PC_LEFT; side < PC_SIDE_MAX; side++) PetscCall(KSPSetSupportedNorm(ksp, (KSPNormType)norm, (PCSide)side, 1));
  }
  PetscCall(KSPSetSupportedNorm(ksp, KSP_NORM_PRECONDITIONED, PC_LEFT, 2));
  PetscCall(KSPSetSupportedNorm(ksp, KSP_NORM_UNPRECONDITIONED, PC_RIGHT, 3));

  ksp->ops->setup          = KSPSetUp_Offload;
  ksp->ops->solve          = KSPSolve_Offload;
  ksp->ops->matsolve       = KSPMatSolve_Offload;
  ksp->ops->reset          = KSPReset_Offload;
  ksp->ops->destroy        = KSPDestroy_Offload;
  ksp->ops->view           = KSPView_Offload;
  ksp->ops->setfromoptions = KSPSetFromOptions_Offload;
  ksp->ops->buildsolution  = KSPBuildSolution_Offload;
  ksp->ops->buildresidual  = KSPBuildResidual_Offload;
  IDRSCompose(ksp, PETSC_TRUE, KSPOffloadGetKSP);
  IDRSCompose(ksp, PETSC_TRUE, KSPOffloadSetMatType);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPOffloadGetKSP - Gets the solver of the copies of `KSPOFFLOAD`

  Not Collective, but inner is parallel if ksp is parallel

  Input Parameter:
. ksp - the solver of the program

  Output Parameter:
. inner - the solver of the copies; it belongs to ksp

  Level: intermediate

  Note:
  Each solve sets the tolerances, norm, limits, convergence test and initial guess of ksp in inner.

.seealso: [](ch_ksp), `KSPOFFLOAD`, `KSPOffloadSetMatType()`
@*/
PetscErrorCode KSPOffloadGetKSP(KSP ksp, KSP *inner)
{
  KSP_Offload *offload;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  IDRSUseData(ksp, KSPOFFLOAD, offload);
  *inner = offload->pc.inner;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPOffloadSetMatType - Sets the type of the copies of the matrices of `KSPOFFLOAD`

  Logically Collective

  Input Parameters:
+ ksp  - the solver of the program
- type - the type, for example `MATAIJCUSPARSE`, or `MATAIJ` for copies in the memory of the host

  Options Database Key:
. -offload_mat_type type - the type

  Level: intermediate

  Note:
  The default is `MATAIJCUSPARSE`. If this library was built without CUDA there is no default, and the set-up reports an error.

.seealso: [](ch_ksp), `KSPOFFLOAD`, `KSPOffloadGetKSP()`, `MatType`
@*/
PetscErrorCode KSPOffloadSetMatType(KSP ksp, MatType type)
{
  KSP_Offload *offload;
  PetscBool    equal;
  PetscMPIInt  size;
  char         name[256];
  PetscErrorCode (*create)(Mat);

  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  IDRSTryData(ksp, KSPOFFLOAD, offload);
  PetscCall(PetscStrcmp(type, offload->type, &equal));
  if (equal) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)ksp), &size));
  PetscCall(PetscSNPrintf(name, sizeof(name), "%s%s", size > 1 ? "mpi" : "seq", type));
  PetscCall(PetscFunctionListFind(MatList, type, &create));
  if (!create) PetscCall(PetscFunctionListFind(MatList, name, &create));
  PetscCheck(create, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_UNKNOWN_TYPE,
             "-%soffload_mat_type %s: unknown type of matrices", IDRSPrefix(ksp), type);
  PetscCall(KSPReset_Offload(ksp));
  ksp->setupstage = KSP_SETUP_NEW;
  PetscCall(PetscFree(offload->type));
  PetscCall(PetscStrallocpy(type, &offload->type));
  PetscFunctionReturn(PETSC_SUCCESS);
}
