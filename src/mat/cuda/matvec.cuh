/*
   A projection with its matvec, as all products launch it: the halo is under way while the first kernel runs, which is the
   product's own
*/
#pragma once

#include "../../sys/kernels/project.cuh"
#include "messages.cuh"
#include "offdiagonal.h"

/*
   launch launches the first kernel, for the S, Y and HASHED, the shadow vectors and the boundary that it is called with, and
   returns the number of its blocks
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
