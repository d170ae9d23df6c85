/*
   Coefficients of a pass: from the host, as an argument of the kernel, or from IDRSScalars in the memory of the device, where a
   projection or the algebra kernel after it has left them. No PETSc call.
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

/* Result of a projection: the norm of r, and whether the device has stopped there */
typedef struct {
  PetscReal rnorm;
  int       stopped;
} IDRSResult;

/*
   The scalars on the device, storage = NULL where they are on the host. The pass after a projection copies its result to the host,
   which would otherwise lengthen the projection, and then sets arrived to sequence.
*/
typedef struct {
  PetscScalar *storage;
  IDRSResult  *result;     /* of the last projection */
  IDRSResult  *hostresult; /* on the host, or NULL: this pass copies nothing */
  uint64_t    *arrived;    /* on the host */
  uint64_t     sequence;
} IDRSDeviceScalars;

/* Entry j of them, for update of step k, or with k = -1 for the other passes */
template <int S>
static inline IDRS_HOST_DEVICE void IDRSGetCoefficient(const IDRSScalars *scalars, PetscInt k, PetscInt j, IDRSCoefficients<S> *c)
{
  c->a[j] = j < k ? scalars->alpha[j] : scalars->c[j];
  c->b[j] = j < k ? scalars->c[j] : scalars->beta[j];
  if (j == 0) c->omega = scalars->omega[0];
}

/* Into shared memory, by all threads of a block; false where the device has stopped */
template <int S>
static __device__ __forceinline__ bool IDRSLoadCoefficients(IDRSCoefficients<S> *c, const IDRSCoefficients<S> *fromhost,
                                                            const IDRSDeviceScalars &device, int k, int s)
{
  const int j       = threadIdx.x;
  bool      stopped = false;

  if (device.storage) {
    IDRSScalars scalars;

    IDRSScalarsSetPointers(&scalars, s, device.storage);
    stopped = device.result->stopped; /* on its way together with the coefficients */
    if (j < s) IDRSGetCoefficient<S>(&scalars, k, j, c);
  } else if (j < s) {
    c->a[j] = fromhost->a[j];
    c->b[j] = fromhost->b[j];
    if (j == 0) c->omega = fromhost->omega;
  }
  __syncthreads();
  if (device.hostresult && blockIdx.x == 0 && j == 0) {
    *(volatile PetscReal *)&device.hostresult->rnorm = device.result->rnorm;
    *(volatile int *)&device.hostresult->stopped     = stopped;
    __threadfence_system();
    *(volatile uint64_t *)device.arrived = device.sequence;
  }
  return !stopped;
}
