static char help[] = "PetscSF of type nccl against type basic: graphs, units, operations, places of the arrays, vectors.\n\
  -inner n  entries of a process and of a graph, about (default 40)\n\n";

#include <petscsf.h>
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

/* Checks that two vectors have the same entries on all processes, and destroys them */
static PetscErrorCode CheckSame(Vec result[2], const char what[])
{
  const PetscScalar *a, *b;
  PetscReal          difference = 0.0;
  PetscInt           n;

  PetscFunctionBeginUser;
  PetscCall(VecGetLocalSize(result[0], &n));
  PetscCall(VecGetArrayRead(result[0], &a));
  PetscCall(VecGetArrayRead(result[1], &b));
  for (PetscInt i = 0; i < n; i++)
    difference = PetscMax(difference, PetscIsNanScalar(a[i] - b[i]) ? PETSC_MAX_REAL : PetscAbsScalar(a[i] - b[i]));
  PetscCall(VecRestoreArrayRead(result[0], &a));
  PetscCall(VecRestoreArrayRead(result[1], &b));
  PetscCall(ComplainIf(difference > 0.0, "%s: differs by %g", what, (double)difference));
  PetscCall(DestroyAll(&result[0], &result[1]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Compares the results of type basic and of type nccl */
static PetscErrorCode Compare(PetscErrorCode (*scatter)(const char[], PetscInt, Vec *), PetscInt n, const char subject[])
{
  Vec result[2];

  PetscFunctionBeginUser;
  PetscCall((*scatter)(PETSCSFBASIC, n, &result[0]));
  PetscCall((*scatter)("nccl", n, &result[1]));
  PetscCall(CheckSame(result, subject));
  PetscCall(Verdict(subject));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode GraphCreate(const char type[], Graph graph, PetscInt n, PetscInt *nroots, PetscInt *nleaves, PetscSF *sf)
{
  PetscFunctionBeginUser;
  PetscCall(PetscSFCreate(PETSC_COMM_WORLD, sf));
  PetscCall(PetscSFSetType(*sf, type));
  PetscCall(GraphSet(*sf, graph, n, nroots, nleaves));
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
        char            what[128];
        Vec             result[2];

        /* if a root has several leaves, it is undefined from which leaf it receives */
        if (reverse && c / 4 == 0 && (graph == GRAPH_MANY || graph == GRAPH_CENTRAL)) continue;
        for (PetscInt t = 0; t < 2; t++)
          PetscCall(Scatters(sf[t], nroots, nleaves, bs, (Place)place, ops[c / 4], reverse, &result[t]));
        PetscCall(PetscSNPrintf(what, sizeof(what), "graph %s, units of %" INT ", %s, operation %" INT ", place %" INT,
                                graphs[graph], bs, reverse ? "reverse" : "forward", c / 4, place));
        PetscCall(CheckSame(result, what));
      }
    }
    for (PetscInt t = 0; t < 2; t++) PetscCall(PetscSFDestroy(&sf[t]));
  }
  PetscCall(Verdict("graphs"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets device to PETSC_TRUE if this vector is on a device on all processes, or, with any, on one of them */
static PetscErrorCode OnDevice(Vec x, PetscBool any, PetscBool *device)
{
  PetscMemType       memtype;
  PetscMPIInt        here;
  const PetscScalar *array;

  PetscFunctionBeginUser;
  PetscCall(VecGetArrayReadAndMemType(x, &array, &memtype));
  PetscCall(VecRestoreArrayReadAndMemType(x, &array));
  here = PetscMemTypeDevice(memtype) ? 1 : 0;
  IDRSCallAllreduce(MPI_IN_PLACE, &here, 1, MPI_INT, any ? MPI_MAX : MPI_MIN, PETSC_COMM_WORLD);
  *device = here ? PETSC_TRUE : PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A scatter begins and does not end, as after an error between the two calls; a scatter that began before it ends. Then the same
   arrays have other entries, and a scatter ends. Type basic, which has an error of its own for this, makes only the last scatter
*/
static PetscErrorCode Left(const char type[], PetscInt n, Vec *result)
{
  PetscInt    nroots, nleaves;
  PetscBool   basic, device;
  PetscMPIInt size;
  Under       under[UNITS];
  PetscSF     sf;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(PetscStrcmp(type, PETSCSFBASIC, &basic));
  PetscCall(GraphCreate(type, GRAPH_MANY, n, &nroots, &nleaves, &sf));
  for (PetscInt u = 0; u < UNITS; u++) {
    PetscCall(ArrayCreate(nroots, 17 * u, PLACE_OPTIONS, &under[u].roots));
    PetscCall(ArrayCreate(nleaves, 29 * u + 500, PLACE_OPTIONS, &under[u].leaves));
  }
  PetscCall(OnDevice(under[1].leaves, PETSC_FALSE, &device));
  if (!basic && device && size > 1) {
    for (PetscInt u = 0; u < UNITS; u++) PetscCall(Begin(sf, MPIU_SCALAR, MPIU_SUM, PETSC_FALSE, &under[u]));
    PetscCall(End(sf, MPIU_SCALAR, MPIU_SUM, PETSC_FALSE, &under[0]));
    PetscCall(VecRestoreArrayAndMemType(under[1].leaves, &under[1].to));
    PetscCall(VecRestoreArrayReadAndMemType(under[1].roots, &under[1].from));
  }
  PetscCall(VecShift(under[1].roots, 3.0));
  PetscCall(Begin(sf, MPIU_SCALAR, MPIU_SUM, PETSC_FALSE, &under[1]));
  PetscCall(End(sf, MPIU_SCALAR, MPIU_SUM, PETSC_FALSE, &under[1]));
  *result = under[1].leaves;
  PetscCall(DestroyAll(&under[0].roots, &under[0].leaves, &under[1].roots, &sf));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The first scatter has arrays on the host. The next scatters have arrays in the memory of -vec_type, and send from there */
static PetscErrorCode Moved(const char type[], PetscInt n, Vec *result)
{
  PetscInt    nroots, nleaves;
  PetscBool   basic, device;
  PetscMPIInt size;
  PetscSF     sf;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(PetscStrcmp(type, PETSCSFBASIC, &basic));
  PetscCall(GraphCreate(type, GRAPH_MANY, n, &nroots, &nleaves, &sf));
  for (PetscInt turn = 0; turn < 3; turn++) {
    Under under;

    PetscCall(ArrayCreate(nroots, 17 * turn, PLACE_OPTIONS, &under.roots));
    PetscCall(ArrayCreate(nleaves, 500, PLACE_OPTIONS, &under.leaves));
    PetscCall(VecBindToCPU(under.roots, (PetscBool)!turn));
    PetscCall(VecBindToCPU(under.leaves, (PetscBool)!turn));
    PetscCall(OnDevice(under.leaves, PETSC_TRUE, &device));
    PetscCall(Begin(sf, MPIU_SCALAR, MPIU_SUM, PETSC_FALSE, &under));
    PetscCall(End(sf, MPIU_SCALAR, MPIU_SUM, PETSC_FALSE, &under));
    PetscCall(CheckView(sf, "from GPU to GPU", !basic && device && size > 1 ? 1 : 0));
    if (turn) {
      PetscCall(VecAXPY(under.leaves, 8192.0, *result));
      PetscCall(VecDestroy(result));
    }
    *result = under.leaves;
    PetscCall(VecDestroy(&under.roots));
  }
  PetscCall(PetscSFDestroy(&sf));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Operations of type basic: integers, fetch-and-add, gathers */
static PetscErrorCode TestOthers(PetscInt n)
{
  PetscSF         sf, inverse;
  PetscInt        nroots, nleaves, *roots, *leaves, *updated, total = 0, sum = 0;
  const PetscInt *degree, *mine;

  PetscFunctionBeginUser;
  PetscCall(GraphCreate("nccl", GRAPH_MANY, n, &nroots, &nleaves, &sf));
  PetscCall(PetscSFComputeDegreeBegin(sf, &degree));
  PetscCall(PetscSFComputeDegreeEnd(sf, &degree));
  PetscCall(PetscCalloc3(nroots, &roots, nleaves, &leaves, nleaves, &updated));
  PetscCall(PetscSFGetGraph(sf, NULL, &nleaves, &mine, NULL));
  for (PetscInt i = 0; i < nleaves; i++) leaves[mine ? mine[i] : i] = 1;
  PetscCall(PetscSFFetchAndOpBegin(sf, MPIU_INT, roots, leaves, updated, MPI_SUM));
  PetscCall(PetscSFFetchAndOpEnd(sf, MPIU_INT, roots, leaves, updated, MPI_SUM));
  for (PetscInt i = 0; i < nroots; i++) {
    PetscCall(ComplainIf(roots[i] != degree[i], "root %" INT " has %" INT " leaves of %" INT, i, roots[i], degree[i]));
    total += roots[i];
  }
  sum = nleaves - total;
  IDRSCallAllreduce(MPI_IN_PLACE, &sum, 1, MPIU_INT, MPI_SUM, PETSC_COMM_WORLD);
  PetscCall(ComplainIf(sum, "%" INT " leaves are missing", sum));
  PetscCall(PetscFree3(roots, leaves, updated));
  PetscCall(PetscSFDestroy(&sf));

  PetscCall(GraphCreate("nccl", GRAPH_ONE, n, &nroots, &nleaves, &sf));
  PetscCall(PetscSFSetUp(sf));
  PetscCall(PetscSFCreateInverseSF(sf, &inverse));
  PetscCall(PetscSFDestroy(&inverse));
  PetscCall(PetscSFDestroy(&sf));
  PetscCall(Verdict("what is left to the type basic"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Scatters some entries of a vector to another one and adds them on the way back, three times. In between the source is remapped to
   other places of the same process. result is a weighted sum of all received vectors
*/
static PetscErrorCode Remapped(const char type[], PetscInt n, Vec *result)
{
  VecScatter   scatter;
  Vec          x, y;
  IS           from;
  PetscInt     begin, end, N, *index, *tomap;
  PetscScalar *array;
  PetscMPIInt  rank;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCall(PetscOptionsSetValue(NULL, "-sf_type", type));
  PetscCall(VecCreate(PETSC_COMM_WORLD, &x));
  PetscCall(VecSetSizes(x, LocalSize(rank, n), PETSC_DECIDE));
  PetscCall(VecSetFromOptions(x));
  PetscCall(VecGetOwnershipRange(x, &begin, &end));
  PetscCall(VecGetSize(x, &N));
  PetscCall(VecDuplicate(x, &y));
  PetscCall(VecDuplicate(x, result));
  PetscCall(VecSet(*result, 0.0));
  PetscCall(VecGetArrayWrite(x, &array));
  for (PetscInt i = begin; i < end; i++) array[i - begin] = (PetscReal)Some(i, 101);
  PetscCall(VecRestoreArrayWrite(x, &array));
  PetscCall(PetscMalloc2(end - begin, &index, end - begin, &tomap));
  for (PetscInt i = begin; i < end; i++) index[i - begin] = i % 3 ? (i + N / 2) % N : Some(i, N);
  PetscCall(ISCreateGeneral(PETSC_COMM_WORLD, end - begin, index, PETSC_COPY_VALUES, &from));
  PetscCall(VecScatterCreate(x, from, y, NULL, &scatter));
  for (PetscInt repeat = 0; repeat < 3; repeat++) {
    PetscCall(VecScatterBegin(scatter, x, y, INSERT_VALUES, SCATTER_FORWARD));
    PetscCall(VecScatterEnd(scatter, x, y, INSERT_VALUES, SCATTER_FORWARD));
    PetscCall(VecAYPX(*result, 3.0, y));
    PetscCall(VecScatterBegin(scatter, y, x, ADD_VALUES, SCATTER_REVERSE));
    PetscCall(VecScatterEnd(scatter, y, x, ADD_VALUES, SCATTER_REVERSE));
    for (PetscInt i = 0; i < end - begin; i++) tomap[i] = (i + 5 + repeat) % (end - begin);
    PetscCall(VecScatterRemap(scatter, tomap, NULL));
  }
  PetscCall(PetscFree2(index, tomap));
  PetscCall(VecScatterDestroy(&scatter));
  PetscCall(DestroyAll(&from, &x, &y));
  PetscCall(PetscOptionsClearValue(NULL, "-sf_type"));
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
  PetscCall(GraphCreate("nccl", GRAPH_HALO, 8, &nroots, &nleaves, &sf));
  PetscCall(ArrayCreate(nroots, 0, PLACE_OPTIONS, &under.roots));
  PetscCall(ArrayCreate(nleaves, 0, PLACE_OPTIONS, &under.leaves));
  Try(ierr, Begin(sf, MPIU_SCALAR, MPI_REPLACE, PETSC_FALSE, &under));
  failed = ierr ? 1 : 0;
  IDRSCallAllreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_SUM, PETSC_COMM_WORLD);
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(ComplainIf(failed && failed != size, "an error on %d of %d processes", (int)failed, (int)size));
  *can = failed ? PETSC_FALSE : PETSC_TRUE;
  if (failed) {
    PetscCall(CheckError(ierr, "type nccl", "-sf_type nccl", "cannot be used"));
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
    PetscCall(Compare(Left, n, "after a scatter that did not end"));
    PetscCall(Compare(Moved, n, "arrays that move"));
    PetscCall(Compare(Remapped, n, "scatters from other places"));
  } else
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "graphs and vectors: left out, the processes have no GPU each that NCCL connects\n"));
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
