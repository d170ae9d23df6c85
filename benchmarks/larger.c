static char help[] = "A matrix larger than the GPU's memory, in the memory of the host: the tensor product of three band\n\
matrices, one for each direction of a grid of n^3 points, whose products with tensor products of vectors are known. Type\n\
aijstream; its arrays are made in place, by slabs of planes.\n\
  -n 40           points in each direction\n\
  -width 2        (2 width + 1)^3 points of the stencil\n\
  -repeat 3       products that are timed, after the first one\n\
  -degree 0       also the vector A^degree x, by MatPowersSum()\n\
  -memories a,b   -mat_stream_memory, one after the other; without it half of what is free\n\n";

#include <petscmat.h>
#include <petsctime.h>
#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>
#if PetscDefined(HAVE_CUDA)
  #include <petscdevice_cuda.h>
#endif

#define MOST_WIDTH 3

/* One direction: entry (i, i + d) of a band matrix is at place d + width of row i, and positive, where there is such a column */
typedef struct {
  PetscInt   n, width;
  PetscReal *entries[3];
} Bands;

static PetscErrorCode BandsCreate(PetscInt n, PetscInt width, Bands *bands)
{
  PetscRandom random;

  PetscFunctionBeginUser;
  bands->n     = n;
  bands->width = width;
  PetscCall(PetscRandomCreate(PETSC_COMM_SELF, &random)); /* the same numbers on all processes */
  PetscCall(PetscRandomSetInterval(random, 0.5, 1.5));
  for (PetscInt direction = 0; direction < 3; direction++) {
    PetscCall(PetscMalloc1(n * (2 * width + 1), &bands->entries[direction]));
    for (PetscInt p = 0; p < n * (2 * width + 1); p++) {
      PetscCall(PetscRandomGetValueReal(random, &bands->entries[direction][p]));
      bands->entries[direction][p] /= (PetscReal)(2 * width + 1);
    }
  }
  PetscCall(PetscRandomDestroy(&random));
  PetscFunctionReturn(0);
}

static PetscErrorCode BandsDestroy(Bands *bands)
{
  PetscFunctionBeginUser;
  for (PetscInt direction = 0; direction < 3; direction++) PetscCall(PetscFree(bands->entries[direction]));
  PetscFunctionReturn(0);
}

/* The factor of the vector x in one direction, and of A^power x */
static PetscErrorCode BandsFactor(const Bands *bands, PetscInt direction, PetscInt power, PetscReal factor[])
{
  const PetscInt n = bands->n, width = bands->width;
  PetscReal     *next;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(n, &next));
  for (PetscInt i = 0; i < n; i++) factor[i] = 1.0 + 0.5 * PetscSinReal((PetscReal)(i * (direction + 2)));
  for (PetscInt p = 0; p < power; p++) {
    for (PetscInt i = 0; i < n; i++) {
      next[i] = 0.0;
      for (PetscInt d = PetscMax(-width, -i); d <= PetscMin(width, n - 1 - i); d++)
        next[i] += bands->entries[direction][i * (2 * width + 1) + d + width] * factor[i + d];
    }
    PetscCall(PetscArraycpy(factor, next, n));
  }
  PetscCall(PetscFree(next));
  PetscFunctionReturn(0);
}

/* The rows of this process, with columns that are its own, which count from its first one, or with those of other processes */
static PetscErrorCode RowsCreate(const Bands *bands, PetscInt plane, PetscInt planes, PetscBool own, PetscInt **i, PetscInt **j,
                                 PetscScalar **a)
{
  const PetscInt n = bands->n, width = bands->width, begin = own ? n * n * plane : 0;
  PetscCount     count = 0;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc1(n * n * planes + 1, i));
  for (PetscInt fill = 0; fill < 2; fill++) {
    (*i)[0] = 0;
    count   = 0;
    for (PetscInt z = plane; z < plane + planes; z++) {
      for (PetscInt y = 0; y < n; y++) {
        for (PetscInt x = 0; x < n; x++) {
          for (PetscInt dz = PetscMax(-width, -z); dz <= PetscMin(width, n - 1 - z); dz++) {
            const PetscReal ez = bands->entries[2][z * (2 * width + 1) + dz + width];

            if ((z + dz >= plane && z + dz < plane + planes) != (own == PETSC_TRUE)) continue;
            for (PetscInt dy = PetscMax(-width, -y); dy <= PetscMin(width, n - 1 - y); dy++) {
              const PetscReal eyz = ez * bands->entries[1][y * (2 * width + 1) + dy + width];
              const PetscInt  row = n * (y + dy + n * (z + dz)) - begin, first = PetscMax(-width, -x),
                             last = PetscMin(width, n - 1 - x);

              for (PetscInt dx = first; fill && dx <= last; dx++) {
                (*j)[count + dx - first] = row + x + dx;
                (*a)[count + dx - first] = eyz * bands->entries[0][x * (2 * width + 1) + dx + width];
              }
              count += last - first + 1;
            }
          }
          PetscCheck(count <= PETSC_MAX_INT, PETSC_COMM_SELF, PETSC_ERR_SUP,
                     "More than %" PetscInt_FMT " nonzeros on a process: take more processes, or PETSc with 64-bit integers",
                     (PetscInt)PETSC_MAX_INT);
          (*i)[n * n * (z - plane) + n * y + x + 1] = (PetscInt)count;
        }
      }
    }
    if (!fill) PetscCall(PetscMalloc1(PetscMax(count, 1), j));
    if (!fill) PetscCall(PetscMalloc1(PetscMax(count, 1), a));
  }
  PetscFunctionReturn(0);
}

/*
   A^power x, for the rows of this process: x itself for power 0. Writes it, or compares it, with the largest relative difference;
   NaN stays
*/
static PetscErrorCode Product(const Bands *bands, PetscInt power, PetscBool write, Vec v, PetscReal *difference)
{
  const PetscInt n = bands->n;
  PetscReal     *factors[3];
  PetscInt       begin, end;
  PetscScalar   *array;

  PetscFunctionBeginUser;
  for (PetscInt direction = 0; direction < 3; direction++) {
    PetscCall(PetscMalloc1(n, &factors[direction]));
    PetscCall(BandsFactor(bands, direction, power, factors[direction]));
  }
  if (difference) *difference = 0.0;
  PetscCall(VecGetOwnershipRange(v, &begin, &end));
  PetscCall(write ? VecGetArrayWrite(v, &array) : VecGetArrayRead(v, (const PetscScalar **)&array));
  for (PetscInt row = begin; row < end; row++) {
    const PetscReal value = factors[0][row % n] * factors[1][row / n % n] * factors[2][row / n / n];

    if (write) array[row - begin] = value;
    else {
      const PetscReal differs = PetscAbsScalar(array[row - begin] - value) / value;

      if (!(differs <= *difference)) *difference = differs;
    }
  }
  PetscCall(write ? VecRestoreArrayWrite(v, &array) : VecRestoreArrayRead(v, (const PetscScalar **)&array));
  for (PetscInt direction = 0; direction < 3; direction++) PetscCall(PetscFree(factors[direction]));
  if (difference) IDRSCallAllreduce(MPI_IN_PLACE, difference, 1, MPIU_REAL, MPIU_MAX, PETSC_COMM_WORLD);
  PetscFunctionReturn(0);
}

/* Seconds since begin, when all processes and their GPUs are here */
static PetscErrorCode Since(PetscLogDouble *begin, PetscReal *seconds)
{
  PetscLogDouble now;

  PetscFunctionBeginUser;
#if PetscDefined(HAVE_CUDA)
  PetscCallCUDA(cudaDeviceSynchronize());
#endif
  PetscCallMPI(MPI_Barrier(PETSC_COMM_WORLD));
  PetscCall(PetscTime(&now));
  *seconds = (PetscReal)(now - *begin);
  *begin   = now;
  PetscFunctionReturn(0);
}

/*
   A product, or A^degree x, and the result compared with what it is: each entry is a sum of positive numbers, so that its relative
   error is bounded by the roundings
*/
static PetscErrorCode Time(const Bands *bands, Mat A, Vec x, Vec y, PetscInt degree, PetscInt repeat)
{
  const PetscInt points = (2 * bands->width + 1) * (2 * bands->width + 1) * (2 * bands->width + 1);
  PetscScalar    gamma[64], zero[64] = {0.0}, c[65] = {0.0};
  PetscReal     *times, difference, bound           = (PetscReal)(PetscMax(degree, 1) * (points + 8)) * PETSC_MACHINE_EPSILON;
  PetscLogDouble begin;

  PetscFunctionBeginUser;
  for (PetscInt j = 0; j < degree; j++) gamma[j] = 1.0;
  c[degree] = 1.0;
  PetscCall(PetscMalloc1(repeat + 1, &times));
  PetscCall(PetscTime(&begin));
  PetscCall(Since(&begin, &times[0]));
  for (PetscInt run = 0; run <= repeat; run++) {
    if (degree) PetscCall(MatPowersSum(A, NULL, x, degree, gamma, zero, zero, c, y, NULL));
    else PetscCall(MatMult(A, x, y));
    PetscCall(Since(&begin, &times[run]));
  }
  PetscCall(Product(bands, PetscMax(degree, 1), PETSC_FALSE, y, &difference));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%s %" PetscInt_FMT ": the first %.3f s, then",
                        degree ? "MatPowersSum(), degree" : "MatMult(), power", PetscMax(degree, 1), (double)times[0]));
  for (PetscInt run = 1; run <= repeat; run++) PetscCall(PetscPrintf(PETSC_COMM_WORLD, " %.3f", (double)times[run]));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, " s; largest relative error %.2e, bound %.2e: %s\n", (double)difference, (double)bound,
                        difference <= bound ? "as expected" : "WRONG"));
  PetscCall(PetscFree(times));
  PetscFunctionReturn(0);
}

/* The rows of the first process: of all processes PETSC_VIEWER_ASCII_INFO_DETAIL prints the scatter too, a line for each entry */
static PetscErrorCode BlockView(Mat A)
{
  PetscMPIInt rank;
  Mat         block;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  if (rank) PetscFunctionReturn(0);
  PetscCall(MatGetDiagonalBlock(A, &block));
  PetscCall(PetscPrintf(PETSC_COMM_SELF, "Of the first process:\n"));
  PetscCall(PetscViewerPushFormat(PETSC_VIEWER_STDOUT_SELF, PETSC_VIEWER_ASCII_INFO_DETAIL));
  PetscCall(MatView(block, PETSC_VIEWER_STDOUT_SELF));
  PetscCall(PetscViewerPopFormat(PETSC_VIEWER_STDOUT_SELF));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  PetscInt       n = 40, width = 2, repeat = 3, degree = 0, memories = 8, plane = 0, planes = PETSC_DECIDE, *i[2], *j[2];
  PetscScalar   *a[2];
  PetscReal      memory[8] = {0.0}, seconds;
  PetscLogDouble begin, counts[2];
  PetscBool      set;
  Bands          bands;
  Mat            A;
  Vec            x, y;
#if PetscDefined(HAVE_CUDA)
  size_t available = 0, total = 0;
#endif

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(KSPIDRSRegister());
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-n", &n, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-width", &width, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-repeat", &repeat, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-degree", &degree, NULL));
  PetscCall(PetscOptionsGetRealArray(NULL, NULL, "-memories", memory, &memories, &set));
  if (!set) memories = 1;
  PetscCheck(n >= 1 && n <= 1290 && width >= 0 && width <= MOST_WIDTH && repeat >= 0 && degree >= 0 && degree <= 64,
             PETSC_COMM_WORLD, PETSC_ERR_ARG_OUTOFRANGE,
             "-n %" PetscInt_FMT " -width %" PetscInt_FMT " -repeat %" PetscInt_FMT " -degree %" PetscInt_FMT
             ": must be 1 to 1290, 0 to %d, 0 or more, 0 to 64",
             n, width, repeat, degree, MOST_WIDTH);
  PetscCall(PetscSplitOwnership(PETSC_COMM_WORLD, &planes, &n));
  PetscCallMPI(MPI_Exscan(&planes, &plane, 1, MPIU_INT, MPI_SUM, PETSC_COMM_WORLD));
  PetscCall(PetscTime(&begin));
  PetscCall(BandsCreate(n, width, &bands));
  for (PetscInt outside = 0; outside < 2; outside++)
    PetscCall(RowsCreate(&bands, plane, planes, outside ? PETSC_FALSE : PETSC_TRUE, &i[outside], &j[outside], &a[outside]));
  PetscCall(MatCreateMPIAIJWithSplitArrays(PETSC_COMM_WORLD, n * n * planes, n * n * planes, n * n * n, n * n * n, i[0], j[0], a[0],
                                           i[1], j[1], a[1], &A));
  PetscCall(MatConvert(A, MATAIJSTREAM, MAT_INPLACE_MATRIX, &A));
  counts[0] = (PetscLogDouble)i[0][n * n * planes];
  counts[1] = (PetscLogDouble)i[1][n * n * planes];
  IDRSCallAllreduce(MPI_IN_PLACE, counts, 2, MPI_DOUBLE, MPI_SUM, PETSC_COMM_WORLD);
  PetscCall(Since(&begin, &seconds));
  PetscCall(
    PetscPrintf(PETSC_COMM_WORLD,
                "%" PetscInt_FMT
                "^3 rows, %g nonzeros in the blocks on the diagonal and %g outside, %.2f GB with 12 bytes each; made in %.1f s\n",
                n, (double)counts[0], (double)counts[1], (double)(12e-9 * (counts[0] + counts[1])), (double)seconds));
  PetscCall(MatCreateVecs(A, &x, &y));
  PetscCall(Product(&bands, 0, PETSC_TRUE, x, NULL));
#if PetscDefined(HAVE_CUDA)
  if (cudaMemGetInfo(&available, &total) == cudaSuccess)
    PetscCall(
      PetscPrintf(PETSC_COMM_WORLD, "GPU: %.2f GB of memory, %.2f of them free\n", 1e-9 * (double)total, 1e-9 * (double)available));
#endif
  for (PetscInt m = 0; m < memories; m++) {
    char value[32];

    PetscCall(PetscSNPrintf(value, sizeof(value), "%.0f", (double)memory[m]));
    if (memory[m] > 0.0) PetscCall(PetscOptionsSetValue(NULL, "-mat_stream_memory", value));
    PetscCall(MatSetFromOptions(A));
    PetscCall(Time(&bands, A, x, y, 0, repeat));
    if (degree) PetscCall(Time(&bands, A, x, y, degree, repeat));
    PetscCall(BlockView(A));
  }
  PetscCall(VecDestroy(&y));
  PetscCall(VecDestroy(&x));
  PetscCall(MatDestroy(&A));
  for (PetscInt outside = 0; outside < 2; outside++) {
    PetscCall(PetscFree(a[outside]));
    PetscCall(PetscFree(j[outside]));
    PetscCall(PetscFree(i[outside]));
  }
  PetscCall(BandsDestroy(&bands));
  PetscCall(PetscFinalize());
  return 0;
}
