/*
   What a viewer has written
*/
#pragma once

#include <petscsys.h>

/* The lines of a file of the first process with this text, and the numbers that follow it there; the file is removed */
static PetscErrorCode FileNumbers(const char file[], const char text[], PetscInt max, PetscReal numbers[], PetscInt *lines)
{
  PetscMPIInt rank;

  PetscFunctionBeginUser;
  *lines = 0;
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  if (!rank) {
    FILE *f = fopen(file, "r");
    char  line[2048], *place;

    while (f && fgets(line, sizeof(line), f)) {
      double number = -1.0;

      PetscCall(PetscStrstr(line, text, &place));
      if (!place) continue;
      (void)sscanf(place + strlen(text), "%lf", &number);
      if (*lines < max) numbers[*lines] = (PetscReal)number;
      (*lines)++;
    }
    if (f) fclose(f);
    (void)remove(file);
  }
  PetscCallMPI(MPI_Bcast(lines, 1, MPIU_INT, 0, PETSC_COMM_WORLD));
  PetscCallMPI(MPI_Bcast(numbers, (PetscMPIInt)max, MPIU_REAL, 0, PETSC_COMM_WORLD));
  PetscFunctionReturn(0);
}
