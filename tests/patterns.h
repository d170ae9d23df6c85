/* Matrices for tests of products, and their products in long double */
#pragma once

#include "harness.h"
#include "hash.h"
#include "wide.h"

typedef enum {
  GRID,      /* offsets 1, 7 and 49 to both sides */
  IRREGULAR, /* 3 to 60 entries near the diagonal */
  GAPS,      /* a third of the rows is empty, also the last ones */
  DENSE,     /* one row has all columns */
  FAR,       /* 12 columns anywhere */
  LONG,      /* some rows are very long, others have one entry */
  BLOCKS,    /* of 3 rows and columns */
  PATTERNS
} Pattern;
static const char *const patterns[] = {"grid", "irregular", "gaps", "dense row", "far columns", "long rows", "blocks"};

/* Computes the columns of a row; some may occur twice, or be outside */
static inline PetscInt Columns(Pattern pattern, PetscInt N, PetscInt row, PetscInt columns[])
{
  const PetscInt offsets[] = {-49, -7, -1, 0, 1, 7, 49};
  PetscInt       count     = 0;

  switch (pattern) {
  case GRID:
    for (PetscInt l = 0; l < 7; l++) columns[count++] = row + offsets[l];
    break;
  case IRREGULAR:
    for (PetscInt l = 0; l < 3 + (PetscInt)(Bits(1, (uint64_t)row) % 58); l++)
      columns[count++] = row - 300 + (PetscInt)(Bits(2 + (uint64_t)l, (uint64_t)row) % 600);
    break;
  case GAPS:
    if (row % 3 && row < N - 40) {
      columns[count++] = row;
      columns[count++] = N - 1 - row;
    }
    break;
  case DENSE:
    if (row == N / 3) {
      for (PetscInt l = 0; l < N; l++) columns[count++] = l;
    } else {
      columns[count++] = row;
      columns[count++] = row + 1;
    }
    break;
  case FAR:
    for (PetscInt l = 0; l < 12; l++) columns[count++] = (PetscInt)(Bits(2 + (uint64_t)l, (uint64_t)row) % (uint64_t)N);
    break;
  case LONG:
    if (row % 50000 == 17) {
      for (PetscInt l = 0; l < N / (1 + row / 50000); l++) columns[count++] = l;
    } else columns[count++] = (row * 7) % N;
    break;
  default:
    for (PetscInt l = 0; l < 5; l++) {
      const PetscInt bs = 3, block = row / bs + (l ? (PetscInt)(Bits(2 + (uint64_t)l, (uint64_t)(row / bs)) % 200) - 100 : 0);

      for (PetscInt i = 0; i < bs; i++) columns[count++] = bs * block + i;
    }
  }
  return count;
}

/* Creates a matrix of this pattern with n rows on this process, of type MATAIJ or a type derived from it */
static inline PetscErrorCode PatternCreate(Pattern pattern, MatType type, PetscInt n, Mat *A)
{
  PetscInt    begin, end, N, *columns, *inside, *outside;
  PetscScalar value;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_WORLD, A));
  PetscCall(MatSetSizes(*A, n, n, PETSC_DETERMINE, PETSC_DETERMINE));
  if (pattern == BLOCKS) PetscCall(MatSetBlockSize(*A, 3));
  PetscCall(MatSetType(*A, type));
  IDRSCallAllreduce(&n, &N, 1, MPIU_INT, MPI_SUM, PETSC_COMM_WORLD);
  PetscCall(PetscMalloc3(N + 64, &columns, n, &inside, n, &outside));
  PetscCallMPI(MPI_Scan(&n, &end, 1, MPIU_INT, MPI_SUM, PETSC_COMM_WORLD));
  begin = end - n;
  for (PetscInt row = begin; row < end; row++) {
    const PetscInt count = Columns(pattern, N, row, columns);

    inside[row - begin]  = PetscMin(count, n);
    outside[row - begin] = PetscMin(count, N - n);
  }
  PetscCall(MatSeqAIJSetPreallocation(*A, 0, inside));
  PetscCall(MatMPIAIJSetPreallocation(*A, 0, inside, 0, outside));
  PetscCall(MatSetOption(*A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
  for (PetscInt row = begin; row < end; row++) {
    const PetscInt count = Columns(pattern, N, row, columns);

    for (PetscInt l = 0; l < count; l++) {
      value = Number(50, (uint64_t)row * 64 + (uint64_t)l);
      if (columns[l] >= 0 && columns[l] < N) PetscCall(MatSetValues(*A, 1, &row, 1, &columns[l], &value, ADD_VALUES));
    }
  }
  PetscCall(MatAssemble(*A));
  PetscCall(PetscFree3(columns, inside, outside));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks x = A u with the rows of A in long double, component by component; all is u on all processes */
static inline PetscErrorCode CheckRows(Mat A, Vec all, Vec x, const char what[])
{
  const PetscScalar *uarray, *xarray, *values;
  const PetscInt    *columns;
  PetscInt           begin, end, count;

  PetscFunctionBeginUser;
  PetscCall(VecGetArrayRead(all, &uarray));
  PetscCall(VecGetArrayRead(x, &xarray));
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  for (PetscInt row = begin; row < end; row++) {
    Wide        sum  = 0;
    long double size = 0;
    PetscInt    terms;

    PetscCall(MatGetRow(A, row, &count, &columns, &values));
    terms = count; /* MatRestoreRow() discards it */
    for (PetscInt l = 0; l < count; l++) {
      sum += (Wide)values[l] * (Wide)uarray[columns[l]];
      size += WideAbs((Wide)values[l]) * WideAbs((Wide)uarray[columns[l]]);
    }
    PetscCall(MatRestoreRow(A, row, &count, &columns, &values));
    PetscCall(ComplainIf(!(WideAbs((Wide)xarray[row - begin] - sum) <= (terms + 8) * (long double)PETSC_MACHINE_EPSILON * size),
                         "%s: row %" INT " of %" INT " entries: %g, not %g", what, row, terms,
                         (double)PetscRealPart(xarray[row - begin]), (double)WideAbs(sum)));
  }
  PetscCall(VecRestoreArrayRead(x, &xarray));
  PetscCall(VecRestoreArrayRead(all, &uarray));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode CheckProduct(Mat A, Vec u, Vec x, const char what[])
{
  Vec all;

  PetscFunctionBeginUser;
  PetscCall(GatherCreate(u, &all));
  PetscCall(CheckRows(A, all, x, what));
  PetscCall(VecDestroy(&all));
  PetscFunctionReturn(PETSC_SUCCESS);
}
