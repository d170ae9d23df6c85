/*
   The preconditioner PCBJIDRS: settings, blocks, set-up, application

     y_i = A_ii^{-1} x_i   for all diagonal blocks A_ii, up to the tolerance, each by a separate IDR(s) solve: idrssystem.h
*/
#include "bjidrsimpl.h"
#include <petscidrs/private/idrsrows.h>
#include <petscidrs/private/idrsfailure.h>
#include <petscidrs/private/idrsmemory.h>
#include <petscidrs/private/idrsstep.h>

/* The source of blocks that neither the user nor the matrix has set, for the view */
static const char BJIDRSPattern[] = "found in the pattern";

/* Largest number of failed systems that PetscInfo() lists */
#define BJIDRS_NAMED 10

/* In the memory of the host, and on the GPU */
static const BJIDRSOps *const BJIDRSBackEnds[] = {&BJIDRSBackEnds_Host,
#if defined(PETSCIDRS_HAVE_CUDA)
                                                  &BJIDRSBackEnds_CUDA
#endif
};

/* In BJIDRSCheckInner(): an error for a setting of the inner KSP */
#define BJIDRSRefuse(refused, option, value, why) \
  PetscCheck(!(refused), PETSC_COMM_SELF, PETSC_ERR_SUP, "-%s" option " %s: PCBJIDRS " why, prefix, value)

/* Checks that the inner KSP has no setting that the solves of the systems do not support, and gets the settings of KSPIDRS */
static PetscErrorCode BJIDRSCheckInner(KSP inner, const KSPIDRSSettings **settings)
{
  const char            *prefix = ((PetscObject)inner)->prefix;
  const PCSide           side   = inner->pc_side_set;
  const KSPNormType      norm   = inner->normtype_set;
  const KSPIDRSSettings *set;
  PetscBool              idrs, diagonal, test;
  PC                     pc;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)inner, KSPIDRS, &idrs));
  BJIDRSRefuse(!idrs, "ksp_type", ((PetscObject)inner)->type_name, "solves blocks by idrs only");
  PetscCall(KSPGetPC(inner, &pc));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)pc, &diagonal, PCNONE, PCJACOBI, ""));
  BJIDRSRefuse(!diagonal, "pc_type", ((PetscObject)pc)->type_name, "has none and jacobi inside");
  BJIDRSRefuse(side != PC_SIDE_DEFAULT && side != PC_RIGHT, "ksp_pc_side", PCSides[side],
               "has preconditioning from the right inside");
  BJIDRSRefuse(norm != KSP_NORM_DEFAULT && norm != KSP_NORM_UNPRECONDITIONED && norm != KSP_NORM_NONE, "ksp_norm_type",
               KSPNormTypes[norm], "has unpreconditioned and none inside");
  test = (PetscBool)(inner->converged == KSPConvergedDefault || inner->converged == KSPConvergedSkip);
  BJIDRSRefuse(!test, "ksp_convergence_test", "set by the user", "has KSPConvergedDefault() and KSPConvergedSkip() inside");
  BJIDRSRefuse(!inner->guess_zero, "ksp_initial_guess_nonzero", "true", "begins with zero");
  BJIDRSRefuse(inner->guess, "ksp_guess_type", "set", "begins with zero");
  BJIDRSRefuse(inner->guess_knoll, "ksp_knoll", "true", "begins with zero");
  BJIDRSRefuse(inner->chknorm != -1, "ksp_check_norm_iteration", "set", "looks at all norms");
  BJIDRSRefuse(inner->errorifnotconverged, "ksp_error_if_not_converged", "true",
               "has PCBJIDRSGetResults() and PCSetErrorIfFailure()");
  BJIDRSRefuse(inner->numbermonitors, "ksp_monitor", "set", "calls no monitors for its blocks; see PCBJIDRSGetResults()");
  PetscCall(KSPIDRSGetSettings_Private(inner, &set));
  BJIDRSRefuse(set->smoothing, "ksp_idrs_smoothing", "true", "does not smooth residuals");
  /* settings that only affect solves with KSPIDRS itself */
  BJIDRSRefuse(set->implementation, "ksp_idrs_implementation", KSPIDRSImplementations[set->implementation], "has auto only");
  BJIDRSRefuse(set->communication, "ksp_idrs_communication", KSPIDRSCommunications[set->communication], "has auto only");
  BJIDRSRefuse(set->product, "ksp_idrs_product", KSPIDRSProducts[set->product], "has auto only");
  BJIDRSRefuse(set->run, "ksp_idrs_run", KSPIDRSRuns[set->run], "has auto only");
  BJIDRSRefuse(set->recycle, "ksp_idrs_recycle", KSPIDRSRecycles[set->recycle], "has auto only");
  *settings = set;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Gets the settings of the solves from the inner KSP */
static PetscErrorCode BJIDRSGetLimits(PC pc, IDRSSystemLimits *limits)
{
  const KSPIDRSSettings *set = NULL;
  KSP                    inner;

  PetscFunctionBegin;
  PetscCall(PCBJIDRSGetKSP(pc, &inner));
  PetscCall(BJIDRSCheckInner(inner, &set));
  PetscCall(KSPGetTolerances(inner, &limits->rtol, &limits->abstol, NULL, &limits->maxits));
  /* without a test all systems make maxits steps */
  if (inner->normtype_set == KSP_NORM_NONE || inner->converged == KSPConvergedSkip) limits->rtol = -1.0;
  limits->s = set->s;
  PetscCheck(limits->s <= IDRS_SYSTEM_MAX_S, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
             "-%sksp_idrs_s %" PetscInt_FMT ": PCBJIDRS supports at most %d shadow vectors", ((PetscObject)inner)->prefix,
             limits->s, IDRS_SYSTEM_MAX_S);
  limits->seed        = (uint64_t)set->seed;
  limits->cosine      = set->cosine;
  limits->maxrestarts = set->maxrestarts;
  limits->growth      = set->maxrestarts ? IDRS_MAX_GROWTH : PETSC_MAX_REAL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Frees the data of the present blocks, in all back ends */
static PetscErrorCode BJIDRSResetSystems(PC_BJIDRS *bjidrs)
{
  PetscFunctionBegin;
  for (size_t l = 0; l < PETSC_STATIC_ARRAY_LENGTH(BJIDRSBackEnds); l++) PetscCall((*BJIDRSBackEnds[l]->reset)(bjidrs));
  bjidrs->nblocks = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the first rows of the blocks. If they have not changed, back ends keep their data */
static PetscErrorCode BJIDRSSetStarts(PC_BJIDRS *bjidrs, PetscInt nblocks, const PetscInt sizes[], PetscInt size)
{
  PetscInt *starts;
  PetscBool same = PETSC_FALSE;

  PetscFunctionBegin;
  PetscCall(PetscMalloc1(nblocks + 1, &starts));
  starts[0] = 0;
  for (PetscInt i = 0; i < nblocks; i++) starts[i + 1] = starts[i] + (sizes ? sizes[i] : size);
  if (bjidrs->starts && nblocks == bjidrs->nblocks) PetscCall(PetscArraycmp(starts, bjidrs->starts, nblocks + 1, &same));
  if (!same) {
    PetscCall(BJIDRSResetSystems(bjidrs));
    bjidrs->starts  = starts;
    bjidrs->nblocks = nblocks;
  } else PetscCall(PetscFree(starts));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Finds the finest partition of the rows into contiguous blocks without an entry between two of them. An entry in row i and column
   j puts the rows from min(i, j) to max(i, j) into one block
*/
static PetscErrorCode BJIDRSFindInPattern(PC_BJIDRS *bjidrs)
{
  PetscInt       *last, n, nblocks = 0, begin = 0, *sizes;
  const PetscInt *offsets, *columns;
  PetscBool       done;
  PetscErrorCode  ierr;

  PetscFunctionBegin;
  PetscCall(MatGetRowIJ(bjidrs->A, 0, PETSC_FALSE, PETSC_FALSE, &n, &offsets, &columns, &done));
  PetscCheck(done, PETSC_COMM_SELF, PETSC_ERR_PLIB, "MatGetRowIJ() of a matrix of type %s", ((PetscObject)bjidrs->A)->type_name);
  PetscCall(PetscMalloc2(n, &last, n, &sizes));
  for (PetscInt i = 0; i < n; i++) last[i] = i;
  for (PetscInt i = 0; i < n; i++) {
    for (PetscInt l = offsets[i]; l < offsets[i + 1]; l++) {
      const PetscInt low = PetscMin(i, columns[l]);

      last[low] = PetscMax(last[low], PetscMax(i, columns[l]));
    }
  }
  /* a block ends at the first row beyond which none of its rows has an entry */
  for (PetscInt i = 0, end = 0; i < n; i++) {
    end = PetscMax(end, last[i]);
    if (i < end) continue;
    sizes[nblocks++] = i + 1 - begin;
    begin = end = i + 1;
  }
  ierr = BJIDRSSetStarts(bjidrs, nblocks, sizes, 0);
  PetscCall(PetscFree2(last, sizes));
  PetscCall(MatRestoreRowIJ(bjidrs->A, 0, PETSC_FALSE, PETSC_FALSE, &n, &offsets, &columns, &done));
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Finds the first rows of the blocks of bjidrs->A: from the number of the user, else from the variable block sizes of the matrix,
   else from the pattern
*/
static PetscErrorCode BJIDRSFindSystems(PC pc)
{
  PC_BJIDRS      *bjidrs   = (PC_BJIDRS *)pc->data;
  const PetscInt *variable = NULL;
  PetscInt        n, rest, nvariable = 0;

  PetscFunctionBegin;
  PetscCall(MatGetLocalSize(bjidrs->A, &n, NULL));
  PetscCall(MatGetVariableBlockSizes(pc->pmat, &nvariable, &variable));
  if (bjidrs->nasked) {
    PetscCheck(bjidrs->nasked > 0 && n % bjidrs->nasked == 0, PETSC_COMM_SELF, PETSC_ERR_ARG_SIZ,
               "-%spc_bjidrs_blocks %" PetscInt_FMT
               ": blocks of the same size need a positive number that divides the %" PetscInt_FMT
               " rows of this process; see MatSetVariableBlockSizes() for others",
               IDRSPrefix(pc), bjidrs->nasked, n);
    PetscCall(BJIDRSSetStarts(bjidrs, n ? bjidrs->nasked : 0, NULL, n / bjidrs->nasked));
    bjidrs->source = "of the same size, number set by the user";
  } else if (nvariable) {
    rest = n;
    for (PetscInt i = 0; i < nvariable; i++) {
      PetscCheck(variable[i] > 0 && variable[i] <= rest, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
                 "MatSetVariableBlockSizes(): size %" PetscInt_FMT " of block %" PetscInt_FMT
                 " must be positive, and at most %" PetscInt_FMT ", the number of rows that are left on this process",
                 variable[i], i, rest);
      rest -= variable[i];
    }
    PetscCall(BJIDRSSetStarts(bjidrs, nvariable, variable, 0));
    bjidrs->source = "of MatSetVariableBlockSizes()";
    /* if the pattern has not changed, its blocks have not changed */
  } else if (!bjidrs->starts || bjidrs->source != BJIDRSPattern || pc->flag != SAME_NONZERO_PATTERN) {
    PetscCall(BJIDRSFindInPattern(bjidrs));
    bjidrs->source = BJIDRSPattern;
  }
  bjidrs->largest = 0;
  for (PetscInt i = 0; i < bjidrs->nblocks; i++)
    bjidrs->largest = PetscMax(bjidrs->largest, bjidrs->starts[i + 1] - bjidrs->starts[i]);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes the diagonal of B^{-1} by the inner PCJACOBI of a vector of ones; NULL with PCNONE. If it divides by the diagonal, small
   entries are not used; entries outside the blocks do not matter. Does nothing if the matrix has not changed
*/
static PetscErrorCode BJIDRSSetUpDiagonal(PC pc)
{
  PC_BJIDRS   *bjidrs = (PC_BJIDRS *)pc->data;
  PetscBool    jacobi, absolute;
  PCJacobiType type;
  KSP          inner;
  PC           diagonal;
  Vec          inverse, work, largest;

  PetscFunctionBegin;
  PetscCall(PCBJIDRSGetKSP(pc, &inner));
  PetscCall(KSPGetPC(inner, &diagonal));
  PetscCall(PetscObjectTypeCompare((PetscObject)diagonal, PCJACOBI, &jacobi));
  if (jacobi && bjidrs->inverse) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecDestroy(&bjidrs->inverse));
  bjidrs->small = 0;
  if (!jacobi) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(KSPSetOperators(inner, bjidrs->A, bjidrs->A));
  PetscCall(PCSetUp(diagonal));
  PetscCall(MatCreateVecs(bjidrs->A, &inverse, &work));
  PetscCall(PCJacobiGetType(diagonal, &type));
  if (type == PC_JACOBI_DIAGONAL) {
    PetscCall(VecDuplicate(work, &largest));
    /* d_i = 1 / a_ii, or 1 / max_j |a_ij| if a_ii is small */
    PetscCall(IDRSRowsGetInverse(bjidrs->A, bjidrs->nblocks, bjidrs->starts, work, largest, inverse, &bjidrs->small));
    PetscCall(PCJacobiGetUseAbs(diagonal, &absolute));
    if (absolute) PetscCall(VecAbs(inverse));
    PetscCall(VecDestroy(&largest));
  } else {
    PetscCall(VecSet(work, 1.0));
    PetscCall(PCApply(diagonal, work, inverse));
  }
  PetscCall(VecDestroy(&work));
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
  PetscCall(BJIDRSGetLimits(pc, &limits));
  PetscCall(BJIDRSFindSystems(pc));
  PetscCall(BJIDRSSetUpDiagonal(pc));
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

/* Solves for all columns of x, a vector or a dense matrix, with the back end for the memory of the matrix and all columns */
static PetscErrorCode BJIDRSApply(PC pc, PetscInt columns, PetscObject x, PetscObject y)
{
  PC_BJIDRS       *bjidrs = (PC_BJIDRS *)pc->data;
  IDRSMemory       matrix, from, to;
  PetscBool        gpu;
  PetscInt         nsystems;
  IDRSSystemLimits limits;
  IDRSArrays       arrays;

  PetscFunctionBegin;
  PetscCall(BJIDRSGetLimits(pc, &limits));
  PetscCall(BJIDRSSetUpDiagonal(pc)); /* its type may have changed since the set-up */
  PetscCall(PetscIntMultError(bjidrs->nblocks, columns, &nsystems));
  /* results stay valid until the next application */
  if (nsystems > bjidrs->room) {
    bjidrs->nsystems = bjidrs->room = 0;
    PetscCall(PetscFree3(bjidrs->reasons, bjidrs->its, bjidrs->norms));
    PetscCall(PetscMalloc3(nsystems, &bjidrs->reasons, nsystems, &bjidrs->its, nsystems, &bjidrs->norms));
    bjidrs->room = nsystems;
  }
  bjidrs->nsystems = nsystems;
  PetscCall(IDRSMatWhere(bjidrs->A, &matrix));
  if (x->classid == VEC_CLASSID) {
    PetscCall(IDRSVecWhere((Vec)x, &from));
    PetscCall(IDRSVecWhere((Vec)y, &to));
  } else {
    PetscCall(IDRSMatWhere((Mat)x, &from));
    PetscCall(IDRSMatWhere((Mat)y, &to));
  }
  gpu         = (PetscBool)(matrix == IDRS_MEMORY_CUDA && from == IDRS_MEMORY_CUDA && to == IDRS_MEMORY_CUDA);
  bjidrs->ops = BJIDRSBackEnds[gpu ? 1 : 0];
  if (!gpu && (matrix == IDRS_MEMORY_CUDA || (from == IDRS_MEMORY_CUDA && to == IDRS_MEMORY_CUDA)))
    PetscCall(PetscInfo(pc, "Solves %s, as %s not on the GPU\n", bjidrs->ops->name,
                        matrix == IDRS_MEMORY_CUDA ? "the vectors are" : "the matrix is"));
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
  PetscCall(BJIDRSGetLimits(pc, &limits));
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
                                   sums[0], sums[0] ? -mosts[0] : 0, mosts[1], bjidrs->source));
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
  PetscInt   blocks = bjidrs->nasked;
  KSP        inner;

  PetscFunctionBegin;
  PetscOptionsHeadBegin(PetscOptionsObject, "PC bjidrs options");
  PetscCall(
    PetscOptionsInt("-pc_bjidrs_blocks", "Number of blocks of the same size on each process", "PCBJIDRS", blocks, &blocks, NULL));
  PetscOptionsHeadEnd();
  if (blocks != bjidrs->nasked) pc->setupcalled = PETSC_FALSE; /* the next application looks for the blocks again */
  bjidrs->nasked = blocks;
  PetscCall(PCBJIDRSGetKSP(pc, &inner));
  PetscCall(KSPSetFromOptions(inner));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCReset_BJIDRS(PC pc)
{
  PC_BJIDRS *bjidrs = (PC_BJIDRS *)pc->data;

  PetscFunctionBegin;
  PetscCall(BJIDRSResetSystems(bjidrs));
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
  IDRSCompose(pc, PETSC_FALSE, PCBJIDRSGetKSP);
  IDRSCompose(pc, PETSC_FALSE, PCBJIDRSGetResults);
  PetscCall(PetscFree(pc->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*MC
  PCBJIDRS - Solves with all diagonal blocks of the matrix, each by a separate IDR(s) solve: a solver for many small systems, or a
  block Jacobi preconditioner

  Options Database Keys:
+ -pc_bjidrs_blocks n                       - number of blocks of the same size on each process, 0 for the default
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
  blocks are ignored. By default the set-up finds the smallest blocks of consecutive rows without matrix entries between blocks;
  `MatSetVariableBlockSizes()`, before the set-up, sets other blocks. For blocks up to some 32 rows dense factors are faster:
  `PCVPBJACOBI`, `PCPBJACOBI`.

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
          `MatSetVariableBlockSizes()`, `PCBJIDRSGetKSP()`, `PCBJIDRSGetResults()`
M*/
PETSC_INTERN PetscErrorCode PCCreate_BJIDRS(PC pc)
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
  IDRSCompose(pc, PETSC_TRUE, PCBJIDRSGetKSP);
  IDRSCompose(pc, PETSC_TRUE, PCBJIDRSGetResults);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the prefix, the type and the preconditioner of the inner solver */
static PetscErrorCode BJIDRSSetInner(PC pc, KSP ksp)
{
  const char *prefix;
  PC          inner;

  PetscFunctionBegin;
  PetscCall(PetscObjectIncrementTabLevel((PetscObject)ksp, (PetscObject)pc, 1));
  PetscCall(PCGetOptionsPrefix(pc, &prefix));
  PetscCall(KSPSetOptionsPrefix(ksp, prefix));
  PetscCall(KSPAppendOptionsPrefix(ksp, "pc_bjidrs_"));
  PetscCall(KSPSetType(ksp, KSPIDRS));
  PetscCall(KSPGetPC(ksp, &inner));
  PetscCall(PCSetType(inner, PCJACOBI));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@
  PCBJIDRSGetKSP - Gets the `KSP` that has the options of the solves of `PCBJIDRS`

  Not Collective

  Input Parameter:
. pc - the preconditioner context

  Output Parameter:
. inner - the solver of type `KSPIDRS`, on one process; it belongs to the preconditioner

  Level: intermediate

  Note:
  This `KSP` never solves. See `PCBJIDRS` for the options that it supports.

.seealso: [](ch_ksp), `PCBJIDRS`, `KSPIDRS`, `KSPSetTolerances()`, `KSPIDRSSetShadowSize()`
@*/
PetscErrorCode PCBJIDRSGetKSP(PC pc, KSP *inner)
{
  PC_BJIDRS     *bjidrs;
  PetscErrorCode ierr;
  KSP            ksp;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  IDRSUseData(pc, PCBJIDRS, bjidrs);
  if (!bjidrs->inner) {
    PetscCall(KSPCreate(PETSC_COMM_SELF, &ksp));
    IDRSSetNestLevel(ksp, pc->kspnestlevel + 1); /* with 0 PETSc's MPI linear solver server makes its PC a PCMPI */
    ierr = BJIDRSSetInner(pc, ksp);
    if (ierr) PetscCall(KSPDestroy(&ksp));
    PetscCall(ierr);
    bjidrs->inner = ksp; /* only once it is complete */
  }
  *inner = bjidrs->inner;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*@C
  PCBJIDRSGetResults - Gets the results of the solves in the last application of `PCBJIDRS` on this process

  Not Collective

  Input Parameter:
. pc - the preconditioner context

  Output Parameters:
+ n       - number of systems: blocks, or blocks times columns after `PCMatApply()`, or `NULL`
. reasons - array of `n`: the reason why each solve ended, or `NULL`
. its     - array of `n`: iterations, each of which applies the block; a verification applies it up to three times; or `NULL`
- norms   - array of `n`: norms of b - A x, computed from x, or `NULL`

  Level: intermediate

  Notes:
  The arrays belong to the preconditioner, and are valid until its next application or set-up. System i belongs to block i. After
  `PCMatApply()` it belongs to block i % nblocks and column i / nblocks, where nblocks is the number of blocks.

  The reasons are `KSP_CONVERGED_RTOL` and `KSP_CONVERGED_ATOL`, `KSP_CONVERGED_ITS` without a convergence test,
  `KSP_CONVERGED_HAPPY_BREAKDOWN`, `KSP_DIVERGED_ITS`, `KSP_DIVERGED_BREAKDOWN`, and `KSP_DIVERGED_NANORINF`.

.seealso: [](ch_ksp), `PCBJIDRS`, `KSPConvergedReason`
@*/
PetscErrorCode PCBJIDRSGetResults(PC pc, PetscInt *n, const KSPConvergedReason *reasons[], const PetscInt *its[],
                                  const PetscReal *norms[])
{
  PC_BJIDRS *bjidrs;

  PetscFunctionBegin;
  PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
  IDRSUseData(pc, PCBJIDRS, bjidrs);
  if (n) *n = bjidrs->nsystems;
  if (reasons) *reasons = bjidrs->reasons;
  if (its) *its = bjidrs->its;
  if (norms) *norms = bjidrs->norms;
  PetscFunctionReturn(PETSC_SUCCESS);
}
