/*
   The preconditioner PCAGGREGATION: PCMG with a hierarchy of plain aggregates. A level has one unknown for each aggregate of the
   finer level: the prolongation P has one entry in a row, so the Galerkin product P^T A P has sums of entries of A.

   A correction that is constant in aggregates is too small, by a factor alpha that hardly depends on the system. So the coarse
   matrix is P^T A P / alpha, which makes corrections alpha times as large. W cycles solve the coarse systems well enough for this,
   at little cost, since a level has about a quarter or an eighth of the rows of the next.

   References: D. Braess, Towards algebraic multigrid for elliptic problems of second order, Computing 55 (1995); Y. Notay, An
   aggregation-based algebraic multigrid method, Electron. Trans. Numer. Anal. 37 (2010)
*/
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrsmemory.h>
#include <petscidrs/private/idrssettings.h>
#include "aggregation.h"
#include "../poly/polysmooth.h"

#define AGGREGATION_DIRECT  3000 /* rows at most of a coarsest level that PCMG solves by LU */
#define AGGREGATION_LONG    16   /* degree of PCPOLY on a larger coarsest level */
#define AGGREGATION_LARGEST 0.9  /* part of the rows of a level that the next one has at most */
#define AGGREGATION_DEGREE  4    /* of the smoother PCPOLY */
#define AGGREGATION_PIVOT   1e4  /* a pivot of LU counts as zero if it is smaller than this number of rounding errors */
#define AGGREGATION_STEPS   2    /* of KSPRICHARDSON with levels that every process has */

static const PetscReal   AggregatesCorrection[] = {[AGGREGATES_BOXES] = 1.6, [AGGREGATES_PAIRS] = 1.5};
static const char *const AggregatesKinds[]      = {[AGGREGATES_BOXES] = "boxes of a grid", [AGGREGATES_PAIRS] = "pairs"};

/* A level, and the step to the next coarser one */
typedef struct {
  Mat              A;    /* MATAIJ, or the type of the operator if its aggregates are made on the GPU */
  Mat              copy; /* of A in the type of the operator, or A itself; NULL on the finest level */
  Mat              P;
  AggregatesKind   kind;
  PetscObjectState smoother; /* state of the PC of the smoother after its set-up */
} AggregationLevel;

/* Of the coarsest matrix, if LU solves with it: the largest entry of all rows, and 1 / the least one of the largest of each row */
typedef struct {
  PetscReal largest, reciprocal;
} AggregationRows;

typedef struct {
  const AggregatesOps *ops;
  AggregationLevel     level[AGGREGATION_LEVELS]; /* 0 is the finest one */
  PetscInt             count;
  PetscBool            plain;  /* cycle.c makes the cycles, not PCMG */
  PetscObjectId        pmatid; /* of pc->pmat at the last set-up */
  AggregationRows      rows;
  AggregationCoarsest  coarsest;
  AggregationSmall     small;
  /* functions of PCMG, which the functions of this type call */
  PetscErrorCode (*setup)(PC), (*reset)(PC), (*destroy)(PC), (*view)(PC, PetscViewer), (*apply)(PC, Vec, Vec);
  PetscErrorCode (*applyrichardson)(PC, Vec, Vec, Vec, PetscReal, PetscReal, PetscReal, PetscInt, PetscBool, PetscInt *,
                                    PCRichardsonConvergedReason *);
  PetscErrorCode (*setfromoptions)(PC, IDRSOptionItems);
} PC_Aggregation;

static PC_Aggregation *PCAggregationGet(PC pc)
{
  return (PC_Aggregation *)((PC_MG *)pc->data)->innerctx;
}

/* Returns the number of rows of a level that needs no coarser one */
static PetscInt PCAggregationGetCoarsest(PC pc)
{
  const AggregatesOps *ops = PCAggregationGet(pc)->ops;
  PetscMPIInt          size;

  (void)MPI_Comm_size(PetscObjectComm((PetscObject)pc), &size);
  return size > 1 ? ops->parallelcoarsest : ops->coarsest;
}

#if defined(PETSCIDRS_HAVE_CUDA)
/* On several processes the cycle belongs to another PC */
static PetscErrorCode PCAggregationDestroyCycle(AggregationSmall *small)
{
  PetscFunctionBegin;
  if (!small->gather) PetscCall((*AggregationCycles_CUDA.destroy)(&small->cycle));
  small->cycle = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}
#endif

static PetscErrorCode PCAggregationDestroyLevels(PC_Aggregation *aggregation)
{
  PetscFunctionBegin;
  aggregation->plain = PETSC_FALSE;
  aggregation->rows  = (AggregationRows){0.0, 0.0};
#if defined(PETSCIDRS_HAVE_CUDA)
  PetscCall(PCAggregationDestroyCycle(&aggregation->small));
  PetscCall((*AggregationCycles_CUDA.destroygather)(&aggregation->small.gather));
  PetscCall((*AggregationCycles_CUDA.destroyinverse)(&aggregation->coarsest.inverse));
  aggregation->coarsest.transposed = NULL;
#endif
  for (; aggregation->count > 0; aggregation->count--) {
    AggregationLevel *level = &aggregation->level[aggregation->count - 1];

    PetscCall(MatDestroy(&level->A));
    PetscCall(MatDestroy(&level->P));
    PetscCall(MatDestroy(&level->copy));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes a copy of a matrix in the type of the operator, or takes the matrix itself if it has that type, or MATAIJ is as good */
static PetscErrorCode PCAggregationCopy(PC pc, Mat A, Mat *copy)
{
  PetscBool cuda, same;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)pc->pmat, &cuda, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &same, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, MATSHELL, ""));
  if (cuda && !same) PetscCall(MatConvert(A, MATAIJCUSPARSE, MAT_INITIAL_MATRIX, copy));
  else {
    PetscCall(PetscObjectReference((PetscObject)A));
    *copy = A;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A of the finest level: the operator, or a copy of type MATAIJ, unless levels are made on the GPU. MatConvert() of PETSc cannot
   reuse a copy of types derived from MATAIJ: with MATAIJPERM it frees arrays of the operator
*/
static PetscErrorCode PCAggregationGetFinest(PC pc, MatReuse reuse, Mat *A)
{
  PetscBool aij, derived, shell;

  PetscFunctionBegin;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)pc->pmat, &shell, MATSHELL, MATMFFD, ""));
  PetscCheck(!shell, PetscObjectComm((PetscObject)pc), PETSC_ERR_SUP,
             "-%spc_type aggregation: a matrix of type %s has no entries, which are needed for aggregates", IDRSPrefix(pc),
             ((PetscObject)pc->pmat)->type_name);
  PetscCall(PetscObjectTypeCompareAny((PetscObject)pc->pmat, &aij, MATSEQAIJ, MATMPIAIJ, ""));
  PetscCall(PetscObjectBaseTypeCompareAny((PetscObject)pc->pmat, &derived, MATSEQAIJ, MATMPIAIJ, ""));
  if (PCAggregationGet(pc)->ops != &Aggregates_Host) aij = PETSC_TRUE;
  if (aij && reuse == MAT_INITIAL_MATRIX) {
    PetscCall(PetscObjectReference((PetscObject)pc->pmat));
    *A = pc->pmat;
  } else if (!aij && derived && reuse == MAT_REUSE_MATRIX) PetscCall(MatCopy(pc->pmat, *A, SAME_NONZERO_PATTERN));
  else if (!aij) PetscCall(MatConvert(pc->pmat, MATAIJ, reuse, A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Makes the step P from a level to the next coarser one, or none if there are few rows, or hardly fewer aggregates. `why` is the
   reason why the operations do not support the level, or NULL
*/
static PetscErrorCode PCAggregationCoarsen(PC pc, AggregationLevel *level, const char *why[])
{
  PetscInt kind, N, coarser;

  PetscFunctionBegin;
  *why = NULL;
  PetscCall(MatGetSize(level->A, &N, NULL));
  if (N <= PCAggregationGetCoarsest(pc)) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall((*PCAggregationGet(pc)->ops->create)(level->A, &level->kind, &level->P, why));
  if (*why) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(MatGetSize(level->P, NULL, &coarser));
  if (!coarser || coarser > AGGREGATION_LARGEST * N) PetscCall(MatDestroy(&level->P));
  kind = (PetscInt)level->kind; /* processes may differ: the smaller correction */
  IDRSCallAllreduce(MPI_IN_PLACE, &kind, 1, MPIU_INT, MPI_MAX, PetscObjectComm((PetscObject)pc));
  level->kind = (AggregatesKind)kind;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the matrix of the next coarser level */
static PetscErrorCode PCAggregationMultiply(PC pc, AggregationLevel *level, MatReuse reuse)
{
  PetscFunctionBegin;
  PetscCall((*PCAggregationGet(pc)->ops->product)(level->A, level->P, 1.0 / AggregatesCorrection[level->kind], reuse, &level[1].A));
  if (reuse == MAT_INITIAL_MATRIX) PetscCall(PCAggregationCopy(pc, level[1].A, &level[1].copy));
  else if (level[1].copy != level[1].A) PetscCall(MatCopy(level[1].A, level[1].copy, SAME_NONZERO_PATTERN));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The places for the levels, the fastest first. The host supports every matrix */
static const AggregatesOps *const AggregatesList[] = {
#if defined(PETSCIDRS_HAVE_CUDA)
  &Aggregates_CUDA,
#endif
  &Aggregates_Host};

/* Chooses the operations of this index in the list, or later ones if they do not support the matrix */
static PetscErrorCode PCAggregationChoose(PC pc, size_t index)
{
  const char *why = NULL;

  PetscFunctionBegin;
  for (;; index++) {
    PetscCall((*AggregatesList[index]->runs)(pc->pmat, &why));
    if (!why) break;
    PetscCall(PetscInfo(pc, "The levels are not made %s: %s\n", AggregatesList[index]->where, why));
  }
  PCAggregationGet(pc)->ops = AggregatesList[index];
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A coarse level is visited more than once */
static PetscErrorCode PCAggregationSetSmoother(KSP smoother, PetscBool coarse)
{
  PC poly;

  PetscFunctionBegin;
  PetscCall(KSPSetType(smoother, KSPRICHARDSON));
  PetscCall(KSPSetTolerances(smoother, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT, 1));
  PetscCall(KSPSetNormType(smoother, KSP_NORM_NONE));
  PetscCall(KSPGetPC(smoother, &poly));
  PetscCall(PCSetType(poly, PCPOLY));
  PetscCall(PCPolySetDegree(poly, AGGREGATION_DEGREE));
  PetscUseMethod(poly, PCPOLY_SMOOTHER, (PC, PetscBool), (poly, coarse));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets a preconditioner for a level with few rows: each process has all of them, and makes two W cycles without messages */
static PetscErrorCode PCAggregationSetRedundant(PC pc)
{
  KSP each;
  PC  cycle;

  PetscFunctionBegin;
  PetscCall(PCSetType(pc, PCREDUNDANT));
  PetscCall(PCRedundantGetKSP(pc, &each));
  PetscCall(KSPSetType(each, KSPRICHARDSON));
  PetscCall(KSPSetTolerances(each, 0.0, 0.0, PETSC_DEFAULT, AGGREGATION_STEPS));
  PetscCall(KSPSetNormType(each, KSP_NORM_NONE));
  PetscCall(KSPGetPC(each, &cycle));
  PetscCall(PCSetType(cycle, PCAGGREGATION));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCAggregationMeasureRows(Mat A, AggregationRows *of)
{
  Vec rows;

  PetscFunctionBegin;
  PetscCall(MatCreateVecs(A, NULL, &rows));
  PetscCall(MatGetRowMaxAbs(A, rows, NULL));
  PetscCall(VecNorm(rows, NORM_INFINITY, &of->largest));
  PetscCall(VecReciprocal(rows)); /* rows of zeros keep 0 */
  PetscCall(VecNorm(rows, NORM_INFINITY, &of->reciprocal));
  PetscCall(VecDestroy(&rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Sets what LU does with a pivot of the size of rounding errors, as in the last row of a singular matrix: it is replaced by a large
   one, so the unknown is about zero, and its equation is not used
*/
static PetscErrorCode PCAggregationSetPivots(PC lu, const AggregationRows *rows)
{
  PetscFunctionBegin;
  PetscCall(PCFactorSetShiftType(lu, MAT_SHIFT_INBLOCKS));
  if (rows->reciprocal > 0.0 && PetscIsNormalReal(rows->reciprocal) && PetscIsNormalReal(rows->largest)) {
    PetscCall(PCFactorSetZeroPivot(lu, AGGREGATION_PIVOT * PETSC_MACHINE_EPSILON / rows->reciprocal));
    PetscCall(PCFactorSetShiftAmount(lu, rows->largest));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets `stale` unless the pivots that LU replaces are still of the size of rounding errors */
static PetscErrorCode PCAggregationCheckPivots(Mat A, const AggregationRows *before, PetscBool *stale)
{
  AggregationRows now;
  PetscReal       ratio[2];

  PetscFunctionBegin;
  PetscCall(PCAggregationMeasureRows(A, &now));
  ratio[0] = now.largest / before->largest;
  ratio[1] = now.reciprocal / before->reciprocal;
  *stale   = (PetscBool) !(ratio[0] < 100 && ratio[0] > 0.01 && ratio[1] < 100 && ratio[1] > 0.01);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Sets the solver of the coarsest level of N rows:

     levels made on      processes   N
     the GPU             1           up to AGGREGATION_COARSEST  the inverse
     GPUs                several     up to AGGREGATION_SMALL     two cycles on each process
     the host            any         up to AGGREGATION_DIRECT    LU, as PCMG does
     anything            any         larger                      PCPOLY, because its couplings are too weak for aggregates
*/
static PetscErrorCode PCAggregationSetCoarseSolve(PC pc)
{
  PC_Aggregation *aggregation = PCAggregationGet(pc);
  const PetscBool device      = (PetscBool)(aggregation->ops != &Aggregates_Host);
  const char     *prefix;
  PetscInt        N;
  PetscMPIInt     size;
  PetscBool       own;
  KSP             coarse;
  PC              inner;

  PetscFunctionBegin;
  PetscCall(MatGetSize(aggregation->level[aggregation->count - 1].A, &N, NULL));
  PetscCall(PetscInfo(pc, "Levels: %" PetscInt_FMT ", rows of the coarsest one: %" PetscInt_FMT "\n", aggregation->count, N));
  PetscCall(PCMGGetCoarseSolve(pc, &coarse));
  if (aggregation->count == 1) { /* as PCMG does if there are several levels */
    PetscCall(PCGetOptionsPrefix(pc, &prefix));
    PetscCall(KSPSetOptionsPrefix(coarse, prefix));
    PetscCall(KSPAppendOptionsPrefix(coarse, "mg_coarse_"));
    PetscCall(KSPSetType(coarse, KSPPREONLY));
    PetscCall(KSPSetNormType(coarse, KSP_NORM_NONE));
  }
  PetscCall(KSPGetPC(coarse, &inner));
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)pc), &size));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)inner, &own, PCSHELL, PCPOLY, PCREDUNDANT, ""));
  if (own) PetscCall(PCSetType(inner, PCNONE)); /* the solver of earlier levels */
#if defined(PETSCIDRS_HAVE_CUDA)
  if (device && size == 1 && N <= AGGREGATION_COARSEST) {
    PetscCall(PCAggregationSetInverse_Private(inner, &PCAggregationGet(pc)->coarsest));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
#endif
  if (device && size > 1 && N <= AGGREGATION_SMALL) PetscCall(PCAggregationSetRedundant(inner));
  else if (N > AGGREGATION_DIRECT) {
    PetscCall(PCSetType(inner, PCPOLY));
    PetscCall(PCPolySetDegree(inner, AGGREGATION_LONG));
  } else {
    if (own || aggregation->count == 1) {
      if (size > 1) {
        PetscCall(PCSetType(inner, PCREDUNDANT));
        PetscCall(PCRedundantGetKSP(inner, &coarse));
        PetscCall(KSPGetPC(coarse, &inner));
      }
      PetscCall(PCSetType(inner, PCLU));
    }
    PetscCall(PCAggregationMeasureRows(aggregation->level[aggregation->count - 1].A, &aggregation->rows));
    PetscCall(PCAggregationSetPivots(inner, &aggregation->rows)); /* no effect on other types than LU */
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets `needs` if a solver of a level needs a matrix of one of PETSc's types, or may need it */
static PetscErrorCode SmootherNeedsEntries(KSP smoother, PetscBool *needs)
{
  const PetscObject object = (PetscObject)smoother;
  char              type[64];
  PetscBool         given, scaling, known;
  PC                pc;

  PetscFunctionBegin;
  PetscCall(KSPGetPC(smoother, &pc));
  PetscCall(PetscObjectTypeCompare((PetscObject)pc, PCPOLY, &known));
  PetscCall(PetscOptionsGetString(object->options, object->prefix, "-pc_type", type, sizeof(type), &given)); /* read by PCMG */
  if (given) PetscCall(PetscStrcmp(type, PCPOLY, &known));
  PetscCall(PetscOptionsHasName(object->options, object->prefix, "-pc_poly_scaling", &scaling));
  *needs = (PetscBool)(!known || scaling);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the matrix of a level for its solvers. A level that has had a matrix of one of PETSc's types keeps it */
static PetscErrorCode PCAggregationSetOperator(PC pc, const PC_MG_Levels *level, Mat A)
{
  PetscBool needs[2], had;
  Mat       before;

  PetscFunctionBegin;
  PetscCall(SmootherNeedsEntries(level->smoothd, &needs[0]));
  PetscCall(SmootherNeedsEntries(level->smoothu, &needs[1]));
  PetscCall(KSPGetOperatorsSet(level->smoothd, &had, NULL));
  if (had) {
    PetscCall(KSPGetOperators(level->smoothd, &before, NULL));
    had = (PetscBool)(before != A);
  }
  if (needs[0] || needs[1] || had) PetscCall((*PCAggregationGet(pc)->ops->entries)(A, &A));
  PetscCall(KSPSetOperators(level->smoothd, A, A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Reads the options of PCMG, if the program has asked for options */
static PetscErrorCode PCAggregationSetFromOptions(PC pc)
{
  PC_Aggregation *aggregation = PCAggregationGet(pc);
  PetscBool       set;

  PetscFunctionBegin;
  if (!pc->setfromoptionscalled) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscOptionsHasName(((PetscObject)pc)->options, ((PetscObject)pc)->prefix, "-pc_mg_levels", &set));
  PetscCheck(!set, PetscObjectComm((PetscObject)pc), PETSC_ERR_ARG_WRONG,
             "-%spc_mg_levels: -%spc_type aggregation has as many levels as the matrix needs", IDRSPrefix(pc), IDRSPrefix(pc));
  PetscObjectOptionsBegin((PetscObject)pc);
  PetscCall((*aggregation->setfromoptions)(pc, PetscOptionsObject));
  PetscOptionsEnd();
  /* -pc_mg_distinct_smoothup makes smoothers of the same types, with their defaults */
  for (PetscInt l = 1; l < aggregation->count; l++) {
    const PC_MG_Levels *level = ((PC_MG *)pc->data)->levels[l];

    if (level->smoothu != level->smoothd)
      PetscCall(PCAggregationSetSmoother(level->smoothu, (PetscBool)(l + 1 < aggregation->count)));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes all levels, and sets them in PCMG, whose level 0 is the coarsest one */
static PetscErrorCode PCAggregationCreateLevels(PC pc)
{
  PC_Aggregation *aggregation = PCAggregationGet(pc);
  const char     *why         = NULL;
  KSP             smoother;

  PetscFunctionBegin;
  for (size_t index = 0; !index || why; index++) {
    PetscCall(PCAggregationDestroyLevels(aggregation));
    PetscCall(PCAggregationChoose(pc, index));
    PetscCall(PCAggregationGetFinest(pc, MAT_INITIAL_MATRIX, &aggregation->level[0].A));
    for (aggregation->count = 1; aggregation->count < AGGREGATION_LEVELS; aggregation->count++) {
      AggregationLevel *level = &aggregation->level[aggregation->count - 1];

      PetscCall(PCAggregationCoarsen(pc, level, &why));
      if (!level->P) break;
      PetscCall(PCAggregationMultiply(pc, level, MAT_INITIAL_MATRIX));
    }
    if (why) PetscCall(PetscInfo(pc, "The levels are not made %s: %s\n", aggregation->ops->where, why));
  }
  PetscCall(PCMGSetLevels(pc, aggregation->count, NULL));
  for (PetscInt l = 1; l < aggregation->count; l++) {
    Mat P;

    PetscCall(PCAggregationCopy(pc, aggregation->level[aggregation->count - 1 - l].P, &P));
    PetscCall(PCMGSetInterpolation(pc, l, P));
    PetscCall(MatDestroy(&P));
    PetscCall(PCMGGetSmoother(pc, l, &smoother));
    PetscCall(PCAggregationSetSmoother(smoother, (PetscBool)(l + 1 < aggregation->count)));
  }
  PetscCall(PCAggregationSetCoarseSolve(pc));
  PetscCall(PCMGSetCycleType(pc, PC_MG_CYCLE_W));
  PetscCall(PCAggregationSetFromOptions(pc));
  PetscCall(PCMGSetGalerkin(pc, PC_MG_GALERKIN_EXTERNAL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes the coarse matrices for new values in the same pattern. If a row without an aggregate has got couplings, the coarsest
   level is large, or its entries have another size, `stale` is true, and all levels must be made again
*/
static PetscErrorCode PCAggregationUpdateLevels(PC pc, PetscBool *stale)
{
  PC_Aggregation *aggregation = PCAggregationGet(pc);
  const char     *why         = NULL;
  PetscInt        missing, N;

  PetscFunctionBegin;
  PetscCall(MatGetSize(aggregation->level[aggregation->count - 1].A, &N, NULL));
  PetscCall((*aggregation->ops->runs)(pc->pmat, &why));
  *stale = (PetscBool)(why || N > PCAggregationGetCoarsest(pc));
  if (*stale) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PCAggregationGetFinest(pc, MAT_REUSE_MATRIX, &aggregation->level[0].A));
  for (PetscInt l = 0; l + 1 < aggregation->count; l++) {
    AggregationLevel *level = &aggregation->level[l];

    PetscCall((*aggregation->ops->missing)(level->A, level->P, &missing));
    IDRSCallAllreduce(MPI_IN_PLACE, &missing, 1, MPIU_INT, MPI_SUM, PetscObjectComm((PetscObject)pc));
    *stale = (PetscBool)(missing > 0);
    if (*stale) PetscFunctionReturn(PETSC_SUCCESS);
    PetscCall(PCAggregationMultiply(pc, level, MAT_REUSE_MATRIX));
  }
  if (aggregation->rows.largest > 0.0)
    PetscCall(PCAggregationCheckPivots(aggregation->level[aggregation->count - 1].A, &aggregation->rows, stale));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Sets `plain` if cycle.c makes the cycles for these vectors. If they are unlike the vectors of the levels, or the program has
   changed a smoother since the set-up, PCMG makes them
*/
static PetscErrorCode PCAggregationIsPlainFor(PC pc, Vec b, Vec x, PetscBool *plain)
{
  const PC_Aggregation *aggregation = PCAggregationGet(pc);
  const Vec             r           = ((const PC_MG *)pc->data)->levels[aggregation->count - 1]->r;
  IDRSMemory            place[3];
  PetscBool             several;

  PetscFunctionBegin;
  *plain = aggregation->plain;
  if (!*plain || !r) PetscFunctionReturn(PETSC_SUCCESS);
  for (int k = 0; k < 3; k++) {
    const Vec v = k == 0 ? r : (k == 1 ? b : x);

    PetscCall(IDRSVecWhere(v, &place[k]));
    if (*plain) PetscCall(PetscObjectTypeCompare((PetscObject)v, ((PetscObject)r)->type_name, plain));
    if (place[k] != place[0]) *plain = PETSC_FALSE;
  }
  for (PetscInt l = 1; *plain && l < aggregation->count; l++) {
    PC               smoother;
    PetscObjectState state;

    PetscCall(KSPGetPC(((const PC_MG *)pc->data)->levels[l]->smoothd, &smoother));
    PetscCall(PetscObjectStateGet((PetscObject)smoother, &state));
    if (!smoother->setupcalled || state != aggregation->level[aggregation->count - 1 - l].smoother) *plain = PETSC_FALSE;
  }
  PetscCall(PetscObjectTypeCompare((PetscObject)r, VECMPICUDA, &several));
  if (several) { /* parts of some processes may be bound to the CPU, and PCMG multiplies more often */
    PetscMPIInt all = *plain ? 1 : 0;

    IDRSCallAllreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, PetscObjectComm((PetscObject)pc));
    *plain = all ? PETSC_TRUE : PETSC_FALSE;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCApply_Aggregation(PC pc, Vec b, Vec x)
{
  const PC_Aggregation *aggregation = PCAggregationGet(pc);
  PetscBool             plain;

  PetscFunctionBegin;
  PetscCall(PCAggregationIsPlainFor(pc, b, x, &plain));
  if (plain) PetscCall(PCAggregationVisit_Private(pc, &aggregation->small, aggregation->count - 1, 1, b, x));
  else PetscCall((*aggregation->apply)(pc, b, x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Few steps of KSPRICHARDSON without tolerances, from x = 0, are visits of the finest level. Many steps would converge to the
   solution of a system with the rounded matrix of the copies
*/
static PetscErrorCode PCApplyRichardson_Aggregation(PC pc, Vec b, Vec x, Vec w, PetscReal rtol, PetscReal atol, PetscReal dtol,
                                                    PetscInt its, PetscBool zero, PetscInt *outits,
                                                    PCRichardsonConvergedReason *reason)
{
  const PC_Aggregation *aggregation = PCAggregationGet(pc);
  PetscBool             plain;

  PetscFunctionBegin;
  PetscCall(PCAggregationIsPlainFor(pc, b, x, &plain));
  if (!plain || !zero || its > AGGREGATION_STEPS || rtol > 0.0 || atol > 0.0 || aggregation->count == 1) {
    PetscCall((*aggregation->applyrichardson)(pc, b, x, w, rtol, atol, dtol, its, zero, outits, reason));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(PCAggregationVisit_Private(pc, &aggregation->small, aggregation->count - 1, its, b, x));
  *outits = its;
  *reason = PCRICHARDSON_CONVERGED_ITS;
  PetscFunctionReturn(PETSC_SUCCESS);
}

#if defined(PETSCIDRS_HAVE_CUDA)
/* Makes the kernel for the small levels. On several processes the PC inside PCREDUNDANT makes it, and level 0 uses it */
static PetscErrorCode PCAggregationSetUpCycle(PC pc)
{
  PC_Aggregation         *aggregation = PCAggregationGet(pc);
  const AggregationSmall *own         = NULL;
  const KSP               coarse      = ((PC_MG *)pc->data)->levels[0]->smoothd;
  PetscMPIInt             size;
  PetscBool               redundant, preonly, same = PETSC_FALSE;
  KSP                     each = NULL;
  PC                      inner;

  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_size(PetscObjectComm((PetscObject)pc), &size));
  if (size == 1) {
    PetscCall(PCAggregationSetUpSmall_Private(pc, &aggregation->coarsest, &aggregation->small));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(KSPGetPC(coarse, &inner));
  PetscCall(PetscObjectTypeCompare((PetscObject)coarse, KSPPREONLY, &preonly));
  PetscCall(PetscObjectTypeCompare((PetscObject)inner, PCREDUNDANT, &redundant));
  if (redundant && preonly && !coarse->numbermonitors) {
    PetscCall(PCRedundantGetKSP(inner, &each));
    PetscCall(KSPGetPC(each, &inner));
    PetscCall(PetscObjectTypeCompare((PetscObject)inner, PCAGGREGATION, &same));
  }
  if (same) {
    PetscCall(KSPSetUp(each));
    own = &PCAggregationGet(inner)->small;
    if (own->levels < PCAggregationGet(inner)->count) own = NULL;
  }
  PetscCall(PCAggregationConnectSmall_Private(pc, each, own, &aggregation->small));
  PetscFunctionReturn(PETSC_SUCCESS);
}
#endif

static PetscErrorCode PCSetUp_Aggregation(PC pc)
{
  PC_Aggregation *aggregation = PCAggregationGet(pc);
  PetscBool       stale       = PETSC_TRUE, same;
  PC              inner;

  PetscFunctionBegin;
  same = IDRSPatternIsSame(pc->flag, pc->pmat, &aggregation->pmatid);
  if (pc->setupcalled && same) PetscCall(PCAggregationUpdateLevels(pc, &stale));
  if (stale) {
    PetscCall((*aggregation->reset)(pc)); /* also after a set-up that ended with an error */
    pc->setupcalled = PETSC_FALSE;
    PetscCall(PCAggregationCreateLevels(pc));
  }
  PetscCall(PCSetFailedReason(pc, PC_NOERROR)); /* PCMG sets failures only */
  PetscCall(KSPGetPC(((PC_MG *)pc->data)->levels[0]->smoothd, &inner));
  PetscCall(PCSetFailedReason(inner, PC_NOERROR)); /* so does PCREDUNDANT */
  for (PetscInt l = 0; l + 1 < aggregation->count; l++)
    PetscCall(PCAggregationSetOperator(pc, ((PC_MG *)pc->data)->levels[l], aggregation->level[aggregation->count - 1 - l].copy));
#if defined(PETSCIDRS_HAVE_CUDA)
  PetscCall(PCAggregationBeginInverse_Private(pc, aggregation->level[aggregation->count - 1].A, &aggregation->coarsest));
#endif
  PetscCall((*aggregation->setup)(pc));
  PetscCall(PCAggregationIsPlain_Private(pc, &aggregation->plain));
  for (PetscInt l = 1; l < aggregation->count; l++) {
    PetscCall(KSPGetPC(((PC_MG *)pc->data)->levels[l]->smoothd, &inner));
    PetscCall(PetscObjectStateGet((PetscObject)inner, &aggregation->level[aggregation->count - 1 - l].smoother));
  }
  /* PCMGSetType() sets PCMG's function, or none */
  if (pc->ops->applyrichardson && pc->ops->applyrichardson != PCApplyRichardson_Aggregation) {
    aggregation->applyrichardson = pc->ops->applyrichardson;
    pc->ops->applyrichardson     = PCApplyRichardson_Aggregation;
  }
#if defined(PETSCIDRS_HAVE_CUDA)
  PetscCall(PCAggregationDestroyCycle(&aggregation->small));
  if (aggregation->plain && aggregation->count > 1 && aggregation->ops == &Aggregates_CUDA) PetscCall(PCAggregationSetUpCycle(pc));
#endif
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCView_Aggregation(PC pc, PetscViewer viewer)
{
  PC_Aggregation *aggregation = PCAggregationGet(pc);
  PetscBool       ascii;
  MatInfo         info;
  PetscInt        N;

  PetscFunctionBegin;
  PetscCall((*aggregation->view)(pc, viewer));
  PetscCall(PetscObjectTypeCompare((PetscObject)viewer, PETSCVIEWERASCII, &ascii));
  if (ascii && aggregation->count) {
    PetscCall(PetscViewerASCIIPrintf(viewer, "  coarse matrices are computed %s\n", aggregation->ops->where));
    if (aggregation->small.gather && aggregation->small.cycle)
      PetscCall(PetscViewerASCIIPrintf(viewer, "  level 0 in one kernel, which exchanges the right-hand side\n"));
    else if (aggregation->small.cycle)
      PetscCall(PetscViewerASCIIPrintf(viewer, "  levels 0 to %" PetscInt_FMT " in one kernel\n", aggregation->small.levels - 1));
  }
  for (PetscInt l = 0; ascii && l < aggregation->count; l++) {
    const AggregationLevel *level = &aggregation->level[l];

    PetscCall(MatGetSize(level->A, &N, NULL));
    PetscCall(MatGetInfo(level->A, MAT_GLOBAL_SUM, &info));
    PetscCall(PetscViewerASCIIPrintf(viewer, "  level %" PetscInt_FMT ": %" PetscInt_FMT " rows, %g nonzeros%s%s\n",
                                     aggregation->count - 1 - l, N, info.nz_used, level->P ? ", aggregates: " : "",
                                     level->P ? AggregatesKinds[level->kind] : ""));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCReset_Aggregation(PC pc)
{
  PC_Aggregation *aggregation = PCAggregationGet(pc);

  PetscFunctionBegin;
  PetscCall(PCAggregationDestroyLevels(aggregation));
  PetscCall((*aggregation->reset)(pc));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode PCDestroy_Aggregation(PC pc)
{
  PC_Aggregation *aggregation   = PCAggregationGet(pc);
  PetscErrorCode (*destroy)(PC) = aggregation->destroy;

  PetscFunctionBegin;
  PetscCall(PCReset_Aggregation(pc));
  PetscCall(PetscFree(aggregation));
  PetscCall((*destroy)(pc));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The options of PCMG are read when the levels are known */
static PetscErrorCode PCSetFromOptions_Aggregation(PC pc, IDRSOptionItems PetscOptionsObject)
{
  PetscFunctionBegin;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*MC
  PCAGGREGATION - Algebraic multigrid with plain aggregates and a polynomial smoother, for nonsymmetric systems

  Level: beginner

  Options Database Keys:
+ -pc_mg_cycle_type (w|v)        - cycles (default w)
. -mg_levels_pc_poly_degree d    - degree of the smoother `PCPOLY` (default 4)
. -mg_levels_pc_poly_smoother    - see `PCPOLY` (default true)
- -mg_coarse_pc_type type        - solver of the coarsest level, which has at most 600 rows unless couplings are too weak for
                                   aggregates (default lu, on one GPU the inverse, or `PCPOLY` of degree 16 above 3000 rows)

  Notes:
  The type comes from the plugin libpetscidrs, with `-dll_append path/libpetscidrs.so` or `KSPIDRSRegister()`. It serves every
  `KSP`, and needs no options.

  `PCMG` makes the cycles. Its options and functions work, except `-pc_mg_levels`. Level 0 is the coarsest one. A coarse level has
  one unknown for each aggregate of rows, and its matrix has sums of entries, so a set-up takes less time than with smoothed
  aggregation. If all entries of the matrix are between neighbours of a structured grid, and the rows have the order of its
  points, the aggregates are boxes of two points in each direction in which the couplings are strong. Otherwise rows are joined to
  pairs by the strength of their couplings, twice, or three times if rows have five strong ones on average. Rows without couplings
  are in no aggregate.

  Coarse matrices are divided by 1.6 for boxes and by 1.5 for pairs, because corrections that are constant in aggregates are too
  small. The smoother is one step of `KSPRICHARDSON` with `PCPOLY`.

  New values in the same pattern give new coarse matrices for the same aggregates. On several processes an aggregate has rows of
  one process, and only couplings inside a process count. The levels are computed from Pmat. With `-pc_use_amat` the residuals of
  the finest level are computed with Amat.

  The smoother and residual of a level may have the precision of the copy of `PCPOLY`, see `-pc_poly_precision`: half on the
  finest level and single on coarse ones. If the matrix is on GPUs, the levels are made there; several processes need PETSc 3.26.
  On one GPU the matrix of a coarse level with more than 20 000 rows is a `MATSHELL`, which `MatConvert()` converts to `MATAIJ`,
  unless another preconditioner than `PCPOLY` or `-mg_levels_pc_poly_scaling` is set for the level, and the levels of at most
  20 000 rows are visited in one kernel, if their vectors fit in the shared memory of its blocks. On several processes
  each of them visits the levels of at most 20 000 rows for all, with `PCREDUNDANT` and options that begin with
  `-mg_coarse_redundant_`; if GPUs map each other's memory, this kernel exchanges the right-hand side. `-ksp_view` shows it. If
  the type of cycle is not multiplicative, or a level has another smoother, monitors, or `-ksp_richardson_scale`, `PCMG` makes the
  cycles with one kernel for each operation; a factor of `KSPRichardsonSetScale()` is not seen and has no effect. Functions of
  `PCMG` that a program calls between solves take effect at the next set-up.

  The matrix must be of type `MATAIJ`, or of a type that `MatConvert()` converts to it.

  References:
  D. Braess, Towards algebraic multigrid for elliptic problems of second order, Computing 55 (1995); Y. Notay, An aggregation-based
  algebraic multigrid method, Electron. Trans. Numer. Anal. 37 (2010)

.seealso: [](ch_ksp), `PCMG`, `PCGAMG`, `PCPOLY`, `KSPIDRS`, `KSPIDRSRegister()`
M*/
PETSC_INTERN PetscErrorCode PCCreate_Aggregation(PC pc)
{
  PC_Aggregation *aggregation;

  PetscFunctionBegin;
  PetscCall(PetscNew(&aggregation));
  PetscCall(PCSetType(pc, PCMG));
  PetscCall(PetscObjectChangeTypeName((PetscObject)pc, PCAGGREGATION));
  PetscCall(PCSetUseAmat(pc, PETSC_FALSE)); /* coarse levels are computed from Pmat */
  ((PC_MG *)pc->data)->innerctx = aggregation;
  aggregation->setup            = pc->ops->setup;
  aggregation->apply            = pc->ops->apply;
  aggregation->reset            = pc->ops->reset;
  aggregation->destroy          = pc->ops->destroy;
  aggregation->view             = pc->ops->view;
  aggregation->setfromoptions   = pc->ops->setfromoptions;
  pc->ops->setup                = PCSetUp_Aggregation;
  pc->ops->apply                = PCApply_Aggregation;
  pc->ops->reset                = PCReset_Aggregation;
  pc->ops->destroy              = PCDestroy_Aggregation;
  pc->ops->view                 = PCView_Aggregation;
  pc->ops->setfromoptions       = PCSetFromOptions_Aggregation;
  PetscFunctionReturn(PETSC_SUCCESS);
}
