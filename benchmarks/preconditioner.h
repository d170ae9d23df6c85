/*
   Preconditioners by their names in the option -pcs of the benchmarks: "jacobi", or "poly:8" with a degree
*/
#pragma once

#include <petscpc.h>

/* SetPC - "ilu" is block Jacobi with ILU in the blocks on several processes. The degree is set as an option, so PCSetFromOptions() must follow */
static PetscErrorCode SetPC(PC pc, const char name[])
{
  const MPI_Comm comm = PetscObjectComm((PetscObject)pc);
  char         **parts;
  int            n;
  PetscMPIInt    size;
  PetscBool      ilu;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(comm, &size));
  PetscCall(PetscStrToArray(name, ':', &n, &parts));
  PetscCheck(n > 0, comm, PETSC_ERR_USER, "-pcs: an empty name");
  PetscCall(PetscStrcmp(parts[0], PCILU, &ilu));
  PetscCall(PCSetType(pc, ilu && size > 1 ? PCBJACOBI : parts[0]));
  if (n > 1) PetscCall(PetscOptionsSetValue(NULL, "-pc_poly_degree", parts[1]));
  PetscCall(PetscStrToArrayDestroy(n, parts));
  PetscFunctionReturn(0);
}
