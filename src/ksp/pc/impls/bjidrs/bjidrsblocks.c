/*
   Which rows make up the blocks
*/
#include "bjidrsimpl.h"

static PetscErrorCode BJIDRSSetStarts(PC_BJIDRS *bjidrs, PetscInt nblocks, const PetscInt sizes[], PetscInt size)
{
  PetscFunctionBegin;
  PetscCall(PetscFree(bjidrs->starts));
  PetscCall(PetscMalloc1(nblocks + 1, &bjidrs->starts));
  bjidrs->starts[0] = 0;
  for (PetscInt i = 0; i < nblocks; i++) bjidrs->starts[i + 1] = bjidrs->starts[i] + (sizes ? sizes[i] : size);
  bjidrs->nblocks = nblocks;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   The finest partition of the rows into contiguous blocks without an entry between two of them. An entry in row i and column j has the rows from
   the smaller to the larger of both in one block
*/
static PetscErrorCode BJIDRSFindInPattern(PC_BJIDRS *bjidrs)
{
  PetscInt *last, nblocks = 0, begin = 0, *sizes;
  IDRSRows  rows;

  PetscFunctionBegin;
  PetscCall(IDRSRowsGet(bjidrs->A, &rows));
  PetscCall(PetscMalloc2(rows.n, &last, rows.n, &sizes));
  for (PetscInt i = 0; i < rows.n; i++) last[i] = i;
  for (PetscInt i = 0; i < rows.n; i++) {
    for (PetscInt l = rows.i[i]; l < rows.i[i + 1]; l++) {
      const PetscInt low = PetscMin(i, rows.j[l]);

      last[low] = PetscMax(last[low], PetscMax(i, rows.j[l]));
    }
  }
  for (PetscInt i = 0, end = 0; i < rows.n; i++) {
    end = PetscMax(end, last[i]);
    if (i < end) continue;
    sizes[nblocks++] = i + 1 - begin;
    begin = end = i + 1;
  }
  PetscCall(BJIDRSSetStarts(bjidrs, nblocks, sizes, 0));
  PetscCall(PetscFree2(last, sizes));
  PetscCall(IDRSRowsRestore(&rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* The sizes must be those of all n rows */
static PetscErrorCode BJIDRSCheckSizes(PetscInt n, PetscInt nblocks, const PetscInt sizes[], const char who[])
{
  PetscInt sum = 0;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < nblocks; i++) sum += sizes[i];
  PetscCheck(sum == n, PETSC_COMM_SELF, PETSC_ERR_ARG_SIZ, "%s: the sizes of %" PetscInt_FMT " blocks sum up to %" PetscInt_FMT ", and this process has %" PetscInt_FMT " rows", who, nblocks, sum, n);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* BJIDRSFindBlocks_Private - First rows of the blocks of bjidrs->A: what the user has asked for, else the variable block sizes of the matrix, else those in the pattern */
PetscErrorCode BJIDRSFindBlocks_Private(PC pc)
{
  PC_BJIDRS      *bjidrs   = (PC_BJIDRS *)pc->data;
  const PetscInt *variable = NULL;
  PetscInt        n, nvariable = 0;

  PetscFunctionBegin;
  PetscCall(MatGetLocalSize(bjidrs->A, &n, NULL));
  PetscCall(MatGetVariableBlockSizes(pc->pmat, &nvariable, &variable));
  if (bjidrs->sizes) {
    PetscCall(BJIDRSCheckSizes(n, bjidrs->nasked, bjidrs->sizes, "PCBJIDRSSetLocalBlocks()"));
    PetscCall(BJIDRSSetStarts(bjidrs, bjidrs->nasked, bjidrs->sizes, 0));
    bjidrs->source = BJIDRS_SIZES;
  } else if (bjidrs->nasked) {
    PetscCheck(n % bjidrs->nasked == 0, PETSC_COMM_SELF, PETSC_ERR_ARG_SIZ, "-%spc_bjidrs_blocks %" PetscInt_FMT ": blocks of the same size need a number that divides the %" PetscInt_FMT " rows of this process; see PCBJIDRSSetLocalBlocks() for others",
               ((PetscObject)pc)->prefix ? ((PetscObject)pc)->prefix : "", bjidrs->nasked, n);
    PetscCall(BJIDRSSetStarts(bjidrs, n ? bjidrs->nasked : 0, NULL, n / bjidrs->nasked));
    bjidrs->source = BJIDRS_NUMBER;
  } else if (nvariable) {
    PetscCall(BJIDRSCheckSizes(n, nvariable, variable, "MatSetVariableBlockSizes()"));
    PetscCall(BJIDRSSetStarts(bjidrs, nvariable, variable, 0));
    bjidrs->source = BJIDRS_VARIABLE;
  } else {
    PetscCall(BJIDRSFindInPattern(bjidrs));
    bjidrs->source = BJIDRS_PATTERN;
  }
  bjidrs->largest = 0;
  for (PetscInt i = 0; i < bjidrs->nblocks; i++) bjidrs->largest = PetscMax(bjidrs->largest, bjidrs->starts[i + 1] - bjidrs->starts[i]);
  PetscFunctionReturn(PETSC_SUCCESS);
}
