/*
   Sets a preconditioner by its name in the option -pcs of the benchmarks: "jacobi"; "poly:8" with a degree; "poly:8:matching" with
   a degree and a scaling; "matching:ilu" with the preconditioner of the permuted and scaled matrix
*/
#pragma once

#include <petscpc.h>

/* Sets an option, or removes it if this function has set it for the preconditioner before */
static PetscErrorCode SetPCOption(const char option[], const char value[], PetscBool *set)
{
  PetscFunctionBeginUser;
  if (value) PetscCall(PetscOptionsSetValue(NULL, option, value));
  else if (*set) PetscCall(PetscOptionsClearValue(NULL, option));
  *set = value ? PETSC_TRUE : PETSC_FALSE;
  PetscFunctionReturn(0);
}

/*
   SetPC - "ilu" is block Jacobi with ILU in the blocks on several processes. Other parts of the name are set as options, so
   PCSetFromOptions() must follow
*/
static PetscErrorCode SetPC(PC pc, const char name[])
{
  const MPI_Comm   comm = PetscObjectComm((PetscObject)pc);
  static PetscBool set[3];
  char           **parts;
  int              n;
  PetscMPIInt      size;
  PetscBool        ilu, matching, inner = PETSC_FALSE;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(comm, &size));
  PetscCall(PetscStrToArray(name, ':', &n, &parts));
  PetscCheck(n > 0, comm, PETSC_ERR_USER, "-pcs: an empty name");
  PetscCall(PetscStrcmp(parts[0], PCILU, &ilu));
  PetscCall(PetscStrcmp(parts[0], "matching", &matching));
  PetscCall(PCSetType(pc, ilu && size > 1 ? PCBJACOBI : parts[0]));
  if (matching && n > 1) PetscCall(PetscStrcmp(parts[1], PCILU, &inner));
  PetscCall(SetPCOption("-matching_pc_type", matching && n > 1 ? (inner && size > 1 ? PCBJACOBI : parts[1]) : NULL, &set[0]));
  PetscCall(SetPCOption("-pc_poly_degree", !matching && n > 1 ? parts[1] : NULL, &set[1]));
  PetscCall(SetPCOption("-pc_poly_scaling", !matching && n > 2 ? parts[2] : NULL, &set[2]));
  PetscCall(PetscStrToArrayDestroy(n, parts));
  PetscFunctionReturn(0);
}
