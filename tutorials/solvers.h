/*
   Reads the Krylov methods of the option -solvers a,b,c, each with an optional number of shadow vectors: idrs:8. Counts their
   matvecs
*/
#pragma once

#include <petscksp.h>
#include "attempt.h"

/* Checks that this PETSc has a method; its name may end in ":s" */
static PetscErrorCode SolverExists(const char solver[], PetscBool *exists)
{
  char type[64], *colon;
  PetscErrorCode (*create)(KSP);

  PetscFunctionBeginUser;
  PetscCall(PetscStrncpy(type, solver, sizeof(type)));
  PetscCall(PetscStrchr(type, ':', &colon));
  if (colon) *colon = '\0';
  PetscCall(KSPInitializePackage());
  PetscCall(PetscFunctionListFind(KSPList, type, &create));
  *exists = (PetscBool)(create != NULL);
  PetscFunctionReturn(0);
}

/*
   Counts the matvecs so far, including transposed products and products of preconditioners; PetscLogDefaultBegin() must have been
   called
*/
static PetscErrorCode MatvecsCount(PetscInt *count)
{
  const char *const  names[] = {"MatMult", "MatMultTranspose"};
  PetscLogEvent      event;
  PetscEventPerfInfo info;

  PetscFunctionBeginUser;
  *count = 0;
  for (size_t k = 0; k < PETSC_STATIC_ARRAY_LENGTH(names); k++) {
    PetscCall(PetscLogEventGetId(names[k], &event));
    PetscCall(PetscLogEventGetPerfInfo(0, event, &info));
    *count += info.count;
  }
  PetscFunctionReturn(0);
}

/*
   SolversFromOptions - Returns the names of -solvers or the default ones, for PetscStrToArrayDestroy(). If this PETSc lacks one of
   them, or the user sets options that the program sets for each of them, usable is PETSC_FALSE and the reason is printed
*/
static PetscErrorCode SolversFromOptions(MPI_Comm comm, const char defaults[], int *count, char ***solvers, PetscBool *usable)
{
  char names[1024];

  PetscFunctionBeginUser;
  PetscCall(PetscStrncpy(names, defaults, sizeof(names)));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-solvers", names, sizeof(names), NULL));
  PetscCall(PetscStrToArray(names, ',', count, solvers));
  attempt.text[0] = '\0';
  PetscCall(PetscOptionsHasName(NULL, NULL, "-ksp_type", usable));
  if (*usable)
    PetscCall(PetscStrncpy(attempt.text, "-ksp_type is set by this program for each method; list methods with -solvers",
                           sizeof(attempt.text)));
  for (int i = 0; i < *count && !attempt.text[0]; i++) {
    PetscCall(SolverExists((*solvers)[i], usable));
    if (!*usable)
      PetscCall(PetscSNPrintf(
        attempt.text, sizeof(attempt.text),
        "this PETSc has no solver %s; idrs comes with -dll_append path/libpetscidrs.so, -help lists the others under -ksp_type",
        (*solvers)[i]));
  }
  *usable = (PetscBool)!attempt.text[0];
  if (!*usable) PetscCall(AttemptPrint(comm));
  PetscFunctionReturn(0);
}
