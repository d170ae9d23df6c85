/*
   The factorisation package MATSOLVERPETSCIDRS: phases of a factorisation and solves as PETSc calls them, and the treatment of
   small pivots
*/
#include "factorimpl.h"
#include "factor.h"
#include <petscidrs/private/idrsplace.h>

static PetscErrorCode MatFactorGetSolverType_PETScIDRS(Mat B, MatSolverType *type)
{
  PetscFunctionBegin;
  *type = MATSOLVERPETSCIDRS;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSFactorCheckValues(IDRSFactor factor)
{
  PetscFunctionBegin;
  PetscCheck(factor->where != IDRS_FACTOR_NO_VALUES, PETSC_COMM_SELF, PETSC_ERR_ORDER,
             "The last phase of a factorisation by %s has ended with an error, and must be repeated", MATSOLVERPETSCIDRS);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Copies the values of the last numeric phase to the memory of the solves, through the memory of the host */
static PetscErrorCode IDRSFactorPlaceValues(IDRSFactor factor)
{
  PetscFunctionBegin;
  PetscCall(IDRSFactorCheckValues(factor));
  if (factor->where == IDRS_FACTOR_COMPUTED && factor->factors != factor->solves) {
    if (factor->factors->copies) PetscCall((*factor->factors->copies->tohost)(factor));
    if (factor->solves->copies) PetscCall((*factor->solves->copies->fromhost)(factor));
  }
  factor->where = IDRS_FACTOR_PLACED;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Solves x = A^{-1} b, or A^{-T} b, for vectors or dense matrices. A back end with its own memory accepts arrays on host and device
*/
static PetscErrorCode IDRSFactorSolve(Mat F, IDRSFactorDirection direction, PetscObject b, PetscObject x)
{
  IDRSFactor      factor = (IDRSFactor)F->data;
  const PetscBool device = factor->solves->copies ? PETSC_TRUE : PETSC_FALSE;
  IDRSArrays      arrays;

  PetscFunctionBegin;
  PetscCall(IDRSFactorPlaceValues(factor));
  PetscCall(IDRSArraysGet(b, x, device, &arrays));
  if (device && b->classid == MAT_CLASSID && (PetscMemTypeHost(arrays.bmem) || PetscMemTypeHost(arrays.xmem)))
    PetscCall(PetscInfo(x, "%s: right-hand sides or solutions in the memory of the host are copied\n", MATSOLVERPETSCIDRS));
  PetscCall((*factor->solves->solve)(factor, direction, &arrays));
  PetscCall(IDRSArraysRestore(b, x, device, &arrays));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatSolve_PETScIDRS(Mat F, Vec b, Vec x)
{
  PetscFunctionBegin;
  PetscCall(IDRSFactorSolve(F, IDRS_FACTOR_FORWARD, (PetscObject)b, (PetscObject)x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatSolveTranspose_PETScIDRS(Mat F, Vec b, Vec x)
{
  PetscFunctionBegin;
  PetscCall(IDRSFactorSolve(F, IDRS_FACTOR_TRANSPOSED, (PetscObject)b, (PetscObject)x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSFactorCheckDense(Mat B, const char what[])
{
  PetscBool dense;

  PetscFunctionBegin;
  PetscCall(PetscObjectBaseTypeCompare((PetscObject)B, MATSEQDENSE, &dense));
  PetscCheck(dense, PetscObjectComm((PetscObject)B), PETSC_ERR_ARG_WRONG,
             "%s: the matrix of %s is of type %s; use a sequential dense matrix", MATSOLVERPETSCIDRS, what,
             ((PetscObject)B)->type_name);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSFactorMatSolve(Mat F, IDRSFactorDirection direction, Mat B, Mat X)
{
  PetscFunctionBegin;
  PetscCall(IDRSFactorCheckDense(B, "right-hand sides"));
  PetscCall(IDRSFactorCheckDense(X, "solutions"));
  PetscCall(IDRSFactorSolve(F, direction, (PetscObject)B, (PetscObject)X));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Gets the pivots, which are the diagonal of U in PETSc's factors, where L has a unit diagonal. Here they are the pivots of the
   diagonal tiles D, and X = D^{-1} is stored. The last pivot of D is 1 / X_mm, and X_ij - X_im X_mj / X_mm is the inverse of D
   without its last row and column. So the pivots are computed from the last one to the first one
*/
static PetscErrorCode MatGetDiagonal_PETScIDRS(Mat F, Vec pivots)
{
  IDRSFactor     factor = (IDRSFactor)F->data;
  const PetscInt n = factor->pattern.n, bs = factor->pattern.bs;
  PetscScalar   *x, X[IDRS_FACTOR_TILE * IDRS_FACTOR_TILE];

  PetscFunctionBegin;
  PetscCall(IDRSFactorCheckValues(factor));
  if (factor->factors->copies) PetscCall((*factor->factors->copies->tohost)(factor));
  PetscCall(VecGetArrayWrite(pivots, &x));
  for (PetscInt i = 0; i < n; i++) {
    PetscCall(PetscArraycpy(X, factor->values + (size_t)(factor->pattern.i[n] + i) * bs * bs, bs * bs));
    for (PetscInt m = bs - 1; m >= 0; m--) {
      x[i * bs + m] = (PetscReal)1.0 / X[m * bs + m];
      for (PetscInt t = 0; t < m * m; t++) X[t / m * bs + t % m] -= X[t / m * bs + m] * X[m * bs + t % m] * x[i * bs + m];
    }
  }
  PetscCall(VecRestoreArrayWrite(pivots, &x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatMatSolve_PETScIDRS(Mat F, Mat B, Mat X)
{
  PetscFunctionBegin;
  PetscCall(IDRSFactorMatSolve(F, IDRS_FACTOR_FORWARD, B, X));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatMatSolveTranspose_PETScIDRS(Mat F, Mat B, Mat X)
{
  PetscFunctionBegin;
  PetscCall(IDRSFactorMatSolve(F, IDRS_FACTOR_TRANSPOSED, B, X));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Sets the range of shifts with MAT_SHIFT_POSITIVE_DEFINITE, as PETSc's own factorisations do: the largest shift makes all rows
   diagonally dominant
*/
static PetscErrorCode IDRSFactorShiftSetUp(Mat A, const MatFactorInfo *info, FactorShiftCtx *shifts)
{
  IDRSRows rows;

  PetscFunctionBegin;
  PetscCall(PetscMemzero(shifts, sizeof(*shifts)));
  if ((MatFactorShiftType)(int)info->shifttype != MAT_SHIFT_POSITIVE_DEFINITE) PetscFunctionReturn(PETSC_SUCCESS);
  shifts->shift_top  = info->zeropivot;
  shifts->nshift_max = 5;
  shifts->shift_hi   = 1.0;
  PetscCall(IDRSRowsGet(A, &rows));
  for (PetscInt i = 0; i < rows.n; i++) {
    PetscReal sum = 0.0;

    for (PetscInt p = rows.i[i]; p < rows.i[i + 1]; p++)
      sum += rows.j[p] == i ? -PetscRealPart(rows.a[p]) : PetscAbsScalar(rows.a[p]);
    shifts->shift_top = PetscMax(shifts->shift_top, sum);
  }
  /* as MatLUFactorNumeric_SeqAIJ() does */
  shifts->shift_top *= 1.1;
  PetscCall(IDRSRowsRestore(&rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Handles small pivots as PETSc's own factorisations do: sets an error of the factor, or increases the shift, or does nothing if
   the pivots have been changed. Then the shift may be refined
*/
static PetscErrorCode IDRSFactorCheckPivots(Mat B, Mat A, const MatFactorInfo *info, const IDRSPivotRule *rule,
                                            const IDRSSmallPivots *small, FactorShiftCtx *shifts)
{
  /* the last error is kept */
  const PetscInt reported = rule->type == MAT_SHIFT_NONE ? PetscMin(small->count, 2) : PetscMin(small->count, 1);

  PetscFunctionBegin;
  shifts->newshift = PETSC_FALSE;
  if (rule->type == MAT_SHIFT_INBLOCKS) shifts->nshift = small->count;
  else {
    for (PetscInt l = 0; l < reported; l++) {
      shifts->pv = small->pivot[l];
      shifts->rs = small->sum[l];
      PetscCall(MatPivotCheck(B, A, info, shifts, small->row[l]));
    }
  }
  if (rule->type == MAT_SHIFT_POSITIVE_DEFINITE && !shifts->newshift && shifts->shift_fraction > 0.0 &&
      shifts->nshift < shifts->nshift_max) {
    /* bisection between the last shift that has failed and this one */
    shifts->shift_hi       = shifts->shift_fraction;
    shifts->shift_fraction = (shifts->shift_hi + shifts->shift_lo) / 2.0;
    shifts->shift_amount   = shifts->shift_fraction * shifts->shift_top;
    shifts->newshift       = PETSC_TRUE;
    shifts->nshift++;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns why a pivot rule needs tiles of one row, or NULL */
static const char *IDRSFactorUntiled(const IDRSPivotRule *rule)
{
  return IDRSPivotNeedsSum(rule) ? "the type of the shift compares the pivots with the sums of single rows" : NULL;
}

static PetscErrorCode MatLUFactorNumeric_PETScIDRS(Mat B, Mat A, const MatFactorInfo *info)
{
  IDRSFactor     factor = (IDRSFactor)B->data;
  IDRSPivotRule  rule   = {(MatFactorShiftType)(int)info->shifttype, info->zeropivot, 0.0, info->shiftamount};
  FactorShiftCtx shifts;

  PetscFunctionBegin;
  PetscCall(IDRSFactorCheckPattern_Private(factor, A));
  /* the type of the shift has been changed */
  if (IDRSFactorUntiled(&rule) && factor->pattern.bs > 1)
    PetscCall(IDRSFactorSymbolic_Private(factor, A, IDRSFactorUntiled(&rule)));
  PetscCall(MatFactorClearError(B));
  factor->where = IDRS_FACTOR_NO_VALUES; /* also after an error */
  PetscCall(IDRSFactorShiftSetUp(A, info, &shifts));
  do {
    IDRSSmallPivots small = {0};

    /* A + shift I = L U */
    rule.shift = shifts.shift_amount;
    PetscCall(factor->factors->numeric(factor, A, &rule, &small));
    /* if the inverse of a tile would lose digits, the phase is repeated with tiles of one row */
    if (small.unfit) {
      PetscCall(IDRSFactorSymbolic_Private(factor, A, "a diagonal block is ill-conditioned or has a zero pivot"));
      small = (IDRSSmallPivots){.unfit = PETSC_FALSE};
      PetscCall(factor->factors->numeric(factor, A, &rule, &small));
    }
    PetscCall(IDRSFactorCheckPivots(B, A, info, &rule, &small, &shifts));
  } while (shifts.newshift);
  factor->where  = IDRS_FACTOR_COMPUTED;
  factor->shifts = shifts.nshift;
  factor->shift  = rule.type == MAT_SHIFT_INBLOCKS ? rule.inblocks : rule.shift;
  if (factor->shifts)
    PetscCall(PetscInfo(A, "%s: %" PetscInt_FMT " shifts of type %s, the last one by %g\n", MATSOLVERPETSCIDRS, factor->shifts,
                        MatFactorShiftTypes[rule.type], (double)factor->shift));

  B->ops->solve             = MatSolve_PETScIDRS;
  B->ops->solvetranspose    = MatSolveTranspose_PETScIDRS;
  B->ops->matsolve          = MatMatSolve_PETScIDRS;
  B->ops->matsolvetranspose = MatMatSolveTranspose_PETScIDRS;
  B->ops->getdiagonal       = MatGetDiagonal_PETScIDRS;
  B->assembled              = PETSC_TRUE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Copies a permutation; the natural one becomes NULL. The copy has no properties, because MatReorderForNonzeroDiagonal() changes
   the indices of a set and keeps its properties, which are then wrong
*/
static PetscErrorCode IDRSFactorCopyPermutation(IS permutation, IS *kept)
{
  const PetscInt *indices;
  PetscInt        n, same = 0;

  PetscFunctionBegin;
  PetscCall(ISDestroy(kept));
  if (!permutation) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(ISGetLocalSize(permutation, &n));
  PetscCall(ISGetIndices(permutation, &indices));
  while (same < n && indices[same] == same) same++;
  if (same < n) {
    PetscCall(ISCreateGeneral(PETSC_COMM_SELF, n, indices, PETSC_COPY_VALUES, kept));
    PetscCall(ISSetPermutation(*kept));
  }
  PetscCall(ISRestoreIndices(permutation, &indices));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the pattern; levels < 0: complete factors */
static PetscErrorCode IDRSFactorSymbolic(Mat B, Mat A, IS row, IS col, const MatFactorInfo *info, PetscReal levels)
{
  IDRSFactor    factor = (IDRSFactor)B->data;
  IDRSPivotRule rule   = {(MatFactorShiftType)(int)info->shifttype, info->zeropivot, 0.0, info->shiftamount};

  PetscFunctionBegin;
  PetscCheck(info->usedt == 0.0, PETSC_COMM_SELF, PETSC_ERR_SUP,
             "-pc_factor_mat_solver_type %s does not support a drop tolerance (%g); use -pc_factor_levels", MATSOLVERPETSCIDRS,
             (double)info->dt);
  factor->info        = *info;
  factor->info.levels = levels;
  factor->factors     = IDRSFactorOnHost(info) ? &IDRSFactorBackEnds_Host : factor->ops;
  factor->solves      = IDRSSolveOnHost(info) ? &IDRSFactorBackEnds_Host : factor->ops;
  PetscCall(IDRSFactorCopyPermutation(row, &factor->row));
  PetscCall(IDRSFactorCopyPermutation(col, &factor->col));
  PetscCall(IDRSFactorSymbolic_Private(factor, A, IDRSFactorUntiled(&rule)));
  B->ops->lufactornumeric   = MatLUFactorNumeric_PETScIDRS;
  B->info.factor_mallocs    = (PetscLogDouble)factor->growths;
  B->info.fill_ratio_given  = info->fill;
  B->info.fill_ratio_needed = factor->nonzeros
                              ? (PetscLogDouble)IDRSFactorEntries(&factor->pattern) / (PetscLogDouble)factor->nonzeros
                              : 0.0;
  PetscCall(
    PetscInfo(A, "%s: fill ratio given %g, needed %g\n", MATSOLVERPETSCIDRS, (double)info->fill, B->info.fill_ratio_needed));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatLUFactorSymbolic_PETScIDRS(Mat B, Mat A, IS row, IS col, const MatFactorInfo *info)
{
  PetscFunctionBegin;
  PetscCall(IDRSFactorSymbolic(B, A, row, col, info, -1.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatILUFactorSymbolic_PETScIDRS(Mat B, Mat A, IS row, IS col, const MatFactorInfo *info)
{
  PetscFunctionBegin;
  PetscCall(IDRSFactorSymbolic(B, A, row, col, info, info->levels));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatGetInfo_PETScIDRS(Mat B, MatInfoType type, MatInfo *info)
{
  const IDRSFactor factor = (IDRSFactor)B->data;

  PetscFunctionBegin;
  *info            = B->info;
  info->block_size = 1.0;
  if (factor->id) info->nz_used = info->nz_allocated = (PetscLogDouble)IDRSFactorEntries(&factor->pattern);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatView_PETScIDRS(Mat B, PetscViewer viewer)
{
  const IDRSFactor factor = (IDRSFactor)B->data;
  PetscBool        ascii;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)viewer, PETSCVIEWERASCII, &ascii));
  if (!ascii || !factor->id) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscViewerASCIIPrintf(viewer, "blocks of %" PetscInt_FMT " rows%s%s\n", factor->pattern.bs,
                                   factor->untiled ? ": " : "", factor->untiled ? factor->untiled : ""));
  PetscCall(PetscViewerASCIIPrintf(viewer, "numeric phase %s, solves %s\n", factor->factors->name, factor->solves->name));
  if (factor->shifts)
    PetscCall(
      PetscViewerASCIIPrintf(viewer, "shifts: %" PetscInt_FMT ", the last one by %g\n", factor->shifts, (double)factor->shift));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatDestroy_PETScIDRS(Mat B)
{
  IDRSFactor factor = (IDRSFactor)B->data;

  PetscFunctionBegin;
  PetscCall(IDRSFactorResetPattern_Private(factor));
  PetscCall(ISDestroy(&factor->row));
  PetscCall(ISDestroy(&factor->col));
  PetscCall(PetscFree(B->data));
  PetscCall(PetscObjectComposeFunction((PetscObject)B, "MatFactorGetSolverType_C", NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the back end for the memory where a matrix is */
static PetscErrorCode IDRSFactorGetBackEnd(Mat A, const IDRSFactorOps **ops)
{
  PetscFunctionBegin;
  *ops = &IDRSFactorBackEnds_Host;
#if defined(PETSCIDRS_HAVE_CUDA)
  {
    IDRSPlace place;

    PetscCall(IDRSMatWhere(A, &place));
    if (place == IDRS_PLACE_CUDA) *ops = &IDRSFactorBackEnds_CUDA;
  }
#else
  (void)A;
#endif
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Turns a matrix into an empty factor of A */
static PetscErrorCode IDRSFactorSetType(Mat A, MatFactorType type, Mat B)
{
  IDRSFactor factor;
  VecType    vectype;

  PetscFunctionBegin;
  PetscCall(MatSetSizes(B, A->rmap->n, A->cmap->n, A->rmap->N, A->cmap->N));
  PetscCall(PetscObjectChangeTypeName((PetscObject)B, MATSOLVERPETSCIDRS));
  PetscCall(MatSetUp(B));
  PetscCall(MatSetBlockSizesFromMats(B, A, A));
  PetscCall(MatGetVecType(A, &vectype));
  PetscCall(MatSetVecType(B, vectype));
  PetscCall(PetscNew(&factor));
  factor->ops     = &IDRSFactorBackEnds_Host; /* MatDestroy() after an error needs one */
  B->data         = factor;
  B->ops->destroy = MatDestroy_PETScIDRS;
  PetscCall(IDRSFactorGetBackEnd(A, &factor->ops));
  B->factortype             = type;
  B->canuseordering         = PETSC_TRUE;
  B->ops->view              = MatView_PETScIDRS;
  B->ops->getinfo           = MatGetInfo_PETScIDRS;
  B->ops->lufactorsymbolic  = type == MAT_FACTOR_LU ? MatLUFactorSymbolic_PETScIDRS : NULL;
  B->ops->ilufactorsymbolic = type == MAT_FACTOR_ILU ? MatILUFactorSymbolic_PETScIDRS : NULL;
  PetscCall(PetscStrallocpy(MATORDERINGND, (char **)&B->preferredordering[MAT_FACTOR_LU]));
  PetscCall(PetscStrallocpy(MATORDERINGNATURAL, (char **)&B->preferredordering[MAT_FACTOR_ILU]));
  PetscCall(PetscFree(B->solvertype));
  PetscCall(PetscStrallocpy(MATSOLVERPETSCIDRS, &B->solvertype));
  PetscCall(PetscObjectComposeFunction((PetscObject)B, "MatFactorGetSolverType_C", MatFactorGetSolverType_PETScIDRS));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*MC
  MATSOLVERPETSCIDRS = "petscidrs" - LU and incomplete LU factorisations of `MATSEQAIJ` and `MATSEQAIJCUSPARSE`, on the host and on
  a GPU, with solves for many right-hand sides at once

  Options Database Keys:
+ -pc_factor_mat_solver_type petscidrs    - use this package, with `PCLU` or `PCILU`
. -pc_factor_levels k                     - levels of fill of `PCILU` (default 0)
. -pc_factor_mat_ordering_type ordering   - ordering of the rows (default nd for `PCLU`, natural for `PCILU`)
. -pc_factor_shift_type type              - treatment of zero pivots, with -pc_factor_shift_amount and -pc_factor_zeropivot
    (default none)
. -pc_factor_mat_factor_on_host (true|false) - compute the factors of a `MATSEQAIJCUSPARSE` on the host (default false; with PETSc
3.23 or newer)
- -pc_factor_mat_solve_on_host (true|false)  - solve with them on the host (default false; with PETSc 3.23 or newer)

  Level: beginner

  Notes:
  The package comes from the plugin libpetscidrs, with `-dll_append path/libpetscidrs.so` or `KSPIDRSRegister()`. It is for `PCLU`
  and `PCILU` on one process, and as the solver of the blocks of `PCBJACOBI` and `PCASM`, with prefix sub_.

  The factors have the pattern of `MATSOLVERPETSC`, so that solves agree with it to rounding, and options of `PCFactor` mean the
  same: levels, orderings, -pc_factor_diagonal_fill,
  -pc_factor_nonzeros_along_diagonal, zero pivots and shifts. With -pc_factor_nonzeros_along_diagonal and the natural ordering,
  ILU(0) has the pattern of the matrix after the exchange of columns; with `MATSOLVERPETSC` it has the pattern before the exchange.
  There is no pivoting and no drop tolerance. Factorisations in place always use PETSc's own code. `MatGetDiagonal()` of the factor
  returns the pivots in the order of the factors, as with `MATSOLVERPETSC`.

  If the matrix has a block size, see `MatSetBlockSize()`, and all its blocks are full, also in the permuted order, the factors
  consist of dense blocks: a row of blocks has one list of columns, and there are fewer levels. Blocks of more than 16 rows are
  divided. `-ksp_view` shows the size of the blocks.

  In two cases the factors have no blocks, and `-ksp_view` gives the reason. With a shift of type nonzero or positive_definite
  pivots are compared with the sums of single rows. If a diagonal block D is ill-conditioned, with an entry of |D_ij (D^{-1})_ji|
  above 100, or has a zero pivot that shift inblocks changes, solves with its inverse would lose more digits than factors by rows.
  Then the numeric phase is repeated without blocks, also for later matrices of the same pattern.

  With `MATSEQAIJCUSPARSE` the numeric phase and the solves run on the GPU. Each is one kernel, in which a row begins as soon as the
  rows that it depends on are complete. The host waits for a numeric phase, to check for zero pivots, but not for a solve. Results
  have the same bits in every run. `MatMatSolve()`, and so `PCMatApply()` and `KSPMatSolve()` with `KSPPREONLY`, solves for 16
  columns at a time, or for 4 on the host. Right-hand sides in the memory of the host are copied. The GPU stores the factors twice,
  and three times after a transposed solve.

  On a GPU this package is meant for incomplete factors, and for many right-hand sides. Complete factors have long rows that depend
  on each other: with `PCLU` for 14 x 14 x 14 points a solve with one right-hand side takes 1.1 to 1.2 times as long as with
  `MATSOLVERCUSPARSE`, although the numeric phase takes half as long or less. So use `MATSOLVERCUSPARSE` if a `PCLU` is used for
  many solves with one right-hand side each.

  If the rows of a kernel wait for each other for longer than `-petscidrs_nccl_timeout` seconds, which only happens in a debugger,
  the results are NaN, and the next call reports an error.

.seealso: [](sec_factorization), `MatSolverType`, `PCFactorSetMatSolverType()`, `PCLU`, `PCILU`, `MatGetFactor()`,
          `MATSOLVERPETSC`, `MATSOLVERCUSPARSE`, `KSPIDRSRegister()`
M*/
static PetscErrorCode MatGetFactor_seqaij_petscidrs(Mat A, MatFactorType type, Mat *F)
{
  Mat            B;
  PetscErrorCode ierr;

  PetscFunctionBegin;
  PetscCheck(A->rmap->n == A->cmap->n, PETSC_COMM_SELF, PETSC_ERR_ARG_SIZ,
             "%s requires a square matrix, but this one has %" PetscInt_FMT " rows and %" PetscInt_FMT " columns",
             MATSOLVERPETSCIDRS, A->rmap->n, A->cmap->n);
  PetscCall(MatCreate(PetscObjectComm((PetscObject)A), &B));
  ierr = IDRSFactorSetType(A, type, B);
  if (ierr) PetscCall(MatDestroy(&B));
  PetscCall(ierr);
  *F = B;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   MatSolverTypeRegister_PETScIDRS - Registers the package. The longer type is first, because PETSc uses the first registered type
   that is a prefix of the type of the matrix
*/
PetscErrorCode MatSolverTypeRegister_PETScIDRS(void)
{
  PetscFunctionBegin;
  PetscCall(MatInitializePackage()); /* otherwise this package would come before PETSc's own */
#if defined(PETSCIDRS_HAVE_CUDA)
  PetscCall(MatSolverTypeRegister(MATSOLVERPETSCIDRS, MATSEQAIJCUSPARSE, MAT_FACTOR_LU, MatGetFactor_seqaij_petscidrs));
  PetscCall(MatSolverTypeRegister(MATSOLVERPETSCIDRS, MATSEQAIJCUSPARSE, MAT_FACTOR_ILU, MatGetFactor_seqaij_petscidrs));
#endif
  PetscCall(MatSolverTypeRegister(MATSOLVERPETSCIDRS, MATSEQAIJ, MAT_FACTOR_LU, MatGetFactor_seqaij_petscidrs));
  PetscCall(MatSolverTypeRegister(MATSOLVERPETSCIDRS, MATSEQAIJ, MAT_FACTOR_ILU, MatGetFactor_seqaij_petscidrs));
  PetscFunctionReturn(PETSC_SUCCESS);
}
