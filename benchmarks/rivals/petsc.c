static char
  help[] = "Solves a system with the KSP and the PC of the options, and prints the line of the programs of this directory.\n\
  -f file -b file    matrix and right-hand side, see system.h\n\
  -setting name      label of the options in the line\n\
  -diagonal          adds zeros where the diagonal has no entry: PETSc's factors need them\n\
On a GPU: -mat_type aijcusparse -vec_type cuda.\n\n";

#include <petscksp.h>
#if !PetscDefined(HAVE_CUDA)
  #define SYSTEM_HOST
#endif
#include "system.h"

typedef struct {
  Mat A;
  Vec b, x;
  KSP ksp;
} Solver;

/* KSPSetUpOnBlocks() sets up the solvers of block preconditioners, which KSPSolve() would do otherwise */
static int Update(void *data)
{
  Solver *solver = (Solver *)data;

  PetscFunctionBeginUser;
  PetscCall(KSPSetUp(solver->ksp));
  PetscCall(KSPSetUpOnBlocks(solver->ksp));
  PetscFunctionReturn(0);
}

static int SetUp(void *data)
{
  Solver *solver = (Solver *)data;

  PetscFunctionBeginUser;
  PetscCall(KSPCreate(PETSC_COMM_SELF, &solver->ksp));
  PetscCall(KSPSetOperators(solver->ksp, solver->A, solver->A));
  PetscCall(KSPSetTolerances(solver->ksp, SYSTEM_TOLERANCE, PETSC_DEFAULT, PETSC_DEFAULT, SYSTEM_ITERATIONS));
  PetscCall(KSPSetFromOptions(solver->ksp));
  PetscFunctionReturn(Update(data));
}

/* The values are multiplied by 1, but PETSc sees a changed matrix */
static int NewValues(void *data)
{
  Solver *solver = (Solver *)data;

  PetscFunctionBeginUser;
  PetscCall(MatScale(solver->A, -1.0));
  PetscCall(MatScale(solver->A, -1.0));
  if (solver->ksp) PetscCall(KSPSetOperators(solver->ksp, solver->A, solver->A));
  PetscFunctionReturn(0);
}

static int Solve(void *data)
{
  Solver *solver = (Solver *)data;

  PetscFunctionBeginUser;
  PetscCall(KSPSolve(solver->ksp, solver->b, solver->x));
  PetscFunctionReturn(0);
}

static int Finish(void *data, double x[], int *iterations, int *converged)
{
  Solver            *solver = (Solver *)data;
  KSPConvergedReason reason;
  PetscInt           its, n;
  const PetscScalar *array;

  PetscFunctionBeginUser;
  PetscCall(KSPGetConvergedReason(solver->ksp, &reason));
  PetscCall(KSPGetIterationNumber(solver->ksp, &its));
  *iterations = (int)its;
  *converged  = reason > 0;
  PetscCall(VecGetLocalSize(solver->x, &n));
  PetscCall(VecGetArrayRead(solver->x, &array));
  for (PetscInt i = 0; i < n; i++) x[i] = (double)PetscRealPart(array[i]);
  PetscCall(VecRestoreArrayRead(solver->x, &array));
  PetscFunctionReturn(0);
}

/* Puts the system into PETSc's objects, and on the device if the options say so */
static PetscErrorCode Load(const System *system, Solver *solver)
{
  PetscInt    *start, *columns, n = system->rows, count = 0;
  PetscScalar *values, *b;
  PetscReal    norm;
  PetscBool    diagonal;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsHasName(NULL, NULL, "-diagonal", &diagonal));
  PetscCall(PetscMalloc3(n + 1, &start, system->nonzeros + n, &columns, system->nonzeros + n, &values));
  start[0] = 0;
  for (PetscInt i = 0; i < n; i++) {
    PetscBool missing = diagonal;

    for (PetscInt k = system->start[i]; k <= system->start[i + 1]; k++) {
      const PetscInt column = k < system->start[i + 1] ? system->columns[k] : n;

      if (missing && column > i) {
        columns[count]  = i;
        values[count++] = 0.0;
      }
      if (column >= i) missing = PETSC_FALSE;
      if (column == n) break;
      columns[count]  = column;
      values[count++] = system->values[k];
    }
    start[i + 1] = count;
  }
  PetscCall(MatCreate(PETSC_COMM_SELF, &solver->A));
  PetscCall(MatSetSizes(solver->A, n, n, n, n));
  PetscCall(MatSetFromOptions(solver->A));
  PetscCall(MatSeqAIJSetPreallocationCSR(solver->A, start, columns, values));
  PetscCall(PetscFree3(start, columns, values));
  PetscCall(MatCreateVecs(solver->A, &solver->x, &solver->b));
  PetscCall(VecGetArrayWrite(solver->b, &b));
  for (PetscInt i = 0; i < n; i++) b[i] = system->b[i];
  PetscCall(VecRestoreArrayWrite(solver->b, &b));
  /* these copy the matrix and b to the device */
  PetscCall(VecSet(solver->x, 0.0));
  PetscCall(VecNorm(solver->b, NORM_2, &norm));
  PetscCall(NewValues(solver));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  const char *type   = SystemOption(argc, argv, "-ksp_type", KSPGMRES);
  Solver      solver = {NULL, NULL, NULL, NULL};
  Rival       rival  = {strcmp(type, "idrs") ? "petsc" : "idrs",
                 SystemOption(argc, argv, "-setting", type),
                 SetUp,
                 NewValues,
                 Update,
                 Solve,
                 Finish,
                 &solver};
  const char  *ours[] = {"-f", "-b", "-setting"}; /* PETSc lists options that nobody asked for */
  System       system;
  PetscBool    used;
  const double before = SystemMemory();
  int          error  = SystemRead(argc, argv, &system);

  if (error) return 1;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  for (size_t i = 0; i < PETSC_STATIC_ARRAY_LENGTH(ours); i++) PetscCall(PetscOptionsHasName(NULL, NULL, ours[i], &used));
  PetscCall(Load(&system, &solver));
  error = SystemRun(argc, argv, &system, &rival, before);
  if (!error) {
    PetscCall(KSPDestroy(&solver.ksp));
    PetscCall(MatDestroy(&solver.A));
    PetscCall(VecDestroy(&solver.b));
    PetscCall(VecDestroy(&solver.x));
    PetscCall(PetscFinalize());
  }
  return error ? 1 : 0;
}
