static char help[] = "KSPIDRS on any number of processes, with any layout of the rows: the iterations are those of one process,\n\
and all processes have the same norms. The same holds for each right-hand side of KSPMatSolve(), and a\n\
second solve has the same bits.\n\n";

#include "columns.h"

#define COLUMNS 6

static const char *const layouts[] = {"even", "uneven", "first empty", "all on the last"};

/* Checks that the residual history has the same bits on all processes */
static PetscErrorCode CheckHistory(const char what[], KSP ksp)
{
  const PetscReal *history;
  PetscInt         entries, shortest, longest;
  PetscReal       *smallest, *largest;

  PetscFunctionBeginUser;
  PetscCall(KSPGetResidualHistory(ksp, &history, &entries));
  IDRSCallAllreduce(&entries, &shortest, 1, MPIU_INT, MPI_MIN, PETSC_COMM_WORLD);
  IDRSCallAllreduce(&entries, &longest, 1, MPIU_INT, MPI_MAX, PETSC_COMM_WORLD);
  PetscCall(ComplainIf(shortest != longest || !shortest, "%s: histories of %" INT " to %" INT " norms", what, shortest, longest));
  PetscCall(PetscMalloc2(shortest, &smallest, shortest, &largest));
  IDRSCallAllreduce(history, smallest, (PetscMPIInt)shortest, MPIU_REAL, MPIU_MIN, PETSC_COMM_WORLD);
  IDRSCallAllreduce(history, largest, (PetscMPIInt)shortest, MPIU_REAL, MPIU_MAX, PETSC_COMM_WORLD);
  for (PetscInt i = 0; i < shortest; i++)
    PetscCall(ComplainIf(smallest[i] != largest[i], "%s: norm %" INT " is from %g to %g", what, i, (double)smallest[i],
                         (double)largest[i]));
  PetscCall(PetscFree2(smallest, largest));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* In 20 iterations rounding errors of single precision grow until recurrences differ: a larger diagonal makes solves shorter */
static PetscErrorCode ShiftIfSingle(Mat A)
{
  PetscFunctionBeginUser;
  if (PetscDefined(USE_REAL_SINGLE)) PetscCall(MatShift(A, 4.0));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* On any number of processes, with any layout, there are as many iterations as on one process */
static PetscErrorCode TestRanks(void)
{
  const PetscInt sizes[]   = {1, 2, 4, 8};
  const char    *pctypes[] = {PCNONE, PCJACOBI};
  Mat            A;
  Vec            b, x;
  KSP            ksp;

  PetscFunctionBeginUser;
  rtol = PetscMax(rtol, 10000 * PETSC_MACHINE_EPSILON); /* near the attainable accuracy the iterations depend on rounding */
  for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(sizes); is++) {
    for (size_t ipc = 0; ipc < 2; ipc++) {
      PetscInt alone, together;

      PetscCall(SystemCreateGrid(PETSC_COMM_SELF, 13, 0.5, LAYOUT_EVEN, &A, &b));
      PetscCall(ShiftIfSingle(A));
      PetscCall(VecDuplicate(b, &x));
      PetscCall(SolverCreate(A, sizes[is], pctypes[ipc], &ksp));
      PetscCall(KSPSolve(ksp, b, x));
      PetscCall(KSPGetIterationNumber(ksp, &alone));
      PetscCall(DestroyAll(&ksp, &x, &b, &A));
      for (PetscInt layout = 0; layout < LAYOUTS; layout++) {
        PetscCall(SystemCreateGrid(PETSC_COMM_WORLD, 13, 0.5, (Layout)layout, &A, &b));
        PetscCall(ShiftIfSingle(A));
        PetscCall(VecDuplicate(b, &x));
        PetscCall(SolverCreate(A, sizes[is], pctypes[ipc], &ksp));
        PetscCall(KSPSetResidualHistory(ksp, NULL, PETSC_DECIDE, PETSC_TRUE));
        PetscCall(SolveToNorm(layouts[layout], ksp, b, x));
        PetscCall(CheckHistory(layouts[layout], ksp));
        PetscCall(KSPGetIterationNumber(ksp, &together));
        PetscCall(ComplainIf(PetscAbsInt(together - alone) > 1,
                             "s = %" INT ", %s, %s: %" INT " iterations, %" INT " on one process", sizes[is], pctypes[ipc],
                             layouts[layout], together, alone));
        PetscCall(DestroyAll(&ksp, &x, &b, &A));
      }
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Computes the iterations of each column of KSPMatSolve() on these processes. A second solve has the same bits, and so has a new
   solver, except with the back end vec: sums of BLAS may depend on the addresses of its vectors
*/
static PetscErrorCode ColumnIterations(const char what[], MPI_Comm comm, Layout layout, PetscInt s, const char pctype[],
                                       PetscBool block, PetscInt its[])
{
  const PetscInt *counts;
  PetscBool       equal;
  Mat             A, B, X, Y;
  KSP             ksp;

  PetscFunctionBeginUser;
  PetscCall(GridCreate(comm, layout, 13, 0.5, 0.3, &A));
  PetscCall(ShiftIfSingle(A));
  PetscCall(BlocksCreate(A, COLUMNS, BLOCK_RANDOM, &B, &X));
  PetscCall(MatDuplicate(B, MAT_DO_NOT_COPY_VALUES, &Y));
  for (PetscInt solver = 0; solver < 2; solver++) {
    PetscCall(SolverCreate(A, s, pctype, &ksp));
    PetscCall(KSPIDRSSetBlock(ksp, block));
    for (PetscInt solve = 0; solve < 2; solve++) {
      PetscCall(KSPMatSolve(ksp, B, solver || solve ? Y : X));
      PetscCall(KSPIDRSGetColumnResults(ksp, NULL, NULL, &counts, NULL));
      if (!solver && !solve) {
        PetscCall(PetscArraycpy(its, counts, COLUMNS));
        PetscCall(CheckBlock(what, ksp, A, B, X, PETSC_TRUE));
        continue;
      }
      PetscCall(MatEqual(X, Y, &equal));
      PetscCall(ComplainIf(!equal, "%s: the solutions of solve %" INT " by solver %" INT " have other bits", what, solve, solver));
    }
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(DestroyAll(&X, &Y, &B, &A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The same for several simultaneous right-hand sides, with single recurrences or a block recurrence */
static PetscErrorCode TestColumns(void)
{
  const char *const pctypes[] = {PCNONE, PCJACOBI};

  PetscFunctionBeginUser;
  PetscCall(RepeatSums());
  for (PetscInt s = 1; s <= 4; s *= 2) {
    for (PetscInt i = 0; i < 4; i++) {
      const PetscBool block = (PetscBool)(i / 2);
      PetscInt        alone[COLUMNS], together[COLUMNS];

      PetscCall(ColumnIterations("one process", PETSC_COMM_SELF, LAYOUT_EVEN, s, pctypes[i % 2], block, alone));
      for (PetscInt layout = 0; layout < LAYOUTS; layout++) {
        PetscCall(ColumnIterations(layouts[layout], PETSC_COMM_WORLD, (Layout)layout, s, pctypes[i % 2], block, together));
        for (PetscInt j = 0; j < COLUMNS; j++)
          PetscCall(ComplainIf(PetscAbsInt(together[j] - alone[j]) > 1,
                               "s = %" INT ", %s%s, %s, column %" INT ": %" INT " iterations, %" INT " on one process", s,
                               pctypes[i % 2], block ? ", block" : "", layouts[layout], j, together[j], alone[j]));
      }
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestRanks, "iterations on any number of processes"},
          {TestColumns, "iterations of right-hand sides on any number of processes"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 2 3 4}}

TEST*/
