/*
   The Krylov solver KSPIDRS: type, set-up, begin and end of a solve, options
*/
#include "idrsimpl.h"
#include <petscidrs/private/idrssettings.h>

/* Default divergence tolerance, of PETSc and of KSPIDRS: the residual of IDR(s) may rise far before it falls */
#define KSP_DIVTOL  ((PetscReal)1e4)
#define IDRS_DIVTOL ((PetscReal)1e30)

/* Solves of this type that are in progress in this thread, one inside the other: see KSPIDRSBeginRecurrence_Private() */
static _Thread_local PetscInt KSPIDRSNesting = 0;

/* Frees the data of KSPSetUp_IDRS() */
static PetscErrorCode KSPReset_IDRS(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  for (PetscInt i = 0; idrs->state != KSPIDRS_IDLE && i < idrs->slots; i++) {
    if (idrs->slot[i].work) PetscCall(IDRSWorkSetFailed(idrs->slot[i].work));
  }
  PetscCall(KSPIDRSDestroySlots_Private(ksp));
  PetscCall(KSPIDRSDestroyPanels_Private(ksp, 0, 1));
  PetscCall(IDRSWorkDestroy(1, &idrs->slot[0].work));
  PetscCall(IDRSProductDestroy(&idrs->product));
  PetscCall(VecDestroyVecs(idrs->nvecs, &idrs->vecs));
  PetscCall(VecDestroy(&idrs->solution));
  PetscCall(VecDestroyVecs(1, &idrs->inverse));
  PetscCall(PetscMemzero(idrs->slot, sizeof(idrs->slot)));
  idrs->nvecs  = 0;
  idrs->active = 1;
  idrs->state  = KSPIDRS_IDLE;
  PetscCall(PetscMemzero(&idrs->counts, sizeof(idrs->counts)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPDestroy_IDRS(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  PetscCall(KSPReset_IDRS(ksp));
  PetscCall(KSPIDRSResetResults_Private(ksp));
  PetscCall(IDRSColumnsDestroy(idrs->set.s, &idrs->set.P));
  PetscCall(IDRSSetDefaultDivtol(ksp, IDRS_DIVTOL, KSP_DIVTOL)); /* the next type has PETSc's tolerance again */
  PetscCall(KSPIDRSComposeSetters_Private(ksp, PETSC_FALSE));
  PetscCall(KSPDestroyDefault(ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates panels and work vectors: 2s + 5, three more with smoothing, s more if the back end stores the shadow space */
static PetscErrorCode KSPSetUp_IDRS(KSP ksp)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  const PetscInt s = idrs->set.s, kept = idrs->set.updatetol > 0.0 ? 5 : 4, count = kept + (idrs->set.smoothing ? 3 : 0);

  PetscFunctionBegin;
  PetscCall(KSPReset_IDRS(ksp));
  PetscCall(KSPIDRSCreateVecs_Private(ksp, count, &idrs->vecs));
  idrs->nvecs = count;
  idrs->d = idrs->e = idrs->q = NULL;
  if (idrs->set.smoothing) {
    idrs->d = idrs->vecs[kept];
    idrs->e = idrs->vecs[kept + 1];
    idrs->q = idrs->vecs[kept + 2];
  }
  if (idrs->set.P) {
    PetscLayout theirs, ours;
    PetscBool   same;

    PetscCall(VecGetLayout(idrs->vecs[0], &ours));
    for (PetscInt i = 0; i < s; i++) {
      PetscCall(VecGetLayout(idrs->set.P[i], &theirs));
      PetscCall(PetscLayoutCompare(ours, theirs, &same)); /* the same answer on all processes */
      PetscCheck(same, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_SIZ,
                 "KSPIDRSSetShadowVecs(): shadow vector %" PetscInt_FMT " has local size %" PetscInt_FMT ", global %" PetscInt_FMT
                 ", the solution has %" PetscInt_FMT ", %" PetscInt_FMT,
                 i, theirs->n, theirs->N, ours->n, ours->N);
    }
  }
  PetscCall(IDRSProductCreate(&idrs->product));
  PetscCall(IDRSWorkCreate(idrs->vecs[0], s, idrs->set.P, idrs->set.implementation, 1, &idrs->slot[0].work));
  PetscCall(KSPIDRSSetSlot_Private(&idrs->slot[0], idrs->slot[0].work, idrs->vecs));
  idrs->memory = KSPIDRS_UNKNOWN;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Repeats the set-up inside KSPSolve(), if the solution has moved between host and device, or the last solve ended with an error */
static PetscErrorCode KSPIDRSSetUpAgain_Private(KSP ksp)
{
  const KSPSetUpStage stage = ksp->setupstage;

  PetscFunctionBegin;
  ksp->setupstage = KSP_SETUP_NEW; /* in case the set-up fails */
  PetscCall(KSPSetUp_IDRS(ksp));
  ksp->setupstage = stage;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Prepares the slots of this solve */
static PetscErrorCode KSPIDRSStartSlots_Private(KSP ksp)
{
  KSP_IDRS *idrs  = (KSP_IDRS *)ksp->data;
  IDRSGroup group = {.count = idrs->active};

  PetscFunctionBegin;
  for (PetscInt i = 0; i < idrs->active; i++) {
    KSPIDRSColumn *col = &idrs->slot[i];

    col->p      = KSPIDRSIsPreconditioned(idrs) || idrs->diagonal ? col->v : col->r;
    col->anchor = !idrs->exact || !(idrs->set.updatetol > 0.0) ? NULL : (i ? idrs->slotvecs[5 * (i - 1) + 4] : idrs->vecs[4]);
    col->trust  = KSPIDRSFreshTrust();
    col->scale  = 1.0;
    PetscCall(PetscMemzero(&col->rec, sizeof(col->rec)));
    PetscCall(IDRSWorkSetProduct(col->work, idrs->reader == KSPIDRS_READ_BY_NONE ? NULL : idrs->product));
    PetscCall(IDRSWorkStart(col->work, (PetscBool)(col->p == col->v), idrs->diagonal));
    IDRSWorkSetPolynomial(col->work, idrs->polynomial);
    group.work[i] = col->work;
  }
  PetscCall(KSPIDRSGetScatters_Private(ksp, &idrs->scatters));
  PetscCall(IDRSWorkConnect(&group, idrs->set.communication, idrs->scatters));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Prepares everything that depends on the operators and options of this solve, for `active` simultaneous right-hand sides */
static PetscErrorCode KSPIDRSPrepareSolve_Private(KSP ksp, PetscInt active)
{
  KSP_IDRS    *idrs = (KSP_IDRS *)ksp->data;
  PetscBool    moved;
  PetscInt     level;
  IDRSWorkInfo info;

  PetscFunctionBegin;
  PetscCall(KSPIDRSCheckPlacement_Private(ksp, &moved));
  if (moved) {
    PetscCall(KSPIDRSSetUpAgain_Private(ksp));
    PetscCall(KSPIDRSCheckPlacement_Private(ksp, &moved));
  }
  PetscCall(KSPIDRSMakeSlots_Private(ksp, active));
  PetscCall(KSPIDRSTurnSlots_Private(ksp));
  idrs->active = active;
  PetscCall(KSPIDRSSetOperator_Private(ksp));
  PetscCall(KSPIDRSChooseProduct_Private(ksp));
  /* before 3.26 a new type or matrix is set up only in PCApply(), which does not report a failure */
  PetscCall(PCSetUp(ksp->pc));
  PetscCall(KSPIDRSSetPreconditioner_Private(ksp));
  PetscCall(KSPIDRSStartSlots_Private(ksp));
  PetscCall(KSPIDRSGetWorkInfo_Private(ksp, &info));
  PetscCall(PetscMemzero(&idrs->counts, sizeof(idrs->counts)));
  idrs->counts.before = info.reductions;
  /* PETSc counts the nesting by its preconditioners; KSPIDRSNesting also counts solvers in an operator or PCSHELL of the user */
  PetscCall(IDRSGetNestLevel(ksp, &level));
  idrs->nesting = PetscMax(level, KSPIDRSNesting);
  PetscCall(KSPIDRSChooseRun_Private(ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   If one right-hand side fits in the persistent kernel, but not two at the same time, and if s is at least KSPIDRS_SEQUENTIAL_S and
   n s is above KSPIDRS_SEQUENTIAL_ENTRIES, KSPMatSolve() solves for one after another. On an H200 simultaneous solves step by step
   took 1.02 to 1.18 times as long above these limits, and 0.7 to 0.95 times below them
*/
#define KSPIDRS_SEQUENTIAL_S       4
#define KSPIDRS_SEQUENTIAL_ENTRIES 4e5

/*
   Reduces *active, the number of simultaneous right-hand sides. If two or more of them can run at the same time, each in one
   kernel, *active becomes their number. If one after another is faster, *active becomes 1, and idrs->sequential is set. The caller
   has prepared the solve for one right-hand side
*/
static PetscErrorCode KSPIDRSGetSimultaneous_Private(KSP ksp, PetscInt *active)
{
  KSP_IDRS    *idrs = (KSP_IDRS *)ksp->data;
  PetscInt     solves;
  IDRSWorkInfo info;

  PetscFunctionBegin;
  PetscCall(IDRSWorkGetInfo(idrs->slot[0].work, &info));
  if (idrs->run->kind == KSP_IDRS_RUN_WHOLE) {
    PetscCall(IDRSQueueWholeFits(idrs->slot[0].work, *active, &solves));
    if (solves > 1) *active = solves;
    else if (idrs->set.run == KSP_IDRS_RUN_WHOLE)
      idrs->sequential = "with -ksp_idrs_run whole two systems do not fit on the GPU at the same time";
    else if (idrs->set.s >= KSPIDRS_SEQUENTIAL_S && (PetscReal)info.n * idrs->set.s > KSPIDRS_SEQUENTIAL_ENTRIES)
      idrs->sequential = "each of them is solved faster in one kernel";
  }
  if (idrs->sequential) *active = 1;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Prepares a solve for `active` simultaneous right-hand sides, or for fewer if that is faster */
static PetscErrorCode KSPIDRSPrepareColumns_Private(KSP ksp, PetscInt active)
{
  const KSP_IDRS *idrs = (const KSP_IDRS *)ksp->data;
  PetscBool       cuda;
  PetscMPIInt     size;

  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)ksp), &size));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)idrs->slot[0].r, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  if (active > 1 && ((cuda && size == 1) || idrs->set.run == KSP_IDRS_RUN_WHOLE) && !idrs->set.block &&
      idrs->set.run != KSP_IDRS_RUN_STEPS) {
    PetscCall(KSPIDRSPrepareSolve_Private(ksp, 1));
    PetscCall(KSPIDRSGetSimultaneous_Private(ksp, &active));
    if (active == 1) PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(KSPIDRSPrepareSolve_Private(ksp, active));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Repeats the set-up if the last solve ended with an error. Several processes cannot know without a reduction whether all of
   them had the error, so the user must call KSPReset()
*/
static PetscErrorCode KSPIDRSRecover_Private(KSP ksp)
{
  const KSP_IDRS *idrs = (const KSP_IDRS *)ksp->data;
  PetscMPIInt     size;

  PetscFunctionBegin;
  if (idrs->state == KSPIDRS_IDLE) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)ksp), &size));
  PetscCheck(idrs->state != KSPIDRS_SOLVING, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ORDER,
             "KSPSolve() is called inside KSPSolve() of the same KSP: create another KSP for the inner solve");
  PetscCheck(size == 1, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ORDER,
             "The last KSPSolve() has ended with an error: call KSPReset(), on all processes, and KSPSetOperators()");
  PetscCall(PetscInfo(ksp, "The last KSPSolve() has ended with an error: set up again\n"));
  PetscCall(KSPIDRSSetUpAgain_Private(ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves for the right-hand side of the KSP, or for the columns of B. If the preparation fails, another solve may follow at once */
static PetscErrorCode KSPIDRSTrySolve_Private(KSP ksp, PetscInt active, Mat B, Mat X)
{
  KSP_IDRS      *idrs    = (KSP_IDRS *)ksp->data;
  const PetscInt nesting = KSPIDRSNesting;
  PetscErrorCode ierr;

  PetscFunctionBegin;
  IDRSCheckDiagonalScale(ksp);
  PetscCall(KSPIDRSRecover_Private(ksp));
  PetscCall(KSPIDRSPrepareColumns_Private(ksp, active));
  if (B && idrs->sequential) PetscFunctionReturn(PETSC_SUCCESS);
  idrs->state    = KSPIDRS_SOLVING;
  KSPIDRSNesting = nesting + 1;
  ierr           = B ? KSPIDRSIterateColumns_Private(ksp, B, X) : KSPIDRSIterate_Private(ksp);
  KSPIDRSNesting = nesting; /* also after an error */
  idrs->state    = ierr ? KSPIDRS_FAILED : KSPIDRS_IDLE;
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Solves after PCPreSolve(). After an error it calls PCPostSolve(), which PETSc does not, although it allows at most two unfinished
   calls of PCPreSolve()
*/
static PetscErrorCode KSPIDRSSolve_Private(KSP ksp, PetscInt active, Mat B, Mat X)
{
  const PetscErrorCode ierr = KSPIDRSTrySolve_Private(ksp, active, B, X);

  PetscFunctionBegin;
  if (ierr) (void)PCPostSolve(ksp->pc, ksp);
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPSolve_IDRS(KSP ksp)
{
  PetscFunctionBegin;
  ((KSP_IDRS *)ksp->data)->results.latest = PETSC_FALSE;
  PetscCall(KSPIDRSSolve_Private(ksp, 1, NULL, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Solves for several right-hand sides at the same time. The set-up depends on the memory of the solution of the KSP. Until the
   first right-hand side has a slot, this solution is a vector on the array of a column of X, because a GPU needs 0.2 ms to allocate
   and free memory. KSPMatSolve() does not call PCPreSolve(), so this function does
*/
static PetscErrorCode KSPIDRSSolveSimultaneously_Private(KSP ksp, Mat B, Mat X)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  const Vec      sol = ksp->vec_sol, rhs = ksp->vec_rhs;
  PetscErrorCode ierr;
  Vec            column, first;

  PetscFunctionBegin;
  PetscCall(MatDenseGetColumnVecRead(X, 0, &column));
  ierr = IDRSVecOnArray(column, column, &first);
  if (!ierr && !first) ierr = VecDuplicate(column, &first);
  PetscCall(MatDenseRestoreColumnVecRead(X, 0, &column));
  PetscCall(ierr);
  ksp->vec_sol = first;
  ksp->vec_rhs = first;
  ierr         = PCPreSolve(ksp->pc, ksp);
  if (!ierr) ierr = KSPIDRSSolve_Private(ksp, PetscMin(idrs->set.width, idrs->results.count), B, X);
  if (!ierr) ierr = PCPostSolve(ksp->pc, ksp);
  ksp->vec_sol = sol;
  ksp->vec_rhs = rhs;
  PetscCall(VecDestroy(&first));
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPMatSolve_IDRS(KSP ksp, Mat B, Mat X)
{
  KSP_IDRS       *idrs      = (KSP_IDRS *)ksp->data;
  const PetscBool transpose = IDRSMatSolveTransposes(ksp);

  PetscFunctionBegin;
  IDRSForgetBlock(ksp);
  PetscCall(KSPIDRSMatSolveBegin_Private(ksp, B, X));
  if (!idrs->sequential && idrs->results.count) PetscCall(KSPIDRSSolveSimultaneously_Private(ksp, B, X));
  if (idrs->sequential) {
    PetscCall(PetscInfo(ksp, "The right-hand sides are solved one by one%s: %s\n",
                        idrs->set.block ? ", without a block recurrence" : "", idrs->sequential));
    PetscCall(KSPIDRSSolveSequentially_Private(ksp, transpose, B, X));
  }
  PetscCall(KSPIDRSConclude_Private(ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPSetFromOptions_IDRS(KSP ksp, IDRSOptionItems PetscOptionsObject)
{
  const KSPIDRSSettings *now = &((KSP_IDRS *)ksp->data)->set;

  PetscFunctionBegin;
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
  IDRSOptionEnum(ksp, "-ksp_idrs_recycle", "When a solve begins with the panels of the solve before", KSPIDRSSetRecycle,
                 KSPIDRSRecycles, now->recycle);
  IDRSOption(Int, ksp, "-ksp_idrs_width", "Right-hand sides of KSPMatSolve() at the same time", KSPIDRSSetWidth_Private,
             now->width);
  IDRSOption(Bool, ksp, "-ksp_idrs_block", "One block recurrence for right-hand sides at the same time", KSPIDRSSetBlock,
             now->block);
  PetscOptionsHeadEnd();
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*MC
  KSPIDRS - IDR(s), the induced dimension reduction method in its biorthogonal form {cite}`gijzen:2011`, for large
  nonsymmetric systems, with one global reduction per matvec

  Options Database Keys:
+ -ksp_idrs_s s                                   - number of shadow vectors (default 4)
. -ksp_idrs_seed seed                             - seed of the hashed shadow space (default 0)
. -ksp_idrs_cosine cosine                         - smallest cosine for omega (default 0.5, 0 = off)
. -ksp_idrs_update_tol tol                        - fall of the residual norm between reliable updates (default 1e-3, 0 = none)
. -ksp_idrs_max_restarts n                        - restarts after breakdowns in a row without progress (default 10)
. -ksp_idrs_smoothing (true|false)                - residual smoothing (default false)
. -ksp_idrs_implementation (auto|vec|host|cuda)   - back end of the vector operations (default auto)
. -ksp_idrs_communication (auto|mpi|nccl|peer)    - communication of reductions between GPUs (default auto)
. -ksp_idrs_product (auto|mat|csr|sliced)         - back end of the matvecs of the iterations (default auto)
. -ksp_idrs_run (auto|steps|whole)                - back end of the iterations (default auto)
. -ksp_idrs_recycle (never|auto|always)           - use of the panels of the previous solve (default never)
. -ksp_idrs_width width                           - right-hand sides of `KSPMatSolve()` at the same time (default 16)
- -ksp_idrs_block (true|false)                    - one block recurrence for these right-hand sides (default false)

  Level: beginner

  Notes:
  The type comes from the plugin libpetscidrs. A program gets it without being compiled again with `-dll_append
  path/libpetscidrs.so`, or by calling `KSPIDRSRegister()`.

  An iteration is one matvec, a multiplication of a vector by the operator. The method keeps 2s+5 vectors besides the solution and
  the right-hand side (s more with the implementation vec, one more with `PCJACOBI`), independent of the number of iterations. A
  larger `s` needs fewer matvecs, and more vector operations for each. The default suits many problems. Try 8 if matvecs are
  costly or the system is indefinite, and 16 if nothing else converges.

  On a GPU one kernel computes a matvec and its inner products if the operator allows it. The vector operations
  apply `PCJACOBI` from the right. On one GPU one kernel makes many iterations on a small system, see `-ksp_idrs_run`.

  `KSPMatSolve()` and `KSPMatSolveTranspose()` solve for several right-hand sides at the same time, which is much faster than one
  after another. Each has its own recurrence, iterations, tolerance, verification and restarts. With many
  right-hand sides a small s, 1 to 4, is best. `KSPIDRSSetBlock()` needs far fewer matvecs on problems that converge slowly.

  A solve begins with s minimal residual steps, in which the residual does not grow. For short solves, as in a smoother, choose an
  `s` that is not smaller than the number of iterations.

  Preconditioning is from the right by default, with the norm of the true residual. The preconditioner may then change between
  applications. From the left, with `KSPSetPCSide()`, it must be fixed, and the norm is the norm of the preconditioned residual.
  With `KSP_NORM_NONE`, on both sides, no reduction is made for norms, and s iterations make s reductions.

  With `KSPConvergedDefault()` a residual norm that meets the tolerance counts only if a newly computed b - A x meets it as well.
  Otherwise the solve continues from b - A x. History and monitors get the norm of b - A x for such an iteration. If b - A x stops
  falling above the tolerance, the solve ends with `KSP_DIVERGED_BREAKDOWN`, and `-ksp_view` and `-info` report that the attainable
  accuracy has been reached. Another convergence test is called once an iteration, and once more before a solve ends with a
  breakdown; b - A x is not verified. Verification and reliable updates are off if matvecs are inexact: for operators of type
  `MATMFFD`, and of type `MATSCHURCOMPLEMENT` with an inner solver other than `KSPPREONLY`.

  The method restarts after a breakdown of the recurrence. Unless there are explicit shadow vectors, it also restarts once the
  residual norm has grown by the power 3/4 of 1 / (machine precision), 5e11 in double precision. A restart uses the shadow space
  of the next seed, and begins from the present solution or, if its residual is smaller, from the solution at the last reliable
  update.

  If the matrix is singular and the system has no solution, x may grow along a null vector. After 128, 256, 512 ... iterations the
  solver compares ||x|| with its smallest value at these iterations. If it is 6.7e7 times larger and the residual norm has not
  halved since the last comparison, or 5e11 times larger, the solve ends with `KSP_DIVERGED_BREAKDOWN`, and `-ksp_view` and `-info`
  report it. If x overflows all the same, it is replaced by the iterate of the last reliable update. Only `KSP_DIVERGED_NANORINF`,
  and solves without norms, may leave infinite or NaN entries in x.

  The type raises PETSc's default divergence tolerance of 1e4 to 1e30, because the residual of IDR(s) may rise far before it
  falls. Set another with `KSPSetTolerances()` or `-ksp_divtol` after the type has been set.

  On several processes, and on a GPU, the norm of an inner step comes with the reduction of the next matvec. The iteration is
  reported then, and its solution is still available.

  On one GPU, and on several with NCCL or mapped memory, the scalars stay on the device, and the host launches two more matvecs
  before it reads a norm. The device compares the norms with the tolerances and stops, so the solution is exactly that of the
  reported iteration. With a convergence test other than `KSPConvergedDefault()` and `KSPConvergedSkip()`, or a monitor that may
  ask for the solution, the host waits in every matvec instead. A stop makes up to three unused matvecs, which are counted, and as
  many applications of the preconditioner. While the scalars are on the device, operators and preconditioners cannot call
  `KSPBuildSolution()`; monitors and convergence tests can.

  On one process, the `KSPSolve()` after an error sets the solver up again. On several processes, call `KSPReset()` on all of them
  and `KSPSetOperators()`, or change a setting that needs a new set-up, such as `s`.

  For sequences of systems with the same or a similar operator, `KSPIDRSSetRecycle()` lets each solve begin with the panels of the
  previous solve.

  References:
  P. Sonneveld and M.B. van Gijzen, IDR(s): a family of simple and fast algorithms for solving large nonsymmetric systems of linear
  equations, SIAM J. Sci. Comput. 31 (2008); M.B. van Gijzen and P. Sonneveld, Algorithm 913: an elegant IDR(s) variant that
  efficiently exploits biorthogonality properties, ACM Trans. Math. Softw. 38 (2011)

.seealso: [](ch_ksp), `KSPCreate()`, `KSPSetType()`, `KSPType`, `KSP`, `KSPIDR`, `KSPBCGS`, `KSPBCGSL`, `KSPGMRES`,
          `KSPIDRSRegister()`, `KSPIDRSSetShadowSize()`, `KSPIDRSSetShadowVecs()`, `KSPIDRSSetShadowSeed()`,
          `KSPIDRSSetMinimumCosine()`, `KSPIDRSSetUpdateTolerance()`, `KSPIDRSSetSmoothing()`, `KSPIDRSSetRecycle()`,
          `KSPIDRSSetBlock()`, `KSPIDRSGetColumnResults()`, `KSPIDRSGetCounts()`
M*/
PetscErrorCode KSPCreate_IDRS(KSP ksp)
{
  KSP_IDRS *idrs;

  PetscFunctionBegin;
  PetscCall(PetscNew(&idrs));
  ksp->data             = (void *)idrs;
  idrs->set.s           = 4;
  idrs->set.cosine      = 0.5;
  idrs->set.updatetol   = 1e-3;
  idrs->set.maxrestarts = 10;
  idrs->set.width       = IDRS_MAX_WIDTH;
  idrs->current         = &idrs->slot[0];
  idrs->slots           = 1;
  idrs->active          = 1;
  PetscCall(IDRSSetDefaultDivtol(ksp, KSP_DIVTOL, IDRS_DIVTOL));

  PetscCall(KSPSetSupportedNorm(ksp, KSP_NORM_UNPRECONDITIONED, PC_RIGHT, 4));
  PetscCall(KSPSetSupportedNorm(ksp, KSP_NORM_PRECONDITIONED, PC_LEFT, 3));
  PetscCall(KSPSetSupportedNorm(ksp, KSP_NORM_NONE, PC_RIGHT, 2));
  PetscCall(KSPSetSupportedNorm(ksp, KSP_NORM_NONE, PC_LEFT, 1));

  ksp->ops->setup          = KSPSetUp_IDRS;
  ksp->ops->solve          = KSPSolve_IDRS;
  ksp->ops->matsolve       = KSPMatSolve_IDRS;
  ksp->ops->reset          = KSPReset_IDRS;
  ksp->ops->destroy        = KSPDestroy_IDRS;
  ksp->ops->view           = KSPView_IDRS;
  ksp->ops->setfromoptions = KSPSetFromOptions_IDRS;
  ksp->ops->buildsolution  = KSPBuildSolution_IDRS;
  ksp->ops->buildresidual  = KSPBuildResidualDefault;
  PetscCall(KSPIDRSComposeSetters_Private(ksp, PETSC_TRUE));
  PetscFunctionReturn(PETSC_SUCCESS);
}
