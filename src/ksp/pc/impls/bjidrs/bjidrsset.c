/*
   Setters and getters of PCBJIDRS, and the inner KSP that has the options of the solves
*/
#include "bjidrsimpl.h"
#include <petscidrs/private/idrsstep.h>

/* Configures the inner KSP, before the user changes settings */
static PetscErrorCode BJIDRSSetInner(PC pc, KSP inner)
{
  const char *prefix;
  PC          innerpc;

  PetscFunctionBegin;
  PetscCall(PetscObjectIncrementTabLevel((PetscObject)inner, (PetscObject)pc, 1));
  PetscCall(PCGetOptionsPrefix(pc, &prefix));
  PetscCall(KSPSetOptionsPrefix(inner, prefix));
  PetscCall(KSPAppendOptionsPrefix(inner, "pc_bjidrs_"));
  PetscCall(KSPSetType(inner, KSPIDRS));
  PetscCall(KSPGetPC(inner, &innerpc));
  PetscCall(PCSetType(innerpc, PCJACOBI));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that settings that only affect solves with KSPIDRS itself are all auto */
static PetscErrorCode BJIDRSCheckChoices(KSP inner, const KSPIDRSSettings *set)
{
  const struct {
    const char *option, *const *values;
    int value;
  } choices[] = {
    {"implementation", KSPIDRSImplementations, (int)set->implementation},
    {"communication",  KSPIDRSCommunications,  (int)set->communication },
    {"product",        KSPIDRSProducts,        (int)set->product       },
    {"run",            KSPIDRSRuns,            (int)set->run           },
    {"recycle",        KSPIDRSRecycles,        (int)set->recycle       }
  };

  PetscFunctionBegin;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(choices); i++)
    PetscCheck(!choices[i].value, PETSC_COMM_SELF, PETSC_ERR_SUP, "-%sksp_idrs_%s %s: PCBJIDRS has no choice of these",
               ((PetscObject)inner)->prefix, choices[i].option, choices[i].values[choices[i].value]);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that the inner KSP has no setting that the solves of the systems do not support */
static PetscErrorCode BJIDRSCheckInner(KSP inner)
{
  const char            *prefix = ((PetscObject)inner)->prefix;
  const KSPIDRSSettings *set;
  PetscBool              idrs, diagonal;
  PC                     pc;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)inner, KSPIDRS, &idrs));
  PetscCheck(idrs, PETSC_COMM_SELF, PETSC_ERR_SUP, "-%sksp_type %s: PCBJIDRS solves blocks by idrs only", prefix,
             ((PetscObject)inner)->type_name);
  PetscCall(KSPGetPC(inner, &pc));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)pc, &diagonal, PCNONE, PCJACOBI, ""));
  PetscCheck(diagonal, PETSC_COMM_SELF, PETSC_ERR_SUP, "-%spc_type %s: PCBJIDRS has none and jacobi inside", prefix,
             ((PetscObject)pc)->type_name);
  PetscCheck(inner->pc_side_set == PC_SIDE_DEFAULT || inner->pc_side_set == PC_RIGHT, PETSC_COMM_SELF, PETSC_ERR_SUP,
             "-%sksp_pc_side %s: PCBJIDRS has preconditioning from the right inside", prefix, PCSides[inner->pc_side_set]);
  PetscCheck(inner->normtype_set == KSP_NORM_DEFAULT || inner->normtype_set == KSP_NORM_UNPRECONDITIONED ||
               inner->normtype_set == KSP_NORM_NONE,
             PETSC_COMM_SELF, PETSC_ERR_SUP, "-%sksp_norm_type %s: PCBJIDRS has unpreconditioned and none inside", prefix,
             KSPNormTypes[inner->normtype_set]);
  PetscCheck(inner->converged == KSPConvergedDefault || inner->converged == KSPConvergedSkip, PETSC_COMM_SELF, PETSC_ERR_SUP,
             "PCBJIDRS has KSPConvergedDefault() and KSPConvergedSkip() inside, no other convergence test");
  PetscCheck(inner->guess_zero, PETSC_COMM_SELF, PETSC_ERR_SUP, "-%sksp_initial_guess_nonzero: PCBJIDRS begins with zero", prefix);
  PetscCheck(!inner->guess && !inner->guess_knoll, PETSC_COMM_SELF, PETSC_ERR_SUP, "-%s%s: PCBJIDRS begins with zero", prefix,
             inner->guess ? "ksp_guess_type" : "ksp_knoll");
  PetscCheck(inner->chknorm == -1, PETSC_COMM_SELF, PETSC_ERR_SUP,
             "-%sksp_check_norm_iteration %" PetscInt_FMT ": PCBJIDRS looks at all norms", prefix, inner->chknorm);
  PetscCheck(!inner->errorifnotconverged, PETSC_COMM_SELF, PETSC_ERR_SUP,
             "-%sksp_error_if_not_converged: see PCBJIDRSGetResults(), and PCSetErrorIfFailure()", prefix);
  PetscCheck(!inner->numbermonitors, PETSC_COMM_SELF, PETSC_ERR_SUP,
             "-%sksp_monitor: PCBJIDRS calls no monitors for its blocks; see PCBJIDRSGetResults()", prefix);
  PetscCall(KSPIDRSGetSettings_Private(inner, &set));
  PetscCheck(!set->smoothing, PETSC_COMM_SELF, PETSC_ERR_SUP, "-%sksp_idrs_smoothing: PCBJIDRS does not smooth residuals", prefix);
  PetscCall(BJIDRSCheckChoices(inner, set));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* BJIDRSGetLimits_Private - Gets the settings of the solves from the inner KSP */
PetscErrorCode BJIDRSGetLimits_Private(PC pc, IDRSSystemLimits *limits)
{
  const KSPIDRSSettings *set;
  KSP                    inner;

  PetscFunctionBegin;
  PetscCall(PCBJIDRSGetKSP(pc, &inner));
  PetscCall(BJIDRSCheckInner(inner));
  PetscCall(KSPGetTolerances(inner, &limits->rtol, &limits->abstol, NULL, &limits->maxits));
  /* without a test all systems make maxits steps */
  if (inner->normtype_set == KSP_NORM_NONE || inner->converged == KSPConvergedSkip) limits->rtol = -1.0;
  PetscCall(KSPIDRSGetSettings_Private(inner, &set));
  limits->s = set->s;
  PetscCheck(limits->s <= IDRS_SYSTEM_MAX_S, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
             "-%sksp_idrs_s %" PetscInt_FMT ": PCBJIDRS supports at most %d shadow vectors", ((PetscObject)inner)->prefix,
             limits->s, IDRS_SYSTEM_MAX_S);
  limits->seed        = (uint64_t)set->seed;
  limits->cosine      = set->cosine;
  limits->maxrestarts = set->maxrestarts;
  limits->growth      = set->maxrestarts ? IDRS_MAX_GROWTH : PETSC_MAX_REAL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  PCBJIDRSSetLocalBlocks - Sets the diagonal blocks of this process that `PCBJIDRS` solves

  Not Collective

  Input Parameters:
+ pc    - the preconditioner context
. n     - number of blocks on this process; 0 with `sizes` `NULL` for the default
- sizes - the number of rows of each block, or `NULL` for blocks of the same size

  Options Database Key:
. -pc_bjidrs_blocks n - number of blocks of the same size on each process

  Level: intermediate

  Note:
  By default the blocks are set with `MatSetVariableBlockSizes()`, before the set-up. If they are not set, the set-up finds the
  smallest blocks of consecutive rows without matrix entries between blocks. The set-up checks that the sum of the sizes is the
  number of rows of this process, or that `n` divides this number.

.seealso: [](ch_ksp), `PCBJIDRS`, `PCBJIDRSGetLocalBlocks()`, `PCBJacobiSetLocalBlocks()`, `MatSetVariableBlockSizes()`
@*/
PetscErrorCode PCBJIDRSSetLocalBlocks(PC pc, PetscInt n, const PetscInt sizes[])
{
  PC_BJIDRS *bjidrs;
  PetscInt  *copy = NULL;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  IDRSTryData(pc, PCBJIDRS, bjidrs);
  PetscCheck(n >= 0, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
             "-%spc_bjidrs_blocks %" PetscInt_FMT ": the number of blocks must not be negative", IDRSPrefix(pc), n);
  for (PetscInt i = 0; sizes && i < n; i++)
    PetscCheck(sizes[i] > 0, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
               "PCBJIDRSSetLocalBlocks(): size %" PetscInt_FMT " of block %" PetscInt_FMT " must be positive", sizes[i], i);
  if (sizes) {
    PetscCall(PetscMalloc1(PetscMax(n, 1), &copy));
    PetscCall(PetscArraycpy(copy, sizes, n));
  }
  PetscCall(PetscFree(bjidrs->sizes));
  bjidrs->sizes  = copy;
  bjidrs->nasked = n;
  /* the next application looks for the blocks again */
  pc->setupcalled = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@C
  PCBJIDRSGetLocalBlocks - Gets the diagonal blocks of this process that `PCBJIDRS` solves

  Not Collective

  Input Parameter:
. pc - the preconditioner context, which has been set up

  Output Parameters:
+ n      - number of blocks on this process, or `NULL`
- starts - array of `n` + 1: block i has the rows of this process from starts[i] to starts[i + 1] - 1, counted from 0, or `NULL`; it
  belongs to the preconditioner

  Level: intermediate

.seealso: [](ch_ksp), `PCBJIDRS`, `PCBJIDRSSetLocalBlocks()`
@*/
PetscErrorCode PCBJIDRSGetLocalBlocks(PC pc, PetscInt *n, const PetscInt *starts[])
{
  PC_BJIDRS *bjidrs;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  IDRSUseData(pc, PCBJIDRS, bjidrs);
  PetscCheck(bjidrs->starts, PETSC_COMM_SELF, PETSC_ERR_ORDER,
             "PCBJIDRSGetLocalBlocks(): the blocks are known after PCSetUp() only");
  if (n) *n = bjidrs->nblocks;
  if (starts) *starts = bjidrs->starts;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  PCBJIDRSGetKSP - Gets the `KSP` that has the options of the solves of `PCBJIDRS`

  Not Collective

  Input Parameter:
. pc - the preconditioner context

  Output Parameter:
. inner - the solver of type `KSPIDRS`, on one process; it belongs to the preconditioner

  Level: intermediate

  Note:
  This `KSP` never solves. See `PCBJIDRS` for the options that it supports.

.seealso: [](ch_ksp), `PCBJIDRS`, `KSPIDRS`, `KSPSetTolerances()`, `KSPIDRSSetShadowSize()`
@*/
PetscErrorCode PCBJIDRSGetKSP(PC pc, KSP *inner)
{
  PC_BJIDRS *bjidrs;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  IDRSUseData(pc, PCBJIDRS, bjidrs);
  if (!bjidrs->inner) {
    PetscErrorCode ierr;
    KSP            ksp;

    PetscCall(KSPCreate(PETSC_COMM_SELF, &ksp));
    ierr = BJIDRSSetInner(pc, ksp);
    if (ierr) PetscCall(KSPDestroy(&ksp));
    PetscCall(ierr);
    bjidrs->inner = ksp; /* only once it is complete */
  }
  *inner = bjidrs->inner;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@C
  PCBJIDRSGetResults - Gets the results of the solves in the last application of `PCBJIDRS` on this process

  Not Collective

  Input Parameter:
. pc - the preconditioner context

  Output Parameters:
+ n       - number of systems: blocks, or blocks times columns after `PCMatApply()`, or `NULL`
. reasons - array of `n`: the reason why each solve ended, or `NULL`
. its     - array of `n`: iterations, each of which applies the block; a verification applies it up to three times; or `NULL`
- norms   - array of `n`: norms of b - A x, computed from x, or `NULL`

  Level: intermediate

  Notes:
  The arrays belong to the preconditioner, and are valid until its next application or set-up. System i belongs to block i. After
  `PCMatApply()` it belongs to block i % nblocks and column i / nblocks, where nblocks is the number of blocks.

  The reasons are `KSP_CONVERGED_RTOL` and `KSP_CONVERGED_ATOL`, `KSP_CONVERGED_ITS` without a convergence test,
  `KSP_CONVERGED_HAPPY_BREAKDOWN`, `KSP_DIVERGED_ITS`, `KSP_DIVERGED_BREAKDOWN`, and `KSP_DIVERGED_NANORINF`.

.seealso: [](ch_ksp), `PCBJIDRS`, `PCBJIDRSGetLocalBlocks()`, `KSPConvergedReason`
@*/
PetscErrorCode PCBJIDRSGetResults(PC pc, PetscInt *n, const KSPConvergedReason *reasons[], const PetscInt *its[],
                                  const PetscReal *norms[])
{
  PC_BJIDRS *bjidrs;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  IDRSUseData(pc, PCBJIDRS, bjidrs);
  if (n) *n = bjidrs->nsystems;
  if (reasons) *reasons = bjidrs->reasons;
  if (its) *its = bjidrs->its;
  if (norms) *norms = bjidrs->norms;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* BJIDRSComposeSetters_Private - Composes the functions above with the preconditioner, or removes them */
PetscErrorCode BJIDRSComposeSetters_Private(PC pc, PetscBool compose)
{
  PetscFunctionBegin;
  IDRSCompose(pc, compose, PCBJIDRSSetLocalBlocks);
  IDRSCompose(pc, compose, PCBJIDRSGetLocalBlocks);
  IDRSCompose(pc, compose, PCBJIDRSGetKSP);
  IDRSCompose(pc, compose, PCBJIDRSGetResults);
  PetscFunctionReturn(PETSC_SUCCESS);
}
