/*
   Product "csr": x = A u, and the sums of its projection, from the arrays of MATSEQAIJCUSPARSE as they are.

   A warp computes 32 rows at a time, and some of its lanes a row, more of them where rows are longer; then each lane has the entry of x of one row. Reads A,
   u and y; writes x.
*/
#include "../../vec/cuda/project.cuh"
#include "csr.h"

#define IDRS_ENTRIES_AT_ONCE 4    /* of a row that a lane reads before it uses one of them */
#define IDRS_LONG_ROW        1024 /* entries of a row that other rows wait for */

typedef struct {
  IDRSCSR  A;
  int      lanes; /* of a row, a power of 2 */
  PetscInt longest;
} IDRSProductCSR;

/* By lane of so many: the part of this lane of row (A u)_row */
static __device__ __forceinline__ PetscScalar IDRSRowPart(const IDRSCSR &A, const PetscScalar *u, PetscInt row, int lane, int lanes)
{
  const PetscInt begin = row < A.n ? A.i[row] : 0, end = row < A.n ? A.i[row + 1] : 0;
  PetscScalar    sum = 0.0;

  for (PetscInt p = begin + lane; p < end; p += IDRS_ENTRIES_AT_ONCE * lanes) {
    PetscInt    column[IDRS_ENTRIES_AT_ONCE];
    PetscScalar value[IDRS_ENTRIES_AT_ONCE];

#pragma unroll
    for (int l = 0; l < IDRS_ENTRIES_AT_ONCE; l++) {
      const PetscInt q = p + l * lanes;

      column[l] = q < end ? A.j[q] : -1;
      value[l]  = q < end ? IDRSLoadConstant(A.a + q) : (PetscScalar)0.0;
    }
#pragma unroll
    for (int l = 0; l < IDRS_ENTRIES_AT_ONCE; l++) {
      if (column[l] >= 0) sum += value[l] * IDRSLoadConstant(u + column[l]);
    }
  }
  return sum;
}

/* By a warp: entry of A u for row + (this lane), where row is the first of 32 */
static __device__ __forceinline__ PetscScalar IDRSRowSum(const IDRSCSR &A, const PetscScalar *u, PetscInt row, int lanes)
{
  const int   lane = threadIdx.x % IDRS_WARP, rows = IDRS_WARP / lanes; /* rows at a time */
  PetscScalar mine = 0.0;

  if (lanes == 1) return IDRSRowPart(A, u, row + lane, 0, 1);
  for (int done = 0; done < IDRS_WARP; done += rows) {
    PetscScalar sum = IDRSRowPart(A, u, row + done + lane / lanes, lane % lanes, lanes);

    for (int offset = lanes / 2; offset > 0; offset /= 2) sum += IDRSShuffleDown(sum, offset);
    sum = IDRSShuffle(sum, lane % rows * lanes);
    if (lane / rows == done / rows) mine = sum;
  }
  return mine;
}

template <int S, bool Y, bool HASHED>
static __global__ void __launch_bounds__(IDRS_THREADS, IDRSBlocksAtOnce(Y ? 2 * S : S)) IDRSCSRKernel(IDRSOverlap<true, true> overlap, IDRSCSR A, int lanes, IDRSShadow<S> P, const PetscScalar *u, PetscScalar *x, const PetscScalar *y, IDRSSums out, IDRSAlgebra algebra)
{
  const size_t   n = A.n, lane = threadIdx.x % IDRS_WARP;
  bool           stopped;
  IDRSDots<S, Y> dots;

  overlap.Begin();
  stopped = IDRSProjectBegin<S>(P, algebra);
  IDRSDotsClear(dots);
  for (size_t row = IDRSFirstRow<1>() - lane; row < n; row += IDRSRowStride<1>()) {
    const size_t i = row + lane;
    IDRSPack<1>  xi, yi = IDRSZero<1>();

    if (Y) yi = IDRSLoad<1>(y, i, n);
    xi.v[0] = IDRSRowSum(A, u, (PetscInt)row, lanes);
    IDRSStore<1>(x, i, n, xi);
    IDRSDotsAdd<S, 1, Y, HASHED>(dots, P, i, n, xi, yi);
  }
  if (!stopped) IDRSProjectEnd<S, Y, HASHED>(dots, P, out, algebra);
}

/* By a warp: places and longest of 32 rows */
static __global__ void IDRSRowLengthsKernel(IDRSCSR A, IDRSRowLengths *lengths)
{
  const PetscInt row     = (PetscInt)IDRSFirstRow<1>();
  const uint32_t longest = ~IDRSWarpMin(~(uint32_t)(row < A.n ? A.i[row + 1] - A.i[row] : 0));

  if (threadIdx.x % IDRS_WARP) return;
  atomicAdd(&lengths->places, (unsigned long long)longest * IDRS_WARP);
  atomicMax(&lengths->longest, longest);
}

/* The host waits */
PetscErrorCode IDRSGetRowLengths(const IDRSCSR *A, IDRSRowLengths *lengths)
{
  IDRSRowLengths    *counted;
  PetscDeviceContext dctx;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceCalloc(dctx, PETSC_MEMTYPE_CUDA, 1, &counted));
  if (A->n) {
    IDRSRowLengthsKernel<<<(unsigned int)((A->n + IDRS_THREADS - 1) / IDRS_THREADS), IDRS_THREADS, 0, stream>>>(*A, counted);
    PetscCallCUDA(cudaGetLastError());
  }
  PetscCallCUDA(cudaMemcpyAsync(lengths, counted, sizeof(*lengths), cudaMemcpyDeviceToHost, stream));
  PetscCallCUDA(cudaStreamSynchronize(stream));
  PetscCall(PetscDeviceFree(dctx, counted));
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

/* The arrays, up to date. They stay where they are until the matrix changes */
PetscErrorCode IDRSGetCSR(Mat A, IDRSCSR *csr)
{
  const PetscInt    *i, *j;
  const PetscScalar *a;

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

/* MatMult() of such matrices, which a user may have replaced */
static PetscErrorCode IDRSGetMult_CUDA(void (**mult)(void))
{
  Mat like;

  PetscFunctionBegin;
  PetscCall(MatCreate(PETSC_COMM_SELF, &like));
  PetscCall(MatSetSizes(like, 0, 0, 0, 0));
  PetscCall(MatSetType(like, MATSEQAIJCUSPARSE));
  PetscCall(MatGetOperation(like, MATOP_MULT, mult));
  PetscCall(MatDestroy(&like));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* For all products on these arrays */
PetscErrorCode IDRSProductRuns_CUDA(IDRSProduct product, const char *why[])
{
  static void (*usual)(void) = NULL;
  void (*mult)(void);
  Mat       A = product->A;
  PetscBool cuda, bound;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJCUSPARSE, &cuda));
  PetscCall(MatBoundToCPU(A, &bound));
  if (!cuda) *why = "the operator is not of type seqaijcusparse";
  else if (bound) *why = "the operator is bound to the CPU";
  else if (product->transpose) *why = "the operator is applied transposed";
  else {
    PetscCall(MatGetOperation(A, MATOP_MULT, &mult));
    if (!usual) PetscCall(IDRSGetMult_CUDA(&usual));
    if (mult != usual) *why = "the operator has a MatMult() of the user";
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSProductSetUp_CSR(IDRSProduct product, const char *why[])
{
  IDRSProductCSR *csr = (IDRSProductCSR *)product->data;
  PetscLogDouble  nonzeros;

  PetscFunctionBegin;
  *why = NULL;
  if (!csr) {
    IDRSRowLengths lengths;

    PetscCall(PetscNew(&csr));
    product->data = csr;
    PetscCall(IDRSGetCSR(product->A, &csr->A));
    PetscCall(IDRSGetRowLengths(&csr->A, &lengths));
    PetscCall(IDRSGetNonzeros(product->A, &nonzeros));
    csr->longest = lengths.longest;
    csr->lanes   = 1;
    while (csr->lanes < IDRS_WARP && 12.0 * csr->lanes * (PetscLogDouble)csr->A.n < nonzeros) csr->lanes *= 2;
  }
  PetscCall(IDRSGetCSR(product->A, &csr->A));
  if (product->kind == KSP_IDRS_PRODUCT_AUTO && csr->longest > IDRS_LONG_ROW) *why = "a row is so long that the others would wait for it";
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSProductReset_CSR(IDRSProduct product)
{
  PetscFunctionBegin;
  PetscCall(PetscFree(product->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSProductProject_CSR(IDRSProduct product, const IDRSProjection *projection)
{
  const IDRSProductCSR *csr    = (const IDRSProductCSR *)product->data;
  const size_t          blocks = ((size_t)csr->A.n + IDRS_THREADS - 1) / IDRS_THREADS;

  PetscFunctionBegin;
  PetscCallCUDA(IDRSDispatchProjection(*projection, [&](auto S, auto Y, auto HASHED, const auto &shadow) {
    (void)IDRSLaunchResident<IDRSCSRKernel<S, Y, HASHED>>(projection->cuda, blocks, 0, projection->stream, csr->A, csr->lanes, shadow, projection->u, projection->x, projection->y, projection->out, projection->algebra);
  }));
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const IDRSProductOps IDRSProducts_CSR = {
  PetscDesignatedInitializer(name, "csr"),
  PetscDesignatedInitializer(runs, IDRSProductRuns_CUDA),
  PetscDesignatedInitializer(setup, IDRSProductSetUp_CSR),
  PetscDesignatedInitializer(project, IDRSProductProject_CSR),
  PetscDesignatedInitializer(reset, IDRSProductReset_CSR),
};
// clang-format on
