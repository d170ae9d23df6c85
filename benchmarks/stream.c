static char help[] = "Times matrices in host memory that are streamed to a GPU: 3-D convection-diffusion with 7 or 27 points,\n\
products and matrix powers, and whole solves.\n\
  -n 200               points in each direction\n\
  -points 7            7 or 27\n\
  -peclet 0.5          mesh Peclet number, for 7 points\n\
  -degrees 8,16,32     of the matrix powers\n\
  -memories a,b,...    -mat_stream_memory for MatMult(), and for each degree\n\
  -repeat 5            runs, of which the median is taken\n\
  -solve               also solve a system, with KSP's and PC's options\n\
Options with -mat_stream_ are those of the matrix.\n\n";

#include <petscksp.h>
#include <petsctime.h>
#include <petscidrs.h>
#if PetscDefined(HAVE_CUDA)
  #include <petscdevice_cuda.h>
#endif

#define MOST_DEGREES 16

/*
   Entries of a row in their order, or only how many: diffusion, and for 7 points convection with this mesh Peclet number in all
   directions
*/
static PetscInt Row(PetscInt row, PetscInt n, PetscInt points, PetscReal peclet, PetscInt columns[], PetscScalar values[])
{
  const PetscInt x = row % n, y = row / n % n, z = row / n / n;
  PetscInt       count = 0;

  for (PetscInt dz = -1; dz <= 1; dz++) {
    for (PetscInt dy = -1; dy <= 1; dy++) {
      for (PetscInt dx = -1; dx <= 1; dx++) {
        const PetscInt steps = PetscAbsInt(dx) + PetscAbsInt(dy) + PetscAbsInt(dz);

        if (points == 7 && steps > 1) continue;
        if (x + dx < 0 || x + dx >= n || y + dy < 0 || y + dy >= n || z + dz < 0 || z + dz >= n) continue;
        if (columns) {
          columns[count] = row + dx + n * (dy + n * dz);
          values[count]  = steps ? -1.0 + (points == 7 ? 0.5 * peclet * (PetscReal)(dx + dy + dz) : 0.0) : (PetscReal)(points - 1);
        }
        count++;
      }
    }
  }
  return count;
}

/* In place: the arrays are those that are streamed. They are freed after the matrix */
static PetscErrorCode StreamedCreate(PetscInt n, PetscInt points, PetscReal peclet, PetscInt **i, PetscInt **j, PetscScalar **a,
                                     Mat *A)
{
  const PetscInt N = n * n * n;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(N + 1, i));
  (*i)[0] = 0;
  for (PetscInt row = 0; row < N; row++) (*i)[row + 1] = (*i)[row] + Row(row, n, points, peclet, NULL, NULL);
  PetscCall(PetscMalloc1((*i)[N], j));
  PetscCall(PetscMalloc1((*i)[N], a));
  for (PetscInt row = 0; row < N; row++) (void)Row(row, n, points, peclet, *j + (*i)[row], *a + (*i)[row]);
  PetscCall(MatCreateSeqAIJWithArrays(PETSC_COMM_SELF, N, N, *i, *j, *a, A));
  PetscCall(MatConvert(*A, MATAIJSTREAM, MAT_INPLACE_MATRIX, A));
  PetscCall(MatSetFromOptions(*A));
  PetscFunctionReturn(0);
}

static PetscErrorCode SetMemory(Mat A, PetscReal bytes)
{
  char value[32];

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(value, sizeof(value), "%.0f", (double)bytes));
  PetscCall(PetscOptionsSetValue(NULL, "-mat_stream_memory", value));
  PetscCall(MatSetFromOptions(A));
  PetscFunctionReturn(0);
}

/* Until the GPU has done its work */
static PetscErrorCode Wait(void)
{
  PetscFunctionBeginUser;
#if PetscDefined(HAVE_CUDA)
  PetscCallCUDA(cudaDeviceSynchronize());
#endif
  PetscFunctionReturn(0);
}

#if PetscDefined(HAVE_CUDA)
/* Bytes a second of copies of 64 MB from pinned memory */
static PetscErrorCode CopySpeed(PetscReal *speed)
{
  const size_t   bytes = 64000000;
  void          *host, *device;
  PetscLogDouble begin = 0.0, end;

  PetscFunctionBeginUser;
  PetscCallCUDA(cudaMallocHost(&host, bytes));
  PetscCallCUDA(cudaMalloc(&device, bytes));
  for (PetscInt run = 0; run < 60; run++) {
    if (run == 10) {
      PetscCallCUDA(cudaDeviceSynchronize());
      PetscCall(PetscTime(&begin));
    }
    PetscCallCUDA(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, 0));
  }
  PetscCallCUDA(cudaDeviceSynchronize());
  PetscCall(PetscTime(&end));
  *speed = 50.0 * (PetscReal)bytes / (end - begin);
  PetscCallCUDA(cudaFree(device));
  PetscCallCUDA(cudaFreeHost(host));
  PetscFunctionReturn(0);
}
#endif

/* Seconds of MatMult() (degree 0), or of MatPowersSum(): the median */
static PetscErrorCode Time(Mat A, Vec x, Vec y, PetscInt degree, PetscInt repeat, PetscReal *seconds)
{
  PetscScalar gamma[128], theta[128], mu[128], c[129];
  PetscReal  *times;

  PetscFunctionBeginUser;
  for (PetscInt j = 0; j < degree; j++) {
    gamma[j] = 0.1;
    theta[j] = 0.5;
    mu[j]    = 0.2;
    c[j] = c[j + 1] = 0.3;
  }
  PetscCall(PetscMalloc1(repeat + 1, &times));
  for (PetscInt run = 0; run <= repeat; run++) {
    PetscLogDouble begin, end;

    PetscCall(Wait());
    PetscCall(PetscTime(&begin));
    if (degree) PetscCall(MatPowersSum(A, NULL, x, degree, gamma, theta, mu, c, y, NULL));
    else PetscCall(MatMult(A, x, y));
    PetscCall(Wait());
    PetscCall(PetscTime(&end));
    times[run] = (PetscReal)(end - begin);
  }
  PetscCall(PetscSortReal(repeat, times + 1)); /* the first one registers memory */
  *seconds = times[1 + repeat / 2];
  PetscCall(PetscFree(times));
  PetscFunctionReturn(0);
}

static PetscErrorCode Solve(Mat A, Vec b, Vec x)
{
  KSP                ksp;
  KSPConvergedReason reason;
  PetscInt           its;
  PetscReal          norm, bnorm;
  PetscLogDouble     begin, end;

  PetscFunctionBeginUser;
  PetscCall(KSPCreate(PETSC_COMM_SELF, &ksp));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPSetType(ksp, KSPIDRS));
  PetscCall(KSPSetTolerances(ksp, 1e-8, PETSC_DEFAULT, PETSC_DEFAULT, 10000));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(PetscTime(&begin));
  PetscCall(KSPSetUp(ksp));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(Wait());
  PetscCall(PetscTime(&end));
  PetscCall(KSPGetConvergedReason(ksp, &reason));
  PetscCall(KSPGetIterationNumber(ksp, &its));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecNorm(b, NORM_2, &bnorm));
  PetscCall(VecScale(b, -1.0));
  PetscCall(MatMultAdd(A, x, b, b));
  PetscCall(VecNorm(b, NORM_2, &norm));
  PetscCall(PetscPrintf(PETSC_COMM_SELF, "solve: %.3f s, %" PetscInt_FMT " iterations, |b-Ax|/|b| %.2e, %s\n",
                        (double)(end - begin), its, (double)(norm / bnorm), KSPConvergedReasons[reason]));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  PetscInt n = 200, points = 7, repeat = 5, count = MOST_DEGREES, memories = MOST_DEGREES + 1, degrees[MOST_DEGREES] = {8, 16, 32},
           *i, *j;
  PetscBool    set, solve      = PETSC_FALSE;
  PetscReal    product, peclet = 0.5, memory[MOST_DEGREES + 1];
  PetscScalar *a;
  Mat          A;
  Vec          x, y;
#if PetscDefined(HAVE_CUDA)
  PetscReal speed;
#endif

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(KSPIDRSRegister());
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-n", &n, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-points", &points, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-repeat", &repeat, NULL));
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-solve", &solve, NULL));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-peclet", &peclet, NULL));
  PetscCall(PetscOptionsGetIntArray(NULL, NULL, "-degrees", degrees, &count, &set));
  if (!set) count = 3;
  PetscCall(PetscOptionsGetRealArray(NULL, NULL, "-memories", memory, &memories, &set));
  if (!set) memories = 0;
  for (PetscInt d = 0; d < count; d++)
    PetscCheck(degrees[d] >= 1 && degrees[d] <= 128, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
               "-degrees %" PetscInt_FMT ": must be 1 to 128", degrees[d]);
  PetscCheck(n >= 1 && repeat >= 1 && (points == 7 || points == 27), PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
             "-n %" PetscInt_FMT " -repeat %" PetscInt_FMT " -points %" PetscInt_FMT
             ": -n and -repeat must be positive, and -points 7 or 27",
             n, repeat, points);
  PetscCall(StreamedCreate(n, points, peclet, &i, &j, &a, &A));
  PetscCall(MatCreateVecs(A, &x, &y));
  PetscCall(VecSet(x, 1.0));
  PetscCall(PetscPrintf(PETSC_COMM_SELF, "%" PetscInt_FMT " points, %" PetscInt_FMT "^3\n", points, n));
#if PetscDefined(HAVE_CUDA)
  PetscCall(CopySpeed(&speed));
  PetscCall(PetscPrintf(PETSC_COMM_SELF, "Copies from pinned memory %.1f GB/s\n", (double)(1e-9 * speed)));
#endif
  if (memories) PetscCall(SetMemory(A, memory[0]));
  PetscCall(Time(A, x, y, 0, repeat, &product));
  PetscCall(PetscPrintf(PETSC_COMM_SELF, "MatMult() %.2f ms, %.1f GB/s with 12 bytes a nonzero and 4 a row\n",
                        (double)(1e3 * product), (double)(1e-9 * (12.0 * i[n * n * n] + 4.0 * n * n * n) / product)));
  for (PetscInt d = 0; d < count; d++) {
    PetscReal seconds;

    if (memories > d + 1) PetscCall(SetMemory(A, memory[d + 1]));
    PetscCall(Time(A, x, y, degrees[d], repeat, &seconds));
    PetscCall(PetscPrintf(PETSC_COMM_SELF,
                          "MatPowersSum(), degree %" PetscInt_FMT ": %.2f ms, %.2f of the speed of as many products\n", degrees[d],
                          (double)(1e3 * seconds), (double)((PetscReal)degrees[d] * product / seconds)));
  }
  if (count) PetscCall(PetscViewerPushFormat(PETSC_VIEWER_STDOUT_SELF, PETSC_VIEWER_ASCII_INFO_DETAIL));
  if (count) PetscCall(MatView(A, PETSC_VIEWER_STDOUT_SELF));
  if (count) PetscCall(PetscViewerPopFormat(PETSC_VIEWER_STDOUT_SELF));
  if (solve) {
    PetscCall(VecSet(y, 1.0));
    PetscCall(Solve(A, y, x));
  }
  PetscCall(VecDestroy(&y));
  PetscCall(VecDestroy(&x));
  PetscCall(MatDestroy(&A));
  PetscCall(PetscFree(a));
  PetscCall(PetscFree(j));
  PetscCall(PetscFree(i));
  PetscCall(PetscFinalize());
  return 0;
}
