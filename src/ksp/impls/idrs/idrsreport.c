/*
   The interface to convergence tests, history and monitors. Each column has its own iteration number, norm, reason and history.
   PETSc's functions use members of the KSP, so the members of the column are copied to the KSP while these functions run
*/
#include "idrsimpl.h"

/* KSPIDRSGetReported - Returns the members of the KSP */
KSPIDRSReported KSPIDRSGetReported(KSP ksp)
{
  return (KSPIDRSReported){.rhs        = ksp->vec_rhs,
                           .sol        = ksp->vec_sol,
                           .its        = ksp->its,
                           .rnorm      = ksp->rnorm,
                           .rnorm0     = ksp->rnorm0,
                           .ttol       = ksp->ttol,
                           .reason     = ksp->reason,
                           .history    = ksp->res_hist,
                           .historymax = (PetscInt64)ksp->res_hist_max,
                           .historylen = (PetscInt64)ksp->res_hist_len};
}

/* KSPIDRSSetReported - Sets the members of the KSP */
void KSPIDRSSetReported(KSP ksp, const KSPIDRSReported *rep)
{
  ksp->vec_rhs      = rep->rhs;
  ksp->vec_sol      = rep->sol;
  ksp->its          = rep->its;
  ksp->rnorm        = rep->rnorm;
  ksp->rnorm0       = rep->rnorm0;
  ksp->ttol         = rep->ttol;
  ksp->reason       = rep->reason;
  ksp->res_hist     = rep->history;
  ksp->res_hist_max = rep->historymax;
  ksp->res_hist_len = rep->historylen;
}

/* Copies the members of the column to the KSP, until KSPIDRSGetMembers() */
static PetscErrorCode KSPIDRSSetMembers_Private(KSP ksp, KSPIDRSColumn *col)
{
  PetscFunctionBegin;
  PetscCall(PetscObjectSAWsTakeAccess((PetscObject)ksp));
  KSPIDRSSetReported(ksp, &col->rep);
  PetscCall(PetscObjectSAWsGrantAccess((PetscObject)ksp));
  ((KSP_IDRS *)ksp->data)->current = col;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Gets the members of the column from the KSP, which has no reason before the end of the solve, as an error may come before it */
static void KSPIDRSGetMembers(KSP ksp, KSPIDRSColumn *col)
{
  col->rep    = KSPIDRSGetReported(ksp);
  ksp->reason = KSP_CONVERGED_ITERATING;
}

/* KSPIDRSTest_Private - Calls the convergence test of the KSP for the iteration of the column; the test may set a reason */
PetscErrorCode KSPIDRSTest_Private(KSP ksp, KSPIDRSColumn *col, PetscReal rnorm)
{
  PetscFunctionBegin;
  PetscCall(KSPIDRSSetMembers_Private(ksp, col));
  PetscCall((*ksp->converged)(ksp, ksp->its, rnorm, &ksp->reason, ksp->cnvP));
  KSPIDRSGetMembers(ksp, col);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PETSc's macro returns if the norm is not finite */
static PetscErrorCode KSPIDRSCheckNorm_Private(KSP ksp, PetscReal rnorm)
{
  PetscFunctionBegin;
  KSPCheckNorm(ksp, rnorm);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSTestNorm_Private - Sets a reason if the norm is infinite or NaN */
PetscErrorCode KSPIDRSTestNorm_Private(KSP ksp, KSPIDRSColumn *col, PetscReal rnorm)
{
  PetscFunctionBegin;
  if (!PetscIsInfOrNanReal(rnorm)) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPIDRSSetMembers_Private(ksp, col));
  PetscCall(KSPIDRSCheckNorm_Private(ksp, rnorm));
  KSPIDRSGetMembers(ksp, col);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* KSPIDRSMonitor_Private - Adds the norm of the iteration to the history, and calls the monitors */
PetscErrorCode KSPIDRSMonitor_Private(KSP ksp, KSPIDRSColumn *col)
{
  const KSPConvergedReason reason = col->rep.reason;
  const PetscInt64         length = col->rep.historylen;

  PetscFunctionBegin;
  col->rep.reason = KSP_CONVERGED_ITERATING; /* with a reason KSPBuildSolution() in a monitor would return vec_sol */
  PetscCall(KSPIDRSSetMembers_Private(ksp, col));
  PetscCall(KSPLogResidualHistory(ksp, ksp->rnorm));
  col->trust.logged = (PetscBool)(length < (PetscInt64)ksp->res_hist_len);
  PetscCall(KSPMonitor(ksp, ksp->its, ksp->rnorm));
  KSPIDRSGetMembers(ksp, col);
  col->rep.reason = reason;
  PetscFunctionReturn(PETSC_SUCCESS);
}
