/*
   Solves a system by a Krylov method of hypre, and prints the line of the programs of this directory. hypre is built with CUDA and
   without MPI. It keeps nothing of a hierarchy, so a set-up for new values is a complete one.

     hypre -f matrix -b right-hand-side -setting name -solver bcgs|fgmres -pc NAME

   NAME is l1jacobi, jacobi (weight 0.8), twostage (Gauss-Seidel), aggressive or air for BoomerAMG, ilu for ILU(0) with exact
   triangular solves, ilujacobi for ILU(0) with five Jacobi sweeps in place of each solve, or ds for the diagonal.
*/
#include "HYPRE.h"
#include "HYPRE_IJ_mv.h"
#include "HYPRE_krylov.h"
#include "HYPRE_parcsr_ls.h"
#include "HYPRE_utilities.h"
#include "system.h"

#define COMM ((MPI_Comm)0)

/* From a private header of hypre. Its pool, Umpire, may be missing, and without a pool each allocation waits for the device */
HYPRE_Int hypre_SetUserDeviceMalloc(void (*)(void **, size_t));
HYPRE_Int hypre_SetUserDeviceMfree(void (*)(void *));

typedef struct {
  HYPRE_Int (*create)(MPI_Comm, HYPRE_Solver *);
  HYPRE_Int (*tolerance)(HYPRE_Solver, HYPRE_Real);
  HYPRE_Int (*most)(HYPRE_Solver, HYPRE_Int);
  HYPRE_Int (*precond)(HYPRE_Solver, HYPRE_PtrToParSolverFcn, HYPRE_PtrToParSolverFcn, HYPRE_Solver);
  HYPRE_PtrToParSolverFcn setup, solve;
  HYPRE_Int (*iterations)(HYPRE_Solver, HYPRE_Int *);
  HYPRE_Int (*destroy)(HYPRE_Solver);
} Method;

static const Method bcgs   = {HYPRE_ParCSRBiCGSTABCreate,           HYPRE_ParCSRBiCGSTABSetTol, HYPRE_ParCSRBiCGSTABSetMaxIter,
                              HYPRE_ParCSRBiCGSTABSetPrecond,       HYPRE_ParCSRBiCGSTABSetup,  HYPRE_ParCSRBiCGSTABSolve,
                              HYPRE_ParCSRBiCGSTABGetNumIterations, HYPRE_ParCSRBiCGSTABDestroy};
static const Method fgmres = {HYPRE_ParCSRFlexGMRESCreate,           HYPRE_ParCSRFlexGMRESSetTol, HYPRE_ParCSRFlexGMRESSetMaxIter,
                              HYPRE_ParCSRFlexGMRESSetPrecond,       HYPRE_ParCSRFlexGMRESSetup,  HYPRE_ParCSRFlexGMRESSolve,
                              HYPRE_ParCSRFlexGMRESGetNumIterations, HYPRE_ParCSRFlexGMRESDestroy};

typedef struct {
  const char             *pcname;
  HYPRE_ParCSRMatrix      A;
  HYPRE_ParVector         b, x;
  HYPRE_IJVector          xij;
  HYPRE_Solver            ksp, pc;
  HYPRE_PtrToParSolverFcn pcsetup, pcsolve;
  HYPRE_Int (*pcdestroy)(HYPRE_Solver); /* NULL: nothing to destroy */
  const Method *method;
  HYPRE_Int     rows, *list; /* list: the numbers of all rows, on the device */
  int           converged;
  double        tolerance;
} Solver;

/* Not to have converged is a result, other errors end the run */
#define Check(call) \
  do { \
    (void)(call); \
    if (HYPRE_GetError() & ~HYPRE_ERROR_CONV) return SystemFailed(#call, (int)HYPRE_GetError()); \
  } while (0)

static void PoolMalloc(void **p, size_t bytes)
{
  if (cudaMallocAsync(p, bytes, 0) != cudaSuccess) *p = NULL;
}

static void PoolFree(void *p)
{
  (void)cudaFreeAsync(p, 0);
}

/* Sets hypre up as its manual does for GPUs, with CUDA's pool in place of Umpire. The pool keeps the memory that is freed */
static int Initialize(void)
{
  cudaMemPool_t pool;
  uint64_t      all = UINT64_MAX;

  SystemCheck(cudaDeviceGetDefaultMemPool(&pool, 0));
  SystemCheck(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
  Check(HYPRE_Initialize());
  hypre_SetUserDeviceMalloc(PoolMalloc);
  hypre_SetUserDeviceMfree(PoolFree);
  Check(HYPRE_DeviceInitialize());
  Check(HYPRE_SetMemoryLocation(HYPRE_MEMORY_DEVICE));
  Check(HYPRE_SetExecutionPolicy(HYPRE_EXEC_DEVICE));
  Check(HYPRE_SetSpGemmUseVendor(0));
  Check(HYPRE_SetUseGpuRand(1));
  return 0;
}

/*
   Approximate ideal restriction as `ij -AIR 4` sets it for a device: Neumann series of degree 1, one-point interpolation, no sweep
   down, two on F and one on C points up. BoomerAMG frees the array of the sweeps
*/
static int SetAIR(HYPRE_Solver pc)
{
  const HYPRE_Int up[3]  = {-1, -1, 1};
  HYPRE_Int     **points = (HYPRE_Int **)calloc(4, sizeof(HYPRE_Int *));

  for (int i = 1; i < 4; i++) points[i] = (HYPRE_Int *)calloc(3, sizeof(HYPRE_Int));
  for (int i = 0; i < 3; i++) points[2][i] = up[i];
  Check(HYPRE_BoomerAMGSetRestriction(pc, 4));
  Check(HYPRE_BoomerAMGSetStrongThresholdR(pc, 0.25));
  Check(HYPRE_BoomerAMGSetFilterThresholdR(pc, 0.0));
  Check(HYPRE_BoomerAMGSetInterpType(pc, 100));
  Check(HYPRE_BoomerAMGSetMaxCoarseSize(pc, 20));
  Check(HYPRE_BoomerAMGSetRelaxType(pc, 7));
  Check(HYPRE_BoomerAMGSetMaxRowSum(pc, 1.0));
  Check(HYPRE_BoomerAMGSetGridRelaxPoints(pc, points));
  Check(HYPRE_BoomerAMGSetCycleNumSweeps(pc, 0, 1));
  Check(HYPRE_BoomerAMGSetCycleNumSweeps(pc, 3, 2));
  Check(HYPRE_BoomerAMGSetCycleNumSweeps(pc, 1, 3));
  return 0;
}

/* BoomerAMG with the options that hypre's manual lists for GPUs and its program ij sets on a device; one V(1,1) cycle */
static int CreateAMG(Solver *solver)
{
  const char *name = solver->pcname;

  Check(HYPRE_BoomerAMGCreate(&solver->pc));
  Check(HYPRE_BoomerAMGSetTol(solver->pc, 0.0));
  Check(HYPRE_BoomerAMGSetMaxIter(solver->pc, 1));
  Check(HYPRE_BoomerAMGSetCoarsenType(solver->pc, 8)); /* PMIS */
  Check(HYPRE_BoomerAMGSetInterpType(solver->pc, 6));  /* extended+i */
  Check(HYPRE_BoomerAMGSetPMaxElmts(solver->pc, 4));
  Check(HYPRE_BoomerAMGSetStrongThreshold(solver->pc, 0.25));
  Check(HYPRE_BoomerAMGSetRelaxOrder(solver->pc, 0));
  Check(HYPRE_BoomerAMGSetKeepTranspose(solver->pc, 1));
  Check(HYPRE_BoomerAMGSetModuleRAP2(solver->pc, 1));
  if (!strcmp(name, "jacobi")) {
    Check(HYPRE_BoomerAMGSetRelaxType(solver->pc, 7));
    Check(HYPRE_BoomerAMGSetRelaxWt(solver->pc, 0.8));
  } else if (!strcmp(name, "twostage")) Check(HYPRE_BoomerAMGSetRelaxType(solver->pc, 11));
  else if (!strcmp(name, "air")) Check(SetAIR(solver->pc));
  else Check(HYPRE_BoomerAMGSetRelaxType(solver->pc, 18)); /* l1-Jacobi */
  if (!strcmp(name, "aggressive")) Check(HYPRE_BoomerAMGSetAggNumLevels(solver->pc, 1));
  solver->pcsetup   = HYPRE_BoomerAMGSetup;
  solver->pcsolve   = HYPRE_BoomerAMGSolve;
  solver->pcdestroy = HYPRE_BoomerAMGDestroy;
  return 0;
}

static int CreateILU(Solver *solver)
{
  const int jacobi = !strcmp(solver->pcname, "ilujacobi");

  Check(HYPRE_ILUCreate(&solver->pc));
  Check(HYPRE_ILUSetType(solver->pc, 0)); /* block Jacobi, here one block */
  Check(HYPRE_ILUSetLevelOfFill(solver->pc, 0));
  Check(HYPRE_ILUSetMaxIter(solver->pc, 1));
  Check(HYPRE_ILUSetTol(solver->pc, 0.0));
  Check(HYPRE_ILUSetLocalReordering(solver->pc, 0));
  Check(HYPRE_ILUSetTriSolve(solver->pc, !jacobi));
  if (jacobi) {
    Check(HYPRE_ILUSetLowerJacobiIters(solver->pc, 5));
    Check(HYPRE_ILUSetUpperJacobiIters(solver->pc, 5));
  }
  solver->pcsetup   = HYPRE_ILUSetup;
  solver->pcsolve   = HYPRE_ILUSolve;
  solver->pcdestroy = HYPRE_ILUDestroy;
  return 0;
}

static int CreatePC(Solver *solver)
{
  if (!strncmp(solver->pcname, "ilu", 3)) return CreateILU(solver);
  if (strcmp(solver->pcname, "ds")) return CreateAMG(solver);
  solver->pcsetup = HYPRE_ParCSRDiagScaleSetup;
  solver->pcsolve = HYPRE_ParCSRDiagScale;
  return 0;
}

static int SetUp(void *data)
{
  Solver       *solver = (Solver *)data;
  const Method *method = solver->method;

  if (CreatePC(solver)) return 1;
  Check(method->create(COMM, &solver->ksp));
  if (method == &fgmres) Check(HYPRE_ParCSRFlexGMRESSetKDim(solver->ksp, 30));
  Check(method->tolerance(solver->ksp, solver->tolerance));
  Check(method->most(solver->ksp, SYSTEM_ITERATIONS));
  Check(method->precond(solver->ksp, solver->pcsolve, solver->pcsetup, solver->pc));
  Check(method->setup(solver->ksp, solver->A, solver->b, solver->x));
  return 0;
}

static int NewValues(void *data)
{
  Solver *solver = (Solver *)data;

  Check(solver->method->destroy(solver->ksp));
  if (solver->pcdestroy) Check(solver->pcdestroy(solver->pc));
  return 0;
}

/* A breakdown is an error of hypre too; the residual shows what it left */
static int Solve(void *data)
{
  Solver *solver = (Solver *)data;

  Check(HYPRE_ParVectorSetConstantValues(solver->x, 0.0));
  solver->method->solve(solver->ksp, solver->A, solver->b, solver->x);
  solver->converged = !HYPRE_GetError();
  HYPRE_ClearAllErrors();
  return 0;
}

static int Finish(void *data, double x[], int *iterations, int *converged)
{
  Solver   *solver = (Solver *)data;
  HYPRE_Int its;
  double   *array;

  Check(solver->method->iterations(solver->ksp, &its));
  *iterations = (int)its;
  *converged  = solver->converged;
  SystemCheck(cudaMalloc((void **)&array, sizeof(double) * (size_t)solver->rows));
  Check(HYPRE_IJVectorGetValues(solver->xij, solver->rows, solver->list, array));
  SystemCheck(cudaMemcpy(x, array, sizeof(double) * (size_t)solver->rows, cudaMemcpyDeviceToHost));
  return 0;
}

static int CreateVector(HYPRE_Int rows, const HYPRE_Int *list, const double *values, HYPRE_IJVector *ij, HYPRE_ParVector *vector)
{
  Check(HYPRE_IJVectorCreate(COMM, 0, rows - 1, ij));
  Check(HYPRE_IJVectorSetObjectType(*ij, HYPRE_PARCSR));
  Check(HYPRE_IJVectorInitialize_v2(*ij, HYPRE_MEMORY_DEVICE));
  Check(HYPRE_IJVectorSetValues(*ij, rows, list, values));
  Check(HYPRE_IJVectorAssemble(*ij));
  Check(HYPRE_IJVectorGetObject(*ij, (void **)vector));
  return 0;
}

static int Load(const System *system, Solver *solver)
{
  const size_t   rows = (size_t)system->rows, nonzeros = (size_t)system->nonzeros;
  HYPRE_Int     *lengths, *counts, *columns, *list = (HYPRE_Int *)malloc(2 * rows * sizeof(HYPRE_Int));
  double        *values, *b;
  HYPRE_IJMatrix ij;
  HYPRE_IJVector bij;

  if (!list) return 1;
  lengths = list + rows;
  for (size_t i = 0; i < rows; i++) {
    list[i]    = (HYPRE_Int)i;
    lengths[i] = system->start[i + 1] - system->start[i];
  }
  solver->rows = system->rows;
  SystemCheck(SystemCopy(&solver->list, list, sizeof(HYPRE_Int) * rows));
  SystemCheck(SystemCopy(&counts, lengths, sizeof(HYPRE_Int) * rows));
  SystemCheck(SystemCopy(&columns, system->columns, sizeof(HYPRE_Int) * nonzeros));
  SystemCheck(SystemCopy(&b, system->b, sizeof(double) * rows));
  SystemCheck(SystemCopy(&values, system->values, sizeof(double) * nonzeros));
  Check(HYPRE_IJMatrixCreate(COMM, 0, system->rows - 1, 0, system->rows - 1, &ij));
  Check(HYPRE_IJMatrixSetObjectType(ij, HYPRE_PARCSR));
  Check(HYPRE_IJMatrixInitialize_v2(ij, HYPRE_MEMORY_DEVICE));
  Check(HYPRE_IJMatrixSetValues(ij, system->rows, counts, solver->list, columns, values));
  Check(HYPRE_IJMatrixAssemble(ij));
  Check(HYPRE_IJMatrixGetObject(ij, (void **)&solver->A));
  if (CreateVector(system->rows, solver->list, b, &bij, &solver->b)) return 1;
  if (CreateVector(system->rows, solver->list, b, &solver->xij, &solver->x)) return 1;
  SystemCheck(cudaFree(counts));
  SystemCheck(cudaFree(columns));
  SystemCheck(cudaFree(values));
  SystemCheck(cudaFree(b));
  free(list);
  return 0;
}

int main(int argc, char **argv)
{
  Solver      solver = {.pcname = SystemOption(argc, argv, "-pc", "l1jacobi"), .tolerance = SystemTolerance(argc, argv)};
  const Rival rival  = {"hypre", SystemOption(argc, argv, "-setting", solver.pcname), SetUp, NewValues, SetUp, Solve, Finish,
                        &solver};
  System      system;
  double      before;

  if (!strstr(" l1jacobi jacobi twostage aggressive air ilu ilujacobi ds ", solver.pcname)) {
    return SystemError("is no preconditioner of this program", solver.pcname);
  }
  if (SystemRead(argc, argv, &system)) return 1;
  solver.method = strcmp(SystemOption(argc, argv, "-solver", "bcgs"), "fgmres") ? &bcgs : &fgmres;
  before        = SystemMemory();
  if (Initialize() || Load(&system, &solver)) return 1;
  return SystemRun(argc, argv, &system, &rival, before) ? 1 : 0;
}
