/*
   KSPView() of KSPIDRS: settings, choices of the last solve, and, in detail, the traffic and speed of its passes. KSPView()
   measures nothing
*/
#include "idrsimpl.h"

#define KSPIDRSPrint(...) PetscCall(PetscViewerASCIIPrintf(viewer, __VA_ARGS__))

/* Prints bytes and time of a pass per matvec outside of persistent kernels */
static PetscErrorCode KSPIDRSViewPass_Private(KSP ksp, PetscViewer viewer, const char name[], const IDRSTraffic *traffic,
                                              PetscInt n)
{
  const KSPIDRSCounts *counts    = &((KSP_IDRS *)ksp->data)->counts;
  const PetscReal      matvecs   = (PetscReal)PetscMax(counts->matvecs - counts->persistentmatvecs, 1);
  const PetscReal      bytes     = (PetscReal)traffic->vectors * (PetscReal)n * (PetscReal)sizeof(PetscScalar);
  char                 moved[64] = "", time[32] = "", rate[32] = "";

  PetscFunctionBegin;
  if (!traffic->calls) PetscFunctionReturn(PETSC_SUCCESS);
  if (traffic->vectors)
    PetscCall(PetscSNPrintf(moved, sizeof(moved), "  %6.2f vectors  %12.0f bytes", (double)((PetscReal)traffic->vectors / matvecs),
                            (double)(bytes / matvecs)));
  if (traffic->seconds > 0.0)
    PetscCall(PetscSNPrintf(time, sizeof(time), "  %9.2f us", (double)(1e6 * (PetscReal)traffic->seconds / matvecs)));
  if (traffic->seconds > 0.0 && bytes > 0.0)
    PetscCall(PetscSNPrintf(rate, sizeof(rate), "  %7.1f GB/s", (double)(1e-9 * bytes / (PetscReal)traffic->seconds)));
  /* one call per line, because each call prints the indentation */
  KSPIDRSPrint("      %-14s %5.2f calls%s%s%s\n", name, (double)((PetscReal)traffic->calls / matvecs), moved, time, rate);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Prints the traffic of the first process in one line, or, in detail, for each pass */
static PetscErrorCode KSPIDRSViewTraffic_Private(KSP ksp, PetscViewer viewer, const IDRSWorkspaceInfo *info)
{
  KSP_IDRS         *idrs     = (KSP_IDRS *)ksp->data;
  IDRSTraffic       all      = {0};
  const IDRSTraffic matvec   = {.calls = (PetscLogDouble)idrs->counts.matvecs, .seconds = idrs->counts.matvecseconds},
                    pc       = {.calls = (PetscLogDouble)idrs->counts.preconditions, .seconds = idrs->counts.pcseconds};
  const PetscInt    stepwise = idrs->counts.matvecs - idrs->counts.persistentmatvecs;
  PetscViewerFormat format;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < IDRS_PERSISTENT; i++) {
    all.calls += info->traffic[i].calls;
    all.vectors += info->traffic[i].vectors;
    all.seconds += info->traffic[i].seconds;
  }
  if (stepwise)
    KSPIDRSPrint("    vectors read and written per matvec%s: %.1f%s\n", idrs->counts.kernels ? " outside of these kernels" : "",
                 (double)(all.vectors / stepwise), idrs->d ? ", smoothing not counted" : "");
  PetscCall(PetscViewerGetFormat(viewer, &format));
  if (format != PETSC_VIEWER_ASCII_INFO_DETAIL) PetscFunctionReturn(PETSC_SUCCESS);
  KSPIDRSPrint("    traffic of the first process per matvec:\n");
  for (PetscInt i = 0; i < IDRS_PASSES; i++)
    PetscCall(KSPIDRSViewPass_Private(ksp, viewer, IDRSPassNames[i], &info->traffic[i], info->n));
  PetscCall(KSPIDRSViewPass_Private(ksp, viewer, "all of these", &all, info->n));
  PetscCall(KSPIDRSViewPass_Private(ksp, viewer, "matvec", &matvec, info->n));
  PetscCall(KSPIDRSViewPass_Private(ksp, viewer, "preconditioner", &pc, info->n));
  if (info->device && !(all.seconds > 0.0)) KSPIDRSPrint("      no times: use -log_view -log_view_gpu_time\n");
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Prints the back ends of the matvecs and of the iterations, and of products with several columns, if there were any */
static PetscErrorCode KSPIDRSViewBackEnds_Private(KSP ksp, PetscViewer viewer, const IDRSWorkspaceInfo *info)
{
  KSP_IDRS            *idrs    = (KSP_IDRS *)ksp->data;
  const KSPIDRSCounts *counts  = &idrs->counts;
  const IDRSProduct    product = idrs->product;

  PetscFunctionBegin;
  if (info->device) {
    KSPIDRSPrint("    product %s (%s)\n", product->backend ? product->backend->name : KSPIDRSProducts[KSP_IDRS_PRODUCT_MAT],
                 idrs->set.product == KSP_IDRS_PRODUCT_AUTO ? "chosen automatically" : "asked for");
    if (product->slower) KSPIDRSPrint("      no faster one: %s\n", product->slower);
    if (product->bytes > 0.0)
      KSPIDRSPrint("      its copy of the operator holds %.0f bytes, and was made or filled in last in %.3g ms\n", product->bytes,
                   1e3 * product->seconds);
  }
  if (product->widechosen) {
    KSPIDRSPrint("    several columns by %s\n", product->wide ? product->wide->name : "a MatMult() each");
    if (product->bycolumn) KSPIDRSPrint("      not at once: %s\n", product->bycolumn);
  }
  if (!info->device) PetscFunctionReturn(PETSC_SUCCESS);
  KSPIDRSPrint("    run %s (%s)\n", KSPIDRSRuns[idrs->persistent ? KSP_IDRS_RUN_PERSISTENT : KSP_IDRS_RUN_STEPWISE],
               idrs->set.run == KSP_IDRS_RUN_AUTO ? "chosen automatically" : "asked for");
  if (idrs->slowerrun) KSPIDRSPrint("      no faster one: %s\n", idrs->slowerrun);
  if (counts->kernels)
    KSPIDRSPrint("      %" PetscInt_FMT " matvecs with their vector operations in %" PetscInt_FMT " kernels, where %s\n",
                 counts->persistentmatvecs, counts->kernels, info->persistent);
  if (counts->kernels && idrs->active > 1)
    KSPIDRSPrint("      at the same time: each right-hand side has its own multiprocessors\n");
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* With more rows, single recurrences on a GPU are not much faster than a block recurrence */
#define KSPIDRS_BLOCK_ROWS 100000

/* Prints the location of the scalars and the communication of sums, first of block recurrences, then of single recurrences */
static PetscErrorCode KSPIDRSViewQueue_Private(KSP ksp, PetscViewer viewer, const IDRSWorkspaceInfo *info)
{
  KSP_IDRS       *idrs   = (KSP_IDRS *)ksp->data;
  const PetscBool blocks = (PetscBool)(idrs->results.latest && idrs->blocks.columns);

  PetscFunctionBegin;
  if (idrs->depth && blocks) {
    KSPIDRSPrint("    block recurrences: the host computes the coefficients, and waits for the device in every matvec\n");
    if (info->size == 1)
      KSPIDRSPrint("      compared to single recurrences, %s\n",
                   info->n < KSPIDRS_BLOCK_ROWS && idrs->set.s <= 16 && !idrs->separatepc
                     ? "which may run at the same time on a GPU, a matvec takes several times as long"
                     : "a matvec takes 1.1 to 1.3 times as long");
    if (idrs->blocks.columns == idrs->results.count && !idrs->blocks.single) PetscFunctionReturn(PETSC_SUCCESS);
  }
  if (idrs->lockstep) {
    KSPIDRSPrint("    the host waits for the device in every matvec%s: %s\n",
                 info->size > 1 && !info->throughhost ? ", and sums pass through the hosts" : "", idrs->lockstep);
  } else if (idrs->depth) {
    KSPIDRSPrint("    scalars stay on the device, the host launches %" PetscInt_FMT " matvecs before it reads a norm\n",
                 idrs->depth);
    if (info->size > 1) KSPIDRSPrint("    sums go from GPU to GPU, with reductions by %s\n", info->queue);
    if (info->halo) KSPIDRSPrint("    entries for matvecs go from GPU to GPU inside their kernels\n");
    else if (info->size > 1 && !idrs->scatters)
      KSPIDRSPrint("    the host may wait for the scatters of the operator: with -sf_type %s they go from GPU to GPU\n",
                   PETSCSFNCCL);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Prints the results of KSPMatSolve() */
static PetscErrorCode KSPIDRSViewResults_Private(KSP ksp, PetscViewer viewer)
{
  KSP_IDRS             *idrs    = (KSP_IDRS *)ksp->data;
  const KSPIDRSResults *results = &idrs->results;
  PetscInt             *its, failed = 0;

  PetscFunctionBegin;
  if (!results->count) PetscFunctionReturn(PETSC_SUCCESS);
  if (idrs->sequential)
    KSPIDRSPrint("  %" PetscInt_FMT " right-hand sides, one by one%s: %s\n", results->count,
                 idrs->set.block ? ", without a block recurrence" : "", idrs->sequential);
  else KSPIDRSPrint("  %" PetscInt_FMT " right-hand sides, %" PetscInt_FMT " at the same time\n", results->count, idrs->active);
  if (idrs->blocks.columns)
    KSPIDRSPrint("    block recurrences for %" PetscInt_FMT " of them, with %" PetscInt_FMT " linearly independent residuals\n",
                 idrs->blocks.columns, idrs->blocks.rank);
  if (idrs->blocks.single)
    KSPIDRSPrint("    %" PetscInt_FMT " of them continued without a block recurrence: %s\n", idrs->blocks.single, idrs->blocks.why);
  PetscCall(PetscMalloc1(results->count, &its));
  PetscCall(PetscArraycpy(its, results->its, results->count));
  PetscCall(PetscSortInt(results->count, its));
  for (PetscInt j = 0; j < results->count; j++) failed += results->reasons[j] < 0 ? 1 : 0;
  KSPIDRSPrint("    iterations: smallest %" PetscInt_FMT ", median %" PetscInt_FMT ", largest %" PetscInt_FMT "; %" PetscInt_FMT
               " right-hand sides have not converged\n",
               its[0], its[results->count / 2], its[results->count - 1], failed);
  PetscCall(PetscFree(its));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Prints the recycled data of the last solve, or the reason why there are none, and the saved iterations */
static PetscErrorCode KSPIDRSViewRecycle_Private(KSP ksp, PetscViewer viewer)
{
  KSP_IDRS            *idrs   = (KSP_IDRS *)ksp->data;
  const KSPIDRSCounts *counts = &idrs->counts;

  PetscFunctionBegin;
  KSPIDRSPrint("  recycling of bases: %s\n", KSPIDRSRecycles[idrs->set.recycle]);
  if (counts->recycled)
    KSPIDRSPrint("    %" PetscInt_FMT " right-hand sides began with bases, %" PetscInt_FMT " of them computed G = A U again\n",
                 counts->recycled, counts->given);
  if (counts->growth > 0.0) KSPIDRSPrint("    they changed ||r|| by a factor of at most %.3g\n", (double)counts->growth);
  if (counts->spent)
    KSPIDRSPrint("    %" PetscInt_FMT " iterations, %.0f expected without recycling\n", counts->spent, (double)counts->expected);
  if (counts->dropped) KSPIDRSPrint("    %" PetscInt_FMT " of them began again without bases\n", counts->dropped);
  if (counts->refused)
    KSPIDRSPrint("    %" PetscInt_FMT " right-hand sides began without bases: %s\n", counts->refused, counts->refusal);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Prints why no faster back end runs. Without vectors on a GPU, the program has probably set the type of the matrix itself */
static PetscErrorCode KSPIDRSViewSlower_Private(KSP ksp, PetscViewer viewer, const char slower[])
{
  char hint[128] = "";
#if defined(PETSCIDRS_HAVE_CUDA)
  Mat       A;
  PetscBool cuda, aij;

  PetscFunctionBegin;
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)((KSP_IDRS *)ksp->data)->slot[0].r, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &aij, MATSEQAIJ, MATMPIAIJ, ""));
  if (!cuda && aij)
    PetscCall(PetscSNPrintf(hint, sizeof(hint), "; matrix of type %s: use -mat_type aijcusparse or MatConvert()",
                            ((PetscObject)A)->type_name));
#else
  PetscFunctionBegin;
#endif
  KSPIDRSPrint("    no faster one: %s%s\n", slower, hint);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Says that repeated solves have the same bits, or that this depends on operations outside of this library */
static PetscErrorCode KSPIDRSViewBits_Private(KSP ksp, PetscViewer viewer, PetscBool device)
{
  PetscBool own[2]      = {PETSC_TRUE, PETSC_TRUE};
  char      others[256] = "";
  Mat       A;

  PetscFunctionBegin;
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  if (!((KSP_IDRS *)ksp->data)->product->backend) {
    PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &own[0], MATSEQAIJ, MATMPIAIJ, ""));
    if (device) own[0] = PETSC_FALSE;
  }
  PetscCall(PetscObjectTypeCompareAny((PetscObject)ksp->pc, &own[1], PCNONE, PCJACOBI, PCPOLY, PCBJIDRS, PCAGGREGATION, ""));
  if (!own[0] || !own[1])
    PetscCall(PetscSNPrintf(others, sizeof(others), ", if %s%s%s%s%s%s not vary", own[0] ? "" : "MatMult() of type ",
                            own[0] ? "" : ((PetscObject)A)->type_name, own[0] || own[1] ? "" : " and ",
                            own[1] ? "" : "the preconditioner ", own[1] ? "" : ((PetscObject)ksp->pc)->type_name,
                            own[0] || own[1] ? " does" : " do"));
  KSPIDRSPrint("    repeated solves have the same bits%s\n", others);
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode KSPView_IDRS(KSP ksp, PetscViewer viewer)
{
  KSP_IDRS            *idrs   = (KSP_IDRS *)ksp->data;
  const KSPIDRSCounts *counts = &idrs->counts;
  PetscBool            isascii, isstring;
  PetscInt             reductions;
  IDRSWorkspaceInfo    info;
  Mat                  A;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)viewer, PETSCVIEWERASCII, &isascii));
  PetscCall(PetscObjectTypeCompare((PetscObject)viewer, PETSCVIEWERSTRING, &isstring));
  if (isstring) PetscCall(PetscViewerStringSPrintf(viewer, "s %" PetscInt_FMT, idrs->set.s));
  if (!isascii) PetscFunctionReturn(PETSC_SUCCESS);
  if (idrs->set.P) KSPIDRSPrint("  s=%" PetscInt_FMT " explicit shadow vectors\n", idrs->set.s);
  else if (idrs->nesting)
    KSPIDRSPrint("  s=%" PetscInt_FMT " shadow vectors, hashed from seed %" PetscInt_FMT ", nested %" PetscInt_FMT
                 " deep in other solves, with a shadow space of its own\n",
                 idrs->set.s, idrs->set.seed, idrs->nesting);
  else KSPIDRSPrint("  s=%" PetscInt_FMT " shadow vectors, hashed from seed %" PetscInt_FMT "\n", idrs->set.s, idrs->set.seed);
  KSPIDRSPrint("  smallest cosine for omega=%g\n", (double)idrs->set.cosine);
  if (idrs->set.updatetol > 0.0)
    KSPIDRSPrint("  reliable update whenever the residual norm has fallen to %g of its largest value\n",
                 (double)idrs->set.updatetol);
  else KSPIDRSPrint("  no reliable updating\n");
  KSPIDRSPrint("  at most %" PetscInt_FMT " restarts after breakdowns\n", idrs->set.maxrestarts);
  if (idrs->set.smoothing) KSPIDRSPrint("  smoothing of the residual\n");
  if (idrs->set.block) KSPIDRSPrint("  block recurrences for right-hand sides that are solved for at the same time\n");
  if (idrs->results.latest) PetscCall(KSPIDRSViewResults_Private(ksp, viewer));
  if (idrs->set.recycle != KSP_IDRS_RECYCLE_NEVER) PetscCall(KSPIDRSViewRecycle_Private(ksp, viewer));
  if (!idrs->slot[0].G) {
    KSPIDRSPrint("  implementation %s, not set up\n", KSPIDRSImplementations[idrs->set.implementation]);
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(KSPIDRSGetWorkInfo_Private(ksp, &info));
  KSPIDRSPrint("  implementation %s (%s)\n", info.passes,
               idrs->set.implementation == KSP_IDRS_AUTO ? "chosen automatically" : "asked for");
  if (info.slower) PetscCall(KSPIDRSViewSlower_Private(ksp, viewer, info.slower));
  if (counts->matvecs) {
    if (idrs->diagonal) KSPIDRSPrint("    the vector operations apply the preconditioner, which is diagonal\n");
    if (idrs->pcmode == KSPIDRS_PC_FUSED) KSPIDRSPrint("    the preconditioner is applied together with the matvec after it\n");
    PetscCall(KSPIDRSViewQueue_Private(ksp, viewer, &info));
    PetscCall(KSPIDRSViewBackEnds_Private(ksp, viewer, &info));
    if (!idrs->exact) {
      PetscCall(PCGetOperators(ksp->pc, &A, NULL));
      KSPIDRSPrint("  operator of type %s is inexact: neither reliable updating nor verification\n", ((PetscObject)A)->type_name);
    }
    PetscCall(KSPIDRSCountReductions_Private(ksp, &reductions));
    KSPIDRSPrint("  last solve: %" PetscInt_FMT " matvecs outside of the preconditioner, %" PetscInt_FMT
                 " reductions, %" PetscInt_FMT " reliable updates, %" PetscInt_FMT " verifications, %" PetscInt_FMT " restarts\n",
                 counts->matvecs, reductions, counts->updates, counts->verifications, counts->restarts);
    PetscCall(KSPIDRSViewBits_Private(ksp, viewer, info.device));
    if (info.device) PetscCall(KSPIDRSViewTraffic_Private(ksp, viewer, &info));
    if (!idrs->results.latest && idrs->slot[0].trust.replacements.failures >= IDRS_MAX_STAGNATIONS)
      KSPIDRSPrint("    stopped at the attainable accuracy, ||b - A x|| = %g\n", (double)ksp->rnorm);
    if (!idrs->results.latest && idrs->slot[0].rec.status == KSPIDRS_RUNAWAY)
      KSPIDRSPrint("    stopped because x grew without end: the matrix may be singular\n");
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
