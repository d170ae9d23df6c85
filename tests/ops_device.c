static char help[] = "Steps of IDR(s) with the tested back end, compared with the back end host from the same state: passes with\n\
the algebra on the host, passes followed by the algebra on a device, one step of the kernel that makes\n\
many (persistent.cuh, persistentcluster.cu), and a step of a block recurrence with its queue. Numbers and\n\
vectors agree up to rounding.\n\
  -implementation <host> - the back end\n\
  -edges m1,m2,...       - grids of m x m points\n\
  -columns s1,s2,...     - numbers of shadow vectors\n\n";

#include "workspaces.h"
#include "systems.h"

/* Ways to make a step */
typedef enum {
  WAY_PASSES,     /* passes, with the algebra on the host */
  WAY_AHEAD,      /* passes, with the algebra on the device */
  WAY_PERSISTENT, /* a kernel for many steps, which makes only one */
  WAYS
} Way;
static const char *const ways[] = {"passes", "passes behind the algebra of a device", "a step of a kernel with many"};

/* Vectors other than the bases; D: the preconditioner, if there is one */
enum {
  R,
  Z,
  V,
  T,
  D,
  SINGLES
};
static const char *const singles[] = {"r", "z", "v", "t"};

/* One back end and its system */
typedef struct {
  IDRSWorkspace work;
  IDRSProduct   product;
  Mat           A;
  Vec           x[SINGLES];
} Side;

static const IDRSBounds wide = {.low = -1.0, .high = PETSC_MAX_REAL, .cosine = 0.5};

static PetscErrorCode SideCreate(PetscInt m, PetscInt s, KSPIDRSImplementation back, Side *side)
{
  PetscFunctionBeginUser;
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, m, 0.4, 0.2, &side->A));
  PetscCall(MatCreateVecs(side->A, &side->x[0], NULL));
  for (PetscInt i = 1; i < SINGLES; i++) PetscCall(VecDuplicate(side->x[0], &side->x[i]));
  PetscCall(IDRSWorkspaceCreate(side->x[0], s, NULL, back, 1, &side->work));
  PetscCall(IDRSWorkspaceSetVecs(side->work, side->x[R], side->x[Z], side->x[V], side->x[T]));
  PetscCall(PetscNew(&side->product));
  if (side->work->passes->device) {
    PetscCall(IDRSProductSetMat(side->product, side->A, PETSC_FALSE, KSP_IDRS_PRODUCT_CSR, NULL));
    side->work->product = side->product;
  }
  PetscCall(IDRSWorkspaceConnect(IDRSGroupOfOne(side->work), KSP_IDRS_COMMUNICATION_AUTO, PETSC_FALSE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SideDestroy(Side *side)
{
  PetscFunctionBeginUser;
  PetscCall(IDRSWorkspaceDestroy(1, &side->work));
  PetscCall(IDRSProductDestroy(&side->product));
  for (PetscInt i = 0; i < SINGLES; i++) PetscCall(VecDestroy(&side->x[i]));
  PetscCall(MatDestroy(&side->A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates the matrix and vectors of the back end vec, to which options such as -mat_type must not apply */
static PetscErrorCode ReferenceCreate(PetscInt m, PetscInt s, Side *side)
{
  PetscOptions options;

  PetscFunctionBeginUser;
  PetscCall(OptionsPush("", &options));
  PetscCall(SideCreate(m, s, KSP_IDRS_VEC, side));
  PetscCall(OptionsPop(&options));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the state at the begin of a step: bases, vectors, and numbers with an M that is safe to divide by */
static PetscErrorCode Load(Side *side, const IDRSStep *step, PetscBool diagonal)
{
  IDRSWorkspace  work    = side->work;
  IDRSScalars   *scalars = &work->scalars;
  const PetscInt s       = work->s;
  const Vec      first   = step->k == s ? work->v : work->U[0];

  PetscFunctionBeginUser;
  PetscCall(IDRSWorkspaceStart(work, diagonal, diagonal ? side->x[D] : NULL));
  for (PetscInt j = 0; j < s; j++) {
    PetscCall(VecSetGeneral(work->G[j], 0.3 + 0.11 * j));
    PetscCall(VecSetGeneral(work->U[j], 1.4 + 0.13 * j));
  }
  for (PetscInt j = 0; j < SINGLES; j++) PetscCall(VecSetGeneral(side->x[j], 2.7 + 0.17 * j));
  /* the operand of the omega step is B^{-1}r, and so is the first direction of the start */
  if (diagonal && (step->k == s || step->wantu)) PetscCall(VecPointwiseMult(first, side->x[D], work->r));
  else if (step->wantu) PetscCall(VecCopy(work->r, first));
  for (PetscInt i = 0; i < IDRS_STORAGE(s); i++) work->storage[i] = Number(0, i);
  for (PetscInt j = 0; j < s; j++) {
    for (PetscInt i = 0; i < j; i++) scalars->M[i + j * s] = 0.0;
    scalars->M[j + j * s] += 3.0;
    scalars->inverse[j] = (PetscScalar)1.0 / scalars->M[j + j * s];
  }
  if (step->start) IDRSScalarsResetColumns(scalars, step->k);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the step after this one */
static IDRSStep Next(const Side *side, const IDRSStep *step)
{
  const PetscInt s = side->work->s;

  return (IDRSStep){.k = step->k < s ? step->k + 1 : 0, .start = (PetscBool)(step->start && step->k < s)};
}

/* G_k = A U_k, or t = A p, by MatMult() */
static PetscErrorCode Matvec(Side *side, const IDRSStep *step)
{
  Vec x, y;

  PetscFunctionBeginUser;
  IDRSStepVecs(side->work, step, &x, &y);
  PetscCall(IDRSStreamJoin(side->work));
  PetscCall(MatMult(side->A, IDRSStepOperand(side->work, step), x));
  PetscCall(IDRSStreamJoin(side->work));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes the passes of a step, with the direction of the next one; r = r - G c at the end of the start */
static PetscErrorCode Passes(Side *side, const IDRSStep *step, PetscBool diagonal)
{
  IDRSWorkspace   work  = side->work;
  const PetscInt  s     = work->s;
  const PetscBool inner = (PetscBool)(step->k + 1 < s);
  IDRSStep        pass  = *step;

  PetscFunctionBeginUser;
  pass.wantu = (PetscBool)(inner || step->k == s);
  pass.wantv = (PetscBool)(pass.wantu || (diagonal && !step->start));
  if (step->k == s) PetscCall(IDRSAdvance(IDRSGroupOfOne(work), &pass));
  else PetscCall(IDRSUpdate(IDRSGroupOfOne(work), &pass));
  if (!step->start || step->k != s - 1) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(IDRSCombine(IDRSGroupOfOne(work), &(IDRSStep){.k = s, .start = PETSC_TRUE, .wantv = PETSC_TRUE}));
  PetscCall(IDRSStreamJoin(work));
  if (diagonal) PetscCall(VecPointwiseMult(work->v, side->x[D], work->r));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes a step by passes, and the matvec and the sums of the next one */
static PetscErrorCode StepByPasses(Side *side, const IDRSStep *step, PetscBool diagonal, PetscBool ahead)
{
  const IDRSStep next = Next(side, step);
  IDRSOutcome    outcome;
  PetscReal      rr;

  PetscFunctionBeginUser;
  PetscCall(Matvec(side, step));
  PetscCall(IDRSQueueLaunch(IDRSGroupOfOne(side->work), step, ahead ? &wide : NULL));
  if (!ahead) {
    PetscCall(IDRSQueueCollect(side->work, &outcome));
    PetscCall(IDRSQueueContinue(side->work, step, wide.cosine, &rr, &outcome.verdict));
  }
  PetscCall(Passes(side, step, diagonal));
  if (ahead) PetscCall(IDRSQueueCollect(side->work, &outcome));
  PetscCall(IDRSQueueEnd(IDRSGroupOfOne(side->work)));
  PetscCall(ComplainIf(outcome.verdict != IDRS_CONTINUES, "%s: step %" INT "%s ends with verdict %d", side->work->passes->name,
                       step->k, step->start ? " of the start" : "", (int)outcome.verdict));
  PetscCall(Matvec(side, &next));
  PetscCall(IDRSQueueLaunch(IDRSGroupOfOne(side->work), &next, NULL));
  PetscCall(IDRSQueueCollect(side->work, &outcome));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Makes one step with a kernel for many steps. The next iteration would be made by the host; the kernel has computed its matvec and
   sums
*/
static PetscErrorCode StepByKernel(Side *side, const IDRSStep *step)
{
  const IDRSLimits   limits = {.bounds = wide, .maxits = 2, .anchornorm = 1.0, .tested = PETSC_MAX_REAL, .growth = PETSC_MAX_REAL};
  const IDRSStep     next   = Next(side, step);
  IDRSPersistentTask task   = {.work = side->work, .limits = limits, .outcome = {.step = *step}};

  PetscFunctionBeginUser;
  PetscCall(IDRSQueuePersistent(side->work, 1, 1, &task));
  PetscCall(ComplainIf(task.report.completed != 1 || task.report.updates || task.outcome.verdict != IDRS_UNDECIDED ||
                         task.outcome.step.k != next.k || task.outcome.step.start != next.start,
                       "a kernel makes %" INT " steps from step %" INT ", and leaves step %" INT " with verdict %d",
                       task.report.completed, step->k, task.outcome.step.k, (int)task.outcome.verdict));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Description of the comparison, and allowed difference of sums in rounding errors of the largest number */
static char      context[128];
static PetscReal allowed;

/* size: lower bound on the size of the terms of the sums, since the sums may vanish in exact arithmetic */
static PetscErrorCode CompareSums(const char what[], PetscInt count, PetscReal size, const PetscScalar expected[],
                                  const PetscScalar found[])
{
  PetscReal worst = 0.0;

  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < count; i++) {
    const PetscReal difference = PetscAbsScalar(expected[i] - found[i]);

    size  = PetscMax(size, PetscAbsScalar(expected[i]));
    worst = difference <= worst ? worst : difference; /* also a NaN */
  }
  PetscCall(ComplainIf(!(worst <= allowed * PETSC_MACHINE_EPSILON * size), "%s: %s is off by %g of %g, %g rounding errors", context,
                       what, (double)worst, (double)size, (double)(worst / (size * PETSC_MACHINE_EPSILON))));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode CompareVecs(const char what[], PetscInt j, Vec expected, Vec found)
{
  const PetscScalar *a, *b;
  PetscInt           n;
  char               name[32];

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(name, sizeof(name), j < 0 ? "%s" : "%s_%" INT, what, j));
  PetscCall(VecGetLocalSize(expected, &n));
  PetscCall(VecGetArrayRead(expected, &a));
  PetscCall(VecGetArrayRead(found, &b));
  PetscCall(CompareSums(name, n, 0.0, a, b));
  PetscCall(VecRestoreArrayRead(found, &b));
  PetscCall(VecRestoreArrayRead(expected, &a));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Compares the numbers that a step computes, and the sums of the next one except r^H r, which only an unreported iteration has */
static PetscErrorCode CompareScalars(const IDRSStep *step, const IDRSStep *next, const IDRSScalars *a, const IDRSScalars *b)
{
  const PetscInt s = a->s, k = step->k, column = PetscMin(k, s - 1), from = step->start || k == s ? 0 : k + 1;
  const PetscInt beta = step->start ? 0 : k, directions = step->start && k < s ? k + 1 : (k + 1 == s ? 0 : s - from);

  PetscFunctionBeginUser;
  if (k < s) {
    PetscCall(CompareSums("M", s - k, 0.0, a->M + k + column * s, b->M + k + column * s));
    PetscCall(CompareSums("alpha", k, 0.0, a->alpha, b->alpha));
    PetscCall(CompareSums("beta", k + 1 - beta, 0.0, a->beta + beta, b->beta + beta));
  } else PetscCall(CompareSums("omega", 1, 0.0, a->omega, b->omega));
  PetscCall(CompareSums("f", s - from, 0.0, a->f + from, b->f + from));
  PetscCall(CompareSums("c", directions, 0.0, a->c + from, b->c + from));
  PetscCall(CompareSums("P^H x of the next step", s, 0.0, a->sums, b->sums));
  PetscCall(CompareSums("x^H x of the next step", 1, 0.0, a->sums + IDRS_SUM_XX(s), b->sums + IDRS_SUM_XX(s)));
  if (IDRSStepHasY(next, s)) {
    PetscCall(CompareSums("P^H y of the next step", s, PetscSqrtReal(PetscAbsScalar(a->sums[IDRS_SUM_YY(s)])),
                          a->sums + IDRS_SUM_PY(s), b->sums + IDRS_SUM_PY(s)));
    PetscCall(CompareSums("y^H y of the next step", 1, 0.0, a->sums + IDRS_SUM_YY(s), b->sums + IDRS_SUM_YY(s)));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Compares the state after a step: G, U, r, z, the t of an omega step that comes next, and the numbers */
static PetscErrorCode Compare(const IDRSStep *step, const Side *reference, const Side *side)
{
  const IDRSStep next = Next(reference, step);
  const PetscInt s = reference->work->s, k = PetscMin(step->k, s - 1);
  /* a divisor is a difference, and may be small compared with its terms */
  const PetscScalar *column = reference->work->scalars.M + k * s;
  PetscReal          size   = 0.0;
  PetscInt           N;

  PetscFunctionBeginUser;
  PetscCall(VecGetSize(reference->x[R], &N));
  for (PetscInt i = k; i < s; i++) size = PetscMax(size, PetscAbsScalar(column[i]));
  allowed = 64 * (s + PetscSqrtReal((PetscReal)N)) * PetscMax(1.0, size / PetscAbsScalar(column[k]));
  PetscCall(CompareScalars(step, &next, &reference->work->scalars, &side->work->scalars));
  for (PetscInt j = 0; j < s; j++) {
    PetscCall(CompareVecs("G", j, reference->work->G[j], side->work->G[j]));
    PetscCall(CompareVecs("U", j, reference->work->U[j], side->work->U[j]));
  }
  for (PetscInt j = R; j <= Z; j++) PetscCall(CompareVecs(singles[j], -1, reference->x[j], side->x[j]));
  if (next.k == s) PetscCall(CompareVecs(singles[T], -1, reference->x[T], side->x[T]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Tests steps k = 0 ... s, in the start and after it, made in this way */
static PetscErrorCode TestSteps(PetscInt m, PetscInt s, KSPIDRSImplementation back, Way way)
{
  const char *why = NULL;
  Side        reference, side;

  PetscFunctionBeginUser;
  PetscCall(ReferenceCreate(m, s, &reference));
  PetscCall(SideCreate(m, s, back, &side));
  if (way == WAY_AHEAD && !side.work->queue) why = "the host has the queue";
  if (way == WAY_PERSISTENT) PetscCall(IDRSQueuePersistentRuns(side.work, PETSC_FALSE, &why));
  for (PetscInt i = 0; !why && i < 4 * (s + 1); i++) {
    const PetscBool diagonal = (PetscBool)(i % 2), start = (PetscBool)(i / 2 % 2);
    IDRSStep        step = {.k = i / 4, .start = start, .matvec = (PetscBool)(way == WAY_PERSISTENT)};

    step.wantu = (PetscBool)(start && !step.k); /* the direction is B^{-1}r */
    PetscCall(PetscSNPrintf(context, sizeof(context), "%s, %s, %" INT " rows, s = %" INT ", k = %" INT "%s%s",
                            side.work->passes->name, ways[way], m * m, s, step.k, start ? ", start" : "",
                            diagonal ? ", diagonal" : ""));
    PetscCall(Load(&reference, &step, diagonal));
    PetscCall(Load(&side, &step, diagonal));
    PetscCall(StepByPasses(&reference, &(IDRSStep){.k = step.k, .start = start}, diagonal, PETSC_FALSE));
    if (way == WAY_PERSISTENT) PetscCall(StepByKernel(&side, &step));
    else PetscCall(StepByPasses(&side, &(IDRSStep){.k = step.k, .start = start}, diagonal, (PetscBool)(way == WAY_AHEAD)));
    PetscCall(Compare(&step, &reference, &side));
  }
  if (why) PetscCall(back == KSP_IDRS_CUDA ? Skip(why) : SkipWithoutGPU());
  PetscCall(SideDestroy(&side));
  PetscCall(SideDestroy(&reference));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscInt              edges[MAX_LIST] = {6, 33}, s[MAX_LIST] = {1, 4, 8}, nedges = 2, spaces = 3;
  KSPIDRSImplementation back = KSP_IDRS_VEC;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(BackEndFromOptions(&back));
  PetscCall(ListFromOptions("-edges", MAX_LIST, edges, &nedges));
  PetscCall(ListFromOptions("-columns", MAX_LIST, s, &spaces));
  for (Way way = WAY_PASSES; way < WAYS; way++) {
    for (PetscInt i = 0; i < nedges * spaces; i++) PetscCall(TestSteps(edges[i / spaces], s[i % spaces], back, way));
    PetscCall(Verdict(ways[way]));
  }
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

   test:
     suffix: 1
     nsize: {{1 3}}

   # vectors and matrix do not fit into the shared memory of a GPU
   test:
     suffix: large
     requires: cuda
     args: -edges 480 -columns 4,8
     output_file: output/ops_device_1.out

TEST*/
