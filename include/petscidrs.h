/*
   Public interface of libpetscidrs, a plugin of PETSc: the Krylov solver KSPIDRS, the solver KSPOFFLOAD of copies on a GPU, the
   preconditioners PCPOLY (polynomials), PCAGGREGATION (multigrid), PCBJIDRS (solves with diagonal blocks) and PCMATCHING (maximum
   product matchings), the factorization package MATSOLVERPETSCIDRS, matrices MATAIJSTREAM that are streamed from host memory,
   matrix powers, and scatters PETSCSFNCCL from GPU to GPU
*/
#pragma once

#include <petscksp.h>

#define PETSCIDRS_VERSION_MAJOR    0
#define PETSCIDRS_VERSION_MINOR    5
#define PETSCIDRS_VERSION_SUBMINOR 0

#define KSPIDRS       "idrs"
#define KSPOFFLOAD    "offload"
#define PCPOLY        "poly"
#define PCBJIDRS      "bjidrs"
#define PCMATCHING    "matching"
#define PCAGGREGATION "aggregation"
#define PETSCSFNCCL   "nccl"

#define MATSOLVERPETSCIDRS "petscidrs"

#define MATAIJSTREAM    "aijstream"
#define MATSEQAIJSTREAM "seqaijstream"
#define MATMPIAIJSTREAM "mpiaijstream"

/*E
  KSPIDRSRecycle - The rule by which a solve with `KSPIDRS` begins with the bases G and U of the previous solve

  Values:
+ `KSP_IDRS_RECYCLE_NEVER`  - never, the default: a solve does not depend on earlier ones
. `KSP_IDRS_RECYCLE_AUTO`   - if the convergence of earlier solves suggests that this saves iterations
- `KSP_IDRS_RECYCLE_ALWAYS` - if there are bases for the same shadow space

  Level: intermediate

.seealso: `KSPIDRS`, `KSPIDRSSetRecycle()`, `KSPIDRSResetRecycle()`
E*/
typedef enum {
  KSP_IDRS_RECYCLE_NEVER,
  KSP_IDRS_RECYCLE_AUTO,
  KSP_IDRS_RECYCLE_ALWAYS
} KSPIDRSRecycle;
PETSC_EXTERN const char *const KSPIDRSRecycles[];

PETSC_EXTERN PetscErrorCode KSPIDRSRegister(void);

PETSC_EXTERN PetscErrorCode KSPIDRSSetShadowSize(KSP, PetscInt);
PETSC_EXTERN PetscErrorCode KSPIDRSGetShadowSize(KSP, PetscInt *);
PETSC_EXTERN PetscErrorCode KSPIDRSSetShadowVecs(KSP, PetscInt, Vec[]);
PETSC_EXTERN PetscErrorCode KSPIDRSSetShadowSeed(KSP, PetscInt);
PETSC_EXTERN PetscErrorCode KSPIDRSSetMinimumCosine(KSP, PetscReal);
PETSC_EXTERN PetscErrorCode KSPIDRSSetUpdateTolerance(KSP, PetscReal);
PETSC_EXTERN PetscErrorCode KSPIDRSSetSmoothing(KSP, PetscBool);
PETSC_EXTERN PetscErrorCode KSPIDRSSetRecycle(KSP, KSPIDRSRecycle);
PETSC_EXTERN PetscErrorCode KSPIDRSResetRecycle(KSP);
PETSC_EXTERN PetscErrorCode KSPIDRSSetBlock(KSP, PetscBool);
PETSC_EXTERN PetscErrorCode KSPIDRSGetColumnResults(KSP, PetscInt *, const KSPConvergedReason *[], const PetscInt *[],
                                                    const PetscReal *[]);
PETSC_EXTERN PetscErrorCode KSPIDRSGetCounts(KSP, PetscInt *, PetscInt *, PetscInt *, PetscInt *);
PETSC_EXTERN PetscErrorCode KSPIDRSMonitorInterrupt(KSP, PetscInt, PetscReal, void *);

PETSC_EXTERN PetscErrorCode KSPOffloadGetKSP(KSP, KSP *);
PETSC_EXTERN PetscErrorCode KSPOffloadSetMatType(KSP, MatType);

PETSC_EXTERN PetscErrorCode PCPolySetDegree(PC, PetscInt);
PETSC_EXTERN PetscErrorCode PCPolyGetDegree(PC, PetscInt *, PetscInt *);
PETSC_EXTERN PetscErrorCode PCPolySetRoots(PC, PetscInt, const PetscReal[], const PetscReal[]);
PETSC_EXTERN PetscErrorCode PCPolyGetRoots(PC, PetscInt *, const PetscReal *[], const PetscReal *[]);

PETSC_EXTERN PetscErrorCode PCBJIDRSGetKSP(PC, KSP *);
PETSC_EXTERN PetscErrorCode PCBJIDRSGetResults(PC, PetscInt *, const KSPConvergedReason *[], const PetscInt *[],
                                               const PetscReal *[]);

PETSC_EXTERN PetscErrorCode PCMatchingGetPC(PC, PC *);

PETSC_EXTERN PetscErrorCode MatGetMatching(Mat, IS *, Vec *, Vec *, PetscInt *);

PETSC_EXTERN PetscErrorCode MatPowersMult(Mat, Vec, Vec, PetscInt, const PetscScalar[], const PetscScalar[], const PetscScalar[],
                                          Vec[]);
PETSC_EXTERN PetscErrorCode MatPowersSum(Mat, Vec, Vec, PetscInt, const PetscScalar[], const PetscScalar[], const PetscScalar[],
                                         const PetscScalar[], Vec, Vec);
PETSC_EXTERN PetscErrorCode MatPowersSetMonomial(PetscInt, PetscScalar[], PetscScalar[], PetscScalar[]);
PETSC_EXTERN PetscErrorCode MatPowersSetNewton(PetscInt, PetscInt, const PetscReal[], const PetscReal[], PetscScalar[],
                                               PetscScalar[], PetscScalar[]);
PETSC_EXTERN PetscErrorCode MatPowersSetChebyshev(PetscInt, PetscReal, PetscReal, PetscReal, PetscScalar[], PetscScalar[],
                                                  PetscScalar[]);

/*
   Functions of version 0.4 that are gone, and what replaces them. A call is an error of the compiler with this text. A program sets
   an option with PetscOptionsSetValue() before KSPSetFromOptions() or PCSetFromOptions()
*/
#if defined(__has_attribute)
  #if __has_attribute(error)
    #define PETSCIDRS_GONE(function, object, instead) \
      extern PetscErrorCode function(object, ...) __attribute__((error(#function "() is gone: use " instead)))
PETSCIDRS_GONE(KSPIDRSSetMaxRestarts, KSP, "the option -ksp_idrs_max_restarts");
PETSCIDRS_GONE(KSPIDRSSetImplementation, KSP, "the option -ksp_idrs_implementation");
PETSCIDRS_GONE(KSPIDRSSetCommunication, KSP, "the option -ksp_idrs_communication");
PETSCIDRS_GONE(KSPIDRSSetProduct, KSP, "the option -ksp_idrs_product");
PETSCIDRS_GONE(KSPIDRSSetRun, KSP, "the option -ksp_idrs_run");
PETSCIDRS_GONE(KSPIDRSSetWidth, KSP, "the option -ksp_idrs_width");
PETSCIDRS_GONE(KSPIDRSGetBlock, KSP, "KSPView()");
PETSCIDRS_GONE(KSPIDRSGetCommunication, KSP, "KSPView()");
PETSCIDRS_GONE(KSPIDRSGetImplementation, KSP, "KSPView()");
PETSCIDRS_GONE(KSPIDRSGetMaxRestarts, KSP, "KSPView()");
PETSCIDRS_GONE(KSPIDRSGetMinimumCosine, KSP, "KSPView()");
PETSCIDRS_GONE(KSPIDRSGetProduct, KSP, "KSPView()");
PETSCIDRS_GONE(KSPIDRSGetRecycle, KSP, "KSPView()");
PETSCIDRS_GONE(KSPIDRSGetRun, KSP, "KSPView()");
PETSCIDRS_GONE(KSPIDRSGetShadowSeed, KSP, "KSPView()");
PETSCIDRS_GONE(KSPIDRSGetSmoothing, KSP, "KSPView()");
PETSCIDRS_GONE(KSPIDRSGetUpdateTolerance, KSP, "KSPView()");
PETSCIDRS_GONE(KSPIDRSGetWidth, KSP, "KSPView()");
PETSCIDRS_GONE(PCBJIDRSGetLocalBlocks, PC, "PCView()");
PETSCIDRS_GONE(PCBJIDRSSetLocalBlocks, PC, "MatSetVariableBlockSizes(), or the option -pc_bjidrs_blocks");
PETSCIDRS_GONE(PCPolySetRootsType, PC, "PCPolySetRoots() for roots other than those of GMRES");
PETSCIDRS_GONE(PCPolySetSeed, PC, "the option -pc_poly_seed");
PETSCIDRS_GONE(PCPolySetPrecision, PC, "the option -pc_poly_precision");
PETSCIDRS_GONE(PCPolySetScaling, PC, "the option -pc_poly_scaling");
PETSCIDRS_GONE(PCPolySetReuse, PC, "the option -pc_poly_reuse");
PETSCIDRS_GONE(PCPolyGetRootsType, PC, "PCView()");
PETSCIDRS_GONE(PCPolyGetSeed, PC, "PCView()");
PETSCIDRS_GONE(PCPolyGetPrecision, PC, "PCView()");
PETSCIDRS_GONE(PCPolyGetReuse, PC, "PCView()");
PETSCIDRS_GONE(PCPolyGetScaling, PC, "PCView()");
PETSCIDRS_GONE(PCPolyGetResidual, PC, "PCView()");
    #undef PETSCIDRS_GONE
  #endif
#endif
#define PCGAMGPATTERN PCGAMGPATTERN_is_gone_use_PCAGGREGATION /* no variable has this name: an error of the compiler */
