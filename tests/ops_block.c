static char help[] = "The operations of block IDR(s) against dense algebra, written out.\n\
  -implementation <host> - the back end\n\
  -rows n1,n2,...        - numbers of rows; a process takes another one than the one before it\n\
  -widths m1,m2,...      - numbers of columns of a block\n\
  -columns <140>         - of the largest sum; seven times those of a block are needed\n\n";

#include "workspaces.h"

#define MAX_NX    140
#define MAX_TASKS 70
#define SEED      12345

/* Columns of the operations, and their first entries for the dense algebra */
typedef struct {
  PetscInt      n, rstart, columns;
  IDRSWorkspace work;
  Vec           like, diagonal, singles[4];
  Vec          *X, Y[IDRS_MAX_WIDTH];
  IDRSBlockVec *x, y[IDRS_MAX_WIDTH];
  PetscScalar **before, *d;
} Problem;

static PetscErrorCode Fill(Vec x, PetscInt column, PetscScalar *copy)
{
  const PetscScalar *array;
  PetscInt           n;

  PetscFunctionBeginUser;
  PetscCall(VecSetNumbers(x, column, PETSC_TRUE));
  if (!copy) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(VecGetLocalSize(x, &n));
  PetscCall(VecGetArrayRead(x, &array));
  PetscCall(PetscArraycpy(copy, array, n));
  PetscCall(VecRestoreArrayRead(x, &array));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ProblemCreate(PetscInt n, PetscInt columns, KSPIDRSImplementation back, Problem *problem)
{
  PetscFunctionBeginUser;
  problem->n       = n;
  problem->columns = columns;
  PetscCall(VecCreateRows(n, &problem->like));
  PetscCall(VecGetOwnershipRange(problem->like, &problem->rstart, NULL));
  PetscCall(IDRSWorkspaceCreate(problem->like, 1, NULL, back, 1, &problem->work));
  for (PetscInt i = 0; i < 4; i++) PetscCall(VecDuplicate(problem->like, &problem->singles[i]));
  PetscCall(
    IDRSWorkspaceSetVecs(problem->work, problem->singles[0], problem->singles[1], problem->singles[2], problem->singles[3]));
  PetscCall(IDRSWorkspaceSetSeed(problem->work, SEED));
  PetscCall(VecDuplicate(problem->like, &problem->diagonal));
  PetscCall(PetscMalloc1(n, &problem->d));
  PetscCall(Fill(problem->diagonal, 1000, problem->d));
  PetscCall(PetscMalloc3(columns, &problem->X, columns, &problem->x, columns, &problem->before));
  for (PetscInt i = 0; i < columns; i++) {
    PetscCall(PetscMalloc1(n, &problem->before[i]));
    PetscCall(VecDuplicate(problem->like, &problem->X[i]));
    PetscCall(VecSet(problem->X[i], 0.0));
    PetscCall(IDRSBlockVecSet(problem->work, problem->X[i], &problem->x[i]));
  }
  for (PetscInt i = 0; i < IDRS_MAX_WIDTH; i++) {
    PetscCall(VecDuplicate(problem->like, &problem->Y[i]));
    PetscCall(VecSet(problem->Y[i], 0.0));
    PetscCall(IDRSBlockVecSet(problem->work, problem->Y[i], &problem->y[i]));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode ProblemDestroy(Problem *problem)
{
  PetscFunctionBeginUser;
  PetscCall(IDRSWorkspaceDestroy(1, &problem->work));
  for (PetscInt i = 0; i < problem->columns; i++) {
    PetscCall(PetscFree(problem->before[i]));
    PetscCall(VecDestroy(&problem->X[i]));
  }
  PetscCall(PetscFree3(problem->X, problem->x, problem->before));
  for (PetscInt i = 0; i < IDRS_MAX_WIDTH; i++) PetscCall(VecDestroy(&problem->Y[i]));
  for (PetscInt i = 0; i < 4; i++) PetscCall(VecDestroy(&problem->singles[i]));
  PetscCall(VecDestroy(&problem->diagonal));
  PetscCall(PetscFree(problem->d));
  PetscCall(VecDestroy(&problem->like));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Restores the first entries of the columns of X */
static PetscErrorCode Refill(Problem *problem, PetscInt nx)
{
  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < nx; i++) PetscCall(Fill(problem->X[i], i, problem->before[i]));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Y = D X C + X C; the columns of Y are the last columns of X, or others */
static PetscErrorCode TestCombine(Problem *problem, PetscInt nx, PetscInt scaled, PetscInt ny, PetscBool inplace,
                                  PetscBool diagonal, PetscBool add)
{
  const PetscInt ld = nx + 3;
  IDRSBlockAxpy  axpy;
  PetscScalar   *C;

  PetscFunctionBeginUser;
  if (inplace && ny > nx) PetscFunctionReturn(PETSC_SUCCESS);
  PetscCall(Refill(problem, nx));
  PetscCall(PetscMalloc1(ld * ny, &C));
  for (PetscInt i = 0; i < ld * ny; i++) C[i] = i % 7 ? Number(77, i) : (PetscScalar)0.0;
  axpy = (IDRSBlockAxpy){.nx     = nx,
                         .ny     = ny,
                         .scaled = scaled,
                         .x      = problem->x,
                         .y      = inplace ? problem->x + nx - ny : problem->y,
                         .C      = C,
                         .ld     = ld,
                         .add    = add};
  for (PetscInt j = 0; !inplace && j < ny; j++) PetscCall(Fill(problem->Y[j], 200 + j, NULL));
  PetscCall(IDRSWorkspaceStart(problem->work, diagonal, diagonal ? problem->diagonal : NULL));
  PetscCall(IDRSBlockCombine(problem->work, 1, &axpy));
  for (PetscInt j = 0; j < ny; j++) {
    const PetscScalar *y;
    PetscReal          worst = 0.0;

    PetscCall(VecGetArrayRead(axpy.y[j].vec, &y));
    for (PetscInt l = 0; l < problem->n; l++) {
      PetscScalar sum = 0.0;

      if (add) sum = inplace ? problem->before[nx - ny + j][l] : Number(200 + j, problem->rstart + l);
      for (PetscInt i = 0; i < nx; i++)
        sum += (i < scaled && diagonal ? problem->d[l] : (PetscScalar)1.0) * problem->before[i][l] * C[i + j * ld];
      worst = PetscAbsScalar(sum - y[l]) <= worst ? worst : PetscAbsScalar(sum - y[l]);
    }
    PetscCall(VecRestoreArrayRead(axpy.y[j].vec, &y));
    PetscCall(ComplainIf(!(worst <= 20 * nx * PETSC_MACHINE_EPSILON),
                         "combine, n = %" INT ", nx = %" INT ", scaled %" INT ", ny = %" INT "%s%s, column %" INT ": off by %g",
                         problem->n, nx, scaled, ny, inplace ? ", in place" : "", diagonal ? ", diagonal" : "", j, (double)worst));
  }
  PetscCall(PetscFree(C));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Several sums in one call, each of which reads the result of the previous one, compared with a call for each; more sums than a
   launch has
*/
static PetscErrorCode TestChain(Problem *problem, PetscInt m, PetscBool diagonal)
{
  const PetscInt count = 19, nx = 3 * m;
  IDRSBlockAxpy  sums[19];
  PetscScalar   *C, *apart;
  PetscReal      worst = 0.0;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc2(nx * m, &C, 4 * m * problem->n, &apart));
  for (PetscInt i = 0; i < nx * m; i++) C[i] = Number(55, i) / (PetscReal)nx;
  for (PetscInt i = 0; i < count; i++) { /* columns from i m on are written, then read by the next sum */
    const PetscInt first = i % 4;

    sums[i] = (IDRSBlockAxpy){.nx     = i % 3 ? nx : m,
                              .ny     = i % 5 ? m : (m + 1) / 2,
                              .scaled = i % 2 ? m : 0,
                              .x      = problem->x + (first ? first - 1 : 4) * m,
                              .y      = problem->x + first * m,
                              .C      = C,
                              .ld     = nx,
                              .add    = (PetscBool)(i % 2)};
  }
  PetscCall(IDRSWorkspaceStart(problem->work, diagonal, diagonal ? problem->diagonal : NULL));
  for (PetscInt together = 0; together < 2; together++) {
    PetscCall(Refill(problem, 7 * m));
    if (together) PetscCall(IDRSBlockCombine(problem->work, count, sums));
    else {
      for (PetscInt i = 0; i < count; i++) PetscCall(IDRSBlockCombine(problem->work, 1, &sums[i]));
    }
    for (PetscInt j = 0; j < 4 * m; j++) {
      const PetscScalar *x;

      PetscCall(VecGetArrayRead(problem->X[j], &x));
      for (PetscInt l = 0; l < problem->n; l++) {
        if (!together) apart[j * problem->n + l] = x[l];
        else
          worst = PetscAbsScalar(apart[j * problem->n + l] - x[l]) <= worst ? worst
                                                                            : PetscAbsScalar(apart[j * problem->n + l] - x[l]);
      }
      PetscCall(VecRestoreArrayRead(problem->X[j], &x));
    }
  }
  PetscCall(ComplainIf(!(worst <= 100 * PETSC_MACHINE_EPSILON),
                       "combine, n = %" INT ", blocks of %" INT "%s: %" INT " sums together are off by %g", problem->n, m,
                       diagonal ? ", diagonal" : "", count, (double)worst));
  PetscCall(PetscFree2(C, apart));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A task: X has the columns from x on, W has the columns from w on */
typedef struct {
  PetscInt rows, nw, nx, w, x;
} Task;

/* Computes P^H X and W^H X by dense algebra, as sums of this process; in parts, because one long sum would be less accurate */
static void DenseDots(const Problem *problem, const Task *task, PetscScalar dense[])
{
  PetscScalar *products = dense + task->rows * task->nx;

  for (PetscInt j = 0; j < task->nx; j++) {
    const PetscScalar *x = problem->before[task->x + j];

    for (PetscInt first = 0; first < problem->n; first += 1024) {
      const PetscInt end = PetscMin(first + 1024, problem->n);

      for (PetscInt i = 0; i < task->rows; i++) {
        PetscScalar part = 0.0;

        for (PetscInt l = first; l < end; l++) part += (PetscReal)Shadow(SEED, (uint64_t)(problem->rstart + l), i) / 65536 * x[l];
        dense[i + j * task->rows] += part;
      }
      for (PetscInt i = 0; i < task->nw; i++) {
        PetscScalar part = 0.0;

        for (PetscInt l = first; l < end; l++) part += PetscConj(problem->before[task->w + i][l]) * x[l];
        products[i + j * task->nw] += part;
      }
    }
  }
}

/* Compares many tasks in one call */
static PetscErrorCode TestProject(Problem *problem, PetscInt ntasks, const Task tasks[])
{
  IDRSBlockDots dots[MAX_TASKS];
  PetscScalar  *sums, *dense;
  PetscInt      N, count = 0, columns = 0, at = 0;

  PetscFunctionBeginUser;
  for (PetscInt i = 0; i < ntasks; i++) {
    dots[i] = (IDRSBlockDots){
      .rows = tasks[i].rows, .nw = tasks[i].nw, .nx = tasks[i].nx, .w = problem->x + tasks[i].w, .x = problem->x + tasks[i].x};
    columns = PetscMax(columns, PetscMax(tasks[i].x + tasks[i].nx, tasks[i].w + tasks[i].nw));
    count += IDRSBlockDotsCount(&dots[i]);
  }
  PetscCall(Refill(problem, columns));
  PetscCall(VecGetSize(problem->like, &N));
  PetscCall(PetscMalloc1(count, &sums));
  PetscCall(PetscCalloc1(count, &dense));
  PetscCall(IDRSBlockProject(problem->work, ntasks, dots, sums));
  for (PetscInt i = 0; i < ntasks; i++) {
    DenseDots(problem, &tasks[i], dense + at);
    at += IDRSBlockDotsCount(&dots[i]);
  }
  IDRSCallAllreduce(MPI_IN_PLACE, dense, (PetscMPIInt)count, MPIU_SCALAR, MPIU_SUM, PETSC_COMM_WORLD);
  at = 0;
  for (PetscInt i = 0; i < ntasks; i++) {
    PetscReal worst = 0.0;

    for (PetscInt l = 0; l < IDRSBlockDotsCount(&dots[i]); l++, at++)
      worst = PetscAbsScalar(sums[at] - dense[at]) <= worst ? worst : PetscAbsScalar(sums[at] - dense[at]);
    PetscCall(ComplainIf(!(worst <= (20 + 1.5 * PetscSqrtReal((PetscReal)N)) * (1 + N) * PETSC_MACHINE_EPSILON),
                         "project, n = %" INT ", task %" INT " of %" INT ", %" INT " shadow vectors, nw = %" INT ", nx = %" INT
                         "%s: off by %g",
                         problem->n, i, ntasks, tasks[i].rows, tasks[i].nw, tasks[i].nx,
                         IDRSBlockDotsHermitian(&dots[i]) ? ", Hermitian" : "", (double)worst));
  }
  PetscCall(PetscFree(dense));
  PetscCall(PetscFree(sums));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Tasks of the solver with m columns, in a step and in the omega step: a group of columns with itself and with another group, and
   all of this with more tasks than one launch has
*/
static PetscErrorCode TestProjections(Problem *problem, PetscInt m)
{
  const Task step[] = {
    {.rows = 4 * m, .nx = m},
    {.nw = m, .nx = m, .w = m, .x = m}
  };
  const Task omega = {.rows = 2 * m + 1, .nw = 2 * m, .nx = 2 * m}, itself = {.nw = m, .nx = m},
             other = {.nw = m, .nx = (m + 1) / 2, .w = m, .x = 1}, all = {.rows = 3, .nw = 1, .nx = m, .w = 2 * m, .x = m};
  Task tasks[MAX_TASKS];

  PetscFunctionBeginUser;
  PetscCall(TestProject(problem, 2, step));
  PetscCall(TestProject(problem, 1, &omega));
  PetscCall(TestProject(problem, 1, &itself));
  PetscCall(TestProject(problem, 1, &other));
  for (PetscInt i = 0; i < MAX_TASKS; i++) {
    tasks[i] = i % 3 ? (i % 2 ? other : all) : itself;
    tasks[i].x += i % 4;
  }
  PetscCall(TestProject(problem, MAX_TASKS, tasks));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Test(PetscInt n, PetscInt columns, PetscInt widths, const PetscInt m[], KSPIDRSImplementation back)
{
  const Task many = {.rows = 131, .nx = PetscMin(17, columns / 7)};
  Problem    problem;

  PetscFunctionBeginUser;
  PetscCall(ProblemCreate(n, columns, back, &problem));
  for (PetscInt i = 0; i < widths; i++) {
    for (PetscInt diagonal = 0; diagonal < 2; diagonal++) {
      PetscCall(TestCombine(&problem, 3 * m[i], m[i], m[i], PETSC_TRUE, (PetscBool)diagonal, PETSC_FALSE));
      PetscCall(TestCombine(&problem, 2 * m[i] + 1, m[i], m[i], PETSC_FALSE, (PetscBool)diagonal, PETSC_TRUE));
      PetscCall(
        TestCombine(&problem, 2 * m[i] + 1, 2 * m[i] + 1, m[i], (PetscBool)!diagonal, (PetscBool)diagonal, (PetscBool)diagonal));
      PetscCall(TestChain(&problem, m[i], (PetscBool)diagonal));
    }
    PetscCall(TestCombine(&problem, 1, 0, m[i], PETSC_FALSE, PETSC_FALSE, PETSC_FALSE));
    PetscCall(TestCombine(&problem, columns, columns / 2, m[i], PETSC_TRUE, PETSC_TRUE, PETSC_TRUE));
    PetscCall(TestProjections(&problem, m[i]));
  }
  PetscCall(TestProject(&problem, 1, &many));
  PetscCall(ProblemDestroy(&problem));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  PetscInt rows[MAX_LIST] = {0, 1, 31, 33, 1000}, m[MAX_LIST] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, sizes = 5,
           widths = 16, columns = 140;
  KSPIDRSImplementation back = KSP_IDRS_VEC;
  PetscMPIInt           rank;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCall(BackEndFromOptions(&back));
  PetscCall(ListFromOptions("-rows", MAX_LIST, rows, &sizes));
  PetscCall(ListFromOptions("-widths", MAX_LIST, m, &widths));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-columns", &columns, NULL));
  for (PetscInt i = 0; i < widths; i++)
    PetscCheck(m[i] > 0 && m[i] <= IDRS_MAX_WIDTH && 7 * m[i] <= columns, PETSC_COMM_WORLD, PETSC_ERR_ARG_OUTOFRANGE,
               "-widths %" INT " must be 1 to %d, and at most a seventh of -columns %" INT, m[i], IDRS_MAX_WIDTH, columns);
  for (PetscInt i = 0; i < sizes; i++) PetscCall(Test(rows[(i + rank) % sizes], columns, widths, m, back));
  PetscCall(Verdict("block combine and project"));
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

   test:
     suffix: 1
     nsize: {{1 3}}

   test:
     suffix: large
     args: -rows 100003 -widths 5
     output_file: output/ops_block_1.out

   test:
     suffix: huge
     args: -rows 1000007 -widths 3 -columns 21
     output_file: output/ops_block_1.out

   # a block does not fit into the second-level cache of most GPUs
   test:
     suffix: long
     requires: cuda
     args: -rows 3400007 -widths 2 -columns 14
     output_file: output/ops_block_1.out

TEST*/
