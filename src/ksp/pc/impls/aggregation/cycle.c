/*
   The application of PCAGGREGATION with its own smoothers, single steps of PCPOLY. A visit of a level improves x:

     x = x + B^{-1}(b - A x),   b_c = P^T (b - A x),   x_c of one visit of the coarser level, or two,   x = x + P x_c,
     x = x + B^{-1}(b - A x)

   PCMG computes the same. Here the first step from x = 0 needs no product, B^{-1} and its residual are multiplied by the copy of
   PCPOLY, and on GPUs a kernel makes the visits of all small levels.
*/
#include "aggregation.h"
#include "../poly/polysmooth.h"
#include <petscidrs/private/idrsrows.h>

/* Gets the number of steps of a solver, or 0 if it is not a plain KSPRICHARDSON with a preconditioner that has not failed */
static PetscErrorCode SolverGetSteps(KSP ksp, PetscInt *steps)
{
  PetscBool      same, scaled[2];
  PC             pc;
  PCFailedReason failed;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)ksp, KSPRICHARDSON, &same));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCGetFailedReason(pc, &failed));
  PetscCall(PetscOptionsHasName(((PetscObject)ksp)->options, ((PetscObject)ksp)->prefix, "-ksp_richardson_scale", &scaled[0]));
  PetscCall(PetscOptionsHasName(((PetscObject)ksp)->options, ((PetscObject)ksp)->prefix, "-ksp_richardson_self_scale", &scaled[1]));
  PetscCall(KSPGetTolerances(ksp, NULL, NULL, NULL, steps));
  if (!same || ksp->numbermonitors || ksp->normtype != KSP_NORM_NONE || scaled[0] || scaled[1] || failed || pc->mat != pc->pmat)
    *steps = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets `plain` if a level has the smoother of this type, as PCAggregationSetSmoother() sets it */
static PetscErrorCode LevelIsPlain(const PC_MG_Levels *level, PetscBool *plain)
{
  PetscInt        steps;
  PCPolySmoothFn *smooth;
  PC              pc;

  PetscFunctionBegin;
  PetscCall(SolverGetSteps(level->smoothd, &steps));
  PetscCall(KSPGetPC(level->smoothd, &pc));
  PetscCall(PetscObjectQueryFunction((PetscObject)pc, PCPOLY_SMOOTH, &smooth));
  *plain = (PetscBool)(steps == 1 && smooth && level->smoothu == level->smoothd && !level->cr &&
                       level->restrct == level->interpolate && level->residual == PCMGResidualDefault);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCAggregationIsPlain_Private - Sets `plain` if the visits here compute what PCMG would */
PetscErrorCode PCAggregationIsPlain_Private(PC pc, PetscBool *plain)
{
  const PC_MG *mg = (const PC_MG *)pc->data;

  PetscFunctionBegin;
  *plain = (PetscBool)(mg->am == PC_MG_MULTIPLICATIVE && mg->cyclesperpcapply == 1 && !mg->stageApply);
  for (PetscInt l = 1; *plain && l < mg->nlevels; l++) PetscCall(LevelIsPlain(mg->levels[l], plain));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCAggregationVisit_Private - Visits level l, 0 for the coarsest one, from x = 0
*/
PetscErrorCode PCAggregationVisit_Private(PC pc, const AggregationSmall *small, PetscInt l, PetscInt visits, Vec b, Vec x)
{
  PC_MG_Levels **levels = ((PC_MG *)pc->data)->levels;
  PC             poly;

  PetscFunctionBegin;
#if defined(PETSCIDRS_HAVE_CUDA)
  if (small->cycle && l < small->levels) {
    PetscCall((*AggregationCycles_CUDA.apply)(small->cycle, small->gather, small->gather ? small->visits : visits, b, x));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
#endif
  if (l == 0) {
    PetscCall(KSPSolve(levels[0]->smoothd, b, x));
    PetscCall(KSPCheckSolve(levels[0]->smoothd, pc, x));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(KSPGetPC(levels[l]->smoothd, &poly));
  for (PetscInt visit = 0; visit < visits; visit++) {
    PetscUseMethod(poly, PCPOLY_SMOOTH, (PC, PetscBool, Vec, Vec), (poly, (PetscBool)!visit, b, x));
    PetscUseMethod(poly, PCPOLY_RESIDUAL, (PC, PetscBool, Vec, Vec, Vec), (poly, (PetscBool)!visit, b, x, levels[l]->r));
    PetscCall(MatRestrict(levels[l]->interpolate, levels[l]->r, levels[l - 1]->b));
    PetscCall(PCAggregationVisit_Private(pc, small, l - 1, l > 1 ? levels[l]->cycles : 1, levels[l - 1]->b, levels[l - 1]->x));
    PetscCall(MatInterpolateAdd(levels[l]->interpolate, levels[l - 1]->x, x, x));
    PetscUseMethod(poly, PCPOLY_SMOOTH, (PC, PetscBool, Vec, Vec), (poly, PETSC_FALSE, b, x));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

#if defined(PETSCIDRS_HAVE_CUDA)
/* The solver of the coarsest level on a GPU: the product with its inverse, which is faster than two triangular solves */
static PetscErrorCode PCSetUp_Inverse(PC pc)
{
  AggregationCoarsest *coarsest;
  PetscBool            finite;
  Mat                  block;

  PetscFunctionBegin;
  PetscCall(PCShellGetContext(pc, (void *)&coarsest));
  PetscCall(IDRSRowsGetBlocks(pc->pmat, &block, NULL, NULL));
  PetscCall((*AggregationCycles_CUDA.invertend)(block, &coarsest->inverse, &coarsest->transposed, &finite));
  PetscCall(PCSetFailedReason(pc, finite ? PC_NOERROR : PC_FACTOR_OTHER));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCApply_Inverse(PC pc, Vec x, Vec y)
{
  AggregationCoarsest *coarsest;

  PetscFunctionBegin;
  PetscCall(PCShellGetContext(pc, (void *)&coarsest));
  PetscCall(MatMultTranspose(coarsest->transposed, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCApplyTranspose_Inverse(PC pc, Vec x, Vec y)
{
  AggregationCoarsest *coarsest;

  PetscFunctionBegin;
  PetscCall(PCShellGetContext(pc, (void *)&coarsest));
  PetscCall(MatMult(coarsest->transposed, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCAggregationSetInverse_Private - Makes a PC the product with the inverse of its matrix. The caller destroys the inverse */
PetscErrorCode PCAggregationSetInverse_Private(PC pc, AggregationCoarsest *coarsest)
{
  PetscFunctionBegin;
  PetscCall(PCSetType(pc, PCSHELL));
  PetscCall(PCShellSetName(pc, "inverse of the matrix"));
  PetscCall(PCShellSetContext(pc, coarsest));
  PetscCall(PCShellSetSetUp(pc, PCSetUp_Inverse));
  PetscCall(PCShellSetApply(pc, PCApply_Inverse));
  PetscCall(PCShellSetApplyTranspose(pc, PCApplyTranspose_Inverse));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets `is` if the solver of the coarsest level is this inverse */
static PetscErrorCode SolverIsInverse(PC pc, const AggregationCoarsest *coarsest, PetscBool *is)
{
  const KSP ksp     = ((PC_MG *)pc->data)->levels[0]->smoothd;
  void     *context = NULL;
  PetscBool preonly;
  PC        coarse;

  PetscFunctionBegin;
  PetscCall(KSPGetPC(ksp, &coarse));
  PetscCall(PetscObjectTypeCompare((PetscObject)ksp, KSPPREONLY, &preonly));
  PetscCall(PetscObjectTypeCompare((PetscObject)coarse, PCSHELL, is));
  if (*is) PetscCall(PCShellGetContext(coarse, &context));
  *is = (PetscBool)(preonly && context == coarsest);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCAggregationBeginInverse_Private - Begins to invert A of the coarsest level, if this is its solver */
PetscErrorCode PCAggregationBeginInverse_Private(PC pc, Mat A, AggregationCoarsest *coarsest)
{
  PetscBool is, reuse;
  PC        coarse;

  PetscFunctionBegin;
  PetscCall(SolverIsInverse(pc, coarsest, &is));
  PetscCall(KSPGetPC(((PC_MG *)pc->data)->levels[0]->smoothd, &coarse));
  PetscCall(PCGetReusePreconditioner(coarse, &reuse)); /* then the set-up of this PC, which ends it, is omitted */
  if (coarsest->transposed && reuse) is = PETSC_FALSE;
  if (is && ((PC_MG *)pc->data)->nlevels > 1) PetscCall((*AggregationCycles_CUDA.invertbegin)(A, &coarsest->inverse));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCAggregationSetUpSmall_Private - Makes the kernel for the small levels, if there are some, and it supports them. All
   smoothers are plain
*/
PetscErrorCode PCAggregationSetUpSmall_Private(PC pc, AggregationCoarsest *coarsest, AggregationSmall *small)
{
  PC_MG_Levels  **levels = ((PC_MG *)pc->data)->levels;
  const PetscInt  count  = ((PC_MG *)pc->data)->nlevels;
  const char     *why    = NULL;
  AggregationStep step[AGGREGATION_LEVELS];
  PetscBool       inverse;

  PetscFunctionBegin;
  small->levels = 0;
  PetscCall(SolverIsInverse(pc, coarsest, &inverse));
  if (!inverse || !coarsest->transposed) why = "the coarsest level has another solver";
  for (PetscInt l = 1; l < count && !why; l++) {
    PetscInt  N;
    PetscBool shell;
    PC        poly;

    PetscCall(KSPGetOperators(levels[l]->smoothd, NULL, &step[l].A));
    PetscCall(MatGetSize(step[l].A, &N, NULL));
    if (N > AGGREGATION_SMALL) break;
    step[l].P = levels[l]->interpolate;
    PetscCall(PetscObjectTypeCompare((PetscObject)step[l].P, MATSHELL, &shell));
    if (!shell) break; /* it is the program's */
    step[l].visits = l > 1 ? levels[l]->cycles : 1;
    PetscCall(KSPGetPC(levels[l]->smoothd, &poly));
    PetscUseMethod(poly, IDRS_POLYNOMIAL, (PC, Vec, const IDRSPolynomial **), (poly, levels[l]->r, &step[l].polynomial));
    if (!step[l].polynomial && l > 1) break; /* a large level with long rows */
    small->levels = l + 1;
  }
  if (!why && small->levels)
    PetscCall((*AggregationCycles_CUDA.create)(&small->levels, step, coarsest->transposed, &small->cycle, &why));
  if (why) PetscCall(PetscInfo(pc, "Small levels are not in one kernel: %s\n", why));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PCAggregationConnectSmall_Private - Uses the kernel of `own` for level 0, if all processes can. `own`: the small levels of the PC
   of the solver `each` inside PCREDUNDANT; both may be NULL
*/
PetscErrorCode PCAggregationConnectSmall_Private(PC pc, KSP each, const AggregationSmall *own, AggregationSmall *small)
{
  const char *why   = NULL;
  PetscInt    steps = 0;

  PetscFunctionBegin;
  if (own && own->cycle) {
    PetscCall(SolverGetSteps(each, &steps));
    if (each->rtol > 0.0 || each->abstol > 0.0 || !each->guess_zero) steps = 0;
  }
  if (!steps) why = "level 0 has another solver, or its levels are not in one kernel";
  if (small->gather && !(*AggregationCycles_CUDA.gatherisvalid)(small->gather)) {
    why   = "an exchange of these processes has failed";
    steps = 0;
  }
  IDRSCallAllreduce(MPI_IN_PLACE, &steps, 1, MPIU_INT, MPI_MIN, PetscObjectComm((PetscObject)pc));
  if (!steps && !why) why = "another process does not use its kernel";
  if (!why && !small->gather) PetscCall((*AggregationCycles_CUDA.gather)(((PC_MG *)pc->data)->levels[0]->b, &small->gather, &why));
  if (why) PetscCall(PetscInfo(pc, "Level 0 is not in one kernel on all processes: %s\n", why));
  small->cycle  = why ? NULL : own->cycle;
  small->levels = 1;
  small->visits = steps;
  PetscFunctionReturn(PETSC_SUCCESS);
}
#endif
