/*
   Persistent kernel: the choice of the memory that a system is in, the number of concurrent solves on the device, and the order of
   rows and matrix entries in shared memory. Computed once for a nonzero pattern and a number of solves
*/
#include "persistentlayout.h"
#include "../../sys/device/cluster.cuh"

/*
   The cases without a polynomial preconditioner; the first one that fits is used. With larger clusters fewer messages go through
   global memory, but the GPU can use fewer multiprocessors. A matrix in global memory is read by all clusters, so clusters of 16
   are not faster there. With more rows per block, or with two or three solves side by side, single steps are as fast
*/
static const struct {
  bool         matrix; /* the matrix and t are in shared memory, or in global memory */
  unsigned int size;   /* blocks per cluster */
  size_t       rows;   /* most rows of a block */
  PetscInt     fewest; /* solves side by side, if there are several */
} IDRSPersistentCases[] = {
  {true,  IDRS_CLUSTER_BLOCKS,     SIZE_MAX, 2},
  {true,  IDRS_CLUSTER_BLOCKS / 2, SIZE_MAX, 2},
  {true,  IDRS_CLUSTER_BLOCKS / 4, SIZE_MAX, 2},
  {false, IDRS_CLUSTER_BLOCKS / 2, 3072,     4},
  {false, IDRS_CLUSTER_BLOCKS / 4, 3072,     4}
};

/* Rows per block that justify one more cluster */
#define IDRS_RESIDENT_ROWS 128

/* Returns the bytes of dynamic shared memory per block, for IDRSClusteredKernel() */
static size_t IDRSClusteredBytes(IDRSWorkspace work, const IDRSClustered *clustered)
{
  const size_t rows = clustered->rows, slots = clustered->matrix ? clustered->slots : 0;
  /* G, U, r, own entries of u, D, t */
  const size_t vectors = 2 * (size_t)work->s + 2 + (work->diagonal ? 1 : 0) + (clustered->matrix ? 1 : 0);

  return (vectors * rows + clustered->others + slots) * sizeof(PetscScalar) + slots * sizeof(uint16_t) +
         ((rows + IDRS_WARP - 1) / IDRS_WARP + 1) * sizeof(uint32_t);
}

/* Sets the pointers into the plan */
static void IDRSClusteredSetPointers(size_t nonzeros, IDRSClustered *clustered)
{
  const size_t blocks = (size_t)clustered->clusters * clustered->size, slices = (clustered->rows + IDRS_WARP - 1) / IDRS_WARP;

  clustered->firstother   = clustered->plan;
  clustered->slice        = clustered->firstother + blocks + 1;
  clustered->places       = clustered->slice + blocks * (slices + 1);
  clustered->rowsofothers = clustered->places + nonzeros;
}

/*
   Finds the rows of other blocks that rows begin to end - 1 need, in ascending order, and for each nonzero the place of its entry
   of u. place: of each row, -1 between two calls
*/
static PetscErrorCode IDRSClusteredPlanColumns(const PetscInt *i, const PetscInt *j, PetscInt begin, PetscInt end, PetscInt *place,
                                               PetscInt *mine, PetscInt *count, uint32_t *places)
{
  PetscInt number = 0;

  PetscFunctionBegin;
  for (PetscInt q = i[begin]; q < i[end]; q++) {
    const PetscInt column = j[q];

    if ((column >= begin && column < end) || place[column] >= 0) continue;
    place[column]  = 0;
    mine[number++] = column;
  }
  PetscCall(PetscSortInt(number, mine));
  for (PetscInt k = 0; k < number; k++) place[mine[k]] = end - begin + k;
  for (PetscInt q = i[begin]; q < i[end]; q++) {
    const PetscInt column = j[q];

    places[q] = (uint32_t)(column >= begin && column < end ? column - begin : place[column]) & 0xffffu;
  }
  for (PetscInt k = 0; k < number; k++) place[mine[k]] = -1;
  *count = number;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Assigns slots to the nonzeros of rows begin to end - 1, slice by slice. Returns the number of slots */
static size_t IDRSClusteredPlanSlots(const PetscInt *i, PetscInt begin, PetscInt end, PetscInt slices, uint32_t *slice,
                                     uint32_t *places)
{
  PetscInt slots = 0;

  for (PetscInt k = 0; k < slices; k++) {
    const PetscInt first = begin + k * IDRS_WARP;
    PetscInt       width = 0;

    slice[k] = (uint32_t)slots;
    for (PetscInt row = first; row < PetscMin(end, first + IDRS_WARP); row++) {
      width = PetscMax(width, i[row + 1] - i[row]);
      for (PetscInt q = i[row]; q < i[row + 1]; q++) places[q] |= (uint32_t)(slots + (q - i[row]) * IDRS_WARP + row - first) << 16;
    }
    slots += width * IDRS_WARP;
  }
  slice[slices] = (uint32_t)slots;
  return (size_t)slots;
}

/* Computes the plan of all blocks, on the host. mine: room for the rows of other blocks that one block needs */
static PetscErrorCode IDRSClusteredPlan(PetscInt n, const PetscInt *i, const PetscInt *j, PetscInt *place, PetscInt *mine,
                                        IDRSClustered *clustered)
{
  const PetscInt rows = (PetscInt)clustered->rows, slices = (rows + IDRS_WARP - 1) / IDRS_WARP;
  size_t         total = 0;

  PetscFunctionBegin;
  for (PetscInt row = 0; row < n; row++) place[row] = -1;
  clustered->slots = 0;
  for (PetscInt block = 0; block < (PetscInt)(clustered->clusters * clustered->size); block++) {
    const PetscInt begin = PetscMin(n, block * rows), end = PetscMin(n, begin + rows);
    PetscInt       count = 0;
    size_t         slots;

    PetscCall(IDRSClusteredPlanColumns(i, j, begin, end, place, mine, &count, clustered->places));
    clustered->firstother[block] = (uint32_t)total;
    for (PetscInt k = 0; k < count; k++) clustered->rowsofothers[total++] = (uint32_t)mine[k];
    clustered->firstother[block + 1] = (uint32_t)total;
    clustered->others                = PetscMax(clustered->others, (size_t)count);
    slots            = IDRSClusteredPlanSlots(i, begin, end, slices, clustered->slice + block * (slices + 1), clustered->places);
    clustered->slots = PetscMax(clustered->slots, slots);
  }
  clustered->slots += (IDRS_PERSISTENT_ATONCE - 1) * IDRS_WARP + 1; /* padding, which lanes load but do not use */
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Places the system in shared memory if it fits in this case, and this many solves fit on the device at the same time */
static PetscErrorCode IDRSClusteredTry(IDRSWorkspace work, const PetscInt *i, const PetscInt *j, PetscInt solves, int which,
                                       IDRSClustered *clustered)
{
  const size_t       n = (size_t)work->n, size = IDRSPersistentCases[which].size, nonzeros = (size_t)i[n];
  IDRSClustered      tried = {};
  PetscInt           most, *place, *mine;
  size_t             shared, blocks, words;
  uint32_t          *onhost;
  PetscErrorCode     ierr;
  PetscDeviceContext dctx;
  cudaStream_t       stream;

  PetscFunctionBegin;
  PetscCall(IDRSClusteredGetClusters_CUDA(work, (unsigned int)size, &most, &shared));
  most /= solves;
  if (!most || (solves > 1 && solves < IDRSPersistentCases[which].fewest)) PetscFunctionReturn(PETSC_SUCCESS);
  tried.size     = (unsigned int)size;
  tried.matrix   = IDRSPersistentCases[which].matrix;
  tried.clusters = (unsigned int)PetscMax(PetscMin((size_t)most, (n + size * IDRS_RESIDENT_ROWS - 1) / (size * IDRS_RESIDENT_ROWS)),
                                          (size_t)1);
  blocks         = tried.clusters * size;
  tried.rows     = PetscMax((n + blocks - 1) / blocks, (size_t)1);
  tried.slots    = nonzeros / blocks; /* at least */
  tried.threads  = (unsigned int)PetscMin((tried.rows + IDRS_WARP - 1) / IDRS_WARP * IDRS_WARP, (size_t)IDRS_CLUSTERED_THREADS);
  if (tried.rows > IDRSPersistentCases[which].rows || IDRSClusteredBytes(work, &tried) > shared) PetscFunctionReturn(PETSC_SUCCESS);
  words = blocks * ((tried.rows + IDRS_WARP - 1) / IDRS_WARP + 2) + 1 + 2 * nonzeros;
  PetscCall(PetscMalloc3(words, &onhost, n, &place, n, &mine));
  tried.plan = onhost;
  IDRSClusteredSetPointers(nonzeros, &tried);
  ierr        = IDRSClusteredPlan(work->n, i, j, place, mine, &tried);
  tried.bytes = IDRSClusteredBytes(work, &tried);
  /* a slot has 16 bits, and so has the place of an entry of u, whose rows fit in shared memory */
  if (!ierr && tried.bytes <= shared && tried.slots <= (size_t)UINT16_MAX + 1) {
    tried.bytes = PetscMax(tried.bytes, shared / 2 + 1); /* at most one block per multiprocessor */
    words -= nonzeros - tried.firstother[blocks];
    PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
    PetscCall(IDRSStream_CUDA(&stream));
    PetscCall(PetscDeviceMalloc(dctx, PETSC_MEMTYPE_CUDA, words, &tried.plan));
    PetscCallCUDA(cudaMemcpyAsync(tried.plan, onhost, words * sizeof(*onhost), cudaMemcpyHostToDevice, stream));
    IDRSClusteredSetPointers(nonzeros, &tried);
    *clustered = tried;
  }
  PetscCall(PetscFree3(onhost, place, mine)); /* also after an error */
  PetscCall(ierr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Chooses the layout of the system for `asked` concurrent solves, or for half as many, and so on. With a polynomial preconditioner
   each row of each solve needs its lanes, otherwise each solve must fit in shared memory. There is a separate layout for one solve
*/
static PetscErrorCode IDRSPersistentChoose(IDRSWorkspace work, const PetscInt *i, const PetscInt *j, const PetscInt *other,
                                           PetscInt asked, IDRSPersistentLayout *layout)
{
  const PetscInt multiprocessors = ((const IDRS_CUDA *)work->data)->multiprocessors;

  PetscFunctionBegin;
  PetscCall(IDRSPersistentLayoutDestroy_CUDA(layout));
  layout->longest = 0;
  for (PetscInt row = 0; row < work->n; row++) layout->longest = PetscMax(layout->longest, i[row + 1] - i[row]);
  for (layout->solves = asked; layout->solves > 1 || asked == 1; layout->solves = (layout->solves + 1) / 2) {
    if (other) {
      const size_t lanes = IDRS_THREADS * (size_t)PetscMax(multiprocessors / layout->solves, 1);
      PetscInt     longest;
      size_t       count, extra;

      count = IDRSCountRowLanes(work->n, i, other, &extra, &longest);
      if (count <= lanes && longest <= IDRS_ROW_LONGEST) {
        PetscCall(IDRSUploadRowLanes(work->n, i, other, count, &layout->lanes.lane));
        layout->lanes.count  = (unsigned int)count;
        layout->lanes.places = (size_t)work->n + extra;
      }
    }
    for (int k = 0; !other && !layout->clustered.clusters && k < (int)PETSC_STATIC_ARRAY_LENGTH(IDRSPersistentCases); k++)
      PetscCall(IDRSClusteredTry(work, i, j, layout->solves, k, &layout->clustered));
    if (asked == 1 || layout->clustered.clusters || layout->lanes.count) break;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSPersistentLayOut_CUDA - Computes the layout of `asked` solves if it has changed, from the nonzero patterns of the operator
   and of the matrix of a polynomial. work belongs to the first of the solves
*/
PetscErrorCode IDRSPersistentLayOut_CUDA(IDRSWorkspace work, PetscInt asked, IDRSPersistentLayout *layout)
{
  PetscObjectId    id[2]      = {0, 0};
  PetscObjectState pattern[2] = {0, 0};
  Mat              mat[2]     = {NULL, work->polynomial ? work->polynomial->powers.A : NULL};
  const PetscInt  *i[2]       = {NULL, NULL}, *j[2];
  PetscInt         n;
  PetscBool        same = PETSC_TRUE, done = PETSC_TRUE;
  PetscErrorCode   ierr;

  PetscFunctionBegin;
  PetscCall(
    IDRSRowsGetBlocks(work->product->A, &mat[0], NULL, NULL)); /* on one process a parallel matrix has only its diagonal block */
  for (int m = 0; m < 2; m++) {
    if (mat[m]) PetscCall(PetscObjectGetId((PetscObject)mat[m], &id[m]));
    if (mat[m]) PetscCall(MatGetNonzeroState(mat[m], &pattern[m]));
    if (id[m] != layout->id[m] || pattern[m] != layout->pattern[m]) same = PETSC_FALSE;
  }
  if (!same || (asked != layout->asked && asked != layout->solves) || layout->diagonal != (work->diagonal != NULL)) {
    layout->id[0] = 0; /* until the layout is complete */
    for (int m = 0; m < 2 && mat[m]; m++) {
      PetscCall(MatGetRowIJ(mat[m], 0, PETSC_FALSE, PETSC_FALSE, &n, &i[m], &j[m], &done));
      PetscCheck(done, PETSC_COMM_SELF, PETSC_ERR_PLIB, "MatGetRowIJ() of a matrix of type %s", ((PetscObject)mat[m])->type_name);
    }
    ierr = IDRSPersistentChoose(work, i[0], j[0], i[1], asked, layout);
    for (int m = 0; m < 2 && mat[m]; m++) PetscCall(MatRestoreRowIJ(mat[m], 0, PETSC_FALSE, PETSC_FALSE, &n, &i[m], &j[m], &done));
    PetscCall(ierr);
    PetscCall(PetscInfo(mat[0], "Persistent kernel: %" PetscInt_FMT " of %" PetscInt_FMT " solves, %u clusters of %u blocks\n",
                        layout->solves, asked, layout->clustered.clusters, layout->clustered.size));
    PetscCall(PetscArraycpy(layout->id, id, 2));
    PetscCall(PetscArraycpy(layout->pattern, pattern, 2));
    layout->asked    = asked;
    layout->diagonal = work->diagonal != NULL;
  }
  if (work->polynomial) work->persistent = "vectors and matrix are in global memory, and PCPOLY is applied inside the kernel";
  else if (layout->clustered.matrix) work->persistent = "vectors and matrix are in shared memory";
  else work->persistent = "vectors are in shared memory, the matrix is in global memory";
  PetscFunctionReturn(PETSC_SUCCESS);
}

PetscErrorCode IDRSPersistentLayoutDestroy_CUDA(IDRSPersistentLayout *layout)
{
  PetscDeviceContext dctx;

  PetscFunctionBegin;
  PetscCall(PetscDeviceContextGetCurrentContext(&dctx));
  PetscCall(PetscDeviceFree(dctx, layout->clustered.plan));
  PetscCall(PetscDeviceFree(dctx, layout->lanes.lane));
  layout->clustered = {};
  layout->lanes     = {};
  PetscFunctionReturn(PETSC_SUCCESS);
}
