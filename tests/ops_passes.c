static char help[] = "The passes of KSPIDRS on bases and vectors: every back end compared with loops in long double, and with\n\
the reads, writes and reductions in the table of idrsops.h.\n\
  -implementation <host> - the back end that is tested beside vec\n\
  -columns s1,s2,...     - numbers of shadow vectors\n\
  -rows n1,n2,...        - numbers of rows; a process takes another one than the one before it\n\n";

#include <float.h>
#include <math.h>
#include "workspaces.h"
#include "wide.h"

#define WIDES (sizeof(Wide) / sizeof(long double))
#define UNIT  PetscMax((long double)PETSC_MACHINE_EPSILON, LDBL_EPSILON)

typedef enum {
  COMBINE,
  PROJECT,
  UPDATE,
  ADVANCE,
  OPERATIONS
} Operation;

/* One call of an operation */
typedef struct {
  Operation operation;
  IDRSStep  step;
  PetscBool preconditioned; /* advance reads p from v */
  PetscBool diagonal;       /* the passes apply B^{-1}, with its diagonal */
} Call;

/* The vectors of a back end: columns of G, columns of U, and these */
enum {
  R,
  V,
  T,
  Z,
  D,
  SINGLES
};
typedef struct {
  IDRSWorkspace work;
  IDRSScalars  *scalars;
  Vec          *x; /* 2s + SINGLES vectors */
  Vec          *P; /* explicit shadow vectors, or NULL */
} Side;

/* Data and expectations, the same for all back ends. Arrays of vectors have n rows each */
typedef struct {
  PetscInt     s, n, rstart, count;
  Vec          like;
  PetscScalar *given;                    /* contents of the vectors before an operation */
  PetscScalar *poison;                   /* NaN, n rows */
  PetscScalar *first;                    /* results of the first of two runs */
  PetscScalar *storage;                  /* M, f, c, alpha, beta, omega */
  Wide        *value;                    /* expected vectors, and sums */
  long double *size;                     /* sizes of the terms that were added */
  Wide        *sums;                     /* expected sums of a projection, over all processes */
  long double *sumsize;                  /* like size, for the sums */
  PetscScalar *firstsums;                /* sums of the first of two runs */
  PetscBool   *reads, *writes, *scratch; /* vectors that the operation may read, must write, and may use as scratch */
} Problem;

/* Returns the number of vectors that the operations of a back end report as moved */
static PetscLogDouble Vectors(IDRSWorkspace work)
{
  PetscLogDouble vectors = 0;

  for (PetscInt i = 0; i < IDRS_PASSES; i++) vectors += work->traffic[i].vectors;
  return vectors;
}

/* The index of column j of a basis, or of one of the single vectors, among the vectors of a back end */
#define InG(problem, j)         (j)
#define InU(problem, j)         ((problem)->s + (j))
#define Single(problem, single) (2 * (problem)->s + (single))

/* Declares the vectors of a combine of columns k:s, as in idrsops.h */
static void DeclareCombine(Problem *problem, Call call, PetscInt k)
{
  const IDRSStep *step = &call.step;

  if (call.diagonal && step->wantv) problem->reads[Single(problem, D)] = PETSC_TRUE;
  if (step->wantv) {
    problem->reads[Single(problem, R)] = PETSC_TRUE;
    for (PetscInt j = k; j < problem->s; j++) problem->reads[InG(problem, j)] = PETSC_TRUE;
  }
  if (step->wantu) {
    for (PetscInt j = k; j < problem->s; j++) problem->reads[InU(problem, j)] = PETSC_TRUE;
    problem->writes[InU(problem, k)] = PETSC_TRUE;
  }
  if (step->wantv && step->wantu) problem->scratch[Single(problem, V)] = PETSC_TRUE;
  else if (step->wantv) problem->writes[Single(problem, V)] = PETSC_TRUE;
  else if (step->wantu) problem->reads[Single(problem, T)] = PETSC_TRUE;
}

/* Declares the columns "reads" and "writes" of the table in idrsops.h */
static PetscErrorCode Declare(Problem *problem, Call call)
{
  const PetscInt  s = problem->s, k = call.step.k;
  const IDRSStep *step = &call.step;

  PetscFunctionBegin;
  PetscCall(PetscArrayzero(problem->reads, problem->count));
  PetscCall(PetscArrayzero(problem->writes, problem->count));
  PetscCall(PetscArrayzero(problem->scratch, problem->count));
  switch (call.operation) {
  case COMBINE:
    DeclareCombine(problem, call, k < s ? k : 0);
    if (k == s) {
      problem->writes[Single(problem, V)] = PETSC_FALSE;
      problem->writes[Single(problem, R)] = PETSC_TRUE;
      problem->reads[Single(problem, D)]  = PETSC_FALSE; /* r is not preconditioned */
    }
    break;
  case PROJECT:
    problem->reads[k == s ? Single(problem, T) : InG(problem, k)] = PETSC_TRUE;
    if (k == s || step->start) problem->reads[Single(problem, R)] = PETSC_TRUE;
    break;
  case UPDATE:
    for (PetscInt j = 0; j <= k; j++) problem->reads[InG(problem, j)] = problem->reads[InU(problem, j)] = PETSC_TRUE;
    problem->reads[Single(problem, R)]  = PETSC_TRUE;
    problem->writes[Single(problem, R)] = problem->writes[InG(problem, k)] = problem->writes[InU(problem, k)] = PETSC_TRUE;
    if (k == 0) problem->reads[InU(problem, 0)] = problem->writes[InG(problem, 0)] = problem->writes[InU(problem, 0)] = PETSC_FALSE;
    if (!step->start) DeclareCombine(problem, call, k + 1);
    else if (step->wantu) problem->writes[InU(problem, k + 1)] = problem->scratch[Single(problem, V)] = PETSC_TRUE;
    else if (step->wantv) problem->writes[Single(problem, V)] = PETSC_TRUE;
    if (call.diagonal && step->wantv) problem->reads[Single(problem, D)] = PETSC_TRUE;
    break;
  default:
    for (PetscInt j = 0; j < s; j++) problem->reads[InU(problem, j)] = PETSC_TRUE;
    problem->reads[Single(problem, T)] = problem->reads[Single(problem, Z)] = problem->reads[Single(problem, R)] = PETSC_TRUE;
    problem->writes[Single(problem, Z)] = problem->writes[Single(problem, R)] = PETSC_TRUE;
    DeclareCombine(problem, call, 0);
    if (call.diagonal) {
      problem->reads[Single(problem, D)] = PETSC_TRUE;
      if (!problem->writes[Single(problem, V)]) problem->scratch[Single(problem, V)] = PETSC_TRUE;
    } else if (call.preconditioned) problem->reads[Single(problem, V)] = PETSC_TRUE;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* y += a x in the reference, and the size of what was added */
static void Add(Problem *problem, PetscInt y, Wide a, PetscInt x)
{
  const PetscInt n = problem->n;

  for (PetscInt i = 0; i < n; i++) {
    problem->value[i + y * n] += a * problem->value[i + x * n];
    problem->size[i + y * n] += WideAbs(a) * problem->size[i + x * n];
  }
}

/* y := a x in the reference */
static void Put(Problem *problem, PetscInt y, Wide a, PetscInt x)
{
  const PetscInt n = problem->n;

  for (PetscInt i = 0; i < n; i++) {
    problem->value[i + y * n] = a * problem->value[i + x * n];
    problem->size[i + y * n]  = WideAbs(a) * problem->size[i + x * n];
  }
}

/* y := B^{-1}y in the reference, with the diagonal */
static void Precondition(Problem *problem, PetscInt y)
{
  const PetscInt n = problem->n, d = Single(problem, D);

  for (PetscInt i = 0; i < n; i++) {
    problem->value[i + y * n] *= problem->value[i + d * n];
    problem->size[i + y * n] *= problem->size[i + d * n];
  }
}

/* U_k = omega v + U(:,k:s) c; v is in another vector for combine U */
static void ReferenceCombine(Problem *problem, const IDRSScalars *scalars, const IDRSStep *step, PetscBool diagonal, PetscInt k)
{
  const PetscInt v = Single(problem, step->wantv ? V : T), u = InU(problem, k);

  if (step->wantv) {
    Put(problem, v, 1.0L, Single(problem, R));
    for (PetscInt j = k; j < problem->s; j++) Add(problem, v, -(Wide)scalars->c[j], InG(problem, j));
    if (diagonal) Precondition(problem, v);
  }
  if (step->wantu) {
    Put(problem, u, scalars->c[k], u);
    Add(problem, u, scalars->omega[0], v);
    for (PetscInt j = k + 1; j < problem->s; j++) Add(problem, u, scalars->c[j], InU(problem, j));
  }
}

/* Computes the direction that follows step k of the start */
static void ReferenceDirection(Problem *problem, const IDRSScalars *scalars, const IDRSStep *step, PetscBool diagonal)
{
  const PetscInt direction = step->wantu ? InU(problem, step->k + 1) : Single(problem, V);

  if (!step->wantv) return;
  Put(problem, direction, 1.0L, Single(problem, R));
  for (PetscInt j = 0; j <= step->k; j++) Add(problem, direction, -(Wide)scalars->c[j], InG(problem, j));
  if (diagonal) Precondition(problem, direction);
}

/* Adds x^H y, of two vectors of the reference, to the expected sum at this index */
static void ReferenceDot(Problem *problem, PetscInt index, PetscInt x, PetscInt y)
{
  const PetscInt n = problem->n;

  for (PetscInt i = 0; i < n; i++) {
    problem->sums[index] += WideConj(problem->value[i + x * n]) * problem->value[i + y * n];
    problem->sumsize[index] += problem->size[i + x * n] * problem->size[i + y * n];
  }
}

/* Computes the expected P^H x, from the explicit shadow vectors or from the hash */
static PetscErrorCode ReferenceShadow(Problem *problem, const Side *side, PetscInt index, PetscInt x)
{
  const PetscInt n = problem->n;

  PetscFunctionBegin;
  for (PetscInt j = 0; j < problem->s; j++) {
    const PetscScalar *array = NULL;

    if (side->P) PetscCall(VecGetArrayRead(side->P[j], &array));
    for (PetscInt i = 0; i < n; i++) {
      const Wide p = side->P ? (Wide)array[i]
                             : (Wide)IDRSShadowEntry(side->work->seed, (uint64_t)(problem->rstart + i), (uint32_t)j) / 65536;

      problem->sums[index + j] += WideConj(p) * problem->value[i + x * n];
      problem->sumsize[index + j] += WideAbs(p) * problem->size[i + x * n];
    }
    if (side->P) PetscCall(VecRestoreArrayRead(side->P[j], &array));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Evaluates the equations of the table; the expected sum r^H r of update and advance is stored in the place of a projection's */
static PetscErrorCode Reference(Problem *problem, const Side *side, Call call)
{
  const IDRSScalars *scalars = side->scalars;
  const IDRSStep    *step    = &call.step;
  const PetscInt     s = problem->s, n = problem->n, k = step->k, r = Single(problem, R);

  PetscFunctionBegin;
  for (PetscInt j = 0; j < problem->count; j++) {
    for (PetscInt i = 0; problem->reads[j] && i < n; i++) {
      problem->value[i + j * n] = problem->given[i + j * n];
      problem->size[i + j * n]  = WideAbs(problem->value[i + j * n]);
    }
  }
  PetscCall(PetscArrayzero(problem->sums, IDRS_SUMS(s, 1)));
  PetscCall(PetscArrayzero(problem->sumsize, IDRS_SUMS(s, 1)));
  switch (call.operation) {
  case COMBINE:
    ReferenceCombine(problem, scalars, step, (PetscBool)(call.diagonal && k < s), k < s ? k : 0);
    if (k == s) Put(problem, r, 1.0L, Single(problem, V));
    break;
  case PROJECT: {
    const PetscInt x = k == s ? Single(problem, T) : InG(problem, k);

    PetscCall(ReferenceShadow(problem, side, 0, x));
    ReferenceDot(problem, IDRS_SUM_XX(s), x, x);
    if (k == s || step->start) {
      PetscCall(ReferenceShadow(problem, side, IDRS_SUM_PY(s), r));
      ReferenceDot(problem, IDRS_SUM_XY(s), x, r);
      ReferenceDot(problem, IDRS_SUM_YY(s), r, r);
    }
    break;
  }
  case UPDATE:
    if (step->start) Add(problem, r, -(Wide)scalars->beta[k], InG(problem, k));
    for (PetscInt j = 0; j < k; j++) {
      Add(problem, InG(problem, k), -(Wide)scalars->alpha[j], InG(problem, j));
      Add(problem, InU(problem, k), -(Wide)scalars->alpha[j], InU(problem, j));
    }
    if (step->start) ReferenceDirection(problem, scalars, step, call.diagonal);
    else {
      Add(problem, r, -(Wide)scalars->beta[k], InG(problem, k));
      ReferenceCombine(problem, scalars, step, call.diagonal, k + 1);
    }
    break;
  default:
    if (call.diagonal) {
      Put(problem, Single(problem, V), 1.0L, r);
      Precondition(problem, Single(problem, V));
    }
    Add(problem, Single(problem, Z), scalars->omega[0], call.preconditioned || call.diagonal ? Single(problem, V) : r);
    for (PetscInt j = 0; j < s; j++) Add(problem, Single(problem, Z), scalars->beta[j], InU(problem, j));
    Add(problem, r, -(Wide)scalars->omega[0], Single(problem, T));
    ReferenceCombine(problem, scalars, step, call.diagonal, 0);
  }
  if (call.operation == COMBINE) PetscFunctionReturn(PETSC_SUCCESS);
  if (call.operation != PROJECT) ReferenceDot(problem, IDRS_SUM_RR(s), r, r);
  PetscCallMPI(MPIU_Allreduce(MPI_IN_PLACE, (long double *)problem->sums, (PetscMPIInt)(IDRS_SUMS(s, 1) * WIDES), MPI_LONG_DOUBLE,
                              MPI_SUM, PETSC_COMM_WORLD));
  PetscCallMPI(
    MPIU_Allreduce(MPI_IN_PLACE, problem->sumsize, (PetscMPIInt)IDRS_SUMS(s, 1), MPI_LONG_DOUBLE, MPI_SUM, PETSC_COMM_WORLD));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the contents of a vector before the operation. In the first run all vectors that the operation must not read are NaN */
static const PetscScalar *Content(const Problem *problem, PetscInt run, PetscInt j)
{
  return run == 0 && !problem->reads[j] ? problem->poison : problem->given + j * problem->n;
}

static PetscErrorCode Load(const Problem *problem, PetscInt run, Side *side)
{
  PetscScalar *array;

  PetscFunctionBegin;
  for (PetscInt j = 0; j < problem->count; j++) {
    PetscCall(VecGetArrayWrite(side->x[j], &array));
    PetscCall(PetscArraycpy(array, Content(problem, run, j), problem->n));
    PetscCall(VecRestoreArrayWrite(side->x[j], &array));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes the sums of a projection, and collects them on the host */
static PetscErrorCode Project(IDRSWorkspace work, const IDRSStep *step)
{
  IDRSOutcome outcome;

  PetscFunctionBegin;
  PetscCall(IDRSQueueLaunch(IDRSGroupOfOne(work), step, NULL));
  PetscCall(IDRSQueueCollect(work, &outcome));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Apply(const Problem *problem, Side *side, Call call)
{
  PetscFunctionBegin;
  side->work->preconditioned = (PetscBool)(call.preconditioned || call.diagonal);
  side->work->diagonal       = call.diagonal ? side->x[Single(problem, D)] : NULL;
  switch (call.operation) {
  case COMBINE:
    PetscCall(IDRSCombine(IDRSGroupOfOne(side->work), &call.step));
    break;
  case PROJECT:
    PetscCall(Project(side->work, &call.step));
    break;
  case UPDATE:
    PetscCall(IDRSUpdate(IDRSGroupOfOne(side->work), &call.step));
    break;
  default:
    PetscCall(IDRSAdvance(IDRSGroupOfOne(side->work), &call.step));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ExpectCall(Check *check, PetscBool holds, const Problem *problem, const Side *side, Call call,
                                 const char what[], PetscInt index, double found, double expected)
{
  PetscFunctionBegin;
  if (holds) check->made++;
  else
    PetscCall(Expect(check, PETSC_FALSE, "%s%s s %" INT " n %" INT " k %" INT "%s%s%s%s: %s %" INT ": %g, not %g",
                     side->work->passes->name, side->P ? " with explicit vectors" : "", problem->s, problem->n, call.step.k,
                     call.step.start ? " start" : "", call.step.wantv ? " v" : "", call.step.wantu ? " u" : "",
                     call.preconditioned ? " preconditioned" : (call.diagonal ? " diagonal" : ""), what, index, found, expected));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks every vector: if the operation writes it, it is as expected and its state has changed; otherwise all bits are the same */
static PetscErrorCode CheckVectors(Check *check, Problem *problem, const Side *side, Call call, PetscInt run,
                                   const PetscObjectState states[])
{
  const PetscInt    n         = problem->n;
  const long double tolerance = 4 * (2 * problem->s + 8) * UNIT;

  PetscFunctionBegin;
  for (PetscInt j = 0; j < problem->count; j++) {
    const PetscScalar *array;
    PetscObjectState   state;
    PetscBool          same;

    PetscCall(VecGetArrayRead(side->x[j], &array));
    if (problem->writes[j]) {
      PetscInt row = -1;

      for (PetscInt i = 0; i < n; i++) {
        if (!(WideAbs(array[i] - problem->value[i + j * n]) <= tolerance * problem->size[i + j * n])) row = i;
      }
      PetscCall(ExpectCall(check, (PetscBool)(row < 0), problem, side, call, "row of a result", row,
                           row < 0 ? 0.0 : (double)PetscRealPart(array[row]),
                           row < 0 ? 0.0 : (double)WideConj(problem->value[row + j * n])));
      PetscCall(PetscArraycmp(Content(problem, run, j), array, n, &same));
      PetscCall(PetscObjectStateGet((PetscObject)side->x[j], &state));
      PetscCall(ExpectCall(check, (PetscBool)(same || state > states[j]), problem, side, call, "state of vector", j, (double)state,
                           (double)states[j]));
      if (run == 0) PetscCall(PetscArraycpy(problem->first + j * n, array, n));
      else {
        PetscCall(PetscArraycmp(problem->first + j * n, array, n, &same));
        PetscCall(ExpectCall(check, same, problem, side, call, "second run, vector", j, 0.0, 0.0));
      }
    } else if (!problem->scratch[j]) {
      PetscCall(PetscArraycmp(Content(problem, run, j), array, n, &same));
      PetscCall(ExpectCall(check, same, problem, side, call, "written, but should not be: vector", j, 0.0, 0.0));
    }
    PetscCall(VecRestoreArrayRead(side->x[j], &array));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks sums [begin, end) of a projection */
static PetscErrorCode CheckSums(Check *check, Problem *problem, const Side *side, Call call, PetscInt run, PetscInt begin,
                                PetscInt end, const PetscScalar sums[])
{
  PetscInt N;

  PetscFunctionBegin;
  PetscCall(VecGetSize(problem->like, &N));
  for (PetscInt i = begin; i < end; i++) {
    const long double tolerance = ((long double)N + 8 * (2 * problem->s + 8)) * UNIT * problem->sumsize[i];

    PetscCall(ExpectCall(check, (PetscBool)(WideAbs(sums[i] - problem->sums[i]) <= tolerance), problem, side, call, "sum", i,
                         (double)PetscRealPart(sums[i]), (double)WideConj(problem->sums[i])));
  }
  if (run == 0) PetscCall(PetscArraycpy(problem->firstsums + begin, sums + begin, end - begin));
  else {
    PetscBool same;

    PetscCall(PetscArraycmp(problem->firstsums + begin, sums + begin, end - begin, &same));
    PetscCall(ExpectCall(check, same, problem, side, call, "second run, sums from", begin, 0.0, 0.0));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Checks the norm of r after update and advance: computed separately and, sometimes, by the next projection, whose x does not
   matter
*/
static PetscErrorCode CheckNorm(Check *check, Problem *problem, Side *side, Call call, PetscInt run)
{
  const PetscInt rr         = IDRS_SUM_RR(problem->s);
  PetscLogDouble reductions = -side->work->reductions, expected = side->work->size > 1 ? 1 : 0;
  const IDRSStep step = {.k = call.preconditioned ? problem->s : IDRS_RESIDUAL};
  PetscReal      norm;
  long double    error;

  PetscFunctionBegin;
  PetscCall(IDRSNorm(IDRSGroupOfOne(side->work), &norm));
  reductions += side->work->reductions;
  PetscCall(
    ExpectCall(check, (PetscBool)(reductions == expected), problem, side, call, "reductions of the norm", 0, reductions, expected));
  error = fabsl((long double)norm * norm - WideAbs(problem->sums[rr]));
  PetscCall(ExpectCall(check, (PetscBool)(error <= 1e4 * UNIT * problem->sumsize[rr]), problem, side, call, "square of the norm", 0,
                       (double)(norm * norm), (double)WideAbs(problem->sums[rr])));
  if (call.step.wantv) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(Project(side->work, &step));
  PetscCall(CheckSums(check, problem, side, call, run, rr, rr + 1, side->work->scalars.sums));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes one call, twice */
static PetscErrorCode TestCall(Check *check, Problem *problem, Side *side, Call call)
{
  const PetscInt      s = problem->s, storage = s * (s + 4);
  const IDRSWorkspace work     = side->work;
  PetscLogDouble      declared = 0, expected;
  PetscObjectState   *states;

  PetscFunctionBegin;
  PetscCall(PetscMalloc1(problem->count, &states));
  PetscCall(Declare(problem, call));
  for (PetscInt j = 0; j < problem->count; j++) declared += (problem->reads[j] ? 1 : 0) + (problem->writes[j] ? 1 : 0);
  PetscCall(Reference(problem, side, call));
  for (PetscInt run = 0; run < 2; run++) {
    PetscLogDouble vectors, reductions, allreduces;
    PetscBool      same;

    PetscCall(Load(problem, run, side));
    for (PetscInt j = 0; j < problem->count; j++) PetscCall(PetscObjectStateGet((PetscObject)side->x[j], &states[j]));
    vectors    = -Vectors(work);
    reductions = -work->reductions;
    allreduces = -Allreduces();
    PetscCall(Apply(problem, side, call));
    vectors += Vectors(work);
    reductions += work->reductions;
    allreduces += Allreduces();

    PetscCall(CheckVectors(check, problem, side, call, run, states));
    if (call.operation == PROJECT) {
      PetscCall(CheckSums(check, problem, side, call, run, 0, s + 1, work->scalars.sums));
      if (call.step.start || call.step.k == s)
        PetscCall(CheckSums(check, problem, side, call, run, s + 2, IDRS_SUMS(s, 1), work->scalars.sums));
    }
    expected = !work->passes->device ? 0 : declared;
    PetscCall(ExpectCall(check, (PetscBool)(vectors == expected), problem, side, call, "vectors counted", 0, vectors, expected));
    expected = call.operation == PROJECT ? 1 : 0;
    PetscCall(
      ExpectCall(check, (PetscBool)(reductions == expected), problem, side, call, "reductions counted", 0, reductions, expected));
    if (work->size == 1 || PetscDefined(USE_DEBUG) || !PetscDefined(USE_LOG)) expected = 0;
    PetscCall(
      ExpectCall(check, (PetscBool)(allreduces == expected), problem, side, call, "reductions made", 0, allreduces, expected));
    PetscCall(PetscArraycmp(problem->storage, side->scalars->M, s * s, &same));
    if (same) PetscCall(PetscArraycmp(problem->storage + s * s, side->scalars->f, s, &same));
    if (same) PetscCall(PetscArraycmp(problem->storage + s * (s + 1), side->scalars->c, s, &same));
    if (same) PetscCall(PetscArraycmp(problem->storage + s * (s + 2), side->scalars->alpha, s, &same));
    if (same) PetscCall(PetscArraycmp(problem->storage + s * (s + 3), side->scalars->beta, s, &same));
    if (same) same = (PetscBool)(problem->storage[storage] == side->scalars->omega[0]);
    PetscCall(ExpectCall(check, same, problem, side, call, "the small numbers were changed", 0, 0.0, 0.0));
    if (call.operation == UPDATE || call.operation == ADVANCE) PetscCall(CheckNorm(check, problem, side, call, run));
  }
  PetscCall(PetscFree(states));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets M, f, c, alpha, beta, which are consecutive in problem->storage, and omega, which is the last number */
static PetscErrorCode SetNumbers(const Problem *problem, Side *side)
{
  const PetscInt     s      = problem->s;
  const PetscScalar *number = problem->storage;

  PetscFunctionBegin;
  PetscCall(PetscArraycpy(side->scalars->M, number, s * s));
  for (PetscInt i = 0; i < s; i++) side->scalars->inverse[i] = (PetscScalar)1.0 / side->scalars->M[i + i * s];
  PetscCall(PetscArraycpy(side->scalars->f, number + s * s, s));
  PetscCall(PetscArraycpy(side->scalars->c, number + s * (s + 1), s));
  PetscCall(PetscArraycpy(side->scalars->alpha, number + s * (s + 2), s));
  PetscCall(PetscArraycpy(side->scalars->beta, number + s * (s + 3), s));
  side->scalars->omega[0] = number[s * (s + 4)];
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns a call of step k; part selects the direction: 0 is v, 1 is v and u, 2 is u, other values are nothing */
static Call MakeCall(Operation operation, PetscInt k, PetscInt start, PetscInt part, PetscBool diagonal)
{
  Call call = {
    .operation = operation, .step = {.k = k, .start = (PetscBool)start},
         .diagonal = diagonal
  };

  call.step.wantv = (PetscBool)(part == 0 || part == 1);
  call.step.wantu = (PetscBool)(part == 1 || part == 2);
  return call;
}

#define NOTHING 3

/* Makes the pass that follows the projection of step k, or of the omega step k = s */
static PetscErrorCode Follow(const Problem *problem, Side *side, PetscInt k, PetscBool start)
{
  const PetscInt  s    = problem->s;
  const PetscBool next = (PetscBool)(k + 1 < s);

  PetscFunctionBegin;
  if (k < s) PetscCall(Apply(problem, side, MakeCall(UPDATE, k, start, next ? 1 : NOTHING, PETSC_FALSE)));
  else PetscCall(Apply(problem, side, MakeCall(ADVANCE, s, start, 0, PETSC_FALSE)));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Makes a projection, with bounds for the device or with NULL, and the pass after it; stopped is PETSC_TRUE if the recurrence stops
*/
static PetscErrorCode ProjectAndFollow(const Problem *problem, Side *side, const IDRSStep *step, const IDRSBounds *bounds,
                                       PetscReal *rnorm, PetscBool *stopped)
{
  IDRSOutcome outcome;
  IDRSVerdict verdict;

  PetscFunctionBegin;
  if (bounds) {
    PetscCall(IDRSQueueLaunch(IDRSGroupOfOne(side->work), step, bounds));
    PetscCall(Follow(problem, side, step->k, step->start));
    PetscCall(IDRSQueueCollect(side->work, &outcome));
    *rnorm   = outcome.rnorm;
    *stopped = outcome.stopped;
  } else {
    PetscCall(Project(side->work, step));
    *rnorm = PetscSqrtReal(PetscRealPart(side->scalars->sums[IDRS_SUM_RR(problem->s)]));
    PetscCall(IDRSQueueContinue(side->work, step, 0.5, &(PetscReal){0.0}, &verdict));
    *stopped = verdict == IDRS_CONTINUES ? PETSC_FALSE : PETSC_TRUE;
    PetscCall(Follow(problem, side, step->k, step->start));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets untouched to PETSC_TRUE if all vectors are as they were loaded, except v */
static PetscErrorCode Untouched(const Problem *problem, const Side *side, PetscBool *untouched)
{
  PetscFunctionBegin;
  *untouched = PETSC_TRUE;
  for (PetscInt j = 0; j < problem->count; j++) {
    const PetscScalar *array;
    PetscBool          same;

    PetscCall(VecGetArrayRead(side->x[j], &array));
    PetscCall(PetscArraycmp(Content(problem, 1, j), array, problem->n, &same));
    PetscCall(VecRestoreArrayRead(side->x[j], &array));
    if (!same && j != Single(problem, V)) *untouched = PETSC_FALSE;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets numbers and vectors as before a step, and r^H r of the previous pass, which a device keeps */
static PetscErrorCode Begin(const Problem *problem, Side *side)
{
  PetscFunctionBegin;
  PetscCall(SetNumbers(problem, side));
  PetscCall(Load(problem, 1, side));
  PetscCall(Follow(problem, side, 0, PETSC_FALSE));
  PetscCall(Load(problem, 1, side));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that a device that stops in this step changes nothing, neither then nor in a later step that would continue */
static PetscErrorCode CheckStop(Check *check, Problem *problem, Side *side, Call call, const IDRSBounds *bounds,
                                IDRSOutcome *outcome)
{
  const IDRSBounds wide = {.low = -1.0, .high = PETSC_MAX_REAL, .cosine = 0.5};
  IDRSWorkspace    work = side->work;
  PetscBool        untouched;

  PetscFunctionBegin;
  for (PetscInt later = 0; later < 2; later++) {
    PetscCall(IDRSQueueLaunch(IDRSGroupOfOne(work), &call.step, later ? &wide : bounds));
    PetscCall(Follow(problem, side, call.step.k, call.step.start));
    PetscCall(Untouched(problem, side, &untouched));
    PetscCall(ExpectCall(check, untouched, problem, side, call, "changed by a device that has stopped, step", later, 0.0, 0.0));
  }
  PetscCall(IDRSQueueCollect(work, outcome));
  PetscCall(
    ExpectCall(check, (PetscBool)(work->inflight == 0), problem, side, call, "in flight after a stop", 0, work->inflight, 0.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   A device continues if the host does, and stops for a norm outside the bounds, a sum that is not a number, or a breakdown. It
   tests unreported norms only. ops_device.c compares its numbers and vectors
*/
static PetscErrorCode TestOnDevice(Check *check, Problem *problem, Side *side, PetscBool start)
{
  const PetscInt s    = problem->s;
  const IDRSStep zero = {.k = 0};
  IDRSWorkspace  work = side->work;

  PetscFunctionBegin;
  for (PetscInt k = 0; k <= s; k++) {
    Call        call   = MakeCall(PROJECT, k, start, NOTHING, PETSC_FALSE);
    IDRSStep   *step   = &call.step;
    IDRSBounds  bounds = {.low = -1.0, .high = PETSC_MAX_REAL, .cosine = 0.5};
    Vec         x      = k < s ? work->G[k] : work->t;
    IDRSOutcome outcome;
    PetscReal   rnorm, norm, left;
    PetscBool   stops, stopped;

    step->unreported = PETSC_TRUE;
    PetscCall(Begin(problem, side));
    PetscCall(Project(work, &zero));
    left = PetscSqrtReal(PetscRealPart(work->scalars.sums[IDRS_SUM_RR(s)]));
    PetscCall(SetNumbers(problem, side));
    PetscCall(Load(problem, 1, side));
    PetscCall(ProjectAndFollow(problem, side, step, NULL, &rnorm, &stops));
    if (start && k == s) rnorm = left; /* of r before it changed, as passed to the device */
    for (PetscInt test = 0; test < 5; test++) {
      PetscCall(Begin(problem, side));
      step->unreported = (PetscBool)(test != 1);
      bounds.low       = test == 1 || test == 2 ? 2 * rnorm + 1 : -1.0;
      bounds.high      = test == 3 ? rnorm / 2 : PETSC_MAX_REAL;
      if (test == 4) PetscCall(VecSet(x, 0.0));
      if (test == 2 || test == 3) {
        PetscCall(CheckStop(check, problem, side, call, &bounds, &outcome));
        norm    = outcome.rnorm;
        stopped = outcome.stopped;
      } else PetscCall(ProjectAndFollow(problem, side, step, &bounds, &norm, &stopped));
      if (step->unreported)
        PetscCall(
          ExpectCall(check, (PetscBool)(norm == rnorm), problem, side, call, "norm, test", test, (double)norm, (double)rnorm));
      /* it continues, unless the recurrence cannot, for example without rows */
      PetscCall(ExpectCall(check, (PetscBool)(stopped == (test < 2 ? stops : PETSC_TRUE)), problem, side, call, "stopped, test",
                           test, stopped, stops));
      PetscCall(IDRSQueueEnd(IDRSGroupOfOne(work)));
    }
    if (problem->n) {
      PetscCall(SetNumbers(problem, side));
      PetscCall(Load(problem, 1, side));
      PetscCall(VecSet(x, NAN));
      PetscCall(ProjectAndFollow(problem, side, step, &bounds, &norm, &stopped));
      PetscCall(ExpectCall(check, stopped, problem, side, call, "did not stop for NaN", 0, 0.0, 0.0));
    }
  }
  PetscCall(SetNumbers(problem, side));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Compares a whole cycle with the sums of the table, and checks that a product has one reduction. A preconditioner between v and u
   adds these vectors: v is written and read in each of the s steps, U is read again for step 0, and p is read. A diagonal is read
   in each step and for the omega step, and p is written.
*/
static PetscErrorCode TestCycle(Check *check, Problem *problem, Side *side, PetscBool preconditioned, PetscBool diagonal)
{
  const PetscInt  s    = problem->s;
  const Call      call = {.preconditioned = preconditioned, .diagonal = diagonal};
  const PetscBool none = (PetscBool)!preconditioned;
  IDRSWorkspace   work = side->work;
  PetscLogDouble  vectors, reductions, allreduces, expected;

  PetscFunctionBegin;
  PetscCall(Load(problem, 1, side));
  vectors              = -Vectors(work);
  reductions           = -work->reductions;
  allreduces           = -Allreduces();
  work->preconditioned = (PetscBool)(preconditioned || diagonal);
  work->diagonal       = diagonal ? side->x[Single(problem, D)] : NULL;
  for (PetscInt k = 0; k < s; k++) {
    const PetscBool next = (PetscBool)(k + 1 < s);
    const IDRSStep  step = {.k = k, .wantv = (PetscBool)(next || diagonal), .wantu = (PetscBool)(next && none)};

    if (preconditioned) PetscCall(IDRSCombine(IDRSGroupOfOne(work), &(IDRSStep){.k = k, .wantu = PETSC_TRUE}));
    PetscCall(Project(work, &step));
    PetscCall(IDRSUpdate(IDRSGroupOfOne(work), &step));
  }
  PetscCall(Project(work, &(IDRSStep){.k = s}));
  PetscCall(IDRSAdvance(IDRSGroupOfOne(work), &(IDRSStep){.k = s, .wantv = PETSC_TRUE, .wantu = none}));
  vectors += Vectors(work);
  reductions += work->reductions;
  allreduces += Allreduces();
  expected = !work->passes->device ? 0 : 2 * s * s + (preconditioned ? 11 * s + 5 : (diagonal ? 9 * s + 6 : 8 * s + 4));
  PetscCall(ExpectCall(check, (PetscBool)(vectors == expected), problem, side, call, "vectors of a cycle", 0, vectors, expected));
  expected = s + 1;
  PetscCall(ExpectCall(check, (PetscBool)(reductions == expected), problem, side, call, "reductions counted in a cycle", 0,
                       reductions, expected));
  if (work->size == 1 || PetscDefined(USE_DEBUG) || !PetscDefined(USE_LOG)) expected = 0;
  PetscCall(ExpectCall(check, (PetscBool)(allreduces == expected), problem, side, call, "reductions made in a cycle", 0, allreduces,
                       expected));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SideCreate(const Problem *problem, KSPIDRSImplementation implementation, Vec P[], Side *side)
{
  const PetscInt s = problem->s;

  PetscFunctionBegin;
  PetscCall(IDRSWorkspaceCreate(problem->like, s, P, implementation, 1, &side->work));
  PetscCall(IDRSWorkspaceConnect(IDRSGroupOfOne(side->work), KSP_IDRS_COMMUNICATION_AUTO, PETSC_FALSE));
  PetscCall(IDRSWorkspaceSetSeed(side->work, 3));
  side->P       = P;
  side->scalars = &side->work->scalars;
  PetscCall(SetNumbers(problem, side));
  PetscCall(PetscMalloc1(problem->count, &side->x));
  for (PetscInt j = 0; j < s; j++) {
    side->x[InG(problem, j)] = side->work->G[j];
    side->x[InU(problem, j)] = side->work->U[j];
  }
  for (PetscInt j = 0; j < SINGLES; j++) PetscCall(VecDuplicate(problem->like, &side->x[Single(problem, j)]));
  PetscCall(IDRSWorkspaceSetVecs(side->work, side->x[Single(problem, R)], side->x[Single(problem, Z)], side->x[Single(problem, V)],
                                 side->x[Single(problem, T)]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode SideDestroy(const Problem *problem, Side *side)
{
  PetscFunctionBegin;
  for (PetscInt j = 0; j < SINGLES; j++) PetscCall(VecDestroy(&side->x[Single(problem, j)]));
  PetscCall(PetscFree(side->x));
  PetscCall(IDRSWorkspaceDestroy(1, &side->work));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ProblemCreate(PetscInt s, PetscInt n, Problem *problem)
{
  const PetscInt count = 2 * s + SINGLES, storage = s * (s + 4) + 1;

  PetscFunctionBegin;
  problem->s     = s;
  problem->n     = n;
  problem->count = count;
  PetscCall(VecCreateRows(n, &problem->like));
  PetscCall(VecGetOwnershipRange(problem->like, &problem->rstart, NULL));
  PetscCall(PetscMalloc5(count * n, &problem->given, n, &problem->poison, count * n, &problem->first, storage, &problem->storage,
                         IDRS_SUMS(s, 1), &problem->firstsums));
  PetscCall(PetscMalloc4(count * n, &problem->value, count * n, &problem->size, IDRS_SUMS(s, 1), &problem->sums, IDRS_SUMS(s, 1),
                         &problem->sumsize));
  PetscCall(PetscMalloc3(count, &problem->reads, count, &problem->writes, count, &problem->scratch));
  for (PetscInt i = 0; i < n; i++) {
    problem->poison[i] = (PetscReal)NAN;
    for (PetscInt j = 0; j < count; j++) problem->given[i + j * n] = Number(j, problem->rstart + i);
  }
  for (PetscInt i = 0; i < storage; i++) problem->storage[i] = Number(1000, i);
  /* M is lower triangular, with a diagonal that is safe to divide by */
  for (PetscInt j = 0; j < s; j++) {
    for (PetscInt i = 0; i < j; i++) problem->storage[i + j * s] = 0.0;
    problem->storage[j + j * s] += 2.0;
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ProblemDestroy(Problem *problem)
{
  PetscFunctionBegin;
  PetscCall(PetscFree3(problem->reads, problem->writes, problem->scratch));
  PetscCall(PetscFree4(problem->value, problem->size, problem->sums, problem->sumsize));
  PetscCall(PetscFree5(problem->given, problem->poison, problem->first, problem->storage, problem->firstsums));
  PetscCall(VecDestroy(&problem->like));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Tests all calls of combine, update and advance that the solver could make; they do not depend on the shadow space */
static PetscErrorCode TestBases(Check check[], Problem *problem, Side *side)
{
  const PetscInt s = problem->s;
  Call           call;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < 2 * (s + 1); i++) {
    const PetscBool diagonal = (PetscBool)(i % 2);
    const PetscInt  k        = i / 2;

    if (k == s) {
      PetscCall(TestCall(&check[COMBINE], problem, side, MakeCall(COMBINE, s, 0, 0, diagonal)));
      for (PetscInt part = 0; part < 3; part++)
        PetscCall(TestCall(&check[ADVANCE], problem, side, MakeCall(ADVANCE, s, 0, part < 2 ? part : NOTHING, diagonal)));
      continue;
    }
    /* u without v follows a preconditioner, but no diagonal */
    for (PetscInt part = 0; part < (diagonal ? 2 : 3); part++)
      PetscCall(TestCall(&check[COMBINE], problem, side, MakeCall(COMBINE, k, 0, part, diagonal)));
    for (PetscInt start = 0; start < 2; start++) {
      if (!diagonal) PetscCall(TestCall(&check[UPDATE], problem, side, MakeCall(UPDATE, k, start, NOTHING, diagonal)));
      /* with a diagonal also v for the omega step */
      for (PetscInt part = 0; part < (k + 1 < s ? 2 : (start || !diagonal ? 0 : 1)); part++)
        PetscCall(TestCall(&check[UPDATE], problem, side, MakeCall(UPDATE, k, start, part, diagonal)));
    }
  }
  for (PetscInt part = 0; part < 2; part++) {
    call                = MakeCall(ADVANCE, s, 0, part ? 0 : NOTHING, PETSC_FALSE);
    call.preconditioned = PETSC_TRUE;
    PetscCall(TestCall(&check[ADVANCE], problem, side, call));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Tests one s with n rows on this process */
static PetscErrorCode Test(PetscInt s, PetscInt n, KSPIDRSImplementation implementation, Check check[])
{
  Problem problem;
  Side    side;
  Vec    *P;

  PetscFunctionBegin;
  PetscCall(ProblemCreate(s, n, &problem));
  PetscCall(VecDuplicateVecs(problem.like, s, &P));
  for (PetscInt j = 0; j < s; j++) PetscCall(VecSetNumbers(P[j], 500 + j, PETSC_TRUE));
  for (PetscInt hashed = 1; hashed >= 0; hashed--) {
    if (!hashed && implementation != KSP_IDRS_VEC) continue; /* only vec has explicit shadow vectors */
    PetscCall(SideCreate(&problem, implementation, hashed ? NULL : P, &side));
    for (PetscInt k = 0; k <= s; k++)
      PetscCall(TestCall(&check[PROJECT], &problem, &side, MakeCall(PROJECT, k, 0, NOTHING, PETSC_FALSE)));
    for (PetscInt k = 0; k < s; k++)
      PetscCall(TestCall(&check[PROJECT], &problem, &side, MakeCall(PROJECT, k, 1, NOTHING, PETSC_FALSE)));
    if (hashed) PetscCall(TestBases(check, &problem, &side));
    PetscCall(TestCycle(&check[OPERATIONS], &problem, &side, PETSC_FALSE, PETSC_FALSE));
    PetscCall(TestCycle(&check[OPERATIONS], &problem, &side, PETSC_TRUE, PETSC_FALSE));
    PetscCall(TestCycle(&check[OPERATIONS], &problem, &side, PETSC_FALSE, PETSC_TRUE));
    side.work->diagonal = NULL;
    if (side.work->queue && side.work->size == 1) {
      PetscCall(TestOnDevice(&check[OPERATIONS], &problem, &side, PETSC_FALSE));
      PetscCall(TestOnDevice(&check[OPERATIONS], &problem, &side, PETSC_TRUE));
    }
    PetscCall(SideDestroy(&problem, &side));
  }
  for (PetscInt j = 0; j < s; j++) {
    const PetscScalar *array;
    PetscBool          same = PETSC_TRUE;

    PetscCall(VecGetArrayRead(P[j], &array));
    for (PetscInt i = 0; i < n; i++) same = (PetscBool)(same && array[i] == Number(500 + j, problem.rstart + i));
    PetscCall(VecRestoreArrayRead(P[j], &array));
    PetscCall(Expect(&check[PROJECT], same, "explicit shadow vector %" INT " was changed", j));
  }
  PetscCall(VecDestroyVecs(s, &P));
  PetscCall(ProblemDestroy(&problem));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscInt columns[MAX_LIST] = {1, 2, 3, 4, 8, 16, 19}, rows[MAX_LIST] = {0, 1, 31, 32, 33, 1000, 1023, 1024, 1025, 2049},
           spaces = 7, sizes = 10;
  KSPIDRSImplementation back                  = KSP_IDRS_VEC;
  Check                 check[OPERATIONS + 1] = {
    {.name = "combine"}, {.name = "project"}, {.name = "update"}, {.name = "advance"}, {.name = "cycle"}};
  PetscMPIInt rank, size;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(RankAndSize(&rank, &size));
  PetscCall(BackEndFromOptions(&back)); /* vec, or vec and another one */
  PetscCall(ListFromOptions("-columns", MAX_LIST, columns, &spaces));
  PetscCall(ListFromOptions("-rows", MAX_LIST, rows, &sizes));
  for (PetscInt l = 0; l < spaces; l++) {
    /* A different number of rows on every process, so that each is empty once; then all are empty at once */
    for (PetscInt i = 0; i < sizes + (size > 1 ? 1 : 0); i++) {
      const PetscInt n = i < sizes ? rows[(i + rank) % sizes] : 0;

      PetscCall(Test(columns[l], n, KSP_IDRS_VEC, check));
      if (back != KSP_IDRS_VEC) PetscCall(Test(columns[l], n, back, check));
    }
  }
  for (PetscInt i = 0; i <= OPERATIONS; i++) PetscCall(CheckVerdict(&check[i]));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

   test:
     suffix: 1
     nsize: {{1 3}}

   test:
     suffix: large
     args: -columns 3 -rows 1000007
     output_file: output/ops_passes_1.out

   test:
     suffix: packs
     args: -columns 2,5,16 -rows 70001
     output_file: output/ops_passes_1.out

TEST*/
