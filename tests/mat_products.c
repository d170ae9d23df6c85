static char help[] = "Products of KSPIDRS that compute x = A u and the inner products of x in one kernel: csr and sell\n\
compared with long double, for rows of many lengths, matrices that change, and matrices with rows on\n\
several processes. Skipped unless a GPU is requested.\n\
  -implementation <host> - cuda to run the test\n\
  -columns s1,s2,...     - numbers of shadow vectors\n\
  -rows n1,n2,...        - numbers of rows of the small matrices\n\n";

#include <petscidrs/private/idrsops.h>
#include "patterns.h"

/* Bound on the error of a sum, relative to the sum of the moduli of its terms: each thread adds few rows one after the other */
#define SUM_BOUND (200 * (long double)PETSC_MACHINE_EPSILON)

/* Compares a sum of a projection with a^H b over all processes, in long double; a = NULL: column j of the hashed shadow space */
static PetscErrorCode CheckSum(Vec a, PetscInt j, Vec b, PetscScalar sum, const char what[], const char name[])
{
  const PetscScalar *aarray = NULL, *barray;
  PetscInt           begin, end;
  Wide               dot  = 0;
  long double        size = 0, parts[3];

  PetscFunctionBeginUser;
  PetscCall(VecGetOwnershipRange(b, &begin, &end));
  if (a) PetscCall(VecGetArrayRead(a, &aarray));
  PetscCall(VecGetArrayRead(b, &barray));
  for (PetscInt i = 0; i < end - begin; i++) {
    const Wide left = a ? (Wide)aarray[i] : (Wide)IDRSShadowEntry(0, (uint64_t)(begin + i), (uint32_t)j) / 65536;

    dot += WideConj(left) * (Wide)barray[i];
    size += WideAbs(left) * WideAbs((Wide)barray[i]);
  }
  PetscCall(VecRestoreArrayRead(b, &barray));
  if (a) PetscCall(VecRestoreArrayRead(a, &aarray));
#if PetscDefined(USE_COMPLEX)
  parts[0] = creall(dot);
  parts[1] = cimagl(dot);
#else
  parts[0] = dot;
  parts[1] = 0;
#endif
  parts[2] = size;
  IDRSCallAllreduce(MPI_IN_PLACE, parts, 3, MPI_LONG_DOUBLE, MPI_SUM, PETSC_COMM_WORLD);
  PetscCall(ComplainIf(!(fabsl((long double)PetscRealPart(sum) - parts[0]) <= SUM_BOUND * parts[2]) ||
                         !(fabsl((long double)PetscImaginaryPart(sum) - parts[1]) <= SUM_BOUND * parts[2]),
                       "%s: %s %" INT ": %.17g, not %.17Lg", what, name, j, (double)PetscRealPart(sum), parts[0]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks the sums of a projection of x, and of y if there is one */
static PetscErrorCode CheckSums(IDRSWorkspace work, Vec x, Vec y, const PetscScalar sums[], const char what[])
{
  const PetscInt s = work->s;

  PetscFunctionBeginUser;
  for (PetscInt j = 0; j < s; j++) {
    PetscCall(CheckSum(NULL, j, x, sums[IDRS_SUM_PX(s) + j], what, "P^H x"));
    if (y) PetscCall(CheckSum(NULL, j, y, sums[IDRS_SUM_PY(s) + j], what, "P^H y"));
  }
  PetscCall(CheckSum(x, 0, x, sums[IDRS_SUM_XX(s)], what, "x^H x"));
  if (!y) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(CheckSum(x, 0, y, sums[IDRS_SUM_XY(s)], what, "x^H y"));
  PetscCall(CheckSum(y, 0, y, sums[IDRS_SUM_YY(s)], what, "y^H y"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes one step: x = A u, where x was NaN before, and its sums, which stay in the work */
static PetscErrorCode Project(IDRSWorkspace work, const IDRSStep *step, Vec x)
{
  IDRSOutcome outcome;

  PetscFunctionBeginUser;
  PetscCall(VecSet(x, (PetscScalar)NAN));
  PetscCall(IDRSQueueLaunch(IDRSGroupOfOne(work), step, NULL));
  PetscCall(IDRSQueueCollect(work, &outcome));
  PetscCall(ComplainIf(outcome.verdict != IDRS_UNDECIDED, "a projection that the host was to continue has verdict %d",
                       (int)outcome.verdict));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Tests all kinds of steps with this matrix */
static PetscErrorCode TestSteps(IDRSWorkspace work, Mat A, const char what[])
{
  const PetscInt s       = work->s;
  const IDRSStep steps[] = {
    {.k = 0, .matvec = PETSC_TRUE},
    {.k = s - 1, .matvec = PETSC_TRUE},
    {.k = s / 2, .matvec = PETSC_TRUE, .start = PETSC_TRUE},
    {.k = s, .matvec = PETSC_TRUE},
    {.k = s, .matvec = PETSC_TRUE, .start = PETSC_TRUE}
  };
  char         name[256];
  PetscScalar *sums;
  Vec          first;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(IDRS_SUMS(s, 1), &sums));
  PetscCall(VecDuplicate(work->r, &first));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(steps); i++) {
    const Vec u    = steps[i].k < s ? work->U[steps[i].k] : work->v;
    PetscBool same = PETSC_TRUE;
    Vec       x, y;

    PetscCall(PetscSNPrintf(name, sizeof(name), "%s, s = %" PetscInt_FMT ", k = %" PetscInt_FMT "%s", what, s, steps[i].k,
                            steps[i].start ? ", start" : ""));
    IDRSStepVecs(work, &steps[i], &x, &y);
    PetscCall(VecSetNumbers(u, 7 + i, PETSC_TRUE));
    PetscCall(VecSetNumbers(work->r, 20 + i, PETSC_TRUE));
    PetscCall(Project(work, &steps[i], x));
    PetscCall(CheckProduct(A, u, x, name));
    PetscCall(CheckSums(work, x, y, work->scalars.sums, name));
    PetscCall(PetscArraycpy(sums, work->scalars.sums, IDRS_SUMS(s, y ? 1 : 0)));
    PetscCall(VecCopy(x, first));
    PetscCall(Project(work, &steps[i], x));
    PetscCall(VecEqual(x, first, &same));
    for (PetscInt j = 0; j < IDRS_SUMS(s, y ? 1 : 0); j++)
      same = (PetscBool)(same && (sums[j] == work->scalars.sums[j] || j == IDRS_SUM_RR(s)));
    PetscCall(ComplainIf(!same, "%s: other bits in a second run", name));
  }
  PetscCall(VecDestroy(&first));
  PetscCall(PetscFree(sums));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static KSPIDRSCommunication communication = KSP_IDRS_COMMUNICATION_MPI; /* peer: the kernels exchange the halo */

/* Sets the operator, with the halo as at the begin of a solve */
static PetscErrorCode SetOperator(IDRSWorkspace work, IDRSProduct product, Mat A, KSPIDRSProduct kind)
{
  PetscFunctionBeginUser;
  PetscCall(IDRSProductSetMat(product, A, PETSC_FALSE, kind, NULL));
  PetscCall(IDRSWorkspaceConnect(IDRSGroupOfOne(work), communication, PETSC_FALSE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A u has the same bits in a product of several columns as in the projection, except by csr with long rows */
static PetscErrorCode TestColumns(IDRSWorkspace work, IDRSProduct product, const char what[])
{
  const IDRSStep step = {.k = 0, .matvec = PETSC_TRUE};
  PetscMPIInt    differs;
  PetscBool      byrows, same;
  Vec            Y[3];

  PetscFunctionBeginUser;
  for (PetscInt j = 0; j < 3; j++) PetscCall(VecDuplicate(work->r, &Y[j]));
  PetscCall(VecSetNumbers(work->U[0], 5, PETSC_TRUE));
  PetscCall(VecSetNumbers(work->r, 6, PETSC_TRUE));
  PetscCall(Project(work, &step, work->G[0]));
  PetscCall(IDRSProductApplyColumns(product, 3, (Vec[]){work->r, work->U[0], work->r}, Y));
  PetscCall(VecEqual(work->G[0], Y[1], &same));
  PetscCall(ComplainIf(product->wide != product->backend, "%s: several columns by %s", what,
                       product->wide ? product->wide->name : product->bycolumn));
  PetscCall(IDRSProductGoesByRows(product->A, product->kind, &byrows));
  differs = byrows && product->kind == KSP_IDRS_PRODUCT_CSR ? 1 : 0;
  IDRSCallAllreduce(MPI_IN_PLACE, &differs, 1, MPI_INT, MPI_MAX, PETSC_COMM_WORLD);
  PetscCall(ComplainIf(!same && !differs, "%s: other bits among several columns", what));
  PetscCall(VecEqual(Y[0], Y[2], &same));
  PetscCall(ComplainIf(!same, "%s: equal columns have products with different bits", what));
  for (PetscInt j = 0; j < 3; j++) PetscCall(VecDestroy(&Y[j]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* New values and a new pattern of the same matrix */
static PetscErrorCode TestChanges(IDRSWorkspace work, IDRSProduct product, KSPIDRSProduct kind, Mat A, const char what[])
{
  const IDRSStep step   = {.k = 0, .matvec = PETSC_TRUE};
  const PetscInt corner = 0;
  PetscInt       N;
  PetscBool      same;
  Vec            first;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(work->r, &first));
  PetscCall(VecSetNumbers(work->U[0], 3, PETSC_TRUE));
  PetscCall(Project(work, &step, work->G[0]));
  PetscCall(VecCopy(work->G[0], first));
  for (PetscInt back = 0; back < 2; back++) {
    PetscCall(MatScale(A, back ? 0.5 : 2.0));
    PetscCall(VecScale(first, back ? 0.5 : 2.0));
    if (back) PetscCall(SetOperator(work, product, A, kind)); /* otherwise the matrix changes during a solve */
    PetscCall(Project(work, &step, work->G[0]));
    PetscCall(VecEqual(work->G[0], first, &same));
    PetscCall(ComplainIf(!same, "%s: values scaled by %g were not taken", what, back ? 0.5 : 2.0));
  }
  PetscCall(MatGetSize(A, &N, NULL));
  if (N > 2) {
    const PetscInt column = N - 2;

    PetscCall(MatSetValues(A, 1, &corner, 1, &column, &(PetscScalar){3.0}, INSERT_VALUES));
    PetscCall(MatAssemble(A));
    PetscCall(SetOperator(work, product, A, kind));
    PetscCall(Project(work, &step, work->G[0]));
    PetscCall(CheckProduct(A, work->U[0], work->G[0], what));
  }
  PetscCall(VecDestroy(&first));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Tests a matrix with n rows on this process and s shadow vectors */
static PetscErrorCode Test(Pattern pattern, PetscInt n, PetscInt s, PetscBool changes)
{
  Mat           A;
  Vec           single[4];
  IDRSWorkspace work;
  IDRSProduct   product;
  char          what[128];

  PetscFunctionBeginUser;
  PetscCall(PatternCreate(pattern, MATAIJCUSPARSE, n, &A));
  for (PetscInt i = 0; i < 4; i++) PetscCall(MatCreateVecs(A, &single[i], NULL));
  PetscCall(IDRSWorkspaceCreate(single[0], s, NULL, KSP_IDRS_CUDA, 1, &work));
  PetscCall(IDRSWorkspaceSetVecs(work, single[0], single[1], single[2], single[3]));
  PetscCall(IDRSWorkspaceStart(work, PETSC_TRUE, NULL));
  PetscCall(PetscNew(&product));
  work->product = product;
  for (KSPIDRSProduct kind = KSP_IDRS_PRODUCT_CSR; kind <= KSP_IDRS_PRODUCT_SELL; kind = (KSPIDRSProduct)(kind + 1)) {
    PetscCall(PetscSNPrintf(what, sizeof(what), "%s, %s, %" INT " rows", KSPIDRSProducts[kind], patterns[pattern], n));
    PetscCall(SetOperator(work, product, A, kind));
    PetscCall(TestSteps(work, A, what));
    PetscCall(TestColumns(work, product, what));
    if (changes) PetscCall(TestChanges(work, product, kind, A, what));
  }
  PetscCall(IDRSWorkspaceDestroy(1, &work));
  PetscCall(IDRSProductDestroy(&product));
  for (PetscInt i = 0; i < 4; i++) PetscCall(VecDestroy(&single[i]));
  PetscCall(MatDestroy(&A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscInt              columns[16] = {1, 2, 4, 5, 8, 16, 17}, rows[16] = {0, 1, 31, 32, 33, 1000, 1025}, spaces = 7, sizes = 7;
  const PetscInt        large[PATTERNS] = {70001, 20001, 20001, 20001, 200001, 100001, 27000};
  KSPIDRSImplementation passes          = KSP_IDRS_VEC;
  PetscBool             set;
  PetscMPIInt           rank, size;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(RankAndSize(&rank, &size));
  PetscCall(PetscOptionsGetEnum(NULL, NULL, "-implementation", KSPIDRSImplementations, (PetscEnum *)&passes, NULL));
  PetscCall(PetscOptionsGetEnum(NULL, NULL, "-communication", KSPIDRSCommunications, (PetscEnum *)&communication, NULL));
  PetscCall(ListFromOptions("-columns", 16, columns, &spaces));
  PetscCall(PetscOptionsHasName(NULL, NULL, "-rows", &set));
  PetscCall(ListFromOptions("-rows", 16, rows, &sizes));
  for (Pattern pattern = GRID; pattern < PATTERNS; pattern = (Pattern)(pattern + 1)) {
    if (passes != KSP_IDRS_CUDA) PetscCall(SkipWithoutGPU());
    else {
      for (PetscInt l = 0; l < spaces; l++) {
        /* a different number of rows on every process */
        for (PetscInt i = 0; i < sizes; i++) {
          const PetscInt n = rows[(i + rank) % sizes];

          PetscCall(Test(pattern, pattern == BLOCKS ? n - n % 3 : n, columns[l], (PetscBool)(l == 0)));
        }
      }
      if (!set) PetscCall(Test(pattern, pattern == BLOCKS ? large[pattern] / size / 3 * 3 : large[pattern] / size, 4, PETSC_TRUE));
    }
    PetscCall(Verdict(patterns[pattern]));
  }
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

   test:
     suffix: 1
     nsize: {{1 3}}

TEST*/
