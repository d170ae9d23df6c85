/*
   The algebra of a step on the device, so that the host need not wait for the sums: by the block of a projection that finishes
   last, or, when sums of other devices are to be added first, by a kernel of its own. Here is what is done with the numbers of
   IDRSScalars, and when the device stops and leaves that to the host. No PETSc call.
*/
#pragma once

#include <petscidrs/private/idrsops.h>
#include "coefficients.cuh"
#include "rows.cuh"
#include "reduce.cuh"

/* Of IDRSNext, and where things are; result = NULL: the host takes the sums; storage = NULL: another kernel goes on */
typedef struct {
  PetscScalar *storage;
  IDRSResult  *result;
  IDRSNext     next;
  PetscReal    shadownorm;
} IDRSContinuation;

/* Called by a warp: whether the recurrence goes on, with coefficients for the kernels that follow. Only a projection with a y may be one of the start */
template <bool Y>
static __device__ __forceinline__ bool IDRSContinue(IDRSScalars *scalars, const IDRSNext &next, PetscReal *rnorm)
{
  const PetscInt  s     = scalars->s;
  const PetscBool start = Y ? next.start : PETSC_FALSE, y = Y ? PETSC_TRUE : PETSC_FALSE;
  PetscReal       rr;

  /* in the start there is a norm to tell before any is pending */
  *rnorm = PetscSqrtReal(PetscRealPart(scalars->sums[next.pending || !Y ? IDRS_SUM_RR(s) : IDRS_SUM_YY(s)]));
  if (!__all_sync(0xffffffffu, IDRSScalarsAreFinite(scalars, y, next.pending))) return false;
  if (next.pending && !(*rnorm > next.low && *rnorm < next.high)) return false;
  return IDRSScalarsContinue(scalars, next.k, start, next.cosine, &rr);
}

/* The numbers into room in shared memory, where they fit, by all threads of a block; what it returns is where they and the sums are to be */
template <int S>
static __device__ __forceinline__ PetscScalar *IDRSGetNumbers(const IDRSContinuation &how, PetscInt s, PetscScalar *room)
{
  const PetscInt algebra = IDRS_STORAGE_SUMS(s);

  if (s > S) return how.storage;
  for (PetscInt i = threadIdx.x; i < algebra; i += IDRS_THREADS) room[i] = how.storage[i];
  return room;
}

/* The algebra, on numbers from there */
template <int S, bool Y>
static __device__ __forceinline__ void IDRSGoOn(const IDRSContinuation &how, PetscInt s, PetscScalar *storage)
{
  __syncthreads();
  if (threadIdx.x < 32) {
    IDRSScalars scalars;
    PetscReal   rnorm;
    bool        stopped;

    IDRSScalarsSetPointers(&scalars, s, storage);
    scalars.shadownorm = how.shadownorm;
    stopped            = !IDRSContinue<Y>(&scalars, how.next, &rnorm);
    if (threadIdx.x == 0) *how.result = {rnorm, stopped};
  }
  __syncthreads();
  if (s > S) return;
  for (PetscInt i = threadIdx.x; i < IDRS_STORAGE(s); i += IDRS_THREADS) how.storage[i] = storage[i];
}

/* The algebra by itself, one block: the sums are among the numbers */
template <int S>
static __global__ void __launch_bounds__(IDRS_THREADS) IDRSNextKernel(IDRSContinuation how, int s)
{
  __shared__ PetscScalar room[IDRS_STORAGE(S)];
  PetscScalar           *storage;

  IDRSAdmitNext();
  IDRSAwaitPrevious();
  if (how.result->stopped) return;
  storage = IDRSGetNumbers<S>(how, s, room);
  for (PetscInt i = IDRS_STORAGE_SUMS(s) + threadIdx.x; i < IDRS_STORAGE(s); i += IDRS_THREADS) storage[i] = how.storage[i];
  if (how.next.start || how.next.k == s) IDRSGoOn<S, true>(how, s, storage);
  else IDRSGoOn<S, false>(how, s, storage);
}
