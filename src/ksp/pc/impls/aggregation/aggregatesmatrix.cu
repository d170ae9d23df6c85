/*
   Matrices of coarse levels on a GPU. PETSc's MATSEQAIJCUSPARSE wants its pattern in the memory of the host, too, and to create it
   takes much longer than the product. So the matrix of a level with many rows is a MATSHELL with its arrays on the GPU, which is
   all that PCPOLY needs. Its matrix of type MATSEQAIJCUSPARSE is made when something else needs it.
*/
#include "aggregatescuda.cuh"

/* The arrays of a Mat in the memory of the host. The values are there only after PETSc has copied them from the GPU */
typedef struct {
  PetscInt    *i, *j;
  PetscScalar *a;
} HostArrays;

static PetscErrorCode HostArraysDestroy(void *pointer)
{
  HostArrays *host = (HostArrays *)IDRSContainerData(pointer);

  PetscFunctionBegin;
  PetscCall(PetscFree(host->a));
  PetscCall(PetscFree(host->j));
  PetscCall(PetscFree(host->i));
  PetscCall(PetscFree(host));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode CopyValues(const AggregatesMatrix *C, Mat mat, cudaStream_t stream)
{
  PetscScalar *a;

  PetscFunctionBegin;
  PetscCall(MatSeqAIJCUSPARSEGetArrayWrite(mat, &a));
  PetscCallCUDA(cudaMemcpyAsync(a, C->a, C->nonzeros * sizeof(*a), cudaMemcpyDeviceToDevice, stream));
  PetscCall(MatSeqAIJCUSPARSERestoreArrayWrite(mat, &a));
  PetscCall(IDRSStreamJoin_CUDA());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* AggregatesMatrixGetMat_CUDA - Creates a MATSEQAIJCUSPARSE */
PetscErrorCode AggregatesMatrixGetMat_CUDA(const AggregatesMatrix *C, cudaStream_t stream, Mat *mat)
{
  HostArrays    *host;
  PetscContainer container;
  IDRSCSR        csr;

  PetscFunctionBegin;
  PetscCall(PetscNew(&host));
  PetscCall(PetscMalloc1(C->rows + 1, &host->i));
  PetscCall(PetscMalloc1(C->nonzeros, &host->j));
  PetscCall(PetscMalloc1(C->nonzeros, &host->a));
  PetscCall(CopyToHost(C->rows + 1, C->i, (IDRSMatIndex *)host->i, stream)); /* it is as long: AggregatesRuns_CUDA() */
  PetscCall(CopyToHost(C->nonzeros, C->j, (IDRSMatIndex *)host->j, stream));
  PetscCall(MatCreateSeqAIJWithArrays(PETSC_COMM_SELF, C->rows, C->columns, host->i, host->j, host->a, mat));
  PetscCall(PetscContainerCreate(PETSC_COMM_SELF, &container));
  PetscCall(PetscContainerSetPointer(container, host));
  PetscCall(IDRSContainerSetDestroy(container, HostArraysDestroy));
  PetscCall(PetscObjectCompose((PetscObject)*mat, "AggregatesHostArrays", (PetscObject)container));
  PetscCall(PetscContainerDestroy(&container));
  PetscCall(MatConvert(*mat, MATSEQAIJCUSPARSE, MAT_INPLACE_MATRIX, mat));
  PetscCall(IDRSGetCSR(*mat, &csr)); /* copies the pattern to the GPU */
  PetscCall(CopyValues(C, *mat, stream));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode AggregatesMatrixReset_CUDA(AggregatesMatrix *C)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, C->a));
  PetscCall(PetscDeviceFree(dctx, C->j));
  PetscCall(PetscDeviceFree(dctx, C->i));
  PetscCall(MatDestroy(&C->full));
  *C = {};
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns (A z)_row. The kernel does not change A */
static __device__ __forceinline__ PetscScalar RowProduct(const IDRSCSR &A, int row, const PetscScalar *z)
{
  PetscScalar sum = 0.0;

  for (int p = (int)__ldg(A.i + row), end = (int)__ldg(A.i + row + 1); p < end; p += AGGREGATES_ATONCE) {
    PetscScalar value[AGGREGATES_ATONCE], entry[AGGREGATES_ATONCE];

#pragma unroll
    for (int l = 0; l < AGGREGATES_ATONCE; l++) {
      value[l] = p + l < end ? IDRSLoadConstant(A.a + p + l) : (PetscScalar)0.0;
      entry[l] = p + l < end ? z[__ldg(A.j + p + l)] : (PetscScalar)0.0;
    }
#pragma unroll
    for (int l = 0; l < AGGREGATES_ATONCE; l++) sum += value[l] * entry[l];
  }
  return sum;
}

/* y = A x, or the diagonal of A if x is NULL */
static __global__ void __launch_bounds__(IDRS_THREADS) RowsKernel(IDRSCSR A, const PetscScalar *x, PetscScalar *y)
{
  for (size_t row = IDRSFirstRow<1>(); row < A.n; row += IDRSRowStride<1>()) {
    PetscScalar value = 0.0;

    if (x) value = RowProduct(A, (int)row, x);
    for (IDRSMatIndex p = A.i[row]; !x && p < A.i[row + 1]; p++) {
      if ((size_t)A.j[p] == row) value = A.a[p];
    }
    y[row] = value;
  }
}

static PetscErrorCode RunRows(Mat A, Vec x, Vec y)
{
  const PetscScalar *xs = NULL;
  PetscScalar       *ys;
  IDRSCSR            csr;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(AggregatesGetCSR_CUDA(A, &csr));
  PetscCall(IDRSStream_CUDA(&stream));
  if (x) PetscCall(VecCUDAGetArrayRead(x, &xs));
  PetscCall(VecCUDAGetArrayWrite(y, &ys));
  PetscCall(PetscLogGpuTimeBegin());
  RowsKernel<<<CountBlocks(csr.n), IDRS_THREADS, 0, stream>>>(csr, xs, ys);
  PetscCallCUDA(cudaGetLastError());
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(VecCUDARestoreArrayWrite(y, &ys));
  if (x) PetscCall(VecCUDARestoreArrayRead(x, &xs));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatMult_Aggregates(Mat A, Vec x, Vec y)
{
  AggregatesMatrix *C;

  PetscFunctionBegin;
  PetscCall(MatShellGetContext(A, &C));
  PetscCall(RunRows(A, x, y));
  PetscCall(PetscLogGpuFlops(2.0 * (PetscLogDouble)C->nonzeros));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatGetDiagonal_Aggregates(Mat A, Vec diagonal)
{
  PetscFunctionBegin;
  PetscCall(RunRows(A, NULL, diagonal));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatGetInfo_Aggregates(Mat A, MatInfoType type, MatInfo *info)
{
  AggregatesMatrix *C;

  PetscFunctionBegin;
  (void)type;
  PetscCall(MatShellGetContext(A, &C));
  PetscCall(PetscMemzero(info, sizeof(*info)));
  info->block_size   = 1.0;
  info->nz_used      = (PetscLogDouble)C->nonzeros;
  info->nz_allocated = info->nz_used;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* AggregatesGetFull_CUDA - Gets a MATSEQAIJCUSPARSE with the entries of a MATSHELL, which owns it; another matrix is returned */
PetscErrorCode AggregatesGetFull_CUDA(Mat A, Mat *full)
{
  AggregatesMatrix *C;
  PetscBool         shell;
  PetscObjectState  state;
  cudaStream_t      stream;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSHELL, &shell));
  *full = A;
  if (!shell) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(MatShellGetContext(A, &C));
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscObjectStateGet((PetscObject)A, &state));
  if (!C->full) PetscCall(AggregatesMatrixGetMat_CUDA(C, stream, &C->full));
  else if (C->state != state) PetscCall(CopyValues(C, C->full, stream));
  C->state = state;
  *full    = C->full;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatMultTranspose_Aggregates(Mat A, Vec x, Vec y)
{
  Mat full = NULL;

  PetscFunctionBegin;
  PetscCall(AggregatesGetFull_CUDA(A, &full));
  PetscCall(MatMultTranspose(full, x, y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MatConvert_Aggregates(Mat A, MatType type, MatReuse reuse, Mat *B)
{
  Mat full = NULL;

  PetscFunctionBegin;
  PetscCheck(reuse == MAT_INITIAL_MATRIX, PETSC_COMM_SELF, PETSC_ERR_SUP, "Only a new matrix can be made of a coarse level");
  PetscCall(AggregatesGetFull_CUDA(A, &full));
  PetscCall(MatConvert(full, type, MAT_INITIAL_MATRIX, B));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode AggregatesMatrixDestroy(void *pointer)
{
  AggregatesMatrix *C = (AggregatesMatrix *)IDRSContainerData(pointer);

  PetscFunctionBegin;
  PetscCall(AggregatesMatrixReset_CUDA(C));
  PetscCall(PetscFree(C));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* AggregatesGetCSR_CUDA - Gets the arrays of the matrix of a level, as IDRSGetCSR() does */
PetscErrorCode AggregatesGetCSR_CUDA(Mat A, IDRSCSR *csr)
{
  AggregatesMatrix *C;
  PetscBool         shell;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSHELL, &shell));
  if (shell) {
    PetscCall(MatShellGetContext(A, &C));
    *csr = {C->i, C->j, C->a, C->rows};
  } else PetscCall(IDRSGetCSR(A, csr));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* AggregatesMatrixGetShell_CUDA - Creates the MATSHELL, which takes the arrays */
PetscErrorCode AggregatesMatrixGetShell_CUDA(AggregatesMatrix *C, Mat *mat)
{
  AggregatesMatrix *context;

  PetscFunctionBegin;
  PetscCall(PetscNew(&context));
  *context = *C;
  *C       = {};
  PetscCall(MatCreateShell(PETSC_COMM_SELF, context->rows, context->columns, PETSC_DETERMINE, PETSC_DETERMINE, context, mat));
  PetscCall(MatShellSetManageScalingShifts(*mat));
  PetscCall(MatSetVecType(*mat, VECCUDA));
  PetscCall(MatShellSetOperation(*mat, MATOP_MULT, (void (*)(void))MatMult_Aggregates));
  PetscCall(MatShellSetOperation(*mat, MATOP_MULT_TRANSPOSE, (void (*)(void))MatMultTranspose_Aggregates));
  PetscCall(MatShellSetOperation(*mat, MATOP_GET_DIAGONAL, (void (*)(void))MatGetDiagonal_Aggregates));
  PetscCall(MatShellSetOperation(*mat, MATOP_GETINFO, (void (*)(void))MatGetInfo_Aggregates));
  PetscCall(IDRSMatShellSetDestroy(*mat, AggregatesMatrixDestroy)); /* not MATOP_DESTROY: a duplicate has the same context */
  PetscCall(PetscObjectComposeFunction((PetscObject)*mat, "MatConvert_shell_seqaij_C", MatConvert_Aggregates));
  PetscCall(PetscObjectComposeFunction((PetscObject)*mat, "MatConvert_shell_seqaijcusparse_C", MatConvert_Aggregates));
  PetscCall(PetscObjectComposeFunction((PetscObject)*mat, IDRS_ROWS, AggregatesGetCSR_CUDA));
  PetscFunctionReturn(PETSC_SUCCESS);
}
