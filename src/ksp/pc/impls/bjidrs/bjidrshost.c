/*
   Solves all systems one after another, in host memory
*/
#include "bjidrsimpl.h"

/* A team of one */
#define IDRS_TEAM_FUNCTION IDRS_INLINE
#define IDRS_TEAM_ROWS     256
#define IDRS_TEAM_ENTRIES  1

#define IDRSTeamMember(team)  0
#define IDRSTeamMembers(team) 1
#define IDRSTeamSync(team)    (void)(team)
#define IDRSTeamSum(team, part, count, sums) \
  do { \
    for (PetscInt i = 0; i < (count); i++) (sums)[i] = (part)[i]; \
  } while (0)
typedef PetscInt IDRSTeamIndex;
typedef int      IDRSTeam;

#include <petscidrs/private/idrssystem.h>

IDRS_VECTORISED static void BJIDRSSolveSystem(IDRSSystem *system, IDRSSystemResult *result)
{
  IDRSSystemSolve(system, system->limits->s, result);
}

static PetscErrorCode BJIDRSSolve_Host(PC pc, const IDRSSystemLimits *limits, const IDRSArrays *arrays)
{
  PC_BJIDRS          *bjidrs  = (PC_BJIDRS *)pc->data;
  const PetscScalar  *inverse = NULL;
  PetscLogDouble      flops   = 0.0;
  PetscScalar        *memory, *y;
  PetscInt            entries;
  IDRSSystemWorkspace work;
  IDRSRows            rows;

  PetscFunctionBegin;
  PetscCall(PetscIntMultError(IDRS_SYSTEM_ENTRIES(limits->s), bjidrs->largest, &entries));
  PetscCall(PetscMalloc2(entries, &memory, bjidrs->largest, &y));
  PetscCall(IDRSRowsGet(bjidrs->A, &rows));
  if (bjidrs->inverse) PetscCall(VecGetArrayRead(bjidrs->inverse, &inverse));
  for (PetscInt j = 0; j < arrays->columns; j++) {
    for (PetscInt i = 0; i < bjidrs->nblocks; i++) {
      const PetscInt first = bjidrs->starts[i], n = bjidrs->starts[i + 1] - first, k = j * bjidrs->nblocks + i;
      IDRSSystem     system = {
            .A      = {.first = first, .n = n, .i = rows.i, .j = rows.j, .a = rows.a, .inverse = inverse},
            .limits = limits,
            .b      = arrays->b + (size_t)j * arrays->ldb + first,
            .x      = arrays->x + (size_t)j * arrays->ldx + first,
            .y      = y,
            .work   = &work
      };
      IDRSSystemResult result;

      IDRSSystemSetBases(&system, limits->s, memory);
      BJIDRSSolveSystem(&system, &result);
      bjidrs->reasons[k] = result.reason;
      bjidrs->its[k]     = result.its;
      bjidrs->norms[k]   = result.norm;
      /* direction and update use half of the columns on average, the sums use all */
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

static PetscErrorCode BJIDRSReset_Host(PC_BJIDRS *bjidrs)
{
  PetscFunctionBegin;
  PetscCall(PetscFree(bjidrs->starts));
  PetscFunctionReturn(PETSC_SUCCESS);
}

const BJIDRSOps BJIDRSBackEnds_Host = {.name = "in the memory of the host", .solve = BJIDRSSolve_Host, .reset = BJIDRSReset_Host};
