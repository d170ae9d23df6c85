/* The setters of KSPIDRS, and what a program may ask after a solve */
#include "idrsimpl.h"
#include <petscidrs/private/idrssettings.h>

/* KSPIDRSGetSettings_Private - Gets the settings of a solver of type KSPIDRS */
PetscErrorCode KSPIDRSGetSettings_Private(KSP ksp, const KSPIDRSSettings **set)
{
  KSP_IDRS *idrs;

  PetscFunctionBegin;
  IDRSUseData(ksp, KSPIDRS, idrs);
  *set = &idrs->set;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Begins a setter: gets the data of a solver of this type; for others the setter does nothing */
#define KSPIDRSBeginSetter(Kind, ksp, value, idrs) \
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1); \
  PetscValidLogicalCollective##Kind(ksp, value, 2); \
  IDRSTryData(ksp, KSPIDRS, idrs)

/* Checks a value of an enum, which is in 0 to `last` */
#define KSPIDRSCheckEnum(ksp, type, value, last) \
  PetscCheck((int)(value) >= 0 && (int)(value) <= (int)(last), PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_OUTOFRANGE, \
             "KSPIDRSSet" #type "(): %d is not a KSPIDRS" #type ", 0 to %d", (int)(value), (int)(last))

/* KSPIDRSCountReductions_Private - Counts the reductions of the last solve */
PetscErrorCode KSPIDRSCountReductions_Private(KSP ksp, PetscInt *reductions)
{
  KSP_IDRS         *idrs = (KSP_IDRS *)ksp->data;
  IDRSWorkspaceInfo info;

  PetscFunctionBegin;
  *reductions = 0;
  if (!idrs->slot[0].G) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSGetWorkInfo_Private(ksp, &info));
  *reductions = (PetscInt)(info.reductions - idrs->counts.before + idrs->counts.norms);
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
  The method keeps 2s+5 work vectors, and one more with `PCJACOBI`. If `s` changes after
  `KSPSetUp()`, the next solve sets the solver up again. With explicit shadow vectors `s` is their number, and another value is an
  error.

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSGetShadowSize()`, `KSPIDRSSetShadowVecs()`
@*/
PetscErrorCode KSPIDRSSetShadowSize(KSP ksp, PetscInt s)
{
  KSP_IDRS *idrs;

  PetscFunctionBegin;
  KSPIDRSBeginSetter(Int, ksp, s, idrs);
  PetscCheck(s >= 1 && s <= IDRS_MAX_S, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_OUTOFRANGE,
             "-%sksp_idrs_s %" PetscInt_FMT ": the number of shadow vectors must be in 1 to %d", IDRSPrefix(ksp), s, IDRS_MAX_S);
  PetscCheck(!idrs->set.P || s == idrs->set.s, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_WRONGSTATE,
             "-%sksp_idrs_s %" PetscInt_FMT ": KSPIDRSSetShadowVecs() has given %" PetscInt_FMT " shadow vectors", IDRSPrefix(ksp),
             s, idrs->set.s);
  if (s != idrs->set.s) ksp->setupstage = KSP_SETUP_NEW;
  idrs->set.s = s;
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
  KSP_IDRS *idrs;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  IDRSUseData(ksp, KSPIDRS, idrs);
  *s = idrs->set.s;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSSetShadowVecs - Sets explicit shadow vectors of `KSPIDRS`, which replace the hashed shadow space

  Collective

  Input Parameters:
+ ksp - the Krylov solver context
. s   - number of shadow vectors, or 0 to return to the hashed space
- P   - array of s vectors with the layout of the solution, or `NULL`

  Level: intermediate

  Notes:
  The vectors are referenced, not copied, and must not change during a solve. They need not be orthonormal, but should have similar
  norms. `KSPSetUp()` checks their sizes. They need the implementation vec, which is slower than cuda on a GPU.

  Use explicit shadow vectors for comparisons with other codes. Hashed shadow vectors need no memory and no memory traffic.
  `KSPIDRSSetBlock()` does not support explicit ones.

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSSetShadowSize()`, `KSPIDRSSetShadowSeed()`
@*/
PetscErrorCode KSPIDRSSetShadowVecs(KSP ksp, PetscInt s, Vec P[])
{
  KSP_IDRS *idrs;
  Vec      *columns;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  PetscValidLogicalCollectiveInt(ksp, s, 2);
  for (PetscInt i = 0; P && i < s; i++) {
    PetscValidHeaderSpecific(P[i], VEC_CLASSID, 3);
    PetscCheckSameComm(ksp, 1, P[i], 3);
  }
  IDRSTryData(ksp, KSPIDRS, idrs);
  PetscCheck(s >= 0 && s <= IDRS_MAX_S, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_OUTOFRANGE,
             "KSPIDRSSetShadowVecs(): the number of shadow vectors %" PetscInt_FMT " must be in 0 to %d", s, IDRS_MAX_S);
  PetscCheck(!s || P, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_NULL,
             "KSPIDRSSetShadowVecs(): no array for %" PetscInt_FMT " shadow vectors", s);
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
  An entry of the shadow space is a function of the seed, the global row and the column. It is the same on any number of processes
  and with every implementation. Every solve begins with this seed; a restart after a breakdown uses the next one. A solve inside
  another solve of this type, for example in its preconditioner, gets other entries from the same seed. With the shadow space of the
  outer solve it would return vectors on which the outer recurrence breaks down.

.seealso: [](ch_ksp), `KSPIDRS`
@*/
PetscErrorCode KSPIDRSSetShadowSeed(KSP ksp, PetscInt seed)
{
  KSP_IDRS *idrs;

  PetscFunctionBegin;
  KSPIDRSBeginSetter(Int, ksp, seed, idrs);
  PetscCheck(seed >= 0, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_OUTOFRANGE,
             "-%sksp_idrs_seed %" PetscInt_FMT ": the seed must not be negative", IDRSPrefix(ksp), seed);
  idrs->set.seed = seed;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSSetMinimumCosine - Sets the cosine below which `KSPIDRS` enlarges omega

  Logically Collective

  Input Parameters:
+ ksp    - the Krylov solver context
- cosine - in [0,1) (default 0.5), 0 never to enlarge omega

  Options Database Key:
. -ksp_idrs_cosine cosine - smallest cosine for omega

  Level: intermediate

  Note:
  omega minimizes the norm of r - omega t with t = A r. If the cosine of the angle between t and r is below `cosine`, omega is
  enlarged to its value at the angle with this cosine, which keeps the recurrence accurate {cite}`sleijpen:1995`. Values above 0.5
  may diverge on strong convection. Try 0.3 for central differences that make the operator nearly skew-symmetric.

.seealso: [](ch_ksp), `KSPIDRS`
@*/
PetscErrorCode KSPIDRSSetMinimumCosine(KSP ksp, PetscReal cosine)
{
  KSP_IDRS *idrs;

  PetscFunctionBegin;
  KSPIDRSBeginSetter(Real, ksp, cosine, idrs);
  PetscCheck(cosine >= 0.0 && cosine < 1.0, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_OUTOFRANGE,
             "-%sksp_idrs_cosine %g: must be in [0,1)", IDRSPrefix(ksp), (double)cosine);
  idrs->set.cosine = cosine;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSSetUpdateTolerance - Sets the decrease of the residual norm that triggers a reliable update of `KSPIDRS`

  Logically Collective

  Input Parameters:
+ ksp - the Krylov solver context
- tol - in [0,1) (default 1e-3), 0 for no reliable updating

  Options Database Key:
. -ksp_idrs_update_tol tol - decrease of the residual norm that triggers a reliable update

  Level: intermediate

  Note:
  If the residual norm at the end of a cycle is below `tol` times its largest value since the last update, the residual is
  recomputed from the iterate with one more matvec. This keeps residual and iterate consistent. Without reliable updating the method
  keeps one vector less.

.seealso: [](ch_ksp), `KSPIDRS`
@*/
PetscErrorCode KSPIDRSSetUpdateTolerance(KSP ksp, PetscReal tol)
{
  KSP_IDRS *idrs;

  PetscFunctionBegin;
  KSPIDRSBeginSetter(Real, ksp, tol, idrs);
  PetscCheck(tol >= 0.0 && tol < 1.0, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_OUTOFRANGE,
             "-%sksp_idrs_update_tol %g: must be in [0,1)", IDRSPrefix(ksp), (double)tol);
  if ((tol > 0.0) != (idrs->set.updatetol > 0.0)) ksp->setupstage = KSP_SETUP_NEW; /* one work vector more or less */
  idrs->set.updatetol = tol;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSSetMaxRestarts_Private - Sets the maximum number of consecutive restarts after breakdowns without progress */
PetscErrorCode KSPIDRSSetMaxRestarts_Private(KSP ksp, PetscInt n)
{
  KSP_IDRS *idrs;

  PetscFunctionBegin;
  KSPIDRSBeginSetter(Int, ksp, n, idrs);
  PetscCheck(n >= 0, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_OUTOFRANGE,
             "-%sksp_idrs_max_restarts %" PetscInt_FMT ": must not be negative", IDRSPrefix(ksp), n);
  idrs->set.maxrestarts = n;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSSetSmoothing - Sets whether `KSPIDRS` uses residual smoothing

  Logically Collective

  Input Parameters:
+ ksp       - the Krylov solver context
- smoothing - `PETSC_TRUE` for an iterate whose residual norm never grows (default `PETSC_FALSE`)

  Options Database Key:
. -ksp_idrs_smoothing (true|false) - whether to smooth the residual

  Level: intermediate

  Notes:
  Residuals and iterates of IDR(s) may grow far before they decrease. Smoothing adds a second iterate: the one with the smallest
  residual norm on the line through its predecessor and the iterate of the recurrence. The second iterate is monitored, tested and
  returned; the recurrence does not change. Use smoothing for convergence histories without peaks, for solves with few iterations,
  and for tests that examine the iterate, such as the test of `SNESNEWTONTR`.

  Smoothing needs three more vectors, and about twelve more vector reads or writes per matvec. Its sums are part of the reductions
  of the recurrence. A norm that rounding makes inaccurate is recomputed from its vector. On a GPU the host
  waits for the device in every iteration.

.seealso: [](ch_ksp), `KSPIDRS`
@*/
PetscErrorCode KSPIDRSSetSmoothing(KSP ksp, PetscBool smoothing)
{
  KSP_IDRS *idrs;

  PetscFunctionBegin;
  KSPIDRSBeginSetter(Bool, ksp, smoothing, idrs);
  if (smoothing != idrs->set.smoothing) ksp->setupstage = KSP_SETUP_NEW;
  idrs->set.smoothing = smoothing;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSSetRecycle - Sets when a solve with `KSPIDRS` begins with the bases of the previous solve

  Logically Collective

  Input Parameters:
+ ksp     - the Krylov solver context
- recycle - never, automatically, or always (default `KSP_IDRS_RECYCLE_NEVER`)

  Options Database Key:
. -ksp_idrs_recycle (never|auto|always) - when a solve recycles

  Level: intermediate

  Notes:
  Time steps, Newton iterations and adjoints solve a sequence of systems. With this setting a solve begins with U, G = A U and the
  shadow space of the previous solve. If the residual norm falls slowly at first and then faster, later solves need 0.3 to 0.7 times
  as many matvecs as the first solve. If it falls at an even rate, as on three-dimensional convection and diffusion, recycling needs
  more matvecs. Choose s = 8.

  `KSP_IDRS_RECYCLE_AUTO` decides from the convergence of the last solve that began without bases, and from the growth of the
  residual norm when the bases are applied to the new right-hand side. After 0.6 of the expected iterations it looks at the norm
  once more. If the norm has not fallen by a quarter of the expected digits, the solve restarts with the next seed. After such a
  failure, or another restart, the next 10 solves do not recycle, after a second failure the next 20, and so on. It needs s >= 2 and
  residual norms, so it does nothing with `KSP_NORM_NONE`. With explicit shadow vectors, or with 0 in `-ksp_idrs_max_restarts`, it
  does not restart. `-ksp_view` and `-info` show the decisions.

  `KSP_IDRS_RECYCLE_ALWAYS` recycles whenever there are bases for the same shadow space. It only refuses bases with which the
  residual norm would grow so far that most digits are lost, or to more than 1e-3 of the tolerance of divergence. With bases the
  residual norm grows in the first iterations, so a solve that ends at a small maximum number of iterations may return a larger
  residual than it began with. Therefore `KSP_IDRS_RECYCLE_AUTO` does not recycle if 0.6 of the iterations of the last solve that
  began without bases are more than the maximum.

  If the operator is the same matrix in the same state, a recycled solve needs no start, which saves s matvecs. If the operator
  has changed, the start computes G = A U. The start also computes G = A U if the state of the operator does not show a change:
  for `MATSHELL`, `MATMFFD`, `MATNEST` and all other types except aij, baij, sbaij, sell and dense, for aij matrices with a
  `MatMult()` of the user (a `MatMultTranspose()` of the user is not noticed), and with a preconditioner on the left other than
  `PCNONE`. A preconditioner on the right may change between solves. If the entries of a matrix change and its state does not, as
  with the blocks that `MatMPIAIJGetSeqAIJ()` returns, convergence is delayed, and b - A x is verified as in every solve.

  The result of a solve depends on the solves before it. `KSPIDRSResetRecycle()`, `KSPReset()`, another seed, another s and other
  shadow vectors make the next solve independent, and `KSP_IDRS_RECYCLE_NEVER` discards the bases. The bases of a solve cannot be
  recycled if it fails, except with `KSP_DIVERGED_ITS`, if it ends in its first s iterations, or if it ends at the maximum number of
  iterations while a GPU makes more steps. If the first residual ends a solve, the bases do not change.

  Recycling needs no additional vectors, except if solves with A and with its transpose alternate: each direction has its own
  bases, 2s more vectors. In `KSPMatSolve()` a right-hand side begins with the bases of the
  previous right-hand side in the same slot. Block recurrences do not recycle.

  Recycling in single precision has not been measured.

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSResetRecycle()`, `KSPIDRSRecycle`, `KSPSetInitialGuessNonzero()`, `KSPGuess`
@*/
PetscErrorCode KSPIDRSSetRecycle(KSP ksp, KSPIDRSRecycle recycle)
{
  KSP_IDRS *idrs;

  PetscFunctionBegin;
  KSPIDRSBeginSetter(Enum, ksp, recycle, idrs);
  KSPIDRSCheckEnum(ksp, Recycle, recycle, KSP_IDRS_RECYCLE_ALWAYS);
  PetscCheck(idrs->state != KSPIDRS_SOLVING || recycle == idrs->set.recycle, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ORDER,
             "KSPIDRSSetRecycle() is called inside KSPSolve(): call it between solves");
  if (recycle == KSP_IDRS_RECYCLE_NEVER) PetscCall(KSPIDRSForgetKept_Private(ksp));
  idrs->set.recycle = recycle;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSResetRecycle - Makes the next solve with `KSPIDRS` independent of earlier ones

  Logically Collective

  Input Parameter:
. ksp - the Krylov solver context

  Level: intermediate

  Note:
  Also discards the records of `KSP_IDRS_RECYCLE_AUTO` of earlier solves. If solves with A and with its transpose have alternated,
  the bases of the other direction are freed.

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSSetRecycle()`, `KSPReset()`
@*/
PetscErrorCode KSPIDRSResetRecycle(KSP ksp)
{
  KSP_IDRS *idrs;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  IDRSTryData(ksp, KSPIDRS, idrs);
  PetscCheck(idrs->state != KSPIDRS_SOLVING, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ORDER,
             "KSPIDRSResetRecycle() is called inside KSPSolve(): call it between solves");
  PetscCall(KSPIDRSForgetKept_Private(ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSGetCounts - Gets the numbers of matvecs, reductions, reliable updates and restarts of the last solve with `KSPIDRS`

  Not Collective

  Input Parameter:
. ksp - the Krylov solver context

  Output Parameters:
+ matvecs    - matvecs, multiplications of a vector by the operator, also those of reliable updates and verifications, or `NULL`
. reductions - global reductions, or, on one process, projections that would need a reduction, or `NULL`
. updates    - reliable updates, or `NULL`
- restarts   - restarts after breakdowns, or `NULL`

  Level: intermediate

  Note:
  `-ksp_view` prints the same numbers.

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSSetUpdateTolerance()`
@*/
PetscErrorCode KSPIDRSGetCounts(KSP ksp, PetscInt *matvecs, PetscInt *reductions, PetscInt *updates, PetscInt *restarts)
{
  KSP_IDRS *idrs;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  IDRSUseData(ksp, KSPIDRS, idrs);
  if (matvecs) *matvecs = idrs->counts.matvecs;
  if (reductions) PetscCall(KSPIDRSCountReductions_Private(ksp, reductions));
  if (updates) *updates = idrs->counts.updates;
  if (restarts) *restarts = idrs->counts.restarts;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSSetWidth_Private - Sets the number of right-hand sides that KSPMatSolve() solves at the same time */
PetscErrorCode KSPIDRSSetWidth_Private(KSP ksp, PetscInt width)
{
  KSP_IDRS *idrs;

  PetscFunctionBegin;
  KSPIDRSBeginSetter(Int, ksp, width, idrs);
  PetscCheck(width >= 1 && width <= IDRS_MAX_WIDTH, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_OUTOFRANGE,
             "-%sksp_idrs_width %" PetscInt_FMT ": must be between 1 and %d", IDRSPrefix(ksp), width, IDRS_MAX_WIDTH);
  idrs->set.width = width;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  KSPIDRSSetBlock - Sets whether simultaneous right-hand sides of `KSPMatSolve()` with `KSPIDRS` have one block recurrence

  Logically Collective

  Input Parameters:
+ ksp   - the Krylov solver context
- block - `PETSC_TRUE` for one block recurrence, `PETSC_FALSE` for a recurrence each (default)

  Options Database Key:
. -ksp_idrs_block (true|false) - one block recurrence

  Level: intermediate

  Notes:
  A block recurrence searches the solution of each right-hand side in the space of all of them. Its coefficients are m x m
  matrices, where m is the rank of the first residuals, at most the width of `-ksp_idrs_width`. If convergence is slow, it needs
  far fewer matvecs: 0.2 to 0.45 times as many on two-dimensional problems with 8 or 16 right-hand sides. If convergence is fast,
  as on three-dimensional problems, it needs as many. Memory-bound vector operations cost the same. Linearly dependent right-hand
  sides cost nothing. In single precision rounding errors grow too fast.

  Each right-hand side has its own tolerance, and converges only if its b - A x meets it. The number of its iterations depends on
  the other right-hand sides, and the next right-hand sides begin when the whole block has ended. If the block recurrence breaks
  down, its residuals grow too far, or it finds no smaller residual in 100 iterations, the remaining right-hand sides continue with
  single recurrences. `-ksp_view` shows their number and the reason.

  The shadow space has s m hashed vectors, which need no memory. The host computes the coefficients, and waits once per iteration.

  `KSPMatSolve()` reports an error for a width of 1, more than 1024 shadow vectors (s times the width), residual smoothing,
  `KSP_IDRS_RUN_PERSISTENT`, and explicit shadow vectors, because their number s m is known only during the solve. If right-hand
  sides are solved one after another, this option has no effect, and `-ksp_view` shows the reason.

.seealso: [](ch_ksp), `KSPIDRS`, `KSPIDRSGetColumnResults()`, `KSPMatSolve()`
@*/
PetscErrorCode KSPIDRSSetBlock(KSP ksp, PetscBool block)
{
  KSP_IDRS *idrs;

  PetscFunctionBegin;
  KSPIDRSBeginSetter(Bool, ksp, block, idrs);
  idrs->set.block = block;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@C
  KSPIDRSGetColumnResults - Gets the results of each right-hand side of the last `KSPMatSolve()` with `KSPIDRS`

  Not Collective

  Input Parameter:
. ksp - the Krylov solver context

  Output Parameters:
+ n       - number of right-hand sides, 0 if there was no `KSPMatSolve()`, or `NULL`
. reasons - the reason why the solve ended, for each right-hand side, or `NULL`
. its     - numbers of iterations, or `NULL`
- norms   - last reported residual norms, or `NULL`

  Level: intermediate

  Note:
  `KSPGetConvergedReason()` returns the worst reason, `KSPGetIterationNumber()` the largest number of iterations, and
  `KSPGetResidualNorm()` the largest norm. With `KSPSetMatSolveBatchSize()` all of these, and these arrays, belong to the last
  batch. The arrays belong to the solver, and are valid until the next solve.

.seealso: [](ch_ksp), `KSPIDRS`, `KSPMatSolve()`, `KSPGetConvergedReason()`
@*/
PetscErrorCode KSPIDRSGetColumnResults(KSP ksp, PetscInt *n, const KSPConvergedReason *reasons[], const PetscInt *its[],
                                       const PetscReal *norms[])
{
  KSP_IDRS *idrs;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(ksp, KSP_CLASSID, 1);
  IDRSUseData(ksp, KSPIDRS, idrs);
  if (n) *n = idrs->results.count;
  if (reasons) *reasons = idrs->results.reasons;
  if (its) *its = idrs->results.its;
  if (norms) *norms = idrs->results.norms;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSComposeSetters_Private - Composes the public functions above with the KSP, or removes them */
PetscErrorCode KSPIDRSComposeSetters_Private(KSP ksp, PetscBool compose)
{
  PetscFunctionBegin;
  IDRSCompose(ksp, compose, KSPIDRSSetShadowSize);
  IDRSCompose(ksp, compose, KSPIDRSGetShadowSize);
  IDRSCompose(ksp, compose, KSPIDRSSetShadowVecs);
  IDRSCompose(ksp, compose, KSPIDRSSetShadowSeed);
  IDRSCompose(ksp, compose, KSPIDRSSetMinimumCosine);
  IDRSCompose(ksp, compose, KSPIDRSSetUpdateTolerance);
  IDRSCompose(ksp, compose, KSPIDRSSetSmoothing);
  IDRSCompose(ksp, compose, KSPIDRSSetBlock);
  IDRSCompose(ksp, compose, KSPIDRSGetColumnResults);
  IDRSCompose(ksp, compose, KSPIDRSSetRecycle);
  IDRSCompose(ksp, compose, KSPIDRSResetRecycle);
  IDRSCompose(ksp, compose, KSPIDRSGetCounts);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Replaces a value that has another name since version 0.4 in the options database, with a warning like PETSc's for old options */
static PetscErrorCode KSPIDRSReplaceOldValue_Private(KSP ksp, const char option[], const char old[], const char now[])
{
  const PetscObject object = (PetscObject)ksp;
  char              value[64], full[PETSC_MAX_OPTION_NAME];
  PetscBool         set, same = PETSC_FALSE;

  PetscFunctionBegin;
  PetscCall(PetscOptionsGetString(object->options, object->prefix, option, value, sizeof(value), &set));
  if (set) PetscCall(PetscStrcasecmp(value, old, &same));
  if (!same) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscSNPrintf(full, sizeof(full), "-%s%s", IDRSPrefix(ksp), option + 1));
  PetscCall(PetscOptionsSetValue(object->options, full, now));
  PetscCall(PetscPrintf(PetscObjectComm(object), "** petscidrs warning: %s %s is deprecated since version 0.5, use %s %s\n", full,
                        old, full, now));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode KSPSetFromOptions_IDRS(KSP ksp, IDRSOptionItems PetscOptionsObject)
{
  const KSPIDRSSettings *now = &((KSP_IDRS *)ksp->data)->set;

  PetscFunctionBegin;
  PetscCall(KSPIDRSReplaceOldValue_Private(ksp, "-ksp_idrs_implementation", "host", "vec"));
  PetscCall(KSPIDRSReplaceOldValue_Private(ksp, "-ksp_idrs_run", "steps", "stepwise"));
  PetscCall(KSPIDRSReplaceOldValue_Private(ksp, "-ksp_idrs_run", "whole", "persistent"));
  PetscCall(KSPIDRSReplaceOldValue_Private(ksp, "-ksp_idrs_product", "sliced", "sell"));
  PetscOptionsHeadBegin(PetscOptionsObject, "KSP IDRS options");
  IDRSOption(Int, ksp, "-ksp_idrs_s", "Number of shadow vectors", KSPIDRSSetShadowSize, now->s);
  IDRSOption(Int, ksp, "-ksp_idrs_seed", "Seed of the hashed shadow space", KSPIDRSSetShadowSeed, now->seed);
  IDRSOption(Real, ksp, "-ksp_idrs_cosine", "Smallest cosine for omega (0 = off)", KSPIDRSSetMinimumCosine, now->cosine);
  IDRSOption(Real, ksp, "-ksp_idrs_update_tol", "Fall of the residual norm between reliable updates (0 = none)",
             KSPIDRSSetUpdateTolerance, now->updatetol);
  IDRSOption(Int, ksp, "-ksp_idrs_max_restarts", "Restarts after breakdowns, in a row without gain", KSPIDRSSetMaxRestarts_Private,
             now->maxrestarts);
  IDRSOption(Bool, ksp, "-ksp_idrs_smoothing", "Smooth the residual", KSPIDRSSetSmoothing, now->smoothing);
  IDRSOptionEnum(ksp, "-ksp_idrs_implementation", "Back end of the vector operations", KSPIDRSSetImplementation_Private,
                 KSPIDRSImplementations, now->implementation);
  IDRSOptionEnum(ksp, "-ksp_idrs_communication", "How reductions travel between GPUs", KSPIDRSSetCommunication_Private,
                 KSPIDRSCommunications, now->communication);
  IDRSOptionEnum(ksp, "-ksp_idrs_product", "Back end of the matvecs", KSPIDRSSetProduct_Private, KSPIDRSProducts, now->product);
  IDRSOptionEnum(ksp, "-ksp_idrs_run", "Iterations by steps or in one kernel", KSPIDRSSetRun_Private, KSPIDRSRuns, now->run);
  IDRSOptionEnum(ksp, "-ksp_idrs_recycle", "When a solve begins with the bases of the solve before", KSPIDRSSetRecycle,
                 KSPIDRSRecycles, now->recycle);
  IDRSOption(Int, ksp, "-ksp_idrs_width", "Right-hand sides of KSPMatSolve() at the same time", KSPIDRSSetWidth_Private,
             now->width);
  IDRSOption(Bool, ksp, "-ksp_idrs_block", "One block recurrence for right-hand sides at the same time", KSPIDRSSetBlock,
             now->block);
  PetscOptionsHeadEnd();
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Defines the setter of an option that has the values of an enum, 0 to `last`; setup: another value needs another set-up */
#define KSPIDRS_ENUM_SETTER(Name, member, last, setup) \
  PetscErrorCode KSPIDRSSet##Name##_Private(KSP ksp, KSPIDRS##Name value) \
  { \
    KSP_IDRS *idrs; \
\
    PetscFunctionBegin; \
    KSPIDRSBeginSetter(Enum, ksp, value, idrs); \
    KSPIDRSCheckEnum(ksp, Name, value, last); \
    if ((setup) && value != idrs->set.member) ksp->setupstage = KSP_SETUP_NEW; \
    idrs->set.member = value; \
    PetscFunctionReturn(PETSC_SUCCESS); \
  }
KSPIDRS_ENUM_SETTER(Implementation, implementation, KSP_IDRS_CUDA, PETSC_TRUE)
KSPIDRS_ENUM_SETTER(Communication, communication, KSP_IDRS_COMMUNICATION_PEER, PETSC_FALSE)
KSPIDRS_ENUM_SETTER(Product, product, KSP_IDRS_PRODUCT_SELL, PETSC_FALSE)
KSPIDRS_ENUM_SETTER(Run, run, KSP_IDRS_RUN_PERSISTENT, PETSC_FALSE)
