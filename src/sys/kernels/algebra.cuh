/*
   The algebra of a step on the device, so that the host need not wait for the sums: in the first block of a projection, or, if NCCL
   adds the sums of other processes, in a kernel of its own. If the device stops, the host finishes the step. No PETSc call.
*/
#pragma once

#include <petscidrs/private/idrsops.h>
#include "../peers/idrspeers.h"
#include "coefficients.cuh"
#include "rows.cuh"

/*
   The place of the scalars, and the algebra that follows the sums of a step. result = NULL: the host does the algebra; storage =
   NULL: another kernel does. With an exchange the kernel adds the sums of other processes first
*/
typedef struct {
  PetscScalar     *storage;
  IDRSResult      *result;
  IDRSStep         step;
  IDRSBounds       bounds;
  PetscReal        pivotscale;
  IDRSPeerExchange exchange;
} IDRSAlgebra;

/*
   By a warp: whether the recurrence goes on, with coefficients for the passes that follow. Only a projection with a y may be one of
   the start
*/
template <bool Y>
static __device__ __forceinline__ bool IDRSContinue(IDRSScalars *scalars, const IDRSStep &step, const IDRSBounds &bounds,
                                                    PetscReal *rnorm)
{
  const PetscInt  s     = scalars->s;
  const PetscBool start = Y ? step.start : PETSC_FALSE, y = Y ? PETSC_TRUE : PETSC_FALSE;

  *rnorm = PetscSqrtReal(PetscRealPart(scalars->sums[IDRSNormSum(s, y, step.unreported)]));
  /* alpha, M_k, beta_k, f and the next c, or omega */
  return IDRSScalarsDecide(scalars, step.k, start, y, step.unreported, *rnorm, &bounds) == IDRS_CONTINUES;
}

/*
   By all threads of a block: copies the scalars, without the sums, to shared memory, where they fit; returns where they and the
   sums are to be
*/
template <int S>
static __device__ __forceinline__ PetscScalar *IDRSAlgebraBegin(const IDRSAlgebra &algebra, PetscInt s, PetscScalar *shared)
{
  const PetscInt count = IDRS_STORAGE_SUMS(s);

  if (s > S) return algebra.storage;
  for (PetscInt i = threadIdx.x; i < count; i += IDRS_THREADS) shared[i] = algebra.storage[i];
  return shared;
}

/*
   By all threads of a block, once the sums are in storage: the algebra, and everything back to where the passes read it. Inlined,
   though that makes large kernels: as a function it took 0.6 to 1.3 us more a step of 13 824 or 262 144 rows on an H200
*/
template <int S, bool Y>
static __device__ __forceinline__ void IDRSAlgebraEnd(const IDRSAlgebra &algebra, PetscInt s, PetscScalar *storage)
{
  __syncthreads();
  if (threadIdx.x < IDRS_WARP) {
    IDRSScalars scalars;
    PetscReal   rnorm;
    bool        stopped;

    IDRSScalarsSetPointers(&scalars, s, storage);
    scalars.pivotscale = algebra.pivotscale;
    stopped            = !IDRSContinue<Y>(&scalars, algebra.step, algebra.bounds, &rnorm);
    if (threadIdx.x == 0) *algebra.result = {rnorm, stopped};
  }
  __syncthreads();
  if (s > S) return;
  for (PetscInt i = threadIdx.x; i < IDRS_STORAGE(s); i += IDRS_THREADS) algebra.storage[i] = storage[i];
}
