static char help[] = "Times the solution of many small systems: 3-D convection-diffusion on cubes, each with another wind, all\n\
diagonal blocks of one matrix.\n\
  -edges 4,6,10    points of a cube in each direction\n\
  -systems 1024    how many\n\
  -repeat 9        runs, of which the median is taken\n\
  -slow 0          run PCBJACOBI with so many blocks too, once\n\
Options with the prefix pc_bjidrs_ are those of the solves.\n\n";

#include <petscksp.h>
#include <petsctime.h>
#if PetscDefined(HAVE_CUDA)
  #include <petscdevice_cuda.h>
  #include <cublas_v2.h>
#endif

#define MOST_EDGES 16

/* Central differences with a wind that grows from system to system */
static PetscErrorCode BatchCreate(PetscInt edge, PetscInt systems, Mat *A, Vec *b)
{
  const PetscInt n = edge * edge * edge, strides[] = {1, edge, edge * edge};

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_SELF, A));
  PetscCall(MatSetSizes(*A, n * systems, n * systems, n * systems, n * systems));
  PetscCall(MatSetType(*A, MATAIJ));
  PetscCall(MatSetFromOptions(*A));
  PetscCall(MatSeqAIJSetPreallocation(*A, 7, NULL));
  for (PetscInt row = 0; row < n * systems; row++) {
    const PetscReal wind = 0.3 + row / n / (PetscReal)systems;

    PetscCall(MatSetValue(*A, row, row, 6.0, INSERT_VALUES));
    for (PetscInt d = 0; d < 3; d++) {
      const PetscInt place = row % n / strides[d] % edge;

      if (place > 0) PetscCall(MatSetValue(*A, row, row - strides[d], -1.0 - wind, INSERT_VALUES));
      if (place < edge - 1) PetscCall(MatSetValue(*A, row, row + strides[d], -1.0 + wind, INSERT_VALUES));
    }
  }
  PetscCall(MatAssemblyBegin(*A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(*A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatCreateVecs(*A, b, NULL));
  PetscCall(VecSetRandom(*b, NULL));
  PetscFunctionReturn(0);
}

/* The largest ||b - A x|| / ||b|| of a system */
static PetscErrorCode LargestResidual(Mat A, PetscInt systems, Vec b, Vec x, PetscReal *largest)
{
  const PetscScalar *barray, *rarray;
  Vec                r;
  PetscInt           n;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(b, &r));
  PetscCall(MatMult(A, x, r));
  PetscCall(VecAYPX(r, -1.0, b));
  PetscCall(VecGetLocalSize(b, &n));
  PetscCall(VecGetArrayRead(b, &barray));
  PetscCall(VecGetArrayRead(r, &rarray));
  *largest = 0.0;
  for (PetscInt k = 0; k < systems; k++) {
    PetscReal bb = 0.0, rr = 0.0;

    for (PetscInt i = n / systems * k; i < n / systems * (k + 1); i++) {
      bb += PetscSqr(PetscAbsScalar(barray[i]));
      rr += PetscSqr(PetscAbsScalar(rarray[i]));
    }
    *largest = PetscMax(*largest, PetscSqrtReal(rr / bb));
  }
  PetscCall(VecRestoreArrayRead(r, &rarray));
  PetscCall(VecRestoreArrayRead(b, &barray));
  PetscCall(VecDestroy(&r));
  PetscFunctionReturn(0);
}

static PetscErrorCode Median(PetscInt n, PetscReal times[], PetscReal *median)
{
  PetscFunctionBeginUser;
  PetscCall(PetscSortReal(n, times));
  *median = times[n / 2];
  PetscFunctionReturn(0);
}

/* Milliseconds of all of KSPSolve() with KSPPREONLY, after one that is not counted */
static PetscErrorCode TimeSolve(const char name[], PCType type, Mat A, PetscInt systems, Vec b, PetscInt repeat)
{
  PetscReal *times, median = 0.0, largest = 0.0;
  KSP        ksp;
  PC         pc;
  Vec        x;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(repeat, &times));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(KSPCreate(PETSC_COMM_SELF, &ksp));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPSetType(ksp, KSPPREONLY));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCSetType(pc, type));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(KSPSolve(ksp, b, x));
  for (PetscInt i = 0; i < repeat; i++) {
    PetscLogDouble begin, end;

    PetscCall(PetscTime(&begin));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(PetscTime(&end));
    times[i] = 1e3 * (end - begin);
  }
  PetscCall(Median(repeat, times, &median));
  PetscCall(LargestResidual(A, systems, b, x, &largest));
  PetscCall(
    PetscPrintf(PETSC_COMM_SELF, "  %-24s %10.4g ms   largest ||b - Ax|| / ||b|| %8.1e\n", name, (double)median, (double)largest));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&x));
  PetscCall(PetscFree(times));
  PetscFunctionReturn(0);
}

#if PetscDefined(HAVE_CUDA) && !PetscDefined(USE_REAL_SINGLE)
  #if PetscDefined(USE_COMPLEX)
    #define BatchedLU    cublasZgetrfBatched
    #define BatchedSolve cublasZgetrsBatched
typedef cuDoubleComplex Entry;
  #else
    #define BatchedLU    cublasDgetrfBatched
    #define BatchedSolve cublasDgetrsBatched
typedef double Entry;
  #endif

  #define CallBLAS(call) PetscCheck((call) == CUBLAS_STATUS_SUCCESS, PETSC_COMM_SELF, PETSC_ERR_GPU, "%s", #call)

/* The places of the systems in an array on the GPU, in an array on the GPU */
static PetscErrorCode PlacesCreate(PetscInt systems, PetscScalar *first, size_t distance, PetscScalar ***places)
{
  PetscScalar **host;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(systems, &host));
  for (PetscInt k = 0; k < systems; k++) host[k] = first + (size_t)k * distance;
  PetscCallCUDA(cudaMalloc((void **)places, systems * sizeof(PetscScalar *)));
  PetscCallCUDA(cudaMemcpy(*places, host, systems * sizeof(PetscScalar *), cudaMemcpyHostToDevice));
  PetscCall(PetscFree(host));
  PetscFunctionReturn(0);
}

/* Milliseconds of cuBLAS's dense LU of all systems, and their solution; the copy of the dense matrices does not count */
static PetscErrorCode TimeDense(Mat A, PetscInt systems, Vec b, PetscInt repeat)
{
  PetscInt           N, n;
  PetscScalar       *dense, *given, *factors, *solutions, **matrices, **columns;
  const PetscScalar *barray;
  PetscScalar       *xarray;
  PetscReal         *times, median = 0.0, largest = 0.0;
  int               *pivots, *infos, info;
  size_t             size;
  cublasHandle_t     handle;
  Vec                x;

  PetscFunctionBeginUser;
  PetscCall(MatGetSize(A, &N, NULL));
  n    = N / systems;
  size = (size_t)n * n;
  PetscCall(PetscMalloc1(repeat, &times));
  PetscCall(PetscCalloc1(size * systems, &dense));
  for (PetscInt row = 0; row < N; row++) {
    PetscInt           count;
    const PetscInt    *places;
    const PetscScalar *values;

    PetscCall(MatGetRow(A, row, &count, &places, &values));
    for (PetscInt l = 0; l < count; l++) dense[row / n * size + (size_t)(places[l] % n) * n + row % n] = values[l];
    PetscCall(MatRestoreRow(A, row, &count, &places, &values));
  }
  PetscCallCUDA(cudaMalloc((void **)&given, size * systems * sizeof(PetscScalar)));
  PetscCallCUDA(cudaMalloc((void **)&factors, size * systems * sizeof(PetscScalar)));
  PetscCallCUDA(cudaMalloc((void **)&solutions, N * sizeof(PetscScalar)));
  PetscCallCUDA(cudaMalloc((void **)&pivots, N * sizeof(int)));
  PetscCallCUDA(cudaMalloc((void **)&infos, systems * sizeof(int)));
  PetscCallCUDA(cudaMemcpy(given, dense, size * systems * sizeof(PetscScalar), cudaMemcpyHostToDevice));
  PetscCall(PlacesCreate(systems, factors, size, &matrices));
  PetscCall(PlacesCreate(systems, solutions, n, &columns));
  CallBLAS(cublasCreate(&handle));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecGetArrayRead(b, &barray));
  for (PetscInt i = -1; i < repeat; i++) {
    PetscLogDouble begin, end;

    PetscCallCUDA(cudaMemcpy(factors, given, size * systems * sizeof(PetscScalar), cudaMemcpyDeviceToDevice));
    PetscCallCUDA(cudaMemcpy(solutions, barray, N * sizeof(PetscScalar), cudaMemcpyHostToDevice));
    PetscCallCUDA(cudaDeviceSynchronize());
    PetscCall(PetscTime(&begin));
    CallBLAS(BatchedLU(handle, (int)n, (Entry **)matrices, (int)n, pivots, infos, (int)systems));
    CallBLAS(BatchedSolve(handle, CUBLAS_OP_N, (int)n, 1, (const Entry *const *)matrices, (int)n, pivots, (Entry **)columns, (int)n,
                          &info, (int)systems));
    PetscCallCUDA(cudaDeviceSynchronize());
    PetscCall(PetscTime(&end));
    if (i >= 0) times[i] = 1e3 * (end - begin);
  }
  PetscCall(VecRestoreArrayRead(b, &barray));
  PetscCall(VecGetArrayWrite(x, &xarray));
  PetscCallCUDA(cudaMemcpy(xarray, solutions, N * sizeof(PetscScalar), cudaMemcpyDeviceToHost));
  PetscCall(VecRestoreArrayWrite(x, &xarray));
  PetscCall(Median(repeat, times, &median));
  PetscCall(LargestResidual(A, systems, b, x, &largest));
  PetscCall(PetscPrintf(PETSC_COMM_SELF, "  %-24s %10.4g ms   largest ||b - Ax|| / ||b|| %8.1e\n", "dense LU of cuBLAS",
                        (double)median, (double)largest));
  CallBLAS(cublasDestroy(handle));
  PetscCallCUDA(cudaFree(given));
  PetscCallCUDA(cudaFree(factors));
  PetscCallCUDA(cudaFree(solutions));
  PetscCallCUDA(cudaFree(pivots));
  PetscCallCUDA(cudaFree(infos));
  PetscCallCUDA(cudaFree(matrices));
  PetscCallCUDA(cudaFree(columns));
  PetscCall(VecDestroy(&x));
  PetscCall(PetscFree(dense));
  PetscCall(PetscFree(times));
  PetscFunctionReturn(0);
}
#endif

int main(int argc, char **argv)
{
  PetscInt  edges[MOST_EDGES] = {4, 6, 10}, count = MOST_EDGES, systems = 1024, repeat = 9;
  PetscBool set, slow = PETSC_FALSE;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscOptionsGetIntArray(NULL, NULL, "-edges", edges, &count, &set));
  if (!set) count = 3;
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-systems", &systems, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-repeat", &repeat, NULL));
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-slow", &slow, NULL));
  PetscCheck(systems > 0 && repeat > 0, PETSC_COMM_WORLD, PETSC_ERR_ARG_OUTOFRANGE,
             "-systems %" PetscInt_FMT " and -repeat %" PetscInt_FMT " must be positive", systems, repeat);
  for (PetscInt e = 0; e < count; e++) {
    const PetscInt n = edges[e] * edges[e] * edges[e];
    Mat            A;
    Vec            b;
    PetscBool      gpu;

    PetscCheck(edges[e] > 0, PETSC_COMM_WORLD, PETSC_ERR_ARG_OUTOFRANGE, "-edges %" PetscInt_FMT " must be positive", edges[e]);
    PetscCall(BatchCreate(edges[e], systems, &A, &b));
    PetscCall(PetscObjectTypeCompare((PetscObject)b, VECSEQCUDA, &gpu));
    PetscCall(PetscPrintf(PETSC_COMM_SELF, "%" PetscInt_FMT " systems of %" PetscInt_FMT " rows, %s\n", systems, n,
                          gpu ? "on the GPU" : "in the memory of the host"));
    PetscCall(TimeSolve("bjidrs", "bjidrs", A, systems, b, repeat));
#if PetscDefined(HAVE_CUDA) && !PetscDefined(USE_REAL_SINGLE)
    if (gpu && n <= 343) PetscCall(TimeDense(A, systems, b, repeat));
#endif
    if (slow) PetscCall(TimeSolve("bjacobi", PCBJACOBI, A, systems, b, 1));
    PetscCall(VecDestroy(&b));
    PetscCall(MatDestroy(&A));
  }
  PetscCall(PetscFinalize());
  return 0;
}
