/*
   All systems one after another, in the memory of the host
*/
#include "bjidrsimpl.h"

/* A team of one */
#define IDRS_MEMBER    0
#define IDRS_MEMBERS   1
#define IDRS_TEAM_ROWS 256
#define IDRS_SYNC_TEAM() \
  do { \
  } while (0)

static inline void IDRSTeamSum(const PetscScalar part[], PetscInt count, PetscScalar sums[])
{
  for (PetscInt i = 0; i < count; i++) sums[i] = part[i];
}

#include <petscidrs/private/idrsblocksolve.h>

IDRS_VECTORISED static void BJIDRSSolveBlock(IDRSBlockSystem *system, IDRSBlockResult *result)
{
  IDRSBlockSolve(system, system->limits->s, result);
}

/* Panels and vectors of the largest block */
static PetscErrorCode BJIDRSWorkCreate(PetscInt s, PetscInt n, IDRSBlockWork **work, PetscScalar **y)
{
  PetscScalar *memory;

  PetscFunctionBegin;
  PetscCall(PetscNew(work));
  PetscCall(PetscMalloc1((2 * s + 4) * n + 1, &memory));
  (*work)->G = memory;
  (*work)->U = (*work)->G + s * n;
  (*work)->r = (*work)->U + s * n;
  (*work)->v = (*work)->r + n;
  (*work)->t = (*work)->v + n;
  *y         = (*work)->t + n;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* BJIDRSSolve_Host - Solves the systems of all blocks, for each of the columns of B, and fills in their results */
PetscErrorCode BJIDRSSolve_Host(PC pc, const IDRSBlockLimits *limits, PetscInt columns, PetscInt ldb, const PetscScalar B[], PetscInt ldx, PetscScalar X[])
{
  PC_BJIDRS         *bjidrs  = (PC_BJIDRS *)pc->data;
  const PetscScalar *inverse = NULL;
  PetscLogDouble     flops   = 0.0;
  PetscScalar       *y       = NULL;
  IDRSBlockWork     *work;
  IDRSRows           rows;

  PetscFunctionBegin;
  PetscCall(IDRSRowsGet(bjidrs->A, &rows));
  if (bjidrs->inverse) PetscCall(VecGetArrayRead(bjidrs->inverse, &inverse));
  PetscCall(BJIDRSWorkCreate(limits->s, bjidrs->largest, &work, &y));
  for (PetscInt j = 0; j < columns; j++) {
    for (PetscInt i = 0; i < bjidrs->nblocks; i++) {
      const PetscInt  first = bjidrs->starts[i], n = bjidrs->starts[i + 1] - first, k = j * bjidrs->nblocks + i;
      IDRSBlockSystem system = {
        .A = {first, n, rows.i, rows.j, rows.a, inverse},
          .limits = limits, .b = B + j * ldb + first, .x = X + j * ldx + first, .y = y, .work = work
      };
      IDRSBlockResult result;

      BJIDRSSolveBlock(&system, &result);
      bjidrs->reasons[k] = result.reason;
      bjidrs->its[k]     = result.its;
      bjidrs->norms[k]   = result.norm;
      /* on average half of the columns in direction and update, and all in the sums */
      flops += (PetscLogDouble)result.products * (2.0 * (PetscLogDouble)(rows.i[first + n] - rows.i[first]) + 6.0 * (PetscLogDouble)(limits->s + 1) * (PetscLogDouble)n);
    }
  }
  PetscCall(PetscLogFlops(flops));
  PetscCall(PetscFree(work->G));
  PetscCall(PetscFree(work));
  if (bjidrs->inverse) PetscCall(VecRestoreArrayRead(bjidrs->inverse, &inverse));
  PetscCall(IDRSRowsRestore(&rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}
