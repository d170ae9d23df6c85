/*
   Progress of a benchmark, in one line of the standard error that is overwritten; nothing is printed unless that is a terminal.
   The standard output does not tell: mpiexec may give a process a terminal of its own there.
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
