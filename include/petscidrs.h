/*
   Public interface of libpetscidrs, a plugin of PETSc: the Krylov solver KSPIDRS, the preconditioners PCPOLY (polynomials),
   PCBJIDRS (solves with diagonal blocks) and PCMATCHING (maximum product matchings), the type PCGAMGPATTERN of PCGAMG, the
   factorization package MATSOLVERPETSCIDRS, matrices MATAIJSTREAM that are streamed from host memory, matrix powers, and scatters
   PETSCSFNCCL from GPU to GPU
*/
#pragma once

#include <petscksp.h>

#define PETSCIDRS_VERSION_MAJOR    0
#define PETSCIDRS_VERSION_MINOR    4
#define PETSCIDRS_VERSION_SUBMINOR 0

#define KSPIDRS     "idrs"
#define PCPOLY      "poly"
#define PCBJIDRS    "bjidrs"
#define PCMATCHING  "matching"
#define PETSCSFNCCL "nccl"

#define PCGAMGPATTERN "pattern"

#define MATSOLVERPETSCIDRS "petscidrs"

#define MATAIJSTREAM    "aijstream"
#define MATSEQAIJSTREAM "seqaijstream"
#define MATMPIAIJSTREAM "mpiaijstream"

/*E
  KSPIDRSImplementation - The back end that runs the vector operations of `KSPIDRS`

  Values:
+ `KSP_IDRS_AUTO` - the fastest back end that can run on the vectors of the system, the default
. `KSP_IDRS_VEC`  - PETSc's `Vec` operations, for every type of vector
. `KSP_IDRS_HOST` - fused loops over arrays in the memory of the host, for `VECSEQ` and `VECMPI`
- `KSP_IDRS_CUDA` - fused CUDA kernels, for `VECCUDA`

  Level: intermediate

.seealso: `KSPIDRS`, `KSPIDRSSetImplementation()`, `KSPIDRSGetImplementation()`
E*/
typedef enum {
  KSP_IDRS_AUTO,
  KSP_IDRS_VEC,
  KSP_IDRS_HOST,
  KSP_IDRS_CUDA
} KSPIDRSImplementation;
PETSC_EXTERN const char *const KSPIDRSImplementations[];

/*E
  KSPIDRSCommunication - The communication of the reductions of `KSPIDRS` between GPUs

  Values:
+ `KSP_IDRS_COMMUNICATION_AUTO` - mapped memory if each process has its own GPU, else NCCL if the scatter of the operator uses it,
                                  else MPI; the default
. `KSP_IDRS_COMMUNICATION_MPI`  - through the hosts, by MPI
. `KSP_IDRS_COMMUNICATION_NCCL` - from GPU to GPU, by NCCL
- `KSP_IDRS_COMMUNICATION_PEER` - from GPU to GPU on one node, inside the kernels of the projections

  Level: intermediate

.seealso: `KSPIDRS`, `KSPIDRSSetCommunication()`, `KSPIDRSGetCommunication()`
E*/
typedef enum {
  KSP_IDRS_COMMUNICATION_AUTO,
  KSP_IDRS_COMMUNICATION_MPI,
  KSP_IDRS_COMMUNICATION_NCCL,
  KSP_IDRS_COMMUNICATION_PEER
} KSPIDRSCommunication;
PETSC_EXTERN const char *const KSPIDRSCommunications[];

/*E
  KSPIDRSProduct - The back end that computes the matvecs of the iterations of `KSPIDRS`

  Values:
+ `KSP_IDRS_PRODUCT_AUTO`   - `KSP_IDRS_PRODUCT_SLICED` or `KSP_IDRS_PRODUCT_CSR` if they can run and are expected to be faster,
  else `KSP_IDRS_PRODUCT_MAT`, the default
. `KSP_IDRS_PRODUCT_MAT`    - PETSc's `MatMult()`, for every type of operator
. `KSP_IDRS_PRODUCT_CSR`    - kernels that also compute the inner products of the projection, on the arrays of `MATSEQAIJCUSPARSE`
- `KSP_IDRS_PRODUCT_SLICED` - the same on a copy of the matrix in a sliced format with 16-bit column indices

  Level: intermediate

  Note:
  Simultaneous right-hand sides use products of the same kind with several columns, which read the operator once. With
  `KSP_IDRS_PRODUCT_AUTO` there are also products for `MATAIJ` on the host, and for `MATAIJCUSPARSE` if a single column would use
  `MatMult()`. With `KSP_IDRS_PRODUCT_MAT` each column has its own `MatMult()`.

.seealso: `KSPIDRS`, `KSPIDRSSetProduct()`, `KSPIDRSGetProduct()`
E*/
typedef enum {
  KSP_IDRS_PRODUCT_AUTO,
  KSP_IDRS_PRODUCT_MAT,
  KSP_IDRS_PRODUCT_CSR,
  KSP_IDRS_PRODUCT_SLICED
} KSPIDRSProduct;
PETSC_EXTERN const char *const KSPIDRSProducts[];

/*E
  KSPIDRSRun - The back end that runs the iterations of `KSPIDRS`

  Values:
+ `KSP_IDRS_RUN_AUTO`  - `KSP_IDRS_RUN_WHOLE` if it can run and is expected to be faster, else `KSP_IDRS_RUN_STEPS`, the default
. `KSP_IDRS_RUN_STEPS` - step by step, with one or more kernels per step on a GPU
- `KSP_IDRS_RUN_WHOLE` - many steps in one kernel, for small systems on one GPU

  Level: intermediate

.seealso: `KSPIDRS`, `KSPIDRSSetRun()`, `KSPIDRSGetRun()`
E*/
typedef enum {
  KSP_IDRS_RUN_AUTO,
  KSP_IDRS_RUN_STEPS,
  KSP_IDRS_RUN_WHOLE
} KSPIDRSRun;
PETSC_EXTERN const char *const KSPIDRSRuns[];

/*E
  KSPIDRSRecycle - The rule by which a solve with `KSPIDRS` begins with the panels of the previous solve

  Values:
+ `KSP_IDRS_RECYCLE_NEVER`  - never, the default: a solve does not depend on earlier ones
. `KSP_IDRS_RECYCLE_AUTO`   - if the convergence of earlier solves suggests that this saves iterations
- `KSP_IDRS_RECYCLE_ALWAYS` - if there are panels for the same shadow space

  Level: intermediate

.seealso: `KSPIDRS`, `KSPIDRSSetRecycle()`, `KSPIDRSGetRecycle()`, `KSPIDRSResetRecycle()`
E*/
typedef enum {
  KSP_IDRS_RECYCLE_NEVER,
  KSP_IDRS_RECYCLE_AUTO,
  KSP_IDRS_RECYCLE_ALWAYS
} KSPIDRSRecycle;
PETSC_EXTERN const char *const KSPIDRSRecycles[];

/*E
  PCPolyRootsType - The source of the roots of the residual polynomial of `PCPOLY`

  Values:
+ `PC_POLY_ROOTS_GMRES`     - harmonic Ritz values of a Krylov space, the roots of the residual polynomial of GMRES, the default
. `PC_POLY_ROOTS_CHEBYSHEV` - the Chebyshev polynomial of the interval that the real parts of the Ritz values span, for operators
  with a real and positive spectrum
. `PC_POLY_ROOTS_NEUMANN`   - all roots are one: the truncated Neumann series of the operator scaled by its diagonal
- `PC_POLY_ROOTS_USER`      - the roots set with `PCPolySetRoots()`

  Level: intermediate

  Note:
  Chebyshev polynomials and the Neumann series diverge if convection is strong.

.seealso: `PCPOLY`, `PCPolySetRootsType()`, `PCPolyGetRootsType()`, `PCPolySetRoots()`
E*/
typedef enum {
  PC_POLY_ROOTS_GMRES,
  PC_POLY_ROOTS_CHEBYSHEV,
  PC_POLY_ROOTS_NEUMANN,
  PC_POLY_ROOTS_USER
} PCPolyRootsType;
PETSC_EXTERN const char *const PCPolyRootsTypes[];

/*E
  PCPolyPrecision - Precision of the values of the matrix that `PCPOLY` multiplies by

  Values:
+ `PC_POLY_PRECISION_HALF`   - half precision, the default
. `PC_POLY_PRECISION_SINGLE` - single precision
- `PC_POLY_PRECISION_DOUBLE` - the precision of `PetscScalar`

  Level: intermediate

  Note:
  Vectors always have the precision of `PetscScalar`, as the values of a matrix that is not on a GPU.

.seealso: `PCPOLY`, `PCPolySetPrecision()`, `PCPolyGetPrecision()`
E*/
typedef enum {
  PC_POLY_PRECISION_HALF,
  PC_POLY_PRECISION_SINGLE,
  PC_POLY_PRECISION_DOUBLE
} PCPolyPrecision;
PETSC_EXTERN const char *const PCPolyPrecisions[];

/*E
  PCPolyScaling - The scaling and permutation of the matrix in `PCPOLY`

  Values:
+ `PC_POLY_SCALING_AUTO`     - by the diagonal; if the diagonal is weak, by the diagonal or by a matching, from the polynomial
  that reduces a random vector more; the default
. `PC_POLY_SCALING_NONE`     - not at all
. `PC_POLY_SCALING_DIAGONAL` - rows by the inverse of the diagonal entry
- `PC_POLY_SCALING_MATCHING` - permutes the rows, and scales rows and columns, by a maximum product matching

  Level: intermediate

.seealso: `PCPOLY`, `PCPolySetScaling()`, `PCPolyGetScaling()`, `MatGetMatching()`
E*/
typedef enum {
  PC_POLY_SCALING_AUTO,
  PC_POLY_SCALING_NONE,
  PC_POLY_SCALING_DIAGONAL,
  PC_POLY_SCALING_MATCHING
} PCPolyScaling;
PETSC_EXTERN const char *const PCPolyScalings[];

PETSC_EXTERN PetscErrorCode KSPIDRSRegister(void);

PETSC_EXTERN PetscErrorCode KSPIDRSSetShadowSize(KSP, PetscInt);
PETSC_EXTERN PetscErrorCode KSPIDRSGetShadowSize(KSP, PetscInt *);
PETSC_EXTERN PetscErrorCode KSPIDRSSetShadowVecs(KSP, PetscInt, Vec[]);
PETSC_EXTERN PetscErrorCode KSPIDRSSetShadowSeed(KSP, PetscInt);
PETSC_EXTERN PetscErrorCode KSPIDRSGetShadowSeed(KSP, PetscInt *);
PETSC_EXTERN PetscErrorCode KSPIDRSSetMinimumCosine(KSP, PetscReal);
PETSC_EXTERN PetscErrorCode KSPIDRSGetMinimumCosine(KSP, PetscReal *);
PETSC_EXTERN PetscErrorCode KSPIDRSSetUpdateTolerance(KSP, PetscReal);
PETSC_EXTERN PetscErrorCode KSPIDRSGetUpdateTolerance(KSP, PetscReal *);
PETSC_EXTERN PetscErrorCode KSPIDRSSetMaxRestarts(KSP, PetscInt);
PETSC_EXTERN PetscErrorCode KSPIDRSGetMaxRestarts(KSP, PetscInt *);
PETSC_EXTERN PetscErrorCode KSPIDRSSetSmoothing(KSP, PetscBool);
PETSC_EXTERN PetscErrorCode KSPIDRSGetSmoothing(KSP, PetscBool *);
PETSC_EXTERN PetscErrorCode KSPIDRSSetImplementation(KSP, KSPIDRSImplementation);
PETSC_EXTERN PetscErrorCode KSPIDRSGetImplementation(KSP, KSPIDRSImplementation *);
PETSC_EXTERN PetscErrorCode KSPIDRSSetCommunication(KSP, KSPIDRSCommunication);
PETSC_EXTERN PetscErrorCode KSPIDRSGetCommunication(KSP, KSPIDRSCommunication *);
PETSC_EXTERN PetscErrorCode KSPIDRSSetProduct(KSP, KSPIDRSProduct);
PETSC_EXTERN PetscErrorCode KSPIDRSGetProduct(KSP, KSPIDRSProduct *);
PETSC_EXTERN PetscErrorCode KSPIDRSSetRun(KSP, KSPIDRSRun);
PETSC_EXTERN PetscErrorCode KSPIDRSGetRun(KSP, KSPIDRSRun *);
PETSC_EXTERN PetscErrorCode KSPIDRSSetRecycle(KSP, KSPIDRSRecycle);
PETSC_EXTERN PetscErrorCode KSPIDRSGetRecycle(KSP, KSPIDRSRecycle *);
PETSC_EXTERN PetscErrorCode KSPIDRSResetRecycle(KSP);
PETSC_EXTERN PetscErrorCode KSPIDRSSetWidth(KSP, PetscInt);
PETSC_EXTERN PetscErrorCode KSPIDRSGetWidth(KSP, PetscInt *);
PETSC_EXTERN PetscErrorCode KSPIDRSSetBlock(KSP, PetscBool);
PETSC_EXTERN PetscErrorCode KSPIDRSGetBlock(KSP, PetscBool *);
PETSC_EXTERN PetscErrorCode KSPIDRSGetColumnResults(KSP, PetscInt *, const KSPConvergedReason *[], const PetscInt *[],
                                                    const PetscReal *[]);
PETSC_EXTERN PetscErrorCode KSPIDRSGetCounts(KSP, PetscInt *, PetscInt *, PetscInt *, PetscInt *);

PETSC_EXTERN PetscErrorCode PCPolySetDegree(PC, PetscInt);
PETSC_EXTERN PetscErrorCode PCPolyGetDegree(PC, PetscInt *, PetscInt *);
PETSC_EXTERN PetscErrorCode PCPolySetRootsType(PC, PCPolyRootsType);
PETSC_EXTERN PetscErrorCode PCPolyGetRootsType(PC, PCPolyRootsType *);
PETSC_EXTERN PetscErrorCode PCPolySetRoots(PC, PetscInt, const PetscReal[], const PetscReal[]);
PETSC_EXTERN PetscErrorCode PCPolyGetRoots(PC, PetscInt *, const PetscReal *[], const PetscReal *[]);
PETSC_EXTERN PetscErrorCode PCPolySetSeed(PC, PetscInt);
PETSC_EXTERN PetscErrorCode PCPolyGetSeed(PC, PetscInt *);
PETSC_EXTERN PetscErrorCode PCPolySetPrecision(PC, PCPolyPrecision);
PETSC_EXTERN PetscErrorCode PCPolyGetPrecision(PC, PCPolyPrecision *);
PETSC_EXTERN PetscErrorCode PCPolySetScaling(PC, PCPolyScaling);
PETSC_EXTERN PetscErrorCode PCPolyGetScaling(PC, PCPolyScaling *, PCPolyScaling *);
PETSC_EXTERN PetscErrorCode PCPolySetReuse(PC, PetscBool);
PETSC_EXTERN PetscErrorCode PCPolyGetReuse(PC, PetscBool *);
PETSC_EXTERN PetscErrorCode PCPolyGetResidual(PC, PetscReal *, PetscReal *);

PETSC_EXTERN PetscErrorCode PCBJIDRSSetLocalBlocks(PC, PetscInt, const PetscInt[]);
PETSC_EXTERN PetscErrorCode PCBJIDRSGetLocalBlocks(PC, PetscInt *, const PetscInt *[]);
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
