/*
   Coefficients of a pass: from the host, as an argument of the kernel, or from where a projection has left them on the
   device. No PETSc call.
*/
#pragma once

#include <petscidrs/private/idrsscalars.h>

/* Largest s of the back end: what fits into the arguments of a kernel */
#define IDRS_CUDA_MAX_S 64

/* For up to S columns, or with S = 0 for as many as there may be */
template <int S>
struct IDRSCoefficients {
  PetscScalar omega;
  PetscScalar a[S ? S : IDRS_CUDA_MAX_S]; /* alpha(0:k) and c(k:s) for update, c for combine and advance */
  PetscScalar b[S ? S : IDRS_CUDA_MAX_S]; /* c(0:k) and beta_k for update, beta for advance */
};

/* What came of a projection: the norm of r, and whether the device has stopped there */
typedef struct {
  PetscReal rnorm;
  int       stopped;
} IDRSResult;

/*
   The numbers of IDRSScalars on the device, or NULL, with the result of the last projection. The pass that follows it passes the result on
   to the host, as that takes longer than the projection should: arrived is set to sequence once it is there
*/
typedef struct {
  PetscScalar *storage;
  IDRSResult  *result;
  IDRSResult  *passedon; /* on the host, or NULL */
  uint64_t    *arrived;  /* on the host */
  uint64_t     sequence;
} IDRSResident;

/* Entry j of them, for update of step k, or with k = -1 for the others */
template <int S>
static inline IDRS_HOST_DEVICE void IDRSGetCoefficient(const IDRSScalars *scalars, PetscInt k, PetscInt j, IDRSCoefficients<S> *c)
{
  c->a[j] = j < k ? scalars->alpha[j] : scalars->c[j];
  c->b[j] = j < k ? scalars->c[j] : scalars->beta[j];
  if (j == 0) c->omega = scalars->omega[0];
}

/* Into shared memory, by all threads of a block; false if there is nothing to do any more */
template <int S>
static __device__ __forceinline__ bool IDRSTakeCoefficients(IDRSCoefficients<S> *c, const IDRSCoefficients<S> &given, const IDRSResident &resident, int k, int s)
{
  const int j       = threadIdx.x;
  bool      stopped = false;

  if (resident.storage) {
    IDRSScalars scalars;

    IDRSScalarsSetPointers(&scalars, s, resident.storage);
    stopped = resident.result->stopped; /* on its way together with the coefficients */
    if (j < s) IDRSGetCoefficient<S>(&scalars, k, j, c);
  } else if (j < s) {
    c->a[j] = given.a[j];
    c->b[j] = given.b[j];
    if (j == 0) c->omega = given.omega;
  }
  __syncthreads();
  if (resident.passedon && blockIdx.x == 0 && j == 0) {
    *(volatile PetscReal *)&resident.passedon->rnorm = resident.result->rnorm;
    *(volatile int *)&resident.passedon->stopped     = stopped;
    __threadfence_system();
    *(volatile uint64_t *)resident.arrived = resident.sequence;
  }
  return !stopped;
}

/*
   0, as if it depended on the row i: added to the place of a coefficient inside a loop over rows, it has the coefficient read from
   shared memory where it is used. Kept in registers, as the compiler would, they would leave room for fewer threads.
*/
static __device__ __forceinline__ int IDRSZeroPlace(size_t i)
{
  int zero;

  asm("mov.u32 %0, 0;" : "=r"(zero) : "l"(i));
  return zero;
}
