/*
   What KSPIDRS tells of itself: settings, how the last solve was done, and, in detail, what its passes have moved and how
   near they have come to the speed of memory
*/
#include "idrsimpl.h"

/* Bytes and time of an operation, per product; share is of the speed at which the device copies, 0 if that is not known */
static PetscErrorCode KSPIDRSViewOperation_Private(KSP ksp, PetscViewer viewer, const char name[], const IDRSTraffic *traffic, PetscReal copyspeed)
{
  KSP_IDRS       *idrs  = (KSP_IDRS *)ksp->data;
  const PetscReal bytes = (PetscReal)traffic->vectors * (PetscReal)idrs->work->n * (PetscReal)sizeof(PetscScalar);
  const PetscReal speed = traffic->seconds > 0.0 ? bytes / (PetscReal)traffic->seconds : 0.0;

  PetscFunctionBegin;
  if (!traffic->calls) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscViewerASCIIPrintf(viewer, "      %-14s %5.2f calls", name, (double)(traffic->calls / idrs->matvecs)));
  if (traffic->vectors) PetscCall(PetscViewerASCIIPrintf(viewer, "  %6.2f vectors  %12.0f bytes", (double)(traffic->vectors / idrs->matvecs), (double)(bytes / idrs->matvecs)));
  if (traffic->seconds > 0.0) {
    PetscCall(PetscViewerASCIIPrintf(viewer, "  %9.2f us", (double)(1e6 * traffic->seconds / idrs->matvecs)));
    if (speed > 0.0) PetscCall(PetscViewerASCIIPrintf(viewer, "  %7.1f GB/s", (double)(speed * 1e-9)));
    if (speed > 0.0 && copyspeed > 0.0) PetscCall(PetscViewerASCIIPrintf(viewer, "  %5.1f%% of copy speed", (double)(100 * speed / copyspeed)));
  }
  PetscCall(PetscViewerASCIIPrintf(viewer, "\n"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* In one line, or, in detail, operation by operation; of the process that prints */
static PetscErrorCode KSPIDRSViewTraffic_Private(KSP ksp, PetscViewer viewer)
{
  KSP_IDRS         *idrs = (KSP_IDRS *)ksp->data;
  IDRSWork          work = idrs->work;
  IDRSTraffic       all = {0}, product = {.calls = (PetscLogDouble)idrs->matvecs, .seconds = idrs->productseconds}, pc = {.calls = (PetscLogDouble)idrs->preconditions, .seconds = idrs->pcseconds};
  PetscReal         copyspeed = 0.0;
  PetscViewerFormat format;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < IDRS_OPERATIONS; i++) {
    all.calls += work->traffic[i].calls;
    all.vectors += work->traffic[i].vectors;
    all.seconds += work->traffic[i].seconds;
  }
  PetscCall(PetscViewerASCIIPrintf(viewer, "    vectors read and written per product: %.1f%s\n", (double)(all.vectors / idrs->matvecs), idrs->smoothing ? ", besides those of smoothing" : ""));
  PetscCall(PetscViewerGetFormat(viewer, &format));
  if (format != PETSC_VIEWER_ASCII_INFO_DETAIL) PetscFunctionReturn(PETSC_SUCCESS);
  if (work->backend->copyspeed) PetscCall((*work->backend->copyspeed)(work, &copyspeed));
  PetscCall(PetscViewerASCIIPrintf(viewer, "    traffic of the first process per product:\n"));
  for (PetscInt i = 0; i < IDRS_OPERATIONS; i++) PetscCall(KSPIDRSViewOperation_Private(ksp, viewer, IDRSOperations[i], &work->traffic[i], copyspeed));
  PetscCall(KSPIDRSViewOperation_Private(ksp, viewer, "all of these", &all, copyspeed));
  PetscCall(KSPIDRSViewOperation_Private(ksp, viewer, "product", &product, copyspeed));
  PetscCall(KSPIDRSViewOperation_Private(ksp, viewer, "preconditioner", &pc, copyspeed));
  if (copyspeed > 0.0) PetscCall(PetscViewerASCIIPrintf(viewer, "      copy speed of this device: %.1f GB/s read and written\n", (double)(copyspeed * 1e-9)));
  if (work->backend->device && !(all.seconds > 0.0)) PetscCall(PetscViewerASCIIPrintf(viewer, "      no times: they come with -log_view -log_view_gpu_time\n"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* On several processes the scatters of the operator belong to PETSc, which takes their type from an option */
static PetscErrorCode KSPIDRSViewAhead_Private(KSP ksp, PetscViewer viewer)
{
  PetscMPIInt size;
  char        type[32] = "";

  PetscFunctionBegin;
  PetscCall(PetscViewerASCIIPrintf(viewer, "    scalars stay on the device, the host is %d products ahead\n", IDRS_AHEAD));
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)ksp), &size));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-sf_type", type, sizeof(type), NULL));
  if (size > 1) PetscCall(PetscViewerASCIIPrintf(viewer, "    sums go from GPU to GPU, and the host waits for them at most %g seconds\n", (double)((KSP_IDRS *)ksp->data)->timeout));
  if (size > 1 && !type[0]) PetscCall(PetscViewerASCIIPrintf(viewer, "    the scatters of its operator may be what it waits for: -sf_type %s has them go from GPU to GPU, without the hosts\n", PETSCSFNCCL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode KSPView_IDRS(KSP ksp, PetscViewer viewer)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  IDRSWork  work = idrs->work;
  PetscBool isascii, isstring;
  Mat       A;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)viewer, PETSCVIEWERASCII, &isascii));
  PetscCall(PetscObjectTypeCompare((PetscObject)viewer, PETSCVIEWERSTRING, &isstring));
  if (isstring) PetscCall(PetscViewerStringSPrintf(viewer, "s %" PetscInt_FMT, idrs->s));
  if (!isascii) PetscFunctionReturn(PETSC_SUCCESS);
  if (idrs->P) PetscCall(PetscViewerASCIIPrintf(viewer, "  s=%" PetscInt_FMT " shadow vectors, given explicitly\n", idrs->s));
  else if (idrs->depth) PetscCall(PetscViewerASCIIPrintf(viewer, "  s=%" PetscInt_FMT " shadow vectors, hashed from seed %" PetscInt_FMT ", nested %" PetscInt_FMT " deep in other solves, with a space of its own\n", idrs->s, idrs->seed, idrs->depth));
  else PetscCall(PetscViewerASCIIPrintf(viewer, "  s=%" PetscInt_FMT " shadow vectors, hashed from seed %" PetscInt_FMT "\n", idrs->s, idrs->seed));
  PetscCall(PetscViewerASCIIPrintf(viewer, "  smallest cosine for omega=%g\n", (double)idrs->cosine));
  if (idrs->updatetol > 0.0) PetscCall(PetscViewerASCIIPrintf(viewer, "  reliable update whenever the residual norm has fallen to %g of its largest value\n", (double)idrs->updatetol));
  else PetscCall(PetscViewerASCIIPrintf(viewer, "  no reliable updating\n"));
  PetscCall(PetscViewerASCIIPrintf(viewer, "  at most %" PetscInt_FMT " restarts after breakdowns\n", idrs->maxrestarts));
  if (idrs->smoothing) PetscCall(PetscViewerASCIIPrintf(viewer, "  smoothing of the residual\n"));
  if (!work || !work->backend) {
    PetscCall(PetscViewerASCIIPrintf(viewer, "  implementation %s, not set up\n", KSPIDRSImplementations[idrs->implementation]));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(PetscViewerASCIIPrintf(viewer, "  implementation %s (%s)\n", work->backend->name, idrs->implementation == KSP_IDRS_AUTO ? "chosen automatically" : "asked for"));
  if (work->slower) PetscCall(PetscViewerASCIIPrintf(viewer, "    no faster one: %s\n", work->slower));
  if (idrs->matvecs) {
    if (idrs->lockstep) PetscCall(PetscViewerASCIIPrintf(viewer, "    the host waits for the device in every product%s: %s\n", KSPIDRSLockstepSums(idrs), idrs->lockstep));
    else if (idrs->ahead) PetscCall(KSPIDRSViewAhead_Private(ksp, viewer));
    if (!idrs->exact) {
      PetscCall(PCGetOperators(ksp->pc, &A, NULL));
      PetscCall(PetscViewerASCIIPrintf(viewer, "  operator of type %s is inexact: neither reliable updating nor verification\n", ((PetscObject)A)->type_name));
    }
    PetscCall(PetscViewerASCIIPrintf(viewer, "  last solve: %" PetscInt_FMT " products, %" PetscInt_FMT " reductions, %" PetscInt_FMT " reliable updates, %" PetscInt_FMT " verifications, %" PetscInt_FMT " restarts\n", idrs->matvecs, KSPIDRSReductions(idrs),
                                     idrs->updates, idrs->verifications, idrs->restarts));
    if (!work->backend->composed) PetscCall(KSPIDRSViewTraffic_Private(ksp, viewer));
    if (idrs->stagnations >= IDRS_MAX_STAGNATIONS) PetscCall(PetscViewerASCIIPrintf(viewer, "    stopped at the attainable accuracy, ||b - A x|| = %g\n", (double)ksp->rnorm));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
