static char help[] = "Times products with several columns, Y = A X, that read A once: microseconds a column, beside MatMult() of\n\
each column and MatMatMult() with a dense matrix.\n\
  -n n           3-D convection-diffusion, 7 points, on an n x n x n grid (default 100)\n\
  -irregular n   instead about n rows of 3 to 60 entries, 22 in the mean, at random places within 8192 columns of the diagonal\n\
  -columns 2,8   numbers of columns (default 1,2,4,8,16)\n\
  -product auto  what computes them: auto, mat, csr or sell\n\
  -matmatmult 1  time MatMatMult(), too\n\
  -block n       instead the operations of block IDR(s) with n rows, blocks of so many columns and s shadow vectors a column:\n\
                 microseconds, and GB/s of the vectors that they read and write\n\
  -s 4           these shadow vectors\n\
  -repeat 9      runs, of which the median is taken\n\n";

#include <petsctime.h>
#include <petscidrs/private/idrsops.h>
#include <petscidrs/private/idrsproduct.h>
#include "device.h"
#include "matrices.h"

#define MAX_S 16

typedef struct {
  PetscInt    k, repeat;
  Mat         A, B, product; /* product = A B, dense, NULL if it is not timed */
  IDRSProduct columns;
  Vec        *X, *Y;
} Benchmark;

static PetscErrorCode ByColumns(Benchmark *bench)
{
  PetscFunctionBeginUser;
  PetscCall(IDRSProductApplyColumns(bench->columns, bench->k, bench->X, bench->Y));
  PetscFunctionReturn(0);
}

static PetscErrorCode ByMatMult(Benchmark *bench)
{
  PetscFunctionBeginUser;
  for (PetscInt j = 0; j < bench->k; j++) PetscCall(MatMult(bench->A, bench->X[j], bench->Y[j]));
  PetscFunctionReturn(0);
}

static PetscErrorCode ByMatMatMult(Benchmark *bench)
{
  PetscFunctionBeginUser;
  PetscCall(MatProductNumeric(bench->product));
  PetscFunctionReturn(0);
}

static PetscErrorCode Synchronize(Vec like)
{
  PetscFunctionBeginUser;
  PetscCall(DeviceWait(like));
  PetscCall(PetscBarrier((PetscObject)like));
  PetscFunctionReturn(0);
}

/* Microseconds a column: of so many products one after the other that a run takes some milliseconds; median of the runs */
static PetscErrorCode Time(Benchmark *bench, PetscErrorCode (*product)(Benchmark *), PetscReal *median)
{
  PetscReal     *times, first;
  PetscLogDouble begin, end;
  PetscInt       count = 1;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(bench->repeat, &times));
  PetscCall((*product)(bench)); /* what is set up once does not count */
  for (PetscInt i = -1; i < bench->repeat; i++) {
    PetscCall(Synchronize(bench->X[0]));
    PetscCall(PetscTime(&begin));
    for (PetscInt l = 0; l < count; l++) PetscCall((*product)(bench));
    PetscCall(Synchronize(bench->X[0]));
    PetscCall(PetscTime(&end));
    first = (PetscReal)(end - begin);
    if (i >= 0) times[i] = 1e6 * first / (PetscReal)(count * bench->k);
    else count = (PetscInt)PetscMin(PetscMax(5e-3 / first, 2.0), 500.0);
    PetscCallMPI(MPI_Bcast(&count, 1, MPIU_INT, 0, PETSC_COMM_WORLD));
  }
  PetscCall(PetscSortReal(bench->repeat, times));
  *median = times[bench->repeat / 2];
  PetscCall(PetscFree(times));
  PetscFunctionReturn(0);
}

/* The largest difference from MatMult(), over the largest entry */
static PetscErrorCode Difference(Benchmark *bench, PetscReal *difference)
{
  Vec       y;
  PetscReal norm, size;

  PetscFunctionBeginUser;
  *difference = 0.0;
  PetscCall(ByColumns(bench));
  PetscCall(VecDuplicate(bench->Y[0], &y));
  for (PetscInt j = 0; j < bench->k; j++) {
    PetscCall(MatMult(bench->A, bench->X[j], y));
    PetscCall(VecNorm(y, NORM_INFINITY, &size));
    PetscCall(VecAXPY(y, -1.0, bench->Y[j]));
    PetscCall(VecNorm(y, NORM_INFINITY, &norm));
    *difference = PetscMax(*difference, norm / size);
  }
  PetscCall(VecDestroy(&y));
  PetscFunctionReturn(0);
}

/* A dense matrix of k columns, and its product as PETSc makes it */
static PetscErrorCode ProductCreate(Benchmark *bench, PetscBool gpu)
{
  PetscInt n;

  PetscFunctionBeginUser;
  PetscCall(MatGetLocalSize(bench->A, NULL, &n));
  PetscCall(MatCreate(PetscObjectComm((PetscObject)bench->A), &bench->B));
  PetscCall(MatSetSizes(bench->B, n, PETSC_DECIDE, PETSC_DETERMINE, bench->k));
  PetscCall(MatSetType(bench->B, gpu ? MATDENSECUDA : MATDENSE));
  PetscCall(MatSetUp(bench->B));
  PetscCall(MatSetRandom(bench->B, NULL));
  PetscCall(MatProductCreate(bench->A, bench->B, NULL, &bench->product));
  PetscCall(MatProductSetType(bench->product, MATPRODUCT_AB));
  PetscCall(MatProductSetFromOptions(bench->product));
  PetscCall(MatProductSymbolic(bench->product));
  PetscFunctionReturn(0);
}

static PetscErrorCode Measure(Benchmark *bench, PetscBool gpu, PetscBool matmatmult)
{
  const MPI_Comm comm = PetscObjectComm((PetscObject)bench->A);
  PetscReal      difference, columns, alone, dense = 0.0;

  PetscFunctionBeginUser;
  PetscCall(Difference(bench, &difference));
  PetscCall(Time(bench, ByMatMult, &alone));
  PetscCall(Time(bench, ByColumns, &columns));
  if (matmatmult) {
    PetscCall(ProductCreate(bench, gpu));
    PetscCall(Time(bench, ByMatMatMult, &dense));
    PetscCall(MatDestroy(&bench->product));
    PetscCall(MatDestroy(&bench->B));
  }
  PetscCall(PetscPrintf(comm, "%7" PetscInt_FMT " %10.2f %10.2f %8.3f", bench->k, (double)alone, (double)columns,
                        (double)(columns / alone)));
  if (matmatmult) PetscCall(PetscPrintf(comm, " %10.2f %8.3f", (double)dense, (double)(dense / alone)));
  PetscCall(PetscPrintf(comm, "   %8.1e\n", (double)difference));
  PetscFunctionReturn(0);
}

/* An operation of block IDR(s) that is timed: some calls of combine, each with some sums, or a projection */
typedef struct {
  IDRSWorkspace work;
  PetscInt      calls, count[MAX_S + 1];
  IDRSBlockAxpy sum[4 * MAX_S + 2];
  IDRSBlockDots dots[2];
  PetscInt      tasks; /* of a projection */
  PetscScalar  *sums;
  PetscInt      vectors; /* that it reads and writes */
} Operation;

static PetscErrorCode Operate(Operation *operation)
{
  const IDRSBlockAxpy *sum = operation->sum;

  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < operation->calls; i++) {
    PetscCall(IDRSBlockCombine(operation->work, operation->count[i], sum));
    sum += operation->count[i];
  }
  if (!operation->calls) PetscCall(IDRSBlockProject(operation->work, operation->tasks, operation->dots, operation->sums));
  PetscFunctionReturn(0);
}

static PetscErrorCode TimeOperation(Operation *operation, const char what[], PetscInt m, Vec like, PetscInt n, PetscInt repeat)
{
  PetscReal     *times;
  PetscLogDouble begin, end;
  const PetscInt count = 10;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(repeat, &times));
  PetscCall(Operate(operation));
  for (PetscInt i = 0; i < repeat; i++) {
    PetscCall(Synchronize(like));
    PetscCall(PetscTime(&begin));
    for (PetscInt l = 0; l < count; l++) PetscCall(Operate(operation));
    PetscCall(Synchronize(like));
    PetscCall(PetscTime(&end));
    times[i] = (PetscReal)(end - begin) / (PetscReal)count;
  }
  PetscCall(PetscSortReal(repeat, times));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%-24s %7" PetscInt_FMT " %8" PetscInt_FMT " %12.2f %10.0f\n", what, m,
                        operation->vectors, (double)(1e6 * times[repeat / 2]),
                        1e-9 * (double)operation->vectors * (double)n * (double)sizeof(PetscScalar) / (double)times[repeat / 2]));
  PetscCall(PetscFree(times));
  PetscFunctionReturn(0);
}

/* Columns of the recurrence, and lists of them that sums take */
typedef struct {
  PetscInt      m, s;
  IDRSBlockVec *G, *U, *R, *Z, *T, *direction; /* direction: U, R and G */
  PetscScalar  *C;
} Columns;

static IDRSBlockAxpy Sum(const Columns *columns, PetscInt nx, const IDRSBlockVec *x, const IDRSBlockVec *y, PetscBool add)
{
  return (IDRSBlockAxpy){
    .nx = nx * columns->m, .ny = columns->m, .x = x, .y = y, .C = columns->C, .ld = (2 * columns->s + 1) * columns->m, .add = add};
}

/*
   All combines of a cycle without a preconditioner. Vectors of a call are counted once each, and once more where they are written
*/
static void SetCycle(const Columns *columns, Operation *operation)
{
  const PetscInt m = columns->m, s = columns->s;
  IDRSBlockAxpy *sum = operation->sum;

  operation->vectors = 0;
  operation->calls   = s + 1;
  for (PetscInt k = 0; k < s; k++) {
    operation->count[k] = (k ? 1 : 0) + 1 + (k < s - 1 ? 1 : 0);
    operation->vectors += (k + 1 + 1 + operation->count[k]) * m;
    if (k) *sum++ = Sum(columns, k, columns->G, columns->G + k * m, PETSC_TRUE);
    *sum++ = Sum(columns, 1, columns->G + k * m, columns->R, PETSC_TRUE);
    if (k == s - 1) continue;
    *sum++ = Sum(columns, 2 * (s - k - 1) + 1, columns->direction + (k + 1) * m, columns->U + (k + 1) * m, PETSC_FALSE);
    operation->vectors += 2 * (s - k - 1) * m;
  }
  for (PetscInt k = 1; k < s; k++) *sum++ = Sum(columns, k, columns->U, columns->U + k * m, PETSC_TRUE);
  *sum++              = Sum(columns, s + 1, columns->direction, columns->Z, PETSC_TRUE);
  *sum++              = Sum(columns, 1, columns->T, columns->R, PETSC_TRUE);
  *sum++              = Sum(columns, 2 * s + 1, columns->direction, columns->U, PETSC_FALSE);
  operation->count[s] = s + 2;
  operation->vectors += (2 * s + 3 + s + 2) * m;
}

/*
   The operations of a cycle: the longest and the shortest direction, the longest update of a basis, the update of Z, all together as the
   solver makes them, and projections of a step and of the omega step. A copy is a combine of one column from another
*/
static PetscErrorCode MeasureBlock(Vec like, PetscInt m, PetscInt s, PetscInt repeat)
{
  const PetscInt nx = (2 * s + 1) * m, all = (2 * s + 3) * m;
  Columns        columns = {.m = m, .s = s};
  Operation      operation;
  IDRSWorkspace  work;
  IDRSBlockVec  *x;
  PetscInt       n;
  Vec           *X;

  PetscFunctionBeginUser;
  PetscCall(VecGetSize(like, &n));
  PetscCall(IDRSWorkspaceCreate(like, 1, NULL, KSP_IDRS_AUTO, 1, &work));
  PetscCall(VecDuplicateVecs(like, all, &X));
  PetscCall(PetscMalloc4(all, &x, nx, &columns.direction, nx * m, &columns.C, 2 * s * m * m + 4 * m * m, &operation.sums));
  for (PetscInt i = 0; i < all; i++) {
    PetscCall(VecSet(X[i], 1.0));
    PetscCall(IDRSBlockVecSet(work, X[i], &x[i]));
  }
  columns.G = x;
  columns.U = x + s * m;
  columns.R = x + 2 * s * m;
  columns.Z = columns.R + m;
  columns.T = columns.Z + m;
  PetscCall(PetscArraycpy(columns.direction, columns.U, (s + 1) * m));
  PetscCall(PetscArraycpy(columns.direction + (s + 1) * m, columns.G, s * m));
  PetscCall(IDRSWorkspaceSetVecs(work, X[0], X[0], X[0], X[0]));
  for (PetscInt i = 0; i < nx * m; i++) columns.C[i] = 1e-3;
  operation.work     = work;
  operation.calls    = 1;
  operation.count[0] = 1;
  operation.sum[0]   = Sum(&columns, 2 * s + 1, columns.direction, columns.Z, PETSC_FALSE);
  operation.vectors  = nx + m;
  PetscCall(TimeOperation(&operation, "direction, k = 0", m, like, n, repeat));
  operation.sum[0]  = Sum(&columns, 3, x, columns.Z, PETSC_FALSE);
  operation.vectors = 4 * m;
  PetscCall(TimeOperation(&operation, "direction, k = s - 1", m, like, n, repeat));
  operation.sum[0]  = Sum(&columns, s - 1, x, columns.Z, PETSC_TRUE);
  operation.vectors = (s + 1) * m;
  PetscCall(TimeOperation(&operation, "update of G, k = s - 1", m, like, n, repeat));
  operation.sum[0]  = Sum(&columns, 1, x, columns.Z, PETSC_TRUE);
  operation.vectors = 3 * m;
  PetscCall(TimeOperation(&operation, "update of R", m, like, n, repeat));
  operation.sum[0]  = Sum(&columns, s + 1, x, columns.Z, PETSC_TRUE);
  operation.vectors = (s + 3) * m;
  PetscCall(TimeOperation(&operation, "update of Z", m, like, n, repeat));
  SetCycle(&columns, &operation);
  PetscCall(TimeOperation(&operation, "all combines of a cycle", m, like, n, repeat));
  operation.calls   = 0;
  operation.tasks   = 2;
  operation.dots[0] = (IDRSBlockDots){.rows = s * m, .nx = m, .x = x};
  operation.dots[1] = (IDRSBlockDots){.nw = m, .nx = m, .w = x + m, .x = x + m};
  operation.vectors = 2 * m;
  PetscCall(TimeOperation(&operation, "projection", m, like, n, repeat));
  operation.tasks   = 1;
  operation.dots[0] = (IDRSBlockDots){.rows = s * m, .nw = 2 * m, .nx = 2 * m, .w = x, .x = x};
  PetscCall(TimeOperation(&operation, "projection, omega step", m, like, n, repeat));
  PetscCall(IDRSWorkspaceDestroy(1, &work));
  PetscCall(VecDestroyVecs(all, &X));
  PetscCall(PetscFree4(x, columns.direction, columns.C, operation.sums));
  PetscFunctionReturn(0);
}

/* With vectors of the type of a matrix, which is not looked at otherwise */
static PetscErrorCode MeasureBlocks(PetscInt n, PetscInt s, PetscInt count, const PetscInt columns[], PetscInt repeat)
{
  Mat A;
  Vec like;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_WORLD, &A));
  PetscCall(MatSetSizes(A, PETSC_DECIDE, PETSC_DECIDE, n, n));
  PetscCall(MatSetFromOptions(A));
  PetscCall(MatSetUp(A));
  PetscCall(MatCreateVecs(A, &like, NULL));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%" PetscInt_FMT " rows, s = %" PetscInt_FMT "\n%-24s %7s %8s %12s %10s\n", n, s,
                        "operation", "columns", "vectors", "us", "GB/s"));
  for (PetscInt i = 0; i < count; i++) PetscCall(MeasureBlock(like, columns[i], s, repeat));
  PetscCall(VecDestroy(&like));
  PetscCall(MatDestroy(&A));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  PetscInt    columns[IDRS_MAX_WIDTH] = {1, 2, 4, 8, 16}, count = IDRS_MAX_WIDTH, n = 100, irregular = 0, block = 0, s = 4;
  PetscBool   set, gpu, matmatmult = PETSC_TRUE;
  PetscEnum   kind  = (PetscEnum)KSP_IDRS_PRODUCT_AUTO;
  Benchmark   bench = {.repeat = 9};
  PetscInt    N;
  Vec         x, y;
  MatInfo     info;
  IDRSProduct used;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetIntArray(NULL, NULL, "-columns", columns, &count, &set));
  if (!set) count = 5;
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-n", &n, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-irregular", &irregular, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-repeat", &bench.repeat, NULL));
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-matmatmult", &matmatmult, NULL));
  PetscCall(PetscOptionsGetEnum(NULL, NULL, "-product", KSPIDRSProducts, &kind, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-block", &block, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-s", &s, NULL));
  PetscCheck(s > 0 && s <= MAX_S && block >= 0, PETSC_COMM_WORLD, PETSC_ERR_ARG_OUTOFRANGE,
             "-block %" PetscInt_FMT " must be positive, and -s %" PetscInt_FMT " 1 to %d", block, s, MAX_S);
  if (block) {
    PetscCall(MeasureBlocks(block, s, count, columns, bench.repeat));
    PetscCall(PetscFinalize());
    return 0;
  }
  PetscCheck(n > 0 && irregular >= 0 && bench.repeat > 0, PETSC_COMM_WORLD, PETSC_ERR_ARG_OUTOFRANGE,
             "-n %" PetscInt_FMT ", -irregular %" PetscInt_FMT " and -repeat %" PetscInt_FMT " must be positive", n, irregular,
             bench.repeat);
  if (irregular) PetscCall(Irregular(PETSC_COMM_WORLD, irregular, 1, &bench.A));
  else PetscCall(ConvectionDiffusion(PETSC_COMM_WORLD, n, n, 0.5, &bench.A));
  PetscCall(MatCreateVecs(bench.A, &x, &y));
  PetscCall(VecDuplicateVecs(x, IDRS_MAX_WIDTH, &bench.X));
  PetscCall(VecDuplicateVecs(y, IDRS_MAX_WIDTH, &bench.Y));
  for (PetscInt j = 0; j < IDRS_MAX_WIDTH; j++) PetscCall(VecSetRandom(bench.X[j], NULL));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)x, &gpu, VECSEQCUDA, VECMPICUDA, ""));
  PetscCall(PetscNew(&bench.columns));
  PetscCall(IDRSProductSetMat(bench.columns, bench.A, PETSC_FALSE, (KSPIDRSProduct)kind, NULL));
  bench.k = 2;
  PetscCall(ByColumns(&bench));
  used = bench.columns;
  PetscCall(MatGetSize(bench.A, &N, NULL));
  PetscCall(MatGetInfo(bench.A, MAT_GLOBAL_SUM, &info));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%" PetscInt_FMT " rows, %.3g entries a row, %s: %s\n", N, info.nz_used / PetscMax(N, 1),
                        gpu ? "on the GPU" : "in the memory of the host", used->wide ? used->wide->name : "mat"));
  if (used->bycolumn) PetscCall(PetscPrintf(PETSC_COMM_WORLD, "a MatMult() each: %s\n", used->bycolumn));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "columns    MatMult   together    ratio%s   difference\n",
                        matmatmult ? " MatMatMult    ratio" : ""));
  for (PetscInt i = 0; i < count; i++) {
    bench.k = columns[i];
    PetscCheck(bench.k > 0 && bench.k <= IDRS_MAX_WIDTH, PETSC_COMM_WORLD, PETSC_ERR_ARG_OUTOFRANGE,
               "-columns %" PetscInt_FMT " must be 1 to %d", bench.k, IDRS_MAX_WIDTH);
    PetscCall(Measure(&bench, gpu, matmatmult));
  }
  PetscCall(IDRSProductDestroy(&bench.columns));
  PetscCall(VecDestroyVecs(IDRS_MAX_WIDTH, &bench.X));
  PetscCall(VecDestroyVecs(IDRS_MAX_WIDTH, &bench.Y));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&y));
  PetscCall(MatDestroy(&bench.A));
  PetscCall(PetscFinalize());
  return 0;
}
