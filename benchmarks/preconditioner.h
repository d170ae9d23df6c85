/*
   Preconditioners by their names in the option -pcs of the benchmarks: "jacobi"; "poly:8" with a degree, "poly:8:matching" also with a
   scaling; "matching:ilu" with the preconditioner of the permuted matrix
*/
#pragma once

#include <petscpc.h>

/* SetPC - "ilu" is block Jacobi with ILU in the blocks on several processes. Other parts of the name are set as options, so PCSetFromOptions() must follow */
static PetscErrorCode SetPC(PC pc, const char name[])
{
  const MPI_Comm comm = PetscObjectComm((PetscObject)pc);
  char         **parts;
  int            n;
  PetscMPIInt    size;
  PetscBool      ilu, matching;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(comm, &size));
  PetscCall(PetscStrToArray(name, ':', &n, &parts));
  PetscCheck(n > 0, comm, PETSC_ERR_USER, "-pcs: an empty name");
  PetscCall(PetscStrcmp(parts[0], PCILU, &ilu));
  PetscCall(PetscStrcmp(parts[0], "matching", &matching));
  PetscCall(PCSetType(pc, ilu && size > 1 ? PCBJACOBI : parts[0]));
  if (n > 1) PetscCall(PetscOptionsSetValue(NULL, matching ? "-matching_pc_type" : "-pc_poly_degree", parts[1]));
  if (n > 2) PetscCall(PetscOptionsSetValue(NULL, "-pc_poly_scaling", parts[2]));
  PetscCall(PetscStrToArrayDestroy(n, parts));
  PetscFunctionReturn(0);
}
