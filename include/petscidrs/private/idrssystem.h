/*
   IDR(s) for one system, a diagonal block of a matrix, by one team: the threads of a thread block on a GPU, one thread on the host

     A    the entries of rows first ... first + n - 1 in these columns; other entries do not belong to the system
     B    a diagonal, on the right; NULL for the identity
     x    0 at first, then the best verified iterate
     y    x + z, the iterate at the last omega step; the present one is y + U(:,0:columns) beta

   The steps are as in idrscycle.c, with the algebra of idrsscalars.h, and the hashed shadow space with rows counted from the
   first row of the system. So the bits of a solution do not depend on the place of the system in the matrix. A member of the team
   has the same rows in all passes. It reads rows of other members only in products, between two barriers.

   A recurrence ends if its residual meets the tolerance, if it breaks down, if the residual grows beyond the limit, or if the
   residual stagnates. Then b - A x is computed. If b - A x does not meet the tolerance, another recurrence starts from the better
   x, with the next seed. x of a system that has failed is infinite, so that a solver around the preconditioner notices it.

   The file that includes this file must define its team:

     IDRS_TEAM_FUNCTION                      specifiers of these functions
     IDRS_TEAM_ROWS                          consecutive rows that a member computes at once
     IDRS_TEAM_ENTRIES                       entries of a row that it loads at once
     IDRSTeamIndex                           type of the row offsets and columns of the matrix
     IDRSTeam                                type that identifies a team
     IDRSTeamMember(team)                    number of this thread in the team
     IDRSTeamMembers(team)                   number of members
     IDRSTeamSync(team)                      a barrier of all members
     IDRSTeamSum(team, part, count, sums)    adds up the parts of all members, and overwrites them; the lanes of the first warp
                                             have the sums after a barrier of the warp, all members after a barrier of the team

   Each member has its own IDRSSystem, limits and results, with the same contents. No PETSc call: compiled for host and device.
*/
#pragma once

#include <petscidrs/private/idrsloops.h>
#include <petscidrs/private/idrssystemlimits.h>

/* If the norm of b is smaller, b is scaled, once or twice, because squares of residuals would lose digits or underflow */
#define IDRS_SYSTEM_SMALL_NORM (PetscSqrtReal(1 / (PETSC_MAX_REAL * PETSC_MACHINE_EPSILON)) / PETSC_MACHINE_EPSILON)
#define IDRS_SYSTEM_SCALE      (PetscSqrtReal(PETSC_MAX_REAL) * PETSC_MACHINE_EPSILON)

/* Loops over the rows of this member, b ... b + m - 1 at a time */
#define IDRS_FOR_MY_ROWS(b, m, system) \
  for (PetscInt b = IDRS_TEAM_ROWS * IDRSTeamMember((system)->team), m; \
       b < (system)->A.n && ((m = IDRS_TEAM_ROWS == 1 ? 1 : PetscMin(IDRS_TEAM_ROWS, (system)->A.n - b)), 1); \
       b += IDRS_TEAM_ROWS * IDRSTeamMembers((system)->team))

typedef struct {
  PetscInt             first, n;
  const IDRSTeamIndex *i, *j; /* of the whole matrix */
  const PetscScalar   *a;
  const PetscScalar   *inverse; /* diagonal of B^{-1}, of the whole matrix, or NULL */
} IDRSSystemMatrix;

/* Data in the shared memory of the team */
typedef struct {
  PetscScalar storage[IDRS_STORAGE(IDRS_SYSTEM_MAX_S)];
  PetscScalar square;
  PetscReal   norm;
  IDRSVerdict why;
} IDRSSystemWorkspace;

/*
   The end of a recurrence: the reason, or IDRS_CONTINUES at the limit of iterations or if it stagnates, and the columns of U of the
   iterate
*/
typedef struct {
  IDRSVerdict why;
  PetscInt    columns;
  PetscBool   ontrial; /* the start has broken down: beta includes c, which is removed if it does not make b - A x smaller */
  PetscReal   norm;    /* of r, without a c on trial */
} IDRSSystemOutcome;

/* The system of a member of the team */
typedef struct {
  IDRSTeam                team;
  IDRSSystemMatrix        A;
  const IDRSSystemLimits *limits;
  const PetscScalar      *b;
  PetscScalar            *x, *y;
  PetscScalar            *G, *U, *r, *v, *t; /* shared by the team; G and U have s columns of n entries */
  IDRSSystemWorkspace    *work;
  IDRSScalars             scalars;
  uint64_t                key;   /* of the shadow space */
  PetscReal               scale; /* of b, and of x until the end */
} IDRSSystem;

/* Entries of the bases and vectors of a system per row */
#define IDRS_SYSTEM_ENTRIES(s) (2 * (s) + 3)

IDRS_TEAM_FUNCTION void IDRSSystemSetBases(IDRSSystem *system, PetscInt s, PetscScalar *memory)
{
  system->G = memory;
  system->U = system->G + s * system->A.n;
  system->r = system->U + s * system->A.n;
  system->v = system->r + system->A.n;
  system->t = system->v + system->A.n;
}

/* Returns the norm of a vector; part: sum of squares of the rows of this member */
IDRS_TEAM_FUNCTION PetscReal IDRSSystemNorm(const IDRSSystem *system, PetscReal part)
{
  PetscScalar square = part;

  IDRSTeamSum(system->team, &square, 1, &system->work->square);
  IDRSTeamSync(system->team);
  return PetscSqrtReal(PetscRealPart(system->work->square));
}

/* Returns entry i of A u. No load is in a branch, so that IDRS_TEAM_ENTRIES loads are in flight at once */
IDRS_TEAM_FUNCTION PetscScalar IDRSSystemRow(const IDRSSystemMatrix *A, PetscInt i, const PetscScalar u[])
{
  const IDRSTeamIndex begin = A->i[A->first + i], end = A->i[A->first + i + 1];
  PetscScalar         sum = 0.0;

  for (IDRSTeamIndex l = begin; l < end; l += IDRS_TEAM_ENTRIES) {
    PetscInt    columns[IDRS_TEAM_ENTRIES];
    PetscScalar values[IDRS_TEAM_ENTRIES];

    for (int k = 0; k < IDRS_TEAM_ENTRIES; k++) {
      const IDRSTeamIndex place = PetscMin(l + k, end - 1);

      columns[k] = A->j[place] - A->first;
      values[k]  = A->a[place];
    }
    for (int k = 0; k < IDRS_TEAM_ENTRIES; k++) {
      if (l + k < end && columns[k] >= 0 && columns[k] < A->n) sum += values[k] * u[columns[k]];
    }
  }
  return sum;
}

/*
   Computes the direction of step k: U_k = omega B^{-1}v + U(:,k:s) c, but u = B^{-1}v in the start and in the omega step. The omega
   step of the start also sets r = v = r - G c
*/
IDRS_TEAM_FUNCTION void IDRSSystemDirection(const IDRSSystem *system, PetscInt s, PetscInt k, PetscBool start, PetscScalar u[])
{
  const IDRSScalars *scalars = &system->scalars;
  const PetscInt     n = system->A.n, low = start ? 0 : k, high = start ? k : s;
  PetscScalar        v[IDRS_TEAM_ROWS];

  IDRS_FOR_MY_ROWS(b, m, system)
  {
    PetscScalar *r = system->r + b, *ub = u + b;

    /* v = r - G(:,0:k) c in the start, v = r - G(:,k:s) c after it */
    for (PetscInt i = 0; i < m; i++) v[i] = r[i];
    IDRSLoopAdd(m, v, -1.0, high - low, scalars->c + low, system->G + low * n + b, n);
    for (PetscInt i = 0; start && k == s && i < m; i++) r[i] = v[i];
    for (PetscInt i = 0; system->A.inverse && i < m; i++) v[i] = system->A.inverse[system->A.first + b + i] * v[i];
    if (start || k == s) {
      for (PetscInt i = 0; i < m; i++) ub[i] = v[i];
    } else {
      for (PetscInt i = 0; i < m; i++) ub[i] = scalars->omega[0] * v[i] + scalars->c[k] * ub[i];
      IDRSLoopAdd(m, ub, 1.0, s - k - 1, scalars->c + k + 1, system->U + (k + 1) * n + b, n);
    }
  }
}

/*
   Computes x = A u and the sums of the step; in the start and in the omega step also the sums with r. rr is the part of r^H r of
   this member
*/
IDRS_TEAM_FUNCTION void IDRSSystemProject(const IDRSSystem *system, PetscInt s, PetscBool withr, PetscReal rr,
                                          const PetscScalar u[], PetscScalar x[])
{
  const PetscScalar *r = system->r;
  PetscScalar        part[IDRS_SUMS(IDRS_SYSTEM_MAX_S, 1)];
  uint32_t           z0[IDRS_TEAM_ROWS], z1[IDRS_TEAM_ROWS];

  for (PetscInt j = 0; j < IDRS_SUMS(s, 1); j++) part[j] = 0.0;
  IDRS_FOR_MY_ROWS(b, m, system)
  {
    for (PetscInt i = b; i < b + m; i++) x[i] = IDRSSystemRow(&system->A, i, u);
    IDRSLoopShadowRows(m, system->key, (uint64_t)b, z0, z1);
    IDRSLoopAddShadowSums(m, s, z0, z1, x + b, r + b, withr, part);
    IDRSLoopAddSquares(m, s, x + b, r + b, withr, part);
  }
  IDRSLoopScaleSums(s, withr, part);
  part[IDRS_SUM_RR(s)] = rr;
  IDRSTeamSum(system->team, part, IDRS_SUMS(s, withr), system->scalars.sums);
}

/* Computes beta += sign c for the columns of a start that has broken down; r - G c is orthogonal to p_0 ... p_{columns-1} */
IDRS_TEAM_FUNCTION void IDRSSystemCombineStart(IDRSSystem *system, PetscInt columns, PetscReal sign)
{
  if (IDRSTeamMember(system->team) == IDRS_LANE) {
    if (sign > 0.0) IDRSScalarsCombine(&system->scalars, 0);
    for (PetscInt j = IDRS_LANE; j < columns; j += IDRS_LANES) system->scalars.beta[j] += sign * system->scalars.c[j];
  }
}

/* Computes the norm whose square is one of the sums, and decides about it */
IDRS_TEAM_FUNCTION IDRSVerdict IDRSSystemDecideNorm(const IDRSSystem *system, PetscInt sum, const IDRSBounds *bounds,
                                                    PetscReal *norm)
{
  *norm = PetscSqrtReal(PetscRealPart(system->scalars.sums[sum]));
  return IDRSIsFinite(*norm) ? IDRSDecideNorm(*norm, bounds) : IDRS_NOT_FINITE;
}

/*
   Computes ||r|| from the sums of a step, and the coefficients, or the reason why the recurrence ends. The first warp, or the only
   thread, computes them, and the other warps wait at one barrier.

   The omega step of the start has changed r to r - G c. Both norms are tested: the first one because c may enlarge r, and the
   second one because r - G c = 0 if there are only s rows. If it ends after the first test, beta includes c
*/
IDRS_TEAM_FUNCTION void IDRSSystemContinue(IDRSSystem *system, PetscInt s, const IDRSStep *step, const IDRSBounds *bounds,
                                           IDRSSystemOutcome *outcome)
{
  if (IDRSTeamMember(system->team) == IDRS_LANE) {
    PetscBool   changed;
    PetscReal   norm, rr;
    IDRSVerdict why;

    IDRS_SYNC_WARP();
    why     = IDRSSystemDecideNorm(system, IDRS_SUM_RR(s), bounds, &norm);
    changed = (PetscBool)(why == IDRS_CONTINUES && step->start && step->k == s);
    if (changed) why = IDRSSystemDecideNorm(system, IDRS_SUM_YY(s), bounds, &norm);
    if (why == IDRS_CONTINUES) why = IDRSScalarsContinue(&system->scalars, step->k, step->start, bounds->cosine, &rr);
    /* an infinite sum or NaN also yields a breakdown, so the sums are tested only after a breakdown */
    if (IDRSIsBreakdown(why) && !IDRS_AND_LANES(IDRSScalarsAreFinite(&system->scalars, IDRSStepHasY(step, s), PETSC_TRUE)))
      why = IDRS_NOT_FINITE;
    if (changed && why != IDRS_CONTINUES) IDRSSystemCombineStart(system, s, 1.0);
    if (IDRS_LANE == 0) {
      system->work->norm = norm;
      system->work->why  = why;
    }
  }
  IDRSTeamSync(system->team);
  outcome->norm = system->work->norm;
  outcome->why  = system->work->why;
}

/* Updates G_k, U_k and r after step k. Returns the part of r^H r of this member */
IDRS_TEAM_FUNCTION PetscReal IDRSSystemUpdate(const IDRSSystem *system, PetscInt k, PetscBool start)
{
  const IDRSScalars *scalars = &system->scalars;
  const PetscInt     n       = system->A.n;
  PetscReal          rr      = 0.0;

  IDRS_FOR_MY_ROWS(b, m, system)
  {
    PetscScalar *G = system->G + b, *U = system->U + b, *r = system->r + b;

    /* r -= beta_k G_k, with the new G_k except in the start */
    if (start) IDRSLoopAdd(m, r, -1.0, 1, scalars->beta + k, G + k * n, n);
    IDRSLoopAdd(m, G + k * n, -1.0, k, scalars->alpha, G, n); /* G_k -= G(:,0:k) alpha */
    IDRSLoopAdd(m, U + k * n, -1.0, k, scalars->alpha, U, n); /* U_k -= U(:,0:k) alpha */
    if (!start) IDRSLoopAdd(m, r, -1.0, 1, scalars->beta + k, G + k * n, n);
    rr += IDRSLoopSquare(m, r);
  }
  return rr;
}

/* Updates y and r after an omega step, with v = B^{-1}r. Returns the part of r^H r of this member */
IDRS_TEAM_FUNCTION PetscReal IDRSSystemAdvance(const IDRSSystem *system)
{
  const IDRSScalars *scalars = &system->scalars;
  const PetscInt     n       = system->A.n;
  PetscReal          rr      = 0.0;

  IDRS_FOR_MY_ROWS(b, m, system)
  {
    /* y += omega v + U beta, r -= omega t */
    IDRSLoopAdd(m, system->y + b, 1.0, 1, scalars->omega, system->v + b, n);
    IDRSLoopAdd(m, system->y + b, 1.0, scalars->s, scalars->beta, system->U + b, n);
    IDRSLoopAdd(m, system->r + b, -1.0, 1, scalars->omega, system->t + b, n);
    rr += IDRSLoopSquare(m, system->r + b);
  }
  return rr;
}

/* Computes v = y + U(:,0:columns) beta and t = b - A v. Returns ||t|| */
IDRS_TEAM_FUNCTION PetscReal IDRSSystemTrueResidual(const IDRSSystem *system, PetscInt columns)
{
  const PetscInt n  = system->A.n;
  PetscReal      tt = 0.0;

  IDRSTeamSync(system->team);
  IDRS_FOR_MY_ROWS(b, m, system)
  {
    for (PetscInt i = b; i < b + m; i++) system->v[i] = system->y[i];
    IDRSLoopAdd(m, system->v + b, 1.0, columns, system->scalars.beta, system->U + b, n);
  }
  IDRSTeamSync(system->team);
  IDRS_FOR_MY_ROWS(b, m, system)
  {
    for (PetscInt i = b; i < b + m; i++) system->t[i] = system->scale * system->b[i] - IDRSSystemRow(&system->A, i, system->v);
    tt += IDRSLoopSquare(m, system->t + b);
  }
  return IDRSSystemNorm(system, tt);
}

/*
   Keeps the first columns of a start that has broken down. The other columns are zero until the first cycle computes them. beta is
   zero, because the iterate has been accepted
*/
IDRS_TEAM_FUNCTION void IDRSSystemResetColumns(IDRSSystem *system, PetscInt s, PetscInt kept)
{
  const PetscInt n = system->A.n;

  if (IDRSTeamMember(system->team) == 0) {
    IDRSScalarsResetColumns(&system->scalars, kept);
    for (PetscInt j = 0; j < s; j++) system->scalars.beta[j] = 0.0;
  }
  IDRS_FOR_MY_ROWS(b, m, system)
  {
    for (PetscInt j = kept; j < s; j++) {
      for (PetscInt i = j * n + b; i < j * n + b + m; i++) system->G[i] = system->U[i] = 0.0;
    }
  }
}

/*
   Returns PETSC_TRUE if a recurrence ends because the last `its` iterations have not halved ||r||. In exact arithmetic IDR(s)
   needs n + n/s iterations. Few of the real systems that it solves stagnate for more than ten times as long. Without a convergence
   test no recurrence ends in this way
*/
IDRS_TEAM_FUNCTION PetscBool IDRSSystemStagnates(const IDRSSystemLimits *limits, PetscInt n, PetscInt s, PetscInt its)
{
  return limits->rtol >= 0.0 && its / 16 > n + n / s ? PETSC_TRUE : PETSC_FALSE;
}

/*
   Runs a recurrence from the present r to its end. `its` counts the completed iterations. With kept = 0 the recurrence begins with
   a start. With kept > 0 a start has broken down after `kept` columns, and the recurrence begins with an omega step, see
   KSPIDRSContinueStart_Private()
*/
IDRS_TEAM_FUNCTION IDRSSystemOutcome IDRSSystemRecurrence(IDRSSystem *system, PetscInt s, PetscInt kept, const IDRSBounds *bounds,
                                                          IDRSSystemResult *result)
{
  const PetscInt    n       = system->A.n;
  IDRSSystemOutcome outcome = {IDRS_CONTINUES, 0, PETSC_FALSE, 0.0};
  IDRSStep          step    = {0, PETSC_TRUE, PETSC_FALSE, PETSC_FALSE, PETSC_FALSE, PETSC_FALSE};
  PetscReal         rr = 0.0, least = result->norm;
  PetscInt          progress = result->its; /* the iteration that has halved ||r|| last */

  /* M = I, or the kept columns */
  if (kept) {
    step.k     = s;
    step.start = PETSC_FALSE;
    IDRSSystemResetColumns(system, s, kept);
  } else if (IDRSTeamMember(system->team) == 0) IDRSScalarsResetColumns(&system->scalars, 0);
  IDRS_FOR_MY_ROWS(b, m, system) rr += IDRSLoopSquare(m, system->r + b);
  IDRSTeamSync(system->team);
  while (result->its < system->limits->maxits && !IDRSSystemStagnates(system->limits, n, s, result->its - progress)) {
    const PetscInt  k     = step.k;
    const PetscBool omega = (PetscBool)(k == s);
    PetscScalar    *u = omega ? system->v : system->U + k * n, *x = omega ? system->t : system->G + k * n;

    IDRSSystemDirection(system, s, k, step.start, u);
    IDRSTeamSync(system->team);
    IDRSSystemProject(system, s, IDRSStepHasY(&step, s), rr, u, x);
    result->products++;
    IDRSSystemContinue(system, s, &step, bounds, &outcome);
    outcome.columns = k;
    if (outcome.why != IDRS_CONTINUES) break;
    if (outcome.norm <= (PetscReal)0.5 * least) {
      least    = outcome.norm;
      progress = result->its;
    }
    result->its++;
    rr = omega ? IDRSSystemAdvance(system) : IDRSSystemUpdate(system, k, step.start);
    IDRSStepNext(&step, s);
    outcome.columns = step.k;
  }
  outcome.ontrial = (PetscBool)(IDRSIsBreakdown(outcome.why) && IDRSStartIsKept(step.start, step.k, s));
  if (outcome.ontrial) IDRSSystemCombineStart(system, outcome.columns, 1.0);
  return outcome;
}

/* Verifies the iterate of a recurrence, and keeps the better of x and this iterate. Returns ||b - A x|| */
IDRS_TEAM_FUNCTION PetscReal IDRSSystemCheckTrueResidual(IDRSSystem *system, const IDRSSystemOutcome *outcome, PetscReal before,
                                                         IDRSSystemResult *result)
{
  PetscReal norm = IDRSSystemTrueResidual(system, outcome->columns);

  result->products++;
  /* c has not made the residual smaller: remove it */
  if (outcome->ontrial && !(norm <= outcome->norm)) {
    IDRSSystemCombineStart(system, outcome->columns, -1.0);
    norm = IDRSSystemTrueResidual(system, outcome->columns);
    result->products++;
  }
  /* x is better than the iterate of this recurrence */
  if (!(norm <= before)) {
    IDRS_FOR_MY_ROWS(b, m, system)
    {
      for (PetscInt i = b; i < b + m; i++) system->y[i] = system->x[i];
    }
    norm = IDRSSystemTrueResidual(system, 0);
    result->products++;
  }
  /* x = y = v and r = t = b - A v, for the next recurrence */
  IDRS_FOR_MY_ROWS(b, m, system)
  {
    for (PetscInt i = b; i < b + m; i++) {
      system->x[i] = system->y[i] = system->v[i];
      system->r[i]                = system->t[i];
    }
  }
  return norm;
}

/* Sets x = 0 and r = b, scaled if it is very small. Returns ||r|| */
IDRS_TEAM_FUNCTION PetscReal IDRSSystemBegin(IDRSSystem *system)
{
  PetscReal norm = 0.0;

  for (PetscInt attempt = 0; attempt < 3; attempt++) {
    PetscReal bb = 0.0;

    system->scale = attempt ? system->scale * IDRS_SYSTEM_SCALE : (PetscReal)1.0;
    IDRS_FOR_MY_ROWS(b, m, system)
    {
      for (PetscInt i = b; i < b + m; i++) {
        system->x[i] = system->y[i] = 0.0;
        system->r[i]                = system->scale * system->b[i];
      }
      bb += IDRSLoopSquare(m, system->r + b);
    }
    norm = IDRSSystemNorm(system, bb);
    if (!(norm < IDRS_SYSTEM_SMALL_NORM)) break;
  }
  return norm;
}

/* Returns the reason from the norm of b - A x and the number of iterations, or KSP_CONVERGED_ITERATING */
IDRS_TEAM_FUNCTION KSPConvergedReason IDRSSystemTest(const IDRSSystemLimits *limits, PetscReal begin, PetscReal tolerance,
                                                     PetscReal abstol, const IDRSSystemResult *result)
{
  const PetscBool test = (PetscBool)(limits->rtol >= 0.0);

  if (!(result->norm <= PETSC_MAX_REAL)) return KSP_DIVERGED_NANORINF;
  if (test && result->norm <= tolerance) return result->norm < abstol || begin == 0.0 ? KSP_CONVERGED_ATOL : KSP_CONVERGED_RTOL;
  if (result->norm == 0.0) return KSP_CONVERGED_HAPPY_BREAKDOWN;
  if (result->its >= limits->maxits) return test ? KSP_DIVERGED_ITS : KSP_CONVERGED_ITS;
  return KSP_CONVERGED_ITERATING;
}

/* Solves A x = b, and returns the result */
IDRS_TEAM_FUNCTION void IDRSSystemSolve(IDRSSystem *system, PetscInt s, IDRSSystemResult *result)
{
  const IDRSSystemLimits *limits      = system->limits;
  PetscInt                recurrences = 0, kept = 0;
  PetscReal               begin, abstol, tolerance;
  IDRSProgress            progress;

  IDRSScalarsSetPointers(&system->scalars, s, system->work->storage);
  system->scalars.pivotscale = IDRS_HASHED_PIVOTSCALE;
  begin                      = IDRSSystemBegin(system);
  /* b has been multiplied by the scale */
  abstol            = limits->abstol * system->scale;
  tolerance         = limits->rtol >= 0.0 ? PetscMax(limits->rtol * begin, abstol) : (PetscReal)-1.0;
  result->its       = 0;
  result->products  = 0;
  result->norm      = begin;
  result->reason    = IDRSSystemTest(limits, begin, tolerance, abstol, result);
  progress.least    = begin;
  progress.failures = 0;
  while (!result->reason) {
    /* if a residual grows by more than limits->growth, the digits of x are lost */
    const IDRSBounds  bounds = {tolerance, IDRSGrowthLimit(result->norm, limits->growth), limits->cosine};
    IDRSSystemOutcome outcome;

    if (!kept) system->key = IDRSShadowKey(limits->seed + (uint64_t)recurrences++);
    outcome      = IDRSSystemRecurrence(system, s, kept, &bounds, result);
    result->norm = IDRSSystemCheckTrueResidual(system, &outcome, result->norm, result);
    kept         = outcome.ontrial ? outcome.columns : 0;
    (void)IDRSProgressHalves(&progress, result->norm);
    result->reason = outcome.why == IDRS_NOT_FINITE ? KSP_DIVERGED_NANORINF
                                                    : IDRSSystemTest(limits, begin, tolerance, abstol, result);
    /* a recurrence that stagnates is long, and counts as four restarts without progress */
    if (outcome.why == IDRS_CONTINUES) progress.failures += 3;
    /* without a test a small residual suffices for a preconditioner */
    if (!result->reason && !kept && !IDRSProgressRestarts(&progress, (PetscBool)(outcome.why != IDRS_GROWTH), limits->maxrestarts))
      result->reason = limits->rtol < 0.0 && result->norm <= PETSC_SQRT_MACHINE_EPSILON * begin ? KSP_CONVERGED_HAPPY_BREAKDOWN
                                                                                                : KSP_DIVERGED_BREAKDOWN;
  }
  result->restarts = recurrences ? recurrences - 1 : 0;
  result->norm /= system->scale;
  if (system->scale == (PetscReal)1.0 && !IDRSSystemFails(limits, result->reason)) return;
  IDRS_FOR_MY_ROWS(b, m, system)
  {
    for (PetscInt i = b; i < b + m; i++)
      system->x[i] = IDRSSystemFails(limits, result->reason) ? (PetscScalar)INFINITY : system->x[i] / system->scale;
  }
}
