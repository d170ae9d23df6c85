/*
   The arrays of a MATSEQAIJCUSPARSE, or of the blocks of a MATMPIAIJCUSPARSE, and the lengths of their rows
*/
#include "csr.h"
#include "launch.cuh"

/* A warp processes 32 rows at a time */
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSRowLengthsKernel(IDRSCSR A, unsigned int limit, IDRSRowLengths *lengths)
{
  const size_t       lane    = threadIdx.x % IDRS_WARP;
  unsigned long long places  = 0;
  uint32_t           longest = 0;

  for (size_t row = IDRSFirstRow<1>() - lane; row < A.n; row += IDRSRowStride<1>()) {
    const uint32_t length = row + lane < A.n ? (uint32_t)(A.i[row + lane + 1] - A.i[row + lane]) : 0;

    longest = max(longest, ~IDRSWarpMin(~length));
    places += (unsigned long long)~IDRSWarpMin(~(length > limit ? 0 : length)) * IDRS_WARP;
    if (length > limit) {
      atomicAdd(&lengths->longrows, 1);
      atomicAdd(&lengths->longentries, (unsigned long long)length);
    }
  }
  if (lane) return;
  atomicAdd(&lengths->places, places);
  atomicMax(&lengths->longest, longest);
}

/* Computes the lengths of the rows on the device. The host waits for the result */
PetscErrorCode IDRSGetRowLengths(const IDRSCSR *A, unsigned int limit, IDRSRowLengths *lengths)
{
  IDRSRowLengths    *counted;
  PetscDeviceContext dctx;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &counted));
  IDRSRowLengthsKernel<<<(unsigned int)PetscMin(PetscMax((A->n + IDRS_THREADS - 1) / IDRS_THREADS, 1), 2048), IDRS_THREADS, 0,
                         stream>>>(*A, limit, counted);
  PetscCallCUDA(cudaGetLastError());
  PetscCallCUDA(cudaMemcpyAsync(lengths, counted, sizeof(*lengths), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscCall(PetscDeviceFree(dctx, counted));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns PETSC_TRUE if data of this size, read once per matvec, do not stay in the L2 cache until the next matvec */
PetscErrorCode IDRSExceedsCache(PetscLogDouble bytes, PetscBool *exceeds)
{
  int device, cache;

  PetscFunctionBegin;
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device));
  *exceeds = (PetscBool)(bytes > 0.75 * cache);
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSGetNonzeros(Mat A, PetscLogDouble *nonzeros)
{
  MatInfo info;

  PetscFunctionBegin;
  PetscCall(MatGetInfo(A, MAT_LOCAL, &info));
  *nonzeros = info.nz_used;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the number of lanes that share a row: a power of 2, for about 12 entries per lane */
PetscErrorCode IDRSGetRowLanes(Mat A, int *lanes)
{
  PetscLogDouble nonzeros = 0;
  PetscInt       n;

  PetscFunctionBegin;
  PetscCall(IDRSGetNonzeros(A, &nonzeros));
  PetscCall(MatGetLocalSize(A, &n, NULL));
  *lanes = 1;
  while (*lanes < IDRS_WARP && 12.0 * *lanes * (PetscLogDouble)n < nonzeros) *lanes *= 2;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the current arrays. Their addresses are valid until the matrix changes */
PetscErrorCode IDRSGetCSR(Mat A, IDRSCSR *csr)
{
  const IDRSMatIndex *i, *j;
  const PetscScalar  *a;

  PetscFunctionBegin;
  PetscCall(MatGetLocalSize(A, &csr->n, NULL));
  PetscCall(MatSeqAIJCUSPARSEGetIJ(A, PETSC_FALSE, &i, &j));
  PetscCall(MatSeqAIJCUSPARSEGetArrayRead(A, &a));
  csr->i = i;
  csr->j = j;
  csr->a = a;
  PetscCall(MatSeqAIJCUSPARSERestoreArrayRead(A, &a));
  PetscCall(MatSeqAIJCUSPARSERestoreIJ(A, PETSC_FALSE, &i, &j));
  PetscCall(IDRSStreamJoin_CUDA());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Returns the reason why MatMult() is faster if one lane processes this many entries of the longest row, or NULL. On an H200 a warp
   needs about 0.7 us for 8 of them; in the same time the device processes 80 000 entries of all rows
*/
const char *IDRSDeclineLongRow(PetscLogDouble nonzeros, unsigned int entries)
{
  return (PetscLogDouble)entries > 32.0 + nonzeros / 80000.0 ? "the longest row would delay all others" : NULL;
}

/*
   Returns the reason why the automatic choice is MatMult() for rows of this length, or NULL. An entry of u is read for each matrix
   entry. If rows are long, these reads dominate, and cuSPARSE is faster.
*/
PetscErrorCode IDRSDeclineRows(Mat A, unsigned int entries, const char *why[])
{
  PetscLogDouble nonzeros = 0;
  PetscInt       n;

  PetscFunctionBegin;
  PetscCall(IDRSGetNonzeros(A, &nonzeros));
  PetscCall(MatGetLocalSize(A, &n, NULL));
  *why = IDRSDeclineLongRow(nonzeros, entries);
  if (!*why && nonzeros > 12.0 * (PetscLogDouble)n) *why = "rows have more than 12 entries";
  PetscFunctionReturn(PETSC_SUCCESS);
}
