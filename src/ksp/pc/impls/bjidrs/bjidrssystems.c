/*
   Rows of the diagonal blocks, and the back ends that solve with them
*/
#include "bjidrsimpl.h"

/* In the memory of the host, and on the GPU */
static const BJIDRSOps *const BJIDRSBackEnds[] = {&BJIDRSBackEnds_Host,
#if defined(PETSCIDRS_HAVE_CUDA)
                                                  &BJIDRSBackEnds_CUDA
#else
                                                  &BJIDRSBackEnds_Host
#endif
};

/* BJIDRSGetBackEnd_Private - Returns the back end for a matrix and vectors on the GPU, or in the memory of the host */
const BJIDRSOps *BJIDRSGetBackEnd_Private(PetscBool gpu)
{
  return BJIDRSBackEnds[gpu ? 1 : 0];
}

/* BJIDRSResetSystems_Private - Frees the data of the present blocks, in all back ends */
PetscErrorCode BJIDRSResetSystems_Private(PC_BJIDRS *bjidrs)
{
  PetscFunctionBegin;
  for (size_t l = 0; l < PETSC_STATIC_ARRAY_LENGTH(BJIDRSBackEnds); l++) PetscCall((*BJIDRSBackEnds[l]->reset)(bjidrs));
  bjidrs->nblocks = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the first rows of the blocks. If they have not changed, back ends keep their data */
static PetscErrorCode BJIDRSSetStarts(PC_BJIDRS *bjidrs, PetscInt nblocks, const PetscInt sizes[], PetscInt size)
{
  PetscInt *starts;
  PetscBool same = PETSC_FALSE;

  PetscFunctionBegin;
  PetscCall(PetscMalloc1(nblocks + 1, &starts));
  starts[0] = 0;
  for (PetscInt i = 0; i < nblocks; i++) starts[i + 1] = starts[i] + (sizes ? sizes[i] : size);
  if (bjidrs->starts && nblocks == bjidrs->nblocks) PetscCall(PetscArraycmp(starts, bjidrs->starts, nblocks + 1, &same));
  if (!same) {
    PetscCall(BJIDRSResetSystems_Private(bjidrs));
    bjidrs->starts  = starts;
    bjidrs->nblocks = nblocks;
  } else PetscCall(PetscFree(starts));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Finds the finest partition of the rows into contiguous blocks without an entry between two of them. An entry in row i and column
   j puts the rows from min(i, j) to max(i, j) into one block
*/
static PetscErrorCode BJIDRSFindInPattern(PC_BJIDRS *bjidrs)
{
  PetscInt       *last, n, nblocks = 0, begin = 0, *sizes;
  const PetscInt *offsets, *columns;
  PetscErrorCode  ierr;
  PetscBool       done;

  PetscFunctionBegin;
  PetscCall(MatGetRowIJ(bjidrs->A, 0, PETSC_FALSE, PETSC_FALSE, &n, &offsets, &columns, &done));
  PetscCheck(done, PETSC_COMM_SELF, PETSC_ERR_PLIB, "MatGetRowIJ() of a matrix of type %s", ((PetscObject)bjidrs->A)->type_name);
  PetscCall(PetscMalloc2(n, &last, n, &sizes));
  for (PetscInt i = 0; i < n; i++) last[i] = i;
  for (PetscInt i = 0; i < n; i++) {
    for (PetscInt l = offsets[i]; l < offsets[i + 1]; l++) {
      const PetscInt low = PetscMin(i, columns[l]);

      last[low] = PetscMax(last[low], PetscMax(i, columns[l]));
    }
  }
  /* a block ends at the first row beyond which none of its rows has an entry */
  for (PetscInt i = 0, end = 0; i < n; i++) {
    end = PetscMax(end, last[i]);
    if (i < end) continue;
    sizes[nblocks++] = i + 1 - begin;
    begin = end = i + 1;
  }
  ierr = BJIDRSSetStarts(bjidrs, nblocks, sizes, 0);
  PetscCall(PetscFree2(last, sizes));
  PetscCall(ierr);
  PetscCall(MatRestoreRowIJ(bjidrs->A, 0, PETSC_FALSE, PETSC_FALSE, &n, &offsets, &columns, &done));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that the sizes are positive, and that their sum is n */
static PetscErrorCode BJIDRSCheckSizes(PetscInt n, PetscInt nblocks, const PetscInt sizes[], const char who[])
{
  PetscInt rest = n;

  PetscFunctionBegin;
  for (PetscInt i = 0; i < nblocks; i++) {
    PetscCheck(sizes[i] > 0, PETSC_COMM_SELF, PETSC_ERR_ARG_OUTOFRANGE,
               "%s: size %" PetscInt_FMT " of block %" PetscInt_FMT " must be positive", who, sizes[i], i);
    PetscCheck(sizes[i] <= rest, PETSC_COMM_SELF, PETSC_ERR_ARG_SIZ,
               "%s: block %" PetscInt_FMT " has %" PetscInt_FMT " rows, and %" PetscInt_FMT " of the %" PetscInt_FMT
               " rows of this process are left for it",
               who, i, sizes[i], rest, n);
    rest -= sizes[i];
  }
  PetscCheck(!rest, PETSC_COMM_SELF, PETSC_ERR_ARG_SIZ,
             "%s: the sizes of %" PetscInt_FMT " blocks sum up to %" PetscInt_FMT ", and this process has %" PetscInt_FMT " rows",
             who, nblocks, n - rest, n);
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   BJIDRSFindSystems_Private - Finds the first rows of the blocks of bjidrs->A: the sizes or the number of the user, else the
   variable block sizes of the matrix, else the blocks in the pattern
*/
PetscErrorCode BJIDRSFindSystems_Private(PC pc)
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
    PetscCheck(n % bjidrs->nasked == 0, PETSC_COMM_SELF, PETSC_ERR_ARG_SIZ,
               "-%spc_bjidrs_blocks %" PetscInt_FMT ": blocks of the same size need a number that divides the %" PetscInt_FMT
               " rows of this process; see PCBJIDRSSetLocalBlocks() for others",
               IDRSPrefix(pc), bjidrs->nasked, n);
    PetscCall(BJIDRSSetStarts(bjidrs, n ? bjidrs->nasked : 0, NULL, n / bjidrs->nasked));
    bjidrs->source = BJIDRS_NUMBER;
  } else if (nvariable) {
    PetscCall(BJIDRSCheckSizes(n, nvariable, variable, "MatSetVariableBlockSizes()"));
    PetscCall(BJIDRSSetStarts(bjidrs, nvariable, variable, 0));
    bjidrs->source = BJIDRS_VARIABLE;
    /* if the pattern has not changed, its blocks have not changed */
  } else if (!bjidrs->starts || bjidrs->source != BJIDRS_PATTERN || pc->flag != SAME_NONZERO_PATTERN) {
    PetscCall(BJIDRSFindInPattern(bjidrs));
    bjidrs->source = BJIDRS_PATTERN;
  }
  bjidrs->largest = 0;
  for (PetscInt i = 0; i < bjidrs->nblocks; i++)
    bjidrs->largest = PetscMax(bjidrs->largest, bjidrs->starts[i + 1] - bjidrs->starts[i]);
  PetscFunctionReturn(PETSC_SUCCESS);
}
