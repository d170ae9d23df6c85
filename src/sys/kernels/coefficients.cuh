/*
   Coefficients of a pass: from the host, as an argument of the kernel, or from IDRSScalars in device memory, where a projection or
   the algebra kernel after it has stored them. No PETSc call.
*/
#pragma once

#include <petscidrs/private/idrsscalars.h>

/* Largest s of the back end, limited by the size of kernel arguments */
#define IDRS_CUDA_MAX_S 64

/* For up to S columns; S = 0 stands for IDRS_CUDA_MAX_S */
template <int S>
struct IDRSCoefficients {
  PetscScalar omega;
  PetscScalar a[S ? S : IDRS_CUDA_MAX_S]; /* alpha(0:k) and c(k:s) for update, c for combine and advance */
  PetscScalar b[S ? S : IDRS_CUDA_MAX_S]; /* c(0:k) and beta_k for update, beta for advance */
};

/* Result of a projection: the norm of r, and a flag that is set if the device has stopped in this step */
typedef struct {
  PetscReal rnorm;
  int       stopped;
} IDRSResult;

/*
   The scalars on the device; storage is NULL if they are on the host. The pass after a projection copies the result of the
   projection to the host, because the copy would lengthen the projection, and then sets arrived to sequence.
*/
typedef struct {
  PetscScalar *storage;
  IDRSResult  *result;     /* of the last projection */
  IDRSResult  *hostresult; /* on the host, or NULL: this pass copies nothing */
  uint64_t    *arrived;    /* on the host */
  uint64_t     sequence;
} IDRSDeviceScalars;

/* Sets entry j of the coefficients for the update of step k, or, if k = -1, for the other passes */
template <int S>
static inline IDRS_HOST_DEVICE void IDRSGetCoefficient(const IDRSScalars *scalars, PetscInt k, PetscInt j, IDRSCoefficients<S> *c)
{
  c->a[j] = j < k ? scalars->alpha[j] : scalars->c[j];
  c->b[j] = j < k ? scalars->c[j] : scalars->beta[j];
  if (j == 0) c->omega = scalars->omega[0];
}

/* Called by all threads of a block. Copies the coefficients to shared memory. Returns false if the device has stopped */
template <int S>
static __device__ __forceinline__ bool IDRSLoadCoefficients(IDRSCoefficients<S> *c, const IDRSCoefficients<S> *fromhost,
                                                            const IDRSDeviceScalars &device, int k, int s)
{
  const int j       = threadIdx.x;
  bool      stopped = false;

  if (device.storage) {
    IDRSScalars scalars;

    IDRSScalarsSetPointers(&scalars, s, device.storage);
    stopped = device.result->stopped; /* the load overlaps with the loads of the coefficients */
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
