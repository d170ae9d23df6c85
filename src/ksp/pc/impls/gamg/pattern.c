/*
   The type PCGAMGPATTERN of PCGAMG: aggregates and tentative prolongation from the nonzero pattern of the matrix, and all else as
   type agg does it.

   Type agg makes a graph, its square for aggressive coarsening, an independent set and lists of aggregates, each in a matrix or a
   list of its own. Here one loop over the rows suffices. A vertex that is in no aggregate yet becomes the root of a new one, which
   all vertices within the distance join:

     distance 1   neighbours of the root: the columns of its row
     distance 2   also their neighbours, on levels of aggressive coarsening

   If a vertex is within distance 2 of several roots, it joins the first root; if a later root is its neighbour, it joins that root.
   If no neighbour of a vertex could join it, the vertex joins the aggregate of its first neighbour: otherwise all vertices of a
   triangular matrix would be roots. A vertex whose row has no other entry joins an aggregate only if a root reaches it.

   The vertices are visited in the order of their numbers. On grids this makes 1.2 to 1.6 times as many aggregates as a random
   order, and their arrangement repeats: most solves need fewer iterations.

   The tentative prolongation P of the near null space vector v has at most one entry per row, so P^T P = I, and P v_coarse = v in
   the aggregates:

     P_ia = v_i / ||v_a||, where v_a are the entries of v in aggregate a;   v_coarse(a) = ||v_a||

   If v_a = 0, P_ia is 1 for the first i of the aggregate, and 0 for the others.

   References: P. Vanek, J. Mandel and M. Brezina, Algebraic multigrid by smoothed aggregation for second and fourth order elliptic
   problems, Computing 56 (1996); N. Bell, S. Dalton and L.N. Olson, Exposing fine-grained parallelism in algebraic multigrid
   methods, SIAM J. Sci. Comput. 34 (2012)
*/
#include <petsc/private/matimpl.h>
#include <petsc/private/pcgamgimpl.h>
#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsrows.h>

/* Composed with the PC */
typedef struct {
  struct _PCGAMGOps agg; /* the functions of type agg */
  PetscErrorCode (*setlevels)(PC, PetscInt);
  PetscInt    levels;      /* levels of aggressive coarsening, from the finest */
  PetscInt    own, others; /* levels of the hierarchy with aggregates of this type, and of type agg */
  const char *reason;      /* the reason for the last level of type agg, or NULL */
} PCGAMGPattern;

static const char composed[] = "PCGAMGPattern";

static PC_GAMG *PCGAMGGet(PC pc)
{
  return (PC_GAMG *)((PC_MG *)pc->data)->innerctx;
}

static PetscErrorCode PCGAMGPatternGet(PC pc, PCGAMGPattern **pattern)
{
  PetscContainer container;

  PetscFunctionBegin;
  PetscCall(PetscObjectQuery((PetscObject)pc, composed, (PetscObject *)&container));
  PetscCall(PetscContainerGetPointer(container, (void **)pattern));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Finds the aggregates of n vertices. outside: row offsets of the couplings with vertices of other processes, or NULL

   Output Parameters:
+  aggregate - the number of the aggregate of each vertex, -1 for none
-  count     - the number of aggregates
*/
static PetscErrorCode PCGAMGPatternAggregate(PetscInt n, const PetscInt ai[], const PetscInt aj[], const PetscInt outside[],
                                             PetscInt distance, PetscInt aggregate[], PetscInt *count)
{
  PetscBool *fixed;    /* a root, or the neighbour of one: no later root takes this vertex */
  PetscBool *expanded; /* the neighbours of this vertex are in aggregates */

  PetscFunctionBegin;
  PetscCall(PetscCalloc2(n, &fixed, n, &expanded));
  for (PetscInt i = 0; i < n; i++) aggregate[i] = -1;
  *count = 0;
  for (PetscInt root = 0; root < n; root++) {
    PetscInt  joined  = -1, number;
    PetscBool coupled = (PetscBool)(outside && outside[root + 1] > outside[root]);
    PetscBool all     = PETSC_TRUE; /* all neighbours are fixed */

    if (aggregate[root] >= 0) continue;
    for (PetscInt k = ai[root]; k < ai[root + 1]; k++) {
      if (aj[k] == root) continue;
      coupled = PETSC_TRUE;
      all     = (PetscBool)(all && fixed[aj[k]]);
      if (joined < 0) joined = aggregate[aj[k]];
    }
    if (!coupled) continue;
    if (all && joined >= 0) {
      aggregate[root] = joined;
      continue;
    }
    number          = (*count)++;
    fixed[root]     = PETSC_TRUE;
    aggregate[root] = number;
    for (PetscInt k = ai[root]; k < ai[root + 1]; k++) {
      const PetscInt neighbor = aj[k];

      if (!fixed[neighbor]) {
        fixed[neighbor]     = PETSC_TRUE;
        aggregate[neighbor] = number;
      }
      if (distance == 1 || expanded[neighbor]) continue;
      expanded[neighbor] = PETSC_TRUE;
      for (PetscInt l = ai[neighbor]; l < ai[neighbor + 1]; l++) {
        if (aggregate[aj[l]] < 0) aggregate[aj[l]] = number;
      }
    }
  }
  PetscCall(PetscFree2(fixed, expanded));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Replaces the near null space vector v by v_coarse, and computes P_ia for each i in an aggregate */
static PetscErrorCode PCGAMGPatternRestrict(PC_GAMG *gamg, PetscInt n, const PetscInt aggregate[], PetscInt count,
                                            PetscScalar values[])
{
  PetscReal *coarse;

  PetscFunctionBegin;
  PetscCall(PetscCalloc1(count, &coarse));
  for (PetscInt i = 0; i < n; i++) {
    if (aggregate[i] >= 0) coarse[aggregate[i]] += PetscSqr(gamg->data[i]);
  }
  for (PetscInt a = 0; a < count; a++) coarse[a] = coarse[a] > 0.0 ? PetscSqrtReal(coarse[a]) : (PetscReal)-1.0;
  for (PetscInt i = 0; i < n; i++) {
    const PetscInt a = aggregate[i];

    if (a < 0) continue;
    if (coarse[a] > 0.0) values[i] = gamg->data[i] / coarse[a];
    else {
      /* v_a = 0: the norm is -1 until the first vertex has its entry */
      values[i] = coarse[a] < 0.0 ? 1.0 : 0.0;
      coarse[a] = 0.0;
    }
  }
  PetscCall(PetscFree(gamg->data));
  gamg->data           = coarse;
  gamg->data_cell_rows = 1;
  gamg->data_sz        = count;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Finds the aggregates of a process, in its diagonal block */
static PetscErrorCode PCGAMGPatternFind(Mat A, PetscInt distance, PetscInt aggregate[], PetscInt *count)
{
  PetscInt        n;
  const PetscInt *ai, *aj, *outside = NULL, *columns;
  PetscBool       done[2] = {PETSC_TRUE, PETSC_TRUE};
  Mat             block, outer;

  PetscFunctionBegin;
  PetscCall(IDRSRowsGetBlocks(A, &block, &outer, NULL));
  if (outer) PetscCall(MatGetRowIJ(outer, 0, PETSC_FALSE, PETSC_FALSE, &n, &outside, &columns, &done[1]));
  PetscCall(MatGetRowIJ(block, 0, PETSC_FALSE, PETSC_FALSE, &n, &ai, &aj, &done[0]));
  PetscCheck(done[0] && done[1], PETSC_COMM_SELF, PETSC_ERR_PLIB, "A block of the matrix has no rows to read");
  PetscCall(PCGAMGPatternAggregate(n, ai, aj, outside, distance, aggregate, count));
  PetscCall(MatRestoreRowIJ(block, 0, PETSC_FALSE, PETSC_FALSE, &n, &ai, &aj, &done[0]));
  if (outer) PetscCall(MatRestoreRowIJ(outer, 0, PETSC_FALSE, PETSC_FALSE, &n, &outside, &columns, &done[1]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Creates the tentative prolongation, with aggregates of each process, or NULL if no two vertices are joined. PetscCoarsenData is
   the lists of type agg, and G its graph
*/
#if PETSC_VERSION_LT(3, 21, 0)
static PetscErrorCode PCGAMGProlongator_Pattern(PC pc, Mat A, Mat G, PetscCoarsenData *lists, Mat *P)
#else
static PetscErrorCode PCGAMGProlongator_Pattern(PC pc, Mat A, PetscCoarsenData *lists, Mat *P)
#endif
{
  PCGAMGPattern *pattern;
  PC_GAMG       *gamg = PCGAMGGet(pc);
  PetscInt      *aggregate, *rows, n, count = 0, begin, N, Ncoarse;
  PetscScalar   *values;
  PetscBool      bound;

  PetscFunctionBegin;
  PetscCall(PetscLogEventBegin(petsc_gamg_setup_events[GAMG_PROL], 0, 0, 0, 0));
  PetscCall(PCGAMGPatternGet(pc, &pattern));
  PetscCall(MatGetLocalSize(A, &n, NULL));
  PetscCall(PetscMalloc3(n, &aggregate, n + 1, &rows, n, &values));
  PetscCall(PCGAMGPatternFind(A, gamg->current_level < pattern->levels ? 2 : 1, aggregate, &count));
  PetscCall(MatCreate(PetscObjectComm((PetscObject)A), P));
  PetscCall(MatSetSizes(*P, n, count, PETSC_DETERMINE, PETSC_DETERMINE));
  PetscCall(MatSetType(*P, ((PetscObject)A)->type_name));
  PetscCall(MatBoundToCPU(A, &bound));
  PetscCall(MatBindToCPU(*P, bound));
  if (bound) PetscCall(MatSetBindingPropagates(*P, PETSC_TRUE));
  PetscCall(PetscLayoutSetUp((*P)->rmap));
  PetscCall(PetscLayoutSetUp((*P)->cmap));
  PetscCall(MatGetSize(*P, &N, &Ncoarse));
  PetscCall(PetscInfo(pc, "Level %" PetscInt_FMT ": %" PetscInt_FMT " aggregates of %" PetscInt_FMT " vertices\n",
                      gamg->current_level, Ncoarse, N));
  if (Ncoarse == N || !Ncoarse) PetscCall(MatDestroy(P));
  else {
    PetscCall(PCGAMGPatternRestrict(gamg, n, aggregate, count, values));
    PetscCall(PetscLayoutGetRange((*P)->cmap, &begin, NULL));
    /* the rows of P, which are empty for vertices without an aggregate */
    rows[0] = 0;
    for (PetscInt i = 0; i < n; i++) {
      const PetscInt next = rows[i];

      rows[i + 1] = next + (aggregate[i] >= 0 ? 1 : 0);
      if (aggregate[i] < 0) continue;
      values[next]    = values[i];
      aggregate[next] = begin + aggregate[i];
    }
    PetscCall(MatSeqAIJSetPreallocationCSR(*P, rows, aggregate, values));
    PetscCall(MatMPIAIJSetPreallocationCSR(*P, rows, aggregate, values));
    PetscCall(MatViewFromOptions(*P, NULL, "-pc_gamg_agg_view_initial_prolongation"));
  }
  PetscCall(PetscFree3(aggregate, rows, values));
  PetscCall(PetscLogEventEnd(petsc_gamg_setup_events[GAMG_PROL], 0, 0, 0, 0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes no lists of aggregates */
static PetscErrorCode PCGAMGCoarsen_Pattern(PC pc, Mat *G, PetscCoarsenData **lists)
{
  PetscFunctionBegin;
  PetscCall(PetscCDCreate(1, lists));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The first function of a level: chooses the functions that follow. This type makes no graph. PCSetUp_GAMG() destroys *G */
static PetscErrorCode PCGAMGCreateGraph_Pattern(PC pc, Mat A, Mat *G)
{
  PC_GAMG       *gamg = PCGAMGGet(pc);
  PCGAMGPattern *pattern;
  PetscBool      aij;
  PetscInt       bs;
  const char    *why = NULL; /* type agg must do this level, or NULL */

  PetscFunctionBegin;
  PetscCall(PCGAMGPatternGet(pc, &pattern));
  PetscCall(PetscObjectBaseTypeCompareAny((PetscObject)A, &aij, MATSEQAIJ, MATMPIAIJ, ""));
  PetscCall(MatGetBlockSize(A, &bs));
  if (!aij) why = "the matrix is not of type aij";
  else if (bs > 1) why = "the matrix has a block size";
  else if (gamg->data_cell_cols != 1) why = "the number of near null space vectors is not 1";
  else if (gamg->threshold[gamg->current_level] >= 0.0) why = "-pc_gamg_threshold needs the values of the matrix";
  else if (gamg->use_aggs_in_asm) why = "-pc_gamg_asm_use_agg needs lists of aggregates";
#if PETSC_VERSION_GE(3, 21, 0)
  else if (gamg->asm_hem_aggs) why = "-pc_gamg_asm_hem_aggs needs a graph";
#endif
  if (gamg->current_level == 0) pattern->own = pattern->others = 0;
  if (why) {
    pattern->others++;
    pattern->reason        = why;
    gamg->ops->coarsen     = pattern->agg.coarsen;
    gamg->ops->prolongator = pattern->agg.prolongator;
    PetscCall(PetscInfo(pc, "Level %" PetscInt_FMT ": type agg, because %s\n", gamg->current_level, why));
    PetscCall(pattern->agg.creategraph(pc, A, G));
  } else {
    pattern->own++;
    gamg->ops->coarsen     = PCGAMGCoarsen_Pattern;
    gamg->ops->prolongator = PCGAMGProlongator_Pattern;
    PetscCall(PetscObjectReference((PetscObject)A));
    *G = A;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Type agg and this type need the levels of aggressive coarsening */
static PetscErrorCode PCGAMGSetAggressiveLevels_Pattern(PC pc, PetscInt n)
{
  PCGAMGPattern *pattern;

  PetscFunctionBegin;
  PetscCall(PCGAMGPatternGet(pc, &pattern));
  PetscCall(pattern->setlevels(pc, n));
  pattern->levels = n;
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCGAMGSetFromOptions_Pattern(PC pc, IDRSOptionItems PetscOptionsObject)
{
  PCGAMGPattern *pattern;
  const char    *prefix;

  PetscFunctionBegin;
  PetscCall(PCGAMGPatternGet(pc, &pattern));
  PetscCall(pattern->agg.setfromoptions(pc, PetscOptionsObject));
  PetscCall(PCGetOptionsPrefix(pc, &prefix));
  /* the older name, then the present one */
  PetscCall(PetscOptionsGetInt(((PetscObject)pc)->options, prefix, "-pc_gamg_square_graph", &pattern->levels, NULL));
  PetscCall(PetscOptionsGetInt(((PetscObject)pc)->options, prefix, "-pc_gamg_aggressive_coarsening", &pattern->levels, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCGAMGView_Pattern(PC pc, PetscViewer viewer)
{
  PCGAMGPattern *pattern;
  PetscBool      ascii;

  PetscFunctionBegin;
  PetscCall(PCGAMGPatternGet(pc, &pattern));
  PetscCall(PetscObjectTypeCompare((PetscObject)viewer, PETSCVIEWERASCII, &ascii));
  if (ascii && pattern->own)
    PetscCall(PetscViewerASCIIPrintf(viewer,
                                     "        aggregates from the nonzero pattern on %" PetscInt_FMT " levels, within distance "
                                     "2 on %" PetscInt_FMT "\n",
                                     pattern->own, PetscMin(pattern->own, pattern->levels)));
  if (ascii && pattern->others)
    PetscCall(PetscViewerASCIIPrintf(viewer, "        aggregates by type agg on %" PetscInt_FMT " levels, because %s\n",
                                     pattern->others, pattern->reason));
  PetscCall(pattern->agg.view(pc, viewer));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCGAMGDestroy_Pattern(PC pc)
{
  PCGAMGPattern *pattern;

  PetscFunctionBegin;
  PetscCall(PCGAMGPatternGet(pc, &pattern));
  PetscCall(pattern->agg.destroy(pc));
  PetscCall(PetscObjectCompose((PetscObject)pc, composed, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCGAMGPatternFree(void *data)
{
  PetscFunctionBegin;
  PetscCall(PetscFree(IDRSContainerData(data)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*MC
  PCGAMGPATTERN - Smoothed aggregation that takes the aggregates from the nonzero pattern of the matrix

  Level: intermediate

  Options Database Keys:
+ -pc_gamg_type pattern            - use this type
- -pc_gamg_aggressive_coarsening n - number of levels, from the finest, with aggregates within distance 2 of a root (default 1);
                                     other levels have distance 1

  Notes:
  The first set-up takes less time than with type agg, PETSc's default, because no graphs and no lists of aggregates are made. The
  smoothing of the prolongation and the Galerkin products are PETSc's, with their options (`-pc_gamg_agg_nsmooths`). Options of type
  agg for graphs and coarsening (`-pc_gamg_mat_coarsen_type`, `-pc_gamg_aggressive_square_graph`, `-pc_gamg_graph_symmetrize` and
  others) have no effect on levels whose aggregates are from the pattern.

  The aggregates depend on the order of the rows. If the rows have the order of a structured grid, most solves need fewer
  iterations than with type agg, and levels have more rows. On grids of five or seven points `-pc_gamg_aggressive_coarsening 0` only
  halves the number of rows from the finest level to the next. If the pattern is not symmetric, the hierarchies differ more: this
  type joins row i with its columns, and type agg also uses the transposed pattern.

  On several processes an aggregate has vertices of one process only. If most couplings are between processes, most aggregates have
  one vertex; use type agg then.

  The matrix must be of type `MATAIJ`, or of a type derived from it. Type agg does a level, and `-ksp_view` and `-info` show the
  reason, if the matrix has a block size, if there are several near null space vectors (`MatSetNearNullSpace()`), with
  `-pc_gamg_threshold`, and with aggregates for `PCASM`.

.seealso: [](ch_ksp), `PCGAMG`, `PCGAMGSetType()`, `PCGAMGSetAggressiveLevels()`, `PCPOLY`, `KSPIDRS`, `KSPIDRSRegister()`
M*/
PETSC_INTERN PetscErrorCode PCGAMGCreate_Pattern(PC pc)
{
  PC_GAMG       *gamg = PCGAMGGet(pc);
  PCGAMGPattern *pattern;
  PetscContainer container;

  PetscFunctionBegin;
  PetscCall(PCGAMGSetType(pc, PCGAMGAGG));
  gamg->type = PCGAMGPATTERN;
  PetscCall(PetscFree(gamg->gamg_type_name));
  PetscCall(PetscStrallocpy(PCGAMGPATTERN, &gamg->gamg_type_name));
  /* PCGAMGSetType() has forgotten the sizes of this copy of the near null space, which a set-up would use */
  PetscCall(PetscFree(gamg->orig_data));
  PetscCall(PetscNew(&pattern));
  pattern->agg    = *gamg->ops;
  pattern->levels = 1;
  PetscCall(PetscContainerCreate(PetscObjectComm((PetscObject)pc), &container));
  PetscCall(PetscContainerSetPointer(container, pattern));
  PetscCall(IDRSContainerSetDestroy(container, PCGAMGPatternFree));
  PetscCall(PetscObjectCompose((PetscObject)pc, composed, (PetscObject)container));
  PetscCall(PetscContainerDestroy(&container));
  PetscCall(PetscObjectQueryFunction((PetscObject)pc, "PCGAMGSetAggressiveLevels_C", &pattern->setlevels));
  PetscCall(PetscObjectComposeFunction((PetscObject)pc, "PCGAMGSetAggressiveLevels_C", PCGAMGSetAggressiveLevels_Pattern));
  gamg->ops->creategraph    = PCGAMGCreateGraph_Pattern;
  gamg->ops->setfromoptions = PCGAMGSetFromOptions_Pattern;
  gamg->ops->view           = PCGAMGView_Pattern;
  gamg->ops->destroy        = PCGAMGDestroy_Pattern;
  PetscFunctionReturn(PETSC_SUCCESS);
}
