/*
   Failures of applications of a preconditioner. An application that fails on a process makes entries of its result infinite there
   and sets the reason. Solvers of PETSc read the reason, on all processes, if a norm or an inner product is not finite
*/
#pragma once

#include <petsc/private/pcimpl.h>
#include <petscidrs/private/idrscompat.h>

/* Sets the reason on all processes. In KSPMatSolve() with KSPPREONLY of PETSc 3.18 each process reads only its own reason */
static inline PetscErrorCode IDRSPCReduceFailure(PC pc)
{
  PCFailedReason reason;
  PetscInt       most;

  PetscFunctionBegin;
  PetscCall(PCGetFailedReason(pc, &reason));
  most = (PetscInt)reason;
  IDRSCallAllreduce(MPI_IN_PLACE, &most, 1, MPIU_INT, MPI_MAX, PetscObjectComm((PetscObject)pc));
  PetscCall(PCSetFailedReason(pc, (PCFailedReason)most));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Replaces the failure of an application by the one of the set-up at the end of a solve. Otherwise KSPSetUp() of the next solve
   would report it, on some processes only. A KSP without norms, such as a smoother, has not looked at the reason: its own reason
   becomes KSP_DIVERGED_PC_FAILED here, on all processes, for KSPCheckSolve(). After an error the KSP has no reason
*/
static inline PetscErrorCode IDRSPCEndFailure(PC pc, KSP ksp, PCFailedReason setup)
{
  PCFailedReason reason;

  PetscFunctionBegin;
  if (ksp->normtype == KSP_NORM_NONE && ksp->reason) {
    PetscCall(IDRSPCReduceFailure(pc));
    PetscCall(PCGetFailedReason(pc, &reason));
    if (reason) ksp->reason = KSP_DIVERGED_PC_FAILED;
  }
  PetscCall(PCSetFailedReason(pc, setup));
  PetscFunctionReturn(PETSC_SUCCESS);
}
