static char help[] = "Times block DAXPY, Y += X C, and block DOT, many tasks of few rows, by the operations of block IDR(s) and,\n\
in double precision on a GPU, by cublasDgemmStridedBatched().\n\
  -rows 100000     rows of a task\n\
  -tasks 30        tasks, which are one call\n\
  -columns 4,8,16  columns of X and Y\n\
  -repeat 9        runs, of which the median is taken\n\n";

#include <petsctime.h>
#include <petscidrs/private/idrsops.h>
#include "device.h"
#if PetscDefined(HAVE_CUDA)
  #include <petscdevice_cuda.h>
  #include <cublas_v2.h>
#endif

#define MAX_LIST 16

typedef struct {
  PetscInt       rows, tasks, m;
  Vec            like; /* a vector as they are */
  IDRSWorkspace  work;
  IDRSBlockAxpy *sums;
  IDRSBlockDots *dots;
  PetscScalar   *results;
#if PetscDefined(HAVE_CUDA)
  cublasHandle_t handle;
  PetscScalar   *X, *Y, *C; /* of all tasks, one after another */
#endif
} Tasks;

static PetscErrorCode OurAxpy(Tasks *tasks)
{
  PetscFunctionBeginUser;
  PetscCall(IDRSBlockCombine(tasks->work, tasks->tasks, tasks->sums));
  PetscFunctionReturn(0);
}

static PetscErrorCode OurDots(Tasks *tasks)
{
  PetscFunctionBeginUser;
  PetscCall(IDRSBlockProject(tasks->work, tasks->tasks, tasks->dots, tasks->results));
  PetscFunctionReturn(0);
}

/* Microseconds of all tasks, and GB/s of so many vectors that they read and write */
static PetscErrorCode Time(Tasks *tasks, PetscErrorCode (*call)(Tasks *), const char what[], PetscInt vectors, PetscInt repeat)
{
  PetscReal     *times;
  PetscLogDouble begin, end;
  const PetscInt count = 10;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(repeat, &times));
  PetscCall((*call)(tasks));
  for (PetscInt i = 0; i < repeat; i++) {
    PetscCall(DeviceWait(tasks->like));
    PetscCall(PetscTime(&begin));
    for (PetscInt l = 0; l < count; l++) PetscCall((*call)(tasks));
    PetscCall(DeviceWait(tasks->like));
    PetscCall(PetscTime(&end));
    times[i] = (PetscReal)(end - begin) / (PetscReal)count;
  }
  PetscCall(PetscSortReal(repeat, times));
  PetscCall(PetscPrintf(PETSC_COMM_SELF, "%-32s %7" PetscInt_FMT " %12.1f %10.0f\n", what, tasks->m,
                        (double)(1e6 * times[repeat / 2]),
                        1e-9 * (double)vectors * (double)tasks->rows * (double)sizeof(PetscScalar) / (double)times[repeat / 2]));
  PetscCall(PetscFree(times));
  PetscFunctionReturn(0);
}

#if PetscDefined(HAVE_CUDA) && PetscDefined(USE_REAL_DOUBLE) && !PetscDefined(USE_COMPLEX)
  #define CallBLAS(call) PetscCheck((call) == CUBLAS_STATUS_SUCCESS, PETSC_COMM_SELF, PETSC_ERR_GPU, "%s", #call)

static PetscErrorCode TheirAxpy(Tasks *tasks)
{
  const double one = 1.0;
  const int    n = (int)tasks->rows, m = (int)tasks->m;

  PetscFunctionBeginUser;
  CallBLAS(cublasDgemmStridedBatched(tasks->handle, CUBLAS_OP_N, CUBLAS_OP_N, n, m, m, &one, tasks->X, n, (long long)n * m,
                                     tasks->C, m, (long long)m * m, &one, tasks->Y, n, (long long)n * m, (int)tasks->tasks));
  PetscFunctionReturn(0);
}

static PetscErrorCode TheirDots(Tasks *tasks)
{
  const double one = 1.0, zero = 0.0;
  const int    n = (int)tasks->rows, m = (int)tasks->m;

  PetscFunctionBeginUser;
  CallBLAS(cublasDgemmStridedBatched(tasks->handle, CUBLAS_OP_T, CUBLAS_OP_N, m, m, n, &one, tasks->X, n, (long long)n * m,
                                     tasks->Y, n, (long long)n * m, &zero, tasks->C, m, (long long)m * m, (int)tasks->tasks));
  PetscFunctionReturn(0);
}

/* The stream of PETSc has what is timed before and after it */
static PetscErrorCode TimeTheirs(Tasks *tasks, PetscInt repeat)
{
  const size_t block = (size_t)(tasks->rows * tasks->m * tasks->tasks) * sizeof(PetscScalar),
               small = (size_t)(tasks->m * tasks->m * tasks->tasks) * sizeof(PetscScalar);

  PetscFunctionBeginUser;
  CallBLAS(cublasCreate(&tasks->handle));
  PetscCallCUDA(cudaMalloc((void **)&tasks->X, block));
  PetscCallCUDA(cudaMalloc((void **)&tasks->Y, block));
  PetscCallCUDA(cudaMalloc((void **)&tasks->C, small));
  PetscCallCUDA(cudaMemset(tasks->X, 0, block));
  PetscCallCUDA(cudaMemset(tasks->Y, 0, block));
  PetscCallCUDA(cudaMemset(tasks->C, 0, small));
  PetscCallCUDA(cudaDeviceSynchronize());
  CallBLAS(cublasSetStream(tasks->handle, PetscDefaultCudaStream));
  PetscCall(Time(tasks, TheirAxpy, "Y += X C, cuBLAS", 3 * tasks->m * tasks->tasks, repeat));
  PetscCall(Time(tasks, TheirDots, "X^T Y, cuBLAS", 2 * tasks->m * tasks->tasks, repeat));
  PetscCallCUDA(cudaFree(tasks->X));
  PetscCallCUDA(cudaFree(tasks->Y));
  PetscCallCUDA(cudaFree(tasks->C));
  CallBLAS(cublasDestroy(tasks->handle));
  PetscFunctionReturn(0);
}
#endif

static PetscErrorCode Measure(Vec like, PetscInt n, PetscInt count, PetscInt m, PetscInt repeat)
{
  Tasks          tasks   = {.rows = n, .tasks = count, .m = m, .like = like};
  const PetscInt columns = 2 * m * count;
  Vec           *X;
  IDRSBlockVec  *x;
  PetscScalar   *C;
  PetscBool      gpu;

  PetscFunctionBeginUser;
  PetscCall(IDRSWorkspaceCreate(like, 1, NULL, KSP_IDRS_AUTO, 1, &tasks.work));
  PetscCall(VecDuplicateVecs(like, columns, &X));
  PetscCall(IDRSWorkspaceSetVecs(tasks.work, X[0], X[0], X[0], X[0]));
  PetscCall(PetscMalloc5(columns, &x, m * m, &C, m * m * count, &tasks.results, count, &tasks.sums, count, &tasks.dots));
  for (PetscInt i = 0; i < columns; i++) {
    PetscCall(VecSet(X[i], 1.0));
    PetscCall(IDRSBlockVecSet(tasks.work, X[i], &x[i]));
  }
  for (PetscInt i = 0; i < m * m; i++) C[i] = 1e-3;
  for (PetscInt i = 0; i < count; i++) {
    const IDRSBlockVec *of = x + 2 * m * i;

    tasks.sums[i] = (IDRSBlockAxpy){.nx = m, .ny = m, .x = of, .y = of + m, .C = C, .ld = m, .add = PETSC_TRUE};
    tasks.dots[i] = (IDRSBlockDots){.nw = m, .nx = m, .w = of, .x = of + m};
  }
  PetscCall(Time(&tasks, OurAxpy, "Y += X C", 3 * m * count, repeat));
  PetscCall(Time(&tasks, OurDots, "X^H Y", 2 * m * count, repeat));
  PetscCall(PetscObjectTypeCompare((PetscObject)like, VECSEQCUDA, &gpu));
#if PetscDefined(HAVE_CUDA) && PetscDefined(USE_REAL_DOUBLE) && !PetscDefined(USE_COMPLEX)
  if (gpu) PetscCall(TimeTheirs(&tasks, repeat));
#endif
  PetscCall(IDRSWorkspaceDestroy(1, &tasks.work));
  PetscCall(VecDestroyVecs(columns, &X));
  PetscCall(PetscFree5(x, C, tasks.results, tasks.sums, tasks.dots));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  PetscInt  columns[MAX_LIST] = {4, 8, 16}, count = MAX_LIST, rows = 100000, tasks = 30, repeat = 9;
  PetscBool set;
  Vec       like;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-rows", &rows, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-tasks", &tasks, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-repeat", &repeat, NULL));
  PetscCall(PetscOptionsGetIntArray(NULL, NULL, "-columns", columns, &count, &set));
  if (!set) count = 3;
  PetscCheck(rows > 0 && tasks > 0 && repeat > 0, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
             "-rows %" PetscInt_FMT ", -tasks %" PetscInt_FMT " and -repeat %" PetscInt_FMT " must be positive", rows, tasks,
             repeat);
  PetscCall(VecCreate(PETSC_COMM_SELF, &like));
  PetscCall(VecSetSizes(like, rows, rows));
  PetscCall(VecSetFromOptions(like));
  PetscCall(PetscPrintf(PETSC_COMM_SELF, "%" PetscInt_FMT " tasks of %" PetscInt_FMT " rows\n%-32s %7s %12s %10s\n", tasks, rows,
                        "operation", "columns", "us", "GB/s"));
  for (PetscInt i = 0; i < count; i++) {
    PetscCheck(columns[i] > 0 && columns[i] <= IDRS_MAX_WIDTH, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
               "-columns %" PetscInt_FMT " must be 1 to %d", columns[i], IDRS_MAX_WIDTH);
    PetscCall(Measure(like, rows, tasks, columns[i], repeat));
  }
  PetscCall(VecDestroy(&like));
  PetscCall(PetscFinalize());
  return 0;
}
