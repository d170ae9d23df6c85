/*
   The block of a projection that finishes last goes on with the algebra of its step, so that the host need not wait for the sums:
   here is what it does with the numbers of IDRSSmall, and when it stops and leaves that to the host. No PETSc call.
*/
#pragma once

#include <petscidrs/private/idrsops.h>
#include "coefficients.cuh"
#include "reduce.cuh"

/* Of IDRSNext, and where things are; numbers = NULL: the host takes the sums */
typedef struct {
  PetscScalar *numbers;
  IDRSResult  *result;
  IDRSNext     next;
  PetscReal    shadownorm;
} IDRSContinuation;

/* Called by a warp: whether the recurrence goes on, with coefficients for the kernels that follow */
static __device__ __forceinline__ bool IDRSContinue(IDRSSmall *small, const IDRSNext &next, PetscReal *rnorm)
{
  const PetscInt s     = small->s;
  const PetscInt count = next.k == s ? IDRS_SUMS(s) : (next.pending ? s + 2 : s + 1);
  bool           valid = true;
  PetscReal      rr;

  *rnorm = PetscSqrtReal(PetscRealPart(small->sums[IDRS_SUM_RR(s)]));
  for (PetscInt j = IDRS_LANE; j < count; j += IDRS_LANES) valid = valid && PetscAbsScalar(small->sums[j]) <= PETSC_MAX_REAL;
  if (!__all_sync(0xffffffffu, valid)) return false;
  if (next.pending && !(*rnorm > next.low && *rnorm < next.high)) return false;
  return IDRSSmallNext(small, next.k, next.cosine, &rr);
}

/* The numbers into room in shared memory, where they fit, by all threads of a block; what it returns is where they and the sums are to be */
template <int S>
static __device__ __forceinline__ PetscScalar *IDRSGetNumbers(const IDRSContinuation &how, PetscInt s, PetscScalar *room)
{
  const PetscInt algebra = IDRS_NUMBERS(s) - IDRS_SUMS(s);

  if (s > S) return how.numbers;
  for (PetscInt i = threadIdx.x; i < algebra; i += IDRS_THREADS) room[i] = how.numbers[i];
  return room;
}

/* The algebra, on numbers from there */
template <int S>
static __device__ __forceinline__ void IDRSGoOn(const IDRSContinuation &how, PetscInt s, PetscScalar *numbers)
{
  __syncthreads();
  if (threadIdx.x < 32) {
    IDRSSmall small;
    PetscReal rnorm;
    bool      stopped;

    IDRSSmallPlace(&small, s, numbers);
    small.shadownorm = how.shadownorm;
    stopped          = !IDRSContinue(&small, how.next, &rnorm);
    if (threadIdx.x == 0) *how.result = {rnorm, stopped};
  }
  __syncthreads();
  if (s > S) return;
  for (PetscInt i = threadIdx.x; i < IDRS_NUMBERS(s); i += IDRS_THREADS) how.numbers[i] = numbers[i];
}
