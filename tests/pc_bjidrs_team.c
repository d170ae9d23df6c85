static char help[] = "The solve of a block by a team of threads, as on a GPU, but on the host: right for every size of the team,\n\
with reproducible bits, also with a copy of the block in the memory of the team.\n\n";

#include "systems.h"
#include <pthread.h>

/* A member for each thread; one row at a time, so that the rows of the members are adjacent */
#define IDRS_TEAM_FUNCTION IDRS_INLINE
#define IDRS_TEAM_ROWS     1
#define IDRS_TEAM_ENTRIES  3
#define MOST_MEMBERS       8

typedef PetscInt IDRSTeamIndex;
typedef struct {
  PetscInt member, members;
} IDRSTeam;

static pthread_barrier_t barrier;
static PetscScalar       parts[MOST_MEMBERS][64];

static inline PetscInt IDRSTeamMember(IDRSTeam team)
{
  return team.member;
}

static inline PetscInt IDRSTeamMembers(IDRSTeam team)
{
  return team.members;
}

static inline void IDRSTeamSync(IDRSTeam team)
{
  (void)team;
  (void)pthread_barrier_wait(&barrier);
}

static void IDRSTeamSum(IDRSTeam team, PetscScalar part[], PetscInt count, PetscScalar sums[])
{
  for (PetscInt i = 0; i < count; i++) parts[team.member][i] = part[i];
  IDRSTeamSync(team);
  for (PetscInt i = 0; !team.member && i < count; i++) {
    sums[i] = 0.0;
    for (PetscInt j = 0; j < team.members; j++) sums[i] += parts[j][i];
  }
}

#include <petscidrs/private/idrsloops.h>
#include <petscidrs/private/idrssystem.h>

/* Input and output of a thread */
typedef struct {
  PetscInt         s;
  IDRSSystem       system;
  IDRSSystemResult result;
} Task;

static void *Solve(void *argument)
{
  Task *task = (Task *)argument;

  IDRSSystemSolve(&task->system, task->s, &task->result);
  return NULL;
}

/* Entries of a row */
#define WIDTH 5

/*
   Solves with the rows of A that begin at first, with so many threads, which must all find the same; packed: with a copy of the
   block
*/
static PetscErrorCode TeamSolve(Mat A, PetscInt first, PetscInt n, const PetscScalar inverse[], const IDRSSystemLimits *limits,
                                PetscInt count, PetscBool packed, const PetscScalar b[], PetscScalar x[], IDRSSystemResult *result)
{
  pthread_t       threads[MOST_MEMBERS];
  Task            tasks[MOST_MEMBERS];
  IDRSSystemWork  work;
  IDRSSystem      system = {.limits = limits, .b = b, .x = x, .work = &work};
  PetscScalar    *memory, *values;
  unsigned short *columns;
  PetscBool       done;
  PetscInt        N;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc3((IDRS_SYSTEM_ENTRIES(limits->s) + 1) * n, &memory, WIDTH * n, &values, WIDTH * n, &columns));
  system.A = (IDRSSystemMatrix){
    .first = first, .n = n, .inverse = inverse, .width = packed ? WIDTH : 0, .values = values, .columns = columns};
  IDRSSystemSetPanels(&system, limits->s, memory);
  system.y = memory + IDRS_SYSTEM_ENTRIES(limits->s) * n;
  PetscCall(MatGetRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &N, &system.A.i, &system.A.j, &done));
  PetscCheck(done, PETSC_COMM_SELF, PETSC_ERR_PLIB, "No rows");
  PetscCall(MatSeqAIJGetArrayRead(A, &system.A.a));
  PetscCheck(!pthread_barrier_init(&barrier, NULL, (unsigned int)count), PETSC_COMM_SELF, PETSC_ERR_SYS, "No barrier");
  for (PetscInt i = 0; i < count; i++) {
    tasks[i]             = (Task){.s = limits->s, .system = system};
    tasks[i].system.team = (IDRSTeam){i, count};
    PetscCheck(!pthread_create(&threads[i], NULL, Solve, &tasks[i]), PETSC_COMM_SELF, PETSC_ERR_SYS, "No thread");
  }
  for (PetscInt i = 0; i < count; i++)
    PetscCheck(!pthread_join(threads[i], NULL), PETSC_COMM_SELF, PETSC_ERR_SYS, "A thread does not end");
  (void)pthread_barrier_destroy(&barrier);
  *result = tasks[0].result;
  for (PetscInt i = 1; i < count; i++) {
    const IDRSSystemResult *other = &tasks[i].result;

    PetscCall(ComplainIf(other->reason != result->reason || other->its != result->its || other->products != result->products ||
                           other->restarts != result->restarts || (other->norm != result->norm && !PetscIsNanReal(result->norm)),
                         "%" INT " rows, member %" INT " of %" INT ": %s after %" INT " iterations, not %s after %" INT, n, i,
                         count, KSPConvergedReasons[other->reason], other->its, KSPConvergedReasons[result->reason], result->its));
  }
  PetscCall(MatSeqAIJRestoreArrayRead(A, &system.A.a));
  PetscCall(MatRestoreRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &N, &system.A.i, &system.A.j, &done));
  PetscCall(PetscFree3(memory, values, columns));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Computes ||b - A x|| and ||b|| of these rows */
static PetscErrorCode BlockNorms(Mat A, PetscInt first, PetscInt n, const PetscScalar b[], const PetscScalar x[], PetscReal *rnorm,
                                 PetscReal *bnorm)
{
  PetscReal rr = 0.0, bb = 0.0;

  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < n; i++) {
    PetscInt           count;
    const PetscInt    *columns;
    const PetscScalar *values;
    PetscScalar        r = b[i];

    PetscCall(MatGetRow(A, first + i, &count, &columns, &values));
    for (PetscInt l = 0; l < count; l++) {
      if (columns[l] >= first && columns[l] < first + n) r -= values[l] * x[columns[l] - first];
    }
    PetscCall(MatRestoreRow(A, first + i, &count, &columns, &values));
    rr += PetscSqr(PetscAbsScalar(r));
    bb += PetscSqr(PetscAbsScalar(b[i]));
  }
  *rnorm = PetscSqrtReal(rr);
  *bnorm = PetscSqrtReal(bb);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Blocks of these rows of a grid; the matrix has more rows on both sides */
static PetscErrorCode TestTeams(Mat A, const PetscScalar b[], const PetscScalar inverse[])
{
  const PetscInt ns[] = {1, 2, 7, 8, 31, 64, 300}, teams[] = {1, 2, 3, 8}, first = 17;

  PetscFunctionBeginUser;
  for (size_t in = 0; in < PETSC_STATIC_ARRAY_LENGTH(ns); in++) {
    for (size_t is = 0; is < SIZES; is++) {
      for (size_t it = 0; it < PETSC_STATIC_ARRAY_LENGTH(teams); it++) {
        const PetscInt   n      = ns[in];
        IDRSSystemLimits limits = {.rtol        = rtol,
                                   .abstol      = 0.0,
                                   .cosine      = 0.5,
                                   .growth      = PetscPowReal(PETSC_MACHINE_EPSILON, -0.75),
                                   .s           = sizes[is],
                                   .maxits      = 1000,
                                   .maxrestarts = 10,
                                   .seed        = it};
        IDRSSystemResult result, again;
        PetscScalar      x[300], y[300];
        PetscReal        rnorm, bnorm;
        PetscBool        same;

        PetscCall(TeamSolve(A, first, n, it % 2 ? inverse : NULL, &limits, teams[it], PETSC_FALSE, b + first, x, &result));
        PetscCall(BlockNorms(A, first, n, b + first, x, &rnorm, &bnorm));
        PetscCall(ComplainIf(result.reason <= 0 || !(rnorm <= 1.01 * rtol * bnorm),
                             "%" INT " rows, s = %" INT ", %" INT " members: %s, ||b - A x|| = %g of %g", n, sizes[is], teams[it],
                             KSPConvergedReasons[result.reason], (double)rnorm, (double)bnorm));
        PetscCall(TeamSolve(A, first, n, it % 2 ? inverse : NULL, &limits, teams[it], PETSC_TRUE, b + first, y, &again));
        PetscCall(PetscArraycmp(x, y, n, &same));
        PetscCall(ComplainIf(!same, "%" INT " rows, s = %" INT ", %" INT " members: another x with a copy of the block", n,
                             sizes[is], teams[it]));
      }
    }
  }
  PetscCall(Verdict("teams of threads"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A limit, a NaN in b and in A, a singular block, and a very small b, which is scaled */
static PetscErrorCode TestFailures(Mat A, const PetscScalar b[])
{
  const struct {
    const char        *what;
    KSPConvergedReason expected;
    PetscInt           maxits;
  } cases[] = {
    {"a limit",                    KSP_DIVERGED_ITS,       5   },
    {"a NaN in b",                 KSP_DIVERGED_NANORINF,  1000},
    {"a NaN in A",                 KSP_DIVERGED_NANORINF,  1000},
    {"two rows that are not zero", KSP_DIVERGED_BREAKDOWN, 1000},
    {"a very small b",             KSP_CONVERGED_RTOL,     1000},
  };
  const PetscInt first = 17, n = 300, row = first + 50;
  PetscInt       rows[300];
  PetscScalar    c[300], x[300];

  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < n; i++) rows[i] = first + 2 + i;
  for (PetscInt i = 0; i < (PetscInt)PETSC_STATIC_ARRAY_LENGTH(cases); i++) {
    for (PetscInt members = 1; members <= 8; members *= 2) {
      IDRSSystemLimits limits = {.rtol        = rtol,
                                 .abstol      = 0.0,
                                 .cosine      = 0.5,
                                 .growth      = PETSC_MAX_REAL,
                                 .s           = 4,
                                 .maxits      = cases[i].maxits,
                                 .maxrestarts = 3,
                                 .seed        = 0};
      IDRSSystemResult result;
      Mat              B;

      PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &B));
      PetscCall(PetscArraycpy(c, b, n));
      if (i == 1) c[100] = NAN;
      if (i == 2) {
        PetscCall(MatSetValue(B, row, row, NAN, INSERT_VALUES));
        PetscCall(MatAssemble(B));
      }
      if (i == 3) PetscCall(MatZeroRows(B, n - 2, rows, 0.0, NULL, NULL));
      for (PetscInt l = 0; i == 4 && l < n; l++) c[l] *= PetscPowReal(PETSC_MAX_REAL, -0.6);
      PetscCall(TeamSolve(B, first, n, NULL, &limits, members, (PetscBool)(members % 4 == 0), c, x, &result));
      PetscCall(ComplainIf(result.reason != cases[i].expected,
                           "%s, %" INT " members: %s after %" INT " iterations and %" INT " restarts", cases[i].what, members,
                           KSPConvergedReasons[result.reason], result.its, result.restarts));
      if (i == 3) PetscCall(ComplainIf(result.restarts < 1, "%s, %" INT " members: no restart", cases[i].what, members));
      PetscCall(MatDestroy(&B));
    }
  }
  PetscCall(Verdict("failures"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  const PetscScalar *b, *inverse;
  Mat                A;
  Vec                rhs, diagonal;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(SystemCreateGrid(PETSC_COMM_SELF, 19, 0.4, LAYOUT_EVEN, &A, &rhs));
  PetscCall(VecDuplicate(rhs, &diagonal));
  PetscCall(MatGetDiagonal(A, diagonal));
  PetscCall(VecReciprocal(diagonal));
  PetscCall(VecGetArrayRead(rhs, &b));
  PetscCall(VecGetArrayRead(diagonal, &inverse));
  PetscCall(TestTeams(A, b, inverse));
  PetscCall(TestFailures(A, b));
  PetscCall(VecRestoreArrayRead(diagonal, &inverse));
  PetscCall(VecRestoreArrayRead(rhs, &b));
  PetscCall(DestroyAll(&diagonal, &rhs, &A));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1

TEST*/
