/*
   The factorisation package MATSOLVERPETSCIDRS: phases of a factorisation and solves as PETSc calls them
*/
#include "factorimpl.h"
#include <petscidrs/private/idrsmemory.h>

static PetscErrorCode MatFactorGetSolverType_PETScIDRS(Mat B, MatSolverType *type)
{
  PetscFunctionBegin;
  *type = MATSOLVERPETSCIDRS;
  PetscFunctionReturn(PETSC_SUCCESS);
}

#if defined(PETSCIDRS_HAVE_CUDA)

/* Solves x = A^{-1} b, or A^{-T} b, for vectors or sequential dense matrices */
static PetscErrorCode IDRSFactorMatSolve(Mat F, PetscBool transposed, PetscObject b, PetscObject x)
{
  IDRSFactor factor = (IDRSFactor)F->data;
  PetscBool  dense[2];
  IDRSArrays arrays;

  PetscFunctionBegin;
  PetscCheck(factor->computed, PETSC_COMM_SELF, PETSC_ERR_ORDER,
             "The last phase of a factorisation by %s has ended with an error, and must be repeated", MATSOLVERPETSCIDRS);
  if (b->classid == MAT_CLASSID) {
    PetscCall(PetscObjectBaseTypeCompare(b, MATSEQDENSE, &dense[0]));
    PetscCall(PetscObjectBaseTypeCompare(x, MATSEQDENSE, &dense[1]));
    PetscCheck(dense[0] && dense[1], PetscObjectComm(b), PETSC_ERR_ARG_WRONG,
               "%s: the matrix of right-hand sides is of type %s, and of solutions of type %s; use sequential dense matrices",
               MATSOLVERPETSCIDRS, b->type_name, x->type_name);
  }
  PetscCall(IDRSArraysGet(b, x, PETSC_TRUE, &arrays));
  if (b->classid == MAT_CLASSID && (PetscMemTypeHost(arrays.bmem) || PetscMemTypeHost(arrays.xmem)))
    PetscCall(PetscInfo(x, "%s: right-hand sides or solutions in the memory of the host are copied\n", MATSOLVERPETSCIDRS));
  PetscCall(IDRSFactorSolve(factor, transposed, &arrays));
  PetscCall(IDRSArraysRestore(b, x, PETSC_TRUE, &arrays));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatSolve_PETScIDRS(Mat F, Vec b, Vec x)
{
  PetscFunctionBegin;
  PetscCall(IDRSFactorMatSolve(F, PETSC_FALSE, (PetscObject)b, (PetscObject)x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatSolveTranspose_PETScIDRS(Mat F, Vec b, Vec x)
{
  PetscFunctionBegin;
  PetscCall(IDRSFactorMatSolve(F, PETSC_TRUE, (PetscObject)b, (PetscObject)x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatMatSolve_PETScIDRS(Mat F, Mat B, Mat X)
{
  PetscFunctionBegin;
  PetscCall(IDRSFactorMatSolve(F, PETSC_FALSE, (PetscObject)B, (PetscObject)X));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatMatSolveTranspose_PETScIDRS(Mat F, Mat B, Mat X)
{
  PetscFunctionBegin;
  PetscCall(IDRSFactorMatSolve(F, PETSC_TRUE, (PetscObject)B, (PetscObject)X));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Lets PETSc factor a matrix on the host that shares the arrays of A: the numeric phase, or before it, without a factor, the
   symbolic phase. They have no inodes, because MatGetRowIJ() refuses factors with inodes, and because PETSc 3.26.1 crashes for
   inodes with shift positive_definite
*/
static PetscErrorCode IDRSFactorOnPETSc(IDRSFactor factor, Mat A, MatFactorType type, const MatFactorInfo *info)
{
  Mat            host = NULL;
  IDRSRows       rows;
  PetscErrorCode ierr;

  PetscFunctionBegin;
  PetscCall(IDRSRowsGet(A, &rows));
  ierr = MatCreateSeqAIJWithArrays(PETSC_COMM_SELF, rows.n, rows.n, (PetscInt *)rows.i, (PetscInt *)rows.j, (PetscScalar *)rows.a,
                                   &host);
  if (!ierr) ierr = MatSetOption(host, MAT_USE_INODES, PETSC_FALSE);
  if (!ierr) ierr = MatAssemblyBegin(host, MAT_FINAL_ASSEMBLY);
  if (!ierr) ierr = MatAssemblyEnd(host, MAT_FINAL_ASSEMBLY); /* removes the inodes */
  if (!ierr) ierr = MatSetErrorIfFailure(host, A->erroriffailure);
  if (factor->petsc) {
    if (!ierr) ierr = MatLUFactorNumeric(factor->petsc, host, info);
  } else {
    if (!ierr) ierr = MatGetFactor(host, MATSOLVERPETSC, type, &factor->petsc);
    if (!ierr) ierr = MatSetOption(factor->petsc, MAT_USE_INODES, PETSC_FALSE);
    if (!ierr && type == MAT_FACTOR_LU) ierr = MatLUFactorSymbolic(factor->petsc, host, factor->row, factor->col, info);
    if (!ierr && type == MAT_FACTOR_ILU) ierr = MatILUFactorSymbolic(factor->petsc, host, factor->row, factor->col, info);
  }
  PetscCall(MatDestroy(&host));
  PetscCall(IDRSRowsRestore(&rows));
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatLUFactorNumeric_PETScIDRS(Mat B, Mat A, const MatFactorInfo *info)
{
  IDRSFactor factor = (IDRSFactor)B->data;
  PetscBool  unfit, small;

  PetscFunctionBegin;
  PetscCall(IDRSFactorCheckPattern_Private(factor, A));
  PetscCall(MatFactorClearError(B));
  factor->computed = PETSC_FALSE; /* also after an error */
  if (IDRSPivotNeedsSum(info) && factor->pattern.bs > 1) {
    PetscCall(IDRSFactorDeviceReset(factor));
    PetscCall(IDRSFactorSetPattern_Private(factor, A, "the type of the shift compares the pivots with the sums of single rows"));
  }
  PetscCall(IDRSFactorNumeric(factor, A, info, &unfit, &small));
  /* if the inverse of a tile would lose digits, the phase is repeated with tiles of one row */
  if (unfit) {
    PetscCall(IDRSFactorDeviceReset(factor));
    PetscCall(IDRSFactorSetPattern_Private(factor, A, "a diagonal block is ill-conditioned or has a small pivot"));
    PetscCall(IDRSFactorNumeric(factor, A, info, &unfit, &small));
  }
  factor->onhost = small;
  if (small) {
    PetscCall(PetscInfo(A, "%s: PETSc repeats the numeric phase on the host, because of a small pivot\n", MATSOLVERPETSCIDRS));
    PetscCall(MatFactorClearError(factor->petsc));
    PetscCall(IDRSFactorOnPETSc(factor, A, B->factortype, info));
    PetscCall(MatFactorGetError(factor->petsc, &B->factorerrortype));
    PetscCall(MatFactorGetErrorZeroPivot(factor->petsc, &B->factorerror_zeropivot_value, &B->factorerror_zeropivot_row));
    PetscCall(IDRSFactorCopyValues(factor));
  }
  factor->computed = PETSC_TRUE;

  B->ops->solve             = MatSolve_PETScIDRS;
  B->ops->solvetranspose    = MatSolveTranspose_PETScIDRS;
  B->ops->matsolve          = MatMatSolve_PETScIDRS;
  B->ops->matsolvetranspose = MatMatSolveTranspose_PETScIDRS;
  B->assembled              = PETSC_TRUE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Copies a permutation; NULL is the natural one. The copy has no properties, because MatReorderForNonzeroDiagonal() changes the
   indices of a set and keeps its properties, which are then wrong
*/
static PetscErrorCode IDRSFactorCopyPermutation(PetscInt n, IS permutation, IS *copy)
{
  const PetscInt *indices;

  PetscFunctionBegin;
  PetscCall(ISDestroy(copy));
  if (!permutation) PetscCall(ISCreateStride(PETSC_COMM_SELF, n, 0, 1, copy));
  else {
    PetscCall(ISGetIndices(permutation, &indices));
    PetscCall(ISCreateGeneral(PETSC_COMM_SELF, n, indices, PETSC_COPY_VALUES, copy));
    PetscCall(ISRestoreIndices(permutation, &indices));
  }
  PetscCall(ISSetPermutation(*copy));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The symbolic phase, by PETSc */
static PetscErrorCode MatFactorSymbolic_PETScIDRS(Mat B, Mat A, IS row, IS col, const MatFactorInfo *info)
{
  IDRSFactor factor = (IDRSFactor)B->data;

  PetscFunctionBegin;
  PetscCheck(info->usedt == 0.0, PETSC_COMM_SELF, PETSC_ERR_SUP,
             "-pc_factor_mat_solver_type %s does not support a drop tolerance (%g); use -pc_factor_levels", MATSOLVERPETSCIDRS,
             (double)info->dt);
  PetscCheck(!IDRSFactorOnHost(info), PETSC_COMM_SELF, PETSC_ERR_SUP,
             "-pc_factor_mat_solver_type %s does not support -pc_factor_mat_factor_on_host and -pc_factor_mat_solve_on_host; "
             "use -pc_factor_mat_solver_type %s",
             MATSOLVERPETSCIDRS, MATSOLVERPETSC);
  PetscCall(IDRSFactorDeviceReset(factor));
  PetscCall(IDRSFactorResetPattern_Private(factor));
  PetscCall(MatDestroy(&factor->petsc));
  PetscCall(IDRSFactorCopyPermutation(A->rmap->n, row, &factor->row));
  PetscCall(IDRSFactorCopyPermutation(A->rmap->n, col, &factor->col));
  PetscCall(IDRSFactorOnPETSc(factor, A, B->factortype, info));
  PetscCall(IDRSFactorSetPattern_Private(factor, A, NULL));
  B->info                 = factor->petsc->info;
  B->ops->lufactornumeric = MatLUFactorNumeric_PETScIDRS;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatGetInfo_PETScIDRS(Mat B, MatInfoType type, MatInfo *info)
{
  const IDRSFactor factor = (IDRSFactor)B->data;

  PetscFunctionBegin;
  *info = B->info;
  if (factor->petsc) PetscCall(MatGetInfo(factor->petsc, type, info));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatView_PETScIDRS(Mat B, PetscViewer viewer)
{
  const IDRSFactor factor = (IDRSFactor)B->data;
  PetscBool        ascii;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)viewer, PETSCVIEWERASCII, &ascii));
  if (!ascii || !factor->hash) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscViewerASCIIPrintf(viewer, "blocks of %" PetscInt_FMT " rows%s%s\n", factor->pattern.bs,
                                   factor->untiled ? ": " : "", factor->untiled ? factor->untiled : ""));
  PetscCall(PetscViewerASCIIPrintf(viewer, "numeric phase %s, solves on the GPU\n",
                                   factor->onhost ? "by PETSc on the host, because of a small pivot" : "on the GPU"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatDestroy_PETScIDRS(Mat B)
{
  IDRSFactor factor = (IDRSFactor)B->data;

  PetscFunctionBegin;
  PetscCall(IDRSFactorDeviceReset(factor));
  PetscCall(IDRSFactorResetPattern_Private(factor));
  PetscCall(MatDestroy(&factor->petsc));
  PetscCall(ISDestroy(&factor->row));
  PetscCall(ISDestroy(&factor->col));
  PetscCall(PetscFree(B->data));
  PetscCall(PetscObjectComposeFunction((PetscObject)B, "MatFactorGetSolverType_C", NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates an empty factor of A. After an error MatDestroy() frees it */
static PetscErrorCode MatFactorCreate_PETScIDRS(Mat A, MatFactorType type, Mat *F)
{
  IDRSFactor factor;
  VecType    vectype;
  Mat        B;

  PetscFunctionBegin;
  PetscCall(PetscNew(&factor));
  PetscCall(MatCreate(PetscObjectComm((PetscObject)A), F));
  B                         = *F;
  B->data                   = factor;
  B->factortype             = type;
  B->canuseordering         = PETSC_TRUE;
  B->ops->destroy           = MatDestroy_PETScIDRS;
  B->ops->view              = MatView_PETScIDRS;
  B->ops->getinfo           = MatGetInfo_PETScIDRS;
  B->ops->lufactorsymbolic  = type == MAT_FACTOR_LU ? MatFactorSymbolic_PETScIDRS : NULL;
  B->ops->ilufactorsymbolic = type == MAT_FACTOR_ILU ? MatFactorSymbolic_PETScIDRS : NULL;
  PetscCall(PetscObjectChangeTypeName((PetscObject)B, MATSOLVERPETSCIDRS));
  PetscCall(MatSetSizes(B, A->rmap->n, A->cmap->n, A->rmap->N, A->cmap->N));
  PetscCall(MatSetUp(B));
  PetscCall(MatSetBlockSizesFromMats(B, A, A));
  PetscCall(MatGetVecType(A, &vectype));
  PetscCall(MatSetVecType(B, vectype));
  PetscCall(PetscStrallocpy(MATORDERINGND, (char **)&B->preferredordering[MAT_FACTOR_LU]));
  PetscCall(PetscStrallocpy(MATORDERINGNATURAL, (char **)&B->preferredordering[MAT_FACTOR_ILU]));
  PetscCall(PetscFree(B->solvertype));
  PetscCall(PetscStrallocpy(MATSOLVERPETSCIDRS, &B->solvertype));
  PetscFunctionReturn(PETSC_SUCCESS);
}

#endif

/*MC
  MATSOLVERPETSCIDRS = "petscidrs" - LU and incomplete LU factorisations of `MATSEQAIJCUSPARSE` on a GPU, with solves for many
  right-hand sides at once

  Options Database Keys:
+ -pc_factor_mat_solver_type petscidrs    - use this package, with `PCLU` or `PCILU`
. -pc_factor_levels k                     - levels of fill of `PCILU` (default 0)
. -pc_factor_mat_ordering_type ordering   - ordering of the rows (default nd for `PCLU`, natural for `PCILU`)
- -pc_factor_shift_type type              - treatment of zero pivots, with -pc_factor_shift_amount and -pc_factor_zeropivot
    (default none)

  Level: beginner

  Notes:
  The package comes from the plugin libpetscidrs, with `-dll_append path/libpetscidrs.so` or `KSPIDRSRegister()`. It is for `PCLU`
  and `PCILU` on one process, and as the solver of the blocks of `PCBJACOBI` and `PCASM`, with prefix sub_.

  If the matrix is in the memory of the host, the factor is that of `MATSOLVERPETSC`. For a matrix on a GPU, `MATSOLVERPETSC`
  computes the pattern on the host, so options of `PCFactor` mean the same: levels, orderings, -pc_factor_diagonal_fill,
  -pc_factor_nonzeros_along_diagonal. With -pc_factor_nonzeros_along_diagonal and the natural ordering, ILU(0) has the pattern of
  the matrix after the exchange of columns; with `MATSOLVERPETSC` it has the pattern before the exchange. There is no pivoting and
  no drop tolerance. Factorisations in place always use PETSc's own code.

  The numeric phase runs on the GPU. If it finds a pivot that PETSc would report as zero or shift, with the options
  -pc_factor_zeropivot and -pc_factor_shift_type, `MATSOLVERPETSC` repeats the numeric phase on the host, and its values are copied
  to the GPU. `-ksp_view` shows this.

  If the matrix has a block size, see `MatSetBlockSize()`, and all blocks of the factors are full, the factors consist of dense
  blocks: a row of blocks has one list of columns, and there are fewer levels. Blocks of more than 16 rows are divided. In two cases
  there are no blocks, and `-ksp_view` gives the reason. With a shift of type nonzero or positive_definite pivots are compared with
  the sums of single rows. If a diagonal block D is ill-conditioned, with an entry of |D_ij (D^{-1})_ji| above 100, or has a small
  pivot, solves with its inverse would lose more digits than factors by rows. Then the numeric phase is repeated without blocks,
  also for later matrices of the same pattern.

  Each numeric phase and each solve is one kernel, in which a row begins as soon as the rows that it depends on are complete. The
  host waits for a numeric phase, but not for a solve. Results have the same bits in every run. `MatMatSolve()`, and so
  `PCMatApply()` and `KSPMatSolve()` with `KSPPREONLY`, solves for 16 columns at a time. Right-hand sides in the memory of the host
  are copied. The GPU stores the factors twice, and three times after a transposed solve.

  Complete factors have long rows that depend on each other: with `PCLU` for 14 x 14 x 14 points a solve with one right-hand side
  takes 1.1 to 1.2 times as long as with `MATSOLVERCUSPARSE`, although the numeric phase takes half as long or less. Use
  `MATSOLVERCUSPARSE` if a `PCLU` is used for many solves with one right-hand side each.

  If the rows of a kernel wait for each other for longer than `-petscidrs_nccl_timeout` seconds, which only happens in a debugger,
  the results are NaN, and the next call reports an error.

.seealso: [](sec_factorization), `MatSolverType`, `PCFactorSetMatSolverType()`, `PCLU`, `PCILU`, `MatGetFactor()`,
          `MATSOLVERPETSC`, `MATSOLVERCUSPARSE`, `KSPIDRSRegister()`
M*/
static PetscErrorCode MatGetFactor_seqaij_petscidrs(Mat A, MatFactorType type, Mat *F)
{
  IDRSMemory place;

  PetscFunctionBegin;
  PetscCheck(A->rmap->n == A->cmap->n, PETSC_COMM_SELF, PETSC_ERR_ARG_SIZ,
             "%s requires a square matrix, but this one has %" PetscInt_FMT " rows and %" PetscInt_FMT " columns",
             MATSOLVERPETSCIDRS, A->rmap->n, A->cmap->n);
  PetscCall(IDRSMatWhere(A, &place));
#if defined(PETSCIDRS_HAVE_CUDA)
  if (place == IDRS_MEMORY_CUDA) PetscCall(MatFactorCreate_PETScIDRS(A, type, F));
#endif
  if (place == IDRS_MEMORY_HOST) {
    PetscCall(MatGetFactor(A, MATSOLVERPETSC, type, F));
    PetscCall(PetscInfo(A, "%s: the matrix is on the host, and package %s factors it\n", MATSOLVERPETSCIDRS, MATSOLVERPETSC));
  }
  /* the name that the PC has set: a second PCSetFromOptions() compares both */
  PetscCall(PetscObjectComposeFunction((PetscObject)*F, "MatFactorGetSolverType_C", MatFactorGetSolverType_PETScIDRS));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   MatSolverTypeRegister_PETScIDRS - Registers the package. The longer type is first, because PETSc uses the first registered type
   that is a prefix of the type of the matrix
*/
PETSC_INTERN PetscErrorCode MatSolverTypeRegister_PETScIDRS(void)
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
