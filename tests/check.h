/*
   What a test program found: each process counts its comparisons, and a line for all of them tells whether all held
*/
#pragma once

#include <petscsys.h>
#include <petscidrs/private/idrscompat.h>

/* What a test has found on this process; the first thing that was wrong is kept for the report */
typedef struct {
  const char *name;
  PetscInt    made, wrong;
  char        first[256];
} Check;

static PetscErrorCode Expect(Check *check, PetscBool holds, const char format[], ...)
{
  va_list arguments;

  PetscFunctionBegin;
  check->made++;
  if (holds) PetscFunctionReturn(PETSC_SUCCESS);
  if (!check->wrong++) {
    va_start(arguments, format);
    PetscCall(PetscVSNPrintf(check->first, sizeof(check->first), format, NULL, arguments));
    va_end(arguments);
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* One line for all processes; a test that made no comparison has not passed */
static PetscErrorCode Verdict(const Check *check)
{
  PetscInt    counts[2] = {check->made, check->wrong};
  PetscMPIInt rank;

  PetscFunctionBegin;
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  IDRSCallAllreduce(MPI_IN_PLACE, counts, 2, MPIU_INT, MPI_SUM, PETSC_COMM_WORLD);
  if (counts[0] && !counts[1]) PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%s: agrees\n", check->name));
  else {
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%s: %" PetscInt_FMT " of %" PetscInt_FMT " wrong\n", check->name, counts[1], counts[0]));
    if (check->wrong) PetscCall(PetscSynchronizedPrintf(PETSC_COMM_WORLD, "  [%d] %s\n", rank, check->first));
    PetscCall(PetscSynchronizedFlush(PETSC_COMM_WORLD, PETSC_STDOUT));
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}
