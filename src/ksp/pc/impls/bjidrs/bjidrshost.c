/*
   All systems one after another, in the memory of the host
*/
#include "bjidrsimpl.h"

/* A team of one */
#define IDRS_TEAM_FUNCTION IDRS_INLINE
#define IDRS_TEAM_ROWS     256
#define IDRS_TEAM_ENTRIES  1

typedef PetscInt IDRSTeamIndex;
typedef enum {
  BJIDRS_ONE
} IDRSTeam;

static inline PetscInt IDRSTeamMember(IDRSTeam team)
{
  (void)team;
  return 0;
}

static inline PetscInt IDRSTeamMembers(IDRSTeam team)
{
  (void)team;
  return 1;
}

static inline void IDRSTeamSync(IDRSTeam team)
{
  (void)team;
}

static inline void IDRSTeamSum(IDRSTeam team, PetscScalar part[], PetscInt count, PetscScalar sums[])
{
  (void)team;
  for (PetscInt i = 0; i < count; i++) sums[i] = part[i];
}

#include <petscidrs/private/idrsloops.h>
#include <petscidrs/private/idrsblocksolve.h>

IDRS_VECTORISED static void BJIDRSSolveBlock(IDRSBlockSystem *system, IDRSBlockResult *result)
{
  IDRSBlockSolve(system, system->limits->s, result);
}

static PetscErrorCode BJIDRSSolve_Host(PC pc, const IDRSBlockLimits *limits, PetscInt columns, PetscInt ldb, const PetscScalar B[],
                                       PetscInt ldx, PetscScalar X[])
{
  PC_BJIDRS         *bjidrs  = (PC_BJIDRS *)pc->data;
  const PetscScalar *inverse = NULL;
  PetscLogDouble     flops   = 0.0;
  PetscScalar       *memory, *y;
  PetscInt           entries;
  IDRSBlockWork      work;
  IDRSRows           rows;

  PetscFunctionBegin;
  PetscCall(PetscIntMultError(IDRS_BLOCK_ENTRIES(limits->s), bjidrs->largest, &entries));
  PetscCall(PetscMalloc2(entries, &memory, bjidrs->largest, &y));
  PetscCall(IDRSRowsGet(bjidrs->A, &rows));
  if (bjidrs->inverse) PetscCall(VecGetArrayRead(bjidrs->inverse, &inverse));
  for (PetscInt j = 0; j < columns; j++) {
    for (PetscInt i = 0; i < bjidrs->nblocks; i++) {
      const PetscInt  first = bjidrs->starts[i], n = bjidrs->starts[i + 1] - first, k = j * bjidrs->nblocks + i;
      IDRSBlockSystem system = {
        .team   = BJIDRS_ONE,
        .A      = {.first = first, .n = n, .i = rows.i, .j = rows.j, .a = rows.a, .inverse = inverse},
        .limits = limits,
        .b      = B + (size_t)j * ldb + first,
        .x      = X + (size_t)j * ldx + first,
        .y      = y,
        .work   = &work
      };
      IDRSBlockResult result;

      IDRSBlockSetPanels(&system, limits->s, memory);
      BJIDRSSolveBlock(&system, &result);
      bjidrs->reasons[k] = result.reason;
      bjidrs->its[k]     = result.its;
      bjidrs->norms[k]   = result.norm;
      /* on average half of the columns in direction and update, and all in the sums */
      flops += (PetscLogDouble)result.products * (2.0 * (PetscLogDouble)(rows.i[first + n] - rows.i[first]) +
                                                  6.0 * (PetscLogDouble)(limits->s + 1) * (PetscLogDouble)n);
    }
  }
  PetscCall(PetscLogFlops(flops));
  PetscCall(PetscFree2(memory, y));
  if (bjidrs->inverse) PetscCall(VecRestoreArrayRead(bjidrs->inverse, &inverse));
  PetscCall(IDRSRowsRestore(&rows));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode BJIDRSApply_Host(PC pc, const IDRSBlockLimits *limits, Vec x, Vec y)
{
  const PetscScalar *b;
  PetscScalar       *solution;

  PetscFunctionBegin;
  PetscCall(VecGetArrayRead(x, &b));
  PetscCall(VecGetArrayWrite(y, &solution));
  PetscCall(BJIDRSSolve_Host(pc, limits, 1, 0, b, 0, solution));
  PetscCall(VecRestoreArrayWrite(y, &solution));
  PetscCall(VecRestoreArrayRead(x, &b));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode BJIDRSMatApply_Host(PC pc, const IDRSBlockLimits *limits, Mat X, Mat Y)
{
  const PetscScalar *B;
  PetscScalar       *solutions;
  PetscInt           columns, ldb, ldx;

  PetscFunctionBegin;
  PetscCall(MatGetSize(X, NULL, &columns));
  PetscCall(MatDenseGetLDA(X, &ldb));
  PetscCall(MatDenseGetLDA(Y, &ldx));
  PetscCall(MatDenseGetArrayRead(X, &B));
  PetscCall(MatDenseGetArrayWrite(Y, &solutions));
  PetscCall(BJIDRSSolve_Host(pc, limits, columns, ldb, B, ldx, solutions));
  PetscCall(MatDenseRestoreArrayWrite(Y, &solutions));
  PetscCall(MatDenseRestoreArrayRead(X, &B));
  PetscFunctionReturn(PETSC_SUCCESS);
}

const BJIDRSOps BJIDRSBackEnds_Host = {.name     = "in the memory of the host",
                                       .apply    = BJIDRSApply_Host,
                                       .matapply = BJIDRSMatApply_Host};
