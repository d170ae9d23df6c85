static char help[] = "PCBJIDRS: every block that is reported as converged is compared with b - A x computed here; blocks of many\n\
sizes and from every source, bad blocks among good ones, several right-hand sides, use as a\n\
preconditioner, and bad input.\n\n";

#include "systems.h"

/* Numbers of rows of the blocks on all processes, in turn */
static const PetscInt mixed[] = {1, 2, 3, 5, 16, 31, 64, 65, 200, 257, 1, 700};

/* Kinds of blocks: well conditioned, with a first row of zeros, with a NaN */
typedef enum {
  GOOD,
  SINGULAR,
  NOT_A_NUMBER
} Kind;

/* Returns a number in (-1,1) that does not depend on the number of processes */
static PetscScalar Noise(PetscInt seed, PetscInt i, PetscInt j)
{
  const PetscReal re = PetscSinReal((PetscReal)(1 + seed % 97) * 12.9898 + (PetscReal)(i % 1009) * 78.233 +
                                    (PetscReal)(j % 1013) * 37.719);

  return PetscDefined(USE_COMPLEX) ? PetscCMPLX(re, PetscCosReal(3 * re)) : (PetscScalar)re;
}

/* Computes row i of a block of n rows: convection and diffusion on a grid whose lines have 12 points, and some noise */
static PetscInt BlockRow(PetscInt seed, PetscInt n, Kind kind, PetscInt i, PetscInt columns[], PetscScalar values[])
{
  const PetscInt  offset[] = {0, -1, 1, -12, 12};
  const PetscReal wind     = 0.1 * (PetscReal)(seed % 7);
  PetscInt        count    = 0;

  if (kind == SINGULAR && i == 0) return 0;
  for (size_t l = 0; l < PETSC_STATIC_ARRAY_LENGTH(offset); l++) {
    const PetscInt j = i + offset[l];

    if (j < 0 || j >= n) continue;
    columns[count]  = j;
    values[count++] = (l == 0 ? 4.2 : (offset[l] < 0 ? -1.0 - wind : -1.0 + wind)) + 0.1 * Noise(seed, i, j);
  }
  if (kind == NOT_A_NUMBER && i == n / 2) values[0] = NAN;
  return count;
}

/*
   The blocks of this process, out of all blocks in the order of the processes; a matrix with these diagonal blocks, vectors, and a
   preconditioner, or NULL
*/
typedef struct {
  PetscInt  n, first, rows, rstart;
  PetscInt *sizes, *starts;
  Mat       A;
  Vec       b, x;
  PC        pc;
} Batch;

/*
   Creates a batch. With coupling each row has an entry left of its block, and one right of it. Block number bad is of this kind,
   the others are good
*/
static PetscErrorCode BatchCreate(PetscInt all, const PetscInt sizes[], PetscInt period, PetscReal coupling, PetscInt bad,
                                  Kind kind, Batch *batch)
{
  PetscMPIInt rank, size;
  PetscInt    N;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  batch->first = all * rank / size;
  batch->n     = all * (rank + 1) / size - batch->first;
  batch->pc    = NULL;
  PetscCall(PetscMalloc2(batch->n, &batch->sizes, batch->n + 1, &batch->starts));
  batch->starts[0] = 0;
  for (PetscInt i = 0; i < batch->n; i++) {
    batch->sizes[i]      = sizes[(batch->first + i) % period];
    batch->starts[i + 1] = batch->starts[i] + batch->sizes[i];
  }
  batch->rows = batch->starts[batch->n];
  PetscCall(MatCreate(PETSC_COMM_WORLD, &batch->A));
  PetscCall(MatSetSizes(batch->A, batch->rows, batch->rows, PETSC_DETERMINE, PETSC_DETERMINE));
  PetscCall(MatSetType(batch->A, MATAIJ));
  PetscCall(MatSetFromOptions(batch->A));
  PetscCall(MatSeqAIJSetPreallocation(batch->A, 7, NULL));
  PetscCall(MatMPIAIJSetPreallocation(batch->A, 7, NULL, 2, NULL));
  PetscCall(MatGetOwnershipRange(batch->A, &batch->rstart, NULL));
  PetscCall(MatGetSize(batch->A, &N, NULL));
  for (PetscInt k = 0; k < batch->n; k++) {
    const PetscInt number = batch->first + k, begin = batch->rstart + batch->starts[k], end = batch->rstart + batch->starts[k + 1];

    for (PetscInt i = 0; i < batch->sizes[k]; i++) {
      PetscInt    columns[7], count;
      PetscScalar values[7];

      count = BlockRow(number, batch->sizes[k], number == bad ? kind : GOOD, i, columns, values);
      for (PetscInt l = 0; l < count; l++) columns[l] += begin;
      if (coupling > 0.0 && begin > 0) {
        columns[count]  = (begin - 1) % N;
        values[count++] = coupling;
      }
      if (coupling > 0.0 && end < N) {
        columns[count]  = end;
        values[count++] = -coupling;
      }
      for (PetscInt l = 0; l < count; l++) PetscCall(MatSetValue(batch->A, begin + i, columns[l], values[l], INSERT_VALUES));
    }
  }
  PetscCall(MatAssemble(batch->A));
  PetscCall(MatCreateVecs(batch->A, &batch->x, &batch->b));
  PetscCall(VecSetGeneral(batch->b, 0.3));
  PetscFunctionReturn(PETSC_SUCCESS);
}

#define MIXED PETSC_STATIC_ARRAY_LENGTH(mixed)

static PetscErrorCode BatchDestroy(Batch *batch)
{
  PetscFunctionBeginUser;
  PetscCall(PetscFree2(batch->sizes, batch->starts));
  PetscCall(DestroyAll(&batch->pc, &batch->x, &batch->b, &batch->A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a preconditioner of A with these inner settings */
static PetscErrorCode SolverSet(Mat A, PetscInt s, PetscInt seed, const char inside[], PetscReal tolerance, PetscInt maxits, PC *pc)
{
  KSP inner;
  PC  innerpc;

  PetscFunctionBeginUser;
  PetscCall(PCDestroy(pc));
  PetscCall(PCCreate(PetscObjectComm((PetscObject)A), pc));
  PetscCall(PCSetOperators(*pc, A, A));
  PetscCall(PCSetType(*pc, PCBJIDRS));
  PetscCall(PCBJIDRSGetKSP(*pc, &inner));
  PetscCall(KSPIDRSSetShadowSize(inner, s));
  PetscCall(KSPIDRSSetShadowSeed(inner, seed));
  PetscCall(KSPSetTolerances(inner, tolerance, 0.0, PETSC_DEFAULT, maxits));
  PetscCall(KSPGetPC(inner, &innerpc));
  PetscCall(PCSetType(innerpc, inside));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the number of blocks of the same size */
static PetscErrorCode BlocksSet(PC pc, PetscInt blocks)
{
  char number[32];

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(number, sizeof(number), "%" INT, blocks));
  PetscCall(PetscOptionsSetValue(NULL, "-pc_bjidrs_blocks", number));
  PetscCall(PCSetFromOptions(pc));
  PetscCall(PetscOptionsClearValue(NULL, "-pc_bjidrs_blocks"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes ||b|| and ||b - A x|| of one block, without the entries outside it */
static PetscErrorCode BlockResidual(const Batch *batch, PetscInt k, const PetscScalar b[], const PetscScalar x[], PetscReal *bnorm,
                                    PetscReal *rnorm)
{
  const PetscInt begin = batch->starts[k], end = batch->starts[k + 1], rstart = batch->rstart;
  PetscReal      bb = 0.0, rr = 0.0, largest = 0.0;

  PetscFunctionBeginUser;
  for (PetscInt i = begin; i < end; i++) largest = PetscMax(largest, PetscAbsScalar(b[i]));
  for (PetscInt i = begin; i < end; i++) {
    PetscInt           count;
    const PetscInt    *columns;
    const PetscScalar *values;
    PetscScalar        r = b[i];

    PetscCall(MatGetRow(batch->A, rstart + i, &count, &columns, &values));
    for (PetscInt l = 0; l < count; l++) {
      if (columns[l] - rstart >= begin && columns[l] - rstart < end) r -= values[l] * x[columns[l] - rstart];
    }
    PetscCall(MatRestoreRow(batch->A, rstart + i, &count, &columns, &values));
    if (largest > 0.0) {
      bb += PetscSqr(PetscAbsScalar(b[i] / largest));
      rr += PetscSqr(PetscAbsScalar(r / largest));
    }
  }
  *bnorm = largest * PetscSqrtReal(bb);
  *rnorm = largest * PetscSqrtReal(rr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Checks that every block has converged and x solves it, in single precision up to rounding errors, except the block with this
   number, if there is one
*/
static PetscErrorCode CheckBlocks(const char what[], const Batch *batch, PetscReal tolerance, PetscInt but, Vec b, Vec x)
{
  const KSPConvergedReason *reasons;
  const PetscInt           *its;
  const PetscReal          *norms;
  const PetscScalar        *barray, *xarray;
  const PetscReal           bound = PetscDefined(USE_REAL_SINGLE) ? tolerance + 10 * PETSC_MACHINE_EPSILON : 1.01 * tolerance;
  PetscInt                  n;

  PetscFunctionBeginUser;
  PetscCall(PCBJIDRSGetResults(batch->pc, &n, &reasons, &its, &norms));
  PetscCall(ComplainIf(n != batch->n, "%s: %" INT " results of %" INT " blocks", what, n, batch->n));
  PetscCall(VecGetArrayRead(b, &barray));
  PetscCall(VecGetArrayRead(x, &xarray));
  for (PetscInt k = 0; k < PetscMin(n, batch->n); k++) {
    const PetscInt rows = batch->sizes[k];
    PetscReal      bnorm, rnorm;

    if (batch->first + k == but) continue;
    PetscCall(BlockResidual(batch, k, barray, xarray, &bnorm, &rnorm));
    PetscCall(ComplainIf(reasons[k] <= 0, "%s: block %" INT " with %" INT " rows: %s after %" INT " iterations, %g of %g", what, k,
                         rows, KSPConvergedReasons[reasons[k]], its[k], (double)norms[k], (double)bnorm));
    PetscCall(ComplainIf(!(rnorm <= bound * bnorm), "%s: block %" INT " with %" INT " rows: ||b - A x|| = %g, ||b|| = %g", what, k,
                         rows, (double)rnorm, (double)bnorm));
    PetscCall(ComplainIf(!(PetscAbsReal(rnorm - norms[k]) <= PetscMax(0.01 * tolerance, 10 * PETSC_MACHINE_EPSILON) * bnorm),
                         "%s: block %" INT " with %" INT " rows: ||b - A x|| = %g, said to be %g", what, k, rows, (double)rnorm,
                         (double)norms[k]));
  }
  PetscCall(VecRestoreArrayRead(x, &xarray));
  PetscCall(VecRestoreArrayRead(b, &barray));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Applies the preconditioner to b, and checks that it has not failed and has solved all blocks */
static PetscErrorCode CheckSolve(const char what[], const Batch *batch, PetscReal tolerance)
{
  PCFailedReason failed;

  PetscFunctionBeginUser;
  PetscCall(PCApply(batch->pc, batch->b, batch->x));
  PetscCall(PCGetFailedReason(batch->pc, &failed));
  PetscCall(ComplainIf(failed, "%s: %s", what, PCFailedReasons[failed]));
  PetscCall(CheckBlocks(what, batch, tolerance, -1, batch->b, batch->x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Finds the blocks in which two vectors have the same bits */
static PetscErrorCode CompareBlocks(const Batch *batch, Vec x, Vec y, PetscBool same[])
{
  const PetscScalar *xarray, *yarray;

  PetscFunctionBeginUser;
  PetscCall(VecGetArrayRead(x, &xarray));
  PetscCall(VecGetArrayRead(y, &yarray));
  for (PetscInt k = 0; k < batch->n; k++)
    PetscCall(PetscArraycmp(xarray + batch->starts[k], yarray + batch->starts[k], batch->sizes[k], &same[k]));
  PetscCall(VecRestoreArrayRead(y, &yarray));
  PetscCall(VecRestoreArrayRead(x, &xarray));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns PETSC_TRUE if the systems are solved on a GPU */
static PetscErrorCode OnGPU(const Batch *batch, PetscBool *gpu)
{
  PetscBool cusparse;

  PetscFunctionBeginUser;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)batch->b, gpu, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)batch->A, &cusparse, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
  if (!cusparse) *gpu = PETSC_FALSE;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* All sizes, numbers of shadow vectors and seeds, with and without Jacobi and coupling */
static PetscErrorCode TestSolved(void)
{
  PetscFunctionBeginUser;
  for (PetscInt coupled = 0; coupled < 2; coupled++) {
    Batch batch;

    PetscCall(BatchCreate(3 * MIXED, mixed, MIXED, coupled ? 0.5 : 0.0, -1, GOOD, &batch));
    for (size_t l = 0; l < SIZES * 2; l++) {
      const PetscInt    s  = sizes[l / 2];
      const char *const pc = l % 2 ? PCJACOBI : PCNONE;
      char              what[128];

      PetscCall(PetscSNPrintf(what, sizeof(what), "s = %" INT ", %s%s", s, pc, coupled ? ", coupled" : ""));
      PetscCall(SolverSet(batch.A, s, (PetscInt)l, pc, rtol, 3000, &batch.pc));
      if (coupled) PetscCall(MatSetVariableBlockSizes(batch.A, batch.n, batch.sizes));
      PetscCall(CheckSolve(what, &batch, rtol));
    }
    PetscCall(BatchDestroy(&batch));
  }
  PetscCall(Verdict("all blocks are solved"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   If the diagonal entry of a row is zero, or far below the largest entry of the row in its block, the row is scaled by this entry;
   the view counts such rows. Entries outside the blocks do not matter
*/
static PetscErrorCode TestSmallDiagonal(void)
{
  const PetscInt  rows      = 60;
  const PetscReal entries[] = {0.0, 5e-5, 1e-2};

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(entries); i++) {
    char      what[64];
    PetscInt  lines;
    PetscReal number[1] = {0.0}, expected = entries[i] < 1e-3 ? 20 * rows / 4 : 0;
    Batch     batch;

    PetscCall(BatchCreate(20, &rows, 1, 1e7, -1, GOOD, &batch));
    for (PetscInt row = batch.rstart; row < batch.rstart + batch.rows; row += 4)
      PetscCall(MatSetValue(batch.A, row, row, entries[i], INSERT_VALUES));
    PetscCall(MatAssemble(batch.A));
    PetscCall(SolverSet(batch.A, 4, 0, PCJACOBI, rtol, 1000, &batch.pc));
    PetscCall(MatSetVariableBlockSizes(batch.A, batch.n, batch.sizes));
    PetscCall(PetscSNPrintf(what, sizeof(what), "diagonal entries of %g", (double)entries[i]));
    PetscCall(CheckSolve(what, &batch, rtol));
    PetscCall(CheckViewLines(what, (PetscObject)batch.pc));
    PetscCall(ViewNumbers((PetscObject)batch.pc, " times it): ", 1, number, &lines));
    PetscCall(ComplainIf(number[0] != expected, "%s: %g rows scaled by their largest entry instead of %g", what, (double)number[0],
                         (double)expected));
    PetscCall(BatchDestroy(&batch));
  }
  PetscCall(Verdict("small diagonal entries"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Blocks too large for the shared memory of a GPU beside small ones, and very many small ones */
static PetscErrorCode TestLarge(void)
{
  const PetscInt large[] = {3000, 1, 64, 2600}, small[] = {1, 2, 3};

  PetscFunctionBeginUser;
  for (size_t is = 0; is < SIZES + 1; is++) {
    const PetscBool many = (PetscBool)(is == SIZES);
    Batch           batch;

    PetscCall(BatchCreate(many ? 20000 : 4, many ? small : large, many ? 3 : 4, 0.0, -1, GOOD, &batch));
    PetscCall(SolverSet(batch.A, many ? 4 : sizes[is], 1, PCNONE, rtol, 3000, &batch.pc));
    PetscCall(CheckSolve(many ? "many blocks" : "large blocks", &batch, rtol));
    PetscCall(BatchDestroy(&batch));
  }
  PetscCall(Verdict("large blocks and many blocks"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   On a GPU: data in host memory is solved on the host, to the same tolerance. A block with one row more than the largest one is too
   large for a GPU only
*/
static PetscErrorCode TestBackEnds(void)
{
  const PetscInt most[] = {16000, 16001};

  PetscFunctionBeginUser;
  for (PetscInt large = 0; large < 3; large++) {
    Batch     batch;
    Vec       b, x;
    PetscBool gpu;

    PetscCall(BatchCreate(large ? 1 : MIXED, large ? &most[large - 1] : mixed, large ? 1 : MIXED, 0.0, -1, GOOD, &batch));
    PetscCall(OnGPU(&batch, &gpu));
    PetscCall(VecCreateMPI(PETSC_COMM_WORLD, batch.rows, PETSC_DETERMINE, &b));
    PetscCall(VecDuplicate(b, &x));
    PetscCall(VecCopy(batch.b, b));
    PetscCall(SolverSet(batch.A, 4, 0, PCJACOBI, rtol, 3000, &batch.pc));
    PetscCall(PCApply(batch.pc, b, x));
    PetscCall(CheckBlocks("vectors of the host", &batch, rtol, -1, b, x));
    if (large == 2 && gpu && batch.n) CheckRefused(PCApply(batch.pc, batch.b, batch.x), "PCBJIDRS", "16001");
    else PetscCall(CheckSolve("vectors of the matrix", &batch, rtol));
    PetscCall(DestroyAll(&x, &b));
    PetscCall(BatchDestroy(&batch));
  }
  PetscCall(Verdict("back ends"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The blocks of a matrix after another one, from all sources */
static PetscErrorCode TestSources(void)
{
  const PetscInt equal[] = {24};
  Batch          coupled, same;

  PetscFunctionBeginUser;
  PetscCall(BatchCreate(MIXED, mixed, MIXED, 0.5, -1, GOOD, &coupled));
  PetscCall(BatchCreate(10, equal, 1, 0.5, -1, GOOD, &same));
  PetscCall(MatSetVariableBlockSizes(coupled.A, coupled.n, coupled.sizes));
  PetscCall(SolverSet(coupled.A, 4, 0, PCNONE, rtol, 1000, &coupled.pc));
  PetscCall(CheckSolve("variable block sizes", &coupled, rtol));
  same.pc    = coupled.pc;
  coupled.pc = NULL;
  PetscCall(PCReset(same.pc));
  PetscCall(PCSetOperators(same.pc, same.A, same.A));
  PetscCall(BlocksSet(same.pc, PetscMax(same.n, 1)));
  PetscCall(CheckSolve("a number of blocks", &same, rtol));
  coupled.pc = same.pc;
  same.pc    = NULL;
  PetscCall(PCReset(coupled.pc));
  PetscCall(PCSetOperators(coupled.pc, coupled.A, coupled.A));
  PetscCall(BlocksSet(coupled.pc, 0));
  PetscCall(CheckSolve("variable block sizes again", &coupled, rtol));
  PetscCall(BatchDestroy(&same));
  PetscCall(BatchDestroy(&coupled));
  PetscCall(Verdict("where the blocks come from"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A bad block fails, is named, and its x is infinite, and the bits of the others do not change; the next application, to another b,
   is right again. The block ends long before the limit of iterations
*/
static PetscErrorCode TestBad(void)
{
  const PetscInt sizes[] = {40, 7, 100}, bad = 4;
  const Kind     kinds[] = {SINGULAR, NOT_A_NUMBER};
  PetscMPIInt    size;
  Batch          good;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(BatchCreate(9, sizes, 3, 0.0, -1, GOOD, &good));
  PetscCall(SolverSet(good.A, 4, 0, PCNONE, rtol, 1000, &good.pc));
  PetscCall(CheckSolve("good blocks", &good, rtol));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(kinds); i++) {
    const char *const         what = kinds[i] == SINGULAR ? "singular block" : "NaN block";
    const KSPConvergedReason *reasons;
    const PetscInt           *its;
    const PetscScalar        *array;
    PCFailedReason            failed;
    PetscErrorCode            ierr;
    PetscBool                 mine, same[9];
    PetscInt                  k;
    Batch                     batch;

    PetscCall(BatchCreate(9, sizes, 3, 0.0, bad, kinds[i], &batch));
    k    = bad - batch.first;
    mine = (PetscBool)(k >= 0 && k < batch.n);
    PetscCall(SolverSet(batch.A, 4, 0, PCNONE, rtol, 1000, &batch.pc));
    PetscCall(MatSetVariableBlockSizes(batch.A, batch.n, batch.sizes));
    PetscCall(PCApply(batch.pc, batch.b, batch.x));
    PetscCall(PCGetFailedReason(batch.pc, &failed));
    PetscCall(ComplainIf(failed != (mine ? PC_SUBPC_ERROR : PC_NOERROR), "%s: %s", what, PCFailedReasons[failed]));
    PetscCall(CheckBlocks(what, &batch, rtol, bad, batch.b, batch.x));
    PetscCall(PCBJIDRSGetResults(batch.pc, NULL, &reasons, &its, NULL));
    if (mine) PetscCall(ComplainIf(its[k] == 1000, "%s: %" INT " iterations", what, its[k]));
    if (mine)
      PetscCall(ComplainIf(kinds[i] == NOT_A_NUMBER ? reasons[k] != KSP_DIVERGED_NANORINF : reasons[k] >= 0, "%s: %s", what,
                           KSPConvergedReasons[reasons[k]]));
    PetscCall(CompareBlocks(&batch, good.x, batch.x, same));
    for (PetscInt l = 0; l < batch.n; l++)
      PetscCall(ComplainIf(batch.first + l != bad && !same[l], "%s: another x in block %" INT, what, l));
    PetscCall(VecGetArrayRead(batch.x, &array));
    for (PetscInt j = mine ? batch.starts[k] : 0; mine && j < batch.starts[k + 1]; j++)
      PetscCall(ComplainIf(!PetscIsInfOrNanScalar(array[j]), "%s: its x is finite", what));
    PetscCall(VecRestoreArrayRead(batch.x, &array));
    if (!ComparesProcesses(size)) {
      PetscCall(PCSetErrorIfFailure(batch.pc, PETSC_TRUE));
      /* the event of the process with the error stays open, so this process must not wait at later events: -log_sync 0 */
      Try(ierr, PCApply(batch.pc, batch.b, batch.x));
      if (mine) {
        char number[32], rows[64];

        PetscCall(PetscSNPrintf(number, sizeof(number), "Block %" INT " ", k));
        PetscCall(PetscSNPrintf(rows, sizeof(rows), "rows %" INT " to %" INT " ", batch.starts[k], batch.starts[k + 1] - 1));
        PetscCall(CheckError(ierr, what, number, rows));
        PetscCall(CheckError(ierr, what, "Block", KSPConvergedReasons[reasons[k]]));
      } else PetscCall(ComplainIf(ierr, "%s on another process: error code %d", what, (int)ierr));
      PetscCall(Unlock(batch.b));
      PetscCall(Unlock(batch.x));
      PetscCall(PCSetErrorIfFailure(batch.pc, PETSC_FALSE));
    }
    PetscCall(VecSet(batch.b, 0.0));
    PetscCall(PCApply(batch.pc, batch.b, batch.x));
    PetscCall(PCGetFailedReason(batch.pc, &failed));
    PetscCall(ComplainIf(failed, "%s, b = 0: %s", what, PCFailedReasons[failed]));
    PetscCall(BatchDestroy(&batch));
  }
  PetscCall(BatchDestroy(&good));
  PetscCall(Verdict("bad blocks among good ones"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Several right-hand sides: each column has the bits of an application to a vector, also in KSPMatSolve() */
static PetscErrorCode TestColumns(void)
{
  const PetscInt            columns = 5;
  const KSPConvergedReason *reasons;
  Batch                     batch;
  Mat                       B, X, Y;
  Vec                       y;
  KSP                       ksp;
  PetscInt                  n;
  PetscBool                 gpu;

  PetscFunctionBeginUser;
  PetscCall(BatchCreate(MIXED, mixed, MIXED, 0.0, -1, GOOD, &batch));
  PetscCall(VecDuplicate(batch.b, &y));
  PetscCall(OnGPU(&batch, &gpu));
  PetscCall(MatCreate(PETSC_COMM_WORLD, &B));
  PetscCall(MatSetSizes(B, batch.rows, PETSC_DECIDE, PETSC_DETERMINE, columns));
  PetscCall(MatSetType(B, gpu ? MATDENSECUDA : MATDENSE));
  PetscCall(MatSetUp(B));
  PetscCall(MatAssemble(B));
  for (PetscInt j = 0; j < columns; j++) {
    PetscCall(VecSetGeneral(y, 0.1 + 0.2 * (PetscReal)j));
    if (j == 2) PetscCall(VecSet(y, 0.0));
    PetscCall(ColumnSet(B, j, y));
  }
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &Y));
  PetscCall(SolverSet(batch.A, 2, 0, PCJACOBI, rtol, 1000, &batch.pc));
  PetscCall(PCSetUp(batch.pc));
  PetscCall(PCMatApply(batch.pc, B, X));
  PetscCall(PCBJIDRSGetResults(batch.pc, &n, &reasons, NULL, NULL));
  PetscCall(ComplainIf(n != columns * batch.n, "%" INT " results of %" INT " systems", n, columns * batch.n));
  for (PetscInt i = 0; i < n; i++)
    PetscCall(ComplainIf(reasons[i] != (i / batch.n == 2 ? KSP_CONVERGED_ATOL : KSP_CONVERGED_RTOL), "system %" INT ": %s", i,
                         KSPConvergedReasons[reasons[i]]));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOperators(ksp, batch.A, batch.A));
  PetscCall(KSPSetType(ksp, KSPPREONLY));
  PetscCall(KSPSetPC(ksp, batch.pc));
  PetscCall(KSPMatSolve(ksp, B, Y));
  for (PetscInt j = 0; j < columns; j++) {
    PetscReal difference;

    PetscCall(ColumnGet(B, j, batch.b));
    PetscCall(CheckSolve("a column", &batch, rtol));
    for (PetscInt l = 0; l < 2; l++) {
      PetscCall(ColumnGet(l ? Y : X, j, y));
      PetscCall(VecAXPY(y, -1.0, batch.x));
      PetscCall(VecNorm(y, NORM_INFINITY, &difference));
      PetscCall(ComplainIf(difference != 0.0, "column %" INT " by %s differs by %g", j, l ? "KSPMatSolve()" : "PCMatApply()",
                           (double)difference));
    }
  }
  PetscCall(DestroyAll(&ksp, &Y, &X, &B, &y));
  PetscCall(BatchDestroy(&batch));
  PetscCall(Verdict("several right-hand sides"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Block Jacobi for a coupled system: flexible solvers need about as many iterations as with exact blocks */
static PetscErrorCode TestPreconditioner(void)
{
  const char *const solvers[] = {KSPIDRS, KSPFGMRES};
  Mat               A;
  Vec               b, x;
  PetscInt          n;
  PetscOptions      options;
  char              text[256];

  PetscFunctionBeginUser;
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 30, 0.4, LAYOUT_EVEN, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(MatGetLocalSize(A, &n, NULL));
  n = n % 30 ? 1 : n / 30; /* a block is a line of the grid, if the layout allows it */
  PetscCall(PetscSNPrintf(text, sizeof(text),
                          "-pc_bjidrs_blocks %" INT " -pc_bjidrs_ksp_rtol 1e-3 -pc_bjacobi_local_blocks %" INT " -sub_pc_type lu",
                          n, n));
  PetscCall(OptionsPush(text, &options));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(solvers); i++) {
    PetscInt its[2];

    for (PetscInt exact = 0; exact < 2; exact++) {
      KSP ksp;

      PetscCall(SolverCreate(A, 4, exact ? PCBJACOBI : PCBJIDRS, &ksp));
      if (i) PetscCall(KSPSetType(ksp, solvers[i]));
      /* in single precision the norm that fgmres tests is up to a quarter too small */
      if (i && PetscDefined(USE_REAL_SINGLE))
        PetscCall(KSPSetTolerances(ksp, rtol / 2, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
      PetscCall(KSPSetPCSide(ksp, PC_RIGHT));
      PetscCall(KSPSetFromOptions(ksp));
      PetscCall(KSPSolve(ksp, b, x));
      PetscCall(CheckSolved(solvers[i], ksp, A, b, x));
      PetscCall(KSPGetIterationNumber(ksp, &its[exact]));
      PetscCall(KSPDestroy(&ksp));
    }
    PetscCall(ComplainIf(its[0] > its[1] + its[1] / 4 + 4, "%s: %" INT " iterations instead of %" INT, solvers[i], its[0], its[1]));
  }
  PetscCall(OptionsPop(&options));
  PetscCall(DestroyAll(&x, &b, &A));
  PetscCall(Verdict("as a preconditioner"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A fixed number of iterations without a test, too few iterations, tight tolerances, very small and large b */
static PetscErrorCode TestTolerances(void)
{
  const PetscInt            sizes[] = {150, 1, 40};
  const PetscReal           small = 1.0 / PetscSqrtReal(PETSC_MAX_REAL), scales[] = {1.0, small, 1e-3 / small};
  const KSPConvergedReason *reasons;
  const PetscInt           *its;
  Batch                     batch;
  Vec                       b;
  KSP                       inner;
  PetscInt                  n;
  PCFailedReason            failed;

  PetscFunctionBeginUser;
  PetscCall(BatchCreate(6, sizes, 3, 0.0, -1, GOOD, &batch));
  PetscCall(VecDuplicate(batch.b, &b));
  PetscCall(VecCopy(batch.b, b));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(scales); i++) {
    char what[64];

    PetscCall(PetscSNPrintf(what, sizeof(what), "b of size %g", (double)scales[i]));
    PetscCall(VecCopy(b, batch.b));
    PetscCall(VecScale(batch.b, scales[i]));
    PetscCall(SolverSet(batch.A, 4, 0, PCNONE, 100 * PETSC_MACHINE_EPSILON, 1000, &batch.pc));
    PetscCall(CheckSolve(what, &batch, 100 * PETSC_MACHINE_EPSILON));
  }
  PetscCall(SolverSet(batch.A, 2, 0, PCNONE, rtol, 3, &batch.pc));
  for (PetscInt test = 1; test >= 0; test--) {
    if (!test) {
      PetscCall(PCBJIDRSGetKSP(batch.pc, &inner));
      PetscCall(KSPSetNormType(inner, KSP_NORM_NONE));
    }
    PetscCall(PCApply(batch.pc, b, batch.x));
    PetscCall(PCGetFailedReason(batch.pc, &failed));
    PetscCall(PCBJIDRSGetResults(batch.pc, &n, &reasons, &its, NULL));
    PetscCall(ComplainIf(failed, "3 iterations: %s", PCFailedReasons[failed])); /* a limit that the user has set */
    for (PetscInt k = 0; k < n; k++) {
      const PetscBool single = (PetscBool)(batch.sizes[k] == 1), fails = (PetscBool)(test && !single);

      PetscCall(ComplainIf((fails ? reasons[k] != KSP_DIVERGED_ITS : reasons[k] <= 0) || its[k] > 3 || (!single && its[k] != 3),
                           "block of %" INT " rows with 3 iterations, %s test: %s after %" INT, batch.sizes[k],
                           test ? "with a" : "without", KSPConvergedReasons[reasons[k]], its[k]));
    }
  }
  PetscCall(VecDestroy(&b));
  PetscCall(BatchDestroy(&batch));
  PetscCall(Verdict("tolerances and limits"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Values, pattern and matrix change between applications */
static PetscErrorCode TestChanges(void)
{
  const PetscInt equal[] = {24};
  Batch          batch;
  PetscInt       n;

  PetscFunctionBeginUser;
  PetscCall(BatchCreate(11, equal, 1, 0.0, -1, GOOD, &batch));
  PetscCall(MatSetOption(batch.A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
  PetscCall(SolverSet(batch.A, 4, 0, PCJACOBI, rtol, 1000, &batch.pc));
  PetscCall(CheckSolve("first values", &batch, rtol));
  PetscCall(MatScale(batch.A, 3.0));
  PetscCall(MatShift(batch.A, 5.0));
  PetscCall(PCSetUp(batch.pc));
  PetscCall(CheckSolve("other values", &batch, rtol));
  PetscCall(PCSetReusePreconditioner(batch.pc, PETSC_TRUE));
  for (PetscInt k = 0; k < batch.n; k++)
    PetscCall(MatSetValue(batch.A, batch.rstart + batch.starts[k] + 2, batch.rstart + batch.starts[k] + 9, -0.4, INSERT_VALUES));
  PetscCall(MatAssemble(batch.A));
  PetscCall(CheckSolve("longer rows with a preconditioner that is reused", &batch, rtol));
  PetscCall(PCSetReusePreconditioner(batch.pc, PETSC_FALSE));
  /* couples the first two blocks */
  if (batch.n >= 2) PetscCall(MatSetValue(batch.A, batch.rstart, batch.rstart + 30, 0.01, INSERT_VALUES));
  PetscCall(MatAssemble(batch.A));
  PetscCall(PCApply(batch.pc, batch.b, batch.x));
  PetscCall(PCBJIDRSGetResults(batch.pc, &n, NULL, NULL, NULL));
  PetscCall(ComplainIf(n != batch.n - (batch.n >= 2 ? 1 : 0), "another pattern: %" INT " blocks", n));
  PetscCall(BatchDestroy(&batch));
  PetscCall(Verdict("changes"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves by a KSP after a solve whose blocks have failed on the first process only */
static PetscErrorCode TestAfterFailure(void)
{
  const KSPType outer[] = {KSPPREONLY, KSPFGMRES, KSPIDRS};
  PetscMPIInt   rank;
  Batch         batch;
  PetscReal     bnorm, rnorm;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCall(BatchCreate(MIXED, mixed, MIXED, 0.0, -1, GOOD, &batch));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(outer); i++) {
    KSP                ksp, inner;
    KSPConvergedReason reason;

    PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
    PetscCall(KSPSetOperators(ksp, batch.A, batch.A));
    PetscCall(KSPSetType(ksp, outer[i]));
    PetscCall(KSPSetTolerances(ksp, rtol, PETSC_DEFAULT, PETSC_DEFAULT, 100));
    PetscCall(SolverSet(batch.A, 4, 0, PCNONE, rank ? 0.1 * rtol : 1e-30, 10000, &batch.pc)); /* nothing meets 1e-30 */
    PetscCall(KSPSetPC(ksp, batch.pc));
    PetscCall(KSPSolve(ksp, batch.b, batch.x));
    PetscCall(KSPGetConvergedReason(ksp, &reason));
    PetscCall(ComplainIf(reason != KSP_DIVERGED_PC_FAILED, "%s, a failure: %s", outer[i], KSPConvergedReasons[reason]));
    PetscCall(PCBJIDRSGetKSP(batch.pc, &inner));
    PetscCall(KSPSetTolerances(inner, 0.1 * rtol, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
    PetscCall(KSPSolve(ksp, batch.b, batch.x));
    PetscCall(KSPGetConvergedReason(ksp, &reason));
    PetscCall(ResidualNorm(batch.A, batch.b, batch.x, &rnorm, &bnorm));
    PetscCall(ComplainIf(reason <= 0 || !(rnorm <= 1.01 * rtol * bnorm), "%s after a failure: %s, ||b - A x|| = %g, ||b|| = %g",
                         outer[i], KSPConvergedReasons[reason], (double)rnorm, (double)bnorm));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(BatchDestroy(&batch));
  PetscCall(Verdict("solves after a failure"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Near the attainable accuracy the r of a recurrence meets tolerances that b - A x does not: many blocks are solved by restarts
   only, and no unsolved block is reported as solved
*/
static PetscErrorCode TestRestarts(void)
{
  const PetscInt  n = 60, restarts[] = {0, 10};
  const PetscReal tolerance = 1.4e5 * PETSC_MACHINE_EPSILON;

  PetscFunctionBeginUser;
  for (PetscInt s = 1; s <= 4; s *= 2) {
    PetscInt failed[2] = {0, 0};
    Batch    batch;

    PetscCall(BatchCreate(100, &n, 1, 0.0, -1, GOOD, &batch));
    PetscCall(MatZeroEntries(batch.A));
    for (PetscInt i = 0; i < batch.rows; i++) {
      const PetscInt row = batch.rstart + i;

      PetscCall(MatSetValue(batch.A, row, row, -1.0, INSERT_VALUES));
      if (i % n < n - 1) PetscCall(MatSetValue(batch.A, row, row + 1, 1.0, INSERT_VALUES));
      if (i % n > 0) PetscCall(MatSetValue(batch.A, row, row - 1, 1.5 + 0.001 * (batch.first + i / n), INSERT_VALUES));
    }
    PetscCall(MatAssemble(batch.A));
    for (PetscInt ir = 0; ir < 2; ir++) {
      const KSPConvergedReason *reasons;
      const PetscScalar        *b, *x;
      KSP                       inner;

      PetscCall(SolverSet(batch.A, s, 0, PCNONE, tolerance, 3000, &batch.pc));
      PetscCall(MatSetVariableBlockSizes(batch.A, batch.n, batch.sizes));
      PetscCall(PCBJIDRSGetKSP(batch.pc, &inner));
      PetscCall(KSPIDRSSetMaxRestarts_Private(inner, restarts[ir]));
      PetscCall(PCApply(batch.pc, batch.b, batch.x));
      PetscCall(PCBJIDRSGetResults(batch.pc, NULL, &reasons, NULL, NULL));
      PetscCall(VecGetArrayRead(batch.b, &b));
      PetscCall(VecGetArrayRead(batch.x, &x));
      for (PetscInt k = 0; k < batch.n; k++) {
        PetscReal bnorm, rnorm, xx = 0.0, rounding;

        PetscCall(BlockResidual(&batch, k, b, x, &bnorm, &rnorm));
        for (PetscInt i = batch.starts[k]; i < batch.starts[k + 1]; i++) xx += PetscSqr(PetscAbsScalar(x[i]));
        rounding = 8 * PETSC_MACHINE_EPSILON * (bnorm + 3.6 * PetscSqrtReal(xx)); /* of both b - A x, since x is large */
        if (reasons[k] <= 0) failed[ir]++;
        else
          PetscCall(ComplainIf(!(rnorm <= 1.01 * tolerance * bnorm + rounding),
                               "s = %" INT ", %" INT " restarts: block %" INT " is said to be solved, ||b - A x|| = %g of %g", s,
                               restarts[ir], k, (double)rnorm, (double)bnorm));
      }
      PetscCall(VecRestoreArrayRead(batch.x, &x));
      PetscCall(VecRestoreArrayRead(batch.b, &b));
    }
    IDRSCallAllreduce(MPI_IN_PLACE, failed, 2, MPIU_INT, MPI_SUM, PETSC_COMM_WORLD);
    /* in single precision more blocks cannot attain the tolerance */
    PetscCall(ComplainIf(failed[0] < 5 || failed[1] > (PetscDefined(USE_REAL_SINGLE) ? 0.95 : 0.6) * failed[0],
                         "s = %" INT ": %" INT " of 100 blocks fail with restarts, %" INT " without", s, failed[1], failed[0]));
    PetscCall(BatchDestroy(&batch));
  }
  PetscCall(Verdict("restarts"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Options and functions have the same effect, to the bit, and another seed has other bits */
static PetscErrorCode TestOptions(void)
{
  const PetscInt  equal[] = {40}, seeds[] = {5, 6};
  const PetscReal loose = 1e-2;
  char            text[256];
  PetscOptions    options;
  PetscInt        maxits, s;
  PetscReal       tolerance;
  PetscBool       same;
  Batch           batch;
  Vec             y;
  KSP             inner;

  PetscFunctionBeginUser;
  PetscCall(BatchCreate(6, equal, 1, 0.5, -1, GOOD, &batch));
  PetscCall(VecDuplicate(batch.b, &y));
  PetscCall(PetscSNPrintf(
    text, sizeof(text),
    "-pc_type bjidrs -pc_bjidrs_blocks %" INT
    " -pc_bjidrs_ksp_rtol %g -pc_bjidrs_ksp_max_it 77 -pc_bjidrs_ksp_idrs_s 3 -pc_bjidrs_ksp_idrs_seed 5 -pc_bjidrs_pc_type none",
    batch.n, (double)loose));
  PetscCall(OptionsPush(text, &options));
  PetscCall(PCCreate(PETSC_COMM_WORLD, &batch.pc));
  PetscCall(PCSetOperators(batch.pc, batch.A, batch.A));
  PetscCall(PCSetFromOptions(batch.pc));
  PetscCall(PCBJIDRSGetKSP(batch.pc, &inner));
  PetscCall(KSPGetTolerances(inner, &tolerance, NULL, NULL, &maxits));
  PetscCall(KSPIDRSGetShadowSize(inner, &s));
  PetscCall(CheckSolve("with options", &batch, loose));
  PetscCall(ComplainIf(tolerance != loose || maxits != 77 || s != 3, "options: tolerance %g, %" INT " iterations, s = %" INT,
                       (double)tolerance, maxits, s));
  PetscCall(OptionsPop(&options));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(seeds); i++) {
    PetscCall(SolverSet(batch.A, 3, seeds[i], PCNONE, loose, 77, &batch.pc));
    PetscCall(BlocksSet(batch.pc, batch.n));
    PetscCall(PCApply(batch.pc, batch.b, y));
    PetscCall(VecEqual(batch.x, y, &same));
    PetscCall(ComplainIf(same != (seeds[i] == 5 ? PETSC_TRUE : PETSC_FALSE), "seed %" INT ": %s x as with options", seeds[i],
                         same ? "the same" : "another"));
  }
  PetscCall(VecDestroy(&y));
  PetscCall(BatchDestroy(&batch));
  PetscCall(Verdict("options"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Options that the inner KSP does not support, with the words of the error */
static const char *const unsupported[][2] = {
  {"-pc_bjidrs_ksp_type gmres",              "by idrs only"      },
  {"-pc_bjidrs_pc_type sor",                 "none and jacobi"   },
  {"-pc_bjidrs_ksp_pc_side left",            "LEFT"              },
  {"-pc_bjidrs_ksp_norm_type natural",       "NATURAL"           },
  {"-pc_bjidrs_ksp_initial_guess_nonzero",   "zero"              },
  {"-pc_bjidrs_ksp_monitor",                 "PCBJIDRSGetResults"},
  {"-pc_bjidrs_ksp_idrs_smoothing",          "residuals"         },
  {"-pc_bjidrs_ksp_idrs_s 17",               "17"                },
  {"-pc_bjidrs_ksp_idrs_product mat",        "mat"               },
  {"-pc_bjidrs_ksp_knoll",                   "zero"              },
  {"-pc_bjidrs_ksp_check_norm_iteration 15", "norms"             },
  {"-pc_bjidrs_ksp_error_if_not_converged",  "PCBJIDRSGetResults"},
  {"-pc_bjidrs_ksp_convergence_test lsqr",   "KSPConvergedSkip"  },
  {"-pc_bjidrs_ksp_idrs_recycle always",     "always"            }
};

static PetscErrorCode TestBadInput(void)
{
  const PetscInt equal[] = {10}, numbers[] = {-1, 7}, zero[] = {10, 0, 20}, negative[] = {20, -10, 20};
  PetscMPIInt    size;
  PetscErrorCode ierr;
  Batch          batch;
  Mat            other;
  PC             pc = NULL;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(BatchCreate(3 * size, equal, 1, 0.0, -1, GOOD, &batch)); /* 30 rows per process */
  PetscCall(SolverSet(batch.A, 4, 0, PCNONE, rtol, 1000, &batch.pc));
  for (size_t l = 0; l < PETSC_STATIC_ARRAY_LENGTH(numbers); l++) {
    Try(ierr, BlocksSet(batch.pc, numbers[l]));
    if (!ierr) Try(ierr, PCSetUp(batch.pc));
    PetscCall(CheckError(ierr, "number of blocks", "pc_bjidrs_blocks", l ? "7" : "-1"));
  }
  PetscCall(PetscOptionsClearValue(NULL, "-pc_bjidrs_blocks"));
  PetscCall(BlocksSet(batch.pc, 0));
  PetscCall(MatSetVariableBlockSizes(batch.A, 3, negative));
  CheckRefused(PCSetUp(batch.pc), "MatSetVariableBlockSizes", "-10");
  PetscCall(MatSetVariableBlockSizes(batch.A, 3, zero));
  CheckRefused(PCSetUp(batch.pc), "MatSetVariableBlockSizes", "size 0");
  PetscCall(BlocksSet(batch.pc, 3));
  PetscCall(CheckSolve("after errors", &batch, rtol));

  for (size_t l = 0; l < PETSC_STATIC_ARRAY_LENGTH(unsupported); l++) {
    PetscOptions options;

    PetscCall(SolverSet(batch.A, 4, 0, PCNONE, rtol, 1000, &pc));
    PetscCall(OptionsPush(unsupported[l][0], &options));
    PetscCall(PCSetFromOptions(pc));
    Try(ierr, PCSetUp(pc));
    PetscCall(CheckError(ierr, unsupported[l][0], "-pc_bjidrs_", unsupported[l][1]));
    PetscCall(OptionsPop(&options));
  }
  PetscCall(MatCreateAIJ(PETSC_COMM_WORLD, 12, 5, PETSC_DETERMINE, PETSC_DETERMINE, 1, NULL, 1, NULL, &other));
  PetscCall(MatAssemble(other));
  PetscCall(SolverSet(other, 4, 0, PCNONE, rtol, 1000, &pc));
  CheckRefused(PCSetUp(pc), "12 rows", "5 columns");
  PetscCall(MatDestroy(&other));
  PetscCall(MatConvert(batch.A, MATDENSE, MAT_INITIAL_MATRIX, &other));
  PetscCall(SolverSet(other, 4, 0, PCNONE, rtol, 1000, &pc));
  CheckRefused(PCSetUp(pc), "pc_type", "dense");
  PetscCall(DestroyAll(&pc, &other));
  PetscCall(BatchDestroy(&batch));
  PetscCall(Verdict("bad input"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(TestSolved());
  PetscCall(TestSmallDiagonal());
  PetscCall(TestLarge());
  PetscCall(TestBackEnds());
  PetscCall(TestSources());
  PetscCall(TestBad());
  PetscCall(TestColumns());
  PetscCall(TestPreconditioner());
  PetscCall(TestTolerances());
  PetscCall(TestChanges());
  PetscCall(TestAfterFailure());
  PetscCall(TestRestarts());
  PetscCall(TestOptions());
  PetscCall(TestBadInput());
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}
    args: -log_sync 0

TEST*/
