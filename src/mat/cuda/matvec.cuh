/*
   Launches a matvec with its projection, for all products. The halo exchange overlaps with the first kernel, which each product
   supplies
*/
#pragma once

#include "../../sys/kernels/project.cuh"
#include "messages.cuh"
#include "offdiagonal.h"

/*
   launch() is called with S, Y, HASHED, the shadow vectors and the boundary. It launches the first kernel, and returns the number
   of its blocks
*/
template <typename L>
static PetscErrorCode IDRSLaunchMatvec(IDRSOffDiagonal off, const IDRSProjection *projection, L &&launch)
{
  unsigned int blocks = 0;
  IDRSBoundary boundary;

  PetscFunctionBegin;
  PetscCall(IDRSOffDiagonalBegin(off, projection->operand, projection->halo, &boundary));
  PetscCall(PetscLogGpuTimeBegin());
  PetscCallCUDA(IDRSDispatchProjection(*projection, [&](auto S, auto Y, auto HASHED, const auto &shadow) {
    blocks = launch(S, Y, HASHED, shadow, boundary);
  }));
  PetscCall(PetscLogGpuTimeEnd());
  PetscCall(IDRSOffDiagonalEnd(off, projection, blocks));
  PetscFunctionReturn(PETSC_SUCCESS);
}
