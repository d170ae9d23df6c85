static char help[] = "Passes and projections of groups of works, compared with separate works: vectors, sums\n\
and actions of the device.\n\
  -implementation <host> - the back end\n\
  -columns s1,s2,...     - numbers of shadow vectors\n\
  -rows n1,n2,...        - numbers of rows; a process takes another one than the one before it\n\
  -widths k1,k2,...      - numbers of works\n\
  -communication <auto>  - how sums go from process to process\n\n";

#include "workspaces.h"

#define MAX_S 64

/* The vectors of a work other than its bases */
enum {
  R,
  Z,
  V,
  T,
  SINGLES
};

/* Properties of a cycle */
typedef struct {
  PetscBool device; /* algebra on the device, if there is one */
  PetscBool start;  /* in the start of the recurrence; mixed: for every second work only */
  PetscBool mixed;
  PetscBool restarted;                /* every second work has another shadow space, as after a restart */
  PetscBool preconditioned, diagonal; /* see idrsops.h */
  PetscInt  stops, nan; /* work whose norm is out of bounds in step 1, and work with a NaN in the x of step 1; -1 for none */
} Way;

/* Results of a work */
typedef struct {
  PetscReal rnorm[MAX_S + 1];
  PetscInt  last; /* last step */
} Fate;

typedef struct {
  PetscInt      s, n, rstart, width;
  IDRSWorkspace work[IDRS_MAX_WIDTH + 1]; /* the last one is separate */
  Vec           single[IDRS_MAX_WIDTH + 1][SINGLES], diagonal, like, *P;
  PetscBool     exact; /* a separate work adds in the same order */
  const Way    *way;
} Problem;

/*
   Counts works that a back end receives with another shadow space than the first work: a back end that computes the shadow vectors
   does so once for all works
*/
static IDRSPassOps projecting;
static PetscErrorCode (*project)(const IDRSGroup *, const IDRSStep *);
static PetscInt apart = 0; /* works of a group with another shadow space than the first work */

static PetscErrorCode Project(const IDRSGroup *group, const IDRSStep *step)
{
  PetscFunctionBegin;
  for (PetscInt i = 1; i < group->count; i++) apart += group->work[i]->seed != group->work[0]->seed;
  PetscCall((*project)(group, step));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets vectors and small numbers of the work at this place to the data of work `number` */
static PetscErrorCode Load(Problem *problem, PetscInt place, PetscInt number)
{
  const PetscInt s       = problem->s;
  const Way     *way     = problem->way;
  IDRSWorkspace  work    = problem->work[place];
  IDRSScalars   *scalars = &work->scalars;

  PetscFunctionBegin;
  for (PetscInt j = 0; j < s; j++) {
    PetscCall(VecSetNumbers(work->G[j], j + 1000 * number, PETSC_TRUE));
    PetscCall(VecSetNumbers(work->U[j], s + j + 1000 * number, PETSC_TRUE));
  }
  for (PetscInt j = 0; j < SINGLES; j++) PetscCall(VecSetNumbers(problem->single[place][j], 2 * s + j + 1000 * number, PETSC_TRUE));
  if (number == way->nan) PetscCall(VecSet(s > 1 ? work->G[1] : work->t, NAN));
  for (PetscInt i = 0; i < IDRS_STORAGE(s); i++) work->storage[i] = Number(500 + 1000 * number, i);
  for (PetscInt j = 0; j < s; j++) {
    for (PetscInt i = 0; i < j; i++) scalars->M[i + j * s] = 0.0;
    scalars->M[j + j * s] += 3.0;
    scalars->inverse[j] = (PetscScalar)1.0 / scalars->M[j + j * s];
  }
  PetscCall(IDRSWorkspaceSetSeed(work, 3 + (way->restarted ? (uint64_t)number % 2 : 0)));
  work->preconditioned = (PetscBool)(way->preconditioned || way->diagonal);
  work->diagonal       = way->diagonal ? problem->diagonal : NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The works that have not stopped, and their numbers */
typedef struct {
  IDRSGroup group;
  PetscInt  number[IDRS_MAX_WIDTH];
} Team;

static PetscErrorCode Leave(Team *team, PetscInt i)
{
  PetscFunctionBegin;
  team->group.count--;
  for (; i < team->group.count; i++) {
    team->group.work[i] = team->group.work[i + 1];
    team->number[i]     = team->number[i + 1];
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Collects the outcomes of the oldest projections. Works that have stopped are removed; in lockstep the host does the algebra of
   the others
*/
static PetscErrorCode Collect(const Way *way, Team *team, Fate fate[])
{
  PetscFunctionBegin;
  for (PetscInt i = 0; i < team->group.count; i++) {
    Fate       *mine = &fate[team->number[i]];
    IDRSOutcome outcome;

    PetscCall(IDRSQueueCollect(team->group.work[i], &outcome));
    mine->last                  = outcome.step.k;
    mine->rnorm[outcome.step.k] = outcome.rnorm;
    if (!outcome.stopped && outcome.verdict == IDRS_UNDECIDED) {
      PetscReal rr;

      PetscCall(IDRSQueueContinue(team->group.work[i], &outcome.step, 0.5, &rr, &outcome.verdict));
    }
    if (outcome.stopped || outcome.verdict != IDRS_CONTINUES) PetscCall(Leave(team, i--));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Makes a cycle, with its projections and passes; x of each projection is there already. A device is one step ahead of the
   collected outcomes
*/
static PetscErrorCode Cycle(const Problem *problem, Team *team, Fate fate[])
{
  const Way      *way   = problem->way;
  const PetscInt  s     = problem->s;
  const PetscBool early = (PetscBool)(way->device && team->group.work[0]->queue),
                  inv   = (PetscBool)(way->preconditioned && !way->diagonal);

  PetscFunctionBegin;
  for (PetscInt k = 0; k <= s && team->group.count; k++) {
    const PetscInt  count = team->group.count;
    const PetscBool next  = (PetscBool)(k + 1 < s);
    IDRSBounds      bounds[IDRS_MAX_WIDTH];
    IDRSStep        steps[IDRS_MAX_WIDTH], combine[IDRS_MAX_WIDTH];

    for (PetscInt i = 0; i < count; i++) {
      const PetscInt  number = team->number[i];
      const PetscBool start  = (PetscBool)(way->start && (!way->mixed || number % 2));

      steps[i] = (IDRSStep){.k = k, .start = start, .unreported = (PetscBool)(k > 0)};
      if (k < s) {
        steps[i].wantv = (PetscBool)(next || (way->diagonal && !start));
        steps[i].wantu = (PetscBool)(next && !inv);
      } else {
        steps[i].wantv = PETSC_TRUE;
        steps[i].wantu = (PetscBool)!inv;
      }
      combine[i] = (IDRSStep){.k = k, .start = start, .wantv = (PetscBool)(k == s || !inv), .wantu = (PetscBool)(k < s)};
      bounds[i]  = (IDRSBounds){.low = -1.0, .high = PETSC_MAX_REAL, .cosine = 0.5};
      if (number == way->stops && k == 1) bounds[i].high = 0.0;
    }
    /* a direction of this step, which a device that is ahead must not compute again */
    if (!early) PetscCall(IDRSCombine(&team->group, combine));
    PetscCall(IDRSQueueLaunch(&team->group, steps, early ? bounds : NULL));
    if (!early) {
      PetscCall(Collect(way, team, fate));
      for (PetscInt i = 0; i < team->group.count; i++) {
        const PetscBool start = (PetscBool)(way->start && (!way->mixed || team->number[i] % 2));

        steps[i]       = steps[0];
        steps[i].start = start;
        steps[i].wantv = k < s ? (PetscBool)(next || (way->diagonal && !start)) : PETSC_TRUE;
      }
      if (!team->group.count) break;
    }
    if (k < s) PetscCall(IDRSUpdate(&team->group, steps));
    else PetscCall(IDRSAdvance(&team->group, steps));
    if (early && k > 0) PetscCall(Collect(way, team, fate));
  }
  while (early && team->group.count && team->group.work[0]->inflight) PetscCall(Collect(way, team, fate));
  PetscCall(IDRSQueueEnd(&team->group));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the largest difference of two arrays, relative to the largest number; infinite if only one of them has a NaN */
static PetscReal Difference(PetscInt n, const PetscScalar a[], const PetscScalar b[])
{
  PetscReal size = 0.0, difference = 0.0;

  for (PetscInt i = 0; i < n; i++) {
    const PetscBool number = (PetscBool)(a[i] == a[i]);

    if (number != (PetscBool)(b[i] == b[i])) return PETSC_INFINITY;
    if (!number) continue;
    size       = PetscMax(size, PetscMax(PetscAbsScalar(a[i]), PetscAbsScalar(b[i])));
    difference = PetscMax(difference, PetscAbsScalar(a[i] - b[i]));
  }
  return difference > 0.0 ? difference / size : 0.0;
}

static PetscErrorCode Compare(const Problem *problem, PetscInt number, const char what[], PetscInt index, PetscReal difference,
                              PetscReal tolerance)
{
  const Way *way = problem->way;

  PetscFunctionBegin;
  PetscCall(ComplainIf(!(difference <= tolerance),
                       "%s s %" INT " n %" INT " width %" INT "%s%s%s%s%s%s%s work %" INT ": %s %" INT " differs by %g",
                       problem->work[0]->passes->name, problem->s, problem->n, problem->width, problem->P ? " stored P" : "",
                       way->device ? " device" : "", way->start ? (way->mixed ? " mixed" : " start") : "",
                       way->restarted ? " restarted" : "",
                       way->preconditioned ? " preconditioned" : (way->diagonal ? " diagonal" : ""),
                       way->stops >= 0 ? " stops" : "", way->nan >= 0 ? " nan" : "", number, what, index, (double)difference));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode CompareVecs(const Problem *problem, PetscInt number, const char what[], PetscInt index, Vec x, Vec y,
                                  PetscReal tolerance)
{
  const PetscScalar *a, *b;

  PetscFunctionBegin;
  PetscCall(VecGetArrayRead(x, &a));
  PetscCall(VecGetArrayRead(y, &b));
  PetscCall(Compare(problem, number, what, index, Difference(problem->n, a, b), tolerance));
  PetscCall(VecRestoreArrayRead(y, &b));
  PetscCall(VecRestoreArrayRead(x, &a));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Compares a work of a group with the separate one */
static PetscErrorCode CompareWorks(const Problem *problem, PetscInt number, const Fate *fate, const Fate *expected)
{
  const PetscInt      s = problem->s, last = PetscMin(fate->last, expected->last);
  const IDRSWorkspace work = problem->work[number], alone = problem->work[problem->width];
  const PetscReal     tolerance = problem->exact ? 0.0 : PETSC_SQRT_MACHINE_EPSILON;

  PetscFunctionBegin;
  PetscCall(Compare(problem, number, "last step", expected->last, PetscAbs(fate->last - expected->last), 0.0));
  for (PetscInt k = 1; k <= last; k++) {
    const PetscReal a = fate->rnorm[k], b = expected->rnorm[k];

    PetscCall(Compare(problem, number, "norm of step", k, a == b || (a != a && b != b) ? 0.0 : PetscAbsReal(a - b) / PetscMax(a, b),
                      tolerance));
  }
  for (PetscInt j = 0; j < s; j++) {
    PetscCall(CompareVecs(problem, number, "column of G", j, work->G[j], alone->G[j], tolerance));
    PetscCall(CompareVecs(problem, number, "column of U", j, work->U[j], alone->U[j], tolerance));
  }
  for (PetscInt j = 0; j < SINGLES; j++) {
    if (j == V && fate->last < s) continue; /* after a stop v is not used */
    PetscCall(CompareVecs(problem, number, "vector", j, problem->single[number][j], problem->single[problem->width][j], tolerance));
  }
  PetscCall(
    Compare(problem, number, "small numbers", 0, Difference(IDRS_STORAGE_SUMS(s), work->storage, alone->storage), tolerance));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes a cycle of all works at once, and of each separately */
static PetscErrorCode TestCycle(Problem *problem, const Way *way)
{
  const PetscInt width = problem->width;
  Fate          *fate, expected;
  Team           team = {.group.count = width};

  PetscFunctionBegin;
  problem->way = way;
  PetscCall(PetscCalloc1(width, &fate));
  for (PetscInt i = 0; i < width; i++) {
    PetscCall(Load(problem, i, i));
    team.group.work[i] = problem->work[i];
    team.number[i]     = i;
  }
  apart = 0;
  PetscCall(Cycle(problem, &team, fate));
  PetscCall(Compare(problem, 0, "number of works with another shadow space", 0, (PetscReal)apart, 0.0));
  for (PetscInt i = 0; i < width; i++) {
    Team one = {
      .group = {1, {problem->work[width]}},
        .number = {i}
    };
    Fate fates[IDRS_MAX_WIDTH] = {{.last = 0}};

    PetscCall(Load(problem, width, i));
    PetscCall(Cycle(problem, &one, fates));
    expected = fates[i];
    PetscCall(CompareWorks(problem, i, &fate[i], &expected));
  }
  PetscCall(PetscFree(fate));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ProblemCreate(PetscInt s, PetscInt n, PetscInt width, PetscBool stored, KSPIDRSImplementation back,
                                    Problem *problem)
{
  KSPIDRSCommunication communication = KSP_IDRS_COMMUNICATION_AUTO;
  IDRSGroup            group         = {.count = width};

  PetscFunctionBegin;
  PetscCall(PetscOptionsGetEnum(NULL, NULL, "-communication", KSPIDRSCommunications, (PetscEnum *)&communication, NULL));
  *problem = (Problem){.s = s, .n = n, .width = width};
  PetscCall(VecCreateRows(n, &problem->like));
  PetscCall(VecGetOwnershipRange(problem->like, &problem->rstart, NULL));
  PetscCall(VecDuplicate(problem->like, &problem->diagonal));
  PetscCall(VecSetNumbers(problem->diagonal, 700 + 1000 * 0, PETSC_TRUE));
  if (stored) {
    PetscCall(VecDuplicateVecs(problem->like, s, &problem->P));
    for (PetscInt j = 0; j < s; j++) PetscCall(VecSetNumbers(problem->P[j], 800 + j + 1000 * 0, PETSC_TRUE));
  }
  PetscCall(IDRSWorkspaceCreate(problem->like, s, problem->P, back, width, problem->work));
  PetscCall(IDRSWorkspaceCreate(problem->like, s, problem->P, back, 1, &problem->work[width]));
  for (PetscInt i = 0; i <= width; i++) {
    Vec *x = problem->single[i];

    for (PetscInt j = 0; j < SINGLES; j++) PetscCall(VecDuplicate(problem->like, &x[j]));
    PetscCall(IDRSWorkspaceSetVecs(problem->work[i], x[R], x[Z], x[V], x[T]));
    projecting               = *problem->work[i]->passes;
    project                  = projecting.project;
    projecting.project       = Project;
    problem->work[i]->passes = &projecting;
    if (i < width) group.work[i] = problem->work[i];
  }
  PetscCall(IDRSWorkspaceConnect(&group, communication, PETSC_FALSE));
  PetscCall(IDRSWorkspaceConnect(IDRSGroupOfOne(problem->work[width]), communication, PETSC_FALSE));
  problem->exact = (PetscBool)(problem->work[0]->size < 3); /* MPI adds many numbers in another order than few */
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ProblemDestroy(Problem *problem)
{
  PetscFunctionBegin;
  PetscCall(IDRSWorkspaceDestroy(problem->width, problem->work));
  PetscCall(IDRSWorkspaceDestroy(1, &problem->work[problem->width]));
  for (PetscInt i = 0; i <= problem->width; i++) {
    for (PetscInt j = 0; j < SINGLES; j++) PetscCall(VecDestroy(&problem->single[i][j]));
  }
  if (problem->P) PetscCall(VecDestroyVecs(problem->s, &problem->P));
  PetscCall(DestroyAll(&problem->diagonal, &problem->like));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Test(PetscInt s, PetscInt n, PetscInt width, KSPIDRSImplementation back)
{
  static const Way ways[] = {
    {.stops = -1, .nan = -1},
    {.stops = -1, .nan = -1, .start = PETSC_TRUE},
    {.stops = -1, .nan = -1, .start = PETSC_TRUE, .mixed = PETSC_TRUE},
    {.stops = -1, .nan = -1, .restarted = PETSC_TRUE},
    {.stops = -1, .nan = -1, .preconditioned = PETSC_TRUE},
    {.stops = -1, .nan = -1, .diagonal = PETSC_TRUE},
    {.stops = -1, .nan = 1},
    {.stops = -1, .nan = -1, .device = PETSC_TRUE},
    {.stops = -1, .nan = -1, .device = PETSC_TRUE, .start = PETSC_TRUE},
    {.stops = -1, .nan = -1, .device = PETSC_TRUE, .start = PETSC_TRUE, .mixed = PETSC_TRUE},
    {.stops = -1, .nan = -1, .device = PETSC_TRUE, .restarted = PETSC_TRUE},
    {.stops = -1, .nan = -1, .device = PETSC_TRUE, .diagonal = PETSC_TRUE},
    {.stops = 0, .nan = 1, .device = PETSC_TRUE},
    {.stops = 1, .nan = 0, .device = PETSC_TRUE, .start = PETSC_TRUE, .mixed = PETSC_TRUE},
  };
  Problem problem;

  PetscFunctionBegin;
  for (PetscInt stored = 0; stored < (back == KSP_IDRS_VEC ? 2 : 1); stored++) {
    PetscCall(ProblemCreate(s, n, width, (PetscBool)stored, back, &problem));
    for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(ways); i++) {
      if (!ways[i].device || problem.work[0]->queue) PetscCall(TestCycle(&problem, &ways[i]));
    }
    PetscCall(ProblemDestroy(&problem));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscInt columns[MAX_LIST] = {1, 4}, rows[MAX_LIST] = {0, 1, 31, 33, 1000}, widths[MAX_LIST] = {1, 2, 3, 8, 16}, spaces = 2,
           sizes = 5, groups = 5;
  KSPIDRSImplementation back = KSP_IDRS_VEC;
  PetscMPIInt           rank;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCall(RepeatSums());
  PetscCall(BackEndFromOptions(&back));
  PetscCall(ListFromOptions("-columns", MAX_LIST, columns, &spaces));
  PetscCall(ListFromOptions("-rows", MAX_LIST, rows, &sizes));
  PetscCall(ListFromOptions("-widths", MAX_LIST, widths, &groups));
  for (PetscInt l = 0; l < spaces; l++) {
    for (PetscInt i = 0; i < sizes; i++) {
      for (PetscInt j = 0; j < groups; j++) PetscCall(Test(columns[l], rows[(i + rank) % sizes], widths[j], back));
    }
  }
  PetscCall(Verdict("works of a group"));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

   test:
     suffix: 1
     nsize: {{1 3}}

   test:
     suffix: many
     args: -columns 2,19 -rows 33 -widths 3
     output_file: output/ops_groups_1.out

   test:
     suffix: large
     args: -columns 3 -rows 1000007 -widths 3
     output_file: output/ops_groups_1.out

TEST*/
