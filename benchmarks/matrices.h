/*
   Matrices that are timed
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
    const uint32_t first = Scatter(2 * (uint64_t)row) % (uint32_t)(most - least), second = Scatter(2 * (uint64_t)row + 1) % (uint32_t)(most - least);
    const PetscInt count = least + (PetscInt)PetscMin(first, second);

    for (PetscInt j = 0; j < count; j++) {
      const PetscInt near = row - band + (PetscInt)(Scatter(64 * (uint64_t)row + (uint64_t)j) % (uint32_t)(2 * band));

      columns[j] = j ? PetscMin(PetscMax(near, 0), blocks - 1) : row;
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
