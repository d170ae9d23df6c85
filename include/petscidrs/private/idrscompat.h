/*
   Differences between the releases of PETSc that libpetscidrs is built with (3.18 and newer), and calls of PETSc with what its
   releases need before them
*/
#pragma once

#include <petsc/private/kspimpl.h>

#if PETSC_VERSION_LT(3, 18, 0)
  #pragma message("This is PETSc " PETSC_VERSION_GIT)
  #error "libpetscidrs needs PETSc 3.18 or newer"
#endif

#if !PetscDefined(USE_SHARED_LIBRARIES)
  #error "libpetscidrs is loaded by programs, and needs a PETSc with shared libraries: configure it with --with-shared-libraries"
#endif

/*
   Defined if back end cuda is compiled in. It needs PetscDeviceContextGetStreamHandle(), which is public from 3.20 on; the makefile
   has the same condition
*/
#if PetscDefined(HAVE_CUDA) && PETSC_VERSION_GE(3, 20, 0)
  #define PETSCIDRS_HAVE_CUDA 1
#endif

/* PETSC_SUCCESS and KSPMatSolveTranspose() came with 3.19 */
#if PETSC_VERSION_LT(3, 19, 0)
  #define PETSC_SUCCESS                    0
  #define IDRS_MATSOLVE_DIRECTIONS         1
  #define IDRSMatSolveTranspose(ksp, B, X) PETSC_ERR_SUP
#else
  #define IDRS_MATSOLVE_DIRECTIONS         2
  #define IDRSMatSolveTranspose(ksp, B, X) KSPMatSolveTranspose(ksp, B, X)
#endif

/* KSPSetMinimumIterations(), and the number of outer solvers of a KSP or a PC, came with 3.20 */
#if PETSC_VERSION_LT(3, 20, 0)
  #define IDRSMinimumIterations(ksp) 0
  #define IDRSCopyMinimumIterations(from, to) \
    do { \
    } while (0)
  #define IDRSGetNestLevel(ksp, level) (*(level) = 0, PETSC_SUCCESS)
  #define IDRSSetNestLevel(ksp, level) \
    do { \
    } while (0)
  #define IDRSSetNestLevelOfPC(pc, inner) \
    do { \
    } while (0)
#else
  #define IDRSMinimumIterations(ksp)          (ksp)->min_it
  #define IDRSCopyMinimumIterations(from, to) PetscCall(KSPSetMinimumIterations(to, (from)->min_it))
  #define IDRSGetNestLevel(ksp, level)        KSPGetNestLevel(ksp, level)
  #define IDRSSetNestLevel(ksp, level)        PetscCall(KSPSetNestLevel(ksp, level))
  #define IDRSSetNestLevelOfPC(pc, inner)     PetscCall(PCSetKSPNestLevel(inner, (pc)->kspnestlevel))
#endif

/* Solvers that do not read the initial guess tell KSPSolve() since 3.21 that it need not set x to zero */
#if PETSC_VERSION_LT(3, 21, 0)
  #define IDRSGuessNotRead(ksp) \
    do { \
    } while (0)
#else
  #define IDRSGuessNotRead(ksp) ((ksp)->guess_not_read = PETSC_TRUE)
#endif

/*
   In 3.22 came VecFlag(), which sets the entries of this process to infinity if the flag is set, and the default of the divergence
   tolerance as a member of KSP. MPIU_Allreduce() returns an error code of MPI since then. IDRSRankCount: processes in
   PetscSFGetRootRanks() and PetscSFGetLeafRanks()
*/
#if PETSC_VERSION_LT(3, 22, 0)
typedef PetscInt IDRSRankCount;
  #define IDRSCallAllreduce(...) PetscCall(MPIU_Allreduce(__VA_ARGS__))
  #define IDRSVecFlag(v, flag) \
    do { \
      if (flag) PetscCall(VecSetInf(v)); \
    } while (0)
#else
typedef PetscMPIInt IDRSRankCount;
  #define IDRSCallAllreduce(...) PetscCallMPI(MPIU_Allreduce(__VA_ARGS__))
  #define IDRSVecFlag(v, flag)   PetscCall(VecFlag(v, flag))
#endif

/*
   In 3.23 the second argument of ops->setfromoptions is no pointer any more, the destructors of a PetscContainer and of the context
   of a MATSHELL have the address of the pointer as their argument, and PCFactor has options for matrices on a GPU
*/
#if PETSC_VERSION_LT(3, 23, 0)
typedef PetscOptionItems *IDRSOptionItems;
  #define IDRSContainerData(pointer)            (pointer)
  #define IDRSContainerSetDestroy(container, f) PetscContainerSetUserDestroy(container, f)
  #define IDRSMatShellSetDestroy(mat, f)        MatShellSetContextDestroy(mat, f)
  #define IDRSFactorOnHost(info)                PETSC_FALSE
#else
typedef PetscOptionItems IDRSOptionItems;
  #define IDRSContainerData(pointer)            (*(void **)(pointer))
  #define IDRSContainerSetDestroy(container, f) PetscContainerSetCtxDestroy(container, (PetscCtxDestroyFn *)(f))
  #define IDRSMatShellSetDestroy(mat, f)        MatShellSetContextDestroy(mat, (PetscCtxDestroyFn *)(f))
  #define IDRSFactorOnHost(info)                ((info)->factoronhost || (info)->solveonhost)
#endif

/*
   Up to 3.25 -ksp_monitor_short has a separate function, there is KSPSetDiagonalScale(), and Krylov methods must support or refuse
   diagonal scaling inside the PC. From 3.26 on KSPConvergedDefault() would use the norm of the dense matrix of right-hand sides of
   KSPMatSolve(). IDRSPCForgetMat() makes the next PCSetUp() see a new pattern. IDRSMatIndex: row offsets and columns of a
   MATSEQAIJCUSPARSE on the device
*/
#if PETSC_VERSION_LT(3, 26, 0)
typedef int IDRSMatIndex;
  #define IDRSMonitorShort          KSPMonitorResidualShort
  #define IDRSHasDiagonalScale(ksp) ((ksp)->dscale)
  #define IDRSForgetBlock(ksp)      (void)0
  #define IDRSPCForgetMat(pc)       (pc)->matstate = (pc)->matnonzerostate = 0
  #define IDRSCheckDiagonalScale(ksp) \
    do { \
      PetscBool idrs_scaled_; \
      PetscCall(PCGetDiagonalScale((ksp)->pc, &idrs_scaled_)); \
      PetscCheck(!idrs_scaled_, PetscObjectComm((PetscObject)(ksp)), PETSC_ERR_SUP, \
                 "Krylov method %s does not support diagonal scaling", ((PetscObject)(ksp))->type_name); \
    } while (0)
#else
typedef PetscInt IDRSMatIndex;
  #define IDRSMonitorShort            KSPMonitorResidual
  #define IDRSHasDiagonalScale(ksp)   PETSC_FALSE
  #define IDRSForgetBlock(ksp)        (ksp)->mat_rhs = NULL
  #define IDRSPCForgetMat(pc)         (void)memset(&(pc)->matstate, 0, sizeof((pc)->matstate))
  #define IDRSCheckDiagonalScale(ksp) (void)0
#endif

/*
   Returns PETSC_TRUE if the matrix of a set-up has the pattern that it had at the last set-up. PETSc's flag alone may say so after
   MatAXPY() has replaced the matrix in its Mat, which then has another id
*/
static inline PetscBool IDRSPatternIsSame(MatStructure flag, Mat A, PetscObjectId *id)
{
  const PetscObjectId before = *id;

  *id = ((PetscObject)A)->id;
  return (PetscBool)(flag == SAME_NONZERO_PATTERN && *id == before);
}

/*
   Returns PETSC_TRUE if KSPMatSolve() solves transposed systems. Before 3.19 it cannot, and does not reset the flag of the last
   KSPSolveTranspose(). From 3.26 on an assembled transpose has another flag
*/
#if PETSC_VERSION_LT(3, 19, 0)
  #define IDRSMatSolveTransposes(ksp) ((ksp)->transpose_solve = PETSC_FALSE)
#elif PETSC_VERSION_LT(3, 26, 0)
  #define IDRSMatSolveTransposes(ksp) ((ksp)->transpose_solve)
#else
  #define IDRSMatSolveTransposes(ksp) ((ksp)->transpose.solve_requested)
#endif

/* Adds to the calls of an event in -log_view, without times. PetscLogHandler came with 3.20 */
static inline PetscErrorCode IDRSLogCalls(PetscLogEvent event, PetscInt calls)
{
#if PETSC_VERSION_GE(3, 20, 0)
  PetscLogHandler     handler;
  PetscEventPerfInfo *info;

  PetscFunctionBegin;
  PetscCall(PetscLogGetDefaultHandler(&handler));
  if (handler) {
    PetscCall(PetscLogHandlerGetEventPerfInfo(handler, PETSC_DETERMINE, event, &info));
    info->count += (int)calls;
  }
#else
  PetscFunctionBegin;
  #if PetscDefined(USE_LOG)
  if (PetscLogPLB) petsc_stageLog->stageInfo[petsc_stageLog->curStage].eventLog->eventInfo[event].count += (int)calls;
  #endif
#endif
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Suppresses -ksp_converged_reason. From 3.22 on the KSP stores its viewer. Before 3.22 every KSPSolve() reads the option, and does
   not find it among the empty options of this function
*/
#if PETSC_VERSION_LT(3, 22, 0)
typedef PetscOptions IDRSReasonViewer;
#else
typedef PetscViewer IDRSReasonViewer;
#endif

static inline PetscErrorCode IDRSHideReason(KSP ksp, IDRSReasonViewer *kept)
{
  PetscFunctionBegin;
#if PETSC_VERSION_LT(3, 22, 0)
  *kept = ((PetscObject)ksp)->options;
  PetscCall(PetscOptionsCreate(&((PetscObject)ksp)->options));
#else
  *kept                      = ksp->convergedreasonviewer;
  ksp->convergedreasonviewer = NULL;
#endif
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode IDRSShowReason(KSP ksp, IDRSReasonViewer kept)
{
  PetscFunctionBegin;
#if PETSC_VERSION_LT(3, 22, 0)
  PetscCall(PetscOptionsDestroy(&((PetscObject)ksp)->options));
  ((PetscObject)ksp)->options = kept;
#else
  ksp->convergedreasonviewer = kept;
#endif
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Changes the default of the divergence tolerance: the value, if it is the old default, and the default that PETSc stores */
static inline PetscErrorCode IDRSSetDefaultDivtol(KSP ksp, PetscReal from, PetscReal to)
{
  PetscFunctionBegin;
  if (ksp->divtol == from) ksp->divtol = to;
#if PETSC_VERSION_GE(3, 22, 0)
  ksp->default_divtol = to;
#endif
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the scatter of MatMult(), or NULL. MatGetMultPetscSF() came with 3.26, and fails for matrices without a scatter */
static inline PetscErrorCode IDRSMatGetScatter(Mat A, PetscSF *sf)
{
#if PETSC_VERSION_GE(3, 26, 0)
  PetscErrorCode (*get)(Mat, PetscSF *);
#endif

  PetscFunctionBegin;
  *sf = NULL;
#if PETSC_VERSION_GE(3, 26, 0)
  PetscCall(PetscObjectQueryFunction((PetscObject)A, "MatGetMultPetscSF_C", &get));
  if (get) PetscCall(MatGetMultPetscSF(A, sf));
#endif
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes y = d x, entry by entry; y may be x. In 3.26 VecPointwiseMult() of VECCUDA in place uses the entries of y on the GPU
   even if the host has newer entries, as after MatMult() of a MATAIJ. So y is copied to the GPU first
*/
static inline PetscErrorCode IDRSVecPointwiseMult(Vec y, Vec d, Vec x)
{
#if PetscDefined(HAVE_CUDA)
  const PetscScalar *array;
  PetscBool          cuda;
#endif

  PetscFunctionBegin;
#if PetscDefined(HAVE_CUDA)
  PetscCall(PetscObjectTypeCompareAny((PetscObject)y, &cuda, VECSEQCUDA, VECMPICUDA, ""));
  if (cuda && x == y) {
    PetscCall(VecGetArrayReadAndMemType(y, &array, NULL));
    PetscCall(VecRestoreArrayReadAndMemType(y, &array));
  }
#endif
  PetscCall(VecPointwiseMult(y, d, x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   PETSc caches the norm of a vector. If the squares of the entries underflow, the cached norm is 0: then VecSet(v, 0) keeps the
   entries, and VecScale() scales the 0
*/
#define IDRSVecForgetNorm(v) PetscObjectStateIncrease((PetscObject)(v))

/* Computes v = 0 */
static inline PetscErrorCode IDRSVecZero(Vec v)
{
  PetscFunctionBegin;
  PetscCall(IDRSVecForgetNorm(v));
  PetscCall(VecSet(v, 0.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes y = A^T x; PETSc begins with VecSet(y, 0) */
static inline PetscErrorCode IDRSMatMultTranspose(Mat A, Vec x, Vec y)
{
  PetscFunctionBegin;
  PetscCall(IDRSVecForgetNorm(y));
  PetscCall(MatMultTranspose(A, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}
