/*
   The algebra of a step on the device, so that the host need not wait for the sums. The first block of a projection computes it,
   or, if NCCL adds the sums of other processes, a separate kernel. If the device stops, the host finishes the step. No PETSc call.
*/
#pragma once

#include <petscidrs/private/idrsops.h>
#include "../peers/idrspeers.h"
#include "coefficients.cuh"
#include "rows.cuh"

/*
   The location of the scalars, and the algebra after the sums of a step. If result is NULL, the host does the algebra; if storage
   is NULL, another kernel does. With an exchange the kernel adds the sums of other processes first
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
   Called by a warp. Computes the coefficients of the next passes, and returns true if the recurrence continues. Only a projection
   with a y can belong to the start
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
   Called by all threads of a block. Copies the scalars, without the sums, to shared memory if they fit. Returns the address for the
   scalars and the sums
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
   Called by all threads of a block, once the sums are in storage. Does the algebra, and stores the results for the passes. Inlined,
   although this makes kernels large: a function call took 0.6 to 1.3 us more per step for 13 824 or 262 144 rows on an H200
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
