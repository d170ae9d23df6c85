static char help[] = "PCBJIDRS: every block that counts as converged against b - A x computed here, blocks of many sizes and from\n\
every source, bad blocks\n\
among good ones, several right-hand sides, as a preconditioner, and bad input.\n\n";

#include "systems.h"

/* Rows of the blocks on all processes together, in turn */
static const PetscInt mixed[] = {1, 2, 3, 5, 16, 31, 64, 65, 200, 257, 1, 700};

/* What entries are like: the block is well conditioned, its first row is zero, or it has a NaN */
typedef enum {
  GOOD,
  SINGULAR,
  NOT_A_NUMBER
} Kind;

/* In (-1,1), the same for these numbers on any number of processes */
static PetscScalar Noise(PetscInt seed, PetscInt i, PetscInt j)
{
  const PetscReal re = PetscSinReal((PetscReal)(1 + seed % 97) * 12.9898 + (PetscReal)(i % 1009) * 78.233 +
                                    (PetscReal)(j % 1013) * 37.719);

  return PetscDefined(USE_COMPLEX) ? PetscCMPLX(re, PetscCosReal(3 * re)) : (PetscScalar)re;
}

/* Row i of a block of n rows: convection and diffusion on a grid whose lines have 12 points, and some noise */
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

/* Blocks of this process: all there are, shared out in the order of the processes */
typedef struct {
  PetscInt  n, first, *sizes, rows;
  PetscInt *starts;
} Blocks;

static PetscErrorCode BlocksCreate(PetscInt all, const PetscInt sizes[], PetscInt period, Blocks *blocks)
{
  PetscMPIInt rank, size;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  blocks->first = all * rank / size;
  blocks->n     = all * (rank + 1) / size - blocks->first;
  PetscCall(PetscMalloc2(blocks->n, &blocks->sizes, blocks->n + 1, &blocks->starts));
  blocks->starts[0] = 0;
  for (PetscInt i = 0; i < blocks->n; i++) {
    blocks->sizes[i]      = sizes[(blocks->first + i) % period];
    blocks->starts[i + 1] = blocks->starts[i] + blocks->sizes[i];
  }
  blocks->rows = blocks->starts[blocks->n];
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode BlocksDestroy(Blocks *blocks)
{
  PetscFunctionBeginUser;
  PetscCall(PetscFree2(blocks->sizes, blocks->starts));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A matrix with these diagonal blocks; coupled: with an entry in each row left of the block, and one right of it. Block number bad
   is of another kind
*/
static PetscErrorCode BatchCreate(const Blocks *blocks, PetscReal coupling, PetscInt bad, Kind kind, Mat *A, Vec *b)
{
  PetscInt rstart, N;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_WORLD, A));
  PetscCall(MatSetSizes(*A, blocks->rows, blocks->rows, PETSC_DETERMINE, PETSC_DETERMINE));
  PetscCall(MatSetType(*A, MATAIJ));
  PetscCall(MatSetFromOptions(*A));
  PetscCall(MatSeqAIJSetPreallocation(*A, 7, NULL));
  PetscCall(MatMPIAIJSetPreallocation(*A, 7, NULL, 2, NULL));
  PetscCall(MatGetOwnershipRange(*A, &rstart, NULL));
  PetscCall(MatGetSize(*A, &N, NULL));
  for (PetscInt k = 0; k < blocks->n; k++) {
    const PetscInt number = blocks->first + k, begin = rstart + blocks->starts[k], end = rstart + blocks->starts[k + 1];

    for (PetscInt i = 0; i < blocks->sizes[k]; i++) {
      PetscInt    columns[7], count;
      PetscScalar values[7];

      count = BlockRow(number, blocks->sizes[k], number == bad ? kind : GOOD, i, columns, values);
      for (PetscInt l = 0; l < count; l++) columns[l] += begin;
      if (coupling > 0.0 && begin > 0) {
        columns[count]  = (begin - 1) % N;
        values[count++] = coupling;
      }
      if (coupling > 0.0 && end < N) {
        columns[count]  = end;
        values[count++] = -coupling;
      }
      for (PetscInt l = 0; l < count; l++) PetscCall(MatSetValue(*A, begin + i, columns[l], values[l], INSERT_VALUES));
    }
  }
  PetscCall(MatAssemblyBegin(*A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(*A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatCreateVecs(*A, b, NULL));
  PetscCall(VecSetGeneral(*b, 0.3));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* ||b|| and ||b - A x|| for one block, in which entries outside it do not count */
static PetscErrorCode BlockResidual(Mat A, const Blocks *blocks, PetscInt k, const PetscScalar b[], const PetscScalar x[],
                                    PetscReal *bnorm, PetscReal *rnorm)
{
  PetscInt  rstart;
  PetscReal bb = 0.0, rr = 0.0, largest = 0.0;

  PetscFunctionBeginUser;
  PetscCall(MatGetOwnershipRange(A, &rstart, NULL));
  for (PetscInt i = blocks->starts[k]; i < blocks->starts[k + 1]; i++) largest = PetscMax(largest, PetscAbsScalar(b[i]));
  for (PetscInt i = blocks->starts[k]; i < blocks->starts[k + 1]; i++) {
    PetscInt           count;
    const PetscInt    *columns;
    const PetscScalar *values;
    PetscScalar        r = b[i];

    PetscCall(MatGetRow(A, rstart + i, &count, &columns, &values));
    for (PetscInt l = 0; l < count; l++) {
      if (columns[l] - rstart >= blocks->starts[k] && columns[l] - rstart < blocks->starts[k + 1])
        r -= values[l] * x[columns[l] - rstart];
    }
    PetscCall(MatRestoreRow(A, rstart + i, &count, &columns, &values));
    if (largest > 0.0) {
      bb += PetscSqr(PetscAbsScalar(b[i] / largest));
      rr += PetscSqr(PetscAbsScalar(r / largest));
    }
  }
  *bnorm = largest * PetscSqrtReal(bb);
  *rnorm = largest * PetscSqrtReal(rr);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Every block has converged, and says so of an x that solves it; but for the block with this number, if there is one */
static PetscErrorCode CheckBlocks(const char what[], PC pc, Mat A, const Blocks *blocks, PetscReal tolerance, PetscInt but, Vec b,
                                  Vec x)
{
  const KSPConvergedReason *reasons;
  const PetscInt           *its;
  const PetscReal          *norms;
  const PetscScalar        *barray, *xarray;
  PetscInt                  n;

  PetscFunctionBeginUser;
  PetscCall(PCBJIDRSGetResults(pc, &n, &reasons, &its, &norms));
  PetscCall(ComplainIf(n != blocks->n, "%s: %" PetscInt_FMT " results of %" PetscInt_FMT " blocks", what, n, blocks->n));
  PetscCall(VecGetArrayRead(b, &barray));
  PetscCall(VecGetArrayRead(x, &xarray));
  for (PetscInt k = 0; k < PetscMin(n, blocks->n); k++) {
    PetscReal bnorm, rnorm;

    if (blocks->first + k == but) continue;
    PetscCall(BlockResidual(A, blocks, k, barray, xarray, &bnorm, &rnorm));
    PetscCall(ComplainIf(reasons[k] <= 0,
                         "%s: block %" PetscInt_FMT " with %" PetscInt_FMT " rows: %s after %" PetscInt_FMT " iterations, %g of %g",
                         what, k, blocks->sizes[k], KSPConvergedReasons[reasons[k]], its[k], (double)norms[k], (double)bnorm));
    PetscCall(ComplainIf(!(rnorm <= 1.01 * tolerance * bnorm),
                         "%s: block %" PetscInt_FMT " with %" PetscInt_FMT " rows: ||b - A x|| = %g, ||b|| = %g", what, k,
                         blocks->sizes[k], (double)rnorm, (double)bnorm));
    PetscCall(ComplainIf(!(PetscAbsReal(rnorm - norms[k]) <= PetscMax(0.01 * tolerance, 10 * PETSC_MACHINE_EPSILON) * bnorm),
                         "%s: block %" PetscInt_FMT " with %" PetscInt_FMT " rows: ||b - A x|| = %g, said to be %g", what, k,
                         blocks->sizes[k], (double)rnorm, (double)norms[k]));
  }
  PetscCall(VecRestoreArrayRead(x, &xarray));
  PetscCall(VecRestoreArrayRead(b, &barray));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The preconditioner with these settings inside */
static PetscErrorCode BatchPCCreate(Mat A, PetscInt s, PetscInt seed, const char inside[], PetscReal tolerance, PetscInt maxits,
                                    PC *pc)
{
  KSP inner;
  PC  innerpc;

  PetscFunctionBeginUser;
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

/* Whether the systems of this matrix are solved there */
static PetscErrorCode OnGPU(Mat A, PetscBool *gpu)
{
  PetscBool cusparse;
  Vec       b;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(A, &b, NULL));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)b, gpu, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &cusparse, MATSEQAIJCUSPARSE, MATMPIAIJCUSPARSE, ""));
  if (!cusparse) *gpu = PETSC_FALSE;
  PetscCall(VecDestroy(&b));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* All sizes, numbers of shadow vectors, seeds, with and without Jacobi and coupling */
static PetscErrorCode TestSolved(void)
{
  const char *const inside[] = {PCNONE, PCJACOBI};
  Blocks            blocks;

  PetscFunctionBeginUser;
  PetscCall(BlocksCreate(3 * PETSC_STATIC_ARRAY_LENGTH(mixed), mixed, PETSC_STATIC_ARRAY_LENGTH(mixed), &blocks));
  for (PetscInt coupled = 0; coupled < 2; coupled++) {
    Mat A;
    Vec b, x;

    PetscCall(BatchCreate(&blocks, coupled ? 0.5 : 0.0, -1, GOOD, &A, &b));
    PetscCall(VecDuplicate(b, &x));
    for (size_t is = 0; is < SIZES; is++) {
      for (size_t ip = 0; ip < 2; ip++) {
        for (PetscInt seed = 0; seed < 3; seed++) {
          PC             pc;
          char           what[128];
          PCFailedReason failed;

          PetscCall(PetscSNPrintf(what, sizeof(what), "s = %" PetscInt_FMT ", seed %" PetscInt_FMT ", %s%s", sizes[is], seed,
                                  inside[ip], coupled ? ", coupled" : ""));
          PetscCall(BatchPCCreate(A, sizes[is], seed, inside[ip], rtol, 3000, &pc));
          if (coupled) PetscCall(PCBJIDRSSetLocalBlocks(pc, blocks.n, blocks.sizes));
          PetscCall(PCApply(pc, b, x));
          PetscCall(PCGetFailedReason(pc, &failed));
          PetscCall(ComplainIf(failed, "%s: %s", what, PCFailedReasons[failed]));
          PetscCall(CheckBlocks(what, pc, A, &blocks, rtol, -1, b, x));
          PetscCall(PCDestroy(&pc));
        }
      }
    }
    PetscCall(VecDestroy(&x));
    PetscCall(VecDestroy(&b));
    PetscCall(MatDestroy(&A));
  }
  PetscCall(BlocksDestroy(&blocks));
  PetscCall(Verdict("all blocks are solved"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Rows that are scaled by their largest entry in a block, as their diagonal entry is far below it, or zero: in the view they are
   counted. Entries outside the blocks do not matter
*/
static PetscErrorCode TestSmallDiagonal(void)
{
  const PetscInt  rows      = 60;
  const PetscReal entries[] = {0.0, 1e-20, 1e-8, 5e-5, 1e-2, 1.0};

  PetscFunctionBeginUser;
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(entries); i++) {
    Vec solutions[2] = {NULL, NULL};

    for (PetscInt coupled = 0; coupled < 2; coupled++) {
      Blocks         blocks;
      Mat            A;
      Vec            b;
      PC             pc;
      char           what[64];
      PetscInt       rstart, lines;
      PetscReal      number[1] = {0.0}, expected = entries[i] < 1e-3 ? 20 * rows / 4 : 0;
      PCFailedReason failed;

      PetscCall(BlocksCreate(20, &rows, 1, &blocks));
      PetscCall(BatchCreate(&blocks, coupled ? 1e7 : 0.0, -1, GOOD, &A, &b));
      PetscCall(MatGetOwnershipRange(A, &rstart, NULL));
      for (PetscInt row = 0; row < blocks.rows; row += 4)
        PetscCall(MatSetValue(A, rstart + row, rstart + row, entries[i], INSERT_VALUES));
      PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
      PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
      PetscCall(VecDuplicate(b, &solutions[coupled]));
      PetscCall(BatchPCCreate(A, 4, 0, PCJACOBI, rtol, 1000, &pc));
      PetscCall(PCBJIDRSSetLocalBlocks(pc, blocks.n, blocks.sizes));
      PetscCall(PCApply(pc, b, solutions[coupled]));
      PetscCall(PCGetFailedReason(pc, &failed));
      PetscCall(PetscSNPrintf(what, sizeof(what), "diagonal entries of %g%s", (double)entries[i], coupled ? ", coupled" : ""));
      PetscCall(ComplainIf(failed, "%s: %s", what, PCFailedReasons[failed]));
      PetscCall(CheckBlocks(what, pc, A, &blocks, rtol, -1, b, solutions[coupled]));
      PetscCall(CheckViewLines(what, (PetscObject)pc));
      PetscCall(ViewNumbers((PetscObject)pc, " of it: ", 1, number, &lines));
      PetscCall(ComplainIf(number[0] != expected, "%s: %g rows scaled by their largest entry instead of %g", what,
                           (double)number[0], (double)expected));
      if (coupled) {
        PetscBool same;

        PetscCall(VecEqual(solutions[0], solutions[1], &same));
        PetscCall(ComplainIf(!same, "%s: entries outside the blocks have changed the solution", what));
      }
      PetscCall(PCDestroy(&pc));
      PetscCall(VecDestroy(&b));
      PetscCall(MatDestroy(&A));
      PetscCall(BlocksDestroy(&blocks));
    }
    for (PetscInt coupled = 0; coupled < 2; coupled++) PetscCall(VecDestroy(&solutions[coupled]));
  }
  PetscCall(Verdict("small diagonal entries"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Blocks so large that a GPU does not have them in shared memory beside small ones, and very many small ones */
static PetscErrorCode TestLarge(void)
{
  const PetscInt large[] = {3000, 1, 64, 2600}, small[] = {1, 2, 3};

  PetscFunctionBeginUser;
  for (size_t is = 0; is < SIZES + 1; is++) {
    const PetscBool many = (PetscBool)(is == SIZES);
    const PetscInt  s    = many ? 4 : sizes[is];
    Blocks          blocks;
    Mat             A;
    Vec             b, x;
    PC              pc;

    PetscCall(BlocksCreate(many ? 20000 : 4, many ? small : large, many ? 3 : 4, &blocks));
    PetscCall(BatchCreate(&blocks, 0.0, -1, GOOD, &A, &b));
    PetscCall(VecDuplicate(b, &x));
    PetscCall(BatchPCCreate(A, s, 1, PCNONE, rtol, 3000, &pc));
    PetscCall(PCApply(pc, b, x));
    PetscCall(CheckBlocks(many ? "many blocks" : "large blocks", pc, A, &blocks, rtol, -1, b, x));
    PetscCall(PCDestroy(&pc));
    PetscCall(VecDestroy(&x));
    PetscCall(VecDestroy(&b));
    PetscCall(MatDestroy(&A));
    PetscCall(BlocksDestroy(&blocks));
  }
  PetscCall(Verdict("large blocks and many blocks"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   On a GPU: what stands in the memory of the host is solved there, to the same tolerance, and a block may be too large for a GPU
   only, with one row more than the largest one
*/
static PetscErrorCode TestBackEnds(void)
{
  const PetscInt most[] = {16000, 16001};
  Blocks         blocks;
  Mat            A;
  Vec            b, x, bhost, xhost;
  PC             pc;
  PetscBool      gpu;
  PetscErrorCode ierr;

  PetscFunctionBeginUser;
  for (PetscInt large = 0; large < 3; large++) {
    PetscCall(BlocksCreate(large ? 1 : PETSC_STATIC_ARRAY_LENGTH(mixed), large ? &most[large - 1] : mixed,
                           large ? 1 : PETSC_STATIC_ARRAY_LENGTH(mixed), &blocks));
    PetscCall(BatchCreate(&blocks, 0.0, -1, GOOD, &A, &b));
    PetscCall(OnGPU(A, &gpu));
    PetscCall(VecDuplicate(b, &x));
    PetscCall(VecCreateMPI(PETSC_COMM_WORLD, blocks.rows, PETSC_DETERMINE, &bhost));
    PetscCall(VecDuplicate(bhost, &xhost));
    PetscCall(VecCopy(b, bhost));
    PetscCall(BatchPCCreate(A, 4, 0, PCJACOBI, rtol, 3000, &pc));
    PetscCall(PCApply(pc, bhost, xhost));
    PetscCall(CheckBlocks("vectors of the host", pc, A, &blocks, rtol, -1, bhost, xhost));
    if (large == 2 && gpu && blocks.n) {
      PetscCall(Listen());
      ierr = PCApply(pc, b, x);
      PetscCall(Heard());
      PetscCall(CheckError(ierr, "a block that is too large", "PCBJIDRS", "16001"));
    } else {
      PetscCall(PCApply(pc, b, x));
      PetscCall(CheckBlocks("vectors of the matrix", pc, A, &blocks, rtol, -1, b, x));
    }
    PetscCall(PCDestroy(&pc));
    PetscCall(VecDestroy(&xhost));
    PetscCall(VecDestroy(&bhost));
    PetscCall(VecDestroy(&x));
    PetscCall(VecDestroy(&b));
    PetscCall(MatDestroy(&A));
    PetscCall(BlocksDestroy(&blocks));
  }
  PetscCall(Verdict("back ends"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The rows at which blocks begin are those expected */
static PetscErrorCode CheckStarts(const char what[], PC pc, PetscInt n, const PetscInt expected[])
{
  PetscInt        nblocks;
  const PetscInt *starts;
  PetscBool       same;

  PetscFunctionBeginUser;
  PetscCall(PCSetUp(pc));
  PetscCall(PCBJIDRSGetLocalBlocks(pc, &nblocks, &starts));
  PetscCall(ComplainIf(nblocks != n, "%s: %" PetscInt_FMT " blocks, not %" PetscInt_FMT, what, nblocks, n));
  if (nblocks != n) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(PetscArraycmp(starts, expected, n + 1, &same));
  PetscCall(ComplainIf(!same, "%s: blocks begin elsewhere", what));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestSources(void)
{
  const PetscInt equal[] = {24};
  Blocks         blocks, same;
  Mat            A, B;
  Vec            b, c;
  PC             pc;

  PetscFunctionBeginUser;
  PetscCall(BlocksCreate(PETSC_STATIC_ARRAY_LENGTH(mixed), mixed, PETSC_STATIC_ARRAY_LENGTH(mixed), &blocks));
  PetscCall(BlocksCreate(10, equal, 1, &same));
  PetscCall(BatchCreate(&blocks, 0.0, -1, GOOD, &A, &b));
  PetscCall(BatchPCCreate(A, 4, 0, PCNONE, rtol, 1000, &pc));
  PetscCall(CheckStarts("pattern", pc, blocks.n, blocks.starts));
  PetscCall(PCDestroy(&pc));
  PetscCall(MatDestroy(&A));
  PetscCall(VecDestroy(&b));

  PetscCall(BatchCreate(&blocks, 0.5, -1, GOOD, &A, &b));
  PetscCall(MatSetVariableBlockSizes(A, blocks.n, blocks.sizes));
  PetscCall(BatchPCCreate(A, 4, 0, PCNONE, rtol, 1000, &pc));
  PetscCall(CheckStarts("variable block sizes", pc, blocks.n, blocks.starts));

  /* another matrix of other blocks, another source, and back */
  PetscCall(BatchCreate(&same, 0.5, -1, GOOD, &B, &c));
  PetscCall(PCReset(pc));
  PetscCall(PCSetOperators(pc, B, B));
  PetscCall(PCBJIDRSSetLocalBlocks(pc, PetscMax(same.n, 1), NULL));
  PetscCall(CheckStarts("a number of blocks", pc, same.n, same.starts));
  PetscCall(PCReset(pc));
  PetscCall(PCSetOperators(pc, A, A));
  PetscCall(PCBJIDRSSetLocalBlocks(pc, blocks.n, blocks.sizes));
  PetscCall(CheckStarts("sizes", pc, blocks.n, blocks.starts));
  PetscCall(PCBJIDRSSetLocalBlocks(pc, 0, NULL));
  PetscCall(CheckStarts("variable block sizes again", pc, blocks.n, blocks.starts));
  PetscCall(PCDestroy(&pc));
  PetscCall(MatDestroy(&B));
  PetscCall(VecDestroy(&c));
  PetscCall(MatDestroy(&A));
  PetscCall(VecDestroy(&b));
  PetscCall(BlocksDestroy(&same));
  PetscCall(BlocksDestroy(&blocks));
  PetscCall(Verdict("where the blocks come from"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A bad block fails, is named, and changes no bit of the others; the next application, to another b, is right again */
static PetscErrorCode TestBad(void)
{
  const PetscInt sizes[] = {40, 7, 100};
  const Kind     kinds[] = {SINGULAR, NOT_A_NUMBER};
  const PetscInt bad     = 4;
  Blocks         blocks;
  Mat            good;
  Vec            b, x, y;
  PC             pc;

  PetscFunctionBeginUser;
  PetscCall(BlocksCreate(9, sizes, 3, &blocks));
  PetscCall(BatchCreate(&blocks, 0.0, -1, GOOD, &good, &b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(b, &y));
  PetscCall(BatchPCCreate(good, 4, 0, PCNONE, rtol, 1000, &pc));
  PetscCall(PCApply(pc, b, x));
  PetscCall(PCDestroy(&pc));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(kinds); i++) {
    Mat                       A;
    Vec                       c;
    PCFailedReason            failed;
    const KSPConvergedReason *reasons;
    const PetscScalar        *xarray, *yarray;
    const PetscBool           mine = (PetscBool)(bad >= blocks.first && bad < blocks.first + blocks.n);
    PetscErrorCode            ierr;
    char                      what[64];

    PetscCall(PetscSNPrintf(what, sizeof(what), "%s block", kinds[i] == SINGULAR ? "singular" : "NaN"));
    PetscCall(BatchCreate(&blocks, 0.0, bad, kinds[i], &A, &c));
    PetscCall(BatchPCCreate(A, 4, 0, PCNONE, rtol, 1000, &pc));
    PetscCall(PCBJIDRSSetLocalBlocks(pc, blocks.n, blocks.sizes));
    PetscCall(PCApply(pc, b, y));
    PetscCall(PCGetFailedReason(pc, &failed));
    PetscCall(ComplainIf(failed != (mine ? PC_SUBPC_ERROR : PC_NOERROR), "%s: %s", what, PCFailedReasons[failed]));
    PetscCall(CheckBlocks(what, pc, A, &blocks, rtol, bad, b, y));
    PetscCall(PCBJIDRSGetResults(pc, NULL, &reasons, NULL, NULL));
    if (mine)
      PetscCall(ComplainIf(kinds[i] == NOT_A_NUMBER ? reasons[bad - blocks.first] != KSP_DIVERGED_NANORINF
                                                    : reasons[bad - blocks.first] >= 0,
                           "%s: %s", what, KSPConvergedReasons[reasons[bad - blocks.first]]));
    PetscCall(VecGetArrayRead(x, &xarray));
    PetscCall(VecGetArrayRead(y, &yarray));
    for (PetscInt k = 0; k < blocks.n; k++) {
      PetscBool same;

      PetscCall(PetscArraycmp(xarray + blocks.starts[k], yarray + blocks.starts[k], blocks.sizes[k], &same));
      if (blocks.first + k != bad) PetscCall(ComplainIf(!same, "%s: another x in block %" PetscInt_FMT, what, k));
      else {
        for (PetscInt j = blocks.starts[k]; j < blocks.starts[k + 1]; j++)
          PetscCall(ComplainIf(PetscIsInfOrNanScalar(yarray[j]), "%s: its x is not finite", what));
      }
    }
    PetscCall(VecRestoreArrayRead(y, &yarray));
    PetscCall(VecRestoreArrayRead(x, &xarray));
    PetscCall(PCSetErrorIfFailure(pc, PETSC_TRUE));
    PetscCall(Listen());
    /* the error of one process leaves its event open, so that it does not wait at the next ones: hence -log_sync 0 */
    ierr = PCApply(pc, b, y);
    PetscCall(Heard());
    if (mine) {
      char number[32], rows[64];

      PetscCall(PetscSNPrintf(number, sizeof(number), "Block %" PetscInt_FMT " ", bad - blocks.first));
      PetscCall(PetscSNPrintf(rows, sizeof(rows), "rows %" PetscInt_FMT " to %" PetscInt_FMT " ", blocks.starts[bad - blocks.first],
                              blocks.starts[bad - blocks.first + 1] - 1));
      PetscCall(CheckError(ierr, what, number, rows));
      PetscCall(CheckError(ierr, what, "Block", KSPConvergedReasons[reasons[bad - blocks.first]]));
    } else PetscCall(ComplainIf(ierr, "%s on another process: error code %d", what, (int)ierr));
    PetscCall(Unlock(b));
    PetscCall(Unlock(y));
    PetscCall(PCSetErrorIfFailure(pc, PETSC_FALSE));
    PetscCall(VecSet(c, 0.0));
    PetscCall(PCApply(pc, c, y));
    PetscCall(PCGetFailedReason(pc, &failed));
    PetscCall(ComplainIf(failed, "%s, b = 0: %s", what, PCFailedReasons[failed]));
    PetscCall(VecDestroy(&c));
    PetscCall(PCDestroy(&pc));
    PetscCall(MatDestroy(&A));
  }
  PetscCall(VecDestroy(&y));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&good));
  PetscCall(BlocksDestroy(&blocks));
  PetscCall(Verdict("bad blocks among good ones"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Bad blocks of both kinds all over many good ones */
static PetscErrorCode TestManyBad(void)
{
  const PetscInt            sizes[] = {40, 7, 100, 1, 33};
  const KSPConvergedReason *reasons;
  const PetscScalar        *xarray, *yarray;
  Blocks                    blocks;
  Mat                       A;
  Vec                       b, x, y;
  PC                        pc;
  PetscInt                  rstart, zeros = 0, *rows;

  PetscFunctionBeginUser;
  PetscCall(BlocksCreate(400, sizes, 5, &blocks));
  PetscCall(BatchCreate(&blocks, 0.0, -1, GOOD, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(b, &y));
  PetscCall(BatchPCCreate(A, 4, 0, PCJACOBI, rtol, 1000, &pc));
  if (blocks.n) PetscCall(PCBJIDRSSetLocalBlocks(pc, blocks.n, blocks.sizes));
  PetscCall(PCApply(pc, b, x));
  PetscCall(MatGetOwnershipRange(A, &rstart, NULL));
  PetscCall(PetscMalloc1(blocks.n, &rows));
#define IsNaN(k)      ((blocks.first + (k)) % 7 == 3)
#define IsSingular(k) ((blocks.first + (k)) % 11 == 5 && !IsNaN(k))
  for (PetscInt k = 0; k < blocks.n; k++) {
    const PetscInt row = rstart + (blocks.starts[k] + blocks.starts[k + 1]) / 2;

    if (IsNaN(k)) PetscCall(MatSetValue(A, row, row, NAN, INSERT_VALUES));
    else if (IsSingular(k)) rows[zeros++] = row;
  }
  PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatZeroRows(A, zeros, rows, 0.0, NULL, NULL));
  PetscCall(PCSetUp(pc));
  PetscCall(PCApply(pc, b, y));
  PetscCall(PCBJIDRSGetResults(pc, NULL, &reasons, NULL, NULL));
  PetscCall(VecGetArrayRead(x, &xarray));
  PetscCall(VecGetArrayRead(y, &yarray));
  for (PetscInt k = 0; k < blocks.n; k++) {
    PetscBool same;

    PetscCall(PetscArraycmp(xarray + blocks.starts[k], yarray + blocks.starts[k], blocks.sizes[k], &same));
    if (IsNaN(k))
      PetscCall(
        ComplainIf(reasons[k] != KSP_DIVERGED_NANORINF, "NaN block %" PetscInt_FMT ": %s", k, KSPConvergedReasons[reasons[k]]));
    else if (IsSingular(k))
      PetscCall(ComplainIf(reasons[k] >= 0, "singular block %" PetscInt_FMT ": %s", k, KSPConvergedReasons[reasons[k]]));
    else
      PetscCall(ComplainIf(reasons[k] <= 0 || !same, "good block %" PetscInt_FMT " beside bad ones: %s%s", k,
                           KSPConvergedReasons[reasons[k]], same ? "" : ", another x"));
  }
#undef IsNaN
#undef IsSingular
  PetscCall(VecRestoreArrayRead(y, &yarray));
  PetscCall(VecRestoreArrayRead(x, &xarray));
  PetscCall(PetscFree(rows));
  PetscCall(PCDestroy(&pc));
  PetscCall(VecDestroy(&y));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(BlocksDestroy(&blocks));
  PetscCall(Verdict("many bad blocks"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The same block is solved to the same bits wherever it stands */
static PetscErrorCode TestPlace(void)
{
  const PetscInt     sizes[] = {90};
  const PetscScalar *array;
  PetscScalar        first[90], other[90];
  Blocks             blocks;
  Mat                A;
  Vec                b, x;
  PC                 pc;
  PetscInt           rstart;

  PetscFunctionBeginUser;
  PetscCall(BlocksCreate(7, sizes, 1, &blocks));
  PetscCall(BatchCreate(&blocks, 0.0, -1, GOOD, &A, &b));
  PetscCall(MatGetOwnershipRange(A, &rstart, NULL));
  PetscCall(MatZeroEntries(A));
  for (PetscInt i = 0; i < blocks.rows; i++) {
    PetscInt    columns[5], count = BlockRow(3, 90, GOOD, i % 90, columns, other);
    PetscScalar value = Noise(5, i % 90, 1);

    for (PetscInt l = 0; l < count; l++)
      PetscCall(MatSetValue(A, rstart + i, rstart + i - i % 90 + columns[l], other[l], INSERT_VALUES));
    PetscCall(VecSetValue(b, rstart + i, value, INSERT_VALUES));
  }
  PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  PetscCall(VecAssemblyBegin(b));
  PetscCall(VecAssemblyEnd(b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(BatchPCCreate(A, 4, 1, PCJACOBI, rtol, 1000, &pc));
  PetscCall(PCApply(pc, b, x));
  PetscCall(CheckBlocks("the same blocks", pc, A, &blocks, rtol, -1, b, x));
  PetscCall(VecGetArrayRead(x, &array));
  PetscCall(PetscArrayzero(first, 90));
  if (blocks.n) PetscCall(PetscArraycpy(first, array, 90));
  PetscCallMPI(MPI_Bcast(first, 90, MPIU_SCALAR, 0, PETSC_COMM_WORLD));
  for (PetscInt k = 0; k < blocks.n; k++) {
    PetscBool same;

    PetscCall(PetscArraycmp(array + 90 * k, first, 90, &same));
    PetscCall(ComplainIf(!same && (blocks.first || k), "another x in block %" PetscInt_FMT, k));
  }
  PetscCall(VecRestoreArrayRead(x, &array));
  PetscCall(PCDestroy(&pc));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(BlocksDestroy(&blocks));
  PetscCall(Verdict("wherever a block stands"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Several right-hand sides: column by column the same bits as applications to vectors, also by KSPMatSolve() */
static PetscErrorCode TestColumns(void)
{
  const PetscInt            columns = 5;
  Blocks                    blocks;
  Mat                       A, B, X, Y;
  Vec                       b, x, y;
  KSP                       ksp;
  PC                        pc;
  PetscInt                  n;
  PetscBool                 gpu;
  const KSPConvergedReason *reasons;

  PetscFunctionBeginUser;
  PetscCall(BlocksCreate(PETSC_STATIC_ARRAY_LENGTH(mixed), mixed, PETSC_STATIC_ARRAY_LENGTH(mixed), &blocks));
  PetscCall(BatchCreate(&blocks, 0.0, -1, GOOD, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(b, &y));
  PetscCall(OnGPU(A, &gpu));
  PetscCall(MatCreate(PETSC_COMM_WORLD, &B));
  PetscCall(MatSetSizes(B, blocks.rows, PETSC_DECIDE, PETSC_DETERMINE, columns));
  PetscCall(MatSetType(B, gpu ? MATDENSECUDA : MATDENSE));
  PetscCall(MatSetUp(B));
  PetscCall(MatAssemblyBegin(B, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(B, MAT_FINAL_ASSEMBLY));
  for (PetscInt j = 0; j < columns; j++) {
    PetscCall(VecSetGeneral(b, 0.1 + 0.2 * (PetscReal)j));
    if (j == 2) PetscCall(VecSet(b, 0.0));
    PetscCall(ColumnSet(B, j, b));
  }
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &X));
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &Y));
  PetscCall(BatchPCCreate(A, 2, 0, PCJACOBI, rtol, 1000, &pc));
  PetscCall(PCSetUp(pc));
  PetscCall(PCMatApply(pc, B, X));
  PetscCall(PCBJIDRSGetResults(pc, &n, &reasons, NULL, NULL));
  PetscCall(ComplainIf(n != columns * blocks.n, "%" PetscInt_FMT " results of %" PetscInt_FMT " systems", n, columns * blocks.n));
  for (PetscInt i = 0; i < n; i++)
    PetscCall(ComplainIf(reasons[i] != (i / blocks.n == 2 ? KSP_CONVERGED_ATOL : KSP_CONVERGED_RTOL),
                         "system %" PetscInt_FMT ": %s", i, KSPConvergedReasons[reasons[i]]));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPSetType(ksp, KSPPREONLY));
  PetscCall(KSPSetPC(ksp, pc));
  PetscCall(KSPMatSolve(ksp, B, Y));
  for (PetscInt j = 0; j < columns; j++) {
    PetscReal difference;

    PetscCall(ColumnGet(B, j, b));
    PetscCall(PCApply(pc, b, x));
    PetscCall(CheckBlocks("a column", pc, A, &blocks, rtol, -1, b, x));
    for (PetscInt l = 0; l < 2; l++) {
      PetscCall(ColumnGet(l ? Y : X, j, y));
      PetscCall(VecAXPY(y, -1.0, x));
      PetscCall(VecNorm(y, NORM_INFINITY, &difference));
      PetscCall(ComplainIf(difference != 0.0, "column %" PetscInt_FMT " by %s differs by %g", j,
                           l ? "KSPMatSolve()" : "PCMatApply()", (double)difference));
    }
  }
  PetscCall(KSPDestroy(&ksp));
  PetscCall(PCDestroy(&pc));
  PetscCall(MatDestroy(&Y));
  PetscCall(MatDestroy(&X));
  PetscCall(MatDestroy(&B));
  PetscCall(VecDestroy(&y));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(BlocksDestroy(&blocks));
  PetscCall(Verdict("several right-hand sides"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Block Jacobi for a coupled system: flexible solvers need about as many iterations as with exact blocks */
static PetscErrorCode TestPreconditioner(void)
{
  const char *const solvers[] = {KSPIDRS, KSPFGMRES};
  Mat               A;
  Vec               b, x;
  PetscInt          n, lines;

  PetscFunctionBeginUser;
  PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 30, 0.4, LAYOUT_EVEN, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(MatGetLocalSize(A, &n, NULL));
  lines = n % 30 ? 1 : n / 30; /* a block is a line of the grid, where the layout allows it */
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(solvers); i++) {
    PetscInt its[2];

    for (PetscInt exact = 0; exact < 2; exact++) {
      KSP ksp, inner;
      PC  pc;

      PetscCall(SolverCreate(A, 4, exact ? PCBJACOBI : PCBJIDRS, &ksp));
      if (i) PetscCall(KSPSetType(ksp, solvers[i]));
      PetscCall(KSPSetPCSide(ksp, PC_RIGHT));
      PetscCall(KSPGetPC(ksp, &pc));
      if (exact) {
        KSP     *blocks;
        PetscInt nblocks;

        PetscCall(PCBJacobiSetLocalBlocks(pc, lines, NULL));
        PetscCall(KSPSetUp(ksp));
        PetscCall(PCBJacobiGetSubKSP(pc, &nblocks, NULL, &blocks));
        for (PetscInt k = 0; k < nblocks; k++) {
          PC sub;

          PetscCall(KSPGetPC(blocks[k], &sub));
          PetscCall(PCSetType(sub, PCLU));
        }
      } else {
        PetscCall(PCBJIDRSSetLocalBlocks(pc, lines, NULL));
        PetscCall(PCBJIDRSGetKSP(pc, &inner));
        PetscCall(KSPSetTolerances(inner, 1e-3, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
      }
      PetscCall(KSPSolve(ksp, b, x));
      PetscCall(CheckSolved(solvers[i], ksp, A, b, x));
      PetscCall(KSPGetIterationNumber(ksp, &its[exact]));
      PetscCall(KSPDestroy(&ksp));
    }
    PetscCall(ComplainIf(its[0] > its[1] + its[1] / 4 + 4, "%s: %" PetscInt_FMT " iterations instead of %" PetscInt_FMT, solvers[i],
                         its[0], its[1]));
  }
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("as a preconditioner"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A number of iterations without a test, too few iterations, tight tolerances, very small and large b */
static PetscErrorCode TestTolerances(void)
{
  const PetscInt            sizes[] = {150, 1, 40};
  const PetscReal           small = 1.0 / PetscSqrtReal(PETSC_MAX_REAL), scales[] = {1.0, small * small * 1e4, small, 1e-3 / small};
  Blocks                    blocks;
  Mat                       A;
  Vec                       b, c, x;
  PC                        pc;
  KSP                       inner;
  PetscInt                  n;
  const KSPConvergedReason *reasons;
  const PetscInt           *its;
  PCFailedReason            failed;

  PetscFunctionBeginUser;
  PetscCall(BlocksCreate(6, sizes, 3, &blocks));
  PetscCall(BatchCreate(&blocks, 0.0, -1, GOOD, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(b, &c));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(scales); i++) {
    char what[64];

    PetscCall(PetscSNPrintf(what, sizeof(what), "b of size %g", (double)scales[i]));
    PetscCall(VecCopy(b, c));
    PetscCall(VecScale(c, scales[i]));
    PetscCall(BatchPCCreate(A, 4, 0, PCNONE, 100 * PETSC_MACHINE_EPSILON, 1000, &pc));
    PetscCall(PCApply(pc, c, x));
    /* of the smallest numbers the digits of x are lost below the tolerance */
    if (scales[i] >= small) PetscCall(CheckBlocks(what, pc, A, &blocks, 100 * PETSC_MACHINE_EPSILON, -1, c, x));
    else {
      PetscReal norm, size;

      PetscCall(MatMult(A, x, c));
      PetscCall(VecScale(c, 1.0 / scales[i]));
      PetscCall(VecAXPY(c, -1.0, b));
      PetscCall(VecNorm(c, NORM_2, &norm));
      PetscCall(VecNorm(b, NORM_2, &size));
      PetscCall(ComplainIf(!(norm <= 1e-3 * size), "%s: ||b - A x|| = %g of %g", what, (double)norm, (double)size));
    }
    PetscCall(PCDestroy(&pc));
  }

  PetscCall(BatchPCCreate(A, 2, 0, PCNONE, rtol, 3, &pc));
  PetscCall(PCApply(pc, b, x));
  PetscCall(PCGetFailedReason(pc, &failed));
  PetscCall(PCBJIDRSGetResults(pc, &n, &reasons, &its, NULL));
  PetscCall(ComplainIf((failed == PC_NOERROR) != !n, "too few iterations: %s", PCFailedReasons[failed]));
  for (PetscInt k = 0; k < n; k++) {
    const PetscBool single = (PetscBool)(blocks.sizes[k] == 1);

    PetscCall(ComplainIf(single ? reasons[k] <= 0 : reasons[k] != KSP_DIVERGED_ITS || its[k] != 3,
                         "block of %" PetscInt_FMT " rows with 3 iterations: %s after %" PetscInt_FMT, blocks.sizes[k],
                         KSPConvergedReasons[reasons[k]], its[k]));
  }
  PetscCall(PCBJIDRSGetKSP(pc, &inner));
  PetscCall(KSPSetNormType(inner, KSP_NORM_NONE));
  PetscCall(PCApply(pc, b, x));
  PetscCall(PCGetFailedReason(pc, &failed));
  PetscCall(ComplainIf(failed, "without a test: %s", PCFailedReasons[failed]));
  PetscCall(PCBJIDRSGetResults(pc, &n, &reasons, &its, NULL));
  for (PetscInt k = 0; k < n; k++)
    PetscCall(ComplainIf(reasons[k] <= 0 || its[k] > 3 || (blocks.sizes[k] > 1 && its[k] != 3),
                         "block of %" PetscInt_FMT " rows without a test: %s after %" PetscInt_FMT, blocks.sizes[k],
                         KSPConvergedReasons[reasons[k]], its[k]));
  PetscCall(PCDestroy(&pc));
  PetscCall(VecDestroy(&c));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(BlocksDestroy(&blocks));
  PetscCall(Verdict("tolerances and limits"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Values, pattern and matrix change between applications */
static PetscErrorCode TestChanges(void)
{
  const PetscInt equal[] = {24};
  Blocks         blocks, other;
  Mat            A, B;
  Vec            b, c, x, y;
  PC             pc;
  PetscInt       rstart, n;

  PetscFunctionBeginUser;
  PetscCall(BlocksCreate(PETSC_STATIC_ARRAY_LENGTH(mixed), mixed, PETSC_STATIC_ARRAY_LENGTH(mixed), &blocks));
  PetscCall(BlocksCreate(11, equal, 1, &other));
  PetscCall(BatchCreate(&blocks, 0.0, -1, GOOD, &A, &b));
  PetscCall(BatchCreate(&other, 0.0, -1, GOOD, &B, &c));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(c, &y));
  PetscCall(BatchPCCreate(A, 4, 0, PCJACOBI, rtol, 1000, &pc));
  PetscCall(PCApply(pc, b, x));
  PetscCall(MatScale(A, 3.0));
  PetscCall(MatShift(A, 5.0));
  PetscCall(PCSetUp(pc));
  PetscCall(PCApply(pc, b, x));
  PetscCall(CheckBlocks("other values", pc, A, &blocks, rtol, -1, b, x));

  PetscCall(PCReset(pc));
  PetscCall(PCSetOperators(pc, B, B));
  PetscCall(PCApply(pc, c, y));
  PetscCall(CheckBlocks("another matrix", pc, B, &other, rtol, -1, c, y));
  PetscCall(MatGetOwnershipRange(B, &rstart, NULL));
  PetscCall(MatSetOption(B, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
  PetscCall(PCSetReusePreconditioner(pc, PETSC_TRUE));
  for (PetscInt k = 0; k < other.n; k++)
    PetscCall(MatSetValue(B, rstart + other.starts[k] + 2, rstart + other.starts[k] + 9, -0.4, INSERT_VALUES));
  PetscCall(MatAssemblyBegin(B, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(B, MAT_FINAL_ASSEMBLY));
  PetscCall(PCSetUp(pc));
  PetscCall(PCApply(pc, c, y));
  PetscCall(CheckBlocks("longer rows with a preconditioner that is reused", pc, B, &other, rtol, -1, c, y));
  PetscCall(PCSetReusePreconditioner(pc, PETSC_FALSE));
  if (other.n >= 2) PetscCall(MatSetValue(B, rstart, rstart + 30, 0.01, INSERT_VALUES)); /* ties the first two blocks together */
  PetscCall(MatAssemblyBegin(B, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(B, MAT_FINAL_ASSEMBLY));
  PetscCall(PCSetUp(pc));
  PetscCall(PCBJIDRSGetLocalBlocks(pc, &n, NULL));
  PetscCall(ComplainIf(n != other.n - (other.n >= 2 ? 1 : 0), "another pattern: %" PetscInt_FMT " blocks", n));
  PetscCall(PCDestroy(&pc));
  PetscCall(VecDestroy(&y));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&c));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&B));
  PetscCall(MatDestroy(&A));
  PetscCall(BlocksDestroy(&other));
  PetscCall(BlocksDestroy(&blocks));
  PetscCall(Verdict("changes"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves by a KSP after one whose blocks have failed on the first process only */
static PetscErrorCode TestAfterFailure(void)
{
  const KSPType outer[] = {KSPPREONLY, KSPFGMRES, KSPGCR, KSPIDRS};
  PetscMPIInt   rank;
  Blocks        blocks;
  Mat           A;
  Vec           b, x, r;
  PetscReal     bnorm, rnorm;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCall(BlocksCreate(PETSC_STATIC_ARRAY_LENGTH(mixed), mixed, PETSC_STATIC_ARRAY_LENGTH(mixed), &blocks));
  PetscCall(BatchCreate(&blocks, 0.0, -1, GOOD, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(b, &r));
  PetscCall(VecNorm(b, NORM_2, &bnorm));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(outer); i++) {
    KSP                ksp, inner;
    PC                 pc;
    KSPConvergedReason reason;

    PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
    PetscCall(KSPSetOperators(ksp, A, A));
    PetscCall(KSPSetType(ksp, outer[i]));
    PetscCall(KSPSetTolerances(ksp, rtol, PETSC_DEFAULT, PETSC_DEFAULT, 100));
    PetscCall(BatchPCCreate(A, 4, 0, PCNONE, 0.1 * rtol, rank ? 1000 : 1, &pc));
    PetscCall(KSPSetPC(ksp, pc));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(PCBJIDRSGetKSP(pc, &inner));
    PetscCall(KSPSetTolerances(inner, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT, 1000));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(KSPGetConvergedReason(ksp, &reason));
    PetscCall(ComplainIf(reason <= 0, "%s after a failure: %s", outer[i], KSPConvergedReasons[reason]));
    PetscCall(MatMult(A, x, r));
    PetscCall(VecAXPY(r, -1.0, b));
    PetscCall(VecNorm(r, NORM_2, &rnorm));
    PetscCall(ComplainIf(!(rnorm <= 1.01 * rtol * bnorm), "%s after a failure: ||b - A x|| = %g, ||b|| = %g", outer[i],
                         (double)rnorm, (double)bnorm));
    PetscCall(PCDestroy(&pc));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(VecDestroy(&r));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(BlocksDestroy(&blocks));
  PetscCall(Verdict("solves after a failure"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A block with as many rows as there are shadow vectors is solved by the start; and the preconditioner inside may be set at any
   time
*/
static PetscErrorCode TestIterations(void)
{
  PetscFunctionBeginUser;
  for (PetscInt s = 1; s <= 16; s++) {
    const PetscInt *its;
    PetscInt        n, sum[2] = {0, 0};
    Blocks          blocks;
    Mat             A;
    Vec             b, x;
    KSP             inner;
    PC              pc, innerpc;

    PetscCall(BlocksCreate(60, &s, 1, &blocks));
    PetscCall(BatchCreate(&blocks, 0.0, -1, GOOD, &A, &b));
    PetscCall(VecDuplicate(b, &x));
    /* rows of very different sizes, for Jacobi; single precision has not the digits for them */
    if (!PetscDefined(USE_REAL_SINGLE)) PetscCall(MatDiagonalScale(A, b, NULL));
    PetscCall(BatchPCCreate(A, s, 0, PCNONE, rtol, 1000, &pc));
    if (blocks.n) PetscCall(PCBJIDRSSetLocalBlocks(pc, blocks.n, blocks.sizes));
    for (PetscInt jacobi = 0; jacobi < 2; jacobi++) {
      PetscCall(PCApply(pc, b, x));
      PetscCall(CheckBlocks("as many rows as shadow vectors", pc, A, &blocks, rtol, -1, b, x));
      PetscCall(PCBJIDRSGetResults(pc, &n, NULL, &its, NULL));
      for (PetscInt k = 0; k < n; k++) sum[jacobi] += its[k];
      PetscCall(PCBJIDRSGetKSP(pc, &inner));
      PetscCall(KSPGetPC(inner, &innerpc));
      PetscCall(PCSetType(innerpc, PCJACOBI));
    }
    PetscCall(ComplainIf(10 * sum[0] > 13 * s * n,
                         "s = %" PetscInt_FMT ": %" PetscInt_FMT " iterations of %" PetscInt_FMT " blocks", s, sum[0], n));
    PetscCall(ComplainIf(10 * sum[1] > 13 * s * n,
                         "s = %" PetscInt_FMT ", Jacobi: %" PetscInt_FMT " iterations of %" PetscInt_FMT " blocks", s, sum[1], n));
    PetscCall(PCDestroy(&pc));
    PetscCall(VecDestroy(&x));
    PetscCall(VecDestroy(&b));
    PetscCall(MatDestroy(&A));
    PetscCall(BlocksDestroy(&blocks));
  }
  PetscCall(Verdict("iterations"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Near to the attainable accuracy r of a recurrence meets tolerances that b - A x does not: many blocks are solved by restarts
   only, and none counts as solved that is not
*/
static PetscErrorCode TestRestarts(void)
{
  const PetscInt  n = 60, restarts[] = {0, 10};
  const PetscReal tolerance = 1.4e5 * PETSC_MACHINE_EPSILON;

  PetscFunctionBeginUser;
  for (PetscInt s = 1; s <= 4; s *= 2) {
    PetscInt rstart, failed[2] = {0, 0};
    Blocks   blocks;
    Mat      A;
    Vec      b, x;

    PetscCall(BlocksCreate(100, &n, 1, &blocks));
    PetscCall(BatchCreate(&blocks, 0.0, -1, GOOD, &A, &b));
    PetscCall(MatZeroEntries(A));
    PetscCall(MatGetOwnershipRange(A, &rstart, NULL));
    for (PetscInt i = 0; i < blocks.rows; i++) {
      PetscCall(MatSetValue(A, rstart + i, rstart + i, -1.0, INSERT_VALUES));
      if (i % n < n - 1) PetscCall(MatSetValue(A, rstart + i, rstart + i + 1, 1.0, INSERT_VALUES));
      if (i % n > 0) PetscCall(MatSetValue(A, rstart + i, rstart + i - 1, 1.5 + 0.001 * (blocks.first + i / n), INSERT_VALUES));
    }
    PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
    PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
    PetscCall(VecDuplicate(b, &x));
    for (PetscInt ir = 0; ir < 2; ir++) {
      const KSPConvergedReason *reasons;
      const PetscScalar        *barray, *xarray;
      KSP                       inner;
      PC                        pc;

      PetscCall(BatchPCCreate(A, s, 0, PCNONE, tolerance, 3000, &pc));
      if (blocks.n) PetscCall(PCBJIDRSSetLocalBlocks(pc, blocks.n, blocks.sizes));
      PetscCall(PCBJIDRSGetKSP(pc, &inner));
      PetscCall(KSPIDRSSetMaxRestarts(inner, restarts[ir]));
      PetscCall(PCApply(pc, b, x));
      PetscCall(PCBJIDRSGetResults(pc, NULL, &reasons, NULL, NULL));
      PetscCall(VecGetArrayRead(b, &barray));
      PetscCall(VecGetArrayRead(x, &xarray));
      for (PetscInt k = 0; k < blocks.n; k++) {
        PetscReal bnorm, rnorm, xx = 0.0, rounding;

        PetscCall(BlockResidual(A, &blocks, k, barray, xarray, &bnorm, &rnorm));
        for (PetscInt i = blocks.starts[k]; i < blocks.starts[k + 1]; i++) xx += PetscSqr(PetscAbsScalar(xarray[i]));
        rounding = 8 * PETSC_MACHINE_EPSILON * (bnorm + 3.6 * PetscSqrtReal(xx)); /* of b - A x, there and here, as x is large */
        if (reasons[k] <= 0) failed[ir]++;
        else
          PetscCall(ComplainIf(!(rnorm <= 1.01 * tolerance * bnorm + rounding),
                               "s = %" PetscInt_FMT ", %" PetscInt_FMT " restarts: block %" PetscInt_FMT
                               " is said to be solved, ||b - A x|| = %g of %g",
                               s, restarts[ir], k, (double)rnorm, (double)bnorm));
      }
      PetscCall(VecRestoreArrayRead(x, &xarray));
      PetscCall(VecRestoreArrayRead(b, &barray));
      PetscCall(PCDestroy(&pc));
    }
    IDRSCallAllreduce(MPI_IN_PLACE, failed, 2, MPIU_INT, MPI_SUM, PETSC_COMM_WORLD);
    PetscCall(ComplainIf(failed[0] < 5 || 10 * failed[1] > 6 * failed[0],
                         "s = %" PetscInt_FMT ": %" PetscInt_FMT " of 100 blocks fail with restarts, %" PetscInt_FMT " without", s,
                         failed[1], failed[0]));
    PetscCall(VecDestroy(&x));
    PetscCall(VecDestroy(&b));
    PetscCall(MatDestroy(&A));
    PetscCall(BlocksDestroy(&blocks));
  }
  PetscCall(Verdict("restarts"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The options are those that functions set: the same bits come of both, and others of another seed */
static PetscErrorCode TestOptions(void)
{
  const PetscInt  equal[] = {40}, seeds[] = {5, 6};
  const PetscReal loose = 1e-2;
  char            text[256];
  PetscOptions    options;
  PetscInt        maxits, nblocks, s;
  PetscReal       tolerance;
  PetscBool       same;
  Blocks          blocks;
  Mat             A;
  Vec             b, x, y;
  KSP             inner;
  PC              pc;

  PetscFunctionBeginUser;
  PetscCall(BlocksCreate(6, equal, 1, &blocks));
  PetscCall(BatchCreate(&blocks, 0.5, -1, GOOD, &A, &b));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(b, &y));
  PetscCall(PetscSNPrintf(
    text, sizeof(text),
    "-pc_type bjidrs -pc_bjidrs_blocks %" PetscInt_FMT
    " -pc_bjidrs_ksp_rtol %g -pc_bjidrs_ksp_max_it 77 -pc_bjidrs_ksp_idrs_s 3 -pc_bjidrs_ksp_idrs_seed 5 -pc_bjidrs_pc_type none",
    blocks.n, (double)loose));
  PetscCall(OptionsPush(text, &options));
  PetscCall(PCCreate(PETSC_COMM_WORLD, &pc));
  PetscCall(PCSetOperators(pc, A, A));
  PetscCall(PCSetFromOptions(pc));
  PetscCall(PCBJIDRSGetKSP(pc, &inner));
  PetscCall(KSPGetTolerances(inner, &tolerance, NULL, NULL, &maxits));
  PetscCall(KSPIDRSGetShadowSize(inner, &s));
  PetscCall(ComplainIf(tolerance != loose || maxits != 77 || s != 3,
                       "options: tolerance %g, %" PetscInt_FMT " iterations, s = %" PetscInt_FMT, (double)tolerance, maxits, s));
  PetscCall(PCApply(pc, b, x));
  PetscCall(CheckBlocks("with options", pc, A, &blocks, loose, -1, b, x));
  PetscCall(PCBJIDRSGetLocalBlocks(pc, &nblocks, NULL));
  PetscCall(ComplainIf(nblocks != blocks.n, "options: %" PetscInt_FMT " blocks", nblocks));
  PetscCall(PCDestroy(&pc));
  PetscCall(OptionsPop(&options));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(seeds); i++) {
    PetscCall(BatchPCCreate(A, 3, seeds[i], PCNONE, loose, 77, &pc));
    PetscCall(PCBJIDRSSetLocalBlocks(pc, blocks.n, NULL));
    PetscCall(PCApply(pc, b, y));
    PetscCall(VecEqual(x, y, &same));
    PetscCall(ComplainIf(same != (seeds[i] == 5 ? PETSC_TRUE : PETSC_FALSE), "seed %" PetscInt_FMT ": %s x as with options",
                         seeds[i], same ? "the same" : "another"));
    PetscCall(PCDestroy(&pc));
  }
  PetscCall(VecDestroy(&y));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(BlocksDestroy(&blocks));
  PetscCall(Verdict("options"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode MonitorNothing(KSP ksp, PetscInt it, PetscReal norm, void *ctx)
{
  return PETSC_SUCCESS;
}

static PetscErrorCode TestNothing(KSP ksp, PetscInt it, PetscReal norm, KSPConvergedReason *reason, void *ctx)
{
  return PETSC_SUCCESS;
}

/* What the inner KSP must not ask for */
static PetscErrorCode AskFor(PetscInt what, KSP inner)
{
  PC pc;

  PetscFunctionBeginUser;
  PetscCall(KSPGetPC(inner, &pc));
  switch (what) {
  case 0:
    PetscCall(KSPSetType(inner, KSPGMRES));
    break;
  case 1:
    PetscCall(PCSetType(pc, PCSOR));
    break;
  case 2:
    PetscCall(KSPSetPCSide(inner, PC_LEFT));
    break;
  case 3:
    PetscCall(KSPSetNormType(inner, KSP_NORM_NATURAL));
    break;
  case 4:
    PetscCall(KSPSetInitialGuessNonzero(inner, PETSC_TRUE));
    break;
  case 5:
    PetscCall(KSPMonitorSet(inner, MonitorNothing, NULL, NULL));
    break;
  case 6:
    PetscCall(KSPIDRSSetSmoothing(inner, PETSC_TRUE));
    break;
  case 7:
    PetscCall(KSPIDRSSetShadowSize(inner, 17));
    break;
  case 8:
    PetscCall(KSPIDRSSetProduct(inner, KSP_IDRS_PRODUCT_MAT));
    break;
  case 9:
    PetscCall(KSPSetInitialGuessKnoll(inner, PETSC_TRUE));
    break;
  case 10:
    PetscCall(KSPSetCheckNormIteration(inner, 15));
    break;
  case 11:
    PetscCall(KSPSetErrorIfNotConverged(inner, PETSC_TRUE));
    break;
  default:
    PetscCall(KSPSetConvergenceTest(inner, TestNothing, NULL, NULL));
    break;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode TestBadInput(void)
{
  const char *const settings[] = {"ksp_type",
                                  "pc_type",
                                  "ksp_pc_side",
                                  "ksp_norm_type",
                                  "ksp_initial_guess_nonzero",
                                  "ksp_monitor",
                                  "ksp_idrs_smoothing",
                                  "ksp_idrs_s",
                                  "ksp_idrs_product",
                                  "ksp_knoll",
                                  "ksp_check_norm_iteration",
                                  "ksp_error_if_not_converged",
                                  "KSPConvergedDefault"};
  const char *const values[]   = {"gmres",           "sor", "LEFT", "NATURAL", "zero", "PCBJIDRSGetResults",
                                  "residuals",       "17",  "mat",  "zero",    "15",   "PCBJIDRSGetResults",
                                  "convergence test"};
  const PetscInt    equal[] = {10}, zero[] = {10, 0, 20}, few[] = {10, 10}, many[] = {20, 20},
                 huge[] = {PETSC_MAX_INT, PETSC_MAX_INT, 32}, negative[] = {20, -10, 20};
  Blocks         blocks;
  Mat            A, dense, wide;
  Vec            b, x;
  PC             pc;
  PetscErrorCode ierr;

  PetscFunctionBeginUser;
  PetscCall(BlocksCreate(3, equal, 1, &blocks));
  PetscCall(BlocksDestroy(&blocks));
  blocks = (Blocks){3, 0, NULL, 0, NULL};
  PetscCall(PetscMalloc2(3, &blocks.sizes, 4, &blocks.starts));
  for (PetscInt i = 0; i <= 3; i++) blocks.starts[i] = 10 * i;
  for (PetscInt i = 0; i < 3; i++) blocks.sizes[i] = 10;
  blocks.rows = 30; /* on each process */
  PetscCall(BatchCreate(&blocks, 0.0, -1, GOOD, &A, &b));
  PetscCall(VecDuplicate(b, &x));

  PetscCall(BatchPCCreate(A, 4, 0, PCNONE, rtol, 1000, &pc));
#define TestSizes(n, sizes, setting, value) \
  do { \
    PetscCall(Listen()); \
    ierr = PCBJIDRSSetLocalBlocks(pc, n, sizes); \
    if (!ierr) ierr = PCSetUp(pc); \
    PetscCall(Heard()); \
    PetscCall(CheckError(ierr, "sizes of blocks", setting, value)); \
  } while (0)
  TestSizes(-1, NULL, "pc_bjidrs_blocks", "-1");
  TestSizes(7, NULL, "pc_bjidrs_blocks", "7");
  TestSizes(3, zero, "PCBJIDRSSetLocalBlocks", "0");
  TestSizes(2, few, "PCBJIDRSSetLocalBlocks", "20");
  TestSizes(2, many, "PCBJIDRSSetLocalBlocks", "20");
  TestSizes(3, huge, "PCBJIDRSSetLocalBlocks", "30 of the 30");
#undef TestSizes
  PetscCall(PCBJIDRSSetLocalBlocks(pc, 0, NULL));
  PetscCall(MatSetVariableBlockSizes(A, 3, negative));
  PetscCall(Listen());
  ierr = PCSetUp(pc);
  PetscCall(Heard());
  PetscCall(CheckError(ierr, "sizes of blocks", "MatSetVariableBlockSizes", "-10"));
  PetscCall(PCBJIDRSSetLocalBlocks(pc, 3, NULL));
  PetscCall(PCApply(pc, b, x));
  PetscCall(CheckBlocks("after errors", pc, A, &blocks, rtol, -1, b, x));
  PetscCall(PCDestroy(&pc));

  for (PetscInt what = 0; what < (PetscInt)PETSC_STATIC_ARRAY_LENGTH(settings); what++) {
    KSP inner;

    PetscCall(BatchPCCreate(A, 4, 0, PCNONE, rtol, 1000, &pc));
    PetscCall(PCBJIDRSGetKSP(pc, &inner));
    PetscCall(AskFor(what, inner));
    PetscCall(Listen());
    ierr = PCSetUp(pc);
    PetscCall(Heard());
    PetscCall(CheckError(ierr, "inner KSP", settings[what], values[what]));
    PetscCall(PCDestroy(&pc));
  }

  PetscCall(MatCreateAIJ(PETSC_COMM_WORLD, 12, 5, PETSC_DETERMINE, PETSC_DETERMINE, 1, NULL, 1, NULL, &wide));
  PetscCall(MatAssemblyBegin(wide, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(wide, MAT_FINAL_ASSEMBLY));
  PetscCall(BatchPCCreate(wide, 4, 0, PCNONE, rtol, 1000, &pc));
  PetscCall(Listen());
  ierr = PCSetUp(pc);
  PetscCall(Heard());
  PetscCall(CheckError(ierr, "rows and columns", "12 rows", "5 columns"));
  PetscCall(PCDestroy(&pc));
  PetscCall(MatDestroy(&wide));

  PetscCall(MatConvert(A, MATDENSE, MAT_INITIAL_MATRIX, &dense));
  PetscCall(BatchPCCreate(dense, 4, 0, PCNONE, rtol, 1000, &pc));
  PetscCall(Listen());
  ierr = PCSetUp(pc);
  PetscCall(Heard());
  PetscCall(CheckError(ierr, "matrix", "pc_type", "dense"));
  PetscCall(PCDestroy(&pc));
  PetscCall(MatDestroy(&dense));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(BlocksDestroy(&blocks));
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
  PetscCall(TestManyBad());
  PetscCall(TestPlace());
  PetscCall(TestColumns());
  PetscCall(TestPreconditioner());
  PetscCall(TestTolerances());
  PetscCall(TestChanges());
  PetscCall(TestAfterFailure());
  PetscCall(TestIterations());
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
