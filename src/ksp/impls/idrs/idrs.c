/*
   The Krylov solver KSPIDRS: IDR(s) in its biorthogonal form. KSPIDRSIterate_Private() is the method, which docs/algorithm.md
   explains.

   The recurrence starts with s minimal residual steps, as in Sonneveld and van Gijzen (2008). Their residuals do not grow, so a
   solve that ends before its first omega step has reduced the residual. If r is replaced during the start, the start begins again.

     start, step k = 0 ... s-1                                       v = r at first, M = I
       U_k = B^{-1}v, G_k = A U_k
       d = P^H G_k, G_k^H G_k, P^H r, G_k^H r, r^H r                 one reduction
       omega = G_k^H r / G_k^H G_k,  r -= omega G_k,  x += omega U_k,  f = P^H r - omega d
       alpha, M_k;  G_k -= G(:,0:k) alpha,  U_k -= U(:,0:k) alpha
       v = r - G(:,0:k+1) c, most often with c = 0: see idrsscalars.h
     end of the start
       M c = f,  r -= G c,  x += U c:  P^H r = 0, as after every other cycle; then the omega step

     cycle, step k = 0 ... s-1                                       omega step, k = s
       M(k:s,k:s) c = f(k:s),  v = r - G(:,k:s) c
       U_k = omega B^{-1}v + U(:,k:s) c                                p = B^{-1}r
       G_k = A U_k                                                     t = A p
       d = P^H G_k, G_k^H G_k, r^H r     one reduction                 P^H t, t^H t, P^H r, t^H r, r^H r     one reduction
       alpha, M_k, beta_k, f                                           omega, f = P^H r - omega P^H t
       G_k -= G(:,0:k) alpha, U_k -= U(:,0:k) alpha
       r -= beta_k G_k                                                 z += omega p + U beta,  r -= omega t

   The iterate is x = vec_sol + z + U(:,0:k) beta. The norm of the new r comes with the reduction of the next step, so an iteration
   is reported one matvec late, or up to three if a device has steps in flight; on one process and in host memory at once. If the
   solve ends, x and r belong to the reported iteration.

   Without a preconditioner and with PCJACOBI, the update of a step also makes v and U_k of the next one, in the same loop. On a
   device the kernel of the product also computes the sums, and the last of its blocks the coefficients
*/
#include "idrsimpl.h"
#include <petscidrs/private/idrssettings.h>

/* Default divergence tolerance, of PETSc and of KSPIDRS: the residual of IDR(s) may rise far before it falls */
#define KSP_DIVTOL  ((PetscReal)1e4)
#define IDRS_DIVTOL ((PetscReal)1e30)

_Thread_local PetscInt KSPIDRSNesting = 0;

/* Returns the columns for which this is true */
static KSPIDRSColumns KSPIDRSSelect(const KSPIDRSColumns *cols, PetscBool (*is)(const KSPIDRSColumn *))
{
  KSPIDRSColumns selected = {.count = 0};

  for (PetscInt i = 0; i < cols->count; i++) {
    if ((*is)(cols->column[i])) KSPIDRSColumnsAdd(&selected, cols->column[i]);
  }
  return selected;
}

static PetscBool KSPIDRSHasNoReason(const KSPIDRSColumn *col)
{
  return (PetscBool)!col->rep.reason;
}

/* Returns PETSC_TRUE if the recurrence can make the next step of its cycle */
static PetscBool KSPIDRSIsInCycle(const KSPIDRSColumn *col)
{
  const KSPIDRSRecurrence *rec = &col->rec;

  return (PetscBool)(KSPIDRSIsIterating(col) && rec->status == KSPIDRS_RECURS && rec->step.k > 0 &&
                     rec->stage != KSPIDRS_PROJECTED);
}

/*
   Returns the columns that make the next steps together, until the end of a cycle: all of them, or one in which a device has
   stopped in the middle of a cycle. After kernels of many steps each column finishes its step separately
*/
static KSPIDRSColumns KSPIDRSNextColumns(const KSP_IDRS *idrs, const KSPIDRSColumns *cols, PetscInt *next)
{
  if (idrs->persistent) return KSPIDRSOneColumn(cols->column[(*next)++]);
  *next = cols->count;
  for (PetscInt i = 0; cols->count > 1 && i < cols->count; i++) {
    if (!KSPIDRSAtCycle(&cols->column[i]->rec)) return KSPIDRSOneColumn(cols->column[i]);
  }
  return *cols;
}

/* Solves for one right-hand side, or with `dense` for several at the same time */
static PetscErrorCode KSPIDRSIterate_Private(KSP ksp, KSPIDRSDense *dense)
{
  KSP_IDRS      *idrs = (KSP_IDRS *)ksp->data;
  const PetscInt s    = idrs->set.s;
  KSPIDRSColumns all  = KSPIDRSOneColumn(&idrs->slot[0]), cols;
  KSPIDRSPass    pass;

  PetscFunctionBegin;
  if (!dense) PetscCall(KSPIDRSBegin_Private(ksp, &all)); /* r = b - A x, ||r|| */
  for (;;) {
    /* right-hand sides that are done leave, and the next ones begin */
    if (dense) PetscCall(KSPIDRSRefillSlots_Private(ksp, dense, &all));
    cols = KSPIDRSSelect(&all, KSPIDRSHasNoReason);
    if (!all.count || (!dense && !cols.count)) break;

    /* decisions: a column then has a reason, or continues, perhaps from another r, or needs another decision */
    PetscCall(KSPIDRSCheckIterates_Private(ksp, &cols));        /* ||x|| grows along a null space; recycling does not help */
    PetscCall(KSPIDRSCheckTrueResidual_Private(ksp, &cols));    /* b - A x meets the tolerance as r does, or r = b - A x */
    PetscCall(KSPIDRSRestart_Private(ksp, &cols));              /* after a failure: vec_sol = x, r = b - A x, the next P */
    PetscCall(KSPIDRSReliableUpdate_Private(ksp, &cols));       /* ||r|| has fallen: r = anchor - A z, vec_sol += z, z = 0 */
    PetscCall(KSPIDRSTakeReplacedResidual_Private(ksp, &cols)); /* another r: f = P^H r, or a new start */

    cols = KSPIDRSSelect(&cols, KSPIDRSIsIterating);
    if (cols.count < all.count) continue;
    if (idrs->persistent) PetscCall(KSPIDRSRunKernels_Private(ksp, &cols)); /* many steps; the host finishes the last one */
    for (PetscInt next = 0; next < cols.count;) {
      KSPIDRSColumns some = KSPIDRSNextColumns(idrs, &cols, &next);

      // clang-format off
      while (some.count) {
        PetscInt k = some.column[0]->rec.step.k;

        if (some.column[0]->rec.stage != KSPIDRS_PROJECTED) {      /* k < s                             k = s */
          PetscCall(KSPIDRSCombine_Private(ksp, &some));           /* v = r - G(:,k:s) c, unless the last update has */
          PetscCall(KSPIDRSPrecondition_Private(ksp, &some));      /* U_k = omega B^{-1}v + U(:,k:s) c  p = B^{-1}r */
          PetscCall(KSPIDRSMatvec_Private(ksp, &some));            /* G_k = A U_k                       t = A p */
          PetscCall(KSPIDRSProject_Private(ksp, &some));           /* P^H G_k, G_k^H G_k, r^H r         P^H t, t^H t, t^H r */
        }
        PetscCall(KSPIDRSCollect_Private(ksp, &k, &some));         /* ||r|| of the iteration before is reported */
        PetscCall(KSPIDRSScalars_Private(ksp, &some, &pass));      /* alpha, M_k, beta_k, f             omega, f */
        if (k == s) PetscCall(IDRSAdvance(&pass.group, pass.step)); /*                  z += omega p + U beta, r -= omega t */
        else PetscCall(IDRSUpdate(&pass.group, pass.step));        /* G_k -= G(:,0:k) alpha, U_k likewise, r -= beta_k G_k */
        PetscCall(KSPIDRSNextStep_Private(ksp, &pass));            /* k = k + 1, or 0 after s */
        PetscCall(KSPIDRSReportNow_Private(ksp, &pass));           /* ||r|| if it is not part of the next reduction */
        PetscCall(KSPIDRSRecycleEndStart_Private(ksp, &some));     /* end of a start with recycled U: r -= G c, or a new start */
        some = idrs->persistent ? (KSPIDRSColumns){.count = 0} : KSPIDRSSelect(&some, KSPIDRSIsInCycle);
      }
      // clang-format on
    }
  }
  if (!dense) PetscCall(KSPIDRSEnd_Private(ksp, &all)); /* vec_sol += z + U beta */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves for all columns of B, in the slots of this solve */
static PetscErrorCode KSPIDRSIterateColumns_Private(KSP ksp, Mat B, Mat X)
{
  KSP_IDRS      *idrs  = (KSP_IDRS *)ksp->data;
  const PetscInt count = idrs->results.count;
  KSPIDRSDense   dense = {.B = B, .X = X, .outer = KSPIDRSGetReported(ksp)};
  PetscErrorCode ierr;

  PetscFunctionBegin;
  PetscCall(PCGetFailedReason(ksp->pc, &dense.failed));
  PetscCall(PetscCalloc2(count, &dense.histories, count, &dense.lengths));
  for (PetscInt i = 0; i < idrs->active; i++) {
    idrs->slot[i].rep   = (KSPIDRSReported){0};
    idrs->slot[i].index = -1;
  }
  ierr = KSPIDRSIterate_Private(ksp, &dense);
  for (PetscInt i = 0; i < idrs->active; i++) PetscCall(KSPIDRSEmptySlot_Private(ksp, &idrs->slot[i])); /* after an error */
  KSPIDRSSetReported(ksp, &dense.outer);
  idrs->current = &idrs->slot[0];
  /* the histories of all right-hand sides, one after another, as KSPSolve() for each would: after a reset only the last one */
  for (PetscInt j = 0; j < count; j++) {
    if (!ierr && ksp->res_hist && ksp->res_hist_reset) ksp->res_hist_len = 0;
    for (PetscInt64 i = 0; !ierr && ksp->res_hist && i < dense.lengths[j]; i++)
      PetscCall(KSPLogResidualHistory(ksp, dense.histories[j][i]));
    PetscCall(PetscFree(dense.histories[j]));
  }
  PetscCall(PetscFree2(dense.histories, dense.lengths));
  PetscCall(ierr);
  ksp->totalits += dense.total;
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
  if (B) ierr = KSPIDRSIterateColumns_Private(ksp, B, X);
  else {
    idrs->current     = &idrs->slot[0];
    idrs->slot[0].rep = KSPIDRSGetReported(ksp);
    ierr              = KSPIDRSIterate_Private(ksp, NULL);
    if (!ierr) KSPIDRSSetReported(ksp, &idrs->slot[0].rep);
  }
  KSPIDRSNesting = nesting; /* also after an error */
  idrs->state    = ierr ? KSPIDRS_FAILED : KSPIDRS_IDLE;
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* After an error it calls PCPostSolve(), which PETSc does not, although it allows at most two unfinished calls of PCPreSolve() */
static PetscErrorCode KSPSolve_IDRS(KSP ksp)
{
  PetscErrorCode ierr;

  PetscFunctionBegin;
  ((KSP_IDRS *)ksp->data)->results.latest = PETSC_FALSE;
  ierr                                    = KSPIDRSTrySolve_Private(ksp, 1, NULL, NULL);
  if (ierr) (void)PCPostSolve(ksp->pc, ksp);
  PetscCall(ierr);
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
  if (!ierr) {
    const PetscErrorCode solved = KSPIDRSTrySolve_Private(ksp, PetscMin(idrs->set.width, idrs->results.count), B, X);

    ierr = PCPostSolve(ksp->pc, ksp); /* after an error, too */
    if (solved) ierr = solved;
  }
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
. -ksp_idrs_implementation (auto|vec|cuda)        - back end of the vector operations (default auto)
. -ksp_idrs_communication (auto|mpi|nccl|peer)    - communication of reductions between GPUs (default auto)
. -ksp_idrs_product (auto|mat|csr|sell)         - back end of the matvecs of the iterations (default auto)
. -ksp_idrs_run (auto|stepwise|persistent)           - back end of the iterations (default auto)
. -ksp_idrs_recycle (never|auto|always)           - use of the bases of the previous solve (default never)
. -ksp_idrs_width width                           - right-hand sides of `KSPMatSolve()` at the same time (default 16)
- -ksp_idrs_block (true|false)                    - one block recurrence for these right-hand sides (default false)

  Level: beginner

  Notes:
  The type comes from the plugin libpetscidrs. A program gets it without being compiled again with `-dll_append
  path/libpetscidrs.so`, or by calling `KSPIDRSRegister()`.

  An iteration is one matvec, a multiplication of a vector by the operator. The method keeps 2s+5 vectors besides the solution and
  the right-hand side (one more with `PCJACOBI`), independent of the number of iterations. A
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

  For sequences of systems with the same or a similar operator, `KSPIDRSSetRecycle()` lets each solve begin with the bases of the
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
