/*
   Distribution of a system among the blocks of kernels of many steps: properties of its rows, the number of concurrent solves on
   the device, and whether each of them is in shared memory. Computed once for a nonzero pattern and a number of solves
*/
#include "wholelayout.h"

/*
   Computes the entries of a row that its own lane adds, about twice the average; and the largest number of batches of entries of u
   that the lanes of a warp load, where all lanes share the rest of a long row, as in IDRSRowSumShared()
*/
static void IDRSWholeShareRows(PetscInt n, const PetscInt *i, PetscInt *own, PetscInt *turns)
{
  *own   = n ? IDRS_WHOLE_ATONCE * (1 + 2 * (i[n] / n) / IDRS_WHOLE_ATONCE) : 0;
  *turns = 0;
  for (PetscInt warp = 0; warp < n; warp += IDRS_WARP) {
    PetscInt first = 0, rest = 0;

    for (PetscInt row = warp; row < PetscMin(n, warp + IDRS_WARP); row++) {
      const PetscInt length = i[row + 1] - i[row];

      first = PetscMax(first, PetscMin(length, *own));
      if (length > *own) rest += (length - *own - 1) / (IDRS_WHOLE_ATONCE * IDRS_WARP) + 1;
    }
    *turns = PetscMax(*turns, (first + IDRS_WHOLE_ATONCE - 1) / IDRS_WHOLE_ATONCE + rest);
  }
}

/*
   Finds how many solves can run concurrently on the device: `asked` of them, or half as many, and so on. With a polynomial
   preconditioner each row of each solve needs a thread; otherwise each solve must fit in shared memory. A single solve always fits,
   because its rows can be in global memory; but with a polynomial it may not fit, and lanes.count is then 0
*/
static PetscErrorCode IDRSWholePlace(IDRSWork work, const PetscInt *i, const PetscInt *j, const PetscInt *other, PetscInt asked,
                                     IDRSWholeLayout *layout)
{
  const PetscInt multiprocessors = ((const IDRS_CUDA *)work->data)->multiprocessors;

  PetscFunctionBegin;
  PetscCall(IDRSClusteredDestroy_CUDA(&layout->clustered));
  PetscCall(IDRSWholeLanesDestroy_CUDA(&layout->lanes));
  for (layout->solves = asked;; layout->solves = (layout->solves + 1) / 2) {
    if (asked > 1 && layout->solves == 1) break; /* there is a separate layout for one solve */
    if (other)
      PetscCall(IDRSWholeLanesSetUp_CUDA(work->n, i, other, PetscMax(multiprocessors / layout->solves, 1), &layout->lanes));
    else PetscCall(IDRSClusteredSetUp_CUDA(work, i, j, layout->own, layout->solves, &layout->clustered));
    if (layout->solves == 1 || layout->clustered.clusters || layout->lanes.count) break;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Parts that are not in shared memory */
static const char *const IDRSWholeButFor[] = {" except for a panel and the matrix", " except for the matrix", "", ""};

static PetscErrorCode IDRSWholeLayoutInfo(IDRSWork work, Mat A, const IDRSWholeLayout *layout)
{
  const IDRSClustered *clustered = &layout->clustered;

  PetscFunctionBegin;
  if (layout->asked > 1)
    PetscCall(PetscInfo(A, "Steps in one kernel: %" PetscInt_FMT " of %" PetscInt_FMT " solves can run concurrently on the GPU\n",
                        layout->solves, layout->asked));
  if (layout->asked > 1 && layout->solves == 1) PetscFunctionReturn(PETSC_SUCCESS);
  if (work->polynomial)
    PetscCall(PetscInfo(A, "Steps in one kernel, with a polynomial preconditioner: %u lanes have the rows\n", layout->lanes.count));
  else if (clustered->clusters)
    PetscCall(PetscInfo(A, "Steps in one kernel: the system is in shared memory%s, in %u clusters of %u blocks of %zu rows\n",
                        IDRSWholeButFor[clustered->layout], clustered->clusters, clustered->size, clustered->rows));
  else PetscCall(PetscInfo(A, "Steps in one kernel: the system does not fit into shared memory, or the GPU has no clusters\n"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the layout from the nonzero patterns of the operator and the matrix of a polynomial, which may be NULL */
static PetscErrorCode IDRSWholeLayOutMats(IDRSWork work, Mat A, Mat B, PetscInt asked, IDRSWholeLayout *layout)
{
  const PetscInt *i, *j, *other = NULL, *otherj;
  PetscInt        n;
  PetscBool       done = PETSC_TRUE;
  PetscErrorCode  ierr;

  PetscFunctionBegin;
  PetscCall(MatGetRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  PetscCheck(done, PETSC_COMM_SELF, PETSC_ERR_PLIB, "MatGetRowIJ() of a matrix of type %s", ((PetscObject)A)->type_name);
  if (B) PetscCall(MatGetRowIJ(B, 0, PETSC_FALSE, PETSC_FALSE, &n, &other, &otherj, &done));
  PetscCheck(done, PETSC_COMM_SELF, PETSC_ERR_PLIB, "MatGetRowIJ() of a matrix of type %s", ((PetscObject)B)->type_name);
  layout->nonzeros = i[n];
  IDRSWholeShareRows(n, i, &layout->own, &layout->turns);
  ierr = IDRSWholePlace(work, i, j, other, asked, layout);
  PetscCall(MatRestoreRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  if (B) PetscCall(MatRestoreRowIJ(B, 0, PETSC_FALSE, PETSC_FALSE, &n, &other, &otherj, &done));
  PetscCall(ierr);
  layout->asked = asked;
  PetscCall(IDRSWholeLayoutInfo(work, A, layout));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the memory that vectors and matrix are in, for -ksp_view */
static const char *IDRSWholeWhere(IDRSWork work, const IDRSClustered *clustered)
{
  if (work->polynomial) return "vectors and matrix are in global memory, and PCPOLY is applied inside the kernel";
  if (!clustered->clusters) return "vectors and matrix are in global memory";
  if (clustered->layout == IDRS_PANEL_GLOBAL)
    return "one panel and the matrix are in global memory, the other vectors in shared memory";
  if (clustered->layout == IDRS_MATRIX_GLOBAL) return "vectors are in shared memory, the matrix is in global memory";
  return "vectors and matrix are in shared memory";
}

/* IDRSWholeLayOut_CUDA - Computes the layout of `asked` solves if it has changed. work belongs to the first of them */
PetscErrorCode IDRSWholeLayOut_CUDA(IDRSWork work, PetscInt asked, IDRSWholeLayout *layout)
{
  PetscObjectId    id[2]      = {0, 0};
  PetscObjectState pattern[2] = {0, 0};
  Mat              mat[2]     = {NULL, work->polynomial ? work->polynomial->powers.A : NULL};

  PetscFunctionBegin;
  PetscCall(IDRSRowsGetBlocks(work->product->A, &mat[0], NULL, NULL)); /* a parallel matrix on one process has no other block */
  for (int m = 0; m < 2 && mat[m]; m++) {
    PetscCall(PetscObjectGetId((PetscObject)mat[m], &id[m]));
    PetscCall(MatGetNonzeroState(mat[m], &pattern[m]));
  }
  if (id[0] != layout->id[0] || id[1] != layout->id[1] || pattern[0] != layout->pattern[0] || pattern[1] != layout->pattern[1] ||
      (asked != layout->asked && asked != layout->solves) || layout->diagonal != (work->diagonal != NULL)) {
    layout->id[0] = 0; /* until the layout is complete */
    PetscCall(IDRSWholeLayOutMats(work, mat[0], mat[1], asked, layout));
    PetscCall(PetscArraycpy(layout->id, id, 2));
    PetscCall(PetscArraycpy(layout->pattern, pattern, 2));
    layout->diagonal = work->diagonal != NULL;
  }
  work->whole = IDRSWholeWhere(work, &layout->clustered);
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSWholeLayoutDestroy_CUDA(IDRSWholeLayout *layout)
{
  PetscFunctionBegin;
  PetscCall(IDRSClusteredDestroy_CUDA(&layout->clustered));
  PetscCall(IDRSWholeLanesDestroy_CUDA(&layout->lanes));
  PetscFunctionReturn(PETSC_SUCCESS);
}
