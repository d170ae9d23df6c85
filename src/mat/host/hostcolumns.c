/*
   Back end "host" of products with several columns: Y_j = A X_j from the arrays of MATSEQAIJ or MATMPIAIJ, in one loop over the
   rows. It reads A and X once, except for entries of X that are evicted from the cache. Sums have the order of the columns of A
*/
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsloops.h>
#include <petscidrs/private/idrsrows.h>
#include "../interface/idrsrowscatter.h"

/* Columns of X in one loop: the sums of more columns are not kept in registers */
#define IDRS_COLUMNS_HOST 4

/* Rows of a chunk, which stay in a cache for all columns of X */
#define IDRS_CHUNK 256

/* Buffers of the exchange between processes */
typedef struct {
  PetscScalar *rows, *ghosts;
  PetscInt     width; /* columns that there is room for */
} IDRSProductHost;

/* Computes rows begin to end - 1 of k columns, where k is a constant */
IDRS_INLINE void IDRSColumnsLoop(const int k, const IDRSRows *A, PetscInt begin, PetscInt end, const PetscScalar *const X[],
                                 PetscScalar *const Y[])
{
  const PetscScalar *x[IDRS_COLUMNS_HOST];

  for (int c = 0; c < k; c++) x[c] = X[c];
  for (PetscInt i = begin; i < end; i++) {
    PetscScalar sum[IDRS_COLUMNS_HOST];

    for (int c = 0; c < k; c++) sum[c] = 0.0;
    for (PetscInt p = A->i[i]; p < A->i[i + 1]; p++) {
      const PetscScalar a = A->a[p];
      const PetscInt    j = A->j[p];

      for (int c = 0; c < k; c++) IDRSLoopMultiplyAdd(&sum[c], a, x[c][j]);
    }
    for (int c = 0; c < k; c++) Y[c][i] = sum[c];
  }
}

/* Calls the loop for this number of columns, so that the sums are in registers */
IDRS_INLINE void IDRSColumnsChunk(PetscInt k, const IDRSRows *A, PetscInt begin, PetscInt end, const PetscScalar *const X[],
                                  PetscScalar *const Y[])
{
  switch (k) {
  case 1:
    IDRSColumnsLoop(1, A, begin, end, X, Y);
    break;
  case 2:
    IDRSColumnsLoop(2, A, begin, end, X, Y);
    break;
  case 3:
    IDRSColumnsLoop(3, A, begin, end, X, Y);
    break;
  default:
    IDRSColumnsLoop(IDRS_COLUMNS_HOST, A, begin, end, X, Y);
  }
}

IDRS_VECTORISED static void IDRSColumnsPass(PetscInt k, const IDRSRows *A, const PetscScalar *const X[], PetscScalar *const Y[])
{
  for (PetscInt b = 0; b < A->n; b += IDRS_CHUNK) {
    for (PetscInt c = 0; c < k; c += IDRS_COLUMNS_HOST) IDRSColumnsChunk(k - c, A, b, PetscMin(b + IDRS_CHUNK, A->n), X + c, Y + c);
  }
}

/* Computes Y_j += A ghosts_j, with row-major ghosts; few rows have any */
IDRS_VECTORISED static void IDRSColumnsAddPass(PetscInt k, const IDRSRows *A, const PetscScalar *ghosts, PetscScalar *const Y[])
{
  for (PetscInt i = 0; i < A->n; i++) {
    PetscScalar sum[IDRS_MAX_WIDTH];

    if (A->i[i] == A->i[i + 1]) continue;
    for (PetscInt c = 0; c < k; c++) sum[c] = 0.0;
    for (PetscInt p = A->i[i]; p < A->i[i + 1]; p++) {
      const PetscScalar *ghost = ghosts + (size_t)A->j[p] * k;

      for (PetscInt c = 0; c < k; c++) IDRSLoopMultiplyAdd(&sum[c], A->a[p], ghost[c]);
    }
    for (PetscInt c = 0; c < k; c++) Y[c][i] += sum[c];
  }
}

/* Returns the reason why the loops cannot replace MatMult(), or NULL */
static PetscErrorCode IDRSProductRuns_Host(IDRSProduct product, const char *why[])
{
  PetscBool aij, assembled, usual = PETSC_TRUE;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)product->A, &aij, MATSEQAIJ, MATMPIAIJ, ""));
  PetscCall(MatAssembled(product->A, &assembled));
  if (aij) PetscCall(IDRSMatHasUsualMult(product->A, &usual));
  if (!aij) *why = "the operator is of type neither aij nor aijcusparse";
  else if (!assembled) *why = "the operator is not assembled";
  else if (!usual) *why = "the user has replaced MatMult() of the operator";
  else if (product->transpose) *why = "the operator is applied transposed";
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSProductSetUp_Host(IDRSProduct product, PetscBool changed, const char *why[])
{
  IDRSProductHost *host = (IDRSProductHost *)product->data;

  PetscFunctionBegin;
  *why = NULL;
  if (!host) PetscCall(PetscNew(&host)); /* the arrays of A are read again for each product */
  product->data = host;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSProductReset_Host(IDRSProduct product)
{
  IDRSProductHost *host = (IDRSProductHost *)product->data;

  PetscFunctionBegin;
  if (host) PetscCall(PetscFree2(host->rows, host->ghosts));
  PetscCall(PetscFree(product->data));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Begins to send the entries of X that other processes need */
static PetscErrorCode IDRSColumnsBegin_Host(IDRSRowScatter rowscatter, IDRSProductHost *host, PetscInt k,
                                            const PetscScalar *const X[])
{
  PetscFunctionBegin;
  if (host->width < k) {
    PetscCall(PetscFree2(host->rows, host->ghosts));
    PetscCall(PetscMalloc2((size_t)rowscatter->count * k, &host->rows, (size_t)rowscatter->nghosts * k, &host->ghosts));
    host->width = k;
  }
  for (PetscInt i = 0; i < rowscatter->count; i++) {
    for (PetscInt c = 0; c < k; c++) host->rows[(size_t)i * k + c] = X[c][rowscatter->rows[i]];
  }
  PetscCall(IDRSRowScatterBegin(rowscatter, k, PETSC_MEMTYPE_HOST, host->rows, host->ghosts));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode IDRSProductColumns_Host(IDRSProduct product, PetscInt k, Vec X[], Vec Y[])
{
  IDRSProductHost     *host       = (IDRSProductHost *)product->data;
  const IDRSRowScatter rowscatter = product->rowscatter;
  Mat                  blocks[2]  = {product->A, NULL};
  PetscBool            parallel;
  IDRSRows             rows;
  const PetscScalar   *x[IDRS_MAX_WIDTH];
  PetscScalar         *y[IDRS_MAX_WIDTH];

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompare((PetscObject)product->A, MATMPIAIJ, &parallel)); /* a parallel type may also have one process */
  if (parallel) PetscCall(MatMPIAIJGetSeqAIJ(product->A, &blocks[0], &blocks[1], NULL));
  for (PetscInt c = 0; c < k; c++) {
    PetscCall(VecGetArrayRead(X[c], &x[c]));
    PetscCall(VecGetArrayWrite(Y[c], &y[c]));
  }
  if (rowscatter) PetscCall(IDRSColumnsBegin_Host(rowscatter, host, k, x));
  PetscCall(IDRSRowsGet(blocks[0], &rows));
  IDRSColumnsPass(k, &rows, x, y);
  PetscCall(IDRSRowsRestore(&rows));
  if (rowscatter) {
    PetscCall(IDRSRowScatterEnd(rowscatter, k, host->rows, host->ghosts));
    PetscCall(IDRSRowsGet(blocks[1], &rows));
    IDRSColumnsAddPass(k, &rows, host->ghosts, y);
    PetscCall(IDRSRowsRestore(&rows));
  }
  for (PetscInt c = 0; c < k; c++) {
    PetscCall(VecRestoreArrayRead(X[c], &x[c]));
    PetscCall(VecRestoreArrayWrite(Y[c], &y[c]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The host copies no columns */
static PetscErrorCode IDRSProductGoesByRows_Host(Mat A, PetscBool *byrows)
{
  PetscFunctionBegin;
  *byrows = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

// clang-format off
const IDRSProductOps IDRSProducts_Host = {
  PetscDesignatedInitializer(name, "host"),
  PetscDesignatedInitializer(runs, IDRSProductRuns_Host),
  PetscDesignatedInitializer(setup, IDRSProductSetUp_Host),
  PetscDesignatedInitializer(projection, NULL),
  PetscDesignatedInitializer(columns, IDRSProductColumns_Host),
  PetscDesignatedInitializer(byrows, IDRSProductGoesByRows_Host),
  PetscDesignatedInitializer(reset, IDRSProductReset_Host),
};
// clang-format on
