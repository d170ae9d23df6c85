/*
   One exchange between processes in an application, instead of one in each product. With k products each process computes
   p(D^{-1}A) x on its own rows and on those of other processes that k matvecs reach from them: what it cannot compute there, as
   columns are missing, does not come to its own rows within k products.

   Rows and vectors of that part are those of a sequential matrix, so that its products are the ones of a single process.
*/
#include "polyimpl.h"
#include <petscidrs/private/idrsrows.h>
#include <petsc/private/vecimpl.h>

/*
   Microseconds that an exchange takes, what it costs at least where a product hides it, and those of a product and of the set-up
   for each entry of the matrix: processes of one node, by MPI on the host, or through the host beside a GPU. The set-up is to be
   repaid in so many applications
*/
#define PCPOLY_EXCHANGE(gpu) ((gpu) ? 20.0 : 3.0)
#define PCPOLY_VISIBLE(gpu)  ((gpu) ? 5.0 : 1.0)
#define PCPOLY_ENTRY(gpu)    ((gpu) ? 2e-6 : 1e-3)
#define PCPOLY_DEEP_ENTRY    0.05
#define PCPOLY_APPLICATIONS  100

/* Entries of the matrix on this process, and on the process with most of them */
static PetscErrorCode PCPolyEntries(Mat A, PetscReal *here, PetscReal *most)
{
  MatInfo info;

  PetscFunctionBegin;
  PetscCall(MatGetInfo(A, MAT_LOCAL, &info));
  *here = (PetscReal)info.nz_used;
  *most = *here;
  IDRSCallAllreduce(MPI_IN_PLACE, most, 1, MPIU_REAL, MPIU_MAX, PetscObjectComm((PetscObject)A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The rows that k products need, in the order of the matrix, its own ones among them. They are looked for from the columns of the
   block outside the diagonal one, which are few, not from all rows
*/
static PetscErrorCode PCPolyDeepRows(Mat A, PetscInt k, IS *rows)
{
  const PetscInt *garray, *found;
  PetscInt        begin, end, columns, nfound, ghosts = 0, *all;
  Mat             outer;
  IS              near;

  PetscFunctionBegin;
  PetscCall(MatMPIAIJGetSeqAIJ(A, NULL, &outer, &garray));
  PetscCall(MatGetLocalSize(outer, NULL, &columns));
  PetscCall(ISCreateGeneral(PETSC_COMM_SELF, columns, garray, PETSC_COPY_VALUES, &near));
  PetscCall(MatIncreaseOverlap(A, 1, &near, k - 1));
  PetscCall(ISSort(near));
  PetscCall(ISGetLocalSize(near, &nfound));
  PetscCall(ISGetIndices(near, &found));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  PetscCall(PetscMalloc1(nfound + end - begin, &all));
  for (PetscInt l = 0; l < nfound && found[l] < begin; l++) all[ghosts++] = found[l];
  for (PetscInt row = begin; row < end; row++) all[ghosts + row - begin] = row;
  for (PetscInt l = 0; l < nfound; l++) {
    if (found[l] >= end) all[ghosts++ + end - begin] = found[l];
  }
  PetscCall(ISRestoreIndices(near, &found));
  PetscCall(ISDestroy(&near));
  PetscCall(ISCreateGeneral(PETSC_COMM_SELF, ghosts + end - begin, all, PETSC_OWN_POINTER, rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Where the rows of other processes, which cost time in each product, cost less than the exchange does: the rows, else NULL and why
   not. They are looked for only where an exchange is not hidden, and the set-up does not take too long
*/
static PetscErrorCode PCPolyDeepRowsIfFew(Mat A, PetscInt k, IS *rows, const char *why[])
{
  PetscReal here = 0.0, most = 0.0, more, longest;
  PetscBool gpu = PETSC_FALSE;
  PetscInt  n, all;

  PetscFunctionBegin;
  *rows = NULL;
  *why  = NULL;
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATMPIAIJCUSPARSE, &gpu));
  PetscCall(PCPolyEntries(A, &here, &most));
  longest = most * PCPOLY_ENTRY(gpu);
  if (longest > PCPOLY_EXCHANGE(gpu)) *why = "the products are so long that they hide it";
  else if (most * PCPOLY_DEEP_ENTRY > PCPOLY_APPLICATIONS * (PetscReal)(k - 1) * PCPOLY_EXCHANGE(gpu))
    *why = "the set-up of a single one would take more time than it saves in " PetscStringize(PCPOLY_APPLICATIONS) " applications";
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PCPolyDeepRows(A, k, rows));
  PetscCall(MatGetLocalSize(A, &n, NULL));
  PetscCall(ISGetLocalSize(*rows, &all));
  more = n ? here * PCPOLY_ENTRY(gpu) * (PetscReal)(all - n) / (PetscReal)n : 0.0;
  IDRSCallAllreduce(MPI_IN_PLACE, &more, 1, MPIU_REAL, MPIU_MAX, PetscObjectComm((PetscObject)A));
  if (more < PCPOLY_EXCHANGE(gpu) - longest + PCPOLY_VISIBLE(gpu)) PetscFunctionReturn(PETSC_SUCCESS);
  *why = "a single one needs too many rows of other processes";
  PetscCall(ISDestroy(rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Why there cannot be a single exchange for this matrix, or NULL */
static PetscErrorCode PCPolyDeepRuns(PC pc, const char *why[])
{
  PC_Poly  *poly = (PC_Poly *)pc->data;
  PetscBool aij, cusparse, bound = PETSC_FALSE;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)poly->op.A, &aij, MATMPIAIJ, MATMPIAIJCUSPARSE, ""));
  PetscCall(PetscObjectTypeCompare((PetscObject)poly->op.A, MATMPIAIJCUSPARSE, &cusparse));
#if defined(PETSCIDRS_HAVE_CUDA)
  if (cusparse) PetscCall(MatBoundToCPU(poly->op.A, &bound));
#endif
  if (!aij || bound) *why = "the matrix is not of type aij or aijcusparse, or bound to the CPU";
  else if (!poly->op.inverse) *why = "the matrix is not scaled by its diagonal";
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Entries of a row of a sequential matrix, whose columns have these places in the part, to the end of the part's; those of the
   places from low to high - 1
*/
static void PCPolyDeepAppend(const IDRSRows *rows, PetscInt row, const PetscInt places[], PetscInt offset, PetscInt low,
                             PetscInt high, PCPolyDeep *deep, PetscInt *end)
{
  for (PetscInt l = rows->i[row]; l < rows->i[row + 1]; l++) {
    const PetscInt place = places ? places[rows->j[l]] : rows->j[l] + offset;

    if (place < low || place >= high) continue;
    deep->j[*end]     = place;
    deep->a[(*end)++] = rows->a[l];
  }
}

/*
   The part of the matrix on these rows, in the memory of the host: the own rows from the blocks of the matrix, the others from
   their processes
*/
static PetscErrorCode PCPolyDeepAssemble(Mat A, IS rows, PetscInt first, PCPolyDeep *deep)
{
  const PetscInt *garray, *all;
  PetscInt        n, count, columns, end = 0, *places, *ghosts;
  IDRSRows        inner, outer, others;
  Mat             blocks[2], *submatrices;
  IS              is;

  PetscFunctionBegin;
  PetscCall(MatMPIAIJGetSeqAIJ(A, &blocks[0], &blocks[1], &garray));
  PetscCall(MatGetLocalSize(blocks[1], &n, &columns));
  PetscCall(ISGetLocalSize(rows, &count));
  PetscCall(ISGetIndices(rows, &all));
  PetscCall(PetscMalloc2(columns, &places, deep->ghosts, &ghosts));
  for (PetscInt c = 0; c < columns; c++) PetscCall(PetscFindInt(garray[c], count, all, &places[c]));
  for (PetscInt l = 0; l < deep->ghosts; l++) ghosts[l] = all[l < first ? l : l + n];
  PetscCall(ISRestoreIndices(rows, &all));
  PetscCall(ISCreateGeneral(PETSC_COMM_SELF, deep->ghosts, ghosts, PETSC_USE_POINTER, &is));
  PetscCall(MatCreateSubMatrices(A, 1, &is, &rows, MAT_INITIAL_MATRIX, &submatrices));
  PetscCall(IDRSRowsGet(blocks[0], &inner));
  PetscCall(IDRSRowsGet(blocks[1], &outer));
  PetscCall(IDRSRowsGet(submatrices[0], &others));
  PetscCall(PetscMalloc3(count + 1, &deep->i, inner.i[n] + outer.i[n] + others.i[deep->ghosts], &deep->j,
                         inner.i[n] + outer.i[n] + others.i[deep->ghosts], &deep->a));
  deep->i[0] = 0;
  for (PetscInt row = 0; row < count; row++) {
    if (row >= first && row < first + n) {
      PCPolyDeepAppend(&outer, row - first, places, 0, 0, first, deep, &end);
      PCPolyDeepAppend(&inner, row - first, NULL, first, 0, count, deep, &end);
      PCPolyDeepAppend(&outer, row - first, places, 0, first, count, deep, &end);
    } else PCPolyDeepAppend(&others, row < first ? row : row - n, NULL, 0, 0, count, deep, &end);
    deep->i[row + 1] = end;
  }
  PetscCall(IDRSRowsRestore(&inner));
  PetscCall(IDRSRowsRestore(&outer));
  PetscCall(IDRSRowsRestore(&others));
  PetscCall(MatDestroySubMatrices(1, &submatrices));
  PetscCall(ISDestroy(&is));
  PetscCall(PetscFree2(places, ghosts));
  PetscCall(MatCreateSeqAIJWithArrays(PETSC_COMM_SELF, count, count, deep->i, deep->j, deep->a, &deep->op.A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Frees the part of the matrix */
static PetscErrorCode PCPolyDeepFreeMatrix(PCPolyDeep *deep)
{
  PetscFunctionBegin;
  PetscCall(MatDestroy(&deep->op.A));
  PetscCall(PetscFree3(deep->i, deep->j, deep->a));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The part of the operator on these rows, with the scatters to it and from its own rows */
static PetscErrorCode PCPolyDeepCreate(PC pc, IS rows, PetscInt k)
{
  PC_Poly              *poly      = (PC_Poly *)pc->data;
  const PCPolyPrecision precision = poly->op.copy ? poly->op.copy->precision : PC_POLY_PRECISION_DOUBLE;
  PCPolyDeep           *deep;
  PetscInt              begin, end, all, first = 0;
  PetscBool             cusparse;
  const char           *nocopy;
  IS                    own, place;

  PetscFunctionBegin;
  PetscCall(PetscNew(&deep));
  poly->deep  = deep;
  deep->depth = k;
  PetscCall(MatGetOwnershipRange(poly->op.A, &begin, &end));
  PetscCall(ISGetLocalSize(rows, &all));
  PetscCall(ISLocate(rows, begin, &first));
  deep->ghosts = all - (end - begin);
  first        = PetscMax(first, 0); /* without rows of its own */
  PetscCall(PCPolyDeepAssemble(poly->op.A, rows, first, deep));
  PetscCall(PetscObjectTypeCompare((PetscObject)poly->op.A, MATMPIAIJCUSPARSE, &cusparse));
  if (cusparse) PetscCall(MatConvert(deep->op.A, MATSEQAIJCUSPARSE, MAT_INPLACE_MATRIX, &deep->op.A));
  PetscCall(MatCreateVecs(deep->op.A, &deep->x, NULL));
  PetscCall(VecDuplicate(deep->x, &deep->op.w));
  PetscCall(VecDuplicate(deep->x, &deep->op.t));
  PetscCall(VecDuplicate(deep->x, &deep->op.inverse));
  PetscCall(ISCreateStride(PETSC_COMM_SELF, end - begin, begin, 1, &own));
  PetscCall(ISCreateStride(PETSC_COMM_SELF, end - begin, first, 1, &place));
  PetscCall(VecScatterCreate(poly->op.w, rows, deep->x, NULL, &deep->in));
  PetscCall(VecScatterCreate(deep->x, place, poly->op.w, own, &deep->out));
  PetscCall(ISDestroy(&own));
  PetscCall(ISDestroy(&place));
  PetscCall(VecScatterBegin(deep->in, poly->op.inverse, deep->op.inverse, INSERT_VALUES, SCATTER_FORWARD));
  PetscCall(VecScatterEnd(deep->in, poly->op.inverse, deep->op.inverse, INSERT_VALUES, SCATTER_FORWARD));
  PetscCall(
    PCPolyCopyCreate_Private(deep->op.A, deep->x, deep->op.inverse, (PetscBool)!poly->small, precision, &deep->op.copy, &nocopy));
  if (nocopy) PetscCall(PetscInfo(pc, "Products of a process by MatMult(): %s\n", nocopy));
  else PetscCall(PCPolyDeepFreeMatrix(deep));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPolySetUpDeep_Private - Once the polynomial is known: a single exchange in an application, if that is asked for, or pays */
PetscErrorCode PCPolySetUpDeep_Private(PC pc)
{
  PC_Poly       *poly = (PC_Poly *)pc->data;
  const PetscInt k    = poly->p.nfactors;
  PetscMPIInt    size;
  IS             rows = NULL;

  PetscFunctionBegin;
  PetscCall(PCPolyDeepDestroy_Private(&poly->deep));
  poly->nodeep = NULL;
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)pc), &size));
  if (size == 1 || !poly->p.degree) PetscFunctionReturn(PETSC_SUCCESS);
  if (poly->halo == PC_POLY_HALO_EACH) poly->nodeep = "as asked";
  else PetscCall(PCPolyDeepRuns(pc, &poly->nodeep));
  PetscCheck(poly->halo != PC_POLY_HALO_DEEP || !poly->nodeep, PetscObjectComm((PetscObject)pc), PETSC_ERR_SUP,
             "-%spc_poly_halo deep cannot be used here: %s", PCPolyPrefix_Private(pc), poly->nodeep);
  if (!poly->nodeep && k < 2) poly->nodeep = "there are no two products in an application";
  if (!poly->nodeep && poly->halo == PC_POLY_HALO_AUTO && poly->op.copy && poly->op.copy->connected)
    poly->nodeep = "inside the kernels of the product, GPUs write what others need into their memory";
  if (poly->nodeep) PetscFunctionReturn(PETSC_SUCCESS);
  if (poly->halo == PC_POLY_HALO_DEEP) PetscCall(PCPolyDeepRows(poly->op.A, k, &rows));
  else PetscCall(PCPolyDeepRowsIfFew(poly->op.A, k, &rows, &poly->nodeep));
  if (rows) PetscCall(PCPolyDeepCreate(pc, rows, k));
  PetscCall(ISDestroy(&rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode PCPolyDeepDestroy_Private(PCPolyDeep **deep)
{
  PetscFunctionBegin;
  if (*deep) {
    PetscCall(PCPolyOperatorReset_Private(&(*deep)->op));
    PetscCall(PCPolyDeepFreeMatrix(*deep));
    PetscCall(VecDestroy(&(*deep)->x));
    PetscCall(VecScatterDestroy(&(*deep)->in));
    PetscCall(VecScatterDestroy(&(*deep)->out));
  }
  PetscCall(PetscFree(*deep));
  PetscFunctionReturn(PETSC_SUCCESS);
}
