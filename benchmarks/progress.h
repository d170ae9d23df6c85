/*
   How far a benchmark has come, in a line of the standard error that is rewritten in place; nothing unless that is a terminal.
   Not the standard output: mpiexec may give a process a terminal there of its own, whatever its own output is.
*/
#pragma once

#include <petscsys.h>
#include <unistd.h>

/* Progress - Shows a text in the place of the last one; NULL clears the line, before anything else is printed */
static PetscErrorCode Progress(MPI_Comm comm, const char text[])
{
  PetscFunctionBeginUser;
  if (isatty(STDERR_FILENO)) PetscCall(PetscFPrintf(comm, PETSC_STDERR, "\r\033[K%s", text ? text : ""));
  PetscFunctionReturn(0);
}
