/*
   Prints the progress of a benchmark in one line of the standard error, which the next text overwrites. Prints nothing if the
   standard error is not a terminal. The standard output is not tested, because mpiexec may connect it to a terminal of its own
*/
#pragma once

#include <petscsys.h>
#include <unistd.h>

/* Progress - Overwrites the line with a text; NULL clears it, which other output needs first */
static PetscErrorCode Progress(MPI_Comm comm, const char text[])
{
  PetscFunctionBeginUser;
  if (isatty(STDERR_FILENO)) PetscCall(PetscFPrintf(comm, PETSC_STDERR, "\r\033[K%s", text ? text : ""));
  PetscFunctionReturn(0);
}
