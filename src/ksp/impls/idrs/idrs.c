/*
   The Krylov solver KSPIDRS: set-up, the solve as a sequence of steps, options
*/
#include "idrsimpl.h"

/* Divergence tolerance where the user has set none, PETSc's and ours: the residual of IDR(s) may rise far before it falls */
#define KSP_DIVTOL  ((PetscReal)1e4)
#define IDRS_DIVTOL ((PetscReal)1e30)

/* Nothing has been counted yet in this solve, or since the set-up */
static void KSPIDRSZeroCounts(KSP_IDRS *idrs)
{
  idrs->matvecs       = 0;
  idrs->preconditions = 0;
  idrs->updates       = 0;
  idrs->verifications = 0;
  idrs->restarts      = 0;
  idrs->stagnations   = 0;
}

/* Solves of this type that are under way in this thread, one inside the other: see KSPIDRSBegin_Private() */
static _Thread_local PetscInt KSPIDRSDepth = 0;

static PetscErrorCode KSPReset_IDRS(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  PetscCall(IDRSWorkDestroy(&idrs->work));
  PetscCall(VecDestroy(&idrs->solution));
  idrs->solving    = PETSC_FALSE;
  idrs->reductions = 0;
  KSPIDRSZeroCounts(idrs);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPDestroy_IDRS(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  PetscCall(KSPReset_IDRS(ksp));
  PetscCall(IDRSColumnsDestroy(idrs->s, &idrs->P));
  PetscCall(IDRSSetDefaultDivtol(ksp, IDRS_DIVTOL, KSP_DIVTOL)); /* the next type has PETSc's again */
  PetscCall(KSPIDRSComposeSetters_Private(ksp, PETSC_FALSE));
  PetscCall(KSPDestroyDefault(ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Work vectors are like the solution, but for a solution in the memory of the host beside a matrix on a device, that of one process at least: its
   product takes vectors of the device only, and all processes have vectors of one type
*/
static PetscErrorCode KSPIDRSSetWorkVecs_Private(KSP ksp, PetscInt count)
{
  Vec            solution = ksp->vec_sol;
  PetscBool      host = PETSC_FALSE, set = PETSC_FALSE, bound = PETSC_FALSE;
  char          *cuda = NULL, *hip = NULL;
  VecType        type;
  Mat            A;
  PetscErrorCode ierr;

  PetscFunctionBegin;
  if (solution) PetscCall(PetscObjectTypeCompareAny((PetscObject)solution, &host, VECSEQ, VECMPI, ""));
  if (host) PetscCall(PCGetOperatorsSet(ksp->pc, &set, NULL));
  if (set) {
    PetscCall(PCGetOperators(ksp->pc, &A, NULL));
    PetscCall(MatGetVecType(A, &type));
    PetscCall(PetscStrstr(type, VECCUDA, &cuda));
    PetscCall(PetscStrstr(type, VECHIP, &hip));
    PetscCall(MatBoundToCPU(A, &bound));
  }
  if (cuda || hip) {
    PetscMPIInt all = bound ? 1 : 0;

    IDRSCallAllreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, PetscObjectComm((PetscObject)ksp));
    if (!all) {
      PetscCall(PetscInfo(ksp, "Right-hand side and solution are on the host, the matrix is on the device: so are the work vectors\n"));
      ksp->vec_sol = NULL;
    }
  }
  ierr         = KSPSetWorkVecs(ksp, count);
  ksp->vec_sol = solution;
  if (ierr) ksp->work = NULL; /* an array that was not filled cannot be destroyed */
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Panels and work vectors: 2s + 5 vectors, three more with smoothing, s more where the back end stores the shadow space
*/
static PetscErrorCode KSPSetUp_IDRS(KSP ksp)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  const PetscInt s = idrs->s, kept = idrs->updatetol > 0.0 ? 5 : 4;

  PetscFunctionBegin;
  PetscCall(KSPReset_IDRS(ksp));
  PetscCall(KSPIDRSSetWorkVecs_Private(ksp, kept + (idrs->smoothing ? 3 : 0)));
  idrs->r      = ksp->work[0];
  idrs->z      = ksp->work[1];
  idrs->v      = ksp->work[2];
  idrs->t      = ksp->work[3];
  idrs->anchor = NULL;
  idrs->d      = NULL;
  idrs->e      = NULL;
  idrs->q      = NULL;
  if (idrs->smoothing) {
    idrs->d = ksp->work[kept];
    idrs->e = ksp->work[kept + 1];
    idrs->q = ksp->work[kept + 2];
  }
  if (idrs->P) {
    PetscLayout theirs, ours;
    PetscBool   same;

    PetscCall(VecGetLayout(idrs->r, &ours));
    for (PetscInt i = 0; i < s; i++) {
      PetscCall(VecGetLayout(idrs->P[i], &theirs));
      PetscCall(PetscLayoutCompare(ours, theirs, &same)); /* the same answer on all processes */
      PetscCheck(same, PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_SIZ, "KSPIDRSSetShadowVecs(): shadow vector %" PetscInt_FMT " has local size %" PetscInt_FMT ", global %" PetscInt_FMT ", the solution has %" PetscInt_FMT ", %" PetscInt_FMT, i,
                 theirs->n, theirs->N, ours->n, ours->N);
    }
  }
  PetscCall(IDRSWorkCreate(idrs->r, s, idrs->P, idrs->implementation, idrs->communication, &idrs->work));
  idrs->placed = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Other panels and work vectors, in the midst of KSPSolve() */
static PetscErrorCode KSPIDRSSetUpAgain_Private(KSP ksp)
{
  const KSPSetUpStage stage = ksp->setupstage;

  PetscFunctionBegin;
  ksp->setupstage = KSP_SETUP_NEW; /* should it fail */
  PetscCall(KSPSetUp_IDRS(ksp));
  ksp->setupstage = stage;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Is a solution on CUDA bound to the host, itself or as a duplicate of a vector that is, beside a matrix that is not? A product of PETSc's then leaves
   its result on the device, where nothing looks for it in such a vector
*/
static PetscErrorCode KSPIDRSHalfBound_Private(KSP ksp, PetscBool device, PetscBool *half)
{
  PetscBool vector, matrix, bound;
  Mat       A;

  PetscFunctionBegin;
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)ksp->vec_sol, &vector, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &matrix, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
  PetscCall(MatBoundToCPU(A, &bound));
  *half = (PetscBool)(vector && !device && matrix && !bound);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* An error leaves vectors of PETSc's calls locked, with what they are made of, on the processes that met it */
static PetscErrorCode KSPIDRSUnlock_Private(PetscInt count, Vec vectors[])
{
  PetscBool nest;
  PetscInt  locks;
  Vec       local;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < count; i++) {
    PetscCall(PetscObjectTypeCompare((PetscObject)vectors[i], VECNEST, &nest));
    if (nest) {
      PetscInt parts;
      Vec     *part;

      PetscCall(VecNestGetSubVecs(vectors[i], &parts, &part));
      PetscCall(KSPIDRSUnlock_Private(parts, part));
    }
    PetscCall(VecGhostGetLocalForm(vectors[i], &local));
    if (local && local != vectors[i]) PetscCall(KSPIDRSUnlock_Private(1, &local));
    PetscCall(VecGhostRestoreLocalForm(vectors[i], &local));
    PetscCall(VecLockGet(vectors[i], &locks));
    if (locks < 0) PetscCall(VecLockWriteSet(vectors[i], PETSC_FALSE));
    for (; locks > 0; locks--) PetscCall(VecLockReadPop(vectors[i]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Does the set-up still hold? Where the work vectors are of type cuda, not after an error that has ended the last solve; nor once the solution has been
   bound to the host, or is not bound any more, which takes them with it; nor when the devices have lost each other. There all processes do the same.
*/
static PetscErrorCode KSPIDRSRenew_Private(KSP ksp)
{
  KSP_IDRS *idrs   = (KSP_IDRS *)ksp->data;
  PetscBool device = PETSC_FALSE, cuda;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)idrs->r, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  if (cuda) {
    PetscBool   half = PETSC_FALSE, lost = PETSC_FALSE;
    PetscMPIInt states[2];

    PetscCall(IDRSOnDevice(ksp->vec_sol, &device));
    PetscCall(KSPIDRSHalfBound_Private(ksp, device, &half));
    if (idrs->work->backend->lost) PetscCall((*idrs->work->backend->lost)(idrs->work, &lost));
    states[0] = half ? 1 : 0;
    states[1] = idrs->solving || lost || (idrs->placed && device != idrs->device) ? 1 : 0;
    IDRSCallAllreduce(MPI_IN_PLACE, states, 2, MPI_INT, MPI_MAX, idrs->work->comm);
    PetscCheck(!states[0], PetscObjectComm((PetscObject)ksp), PETSC_ERR_ARG_WRONGSTATE, "The solution is bound to the CPU and the matrix is not, on some process at least: bind both, with VecBindToCPU() and MatBindToCPU(), or none");
    if (states[1]) {
      PetscCall(PetscInfo(ksp, "The solution has moved between host and device, or there has been an error: set up again\n"));
      if (idrs->solving) idrs->work->timeout = 0.0; /* all processes have left that solve: sums that have not come do not come any more */
      PetscCall(KSPIDRSSetUpAgain_Private(ksp));
    }
  } else if (idrs->solving) {
    PetscCall(KSPIDRSUnlock_Private(ksp->nwork, ksp->work));
    PetscCall(KSPIDRSUnlock_Private(idrs->s, idrs->work->G));
    PetscCall(KSPIDRSUnlock_Private(idrs->s, idrs->work->U));
  }
  idrs->placed = PETSC_TRUE;
  idrs->device = device;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Can b - A x be trusted? Not with products by differences, nor with those of a Schur complement whose inner solve is iterative */
static PetscErrorCode KSPIDRSOperatorIsExact_Private(Mat A, PetscBool *exact)
{
  PetscBool schur, inexact;
  KSP       inner;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMFFD, &inexact));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSCHURCOMPLEMENT, &schur));
  if (schur) {
    PetscBool direct;

    PetscCall(MatSchurComplementGetKSP(A, &inner));
    PetscCall(PetscObjectTypeCompare((PetscObject)inner, KSPPREONLY, &direct));
    inexact = (PetscBool)!direct;
  }
  *exact = (PetscBool)!inexact;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* What the operators and options of this solve decide */
static PetscErrorCode KSPIDRSStart_Private(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  PetscBool none;
  Mat       A;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)ksp->pc, PCNONE, &none));
  PetscCall(PCGetOperators(ksp->pc, &A, NULL));
  PetscCall(KSPIDRSOperatorIsExact_Private(A, &idrs->exact));
  if (!idrs->exact) PetscCall(PetscInfo(ksp, "The operator, of type %s, is inexact: neither reliable updating nor verification\n", ((PetscObject)A)->type_name));
  idrs->preconditioned = (PetscBool)(ksp->pc_side == PC_RIGHT && !none);
  idrs->anchor         = idrs->exact && idrs->updatetol > 0.0 ? ksp->work[4] : NULL;
  idrs->lagged         = (PetscBool)(idrs->work->size > 1 || idrs->work->backend->device);
  idrs->pending        = PETSC_FALSE;
  idrs->projected      = PETSC_FALSE;
  idrs->its            = 0;
  idrs->k              = 0;
  idrs->columns        = 0;
  idrs->floor          = PETSC_MAX_REAL;
  idrs->restartnorm    = PETSC_MAX_REAL;
  idrs->fruitless      = 0;
  idrs->updated        = PETSC_FALSE;
  idrs->reductions     = idrs->work->reductions;
  KSPIDRSZeroCounts(idrs);
  idrs->productseconds = 0.0;
  idrs->pcseconds      = 0.0;
  idrs->work->riding   = PETSC_FALSE;
  idrs->work->timeout  = idrs->timeout;
  PetscCall(PetscArrayzero(idrs->work->traffic, IDRS_OPERATIONS));
  PetscCall(KSPIDRSSetAhead_Private(ksp));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* From the first residual to the solution */
static PetscErrorCode KSPIDRSIterate_Private(KSP ksp)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;

  PetscFunctionBegin;
  PetscCall(VecSet(idrs->z, 0.0));
  PetscCall(KSPIDRSResidual_Private(ksp, ksp->guess_zero, idrs->r));
  /* The set-up of a preconditioner may have failed on some of the processes: all learn of it by the first norm */
  IDRSVecFlag(idrs->r, ksp->reason == KSP_DIVERGED_PC_FAILED);
  ksp->reason = KSP_CONVERGED_ITERATING;
  PetscCall(KSPIDRSSmoothBegin_Private(ksp));
  PetscCall(KSPIDRSBegin_Private(ksp));
  PetscCall(KSPIDRSReport_Private(ksp, 0, idrs->rnorm));

  while (!ksp->reason) {
    if (idrs->brokendown) PetscCall(KSPIDRSRestart_Private(ksp));
    else if (idrs->k == 0 && !idrs->projected && !idrs->replaced && idrs->prepared == IDRS_COMBINE_NONE && KSPIDRSUpdateDue(idrs, idrs->rnorm)) PetscCall(KSPIDRSReliableUpdate_Private(ksp));
    if (!ksp->reason && idrs->replaced && idrs->start) PetscCall(KSPIDRSBegin_Private(ksp));
    else if (!ksp->reason && idrs->replaced && idrs->prepared != IDRS_COMBINE_VU) PetscCall(KSPIDRSProject_Private(ksp));
    if (!ksp->reason) PetscCall(KSPIDRSStep_Private(ksp));
  }

  PetscCall(IDRSFetch(idrs->work));
  if (idrs->logged && ksp->res_hist_len > 0) ksp->res_hist[ksp->res_hist_len - 1] = ksp->rnorm; /* after a breakdown it is that of b - A x */
  /* A recurrence in which something is not a number has no iterate: the last that has been tied to its residual is handed back */
  if (ksp->reason != KSP_DIVERGED_NANORINF) {
    PetscCall(KSPIDRSFold_Private(ksp));
    PetscCall(KSPIDRSSmoothFold_Private(ksp));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPSolve_IDRS(KSP ksp)
{
  KSP_IDRS      *idrs  = (KSP_IDRS *)ksp->data;
  const PetscInt depth = KSPIDRSDepth;
  PetscInt       level;
  PetscErrorCode ierr;

  PetscFunctionBegin;
  IDRSCheckDiagonalScale(ksp);
  PetscCall(KSPIDRSRenew_Private(ksp));
  PetscCall(KSPIDRSStart_Private(ksp));
  idrs->solving = PETSC_TRUE;
  /* PETSc tells the level of solvers that its own preconditioners nest; the count also tells of those in an operator or PCSHELL of the user's */
  PetscCall(IDRSGetNestLevel(ksp, &level));
  idrs->depth  = PetscMax(level, depth);
  KSPIDRSDepth = depth + 1;
  ierr         = KSPIDRSIterate_Private(ksp);
  KSPIDRSDepth = depth; /* after an error, too */
  PetscCall(ierr);
  idrs->solving = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode KSPSetFromOptions_IDRS(KSP ksp, IDRSOptionItems PetscOptionsObject)
{
  KSP_IDRS *idrs = (KSP_IDRS *)ksp->data;
  PetscInt  s, seed, restarts;
  PetscReal cosine, tolerance, timeout;
  PetscBool set, smoothing;
  PetscEnum implementation, communication;

  PetscFunctionBegin;
  PetscOptionsHeadBegin(PetscOptionsObject, "KSP IDRS options");
  PetscCall(PetscOptionsInt("-ksp_idrs_s", "Number of shadow vectors", "KSPIDRSSetShadowSize", idrs->s, &s, &set));
  if (set) PetscCall(KSPIDRSSetShadowSize(ksp, s));
  PetscCall(PetscOptionsInt("-ksp_idrs_seed", "Seed of the hashed shadow space", "KSPIDRSSetShadowSeed", idrs->seed, &seed, &set));
  if (set) PetscCall(KSPIDRSSetShadowSeed(ksp, seed));
  PetscCall(PetscOptionsReal("-ksp_idrs_cosine", "Smallest cosine for omega (0 = off)", "KSPIDRSSetMinimumCosine", idrs->cosine, &cosine, &set));
  if (set) PetscCall(KSPIDRSSetMinimumCosine(ksp, cosine));
  PetscCall(PetscOptionsReal("-ksp_idrs_update_tol", "Fall of the residual norm between reliable updates (0 = none)", "KSPIDRSSetUpdateTolerance", idrs->updatetol, &tolerance, &set));
  if (set) PetscCall(KSPIDRSSetUpdateTolerance(ksp, tolerance));
  PetscCall(PetscOptionsInt("-ksp_idrs_max_restarts", "Restarts after breakdowns, in a row without gain", "KSPIDRSSetMaxRestarts", idrs->maxrestarts, &restarts, &set));
  if (set) PetscCall(KSPIDRSSetMaxRestarts(ksp, restarts));
  PetscCall(PetscOptionsBool("-ksp_idrs_smoothing", "Smooth the residual", "KSPIDRSSetSmoothing", idrs->smoothing, &smoothing, &set));
  if (set) PetscCall(KSPIDRSSetSmoothing(ksp, smoothing));
  PetscCall(PetscOptionsEnum("-ksp_idrs_implementation", "Back end of the vector operations", "KSPIDRSSetImplementation", KSPIDRSImplementations, (PetscEnum)idrs->implementation, &implementation, &set));
  if (set) PetscCall(KSPIDRSSetImplementation(ksp, (KSPIDRSImplementation)implementation));
  PetscCall(PetscOptionsEnum("-ksp_idrs_communication", "How reductions travel between GPUs", "KSPIDRSSetCommunication", KSPIDRSCommunications, (PetscEnum)idrs->communication, &communication, &set));
  if (set) PetscCall(KSPIDRSSetCommunication(ksp, (KSPIDRSCommunication)communication));
  PetscCall(PetscOptionsReal("-ksp_idrs_timeout", "Seconds to wait for sums of other processes that come by NCCL", "KSPIDRSSetTimeout", idrs->timeout, &timeout, &set));
  if (set) PetscCall(KSPIDRSSetTimeout(ksp, timeout));
  PetscOptionsHeadEnd();
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*MC
  KSPIDRS - IDR(s), the induced dimension reduction method in its biorthogonal form {cite}`gijzen:2011`, for large
  nonsymmetric systems, with one global reduction per product with the operator

  Options Database Keys:
+ -ksp_idrs_s s                                   - number of shadow vectors (default 4), see `KSPIDRSSetShadowSize()`
. -ksp_idrs_seed seed                             - seed of the hashed shadow space (default 0), see `KSPIDRSSetShadowSeed()`
. -ksp_idrs_cosine cosine                         - smallest cosine for omega (default 0.5, 0 = off), see `KSPIDRSSetMinimumCosine()`
. -ksp_idrs_update_tol tol                        - fall of the residual norm between reliable updates (default 1e-3, 0 = none), see `KSPIDRSSetUpdateTolerance()`
. -ksp_idrs_max_restarts n                        - restarts after breakdowns in a row that gain nothing (default 10), see `KSPIDRSSetMaxRestarts()`
. -ksp_idrs_smoothing (true|false)                - whether the residual is smoothed (default false), see `KSPIDRSSetSmoothing()`
. -ksp_idrs_implementation (auto|vec|host|cuda)   - back end of the vector operations (default auto), see `KSPIDRSSetImplementation()`
. -ksp_idrs_communication (auto|mpi|nccl)         - how reductions travel between GPUs (default auto), see `KSPIDRSSetCommunication()`
- -ksp_idrs_timeout seconds                       - how long to wait for sums that come by NCCL (default 600), see `KSPIDRSSetTimeout()`

  Level: beginner

  Notes:
  The type comes from the plugin libpetscidrs. A program gets it without being compiled again with `-dll_append path/libpetscidrs.so`,
  or by calling `KSPIDRSRegister()`.

  An iteration is one product with the operator. The method keeps 2s+5 vectors besides the solution and the right-hand side
  (s more with the implementation vec), however long it runs. Larger `s` needs fewer products, and more vectors each of them. The default suits many problems; try 8 where
  products are costly or the system is indefinite, 16 where nothing else converges.

  A solve begins with s minimal residual steps, in which the residual does not grow. Where solves are short, as in a smoother, take an `s` that is not smaller
  than the number of iterations.

  Preconditioning is from the right by default, with the norm of the true residual, and the preconditioner may change from one
  application to the next. From the left, with `KSPSetPCSide()`, it must be fixed, and the norm is that of the preconditioned
  residual. `KSP_NORM_NONE` is supported with both: no reduction is made for norms, and s iterations make s reductions then.

  A residual norm that meets the tolerance counts only once b - A x, computed afresh, meets it as well; otherwise the solve goes
  on from there. History and monitors are given the norm of b - A x for such an iteration. When b - A x stops falling above the tolerance, the solve ends with `KSP_DIVERGED_BREAKDOWN`, and `-ksp_view` and `-info`
  tell that the attainable accuracy has been met. A convergence test of the user's is called twice for an iteration then, the second time with the norm of b - A x,
  and decides. Neither this nor reliable updating is done for operators whose products are
  inexact: those of type `MATMFFD`, and of type `MATSCHURCOMPLEMENT` with an inner solver other than `KSPPREONLY`.

  After a breakdown of the recurrence, or, unless shadow vectors have been given, once its residual norm has grown by the power 3/4 of 1 / (machine precision), 5e11 in
  double precision, the method restarts with the shadow space of the next seed, from the present solution or, if its residual is smaller, from that of the last reliable update.

  Where the divergence tolerance is PETSc's default of 1e4, the type raises it to 1e30: the residual of IDR(s) may rise far before
  it falls. Set another with `KSPSetTolerances()` or `-ksp_divtol` after the type has been set.

  On several processes, and on a GPU, the norm of an inner step comes with the reduction of the next product, and an iteration is
  reported to monitors and the convergence test that much later, with the solution of that iteration still at hand.

  On one GPU, and on several with NCCL, the scalars stay on the device, and the host launches two products more before it reads a norm. The device compares the
  norms with the tolerances itself, and nothing is changed any more after one that meets them, so the solution is exactly that of
  the iteration reported. A convergence test other than `KSPConvergedDefault()` and `KSPConvergedSkip()`, or a monitor that may ask for the solution, has
  the host wait in every product instead. A stop makes up to three products in vain, which are counted, and as many applications of the preconditioner.
  Operators and preconditioners of the user's own cannot ask for the solution, with `KSPBuildSolution()`, while the host runs ahead; monitors and convergence tests can.

  References:
  P. Sonneveld and M.B. van Gijzen, IDR(s): a family of simple and fast algorithms for solving large nonsymmetric systems of linear
  equations, SIAM J. Sci. Comput. 31 (2008); M.B. van Gijzen and P. Sonneveld, Algorithm 913: an elegant IDR(s) variant that
  efficiently exploits biorthogonality properties, ACM Trans. Math. Softw. 38 (2011)

.seealso: [](ch_ksp), `KSPCreate()`, `KSPSetType()`, `KSPType`, `KSP`, `KSPIDR`, `KSPBCGS`, `KSPBCGSL`, `KSPGMRES`, `KSPIDRSRegister()`,
          `KSPIDRSSetShadowSize()`, `KSPIDRSSetShadowVecs()`, `KSPIDRSSetShadowSeed()`, `KSPIDRSSetMinimumCosine()`, `KSPIDRSSetUpdateTolerance()`,
          `KSPIDRSSetMaxRestarts()`, `KSPIDRSSetSmoothing()`, `KSPIDRSSetImplementation()`, `KSPIDRSSetCommunication()`, `KSPIDRSSetTimeout()`,
          `KSPIDRSGetCounts()`
M*/
PetscErrorCode KSPCreate_IDRS(KSP ksp)
{
  KSP_IDRS *idrs;

  PetscFunctionBegin;
  PetscCall(PetscNew(&idrs));
  ksp->data         = (void *)idrs;
  idrs->s           = 4;
  idrs->cosine      = 0.5;
  idrs->updatetol   = 1e-3;
  idrs->maxrestarts = 10;
  idrs->timeout     = 600.0;
  PetscCall(IDRSSetDefaultDivtol(ksp, KSP_DIVTOL, IDRS_DIVTOL));

  PetscCall(KSPSetSupportedNorm(ksp, KSP_NORM_UNPRECONDITIONED, PC_RIGHT, 4));
  PetscCall(KSPSetSupportedNorm(ksp, KSP_NORM_PRECONDITIONED, PC_LEFT, 3));
  PetscCall(KSPSetSupportedNorm(ksp, KSP_NORM_NONE, PC_RIGHT, 2));
  PetscCall(KSPSetSupportedNorm(ksp, KSP_NORM_NONE, PC_LEFT, 1));

  ksp->ops->setup          = KSPSetUp_IDRS;
  ksp->ops->solve          = KSPSolve_IDRS;
  ksp->ops->reset          = KSPReset_IDRS;
  ksp->ops->destroy        = KSPDestroy_IDRS;
  ksp->ops->view           = KSPView_IDRS;
  ksp->ops->setfromoptions = KSPSetFromOptions_IDRS;
  ksp->ops->buildsolution  = KSPBuildSolution_IDRS;
  ksp->ops->buildresidual  = KSPBuildResidualDefault;
  PetscCall(KSPIDRSComposeSetters_Private(ksp, PETSC_TRUE));
  PetscFunctionReturn(PETSC_SUCCESS);
}
