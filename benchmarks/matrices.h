/*
   Matrices of the benchmarks: convection-diffusion in 3-D, recirculating convection in 2-D, and rows of different lengths
*/
#pragma once

#include <petscmat.h>

/* Row i of the operator: -Laplace u + wind . grad u with central differences, scaled by h^2 */
static inline PetscErrorCode ConvectionDiffusion(MPI_Comm comm, PetscInt n, PetscInt nz, PetscReal peclet, Mat *newmat)
{
  Mat      A;
  PetscInt rstart, rend, N = n * n * nz;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(comm, &A));
  PetscCall(MatSetSizes(A, PETSC_DECIDE, PETSC_DECIDE, N, N));
  PetscCall(MatSetFromOptions(A));
  PetscCall(MatSeqAIJSetPreallocation(A, 7, NULL));
  PetscCall(MatMPIAIJSetPreallocation(A, 7, NULL, 3, NULL));
  PetscCall(MatGetOwnershipRange(A, &rstart, &rend));
  for (PetscInt row = rstart; row < rend; row++) {
    const PetscInt step[3] = {1, n, n * n}, points[3] = {n, n, nz}, place[3] = {row % n, (row / n) % n, row / (n * n)};
    PetscInt       columns[7], count = 0;
    PetscScalar    values[7];

    columns[count]  = row;
    values[count++] = 6.0;
    for (PetscInt d = 0; d < 3; d++) {
      if (place[d] > 0) {
        columns[count]  = row - step[d];
        values[count++] = -1.0 - peclet;
      }
      if (place[d] < points[d] - 1) {
        columns[count]  = row + step[d];
        values[count++] = -1.0 + peclet;
      }
    }
    PetscCall(MatSetValues(A, 1, &row, count, columns, values, INSERT_VALUES));
  }
  PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  *newmat = A;
  PetscFunctionReturn(0);
}

/*
   -Laplace u + 400 wind . grad u in two dimensions, where the wind goes round in the square, with first differences against the
   wind; scaled by h^2
*/
static inline PetscErrorCode Recirculation(MPI_Comm comm, PetscInt n, Mat *newmat)
{
  const PetscReal h = 1.0 / (PetscReal)(n + 1);
  PetscInt        begin, end;
  Mat             A;

  PetscFunctionBegin;
  PetscCall(MatCreate(comm, &A));
  PetscCall(MatSetSizes(A, PETSC_DECIDE, PETSC_DECIDE, n * n, n * n));
  PetscCall(MatSetFromOptions(A));
  PetscCall(MatSeqAIJSetPreallocation(A, 5, NULL));
  PetscCall(MatMPIAIJSetPreallocation(A, 5, NULL, 2, NULL));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  for (PetscInt row = begin; row < end; row++) {
    const PetscInt  place[2] = {row % n, row / n}, step[2] = {1, n};
    const PetscReal x = h * (PetscReal)(place[0] + 1), y = h * (PetscReal)(place[1] + 1);
    const PetscReal wind[2]  = {1600 * h * x * (x - 1) * (1 - 2 * y), -1600 * h * y * (y - 1) * (1 - 2 * x)};
    PetscScalar     diagonal = 4.0;

    for (PetscInt d = 0; d < 2; d++) {
      diagonal += PetscAbsReal(wind[d]);
      if (place[d] > 0) PetscCall(MatSetValue(A, row, row - step[d], -1.0 - PetscMax(wind[d], 0.0), INSERT_VALUES));
      if (place[d] < n - 1) PetscCall(MatSetValue(A, row, row + step[d], -1.0 + PetscMin(wind[d], 0.0), INSERT_VALUES));
    }
    PetscCall(MatSetValue(A, row, row, diagonal, INSERT_VALUES));
  }
  PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  *newmat = A;
  PetscFunctionReturn(0);
}

/* Number i of a sequence without a pattern */
static uint32_t Scatter(uint64_t i)
{
  i = (i + 1) * 0x9e3779b97f4a7c15u;
  i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9u;
  return (uint32_t)(i >> 32);
}

/* Rows of different lengths, in blocks of bs rows and columns, diagonally dominant */
static inline PetscErrorCode Irregular(MPI_Comm comm, PetscInt N, PetscInt bs, Mat *newmat)
{
  const PetscInt blocks = N / bs, band = 8192 / bs, least = PetscMax(3 / bs, 1), most = 60 / bs;
  PetscInt       begin, end, *columns;
  PetscScalar   *values;
  Mat            A;

  PetscFunctionBeginUser;
  PetscCall(PetscMalloc2(most * bs, &columns, most * bs * bs, &values));
  PetscCall(MatCreate(comm, &A));
  PetscCall(MatSetSizes(A, PETSC_DECIDE, PETSC_DECIDE, blocks * bs, blocks * bs));
  PetscCall(MatSetBlockSize(A, bs));
  PetscCall(MatSetFromOptions(A));
  PetscCall(MatSeqAIJSetPreallocation(A, most * bs, NULL));
  PetscCall(MatMPIAIJSetPreallocation(A, most * bs, NULL, most * bs, NULL));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  for (PetscInt row = begin / bs; row < end / bs; row++) {
    const uint32_t first  = Scatter(2 * (uint64_t)row) % (uint32_t)(most - least),
                   second = Scatter(2 * (uint64_t)row + 1) % (uint32_t)(most - least);
    const PetscInt count  = least + (PetscInt)PetscMin(first, second);

    for (PetscInt j = 0; j < count; j++) {
      const PetscInt near = PetscAbsInt(row - band + (PetscInt)(Scatter(64 * (uint64_t)row + (uint64_t)j) % (uint32_t)(2 * band)));

      /* reflected at both ends, so that no column has many more entries than others */
      columns[j] = j ? PetscMax(blocks - 1 - PetscAbsInt(blocks - 1 - near), 0) : row;
      for (PetscInt l = 0; l < bs; l++) {
        for (PetscInt i = 0; i < bs; i++) values[(l * count + j) * bs + i] = j ? -0.5 : (i == l ? 4.0 + 0.75 * bs * count : 0.5);
      }
    }
    PetscCall(MatSetValuesBlocked(A, 1, &row, count, columns, values, ADD_VALUES));
  }
  PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  PetscCall(PetscFree2(columns, values));
  *newmat = A;
  PetscFunctionReturn(0);
}
