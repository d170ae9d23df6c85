static char help[] = "PetscSF of type nccl against type basic: graphs, units, operations, places of the arrays, vectors, grids\n\
and products.\n\
  -inner n  entries of a process and of a graph, about (default 40)\n\n";

#include <petscsf.h>
#include <petscdmda.h>
#include <petscksp.h>
#include "harness.h"

#define UNITS 2 /* scatters at the same time */

typedef enum {
  GRAPH_HALO,    /* a block to each neighbour, with consecutive roots and leaves */
  GRAPH_ONE,     /* each root has one leaf at most, in any order, also on the same process */
  GRAPH_MANY,    /* roots have any number of leaves */
  GRAPH_CENTRAL, /* all leaves on the roots of process 0 */
  GRAPH_EMPTY,
  GRAPHS
} Graph;
static const char *const graphs[] = {"halo", "one", "many", "central", "empty"};

/* Memory of the arrays of a process */
typedef enum {
  PLACE_OPTIONS, /* memory of -vec_type */
  PLACE_HOST,    /* host memory on the last process */
  PLACES
} Place;

/* Returns an integer below n, the same on all processes */
static PetscInt Some(PetscInt i, PetscInt n)
{
  return n ? (PetscInt)(((PetscInt64)i * 7919 + 104729) % 1000003 % n) : 0;
}

/* Returns sizes that differ between processes; process 1 has none */
static PetscInt LocalSize(PetscMPIInt rank, PetscInt n)
{
  return rank == 1 ? 0 : n + 3 * rank;
}

static PetscErrorCode GraphSet(PetscSF sf, Graph graph, PetscInt n, PetscInt *nroots, PetscInt *nleaves)
{
  PetscMPIInt  rank, size;
  PetscInt     nl = 0, nspace;
  PetscInt    *mine;
  PetscSFNode *remote;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &size));
  *nroots  = graph == GRAPH_EMPTY ? 0 : graph == GRAPH_HALO ? n : LocalSize(rank, n);
  *nleaves = nspace = 2 * n + 6 * size;
  PetscCall(PetscMalloc1(nspace, &mine));
  PetscCall(PetscMalloc1(nspace, &remote));
  switch (graph) {
  case GRAPH_HALO:
    for (PetscMPIInt side = -1; side <= 1; side += 2) {
      const PetscMPIInt other = rank + side;

      for (PetscInt i = 0; i < n / 4 && other >= 0 && other < size; i++) {
        mine[nl]           = nl;
        remote[nl].rank    = other;
        remote[nl++].index = side < 0 ? n - n / 4 + i : i;
      }
    }
    break;
  case GRAPH_ONE: /* process (5 root + 2) modulo size has the leaf of a root, counted over all processes */
    for (PetscInt other = 0, root = 0; other < size; other++) {
      for (PetscInt i = 0; i < LocalSize((PetscMPIInt)other, n); i++, root++) {
        if ((root * 5 + 2) % size != rank || nl == nspace) continue;
        mine[nl]           = nl;
        remote[nl].rank    = other;
        remote[nl++].index = i;
      }
    }
    for (PetscInt i = 0; i < nl; i++) { /* leaves in another order than their roots, with gaps */
      mine[i] = nspace - 1 - ((i * 2) % nl + (nl % 2 ? 0 : (i * 2) / nl));
    }
    break;
  case GRAPH_MANY:
  case GRAPH_CENTRAL:
    for (PetscInt i = 0; i < (rank == 2 ? 0 : nspace - 5); i++) {
      const PetscMPIInt other = graph == GRAPH_CENTRAL ? 0 : (PetscMPIInt)Some(i + rank, size);

      if (!LocalSize(other, n)) continue;
      mine[nl]           = i;
      remote[nl].rank    = other;
      remote[nl++].index = Some(3 * i + rank, LocalSize(other, n));
    }
    break;
  default:
    break;
  }
  PetscCall(PetscSFSetGraph(sf, *nroots, nl, mine, PETSC_COPY_VALUES, remote, PETSC_COPY_VALUES));
  PetscCall(PetscFree(mine));
  PetscCall(PetscFree(remote));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Creates a vector of this process in the requested memory; its entries are whole numbers, so that the order of sums does not
   matter
*/
static PetscErrorCode ArrayCreate(PetscInt n, PetscInt start, Place place, Vec *x)
{
  PetscMPIInt  rank, size;
  PetscScalar *array;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &size));
  PetscCall(VecCreate(PETSC_COMM_SELF, x));
  PetscCall(VecSetSizes(*x, n, n));
  PetscCall(VecSetFromOptions(*x));
  if (place == PLACE_HOST && rank == size - 1) PetscCall(VecBindToCPU(*x, PETSC_TRUE));
  PetscCall(VecGetArrayWrite(*x, &array));
  for (PetscInt i = 0; i < n; i++) array[i] = (PetscReal)Some(start + 1000 * rank + i, 4001) - (PetscReal)2000;
  PetscCall(VecRestoreArrayWrite(*x, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

typedef struct {
  Vec                roots, leaves;
  const PetscScalar *from;
  PetscScalar       *to;
} Under;

static PetscErrorCode Begin(PetscSF sf, MPI_Datatype unit, MPI_Op op, PetscBool reverse, Under *under)
{
  PetscMemType from, to;

  PetscFunctionBeginUser;
  PetscCall(VecGetArrayReadAndMemType(reverse ? under->leaves : under->roots, &under->from, &from));
  PetscCall(VecGetArrayAndMemType(reverse ? under->roots : under->leaves, &under->to, &to));
  if (reverse) PetscCall(PetscSFReduceWithMemTypeBegin(sf, unit, from, under->from, to, under->to, op));
  else PetscCall(PetscSFBcastWithMemTypeBegin(sf, unit, from, under->from, to, under->to, op));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode End(PetscSF sf, MPI_Datatype unit, MPI_Op op, PetscBool reverse, Under *under)
{
  PetscFunctionBeginUser;
  if (reverse) PetscCall(PetscSFReduceEnd(sf, unit, under->from, under->to, op));
  else PetscCall(PetscSFBcastEnd(sf, unit, under->from, under->to, op));
  PetscCall(VecRestoreArrayAndMemType(reverse ? under->roots : under->leaves, &under->to));
  PetscCall(VecRestoreArrayReadAndMemType(reverse ? under->leaves : under->roots, &under->from));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Makes two scatters at the same time and ends the second one first, three times with the same arrays; result is a weighted sum of
   the results
*/
static PetscErrorCode Scatters(PetscSF sf, PetscInt nroots, PetscInt nleaves, PetscInt bs, Place place, MPI_Op op,
                               PetscBool reverse, Vec *result)
{
  MPI_Datatype unit = MPIU_SCALAR;
  Under        under[UNITS];

  PetscFunctionBeginUser;
  if (bs > 1) {
    PetscCallMPI(MPI_Type_contiguous((PetscMPIInt)bs, MPIU_SCALAR, &unit));
    PetscCallMPI(MPI_Type_commit(&unit));
  }
  for (PetscInt u = 0; u < UNITS; u++) {
    PetscCall(ArrayCreate(nroots * bs, 17 * u, place, &under[u].roots));
    PetscCall(ArrayCreate(nleaves * bs, 29 * u + 500, place, &under[u].leaves));
  }
  for (PetscInt repeat = 0; repeat < 3; repeat++) {
    for (PetscInt u = 0; u < UNITS; u++) PetscCall(Begin(sf, unit, op, reverse, &under[u]));
    for (PetscInt u = UNITS; u-- > 0;) PetscCall(End(sf, unit, op, reverse, &under[u]));
    for (PetscInt u = 0; u < UNITS; u++) PetscCall(VecShift(reverse ? under[u].leaves : under[u].roots, 3.0));
  }
  *result = reverse ? under[0].roots : under[0].leaves;
  PetscCall(PetscObjectReference((PetscObject)*result));
  PetscCall(VecAXPY(*result, 8192.0, reverse ? under[1].roots : under[1].leaves));
  for (PetscInt u = 0; u < UNITS; u++) PetscCall(DestroyAll(&under[u].roots, &under[u].leaves));
  if (bs > 1) PetscCallMPI(MPI_Type_free(&unit));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the largest difference between two vectors, on all processes */
static PetscErrorCode Difference(Vec x, Vec y, PetscReal *difference)
{
  const PetscScalar *a, *b;
  PetscInt           n;

  PetscFunctionBeginUser;
  *difference = 0.0;
  PetscCall(VecGetLocalSize(x, &n));
  PetscCall(VecGetArrayRead(x, &a));
  PetscCall(VecGetArrayRead(y, &b));
  for (PetscInt i = 0; i < n; i++)
    *difference = PetscMax(*difference, PetscIsNanScalar(a[i] - b[i]) ? PETSC_MAX_REAL : PetscAbsScalar(a[i] - b[i]));
  PetscCall(VecRestoreArrayRead(x, &a));
  PetscCall(VecRestoreArrayRead(y, &b));
  IDRSCallAllreduce(MPI_IN_PLACE, difference, 1, MPIU_REAL, MPIU_MAX, PETSC_COMM_WORLD);
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestGraphs(PetscInt n)
{
  static const PetscInt sizes[] = {1, 3};

  PetscFunctionBeginUser;
  for (PetscInt place = 0; place < PLACES; place++) {
    PetscSF sf[2]; /* each has all graphs one after another */

    for (PetscInt t = 0; t < 2; t++) {
      PetscCall(PetscSFCreate(PETSC_COMM_WORLD, &sf[t]));
      PetscCall(PetscSFSetType(sf[t], t ? "nccl" : PETSCSFBASIC));
    }
    for (PetscInt graph = 0; graph < GRAPHS; graph++) {
      PetscInt nroots, nleaves;

      for (PetscInt t = 0; t < 2; t++) {
        PetscCall(PetscSFReset(sf[t]));
        PetscCall(GraphSet(sf[t], (Graph)graph, n, &nroots, &nleaves));
        if (place != PLACE_HOST) continue;
        PetscCall(PetscSFSetUp(sf[t])); /* then the type is set again, as PetscSFSetFromOptions() does with -sf_type */
        PetscCall(PetscSFSetType(sf[t], t ? "nccl" : PETSCSFBASIC));
      }
      for (PetscInt c = 0; c < 2 * 2 * 3; c++) {
        const PetscInt  bs      = sizes[c % 2];
        const PetscBool reverse = c / 2 % 2 ? PETSC_TRUE : PETSC_FALSE;
        const MPI_Op    ops[]   = {MPI_REPLACE, MPIU_SUM, PetscDefined(USE_COMPLEX) ? MPIU_SUM : MPIU_MAX};
        Vec             result[2];
        PetscReal       difference;

        /* if a root has several leaves, it is undefined from which leaf it receives */
        if (reverse && c / 4 == 0 && (graph == GRAPH_MANY || graph == GRAPH_CENTRAL)) continue;
        for (PetscInt t = 0; t < 2; t++)
          PetscCall(Scatters(sf[t], nroots, nleaves, bs, (Place)place, ops[c / 4], reverse, &result[t]));
        PetscCall(Difference(result[0], result[1], &difference));
        PetscCall(ComplainIf(!(difference == 0.0),
                             "graph %s, units of %" INT ", %s, operation %" INT ", place %" INT ": differs by %g", graphs[graph],
                             bs, reverse ? "reverse" : "forward", c / 4, place, (double)difference));
        for (PetscInt t = 0; t < 2; t++) PetscCall(VecDestroy(&result[t]));
      }
    }
    for (PetscInt t = 0; t < 2; t++) PetscCall(PetscSFDestroy(&sf[t]));
  }
  PetscCall(Verdict("graphs"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A scatter begins and does not end, as after an error between the two calls; a scatter that began before it ends. Then the same
   arrays have other entries, and a scatter ends. Type basic, which has an error of its own for this, makes only the last scatter
*/
static PetscErrorCode TestLeft(PetscInt n)
{
  PetscMemType       memtype;
  PetscMPIInt        size, device;
  const PetscScalar *array;
  Vec                result[2];
  PetscReal          difference;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  for (PetscInt t = 0; t < 2; t++) {
    PetscSF  sf;
    PetscInt nroots, nleaves;
    Under    under[UNITS];

    PetscCall(PetscSFCreate(PETSC_COMM_WORLD, &sf));
    PetscCall(PetscSFSetType(sf, t ? "nccl" : PETSCSFBASIC));
    PetscCall(GraphSet(sf, GRAPH_MANY, n, &nroots, &nleaves));
    for (PetscInt u = 0; u < UNITS; u++) {
      PetscCall(ArrayCreate(nroots, 17 * u, PLACE_OPTIONS, &under[u].roots));
      PetscCall(ArrayCreate(nleaves, 29 * u + 500, PLACE_OPTIONS, &under[u].leaves));
    }
    PetscCall(VecGetArrayReadAndMemType(under[1].leaves, &array, &memtype));
    PetscCall(VecRestoreArrayReadAndMemType(under[1].leaves, &array));
    device = PetscMemTypeDevice(memtype) ? 1 : 0;
    IDRSCallAllreduce(MPI_IN_PLACE, &device, 1, MPI_INT, MPI_MIN, PETSC_COMM_WORLD);
    if (t && device && size > 1) {
      for (PetscInt u = 0; u < UNITS; u++) PetscCall(Begin(sf, MPIU_SCALAR, MPIU_SUM, PETSC_FALSE, &under[u]));
      PetscCall(End(sf, MPIU_SCALAR, MPIU_SUM, PETSC_FALSE, &under[0]));
      PetscCall(VecRestoreArrayAndMemType(under[1].leaves, &under[1].to));
      PetscCall(VecRestoreArrayReadAndMemType(under[1].roots, &under[1].from));
    }
    PetscCall(VecShift(under[1].roots, 3.0));
    PetscCall(Begin(sf, MPIU_SCALAR, MPIU_SUM, PETSC_FALSE, &under[1]));
    PetscCall(End(sf, MPIU_SCALAR, MPIU_SUM, PETSC_FALSE, &under[1]));
    result[t] = under[1].leaves;
    PetscCall(PetscObjectReference((PetscObject)result[t]));
    for (PetscInt u = 0; u < UNITS; u++) PetscCall(DestroyAll(&under[u].roots, &under[u].leaves));
    PetscCall(PetscSFDestroy(&sf));
  }
  PetscCall(Difference(result[0], result[1], &difference));
  PetscCall(ComplainIf(!(difference == 0.0), "differs by %g", (double)difference));
  for (PetscInt t = 0; t < 2; t++) PetscCall(VecDestroy(&result[t]));
  PetscCall(Verdict("after a scatter that did not end"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The first scatters have arrays on the host. The next scatters have arrays in the memory of -vec_type, and send from there */
static PetscErrorCode TestMoved(PetscInt n)
{
  PetscMPIInt size, device[2];
  PetscInt    nroots, nleaves, lines;
  PetscReal   difference;
  PetscSF     sf[2];

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  for (PetscInt t = 0; t < 2; t++) {
    PetscCall(PetscSFCreate(PETSC_COMM_WORLD, &sf[t]));
    PetscCall(PetscSFSetType(sf[t], t ? "nccl" : PETSCSFBASIC));
    PetscCall(GraphSet(sf[t], GRAPH_MANY, n, &nroots, &nleaves));
  }
  for (PetscInt moved = 0; moved < 2; moved++) {
    for (PetscInt repeat = 0; repeat < 3; repeat++) {
      Under under[2];

      for (PetscInt t = 0; t < 2; t++) {
        const PetscScalar *array;
        PetscMemType       memtype;

        PetscCall(ArrayCreate(nroots, 17 * repeat, PLACE_OPTIONS, &under[t].roots));
        PetscCall(ArrayCreate(nleaves, 500, PLACE_OPTIONS, &under[t].leaves));
        PetscCall(VecBindToCPU(under[t].roots, (PetscBool)!moved));
        PetscCall(VecBindToCPU(under[t].leaves, (PetscBool)!moved));
        PetscCall(VecGetArrayReadAndMemType(under[t].leaves, &array, &memtype));
        PetscCall(VecRestoreArrayReadAndMemType(under[t].leaves, &array));
        device[moved] = PetscMemTypeDevice(memtype) ? 1 : 0;
        PetscCall(Begin(sf[t], MPIU_SCALAR, MPIU_SUM, PETSC_FALSE, &under[t]));
        PetscCall(End(sf[t], MPIU_SCALAR, MPIU_SUM, PETSC_FALSE, &under[t]));
      }
      PetscCall(Difference(under[0].leaves, under[1].leaves, &difference));
      PetscCall(ComplainIf(!(difference == 0.0), "scatter %" INT " of arrays %s: differs by %g", repeat,
                           moved ? "that have moved" : "on the host", (double)difference));
      for (PetscInt t = 0; t < 2; t++) PetscCall(DestroyAll(&under[t].roots, &under[t].leaves));
    }
    IDRSCallAllreduce(MPI_IN_PLACE, &device[moved], 1, MPI_INT, MPI_MAX, PETSC_COMM_WORLD);
    PetscCall(ViewNumbers((PetscObject)sf[1], "from GPU to GPU", 0, NULL, &lines));
    PetscCall(ComplainIf(lines != (device[moved] && size > 1 ? 1 : 0), "%" INT " lines of the view after arrays %s", lines,
                         moved ? "have moved" : "on the host"));
  }
  for (PetscInt t = 0; t < 2; t++) PetscCall(PetscSFDestroy(&sf[t]));
  PetscCall(Verdict("arrays that move"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Operations of type basic: integers, fetch-and-add */
static PetscErrorCode TestOthers(PetscInt n)
{
  PetscSF         sf;
  PetscInt        nroots, nleaves, *roots, *leaves, *updated, total = 0, sum = 0;
  const PetscInt *degree, *mine;

  PetscFunctionBeginUser;
  PetscCall(PetscSFCreate(PETSC_COMM_WORLD, &sf));
  PetscCall(PetscSFSetType(sf, "nccl"));
  PetscCall(GraphSet(sf, GRAPH_MANY, n, &nroots, &nleaves));
  PetscCall(PetscSFComputeDegreeBegin(sf, &degree));
  PetscCall(PetscSFComputeDegreeEnd(sf, &degree));
  PetscCall(PetscCalloc3(nroots, &roots, nleaves, &leaves, nleaves, &updated));
  PetscCall(PetscSFGetGraph(sf, NULL, &nleaves, &mine, NULL));
  for (PetscInt i = 0; i < nleaves; i++) leaves[mine ? mine[i] : i] = 1;
  PetscCall(PetscSFFetchAndOpBegin(sf, MPIU_INT, roots, leaves, updated, MPI_SUM));
  PetscCall(PetscSFFetchAndOpEnd(sf, MPIU_INT, roots, leaves, updated, MPI_SUM));
  for (PetscInt i = 0; i < nroots; i++) {
    if (roots[i] != degree[i])
      PetscCall(
        PetscSynchronizedPrintf(PETSC_COMM_WORLD, "  root %" INT " has %" INT " leaves of %" INT "\n", i, roots[i], degree[i]));
    total += roots[i];
  }
  PetscCall(PetscSynchronizedFlush(PETSC_COMM_WORLD, PETSC_STDOUT));
  sum = nleaves - total;
  IDRSCallAllreduce(MPI_IN_PLACE, &sum, 1, MPIU_INT, MPI_SUM, PETSC_COMM_WORLD);
  PetscCall(ComplainIf(sum, "%" INT " leaves are missing", sum));
  PetscCall(PetscFree3(roots, leaves, updated));
  PetscCall(PetscSFDestroy(&sf));

  PetscCall(Verdict("what is left to the type basic"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes the three kinds of exchanges of a grid, and products with a matrix on it; result is the sum of the results */
static PetscErrorCode Grid(const char type[], PetscInt n, Vec *result)
{
  DM       da;
  Mat      A;
  Vec      x, y, local, other;
  PetscInt begin, end, N;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsSetValue(NULL, "-sf_type", type));
  PetscCall(DMDACreate2d(PETSC_COMM_WORLD, DM_BOUNDARY_PERIODIC, DM_BOUNDARY_NONE, DMDA_STENCIL_BOX, n, n, PETSC_DECIDE,
                         PETSC_DECIDE, 2, 1, NULL, NULL, &da));
  PetscCall(DMSetFromOptions(da));
  PetscCall(DMSetUp(da));
  PetscCall(DMCreateGlobalVector(da, &x));
  PetscCall(DMCreateLocalVector(da, &local));
  PetscCall(VecDuplicate(local, &other));
  PetscCall(VecGetOwnershipRange(x, &begin, &end));
  for (PetscInt i = begin; i < end; i++) PetscCall(VecSetValue(x, i, (PetscReal)Some(i, 101), INSERT_VALUES));
  PetscCall(VecAssemble(x));
  PetscCall(VecSet(other, 0.0));
  PetscCall(DMGlobalToLocalBegin(da, x, INSERT_VALUES, local));
  PetscCall(DMGlobalToLocalEnd(da, x, INSERT_VALUES, local));
  PetscCall(VecShift(local, 1.0));
  PetscCall(DMLocalToLocalBegin(da, local, INSERT_VALUES, other));
  PetscCall(DMLocalToLocalEnd(da, local, INSERT_VALUES, other));
  PetscCall(DMLocalToGlobalBegin(da, other, ADD_VALUES, x));
  PetscCall(DMLocalToGlobalEnd(da, other, ADD_VALUES, x));
  PetscCall(MatCreate(PETSC_COMM_WORLD, &A));
  PetscCall(VecGetSize(x, &N));
  PetscCall(MatSetSizes(A, end - begin, end - begin, N, N));
  PetscCall(MatSetFromOptions(A));
  PetscCall(MatSetUp(A));
  for (PetscInt i = begin; i < end; i++) {
    const PetscInt    columns[] = {i, (i + 1) % N, (i + N - 1) % N, (i + N / 2) % N, Some(i, N)};
    const PetscScalar values[]  = {4.0, -1.0, -2.0, 3.0, 5.0};

    PetscCall(MatSetValues(A, 1, &i, 5, columns, values, ADD_VALUES));
  }
  PetscCall(MatAssemble(A));
  PetscCall(VecDuplicate(x, &y));
  PetscCall(MatMult(A, x, y));
  PetscCall(VecAYPX(x, 7.0, y));
  PetscCall(MatMultTranspose(A, y, x));
  PetscCall(VecAXPY(x, 3.0, y));
  PetscCall(DestroyAll(&y, &other, &local, &A, &da));
  PetscCall(PetscOptionsClearValue(NULL, "-sf_type"));
  *result = x;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestGrids(PetscInt n)
{
  Vec       result[2];
  PetscReal difference, norm;

  PetscFunctionBeginUser;
  PetscCall(Grid(PETSCSFBASIC, n, &result[0]));
  PetscCall(Grid("nccl", n, &result[1]));
  PetscCall(Difference(result[0], result[1], &difference));
  PetscCall(VecNorm(result[0], NORM_2, &norm));
  PetscCall(ComplainIf(!(difference == 0.0) || !(norm > 1.0), "differs by %g, norm %g", (double)difference, (double)norm));
  PetscCall(DestroyAll(&result[0], &result[1]));
  PetscCall(Verdict("grids and products"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that processes that share a GPU cannot set the type: an error with this reason, on all of them */
static PetscErrorCode CanRun(PetscBool *can)
{
  PetscSF        sf;
  PetscInt       nroots, nleaves;
  Under          under;
  PetscErrorCode ierr;
  PetscMPIInt    failed, size;

  PetscFunctionBeginUser;
  PetscCall(PetscSFCreate(PETSC_COMM_WORLD, &sf));
  PetscCall(PetscSFSetType(sf, "nccl"));
  PetscCall(GraphSet(sf, GRAPH_HALO, 8, &nroots, &nleaves));
  PetscCall(ArrayCreate(nroots, 0, PLACE_OPTIONS, &under.roots));
  PetscCall(ArrayCreate(nleaves, 0, PLACE_OPTIONS, &under.leaves));
  Try(ierr, Begin(sf, MPIU_SCALAR, MPI_REPLACE, PETSC_FALSE, &under));
  failed = ierr ? 1 : 0;
  IDRSCallAllreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_SUM, PETSC_COMM_WORLD);
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(ComplainIf(failed && failed != size, "an error on %d of %d processes", (int)failed, (int)size));
  *can = failed ? PETSC_FALSE : PETSC_TRUE;
  if (failed) {
    char *found;

    PetscCall(PetscStrstr(message, "-sf_type nccl", &found));
    PetscCall(
      ComplainIf((ierr != PETSC_ERR_SUP) || !found, "error %d on %d of %d processes: %s", (int)ierr, failed, size, message));
    PetscCall(VecRestoreArrayReadAndMemType(under.roots, &under.from));
    PetscCall(VecRestoreArrayAndMemType(under.leaves, &under.to));
  } else PetscCall(End(sf, MPIU_SCALAR, MPI_REPLACE, PETSC_FALSE, &under));
  PetscCall(DestroyAll(&under.roots, &under.leaves));
  PetscCall(PetscSFDestroy(&sf));
  PetscCall(Verdict("type"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscInt  n = 40;
  PetscBool can;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-inner", &n, NULL));
  PetscCall(CanRun(&can));
  if (can) {
    PetscCall(TestGraphs(n));
    PetscCall(TestOthers(n));
    PetscCall(TestLeft(n));
    PetscCall(TestMoved(n));
    PetscCall(TestGrids(12));
  } else
    PetscCall(
      PetscPrintf(PETSC_COMM_WORLD, "graphs, grids and products: left out, the processes have no GPU each that NCCL connects\n"));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

   build:
     requires: cuda

   test:
     suffix: 1
     nsize: {{1 2 3 4}}

TEST*/
