/*
   The preconditioner PCBJIDRS: type, set-up, application, options

     y_i = A_ii^{-1} x_i   for all diagonal blocks A_ii, up to the tolerance, each by a separate IDR(s) solve: idrssystem.h
*/
#include "bjidrs.h"
#include "bjidrsimpl.h"
#include <petscidrs/private/idrsrows.h>
#include <petscidrs/private/idrsfailure.h>
#include <petscidrs/private/idrsplace.h>

static const char *const BJIDRSSources[] = {
  [BJIDRS_PATTERN]  = "found in the pattern",
  [BJIDRS_VARIABLE] = "of MatSetVariableBlockSizes()",
  [BJIDRS_NUMBER]   = "of the same size, number set by the user",
  [BJIDRS_SIZES]    = "of PCBJIDRSSetLocalBlocks()",
};

/* Largest number of failed systems that PetscInfo() lists */
#define BJIDRS_NAMED 10

/*
   Applies the PCJACOBI to a vector of ones. If it divides by the diagonal, small entries are not used; entries outside the
   blocks do not matter
*/
static PetscErrorCode BJIDRSGetDiagonal(PC_BJIDRS *bjidrs, PC diagonal, Vec work, Vec inverse)
{
  PCJacobiType type;
  PetscBool    known;
  Vec          largest;

  PetscFunctionBegin;
  PetscCall(VecSet(work, 1.0));
  PetscCall(PCApply(diagonal, work, inverse));
  bjidrs->small = 0;
  PetscCall(PCJacobiGetType(diagonal, &type));
  if (type != PC_JACOBI_DIAGONAL) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecDuplicate(work, &largest));
  PetscCall(IDRSRowsLargest(bjidrs->A, bjidrs->nblocks, bjidrs->starts, largest, &known));
  PetscCall(MatGetDiagonal(bjidrs->A, work));
  /* d_i = 1 / a_ii, or 1 / max_j |a_ij| if a_ii is small */
  PetscCall(IDRSReplaceSmallDiagonal(work, largest, inverse, &bjidrs->small));
  PetscCall(VecDestroy(&largest));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the diagonal of B^{-1} with the inner PCJACOBI; NULL with PCNONE. Does nothing if the matrix has not changed */
static PetscErrorCode BJIDRSSetUpDiagonal(PC pc)
{
  PC_BJIDRS     *bjidrs = (PC_BJIDRS *)pc->data;
  PetscErrorCode ierr;
  PetscBool      jacobi;
  KSP            inner;
  PC             diagonal;
  Vec            inverse, work;

  PetscFunctionBegin;
  PetscCall(PCBJIDRSGetKSP(pc, &inner));
  PetscCall(KSPGetPC(inner, &diagonal));
  PetscCall(PetscObjectTypeCompare((PetscObject)diagonal, PCJACOBI, &jacobi));
  if (!jacobi) {
    PetscCall(VecDestroy(&bjidrs->inverse));
    bjidrs->small = 0;
  }
  if (!jacobi || bjidrs->inverse) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPSetOperators(inner, bjidrs->A, bjidrs->A));
  PetscCall(PCSetUp(diagonal));
  PetscCall(MatCreateVecs(bjidrs->A, &inverse, &work));
  ierr = BJIDRSGetDiagonal(bjidrs, diagonal, work, inverse);
  PetscCall(VecDestroy(&work));
  if (ierr) PetscCall(VecDestroy(&inverse));
  PetscCall(ierr);
  bjidrs->inverse = inverse; /* only once it is complete */
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCSetUp_BJIDRS(PC pc)
{
  PC_BJIDRS       *bjidrs = (PC_BJIDRS *)pc->data;
  PetscBool        aij;
  PetscInt         m, n;
  IDRSSystemLimits limits;
  Mat              A;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)pc->pmat, &aij, MATSEQAIJ, MATMPIAIJ, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE,
                                      MATSEQAIJSTREAM, MATMPIAIJSTREAM, ""));
  PetscCheck(aij, PetscObjectComm((PetscObject)pc), PETSC_ERR_SUP,
             "-%spc_type bjidrs needs a matrix of type aij, aijcusparse or aijstream, and this one is of type %s", IDRSPrefix(pc),
             ((PetscObject)pc->pmat)->type_name);
  PetscCall(MatGetDiagonalBlock(pc->pmat, &A));
  PetscCall(MatGetLocalSize(A, &m, &n));
  PetscCheck(m == n, PETSC_COMM_SELF, PETSC_ERR_ARG_SIZ,
             "-%spc_type bjidrs needs as many columns as rows, and this process has %" PetscInt_FMT " rows and %" PetscInt_FMT
             " columns",
             IDRSPrefix(pc), m, n);
  /* A may be the present matrix */
  PetscCall(PetscObjectReference((PetscObject)A));
  PetscCall(MatDestroy(&bjidrs->A));
  bjidrs->A        = A;
  bjidrs->nsystems = 0;
  PetscCall(PCSetFailedReason(pc, PC_NOERROR));
  PetscCall(VecDestroy(&bjidrs->inverse));
  PetscCall(BJIDRSGetLimits_Private(pc, &limits));
  PetscCall(BJIDRSFindSystems_Private(pc));
  PetscCall(BJIDRSSetUpDiagonal(pc));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Allocates the results of an application to this number of columns */
static PetscErrorCode BJIDRSMakeRoom(PC_BJIDRS *bjidrs, PetscInt columns)
{
  PetscInt nsystems;

  PetscFunctionBegin;
  PetscCall(PetscIntMultError(bjidrs->nblocks, columns, &nsystems));
  /* results stay valid until the next application */
  if (nsystems > bjidrs->room) {
    bjidrs->nsystems = bjidrs->room = 0;
    PetscCall(PetscFree3(bjidrs->reasons, bjidrs->its, bjidrs->norms));
    PetscCall(PetscMalloc3(nsystems, &bjidrs->reasons, nsystems, &bjidrs->its, nsystems, &bjidrs->norms));
    bjidrs->room = nsystems;
  }
  bjidrs->nsystems = nsystems;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the failure of the application if a system on this process has failed, and lists failed systems */
static PetscErrorCode BJIDRSCheckResults(PC pc, const IDRSSystemLimits *limits)
{
  PC_BJIDRS *bjidrs = (PC_BJIDRS *)pc->data;
  PetscInt   failed = 0;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < bjidrs->nsystems; i++) {
    const PetscInt block = i % bjidrs->nblocks;

    if (!IDRSSystemFails(limits, bjidrs->reasons[i])) continue;
    PetscCheck(!pc->erroriffailure, PETSC_COMM_SELF, PETSC_ERR_NOT_CONVERGED,
               "Block %" PetscInt_FMT " of PCBJIDRS, rows %" PetscInt_FMT " to %" PetscInt_FMT
               " of this process: %s after %" PetscInt_FMT " iterations, the norm of b - A x is %g",
               block, bjidrs->starts[block], bjidrs->starts[block + 1] - 1, KSPConvergedReasons[bjidrs->reasons[i]], bjidrs->its[i],
               (double)bjidrs->norms[i]);
    if (failed++ < BJIDRS_NAMED)
      PetscCall(PetscInfo(pc, "Block %" PetscInt_FMT ", %s after %" PetscInt_FMT " iterations: ||b - A x|| = %g\n", block,
                          KSPConvergedReasons[bjidrs->reasons[i]], bjidrs->its[i], (double)bjidrs->norms[i]));
  }
  if (failed)
    PetscCall(
      PetscInfo(pc, "%" PetscInt_FMT " of %" PetscInt_FMT " systems have failed on this process\n", failed, bjidrs->nsystems));
  PetscCall(PCSetFailedReason(pc, failed ? PC_SUBPC_ERROR : PC_NOERROR));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns PETSC_TRUE if a vector or a matrix is on the GPU, and not bound to the CPU */
static PetscErrorCode BJIDRSIsOnGPU(PetscObject object, PetscBool *gpu)
{
  IDRSPlace place;

  PetscFunctionBegin;
  if (object->classid == VEC_CLASSID) PetscCall(IDRSVecWhere((Vec)object, &place));
  else PetscCall(IDRSMatWhere((Mat)object, &place));
  *gpu = (PetscBool)(place == IDRS_PLACE_CUDA);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves for all columns of x, a vector or a dense matrix, with the back end for the memory of the matrix and all columns */
static PetscErrorCode BJIDRSApply(PC pc, PetscInt columns, PetscObject x, PetscObject y)
{
  PC_BJIDRS       *bjidrs = (PC_BJIDRS *)pc->data;
  PetscBool        matrix, from, to, gpu;
  IDRSSystemLimits limits;
  IDRSArrays       arrays;

  PetscFunctionBegin;
  PetscCall(BJIDRSIsOnGPU((PetscObject)bjidrs->A, &matrix));
  PetscCall(BJIDRSIsOnGPU(x, &from));
  PetscCall(BJIDRSIsOnGPU(y, &to));
  PetscCall(BJIDRSGetLimits_Private(pc, &limits));
  PetscCall(BJIDRSSetUpDiagonal(pc)); /* its type may have changed since the set-up */
  PetscCall(BJIDRSMakeRoom(bjidrs, columns));
  gpu         = (PetscBool)(matrix && from && to);
  bjidrs->ops = BJIDRSGetBackEnd_Private(gpu);
  if (matrix != (from && to))
    PetscCall(PetscInfo(pc, "Solves %s, as %s not on the GPU\n", bjidrs->ops->name, matrix ? "the vectors are" : "the matrix is"));
  PetscCall(IDRSArraysGet(x, y, gpu, &arrays));
  PetscCall((*bjidrs->ops->solve)(pc, &limits, &arrays));
  PetscCall(IDRSArraysRestore(x, y, gpu, &arrays));
  PetscCall(BJIDRSCheckResults(pc, &limits));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCApply_BJIDRS(PC pc, Vec x, Vec y)
{
  PetscFunctionBegin;
  PetscCall(BJIDRSApply(pc, 1, (PetscObject)x, (PetscObject)y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCMatApply_BJIDRS(PC pc, Mat X, Mat Y)
{
  PetscInt columns;

  PetscFunctionBegin;
  PetscCall(MatGetSize(X, NULL, &columns));
  PetscCall(BJIDRSApply(pc, columns, (PetscObject)X, (PetscObject)Y));
  PetscCall(IDRSPCReduceFailure(pc));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCPostSolve_BJIDRS(PC pc, KSP ksp, Vec b, Vec x)
{
  PetscFunctionBegin;
  (void)b;
  (void)x;
  PetscCall(IDRSPCEndFailure(pc, ksp, PC_NOERROR));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Prints the blocks and the last application, over all processes */
static PetscErrorCode PCView_BJIDRS(PC pc, PetscViewer viewer)
{
  PC_BJIDRS *bjidrs  = (PC_BJIDRS *)pc->data;
  MPI_Comm   comm    = PetscObjectComm((PetscObject)pc);
  PetscInt   sums[4] = {bjidrs->nblocks, bjidrs->nsystems, 0, bjidrs->small}; /* blocks, systems, failed ones, rows */
  /* minus the smallest, the largest, the most iterations */
  PetscInt         mosts[3] = {INT_MIN, bjidrs->largest, 0};
  PetscBool        ascii;
  IDRSSystemLimits limits;
  KSP              inner;
  PC               diagonal;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)viewer, PETSCVIEWERASCII, &ascii));
  if (!ascii) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(BJIDRSGetLimits_Private(pc, &limits));
  PetscCall(PCBJIDRSGetKSP(pc, &inner));
  PetscCall(KSPGetPC(inner, &diagonal));
  PetscCall(PetscViewerASCIIPrintf(viewer, "  idrs for each block: s = %" PetscInt_FMT ", seed %" PetscInt_FMT ", PC %s\n",
                                   limits.s, (PetscInt)limits.seed, ((PetscObject)diagonal)->type_name));
  if (limits.rtol < 0.0)
    PetscCall(PetscViewerASCIIPrintf(viewer, "  iterations: %" PetscInt_FMT ", without a convergence test\n", limits.maxits));
  else
    PetscCall(PetscViewerASCIIPrintf(viewer, "  tolerances: relative %g, absolute %g, at most %" PetscInt_FMT " iterations\n",
                                     (double)limits.rtol, (double)limits.abstol, limits.maxits));
  if (!bjidrs->starts) PetscFunctionReturn(PETSC_SUCCESS);
  for (PetscInt i = 0; i < bjidrs->nblocks; i++) mosts[0] = PetscMax(mosts[0], bjidrs->starts[i] - bjidrs->starts[i + 1]);
  for (PetscInt i = 0; i < bjidrs->nsystems; i++) {
    if (bjidrs->reasons[i] < 0) sums[2]++;
    mosts[2] = PetscMax(mosts[2], bjidrs->its[i]);
  }
  IDRSCallAllreduce(MPI_IN_PLACE, sums, 4, MPIU_INT, MPI_SUM, comm);
  IDRSCallAllreduce(MPI_IN_PLACE, mosts, 3, MPIU_INT, MPI_MAX, comm);
  PetscCall(PetscViewerASCIIPrintf(viewer, "  blocks: %" PetscInt_FMT " with %" PetscInt_FMT " to %" PetscInt_FMT " rows, %s\n",
                                   sums[0], sums[0] ? -mosts[0] : 0, mosts[1], BJIDRSSources[bjidrs->source]));
  PetscCall(IDRSViewSmallDiagonal(sums[3], viewer));
  if (sums[1])
    PetscCall(PetscViewerASCIIPrintf(viewer,
                                     "  last application, %s: %" PetscInt_FMT " systems, %" PetscInt_FMT
                                     " failed, at most %" PetscInt_FMT " iterations\n",
                                     bjidrs->ops->name, sums[1], sums[2], mosts[2]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCSetFromOptions_BJIDRS(PC pc, IDRSOptionItems PetscOptionsObject)
{
  PC_BJIDRS *bjidrs = (PC_BJIDRS *)pc->data;
  PetscInt   blocks;
  PetscBool  set;
  KSP        inner;

  PetscFunctionBegin;
  PetscOptionsHeadBegin(PetscOptionsObject, "PC bjidrs options");
  PetscCall(PetscOptionsInt("-pc_bjidrs_blocks", "Number of blocks of the same size on each process", "PCBJIDRSSetLocalBlocks",
                            bjidrs->nasked, &blocks, &set));
  if (set) PetscCall(PCBJIDRSSetLocalBlocks(pc, blocks, NULL));
  PetscOptionsHeadEnd();
  PetscCall(PCBJIDRSGetKSP(pc, &inner));
  PetscCall(KSPSetFromOptions(inner));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCReset_BJIDRS(PC pc)
{
  PC_BJIDRS *bjidrs = (PC_BJIDRS *)pc->data;

  PetscFunctionBegin;
  PetscCall(BJIDRSResetSystems_Private(bjidrs));
  PetscCall(MatDestroy(&bjidrs->A));
  PetscCall(VecDestroy(&bjidrs->inverse));
  PetscCall(PetscFree3(bjidrs->reasons, bjidrs->its, bjidrs->norms));
  bjidrs->largest = bjidrs->nsystems = bjidrs->room = 0;
  if (bjidrs->inner) PetscCall(KSPReset(bjidrs->inner));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCDestroy_BJIDRS(PC pc)
{
  PC_BJIDRS *bjidrs = (PC_BJIDRS *)pc->data;

  PetscFunctionBegin;
  PetscCall(PCReset_BJIDRS(pc));
  PetscCall(KSPDestroy(&bjidrs->inner));
  PetscCall(PetscFree(bjidrs->sizes));
  PetscCall(BJIDRSComposeSetters_Private(pc, PETSC_FALSE));
  PetscCall(PetscFree(pc->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*MC
  PCBJIDRS - Solves with all diagonal blocks of the matrix, each by a separate IDR(s) solve: a solver for many small systems, or a
  block Jacobi preconditioner

  Options Database Keys:
+ -pc_bjidrs_blocks n                       - number of blocks of the same size on each process, see `PCBJIDRSSetLocalBlocks()`
. -pc_bjidrs_ksp_rtol rtol                  - relative tolerance of each block (default 1e-5)
. -pc_bjidrs_ksp_atol atol                  - absolute tolerance of each block (default 1e-50)
. -pc_bjidrs_ksp_max_it n                   - largest number of iterations of each block (default 10000)
. -pc_bjidrs_ksp_norm_type none             - make this number of iterations, without a convergence test
. -pc_bjidrs_ksp_idrs_s s                   - number of shadow vectors, 1 to 16 (default 4)
. -pc_bjidrs_ksp_idrs_seed seed             - seed of the shadow space (default 0)
. -pc_bjidrs_ksp_idrs_cosine cosine         - smallest cosine for omega (default 0.5)
. -pc_bjidrs_ksp_idrs_max_restarts n        - consecutive restarts of a block without progress (default 10)
- -pc_bjidrs_pc_type (none|jacobi)          - preconditioner of each block, on the right (default jacobi), with the options of
    `PCJACOBI`

  Level: beginner

  Notes:
  The type comes from the plugin libpetscidrs, with `-dll_append path/libpetscidrs.so` or `KSPIDRSRegister()`. The matrix is of type
  `MATAIJ`, `MATAIJCUSPARSE` or `MATAIJSTREAM`, on any number of processes.

  With `MATAIJCUSPARSE` and vectors of type `VECCUDA`, or matrices of type `MATDENSECUDA`, one launch solves all blocks, each with
  one thread block, and the host waits for the results. There a block has at most 16000 rows. Blocks with up to about 28000/(2s + 3)
  rows (2500 with s = 4, in double precision) have their work space in shared memory. If the largest block has more rows, the work
  space of all blocks is in global memory, which is slower. In all other cases blocks are solved in host memory, one after another,
  and their size is not limited.

  With `-ksp_type preonly` it solves many small systems that are the diagonal blocks of one matrix. With `-ksp_type idrs`, or
  another solver that supports a nonlinear preconditioner, such as `KSPFGMRES`, it is a block Jacobi preconditioner. Entries between
  blocks are ignored. Blocks may have different sizes; `PCBJIDRSSetLocalBlocks()` describes how they are found. For blocks up to
  some 32 rows dense factors are faster: `PCVPBJACOBI`, `PCPBJACOBI`.

  A block counts as converged only if b - A x, computed from x, meets its tolerance. If it does not, or after a breakdown, the block
  starts again from the better x with the next seed. A solve depends only on its block and its right-hand side. `PCMatApply()`
  solves for several right-hand sides, as `KSPMatSolve()` with `KSPPREONLY` does.

  In a row with |a_ii| <= 2e-4 max_j |a_ij|, where a_ij are the entries of its block, the diagonal entry counts as zero: the inner
  `PCJACOBI` divides by max_j |a_ij| instead, or by 1 in a row of zeros. `-ksp_view` shows the number of such rows. Other types of
  `PCJacobiSetType()` are not modified.

  A block has failed if its reason is negative, with one exception as in `KSPCheckSolve()`: `KSP_DIVERGED_ITS` is no failure if the
  user has set the largest number of iterations, to another number than the default 10000. Without a convergence test only a
  breakdown is a failure. If a block has failed, all entries of its x are infinite, and the application fails with
  `PC_SUBPC_ERROR`. All other blocks are still solved. `-info` lists failed blocks, and `PCBJIDRSGetResults()` returns the results
  of all blocks.

  The solver that applies the preconditioner ends with `KSP_DIVERGED_PC_FAILED` on all processes. A solver without norms, such as a
  smoother of `PCMG`, ends after its iterations. `KSPPREONLY` may set the whole solution to infinity; call `PCApply()` to keep the
  other blocks. After a solve `PCGetFailedReason()` no longer returns the failure, and the next solve begins without it.

  A block that cannot be solved ends early. If 16 (n + n/s) iterations of a block of n rows have not halved the norm of the
  residual, the block starts again from the best x with the next seed. This counts as four restarts without progress, see
  -pc_bjidrs_ksp_idrs_max_restarts, so that by default the block ends after three times as many iterations.

  `PCBJIDRSGetKSP()` returns the `KSP` that has the options with prefix pc_bjidrs_. Other settings of this `KSP` that would change
  the solves are errors: another type or side, monitors, a guess, smoothing. Its divergence tolerance, update tolerance, diagonal
  scaling and views are not used.

.seealso: [](ch_ksp), `PCCreate()`, `PCSetType()`, `PCType`, `PC`, `PCBJACOBI`, `PCVPBJACOBI`, `KSPIDRS`, `KSPIDRSRegister()`,
          `PCBJIDRSSetLocalBlocks()`, `PCBJIDRSGetLocalBlocks()`, `PCBJIDRSGetKSP()`, `PCBJIDRSGetResults()`
M*/
PetscErrorCode PCCreate_BJIDRS(PC pc)
{
  PC_BJIDRS *bjidrs;

  PetscFunctionBegin;
  PetscCall(PetscNew(&bjidrs));
  pc->data = (void *)bjidrs;

  pc->ops->setup          = PCSetUp_BJIDRS;
  pc->ops->apply          = PCApply_BJIDRS;
  pc->ops->matapply       = PCMatApply_BJIDRS;
  pc->ops->postsolve      = PCPostSolve_BJIDRS;
  pc->ops->reset          = PCReset_BJIDRS;
  pc->ops->destroy        = PCDestroy_BJIDRS;
  pc->ops->setfromoptions = PCSetFromOptions_BJIDRS;
  pc->ops->view           = PCView_BJIDRS;
  PetscCall(BJIDRSComposeSetters_Private(pc, PETSC_TRUE));
  PetscFunctionReturn(PETSC_SUCCESS);
}
