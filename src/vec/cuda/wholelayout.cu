/*
   How a system is distributed among the blocks of kernels of many steps: what is known of its rows, how many solves fit on the
   device side by side, and whether each of them is in shared memory. It is found out once for a nonzero pattern and a number of
   solves
*/
#include "wholelayout.h"

/*
   Entries of its row that a lane takes, twice as many as there are in the mean; and how often the lanes of a warp ask for entries
   of u, at most, where all of them share the rest of a row, as in IDRSRowSumShared()
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

/* What is known of the rows of the polynomial's matrix */
static PetscErrorCode IDRSWholeLayOutPolynomial(IDRSWork work, IDRSWholeLayout *layout)
{
  Mat              A = work->polynomial->powers.A;
  PetscObjectId    id;
  PetscObjectState pattern;
  const PetscInt  *i, *j;
  PetscInt         n;
  PetscBool        done;

  PetscFunctionBegin;
  PetscCall(PetscObjectGetId((PetscObject)A, &id));
  PetscCall(MatGetNonzeroState(A, &pattern));
  if (id == layout->polyid && pattern == layout->polypattern) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(MatGetRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  PetscCheck(done, PETSC_COMM_SELF, PETSC_ERR_PLIB, "MatGetRowIJ() of a matrix of type %s", ((PetscObject)A)->type_name);
  layout->polynonzeros = i[n];
  IDRSWholeShareRows(n, i, &layout->polyown, &layout->polyturns);
  PetscCall(MatRestoreRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
  layout->polyid      = id;
  layout->polypattern = pattern;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Finds how many solves fit on the device side by side: `asked` of them, or half as many, and so on. With a polynomial
   preconditioner each row of each solve needs a thread; otherwise each solve must fit into shared memory. A single solve fits in
   any case, because its rows can be in global memory
*/
static PetscErrorCode IDRSWholePlace(IDRSWork work, const PetscInt *i, const PetscInt *j, PetscInt asked, IDRSWholeLayout *layout)
{
  const IDRS_CUDA *cuda = (const IDRS_CUDA *)work->data;

  PetscFunctionBegin;
  layout->solves = asked;
  if (work->polynomial) {
    PetscCall(IDRSClusteredDestroy_CUDA(&layout->clustered));
    while (layout->solves > 1 && layout->solves * IDRSWholeBlocks(work) > cuda->multiprocessors)
      layout->solves = (layout->solves + 1) / 2;
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  for (;;) {
    PetscCall(IDRSClusteredSetUp_CUDA(work, i, j, layout->own, layout->solves, &layout->clustered));
    if (layout->clustered.clusters || layout->solves == 1) break;
    layout->solves = (layout->solves + 1) / 2;
    if (layout->solves == 1) break; /* there is another layout for that */
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* What is not in shared memory */
static const char *const IDRSWholeButFor[] = {" but for a panel and the matrix", " but for the matrix", "", ""};

static PetscErrorCode IDRSWholeLayoutInfo(IDRSWork work, Mat A, const IDRSWholeLayout *layout)
{
  const IDRSClustered *clustered = &layout->clustered;

  PetscFunctionBegin;
  if (layout->asked > 1)
    PetscCall(PetscInfo(A, "Steps in one kernel: %" PetscInt_FMT " of %" PetscInt_FMT " solves fit on the GPU side by side\n",
                        layout->solves, layout->asked));
  if (layout->asked > 1 && layout->solves == 1) PetscFunctionReturn(PETSC_SUCCESS);
  if (work->polynomial)
    PetscCall(PetscInfo(A, "Steps in one kernel, with a polynomial preconditioner: the system is in global memory\n"));
  else if (clustered->clusters)
    PetscCall(PetscInfo(A, "Steps in one kernel: the system is in shared memory%s, in %u clusters of %u blocks of %zu rows\n",
                        IDRSWholeButFor[clustered->layout], clustered->clusters, clustered->size, clustered->rows));
  else PetscCall(PetscInfo(A, "Steps in one kernel: the system does not fit into shared memory, or the GPU has no clusters\n"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the layout of the operator's block on this process, unless it is known */
static PetscErrorCode IDRSWholeLayOutMat(IDRSWork work, Mat A, PetscInt asked, IDRSWholeLayout *layout)
{
  PetscObjectId    id;
  PetscObjectState pattern;
  const PetscInt  *i, *j;
  PetscInt         n;
  PetscBool        done;
  PetscErrorCode   ierr;

  PetscFunctionBegin;
  PetscCall(PetscObjectGetId((PetscObject)A, &id));
  PetscCall(MatGetNonzeroState(A, &pattern));
  if (id != layout->id || pattern != layout->pattern || (asked != layout->asked && asked != layout->solves) ||
      layout->diagonal != (work->diagonal != NULL) || layout->polynomial != (work->polynomial != NULL)) {
    layout->id = 0; /* until all is known of it */
    PetscCall(MatGetRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
    PetscCheck(done, PETSC_COMM_SELF, PETSC_ERR_PLIB, "MatGetRowIJ() of a matrix of type %s", ((PetscObject)A)->type_name);
    layout->nonzeros = i[n];
    IDRSWholeShareRows(n, i, &layout->own, &layout->turns);
    ierr = IDRSWholePlace(work, i, j, asked, layout);
    PetscCall(MatRestoreRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &i, &j, &done));
    PetscCall(ierr);
    layout->asked = asked;
    PetscCall(IDRSWholeLayoutInfo(work, A, layout));
    layout->id         = id;
    layout->pattern    = pattern;
    layout->diagonal   = work->diagonal != NULL;
    layout->polynomial = work->polynomial != NULL;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Where vectors and matrix are, for -ksp_view */
static const char *IDRSWholeWhere(IDRSWork work, const IDRSClustered *clustered)
{
  if (work->polynomial) return "vectors and matrix are in global memory, and PCPOLY is applied inside the kernel";
  if (!clustered->clusters) return "vectors and matrix are in global memory";
  if (clustered->layout == IDRS_PANEL_GLOBAL)
    return "one panel and the matrix are in global memory, the other vectors in shared memory";
  if (clustered->layout == IDRS_MATRIX_GLOBAL) return "vectors are in shared memory, the matrix is in global memory";
  return "vectors and matrix are in shared memory";
}

/* IDRSWholeLayOut_CUDA - Computes the layout of `asked` solves, unless it is known. work belongs to the first of them */
PetscErrorCode IDRSWholeLayOut_CUDA(IDRSWork work, PetscInt asked, IDRSWholeLayout *layout)
{
  Mat block = NULL;

  PetscFunctionBegin;
  PetscCall(IDRSGetBlocks(work->product->A, &block, NULL)); /* a matrix of a parallel type on one process has nothing outside */
  PetscCall(IDRSWholeLayOutMat(work, block, asked, layout));
  if (work->polynomial) PetscCall(IDRSWholeLayOutPolynomial(work, layout));
  work->whole = IDRSWholeWhere(work, &layout->clustered);
  PetscFunctionReturn(PETSC_SUCCESS);
}
