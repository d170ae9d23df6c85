/*
   Solves a system by the sparse LU of cuDSS, and prints the line of the programs of this directory. Analysis and factorization are
   the first set-up, refactorization is the set-up for new values.

     cudss -f matrix -b right-hand-side -setting name [-matching 1] [-refinement steps]

   CUDSS_THREADING_LIB names cuDSS's library of host threads, which the analysis uses.
*/
#include <cudss.h>
#include "system.h"

typedef struct {
  cudssHandle_t handle;
  cudssConfig_t config;
  cudssData_t   data;
  cudssMatrix_t A, b, x;
  void         *start, *columns, *values, *barray, *xarray; /* on the device */
  int           rows;
} Solver;

/* Refinement that misses its tolerance is no error: the true residual decides */
static int Execute(Solver *solver, int phase)
{
  const cudssStatus_t status = cudssExecute(solver->handle, phase, solver->config, solver->data, solver->A, solver->x, solver->b);

  return status && status != CUDSS_STATUS_IR_FAILED ? SystemFailed("cudssExecute()", (int)status) : 0;
}

static int SetUp(void *data)
{
  const int error = Execute((Solver *)data, CUDSS_PHASE_ANALYSIS);

  return error ? error : Execute((Solver *)data, CUDSS_PHASE_FACTORIZATION);
}

/* Refactorization reads the values on the device again, so there is nothing to do */
static int NewValues(void *data)
{
  (void)data;
  return 0;
}

static int Update(void *data)
{
  return Execute((Solver *)data, CUDSS_PHASE_REFACTORIZATION);
}

static int Solve(void *data)
{
  return Execute((Solver *)data, CUDSS_PHASE_SOLVE);
}

/* A direct solver has no convergence test. info is positive after a zero pivot */
static int Finish(void *data, double x[], int *iterations, int *converged)
{
  Solver *solver = (Solver *)data;
  int     info   = 0;
  size_t  written;

  SystemCheck(cudssDataGet(solver->handle, solver->data, CUDSS_DATA_INFO, &info, sizeof(info), &written));
  *iterations = 1;
  *converged  = !info;
  SystemCheck(cudaMemcpy(x, solver->xarray, sizeof(double) * (size_t)solver->rows, cudaMemcpyDeviceToHost));
  return 0;
}

static int Load(const System *system, int matching, int refinement, Solver *solver)
{
  const size_t rows = (size_t)system->rows, nonzeros = (size_t)system->nonzeros;

  solver->rows = system->rows;
  SystemCheck(SystemCopy(&solver->start, system->start, sizeof(int) * (rows + 1)));
  SystemCheck(SystemCopy(&solver->columns, system->columns, sizeof(int) * nonzeros));
  SystemCheck(SystemCopy(&solver->values, system->values, sizeof(double) * nonzeros));
  SystemCheck(SystemCopy(&solver->barray, system->b, sizeof(double) * rows));
  SystemCheck(cudaMalloc(&solver->xarray, sizeof(double) * rows));
  SystemCheck(cudssCreate(&solver->handle));
  if (getenv("CUDSS_THREADING_LIB") && cudssSetThreadingLayer(solver->handle, NULL)) fprintf(stderr, "cudss: no host threads\n");
  SystemCheck(cudssConfigCreate(&solver->config));
  SystemCheck(cudssDataCreate(solver->handle, &solver->data));
  if (matching) SystemCheck(cudssConfigSet(solver->config, CUDSS_CONFIG_FORCE_NONSYMMETRIC_MATCHING, &matching, sizeof(matching)));
  if (refinement) SystemCheck(cudssConfigSet(solver->config, CUDSS_CONFIG_IR_N_STEPS, &refinement, sizeof(refinement)));
  SystemCheck(cudssMatrixCreateCsr(&solver->A, system->rows, system->rows, system->nonzeros, solver->start, NULL, solver->columns,
                                   solver->values, CUDA_R_32I, CUDA_R_32I, CUDA_R_64F, CUDSS_MTYPE_GENERAL, CUDSS_MVIEW_FULL,
                                   CUDSS_BASE_ZERO));
  SystemCheck(cudssMatrixCreateDn(&solver->b, system->rows, 1, system->rows, solver->barray, CUDA_R_64F, CUDSS_LAYOUT_COL_MAJOR));
  SystemCheck(cudssMatrixCreateDn(&solver->x, system->rows, 1, system->rows, solver->xarray, CUDA_R_64F, CUDSS_LAYOUT_COL_MAJOR));
  return 0;
}

int main(int argc, char **argv)
{
  Solver      solver = {0};
  const Rival rival  = {"cudss", SystemOption(argc, argv, "-setting", "default"), SetUp, NewValues, Update, Solve, Finish, &solver};
  System      system;
  double      before;

  if (SystemRead(argc, argv, &system)) return 1;
  before = SystemMemory();
  if (Load(&system, atoi(SystemOption(argc, argv, "-matching", "0")), atoi(SystemOption(argc, argv, "-refinement", "0")), &solver))
    return 1;
  return SystemRun(argc, argv, &system, &rival, before) ? 1 : 0;
}
