static char help[] = "Steps of IDR(s) with the tested back end, compared with the back end host from the same state: passes with\n\
the algebra on the host, passes followed by the algebra on a device, one step of the kernel that makes\n\
many (whole.cuh, wholecluster.cu, lanes.cuh), and a step of a block recurrence with its queue. Numbers and\n\
vectors agree up to rounding.\n\
  -implementation <host> - the back end\n\
  -edges m1,m2,...       - grids of m x m points\n\
  -columns s1,s2,...     - numbers of shadow vectors\n\n";

#include "works.h"
#include "systems.h"

/* Ways to make a step */
typedef enum {
  WAY_PASSES, /* passes, with the algebra on the host */
  WAY_AHEAD,  /* passes, with the algebra on the device */
  WAY_WHOLE,  /* a kernel for many steps, which makes only one */
  WAYS
} Way;
static const char *const ways[] = {"passes", "passes behind the algebra of a device", "a step of a kernel with many"};

/* Vectors other than the panels; D: the preconditioner, if there is one */
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
  IDRSWork    work;
  IDRSProduct product;
  Mat         A;
  Vec         x[SINGLES];
} Side;

static const IDRSBounds wide = {.low = -1.0, .high = PETSC_MAX_REAL, .cosine = 0.5};

static PetscErrorCode SideCreate(PetscInt m, PetscInt s, KSPIDRSImplementation back, Side *side)
{
  PetscFunctionBeginUser;
  PetscCall(GridCreate(PETSC_COMM_WORLD, LAYOUT_EVEN, m, 0.4, 0.2, &side->A));
  PetscCall(MatCreateVecs(side->A, &side->x[0], NULL));
  for (PetscInt i = 1; i < SINGLES; i++) PetscCall(VecDuplicate(side->x[0], &side->x[i]));
  PetscCall(IDRSWorkCreate(side->x[0], s, NULL, back, 1, &side->work));
  PetscCall(IDRSWorkSetVecs(side->work, side->x[R], side->x[Z], side->x[V], side->x[T]));
  PetscCall(IDRSProductCreate(&side->product));
  if (side->work->passes->device) {
    PetscCall(IDRSProductSetMat(side->product, side->A, PETSC_FALSE, KSP_IDRS_PRODUCT_CSR, NULL));
    PetscCall(IDRSWorkSetProduct(side->work, side->product));
  }
  PetscCall(IDRSWorkConnect(IDRSGroupOfOne(side->work), KSP_IDRS_COMMUNICATION_AUTO, PETSC_FALSE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SideDestroy(Side *side)
{
  PetscFunctionBeginUser;
  PetscCall(IDRSWorkDestroy(1, &side->work));
  PetscCall(IDRSProductDestroy(&side->product));
  for (PetscInt i = 0; i < SINGLES; i++) PetscCall(VecDestroy(&side->x[i]));
  PetscCall(MatDestroy(&side->A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates the matrix and vectors of the back end host, to which options such as -mat_type must not apply */
static PetscErrorCode ReferenceCreate(PetscInt m, PetscInt s, Side *side)
{
  PetscOptions options;

  PetscFunctionBeginUser;
  PetscCall(OptionsPush("", &options));
  PetscCall(SideCreate(m, s, KSP_IDRS_HOST, side));
  PetscCall(OptionsPop(&options));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the state at the begin of a step: panels, vectors, and numbers with an M that is safe to divide by */
static PetscErrorCode Load(Side *side, const IDRSStep *step, PetscBool diagonal)
{
  IDRSWork       work    = side->work;
  IDRSScalars   *scalars = &work->scalars;
  const PetscInt s       = work->s;
  const Vec      first   = step->k == s ? work->v : work->U[0];

  PetscFunctionBeginUser;
  PetscCall(IDRSWorkStart(work, diagonal, diagonal ? side->x[D] : NULL));
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
  IDRSWork        work  = side->work;
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
  const IDRSLimits limits = {.bounds = wide, .maxits = 2, .anchornorm = 1.0, .tested = PETSC_MAX_REAL, .growth = PETSC_MAX_REAL};
  const IDRSStep   next   = Next(side, step);
  IDRSWholeTask    task   = {.work = side->work, .limits = limits, .outcome = {.step = *step}};

  PetscFunctionBeginUser;
  PetscCall(IDRSQueueWhole(side->work, 1, 1, &task));
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

static PetscErrorCode CompareNumbers(const char what[], PetscInt count, const PetscScalar expected[], const PetscScalar found[])
{
  PetscFunctionBeginUser;
  PetscCall(CompareSums(what, count, 0.0, expected, found));
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
  PetscCall(CompareNumbers(name, n, a, b));
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
    PetscCall(CompareNumbers("M", s - k, a->M + k + column * s, b->M + k + column * s));
    PetscCall(CompareNumbers("alpha", k, a->alpha, b->alpha));
    PetscCall(CompareNumbers("beta", k + 1 - beta, a->beta + beta, b->beta + beta));
  } else PetscCall(CompareNumbers("omega", 1, a->omega, b->omega));
  PetscCall(CompareNumbers("f", s - from, a->f + from, b->f + from));
  PetscCall(CompareNumbers("c", directions, a->c + from, b->c + from));
  PetscCall(CompareNumbers("P^H x of the next step", s, a->sums, b->sums));
  PetscCall(CompareNumbers("x^H x of the next step", 1, a->sums + IDRS_SUM_XX(s), b->sums + IDRS_SUM_XX(s)));
  if (IDRSStepHasY(next, s)) {
    PetscCall(CompareSums("P^H y of the next step", s, PetscSqrtReal(PetscAbsScalar(a->sums[IDRS_SUM_YY(s)])),
                          a->sums + IDRS_SUM_PY(s), b->sums + IDRS_SUM_PY(s)));
    PetscCall(CompareNumbers("y^H y of the next step", 1, a->sums + IDRS_SUM_YY(s), b->sums + IDRS_SUM_YY(s)));
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
  if (way == WAY_AHEAD && !side.work->queue->depth) why = "the host has the queue";
  if (way == WAY_WHOLE) PetscCall(IDRSQueueWholeRuns(side.work, PETSC_FALSE, &why));
  for (PetscInt i = 0; !why && i < 4 * (s + 1); i++) {
    const PetscBool diagonal = (PetscBool)(i % 2), start = (PetscBool)(i / 2 % 2);
    IDRSStep        step = {.k = i / 4, .start = start, .matvec = (PetscBool)(way == WAY_WHOLE)};

    step.wantu = (PetscBool)(start && !step.k); /* the direction is B^{-1}r */
    PetscCall(PetscSNPrintf(context, sizeof(context), "%s, %s, %" INT " rows, s = %" INT ", k = %" INT "%s%s",
                            side.work->passes->name, ways[way], m * m, s, step.k, start ? ", start" : "",
                            diagonal ? ", diagonal" : ""));
    PetscCall(Load(&reference, &step, diagonal));
    PetscCall(Load(&side, &step, diagonal));
    PetscCall(StepByPasses(&reference, &(IDRSStep){.k = step.k, .start = start}, diagonal, PETSC_FALSE));
    if (way == WAY_WHOLE) PetscCall(StepByKernel(&side, &step));
    else PetscCall(StepByPasses(&side, &(IDRSStep){.k = step.k, .start = start}, diagonal, (PetscBool)(way == WAY_AHEAD)));
    PetscCall(Compare(&step, &reference, &side));
  }
  if (why) PetscCall(back == KSP_IDRS_CUDA ? Skip(why) : SkipWithoutGPU());
  PetscCall(SideDestroy(&side));
  PetscCall(SideDestroy(&reference));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A block recurrence of s steps with m columns: U, G, R, Z and T one after another, and the sums that end a step */
#define SUMS  4
#define TERMS 8
typedef struct {
  PetscInt         s, m, count;
  IDRSWork         work;
  Vec             *x;
  IDRSBlockVec    *list, *term; /* of the vectors, and of the operands of sums */
  IDRSBlockRow    *row;         /* of each operand */
  IDRSBlockScalars algebra;
  PetscScalar     *storage, *C, *sums;
  PetscInt         terms, nsums;
  IDRSBlockAxpy    sum[SUMS];
} Block;

static PetscErrorCode BlockCreate(const Side *side, PetscInt s, PetscInt m, KSPIDRSImplementation back, Block *block)
{
  const Vec like = side->x[R];

  PetscFunctionBeginUser;
  *block = (Block){.s = s, .m = m, .count = (2 * s + 3) * m};
  PetscCall(IDRSWorkCreate(like, 1, NULL, back, 1, &block->work));
  PetscCall(IDRSWorkSetVecs(block->work, side->x[R], side->x[Z], side->x[V], side->x[T]));
  PetscCall(IDRSWorkConnect(IDRSGroupOfOne(block->work), KSP_IDRS_COMMUNICATION_AUTO, PETSC_FALSE));
  PetscCall(IDRSWorkStart(block->work, PETSC_FALSE, NULL));
  PetscCall(VecDuplicateVecs(like, block->count, &block->x));
  PetscCall(PetscMalloc1(block->count, &block->list));
  PetscCall(PetscMalloc2(TERMS * s * m, &block->term, TERMS * s * m, &block->row));
  PetscCall(PetscMalloc3(IDRS_BLOCK_STORAGE(s, m), &block->storage, TERMS * s * m * m, &block->C, IDRSBlockSumCount(s, m, s),
                         &block->sums));
  IDRSBlockScalarsSetPointers(&block->algebra, s, m, block->storage);
  for (PetscInt j = 0; j < block->count; j++) PetscCall(IDRSBlockVecSet(block->work, block->x[j], &block->list[j]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode BlockDestroy(Block *block)
{
  PetscFunctionBeginUser;
  PetscCall(IDRSWorkDestroy(1, &block->work));
  PetscCall(VecDestroyVecs(block->count, &block->x));
  PetscCall(PetscFree(block->list));
  PetscCall(PetscFree2(block->term, block->row));
  PetscCall(PetscFree3(block->storage, block->C, block->sums));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Adds X C, times 1, -1 or omega, to the last sum, for columns of X from `first` on, and entries C of the algebra */
static void BlockTerm(Block *block, PetscInt first, PetscInt columns, PetscInt sign, PetscBool omega, const PetscScalar *C,
                      PetscInt ld)
{
  for (PetscInt i = 0; i < columns; i++, block->terms++) {
    block->term[block->terms] = block->list[first + i];
    block->row[block->terms]  = (IDRSBlockRow){.at    = (int32_t)(C - block->storage + i),
                                               .ld    = (int32_t)ld,
                                               .sign  = (int32_t)sign,
                                               .omega = omega ? 1 : 0};
  }
  block->sum[block->nsums - 1].nx += columns;
}

/* Begins a sum Y = ..., or Y += ..., whose terms follow */
static void BlockSum(Block *block, PetscInt y, PetscBool add)
{
  const PetscInt first = block->terms;

  block->sum[block->nsums++] = (IDRSBlockAxpy){.ny   = block->m,
                                               .x    = block->term + first,
                                               .y    = block->list + y,
                                               .C    = block->C + first * block->m,
                                               .rows = block->row + first,
                                               .add  = add};
}

/* Sets the sums that end step k, as at the head of idrsblockcycle.c */
static void BlockSetStep(Block *block, PetscInt k)
{
  const IDRSBlockScalars *a = &block->algebra;
  const PetscInt          s = block->s, m = block->m, q = s * m, G = q, Rc = 2 * q, Zc = Rc + m, Tc = Zc + m;
  const PetscInt          next = k < s ? k + 1 : 0;

  block->terms = block->nsums = 0;
  if (k < s) {
    if (k) { /* G_k -= G(:,0:k) alpha */
      BlockSum(block, G + k * m, PETSC_TRUE);
      BlockTerm(block, G, k * m, -1, PETSC_FALSE, a->alpha + k * m * q, q);
    }
    BlockSum(block, Rc, PETSC_TRUE); /* R -= G_k beta_k */
    BlockTerm(block, G + k * m, m, -1, PETSC_FALSE, a->beta + k * m, q);
  } else {
    BlockSum(block, Zc, PETSC_TRUE); /* Z += omega R + U beta */
    BlockTerm(block, Rc, m, 1, PETSC_TRUE, a->identity, m);
    BlockTerm(block, 0, q, 1, PETSC_FALSE, a->beta, q);
    BlockSum(block, Rc, PETSC_TRUE); /* R -= omega T */
    BlockTerm(block, Tc, m, -1, PETSC_TRUE, a->identity, m);
  }
  if (next == s) return;
  BlockSum(block, next * m, PETSC_FALSE); /* U_k = omega (R T - G(:,k:s) c) + U(:,k:s) c */
  BlockTerm(block, next * m, q - next * m, 1, PETSC_FALSE, a->c + next * m, q);
  BlockTerm(block, Rc, m, 1, PETSC_TRUE, a->T, m);
  BlockTerm(block, G + next * m, q - next * m, -1, PETSC_TRUE, a->c + next * m, q);
}

/* Sets the state at the begin of a step: columns of M of the steps before it, and M = I behind them */
static PetscErrorCode BlockLoad(Block *block, PetscInt k)
{
  IDRSBlockScalars *a = &block->algebra;
  const PetscInt    s = block->s, m = block->m, q = s * m;

  PetscFunctionBeginUser;
  for (PetscInt j = 0; j < block->count; j++) PetscCall(VecSetGeneral(block->x[j], 0.3 + 0.11 * j));
  IDRSBlockScalarsReset(a);
  for (PetscInt j = 0; j < k * m && j < q; j++) {
    for (PetscInt i = (j / m + 1) * m; i < q; i++) a->M[i + j * q] = Number(0, i + j * q) / (PetscReal)q;
  }
  for (PetscInt i = 0; i < q * m; i++) {
    a->f[i]    = Number(0, i);
    a->beta[i] = Number(0, 2 * i);
  }
  for (PetscInt j = 0; j < IDRS_MAX_WIDTH; j++) {
    for (PetscInt i = 0; i < m; i++) a->S[i + j * m] = Number(0, 3 * (i + j));
  }
  *a->omega = 0.7;
  BlockSetStep(block, k);
  for (PetscInt l = 0; l < block->nsums; l++) block->sum[l].ld = block->sum[l].nx;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the tasks of the projection: P^H G_k and R^H R, or P^H (T,R) and the Gram matrix of T and R; `both` lists T and R */
static PetscInt BlockTasks(const Block *block, PetscInt k, IDRSBlockVec both[], IDRSBlockDots dots[])
{
  const PetscInt m = block->m, q = block->s * m;

  if (k < block->s) {
    dots[0] = (IDRSBlockDots){.rows = q, .nx = m, .x = block->list + q + k * m};
    dots[1] = (IDRSBlockDots){.nw = m, .nx = m, .w = block->list + 2 * q, .x = block->list + 2 * q};
    return 2;
  }
  for (PetscInt j = 0; j < m; j++) {
    both[j]     = block->list[2 * q + 2 * m + j];
    both[m + j] = block->list[2 * q + j];
  }
  dots[0] = (IDRSBlockDots){.rows = q, .nw = 2 * m, .nx = 2 * m, .w = both, .x = both};
  return 1;
}

/* Makes sums, algebra and combines of step k, by the queue of a device or on the host; then the sums once more */
static PetscErrorCode BlockStep(Block *block, PetscInt k, PetscBool queue, IDRSBlockNorms *norms)
{
  const PetscInt m    = block->m;
  const IDRSStep step = {.k = k};
  IDRSBlockVec   both[2 * IDRS_MAX_WIDTH];
  IDRSBlockDots  dots[2];
  IDRSBlock      run = {
         .algebra = block->algebra,
         .bounds  = {.count = m, .norm = {.low = -1.0, .high = PETSC_MAX_REAL, .cosine = 0.5}, .anchornorm = PETSC_MAX_REAL},
         .tasks   = BlockTasks(block, k, both, dots),
         .count   = block->nsums,
         .dots    = dots,
         .sums    = block->sum,
         .results = block->sums,
         .norms   = {.peak = 1.0}
  };

  PetscFunctionBeginUser;
  if (queue) {
    PetscInt    depth;
    IDRSOutcome outcome;

    PetscCall(IDRSWorkSetBlock(block->work, &run, &depth));
    PetscCall(IDRSQueueLaunch(IDRSGroupOfOne(block->work), &step, &run.bounds.norm));
    PetscCall(IDRSBlockCombine(block->work, block->nsums, block->sum));
    run.bounds.stop = PETSC_TRUE;
    PetscCall(IDRSQueueLaunch(IDRSGroupOfOne(block->work), &step, &run.bounds.norm));
    PetscCall(IDRSQueueCollect(block->work, &outcome));
    *norms = run.norms;
    PetscCall(IDRSQueueCollect(block->work, &outcome));
    PetscCall(ComplainIf(!outcome.stopped, "%s: the device has not stopped", context));
    PetscCall(IDRSWorkSetBlock(block->work, NULL, NULL));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(IDRSBlockProject(block->work, run.tasks, dots, block->sums));
  *norms = run.norms;
  IDRSBlockScalarsDecide(&block->algebra, (int)k, &run.bounds, block->sums, norms);
  for (PetscInt l = 0; l < block->nsums; l++) {
    const IDRSBlockAxpy *sum = &block->sum[l];
    PetscScalar         *C   = block->C + (sum->C - block->C);

    for (PetscInt i = 0; i < sum->nx * m; i++)
      C[i] = IDRSBlockScalarsGet(&block->algebra, &sum->rows[i % sum->nx], (int)(i / sum->nx));
  }
  PetscCall(IDRSBlockCombine(block->work, block->nsums, block->sum));
  PetscCall(IDRSBlockProject(block->work, run.tasks, dots, block->sums));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Compares directions U_k by the space that they span: their columns are unique up to a factor T, whose pivots depend on rounding
   errors. The expected columns become orthonormal
*/
static PetscErrorCode CompareSpans(PetscInt m, Vec expected[], const Vec found[])
{
  const PetscScalar *array;
  PetscScalar       *copy, dot;
  PetscReal          size, rest;
  PetscInt           n;
  Vec                x;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(expected[0], &x));
  PetscCall(VecGetLocalSize(x, &n));
  for (PetscInt j = 0; j < 2 * m; j++) {
    const Vec y = j < m ? expected[j] : x;

    if (j >= m) {
      PetscCall(VecGetArrayRead(found[j - m], &array));
      PetscCall(VecGetArrayWrite(x, &copy));
      PetscCall(PetscArraycpy(copy, array, n));
      PetscCall(VecRestoreArrayWrite(x, &copy));
      PetscCall(VecRestoreArrayRead(found[j - m], &array));
      PetscCall(VecNorm(x, NORM_2, &size));
    }
    for (PetscInt i = 0; i < 2 * PetscMin(j, m); i++) { /* twice */
      PetscCall(VecDot(y, expected[i % PetscMin(j, m)], &dot));
      PetscCall(VecAXPY(y, -dot, expected[i % PetscMin(j, m)]));
    }
    if (j < m) PetscCall(VecNormalize(y, NULL));
    else {
      PetscCall(VecNorm(x, NORM_2, &rest));
      PetscCall(ComplainIf(!(rest <= allowed * PETSC_MACHINE_EPSILON * size),
                           "%s: column %" INT " of the direction is off by %g of %g", context, j - m, (double)rest, (double)size));
    }
  }
  PetscCall(VecDestroy(&x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Tests steps k = 0 ... s of blocks with m columns: numbers, norms, sums and all vectors */
static PetscErrorCode TestBlocks(PetscInt edge, PetscInt s, PetscInt m, KSPIDRSImplementation back, PetscBool queue)
{
  const PetscInt numbers = IDRS_BLOCK_KEPT(s, m);
  IDRSBlock      none    = {.tasks = 0};
  PetscInt       N, depth;
  PetscMPIInt    size;
  Side           reference, side;
  Block          expected, found;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &size));
  PetscCall(ReferenceCreate(edge, 1, &reference));
  PetscCall(SideCreate(edge, 1, back, &side));
  PetscCall(BlockCreate(&reference, s, m, KSP_IDRS_HOST, &expected));
  PetscCall(BlockCreate(&side, s, m, back, &found));
  PetscCall(VecGetSize(reference.x[0], &N));
  allowed = 1e3 * (s * m + PetscSqrtReal((PetscReal)N));
  PetscCall(IDRSWorkSetBlock(found.work, &none, &depth));
  PetscCall(IDRSWorkSetBlock(found.work, NULL, NULL));
  if (queue && size > 1) PetscCall(Skip("block recurrences have this queue on one process only"));
  else if (queue && !depth) PetscCall(SkipWithoutGPU());
  else {
    for (PetscInt k = 0; k <= s; k++) {
      const PetscInt next = k < s ? (k + 1) * m : 0;
      IDRSBlockNorms norms, reached;

      PetscCall(PetscSNPrintf(context, sizeof(context), "%s, block%s, %" INT " rows, s = %" INT ", m = %" INT ", k = %" INT,
                              found.work->passes->name, queue ? " with its queue" : "", N, s, m, k));
      PetscCall(BlockLoad(&expected, k));
      PetscCall(BlockLoad(&found, k));
      PetscCall(BlockStep(&expected, k, PETSC_FALSE, &norms));
      PetscCall(BlockStep(&found, k, queue, &reached));
      PetscCall(ComplainIf(norms.stopped || reached.stopped, "%s: stopped", context));
      for (PetscInt j = 0; j < m; j++)
        PetscCall(ComplainIf(!(PetscAbsReal(norms.norms[j] - reached.norms[j]) <= allowed * PETSC_MACHINE_EPSILON * norms.rnorm),
                             "%s: norm %g, and %g", context, (double)norms.norms[j], (double)reached.norms[j]));
      PetscCall(CompareNumbers("the algebra", numbers, expected.storage, found.storage));
      PetscCall(CompareNumbers("the sums", IDRSBlockSumCount(s, m, k), expected.sums, found.sums));
      for (PetscInt j = 0; j < expected.count; j++) {
        if (j < next || j >= next + m || next == s * m) PetscCall(CompareVecs("vector", j, expected.x[j], found.x[j]));
      }
      if (next < s * m) PetscCall(CompareSpans(m, expected.x + next, found.x + next));
    }
  }
  PetscCall(BlockDestroy(&found));
  PetscCall(BlockDestroy(&expected));
  PetscCall(SideDestroy(&side));
  PetscCall(SideDestroy(&reference));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscInt              edges[MAX_LIST] = {6, 33}, s[MAX_LIST] = {1, 4, 8}, nedges = 2, spaces = 3;
  const PetscInt        widths[] = {2, 5, 8};
  KSPIDRSImplementation back     = KSP_IDRS_HOST;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(BackEndFromOptions(&back));
  PetscCall(ListFromOptions("-edges", MAX_LIST, edges, &nedges));
  PetscCall(ListFromOptions("-columns", MAX_LIST, s, &spaces));
  for (Way way = WAY_PASSES; way < WAYS; way++) {
    for (PetscInt i = 0; i < nedges * spaces; i++) PetscCall(TestSteps(edges[i / spaces], s[i % spaces], back, way));
    PetscCall(Verdict(ways[way]));
  }
  for (PetscInt queue = 0; queue < 2; queue++) {
    for (PetscInt i = 0; i < nedges * 3; i++)
      PetscCall(TestBlocks(edges[i / 3], 1 << i % 3, widths[i % 3], back, (PetscBool)queue));
    PetscCall(Verdict(queue ? "blocks with the queue of a device" : "blocks"));
  }
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

   test:
     suffix: 1
     nsize: {{1 3}}
     args: -implementation {{vec host}}

   # vectors and matrix do not fit into the shared memory of a GPU
   test:
     suffix: large
     requires: cuda
     args: -edges 480 -columns 4,8
     output_file: output/ops_device_1.out

TEST*/
