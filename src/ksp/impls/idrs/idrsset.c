/*
   What a user can set and ask of KSPIDRS
*/
#include "idrsimpl.h"

/* Of the options of this solver, for errors that name one */
static const char *KSPIDRSPrefix_Private(KSP ksp)
{
  return ((PetscObject)ksp)->prefix ? ((PetscObject)ksp)->prefix : "";
}

static PetscErrorCode KSPIDRSSetShadowSize_IDRS(KSP ksp, PetscInt s)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  PetscCheck(s >= 1 && s <= IDRS_MAX_S, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_OUTOFRANGE, "-%sksp_idrs_s %" PetscInt_FMT ": the number of shadow vectors must be in 1 to %d", KSPIDRSPrefix_Private(ksp), s, IDRS_MAX_S);
  PetscCheck(!idrs->set.P || s == idrs->set.s, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_WRONGSTATE, "-%sksp_idrs_s %" PetscInt_FMT ": KSPIDRSSetShadowVecs() has given %" PetscInt_FMT " shadow vectors", KSPIDRSPrefix_Private(ksp), s, idrs->set.s);
  if (s != idrs->set.s) ksp->setupstage = KSP_SETUP_NEW;
  idrs->set.s = s;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPIDRSGetShadowSize_IDRS(KSP ksp, PetscInt *s)
{
  PetscFunctionBegin;
  *s = ((KSP_IDRS *)ksp->data)->set.s;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPIDRSSetShadowVecs_IDRS(KSP ksp, PetscInt s, Vec P[])
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  Vec      *columns;

  PetscFunctionBegin;
  PetscCheck(s >= 0 && s <= IDRS_MAX_S, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_OUTOFRANGE, "KSPIDRSSetShadowVecs(): the number of shadow vectors %" PetscInt_FMT " must be in 0 to %d", s, IDRS_MAX_S);
  PetscCheck(!s || P, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_NULL, "KSPIDRSSetShadowVecs(): no array for %" PetscInt_FMT " shadow vectors", s);
  PetscCall(PetscMalloc1(s, &columns)); /* NULL for none */
  for (PetscInt i = 0; i < s; i++) {
    PetscCall(PetscObjectReference((PetscObject)P[i]));
    columns[i] = P[i];
  }
  PetscCall(IDRSColumnsDestroy(idrs->set.s, &idrs->set.P));
  idrs->set.P = columns;
  if (s) idrs->set.s = s;
  ksp->setupstage = KSP_SETUP_NEW;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPIDRSSetShadowSeed_IDRS(KSP ksp, PetscInt seed)
{
  PetscFunctionBegin;
  PetscCheck(seed >= 0, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_OUTOFRANGE, "-%sksp_idrs_seed %" PetscInt_FMT ": the seed must not be negative", KSPIDRSPrefix_Private(ksp), seed);
  ((KSP_IDRS *)ksp->data)->set.seed = seed;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPIDRSGetShadowSeed_IDRS(KSP ksp, PetscInt *seed)
{
  PetscFunctionBegin;
  *seed = ((KSP_IDRS *)ksp->data)->set.seed;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPIDRSSetMinimumCosine_IDRS(KSP ksp, PetscReal cosine)
{
  PetscFunctionBegin;
  PetscCheck(cosine >= 0.0 && cosine < 1.0, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_OUTOFRANGE, "-%sksp_idrs_cosine %g: must be in [0,1)", KSPIDRSPrefix_Private(ksp), (double)cosine);
  ((KSP_IDRS *)ksp->data)->set.cosine = cosine;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPIDRSGetMinimumCosine_IDRS(KSP ksp, PetscReal *cosine)
{
  PetscFunctionBegin;
  *cosine = ((KSP_IDRS *)ksp->data)->set.cosine;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPIDRSSetUpdateTolerance_IDRS(KSP ksp, PetscReal tolerance)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  PetscCheck(tolerance >= 0.0 && tolerance < 1.0, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_OUTOFRANGE, "-%sksp_idrs_update_tol %g: must be in [0,1)", KSPIDRSPrefix_Private(ksp), (double)tolerance);
  if ((tolerance > 0.0) != (idrs->set.updatetol > 0.0)) ksp->setupstage = KSP_SETUP_NEW; /* one work vector more or less */
  idrs->set.updatetol = tolerance;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPIDRSGetUpdateTolerance_IDRS(KSP ksp, PetscReal *tolerance)
{
  PetscFunctionBegin;
  *tolerance = ((KSP_IDRS *)ksp->data)->set.updatetol;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPIDRSSetMaxRestarts_IDRS(KSP ksp, PetscInt restarts)
{
  PetscFunctionBegin;
  PetscCheck(restarts >= 0, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_OUTOFRANGE, "-%sksp_idrs_max_restarts %" PetscInt_FMT ": must not be negative", KSPIDRSPrefix_Private(ksp), restarts);
  ((KSP_IDRS *)ksp->data)->set.maxrestarts = restarts;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPIDRSGetMaxRestarts_IDRS(KSP ksp, PetscInt *restarts)
{
  PetscFunctionBegin;
  *restarts = ((KSP_IDRS *)ksp->data)->set.maxrestarts;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPIDRSSetSmoothing_IDRS(KSP ksp, PetscBool smoothing)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  if (smoothing != idrs->set.smoothing) ksp->setupstage = KSP_SETUP_NEW;
  idrs->set.smoothing = smoothing;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPIDRSGetSmoothing_IDRS(KSP ksp, PetscBool *smoothing)
{
  PetscFunctionBegin;
  *smoothing = ((KSP_IDRS *)ksp->data)->set.smoothing;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPIDRSSetImplementation_IDRS(KSP ksp, KSPIDRSImplementation implementation)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  PetscCheck(implementation >= KSP_IDRS_AUTO && implementation <= KSP_IDRS_CUDA, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_OUTOFRANGE, "KSPIDRSSetImplementation(): %d is not a KSPIDRSImplementation, 0 to %d", (int)implementation, (int)KSP_IDRS_CUDA);
  if (implementation != idrs->set.implementation) ksp->setupstage = KSP_SETUP_NEW;
  idrs->set.implementation = implementation;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPIDRSGetImplementation_IDRS(KSP ksp, KSPIDRSImplementation *implementation)
{
  PetscFunctionBegin;
  *implementation = ((KSP_IDRS *)ksp->data)->set.implementation;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPIDRSSetCommunication_IDRS(KSP ksp, KSPIDRSCommunication communication)
{
  PetscFunctionBegin;
  PetscCheck(communication >= KSP_IDRS_COMMUNICATION_AUTO && communication <= KSP_IDRS_COMMUNICATION_NCCL, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_OUTOFRANGE, "KSPIDRSSetCommunication(): %d is not a KSPIDRSCommunication, 0 to %d", (int)communication, (int)KSP_IDRS_COMMUNICATION_NCCL);
  ((KSP_IDRS *)ksp->data)->set.communication = communication;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPIDRSGetCommunication_IDRS(KSP ksp, KSPIDRSCommunication *communication)
{
  PetscFunctionBegin;
  *communication = ((KSP_IDRS *)ksp->data)->set.communication;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSCountReductions_Private - Counts the reductions of this solve so far: of the work, and norms of b - A x */
PetscErrorCode KSPIDRSCountReductions_Private(KSP ksp, PetscInt *reductions)
{
  KSP_IDRS    *idrs = (KSP_IDRS *)ksp->data;
  IDRSWorkInfo info;

  PetscFunctionBegin;
  *reductions = 0;
  if (!idrs->G) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSWorkGetInfo(idrs->work, &info));
  *reductions = (PetscInt)(info.reductions - idrs->counts.reductions + idrs->counts.norms);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPIDRSGetCounts_IDRS(KSP ksp, PetscInt *matvecs, PetscInt *reductions, PetscInt *updates, PetscInt *restarts)
{
  const KSPIDRSCounts *counts = &((KSP_IDRS *)ksp->data)->counts;

  PetscFunctionBegin;
  if (matvecs) *matvecs = counts->matvecs;
  if (reductions) PetscCall(KSPIDRSCountReductions_Private(ksp, reductions));
  if (updates) *updates = counts->updates;
  if (restarts) *restarts = counts->restarts;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Composes the functions above with the KSP, or takes them off again */
#define IDRSCompose(name) PetscCall(PetscObjectComposeFunction((PetscObject)ksp, #name "_C", compose ? name##_IDRS : NULL))
PetscErrorCode KSPIDRSComposeSetters_Private(KSP ksp, PetscBool compose)
{
  PetscFunctionBegin;
  IDRSCompose(KSPIDRSSetShadowSize);
  IDRSCompose(KSPIDRSGetShadowSize);
  IDRSCompose(KSPIDRSSetShadowVecs);
  IDRSCompose(KSPIDRSSetShadowSeed);
  IDRSCompose(KSPIDRSGetShadowSeed);
  IDRSCompose(KSPIDRSSetMinimumCosine);
  IDRSCompose(KSPIDRSGetMinimumCosine);
  IDRSCompose(KSPIDRSSetUpdateTolerance);
  IDRSCompose(KSPIDRSGetUpdateTolerance);
  IDRSCompose(KSPIDRSSetMaxRestarts);
  IDRSCompose(KSPIDRSGetMaxRestarts);
  IDRSCompose(KSPIDRSSetSmoothing);
  IDRSCompose(KSPIDRSGetSmoothing);
  IDRSCompose(KSPIDRSSetImplementation);
  IDRSCompose(KSPIDRSGetImplementation);
  IDRSCompose(KSPIDRSSetCommunication);
  IDRSCompose(KSPIDRSGetCommunication);
  IDRSCompose(KSPIDRSGetCounts);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSSetShadowSize - Sets s, the number of shadow vectors of `KSPIDRS`

  Logically Collective

  Input Parameters:
+ ksp - the Krylov solver context
- s   - number of shadow vectors, 1 to 1024 (default 4)

  Options Database Key:
. -ksp_idrs_s s - number of shadow vectors

  Level: intermediate

  Note:
  The method keeps 2s+5 vectors, s more with the implementation vec. Another `s` after `KSPSetUp()` makes the next solve set up again. With explicit shadow vectors `s` is their
  number, and asking for another is an error.

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSGetShadowSize()`, `KSPIDRSSetShadowVecs()`
@*/
PetscErrorCode KSPIDRSSetShadowSize(KSP ksp, PetscInt s)
{
  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  PetscValidLogicalCollectiveInt(ksp, s, 2);
  PetscTryMethod(ksp, "KSPIDRSSetShadowSize_C", (KSP, PetscInt), (ksp, s));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSGetShadowSize - Gets s, the number of shadow vectors of `KSPIDRS`

  Not Collective

  Input Parameter:
. ksp - the Krylov solver context

  Output Parameter:
. s - number of shadow vectors

  Level: intermediate

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSSetShadowSize()`
@*/
PetscErrorCode KSPIDRSGetShadowSize(KSP ksp, PetscInt *s)
{
  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  PetscUseMethod(ksp, "KSPIDRSGetShadowSize_C", (KSP, PetscInt *), (ksp, s));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSSetShadowVecs - Gives `KSPIDRS` explicit shadow vectors in the place of the hashed shadow space

  Collective

  Input Parameters:
+ ksp - the Krylov solver context
. s   - number of shadow vectors, or 0 to return to the hashed space
- P   - array of s vectors with the layout of the solution, or `NULL`

  Level: intermediate

  Notes:
  The vectors are referenced, not copied, must not change during a solve, and must be in the memory, host or GPU, of the system's. They need not be orthonormal, but should be of about the same
  norm. Their sizes are checked when the solver is set up.

  Hashed shadow vectors cost neither memory nor its traffic; explicit ones are for comparisons with other codes.

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSSetShadowSize()`, `KSPIDRSSetShadowSeed()`
@*/
PetscErrorCode KSPIDRSSetShadowVecs(KSP ksp, PetscInt s, Vec P[])
{
  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  PetscValidLogicalCollectiveInt(ksp, s, 2);
  for (PetscInt i = 0; P && i < s; i++) {
    PetscValidHeaderSpecific(P[i], VEC_CLASSID, 3);
    PetscCheckSameComm(ksp, 1, P[i], 3);
  }
  PetscTryMethod(ksp, "KSPIDRSSetShadowVecs_C", (KSP, PetscInt, Vec[]), (ksp, s, P));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSSetShadowSeed - Sets the seed of the hashed shadow space of `KSPIDRS`

  Logically Collective

  Input Parameters:
+ ksp  - the Krylov solver context
- seed - not negative (default 0)

  Options Database Key:
. -ksp_idrs_seed seed - seed of the hashed shadow space

  Level: intermediate

  Note:
  An entry of the shadow space is a function of the seed, its global row and its column, the same on any number of processes and with every
  implementation. Every solve begins with this seed; a restart after a breakdown takes the next. A solve inside another one of
  this type, in its preconditioner for instance, has other entries from the same seed: with the shadow space of the outer one it would hand back what the outer recurrence breaks down on.

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSGetShadowSeed()`, `KSPIDRSSetMaxRestarts()`
@*/
PetscErrorCode KSPIDRSSetShadowSeed(KSP ksp, PetscInt seed)
{
  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  PetscValidLogicalCollectiveInt(ksp, seed, 2);
  PetscTryMethod(ksp, "KSPIDRSSetShadowSeed_C", (KSP, PetscInt), (ksp, seed));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSGetShadowSeed - Gets the seed of the hashed shadow space of `KSPIDRS`

  Not Collective

  Input Parameter:
. ksp - the Krylov solver context

  Output Parameter:
. seed - the seed

  Level: intermediate

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSSetShadowSeed()`
@*/
PetscErrorCode KSPIDRSGetShadowSeed(KSP ksp, PetscInt *seed)
{
  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  PetscUseMethod(ksp, "KSPIDRSGetShadowSeed_C", (KSP, PetscInt *), (ksp, seed));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSSetMinimumCosine - Sets the cosine below which `KSPIDRS` enlarges omega

  Logically Collective

  Input Parameters:
+ ksp    - the Krylov solver context
- cosine - in [0,1) (default 0.5), 0 to never enlarge omega

  Options Database Key:
. -ksp_idrs_cosine cosine - smallest cosine for omega

  Level: intermediate

  Note:
  omega minimises the residual after t = A r. Where the cosine of the angle between t and r is below this value, omega is enlarged to the length
  that it would have at the angle with this cosine, which keeps the recurrence accurate {cite}`sleijpen:1995`. Values above 0.5 may diverge on
  strong convection.

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSGetMinimumCosine()`
@*/
PetscErrorCode KSPIDRSSetMinimumCosine(KSP ksp, PetscReal cosine)
{
  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  PetscValidLogicalCollectiveReal(ksp, cosine, 2);
  PetscTryMethod(ksp, "KSPIDRSSetMinimumCosine_C", (KSP, PetscReal), (ksp, cosine));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSGetMinimumCosine - Gets the cosine below which `KSPIDRS` enlarges omega

  Not Collective

  Input Parameter:
. ksp - the Krylov solver context

  Output Parameter:
. cosine - the cosine

  Level: intermediate

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSSetMinimumCosine()`
@*/
PetscErrorCode KSPIDRSGetMinimumCosine(KSP ksp, PetscReal *cosine)
{
  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  PetscUseMethod(ksp, "KSPIDRSGetMinimumCosine_C", (KSP, PetscReal *), (ksp, cosine));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSSetUpdateTolerance - Sets the fall of the residual norm between reliable updates of `KSPIDRS`

  Logically Collective

  Input Parameters:
+ ksp - the Krylov solver context
- tol - in [0,1) (default 1e-3), 0 for no reliable updating

  Options Database Key:
. -ksp_idrs_update_tol tol - fall of the residual norm between reliable updates

  Level: intermediate

  Note:
  When, at the end of a cycle, the residual norm has fallen below `tol` times its largest value since the last time, the residual is computed
  from the iterate again, which keeps the two together at the cost of one product. Without it one vector less is kept.

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSGetUpdateTolerance()`
@*/
PetscErrorCode KSPIDRSSetUpdateTolerance(KSP ksp, PetscReal tol)
{
  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  PetscValidLogicalCollectiveReal(ksp, tol, 2);
  PetscTryMethod(ksp, "KSPIDRSSetUpdateTolerance_C", (KSP, PetscReal), (ksp, tol));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSGetUpdateTolerance - Gets the fall of the residual norm between reliable updates of `KSPIDRS`

  Not Collective

  Input Parameter:
. ksp - the Krylov solver context

  Output Parameter:
. tol - the tolerance

  Level: intermediate

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSSetUpdateTolerance()`
@*/
PetscErrorCode KSPIDRSGetUpdateTolerance(KSP ksp, PetscReal *tol)
{
  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  PetscUseMethod(ksp, "KSPIDRSGetUpdateTolerance_C", (KSP, PetscReal *), (ksp, tol));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSSetMaxRestarts - Sets how often in a row a solve with `KSPIDRS` may restart after a breakdown without gaining anything

  Logically Collective

  Input Parameters:
+ ksp - the Krylov solver context
- n   - number of restarts, not negative (default 10)

  Options Database Key:
. -ksp_idrs_max_restarts n - restarts after breakdowns

  Level: intermediate

  Note:
  One breakdown more ends the solve with `KSP_DIVERGED_BREAKDOWN`. The count begins anew with a restart whose residual norm is at most half of that of all
  restarts before, so `KSPIDRSGetCounts()` may show more of them. Restarts of a recurrence whose residual norm
  has grown too far, see `KSPIDRS`, are not limited, but for n = 0, which is none at all.

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSGetMaxRestarts()`, `KSPIDRSGetCounts()`
@*/
PetscErrorCode KSPIDRSSetMaxRestarts(KSP ksp, PetscInt n)
{
  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  PetscValidLogicalCollectiveInt(ksp, n, 2);
  PetscTryMethod(ksp, "KSPIDRSSetMaxRestarts_C", (KSP, PetscInt), (ksp, n));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSGetMaxRestarts - Gets how often a solve with `KSPIDRS` may restart after a breakdown

  Not Collective

  Input Parameter:
. ksp - the Krylov solver context

  Output Parameter:
. n - number of restarts

  Level: intermediate

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSSetMaxRestarts()`
@*/
PetscErrorCode KSPIDRSGetMaxRestarts(KSP ksp, PetscInt *n)
{
  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  PetscUseMethod(ksp, "KSPIDRSGetMaxRestarts_C", (KSP, PetscInt *), (ksp, n));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSSetSmoothing - Sets whether `KSPIDRS` smooths its residual

  Logically Collective

  Input Parameters:
+ ksp       - the Krylov solver context
- smoothing - `PETSC_TRUE` for an iterate whose residual norm never grows (default `PETSC_FALSE`)

  Options Database Key:
. -ksp_idrs_smoothing (true|false) - whether to

  Level: intermediate

  Notes:
  The residuals of IDR(s) may rise far before they fall, and the iterates with them. Smoothing keeps another iterate beside that of the recurrence, each time the
  one with the smallest residual on the line between its predecessor and the new iterate. This one is
  monitored, tested and handed back: for convergence histories without peaks, for solves that are cut short, and for tests that look at the iterate, as that of
  `SNESNEWTONTR`. The recurrence goes on as without it.

  It takes three more vectors, and about twelve more vector reads or writes per product. Its sums travel with those of the recurrence; with the implementation
  vec they take two reductions more, and a norm that rounding has left nothing of is computed once more from its vector. On a GPU the host waits for the device in every product.

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSGetSmoothing()`
@*/
PetscErrorCode KSPIDRSSetSmoothing(KSP ksp, PetscBool smoothing)
{
  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  PetscValidLogicalCollectiveBool(ksp, smoothing, 2);
  PetscTryMethod(ksp, "KSPIDRSSetSmoothing_C", (KSP, PetscBool), (ksp, smoothing));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSGetSmoothing - Gets what has been set with `KSPIDRSSetSmoothing()`

  Not Collective

  Input Parameter:
. ksp - the Krylov solver context

  Output Parameter:
. smoothing - whether the residual is smoothed

  Level: intermediate

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSSetSmoothing()`
@*/
PetscErrorCode KSPIDRSGetSmoothing(KSP ksp, PetscBool *smoothing)
{
  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  PetscUseMethod(ksp, "KSPIDRSGetSmoothing_C", (KSP, PetscBool *), (ksp, smoothing));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSSetImplementation - Sets the back end that runs the vector operations of `KSPIDRS`

  Logically Collective

  Input Parameters:
+ ksp            - the Krylov solver context
- implementation - the back end (default `KSP_IDRS_AUTO`)

  Options Database Key:
. -ksp_idrs_implementation (auto|vec|host|cuda) - the back end

  Level: intermediate

  Note:
  With `KSP_IDRS_AUTO` the fastest that can run on the vectors of the system is taken, and `-ksp_view` tells which and why no faster one. A back end
  that is asked for and cannot run is an error when the solver is set up.

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSGetImplementation()`, `KSPIDRSImplementation`
@*/
PetscErrorCode KSPIDRSSetImplementation(KSP ksp, KSPIDRSImplementation implementation)
{
  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  PetscValidLogicalCollectiveEnum(ksp, implementation, 2);
  PetscTryMethod(ksp, "KSPIDRSSetImplementation_C", (KSP, KSPIDRSImplementation), (ksp, implementation));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSGetImplementation - Gets the back end asked for with `KSPIDRSSetImplementation()`

  Not Collective

  Input Parameter:
. ksp - the Krylov solver context

  Output Parameter:
. implementation - the back end

  Level: intermediate

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSSetImplementation()`
@*/
PetscErrorCode KSPIDRSGetImplementation(KSP ksp, KSPIDRSImplementation *implementation)
{
  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  PetscUseMethod(ksp, "KSPIDRSGetImplementation_C", (KSP, KSPIDRSImplementation *), (ksp, implementation));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSSetCommunication - Sets how the reductions of `KSPIDRS` travel between GPUs

  Logically Collective

  Input Parameters:
+ ksp           - the Krylov solver context
- communication - the way (default `KSP_IDRS_COMMUNICATION_AUTO`)

  Options Database Key:
. -ksp_idrs_communication (auto|mpi|nccl) - the way

  Level: intermediate

  Notes:
  With NCCL the sums of a projection go from GPU to GPU, and the scalars stay there: the host runs ahead as it does on one GPU. This
  takes a GPU of its own for each process, and a library that was built with NCCL. With MPI they pass through the hosts, which wait for them in every product.
  NCCL that is asked for and cannot be used is an error when the solver is set up. On one process there is nothing to choose.

  Products with the operator have scatters of their own, which PETSc makes: the option `-sf_type nccl`, see `PETSCSFNCCL`, has these go from GPU to GPU, too.
  `KSP_IDRS_COMMUNICATION_AUTO` takes NCCL with that option, and MPI without it or where NCCL cannot be used; `-ksp_view` says which, and why.

.seealso: [](ch_ksp), `KSPIDRS`, `PETSCSFNCCL`, `KSPIDRSGetCommunication()`, `KSPIDRSCommunication`
@*/
PetscErrorCode KSPIDRSSetCommunication(KSP ksp, KSPIDRSCommunication communication)
{
  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  PetscValidLogicalCollectiveEnum(ksp, communication, 2);
  PetscTryMethod(ksp, "KSPIDRSSetCommunication_C", (KSP, KSPIDRSCommunication), (ksp, communication));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSGetCommunication - Gets what has been set with `KSPIDRSSetCommunication()`

  Not Collective

  Input Parameter:
. ksp - the Krylov solver context

  Output Parameter:
. communication - how reductions travel between GPUs

  Level: intermediate

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSSetCommunication()`
@*/
PetscErrorCode KSPIDRSGetCommunication(KSP ksp, KSPIDRSCommunication *communication)
{
  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  PetscUseMethod(ksp, "KSPIDRSGetCommunication_C", (KSP, KSPIDRSCommunication *), (ksp, communication));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSGetCounts - Gets what the last solve with `KSPIDRS` took

  Not Collective

  Input Parameter:
. ksp - the Krylov solver context

  Output Parameters:
+ products   - products with the operator, those of reliable updates and verifications included, or `NULL`
. reductions - global reductions, those of projections on one process included, or `NULL`
. updates    - reliable updates, or `NULL`
- restarts   - restarts after breakdowns, or `NULL`

  Level: intermediate

  Note:
  `-ksp_view` shows the same numbers.

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSSetMaxRestarts()`, `KSPIDRSSetUpdateTolerance()`
@*/
PetscErrorCode KSPIDRSGetCounts(KSP ksp, PetscInt *products, PetscInt *reductions, PetscInt *updates, PetscInt *restarts)
{
  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  PetscUseMethod(ksp, "KSPIDRSGetCounts_C", (KSP, PetscInt *, PetscInt *, PetscInt *, PetscInt *), (ksp, products, reductions, updates, restarts));
  PetscFunctionReturn(PETSC_SUCCESS);
}
